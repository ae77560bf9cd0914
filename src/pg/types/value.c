/*
 * value.c
 *	  Strict conversion of a JSON text to a value of an SQL type.
 *
 * No value is converted to fit: a string is not a number, a missing attribute is not null, and an
 * unknown one is an error.  Errors are returned, with the position in the JSON text.  A number that
 * is too small for a float becomes 0, as is usual for JSON.
 *
 * Domains' CHECKs are evaluated here, not by the domain's own cast, to distinguish a CHECK that is
 * false from one that raises an error.
 *
 * Tests: tests/sql/28_types.sql.
 */
#include "postgres.h"

#include <math.h>
#include <stdarg.h>

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"
#include "utils/rangetypes.h"
#include "utils/typcache.h"

#include "pg/compat.h"
#include "pg/types/shape.h"

/* A position in the text: a list from the innermost part outwards. */
typedef struct ValuePlace
{
	const struct ValuePlace *outer;
	const char *name;			/* name of a member, NULL: an element */
	int			index;
} ValuePlace;

static ErrorData *convert(TypeShape *s, const JsonNode *j, bool nullable, const ValuePlace *at,
						  Datum *value, bool *isnull);

static void
put_place(StringInfo out, const ValuePlace *at)
{
	if (at == NULL)
		return;
	put_place(out, at->outer);
	if (at->name != NULL)
		appendStringInfo(out, "%s%s", out->len > 0 ? "." : "", at->name);
	else
		appendStringInfo(out, "[%d]", at->index);
}

static ErrorData *
refuse(const ValuePlace *at, int sqlstate, const char *fmt,...) pg_attribute_printf(3, 4);

static ErrorData *
refuse(const ValuePlace *at, int sqlstate, const char *fmt,...)
{
	ErrorData  *e = palloc0(sizeof(ErrorData));
	StringInfoData message;
	StringInfoData place;

	initStringInfo(&message);
	initStringInfo(&place);
	for (;;)
	{
		va_list		args;
		int			needed;

		va_start(args, fmt);
		needed = appendStringInfoVA(&message, fmt, args);
		va_end(args);
		if (needed == 0)
			break;
		enlargeStringInfo(&message, needed);
	}
	put_place(&place, at);
	e->elevel = ERROR;
	e->sqlerrcode = sqlstate;
	e->message = message.data;
	if (place.len > 0)
		e->detail = psprintf("It stands at \"%s\" in the JSON text.", place.data);
	e->assoc_context = CurrentMemoryContext;
	return e;
}

static ErrorData *
wrong_kind(const TypeShape *s, const JsonNode *j, const ValuePlace *at, JsonKind wanted)
{
	return refuse(at, ERRCODE_INVALID_PARAMETER_VALUE, "%s is expected for type %s, not %s",
				  json_kind_name(wanted), format_type_be(s->type), json_kind_name(j->kind));
}

static ErrorData *
out_of_range(const TypeShape *s, const JsonNode *j, const ValuePlace *at)
{
	return refuse(at, ERRCODE_INVALID_PARAMETER_VALUE, "number %.60s is not one of type %s", j->text,
				  format_type_with_typemod(s->type, s->typmod));
}

/*
 * Convert by the type's own input function.  Its errors about the text are returned, too.  They may
 * be caught without a subtransaction, because these are system types whose functions hold no
 * resources but memory when they refuse their input.
 */
static ErrorData *
read_text(TypeShape *s, char *text, const ValuePlace *at, Datum *value)
{
	MemoryContext cxt = CurrentMemoryContext;
	ErrorData  *volatile refused = NULL;
	StringInfoData place;

	if (!s->has_input)
	{
		Oid			function;

		getTypeInputInfo(s->base, &function, &s->ioparam);
		fmgr_info(function, &s->input);
		s->has_input = true;
	}
	PG_TRY();
	{
		*value = InputFunctionCall(&s->input, text, s->ioparam, s->base_typmod);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(cxt);
		refused = compat_caught_error();
		if (ERRCODE_TO_CATEGORY(refused->sqlerrcode) != ERRCODE_DATA_EXCEPTION)
			PG_RE_THROW();
		FlushErrorState();
	}
	PG_END_TRY();
	if (refused == NULL)
		return NULL;
	initStringInfo(&place);
	put_place(&place, at);
	if (place.len > 0)
		refused->detail = psprintf("%s%sIt stands at \"%s\" in the JSON text.",
								   refused->detail ? refused->detail : "", refused->detail ? " " : "",
								   place.data);
	return refused;
}

/* ---- numbers ---- */

static ErrorData *
to_int(TypeShape *s, const JsonNode *j, const ValuePlace *at, Datum *value)
{
	Datum		n = type_numeric(j->text);
	Datum		whole = DirectFunctionCall2(numeric_trunc, n, Int32GetDatum(0));

	if (!DatumGetBool(DirectFunctionCall2(numeric_eq, n, whole)) ||
		DatumGetBool(DirectFunctionCall2(numeric_lt, n, type_numeric(s->least))) ||
		DatumGetBool(DirectFunctionCall2(numeric_gt, n, type_numeric(s->most))))
		return out_of_range(s, j, at);
	return read_text(s, DatumGetCString(DirectFunctionCall1(numeric_out, whole)), at, value);
}

static ErrorData *
to_float(TypeShape *s, const JsonNode *j, const ValuePlace *at, Datum *value)
{
	if (s->base == FLOAT4OID)
	{
		float		f = strtof(j->text, NULL);

		if (isinf(f))
			return out_of_range(s, j, at);
		*value = Float4GetDatum(f);
	}
	else
	{
		double		d = strtod(j->text, NULL);

		if (isinf(d))
			return out_of_range(s, j, at);
		*value = Float8GetDatum(d);
	}
	return NULL;
}

/* A numeric with precision and scale may overflow when it is rounded up. */
static ErrorData *
to_numeric(TypeShape *s, const JsonNode *j, const ValuePlace *at, Datum *value)
{
	Datum		n = type_numeric(j->text);

	if (s->base_typmod >= (int32) VARHDRSZ)
	{
		int			scale = (((s->base_typmod - VARHDRSZ) & 0x7ff) ^ 1024) - 1024;

		n = DirectFunctionCall2(numeric_round, n, Int32GetDatum(scale));
		if (DatumGetBool(DirectFunctionCall2(numeric_lt, n, type_numeric(s->least))) ||
			DatumGetBool(DirectFunctionCall2(numeric_gt, n, type_numeric(s->most))))
			return out_of_range(s, j, at);
		n = DirectFunctionCall2(numeric, n, Int32GetDatum(s->base_typmod));
	}
	*value = n;
	return NULL;
}

/* ---- composite values ---- */

static ErrorData *
to_array(TypeShape *s, const JsonNode *j, const ValuePlace *at, Datum *value)
{
	Datum	   *values = palloc(sizeof(Datum) * Max(j->n, 1));
	int			n = 0;
	int			lower = 1;
	int16		len;
	bool		byval;
	char		align;

	if (j->kind != JSON_ARRAY)
		return wrong_kind(s, j, at, JSON_ARRAY);
	for (const JsonNode *e = j->first; e != NULL; e = e->next)
	{
		ValuePlace	place = {.outer = at,.index = n};
		bool		isnull;
		ErrorData  *refused = convert(s->element, e, false, &place, &values[n], &isnull);

		if (refused)
			return refused;
		n++;
	}
	get_typlenbyvalalign(s->element->type, &len, &byval, &align);
	if (n == 0)
		*value = PointerGetDatum(construct_empty_array(s->element->type));
	else
		*value = PointerGetDatum(construct_md_array(values, NULL, 1, &n, &lower, s->element->type, len, byval,
													align));
	return NULL;
}

/* ERROR for the first member without an attribute, or that occurs twice. */
static ErrorData *
check_members(const TypeShape *s, const JsonNode *j, const ValuePlace *at)
{
	bool	   *seen = palloc0(sizeof(bool) * Max(s->n_attrs, 1));

	for (const JsonNode *m = j->first; m != NULL; m = m->next)
	{
		int			i = 0;

		CHECK_FOR_INTERRUPTS();
		while (i < s->n_attrs && strcmp(s->attrs[i].name, m->key) != 0)
			i++;
		if (i == s->n_attrs)
			return refuse(at, ERRCODE_INVALID_PARAMETER_VALUE, "type %s has no attribute \"%s\"",
						  format_type_be(s->type), m->key);
		if (seen[i])
			return refuse(at, ERRCODE_INVALID_PARAMETER_VALUE, "attribute \"%s\" occurs twice", m->key);
		seen[i] = true;
	}
	pfree(seen);
	return NULL;
}

static ErrorData *
to_composite(TypeShape *s, const JsonNode *j, const ValuePlace *at, Datum *value)
{
	Datum	   *values = palloc0(sizeof(Datum) * Max(s->desc->natts, 1));
	bool	   *nulls = palloc(sizeof(bool) * Max(s->desc->natts, 1));
	ErrorData  *refused;

	if (j->kind != JSON_OBJECT)
		return wrong_kind(s, j, at, JSON_OBJECT);
	refused = check_members(s, j, at);
	memset(nulls, true, sizeof(bool) * Max(s->desc->natts, 1));
	for (int i = 0; i < s->n_attrs && refused == NULL; i++)
	{
		TypeAttr   *a = &s->attrs[i];
		const JsonNode *m = json_tree_get(j, a->name);
		ValuePlace	place = {.outer = at,.name = a->name};

		if (m == NULL)
			refused = refuse(at, ERRCODE_INVALID_PARAMETER_VALUE, "attribute \"%s\" of type %s is missing",
							 a->name, format_type_be(s->type));
		else
			refused = convert(a->shape, m, a->nullable, &place, &values[a->column], &nulls[a->column]);
	}
	if (refused)
		return refused;
	*value = HeapTupleGetDatum(heap_form_tuple(s->desc, values, nulls));
	return NULL;
}

static ErrorData *
range_bound(TypeShape *s, const JsonNode *j, const char *name, const ValuePlace *at, RangeBound *b)
{
	const JsonNode *m = json_tree_get(j, name);
	ValuePlace	place = {.outer = at,.name = name};
	ErrorData  *refused;

	if (m == NULL)
		return refuse(at, ERRCODE_INVALID_PARAMETER_VALUE, "\"%s\" of a range is missing", name);
	refused = convert(s->element, m, true, &place, &b->val, &b->infinite);
	return refused;
}

/* The bounds may come in any order: the smaller one is the lower. */
static ErrorData *
to_range(TypeShape *s, const JsonNode *j, const ValuePlace *at, Datum *value)
{
	TypeCacheEntry *t = lookup_type_cache(s->base, TYPECACHE_RANGE_INFO);
	const JsonNode *bounds;
	RangeBound	lower = {.lower = true};
	RangeBound	upper = {.lower = false};
	ErrorData  *refused;

	if (j->kind != JSON_OBJECT)
		return wrong_kind(s, j, at, JSON_OBJECT);
	if ((refused = range_bound(s, j, "lower", at, &lower)) != NULL ||
		(refused = range_bound(s, j, "upper", at, &upper)) != NULL)
		return refused;
	bounds = json_tree_get(j, "bounds");
	if (j->n != 3 || bounds == NULL || bounds->kind != JSON_STRING || strlen(bounds->text) != 2 ||
		strchr("[(", bounds->text[0]) == NULL || strchr("])", bounds->text[1]) == NULL)
		return refuse(at, ERRCODE_INVALID_PARAMETER_VALUE,
					  "a range must have \"lower\", \"upper\" and \"bounds\", which is one of [) [] (] ()");
	lower.inclusive = !lower.infinite && bounds->text[0] == '[';
	upper.inclusive = !upper.infinite && bounds->text[1] == ']';
	if (!lower.infinite && !upper.infinite && range_cmp_bound_values(t, &lower, &upper) > 0)
	{
		Datum		v = lower.val;

		lower.val = upper.val;
		upper.val = v;
	}
	*value = RangeTypePGetDatum(compat_make_range(t, &lower, &upper));
	return NULL;
}

/* ---- domains ---- */

static ErrorData *
check_domain(const TypeShape *s, const JsonNode *j, const ValuePlace *at, Datum value, bool isnull)
{
	DomainConstraintRef *ref = palloc0(sizeof(DomainConstraintRef));	/* palloc'ed, as the reset
																		 * callback of the context uses
																		 * it */
	ExprContext *cxt = CreateStandaloneExprContext();
	ErrorData  *refused = NULL;
	ListCell   *lc;

	InitDomainConstraintRef(s->type, ref, CurrentMemoryContext, true);
	cxt->domainValue_datum = value;
	cxt->domainValue_isNull = isnull;
	foreach(lc, ref->constraints)
	{
		DomainConstraintState *c = lfirst(lc);

		if (c->constrainttype == DOM_CONSTRAINT_NOTNULL ? isnull : !ExecCheck(c->check_exprstate, cxt))
		{
			refused = refuse(at, c->constrainttype == DOM_CONSTRAINT_NOTNULL ? ERRCODE_NOT_NULL_VIOLATION :
							 ERRCODE_CHECK_VIOLATION, "value for domain %s violates check constraint \"%s\"",
								 format_type_be(s->type),
							 c->name ? c->name : "NOT NULL");
			refused->detail = psprintf("The value is %.*s.%s%s",
									   pg_mbcliplen(j->raw, (int) j->raw_len, 200), j->raw,
									   refused->detail ? " " : "", refused->detail ? refused->detail : "");
			break;
		}
	}
	FreeExprContext(cxt, true);
	return refused;
}

/* ---- a value ---- */

static ErrorData *
convert_base(TypeShape *s, const JsonNode *j, const ValuePlace *at, Datum *value)
{
	switch (s->kind)
	{
		case TYPE_BOOL:
			if (j->kind != JSON_BOOL)
				return wrong_kind(s, j, at, JSON_BOOL);
			*value = BoolGetDatum(j->text[0] == 't');
			return NULL;
		case TYPE_INT:
		case TYPE_FLOAT:
		case TYPE_NUMERIC:
			if (j->kind != JSON_NUMBER)
				return wrong_kind(s, j, at, JSON_NUMBER);
			return s->kind == TYPE_INT ? to_int(s, j, at, value) :
				s->kind == TYPE_FLOAT ? to_float(s, j, at, value) : to_numeric(s, j, at, value);
		case TYPE_STRING:
		case TYPE_ENUM:
			if (j->kind != JSON_STRING)
				return wrong_kind(s, j, at, JSON_STRING);
			if (s->base == NAMEOID && strlen(j->text) >= NAMEDATALEN)
				return refuse(at, ERRCODE_STRING_DATA_RIGHT_TRUNCATION,
							  "value too long for type name, which has %d bytes", NAMEDATALEN - 1);
			return read_text(s, j->text, at, value);
		case TYPE_JSON:
			return read_text(s, pnstrdup(j->raw, j->raw_len), at, value);
		case TYPE_ARRAY:
			return to_array(s, j, at, value);
		case TYPE_COMPOSITE:
			return to_composite(s, j, at, value);
		case TYPE_RANGE:
			return to_range(s, j, at, value);
	}
	return NULL;
}

static ErrorData *
convert(TypeShape *s, const JsonNode *j, bool nullable, const ValuePlace *at, Datum *value, bool *isnull)
{
	ErrorData  *refused = NULL;

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	*value = (Datum) 0;
	/* for type json, null is a value, unless an SQL NULL is allowed here */
	*isnull = j->kind == JSON_NULL && (nullable || s->kind != TYPE_JSON);
	if (*isnull && !nullable)
		return refuse(at, ERRCODE_NOT_NULL_VIOLATION, "a value of type %s must not be null here",
					  format_type_be(s->type));
	if (!*isnull)
		refused = convert_base(s, j, at, value);
	if (refused == NULL && s->type != s->base)
		refused = check_domain(s, j, at, *value, *isnull);
	return refused;
}

ErrorData *
type_value(TypeShape *s, const JsonNode *json, bool nullable, Datum *value, bool *isnull)
{
	return convert(s, json, nullable && !s->not_null, NULL, value, isnull);
}
