/*
 * gpu_memory_plan.h
 *	  How a device's memory is divided: loading is measured, and the rest is for K and V.
 *
 * The code knows no device.  A model's loader passes the stages of the load (weights, work space, a step
 * of the greatest size, ...) and a function that returns how much memory is free.  gpumem_measure() runs
 * each stage once, in order, and records how much memory it took, for the division and for error
 * messages.
 */
#ifndef VLLM_RUNTIME_GPU_MEMORY_PLAN_H
#define VLLM_RUNTIME_GPU_MEMORY_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define GPUMEM_STAGES	8

typedef struct GpuStage
{
	const char *what;			/* name in errors, e.g. "weights" */
	bool		(*run) (void *ctx, Err *e);
} GpuStage;

/* The stages of a load, and the device's functions. */
typedef struct GpuLoad
{
	const char *device;			/* the device's name, for errors */
	void	   *ctx;
	void		(*mem) (void *ctx, uint64_t *free, uint64_t *total);
	const GpuStage *stages;
	int			n_stages;
	void	   *(*alloc_kv) (void *ctx, uint64_t size);	/* returns NULL if there is no free piece of that
														 * size */
} GpuLoad;

typedef struct GpuRequest
{
	/* part of the device's memory that may be in use by all processes: vllm.gpu_memory_utilization */
	double		utilization;
	uint64_t	kv_bytes;		/* bytes for K and V; 0 = what the utilization leaves */
	uint64_t	block_bytes;	/* bytes of a block; K and V get whole blocks */
	uint64_t	apart;			/* bytes that are needed beside the blocks and come from the same budget */
	/* instances that share the rest equally; 0 = one */
	int			sharers;
	int			later;			/* later replicas on the device: each takes what this one's stages took, and
								 * an equal share */
} GpuRequest;

typedef struct GpuMem
{
	uint64_t	total;
	uint64_t	before;			/* in use before the first stage, by any process */
	const char *what[GPUMEM_STAGES];
	uint64_t	taken[GPUMEM_STAGES];
	int			n;				/* stages that have run */
	uint64_t	kv;				/* bytes that K and V have got */
	void	   *kv_area;
} GpuMem;

/*
 * Run all stages, after those that *m already has; a zeroed *m has none.  Returns false with *e set if a
 * stage fails; if it ran out of memory, the detail lists the memory of the stages so far.
 */
bool		gpumem_measure(const GpuLoad *l, GpuMem *m, Err *e);
/*
 * Compute the bytes for K and V.  Returns false if less than a block is left (ERR_NOMEM, listing the
 * stages).
 */
bool		gpumem_budget(const GpuLoad *l, const GpuMem *m, const GpuRequest *a, uint64_t *kv, Err *e);
/*
 * Compute the budget and allocate it.  A budget that was not requested explicitly may become smaller:
 * free memory is not always contiguous, so up to three times 5 % less is tried, with a log message.
 */
bool		gpumem_take(const GpuLoad *l, GpuMem *m, const GpuRequest *a, Err *e);

#endif
