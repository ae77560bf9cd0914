/*
 * pooled_util.h
 *	  Helpers for tests of pooling requests: their specs, and results as their owner received them.
 */
#ifndef VLLM_TESTS_UNIT_CORE_POOLED_UTIL_H
#define VLLM_TESTS_UNIT_CORE_POOLED_UTIL_H

#include <limits.h>

#include "tests/unit/check.h"
#include "tests/unit/core_util.h"

typedef struct PooledRec
{
	ReqFinish	finish;
	Err			err;
	int			events;
	int			n_rows;
	int			width;
	int			n_values;
	float	   *values;
	int32_t    *counts;			/* PT_LOGPROBS: [n_rows] */
	int32_t    *greedy;
	int			prompt_tokens;
	int			preemptions;
} PooledRec;

static inline void
pooled_sink(void *ctx, Req *r, const ReqEvent *ev)
{
	PooledRec  *rec = ctx;
	size_t		rows = (size_t) ev->n_rows;

	(void) r;
	rec->events++;
	rec->finish = ev->finish;
	rec->n_rows = ev->n_rows;
	rec->width = ev->width;
	rec->prompt_tokens = ev->prompt_tokens;
	rec->preemptions = ev->preemptions;
	rec->n_values = ev->n_rows * ev->width;
	if (ev->err != NULL)
		rec->err = *ev->err;
	if (ev->counts != NULL)
	{
		rec->counts = mem_alloc(rows * sizeof(int32_t));
		rec->greedy = mem_alloc(rows * sizeof(int32_t));
		memcpy(rec->counts, ev->counts, rows * sizeof(int32_t));
		memcpy(rec->greedy, ev->greedy, rows * sizeof(int32_t));
		rec->n_values = 0;
		for (size_t i = 0; i < rows; i++)
			rec->n_values += rec->counts[i];
	}
	if (rec->n_values > 0)
	{
		rec->values = mem_alloc((size_t) rec->n_values * sizeof(float));
		memcpy(rec->values, ev->values, (size_t) rec->n_values * sizeof(float));
	}
}

static inline void
pooled_rec_free(PooledRec *r)
{
	mem_free(r->values);
	mem_free(r->counts);
	mem_free(r->greedy);
	memset(r, 0, sizeof(*r));
}

/* Are two results equal, bit for bit? */
static inline bool
pooled_same(const PooledRec *a, const PooledRec *b)
{
	return a->finish == FIN_STOP && b->finish == FIN_STOP && a->n_rows == b->n_rows &&
		a->n_values == b->n_values && a->n_values > 0 &&
		memcmp(a->values, b->values, (size_t) a->n_values * sizeof(float)) == 0 &&
		(a->counts == NULL || (memcmp(a->counts, b->counts, (size_t) a->n_rows * sizeof(int32_t)) == 0 &&
							   memcmp(a->greedy, b->greedy, (size_t) a->n_rows * sizeof(int32_t)) == 0));
}

static inline void
pooled_submit(Core *c, uint64_t id, uint64_t session, PoolSpec spec, PooledRec *rec)
{
	ReqSpec		s = {.id = id, .session = session, .pool = spec, .sink = pooled_sink, .sink_ctx = rec};

	core_submit(c, &s);
}

static inline PoolSeq *
add_seq(PoolSpec *p, IntVec ids)
{
	p->seqs = mem_realloc(p->seqs, (size_t) (p->n_seqs + 1) * sizeof(PoolSeq));
	p->seqs[p->n_seqs] = (PoolSeq) {.ids = ids, .type1_at = INT_MAX};
	return &p->seqs[p->n_seqs++];
}

/* A vector; with task PT_TOKEN_EMBED a vector for each token. */
static inline PoolSpec
vector_spec(PoolTask task, IntVec ids)
{
	PoolSpec	p = {.task = task, .activation = 0, .step_tag = -1};

	add_seq(&p, ids);
	return p;
}

/* Log-probabilities of the tokens of ids from scored_at on. */
static inline PoolSpec
text_spec(IntVec ids, int scored_at)
{
	PoolSpec	p = {.task = PT_LOGPROBS, .join = PJ_ONE, .step_tag = -1};

	add_seq(&p, ids)->scored_at = scored_at;
	return p;
}

/* n_choices continuations of a prompt; the i-th has lens[i] tokens. */
static inline PoolSpec
choices_spec(IntVec prompt, const int *lens, int n_choices, IntVec (*tokens) (uint32_t seed, int n))
{
	PoolSpec	p = {.task = PT_LOGPROBS, .join = PJ_CHOICES, .prompt = prompt, .step_tag = -1};

	for (int i = 0; i < n_choices; i++)
		add_seq(&p, tokens(1000 + (uint32_t) i, lens[i]));
	return p;
}

/* One of its choices as a request of its own, with nothing shared. */
static inline PoolSpec
choice_alone(const PoolSpec *p, int i)
{
	IntVec		ids = {0};

	intvec_add(&ids, p->prompt.data, p->prompt.len);
	intvec_add(&ids, p->seqs[i].ids.data, p->seqs[i].ids.len);
	return text_spec(ids, (int) p->prompt.len);
}

static inline PoolSpec
poolspec_copy(const PoolSpec *p)
{
	PoolSpec	c = *p;

	c.prompt = c.columns = (IntVec) {0};
	intvec_add(&c.prompt, p->prompt.data, p->prompt.len);
	c.seqs = NULL;
	c.n_seqs = 0;
	for (int i = 0; i < p->n_seqs; i++)
	{
		IntVec		ids = {0};
		PoolSeq    *s;

		intvec_add(&ids, p->seqs[i].ids.data, p->seqs[i].ids.len);
		s = add_seq(&c, ids);
		s->scored_at = p->seqs[i].scored_at;
		s->skip = p->seqs[i].skip;
		s->seen_to = p->seqs[i].seen_to;
		intvec_add(&s->dropped, p->seqs[i].dropped.data, p->seqs[i].dropped.len);
	}
	return c;
}

/* Step until there is no work.  Returns false if an invariant is broken, or if it never ends. */
static inline bool
pooled_run(Core *c)
{
	Err			e = {0};
	int			steps = 0;

	while (core_has_work(c) && steps++ < 20000)
	{
		core_step(c);
		if (!core_check(c, &e))
		{
			fprintf(stderr, "after step %d: %s\n", steps, e.msg);
			return false;
		}
	}
	return !core_has_work(c);
}

static inline int64_t
pooled_blocks(const Core *c)
{
	CoreStats	st;

	core_stats(c, &st);
	return st.kv_blocks_used;
}

#endif
