/*
 * replica_router.h
 *	  Choose the replica for a request, and add up the counters of replicas.
 *
 * Replicas have the same weights and give the same bits, so the choice only affects time.  A request
 * goes to the replica with the fewest tokens left to compute: the tokens of its live requests (prompts,
 * and the most that their outputs may still get), less the tokens of this prompt that the replica has
 * computed already.  Ties go to the first replica.  So requests with the same prefix gather on one
 * replica, unless that replica has so much other work that computing the prefix again elsewhere is
 * faster.
 *
 * The router does not ask the replicas what they have computed.  It remembers the blocks of prompts that
 * it sent to each, by a digest of all blocks up to them, in a table of fixed size.  The table may be
 * wrong (the replica has overwritten blocks since); then a prefix is computed again.
 *
 * Any thread.
 */
#ifndef VLLM_BACKEND_REPLICA_ROUTER_H
#define VLLM_BACKEND_REPLICA_ROUTER_H

#include "core/core.h"

#define REPLICAS_MOST	16

typedef struct Replicas Replicas;

Replicas   *replicas_new(int n, int block_size);
void		replicas_free(Replicas *q);
/* Choose the replica for a request; live[i]: core_live_tokens() of replica i. */
int			replicas_choose(Replicas *q, const int64_t *live, const ReqSpec *spec);
/* Forget the table: the replicas have dropped their computed blocks. */
void		replicas_forget(Replicas *q);

/* Add the counters b of a further replica to a; modifies b. */
void		replicas_add(CoreStats *a, CoreStats *b);

#endif
