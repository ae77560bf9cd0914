/*
 * rows.cu
 *	  Ops on rows that treat columns independently: sums, factors, activations, copies.
 *
 * A struct with the arguments and an operator () computes four columns of an op; each_kernel() calls it
 * for all of them.  A column's bits depend only on its own inputs, not on the assignment of rows and
 * columns to threads.
 */
#include "cuda/common.cuh"
#include "cuda/act.cuh"
#include "cuda/quad.cuh"
#include "cuda/cuda_ops.h"

#define THREADS 256

/* f(row, first column) for each quad of each row; per_row: quads */
template <typename F> __global__ void __launch_bounds__(THREADS)
each_kernel(const F f, size_t n, unsigned per_row)
{
	size_t		i = (size_t) blockIdx.x * THREADS + threadIdx.x;

	if (i < n)
		f(i / per_row, (int) (i % per_row) * 4);
}

template <typename F> static void
each(const F &f, int rows, int columns, cudaStream_t stream)
{
	size_t		n = (size_t) rows * quads(columns);

	if (n > 0)
		LAUNCH(each_kernel<F>, (unsigned) ((n + THREADS - 1) / THREADS), THREADS, 0, stream, f, n,
			   (unsigned) quads(columns));
}

/* each(f<V> {...}), with V if its rows are whole quads */
#define EACH(f, whole, rows, columns, stream, ...) \
	do \
	{ \
		if (whole) \
			each(f<true> {__VA_ARGS__}, rows, columns, stream); \
		else \
			each(f<false> {__VA_ARGS__}, rows, columns, stream); \
	} while (0)

/* ---- sums and factors ---- */

template <bool V> struct Add
{
	float	   *x;
	const float *d;
	int			dim;

	__device__ __forceinline__ void
	operator() (size_t row, int c) const
	{
		size_t		at = row * dim + c;

		quad_put<V>(x + at, dim - c, quad_get<V>(x + at, dim - c) + quad_get<V>(d + at, dim - c));
	}
};

void
cuda_add(float *x, const float *d, int rows, int dim, cudaStream_t stream)
{
	EACH(Add, quads_whole(x, dim, dim, sizeof(float)) && quads_whole(d, dim, dim, sizeof(float)), rows, dim,
		 stream, x, d, dim);
}

/* columns of rows that are ld apart: x *= by */
template <bool V> struct Scale
{
	float	   *x;
	int			ld;
	int			n;
	float		by;

	__device__ __forceinline__ void
	operator() (size_t row, int c) const
	{
		float	   *to = x + row * ld + c;

		quad_put<V>(to, n - c, quad_get<V>(to, n - c) * by);
	}
};

void
cuda_scale_cols(float *y, int rows, int ldy, int from, int n, float by, cudaStream_t stream)
{
	float	   *x = y + from;

	EACH(Scale, quads_whole(x, ldy, n, sizeof(float)), rows, n, stream, x, ldy, n, by);
}

void
cuda_scale(float *x, int rows, int dim, float s, cudaStream_t stream)
{
	cuda_scale_cols(x, rows, dim, 0, dim, s, stream);
}

template <bool V> struct MulCols
{
	float	   *y;
	int			ld;
	const float *w;
	int			n;

	__device__ __forceinline__ void
	operator() (size_t row, int c) const
	{
		float	   *to = y + row * ld + c;

		quad_put<V>(to, n - c, quad_get<V>(to, n - c) * quad_get<V>(w + c, n - c));
	}
};

void
cuda_mul_cols(float *y, int rows, int ldy, const float *w, int n, cudaStream_t stream)
{
	EACH(MulCols, quads_whole(y, ldy, n, sizeof(float)) && quads_whole(w, 0, n, sizeof(float)), rows, n,
		 stream, y, ldy, w, n);
}

struct Clip
{
	float	   *x;
	int			ld;
	int			n;
	float		most;

	__device__ __forceinline__ void
	operator() (size_t row, int c) const
	{
		float	   *to = x + row * ld + c;
		float		m = most;

		quad_put<false>(to, n - c, quad_map(quad_get<false>(to, n - c), [m](float v) {
			/* a NaN stays */
			return v > m ? m : v < -m ? -m : v;
		}));
	}
};

void
cuda_clip(float *x, int rows, int ld, int n, float most, cudaStream_t stream)
{
	each(Clip {x, ld, n, most}, rows, n, stream);
}

struct HeadBias
{
	float	   *x;
	int			ld;
	int			n;				/* heads * dim */
	int			dim;
	const float *b;
	int			ldb;

	__device__ __forceinline__ void
	operator() (size_t row, int c) const
	{
		/* four columns may belong to two heads */
		for (int i = c; i < c + 4 && i < n; i++)
			x[row * ld + i] += b[(size_t) (i / dim) * ldb + i % dim];
	}
};

void
cuda_add_head_bias(float *x, int rows, int ld, int heads, int dim, const float *b, int ldb,
				   cudaStream_t stream)
{
	each(HeadBias {x, ld, heads * dim, dim, b, ldb}, rows, heads * dim, stream);
}

struct Temper
{
	float	   *q;
	int			ld;
	int			n;
	const int32_t *pos;
	float		scale;
	float		every;
	float		first;

	__device__ __forceinline__ void
	operator() (size_t row, int c) const
	{
		float		spans = floorf(((float) pos[row] + first) / every);
		float	   *to = q + row * ld + c;

		if (spans > 0.0f)
			quad_put<false>(to, n - c, quad_get<false>(to, n - c) * (log1pf(spans) * scale + 1.0f));
	}
};

void
cuda_temper(float *q, int rows, int ld, int n, const int32_t *pos, float scale, int every, int first,
			cudaStream_t stream)
{
	each(Temper {q, ld, n, pos, scale, (float) every, (float) first}, rows, n, stream);
}

/* ---- activations ---- */

template <bool V> struct Softcap
{
	float	   *y;
	int			dim;
	float		cap;

	__device__ __forceinline__ void
	operator() (size_t row, int c) const
	{
		float	   *to = y + row * dim + c;
		float		by = cap;

		quad_put<V>(to, dim - c,
					quad_map(quad_get<V>(to, dim - c), [by](float v) { return by * tanhf(v / by); }));
	}
};

void
cuda_softcap(float *y, int rows, int dim, float cap, cudaStream_t stream)
{
	EACH(Softcap, quads_whole(y, dim, dim, sizeof(float)), rows, dim, stream, y, dim, cap);
}

template <typename T, bool V> struct Act
{
	T		   *y;
	const float *x;
	int			dim;
	KAct		a;

	__device__ __forceinline__ void
	operator() (size_t row, int c) const
	{
		size_t		at = row * dim + c;
		KAct		k = a;

		quad_put<V>(y + at, dim - c,
					quad_map(quad_get<V>(x + at, dim - c), [k](float v) { return act_of(k, v); }));
	}
};

template <typename T> static void
act(T *y, KAct a, const float *x, int rows, int dim, cudaStream_t stream)
{
	if (quads_whole(y, dim, dim, sizeof(T)) && quads_whole(x, dim, dim, sizeof(float)))
		each(Act<T, true> {y, x, dim, a}, rows, dim, stream);
	else
		each(Act<T, false> {y, x, dim, a}, rows, dim, stream);
}

void
cuda_act(KAct a, void *y, KType as, const float *x, int rows, int dim, cudaStream_t stream)
{
	WITH_OPERAND(act, as, y, a, x, rows, dim, stream);
}

template <typename T, bool V> struct ActMul
{
	T		   *y;
	const float *gu;
	int			dim;
	KAct		a;

	__device__ __forceinline__ void
	operator() (size_t row, int c) const
	{
		const float *g = gu + row * 2 * dim + c;
		KAct		k = a;
		float4		v = quad_map(quad_get<V>(g, dim - c), [k](float x) { return act_of(k, x); });
		float4		u = quad_map(quad_get<V>(g + dim, dim - c), [k](float x) { return up_of(k, x); });

		quad_put<V>(y + row * dim + c, dim - c, v * u);
	}
};

template <typename T> static void
act_mul(T *y, KAct a, const float *gu, int rows, int dim, cudaStream_t stream)
{
	if (quads_whole(y, dim, dim, sizeof(T)) && quads_whole(gu, dim, dim, sizeof(float)))
		each(ActMul<T, true> {y, gu, dim, a}, rows, dim, stream);
	else
		each(ActMul<T, false> {y, gu, dim, a}, rows, dim, stream);
}

void
cuda_act_mul(KAct a, void *y, KType as, const float *gu, int rows, int dim, cudaStream_t stream)
{
	WITH_OPERAND(act_mul, as, y, a, gu, rows, dim, stream);
}

template <typename T> struct Xielu
{
	T		   *y;
	const float *x;
	int			dim;
	float		alpha_p;
	float		alpha_n;
	float		beta;
	float		eps;

	__device__ __forceinline__ void
	operator() (size_t row, int c) const
	{
		size_t		at = row * dim + c;
		Xielu		p = *this;

		quad_put<false>(y + at, dim - c, quad_map(quad_get<false>(x + at, dim - c), [p](float v) {
			if (v > 0.0f)
				return p.alpha_p * v * v + p.beta * v;
			return (expm1f(v < p.eps ? v : p.eps) - v) * p.alpha_n + p.beta * v;
		}));
	}
};

template <typename T> static void
xielu(T *y, const float *x, int rows, int dim, const float p[4], cudaStream_t stream)
{
	each(Xielu<T> {y, x, dim, p[0], p[1], p[2], p[3]}, rows, dim, stream);
}

void
cuda_xielu(void *y, KType as, const float *x, int rows, int dim, const float p[4], cudaStream_t stream)
{
	WITH_OPERAND(xielu, as, y, x, rows, dim, p, stream);
}

/* y = a act(b) */
template <typename T> struct MulRows
{
	T		   *y;
	int			ldy;
	const float *a;
	int			lda;
	const float *b;
	int			ldb;
	int			dim;
	int			act;			/* < 0: none */

	__device__ __forceinline__ void
	operator() (size_t row, int c) const
	{
		int			k = act;
		float4		v = quad_get<false>(b + row * ldb + c, dim - c);

		if (k >= 0)
			v = quad_map(v, [k](float x) { return act_of((KAct) k, x); });
		quad_put<false>(y + row * ldy + c, dim - c, quad_get<false>(a + row * lda + c, dim - c) * v);
	}
};

template <typename T> static void
mul_rows(T *y, int ldy, const float *a, int lda, const float *b, int ldb, int rows, int dim, int of_b,
		 cudaStream_t stream)
{
	each(MulRows<T> {y, ldy, a, lda, b, ldb, dim, of_b}, rows, dim, stream);
}

void
cuda_mul_rows(void *y, KType as, int ldy, const float *a, int lda, const float *b, int ldb, int rows, int dim,
			  int of_b, cudaStream_t stream)
{
	WITH_OPERAND(mul_rows, as, y, ldy, a, lda, b, ldb, rows, dim, of_b, stream);
}

/* ---- copies ---- */

/* convert rows of one type to another */
template <typename T, typename S, bool V> struct Convert
{
	T		   *y;
	int			ldy;
	const S	   *x;
	int			ldx;
	int			dim;

	__device__ __forceinline__ void
	operator() (size_t row, int c) const
	{
		quad_put<V>(y + row * ldy + c, dim - c, quad_get<V>(x + row * ldx + c, dim - c));
	}
};

template <typename T, typename S> static void
convert(T *y, int ldy, const S *x, int ldx, int rows, int dim, cudaStream_t stream)
{
	if (quads_whole(y, ldy, dim, sizeof(T)) && quads_whole(x, ldx, dim, sizeof(S)))
		each(Convert<T, S, true> {y, ldy, x, ldx, dim}, rows, dim, stream);
	else
		each(Convert<T, S, false> {y, ldy, x, ldx, dim}, rows, dim, stream);
}

template <typename T> static void
to_op(T *y, int ldy, const float *x, int ldx, int rows, int dim, cudaStream_t stream)
{
	convert(y, ldy, x, ldx, rows, dim, stream);
}

void
cuda_to_op(void *y, KType as, int ldy, const float *x, int ldx, int rows, int dim, cudaStream_t stream)
{
	WITH_OPERAND(to_op, as, y, ldy, x, ldx, rows, dim, stream);
}

template <typename S> static void
from_op(const S *x, int ldx, float *y, int ldy, int rows, int dim, cudaStream_t stream)
{
	convert(y, ldy, x, ldx, rows, dim, stream);
}

void
cuda_from_op(float *y, int ldy, const void *x, KType as, int ldx, int rows, int dim, cudaStream_t stream)
{
	WITH_OPERAND(from_op, as, x, ldx, y, ldy, rows, dim, stream);
}

/* row i of y = row from[i] of x */
struct GatherRows
{
	float	   *y;
	int			ldy;
	const float *x;
	int			ldx;
	const int32_t *from;
	int			dim;

	__device__ __forceinline__ void
	operator() (size_t row, int c) const
	{
		quad_put<false>(y + row * ldy + c, dim - c, quad_get<false>(x + (size_t) from[row] * ldx + c,
																	dim - c));
	}
};

void
cuda_copy_rows(float *y, int ldy, const float *x, int ldx, const int32_t *idx, int rows, int dim,
			   cudaStream_t stream)
{
	if (idx == NULL)
		convert(y, ldy, x, ldx, rows, dim, stream);
	else
		each(GatherRows {y, ldy, x, ldx, idx, dim}, rows, dim, stream);
}

/* row to[i] of y = row i of x */
struct PutRows
{
	float	   *y;
	int			ldy;
	const float *x;
	int			dim;
	const int32_t *to;

	__device__ __forceinline__ void
	operator() (size_t row, int c) const
	{
		quad_put<false>(y + (size_t) to[row] * ldy + c, dim - c, quad_get<false>(x + row * dim + c, dim - c));
	}
};

void
cuda_put_rows(float *y, int ldy, const float *x, const int32_t *to, int rows, int dim, cudaStream_t stream)
{
	each(PutRows {y, ldy, x, dim, to}, rows, dim, stream);
}

/* pick columns of a row by number */
struct PickCols
{
	float	   *y;
	int			ldy;
	const float *x;
	int			ldx;
	const int32_t *from;
	int			n;

	__device__ __forceinline__ float
	one(size_t row, int c) const
	{
		int32_t		at = c < n ? from[c] : -1;

		return at >= 0 ? x[row * ldx + at] : K_NO_COLUMN;
	}

	__device__ __forceinline__ void
	operator() (size_t row, int c) const
	{
		quad_put<false>(y + row * ldy + c, n - c, make_float4(one(row, c), one(row, c + 1), one(row, c + 2),
															  one(row, c + 3)));
	}
};

void
cuda_pick_cols(float *y, int ldy, const float *x, int ldx, const int32_t *from, int rows, int n,
			   cudaStream_t stream)
{
	each(PickCols {y, ldy, x, ldx, from, n}, rows, n, stream);
}

/* reorder heads of rows; y_row, x_head, ...: elements from one to the next */
template <typename T, typename S> struct SwapHeads
{
	T		   *y;
	size_t		y_row;
	size_t		y_head;
	const S	   *x;
	size_t		x_row;
	size_t		x_head;
	int			heads;
	int			width;

	__device__ __forceinline__ void
	operator() (size_t i, int c) const
	{
		size_t		row = i / heads,
					head = i % heads;

		quad_put<false>(y + row * y_row + head * y_head + c, width - c,
						quad_get<false>(x + row * x_row + head * x_head + c, width - c));
	}
};

template <typename S, typename T> static void
swap_from(const S *x, size_t x_row, size_t x_head, T *y, size_t y_row, size_t y_head, int rows, int heads,
		  int width, cudaStream_t stream)
{
	each(SwapHeads<T, S> {y, y_row, y_head, x, x_row, x_head, heads, width}, rows * heads, width, stream);
}

/* x is floats, or operands of y's type */
template <typename T> static void
swap_heads(T *y, size_t y_row, size_t y_head, const void *x, KType x_as, size_t x_row, size_t x_head,
		   int rows, int heads, int width, cudaStream_t stream)
{
	if (x_as == KT_F32)
		swap_from((const float *) x, x_row, x_head, y, y_row, y_head, rows, heads, width, stream);
	else
		swap_from((const T *) x, x_row, x_head, y, y_row, y_head, rows, heads, width, stream);
}

void
cuda_swap_heads(void *y, KType y_as, size_t y_row, size_t y_head, const void *x, KType x_as, size_t x_row,
				size_t x_head, int rows, int heads, int width, cudaStream_t stream)
{
	if (y_as == KT_F32)
		WITH_OPERAND(swap_from, x_as, x, x_row, x_head, (float *) y, y_row, y_head, rows, heads, width,
					 stream);
	else
		WITH_OPERAND(swap_heads, y_as, y, y_row, y_head, x, x_as, x_row, x_head, rows, heads, width, stream);
}

/* ---- ops within a set of rows ---- */

#define KEEP	16				/* rows per round */

/*
 * x[i] = x[idx[i]], ascending, so that idx[i] >= i.  A thread has one column of all rows: it reads KEEP
 * rows, none of which it has overwritten yet, and then writes to rows that no later round reads.
 */
template <typename W> __global__ void __launch_bounds__(THREADS)
keep_kernel(W *x, const int32_t *idx, int n, int width)
{
	int			c = blockIdx.x * THREADS + threadIdx.x;
	W			v[KEEP];

	if (c >= width)
		return;
	for (int i = 0; i < n; i += KEEP)
	{
#pragma unroll
		for (int j = 0; j < KEEP; j++)
			if (i + j < n)
				v[j] = x[(size_t) idx[i + j] * width + c];
#pragma unroll
		for (int j = 0; j < KEEP; j++)
			if (i + j < n)
				x[(size_t) (i + j) * width + c] = v[j];
	}
}

template <typename W> static void
keep_words(void *x, const int32_t *idx, int n, size_t bytes, cudaStream_t stream)
{
	int			width = (int) (bytes / sizeof(W));

	LAUNCH(keep_kernel<W>, (width + THREADS - 1) / THREADS, THREADS, 0, stream, (W *) x, idx, n, width);
}

void
cuda_keep_rows(void *x, int elem_size, const int32_t *idx, int n, int width, cudaStream_t stream)
{
	size_t		bytes = (size_t) width * elem_size;
	size_t		even = (uintptr_t) x | bytes;

	if (n == 0 || width == 0)
		return;
	if (even % 8 == 0)
		keep_words<uint2>(x, idx, n, bytes, stream);
	else if (even % 4 == 0)
		keep_words<uint32_t>(x, idx, n, bytes, stream);
	else
		keep_words<uint16_t>(x, idx, n, bytes, stream);
}

/*
 * One warp per row: y = bias + the sum of x w, in double and in the order of columns; all lanes add the
 * same numbers.
 */
__global__ void __launch_bounds__(32)
dot_kernel(float *y, const float *x, int dim, const float *w, double bias)
{
	const float *row = x + (size_t) blockIdx.x * dim;
	double		sum = bias;

	for (int c = 0; c < dim; c += 32)
	{
		int			i = c + threadIdx.x;
		double		v = i < dim ? (double) row[i] * (double) w[i] : 0.0;

		for (int j = 0; j < 32 && c + j < dim; j++)
			sum += __shfl_sync(FULL_MASK, v, j);
	}
	if (threadIdx.x == 0)
		y[blockIdx.x] = (float) sum;
}

void
cuda_dot_rows(float *y, const float *x, int rows, int dim, const float *w, float bias, cudaStream_t stream)
{
	if (rows > 0)
		LAUNCH(dot_kernel, rows, 32, 0, stream, y, x, dim, w, (double) bias);
}

__global__ void __launch_bounds__(THREADS)
series_kernel(int32_t *y, int n, int32_t by)
{
	int			i = blockIdx.x * THREADS + threadIdx.x;

	if (i < n)
		y[i] = i * by;
}

void
cuda_series(int32_t *y, int n, int32_t by, cudaStream_t stream)
{
	if (n > 0)
		LAUNCH(series_kernel, (n + THREADS - 1) / THREADS, THREADS, 0, stream, y, n, by);
}
