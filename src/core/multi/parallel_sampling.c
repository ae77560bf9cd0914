/*
 * parallel_sampling.c
 *	  Several answers to one prompt, on the step thread.
 *
 * Does what core.c does for requests with one answer: n > 1 (sequence_group.c) and beam searches
 * (beam_search.c).  In both cases the prompt request is scheduled first; its last row starts the answers
 * or hypotheses, which replace it in the schedule.  Between steps some Req of a live group is always
 * scheduled, so that a cancel finds it.
 *
 * The group may be freed as soon as the last of its ends has been handed to the output queue.
 */
#include "core/core_state.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "core/output/guided_decoding.h"

/* All answers of a request have ended. */
static void
finish_group(Core *c, Group *g, ReqFinish fin, const Err *err)
{
	if (idmap_get(&c->by_id, g->prompt_request->in.id) == g->prompt_request)
	{
		idmap_del(&c->by_id, g->prompt_request->in.id);
		c->n_multi--;
	}
	core_count_end(c, fin, err);
}

/* One of several answers has ended. */
static void
finish_answer(Core *c, Req *r, int32_t id, OutResult res, const Err *err)
{
	Group	   *g = r->group;
	bool		last;

	if (r->sched.state != RQ_NEW)
		c->n_multi_seqs--;
	sched_remove(c->sched, r);
	ASSERT(g->n_left > 0);
	if (res.finish > g->failed)
		g->failed = res.finish;
	for (int i = 0; i < g->n && res.finish == FIN_ERROR; i++)
		core_finish_later(c, g->answers[i], false);
	last = --g->n_left == 0;
	if (last)
	{
		finish_group(c, g, g->failed, err);
		core_request_done(c, g->prompt_request);
	}
	/* the last answer's end frees the group */
	core_emit(c, r, id, res, err);
}

/* The prompt request has ended before its last row: there will be no answers. */
static void
finish_prompt_request(Core *c, Req *prompt_request, OutResult res, const Err *err)
{
	Group	   *g = prompt_request->group;
	int			n = g->n;

	if (prompt_request->sched.state != RQ_NEW)
		c->n_multi_seqs--;
	sched_remove(c->sched, prompt_request);
	finish_group(c, g, res.finish, err);
	core_request_done(c, prompt_request);
	for (int i = 0; i < n; i++)
		core_emit(c, g->answers[i], -1, res, err);
}

/* End a beam search; none of its Reqs is scheduled any more. */
static void
finish_beams(Core *c, Group *g)
{
	ReqFinish	fin = g->failed > FIN_REPETITION ? g->failed : FIN_STOP;
	int			n_tokens = 0;

	beam_end(g->beam);
	if (fin == FIN_STOP && beam_n_results(g->beam, &n_tokens) > 0)
		c->stats.output_tokens += n_tokens;
	admission_charge(g->prompt_request, fin == FIN_STOP ? n_tokens : 0);
	finish_group(c, g, fin, &g->err);
	core_request_done(c, g->prompt_request);
	core_emit(c, g->prompt_request, -1, (OutResult) {.finish = fin}, fin == FIN_ERROR ? &g->err : NULL);
}

/*
 * A hypothesis or the prompt request has failed or was cancelled; the search ends when none of its Reqs
 * is scheduled any more.
 */
static void
finish_beam(Core *c, Req *r, ReqFinish fin, const Err *err)
{
	Group	   *g = r->group;
	Req		   *parent;

	if (fin > g->failed)
	{
		g->failed = fin;
		if (fin == FIN_ERROR)
			g->err = *err;
	}
	if (r->sched.state != RQ_NEW)
		c->n_multi_seqs--;
	sched_remove(c->sched, r);
	for (int i = 0; i < beam_n_live(g->beam); i++)
		if (!beam_has_row(g->beam, i))
			core_finish_later(c, beam_live(g->beam, i, &parent), false);
	if (--g->n_left > 0)
		return;
	for (int i = 0; i < beam_n_live(g->beam); i++)
		if (beam_has_row(g->beam, i))
			sched_release_blocks(c->sched, beam_live(g->beam, i, &parent));
	finish_beams(c, g);
}

/* Cancel all scheduled Reqs of a group; there is always at least one. */
void
answers_cancel(Core *c, const Group *g)
{
	Req		   *parent;

	for (int i = 0; i < g->n; i++)
		if (g->answers[i]->sched.state != RQ_NEW)
			core_finish_later(c, g->answers[i], false);
	for (int i = 0; g->beam != NULL && i < beam_n_live(g->beam); i++)
		if (!beam_has_row(g->beam, i))
			core_finish_later(c, beam_live(g->beam, i, &parent), false);
	core_finish_later(c, g->prompt_request, false);
}

/* Make answer i, with the tokens of the prompt request. */
static Req *
answer(Core *c, Group *g, int i)
{
	Req		   *a = group_answer(g, i, c->tok);

	if (g->prompt_request->constraint != NULL)
		a->constraint = constraint_fork(g->prompt_request->constraint);
	if (g->prompt_request->reasoning_budget != NULL)
		a->reasoning_budget = rbudget_fork(g->prompt_request->reasoning_budget);
	return a;
}

/*
 * Sample the answers' first tokens from the prompt request's last row; `id` is the first one's, which
 * has been sampled already.
 */
static void
first_tokens(Core *c, Group *g, int32_t id, const float *raw, const uint32_t *mask, int32_t *ids)
{
	size_t		width = (size_t) core_info(c)->vocab_size;
	bool		processed = c->opt.return_processed && core_wants_logprobs(g->prompt_request);
	LogprobRow *notes = mem_alloc((size_t) g->n * sizeof(LogprobRow));
	Err			err;

	for (int i = 0; i < g->n; i++)
		answer(c, g, i);
	ASSERT(g->beam == NULL && g->n > 0);
	ids[0] = id;
	/* the processed row of the first answer was not kept, so its token is drawn again */
	for (int at = processed ? 0 : 1; at < g->n; at += FORK_ROWS)
	{
		int			n = g->n - at < FORK_ROWS ? g->n - at : FORK_ROWS;

		for (int i = 0; i < n; i++)
		{
			float	   *x = c->fork_logits + (size_t) i * width;

			memcpy(x, raw, width * sizeof(float));
			/* ids that are masked already would look like a failure of the model */
			for (size_t k = 0; mask != NULL && k < width; k++)
				x[k] = x[k] > -INFINITY ? x[k] : 0;
			c->fork_rows[i] = core_smp_row(g->answers[at + i]);
			c->fork_rows[i].mask = mask;
			if (processed)
				c->fork_rows[i].processed = c->fork_processed + (size_t) i * width;
		}
		smp_run(c->sampler, c->fork_rows, n, c->fork_logits);
		for (int i = 0; i < n; i++)
		{
			ids[at + i] = core_next_id(g->answers[at + i], c->fork_rows[i].id);
			notes[at + i] = (LogprobRow) {.r = g->answers[at + i], .id = ids[at + i],
										  .raw = processed ? c->fork_rows[i].processed : raw};
		}
		if (processed)
			core_logprobs_of_tokens(c, notes + at, n);
	}
	notes[0] = (LogprobRow) {.r = g->answers[0], .id = ids[0], .raw = raw};
	if (!processed)
		core_logprobs_of_tokens(c, notes, g->n);
	/* core_normalize() has checked that there is room for one token of each answer */
	for (int i = 0; i < g->n; i++)
		(void) core_has_logprob_space(c, g->answers[i], &err);
	mem_free(notes);
}

/* The prompt is computed: start the answers, except those that end with their first token. */
static void
begin_answers(Core *c, Req *prompt_request, int32_t id, const float *raw, const uint32_t *mask)
{
	Group	   *g = prompt_request->group;
	int			n = g->n;
	int32_t    *ids = mem_alloc((size_t) n * sizeof(int32_t));
	OutResult  *res = mem_alloc((size_t) n * sizeof(OutResult));
	bool		failed = false;
	int			n_live = 0;
	Err			err;

	/* copied to the answers, which are made next: the prompt's time counts once */
	prompt_request->sched.first_token_us = clock_us();
	first_tokens(c, g, id, raw, mask, ids);
	core_count_prompt(c, prompt_request);
	/* forced tokens count for each answer */
	c->stats.output_tokens += (int64_t) (n - 1) * req_n_output(prompt_request);
	sched_retain_for_forks(c->sched, prompt_request);
	c->n_multi_seqs--;
	for (int i = 0; i < n; i++)
	{
		Req		   *a = g->answers[i];

		res[i] = (OutResult) {.finish = FIN_ERROR};
		if (ids[i] >= 0 && !failed)
			failed = !core_append_token(c, a, ids[i], &res[i], &err);
		if (failed)
			res[i] = (OutResult) {.finish = FIN_ERROR};
		n_live += res[i].finish == FIN_NONE;
	}
	/*
	 * the first answer that continues replaces the prompt request; the others wait at the front of their
	 * session's queue
	 */
	for (int i = n; i-- > 0;)
		if (res[i].finish == FIN_NONE)
		{
			c->n_multi_seqs++;
			if (--n_live > 0)
				sched_fork(c->sched, g->answers[i], prompt_request);
			else
				sched_resume(c->sched, g->answers[i], prompt_request);
		}
	sched_release_blocks(c->sched, prompt_request);
	/* the group exists until the last answer has been processed */
	for (int i = 0; i < n; i++)
	{
		Req		   *a = g->answers[i];

		/* an earlier answer has failed and cancelled it: reap() ends it */
		if (a->sched.cancelled && (ids[i] < 0 || res[i].finish == FIN_ERROR))
			continue;
		if (ids[i] < 0)
			core_fail_token(c, a, ids[i]);
		else if (res[i].finish == FIN_ERROR)
			core_finish(c, a, -1, res[i], &err);
		else
			core_emit_tokens(c, a, (size_t) a->in.n_prompt, res[i]);
	}
	mem_free(res);
	mem_free(ids);
}

void
answers_forced(Core *c, Group *g, OutResult res)
{
	int			n = g->n;

	core_count_prompt(c, g->prompt_request);
	c->stats.output_tokens += (int64_t) (n - 1) * req_n_output(g->prompt_request);
	for (int i = 0; i < n; i++)
		core_emit_tokens(c, answer(c, g, i), (size_t) g->prompt_request->in.n_prompt, res);
}

/*
 * Schedule the n hypotheses of the next generation: as many as can run at once replace the previous
 * ones, the others wait in the queue.
 */
static void
begin_generation(Core *c, Beam *b, int n)
{
	int			places = c->opt.max_num_seqs - sched_n_running(c->sched);
	Req		   *parent;

	if (places > beam_n_old(b))
		places = beam_n_old(b);
	for (int i = 0; i < n && i < places; i++)
	{
		Req		   *next = beam_live(b, i, &parent);

		sched_resume(c->sched, next, parent);
	}
	for (int i = n; i-- > places;)
	{
		Req		   *next = beam_live(b, i, &parent);

		sched_fork(c->sched, next, parent);
	}
}

/* Add the row of a hypothesis; the last row of a generation starts the next one. */
static void
commit_beam(Core *c, Req *r, const float *raw)
{
	Group	   *g = r->group;
	Beam	   *b = g->beam;
	int			n;

	if (r == g->prompt_request && r->sched.first_token_us == 0)
	{
		r->sched.first_token_us = clock_us();
		core_count_prompt(c, r);
	}
	if (!beam_row(b, r, raw, core_info(c)->vocab_size, c->defaults.n_valid, c->defaults.eos))
	{
		core_fail_token(c, r, -1);
		return;
	}
	sched_retain_for_forks(c->sched, r);
	c->n_multi_seqs--;
	if (--g->n_left > 0)
		return;
	n = beam_next(b, c->max_model_len);
	begin_generation(c, b, n);
	g->n_left = n;
	c->n_multi_seqs += n;
	for (int i = 0; i < beam_n_old(b); i++)
		sched_release_blocks(c->sched, beam_old(b, i));
	if (n == 0)
		finish_beams(c, g);
}


/* ---- functions for core.c ---- */

void
answers_finish(Core *c, Req *r, int32_t id, OutResult res, const Err *err)
{
	if (r->group->beam != NULL)
		finish_beam(c, r, res.finish, err);
	else if (r == r->group->prompt_request)
		finish_prompt_request(c, r, res, err);
	else
		finish_answer(c, r, id, res, err);
}

void
answers_commit(Core *c, Req *r, int32_t id, const float *raw, const uint32_t *mask)
{
	if (r->group->beam != NULL)
		commit_beam(c, r, raw);
	else if (id < 0)
		core_fail_token(c, r, id);
	else
		begin_answers(c, r, id, raw, mask);
}
