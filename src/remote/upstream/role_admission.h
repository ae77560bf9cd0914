/*
 * role_admission.h
 *	  Limits of roles: requests in flight, tokens per minute, max_tokens (docs/user/operations.md).
 *
 * Before a request gets into its model's queue it passes here.  A request beyond a limit of its role waits,
 * in order of arrival and whatever its model is, while those of others pass.  Limits come with each request
 * and are compared with the role's account.
 */
#ifndef VLLM_REMOTE_UPSTREAM_ROLE_ADMISSION_H
#define VLLM_REMOTE_UPSTREAM_ROLE_ADMISSION_H

#include "base/err.h"
#include "ipc_server/role_account.h"
#include "remote/codec/request_fields.h"

typedef struct Roles Roles;
typedef struct Role Role;

/* Of requests of any kind. */
typedef struct RoleItem
{
	uint32_t	role;			/* 0 = none */
	int			weight;
	int			max_requests, tokens_per_minute, max_tokens;	/* 0 = no limit */
	int			wait_ms;		/* -1 = as long as it takes */
	/* role_admission.c's */
	Role	   *of;				/* NULL: has not entered, or has left */
	bool		waits;
	int64_t		until_us;		/* of its waiting; 0 = no such */
	int64_t		estimate;
	struct RoleItem *prev, *next;
} RoleItem;

typedef enum RoleAnswer
{
	ROLE_PASS,					/* counts from now on, until roles_leave() */
	ROLE_WAIT,					/* until roles_next() gives it, or roles_leave() */
	ROLE_REFUSE					/* *e says why: it doesn't want to wait */
} RoleAnswer;

/* The limits that a message brings, and whether its max_tokens is within them. */
bool		roles_read(RoleItem *it, const RequestFields *w, Err *e);

Roles	   *roles_new(void);
void		roles_free(Roles *r);
/* tokens: an estimate. */
RoleAnswer	roles_enter(Roles *r, RoleItem *it, int64_t tokens, int64_t now_us, Err *e);
/* A waiting item that passes now; NULL: none before *when_us, or before another item leaves. */
RoleItem   *roles_next(Roles *r, int64_t now_us, int64_t *when_us);
/* It has ended, or waits no more; used: tokens, -1 = as estimated. */
void		roles_leave(Roles *r, RoleItem *it, int64_t used, int64_t now_us);
/* Why it has waited too long. */
void		roles_late(const RoleItem *it, int64_t now_us, Err *e);

#endif
