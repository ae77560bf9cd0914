/*
 * answers_util.h
 *	  Helpers for tests of several choices: the choices as their owner received them, and the
 *	  log-probabilities of the fake model computed in the simplest way.
 */
#ifndef VLLM_TESTS_UNIT_CORE_ANSWERS_UTIL_H
#define VLLM_TESTS_UNIT_CORE_ANSWERS_UTIL_H

#include <math.h>
#include <stdatomic.h>
#include <unistd.h>

#include "tests/unit/check.h"
#include "tests/unit/core_util.h"
#include "tests/unit/fake_model.h"

#define MAX_ANSWERS 24

typedef struct Answer
{
	IntVec		ids;
	Buf			text;
	Logprobs   *lp;
	ReqFinish	ended;
	char		reason[64];
	double		cum;
	double		score;
	int			late;			/* events after the choice's end */
} Answer;

typedef struct Answers
{
	Answer		a[MAX_ANSWERS];
	Logprobs   *prompt_lp;
	int			n;				/* choices seen */
	ReqFinish	finish;
	Err			err;
	int			late;			/* events after the finish */
	int			prompt_tokens;
	int			output_tokens;
	int			preemptions;
} Answers;

static atomic_int answers_open;	/* requests that have not ended; events may come from another thread */

static inline void
answers_sink(void *ctx, Req *r, const ReqEvent *ev)
{
	Answers    *s = ctx;
	Answer	   *a = &s->a[ev->index];

	(void) r;
	s->late += s->finish != FIN_NONE;
	a->late += a->ended != FIN_NONE;
	if (ev->index >= s->n)
		s->n = ev->index + 1;
	intvec_add(&a->ids, ev->ids, (size_t) ev->n_ids);
	buf_add(&a->text, ev->text, ev->text_len);
	if (ev->logprobs != NULL)
	{
		if (a->lp == NULL)
			a->lp = logprobs_new();
		logprobs_append(a->lp, ev->logprobs);
	}
	if (ev->prompt_logprobs != NULL)
	{
		s->late += s->prompt_lp != NULL;
		s->prompt_lp = logprobs_new();
		logprobs_append(s->prompt_lp, ev->prompt_logprobs);
	}
	a->ended = ev->ended;
	a->cum = ev->cum_logprob;
	a->score = ev->score;
	if (ev->stop_reason != NULL)
		snprintf(a->reason, sizeof(a->reason), "%s", ev->stop_reason);
	s->finish = ev->finish;
	s->prompt_tokens = ev->prompt_tokens;
	s->output_tokens = ev->output_tokens;
	s->preemptions = ev->preemptions;
	if (ev->err != NULL)
		s->err = *ev->err;
	if (ev->finish != FIN_NONE)
		atomic_fetch_sub(&answers_open, 1);
}

static inline void
answers_free(Answers *s)
{
	for (int i = 0; i < MAX_ANSWERS; i++)
	{
		intvec_free(&s->a[i].ids);
		buf_free(&s->a[i].text);
		logprobs_free(s->a[i].lp);
	}
	logprobs_free(s->prompt_lp);
	memset(s, 0, sizeof(*s));
}

/* Takes ownership of prompt and params.  given: GP_*. */
static inline void
answers_submit_given(Core *c, uint64_t id, IntVec prompt, GenParams p, uint64_t given, Answers *to)
{
	ReqSpec		spec = {.id = id, .session = id, .prompt = prompt, .sink = answers_sink, .sink_ctx = to};
	Err			e;

	if (!core_normalize(c, &p, given, &prompt, &e))
	{
		fprintf(stderr, "core_normalize: %s\n", e.msg);
		exit(2);
	}
	spec.params = p;
	atomic_fetch_add(&answers_open, 1);
	core_submit(c, &spec);
}

static inline void
answers_submit(Core *c, uint64_t id, IntVec prompt, GenParams p, Answers *to)
{
	answers_submit_given(c, id, prompt, p, GP(TEMPERATURE) | GP(MAX_TOKENS), to);
}

/* Step until there is no work, checking the invariants after each step. */
static inline void
answers_run(Core *c, const char *what)
{
	Err			e = {0};
	int			steps = 0;
	CoreStats	st;

	while (core_has_work(c) && steps++ < 20000)
	{
		core_step(c);
		if (!core_check(c, &e))
		{
			CHECK(false, "%s: %s", what, e.msg);
			return;
		}
	}
	for (int i = 0; i < 5000 && atomic_load(&answers_open) > 0; i++)
		usleep(1000);
	core_stats(c, &st);
	CHECK(!core_has_work(c) && st.kv_blocks_used == 0, "%s: %lld blocks are left", what,
		  (long long) st.kv_blocks_used);
}

static inline IntVec
copy_of(const IntVec *v)
{
	IntVec		c = {0};

	intvec_add(&c, v->data, v->len);
	return c;
}

/* Compute the log softmax of the row after n tokens, in double; x gets the row's logits. */
static inline void
textbook(const int32_t *ids, int n, float *x, double *lp)
{
	uint64_t	h = 1;
	double		sum = 0;

	for (int i = 0; i < n; i++)
		h = fake_mix(h, (uint64_t) ids[i]);
	fake_logits(h, false, x);
	for (int i = 0; i < FAKE_VOCAB; i++)
		sum += exp((double) x[i]);
	for (int i = 0; i < FAKE_VOCAB; i++)
		lp[i] = (double) x[i] - log(sum);
}

#endif
