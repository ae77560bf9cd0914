/*
 * test_block_pool.c
 *	  The block pool: order of reuse, limits, damage detected by kvpool_check(), and 10^5 random
 *	  operations against a naive model (an array as the free list, and an array of counts).
 */
#include "core/kv/block_pool.h"

#include <string.h>

#include "tests/unit/check_abort.h"

#define BLOCKS 40				/* usable blocks in the model test */

static void
test_order(void)
{
	KvPool	   *p = kvpool_new(6);
	int32_t		b[5];
	Err			e;

	CHECK(kvpool_total(p) == 5 && kvpool_available(p) == 5, "%d of %d", kvpool_available(p), kvpool_total(p));
	CHECK(kvpool_alloc(p, 3, b) && b[0] == 1 && b[1] == 2 && b[2] == 3, "got %d %d %d", b[0], b[1], b[2]);
	CHECK(!kvpool_alloc(p, 3, b), "3 of 2 free blocks");
	CHECK(kvpool_available(p) == 2, "a refused allocation keeps all: %d", kvpool_available(p));

	/* freed in the order 3, 1: reused after 4 and 5, in that order */
	kvpool_unref(p, 3);
	kvpool_unref(p, 1);
	CHECK(kvpool_alloc(p, 4, b) && b[0] == 4 && b[1] == 5 && b[2] == 3 && b[3] == 1,
		  "got %d %d %d %d", b[0], b[1], b[2], b[3]);
	CHECK(kvpool_available(p) == 0 && kvpool_alloc(p, 0, b), "none left, none wanted");

	/* a second reference keeps a block; reusing a free block removes it from the list */
	kvpool_ref(p, 4);
	kvpool_unref(p, 4);
	CHECK(kvpool_refs(p, 4) == 1 && kvpool_available(p) == 0, "refs %d", kvpool_refs(p, 4));
	kvpool_unref(p, 4);
	kvpool_unref(p, 5);
	kvpool_ref(p, 5);
	CHECK(kvpool_available(p) == 1 && kvpool_refs(p, 5) == 1, "available %d", kvpool_available(p));
	CHECK(kvpool_check(p, &e), "%s", e.msg);
	kvpool_free(p);
}

static void
test_damage(void)
{
	KvPool	   *p = kvpool_new(4);
	int32_t		b[3];
	Err			e = {0};

	kvpool_alloc(p, 2, b);
	kvpool_unref(p, b[0]);
	CHECK_ABORTS(kvpool_unref(p, b[0]), "refs > 0");	/* once too often */
	CHECK_ABORTS(kvpool_ref(p, 4), "block < p->n_blocks");
	CHECK_ABORTS(kvpool_ref(p, 0), "block > NULL_BLOCK");
	CHECK(kvpool_check(p, &e), "%s", e.msg);
	kvpool_free(p);
}

static void
count_lost(void *ctx, int32_t block)
{
	(void) block;
	++*(int *) ctx;
}

/* Pages are taken from what was not used for the longest time: windows as well as blocks. */
static void
test_oldest(void)
{
	for (int block_first = 0; block_first < 2; block_first++)
	{
		KvPool	   *p = kvpool_new_windows(7, 6, 1, 1);
		int32_t		b[3];
		int32_t		more;
		int			lost = 0;
		Err			e = {0};

		kvpool_on_lost(p, count_lost, &lost);
		CHECK(kvpool_alloc(p, 3, b) && kvpool_pages_available(p) == 0, "all pages");
		if (!block_first)
			kvpool_window_unref(p, b[1]);
		kvpool_window_unref(p, b[0]);
		kvpool_unref(p, b[0]);
		if (block_first)
			kvpool_window_unref(p, b[1]);
		CHECK(kvpool_alloc(p, 1, &more) && kvpool_check(p, &e), "%s", e.msg);
		CHECK(lost == block_first && kvpool_has_window(p, b[1]) == block_first,
			  "the %s first: %d blocks lost, the window is %s", block_first ? "block" : "window", lost,
			  kvpool_has_window(p, b[1]) ? "there" : "gone");
		kvpool_free(p);
	}
}

/* ---- the model test ---- */

static uint32_t rnd_state = 12345;

static uint32_t
rnd(uint32_t n)
{
	rnd_state = rnd_state * 1664525u + 1013904223u;
	return (rnd_state >> 8) % n;
}

typedef struct Naive
{
	int32_t		list[BLOCKS];	/* free blocks, the next one to be used first */
	int			n;
	int			refs[BLOCKS + 1];
} Naive;

static void
naive_drop(Naive *m, int at)
{
	m->n--;
	memmove(m->list + at, m->list + at + 1, (size_t) (m->n - at) * sizeof(int32_t));
}

static bool
random_alloc(KvPool *p, Naive *m)
{
	int			n = (int) rnd(6);
	int32_t		out[6];
	bool		ok = kvpool_alloc(p, n, out);

	if (ok != (n <= m->n))
		return false;
	for (int i = 0; ok && i < n; i++)
	{
		if (out[i] != m->list[0])
			return false;
		m->refs[out[i]] = 1;
		naive_drop(m, 0);
	}
	return true;
}

static void
random_ref(KvPool *p, Naive *m, int32_t b)
{
	kvpool_ref(p, b);
	if (m->refs[b]++ > 0)
		return;
	for (int i = 0; i < m->n; i++)
		if (m->list[i] == b)
		{
			naive_drop(m, i);
			break;
		}
}

static void
random_unref(KvPool *p, Naive *m, int32_t b)
{
	if (m->refs[b] == 0)
		return;
	kvpool_unref(p, b);
	if (--m->refs[b] == 0)
		m->list[m->n++] = b;
}

static bool
same(const KvPool *p, const Naive *m)
{
	if (kvpool_available(p) != m->n)
		return false;
	for (int32_t b = 1; b <= BLOCKS; b++)
		if (kvpool_refs(p, b) != m->refs[b])
			return false;
	return true;
}

static void
test_model(void)
{
	KvPool	   *p = kvpool_new(BLOCKS + 1);
	Naive		m = {0};
	int			bad = 0;
	Err			e = {0};

	for (int32_t b = 1; b <= BLOCKS; b++)
		m.list[m.n++] = b;
	for (int i = 0; i < 100000 && bad == 0; i++)
	{
		int32_t		b = 1 + (int32_t) rnd(BLOCKS);

		switch (rnd(8))
		{
			case 0:
			case 1:
				bad += !random_alloc(p, &m);
				break;
			case 2:
				random_ref(p, &m, b);
				break;
			default:
				random_unref(p, &m, b);
		}
		bad += !same(p, &m) || !kvpool_check(p, &e);
	}
	CHECK(bad == 0, "pool and model differ: %s", e.msg);
	kvpool_free(p);
}

int
main(void)
{
	RUN(test_order());
	RUN(test_damage());
	RUN(test_oldest());
	RUN(test_model());
	return check_done("test_block_pool");
}
