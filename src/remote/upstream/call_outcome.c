/*
 * call_outcome.c
 *	  How a call ended, and what that means for its request.
 *
 * The rule (docs/user/remote-models.md): no retry that could be charged twice, unless a retry is
 * harmless.  A call that the endpoint refused before it began to work (408, 425, 429, 503, 529), or
 * never saw, is free.  500 comes from the endpoint itself, and 502 and 504 come from a gateway whose
 * upstream may still be working: these count as charged, like a response that broke off or could not be
 * decoded.  A request whose client has got some of the output is never retried.  Neither is one whose
 * response was complete JSON that does not match the request: the same request would get the same
 * response.
 *
 * A 500, or a response that can't be decoded, counts against the path until something else shows that
 * the url is down.
 *
 * Tested by tests/unit/remote/upstream/test_remote_call_outcome.c.
 */
#include "remote/upstream/call_outcome.h"

/* Outcome of a status that isn't 2xx. */
static void
of_status(int status, bool again, CallOutcome *f)
{
	f->health = HEALTH_OK;
	switch (status)
	{
		case 429:
			f->throttled = f->spared = f->elsewhere = true;
			f->verdict = OUTCOME_RETRY;
			f->health = HEALTH_UNKNOWN;
			return;
		case 408:
		case 425:
			f->verdict = OUTCOME_RETRY;
			f->elsewhere = true;
			f->health = HEALTH_UNKNOWN;
			return;
		case 503:
		case 529:				/* used by providers: overloaded */
			f->verdict = OUTCOME_RETRY;
			f->elsewhere = true;
			f->health = HEALTH_BAD;
			return;
		case 501:
		case 505:
			f->elsewhere = true;
			return;
		case 400:
		case 413:
		case 422:
			f->split = true;
			return;
		case 401:
		case 403:
		case 404:
		case 407:
			f->elsewhere = true;
			return;
		default:
			break;
	}
	if (status >= 500)
	{
		f->charged = f->elsewhere = true;
		f->path = status == 500;
		f->health = f->path ? HEALTH_OK : HEALTH_BAD;
		f->verdict = again ? OUTCOME_RETRY : OUTCOME_ERROR;
	}
	else if (status >= 300 && status < 400)
		f->elsewhere = true;	/* a redirect, which is not followed */
}

CallOutcome
outcome(const EndedCall *c)
{
	const HttpResult *r = c->r;
	CallOutcome	f = {.verdict = OUTCOME_ERROR,.health = HEALTH_UNKNOWN};
	bool		again = c->idempotent;
	bool		answer = r->status >= 200 && r->status < 300;

	if (r->end == HTTP_NOT_SENT && !c->deadline)
	{
		f.health = HEALTH_BAD;
		f.elsewhere = f.spared = true;
		f.verdict = OUTCOME_RETRY;
	}
	else if (r->end == HTTP_NOT_SENT)
		f.elsewhere = true;
	else if (r->end == HTTP_REFUSED)
	{
		f.health = HEALTH_BAD;
		f.elsewhere = true;
	}
	/* an error status counts, whether its body was complete or not */
	else if (r->status > 0 && !answer)
		of_status(r->status, again, &f);
	else if (c->garbled)
	{
		f.charged = true;
		f.path = c->cls == ERR_PROTOCOL || c->cls == ERR_UNAVAILABLE;
		f.health = c->cls == ERR_CONNECTION ? HEALTH_BAD : HEALTH_OK;
		f.elsewhere = f.path || f.health == HEALTH_BAD;
		f.apart = again && !c->emitted && c->cls == ERR_PROTOCOL && c->whole;
		f.verdict = again && f.elsewhere && !(c->cls == ERR_PROTOCOL && c->whole) ? OUTCOME_RETRY :
			OUTCOME_ERROR;
	}
	else if (r->end == HTTP_DONE && answer)
	{
		f.verdict = OUTCOME_REPLY;
		f.health = HEALTH_OK;
	}
	else
	{
		f.charged = true;
		f.elsewhere = !c->deadline;
		f.health = c->deadline || r->end == HTTP_TOO_LARGE ? HEALTH_UNKNOWN : HEALTH_BAD;
		f.verdict = again && !c->deadline && r->end != HTTP_TOO_LARGE ? OUTCOME_RETRY : OUTCOME_ERROR;
	}
	if (c->emitted && f.verdict == OUTCOME_RETRY)
		f.verdict = OUTCOME_ERROR;
	if (r->retry_after_ms >= 0 && f.verdict == OUTCOME_RETRY && r->status == 503)
		f.spared = true;
	return f;
}
