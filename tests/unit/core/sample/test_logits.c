/*
 * test_logits.c
 *	  Penalties, biases, allowed and forbidden ids: the sampler against the plain model of the pipeline
 *	  (tests/golden/sampling.py), token counts during a request, how words become tokens, and every
 *	  error.
 */
#include "base/json/json.h"
#include "core/core_internal.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "tests/unit/check.h"
#include "tests/unit/core_util.h"

#define MAX_N	200

/* ---- against the golden file ---- */

static Json *
read_cases(void)
{
	FILE	   *f = fopen("tests/golden/sampling.json", "r");
	Buf			b = {0};
	char		chunk[8192];
	size_t		n;
	Json	   *cases;

	if (f == NULL)
		return NULL;
	while ((n = fread(chunk, 1, sizeof(chunk), f)) > 0)
		buf_add(&b, chunk, n);
	fclose(f);
	cases = json_parse(b.data, strlen(b.data));
	buf_free(&b);
	return cases;
}

static int
take_ids(const Json *array, int32_t *to)
{
	int			n = 0;

	for (const Json *x = array != NULL ? array->child : NULL; x != NULL; x = x->next)
		to[n++] = json_to_int(x);
	return n;
}

static double
number(const Json *object, const char *name, double otherwise)
{
	const Json *x = json_get(object, name);

	return x != NULL ? x->num : otherwise;
}

static void
take_rules(GenParams *p, const Json *params, int n_valid)
{
	LogitRules *r = genparams_rules(p);
	const Json *bias = json_get(params, "logit_bias");
	const Json *allowed = json_get(params, "allowed_token_ids");
	const Json *bad = json_get(params, "bad");
	int32_t		ids[MAX_N];
	Err			e = {0};

	r->presence_penalty = number(params, "presence_penalty", 0);
	r->frequency_penalty = number(params, "frequency_penalty", 0);
	r->repetition_penalty = number(params, "repetition_penalty", 1);
	if (bias != NULL)
	{
		char	   *text = json_print(bias);

		CHECK(logit_rules_bias(r, text, strlen(text), &e), "%s", e.msg);
		mem_free(text);
	}
	r->has_allowed = allowed != NULL;
	intvec_add(&r->allowed, ids, (size_t) take_ids(allowed, ids));
	CHECK(logit_rules_check(r, NULL, n_valid, &e), "%s", e.msg);
	for (const Json *x = bad != NULL ? bad->child : NULL; x != NULL; x = x->next)
	{
		intvec_add(&r->bad, ids, (size_t) take_ids(x, ids));
		intvec_push(&r->bad_ends, (int32_t) r->bad.len);
	}
}

static void
take_params(GenParams *p, const Json *params, int n_valid)
{
	genparams_init(p);
	p->temperature = number(params, "temperature", 1);
	p->top_p = number(params, "top_p", 1);
	p->top_k = (int) number(params, "top_k", 0);
	p->min_p = number(params, "min_p", 0);
	p->min_tokens = (int) number(params, "min_tokens", 0);
	p->min_ids = mem_alloc(MAX_N * sizeof(int32_t));
	p->n_min_ids = take_ids(json_get(params, "min_ids"), p->min_ids);
	take_rules(p, params, n_valid);
}

static const char *
compare(const Json *expect, const SampleRow *row, bool ok, const float *z, int n_valid)
{
	const Json *probs = json_get(expect, "p");
	double		total = 0;

	if (json_get(expect, "none") != NULL)
		return !ok && row->id == SMP_NO_TOKEN ? NULL : "something is left";
	if (!ok)
		return "nothing is left";
	if (row->id != (int32_t) number(expect, "top", -1))
		return "another token is the likeliest";
	if (probs == NULL)
		return NULL;
	for (int i = 0; i < n_valid; i++)
		total += exp((double) z[i]);
	for (int i = 0; i < n_valid; i++)
	{
		char		key[16];
		double		p = exp((double) z[i]) / total;
		double		want;

		snprintf(key, sizeof(key), "%d", i);
		want = number(probs, key, 0);
		if ((json_get(probs, key) != NULL) != (z[i] > -INFINITY))
			return z[i] > -INFINITY ? "an id is not dropped" : "an id is dropped";
		if (fabs(p - want) > 3e-5 * want + 1e-12)
			return "a probability differs";
	}
	return NULL;
}

/* A case, ready to be sampled. */
typedef struct Case
{
	float		logits[MAX_N];
	int32_t		tokens[MAX_N];
	uint32_t	mask[MAX_N / 32 + 1];
	GenParams	p;
	TokenCounts *counts;
	SampleRow	row;
	Sampler    *s;
	int			n_valid;
} Case;

static void
case_init(Case *k, const Json *c)
{
	const Json *mask_ids = json_get(c, "mask");
	int32_t		ids[MAX_N];
	int			n = 0;

	memset(k, 0, sizeof(*k));
	k->n_valid = (int) number(c, "n_valid", 0);
	for (const Json *x = json_get(c, "logits")->child; x != NULL; x = x->next)
		k->logits[n++] = (float) x->num;
	k->row = (SampleRow) {.params = &k->p, .tokens = k->tokens, .counts = &k->counts, .seed = 77};
	k->row.n_prompt = take_ids(json_get(c, "prompt"), k->tokens);
	k->row.position = take_ids(json_get(c, "output"), k->tokens + k->row.n_prompt);
	k->row.n_tokens = k->row.n_prompt + k->row.position;
	for (int i = take_ids(json_is_array(mask_ids) ? mask_ids : NULL, ids) - 1; i >= 0; i--)
		k->mask[ids[i] / 32] |= UINT32_C(1) << ids[i] % 32;
	k->row.mask = json_is_array(mask_ids) ? k->mask : NULL;
	take_params(&k->p, json_get(c, "params"), k->n_valid);
	k->s = smp_new(NULL, n, k->n_valid);
}

static void
case_free(Case *k)
{
	smp_free(k->s);
	token_counts_free(k->counts);
	genparams_free(&k->p);
}

/* Test what a draw can show of its distribution: the same distribution, and for temperature 0 the maximum. */
static const char *
run_processed(const Json *c)
{
	const Json *expect = json_get(c, "expect");
	const Json *probs = json_get(expect, "p");
	const char *wrong = NULL;
	float		x[MAX_N];
	float		processed[MAX_N];
	double		sum = 0;
	Case		k;

	case_init(&k, c);
	memcpy(x, k.logits, sizeof(x));
	k.row.processed = processed;
	smp_run(k.s, &k.row, 1, x);
	for (int i = 0; k.row.id >= 0 && i < k.n_valid; i++)
		sum += exp((double) processed[i]);
	for (int i = 0; k.row.id >= 0 && i < k.n_valid && wrong == NULL; i++)
	{
		char		name[16];

		snprintf(name, sizeof(name), "%d", i);
		if (probs == NULL)
			wrong = processed[i] > processed[(int) number(expect, "top", 0)] ?
				"processed: another is greater" : NULL;
		else if (fabs(exp((double) processed[i]) / sum - number(probs, name, 0)) > 1e-4)
			wrong = "processed: another distribution";
	}
	case_free(&k);
	return wrong;
}

static const char *
run_case(const Json *c)
{
	Case		k;
	float		x[MAX_N];
	const char *wrong;
	bool		ok;

	case_init(&k, c);
	memcpy(x, k.logits, sizeof(x));
	ok = smp_filter(k.s, &k.row, x);
	wrong = compare(json_get(c, "expect"), &k.row, ok, x, k.n_valid);
	case_free(&k);
	return wrong != NULL ? wrong : run_processed(c);
}

static void
test_golden(void)
{
	Json	   *cases = read_cases();
	int			at = 0;

	CHECK(cases != NULL, "no tests/golden/sampling.json");
	for (const Json *c = cases != NULL ? cases->child : NULL; c != NULL; c = c->next)
	{
		const char *wrong = run_case(c);

		CHECK(wrong == NULL, "case %d: %s", at, wrong);
		at++;
	}
	json_free(cases);
}

/*
 * Draws of the cases' first rows against their distributions; 99.99 % quantile of chi-square (Wilson and
 * Hilferty's approximation).  Ids that are expected less than 5 times are counted together.
 */
static void
chi_square(const Json *c, int at)
{
	enum
	{
		DRAWS = 4000
	};
	const Json *probs = json_get(json_get(c, "expect"), "p");
	int			n_valid = (int) number(c, "n_valid", 0);
	int			count[MAX_N] = {0};
	Case		k;
	double		rest = 0,
				chi = 0,
				h;
	int			n_rest = 0,
				df = -1;

	case_init(&k, c);
	for (int i = 0; i < DRAWS; i++)
	{
		float		x[MAX_N];

		memcpy(x, k.logits, sizeof(x));
		k.row.seed = (uint64_t) i * UINT64_C(0x9e3779b97f4a7c15);
		smp_run(k.s, &k.row, 1, x);
		count[k.row.id]++;
	}
	for (int i = 0; i < n_valid; i++)
	{
		char		key[16];
		double		want;

		snprintf(key, sizeof(key), "%d", i);
		want = number(probs, key, 0) * DRAWS;
		CHECK(want > 0 || count[i] == 0, "case %d: id %d is drawn", at, i);
		if (want < 5)
		{
			rest += want;
			n_rest += count[i];
			continue;
		}
		chi += (count[i] - want) * (count[i] - want) / want;
		df++;
	}
	if (rest >= 5)
	{
		chi += (n_rest - rest) * (n_rest - rest) / rest;
		df++;
	}
	h = df > 0 ? 2.0 / (9 * df) : 0;
	CHECK(df <= 0 || chi < df * pow(1 - h + 3.719 * sqrt(h), 3), "case %d: chi-square %.1f with %d degrees",
		  at, chi, df);
	case_free(&k);
}

static void
test_chi_square(void)
{
	Json	   *cases = read_cases();
	int			at = 0;

	for (const Json *c = cases != NULL ? cases->child : NULL; c != NULL; c = c->next)
	{
		const Json *probs = json_get(json_get(c, "expect"), "p");

		if (probs != NULL && probs->child != NULL && probs->child->next != NULL && at % 3 == 0)
			chi_square(c, at);
		at++;
	}
	json_free(cases);
}

/* ---- counts ---- */

/* Logits of some tokens after penalties. */
static void
penalized(const LogitRules *r, TokenCounts **counts, const int32_t *tokens, int n_prompt, int n, float *out,
		  int n_valid)
{
	for (int i = 0; i < n_valid; i++)
		out[i] = (float) (i % 2 == 0 ? i + 1 : -i);
	logit_rules_penalize(r, counts, tokens, n_prompt, n, out, n_valid);
}

/* Counts that have followed a request forwards and backwards equal the counts of its tokens. */
static void
test_counts(void)
{
	enum
	{
		N = 6000, VALID = 5000
	};
	static int32_t tokens[N];
	static float kept[VALID],
				fresh[VALID];
	LogitRules *r = logit_rules_new();
	TokenCounts *counts = NULL;
	uint32_t	rnd = 5;
	int			n = 40;
	int			bad = 0;

	r->presence_penalty = 0.5;
	r->frequency_penalty = 0.25;
	for (int round = 0; round < 400; round++)
	{
		TokenCounts *own = NULL;
		int			to;

		rnd = rnd * 1664525u + 1013904223u;
		r->repetition_penalty = round < 200 ? 1.2 : 1;
		if (round == 200)
		{
			token_counts_free(counts);
			counts = NULL;
		}
		to = n + (int) (rnd >> 8) % 40;
		to = to > N ? N : to;
		for (; n < to; n++)
		{
			rnd = rnd * 1664525u + 1013904223u;
			tokens[n] = (int32_t) (rnd >> 10) % VALID;
		}
		n = to;
		penalized(r, &counts, tokens, 20, n, kept, VALID);
		penalized(r, &own, tokens, 20, n, fresh, VALID);
		bad += memcmp(kept, fresh, sizeof(kept)) != 0;
		token_counts_free(own);
	}
	CHECK(bad == 0, "%d of 400 rows differ", bad);
	token_counts_free(counts);
	logit_rules_free(r);
}

static void
test_extremes(void)
{
	static const double strong[] = {DBL_MIN, 1e-30, 1e30, DBL_MAX};
	static const int32_t tokens[] = {0, 1, 2, 3};
	LogitRules *r = logit_rules_new();

	for (int i = 0; i < 4; i++)
		for (int forbidden = 0; forbidden < 2; forbidden++)
		{
			TokenCounts *counts = NULL;
			float		x[4] = {1, -1, 0, 3e38f};

			r->repetition_penalty = strong[i];
			r->frequency_penalty = 2;
			if (forbidden)
				x[1] = -INFINITY;
			logit_rules_penalize(r, &counts, tokens, 2, 4, x, 4);
			CHECK(isfinite(x[0]) && isfinite(x[2]) && isfinite(x[3]), "penalty %g: %g %g %g", strong[i],
				  (double) x[0], (double) x[2], (double) x[3]);
			CHECK(forbidden ? x[1] == -INFINITY : isfinite(x[1]), "penalty %g: %g", strong[i], (double) x[1]);
			token_counts_free(counts);
		}
	logit_rules_free(r);
}

/* ---- words ---- */

static void
test_bad_words(void)
{
	Tok		   *tok = tiny_tok();
	LogitRules *r = logit_rules_new();
	Err			e = {0};
	IntVec		ids = {0};

	CHECK(logit_rules_bad_word(r, "hello", 5, &e) && logit_rules_bad_word(r, "  hello", 7, &e) &&
		  logit_rules_bad_word(r, "hello", 5, &e), "%s", e.msg);
	CHECK(r->n_words == 2, "%d words: the same word counts once", r->n_words);
	CHECK(logit_rules_check(r, tok, TINY_VOCAB, &e), "%s", e.msg);
	tok_encode(tok, "hello", 5, 0, &ids, &e);
	CHECK(r->bad_ends.len >= 2 && (size_t) r->bad_ends.data[0] == ids.len &&
		  memcmp(r->bad.data, ids.data, ids.len * sizeof(int32_t)) == 0, "the word's own tokens");
	/* a second check gives the same result */
	ids.len = r->bad.len;
	CHECK(logit_rules_check(r, tok, TINY_VOCAB, &e) && r->bad.len == ids.len, "checked twice: %zu",
		  r->bad.len);
	intvec_free(&ids);
	logit_rules_free(r);
	tok_free(tok);
}

/* The prefix of a bad word must be at the end of the output; it may not be in the prompt. */
static void
test_bad_words_match(void)
{
	LogitRules *r = logit_rules_new();
	static const int32_t word[] = {3, 4, 5};
	static const int32_t output[] = {9, 3, 4};
	float		x[10];

	intvec_add(&r->bad, word, 3);
	intvec_push(&r->bad_ends, 3);
	for (int n = 0; n <= 3; n++)
	{
		for (int i = 0; i < 10; i++)
			x[i] = 0;
		logit_rules_ban_words(r, output, n, x, 10);
		CHECK((x[5] == -INFINITY) == (n == 3), "after %d tokens: %g", n, (double) x[5]);
		CHECK(x[3] == 0 && x[4] == 0, "only the last token is banned");
	}
	logit_rules_ban_words(r, output + 1, 2, x, 5);	/* 5 is not an id of this vocabulary */
	logit_rules_free(r);
}

/* ---- errors ---- */

static void
refuse_bias(const char *json, const char *msg)
{
	LogitRules *r = logit_rules_new();
	Err			e = {0};
	bool		ok = logit_rules_bias(r, json, strlen(json), &e) && logit_rules_check(r, NULL, 100, &e);

	CHECK(ok == (msg == NULL) && (ok || strcmp(e.msg, msg) == 0), "%s: %s", json, ok ? "taken" : e.msg);
	CHECK(ok || strstr(e.detail, "parameter=logit_bias") != NULL, "%s: detail %s", json, e.detail);
	logit_rules_free(r);
}

static void
test_bias_text(void)
{
	LogitRules *r = logit_rules_new();
	static const char twice[] = "{\"7\": 1, \"3\": -1000, \"7\": 2.5, \"0\": 1e300}";
	Err			e = {0};

	CHECK(logit_rules_bias(r, twice, strlen(twice), &e), "%s", e.msg);
	CHECK(r->n_bias == 3 && r->bias_ids[0] == 0 && r->bias_ids[1] == 3 && r->bias_ids[2] == 7, "%d ids",
		  r->n_bias);
	CHECK(r->bias[0] == 100 && r->bias[1] == -100 && r->bias[2] == 2.5f, "%g %g %g", (double) r->bias[0],
		  (double) r->bias[1], (double) r->bias[2]);
	logit_rules_free(r);
	refuse_bias("{}", NULL);
	refuse_bias("{\"99\": 1}", NULL);
	refuse_bias("{\"100\": 1}", "logit_bias names token 100, but the model's tokens are 0 to 99");
	refuse_bias("{\"-1\": 1}", "logit_bias must have token ids as keys, got \"-1\"");
	refuse_bias("{\"hello\": 1}", "logit_bias must have token ids as keys, got \"hello\"");
	refuse_bias("{\"\": 1}", "logit_bias must have token ids as keys, got \"\"");
	refuse_bias("{\"1.5\": 1}", "logit_bias must have token ids as keys, got \"1.5\"");
	refuse_bias("{\"99999999999\": 1}", "logit_bias must have token ids as keys, got \"99999999999\"");
	refuse_bias("{\"3000000000\": 1}", "logit_bias must have token ids as keys, got \"3000000000\"");
	refuse_bias("{\"1\": \"1\"}", "logit_bias must have finite numbers as values, got \"1\" for token 1");
	refuse_bias("{\"1\": true}", "logit_bias must have finite numbers as values, got true for token 1");
	refuse_bias("{\"1\": null}", "logit_bias must have finite numbers as values, got null for token 1");
	refuse_bias("{\"1\": 1e999}", "logit_bias must have finite numbers as values, got one that is too large "
								  "for token 1");
	refuse_bias("[1, 2]", "logit_bias must be an object of token ids and numbers, such as {\"1234\": -100}");
	refuse_bias("5", "logit_bias must be an object of token ids and numbers, such as {\"1234\": -100}");
	refuse_bias("{\"1\": 1", "logit_bias must be valid json");
}

static void
refuse_word(LogitRules *r, const Tok *tok, const char *word, size_t n, const char *msg)
{
	Err			e = {0};
	bool		ok = logit_rules_bad_word(r, word, n, &e) && logit_rules_check(r, tok, TINY_VOCAB, &e);

	CHECK(!ok && strcmp(e.msg, msg) == 0, "%s: %s", word, ok ? "taken" : e.msg);
	logit_rules_free(r);
}

static void
test_refusals(void)
{
	static const struct
	{
		double		presence,
					frequency,
					repetition;
		const char *msg;
	}			t[] = {
		{-2, 2, 1e-300, NULL},
		{2.1, 0, 1, "presence_penalty must be between -2 and 2, got 2.1"},
		{NAN, 0, 1, "presence_penalty must be between -2 and 2, got nan"},
		{0, -3, 1, "frequency_penalty must be between -2 and 2, got -3"},
		{0, 0, 0, "repetition_penalty must be greater than 0, got 0"},
		{0, 0, -1, "repetition_penalty must be greater than 0, got -1"},
		{0, 0, INFINITY, "repetition_penalty must be greater than 0, got inf"},
	};
	Tok		   *tok = tiny_tok();
	char		large[70000];
	LogitRules *r;
	Err			e = {0};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
	{
		bool		ok;

		r = logit_rules_new();
		r->presence_penalty = t[i].presence;
		r->frequency_penalty = t[i].frequency;
		r->repetition_penalty = t[i].repetition;
		ok = logit_rules_check(r, tok, TINY_VOCAB, &e);
		CHECK(ok == (t[i].msg == NULL) && (ok || strcmp(e.msg, t[i].msg) == 0), "case %zu: %s", i,
			  ok ? "taken" : e.msg);
		logit_rules_free(r);
	}
	for (int id = -1; id < 2; id++)
	{
		r = logit_rules_new();
		r->has_allowed = true;
		if (id >= 0)
			intvec_push(&r->allowed, id == 0 ? TINY_VOCAB : -5);
		CHECK(!logit_rules_check(r, tok, TINY_VOCAB, &e) && strncmp(e.msg, "allowed_token_ids", 17) == 0,
			  "%s", e.msg);
		logit_rules_free(r);
	}
	memset(large, 'x', sizeof(large));
	refuse_word(logit_rules_new(), tok, "", 0, "bad_words cannot contain an empty string");
	refuse_word(logit_rules_new(), tok, "a\0b", 3, "bad_words cannot contain a zero byte");
	refuse_word(logit_rules_new(), tok, " \n", 2, "bad_words cannot contain a word of white space alone");
	refuse_word(logit_rules_new(), tok, large, sizeof(large),
				"bad_words may have at most 1024 words of 65536 bytes together");
	tok_free(tok);
}

int
main(void)
{
	RUN(test_golden());
	RUN(test_chi_square());
	RUN(test_counts());
	RUN(test_extremes());
	RUN(test_bad_words());
	RUN(test_bad_words_match());
	RUN(test_bias_text());
	RUN(test_refusals());
	return check_done("logits");
}
