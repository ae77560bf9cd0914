/*
 * test_spec.c
 *	  Speculation changes no output: a mixed crowd of requests (greedy and sampled, penalties, words and
 *	  stop strings, several choices, log-probabilities, cancels; and one of grammars, reasoning with a
 *	  budget and logits processors) with and without it, in batches, in chunks, in tiny pools.  The
 *	  logits of every token are compared, too, and every invariant is checked after each step.
 *
 * The proposer is scripted: it knows the outputs, and is right, wrong or silent as the case says, so
 * that the acceptance is known beforehand.  Then the real proposers that need no weights.  And which
 * drafts are worth a row.
 */
#include <limits.h>
#include <stdlib.h>

#include "tests/unit/build_path.h"
#include "tests/unit/check.h"
#include "tests/unit/core_util.h"
#include "core/core_state.h"
#include "base/rng.h"
#include "core/spec/spec_internal.h"
#include "tests/unit/fake_model.h"

#define N_REQS	50
#define MOST	3				/* choices of one prompt */

/* ---- a request as its owner saw it ---- */

typedef struct Seen
{
	Rec			rec;
	int64_t		drafted;		/* for all choices, from the last event */
	int64_t		accepted;
	Buf			logits[MOST];	/* hashes of the rows that tokens were sampled from */
	Buf			text[MOST];
	Buf			lps[MOST];
	IntVec		ids[MOST];
} Seen;

static Seen *many;				/* [N_REQS] of the current run */

static void
see(void *ctx, Req *r, const ReqEvent *ev)
{
	Seen	   *s = ctx;

	rec_sink(&s->rec, r, ev);
	s->drafted = ev->draft_tokens;
	s->accepted = ev->accepted_tokens;
	intvec_add(&s->ids[ev->index], ev->ids, (size_t) ev->n_ids);
	buf_add(&s->text[ev->index], ev->text, ev->text_len);
	for (size_t i = 0; ev->logprobs != NULL && i < ev->logprobs->n; i++)
		buf_add(&s->lps[ev->index], (const char *) &ev->logprobs->e[i], sizeof(Logprob));
	if (ev->ended != FIN_NONE)
		buf_printf(&s->text[ev->index], "|%d %s", ev->ended, ev->stop_reason != NULL ? ev->stop_reason : "-");
}

static void
tap(void *ctx, const Req *r, int position, const float *logits, int n)
{
	uint64_t	h = (uint64_t) position;

	(void) ctx;
	for (int i = 0; i < n; i++)
	{
		uint32_t	bits;

		memcpy(&bits, &logits[i], sizeof(bits));
		h = fake_mix(h, bits);
	}
	buf_add(&many[r->in.id - 1].logits[r->index], (const char *) &h, sizeof(h));
}

static void
seen_free(Seen *s)
{
	for (int i = 0; i < N_REQS; i++)
	{
		rec_free(&s[i].rec);
		for (int k = 0; k < MOST; k++)
		{
			buf_free(&s[i].logits[k]);
			buf_free(&s[i].text[k]);
			buf_free(&s[i].lps[k]);
			intvec_free(&s[i].ids[k]);
		}
	}
	mem_free(s);
}

/* ---- the scripted proposer ---- */

typedef enum Script
{
	SC_RIGHT, SC_WRONG, SC_TWO, SC_RANDOM, SC_SCRIPTS
} Script;

static struct
{
	const Seen *answers;		/* [N_REQS] */
	Script		script;
	uint64_t	rng;
	int			requested;
	int			made;			/* drafts made */
	int			us;				/* time for each */
	int			forgotten;
}			script;

static uint64_t
draw_below(uint64_t n)
{
	script.rng = fake_mix(script.rng, 77);
	return (script.rng >> 20) % n;
}

/* Must the i-th draft be right? */
static bool
shall_hit(int i)
{
	switch (script.script)
	{
		case SC_RIGHT:
			return true;
		case SC_WRONG:
			return false;
		case SC_TWO:
			return i != 2;
		default:
			return draw_below(4) > 0;
	}
}

static void
scripted(void *p, DraftRequest *requests, int n)
{
	(void) p;
	for (int i = 0; i < n; i++)
	{
		Req		   *r = requests[i].r;
		const IntVec *ids = &script.answers[r->in.id - 1].ids[r->index];
		int			most = script.script == SC_RANDOM ? (int) draw_below((uint64_t) requests[i].most + 1) :
			requests[i].most;

		script.requested++;
		CHECK(requests[i].most >= 1 && r->spec->drafts.len == 0, "asked for %d drafts", requests[i].most);
		CHECK(r->tokens.len + (size_t) requests[i].most < (size_t) (r->in.n_prompt + r->in.params.max_tokens),
			  "ahead of the end");
		r->spec->own = r;
		for (int k = 0; k < most; k++)
		{
			size_t		at = (size_t) (req_n_output(r) + k);
			int32_t		right = at < ids->len ? ids->data[at] : 40;

			intvec_push(&r->spec->drafts, shall_hit(k) ? right : (right + 1) % 250);
			script.made++;
			if (script.us > 0)
				usleep((useconds_t) script.us);
		}
	}
}

static void
forget(void *p, Req *r)
{
	(void) p;
	script.forgotten += r->spec->own != NULL;
}

static bool
open_script(const SpecEnv *env, void **out, Err *e)
{
	(void) env;
	(void) e;
	*out = mem_alloc(1);
	return true;
}

static const ProposerType scripted_type = {
	.name = "scripted", .flags = SPEC_ALL, .open = open_script, .close = mem_free, .propose = scripted,
	.forget = forget
};

/* ---- the crowd ---- */

/* Submit request i; the requests differ in all parameters. */
static void
issue(Core *c, int i, Seen *s)
{
	GenParams	p = greedy_params(5 + i * 7 % 40);
	ReqSpec		spec = {
		.id = (uint64_t) i + 1, .session = (uint64_t) i % 5,
		.prompt = random_prompt((uint32_t) i / 2, 3 + i * 13 % 50), .sink = see, .sink_ctx = s,
		.stream = i % 3 == 0
	};
	Err			e;

	p.has_seed = true;
	p.seed = 100 + i;
	if (i % 3 > 0)
		p.temperature = 0.5 + i % 5 * 0.3;
	if (i % 4 == 1)
		p.top_k = 20;
	if (i % 4 == 2)
		p.top_p = 0.8;
	if (i % 5 == 2)
	{
		LogitRules *r = genparams_rules(&p);

		r->repetition_penalty = 1.2;
		r->frequency_penalty = 0.4;
		r->presence_penalty = -0.3;
	}
	if (i % 7 == 3)
	{
		p.ignore_eos = false;
		p.min_tokens = 4;
	}
	if (i % 6 == 4)
	{
		p.stop = mem_zalloc(2 * sizeof(char *));
		p.stop_len = mem_zalloc(2 * sizeof(size_t));
		p.stop[0] = mem_strdup("w2");
		p.stop[1] = mem_strdup("e");
		p.stop_len[0] = 2;
		p.stop_len[1] = 1;
		p.n_stop = 2;
		p.include_stop = i % 12 == 4;
	}
	if (i % 5 == 4)
		p.out.logprobs = 2;
	if (i % 9 == 5)
		p.out.prompt_logprobs = 1;
	if (i % 8 == 7 && p.temperature > 0)
		p.out.n = MOST;
	if (i % 11 == 6)
		p.repeat_max = p.repeat_min = 1, p.repeat_count = 2;
	if (!core_normalize(c, &p, GP(TEMPERATURE) | GP(MAX_TOKENS) | GP(TOP_K) | GP(TOP_P), &spec.prompt, &e))
	{
		fprintf(stderr, "core_normalize: %s\n", e.msg);
		exit(2);
	}
	spec.params = p;
	core_submit(c, &spec);
}

/* ---- the other crowd: required and allowed tokens ---- */

static Plugins *plugins;		/* favor, no_twice */

static Tok *
tag_tok(void)
{
	static const char *const words[] = {
		"<think>", "</think>", "<tool_call>", "{\"", "\":", "na", "name", "name\"", "\"}", "\",", "ag", "age",
		"tr", "true", "fal", "false", "\":\"", ",\"", "]}", "he", "hel", "hello", "12", "123", "ye", "yes",
		"no", "{\"na"
	};

	return tok_of_words(words, (int) (sizeof(words) / sizeof(words[0])), 3, "w", false);
}

static Grammar *
grammar_of(int i)
{
	static const struct
	{
		GramKind	kind;
		const char *text;
	}			specs[] = {
		{GRAM_JSON_SCHEMA, "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\","
						   "\"maxLength\":8},\"age\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":150}},"
						   "\"required\":[\"name\",\"age\"]}"},
		{GRAM_JSON_SCHEMA, "{\"type\":\"object\",\"properties\":{\"name\":{\"const\":\"name\"},"
						   "\"ok\":{\"type\":\"boolean\"}},\"required\":[\"name\",\"ok\"]}"},
		{GRAM_REGEX, "(yes|no|hello)+"},
		{GRAM_GRAMMAR, "root ::= num ((\"+\" | \"*\") num){0,4}\nnum ::= [0-9]{1,3} | \"(\" num \")\""},
		{GRAM_JSON_OBJECT, ""},
	};
	GramSpec	s = {.kind = specs[i % 5].kind, .text = specs[i % 5].text, .len = strlen(specs[i % 5].text),
					 .opt.strict = true};
	Err			e = {0};
	Grammar    *g = grammar_new(&s, &e);

	CHECK(g != NULL, "%s", e.msg);
	return g;
}

static ReasoningBudget *
rbudget_of(int budget)
{
	const ReasonFormat *f = reason_format_find("qwen3", 5);
	Tok		   *tok = tag_tok();
	IntVec		end = {0};
	Err			e;
	ReasoningBudget *t;

	tok_encode(tok, "</think>", 8, 0, &end, &e);
	t = rbudget_new(f, NULL, 0, REASON_OPEN, budget, false, &end);
	tok_free(tok);
	return t;
}

static void
issue_tagged(Core *c, int i, Seen *s)
{
	GenParams	p = greedy_params(6 + i * 7 % 40);
	ReqSpec		spec = {
		.id = (uint64_t) i + 1, .session = (uint64_t) i % 5,
		.prompt = random_prompt((uint32_t) i / 2, 3 + i * 13 % 50), .sink = see, .sink_ctx = s,
		.stream = i % 3 == 0
	};
	Err			e;

	p.ignore_eos = i % 4 == 0;
	p.has_seed = true;
	p.seed = i;
	p.skip_special = false;
	p.temperature = i % 3 * 0.6;
	if (i % 5 == 4)
		p.out.logprobs = 1;
	if (i % 8 == 7 && p.temperature > 0)
		p.out.n = MOST;
	if (i % 4 == 3)
	{
		p.extra_args = mem_strdup(i % 8 == 3 ? "{\"no_twice\": 1}" : "{\"favor\": 60, \"no_twice\": 1}");
		CHECK(plugins_check(plugins, p.extra_args, &p.plugins, &e), "%s", e.msg);
	}
	if (i % 3 == 1)
		spec.reasoning_budget = rbudget_of(i % 2 == 0 ? 5 : THOUGHTS_NO_BUDGET);
	if (i % 4 < 2)
		spec.grammar = grammar_of(i / 4);
	if (spec.grammar != NULL && spec.reasoning_budget != NULL)
		spec.grammar_after = "</think>";
	if (!core_normalize(c, &p, GP(TEMPERATURE) | GP(MAX_TOKENS), &spec.prompt, &e))
	{
		fprintf(stderr, "core_normalize: %s\n", e.msg);
		exit(2);
	}
	spec.params = p;
	core_submit(c, &spec);
}

typedef struct Case
{
	int			seqs,
				rows,
				blocks,
				chunk;
	bool		prefix,
				overlap;
	bool		cancels;
	bool		tagged;			/* run the other crowd */
} Case;

/* Run the whole crowd. */
static Seen *
run(const Case *k, SpecConfig spec, CoreStats *st)
{
	CoreOptions opt = options(k->seqs, k->rows, k->blocks);
	Conf	   *conf = conf_new();
	Seen	   *s = mem_zalloc(N_REQS * sizeof(Seen));
	Err			e = {0};
	Core	   *c;
	uint64_t	rng = 5;
	int			next = 0;

	opt.max_chunk = k->chunk;
	opt.prefix_caching = k->prefix;
	opt.overlap = k->overlap;
	opt.tap = tap;
	opt.spec = spec;
	opt.plugins = k->tagged ? plugins : NULL;
	many = s;
	c = core_new(fake_model(512), k->tagged ? tag_tok() : tiny_tok(), conf, &opt, &e);
	conf_free(conf);
	if (c == NULL || (k->tagged && !core_prepare_grammar(c, &e)))
	{
		fprintf(stderr, "core_new: %s\n", e.msg);
		exit(2);
	}
	while (next < N_REQS || core_has_work(c))
	{
		rng = fake_mix(rng, 3);
		for (uint64_t n = rng >> 40 & 3; n > 0 && next < N_REQS; n--, next++)
			(k->tagged ? issue_tagged : issue) (c, next, &s[next]);
		if (k->cancels && next > 0 && (rng >> 50 & 7) == 0)
			core_cancel(c, (rng >> 30) % (uint64_t) next + 1);
		core_step(c);
		if (!core_check(c, &e))
		{
			CHECK(false, "%s", e.msg);
			break;
		}
	}
	core_stats(c, st);
	core_free(c);
	return s;
}

static bool
equal(const void *a, size_t n_a, const void *b, size_t n_b)
{
	return n_a == n_b && (n_a == 0 || memcmp(a, b, n_a) == 0);
}

/* if it was cancelled, compare the common beginning */
static bool
begins(const void *a, size_t n_a, const void *b, size_t n_b)
{
	return equal(a, n_a < n_b ? n_a : n_b, b, n_a < n_b ? n_a : n_b);
}

static void
compare(const char *label, const Seen *want, const Seen *got, bool logits)
{
	for (int i = 0; i < N_REQS; i++)
	{
		bool		cut = want[i].rec.finish == FIN_ABORT || got[i].rec.finish == FIN_ABORT;
		bool		(*same) (const void *a, size_t n_a, const void *b, size_t n_b) = cut ? begins : equal;

		CHECK(cut || want[i].rec.finish == got[i].rec.finish, "%s, %d: finish %d instead of %d (%s)", label,
			  i, got[i].rec.finish, want[i].rec.finish, got[i].rec.err.msg);
		CHECK(got[i].rec.late_events == 0, "%s, %d: events behind the end", label, i);
		CHECK(cut || want[i].rec.prompt_lps == got[i].rec.prompt_lps, "%s, %d: prompt's log-probabilities",
			  label, i);
		CHECK(cut || want[i].rec.output_tokens == got[i].rec.output_tokens,
			  "%s, %d: %d output tokens instead of %d", label, i, got[i].rec.output_tokens,
			  want[i].rec.output_tokens);
		for (int k = 0; k < MOST; k++)
		{
			const Seen *a = &want[i];
			const Seen *b = &got[i];

			CHECK(same(a->ids[k].data, a->ids[k].len * 4, b->ids[k].data, b->ids[k].len * 4),
				  "%s, %d: tokens differ", label, i);
			CHECK(cut || same(a->text[k].data, a->text[k].len, b->text[k].data, b->text[k].len),
				  "%s, %d: \"%s\" instead of \"%s\"", label, i, b->text[k].data, a->text[k].data);
			CHECK(same(a->lps[k].data, a->lps[k].len, b->lps[k].data, b->lps[k].len),
				  "%s, %d: log-probabilities differ", label, i);
			/* with threads, one or two tokens after a stop string may be computed */
			CHECK(!logits || same(a->logits[k].data, a->logits[k].len, b->logits[k].data, b->logits[k].len) ||
				  (b->rec.has_reason && begins(a->logits[k].data, a->logits[k].len, b->logits[k].data,
											   b->logits[k].len)),
				  "%s, %d: logits differ", label, i);
		}
	}
}

static const Case cases[] = {
	{1, 64, 200, 0, false, false, false, false},
	{8, 64, 400, 0, false, false, false, false},
	{32, 512, 2000, 0, false, false, false, false},
	{8, 64, 400, 5, true, false, false, false},
	{8, 24, 12, 0, false, false, false, false},
	{16, 40, 16, 7, true, false, false, false},
	{16, 256, 30, 0, true, true, false, false},
	{16, 128, 24, 0, true, false, true, false},
	{16, 128, 24, 9, true, true, true, false},
	{6, 6, 14, 0, true, false, true, false},
};

#define N_CASES ((int) (sizeof(cases) / sizeof(cases[0])))

static void
test_case(const char *label, Case k, const Seen *want, SpecConfig spec, CoreStats *st)
{
	Seen	   *got;

	fake.bad_slots = 0;
	got = run(&k, spec, st);
	CHECK(fake.bad_slots == 0, "%s: %d slots of others", label, fake.bad_slots);
	compare(label, want, got, true);
	CHECK(st->spec_draft_tokens >= st->spec_accepted && st->spec_draft_tokens >= st->spec_drafts,
		  "%s: %lld of %lld drafts", label, (long long) st->spec_accepted, (long long) st->spec_draft_tokens);
	seen_free(got);
}

static void
test_many(bool tagged)
{
	const Case	plain = {16, 256, 2000, 0, false, false, false, tagged};
	CoreStats	st;
	Seen	   *want = run(&plain, (SpecConfig) {0}, &st);
	int64_t		preempted = 0;
	int64_t		accepted = 0;
	int64_t		n_drafted[2] = {0};
	int64_t		few;
	char		label[80];

	CHECK(st.spec_drafts == 0 && st.spec_draft_tokens == 0, "drafts without speculation");
	script.answers = want;
	for (int i = 0; i < N_CASES; i++)
	{
		Case		k = cases[i];

		k.tagged = tagged;
		for (int sc = 0; sc < SC_SCRIPTS; sc++)
			for (int n_drafts = 1; n_drafts <= 9; n_drafts += 4)
			{
				/* half of the scripts */
				if (CHECK_THREADS && check_effort(1, 1, 2) == 1 && (i + sc) % 2 != 0)
					continue;
				/* tagged, or under sanitizers: only one number of drafts for each, in turn */
				if ((tagged || CHECK_SLOW > 1) && check_effort(1, 1, 2) == 1 && (i + sc) % 3 != n_drafts / 4)
					continue;
				snprintf(label, sizeof(label), "%scase %d, script %d, %d drafts", tagged ? "tagged, " : "", i,
						 sc, n_drafts);
				script.script = (Script) sc;
				script.rng = (uint64_t) i + 1;
				test_case(label, k, want, (SpecConfig) {.type = &scripted_type, .n_drafts = n_drafts}, &st);
				CHECK(st.spec_drafts > 0 || k.rows == 6, "%s: no drafts", label);
				CHECK(sc != SC_WRONG || st.spec_accepted == 0, "%s: wrong drafts were taken", label);
				preempted += st.preemptions;
				accepted += st.spec_accepted;
			}
		for (int real = 0; real < 2; real++)
		{
			SpecConfig	spec;
			Err			e = {0};

			snprintf(label, sizeof(label), "%scase %d, %s", tagged ? "tagged, " : "", i,
					 real == 0 ? "ngram" : "suffix");
			CHECK(spec_config_parse(real == 0
									? "{\"method\":\"ngram\",\"num_speculative_tokens\":5,"
									  "\"prompt_lookup_min\":1,\"prompt_lookup_max\":3}" :
									"{\"method\":\"suffix\"}", &spec, &e), "%s", e.msg);
			test_case(label, k, want, spec, &st);
			n_drafted[real] += st.spec_drafts;
		}
	}
	/* disable_by_batch_size: drafts only when few requests are left */
	script.script = SC_RIGHT;
	test_case("many", plain, want, (SpecConfig) {.type = &scripted_type, .n_drafts = 4}, &st);
	few = st.spec_drafts;
	test_case("few", plain, want, (SpecConfig) {.type = &scripted_type, .n_drafts = 4, .max_batch = 2}, &st);
	CHECK(st.spec_drafts > 0 && st.spec_drafts < few / 2, "%lld of %lld drafts", (long long) st.spec_drafts,
		  (long long) few);
	CHECK(preempted > 0 && accepted > 0, "%lld preempted, %lld accepted", (long long) preempted,
		  (long long) accepted);
	/* not in each case: drafts are used where they pay */
	CHECK(n_drafted[0] > 0 && n_drafted[1] > 0, "%lld and %lld drafts", (long long) n_drafted[0],
		  (long long) n_drafted[1]);
	seen_free(want);
}

/* ---- counters ---- */

/* Run one request of n tokens, with drafts of `script`. */
static CoreStats
run_one(int n, int n_drafts, Script sc)
{
	CoreOptions opt = options(1, 64, 100);
	Conf	   *conf = conf_new();
	Seen	   *s = mem_zalloc(N_REQS * sizeof(Seen));
	Seen	   *known = mem_zalloc(N_REQS * sizeof(Seen));
	CoreStats	st;
	Err			e = {0};

	for (int with = 0; with < 2; with++)
	{
		Seen	   *to = with ? s : known;
		Core	   *c;
		ReqSpec		spec = {.id = 1, .prompt = random_prompt(9, 20), .params = greedy_params(n), .sink = see,
							.sink_ctx = to};

		opt.spec = (SpecConfig) {.type = with ? &scripted_type : NULL, .n_drafts = n_drafts, .max_batch = 2};
		script.answers = known;
		script.script = sc;
		script.requested = script.forgotten = 0;
		c = core_new(fake_model(512), tiny_tok(), conf, &opt, &e);
		CHECK(core_normalize(c, &spec.params, GP(TEMPERATURE) | GP(MAX_TOKENS), &spec.prompt, &e), "%s",
			  e.msg);
		core_submit(c, &spec);
		while (core_has_work(c))
			core_step(c);
		core_stats(c, &st);
		core_free(c);
	}
	CHECK(s[0].ids[0].len == (size_t) n && memcmp(s[0].ids[0].data, known[0].ids[0].data,
												  (size_t) n * 4) == 0, "tokens differ");
	CHECK(script.requested == 0 || script.forgotten == 1, "forgotten %d times", script.forgotten);
	CHECK(s[0].drafted == st.spec_draft_tokens && s[0].accepted == st.spec_accepted,
		  "the request's figures: %lld of %lld drafts", (long long) s[0].accepted, (long long) s[0].drafted);
	conf_free(conf);
	seen_free(s);
	seen_free(known);
	return st;
}

static void
test_figures(void)
{
	/* 1 token with the prompt, then 5 in each step */
	CoreStats	st = run_one(21, 4, SC_RIGHT);

	CHECK(st.steps == 1 + 4 && st.spec_drafts == 4 && st.spec_draft_tokens == 16 && st.spec_accepted == 16,
		  "%lld steps, %lld drafts of %lld tokens, %lld accepted", (long long) st.steps,
		  (long long) st.spec_drafts, (long long) st.spec_draft_tokens, (long long) st.spec_accepted);
	for (int i = 0; i < SPEC_MAX_DRAFTS; i++)
		CHECK((&st.spec_accepted_0)[i] == (i < 4 ? 4 : 0), "%lld accepted at %d",
			  (long long) (&st.spec_accepted_0)[i], i);
	/*
	 * the third is wrong: 3 in each step; the last step has room for one draft only, 22 = 1 + 6 * 3 + 3
	 * (2 drafts)
	 */
	st = run_one(22, 4, SC_TWO);
	CHECK(st.steps == 1 + 7 && st.spec_drafts == 7 && st.spec_draft_tokens == 6 * 4 + 2 &&
		  st.spec_accepted == 14 && st.spec_accepted_0 == 7 && st.spec_accepted_1 == 7 &&
		  st.spec_accepted_2 == 0, "%lld steps, %lld drafts of %lld tokens, %lld accepted",
		  (long long) st.steps, (long long) st.spec_drafts, (long long) st.spec_draft_tokens,
		  (long long) st.spec_accepted);
	st = run_one(22, 4, SC_WRONG);
	CHECK(st.steps == 22 && st.spec_accepted == 0 && st.spec_drafts == 20, "%lld steps, %lld drafts",
		  (long long) st.steps, (long long) st.spec_drafts);
	/* no drafts beyond the end */
	st = run_one(2, 4, SC_RIGHT);
	CHECK(st.steps == 2 && st.spec_drafts == 0, "%lld steps, %lld drafts", (long long) st.steps,
		  (long long) st.spec_drafts);
}

/* ---- drafts that take time ---- */

static const ProposerType costly_type = {
	.name = "dear", .flags = SPEC_COSTLY, .open = open_script, .close = mem_free, .propose = scripted,
	.forget = forget
};

/*
 * Run n requests, and `late` others that come one by one meanwhile, with right drafts.  Returns how many
 * drafts are made.
 */
static CoreStats
run_costly(int n, int late, int us)
{
	CoreOptions opt = options(n + 4, 600, 8 * (n + late));
	Seen	   *known = mem_zalloc(N_REQS * sizeof(Seen));
	Seen	   *got = mem_zalloc(N_REQS * sizeof(Seen));
	CoreStats	st;

	script.answers = known;
	script.script = SC_RIGHT;
	for (int with = 0; with < 2; with++)
	{
		Core	   *c;

		opt.spec = (SpecConfig) {.type = with ? &costly_type : NULL, .n_drafts = n > 1 ? 9 : 5};
		script.us = with ? us : 0;
		script.made = 0;
		c = core_for_grammars(fake_model(512), tiny_tok(), opt);
		for (int i = 0; i < n + late; i++)
		{
			ReqSpec		spec = {.id = (uint64_t) i + 1, .session = (uint64_t) i,
								.prompt = random_prompt((uint32_t) i, 20),
				.params = greedy_params(i < n ? 60 : 2), .sink = see, .sink_ctx = (with ? got : known) + i};
			Err			e;

			CHECK(core_normalize(c, &spec.params, GP(TEMPERATURE) | GP(MAX_TOKENS), &spec.prompt, &e), "%s",
				  e.msg);
			core_submit(c, &spec);
			if (i >= n)
				core_step(c);
		}
		while (core_has_work(c))
			core_step(c);
		core_stats(c, &st);
		core_free(c);
	}
	for (int i = 0; i < n + late; i++)
		CHECK(got[i].ids[0].len == known[i].ids[0].len && memcmp(got[i].ids[0].data, known[i].ids[0].data,
																 got[i].ids[0].len * 4) == 0,
			  "request %d: other tokens", i);
	script.us = 0;
	seen_free(known);
	seen_free(got);
	return st;
}

static void
test_costly(void)
{
	CoreStats	st;

	/* a step has 256 rows for drafts, so no more are made */
	fake.base_us = 200;
	st = run_costly(N_REQS, 0, 0);
	CHECK(st.spec_draft_tokens > 500 && st.spec_draft_tokens == script.made, "%d made, %d computed",
		  script.made, (int) st.spec_draft_tokens);
	/* long enough that drafts are cheap even on a busy machine */
	fake.base_us = 20000;
	/* in the time of one token it makes five */
	st = run_costly(1, 0, 100);
	CHECK(st.steps < 40 && st.spec_draft_tokens == script.made, "%d steps, %d made, %d computed",
		  (int) st.steps, script.made, (int) st.spec_draft_tokens);
	/* drafting a token takes longer than computing it */
	fake.base_us = 1000;
	st = run_costly(1, 0, 10000);
	CHECK(script.made < 12, "%d are made that cost more than they bring", script.made);
	fake.base_us = 0;
}

/* ---- models that can't draft ---- */

static void
test_refused(void)
{
	CoreOptions opt = options(4, 64, 100);
	Conf	   *conf = conf_new();
	Err			e = {0};
	Core	   *c;

	fake.no_state = false;
	opt.spec = (SpecConfig) {.type = &scripted_type, .n_drafts = 3, .requested = true};
	c = core_new(fake_model(512), tiny_tok(), conf, &opt, &e);
	CHECK(c == NULL && e.cls == ERR_UNSUPPORTED, "%s", e.msg);
	core_free(c);
	opt.spec.requested = false;
	c = core_new(fake_model(512), tiny_tok(), conf, &opt, &e);
	CHECK(c != NULL, "%s", e.msg);
	core_free(c);
	conf_free(conf);
	fake.no_state = true;
}

/* ---- which drafts are worth a row ---- */

static const ProposerType plain_type = {.name = "plain"};

/* Teach it steps of 1 to 9 rows that take base + row * n. */
static void
learn(Spec *s, double base, double row)
{
	for (int i = 0; i < 300; i++)
	{
		int			n = 1 + i % 9;

		spec_learn(s, &(Plan) {.n_rows = n, .n_sample = n}, (int64_t) (base + row * n));
	}
}

/*
 * n requests have `offered` drafts each, of which `hits` percent are right.  Returns how many are used
 * in a step that has prompt_rows rows of prompts.
 */
static int
taken(Spec *s, int n, int offered, int hits, int prompt_rows, int room)
{
	PlanEntry	e[64] = {0};
	Plan		plan = {.n = n, .e = e, .n_rows = n + prompt_rows, .n_sample = n};
	Req		   *r = mem_zalloc((size_t) n * sizeof(Req));
	SpecReq    *spec = mem_zalloc((size_t) n * sizeof(SpecReq));
	int			sum = 0;

	for (int i = 0; i < SPEC_GRADES; i++)
		s->graded[i][0] = s->graded[i][1] = 0.5;
	s->hits[0] = s->hits[1] = 0.5;
	for (int i = 0; i < n; i++)
	{
		r[i].spec = &spec[i];
		e[i] = (PlanEntry) {.r = &r[i], .n = 1, .sample = true};
		spec[i].hits[0] = spec[i].hits[1] = hits / 100.0;
		for (int k = 0; k < offered; k++)
			intvec_push(&spec[i].drafts, 40);
	}
	spec_choose(s, &plan, room);
	for (int i = 0; i < n; i++)
	{
		sum += (int) spec[i].drafts.len;
		intvec_free(&spec[i].drafts);
	}
	mem_free(spec);
	mem_free(r);
	return sum;
}

static void
test_choice(void)
{
	Spec		s = {.conf = {.type = &plain_type, .n_drafts = 8}, .env = {.max_rows = 512}};
	int			n = 0;

	/* nothing is known: use all */
	CHECK(taken(&s, 1, 8, 90, 0, 100) == 8, "%d", taken(&s, 1, 8, 90, 0, 100));
	/* rows cost nothing: use all that may be right */
	learn(&s, 1000, 0);
	CHECK(taken(&s, 1, 8, 90, 0, 100) == 8 && taken(&s, 4, 8, 90, 0, 100) == 32, "%d",
		  taken(&s, 4, 8, 90, 0, 100));
	CHECK(taken(&s, 1, 8, 10, 0, 100) >= 1 && taken(&s, 1, 8, 10, 0, 100) <= 2, "%d",
		  taken(&s, 1, 8, 10, 0, 100));
	CHECK(taken(&s, 4, 8, 90, 0, 20) <= 20, "more than there is room for");
	/* rows cost everything: use none, however good */
	learn(&s, 0, 1000);
	CHECK(taken(&s, 1, 8, 90, 0, 100) == 0 && taken(&s, 16, 8, 90, 0, 300) == 0, "%d",
		  taken(&s, 16, 8, 90, 0, 300));
	/* in between: a draft that is right three times in ten is not worth nearly half a step */
	learn(&s, 1000, 800);
	CHECK(taken(&s, 1, 8, 30, 0, 100) == 0, "%d", taken(&s, 1, 8, 30, 0, 100));
	CHECK(taken(&s, 1, 8, 90, 0, 100) >= 3, "%d", taken(&s, 1, 8, 90, 0, 100));
	/* next to prompts: only the likely ones */
	learn(&s, 1000, 0);
	CHECK(taken(&s, 1, 8, 50, 100, 100) == 0 && taken(&s, 1, 8, 95, 100, 100) >= 2, "%d",
		  taken(&s, 1, 8, 95, 100, 100));
	/* an outlier, and a size that was slow once */
	learn(&s, 1000, 0);
	for (int i = 0; i < 5; i++)
	{
		spec_learn(&s, &(Plan) {.n_rows = 9, .n_sample = 9}, 1000000);
		spec_learn(&s, &(Plan) {.n_rows = 1, .n_sample = 1}, 1000);
	}
	for (int i = 0; i < 400; i++)
		spec_learn(&s, &(Plan) {.n_rows = 1, .n_sample = 1}, 1000);
	CHECK(taken(&s, 1, 8, 90, 0, 100) > 0, "it is never tried again");
	/* a request whose drafts are always wrong may try now and then */
	learn(&s, 1000, 200);
	{
		SpecReq		spec = {.hits = {0.01, 0.01}};
		Req			r = {.spec = &spec};
		PlanEntry	e = {.r = &r, .n = 1, .sample = true};
		Plan		plan = {.n = 1, .e = &e, .n_rows = 1, .n_sample = 1};

		for (int i = 0; i < 640; i++)
		{
			while (spec.drafts.len < 8)
				intvec_push(&spec.drafts, 40);
			spec_choose(&s, &plan, 100);
			n += (int) spec.drafts.len;
		}
		intvec_free(&spec.drafts);
	}
	CHECK(n == 10, "%d drafts in 640 steps", n);
}

/*
 * n requests may have `most` drafts each, which are right `hits` percent of the time.  Returns how many
 * drafts are made for a step, with prompts or without.
 */
static int
afforded(Spec *s, int n, int most, int hits, bool prompts)
{
	DraftRequest *requests = mem_zalloc((size_t) n * sizeof(DraftRequest));
	Req		   *r = mem_zalloc((size_t) n * sizeof(Req));
	SpecReq    *spec = mem_zalloc((size_t) n * sizeof(SpecReq));
	int			sum = 0;
	int			left;

	for (int i = 0; i < n; i++)
	{
		r[i].spec = &spec[i];
		spec[i].hits[0] = spec[i].hits[1] = hits / 100.0;
		requests[i] = (DraftRequest) {&r[i], most};
	}
	left = spec_afford(s, requests, n, n, prompts);
	for (int i = 0; i < left; i++)
		sum += requests[i].most;
	mem_free(requests);
	mem_free(r);
	mem_free(spec);
	return sum;
}

static void
test_afford(void)
{
	static const ProposerType type = {.name = "dear", .flags = SPEC_COSTLY};
	Spec		s = {.conf = {.type = &type, .n_drafts = 8}, .env = {.max_rows = 512}, .max_rows = 300};

	learn(&s, 1000, 1);
	taken(&s, 1, 1, 50, 0, 100);	/* half of all are right */
	/*
	 * as many as have logits: the first drafts are worth more, so rather one for each request than all
	 * for a few
	 */
	CHECK(afforded(&s, 10, 8, 95, false) == 80, "%d", afforded(&s, 10, 8, 95, false));
	CHECK(afforded(&s, 100, 8, 95, false) == 200, "%d", afforded(&s, 100, 8, 95, false));
	CHECK(afforded(&s, 300, 8, 95, false) == 0, "%d", afforded(&s, 300, 8, 95, false));
	/* next to prompts: only the likely ones */
	CHECK(afforded(&s, 10, 8, 60, true) == 0 && afforded(&s, 10, 8, 95, true) >= 20,
		  "%d of 60 %%, %d of 95 %%", afforded(&s, 10, 8, 60, true), afforded(&s, 10, 8, 95, true));
	/* prompts that came unexpectedly; expected ones were considered when the drafts were made */
	CHECK(taken(&s, 4, 8, 60, 100, 100) == 0, "%d", taken(&s, 4, 8, 60, 100, 100));
	CHECK(taken(&s, 4, 8, 60, 100, 100) == 32, "%d", taken(&s, 4, 8, 60, 100, 100));
	taken(&s, 1, 1, 50, 0, 100);
	/* making drafts takes time: none, if that is more than their gain, however many requests share it */
	for (int i = 0; i < 50; i++)
		spec_drafted(&s, 4, 4 * 1000);
	CHECK(afforded(&s, 1, 8, 90, false) == 0, "%d", afforded(&s, 1, 8, 90, false));
	for (int i = 0; i < 50; i++)
		spec_drafted(&s, 4, 4 * 100);
	CHECK(afforded(&s, 1, 8, 90, false) >= 3, "%d", afforded(&s, 1, 8, 90, false));
}

static void
load_plugins(void)
{
	char		library[PATH_MAX];
	char		list[2 * PATH_MAX + 20];
	Err			e = {0};

	CHECK(build_path(library, sizeof(library), "tests/plugins/processors.so"), "not in a build");
	snprintf(list, sizeof(list), "%s:favor,%s:no_twice", library, library);
	CHECK(plugins_load(list, &plugins, &e), "%s", e.msg);
}

int
main(int argc, char **argv)
{
	(void) argc;
	(void) argv;
	fake.no_state = true;
	load_plugins();
	RUN(test_many(false));
	RUN(test_many(true));
	RUN(test_figures());
	RUN(test_costly());
	RUN(test_afford());
	RUN(test_refused());
	RUN(test_choice());
	plugins_free(plugins);
	return check_done("spec");
}
