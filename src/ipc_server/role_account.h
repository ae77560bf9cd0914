/*
 * role_account.h
 *	  A role's usage, compared with the limits that each of its requests brings: for models in the engine
 *	  (core/sched/admission.c) and at endpoints (remote/upstream/role_admission.c).
 *
 * Queues of waiting requests, and locks, are the callers'.
 */
#ifndef VLLM_IPC_SERVER_ROLE_ACCOUNT_H
#define VLLM_IPC_SERVER_ROLE_ACCOUNT_H

#include "base/err.h"
#include "ipc/wire.h"

#define ROLE_WEIGHT			100	/* default */
#define ROLE_MAX_WEIGHT		10000

typedef struct RoleAccount
{
	int			n_refs;			/* requests that have passed and not ended, or that wait to pass */
	int			in_flight;		/* passed requests that have a limit of requests in flight */
	double		full_us;		/* when the bucket of one minute's tokens will be full again, in us */
} RoleAccount;

/* Limits that a request brings. */
typedef struct RoleTerms
{
	int			max_requests,
				tokens_per_minute;	/* 0 = no limit */
	int			wait_ms;		/* -1 = no limit */
} RoleTerms;

/* Return true if the account has no state worth keeping, so that the caller may free it. */
static inline bool
account_idle(const RoleAccount *a, int64_t now_us)
{
	return a->n_refs == 0 && a->full_us <= (double) now_us;
}

/* Return when a request may pass; INT64_MAX = when another request ends. */
int64_t		account_open_at(const RoleAccount *a, const RoleTerms *t, int64_t now_us);
/* Charge n tokens; n < 0 refunds tokens charged in excess. */
void		account_charge(RoleAccount *a, int tokens_per_minute, int64_t n, int64_t now_us);
/*
 * account_pass() counts a request that passes and is expected to use `tokens`; account_leave() counts
 * that it has ended.
 */
void		account_pass(RoleAccount *a, const RoleTerms *t, int64_t tokens, int64_t now_us);
void		account_leave(RoleAccount *a, const RoleTerms *t);
/* Set *e to why a request may not pass now; late: it has waited for t->wait_ms. */
void		account_refuse(const RoleAccount *a, const RoleTerms *t, bool late, int64_t now_us, Err *e);

/* ---- messages ---- */

/* Read a field WTAG_ROLE_...; fails with ERR_INTERNAL if its value is out of range. */
bool		account_take(const WireField *f, int *out, Err *e);
/*
 * Set *e to the error for a parameter that exceeds the role's limit `most`; n < 0: the parameter was not
 * given.  Returns false.
 */
bool		account_too_many(const char *parameter, int most, int64_t n, Err *e);

#endif
