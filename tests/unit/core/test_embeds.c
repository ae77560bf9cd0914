/*
 * test_embeds.c
 *	  Prompts that are embeddings, on the fake model: the same results as the prompt's tokens, in all
 *	  ways that a request can take, except for parameters that look at the prompt's tokens.
 *
 * Batches, chunks and preemption: test_invariance.c; real models: test_invariance_model.c.
 */
#include "tests/unit/core/answers_util.h"

#include "core/core_internal.h"

static KPool *pool;
static bool prefix_caching;

static Core *
make_core(bool overlap)
{
	CoreOptions o = {
		.pool = pool, .max_num_seqs = 24, .max_num_batched_tokens = 128, .max_model_len = 128,
		.block_size = 16, .kv_blocks = 200, .kv_type = KT_F32, .overlap = overlap,
		.prefix_caching = prefix_caching
	};
	Conf	   *conf = conf_new();
	Err			e = {0};
	Core	   *c = core_new(fake_model(256), tiny_tok(), conf, &o, &e);

	CHECK(c != NULL, "%s", e.msg);
	conf_free(conf);
	return c;
}

static void
post(Core *c, uint64_t id, bool rows, IntVec prompt, GenParams p, Answers *to)
{
	ReqSpec		spec = {.id = id, .session = id, .prompt = prompt, .sink = answers_sink, .sink_ctx = to};
	Err			e;

	CHECK(core_normalize(c, &p, GP(TEMPERATURE) | GP(MAX_TOKENS), &prompt, &e), "core_normalize: %s", e.msg);
	spec.params = p;
	if (rows)
		spec.embeds = rows_of(c, &spec.prompt);
	atomic_fetch_add(&answers_open, 1);
	core_submit(c, &spec);
}

static void
check_same(const char *what, const Answers *a, const Answers *b)
{
	CHECK(a->n == b->n && a->finish == b->finish, "%s: %d and %d answers", what, a->n, b->n);
	for (int i = 0; i < a->n; i++)
	{
		const Answer *x = &a->a[i];
		const Answer *y = &b->a[i];

		CHECK(x->ids.len > 0 && x->ids.len == y->ids.len &&
			  memcmp(x->ids.data, y->ids.data, x->ids.len * sizeof(int32_t)) == 0,
			  "%s, answer %d: ids differ", what, i);
		CHECK(x->text.len == y->text.len && memcmp(x->text.data, y->text.data, x->text.len) == 0,
			  "%s, answer %d: text \"%.*s\" and \"%.*s\"", what, i, (int) x->text.len, x->text.data,
			  (int) y->text.len, y->text.data);
		CHECK(x->cum == y->cum && x->score == y->score, "%s, answer %d: %g and %g", what, i, x->score,
			  y->score);
	}
	CHECK(a->prompt_tokens == b->prompt_tokens && a->output_tokens == b->output_tokens, "%s: usage differs",
		  what);
}

static GenParams
params_of(int kind)
{
	GenParams	p;

	genparams_init(&p);
	p.max_tokens = 20;
	p.ignore_eos = kind != 2;
	p.temperature = kind == 0 ? 0 : 1;
	p.has_seed = true;
	p.seed = 11;
	if (kind == 2)
	{
		p.out.n = 6;
		p.out.logprobs = 3;
	}
	else if (kind == 3)
		p.out.beam_width = 5;
	else if (kind == 4)
	{
		LogitRules *r = genparams_rules(&p);

		r->frequency_penalty = 1.5;
		r->presence_penalty = -1;
		p.min_tokens = 5;
	}
	return p;
}

static void
test_same(bool overlap)
{
	static const char *const kinds[] = {"greedy", "drawn", "six answers", "beams", "penalties"};

	for (int kind = 0; kind < 5; kind++)
		for (int n = 1; n < 50; n += 16)
		{
			Core	   *c = make_core(overlap);
			Answers		a[2] = {0};

			for (int rows = 0; rows < 2; rows++)
				post(c, (uint64_t) rows + 1, rows, random_prompt((uint32_t) n, n), params_of(kind), &a[rows]);
			answers_run(c, kinds[kind]);
			check_same(kinds[kind], &a[0], &a[1]);
			answers_free(&a[0]);
			answers_free(&a[1]);
			core_free(c);
		}
}

/* A word after the prompt keeps the space before it, though the prompt's tokens are unknown. */
static void
test_text(void)
{
	Core	   *c = make_core(false);
	Answers		a[2] = {0};

	fake.bias_id = TINY_WORD;
	fake.bias = 1000;
	for (int rows = 0; rows < 2; rows++)
	{
		GenParams	p = params_of(0);

		p.max_tokens = 2;
		post(c, (uint64_t) rows + 1, rows, random_prompt(3, 5), p, &a[rows]);
	}
	answers_run(c, "text");
	check_same("text", &a[0], &a[1]);
	CHECK(a[1].a[0].text.len == 12 && memcmp(a[1].a[0].text.data, " hello hello", 12) == 0, "text \"%.*s\"",
		  (int) a[1].a[0].text.len, a[1].a[0].text.data);
	fake.bias = 0;
	answers_free(&a[0]);
	answers_free(&a[1]);
	core_free(c);
}

/* A prompt without tokens has no repetitions: the placeholders don't count as tokens. */
static void
test_penalty(void)
{
	Core	   *c = make_core(false);
	Answers		a[2] = {0};

	for (int penalized = 0; penalized < 2; penalized++)
	{
		GenParams	p = params_of(0);
		IntVec		prompt = random_prompt(9, 12);

		p.max_tokens = 1;
		if (penalized)
			genparams_rules(&p)->repetition_penalty = 1e6;
		post(c, (uint64_t) penalized + 1, true, prompt, p, &a[penalized]);
	}
	answers_run(c, "penalty");
	check_same("repetition_penalty", &a[0], &a[1]);
	answers_free(&a[0]);
	answers_free(&a[1]);
	core_free(c);
}

/* Run the request on a core of its own. */
static void
run_alone(bool rows, const IntVec *prompt, GenParams p, Answers *to)
{
	Core	   *c;

	prefix_caching = false;
	c = make_core(false);
	post(c, 1, rows, copy_of(prompt), p, to);
	answers_run(c, "alone");
	core_free(c);
	prefix_caching = true;
}

/*
 * KV blocks of rows are never shared: not with other rows of the same number, and not with tokens whose
 * ids are the placeholders.
 */
static void
test_shared(void)
{
	Core	   *c;
	uint64_t	id = 1;

	prefix_caching = true;
	fake.no_state = true;		/* recurrent state can't be shared */
	c = make_core(false);
	for (int round = 0; round < 2; round++)
		for (int kind = 0; kind < 4; kind++)
			for (int which = 0; which < 4; which++)
			{
				Answers		a = {0};
				Answers		b = {0};
				IntVec		prompt = random_prompt((uint32_t) which, 60);

				/* the last one has the ids of the placeholders */
				for (size_t i = 0; i < prompt.len && which == 3; i++)
					prompt.data[i] = 0;
				run_alone(false, &prompt, params_of(kind), &b);
				post(c, id++, which < 3, prompt, params_of(kind), &a);
				answers_run(c, "shared");
				check_same("beside a prefix cache", &a, &b);
				answers_free(&a);
				answers_free(&b);
			}
	core_free(c);
	prefix_caching = fake.no_state = false;
}

static void
test_refused(void)
{
	Core	   *c = make_core(false);
	Answers		a = {0};
	GenParams	p = params_of(0);

	p.out.prompt_logprobs = 1;
	post(c, 1, true, random_prompt(9, 12), p, &a);
	answers_run(c, "prompt_logprobs");
	CHECK(a.finish == FIN_ERROR && a.err.cls == ERR_UNSUPPORTED, "prompt_logprobs: %s", a.err.msg);
	answers_free(&a);
	core_free(c);
}

/* Cancelled in any state, or freed with the core: no memory is left (the sanitizers check). */
static void
test_cancel(void)
{
	for (int steps = 0; steps < 6; steps++)
	{
		Core	   *c = make_core(steps % 2 == 1);
		Answers		a[4] = {0};

		for (int kind = 0; kind < 4; kind++)
			post(c, (uint64_t) kind + 1, true, random_prompt((uint32_t) kind, 40), params_of(kind), &a[kind]);
		for (int i = 0; i < steps; i++)
			core_step(c);
		for (int kind = 0; kind < (steps < 3 ? 4 : 2); kind++)
			core_cancel(c, (uint64_t) kind + 1);
		if (steps < 3)
			answers_run(c, "cancelled");
		core_free(c);
		atomic_store(&answers_open, 0);
		for (int kind = 0; kind < 4; kind++)
		{
			CHECK(a[kind].finish == FIN_ABORT, "step %d, kind %d: finish %d", steps, kind, a[kind].finish);
			answers_free(&a[kind]);
		}
	}
}

int
main(void)
{
	pool = kpool_new(2);
	RUN(test_same(false));
	RUN(test_same(true));
	RUN(test_text());
	RUN(test_penalty());
	RUN(test_shared());
	RUN(test_refused());
	RUN(test_cancel());
	CHECK(fake.bad_slots == 0, "%d slots of other positions were read", fake.bad_slots);
	kpool_free(pool);
	return check_done("embeds");
}
