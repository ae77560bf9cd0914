/*
 * test_remote_load_balancer.c
 *	  Which url is called next, and circuit breakers.
 */
#include "remote/upstream/load_balancer.h"

#include <stdlib.h>

#include "tests/unit/check.h"

static int64_t now;
static const LbLimit *free_limits;

static int
choose(LoadBalancer *p, LbResult want)
{
	LbLimit		limits[8];
	int64_t		when;
	int			url = -1;
	LbResult	r;

	for (int i = 0; i < p->n; i++)
		limits[i] = free_limits != NULL ? free_limits[i] : (LbLimit) {now, now, 0};
	r = lb_choose(p, limits, -1, now, &when, &url);
	CHECK(r == want, "%d, not %d", r, want);
	return r == LB_OK ? url : (int) ((when - now) / 1000);
}

/* A call from its beginning to its end. */
static void
call(LoadBalancer *p, CallHealth h, int64_t latency)
{
	int			url = choose(p, LB_OK);
	bool		probe = lb_begin(p, url, now);

	now += latency > 0 ? latency : 1000;
	lb_end(p, url, probe, h, false, h == HEALTH_OK ? latency : -1, now);
}

static void
test_least(void)
{
	LoadBalancer p;
	int			seen[3] = {0};

	lb_init(&p, 3, 2);
	for (int i = 0; i < 6; i++)
	{
		int			url = choose(&p, LB_OK);

		lb_begin(&p, url, now);
		seen[url]++;
		CHECK(seen[url] == i / 3 + 1, "in turn");
	}
	choose(&p, LB_BUSY);
	lb_end(&p, 1, false, HEALTH_OK, false, 500, now);
	CHECK(choose(&p, LB_OK) == 1, "the one with a place");
	lb_end(&p, 0, false, HEALTH_OK, false, 100, now);
	lb_end(&p, 2, false, HEALTH_OK, false, 900, now);
	CHECK(choose(&p, LB_OK) == 0, "the fastest of equals");
	lb_end(&p, 2, false, HEALTH_OK, false, 900, now);
	CHECK(choose(&p, LB_OK) == 2, "the fewest come first");
	p.u[2].banned = true;
	CHECK(choose(&p, LB_OK) == 0, "not that");
	p.u[0].banned = p.u[1].banned = true;
	choose(&p, LB_BANNED);
	lb_free(&p);
}

/* Equal urls are called in turn, whatever happened before. */
static void
test_in_turn(void)
{
	LoadBalancer p;

	lb_init(&p, 3, 2);
	for (int i = 0; i < 9; i++)
	{
		int			url = choose(&p, LB_OK);

		CHECK(url == i % 3, "call %d: url %d", i, url);
		lb_begin(&p, url, now);
		lb_end(&p, url, false, HEALTH_OK, false, 100, now);
	}
	/* skipping one must not mean to take the first one again */
	p.u[1].banned = true;
	for (int i = 0; i < 6; i++)
	{
		int			url = choose(&p, LB_OK);

		CHECK(url == (i % 2 == 0 ? 0 : 2), "call %d without the second: url %d", i, url);
		lb_begin(&p, url, now);
		lb_end(&p, url, false, HEALTH_OK, false, 100, now);
	}
	lb_free(&p);
}

static void
test_breaker(void)
{
	LoadBalancer p;
	int64_t		open = 1000;

	lb_init(&p, 1, 10);
	for (int i = 0; i < LB_RUN - 1; i++)
		call(&p, HEALTH_BAD, 0);
	call(&p, HEALTH_UNKNOWN, 0);
	CHECK(p.u[0].health == WIRE_HEALTH_UNKNOWN, "not yet");
	call(&p, HEALTH_BAD, 0);
	CHECK(p.u[0].health == WIRE_HEALTH_DOWN, "open");
	/* a second, doubling up to 30 */
	for (int i = 0; i < 8; i++)
	{
		int			wait = choose(&p, open <= 5000 ? LB_LATER : LB_NEVER);

		CHECK(wait == open, "%d ms, not %d", wait, (int) open);
		now += open * 1000;
		call(&p, HEALTH_BAD, 1);
		now -= 1;
		CHECK(p.u[0].health == WIRE_HEALTH_DOWN, "open again");
		open = open * 2 > 30000 ? 30000 : open * 2;
		now = p.u[0].open_until_us - open * 1000;
	}
	now += open * 1000;
	call(&p, HEALTH_OK, 100);
	CHECK(p.u[0].health == WIRE_HEALTH_UP, "closed");
	/* earlier failures are forgotten */
	for (int i = 0; i < LB_RUN - 1; i++)
		call(&p, HEALTH_BAD, 0);
	CHECK(p.u[0].health == WIRE_HEALTH_UP, "closed");
	call(&p, HEALTH_BAD, 0);
	CHECK(choose(&p, LB_LATER) == 1000, "begins anew with a second");
	lb_free(&p);
	/* more than half of the last 20, none five in a row */
	lb_init(&p, 1, 10);
	for (int i = 0; i < 200; i++)
		call(&p, i % 2 ? HEALTH_BAD : HEALTH_OK, 100);
	CHECK(p.u[0].health == WIRE_HEALTH_UP, "half of them is not enough");
	for (int i = 0; i < 12 && p.u[0].health == WIRE_HEALTH_UP; i++)
		call(&p, i % 3 ? HEALTH_BAD : HEALTH_OK, 100);
	CHECK(p.u[0].health == WIRE_HEALTH_DOWN, "more is");
	lb_free(&p);
}

static void
open_it(LoadBalancer *p)
{
	for (int i = 0; i < LB_RUN; i++)
		call(p, HEALTH_BAD, 0);
	now = p->u[0].open_until_us;
}

static void
test_probe(void)
{
	LoadBalancer p;
	int64_t		when;
	int			url;

	lb_init(&p, 1, 10);
	CHECK(!lb_begin(&p, 0, now), "no probe");
	open_it(&p);
	CHECK(choose(&p, LB_OK) == 0 && lb_begin(&p, 0, now), "a probe");
	CHECK(choose(&p, LB_LATER) == 5000 && p.u[0].health == WIRE_HEALTH_TRYING, "only one");
	/* a call from before the breaker opened has no effect */
	lb_end(&p, 0, false, HEALTH_OK, false, 100, now);
	CHECK(p.u[0].health == WIRE_HEALTH_TRYING && p.u[0].probing, "still");
	lb_end(&p, 0, true, HEALTH_UNKNOWN, false, -1, now);
	CHECK(choose(&p, LB_OK) == 0 && lb_begin(&p, 0, now), "cancelled: another one");
	now += LB_MAX_WAIT_US;
	choose(&p, LB_NEVER);
	lb_end(&p, 0, true, HEALTH_UNKNOWN, true, -1, now);
	CHECK(p.u[0].health == WIRE_HEALTH_UP, "who says that it's too much is there");
	open_it(&p);
	lb_free(&p);
	/* meanwhile another url is used */
	lb_init(&p, 2, 10);
	for (int i = 0; i < LB_RUN; i++)
	{
		lb_begin(&p, 0, now);
		lb_end(&p, 0, false, HEALTH_BAD, false, -1, now);
	}
	for (int i = 0; i < 10; i++)
	{
		CHECK(choose(&p, LB_OK) == 1, "the one that works");
		lb_begin(&p, 1, now);
	}
	CHECK(choose(&p, LB_BUSY) == 1000, "a place there, or a second");
	lb_end(&p, 1, false, HEALTH_OK, false, 100, now);
	CHECK(lb_choose(&p, (LbLimit[2]) {{now, now, 0}, {now, now, 0}}, 1, now, &when, &url) == LB_OK &&
		  url == 1, "avoided, but there is no other");
	lb_free(&p);
}

/* A url that is down is not called until a health check has succeeded. */
static void
test_checks(void)
{
	LoadBalancer p;

	lb_init(&p, 1, 10);
	p.checks = true;
	CHECK(lb_check_at(&p, 0, 0) == INT64_MAX, "nothing to find out");
	open_it(&p);
	CHECK(lb_check_at(&p, 0, 0) == now, "due");
	choose(&p, LB_LATER);
	lb_check_begin(&p, 0, now);
	CHECK(lb_check_at(&p, 0, 0) == INT64_MAX, "one at a time");
	CHECK(choose(&p, LB_LATER) == 1000, "expected within a second");
	now += 1500000;
	CHECK(choose(&p, LB_LATER) == 3500, "at most five");
	lb_check_end(&p, 0, HEALTH_BAD, now);
	CHECK(p.u[0].health == WIRE_HEALTH_DOWN && choose(&p, LB_LATER) == 2000, "two seconds more");
	now += 2000000;
	lb_check_begin(&p, 0, now);
	lb_check_end(&p, 0, HEALTH_UNKNOWN, now);
	CHECK(lb_check_at(&p, 0, 0) == now + 1000000 && p.u[0].open_us == 2000000, "not at once again");
	now += 1000000;
	lb_check_begin(&p, 0, now);
	lb_check_end(&p, 0, HEALTH_OK, now);
	CHECK(p.u[0].health == WIRE_HEALTH_TRYING && lb_check_at(&p, 0, 0) == INT64_MAX, "half open");
	call(&p, HEALTH_BAD, 0);
	CHECK(p.u[0].health == WIRE_HEALTH_DOWN && p.u[0].open_us == 4000000, "its calls still fail: four");
	now = p.u[0].open_until_us;
	lb_check_begin(&p, 0, now);
	lb_check_end(&p, 0, HEALTH_OK, now);
	call(&p, HEALTH_OK, 100);
	CHECK(p.u[0].health == WIRE_HEALTH_UP, "closed");
	/* checks of idle urls */
	CHECK(lb_check_at(&p, 0, 7) == now + 7, "behind the last answer");
	lb_begin(&p, 0, now);
	CHECK(lb_check_at(&p, 0, 7) == INT64_MAX, "a call finds out");
	lb_end(&p, 0, false, HEALTH_OK, false, 100, now);
	lb_check_begin(&p, 0, now);
	lb_begin(&p, 0, now);
	lb_check_end(&p, 0, HEALTH_BAD, now + 5);
	CHECK(p.u[0].health == WIRE_HEALTH_UP, "a call may be what keeps it busy");
	lb_check_begin(&p, 0, now);
	lb_end(&p, 0, false, HEALTH_OK, false, 100, now + 1);
	lb_check_end(&p, 0, HEALTH_BAD, now + 5);
	CHECK(p.u[0].health == WIRE_HEALTH_UP, "it has answered meanwhile");
	lb_check_begin(&p, 0, now);
	for (int i = 0; i < LB_RUN; i++)
	{
		lb_begin(&p, 0, now);
		lb_end(&p, 0, false, HEALTH_BAD, false, -1, now);
	}
	lb_check_end(&p, 0, HEALTH_OK, now);
	CHECK(p.u[0].health == WIRE_HEALTH_DOWN && choose(&p, LB_LATER) == 1000, "began before that");
	now += 1000000;
	lb_check_begin(&p, 0, now);
	lb_check_end(&p, 0, HEALTH_OK, now);
	call(&p, HEALTH_OK, 100);
	now += 10;
	lb_check_begin(&p, 0, now);
	lb_check_end(&p, 0, HEALTH_BAD, now);
	CHECK(p.u[0].health == WIRE_HEALTH_DOWN && choose(&p, LB_LATER) == 1000, "one that fails opens it");
	p.u[0].banned = true;
	CHECK(lb_check_at(&p, 0, 7) == INT64_MAX, "not that host");
	lb_free(&p);
}

/* A slow probe. */
static void
test_slow_probe(void)
{
	LoadBalancer p;
	int64_t		began;

	lb_init(&p, 1, 10);
	p.checks = true;
	open_it(&p);
	for (int i = 0; i < 3; i++)
	{
		lb_check_begin(&p, 0, now);
		now += 1000;
		lb_check_end(&p, 0, HEALTH_OK, now);
		CHECK(choose(&p, LB_OK) == 0 && lb_begin(&p, 0, now), "a probe");
		choose(&p, LB_LATER);
		CHECK(lb_check_at(&p, 0, 0) == now + LB_PROBE_US, "is it still there?");
		now += LB_PROBE_US;
	}
	began = now;
	lb_check_begin(&p, 0, now);
	now += 3000000;
	lb_check_end(&p, 0, HEALTH_BAD, now);
	CHECK(p.u[0].health == WIRE_HEALTH_TRYING && p.u[0].probing && lb_check_at(&p, 0, 0) == began +
		  LB_PROBE_US, "not known");
	choose(&p, LB_NEVER);
	/* one of them succeeds, then the others are ordinary calls */
	lb_end(&p, 0, true, HEALTH_OK, false, 100, now);
	CHECK(p.u[0].health == WIRE_HEALTH_UP && p.u[0].in_flight == 2, "closed");
	lb_end(&p, 0, true, HEALTH_BAD, false, -1, now);
	CHECK(p.u[0].health == WIRE_HEALTH_UP && p.u[0].run == 1, "one failure");
	lb_end(&p, 0, true, HEALTH_OK, false, 100, now);
	/* or the first one that ends fails: the other one has no further effect */
	open_it(&p);
	for (int i = 0; i < 2; i++)
	{
		lb_check_begin(&p, 0, now);
		lb_check_end(&p, 0, HEALTH_OK, now);
		CHECK(lb_begin(&p, 0, now), "a probe");
		now += LB_PROBE_US;
	}
	lb_end(&p, 0, true, HEALTH_BAD, false, -1, now);
	CHECK(p.u[0].health == WIRE_HEALTH_DOWN && p.u[0].open_us == 2000000, "two seconds");
	lb_end(&p, 0, true, HEALTH_BAD, false, -1, now);
	CHECK(p.u[0].health == WIRE_HEALTH_DOWN && p.u[0].open_us == 2000000, "and no more");
	lb_free(&p);
}

static void
test_limits(void)
{
	LoadBalancer p;

	lb_init(&p, 2, 10);
	free_limits = (LbLimit[2]) {{now + 300000, now, 0}, {now, now + 200000, 0}};
	CHECK(choose(&p, LB_LATER) == 200, "the sooner one");
	free_limits = (LbLimit[2]) {{now + INT64_C(7200000000), now, 0}, {now, now + 61000000, 0}};
	CHECK(choose(&p, LB_LATER) == 7200000, "own limits are waited for");
	free_limits = (LbLimit[2]) {{now, now + 70000000, 0}, {now, now + 61000000, 0}};
	CHECK(choose(&p, LB_NEVER) == 61000, "an endpoint's for a minute");
	free_limits = (LbLimit[2]) {{now, now + 70000000, 0}, {now, INT64_MAX, 0}};
	choose(&p, LB_BUSY);
	free_limits = (LbLimit[2]) {{now, now, now + 4000000}, {now, now + 3000000, now + 1000000}};
	CHECK(choose(&p, LB_LATER) == 3000, "a path that is stopped");
	free_limits = (LbLimit[2]) {{now, now, now + 6000000}, {now, now, now + 7000000}};
	CHECK(choose(&p, LB_NEVER) == 6000, "... for longer than is waited");
	free_limits = (LbLimit[2]) {{now, now, now + 6000000}, {now, now, 0}};
	CHECK(choose(&p, LB_OK) == 1, "... there, and not here");
	free_limits = NULL;
	lb_free(&p);
}

/* The number of calls that an endpoint accepts is found without exceeding it often. */
static void
test_window(void)
{
	LoadBalancer p;
	int			refused = 0,
				answered = 0;

	lb_init(&p, 1, 64);
	for (int round = 0; round < 400; round++)
	{
		int			n = 0;

		while (p.u[0].in_flight < 64)
		{
			int64_t		when;
			int			url;

			if (lb_choose(&p, &(LbLimit) {now, now, 0}, -1, now, &when, &url) != LB_OK)
				break;
			lb_begin(&p, 0, now);
			n++;
		}
		CHECK(n > 0 && n <= p.u[0].window, "%d, %f", n, p.u[0].window);
		now += 500000;
		for (int i = 0; i < n; i++)
		{
			bool		ok = i < 10;

			refused += !ok;
			answered += ok;
			lb_end(&p, 0, false, ok ? HEALTH_OK : HEALTH_UNKNOWN, !ok, ok ? 500000 : -1, now);
		}
	}
	CHECK(answered > 400 * 7, "%d answers of 4,000", answered);
	CHECK(refused < answered / 10, "%d refused", refused);
	/* and it grows again */
	for (int i = 0; i < 4000; i++)
	{
		lb_begin(&p, 0, now);
		lb_end(&p, 0, false, HEALTH_OK, false, 100, now);
	}
	CHECK(p.u[0].window >= 64, "%f", p.u[0].window);
	lb_free(&p);
}

int
main(void)
{
	now = 1000000000;
	RUN(test_least());
	RUN(test_in_turn());
	RUN(test_breaker());
	RUN(test_probe());
	RUN(test_checks());
	RUN(test_slow_probe());
	RUN(test_limits());
	RUN(test_window());
	return check_done("test_remote_load_balancer");
}
