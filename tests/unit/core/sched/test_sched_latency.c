/*
 * test_sched_latency.c
 *	  The scheduler's plans for latency work next to a large statement: rows and seats.
 */
#include "tests/unit/core/sched/sched_world.h"

/*
 * Throughput work decodes next to latency work as long as the step takes at most twice the latency
 * work's own time and the target more; work that is left out comes first in the next step.
 */
static void
test_latency_decodes(void)
{
	World		w = world_new((SchedOptions) {.max_seqs = 12, .max_rows = 64, .step_target_us = 200}, 100);
	int			last[MAX_REQS] = {0};

	for (int n = 1; n <= 16; n *= 2)
		sched_observe_step_time(w.s, n, n * 100);
	for (int i = 1; i <= 9; i++)
	{
		add_work = i == 1 ? WORK_LATENCY : WORK_THROUGHPUT;
		add(&w, i, i == 1 ? 1 : 2, 1, 40);
	}
	for (int i = 0; i < 5; i++)
		step(&w);
	for (int i = 1; i <= 30; i++)
	{
		int			rows = 0;

		step(&w);
		for (char *at = w.trace; *at != '\0'; at += strcspn(at, " "), at += *at == ' ')
		{
			last[atoi(at)] = i;
			rows++;
		}
		CHECK(last[1] == i && rows == 4, "step %d: \"%s\"", i, w.trace);
		for (int k = 2; k <= 9 && i >= 3; k++)
			CHECK(i - last[k] < 3, "step %d: request %d had its last row in step %d", i, k, last[k]);
	}
	drop(&w, 1);
	step(&w);
	CHECK(strlen(w.trace) == strlen("2:1! 3:1! 4:1! 5:1! 6:1! 7:1! 8:1! 9:1!"), "alone \"%s\"", w.trace);
	world_free(&w);
}

/*
 * A large statement leaves a seat for latency work, once another session has had some; before that, and
 * alone, it gets all.
 */
static void
test_latency_seat(void)
{
	World		w = world_new((SchedOptions) {.max_seqs = 8, .max_rows = 64}, 400);

	for (int i = 2; i <= 30; i++)
	{
		add_work = WORK_THROUGHPUT;
		add(&w, i, 2, 4, 50);
	}
	for (int i = 0; i < 3; i++)
		step(&w);
	CHECK(sched_n_running(w.s) == 8, "%d of the statement run", sched_n_running(w.s));
	for (int round = 0; round < 3; round++)
	{
		int			waited = 0;

		add_work = WORK_LATENCY;
		add(&w, 1, 1, 4, 3);
		while (w.reqs[1] != NULL && w.reqs[1]->sched.state == RQ_WAITING && waited < 200)
		{
			step(&w);
			waited++;
		}
		/* the first request finds all seats taken, until requests of the statement end */
		CHECK(waited > 0 && (round == 0 ? waited < 60 : waited <= 2), "round %d: %d steps", round, waited);
		while (w.reqs[1] != NULL)
			step(&w);
	}
	world_free(&w);
}

/* Return the time of a step with that trace, at 100 us a row; *first: rows of request 1 in it. */
static int
rows_of(const char *trace, int *first)
{
	int			rows = 0;

	*first = 0;
	for (const char *at = trace; *at != '\0'; at += strcspn(at, " "), at += *at == ' ')
	{
		int			n = atoi(strchr(at, ':') + 1);

		rows += n;
		if (atoi(at) == 1)
			*first += n;
	}
	return rows;
}

/*
 * A prompt of latency work, next to a statement whose rows decode and whose prompts wait: each of its
 * steps takes its own rows and at most a target more, and the statement makes progress in each.
 */
static void
test_latency_prompt(void)
{
	World		w = world_new((SchedOptions) {.max_seqs = 24, .max_rows = 256, .step_target_us = 400}, 800);

	for (int n = 1; n <= 256; n *= 2)
		sched_observe_step_time(w.s, n, n * 100);
	add_work = WORK_THROUGHPUT;
	for (int i = 2; i <= 60; i++)
		add(&w, i, 2, 40, 60);
	for (int i = 0; i < 12; i++)
		step(&w);
	for (int round = 0; round < 3; round++)
	{
		int			left = 70;
		int			steps = 0;
		int			rows = 0;

		add_work = WORK_LATENCY;
		add(&w, 1, 1, left, 6);
		while (left > 0 && steps < 200)
		{
			int			own;

			step(&w);
			rows += rows_of(w.trace, &own);
			left -= own;
			steps++;
			CHECK(own == 0 || rows_of(w.trace, &own) <= own + 4, "step \"%s\"", w.trace);
			CHECK(own == 0 || rows_of(w.trace, &own) > own, "the statement stands still: \"%s\"", w.trace);
		}
		/* the first one finds all seats taken; afterwards the plan knows about latency work */
		CHECK(round == 0 || rows <= 70 + 8 * 4 + 16, "round %d: %d rows in %d steps", round, rows, steps);
		while (w.reqs[1] != NULL)
			step(&w);
	}
	world_free(&w);
}

/* However much latency work there is, within a few steps other work has rows that decode, and prompts. */
static void
test_latency_stream(void)
{
	World		w = world_new((SchedOptions) {.max_seqs = 16, .max_rows = 32, .step_target_us = 400}, 800);
	int			ended = 0;

	for (int n = 1; n <= 64; n *= 2)
		sched_observe_step_time(w.s, n, n * 100);
	add_work = WORK_THROUGHPUT;
	for (int i = 1; i <= 20; i++)
		add(&w, i, 2, 40, 10);
	for (int i = 0; i < 4000 && ended < 20; i++)
	{
		add_work = WORK_LATENCY;
		for (int k = 30; k < 50; k++)
			if (w.reqs[k] == NULL)
				add(&w, k, (uint64_t) k, 50, 4);
		step(&w);
		ended = 0;
		for (int k = 1; k <= 20; k++)
			ended += w.reqs[k] == NULL;
	}
	CHECK(ended == 20, "%d of 20 have ended", ended);
	world_free(&w);
}

/* Without a target no step is shortened, however long it takes. */
static void
test_no_target(void)
{
	World		w = world_new((SchedOptions) {.max_seqs = 8, .max_rows = 256}, 800);

	for (int n = 1; n <= 256; n *= 2)
		sched_observe_step_time(w.s, n, n * 100000);
	add_work = WORK_LATENCY;
	add(&w, 1, 1, 20, 40);
	add_work = WORK_THROUGHPUT;
	add(&w, 2, 2, 20, 40);
	STEP(&w, "1:20! 2:20!");
	add(&w, 3, 2, 100, 40);
	add_work = WORK_LATENCY;
	add(&w, 4, 1, 100, 40);
	STEP(&w, "1:1! 2:1! 4:100! 3:100!");
	world_free(&w);
}

int
main(void)
{
	RUN(test_latency_decodes());
	RUN(test_latency_seat());
	RUN(test_latency_prompt());
	RUN(test_latency_stream());
	RUN(test_no_target());
	return check_done("test_sched_latency");
}
