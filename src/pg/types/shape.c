/*
 * shape.c
 *	  Building the shape of an SQL type from the catalog; llm_type_schema() and vllm.from_json().
 *
 * System types without a counterpart in JSON are strings that the type's own input function reads,
 * whatever the session's settings are.  string_types.def has a pattern for each, narrow enough that
 * the function accepts everything that it matches.  All other types are refused by name: a pattern
 * that is too wide would break the promise that an output can be cast.
 *
 * Tests: tests/sql/28_types.sql, tests/t/086_types.pl.
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/comment.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"
#include "utils/rangetypes.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "pg/util/named_args.h"
#include "pg/types/shape.h"
#include "pg/types/string.h"

PG_FUNCTION_INFO_V1(llm_type_schema);
PG_FUNCTION_INFO_V1(llm_from_json);

/* The most digits of a bound. */
#define MAX_BOUND_DIGITS	300

/* Nested composite types multiply: the schema of a type with more parts than this would be too long. */
#define MAX_PARTS	20000

/* State of building a shape. */
typedef struct ShapeMaking
{
	Oid			whole;			/* the type that was asked for */
	int			n;				/* number of parts so far */
} ShapeMaking;

static TypeShape *part_shape(ShapeMaking *m, Oid type, int32 typmod);

static void
no_shape(const TypeShape *s, const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("there is no JSON schema for type %s", format_type_be(s->type)),
			 errdetail("%s", why),
			 errhint("Use text there, and cast the result.")));
}

Datum
type_numeric(const char *s)
{
	return DirectFunctionCall3(numeric_in, CStringGetDatum(s), ObjectIdGetDatum(InvalidOid),
							   Int32GetDatum(-1));
}

/* ---- comments ---- */

/* Return the comment of a column, or of the type (column 0); comments of system types are not useful. */
static const char *
comment_of(Oid type, int column)
{
	Oid			relid = get_typ_typrelid(type);
	char	   *c = NULL;

	if (type < FirstNormalObjectId)
		return NULL;
	if (column > 0)
		return GetComment(relid, RelationRelationId, column);
	c = GetComment(type, TypeRelationId, 0);
	if (c == NULL && OidIsValid(relid))
		c = GetComment(relid, RelationRelationId, 0);
	return c;
}

/* ---- numbers ---- */

static void
int_shape(TypeShape *s, const char *least, const char *most)
{
	s->kind = TYPE_INT;
	s->least = least;
	s->most = most;
}

/* numeric(precision, scale): the bound has as many nines as there is room for. */
static void
numeric_shape(TypeShape *s)
{
	int			precision,
				scale;
	int			whole;
	StringInfoData most;

	s->kind = TYPE_NUMERIC;
	if (s->base_typmod < (int32) VARHDRSZ)
	{
		/* a numeric can hold far larger numbers, but no schema needs them */
		s->least = "-1e300";
		s->most = "1e300";
		return;
	}
	precision = ((s->base_typmod - VARHDRSZ) >> 16) & 0xffff;
	scale = (((s->base_typmod - VARHDRSZ) & 0x7ff) ^ 1024) - 1024;
	whole = precision - scale;
	initStringInfo(&most);
	if (whole > MAX_BOUND_DIGITS)
		appendStringInfoString(&most, "1e300");
	else
	{
		for (int i = 0; i < whole; i++)
			appendStringInfoChar(&most, i < precision ? '9' : '0');
		if (whole <= 0)
			appendStringInfoChar(&most, '0');
		if (scale > 0)
		{
			appendStringInfoChar(&most, '.');
			for (int i = 0; i < scale && i < MAX_BOUND_DIGITS - Max(whole, 0); i++)
				appendStringInfoChar(&most, i < -whole ? '0' : '9');
		}
	}
	s->most = most.data;
	s->least = psprintf("-%s", most.data);
}

/* ---- parts ---- */

static void
array_shape(ShapeMaking *m, TypeShape *s, Oid element)
{
	s->kind = TYPE_ARRAY;
	s->element = part_shape(m, element, s->base_typmod);
}

static void
range_shape(ShapeMaking *m, TypeShape *s)
{
	TypeCacheEntry *t = lookup_type_cache(s->base, TYPECACHE_RANGE_INFO);

	s->kind = TYPE_RANGE;
	s->element = part_shape(m, t->rngelemtype->type_id, -1);

	/* their canonical function adds one to an inclusive upper bound */
	if (s->base == INT4RANGEOID)
		int_shape(s->element, "-2147483648", "2147483646");
	else if (s->base == INT8RANGEOID)
		int_shape(s->element, "-9223372036854775808", "9223372036854775806");
	else if (s->base != DATERANGEOID && OidIsValid(t->rng_canonical_finfo.fn_oid))
		no_shape(s, "Its canonical function may refuse values.");
}

static void
composite_shape(ShapeMaking *m, TypeShape *s)
{
	TupleDesc	desc = lookup_rowtype_tupdesc_copy(s->base, -1);

	s->kind = TYPE_COMPOSITE;
	s->desc = BlessTupleDesc(desc);
	s->attrs = palloc0(sizeof(TypeAttr) * Max(desc->natts, 1));
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		TypeAttr   *a = &s->attrs[s->n_attrs];

		if (att->attisdropped || att->attgenerated != '\0')
			continue;
		s->n_attrs++;
		a->name = pstrdup(NameStr(att->attname));
		a->column = i;
		a->shape = part_shape(m, att->atttypid, att->atttypmod);
		a->nullable = !att->attnotnull && !a->shape->not_null;
		a->comment = comment_of(s->base, att->attnum);
		if (att->attndims > 1)
			no_shape(s, psprintf("Its column \"%s\" is an array of %d dimensions.", a->name,
								 (int) att->attndims));
	}
}

/* Set the shape of a type that its input function reads from a string. */
static bool
string_shape(TypeShape *s)
{
	s->string = type_string_find(s->base);
	if (s->string == NULL)
		return false;
	s->kind = TYPE_STRING;
	if ((s->base == VARCHAROID || s->base == BPCHAROID) && s->base_typmod >= (int32) VARHDRSZ)
		s->max_length = s->base_typmod - VARHDRSZ;
	else if (s->base == NAMEOID)
		s->max_length = NAMEDATALEN - 1;
	return true;
}

static bool
number_shape(TypeShape *s)
{
	switch (s->base)
	{
		case INT2OID:
			int_shape(s, "-32768", "32767");
			return true;
		case INT4OID:
			int_shape(s, "-2147483648", "2147483647");
			return true;
		case INT8OID:
			int_shape(s, "-9223372036854775808", "9223372036854775807");
			return true;
		case OIDOID:
			int_shape(s, "0", "4294967295");
			return true;
		case FLOAT4OID:
			s->kind = TYPE_FLOAT;
			s->least = "-3.4028235e38";
			s->most = "3.4028235e38";
			return true;
		case FLOAT8OID:
			s->kind = TYPE_FLOAT;
			s->least = "-1.7976931348623157e308";
			s->most = "1.7976931348623157e308";
			return true;
		case NUMERICOID:
			numeric_shape(s);
			return true;
		default:
			return false;
	}
}

static void
base_shape(ShapeMaking *m, TypeShape *s)
{
	char		type = get_typtype(s->base);
	Oid			element = get_element_type(s->base);

	if (s->base == BOOLOID)
		s->kind = TYPE_BOOL;
	else if (s->base == JSONOID || s->base == JSONBOID)
		s->kind = TYPE_JSON;
	else if (number_shape(s) || string_shape(s))
		 /* done */ ;
	/* int2vector and oidvector have elements, too, but a different layout and limits of their own */
	else if (OidIsValid(element) && get_array_type(element) == s->base)
		array_shape(m, s, element);
	else if (type == TYPTYPE_ENUM)
		s->kind = TYPE_ENUM;
	else if (type == TYPTYPE_COMPOSITE)
		composite_shape(m, s);
	else if (type == TYPTYPE_RANGE)
		range_shape(m, s);
	else if (type == TYPTYPE_PSEUDO)
		no_shape(s, "It is a pseudo-type.");
	else
		no_shape(s, "Its texts are not described by a pattern.");
}

static TypeShape *
part_shape(ShapeMaking *m, Oid type, int32 typmod)
{
	TypeShape  *s = palloc0(sizeof(TypeShape));

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	if (++m->n > MAX_PARTS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("type %s has too many parts for a JSON schema", format_type_be(m->whole)),
				 errdetail("The limit is %d columns, elements and bounds.", MAX_PARTS)));
	if (!SearchSysCacheExists1(TYPEOID, ObjectIdGetDatum(type)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("type with OID %u does not exist", type)));
	s->type = type;
	s->typmod = s->base_typmod = typmod;
	s->base = getBaseTypeAndTypmod(type, &s->base_typmod);
	s->comment = comment_of(type, 0);
	base_shape(m, s);
	if (s->base != type)
		type_read_checks(s);
	return s;
}

TypeShape *
type_shape(Oid type, int32 typmod)
{
	ShapeMaking	m = {.whole = type};

	return part_shape(&m, type, typmod);
}

/* ---- SQL ---- */

/* llm_type_schema(type regtype, readable bool) */
Datum
llm_type_schema(PG_FUNCTION_ARGS)
{
	StringInfoData out;

	initStringInfo(&out);
	type_schema(&out, type_shape(PG_GETARG_OID(0), -1), false,
				PG_GETARG_BOOL(1) ? SCHEMA_READABLE : SCHEMA_EXACT);
	PG_RETURN_TEXT_P(cstring_to_text_with_len(out.data, out.len));
}

/* vllm.from_json(instance json, sample anyelement) */
Datum
llm_from_json(PG_FUNCTION_ARGS)
{
	Oid			type = get_fn_expr_argtype(fcinfo->flinfo, 1);
	ErrorData  *refused;
	Datum		value;
	bool		isnull;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	if (!OidIsValid(type))
		elog(ERROR, "could not determine the type of the sample");
	refused = type_value(type_shape(type, fn_arg_typmod(fcinfo, 1)), json_tree(PG_GETARG_TEXT_PP(0)), true,
						 &value, &isnull);
	if (refused)
		ThrowErrorData(refused);
	if (isnull)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(value);
}
