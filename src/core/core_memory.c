/*
 * core_memory.c
 *	  How a core's memory is used: the counters mem_*.
 *
 * Areas are mapped as a whole and get memory when they are touched.  Weights and work space are counted
 * as a whole, since a step of the greatest size touches all of them.  Of the KV cache, pages count that
 * have been allocated at least once, as no memory is returned before the model sleeps or is freed.
 * Recurrent state and logits count completely.  The drafter's memory is added to each of them.
 *
 * Tested by tests/unit/core/test_memory.c against the operating system's numbers.
 */
#include "base/alloc.h"
#include "core/spec/drafter.h"
#include "core/core_state.h"
#include "core/kv/layer_groups.h"
#include "core/offload/offload.h"
#include "core/kv/pinned_prefix.h"
#include "core/spec/spec.h"

/* Return the bytes of rows of logits and of similar arrays. */
static size_t
rows_memory(const Core *c)
{
	return c->logits_size + c->hidden_size + c->raw_size + 2 * c->fork_size;
}

/*
 * Return the part of other memory that core_suspend() frees: those rows, and the memory of a drafter
 * with weights.
 */
static size_t
given_back(const Core *c)
{
	return rows_memory(c) + (c->spec != NULL && c->opt.drafter != NULL ? spec_memory(c->spec) : 0);
}

void
memory_open(Core *c)
{
	const ModelInfo *info = core_info(c);
	KvGroups	groups = kvgroups_of(info, &c->opt);
	size_t		blocks = (size_t) kvpool_total(c->pool) + 1;
	size_t		per_block = 24;	/* for block_pool.c */

	/* for prefix_index.c: a node, its tokens, and its share of two tables */
	if (c->prefix != NULL)
		per_block += 64 + (size_t) c->opt.block_size * sizeof(int32_t) + 8 + pins_block_bytes();
	if (groups.window > 0)
		per_block += 32 + 4 * (size_t) (groups.full + groups.window);
	c->other_memory = (int64_t) (rows_memory(c) + blocks * per_block);
	if (c->spec != NULL)
		c->other_memory += (int64_t) spec_memory(c->spec);
	if (c->offload != NULL)
		c->other_memory += (int64_t) offload_memory(c->offload);
	c->stats.kv_tokens = info->n_kv_layers > 0 ? kvgroups_tokens(&groups, &c->opt, kvpool_pages(c->pool)) : 0;
}

void
memory_publish(const Core *c, CoreStats *st)
{
	const ModelInfo *info = core_info(c);
	const ModelInfo *draft = c->opt.drafter != NULL ? &c->opt.drafter->info.model : NULL;

	st->mem_weights = (int64_t) (info->weights_memory + (draft != NULL ? draft->weights_memory : 0));
	st->mem_work = (int64_t) (info->work_memory + (draft != NULL ? draft->work_memory : 0));
	st->mem_kv = (int64_t) (c->kv_size / (size_t) c->kv.n_blocks + c->draft_block) * kvpool_touched(c->pool);
	st->mem_other = c->other_memory - (c->given_back ? (int64_t) given_back(c) : 0);
	st->mem_state = c->given_back ? 0 : (int64_t) info->state_bytes * c->opt.max_num_seqs;
	st->kv_pinned_tokens = pins_tokens(c->pins);
}
