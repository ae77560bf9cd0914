/*
 * gpu_memory_plan.c
 *	  How a device's memory is divided.
 *
 *	kv = total * utilization - (total - free after the last stage)
 *
 * Of replicas that share the device, each leaves for the later ones as much as its own stages have
 * taken, and an equal part of the rest.
 *
 * Memory that other processes use, or other models of this engine, also counts against the utilization:
 * the device is filled up to that part in total, whoever came first.  A stage's use is the memory that
 * disappeared while it ran.  If another process frees memory meanwhile, the use counts as nothing, and
 * only the memory that is free in the end decides.
 *
 * Tested by tests/unit/runtime/test_gpu_memory_plan.c on a simulated device.
 */
#include "runtime/gpu_memory_plan.h"

#include <stdio.h>

#include "base/log.h"

#define TRIES	3				/* further tries after the first one */
#define LESS	20				/* each try asks for 1/20 less */

static uint64_t
in_use(const GpuLoad *l, uint64_t *total)
{
	uint64_t	free_bytes = 0;

	l->mem(l->ctx, &free_bytes, total);
	return free_bytes < *total ? *total - free_bytes : 0;
}

/* Format a size: "1.23 GB", or "45.6 MB" below 1 GB. */
static const char *
size_text(uint64_t bytes, char *buf, size_t size)
{
	double		mb = (double) bytes / (1024 * 1024);

	snprintf(buf, size, mb < 1024 ? "%.1f MB" : "%.2f GB", mb < 1024 ? mb : mb / 1024);
	return buf;
}

/* Add to the detail: "The device has 79.10 GB, of which ... weights 15.00 GB, work space 300.0 MB". */
static void
describe_sums(const GpuMem *m, double utilization, Err *e)
{
	char		text[sizeof(e->detail)];
	char		a[32];
	char		b[32];
	size_t		at;

	/* keep the detail that says what the memory was for */
	at = (size_t) snprintf(text, sizeof(text), "%s%s", e->detail, e->detail[0] != '\0' ? " " : "");
	at += (size_t) snprintf(text + at, sizeof(text) - at, "The device has %s",
							size_text(m->total, a, sizeof(a)));
	if (utilization > 0)
		at += (size_t) snprintf(text + at, sizeof(text) - at,
								", of which %s may be used (vllm.gpu_memory_utilization = %g)",
								size_text((uint64_t) ((double) m->total * utilization), b, sizeof(b)),
								utilization);
	at += (size_t) snprintf(text + at, sizeof(text) - at, ". In use before: %s",
							size_text(m->before, a, sizeof(a)));
	for (int i = 0; i < m->n && at < sizeof(text); i++)
		at += (size_t) snprintf(text + at, sizeof(text) - at, "; %s: %s", m->what[i],
								size_text(m->taken[i], a, sizeof(a)));
	err_detail(e, "%s.", text);
}

bool
gpumem_measure(const GpuLoad *l, GpuMem *m, Err *e)
{
	uint64_t	used = in_use(l, &m->total);

	if (m->n == 0)
		m->before = used;
	for (int i = 0; i < l->n_stages && m->n < GPUMEM_STAGES; i++)
	{
		uint64_t	now;

		if (!l->stages[i].run(l->ctx, e))
		{
			if (e->cls == ERR_NOMEM)
				describe_sums(m, 0, e);
			return false;
		}
		now = in_use(l, &m->total);
		m->what[m->n] = l->stages[i].what;
		m->taken[m->n++] = now > used ? now - used : 0;
		used = now;
	}
	return true;
}

bool
gpumem_budget(const GpuLoad *l, const GpuMem *m, const GpuRequest *a, uint64_t *kv, Err *e)
{
	uint64_t	total;
	uint64_t	used = in_use(l, &total);
	uint64_t	most = (uint64_t) ((double) total * a->utilization);
	uint64_t	left = most > used ? most - used : 0;
	char		text[32];

	for (int i = 0; i < m->n; i++)
	{
		uint64_t	theirs = m->taken[i] * (uint64_t) a->later;

		left = left > theirs ? left - theirs : 0;
	}
	left /= (uint64_t) (a->later + 1) * (uint64_t) (a->sharers > 1 ? a->sharers : 1);
	left = left > a->apart ? left - a->apart : 0;
	*kv = a->kv_bytes > 0 ? a->kv_bytes : left;
	*kv -= *kv % a->block_bytes;
	if (*kv > 0)
		return true;
	if (a->kv_bytes > 0)
	{
		err_set(e, ERR_INVALID, "KV cache of %llu bytes is too small", (unsigned long long) a->kv_bytes);
		return err_detail(e, "A block takes %llu bytes.", (unsigned long long) a->block_bytes);
	}
	err_set(e, ERR_NOMEM, "out of memory: device %s has no room for a KV cache", l->device);
	describe_sums(m, a->utilization, e);
	return err_hint(e, "A block of K and V takes %s. Raise vllm.gpu_memory_utilization, lower "
					   "max_num_batched_tokens, or unload another model.",
					size_text(a->block_bytes, text, sizeof(text)));
}

bool
gpumem_take(const GpuLoad *l, GpuMem *m, const GpuRequest *a, Err *e)
{
	uint64_t	kv;
	int			tries = a->kv_bytes > 0 ? 0 : TRIES;
	char		want[32];
	char		text[32];

	if (!gpumem_budget(l, m, a, &kv, e))
		return false;
	size_text(kv, want, sizeof(want));
	for (int i = 0; kv > 0; i++)
	{
		m->kv_area = l->alloc_kv(l->ctx, kv);
		if (m->kv_area != NULL)
		{
			m->kv = kv;
			return true;
		}
		if (i == tries)
			break;
		kv -= kv / LESS;
		kv -= kv % a->block_bytes;
		log_line('W', "device %s has no %s for a KV cache: the engine tries %s", l->device, want,
				 size_text(kv, text, sizeof(text)));
		size_text(kv, want, sizeof(want));
	}
	err_set(e, ERR_NOMEM, "out of memory: device %s has no %s for a KV cache", l->device, want);
	describe_sums(m, a->kv_bytes > 0 ? 0 : a->utilization, e);
	return err_hint(e, a->kv_bytes > 0 ? "Lower vllm.kv_cache_memory_bytes, or the model's option "
										 "kv_cache_memory_bytes." :
					"Lower vllm.gpu_memory_utilization, or unload another model.");
}
