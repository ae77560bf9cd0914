/*
 * kutil.h
 *	  Functions that the implementations share: addresses inside the KV, fixed constants of the
 *	  numerics, and inline conversions.  Private to kernels/.
 */
#ifndef VLLM_KERNELS_KUTIL_H
#define VLLM_KERNELS_KUTIL_H

#include <math.h>
#include <string.h>

/* in this directory operands are floats, as on CPUs */
#ifndef K_OP_FLOAT
#define K_OP_FLOAT
#endif
#include "kernels.h"

/*
 * Attention processes the keys in strips and splits that begin at absolute multiples of these, so that
 * the order of a row's softmax depends only on its position.
 */
#define ATTN_STRIP	64			/* positions of one online-softmax update */
#define ATTN_SPLIT	512			/* positions of one independent part (m, d, o) */

/* For fewer elements it isn't worthwhile to wake other threads for a row-wise op. */
#define ROW_INLINE	8192

static inline int
k_min(int a, int b)
{
	return a < b ? a : b;
}

static inline int
k_max(int a, int b)
{
	return a > b ? a : b;
}

static inline size_t
k_align64(size_t n)
{
	return (n + 63) & ~(size_t) 63;
}

/* bytes of one KV element */
static inline size_t
kv_elem(KType t)
{
	return t == KT_F32 ? 4 : t == KT_F16 || t == KT_BF16 ? 2 : 1;
}

static inline bool
kv_is_f8(KType t)
{
	return t == KT_F8_E4M3 || t == KT_F8_E5M2;
}

/* the factor of a layer's codes of K (0) or V (1): FP8's scale; 1 for all other types */
static inline float
kv_scale(const KvView *kv, int layer, int v)
{
	return kv_is_f8(kv->type) && kv->scales != NULL ? kv->scales[2 * layer + v] : 1.0f;
}

/* elements of a token's V */
static inline int
kv_vwidth(const KvView *kv)
{
	return kv->v_dim > 0 ? kv->v_dim : kv->head_dim;
}

/*
 * A cell is K [head_dim][block_size], then V [block_size][kv_vdim]: V's rows are padded to whole
 * vectors.  The padding's content never leaves its lanes.  INT8: codes, followed by a float scale for
 * each token's K, then each V.
 */
static inline int
kv_vdim(const KvView *kv)
{
	return (kv_vwidth(kv) + 15) & ~15;
}

static inline uint8_t *
kv_cell(const KvView *kv, int layer, int32_t block, int head)
{
	if (kv->pages != NULL)
	{
		block = kv->pages[block * kv->n_parts + kv->parts[layer].part];
		layer = kv->parts[layer].at;
	}
	return kv->base + (size_t) layer * kv->layer_stride +
		(size_t) block * kv->block_stride + (size_t) head * kv->head_stride;
}

/* the V part of a cell */
static inline uint8_t *
kv_cell_v(const KvView *kv, uint8_t *cell)
{
	return cell + (size_t) kv->head_dim * kv->block_size * kv_elem(kv->type);
}

/* the scales of an INT8 cell: [block_size] of K, [block_size] of V */
static inline float *
kv_cell_scales(const KvView *kv, uint8_t *cell)
{
	return (float *) (void *) (kv_cell_v(kv, cell) + (size_t) kv->block_size * kv_vdim(kv));
}

/* the sequence that owns a row; seq_start ascends */
static inline int
krows_seq(const KRows *r, int row)
{
	int			lo = 0,
				hi = r->n_seqs;

	while (hi - lo > 1)
	{
		int			mid = (lo + hi) / 2;

		if (r->seq_start[mid] <= row)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

/* start of the stored row that holds logical row i of a matrix */
static inline const uint8_t *
ktensor_row(const KTensor *t, int i)
{
	size_t		j = t->row_perm ? (size_t) t->row_perm[i] : (size_t) i;

	return (const uint8_t *) t->data + j * ktype_row_bytes(t->type, t->shape[1]);
}

/* element c of a float row of any 2- or 4-byte type */
static inline float
kelem_get(KType t, const uint8_t *row, size_t c)
{
	uint16_t	h;
	float		f;

	if (t == KT_F32)
	{
		memcpy(&f, row + c * 4, 4);
		return f;
	}
	memcpy(&h, row + c * 2, 2);
	return t == KT_F16 ? kf16_to_f32(h) : kbf16_to_f32(h);
}

static inline void
kelem_put(KType t, uint8_t *row, size_t c, float f)
{
	uint16_t	h;

	if (t == KT_F32)
	{
		memcpy(row + c * 4, &f, 4);
		return;
	}
	h = t == KT_F16 ? kf32_to_f16(f) : kf32_to_bf16(f);
	memcpy(row + c * 2, &h, 2);
}

static inline uint32_t
k_bits(float f)
{
	uint32_t	u;

	memcpy(&u, &f, 4);
	return u;
}

static inline float
k_float(uint32_t u)
{
	float		f;

	memcpy(&f, &u, 4);
	return f;
}

/*
 * Return the scale of one Q8 block of activations, from the largest bit pattern of |x|: q = rint(x *
 * *inv), x ~= q * result.  If a value isn't finite the scale is NaN (and all q 0), so that the row's
 * outputs become NaN and not plausible numbers.  Below 2^-100 the block counts as zero, since 127/amax
 * would overflow.
 */
static inline float
q8_scale(uint32_t amax_bits, float *inv)
{
	float		amax = k_float(amax_bits);

	*inv = 0.0f;
	if (amax_bits >= 0x7f800000u)
		return k_float(0x7fc00000u);
	if (amax < 0x1p-100f)
		return 0.0f;
	*inv = 127.0f / amax;
	return amax / 127.0f;
}

/*
 * INT8's activations have a scale and a zero point for each I8_GROUP consecutive k of a row: x ~= s * (u
 * - z), codes u and zero points z of 0 .. 127.
 */
#define I8_GROUP	128
#define I8_MAX_CODE	127

/* Round to the nearest integer, ties to even, |x| < 2^22. */
static inline int32_t
k_nearest(float x)
{
	return (int32_t) (x + 12582912.0f - 12582912.0f);
}

/*
 * Return the scale of one group from its largest value and the negative of its least one, both at least
 * 0; u = min(rint(x * *inv) + *zero, 127).  Non-finite and tiny values are treated as in q8_scale().
 */
static inline float
i8_scale(float max, float neg_min, bool finite, float *inv, int32_t *zero)
{
	const float part = 1.0f / I8_MAX_CODE;
	float		s = max * part + neg_min * part;

	*inv = 0.0f;
	*zero = 0;
	if (!finite)
		return k_float(0x7fc00000u);
	if (s < 0x1p-107f)
		return 0.0f;
	*inv = 1.0f / s;
	*zero = k_nearest(neg_min * *inv);
	return s;
}

/* the step size of a scan's head (KScan) */
static inline float
k_ssm_dt(const KScan *s, float dt, int head)
{
	if (s->dt_bias != NULL)
		dt += s->dt_bias[head];
	if (dt <= 20.0f)
		dt = log1pf(expf(dt));
	/* this order of comparisons lets a NaN through */
	dt = dt < s->dt_min ? s->dt_min : dt;
	return dt > s->dt_max ? s->dt_max : dt;
}

static inline float
k_silu(float z)
{
	return z / (1.0f + expf(-z));
}

#endif
