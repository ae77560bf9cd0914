/*
 * request_limits.c
 *	  The caller and the limits of its role, from the message.
 *
 * The backend sends what its settings say; the role can't change these (src/pg/init/guc.c).  Checked again
 * here, as the arena is untrusted.  Tested by tests/t/097_limits.pl and tests/unit/core/sched/test_gate.c.
 */
#include "server/request/request_limits.h"

#include <limits.h>

static bool
take_int(const WireField *f, int64_t least, int64_t most, int *out, Err *e)
{
	if (f->i < least || f->i > most)
		return err_set(e, ERR_INTERNAL, "field \"%s\" must not be %lld", wire_tag_name(f->tag),
					   (long long) f->i);
	*out = (int) f->i;
	return true;
}

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
			return take_int(f, 1, ASKER_MAX_WEIGHT, &a->weight, e);
		case WTAG_ROLE_MAX_REQUESTS:
			return take_int(f, 0, INT_MAX, &a->max_requests, e);
		case WTAG_ROLE_TOKENS_PER_MINUTE:
			return take_int(f, 0, INT_MAX, &a->tokens_per_minute, e);
		case WTAG_ROLE_MAX_TOKENS:
			return take_int(f, 0, INT_MAX, &a->max_tokens, e);
		case WTAG_ROLE_LIMIT_WAIT:
			return take_int(f, -1, INT_MAX, &a->wait_ms, e);
		default:
			*known = false;
			return true;
	}
}

void
asker_put(const Caller *a, WireOut *o)
{
	wire_put_int(o, WTAG_LOGIN, (int64_t) a->role);
	wire_put_int(o, WTAG_BACKGROUND, a->background);
	wire_put_int(o, WTAG_ROLE_WEIGHT, a->weight > 0 ? a->weight : ASKER_WEIGHT);
	wire_put_int(o, WTAG_ROLE_MAX_REQUESTS, a->max_requests);
	wire_put_int(o, WTAG_ROLE_TOKENS_PER_MINUTE, a->tokens_per_minute);
	wire_put_int(o, WTAG_ROLE_MAX_TOKENS, a->max_tokens);
	wire_put_int(o, WTAG_ROLE_LIMIT_WAIT, a->wait_ms);
}

bool
asker_max_tokens(const Caller *a, const GenParams *p, uint64_t given, Err *e)
{
	if (a->max_tokens == 0 || (given & GP(MAX_TOKENS)) == 0 || p->max_tokens <= a->max_tokens)
		return true;
	err_set(e, ERR_INVALID, "max_tokens must be at most %d for this role, got %d", a->max_tokens,
			p->max_tokens);
	err_detail(e, "parameter=max_tokens, value=%d", p->max_tokens);
	return err_hint(e, "The limit is the role's setting vllm.role_max_tokens.");
}
