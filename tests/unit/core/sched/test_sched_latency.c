/*
 * test_sched_latency.c
 *	  The scheduler's plans for latency work beside a large statement: rows and seats.
 */
#include "tests/unit/core/sched/sched_world.h"

/*
 * Throughput work decodes beside latency work as long as the step takes at most twice the latency work's own
 * time, and the target more; what stands back is first in the next step.
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
		add(&w, i, i == 1 ? 1 : 2, 1, 40);
		w.reqs[i]->in.work = i == 1 ? WORK_LATENCY : WORK_THROUGHPUT;
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
 * A large statement leaves a seat to latency work, once another session has had some beside it; before, and
 * alone, it has all.
 */
static void
test_latency_seat(void)
{
	World		w = world_new((SchedOptions) {.max_seqs = 8, .max_rows = 64}, 400);

	for (int i = 2; i <= 30; i++)
	{
		add(&w, i, 2, 4, 50);
		w.reqs[i]->in.work = WORK_THROUGHPUT;
	}
	for (int i = 0; i < 3; i++)
		step(&w);
	CHECK(sched_n_running(w.s) == 8, "%d of the statement run", sched_n_running(w.s));
	for (int round = 0; round < 3; round++)
	{
		int			waited = 0;

		add(&w, 1, 1, 4, 3);
		w.reqs[1]->in.work = WORK_LATENCY;
		while (w.reqs[1] != NULL && w.reqs[1]->sched.state == RQ_WAITING && waited < 200)
		{
			step(&w);
			waited++;
		}
		/* the first finds all seats taken, until the statement's answers end */
		CHECK(waited > 0 && (round == 0 ? waited < 60 : waited <= 2), "round %d: %d steps", round, waited);
		while (w.reqs[1] != NULL)
			step(&w);
	}
	world_free(&w);
}

int
main(void)
{
	RUN(test_latency_decodes());
	RUN(test_latency_seat());
	return check_done("test_sched_latency");
}
