/*
 * mm_weights.cuh
 *	  How products read packed weights (layout.h): load a piece of a tile into a lane's registers, and
 *	  convert it to the fragments of two products.
 *
 * Raw is the data as in memory, loaded some pieces in advance; frags() converts it to operands.  Codes
 * are converted to the numbers they represent, with a magnitude of at most 8 bits, so they are exact in
 * bfloat16 and half; scales() are floats for the accumulators.
 *
 * An operand type has fragments of A_REGS and B_REGS registers for 16 k: BF16 and F16 in the form of
 * tensor cores, and floats, whose products are sums of fmaf(), k ascending.
 */
#ifndef VLLM_KERNELS_CUDA_MM_WEIGHTS_CUH
#define VLLM_KERNELS_CUDA_MM_WEIGHTS_CUH

#include "cuda/layout.h"
#include "cuda/mma.cuh"

/* the table of codes of 4 bits, each + 128, or a nibble's offset */
struct Codebook
{
	uint32_t	t[4];
	uint32_t	off;
};

/* ---- bits ---- */

#ifdef __CUDACC__
static __device__ __forceinline__ uint32_t
byte_perm(uint32_t a, uint32_t b, uint32_t sel)
{
	return __byte_perm(a, b, sel);
}
/* a - b of two halves, or two bfloat16s, in a word */
static __device__ __forceinline__ uint32_t
sub2(F16, uint32_t a, uint32_t b)
{
	__half2		d = __hsub2(*reinterpret_cast<__half2 *>(&a), *reinterpret_cast<__half2 *>(&b));

	return *reinterpret_cast<uint32_t *>(&d);
}
static __device__ __forceinline__ uint32_t
sub2(BF16, uint32_t a, uint32_t b)
{
	__nv_bfloat162 d = __hsub2(*reinterpret_cast<__nv_bfloat162 *>(&a),
							   *reinterpret_cast<__nv_bfloat162 *>(&b));

	return *reinterpret_cast<uint32_t *>(&d);
}
/* a b of two halves, or two bfloat16s, in a word */
static __device__ __forceinline__ uint32_t
mul2(F16, uint32_t a, uint32_t b)
{
	__half2		d = __hmul2(*reinterpret_cast<__half2 *>(&a), *reinterpret_cast<__half2 *>(&b));

	return *reinterpret_cast<uint32_t *>(&d);
}
static __device__ __forceinline__ uint32_t
mul2(BF16, uint32_t a, uint32_t b)
{
	__nv_bfloat162 d = __hmul2(*reinterpret_cast<__nv_bfloat162 *>(&a),
							   *reinterpret_cast<__nv_bfloat162 *>(&b));

	return *reinterpret_cast<uint32_t *>(&d);
}
#else
static inline uint32_t
byte_perm(uint32_t a, uint32_t b, uint32_t sel)
{
	uint64_t	both = (uint64_t) b << 32 | a;
	uint32_t	r = 0;

	for (int i = 0; i < 4; i++)
		r |= (uint32_t) (both >> 8 * (sel >> 4 * i & 7) & 255) << 8 * i;
	return r;
}
template <typename E> static inline uint32_t
sub2(E, uint32_t a, uint32_t b)
{
	uint32_t	r = 0;

	for (int i = 0; i < 32; i += 16)
	{
		E			x = {(uint16_t) (a >> i)},
					y = {(uint16_t) (b >> i)};

		from_float(&x, to_float(x) - to_float(y));
		r |= (uint32_t) x.u << i;
	}
	return r;
}
template <typename E> static inline uint32_t
mul2(E, uint32_t a, uint32_t b)
{
	uint32_t	r = 0;

	for (int i = 0; i < 32; i += 16)
	{
		E			x = {(uint16_t) (a >> i)},
					y = {(uint16_t) (b >> i)};

		from_float(&x, to_float(x) * to_float(y));
		r |= (uint32_t) x.u << i;
	}
	return r;
}
#endif

/* nibbles 0 and 4 of w (shifted there), less off, as two of E */
static __device__ __forceinline__ uint32_t
nibble_pair(BF16 e, uint32_t w, uint32_t off)
{
	return sub2(e, (w & 0x000f000fu) | 0x43004300u, 0x43004300u + off * 0x00010001u);	/* 128 + n */
}

static __device__ __forceinline__ uint32_t
nibble_pair(F16 e, uint32_t w, uint32_t off)
{
	return sub2(e, (w & 0x000f000fu) | 0x64006400u, 0x64006400u + off * 0x00010001u);	/* 1024 + n */
}

/* byte i of lo and byte j of hi, both + 128, as two of E */
static __device__ __forceinline__ uint32_t
byte_pair(BF16, uint32_t lo, int i, uint32_t hi, int j)
{
	float		a = __uint_as_float(byte_perm(lo, 0x4b000000u, 0x7540u | i)) - 8388736.0f,	/* 2^23 + n */
				b = __uint_as_float(byte_perm(hi, 0x4b000000u, 0x7540u | j)) - 8388736.0f;

	return byte_perm(__float_as_uint(a), __float_as_uint(b), 0x7632u);
}

static __device__ __forceinline__ uint32_t
byte_pair(F16 e, uint32_t lo, int i, uint32_t hi, int j)
{
	return sub2(e, (byte_perm(lo, hi, i | (4 + j) << 8) & 0x00ff00ffu) | 0x64006400u, 0x64806480u);
}

/*
 * Bytes i and i + 1 of w, which are E4M3, as two of E: move sign, exponent and mantissa to their
 * positions, and multiply to adjust the exponents' bias.  Exact, subnormals too; the code of NaN gives
 * 480 (pack.c handles NaN).
 */
static __device__ __forceinline__ uint32_t
e4m3_pair(BF16 e, uint32_t w, int i)
{
	uint32_t	high = byte_perm(w, 0, 0x0404u | i << 4 | (i + 1) << 12);

	return mul2(e, (high & 0x80008000u) | (high & 0x7f007f00u) >> 4, 0x7b807b80u);	/* 2^120 */
}

static __device__ __forceinline__ uint32_t
e4m3_pair(F16 e, uint32_t w, int i)
{
	uint32_t	high = byte_perm(w, 0, 0x0404u | i << 4 | (i + 1) << 12);

	return mul2(e, (high & 0x80008000u) | (high & 0x7f007f00u) >> 1, 0x5c005c00u);	/* 2^8 */
}

/* ---- operands ---- */

template <typename E> struct Half2Op
{
	typedef E elem;
	typedef uint32_t reg;
	enum { A_REGS = 4, B_REGS = 2 };

	/* load B of both products of a piece: 8 rows of x, 32 k, each row's 16 bytes c at index c ^ (row &
	 * 7) */
	static __device__ __forceinline__ void
	load_b(uint32_t (*b)[2], const E *x, int width, int row, int c)
	{
		int			lane = threadIdx.x % 32;

		row += lane % 8;
		ldmatrix_x4(b[0], x + row * width + ((c + lane / 8) ^ (row & 7)) * 8);
	}
};

struct OpBF16 : Half2Op<BF16>
{
	static __device__ __forceinline__ void
	mma(float *d, const uint32_t *a, const uint32_t *b, const float *c)
	{
		mma_bf16(d, a, b, c);
	}
	static __device__ __forceinline__ uint32_t
	one(void)
	{
		return 0x3f803f80u;
	}
};

struct OpF16 : Half2Op<F16>
{
	static __device__ __forceinline__ void
	mma(float *d, const uint32_t *a, const uint32_t *b, const float *c)
	{
		mma_f16(d, a, b, c);
	}
	static __device__ __forceinline__ uint32_t
	one(void)
	{
		return 0x3c003c00u;
	}
};

/* as floats, whatever type x has; positions in fragments are those of halves */
template <typename E> struct OpFloat
{
	typedef E elem;
	typedef float reg;
	enum { A_REGS = 8, B_REGS = 4 };

	static __device__ __forceinline__ void
	load_b(float (*b)[4], const E *x, int width, int row, int c)
	{
		const int	per = 16 / (int) sizeof(E);
		int			lane = threadIdx.x % 32;

		row += lane / 4;
		for (int s = 0; s < 2; s++)
			for (int i = 0; i < 4; i++)
			{
				int			k = c * 8 + s * 16 + i / 2 * 8 + lane % 4 * 2 + i % 2;

				b[s][i] = to_float(x[row * width + ((k / per) ^ (row & 7)) * per + k % per]);
			}
	}
	static __device__ __forceinline__ void
	mma(float *d, const float *a, const float *b, const float *c)
	{
		int			lane = threadIdx.x % 32,
					g = lane & ~3,
					t = lane % 4 * 8;

		for (int i = 0; i < 4; i++)
			d[i] = c[i];
		for (int k = 0; k < 16; k++)
		{
			int			from = k % 8 / 2,
						i = k / 8 * 2 + k % 2;
			float		w0 = __shfl_sync(FULL_MASK, a[i + k / 8 * 2], g + from),
						w1 = __shfl_sync(FULL_MASK, a[i + k / 8 * 2 + 2], g + from),
						x0 = __shfl_sync(FULL_MASK, b[i], t + from),
						x1 = __shfl_sync(FULL_MASK, b[i], t + 4 + from);

			d[0] = fmaf(w0, x0, d[0]);
			d[1] = fmaf(w0, x1, d[1]);
			d[2] = fmaf(w1, x0, d[2]);
			d[3] = fmaf(w1, x1, d[3]);
		}
	}
	static __device__ __forceinline__ float
	one(void)
	{
		return 1.0f;
	}
};

/* ---- scales ---- */

template <int SCALE> struct ScaleBytes;
#define S(name, strip, header, sub, pieces) \
	template <> struct ScaleBytes<CUDA_##name> { enum { STRIP = strip, HEADER = header, SUB = sub, \
														PIECES = pieces }; };
CUDA_SCALES(S)
#undef S

static __device__ __forceinline__ float
low_half(uint32_t w)
{
	F16			h = {(uint16_t) w};

	return to_float(h);
}

static __device__ __forceinline__ float
high_half(uint32_t w)
{
	return low_half(w >> 16);
}

/* scales of a tile's piece for the lane's outputs g, g + 8: [half of the piece][output] */
struct Scales
{
	float		d[2][2];
	float		m[2][2];
};

/* h: the header, s: the sub-scales as stored; int8: signed */
template <int SCALE> static __device__ __forceinline__ void
get_scales(Scales *to, const uint32_t *h, uint32_t s)
{
	float		d[2] = {low_half(h[0]), high_half(h[0])},
				m[2] = {0, 0};

	if (SCALE == CUDA_DM || SCALE == CUDA_K2 || SCALE == CUDA_KHM)
	{
		m[0] = low_half(h[1]);
		m[1] = high_half(h[1]);
	}
	for (int i = 0; i < 2; i++)
	{
		uint32_t	e = h[0] >> 8 * i & 255;

		if (SCALE == CUDA_F)
			d[i] = __uint_as_float(h[i]);
		if (SCALE == CUDA_E)
			d[i] = __uint_as_float(e < 2 ? 0x00200000u << e : (e - 1) << 23);
		for (int half = 0; half < 2; half++)
		{
			uint32_t	b = s >> (8 * i + 16 * half);

			to->d[half][i] = d[i];
			to->m[half][i] = m[i];
			if (SCALE == CUDA_K1)
				to->d[half][i] = d[i] * (float) (int8_t) (s >> 8 * i);
			else if (SCALE == CUDA_K2)
			{
				to->d[half][i] = d[i] * (float) (uint8_t) (s >> 8 * i);
				to->m[half][i] = -(m[i] * (float) (uint8_t) (s >> (16 + 8 * i)));
			}
			else if (SCALE == CUDA_KH)
				to->d[half][i] = d[i] * (float) (int8_t) b;
			else if (SCALE == CUDA_KHM)
			{
				to->d[half][i] = d[i] * (float) (b & 15);
				to->m[half][i] = -(m[i] * (float) (b >> 4 & 15));
			}
		}
	}
}

/* ---- weights ---- */

/* E: elements of CUDA_FLOAT */
template <int CODES_, int SCALE_, typename E = BF16>
struct Weights
{
	typedef ScaleBytes<SCALE_> B;
	enum
	{
		SCALE = SCALE_,
		/* a sum runs over all pieces of a segment; otherwise each piece's sum is scaled */
		PLAIN = SCALE_ == CUDA_NONE,
		/* a sum runs over the pieces of a block */
		WIDE = SCALE_ == CUDA_F,
		HALVES = SCALE_ == CUDA_KH || SCALE_ == CUDA_KHM,
		MIN = SCALE_ == CUDA_DM || SCALE_ == CUDA_K2 || SCALE_ == CUDA_KHM,
		/* bytes of a tile's piece */
		LANE = CODES_ == CUDA_FLOAT ? 16 * (int) sizeof(E) : CODES_ >= CUDA_BYTE ? 16 : 8,
		PIECE = (int) B::SUB * CUDA_STRIP + 4 * 32 * LANE,
		BLOCK = (int) B::HEADER * CUDA_STRIP + (int) B::PIECES * PIECE,
		STRIP_HEADER = (int) B::STRIP * CUDA_STRIP
	};

	struct Raw
	{
		uint32_t	c[LANE / 4];
		uint32_t	h[2];
		uint32_t	s;
	};

	static __device__ __forceinline__ size_t
	strip_bytes(int k)
	{
		return STRIP_HEADER + (size_t) ((k + B::PIECES * CUDA_PIECE - 1) / (B::PIECES * CUDA_PIECE)) * BLOCK;
	}

	/* load piece p of a tile, 0 .. 3, of the strip at `strip` */
	static __device__ __forceinline__ void
	load(Raw *r, const uint8_t *strip, int tile, int p)
	{
		int			lane = threadIdx.x % 32,
					pair = tile * 8 + lane / 4;
		const uint8_t *block = strip + STRIP_HEADER + (size_t) (p / B::PIECES) * BLOCK;
		const uint8_t *sub = block + B::HEADER * CUDA_STRIP + p % B::PIECES * PIECE;
		const uint8_t *codes = sub + B::SUB * CUDA_STRIP;

		if (CODES_ == CUDA_FLOAT)
			for (int s = 0; s < 2; s++)
				load_words<LANE / 8>(r->c + s * (LANE / 8),
									 codes + ((tile * 2 + s) * 32 + lane) * (LANE / 2));
		else
			load_words<LANE / 4>(r->c, codes + (tile * 32 + lane) * LANE);
		if (B::HEADER == 1)
			r->h[0] = *(const uint16_t *) (block + pair * 2);
		else if (B::HEADER > 0)
			load_words<B::HEADER / 2>(r->h, block + pair * 2 * B::HEADER);
		if (B::SUB == 1)
			r->s = *(const uint16_t *) (sub + pair * 2);
		else if (B::SUB == 2)
			r->s = *(const uint32_t *) (sub + pair * 4);
	}

	/* load n words, with loads of 16, 8 or 4 bytes */
	template <int N> static __device__ __forceinline__ void
	load_words(uint32_t *to, const uint8_t *p)
	{
		if (N % 4 == 0)
			for (int i = 0; i < N; i += 4)
			{
				uint4		v = *(const uint4 *) (p + 4 * i);

				to[i] = v.x;
				to[i + 1] = v.y;
				to[i + 2] = v.z;
				to[i + 3] = v.w;
			}
		else if (N == 2)
		{
			uint2		v = *(const uint2 *) p;

			to[0] = v.x;
			to[1] = v.y;
		}
		else
			to[0] = *(const uint32_t *) p;
	}

	/* compute the A fragments of a piece's two products */
	template <typename O> static __device__ __forceinline__ void
	frags(typename O::reg (*a)[O::A_REGS], const Raw *r, const Codebook *book)
	{
		for (int s = 0; s < 2; s++)
			if constexpr (CODES_ == CUDA_FLOAT && O::A_REGS == 4)
				for (int i = 0; i < 4; i++)
					a[s][i] = r->c[s * 4 + i];
			else if constexpr (CODES_ == CUDA_FLOAT)
				for (int i = 0; i < 8; i++)
					a[s][i] = float_at(E(), r->c + s * (LANE / 8), i);
			else if constexpr (CODES_ == CUDA_NIBBLE)
				for (int i = 0; i < 4; i++)
					a[s][i] = nibble_pair(typename O::elem(), r->c[s] >> 4 * i, book->off);
			else if constexpr (CODES_ == CUDA_E4M3)
				for (int i = 0; i < 4; i++)
					a[s][i] = e4m3_pair(typename O::elem(), r->c[s * 2 + i / 2], i % 2 * 2);
			else if constexpr (CODES_ == CUDA_BYTE)
				for (int i = 0; i < 4; i++)
				{
					uint32_t	w = r->c[s * 2 + i / 2] ^ 0x80808080u;

					a[s][i] = byte_pair(typename O::elem(), w, i % 2 * 2, w, i % 2 * 2 + 1);
				}
			else
			{
				uint32_t	even = look_up(r->c[s], book),
							odd = look_up(r->c[s] >> 16, book);

				for (int i = 0; i < 4; i++)
					a[s][i] = byte_pair(typename O::elem(), even, i, odd, i);
			}
	}

	static __device__ __forceinline__ float
	float_at(float, const uint32_t *w, int i)
	{
		return __uint_as_float(w[i]);
	}
	template <typename H> static __device__ __forceinline__ float
	float_at(H, const uint32_t *w, int i)
	{
		H			h = {(uint16_t) (w[i / 2] >> i % 2 * 16)};

		return to_float(h);
	}

	/* look up nibbles 0 .. 3 of w in the table */
	static __device__ __forceinline__ uint32_t
	look_up(uint32_t w, const Codebook *book)
	{
		uint32_t	low = byte_perm(book->t[0], book->t[1], w & 0x7777u),
					high = byte_perm(book->t[2], book->t[3], w & 0x7777u);

		return byte_perm(low, high, 0x3210u | (w & 0x8888u) >> 1);
	}
};

#endif
