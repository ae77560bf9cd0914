/*
 * type_trust.c
 *	  Which roles' code a cast from a type may run.
 *
 * Printing a value runs the type's output function, which only a superuser can create.  Casts to text
 * or json are different: the owner of a type can create casts from it, with functions in any
 * language, and they run as the user whose query casts.  A superuser who reads another role's table
 * by SELECT is safe from them, so he must also be safe where one of our functions casts on his
 * behalf.
 *
 * A type is trusted if it is built in, or belongs to a superuser (types of extensions do) or to the
 * current user.  It does not help that no cast exists now: the owner can create one while a query
 * runs.
 *
 * row_to_json() calls casts to json, also for types within arrays and composite types.  So a value
 * whose type contains one that is not trusted is rebuilt before: the untrusted parts as texts, arrays
 * as arrays of these, composite values as records.  Without casts, row_to_json() prints both forms
 * the same way.
 *
 * Tests: tests/t/072_foreign.pl, tests/sql/28_chat_run.sql.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "pg/util/type_trust.h"

static Datum plain_value(Datum value, Oid type, Oid *plain_type);

static bool
belongs_to(Oid type, Oid role)
{
	HeapTuple	tuple;
	Oid			owner;

	if (type < FirstNormalObjectId)
		return true;
	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	if (!HeapTupleIsValid(tuple))
		return false;
	owner = ((Form_pg_type) GETSTRUCT(tuple))->typowner;
	ReleaseSysCache(tuple);
	return owner == role || superuser_arg(owner);
}

/*
 * Return true if only superusers and the current user can have created casts from this type, or from
 * a domain's base type.
 */
static bool
type_is_trusted(Oid type)
{
	return belongs_to(getBaseType(type), GetUserId());
}

/* Return a domain's base type; InvalidOid for other types. */
static Oid
domain_base(Oid type)
{
	HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	Oid			base = InvalidOid;

	if (HeapTupleIsValid(tuple))
	{
		base = ((Form_pg_type) GETSTRUCT(tuple))->typbasetype;
		ReleaseSysCache(tuple);
	}
	return base;
}

/*
 * Return the type of the values inside a value of the type: a domain's base type, an array's element
 * type, a range's subtype, a multirange's range.  InvalidOid: none, or several.
 */
static Oid
element_type_of(Oid type)
{
	Oid			base = domain_base(type);

	if (OidIsValid(base))
		return base;
	if (type_is_range(type))
		return get_range_subtype(type);
	if (type_is_multirange(type))
		return get_multirange_range(type);
	return get_element_type(type);
}

/* Domains count, too: making a value runs their checks. */
bool
type_is_trusted_by(Oid type, Oid role)
{
	Oid			inner;
	TupleDesc	desc;
	bool		trusted;

	check_stack_depth();
	trusted = belongs_to(type, role);
	inner = element_type_of(type);
	if (!trusted || OidIsValid(inner))
		return trusted && type_is_trusted_by(inner, role);
	if (type == RECORDOID || !type_is_rowtype(type))
		return true;
	desc = lookup_rowtype_tupdesc(type, -1);
	for (int i = 0; i < desc->natts && trusted; i++)
		trusted = TupleDescAttr(desc, i)->attisdropped ||
			type_is_trusted_by(TupleDescAttr(desc, i)->atttypid, role);
	ReleaseTupleDesc(desc);
	return trusted;
}

void
type_check_trusted(const char *column, Oid type)
{
	if (!type_is_trusted(type))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" is of type %s, which belongs to another role", column,
						format_type_be(type)),
				 errdetail("A cast from it could run that role's code as you."),
				 errhint("If you trust that role, cast it in the query: %s::text.",
						 quote_identifier(column))));
}

/*
 * Return true if row_to_json() looks up a cast from this type, or from a type within it, that is not
 * trusted.  For a record only its value can tell.
 */
static bool
has_foreign(Oid type)
{
	Oid			element;
	TupleDesc	desc;
	bool		found = false;

	check_stack_depth();
	type = getBaseType(type);
	element = get_element_type(type);
	if (OidIsValid(element))
		return has_foreign(element);
	if (type == RECORDOID)
		return true;
	if (!type_is_rowtype(type))
		return !type_is_trusted(type);
	desc = lookup_rowtype_tupdesc(type, -1);
	for (int i = 0; i < desc->natts && !found; i++)
		found = !TupleDescAttr(desc, i)->attisdropped && has_foreign(TupleDescAttr(desc, i)->atttypid);
	ReleaseTupleDesc(desc);
	return found;
}

static Datum
printed(Datum value, Oid type, Oid *plain_type)
{
	Oid			func;
	bool		varlena;

	getTypeOutputInfo(type, &func, &varlena);
	*plain_type = TEXTOID;
	return CStringGetTextDatum(OidOutputFunctionCall(func, value));
}

/* Rebuild the array with plain elements; as a text if their type has no array type. */
static Datum
plain_array(Datum value, Oid type, Oid element, Oid *plain_type)
{
	ArrayType  *array = DatumGetArrayTypeP(value);
	Oid			plain = InvalidOid;
	int16		len;
	bool		byval;
	char		align;
	Datum	   *values;
	bool	   *nulls;
	int			n;

	get_typlenbyvalalign(element, &len, &byval, &align);
	deconstruct_array(array, element, len, byval, align, &values, &nulls, &n);
	for (int i = 0; i < n; i++)
		if (!nulls[i])
			values[i] = plain_value(values[i], element, &plain);
	if (!OidIsValid(plain))
		plain = TEXTOID;
	*plain_type = get_array_type(plain);
	if (!OidIsValid(*plain_type))
		return printed(value, type, plain_type);
	get_typlenbyvalalign(plain, &len, &byval, &align);
	return PointerGetDatum(construct_md_array(values, nulls, ARR_NDIM(array), ARR_DIMS(array),
											  ARR_LBOUND(array), plain, len, byval, align));
}

static Datum
plain_composite(Datum value)
{
	HeapTupleHeader header = DatumGetHeapTupleHeader(value);
	HeapTupleData tuple = {.t_len = HeapTupleHeaderGetDatumLength(header),.t_data = header};
	TupleDesc	desc = lookup_rowtype_tupdesc(HeapTupleHeaderGetTypeId(header),
											  HeapTupleHeaderGetTypMod(header));
	Datum		plain = type_plain_row(&tuple, desc);

	ReleaseTupleDesc(desc);
	return plain;
}

static Datum
plain_value(Datum value, Oid type, Oid *plain_type)
{
	Oid			element;

	check_stack_depth();
	*plain_type = type;
	if (!has_foreign(type))
		return value;
	type = getBaseType(type);
	element = get_element_type(type);
	if (OidIsValid(element))
		return plain_array(value, type, element, plain_type);
	if (!type_is_rowtype(type))
		return printed(value, type, plain_type);
	*plain_type = RECORDOID;
	return plain_composite(value);
}

Datum
type_plain_row(HeapTuple tuple, TupleDesc desc)
{
	Datum	   *values = palloc(sizeof(Datum) * Max(desc->natts, 1));
	bool	   *nulls = palloc(sizeof(bool) * Max(desc->natts, 1));
	Oid		   *types = palloc(sizeof(Oid) * Max(desc->natts, 1));
	TupleDesc	plain;
	int			n = 0;

	heap_deform_tuple(tuple, desc, values, nulls);
	for (int i = 0; i < desc->natts; i++)
		if (!TupleDescAttr(desc, i)->attisdropped)
			n++;
	plain = CreateTemplateTupleDesc(n);
	n = 0;
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (att->attisdropped)
			continue;
		nulls[n] = nulls[i];
		/* few row types occur: each is cached for the rest of the session */
		types[n] = nulls[i] && !has_foreign(att->atttypid) ? att->atttypid : TEXTOID;
		if (!nulls[i])
			values[n] = plain_value(values[i], att->atttypid, &types[n]);
		TupleDescInitEntry(plain, (AttrNumber) (n + 1), NameStr(att->attname), types[n], -1, 0);
		n++;
	}
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(plain), values, nulls));
}

char *
type_plain_json(Datum value, Oid type)
{
	FmgrInfo	to_json;
	Oid			plain;
	Node	   *call;

	value = plain_value(value, type, &plain);
	call = (Node *) makeFuncExpr(F_TO_JSON, JSONOID, list_make1(makeNullConst(plain, -1, InvalidOid)),
								 InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL);
	fmgr_info(F_TO_JSON, &to_json);
	/* to_json() finds its argument's type in this expression */
	fmgr_info_set_expr(call, &to_json);
	return TextDatumGetCString(FunctionCall1(&to_json, value));
}
