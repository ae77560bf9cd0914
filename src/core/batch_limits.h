/*
 * batch_limits.h
 *	  How large a model's steps may be, where nobody has said.
 */
#ifndef VLLM_CORE_BATCH_LIMITS_H
#define VLLM_CORE_BATCH_LIMITS_H

#include <stdint.h>

#include "core/core.h"

/*
 * Fill in max_num_seqs and max_num_batched_tokens where they are 0.  kv_tokens: that the KV cache holds;
 * memory: bytes that can be had (UINT64_MAX = unknown).
 */
void		sizing_fill(const ModelInfo *mi, int threads, int64_t kv_tokens, uint64_t memory,
						CoreOptions *co);
/*
 * The context length, where the KV cache holds so many tokens: what is asked for must fit; 0 asked for is
 * `most`, cut to what fits.
 */
bool		sizing_length(int asked, int most, int64_t fits, int *len, Err *e);

#endif
