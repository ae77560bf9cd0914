/*
 * derivative.c
 *	  Regular expressions with derivatives.
 *
 * Brzozowski: the derivative of x by byte b matches what may follow b in x.  An expression has finitely
 * many derivatives if alternatives are treated as sets, which is why nodes are hash-consed after these
 * laws:
 *
 *	 - or, and: flat, sorted, each part once; RE_NONE and RE_ALL removed; single bytes merged.
 *	 - "or empty" is always x{0,1}; an or never contains the empty text itself.
 *	 - concatenation leans to the right; x{a,b} x{c,d} is x{a+c,b+d}.
 *	 - x{a,b} t | x{c,d} t is one repetition if the counts touch.  Without it the
 *	   derivatives of (a|aa){0,1000} would be sets of hundreds of them.
 *	 - a repetition of an expression that matches the empty text has no lower bound; x{p,q}{m,n} is one
 *	   repetition if p <= 1.
 *	 - an and of texts that can't have the same length is RE_NONE; x{m,n} and y*, where y is some of
 *	   the characters x, is y{m,n}.
 *
 * The number of nodes is limited, and so is the sum of lengths of lists examined; above a limit `full`
 * is set and every result is RE_NONE.
 *
 * Derivatives are cached in one table (node, 16 classes of bytes) -> nodes, as a caller that needs
 * one soon needs others.
 */
#include "grammar/regex/regex_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

#define MAX_NODES	400000
#define MAX_WORK	((uint64_t) 8000000)	/* elements of lists in a unit of work; below a second */
#define DERIV_GROUP 16			/* classes */
/* cost of a derivative, beside its lists: alone in its group it takes 100 bytes */
#define DERIV_WORK	8
#define MAX_DEPTH	1500		/* of nesting, which limits recursion */
#define MAX_COUNT	(UINT32_MAX / 2)	/* counts with larger products aren't merged */
#define UNKNOWN		UINT32_MAX

/* short names for this file */
typedef ReKind Kind;
typedef ReParts Node;
typedef ReSet Set;

/* Derivatives of a node by DERIV_GROUP classes. */
typedef struct ReDeriv
{
	uint32_t	node;			/* UNKNOWN = free */
	uint32_t	group;
	uint32_t	place;			/* index in derivs[], in groups */
} DerivKey;

typedef struct DerivativeList
{
	uint32_t   *v;
	uint32_t	n,
				cap;
} DerivativeList;

static uint32_t
mix(uint32_t h, uint32_t v)
{
	uint64_t	x = ((uint64_t) h << 32 | v) * 0x9E3779B97F4A7C15u;

	return (uint32_t) (x >> 32) ^ (uint32_t) x;
}

static void
count_work(Regex *re, uint32_t n)
{
	re->work += n;
	if (re->work > MAX_WORK)
		re->full = true;
}

/* ---- nodes ---- */

static uint32_t
sat_add(uint32_t a, uint32_t b)
{
	return a == RE_INF || b == RE_INF || a > RE_INF - b ? RE_INF : a + b;
}

/* Multiply lengths: saturates.  0 * infinity = 0. */
static uint32_t
sat_mul(uint32_t a, uint32_t b)
{
	uint64_t	p = (uint64_t) a * b;

	if (a == 0 || b == 0)
		return 0;
	return a == RE_INF || b == RE_INF || p >= RE_INF ? RE_INF : (uint32_t) p;
}

static uint32_t
hash_node(const Regex *re, const Node *x)
{
	uint32_t	h = mix(x->kind, x->min);

	h = mix(h, x->max);
	switch (x->kind)
	{
		case K_BYTES:
			for (int i = 0; i < 8; i++)
				h = mix(h, re->set[x->a].w[i]);
			return h;
		case K_OR:
		case K_AND:
			for (uint32_t i = 0; i < x->b; i++)
				h = mix(h, re->kids[x->a + i]);
			return h;
		default:
			return mix(mix(h, x->a), x->b);
	}
}

static bool
same_node(const Regex *re, const Node *x, const Node *y)
{
	if (x->kind != y->kind || x->min != y->min || x->max != y->max)
		return false;
	switch (x->kind)
	{
		case K_BYTES:
			return memcmp(&re->set[x->a], &re->set[y->a], sizeof(Set)) == 0;
		case K_OR:
		case K_AND:
			return x->b == y->b && memcmp(re->kids + x->a, re->kids + y->a, x->b * sizeof(uint32_t)) == 0;
		default:
			return x->a == y->a && x->b == y->b;
	}
}

static void
rehash(Regex *re)
{
	re->hash_cap *= 2;
	re->hash = mem_realloc(re->hash, re->hash_cap * sizeof(uint32_t));
	memset(re->hash, 0xff, re->hash_cap * sizeof(uint32_t));
	for (uint32_t i = 0; i < re->n; i++)
	{
		uint32_t	h = hash_node(re, &re->node[i]) & (re->hash_cap - 1);

		while (re->hash[h] != UNKNOWN)
			h = (h + 1) & (re->hash_cap - 1);
		re->hash[h] = i;
	}
}

/* Compute a node's facts from its parts. */
static void
derive_facts(const Regex *re, Node *x)
{
	const Node *a = &re->node[x->a < re->n ? x->a : 0];
	const Node *b = &re->node[x->b < re->n ? x->b : 0];

	switch (x->kind)
	{
		case K_NONE:
			x->min_len = RE_INF;
			break;
		case K_EMPTY:
			x->nullable = true;
			break;
		case K_BYTES:
			x->min_len = x->max_len = 1;
			break;
		case K_CAT:
			x->nullable = a->nullable && b->nullable;
			x->meets = a->meets || b->meets;
			x->residue = a->residue || b->residue;
			x->min_len = sat_add(a->min_len, b->min_len);
			x->max_len = sat_add(a->max_len, b->max_len);
			/* a chain is walked by a loop, not by recursion */
			x->depth = a->depth + 1 > b->depth ? a->depth + 1 : b->depth;
			x->top = a->top > b->top ? a->top : b->top;
			break;
		case K_REP:
			x->nullable = x->min == 0;
			x->meets = a->meets;
			x->residue = a->residue;
			x->min_len = sat_mul(a->min_len, x->min);
			x->max_len = sat_mul(a->max_len, x->max);
			x->depth = a->depth + 1;
			x->top = x->max == RE_INF ? x->min : x->max;
			x->top = a->top > x->top ? a->top : x->top;
			break;
		case K_RESIDUE:
			x->nullable = x->max == 0;
			x->meets = x->residue = true;
			x->min_len = x->max != 0;
			x->max_len = RE_INF;
			break;
		case K_NOT:
			x->nullable = !a->nullable;
			x->meets = true;
			x->residue = a->residue;
			x->min_len = a->nullable;
			x->max_len = RE_INF;
			x->depth = a->depth + 1;
			break;
		default:
			x->nullable = x->kind == K_AND;
			x->meets = x->kind == K_AND;
			x->min_len = x->kind == K_AND ? 0 : RE_INF;
			x->max_len = x->kind == K_AND ? RE_INF : 0;
			for (uint32_t i = 0; i < x->b; i++)
			{
				const Node *k = &re->node[re->kids[x->a + i]];

				x->meets = x->meets || k->meets;
				x->residue = x->residue || k->residue;
				x->top = k->top > x->top ? k->top : x->top;
				x->depth = k->depth + 1 > x->depth ? k->depth + 1 : x->depth;
				if (x->kind == K_AND)
				{
					x->nullable = x->nullable && k->nullable;
					x->min_len = k->min_len > x->min_len ? k->min_len : x->min_len;
					x->max_len = k->max_len < x->max_len ? k->max_len : x->max_len;
				}
				else
				{
					x->nullable = x->nullable || k->nullable;
					x->min_len = k->min_len < x->min_len ? k->min_len : x->min_len;
					x->max_len = k->max_len > x->max_len ? k->max_len : x->max_len;
				}
			}
	}
}

/* Return the node equal to *x, made if there is none.  *found: it existed, and the caller still owns
 * what *x owns. */
static ReNode
intern(Regex *re, Node *x, bool *found)
{
	uint32_t	h;

	*found = true;
	if (re->full)
		return RE_NONE;
	if ((re->n + 1) * 2 > re->hash_cap)
		rehash(re);
	h = hash_node(re, x) & (re->hash_cap - 1);
	for (; re->hash[h] != UNKNOWN; h = (h + 1) & (re->hash_cap - 1))
		if (same_node(re, &re->node[re->hash[h]], x))
			return re->hash[h];
	derive_facts(re, x);
	if (re->n >= re->max || x->depth > MAX_DEPTH)
	{
		re->full = true;
		return RE_NONE;
	}
	if (re->n == re->cap)
	{
		re->cap *= 2;
		re->node = mem_realloc(re->node, re->cap * sizeof(Node));
	}
	/* rehash() and the limit above have made room */
	ASSERT(re->n < re->cap && re->n < re->hash_cap);
	*found = false;
	re->node[re->n] = *x;
	re->hash[h] = re->n;
	return re->n++;
}

static ReNode
make(Regex *re, Kind kind, uint32_t a, uint32_t b, uint32_t min, uint32_t max)
{
	Node		x = {.kind = (uint8_t) kind,.a = a,.b = b,.min = min,.max = max};
	bool		found;

	return intern(re, &x, &found);
}

/* Make an or, or an and, of these parts, which are sorted. */
static ReNode
make_list(Regex *re, Kind kind, const uint32_t *v, uint32_t n)
{
	Node		x = {.kind = (uint8_t) kind,.a = re->n_kids,.b = n};
	ReNode		r;
	bool		found;

	if (re->cap_kids - re->n_kids < n)
	{
		while (re->cap_kids - re->n_kids < n)
			re->cap_kids *= 2;
		re->kids = mem_realloc(re->kids, re->cap_kids * sizeof(uint32_t));
	}
	memcpy(re->kids + re->n_kids, v, n * sizeof(uint32_t));
	/* a list counts as many nodes as its length: an alternative of 1,000 is no single node */
	count_work(re, n);
	if (re->n_kids > re->max * 8)
		re->full = true;
	r = intern(re, &x, &found);
	if (!found)
		re->n_kids += n;
	return r;
}

ReNode
re_byte_set(Regex *re, const uint32_t set[8])
{
	Node		x = {.kind = K_BYTES,.a = re->n_sets};
	uint32_t	any = 0;
	ReNode		r;
	bool		found;

	for (int i = 0; i < 8; i++)
		any |= set[i];
	if (any == 0)
		return RE_NONE;
	if (re->n_sets == re->cap_sets)
	{
		re->cap_sets *= 2;
		re->set = mem_realloc(re->set, re->cap_sets * sizeof(Set));
	}
	memcpy(re->set[re->n_sets].w, set, sizeof(Set));
	r = intern(re, &x, &found);
	if (!found)
	{
		re->n_sets++;
		re->settled = false;
	}
	return r;
}

Regex *
re_new(uint32_t max_nodes)
{
	Regex	   *re = mem_zalloc(sizeof(Regex));
	Set			all;

	re->max = max_nodes > 0 ? max_nodes : MAX_NODES;
	re->cap = 64;
	re->node = mem_alloc(re->cap * sizeof(Node));
	re->hash_cap = 128;
	re->hash = mem_alloc(re->hash_cap * sizeof(uint32_t));
	memset(re->hash, 0xff, re->hash_cap * sizeof(uint32_t));
	re->cap_sets = 16;
	re->set = mem_alloc(re->cap_sets * sizeof(Set));
	re->cap_kids = 64;
	re->kids = mem_alloc(re->cap_kids * sizeof(uint32_t));
	re->chars = re_chars_new();
	make(re, K_NONE, 0, 0, 0, 0);
	make(re, K_EMPTY, 0, 0, 0, 0);
	/* RE_ALL refers to the set of all bytes, which is made after it: reserve its number */
	make(re, K_NOT, RE_NONE, 0, 0, 0);
	memset(&all, 0xff, sizeof(all));
	re->node[RE_ALL] = (Node) {.kind = K_REP,.nullable = true,.a = re_byte_set(re, all.w),.max = RE_INF,
							   .max_len = RE_INF,.depth = 1};
	re->hash_cap /= 2;
	rehash(re);
	return re;
}

void
re_free(Regex *re)
{
	if (re == NULL)
		return;
	re_chars_free(re->chars);
	mem_free(re->node);
	mem_free(re->hash);
	mem_free(re->set);
	mem_free(re->kids);
	mem_free(re->memo);
	mem_free(re->derivs);
	mem_free(re);
}

bool
re_check(const Regex *re, Err *e)
{
	if (!re->full)
		return true;
	return err_set(e, ERR_TOO_LONG, "regular expressions are too complex");
}

void
re_begin(Regex *re)
{
	re->work_before += re->work;
	re->work = 0;
}

uint64_t
re_work(const Regex *re)
{
	return re->work_before + re->work;
}

size_t
re_memory(const Regex *re)
{
	return sizeof(Regex) + re->cap * sizeof(Node) + re->hash_cap * sizeof(uint32_t) +
		re->cap_sets * sizeof(Set) + re->cap_kids * sizeof(uint32_t) +
		re->cap_memo * (sizeof(DerivKey) + DERIV_GROUP / 2 * sizeof(ReNode)) + re_chars_memory(re->chars);
}

ReChars *
re_chars(Regex *re)
{
	return re->chars;
}

bool
re_nullable(const Regex *re, ReNode a)
{
	return re->node[a].nullable;
}

/* ---- concatenation and repetition ---- */

static void
push(DerivativeList *l, uint32_t v)
{
	if (l->n == l->cap)
	{
		l->cap = l->cap > 0 ? l->cap * 2 : 16;
		l->v = mem_realloc(l->v, l->cap * sizeof(uint32_t));
	}
	l->v[l->n++] = v;
}

/* a b, where a is no concatenation */
static ReNode
cat2(Regex *re, ReNode a, ReNode b)
{
	const Node *x = &re->node[a];
	const Node *y = &re->node[b];
	ReNode		tail = RE_EMPTY;

	if (a == RE_NONE || b == RE_NONE)
		return RE_NONE;
	if (a == RE_EMPTY)
		return b;
	if (b == RE_EMPTY)
		return a;
	if (x->kind == K_REP)
	{
		if (y->kind == K_CAT)
		{
			tail = y->b;
			y = &re->node[y->a];
		}
		if (y->kind == K_REP && y->a == x->a)
			return re_cat(re, re_repeat(re, x->a, sat_add(x->min, y->min), sat_add(x->max, y->max)), tail);
	}
	return make(re, K_CAT, a, b, 0, 0);
}

ReNode
re_cat(Regex *re, ReNode a, ReNode b)
{
	DerivativeList spine = {0};

	if (re->node[a].kind != K_CAT)
		return cat2(re, a, b);
	for (; re->node[a].kind == K_CAT; a = re->node[a].b)
		push(&spine, re->node[a].a);
	count_work(re, spine.n);
	b = cat2(re, a, b);
	while (spine.n > 0)
		b = cat2(re, spine.v[--spine.n], b);
	mem_free(spine.v);
	return b;
}

ReNode
re_repeat(Regex *re, ReNode a, uint32_t min, uint32_t max)
{
	const Node *x = &re->node[a];

	if (min > max)
		return RE_NONE;
	if (max == 0 || a == RE_EMPTY)
		return RE_EMPTY;
	if (a == RE_NONE)
		return min == 0 ? RE_EMPTY : RE_NONE;
	if (x->nullable)
		min = 0;
	if (min == 1 && max == 1)
		return a;
	if (x->kind == K_REP && x->min <= 1 &&
		(max == RE_INF || x->max == RE_INF || (uint64_t) x->max * max < MAX_COUNT))
		return re_repeat(re, x->a, x->min * min, sat_mul(x->max, max));
	/* an expression that matches the empty text doesn't change if it becomes optional */
	if (x->nullable && max == 1)
		return a;
	return make(re, K_REP, a, 0, min, max);
}

/* ---- or ---- */

static int
by_number(const void *a, const void *b)
{
	uint32_t	x = *(const uint32_t *) a;
	uint32_t	y = *(const uint32_t *) b;

	return x < y ? -1 : x > y;
}

static void
sort_unique(DerivativeList *l)
{
	uint32_t	n = 0;

	if (l->n > 1)
		qsort(l->v, l->n, sizeof(uint32_t), by_number);
	for (uint32_t i = 0; i < l->n; i++)
		if (n == 0 || l->v[n - 1] != l->v[i])
			l->v[n++] = l->v[i];
	l->n = n;
}

/* Add a to the parts of an alternative; *empty = one of them is the empty text. */
static void
or_add(Regex *re, DerivativeList *l, ReNode a, bool *empty)
{
	const Node *x = &re->node[a];

	if (a == RE_NONE)
		return;
	if (a == RE_EMPTY)
	{
		*empty = true;
		return;
	}
	if (x->kind == K_REP && x->min == 0 && x->max == 1)
	{
		*empty = true;
		x = &re->node[a = x->a];
	}
	if (x->kind == K_OR)
		for (uint32_t i = 0; i < x->b; i++)
			push(l, re->kids[x->a + i]);
	else
		push(l, a);
}

/* Merge all single bytes among the alternatives to one set. */
static void
or_bytes(Regex *re, DerivativeList *l)
{
	Set			s = {{0}};
	uint32_t	n = 0;
	uint32_t	sets = 0;

	for (uint32_t i = 0; i < l->n; i++)
		if (re->node[l->v[i]].kind == K_BYTES)
		{
			sets++;
			for (int k = 0; k < 8; k++)
				s.w[k] |= re->set[re->node[l->v[i]].a].w[k];
		}
	if (sets < 2)
		return;
	for (uint32_t i = 0; i < l->n; i++)
		if (re->node[l->v[i]].kind != K_BYTES)
			l->v[n++] = l->v[i];
	l->n = n;
	push(l, re_byte_set(re, s.w));
}

typedef struct DerivativeCounted
{
	uint32_t	x,
				tail;			/* x{min,max} tail */
	uint32_t	min,
				max;
} DerivativeCounted;

static int
by_counted(const void *a, const void *b)
{
	const DerivativeCounted *p = a;
	const DerivativeCounted *q = b;

	if (p->x != q->x)
		return p->x < q->x ? -1 : 1;
	if (p->tail != q->tail)
		return p->tail < q->tail ? -1 : 1;
	if (p->min != q->min)
		return p->min < q->min ? -1 : 1;
	return p->max < q->max ? -1 : p->max > q->max;
}

static bool
is_counted(const Regex *re, ReNode a, DerivativeCounted *c)
{
	const Node *x = &re->node[a];

	c->tail = RE_EMPTY;
	if (x->kind == K_CAT)
	{
		c->tail = x->b;
		x = &re->node[x->a];
	}
	if (x->kind != K_REP)
		return false;
	c->x = x->a;
	c->min = x->min;
	c->max = x->max;
	return true;
}

/* Merge repetitions of the same expression with the same tail if their counts touch. */
static void
or_counts(Regex *re, DerivativeList *l)
{
	DerivativeCounted *c;
	DerivativeCounted one;
	uint32_t	n = 0;
	uint32_t	kept = 0;

	for (uint32_t i = 0; i < l->n; i++)
		n += is_counted(re, l->v[i], &one);
	if (n < 2)
		return;
	c = mem_alloc((n + 1) * sizeof(DerivativeCounted));
	n = 0;
	for (uint32_t i = 0; i < l->n; i++)
	{
		if (is_counted(re, l->v[i], &c[n]))
			n++;
		else
			l->v[kept++] = l->v[i];
	}
	l->n = kept;
	qsort(c, n, sizeof(DerivativeCounted), by_counted);
	for (uint32_t i = 0; i < n;)
	{
		uint32_t	j = i + 1;

		one = c[i];
		while (j < n && c[j].x == one.x && c[j].tail == one.tail && c[j].min <= sat_add(one.max, 1))
		{
			one.max = c[j].max > one.max ? c[j].max : one.max;
			j++;
		}
		push(l, re_cat(re, re_repeat(re, one.x, one.min, one.max), one.tail));
		i = j;
	}
	mem_free(c);
}

/* Make the alternative of the parts; free the list. */
static ReNode
or_make(Regex *re, DerivativeList *l, bool empty)
{
	ReNode		r = RE_NONE;

	count_work(re, l->n);
	sort_unique(l);
	if (l->n > 1)
	{
		or_bytes(re, l);
		or_counts(re, l);
		sort_unique(l);
	}
	for (uint32_t i = 0; i < l->n; i++)
		if (l->v[i] == RE_ALL)
		{
			mem_free(l->v);
			return RE_ALL;
		}
	if (l->n == 1)
		r = l->v[0];
	else if (l->n > 1)
		r = make_list(re, K_OR, l->v, l->n);
	if (empty)
		r = r == RE_NONE ? RE_EMPTY : re_repeat(re, r, 0, 1);
	mem_free(l->v);
	return r;
}

ReNode
re_or_list(Regex *re, const ReNode *a, size_t n)
{
	DerivativeList l = {0};
	bool		empty = false;

	for (size_t i = 0; i < n; i++)
		or_add(re, &l, a[i], &empty);
	return or_make(re, &l, empty);
}

ReNode
re_or(Regex *re, ReNode a, ReNode b)
{
	ReNode		v[2] = {a, b};

	if (a == b || b == RE_NONE)
		return a;
	if (a == RE_NONE)
		return b;
	return re_or_list(re, v, 2);
}

/* ---- and, not ---- */

static void
and_add(const Regex *re, DerivativeList *l, ReNode a)
{
	const Node *x = &re->node[a];

	if (x->kind == K_AND)
		for (uint32_t i = 0; i < x->b; i++)
			push(l, re->kids[x->a + i]);
	else if (a != RE_ALL)
		push(l, a);
}

/* Return true with *out if the and is trivial.  Sets of bytes are intersected. */
static bool
and_simple(Regex *re, DerivativeList *l, ReNode *out)
{
	Set			s;
	uint32_t	min = 0;
	uint32_t	max = RE_INF;
	bool		nullable = true;
	uint32_t	sets = 0;
	uint32_t	n = 0;

	memset(&s, 0xff, sizeof(s));
	for (uint32_t i = 0; i < l->n; i++)
	{
		const Node *x = &re->node[l->v[i]];

		min = x->min_len > min ? x->min_len : min;
		max = x->max_len < max ? x->max_len : max;
		nullable = nullable && x->nullable;
		if (x->kind == K_BYTES)
		{
			sets++;
			for (int k = 0; k < 8; k++)
				s.w[k] &= re->set[x->a].w[k];
		}
		/* x and not x */
		if (x->kind == K_NOT && bsearch(&x->a, l->v, l->n, sizeof(uint32_t), by_number) != NULL)
			min = RE_INF;
	}
	*out = RE_NONE;
	if (min == RE_INF || min > max)
		return true;
	if (max == 0)
	{
		*out = nullable ? RE_EMPTY : RE_NONE;
		return true;
	}
	if (sets < 2)
		return false;
	for (uint32_t i = 0; i < l->n; i++)
		if (re->node[l->v[i]].kind != K_BYTES)
			l->v[n++] = l->v[i];
	l->n = n;
	push(l, re_byte_set(re, s.w));
	if (l->v[n] == RE_NONE)
		return true;
	sort_unique(l);
	return false;
}

/*
 * Return true if each text of y is a text of x, and no text of x is a prefix of another.  Then a text of
 * y* can be split into texts of x in only one way, so x{m,n} and y* is y{m,n}.
 */
static bool
is_letters(Regex *re, ReNode x, ReNode y)
{
	ReNode		byte = re->node[RE_ALL].a;

	if (re->searching || re->node[x].kind == K_REP || re->node[y].kind == K_REP || re->node[x].nullable ||
		re->node[y].nullable)
		return false;
	if (re->pair_x == x && re->pair_y == y)
		return re->pair_yes;
	re->pair_yes = !re_live(re, re_and(re, y, re_not(re, x))) &&
		!re_live(re, re_and(re, x, re_cat(re, x, re_repeat(re, byte, 1, RE_INF))));
	re->pair_x = x;
	re->pair_y = y;
	return re->pair_yes;
}

/* x{m,n} and y*, where y is some of the letters x: one repetition. */
static bool
and_counts(Regex *re, const DerivativeList *l, ReNode *out)
{
	if (l->n != 2)
		return false;
	for (int i = 0; i < 2; i++)
	{
		Node		x = re->node[l->v[i]];
		Node		y = re->node[l->v[1 - i]];

		if (x.kind != K_REP || y.kind != K_REP || y.min > 0 || y.max != RE_INF)
			continue;
		if (x.a != y.a && !is_letters(re, x.a, y.a))
			continue;
		*out = re_repeat(re, y.a, x.min, x.max);
		return true;
	}
	return false;
}

static ReNode
and_make(Regex *re, DerivativeList *l)
{
	ReNode		r;

	count_work(re, l->n);
	sort_unique(l);
	if (l->n == 0)
		r = RE_ALL;
	else if (!and_simple(re, l, &r) && !and_counts(re, l, &r))
		r = l->n == 1 ? l->v[0] : make_list(re, K_AND, l->v, l->n);
	mem_free(l->v);
	return r;
}

ReNode
re_and(Regex *re, ReNode a, ReNode b)
{
	DerivativeList l = {0};

	if (a == b)
		return a;
	and_add(re, &l, a);
	and_add(re, &l, b);
	return and_make(re, &l);
}

ReNode
re_not(Regex *re, ReNode a)
{
	if (re->full)
		return RE_NONE;
	if (a == RE_NONE)
		return RE_ALL;
	if (a == RE_ALL)
		return RE_NONE;
	if (re->node[a].kind == K_NOT)
		return re->node[a].a;
	return make(re, K_NOT, a, 0, 0, 0);
}

ReNode
re_residue(Regex *re, uint32_t m, uint32_t r)
{
	static const char each[] = "0123456789.-";

	/* give each of them its own class */
	for (size_t i = 0; i + 1 < sizeof(each); i++)
		re_bytes(re, each + i, 1);
	return make(re, K_RESIDUE, 0, 0, m, r % m);
}

/* ---- classes of bytes ---- */

static bool
in_set(const Set *s, uint32_t b)
{
	return s->w[b / 32] >> (b % 32) & 1;
}

static void
settle(Regex *re)
{
	memset(re->cls, 0, sizeof(re->cls));
	re->n_cls = 1;
	for (uint32_t i = 0; i < re->n_sets && re->n_cls < 256; i++)
	{
		uint16_t	to[256][2];
		uint32_t	n = 0;

		memset(to, 0xff, sizeof(to));
		for (uint32_t b = 0; b < 256; b++)
		{
			uint16_t   *t = &to[re->cls[b]][in_set(&re->set[i], b)];

			if (*t == UINT16_MAX)
				*t = (uint16_t) n++;
			re->cls[b] = (uint8_t) *t;
		}
		re->n_cls = n;
	}
	for (uint32_t b = 256; b-- > 0;)
		re->rep[re->cls[b]] = (uint8_t) b;
	re->n_memo = 0;
	if (re->cap_memo > 0)
		memset(re->memo, 0xff, re->cap_memo * sizeof(DerivKey));
	re->settled = true;
}

const uint8_t *
re_classes(Regex *re, uint32_t *n)
{
	if (!re->settled)
		settle(re);
	*n = re->n_cls;
	return re->cls;
}

/* ---- derivatives ---- */

/* Return the cache slot of the derivative of a by a class; valid until the next call. */
static ReNode *
memo_slot(Regex *re, ReNode a, uint32_t cls)
{
	uint32_t	group = cls / DERIV_GROUP;
	uint32_t	h;

	if ((re->n_memo + 1) * 2 > re->cap_memo)
	{
		DerivKey   *old = re->memo;
		uint32_t	n = re->cap_memo;

		re->cap_memo = n > 0 ? n * 2 : 256;
		re->memo = mem_alloc(re->cap_memo * sizeof(DerivKey));
		memset(re->memo, 0xff, re->cap_memo * sizeof(DerivKey));
		for (uint32_t i = 0; i < n; i++)
		{
			h = mix(old[i].node, old[i].group) & (re->cap_memo - 1);
			while (old[i].node != UNKNOWN && re->memo[h].node != UNKNOWN)
				h = (h + 1) & (re->cap_memo - 1);
			if (old[i].node != UNKNOWN)
				re->memo[h] = old[i];
		}
		mem_free(old);
		re->derivs = mem_realloc(re->derivs, re->cap_memo / 2 * DERIV_GROUP * sizeof(ReNode));
	}
	h = mix(a, group) & (re->cap_memo - 1);
	while (re->memo[h].node != UNKNOWN && (re->memo[h].node != a || re->memo[h].group != group))
		h = (h + 1) & (re->cap_memo - 1);
	if (re->memo[h].node == UNKNOWN)
	{
		re->memo[h] = (DerivKey) {a, group, re->n_memo};
		memset(re->derivs + re->n_memo * DERIV_GROUP, 0xff, DERIV_GROUP * sizeof(ReNode));
		re->n_memo++;
	}
	return &re->derivs[re->memo[h].place * DERIV_GROUP + cls % DERIV_GROUP];
}

static ReNode deriv(Regex *re, ReNode a, uint32_t cls);

/* Derive a b c ...: a, and each following part as long as all before it may be empty. */
static ReNode
deriv_cat(Regex *re, ReNode a, uint32_t cls)
{
	DerivativeList l = {0};
	bool		empty = false;

	for (;;)
	{
		Node		x = re->node[a];

		if (x.kind != K_CAT)
		{
			or_add(re, &l, deriv(re, a, cls), &empty);
			break;
		}
		or_add(re, &l, re_cat(re, deriv(re, x.a, cls), x.b), &empty);
		if (!re->node[x.a].nullable)
			break;
		a = x.b;
	}
	return or_make(re, &l, empty);
}

static ReNode
deriv_list(Regex *re, const Node *x, uint32_t cls)
{
	DerivativeList l = {0};
	bool		empty = false;

	for (uint32_t i = 0; i < x->b; i++)
	{
		ReNode		d = deriv(re, re->kids[x->a + i], cls);

		if (x->kind == K_OR)
			or_add(re, &l, d, &empty);
		else
		{
			and_add(re, &l, d);
			if (d == RE_NONE)
			{
				mem_free(l.v);
				return RE_NONE;
			}
		}
	}
	return x->kind == K_OR ? or_make(re, &l, empty) : and_make(re, &l);
}

static ReNode
deriv_residue(Regex *re, ReNode a, uint8_t b)
{
	uint32_t	m = re->node[a].min;

	if (b == '.' || b == '-')
		return a;
	if (b < '0' || b > '9')
		return RE_NONE;
	return make(re, K_RESIDUE, 0, 0, m,
				(uint32_t) (((uint64_t) re->node[a].max * 10 + (uint64_t) (b - '0')) % m));
}

static ReNode
deriv(Regex *re, ReNode a, uint32_t cls)
{
	Node		x = re->node[a];
	ReNode		r;

	if (re->full || x.kind <= K_EMPTY)
		return RE_NONE;
	if (x.kind == K_BYTES)
		return in_set(&re->set[x.a], re->rep[cls]) ? RE_EMPTY : RE_NONE;
	r = *memo_slot(re, a, cls);
	if (r != UNKNOWN)
		return r;
	switch (x.kind)
	{
		case K_CAT:
			r = deriv_cat(re, a, cls);
			break;
		case K_NOT:
			r = re_not(re, deriv(re, x.a, cls));
			break;
		case K_REP:
			r = deriv(re, x.a, cls);
			if (r != RE_NONE)
				r = re_cat(re, r, re_repeat(re, x.a, x.min > 0 ? x.min - 1 : 0,
											x.max == RE_INF ? RE_INF : x.max - 1));
			break;
		case K_RESIDUE:
			r = deriv_residue(re, a, re->rep[cls]);
			break;
		default:
			r = deriv_list(re, &x, cls);
	}
	if (re->full)
		return RE_NONE;
	count_work(re, DERIV_WORK);
	*memo_slot(re, a, cls) = r;
	return r;
}

ReNode
re_deriv_class(Regex *re, ReNode a, uint32_t cls)
{
	if (!re->settled)
		settle(re);
	return deriv(re, a, cls);
}

ReNode
re_deriv(Regex *re, ReNode a, uint8_t b)
{
	if (!re->settled)
		settle(re);
	return deriv(re, a, re->cls[b]);
}

bool
re_match(Regex *re, ReNode a, const char *s, size_t n)
{
	for (size_t i = 0; i < n && a != RE_NONE; i++)
		a = re_deriv(re, a, (uint8_t) s[i]);
	return re->node[a].nullable && !re->full;
}

/* ---- clamping counts ---- */

ReNode
re_clamp(Regex *re, ReNode a, uint32_t k)
{
	Node		x = re->node[a];
	ReNode		r = a;
	DerivativeList l = {0};
	bool		empty = false;

	if (x.meets || x.top <= k)
		return a;
	switch (x.kind)
	{
		case K_CAT:
			/* parts that begin after k bytes don't matter, nor do their counts */
			for (; re->node[a].kind == K_CAT && l.n <= k; a = re->node[a].b)
				push(&l, re_clamp(re, re->node[a].a, k));
			r = l.n <= k ? re_clamp(re, a, k) : a;
			while (l.n > 0)
				r = re_cat(re, l.v[--l.n], r);
			mem_free(l.v);
			return r;
		case K_OR:
			for (uint32_t i = 0; i < x.b; i++)
				or_add(re, &l, re_clamp(re, re->kids[x.a + i], k), &empty);
			return or_make(re, &l, empty);
		case K_REP:
			r = re_clamp(re, x.a, k);
			return re_repeat(re, r, x.min > k ? k + 1 : x.min, x.max > k ? RE_INF : x.max);
		default:
			return a;
	}
}
