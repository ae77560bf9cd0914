/*
 * pack.h
 *	  Matrices in the form that CUDA's products read (layout.h), packed on the host.  Needs no CUDA.
 */
#ifndef VLLM_KERNELS_CUDA_PACK_H
#define VLLM_KERNELS_CUDA_PACK_H

#include "blocks.h"
#include "cuda/layout.h"
#include "kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NULL: CUDA has no products of the type */
const CudaLayout *cuda_layout(KType t);

/* the values of CUDA_TABLE's codes, [16] */
const int8_t *cuda_table(KType t);

/* as mat_bytes, mat_pack and mat_row of an op table (kernels.h) */
size_t		cuda_mat_bytes(KType t, int n, int k);
void		cuda_mat_pack(KMat *m, const KTensor *src, int n0, int n1);
void		cuda_mat_row(const KMat *m, int j, float *out);

#ifdef __cplusplus
}
#endif

#endif
