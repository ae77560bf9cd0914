/*
 * role_admission.h
 *	  Limits of roles: requests in flight, tokens per minute, max_tokens (docs/user/operations.md).
 *
 * A request passes the admission before it enters its model's queue.  A request beyond a limit of its
 * role waits, in order of arrival whatever its model is, while requests of other roles pass.  Limits
 * come with each request and are compared with the role's account.
 */
#ifndef VLLM_REMOTE_UPSTREAM_ROLE_ADMISSION_H
#define VLLM_REMOTE_UPSTREAM_ROLE_ADMISSION_H

#include "base/err.h"
#include "ipc_server/role_account.h"
#include "remote/codec/request_fields.h"

typedef struct Roles Roles;
typedef struct Role Role;

/* Embedded in each request. */
typedef struct RoleItem
{
	uint32_t	role;			/* 0 = none */
	int			weight;
	int			max_requests, tokens_per_minute, max_tokens;	/* 0 = no limit */
	int			wait_ms;		/* maximal wait; -1 = no limit */
	/* private to role_admission.c */
	Role	   *of;				/* NULL: has not entered, or has left */
	bool		waits;
	int64_t		until_us;		/* end of its wait; 0 = no end */
	int64_t		estimate;
	struct RoleItem *prev, *next;
} RoleItem;

typedef enum RoleAnswer
{
	ROLE_PASS,					/* admitted: counted until roles_leave() */
	ROLE_WAIT,					/* waits until roles_next() returns it, or until roles_leave() */
	ROLE_REFUSE					/* *e says why: it may not wait */
} RoleAnswer;

/* Read the limits that the message carries, and check that its max_tokens is within them. */
bool		roles_read(RoleItem *it, const RequestFields *w, Err *e);

Roles	   *roles_new(void);
void		roles_free(Roles *r);
/* tokens: an estimate. */
RoleAnswer	roles_enter(Roles *r, RoleItem *it, int64_t tokens, int64_t now_us, Err *e);
/* Return a waiting item that is admitted now.  NULL: none before *when_us, or before another item leaves. */
RoleItem   *roles_next(Roles *r, int64_t now_us, int64_t *when_us);
/* The item has ended, or waits no more.  used: tokens; -1 = as estimated. */
void		roles_leave(Roles *r, RoleItem *it, int64_t used, int64_t now_us);
/* Make the error for an item that has waited too long. */
void		roles_late(const RoleItem *it, int64_t now_us, Err *e);

#endif
