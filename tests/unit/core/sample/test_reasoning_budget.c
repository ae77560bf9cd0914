/*
 * test_reasoning_budget.c
 *	  thinking_token_budget with a fake model: until the budget is used up the reasoning is the same as
 *	  without a budget, then the end tag's tokens come, and nothing else changes; whatever the batch, the
 *	  chunks, the preemptions and the other parameters.
 */
#include "core/core.h"

#include "core/core_internal.h"

#include "tests/unit/check.h"
#include "tests/unit/core_util.h"
#include "tests/unit/fake_model.h"

#define START	TINY_WORD		/* <think> */
#define END		(TINY_WORD + 1) /* </think> */
#define OTHER	(TINY_WORD + 2) /* <tool_call>, which ends Qwen3's reasoning, too */

/* Bytes, and the tags as special tokens. */
static Tok *
tag_tok(void)
{
	static const char *const tags[] = {"<think>", "</think>", "<tool_call>"};

	return tok_of_words(tags, 3, 3, "w", false);
}

static Core *
new_core(CoreOptions opt)
{
	return core_for_grammars(fake_model(1024), tag_tok(), opt);
}

static GenParams
params(int max_tokens, double temperature, int64_t seed)
{
	GenParams	p;

	genparams_init(&p);
	p.max_tokens = max_tokens;
	p.temperature = temperature;
	p.has_seed = true;
	p.seed = seed;
	p.ignore_eos = true;
	p.skip_special = false;
	return p;
}

static ReasoningBudget *
thoughts(const char *parser, ReasonAt at, int budget)
{
	const ReasonFormat *f = reason_format_find(parser, strlen(parser));
	Tok		   *tok = tag_tok();
	IntVec		end = {0};
	Err			e;
	ReasoningBudget *t;

	tok_encode(tok, reason_format_end(f), strlen(reason_format_end(f)), 0, &end, &e);
	t = rbudget_new(f, NULL, 0, at, budget, false, &end);
	tok_free(tok);
	return t;
}

static void
issue(Core *c, uint64_t id, GenParams p, ReasoningBudget *t, Grammar *g, Rec *rec)
{
	ReqSpec		spec = {.id = id, .session = 1, .sink = rec_sink, .sink_ctx = rec, .reasoning_budget = t,
						.grammar = g};
	Err			e;

	spec.prompt = random_prompt((uint32_t) id * 7 + 1, 10 + (int) (id % 5));
	if (g != NULL)
		spec.grammar_after = "</think>";
	if (!core_normalize(c, &p, GP(TEMPERATURE) | GP(MAX_TOKENS), &spec.prompt, &e))
	{
		fprintf(stderr, "core_normalize: %s\n", e.msg);
		exit(2);
	}
	spec.params = p;
	core_submit(c, &spec);
}

static bool
run(Core *c)
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

/* Run one request alone. */
static void
one(CoreOptions opt, GenParams p, ReasoningBudget *t, Rec *rec)
{
	Core	   *c = new_core(opt);

	issue(c, 1, p, t, NULL, rec);
	CHECK(run(c), "run");
	core_free(c);
}

static int
first_at(const IntVec *ids, int32_t id)
{
	for (size_t i = 0; i < ids->len; i++)
		if (ids->data[i] == id)
			return (int) i;
	return -1;
}

/*
 * The prompt has begun the reasoning: it equals that of the same request without a budget, up to the
 * budget.
 */
static void
test_open(void)
{
	static const int budgets[] = {0, 1, 2, 7, 30, 59, 60, 1000};
	CoreOptions opt = options(4, 64, 50);
	Rec			free = {0};

	one(opt, params(60, 1, 3), NULL, &free);
	CHECK(first_at(&free.ids, END) < 0 && free.ids.len == 60, "the seed is no good: choose another");
	for (size_t i = 0; i < sizeof(budgets) / sizeof(budgets[0]); i++)
	{
		int			b = budgets[i];
		Rec			r = {0};

		one(opt, params(60, 1, 3), thoughts("deepseek_r1", REASON_OPEN, b), &r);
		CHECK(r.finish == FIN_LENGTH && r.ids.len == 60, "budget %d: finish %d after %zu", b, r.finish,
			  r.ids.len);
		CHECK(first_at(&r.ids, END) == (b < 60 ? b : -1), "budget %d: the end at %d", b,
			  first_at(&r.ids, END));
		CHECK(memcmp(r.ids.data, free.ids.data, (size_t) (b < 60 ? b : 60) * sizeof(int32_t)) == 0,
			  "budget %d: other thoughts", b);
		for (int k = b + 1, n = 0; k < 60; k++)
			CHECK(r.ids.data[k] != END || ++n < 3, "budget %d: ends over and over", b);
		rec_free(&r);
	}
	rec_free(&free);
}

/* A tag of several tokens is completed; the tokens that the model has written itself are not repeated. */
static void
test_long_tag(void)
{
	static const char tag[] = "</seed:think>";
	CoreOptions opt = options(4, 64, 50);
	Rec			r = {0};
	int			n = (int) strlen(tag);

	one(opt, params(60, 1, 3), thoughts("seed_oss", REASON_OPEN, 5), &r);
	for (int i = 0; i < n; i++)
		CHECK(r.ids.data[5 + i] == TINY_BYTE(tag[i]), "token %d is %d", 5 + i, r.ids.data[5 + i]);
	rec_free(&r);

	/* the model always writes '<': the last of five begins the tag */
	fake.bias_id = TINY_BYTE('<');
	fake.bias = 100;
	one(opt, params(60, 1, 3), thoughts("seed_oss", REASON_OPEN, 5), &r);
	for (int i = 0; i < 5; i++)
		CHECK(r.ids.data[i] == TINY_BYTE('<'), "token %d is %d", i, r.ids.data[i]);
	for (int i = 1; i < n; i++)
		CHECK(r.ids.data[4 + i] == TINY_BYTE(tag[i]), "token %d is %d", 4 + i, r.ids.data[4 + i]);
	CHECK(r.ids.data[4 + n] == TINY_BYTE('<') && r.ids.len == 60, "behind the tag %d", r.ids.data[4 + n]);
	rec_free(&r);
	fake.bias = 0;
}

/* Feed tokens by hand; check what is forced after each, and the count. */
static void
feed(const char *what, ReasoningBudget *t, const int32_t *ids, int n, const int32_t *forced, int count)
{
	Tok		   *tok = tag_tok();

	for (int i = 0; i <= n; i++)
	{
		CHECK(rbudget_forced(t) == forced[i], "%s: after %d tokens %d is forced, not %d", what, i,
			  rbudget_forced(t), forced[i]);
		if (i < n)
			rbudget_token(t, tok, ids, i + 1);
	}
	CHECK(rbudget_count(t) == count, "%s: %d are counted, not %d", what, rbudget_count(t), count);
	rbudget_free(t);
	tok_free(tok);
}

#define A TINY_BYTE('a')
#define NL TINY_BYTE('\n')
#define SP TINY_BYTE(' ')

static void
test_count(void)
{
	static const int32_t no[9] = {-1, -1, -1, -1, -1, -1, -1, -1, -1};

	/* the start tag and the text before it are not reasoning; content isn't either */
	feed("tagged", thoughts("deepseek_r1", REASON_UNKNOWN, 2), (int32_t[]) {NL, START, A, A, END, A, A}, 7,
		 (int32_t[]) {-1, -1, -1, -1, END, -1, -1, -1}, 2);
	/* without a start tag the reasoning begins at once */
	feed("untagged", thoughts("deepseek_r1", REASON_UNKNOWN, 2), (int32_t[]) {A, A, END, A}, 4,
		 (int32_t[]) {-1, -1, END, -1, -1}, 2);
	feed("unlimited", thoughts("deepseek_r1", REASON_UNKNOWN, THOUGHTS_NO_BUDGET),
		 (int32_t[]) {A, A, A, END, A}, 5, no, 3);
	feed("by itself", thoughts("deepseek_r1", REASON_OPEN, 3), (int32_t[]) {A, END, A, A, A, A}, 6, no, 1);
	feed("at once", thoughts("deepseek_r1", REASON_OPEN, 0), (int32_t[]) {END, A, A}, 3,
		 (int32_t[]) {END, -1, -1, -1}, 0);
	/* white space counts as reasoning, too */
	feed("blank", thoughts("deepseek_r1", REASON_OPEN, 2), (int32_t[]) {NL, SP, END, A}, 4,
		 (int32_t[]) {-1, -1, END, -1, -1}, 2);
	feed("closed", thoughts("deepseek_r1", REASON_CLOSED, 1), (int32_t[]) {A, A, START, A, A}, 5, no, 0);
	/* a tag in content is content */
	feed("content", thoughts("deepseek_r1", REASON_OPEN, 5), (int32_t[]) {A, END, START, A, A, A, A, A}, 8,
		 no, 1);
	feed("another end", thoughts("qwen3", REASON_OPEN, 3), (int32_t[]) {A, A, OTHER, A, A, A}, 6, no, 2);
	/* a prompt that is not a chat: reasoning begins only with a tag, at any place */
	feed("plain", thoughts("deepseek_r1", REASON_PLAIN, 1), (int32_t[]) {A, A, START, A, END, A}, 6,
		 (int32_t[]) {-1, -1, -1, -1, END, -1, -1}, 1);
	feed("plain without", thoughts("deepseek_r1", REASON_PLAIN, 0), (int32_t[]) {A, A, A}, 3, no, 0);
	/* reasoning that must begin with a tag */
	feed("needs a tag", thoughts("hunyuan_a13b", REASON_UNKNOWN, 0), (int32_t[]) {A, A, A}, 3, no, 0);
	feed("has its tag", thoughts("hunyuan_a13b", REASON_UNKNOWN, 0), (int32_t[]) {START, END, A}, 3,
		 (int32_t[]) {-1, END, -1, -1}, 0);
	feed("cut in a tag", thoughts("seed_oss", REASON_OPEN, 9),
		 (int32_t[]) {A, TINY_BYTE('<'), TINY_BYTE('/')}, 3, no, 3);
}

static void
test_open_prompt(void)
{
	IntVec		start = {0};
	IntVec		end = {0};

	intvec_push(&start, 5);
	intvec_push(&start, 6);
	intvec_push(&end, 7);
	CHECK(!rbudget_open(NULL, 0, &start, &end), "empty");
	CHECK(!rbudget_open((int32_t[]) {1, 2, 3}, 3, &start, &end), "none");
	CHECK(rbudget_open((int32_t[]) {1, 5, 6, 3}, 4, &start, &end), "open");
	CHECK(!rbudget_open((int32_t[]) {1, 5, 6, 3, 7}, 5, &start, &end), "closed");
	CHECK(rbudget_open((int32_t[]) {5, 6, 7, 1, 5, 6}, 6, &start, &end), "again");
	CHECK(!rbudget_open((int32_t[]) {7, 1, 5}, 3, &start, &end), "half a tag");
	intvec_free(&start);
	intvec_free(&end);
}

/* Other parameters don't change what is forced, and still have their effect. */
static void
test_parameters(void)
{
	CoreOptions opt = options(4, 64, 50);
	GenParams	p = params(20, 1, 3);
	Rec			r = {0};
	IntVec		only = {0};

	genparams_rules(&p)->has_allowed = true;
	for (int i = 0; i < 5; i++)
		intvec_push(&p.rules->allowed, TINY_BYTE('p') + i);
	p.rules->presence_penalty = 1;
	p.rules->repetition_penalty = 1.5;
	one(opt, p, thoughts("deepseek_r1", REASON_OPEN, 4), &r);
	CHECK(first_at(&r.ids, END) == 4 && r.ids.len == 20, "the end at %d", first_at(&r.ids, END));
	for (size_t i = 0; i < r.ids.len; i++)
		CHECK(i == 4 || (r.ids.data[i] >= TINY_BYTE('p') && r.ids.data[i] < TINY_BYTE('p') + 5),
			  "token %zu is %d", i, r.ids.data[i]);
	rec_free(&r);
	intvec_free(&only);

	/* a bias that forbids it; and bad words that leave no token */
	p = params(20, 0, 3);
	logit_rules_bias(genparams_rules(&p), "{\"260\": -100}", 13, &r.err);
	one(opt, p, thoughts("deepseek_r1", REASON_OPEN, 4), &r);
	CHECK(first_at(&r.ids, END) == 4 && r.ids.len == 20, "the end at %d", first_at(&r.ids, END));
	rec_free(&r);

	/* it may stop the output */
	p = params(20, 1, 3);
	p.stop_ids = mem_alloc(sizeof(int32_t));
	p.stop_ids[0] = END;
	p.n_stop_ids = 1;
	one(opt, p, thoughts("deepseek_r1", REASON_OPEN, 4), &r);
	CHECK(r.finish == FIN_STOP && r.ids.len == 5, "finish %d after %zu", r.finish, r.ids.len);
	rec_free(&r);

	/* max_tokens comes first */
	one(opt, params(3, 1, 3), thoughts("deepseek_r1", REASON_OPEN, 4), &r);
	CHECK(r.finish == FIN_LENGTH && r.ids.len == 3, "finish %d after %zu", r.finish, r.ids.len);
	rec_free(&r);
}

typedef struct Several
{
	IntVec		ids[4];
	int			n_lp[4];
	int			reasoning;
	int			finish;
} Several;

static void
several_sink(void *ctx, Req *r, const ReqEvent *ev)
{
	Several    *s = ctx;

	(void) r;
	intvec_add(&s->ids[ev->index], ev->ids, (size_t) ev->n_ids);
	s->n_lp[ev->index] += ev->logprobs != NULL ? (int) ev->logprobs->counts.len : 0;
	s->finish = (int) ev->finish;
	s->reasoning = ev->reasoning_tokens;
}

/*
 * Several choices: each has a budget of its own, and equals that of its seed alone; with
 * log-probabilities.
 */
static void
test_several(void)
{
	for (int b = 0; b < 6; b += 5)
	{
		CoreOptions opt = options(8, 256, 400);
		Core	   *c = new_core(opt);
		Several		s = {0};
		ReqSpec		spec = {.id = 1, .session = 1, .sink = several_sink, .sink_ctx = &s,
							.reasoning_budget = thoughts("deepseek_r1", REASON_OPEN, b)};
		Err			e;

		spec.params = params(30, 1.5, 100);
		spec.params.out.n = 4;
		spec.params.out.logprobs = 2;
		spec.prompt = random_prompt(8, 11);
		CHECK(core_normalize(c, &spec.params, GP(TEMPERATURE) | GP(MAX_TOKENS), &spec.prompt, &e), "%s",
			  e.msg);
		core_submit(c, &spec);
		CHECK(run(c), "run");
		core_free(c);
		CHECK(s.finish == FIN_LENGTH && s.reasoning == 4 * b, "finish %d, %d tokens of thoughts", s.finish,
			  s.reasoning);
		for (int i = 0; i < 4; i++)
		{
			Rec			r = {0};

			one(opt, params(30, 1.5, 100 + i), thoughts("deepseek_r1", REASON_OPEN, b), &r);
			CHECK(first_at(&s.ids[i], END) == b, "budget %d, answer %d: the end at %d", b, i,
				  first_at(&s.ids[i], END));
			CHECK(r.ids.len == s.ids[i].len &&
				  memcmp(r.ids.data, s.ids[i].data, r.ids.len * sizeof(int32_t)) == 0,
				  "budget %d, answer %d is not the one alone", b, i);
			CHECK(s.n_lp[i] == 30, "%d log-probabilities", s.n_lp[i]);
			rec_free(&r);
			intvec_free(&s.ids[i]);
		}
	}
}

/* Many at once, with different budgets, some with a grammar for the rest. */
static void
many(CoreOptions opt, IntVec *ids, CoreStats *st)
{
	Core	   *c = new_core(opt);
	Rec			rec[32];
	const char *choice[1] = {"{\"name\":\"hello\"}"};
	size_t		len[1] = {16};
	GramSpec	gs = {.kind = GRAM_CHOICE, .choice = choice, .choice_len = len, .n_choices = 1,
					  .opt.strict = true};

	memset(rec, 0, sizeof(rec));
	for (int i = 0; i < 32; i++)
	{
		Err			e;
		Grammar    *g = i % 2 == 0 ? grammar_new(&gs, &e) : NULL;

		issue(c, (uint64_t) i + 1, params(60, 1.5, i), thoughts("deepseek_r1", REASON_OPEN, i), g, &rec[i]);
	}
	CHECK(run(c), "run");
	core_stats(c, st);
	core_free(c);				/* joins its threads, so that all events have been emitted */
	for (int i = 0; i < 32; i++)
	{
		int			at = first_at(&rec[i].ids, END);

		CHECK(at >= 0 && at <= i, "budget %d: the end at %d", i, at);
		if (i % 2 == 0)
			CHECK(rec[i].finish == FIN_STOP && rec[i].text.len >= 24 &&
				  strcmp(rec[i].text.data + rec[i].text.len - 24, "</think>{\"name\":\"hello\"}") == 0,
				  "budget %d: finish %d \"%s\" %s", i, rec[i].finish, rec[i].text.data, rec[i].err.msg);
		intvec_push(ids, (int32_t) rec[i].ids.len);
		intvec_add(ids, rec[i].ids.data, rec[i].ids.len);
		rec_free(&rec[i]);
	}
}

static void
test_invariance(void)
{
	CoreOptions opt[] = {options(1, 64, 100), options(16, 256, 400), options(16, 256, 400),
						 options(16, 256, 14), options(5, 256, 100)};
	IntVec		ids[5] = {{0}};
	CoreStats	st;

	opt[2].overlap = true;
	opt[4].max_chunk = 3;
	for (int i = 0; i < 5; i++)
	{
		many(opt[i], &ids[i], &st);
		CHECK(ids[i].len == ids[0].len && memcmp(ids[i].data, ids[0].data, ids[0].len * sizeof(int32_t)) == 0,
			  "%d: not the same answers", i);
		CHECK(i != 3 || st.preemptions > 0, "nobody was preempted");
	}
	for (int i = 0; i < 5; i++)
		intvec_free(&ids[i]);
}

static void
test_refused(void)
{
	CoreOptions opt = options(4, 64, 50);
	GenParams	p = params(10, 0, 1);
	IntVec		end = {0};
	Rec			r = {0};

	p.out.beam_width = 2;
	one(opt, p, thoughts("deepseek_r1", REASON_OPEN, 4), &r);
	CHECK(r.finish == FIN_ERROR && strstr(r.err.msg, "beam search") != NULL, "finish %d %s", r.finish,
		  r.err.msg);
	rec_free(&r);
	/* A beam search may reason without a budget. */
	p = params(10, 0, 1);
	p.out.beam_width = 2;
	one(opt, p, thoughts("deepseek_r1", REASON_OPEN, THOUGHTS_NO_BUDGET), &r);
	CHECK(r.finish != FIN_ERROR, "finish %d %s", r.finish, r.err.msg);
	rec_free(&r);
	intvec_push(&end, TINY_VOCAB + 5);
	one(opt, params(10, 0, 1), rbudget_new(reason_format_find("deepseek_r1", 11), NULL, 0, REASON_OPEN, 4,
										   false, &end), &r);
	CHECK(r.finish == FIN_ERROR && r.err.cls == ERR_UNSUPPORTED, "finish %d %s", r.finish, r.err.msg);
	rec_free(&r);
}

/* ---- every format, token by token ---- */

static const char *const formats[] = {
#define REASONING_PARSER(name, symbol) name,
#include "parsers/reasoning/reasoning.def"
#undef REASONING_PARSER
};

/* Count what a parser emits as reasoning, without blanks next to tags. */
static void
count_thoughts(void *ctx, const ParseEvent *ev)
{
	for (size_t i = 0; ev->kind == PARSE_REASONING && i < ev->n; i++)
		*(int *) ctx += ev->s[i] != '\n';
}

/*
 * A model that writes a text, and then x, unless tokens are forced: return how many of its tokens are
 * reasoning.
 */
static int
think(const ReasonFormat *f, const Tok *tok, ReasonAt at, int budget, const char *begin, int *counted)
{
	IntVec		end = {0};
	IntVec		begun = {0};
	IntVec		ids = {0};
	Err			e;
	size_t		at_begin = 0;
	int			n = 0;
	ReasonParser *p = reason_parser_new(f, NULL, 0, at, count_thoughts, &n);
	ReasoningBudget *t;

	tok_encode(tok, reason_format_end(f), strlen(reason_format_end(f)), 0, &end, &e);
	tok_encode(tok, begin, strlen(begin), 0, &begun, &e);
	t = rbudget_new(f, NULL, 0, at, budget, false, &end);
	for (int i = 0; i < 60; i++)
	{
		int32_t		id = rbudget_forced(t);
		size_t		len;
		const char *s;

		if (id < 0)
			id = at_begin < begun.len ? begun.data[at_begin++] : 'x';
		intvec_push(&ids, id);
		rbudget_token(t, tok, ids.data, (int) ids.len);
		s = tok_piece(tok, id, &len);
		reason_parser_feed(p, s, len);
	}
	reason_parser_finish(p);
	*counted = rbudget_count(t);
	rbudget_free(t);
	reason_parser_free(p);
	intvec_free(&ids);
	intvec_free(&begun);
	return n;
}

static void
test_formats(void)
{
	static const ReasonAt ats[] = {REASON_UNKNOWN, REASON_OPEN, REASON_PLAIN};
	Tok		   *tok = tag_tok();

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
	{
		const ReasonFormat *f = reason_format_find(formats[i], strlen(formats[i]));
		const char *tag = f != NULL ? reason_format_start(f) : NULL;
		int			counted;

		for (int a = 0; tag != NULL && reason_format_end(f) != NULL && a < 3; a++)
			for (size_t whole = 0; whole <= strlen(tag); whole++)
			{
				char		begin[64];
				int			free;

				snprintf(begin, sizeof(begin), "%.*s", (int) whole, tag);
				free = think(f, tok, ats[a], THOUGHTS_NO_BUDGET, begin, &counted);
				for (int budget = 0; budget < 12; budget++)
				{
					int			n = think(f, tok, ats[a], budget, begin, &counted);

					CHECK(n <= budget, "%s, %d, \"%s\": %d thoughts with a budget of %d", formats[i], a,
						  begin, n, budget);
					/* with a token for each byte, a tag may be cut before it is complete */
					CHECK(free == 0 || n == budget || (size_t) budget < 2 * strlen(tag),
						  "%s, %d, \"%s\": %d of %d", formats[i], a, begin, n, budget);
					CHECK(counted <= budget, "%s, %d, \"%s\": %d counted of %d", formats[i], a, begin,
						  counted, budget);
				}
			}
	}
	tok_free(tok);
}

int
main(void)
{
	RUN(test_formats());
	RUN(test_open());
	RUN(test_long_tag());
	RUN(test_count());
	RUN(test_open_prompt());
	RUN(test_parameters());
	RUN(test_several());
	RUN(test_invariance());
	RUN(test_refused());
	CHECK(fake.bad_slots == 0, "%d", fake.bad_slots);
	return check_done("test_reasoning_budget");
}
