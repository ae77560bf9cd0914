/*
 * budget.h
 *	  What a model may have of its device's memory, and how that is found out.
 *
 * Private to src/engine.  Who loads a model begins a Budget before anything of it is on the device, has the
 * weights measured, and hands it to the core, which measures the rest and takes K and V from what is left.
 */
#ifndef VLLM_ENGINE_BUDGET_H
#define VLLM_ENGINE_BUDGET_H

#include "engine/gpumem.h"
#include "model/devmem.h"

struct Core;

typedef struct Budget
{
	const Dev  *dev;
	const char *name;			/* the device's */
	double		utilization;
	uint64_t	kv_bytes;		/* 0 = what that leaves */
	int			asked_len;		/* max_model_len must be this, 0 = as long as fits */
	bool		least;			/* nothing will run: as few blocks as there can be */
	GpuMem		mem;
} Budget;

/* What takes memory on the device: run() is measured, and sums that an error tells have it as `what`. */
bool		budget_stage(Budget *b, const char *what, bool (*run) (void *ctx, Err *e), void *ctx, Err *e);
/*
 * All that a core has on the device but K and V is there: a step of the greatest size is computed, and K and V get
 * what is left.  A model that may be shorter becomes as long as these hold.
 */
bool		budget_divide(struct Core *c, Err *e);

#endif
