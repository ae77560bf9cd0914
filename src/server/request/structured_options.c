/*
 * structured_options.c
 *	  The options of structured output: which kind is given, with which text?
 *
 * Exactly one kind may be given, in whichever option.  A JSON schema is passed on as it is written, in
 * its order and with all digits.  An unknown key is an error, and so is a value of another type: if an
 * option were dropped, the output would look as if it satisfied it.
 *
 * Tested by tests/unit/server/request/test_structured.c.
 */
#include "server/request/structured_options.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "base/json/json.h"

#define MAX_CHOICES		100000	/* grammar.h refuses more, too */

static bool __attribute__((format(printf, 3, 4)))
bad(Err *e, const char *param, const char *fmt,...)
{
	va_list		ap;
	char		text[400];

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	err_set(e, ERR_INVALID, "%s %s", param, text);
	return err_detail(e, "parameter=%s", param);
}

/* ---- fields ---- */

static void
add_choice(StructuredSpec *s, const char *text, size_t n)
{
	if (s->n_choices == s->cap_choices)
	{
		s->cap_choices = s->cap_choices == 0 ? 16 : s->cap_choices * 2;
		s->choice = mem_realloc(s->choice, s->cap_choices * sizeof(char *));
		s->choice_len = mem_realloc(s->choice_len, s->cap_choices * sizeof(size_t));
	}
	s->choice[s->n_choices] = text;
	s->choice_len[s->n_choices++] = n;
}

bool
structured_field(StructuredSpec *s, const WireField *f, bool *known, Err *e)
{
	StrView		text = {f->s, f->n};

	*known = true;
	switch (f->tag)
	{
		case WTAG_JSON_SCHEMA:
			s->schema = text;
			return true;
		case WTAG_REGEX:
			s->regex = text;
			return true;
		case WTAG_GRAMMAR:
			s->grammar = text;
			return true;
		case WTAG_STRUCT_CHOICE:
			if (s->n_choices == MAX_CHOICES)
			{
				err_set(e, ERR_TOO_LONG, "choice may have at most %d elements", MAX_CHOICES);
				return err_detail(e, "parameter=choice");
			}
			add_choice(s, f->s, f->n);
			return true;
		case WTAG_STRUCTURED_OUTPUTS:
			s->outputs = text;
			return true;
		case WTAG_RESPONSE_FORMAT:
			s->format = text;
			return true;
		default:
			*known = false;
			return true;
	}
}

void
structured_free(StructuredSpec *s)
{
	for (size_t i = 0; i < s->n_owned; i++)
		mem_free(s->owned[i]);
	mem_free(s->owned);
	mem_free(s->choice);
	mem_free(s->choice_len);
	memset(s, 0, sizeof(*s));
}

/* ---- values of JSON objects ---- */

static bool
is(StrView a, const char *b)
{
	return a.n == strlen(b) && memcmp(a.s, b, a.n) == 0;
}

/* Keep a text until the spec is freed. */
static const char *
own(StructuredSpec *s, char *text)
{
	s->owned = mem_realloc(s->owned, (s->n_owned + 1) * sizeof(char *));
	s->owned[s->n_owned++] = text;
	return text;
}

/* Decode a JSON string. */
static bool
string_value(StructuredSpec *s, const char *param, StrView v, StrView *out, Err *e)
{
	Json	   *j;
	bool		ok;

	/* no option may contain a NUL */
	if (json_has_nul(v.s, v.n))
		return bad(e, param, "must not contain a null character");
	j = json_parse(v.s, v.n);
	ok = json_is_string(j);
	if (ok)
	{
		out->n = strlen(j->s);
		out->s = own(s, mem_strndup(j->s, out->n));
	}
	json_free(j);
	return ok || bad(e, param, "must be a string, got %.*s", v.n < 64 ? (int) v.n : 64, v.s);
}

static bool
bool_value(const char *param, StrView v, bool *out, Err *e)
{
	*out = is(v, "true");
	return *out || is(v, "false") || bad(e, param, "must be true or false, got %.*s",
										 v.n < 64 ? (int) v.n : 64, v.s);
}

/* Read a JSON object or truth value, or a string that contains one. */
static bool
json_value(StructuredSpec *s, const char *param, StrView v, StrView *out, Err *e)
{
	while (v.n > 0 && strchr(" \t\r\n", v.s[0]) != NULL)
		v = (StrView) {v.s + 1, v.n - 1};
	while (v.n > 0 && strchr(" \t\r\n", v.s[v.n - 1]) != NULL)
		v.n--;
	*out = v;
	if (v.n == 0)
		return bad(e, param, "must not be empty");
	if (v.s[0] == '"')
		return string_value(s, param, v, out, e);
	return v.s[0] == '{' || is(v, "true") || is(v, "false") ||
		bad(e, param, "must be a JSON object, got %.*s", v.n < 64 ? (int) v.n : 64, v.s);
}

static bool
choice_value(StructuredSpec *s, StrView v, Err *e)
{
	Json	   *j;
	const Json *item;
	bool		ok;

	ASSERT(s->n_choices == 0);	/* take() refuses a second kind, also of the fields */
	if (json_values(v.s, v.n, MAX_CHOICES) > MAX_CHOICES)
		return err_set(e, ERR_TOO_LONG, "choice may have at most %d elements", MAX_CHOICES);
	if (json_has_nul(v.s, v.n))
		return bad(e, "choice", "must not contain a null character");
	j = json_parse(v.s, v.n);
	ok = json_is_array(j);
	for (item = ok ? j->child : NULL; item != NULL && ok; item = item->next)
	{
		ok = json_is_string(item);
		if (ok)
			add_choice(s, own(s, mem_strdup(item->s)), strlen(item->s));
	}
	json_free(j);
	if (!ok)
		return bad(e, "choice", "must be an array of strings");
	return s->n_choices > 0 || bad(e, "choice", "must not be empty");
}

/* ---- which kind is it? ---- */

/* Set the kind.  If a kind was given already, fail with the name under which that was. */
static bool
take(StructuredSpec *s, const char **name, const char *param, GramKind kind, StrView text, Err *e)
{
	if (*name != NULL)
	{
		err_set(e, ERR_INVALID, "you can only use one kind of structured output, but %s and %s are given",
				*name, param);
		return err_detail(e, "parameter=%s", param);
	}
	*name = s->param = param;
	s->given = true;
	s->gram.kind = kind;
	s->gram.text = text.s;
	s->gram.len = text.n;
	if (text.s == NULL)
		return true;
	if (memchr(text.s, '\0', text.n) != NULL)
		return bad(e, param, "must not contain a null character");
	for (size_t i = 0; i < text.n; i++)
		if (strchr(" \t\r\n", text.s[i]) == NULL)
			return true;
	/* spaces are a valid regex */
	return (kind == GRAM_REGEX && text.n > 0) || bad(e, param, "must not be empty");
}

/* Read one member of structured_outputs. */
static bool
outputs_member(StructuredSpec *s, const char **name, StrView key, StrView v, Err *e)
{
	GramOptions *o = &s->gram.opt;
	StrView		text;
	bool		yes;

	if (is(key, "json"))
		return json_value(s, "structured_outputs.json", v, &text, e) &&
			take(s, name, "structured_outputs.json", GRAM_JSON_SCHEMA, text, e);
	if (is(key, "structural_tag"))
		return json_value(s, "structured_outputs.structural_tag", v, &text, e) &&
			take(s, name, "structured_outputs.structural_tag", GRAM_STRUCTURAL_TAG, text, e);
	if (is(key, "regex"))
		return string_value(s, "structured_outputs.regex", v, &text, e) &&
			take(s, name, "structured_outputs.regex", GRAM_REGEX, text, e);
	if (is(key, "grammar"))
		return string_value(s, "structured_outputs.grammar", v, &text, e) &&
			take(s, name, "structured_outputs.grammar", GRAM_GRAMMAR, text, e);
	if (is(key, "choice"))
		return take(s, name, "structured_outputs.choice", GRAM_CHOICE, (StrView) {0}, e) &&
			choice_value(s, v, e);
	if (is(key, "json_object"))
		return bool_value("structured_outputs.json_object", v, &yes, e) &&
			(yes || bad(e, "structured_outputs.json_object", "must be true")) &&
			take(s, name, "structured_outputs.json_object", GRAM_JSON_OBJECT, (StrView) {0}, e);
	if (is(key, "disable_any_whitespace"))
		return bool_value("structured_outputs.disable_any_whitespace", v, &o->disable_any_whitespace, e);
	if (is(key, "disable_additional_properties"))
		return bool_value("structured_outputs.disable_additional_properties", v,
						  &o->disable_additional_properties, e);
	if (is(key, "strict"))
		return bool_value("structured_outputs.strict", v, &o->strict, e);
	if (is(key, "enable_in_reasoning"))
		return bool_value("structured_outputs.enable_in_reasoning", v, &s->in_reasoning, e);
	if (is(key, "whitespace_pattern"))
	{
		if (!string_value(s, "structured_outputs.whitespace_pattern", v, &text, e))
			return false;
		o->whitespace_pattern = text.s;
		return true;
	}
	err_set(e, ERR_INVALID, "unrecognized key \"%.*s\" in structured_outputs", key.n < 64 ? (int) key.n : 64,
			key.s);
	err_detail(e, "parameter=structured_outputs");
	return err_hint(e, "Known keys are json, regex, choice, grammar, json_object, structural_tag, "
					"disable_any_whitespace, disable_additional_properties, whitespace_pattern, strict and "
					"enable_in_reasoning.");
}

static bool
read_outputs(StructuredSpec *s, const char **name, Err *e)
{
	JsonMembers m;
	StrView		key,
				v;
	int			got = -1;

	if (json_members(&m, s->outputs.s, s->outputs.n))
		while ((got = json_member(&m, &key, &v)) > 0)
			if (!is(v, "null") && !outputs_member(s, name, key, v, e))
				return false;
	return got >= 0 || bad(e, "structured_outputs", "must be a JSON object");
}

/* Fail because structured_outputs has only options, and no other option gives a kind. */
static bool
no_kind(Err *e)
{
	err_set(e, ERR_INVALID, "you must use one kind of structured output, but none is given");
	err_detail(e, "parameter=structured_outputs");
	return err_hint(e, "The kinds are json, regex, choice, grammar, json_object and structural_tag.");
}

/* Read the object "json_schema" of a response_format: {name, description, schema, strict}. */
static bool
format_schema(StructuredSpec *s, const char **name, StrView object, Err *e)
{
	JsonMembers m;
	StrView		key,
				v,
				text;
	int			got = -1;
	bool		found = false;

	if (object.s != NULL && json_members(&m, object.s, object.n))
		while ((got = json_member(&m, &key, &v)) > 0)
		{
			if (is(v, "null") || is(key, "name") || is(key, "description"))
				continue;
			if (is(key, "strict"))
			{
				if (!bool_value("response_format.json_schema.strict", v, &s->gram.opt.strict, e))
					return false;
			}
			else if (is(key, "schema"))
			{
				found = true;
				if (!json_value(s, "response_format.json_schema.schema", v, &text, e) ||
					!take(s, name, "response_format.json_schema", GRAM_JSON_SCHEMA, text, e))
					return false;
			}
			else
				return bad(e, "response_format.json_schema", "has an unrecognized key \"%.*s\"",
						   key.n < 64 ? (int) key.n : 64, key.s);
		}
	if (got < 0)
		return bad(e, "response_format.json_schema", "must be a JSON object");
	return found || bad(e, "response_format.json_schema", "must have a \"schema\"");
}

static bool
read_format(StructuredSpec *s, const char **name, Err *e)
{
	JsonMembers m;
	StrView		key,
				v,
				type = {0},
				schema = {0};
	int			got = -1;

	if (json_members(&m, s->format.s, s->format.n))
		while ((got = json_member(&m, &key, &v)) > 0)
		{
			if (is(key, "type"))
				type = v;
			else if (is(key, "json_schema"))
				schema = v;
		}
	if (got < 0)
		return bad(e, "response_format", "must be a JSON object");
	if (type.s == NULL)
		return bad(e, "response_format", "must have a \"type\"");
	if (is(type, "\"text\""))
		return true;
	if (is(type, "\"json_object\""))
		return take(s, name, "response_format", GRAM_JSON_OBJECT, (StrView) {0}, e);
	if (is(type, "\"json_schema\""))
		return format_schema(s, name, schema, e);
	if (is(type, "\"structural_tag\""))
		return take(s, name, "response_format", GRAM_STRUCTURAL_TAG, s->format, e);
	bad(e, "response_format.type", "must be text, json_object, json_schema or structural_tag, got %.*s",
		type.n < 64 ? (int) type.n : 64, type.s);
	return false;
}

bool
structured_check(StructuredSpec *s, Err *e)
{
	const char *name = NULL;
	const char *schema_name = s->schema_name != NULL ? s->schema_name : "json_schema";
	StrView		schema = {0};

	s->gram.opt.strict = true;
	if ((s->schema.s != NULL && (!json_value(s, "json_schema", s->schema, &schema, e) ||
								 !take(s, &name, schema_name, GRAM_JSON_SCHEMA, schema, e))) ||
		(s->regex.s != NULL && !take(s, &name, "regex", GRAM_REGEX, s->regex, e)) ||
		(s->n_choices > 0 && !take(s, &name, "choice", GRAM_CHOICE, (StrView) {0}, e)) ||
		(s->grammar.s != NULL && !take(s, &name, "grammar", GRAM_GRAMMAR, s->grammar, e)) ||
		(s->outputs.s != NULL && !read_outputs(s, &name, e)) ||
		(s->format.s != NULL && !read_format(s, &name, e)))
		return false;
	/* a response_format is a kind; next to one of type text the options constrain nothing */
	if (s->outputs.s != NULL && name == NULL && s->format.s == NULL)
		return no_kind(e);
	if (s->given && s->gram.kind == GRAM_CHOICE)
	{
		s->gram.choice = s->choice;
		s->gram.choice_len = s->choice_len;
		s->gram.n_choices = s->n_choices;
	}
	return true;
}

void
structured_blame(const StructuredSpec *s, Err *e)
{
	char		detail[sizeof(e->detail)];

	if (e->cls != ERR_INVALID && e->cls != ERR_UNSUPPORTED && e->cls != ERR_TOO_LONG)
		return;
	memcpy(detail, e->detail, sizeof(detail));
	if (strncmp(detail, "parameter=", 10) != 0)
		err_detail(e, "parameter=%s%s%.400s", s->param, detail[0] != '\0' ? ": " : "", detail);
	if (e->hint[0] == '\0' && e->cls == ERR_UNSUPPORTED)
		err_hint(e, "Omit it, and check the answers instead.");
	else if (e->hint[0] == '\0' && e->cls == ERR_TOO_LONG)
		err_hint(e, "Simplify it, or allow more and check the answers.");
}
