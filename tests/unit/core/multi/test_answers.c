/*
 * test_answers.c
 *	  Several choices of one prompt, and log-probabilities, with a fake model whose logits are a hash of
 *	  the tokens so far: choice i against a request of its own with seed + i, in pools that preempt and
 *	  in chunks; log-probabilities against a simple computation; parameters that are refused; cancels in
 *	  every state, errors, and random traffic with core_check() after each step.
 */
#include "tests/unit/core/answers_util.h"
#include "core/core_internal.h"

static KPool *pool;
static bool overlap;
static bool recurrent;
static bool processed;			/* log-probabilities after all stages */
static int64_t max_entries;		/* limit of log-probabilities of a request; 0 = the default */

static Core *
new_core(int seqs, int rows, int blocks, int chunk)
{
	CoreOptions opt = {
		.max_num_seqs = seqs, .max_num_batched_tokens = rows, .block_size = 16, .kv_blocks = blocks,
		.kv_type = KT_F32, .pool = pool, .overlap = overlap, .max_chunk = chunk, .max_entries = max_entries,
		.return_processed = processed, .max_logprobs = max_entries > 0 ? LOGPROBS_ALL : 0
	};
	Conf	   *conf = conf_new();
	Err			e = {0};
	Core	   *c;

	fake.no_state = !recurrent;
	c = core_new(fake_model(512), tiny_tok(), conf, &opt, &e);
	conf_free(conf);
	CHECK(c != NULL, "%s", e.msg);
	return c;
}

static GenParams
sampled(int n, int max_tokens, int64_t seed)
{
	GenParams	p;

	genparams_init(&p);
	p.temperature = 0.8;
	p.has_seed = true;
	p.seed = seed;
	p.max_tokens = max_tokens;
	p.out.n = n;
	return p;
}

/* ---- choice i equals that of seed + i ---- */

static void
test_alike(int n, int n_prompt, int max_tokens, int seqs, int blocks, int chunk)
{
	Core	   *c = new_core(seqs, 64, blocks, chunk);
	IntVec		prompt = random_prompt(7, n_prompt);
	Answers		all = {0};
	int			total = 0;
	char		what[80];
	CoreStats	st;

	snprintf(what, sizeof(what), "%d answers to %d tokens, %d at once in %d blocks", n, n_prompt, seqs,
			 blocks);
	answers_submit(c, 1, copy_of(&prompt), sampled(n, max_tokens, 40), &all);
	answers_run(c, what);
	CHECK(all.finish != FIN_NONE && all.finish <= FIN_LENGTH && all.n == n && all.late == 0,
		  "%s: finish %d, %s", what, all.finish, all.err.msg);
	core_stats(c, &st);
	CHECK(all.prompt_tokens == n_prompt && st.prompt_tokens == n_prompt, "%s: %d prompt tokens, counted %lld",
		  what, all.prompt_tokens, (long long) st.prompt_tokens);
	for (int i = 0; i < n; i++)
	{
		Answers		one = {0};
		const Answer *a = &all.a[i];

		answers_submit(c, 2, copy_of(&prompt), sampled(1, max_tokens, 40 + i), &one);
		answers_run(c, what);
		CHECK(a->ids.len == one.a[0].ids.len &&
			  memcmp(a->ids.data, one.a[0].ids.data, a->ids.len * sizeof(int32_t)) == 0 &&
			  a->text.len == one.a[0].text.len && memcmp(a->text.data, one.a[0].text.data,
														 a->text.len) == 0 &&
			  a->ended == one.a[0].ended && a->late == 0, "%s: answer %d differs", what, i);
		total += one.output_tokens;
		answers_free(&one);
	}
	CHECK(all.output_tokens == total, "%s: %d tokens, not %d", what, all.output_tokens, total);
	CHECK(fake.bad_slots == 0, "%s: %d slots", what, fake.bad_slots);
	intvec_free(&prompt);
	answers_free(&all);
	core_free(c);
}

/* A stop string ends one choice, the others continue. */
static void
test_stop(void)
{
	Core	   *c = new_core(8, 64, 100, 0);
	Answers		plain = {0};
	Answers		all = {0};
	GenParams	p = sampled(6, 30, 3);
	char		stop[2] = {0};
	int			stopped = 0;

	answers_submit(c, 1, random_prompt(9, 20), sampled(6, 30, 3), &plain);
	answers_run(c, "stop");
	CHECK(plain.a[0].text.len > 10, "%zu bytes", plain.a[0].text.len);
	/* a character of the third choice */
	for (size_t i = 4; i < plain.a[2].text.len && stop[0] == 0; i++)
		if (plain.a[2].text.data[i] > ' ' && plain.a[2].text.data[i] < 127)
			stop[0] = plain.a[2].text.data[i];
	p.stop = mem_alloc(sizeof(char *));
	p.stop_len = mem_alloc(sizeof(size_t));
	p.stop[0] = mem_strdup(stop);
	p.stop_len[0] = 1;
	p.n_stop = 1;
	answers_submit(c, 2, random_prompt(9, 20), p, &all);
	answers_run(c, "stop");
	for (int i = 0; i < 6; i++)
	{
		const Answer *a = &plain.a[i];
		const char *at = memchr(a->text.data, stop[0], a->text.len);
		size_t		len = at != NULL ? (size_t) (at - a->text.data) : a->text.len;

		stopped += at != NULL;
		CHECK(all.a[i].text.len == len && memcmp(all.a[i].text.data, a->text.data, len) == 0 &&
			  all.a[i].ended == (at != NULL ? FIN_STOP : a->ended) &&
			  (at == NULL || strcmp(all.a[i].reason, stop) == 0), "answer %d: %zu bytes, not %zu, ended %d",
			  i, all.a[i].text.len, len, all.a[i].ended);
	}
	CHECK(stopped > 0 && all.late == 0, "%d are stopped", stopped);
	answers_free(&plain);
	answers_free(&all);
	core_free(c);
}

/* ---- log-probabilities ---- */

/* Check the entries of one position against the row after n tokens. */
static void
check_position(const int32_t *ids, int n, int32_t own, int top, const Logprob *e, int count, const char *what)
{
	float		x[FAKE_VOCAB];
	double		lp[FAKE_VOCAB];
	int			rank = 0;
	int			bad = 0;
	bool		inside = false;

	textbook(ids, n, x, lp);
	for (int i = 0; i < TINY_VOCAB; i++)
		rank += x[i] >= x[own];
	for (int i = 0; i < count; i++)
	{
		int			before = 0;

		bad += fabs(lp[e[i].id] - (double) e[i].value) > 2e-5;
		for (int k = 0; k < TINY_VOCAB; k++)
			before += x[k] > x[e[i].id] || (x[k] == x[e[i].id] && k < e[i].id);
		if (i > 0)
			bad += before >= top || (i > 1 && e[i].value > e[i - 1].value) || e[i].rank != before + 1;
		else
			inside = before < top;
	}
	CHECK(e[0].id == own && (inside || e[0].rank == rank), "%s: id %d, rank %d, not %d, %d", what, e[0].id,
		  e[0].rank, own, rank);
	CHECK(bad == 0 && count == (inside ? top : top + 1), "%s: %d entries, %d wrong", what, count, bad);
}

static void
test_logprobs(int top, int n, int chunk, int blocks)
{
	Core	   *c = new_core(4, 64, blocks, chunk);
	IntVec		prompt = random_prompt(11, 40);
	Answers		s = {0};
	GenParams	p = sampled(n, 12, 5);
	char		what[80];
	const Logprob *e;

	snprintf(what, sizeof(what), "top %d of %d answers, chunks of %d, %d blocks", top, n, chunk, blocks);
	p.out.logprobs = p.out.prompt_logprobs = top;
	answers_submit(c, 1, copy_of(&prompt), p, &s);
	answers_run(c, what);
	CHECK(s.finish != FIN_NONE && s.finish <= FIN_LENGTH && s.late == 0, "%s: finish %d", what, s.finish);
	CHECK(s.prompt_lp != NULL && s.prompt_lp->counts.len == prompt.len && s.prompt_lp->counts.data[0] == 0,
		  "%s", what);
	e = s.prompt_lp->e;
	for (size_t i = 1; i < prompt.len; i++)
	{
		check_position(prompt.data, (int) i, prompt.data[i], top, e, s.prompt_lp->counts.data[i], what);
		e += s.prompt_lp->counts.data[i];
	}
	for (int k = 0; k < n; k++)
	{
		const Answer *a = &s.a[k];
		IntVec		all = copy_of(&prompt);
		double		cum = 0;

		CHECK(a->lp != NULL && a->lp->counts.len == a->ids.len, "%s: answer %d", what, k);
		e = a->lp->e;
		for (size_t i = 0; i < a->ids.len; i++)
		{
			check_position(all.data, (int) all.len, a->ids.data[i], top, e, a->lp->counts.data[i], what);
			cum += (double) e->value;
			e += a->lp->counts.data[i];
			intvec_push(&all, a->ids.data[i]);
		}
		CHECK(fabs(cum - a->cum) < 1e-9, "%s: sum %g, not %g", what, a->cum, cum);
		intvec_free(&all);
	}
	intvec_free(&prompt);
	answers_free(&s);
	core_free(c);
}

/* Only these ids, in their order. */
static void
test_ids(void)
{
	Core	   *c = new_core(4, 64, 50, 0);
	Answers		s = {0};
	GenParams	p = sampled(1, 5, 5);

	for (int i = 0; i < 3; i++)
		intvec_push(&p.out.logprob_ids, 50 - i);
	answers_submit(c, 1, random_prompt(3, 10), p, &s);
	answers_run(c, "ids");
	for (size_t i = 0, at = 0; s.a[0].lp != NULL && i < s.a[0].ids.len;
		 at += (size_t) s.a[0].lp->counts.data[i++])
	{
		const Logprob *e = s.a[0].lp->e + at;

		CHECK(e->id == s.a[0].ids.data[i] && s.a[0].lp->counts.data[i] >= 3, "own token %d", e->id);
		CHECK(s.a[0].lp->counts.data[i] < 4 || (e[1].id == 50 && e[2].id == 49 && e[3].id == 48), "%d %d %d",
			  e[1].id, e[2].id, e[3].id);
	}
	CHECK(s.a[0].lp != NULL && s.prompt_lp == NULL, "nothing was told");
	answers_free(&s);
	core_free(c);
}

/* ---- refused parameters ---- */

static void
refused(Core *c, GenParams p, const char *param, const char *words)
{
	IntVec		prompt = random_prompt(1, 5);
	Err			e = {0};
	bool		ok = core_normalize(c, &p, GP(TEMPERATURE) | GP(MAX_TOKENS), &prompt, &e);

	CHECK(!ok && strstr(e.detail, param) != NULL && strstr(e.msg, words) != NULL, "%s: %s, %s", words, e.msg,
		  e.detail);
	intvec_free(&prompt);
	genparams_free(&p);
}

/* The copies of the prompt's blocks that choices begin with. */
static void
test_copies(void)
{
	for (int n = 8192; n <= 16384; n *= 2)
	{
		CoreOptions opt = {.max_num_seqs = 4, .max_num_batched_tokens = 64, .block_size = 16,
						   .kv_blocks = 1000, .kv_type = KT_F32, .pool = pool};
		Conf	   *conf = conf_new();
		Err			e = {0};
		Core	   *c = core_new(fake_model(16000), tiny_tok(), conf, &opt, &e);
		GenParams	p = sampled(n, 5, 1);
		IntVec		prompt = random_prompt(1, 10000);

		conf_free(conf);
		CHECK(core_normalize(c, &p, ~0u, &prompt, &e) == (n == 8192) &&
			  (n == 8192 || (e.cls == ERR_TOO_LONG && strstr(e.detail, "parameter=n"))), "%d answers: %s", n,
			  e.msg);
		genparams_free(&p);
		intvec_free(&prompt);
		core_free(c);
	}
}

static void
test_refused(void)
{
	Core	   *c = new_core(4, 64, 50, 0);
	GenParams	p = sampled(2, 5, 1);

	p.temperature = 0;
	refused(c, p, "parameter=n", "must be 1 when temperature is 0");
	p = sampled(1, 5, 1);
	p.out.logprobs = 21;
	refused(c, p, "parameter=logprobs", "must be at most 20, got 21");
	p.out.logprobs = LOGPROBS_ALL;
	refused(c, p, "parameter=logprobs", "whole vocabulary");
	p = sampled(1, 5, 1);
	p.out.prompt_logprobs = 50;
	refused(c, p, "parameter=prompt_logprobs", "must be at most 20");
	p = sampled(1, 5, 1);
	p.priority = 3;
	refused(c, p, "parameter=priority", "must be 0 while requests are served in turn");
	p = sampled(1, 5, 1);
	intvec_push(&p.out.logprob_ids, TINY_VOCAB);
	refused(c, p, "parameter=logprob_token_ids", "must be between 0 and 299, got 300");
	p = sampled(1, 5, 1);
	intvec_push(&p.out.logprob_ids, 1);
	p.out.logprobs = 2;
	refused(c, p, "parameter=logprobs", "number of logprob_token_ids");
	core_free(c);
}

/* ---- ends of all kinds ---- */

static void
test_cancel(int after)
{
	Core	   *c = new_core(3, 16, 12, 8);
	Answers		s = {0};
	Answers		other = {0};
	Err			e = {0};

	answers_submit(c, 1, random_prompt(4, 30), sampled(5, 40, 1), &s);
	answers_submit(c, 2, random_prompt(5, 8), sampled(1, 10, 1), &other);
	for (int i = 0; i < after; i++)
		core_step(c);
	core_cancel(c, 1);
	core_step(c);
	CHECK(core_check(c, &e), "after %d steps: %s", after, e.msg);
	answers_run(c, "cancel");
	CHECK((s.finish == FIN_ABORT || after > 100) && s.late == 0 && other.finish > FIN_NONE &&
		  other.finish <= FIN_LENGTH, "after %d steps: %d, %d", after, s.finish, other.finish);
	CHECK(after > 0 ? s.output_tokens >= 0 : s.output_tokens == 0, "after %d steps: %d tokens", after,
		  s.output_tokens);
	answers_free(&s);
	answers_free(&other);
	core_free(c);
}

static void
test_nan(void)
{
	Core	   *c = new_core(4, 64, 50, 0);
	IntVec		bad = random_prompt(1, 20);
	Answers		s = {0};

	bad.data[10] = FAKE_NAN;
	answers_submit(c, 1, bad, sampled(3, 10, 1), &s);
	answers_run(c, "nan");
	CHECK(s.finish == FIN_ERROR && strstr(s.err.msg, "non-finite") != NULL && s.n == 3, "finish %d, %s",
		  s.finish, s.err.msg);
	answers_free(&s);
	core_free(c);
}

/* Free the core with requests in every state. */
static void
test_free(void)
{
	Core	   *c = new_core(3, 16, 12, 8);
	Answers		s[4] = {0};

	for (int i = 0; i < 4; i++)
		answers_submit(c, (uint64_t) i + 1, random_prompt((uint32_t) i, 20), sampled(3, 40, i), &s[i]);
	for (int i = 0; i < 12; i++)
		core_step(c);
	core_free(c);
	for (int i = 0; i < 4; i++)
	{
		CHECK(s[i].finish == FIN_ABORT && s[i].late == 0, "request %d: finish %d", i, s[i].finish);
		answers_free(&s[i]);
	}
}

static void
test_random(uint32_t seed)
{
	Core	   *c = new_core(5, 24, 16, 8);
	Answers		s[40] = {0};
	Err			e = {0};
	int			live = 0;

	for (int i = 0; i < 40; i++)
	{
		GenParams	p = sampled(1 + (int) (seed >> 8) % 6, 1 + (int) (seed >> 16) % 30, i);

		seed = seed * 1664525u + 1013904223u;
		if (seed >> 30 == 0)
			p.out.logprobs = p.out.prompt_logprobs = 2;
		answers_submit(c, (uint64_t) i + 1, random_prompt(seed, 1 + (int) (seed >> 12) % 60), p, &s[i]);
		for (int k = 0; k < (int) (seed >> 20) % 6; k++)
		{
			core_step(c);
			CHECK(core_check(c, &e), "%s", e.msg);
		}
		if (seed >> 28 == 3)
			core_cancel(c, (uint64_t) (seed >> 4) % 40 + 1);
	}
	answers_run(c, "random");
	for (int i = 0; i < 40; i++)
	{
		live += s[i].finish == FIN_NONE || s[i].late > 0;
		answers_free(&s[i]);
	}
	CHECK(live == 0, "%d have not ended", live);
	core_free(c);
}

/*
 * More choices, or hypotheses, than seats: another session's request doesn't wait for all of them.  If
 * several begin together, each gets its turn.
 */
static void
test_fair(bool beams, int n_others)
{
	Core	   *c = new_core(4, 64, 400, 0);
	Answers    *many = mem_zalloc(sizeof(Answers));
	Answers    *others = mem_zalloc((size_t) n_others * sizeof(Answers));
	GenParams	p = sampled(MAX_ANSWERS, 24, 1);
	int			steps = 0;
	int			done = 0;
	CoreStats	st;

	if (beams)
	{
		p.out.n = 1;
		p.out.beam_width = MAX_ANSWERS;
		p.temperature = 0;
	}
	p.ignore_eos = true;
	answers_submit(c, 1, random_prompt(5, 20), p, many);
	core_step(c);
	core_step(c);
	for (int i = 0; i < n_others; i++)
		answers_submit(c, (uint64_t) i + 2, random_prompt((uint32_t) i, 10), sampled(1, 5, 1), &others[i]);
	while (core_has_work(c) && done < n_others && steps < 1000)
	{
		core_step(c);
		steps++;
		done = 0;
		for (int i = 0; i < n_others; i++)
			done += others[i].finish != FIN_NONE;
	}
	core_stats(c, &st);
	CHECK(st.live == 1 && st.running + st.waiting > 1, "%d requests, %d sequences", (int) st.live,
		  (int) (st.running + st.waiting));
	CHECK(many->finish == FIN_NONE && steps < 40 + 10 * n_others, "%s: %d others took %d steps",
		  beams ? "beams" : "answers", n_others, steps);
	answers_run(c, "fair");
	CHECK(many->n == MAX_ANSWERS && many->finish < FIN_ABORT && many->finish != FIN_NONE, "%d answers",
		  many->n);
	answers_free(many);
	for (int i = 0; i < n_others; i++)
		answers_free(&others[i]);
	mem_free(many);
	mem_free(others);
	core_free(c);
}

/* More log-probabilities than the limit end the request; those of a stream are emitted at once. */
static void
test_too_many(void)
{
	static const int ns[] = {1, 1, 5};

	max_entries = 5000;
	for (int i = 0; i < 3; i++)
	{
		Core	   *c = new_core(8, 64, 100, 0);
		ReqSpec		spec = {.id = 1, .sink = answers_sink, .stream = i == 1, .prompt = random_prompt(1, 20)};
		Answers		s = {0};
		Err			e;

		spec.sink_ctx = &s;
		spec.params = sampled(ns[i], 40, 1);
		spec.params.ignore_eos = true;
		spec.params.out.logprobs = LOGPROBS_ALL;
		CHECK(core_normalize(c, &spec.params, ~0u, &spec.prompt, &e), "%s", e.msg);
		atomic_fetch_add(&answers_open, 1);
		core_submit(c, &spec);
		answers_run(c, "too many");
		if (i == 1)
			CHECK(s.finish == FIN_LENGTH && s.output_tokens == 40, "stream: finish %d", s.finish);
		else
			CHECK(s.finish == FIN_ERROR && s.err.cls == ERR_TOO_LONG &&
				  strstr(s.err.msg, "more than 5000") != NULL && s.n == ns[i], "finish %d, %s", s.finish,
				  s.err.msg);
		answers_free(&s);
		core_free(c);
	}
	for (int i = 0; i < 3; i++)
	{
		Core	   *c = new_core(8, 64, 100, 0);
		GenParams	p = sampled(i == 1 ? 17 : 1, 5, 1);
		IntVec		prompt = random_prompt(1, i == 0 ? 17 : 16);
		Err			e = {0};

		if (i == 1)
			p.out.logprobs = LOGPROBS_ALL;
		else
			p.out.prompt_logprobs = LOGPROBS_ALL;
		CHECK(core_normalize(c, &p, ~0u, &prompt, &e) == (i == 2) && (i == 2 || e.cls == ERR_TOO_LONG),
			  "case %d: %s", i, e.msg);
		genparams_free(&p);
		intvec_free(&prompt);
		core_free(c);
	}
	max_entries = 0;
}

/*
 * Log-probabilities after all stages: two tokens that top_k leaves share all probability; those of a
 * choice are those of a request of its own; at temperature 0 the top token is the row's own.
 */
static void
test_processed(void)
{
	Core	   *c;
	Answers		many = {0};
	Answers		one[3];
	Answers		greedy = {0};
	GenParams	p;

	memset(one, 0, sizeof(one));
	processed = true;
	c = new_core(6, 64, 100, 0);
	for (int i = 0; i < 4; i++)
	{
		p = sampled(i == 3 ? 3 : 1, 8, i == 3 ? 5 : 5 + i);
		p.top_k = 2;
		p.out.logprobs = 3;
		answers_submit_given(c, (uint64_t) i + 1, random_prompt(4, 20), p, ~0u, i == 3 ? &many : &one[i]);
	}
	p = sampled(1, 8, 1);
	p.temperature = 0;
	p.out.logprobs = 0;
	answers_submit(c, 9, random_prompt(4, 20), p, &greedy);
	answers_run(c, "processed");
	for (int i = 0; i < 3; i++)
	{
		const Logprobs *a = many.a[i].lp;
		const Logprobs *b = one[i].a[0].lp;

		CHECK(a != NULL && b != NULL && a->n == b->n && a->n > 0 &&
			  memcmp(a->e, b->e, a->n * sizeof(Logprob)) == 0, "answer %d", i);
		for (size_t k = 0, at = 0; a != NULL && k < a->counts.len; at += (size_t) a->counts.data[k++])
		{
			double		sum = 0;

			for (int j = 0; j < a->counts.data[k]; j++)
				sum += exp((double) a->e[at + (size_t) j].value);
			CHECK(fabs(sum - 1) < 1e-5 && a->e[at].value > -INFINITY, "answer %d, token %zu: %g", i, k, sum);
		}
		answers_free(&one[i]);
	}
	for (size_t k = 0; greedy.a[0].lp != NULL && k < greedy.a[0].lp->n; k++)
		CHECK(greedy.a[0].lp->e[k].rank == 1, "rank %d", greedy.a[0].lp->e[k].rank);
	CHECK(greedy.a[0].lp != NULL && greedy.a[0].lp->n > 0, "no log-probabilities");
	answers_free(&many);
	answers_free(&greedy);
	core_free(c);
	processed = false;
}

/* Each choice has all parameters of the request, also its owner, who decides which tokens may be drafts. */
static void
test_requested(void)
{
	Core	   *c = new_core(8, 64, 100, 0);
	ReqSpec		spec = {.id = 1, .session = 2, .owner = 7, .role = 3, .stream = true, .sink = answers_sink,
						.prompt = random_prompt(1, 20)};
	Answers		s = {0};
	Req		   *r;
	Err			e;

	spec.sink_ctx = &s;
	spec.params = sampled(3, 5, 1);
	CHECK(core_normalize(c, &spec.params, ~0u, &spec.prompt, &e), "%s", e.msg);
	atomic_fetch_add(&answers_open, 1);
	r = core_submit(c, &spec);
	CHECK(spec.id == 0 && spec.prompt.data == NULL && spec.sink == NULL, "the spec is not taken over");
	for (int i = 0; i < 3; i++)
	{
		const ReqSpec *in = &r->group->answers[i]->in;

		CHECK(in->id == 1 && in->session == 2 && in->owner == 7 && in->role == 3 && in->stream &&
			  in->n_prompt == 20 && in->sink_ctx == &s, "answer %d", i);
		CHECK(in->seed == r->in.seed + (uint64_t) i, "seed of answer %d", i);
	}
	answers_run(c, "asked");
	CHECK(s.n == 3 && s.finish != FIN_ERROR, "%d answers, finish %d", s.n, s.finish);
	answers_free(&s);
	core_free(c);
}

static void
test_all(void)
{
	const int	thirds = CHECK_THREADS ? check_effort(1, 1, 3) : 3;

	test_alike(3, 20, 12, 8, 100, 0);
	test_alike(16, 33, 20, 8, 100, 0);
	test_alike(20, 32, 8, 32, 200, 7);
	test_alike(5, 40, 30, 8, 9, 0);
	test_alike(4, 1, 1, 8, 20, 0);
	test_alike(9, 50, 25, 2, 12, 5);
	test_stop();
	test_logprobs(0, 1, 0, 50);
	test_logprobs(3, 1, 0, 50);
	test_logprobs(3, 3, 7, 50);
	test_logprobs(20, 4, 0, 5);
	test_ids();
	for (int i = 0; i < 10 * thirds; i++)
		test_cancel(i);
	test_nan();
	test_free();
	for (int i = 0; i < 7 * thirds; i++)
		test_random((uint32_t) i * 77 + 5);
}

int
main(void)
{
	pool = kpool_new(2);
	for (int i = 0; i < 4; i++)
	{
		overlap = i % 2 == 1;
		recurrent = i >= 2;
		RUN(test_all());
		for (int n = overlap ? 9 : 1; n < 9; n += 4)
		{
			RUN(test_fair(false, n));
			RUN(test_fair(true, n));
		}
	}
	RUN(test_refused());
	RUN(test_copies());
	RUN(test_too_many());
	RUN(test_processed());
	RUN(test_requested());
	kpool_free(pool);
	return check_done("answers");
}
