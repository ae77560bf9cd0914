/*
 * cuda_ops.h
 *	  The host's side of kernels/cuda: each call puts one op's kernels into a stream.
 *
 * Pointers are the device's, rows begin at multiples of 16 bytes if their length is one.
 * Errors of a launch are left to cudaGetLastError().  Include common.cuh first.
 */
#ifndef VLLM_KERNELS_CUDA_OPS_H
#define VLLM_KERNELS_CUDA_OPS_H

#include "cuda/kv.h"

/* y = x / sqrt(mean(x^2) + eps) * w; y may be x, w may be NULL (1) */
void		cuda_rmsnorm(float *y, const float *x, const float *w, int rows, int dim, float eps, cudaStream_t stream);

/* ---- rope_kv.cu: rotation and the KV ---- */

/* as rope of kernels.h; rows at position -1 stay */
void		cuda_rope(float *x, int rows, int ld, int heads, int head_dim, const int32_t *pos, const float *cs, int rot_dim, cudaStream_t stream);
void		cuda_kv_write(const CudaKv *kv, const CudaRows *r, const float *k, int ldk, const float *v, int ldv, cudaStream_t stream);
/*
 * Rows of qkv are heads of q, of K, of V: rotates q, and writes K, rotated, and V.  The KV and q have the bits that cuda_rope()
 * and cuda_kv_write() give them; K in qkv stays as it is.
 */
void		cuda_rope_kv(const CudaKv *kv, const CudaRows *r, float *qkv, int ld, int heads, const float *cs, int rot_dim, cudaStream_t stream);
/* n pairs of pages, of the host, one copy after the other */
void		cuda_kv_copy(const KvView *kv, const int32_t *from_to, int n, cudaStream_t stream);
/* a page from or to memory of the host, of kv->block_stride bytes */
void		cuda_kv_get(const KvView *kv, int32_t page, void *to, cudaStream_t stream);
void		cuda_kv_put(const KvView *kv, int32_t page, const void *from, cudaStream_t stream);
/* largest[0] = the largest |K|, [1] = |V| of blocks 0 .. n_blocks - 1, all of them full, of a KV of floats; of the device */
void		cuda_kv_largest(const CudaKv *kv, int n_blocks, float *largest, cudaStream_t stream);

/*
 * Mixtures of experts, as the ops of the same names (kernels.h).  type: of h and x, KT_F32, KT_F16
 * or KT_BF16.  Of logits nothing is written.
 */
void		cuda_moe_route(const KRoute *c, const float *logits, int rows, int32_t *experts, float *weights,
						   cudaStream_t stream);
void		cuda_moe_place(const int32_t *experts, int pairs, int n_experts, int32_t *start, int32_t *place,
						   cudaStream_t stream);
void		cuda_moe_gather(KType type, void *x, const void *h, int rows, int top_k, const int32_t *place,
							const float *weights, int hidden, cudaStream_t stream);
void		cuda_moe_combine(float *y, const float *x, int rows, int top_k, const int32_t *place, const float *weights,
							 const float *gate, bool shared, const float *out_bias, int hidden, cudaStream_t stream);

#endif
