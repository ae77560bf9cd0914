/*
 * gpu_memory_plan.h
 *	  A device's memory, divided: what is loaded is measured, and what is left is for K and V.
 *
 * Nothing here knows a device.  The loader of a model gives the stages of it (weights, work space, a step of
 * the greatest size, ...) and a way to ask how much memory is free; each stage is run once, in order, and
 * what it has taken is kept, for the division and for the sums that an error tells.
 */
#ifndef VLLM_RUNTIME_GPU_MEMORY_PLAN_H
#define VLLM_RUNTIME_GPU_MEMORY_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define GPUMEM_STAGES	8

typedef struct GpuStage
{
	const char *what;			/* as errors name it: "weights" */
	bool		(*run) (void *ctx, Err *e);
} GpuStage;

/* What there is to do, and to ask. */
typedef struct GpuLoad
{
	const char *device;			/* its name, for errors */
	void	   *ctx;
	void		(*mem) (void *ctx, uint64_t *free, uint64_t *total);
	const GpuStage *stages;
	int			n_stages;
	void	   *(*alloc_kv) (void *ctx, uint64_t size);	/* NULL: there is not so much in one piece */
} GpuLoad;

typedef struct GpuAsk
{
	/* part of the device that may be in use, whoever uses it: vllm.gpu_memory_utilization */
	double		utilization;
	uint64_t	kv_bytes;		/* for K and V; 0 = what the utilization leaves */
	uint64_t	block_bytes;	/* a block's; K and V take whole ones */
	uint64_t	apart;			/* what goes along with K and V of that, besides blocks' */
	/* so many that are there take as much each of what the utilization leaves; 0 = one */
	int			sharers;
	int			behind;			/* so many more are to come, who take what this one has taken, and as much */
} GpuAsk;

typedef struct GpuMem
{
	uint64_t	total;
	uint64_t	before;			/* in use before the first stage, by whomever */
	const char *what[GPUMEM_STAGES];
	uint64_t	taken[GPUMEM_STAGES];
	int			n;				/* stages that have been run */
	uint64_t	kv;				/* what K and V have got */
	void	   *kv_area;
} GpuMem;

/*
 * All stages, behind those that *m has already; zeroed it has none.  False with *e set: one failed; if for
 * want of memory, the detail has the sums so far.
 */
bool		gpumem_measure(const GpuLoad *l, GpuMem *m, Err *e);
/* Bytes for K and V.  False: less than a block is left, 53200 with the sums. */
bool		gpumem_budget(const GpuLoad *l, const GpuMem *m, const GpuAsk *a, uint64_t *kv, Err *e);
/*
 * Takes them.  What was divided, not asked for, may be a little less: memory that is free isn't
 * always in one piece, so up to three times 5 % less are tried, and the log tells.
 */
bool		gpumem_take(const GpuLoad *l, GpuMem *m, const GpuAsk *a, Err *e);

#endif
