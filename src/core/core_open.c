/*
 * core_open.c
 *	  Allocate what a core has for its whole life: the KV area and its blocks, recurrent state, rows of
 *	  logits and hidden values, scheduler, sampler, constraints.
 *
 * Large areas are mapped, and get memory when they are first touched.  core_free() releases all of them,
 * also if core_open() fails half way.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/alloc.h"
#include "base/machine/system_memory.h"
#include "core/device_budget.h"
#include "core/output/guided_decoding.h"
#include "core/spec/drafter.h"
#include "core/core_state.h"
#include "core/kv/layer_groups.h"
#include "core/kv/block_lifetime.h"
#include "core/kv/pinned_prefix.h"
#include "core/ranks/ranks.h"
#include "core/sample/sample_device.h"
#include "core/spec/spec.h"

/* cost of an operation of attention relative to one of a matmul */
#define ATTN_FACTOR 2.0

/* Map zeroed address space that gets memory when it is touched. */
static void *
map_area(size_t size)
{
	void	   *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
						 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* The model has no K and V: blocks are only counted, and one is enough for any request. */
static bool
open_no_kv(Core *c)
{
	int			n = c->opt.kv_blocks > 0 ? c->opt.kv_blocks : 2 * c->opt.max_num_seqs;

	if (c->opt.kv_blocks == 0)
		c->opt.block_size = (c->max_model_len + 15) / 16 * 16;
	c->kv.block_size = c->opt.block_size;
	c->kv.n_blocks = n + 1;
	c->pool = kvpool_new(c->kv.n_blocks);
	return true;
}

static bool
open_state(Core *c, Err *e)
{
	uint64_t	one = core_info(c)->state_bytes;
	size_t		size;
	char		what[80];

	if (one == 0)
		return true;
	snprintf(what, sizeof(what), "The recurrent state of %d requests", c->opt.max_num_seqs);
	if (!mem_mul((size_t) one, (size_t) c->opt.max_num_seqs, &size))
		return err_set(e, ERR_NOMEM, "out of memory: %s is too large", what);
	return devmem_reserve(&c->state_area, c->opt.dev, size, c->opt.huge, what, e);
}

#define MAX_BLOCKS	(1 << 20)

/*
 * Set up blocks of several pages: as many as there are pages for full-attention layers; without such
 * layers, as many as sequences may need.
 */
static void
open_windows(Core *c, const KvGroups *g)
{
	const CoreOptions *o = &c->opt;
	int			pages = c->kv.n_blocks - 1;
	int64_t		n = g->full > 0 ? pages / g->full :
		pages / g->window + (int64_t) o->max_num_seqs * (c->max_model_len / o->block_size + 1);

	n = n < MAX_BLOCKS || g->full > 0 ? n : MAX_BLOCKS;
	ALWAYS(n >= 0 && n < INT32_MAX && pages > 0);
	c->pool = kvpool_new_windows((int) n + 1, pages, g->full, g->window);
	c->kv_parts = kvgroups_parts(g, core_info(c));
	c->kv.pages = kvpool_map(c->pool);
	c->kv.n_parts = g->full + g->window;
	c->kv.parts = c->kv_parts;
	log_line('I', "KV cache: %d of %d layers keep their last %d tokens only", core_info(c)->n_kv_windows,
			 core_info(c)->n_kv_layers, g->reach);
}

/*
 * Check that there is memory: the KV area gets memory as it is used, but the tables of blocks (pool,
 * prefix cache) get theirs at once.
 */
#define BLOCK_TABLES	128		/* bytes per block, at most */
#define TOKEN_TABLES	4		/* bytes of the tables per token */

static bool
memory_for_kv(const Core *c, const char *what, Err *e)
{
	uint64_t	tables = (uint64_t) c->kv.n_blocks * (uint64_t) (BLOCK_TABLES +
																 TOKEN_TABLES * c->opt.block_size);
	uint64_t	have = sysmem_available("");

	if (tables > have / 2)
	{
		err_set(e, ERR_NOMEM, "out of memory: %s is too large", what);
		err_detail(e, "Its tables alone take %llu MB, and %llu MB are available.",
				   (unsigned long long) tables >> 20, (unsigned long long) have >> 20);
		return err_hint(e, "Lower vllm.kv_cache_memory_bytes, or the model's option kv_cache_memory_bytes.");
	}
	if (c->kv_size > have && c->opt.dev == NULL)
		log_line('W', "%s may grow to %llu MB, and %llu MB of memory are available", what,
				 (unsigned long long) c->kv_size >> 20, (unsigned long long) have >> 20);
	return true;
}

/*
 * Allocate the KV area: kv_blocks, or as many as fit in kv_bytes.  The null block is in addition: it is
 * never touched, so it only takes address space.
 */
bool
core_open_kv(Core *c, Err *e)
{
	const CoreOptions *o = &c->opt;
	const ModelInfo *info = core_info(c);
	size_t		more = o->drafter != NULL ? drafter_block_bytes(&o->drafter->info, o->kv_type,
																o->block_size) : 0;
	KvGroups	groups;
	size_t		one,
				n;
	int64_t		fits;
	char		what[64];

	/* the drafter has K and V of its own for each block */
	c->opt.no_windows = o->no_windows || more > 0;
	c->draft_block = more;
	groups = kvgroups_of(info, o);
	c->kv = (KvView) {
		.type = o->kv_type, .n_layers = groups.layers, .n_blocks = 1, .block_size = o->block_size,
		.n_kv_heads = info->n_kv_heads, .head_dim = info->head_dim, .v_dim = info->v_dim
	};
	if (info->n_kv_layers == 0)
		return open_no_kv(c);
	one = kv_layout(&c->kv);
	if (one == 0)
		return err_set(e, ERR_NOMEM, "KV cache block of %d tokens is too large", o->block_size);
	n = o->kv_blocks > 0 ? (size_t) o->kv_blocks * (size_t) (groups.full + groups.window) :
		o->kv_bytes / (one + more);
	if (n < 1)
	{
		err_set(e, ERR_INVALID, "KV cache of %zu bytes is too small", o->kv_bytes);
		return err_detail(e, "A block of %d tokens takes %zu bytes.", o->block_size, one + more);
	}
	c->kv.n_blocks = n < INT32_MAX ? (int) n + 1 : INT32_MAX;
	c->kv_size = kv_layout(&c->kv);
	snprintf(what, sizeof(what), "The KV cache of %d blocks", c->kv.n_blocks);
	if (c->kv_size == 0)
		return err_set(e, ERR_NOMEM, "out of memory: %s is too large", what);
	if (!memory_for_kv(c, what, e) || !devmem_reserve(&c->kv_area, o->dev, c->kv_size, o->huge, what, e))
		return false;
	c->kv.base = c->kv_area.base;
	if (groups.window > 0)
		open_windows(c, &groups);
	else
		c->pool = kvpool_new(c->kv.n_blocks);
	fits = kvgroups_tokens(&groups, o, kvpool_pages(c->pool));
	if (fits < c->max_model_len - 1)
		log_line('W', "KV cache holds %lld tokens, less than the maximum model length of %d",
				 (long long) fits, c->max_model_len);
	return true;
}

/* Compute the sizes of rows of logits, and of the model's hidden rows. */
static void
row_sizes(Core *c, const CoreOptions *o, const ModelInfo *info)
{
	c->logits_size = (size_t) core_max_logits(o) * (size_t) info->vocab_size * sizeof(float);
	c->hidden_size = (size_t) o->max_num_batched_tokens * (size_t) info->hidden_size * sizeof(float);
	c->raw_size = (size_t) o->max_num_seqs * (size_t) info->vocab_size * sizeof(float);
	c->fork_size = (size_t) FORK_ROWS * (size_t) info->vocab_size * sizeof(float);
}

static bool
open_rows(Core *c, Err *e)
{
	const Dev  *dev = c->opt.dev;
	size_t		head_in,
				head_out;

	row_sizes(c, &c->opt, core_info(c));
	if (!hostdev_new(&c->logits, dev, c->logits_size / sizeof(float), "logits", e) ||
		!hostdev_new(&c->hidden, dev, c->hidden_size / sizeof(float), "hidden rows", e))
		return false;
	pooled_space(core_info(c), &head_in, &head_out);
	return dev == NULL || head_out == 0 ||
		(hostdev_new(&c->head_in, dev, (size_t) c->opt.max_num_seqs * head_in, "rows of heads", e) &&
		 hostdev_new(&c->head_out, dev, head_out, "rows of heads", e));
}

/* Allocate what a core has on its device besides K and V. */
static bool
open_rest(void *ctx, Err *e)
{
	Core	   *c = ctx;
	SmpDevSizes smp = {.rows = c->opt.max_num_seqs, .width = core_info(c)->vocab_size,
					   .n_valid = c->defaults.n_valid, .tokens = c->max_model_len};

	/*
	 * A core that never runs makes no drafts, and leaves the device's memory to the core that gets its
	 * weights.  A tap needs all rows on the host, so then the device does not sample.
	 */
	return open_rows(c, e) && open_state(c, e) && (c->opt.spec.type == NULL || c->opt.never_runs ||
												   spec_open(c, &c->opt.spec, &c->spec, e)) &&
		(c->opt.tap != NULL || smpdev_new(&c->smpdev, c->opt.dev, c->opt.pool, &smp, e));
}

/* Allocate all areas that the ops use. */
static bool
open_areas(Core *c, Err *e)
{
	if (c->opt.budget == NULL)
		return open_rest(c, e) && core_open_kv(c, e);
	return budget_stage(c->opt.budget, "rows of results, recurrent state and drafts", open_rest, c, e) &&
		budget_divide(c, e);
}

bool
core_check_options(const CoreOptions *o, int model_len, Err *e)
{
	int			len = o->max_model_len > 0 ? o->max_model_len : model_len;

	if (o->max_num_seqs < 1)
		return err_set(e, ERR_INVALID, "max_num_seqs must be at least 1, got %d", o->max_num_seqs);
	if (o->max_num_batched_tokens < o->max_num_seqs)
		return err_set(e, ERR_INVALID, "max_num_batched_tokens must be at least max_num_seqs (%d), got %d",
					   o->max_num_seqs, o->max_num_batched_tokens);
	if (o->block_size < 16 || o->block_size % 16 != 0)
		return err_set(e, ERR_INVALID, "block_size must be a multiple of 16, got %d", o->block_size);
	if (o->max_model_len < 0 || o->max_model_len > model_len)
		return err_set(e, ERR_INVALID, "max_model_len must be between 0 and the model's %d, got %d",
					   model_len, o->max_model_len);
	if (o->long_prompt > len)
		return err_set(e, ERR_INVALID, "long_prefill_token_threshold must be at most the model's length of "
									   "%d, got %d", len,
					   o->long_prompt);
	if (o->max_partial > 0 && o->max_long_partial > o->max_partial)
		return err_set(e, ERR_INVALID, "max_long_partial_prefills must be at most max_num_partial_prefills "
									   "(%d), got %d", o->max_partial,
					   o->max_long_partial);
	return true;
}

bool
core_open(Core *c, const Conf *conf, Err *e)
{
	const ModelInfo *info = core_info(c);
	const CoreOptions *o = &c->opt;
	double		attn = 4.0 * info->n_heads * info->head_dim * info->n_kv_layers;
	SchedOptions so = {
		.max_seqs = o->max_num_seqs, .max_rows = o->max_num_batched_tokens,
		.slots = info->state_bytes > 0, .priorities = o->priorities, .background_share = o->background_share,
		.step_target_us = o->step_target_us, .max_chunk = o->max_chunk, .max_loras = o->max_loras,
		.attn_weight = info->n_params > 0 ? ATTN_FACTOR * attn / (2.0 * (double) info->n_params) : 0
	};

	gendefaults_init(&c->defaults, conf, c->tok, info->vocab_size);
	if (!core_check_options(o, info->max_model_len, e))
		return false;
	c->max_model_len = o->max_model_len > 0 ? o->max_model_len : info->max_model_len;
	if (!open_areas(c, e))
		return false;
	c->opt.budget = NULL;
	/*
	 * Computing FP8 scales needs KV blocks for a dummy prompt, which a core that never runs does not have.  A
	 * step may also migrate experts, and the core that takes over the weights expects them at their initial
	 * ranks.
	 */
	if ((!o->never_runs && !kvscales_open(c, e)) ||
		(o->ranks != NULL && !ranks_kv(o->ranks, info, &c->kv, o->max_num_seqs, e)))
		return false;
	so.block_size = o->block_size;
	so.max_partial = o->max_partial;
	so.max_long_partial = o->max_long_partial > 0 ? o->max_long_partial : 1;
	so.long_prompt = o->long_prompt;
	/* vLLM's default */
	if (so.long_prompt == 0 && so.max_partial > 1)
		so.long_prompt = c->max_model_len / 25;
	so.window = kvpool_window(c->pool) > 0 ? info->kv_window : 0;
	if (o->prefix_caching && prefix_cache_supported(info))
		so.prefix = c->prefix = prefix_new(kvpool_total(c->pool) + 1, o->block_size);
	if (o->kv_sample > 0)
		so.life = c->life = kvlife_new(kvpool_total(c->pool) + 1, o->kv_sample, c->stats.kv_life);
	so.pins = c->pins = pins_new(c->pool, c->prefix, o->block_size, so.window);
	if (c->spec != NULL && !spec_open_kv(c->spec, e))
		return false;
	so.spec = c->spec;
	so.offload = c->offload = core_offload_open(c);
	so.max_logits = core_max_logits(o);
	c->raw = map_area(c->raw_size);
	c->fork_logits = map_area(c->fork_size);
	c->fork_processed = map_area(c->fork_size);
	if (c->raw == NULL || c->fork_logits == NULL || c->fork_processed == NULL)
		return err_set(e, ERR_NOMEM, "could not map %zu bytes of logits", c->logits_size);
	c->fork_rows = mem_zalloc(FORK_ROWS * sizeof(SampleRow));
	if (o->accounts == NULL)
		c->accounts = accounts_new();
	c->gate = admission_new(o->accounts != NULL ? o->accounts : c->accounts);
	c->next_deadline_us = INT64_MAX;
	c->sched = sched_new(c->pool, &so);
	c->batch = batch_new(o->max_num_batched_tokens, o->max_num_seqs, info->embed_width,
						 (float *) c->state_area.base);
	c->sampler = smp_new(o->pool, info->vocab_size, c->defaults.n_valid);
	if (plugins_count(o->plugins) > 0 && info->generates)
	{
		PluginHost *host = plugin_host_new(o->plugins, c->defaults.n_valid, c->defaults.eos, e);

		if (host == NULL)
			return false;
		smp_use_plugins(c->sampler, host);
	}
	c->rows = mem_zalloc((size_t) o->max_num_seqs * sizeof(SampleRow));
	c->loras = mem_zalloc((size_t) core_max_logits(o) * sizeof(LoraAdapter *));
	c->keep = mem_alloc((size_t) core_max_logits(o) * sizeof(int32_t));
	c->notes = mem_zalloc((size_t) o->max_num_seqs * sizeof(LogprobRow));
	if (c->spec != NULL)
		c->round.e = mem_zalloc((size_t) o->max_num_seqs * sizeof(PlanEntry));
	c->constraints = constraints_new(c->tok, &c->defaults.eos_all, c->defaults.n_valid, o->max_num_seqs,
									 !o->no_jump);
	memory_open(c);
	return true;
}

/* ---- memory of a core ---- */

int64_t
core_memory(const Core *c)
{
	const ModelInfo *info = core_info(c);

	if (c->opt.dev != NULL && c->opt.dev->memory > 0)
		return (int64_t) info->weight_bytes + core_rows_memory(info, &c->opt);
	return (int64_t) (info->weight_bytes + c->kv_size + c->draft_block * (uint64_t) c->kv.n_blocks +
					  (uint64_t) c->opt.max_num_seqs * info->state_bytes) +
		core_rows_memory(info, &c->opt) + core_work_memory(c);
}

int64_t
core_work_memory(const Core *c)
{
	if (c->opt.dev != NULL && c->opt.dev->memory > 0)
		return 0;
	return (int64_t) (core_info(c)->work_memory +
					  (c->opt.drafter != NULL ? c->opt.drafter->info.model.work_memory : 0));
}

int64_t
core_rows_memory(const ModelInfo *info, const CoreOptions *o)
{
	Core		c;

	row_sizes(&c, o, info);
	return (int64_t) (c.logits_size + c.hidden_size + c.raw_size + 2 * c.fork_size);
}

void
core_cache_facts(const Core *c, CacheFacts *out)
{
	const char *type = ktype_name(c->opt.kv_type);

	memset(out, 0, sizeof(*out));
	if (core_info(c)->both_ways)
		return;
	out->block_size = c->opt.block_size;
	out->prefix_caching = c->prefix != NULL;
	for (size_t i = 0; type[i] != '\0' && i + 1 < sizeof(out->dtype); i++)
		out->dtype[i] = (char) tolower((unsigned char) type[i]);
}
