/*
 * gate.h
 *	  What roles may take: requests in flight, tokens per minute.
 *
 * Before a request may be scheduled it passes its core's gate.  Who is beyond a limit of its role
 * waits there, in turn over the role's sessions, while others pass.  The accounts are those of
 * roles, over all models; a limit comes with each request (Asker), and is compared with the account.  Requests that
 * bring none (jobs') count for none.
 *
 * Tokens per minute: an account is a bucket that fills evenly and holds one minute's tokens.  A
 * request may pass while there is something in it, and what it takes is known only as it goes on: the
 * bucket may be overdrawn, and the next request waits until that is made good.  So in the long run
 * no role has more than its rate.
 *
 * Owner of a gate: its core's step thread; accounts may be shared by cores of several threads.
 */
#ifndef VLLM_ENGINE_GATE_H
#define VLLM_ENGINE_GATE_H

#include "engine/core_int.h"

Gate	   *gate_new(Accounts *a);
void		gate_free(Gate *g);		/* it must be empty */

typedef enum GateAnswer
{
	GATE_PASS,					/* it counts from now on, until gate_leave() */
	GATE_WAIT,					/* RQ_DEFERRED: until gate_next() gives it, or gate_remove() */
	GATE_REFUSE					/* *e says why: it doesn't want to wait */
} GateAnswer;

/* r, a request's first Req, wants to be scheduled; n_tokens: of its prompts. */
GateAnswer	gate_enter(Gate *g, Req *r, int n_tokens, int64_t now_us, Err *e);
/* One that has waited and passes now; NULL = nobody. */
Req		   *gate_next(Gate *g, int64_t now_us);
/* r, which waits, does so no more: it is RQ_NEW again. */
void		gate_remove(Gate *g, Req *r);
/* r has waited too long: why. */
void		gate_late(const Gate *g, const Req *r, int64_t now_us, Err *e);
/* r, a request's first, has ended. */
void		gate_leave(Gate *g, Req *r);
/* r has said n tokens. */
void		gate_charge(const Req *r, int n);
/* When to look again, if no request ends before: 0 = now, INT64_MAX = nobody waits for a time. */
int64_t		gate_due(const Gate *g);
int			gate_n(const Gate *g);	/* who waits */
Req		   *gate_any(Gate *g);
bool		gate_check(const Gate *g);

#endif
