/*
 * replica_router.h
 *	  Which of a model's replicas gets a request, and what all of them count together.
 *
 * Replicas have the same weights and give the same bits, so the choice is one of time alone.  A request goes
 * to the replica that has the fewest tokens to do: those of its live requests, prompts and what answers may
 * still get, less what it has computed of this one's prompt already.  Of several the first.  So a prompt's
 * beginning draws those that begin alike to where it is, unless so much else is to be done there that to
 * compute it once more is sooner.
 *
 * What a replica has computed isn't asked, but remembered: blocks of prompts that went there, by a digest of
 * all up to them, in a table of fixed size.  It may be wrong (blocks have been overwritten since), which
 * costs what a bad guess costs.
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
/* The replica for a request; live[i]: core_live_tokens() of each. */
int			replicas_choose(Replicas *q, const int64_t *live, const ReqSpec *spec);
/* What they have computed is gone. */
void		replicas_forget(Replicas *q);

/* Adds the counters of one replica more: b is changed. */
void		replicas_add(CoreStats *a, CoreStats *b);

#endif
