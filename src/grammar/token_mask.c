/*
 * token_mask.c
 *	  Compute which tokens a state allows.
 *
 * A state is a set of pairs (row of the parser, state of the lexer), and a token is allowed if one of
 * the pairs allows it.  For each pair the lexer alone walks the tries of the vocabulary and finds
 *
 *	 - the tokens that stay within the lexemes, up to their end: all are allowed without asking the
 *	   parser, as every lexeme that may come can be continued to a complete text;
 *	 - the nodes where a lexeme ends and tokens continue: only there the parser computes the row
 *	   after the lexeme, and the subtree is walked with its states.
 *
 * The result of the lexer's walk depends only on its state and is cached with it, so "inside a string"
 * is walked once in the life of a grammar.  States that differ only beyond the longest token of a slice
 * share the result (vocab_trie.h).  The masks of whole states are cached as well.
 *
 * Sets of tokens are bit masks, or lists if these are shorter.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "grammar/matcher_internal.h"
#include "grammar/shared_walks.h"

#define UNKNOWN	UINT32_MAX
#define SHORT_WALK	2000		/* nodes; the results of longer walks are shared between grammars */
#define NODE_STEPS	8			/* nodes of a trie that cost as much as a step of the parser */

typedef struct Index
{
	uint32_t   *v;				/* for each state; UNKNOWN = not made */
	uint32_t	n;
} Index;

/* The result of a walk: a list while that is shorter, else a mask. */
typedef struct Sink
{
	uint32_t   *words;			/* a mask of n_words, all 0 at first */
	uint32_t   *list;			/* room for n_words ids */
	uint32_t	n;				/* length of the list, or TOKENS_MASK */
	uint32_t	n_words;
} Sink;

/* Groups of bytes whose characters lead from a state to itself, and groups whose don't; others are
 * unknown. */
typedef struct Loops
{
	uint64_t	yes,
				no;
} Loops;

typedef struct MaskTables
{
	Found	   *found;
	uint32_t	n_found,
				cap_found;
	Index		of_lex[VOCAB_SLICES];
	Tokens	   *mask;
	uint32_t	n_masks,
				cap_masks;
	Index		of_state;
	size_t		memory;
	uint64_t	nodes;			/* walked with the lexer */

	/* buffers of the current walk */
	Sink		sink;
	uint32_t   *stack;			/* states by depth */
	Ending	   *ending;
	uint32_t	n_endings,
				cap_endings;
	uint32_t   *after;			/* by the number of the set of lexemes that have ended: the state after
								 * them */
	uint64_t   *first;			/* bytes that may follow in that state, folded to 64 bits */
	uint32_t	cap_after;
	Loops	   *loops;			/* by state of the lexer */
	uint32_t	cap_loops;
	uint8_t		member[256];	/* bytes by group */
	uint16_t	group[65];		/* index in member[] where each group begins */
} MaskTables;

/* ---- sets of tokens ---- */

static Tokens
tokens_keep(MaskTables *t, const uint32_t *words, size_t n_words)
{
	Tokens		r = {NULL, 0};
	size_t		n = 0;

	for (size_t i = 0; i < n_words && n < n_words; i++)
		if (words[i] != 0)
			n += (size_t) __builtin_popcount(words[i]);
	if (n >= n_words)
	{
		r.v = mem_alloc(n_words * sizeof(uint32_t));
		memcpy(r.v, words, n_words * sizeof(uint32_t));
		r.n = TOKENS_MASK;
		t->memory += n_words * sizeof(uint32_t);
		return r;
	}
	r.v = mem_alloc((n + 1) * sizeof(uint32_t));
	t->memory += n * sizeof(uint32_t);
	for (size_t i = 0; i < n_words; i++)
		for (uint32_t w = words[i]; w != 0; w &= w - 1)
			r.v[r.n++] = (uint32_t) (32 * i) + (uint32_t) __builtin_ctz(w);
	return r;
}

static void
tokens_or(const Tokens *t, uint32_t *words, size_t n_words)
{
	if (t->n == TOKENS_MASK)
		for (size_t i = 0; i < n_words; i++)
			words[i] |= t->v[i];
	else
		for (uint32_t i = 0; i < t->n; i++)
			words[t->v[i] / 32] |= 1u << (t->v[i] % 32);
}

/* Add the tokens of nodes from .. to - 1. */
static inline void
put(const VocabTrie *trie, uint32_t *words, uint32_t from, uint32_t to)
{
	for (uint32_t k = trie->node[from].first; k < trie->node[to].first; k++)
		words[trie->id[k] / 32] |= 1u << (trie->id[k] % 32);
}

static inline void
sink(Sink *s, const VocabTrie *trie, uint32_t from, uint32_t to)
{
	uint32_t	k = trie->node[from].first;
	uint32_t	end = trie->node[to].first;

	if (s->n != TOKENS_MASK)
	{
		if (end - k < s->n_words - s->n)
		{
			for (; k < end; k++)
				s->list[s->n++] = (uint32_t) trie->id[k];
			return;
		}
		for (uint32_t i = 0; i < s->n; i++)
			s->words[s->list[i] / 32] |= 1u << (s->list[i] % 32);
		s->n = TOKENS_MASK;
	}
	put(trie, s->words, from, to);
}

static void
sink_clear(Sink *s)
{
	if (s->n == TOKENS_MASK)
		memset(s->words, 0, s->n_words * sizeof(uint32_t));
	s->n = 0;
}

/* Return what has been found and empty the sink. */
static Tokens
sink_take(MaskTables *t, Sink *s)
{
	uint32_t	n = s->n == TOKENS_MASK ? s->n_words : s->n;
	Tokens		r = {mem_alloc((n + 1) * sizeof(uint32_t)), s->n};

	memcpy(r.v, s->n == TOKENS_MASK ? s->words : s->list, n * sizeof(uint32_t));
	t->memory += n * sizeof(uint32_t);
	sink_clear(s);
	return r;
}

static uint32_t *
index_at(MaskTables *t, Index *x, uint32_t i)
{
	if (i >= x->n)
	{
		uint32_t	n = x->n;

		x->n = i + i / 2 + 64;
		x->v = mem_realloc(x->v, x->n * sizeof(uint32_t));
		memset(x->v + n, 0xff, (x->n - n) * sizeof(uint32_t));
		t->memory += (x->n - n) * sizeof(uint32_t);
	}
	return &x->v[i];
}

/* ---- the lexer's part ---- */

static void
ending_push(MaskTables *t, uint32_t node, uint32_t done, bool all)
{
	if (t->n_endings == t->cap_endings)
	{
		t->cap_endings = t->cap_endings > 0 ? t->cap_endings * 2 : 256;
		t->ending = mem_realloc(t->ending, t->cap_endings * sizeof(Ending));
	}
	t->ending[t->n_endings++] = (Ending) {node, done, all};
}

/* Return true if all characters that continue with a byte lo .. hi and then n more bytes end in state
 * `end`. */
static bool
ends_in(Lexer *lexer, const uint8_t *cls, uint32_t state, uint8_t lo, uint8_t hi, int n, uint32_t end)
{
	uint32_t	last = LEX_DEAD;

	for (uint32_t b = lo; b <= hi; b++)
	{
		uint32_t	to = lexer_step(lexer, state, cls[b]);

		if (to == last && n > 0)
			continue;
		if (n > 0 ? to == LEX_DEAD || !ends_in(lexer, cls, to, 0x80, 0xBF, n - 1, end) : to != end)
			return false;
		last = to;
	}
	return true;
}

static bool
group_loops(const MaskTables *t, Lexer *lexer, uint32_t state, uint32_t group)
{
	const uint8_t *cls;

	lexer_classes(lexer, &cls);
	for (uint32_t i = t->group[group]; i < t->group[group + 1]; i++)
	{
		uint8_t		b = t->member[i];
		uint32_t	to = lexer_step(lexer, state, cls[b]);
		uint8_t		lo;
		uint8_t		hi;
		int			n = vocab_utf8(b, &lo, &hi);

		if (n == 0 ? to != state : to == LEX_DEAD || !ends_in(lexer, cls, to, lo, hi, n - 1, state))
			return false;
	}
	return true;
}

/* Return true if all characters of the groups lead from a state to itself.  Tests the group `first`
 * first. */
static bool
loops(MaskTables *t, Lexer *lexer, uint32_t state, uint64_t groups, uint32_t first)
{
	Loops	   *l;

	if (state >= t->cap_loops)
	{
		uint32_t	n = t->cap_loops;

		t->cap_loops = state + state / 2 + 64;
		t->loops = mem_realloc(t->loops, t->cap_loops * sizeof(Loops));
		memset(t->loops + n, 0, (t->cap_loops - n) * sizeof(Loops));
		t->memory += (t->cap_loops - n) * sizeof(Loops);
	}
	l = &t->loops[state];
	l->no |= (uint64_t) 1 << 63;
	while ((groups & ~l->yes) != 0)
	{
		uint64_t	unknown = groups & ~l->yes;
		uint32_t	g = unknown >> first & 1 ? first : (uint32_t) __builtin_ctzll(unknown);

		if ((unknown & l->no) != 0)
			return false;
		if (group_loops(t, lexer, state, g))
			l->yes |= (uint64_t) 1 << g;
		else
			l->no |= (uint64_t) 1 << g;
	}
	return true;
}

/*
 * Walk a trie with the lexer from node i on, which is 1 at first, for at most `steps` nodes.  Tokens go
 * to t->sink, endings to t->ending.  Return the node at which to continue.
 */
static uint32_t
walk_lexer(MaskTables *t, const VocabTrie *trie, Lexer *lexer, uint32_t i, uint32_t steps)
{
	const uint8_t *cls;
	uint32_t	n_states;
	uint32_t	n = 0;
	const LexState *states = lexer_states(lexer, &n_states);

	lexer_classes(lexer, &cls);
	for (; i < trie->n && n < steps; n++)
	{
		const VocabNode *x = &trie->node[i];
		uint32_t	from = t->stack[x->depth - 1];
		const uint32_t *next = states[from].next;
		uint32_t	to = next != NULL ? next[cls[x->byte]] : LEX_UNKNOWN;

		ASSERT(from < n_states && x->skip >= 1);
		if (to == LEX_UNKNOWN)
		{
			to = lexer_step_flags(lexer, from, cls[x->byte]);
			states = lexer_states(lexer, &n_states);
		}
		if (LEX_STATE(to) == LEX_DEAD)
		{
			i += x->skip;
			continue;
		}
		/* whatever characters follow from here on, the lexer stays in the state before */
		if (x->skip > 1 && (LEX_STATE(to) == from || x->open > 0))
		{
			bool		all = loops(t, lexer, from, trie->whole[i], vocab_group(x->byte));

			states = lexer_states(lexer, &n_states);
			if (all)
			{
				sink(&t->sink, trie, i, i + x->skip);
				if (states[from].info.done != 0)
					ending_push(t, i, states[from].info.done, true);
				i += x->skip;
				continue;
			}
		}
		sink(&t->sink, trie, i, i + 1);
		if ((to & LEX_DONE) && x->skip > 1)
			ending_push(t, i, states[LEX_STATE(to)].info.done, false);
		t->stack[x->depth] = LEX_STATE(to);
		i += to & LEX_MORE ? 1 : x->skip;
	}
	t->nodes += n;
	return i;
}

/* Return the result of the lexer's walk from a state; for long walks try the shared results first. */
static Found
find_in(MaskTables *t, GramVocab *v, uint32_t slice, Lexer *lexer, uint32_t state)
{
	const VocabTrie *trie = &v->slice[slice];
	SharedKey	key = {.n = 0};
	bool		share = false;
	Found		f = {.n = 0};
	uint32_t	i;

	t->n_endings = 0;
	t->stack[0] = state;
	i = walk_lexer(t, trie, lexer, 1, trie->n / 8 < SHORT_WALK ? trie->n / 8 : SHORT_WALK);
	if (i < trie->n)
	{
		share = shared_key(lexer, slice, state, &key);
		if (share && shared_find(v, &key, lexer, &f))
		{
			t->memory += f.n * sizeof(Ending);
			sink_clear(&t->sink);
			buf_free(&key.text);
			return f;
		}
		walk_lexer(t, trie, lexer, i, UINT32_MAX);
	}
	f.tokens = sink_take(t, &t->sink);
	f.n = t->n_endings;
	f.ending = mem_alloc((f.n + 1) * sizeof(Ending));
	if (f.n > 0)
		memcpy(f.ending, t->ending, f.n * sizeof(Ending));
	t->memory += sizeof(Found) + f.n * sizeof(Ending);
	if (share && re_check(lexer_re(lexer), &(Err) {0}))
		shared_keep(v, &key, lexer, &f);
	buf_free(&key.text);
	return f;
}

static const Found *
find(MaskTables *t, GramVocab *v, uint32_t slice, Lexer *lexer, uint32_t lex)
{
	uint32_t	clamped;
	uint32_t	at = *index_at(t, &t->of_lex[slice], lex);

	if (at != UNKNOWN)
		return &t->found[at];
	clamped = lexer_clamp(lexer, lex, v->slice[slice].max_len);
	at = *index_at(t, &t->of_lex[slice], clamped);
	if (at == UNKNOWN)
	{
		if (t->n_found == t->cap_found)
		{
			t->cap_found = t->cap_found > 0 ? t->cap_found * 2 : 32;
			t->found = mem_realloc(t->found, t->cap_found * sizeof(Found));
		}
		t->found[t->n_found] = find_in(t, v, slice, lexer, clamped);
		at = t->n_found++;
		*index_at(t, &t->of_lex[slice], clamped) = at;
	}
	*index_at(t, &t->of_lex[slice], lex) = at;
	return &t->found[at];
}

/* ---- the parser's part ---- */

/* Walk the subtree of a node with the parser, which is at `state` there. */
static void
walk_parser(MaskTables *t, const VocabTrie *trie, uint32_t node, Parse *p, uint32_t state, uint32_t *words)
{
	uint32_t	end = node + trie->node[node].skip;
	uint32_t	n = 0;

	t->stack[trie->node[node].depth] = state;
	for (uint32_t i = node + 1; i < end;)
	{
		const VocabNode *x = &trie->node[i];
		uint32_t	to = parse_step(p, t->stack[x->depth - 1], x->byte);

		if (to == PARSE_DEAD)
		{
			i += x->skip;
			continue;
		}
		put(trie, words, i, i + 1);
		t->stack[x->depth] = to;
		i++;
		n++;
	}
	parse_count(p, 1 + n / NODE_STEPS);
}

/* Reset the cache of states after each set of lexemes. */
static void
after_reset(MaskTables *t, uint32_t n)
{
	if (n > t->cap_after)
	{
		t->cap_after = n + n / 2 + 16;
		t->after = mem_realloc(t->after, t->cap_after * sizeof(uint32_t));
		t->first = mem_realloc(t->first, t->cap_after * sizeof(uint64_t));
	}
	memset(t->after, 0xff, n * sizeof(uint32_t));
}

static void
pair_tokens(MaskTables *t, GramVocab *v, Parse *p, ParsePair pair, uint32_t *words)
{
	size_t		n_words = gram_vocab_words(v);
	uint64_t	nodes = t->nodes;

	for (uint32_t s = 0; s < VOCAB_SLICES; s++)
	{
		const Found *f = find(t, v, s, parse_lexer(p), pair.lex);
		const VocabTrie *trie = &v->slice[s];

		tokens_or(&f->tokens, words, n_words);
		parse_count(p, 1 + (n_words + t->nodes - nodes) / NODE_STEPS);
		nodes = t->nodes;
		if (f->n > 0)
			after_reset(t, lexer_n_done(parse_lexer(p)));
		for (uint32_t i = 0; i < f->n && parse_check(p, &(Err) {0}); i++)
		{
			uint32_t	done = f->ending[i].done;
			uint32_t	node = f->ending[i].node;

			if (t->after[done] == UNKNOWN)
			{
				uint32_t	set[8];

				t->after[done] = parse_after(p, pair.row, done);
				parse_first(p, t->after[done], set);
				t->first[done] = 0;
				for (int k = 0; k < 8; k += 2)
					t->first[done] |= set[k] | (uint64_t) set[k + 1] << 32;
			}
			if (t->first[done] == 0)
				continue;
			for (uint32_t k = node; k < node + (f->ending[i].all ? trie->node[node].skip : 1); k++)
				if (t->first[done] & trie->sig[k] && (!f->ending[i].all || trie->node[k].open == 0))
					walk_parser(t, trie, k, p, t->after[done], words);
		}
	}
}

static void
groups_make(MaskTables *t)
{
	uint16_t	n = 0;

	for (uint32_t g = 0; g < 64; g++)
	{
		t->group[g] = n;
		for (uint32_t b = 0; b < 256; b++)
			if (vocab_group((uint8_t) b) == g)
				t->member[n++] = (uint8_t) b;
	}
	t->group[64] = n;
}

bool
masks_fill(GramMasks *m, Parse *p, uint32_t state, uint32_t *words, Err *e)
{
	MaskTables *t = m->t;
	GramVocab  *v = m->v;
	size_t		n_words = gram_vocab_words(v);
	uint32_t	n;
	ParsePair  *pair;
	uint32_t	at;

	if (t == NULL)
	{
		uint32_t	longest = 0;

		t = m->t = mem_zalloc(sizeof(MaskTables));
		t->sink = (Sink) {mem_zalloc((n_words + 1) * sizeof(uint32_t)),
						  mem_alloc((n_words + 1) * sizeof(uint32_t)), 0, (uint32_t) n_words};
		for (int s = 0; s < VOCAB_SLICES; s++)
			longest = v->slice[s].max_len > longest ? v->slice[s].max_len : longest;
		t->stack = mem_alloc((longest + 1) * sizeof(uint32_t));
		groups_make(t);
	}
	memset(words, 0, n_words * sizeof(uint32_t));
	at = *index_at(t, &t->of_state, state);
	if (at != UNKNOWN)
	{
		tokens_or(&t->mask[at], words, n_words);
		return true;
	}
	/* a copy, as walks make states, which moves the pairs */
	parse_pairs(p, state, &n);
	pair = mem_alloc((n + 1) * sizeof(ParsePair));
	if (n > 0)
		memcpy(pair, parse_pairs(p, state, &n), n * sizeof(ParsePair));
	for (uint32_t i = 0; i < n && parse_check(p, e); i++)
		pair_tokens(t, v, p, pair[i], words);
	mem_free(pair);
	if (!parse_check(p, e))
	{
		masks_forget(m);
		return false;
	}
	if (t->n_masks == t->cap_masks)
	{
		t->cap_masks = t->cap_masks > 0 ? t->cap_masks * 2 : 32;
		t->mask = mem_realloc(t->mask, t->cap_masks * sizeof(Tokens));
	}
	t->mask[t->n_masks] = tokens_keep(t, words, n_words);
	*index_at(t, &t->of_state, state) = t->n_masks++;
	return true;
}

/* ---- tables ---- */

GramMasks *
masks_of(Grammar *g, GramVocab *v)
{
	GramMasks  *m;

	for (m = g->masks; m != NULL; m = m->next)
		if (m->v == v)
			return m;
	m = mem_zalloc(sizeof(GramMasks));
	m->v = gram_vocab_ref(v);
	m->next = g->masks;
	g->masks = m;
	return m;
}

void
masks_forget(GramMasks *m)
{
	MaskTables *t = m->t;

	if (t == NULL)
		return;
	for (uint32_t i = 0; i < t->n_found; i++)
	{
		if (!t->found[i].shared)
			mem_free(t->found[i].tokens.v);
		mem_free(t->found[i].ending);
	}
	for (uint32_t i = 0; i < t->n_masks; i++)
		mem_free(t->mask[i].v);
	for (int s = 0; s < VOCAB_SLICES; s++)
		mem_free(t->of_lex[s].v);
	mem_free(t->of_state.v);
	mem_free(t->found);
	mem_free(t->mask);
	mem_free(t->sink.words);
	mem_free(t->sink.list);
	mem_free(t->stack);
	mem_free(t->ending);
	mem_free(t->after);
	mem_free(t->first);
	mem_free(t->loops);
	mem_free(t);
	m->t = NULL;
}

void
masks_free(GramMasks *m)
{
	masks_forget(m);
	gram_vocab_unref(m->v);
	mem_free(m);
}

size_t
masks_memory(const GramMasks *m)
{
	return sizeof(GramMasks) + (m->t != NULL ? m->t->memory + sizeof(MaskTables) : 0);
}
