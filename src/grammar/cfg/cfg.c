/*
 * cfg.c
 *	  Grammars: building, finishing, and transitions of nodes.
 *
 * Nodes are hash-consed, and parts have lower numbers than the nodes made of them, except for references
 * to rules.  cfg_finish() determines which nodes may be empty and which can match at all (the least
 * fixed point, with a queue of nodes whose facts may change); nodes made afterwards get their facts when
 * they are made.
 *
 * Transitions are the derivative of a body by a symbol: x{m,n} leads to (the rest of x) x{m-1,n-1}, so
 * counts need no unrolling, and a set of members leads to the set without the member that has occurred.
 * Parts that may be empty are skipped here, so the parser never meets an empty match.
 */
#include "grammar/cfg/cfg_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"

#define MAX_NODES	500000
#define MAX_TRANS	8000000
#define MAX_MEMBERS	((size_t) 128 << 20)	/* bytes of their states */
#define MAX_DEPTH	1500
#define UNKNOWN		UINT32_MAX

typedef enum CfgKind
{
	C_NONE,
	C_EMPTY,
	C_LEXEME,					/* a: expression */
	C_REF,						/* a: rule */
	C_SEQ,						/* a, b */
	C_ALT,						/* b nodes from kids[a] */
	C_REP,						/* a{min,max} */
	C_MEMBERS,					/* a: state */
	C_NEXT,						/* the state after entry b of state a */
	C_ENTRY						/* one more entry in state a, followed by what C_NEXT is */
} CfgKind;

typedef struct CfgTreeNode
{
	uint8_t		kind;
	bool		nullable;
	bool		alive;			/* matches something */
	bool		queued;
	uint16_t	depth;
	uint32_t	a,
				b;
	uint32_t	min,
				max;
	uint32_t	trans;			/* index of the first transition; UNKNOWN = not made */
	uint32_t	n_trans;
} CfgTreeNode;

typedef struct CfgTreeRule
{
	CfgNode		body;			/* UNKNOWN = not defined */
	CfgNode		ref;			/* the node that refers to it; UNKNOWN = none */
} CfgTreeRule;

typedef struct Trans
{
	CfgTrans   *v;
	uint32_t	n,
				cap;
} Trans;

struct Cfg
{
	Regex	   *re;
	Members    *members;
	CfgTreeNode *node;
	uint32_t	n,
				cap;
	uint32_t   *hash;
	uint32_t	hash_cap;
	uint32_t   *kids;
	uint32_t	n_kids,
				cap_kids;
	CfgTreeRule *rule;
	uint32_t	n_rules,
				cap_rules;
	Trans		trans;
	CfgNode		root;
	bool		done;
	bool		full;
};

/* ---- nodes ---- */

static uint32_t
mix(uint32_t h, uint32_t v)
{
	uint64_t	x = ((uint64_t) h << 32 | v) * 0x9E3779B97F4A7C15u;

	return (uint32_t) (x >> 32) ^ (uint32_t) x;
}

static uint32_t
hash_node(const Cfg *c, const CfgTreeNode *x)
{
	uint32_t	h = mix(mix(x->kind, x->min), x->max);

	if (x->kind != C_ALT)
		return mix(mix(h, x->a), x->b);
	for (uint32_t i = 0; i < x->b; i++)
		h = mix(h, c->kids[x->a + i]);
	return h;
}

static bool
same_node(const Cfg *c, const CfgTreeNode *x, const CfgTreeNode *y)
{
	if (x->kind != y->kind || x->min != y->min || x->max != y->max || x->b != y->b)
		return false;
	if (x->kind == C_ALT)
		return memcmp(c->kids + x->a, c->kids + y->a, x->b * sizeof(uint32_t)) == 0;
	return x->a == y->a;
}

static void
rehash(Cfg *c)
{
	c->hash_cap *= 2;
	c->hash = mem_realloc(c->hash, c->hash_cap * sizeof(uint32_t));
	memset(c->hash, 0xff, c->hash_cap * sizeof(uint32_t));
	for (uint32_t i = 0; i < c->n; i++)
	{
		uint32_t	h = hash_node(c, &c->node[i]) & (c->hash_cap - 1);

		while (c->hash[h] != UNKNOWN)
			h = (h + 1) & (c->hash_cap - 1);
		c->hash[h] = i;
	}
}

static bool
node_alive(const void *arg, CfgNode a)
{
	return ((const Cfg *) arg)->node[a].alive;
}

static bool
node_empty(const void *arg, CfgNode a)
{
	return ((const Cfg *) arg)->node[a].nullable;
}

/* Determine whether the node matches anything, and the empty text, from the same facts of its parts. */
static void
facts(Cfg *c, const CfgTreeNode *x, bool *alive, bool *nullable)
{
	const CfgTreeNode *a = &c->node[x->a < c->n ? x->a : 0];
	const CfgTreeNode *b = &c->node[x->b < c->n ? x->b : 0];
	const CfgTreeRule *r;

	*alive = true;
	*nullable = false;
	switch (x->kind)
	{
		case C_NONE:
			*alive = false;
			break;
		case C_EMPTY:
			*nullable = true;
			break;
		case C_LEXEME:
			*nullable = re_nullable(c->re, x->a);
			*alive = re_live(c->re, x->a);
			break;
		case C_REF:
			r = &c->rule[x->a];
			*alive = r->body != UNKNOWN && c->node[r->body].alive;
			*nullable = r->body != UNKNOWN && c->node[r->body].nullable;
			break;
		case C_SEQ:
			*alive = a->alive && b->alive;
			*nullable = a->nullable && b->nullable;
			break;
		case C_REP:
			*alive = x->min == 0 || a->alive;
			*nullable = x->min == 0 || a->nullable;
			break;
		case C_ALT:
			*alive = false;
			for (uint32_t i = 0; i < x->b; i++)
			{
				*alive = *alive || c->node[c->kids[x->a + i]].alive;
				*nullable = *nullable || c->node[c->kids[x->a + i]].nullable;
			}
			break;
		case C_MEMBERS:
			*alive = c->done || members_alive(c->members, x->a, node_alive, c);
			*nullable = *alive && members_may_end(c->members, x->a, CFG_INF);
			break;
		case C_NEXT:
			*nullable = members_may_end(c->members, x->a, x->b);
			break;
		case C_ENTRY:
			break;
	}
	*nullable = *nullable && *alive;
}

static CfgNode
intern(Cfg *c, CfgTreeNode *x)
{
	uint32_t	h;

	if ((c->n + 1) * 2 > c->hash_cap)
		rehash(c);
	h = hash_node(c, x) & (c->hash_cap - 1);
	for (; c->hash[h] != UNKNOWN; h = (h + 1) & (c->hash_cap - 1))
		if (same_node(c, &c->node[c->hash[h]], x))
			return c->hash[h];
	if (c->full || c->n >= MAX_NODES || x->depth > MAX_DEPTH)
	{
		c->full = true;
		return CFG_NONE;
	}
	if (c->done)
	{
		facts(c, x, &x->alive, &x->nullable);
		if (!x->alive)
			return CFG_NONE;
	}
	if (c->n == c->cap)
	{
		c->cap *= 2;
		c->node = mem_realloc(c->node, c->cap * sizeof(CfgTreeNode));
	}
	x->trans = UNKNOWN;
	c->node[c->n] = *x;
	c->hash[h] = c->n;
	return c->n++;
}

static CfgNode
make(Cfg *c, CfgKind kind, uint32_t a, uint32_t b, uint32_t min, uint32_t max)
{
	CfgTreeNode	x = {.kind = (uint8_t) kind,.a = a,.b = b,.min = min,.max = max};

	ALWAYS((kind != C_SEQ && kind != C_REP) || (a < c->n && b < c->n));
	if (kind == C_SEQ)			/* a chain is walked by a loop, not by recursion */
		x.depth = c->node[a].depth + 1 > c->node[b].depth ? c->node[a].depth + 1 : c->node[b].depth;
	else if (kind == C_REP)
		x.depth = c->node[a].depth + 1;
	return intern(c, &x);
}

Cfg *
cfg_new(void)
{
	Cfg		   *c = mem_zalloc(sizeof(Cfg));

	c->re = re_new(0);
	c->members = members_new();
	c->cap = 64;
	c->node = mem_alloc(c->cap * sizeof(CfgTreeNode));
	c->hash_cap = 128;
	c->hash = mem_alloc(c->hash_cap * sizeof(uint32_t));
	memset(c->hash, 0xff, c->hash_cap * sizeof(uint32_t));
	make(c, C_NONE, 0, 0, 0, 0);
	make(c, C_EMPTY, 0, 0, 0, 0);
	return c;
}

void
cfg_free(Cfg *c)
{
	if (c == NULL)
		return;
	re_free(c->re);
	members_free(c->members);
	mem_free(c->node);
	mem_free(c->hash);
	mem_free(c->kids);
	mem_free(c->rule);
	mem_free(c->trans.v);
	mem_free(c);
}

Regex *
cfg_re(Cfg *c)
{
	return c->re;
}

uint32_t
cfg_size(const Cfg *c)
{
	return c->n;
}

size_t
cfg_memory(const Cfg *c)
{
	return sizeof(Cfg) + re_memory(c->re) + members_memory(c->members) + c->cap * sizeof(CfgTreeNode) +
		(c->hash_cap + c->cap_kids) * sizeof(uint32_t) + c->cap_rules * sizeof(CfgTreeRule) +
		c->trans.cap * sizeof(CfgTrans);
}

bool
cfg_check(const Cfg *c, Err *e)
{
	if (!re_check(c->re, e))
		return false;
	if (c->full || members_full(c->members))
		return err_set(e, ERR_TOO_LONG, "grammar is too complex");
	return true;
}

void
cfg_begin(Cfg *c)
{
	re_begin(c->re);
	members_begin(c->members);
}

uint64_t
cfg_work(const Cfg *c)
{
	return re_work(c->re) + members_work(c->members);
}

/* ---- builders ---- */

CfgNode
cfg_lexeme(Cfg *c, ReNode re)
{
	if (re == RE_NONE)
		return CFG_NONE;
	return re == RE_EMPTY ? CFG_EMPTY : make(c, C_LEXEME, re, 0, 0, 0);
}

CfgRule
cfg_rule_new(Cfg *c)
{
	if (c->n_rules == c->cap_rules)
	{
		c->cap_rules = c->cap_rules > 0 ? c->cap_rules * 2 : 16;
		c->rule = mem_realloc(c->rule, c->cap_rules * sizeof(CfgTreeRule));
	}
	c->rule[c->n_rules] = (CfgTreeRule) {UNKNOWN, UNKNOWN};
	return c->n_rules++;
}

void
cfg_rule_define(Cfg *c, CfgRule r, CfgNode body)
{
	ALWAYS(r < c->n_rules && body < c->n);
	ASSERT(!c->done);
	c->rule[r].body = body;
}

CfgNode
cfg_ref(Cfg *c, CfgRule r)
{
	ALWAYS(r < c->n_rules);
	return make(c, C_REF, r, 0, 0, 0);
}

CfgNode
cfg_seq(Cfg *c, CfgNode a, CfgNode b)
{
	CfgNode		spine[64];
	size_t		n = 0;

	if (a == CFG_NONE || b == CFG_NONE)
		return CFG_NONE;
	if (a == CFG_EMPTY)
		return b;
	if (b == CFG_EMPTY)
		return a;
	/* sequences lean to the right */
	while (c->node[a].kind == C_SEQ)
	{
		if (n == 64)
		{
			b = cfg_seq(c, a, b);
			break;
		}
		spine[n++] = c->node[a].a;
		a = c->node[a].b;
	}
	if (c->node[a].kind != C_SEQ)
		b = make(c, C_SEQ, a, b, 0, 0);
	while (n > 0)
		b = make(c, C_SEQ, spine[--n], b, 0, 0);
	return c->full ? CFG_NONE : b;
}

CfgNode
cfg_seqs(Cfg *c, const CfgNode *a, size_t n)
{
	CfgNode		r = CFG_EMPTY;

	while (n > 0)
		r = cfg_seq(c, a[--n], r);
	return r;
}

static int
by_number(const void *a, const void *b)
{
	uint32_t	x = *(const uint32_t *) a;
	uint32_t	y = *(const uint32_t *) b;

	return x < y ? -1 : x > y;
}

/* Copy a[0..n) to v, replacing alternatives by their parts; return how many, at most `room`. */
static size_t
flatten(const Cfg *c, const CfgNode *a, size_t n, CfgNode *v)
{
	size_t		m = 0;

	for (size_t i = 0; i < n; i++)
	{
		const CfgTreeNode *x = &c->node[a[i]];

		if (x->kind == C_ALT)
		{
			if (v != NULL)
				memcpy(v + m, c->kids + x->a, x->b * sizeof(uint32_t));
			m += x->b;
		}
		else if (a[i] != CFG_NONE)
		{
			if (v != NULL)
				v[m] = a[i];
			m++;
		}
	}
	return m;
}

CfgNode
cfg_alts(Cfg *c, const CfgNode *a, size_t n)
{
	size_t		room = flatten(c, a, n, NULL);
	CfgTreeNode	x = {.kind = C_ALT,.a = c->n_kids};
	CfgNode    *v;
	CfgNode		r;

	if (room == 0)
		return CFG_NONE;
	if (c->cap_kids - c->n_kids < room)
	{
		while (c->cap_kids - c->n_kids < room)
			c->cap_kids = c->cap_kids > 0 ? c->cap_kids * 2 : 64;
		c->kids = mem_realloc(c->kids, c->cap_kids * sizeof(uint32_t));
	}
	v = c->kids + c->n_kids;
	flatten(c, a, n, v);
	qsort(v, room, sizeof(CfgNode), by_number);
	for (size_t i = 0; i < room; i++)
		if (x.b == 0 || v[x.b - 1] != v[i])
		{
			const CfgTreeNode *k = &c->node[v[i]];

			x.depth = k->depth + 1 > x.depth ? k->depth + 1 : x.depth;
			v[x.b++] = v[i];
		}
	if (x.b == 1)
		return v[0];
	r = intern(c, &x);
	/* the node is new if it owns the list */
	if (c->node[r].kind == C_ALT && c->node[r].a == c->n_kids)
		c->n_kids += x.b;
	if (c->n_kids > MAX_TRANS)
		c->full = true;
	return r;
}

CfgNode
cfg_alt(Cfg *c, CfgNode a, CfgNode b)
{
	CfgNode		v[2] = {a, b};

	return cfg_alts(c, v, 2);
}

CfgNode
cfg_optional(Cfg *c, CfgNode a)
{
	return cfg_alt(c, CFG_EMPTY, a);
}

CfgNode
cfg_repeat(Cfg *c, CfgNode a, uint32_t min, uint32_t max)
{
	if (min > max)
		return CFG_NONE;
	if (max == 0 || a == CFG_EMPTY)
		return CFG_EMPTY;
	if (a == CFG_NONE)
		return min == 0 ? CFG_EMPTY : CFG_NONE;
	if (max == 1)
		return min == 1 ? a : cfg_optional(c, a);
	if (c->node[a].kind == C_REP && c->node[a].min == 0 && c->node[a].max == CFG_INF)
		return a;
	return make(c, C_REP, a, 0, min, max);
}

CfgNode
cfg_list(Cfg *c, CfgNode a, CfgNode sep, uint32_t min, uint32_t max)
{
	CfgNode		r;

	if (min > max)
		return CFG_NONE;
	if (max == 0)
		return CFG_EMPTY;
	r = cfg_seq(c, a, cfg_repeat(c, cfg_seq(c, sep, a), min > 0 ? min - 1 : 0,
								 max == CFG_INF ? CFG_INF : max - 1));
	return min == 0 ? cfg_optional(c, r) : r;
}

CfgNode
cfg_members(Cfg *c, const CfgMembers *m)
{
	if (m->min > m->max)
		return CFG_NONE;
	return make(c, C_MEMBERS, members_add(c->members, m), UNKNOWN, 0, 0);
}

/* ---- finding facts ---- */

typedef struct Settle
{
	uint32_t   *first;			/* [n + 1] first user of each node in user[] */
	uint32_t   *user;
	uint32_t   *queue;
	uint32_t	n;
} Settle;

/* Call fn for each part of node i. */
static void
each_part(const Cfg *c, uint32_t i, void (*fn) (Settle *, uint32_t part, uint32_t user), Settle *s)
{
	const CfgTreeNode *x = &c->node[i];
	const CfgMembers *m;

	switch (x->kind)
	{
		case C_SEQ:
			fn(s, x->a, i);
			fn(s, x->b, i);
			break;
		case C_REP:
			fn(s, x->a, i);
			break;
		case C_ALT:
			for (uint32_t k = 0; k < x->b; k++)
				fn(s, c->kids[x->a + k], i);
			break;
		case C_REF:
			if (c->rule[x->a].body != UNKNOWN)
				fn(s, c->rule[x->a].body, i);
			break;
		case C_MEMBERS:
			m = members_spec(c->members, x->a);
			for (size_t k = 0; k < m->n; k++)
				fn(s, m->member[k].node, i);
			fn(s, m->rest, i);
			fn(s, m->sep, i);
			break;
		default:
			break;
	}
}

static void
count_user(Settle *s, uint32_t part, uint32_t user)
{
	(void) user;
	s->first[part + 1]++;
}

static void
add_user(Settle *s, uint32_t part, uint32_t user)
{
	s->user[s->first[part]++] = user;
}

/* Determine the facts of all nodes: false until proved; when a node changes its users are examined
 * again. */
static void
settle(Cfg *c)
{
	Settle		s = {0};

	ASSERT(!c->done);
	s.first = mem_zalloc((c->n + 2) * sizeof(uint32_t));
	for (uint32_t i = 0; i < c->n; i++)
		each_part(c, i, count_user, &s);
	for (uint32_t i = 0; i < c->n; i++)
		s.first[i + 1] += s.first[i];
	s.user = mem_alloc((s.first[c->n] + 1) * sizeof(uint32_t));
	for (uint32_t i = 0; i < c->n; i++)
		each_part(c, i, add_user, &s);
	/* first[] has advanced by one: node i's users end at first[i] */
	s.queue = mem_alloc(c->n * sizeof(uint32_t));
	for (uint32_t i = c->n; i-- > 0;)
	{
		s.queue[s.n++] = i;
		c->node[i].queued = true;
	}
	while (s.n > 0)
	{
		uint32_t	i = s.queue[--s.n];
		CfgTreeNode *x = &c->node[i];
		bool		alive;
		bool		nullable;

		x->queued = false;
		facts(c, x, &alive, &nullable);
		if (alive == x->alive && nullable == x->nullable)
			continue;
		x->alive = alive;
		x->nullable = nullable;
		for (uint32_t k = i > 0 ? s.first[i - 1] : 0; k < s.first[i]; k++)
		{
			CfgTreeNode *u = &c->node[s.user[k]];

			/* examining an alternative again for each of its many parts would take quadratic time */
			if (u->queued || (u->alive && (u->nullable || !nullable)))
				continue;
			u->queued = true;
			ASSERT(s.n < c->n);
			s.queue[s.n++] = s.user[k];
		}
	}
	mem_free(s.first);
	mem_free(s.user);
	mem_free(s.queue);
}

bool
cfg_finish_any(Cfg *c, CfgNode root, bool *empty, Err *e)
{
	*empty = false;
	if (!cfg_check(c, e))
		return false;
	for (uint32_t i = 0; i < c->n_rules; i++)
		if (c->rule[i].body == UNKNOWN)
			return err_set(e, ERR_INVALID, "a rule of the grammar is not defined");
	settle(c);
	if (!cfg_check(c, e))
		return false;
	*empty = !c->node[root].alive;
	if (!members_finish(c->members, node_alive, node_empty, c))
		return err_set(e, ERR_INTERNAL, "an entry of a set of members may be empty");
	c->root = root;
	c->done = !*empty;
	return true;
}

bool
cfg_finish(Cfg *c, CfgNode root, Err *e)
{
	bool		empty;

	if (!cfg_finish_any(c, root, &empty, e))
		return false;
	if (!empty)
		return true;
	err_set(e, ERR_INVALID, "grammar does not match any text");
	return err_hint(e, "Look for parts that contradict each other, or rules that never end.");
}

/* ---- transitions ---- */

bool
cfg_nullable(const Cfg *c, CfgNode a)
{
	return c->node[a].nullable;
}

CfgNode
cfg_body(const Cfg *c, CfgRule r)
{
	return c->rule[r].body;
}

CfgNode
cfg_root(const Cfg *c)
{
	return c->root;
}

static void
trans_push(Trans *t, CfgSym sym, CfgNode to)
{
	if (to == CFG_NONE)
		return;
	if (t->n == t->cap)
	{
		t->cap = t->cap > 0 ? t->cap * 2 : 16;
		t->v = mem_realloc(t->v, t->cap * sizeof(CfgTrans));
	}
	t->v[t->n++] = (CfgTrans) {sym, to};
}

/* Add the transitions of a, each followed by `then`. */
static void
trans_add(Cfg *c, Trans *t, CfgNode a, CfgNode then)
{
	uint32_t	n;
	uint32_t	first;

	if (!c->node[a].alive || then == CFG_NONE || !c->node[then].alive)
		return;
	cfg_trans(c, a, &n);
	first = c->node[a].trans;
	for (uint32_t i = 0; i < n; i++)
	{
		CfgTrans	x = c->trans.v[first + i];

		trans_push(t, x.sym, cfg_seq(c, x.to, then));
	}
}

static void
trans_entry(Cfg *c, Trans *t, uint32_t state)
{
	const CfgMembers *m = members_spec(c->members, state);

	for (uint32_t i = 0; i <= m->n && !c->full; i++)
	{
		if (members_may(c->members, state, i))
			trans_add(c, t, i < m->n ? m->member[i].node : m->rest, make(c, C_NEXT, state, i, 0, 0));
		m = members_spec(c->members, state);
	}
}

static void
trans_members(Cfg *c, Trans *t, uint32_t state)
{
	const CfgMembers *m = members_spec(c->members, state);
	bool		more = false;

	if (!members_started(c->members, state))
	{
		trans_entry(c, t, state);
		return;
	}
	for (uint32_t i = 0; i <= m->n && !more; i++)
		more = members_may(c->members, state, i);
	if (!more)
		return;
	trans_add(c, t, m->sep, make(c, C_ENTRY, state, 0, 0, 0));
	if (c->node[m->sep].nullable)
		trans_entry(c, t, state);
}

static int
by_sym(const void *a, const void *b)
{
	const CfgTrans *x = a;
	const CfgTrans *y = b;

	if (x->sym != y->sym)
		return x->sym < y->sym ? -1 : 1;
	return x->to < y->to ? -1 : x->to > y->to;
}

/* Store the transitions found. */
static void
trans_keep(Cfg *c, CfgNode a, Trans *t)
{
	uint32_t	first = c->trans.n;

	if (t->n > 1)
		qsort(t->v, t->n, sizeof(CfgTrans), by_sym);
	for (uint32_t i = 0; i < t->n; i++)
		if (i == 0 || by_sym(&t->v[i - 1], &t->v[i]) != 0)
			trans_push(&c->trans, t->v[i].sym, t->v[i].to);
	c->node[a].trans = first;
	c->node[a].n_trans = c->trans.n - first;
	if (c->trans.n > MAX_TRANS || members_memory(c->members) > MAX_MEMBERS)
		c->full = true;
	mem_free(t->v);
}

static void
trans_find(Cfg *c, CfgNode a, Trans *t)
{
	CfgTreeNode	x = c->node[a];

	switch (x.kind)
	{
		case C_LEXEME:
			trans_push(t, cfg_sym_lexeme(x.a), CFG_EMPTY);
			break;
		case C_REF:
			trans_push(t, cfg_sym_rule(x.a), CFG_EMPTY);
			break;
		case C_SEQ:
			for (;;)
			{
				trans_add(c, t, x.a, x.b);
				if (!c->node[x.a].nullable)
					break;
				if (c->node[x.b].kind != C_SEQ)
				{
					trans_add(c, t, x.b, CFG_EMPTY);
					break;
				}
				x = c->node[x.b];
			}
			break;
		case C_ALT:
			for (uint32_t i = 0; i < x.b; i++)
				trans_add(c, t, c->kids[x.a + i], CFG_EMPTY);
			break;
		case C_REP:
			if (c->node[x.a].nullable)
				x.min = 0;
			trans_add(c, t, x.a, cfg_repeat(c, x.a, x.min > 0 ? x.min - 1 : 0,
											x.max == CFG_INF ? CFG_INF : x.max - 1));
			break;
		case C_MEMBERS:
			trans_members(c, t, x.a);
			break;
		case C_NEXT:
			trans_members(c, t, members_next(c->members, x.a, x.b));
			break;
		case C_ENTRY:
			trans_entry(c, t, x.a);
			break;
		default:
			break;
	}
}

const CfgTrans *
cfg_trans(Cfg *c, CfgNode a, uint32_t *n)
{
	Trans		t = {0};

	ALWAYS(a < c->n);
	if (c->node[a].trans == UNKNOWN)
	{
		if (c->node[a].alive && !c->full)
			trans_find(c, a, &t);
		trans_keep(c, a, &t);
	}
	*n = c->node[a].n_trans;
	return c->trans.v + c->node[a].trans;
}
