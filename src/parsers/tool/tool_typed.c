/*
 * tool_typed.c
 *	  Arguments that a format writes as raw text: decide whether they are numbers, strings or objects.
 *
 * The tool's schema decides; if it allows several types, the text gets the first that it fits, a string
 * last.  Text that fits none stays a string: the caller knows what the tool accepts, and can use it
 * better than nothing.
 *
 * Tested by the cases of tests/parse/.
 */
#include "parsers/tool/tool_internal.h"

#include <stdlib.h>
#include <strings.h>

#include "base/json/json.h"

#define MAX_DEPTH	4			/* nesting of alternatives */
#define MAX_REFS	16			/* references followed for one argument */

static bool
is_text(Span s, const char *text)
{
	return strlen(text) == (size_t) (s.end - s.p) && strncasecmp(s.p, text, strlen(text)) == 0;
}

static bool
equals(Span s, const char *text)
{
	return text != NULL && strlen(text) == (size_t) (s.end - s.p) && memcmp(s.p, text, strlen(text)) == 0;
}

/* ---- schemas ---- */

static unsigned
type_named(const char *name)
{
	static const char *const names[] = {"string", "integer", "number", "boolean", "object", "array", "null"};

	for (int i = 0; name != NULL && i < 7; i++)
		if (strcmp(name, names[i]) == 0)
			return 1u << i;
	return 0;
}

static unsigned
type_of_value(const Json *v)
{
	return json_is_string(v) ? TT_STRING : json_is_number(v) ? TT_NUMBER : json_is_bool(v) ? TT_BOOLEAN :
		json_is_null(v) ? TT_NULL : json_is_object(v) ? TT_OBJECT : TT_ARRAY;
}

/* Return the member or element that a part of a JSON pointer names. */
static const Json *
step_in(const Json *at, const char *part, size_t n)
{
	const Json *item;

	if (json_is_array(at))
		return n > 0 && n < 6 && strspn(part, "0123456789") >= n ? json_item(at, atoi(part)) : NULL;
	json_each(item, at)
	{
		const char *p = part;
		const char *k = item->key;

		for (; k != NULL && *k != '\0' && p < part + n; k++, p++)
		{
			bool		escaped = *p == '~' && p + 1 < part + n && (p[1] == '0' || p[1] == '1');

			if (*k != (escaped ? (p[1] == '0' ? '~' : '/') : *p))
				break;
			p += escaped;
		}
		if (k != NULL && *k == '\0' && p == part + n)
			return item;
	}
	return NULL;
}

/* Return what a $ref within root, the tool's schema, refers to; NULL: nothing. */
static const Json *
referred(const Json *root, const char *ref)
{
	const Json *at = root;

	if (*ref++ != '#')
		return NULL;
	while (at != NULL && *ref == '/')
	{
		size_t		n = strcspn(++ref, "/");

		at = step_in(at, ref, n);
		ref += n;
	}
	return *ref == '\0' ? at : NULL;
}

/* Return the types that a schema allows; follows alternatives to the depth of real schemas, and `left`
 * references. */
static unsigned
types_of_schema(const Json *root, const Json *schema, int depth, int *left)
{
	static const char *const groups[] = {"anyOf", "oneOf", "allOf"};
	const Json *type = json_get(schema, "type");
	const Json *values = json_get(schema, "enum");
	const Json *value = json_get(schema, "const");
	const char *ref = json_str_of(json_get(schema, "$ref"));
	const Json *item;
	unsigned	types = type_named(json_str_of(type));

	if (json_is_array(type))
		json_each(item, type)
			types |= type_named(json_str_of(item));
	if (types == 0 && ref != NULL && *left > 0)
	{
		(*left)--;
		types = types_of_schema(root, referred(root, ref), depth, left);
	}
	for (int i = 0; types == 0 && depth < MAX_DEPTH && i < 3; i++)
		json_each(item, json_get(schema, groups[i]))
			types |= types_of_schema(root, item, depth + 1, left);
	if (types == 0)
		json_each(item, values)
			types |= type_of_value(item);
	if (types == 0 && value != NULL)
		types = type_of_value(value);
	if (types == 0 && json_get(schema, "properties") != NULL)
		types = TT_OBJECT;
	if (types == 0 && json_get(schema, "items") != NULL)
		types = TT_ARRAY;
	return types;
}

/* Return the tool's function object; also for a tool that is one itself. */
static const Json *
function_of(const Json *tools, Span tool)
{
	const Json *t;

	json_each(t, tools)
	{
		const Json *f = json_get(t, "function");

		f = f != NULL ? f : t;
		if (equals(tool, json_str_of(json_get(f, "name"))))
			return f;
	}
	return NULL;
}

/* Return the parameter's schema, and the schema of all parameters. */
static const Json *
schema_of(const Json *tools, Span tool, Span param, const Json **all)
{
	const Json *f = function_of(tools, tool);
	const Json *schema = json_get(f, "parameters");
	const Json *p;

	*all = schema != NULL ? schema : json_get(f, "input_schema");
	json_each(p, json_get(*all, "properties"))
		if (equals(param, p->key))
			return p;
	return NULL;
}

unsigned
tool_type_of(const Json *tools, Span tool, Span param)
{
	const Json *all;
	const Json *schema = schema_of(tools, tool, param, &all);
	int			left = MAX_REFS;

	return types_of_schema(all, schema, 0, &left);
}

bool
tool_has(const Json *tools, Span tool, Span param)
{
	const Json *all;

	return schema_of(tools, tool, param, &all) != NULL;
}

/* ---- values ---- */

/* Append the text as a JSON value that begins with one of these characters; else append nothing. */
static bool
json_of(Span text, const char *first, Buf *out)
{
	Span		s = span_trim(text);

	return s.p < s.end && strchr(first, *s.p) != NULL && jpush_whole(s, out);
}

/* exact: only as JSON writes integers; a text of digits may be a string, whose leading zeros and signs
 * count */
static bool
integer(Span text, bool exact, Buf *out)
{
	Span		s = span_trim(text);
	Span		t = s;

	if (exact && (s.p == s.end || *s.p == '+' || span_is(&s, "-0") || (s.end - s.p > 1 && *s.p == '0')))
		return false;

	if (t.p < t.end && (*t.p == '-' || *t.p == '+'))
		t.p++;
	if (t.p == t.end)
		return false;
	for (const char *p = t.p; p < t.end; p++)
		if (*p < '0' || *p > '9')
			return false;
	while (t.end - t.p > 1 && *t.p == '0')
		t.p++;
	if (*s.p == '-')
		buf_addc(out, '-');
	buf_add(out, t.p, (size_t) (t.end - t.p));
	return true;
}

/* Append an array or object, in JSON's or Python's syntax. */
static bool
structure(Span text, const char *open, Buf *out)
{
	Span		s = span_trim(text);

	return json_of(s, open, out) ||
		(s.p < s.end && strchr(open, *s.p) != NULL && tool_python_literal(s, out));
}

static void
quote(Span text, Buf *out)
{
	json_add_quoted(out, text.p, (size_t) (text.end - text.p));
}

void
tool_typed(Span text, unsigned types, Buf *out)
{
	Span		bare = span_trim(text);

	if (types == 0 || types == TT_STRING)
		quote(text, out);
	else if (is_text(bare, "null") && ((types & TT_NULL) || !(types & TT_STRING)))
		buf_addstr(out, "null");
	else if ((types & (TT_INTEGER | TT_NUMBER)) && integer(text, (types & TT_STRING) != 0, out))
		return;
	else if ((types & TT_NUMBER) && json_of(text, "-0123456789", out))
		return;
	else if ((types & TT_BOOLEAN) && (is_text(bare, "true") || is_text(bare, "false")))
		buf_addstr(out, is_text(bare, "true") ? "true" : "false");
	else if ((types & TT_OBJECT) && structure(text, "{", out))
		return;
	else if ((types & TT_ARRAY) && structure(text, "[(", out))
		return;
	else
		quote(text, out);
}

void
tool_inferred(Span text, Buf *out)
{
	Span		s = span_trim(text);

	if (!jpush_whole(s, out) && !tool_python_literal(s, out))
		quote(text, out);
}

void
tool_key(Buf *args, bool first, Span key)
{
	if (!first)
		buf_add(args, ", ", 2);
	json_add_quoted(args, key.p, (size_t) (key.end - key.p));
	buf_add(args, ": ", 2);
}
