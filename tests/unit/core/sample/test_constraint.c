/*
 * test_constraint.c
 *	  Outputs constrained by a grammar, with a fake model: all of them match, whatever the batch, the
 *	  threads and the preemptions; how they end; and forced text.
 */
#include "core/core.h"

#include "core/core_internal.h"

#include "tests/unit/check.h"
#include "tests/unit/core_util.h"
#include "tests/unit/fake_model.h"

#define N_SPECS 12

static const struct
{
	GramKind	kind;
	const char *text;
}			specs[N_SPECS] = {
	{GRAM_JSON_SCHEMA, "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":8},"
					   "\"age\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":150}},\"required\":[\"name\","
					   "\"age\"]}"},
	{GRAM_JSON_SCHEMA, "{\"enum\":[\"hello\",\"world\",17,true,null]}"},
	{GRAM_JSON_SCHEMA, "{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"minItems\":1,\"maxItems\":5}"},
	{GRAM_JSON_SCHEMA, "{\"type\":\"object\",\"properties\":{\"name\":{\"const\":\"name\"},"
					   "\"ok\":{\"type\":\"boolean\"}},\"required\":[\"name\",\"ok\"]}"},
	{GRAM_REGEX, "[a-z]{2,6}@(hello|world)\\.(com|org)"},
	{GRAM_REGEX, "\\d{4}-\\d\\d"},
	{GRAM_REGEX, "(yes|no|maybe)+"},
	{GRAM_CHOICE, "yes\nno\nname"},
	{GRAM_CHOICE, "hello world"},
	{GRAM_GRAMMAR, "root ::= num ((\"+\" | \"*\") num){0,4}\nnum ::= [0-9]{1,3} | \"(\" num \")\""},
	{GRAM_GRAMMAR, "start: \"name\" \"=\" WORD\nWORD: /[a-z]+/"},
	{GRAM_JSON_OBJECT, ""},
};

static Grammar *
grammar_of(GramKind kind, const char *text)
{
	const char *choice[8];
	size_t		len[8];
	GramSpec	s = {.kind = kind, .text = text, .len = strlen(text), .opt.strict = true};
	Grammar    *g;
	Err			e = {0};

	if (kind == GRAM_CHOICE)
	{
		s.choice = choice;
		s.choice_len = len;
		for (const char *p = text; *p != '\0'; p += len[s.n_choices] + (p[len[s.n_choices]] == '\n'),
			 s.n_choices++)
		{
			choice[s.n_choices] = p;
			len[s.n_choices] = strcspn(p, "\n");
		}
	}
	g = grammar_new(&s, &e);
	if (g == NULL)
	{
		fprintf(stderr, "grammar_new: %s\n", e.msg);
		exit(2);
	}
	return g;
}

/* Bytes, and tokens that cross the borders of JSON's lexemes. */
static Tok *
json_tok(void)
{
	static const char *const words[] = {
		"{\"", "\":", "na", "nam", "name", "name\"", "\"}", "\",", "ag", "age", "tr", "tru", "true", "fa",
		"fal", "fals", "false", "\":\"", ",\"", "[\"", "]}", "[t", "he", "hel", "hell", "hello",
		"\342\226\201\"", "\342\226\201hello", "12", "123", "ye", "yes", "no", "{\"na", "\342\226\201"
	};

	return tok_of_words(words, (int) (sizeof(words) / sizeof(words[0])), 0, "\342\226\201w", true);
}

static Core *
new_core(CoreOptions opt)
{
	return core_for_grammars(fake_model(1024), json_tok(), opt);
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
	return p;
}

/* Takes ownership of a reference to g. */
static void
issue(Core *c, uint64_t id, GenParams p, Grammar *g, const char *after, Rec *rec)
{
	ReqSpec		spec = {.id = id, .session = 1, .sink = rec_sink, .sink_ctx = rec, .grammar = g,
						.grammar_after = after};
	Err			e;

	spec.prompt = random_prompt((uint32_t) id * 7 + 1, 10 + (int) (id % 5));
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

static bool
fits(Grammar *g, const Rec *r)
{
	bool		yes = false;
	Err			e;

	return grammar_accepts(g, r->text.data != NULL ? r->text.data : "", r->text.len, &yes, &e) && yes;
}

/* Check that every output matches or was cut, and that its ids are those of its text. */
static void
check_answer(const Core *c, Grammar *g, const Rec *r, const char *what, int i)
{
	Buf			text = {0};
	size_t		n = r->ids.len;

	CHECK(r->finish == FIN_STOP || r->finish == FIN_LENGTH, "%s %d: finish %d: %s", what, i, r->finish,
		  r->err.msg);
	CHECK(r->finish == FIN_LENGTH || fits(g, r), "%s %d: \"%s\"", what, i, r->text.data);
	if (r->finish == FIN_LENGTH)
		return;					/* it may end within a character */
	if (n > 0 && r->ids.data[n - 1] == TINY_EOS)
		n--;
	for (size_t k = 0; k < n; k++)
	{
		size_t		len;
		const char *s = tok_piece(core_tok(c), r->ids.data[k], &len);

		buf_add(&text, s, len);
	}
	CHECK(text.len == r->text.len && memcmp(text.data, r->text.data, text.len) == 0,
		  "%s %d: ids say \"%s\", the text is \"%s\"", what, i, text.data, r->text.data);
	buf_free(&text);
}

/* Run all specs with `rounds` seeds each, all at once; *ids gets the ids of all outputs. */
static int
many(CoreOptions opt, int rounds, const char *what, IntVec *ids, CoreStats *st)
{
	Core	   *c = new_core(opt);
	Grammar    *g[N_SPECS];
	Rec		   *rec = mem_zalloc((size_t) (rounds * N_SPECS) * sizeof(Rec));
	int			cut = 0;

	for (int i = 0; i < N_SPECS; i++)
		g[i] = grammar_of(specs[i].kind, specs[i].text);
	for (int i = 0; i < rounds * N_SPECS; i++)
		issue(c, (uint64_t) i + 1, params(60, 1.5, i), grammar_ref(g[i % N_SPECS]), NULL, &rec[i]);
	CHECK(run(c), "%s: run", what);
	core_stats(c, st);
	core_free(c);				/* joins its threads, so that all events have been emitted */
	c = new_core(opt);
	for (int i = 0; i < rounds * N_SPECS; i++)
	{
		check_answer(c, g[i % N_SPECS], &rec[i], what, i);
		cut += rec[i].finish == FIN_LENGTH;
		intvec_push(ids, (int32_t) rec[i].ids.len);
		intvec_add(ids, rec[i].ids.data, rec[i].ids.len);
		rec_free(&rec[i]);
	}
	for (int i = 0; i < N_SPECS; i++)
		grammar_unref(g[i]);
	core_free(c);
	mem_free(rec);
	return cut;
}

static void
test_all_fit(void)
{
	static const char *const names[] = {"alone", "together", "overlapped", "preempted", "in chunks"};
	CoreOptions opt[] = {options(1, 64, 100), options(16, 256, 400), options(16, 256, 400),
						 options(16, 256, 14), options(5, 256, 100)};
	IntVec		ids[5] = {{0}};
	CoreStats	st;

	opt[2].overlap = true;
	opt[4].max_chunk = 3;
	for (int i = 0; i < 5; i++)
	{
		int			cut = many(opt[i], 8, names[i], &ids[i], &st);

		CHECK(cut < 8 * N_SPECS / 2, "%s: %d answers were cut", names[i], cut);
		CHECK(ids[i].len == ids[0].len && memcmp(ids[i].data, ids[0].data, ids[0].len * sizeof(int32_t)) == 0,
			  "%s: not the same answers", names[i]);
		CHECK(i != 3 || st.preemptions > 0, "nobody was preempted");
	}
	for (int i = 0; i < 5; i++)
		intvec_free(&ids[i]);
}

/* Without forced tokens all outputs match as well, but more steps are needed. */
static void
test_jump(void)
{
	CoreOptions with = options(1, 64, 100);
	CoreOptions without = with;
	CoreStats	a,
				b;
	IntVec		ids = {0};

	without.no_jump = true;
	many(with, 4, "jump", &ids, &a);
	many(without, 4, "no jump", &ids, &b);
	CHECK(a.steps < a.output_tokens && b.steps >= b.output_tokens,
		  "%lld steps for %lld tokens, %lld for %lld", (long long) a.steps, (long long) a.output_tokens,
		  (long long) b.steps, (long long) b.output_tokens);
	intvec_free(&ids);
}

/* Run one request alone; p: its parameters. */
static void
one(CoreOptions opt, GramKind kind, const char *text, GenParams p, const char *after, Rec *rec, CoreStats *st)
{
	Core	   *c = new_core(opt);
	Grammar    *g = grammar_of(kind, text);

	issue(c, 1, p, g, after, rec);
	CHECK(run(c), "run");
	core_stats(c, st);
	core_free(c);
}

static void
test_ends(void)
{
	CoreOptions opt = options(4, 64, 50);
	CoreStats	st;
	GenParams	p;
	Rec			r = {0};

	/* everything is forced: not one step, and no EOS */
	one(opt, GRAM_CHOICE, "{\"name\":\"hello\"}", params(60, 0, 1), NULL, &r, &st);
	CHECK(r.finish == FIN_STOP && strcmp(r.text.data, "{\"name\":\"hello\"}") == 0 && st.steps == 0 &&
		  !r.has_reason, "finish %d \"%s\" %lld steps", r.finish, r.text.data, (long long) st.steps);
	CHECK(r.output_tokens == (int) r.ids.len && st.output_tokens == r.output_tokens && st.prompt_tokens > 0 &&
		  r.late_events == 0, "%d tokens, %zu ids", r.output_tokens, r.ids.len);
	rec_free(&r);

	/* max_tokens applies to forced text, too. */
	one(opt, GRAM_CHOICE, "{\"name\":\"hello\"}", params(2, 0, 1), NULL, &r, &st);
	CHECK(r.finish == FIN_LENGTH && r.ids.len == 2, "finish %d after %zu", r.finish, r.ids.len);
	rec_free(&r);

	/* forced text must not be emitted before the prompt's log-probabilities */
	for (int no_jump = 0; no_jump < 2; no_jump++)
	{
		opt.no_jump = no_jump;
		p = params(20, 0, 1);
		p.out.prompt_logprobs = 1;
		one(opt, GRAM_REGEX, "hello, [a-c]{3}", p, NULL, &r, &st);
		CHECK(r.finish == FIN_STOP && r.prompt_lps > 1, "finish %d, log-probabilities of %d positions",
			  r.finish, r.prompt_lps);
		rec_free(&r);
	}
	opt.no_jump = false;

	/* complete and at max_tokens: it counts as complete */
	opt.no_jump = true;
	one(opt, GRAM_REGEX, "[a-c]{3}x", params(4, 1, 1), NULL, &r, &st);
	CHECK(r.finish == FIN_STOP && r.ids.len == 4 && r.text.len == 4 && r.text.data[3] == 'x' && st.steps == 4,
		  "finish %d after %zu in %lld steps", r.finish, r.ids.len, (long long) st.steps);
	rec_free(&r);

	/* ignore_eos: continues as long as the grammar allows */
	p = params(60, 1, 1);
	p.ignore_eos = true;
	fake.bias_id = TINY_EOS;
	fake.bias = 100;
	one(opt, GRAM_REGEX, "[a-c]{1,20}", p, NULL, &r, &st);
	CHECK(r.finish == FIN_STOP && r.text.len == 20 && r.ids.data[r.ids.len - 1] != TINY_EOS,
		  "finish %d \"%s\"", r.finish, r.text.data);
	rec_free(&r);
	/* without it, ends at the first possible place */
	one(opt, GRAM_REGEX, "[a-c]{3,20}", params(60, 1, 1), NULL, &r, &st);
	CHECK(r.finish == FIN_STOP && r.text.len == 3 && r.ids.data[r.ids.len - 1] == TINY_EOS,
		  "finish %d \"%s\"", r.finish, r.text.data);
	rec_free(&r);

	/* min_tokens delays the end, but does not violate the grammar */
	p = params(60, 1, 1);
	p.min_tokens = 10;
	one(opt, GRAM_REGEX, "[a-c]{3,20}", p, NULL, &r, &st);
	CHECK(r.finish == FIN_STOP && r.text.len == 10, "finish %d \"%s\"", r.finish, r.text.data);
	rec_free(&r);
	one(opt, GRAM_REGEX, "[a-c]{3,5}", p, NULL, &r, &st);
	CHECK(r.finish == FIN_STOP && r.text.len == 5, "finish %d \"%s\"", r.finish, r.text.data);
	rec_free(&r);
	fake.bias = 0;
}

static GenParams
with_stop_id(GenParams p, int32_t id)
{
	p.stop_ids = mem_alloc(sizeof(int32_t));
	p.stop_ids[0] = id;
	p.n_stop_ids = 1;
	return p;
}

static GenParams
with_stop(GenParams p, const char *s)
{
	p.stop = mem_alloc(sizeof(char *));
	p.stop_len = mem_alloc(sizeof(size_t));
	p.stop[0] = mem_strdup(s);
	p.stop_len[0] = strlen(s);
	p.n_stop = 1;
	return p;
}

static void
test_stops(void)
{
	CoreOptions opt = options(4, 64, 50);
	CoreStats	st;
	Rec			r = {0};

	/* a stop id that the grammar does not allow may come where the text is complete */
	fake.bias_id = TINY_BYTE('!');
	fake.bias = 100;
	one(opt, GRAM_REGEX, "[a-c]{3,20}", with_stop_id(params(60, 1, 1), TINY_BYTE('!')), NULL, &r, &st);
	CHECK(r.finish == FIN_STOP && r.text.len == 3 && r.has_reason && atoi(r.reason) == TINY_BYTE('!'),
		  "finish %d \"%s\" %s", r.finish, r.text.data, r.reason);
	rec_free(&r);
	/* a stop id that it allows stops as usual */
	fake.bias_id = TINY_BYTE('b');
	one(opt, GRAM_REGEX, "[a-c]{3,20}", with_stop_id(params(60, 1, 1), TINY_BYTE('b')), NULL, &r, &st);
	CHECK(r.finish == FIN_STOP && r.text.len == 0 && r.ids.len == 1 && r.has_reason, "finish %d \"%s\" %s",
		  r.finish, r.text.data, r.reason);
	rec_free(&r);
	fake.bias = 0;
	/* a stop string within forced text */
	one(opt, GRAM_CHOICE, "{\"name\":\"hello\"}", with_stop(params(60, 0, 1), "hel"), NULL, &r, &st);
	CHECK(r.finish == FIN_STOP && strcmp(r.text.data, "{\"name\":\"") == 0 && strcmp(r.reason, "hel") == 0 &&
		  r.late_events == 0, "finish %d \"%s\" %s", r.finish, r.text.data, r.reason);
	rec_free(&r);
	opt.overlap = true;
	one(opt, GRAM_CHOICE, "{\"name\":\"hello\"}", with_stop(params(60, 0, 1), "hel"), NULL, &r, &st);
	CHECK(r.finish == FIN_STOP && strcmp(r.text.data, "{\"name\":\"") == 0 && strcmp(r.reason, "hel") == 0 &&
		  r.late_events == 0, "overlapped: finish %d \"%s\" %s", r.finish, r.text.data, r.reason);
	rec_free(&r);
}

/*
 * A model that reasons first is unconstrained until the reasoning ends, in whatever tokens; but it can't
 * finish before.  No token contains the end tag and more text.
 */
static void
test_after(void)
{
	static const char *const marks[] = {">", "me", "name", "he", "n" MARK_GAP "am"};
	static const char answer[] = "{\"name\":\"hello\"}";
	CoreOptions opt = options(4, 64, 50);
	CoreStats	st;
	int			found[5] = {0};
	int			whole = 0;

	for (int k = 0; k < 100; k++)
	{
		const char *mark = marks[k % 5];
		GenParams	p = params(200, 1, k);
		size_t		first = strcspn(mark, MARK_GAP);
		const char *second = mark[first] != '\0' ? mark + first + 1 : NULL;
		const char *at;
		Rec			r = {0};

		p.ignore_eos = k % 3 == 0;
		fake.bias_id = TINY_BYTE(mark[strlen(mark) - 1]);
		fake.bias = 6;			/* comes soon, but not at once */
		opt.no_jump = k % 2 == 1;
		one(opt, GRAM_CHOICE, answer, p, mark, &r, &st);
		at = memmem(r.text.data, r.text.len, mark, first);
		if (at != NULL && second != NULL)
		{
			at += first;
			at = memmem(at, r.text.len - (size_t) (at - r.text.data), second, strlen(second));
		}
		if (at == NULL)
			CHECK(r.finish == FIN_LENGTH && r.ids.len == 200, "%s: finish %d \"%s\"", mark, r.finish,
				  r.text.data);
		else
		{
			found[k % 5]++;
			at += strlen(second != NULL ? second : mark);
			CHECK(strncmp(at, answer, strlen(at)) == 0 && (r.finish == FIN_LENGTH || strcmp(at, answer) == 0),
				  "%s: finish %d \"%s\"", mark, r.finish, r.text.data);
			whole += r.finish == FIN_STOP;
		}
		rec_free(&r);
	}
	fake.bias = 0;
	for (int i = 0; i < 5; i++)
		CHECK(found[i] > 0, "%s never comes", marks[i]);
	CHECK(whole > 40, "%d whole answers", whole);
}

/* Forced text has the tokens that the tokenizer makes of the text. */
static void
test_canonical(void)
{
	static const char text[] = "{\"name\":\"hello\",\"age\":123}";
	CoreOptions opt = options(4, 64, 50);
	Core	   *c = new_core(opt);
	CoreStats	st;
	IntVec		ids = {0};
	Rec			r = {0};
	Err			e;

	/* after a byte, because a text begins with a space */
	tok_encode(core_tok(c), "\n{\"name\":\"hello\",\"age\":123}", sizeof(text), 0, &ids, &e);
	one(opt, GRAM_CHOICE, text, params(60, 0, 1), NULL, &r, &st);
	CHECK(r.ids.len < 12 && r.ids.len <= ids.len &&
		  memcmp(r.ids.data, ids.data + ids.len - r.ids.len, r.ids.len * sizeof(int32_t)) == 0,
		  "%zu ids, %zu of the text", r.ids.len, ids.len);
	intvec_free(&ids);
	rec_free(&r);
	core_free(c);
}

/* ---- several choices ---- */

typedef struct Several
{
	Rec			a[4];
	int			finish;
	int			output_tokens;
	int			late;
} Several;

static void
several_sink(void *ctx, Req *r, const ReqEvent *ev)
{
	Several    *s = ctx;
	Rec		   *a = &s->a[ev->index];

	(void) r;
	s->late += s->finish != FIN_NONE || a->finish != FIN_NONE;
	intvec_add(&a->ids, ev->ids, (size_t) ev->n_ids);
	buf_add(&a->text, ev->text, ev->text_len);
	a->finish = ev->ended;
	s->finish = (int) ev->finish;
	s->output_tokens = ev->output_tokens;
	if (ev->err != NULL)
		a->err = *ev->err;
}

/* Request the same choices one by one. */
static void
one_by_one(CoreOptions opt, Grammar *g, int64_t seed, Rec *rec)
{
	Core	   *c = new_core(opt);
	Err			e;

	for (int i = 0; i < 4; i++)
	{
		ReqSpec		spec = {.id = (uint64_t) i + 1, .session = 1, .sink = rec_sink, .sink_ctx = &rec[i],
							.grammar = grammar_ref(g)};

		spec.params = params(60, 1.5, seed + i);
		spec.prompt = random_prompt(36, 10);
		CHECK(core_normalize(c, &spec.params, GP(TEMPERATURE) | GP(MAX_TOKENS), &spec.prompt, &e), "%s",
			  e.msg);
		core_submit(c, &spec);
	}
	CHECK(run(c), "run");
	core_free(c);
}

/* Each choice equals that of a request of its own; all tokens are counted, forced ones included. */
static void
several(CoreOptions opt, int k)
{
	Core	   *c = new_core(opt);
	Grammar    *g = grammar_of(specs[k].kind, specs[k].text);
	Several		s = {0};
	ReqSpec		spec = {.id = 5, .session = 1, .sink = several_sink, .sink_ctx = &s,
						.grammar = grammar_ref(g)};
	Rec			alone[4];
	CoreStats	st;
	Err			e;
	int			sum = 0;

	memset(alone, 0, sizeof(alone));
	spec.params = params(60, 1.5, 100 + k);
	spec.params.out.n = 4;
	spec.prompt = random_prompt(36, 10);
	CHECK(core_normalize(c, &spec.params, GP(TEMPERATURE) | GP(MAX_TOKENS), &spec.prompt, &e), "%s", e.msg);
	core_submit(c, &spec);
	CHECK(run(c), "run");
	core_stats(c, &st);
	core_free(c);
	one_by_one(opt, g, 100 + k, alone);
	for (int i = 0; i < 4; i++)
	{
		const Rec  *a = &s.a[i];
		const Rec  *b = &alone[i];

		CHECK(a->finish == b->finish && a->ids.len == b->ids.len &&
			  memcmp(a->ids.data, b->ids.data, a->ids.len * sizeof(int32_t)) == 0 &&
			  a->text.len == b->text.len && memcmp(a->text.data, b->text.data, a->text.len) == 0,
			  "spec %d, answer %d: \"%s\" (%d), alone \"%s\" (%d)", k, i, a->text.data, a->finish,
			  b->text.data, b->finish);
		CHECK(a->finish == FIN_LENGTH || fits(g, a), "spec %d, answer %d", k, i);
		sum += (int) a->ids.len;
		rec_free(&s.a[i]);
		rec_free(&alone[i]);
	}
	CHECK(s.late == 0 && s.output_tokens == sum && st.output_tokens == sum,
		  "spec %d: %d tokens, told %d, counted %lld", k, sum, s.output_tokens, (long long) st.output_tokens);
	grammar_unref(g);
}

static void
test_several(void)
{
	CoreOptions opt = options(8, 256, 400);

	for (int k = 0; k < N_SPECS; k++)
		several(opt, k);
	opt.overlap = true;
	opt.max_chunk = 3;
	for (int k = 0; k < N_SPECS; k++)
		several(opt, k);
}

int
main(void)
{
	RUN(test_all_fit());
	RUN(test_jump());
	RUN(test_ends());
	RUN(test_stops());
	RUN(test_after());
	RUN(test_canonical());
	RUN(test_several());
	CHECK(fake.bad_slots == 0, "%d", fake.bad_slots);
	return check_done("test_constraint");
}
