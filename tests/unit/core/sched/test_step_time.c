/*
 * test_step_time.c
 *	  The estimate of a step's time, learnt from earlier steps (step_time.c); and the map from ids to
 *	  requests.
 */
#include "core/core_internal.h"

#include <math.h>

#include "base/alloc.h"

#include "tests/unit/check.h"

static void
test_cost(void)
{
	Cost		c = {.attn_weight = 0};
	int			rows = 0;

	CHECK(isinf(cost_predict(&c, 1)) && cost_rows(&c, 0, 0, 100, 1e6) == 0, "knows before it has seen");

	/* a machine with 10 ms + 1 ms a row, a target of 250 ms: chunks grow to 240 rows */
	for (int i = 0; i < 20; i++)
	{
		rows = cost_rows(&c, 0, 0, 2048, 250000);
		rows = rows < 16 ? 16 : rows;
		CHECK(10000 + 1000 * rows <= 251000, "%d rows", rows);
		cost_learn(&c, rows, 10000 + 1000 * rows);
	}
	CHECK(rows >= 200, "chunks stay at %d rows", rows);
	/* an outlier is forgotten */
	cost_learn(&c, 240, 5e6);
	for (int i = 0; i < 30; i++)
	{
		rows = cost_rows(&c, 0, 0, 2048, 250000);
		cost_learn(&c, rows < 16 ? 16 : rows, 10000 + 1000 * rows);
	}
	CHECK(rows >= 200, "after an outlier chunks stay at %d rows", rows);
	/* the machine becomes four times slower */
	for (int i = 0; i < 60; i++)
	{
		rows = cost_rows(&c, 0, 0, 2048, 250000);
		rows = rows < 16 ? 16 : rows;
		cost_learn(&c, rows, 4 * (10000 + 1000 * rows));
	}
	CHECK(rows <= 60 && rows >= 40, "on the slower machine: %d rows", rows);
	c.attn_weight = 0.01;
	CHECK(cost_units(&c, 0, 1) < cost_units(&c, 1000, 1) && cost_rows(&c, 0, 5000, 2048, 250000) < rows,
		  "a row far back costs no more");
}

static void
test_idmap(void)
{
	IdMap		m = {0};
	char		values[500];
	uint8_t		in[500] = {0};
	uint32_t	x = 1;
	size_t		n = 0;
	int			bad = 0;

	for (int i = 0; i < 50000; i++)
	{
		uint32_t	k = (x = x * 1664525u + 1013904223u) >> 8;
		uint64_t	key;

		k %= 500;
		key = (uint64_t) k << (k % 3 * 20);
		if (x >> 31)
			idmap_put(&m, key, &values[k]);
		else
			idmap_del(&m, key);
		n = n + (x >> 31) - in[k] * (x >> 31) - in[k] * !(x >> 31);
		in[k] = x >> 31;
		if (m.n != n || idmap_get(&m, key) != (in[k] ? &values[k] : NULL))
			bad++;
	}
	for (uint32_t k = 0; k < 500; k++)
		bad += (idmap_get(&m, (uint64_t) k << (k % 3 * 20)) != NULL) != in[k];
	CHECK(bad == 0, "%d differences", bad);
	idmap_free(&m);
}

int
main(void)
{
	RUN(test_cost());
	RUN(test_idmap());
	return check_done("step_time");
}
