/*
 * ref2.h
 *	  The reference's ops that move rows or modify them elementwise.
 */
#ifndef VLLM_KERNELS_REF2_H
#define VLLM_KERNELS_REF2_H

#include "kutil.h"

/* KACT_TANH, KACT_SIGMOID, KACT_XIELU of one number */
double		ref2_act(KAct a, const float *p, double x);

void		ref2_scale_cols(KPool *pool, float *y, int rows, int ldy, int from, int n, float by);
void		ref2_mul_cols(KPool *pool, float *y, int rows, int ldy, const float *w, int n);
void		ref2_clip(KPool *pool, float *x, int rows, int ldx, int n, float most);
void		ref2_add_head_bias(KPool *pool, float *x, int rows, int ldx, int heads, int dim, const float *b,
							   int ldb);
void		ref2_temper(KPool *pool, float *q, int rows, int ldq, int n, const int32_t *pos, float scale,
						int every, int first);
void		ref2_put_rows(KPool *pool, const float *const *given, int rows, int dim, float *y, int ldy);
void		ref2_copy_rows(KPool *pool, float *y, int ldy, const float *x, int ldx, const int32_t *idx,
						   int rows, int dim);
void		ref2_keep_rows(KPool *pool, void *x, int elem_size, const int32_t *idx, int n, int width);
void		ref2_pick_cols(KPool *pool, float *y, int ldy, const float *x, int ldx, const int32_t *from,
						   int rows, int n);
/* both ways */
void		ref2_to_op(KPool *pool, float *y, int ldy, const float *x, int ldx, int rows, int dim);
void		ref2_mul_rows(KPool *pool, float *y, int ldy, const float *a, int lda, const float *b, int ldb,
						  int rows, int dim, bool silu);
void		ref2_dot_rows(KPool *pool, float *y, const float *x, int rows, int dim, const float *w,
						  float bias);
void		ref2_swap_heads(KPool *pool, void *y, bool y_op, size_t y_row, size_t y_head, const void *x,
							bool x_op, size_t x_row, size_t x_head, int rows, int heads, int width);
void		ref2_series(KPool *pool, int32_t *y, int n, int32_t by);
void		ref2_moe_route(KPool *pool, const KRoute *c, float *logits, int rows, float *space,
						   int32_t *experts, float *weights);
void		ref2_moe_slots(KPool *pool, int32_t *experts, int rows, int first, int top_k,
						   const int32_t *slots, int width);
void		ref2_moe_place(KPool *pool, const int32_t *experts, int pairs, int n_experts, int32_t *start,
						   int32_t *place);
void		ref2_moe_gather(KPool *pool, float *x, const float *h, int rows, int top_k, const int32_t *place,
							const float *weights, int hidden);
void		ref2_moe_combine(KPool *pool, float *y, const float *x, int rows, int top_k, const int32_t *place,
							 const float *weights,
							const float *gate, bool shared, const float *out_bias, int hidden);
void		ref2_lora_rows(KPool *pool, KLoraJob *jobs, int n, const int32_t *ids, float *t, int ldt);
void		ref2_kv_copy(KPool *pool, const KvView *kv, const int32_t *from_to, int n);
void		ref2_kv_largest(KPool *pool, const KvView *kv, int layer, int n_blocks, float out[2]);

#define REF2_OPS \
	.scale_cols = ref2_scale_cols, \
	.mul_cols = ref2_mul_cols, \
	.clip = ref2_clip, \
	.add_head_bias = ref2_add_head_bias, \
	.temper = ref2_temper, \
	.put_rows = ref2_put_rows, \
	.copy_rows = ref2_copy_rows, \
	.keep_rows = ref2_keep_rows, \
	.pick_cols = ref2_pick_cols, \
	.to_op = ref2_to_op, \
	.from_op = ref2_to_op, \
	.mul_rows = ref2_mul_rows, \
	.dot_rows = ref2_dot_rows, \
	.swap_heads = ref2_swap_heads, \
	.series = ref2_series, \
	.moe_route = ref2_moe_route, \
	.moe_slots = ref2_moe_slots, \
	.moe_place = ref2_moe_place, \
	.moe_gather = ref2_moe_gather, \
	.moe_combine = ref2_moe_combine, \
	.lora_rows = ref2_lora_rows, \
	.kv_copy = ref2_kv_copy, \
	.kv_largest = ref2_kv_largest

#endif
