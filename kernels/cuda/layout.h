/*
 * layout.h
 *	  Where a weight lies in a matrix that is packed for CUDA.  C and C++.
 *
 * A matrix is strips of 64 outputs, each by itself: perhaps a header, then blocks, each a
 * header and 1, 4 or 8 pieces of 32 k, each sub-scales and codes.  Zeros fill up the last
 * strip's outputs and the last piece's k.  A strip is four tiles of 16 outputs, and codes lie in
 * the order of the A fragments of mma.cuh: a lane's 2 x 8 weights of a tile's piece are
 * neighbours, so a warp loads a tile without shared memory and without ldmatrix.
 *
 * Scales lie by pairs of outputs g and g + 8 of a tile, which one lane has: [tile][g]
 * [field][half of the tile].  Nothing here depends on the GPU: packed files serve all.
 */
#ifndef VLLM_KERNELS_CUDA_LAYOUT_H
#define VLLM_KERNELS_CUDA_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

/* kernels call them, too */
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
	CUDA_TABLE,					/* the number of an entry of IQ4's or MXFP4's table */
	CUDA_BYTE					/* signed */
} CudaCodes;

/* what a block's header has, and a piece's sub-scales */
typedef enum CudaScale
{
	CUDA_NONE,					/* - */
	CUDA_ROW,					/* the strip's header: float d */
	CUDA_D,						/* half d */
	CUDA_DM,					/* half d, half m */
	CUDA_E,						/* byte e: d = 2^(e - 128) */
	CUDA_K1,					/* of 256 k half d; int8 s: d s */
	CUDA_K2,					/* of 256 k half d, half m; byte s, byte z: d s, - m z */
	CUDA_KH,					/* of 256 k half d; for 16 k int8 s */
	CUDA_KHM					/* of 256 k half d, half m; for 16 k s | z << 4 */
} CudaScale;

typedef struct CudaLayout
{
	uint8_t		codes;
	uint8_t		scale;
	uint8_t		off;			/* of nibbles */
	uint8_t		size;			/* of floats, bytes */
	uint8_t		strip_header;	/* bytes an output */
	uint8_t		header;			/* of a block, bytes an output */
	uint8_t		sub;			/* of a piece, bytes an output */
	uint8_t		pieces;			/* in a block */
} CudaLayout;

/* bytes of a piece's codes */
LAYOUT_FN size_t
cuda_piece_codes(const CudaLayout *l)
{
	size_t		weights = CUDA_STRIP * CUDA_PIECE;

	return l->codes == CUDA_FLOAT ? weights * l->size : l->codes == CUDA_BYTE ? weights : weights / 2;
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
 * The place of output j and k (of a piece) among a piece's weights.  A lane's 8 of each of the two
 * fragments; floats all lanes' first ones, then the second ones, codes a lane's 16 together.
 */
LAYOUT_FN int
cuda_place(const CudaLayout *l, int j, int k)
{
	int			lane = j % 8 * 4 + k % 8 / 2,
				reg = j / 8 % 2 + k / 8 % 2 * 2,	/* of the fragment */
				tile = j / CUDA_TILE * 2,
				step = k / CUDA_TILE;

	return (l->codes == CUDA_FLOAT ? (tile + step) * 32 + lane : tile * 32 + lane * 2 + step) * 8 + reg * 2 + k % 2;
}

/* The place of output j's field among the fields of a strip, of which there are n. */
LAYOUT_FN int
cuda_scale_place(int j, int field, int n)
{
	return ((j / CUDA_TILE * 8 + j % 8) * n + field) * 2 + j / 8 % 2;
}

#endif
