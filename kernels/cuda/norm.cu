/*
 * norm.cu
 *	  Norms: one block per row, or one warp if rows are short.
 *
 * Row invariant: lane t of a row's lanes sums the columns of quads t, t + lanes, ..., followed by the
 * trees of warp_sum() and block_sum(); the number of lanes depends only on the row's length.  A row is
 * read two or three times, all except the first from L1 or L2.
 *
 * Each column is read and written by one thread, so y may be x, and add_rmsnorm() norms the row that it
 * has just added to.
 */
#include "cuda/common.cuh"
#include "cuda/quad.cuh"
#include "cuda/cuda_ops.h"

#define WARPS	8
#define THREADS (WARPS * 32)
#define SHORT	512				/* rows of up to this many columns are computed by one warp */

typedef struct Norm
{
	float	   *x;				/* [n / heads] rows of heads, ld apart; y's are ldy apart */
	int			ld;
	int			ldy;
	const float *d;				/* [n / heads][heads * dim], added to x, or NULL */
	const float *w;				/* head h's is w + h * ldw; NULL: 1 */
	int			ldw;
	const float *b;				/* NULL: 0 */
	int			n;				/* heads of all rows */
	int			heads;
	int			dim;
	float		eps;
	bool		centred;		/* KNORM_LAYER */
} Norm;

/* the sum over the lanes of a row */
template <int LANES> static __device__ __forceinline__ float
row_sum(float v, float *sums)
{
	return LANES == 32 ? warp_sum(v) : block_sum<LANES / 32>(v, sums);
}

static __device__ __forceinline__ float
quad_sum(float4 v, float sum)
{
	return sum + v.x + v.y + v.z + v.w;
}

static __device__ __forceinline__ float
square_sum(float4 v, float sum)
{
	return fmaf(v.w, v.w, fmaf(v.z, v.z, fmaf(v.y, v.y, fmaf(v.x, v.x, sum))));
}

/* v - mean, but zeros after the row's end */
static __device__ __forceinline__ float4
centre(float4 v, float mean, int left)
{
	return make_float4(v.x - mean, left > 1 ? v.y - mean : 0.0f, left > 2 ? v.z - mean : 0.0f,
					   left > 3 ? v.w - mean : 0.0f);
}

/* x += d, for this lane's columns */
template <bool V, int LANES> static __device__ __forceinline__ void
add_to(float *x, const float *d, int dim, int lane)
{
#pragma unroll 2
	for (int i = 4 * lane; i < dim; i += 4 * LANES)
		quad_put<V>(x + i, dim - i, quad_get<V>(x + i, dim - i) + quad_get<V>(d + i, dim - i));
}

/* return the mean of a row, and the reciprocal of its divisor; sums: [2][warps] */
template <bool V, int LANES> static __device__ __forceinline__ float2
measure(const Norm &a, const float *x, int lane, float *sums)
{
	float		mean = 0.0f,
				sum = 0.0f;

	if (a.centred)
	{
#pragma unroll 2
		for (int i = 4 * lane; i < a.dim; i += 4 * LANES)
			mean = quad_sum(quad_get<V>(x + i, a.dim - i), mean);
		mean = row_sum<LANES>(mean, sums) / (float) a.dim;
	}
#pragma unroll 2
	for (int i = 4 * lane; i < a.dim; i += 4 * LANES)
	{
		float4		v = quad_get<V>(x + i, a.dim - i);

		sum = square_sum(a.centred ? centre(v, mean, a.dim - i) : v, sum);
	}
	sum = row_sum<LANES>(sum, sums + LANES / 32);
	return make_float2(mean, 1.0f / sqrtf(sum / (float) a.dim + a.eps));
}

template <typename T, bool V, int LANES> __global__ void __launch_bounds__(THREADS)
norm_kernel(T *y, const Norm a)
{
	SHARED(float, sums, [2 * WARPS]);
	int			lane = threadIdx.x % LANES;
	int			r = blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES;
	size_t		row = (size_t) (r / a.heads),
				head = (size_t) (r % a.heads);
	float	   *x = a.x + row * a.ld + head * a.dim;
	const float *w = a.w != NULL ? a.w + head * a.ldw : NULL;
	float2		m;

	/* rows of a warp need no barrier */
	if (r >= a.n)
		return;
	if (a.d != NULL)
		add_to<V, LANES>(x, a.d + (size_t) r * a.dim, a.dim, lane);
	m = measure<V, LANES>(a, x, lane, sums);
	y += row * a.ldy + head * a.dim;
#pragma unroll 2
	for (int i = 4 * lane; i < a.dim; i += 4 * LANES)
	{
		int			left = a.dim - i;
		float4		v = quad_get<V>(x + i, left);

		v = (a.centred ? centre(v, m.x, left) : v) * m.y;
		if (w != NULL)
			v = v * quad_get<V>(w + i, left);
		if (a.b != NULL)
			v = v + quad_get<V>(a.b + i, left);
		quad_put<V>(y + i, left, v);
	}
}

template <typename T, int LANES> static void
norm_lanes(T *y, const Norm *a, bool whole, cudaStream_t stream)
{
	int			blocks = (a->n + THREADS / LANES - 1) / (THREADS / LANES);

	if (whole)
		LAUNCH((norm_kernel<T, true, LANES>), blocks, THREADS, 0, stream, y, *a);
	else
		LAUNCH((norm_kernel<T, false, LANES>), blocks, THREADS, 0, stream, y, *a);
}

template <typename T> static void
norm(T *y, const Norm *a, cudaStream_t stream)
{
	bool		whole = quads_whole(a->x, a->ld, a->dim, sizeof(float)) &&
		quads_whole(y, a->ldy, a->dim, sizeof(T)) &&
		(a->w == NULL || quads_whole(a->w, a->ldw, a->dim, sizeof(float))) &&
		(a->b == NULL || quads_whole(a->b, 0, a->dim, sizeof(float))) &&
		(a->d == NULL || quads_whole(a->d, a->dim, a->dim, sizeof(float)));

	if (a->n == 0)
		return;
	if (a->dim <= SHORT)
		norm_lanes<T, 32>(y, a, whole, stream);
	else
		norm_lanes<T, THREADS>(y, a, whole, stream);
}

void
cuda_rmsnorm(void *y, KType as, const float *x, const float *w, int rows, int dim, float eps,
			 cudaStream_t stream)
{
	Norm		a = {(float *) x, dim, dim, NULL, w, 0, NULL, rows, 1, dim, eps, false};

	WITH_OPERAND(norm, as, y, &a, stream);
}

void
cuda_add_rmsnorm(void *y, KType as, float *x, const float *d, const float *w, int rows, int dim, float eps,
				 cudaStream_t stream)
{
	Norm		a = {x, dim, dim, d, w, 0, NULL, rows, 1, dim, eps, false};

	WITH_OPERAND(norm, as, y, &a, stream);
}

void
cuda_layernorm(void *y, KType as, const float *x, const float *w, const float *b, int rows, int dim,
			   float eps, cudaStream_t stream)
{
	Norm		a = {(float *) x, dim, dim, NULL, w, 0, b, rows, 1, dim, eps, true};

	WITH_OPERAND(norm, as, y, &a, stream);
}

void
cuda_norm_heads(KNormKind kind, float *x, int rows, int ld, int heads, int dim, const float *w, int ldw,
				float eps, cudaStream_t stream)
{
	Norm		a = {x, ld, ld, NULL, w, ldw, NULL, rows * heads, heads, dim, eps, kind == KNORM_LAYER};

	norm(x, &a, stream);
}
