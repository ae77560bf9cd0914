/*
 * cuda_ops.h
 *	  The host's side of kernels/cuda: each function enqueues one op's kernels in a stream.
 *
 * kernels.h defines the ops.  Pointers are the device's; `as` is an operand's type (KT_F32, KT_BF16,
 * KT_F16).  Launch errors are left to cudaGetLastError().  Include common.cuh first.
 */
#ifndef VLLM_KERNELS_CUDA_OPS_H
#define VLLM_KERNELS_CUDA_OPS_H

#include "cuda/attn/kv.h"
#include "cuda/lora.h"
#include "kernels.h"

/* ---- norm.cu ---- */

/* y may be x if both are floats */
void		cuda_rmsnorm(void *y, KType as, const float *x, const float *w, int rows, int dim, float eps,
						 cudaStream_t stream);
void		cuda_add_rmsnorm(void *y, KType as, float *x, const float *d, const float *w, int rows, int dim,
							 float eps, cudaStream_t stream);
void		cuda_layernorm(void *y, KType as, const float *x, const float *w, const float *b, int rows,
						   int dim, float eps, cudaStream_t stream);
void		cuda_norm_heads(KNormKind kind, float *x, int rows, int ld, int heads, int dim, const float *w,
							int ldw, float eps, cudaStream_t stream);

/* ---- rows.cu ---- */

void		cuda_add(float *x, const float *d, int rows, int dim, cudaStream_t stream);
void		cuda_scale(float *x, int rows, int dim, float s, cudaStream_t stream);
/* columns from .. from + n - 1 of each row *= by */
void		cuda_scale_cols(float *y, int rows, int ldy, int from, int n, float by, cudaStream_t stream);
/* y[i][j] *= w[j] */
void		cuda_mul_cols(float *y, int rows, int ldy, const float *w, int n, cudaStream_t stream);
/* clip to -most .. most; a NaN stays */
void		cuda_clip(float *x, int rows, int ld, int n, float most, cudaStream_t stream);
/* x[i][h][j] += b[h * ldb + j] */
void		cuda_add_head_bias(float *x, int rows, int ld, int heads, int dim, const float *b, int ldb,
							   cudaStream_t stream);
/* rows at positions from every - first on, times 1 + scale * log(1 + (position + first) / every, rounded
 * down) */
void		cuda_temper(float *q, int rows, int ld, int n, const int32_t *pos, float scale, int every,
						int first, cudaStream_t stream);
void		cuda_softcap(float *y, int rows, int dim, float cap, cudaStream_t stream);
/* y may be x if both are floats */
void		cuda_act(KAct a, void *y, KType as, const float *x, int rows, int dim, cudaStream_t stream);
void		cuda_act_mul(KAct a, void *y, KType as, const float *gu, int rows, int dim, cudaStream_t stream);
/* p: alpha_p, alpha_n, beta, eps, on the host; y may be x if both are floats */
void		cuda_xielu(void *y, KType as, const float *x, int rows, int dim, const float p[4],
					   cudaStream_t stream);
/* y = a act(b), of_b < 0: a b; y may be a or b if y is floats */
void		cuda_mul_rows(void *y, KType as, int ldy, const float *a, int lda, const float *b, int ldb,
						  int rows, int dim, int of_b, cudaStream_t stream);
void		cuda_to_op(void *y, KType as, int ldy, const float *x, int ldx, int rows, int dim,
					   cudaStream_t stream);
void		cuda_from_op(float *y, int ldy, const void *x, KType as, int ldx, int rows, int dim,
						 cudaStream_t stream);
/* row i of y = row idx[i] of x; idx NULL: row i */
void		cuda_copy_rows(float *y, int ldy, const float *x, int ldx, const int32_t *idx, int rows, int dim,
						   cudaStream_t stream);
/* row to[i] of y = row i of x */
void		cuda_put_rows(float *y, int ldy, const float *x, const int32_t *to, int rows, int dim,
						  cudaStream_t stream);
/* x[i] = x[idx[i]]; idx ascend */
void		cuda_keep_rows(void *x, int elem_size, const int32_t *idx, int n, int width, cudaStream_t stream);
/* y[i][j] = x[i][from[j]] for n columns; from[j] < 0: K_NO_COLUMN */
void		cuda_pick_cols(float *y, int ldy, const float *x, int ldx, const int32_t *from, int rows, int n,
						   cudaStream_t stream);
/*
 * Copy `width` columns of each head of each row; y_row, x_head, ...: elements from one row or head to
 * the next.  One of the types is KT_F32, or both are the same.
 */
void		cuda_swap_heads(void *y, KType y_as, size_t y_row, size_t y_head, const void *x, KType x_as,
							size_t x_row, size_t x_head, int rows, int heads, int width, cudaStream_t stream);
/* y[i] = bias + the sum of x[i][j] w[j], in double, ascending */
void		cuda_dot_rows(float *y, const float *x, int rows, int dim, const float *w, float bias,
						  cudaStream_t stream);

void		cuda_series(int32_t *y, int n, int32_t by, cudaStream_t stream);

/* ---- rows_of.cu ---- */

/* y's row i = row ids[i] + first of m (ids NULL: row `first`), zeros if m has no such row */
void		cuda_rows_of(const KMat *m, const int32_t *ids, int first, int rows, float *y, int ldy,
						 cudaStream_t stream);
/*
 * y: outputs first .. first + n - 1 of m as rows of BF16 or F16; ldy: k or more, a multiple of 8, zeros
 * after k; aligned to 16 bytes
 */
void		cuda_unpack(const KMat *m, int first, int n, void *y, KType as, int ldy, cudaStream_t stream);

/* ---- pool.cu: pools a step's rows with the bits of pooler.c ---- */

/* seqs: in the device's memory */
void		cuda_pool_rows(KPoolAdd how, float *sums, int lds, const KPoolSeq *seqs, int n_seqs,
						   const float *x, int ldx, int width, cudaStream_t stream);

/* ---- ssm.cu: slots are the sequences' ---- */

void		cuda_conv(const KState *st, const int32_t *slots, const CudaRows *r, const float *x, int ldx,
					  int dim, int width, const float *w, const float *b, bool silu, float *y, int ldy,
					  cudaStream_t stream);
void		cuda_scan(const KState *st, const int32_t *slots, const CudaRows *r, const KScan *s, void *y,
					  KType as, int ldy, cudaStream_t stream);

/* ---- lora.cu ---- */

void		cuda_lora_shrink(const CudaLora *l, const void *x, KType as, int ldx, float *t, int ldt,
							 cudaStream_t stream);
void		cuda_lora_expand(const CudaLora *l, const float *t, int ldt, float *y, int ldy,
							 cudaStream_t stream);
/* t = scale * row ids[row] of a, which is [inputs][rank], for embeddings; zeros for ids out of range */
void		cuda_lora_rows(const CudaLora *l, const int32_t *ids, float *t, int ldt, cudaStream_t stream);

/* ---- rope_kv.cu: rotation and the KV ---- */

/* as rope of kernels.h; rows at position -1 stay unchanged */
void		cuda_rope(float *x, int rows, int ld, int heads, int head_dim, const int32_t *pos,
					  const float *cs, int rot_dim, cudaStream_t stream);
void		cuda_kv_write(const CudaKv *kv, const CudaRows *r, const float *k, int ldk, const float *v,
						  int ldv, cudaStream_t stream);
/*
 * Rows of qkv are heads of q, of K, of V: rotate q, and store K, rotated, and V.  The KV and q have the
 * bits that cuda_rope() and cuda_kv_write() give them; K in qkv stays unchanged.
 */
void		cuda_rope_kv(const CudaKv *kv, const CudaRows *r, float *qkv, int ld, int heads, const float *cs,
						 int rot_dim, cudaStream_t stream);
/* n pairs of pages, in the host's memory; one copy after the other */
void		cuda_kv_copy(const KvView *kv, const int32_t *from_to, int n, cudaStream_t stream);
/* copy a page from or to the host's memory, kv->block_stride bytes */
void		cuda_kv_get(const KvView *kv, int32_t page, void *to, cudaStream_t stream);
void		cuda_kv_put(const KvView *kv, int32_t page, const void *from, cudaStream_t stream);
/*
 * largest[0] = the largest |K|, [1] = |V| of blocks 0 .. n_blocks - 1, all of them full, of a KV of
 * floats; in the device's memory
 */
void		cuda_kv_largest(const CudaKv *kv, int n_blocks, float *largest, cudaStream_t stream);

/*
 * Mixtures of experts, as the ops of the same names (kernels.h).  type: of h and x, KT_F32, KT_F16 or
 * KT_BF16.  The logits are not modified.
 */
void		cuda_moe_route(const KRoute *c, const float *logits, int rows, int32_t *experts, float *weights,
						   cudaStream_t stream);
void		cuda_moe_slots(int32_t *experts, int rows, int first, int top_k, const int32_t *slots, int width,
						   cudaStream_t stream);
void		cuda_moe_place(const int32_t *experts, int pairs, int n_experts, int32_t *start, int32_t *place,
						   cudaStream_t stream);
void		cuda_moe_gather(KType type, void *x, const void *h, int rows, int top_k, const int32_t *place,
							const float *weights, int hidden, cudaStream_t stream);
void		cuda_moe_combine(float *y, const float *x, int rows, int top_k, const int32_t *place,
							 const float *weights, const float *gate, bool shared, const float *out_bias,
							 int hidden, cudaStream_t stream);

/* ---- attn.cu: attention ---- */

/* Capabilities of a device. */
typedef struct CudaCaps
{
	int			cc;				/* compute capability, 90 for 9.0 */
	int			smem;			/* bytes that a block may use (cudaDevAttrMaxSharedMemoryPerBlockOptin) */
	/* 9.0 only: use the kernels of *_sm90.cu, whose bits may differ; for all products of a device, or
	 * for none */
	bool		wgmma;
} CudaCaps;

/* call once for each device */
void		cuda_attn_init(const CudaCaps *caps);
/* bytes of scratch that make it faster; most_keys: the longest context */
size_t		cuda_attn_scratch(const CudaKv *kv, int n_heads, int rows, int most_keys);
/*
 * As attn of kernels.h, with most_rows and most_keys set in r, and a's arrays in the device's memory.
 * out: [rows][n_heads v_dim] of F32, BF16 or F16; zeros for rows at position -1.  A row's bits depend
 * only on the row: not on ws_size, nor on other rows of r.
 */
void		cuda_attn(const CudaCaps *caps, const CudaKv *kv, const CudaRows *r, const float *q, int ldq,
					  int n_heads, const KAttn *a, void *out, KType out_type, void *ws, size_t ws_size,
					  cudaStream_t stream);
/*
 * Sample a token for each row that has a KSample in buffer (kernels.h).  width: logits of a row, at most
 * KSAMPLE_MAX_WIDTH; n_valid: ids below it are allowed.  Logits of rows with biases or penalties are
 * modified and restored during the call; the biases and penalties in the buffer are overwritten.
 */
void		cuda_sample(void *buffer, int rows, float *logits, int width, int n_valid, KSampled *out,
						cudaStream_t stream);

/* ---- comm.cu: combining ranks' parts ---- */

#define CUDA_RANKS 16

/* Columns of ranks: for each rank those from `from` on, `width` of them or as many as it has. */
typedef struct CudaParts
{
	int			ranks;
	int64_t		starts[CUDA_RANKS + 1];
	int64_t		from;
	int64_t		width;
} CudaParts;

static inline __host__ __device__ size_t
cuda_part_width(const CudaParts *p, int rank)
{
	int64_t		left = p->starts[rank + 1] - p->starts[rank] - p->from;

	return (size_t) (left < 0 ? 0 : left < p->width ? left : p->width);
}

/*
 * Fill all[rows][starts[ranks]]; rank r's part[rows][its width] is at parts + r slot.  Sizes are in
 * bytes: a column's is even, a slot's a multiple of 16.
 */
void		cuda_columns(void *all, const void *parts, size_t slot, const CudaParts *p, size_t size, int rows,
						 cudaStream_t stream);
/* x[n] = parts[0][n] + parts[1][n] + ... */
void		cuda_sum_parts(float *x, const float *parts, int ranks, size_t n, cudaStream_t stream);

/* ---- mm_*.cu: products with packed matrices (pack.h) ---- */

/*
 * Matrices of one type and size.  data and bias are arrays in the device's memory; bias NULL: no matrix
 * has a bias; an entry NULL: this one has none.
 */
typedef struct CudaMats
{
	KType		type;
	int			n;
	int			k;
	int			n_mats;
	const void *const *data;
	const float *const *bias;
} CudaMats;

/* bytes for cuda_mm() and cuda_mm_grouped() with at most this many rows */
size_t		cuda_mm_scratch(KType type, int rows, int k, bool fp8_x = false);
/*
 * As mm and mm_grouped of kernels.h.  `as`: x is KT_BF16, KT_F16, or, for matrices of floats, of INT8,
 * and of FP8 with fp8_x, KT_F32.  fp8_x: for FP8 weights x is rounded to FP8, too.  row_start is in the
 * device's memory; of rows 0 .. rows - 1 only those in its groups are written.  wgmma: CudaCaps.wgmma,
 * for all products of a device or for none.  Return false if there is no such product.
 */
bool		cuda_mm(const KMat *w, const void *x, KType as, int rows, int ldx, float *y, int ldy,
					const float *bias, void *ws, cudaStream_t stream, bool wgmma = false, bool fp8_x = false);
bool		cuda_mm_grouped(const CudaMats *w, const int32_t *row_start, const void *x, KType as, int rows,
							int ldx, float *y, int ldy, void *ws, cudaStream_t stream, bool wgmma = false,
							bool fp8_x = false);

#endif
