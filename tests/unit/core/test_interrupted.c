/*
 * test_interrupted.c
 *	  Steps that are paused for another model's step: the same outputs as alone, and each step's own
 *	  time.
 *
 * Two cores of the bundled model, on the same compute threads.  One has long prompts; whenever its step
 * is between two operations, the other one makes a step.
 */
#include "base/clock.h"
#include "backend/weight_source.h"
#include "core/core_state.h"
#include "tests/unit/check.h"
#include "tests/unit/core_util.h"

#define MODEL	"models/tickets-2m"
#define REQS	6

typedef struct Interrupter
{
	Core	   *other;
	int			n_calls;		/* calls between two operations */
	int			steps;			/* steps of the other core made there */
} Interrupter;

static Core *
open_core(KPool *pool)
{
	CoreOptions o = {
		.max_num_seqs = 16, .max_num_batched_tokens = 512, .block_size = 16, .kv_blocks = 400,
		.kv_type = KT_F32, .pool = pool, .kernels = kernels_select(NULL, NULL), .huge = HUGE_OFF
	};
	ModelOptions mo = {.kernels = o.kernels, .pool = pool, .max_rows = 512, .max_out = 16, .huge = HUGE_OFF};
	Err			e = {0};
	Files	   *f = files_open(MODEL, &e);
	Source		source = {.files = f};
	ModelSource src = source_of(&source);
	Model	   *m = f != NULL ? model_new(files_conf(f), &src, &mo, &e) : NULL;
	Core	   *c = m != NULL ? core_new(m, source_tok(f, &e), files_conf(f), &o, &e) : NULL;

	if (c == NULL)
	{
		fprintf(stderr, "%s: %s\n", MODEL, e.msg);
		exit(2);
	}
	source_done(&source);
	files_close(f);
	return c;
}

static void
issue(Core *c, unsigned seed, int n_prompt, int max_tokens, Rec *recs)
{
	for (int i = 0; i < REQS; i++)
		submit(c, (uint64_t) i + 1, 1, random_prompt(seed + (uint32_t) i, n_prompt),
			   greedy_params(max_tokens), GP(TEMPERATURE) | GP(MAX_TOKENS) | GP(IGNORE_EOS), &recs[i]);
}

static void
on_progress(void *ctx, bool between)
{
	Interrupter *i = ctx;

	CHECK(between, "on CPUs it is always between two operations");
	i->n_calls++;
	i->steps += core_step(i->other);
}

static void
run(Core *c)
{
	while (core_has_work(c))
		core_step(c);
}

static void
same(const Rec *a, const Rec *b, const char *which)
{
	for (int i = 0; i < REQS; i++)
		CHECK(a[i].finish == FIN_LENGTH && b[i].finish == FIN_LENGTH && a[i].ids.len == b[i].ids.len &&
			  memcmp(a[i].ids.data, b[i].ids.data, a[i].ids.len * sizeof(int32_t)) == 0,
			  "%s, request %d: %zu and %zu tokens", which, i, a[i].ids.len, b[i].ids.len);
}

static void
test_interrupted(int threads)
{
	KPool	   *pool = kpool_new(threads);
	Core	   *c = open_core(pool);
	Core	   *d = open_core(pool);
	Rec			alone[REQS] = {0};
	Rec			alone_d[REQS] = {0};
	Rec			rec[REQS] = {0};
	Rec			rec_d[REQS] = {0};
	Interrupter i = {.other = d};
	CoreStats	before;
	CoreStats	after;
	int64_t		start;
	int64_t		us;
	Err			e = {0};

	issue(c, 1, 400, 5, alone);
	run(c);
	issue(d, 100, 30, 40, alone_d);
	run(d);

	core_on_progress(c, on_progress, &i);
	core_stats(c, &before);
	issue(d, 100, 30, 40, rec_d);
	start = clock_us();
	for (int round = 0; round < 3 && core_has_work(d); round++)
	{
		for (int k = 0; k < REQS; k++)
			rec_free(&rec[k]);
		issue(c, 1, 400, 5, rec);
		run(c);
		same(alone, rec, "interrupted");
	}
	us = clock_us() - start;
	core_stats(c, &after);
	run(d);
	same(alone_d, rec_d, "between the other's operations");
	CHECK(i.n_calls > 0 && i.steps > 0, "asked %d times, %d steps", i.n_calls, i.steps);
	us -= after.step_us - before.step_us;
	CHECK(us >= 0, "steps of the first took longer than all together: %lld us", (long long) -us);
	CHECK(core_check(c, &e) && core_check(d, &e), "%s", e.msg);
	for (int k = 0; k < REQS; k++)
	{
		rec_free(&alone[k]);
		rec_free(&alone_d[k]);
		rec_free(&rec[k]);
		rec_free(&rec_d[k]);
	}
	core_free(c);
	core_free(d);
	kpool_free(pool);
}

int
main(void)
{
	RUN(test_interrupted(1));
	RUN(test_interrupted(2));
	return check_done("test_interrupted");
}
