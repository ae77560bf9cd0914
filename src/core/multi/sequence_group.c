/*
 * sequence_group.c
 *	  Several answers to one prompt (n > 1).
 *
 * The prompt request computes the prompt once, and its last row gives each answer its first token:
 * answer i draws with seed + i.  From then on the answers are requests of their own for scheduler and
 * sampler, forks of the prompt request that share its full blocks.  So answer i is, bit for bit, that of
 * a single request with its seed.  Each answer emits its own tokens; the event of the answer that ends
 * last is the request's last event.
 *
 *	step thread		begins the answers, and ends them one by one; one that fails ends all
 *	output thread	adds up the tokens that are sent
 *
 * A Group owns itself, its Reqs and what they share (params), until the last event has been sent.  Tested
 * by tests/unit/core/multi/test_answers.c.
 */
#include "core/core_internal.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/output/guided_decoding.h"
#include "base/rng.h"

bool
group_wanted(const OutParams *out)
{
	return out->n > 1 || out->beam_width > 0;
}

Req *
group_req_add(const Req *first)
{
	Req		   *r = mem_zalloc(sizeof(*r));

	r->in = first->in;
	r->sched.plan_at = r->kv.slot = -1;
	return r;
}

Req *
group_req_of_prompt(const Req *prompt_request, int index)
{
	Req		   *r = group_req_add(prompt_request);

	r->group = prompt_request->group;
	r->index = index;
	return r;
}

void
group_begin(Req *r)
{
	Group	   *g = mem_zalloc(sizeof(*g));

	g->prompt_request = r;
	r->group = g;
	if (r->in.params.out.beam_width > 0)
	{
		g->beam = beam_new(r);
		g->n_left = 1;
		return;
	}
	g->n = g->n_left = r->in.params.out.n;
	g->answers = mem_zalloc((size_t) g->n * sizeof(Req *));
	for (int i = 0; i < g->n; i++)
	{
		Req		   *a = g->answers[i] = group_req_of_prompt(r, i);

		a->in.seed = r->in.params.has_seed ? (uint64_t) r->in.params.seed + (uint64_t) i : rng_seed();
		a->out.urgent = r->out.urgent;
	}
}

Req *
group_answer(Group *g, int i, const Tok *tok)
{
	Req		   *a;
	const Req  *prompt_request = g->prompt_request;

	ASSERT(i >= 0 && i < g->n);
	a = g->answers[i];
	ASSERT(a->tokens.len == 0 && a->kv.blocks.len == 0);
	/* the prompt, and the tokens that the grammar forces after it */
	intvec_add(&a->tokens, prompt_request->tokens.data, prompt_request->tokens.len);
	out_begin(a, tok);
	a->sched.scheduled_us = prompt_request->sched.scheduled_us;
	a->sched.first_token_us = prompt_request->sched.first_token_us;
	return a;
}

void
group_event(Group *g, ReqEvent *ev, const Err *err)
{
	Req		   *a;

	ASSERT(ev->index >= 0 && ev->index < g->n && g->n_emitted < g->n);
	a = g->answers[ev->index];
	ASSERT(ev->output_tokens >= a->out.n_emitted);
	g->n_output += ev->output_tokens - a->out.n_emitted;
	a->out.n_emitted = ev->output_tokens;
	if (a->out.n_emitted > g->longest)
		g->longest = a->out.n_emitted;
	ev->output_tokens = g->n_output;
	ev->longest = g->longest;
	if (ev->reasoning_tokens >= 0)
	{
		g->n_thought += ev->reasoning_tokens - a->out.n_thought;
		a->out.n_thought = ev->reasoning_tokens;
		ev->reasoning_tokens = g->n_thought;
	}
	ev->finish = FIN_NONE;
	ev->err = NULL;
	if (ev->ended == FIN_NONE)
	{
		ev->preemptions += g->preemptions;
		ev->draft_tokens += g->draft_tokens;
		ev->accepted_tokens += g->accepted_tokens;
		return;
	}
	g->preemptions += ev->preemptions;
	ev->preemptions = g->preemptions;
	g->draft_tokens += ev->draft_tokens;
	ev->draft_tokens = g->draft_tokens;
	g->accepted_tokens += ev->accepted_tokens;
	ev->accepted_tokens = g->accepted_tokens;
	if (ev->ended > g->finish)
	{
		g->finish = ev->ended;
		if (ev->ended == FIN_ERROR)
			g->emitted_err = *err;
	}
	if (++g->n_emitted < g->n)
		return;
	ev->finish = g->finish;
	ev->err = g->finish == FIN_ERROR ? &g->emitted_err : NULL;
}

static void
free_member(Req *r)
{
	out_end(r);
	constraint_free(r->constraint);
	rbudget_free(r->reasoning_budget);
	logprobs_free(r->out.prompt_lp);
	logprobs_free(r->out.token_lp);
	intvec_free(&r->tokens);
	intvec_free(&r->kv.blocks);
	mem_free(r);
}

void
group_free(Group *g)
{
	for (int i = 0; i < g->n; i++)
		free_member(g->answers[i]);
	beam_free(g->beam);
	genparams_free(&g->prompt_request->in.params);
	mem_free(g->prompt_request->in.embeds);
	free_member(g->prompt_request);
	mem_free(g->answers);
	mem_free(g);
}

/* ---- checks of parameters ---- */

static bool
bad_param(Err *e, const char *name)
{
	return err_detail(e, "parameter=%s", name);
}

static bool
check_count(const char *name, int k, int n_valid, int max, Err *e)
{
	if (k == LOGPROBS_NONE)
		return true;
	if (k < LOGPROBS_NONE)
		err_set(e, ERR_INVALID, "%s must be -1 (all), 0 or more, got %d", name, k);
	else if (max != LOGPROBS_ALL && k == LOGPROBS_ALL && n_valid > max)
		err_set(e, ERR_INVALID, "%s of the whole vocabulary are more than the maximum of %d", name, max);
	else if (max != LOGPROBS_ALL && k > max)
		err_set(e, ERR_INVALID, "%s must be at most %d, got %d", name, max, k);
	else
		return true;
	bad_param(e, name);
	return max == LOGPROBS_ALL ? false : err_hint(e, "The maximum is vllm.max_logprobs.");
}

static bool
check_ids(const OutParams *out, int n_valid, Err *e)
{
	const IntVec *ids = &out->logprob_ids;

	for (size_t i = 0; i < ids->len; i++)
		if (ids->data[i] < 0 || ids->data[i] >= n_valid)
		{
			err_set(e, ERR_INVALID, "logprob_token_ids must be between 0 and %d, got %d", n_valid - 1,
					ids->data[i]);
			return bad_param(e, "logprob_token_ids");
		}
	if (ids->len > LOGPROB_MAX_IDS)
	{
		err_set(e, ERR_INVALID, "logprob_token_ids must have at most %d elements, got %zu", LOGPROB_MAX_IDS,
				ids->len);
		return bad_param(e, "logprob_token_ids");
	}
	if (ids->len > 0 && out->logprobs != LOGPROBS_NONE && out->logprobs != (int) ids->len)
	{
		err_set(e, ERR_INVALID, "logprobs must be the number of logprob_token_ids (%zu), got %d", ids->len,
				out->logprobs);
		return bad_param(e, "logprobs");
	}
	return true;
}

static bool
check_beam(const OutParams *out, Err *e)
{
	if (out->beam_width == 0)
		return true;
	if (!isfinite(out->length_penalty))
	{
		err_set(e, ERR_INVALID, "length_penalty must be finite, got %g", out->length_penalty);
		return bad_param(e, "length_penalty");
	}
	/* fields of a message are rejected by name before */
	if (out->n > 1 || out->logprobs != LOGPROBS_NONE || out->prompt_logprobs != LOGPROBS_NONE ||
		out->logprob_ids.len > 0)
		return err_set(e, ERR_UNSUPPORTED, "a beam search does not take n or logprobs");
	return true;
}

bool
outparams_check(const OutParams *out, double temperature, int n_valid, int max_logprobs, Err *e)
{
	if (out->n < 1)
	{
		err_set(e, ERR_INVALID, "n must be at least 1, got %d", out->n);
		return bad_param(e, "n");
	}
	if (out->n > 1 && temperature == 0)
	{
		err_set(e, ERR_INVALID, "n must be 1 when temperature is 0, got %d", out->n);
		bad_param(e, "n");
		return err_hint(e, "With temperature 0 all answers would be the same.");
	}
	return check_ids(out, n_valid, e) &&
		check_count("logprobs", out->logprob_ids.len > 0 ? LOGPROBS_NONE : out->logprobs, n_valid,
					max_logprobs, e) &&
		check_count("prompt_logprobs", out->prompt_logprobs, n_valid, max_logprobs, e) && check_beam(out, e);
}
