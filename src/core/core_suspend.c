/*
 * core_suspend.c
 *	  A suspended core: it accepts and cancels requests, and computes nothing.
 *
 * Requests keep their places.  If the memory is returned, all running requests are preempted first, so
 * the core computes them again after it resumes, with the same result to the bit; the prefix cache is
 * cleared, as its blocks will be zeros.  The memory of the KV cache and the work space returns to the
 * system at once.  On the host the addresses stay mapped; on a device another program may take the
 * memory meanwhile.  Weights can be moved to a file meanwhile (model_store()).
 *
 * All functions run on the step thread, between steps, except core_save_weights() and
 * core_restore_weights(), which any thread may call while the core is suspended.
 *
 * Tested by tests/unit/core/test_sim.c, test_sleep.c and test_spec_draft.c.
 */
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "core/spec/drafter.h"
#include "core/core_state.h"
#include "core/offload/offload.h"
#include "core/sample/sample_device.h"
#include "core/spec/spec.h"

#define SHED_US	INT64_C(4000000)	/* longest time of the writes */

static void
drop(void *area, size_t size)
{
	if (area != NULL)
		madvise(area, size, MADV_DONTNEED);
}

void
core_suspend(Core *c, bool free_kv)
{
	c->suspended = true;
	if (!free_kv)
		return;
	c->given_back = true;
	sched_preempt_all(c->sched);
	if (c->offload != NULL)
	{
		/* release the holds of waiting requests, which would keep entries in the tier's memory */
		offload_let_go(c->offload);
		core_offload_all(c);
	}
	core_forget_blocks(c);
	devmem_drop(&c->kv_area);
	kvpool_forget_touched(c->pool);
	devmem_drop(&c->state_area);
	if (c->spec != NULL)
		spec_rest(c->spec);
	hostdev_drop(&c->logits);
	hostdev_drop(&c->hidden);
	smpdev_drop(c->smpdev);
	drop(c->raw, c->raw_size);
	drop(c->fork_logits, c->fork_size);
	drop(c->fork_processed, c->fork_size);
	core_publish(c);
}

/* If a request for the device's memory failed, check whether the device is lost: then the process exits. */
static bool
unless_lost(const Core *c, bool ok)
{
	if (!ok)
		core_wait(c);
	return ok;
}

/* Get the memory back; on a device it may have other addresses now. */
static bool
take_back(Core *c, Err *e)
{
	if (!devmem_back(&c->kv_area, e) || !devmem_back(&c->state_area, e) || !hostdev_back(&c->logits, e) ||
		!hostdev_back(&c->hidden, e) || !smpdev_back(c->smpdev, e))
		return false;
	c->kv.base = c->kv_area.base;
	return c->spec == NULL || spec_back(c->spec, e);
}

bool
core_resume(Core *c, Err *e)
{
	if (c->given_back && !unless_lost(c, take_back(c, e)))
		return false;
	c->suspended = c->given_back = false;
	return true;
}

/* Move the model's blocks in the offload tier from memory to files, if the tier has files. */
static void
shed(Core *c)
{
	if (c->offload != NULL)
		offload_shed(c->offload, clock_us() + SHED_US);
}

bool
core_save_weights(Core *c, const char *dir, bool *lost, Err *e)
{
	Drafter    *d = c->opt.drafter;
	Err			back;

	*lost = false;
	shed(c);
	if (!model_store(c->model, dir, e))
		return false;
	if (d == NULL || d->store(d, dir, e))
	{
		c->weights_dropped = true;
		return true;
	}
	if (!model_fetch(c->model, &back))
	{
		core_drop_weights(c);
		*lost = true;
	}
	return false;
}

bool
core_restore_weights(Core *c, Err *e)
{
	Drafter    *d = c->opt.drafter;

	if (!unless_lost(c, model_fetch(c->model, e) && (d == NULL || d->fetch(d, e))))
		return false;
	c->weights_dropped = false;
	return true;
}

void
core_drop_weights(Core *c)
{
	shed(c);
	c->weights_dropped = true;
	model_forget(c->model);
	if (c->opt.drafter != NULL)
		c->opt.drafter->forget(c->opt.drafter);
}

bool
core_swap_weights(Core *c, Core *from, Err *e)
{
	Drafter    *d = c->opt.drafter;
	Drafter    *d2 = from->opt.drafter;

	if ((d == NULL) != (d2 == NULL))
		return err_set(e, ERR_INTERNAL, "of the old and the new weights, only one set has a drafter");
	/* the files may have changed meanwhile */
	if (c->offload != NULL && memcmp(c->opt.kv_id, from->opt.kv_id, sizeof(c->opt.kv_id)) != 0)
		offload_stop(c->offload);
	if (!unless_lost(c, model_adopt(c->model, from->model, e) && (d == NULL || d->adopt(d, d2, e))))
		return false;
	c->weights_dropped = false;
	return true;
}

bool
core_rest_due(const Core *c)
{
	Inbox	   *in = c->inbox;
	bool		any;

	pthread_mutex_lock(&in->lock);
	any = in->n > 0;
	pthread_mutex_unlock(&in->lock);
	return any || c->n_finish_pending > 0;
}
