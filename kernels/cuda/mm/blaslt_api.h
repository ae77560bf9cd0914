/*
 * blaslt_api.h
 *	  The functions of cuBLASLt that kernels/cuda calls, by the library's ABI.
 *
 * The library is opened at run time and may be missing, and so may its header at build time: this file
 * declares the few functions, structs and numbers.  If nvcc finds <cublasLt.h>, blaslt.cu compares them
 * with it.
 */
#ifndef VLLM_KERNELS_CUDA_BLASLT_API_H
#define VLLM_KERNELS_CUDA_BLASLT_API_H

#include "cuda/common.cuh"

#include <stddef.h>

typedef struct BltAny *BltHandle;	/* of the library's objects */

enum
{
	BLT_F32 = 0,				/* cudaDataType */
	BLT_F16 = 2,
	BLT_BF16 = 14,
	BLT_COMPUTE_F32 = 68,		/* cublasComputeType_t */
	BLT_TRANSPOSED = 1,			/* cublasOperation_t */
	BLT_DESC_TRANS_A = 3,		/* cublasLtMatmulDescAttributes_t */
	BLT_PREF_WORKSPACE = 1,		/* cublasLtMatmulPreferenceAttributes_t */
	BLT_PREF_REDUCTION = 3,
	BLT_PREF_ALIGN_A = 5,		/* alignments of B, C and D: 6, 7, 8 */
	BLT_ALGO_SPLITS = 2,		/* cublasLtMatmulAlgoConfigAttributes_t */
	BLT_ALGO_REDUCTION = 3
};

typedef struct BltAlgo
{
	uint64_t	data[8];
} BltAlgo;

/* one result of the heuristic */
typedef struct BltChoice
{
	BltAlgo		algo;
	size_t		workspace;
	int			state;			/* 0: it can be used */
	float		waves;
	int			reserved[4];
} BltChoice;

/* C(name after cublasLt, parameters); all return 0 on success */
#define BLT_CALLS(C) \
	C(Create, (BltHandle *lt)) \
	C(Destroy, (BltHandle lt)) \
	C(MatmulDescCreate, (BltHandle *desc, int compute, int scale)) \
	C(MatmulDescDestroy, (BltHandle desc)) \
	C(MatmulDescSetAttribute, (BltHandle desc, int attribute, const void *p, size_t size)) \
	C(MatrixLayoutCreate, (BltHandle *layout, int type, uint64_t rows, uint64_t cols, int64_t ld)) \
	C(MatrixLayoutDestroy, (BltHandle layout)) \
	C(MatmulPreferenceCreate, (BltHandle *pref)) \
	C(MatmulPreferenceDestroy, (BltHandle pref)) \
	C(MatmulPreferenceSetAttribute, (BltHandle pref, int attribute, const void *p, size_t size)) \
	C(MatmulAlgoGetHeuristic, (BltHandle lt, BltHandle desc, BltHandle a, BltHandle b, BltHandle c, \
							   BltHandle d, \
							   BltHandle pref, int room, BltChoice *choices, int *n)) \
	C(MatmulAlgoConfigGetAttribute, (const BltAlgo *algo, int attribute, void *p, size_t size, \
									 size_t *written)) \
	C(Matmul, (BltHandle lt, BltHandle desc, const void *alpha, const void *a, BltHandle la, const void *b, \
			   BltHandle lb, \
			   const void *beta, const void *c, BltHandle lc, void *d, BltHandle ld, const BltAlgo *algo, \
			   void *workspace, size_t size, cudaStream_t stream))

#endif
