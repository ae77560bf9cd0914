/*
 * cuda_ops.h
 *	  The host's side of kernels/cuda: each call puts one op's kernels into a stream.
 *
 * Pointers are the device's, rows begin at multiples of 16 bytes if their length is one.
 * Errors of a launch are left to cudaGetLastError().  Include common.cuh first.
 */
#ifndef VLLM_KERNELS_CUDA_OPS_H
#define VLLM_KERNELS_CUDA_OPS_H

/* y = x / sqrt(mean(x^2) + eps) * w; y may be x, w may be NULL (1) */
void		cuda_rmsnorm(float *y, const float *x, const float *w, int rows, int dim, float eps, cudaStream_t stream);

#endif
