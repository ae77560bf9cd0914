/*
 * block_lifetime.h
 *	  How long blocks of the KV cache live, and how often they are found: a sample of them.
 *
 * A life begins when a block is handed out, and ends when it is handed out to somebody else, or loses its
 * pages; between, others find what it holds.  Of a block whose life is drawn three histograms are kept
 * (histograms.def, KV_*): the life, the time since it was last found (or begun), and the times
 * between its last four finds.  vLLM has the same, of as many.
 *
 * Owner: the step thread.  A block that was not drawn costs a random number.
 */
#ifndef VLLM_CORE_KV_BLOCK_LIFETIME_H
#define VLLM_CORE_KV_BLOCK_LIFETIME_H

#include <stdint.h>

#include "ipc/wire.h"

typedef struct KvLife KvLife;

/*
 * Of a pool of n_blocks; sample: the part that is drawn, in millionths.  to: [WIRE_N_KV_HISTS], is added to.
 */
KvLife	   *kvlife_new(int n_blocks, int sample, WireHist *to);
void		kvlife_free(KvLife *l);
void		kvlife_taken(KvLife *l, int32_t block);
void		kvlife_found(KvLife *l, int32_t block);
void		kvlife_lost(KvLife *l, int32_t block);
/* Nothing that blocks hold will be found any more: their lives don't count. */
void		kvlife_forget(KvLife *l);

#endif
