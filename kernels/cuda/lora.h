/*
 * lora.h
 *	  Jobs of low-rank products (KLoraJob) as CUDA's kernels read them.
 *
 * A launch has blocks for all jobs of a call: those of job j begin at first[op], which ascends.
 * cuda_lora_stage() writes jobs and their lists of rows into one piece of memory, to be copied to the device.
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
	KLora		p;				/* a and b: the device's */
	const int32_t *rows;		/* of the device */
	int32_t		n_rows;
	int32_t		first[CUDA_LORA_OPS];	/* block */
} CudaLoraJob;

/* what is staged, of the device */
typedef struct CudaLora
{
	const CudaLoraJob *jobs;
	int			n;
	int			blocks[CUDA_LORA_OPS];
} CudaLora;

/* bytes that the jobs take */
size_t		cuda_lora_bytes(const KLoraJob *jobs, int n);
/* The jobs into `host`, as they are to lie at `device`. */
CudaLora	cuda_lora_stage(void *host, void *device, const KLoraJob *jobs, int n);

#endif
