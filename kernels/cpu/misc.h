/*
 * misc.h
 *	  Ops that are the same code for all CPUs: rows moved and touched up, where memory is the
 *	  limit or there are a few numbers only.  Private to kernels/cpu.
 */
#ifndef VLLM_KERNELS_MISC_H
#define VLLM_KERNELS_MISC_H

#include "kutil.h"

/* KACT_TANH, KACT_SIGMOID, KACT_XIELU, as act_op */
void		misc_act(KPool *pool, KAct a, const float *p, float *y, const float *x, int rows, int dim);
/* rows_of, by a table's mat_row */
void		misc_rows_of(KPool *pool, void (*mat_row) (const KMat *m, int j, float *out), const KMat *m, const int32_t *ids,
						 int first, int rows, float *y, int ldy);

void		misc_scale_cols(KPool *pool, float *y, int rows, int ldy, int from, int n, float by);
void		misc_mul_cols(KPool *pool, float *y, int rows, int ldy, const float *w, int n);
void		misc_clip(KPool *pool, float *x, int rows, int ldx, int n, float most);
void		misc_add_head_bias(KPool *pool, float *x, int rows, int ldx, int heads, int dim, const float *b, int ldb);
void		misc_temper(KPool *pool, float *q, int rows, int ldq, int n, const int32_t *pos, float scale, int every, int first);
void		misc_put_rows(KPool *pool, const float *const *given, int rows, int dim, float *y, int ldy);
void		misc_copy_rows(KPool *pool, float *y, int ldy, const float *x, int ldx, const int32_t *idx, int rows, int dim);
void		misc_keep_rows(KPool *pool, void *x, int elem_size, const int32_t *idx, int n, int width);

/* their rows of an op table */
#define MISC_OPS \
	.scale_cols = misc_scale_cols, \
	.mul_cols = misc_mul_cols, \
	.clip = misc_clip, \
	.add_head_bias = misc_add_head_bias, \
	.temper = misc_temper, \
	.put_rows = misc_put_rows, \
	.copy_rows = misc_copy_rows, \
	.keep_rows = misc_keep_rows

#endif
