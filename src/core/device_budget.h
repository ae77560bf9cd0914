/*
 * device_budget.h
 *	  Memory that a model may use on its device, and how it is measured.
 *
 * The loader of a model creates a Budget before anything of the model is on the device, has the weights
 * measured, and passes the budget to the core, which measures the rest and uses what is left for K and
 * V.
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
	const char *name;			/* the device's name */
	double		utilization;
	uint64_t	kv_bytes;		/* 0 = what the utilization leaves */
	int			fixed_len;		/* max_model_len must be this; 0 = the longest that fits */
	int			sharers;		/* ranks of the model on the device, each with as much K and V */
	int			later;			/* replicas that will be loaded there later */
	bool		least;			/* nothing will run: use as few blocks as possible */
	GpuMem		mem;
} Budget;

/* Set sharers and behind: other parts of the model that are, or will be, on the device with this number. */
void		budget_among(Budget *b, const Settings *s, int ordinal, int replica, bool shared);
/* Run a stage of the load that takes memory on the device, and measure it; errors name it `what`. */
bool		budget_stage(Budget *b, const char *what, bool (*run) (void *ctx, Err *e), void *ctx, Err *e);
/*
 * Called when everything of a core but K and V is on the device: compute a step of the greatest size,
 * and give the rest of the memory to K and V.  A model whose length is not fixed becomes as long as
 * these hold.
 */
bool		budget_divide(struct Core *c, Err *e);

#endif
