/*
 * test_sched.c
 *	  The scheduler without a model: hand-written traces of plans, fairness, preemption, tiny pools,
 *	  slots of recurrent state.  A trace is one string for each step: "id:rows" of each entry in order;
 *	  "!" marks rows that are sampled.  A sampled request gets one more token.
 */
#include "core/core_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

#include "tests/unit/check.h"
#include "tests/unit/core/sched/sched_world.h"

/* ---- forks ---- */

/* Forks share their parent's full blocks.  The last fork takes over the partial block; others get a copy. */
static void
test_fork_tail(int n_prompt, int n_forks)
{
	World		w = world_new((SchedOptions) {.max_seqs = 4, .max_rows = 64}, 20);
	Pooled		pooled = {.spec.task = PT_LOGPROBS};
	const int	full = n_prompt / 16;
	const int	part = n_prompt % 16 > 0;
	const Plan *p;
	int			used;

	add(&w, 1, 1, n_prompt, 100);
	w.reqs[1]->pooled = &pooled;
	step(&w);
	for (int i = 2; i < 2 + n_forks; i++)
	{
		add(&w, i, 2, n_prompt + 2, 100);
		w.reqs[i]->pooled = &pooled;
		sched_remove(w.s, w.reqs[i]);
		sched_fork(w.s, w.reqs[i], w.reqs[1]);
	}
	sched_retain_blocks(w.s, w.reqs[1]);
	p = sched_plan(w.s, 1);
	used = kvpool_total(w.pool) - kvpool_available(w.pool);
	CHECK(p->n == n_forks && p->n_rows == 2 * n_forks && p->n_copies == part * (n_forks - 1),
		  "prompt of %d: %d entries, %d rows, %d copies", n_prompt, p->n, p->n_rows, p->n_copies);
	CHECK((int) w.reqs[2]->kv.blocks.len == full + 1 && used == full + n_forks,
		  "prompt of %d: a fork has %zu blocks, %d are used", n_prompt, w.reqs[2]->kv.blocks.len, used);
	CHECK(kvpool_refs(w.pool, w.reqs[2]->kv.blocks.data[0]) == (full > 0 ? n_forks : 1), "prompt of %d",
		  n_prompt);
	world_free(&w);
}

/* ---- sequences that can't be cut ---- */

/* A request that takes longer than a step may runs alone, after the shorter ones before it. */
static void
test_whole(void)
{
	static const int rows[] = {5, 60, 5, 4, 4};
	World		w = world_new((SchedOptions) {.max_seqs = 8, .max_rows = 128, .step_target_us = 63}, 100);

	for (int n = 1; n <= 16; n *= 2)
		sched_observe_step_time(w.s, n, n * 100);
	for (int i = 0; i < 5; i++)
	{
		add(&w, i + 1, 1, rows[i], 1);
		w.reqs[i + 1]->seq.whole = true;
	}
	/* 10 rows: sixteen times the target */
	STEP(&w, "1:5!");
	STEP(&w, "2:60!");
	STEP(&w, "3:5! 4:4!");
	STEP(&w, "5:4!");
	world_free(&w);
}

/* ---- traces ---- */

/* Decodes come first, chunked prompts get the rest; a prompt gets half while others wait. */
static void
test_chunks(void)
{
	World		w = world_new((SchedOptions) {.max_seqs = 4, .max_rows = 32}, 100);

	add(&w, 1, 1, 10, 5);
	add(&w, 2, 1, 70, 3);
	STEP(&w, "1:10! 2:22");		/* only 1 is ahead of it: it gets the rest */
	STEP(&w, "1:1! 2:31");
	add(&w, 3, 1, 20, 2);
	STEP(&w, "1:1! 2:17! 3:14");
	STEP(&w, "1:1! 2:1! 3:6!");
	STEP(&w, "1:1! 2:1! 3:1!");
	STEP(&w, "");
	add(&w, 1, 1, 100, 1);
	add(&w, 2, 1, 100, 1);
	add(&w, 3, 1, 5, 1);
	STEP(&w, "1:16 2:11 3:5!");	/* no request takes everything while others want rows */
	STEP(&w, "1:16 2:16");
	world_free(&w);
}

/* max_seqs = 1 runs one after the other; the chunk limit for tests. */
static void
test_serial(void)
{
	World		w = world_new((SchedOptions) {.max_seqs = 1, .max_rows = 32, .max_chunk = 7}, 100);

	add(&w, 1, 1, 10, 2);
	add(&w, 2, 1, 3, 1);
	STEP(&w, "1:7");
	STEP(&w, "1:3!");
	STEP(&w, "1:1!");
	STEP(&w, "2:3!");
	STEP(&w, "");
	world_free(&w);
}

/* Round robin over sessions, FCFS within one; a session that leaves and comes back gains nothing. */
static void
test_fairness(void)
{
	World		w = world_new((SchedOptions) {.max_seqs = 1, .max_rows = 32}, 100);

	for (int i = 1; i <= 5; i++)
		add(&w, i, 10, 4, 1);
	add(&w, 6, 20, 4, 1);
	add(&w, 7, 30, 4, 1);
	add(&w, 8, 20, 4, 1);
	STEP(&w, "1:4!");
	STEP(&w, "6:4!");
	STEP(&w, "7:4!");
	STEP(&w, "2:4!");
	add(&w, 9, 30, 4, 1);		/* session 30 comes back: after 20 */
	STEP(&w, "8:4!");
	STEP(&w, "9:4!");			/* its second request, when session 10 has had two */
	STEP(&w, "3:4!");
	STEP(&w, "4:4!");
	STEP(&w, "5:4!");
	STEP(&w, "");
	world_free(&w);
}

/* A request that doesn't fit ends the admissions: no other one overtakes it. */
static void
test_no_overtaking(void)
{
	World		w = world_new((SchedOptions) {.max_seqs = 4, .max_rows = 256}, 8);

	add(&w, 1, 1, 60, 3);		/* 4 blocks, and one reserved */
	add(&w, 2, 2, 60, 2);		/* 4 more don't fit */
	add(&w, 3, 3, 5, 2);
	STEP(&w, "1:60!");
	STEP(&w, "1:1!");
	STEP(&w, "1:1!");
	STEP(&w, "2:60! 3:5!");
	STEP(&w, "2:1! 3:1!");
	world_free(&w);
}

/* The most recently admitted request is preempted, and comes back before new ones. */
static void
test_preempt(void)
{
	World		w = world_new((SchedOptions) {.max_seqs = 4, .max_rows = 64}, 5);

	add(&w, 1, 1, 15, 40);
	add(&w, 2, 2, 14, 30);
	STEP(&w, "1:15! 2:14!");	/* a block each, one reserved for each */
	add(&w, 3, 3, 30, 2);		/* 2 blocks + 2 reserved > 3 */
	for (int i = 0; i < 17; i++)
		STEP(&w, "1:1! 2:1!");	/* 32 and 31 computed: 2 blocks each */
	STEP(&w, "1:1! 2:1!");		/* 1 takes the last block */
	CHECK(w.reqs[1]->kv.computed == 33 && w.reqs[2]->kv.computed == 32, "%d", w.reqs[2]->kv.computed);
	STEP(&w, "1:1!");			/* none left for 2 */
	CHECK(w.reqs[2]->sched.state == RQ_PREEMPTED && w.reqs[2]->sched.preemptions == 1 &&
		  w.reqs[2]->kv.blocks.len == 0 && w.reqs[2]->kv.computed == 0 && w.reqs[2]->tokens.len == 33,
		  "state %d", w.reqs[2]->sched.state);
	STEP(&w, "1:1!");			/* 3 blocks + 1 reserved > 2 free */
	CHECK(sched_n_waiting(w.s) == 2 && sched_n_running(w.s) == 1, "%d wait", sched_n_waiting(w.s));
	while (w.reqs[1] != NULL)
		step(&w);
	STEP(&w, "2:33!");			/* computes everything again, before 3, which does not fit */
	CHECK(sched_n_preemptions(w.s) == 1, "%d", (int) sched_n_preemptions(w.s));
	while (w.reqs[2] != NULL)
		step(&w);
	STEP(&w, "3:30!");
	world_free(&w);
}

/*
 * A victim that is already in the plan is taken out of it.  All three need their third block in step 33,
 * and there are 8: the decodes 1 and 3 take the last two, then the prompt of 2 (older than 3) wants one
 * and takes 3's.
 */
static void
test_refund(void)
{
	World		w = world_new((SchedOptions) {.max_seqs = 4, .max_rows = 20, .max_chunk = 1}, 8);
	const Plan *p;

	add(&w, 1, 1, 1, 50);
	add(&w, 2, 1, 60, 3);
	add(&w, 3, 1, 1, 50);
	STEP(&w, "1:1! 2:1 3:1!");
	for (int i = 2; i <= 32; i++)
		STEP(&w, "1:1! 3:1! 2:1");
	p = sched_plan(w.s, 1);
	CHECK(p->n_preempted == 1 && p->n == 2 && p->n_rows == 2 && p->n_sample == 1 && p->units > 1.9 &&
		  p->units < 2.1, "%d entries, %d rows, %d sampled, %g units", p->n, p->n_rows, p->n_sample,
		  p->units);
	CHECK(w.reqs[3]->sched.state == RQ_PREEMPTED && w.reqs[3]->sched.plan_at == -1 &&
		  w.reqs[3]->tokens.len == 33, "state %d", w.reqs[3]->sched.state);
	STEP(&w, "1:1! 2:1");
	world_free(&w);
}

/* Tiny pools and many requests: always finishes, and the oldest request always makes progress. */
static void
test_no_livelock(void)
{
	int64_t		preemptions = 0;

	for (int blocks = 4; blocks <= 12; blocks++)
	{
		World		w = world_new((SchedOptions) {.max_seqs = 8, .max_rows = 24}, blocks);
		int			steps = 0;

		for (int i = 0; i < MAX_REQS; i++)
			add(&w, i, (uint64_t) i % 5, 1 + (i * 7) % 30, 1 + (i * 11) % 34);
		while (sched_any(w.s) != NULL && steps < 10000)
		{
			CHECK(step(&w)[0] != '\0', "%d blocks: an empty plan while requests wait", blocks);
			steps++;
		}
		CHECK(sched_any(w.s) == NULL && kvpool_available(w.pool) == blocks, "%d blocks: %d steps", blocks,
			  steps);
		preemptions += sched_n_preemptions(w.s);
		world_free(&w);
	}
	CHECK(preemptions > 0, "nobody was preempted");
}

/* ---- long prompts ---- */

/* A prompt of more than 20 tokens is long: one at a time gets 20 rows a step; shorter ones pass it. */
static void
test_long(void)
{
	World		w = world_new((SchedOptions) {.max_seqs = 8, .max_rows = 64, .long_prompt = 20,
											  .max_long_partial = 1}, 100);

	add(&w, 1, 1, 50, 1);
	add(&w, 2, 1, 50, 1);
	add(&w, 3, 1, 19, 1);
	add(&w, 4, 2, 50, 1);
	add(&w, 5, 2, 5, 1);
	STEP(&w, "1:20 5:5! 3:19!");	/* round robin over sessions */
	CHECK(sched_n_skipped(w.s) == 2 && sched_n_waiting(w.s) == 2, "%d are set aside", sched_n_skipped(w.s));
	add(&w, 6, 1, 7, 1);
	STEP(&w, "1:20 6:7!");
	STEP(&w, "1:10! 4:20");		/* the other session's turn */
	STEP(&w, "4:20");
	STEP(&w, "4:10! 2:20");
	STEP(&w, "2:20");
	STEP(&w, "2:10!");
	world_free(&w);
}

/* Partial prompts, long or not: two at once; a prompt that fits completely overtakes them. */
static void
test_partial(void)
{
	World		w = world_new((SchedOptions) {.max_seqs = 8, .max_rows = 32, .max_chunk = 10,
											  .max_partial = 2, .max_long_partial = 1}, 100);

	for (int i = 1; i <= 4; i++)
		add(&w, i, 1, 15, 1);
	add(&w, 5, 1, 3, 1);
	STEP(&w, "1:10 2:10 5:3!");
	STEP(&w, "1:5! 2:5! 3:10 4:10");
	STEP(&w, "3:5! 4:5!");
	world_free(&w);
}

/*
 * With a stream of short prompts, the long prompts of several sessions end, in order, however many plans
 * each takes.
 */
static void
test_long_end(int n_prompt)
{
	World		w = world_new((SchedOptions) {.max_seqs = 4, .max_rows = 32, .long_prompt = 8,
											  .max_long_partial = 1}, 100);
	int			ended = 0;

	for (int id = 1; id <= 4; id++)
		add(&w, id, (uint64_t) id, n_prompt, 3);
	for (int i = 0; i < 600; i++)
	{
		for (int id = 10; id < 16; id++)
			if (w.reqs[id] == NULL)
				add(&w, id, (uint64_t) id % 3 + 10, 1 + (i + id) % 8, 1 + (i + id) % 5);
		step(&w);
		if (ended < 4 && w.reqs[ended + 1] == NULL)
			ended++;
		for (int id = ended + 2; id <= 4; id++)
			CHECK(w.reqs[id] != NULL, "%d tokens: long prompt %d is overtaken by %d", n_prompt, ended + 1,
				  id);
	}
	CHECK(ended == 4, "%d long prompts of %d tokens have ended", ended, n_prompt);
	world_free(&w);
}

/* ---- shares ---- */

typedef struct Requested
{
	Caller		by;
	uint64_t	session;
	int			most;			/* tokens of its prompts, and of its outputs */
	bool		off;			/* it makes no more requests */
	double		got;			/* service of ended requests: tokens of prompts, and twice those of outputs */
} Requested;

/* Each of n callers always has two requests that wait or run; makes `steps` steps. */
static void
serve(World *w, Requested *a, int n, int steps)
{
	uint32_t	x = 7;
	double		requested[MAX_REQS];

	for (int i = 0; i < steps; i++)
	{
		for (int id = 0; id < 2 * n; id++)
		{
			Requested  *k = &a[id / 2];
			int			prompt = 1 + (int) ((x = x * 1664525u + 1013904223u) >> 8) % k->most;
			int			answer = 1 + (int) ((x = x * 1664525u + 1013904223u) >> 8) % k->most;

			if (w->reqs[id] != NULL || k->off)
				continue;
			add_by = k->by;
			add(w, id, k->session, prompt, answer);
			add_by = (Caller) {0};
		}
		for (int id = 0; id < 2 * n; id++)
			requested[id] = w->reqs[id] != NULL ? 2.0 * w->last[id] - w->reqs[id]->in.n_prompt : 0;
		step(w);
		for (int id = 0; id < 2 * n; id++)
			a[id / 2].got += w->reqs[id] == NULL ? requested[id] : 0;
	}
}

/* Add n sessions with one request each, one after the other; returns the most known at once. */
static size_t
sessions_known(Fair *root, uint64_t role, int n)
{
	size_t		most = 0;

	for (int i = 0; i < n; i++)
	{
		Fair	   *up = fair_kid(root, role, 1);
		Fair	   *f = fair_kid(up, 1000 + (uint64_t) i, 1);

		fair_ref(f);
		fair_wait(f);
		fair_turn(f);
		fair_rest(f);
		fair_charge(f, 10);
		most = up->kids.n > most ? up->kids.n : most;
		fair_unref(f);
	}
	return most;
}

/*
 * Sessions that have left are forgotten, though other sessions of the role, or other roles, are always
 * busy.
 */
static void
test_forgotten(void)
{
	Fair		root = {0};
	Fair	   *busy = fair_kid(fair_kid(&root, 1, 1), 1, 1);
	size_t		n;

	fair_ref(busy);
	n = sessions_known(&root, 2, 20000);
	CHECK(n == 1, "%zu sessions of another role are known", n);
	n = sessions_known(&root, 1, 20000);
	CHECK(n < 5000, "%zu sessions of a busy role are known", n);
	CHECK(fair_check(&root), "the tree is broken");
	fair_unref(busy);
	CHECK(root.kids.n == 0, "%zu roles are known", root.kids.n);
}

#define NEAR(got, want) CHECK((got) > (want) * 0.93 && (got) < (want) * 1.07, "%g, not %g", (double) (got), \
							  (double) (want))

/* Roles that always have requests get service by their weights, their sessions evenly, whatever the sizes. */
static void
test_weights(void)
{
	World		w = world_new((SchedOptions) {.max_seqs = 1, .max_rows = 64}, 100);
	Requested	a[] = {
		{.by = {.role = 1}, .session = 1, .most = 5},	/* a weight of 100 */
		{.by = {.role = 2, .weight = 300}, .session = 2, .most = 40},
		{.by = {.role = 2, .weight = 300}, .session = 3, .most = 10},
		{.by = {.role = 3, .weight = 50}, .session = 2, .most = 20},
	};
	double		all = 0;

	serve(&w, a, 4, 40000);
	for (int i = 0; i < 4; i++)
		all += a[i].got;
	NEAR(a[0].got / all, 100 / 450.0);
	NEAR(a[1].got / all, 150 / 450.0);
	NEAR(a[2].got / all, 150 / 450.0);
	NEAR(a[3].got / all, 50 / 450.0);
	/* roles that were idle have saved nothing: the shares are the same from now on */
	a[1].off = a[2].off = true;
	serve(&w, a, 4, 20000);
	a[1].off = a[2].off = false;
	for (int i = 0; i < 4; i++)
		a[i].got = 0;
	serve(&w, a, 4, 2000);
	NEAR((a[1].got + a[2].got) / (a[0].got + a[1].got + a[2].got + a[3].got), 300 / 450.0);
	world_free(&w);
}

/*
 * A role has 8 clients that connect, make one request and leave, more than one seat can serve, and two
 * sessions that stay and always make requests.  All get the same share, and no request waits longer than
 * for one or two requests of every other session.
 */
static void
test_passers_by(int old_tokens)
{
	enum
	{
		PASSERS = 8, ALL = 10, STEPS = 6000
	};
	World		w = world_new((SchedOptions) {.max_seqs = 1, .max_rows = 64}, 100);
	uint64_t	session = 100;
	double		got[ALL] = {0};
	double		all = 0;
	int			born[ALL] = {0};
	int			longest = 0;	/* longest wait, in steps */
	int			most = 0;		/* longest time of one request */

	for (int i = 0; i < STEPS; i++)
	{
		for (int id = 0; id < ALL; id++)
		{
			int			answer = id < PASSERS ? 2 + id % 3 : old_tokens;

			if (w.reqs[id] != NULL)
				continue;
			longest = i - born[id] > longest ? i - born[id] : longest;
			most = answer > most ? answer : most;
			got[id] += i > 0 ? 4 + 2 * answer : 0;
			born[id] = i;
			add(&w, id, id < PASSERS ? session++ : (uint64_t) id, 4, answer);
		}
		step(&w);
	}
	for (int id = 0; id < ALL; id++)
	{
		all += got[id];
		longest = STEPS - born[id] > longest ? STEPS - born[id] : longest;
	}
	NEAR(got[PASSERS] / got[PASSERS + 1], 1);
	CHECK(got[PASSERS] > all / ALL * 0.7 && got[PASSERS] < all / ALL * 1.4, "who stays gets %g of %g",
		  got[PASSERS], all);
	CHECK(longest <= 2 * ALL * most, "the longest wait is %d steps; %d requests of at most %d", longest, ALL,
		  most);
	world_free(&w);
}

/*
 * A role of small weight that makes few requests, less than its share, next to a role of large weight
 * that always has requests: the first one doesn't wait.
 */
static void
test_seldom(void)
{
	World		w = world_new((SchedOptions) {.max_seqs = 1, .max_rows = 64}, 100);
	int			longest = 0;
	int			requested = 0;

	for (int i = 0; i < 150000; i++)
	{
		for (int id = 1; id < 4; id++)
			if (w.reqs[id] == NULL)
			{
				add_by = (Caller) {.role = 1, .weight = 1000};
				add(&w, id, 1, 4, 5);
			}
		if (i % 1000 == 999 && w.reqs[0] == NULL)
		{
			add_by = (Caller) {.role = 2, .weight = 10};
			add(&w, 0, 2, 4, 5);
			requested = i;
		}
		add_by = (Caller) {0};
		step(&w);
		if (w.reqs[0] != NULL && i - requested > longest)
			longest = i - requested;
	}
	/* the running one, one that was ahead, and the request itself */
	CHECK(longest <= 15, "who asks seldom waits %d steps", longest);
	world_free(&w);
}

/* The background gets its share while others wait, all seats otherwise, and leaves some for them. */
static void
test_background(void)
{
	World		w = world_new((SchedOptions) {.max_seqs = 4, .max_rows = 64, .background_share = 10}, 100);
	Requested	a[] = {
		{.by = {.role = 1}, .session = 1, .most = 12}, {.by = {.role = 2}, .session = 2, .most = 12},
		{.by = {.role = 3}, .session = 3, .most = 12}, {.by = {.role = 4}, .session = 4, .most = 12},
		{.by = {.role = 1, .background = true}, .session = 5, .most = 12},
		{.by = {.role = 5, .background = true}, .session = 6, .most = 12},
		{.by = {.role = 5, .background = true}, .session = 7, .most = 12},
	};
	double		all = 0;
	const char *at;
	int			n;

	serve(&w, a, 7, 20000);
	for (int i = 0; i < 7; i++)
		all += a[i].got;
	NEAR(a[0].got / all, 0.9 / 4);
	NEAR((a[4].got + a[5].got + a[6].got) / all, 0.1);
	NEAR(a[4].got / all, 0.05);
	/* no other requests: three of four seats */
	for (int i = 0; i < 4; i++)
		a[i].off = true;
	for (int i = 0; i < 200; i++)
	{
		serve(&w, a, 7, 1);
		for (at = w.trace, n = 0; *at != '\0'; at++)
			n += *at == ':';
		CHECK(n == 3 || i < 20, "%d run: %s", n, w.trace);
	}
	/* the next one runs at once */
	add(&w, 60, 9, 4, 2);
	step(&w);
	CHECK(w.reqs[60]->sched.state == RQ_RUNNING, "state %d", w.reqs[60]->sched.state);
	world_free(&w);
}

/* Without a share the background waits while others have requests; alone it runs. */
static void
test_background_none(void)
{
	World		w = world_new((SchedOptions) {.max_seqs = 1, .max_rows = 64}, 100);

	add_by.background = true;
	add(&w, 1, 1, 4, 1);
	add_by.background = false;
	for (int i = 2; i < 40; i++)
		add(&w, i, 2, 4, 1);
	for (int i = 2; i < 40; i++)
	{
		step(&w);
		CHECK(w.reqs[1]->sched.admit_no == 0 && w.reqs[i] == NULL, "request %d is overtaken", i);
	}
	STEP(&w, "1:4!");
	world_free(&w);
}

/* Background work is preempted when blocks are short, but only once. */
static void
test_background_preempt(void)
{
	World		w = world_new((SchedOptions) {.max_seqs = 4, .max_rows = 64, .background_share = 10}, 5);

	add_by.background = true;
	add(&w, 1, 1, 15, 60);
	add_by.background = false;
	STEP(&w, "1:15!");
	add(&w, 2, 2, 14, 40);
	while (w.reqs[1]->sched.state == RQ_RUNNING)
		step(&w);
	CHECK(w.reqs[2] != NULL && w.reqs[2]->sched.preemptions == 0, "the other gave way");
	while (w.reqs[1]->sched.state != RQ_RUNNING)
		step(&w);
	add(&w, 3, 2, 14, 40);
	while (w.reqs[1] != NULL)
		step(&w);
	CHECK(w.reqs[3]->sched.preemptions == 1, "%d", w.reqs[3]->sched.preemptions);
	world_free(&w);
}

/* ---- roles, when seats or blocks are short ---- */

static int
steps_until(World *w, int id, int most)
{
	int			n = 0;

	for (; w->reqs[id] != NULL && n < most; n++)
		step(w);
	return n;
}

/*
 * A role has as many long requests running and waiting as possible.  Then another role asks for three
 * tokens, again and again: each time it gets them at once, whether seats or blocks are short, and
 * requests that were preempted for it are not computed again and again.
 */
static void
test_role_comes(int blocks, int seats, int weight)
{
	World		w = world_new((SchedOptions) {.max_seqs = seats, .max_rows = 64, .background_share = 50},
							  blocks);
	int			longest = 0;
	int			given = 0;
	int			steps;
	int			tokens = 0;

	add_by = (Caller) {.role = 1};
	for (int i = 0; i < 50; i++)
		add(&w, i, (uint64_t) i % 3, 10, 300);
	for (int i = 0; i < 120; i++)
		step(&w);
	for (int k = 0; k < 30; k++)
	{
		int64_t		before = sched_n_preemptions(w.s);

		add_by = (Caller) {.role = 2, .weight = weight};
		add(&w, 60, 9, 12, 3);
		steps = steps_until(&w, 60, 1000);
		longest = steps > longest ? steps : longest;
		if (w.reqs[60] != NULL)
			drop(&w, 60);
		given += (int) (sched_n_preemptions(w.s) - before);
		for (int i = 0; i < 10; i++)
			step(&w);
	}
	CHECK(longest <= 6, "%d blocks, %d seats: another role's three tokens take %d steps", blocks, seats,
		  longest);
	CHECK(given <= 40, "%d blocks, %d seats: %d preemptions for 30 calls", blocks, seats, given);
	/* the first request continues all the time, and ends */
	for (int i = 0; i < 50; i++)
		tokens += w.reqs[i] == NULL ? 300 : (int) w.reqs[i]->tokens.len - 10;
	CHECK(tokens > 30 * 14 * (blocks < 100 ? 1 : seats / 2), "the first role has had %d tokens", tokens);
	for (int i = 0; i < 20000 && sched_any(w.s) != NULL; i++)
		step(&w);
	CHECK(sched_any(w.s) == NULL && kvpool_available(w.pool) == blocks, "somebody waits for ever");
	world_free(&w);
	add_by = (Caller) {0};
}

/*
 * Two roles with long requests share the blocks by their weights, whichever came first; each one grows
 * at its own cost.
 */
static void
test_role_blocks(int weight)
{
	World		w = world_new((SchedOptions) {.max_seqs = 32, .max_rows = 64, .background_share = 50}, 80);
	double		had[3] = {0};

	for (int n = 0; n < 2000; n++)
	{
		for (int i = 0; i < 60; i++)
		{
			add_by = (Caller) {.role = 1 + i / 30, .weight = i < 30 ? 100 : weight};
			if (w.reqs[i] == NULL && (i < 30 || n > 200))
				add(&w, i, 1, 10, 150);
		}
		step(&w);
		for (int k = 0; k < sched_n_running(w.s) && n > 300; k++)
			had[sched_running(w.s, k)->in.by.role] += (double) sched_running(w.s, k)->kv.blocks.len;
	}
	CHECK(fabs(had[2] / (had[1] + had[2]) - weight / (100.0 + weight)) < 0.1,
		  "the second role has %.2f of the blocks, its weight is %d", had[2] / (had[1] + had[2]), weight);
	for (int i = 0; i < 40000 && sched_any(w.s) != NULL; i++)
		step(&w);
	CHECK(sched_any(w.s) == NULL && kvpool_available(w.pool) == 80, "somebody waits for ever");
	world_free(&w);
	add_by = (Caller) {0};
}

/* If a role has only one request, that is never preempted for others, however much it holds. */
static void
test_role_one(void)
{
	World		w = world_new((SchedOptions) {.max_seqs = 4, .max_rows = 512, .background_share = 50}, 20);

	add_by = (Caller) {.role = 1};
	add(&w, 1, 1, 250, 60);
	STEP(&w, "1:250!");
	add_by = (Caller) {.role = 2};
	for (int i = 2; i < 40; i++)
		add(&w, i, 2, 30, 40);
	for (int i = 0; i < 60 && w.reqs[1] != NULL; i++)
	{
		CHECK(w.reqs[1]->sched.preemptions == 0, "it was taken in step %d", i);
		step(&w);
	}
	CHECK(w.reqs[1] == NULL, "it is not done");
	world_free(&w);
	add_by = (Caller) {0};
}

/* Random roles in tiny pools: all requests end, and the oldest running one is never preempted. */
static void
test_role_random(int blocks, int seats)
{
	World		w = world_new((SchedOptions) {.max_seqs = seats, .max_rows = 40, .background_share = 30},
							  blocks);
	uint32_t	seed = (uint32_t) (blocks * 31 + seats);
	int			next = 0;
	int			ended = 0;
	int			age[MAX_REQS] = {0};
	int			oldest = 0;

	for (int i = 0; i < 30000 && (i < 20000 || sched_any(w.s) != NULL); i++)
	{
		const Req  *first = sched_n_running(w.s) > 0 ? sched_running(w.s, 0) : NULL;
		int			was = first != NULL ? first->sched.preemptions : 0;
		int			id = first != NULL ? (int) first->in.id : 0;
		bool		alone = sched_n_running(w.s) == 1;

		seed = seed * 1664525u + 1013904223u;
		next = (next + 1) % MAX_REQS;
		if (i < 20000 && w.reqs[next] == NULL && (seed >> 8) % 4 == 0)
		{
			add_by = (Caller) {.role = 1 + (seed >> 12) % 4 % 3, .weight = (int) ((seed >> 14) % 3) * 150,
							   .background = (seed >> 20) % 8 == 0};
			add(&w, next, (seed >> 16) % 5, 1 + (int) ((seed >> 18) % 40),
				1 + (int) ((seed >> 22) % ((unsigned) blocks * 16 - 45)));
			age[next] = i;
		}
		step(&w);
		if (!alone && first != NULL && w.reqs[id] == first && first->sched.preemptions > was &&
			!first->in.by.background)
			CHECK(false, "step %d: the oldest one is preempted", i);
		for (int k = 0; k < MAX_REQS; k++)
			if (w.reqs[k] == NULL && age[k] > 0)
			{
				oldest = i - age[k] > oldest ? i - age[k] : oldest;
				age[k] = 0;
				ended++;
			}
	}
	CHECK(sched_any(w.s) == NULL && kvpool_available(w.pool) == blocks && ended > 20,
		  "%d blocks, %d seats: %d have ended; %d preemptions", blocks, seats, ended,
		  (int) sched_n_preemptions(w.s));
	world_free(&w);
	add_by = (Caller) {0};
}

/* ---- priorities ---- */

/* The lower number runs first, whatever the session; among equals the earlier one. */
static void
test_priorities(void)
{
	World		w = world_new((SchedOptions) {.max_seqs = 1, .max_rows = 64, .priorities = true}, 10);

	for (int i = 1; i <= 5; i++)
	{
		static const int priority[] = {0, 5, -1, 5, 0, -1};

		add_priority = priority[i];
		add(&w, i, (uint64_t) i % 2, 4, 1);
	}
	add_priority = 0;
	STEP(&w, "2:4!");
	STEP(&w, "5:4!");
	STEP(&w, "4:4!");
	STEP(&w, "1:4!");
	STEP(&w, "3:4!");
	world_free(&w);
}

/* The request with the higher number is preempted, though it is older, and others overtake it. */
static void
test_preempt_priority(void)
{
	World		w = world_new((SchedOptions) {.max_seqs = 4, .max_rows = 64, .priorities = true}, 5);

	add_priority = 3;
	add(&w, 1, 1, 15, 40);
	STEP(&w, "1:15!");
	add_priority = 1;
	add(&w, 2, 2, 14, 30);
	STEP(&w, "1:1! 2:14!");
	while (w.reqs[1]->sched.state == RQ_RUNNING)
		step(&w);
	CHECK(w.reqs[1]->sched.state == RQ_PREEMPTED && w.reqs[2]->sched.state == RQ_RUNNING, "state %d",
		  w.reqs[1]->sched.state);
	add_priority = 2;
	add(&w, 3, 1, 4, 1);
	add_priority = 0;
	while (w.reqs[3] != NULL)
		step(&w);
	CHECK(w.reqs[1]->sched.state == RQ_PREEMPTED, "state %d", w.reqs[1]->sched.state);
	while (w.reqs[2] != NULL)
		step(&w);
	step(&w);
	CHECK(w.reqs[1]->sched.state == RQ_RUNNING, "state %d", w.reqs[1]->sched.state);
	world_free(&w);
}

/* All requests end, in pools of any size. */
static void
test_priorities_end(void)
{
	for (int blocks = 4; blocks <= 12; blocks++)
	{
		World		w = world_new((SchedOptions) {.max_seqs = 8, .max_rows = 24, .priorities = true}, blocks);
		int			steps = 0;
		int			next = 0;

		while ((sched_any(w.s) != NULL || next < MAX_REQS) && steps < 10000)
		{
			if (next < MAX_REQS && steps % 3 == 0)
			{
				add_priority = (next * 7) % 5 - 2;
				add(&w, next, (uint64_t) next % 5, 1 + (next * 7) % 30, 1 + (next * 11) % 34);
				next++;
			}
			CHECK(step(&w)[0] != '\0' || sched_any(w.s) == NULL,
				  "%d blocks: an empty plan while requests wait", blocks);
			steps++;
		}
		add_priority = 0;
		CHECK(sched_any(w.s) == NULL && kvpool_available(w.pool) == blocks, "%d blocks: %d steps", blocks,
			  steps);
		world_free(&w);
	}
}

/* ---- recurrent state ---- */

/*
 * Slots for two: a third request waits, though there are blocks; one that is cancelled in its prompt
 * frees its slot.
 */
static void
test_slots(void)
{
	World		w = world_new((SchedOptions) {.max_seqs = 2, .max_rows = 32, .slots = true}, 100);
	int			slot;

	add(&w, 1, 1, 100, 5);
	add(&w, 2, 2, 20, 5);
	add(&w, 3, 3, 10, 2);
	CHECK(w.reqs[1]->kv.slot == -1 && w.reqs[3]->kv.slot == -1, "a waiting request has slot %d",
		  w.reqs[1]->kv.slot);
	STEP(&w, "1:16 2:8");
	CHECK(w.reqs[1]->kv.slot != w.reqs[2]->kv.slot && w.reqs[1]->kv.slot >= 0 && w.reqs[2]->kv.slot >= 0,
		  "slots %d and %d", w.reqs[1]->kv.slot, w.reqs[2]->kv.slot);
	CHECK(w.reqs[3]->kv.slot == -1 && sched_n_waiting(w.s) == 1, "a third request has slot %d",
		  w.reqs[3]->kv.slot);
	slot = w.reqs[1]->kv.slot;
	drop(&w, 1);				/* in mid-prompt */
	STEP(&w, "2:12! 3:10!");
	CHECK(w.reqs[3]->kv.slot == slot, "slot %d isn't used again, but %d", slot, w.reqs[3]->kv.slot);
	STEP(&w, "2:1! 3:1!");
	CHECK(w.reqs[3] == NULL && sched_n_running(w.s) == 1, "%d run", sched_n_running(w.s));
	world_free(&w);
}

/* A preempted request loses its state, and computes it anew in any slot. */
static void
test_slots_preempt(void)
{
	World		w = world_new((SchedOptions) {.max_seqs = 3, .max_rows = 64, .slots = true}, 5);

	add(&w, 1, 1, 15, 40);
	add(&w, 2, 2, 14, 30);
	for (int i = 0; i < 20; i++)
		step(&w);
	CHECK(w.reqs[2]->sched.state == RQ_PREEMPTED && w.reqs[2]->kv.slot == -1 && w.reqs[2]->kv.computed == 0 &&
		  w.reqs[2]->tokens.len == 33, "state %d, slot %d", w.reqs[2]->sched.state, w.reqs[2]->kv.slot);
	drop(&w, 1);
	add(&w, 3, 3, 4, 3);
	STEP(&w, "2:33! 3:4!");		/* computes everything again; step() compares with the state */
	CHECK(w.reqs[2]->kv.slot >= 0 && w.reqs[3]->kv.slot >= 0 && w.reqs[2]->kv.slot != w.reqs[3]->kv.slot,
		  "slots %d and %d", w.reqs[2]->kv.slot, w.reqs[3]->kv.slot);
	STEP(&w, "2:1! 3:1!");
	drop(&w, 2);
	STEP(&w, "3:1!");
	CHECK(sched_any(w.s) == NULL && kvpool_available(w.pool) == 5, "%d blocks are left",
		  kvpool_available(w.pool));
	world_free(&w);
}

/*
 * Requests come, finish, are preempted and aborted in any order; more of them than slots.  blocks: of a
 * hybrid; 0: no layer has a KV cache, and a block is a request.
 */
static void
test_slots_random(int blocks)
{
	const int	seqs = 6;
	World		w = world_new((SchedOptions) {.max_seqs = seqs, .max_rows = 24, .slots = true,
							  .block_size = blocks > 0 ? 16 : 1024}, blocks > 0 ? blocks : 2 * seqs);
	int			total = kvpool_total(w.pool);
	uint32_t	x = (uint32_t) blocks + 1;
	int			most = 0;

	for (int i = 0; i < 4000; i++)
	{
		int			id = (int) ((x = x * 1664525u + 1013904223u) >> 8) % MAX_REQS;

		if (w.reqs[id] == NULL)
			add(&w, id, (uint64_t) id % 5, 1 + (int) (x >> 20) % 40, 1 + (int) (x >> 14) % 24);
		else if (x >> 29 == 0)
			drop(&w, id);
		else
			step(&w);
		most = sched_n_running(w.s) > most ? sched_n_running(w.s) : most;
	}
	if (blocks == 0 || blocks > 4 * seqs)
		CHECK(most == seqs, "%d blocks: never more than %d run", blocks, most);
	else
		CHECK(sched_n_preemptions(w.s) > 0, "%d blocks: nobody was preempted", blocks);
	if (blocks == 0)
		CHECK(sched_n_preemptions(w.s) == 0, "%d preempted for want of blocks that only count",
			  (int) sched_n_preemptions(w.s));
	for (int i = 0; i < MAX_REQS; i++)
		if (w.reqs[i] != NULL)
			drop(&w, i);
	STEP(&w, "");				/* sched_check() counts the slots */
	CHECK(kvpool_available(w.pool) == total, "%d of %d blocks", kvpool_available(w.pool), total);
	world_free(&w);
}

static void
test_fits(void)
{
	World		w = world_new((SchedOptions) {.max_seqs = 4, .max_rows = 64}, 4);
	Err			e = {0};

	/* 4 blocks hold 64 tokens; the last output token needs no space */
	CHECK(sched_must_fit(w.s, 60, 5, &e), "65 tokens in 4 blocks");
	CHECK(!sched_must_fit(w.s, 60, 6, &e) && e.cls == ERR_TOO_LONG, "66 tokens in 4 blocks");
	CHECK(strcmp(e.msg, "request needs 5 KV cache blocks but the model has 4") == 0, "%s", e.msg);
	CHECK(strstr(e.detail, "prompt has 60 tokens, max_tokens is 6") != NULL, "%s", e.detail);
	world_free(&w);
}

int
main(void)
{
	for (int i = 0; i < 6; i++)
		RUN(test_fork_tail((int[]) {16, 32, 33}[i / 2], i % 2 == 0 ? 1 : 3));
	RUN(test_whole());
	RUN(test_chunks());
	RUN(test_serial());
	RUN(test_fairness());
	RUN(test_no_overtaking());
	RUN(test_preempt());
	RUN(test_refund());
	RUN(test_no_livelock());
	RUN(test_long());
	RUN(test_partial());
	for (int n = 80; n < 110; n++)
		RUN(test_long_end(n));
	RUN(test_forgotten());
	RUN(test_weights());
	RUN(test_seldom());
	for (int i = 1; i < 30; i += 7)
		RUN(test_passers_by(i));
	RUN(test_background());
	RUN(test_background_none());
	RUN(test_background_preempt());
	RUN(test_role_comes(1000, 8, 100));
	RUN(test_role_comes(60, 32, 100));
	RUN(test_role_comes(60, 32, 50));
	RUN(test_role_comes(60, 8, 300));
	RUN(test_role_blocks(100));
	RUN(test_role_blocks(300));
	RUN(test_role_one());
	for (int blocks = 6; blocks <= 30; blocks += 4)
		for (int seats = 2; seats <= 12; seats += 5)
			RUN(test_role_random(blocks, seats));
	RUN(test_priorities());
	RUN(test_preempt_priority());
	RUN(test_priorities_end());
	RUN(test_slots());
	RUN(test_slots_preempt());
	RUN(test_slots_random(0));
	RUN(test_slots_random(4));
	RUN(test_slots_random(8));
	RUN(test_slots_random(48));
	RUN(test_fits());
	return check_done("sched");
}
