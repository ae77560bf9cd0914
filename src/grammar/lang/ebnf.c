/*
 * ebnf.c
 *	  Grammars of rules `name ::= ...`, as in GBNF and its relatives.
 *
 *	 "text" 'text'		literals, with escapes
 *	 [a-z] [^"\\] .		one character
 *	 /pattern/			a regular expression
 *	 (a b | c)			groups
 *	 a* a+ a? a{3} a{2,5}	repetition
 *	 # to the end of the line is a comment
 *
 * A rule ends where the next begins, so lines may be broken anywhere.  The start rule is root.
 */
#include <string.h>

#include "base/assert.h"
#include "grammar/grammar_internal.h"
#include "grammar/lang/grammar_ast.h"

#define MAX_GROUPS	200

typedef struct Ebnf
{
	NoteText	t;
	Notation   *n;
	Regex	   *re;
	int			depth;
} Ebnf;

static bool alternatives(Ebnf *p, NoteNode *out);

static void
space(NoteText *t)
{
	while (t->i < t->n)
	{
		if (t->s[t->i] == '#')
			while (t->i < t->n && t->s[t->i] != '\n')
				t->i++;
		else if (strchr(" \t\r\n", t->s[t->i]) == NULL || t->s[t->i] == '\0')
			return;
		else
			t->i++;
	}
}

static size_t
name_len(const NoteText *t)
{
	size_t		n = 0;

	while (t->i + n < t->n)
	{
		char		c = t->s[t->i + n];

		if (!((c | 32) >= 'a' && (c | 32) <= 'z') && !(c >= '0' && c <= '9' && n > 0) && c != '_' &&
			!((c == '-' || c == '.') && n > 0))
			break;
		n++;
	}
	return n;
}

/* Return true if a rule begins here. */
static bool
at_rule(const NoteText *t)
{
	NoteText	u = *t;

	u.i += name_len(&u);
	if (u.i == t->i)
		return false;
	space(&u);
	return note_looking_at(&u, "::=");
}

/* Read [...] with the parser of patterns. */
static bool
char_class(Ebnf *p, NoteNode *out)
{
	static const ReSyntax syntax = {.mode = RE_RAW,.rust = true,.dot_all = true};
	size_t		at = p->t.i++;
	ReNode		re;

	while (p->t.i < p->t.n && (p->t.s[p->t.i] != ']' || p->t.i == at + 1 ||
							   (p->t.i == at + 2 && p->t.s[at + 1] == '^')))
		p->t.i += p->t.s[p->t.i] == '\\' ? 2 : 1;
	if (p->t.i >= p->t.n)
	{
		p->t.i = at;
		return note_error(&p->t, ERR_INVALID, "[ without ]");
	}
	p->t.i++;
	if (!re_parse(p->re, p->t.s + at, p->t.i - at, &syntax, &re, p->t.e))
		return false;
	*out = note_re(p->n, re);
	return true;
}

static bool
pattern(Ebnf *p, NoteNode *out)
{
	static const ReSyntax syntax = {.mode = RE_RAW,.rust = true};
	size_t		at = ++p->t.i;
	ReNode		re;

	while (p->t.i < p->t.n && p->t.s[p->t.i] != '/' && p->t.s[p->t.i] != '\n')
		p->t.i += p->t.s[p->t.i] == '\\' ? 2 : 1;
	if (p->t.i >= p->t.n || p->t.s[p->t.i] != '/')
		return note_error(&p->t, ERR_INVALID, "pattern without an end");
	if (!re_parse(p->re, p->t.s + at, p->t.i - at, &syntax, &re, p->t.e))
		return false;
	p->t.i++;
	*out = note_re(p->n, re);
	return true;
}

static bool
atom(Ebnf *p, NoteNode *out)
{
	NoteText   *t = &p->t;
	Buf			text = {0};
	size_t		n;
	bool		ok;

	ALWAYS(t->i < t->n);
	switch (t->s[t->i])
	{
		case '"':
		case '\'':
			ok = note_literal(t, &text);
			if (ok)
				*out = note_re(p->n, re_bytes(p->re, text.data, text.len));
			buf_free(&text);
			return ok;
		case '[':
			return char_class(p, out);
		case '/':
			return pattern(p, out);
		case '.':
			t->i++;
			*out = note_re(p->n, re_any_char(p->re, RE_RAW));
			return true;
		case '(':
			t->i++;
			if (note_looking_at(t, "="))
				return note_error(t, ERR_UNSUPPORTED, "look-ahead (= ...) is not supported");
			if (++p->depth > MAX_GROUPS)
				return note_error(t, ERR_TOO_LONG, "groups more than %d deep", MAX_GROUPS);
			if (!alternatives(p, out))
				return false;
			p->depth--;
			return note_accept(t, ")") || note_error(t, ERR_INVALID, "( without )");
		case '<':
			return note_error(t, ERR_UNSUPPORTED, "tokens <...> are not supported");
		default:
			n = name_len(t);
			if (n == 0)
				return note_unexpected(t);
			*out = note_ref(p->n, note_rule(p->n, t->s + t->i, n));
			t->i += n;
			if (note_looking_at(t, "("))
				return note_error(t, ERR_UNSUPPORTED, "macros are not supported");
			return true;
	}
}

/* Read {n}, {n,}, {n,m}, {,m} after the brace. */
static bool
counts(Ebnf *p, uint32_t *min, uint32_t *max)
{
	NoteText   *t = &p->t;
	bool		lower;

	space(t);
	lower = note_number(t, min);
	*max = *min;
	space(t);
	if (note_accept(t, ","))
	{
		space(t);
		if (!note_number(t, max))
			*max = CFG_INF;
		lower = true;
		space(t);
	}
	if (t->e->cls != ERR_NONE)
		return false;
	if (!lower || !note_accept(t, "}") || *min > *max)
		return note_error(t, ERR_INVALID, "malformed count");
	return true;
}

static bool
repeated(Ebnf *p, NoteNode *out)
{
	uint32_t	min;
	uint32_t	max;

	if (!atom(p, out))
		return false;
	for (;;)
	{
		min = 0;
		max = CFG_INF;
		space(&p->t);
		if (note_accept(&p->t, "+"))
			min = 1;
		else if (note_accept(&p->t, "?"))
			max = 1;
		else if (note_accept(&p->t, "{"))
		{
			if (!counts(p, &min, &max))
				return false;
		}
		else if (!note_accept(&p->t, "*"))
			return true;
		*out = note_repeat(p->n, *out, min, max);
	}
}

static bool
sequence(void *reader, NoteNode *out)
{
	Ebnf	   *p = reader;
	NoteText   *t = &p->t;
	NoteNodes	v = {0};
	NoteNode	x = 0;
	bool		ok = true;

	for (space(t); ok && t->i < t->n && t->s[t->i] != '|' && t->s[t->i] != ')' && !at_rule(t); space(t))
	{
		ok = repeated(p, &x);
		note_nodes_push(&v, x);
	}
	return note_end_sequence(p->n, &v, ok, out);
}

static bool
alternatives(Ebnf *p, NoteNode *out)
{
	return note_alternatives(p->n, &p->t, sequence, p, out);
}

static bool
rule(Ebnf *p)
{
	NoteText   *t = &p->t;
	size_t		n = name_len(t);
	uint32_t	r;
	NoteNode	body;

	if (!at_rule(t))
		return note_error(t, ERR_INVALID, "expected a rule: name ::= ...");
	r = note_rule(p->n, t->s + t->i, n);
	if (note_defined(p->n, r))
		return note_error(t, ERR_INVALID, "rule \"%.100s\" is defined twice", note_name(p->n, r));
	t->i += n;
	space(t);
	note_accept(t, "::=");
	ASSERT(p->depth == 0);
	if (!alternatives(p, &body))
		return false;
	ASSERT(p->depth == 0);
	if (t->i < t->n && t->s[t->i] == ')')
		return note_error(t, ERR_INVALID, ") without (");
	note_define(p->n, r, body);
	return true;
}

bool
ebnf_build(Cfg *c, const char *text, size_t n, CfgNode *out, Err *e)
{
	Ebnf		p = {.t = {text, n, 0, e},.n = note_new(c),.re = cfg_re(c)};
	bool		ok = true;
	uint32_t	root;

	e->cls = ERR_NONE;
	for (space(&p.t); ok && p.t.i < n; space(&p.t))
		ok = rule(&p);
	if (ok)
	{
		root = note_rule(p.n, "root", 4);
		ok = note_defined(p.n, root) ? note_build(p.n, root, out, e) :
			err_set(e, ERR_INVALID, "grammar has no rule \"root\"");
	}
	note_free(p.n);
	return ok;
}
