/*
 * lark.c
 *	  Grammars in Lark's notation: `rule: ...` and `TERMINAL: ...`.
 *
 *	 "text" "text"i			literals
 *	 /pattern/flags			regular expressions
 *	 "a".."z"				one character of a range
 *	 (a b | c)  [a]			groups; optional parts
 *	 a* a+ a? a~3 a~2..5	repetition
 *	 %ignore TERMINAL		may come before every terminal and at the end
 *	 %import common.NAME	Lark's library
 *	 // and # to the end of the line are comments
 *
 * Names of terminals are in capitals; nothing is ignored inside them.  The start rule is `start`, or the
 * first.  Priorities and aliases don't change which texts match and are skipped, as are ?, ! and _
 * before names.  Lark's lexer takes the longest terminal; this parser follows all splits, so it accepts
 * all of Lark's texts, and some more.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "grammar/grammar_internal.h"
#include "grammar/lang/grammar_ast.h"

#define MAX_GROUPS	200

typedef struct Lark
{
	NoteText	t;
	Notation   *n;
	Regex	   *re;
	NoteNodes	ignore;			/* terminals */
	uint32_t	ignored;		/* rule: any of them, any number of times */
	bool		terminal;		/* in the body of a terminal */
	int			depth;
} Lark;

static bool alternatives(Lark *p, NoteNode *out);

/* ---- words of the notation ---- */

/* Skip white space and comments; skip line ends only if `lines`. */
static void
space(NoteText *t, bool lines)
{
	while (t->i < t->n)
	{
		char		c = t->s[t->i];

		if (c == '#' || (c == '/' && t->i + 1 < t->n && t->s[t->i + 1] == '/'))
			while (t->i < t->n && t->s[t->i] != '\n')
				t->i++;
		else if (c == ' ' || c == '\t' || c == '\r' || (lines && c == '\n'))
			t->i++;
		else if (c == '\\' && t->i + 1 < t->n && t->s[t->i + 1] == '\n')
			t->i += 2;
		else
			return;
	}
}

/* Consume a line break, unless the next line continues with an alternative. */
static bool
line_ends(NoteText *t)
{
	NoteText	u;

	space(t, false);
	if (t->i >= t->n)
		return true;
	if (t->s[t->i] != '\n')
		return false;
	u = *t;
	space(&u, true);
	if (u.i < u.n && u.s[u.i] == '|')
	{
		t->i = u.i;
		return false;
	}
	return true;
}

static bool
letter(char c)
{
	return ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_';
}

static size_t
name_len(const NoteText *t)
{
	size_t		n = 0;

	while (t->i + n < t->n &&
		   (letter(t->s[t->i + n]) || (n > 0 && t->s[t->i + n] >= '0' && t->s[t->i + n] <= '9')))
		n++;
	return n;
}

/* Return true for a terminal, which begins with a capital letter. */
static bool
is_terminal(const char *s, size_t n)
{
	while (n > 0 && *s == '_')
	{
		s++;
		n--;
	}
	return n > 0 && *s >= 'A' && *s <= 'Z';
}

/* ---- the library ---- */

static const struct
{
	const char *name;
	const char *pattern;
}			common[] = {
	{"DIGIT", "[0-9]"}, {"HEXDIGIT", "[a-fA-F0-9]"}, {"INT", "[0-9]+"}, {"SIGNED_INT", "[+-]?[0-9]+"},
	{"DECIMAL", "[0-9]+\\.[0-9]*|\\.[0-9]+"}, {"_EXP", "[eE][+-]?[0-9]+"},
	{"FLOAT", "[0-9]+[eE][+-]?[0-9]+|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?"},
	{"SIGNED_FLOAT", "[+-]?([0-9]+[eE][+-]?[0-9]+|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?)"},
	{"NUMBER", "[0-9]+([eE][+-]?[0-9]+)?|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?"},
	{"SIGNED_NUMBER", "[+-]?([0-9]+([eE][+-]?[0-9]+)?|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?)"},
	{"ESCAPED_STRING", "\"([^\"\\\\\\n]|\\\\.)*\""}, {"LCASE_LETTER", "[a-z]"}, {"UCASE_LETTER", "[A-Z]"},
	{"LETTER", "[a-zA-Z]"},
	{"WORD", "[a-zA-Z]+"}, {"CNAME", "[_a-zA-Z][_a-zA-Z0-9]*"}, {"WS_INLINE", "[ \\t]+"},
	{"WS", "[ \\t\\f\\r\\n]+"}, {"CR", "\\r"}, {"LF", "\\n"},
	{"NEWLINE", "(\\r?\\n)+"}, {"SH_COMMENT", "#[^\\n]*"}, {"CPP_COMMENT", "//[^\\n]*"},
	{"SQL_COMMENT", "--[^\\n]*"},
	{"C_COMMENT", "/\\*([^*]|\\*+[^*/])*\\*+/"}
};

static bool
import_one(Lark *p, const char *name, size_t n, const char *as, size_t as_len)
{
	static const ReSyntax syntax = {.mode = RE_RAW,.rust = true};
	uint32_t	r = note_rule(p->n, as, as_len);
	ReNode		re;

	for (size_t i = 0; i < sizeof(common) / sizeof(common[0]); i++)
		if (strlen(common[i].name) == n && memcmp(common[i].name, name, n) == 0)
		{
			if (!re_parse(p->re, common[i].pattern, strlen(common[i].pattern), &syntax, &re, p->t.e))
				return false;
			if (!note_define(p->n, r, note_re(p->n, re)))
				return note_error(&p->t, ERR_INVALID, "\"%.100s\" is defined twice", note_name(p->n, r));
			return true;
		}
	return note_error(&p->t, ERR_UNSUPPORTED, "%%import of \"%.*s\" is not supported",
					  (int) (n < 100 ? n : 100), name);
}

/* Read the rest of %import: common.A, common.A -> B, common (A, B). */
static bool
import(Lark *p)
{
	NoteText   *t = &p->t;
	const char *name;
	size_t		n;
	bool		list;

	space(t, false);
	if (!note_accept(t, "common"))
		return note_error(t, ERR_UNSUPPORTED, "%%import from other modules than common is not supported");
	list = !note_accept(t, ".");
	space(t, false);
	if (list && !note_accept(t, "("))
		return note_error(t, ERR_INVALID, "malformed %%import");
	do
	{
		space(t, list);
		name = t->s + t->i;
		n = name_len(t);
		t->i += n;
		space(t, list);
		if (!list && note_accept(t, "->"))
		{
			space(t, false);
			if (!import_one(p, name, n, t->s + t->i, name_len(t)))
				return false;
			t->i += name_len(t);
			return true;
		}
		if (!import_one(p, name, n, name, n))
			return false;
	} while (list && note_accept(t, ","));
	return !list || note_accept(t, ")") || note_error(t, ERR_INVALID, "malformed %%import");
}

/* ---- terminals ---- */

/* A terminal in a rule: ignored text may come before it. */
static NoteNode
terminal(Lark *p, NoteNode x)
{
	NoteNode	v[2];

	if (p->terminal)
		return x;
	v[0] = note_ref(p->n, p->ignored);
	v[1] = x;
	return note_seq(p->n, v, 2);
}

static bool
literal(Lark *p, NoteNode *out)
{
	NoteText   *t = &p->t;
	ReSyntax	syntax = {.mode = RE_RAW,.rust = true,.no_case = true};
	Buf			text = {0};
	Buf			high = {0};
	Buf			pattern = {0};
	ReNode		re = RE_EMPTY;
	bool		ok = note_literal(t, &text);

	if (ok && note_accept(t, ".."))
	{
		ok = t->i < t->n && t->s[t->i] == '"' && note_literal(t, &high) && text.len > 0 && high.len > 0;
		if (ok)
			buf_printf(&pattern, "[%s%s-%s%s]", strchr("\\]^-[", text.data[0]) ? "\\" : "", text.data,
					   strchr("\\]^-[", high.data[0]) ? "\\" : "", high.data);
		syntax.no_case = false;
		ok = ok ? re_parse(p->re, pattern.data, pattern.len, &syntax, &re, t->e) :
			note_error(t, ERR_INVALID, "malformed range");
	}
	else if (ok && t->i < t->n && t->s[t->i] == 'i')
	{
		t->i++;
		for (size_t i = 0; i < text.len; i++)
		{
			if (strchr("\\^$.|?*+()[]{}/-", text.data[i]) != NULL && text.data[i] != '\0')
				buf_addc(&pattern, '\\');
			buf_addc(&pattern, text.data[i]);
		}
		ok = re_parse(p->re, pattern.len > 0 ? pattern.data : "", pattern.len, &syntax, &re, t->e);
	}
	else if (ok)
		re = re_bytes(p->re, text.data, text.len);
	if (ok)
		*out = terminal(p, note_re(p->n, re));
	buf_free(&text);
	buf_free(&high);
	buf_free(&pattern);
	return ok;
}

static bool
pattern(Lark *p, NoteNode *out)
{
	NoteText   *t = &p->t;
	ReSyntax	syntax = {.mode = RE_RAW,.rust = true};
	size_t		at = ++t->i;
	size_t		end;
	bool		in_class = false;
	ReNode		re;

	for (; t->i < t->n && t->s[t->i] != '\n' && (in_class || t->s[t->i] != '/'); t->i++)
	{
		if (t->s[t->i] == '\\')
			t->i++;
		else if (t->s[t->i] == '[' || t->s[t->i] == ']')
			in_class = t->s[t->i] == '[';
	}
	if (t->i >= t->n || t->s[t->i] != '/')
		return note_error(t, ERR_INVALID, "pattern without an end");
	end = t->i++;
	for (; t->i < t->n && strchr("imslux", t->s[t->i]) != NULL && t->s[t->i] != '\0'; t->i++)
	{
		if (t->s[t->i] == 'i')
			syntax.no_case = true;
		else if (t->s[t->i] == 's')
			syntax.dot_all = true;
		else if (t->s[t->i] == 'u')
			syntax.unicode = true;
		else
			return note_error(t, ERR_UNSUPPORTED, "flag %c of a pattern is not supported", t->s[t->i]);
	}
	if (!re_parse(p->re, t->s + at, end - at, &syntax, &re, t->e))
		return false;
	*out = terminal(p, note_re(p->n, re));
	return true;
}

/* ---- rules ---- */

static bool
group(Lark *p, const char *close, NoteNode *out)
{
	p->t.i++;
	if (++p->depth > MAX_GROUPS)
		return note_error(&p->t, ERR_TOO_LONG, "groups more than %d deep", MAX_GROUPS);
	if (!alternatives(p, out))
		return false;
	p->depth--;
	space(&p->t, true);
	if (!note_accept(&p->t, close))
		return note_error(&p->t, ERR_INVALID, "group without %s", close);
	if (*close == ']')
		*out = note_repeat(p->n, *out, 0, 1);
	return true;
}

static bool
atom(Lark *p, NoteNode *out)
{
	NoteText   *t = &p->t;
	size_t		n;

	ALWAYS(t->i < t->n);
	switch (t->s[t->i])
	{
		case '"':
			return literal(p, out);
		case '/':
			return pattern(p, out);
		case '(':
			return group(p, ")", out);
		case '[':
			return group(p, "]", out);
		case '<':
			return note_error(t, ERR_UNSUPPORTED, "tokens <...> are not supported");
		case '%':
			return note_error(t, ERR_UNSUPPORTED, "%% inside a rule is not supported");
		default:
			n = name_len(t);
			if (n == 0)
				return note_unexpected(t);
			*out = note_ref(p->n, note_rule(p->n, t->s + t->i, n));
			if (is_terminal(t->s + t->i, n))
				*out = terminal(p, *out);
			t->i += n;
			if (note_looking_at(t, "{"))
				return note_error(t, ERR_UNSUPPORTED, "templates are not supported");
			return true;
	}
}

static bool
repeated(Lark *p, NoteNode *out)
{
	NoteText   *t = &p->t;
	uint32_t	min;
	uint32_t	max;

	if (!atom(p, out))
		return false;
	for (;;)
	{
		min = 0;
		max = CFG_INF;
		if (note_accept(t, "+"))
			min = 1;
		else if (note_accept(t, "?"))
			max = 1;
		else if (note_accept(t, "~") || (space(t, false), note_accept(t, "~")))
		{
			space(t, false);
			if (!note_number(t, &min))
				return t->e->cls != ERR_NONE ? false : note_error(t, ERR_INVALID, "~ without a number");
			max = min;
			if (note_accept(t, "..") && !note_number(t, &max))
				return t->e->cls != ERR_NONE ? false : note_error(t, ERR_INVALID, ".. without a number");
			if (min > max)
				return note_error(t, ERR_INVALID, "counts out of order");
		}
		else if (!note_accept(t, "*"))
			return true;
		*out = note_repeat(p->n, *out, min, max);
	}
}

static bool
sequence(void *reader, NoteNode *out)
{
	Lark	   *p = reader;
	NoteText   *t = &p->t;
	NoteNodes	v = {0};
	NoteNode	x = 0;
	bool		ok = true;

	for (;;)
	{
		if (p->depth > 0)
			space(t, true);
		else if (line_ends(t))
			break;
		if (t->i >= t->n || strchr("|)]", t->s[t->i]) != NULL)
			break;
		if (note_accept(t, "->"))
		{
			space(t, false);
			t->i += name_len(t);
			continue;
		}
		ok = repeated(p, &x);
		if (!ok)
			break;
		note_nodes_push(&v, x);
	}
	return note_end_sequence(p->n, &v, ok, out);
}

static bool
alternatives(Lark *p, NoteNode *out)
{
	return note_alternatives(p->n, &p->t, sequence, p, out);
}

static bool
directive(Lark *p)
{
	NoteText   *t = &p->t;
	NoteNode	x;
	size_t		n = 0;
	bool		ok;

	if (note_accept(t, "%import"))
		return import(p);
	if (note_accept(t, "%ignore"))
	{
		ASSERT(!p->terminal && p->depth == 0);
		p->terminal = true;
		ok = alternatives(p, &x);
		p->terminal = false;
		if (ok)
			note_nodes_push(&p->ignore, x);
		return ok;
	}
	while (n < t->n - t->i && n < 60 && strchr(" \t\r\n", t->s[t->i + n]) == NULL)
		n++;
	return note_error(t, ERR_UNSUPPORTED, "%.*s is not supported", (int) n, t->s + t->i);
}

/* Read a rule or a terminal; *rule = its number. */
static bool
definition(Lark *p, uint32_t *rule)
{
	NoteText   *t = &p->t;
	size_t		n;
	NoteNode	body;
	uint32_t	priority;

	while (note_accept(t, "?") || note_accept(t, "!"))
		continue;
	n = name_len(t);
	if (n == 0)
		return note_error(t, ERR_INVALID, "expected a rule: name: ...");
	*rule = note_rule(p->n, t->s + t->i, n);
	p->terminal = is_terminal(t->s + t->i, n);
	t->i += n;
	if (note_accept(t, ".") && (note_accept(t, "-"), !note_number(t, &priority)))
		return note_error(t, ERR_INVALID, "malformed priority");
	if (note_looking_at(t, "{"))
		return note_error(t, ERR_UNSUPPORTED, "templates are not supported");
	if (note_looking_at(t, "["))
		return note_error(t, ERR_UNSUPPORTED, "attributes of rules are not supported");
	space(t, true);
	if (!note_accept(t, ":"))
		return note_error(t, ERR_INVALID, "expected : behind the name of a rule");
	space(t, true);
	if (!alternatives(p, &body))
		return false;
	ASSERT(p->depth == 0);
	p->terminal = false;
	if (!note_define(p->n, *rule, body))
		return note_error(t, ERR_INVALID, "\"%.100s\" is defined twice", note_name(p->n, *rule));
	return true;
}

/* Read all definitions; *start = the start rule. */
static bool
definitions(Lark *p, uint32_t *start)
{
	NoteText   *t = &p->t;
	uint32_t	first = UINT32_MAX;
	uint32_t	rule = 0;

	*start = UINT32_MAX;
	for (space(t, true); t->i < t->n; space(t, true))
	{
		if (t->s[t->i] == '%')
		{
			if (!directive(p))
				return false;
		}
		else
		{
			if (!definition(p, &rule))
				return false;
			if (first == UINT32_MAX)
				first = rule;
			if (strcmp(note_name(p->n, rule), "start") == 0)
				*start = rule;
		}
		if (t->i < t->n && t->s[t->i] != '\n')
			return note_error(t, ERR_INVALID, "unexpected \"%c\"", t->s[t->i]);
	}
	if (*start == UINT32_MAX)
		*start = first;
	return first != UINT32_MAX || note_error(t, ERR_INVALID, "there is no rule");
}

bool
lark_build(Cfg *c, const char *text, size_t n, CfgNode *out, Err *e)
{
	Lark		p = {.t = {text, n, 0, e},.n = note_new(c),.re = cfg_re(c)};
	uint32_t	start;
	uint32_t	whole;
	NoteNode	v[2];
	bool		ok;

	e->cls = ERR_NONE;
	/* names that no grammar can contain */
	p.ignored = note_rule(p.n, "%ignore", 7);
	ok = definitions(&p, &start);
	if (ok)
	{
		note_define(p.n, p.ignored, p.ignore.n == 0 ? note_re(p.n, RE_EMPTY) :
					note_repeat(p.n, note_alt(p.n, p.ignore.v, p.ignore.n), 0, CFG_INF));
		whole = note_rule(p.n, "%start", 6);
		v[0] = note_ref(p.n, start);
		v[1] = note_ref(p.n, p.ignored);
		note_define(p.n, whole, note_seq(p.n, v, 2));
		ok = note_build(p.n, whole, out, e);
	}
	mem_free(p.ignore.v);
	note_free(p.n);
	return ok;
}
