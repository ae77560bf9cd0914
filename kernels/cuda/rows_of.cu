/*
 * rows_of.cu
 *	  Rows of packed matrices (layout.h): as floats, for embeddings, and as operands, for cuBLASLt.
 *
 * Each weight is computed separately from its position, its code and its scales, with the bits of
 * cuda_mat_row(); operands are rounded from these.
 */
#include "cuda/common.cuh"
#include "cuda/cuda_ops.h"

extern "C"
{
#include "cuda/pack.h"
}

#define THREADS 128

typedef struct Packed
{
	CudaLayout	l;
	KType		type;
	int			n;
	int			k;
	const uint8_t *data;
	int8_t		table[16];		/* of CUDA_TABLE */
} Packed;

static __device__ __forceinline__ float
half_at(const uint8_t *header, int j, int field, int fields)
{
	return to_float(((const F16 *) header)[cuda_scale_place(j, field, fields)]);
}

/* output j of a strip, weight `at` of a piece: d * code (+ m) */
static __device__ __forceinline__ float
scaled_weight(const CudaLayout *l, const uint8_t *header, const uint8_t *sub, int j, int at, int code)
{
	bool		min = l->scale == CUDA_DM || l->scale == CUDA_K2 || l->scale == CUDA_KHM;
	int			fields = min ? 2 : 1;
	float		d,
				m = 0.0f;

	if (l->scale == CUDA_E)
	{
		int			e = header[cuda_scale_place(j, 0, 1)];

		return __uint_as_float(e < 2 ? 0x00200000u << e : (uint32_t) (e - 1) << 23) * (float) code;
	}
	d = half_at(header, j, 0, fields);
	if (min)
		m = half_at(header, j, 1, fields);
	if (l->scale == CUDA_K1)
		d *= (float) (int8_t) sub[cuda_scale_place(j, 0, 1)];
	else if (l->scale == CUDA_K2)
	{
		d *= (float) sub[cuda_scale_place(j, 0, 2)];
		m = -(m * (float) sub[cuda_scale_place(j, 1, 2)]);
	}
	else if (l->scale == CUDA_KH)
		d *= (float) (int8_t) sub[cuda_scale_place(j, at / 16, 2)];
	else if (l->scale == CUDA_KHM)
	{
		int			s = sub[cuda_scale_place(j, at / 16, 2)];

		d *= (float) (s & 15);
		m = -(m * (float) (s >> 4));
	}
	return min ? d * (float) code + m : d * (float) code;
}

/* weight i of a row */
static __device__ __forceinline__ float
weight(const Packed &w, int row, int i)
{
	const CudaLayout *l = &w.l;
	const uint8_t *strip = w.data + (size_t) (row / CUDA_STRIP) * cuda_strip_bytes(l, w.k);
	size_t		piece = (size_t) l->sub * CUDA_STRIP + cuda_piece_codes(l);
	int			j = row % CUDA_STRIP,
				p = i / CUDA_PIECE,
				at = i % CUDA_PIECE,
				place = cuda_place(l, j, at),
				nibble = place % 8 / 2 + place % 2 * 4,
				code;
	const uint8_t *block = strip + (size_t) l->strip_header * CUDA_STRIP +
		(size_t) (p / l->pieces) * cuda_block_bytes(l);
	const uint8_t *sub = block + (size_t) l->header * CUDA_STRIP + (size_t) (p % l->pieces) * piece;
	const uint8_t *codes = sub + (size_t) l->sub * CUDA_STRIP;

	if (l->codes == CUDA_FLOAT)
		return w.type == KT_F32 ? ((const float *) codes)[place] : w.type == KT_F16 ?
			to_float(((const F16 *) codes)[place]) : to_float(((const BF16 *) codes)[place]);
	if (l->codes == CUDA_E4M3)
		return ((const float *) block)[cuda_scale_place(j, 0, 1)] * to_float(F8E4M3{codes[place]});
	if (l->codes == CUDA_BYTE)
		code = (int8_t) codes[place];
	else
	{
		code = codes[place / 8 * 4 + nibble / 2] >> nibble % 2 * 4 & 15;
		code = l->codes == CUDA_TABLE ? w.table[code] : code - l->off;
	}
	if (l->scale == CUDA_ROW)
		return ((const float *) strip)[cuda_scale_place(j, 0, 1)] * (float) code;
	return scaled_weight(l, block, sub, j, at, code);
}

/* a block computes THREADS weights of a row */
__global__ void __launch_bounds__(THREADS)
rows_of_kernel(const Packed w, const int32_t *ids, int first, float *y, int ldy, int blocks)
{
	int			i = blockIdx.x / blocks,
				c = blockIdx.x % blocks * THREADS + threadIdx.x;
	int64_t		row = (int64_t) (ids != NULL ? ids[i] : 0) + first;

	if (c < w.k)
		y[(size_t) i * ldy + c] = row >= 0 && row < w.n ? weight(w, (int) row, c) : 0.0f;
}

/*
 * With operand type E: outputs first .. first + n - 1, each a row of y, with zeros after k.  A thread
 * computes 8 weights of a row.
 */
template <typename E> __global__ void __launch_bounds__(THREADS)
unpack_kernel(const Packed w, int first, uint16_t *y, int ldy, int blocks)
{
	int			row = blockIdx.x / blocks,
				c = (blockIdx.x % blocks * THREADS + threadIdx.x) * 8;
	uint32_t	to[4];

	if (c >= ldy)
		return;
#pragma unroll
	for (int i = 0; i < 4; i++)
	{
		E			pair[2] = {};

#pragma unroll
		for (int j = 0; j < 2; j++)
			if (c + i * 2 + j < w.k)
				from_float(&pair[j], weight(w, first + row, c + i * 2 + j));
		to[i] = pair[0].u | (uint32_t) pair[1].u << 16;
	}
	*(uint4 *) (y + (size_t) row * ldy + c) = make_uint4(to[0], to[1], to[2], to[3]);
}

static Packed
packed(const KMat *m)
{
	Packed		w = {*cuda_layout(m->type), m->type, m->n, m->k, (const uint8_t *) m->data, {0}};

	for (int i = 0; i < 16; i++)
		w.table[i] = cuda_table(m->type)[i];
	return w;
}

void
cuda_rows_of(const KMat *m, const int32_t *ids, int first, int rows, float *y, int ldy, cudaStream_t stream)
{
	int			blocks = (m->k + THREADS - 1) / THREADS;

	if (rows > 0)
		LAUNCH(rows_of_kernel, rows * blocks, THREADS, 0, stream, packed(m), ids, first, y, ldy, blocks);
}

void
cuda_unpack(const KMat *m, int first, int n, void *y, KType as, int ldy, cudaStream_t stream)
{
	int			blocks = (ldy / 8 + THREADS - 1) / THREADS;

	if (n > 0 && as == KT_BF16)
		LAUNCH(unpack_kernel<BF16>, n * blocks, THREADS, 0, stream, packed(m), first, (uint16_t *) y, ldy,
			   blocks);
	else if (n > 0)
		LAUNCH(unpack_kernel<F16>, n * blocks, THREADS, 0, stream, packed(m), first, (uint16_t *) y, ldy,
			   blocks);
}
