/*
 * mm_dense.cu
 *	  Products with matrices of floats, and the launches of all products.
 *
 * Tensor cores multiply if x has the weights' type, BF16 or F16; any other pair is a sum of fused
 * products of floats, which within a segment has the bits of kernels/ref.
 */
#include "cuda/mm/mm.cuh"

#include "cuda/cuda_ops.h"
#include "cuda/pack.h"

/* add the segments' sums, ascending */
__global__ void __launch_bounds__(256)
mm_sum_kernel(MmArgs a, int segments)
{
	int			n = blockIdx.x * 256 + threadIdx.x,
				row = blockIdx.y;
	const float *bias = a.bias;
	float		tot;

	if (a.ws != NULL)
	{
		int			m = 0;

		/* groups may begin after the first row, and end before the last one */
		if (row < a.start[0] || row >= a.start[a.n_mats])
			return;
		while (a.start[m + 1] <= row)
			m++;
		bias = a.biases != NULL ? a.biases[m] : NULL;
	}
	if (n >= a.n)
		return;
	tot = a.part[(size_t) row * a.n + n];
	for (int s = 1; s < segments; s++)
		tot += a.part[((size_t) s * a.rows + row) * a.n + n];
	a.y[(size_t) row * a.ldy + n] = bias != NULL ? tot + bias[n] : tot;
}

/* floats: narrow tiles only */
template <typename W, typename X> static bool
floats(const MmArgs *a, MmShape shape, cudaStream_t stream)
{
	if (shape == MM_8)
		mm_go<Weights<CUDA_FLOAT, CUDA_NONE, W>, OpFloat<X>, 1, 1, 4, 1, 128, 1>(a, stream);
	else
		mm_go<Weights<CUDA_FLOAT, CUDA_NONE, W>, OpFloat<X>, 1, 4, 4, 1, 64, 1>(a, stream);
	return true;
}

template <typename X> static bool
floats_by(const MmArgs *a, KType w, MmShape shape, cudaStream_t stream)
{
	return w == KT_F32 ? floats<float, X>(a, shape, stream) :
		w == KT_F16 ? floats<F16, X>(a, shape, stream) : floats<BF16, X>(a, shape, stream);
}

bool
mm_dense(const MmArgs *a, const CudaLayout *l, KType w, KType x, MmShape shape, cudaStream_t stream)
{
	(void) l;
	if (w == KT_BF16 && x == KT_BF16)
		mm_shapes<Weights<CUDA_FLOAT, CUDA_NONE, BF16>, OpBF16>(a, shape, stream);
	else if (w == KT_F16 && x == KT_F16)
		mm_shapes<Weights<CUDA_FLOAT, CUDA_NONE, F16>, OpF16>(a, shape, stream);
	else
		return x == KT_F32 ? floats_by<float>(a, w, shape, stream) :
			x == KT_F16 ? floats_by<F16>(a, w, shape, stream) : floats_by<BF16>(a, w, shape, stream);
	return true;
}

/* ---- the ops ---- */

static int
segments_of(int k)
{
	return (k + MM_SEGMENT - 1) / MM_SEGMENT;
}

size_t
cuda_mm_scratch(KType type, int rows, int k, bool fp8_x)
{
	if (type == KT_INT8 || (type == KT_FP8 && fp8_x))
		return w8a8_scratch(rows, k);
	return segments_of(k) > 1 ? sizeof(float) * segments_of(k) * MM_WIDE * min(rows, MM_FEW) : 0;
}

static bool
launch(MmArgs *a, KType type, KType x, int per_mat, void *ws, cudaStream_t stream, bool wgmma, bool fp8_x)
{
	const CudaLayout *l = cuda_layout(type);
	size_t		size = x == KT_F32 ? 4 : 2;
	MmShape		shape = per_mat <= 8 ? MM_8 : per_mat <= MM_FEW ? MM_32 : MM_MANY;
	bool		ok;

	if (a->rows == 0)
		return true;
	if (type == KT_INT8 || (type == KT_FP8 && fp8_x))
	{
		(type == KT_INT8 ? mm_int8 : mm_fp8_a8) (a, x, shape, ws, stream);
		return true;
	}
	a->vectors = a->ldx * size % 16 == 0 && (uintptr_t) a->x % 16 == 0;
	a->part = a->rows <= MM_FEW && a->n < MM_WIDE && segments_of(a->k) > 1 ? (float *) ws : NULL;
	a->book.off = l->off;
	for (int i = 0; i < 16; i++)
		a->book.t[i / 4] |= (uint32_t) (cuda_table(type)[i] + 128) << i % 4 * 8;
	ok = wgmma && mm_sm90(a, l, type, x, shape, stream);
	if (!ok)
		ok = l->codes == CUDA_FLOAT ? mm_dense(a, l, type, x, shape, stream) :
		l->codes == CUDA_BYTE ? mm_byte(a, l, x, shape, stream) :
		l->codes == CUDA_E4M3 ? mm_fp8(a, l, x, shape, stream) : mm_nibble(a, l, x, shape, stream);
	if (ok && a->part != NULL)
		LAUNCH(mm_sum_kernel, dim3((a->n + 255) / 256, a->rows), 256, 0, stream, *a, segments_of(a->k));
	return ok;
}

bool
cuda_mm(const KMat *w, const void *x, KType as, int rows, int ldx, float *y, int ldy, const float *bias,
		void *ws, cudaStream_t stream, bool wgmma, bool fp8_x)
{
	MmArgs		a = {};

	a.w = (const uint8_t *) w->data;
	a.x = x;
	a.ldx = ldx;
	a.rows = rows;
	a.y = y;
	a.ldy = ldy;
	a.bias = bias;
	a.n = w->n;
	a.k = w->k;
	return launch(&a, w->type, as, rows, ws, stream, wgmma, fp8_x);
}

bool
cuda_mm_grouped(const CudaMats *w, const int32_t *row_start, const void *x, KType as, int rows, int ldx,
				float *y, int ldy, void *ws, cudaStream_t stream, bool wgmma, bool fp8_x)
{
	MmArgs		a = {};

	a.ws = w->data;
	a.biases = w->bias;
	a.n_mats = w->n_mats;
	a.start = row_start;
	a.x = x;
	a.ldx = ldx;
	a.rows = rows;
	a.y = y;
	a.ldy = ldy;
	a.n = w->n;
	a.k = w->k;
	/* a matrix has about this many rows */
	return launch(&a, w->type, as, (rows + w->n_mats - 1) / w->n_mats, ws, stream, wgmma, fp8_x);
}
