/*
 * earley.c
 *	  Earley's algorithm over lexemes, with rows as values.
 *
 * A row stands for a position where a lexeme has ended.  It is a set of edges (symbol, node after it,
 * rule to return to, row where that rule began): which lexeme or rule may come, and how to continue.
 * Three things make rows with the same meaning equal, so that a list of a thousand entries needs a
 * handful of rows:
 *
 *	- A row is identified by its content, and the rows it refers to are identified the same way.
 *	  "Began here" is written as SELF.
 *	- Seeds (the nodes reached by the lexemes) that have been seen before lead to the same row
 *	  again, without computing it.
 *	- Tail calls: a rule at the end of another returns to where the outer one returns, so
 *	  recursion on the right does not pile up rows.  The rule's completion is then that of
 *	  the outermost one.
 *
 * Nodes have no transitions by empty matches (cfg.c), so a rule that returns to SELF has matched nothing
 * and needs no completion.
 *
 * A state is a set of pairs (row, state of the lexer over the lexemes that began there) and a flag
 * whether the text may end.  The parser follows all positions where a lexeme may end; all lexemes that
 * end at one byte, whatever row they began at, make one new row together.  So there are at most as many
 * pairs as there are bytes in the longest open lexeme.
 */
#include "grammar/cfg/earley.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "grammar/cfg/cfg_internal.h"
#include "grammar/cfg/sequence_ids.h"

#define UNKNOWN		UINT32_MAX
#define SELF		(UINT32_MAX - 1)	/* the row itself */
#define START		(UINT32_MAX - 2)	/* before everything */
#define MAX_EDGES	200000		/* of a row */
#define MAX_PAIRS	4000		/* of a state */
#define MAX_STEPS	5000000	/* items examined in a unit of work */

typedef struct Item
{
	CfgNode		node;
	CfgRule		ret;			/* completed when the node has been matched */
	uint32_t	origin;			/* row where it began */
} Item;

typedef struct Edge
{
	CfgSym		sym;
	CfgNode		to;
	CfgRule		ret;
	uint32_t	origin;
} Edge;

typedef struct EarleyRow
{
	uint32_t	lex;			/* the lexer's state at its beginning; LEX_DEAD = nothing may come */
	bool		accepts;
} EarleyRow;

typedef struct EarleyState
{
	uint32_t   *next;			/* by class; NULL = none computed */
} EarleyState;

struct Parse
{
	Cfg		   *c;
	Lexer	   *lexer;
	const uint8_t *cls;
	uint32_t	n_cls;
	Ids			rows;			/* content: accepts, then edges */
	EarleyRow  *row;
	uint32_t	n_rows,
				cap_rows;
	Ids			seeds;			/* items */
	uint32_t   *seed_row;		/* the row that each leads to */
	uint32_t	cap_seed_row;
	Ids			states;			/* content: accepts, then pairs */
	EarleyState *state;
	uint32_t	n_states,
				cap_states;
	size_t		tables;			/* bytes of next[] */
	uint32_t	start;
	uint64_t	steps,			/* of this unit of work */
				steps_before;
	bool		full;

	/* working data */
	Item	   *item;			/* of the row that is being made */
	uint32_t	n_items,
				cap_items;
	uint32_t   *item_hash;
	uint32_t	item_hash_cap;
	Edge	   *edge;
	uint32_t	n_edges,
				cap_edges;
	Item	   *seed;
	uint32_t	n_seeds,
				cap_seeds;
	ParsePair  *pair;
	uint32_t	cap_pairs;
};

/* ---- items ---- */

static uint32_t
hash_item(const Item *i)
{
	uint64_t	h = ((uint64_t) i->node << 32 | i->ret) * 0x9E3779B97F4A7C15u;

	h = ((h ^ h >> 32) + i->origin) * 0xBF58476D1CE4E5B9u;
	return (uint32_t) (h ^ h >> 32);
}

static void
items_reset(Parse *p)
{
	/* Each item's slot is at or after its home, after slots that have been freed already. */
	for (uint32_t i = 0; i < p->n_items; i++)
	{
		uint32_t	h = hash_item(&p->item[i]) & (p->item_hash_cap - 1);

		while (p->item_hash[h] != i)
			h = (h + 1) & (p->item_hash_cap - 1);
		p->item_hash[h] = UNKNOWN;
	}
	p->n_items = 0;
}

static void
item_rehash(Parse *p)
{
	p->item_hash_cap *= 2;
	p->item_hash = mem_realloc(p->item_hash, p->item_hash_cap * sizeof(uint32_t));
	memset(p->item_hash, 0xff, p->item_hash_cap * sizeof(uint32_t));
	for (uint32_t i = 0; i < p->n_items; i++)
	{
		uint32_t	h = hash_item(&p->item[i]) & (p->item_hash_cap - 1);

		while (p->item_hash[h] != UNKNOWN)
			h = (h + 1) & (p->item_hash_cap - 1);
		p->item_hash[h] = i;
	}
}

/* Add an item to the row that is being made, unless it is already there. */
static void
item_add(Parse *p, CfgNode node, CfgRule ret, uint32_t origin)
{
	Item		x = {node, ret, origin};
	uint32_t	h;

	if (++p->steps > MAX_STEPS)
		p->full = true;
	if (p->full)
		return;
	if ((p->n_items + 1) * 2 > p->item_hash_cap)
		item_rehash(p);
	h = hash_item(&x) & (p->item_hash_cap - 1);
	for (; p->item_hash[h] != UNKNOWN; h = (h + 1) & (p->item_hash_cap - 1))
	{
		const Item *o = &p->item[p->item_hash[h]];

		if (o->node == node && o->ret == ret && o->origin == origin)
			return;
	}
	if (p->n_items == p->cap_items)
	{
		p->cap_items = p->cap_items > 0 ? p->cap_items * 2 : 64;
		p->item = mem_realloc(p->item, p->cap_items * sizeof(Item));
	}
	p->item_hash[h] = p->n_items;
	p->item[p->n_items++] = x;
}

static void
edge_add(Parse *p, Edge e)
{
	if (p->n_edges == p->cap_edges)
	{
		p->cap_edges = p->cap_edges > 0 ? p->cap_edges * 2 : 64;
		p->edge = mem_realloc(p->edge, p->cap_edges * sizeof(Edge));
	}
	p->edge[p->n_edges++] = e;
	if (p->n_edges > MAX_EDGES)
		p->full = true;
}

/* ---- rows ---- */

static const Edge *
row_edges(const Parse *p, uint32_t row, uint32_t *n)
{
	uint32_t	words;
	const uint32_t *w = ids_words(&p->rows, row, &words);

	*n = (words - 1) / 4;
	return (const Edge *) (w + 1);
}

/* Return the first edge of a row with a symbol >= sym. */
static uint32_t
edge_find(const Edge *e, uint32_t n, CfgSym sym)
{
	uint32_t	lo = 0;

	while (lo < n)
	{
		uint32_t	mid = lo + (n - lo) / 2;

		if (e[mid].sym < sym)
			lo = mid + 1;
		else
			n = mid;
	}
	return lo;
}

/* A rule that began at a row has been matched: advance the edges that wait for it there. */
static void
complete(Parse *p, CfgRule rule, uint32_t origin)
{
	uint32_t	n;
	CfgSym		sym = cfg_sym_rule(rule);
	const Edge *e = row_edges(p, origin, &n);

	for (uint32_t i = edge_find(e, n, sym); i < n && e[i].sym == sym; i++)
		item_add(p, e[i].to, e[i].ret, e[i].origin == SELF ? origin : e[i].origin);
}

static int
by_edge(const void *a, const void *b)
{
	const Edge *x = a;
	const Edge *y = b;

	if (x->sym != y->sym)
		return x->sym < y->sym ? -1 : 1;
	if (x->to != y->to)
		return x->to < y->to ? -1 : 1;
	if (x->ret != y->ret)
		return x->ret < y->ret ? -1 : 1;
	return x->origin < y->origin ? -1 : x->origin > y->origin;
}

/* Close the items under completion and prediction; *accepts = the text may end. */
static void
close_items(Parse *p, bool *accepts)
{
	*accepts = false;
	p->n_edges = 0;
	for (uint32_t i = 0; i < p->n_items && !p->full; i++)
	{
		Item		x = p->item[i];
		uint32_t	n;
		const CfgTrans *t;

		if (cfg_nullable(p->c, x.node))
		{
			if (x.origin == START)
				*accepts = true;
			else if (x.origin != SELF)
				complete(p, x.ret, x.origin);
		}
		t = cfg_trans(p->c, x.node, &n);
		for (uint32_t k = 0; k < n && !p->full; k++)
		{
			bool		rule = t[k].sym & 1;

			/* tail call: at the end of a rule, the next one returns where this one would */
			if (rule && t[k].to == CFG_EMPTY)
				item_add(p, cfg_body(p->c, t[k].sym >> 1), x.ret, x.origin);
			else
			{
				edge_add(p, (Edge) {t[k].sym, t[k].to, x.ret, x.origin});
				if (rule)
					item_add(p, cfg_body(p->c, t[k].sym >> 1), t[k].sym >> 1, SELF);
			}
		}
	}
}

/* Return the lexer's state over the lexemes among the edges, which are sorted. */
static uint32_t
row_lexer(Parse *p)
{
	ReNode	   *l = mem_alloc((p->n_edges + 1) * sizeof(ReNode));
	uint32_t	n = 0;
	uint32_t	r;

	for (uint32_t i = 0; i < p->n_edges; i++)
		if ((p->edge[i].sym & 1) == 0 && (n == 0 || l[n - 1] != p->edge[i].sym >> 1))
			l[n++] = p->edge[i].sym >> 1;
	r = lexer_start(p->lexer, l, n);
	mem_free(l);
	return r;
}

/* Return the row of the current items. */
static uint32_t
row_make(Parse *p)
{
	bool		accepts;
	uint32_t	n = 0;
	uint32_t   *w;
	uint32_t	r;

	close_items(p, &accepts);
	items_reset(p);
	if (p->n_edges > 1)
		qsort(p->edge, p->n_edges, sizeof(Edge), by_edge);
	for (uint32_t i = 0; i < p->n_edges; i++)
		if (n == 0 || by_edge(&p->edge[n - 1], &p->edge[i]) != 0)
			p->edge[n++] = p->edge[i];
	p->n_edges = n;
	w = mem_alloc((1 + 4 * (size_t) p->n_edges) * sizeof(uint32_t));
	w[0] = accepts;
	if (p->n_edges > 0)
		memcpy(w + 1, p->edge, p->n_edges * sizeof(Edge));
	r = ids_get(&p->rows, w, 1 + 4 * p->n_edges);
	mem_free(w);
	if (r < p->n_rows)
		return r;
	if (p->n_rows == p->cap_rows)
	{
		p->cap_rows = p->cap_rows > 0 ? p->cap_rows * 2 : 64;
		p->row = mem_realloc(p->row, p->cap_rows * sizeof(EarleyRow));
	}
	p->row[p->n_rows++] = (EarleyRow) {row_lexer(p), accepts};
	return r;
}

/* ---- seeds: the nodes after lexemes that have ended ---- */

static void
seed_add(Parse *p, const Edge *e, uint32_t row)
{
	if (p->n_seeds == p->cap_seeds)
	{
		p->cap_seeds = p->cap_seeds > 0 ? p->cap_seeds * 2 : 64;
		p->seed = mem_realloc(p->seed, p->cap_seeds * sizeof(Item));
	}
	ASSERT(row < p->n_rows);
	p->seed[p->n_seeds++] = (Item) {e->to, e->ret, e->origin == SELF ? row : e->origin};
}

static void
seeds_of(Parse *p, uint32_t row, uint32_t done)
{
	uint32_t	n;
	uint32_t	n_edges;
	const Edge *e = row_edges(p, row, &n_edges);
	const ReNode *l = lexer_done(p->lexer, done, &n);

	for (uint32_t k = 0; k < n; k++)
	{
		CfgSym		sym = cfg_sym_lexeme(l[k]);

		for (uint32_t i = edge_find(e, n_edges, sym); i < n_edges && e[i].sym == sym; i++)
			seed_add(p, &e[i], row);
	}
}

static int
by_item(const void *a, const void *b)
{
	const Item *x = a;
	const Item *y = b;

	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	if (x->ret != y->ret)
		return x->ret < y->ret ? -1 : 1;
	return x->origin < y->origin ? -1 : x->origin > y->origin;
}

/* Return the row that the seeds lead to. */
static uint32_t
seeds_row(Parse *p)
{
	uint32_t	n = 0;
	uint32_t	known = p->seeds.n;
	uint32_t	s;

	if (p->n_seeds > 1)
		qsort(p->seed, p->n_seeds, sizeof(Item), by_item);
	for (uint32_t i = 0; i < p->n_seeds; i++)
		if (n == 0 || by_item(&p->seed[n - 1], &p->seed[i]) != 0)
			p->seed[n++] = p->seed[i];
	s = ids_get(&p->seeds, (const uint32_t *) p->seed, 3 * n);
	if (s < known)
		return p->seed_row[s];
	if (s >= p->cap_seed_row)
	{
		p->cap_seed_row = p->cap_seed_row > 0 ? p->cap_seed_row * 2 : 64;
		p->seed_row = mem_realloc(p->seed_row, p->cap_seed_row * sizeof(uint32_t));
	}
	for (uint32_t i = 0; i < n; i++)
		item_add(p, p->seed[i].node, p->seed[i].ret, p->seed[i].origin);
	p->seed_row[s] = row_make(p);
	return p->seed_row[s];
}

/* ---- states ---- */

static int
by_pair(const void *a, const void *b)
{
	const ParsePair *x = a;
	const ParsePair *y = b;

	if (x->row != y->row)
		return x->row < y->row ? -1 : 1;
	return x->lex < y->lex ? -1 : x->lex > y->lex;
}

static void
pair_put(Parse *p, uint32_t i, uint32_t row, uint32_t lex)
{
	if (i >= p->cap_pairs)
	{
		p->cap_pairs = p->cap_pairs > 0 ? p->cap_pairs * 2 : 16;
		p->pair = mem_realloc(p->pair, p->cap_pairs * sizeof(ParsePair));
	}
	p->pair[i] = (ParsePair) {row, lex};
}

/* Return the state of pair[0..n) and of a row that begins here (UNKNOWN = none). */
static uint32_t
state_make(Parse *p, uint32_t n, uint32_t row)
{
	bool		accepts = row != UNKNOWN && p->row[row].accepts;
	uint32_t	m = 0;
	uint32_t   *w;
	uint32_t	s;

	if (row != UNKNOWN && p->row[row].lex != LEX_DEAD)
		pair_put(p, n++, row, p->row[row].lex);
	if (n > MAX_PAIRS)
		p->full = true;
	if (p->full)
		return PARSE_DEAD;
	if (n > 1)
		qsort(p->pair, n, sizeof(ParsePair), by_pair);
	w = mem_alloc((1 + 2 * n) * sizeof(uint32_t));
	w[m++] = accepts;
	for (uint32_t i = 0; i < n; i++)
		if (i == 0 || by_pair(&p->pair[i - 1], &p->pair[i]) != 0)
		{
			w[m++] = p->pair[i].row;
			w[m++] = p->pair[i].lex;
		}
	s = ids_get(&p->states, w, m);
	mem_free(w);
	if (s == p->n_states)
	{
		if (p->n_states == p->cap_states)
		{
			p->cap_states = p->cap_states > 0 ? p->cap_states * 2 : 64;
			p->state = mem_realloc(p->state, p->cap_states * sizeof(EarleyState));
		}
		p->state[p->n_states++] = (EarleyState) {NULL};
	}
	return s;
}

const ParsePair *
parse_pairs(const Parse *p, uint32_t state, uint32_t *n)
{
	uint32_t	words;
	const uint32_t *w = ids_words(&p->states, state, &words);

	*n = words / 2;
	return (const ParsePair *) (w + 1);
}

static uint32_t
step(Parse *p, uint32_t state, uint32_t cls)
{
	uint32_t	n;
	uint32_t	m = 0;
	const ParsePair *pair = parse_pairs(p, state, &n);

	p->n_seeds = 0;
	for (uint32_t i = 0; i < n; i++)
	{
		uint32_t	lex = lexer_step(p->lexer, pair[i].lex, cls);
		LexInfo		info;

		if (lex == LEX_DEAD)
			continue;
		info = lexer_info(p->lexer, lex);
		if (info.done != 0)
			seeds_of(p, pair[i].row, info.done);
		if (info.more)
			pair_put(p, m++, pair[i].row, lex);
	}
	p->steps += n + p->n_seeds;
	return state_make(p, m, p->n_seeds > 0 ? seeds_row(p) : UNKNOWN);
}

uint32_t
parse_step(Parse *p, uint32_t state, uint8_t b)
{
	uint32_t	cls = p->cls[b];
	uint32_t	to;

	ALWAYS(state < p->n_states && cls < p->n_cls);
	if (p->state[state].next == NULL)
	{
		p->state[state].next = mem_alloc(p->n_cls * sizeof(uint32_t));
		memset(p->state[state].next, 0xff, p->n_cls * sizeof(uint32_t));
		p->tables += p->n_cls * sizeof(uint32_t);
	}
	to = p->state[state].next[cls];
	if (to != UNKNOWN)
		return to;
	to = step(p, state, cls);
	if (p->full || !cfg_check(p->c, &(Err) {0}))
		return PARSE_DEAD;
	p->state[state].next[cls] = to;
	return to;
}

uint32_t
parse_after(Parse *p, uint32_t row, uint32_t done)
{
	p->n_seeds = 0;
	seeds_of(p, row, done);
	return state_make(p, 0, seeds_row(p));
}

bool
parse_accepts(const Parse *p, uint32_t state)
{
	uint32_t	n;

	return ids_words(&p->states, state, &n)[0];
}

bool
parse_can_go_on(Parse *p, uint32_t state)
{
	uint32_t	n;
	const ParsePair *pair = parse_pairs(p, state, &n);

	/* a pair doesn't prove it: its lexeme may be complete without a possible continuation */
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t c = 0; c < p->n_cls; c++)
			if (lexer_step(p->lexer, pair[i].lex, c) != LEX_DEAD)
				return true;
	return false;
}

int
parse_only(Parse *p, uint32_t state)
{
	uint32_t	n;
	const ParsePair *pair = parse_pairs(p, state, &n);
	uint32_t	only = UNKNOWN;
	int			b = -1;

	/* most states already allow two of the first few classes */
	for (uint32_t c = 0; c < p->n_cls; c++)
		for (uint32_t i = 0; i < n; i++)
			if (lexer_step(p->lexer, pair[i].lex, c) != LEX_DEAD)
			{
				if (only != UNKNOWN)
					return -1;
				only = c;
				break;
			}
	for (int k = 0; k < 256 && only != UNKNOWN; k++)
		if (p->cls[k] == only)
		{
			if (b >= 0)
				return -1;
			b = k;
		}
	return b;
}

void
parse_first(Parse *p, uint32_t state, uint32_t set[8])
{
	uint32_t	n;
	bool		may[256] = {false};
	const ParsePair *pair = parse_pairs(p, state, &n);

	for (uint32_t c = 0; c < p->n_cls; c++)
		for (uint32_t i = 0; i < n && !may[c]; i++)
			may[c] = lexer_step(p->lexer, pair[i].lex, c) != LEX_DEAD;
	memset(set, 0, 8 * sizeof(uint32_t));
	for (uint32_t b = 0; b < 256; b++)
		if (may[p->cls[b]])
			set[b / 32] |= 1u << (b % 32);
}

/* ---- the parser ---- */

Parse *
parse_new(Cfg *c)
{
	Parse	   *p = mem_zalloc(sizeof(Parse));

	p->c = c;
	p->lexer = lexer_new(cfg_re(c));
	p->n_cls = lexer_classes(p->lexer, &p->cls);
	p->item_hash_cap = 128;
	p->item_hash = mem_alloc(p->item_hash_cap * sizeof(uint32_t));
	memset(p->item_hash, 0xff, p->item_hash_cap * sizeof(uint32_t));
	ids_init(&p->rows);
	ids_init(&p->seeds);
	ids_init(&p->states);
	state_make(p, 0, UNKNOWN);	/* PARSE_DEAD */
	item_add(p, cfg_root(c), UNKNOWN, START);
	p->start = state_make(p, 0, row_make(p));
	return p;
}

void
parse_free(Parse *p)
{
	if (p == NULL)
		return;
	for (uint32_t i = 0; i < p->n_states; i++)
		mem_free(p->state[i].next);
	ids_free(&p->rows);
	ids_free(&p->seeds);
	ids_free(&p->states);
	lexer_free(p->lexer);
	cfg_free(p->c);
	mem_free(p->row);
	mem_free(p->seed_row);
	mem_free(p->state);
	mem_free(p->item);
	mem_free(p->item_hash);
	mem_free(p->edge);
	mem_free(p->seed);
	mem_free(p->pair);
	mem_free(p);
}

size_t
parse_memory(const Parse *p)
{
	return sizeof(Parse) + cfg_memory(p->c) + lexer_memory(p->lexer) + ids_memory(&p->rows) +
		ids_memory(&p->seeds) + ids_memory(&p->states) + p->cap_rows * sizeof(EarleyRow) +
		p->cap_states * sizeof(EarleyState) + p->tables;
}

void
parse_begin(Parse *p)
{
	p->steps_before += p->steps;
	p->steps = 0;
	cfg_begin(p->c);
}

uint64_t
parse_work(const Parse *p)
{
	return p->steps_before + p->steps + cfg_work(p->c);
}

void
parse_count(Parse *p, uint64_t n)
{
	p->steps += n;
	if (p->steps > MAX_STEPS)
		p->full = true;
}

bool
parse_check(const Parse *p, Err *e)
{
	if (p->full)
		return err_set(e, ERR_TOO_LONG, "grammar takes too many steps");
	return cfg_check(p->c, e);
}

uint32_t
parse_start(Parse *p)
{
	return p->start;
}

Lexer *
parse_lexer(Parse *p)
{
	return p->lexer;
}

uint32_t
parse_n_states(const Parse *p)
{
	return p->n_states;
}
