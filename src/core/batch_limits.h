/*
 * batch_limits.h
 *	  Defaults for the size of a model's steps.
 */
#ifndef VLLM_CORE_BATCH_LIMITS_H
#define VLLM_CORE_BATCH_LIMITS_H

#include <stdint.h>

#include "core/core.h"

/*
 * Fill in max_num_seqs and max_num_batched_tokens if they are 0.  kv_tokens: capacity of the KV cache;
 * memory: available bytes (UINT64_MAX = unknown).
 */
void		sizing_fill(const ModelInfo *mi, int threads, int64_t kv_tokens, uint64_t memory,
						CoreOptions *co);
/*
 * Choose the context length if the KV cache holds `fits` tokens.  A length that was asked for must fit,
 * else this fails; asked = 0: `most`, cut to what fits.
 */
bool		sizing_length(int requested, int most, int64_t fits, int *len, Err *e);

#endif
