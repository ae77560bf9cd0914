/*
 * layout.h
 *	  The position of a weight in a matrix that is packed for CUDA.  C and C++.
 *
 * A matrix consists of strips of 64 outputs, each stored separately: perhaps a header, then blocks, each
 * a header and 1, 4 or 8 pieces of 32 k, each piece sub-scales and codes.  The last strip's missing
 * outputs and the last piece's missing k are zeros.  A strip is four tiles of 16 outputs, with codes in
 * the order of the A fragments of mma.cuh: a lane's 2 x 8 weights of a tile's piece are adjacent, so a
 * warp loads a tile without shared memory and without ldmatrix.
 *
 * Scales are stored by pairs of outputs g and g + 8 of a tile, which one lane needs:
 * [tile][g][field][half of the tile].  The layout doesn't depend on the GPU: packed files work on all of
 * them.
 */
#ifndef VLLM_KERNELS_CUDA_LAYOUT_H
#define VLLM_KERNELS_CUDA_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

/* kernels call these functions, too */
#ifdef __CUDACC__
#define LAYOUT_FN static inline __host__ __device__
#else
#define LAYOUT_FN static inline
#endif

#define CUDA_STRIP	64			/* outputs */
#define CUDA_TILE	16			/* outputs of a fragment */
#define CUDA_PIECE	32			/* k: two fragments, a group of codes */

typedef enum CudaCodes
{
	CUDA_FLOAT,					/* elements of 2 or 4 bytes */
	CUDA_NIBBLE,				/* code + off */
	CUDA_TABLE,					/* index in a table of 16 (cuda_table()) */
	CUDA_BYTE,					/* signed */
	CUDA_E4M3
} CudaCodes;

/*
 * The contents of headers and sub-scales.  S(name, bytes per output of the strip's header, of a block's,
 * of a piece's sub-scales, pieces in a block)
 */
#define CUDA_SCALES(S) \
	S(NONE, 0, 0, 0, 1)			/* - */ \
	S(ROW, 4, 0, 0, 1)			/* float d */ \
	S(D, 0, 2, 0, 1)			/* half d */ \
	S(DM, 0, 4, 0, 1)			/* half d, half m */ \
	S(E, 0, 1, 0, 1)			/* byte e: d = 2^(e - 128) */ \
	S(K1, 0, 2, 1, 8)			/* half d; int8 s: d s */ \
	S(K2, 0, 4, 2, 8)			/* half d, half m; byte s, byte z: d s, - m z */ \
	S(KH, 0, 2, 2, 8)			/* half d; for 16 k int8 s */ \
	S(KHM, 0, 4, 2, 8)			/* half d, half m; for 16 k s | z << 4 */ \
	S(F, 0, 4, 0, 4)			/* float d */

typedef enum CudaScale
{
#define S(name, strip, header, sub, pieces) CUDA_##name,
	CUDA_SCALES(S)
#undef S
} CudaScale;

typedef struct CudaLayout
{
	uint8_t		codes;
	uint8_t		scale;
	uint8_t		off;			/* offset of nibbles */
	uint8_t		size;			/* bytes of a float element */
	uint8_t		strip_header;	/* bytes per output */
	uint8_t		header;
	uint8_t		sub;
	uint8_t		pieces;
} CudaLayout;

/* bytes of a piece's codes */
LAYOUT_FN size_t
cuda_piece_codes(const CudaLayout *l)
{
	size_t		weights = CUDA_STRIP * CUDA_PIECE;

	return l->codes == CUDA_FLOAT ? weights * l->size : l->codes >= CUDA_BYTE ? weights : weights / 2;
}

LAYOUT_FN size_t
cuda_block_bytes(const CudaLayout *l)
{
	return (size_t) l->header * CUDA_STRIP + l->pieces * ((size_t) l->sub * CUDA_STRIP + cuda_piece_codes(l));
}

LAYOUT_FN size_t
cuda_strip_bytes(const CudaLayout *l, int k)
{
	int			block = l->pieces * CUDA_PIECE;

	return (size_t) l->strip_header * CUDA_STRIP + ((size_t) k + block - 1) / block * cuda_block_bytes(l);
}

/*
 * Return the index of output j and k (within a piece) among a piece's weights.  A lane has 8 of each of
 * the two fragments; floats are stored with all lanes' first ones, then the second ones, codes with a
 * lane's 16 together.
 */
LAYOUT_FN int
cuda_place(const CudaLayout *l, int j, int k)
{
	int			lane = j % 8 * 4 + k % 8 / 2,
				reg = j / 8 % 2 + k / 8 % 2 * 2,	/* register of the fragment */
				tile = j / CUDA_TILE * 2,
				step = k / CUDA_TILE;

	return (l->codes == CUDA_FLOAT ? (tile + step) * 32 + lane : tile * 32 + lane * 2 + step) * 8 + reg * 2 +
		k % 2;
}

/* Return the index of output j's field among the n fields of each output of a strip. */
LAYOUT_FN int
cuda_scale_place(int j, int field, int n)
{
	return ((j / CUDA_TILE * 8 + j % 8) * n + field) * 2 + j / 8 % 2;
}

#endif
