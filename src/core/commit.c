/*
 * commit.c
 *	  The second half of a step: rows of logits -> tokens of their requests.
 *
 * Without speculation there is one round: all complete rows are sampled, and each token is appended to
 * its request.
 *
 * A request with drafts has more rows: the first one gives the token after its last token, and each of
 * the others the token after a draft.  They are sampled in rounds.  A round samples the next row of each
 * request, with the same sampler, rules and grammar as any other row and with the tokens appended so
 * far, and appends the token.  If the token equals the draft, the next row is the one after the
 * request's last token, and the request takes part in the next round.  The first token that differs from
 * its draft ends the rounds of the request: its further rows were computed in vain.  Tokens that a
 * grammar forces need no row, and may equal drafts, too.  So a request's tokens are those of sampling
 * one row after the other, bit for bit: no code that looks at them, or at their number, sees the drafts,
 * and no row is sampled that would not have been sampled without speculation.
 *
 * On a device that samples (Kernels.sample) most rows' logits stay there; the request alone decides
 * which (sample_device.h).  The other rows' logits are copied to the host.
 *
 * `computed` advances as far as the drafts were right.  K and V after it are overwritten before anything
 * reads them.
 *
 * Owner: the step thread.  Tested by tests/unit/core/spec/test_spec.c, test_core.c and
 * test_invariance.c.
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
	/* the token ids of a prompt of embeddings are meaningless */
	int			skip = r->in.embeds != NULL ? r->in.n_prompt : 0;

	return (SampleRow) {
		.params = &r->in.params, .seed = r->in.seed, .position = req_n_output(r),
			.tokens = r->tokens.data + skip,
		.n_prompt = r->in.n_prompt - skip, .n_tokens = (int) r->tokens.len - skip, .counts = &r->counts,
		.seat = &r->seat
	};
}

/* SMP_NO_TOKEN is no error if the next token is forced anyway. */
int32_t
core_next_id(const Req *r, int32_t id)
{
	int32_t		forced = r->reasoning_budget != NULL ? rbudget_forced(r->reasoning_budget) : -1;

	return forced < 0 || (id < 0 && id != SMP_NO_TOKEN) ||
		(r->constraint != NULL && constraint_active(r->constraint)) ? id : forced;
}

/* Return true if the row is needed unchanged: the sampler overwrites it. */
static bool
wants_raw(const Req *r)
{
	return core_wants_logprobs(r) || r->group != NULL;
}

/*
 * Return true if the row is needed after the sampling stages.  parallel_sampling.c handles the first
 * tokens of several answers.
 */
static bool
returns_processed(const Core *c, const Req *r)
{
	return c->opt.return_processed && core_wants_logprobs(r) &&
		(r->group == NULL || (r->group->beam == NULL && r != r->group->prompt_request));
}

/* Copy a row before the sampler overwrites it; ids that a grammar forbids become -INFINITY. */
static void
keep_raw(const Core *c, int i, const SampleRow *row)
{
	int			width = core_info(c)->vocab_size;
	float	   *to = core_raw_row(c, i);

	memcpy(to, row->logits, (size_t) width * sizeof(float));
	/* the mask only has ids that may be sampled */
	for (int id = 0; row->mask != NULL && id < width; id++)
		if (id >= c->defaults.n_valid || (row->mask[id / 32] >> id % 32 & 1) == 0)
			to[id] = -INFINITY;
}

/* Request the copy of logits rows to the host. */
static void
get_rows(const Core *c, int from, int to)
{
	size_t		width = (size_t) core_info(c)->vocab_size;

	hostdev_get(&c->logits, (size_t) from * width, (size_t) (to - from) * width);
}

/*
 * Set up the rows and masks of the plan's entries.  On return the device's tokens, or the logits that it
 * does not sample, are on the host.
 */
static void
begin_rows(Core *c, const Plan *plan)
{
	int			n = 0;
	int			from = 0,		/* range of logits rows to copy to the host */
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
		if (c->smpdev != NULL && smpdev_takes(pe->r, c->opt.return_processed))
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
			if (returns_processed(c, r))
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

/* The following functions return true if r continues; if not, r may be freed. */
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
	/* a stop string may have been found: then r will be removed at the step boundary */
	return res.finish == FIN_NONE && !r->sched.cancelled;
}

/* no_mask: error of the grammar that has no mask, else NULL. */
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

/* Count an accepted draft at position `at`. */
static void
count_accepted(Core *c, int at)
{
	_Static_assert(offsetof(CoreStats, spec_accepted_31) - offsetof(CoreStats, spec_accepted_0) ==
				   (SPEC_MAX_DRAFTS - 1) * sizeof(int64_t), "a row of metrics.def for each position");
	c->stats.spec_accepted++;
	(&c->stats.spec_accepted_0)[at]++;
}

/*
 * r continues: advance `computed` over its tokens as far as they equal the drafts.  Returns true if the
 * step has a row after r's last token.
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
		r->accepted_tokens += n > 0;	/* commit_entry() has counted the first one */
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

/* Commit the i-th entry's token; returns false if it was its request's last one in this step. */
static bool
commit_entry(Core *c, PlanEntry *pe, int i, int32_t id, const float *raw)
{
	Req		   *r = pe->r;
	int			n_drafts = pe->n_drafts;
	bool		hit = n_drafts > 0 && id == r->spec->drafts.data[pe->draft_at];

	if (pe->sample && !r->sched.cancelled)
	{
		/* before the last event, which reports it */
		r->accepted_tokens += hit;
		if (commit_row(c, r, id, raw, constraints_mask(c->constraints, i),
					   constraints_error(c->constraints, i)))
			return n_drafts > 0 && follow(c, pe);
		/* r may be freed now */
		if (hit)
			count_accepted(c, pe->draft_at);
	}
	else if (r->pooled != NULL && req_todo(r) == 0 && !r->sched.cancelled)
		core_finish(c, r, -1, (OutResult) {.finish = FIN_STOP}, NULL);
	return false;
}

/* Commit a round; entries that continue are left in c->round, which may be `plan` itself. */
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
