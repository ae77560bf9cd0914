/*
 * lora.h
 *	  Low-rank adapters: y + scale * (x A^T) B^T beside a model's matrices.
 *
 * An adapter is read once and never changes.  It has its own memory and knows nothing of a model but
 * the sizes that it was made for, so whoever holds one may outlive the model.
 */
#ifndef VLLM_MODEL_LORA_H
#define VLLM_MODEL_LORA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* What an adapter's files say. */
typedef struct LoraInfo
{
	int			rank;			/* the greatest of its matrices' */
	double		alpha;			/* lora_alpha */
	bool		rslora;			/* scaled by alpha / sqrt(rank), not alpha / rank */
	int64_t		bytes;			/* of its matrices, as they are kept */
	char		base[256];		/* base_model_name_or_path, cut; "" = not said */
	char		modules[512];	/* q_proj, v_proj, ...: what it adds to; cut */
} LoraInfo;

typedef struct LoraAdapter
{
	uint64_t	id;				/* of these files in this process, never 0 */
	LoraInfo	info;
	char		label[64];		/* the last part of its path */
} LoraAdapter;

void		lora_free(LoraAdapter *a);

#endif
