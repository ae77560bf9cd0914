/*
 * test_remote_rate.c
 *	  Rate limits: in no minute more than the limit, and little less if there is always work; and the
 *	  limits that endpoints report.
 */
#include "remote/upstream/rate_limiter.h"

#include <string.h>

#include "tests/unit/check.h"

static uint64_t seed = 1;

static int64_t
rnd(int64_t n)
{
	seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (int64_t) ((seed >> 33) % (uint64_t) n);
}

/* A call whenever one may be made, or with pauses: the last `limit` of them took at least a minute. */
static void
test_requests(int limit, bool pauses)
{
	Rate		r;
	int64_t		now = 1000000;
	int64_t		start = now;
	int64_t    *at = calloc((size_t) limit, sizeof(*at));
	int			n = 0;

	rate_init(&r, limit, 0);
	while (now < start + INT64_C(600000000))
	{
		int64_t		when = rate_own_us(&r, 10, now);

		if (when > now)
		{
			CHECK(rate_own_us(&r, 10, when) <= when, "it keeps its word");
			now = when;
			continue;
		}
		CHECK(n < limit || now - at[n % limit] >= 60000000, "%d in less than a minute: %lld", limit,
			  (long long) (now - at[n % limit]));
		at[n++ % limit] = now;
		rate_begin(&r, 10, now);
		rate_end(&r, 10, 10);
		if (pauses)
			now += rnd(rnd(10) == 0 ? 20000000 : 100000);
	}
	if (!pauses)
		CHECK(n >= limit * 10 * 85 / 100 || n >= limit * 10 - 11, "%d of %d in ten minutes", n, limit * 10);
	free(at);
}

static void
test_tokens(void)
{
	Rate		r;
	int64_t		now = 1000000;
	int64_t		used = 0;

	rate_init(&r, 0, 60000);
	for (int64_t start = now; now < start + INT64_C(1200000000);)
	{
		int64_t		estimate = 1 + rnd(3000);
		int64_t		when = rate_own_us(&r, estimate, now);

		if (when > now)
		{
			now = when;
			continue;
		}
		rate_begin(&r, estimate, now);
		/* outputs are longer than estimated */
		rate_end(&r, estimate, estimate * 2);
		used += estimate * 2;
	}
	CHECK(used > 20 * 50000 && used < 20 * 60000, "%lld in 20 minutes", (long long) used);
	CHECK(r.tokens_in_flight == 0, "none");
	/* a request larger than the bucket starts when it is full, and its debt is paid off */
	rate_init(&r, 0, 600);
	CHECK(rate_own_us(&r, 100000, now) == now, "at once");
	rate_begin(&r, 660, now);
	CHECK(rate_own_us(&r, 1, now) > now + 66000000 && rate_own_us(&r, 1, now) < now + 67000000, "%lld",
		  (long long) (rate_own_us(&r, 1, now) - now));
	rate_end(&r, 660, 60);
	CHECK(rate_own_us(&r, 1, now) < now + 1000000, "it was less after all");
	rate_end(&r, 0, -1);
	/* the debt of tokens that were never reported must not last for weeks */
	rate_init(&r, 0, 600);
	rate_begin(&r, INT64_C(1000000000000), now);
	CHECK(rate_own_us(&r, 1, now) < now + 67000000, "%lld", (long long) (rate_own_us(&r, 1, now) - now));
	rate_end(&r, INT64_C(1000000000000), -1);
	CHECK(rate_own_us(&r, 1, now) > now + 66000000 && rate_own_us(&r, 1, now) < now + 67000000, "%lld",
		  (long long) (rate_own_us(&r, 1, now) - now));
	rate_begin(&r, INT64_C(1000000000000), now + 67000000);
	rate_end(&r, INT64_C(1000000000000), 1);
	CHECK(rate_own_us(&r, 1, now + 67000000) < now + 68000000, "it was one token");
	rate_begin(&r, 1, now + 80000000);
	rate_end(&r, 1, 6000);
	CHECK(rate_own_us(&r, 1, now + 80000000) > now + 600000000, "what is known counts");
	rate_init(&r, 0, 0);
	for (int i = 0; i < 1000; i++)
	{
		CHECK(rate_own_us(&r, 1000000000, now) == now, "no limit");
		rate_begin(&r, 1000000000, now);
	}
}

static HttpResult
said(int status, int64_t retry_after_ms, int64_t requests, int64_t requests_ms, int64_t tokens,
	 int64_t tokens_ms)
{
	return (HttpResult) {
		.status = status,.retry_after_ms = retry_after_ms,.remaining_requests = requests,
			.reset_requests_ms = requests_ms,
		.remaining_tokens = tokens,.reset_tokens_ms = tokens_ms,.limit_requests = -1,.limit_tokens = -1
	};
}

static void
test_said(void)
{
	Rate		r;
	int64_t		now = 1000000;
	HttpResult	h = said(200, -1, -1, -1, -1, -1);

	rate_init(&r, 0, 0);
	rate_reported(&r, &h, now);
	CHECK(rate_said_us(&r, 100, 50, now) == now, "nothing was said");
	h = said(429, 5000, -1, -1, -1, -1);
	rate_reported(&r, &h, now);
	CHECK(rate_said_us(&r, 1, 0, now) == now + 5000000, "Retry-After");
	h = said(429, 1000, -1, -1, -1, -1);
	rate_reported(&r, &h, now);
	CHECK(rate_said_us(&r, 1, 0, now) == now + 5000000, "the longer one holds");
	CHECK(rate_said_us(&r, 1, 0, now + 5000000) == now + 5000000, "until then");
	rate_init(&r, 0, 0);
	h = said(200, 5000, -1, -1, -1, -1);
	rate_reported(&r, &h, now);
	CHECK(rate_said_us(&r, 1, 0, now) == now, "of an answer it means nothing");
	h = said(200, -1, 3, 2000, -1, -1);
	rate_reported(&r, &h, now);
	CHECK(rate_said_us(&r, 1, 2, now) == now, "one more");
	CHECK(rate_said_us(&r, 1, 3, now) == INT64_MAX, "not before one has ended");
	CHECK(rate_said_us(&r, 1, 3, now + 2000000) == now + 2000000, "then it is over");
	h = said(200, -1, 0, 2000, -1, -1);
	rate_reported(&r, &h, now);
	CHECK(rate_said_us(&r, 1, 0, now) == now + 2000000, "none");
	h = said(200, -1, 0, -1, -1, -1);
	rate_reported(&r, &h, now);
	CHECK(rate_said_us(&r, 1, 0, now) == now + 1000000, "none, and not until when: a second");
	h = said(200, -1, 0, INT64_MAX, -1, -1);
	rate_reported(&r, &h, now);
	CHECK(rate_said_us(&r, 1, 0, now) > now && rate_said_us(&r, 1, 0, now) < now + INT64_C(90000000000),
		  "nonsense");
	rate_init(&r, 0, 0);
	h = said(200, -1, -1, -1, 100, 3000);
	rate_reported(&r, &h, now);
	CHECK(rate_said_us(&r, 100, 0, now) == now && rate_said_us(&r, 101, 0, now) == now + 3000000, "tokens");
	rate_begin(&r, 60, now);
	CHECK(rate_said_us(&r, 40, 1, now) == now && rate_said_us(&r, 41, 1, now) == INT64_MAX,
		  "those under way count");
	rate_end(&r, 60, -1);
	CHECK(rate_said_us(&r, 100, 0, now) == now, "it has ended");
}

int
main(void)
{
	static const int limits[] = {1, 2, 3, 9, 10, 11, 60, 99, 600, 6000};

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
	{
		RUN(test_requests(limits[i], false));
		RUN(test_requests(limits[i], true));
	}
	RUN(test_tokens());
	RUN(test_said());
	return check_done("test_remote_rate");
}
