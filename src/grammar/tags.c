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
#include <string.h>

#include "grammar/grammar_int.h"
#include "grammar/json_value.h"

#define MAX_DEPTH	60

typedef struct Tags
{
	Cfg		   *c;
	Re		   *re;
	const GramOptions *o;
	Err		   *e;
} Tags;

static bool format(Tags *t, const Jv *f, int depth, CfgNode *out);

static bool
invalid(Tags *t, const char *what)
{
	return err_set(t->e, ERR_INVALID, "invalid structural tag: %s", what);
}

static const Jv *
string(const Jv *o, const char *key)
{
	const Jv   *v = jv_get(o, key);

	return jv_is(v, JV_STR) ? v : NULL;
}

static bool
is(const Jv *v, const char *s)
{
	return v->len == strlen(s) && memcmp(v->s, s, v->len) == 0;
}

static bool
starts_with(const Jv *v, const Jv *start)
{
	return v->len >= start->len && memcmp(v->s, start->s, start->len) == 0;
}

/* *to = a switch, off if it is not there. */
static bool
flag(Tags *t, const Jv *o, const char *key, bool *to)
{
	const Jv   *v = jv_get(o, key);

	*to = jv_is(v, JV_TRUE);
	if (v == NULL || v->type == JV_TRUE || v->type == JV_FALSE)
		return true;
	err_set(t->e, ERR_INVALID, "invalid structural tag: %s must be true or false", key);
	return false;
}

/* Has the object no other keys than type and these, with spaces between? */
static bool
known(Tags *t, const Jv *o, const char *keys)
{
	for (const Jv *m = jv_is(o, JV_OBJ) ? o->child : NULL; m != NULL; m = m->next)
	{
		const char *at = keys;
		bool		found = m->key_len == 4 && memcmp(m->key, "type", 4) == 0;

		while (!found && *at != '\0')
		{
			size_t		n = strcspn(at, " ");

			found = n == m->key_len && memcmp(at, m->key, n) == 0;
			at += n + (at[n] == ' ');
		}
		if (!found)
			return err_set(t->e, ERR_UNSUPPORTED, "structural tag key \"%.*s\" is not supported here", m->key_len < 60 ? (int) m->key_len : 60, m->key);
	}
	return true;
}

static ReNode
text_re(Tags *t, const char *s, size_t n)
{
	return re_bytes(t->re, s, n);
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
sub_spec(Tags *t, GramKind kind, const Jv *text, CfgNode *out)
{
	GramSpec	s = {.kind = kind,.text = text->s,.len = text->len,.opt = *t->o};

	return spec_build(t->c, &s, out, t->e);
}

/* As it is written: its numbers are exact. */
static bool
schema(Tags *t, const Jv *s, CfgNode *out)
{
	return s != NULL ? sub_spec(t, GRAM_JSON_SCHEMA, s, out) : invalid(t, "there is no schema");
}

/* One end, or one of several; RE_NONE with *e set if it is malformed. */
static ReNode
end_re(Tags *t, const Jv *tag)
{
	const Jv   *end = jv_get(tag, "end");
	ReNode		r = RE_NONE;
	bool		ok = jv_is(end, JV_ARR);

	if (jv_is(end, JV_STR))
		return text_re(t, end->s, end->len);
	for (const Jv *x = ok ? end->child : NULL; x != NULL && ok; x = x->next)
	{
		ok = x->type == JV_STR;
		if (ok)
			r = re_or(t->re, r, text_re(t, x->s, x->len));
	}
	if (ok && r != RE_NONE)
		return r;
	invalid(t, "a tag's end must be a string or strings");
	return RE_NONE;
}

/* A tag but the first `skip` bytes of its beginning. */
static bool
tag_rest(Tags *t, const Jv *tag, size_t skip, int depth, CfgNode *out)
{
	const Jv   *begin = string(tag, "begin");
	const Jv   *content = jv_get(tag, "content");
	const Jv   *type = string(content, "type");
	ReNode		end;
	CfgNode		part[3];

	if (!known(t, tag, "begin content schema end") || (end = end_re(t, tag)) == RE_NONE)
		return false;
	if (begin == NULL)
		return invalid(t, "a tag's begin must be a string");
	if (content != NULL && jv_get(tag, "schema") != NULL)
		return invalid(t, "a tag has a content or a schema");
	part[0] = cfg_lexeme(t->c, text_re(t, begin->s + skip, begin->len - skip));
	part[2] = cfg_lexeme(t->c, end);
	if (type != NULL && is(type, "any_text") && !re_nullable(t->re, end))
	{
		if (!known(t, content, ""))
			return false;
		part[1] = cfg_lexeme(t->c, up_to(t, end, end));
		part[2] = CFG_EMPTY;
	}
	else if (content != NULL ? !format(t, content, depth + 1, &part[1]) : !schema(t, jv_get(tag, "schema"), &part[1]))
		return false;
	*out = cfg_seqs(t->c, part, 3);
	return true;
}

static bool
is_list(const Jv *v)
{
	return jv_is(v, JV_ARR) && v->n > 0;
}

/* Each tag has a trigger that it begins with. */
static bool
check_triggers(Tags *t, const Jv *triggers, const Jv *tags)
{
	if (!is_list(triggers) || !is_list(tags))
		return invalid(t, "triggers and tags must be arrays that are not empty");
	for (const Jv *x = triggers->child; x != NULL; x = x->next)
		if (x->type != JV_STR || x->len == 0)
			return invalid(t, "a trigger must be a string that is not empty");
	for (const Jv *tag = tags->child; tag != NULL; tag = tag->next)
	{
		const Jv   *begin = string(tag, "begin");
		bool		found = false;

		for (const Jv *x = triggers->child; x != NULL && begin != NULL; x = x->next)
			found = found || starts_with(begin, x);
		if (!found)
			return invalid(t, "a tag's begin must start with one of the triggers");
	}
	return true;
}

static bool
triggered(Tags *t, const Jv *f, const Jv *tags, int depth, CfgNode *out)
{
	const Jv   *triggers = jv_get(f, "triggers");
	ReNode		marks = RE_NONE;
	CfgNode		any = CFG_NONE;
	bool		first;
	bool		one;
	CfgNode		rest;
	CfgNode		tail;

	if (!flag(t, f, "stop_after_first", &first) || !flag(t, f, "at_least_one", &one) || !check_triggers(t, triggers, tags))
		return false;
	for (const Jv *x = triggers->child; x != NULL; x = x->next)
		marks = re_or(t->re, marks, text_re(t, x->s, x->len));
	for (const Jv *x = triggers->child; x != NULL; x = x->next)
	{
		CfgNode		of_trigger = CFG_NONE;

		for (const Jv *tag = tags->child; tag != NULL; tag = tag->next)
		{
			if (!starts_with(string(tag, "begin"), x))
				continue;
			if (!tag_rest(t, tag, x->len, depth, &rest))
				return false;
			of_trigger = cfg_alt(t->c, of_trigger, rest);
		}
		any = cfg_alt(t->c, any, cfg_seq(t->c, cfg_lexeme(t->c, up_to(t, text_re(t, x->s, x->len), marks)), of_trigger));
	}
	tail = cfg_lexeme(t->c, without(t, marks));
	if (first)
		*out = one ? any : cfg_alt(t->c, any, tail);
	else
		*out = cfg_seq(t->c, cfg_repeat(t->c, any, one, CFG_INF), tail);
	return true;
}

static bool
separated(Tags *t, const Jv *f, int depth, CfgNode *out)
{
	const Jv   *tags = jv_get(f, "tags");
	const Jv   *sep = string(f, "separator");
	CfgNode		any = CFG_NONE;
	CfgNode		node;
	bool		first;
	bool		one;

	if (!jv_is(tags, JV_ARR) || sep == NULL)
		return invalid(t, "tags_with_separator needs tags and a separator");
	if (!flag(t, f, "stop_after_first", &first) || !flag(t, f, "at_least_one", &one))
		return false;
	for (const Jv *tag = tags->child; tag != NULL; tag = tag->next)
	{
		if (!tag_rest(t, tag, 0, depth, &node))
			return false;
		any = cfg_alt(t->c, any, node);
	}
	*out = cfg_list(t->c, any, cfg_lexeme(t->c, text_re(t, sep->s, sep->len)), one, first ? 1 : CFG_INF);
	return true;
}

static bool
elements(Tags *t, const Jv *f, bool all, int depth, CfgNode *out)
{
	const Jv   *list = jv_get(f, "elements");
	CfgNode		one;

	if (!is_list(list))
		return invalid(t, "elements must be an array that is not empty");
	*out = all ? CFG_EMPTY : CFG_NONE;
	for (const Jv *x = list->child; x != NULL; x = x->next)
	{
		if (!format(t, x, depth + 1, &one))
			return false;
		*out = all ? cfg_seq(t->c, *out, one) : cfg_alt(t->c, *out, one);
	}
	return true;
}

/* Formats that hold others. */
static bool
compound(Tags *t, const Jv *f, const Jv *type, int depth, CfgNode *out)
{
	if (is(type, "sequence"))
		return known(t, f, "elements") && elements(t, f, true, depth, out);
	if (is(type, "or"))
		return known(t, f, "elements") && elements(t, f, false, depth, out);
	if (is(type, "tag"))
		return tag_rest(t, f, 0, depth, out);
	if (is(type, "triggered_tags"))
		return known(t, f, "triggers tags at_least_one stop_after_first") && triggered(t, f, jv_get(f, "tags"), depth, out);
	if (is(type, "tags_with_separator"))
		return known(t, f, "tags separator at_least_one stop_after_first") && separated(t, f, depth, out);
	return err_set(t->e, ERR_UNSUPPORTED, "structural tag format \"%.*s\" is not supported", type->len < 60 ? (int) type->len : 60, type->s);
}

static bool
format(Tags *t, const Jv *f, int depth, CfgNode *out)
{
	const Jv   *type = string(f, "type");
	const Jv   *s;

	if (depth > MAX_DEPTH)
		return err_set(t->e, ERR_TOO_LONG, "structural tag is more than %d levels deep", MAX_DEPTH);
	if (type == NULL)
		return invalid(t, "a format must be an object with a type");
	if (is(type, "const_string"))
	{
		if ((s = string(f, "value")) == NULL)
			return invalid(t, "const_string needs a value");
		*out = cfg_lexeme(t->c, text_re(t, s->s, s->len));
		return known(t, f, "value");
	}
	if (is(type, "json_schema"))
		return known(t, f, "json_schema") && schema(t, jv_get(f, "json_schema"), out);
	if (is(type, "regex"))
		return (s = string(f, "pattern")) != NULL ? known(t, f, "pattern") && sub_spec(t, GRAM_REGEX, s, out) : invalid(t, "regex needs a pattern");
	if (is(type, "grammar"))
		return (s = string(f, "grammar")) != NULL ? known(t, f, "grammar") && sub_spec(t, GRAM_GRAMMAR, s, out) : invalid(t, "grammar needs a grammar");
	if (is(type, "any_text"))
	{
		*out = cfg_lexeme(t->c, re_any_text(t->re, RE_RAW));
		return known(t, f, "");
	}
	return compound(t, f, type, depth, out);
}

bool
tags_build(Cfg *c, const char *text, size_t n, const GramOptions *o, CfgNode *out, Err *e)
{
	Tags		t = {c, cfg_re(c), o, e};
	Arena	   *a = arena_new();
	const Jv   *root = jv_read(a, text, n, e);
	bool		ok = root != NULL;

	if (ok && root->type != JV_OBJ)
		ok = invalid(&t, "it must be a JSON object");
	else if (ok && jv_get(root, "format") != NULL)
		ok = known(&t, root, "format") && format(&t, jv_get(root, "format"), 0, out);
	else if (ok)
		ok = known(&t, root, "structures triggers") && triggered(&t, root, jv_get(root, "structures"), 0, out);
	arena_free(a);
	return ok;
}
