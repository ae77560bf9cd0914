/*
 * test_hist.c
 *	  Histograms of requests: buckets, and what an event counts.
 */
#include <stdio.h>
#include <string.h>

#include "server/request_histograms.h"
#include "tests/unit/check.h"

static int64_t
count(const EntryCounters *n, WireHistId id)
{
	int64_t		total = 0;

	for (int i = 0; i < WIRE_HIST_BUCKETS; i++)
		total += n->hist[id].count[i];
	return total;
}

/* A value is in the first bucket whose bound is not below it. */
static void
test_buckets(void)
{
	for (int id = 0; id < WIRE_N_HISTS; id++)
	{
		int			n;
		const double *b = wire_hist_bounds(id, &n);
		int64_t		unit = wire_hist_is_time(id) ? 1000000 : 1;

		CHECK(n >= 5 && n < WIRE_HIST_BUCKETS, "%s has %d bounds", wire_hist_metric(id), n);
		for (int i = 0; i < n; i++)
		{
			int64_t		bound = (int64_t) (b[i] * (double) unit + 0.5);

			CHECK(i == 0 || b[i] > b[i - 1], "%s: bound %d", wire_hist_metric(id), i);
			CHECK(wire_hist_bucket(id, bound) == i, "%s: %g is in bucket %d", wire_hist_metric(id), b[i],
				  wire_hist_bucket(id, bound));
			CHECK(wire_hist_bucket(id, bound + 1) == i + 1, "%s: above %g", wire_hist_metric(id), b[i]);
		}
		CHECK(wire_hist_bucket(id, 0) == 0 && wire_hist_bucket(id, INT64_MAX) == n, "%s: ends",
			  wire_hist_metric(id));
	}
}

/* The core counts steps in the same buckets. */
static void
test_steps(void)
{
	int			n;

	(void) wire_hist_bounds(WH_ITERATION, &n);
	CHECK(n == STEP_SIZES - 1, "%d bounds", n);
	for (int i = 0; i < 20000; i++)
		CHECK(step_size(i) == wire_hist_bucket(WH_ITERATION, i), "a step of %d tokens", i);
}

static void
test_events(void)
{
	static EntryCounters n;
	int32_t		ids[2] = {7, 8};
	HistState	last = {0};
	ReqEvent	ev = {.ids = ids,.n_ids = 1,.prompt_tokens = 5,.cached_tokens = 3,.back_tokens = 2,
					  .output_tokens = 1,
	.arrival_us = 1000000,.scheduled_us = 1400000,.first_token_us = 2000000,.now_us = 2000000};

	hist_event(&n, &ev, &last);
	CHECK(n.prefilled_tokens == 5 && n.generated_tokens == 1, "tokens count as they come");
	CHECK(count(&n, WH_TTFT) == 1 && n.hist[WH_TTFT].sum == 1000000 && count(&n, WH_ITL) == 0,
		  "the first token");
	/* two tokens in one event, another choice's token, then the end without a token */
	ev.n_ids = 2;
	ev.output_tokens = 3;
	ev.now_us = 2060000;
	hist_event(&n, &ev, &last);
	CHECK(count(&n, WH_ITL) == 1 && n.hist[WH_ITL].sum == 60000, "the next ones");
	ev.index = 1;
	ev.now_us = 2070000;
	hist_event(&n, &ev, &last);
	CHECK(count(&n, WH_ITL) == 1 && last.last_us == 2060000, "another answer");
	CHECK(count(&n, WH_E2E) == 0 && n.ended[WE_STOP] == 0, "not ended");
	ev.index = 0;
	ev.n_ids = 0;
	ev.now_us = 3000000;
	ev.finish = FIN_STOP;
	hist_event(&n, &ev, &last);
	CHECK(n.ended[WE_STOP] == 1 && count(&n, WH_E2E) == 1 && n.hist[WH_E2E].sum == 2000000, "the end");
	CHECK(n.hist[WH_QUEUE].sum == 400000 && n.hist[WH_PREFILL].sum == 600000 &&
		  n.hist[WH_DECODE].sum == 1000000 && n.hist[WH_INFERENCE].sum == 1600000, "its parts");
	CHECK(n.hist[WH_PREFILL_KV].sum == 2 && n.reused_tokens == 3, "what was found needn't be computed");
	CHECK(n.back_tokens == 2, "where it was found");
	CHECK(n.hist[WH_PROMPT].sum == 5 && n.hist[WH_GENERATION].sum == 3 && n.hist[WH_TPOT].sum == 500000,
		  "tokens");
	CHECK(n.prefilled_tokens == 5 && n.generated_tokens == 3 && n.hist[WH_LONGEST].sum == 3, "tokens: %lld",
		  (long long) n.generated_tokens);
	/* a pooling request, one that never ran, one that failed */
	ev = (ReqEvent) {.finish = FIN_STOP,.prompt_tokens = 4,.arrival_us = 5,.now_us = 10};
	last = (HistState) {0};
	hist_event(&n, &ev, &last);
	CHECK(count(&n, WH_PROMPT) == 2 && count(&n, WH_GENERATION) == 1 && count(&n, WH_DECODE) == 1, "pooled");
	CHECK(n.prefilled_tokens == 9 && n.generated_tokens == 3, "its tokens");
	ev.finish = FIN_ERROR;
	last = (HistState) {0};
	hist_event(&n, &ev, &last);
	CHECK(n.prefilled_tokens == 9, "what fails before it was computed");
	ev.finish = FIN_ABORT;
	hist_event(&n, &ev, &last);
	CHECK(n.ended[WE_ERROR] == 1 && n.ended[WE_ABORT] == 1 && count(&n, WH_E2E) == 2,
		  "what fails has no times");
	/* clocks that run backwards */
	ev = (ReqEvent) {.finish = FIN_LENGTH,.arrival_us = 10,.scheduled_us = 5,.now_us = 1,.output_tokens = 2};
	hist_event(&n, &ev, &last);
	CHECK(n.ended[WE_LENGTH] == 1 && n.hist[WH_E2E].sum == 2000005, "no negative times");
}

/* Rows of one metric are adjacent, with one kind; counters have the right suffix; no row is duplicated. */
static void
test_figures(void)
{
	for (int i = 0; i < WIRE_N_FIGURES; i++)
	{
		const WireFigureDef *f = &wire_figures[i];
		size_t		n = strlen(f->metric);
		bool		total = n > 6 && strcmp(f->metric + n - 6, "_total") == 0;

		CHECK(f->help[0] != '\0', "%s says what it is", f->name);
		CHECK(n == 0 || total == (f->kind == WIRE_COUNTER), "%s: %s", f->name, f->metric);
		for (int j = 0; n > 0 && j < i; j++)
			if (strcmp(wire_figures[j].metric, f->metric) == 0)
			{
				CHECK(strcmp(wire_figures[i - 1].metric, f->metric) == 0, "rows of %s stand together",
					  f->metric);
				CHECK(wire_figures[j].kind == f->kind && strcmp(wire_figures[j].labels, f->labels) != 0,
					  "rows of %s differ by labels", f->metric);
			}
	}
}

int
main(void)
{
	RUN(test_buckets());
	RUN(test_steps());
	RUN(test_events());
	RUN(test_figures());
	return check_done("test_hist");
}
