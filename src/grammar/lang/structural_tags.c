/*
 * structural_tags.c
 *	  Structural tags: free text in which certain beginnings require a certain continuation.
 *
 * Old form: {"structures": [{"begin", "schema", "end"}, ...], "triggers": [...]}.  New form:
 * {"format": ...} with formats const_string, json_schema, regex, grammar, any_text, sequence,
 * or, tag, triggered_tags, tags_with_separator.
 *
 * Free text before a tag and the trigger at its end are one lexeme: a text in which a trigger ends at
 * the end, and none before.  The rest of a tag that begins with this trigger must follow, so the text
 * can't continue as if there had been no trigger.  any_text as a tag's content ends the same way: at the
 * first occurrence of the tag's end.  Free text within a tag, at any depth, must not contain any end of
 * the innermost tag, nor any of its own `excludes`.
 *
 * Tested by tests/unit/grammar/lang/test_gram_tags.c, which compares with a plain matcher, and
 * tests/unit/grammar/test_grammar.c.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "grammar/cfg/cfg_internal.h"
#include "grammar/grammar_internal.h"
#include "grammar/schema/schema_json.h"

#define MAX_DEPTH	60
#define MAX_PAIRS	100000		/* triggers times tags */

typedef struct Tags
{
	Cfg		   *c;
	Regex	   *re;
	const GramOptions *o;
	Err		   *e;
	ReNode		ends;			/* ends of the current tag; RE_NONE: none */
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

/* Read a boolean; false if it is absent. */
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

/* Return true if the object has no keys other than "type" and these, separated by spaces. */
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
			return err_set(t->e, ERR_UNSUPPORTED, "structural tag key \"%.*s\" is not supported here",
						   m->key_len < 60 ? (int) m->key_len : 60, m->key);
	}
	return true;
}

/* Match a text literally; `what` names it in errors. */
static bool
text_re(Tags *t, const char *what, const char *s, size_t n, ReNode *out)
{
	*out = re_bytes(t->re, s, n);
	if (*out != RE_NONE)
		return true;
	return re_check(t->re, t->e) && err_set(t->e, ERR_INVALID, "invalid structural tag: a %s must not "
															   "contain a NUL", what);
}

/* Match one of the texts of a list. */
static bool
texts_re(Tags *t, const char *what, const Jv *list, ReNode *out)
{
	ReNode	   *part = mem_alloc((list->n + 1) * sizeof(ReNode));
	size_t		n = 0;
	bool		ok = true;

	for (const Jv *x = list->child; x != NULL && ok; x = x->next)
		ok = text_re(t, what, x->s, x->len, &part[n++]);
	if (ok)
		*out = re_or_list(t->re, part, n);
	mem_free(part);
	return ok;
}

/* Match one of the nonempty texts of a list; RE_NONE if there are none. */
static bool
marks_of(Tags *t, const char *what, const Jv *list, ReNode *out)
{
	ReNode		one;

	*out = RE_NONE;
	for (const Jv *x = jv_is(list, JV_ARR) ? list->child : list; x != NULL;
		 x = jv_is(list, JV_ARR) ? x->next : NULL)
	{
		if (x->len > 0 && !text_re(t, what, x->s, x->len, &one))
			return false;
		if (x->len > 0)
			*out = re_or(t->re, *out, one);
	}
	return true;
}

/* What free text must not contain: the tag's ends, and what the format excludes. */
static bool
excluded(Tags *t, const Jv *f, ReNode *out)
{
	const Jv   *list = jv_get(f, "excludes");

	*out = t->ends;
	if (list == NULL)
		return true;
	if (!jv_is(list, JV_ARR))
		return invalid(t, "excludes must be an array of strings that are not empty");
	for (const Jv *x = list->child; x != NULL; x = x->next)
		if (x->type != JV_STR || x->len == 0)
			return invalid(t, "excludes must be an array of strings that are not empty");
	if (!marks_of(t, "text of excludes", list, out))
		return false;
	*out = re_or(t->re, *out, t->ends);
	return true;
}

/* Texts that end with mark, and in which one of marks ends there for the first time. */
static ReNode
up_to(Tags *t, ReNode mark, ReNode marks)
{
	ReNode		any = re_any_text(t->re, RE_RAW);
	uint32_t	all[8];
	ReNode		byte;

	memset(all, 0xff, sizeof(all));
	byte = re_byte_set(t->re, all);
	return re_and(t->re, re_cat(t->re, any, mark),
				  re_not(t->re,
						 re_cat(t->re, RE_ALL, re_cat(t->re, marks, re_repeat(t->re, byte, 1, RE_INF)))));
}

/* Texts that contain none of marks; RE_NONE: any. */
static ReNode
without(Tags *t, ReNode marks)
{
	return re_and(t->re, re_any_text(t->re, RE_RAW),
				  re_not(t->re, re_cat(t->re, RE_ALL, re_cat(t->re, marks, RE_ALL))));
}

/* ---- parts ---- */

static bool
sub_spec(Tags *t, GramKind kind, const Jv *text, CfgNode *out)
{
	GramSpec	s = {.kind = kind,.text = text->s,.len = text->len,.opt = *t->o};

	return spec_build(t->c, &s, out, t->e);
}

/* Compile a schema from its text, as its numbers are exact. */
static bool
schema(Tags *t, const Jv *s, CfgNode *out)
{
	return s != NULL ? sub_spec(t, GRAM_JSON_SCHEMA, s, out) : invalid(t, "there is no schema");
}

static bool
is_list(const Jv *v)
{
	return jv_is(v, JV_ARR) && v->n > 0;
}

static bool
all_strings(const Jv *list)
{
	for (const Jv *x = list->child; x != NULL; x = x->next)
		if (x->type != JV_STR)
			return false;
	return true;
}

/* Read one end, or a list of ends. */
static bool
end_re(Tags *t, const Jv *tag, ReNode *out)
{
	const Jv   *end = jv_get(tag, "end");

	if (jv_is(end, JV_STR))
		return text_re(t, "tag's end", end->s, end->len, out);
	if (is_list(end) && all_strings(end))
		return texts_re(t, "tag's end", end, out);
	return invalid(t, "a tag's end must be a string or strings");
}

/* Build a tag's content; its ends apply to the text within. */
static bool
content_of(Tags *t, const Jv *tag, int depth, CfgNode *out)
{
	const Jv   *content = jv_get(tag, "content");
	ReNode		outer = t->ends;
	bool		ok;

	if (content == NULL)
		return schema(t, jv_get(tag, "schema"), out);
	ok = marks_of(t, "tag's end", jv_get(tag, "end"), &t->ends) && format(t, content, depth + 1, out);
	t->ends = outer;
	return ok;
}

/* Build what follows a tag's begin. */
static bool
tag_body(Tags *t, const Jv *tag, int depth, CfgNode *out)
{
	const Jv   *content = jv_get(tag, "content");
	const Jv   *type = string(content, "type");
	ReNode		end;
	CfgNode		inner;

	if (!known(t, tag, "begin content schema end") || !end_re(t, tag, &end))
		return false;
	if (jv_get(tag, "type") != NULL && (string(tag, "type") == NULL || !is(string(tag, "type"), "tag")))
		return invalid(t, "a tag's type must be \"tag\"");
	if (content != NULL && jv_get(tag, "schema") != NULL)
		return invalid(t, "a tag has a content or a schema");
	if (type != NULL && is(type, "any_text") && jv_get(content, "excludes") == NULL &&
		!re_nullable(t->re, end))
	{
		*out = cfg_lexeme(t->c, up_to(t, end, end));
		return known(t, content, "");
	}
	if (!content_of(t, tag, depth, &inner))
		return false;
	*out = cfg_seq(t->c, inner, cfg_lexeme(t->c, end));
	return true;
}

/* Build a tag without the first `skip` bytes of its begin, followed by its body. */
static bool
tag_from(Tags *t, const Jv *tag, size_t skip, CfgNode body, CfgNode *out)
{
	const Jv   *begin = string(tag, "begin");
	ReNode		re;

	if (begin == NULL)
		return invalid(t, "a tag's begin must be a string");
	/* check_triggers() has checked that the tag begins with the trigger */
	ALWAYS(skip <= begin->len);
	if (!text_re(t, "tag's begin", begin->s + skip, begin->len - skip, &re))
		return false;
	*out = cfg_seq(t->c, cfg_lexeme(t->c, re), body);
	return true;
}

static bool
tag_whole(Tags *t, const Jv *tag, int depth, CfgNode *out)
{
	CfgNode		body;

	return tag_body(t, tag, depth, &body) && tag_from(t, tag, 0, body, out);
}

/* Check that each tag begins with one of the triggers. */
static bool
check_triggers(Tags *t, const Jv *triggers, const Jv *tags)
{
	if (!is_list(triggers) || !is_list(tags))
		return invalid(t, "triggers and tags must be arrays that are not empty");
	if ((uint64_t) triggers->n * tags->n > MAX_PAIRS)
	{
		err_set(t->e, ERR_TOO_LONG, "structural tag has %u triggers and %u tags", triggers->n, tags->n);
		return err_hint(t->e, "Their product must be at most %d; a trigger may stand for several tags.",
						MAX_PAIRS);
	}
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

/* Build what follows the trigger, for the tags that begin with it; part[] has room for all. */
static bool
after_trigger(Tags *t, const Jv *trigger, const Jv *tags, const CfgNode *body, CfgNode *part, CfgNode *out)
{
	size_t		n = 0;

	for (const Jv *tag = tags->child; tag != NULL; tag = tag->next, body++)
		if (starts_with(string(tag, "begin"), trigger) && !tag_from(t, tag, trigger->len, *body, &part[n++]))
			return false;
	ALWAYS(n <= tags->n);
	*out = cfg_alts(t->c, part, n);
	return cfg_check(t->c, t->e);
}

/* Triggered tags, while they are compiled. */
typedef struct Triggered
{
	ReNode		marks;			/* the triggers */
	ReNode		none;			/* what free text must not contain */
	CfgNode    *body;			/* [tags] */
	CfgNode    *part;			/* room for as many */
	CfgNode		tag;			/* one of the tags, without text before it */
	CfgNode		any;			/* one of the tags, after free text up to its trigger */
} Triggered;

/* Build one of the tags, without text before it. */
static bool
tag_at_once(Tags *t, const Jv *tags, Triggered *k)
{
	size_t		n = 0;

	for (const Jv *tag = tags->child; tag != NULL; tag = tag->next, n++)
		if (!tag_from(t, tag, 0, k->body[n], &k->part[n]))
			return false;
	ALWAYS(n == tags->n);
	k->tag = cfg_alts(t->c, k->part, n);
	return cfg_check(t->c, t->e);
}

/* Build free text up to a trigger, and what follows it. */
static bool
any_tag(Tags *t, const Jv *triggers, const Jv *tags, Triggered *k)
{
	CfgNode    *any = mem_alloc((triggers->n + 1) * sizeof(CfgNode));
	size_t		n = 0;
	bool		ok = true;

	for (const Jv *x = triggers->child; x != NULL && ok; x = x->next)
	{
		ReNode		mark;
		CfgNode		rest;

		ok = text_re(t, "trigger", x->s, x->len, &mark) &&
			after_trigger(t, x, tags, k->body, k->part, &rest);
		if (ok)
			any[n++] = cfg_seq(t->c,
							   cfg_lexeme(t->c, re_and(t->re, up_to(t, mark, k->marks), without(t, k->none))),
							   rest);
	}
	if (ok)
		k->any = cfg_alts(t->c, any, n);
	mem_free(any);
	return ok;
}

/* Compile each tag's body once, however many triggers it has, and what may come where. */
static bool
compile_tags(Tags *t, const Jv *triggers, const Jv *tags, int depth, Triggered *k)
{
	size_t		n = 0;
	bool		ok = true;

	k->body = mem_alloc((tags->n + 1) * sizeof(CfgNode));
	k->part = mem_alloc((tags->n + 1) * sizeof(CfgNode));
	for (const Jv *tag = tags->child; tag != NULL && ok; tag = tag->next)
		ok = tag_body(t, tag, depth, &k->body[n++]);
	ok = ok && tag_at_once(t, tags, k) && any_tag(t, triggers, tags, k);
	mem_free(k->body);
	mem_free(k->part);
	return ok;
}

/* With at_least_one the first tag is at the beginning, as in xgrammar: no text comes before it. */
static bool
triggered(Tags *t, const Jv *f, const Jv *tags, int depth, CfgNode *out)
{
	const Jv   *triggers = jv_get(f, "triggers");
	Triggered	k = {0};
	bool		first;
	bool		one;
	CfgNode		tail;

	if (!flag(t, f, "stop_after_first", &first) || !flag(t, f, "at_least_one", &one) ||
		!excluded(t, f, &k.none) || !check_triggers(t, triggers, tags) ||
		!texts_re(t, "trigger", triggers, &k.marks) || !compile_tags(t, triggers, tags, depth, &k))
		return false;
	tail = cfg_lexeme(t->c, without(t, re_or(t->re, k.marks, k.none)));
	if (first)
		*out = one ? k.tag : cfg_alt(t->c, k.any, tail);
	else
		*out = cfg_seq(t->c, one ? k.tag : CFG_EMPTY, cfg_seq(t->c, cfg_repeat(t->c, k.any, 0, CFG_INF),
															  tail));
	return true;
}

/* Build all elements of a list, as a sequence or as alternatives. */
static bool
parts(Tags *t, const Jv *list, bool (*make) (Tags *, const Jv *, int, CfgNode *), bool all, int depth,
	  CfgNode *out)
{
	CfgNode    *part = mem_alloc((list->n + 1) * sizeof(CfgNode));
	size_t		n = 0;
	bool		ok = true;

	for (const Jv *x = list->child; x != NULL && ok; x = x->next)
		ok = make(t, x, depth, &part[n++]) && cfg_check(t->c, t->e);
	if (ok)
		*out = all ? cfg_seqs(t->c, part, n) : cfg_alts(t->c, part, n);
	mem_free(part);
	return ok;
}

static bool
separated(Tags *t, const Jv *f, int depth, CfgNode *out)
{
	const Jv   *tags = jv_get(f, "tags");
	const Jv   *sep = string(f, "separator");
	ReNode		between;
	CfgNode		any;
	bool		first;
	bool		one;

	if (!is_list(tags) || sep == NULL)
		return invalid(t, "tags_with_separator needs tags and a separator");
	if (!flag(t, f, "stop_after_first", &first) || !flag(t, f, "at_least_one", &one) ||
		!parts(t, tags, tag_whole, false, depth, &any) ||
		!text_re(t, "separator", sep->s, sep->len, &between))
		return false;
	*out = cfg_list(t->c, any, cfg_lexeme(t->c, between), one, first ? 1 : CFG_INF);
	return true;
}

static bool
elements(Tags *t, const Jv *f, bool all, int depth, CfgNode *out)
{
	const Jv   *list = jv_get(f, "elements");

	return is_list(list) ? parts(t, list, format, all, depth + 1, out) :
		invalid(t, "elements must be an array that is not empty");
}

/* Build formats that contain others. */
static bool
compound(Tags *t, const Jv *f, const Jv *type, int depth, CfgNode *out)
{
	if (is(type, "sequence"))
		return known(t, f, "elements") && elements(t, f, true, depth, out);
	if (is(type, "or"))
		return known(t, f, "elements") && elements(t, f, false, depth, out);
	if (is(type, "tag"))
		return tag_whole(t, f, depth, out);
	if (is(type, "triggered_tags"))
		return known(t, f, "triggers tags at_least_one stop_after_first excludes") &&
			triggered(t, f, jv_get(f, "tags"), depth, out);
	if (is(type, "tags_with_separator"))
		return known(t, f, "tags separator at_least_one stop_after_first") && separated(t, f, depth, out);
	return err_set(t->e, ERR_UNSUPPORTED, "structural tag format \"%.*s\" is not supported",
				   type->len < 60 ? (int) type->len : 60, type->s);
}

static bool
format(Tags *t, const Jv *f, int depth, CfgNode *out)
{
	const Jv   *type = string(f, "type");
	const Jv   *s;
	ReNode		re;

	if (depth > MAX_DEPTH)
		return err_set(t->e, ERR_TOO_LONG, "structural tag is more than %d levels deep", MAX_DEPTH);
	if (type == NULL)
		return invalid(t, "a format must be an object with a type");
	if (is(type, "const_string"))
	{
		if ((s = string(f, "value")) == NULL)
			return invalid(t, "const_string needs a value");
		if (!text_re(t, "value", s->s, s->len, &re))
			return false;
		*out = cfg_lexeme(t->c, re);
		return known(t, f, "value");
	}
	if (is(type, "json_schema"))
		return known(t, f, "json_schema") && schema(t, jv_get(f, "json_schema"), out);
	if (is(type, "regex"))
		return (s = string(f, "pattern")) != NULL ? known(t, f, "pattern") &&
			sub_spec(t, GRAM_REGEX, s, out) : invalid(t, "regex needs a pattern");
	if (is(type, "grammar"))
		return (s = string(f, "grammar")) != NULL ? known(t, f, "grammar") &&
			sub_spec(t, GRAM_GRAMMAR, s, out) : invalid(t, "grammar needs a grammar");
	if (is(type, "any_text"))
	{
		if (!known(t, f, "excludes") || !excluded(t, f, &re))
			return false;
		*out = cfg_lexeme(t->c, without(t, re));
		return true;
	}
	return compound(t, f, type, depth, out);
}

bool
tags_build(Cfg *c, const char *text, size_t n, const GramOptions *o, CfgNode *out, Err *e)
{
	Tags		t = {c, cfg_re(c), o, e, RE_NONE};
	Arena	   *a = arena_new();
	const Jv   *root = jv_read(a, text, n, e);
	bool		ok = root != NULL;

	if (ok && root->type != JV_OBJ)
		ok = invalid(&t, "it must be a JSON object");
	else if (ok && jv_get(root, "format") != NULL)
		ok = known(&t, root, "format") && format(&t, jv_get(root, "format"), 0, out);
	else if (ok)
		ok = known(&t, root, "structures triggers") && triggered(&t, root, jv_get(root, "structures"), 0,
																 out);
	arena_free(a);
	/* each tag has restored the ends of the enclosing one */
	ASSERT(!ok || t.ends == RE_NONE);
	return ok;
}
