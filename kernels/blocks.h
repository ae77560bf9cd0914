/*
 * blocks.h
 *	  Element types of weights and KV, and their packed block layouts: shared by src/quant, src/loader,
 *	  src/model and the kernels.
 */
#ifndef VLLM_KERNELS_BLOCKS_H
#define VLLM_KERNELS_BLOCKS_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum KType
{
	KT_F32 = 0,
	KT_F16,
	KT_BF16,
	KT_Q8_0,
	KT_Q4_0,
	KT_Q4_1,
	KT_Q5_0,
	KT_Q5_1,
	KT_Q2_K,
	KT_Q3_K,
	KT_Q4_K,
	KT_Q5_K,
	KT_Q6_K,
	KT_IQ4_NL,
	KT_IQ4_XS,
	KT_MXFP4,
	KT_NF4,
	KT_FP4,
	KT_NV4,
	KT_INT8,
	KT_FP8,
	KT_Q4_0F,					/* Q4_0 and Q4_1 whose activations are not rounded: the same blocks */
	KT_Q4_1F,
	KT_INT8F,					/* INT8 with activations that are not rounded: the same rows */
	KT_INT8D,					/* INT8 with activations that have one scale a row: the same rows */
	KT_INT8S,					/* INT8 with activations that have one scale for all rows: KInt8X first */
	KT_COUNT,

	/* Only in files: types of quantized checkpoints, and GGUF's NVFP4.  Readers (KReader) accept them;
	 * no kernel and no table supports them. */
	KT_U8,
	KT_I8,
	KT_I16,
	KT_I32,
	KT_I64,
	KT_F8_E4M3,
	KT_F8_E5M2,
	KT_F8_E8M0,
	KT_NVFP4,
	KT_END
} KType;

/*
 * Blocks as in GGUF: consecutive weights of one row, little endian, no padding
 * (so a block may lie at any address: copy it out, or read bytes).  Scales are
 * IEEE halves.  Nibbles of a 32-block: the low ones are weights 0..15, the high
 * ones 16..31.  kgroup_get() (groups.h) is the definition in C.
 */

/* Q8_0: w = d * qs[i] */
#define Q8_0_BLOCK 32
typedef struct KBlockQ8_0
{
	uint16_t	d;
	int8_t		qs[Q8_0_BLOCK];
} KBlockQ8_0;

static_assert(sizeof(KBlockQ8_0) == 34, "Q8_0 block is 34 bytes, as in GGUF");

/*
 * Q4_0: w = d * (nibble - 8).  IQ4_NL: w = d * kcode_iq4[nibble].  NF4, FP4 (bitsandbytes): the same
 * with kcode_nf4 and kcode_fp4; no file contains these two or NV4.
 */
typedef struct KBlockQ4_0
{
	uint16_t	d;
	uint8_t		qs[16];
} KBlockQ4_0;

static_assert(sizeof(KBlockQ4_0) == 18, "Q4_0 and IQ4_NL blocks are 18 bytes, as in GGUF");

/* Q4_1: w = d * nibble + m */
typedef struct KBlockQ4_1
{
	uint16_t	d;
	uint16_t	m;
	uint8_t		qs[16];
} KBlockQ4_1;

static_assert(sizeof(KBlockQ4_1) == 20, "Q4_1 block is 20 bytes, as in GGUF");

/* Q5_0: w = d * ((nibble | bit << 4) - 16); bit of weight i is bit i%8 of qh[i/8] */
typedef struct KBlockQ5_0
{
	uint16_t	d;
	uint8_t		qh[4];
	uint8_t		qs[16];
} KBlockQ5_0;

static_assert(sizeof(KBlockQ5_0) == 22, "Q5_0 block is 22 bytes, as in GGUF");

/* Q5_1: w = d * (nibble | bit << 4) + m, bits as in Q5_0 */
typedef struct KBlockQ5_1
{
	uint16_t	d;
	uint16_t	m;
	uint8_t		qh[4];
	uint8_t		qs[16];
} KBlockQ5_1;

static_assert(sizeof(KBlockQ5_1) == 24, "Q5_1 block is 24 bytes, as in GGUF");

/* MXFP4: w = 2^(e-128) * kcode_mxfp4[nibble] (the table holds E2M1 doubled); e = 255 is NaN */
typedef struct KBlockMXFP4
{
	uint8_t		e;
	uint8_t		qs[16];
} KBlockMXFP4;

static_assert(sizeof(KBlockMXFP4) == 17, "MXFP4 block is 17 bytes, as in GGUF");

/*
 * NV4, made from NVFP4 of files: half h: w = d * NV4_D * sc[h] * kcode_mxfp4[nibble].  Without the
 * factor NV4_D such small scales would be subnormal halves.
 */
#define NV4_D 0x1p-14f
typedef struct KBlockNV4
{
	uint16_t	d;
	int8_t		sc[2];
	uint8_t		qs[16];
} KBlockNV4;

static_assert(sizeof(KBlockNV4) == 20, "NV4 block is 20 bytes");

/* The K formats and IQ4_XS: super-blocks of 256 weights, with sub-blocks of 16 or 32. */
#define QK_BLOCK 256

/*
 * Q2_K: sub-block s of 16: w = d * (scales[s] & 15) * q - dmin * (scales[s] >> 4).
 * q of weight i: i = 128 a + 32 b + c is bits 2b, 2b+1 of qs[32 a + c].
 */
typedef struct KBlockQ2_K
{
	uint8_t		scales[16];
	uint8_t		qs[64];
	uint16_t	d;
	uint16_t	dmin;
} KBlockQ2_K;

static_assert(sizeof(KBlockQ2_K) == 84, "Q2_K block is 84 bytes, as in GGUF");

/*
 * Q3_K: sub-block s of 16: w = d * (sc[s] - 32) * (low | bit << 2, minus 4).
 * low as q in Q2_K; bit of weight i = 32 j + c is bit j of hmask[c].
 * sc[s], 6 bits: low 4 in scales[s % 8] >> (s / 8 * 4); high 2 in
 * scales[8 + s % 4] >> (s / 4 * 2).
 */
typedef struct KBlockQ3_K
{
	uint8_t		hmask[32];
	uint8_t		qs[64];
	uint8_t		scales[12];
	uint16_t	d;
} KBlockQ3_K;

static_assert(sizeof(KBlockQ3_K) == 110, "Q3_K block is 110 bytes, as in GGUF");

/*
 * Q4_K: sub-block s of 32: w = d * sc[s] * nibble - dmin * mn[s].
 * Sub-blocks 2p and 2p+1 are the low and the high nibbles of qs[32 p .. 32 p + 31].
 * sc, mn, 6 bits: s < 4: scales[s] & 63, scales[s + 4] & 63; else
 * (scales[s + 4] & 15) | scales[s - 4] >> 6 << 4 and scales[s + 4] >> 4 | scales[s] >> 6 << 4.
 */
typedef struct KBlockQ4_K
{
	uint16_t	d;
	uint16_t	dmin;
	uint8_t		scales[12];
	uint8_t		qs[128];
} KBlockQ4_K;

static_assert(sizeof(KBlockQ4_K) == 144, "Q4_K block is 144 bytes, as in GGUF");

/* Q5_K: as Q4_K with a fifth bit: that of weight 32 s + c is bit s of qh[c] */
typedef struct KBlockQ5_K
{
	uint16_t	d;
	uint16_t	dmin;
	uint8_t		scales[12];
	uint8_t		qh[32];
	uint8_t		qs[128];
} KBlockQ5_K;

static_assert(sizeof(KBlockQ5_K) == 176, "Q5_K block is 176 bytes, as in GGUF");

/*
 * Q6_K: sub-block s of 16: w = d * scales[s] * ((low | high << 4) - 32).
 * Weight i = 128 a + 32 b + c: low is a nibble of ql[64 a + 32 (b % 2) + c] (low
 * for b < 2), high is bits 2b, 2b+1 of qh[32 a + c].
 */
typedef struct KBlockQ6_K
{
	uint8_t		ql[128];
	uint8_t		qh[64];
	int8_t		scales[16];
	uint16_t	d;
} KBlockQ6_K;

static_assert(sizeof(KBlockQ6_K) == 210, "Q6_K block is 210 bytes, as in GGUF");

/*
 * IQ4_XS: sub-block s of 32: w = d * (sc[s] - 32) * kcode_iq4[nibble of qs[16 s ..]].
 * sc[s], 6 bits: low 4 in scales_l[s / 2] >> (s % 2 * 4), high 2 in scales_h >> 2 s.
 */
typedef struct KBlockIQ4_XS
{
	uint16_t	d;
	uint16_t	scales_h;
	uint8_t		scales_l[4];
	uint8_t		qs[128];
} KBlockIQ4_XS;

static_assert(sizeof(KBlockIQ4_XS) == 136, "IQ4_XS block is 136 bytes, as in GGUF");

/*
 * NVFP4: 64 weights, sub-block s of 16: w = d[s] * kcode_mxfp4[nibble] / 2, the low nibbles of qs[8 s
 * ..] first.  d is an E4M3 without its sign; 0x7f stands for 0.
 */
#define NVFP4_BLOCK 64
typedef struct KBlockNVFP4
{
	uint8_t		d[4];
	uint8_t		qs[32];
} KBlockNVFP4;

static_assert(sizeof(KBlockNVFP4) == 36, "NVFP4 block is 36 bytes, as in GGUF");

/*
 * INT8: a row is its scale, a float, followed by one signed byte per weight: w = scale * q.  It has no
 * blocks: a row may have any length up to INT8_MAX_K.
 */
#define INT8_MAX_K 131072
/*
 * INT8S: such a row follows the scale of the activations, which is the same in all rows of a matrix: a
 * product's x is scale * (clamp(x / scale + zero) - zero), rounded to the nearest even within -128 .. 127.
 */
typedef struct KInt8X
{
	float		scale;
	float		zero;			/* a whole number of -128 .. 127 */
} KInt8X;

static_assert(sizeof(KInt8X) == 8, "the head of an INT8S row is two floats");
/*
 * Rows of at least INT8_QUAD_K weights that are quantized on loading have limited codes: the sums of |q|
 * of k = 8m + {0, 1, 4, 5}, and of {2, 3, 6, 7}, are at most INT8_QUAD.  Then four products with
 * activations of 7 bits fit 16 bits: 258 * 127 < 2^15.
 */
#define INT8_QUAD 258
#define INT8_QUAD_K 256

/*
 * FP8: a row is its scales, a float for each FP8_GROUP weights (the last group may be shorter), followed
 * by an E4M3 code per weight: w = scale[i / FP8_GROUP] * value(q).  Rows of any length.  A reader offers
 * this type (KReader.offer) in addition to the plain numbers.
 */
#define FP8_GROUP 128

/* the tables of IQ4_NL and IQ4_XS, of MXFP4 and NV4, of NF4 and of FP4 */
extern const int8_t kcode_iq4[16];
extern const int8_t kcode_mxfp4[16];
extern const int8_t kcode_nf4[16];
extern const int8_t kcode_fp4[16];

/* The last two tables represent numbers of up to 1; these are the steps of their codes. */
#define NF4_STEP (1 / 112.03f)
#define FP4_STEP (1 / 120.0f)

/*
 * A tensor as stored in a file: row-major, outermost dimension first (a matrix is [n_out][n_in]),
 * unaligned and read-only.  Quantized types pack along the innermost dimension.
 *
 * Or a view of one: some of its rows in another order, or rows that a reader makes from other tensors.
 */
typedef struct KTensor
{
	const char *name;			/* name in the file; owned by the loader */
	KType		type;
	int			ndim;			/* 1..4 */
	int64_t		shape[4];
	const void *data;			/* of row 0; NULL with a reader */
	size_t		nbytes;
	/* not NULL: logical row i is stored row row_perm[i] */
	const int32_t *row_perm;
	const struct KTensor *base; /* of a view: the file's tensor; NULL = no view */
	int64_t		base_row;		/* row of the file's tensor that is row 0 of this view */
	const struct KReader *reader;	/* not NULL: makes the rows */
} KTensor;

/* Makes rows, in any thread.  Everything is checked when the reader is created. */
typedef struct KReader
{
	/* write the n rows row0, row0 + step, ... (step > 0) in the tensor's type, one after the other */
	void		(*rows) (const struct KReader *r, int64_t row0, int step, int n, void *to);
	const KTensor *const *parts;	/* the file's tensors that it reads, NULL after the last */
	/* the same matrix in a type that takes less memory, for backends with kernels for it; NULL: none */
	const KTensor *offer;
	/* of INT8: the same matrix as KT_INT8S, and in that one's reader the scale; NULL: the files have none */
	const KTensor *with_x;
	KInt8X		x;
} KReader;

#ifdef __cplusplus
extern "C" {
#endif

/* Return true if a row ends with a float scale and a signed byte for each weight. */
bool		ktype_is_int8(KType t);
/* Return the weights in a block: 1, 32 or 256. */
int			ktype_block(KType t);
/* Return the bytes of a row of n elements; 0 if n is no multiple of the block. */
size_t		ktype_row_bytes(KType t, int64_t n);
/*
 * Convert n weights (a multiple of the block; INT8 and FP8: a whole row) at src, which needs no
 * alignment, to float.  The same bits as the `gguf` package's dequantize().
 */
void		kblock_to_float(KType t, const void *src, int64_t n, float *out);
/*
 * Copy weights from .. from + n - 1 of a row of k to a row of n.  from and n are multiples of the block,
 * for KT_FP8 of FP8_GROUP, unless the range includes the end of the row.  to: ktype_row_bytes(t, n).
 */
void		ktype_cut(KType t, const void *row, int64_t k, int64_t from, int64_t n, void *to);
const char *ktype_name(KType t);	/* "F32", "BF16", ... */

/* half and bfloat16 conversions, round to nearest even (scalar, exact) */
float		kf16_to_f32(uint16_t h);
uint16_t	kf32_to_f16(float f);
/* t: KT_F8_E4M3 or KT_F8_E5M2.  Round to nearest, ties to even; larger numbers become the largest one.
 * A NaN stays a NaN, and so does an infinity of E4M3, which has no other code for it. */
float		kf8_to_f32(KType t, uint8_t code);
uint8_t		kf32_to_f8(KType t, float f);
float		kbf16_to_f32(uint16_t h);
uint16_t	kf32_to_bf16(float f);

#ifdef __cplusplus
}
#endif

#endif
