/*
 * schema.c
 *	  The JSON schema of a type's shape.
 *
 * An attribute that may be null has the additional type "null".  All attributes are required, so that
 * an output has them in a fixed order and none is omitted.  The keywords of a domain's CHECKs are
 * merged into those of its base type: of two bounds the tighter one is used, and keywords that can't
 * occur twice go to allOf.
 *
 * Tests: tests/sql/28_types.sql.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"
#include "utils/syscache.h"

#include "pg/types/shape.h"
#include "pg/types/string.h"

/* A longer schema is useless in a prompt or as a grammar. */
#define MAX_SCHEMA	(1024 * 1024)

static void emit(StringInfo out, const TypeShape *s, bool nullable, const char *comment, SchemaStyle style);

void
type_put_string(StringInfo out, const char *s)
{
	escape_json(out, s);
}

static char *
json_string(const char *s)
{
	StringInfoData out;

	initStringInfo(&out);
	escape_json(&out, s);
	return out.data;
}

/* ERROR (54000) if the text about a type is too long. */
static void
check_size(StringInfo out, Oid type)
{
	CHECK_FOR_INTERRUPTS();
	if (out->len > MAX_SCHEMA)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("the JSON schema is too long"),
				 errdetail("It has more than %d kB at type %s.", MAX_SCHEMA / 1024, format_type_be(type))));
}

/* ---- keywords ---- */

static SchemaKeyword *
find(List *keywords, const char *name)
{
	ListCell   *lc;

	foreach(lc, keywords)
	{
		SchemaKeyword *k = lfirst(lc);

		if (strcmp(k->name, name) == 0)
			return k;
	}
	return NULL;
}

static bool
less(const char *a, const char *b)
{
	return DatumGetBool(DirectFunctionCall2(numeric_lt, type_numeric(a), type_numeric(b)));
}

/* Add a keyword to those that apply already. */
static List *
both(List *keywords, Oid type, const char *name, const char *value)
{
	SchemaKeyword *old = find(keywords, name);
	SchemaKeyword *k;

	if (old != NULL && (strcmp(name, "minimum") == 0 || strcmp(name, "minLength") == 0 ||
						strcmp(name, "minItems") == 0))
	{
		if (less(old->value, value))
			old->value = value;
		return keywords;
	}
	if (old != NULL && (strcmp(name, "maximum") == 0 || strcmp(name, "maxLength") == 0 ||
						strcmp(name, "maxItems") == 0))
	{
		if (less(value, old->value))
			old->value = value;
		return keywords;
	}
	if (old != NULL)
	{
		k = find(keywords, "allOf");
		if (k == NULL)
		{
			k = palloc0(sizeof(SchemaKeyword));
			k->name = "allOf";
			k->arms = makeStringInfo();
			keywords = lappend(keywords, k);
		}
		appendStringInfo(k->arms, "%s{\"%s\": %s}", k->arms->len > 0 ? ", " : "", name, value);
		check_size(k->arms, type);
		return keywords;
	}
	k = palloc0(sizeof(SchemaKeyword));
	k->name = name;
	k->value = value;
	return lappend(keywords, k);
}

static char *
anchored(const char *pattern)
{
	return json_string(psprintf("^(?:%s)$", pattern));
}

static int
by_sort_order(const void *a, const void *b)
{
	float4		x = (*(const Form_pg_enum *) a)->enumsortorder;
	float4		y = (*(const Form_pg_enum *) b)->enumsortorder;

	return x < y ? -1 : x > y;
}

/*
 * Return the labels of an enum in their order, except those that can't be used before the transaction
 * ends.
 */
static char *
labels(Oid type)
{
	StringInfoData out;
	CatCList   *list = SearchSysCacheList1(ENUMTYPOIDNAME, ObjectIdGetDatum(type));
	int			n = 0;
	Form_pg_enum *e = palloc(sizeof(Form_pg_enum) * Max(list->n_members, 1));

	for (int i = 0; i < list->n_members; i++)
	{
		Form_pg_enum form = (Form_pg_enum) GETSTRUCT(&list->members[i]->tuple);

		if (!EnumUncommitted(form->oid))
			e[n++] = form;
	}
	qsort(e, n, sizeof(Form_pg_enum), by_sort_order);
	initStringInfo(&out);
	appendStringInfoChar(&out, '[');
	for (int i = 0; i < n; i++)
	{
		appendStringInfoString(&out, i > 0 ? ", " : "");
		escape_json(&out, NameStr(e[i]->enumlabel));
	}
	appendStringInfoChar(&out, ']');
	ReleaseSysCacheList(list);
	/* engine_func_head() may catch this error, so the list is released before it */
	check_size(&out, type);
	return out.data;
}

static List *
string_keywords(const TypeShape *s, SchemaStyle style)
{
	List	   *k = NIL;
	const char *pattern = s->string->pattern;

	if ((s->base == BITOID || s->base == VARBITOID) && s->base_typmod > 0)
		pattern = psprintf("[01]{%d,%d}", s->base == BITOID ? s->base_typmod : 0, s->base_typmod);
	if (s->base == NAMEOID)
		pattern = "[\\u0001-\\u007f]*";	/* SQL_ASCII: max_length counts bytes, not characters */
	if (style == SCHEMA_READABLE)
	{
		if (s->string->format != NULL)
			k = both(k, s->type, "format", json_string(s->string->format));
	}
	else
		k = both(k, s->type, "pattern", anchored(pattern != NULL ? pattern : type_string_free_pattern()));
	if (s->max_length > 0)
		k = both(k, s->type, "maxLength", psprintf("%d", s->max_length));
	return k;
}

static List *
base_keywords(const TypeShape *s, SchemaStyle style)
{
	List	   *k = NIL;

	switch (s->kind)
	{
		case TYPE_INT:
		case TYPE_FLOAT:
		case TYPE_NUMERIC:
			if (style == SCHEMA_EXACT)
			{
				k = both(k, s->type, "minimum", s->least);
				k = both(k, s->type, "maximum", s->most);
			}
			break;
		case TYPE_STRING:
			k = string_keywords(s, style);
			break;
		case TYPE_ENUM:
			k = both(k, s->type, "enum", labels(s->base));
			break;
		default:
			break;
	}
	return k;
}

/* ---- parts of a schema ---- */

static const char *
type_name(const TypeShape *s)
{
	switch (s->kind)
	{
		case TYPE_BOOL:
			return "boolean";
		case TYPE_INT:
			return "integer";
		case TYPE_FLOAT:
		case TYPE_NUMERIC:
			return "number";
		case TYPE_STRING:
		case TYPE_ENUM:
			return "string";
		case TYPE_ARRAY:
			return "array";
		case TYPE_COMPOSITE:
		case TYPE_RANGE:
			return "object";
		case TYPE_JSON:
			break;
	}
	return NULL;
}

static void
put_attributes(StringInfo out, const TypeShape *s, SchemaStyle style)
{
	appendStringInfoString(out, ", \"properties\": {");
	for (int i = 0; i < s->n_attrs; i++)
	{
		const TypeAttr *a = &s->attrs[i];

		appendStringInfoString(out, i > 0 ? ", " : "");
		escape_json(out, a->name);
		appendStringInfoString(out, ": ");
		emit(out, a->shape, a->nullable, a->comment, style);
	}
	appendStringInfoString(out, "}, \"required\": [");
	for (int i = 0; i < s->n_attrs; i++)
	{
		appendStringInfoString(out, i > 0 ? ", " : "");
		escape_json(out, s->attrs[i].name);
	}
	appendStringInfoString(out, "], \"additionalProperties\": false");
}

static void
put_range(StringInfo out, const TypeShape *s, SchemaStyle style)
{
	appendStringInfoString(out, ", \"properties\": {\"lower\": ");
	emit(out, s->element, true, NULL, style);
	appendStringInfoString(out, ", \"upper\": ");
	emit(out, s->element, true, NULL, style);
	appendStringInfoString(out, ", \"bounds\": {\"type\": \"string\", \"enum\": [\"[)\", \"[]\", \"(]\", "
						   "\"()\"]}}, \"required\": [\"lower\", \"upper\", \"bounds\"], "
						   "\"additionalProperties\": false");
}

/*
 * Append the schema of any JSON value that jsonb accepts: without NUL characters and numbers that are
 * too long.
 */
static void
put_any_json(StringInfo out)
{
	char	   *free_text = anchored(type_string_free_pattern());

	appendStringInfo(out, "{\"anyOf\": ["
					 "{\"type\": \"object\", \"propertyNames\": {\"pattern\": %s}, \"additionalProperties\": "
					 "{\"$ref\": \"#/$defs/json\"}}, {\"type\": \"array\", \"items\": {\"$ref\": "
					 "\"#/$defs/json\"}}, {\"type\": \"string\", \"pattern\": %s}, "
					 "{\"type\": \"number\", \"minimum\": -1e300, \"maximum\": 1e300}, "
					 "{\"type\": \"boolean\"}, {\"type\": \"null\"}]}",
					 free_text, free_text);
}

static bool
has_json(const TypeShape *s)
{
	if (s->kind == TYPE_JSON || (s->element != NULL && has_json(s->element)))
		return true;
	for (int i = 0; i < s->n_attrs; i++)
		if (has_json(s->attrs[i].shape))
			return true;
	return false;
}

/* ---- the schema ---- */

static const char *
description(const TypeShape *s, const char *comment, SchemaStyle style)
{
	const char *hint = style == SCHEMA_READABLE && s->kind == TYPE_STRING ? s->string->hint : NULL;

	if (comment == NULL)
		comment = s->comment;
	if (hint == NULL)
		return comment;
	return comment == NULL ? hint : psprintf("%s (%s)", comment, hint);
}

/* Describe CHECKs that the schema can't express, where readers see it. */
static void
put_unread(StringInfo out, const TypeShape *s)
{
	StringInfoData names;
	ListCell   *lc;

	if (s->unread == NIL)
		return;
	initStringInfo(&names);
	foreach(lc, s->unread)
		appendStringInfo(&names, "%s%s", names.len > 0 ? ", " : "", (char *) lfirst(lc));
	appendStringInfoString(out, ", \"$comment\": ");
	escape_json(out, psprintf("checked afterwards: %s", names.data));
}

/* Append the members after "description": the type and its keywords. */
static void
put_members(StringInfo out, const TypeShape *s, bool null_too, SchemaStyle style)
{
	List	   *keywords = base_keywords(s, style);
	ListCell   *lc;

	if (s->kind == TYPE_JSON)
	{
		/* a reader needs no definition of "any" */
		if (style == SCHEMA_EXACT)
			appendStringInfoString(out, "\"$ref\": \"#/$defs/json\"");
		else
			appendStringInfoString(out, "\"type\": [\"object\", \"array\", \"string\", \"number\", "
										"\"boolean\", \"null\"]");
	}
	else
		appendStringInfo(out, null_too ? "\"type\": [\"%s\", \"null\"]" : "\"type\": \"%s\"", type_name(s));
	foreach(lc, s->keywords)
	{
		const SchemaKeyword *k = lfirst(lc);

		keywords = both(keywords, s->type, k->name, k->value);
	}
	foreach(lc, keywords)
	{
		const SchemaKeyword *k = lfirst(lc);

		if (k->arms != NULL)
			appendStringInfo(out, ", \"%s\": [%s]", k->name, k->arms->data);
		else
			appendStringInfo(out, ", \"%s\": %s", k->name, k->value);
	}
	switch (s->kind)
	{
		case TYPE_ARRAY:
			appendStringInfoString(out, ", \"items\": ");
			emit(out, s->element, false, NULL, style);
			break;
		case TYPE_COMPOSITE:
			put_attributes(out, s, style);
			break;
		case TYPE_RANGE:
			put_range(out, s, style);
			break;
		default:
			break;
	}
	if (style == SCHEMA_EXACT)
		put_unread(out, s);
}

/* Return true if a keyword also restricts values of other types. */
static bool
lists_values(const TypeShape *s)
{
	return s->kind == TYPE_ENUM || find(s->keywords, "enum") || find(s->keywords, "anyOf") ||
		find(s->keywords, "allOf");
}

static void
put_schema(StringInfo out, const TypeShape *s, bool nullable, SchemaStyle style)
{
	if (nullable && s->kind != TYPE_JSON && lists_values(s))
	{
		appendStringInfoString(out, "\"anyOf\": [{");
		put_members(out, s, false, style);
		appendStringInfoString(out, "}, {\"type\": \"null\"}]");
	}
	else
		put_members(out, s, nullable, style);
	check_size(out, s->type);
}

static void
emit(StringInfo out, const TypeShape *s, bool nullable, const char *comment, SchemaStyle style)
{
	const char *text = description(s, comment, style);

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	appendStringInfoChar(out, '{');
	if (text != NULL)
	{
		appendStringInfoString(out, "\"description\": ");
		escape_json(out, text);
		appendStringInfoString(out, ", ");
	}
	put_schema(out, s, nullable, style);
	appendStringInfoChar(out, '}');
}

void
type_schema_described(StringInfo out, const TypeShape *s, bool nullable, const char *comment,
					  SchemaStyle style)
{
	emit(out, s, nullable, comment, style);
}

void
type_schema(StringInfo out, const TypeShape *s, bool nullable, SchemaStyle style)
{
	emit(out, s, nullable, NULL, style);
	if (style == SCHEMA_EXACT && has_json(s))
	{
		out->len--;				/* remove the brace */
		appendStringInfoString(out, ", \"$defs\": {\"json\": ");
		put_any_json(out);
		appendStringInfoString(out, "}}");
	}
}
