/*
 * suffix.c
 *	  Drafts from suffixes: tokens that followed, in this or in other outputs, after the same last tokens
 *	  (docs/user/speculative-decoding.md; after SuffixDecoding, Oliaro et al. 2024, arXiv:2411.04975).
 *
 * There are two histories: the request's own tokens, and recent outputs of the model for requests that
 * share computed blocks (the same owner and cache_salt, so that no client can learn from response times
 * what others were sent).  A column of similar rows is the ideal case: therefore an output is added to
 * the second history in pieces while it grows, each with the end of the preceding tokens, and rows in
 * flight help each other.
 *
 * Conceptually the search uses the trie of all suffixes: the places where the last L tokens have
 * occurred before are the node of depth L, the tokens after them are its children, and a child's share
 * of the places is its probability.  Instead of a trie there are hash chains of places, for L = 1, 3 and
 * 8, the latest first, of which the latest CANDS are examined.  From a node the most frequent child is
 * taken as long as the product of shares is at least min_prob, up to max_factor * L drafts, and up to
 * `depth` tokens including the L ones.  Among all L and both histories, the path with the greatest sum
 * of products wins: the sum is the expected number of accepted drafts.
 *
 * Memory: 24 bytes for each token of a running request, up to twice that while it grows; for outputs a
 * ring of RING tokens of constant size: the oldest are forgotten, and so are those of more than
 * max_cached requests ago.  Adding a token costs O(1), making drafts O(CANDS * depth).
 *
 * Owner: the step thread.  Tested by tests/unit/core/spec/test_spec_propose.c against counting places.
 */
#include "core/spec/spec.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/rng.h"

#define RING		(1u << 18)	/* tokens of outputs */
#define PIECES		(1u << 14)	/* pieces that the tokens are divided into */
#define PIECE		32			/* tokens of an output that are added at once */
#define FIRST_CAP	256
#define ORDERS		3
#define CANDS		32			/* places that are examined */
#define TRIES		128			/* candidates of the same hash that are compared */
#define DEPTH_MOST	64
#define NOWHERE		UINT32_MAX

static const int orders[ORDERS] = {8, 3, 1};

/*
 * Places are indexes of tokens since the beginning, modulo 2^32.  A chain has the places after an
 * n-gram: the token at a place is what followed.
 */
typedef struct TokenHistory
{
	const int32_t *tokens;		/* [cap], a ring */
	uint32_t	cap;			/* a power of two */
	uint32_t	n;				/* number of tokens so far; the last cap of them are kept */
	uint32_t   *head[ORDERS];	/* [cap] by hash: the latest place + 1; 0 = none */
	uint32_t   *prev[ORDERS];	/* [cap] the place before in the chain + 1 */
} TokenHistory;

/* A part of an output, preceded by some earlier tokens. */
typedef struct SuffixPiece
{
	uint32_t	no;
	uint32_t	from;			/* its first token, including the preceding tokens */
	uint32_t	to;
	uint32_t	next;			/* where the output continues; NOWHERE = nowhere yet */
	uint64_t	root;			/* root of the request: only requests with the same root may use it */
	uint64_t	request;
} SuffixPiece;

/* State of a request. */
typedef struct Own
{
	TokenHistory h;
	int			from;			/* first token that counts */
	uint64_t	root;
	uint64_t	request;		/* 0 = nothing of it is in the history of outputs */
	int			saved;			/* tokens that are in the history */
	uint32_t	last;			/* number of its last piece */
} Own;

typedef struct SuffixProposer
{
	int			depth;
	uint64_t	max_cached;
	double		max_factor;
	double		min_prob;
	uint64_t	seed;
	Prefix	   *roots;			/* only for prefix_root() */
	/* history of outputs; not allocated if max_cached is 0 */
	TokenHistory h;
	int32_t    *tokens;			/* [RING], the tokens of h */
	uint32_t   *piece;			/* [RING] piece of each token */
	SuffixPiece *pieces;			/* [PIECES], a ring */
	uint32_t	n_pieces;
	uint64_t	n_requests;
} SuffixProposer;

/* A history in which to search. */
typedef struct SuffixWhere
{
	const SuffixProposer *p;
	const TokenHistory *h;
	bool		answers;		/* the history of outputs, not the request's own */
	uint64_t	root;
	const int32_t *last;		/* end of the request's tokens */
	int			n_last;			/* number of tokens before it that may be compared */
} SuffixWhere;

typedef struct SuffixCand
{
	uint32_t	at;
	int			same;			/* tokens before it that equal the last ones */
} SuffixCand;

typedef struct Path
{
	int32_t		ids[SPEC_MAX_DRAFTS];
	int			n;
	int			same;			/* depth of the node where it begins */
	double		score;
} Path;

/* ---- histories ---- */

static void
hist_free(TokenHistory *h)
{
	for (int i = 0; i < ORDERS; i++)
	{
		mem_free(h->head[i]);
		mem_free(h->prev[i]);
	}
}

static void
hist_alloc(TokenHistory *h, uint32_t cap)
{
	h->cap = cap;
	for (int i = 0; i < ORDERS; i++)
	{
		h->head[i] = mem_zalloc((size_t) cap * sizeof(uint32_t));
		h->prev[i] = mem_zalloc((size_t) cap * sizeof(uint32_t));
	}
}

static uint32_t
hash_step(uint64_t *h, int32_t id)
{
	*h = (*h ^ (uint32_t) id) * UINT64_C(0x9E3779B97F4A7C15);
	*h ^= *h >> 29;
	return (uint32_t) (*h >> 32);
}

/* Return true if the token at this place is still kept. */
static bool
is_here(const TokenHistory *h, uint32_t at)
{
	return h->n - at <= h->cap && h->n != at;
}

/* Add the place after n-grams to their chains; n = number of tokens before it. */
static void
hist_note(const SuffixProposer *p, TokenHistory *h, uint64_t root, uint32_t at, uint32_t n)
{
	uint32_t	mask = h->cap - 1;

	/* a power of two: the mask gives valid indexes */
	ALWAYS(h->cap > 0 && (h->cap & mask) == 0);
	for (int i = 0; i < ORDERS; i++)
	{
		uint64_t	hash = p->seed ^ root;
		uint32_t	slot = 0;

		if (n < (uint32_t) orders[i])
			continue;
		for (int k = 1; k <= orders[i]; k++)
			slot = hash_step(&hash, h->tokens[(at - (uint32_t) k) & mask]);
		h->prev[i][at & mask] = h->head[i][slot & mask];
		h->head[i][slot & mask] = at + 1;
	}
}

/* ---- a request's own tokens ---- */

static Own *
own_of(const SuffixProposer *p, Req *r)
{
	Own		   *o = r->spec->own;
	const char *salt = r->in.params.cache_salt;

	if (o != NULL)
		return o;
	r->spec->own = o = mem_zalloc(sizeof(*o));
	/* rows of embeddings have no token ids */
	o->from = r->in.embeds != NULL ? r->in.n_prompt : 0;
	o->saved = r->in.n_prompt;
	o->root = prefix_root(p->roots, r->in.owner, salt, salt != NULL ? strlen(salt) : 0);
	return o;
}

/* Add the places after which a token has been appended. */
static void
own_catch_up(const SuffixProposer *p, Own *o, const Req *r)
{
	uint32_t	len = (uint32_t) r->tokens.len - (uint32_t) o->from;
	uint32_t	from = o->h.n;

	if (len > o->h.cap)
	{
		uint32_t	cap = FIRST_CAP;

		while (cap < len)
			cap *= 2;
		hist_free(&o->h);
		hist_alloc(&o->h, cap);
		from = 0;
	}
	o->h.tokens = r->tokens.data + o->from;
	o->h.n = len;
	for (uint32_t at = from; at < len; at++)
		hist_note(p, &o->h, 0, at, at);
}

/* ---- history of outputs ---- */

static SuffixPiece *
piece_by_no(const SuffixProposer *p, uint32_t no)
{
	SuffixPiece *x = &p->pieces[no % PIECES];

	return no != 0 && x->no == no ? x : NULL;
}

/* Add tokens o->saved .. upto of r's output as a piece, with the last tokens before them. */
static void
save_piece(SuffixProposer *p, Own *o, const Req *r, int upto)
{
	int			before = o->saved - o->from < p->depth ? o->saved - o->from : p->depth;
	uint32_t	mask = RING - 1;
	uint32_t	from = p->h.n;
	SuffixPiece *was;
	SuffixPiece *x;

	if (o->request == 0)
		o->request = ++p->n_requests;
	if (++p->n_pieces == 0)
		p->n_pieces = 1;
	was = piece_by_no(p, o->last);
	x = &p->pieces[p->n_pieces % PIECES];
	if (was != NULL)
		was->next = from + (uint32_t) before;
	*x = (SuffixPiece) {
		.no = p->n_pieces, .from = from, .to = from + (uint32_t) (before + upto - o->saved), .next = NOWHERE,
		.root = o->root, .request = o->request
	};
	for (int i = o->saved - before; i < upto; i++, p->h.n++)
	{
		p->tokens[p->h.n & mask] = r->tokens.data[i];
		p->piece[p->h.n & mask] = x->no;
	}
	for (uint32_t at = from + (uint32_t) before; at != x->to; at++)
		hist_note(p, &p->h, o->root, at, at - from);
	o->last = x->no;
	o->saved = upto;
}

/* Return the piece of a place whose token this root may see; NULL = it may not. */
static const SuffixPiece *
piece_of(const SuffixProposer *p, uint32_t at, uint64_t root)
{
	const SuffixPiece *x;

	if (!is_here(&p->h, at))
		return NULL;
	x = piece_by_no(p, p->piece[at & (RING - 1)]);
	return x != NULL && x->root == root && p->n_requests - x->request < p->max_cached ? x : NULL;
}

/* ---- the search ---- */

/* Return how many tokens before this place equal the last ones. */
static int
same_before(const SuffixWhere *w, uint32_t at, uint32_t room)
{
	uint32_t	mask = w->h->cap - 1;
	int			most = w->n_last < w->p->depth - 1 ? w->n_last : w->p->depth - 1;
	int			n = 0;

	if (room < (uint32_t) most)
		most = (int) room;
	while (n < most && w->h->tokens[(at - 1 - (uint32_t) n) & mask] == w->last[-1 - n])
		n++;
	return n;
}

/* Find the latest places after the last orders[order] tokens. */
static int
find_cands(const SuffixWhere *w, int order, SuffixCand *c)
{
	const TokenHistory *h = w->h;
	uint32_t	mask = h->cap - 1;
	uint64_t	hash = w->p->seed ^ w->root;
	uint32_t	at = 0;
	int			n = 0;

	if (w->n_last < orders[order] || h->cap == 0)
		return 0;
	for (int k = 1; k <= orders[order]; k++)
		at = hash_step(&hash, w->last[-k]);
	at = h->head[order][at & mask];
	for (int i = 0; i < TRIES && n < CANDS && at != 0; i++)
	{
		uint32_t	room = at - 1;	/* number of tokens before it */

		at--;
		if (!is_here(h, at))
			break;
		if (w->answers)
		{
			const SuffixPiece *x = piece_of(w->p, at, w->root);

			room = x != NULL ? at - x->from : 0;
			if (h->cap - (h->n - at) < room)
				room = h->cap - (h->n - at);
		}
		c[n] = (SuffixCand) {at, same_before(w, at, room)};
		n += c[n].same >= orders[order];
		at = h->prev[order][at & mask];
	}
	return n;
}

/* Return the next place; NOWHERE = nothing has followed. */
static uint32_t
place_after(const SuffixWhere *w, uint32_t at)
{
	const SuffixPiece *x;

	if (!w->answers)
		return at + 1 < w->h->n ? at + 1 : NOWHERE;
	x = piece_of(w->p, at, w->root);
	if (x == NULL)
		return NOWHERE;
	if (at + 1 != x->to)
		return at + 1;
	return x->next != NOWHERE && piece_of(w->p, x->next, w->root) != NULL ? x->next : NOWHERE;
}

/* Return the most frequent token of n places, of equal ones the latest; *count = its frequency. */
static int32_t
most_frequent(const TokenHistory *h, const uint32_t *at, int n, int *count)
{
	uint32_t	mask = h->cap - 1;
	int32_t		best = 0;

	*count = 0;
	for (int i = 0; i < n; i++)
	{
		int32_t		id = h->tokens[at[i] & mask];
		int			k = 0;

		for (int j = i; j < n && n - i > *count; j++)
			k += h->tokens[at[j] & mask] == id;
		if (k > *count)
		{
			*count = k;
			best = id;
		}
	}
	return best;
}

/* Follow the path from the n places, with at most `most` tokens. */
static void
walk(const SuffixWhere *w, uint32_t *at, int n, int most, Path *out)
{
	uint32_t	mask = w->h->cap - 1;
	double		prob = 1;

	out->n = 0;
	out->score = 0;
	while (out->n < most && n > 0)
	{
		int			count;
		int			m = 0;
		int32_t		id = most_frequent(w->h, at, n, &count);

		prob *= (double) count / n;
		if (prob < w->p->min_prob)
			break;
		out->score += prob;
		out->ids[out->n++] = id;
		for (int i = 0; i < n; i++)
		{
			uint32_t	next = w->h->tokens[at[i] & mask] == id ? place_after(w, at[i]) : NOWHERE;

			if (next != NOWHERE)
				at[m++] = next;
		}
		n = m;
	}
}

/* Return how many drafts may follow after `same` matching tokens. */
static int
most_after(const SuffixProposer *p, int same, int most)
{
	double		n = p->max_factor * same;

	if (p->depth - same < most)
		most = p->depth - same;
	return n < most ? (int) n : most;
}

/* Try each depth of the trie at which the set of places changes, from the deepest on. */
static void
try_depths(const SuffixWhere *w, const SuffixCand *c, int n, int least, int most, Path *best)
{
	uint32_t	at[CANDS];
	int			deepest = w->p->depth - 1;

	while (deepest >= least)
	{
		int			m = 0;
		int			same = 0;	/* depth of the node: the least of its places */
		int			next = least - 1;
		int			room = 0;
		Path		path;

		for (int i = 0; i < n; i++)
			if (c[i].same >= deepest)
				at[m++] = c[i].at;
			else if (c[i].same > next)
				next = c[i].same;
		/* all depths down to that of the next place have this set */
		for (int d = deepest; m > 0 && d > next; d--)
			if (most_after(w->p, d, most) >= room)
			{
				room = most_after(w->p, d, most);
				same = d;
			}
		if (same > 0 && room > 0)
		{
			path.same = same;
			walk(w, at, m, room, &path);
			if (path.score > best->score)
				*best = path;
		}
		deepest = next;
	}
}

static void
search(const SuffixWhere *w, int most, Path *best)
{
	SuffixCand	c[CANDS];

	for (int i = 0; i < ORDERS; i++)
	{
		int			n = find_cands(w, i, c);

		if (n > 0)
			try_depths(w, c, n, orders[i], most, best);
	}
}

static void
propose_one(SuffixProposer *p, Req *r, int most)
{
	Own		   *o = own_of(p, r);
	int			len = (int) r->tokens.len;
	SuffixWhere	w = {.p = p, .last = r->tokens.data + len, .n_last = len - o->from};
	Path		best = {.n = 0};

	own_catch_up(p, o, r);
	while (p->max_cached > 0 && len - o->saved >= PIECE)
		save_piece(p, o, r, o->saved + PIECE);
	w.h = &o->h;
	search(&w, most, &best);
	if (p->max_cached > 0)
	{
		w.h = &p->h;
		w.answers = true;
		w.root = o->root;
		search(&w, most, &best);
	}
	r->spec->grade = spec_grade(best.same);
	intvec_add(&r->spec->drafts, best.ids, (size_t) best.n);
}

static void
suffix_propose(void *p, DraftRequest *reqs, int n)
{
	for (int i = 0; i < n; i++)
		propose_one(p, reqs[i].r, reqs[i].most);
}

/* ---- end ---- */

static void
suffix_forget(void *self, Req *r)
{
	SuffixProposer *p = self;
	Own		   *o = r->spec->own;

	if (o == NULL)
		return;
	while (p->max_cached > 0 && o->saved < (int) r->tokens.len)
		save_piece(p, o, r, o->saved + PIECE < (int) r->tokens.len ? o->saved + PIECE : (int) r->tokens.len);
	hist_free(&o->h);
	mem_free(o);
	r->spec->own = NULL;
}

static void
suffix_close(void *self)
{
	SuffixProposer *p = self;

	hist_free(&p->h);
	mem_free(p->tokens);
	mem_free(p->piece);
	mem_free(p->pieces);
	prefix_free(p->roots);
	mem_free(p);
}

static size_t
suffix_memory(const void *self)
{
	const SuffixProposer *p = self;

	return p->max_cached == 0 ? 0 :
		RING * (2 * ORDERS * sizeof(uint32_t) + sizeof(int32_t) + sizeof(uint32_t)) +
		PIECES * sizeof(SuffixPiece);
}

static bool
suffix_open(const SpecEnv *env, void **out, Err *e)
{
	SuffixProposer *p = mem_zalloc(sizeof(*p));

	(void) e;
	p->depth = env->conf->depth;
	p->max_cached = (uint64_t) env->conf->max_cached;
	p->max_factor = env->conf->max_factor;
	p->min_prob = env->conf->min_prob;
	p->seed = rng_seed();
	p->roots = prefix_new(2, 16);
	if (p->max_cached > 0)
	{
		hist_alloc(&p->h, RING);
		p->tokens = mem_zalloc(RING * sizeof(int32_t));
		p->piece = mem_zalloc(RING * sizeof(uint32_t));
		p->pieces = mem_zalloc(PIECES * sizeof(SuffixPiece));
		p->h.tokens = p->tokens;
	}
	*out = p;
	return true;
}

const ProposerType proposer_suffix = {
	.name = "suffix", .open = suffix_open, .close = suffix_close, .propose = suffix_propose,
	.forget = suffix_forget, .memory = suffix_memory
};
