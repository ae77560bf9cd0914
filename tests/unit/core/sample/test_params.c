/*
 * test_params.c
 *	  core_normalize(): the sources of values, special values, every error's text, EOS and stop ids,
 *	  prompt and context checks.
 */
#include "core/core_internal.h"

#include <math.h>
#include <string.h>

#include "tests/unit/check.h"
#include "tests/unit/core_util.h"
#include "tests/unit/fake_model.h"

#define ALL (GP(TEMPERATURE) | GP(TOP_P) | GP(TOP_K) | GP(MIN_P) | GP(MAX_TOKENS) | GP(REPETITION_PENALTY))

static Core *
new_core(Conf *conf, int blocks)
{
	CoreOptions opt = {
		.max_num_seqs = 4, .max_num_batched_tokens = 64, .max_model_len = 200, .block_size = 16,
		.kv_blocks = blocks, .kv_type = KT_F32
	};
	Err			e = {0};
	Core	   *c = core_new(fake_model(256), tiny_tok(), conf, &opt, &e);

	CHECK(c != NULL, "%s", e.msg);
	conf_free(conf);
	return c;
}

static bool
normalize(Core *c, GenParams *p, uint64_t given, int n_prompt, Err *e)
{
	IntVec		prompt = random_prompt(1, n_prompt);
	bool		ok;

	memset(e, 0, sizeof(*e));
	ok = core_normalize(c, p, given, &prompt, e);
	intvec_free(&prompt);
	return ok;
}

/* ---- errors ---- */

typedef enum Field
{
	F_TEMPERATURE, F_TOP_P, F_TOP_K, F_MIN_P, F_MAX_TOKENS, F_MIN_TOKENS
} Field;

static void
set(GenParams *p, Field f, double v)
{
	switch (f)
	{
		case F_TEMPERATURE:
			p->temperature = v;
			break;
		case F_TOP_P:
			p->top_p = v;
			break;
		case F_TOP_K:
			p->top_k = (int) v;
			break;
		case F_MIN_P:
			p->min_p = v;
			break;
		case F_MAX_TOKENS:
			p->max_tokens = (int) v;
			break;
		case F_MIN_TOKENS:
			p->min_tokens = (int) v;
	}
}

static void
test_ranges(void)
{
	static const struct
	{
		Field		field;
		double		v;
		const char *msg;		/* NULL: no error */
		const char *detail;
	}			t[] = {
		{F_TEMPERATURE, -1, "temperature must be between 0 and 2, got -1", "parameter=temperature"},
		{F_TEMPERATURE, 2.5, "temperature must be between 0 and 2, got 2.5", "parameter=temperature"},
		{F_TEMPERATURE, NAN, "temperature must be between 0 and 2, got nan", "parameter=temperature"},
		{F_TEMPERATURE, INFINITY, "temperature must be between 0 and 2, got inf", "parameter=temperature"},
		{F_TEMPERATURE, 2, NULL, NULL},
		{F_TEMPERATURE, 0, NULL, NULL},
		{F_TOP_P, 0, "top_p must be greater than 0 and at most 1, got 0", "parameter=top_p"},
		{F_TOP_P, 1.5, "top_p must be greater than 0 and at most 1, got 1.5", "parameter=top_p"},
		{F_TOP_P, NAN, "top_p must be greater than 0 and at most 1, got nan", "parameter=top_p"},
		{F_TOP_P, 0.001, NULL, NULL},
		{F_TOP_K, -2, "top_k must be 0 or -1 (off), or at least 1, got -2", "parameter=top_k"},
		{F_TOP_K, -1, NULL, NULL},
		{F_TOP_K, 1e9, NULL, NULL},
		{F_MIN_P, -0.1, "min_p must be between 0 and 1, got -0.1", "parameter=min_p"},
		{F_MIN_P, 1.1, "min_p must be between 0 and 1, got 1.1", "parameter=min_p"},
		{F_MIN_P, 1, NULL, NULL},
		{F_MAX_TOKENS, 0, "max_tokens must be at least 1, got 0", "parameter=max_tokens"},
		{F_MAX_TOKENS, 1, NULL, NULL},
		{F_MIN_TOKENS, -1, "min_tokens must not be negative, got -1", "parameter=min_tokens"},
		{F_MIN_TOKENS, 17, "min_tokens must be at most max_tokens (16), got 17", "parameter=min_tokens"},
		{F_MIN_TOKENS, 16, NULL, NULL},
	};
	Core	   *c = new_core(conf_new(), 100);
	Err			e;

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
	{
		GenParams	p;
		bool		ok;

		genparams_init(&p);
		set(&p, t[i].field, t[i].v);
		ok = normalize(c, &p, ALL, 10, &e);
		CHECK(ok == (t[i].msg == NULL), "case %zu: %s", i, e.msg);
		if (t[i].msg != NULL)
			CHECK(e.cls == ERR_INVALID && strcmp(e.msg, t[i].msg) == 0 && strcmp(e.detail, t[i].detail) == 0,
				  "case %zu: %s (%s)", i, e.msg, e.detail);
		genparams_free(&p);
	}
	core_free(c);
}

static void
test_stop_errors(void)
{
	Core	   *c = new_core(conf_new(), 100);
	GenParams	p;
	Err			e;

	genparams_init(&p);
	p.stop = mem_zalloc(2 * sizeof(char *));
	p.stop_len = mem_zalloc(2 * sizeof(size_t));
	p.n_stop = 2;
	p.stop[0] = mem_strdup("end");
	p.stop_len[0] = 3;
	p.stop[1] = mem_strdup("");
	CHECK(!normalize(c, &p, ALL, 10, &e) && strcmp(e.msg, "stop cannot contain an empty string") == 0, "%s",
		  e.msg);
	mem_free(p.stop[1]);
	p.n_stop = 1;
	CHECK(normalize(c, &p, ALL, 10, &e), "%s", e.msg);
	p.detokenize = false;
	CHECK(!normalize(c, &p, ALL, 10, &e) && strstr(e.msg, "detokenize") != NULL, "%s", e.msg);
	genparams_free(&p);

	genparams_init(&p);
	p.stop_ids = mem_zalloc(sizeof(int32_t));
	p.n_stop_ids = 1;
	p.stop_ids[0] = TINY_VOCAB;	/* padding: an id of the model that the tokenizer doesn't have */
	CHECK(!normalize(c, &p, ALL, 10, &e) &&
		  strcmp(e.msg, "stop_token_ids must be between 0 and 299, got 300") == 0, "%s", e.msg);
	p.stop_ids[0] = -1;
	CHECK(!normalize(c, &p, ALL, 10, &e), "stop id -1");
	genparams_free(&p);
	core_free(c);
}

/* repetition_detection, and the rules that change logits. */
static void
test_rules(void)
{
	static const struct
	{
		int			longest,
					shortest,
					count;
		const char *msg;
	}			t[] = {
		{4, 2, 2, NULL},
		{4, 0, 2, NULL},
		{0, 0, 0, NULL},
		{0, 0, 1, NULL},
		{4, 2, 1, "repetition_detection needs a min_count of at least 2, got 1"},
		{4, 5, 2, "repetition_detection needs 0 <= min_pattern_size <= max_pattern_size, got 5 and 4"},
		{-1, 0, 2, "repetition_detection needs 0 <= min_pattern_size <= max_pattern_size, got 0 and -1"},
	};
	Core	   *c = new_core(conf_new(), 100);
	GenParams	p;
	Err			e;

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
	{
		bool		ok;

		genparams_init(&p);
		p.repeat_max = t[i].longest;
		p.repeat_min = t[i].shortest;
		p.repeat_count = t[i].count;
		ok = normalize(c, &p, ALL, 10, &e);
		CHECK(ok == (t[i].msg == NULL) && (ok || strcmp(e.msg, t[i].msg) == 0), "case %zu: %s", i, e.msg);
		CHECK(!ok || p.repeat_max == 0 || p.repeat_min >= 1, "case %zu: shortest %d", i, p.repeat_min);
		genparams_free(&p);
	}
	genparams_init(&p);
	intvec_push(&genparams_rules(&p)->allowed, TINY_VOCAB);
	p.rules->has_allowed = true;
	CHECK(!normalize(c, &p, ALL, 10, &e) &&
		  strcmp(e.msg, "allowed_token_ids must be between 0 and 299, got 300") == 0,
		  "padding is allowed: %s", e.msg);
	p.rules->allowed.data[0] = 5;
	CHECK(normalize(c, &p, ALL, 10, &e) && p.rules->allowed_mask[0] == 1u << 5, "%s", e.msg);
	genparams_free(&p);
	core_free(c);
}

static void
test_prompt(void)
{
	Core	   *c = new_core(conf_new(), 100);
	GenParams	p;
	IntVec		bad = random_prompt(1, 10);
	Err			e;

	genparams_init(&p);
	CHECK(!normalize(c, &p, ALL, 0, &e) && e.cls == ERR_INVALID && strcmp(e.msg, "prompt is empty") == 0,
		  "%s", e.msg);
	CHECK(!normalize(c, &p, ALL, 201, &e) && e.cls == ERR_TOO_LONG &&
		  strcmp(e.msg, "prompt of 201 tokens is longer than the maximum model length of 200") == 0, "%s",
		  e.msg);
	CHECK(!normalize(c, &p, ALL, 200, &e) && e.cls == ERR_TOO_LONG &&
		  strstr(e.msg, "plus at least 1") != NULL, "%s", e.msg);
	p.max_tokens = 100;
	CHECK(normalize(c, &p, ALL, 199, &e) && p.max_tokens == 1, "max_tokens %d: %s", p.max_tokens, e.msg);
	bad.data[5] = FAKE_VOCAB;
	CHECK(!core_normalize(c, &p, ALL, &bad, &e) && e.cls == ERR_INVALID &&
		  strcmp(e.msg, "prompt token ids must be between 0 and 319, got 320") == 0, "%s", e.msg);
	intvec_free(&bad);
	genparams_free(&p);
	core_free(c);
}

/* A pool of 6 blocks = 96 tokens for a context of 200. */
static void
test_pool(void)
{
	Core	   *c = new_core(conf_new(), 6);
	GenParams	p;
	Err			e;

	genparams_init(&p);
	p.max_tokens = 90;
	CHECK(!normalize(c, &p, ALL, 20, &e) && e.cls == ERR_TOO_LONG &&
		  strcmp(e.msg, "request needs 7 KV cache blocks but the model has 6") == 0, "%s", e.msg);
	CHECK(normalize(c, &p, ALL & ~GP(MAX_TOKENS), 20, &e) && p.max_tokens == 77, "max_tokens %d",
		  p.max_tokens);
	CHECK(!normalize(c, &p, ALL & ~GP(MAX_TOKENS), 98, &e) && e.cls == ERR_TOO_LONG, "%s", e.msg);
	genparams_free(&p);
	core_free(c);
}

/* ---- defaults ---- */

static Conf *
generation_conf(void)
{
	Conf	   *conf = conf_new();
	double		eos[3] = {290, 2, 291};

	conf_set_num(conf, "generation.temperature", 0.6);
	conf_set_num(conf, "generation.top_p", 0.9);
	conf_set_int(conf, "generation.top_k", 20);
	conf_set_num(conf, "generation.min_p", 0.05);
	conf_set_num(conf, "generation.repetition_penalty", 1.1);
	conf_set_int(conf, "generation.max_new_tokens", 50);
	conf_set_nums(conf, "generation.eos_token_id", eos, 3);
	conf_set_int(conf, "eos_token_id", 292);
	return conf;
}

static void
test_defaults(void)
{
	Core	   *c = new_core(conf_new(), 100);
	GenParams	p;
	Conf	   *odd = conf_new();
	Err			e;

	genparams_init(&p);
	CHECK(normalize(c, &p, 0, 10, &e) && p.temperature == 1 && p.top_p == 1 && p.top_k == 0 && p.min_p == 0 &&
		  p.max_tokens == 190, "hard defaults: max_tokens %d", p.max_tokens);
	CHECK(p.rules == NULL, "hard defaults have rules");
	genparams_free(&p);
	core_free(c);

	c = new_core(generation_conf(), 100);
	genparams_init(&p);
	CHECK(normalize(c, &p, 0, 10, &e) && p.temperature == 0.6 && p.top_p == 0.9 && p.top_k == 20 &&
		  p.min_p == 0.05 && p.max_tokens == 50, "generation_config: T %g", p.temperature);
	CHECK(p.rules != NULL && p.rules->repetition_penalty == 1.1, "its repetition_penalty");
	genparams_free(&p);
	genparams_init(&p);
	p.max_tokens = 80;
	CHECK(normalize(c, &p, ALL, 10, &e) && p.temperature == 1 && p.top_p == 1 && p.top_k == 0 &&
		  p.min_p == 0 && p.max_tokens == 50, "given values win, max_new_tokens caps: %d", p.max_tokens);
	CHECK(p.rules == NULL, "a repetition_penalty that is given and 1");
	genparams_free(&p);
	core_free(c);

	/* invalid values of the file are ignored, and not reported as the user's error */
	conf_set_num(odd, "generation.temperature", 7);
	conf_set_num(odd, "generation.top_p", 0);
	conf_set_int(odd, "generation.top_k", -5);
	c = new_core(odd, 100);
	genparams_init(&p);
	CHECK(normalize(c, &p, 0, 10, &e) && p.temperature == 1 && p.top_p == 1 && p.top_k == 0, "%s", e.msg);
	genparams_free(&p);
	core_free(c);
}

static void
test_special_values(void)
{
	Core	   *c = new_core(conf_new(), 100);
	GenParams	p;
	Err			e;

	genparams_init(&p);
	p.temperature = 1e-6;
	p.top_k = -1;
	p.has_seed = true;
	p.seed = -1;
	CHECK(normalize(c, &p, ALL, 10, &e) && p.temperature == 0.01 && p.top_k == 0 && !p.has_seed,
		  "T %g, top_k %d", p.temperature, p.top_k);
	p.top_k = TINY_VOCAB;
	CHECK(normalize(c, &p, ALL, 10, &e) && p.top_k == 0, "top_k %d", p.top_k);
	p.temperature = 0;
	p.top_k = 5;
	p.top_p = 0.5;
	p.min_p = 0.5;
	CHECK(normalize(c, &p, ALL, 10, &e) && p.top_k == 0 && p.top_p == 1 && p.min_p == 0,
		  "greedy keeps filters");
	genparams_free(&p);
	core_free(c);
}

/* ---- EOS and stop ids ---- */

static bool
ids_are(const int32_t *ids, int n, const char *want)
{
	char		got[256] = "";
	size_t		at = 0;

	for (int i = 0; i < n; i++)
		at += (size_t) snprintf(got + at, sizeof(got) - at, "%s%d", i > 0 ? " " : "", ids[i]);
	if (strcmp(got, want) != 0)
		fprintf(stderr, "ids: %s\n", got);
	return strcmp(got, want) == 0;
}

static void
give_stop_ids(GenParams *p)
{
	genparams_init(p);
	p->stop_ids = mem_zalloc(4 * sizeof(int32_t));
	p->n_stop_ids = 4;
	p->stop_ids[0] = 100;
	p->stop_ids[1] = 291;
	p->stop_ids[2] = 100;
	p->stop_ids[3] = 50;
}

static void
test_stop_ids(void)
{
	Core	   *c = new_core(generation_conf(), 100);
	GenParams	p;
	Err			e;

	/* primary: the tokenizer's; those of the files are stop ids */
	CHECK(core_defaults(c)->eos == TINY_EOS, "primary EOS %d", core_defaults(c)->eos);
	give_stop_ids(&p);
	CHECK(normalize(c, &p, ALL, 10, &e) && ids_are(p.stop_ids, p.n_stop_ids, "100 291 50 290 292"), "%s",
		  e.msg);
	CHECK(p.n_min_ids == 0, "%d masked ids without min_tokens", p.n_min_ids);
	CHECK(normalize(c, &p, ALL, 10, &e) && ids_are(p.stop_ids, p.n_stop_ids, "100 291 50 290 292"),
		  "a second time");
	genparams_free(&p);

	give_stop_ids(&p);
	p.ignore_eos = true;
	p.min_tokens = 2;
	CHECK(normalize(c, &p, ALL, 10, &e) && ids_are(p.stop_ids, p.n_stop_ids, "100 291 50"), "ignore_eos: %s",
		  e.msg);
	CHECK(ids_are(p.min_ids, p.n_min_ids, "100 291 50 2 290 292"),
		  "ignore_eos keeps EOS masked until min_tokens");
	genparams_free(&p);
	core_free(c);

	/* no file gives one: the tokenizer's */
	c = new_core(conf_new(), 100);
	CHECK(core_defaults(c)->eos == TINY_EOS && core_defaults(c)->eos_all.len == 1, "%d",
		  core_defaults(c)->eos);
	core_free(c);
}

int
main(void)
{
	RUN(test_ranges());
	RUN(test_stop_errors());
	RUN(test_rules());
	RUN(test_prompt());
	RUN(test_pool());
	RUN(test_defaults());
	RUN(test_special_values());
	RUN(test_stop_ids());
	return check_done("params");
}
