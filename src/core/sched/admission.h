/*
 * admission.h
 *	  What roles may take: requests in flight, tokens per minute.
 *
 * Before a request may be scheduled it passes its core's gate.  A request beyond a limit of its role waits
 * there, in turn over the role's sessions, while others pass.  The accounts are those of
 * roles, over all models; a limit comes with each request (Caller), and is compared with the account.
 * Requests that bring none (jobs') count for none.
 *
 * Tokens per minute: an account is a bucket that fills evenly and holds one minute's tokens.  A
 * request may pass while there is something in it, and what it takes is known only as it goes on: the
 * bucket may be overdrawn, and the next request waits until that is made good.  So in the long run
 * no role has more than its rate.
 *
 * Owner of a gate: its core's step thread; accounts may be shared by cores of several threads.
 */
#ifndef VLLM_CORE_SCHED_ADMISSION_H
#define VLLM_CORE_SCHED_ADMISSION_H

#include "core/core_internal.h"

Admission  *admission_new(Accounts *a);
void		admission_free(Admission *g);		/* it must be empty */

typedef enum AdmissionResult
{
	GATE_PASS,					/* it counts from now on, until admission_leave() */
	GATE_WAIT,					/* RQ_DEFERRED: until admission_next() gives it, or admission_remove() */
	GATE_REFUSE					/* *e says why: it doesn't want to wait */
} AdmissionResult;

/* r, a request's first Req, wants to be scheduled; n_tokens: of its prompts. */
AdmissionResult admission_enter(Admission *g, Req *r, int n_tokens, int64_t now_us, Err *e);
/* One that has waited and passes now; NULL = nobody. */
Req		   *admission_next(Admission *g, int64_t now_us);
/* r, which waits, does so no more: it is RQ_NEW again. */
void		admission_remove(Admission *g, Req *r);
/* r has waited too long: why. */
void		admission_late(const Admission *g, const Req *r, int64_t now_us, Err *e);
/* r, a request's first, has ended. */
void		admission_leave(Admission *g, Req *r);
/* r has said n tokens. */
void		admission_charge(const Req *r, int n);
/* When to look again, if no request ends before: 0 = now, INT64_MAX = nobody waits for a time. */
int64_t		admission_due(const Admission *g);
int			admission_n(const Admission *g);	/* who waits */
Req		   *admission_any(Admission *g);

#endif
