/*
 * ref2.h
 *	  The reference's ops that move and touch up rows.
 */
#ifndef VLLM_KERNELS_REF2_H
#define VLLM_KERNELS_REF2_H

#include "kutil.h"

/* KACT_TANH, KACT_SIGMOID, KACT_XIELU of one number */
double		ref2_act(KAct a, const float *p, double x);

void		ref2_scale_cols(KPool *pool, float *y, int rows, int ldy, int from, int n, float by);
void		ref2_mul_cols(KPool *pool, float *y, int rows, int ldy, const float *w, int n);
void		ref2_clip(KPool *pool, float *x, int rows, int ldx, int n, float most);
void		ref2_add_head_bias(KPool *pool, float *x, int rows, int ldx, int heads, int dim, const float *b, int ldb);
void		ref2_temper(KPool *pool, float *q, int rows, int ldq, int n, const int32_t *pos, float scale, int every, int first);
void		ref2_put_rows(KPool *pool, const float *const *given, int rows, int dim, float *y, int ldy);
void		ref2_copy_rows(KPool *pool, float *y, int ldy, const float *x, int ldx, const int32_t *idx, int rows, int dim);
void		ref2_keep_rows(KPool *pool, void *x, int elem_size, const int32_t *idx, int n, int width);

#define REF2_OPS \
	.scale_cols = ref2_scale_cols, \
	.mul_cols = ref2_mul_cols, \
	.clip = ref2_clip, \
	.add_head_bias = ref2_add_head_bias, \
	.temper = ref2_temper, \
	.put_rows = ref2_put_rows, \
	.copy_rows = ref2_copy_rows, \
	.keep_rows = ref2_keep_rows

#endif
