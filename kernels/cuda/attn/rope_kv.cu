/*
 * rope_kv.cu
 *	  Rotate heads, and store K and V in the KV cache: all bits equal those of kernels/ref.
 *
 * Each element is computed separately, except for INT8, where a warp first finds the largest of a
 * token's K or V.  Products and sums are rounded one by one, and scales are applied by division, as in
 * ref, so the KV has the codes that a CPU would have stored, in another order (kv.h).  Rows at position
 * -1 are skipped: they are padding of a graph.
 */
#include "cuda/attn/kv.cuh"
#include "cuda/cuda_ops.h"

#define WARPS	4
#define THREADS (WARPS * 32)
#define PAIRS	64				/* pairs of pages in a launch's arguments */

/* column d of a head, with columns before rot_dim rotated; cs: of the row's position, NULL: not
 * rotated */
static __device__ __forceinline__ float
rotated(const float *x, int d, const float *cs, int half)
{
	if (cs == NULL || d >= 2 * half)
		return x[d];
	if (d < half)
		return x[d] * cs[2 * d] - x[d + half] * cs[2 * d + 1];
	d -= half;
	return x[d] * cs[2 * d + 1] + x[d + half] * cs[2 * d];
}

/* a warp rotates a head in place */
static __device__ __forceinline__ void
rotate(float *x, const float *cs, int half)
{
	for (int d = threadIdx.x % 32; d < half; d += 32)
	{
		float		a = rotated(x, d, cs, half),
					b = rotated(x, d + half, cs, half);

		x[d] = a;
		x[d + half] = b;
	}
}

/* one warp per head of a row */
__global__ void __launch_bounds__(THREADS)
rope_kernel(float *x, int rows, int ld, int heads, int head_dim, const int32_t *pos, const float *cs,
			int rot_dim)
{
	int			work = blockIdx.x * WARPS + threadIdx.x / 32,
				row = work / heads;

	if (row < rows && pos[row] >= 0)
		rotate(x + (size_t) row * ld + (size_t) (work % heads) * head_dim, cs + (size_t) pos[row] * rot_dim,
			   rot_dim / 2);
}

/* scale of a token's codes from the largest bits of |x|, as in q8_scale() */
static __device__ __forceinline__ float
int8_scale(unsigned largest, float *inv)
{
	float		most = __uint_as_float(largest);

	*inv = 0.0f;
	if (largest >= 0x7f800000u)
		return __uint_as_float(0x7fc00000u);
	if (most < 0x1p-100f)
		return 0.0f;
	*inv = 127.0f / most;
	return most / 127.0f;
}

template <typename T> static __device__ __forceinline__ void
store(uint8_t *to, size_t d, float f)
{
	from_float((T *) to + d, f);
}

/* a warp stores n elements at `to`, a cell's K or V with rows of len, for the token at `place` */
static __device__ __forceinline__ void
put(KType type, uint8_t *to, int len, int place, float *scale, float f8_scale, const float *x, int n,
	const float *cs, int half)
{
	float		inv = 0.0f;

	if (type == KT_INT8)
	{
		unsigned	largest = 0;

		for (int d = threadIdx.x % 32; d < n; d += 32)
			largest = max(largest, __float_as_uint(rotated(x, d, cs, half)) & 0x7fffffffu);
		largest = reduce_max(FULL_MASK, largest);
		f8_scale = int8_scale(largest, &inv);
		if (threadIdx.x % 32 == 0)
			*scale = f8_scale;
	}
	for (int d = threadIdx.x % 32; d < n; d += 32)
	{
		float		v = rotated(x, d, cs, half);
		size_t		at = cuda_kv_at(type, len, place, d);

		switch (type)
		{
			case KT_F32:
				store<float>(to, at, v);
				break;
			case KT_F16:
				store<F16>(to, at, v);
				break;
			case KT_BF16:
				store<BF16>(to, at, v);
				break;
			case KT_F8_E4M3:
				store<F8E4M3>(to, at, v / f8_scale);
				break;
			case KT_F8_E5M2:
				store<F8E5M2>(to, at, v / f8_scale);
				break;
			default:
				to[at] = (uint8_t) (inv == 0.0f ? 0 : (int) rintf(v * inv));
		}
	}
}

/*
 * One warp per head of a row: of q, then of K, then of V.  q_heads > 0: rotate q in place, and K while
 * storing it; q is then the row's beginning.  Otherwise only store K and V, unrotated.
 */
__global__ void __launch_bounds__(THREADS)
rope_kv_kernel(CudaKv kv, CudaRows r, float *q, int q_heads, const float *k, int ldk, const float *v, int ldv,
			   const float *cs, int rot_dim)
{
	int			heads = q_heads + 2 * kv.n_kv_heads,
				work = blockIdx.x * WARPS + threadIdx.x / 32,
				row = work / heads,
				head = work % heads,
				pos,
				place;
	uint8_t    *cell;
	float	   *scales;

	if (row >= r.n_rows || r.pos[row] < 0)
		return;
	pos = r.pos[row];
	if (cs != NULL)
		cs += (size_t) pos * rot_dim;
	if (head < q_heads)
	{
		rotate(q + (size_t) row * ldk + (size_t) head * kv.head_dim, cs, rot_dim / 2);
		return;
	}
	head -= q_heads;
	place = pos % kv.block_size;
	cell = kv.base + kv_cell_at(kv, r.table[(size_t) row_seq(r, row) * r.ld_table + pos / kv.block_size],
								head % kv.n_kv_heads);
	scales = (float *) (cell + kv.scales_at) + place;
	if (head < kv.n_kv_heads)
		put(kv.type, cell, kv.head_dim, place, scales, kv.k_scale,
			k + (size_t) row * ldk + (size_t) head * kv.head_dim, kv.head_dim, cs, rot_dim / 2);
	else
		put(kv.type, cell + kv.v_at, kv.v_pad, place, scales + kv.block_size, kv.v_scale,
			v + (size_t) row * ldv + (size_t) (head - kv.n_kv_heads) * kv.v_dim, kv.v_dim, NULL, 0);
}

/* Pages from[0] -> to[0], from[1] -> to[1], ..., in this order */
typedef struct Copies
{
	int32_t		from[PAIRS];
	int32_t		to[PAIRS];
	int			n;
} Copies;

/* a thread copies the same 16 bytes of all pages, so that a page that was a destination may be a source
 * later */
__global__ void __launch_bounds__(THREADS)
kv_copy_kernel(uint8_t *base, size_t page, Copies c)
{
	size_t		at = ((size_t) blockIdx.x * THREADS + threadIdx.x) * 16;

	if (at >= page)
		return;
	for (int i = 0; i < c.n; i++)
		*(uint4 *) (base + (size_t) c.to[i] * page + at) =
			*(const uint4 *) (base + (size_t) c.from[i] * page + at);
}

/* one block per cell; largest: bits of |K| and |V|, which are ordered like the numbers, NaN above all */
__global__ void __launch_bounds__(THREADS)
kv_largest_kernel(CudaKv kv, unsigned *largest)
{
	const uint8_t *cell = kv.base + kv_cell_at(kv, blockIdx.x, blockIdx.y);
	const unsigned *k = (const unsigned *) cell,
			   *v = (const unsigned *) (cell + kv.v_at);
	unsigned	most[2] = {0, 0};

	for (int i = threadIdx.x; i < kv.block_size * kv.head_dim; i += THREADS)
		most[0] = max(most[0], k[i] & 0x7fffffffu);
	for (int i = threadIdx.x; i < kv.block_size * kv.v_pad; i += THREADS)
		if (i % kv.v_pad < kv.v_dim)
			most[1] = max(most[1], v[i] & 0x7fffffffu);
	for (int i = 0; i < 2; i++)
	{
		most[i] = reduce_max(FULL_MASK, most[i]);
		if (threadIdx.x % 32 == 0)
			atomicMax(&largest[i], most[i]);
	}
}

void
cuda_rope(float *x, int rows, int ld, int heads, int head_dim, const int32_t *pos, const float *cs,
		  int rot_dim, cudaStream_t stream)
{
	if (rows > 0 && heads > 0 && rot_dim > 0)
		LAUNCH(rope_kernel, (rows * heads + WARPS - 1) / WARPS, THREADS, 0, stream, x, rows, ld, heads,
			   head_dim, pos, cs, rot_dim);
}

void
cuda_kv_write(const CudaKv *kv, const CudaRows *r, const float *k, int ldk, const float *v, int ldv,
			  cudaStream_t stream)
{
	if (r->n_rows > 0)
		LAUNCH(rope_kv_kernel, (r->n_rows * 2 * kv->n_kv_heads + WARPS - 1) / WARPS, THREADS, 0, stream,
			   *kv, *r, (float *) NULL, 0, k, ldk, v, ldv, (const float *) NULL, 0);
}

void
cuda_rope_kv(const CudaKv *kv, const CudaRows *r, float *qkv, int ld, int heads, const float *cs, int rot_dim,
			 cudaStream_t stream)
{
	const float *k = qkv + (size_t) heads * kv->head_dim;

	if (r->n_rows > 0)
		LAUNCH(rope_kv_kernel, (r->n_rows * (heads + 2 * kv->n_kv_heads) + WARPS - 1) / WARPS, THREADS, 0,
			   stream,
			   *kv, *r, qkv, heads, k, ld, k + (size_t) kv->n_kv_heads * kv->head_dim, ld, cs, rot_dim);
}

void
cuda_kv_copy(const KvView *kv, const int32_t *from_to, int n, cudaStream_t stream)
{
	size_t		page = kv->block_stride;

	for (int at = 0; at < n; at += PAIRS)
	{
		Copies		c;

		c.n = n - at < PAIRS ? n - at : PAIRS;
		for (int i = 0; i < c.n; i++)
		{
			c.from[i] = from_to[2 * (at + i)];
			c.to[i] = from_to[2 * (at + i) + 1];
		}
		LAUNCH(kv_copy_kernel, (unsigned) ((page / 16 + THREADS - 1) / THREADS), THREADS, 0, stream, kv->base,
			   page, c);
	}
}

void
cuda_kv_get(const KvView *kv, int32_t page, void *to, cudaStream_t stream)
{
	cudaMemcpyAsync(to, kv->base + (size_t) page * kv->block_stride, kv->block_stride, cudaMemcpyDeviceToHost,
					stream);
}

void
cuda_kv_put(const KvView *kv, int32_t page, const void *from, cudaStream_t stream)
{
	cudaMemcpyAsync(kv->base + (size_t) page * kv->block_stride, from, kv->block_stride,
					cudaMemcpyHostToDevice, stream);
}

void
cuda_kv_largest(const CudaKv *kv, int n_blocks, float *largest, cudaStream_t stream)
{
	cudaMemsetAsync(largest, 0, 2 * sizeof(float), stream);
	if (n_blocks > 0)
		LAUNCH(kv_largest_kernel, dim3((unsigned) n_blocks, (unsigned) kv->n_kv_heads), THREADS, 0, stream,
			   *kv, (unsigned *) largest);
}
