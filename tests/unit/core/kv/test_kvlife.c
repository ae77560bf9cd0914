/*
 * test_kvlife.c
 *	  Histograms of the lives of blocks: 10^5 random events against a naive model that records every hit,
 *	  and the sampling of blocks.
 */
#include "core/kv/block_lifetime.h"

#include <string.h>

#include "base/clock.h"

#include "tests/unit/check.h"

#define BLOCKS	50
#define FINDS	100000

static int64_t
count(const WireHist *h)
{
	int64_t		n = 0;

	for (int i = 0; i < WIRE_HIST_BUCKETS; i++)
		n += h->count[i];
	return n;
}

/* A block: how often it was hit, and bounds of the times when it was allocated, and last hit. */
typedef struct Naive
{
	bool		lives;
	int			found;
	int64_t		begun[2];
	int64_t		last[2];
} Naive;

static Naive naive[BLOCKS];
static int64_t lives,
			gaps,
			life[2],
			idle[2];

static void
naive_ends(int b, const int64_t *now)
{
	Naive	   *n = &naive[b];

	if (!n->lives)
		return;
	lives++;
	gaps += n->found > 4 ? 3 : n->found > 1 ? n->found - 1 : 0;
	/* lower and upper bound */
	life[0] += now[0] - n->begun[1];
	life[1] += now[1] - n->begun[0];
	idle[0] += now[0] - n->last[1];
	idle[1] += now[1] - n->last[0];
	n->lives = false;
}

static void
test_random(void)
{
	WireHist	h[WIRE_N_KV_HISTS] = {0};
	KvLife	   *l = kvlife_new(BLOCKS, 1000000, h);
	uint32_t	r = 1;

	for (int i = 0; i < FINDS; i++)
	{
		int			b = (int) ((r = r * 1664525 + 1013904223) >> 16) % BLOCKS;
		int			what = (int) ((r = r * 1664525 + 1013904223) >> 16) % 100;
		int64_t		now[2] = {clock_us()};

		if (what < 30)
			kvlife_taken(l, b);
		else if (what < 95)
			kvlife_found(l, b);
		else if (what < 99)
			kvlife_lost(l, b);
		else if (i % 50 == 0)
			kvlife_forget(l);
		now[1] = clock_us();
		if (what < 30 || (what >= 95 && what < 99))
			naive_ends(b, now);
		if (what < 30)
			naive[b] = (Naive) {true, 0, {now[0], now[1]}, {now[0], now[1]}};
		else if (what < 95)
		{
			naive[b].found++;
			memcpy(naive[b].last, now, sizeof(now));
		}
		else if (what == 99 && i % 50 == 0)
			memset(naive, 0, sizeof(naive));
	}
	CHECK(lives > FINDS / 5 && gaps > 1000, "%lld lives, %lld gaps", (long long) lives, (long long) gaps);
	CHECK(count(&h[0]) == lives && count(&h[1]) == lives && count(&h[2]) == gaps,
		  "%lld lives, %lld gaps, not %lld and %lld", (long long) count(&h[0]), (long long) count(&h[2]),
		  (long long) lives, (long long) gaps);
	CHECK(h[0].sum >= life[0] && h[0].sum <= life[1], "lived %lld us, not %lld to %lld", (long long) h[0].sum,
		  (long long) life[0], (long long) life[1]);
	CHECK(h[1].sum >= idle[0] && h[1].sum <= idle[1], "idle %lld us, not %lld to %lld", (long long) h[1].sum,
		  (long long) idle[0], (long long) idle[1]);
	CHECK(h[2].sum >= 0 && h[1].sum + h[2].sum <= life[1], "gaps of %lld us", (long long) h[2].sum);
	kvlife_free(l);
}

static void
test_sample(void)
{
	static const int samples[] = {0, 1000, 10000, 500000, 1000000};

	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++)
	{
		WireHist	h[WIRE_N_KV_HISTS] = {0};
		KvLife	   *l = kvlife_new(8, samples[i], h);
		double		want = (double) samples[i];

		for (int k = 0; k < 1000000; k++)
			kvlife_taken(l, k % 8);
		for (int b = 0; b < 8; b++)
			kvlife_lost(l, b);
		CHECK((double) count(&h[0]) >= 0.9 * want && (double) count(&h[0]) <= 1.1 * want,
			  "%lld of a million, not %d", (long long) count(&h[0]), samples[i]);
		CHECK(count(&h[2]) == 0, "nobody has found one");
		kvlife_free(l);
	}
}

int
main(void)
{
	RUN(test_random());
	RUN(test_sample());
	return check_done("test_kvlife");
}
