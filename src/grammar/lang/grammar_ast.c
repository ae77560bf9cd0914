/*
 * grammar_ast.c
 *	  Convert written grammars to Cfg; see grammar_ast.h.
 *
 * A regular tree becomes one expression.  In a sequence adjacent regular parts become one lexeme, in
 * alternatives all regular ones.  A rule is regular if its body is regular, if it isn't recursive, and
 * if everything that it refers to has at most MAX_REGULAR nodes.
 */
#include "grammar/lang/grammar_ast.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "base/utf8char.h"

#define MAX_NODES		1000000
#define MAX_REGULAR		2000	/* nodes of a rule that becomes an expression */
#define MAX_DEPTH		300		/* of trees */
#define MAX_LEVELS		3000	/* nesting of the trees of rules that are built within one another */
#define MAX_NUMBER		1000000

typedef enum GrammarAstKind
{
	N_RE, N_CFG, N_SEQ, N_ALT, N_REPEAT, N_REF
} GrammarAstKind;

typedef struct GrammarAstNode
{
	GrammarAstKind kind;
	uint32_t	a;				/* expression, node, rule, or index of the first part */
	uint32_t	n;
	uint32_t	min,
				max;
	uint32_t	depth;
} GrammarAstNode;

/* A tree, built as an expression or as a node of the grammar. */
typedef struct Built
{
	bool		regular;
	uint32_t	x;
	uint32_t	size;			/* of an expression */
} Built;

typedef enum Progress
{
	P_NEW, P_AT_WORK, P_DONE
} Progress;

typedef struct GrammarAstRule
{
	char	   *name;
	bool		defined;
	NoteNode	body;
	Progress	progress;
	bool		has_cfg;
	CfgRule		cfg;			/* if it has one */
	Built		built;
} GrammarAstRule;

struct Notation
{
	Cfg		   *c;
	GrammarAstNode *node;
	uint32_t	n,
				cap;
	NoteNode   *part;
	uint32_t	n_parts,
				cap_parts;
	GrammarAstRule *rule;
	uint32_t	n_rules,
				cap_rules;
	uint32_t   *hash;			/* of names */
	uint32_t	hash_cap;
	uint32_t	levels;			/* nesting of the trees being built */
	bool		full;
};

Notation *
note_new(Cfg *c)
{
	Notation   *n = mem_zalloc(sizeof(Notation));

	n->c = c;
	n->hash_cap = 64;
	n->hash = mem_alloc(n->hash_cap * sizeof(uint32_t));
	memset(n->hash, 0xff, n->hash_cap * sizeof(uint32_t));
	return n;
}

void
note_free(Notation *n)
{
	for (uint32_t i = 0; i < n->n_rules; i++)
		mem_free(n->rule[i].name);
	mem_free(n->node);
	mem_free(n->part);
	mem_free(n->rule);
	mem_free(n->hash);
	mem_free(n);
}

/* ---- trees ---- */

static NoteNode
make(Notation *n, GrammarAstNode x)
{
	if (n->n == n->cap)
	{
		n->cap = n->cap > 0 ? n->cap * 2 : 64;
		n->node = mem_realloc(n->node, n->cap * sizeof(GrammarAstNode));
	}
	if (n->n >= MAX_NODES || x.depth > MAX_DEPTH)
		n->full = true;
	if (n->full)
		x = (GrammarAstNode) {.kind = N_RE,.a = RE_EMPTY};
	n->node[n->n] = x;
	return n->n++;
}

NoteNode
note_re(Notation *n, ReNode re)
{
	return make(n, (GrammarAstNode) {.kind = N_RE,.a = re});
}

static NoteNode
make_list(Notation *n, GrammarAstKind kind, const NoteNode *part, size_t count)
{
	GrammarAstNode x = {.kind = kind,.a = n->n_parts,.n = (uint32_t) count};

	if (count == 1)
		return part[0];
	while (n->cap_parts - n->n_parts < count)
	{
		n->cap_parts = n->cap_parts > 0 ? n->cap_parts * 2 : 64;
		n->part = mem_realloc(n->part, n->cap_parts * sizeof(NoteNode));
	}
	for (size_t i = 0; i < count; i++)
	{
		uint32_t	d;

		ALWAYS(part[i] < n->n);
		d = n->node[part[i]].depth + 1;
		x.depth = d > x.depth ? d : x.depth;
		n->part[n->n_parts++] = part[i];
	}
	return make(n, x);
}

NoteNode
note_seq(Notation *n, const NoteNode *part, size_t count)
{
	return make_list(n, N_SEQ, part, count);
}

NoteNode
note_alt(Notation *n, const NoteNode *part, size_t count)
{
	return make_list(n, N_ALT, part, count);
}

NoteNode
note_repeat(Notation *n, NoteNode a, uint32_t min, uint32_t max)
{
	return make(n, (GrammarAstNode) {.kind = N_REPEAT,.a = a,.min = min,.max = max,
									 .depth = n->node[a].depth + 1});
}

NoteNode
note_ref(Notation *n, uint32_t rule)
{
	return make(n, (GrammarAstNode) {.kind = N_REF,.a = rule});
}

/* ---- rules ---- */

static uint32_t
hash_name(const char *s, size_t len)
{
	uint32_t	h = 2166136261u;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (uint8_t) s[i]) * 16777619u;
	return h ^ h >> 15;
}

uint32_t
note_rule(Notation *n, const char *name, size_t len)
{
	uint32_t	h;

	if ((n->n_rules + 1) * 2 > n->hash_cap)
	{
		n->hash_cap *= 2;
		n->hash = mem_realloc(n->hash, n->hash_cap * sizeof(uint32_t));
		memset(n->hash, 0xff, n->hash_cap * sizeof(uint32_t));
		for (uint32_t i = 0; i < n->n_rules; i++)
		{
			h = hash_name(n->rule[i].name, strlen(n->rule[i].name)) & (n->hash_cap - 1);
			while (n->hash[h] != UINT32_MAX)
				h = (h + 1) & (n->hash_cap - 1);
			n->hash[h] = i;
		}
	}
	h = hash_name(name, len) & (n->hash_cap - 1);
	for (; n->hash[h] != UINT32_MAX; h = (h + 1) & (n->hash_cap - 1))
	{
		const char *s = n->rule[n->hash[h]].name;

		if (strlen(s) == len && memcmp(s, name, len) == 0)
			return n->hash[h];
	}
	if (n->n_rules == n->cap_rules)
	{
		n->cap_rules = n->cap_rules > 0 ? n->cap_rules * 2 : 32;
		n->rule = mem_realloc(n->rule, n->cap_rules * sizeof(GrammarAstRule));
	}
	n->rule[n->n_rules] = (GrammarAstRule) {.name = mem_strndup(name, len)};
	n->hash[h] = n->n_rules;
	return n->n_rules++;
}

bool
note_define(Notation *n, uint32_t rule, NoteNode body)
{
	ALWAYS(rule < n->n_rules && body < n->n);
	if (n->rule[rule].defined)
		return false;
	n->rule[rule].defined = true;
	n->rule[rule].body = body;
	return true;
}

bool
note_defined(const Notation *n, uint32_t rule)
{
	return n->rule[rule].defined;
}

const char *
note_name(const Notation *n, uint32_t rule)
{
	return n->rule[rule].name;
}

/* ---- building ---- */

static Built build(Notation *n, NoteNode at);

static CfgNode
as_cfg(Notation *n, Built b)
{
	return b.regular ? cfg_lexeme(n->c, b.x) : b.x;
}

static CfgNode
ref_cfg(Notation *n, uint32_t rule)
{
	GrammarAstRule *r = &n->rule[rule];

	if (!r->has_cfg)
	{
		r->has_cfg = true;
		r->cfg = cfg_rule_new(n->c);
	}
	return cfg_ref(n->c, r->cfg);
}

static Built
build_ref(Notation *n, uint32_t rule)
{
	GrammarAstRule *r = &n->rule[rule];
	uint32_t	levels = n->node[r->body].depth + 1;
	Built		b;

	ASSERT(r->defined);
	/* a rule nested too deeply is built later, by note_build() */
	if (r->progress == P_NEW && n->levels + levels <= MAX_LEVELS)
	{
		r->progress = P_AT_WORK;
		n->levels += levels;
		b = build(n, r->body);
		n->levels -= levels;
		r = &n->rule[rule];
		r->progress = P_DONE;
		r->built = b;
	}
	if (r->progress == P_DONE && r->built.regular && r->built.size <= MAX_REGULAR)
		return r->built;
	return (Built) {false, ref_cfg(n, rule), 0};
}

/* Build a sequence; adjacent regular parts become one expression. */
static Built
build_seq(Notation *n, GrammarAstNode x)
{
	CfgNode		all = CFG_EMPTY;
	Built		run = {true, RE_EMPTY, 0};
	bool		regular = true;

	for (uint32_t i = x.n; i-- > 0;)
	{
		Built		b = build(n, n->part[x.a + i]);

		if (b.regular)
		{
			run.x = re_cat(cfg_re(n->c), b.x, run.x);
			run.size += b.size;
			continue;
		}
		all = cfg_seq(n->c, b.x, cfg_seq(n->c, as_cfg(n, run), all));
		run = (Built) {true, RE_EMPTY, 0};
		regular = false;
	}
	return regular ? run : (Built) {false, cfg_seq(n->c, as_cfg(n, run), all), 0};
}

static Built
build_alt(Notation *n, GrammarAstNode x)
{
	ReNode	   *re = mem_alloc((x.n + 1) * sizeof(ReNode));
	CfgNode    *cfg = mem_alloc((x.n + 1) * sizeof(CfgNode));
	uint32_t	n_re = 0;
	uint32_t	n_cfg = 0;
	Built		r = {true, RE_NONE, 1};

	for (uint32_t i = 0; i < x.n; i++)
	{
		Built		b = build(n, n->part[x.a + i]);

		if (b.regular)
		{
			re[n_re++] = b.x;
			r.size += b.size;
		}
		else
			cfg[n_cfg++] = b.x;
	}
	if (n_re > 0)
	{
		for (uint32_t step = 1; step < n_re; step *= 2)	/* pairwise, so that lists stay short */
			for (uint32_t i = 0; i + step < n_re; i += 2 * step)
				re[i] = re_or(cfg_re(n->c), re[i], re[i + step]);
		r.x = re[0];
	}
	if (n_cfg > 0)
	{
		if (n_re > 0)
			cfg[n_cfg++] = as_cfg(n, r);
		r = (Built) {false, cfg_alts(n->c, cfg, n_cfg), 0};
	}
	mem_free(re);
	mem_free(cfg);
	return r;
}

static Built
build(Notation *n, NoteNode at)
{
	GrammarAstNode x = n->node[at];
	Built		b;

	switch (x.kind)
	{
		case N_RE:
			return (Built) {true, x.a, 1};
		case N_CFG:
			return (Built) {false, x.a, 0};
		case N_REF:
			return build_ref(n, x.a);
		case N_SEQ:
			return build_seq(n, x);
		case N_ALT:
			return build_alt(n, x);
		default:
			b = build(n, x.a);
			if (b.regular)
				return (Built) {true, re_repeat(cfg_re(n->c), b.x, x.min, x.max), b.size + 1};
			return (Built) {false, cfg_repeat(n->c, b.x, x.min, x.max), 0};
	}
}

bool
note_build(Notation *n, uint32_t start, CfgNode *out, Err *e)
{
	bool		more = true;

	if (n->full)
		return err_set(e, ERR_TOO_LONG, "grammar is too complex");
	for (uint32_t i = 0; i < n->n_rules; i++)
		if (!n->rule[i].defined)
			return err_set(e, ERR_INVALID, "rule \"%.100s\" of the grammar is not defined", n->rule[i].name);
	*out = as_cfg(n, build_ref(n, start));
	/* build the rules that others refer to, then the rules that these refer to */
	while (more)
	{
		more = false;
		for (uint32_t i = 0; i < n->n_rules; i++)
		{
			if (!n->rule[i].has_cfg || n->rule[i].progress == P_AT_WORK)
				continue;
			if (n->rule[i].progress == P_NEW)
			{
				build_ref(n, i);
				more = true;
			}
			cfg_rule_define(n->c, n->rule[i].cfg, as_cfg(n, n->rule[i].built));
		}
	}
	return true;
}

/* ---- reading ---- */

bool
note_error(NoteText *t, ErrClass cls, const char *fmt,...)
{
	char		what[300];
	int			line = 1;
	size_t		at = t->i < t->n ? t->i : t->n;
	va_list		args;

	for (size_t i = 0; i < at; i++)
		line += t->s[i] == '\n';
	va_start(args, fmt);
	vsnprintf(what, sizeof(what), fmt, args);
	va_end(args);
	return err_set(t->e, cls, "grammar, line %d: %s", line, what);
}

bool
note_unexpected(NoteText *t)
{
	return note_error(t, ERR_INVALID, "unexpected \"%.*s\"", (int) (t->n - t->i < 10 ? t->n - t->i : 10),
					  t->s + t->i);
}

bool
note_looking_at(const NoteText *t, const char *s)
{
	size_t		n = strlen(s);

	return t->n - t->i >= n && memcmp(t->s + t->i, s, n) == 0;
}

bool
note_accept(NoteText *t, const char *s)
{
	if (!note_looking_at(t, s))
		return false;
	t->i += strlen(s);
	return true;
}

bool
note_number(NoteText *t, uint32_t *v)
{
	size_t		at = t->i;

	for (*v = 0; t->i < t->n && t->s[t->i] >= '0' && t->s[t->i] <= '9'; t->i++)
		if (*v <= MAX_NUMBER)
			*v = *v * 10 + (uint32_t) (t->s[t->i] - '0');
	if (t->i > at && *v > MAX_NUMBER)
		return note_error(t, ERR_TOO_LONG, "count above %d", MAX_NUMBER);
	return t->i > at;
}

/* Read an escape after the backslash. */
static bool
literal_escape(NoteText *t, Buf *out)
{
	static const char from[] = "nrtbfv0ae";
	static const char to[] = "\n\r\t\b\f\v\0\a\033";
	char		utf8[4];
	char		c = t->s[t->i++];
	uint32_t	cp = 0;
	int			digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
	const char *at = strchr(from, c);

	if (digits == 0)
	{
		buf_addc(out, at != NULL && c != '\0' ? to[at - from] : c);
		return true;
	}
	for (int i = 0; i < digits; i++, t->i++)
	{
		char		d = t->i < t->n ? t->s[t->i] : ' ';

		if (d >= '0' && d <= '9')
			cp = cp << 4 | (uint32_t) (d - '0');
		else if ((d | 32) >= 'a' && (d | 32) <= 'f')
			cp = cp << 4 | (uint32_t) ((d | 32) - 'a' + 10);
		else
			return note_error(t, ERR_INVALID, "malformed escape \\%c", c);
	}
	if (cp > 0x10FFFF || (cp >= 0xD800 && cp < 0xE000))
		return note_error(t, ERR_INVALID, "escape of no character");
	buf_add(out, utf8, utf8_put(utf8, cp));
	return true;
}

bool
note_literal(NoteText *t, Buf *out)
{
	char		quote = t->s[t->i++];

	while (t->i < t->n && t->s[t->i] != quote)
	{
		if (t->s[t->i] == '\n')
			return note_error(t, ERR_INVALID, "literal without an end");
		if (t->s[t->i] == '\\' && t->i + 1 < t->n)
		{
			t->i++;
			if (!literal_escape(t, out))
				return false;
		}
		else
			buf_addc(out, t->s[t->i++]);
	}
	if (t->i >= t->n)
		return note_error(t, ERR_INVALID, "literal without an end");
	t->i++;
	return true;
}

void
note_nodes_push(NoteNodes *l, NoteNode x)
{
	if (l->n == l->cap)
	{
		l->cap = l->cap > 0 ? l->cap * 2 : 8;
		l->v = mem_realloc(l->v, l->cap * sizeof(NoteNode));
	}
	l->v[l->n++] = x;
}

bool
note_end_sequence(Notation *n, NoteNodes *parts, bool ok, NoteNode *out)
{
	if (ok)
		*out = parts->n == 0 ? note_re(n, RE_EMPTY) : note_seq(n, parts->v, parts->n);
	mem_free(parts->v);
	return ok;
}

bool
note_alternatives(Notation *n, NoteText *t, bool (*sequence) (void *reader, NoteNode *out), void *reader,
				  NoteNode *out)
{
	NoteNodes	v = {0};
	NoteNode	x = 0;
	bool		ok;

	do
	{
		ok = sequence(reader, &x);
		note_nodes_push(&v, x);
	} while (ok && note_accept(t, "|"));
	if (ok)
		*out = note_alt(n, v.v, v.n);
	mem_free(v.v);
	return ok;
}
