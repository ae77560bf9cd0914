/*
 * tags.c
 *	  Structural tags: free text in which some beginnings oblige.
 *
 * Old form: {"structures": [{"begin", "schema", "end"}, ...], "triggers": [...]}.  New form:
 * {"format": ...} with formats const_string, json_schema, regex, grammar, any_text, sequence,
 * or, tag, triggered_tags, tags_with_separator.
 *
 * Free text before a tag and the trigger at its end are one lexeme: a text in which a trigger
 * ends at the end, and none before.  What follows is the rest of a tag that begins with
 * this trigger, so the text can't go on as if there had been none.  Likewise for any_text
 * within a tag: it ends at the first place where the tag's end stands.
 */
#include <cjson/cJSON.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "grammar/grammar_int.h"

#define MAX_VALUES	200000
#define MAX_DEPTH	60

typedef struct Tags
{
	Cfg		   *c;
	Re		   *re;
	const GramOptions *o;
	Err		   *e;
} Tags;

static bool format(Tags *t, const cJSON *f, int depth, CfgNode *out);

static bool
invalid(Tags *t, const char *what)
{
	return err_set(t->e, ERR_INVALID, "invalid structural tag: %s", what);
}

static const char *
string(const cJSON *o, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);

	return cJSON_IsString(v) ? v->valuestring : NULL;
}

static bool
is_true(const cJSON *o, const char *key)
{
	return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, key));
}

static ReNode
text_re(Tags *t, const char *s)
{
	return re_bytes(t->re, s, strlen(s));
}

/* Texts that end with mark where one of marks ends for the first time. */
static ReNode
up_to(Tags *t, ReNode mark, ReNode marks)
{
	ReNode		any = re_any_text(t->re, RE_RAW);
	uint32_t	all[8];
	ReNode		byte;

	memset(all, 0xff, sizeof(all));
	byte = re_byte_set(t->re, all);
	return re_and(t->re, re_cat(t->re, any, mark),
				  re_not(t->re, re_cat(t->re, RE_ALL, re_cat(t->re, marks, re_repeat(t->re, byte, 1, RE_INF)))));
}

/* Texts in which none of marks stands. */
static ReNode
without(Tags *t, ReNode marks)
{
	return re_and(t->re, re_any_text(t->re, RE_RAW), re_not(t->re, re_cat(t->re, RE_ALL, re_cat(t->re, marks, RE_ALL))));
}

/* ---- parts ---- */

static bool
sub_spec(Tags *t, GramKind kind, const char *text, CfgNode *out)
{
	GramSpec	s = {.kind = kind,.text = text,.len = strlen(text),.opt = *t->o};

	return spec_build(t->c, &s, out, t->e);
}

static bool
schema(Tags *t, const cJSON *s, CfgNode *out)
{
	char	   *text;
	bool		ok;

	if (s == NULL)
		return invalid(t, "there is no schema");
	text = cJSON_PrintUnformatted(s);
	if (text == NULL)
		return err_set(t->e, ERR_NOMEM, "out of memory");
	ok = sub_spec(t, GRAM_JSON_SCHEMA, text, out);
	cJSON_free(text);
	return ok;
}

/* One end, or one of several; RE_NONE with *e set if it is malformed. */
static ReNode
end_re(Tags *t, const cJSON *tag)
{
	const cJSON *end = cJSON_GetObjectItemCaseSensitive(tag, "end");
	const cJSON *x;
	ReNode		r = RE_NONE;

	if (cJSON_IsString(end))
		return text_re(t, end->valuestring);
	cJSON_ArrayForEach(x, end)
		if (cJSON_IsString(x))
			r = re_or(t->re, r, text_re(t, x->valuestring));
	if (r == RE_NONE)
		invalid(t, "a tag's end must be a string or strings");
	return r;
}

/* A tag but the first `skip` bytes of its beginning. */
static bool
tag_rest(Tags *t, const cJSON *tag, size_t skip, int depth, CfgNode *out)
{
	const char *begin = string(tag, "begin");
	const cJSON *content = cJSON_GetObjectItemCaseSensitive(tag, "content");
	const char *type = string(content, "type");
	ReNode		end = end_re(t, tag);
	CfgNode		part[3];

	if (end == RE_NONE)
		return false;
	if (begin == NULL)
		return invalid(t, "a tag's begin must be a string");
	part[0] = cfg_lexeme(t->c, text_re(t, begin + skip));
	part[2] = cfg_lexeme(t->c, end);
	if (type != NULL && strcmp(type, "any_text") == 0 && !re_nullable(t->re, end))
	{
		part[1] = cfg_lexeme(t->c, up_to(t, end, end));
		part[2] = CFG_EMPTY;
	}
	else if (content != NULL ? !format(t, content, depth + 1, &part[1]) :
			 !schema(t, cJSON_GetObjectItemCaseSensitive(tag, "schema"), &part[1]))
		return false;
	*out = cfg_seqs(t->c, part, 3);
	return true;
}

static bool
triggered(Tags *t, const cJSON *f, const cJSON *tags, int depth, CfgNode *out)
{
	const cJSON *triggers = cJSON_GetObjectItemCaseSensitive(f, "triggers");
	const cJSON *x;
	const cJSON *tag;
	ReNode		marks = RE_NONE;
	CfgNode		any = CFG_NONE;
	bool		first = is_true(f, "stop_after_first");
	bool		one = is_true(f, "at_least_one");
	CfgNode		rest;
	CfgNode		tail;

	if (!cJSON_IsArray(triggers) || cJSON_GetArraySize(triggers) == 0 || !cJSON_IsArray(tags) || cJSON_GetArraySize(tags) == 0)
		return invalid(t, "triggers and tags must be arrays that are not empty");
	cJSON_ArrayForEach(x, triggers)
	{
		if (!cJSON_IsString(x) || x->valuestring[0] == '\0')
			return invalid(t, "a trigger must be a string that is not empty");
		marks = re_or(t->re, marks, text_re(t, x->valuestring));
	}
	cJSON_ArrayForEach(tag, tags)
	{
		const char *begin = string(tag, "begin");
		bool		found = false;

		cJSON_ArrayForEach(x, triggers)
			found = found || (begin != NULL && strncmp(begin, x->valuestring, strlen(x->valuestring)) == 0);
		if (!found)
			return invalid(t, "a tag's begin must start with one of the triggers");
	}
	cJSON_ArrayForEach(x, triggers)
	{
		CfgNode		of_trigger = CFG_NONE;

		cJSON_ArrayForEach(tag, tags)
		{
			if (strncmp(string(tag, "begin"), x->valuestring, strlen(x->valuestring)) != 0)
				continue;
			if (!tag_rest(t, tag, strlen(x->valuestring), depth, &rest))
				return false;
			of_trigger = cfg_alt(t->c, of_trigger, rest);
		}
		any = cfg_alt(t->c, any, cfg_seq(t->c, cfg_lexeme(t->c, up_to(t, text_re(t, x->valuestring), marks)), of_trigger));
	}
	tail = cfg_lexeme(t->c, without(t, marks));
	if (first)
		*out = one ? any : cfg_alt(t->c, any, tail);
	else
		*out = cfg_seq(t->c, cfg_repeat(t->c, any, one, CFG_INF), tail);
	return true;
}

static bool
separated(Tags *t, const cJSON *f, int depth, CfgNode *out)
{
	const cJSON *tags = cJSON_GetObjectItemCaseSensitive(f, "tags");
	const char *sep = string(f, "separator");
	const cJSON *tag;
	CfgNode		any = CFG_NONE;
	CfgNode		one;

	if (!cJSON_IsArray(tags) || sep == NULL)
		return invalid(t, "tags_with_separator needs tags and a separator");
	cJSON_ArrayForEach(tag, tags)
	{
		if (!tag_rest(t, tag, 0, depth, &one))
			return false;
		any = cfg_alt(t->c, any, one);
	}
	*out = cfg_list(t->c, any, cfg_lexeme(t->c, text_re(t, sep)), is_true(f, "at_least_one"),
					is_true(f, "stop_after_first") ? 1 : CFG_INF);
	return true;
}

static bool
elements(Tags *t, const cJSON *f, bool all, int depth, CfgNode *out)
{
	const cJSON *list = cJSON_GetObjectItemCaseSensitive(f, "elements");
	const cJSON *x;
	CfgNode		one;

	if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) == 0)
		return invalid(t, "elements must be an array that is not empty");
	*out = all ? CFG_EMPTY : CFG_NONE;
	cJSON_ArrayForEach(x, list)
	{
		if (!format(t, x, depth + 1, &one))
			return false;
		*out = all ? cfg_seq(t->c, *out, one) : cfg_alt(t->c, *out, one);
	}
	return true;
}

static bool
format(Tags *t, const cJSON *f, int depth, CfgNode *out)
{
	const char *type = string(f, "type");
	const char *s;

	if (depth > MAX_DEPTH)
		return err_set(t->e, ERR_TOO_LONG, "structural tag is more than %d levels deep", MAX_DEPTH);
	if (type == NULL)
		return invalid(t, "a format must be an object with a type");
	if (strcmp(type, "const_string") == 0)
	{
		if ((s = string(f, "value")) == NULL)
			return invalid(t, "const_string needs a value");
		*out = cfg_lexeme(t->c, text_re(t, s));
		return true;
	}
	if (strcmp(type, "json_schema") == 0)
		return schema(t, cJSON_GetObjectItemCaseSensitive(f, "json_schema"), out);
	if (strcmp(type, "regex") == 0)
		return (s = string(f, "pattern")) != NULL ? sub_spec(t, GRAM_REGEX, s, out) : invalid(t, "regex needs a pattern");
	if (strcmp(type, "grammar") == 0)
		return (s = string(f, "grammar")) != NULL ? sub_spec(t, GRAM_GRAMMAR, s, out) : invalid(t, "grammar needs a grammar");
	if (strcmp(type, "any_text") == 0)
	{
		*out = cfg_lexeme(t->c, re_any_text(t->re, RE_RAW));
		return true;
	}
	if (strcmp(type, "sequence") == 0)
		return elements(t, f, true, depth, out);
	if (strcmp(type, "or") == 0)
		return elements(t, f, false, depth, out);
	if (strcmp(type, "tag") == 0)
		return tag_rest(t, f, 0, depth, out);
	if (strcmp(type, "triggered_tags") == 0)
		return triggered(t, f, cJSON_GetObjectItemCaseSensitive(f, "tags"), depth, out);
	if (strcmp(type, "tags_with_separator") == 0)
		return separated(t, f, depth, out);
	return err_set(t->e, ERR_UNSUPPORTED, "structural tag format \"%.60s\" is not supported", type);
}

bool
tags_build(Cfg *c, const char *text, size_t n, const GramOptions *o, CfgNode *out, Err *e)
{
	Tags		t = {c, cfg_re(c), o, e};
	cJSON	   *root;
	const cJSON *f;
	bool		ok;

	if (json_values(text, n, MAX_VALUES) > MAX_VALUES)
		return err_set(e, ERR_TOO_LONG, "structural tag has more than %d values", MAX_VALUES);
	root = cJSON_ParseWithLength(text, n);
	f = cJSON_GetObjectItemCaseSensitive(root, "format");
	if (!cJSON_IsObject(root))
		ok = invalid(&t, "it must be a JSON object");
	else if (f != NULL)
		ok = format(&t, f, 0, out);
	else
		ok = triggered(&t, root, cJSON_GetObjectItemCaseSensitive(root, "structures"), 0, out);
	cJSON_Delete(root);
	return ok;
}
