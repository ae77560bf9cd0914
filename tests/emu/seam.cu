/*
 * seam.cu
 *	  Launches the kernels of test_prims.cu.  Tests compile it with nvcc, to check that both sides of
 *	  common.cuh and mma.cuh accept the same code.
 */
#include "prims_kernels.cuh"

void		seam(cudaStream_t s, float *f, int *i, uint32_t *u, uint16_t *h, Lane *l);

void
seam(cudaStream_t s, float *f, int *i, uint32_t *u, uint16_t *h, Lane *l)
{
	LAUNCH(lanes_kernel, 1, 32, 0, s, l, i, 1, 32, 0);
	LAUNCH((mma_kernel<float, 0>), 1, 32, 0, s, f, f, f, f);
	LAUNCH((mma_kernel<float, 1>), 1, 32, 0, s, f, f, f, f);
	LAUNCH((mma_kernel<int, 2>), 1, 32, 0, s, i, i, i, i);
	LAUNCH(ldmatrix_kernel, 1, 32, 0, s, u, f, h);
	LAUNCH(pipeline_kernel, 1, 128, 1024, s, f, f, 5, 64);
	LAUNCH(blocks_kernel, 2, 64, 0, s, i, i, 100);
	LAUNCH(decode_kernel, 256, 256, 0, s, f);
	LAUNCH(index_kernel, dim3(2, 3, 2), dim3(8, 4, 32), 0, s, i);
	LAUNCH(add_kernel, 1, 32, 0, s, f, 1.0f);
	LAUNCH(mul_kernel, 1, 32, 0, s, f, 2.0f);
}
