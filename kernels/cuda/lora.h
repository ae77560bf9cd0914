/*
 * lora.h
 *	  Jobs of low-rank products (KLoraJob) in the form that CUDA's kernels read.
 *
 * A launch has blocks for all jobs of a call: those of job j begin at first[op], which ascends.
 * cuda_lora_stage() writes jobs and their lists of rows into one piece of memory, which is then copied
 * to the device.
 */
#ifndef VLLM_KERNELS_CUDA_LORA_H
#define VLLM_KERNELS_CUDA_LORA_H

#include "kernels.h"

typedef enum CudaLoraOp
{
	CUDA_LORA_SHRINK,
	CUDA_LORA_EXPAND,
	CUDA_LORA_ROWS,
	CUDA_LORA_OPS
} CudaLoraOp;

typedef struct CudaLoraJob
{
	KLora		p;				/* a and b are in the device's memory */
	const int32_t *rows;		/* in the device's memory */
	int32_t		n_rows;
	int32_t		first[CUDA_LORA_OPS];	/* first block */
} CudaLoraJob;

/* staged jobs, in the device's memory */
typedef struct CudaLora
{
	const CudaLoraJob *jobs;
	int			n;
	int			blocks[CUDA_LORA_OPS];
} CudaLora;

/* bytes of the staged jobs */
size_t		cuda_lora_bytes(const KLoraJob *jobs, int n);
/* Write the jobs to `host`, with pointers for the address `device`. */
CudaLora	cuda_lora_stage(void *host, void *device, const KLoraJob *jobs, int n);

#endif
