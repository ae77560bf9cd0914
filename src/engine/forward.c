/*
 * forward.c
 *	  A planned step through the model: from rows to logits.
 *
 * core_forward() is what the step thread waits for: blocks that are to be copied first, the batch's arrays,
 * the model, and of steps with pooled requests, or log-probabilities of prompts, hidden rows that are
 * worked off or become logits.  Beside it grammars say what is allowed (constraint.c), and drafters see
 * the rows before and behind it (spec.c).  A step of a model both ways is asked on its way whether
 * anybody still wants it.
 */
#include <string.h>

#include "engine/constraint.h"
#include "engine/engine_int.h"
#include "engine/spec.h"

/* Hidden rows: those of pooled requests are worked off, the others become logits. */
static void
pool_rows_of_step(Core *c, const Plan *plan)
{
	size_t		width = (size_t) core_info(c)->hidden_size;
	PoolStep	s = {.model = c->model, .pool = c->opt.pool, .hidden = c->hidden, .logits = c->logits,
		.max_logits = core_max_logits(&c->opt), .loras = c->loras, .n_valid = c->defaults.n_valid};
	int			at = 0;
	int			n = 0;
	bool		adapted = false;

	pooled_collect(&s, plan);
	logprobs_collect(&s, plan);
	for (int i = 0; i < plan->n; i++)
	{
		int			wanted = plan_logits(&plan->e[i]);

		at += plan->e[i].n_out;
		if (at > n)
			memmove(c->hidden + (size_t) n * width, c->hidden + (size_t) at * width, (size_t) wanted * width * sizeof(float));
		for (int k = 0; k < wanted; k++)
			c->loras[n + k] = plan->e[i].r->lora;
		adapted = adapted || (wanted > 0 && plan->e[i].r->lora != NULL);
		n += wanted;
		at += wanted;
	}
	model_logits(c->model, c->hidden, adapted ? c->loras : NULL, n, c->logits);
}

typedef struct Stop
{
	Core	   *core;
	const Plan *plan;
} Stop;

/* Does nobody want the step any more?  Asked on its way, on the step thread. */
static bool
unwanted(void *ctx)
{
	const Stop *s = ctx;

	if (s->core->on_progress != NULL)
		s->core->on_progress(s->core->progress_ctx);
	core_drain(s->core);
	for (int i = 0; i < s->plan->n; i++)
		if (!s->plan->e[i].r->cancelled)
			return false;
	return true;
}

bool
core_forward(Core *c, const Plan *plan)
{
	Batch		b = *batch_build(c->batch, plan);
	Stop		stop = {c, plan};

	if (plan->n_copies > 0)
		c->opt.kernels->kv_copy(c->opt.pool, &c->kv, (const int32_t *) plan->copies, plan->n_copies);
	constraints_begin(c->constraints, plan);
	profile_mark(c->opt.profile, PROF_SCHEDULE);
	if (core_info(c)->both_ways)
	{
		b.stop = unwanted;
		b.stop_ctx = &stop;
	}
	if (c->spec != NULL)
		spec_before(c->spec, plan, &b);
	if (!model_forward(c->model, &b, &c->kv, plan->pools ? c->hidden : c->logits))
		return false;
	if (plan->pools)
		pool_rows_of_step(c, plan);
	if (c->spec != NULL)
		spec_step(c->spec, &(SpecStep) {.plan = plan, .batch = &b, .kv = &c->kv});
	return true;
}
