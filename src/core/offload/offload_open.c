/*
 * offload_open.c
 *	  Open a core's offload tier: the areas of a block that it stores, and the model's id.
 *
 * The id covers everything beside tokens that decides the bits of K and V: the files, options and
 * program, whose hash the loader has put into CoreOptions.kv_id, and the core's layout of K and V.  So
 * blocks that another program, other kernels or another type have computed are never found.
 *
 * Tested by tests/unit/core/offload/test_offload.c.
 */
#include <string.h>

#include "base/blake2.h"
#include "base/clock.h"
#include "base/log.h"
#include "core/core_state.h"
#include "core/offload/offload.h"
#include "core/spec/spec.h"

/* how long the steps of other models may wait while a model gives up its K and V */
#define ALL_US	INT64_C(2000000)

static void
make_id(const Core *c, const KvView *draft, unsigned char id[KVTIER_KEY])
{
	const KvView *kv = &c->kv;
	const int32_t shape[] = {
		1,						/* version of this list, and of keys */
		(int32_t) kv->type, kv->n_layers, kv->n_kv_heads, kv->head_dim, kv->v_dim, kv->block_size,
		(int32_t) kv->block_stride, draft != NULL ? draft->n_layers : 0,
		draft != NULL ? (int32_t) draft->block_stride : 0
	};
	Blake2		b;

	blake2_begin(&b, NULL, 0);
	blake2_add(&b, c->opt.kv_id, sizeof(c->opt.kv_id));
	blake2_add(&b, shape, sizeof(shape));
	if (c->opt.kernels != NULL)
		blake2_add(&b, c->opt.kernels->name, strlen(c->opt.kernels->name));
	if (c->kv_scales != NULL)
		blake2_add(&b, c->kv_scales, (size_t) core_info(c)->n_kv_layers * 2 * sizeof(float));
	blake2_end(&b, id);
}

Offload *
core_offload_open(Core *c)
{
	const KvView *draft = c->spec != NULL ? spec_kv(c->spec) : NULL;
	unsigned char id[KVTIER_KEY];
	Offload    *o;
	Err			e;

	if (c->opt.kv_tier == NULL || c->prefix == NULL)
		return NULL;
	if (kvpool_window(c->pool) > 0)
	{
		log_line('I', "the model has layers with windows, whose KV cache is not offloaded "
					  "(vllm.disable_hybrid_kv_cache_manager)");
		return NULL;
	}
	make_id(c, draft, id);
	o = offload_open(&(OffloadSetup) {
		.tier = c->opt.kv_tier, .id = id, .pool = c->pool, .prefix = c->prefix,
			.block_size = c->opt.block_size,
		.always = c->opt.kv_always,
		.dev = c->opt.dev, .kernels = c->opt.kernels, .threads = c->opt.pool, .areas = {&c->kv, draft}
	}, &e);
	if (o == NULL)
		log_line('W', "the KV cache of this model is not offloaded: %s", e.msg);
	return o;
}

void
core_offload_all(Core *c)
{
	offload_all(c->offload, clock_us() + ALL_US);
}

void
core_flush_kv_to_tier(Core *c, int64_t deadline_us)
{
	if (c->offload != NULL)
		offload_all(c->offload, deadline_us);
}

void
core_offload_publish(const Core *c, CoreStats *st)
{
	const OffloadStats *o = offload_stats(c->offload);
	uint64_t	memory;
	uint64_t	files;

	offload_bytes(c->offload, &memory, &files);
	st->mem_offload = (int64_t) memory;
	st->offload_file_bytes = (int64_t) files;
	st->external_queries = o->queries;
	st->external_hits = o->hits;
	st->offload_out_bytes = o->out_bytes;
	st->offload_back_bytes = o->back_bytes;
	st->offload_dropped_bytes = o->dropped_bytes;
	st->offload_late = o->late;
}
