/*
 * forward.c
 *	  A planned step through the model: from rows to logits.
 *
 * core_forward() is the part of a step that takes the time: it copies blocks, fills the batch's arrays,
 * and runs the model; in steps with pooled requests, or log-probabilities of prompts, hidden rows are
 * then pooled or become logits.  Meanwhile grammars compute their masks (guided_decoding.c), and
 * drafters see the rows before and after it (spec.c).  A step of a bidirectional model is checked now
 * and then for whether all its requests have been cancelled.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "core/output/guided_decoding.h"
#include "runtime/devices.h"
#include "core/core_state.h"
#include "core/offload/offload.h"
#include "core/ranks/ranks.h"
#include "core/spec/spec.h"

#define PROGRESS_US 1000

/* ---- a plan as flat arrays ---- */

/* Allocated once, for the largest step; block tables are referenced, not copied. */
struct BatchBuf
{
	Batch		batch;
	int			max_rows;
	int			max_seqs;
	int32_t    *tokens;			/* [max_rows] */
	const float **embeds;		/* [max_rows] */
	int			embed_width;
	int32_t    *pos;			/* [max_rows] */
	int32_t    *seq_start;		/* [max_seqs + 1] */
	int32_t    *types;			/* [max_rows] */
	int32_t    *seen;			/* [max_seqs] */
	int32_t    *out_rows;		/* [max_rows] */
	const int32_t **tables;		/* [max_seqs] */
	int32_t    *slots;			/* [max_seqs], NULL = no state */
	const LoraAdapter **loras;	/* [max_seqs] */
};

BatchBuf *
batch_new(int max_rows, int max_seqs, int embed_width, float *state)
{
	BatchBuf   *b = mem_zalloc(sizeof(*b));

	b->max_rows = max_rows;
	b->max_seqs = max_seqs;
	b->tokens = mem_alloc((size_t) max_rows * sizeof(int32_t));
	b->embeds = mem_alloc((size_t) max_rows * sizeof(float *));
	b->embed_width = embed_width;
	b->pos = mem_alloc((size_t) max_rows * sizeof(int32_t));
	b->seq_start = mem_alloc(((size_t) max_seqs + 1) * sizeof(int32_t));
	b->types = mem_alloc((size_t) max_rows * sizeof(int32_t));
	b->seen = mem_alloc((size_t) max_seqs * sizeof(int32_t));
	b->out_rows = mem_alloc((size_t) max_rows * sizeof(int32_t));
	b->tables = mem_alloc((size_t) max_seqs * sizeof(int32_t *));
	b->loras = mem_alloc((size_t) max_seqs * sizeof(LoraAdapter *));
	if (state != NULL)
		b->slots = mem_alloc((size_t) max_seqs * sizeof(int32_t));
	b->batch.state = state;
	b->batch.rows.state_slot = b->slots;
	b->batch.tokens = b->tokens;
	b->batch.out_rows = b->out_rows;
	b->batch.rows.pos = b->pos;
	b->batch.rows.seq_start = b->seq_start;
	b->batch.rows.block_table = b->tables;
	return b;
}

void
batch_free(BatchBuf *b)
{
	if (b == NULL)
		return;
	mem_free(b->tokens);
	mem_free(b->embeds);
	mem_free(b->pos);
	mem_free(b->seq_start);
	mem_free(b->types);
	mem_free(b->seen);
	mem_free(b->out_rows);
	mem_free(b->tables);
	mem_free(b->slots);
	mem_free(b->loras);
	mem_free(b);
}

/* Set the token types of a pooled sequence's rows; returns true if some are not 0. */
static bool
set_types(BatchBuf *b, int row, const PlanEntry *pe)
{
	int			at = pe->r->seq.type1_at;

	for (int i = 0; i < pe->n; i++)
		b->types[row + i] = pe->r->kv.computed + i >= at;
	return pe->r->kv.computed + pe->n > at;
}

/*
 * If r's prompt is embeddings, set the rows of those of the n tokens, from `row` on, that belong to it.
 * Returns true if there are any.
 */
static bool
set_embeds(BatchBuf *b, int row, const Req *r, int n)
{
	for (int i = 0; i < n; i++)
	{
		size_t		pos = (size_t) (r->kv.computed + i);

		b->embeds[row + i] = r->in.embeds != NULL && pos < (size_t) r->in.n_prompt ? r->in.embeds +
			pos * (size_t) b->embed_width : NULL;
	}
	return r->in.embeds != NULL && r->kv.computed < r->in.n_prompt;
}

const Batch *
batch_build(BatchBuf *b, const Plan *plan)
{
	int			row = 0;
	int			n_out = 0;
	bool		typed = false;
	bool		hides = false;
	bool		embeds = false;
	bool		adapted = false;

	/* the arrays written below have that size */
	ALWAYS(plan->n <= b->max_seqs && plan->n_rows <= b->max_rows);
	for (int s = 0; s < plan->n; s++)
	{
		const PlanEntry *pe = &plan->e[s];

		ALWAYS(row + pe->n <= plan->n_rows && n_out + pe->n_out + plan_logits(pe) <= b->max_rows);
		b->seq_start[s] = row;
		b->seen[s] = pe->r->seq.seen_to > 0 ? pe->r->seq.seen_to : INT32_MAX;
		hides = hides || b->seen[s] != INT32_MAX;
		b->tables[s] = pe->r->kv.blocks.data;
		b->loras[s] = pe->r->in.lora;
		adapted = adapted || pe->r->in.lora != NULL;
		if (b->slots != NULL)
			b->slots[s] = pe->r->kv.slot;
		memcpy(b->tokens + row, pe->r->tokens.data + pe->r->kv.computed,
			   (size_t) (pe->n - pe->n_drafts) * sizeof(int32_t));
		if (pe->n_drafts > 0)
			memcpy(b->tokens + row + pe->n - pe->n_drafts, pe->r->spec->drafts.data,
				   (size_t) pe->n_drafts * sizeof(int32_t));
		embeds = set_embeds(b, row, pe->r, pe->n) || embeds;
		for (int i = 0; i < pe->n; i++)
			b->pos[row + i] = pe->r->kv.computed + i;
		for (int i = 0; i < pe->n_out; i++)
			b->out_rows[n_out++] = row + pe->out_at + i;
		if (pe->r->pooled != NULL)
			typed = set_types(b, row, pe) || typed;
		else
			memset(b->types + row, 0, (size_t) pe->n * sizeof(int32_t));
		row += pe->n;
		for (int i = plan_logits(pe); i > 0; i--)
			b->out_rows[n_out++] = row - i;
	}
	b->seq_start[plan->n] = row;
	b->batch.rows.n_rows = row;
	b->batch.rows.n_seqs = plan->n;
	b->batch.n_out = n_out;
	b->batch.hidden = plan->pools;
	b->batch.lora = adapted ? b->loras : NULL;
	b->batch.embeds = embeds ? b->embeds : NULL;
	b->batch.types = typed ? b->types : NULL;
	b->batch.seen = hides ? b->seen : NULL;
	return &b->batch;
}

/* ---- the step ---- */

void
core_copy_blocks(const Kernels *k, KPool *pool, const KvView *kv, const Plan *plan)
{
	_Static_assert(sizeof(BlockCopy) == 2 * sizeof(int32_t), "pairs");
	if (plan->n_copies > 0)
		k->kv_copy(pool, kv, &plan->copies->from, plan->n_copies);
}

static void
wait_for(const Dev *dev)
{
	Err			e;

	if (dev != NULL && !dev_wait(dev, &e))
		devices_lost(e.msg);
}

void
core_wait(const Core *c)
{
	wait_for(c->opt.dev);
}

void
core_to_host(const HostDev *h, size_t from, size_t n)
{
	hostdev_get(h, from, n);
	wait_for(h->on);
}

/* Process hidden rows: pool those of pooled requests, and compute logits from the others. */
static void
pool_rows_of_step(Core *c, const Plan *plan, int n_rows)
{
	size_t		width = (size_t) core_info(c)->hidden_size;
	PoolStep	s = {.model = c->model, .k = c->opt.kernels, .pool = c->opt.pool, .hidden = &c->hidden,
					 .logits = &c->logits, .head_in = &c->head_in,
		.head_out = &c->head_out, .max_logits = core_max_logits(&c->opt), .loras = c->loras,
		.n_valid = c->defaults.n_valid};
	int			at = 0;
	int			n = 0;
	bool		adapted = false;

	if (!pooled_by_ops(&s))
		core_to_host(&c->hidden, 0, (size_t) n_rows * width);
	pooled_collect(&s, plan);
	logprobs_collect(&s, plan);
	for (int i = 0; i < plan->n; i++)
	{
		int			wanted = plan_logits(&plan->e[i]);

		at += plan->e[i].n_out;
		for (int k = 0; k < wanted; k++)
		{
			c->loras[n + k] = plan->e[i].r->in.lora;
			c->keep[n + k] = at + k;
		}
		adapted = adapted || (wanted > 0 && plan->e[i].r->in.lora != NULL);
		n += wanted;
		at += wanted;
	}
	if (at > n)
		c->opt.kernels->keep_rows(c->opt.pool, c->hidden.dev, sizeof(float), c->keep, n, (int) width);
	model_logits(c->model, c->hidden.dev, adapted ? c->loras : NULL, n, c->logits.dev);
}

typedef struct ForwardStop
{
	Core	   *core;
	const Plan *plan;
} ForwardStop;

/* Called during a long step: report that the engine does not hang, and process the inbox. */
static void
report_progress(void *ctx)
{
	Core	   *c = ctx;

	if (c->on_progress != NULL)
		c->on_progress(c->progress_ctx, false);
	core_drain(c);
}

/* Return true if other cores may compute in the middle of this step; not if ranks or a device compute it. */
static bool
may_stand(const Core *c)
{
	return c->opt.dev == NULL && c->opt.ranks == NULL;
}

/*
 * The step is between two operations, of which none takes long.  Now and then other cores may compute
 * before it continues.
 */
static void
between_operations(Core *c)
{
	int64_t		now = clock_us();

	if (now - c->progress_us < PROGRESS_US)
		return;
	if (c->on_progress != NULL)
	{
		c->on_progress(c->progress_ctx, may_stand(c));
		c->progress_us = clock_us();
		c->stood_us += c->progress_us - now;
		if (c->opt.pool != NULL)
			kpool_bind(c->opt.pool);
	}
	else
		c->progress_us = now;
	/* a step with sequences that can't be divided may be long: it is stopped when all are cancelled */
	if (core_info(c)->both_ways)
		core_drain(c);
}

/* While a device computes, move blocks to the offload tier. */
static bool
moves_on(void *ctx)
{
	return offload_work(((Core *) ctx)->offload);
}

/* Return true if all requests of the step have been cancelled; called during the step, on its thread. */
static bool
unwanted(void *ctx)
{
	const ForwardStop *s = ctx;

	between_operations(s->core);
	if (!core_info(s->core)->both_ways)
		return false;
	for (int i = 0; i < s->plan->n; i++)
		if (!s->plan->e[i].r->sched.cancelled)
			return false;
	return true;
}

bool
core_forward(Core *c, const Plan *plan)
{
	Batch		b = *batch_build(c->batch, plan);
	ForwardStop	stop = {c, plan};

	if (c->offload != NULL)
		offload_fence(c->offload);
	core_copy_blocks(c->opt.kernels, c->opt.pool, &c->kv, plan);
	if (c->opt.ranks != NULL)
		ranks_copy(c->opt.ranks, plan->copies, plan->n_copies);
	/* on a device it may have another address than when the batch's arrays were made */
	b.state = c->state_area.base;
	constraints_begin(c->constraints, plan);
	profile_mark(c->opt.profile, PROF_SCHEDULE);
	b.wait = report_progress;
	b.work = c->offload != NULL ? moves_on : NULL;
	b.wait_ctx = c;
	if (core_info(c)->both_ways || may_stand(c))
	{
		b.stop = unwanted;
		b.stop_ctx = &stop;
	}
	if (c->spec != NULL)
		spec_before(c->spec, plan, &b);
	if (!model_forward(c->model, &b, &c->kv, plan->pools ? c->hidden.dev : c->logits.dev))
	{
		ranks_check();
		if (model_lost(c->model))
			devices_lost("the device that a model is computed on is lost");
		return false;
	}
	if (plan->pools)
		pool_rows_of_step(c, plan, b.n_out);
	ranks_check();
	if (c->spec != NULL)
		spec_step(c->spec, &(SpecStep) {.plan = plan, .batch = &b, .kv = &c->kv});
	return true;
}
