/*
 * test_model_scheduler.c
 *	  Which model computes next: shares, leads and waiting times, in a simulated world in which only
 *	  steps take time.
 *
 * The world has one CPU.  A model's step takes as long as the test says; a step can be preempted each
 * `grain` microseconds, if the test says so.  The scheduler's decisions are compared with the guarantees
 * of each class in model_scheduler.h, not with a second scheduler.
 */
#include "server/model_scheduler.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "tests/unit/check.h"

#define MOST 12

/* xorshift64 (Marsaglia 2003) */
static uint64_t seed_now;

static int64_t
random_below(int64_t n)
{
	seed_now ^= seed_now << 13;
	seed_now ^= seed_now >> 7;
	seed_now ^= seed_now << 17;
	return (int64_t) (seed_now % (uint64_t) n);
}

typedef struct World
{
	ModelScheduler s;
	WorkClass	work[MOST];
	int			weight[MOST];
	int64_t		step_us[MOST];
	int			grain;			/* 0: steps aren't preempted */
	int64_t		now;
	int64_t		had[MOST];		/* us */
	int64_t		since[MOST];	/* time since when it waits for its step; -1 = it doesn't */
	int64_t		longest[MOST];	/* longest wait */
} World;

static World
world_new(int n, const WorkClass *work, const int *weight, const int64_t *step_us, int grain)
{
	World		w = {.grain = grain};

	w.s.share = 6;
	for (int i = 0; i < n; i++)
	{
		w.work[i] = work[i];
		w.weight[i] = weight[i];
		w.step_us[i] = step_us[i];
		w.since[i] = -1;
		msched_add(&w.s, weight[i]);
	}
	return w;
}

static void
look(World *w)
{
	for (int i = 0; i < w->s.n; i++)
	{
		msched_set_work(&w->s, i, w->work[i]);
		if (w->work[i] == WORK_NONE)
			w->since[i] = -1;
		else if (w->since[i] < 0 && !w->s.a[i].running)
			w->since[i] = w->now;
	}
}

static void
begins(World *w, int i)
{
	w->s.a[i].running = true;
	if (w->since[i] >= 0 && w->now - w->since[i] > w->longest[i])
		w->longest[i] = w->now - w->since[i];
	w->since[i] = -1;
}

static void
computes(World *w, int i, int64_t us)
{
	w->now += us;
	w->had[i] += us;
	msched_charge(&w->s, i, us);
}

static void
ends(World *w, int i)
{
	w->s.a[i].running = false;
	look(w);
}

/* Run the step of the next model, with those that preempt it.  Returns false if no model has work. */
static bool
step(World *w)
{
	int			i;
	int64_t		done = 0;

	look(w);
	i = msched_next(&w->s);
	if (i < 0)
		return false;
	begins(w, i);
	while (done < w->step_us[i])
	{
		int64_t		part = w->grain > 0 && w->grain < w->step_us[i] - done ? w->grain : w->step_us[i] - done;
		int			k;

		computes(w, i, part);
		done += part;
		while (w->grain > 0 && done < w->step_us[i] && (look(w), k = msched_preempting(&w->s, i)) >= 0)
		{
			CHECK(k != i && w->work[k] == WORK_LATENCY, "model %d between model %d's", k, i);
			begins(w, k);
			computes(w, k, w->step_us[k]);
			ends(w, k);
		}
	}
	ends(w, i);
	return true;
}

static void
run_for(World *w, int64_t us)
{
	int64_t		until = w->now + us;

	while (w->now < until && step(w))
		;
}

/* ---- two steps at once ---- */

typedef struct Seat
{
	int			model;			/* model whose step runs here; -1 = none */
	int64_t		left;			/* us, with all threads */
} Seat;

/* Latency work preempts steps in the middle, with all threads, and the other step pauses. */
static void
interrupt(World *w, int outer)
{
	int			k;

	while (w->work[outer] != WORK_NONE && (look(w), k = msched_preempting(&w->s, outer)) >= 0)
	{
		begins(w, k);
		computes(w, k, w->step_us[k]);
		ends(w, k);
	}
}

/* Return the share of time in which two steps ran at once. */
static double
run_at_once(World *w, int64_t us)
{
	Seat		seats[2] = {{-1, 0}, {-1, 0}};
	int64_t		began = w->now;
	int64_t		both = 0;

	while (w->now < began + us)
	{
		int			n = 0;
		int64_t		tick = 1000;

		for (int k = 0; k < 2; k++)
		{
			int			other = seats[1 - k].model;

			look(w);
			if (seats[k].model >= 0 && seats[k].left > 0)
				interrupt(w, seats[k].model);
			else if (seats[k].model >= 0)
			{
				ends(w, seats[k].model);
				seats[k].model = -1;
			}
			if (seats[k].model < 0 &&
				(seats[k].model = other >= 0 ? msched_concurrent(&w->s) : msched_next(&w->s)) >= 0)
			{
				begins(w, seats[k].model);
				seats[k].left = w->step_us[seats[k].model];
			}
		}
		for (int k = 0; k < 2; k++)
			if (seats[k].model >= 0)
			{
				n++;
				tick = seats[k].left < tick ? seats[k].left : tick;
			}
		for (int k = 0; k < 2; k++)
			if (seats[k].model >= 0)
			{
				/* the clock advances by tick in all: each gets half of it */
				computes(w, seats[k].model, tick / n > 0 ? tick / n : 1);
				seats[k].left -= tick / n > 0 ? tick / n : 1;
			}
		both += n == 2 ? tick : 0;
		if (n == 0)
			break;
	}
	for (int k = 0; k < 2; k++)
		if (seats[k].model >= 0)
			ends(w, seats[k].model);
	return (double) both / (double) us;
}

static double
part(const World *w, int i)
{
	int64_t		sum = 0;

	for (int k = 0; k < w->s.n; k++)
		sum += w->had[k];
	return (double) w->had[i] / (double) sum;
}

/* Weights 1:2:4, steps of very different lengths. */
static void
test_weights(void)
{
	static const WorkClass classes[] = {WORK_THROUGHPUT, WORK_LATENCY, WORK_BACKGROUND};

	for (int c = 0; c < 3; c++)
	{
		WorkClass	work[] = {classes[c], classes[c], classes[c]};
		World		w = world_new(3, work, (int[]) {100, 200, 400}, (int64_t[]) {200000, 700, 35000}, 1000);

		run_for(&w, 100000000);
		for (int i = 0; i < 3; i++)
			CHECK(fabs(part(&w, i) - (1 << i) / 7.0) < 0.01, "class %d, model %d has %.4f", classes[c], i,
				  part(&w, i));
		mem_free(w.s.a);
	}
}

/* The same shares with two steps at once. */
static void
test_weights_at_once(void)
{
	static const WorkClass classes[] = {WORK_THROUGHPUT, WORK_LATENCY, WORK_BACKGROUND};

	for (int c = 0; c < 3; c++)
	{
		WorkClass	work[] = {classes[c], classes[c], classes[c]};
		World		w = world_new(3, work, (int[]) {100, 200, 400}, (int64_t[]) {200000, 700, 35000}, 1000);
		double		both = run_at_once(&w, 100000000);

		for (int i = 0; i < 3; i++)
			CHECK(fabs(part(&w, i) - (1 << i) / 7.0) < 0.01, "class %d, model %d has %.4f", classes[c], i,
				  part(&w, i));
		CHECK(both > 0.3, "class %d: two at once for %.2f of the time", classes[c], both);
		mem_free(w.s.a);
	}
}

/* Equal weights: two steps at once nearly always, of any two classes but latency's within its lead. */
static void
test_at_once(void)
{
	for (int a = WORK_BACKGROUND; a < WORK_CLASSES; a++)
		for (int b = WORK_BACKGROUND; b < WORK_CLASSES; b++)
		{
			World		w = world_new(2, (WorkClass[]) {(WorkClass) a, (WorkClass) b}, (int[]) {100, 100},
									  (int64_t[]) {5000, 30000}, 1000);
			double		share = a == b || (a != WORK_BACKGROUND && b != WORK_BACKGROUND) ? 0.5 :
				a == WORK_BACKGROUND ? 0.06 : 0.94;
			double		both = run_at_once(&w, 100000000);

			CHECK(fabs(part(&w, 0) - share) < 0.01, "classes %d and %d: %.4f", a, b, part(&w, 0));
			CHECK(both > (share == 0.5 ? 0.95 : 0.05), "classes %d and %d: two at once for %.2f of the time",
				  a, b, both);
			mem_free(w.s.a);
		}
}

/* A short latency request gets all threads from the next tick on, whatever runs. */
static void
test_short_at_once(void)
{
	World		w = world_new(3, (WorkClass[]) {WORK_NONE, WORK_THROUGHPUT, WORK_THROUGHPUT},
							  (int[]) {100, 100, 100}, (int64_t[]) {5000, 200000, 90000}, 1000);

	for (int i = 0; i < 300; i++)
	{
		int64_t		had = w.had[0];

		w.work[0] = WORK_NONE;
		run_at_once(&w, 100000);
		w.work[0] = WORK_LATENCY;
		run_at_once(&w, 20000);
		CHECK(w.had[0] - had >= 20000 - 2000, "%lld us of 20000", (long long) (w.had[0] - had));
	}
	mem_free(w.s.a);
}

/* Endless latency work never waits, but does not get more than its share in the long run. */
static void
test_latency_share(void)
{
	World		w = world_new(2, (WorkClass[]) {WORK_LATENCY, WORK_THROUGHPUT}, (int[]) {100, 100},
							  (int64_t[]) {300, 200000}, 1000);

	run_for(&w, MSCHED_LEAD_US - 1000);
	CHECK(w.had[1] == 0, "latency work has its lead first: %lld", (long long) w.had[1]);
	run_for(&w, 100000000);
	CHECK(fabs(part(&w, 0) - 0.5) < 0.01, "%.4f", part(&w, 0));
	/* it pauses for a slice, and until the other one can be preempted */
	CHECK(w.longest[0] <= MSCHED_SLICE_US + 2000, "waited %lld us", (long long) w.longest[0]);
	mem_free(w.s.a);
}

/* Short requests now and then, next to steps that take long. */
static void
test_short_requests(void)
{
	World		w = world_new(3, (WorkClass[]) {WORK_NONE, WORK_THROUGHPUT, WORK_BACKGROUND},
							  (int[]) {100, 100, 100}, (int64_t[]) {5000, 200000, 200000}, 1000);

	seed_now = 7;
	for (int i = 0; i < 300; i++)
	{
		w.work[0] = WORK_NONE;
		run_for(&w, 1000 + random_below(300000));
		/* it runs between two steps here; test_latency_share tests preemption */
		w.work[0] = WORK_LATENCY;
		for (int k = 0; k < 10; k++)
			step(&w);
	}
	CHECK(w.longest[0] <= 2000, "waited %lld us", (long long) w.longest[0]);
	mem_free(w.s.a);
}

/* Background work gets its percentage of the time while others have work, otherwise all of it. */
static void
test_background(void)
{
	for (int share = 0; share <= 50; share += 10)
	{
		World		w = world_new(4, (WorkClass[]) {WORK_BACKGROUND, WORK_THROUGHPUT, WORK_BACKGROUND,
										WORK_LATENCY},
								  (int[]) {100, 100, 300, 100}, (int64_t[]) {50000, 30000, 20000, 1000},
								  1000);

		w.s.share = share;
		run_for(&w, 200000000);
		CHECK(fabs(part(&w, 0) + part(&w, 2) - share / 100.0) < 0.01, "share %d: %.4f", share,
			  part(&w, 0) + part(&w, 2));
		CHECK(share == 0 || fabs(part(&w, 2) / part(&w, 0) - 3) < 0.1, "share %d: %.4f and %.4f", share,
			  part(&w, 0), part(&w, 2));
		CHECK(fabs(part(&w, 1) - part(&w, 3)) < 0.01, "%.4f and %.4f", part(&w, 1), part(&w, 3));
		w.work[1] = w.work[3] = WORK_NONE;
		memset(w.had, 0, sizeof(w.had));
		run_for(&w, 200000000);
		CHECK(fabs(part(&w, 2) - 0.75) < 0.01, "alone: %.4f", part(&w, 2));
		mem_free(w.s.a);
	}
}

/* A model that had no work has neither saved up time nor fallen behind. */
static void
test_return(void)
{
	World		w = world_new(2, (WorkClass[]) {WORK_NONE, WORK_THROUGHPUT}, (int[]) {100, 100},
							  (int64_t[]) {10000, 10000}, 0);

	run_for(&w, 60000000);
	memset(w.had, 0, sizeof(w.had));
	w.work[0] = WORK_THROUGHPUT;
	run_for(&w, 1000000);
	CHECK(fabs(part(&w, 0) - 0.5) < 0.02, "%.4f", part(&w, 0));
	mem_free(w.s.a);
}

/*
 * 100,000 events: models come and go, get work of any class and lose it, weights change.  Invariants: a
 * model computes as long as there is work; each model with work computes within a bounded time of
 * others.
 */
static void
test_random(unsigned seed)
{
	World		w = world_new(4, (WorkClass[]) {WORK_NONE, WORK_NONE, WORK_NONE, WORK_NONE},
							  (int[]) {100, 100, 100, 100}, (int64_t[]) {1000, 1000, 1000, 1000}, 1000);
	int64_t		had = 0;
	int64_t		began;

	seed_now = seed * UINT64_C(0x9E3779B97F4A7C15);
	for (int event = 0; event < 100000; event++)
	{
		int			i = (int) random_below(w.s.n);
		int			longest_wait = 0;

		switch (random_below(8))
		{
			case 0:
				if (w.s.n == MOST)
					break;
				i = w.s.n;
				w.work[i] = WORK_NONE;
				w.had[i] = w.longest[i] = 0;
				w.since[i] = -1;
				w.weight[i] = 100 << random_below(3);
				w.step_us[i] = 200 + random_below(100000);
				msched_add(&w.s, w.weight[i]);
				break;
			case 1:
				if (w.s.n == 1)
					break;
				msched_remove(&w.s, i);
				w.work[i] = w.work[w.s.n];
				w.weight[i] = w.weight[w.s.n];
				w.step_us[i] = w.step_us[w.s.n];
				w.since[i] = w.since[w.s.n];
				w.longest[i] = w.longest[w.s.n];
				w.had[i] = w.had[w.s.n];
				break;
			case 2:
				w.weight[i] = 100 << random_below(3);
				msched_set_weight(&w.s, i, w.weight[i]);
				break;
			default:
				w.work[i] = (WorkClass) random_below(WORK_CLASSES);
				break;
		}
		had = 0;
		for (int k = 0; k < w.s.n; k++)
			had += w.work[k] != WORK_NONE;
		began = w.now;
		CHECK(step(&w) == (had > 0), "event %d: %lld have work", event, (long long) had);
		CHECK(had == 0 || w.now > began, "event %d: no time has gone by", event);
		for (int k = 0; k < w.s.n; k++)
			longest_wait = w.longest[k] > longest_wait ? (int) w.longest[k] : longest_wait;
		/*
		 * The least share is a background model's: 6 % of the time, by weights of 100 to 400 among at
		 * most MOST, while a step of 0.1 s of each is charged at once.
		 */
		CHECK(longest_wait < 90000000, "event %d: waited %d us", event, longest_wait);
		if (check_failed > 20)
			break;
	}
	mem_free(w.s.a);
}

int
main(void)
{
	RUN(test_weights());
	RUN(test_weights_at_once());
	RUN(test_at_once());
	RUN(test_short_at_once());
	RUN(test_latency_share());
	RUN(test_short_requests());
	RUN(test_background());
	RUN(test_return());
	for (unsigned seed = 1; seed <= 3; seed++)
		RUN(test_random(seed));
	return check_done("test_model_scheduler");
}
