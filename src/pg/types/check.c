/*
 * check.c
 *	  Conversion of a domain's CHECKs to keywords of JSON Schema.
 *
 * These conditions are converted, joined by AND, and by OR if all arms can be converted:
 *
 *	 VALUE < 5, 0 <= VALUE, BETWEEN		minimum, maximum, exclusive or not; of dates a pattern
 *	 VALUE = 'x', VALUE IN (...)		enum
 *	 VALUE <> 'x', VALUE NOT IN (...)	not
 *	 VALUE ~ '^[a-z]+$', LIKE, SIMILAR TO	pattern
 *	 length(VALUE) <= 10				minLength, maxLength
 *	 cardinality(VALUE) > 0				minItems, maxItems (and array_length(VALUE, 1))
 *	 VALUE IS NOT NULL
 *
 * An arm VALUE IS NULL of an OR does not restrict other values.
 *
 * A keyword may allow fewer values than the CHECK, never more.  So if a number is rounded when it is
 * stored (floats, numerics with a scale), a bound becomes the outermost number that can be stored;
 * rounding keeps the order, so numbers within the bound stay within it.
 *
 * The expression comes from the planner, with constants folded.  But describing a type must not run
 * code of other roles, just as looking at a table doesn't.  So a CHECK of another role that uses more
 * than PostgreSQL's own functions, or a domain, is read without folding.  For that reason CHECKs are
 * read from the catalog, not from the type cache, which folds all of them.
 *
 * Tests: tests/sql/28_types.sql.
 */
#include "postgres.h"

#include <ctype.h>
#include <math.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "common/shortest_dec.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/primnodes.h"
#include "optimizer/optimizer.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/datetime.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "pg/types/pattern.h"
#include "pg/types/shape.h"
#include "pg/types/string.h"

/* The operators that are converted. */
typedef enum Compare
{
	CMP_NONE, CMP_LT, CMP_LE, CMP_EQ, CMP_NE, CMP_GE, CMP_GT, CMP_MATCH, CMP_LIKE
} Compare;

static bool read_expr(TypeShape *s, List **to, Node *e);

static void
add(List **to, const char *name, const char *value)
{
	SchemaKeyword *k = palloc0(sizeof(SchemaKeyword));

	k->name = name;
	k->value = value;
	*to = lappend(*to, k);
}

/* ---- operators ---- */

static Compare
compare_of(Oid opno)
{
	static const struct
	{
		const char *name;
		Compare		cmp;
	}			names[] = {
		{"<", CMP_LT}, {"<=", CMP_LE}, {"=", CMP_EQ}, {"<>", CMP_NE}, {">=", CMP_GE}, {">", CMP_GT},
		{"~", CMP_MATCH}, {"~~", CMP_LIKE}
	};
	HeapTuple	tup = SearchSysCache1(OPEROID, ObjectIdGetDatum(opno));
	Form_pg_operator op;
	Compare		cmp = CMP_NONE;

	if (!HeapTupleIsValid(tup))
		return CMP_NONE;
	op = (Form_pg_operator) GETSTRUCT(tup);
	for (int i = 0; i < (int) lengthof(names) && op->oprnamespace == PG_CATALOG_NAMESPACE; i++)
		if (strcmp(NameStr(op->oprname), names[i].name) == 0)
			cmp = names[i].cmp;
	ReleaseSysCache(tup);
	return cmp;
}

static Compare
turned(Compare c)
{
	switch (c)
	{
		case CMP_LT:
			return CMP_GT;
		case CMP_LE:
			return CMP_GE;
		case CMP_GE:
			return CMP_LE;
		case CMP_GT:
			return CMP_LT;
		case CMP_EQ:
		case CMP_NE:
			return c;
		default:
			return CMP_NONE;
	}
}

static bool
is_number_type(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID || type == NUMERICOID || type == FLOAT4OID ||
		type == FLOAT8OID;
}

/* Rank of number types: an exact cast goes to a higher rank. */
static int
width_of(Oid type)
{
	switch (type)
	{
		case INT2OID:
			return 1;
		case INT4OID:
			return 2;
		case INT8OID:
			return 3;
		case NUMERICOID:
			return 4;
		default:
			return 0;
	}
}

/* Return true if a cast to the type leaves the value unchanged. */
static bool
keeps_value(const TypeShape *s, Oid type)
{
	if (s->kind == TYPE_INT)
		return width_of(s->base) < width_of(type) ||
			(type == FLOAT8OID && (s->base == INT2OID || s->base == INT4OID));
	return s->base == FLOAT4OID && type == FLOAT8OID;
}

/* Return true if the expression is the domain's value, possibly cast. */
static bool
is_value(const TypeShape *s, Node *e)
{
	if (IsA(e, RelabelType))
	{
		RelabelType *r = (RelabelType *) e;

		return (r->resulttype == s->base || r->resulttype == TEXTOID || r->resulttype == VARCHAROID) &&
			is_value(s, (Node *) r->arg);
	}
	if (IsA(e, FuncExpr))
	{
		FuncExpr   *f = (FuncExpr *) e;

		return list_length(f->args) == 1 && f->funcformat != COERCE_EXPLICIT_CALL &&
			keeps_value(s, f->funcresulttype) && is_value(s, linitial(f->args));
	}
	return IsA(e, CoerceToDomainValue);
}

/* Return true for a call of one of these functions of pg_catalog with the value as its first argument. */
static bool
is_call(const TypeShape *s, Node *e, const char *const *names)
{
	FuncExpr   *f = (FuncExpr *) e;
	char	   *name;

	if (!IsA(e, FuncExpr) || f->args == NIL || get_func_namespace(f->funcid) != PG_CATALOG_NAMESPACE ||
		!is_value(s, linitial(f->args)))
		return false;
	name = get_func_name(f->funcid);
	if (name == NULL)
		return false;
	for (; *names != NULL; names++)
		if (strcmp(name, *names) == 0)
			return true;
	return false;
}

/* ---- numbers ---- */

static int
scale_of(int32 typmod)
{
	return (((typmod - VARHDRSZ) & 0x7ff) ^ 1024) - 1024;
}

/* Return the number as written in JSON, whatever extra_float_digits is. */
static char *
number_text(Oid type, Datum value)
{
	Oid			function;
	bool		varlena;

	if (type == FLOAT4OID)
		return float_to_shortest_decimal(DatumGetFloat4(value));
	if (type == FLOAT8OID)
		return double_to_shortest_decimal(DatumGetFloat8(value));
	getTypeOutputInfo(type, &function, &varlena);
	return OidOutputFunctionCall(function, value);
}

static bool
is_finite(const char *number)
{
	return number[0] == '-' ? isdigit((unsigned char) number[1]) : isdigit((unsigned char) number[0]);
}

/* Return the float nearest to the bound c on its allowed side. */
static char *
float_bound(const TypeShape *s, double c, bool upper, bool exclusive)
{
	if (s->base == FLOAT4OID)
	{
		float		f = (float) c;

		if (upper ? (exclusive ? f >= c : f > c) : (exclusive ? f <= c : f < c))
			f = nextafterf(f, upper ? -INFINITY : INFINITY);
		return isinf(f) ? NULL : number_text(FLOAT4OID, Float4GetDatum(f));
	}
	if (exclusive)
		c = nextafter(c, upper ? -INFINITY : INFINITY);
	return isinf(c) ? NULL : number_text(FLOAT8OID, Float8GetDatum(c));
}

/* Like float_bound(), for numbers with a scale. */
static char *
scaled_bound(int scale, const char *c, bool upper, bool exclusive)
{
	Datum		n = type_numeric(c);
	Datum		unit = type_numeric(psprintf("1e%d", -scale));
	Datum		t = DirectFunctionCall2(numeric_trunc, n, Int32GetDatum(scale));
	PGFunction	beyond = upper ? numeric_gt : numeric_lt;
	PGFunction	step = upper ? numeric_sub : numeric_add;

	if (DatumGetBool(DirectFunctionCall2(beyond, t, n)) ||
		(exclusive && DatumGetBool(DirectFunctionCall2(numeric_eq, t, n))))
		t = DirectFunctionCall2(step, t, unit);
	return DatumGetCString(DirectFunctionCall1(numeric_out, t));
}

/*
 * Written dates have the order of their texts, so match d, or a prefix of d, a digit beyond d's next
 * one, and any digits after it.
 */
static char *
date_pattern(const char *d, bool upper)
{
	StringInfoData out;
	StringInfoData json;

	initStringInfo(&out);
	appendStringInfo(&out, "^(?:%s", d);
	for (int i = 0; d[i] != '\0'; i++)
	{
		if (d[i] == '-' || d[i] == (upper ? '0' : '9'))
			continue;
		appendStringInfo(&out, "|%.*s[%c-%c]", i, d, upper ? '0' : d[i] + 1, upper ? d[i] - 1 : '9');
		for (int j = i + 1; d[j] != '\0'; j++)
			appendStringInfoString(&out, d[j] == '-' ? "-" : "[0-9]");
	}
	appendStringInfoString(&out, ")$");
	initStringInfo(&json);
	type_put_string(&json, out.data);
	return json.data;
}

static bool
read_date_bound(List **to, Compare cmp, const Const *c)
{
	bool		upper = cmp == CMP_LT || cmp == CMP_LE;
	DateADT		date = DatumGetDateADT(c->constvalue);
	int			year,
				month,
				day;

	if (DATE_NOT_FINITE(date))
		return false;
	if (cmp == CMP_LT || cmp == CMP_GT)
		date += upper ? -1 : 1;
	j2date(date + POSTGRES_EPOCH_JDATE, &year, &month, &day);
	if (year < 1 || year > 9999)
		return false;
	add(to, "pattern", date_pattern(psprintf("%04d-%02d-%02d", year, month, day), upper));
	return true;
}

static bool
read_bound(const TypeShape *s, List **to, Compare cmp, const Const *c)
{
	bool		upper = cmp == CMP_LT || cmp == CMP_LE;
	bool		exclusive = cmp == CMP_LT || cmp == CMP_GT;
	char	   *number;

	if (s->base == DATEOID && c->consttype == DATEOID)
		return read_date_bound(to, cmp, c);
	if (!is_number_type(c->consttype))
		return false;
	number = number_text(c->consttype, c->constvalue);
	if (!is_finite(number))
		return false;
	if (s->kind == TYPE_FLOAT)
	{
		if (c->consttype != FLOAT8OID && c->consttype != FLOAT4OID)
			return false;
		number = float_bound(s, c->consttype == FLOAT8OID ? DatumGetFloat8(c->constvalue) :
							 DatumGetFloat4(c->constvalue), upper, exclusive);
		exclusive = false;
	}
	else if (s->kind == TYPE_INT)
	{
		number = scaled_bound(0, number, upper, exclusive);
		exclusive = false;
	}
	else if (s->kind == TYPE_NUMERIC && s->base_typmod >= (int32) VARHDRSZ)
	{
		number = scaled_bound(scale_of(s->base_typmod), number, upper, exclusive);
		exclusive = false;
	}
	else if (s->kind != TYPE_NUMERIC)
		return false;
	if (number == NULL)
		return false;
	add(to, exclusive ? (upper ? "exclusiveMaximum" : "exclusiveMinimum") : (upper ? "maximum" : "minimum"),
		number);
	return true;
}

/* ---- lists ---- */

/*
 * Return true if a number is stored unchanged with this scale.  If it is rounded, other numbers
 * become equal to it.
 */
static bool
is_stored_as(int32 typmod, const char *number)
{
	Datum		n = type_numeric(number);

	return DatumGetBool(DirectFunctionCall2(numeric_eq, n,
											DirectFunctionCall2(numeric_round, n,
																Int32GetDatum(scale_of(typmod)))));
}

/* Return a constant as JSON; NULL if values of this type can't be compared with it in JSON. */
static char *
constant_json(const TypeShape *s, bool among, Oid type, Datum value)
{
	StringInfoData out;
	char	   *number;
	char	   *text;

	switch (s->kind)
	{
		case TYPE_INT:
		case TYPE_NUMERIC:
			if (!is_number_type(type))
				return NULL;
			number = number_text(type, value);
			if (!is_finite(number))
				return NULL;
			if (s->kind == TYPE_NUMERIC && s->base_typmod >= (int32) VARHDRSZ &&
				!(among && is_stored_as(s->base_typmod, number)))
				return NULL;
			return number;
		case TYPE_STRING:
			if (s->string->pattern != NULL || (s->base == BPCHAROID) != (type == BPCHAROID) ||
				(type != BPCHAROID && type != TEXTOID && type != VARCHAROID && type != NAMEOID))
				return NULL;
			break;
		case TYPE_ENUM:
			if (type != s->base)
				return NULL;
			break;
		default:
			return NULL;
	}
	initStringInfo(&out);
	text = number_text(type, value);
	if (type == BPCHAROID)
		text[bpchartruelen(text, (int) strlen(text))] = '\0';
	type_put_string(&out, text);
	return out.data;
}

/*
 * Return true if values that differ in JSON also differ for the operator.  That does not hold for
 * values that its collation finds equal, nor for char(n) with trailing blanks.
 */
static bool
distinguishes(const TypeShape *s, Oid collation)
{
	return s->base != BPCHAROID && (!OidIsValid(collation) || get_collation_isdeterministic(collation));
}

/* values: JSON, without brackets */
static bool
put_enum(const TypeShape *s, List **to, bool among, const char *values, Oid collation)
{
	if (among)
	{
		add(to, "enum", psprintf("[%s]", values));
		return true;
	}
	if (strcmp(values, "\"\"") == 0)
		add(to, "minLength", "1");
	else
		add(to, "not", psprintf("{\"enum\": [%s]}", values));
	return distinguishes(s, collation);
}

static bool
read_equal(const TypeShape *s, List **to, Compare cmp, const Const *c, Oid collation)
{
	char	   *value = constant_json(s, cmp == CMP_EQ, c->consttype, c->constvalue);

	return value != NULL && put_enum(s, to, cmp == CMP_EQ, value, collation);
}

/* VALUE = ANY (array), VALUE <> ALL (array) */
static bool
read_array(const TypeShape *s, List **to, ScalarArrayOpExpr *e)
{
	Compare		cmp = compare_of(e->opno);
	Const	   *c = lsecond(e->args);
	StringInfoData list;
	ArrayType  *array;
	Datum	   *values;
	bool	   *nulls;
	int			n;
	int16		len;
	bool		byval;
	char		align;

	if (!is_value(s, linitial(e->args)) || !IsA(c, Const) || c->constisnull ||
		cmp != (e->useOr ? CMP_EQ : CMP_NE))
		return false;
	array = DatumGetArrayTypeP(c->constvalue);
	get_typlenbyvalalign(ARR_ELEMTYPE(array), &len, &byval, &align);
	deconstruct_array(array, ARR_ELEMTYPE(array), len, byval, align, &values, &nulls, &n);
	initStringInfo(&list);
	for (int i = 0; i < n; i++)
	{
		char	   *value = nulls[i] ? NULL : constant_json(s, e->useOr, ARR_ELEMTYPE(array), values[i]);

		if (value == NULL)
			return false;
		appendStringInfo(&list, "%s%s", i > 0 ? ", " : "", value);
	}
	return n > 0 && put_enum(s, to, e->useOr, list.data, e->inputcollid);
}

/* ---- strings and arrays ---- */

/* Return true if a matching text might not match with trailing blanks. */
static bool
looks_at_end(Compare cmp, const char *pattern)
{
	size_t		n = strlen(pattern);

	if (cmp == CMP_LIKE)
		return n == 0 || pattern[n - 1] != '%' || (n > 1 && pattern[n - 2] == '\\');
	return strchr(pattern, '$') != NULL;
}

static bool
read_pattern(const TypeShape *s, List **to, Compare cmp, const Const *c)
{
	StringInfoData pattern;
	StringInfoData json;
	char	   *from;

	if (s->kind != TYPE_STRING || s->string->pattern != NULL || c->consttype != TEXTOID)
		return false;
	from = TextDatumGetCString(c->constvalue);
	initStringInfo(&pattern);
	if (!(cmp == CMP_LIKE ? pattern_from_like(&pattern, from) : pattern_from_regex(&pattern, from)))
		return false;
	initStringInfo(&json);
	type_put_string(&json, pattern.data);
	add(to, "pattern", json.data);
	/* the padding of char(n) takes part in the match, so where that matters it must be in the text */
	if (s->base == BPCHAROID && s->max_length > 0 && looks_at_end(cmp, from))
		add(to, "minLength", psprintf("%d", s->max_length));
	return true;
}

/* Convert a comparison of a count with a constant. */
static bool
read_count(List **to, Compare cmp, const Const *c, const char *least, const char *most)
{
	int			n;

	if (c->consttype != INT4OID)
		return false;
	n = DatumGetInt32(c->constvalue);
	if (n < 0 || n > 1000000)
		return false;
	if (cmp == CMP_GT || cmp == CMP_GE || cmp == CMP_EQ)
		add(to, least, psprintf("%d", cmp == CMP_GT ? n + 1 : n));
	if ((cmp == CMP_LT && n > 0) || cmp == CMP_LE || cmp == CMP_EQ)
		add(to, most, psprintf("%d", cmp == CMP_LT ? n - 1 : n));
	return cmp != CMP_NE && !(cmp == CMP_LT && n == 0);
}

/* array_length(VALUE, 1): NULL for an empty array, with which a CHECK passes */
static bool
is_first_length(const TypeShape *s, Node *e)
{
	static const char *const names[] = {"array_length", NULL};
	Const	   *c;

	if (!is_call(s, e, names))
		return false;
	c = lsecond(((FuncExpr *) e)->args);
	return IsA(c, Const) && !c->constisnull && DatumGetInt32(c->constvalue) == 1;
}

/* ---- expressions ---- */

static bool
read_compare(TypeShape *s, List **to, OpExpr *e)
{
	static const char *const lengths[] = {"length", "char_length", "character_length", NULL};
	static const char *const counts[] = {"cardinality", NULL};
	Compare		cmp = compare_of(e->opno);
	Node	   *left;
	Node	   *right;
	Const	   *c;

	if (list_length(e->args) != 2 || cmp == CMP_NONE)
		return false;
	left = linitial(e->args);
	right = lsecond(e->args);
	if (IsA(left, Const))
	{
		Node	   *swap = left;

		left = right;
		right = swap;
		cmp = turned(cmp);
	}
	c = (Const *) right;
	if (!IsA(right, Const) || c->constisnull)
		return false;
	if (is_value(s, left))
	{
		if (cmp == CMP_MATCH || cmp == CMP_LIKE)
			return read_pattern(s, to, cmp, c);
		if (cmp == CMP_EQ || cmp == CMP_NE)
			return read_equal(s, to, cmp, c, e->inputcollid);
		return cmp != CMP_NONE && read_bound(s, to, cmp, c);
	}
	if (cmp == CMP_NONE || cmp == CMP_MATCH || cmp == CMP_LIKE)
		return false;
	if (s->kind == TYPE_STRING && s->string->pattern == NULL && s->base != BPCHAROID &&
		is_call(s, left, lengths))
		return read_count(to, cmp, c, "minLength", "maxLength");
	if (s->kind == TYPE_ARRAY && (is_call(s, left, counts) || is_first_length(s, left)))
		return read_count(to, cmp, c, "minItems", "maxItems");
	return false;
}

static bool
is_null_test(const TypeShape *s, Node *e, NullTestType which)
{
	return IsA(e, NullTest) && ((NullTest *) e)->nulltesttype == which &&
		is_value(s, (Node *) ((NullTest *) e)->arg);
}

/* Add {"anyOf": [...]}, if all arms can be converted. */
static bool
read_or(TypeShape *s, List **to, List *all)
{
	StringInfoData any;
	List	   *arms = NIL;
	ListCell   *lc;

	foreach(lc, all)
		if (!is_null_test(s, lfirst(lc), IS_NULL))
			arms = lappend(arms, lfirst(lc));
	if (arms == NIL)
		return false;
	if (list_length(arms) == 1)
		return read_expr(s, to, linitial(arms));
	initStringInfo(&any);
	foreach(lc, arms)
	{
		List	   *arm = NIL;
		ListCell   *k;

		if (!read_expr(s, &arm, lfirst(lc)) || arm == NIL)
			return false;
		appendStringInfoString(&any, any.len > 0 ? ", {" : "[{");
		foreach(k, arm)
		{
			SchemaKeyword *word = lfirst(k);

			/* the same keyword twice: the arm would need an allOf of its own */
			for (int i = 0; i < foreach_current_index(k); i++)
				if (strcmp(((SchemaKeyword *) list_nth(arm, i))->name, word->name) == 0)
					return false;
			appendStringInfo(&any, "%s\"%s\": %s", foreach_current_index(k) > 0 ? ", " : "", word->name,
							 word->value);
		}
		appendStringInfoChar(&any, '}');
	}
	appendStringInfoChar(&any, ']');
	add(to, "anyOf", any.data);
	return true;
}

/* Convert an expression; return true if the keywords express all of it. */
static bool
read_expr(TypeShape *s, List **to, Node *e)
{
	ListCell   *lc;
	bool		all = true;

	if (IsA(e, BoolExpr) && ((BoolExpr *) e)->boolop == AND_EXPR)
	{
		foreach(lc, ((BoolExpr *) e)->args)
			all &= read_expr(s, to, lfirst(lc));
		return all;
	}
	if (IsA(e, BoolExpr) && ((BoolExpr *) e)->boolop == OR_EXPR)
		return read_or(s, to, ((BoolExpr *) e)->args);
	if (IsA(e, OpExpr))
		return read_compare(s, to, (OpExpr *) e);
	if (IsA(e, ScalarArrayOpExpr))
		return read_array(s, to, (ScalarArrayOpExpr *) e);
	/* for a row type it tests the columns, too */
	return is_null_test(s, e, IS_NOT_NULL) && !((NullTest *) e)->argisrow;
}

/* Return true for VALUE IS NOT NULL, alone or as a part of an AND. */
static bool
says_not_null(TypeShape *s, Node *e)
{
	ListCell   *lc;

	if (IsA(e, BoolExpr) && ((BoolExpr *) e)->boolop == AND_EXPR)
		foreach(lc, ((BoolExpr *) e)->args)
			if (says_not_null(s, lfirst(lc)))
				return true;
	return is_null_test(s, e, IS_NOT_NULL);
}

/* ---- the CHECKs ---- */

/*
 * True while the planner folds a CHECK; it stays true after an error of a function that was called
 * for it.
 */
static bool folding = false;

/*
 * Return true if the function is not PostgreSQL's own and, in a CHECK of the current user, belongs
 * neither to that user nor to a superuser.
 */
static bool
is_foreign(Oid function, void *context)
{
	const bool *own = context;
	HeapTuple	tuple;
	Oid			owner;

	if (function < FirstNormalObjectId)
		return false;
	tuple = *own ? SearchSysCache1(PROCOID, ObjectIdGetDatum(function)) : NULL;
	if (!HeapTupleIsValid(tuple))
		return true;
	owner = ((Form_pg_proc) GETSTRUCT(tuple))->proowner;
	ReleaseSysCache(tuple);
	return owner != GetUserId() && !superuser_arg(owner);
}

/* Return true if folding could run code of another role, as a function or as a domain's CHECK. */
static bool
runs_code(Node *node, void *own)
{
	if (node == NULL)
		return false;
	return IsA(node, CoerceToDomain) || IsA(node, SubLink) ||
		(IsA(node, CoerceViaIO) && exprType(node) >= FirstNormalObjectId) ||
		check_functions_in_node(node, is_foreign, own) ||
		expression_tree_walker(node, runs_code, own);
}

bool
type_folding_failed(void)
{
	bool		failed = folding;

	folding = false;
	return failed;
}

static void
read_check(TypeShape *s, const char *name, Node *e, bool own)
{
	if (!runs_code(e, &own))
	{
		folding = true;
		e = (Node *) expression_planner((Expr *) e);
		folding = false;
	}
	s->not_null |= says_not_null(s, e);
	if (!read_expr(s, &s->keywords, e))
		s->unread = lappend(s->unread, pstrdup(name));
}

typedef struct CheckText
{
	char	   *name;
	char	   *text;			/* the expression as text */
} CheckText;

static int
by_name(const ListCell *a, const ListCell *b)
{
	return strcmp(((const CheckText *) lfirst(a))->name, ((const CheckText *) lfirst(b))->name);
}

/* Return a domain's own CHECKs, in order of their names as PostgreSQL checks them. */
static List *
checks_of(Oid type)
{
	Relation	rel = table_open(ConstraintRelationId, AccessShareLock);
	List	   *checks = NIL;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_constraint_contypid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(type));
	scan = systable_beginscan(rel, ConstraintTypidIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_constraint form = (Form_pg_constraint) GETSTRUCT(tuple);
		CheckText  *c = palloc(sizeof(CheckText));
		bool		isnull;
		Datum		bin = heap_getattr(tuple, Anum_pg_constraint_conbin, RelationGetDescr(rel), &isnull);

		if (form->contype != CONSTRAINT_CHECK || isnull)
			continue;
		c->name = pstrdup(NameStr(form->conname));
		c->text = TextDatumGetCString(bin);
		checks = lappend(checks, c);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	list_sort(checks, by_name);
	return checks;
}

/* Convert the CHECKs of the domain and of its base domains, those first. */
static void
read_checks(TypeShape *s, Oid type)
{
	HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	Oid			base = InvalidOid;
	bool		own;
	ListCell   *lc;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for type %u", type);
	own = ((Form_pg_type) GETSTRUCT(tuple))->typowner == GetUserId();
	if (((Form_pg_type) GETSTRUCT(tuple))->typtype == TYPTYPE_DOMAIN)
	{
		base = ((Form_pg_type) GETSTRUCT(tuple))->typbasetype;
		s->not_null |= ((Form_pg_type) GETSTRUCT(tuple))->typnotnull;
	}
	ReleaseSysCache(tuple);
	if (!OidIsValid(base))
		return;
	read_checks(s, base);
	foreach(lc, checks_of(type))
	{
		CheckText  *c = lfirst(lc);

		CHECK_FOR_INTERRUPTS();
		read_check(s, c->name, stringToNode(c->text), own);
	}
}

void
type_read_checks(TypeShape *s)
{
	read_checks(s, s->type);
}
