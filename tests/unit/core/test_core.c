/*
 * test_core.c
 *	  The core with a fake model: life of a request, cancel in every state, errors of one request alone,
 *	  statistics, and random traffic with core_check() after each step.
 */
#include "core/core.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/alloc.h"
#include "core/core_internal.h"
#include "core/output/output_queue.h"

#include "tests/unit/check.h"
#include "tests/unit/core_util.h"
#include "tests/unit/fake_model.h"

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

static bool
run_checked(Core *c)
{
	Err			e = {0};
	int			steps = 0;

	while (core_has_work(c) && steps++ < 100000)
	{
		core_step(c);
		if (!core_check(c, &e))
		{
			fprintf(stderr, "after step %d: %s\n", steps, e.msg);
			return false;
		}
	}
	return !core_has_work(c);
}

static int64_t
used_blocks(const Core *c)
{
	CoreStats	st;

	core_stats(c, &st);
	return st.kv_blocks_used;
}

/* ---- one request ---- */

static void
test_one(void)
{
	Core	   *c = new_core(options(4, 64, 50), 512);
	Rec			rec = {0};
	CoreStats	st;

	CHECK(!core_step(c) && !core_has_work(c), "an idle core has work");
	submit(c, 1, 1, random_prompt(1, 100), greedy_params(20), GP(TEMPERATURE) | GP(MAX_TOKENS), &rec);
	core_stats(c, &st);
	CHECK(core_has_work(c) && st.waiting == 1 && st.requests == 1, "waiting %lld", (long long) st.waiting);
	CHECK(core_step(c) && rec.events == 0, "100 rows in a step of 64");
	CHECK(core_step(c) && rec.events == 1 && rec.ids.len == 1, "first token in step 2: %d", rec.events);
	CHECK(run_checked(c), "run");
	CHECK(rec.finish == FIN_LENGTH && rec.ids.len == 20 && rec.output_tokens == 20 && !rec.has_reason,
		  "finish %d after %zu", rec.finish, rec.ids.len);
	CHECK(rec.arrival_us > 0 && rec.scheduled_us >= rec.arrival_us && rec.first_token_us >= rec.scheduled_us,
		  "times %lld %lld %lld", (long long) rec.arrival_us, (long long) rec.scheduled_us,
		  (long long) rec.first_token_us);
	core_stats(c, &st);
	CHECK(st.generate_us == st.step_us, "generation took %lld of %lld us", (long long) st.generate_us,
		  (long long) st.step_us);
	CHECK(st.steps == 21 && st.step_rows == 119 && st.finished == 1 && st.prompt_tokens == 100 &&
		  st.output_tokens == 20 && st.kv_blocks_used == 0 && st.kv_blocks_total == 50,
		  "steps %lld rows %lld", (long long) st.steps, (long long) st.step_rows);
	core_free(c);
	rec_free(&rec);
}

/* Outputs end at the context's length, and its last token is used. */
static void
test_context_length(void)
{
	Core	   *c = new_core(options(4, 64, 50), 48);
	Rec			rec = {0};

	submit(c, 1, 1, random_prompt(1, 40), greedy_params(100), GP(TEMPERATURE) | GP(MAX_TOKENS), &rec);
	CHECK(run_checked(c) && rec.finish == FIN_LENGTH && rec.ids.len == 8, "%zu tokens", rec.ids.len);
	core_free(c);
	rec_free(&rec);
}

static void
test_eos(void)
{
	Core	   *c = new_core(options(4, 64, 50), 512);
	GenParams	p = greedy_params(50);
	Rec			a = {0},
				b = {0};

	fake.bias_id = TINY_EOS;
	fake.bias = 100;
	p.ignore_eos = false;
	submit(c, 1, 1, random_prompt(1, 5), p, GP(TEMPERATURE) | GP(MAX_TOKENS), &a);
	p.min_tokens = 6;
	submit(c, 2, 1, random_prompt(1, 5), p, GP(TEMPERATURE) | GP(MAX_TOKENS), &b);
	CHECK(run_checked(c), "run");
	CHECK(a.finish == FIN_STOP && a.ids.len == 1 && !a.has_reason && a.text.len == 0,
		  "finish %d after %zu", a.finish, a.ids.len);
	CHECK(b.finish == FIN_STOP && b.ids.len == 7 && b.ids.data[6] == TINY_EOS,
		  "min_tokens 6, EOS wanted: %zu tokens", b.ids.len);
	fake.bias = 0;
	core_free(c);
	rec_free(&a);
	rec_free(&b);
}

/* ---- cancel ---- */

static Core *hook_core;
static uint64_t hook_id;

static void
cancel_hook(void)
{
	core_cancel(hook_core, hook_id);
}

static void
test_cancel(void)
{
	Core	   *c = new_core(options(1, 64, 50), 512);
	Rec			rec[4];

	memset(rec, 0, sizeof(rec));
	/* in the inbox; waiting; in the middle of a prompt; while decoding */
	submit(c, 1, 1, random_prompt(1, 10), greedy_params(20), GP(TEMPERATURE) | GP(MAX_TOKENS), &rec[0]);
	core_cancel(c, 1);
	core_cancel(c, 99);			/* unknown: no-op */
	CHECK(core_step(c) && rec[0].finish == FIN_ABORT && rec[0].ids.len == 0, "inbox: %d", rec[0].finish);

	submit(c, 2, 1, random_prompt(1, 100), greedy_params(20), GP(TEMPERATURE) | GP(MAX_TOKENS), &rec[1]);
	submit(c, 3, 1, random_prompt(1, 10), greedy_params(20), GP(TEMPERATURE) | GP(MAX_TOKENS), &rec[2]);
	core_step(c);
	core_cancel(c, 3);
	core_cancel(c, 3);
	core_cancel(c, 2);
	core_step(c);
	CHECK(rec[1].finish == FIN_ABORT && rec[2].finish == FIN_ABORT && rec[2].events == 1 &&
		  used_blocks(c) == 0, "prompt %d, waiting %d", rec[1].finish, rec[2].finish);

	/* during a forward: the token of that step is dropped */
	submit(c, 4, 1, random_prompt(1, 10), greedy_params(20), GP(TEMPERATURE) | GP(MAX_TOKENS), &rec[3]);
	core_step(c);
	core_step(c);
	hook_core = c;
	hook_id = 4;
	fake.hook = cancel_hook;
	core_step(c);
	fake.hook = NULL;
	CHECK(rec[3].finish == FIN_ABORT && rec[3].ids.len == 2 && used_blocks(c) == 0 && !core_has_work(c),
		  "decoding: finish %d after %zu tokens", rec[3].finish, rec[3].ids.len);
	CHECK(run_checked(c), "run");
	for (int i = 0; i < 4; i++)
	{
		CHECK(rec[i].late_events == 0, "request %d: %d late events", i, rec[i].late_events);
		rec_free(&rec[i]);
	}
	core_free(c);
}

/* core_free() ends the remaining requests. */
static void
test_free(void)
{
	Core	   *c = new_core(options(1, 64, 50), 512);
	Rec			rec[3];

	memset(rec, 0, sizeof(rec));
	submit(c, 1, 1, random_prompt(1, 100), greedy_params(20), GP(TEMPERATURE) | GP(MAX_TOKENS), &rec[0]);
	submit(c, 2, 1, random_prompt(1, 100), greedy_params(20), GP(TEMPERATURE) | GP(MAX_TOKENS), &rec[1]);
	core_step(c);
	submit(c, 3, 1, random_prompt(1, 100), greedy_params(20), GP(TEMPERATURE) | GP(MAX_TOKENS), &rec[2]);
	core_free(c);
	for (int i = 0; i < 3; i++)
	{
		CHECK(rec[i].finish == FIN_ABORT && rec[i].events == 1, "request %d: %d", i, rec[i].finish);
		rec_free(&rec[i]);
	}
}

static void
note_end(void *ctx, Req *r, const ReqEvent *ev)
{
	ReqEvent   *last = ctx;

	(void) r;
	*last = *ev;
}

static void
no_stop(void *ctx, uint64_t id, int index)
{
	(void) ctx;
	(void) id;
	(void) index;
}

/* A request whose output is complete can't fail any more because of a token that was computed in vain. */
static void
test_late_error(void)
{
	static const struct
	{
		ReqFinish	late,
					seen;
		int			forgiven;
	}			cases[] = {
		{FIN_ERROR, FIN_STOP, 1}, {FIN_LENGTH, FIN_STOP, 1}, {FIN_ABORT, FIN_ABORT, 1}
	};
	Deliver    *d = deliver_new(false, NULL, no_stop, NULL);

	for (int i = 0; i < 3; i++)
	{
		ReqEvent	ev = {0};
		Req		   *r = mem_zalloc(sizeof(*r));
		OutputItem	p = {.r = r, .id = -1, .ev.output_tokens = 7, .res = {cases[i].late, NULL}};

		r->in.sink = note_end;
		r->in.sink_ctx = &ev;
		r->out.ended = true;
		r->out.end = (OutResult) {.finish = FIN_STOP, .reason = "."};
		r->out.end_output = 6;
		if (cases[i].late == FIN_ERROR)
		{
			p.err = mem_zalloc(sizeof(Err));
			err_set(p.err, ERR_INTERNAL, "model produced non-finite logits");
		}
		deliver_add(d, &p);
		CHECK(ev.finish == cases[i].seen && ev.err == NULL && ev.output_tokens == 6, "case %d: finish %d", i,
			  ev.finish);
		CHECK(deliver_forgiven(d) == cases[i].forgiven, "case %d: %lld forgiven", i,
			  (long long) deliver_forgiven(d));
	}
	deliver_free(d);
}

/* ---- errors of one request alone ---- */

static void
test_nan(void)
{
	Core	   *c = new_core(options(4, 64, 50), 512);
	IntVec		bad = random_prompt(1, 20);
	Rec			a = {0},
				b = {0};

	bad.data[3] = FAKE_NAN;
	submit(c, 1, 1, bad, greedy_params(20), GP(TEMPERATURE) | GP(MAX_TOKENS), &a);
	submit(c, 2, 1, random_prompt(2, 20), greedy_params(20), GP(TEMPERATURE) | GP(MAX_TOKENS), &b);
	CHECK(run_checked(c), "run");
	CHECK(a.finish == FIN_ERROR && a.err.cls == ERR_INTERNAL &&
		  strcmp(a.err.msg, "model produced non-finite logits") == 0, "finish %d: %s", a.finish, a.err.msg);
	CHECK(b.finish == FIN_LENGTH && b.ids.len == 20, "its batch mate: %d", b.finish);
	core_free(c);
	rec_free(&a);
	rec_free(&b);
}

/* core_submit() refuses requests that core_normalize() would have refused, and stays intact. */
static void
test_refused(void)
{
	Core	   *c = new_core(options(4, 64, 4), 512);
	Rec			rec[4];

	memset(rec, 0, sizeof(rec));
	for (int i = 0; i < 4; i++)
	{
		ReqSpec		spec = {.id = 7, .prompt = random_prompt(1, i == 0 ? 0 : i == 1 ? 600 : 20),
		.params = greedy_params(i == 2 ? 100 : 10), .sink = rec_sink, .sink_ctx = &rec[i]};

		core_submit(c, &spec);
		if (i == 3)
		{
			Rec			twin = {0};

			spec = (ReqSpec) {.id = 7, .prompt = random_prompt(1, 5), .params = greedy_params(10),
				.sink = rec_sink, .sink_ctx = &twin};
			core_submit(c, &spec);
			CHECK(run_checked(c), "run");
			CHECK(twin.finish == FIN_ERROR, "same id twice: %d", twin.finish);
			rec_free(&twin);
		}
	}
	CHECK(rec[0].err.cls == ERR_INTERNAL && rec[1].err.cls == ERR_TOO_LONG, "%s; %s", rec[0].err.msg,
		  rec[1].err.msg);
	CHECK(rec[2].err.cls == ERR_TOO_LONG &&
		  strstr(rec[2].err.msg, "needs 8 KV cache blocks but the model has 4"), "%s", rec[2].err.msg);
	CHECK(rec[3].finish == FIN_LENGTH, "%d", rec[3].finish);
	core_free(c);
	for (int i = 0; i < 4; i++)
		rec_free(&rec[i]);
}

static void
test_options(void)
{
	static const struct
	{
		CoreOptions opt;
		ErrClass	cls;
		const char *msg;
	}			t[] = {
		{{.max_num_seqs = 0, .max_num_batched_tokens = 8, .block_size = 16, .kv_blocks = 8},
		ERR_INVALID, "max_num_seqs must be at least 1, got 0"},
		{{.max_num_seqs = 16, .max_num_batched_tokens = 8, .block_size = 16, .kv_blocks = 8},
		ERR_INVALID, "max_num_batched_tokens must be at least max_num_seqs (16), got 8"},
		{{.max_num_seqs = 1, .max_num_batched_tokens = 8, .block_size = 24, .kv_blocks = 8},
		ERR_INVALID, "block_size must be a multiple of 16, got 24"},
		{{.max_num_seqs = 1, .max_num_batched_tokens = 8, .block_size = 16, .kv_bytes = 100},
		ERR_INVALID, "KV cache of 100 bytes is too small"},
		{{.max_num_seqs = 1, .max_num_batched_tokens = 8, .block_size = 16, .kv_blocks = 8,
		  .max_model_len = 1000},
		ERR_INVALID, "max_model_len must be between 0 and the model's 512, got 1000"},
	};
	Conf	   *conf = conf_new();

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
	{
		Err			e = {0};
		Core	   *c = core_new(fake_model(512), tiny_tok(), conf, &t[i].opt, &e);

		CHECK(c == NULL && e.cls == t[i].cls && strcmp(e.msg, t[i].msg) == 0, "case %zu: %s", i, e.msg);
	}
	conf_free(conf);
}

/* ---- random traffic ---- */

static uint32_t rnd_state = 4711;

static uint32_t
rnd(uint32_t n)
{
	rnd_state = rnd_state * 1664525u + 1013904223u;
	return (rnd_state >> 8) % n;
}

#define N_RANDOM 400

static void
submit_random(Core *c, uint64_t id, Rec *rec)
{
	GenParams	p = greedy_params(1 + (int) rnd(60));

	if (rnd(2))
	{
		p.temperature = 1;
		p.top_k = (int) rnd(3) * 10;
		p.seed = (int64_t) id;
		p.has_seed = true;
	}
	p.ignore_eos = rnd(2);
	submit(c, id, rnd(5), random_prompt(rnd(1000), 1 + (int) rnd(80)), p, ~0u, rec);
}

/* Submits, steps and cancels in random order; a small pool preempts often. */
static void
test_random(CoreOptions opt)
{
	Core	   *c = new_core(opt, 512);
	Rec		   *rec = mem_zalloc(N_RANDOM * sizeof(Rec));
	int			next = 0,
				bad = 0,
				unfinished = 0,
				late = 0;
	Err			e = {0};
	CoreStats	st;

	while (next < N_RANDOM && bad == 0)
	{
		switch (rnd(4))
		{
			case 0:
				submit_random(c, (uint64_t) next, &rec[next]);
				next++;
				break;
			case 1:
				if (next > 0 && rnd(4) == 0)
					core_cancel(c, rnd((uint32_t) next));
				break;
			default:
				core_step(c);
				bad += !core_check(c, &e);
		}
	}
	CHECK(bad == 0 && run_checked(c), "%s", e.msg);
	core_stats(c, &st);
	core_free(c);				/* and all events have been emitted */
	for (int i = 0; i < N_RANDOM; i++)
	{
		unfinished += rec[i].finish == FIN_NONE;
		late += rec[i].late_events + (rec[i].ids.len != (size_t) rec[i].output_tokens);
		rec_free(&rec[i]);
	}
	CHECK(unfinished == 0 && late == 0, "%d unfinished, %d with late events or repeated ids", unfinished,
		  late);
	CHECK(st.finished + st.cancelled == N_RANDOM && st.cancelled > 10 && st.failed == 0 &&
		  st.kv_blocks_used == 0 && st.running == 0 && st.waiting == 0, "finished %lld, cancelled %lld",
		  (long long) st.finished, (long long) st.cancelled);
	CHECK(st.max_batch <= opt.max_num_seqs && fake.max_rows_seen <= opt.max_num_batched_tokens,
		  "batch of %lld, %d rows", (long long) st.max_batch, fake.max_rows_seen);
	if (opt.kv_blocks == 0)
		CHECK(st.preemptions == 0, "%lld preemptions", (long long) st.preemptions);
	else if (opt.kv_blocks <= 12 && opt.max_num_seqs > 1)
		CHECK(st.preemptions > 20, "only %lld preemptions", (long long) st.preemptions);
	CHECK(fake.bad_slots == 0, "%d slots of other positions were read", fake.bad_slots);
	fake.max_rows_seen = 0;
	mem_free(rec);
}

/* ---- output thread next to the steps ---- */

#define N_STOPPED 150

static atomic_int slow_ends;

static void
slow_sink(void *ctx, Req *r, const ReqEvent *ev)
{
	rec_sink(ctx, r, ev);
	if (r->in.id % 3 == 0)
		usleep(300);			/* so that the steps run ahead */
	atomic_fetch_add(&slow_ends, ev->finish != FIN_NONE);
}

static void
submit_stopped(Core *c, uint64_t id, Rec *rec, bool slow)
{
	static const char *const stops[] = {"w2", "o", "stop"};
	ReqSpec		spec = {.id = id, .session = id % 4,
						.prompt = random_prompt((uint32_t) id, 1 + (int) (id % 40)),
	.sink = slow ? slow_sink : rec_sink, .sink_ctx = rec};
	GenParams	p = greedy_params(1 + (int) (id % 50));
	Err			e;

	p.temperature = 1;
	p.has_seed = true;
	p.seed = (int64_t) id;
	p.include_stop = id % 2;
	p.min_tokens = id % 5 == 0 ? p.max_tokens / 2 : 0;
	p.n_stop = 1 + (int) (id % 2);
	p.stop = mem_zalloc(2 * sizeof(char *));
	p.stop_len = mem_zalloc(2 * sizeof(size_t));
	for (int i = 0; i < p.n_stop; i++)
	{
		p.stop[i] = mem_strdup(stops[(id + (uint64_t) i) % 3]);
		p.stop_len[i] = strlen(p.stop[i]);
	}
	if (!core_normalize(c, &p, ~0u, &spec.prompt, &e))
	{
		fprintf(stderr, "core_normalize: %s\n", e.msg);
		exit(2);
	}
	spec.params = p;
	core_submit(c, &spec);
}

/* Run all of them, with core_check() after each step; *st: the statistics at the end. */
static Rec *
run_stopped(CoreOptions opt, CoreStats *st)
{
	Core	   *c = new_core(opt, 512);
	Rec		   *rec = mem_zalloc(N_STOPPED * sizeof(Rec));

	for (int i = 0; i < N_STOPPED; i++)
		submit_stopped(c, (uint64_t) i, &rec[i], opt.overlap);
	CHECK(run_checked(c), "run");
	core_stats(c, st);
	CHECK(st->kv_blocks_used == 0 && st->running == 0, "%lld blocks left", (long long) st->kv_blocks_used);
	for (int i = 0; opt.overlap && i < 10000 && atomic_load(&slow_ends) < N_STOPPED; i++)
		usleep(1000);
	core_stats(c, st);
	core_free(c);
	return rec;
}

/* Tokens after a stop string that was found late are never emitted nor counted. */
static void
test_overlap(CoreOptions opt)
{
	CoreStats	st[2];
	Rec		   *at_once = run_stopped(opt, &st[0]);
	Rec		   *beside;
	int			by_string = 0;
	int64_t		tokens = 0;

	opt.overlap = true;
	beside = run_stopped(opt, &st[1]);
	for (int i = 0; i < N_STOPPED; i++)
	{
		const Rec  *a = &at_once[i],
				   *b = &beside[i];

		CHECK(a->finish == b->finish && a->output_tokens == b->output_tokens && a->ids.len == b->ids.len &&
			  memcmp(a->ids.data, b->ids.data, a->ids.len * sizeof(int32_t)) == 0 &&
			  (size_t) b->output_tokens == b->ids.len && b->late_events == 0,
			  "request %d: finish %d after %d tokens, %d after %d beside the steps", i, a->finish,
			  a->output_tokens, b->finish, b->output_tokens);
		CHECK(a->text.len == b->text.len &&
			  (a->text.len == 0 || memcmp(a->text.data, b->text.data, a->text.len) == 0) &&
			  strcmp(a->reason, b->reason) == 0, "request %d: text, or reason \"%s\" against \"%s\"", i,
			  a->reason, b->reason);
		by_string += b->has_reason;
		tokens += b->output_tokens;
		rec_free(&at_once[i]);
		rec_free(&beside[i]);
	}
	CHECK(by_string > 40 && by_string < N_STOPPED, "%d ended by a string", by_string);
	CHECK(st[0].output_tokens == tokens && st[1].output_tokens == tokens && st[1].finished == N_STOPPED,
		  "%lld tokens counted at once, %lld beside, %lld seen", (long long) st[0].output_tokens,
		  (long long) st[1].output_tokens, (long long) tokens);
	CHECK(st[1].step_rows > st[0].step_rows, "nothing was computed in vain: %lld rows",
		  (long long) st[1].step_rows);
	mem_free(at_once);
	mem_free(beside);
}

/* ---- threads ---- */

typedef struct Submitter
{
	Core	   *c;
	uint64_t	first_id;
	Rec			rec[60];
} Submitter;

static void *
submitter_main(void *arg)
{
	Submitter  *s = arg;
	CoreStats	st;

	for (int i = 0; i < 60; i++)
	{
		GenParams	p = greedy_params(5);

		submit(s->c, s->first_id + (uint64_t) i, s->first_id, random_prompt((uint32_t) i, 10 + i), p, ~0u,
			   &s->rec[i]);
		if (i % 7 == 3)
			core_cancel(s->c, s->first_id + (uint64_t) i - 1);
		core_stats(s->c, &st);
		usleep(50);
	}
	return NULL;
}

static void
test_threads(void)
{
	Core	   *c = new_core(options(8, 64, 30), 512);
	Submitter  *sub = mem_zalloc(3 * sizeof(Submitter));
	pthread_t	t[3];
	CoreStats	st;
	int64_t		deadline = clock_us() + 30000000;
	int			ended = 0;

	for (int i = 0; i < 3; i++)
	{
		sub[i].c = c;
		sub[i].first_id = (uint64_t) (i + 1) * 1000;
		pthread_create(&t[i], NULL, submitter_main, &sub[i]);
	}
	while (clock_us() < deadline)
	{
		core_step(c);
		core_stats(c, &st);
		if (st.finished + st.cancelled == 180)
			break;
	}
	for (int i = 0; i < 3; i++)
	{
		pthread_join(t[i], NULL);
		for (int j = 0; j < 60; j++)
		{
			ended += sub[i].rec[j].finish != FIN_NONE;
			rec_free(&sub[i].rec[j]);
		}
	}
	CHECK(ended == 180 && !core_has_work(c), "%d of 180 ended", ended);
	core_free(c);
	mem_free(sub);
}

/*
 * Steps stay near the target while an output is streamed, else near 16 times the target: a long prompt
 * is split by the measured speed.  Returns the largest step's rows.
 */
static int
long_prompt(bool watched)
{
	CoreOptions opt = options(4, 2048, 300);
	ReqSpec		spec = {.id = 2, .session = 2, .prompt = random_prompt(2, 10), .params = greedy_params(500),
		.stream = true, .sink = rec_sink};
	Core	   *c;
	Rec			rec = {0},
				stream = {0};

	opt.step_target_us = watched ? 20000 : 5000;
	c = new_core(opt, 4096);
	fake.base_us = 1000;
	fake.row_us = 100;			/* 190 rows in 20 ms, 790 in 80 ms */
	spec.sink_ctx = &stream;
	if (watched)
	{
		core_submit(c, &spec);
		/* until the time of its steps has been learnt */
		for (int i = 0; i < 10; i++)
			core_step(c);
	}
	else
	{
		genparams_free(&spec.params);
		intvec_free(&spec.prompt);
	}
	fake.max_rows_seen = 0;
	submit(c, 1, 1, random_prompt(1, 4000), greedy_params(2), ~0u, &rec);
	for (int i = 0; rec.finish == FIN_NONE && i < 400; i++)
		core_step(c);
	CHECK(rec.finish == FIN_LENGTH, "the prompt isn't through");
	core_cancel(c, 2);
	while (core_has_work(c))
		core_step(c);
	fake.base_us = fake.row_us = 0;
	rec_free(&rec);
	rec_free(&stream);
	core_free(c);
	return fake.max_rows_seen;
}

static void
test_step_time(void)
{
	int			watched = long_prompt(true);
	int			unwatched = long_prompt(false);

	CHECK(watched > 60 && watched < 300, "a step of %d rows beside a stream", watched);
	CHECK(unwatched >= 300 && unwatched < 1200, "a step of %d rows", unwatched);
	fake.max_rows_seen = 0;
}

int
main(void)
{
	CoreOptions chunked = options(8, 64, 60);
	CoreOptions beside = options(8, 64, 12);

	chunked.max_chunk = 7;
	RUN(test_one());
	RUN(test_context_length());
	RUN(test_eos());
	RUN(test_cancel());
	RUN(test_free());
	RUN(test_late_error());
	RUN(test_nan());
	RUN(test_refused());
	RUN(test_options());
	fake.max_rows_seen = 0;
	RUN(test_random(options(8, 64, 200)));
	RUN(test_random(options(8, 64, 12)));
	RUN(test_random(options(1, 1, 12)));
	RUN(test_random(options(32, 32, 9)));
	RUN(test_random(chunked));
	RUN(test_overlap(options(32, 64, 400)));
	chunked.overlap = beside.overlap = true;
	RUN(test_random(chunked));
	RUN(test_random(beside));
	/* a model with recurrent state only: blocks only count requests */
	fake.no_kv = true;
	RUN(test_one());
	RUN(test_cancel());
	RUN(test_random(options(8, 64, 0)));
	RUN(test_random(options(1, 1, 0)));
	chunked.kv_blocks = 0;
	RUN(test_random(chunked));
	fake.no_kv = false;
	RUN(test_threads());
	RUN(test_step_time());
	return check_done("core");
}
