/*
 * torch_pickle.h
 *	  One tensor, as torch.save() writes it.
 */
#ifndef VLLM_LOADER_TORCH_PICKLE_H
#define VLLM_LOADER_TORCH_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define TORCH_MAX_DIMS	8		/* PICKLE_MAX_DIMS */

typedef struct TorchTensor
{
	int			n_dims;
	size_t		dim[TORCH_MAX_DIMS];
	size_t		n;				/* elements */
	float	   *data;			/* [n] row-major; owned by the caller */
} TorchTensor;

/*
 * Read a dense tensor of float32, float16 or bfloat16 from the bytes of a file, without executing
 * anything of it.  Bytes that are no such file are ERR_BAD_FILE, another type of tensor ERR_UNSUPPORTED.
 */
bool		torch_tensor_read(const char *s, size_t n, TorchTensor *out, Err *e);

#endif
