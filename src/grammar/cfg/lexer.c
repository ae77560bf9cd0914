/*
 * lexer.c
 *	  Match lexemes in parallel, byte by byte; see lexer.h.
 *
 * State 0 is LEX_DEAD, the empty set of pairs.  A pair whose rest is only the empty text is kept: it
 * means that the lexeme has ended here.
 */
#include "grammar/cfg/lexer.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "grammar/cfg/sequence_ids.h"

struct Lexer
{
	Regex	   *re;
	const uint8_t *cls;
	uint32_t	n_cls;
	Ids			pairs;			/* lexeme, rest, ... */
	Ids			done;			/* lexemes; 0 = none */
	LexState   *state;
	uint32_t	n,
				cap;
	uint32_t   *work;
	uint32_t	cap_work;
	size_t		tables;			/* bytes of next[] */
	bool		read_only;
};

/* Return the state of these pairs. */
static uint32_t
intern(Lexer *l, const uint32_t *pair, uint32_t n)
{
	uint32_t	i = ids_get(&l->pairs, pair, 2 * n);
	uint32_t   *done;
	uint32_t	n_done = 0;

	if (i < l->n)
		return i;
	if (l->n == l->cap)
	{
		l->cap = l->cap > 0 ? l->cap * 2 : 32;
		l->state = mem_realloc(l->state, l->cap * sizeof(LexState));
	}
	l->state[l->n] = (LexState) {.next = NULL};
	done = mem_alloc((n + 1) * sizeof(uint32_t));
	for (uint32_t k = 0; k < n; k++)
	{
		if (re_nullable(l->re, pair[2 * k + 1]))
			done[n_done++] = pair[2 * k];
		if (pair[2 * k + 1] != RE_EMPTY)
			l->state[l->n].info.more = true;
	}
	l->state[l->n++].info.done = ids_get(&l->done, done, n_done);
	mem_free(done);
	return i;
}

Lexer *
lexer_new(Regex *re)
{
	Lexer	   *l = mem_zalloc(sizeof(Lexer));

	l->re = re;
	l->cls = re_classes(re, &l->n_cls);
	ids_init(&l->pairs);
	ids_init(&l->done);
	intern(l, NULL, 0);
	return l;
}

void
lexer_free(Lexer *l)
{
	for (uint32_t i = 0; i < l->n; i++)
		mem_free(l->state[i].next);
	ids_free(&l->pairs);
	ids_free(&l->done);
	mem_free(l->state);
	mem_free(l->work);
	mem_free(l);
}

size_t
lexer_memory(const Lexer *l)
{
	return sizeof(Lexer) + ids_memory(&l->pairs) + ids_memory(&l->done) + l->cap * sizeof(LexState) +
		l->tables;
}

void
lexer_read_only(Lexer *l)
{
	l->read_only = true;
}

static uint32_t *
work(Lexer *l, uint32_t n)
{
	if (n > l->cap_work)
	{
		l->cap_work = 2 * n;
		l->work = mem_realloc(l->work, l->cap_work * sizeof(uint32_t));
	}
	return l->work;
}

uint32_t
lexer_start(Lexer *l, const ReNode *lexeme, uint32_t n)
{
	uint32_t   *w = work(l, 2 * n);

	for (uint32_t i = 0; i < n; i++)
		w[2 * i] = w[2 * i + 1] = lexeme[i];
	return intern(l, w, n);
}

static uint32_t
step(Lexer *l, uint32_t state, uint32_t cls)
{
	uint32_t	n;
	uint32_t	m = 0;
	const uint32_t *pair = ids_words(&l->pairs, state, &n);
	uint32_t   *w = work(l, n);

	for (uint32_t i = 0; i < n; i += 2)
	{
		ReNode		d = re_deriv_class(l->re, pair[i + 1], cls);

		if (d == RE_NONE || (!l->read_only && !re_live(l->re, d)))
			continue;
		w[m++] = pair[i];
		w[m++] = d;
	}
	return intern(l, w, m / 2);
}

uint32_t
lexer_step_flags(Lexer *l, uint32_t state, uint32_t cls)
{
	uint32_t	to;
	LexInfo		info;

	ASSERT(state < l->n && cls < l->n_cls);
	if (l->state[state].next == NULL)
	{
		l->state[state].next = mem_alloc(l->n_cls * sizeof(uint32_t));
		memset(l->state[state].next, 0xff, l->n_cls * sizeof(uint32_t));
		l->tables += l->n_cls * sizeof(uint32_t);
	}
	to = l->state[state].next[cls];
	if (to == LEX_UNKNOWN)
	{
		to = step(l, state, cls);
		info = l->state[to].info;
		to = to << 2 | (info.done != 0 ? LEX_DONE : 0) | (info.more ? LEX_MORE : 0);
		l->state[state].next[cls] = to;
	}
	return to;
}

uint32_t
lexer_step(Lexer *l, uint32_t state, uint32_t cls)
{
	return LEX_STATE(lexer_step_flags(l, state, cls));
}

LexInfo
lexer_info(const Lexer *l, uint32_t state)
{
	return l->state[state].info;
}

const LexState *
lexer_states(const Lexer *l, uint32_t *n)
{
	*n = l->n;
	return l->state;
}

uint32_t
lexer_n_done(const Lexer *l)
{
	return l->done.n;
}

const ReNode *
lexer_done(const Lexer *l, uint32_t done, uint32_t *n)
{
	return ids_words(&l->done, done, n);
}

uint32_t
lexer_done_number(Lexer *l, const ReNode *lexeme, uint32_t n)
{
	return ids_get(&l->done, lexeme, n);
}

const ReNode *
lexer_pairs(const Lexer *l, uint32_t state, uint32_t *n)
{
	const uint32_t *w = ids_words(&l->pairs, state, n);

	*n /= 2;
	return w;
}

Regex *
lexer_re(const Lexer *l)
{
	return l->re;
}

uint32_t
lexer_clamp(Lexer *l, uint32_t state, uint32_t k)
{
	uint32_t	n;
	const uint32_t *pair = ids_words(&l->pairs, state, &n);
	uint32_t   *w = work(l, n);

	for (uint32_t i = 0; i < n; i += 2)
	{
		w[i] = pair[i];
		w[i + 1] = re_clamp(l->re, pair[i + 1], k);
	}
	return intern(l, w, n / 2);
}

uint32_t
lexer_classes(const Lexer *l, const uint8_t **cls)
{
	*cls = l->cls;
	return l->n_cls;
}
