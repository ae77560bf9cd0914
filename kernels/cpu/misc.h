/*
 * misc.h
 *	  Ops with the same code for all CPUs: they move rows or modify them elementwise, and are limited
 *	  by memory bandwidth or process only few numbers.  Private to kernels/cpu.
 */
#ifndef VLLM_KERNELS_MISC_H
#define VLLM_KERNELS_MISC_H

#include "kutil.h"

/* KACT_TANH, KACT_SIGMOID, KACT_XIELU, as act_op */
void		misc_act(KPool *pool, KAct a, const float *p, float *y, const float *x, int rows, int dim);
/* rows_of, based on a table's mat_row */
void		misc_rows_of(KPool *pool, void (*mat_row) (const KMat *m, int j, float *out), const KMat *m,
						 const int32_t *ids, int first, int rows, float *y, int ldy);

void		misc_scale_cols(KPool *pool, float *y, int rows, int ldy, int from, int n, float by);
void		misc_mul_cols(KPool *pool, float *y, int rows, int ldy, const float *w, int n);
void		misc_clip(KPool *pool, float *x, int rows, int ldx, int n, float most);
void		misc_add_head_bias(KPool *pool, float *x, int rows, int ldx, int heads, int dim, const float *b,
							   int ldb);
void		misc_temper(KPool *pool, float *q, int rows, int ldq, int n, const int32_t *pos, float scale,
						int every, int first);
void		misc_put_rows(KPool *pool, const float *const *given, int rows, int dim, float *y, int ldy);
void		misc_copy_rows(KPool *pool, float *y, int ldy, const float *x, int ldx, const int32_t *idx,
						   int rows, int dim);
void		misc_keep_rows(KPool *pool, void *x, int elem_size, const int32_t *idx, int n, int width);
void		misc_pick_cols(KPool *pool, float *y, int ldy, const float *x, int ldx, const int32_t *from,
						   int rows, int n);
/* both ways */
void		misc_to_op(KPool *pool, float *y, int ldy, const float *x, int ldx, int rows, int dim);
void		misc_mul_rows(KPool *pool, float *y, int ldy, const float *a, int lda, const float *b, int ldb,
						  int rows, int dim, bool silu);
void		misc_dot_rows(KPool *pool, float *y, const float *x, int rows, int dim, const float *w,
						  float bias);
void		misc_swap_heads(KPool *pool, void *y, bool y_op, size_t y_row, size_t y_head, const void *x,
							bool x_op, size_t x_row, size_t x_head, int rows, int heads, int width);
void		misc_series(KPool *pool, int32_t *y, int n, int32_t by);
void		misc_moe_route(KPool *pool, const KRoute *c, float *logits, int rows, float *space,
						   int32_t *experts, float *weights);
void		misc_moe_slots(KPool *pool, int32_t *experts, int rows, int first, int top_k,
						   const int32_t *slots, int width);
void		misc_moe_place(KPool *pool, const int32_t *experts, int pairs, int n_experts, int32_t *start,
						   int32_t *place);
void		misc_moe_gather(KPool *pool, float *x, const float *h, int rows, int top_k, const int32_t *place,
							const float *weights, int hidden);
void		misc_moe_combine(KPool *pool, float *y, const float *x, int rows, int top_k, const int32_t *place,
							 const float *weights,
							const float *gate, bool shared, const float *out_bias, int hidden);
void		misc_lora_rows(KPool *pool, KLoraJob *jobs, int n, const int32_t *ids, float *t, int ldt);
void		misc_kv_copy(KPool *pool, const KvView *kv, const int32_t *from_to, int n);
void		misc_kv_largest(KPool *pool, const KvView *kv, int layer, int n_blocks, float out[2]);

/* entries of these ops in an op table */
#define MISC_OPS \
	.scale_cols = misc_scale_cols, \
	.mul_cols = misc_mul_cols, \
	.clip = misc_clip, \
	.add_head_bias = misc_add_head_bias, \
	.temper = misc_temper, \
	.put_rows = misc_put_rows, \
	.copy_rows = misc_copy_rows, \
	.keep_rows = misc_keep_rows, \
	.pick_cols = misc_pick_cols, \
	.to_op = misc_to_op, \
	.from_op = misc_to_op, \
	.mul_rows = misc_mul_rows, \
	.dot_rows = misc_dot_rows, \
	.swap_heads = misc_swap_heads, \
	.series = misc_series, \
	.moe_route = misc_moe_route, \
	.moe_slots = misc_moe_slots, \
	.moe_place = misc_moe_place, \
	.moe_gather = misc_moe_gather, \
	.moe_combine = misc_moe_combine, \
	.lora_rows = misc_lora_rows, \
	.kv_copy = misc_kv_copy, \
	.kv_largest = misc_kv_largest

#endif
