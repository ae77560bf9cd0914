/*
 * block_lifetime.h
 *	  How long blocks of the KV cache live, and how often requests reuse them: statistics of a sample.
 *
 * A lifetime begins when a block is allocated, and ends when it is allocated again, or loses its pages;
 * in between requests may find its content (a hit).  Three histograms are kept of sampled blocks
 * (histograms.def, KV_*): the lifetime, the time since the last hit (or the beginning), and the times
 * between the last four hits.  vLLM keeps the same histograms, of the same number of hits.
 *
 * Owner: the step thread.  A block that is not sampled costs a random number.
 */
#ifndef VLLM_CORE_KV_BLOCK_LIFETIME_H
#define VLLM_CORE_KV_BLOCK_LIFETIME_H

#include <stdint.h>

#include "ipc/wire.h"

typedef struct KvLife KvLife;

/*
 * Make statistics for a pool of n_blocks; sample: the part of the blocks that is sampled, in millionths.
 * to: [WIRE_N_KV_HISTS] histograms that are added to.
 */
KvLife	   *kvlife_new(int n_blocks, int sample, WireHist *to);
void		kvlife_free(KvLife *l);
void		kvlife_taken(KvLife *l, int32_t block);
void		kvlife_found(KvLife *l, int32_t block);
void		kvlife_lost(KvLife *l, int32_t block);
/* The content of all blocks is lost: their lifetimes do not count. */
void		kvlife_forget(KvLife *l);

#endif
