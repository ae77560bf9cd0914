/*
 * role_account.c
 *	  Limits of roles: requests in flight, tokens per minute, max_tokens (role_account.h).
 *
 * A token bucket is kept as the time at which it will be full again.  That suffices whatever the rate
 * (each request brings its own rate).  The bucket is empty if that time is a minute or more ahead.  A
 * request passes if the bucket is not empty.
 *
 * Tested by tests/unit/core/sched/test_admission.c and tests/unit/remote/upstream/test_remote_roles.c.
 */
#include "ipc_server/role_account.h"

#include <limits.h>

#define MINUTE_US	INT64_C(60000000)

int64_t
account_open_at(const RoleAccount *a, const RoleTerms *t, int64_t now_us)
{
	int64_t		filled = (int64_t) a->full_us - MINUTE_US + 1;

	if (t->max_requests > 0 && a->in_flight >= t->max_requests)
		return INT64_MAX;
	return t->tokens_per_minute > 0 && filled > now_us ? filled : now_us;
}

void
account_charge(RoleAccount *a, int tokens_per_minute, int64_t n, int64_t now_us)
{
	if (tokens_per_minute == 0)
		return;
	if (a->full_us < (double) now_us)
		a->full_us = (double) now_us;
	a->full_us += (double) n * (double) MINUTE_US / tokens_per_minute;
}

void
account_pass(RoleAccount *a, const RoleTerms *t, int64_t tokens, int64_t now_us)
{
	/* requests of a job have no limit and are not counted: they don't delay sessions of the job's owner */
	a->in_flight += t->max_requests > 0;
	account_charge(a, t->tokens_per_minute, tokens, now_us);
}

void
account_leave(RoleAccount *a, const RoleTerms *t)
{
	a->in_flight -= t->max_requests > 0;
}

void
account_refuse(const RoleAccount *a, const RoleTerms *t, bool late, int64_t now_us, Err *e)
{
	int64_t		open = account_open_at(a, t, now_us);

	if (open == INT64_MAX || t->tokens_per_minute == 0)
	{
		err_set(e, ERR_LIMIT, "role has its limit of %d LLM requests in flight", t->max_requests);
		err_hint(e, "The limit is the role's setting vllm.role_max_requests; vllm.role_limit_timeout says "
					"how long to wait.");
	}
	else
	{
		err_set(e, ERR_LIMIT, "role has used up its limit of %d LLM tokens per minute",
				t->tokens_per_minute);
		err_detail(e, "The next request may begin in %.1f s.", (double) (open - now_us) / 1e6);
		err_hint(e, "The limit is the role's setting vllm.role_tokens_per_minute; vllm.role_limit_timeout "
					"says how long to wait.");
	}
	if (late && e->detail[0] == '\0')
		err_detail(e, "It has waited for %d ms.", t->wait_ms);
}

/* ---- messages ---- */

bool
account_take(const WireField *f, int *out, Err *e)
{
	int64_t		least = f->tag == WTAG_ROLE_WEIGHT ? 1 : f->tag == WTAG_ROLE_LIMIT_WAIT ? -1 : 0;
	int64_t		most = f->tag == WTAG_ROLE_WEIGHT ? ROLE_MAX_WEIGHT : INT_MAX;

	if (f->i < least || f->i > most)
		return err_set(e, ERR_INTERNAL, "field \"%s\" must not be %lld", wire_tag_name(f->tag),
					   (long long) f->i);
	*out = (int) f->i;
	return true;
}

bool
account_too_many(const char *parameter, int most, int64_t n, Err *e)
{
	if (n >= 0)
	{
		err_set(e, ERR_INVALID, "%s must be at most %d for this role, got %lld", parameter, most,
				(long long) n);
		err_detail(e, "parameter=%s, value=%lld", parameter, (long long) n);
	}
	else
	{
		err_set(e, ERR_INVALID, "%s must be given, and be at most %d for this role", parameter, most);
		err_detail(e, "parameter=%s", parameter);
	}
	return err_hint(e, "The limit is the role's setting vllm.role_max_tokens.");
}
