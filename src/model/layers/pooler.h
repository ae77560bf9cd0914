/*
 * pooler.h
 *	  Pooling: a sequence's hidden rows in, one vector (or one per token) out.
 *
 * A model that pools gives rows of the residual stream behind its last norm instead
 * of logits (Batch.hidden).  Here they become what a task is after, in three stages:
 *
 *	gather	rows -> one row per sequence (first, last, mean, ...; poolers.def), over as
 *			many steps as the sequence took
 *	head	dense layers, a classifier: model_pool_head(), on the step thread
 *	finish	softmax, sigmoid, dimensions, length 1: pool_finish(), any thread
 *
 * Row invariance (kernels.h) holds throughout: a sequence's vector has the same bits
 * whatever else is in the step and however the sequence was cut: sums are taken row
 * after row, in the order of positions.
 */
#ifndef VLLM_MODEL_LAYERS_POOLER_H
#define VLLM_MODEL_LAYERS_POOLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/config_map.h"
#include "base/err.h"
#include "kernels.h"

/* What is wanted of a text (vLLM's PoolingTask); bit 1 << task in ModelInfo.tasks. */
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

/* "embed", ...; PT_NONE if there is no such task */
PoolTask	pool_task_by_name(const char *s, size_t n);
const char *pool_task_name(PoolTask t);

/* How a sequence's rows become one: a row of poolers.def. */
typedef enum PoolKind
{
#define POOLER(name, st_key, rows, how, by) POOL_##name,
#include "model/layers/poolers.def"
#undef POOLER
	POOL_KINDS
} PoolKind;

/* Which of a sequence's rows a pooler looks at. */
typedef enum PoolRows
{
	PR_FIRST, PR_LAST, PR_ALL
} PoolRows;

PoolRows	pool_rows(PoolKind k);

/* sum[width] before a sequence's first row, with its next row, and behind its last: they were those of
 * positions from .. n - 1. */
void		pool_start(PoolKind k, float *sum, int width);
void		pool_add(PoolKind k, float *sum, const float *row, int width, int pos);
void		pool_end(PoolKind k, float *sum, int width, int from, int n);
/* The same for the op pool_rows: what it does with rows, and what it divides by; 0 = nothing. */
KPoolAdd	pool_how(PoolKind k);
double		pool_divisor(PoolKind k, int from, int n);

/* A task's poolers: their vectors side by side (mostly one). */
#define POOL_PARTS 4

typedef struct PoolPlan
{
	int			n;				/* 0: every row by itself */
	PoolKind	kinds[POOL_PARTS];
	bool		layers;			/* hidden rows go through model_pool_rows() first */
	int			row;			/* width of the rows that they read */
	bool		unpads;			/* at a text's end they don't look at tokens `pad` */
	int32_t		pad;
	int			width;			/* of what the head makes of them */
} PoolPlan;

/* Which rows a plan needs: PR_ALL if its parts differ, or if there are none. */
PoolRows	pool_plan_rows(const PoolPlan *p);

typedef enum PoolAct
{
	PA_NONE, PA_SOFTMAX, PA_SIGMOID, PA_LENGTH1
} PoolAct;

/* In place; dimensions: of what is left of an embedding, before its length is made 1 (0 = all).
 * Returns the width that is left. */
int			pool_finish(PoolAct act, int dimensions, float *v, int width);

#endif
