/*
 * device_budget.h
 *	  What a model may have of its device's memory, and how that is found out.
 *
 * The loader of a model begins a Budget before anything of it is on the device, has the
 * weights measured, and hands it to the core, which measures the rest and takes K and V from what is left.
 */
#ifndef VLLM_CORE_DEVICE_BUDGET_H
#define VLLM_CORE_DEVICE_BUDGET_H

#include "runtime/engine_settings.h"
#include "runtime/gpu_memory_plan.h"
#include "model/weights/device_arena.h"

struct Core;

typedef struct Budget
{
	const Dev  *dev;
	const char *name;			/* the device's */
	double		utilization;
	uint64_t	kv_bytes;		/* 0 = what that leaves */
	int			asked_len;		/* max_model_len must be this, 0 = as long as fits */
	int			sharers;		/* ranks of the model on the device, with as much K and V each */
	int			behind;			/* replicas of it that are to come there */
	bool		least;			/* nothing will run: as few blocks as there can be */
	GpuMem		mem;
} Budget;

/* Other users of the model that are, or will be, on the device of that number: sharers and behind. */
void		budget_among(Budget *b, const Settings *s, int ordinal, int replica, bool shared);
/* What takes memory on the device: run() is measured, and sums that an error tells have it as `what`. */
bool		budget_stage(Budget *b, const char *what, bool (*run) (void *ctx, Err *e), void *ctx, Err *e);
/*
 * All that a core has on the device but K and V is there: a step of the greatest size is computed, and K and
 * V get what is left.  A model that may be shorter becomes as long as these hold.
 */
bool		budget_divide(struct Core *c, Err *e);

#endif
