/*
 * test_remote_call_outcome.c
 *	  The retry rule (docs/user/remote-models.md): each end of a call, and invariants of all of them.
 */
#include "remote/upstream/call_outcome.h"

#include "tests/unit/check.h"

static CallOutcome
ended(HttpEnd end, int status, bool idempotent, bool emitted, bool garbled, bool deadline)
{
	HttpResult	r = {.end = end,.status = status,.retry_after_ms = -1};

	return outcome(&(EndedCall) {.r = &r,.idempotent = idempotent,.emitted = emitted,.garbled = garbled,
								 .cls = garbled ? ERR_PROTOCOL : ERR_NONE,.deadline = deadline});
}

/* The rule: a = free, always retried; i = only if idempotent (and it counts as charged); n = never. */
static void
test_rule(void)
{
	static const struct
	{
		HttpEnd		end;
		int			status;
		char		again;
		CallHealth	health;
	}			cases[] = {
		{HTTP_NOT_SENT, 0, 'a', HEALTH_BAD}, {HTTP_CUT, 0, 'i', HEALTH_BAD},
		{HTTP_CUT, 200, 'i', HEALTH_BAD}, {HTTP_LATE, 0, 'i', HEALTH_BAD},
		{HTTP_LATE, 200, 'i', HEALTH_BAD}, {HTTP_REFUSED, 0, 'n', HEALTH_BAD},
		{HTTP_TOO_LARGE, 200, 'x', HEALTH_UNKNOWN},
		{HTTP_DONE, 408, 'a', HEALTH_UNKNOWN}, {HTTP_DONE, 425, 'a', HEALTH_UNKNOWN},
		{HTTP_DONE, 429, 'a', HEALTH_UNKNOWN},
		{HTTP_DONE, 503, 'a', HEALTH_BAD}, {HTTP_DONE, 529, 'a', HEALTH_BAD},
		{HTTP_DONE, 500, 'i', HEALTH_OK}, {HTTP_DONE, 502, 'i', HEALTH_BAD},
		{HTTP_DONE, 504, 'i', HEALTH_BAD}, {HTTP_DONE, 520, 'i', HEALTH_BAD},
		{HTTP_DONE, 501, 'n', HEALTH_OK}, {HTTP_DONE, 505, 'n', HEALTH_OK},
		{HTTP_DONE, 400, 'n', HEALTH_OK}, {HTTP_DONE, 401, 'n', HEALTH_OK},
		{HTTP_DONE, 403, 'n', HEALTH_OK}, {HTTP_DONE, 404, 'n', HEALTH_OK},
		{HTTP_DONE, 409, 'n', HEALTH_OK}, {HTTP_DONE, 413, 'n', HEALTH_OK},
		{HTTP_DONE, 418, 'n', HEALTH_OK}, {HTTP_DONE, 422, 'n', HEALTH_OK},
		{HTTP_DONE, 301, 'n', HEALTH_OK}, {HTTP_DONE, 307, 'n', HEALTH_OK},
		/* an error whose text broke off counts as that error */
		{HTTP_CUT, 429, 'a', HEALTH_UNKNOWN}, {HTTP_CUT, 400, 'n', HEALTH_OK},
		{HTTP_LATE, 503, 'a', HEALTH_BAD},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (int again = 0; again < 2; again++)
		{
			CallOutcome	f = ended(cases[i].end, cases[i].status, again, false, false, false);
			bool		want = cases[i].again == 'a' || (cases[i].again == 'i' && again);

			CHECK(f.verdict == (want ? OUTCOME_RETRY : OUTCOME_ERROR), "%d %d: %d", cases[i].end,
				  cases[i].status, f.verdict);
			CHECK(f.charged == (cases[i].again == 'i' || cases[i].again == 'x'), "%d %d: charged %d",
				  cases[i].end, cases[i].status, f.charged);
			CHECK(f.health == cases[i].health, "%d %d: health %d", cases[i].end, cases[i].status, f.health);
			CHECK(f.path == (cases[i].status == 500), "%d %d: path %d", cases[i].end, cases[i].status,
				  f.path);
			CHECK(f.throttled == (cases[i].status == 429), "%d", cases[i].status);
		}
	for (int status = 200; status < 300; status++)
	{
		CHECK(ended(HTTP_DONE, status, false, true, false, false).verdict == OUTCOME_REPLY, "%d", status);
		CHECK(ended(HTTP_DONE, status, true, false, true, false).verdict == OUTCOME_RETRY, "garbage, %d",
			  status);
		CHECK(ended(HTTP_DONE, status, false, false, true, false).verdict == OUTCOME_ERROR, "garbage, %d",
			  status);
		CHECK(ended(HTTP_CUT, status, false, false, true, false).charged, "garbage, %d", status);
	}
}

/* Invariants over all combinations. */
static void
test_always(void)
{
	for (int end = HTTP_DONE; end <= HTTP_TOO_LARGE; end++)
		for (int status = 0; status < 600; status++)
			for (int bits = 0; bits < 16; bits++)
			{
				bool		idempotent = bits & 1;
				bool		emitted = bits & 2;
				bool		garbled = bits & 4;
				bool		deadline = bits & 8;
				CallOutcome	f;

				if ((status > 0 && status < 200) ||
					(status > 0 && (end == HTTP_NOT_SENT || end == HTTP_REFUSED)))
					continue;
				f = ended((HttpEnd) end, status, idempotent, emitted, garbled, deadline);
				if (f.verdict == OUTCOME_RETRY)
				{
					CHECK(!emitted, "what was heard is not asked again: %d %d", end, status);
					CHECK(!f.charged || idempotent, "what may be charged twice: %d %d", end, status);
				}
				if (f.verdict == OUTCOME_REPLY)
					CHECK(end == HTTP_DONE && status >= 200 && status < 300 && !garbled && !f.charged,
						  "%d %d", end, status);
				if (end != HTTP_NOT_SENT && end != HTTP_REFUSED &&
					(status == 0 || (status >= 200 && status < 300)))
					CHECK(f.charged || f.verdict == OUTCOME_REPLY,
						  "sent, and no status that says no: %d %d", end, status);
				CHECK(!f.split || (f.verdict == OUTCOME_ERROR && !f.charged), "%d %d", end, status);
				CHECK(!f.spared || status == 429 || status == 503 || end == HTTP_NOT_SENT, "%d", status);
			}
}

static void
test_more(void)
{
	HttpResult	r = {.end = HTTP_DONE,.status = 503,.retry_after_ms = 1000};
	EndedCall	k = {.r = &r};

	CHECK(outcome(&k).spared, "who says when is believed");
	r.retry_after_ms = -1;
	CHECK(!outcome(&k).spared, "and else it's the budget's");
	r = (HttpResult) {.end = HTTP_DONE,.status = 200,.retry_after_ms = -1};
	k = (EndedCall) {.r = &r,.garbled = true,.cls = ERR_INVALID,.idempotent = true};
	CHECK(outcome(&k).verdict == OUTCOME_ERROR && !outcome(&k).elsewhere && outcome(&k).health == HEALTH_OK,
		  "a stream that says that the request is bad");
	k.cls = ERR_PROTOCOL;
	CHECK(outcome(&k).verdict == OUTCOME_RETRY && outcome(&k).path && outcome(&k).health == HEALTH_OK,
		  "what is garbled is the path's, and asked again");
	k.whole = true;
	CHECK(outcome(&k).verdict == OUTCOME_ERROR && outcome(&k).path && outcome(&k).elsewhere &&
		  outcome(&k).charged, "what is JSON isn't asked again");
	k.whole = false;
	k.cls = ERR_CONNECTION;
	CHECK(outcome(&k).health == HEALTH_BAD && !outcome(&k).path, "what has lost its own connection");
	k.cls = ERR_UNAVAILABLE;
	CHECK(outcome(&k).verdict == OUTCOME_RETRY && outcome(&k).elsewhere, "... or that it is overloaded");
	CHECK(ended(HTTP_LATE, 0, true, false, false, true).verdict == OUTCOME_ERROR, "the request's time is up");
	CHECK(ended(HTTP_LATE, 0, true, false, false, true).health == HEALTH_UNKNOWN,
		  "which says nothing of the url");
	for (int status = 400; status < 600; status++)
	{
		CallOutcome	f = ended(HTTP_DONE, status, false, false, false, false);

		CHECK(f.split == (status == 400 || status == 413 || status == 422), "%d", status);
		CHECK(!f.split || !f.elsewhere, "%d", status);
	}
}

int
main(void)
{
	RUN(test_rule());
	RUN(test_always());
	RUN(test_more());
	return check_done("test_remote_call_outcome");
}
