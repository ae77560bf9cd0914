/*
 * role_account.h
 *	  What a role has under way, beside the limits that a request of it brings: for models here
 *	  (core/sched/admission.c) and at endpoints (remote/upstream/role_admission.c).
 *
 * The queues of those that wait, and locks, are theirs.
 */
#ifndef VLLM_IPC_SERVER_ROLE_ACCOUNT_H
#define VLLM_IPC_SERVER_ROLE_ACCOUNT_H

#include "base/err.h"
#include "ipc/wire.h"

#define ROLE_WEIGHT			100	/* when nothing is said */
#define ROLE_MAX_WEIGHT		10000

typedef struct RoleAccount
{
	int			n_refs;			/* requests that have passed, and not ended; or that wait for that */
	int			in_flight;		/* passed requests that bring a limit of requests in flight */
	double		full_us;		/* when its bucket of one minute's tokens is full again */
} RoleAccount;

/* The limits that a request brings. */
typedef struct RoleTerms
{
	int			max_requests,
				tokens_per_minute;	/* 0 = no limit */
	int			wait_ms;		/* -1 = as long as it takes */
} RoleTerms;

/* Has it nothing to say, so that it may be forgotten? */
static inline bool
account_idle(const RoleAccount *a, int64_t now_us)
{
	return a->n_refs == 0 && a->full_us <= (double) now_us;
}

/* When may a request pass?  INT64_MAX: when another ends. */
int64_t		account_open_at(const RoleAccount *a, const RoleTerms *t, int64_t now_us);
/* n tokens are used; n < 0: fewer than were charged. */
void		account_charge(RoleAccount *a, int tokens_per_minute, int64_t n, int64_t now_us);
/* A request that has passed, and is expected to use so many tokens; the same has ended. */
void		account_pass(RoleAccount *a, const RoleTerms *t, int64_t tokens, int64_t now_us);
void		account_leave(RoleAccount *a, const RoleTerms *t);
/* Why a request may not pass now; late: it has waited for that. */
void		account_refuse(const RoleAccount *a, const RoleTerms *t, bool late, int64_t now_us, Err *e);

/* ---- messages ---- */

/* A field WTAG_ROLE_...; ERR_INTERNAL if its value is none. */
bool		account_take(const WireField *f, int *out, Err *e);
/* Refuse a parameter that must be at most `most` for its role; n < 0: it is not given.  Returns false. */
bool		account_too_many(const char *parameter, int most, int64_t n, Err *e);

#endif
