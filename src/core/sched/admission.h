/*
 * admission.h
 *	  Limits of roles: requests in flight, tokens per minute.
 *
 * A request passes its core's gate before it may be scheduled.  A request that exceeds a limit of its
 * role waits at the gate, where the role's sessions take turns, while requests of other roles pass.
 * Accounts keep the usage of roles, over all models; each request brings its limits (Caller), which are
 * compared with the account.  Requests without limits (those of jobs) are not counted.
 *
 * Tokens per minute: an account is a token bucket that fills evenly and holds one minute's tokens.  A
 * request may pass while the bucket is not empty.  How much the request takes is known only as it runs,
 * so it may overdraw the bucket; then the next request waits until the bucket has filled again.  So in
 * the long run no role exceeds its rate.
 *
 * A gate belongs to its core's step thread; cores of several threads may share the accounts.
 */
#ifndef VLLM_CORE_SCHED_ADMISSION_H
#define VLLM_CORE_SCHED_ADMISSION_H

#include "core/core_internal.h"

Admission  *admission_new(Accounts *a);
void		admission_free(Admission *g);		/* the gate must be empty */

typedef enum AdmissionResult
{
	GATE_PASS,					/* the request counts from now on, until admission_leave() */
	GATE_WAIT,					/* RQ_DEFERRED: until admission_next() returns it, or admission_remove() */
	GATE_REFUSE					/* *e says why: the request would not wait */
} AdmissionResult;

/* r, a request's first Req, wants to be scheduled; n_tokens: tokens of its prompts. */
AdmissionResult admission_enter(Admission *g, Req *r, int n_tokens, int64_t now_us, Err *e);
/* Return a waiting request that may pass now; NULL = none. */
Req		   *admission_next(Admission *g, int64_t now_us);
/* Remove r from the gate; its state is RQ_NEW again. */
void		admission_remove(Admission *g, Req *r);
/* r has waited too long: set *e to the reason. */
void		admission_late(const Admission *g, const Req *r, int64_t now_us, Err *e);
/* A request has ended; r is its first Req. */
void		admission_leave(Admission *g, Req *r);
/* Charge n output tokens to r's role. */
void		admission_charge(const Req *r, int n);
/* Return when to call admission_next() again if no request ends before: 0 = now, INT64_MAX = no need. */
int64_t		admission_due(const Admission *g);
int			admission_n(const Admission *g);	/* number of waiting requests */
Req		   *admission_any(Admission *g);

#endif
