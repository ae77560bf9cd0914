/*
 * comm.cu
 *	  Combine ranks' parts that are stored one after the other: to adjacent columns, or to a sum.
 *
 * A sum adds rank 0's part, rank 1's, ... in this order, however the parts were transferred, so it has
 * the same bits on all ranks and those of a sum on the host.
 */
#include "cuda/common.cuh"

#include "cuda/cuda_ops.h"

#define THREADS 256

/*
 * Each thread copies one unit of a part.  A part that is narrower than the widest has no units at the
 * end of a row.
 */
template <typename T> __global__ void __launch_bounds__(THREADS)
columns_kernel(T *all, const T *parts, size_t slot, CudaParts p, size_t n)
{
	size_t		i = (size_t) blockIdx.x * THREADS + threadIdx.x;
	size_t		width = (size_t) p.width;
	int			r;
	size_t		row,
				column,
				own;

	if (i >= n)
		return;
	column = i % width;
	r = (int) (i / width % (size_t) p.ranks);
	row = i / width / (size_t) p.ranks;
	own = cuda_part_width(&p, r);
	if (column < own)
		all[row * (size_t) p.starts[p.ranks] + (size_t) (p.starts[r] + p.from) + column] =
			parts[(size_t) r * slot + row * own + column];
}

__global__ void __launch_bounds__(THREADS)
sum_parts_kernel(float *x, const float *parts, int ranks, size_t n)
{
	size_t		i = (size_t) blockIdx.x * THREADS + threadIdx.x;

	if (i < n)
	{
		float		sum = parts[i];

		for (int r = 1; r < ranks; r++)
			sum += parts[(size_t) r * n + i];
		x[i] = sum;
	}
}

static unsigned
blocks(size_t n)
{
	return (unsigned) ((n + THREADS - 1) / THREADS);
}

/* p in units of T instead of columns */
template <typename T> static void
columns(void *all, const void *parts, size_t slot, CudaParts p, size_t size, int rows, cudaStream_t stream)
{
	size_t		n;

	for (int r = 0; r <= p.ranks; r++)
		p.starts[r] = (int64_t) ((size_t) p.starts[r] * size / sizeof(T));
	p.from = (int64_t) ((size_t) p.from * size / sizeof(T));
	p.width = (int64_t) ((size_t) p.width * size / sizeof(T));
	n = (size_t) rows * (size_t) p.ranks * (size_t) p.width;
	if (n > 0)
		LAUNCH(columns_kernel<T>, blocks(n), THREADS, 0, stream, (T *) all, (const T *) parts,
			   slot / sizeof(T), p, n);
}

/* return true if units of this many bytes divide everything that is copied */
static bool
divides(size_t unit, const void *all, const CudaParts *p, size_t size)
{
	bool		ok = (uintptr_t) all % unit == 0 && (size_t) p->from * size % unit == 0 &&
		(size_t) p->width * size % unit == 0;

	for (int r = 0; r <= p->ranks; r++)
		ok = ok && (size_t) p->starts[r] * size % unit == 0;
	return ok;
}

void
cuda_columns(void *all, const void *parts, size_t slot, const CudaParts *p, size_t size, int rows,
			 cudaStream_t stream)
{
	if (divides(16, all, p, size))
		columns<uint4> (all, parts, slot, *p, size, rows, stream);
	else if (divides(4, all, p, size))
		columns<uint32_t> (all, parts, slot, *p, size, rows, stream);
	else
		columns<uint16_t> (all, parts, slot, *p, size, rows, stream);
}

void
cuda_sum_parts(float *x, const float *parts, int ranks, size_t n, cudaStream_t stream)
{
	if (n > 0)
		LAUNCH(sum_parts_kernel, blocks(n), THREADS, 0, stream, x, parts, ranks, n);
}
