/*
 * test_pooled.c
 *	  Pooling requests in the core, with a fake model whose rows are a hash of the tokens so far: vectors
 *	  and log-probabilities against that hash, choices that share their prompt, cancel in every state,
 *	  errors of one request alone, tiny pools, and random traffic with core_check() after each step.  On
 *	  real models: test_pooled_model.c.
 */
#include "core/core.h"

#include <math.h>

#include "core/core_internal.h"

#include "tests/unit/fake_model.h"
#include "tests/unit/core/pooled_util.h"

static KPool *pool;

static bool overlap;			/* for cores made from now on */

static Core *
new_core(int seqs, int rows, int blocks)
{
	CoreOptions opt = {
		.max_num_seqs = seqs, .max_num_batched_tokens = rows, .block_size = 16, .kv_blocks = blocks,
		.kv_type = KT_F32, .pool = pool, .overlap = overlap
	};
	Conf	   *conf = conf_new();
	Err			e = {0};
	Core	   *c = core_new(fake_model(512), tiny_tok(), conf, &opt, &e);

	conf_free(conf);
	CHECK(c != NULL, "%s", e.msg);
	return c;
}

/* The fake model's row after n tokens. */
static void
row_of(const int32_t *ids, int n, float *row)
{
	uint64_t	h = 1;

	for (int i = 0; i < n; i++)
		h = fake_mix(h, (uint64_t) ids[i]);
	fake_logits(h, false, row);
}

/* Log softmax in double, computed in the simplest way. */
static double
logprob_of(const int32_t *ids, int n, int32_t next, bool *best)
{
	float		row[FAKE_VOCAB];
	double		sum = 0;

	row_of(ids, n, row);
	*best = true;
	for (int i = 0; i < FAKE_VOCAB; i++)
	{
		sum += exp((double) row[i]);
		/* ids that the tokenizer doesn't know are never the best */
		if (i < TINY_VOCAB && (row[i] > row[next] || (row[i] == row[next] && i < next)))
			*best = false;
	}
	return (double) row[next] - log(sum);
}

static IntVec
joined(const IntVec *a, const IntVec *b)
{
	IntVec		v = {0};

	intvec_add(&v, a->data, a->len);
	intvec_add(&v, b->data, b->len);
	return v;
}

/* Check a request's numbers against the hash; spec: as it was submitted. */
static void
check_logprobs(const PoolSpec *spec, const PooledRec *rec, const char *what)
{
	int			at = 0;
	int			bad = 0;

	CHECK(rec->finish == FIN_STOP && rec->events == 1 && rec->n_rows == spec->n_seqs, "%s: finish %d, %s",
		  what, rec->finish, rec->err.msg);
	if (rec->finish != FIN_STOP)
		return;
	for (int i = 0; i < spec->n_seqs; i++)
	{
		IntVec		all = joined(&spec->prompt, &spec->seqs[i].ids);
		int			from = (int) spec->prompt.len + spec->seqs[i].scored_at;
		bool		greedy = true;

		CHECK(rec->counts[i] == (int) all.len - from, "%s, %d: %d numbers", what, i, rec->counts[i]);
		for (int t = from; t < (int) all.len; t++)
		{
			bool		best;

			bad += fabs(logprob_of(all.data, t, all.data[t], &best) - rec->values[at++]) > 2e-5;
			greedy &= best;
		}
		CHECK(rec->greedy[i] == greedy, "%s, %d: greedy %d", what, i, rec->greedy[i]);
		intvec_free(&all);
	}
	CHECK(bad == 0 && at == rec->n_values, "%s: %d of %d numbers are wrong", what, bad, at);
}

/* Submit a copy, run everything, compare. */
static void
check_one(Core *c, const PoolSpec *spec, const char *what)
{
	PooledRec	rec = {0};

	pooled_submit(c, 1, 1, poolspec_copy(spec), &rec);
	CHECK(pooled_run(c), "%s: it does not end", what);
	check_logprobs(spec, &rec, what);
	CHECK(pooled_blocks(c) == 0, "%s: %d blocks are left", what, (int) pooled_blocks(c));
	pooled_rec_free(&rec);
}

/* ---- vectors ---- */

static void
test_vectors(void)
{
	Core	   *c = new_core(4, 24, 50);
	IntVec		ids = random_prompt(3, 60);
	float		row[FAKE_VOCAB];
	PooledRec	one = {0},
				all = {0};
	PoolSpec	spec = vector_spec(PT_EMBED, random_prompt(3, 60));

	pooled_submit(c, 1, 1, spec, &one);
	pooled_submit(c, 2, 1, vector_spec(PT_TOKEN_EMBED, random_prompt(3, 60)), &all);
	CHECK(pooled_run(c), "it does not end");
	row_of(ids.data, 60, row);
	CHECK(one.finish == FIN_STOP && one.n_rows == 1 && one.width == FAKE_VOCAB &&
		  memcmp(one.values, row, sizeof(row)) == 0, "last row: finish %d, %d rows", one.finish, one.n_rows);
	CHECK(all.finish == FIN_STOP && all.n_rows == 60 && all.prompt_tokens == 60, "token vectors: %d",
		  all.n_rows);
	for (int i = 0; i < all.n_rows; i++)
	{
		row_of(ids.data, i + 1, row);
		CHECK(memcmp(all.values + (size_t) i * FAKE_VOCAB, row, sizeof(row)) == 0, "row %d differs", i);
	}
	pooled_rec_free(&one);
	pooled_rec_free(&all);
	intvec_free(&ids);
	core_free(c);
}

/* Chunks of a text: their mean, weighted by tokens. */
static void
test_chunks(void)
{
	Core	   *c = new_core(4, 64, 50);
	PoolSpec	spec = vector_spec(PT_EMBED, random_prompt(1, 40));
	float		a[FAKE_VOCAB],
				b[FAKE_VOCAB];
	IntVec		one = random_prompt(1, 40),
				two = random_prompt(2, 10);
	PooledRec	rec = {0};
	int			bad = 0;

	spec.join = PJ_CHUNKS;
	add_seq(&spec, random_prompt(2, 10));
	pooled_submit(c, 1, 1, spec, &rec);
	CHECK(pooled_run(c) && rec.finish == FIN_STOP && rec.n_rows == 1, "finish %d", rec.finish);
	row_of(one.data, 40, a);
	row_of(two.data, 10, b);
	for (int i = 0; i < rec.n_values; i++)
		bad += fabs(((double) a[i] * 40 + (double) b[i] * 10) / 50 - rec.values[i]) > 1e-5;
	CHECK(bad == 0, "%d numbers differ", bad);
	intvec_free(&one);
	intvec_free(&two);
	pooled_rec_free(&rec);
	core_free(c);
}

/* ---- log-probabilities ---- */

static void
test_text(void)
{
	Core	   *c = new_core(4, 24, 50);
	static const int at[][2] = {{2, 1}, {17, 1}, {16, 15}, {33, 32}, {100, 1}, {100, 60}};

	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++)
	{
		PoolSpec	spec = text_spec(random_prompt((uint32_t) i, at[i][0]), at[i][1]);

		check_one(c, &spec, "text");
		poolspec_free(&spec);
	}
	core_free(c);
}

/* Prompts of all lengths around a block's end; choices of one and several tokens. */
static void
test_choices(void)
{
	static const int lens[] = {1, 1, 3, 1, 20, 2};
	Core	   *c = new_core(8, 64, 60);

	for (int n = 1; n <= 50; n += n < 15 || (n > 17 && n < 30) ? 5 : 1)
	{
		PoolSpec	spec = choices_spec(random_prompt((uint32_t) n, n), lens, 6, random_prompt);
		char		what[40];

		snprintf(what, sizeof(what), "choices, prompt of %d", n);
		check_one(c, &spec, what);
		poolspec_free(&spec);
	}
	core_free(c);
}

/* Shared rows aren't computed twice: rows are counted. */
static void
test_rows(void)
{
	static const int ones[] = {1, 1, 1, 1},
				more[] = {2, 1, 4, 3};
	PoolSpec	spec = choices_spec(random_prompt(1, 40), ones, 4, random_prompt);
	Core	   *c = new_core(8, 64, 60);
	CoreStats	st;

	check_one(c, &spec, "labels of one token");
	core_stats(c, &st);
	CHECK(st.step_rows == 40 && st.steps == 1 && st.prompt_tokens == 44, "%d rows in %d steps",
		  (int) st.step_rows, (int) st.steps);
	CHECK(st.generate_us == 0, "time of pooled rows counts as time of generation");
	poolspec_free(&spec);
	spec = choices_spec(random_prompt(1, 40), more, 4, random_prompt);
	check_one(c, &spec, "longer labels");
	core_stats(c, &st);
	/* the prompt once, then all but the last token of each choice in one step */
	CHECK(st.step_rows == (fake.no_state ? 40 + 40 + 6 : 40 + 40 + 3 * 40 + 6) &&
		  st.steps <= (fake.no_state ? 3 : 5), "%d rows in %d steps", (int) st.step_rows, (int) st.steps);
	poolspec_free(&spec);
	core_free(c);
}

/* One sequence at a time, steps of few rows, and pools in which nothing stays shared for long. */
static void
test_tight(void)
{
	static const int lens[] = {5, 1, 9, 30, 2};
	PoolSpec	spec = choices_spec(random_prompt(5, 40), lens, 5, random_prompt);

	for (int seqs = 1; seqs <= 8; seqs *= 2)
		for (int blocks = 5; blocks <= 20; blocks += blocks < 8 ? 1 : 4)
		{
			Core	   *c = new_core(seqs, 8, blocks);
			PooledRec	recs[4];
			Rec			gen = {0};

			memset(recs, 0, sizeof(recs));
			submit(c, 99, 1, random_prompt(9, 20), greedy_params(40), GP(TEMPERATURE) | GP(MAX_TOKENS), &gen);
			for (int i = 0; i < 4; i++)
				pooled_submit(c, (uint64_t) i, (uint64_t) i % 2, poolspec_copy(&spec), &recs[i]);
			CHECK(pooled_run(c), "%d sequences, %d blocks: it does not end", seqs, blocks);
			CHECK(gen.finish == FIN_LENGTH && gen.ids.len == 40, "beside it: %d", gen.finish);
			for (int i = 0; i < 4; i++)
			{
				check_logprobs(&spec, &recs[i], "tight");
				CHECK(pooled_same(&recs[0], &recs[i]), "%d sequences, %d blocks: %d differs", seqs, blocks,
					  i);
			}
			for (int i = 0; i < 4; i++)
				pooled_rec_free(&recs[i]);
			CHECK(pooled_blocks(c) == 0, "%d blocks are left", (int) pooled_blocks(c));
			rec_free(&gen);
			core_free(c);
		}
	poolspec_free(&spec);
}

/* Older requests grow, and take the blocks of newer ones. */
static void
test_preempted(void)
{
	static const int lens[] = {40, 30};
	PoolSpec	spec = choices_spec(random_prompt(5, 33), lens, 2, random_prompt);
	Core	   *c = new_core(4, 16, 8);
	Rec			gen = {0};
	PooledRec	rec = {0};

	submit(c, 1, 1, random_prompt(9, 20), greedy_params(60), GP(TEMPERATURE) | GP(MAX_TOKENS), &gen);
	core_step(c);
	core_step(c);
	pooled_submit(c, 2, 1, poolspec_copy(&spec), &rec);
	CHECK(pooled_run(c), "it does not end");
	check_logprobs(&spec, &rec, "preempted");
	CHECK(gen.finish == FIN_LENGTH, "%d", gen.finish);
	rec_free(&gen);
	pooled_rec_free(&rec);
	poolspec_free(&spec);
	core_free(c);
}

/* A sequence that is preempted when some of its rows have been pooled: each row counts once. */
static void
test_restarted(PoolTask task)
{
	Core	   *c;
	Rec			gens[2] = {0};
	PooledRec	rec = {0};
	IntVec		ids = random_prompt(3, 60);
	double		mean[FAKE_VOCAB] = {0};
	float		row[FAKE_VOCAB];
	int			bad = 0;

	fake.mean = true;
	c = new_core(4, 4, 11);
	fake.mean = false;
	for (int i = 0; i < 2; i++)
		submit(c, (uint64_t) i, 1, random_prompt((uint32_t) i, 20), greedy_params(60),
			   GP(TEMPERATURE) | GP(MAX_TOKENS), &gens[i]);
	for (int i = 0; i < 14; i++)
		core_step(c);
	pooled_submit(c, 2, 1, vector_spec(task, random_prompt(3, 60)), &rec);
	CHECK(pooled_run(c), "it does not end");
	CHECK(rec.finish == FIN_STOP && rec.preemptions > 0, "finish %d, preempted %d times", rec.finish,
		  rec.preemptions);
	CHECK(rec.n_rows == (task == PT_EMBED ? 1 : 60), "%d rows", rec.n_rows);
	for (int i = 0; i < 60; i++)
	{
		row_of(ids.data, i + 1, row);
		for (int j = 0; j < FAKE_VOCAB; j++)
			mean[j] += (double) row[j] / 60;
		if (task == PT_TOKEN_EMBED && i < rec.n_rows)
			bad += memcmp(rec.values + (size_t) i * FAKE_VOCAB, row, sizeof(row)) != 0;
	}
	for (int j = 0; task == PT_EMBED && j < rec.n_values; j++)
		bad += fabs(mean[j] - rec.values[j]) > 1e-4;
	CHECK(bad == 0, "%d numbers are wrong", bad);
	for (int i = 0; i < 2; i++)
		rec_free(&gens[i]);
	pooled_rec_free(&rec);
	intvec_free(&ids);
	core_free(c);
}

/* ---- ends of requests ---- */

static Core *hook_core;

static void
cancel_hook(void)
{
	core_cancel(hook_core, 1);
}

/* Cancelled before step n, or in its forward pass: no block and no memory is left. */
static void
test_cancel(void)
{
	static const int lens[] = {5, 1, 9, 30, 2};

	for (int n = 0; n < 14; n++)
		for (int hook = 0; hook < 2; hook++)
		{
			Core	   *c = new_core(2, 16, 12);
			PoolSpec	spec = choices_spec(random_prompt(5, 40), lens, 5, random_prompt);
			PoolSpec	other = poolspec_copy(&spec);
			PooledRec	rec = {0},
						mate = {0};
			Err			e = {0};

			pooled_submit(c, 1, 1, spec, &rec);
			pooled_submit(c, 2, 2, poolspec_copy(&other), &mate);
			for (int i = 0; i < n; i++)
			{
				core_step(c);
				CHECK(core_check(c, &e), "step %d: %s", i, e.msg);
			}
			hook_core = c;
			if (hook)
				fake.hook = cancel_hook;
			else
				core_cancel(c, 1);
			core_step(c);
			fake.hook = NULL;
			CHECK(core_check(c, &e), "cancelled after %d: %s", n, e.msg);
			CHECK(rec.events == 1 && (rec.finish == FIN_ABORT || rec.finish == FIN_STOP),
				  "after %d: %d events, finish %d", n, rec.events, rec.finish);
			CHECK(rec.finish == FIN_ABORT || n > 6, "after %d: finish %d", n, rec.finish);
			CHECK(pooled_run(c), "it does not end");
			check_logprobs(&other, &mate, "its mate");
			CHECK(pooled_blocks(c) == 0, "%d blocks are left", (int) pooled_blocks(c));
			pooled_rec_free(&rec);
			pooled_rec_free(&mate);
			poolspec_free(&other);
			core_free(c);
		}
}

static int	progress;

static void
count_progress(void *ctx, bool between)
{
	(void) between;
	++*(int *) ctx;
}

static int	hooks;
static int	cancel_in;			/* cancel in the forward pass */

static void
cancel_both_hook(void)
{
	usleep(2000);				/* progress of a step is reported each millisecond */
	if (++hooks == cancel_in)
	{
		core_cancel(hook_core, 1);
		core_cancel(hook_core, 2);
	}
}

/*
 * A step of a bidirectional model ends early if all its sequences are cancelled, and nothing of it
 * counts; if other sequences are in it, it continues with their values.
 */
static void
test_stopped(void)
{
	Core	   *c;
	float		row[FAKE_VOCAB];
	IntVec		ids = random_prompt(3, 40);
	PooledRec	rec[4] = {0};
	CoreStats	st;
	Err			e = {0};

	fake.both_ways = true;
	c = new_core(4, 128, 50);
	fake.both_ways = false;
	hook_core = c;
	progress = 0;
	core_on_progress(c, count_progress, &progress);
	pooled_submit(c, 1, 1, vector_spec(PT_EMBED, random_prompt(1, 60)), &rec[0]);
	pooled_submit(c, 2, 1, vector_spec(PT_TOKEN_EMBED, random_prompt(2, 60)), &rec[1]);
	hooks = 0;
	cancel_in = 1;
	fake.hook = cancel_both_hook;
	core_step(c);
	core_stats(c, &st);
	CHECK(rec[0].finish == FIN_ABORT && rec[1].finish == FIN_ABORT && st.steps == 0 && st.step_rows == 0 &&
		  st.cancelled == 2, "finish %d and %d, %d steps", rec[0].finish, rec[1].finish, (int) st.steps);
	CHECK(core_check(c, &e) && pooled_blocks(c) == 0, "%s", e.msg);
	pooled_submit(c, 1, 1, vector_spec(PT_EMBED, random_prompt(1, 60)), &rec[2]);
	pooled_submit(c, 3, 1, vector_spec(PT_EMBED, random_prompt(3, 40)), &rec[3]);
	hooks = 0;
	core_step(c);
	fake.hook = NULL;
	core_stats(c, &st);
	CHECK(progress == 2, "two steps that may be long, progress %d times", progress);
	row_of(ids.data, 40, row);
	CHECK(rec[2].finish == FIN_ABORT && rec[3].finish == FIN_STOP && st.steps == 1,
		  "finish %d and %d, %d steps", rec[2].finish, rec[3].finish, (int) st.steps);
	CHECK(rec[3].n_rows == 1 && memcmp(rec[3].values, row, sizeof(row)) == 0,
		  "beside one that was cancelled");
	CHECK(core_check(c, &e) && pooled_blocks(c) == 0, "%s", e.msg);
	for (int i = 0; i < 4; i++)
		pooled_rec_free(&rec[i]);
	intvec_free(&ids);
	core_free(c);
}

/* core_free() ends the remaining requests, in any state. */
static void
test_free(void)
{
	static const int lens[] = {5, 1, 9, 30, 2};

	for (int n = 0; n < 12; n++)
	{
		Core	   *c = new_core(2, 16, 12);
		PooledRec	rec[3];

		memset(rec, 0, sizeof(rec));
		for (int i = 0; i < 3; i++)
			pooled_submit(c, (uint64_t) i, 1, choices_spec(random_prompt(5, 40), lens, 5, random_prompt),
						  &rec[i]);
		for (int i = 0; i < n; i++)
			core_step(c);
		core_free(c);
		for (int i = 0; i < 3; i++)
		{
			CHECK(rec[i].events == 1 && rec[i].finish != FIN_NONE && rec[i].finish != FIN_ERROR,
				  "after %d, request %d: %d events, finish %d", n, i, rec[i].events, rec[i].finish);
			pooled_rec_free(&rec[i]);
		}
	}
}

/* A row that isn't finite is an error of its request alone. */
static void
test_nan(void)
{
	static const int lens[] = {3, 1, 4};
	Core	   *c = new_core(8, 64, 50);
	PoolSpec	good = choices_spec(random_prompt(5, 20), lens, 3, random_prompt);
	PoolSpec	bad = poolspec_copy(&good);
	PooledRec	a = {0},
				b = {0},
				v = {0};
	PoolSpec	vec = vector_spec(PT_EMBED, random_prompt(1, 30));

	vec.seqs[0].ids.data[4] = FAKE_NAN;
	bad.seqs[2].ids.data[1] = FAKE_NAN;
	pooled_submit(c, 1, 1, bad, &a);
	pooled_submit(c, 2, 1, poolspec_copy(&good), &b);
	pooled_submit(c, 3, 1, vec, &v);
	CHECK(pooled_run(c), "it does not end");
	CHECK(a.finish == FIN_ERROR && strcmp(a.err.msg, "model produced non-finite values") == 0, "%d: %s",
		  a.finish, a.err.msg);
	CHECK(v.finish == FIN_ERROR, "vector: %d", v.finish);
	check_logprobs(&good, &b, "beside it");
	pooled_rec_free(&a);
	pooled_rec_free(&b);
	pooled_rec_free(&v);
	poolspec_free(&good);
	core_free(c);
}

/* The core refuses requests that pool() would have refused, and stays intact. */
static void
test_refused(void)
{
	static const int lens[] = {3, 90},
				huge[] = {1, 600};
	Core	   *c = new_core(4, 64, 4);
	PooledRec	r[5];

	memset(r, 0, sizeof(r));
	pooled_submit(c, 1, 1, choices_spec(random_prompt(5, 20), lens, 2, random_prompt), &r[0]);
	pooled_submit(c, 2, 1, choices_spec(random_prompt(5, 20), huge, 2, random_prompt), &r[1]);
	pooled_submit(c, 3, 1, text_spec(random_prompt(5, 20), 20), &r[2]);
	pooled_submit(c, 4, 1, text_spec(random_prompt(5, 20), 0), &r[3]);
	pooled_submit(c, 5, 1, vector_spec(PT_SCORE, random_prompt(5, 20)), &r[4]);
	CHECK(pooled_run(c), "it does not end");
	CHECK(r[0].err.cls == ERR_TOO_LONG && strstr(r[0].err.msg, "KV cache blocks") != NULL, "%s",
		  r[0].err.msg);
	CHECK(r[1].err.cls == ERR_TOO_LONG && strstr(r[1].err.msg, "maximum model length") != NULL, "%s",
		  r[1].err.msg);
	for (int i = 2; i < 5; i++)
		CHECK(r[i].finish == FIN_ERROR && r[i].err.cls == ERR_INTERNAL, "%d: %s", i, r[i].err.msg);
	for (int i = 0; i < 5; i++)
	{
		CHECK(r[i].events == 1, "%d events", r[i].events);
		pooled_rec_free(&r[i]);
	}
	core_free(c);
}

/* ---- traffic ---- */

static uint32_t rnd_state = 1;

static int
rnd(int n)
{
	rnd_state = rnd_state * 1664525u + 1013904223u;
	return (int) ((rnd_state >> 8) % (uint32_t) n);
}

#define LIVE 12

static PoolSpec
random_spec(void)
{
	int			lens[6];
	int			n = 1 + rnd(6);

	for (int i = 0; i < n; i++)
		lens[i] = rnd(2) ? 1 : 1 + rnd(20);
	switch (rnd(4))
	{
		case 0:
			return text_spec(random_prompt((uint32_t) rnd(1000), 2 + rnd(60)), 1);
		case 1:
			return vector_spec(PT_EMBED, random_prompt((uint32_t) rnd(1000), 1 + rnd(60)));
		default:
			return choices_spec(random_prompt((uint32_t) rnd(1000), 1 + rnd(50)), lens, n, random_prompt);
	}
}

/* Submits, cancels and steps in any order, together with requests that generate. */
static void
test_random(int blocks)
{
	Core	   *c = new_core(5, 20, blocks);
	PooledRec	recs[LIVE];
	PoolSpec	specs[LIVE];
	Rec			gen = {0};
	Err			e = {0};
	int			ended = 0;

	memset(recs, 0, sizeof(recs));
	memset(specs, 0, sizeof(specs));
	for (int i = 0; i < 3000; i++)
	{
		int			k = rnd(LIVE);

		if (specs[k].n_seqs == 0)
		{
			specs[k] = random_spec();
			pooled_submit(c, (uint64_t) k, (uint64_t) rnd(3), poolspec_copy(&specs[k]), &recs[k]);
		}
		else if (recs[k].finish != FIN_NONE)
		{
			if (recs[k].finish == FIN_STOP && specs[k].task == PT_LOGPROBS)
				check_logprobs(&specs[k], &recs[k], "random");
			ended += recs[k].finish == FIN_STOP;
			pooled_rec_free(&recs[k]);
			poolspec_free(&specs[k]);
		}
		else if (rnd(40) == 0)
			core_cancel(c, (uint64_t) k);
		if (!core_has_work(c) || gen.finish != FIN_NONE)
		{
			rec_free(&gen);
			submit(c, 1000, 7, random_prompt((uint32_t) i, 1 + rnd(20)), greedy_params(1 + rnd(30)),
				   GP(TEMPERATURE) | GP(MAX_TOKENS), &gen);
		}
		core_step(c);
		if (!core_check(c, &e))
		{
			CHECK(false, "%d blocks, step %d: %s", blocks, i, e.msg);
			break;
		}
	}
	CHECK(ended > 100, "%d ended", ended);
	CHECK(pooled_run(c), "it does not end");
	CHECK(pooled_blocks(c) == 0, "%d blocks are left", (int) pooled_blocks(c));
	core_free(c);
	for (int k = 0; k < LIVE; k++)
	{
		pooled_rec_free(&recs[k]);
		poolspec_free(&specs[k]);
	}
	rec_free(&gen);
}

/* The output thread makes results, in parallel with the next steps. */
static void
test_overlap(void)
{
	static PooledRec recs[150];
	static PoolSpec specs[150];
	Core	   *c;

	overlap = true;
	c = new_core(5, 40, 20);
	overlap = false;
	memset(recs, 0, sizeof(recs));
	for (int i = 0; i < 150; i++)
	{
		specs[i] = random_spec();
		pooled_submit(c, (uint64_t) i, (uint64_t) i % 3, poolspec_copy(&specs[i]), &recs[i]);
		if (i % 10 == 9)
			core_cancel(c, (uint64_t) i);
		core_step(c);
	}
	CHECK(pooled_run(c), "it does not end");
	core_free(c);
	for (int i = 0; i < 150; i++)
	{
		CHECK(recs[i].events == 1 && (recs[i].finish == FIN_STOP || i % 10 == 9), "%d: %d events, finish %d",
			  i, recs[i].events, recs[i].finish);
		if (recs[i].finish == FIN_STOP && specs[i].task == PT_LOGPROBS)
			check_logprobs(&specs[i], &recs[i], "overlapped");
		pooled_rec_free(&recs[i]);
		poolspec_free(&specs[i]);
	}
}

int
main(void)
{
	pool = kpool_new(2);
	for (int state = 0; state < 2; state++)
	{
		fake.no_state = state == 0;
		RUN(test_vectors());
		RUN(test_chunks());
		RUN(test_text());
		RUN(test_choices());
		RUN(test_rows());
		RUN(test_tight());
		RUN(test_preempted());
		RUN(test_restarted(PT_EMBED));
		RUN(test_restarted(PT_TOKEN_EMBED));
		RUN(test_cancel());
		RUN(test_stopped());
		RUN(test_free());
		RUN(test_nan());
		RUN(test_refused());
		RUN(test_random(8));
		RUN(test_random(14));
		RUN(test_random(60));
		RUN(test_overlap());
	}
	CHECK(fake.bad_slots == 0, "%d slots of other positions were read", fake.bad_slots);
	kpool_free(pool);
	return check_done("pooled");
}
