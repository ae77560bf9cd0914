/*
 * request_limits.c
 *	  The caller and the limits of its role, from the fields of a message.
 *
 * The backend sends the values of its settings, which the role can't change (src/pg/init/guc.c).  They
 * are checked again here, as the arena is untrusted.  Tested by tests/t/097_limits.pl and
 * tests/unit/core/sched/test_admission.c.
 */
#include "server/request/request_limits.h"

#include "ipc_server/role_account.h"

bool
caller_field(Caller *a, const WireField *f, bool *known, Err *e)
{
	*known = true;
	switch (f->tag)
	{
		case WTAG_LOGIN:
			a->role = (uint32_t) f->i;
			return true;
		case WTAG_BACKGROUND:
			a->background = f->i != 0;
			return true;
		case WTAG_ROLE_WEIGHT:
			return account_take(f, &a->weight, e);
		case WTAG_ROLE_MAX_REQUESTS:
			return account_take(f, &a->max_requests, e);
		case WTAG_ROLE_TOKENS_PER_MINUTE:
			return account_take(f, &a->tokens_per_minute, e);
		case WTAG_ROLE_MAX_TOKENS:
			return account_take(f, &a->max_tokens, e);
		case WTAG_ROLE_LIMIT_WAIT:
			return account_take(f, &a->wait_ms, e);
		default:
			*known = false;
			return true;
	}
}

void
caller_put(const Caller *a, WireOut *o)
{
	wire_put_int(o, WTAG_LOGIN, (int64_t) a->role);
	wire_put_int(o, WTAG_BACKGROUND, a->background);
	wire_put_int(o, WTAG_ROLE_WEIGHT, a->weight > 0 ? a->weight : ROLE_WEIGHT);
	wire_put_int(o, WTAG_ROLE_MAX_REQUESTS, a->max_requests);
	wire_put_int(o, WTAG_ROLE_TOKENS_PER_MINUTE, a->tokens_per_minute);
	wire_put_int(o, WTAG_ROLE_MAX_TOKENS, a->max_tokens);
	wire_put_int(o, WTAG_ROLE_LIMIT_WAIT, a->wait_ms);
}

bool
caller_max_tokens(const Caller *a, const GenParams *p, uint64_t given, Err *e)
{
	if (a->max_tokens == 0 || (given & GP(MAX_TOKENS)) == 0 || p->max_tokens <= a->max_tokens)
		return true;
	return account_too_many("max_tokens", a->max_tokens, p->max_tokens, e);
}
