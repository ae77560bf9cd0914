/*
 * backend_control.c
 *	  ModelControl of the real backend: state, caches, sleep, swap of weights.
 *
 * Tested by tests/unit/server/models/test_sleep.c, tests/t/092_kv.pl and tests/t/093_sleep.pl.
 */
#include "backend/backend_core.h"

#include <string.h>

#include "backend/offload_tier.h"

static void
stats(const BackendModel *in, CoreStats *out)
{
	if (in->core != NULL)
		core_stats(in->core, out);
	else
		memset(out, 0, sizeof(*out));
	for (const BackendModel *r = in->next; r != NULL; r = r->next)
	{
		CoreStats	more;

		core_stats(r->core, &more);
		replicas_add(out, &more);
	}
}

static bool
check_state(const BackendModel *in, Err *e)
{
	for (const BackendModel *r = in; r != NULL && r->core != NULL; r = r->next)
		if (!core_check(r->core, e))
			return false;
	return true;
}

static void
reset_prefix_cache(BackendModel *in)
{
	for (BackendModel *r = in; r != NULL && r->core != NULL; r = r->next)
		core_reset_prefix_cache(r->core);
	if (in->queue != NULL)
		replicas_forget(in->queue);
}

static void
flush_kv_to_tier(BackendModel *in, int64_t deadline_us)
{
	for (BackendModel *r = in; r != NULL && r->core != NULL; r = r->next)
		core_flush_kv_to_tier(r->core, deadline_us);
}

static void
pins(const BackendModel *in, void (*emit) (void *ctx, const PinInfo *i), void *ctx)
{
	for (const BackendModel *r = in; r != NULL && r->core != NULL; r = r->next)
		core_pins(r->core, emit, ctx);
}

static bool
unpin(BackendModel *in, uint64_t id)
{
	for (BackendModel *r = in; r != NULL && r->core != NULL; r = r->next)
		if (core_unpin(r->core, id))
			return true;
	return false;
}

static void
suspend(BackendModel *in, bool free_kv)
{
	for (BackendModel *r = in; r != NULL && r->core != NULL; r = r->next)
	{
		core_suspend(r->core, free_kv);
		if (free_kv && r->ranks != NULL)
			ranks_rest(r->ranks);
	}
	if (in->queue != NULL && free_kv)
		replicas_forget(in->queue);
}

static bool
resume(BackendModel *in, Err *e)
{
	for (BackendModel *r = in; r != NULL && r->core != NULL; r = r->next)
		if (!core_resume(r->core, e))
		{
			suspend(in, true);
			return false;
		}
	return true;
}

/* Replicas whose weights are already restored are skipped, so that a failed call can be repeated. */
static bool
restore_weights(BackendModel *in, Err *e)
{
	for (BackendModel *r = in; r != NULL && r->core != NULL; r = r->next)
	{
		if (r->weights_dropped && !core_restore_weights(r->core, e))
			return false;
		r->weights_dropped = false;
		if (r->ranks_weights_dropped && !ranks_fetch(r->ranks, e))
			return false;
		r->ranks_weights_dropped = false;
	}
	return true;
}

static void
drop_weights(BackendModel *in)
{
	for (BackendModel *r = in; r != NULL && r->core != NULL; r = r->next)
	{
		core_drop_weights(r->core);
		if (r->ranks != NULL)
			ranks_forget(r->ranks);
		r->weights_dropped = r->ranks_weights_dropped = false;
	}
}

static bool
save_weights(BackendModel *in, const char *dir, bool *lost, Err *e)
{
	Err			back;

	*lost = false;
	for (BackendModel *r = in; r != NULL && r->core != NULL; r = r->next)
	{
		r->weights_dropped = core_save_weights(r->core, dir, lost, e);
		r->ranks_weights_dropped = r->weights_dropped && r->ranks != NULL;
		if (r->weights_dropped && (r->ranks == NULL || ranks_store(r->ranks, dir, e)))
			continue;
		*lost = *lost || !restore_weights(in, &back);
		if (*lost)
			drop_weights(in);
		return false;
	}
	return true;
}

static bool
swap_weights(BackendModel *in, BackendModel *from, Err *e)
{
	for (BackendModel *r = in; r != NULL && r->core != NULL; r = r->next, from = from->next)
		if (!core_swap_weights(r->core, from->core, e) ||
			(r->ranks != NULL && !ranks_adopt(r->ranks, from->ranks, e)))
			return false;
		else
			modeldigest_adopt(r->digest, from->digest);
	return true;
}

static bool
is_digest_known(const BackendModel *in)
{
	return modeldigest_known(in->digest);
}

static bool
get_digest(const BackendModel *in, char hex[MODEL_DIGEST], Err *e)
{
	return modeldigest_get(in->digest, hex, e);
}

const ModelControl backend_core_control = {
	.stats = stats,
	.check_state = check_state,
	.reset_prefix_cache = reset_prefix_cache,
	.has_tier_files = offload_store_has_files,
	.flush_kv_to_tier = flush_kv_to_tier,
	.flush_tier = offload_store_flush,
	.reset_tier = offload_store_reset,
	.pins = pins,
	.unpin = unpin,
	.suspend = suspend,
	.resume = resume,
	.save_weights = save_weights,
	.restore_weights = restore_weights,
	.drop_weights = drop_weights,
	.swap_weights = swap_weights,
	.is_digest_known = is_digest_known,
	.get_digest = get_digest,
};
