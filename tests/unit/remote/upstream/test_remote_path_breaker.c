/*
 * test_remote_path_breaker.c
 *	  Circuit breakers of a url's paths.
 */
#include <stdio.h>
#include <string.h>

#include "remote/upstream/path_breaker.h"
#include "remote/upstream/load_balancer.h"

#include "tests/unit/check.h"

static int64_t now = 1000000000;

static void
fail(Paths *p, uint64_t key, int times)
{
	for (int i = 0; i < times; i++)
	{
		paths_end(p, key, "status 500", now, now + 10);
		now += 10;
	}
}

static void
test_run(void)
{
	Paths		p = {0};
	uint64_t	k = paths_key("/embeddings", 2);
	uint64_t	other = paths_key("/completions", 0);

	CHECK(k != other && other != paths_key("/completions", 9), "keys");
	fail(&p, k, LB_RUN - 1);
	CHECK(paths_open_us(&p, k) == 0 && paths_error(&p, k, now) == NULL, "not yet");
	paths_end(&p, k, NULL, now, now);
	fail(&p, k, LB_RUN - 1);
	CHECK(paths_open_us(&p, k) <= now, "in a row");
	fail(&p, k, 1);
	CHECK(paths_open_us(&p, k) == now + 1000000, "a second");
	CHECK(paths_open_us(&p, other) == 0 && paths_error(&p, other, now) == NULL, "that one alone");
	CHECK(strcmp(paths_error(&p, k, now), "status 500") == 0, "why");
	/* failures of calls that were running before */
	fail(&p, k, 30);
	CHECK(paths_open_us(&p, k) <= now + 1000000 && paths_open_us(&p, k) > now, "say nothing");
	for (int i = 1; i < 8; i++)
	{
		int64_t		want = (int64_t) 1000000 << i;

		now = paths_open_us(&p, k);
		CHECK(paths_error(&p, k, now) == NULL, "tried again");
		/* 20 at once */
		for (int j = 0; j < 20; j++)
			paths_end(&p, k, "x", now, now + 5);
		CHECK(paths_open_us(&p, k) - now - 5 == (want > 30000000 ? 30000000 : want), "%lld",
			  (long long) (paths_open_us(&p, k) - now));
	}
	paths_end(&p, k, NULL, now, now);
	CHECK(paths_open_us(&p, k) == 0, "it works");
	fail(&p, k, LB_RUN);
	CHECK(paths_open_us(&p, k) == now + 1000000, "begins anew");
}

static void
test_many(void)
{
	Paths		p = {0};

	for (int i = 0; i < 100; i++)
	{
		char		path[20];

		snprintf(path, sizeof(path), "/p%d", i);
		fail(&p, paths_key(path, 1), LB_RUN);
		CHECK(paths_open_us(&p, paths_key(path, 1)) > now, "%s", path);
		if (i >= PATHS_MOST)
		{
			snprintf(path, sizeof(path), "/p%d", i - PATHS_MOST);
			CHECK(paths_open_us(&p, paths_key(path, 1)) == 0, "the oldest is forgotten: %s", path);
			snprintf(path, sizeof(path), "/p%d", i - PATHS_MOST + 1);
			CHECK(paths_open_us(&p, paths_key(path, 1)) > now, "and no other: %s", path);
		}
	}
}

int
main(void)
{
	RUN(test_run());
	RUN(test_many());
	return check_done("test_remote_path_breaker");
}
