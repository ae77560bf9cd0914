/*
 * kv.h
 *	  The KV cache and the rows of a step as CUDA's kernels get them, by value.
 *
 * A cell (layer, block, KV head) has the size from kv_layout(), but another order than on the CPU: K
 * [block_size][head_dim], then V [block_size][v_dim rounded up to 16], so that a token's K is
 * contiguous.  INT8: followed by a float scale for each token's K, then for each V.  K or V of 16 bits
 * whose columns are a multiple of 8 is [block_size / 8][columns / 8][8 tokens][8 columns]: tensor cores
 * need contiguous 8 x 8 matrices, so any 8 tokens can be copied unchanged (attn_sm90.cu).
 */
#ifndef VLLM_KERNELS_CUDA_KV_H
#define VLLM_KERNELS_CUDA_KV_H

#include "kernels.h"

/* One layer of a KvView. */
typedef struct CudaKv
{
	KType		type;
	int			block_size;
	int			n_kv_heads;
	int			head_dim;
	int			v_dim;			/* never 0 */
	int			v_pad;			/* v_dim rounded up to 16: a token's V in the cell */
	const int32_t *pages;		/* in the device's memory, [n][n_parts], or NULL */
	int			n_parts;
	int			part;			/* index of the layer's page in a block */
	float		k_scale;		/* FP8's scale; 1 for other types */
	float		v_scale;
	uint8_t    *base;			/* address of the layer, in page 0 */
	size_t		page_stride;
	size_t		head_stride;
	size_t		v_at;			/* offset of V in a cell, in bytes */
	size_t		scales_at;		/* offset of INT8's scales in a cell, in bytes */
} CudaKv;

/* The rows of a step, or of a part of it.  All arrays are in the device's memory. */
typedef struct CudaRows
{
	int			n_rows;
	int			n_seqs;
	int			row0;			/* subtracted from seq_start, for rows that begin in the middle of a step */
	const int32_t *seq_start;	/* [n_seqs + 1] */
	const int32_t *pos;			/* [n_rows]; -1: a padding row, whose K and V are not stored */
	const int32_t *table;		/* [n_seqs][ld_table] blocks */
	int			ld_table;
	/* for attention, upper bounds of */
	int			most_rows;		/* rows of a sequence */
	int			most_keys;		/* the end of the positions that a row sees */
} CudaRows;

/* bytes of an element, also in kernels */
#define cuda_kv_size(t) ((t) == KT_F32 ? 4 : (t) == KT_F16 || (t) == KT_BF16 ? 2 : 1)

/* kernels call these functions, too */
#ifdef __CUDACC__
#define KV_FN static inline __host__ __device__
#else
#define KV_FN static inline
#endif

/* return true if rows of len elements are stored as 8 x 8 matrices */
KV_FN bool
cuda_kv_by_eights(KType t, int len)
{
	return (t == KT_F16 || t == KT_BF16) && len % 8 == 0;
}

/* index of the element of column c and the token at `place` of its block, in a K or V with rows of
 * len */
KV_FN size_t
cuda_kv_at(KType t, int len, int place, int c)
{
	if (!cuda_kv_by_eights(t, len))
		return (size_t) place * len + c;
	return ((size_t) (place / 8) * (len / 8) + c / 8) * 64 + place % 8 * 8 + c % 8;
}

/* base and pages: in the device's memory; everything else of kv is the host's */
static inline CudaKv
cuda_kv(const KvView *kv, int layer, const int32_t *pages)
{
	bool		f8 = (kv->type == KT_F8_E4M3 || kv->type == KT_F8_E5M2) && kv->scales != NULL;
	int			v_dim = kv->v_dim > 0 ? kv->v_dim : kv->head_dim;
	int			at = layer;
	CudaKv		c = {};

	c.type = kv->type;
	c.block_size = kv->block_size;
	c.n_kv_heads = kv->n_kv_heads;
	c.head_dim = kv->head_dim;
	c.v_dim = v_dim;
	c.v_pad = (v_dim + 15) & ~15;
	c.k_scale = f8 ? kv->scales[2 * layer] : 1.0f;
	c.v_scale = f8 ? kv->scales[2 * layer + 1] : 1.0f;
	if (kv->pages != NULL)
	{
		c.pages = pages;
		c.n_parts = kv->n_parts;
		c.part = kv->parts[layer].part;
		at = kv->parts[layer].at;
	}
	c.base = kv->base + (size_t) at * kv->layer_stride;
	c.page_stride = kv->block_stride;
	c.head_stride = kv->head_stride;
	c.v_at = (size_t) kv->block_size * (size_t) kv->head_dim * cuda_kv_size(kv->type);
	c.scales_at = c.v_at + (size_t) kv->block_size * (size_t) c.v_pad * cuda_kv_size(kv->type);
	return c;
}

#endif
