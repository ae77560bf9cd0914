/*
 * sample_kinds.h
 *	  The kinds of requests that differ in where they are sampled (core/sample/sample_device.h), for
 *	  tests of devices that sample.
 */
#ifndef VLLM_TESTS_UNIT_CORE_SAMPLE_SAMPLE_KINDS_H
#define VLLM_TESTS_UNIT_CORE_SAMPLE_SAMPLE_KINDS_H

#include "tests/unit/check.h"
#include "tests/unit/core_util.h"
#include "core/core_internal.h"
#include "grammar/grammar.h"

/* Kind of a request; it alone decides whether the device samples the request. */
typedef enum Kind
{
	GREEDY,
	SEEDED,
	TOP_K,
	TOP_P,
	MIN_P,
	PENALTIES,
	BIASED,						/* biases, bad words, allowed ids */
	MIN_TOKENS,
	GRAMMAR,
	LOGPROBS,
	LOGPROBS_GRAMMAR,
	ON_DEVICE,					/* the device samples all kinds before this */
	MANY_LOGPROBS = ON_DEVICE,
	LOGPROB_IDS,
	SEVERAL,
	BEAMS,
	PLUGIN,
	KINDS
} Kind;

static inline Grammar *
digits(void)
{
	static const char text[] = "root ::= [0-9]{9,12} (\"x\" | \"y\")";
	GramSpec	s = {.kind = GRAM_GRAMMAR, .text = text, .len = strlen(text), .opt.strict = true};
	Err			e = {0};
	Grammar    *g = grammar_new(&s, &e);

	CHECK(g != NULL, "%s", e.msg);
	return g;
}

static inline void
set_rules(LogitRules *r, Kind k)
{
	Err			e = {0};

	if (k == PENALTIES)
	{
		r->presence_penalty = 0.5;
		r->frequency_penalty = 0.4;
		r->repetition_penalty = 1.3;
		return;
	}
	CHECK(logit_rules_bias(r, "{\"60\": 1.5, \"61\": -3, \"70\": 0.25}",
						   strlen("{\"60\": 1.5, \"61\": -3, \"70\": 0.25}"), &e), "%s", e.msg);
	CHECK(logit_rules_bad_word(r, "A", 1, &e), "%s", e.msg);
	r->has_allowed = true;
	for (int id = 40; id < 90; id++)
		intvec_push(&r->allowed, id);
}

/*
 * Return the parameters of the i-th request of a kind.  plugins: with no_twice, or NULL if no request is
 * a PLUGIN.
 */
static inline GenParams
params_of(Kind k, int i, const Plugins *plugins)
{
	GenParams	p = greedy_params(10);
	Err			e = {0};

	p.has_seed = true;
	p.seed = i;
	p.temperature = k == GREEDY ? 0 : 0.5 + 0.3 * (i % 3);
	p.top_k = k == TOP_K ? 20 : 0;
	p.top_p = k == TOP_P ? 0.7 : 1;
	p.min_p = k == MIN_P ? 0.2 : 0;
	if (k == PENALTIES || k == BIASED)
		set_rules(genparams_rules(&p), k);
	if (k == MIN_TOKENS)
	{
		p.min_tokens = 4;
		p.ignore_eos = false;
	}
	if (k == LOGPROBS || k == LOGPROBS_GRAMMAR)
		p.out.logprobs = i % 2 == 0 ? 0 : 7;
	if (k == MANY_LOGPROBS)
		p.out.logprobs = KSAMPLE_TOP + 1;
	if (k == LOGPROB_IDS)
	{
		intvec_push(&p.out.logprob_ids, 50);
		intvec_push(&p.out.logprob_ids, 7);
	}
	if (k == SEVERAL)
		p.out.n = 3;
	p.out.beam_width = k == BEAMS ? 3 : 0;
	if (k == PLUGIN)
	{
		p.extra_args = mem_strdup("{\"no_twice\": 1}");
		CHECK(plugins_check(plugins, p.extra_args, &p.plugins, &e), "%s", e.msg);
	}
	return p;
}

#endif
