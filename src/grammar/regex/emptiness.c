/*
 * emptiness.c
 *	  Find out whether an expression matches anything.
 *
 * Only and/not can hide that nothing is matched; any other expression that isn't RE_NONE matches a text.
 * So the search looks for a derivative that is nullable, contains no and/not, or is known to match
 * something, trying first the one that seems nearest to an end.  The results are stored in the nodes:
 * all nodes on the path to a match are live; if there is no match, all visited nodes are dead.
 *
 * Digits with a remainder (re_residue()) would take as many derivatives as there are remainders.  So if
 * any digits may follow, the code calculates whether some of them give a multiple.
 */
#include "base/alloc.h"
#include "base/assert.h"
#include "grammar/regex/regex_internal.h"

#define LIVE_STEPS	100000		/* derivatives in one search */
#define ESTIMATE_DEPTH 4		/* how far estimate_length() looks */
#define ESTIMATE_LIST 100
#define KNOWN_DEPTH 6

/* value of node.live, beside 0 unknown, 1 yes, 2 no */
#define SEEN		3

typedef struct EmptinessSeen
{
	ReNode		node;
	uint32_t	from;			/* index of the node whose derivative it is; 0: the first */
	uint32_t	far;			/* estimated length of a text */
	uint32_t	cls;			/* smaller classes have been tried */
} EmptinessSeen;

typedef struct EmptinessSearch
{
	EmptinessSeen *v;
	uint32_t	n,
				cap;
	uint32_t   *heap;			/* heap of indexes to continue from, the nearest on top */
	uint32_t	n_heap,
				cap_heap;
	uint32_t	steps;
} EmptinessSearch;

static uint32_t
add(uint32_t a, uint32_t b)
{
	return a > RE_INF - b ? RE_INF : a + b;
}

/* Estimate the length of a text.  For an and the parts' lengths are added, as they seldom share a
 * text. */
static uint32_t
estimate_length(const Regex *re, ReNode a, int deep)
{
	const ReParts *x = &re->node[a];
	uint32_t	r = x->min_len;
	uint32_t	sum = 0;

	if (!x->meets || deep == 0)
		return r;
	if (x->kind == K_CAT)
		return add(estimate_length(re, x->a, deep - 1), re->node[x->b].min_len);
	if (x->kind != K_AND && (x->kind != K_OR || x->b > ESTIMATE_LIST))
		return r;
	r = RE_INF;
	for (uint32_t i = 0; i < x->b; i++)
	{
		uint32_t	k = estimate_length(re, re->kids[x->a + i], deep - 1);

		sum = add(sum, k);
		r = k < r ? k : r;
	}
	return x->kind == K_AND ? sum : r;
}

/* ---- remainders ---- */

#define DIGITS		40			/* most digits of one number that are considered */

typedef enum EmptinessKnown
{
	UNKNOWN,
	LIVES,
	DEAD
} EmptinessKnown;

/* Return true if n digits can be appended to a number with remainder r so that m divides the result. */
static bool
has_multiple(uint64_t m, uint64_t r, int n)
{
	uint64_t	all = 1;		/* count of numbers of n digits */

	for (; n > 0 && all < m; n--)
	{
		all *= 10;
		r = r * 10 % m;
	}
	return all >= m || (m - r) % m < all;
}

/* Set *next to what may follow any digit; RE_NONE: no digit may come.  Return false if it depends on the
 * digit. */
static bool
any_digit(Regex *re, ReNode a, ReNode *next)
{
	*next = re_deriv(re, a, '0');
	for (uint8_t c = '1'; c <= '9'; c++)
		if (re_deriv(re, a, c) != *next)
			return false;
	return true;
}

/* Decide for digits of remainder x that must also match `other`, as far as `other` accepts any
 * digits. */
static EmptinessKnown
residue_known(Regex *re, ReParts x, ReNode other)
{
	struct
	{
		ReNode		node;
		int			n;			/* digits so far */
	}			at[2 * DIGITS];
	int			n = 1;
	bool		all = true;

	at[0].node = other;
	at[0].n = 0;
	for (int i = 0; i < n; i++)
	{
		ReNode		next[2];

		if (re_nullable(re, at[i].node) && has_multiple(x.min, x.max, at[i].n))
			return LIVES;
		if (!any_digit(re, at[i].node, &next[0]))
		{
			all = false;
			next[0] = RE_NONE;
		}
		next[1] = re_deriv(re, at[i].node, '.');
		all = all && re_deriv(re, at[i].node, '-') == RE_NONE;
		for (int k = 0; k < 2; k++)
		{
			if (next[k] == RE_NONE)
				continue;
			if (n == 2 * DIGITS)
				return UNKNOWN;
			at[n].node = next[k];
			at[n++].n = at[i].n + (k == 0);
		}
	}
	return all ? DEAD : UNKNOWN;
}

/* Decide whether anything matches both a and other. */
static EmptinessKnown
known(Regex *re, ReNode a, ReNode other, int deep)
{
	ReParts		x = re->node[a];
	ReNode		residue = RE_NONE;
	uint32_t	residues = 0;
	EmptinessKnown r = DEAD;

	if (a == RE_NONE || other == RE_NONE)
		return DEAD;
	if (x.kind == K_RESIDUE)
		return residue_known(re, x, other);
	if (!x.residue && other == RE_ALL && (!x.meets || x.nullable))
		return LIVES;
	if (!x.residue || deep == 0)
		return UNKNOWN;
	if (x.kind == K_CAT)
	{
		r = known(re, x.a, other, deep - 1);
		return r == LIVES && re->node[x.b].nullable ? LIVES : r == DEAD && other == RE_ALL ? DEAD : UNKNOWN;
	}
	for (uint32_t i = 0; i < x.b && x.kind == K_OR && r != LIVES; i++)
	{
		EmptinessKnown k = known(re, re->kids[x.a + i], other, deep - 1);

		r = k == DEAD ? r : k;
	}
	if (x.kind == K_OR)
		return r;
	for (uint32_t i = 0; i < x.b && x.kind == K_AND; i++)
	{
		ReNode		kid = re->kids[x.a + i];

		if (re->node[kid].residue)
		{
			residue = kid;
			residues++;
		}
		else
			other = re_and(re, other, kid);
	}
	return residues == 1 ? known(re, residue, other, deep - 1) : UNKNOWN;
}

/* ---- heap: the nearest first ---- */

static bool
nearer(const EmptinessSearch *s, uint32_t i, uint32_t j)
{
	return s->v[i].far != s->v[j].far ? s->v[i].far < s->v[j].far : i < j;
}

static void
heap_push(EmptinessSearch *s, uint32_t i)
{
	uint32_t	at = s->n_heap++;

	if (at == s->cap_heap)
	{
		s->cap_heap = at > 0 ? at * 2 : 64;
		s->heap = mem_realloc(s->heap, s->cap_heap * sizeof(uint32_t));
	}
	for (; at > 0 && nearer(s, i, s->heap[(at - 1) / 2]); at = (at - 1) / 2)
		s->heap[at] = s->heap[(at - 1) / 2];
	s->heap[at] = i;
}

static uint32_t
heap_pop(EmptinessSearch *s)
{
	uint32_t	r = s->heap[0];
	uint32_t	i;
	uint32_t	at = 0;

	ALWAYS(s->n_heap > 0);
	i = s->heap[--s->n_heap];
	for (uint32_t k = 1; k < s->n_heap; k = 2 * at + 1)
	{
		if (k + 1 < s->n_heap && nearer(s, s->heap[k + 1], s->heap[k]))
			k++;
		if (!nearer(s, s->heap[k], i))
			break;
		s->heap[at] = s->heap[k];
		at = k;
	}
	s->heap[at] = i;
	return r;
}

/* ---- the search ---- */

static void
search_add(Regex *re, EmptinessSearch *s, ReNode a, uint32_t from)
{
	if (s->n == s->cap)
	{
		s->cap = s->cap > 0 ? s->cap * 2 : 64;
		s->v = mem_realloc(s->v, s->cap * sizeof(EmptinessSeen));
	}
	ASSERT(re->node[a].live != SEEN && from <= s->n);
	re->node[a].live = SEEN;
	s->v[s->n] = (EmptinessSeen) {a, from, estimate_length(re, a, ESTIMATE_DEPTH), 0};
	heap_push(s, s->n++);
}

/* Mark a node and all nodes on the path to it as live. */
static void
mark_live(Regex *re, const EmptinessSearch *s, uint32_t i)
{
	for (;; i = s->v[i].from)
	{
		re->node[s->v[i].node].live = 1;
		if (i == 0)
			return;
		/* each was found from an earlier one, so this ends */
		ALWAYS(s->v[i].from < i);
	}
}

/* Try classes of the nearest node, until another is nearer.  Return true if there is a text. */
static bool
search_on(Regex *re, EmptinessSearch *s)
{
	uint32_t	i = heap_pop(s);

	while (s->v[i].cls < re->n_cls)
	{
		ReNode		d = re_deriv_class(re, s->v[i].node, s->v[i].cls++);
		const ReParts *x = &re->node[d];

		if (d == RE_NONE || x->live == 2 || x->live == SEEN)
			continue;
		if (++s->steps > LIVE_STEPS)
		{
			re->full = true;
			return false;
		}
		if (!x->meets || x->nullable || x->live == 1)
		{
			mark_live(re, s, i);
			return true;
		}
		if (x->residue)
		{
			EmptinessKnown k = known(re, d, RE_ALL, KNOWN_DEPTH);

			if (k != UNKNOWN)
				re->node[d].live = k == LIVES ? 1 : 2;
			if (k == LIVES)
			{
				mark_live(re, s, i);
				return true;
			}
			if (k == DEAD)
				continue;
		}
		search_add(re, s, d, i);
		if (s->v[s->n - 1].far < s->v[i].far)
		{
			heap_push(s, i);
			break;
		}
	}
	return false;
}

bool
re_live(Regex *re, ReNode a)
{
	EmptinessSearch s = {0};
	bool		live = false;
	uint32_t	n;

	if (!re->node[a].meets || re->node[a].nullable)
		return a != RE_NONE;
	if (re->node[a].live == 0 && re->node[a].residue)
	{
		EmptinessKnown k = known(re, a, RE_ALL, KNOWN_DEPTH);

		if (k != UNKNOWN)
			re->node[a].live = k == LIVES ? 1 : 2;
	}
	if (re->node[a].live != 0)
		return re->node[a].live == 1;
	ASSERT(!re->searching);
	re_classes(re, &n);
	re->searching = true;
	search_add(re, &s, a, 0);
	while (s.n_heap > 0 && !live)
		live = search_on(re, &s);
	for (uint32_t i = 0; i < s.n; i++)
		if (re->node[s.v[i].node].live == SEEN)
			re->node[s.v[i].node].live = live || re->full ? 0 : 2;
	re->searching = false;
	mem_free(s.v);
	mem_free(s.heap);
	return live;
}
