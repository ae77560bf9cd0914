/*
 * device_budget.c
 *	  Memory that a model may use on its device, and how it is measured (gpu_memory_plan.c has the
 *	  arithmetic).
 *
 * A step takes more memory than its planned work space: code that is loaded at its first call, scratch
 * of attention for the blocks of K and V, memory that the driver keeps.  How much is only known after a
 * step.  So a step of the greatest size is computed: as many sequences as possible share as many rows as
 * possible, with K and V in temporary memory.  If ranks share the model, rank 0 computes the step alone:
 * the other ranks have no K and V yet, and run steps of other models meanwhile.
 *
 * Tested by tests/t/103_cuda.pl.
 */
#include "core/device_budget.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/alloc.h"
#include "runtime/devices.h"
#include "core/spec/drafter.h"
#include "core/core_state.h"
#include "core/kv/layer_groups.h"
#include "core/ranks/ranks.h"
#include "core/batch_limits.h"
#include "core/spec/spec.h"

typedef struct DeviceBudgetStage
{
	Budget	   *b;
	bool		(*run) (void *ctx, Err *e);
	void	   *ctx;
} DeviceBudgetStage;

static void
mem_of(void *ctx, uint64_t *free_bytes, uint64_t *total)
{
	const Dev  *dev = ((DeviceBudgetStage *) ctx)->b->dev;

	dev->ops->mem(dev->d, free_bytes, total);
}

static bool
run_stage(void *ctx, Err *e)
{
	DeviceBudgetStage *s = ctx;

	return s->run(s->ctx, e);
}

bool
budget_stage(Budget *b, const char *what, bool (*run) (void *ctx, Err *e), void *ctx, Err *e)
{
	DeviceBudgetStage s = {b, run, ctx};
	GpuStage	stage = {what, run_stage};

	return gpumem_measure(&(GpuLoad) {.device = b->name, .ctx = &s, .mem = mem_of, .stages = &stage,
									  .n_stages = 1}, &b->mem, e);
}

/* ---- other users of the device ---- */

/* Return how many ranks of a replica use the device. */
static int
ranks_there(const Settings *s, int ordinal, int replica)
{
	int			n = 0;

	for (int r = 0; r < ranks_world(); r++)
	{
		DeviceChoice c;
		Err			ignored;

		n += devices_choose(s, replica, r, ranks_world(), &c, &ignored) && c.memory > 0 &&
			c.ordinal == ordinal;
	}
	return n;
}

void
budget_among(Budget *b, const Settings *s, int ordinal, int replica, bool shared)
{
	b->sharers = shared ? ranks_there(s, ordinal, replica) : 1;
	b->later = 0;
	for (int r = replica + 1; r < ranks_replicas(); r++)
		b->later += ranks_there(s, ordinal, r) > 0;
}

/* ---- a step of the greatest size ---- */

/* Arrays of a batch, in one allocation. */
typedef struct Largest
{
	int			n_seqs;
	int			rows;			/* rows of each sequence */
	int			blocks;			/* blocks of each sequence */
	int32_t    *tokens;
	int32_t    *pos;
	int32_t    *start;
	int32_t    *out;
	int32_t    *slots;
	int32_t    *block;
	const int32_t **tables;
} Largest;

static int32_t *
ints(size_t n)
{
	return mem_zalloc(n * sizeof(int32_t));
}

static void
largest_make(const Core *c, Largest *l)
{
	const CoreOptions *o = &c->opt;
	size_t		n;

	l->n_seqs = o->max_num_seqs;
	l->rows = o->max_num_batched_tokens / l->n_seqs;
	l->rows = l->rows < c->max_model_len ? l->rows : c->max_model_len;
	l->blocks = (l->rows + o->block_size - 1) / o->block_size;
	/* the following code writes to buffers of these sizes */
	ALWAYS(l->n_seqs > 0 && l->rows >= 0 && l->n_seqs * l->rows <= o->max_num_batched_tokens);
	n = (size_t) l->n_seqs * (size_t) l->rows;
	l->tokens = ints(n);
	l->pos = ints(n);
	l->start = ints((size_t) l->n_seqs + 1);
	l->out = ints((size_t) l->n_seqs);
	l->slots = ints((size_t) l->n_seqs);
	l->block = ints((size_t) l->n_seqs * (size_t) l->blocks);
	l->tables = mem_zalloc((size_t) l->n_seqs * sizeof(*l->tables));
	for (int s = 0; s < l->n_seqs; s++)
	{
		l->start[s + 1] = (s + 1) * l->rows;
		l->out[s] = (s + 1) * l->rows - 1;
		l->slots[s] = s;
		l->tables[s] = l->block + (size_t) s * (size_t) l->blocks;
		for (int i = 0; i < l->blocks; i++)
			l->block[s * l->blocks + i] = s * l->blocks + i;
		for (int i = 0; i < l->rows; i++)
			l->pos[s * l->rows + i] = i;
	}
}

static void
largest_free(Largest *l)
{
	mem_free(l->tokens);
	mem_free(l->pos);
	mem_free(l->start);
	mem_free(l->out);
	mem_free(l->slots);
	mem_free(l->block);
	mem_free(l->tables);
}

static bool
compute(Core *c, const Largest *l, const KvView *kv, Err *e)
{
	Batch		b = {
		.rows = {.n_rows = l->n_seqs * l->rows, .n_seqs = l->n_seqs, .seq_start = l->start, .pos = l->pos,
				 .block_table = l->tables,
			.state_slot = c->state_area.base != NULL ? l->slots : NULL},
		.tokens = l->tokens, .n_out = l->n_seqs, .out_rows = l->out, .state = c->state_area.base,
		.hidden = !core_info(c)->generates
	};

	if (!model_rehearse(c->model, &b, kv, b.hidden ? c->hidden.dev : c->logits.dev))
		return err_set(e, ERR_LOST, "the device that a model is computed on is lost");
	return dev_wait(c->opt.dev, e);
}

static bool
largest_step(void *ctx, Err *e)
{
	Core	   *c = ctx;
	const ModelInfo *info = core_info(c);
	Largest		l;
	KvView		kv = {
		.type = c->opt.kv_type, .n_layers = info->n_kv_layers, .block_size = c->opt.block_size,
		.n_kv_heads = info->n_kv_heads, .head_dim = info->head_dim, .v_dim = info->v_dim
	};
	DevMem		area = {0};
	bool		ok;

	largest_make(c, &l);
	kv.n_blocks = l.n_seqs * l.blocks;
	ok = info->n_kv_layers == 0 || devmem_reserve(&area, c->opt.dev, kv_layout(&kv), HUGE_OFF,
												  "K and V of a step of the greatest size", e);
	kv.base = area.base;
	ok = ok && compute(c, &l, &kv, e);
	devmem_free(&area);
	largest_free(&l);
	return ok;
}

/* ---- K and V ---- */

typedef struct Divide
{
	DeviceBudgetStage stage;			/* mem_of() needs it as the first member */
	Core	   *core;
	size_t		block;			/* bytes of a block, including the drafter's */
	Err			err;			/* why K and V could not be allocated, unless the device lacks memory */
} Divide;

/*
 * Use so many bytes for K and V.  The null block is in addition to bytes that were requested, but within
 * bytes that were measured.
 */
static bool
fit_length(Divide *d, uint64_t bytes, Err *e)
{
	Core	   *c = d->core;
	KvGroups	groups;

	c->opt.kv_bytes = (size_t) (c->opt.budget->kv_bytes > 0 || bytes < 2 * d->block ? bytes : bytes -
								d->block);
	groups = kvgroups_of(core_info(c), &c->opt);
	return sizing_length(c->opt.budget->fixed_len, c->max_model_len,
						 kvgroups_tokens(&groups, &c->opt, (int64_t) (c->opt.kv_bytes / d->block)),
						 &c->max_model_len, e);
}

static void *
take_kv(void *ctx, uint64_t bytes)
{
	Divide	   *d = ctx;
	Err			e = {0};

	if (fit_length(d, bytes, &e) && core_open_kv(d->core, &e))
		return d->core->kv_area.base;
	if (e.cls != ERR_NOMEM)
		d->err = e;
	return NULL;
}

bool
budget_divide(Core *c, Err *e)
{
	Budget	   *b = c->opt.budget;
	const ModelInfo *info = core_info(c);
	Divide		d = {.stage = {.b = b}, .core = c};
	GpuLoad		load = {.device = b->name, .ctx = &d, .mem = mem_of, .alloc_kv = take_kv};
	GpuRequest	req = {.utilization = b->utilization, .kv_bytes = b->kv_bytes, .sharers = b->sharers,
					   .later = b->later};
	KvView		one = {
		.type = c->opt.kv_type, .n_layers = kvgroups_of(info, &c->opt).layers, .n_blocks = 1,
		.block_size = c->opt.block_size, .n_kv_heads = info->n_kv_heads, .head_dim = info->head_dim,
		.v_dim = info->v_dim
	};

	uint64_t	kv;

	if (b->least)
	{
		c->opt.kv_blocks = c->max_model_len = 1;
		return core_open_kv(c, e);
	}
	if (!budget_stage(b, "a step of the greatest size", largest_step, c, e))
		return false;
	/* the model keeps no K and V, or only those of one step */
	if (info->n_kv_layers == 0 || info->both_ways)
		return core_open_kv(c, e);
	d.block = kv_layout(&one) + (c->opt.drafter != NULL ? drafter_block_bytes(&c->opt.drafter->info,
			c->opt.kv_type, c->opt.block_size) : 0);
	req.block_bytes = d.block;
	req.apart = c->spec != NULL ? spec_kv_apart(c->spec) : 0;
	if (!gpumem_budget(&load, &b->mem, &req, &kv, e) || !fit_length(&d, kv, e))
		return false;
	if (!gpumem_take(&load, &b->mem, &req, e))
	{
		if (d.err.cls != ERR_NONE)
			*e = d.err;
		return false;
	}
	log_line('I', "KV cache: %llu MB of device %s for %lld tokens", (unsigned long long) (c->kv_size >> 20),
			 b->name, (long long) kvpool_total(c->pool) * c->opt.block_size);
	return true;
}
