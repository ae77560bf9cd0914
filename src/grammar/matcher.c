/*
 * matcher.c
 *	  The position of a sequence in its grammar.
 *
 * A match keeps its bytes and the state before each step.  So a rollback only looks up a state, and when
 * the grammar is rebuilt (grammar.c) the match walks its bytes again.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "grammar/matcher_internal.h"
#include "grammar/vocab_trie.h"

/* The match before a step. */
typedef struct MatcherStep
{
	uint32_t	state;
	size_t		len;
} MatcherStep;

struct GramMatch
{
	Grammar    *g;
	GramVocab  *v;
	uint32_t	epoch;			/* of state and step[].state; 0 = none */
	uint32_t	state;
	bool		ended;			/* the last step was an end token */
	Buf			bytes;
	MatcherStep *step;
	size_t		n,
				cap;
};

GramMatch *
gram_match_new(Grammar *g, GramVocab *v)
{
	GramMatch  *m = mem_zalloc(sizeof(GramMatch));

	m->g = grammar_ref(g);
	m->v = gram_vocab_ref(v);
	return m;
}

GramMatch *
gram_match_fork(const GramMatch *m)
{
	GramMatch  *r = mem_alloc(sizeof(GramMatch));

	*r = *m;
	grammar_ref(r->g);
	gram_vocab_ref(r->v);
	r->bytes = (Buf) {0};
	if (m->bytes.len > 0)
		buf_add(&r->bytes, m->bytes.data, m->bytes.len);
	r->cap = m->n;
	r->step = mem_alloc((m->n + 1) * sizeof(MatcherStep));
	if (m->n > 0)
		memcpy(r->step, m->step, m->n * sizeof(MatcherStep));
	return r;
}

void
gram_match_free(GramMatch *m)
{
	if (m == NULL)
		return;
	grammar_unref(m->g);
	gram_vocab_unref(m->v);
	buf_free(&m->bytes);
	mem_free(m->step);
	mem_free(m);
}

size_t
gram_match_steps(const GramMatch *m)
{
	return m->n;
}

/* Lock the grammar and compute the states for its epoch.  On error return false with *e set, not
 * locked. */
static bool
enter(GramMatch *m, Err *e)
{
	uint32_t	state;
	size_t		at = 0;
	bool		ok;

	pthread_mutex_lock(&m->g->lock);
	ok = grammar_begin(m->g, e);
	if (ok && m->epoch != m->g->epoch)
	{
		state = parse_start(m->g->p);
		for (size_t i = 0; ok && i < m->n; i++)
		{
			size_t		to = m->step[i].len;

			ok = grammar_walk(m->g, &state, m->bytes.data + at, to - at, e);
			m->step[i].state = state;
			at = to;
		}
		ok = ok && grammar_walk(m->g, &state, m->bytes.data + at, m->bytes.len - at, e);
		m->state = state;
		m->epoch = ok ? m->g->epoch : 0;
		if (ok)
			parse_begin(m->g->p);
	}
	if (!ok)
		pthread_mutex_unlock(&m->g->lock);
	return ok;
}

static void
leave(GramMatch *m)
{
	pthread_mutex_unlock(&m->g->lock);
}

static void
push(GramMatch *m, const char *s, size_t n, uint32_t state)
{
	if (m->n == m->cap)
	{
		m->cap = m->cap > 0 ? m->cap * 2 : 64;
		m->step = mem_realloc(m->step, m->cap * sizeof(MatcherStep));
	}
	m->step[m->n++] = (MatcherStep) {m->state, m->bytes.len};
	if (n > 0)
		buf_add(&m->bytes, s, n);
	m->state = state;
}

bool
gram_match_bytes(GramMatch *m, const char *s, size_t n, bool *ok, Err *e)
{
	uint32_t	state;
	bool		walked;

	*ok = false;
	if (m->ended)
		return true;
	if (!enter(m, e))
		return false;
	state = m->state;
	walked = grammar_walk(m->g, &state, s, n, e);
	leave(m);
	if (!walked)
		return false;
	*ok = state != PARSE_DEAD;
	if (*ok)
		push(m, s, n, state);
	return true;
}

bool
gram_match_token(GramMatch *m, int32_t id, bool *ok, Err *e)
{
	const char *s;
	size_t		n;

	*ok = false;
	if (m->ended || id < 0 || (size_t) id >= m->v->n)
		return true;
	if (m->v->end[id])
	{
		if (!enter(m, e))
			return false;
		*ok = parse_accepts(m->g->p, m->state);
		leave(m);
		if (*ok)
		{
			push(m, NULL, 0, m->state);
			m->ended = true;
		}
		return true;
	}
	s = vocab_bytes(m->v, id, &n);
	return n == 0 || gram_match_bytes(m, s, n, ok, e);
}

void
gram_match_rollback(GramMatch *m, size_t n)
{
	if (n > m->n)
		n = m->n;
	if (n == 0)
		return;
	m->n -= n;
	ASSERT(m->step[m->n].len <= m->bytes.len);
	m->state = m->step[m->n].state;
	m->bytes.len = m->step[m->n].len;
	m->ended = false;
}

bool
gram_match_mask(GramMatch *m, uint32_t *words, Err *e)
{
	bool		ok;

	memset(words, 0, gram_vocab_words(m->v) * sizeof(uint32_t));
	if (m->ended)
		return true;
	if (!enter(m, e))
		return false;
	ok = masks_fill(masks_of(m->g, m->v), m->g->p, m->state, words, e);
	if (ok && parse_accepts(m->g->p, m->state))
		for (size_t i = 0; i < m->v->n_end; i++)
			words[m->v->end_id[i] / 32] |= 1u << (m->v->end_id[i] % 32);
	leave(m);
	return ok;
}

bool
gram_match_accepting(GramMatch *m)
{
	Err			e;
	bool		r;

	if (m->ended)
		return true;
	if (!enter(m, &e))
		return false;
	r = parse_accepts(m->g->p, m->state);
	leave(m);
	return r;
}

bool
gram_match_finished(GramMatch *m)
{
	Err			e;
	bool		r;

	if (m->ended)
		return true;
	if (!enter(m, &e))
		return false;
	r = !parse_can_go_on(m->g->p, m->state);
	leave(m);
	return r;
}

bool
gram_match_forced(GramMatch *m, size_t max, Buf *out, Err *e)
{
	uint32_t	state;
	bool		ok;

	if (m->ended)
		return true;
	if (!enter(m, e))
		return false;
	state = m->state;
	for (size_t n = 0; n < max && !parse_accepts(m->g->p, state); n++)
	{
		int			b = parse_only(m->g->p, state);

		if (b < 0 || (state = parse_step(m->g->p, state, (uint8_t) b)) == PARSE_DEAD)
			break;
		buf_addc(out, (char) b);
	}
	ok = parse_check(m->g->p, e);
	leave(m);
	return ok;
}
