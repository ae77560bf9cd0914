/*
 * pooler.h
 *	  Pooling: compute one vector (or one per token) from a sequence's hidden rows.
 *
 * A model that pools outputs rows of the residual stream after its last norm instead of logits
 * (Batch.hidden).  Three stages convert them to the result of a task:
 *
 *	gather	rows -> one row per sequence (first, last, mean, ...; poolers.def), over as
 *			many steps as the sequence took
 *	head	dense layers, a classifier: model_pool_head(), on the step thread
 *	finish	softmax, sigmoid, dimensions, length 1: pool_finish(), any thread
 *
 * Row invariance (kernels.h) holds throughout: a sequence's vector has the same bits whatever else is in
 * the step and however the sequence is split into steps, since sums are taken row after row, in the
 * order of positions.
 */
#ifndef VLLM_MODEL_LAYERS_POOLER_H
#define VLLM_MODEL_LAYERS_POOLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/config_map.h"
#include "base/err.h"
#include "kernels.h"

/* The tasks (vLLM's PoolingTask); task t is bit 1 << t of ModelInfo.tasks. */
typedef enum PoolTask
{
	PT_NONE = 0,
	PT_EMBED,					/* a vector */
	PT_TOKEN_EMBED,				/* one per token */
	PT_CLASSIFY,				/* a number per label */
	PT_TOKEN_CLASSIFY,			/* one per label and token */
	PT_SCORE,					/* of a pair of texts, one number */
	PT_REWARD,					/* of a text, one number */
	PT_LOGPROBS,				/* of tokens, given those before */
	PT_COUNT
} PoolTask;

/* Return a task by its name ("embed", ...), PT_NONE if there is no such task. */
PoolTask	pool_task_by_name(const char *s, size_t n);
const char *pool_task_name(PoolTask t);

/* The pooling methods: a row of poolers.def each. */
typedef enum PoolKind
{
#define POOLER(name, st_key, rows, how, by) POOL_##name,
#include "model/layers/poolers.def"
#undef POOLER
	POOL_KINDS
} PoolKind;

/* The rows of a sequence that a pooler reads. */
typedef enum PoolRows
{
	PR_FIRST, PR_LAST, PR_ALL
} PoolRows;

PoolRows	pool_rows(PoolKind k);

/* Initialize sum[width] before a sequence's first row, add its next row, and finish after its last; the
 * rows were those of positions from .. n - 1. */
void		pool_start(PoolKind k, float *sum, int width);
void		pool_add(PoolKind k, float *sum, const float *row, int width, int pos);
void		pool_end(PoolKind k, float *sum, int width, int from, int n);
/* The same for the op pool_rows: how it combines rows, and the divisor; 0 = don't divide. */
KPoolAdd	pool_how(PoolKind k);
double		pool_divisor(PoolKind k, int from, int n);

/* A task's poolers; their vectors are concatenated (mostly there is one). */
#define POOL_PARTS 4

typedef struct PoolPlan
{
	int			n;				/* 0: each row on its own */
	PoolKind	kinds[POOL_PARTS];
	bool		layers;			/* model_pool_rows() is applied to hidden rows first */
	int			row;			/* width of the rows that they read */
	bool		unpads;			/* ignore tokens `pad` at a text's end */
	int32_t		pad;
	int			width;			/* width of the head's output */
} PoolPlan;

/* Return which rows a plan needs: PR_ALL if its parts differ, or if it has none. */
PoolRows	pool_plan_rows(const PoolPlan *p);

typedef enum PoolAct
{
	PA_NONE, PA_SOFTMAX, PA_SIGMOID, PA_LENGTH1
} PoolAct;

/* Apply the activation in place.  dimensions: how many of an embedding to keep, before it is normalized
 * to length 1 (0 = all).  Return the width kept. */
int			pool_finish(PoolAct act, int dimensions, float *v, int width);

#endif
