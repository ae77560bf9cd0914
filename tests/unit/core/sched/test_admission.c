/*
 * test_admission.c
 *	  Limits of roles, and deadlines, with a fake model: requests in flight, over all sessions and
 *	  models; tokens per minute; which requests wait, and which are refused; cancelled, late and freed
 *	  while they wait.
 */
#include "core/core.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/alloc.h"
#include "core/core_internal.h"

#include "tests/unit/check.h"
#include "tests/unit/core_util.h"
#include "tests/unit/fake_model.h"

#define N 8

static Core *
new_core(CoreOptions opt, int max_model_len)
{
	Conf	   *conf = conf_new();
	Err			e = {0};
	Core	   *c = core_new(fake_model(max_model_len), tiny_tok(), conf, &opt, &e);

	conf_free(conf);
	if (c == NULL)
	{
		fprintf(stderr, "core_new: %s\n", e.msg);
		exit(2);
	}
	return c;
}

/* Caller of requests made from now on. */
static Caller by;
static int	timeout_ms;
static int	n_answers = 1;

static void
issue(Core *c, uint64_t id, uint64_t session, int n_prompt, int max_tokens, Rec *rec)
{
	ReqSpec		spec = {
		.id = id, .session = session, .by = by, .prompt = random_prompt((uint32_t) id, n_prompt),
		.sink = rec_sink, .sink_ctx = rec, .timeout_ms = timeout_ms
	};
	Err			e;

	spec.params = greedy_params(max_tokens);
	spec.params.out.n = n_answers;
	spec.params.temperature = n_answers > 1;
	if (timeout_ms > 0)
		spec.deadline_us = clock_us() + timeout_ms * 1000;
	if (!core_normalize(c, &spec.params, GP(TEMPERATURE) | GP(MAX_TOKENS), &spec.prompt, &e))
		exit(2);
	core_submit(c, &spec);
}

static void
step(Core *c)
{
	Err			e = {0};

	core_step(c);
	CHECK(core_check(c, &e), "%s", e.msg);
}

/* Run due steps until there is no work or `ms` milliseconds have passed. */
static void
run(Core *c, int ms)
{
	int64_t		end = clock_us() + ms * 1000;

	while (core_has_work(c) && clock_us() < end)
	{
		int64_t		due = core_next_due(c) - clock_us();

		if (due > 0)
			usleep((useconds_t) (due < 2000 ? due : 2000));
		else
			step(c);
	}
	CHECK(!core_has_work(c), "work is left");
}

static CoreStats
stats(const Core *c)
{
	CoreStats	st;

	core_stats(c, &st);
	return st;
}

static void
recs_free(Rec *rec)
{
	for (int i = 0; i < N; i++)
		rec_free(&rec[i]);
}

/*
 * Two requests of a role run, whatever their sessions; the next one starts when one has ended, another
 * role's at once.
 */
static void
test_in_flight(void)
{
	Core	   *c = new_core(options(8, 64, 200), 512);
	Rec			rec[N] = {0};

	by = (Caller) {.role = 1, .max_requests = 2, .wait_ms = -1};
	for (int i = 0; i < 5; i++)
		issue(c, (uint64_t) i, i < 3 ? 1 : 2, 5, 3 + i, &rec[i]);
	by.role = 2;
	issue(c, 5, 1, 5, 2, &rec[5]);
	by.role = 0;
	issue(c, 6, 1, 5, 2, &rec[6]);
	step(c);
	CHECK(stats(c).running == 4 && stats(c).waiting_deferred == 3, "%d run, %d wait", (int) stats(c).running,
		  (int) stats(c).waiting_deferred);
	CHECK(rec[0].ids.len == 1 && rec[1].ids.len == 1 && rec[5].ids.len == 1 && rec[6].ids.len == 1,
		  "others run");
	while (rec[0].finish == FIN_NONE)
		step(c);
	step(c);
	CHECK(rec[2].ids.len + rec[3].ids.len == 1, "one has come in");
	core_cancel(c, 4);
	step(c);
	CHECK(rec[4].finish == FIN_ABORT, "cancelled at the gate: %d", rec[4].finish);
	run(c, 10000);
	for (int i = 0; i < 7; i++)
		CHECK(i == 4 || (rec[i].finish == FIN_LENGTH && rec[i].late_events == 0), "request %d: %d", i,
			  rec[i].finish);
	CHECK(rec[3].scheduled_us > 0 && rec[3].scheduled_us <= rec[2].scheduled_us + 1000000,
		  "sessions in turn");
	core_free(c);
	recs_free(rec);
}

/* Requests of a job for its owner have no limits, and don't delay the owner's sessions. */
static void
test_jobs(void)
{
	Core	   *c = new_core(options(8, 64, 200), 512);
	Rec			rec[N] = {0};

	by = (Caller) {.role = 1, .background = true, .wait_ms = -1};
	for (int i = 0; i < 4; i++)
		issue(c, (uint64_t) i, 1, 5, 100, &rec[i]);
	by = (Caller) {.role = 1, .max_requests = 1, .wait_ms = 0};
	step(c);
	issue(c, 4, 2, 5, 3, &rec[4]);
	step(c);
	CHECK(rec[4].finish == FIN_NONE && rec[4].ids.len == 1, "a session beside a job: %d %s", rec[4].finish,
		  rec[4].err.msg);
	issue(c, 5, 2, 5, 3, &rec[5]);
	step(c);
	CHECK(rec[5].finish == FIN_ERROR && rec[5].err.cls == ERR_LIMIT, "two sessions: %d %s", rec[5].finish,
		  rec[5].err.msg);
	run(c, 10000);
	for (int i = 0; i < 5; i++)
		CHECK(rec[i].finish == FIN_LENGTH, "request %d: %d", i, rec[i].finish);
	core_free(c);
	recs_free(rec);
}

/* Several choices, or sequences, count as one request. */
static void
test_sequences(void)
{
	Core	   *c = new_core(options(8, 64, 200), 512);
	Rec			rec[N] = {0};

	by = (Caller) {.role = 1, .max_requests = 1, .wait_ms = -1};
	n_answers = 3;
	issue(c, 0, 1, 5, 4, &rec[0]);
	issue(c, 1, 1, 5, 4, &rec[1]);
	n_answers = 1;
	step(c);
	step(c);
	CHECK(stats(c).running == 3 && stats(c).waiting_deferred == 1, "%d run", (int) stats(c).running);
	core_cancel(c, 1);
	issue(c, 2, 1, 5, 4, &rec[2]);
	run(c, 10000);
	CHECK(rec[0].finish == FIN_LENGTH && rec[1].finish == FIN_ABORT && rec[2].finish == FIN_LENGTH,
		  "%d %d %d", rec[0].finish, rec[1].finish, rec[2].finish);
	core_free(c);
	recs_free(rec);
}

/* Requests that may not wait, or only for a limited time. */
static void
test_refused(void)
{
	Core	   *c = new_core(options(8, 64, 200), 512);
	Rec			rec[N] = {0};

	fake.base_us = 1000;
	by = (Caller) {.role = 1, .max_requests = 1, .wait_ms = 0};
	issue(c, 0, 1, 5, 500, &rec[0]);
	issue(c, 1, 1, 5, 4, &rec[1]);
	by.wait_ms = 200;
	issue(c, 2, 1, 5, 4, &rec[2]);
	step(c);
	CHECK(rec[1].finish == FIN_ERROR && rec[1].err.cls == ERR_LIMIT &&
		  strstr(rec[1].err.msg, "limit of 1 LLM requests in flight") != NULL, "%d %s", rec[1].finish,
		  rec[1].err.msg);
	CHECK(rec[2].finish == FIN_NONE, "the one that waits: %d", rec[2].finish);
	while (rec[0].finish == FIN_NONE && rec[2].finish == FIN_NONE)
		step(c);
	CHECK(rec[2].finish == FIN_ERROR && rec[2].err.cls == ERR_LIMIT && rec[2].ids.len == 0,
		  "waited too long: %d", rec[2].finish);
	fake.base_us = 0;
	run(c, 10000);
	CHECK(rec[0].finish == FIN_LENGTH, "%d", rec[0].finish);
	core_free(c);
	recs_free(rec);
}

/* Two models with the same accounts. */
typedef struct Two
{
	Accounts   *accounts;
	Core	   *a,
			   *b;
} Two;

/*
 * A role that may have one request in flight has one in model a, so another waits at the admission of b,
 * for `ms` or without limit.
 */
static Two
two_models(CoreOptions opt, int ms, Rec *rec)
{
	Two			t = {.accounts = accounts_new()};

	opt.accounts = t.accounts;
	t.a = new_core(opt, 512);
	t.b = new_core(opt, 512);
	by = (Caller) {.role = 1, .max_requests = 1, .wait_ms = -1};
	issue(t.a, 0, 1, 5, 3, &rec[0]);
	step(t.a);
	timeout_ms = ms;
	issue(t.b, 1, 1, 5, 3, &rec[1]);
	timeout_ms = 0;
	CHECK(core_next_due(t.b) == 0, "mail");
	step(t.b);
	step(t.b);
	return t;
}

/* An account counts over all models; the request that waits in the other one is admitted. */
static void
test_two_models(void)
{
	Rec			rec[N] = {0};
	Two			t = two_models(options(8, 64, 200), 0, rec);
	Core	   *a = t.a,
			   *b = t.b;

	CHECK(stats(b).waiting_deferred == 1 && core_next_due(b) == INT64_MAX, "due at %lld",
		  (long long) core_next_due(b));
	run(a, 10000);
	CHECK(core_next_due(b) == 0, "due at %lld", (long long) core_next_due(b));
	run(b, 10000);
	CHECK(rec[0].finish == FIN_LENGTH && rec[1].finish == FIN_LENGTH, "%d %d", rec[0].finish, rec[1].finish);
	/* the waiting request ends with its model */
	issue(a, 2, 1, 5, 3, &rec[2]);
	step(a);
	issue(b, 3, 1, 5, 3, &rec[3]);
	step(b);
	core_free(b);
	CHECK(rec[3].finish == FIN_ABORT, "%d", rec[3].finish);
	core_free(a);
	CHECK(rec[2].finish == FIN_ABORT, "%d", rec[2].finish);
	accounts_free(t.accounts);
	recs_free(rec);
}

/*
 * 600 tokens a minute are ten in a second: the bucket is overdrawn by four, so the next request waits
 * for 0.4 s.
 */
static void
test_tokens(void)
{
	Core	   *c = new_core(options(8, 2048, 200), 1024);
	Rec			rec[N] = {0};
	int64_t		start,
				took;

	by = (Caller) {.role = 1, .tokens_per_minute = 600, .wait_ms = -1};
	start = clock_us();
	issue(c, 0, 1, 600, 4, &rec[0]);
	run(c, 10000);
	issue(c, 1, 1, 5, 2, &rec[1]);
	by.wait_ms = 0;
	issue(c, 2, 1, 5, 2, &rec[2]);
	by.role = 2;
	issue(c, 3, 1, 5, 2, &rec[3]);
	step(c);
	step(c);
	/* only if the machine is not very busy */
	if (clock_us() - start < 350000)
	{
		CHECK(rec[1].ids.len == 0 && rec[3].finish == FIN_LENGTH, "another role has its own account");
		CHECK(rec[2].finish == FIN_ERROR && rec[2].err.cls == ERR_LIMIT &&
			  strstr(rec[2].err.msg, "600 LLM tokens per minute") != NULL &&
			  strstr(rec[2].err.detail, "begin in 0.") != NULL, "%s %s", rec[2].err.msg, rec[2].err.detail);
	}
	run(c, 10000);
	took = clock_us() - start;
	CHECK(rec[1].finish == FIN_LENGTH && took > 350000, "finish %d after %lld us", rec[1].finish,
		  (long long) took);
	core_free(c);
	recs_free(rec);
}

/*
 * In the queue, at the admission, in its prompt, while it generates: each request ends with its error,
 * and its blocks are free.
 */
static void
test_deadlines(void)
{
	Core	   *c = new_core(options(1, 16, 200), 2048);
	Rec			rec[N] = {0};

	fake.base_us = 1000;
	by = (Caller) {.role = 1, .max_requests = 2, .wait_ms = -1};
	timeout_ms = 30;
	issue(c, 0, 1, 5, 500, &rec[0]); /* generates */
	issue(c, 1, 1, 5, 500, &rec[1]); /* waits for a seat of max_seqs */
	issue(c, 2, 1, 5, 500, &rec[2]); /* waits at the admission */
	timeout_ms = 0;
	run(c, 10000);
	for (int i = 0; i < 3; i++)
		CHECK(rec[i].finish == FIN_ERROR && rec[i].err.cls == ERR_CANCELLED &&
			  strcmp(rec[i].err.detail, "The request took longer than 30 ms.") == 0, "request %d: %d %s", i,
			  rec[i].finish, rec[i].err.msg);
	CHECK(rec[0].ids.len < 40 && rec[1].scheduled_us == 0 && rec[2].scheduled_us == 0, "%zu tokens",
		  rec[0].ids.len);
	CHECK(stats(c).kv_blocks_used == 0 && stats(c).cancelled == 3, "%d blocks",
		  (int) stats(c).kv_blocks_used);
	by = (Caller) {0};
	timeout_ms = 30;
	issue(c, 3, 1, 1500, 500, &rec[3]);	/* in its prompt */
	run(c, 10000);
	CHECK(rec[3].err.cls == ERR_CANCELLED && rec[3].ids.len == 0, "%s", rec[3].err.msg);
	n_answers = 3;
	issue(c, 4, 1, 5, 500, &rec[4]);
	n_answers = 1;
	run(c, 10000);
	CHECK(rec[4].finish == FIN_ERROR && rec[4].err.cls == ERR_CANCELLED && rec[4].late_events == 0, "%d %s",
		  rec[4].finish, rec[4].err.msg);
	timeout_ms = 5000;
	issue(c, 5, 1, 5, 3, &rec[5]);
	run(c, 10000);
	CHECK(rec[5].finish == FIN_LENGTH && stats(c).kv_blocks_used == 0, "%d", rec[5].finish);
	timeout_ms = 0;
	fake.base_us = 0;
	core_free(c);
	recs_free(rec);
}

/* Only the request at the admission is left: the core sleeps until its deadline. */
static void
test_due(void)
{
	Rec			rec[N] = {0};
	Two			t = two_models(options(1, 16, 200), 300, rec);
	int64_t		due = core_next_due(t.b) - clock_us();

	CHECK(due > 0 && due <= 300000, "due in %lld us", (long long) due);
	run(t.b, 10000);
	CHECK(rec[1].err.cls == ERR_CANCELLED, "%s", rec[1].err.msg);
	core_free(t.a);
	core_free(t.b);
	accounts_free(t.accounts);
	recs_free(rec);
}

int
main(void)
{
	RUN(test_in_flight());
	RUN(test_jobs());
	RUN(test_sequences());
	RUN(test_refused());
	RUN(test_two_models());
	RUN(test_tokens());
	RUN(test_deadlines());
	RUN(test_due());
	return check_done("gate");
}
