/*
 * commit.c
 *	  The second half of a step: rows of logits -> tokens of their requests.
 *
 * Without speculation there is one round: all complete rows are sampled, and each token is
 * added to its request.
 *
 * A request with drafts has more rows: the first is the one behind its last token, and each of
 * the others is behind a draft.  They are sampled in rounds.  A round samples the next row of each request,
 * by the sampler, rules and grammar that any row has, with the tokens that there are by then, and
 * adds the token; as long as it is the draft, the row behind is that of the request's last
 * token, and the request takes part in the next round.  The first token that is not the draft ends
 * it: the rows behind were computed in vain.  What a grammar forces is no row's, and may be
 * drafts, too.  So a request's tokens are those of one row after the other, bit for bit: nothing
 * that looks at them, or at their number, knows of the drafts, and no row is sampled that
 * would not have been.
 *
 * On a device that samples (Kernels.sample) most rows' logits stay there; which, is a matter of the
 * request alone (sample_device.h).  The others' come to the host.
 *
 * `computed` follows as far as the drafts were right.  K and V behind it are written again before
 * anybody reads them.
 *
 * Owner: the step thread.  Tested by tests/unit/core/spec/test_spec.c, test_core.c and test_invariance.c.
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/clock.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "core/output/guided_decoding.h"
#include "core/core_state.h"
#include "core/sample/sample_device.h"
#include "core/spec/spec.h"

SampleRow
core_smp_row(Req *r)
{
	int			skip = r->in.embeds != NULL ? r->in.n_prompt : 0; /* a prompt of embeddings has no tokens */

	return (SampleRow) {
		.params = &r->in.params, .seed = r->in.seed, .position = req_n_output(r),
			.tokens = r->tokens.data + skip,
		.n_prompt = r->in.n_prompt - skip, .n_tokens = (int) r->tokens.len - skip, .counts = &r->counts,
		.seat = &r->seat
	};
}

/* no token to choose from is no error where there is no choice */
int32_t
core_next_id(const Req *r, int32_t id)
{
	int32_t		forced = r->reasoning_budget != NULL ? rbudget_forced(r->reasoning_budget) : -1;

	return forced < 0 || (id < 0 && id != SMP_NO_TOKEN) ||
		(r->constraint != NULL && constraint_active(r->constraint)) ? id : forced;
}

/* Is the row wanted as the model gave it?  The sampler writes over it. */
static bool
wants_raw(const Req *r)
{
	return core_wants_logprobs(r) || r->group != NULL;
}

/*
 * Is the row wanted as the token was drawn from it?  parallel_sampling.c has the first tokens of several
 * answers.
 */
static bool
tells_processed(const Core *c, const Req *r)
{
	return c->opt.tell_processed && core_wants_logprobs(r) &&
		(r->group == NULL || (r->group->beam == NULL && r != r->group->prompt_request));
}

/* A copy of a row, before the sampler writes over it; of what a grammar forbids nothing is left in it. */
static void
keep_raw(const Core *c, int i, const SampleRow *row)
{
	int			width = core_info(c)->vocab_size;
	float	   *to = core_raw_row(c, i);

	memcpy(to, row->logits, (size_t) width * sizeof(float));
	/* a mask knows ids that may be sampled only */
	for (int id = 0; row->mask != NULL && id < width; id++)
		if (id >= c->defaults.n_valid || (row->mask[id / 32] >> id % 32 & 1) == 0)
			to[id] = -INFINITY;
}

/* Ask for rows of logits. */
static void
get_rows(const Core *c, int from, int to)
{
	size_t		width = (size_t) core_info(c)->vocab_size;

	hostdev_get(&c->logits, (size_t) from * width, (size_t) (to - from) * width);
}

/* Rows and masks of the plan's entries; a device's tokens, or logits that it doesn't sample, are there. */
static void
begin_rows(Core *c, const Plan *plan)
{
	int			n = 0;
	int			from = 0,		/* rows of logits that are wanted here */
				to = 0;

	for (int i = 0; i < plan->n; i++)
	{
		const PlanEntry *pe = &plan->e[i];
		SampleRow  *row = &c->rows[n];

		if (!pe->sample)
			continue;
		ALWAYS(n < c->opt.max_num_seqs);
		*row = core_smp_row(pe->r);
		row->mask = constraints_mask(c->constraints, i);
		if (c->smpdev != NULL && smpdev_takes(pe->r, c->opt.tell_processed))
			row->sampled = smpdev_add(c->smpdev, row, &pe->r->in.params.out, pe->logits_at);
		else
		{
			if (pe->logits_at != to)
			{
				get_rows(c, from, to);
				from = pe->logits_at;
			}
			to = pe->logits_at + 1;
		}
		n++;
	}
	get_rows(c, from, to);
	if (c->smpdev != NULL)
		smpdev_run(c->smpdev, c->logits.dev);
	core_wait(c);
}

void
core_sample(Core *c, const Plan *plan, bool again)
{
	size_t		width = (size_t) core_info(c)->vocab_size;
	int			n = 0;

	constraints_wait(c->constraints);
	begin_rows(c, plan);
	for (int i = 0; i < plan->n; i++)
	{
		Req		   *r = plan->e[i].r;
		SampleRow  *row = &c->rows[n];

		if (!plan->e[i].sample)
			continue;
		if (row->sampled != NULL)
			row->id = row->sampled->id;
		else
		{
			row->logits = c->logits.host + (size_t) plan->e[i].logits_at * width;
			if (c->opt.tap != NULL)
				c->opt.tap(c->opt.tap_ctx, r, req_n_output(r), row->logits, (int) width);
			if (tells_processed(c, r))
				row->processed = core_raw_row(c, n);
			else if (wants_raw(r))
				keep_raw(c, n, row);
		}
		n++;
	}
	smp_run_rows(c->sampler, c->rows, n, again);
	n = 0;
	for (int i = 0; i < plan->n; i++)
		if (plan->e[i].sample)
		{
			c->rows[n].id = core_next_id(plan->e[i].r, c->rows[n].id);
			n++;
		}
	core_logprobs_of_rows(c, plan);
}

void
core_fail_token(Core *c, Req *r, int32_t id)
{
	Err			err;

	if (id == SMP_NO_TOKEN)
		err_set(&err, ERR_INVALID, "the parameters leave no token to choose from");
	else if (id == SMP_PLUGIN && r->seat.failed != NULL)
		err_set(&err, ERR_LOST, "logits processor \"%s\" failed", r->seat.failed);
	else if (id == SMP_PLUGIN)
		err_set(&err, ERR_LOST, "logits processors made logits that are not numbers");
	else
		err_set(&err, ERR_INTERNAL, "model produced non-finite logits");
	c->stats.corrupted += id == SMP_NOT_FINITE;
	err_detail(&err, "After %zu tokens.", r->tokens.len);
	if (id == SMP_PLUGIN)
		err_hint(&err, "The setting vllm.logits_processors names what changes logits.");
	core_finish(c, r, -1, (OutResult) {.finish = FIN_ERROR}, &err);
}

/* The functions that follow return whether r goes on; else it may be gone. */
static bool
commit_token(Core *c, Req *r, int32_t id)
{
	size_t		from = r->tokens.len;
	OutResult	res;
	Err			err;

	if (id < 0)
	{
		core_fail_token(c, r, id);
		return false;
	}
	if (r->sched.first_token_us == 0)
	{
		r->sched.first_token_us = clock_us();
		core_count_prompt(c, r);
	}
	if (!core_append_token(c, r, id, &res, &err))
	{
		core_finish(c, r, -1, (OutResult) {.finish = FIN_ERROR}, &err);
		return false;
	}
	core_emit_tokens(c, r, from, res);
	/* a stop string may have been found, and r will be taken out at the step's boundary */
	return res.finish == FIN_NONE && !r->sched.cancelled;
}

/* no_mask: why a grammar has not said what may come. */
static bool
commit_row(Core *c, Req *r, int32_t id, const float *raw, const uint32_t *mask, const Err *no_mask)
{
	Err			err;

	if (no_mask != NULL)
		core_finish(c, r, -1, (OutResult) {.finish = FIN_ERROR}, no_mask);
	else if (r->group != NULL && (r->group->beam != NULL || r == r->group->prompt_request))
		answers_commit(c, r, id, raw, mask);
	else if (!core_has_logprob_space(c, r, &err))
		core_finish(c, r, -1, (OutResult) {.finish = FIN_ERROR}, &err);
	else
		return commit_token(c, r, id);
	return false;
}

/* The at-th draft of a step was right. */
static void
count_accepted(Core *c, int at)
{
	_Static_assert(offsetof(CoreStats, spec_accepted_31) - offsetof(CoreStats, spec_accepted_0) ==
				   (SPEC_MAX_DRAFTS - 1) * sizeof(int64_t), "a row of metrics.def for each position");
	c->stats.spec_accepted++;
	(&c->stats.spec_accepted_0)[at]++;
}

/*
 * r goes on: `computed` follows its tokens as far as the drafts were right.  Is there a row behind its last
 * token?
 */
static bool
follow(Core *c, PlanEntry *pe)
{
	Req		   *r = pe->r;
	const int32_t *drafts = r->spec->drafts.data;
	int			n = 0;

	ASSERT((size_t) (pe->draft_at + pe->n_drafts) <= r->spec->drafts.len);
	for (; n < pe->n_drafts && req_todo(r) > 0 && r->tokens.data[r->kv.computed] == drafts[pe->draft_at]; n++)
	{
		spec_tested(c->spec, r, pe->draft_at, true);
		count_accepted(c, pe->draft_at++);
		r->accepted_tokens += n > 0;	/* the first has been counted */
		r->kv.computed++;
		pe->logits_at++;
	}
	pe->n_drafts -= n;
	if (req_todo(r) == 0)
		return n > 0;
	if (pe->n_drafts > 0)
		spec_tested(c->spec, r, pe->draft_at, false);
	return false;
}

/* The i-th entry's token is there; false: it was its request's last one of the step. */
static bool
commit_entry(Core *c, PlanEntry *pe, int i, int32_t id, const float *raw)
{
	Req		   *r = pe->r;
	int			n_drafts = pe->n_drafts;
	bool		hit = n_drafts > 0 && id == r->spec->drafts.data[pe->draft_at];

	if (pe->sample && !r->sched.cancelled)
	{
		/* before its last event, which tells that */
		r->accepted_tokens += hit;
		if (commit_row(c, r, id, raw, constraints_mask(c->constraints, i),
					   constraints_error(c->constraints, i)))
			return n_drafts > 0 && follow(c, pe);
		/* it may be gone */
		if (hit)
			count_accepted(c, pe->draft_at);
	}
	else if (r->pooled != NULL && req_todo(r) == 0 && !r->sched.cancelled)
		core_finish(c, r, -1, (OutResult) {.finish = FIN_STOP}, NULL);
	return false;
}

/* Those who go on are left in c->round, which plan may be. */
static void
commit_round(Core *c, const Plan *plan)
{
	int			n = 0;
	int			next = 0;

	for (int i = 0; i < plan->n; i++)
	{
		PlanEntry	pe = plan->e[i];
		const float *raw = core_raw_row(c, n);
		int32_t		id = pe.sample ? c->rows[n++].id : -1;

		if (commit_entry(c, &pe, i, id, raw))
			c->round.e[next++] = pe;
	}
	c->round.n = next;
}

void
core_commit(Core *c, const Plan *plan)
{
	for (int i = 0; i < plan->n; i++)
	{
		const PlanEntry *pe = &plan->e[i];

		ASSERT(pe->r->sched.state == RQ_RUNNING && pe->n - pe->n_drafts <= req_todo(pe->r));
		pe->r->kv.computed += pe->n - pe->n_drafts;
		c->stats.spec_drafts += pe->n_drafts > 0;
		c->stats.spec_draft_tokens += pe->n_drafts;
		pe->r->draft_tokens += pe->n_drafts;
	}
	commit_round(c, plan);
	while (c->round.n > 0)
	{
		constraints_begin(c->constraints, &c->round);
		core_sample(c, &c->round, true);
		commit_round(c, &c->round);
	}
}
