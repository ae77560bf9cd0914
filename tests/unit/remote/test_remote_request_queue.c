/*
 * test_remote_request_queue.c
 *	  The queue: order, fairness, and coalescing; against a slow model of it.
 */
#include "remote/request_queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tests/unit/check.h"

typedef struct Row
{
	QueueItem	item;			/* first member */
	int			kind;			/* requests of one kind may be coalesced */
	int			number;
	bool		waits;
} Row;

static uint64_t seed = 7;

static int
rnd(int n)
{
	seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (int) ((seed >> 33) % (uint64_t) n);
}

static bool
same(const QueueItem *a, const QueueItem *b)
{
	return ((const Row *) a)->kind == ((const Row *) b)->kind;
}

static Row
row(int login, int priority, int kind)
{
	return (Row) {.item = {.login = (uint32_t) login,.priority = priority,.can_join = kind > 0},.kind = kind};
}

static void
test_order(void)
{
	RequestQueue *g = rqueue_new(same, 8);
	Row			r[8] = {row(1, 0, 0), row(1, 0, 0), row(1, 0, 0), row(2, 0, 0), row(3, -1, 0), row(9, -5, 0),
						row(4, 7, 0), row(2, 0, 0)};
	static const int want[] = {6, 4, 0, 3, 1, 7, 2, 5};
	int64_t		when;
	QueueItem *v[8];

	r[5].item.background = true;
	r[6].item.first = true;
	for (int i = 0; i < 8; i++)
		rqueue_add(g, &r[i].item);
	for (int i = 0; i < 8; i++)
	{
		CHECK(rqueue_take(g, true, 0, v, &when) == 1, "one");
		CHECK(v[0] == &r[want[i]].item, "place %d: %d", i, (int) ((Row *) v[0] - r));
	}
	CHECK(rqueue_take(g, true, 0, v, &when) == 0 && when == INT64_MAX && rqueue_count(g) == 0, "empty");
	rqueue_free(g);
}

static void
test_waits(void)
{
	RequestQueue *g = rqueue_new(same, 3);
	Row			r[5] = {row(1, 0, 1), row(2, 0, 1), row(3, 0, 2), row(4, 0, 0), row(1, 0, 1)};
	int64_t		when;
	QueueItem *v[3];

	for (int i = 0; i < 5; i++)
		r[i].item.since_us = 1000 + 100 * i;
	rqueue_add(g, &r[0].item);
	CHECK(rqueue_take(g, false, 1500, v, &when) == 0 && when == 3000, "a moment: %lld", (long long) when);
	rqueue_add(g, &r[2].item);
	rqueue_add(g, &r[3].item);
	CHECK(rqueue_take(g, false, 1500, v, &when) == 1 && v[0] == &r[3].item, "who gathers not needn't wait");
	rqueue_add(g, &r[1].item);
	rqueue_add(g, &r[4].item);
	CHECK(rqueue_take(g, false, 1500, v, &when) == 3 && v[0] == &r[0].item && v[1] == &r[1].item &&
		  v[2] == &r[4].item, "full");
	CHECK(rqueue_take(g, false, 1500, v, &when) == 0 && when == 3200, "%lld", (long long) when);
	CHECK(rqueue_take(g, true, 1500, v, &when) == 1 && v[0] == &r[2].item, "nothing is under way");
	rqueue_add(g, &r[2].item);
	CHECK(rqueue_take(g, false, 3200, v, &when) == 1, "time is up");
	rqueue_add(g, &r[0].item);
	rqueue_add(g, &r[1].item);
	rqueue_remove(g, &r[0].item);
	CHECK(rqueue_take(g, false, 3100, v, &when) == 1 && v[0] == &r[1].item, "its own time");
	rqueue_free(g);
}

static int	n_each;

static void
each(void *ctx, QueueItem *it)
{
	n_each++;
	if (rnd(3) == 0)
	{
		((Row *) it)->waits = false;
		rqueue_remove(ctx, it);
	}
}

/* Which of these two comes first, ignoring the turns of logins? */
static bool
before(const Row *a, const Row *b)
{
	if (a->item.first != b->item.first)
		return a->item.first;
	if (a->item.background != b->item.background)
		return b->item.background;
	return a->item.priority < b->item.priority;
}

#define N_ROWS	300
#define MOST	5

static void
test_random(void)
{
	RequestQueue *g = rqueue_new(same, MOST);
	Row		   *r = mem_zalloc(N_ROWS * sizeof(*r));
	QueueItem *v[MOST];
	int			number = 0,
				waiting = 0,
				coalesced = 0;

	for (int step = 0; step < 200000; step++)
	{
		Row		   *x = &r[rnd(N_ROWS)];
		int64_t		when;
		int			what = rnd(100);
		int			sooner = 0,
					older = 0,
					left = 0;

		if (what < 50 && !x->waits)
		{
			*x = row(rnd(5), rnd(3), rnd(6));
			x->item.background = rnd(4) == 0;
			x->item.first = rnd(10) == 0;
			x->item.since_us = step;
			x->waits = true;
			x->number = number++;
			rqueue_add(g, &x->item);
			waiting++;
		}
		else if (what < 60 && x->waits)
		{
			rqueue_remove(g, &x->item);
			x->waits = false;
			waiting--;
		}
		else if (what == 60 && rnd(100) == 0)
		{
			n_each = 0;
			rqueue_each(g, each, g);
			CHECK(n_each == waiting, "each once: %d of %d", n_each, waiting);
			waiting = rqueue_count(g);
		}
		else if (what > 60)
		{
			int			n = rqueue_take(g, true, step, v, &when);
			const Row  *a = n > 0 ? (Row *) v[0] : NULL;

			CHECK((n > 0) == (waiting > 0) && n <= MOST, "%d of %d", n, waiting);
			for (int i = 0; i < n; i++)
			{
				Row		   *y = (Row *) v[i];

				CHECK(y->waits && y->kind == a->kind && (i == 0 || y->kind > 0), "together");
				y->waits = false;
			}
			waiting -= n;
			coalesced += n > 1;
			for (int i = 0; i < N_ROWS && n > 0; i++)
			{
				if (!r[i].waits)
					continue;
				sooner += before(&r[i], a);
				older += r[i].item.login == a->item.login && !before(a, &r[i]) && r[i].number < a->number;
				left += r[i].kind > 0 && r[i].kind == a->kind && n < MOST;
			}
			CHECK(sooner == 0, "somebody came sooner");
			CHECK(older == 0, "of one's own the oldest");
			CHECK(left == 0, "all that may go do");
		}
		CHECK(rqueue_count(g) == waiting, "%d, not %d", rqueue_count(g), waiting);
	}
	CHECK(coalesced > 1000, "%d", coalesced);
	while (rqueue_take(g, true, 0, v, &(int64_t) {0}) > 0)
		;
	rqueue_free(g);
	mem_free(r);
}

/* Each login gets the same, however much others request. */
static void
test_fair(void)
{
	RequestQueue *g = rqueue_new(same, 4);
	Row		   *r = mem_zalloc(1010 * sizeof(*r));
	QueueItem *v[4];
	int64_t		when;
	int			of_2 = 0;

	for (int i = 0; i < 1010; i++)
	{
		r[i] = row(i < 1000 ? 1 : 2, 0, 0);
		rqueue_add(g, &r[i].item);
	}
	for (int i = 0; i < 20; i++)
	{
		CHECK(rqueue_take(g, true, 0, v, &when) == 1, "one");
		of_2 += v[0]->login == 2;
	}
	CHECK(of_2 == 10, "%d of 20", of_2);
	while (rqueue_take(g, true, 0, v, &when) > 0)
		;
	rqueue_free(g);
	mem_free(r);
}

/* Logins with weights, whenever they arrive. */
static void
test_weights(void)
{
	RequestQueue *g = rqueue_new(same, 4);
	Row		   *r = mem_zalloc(3000 * sizeof(*r));
	QueueItem *v[4];
	int64_t		when;
	int			of[4] = {0};

	for (int i = 0; i < 2000; i++)
	{
		r[i] = row(1 + i % 2, 0, 0);
		r[i].item.weight = i % 2 ? 300 : 100;
		rqueue_add(g, &r[i].item);
	}
	for (int i = 0; i < 400; i++)
	{
		rqueue_take(g, true, 0, v, &when);
		of[v[0]->login]++;
	}
	CHECK(of[1] >= 99 && of[1] <= 101 && of[2] >= 299 && of[2] <= 301, "%d, %d", of[1], of[2]);
	/* a login that comes late doesn't catch up */
	for (int i = 2000; i < 3000; i++)
	{
		r[i] = row(3, 0, 0);
		r[i].item.weight = 100;
		rqueue_add(g, &r[i].item);
	}
	of[1] = of[2] = 0;
	for (int i = 0; i < 500; i++)
	{
		rqueue_take(g, true, 0, v, &when);
		of[v[0]->login]++;
	}
	CHECK(of[1] >= 98 && of[1] <= 102 && of[2] >= 298 && of[2] <= 302 && of[3] >= 98 && of[3] <= 102,
		  "%d, %d, %d", of[1], of[2], of[3]);
	while (rqueue_take(g, true, 0, v, &when) > 0)
		;
	rqueue_free(g);
	mem_free(r);
}

int
main(void)
{
	RUN(test_order());
	RUN(test_waits());
	RUN(test_random());
	RUN(test_fair());
	RUN(test_weights());
	return check_done("test_remote_request_queue");
}
