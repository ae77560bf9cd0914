/*
 * smp_ref.c
 *	  The engine's own sampler for test_sample.cu.
 */
#include "smp_ref.h"

#include <string.h>

#include "base/alloc.h"
#include "core/sample/sample_device.h"

static void
add_words(LogitRules *r, const SmpCase *c)
{
	for (int i = 0; i < c->n_bad; i++)
		if (c->bad[i] != 0)
			intvec_push(&r->bad, c->bad[i]);
		else
			intvec_push(&r->bad_ends, (int32_t) r->bad.len);
}

/* Returns NULL if the case has no rules. */
static LogitRules *
rules_of(const SmpCase *c, int n_valid)
{
	LogitRules *r;
	size_t		words = ((size_t) n_valid + 31) / 32;

	if (c->allowed == NULL && c->n_bad == 0 && c->n_bias == 0 && c->presence == 0 && c->frequency == 0 &&
		c->repetition == 1)
		return NULL;
	r = logit_rules_new();
	r->presence_penalty = c->presence;
	r->frequency_penalty = c->frequency;
	r->repetition_penalty = c->repetition;
	r->n_bias = c->n_bias;
	r->bias_ids = mem_alloc((size_t) (c->n_bias + 1) * sizeof(int32_t));
	r->bias = mem_alloc((size_t) (c->n_bias + 1) * sizeof(float));
	for (int i = 0; i < c->n_bias; i++)
	{
		r->bias_ids[i] = c->bias_ids[i];
		r->bias[i] = c->bias[i];
	}
	if (c->allowed != NULL)
	{
		r->allowed_mask = mem_alloc(words * sizeof(uint32_t));
		memcpy(r->allowed_mask, c->allowed, words * sizeof(uint32_t));
	}
	add_words(r, c);
	return r;
}

typedef struct Case
{
	GenParams	p;
	SampleRow	row;
	TokenCounts *counts;
} Case;

static void
begin(Case *a, const SmpCase *c, int n_valid)
{
	genparams_init(&a->p);
	a->p.temperature = c->temperature;
	a->p.top_p = c->top_p;
	a->p.min_p = c->min_p;
	a->p.top_k = c->top_k;
	a->p.min_tokens = c->min_tokens;
	a->p.min_ids = c->min_ids;
	a->p.n_min_ids = c->n_min_ids;
	a->p.rules = rules_of(c, n_valid);
	a->p.out.logprobs = c->logprobs;
	a->p.out.logits = c->logits;
	a->counts = NULL;
	a->row = (SampleRow) {
		.params = &a->p, .seed = c->seed, .position = c->position, .tokens = c->tokens,
			.n_prompt = c->n_prompt,
		.n_tokens = c->n_tokens, .counts = &a->counts, .mask = c->mask
	};
}

static void
end(Case *a)
{
	token_counts_free(a->counts);
	logit_rules_free(a->p.rules);
}

static void
report(SmpReported *reported, const Logprob *e, int n)
{
	reported->n = n;
	for (int i = 0; i < n; i++)
	{
		reported->id[i] = e[i].id;
		reported->rank[i] = e[i].rank;
		reported->value[i] = e[i].value;
	}
}

int32_t
smp_ref_run(const SmpCase *c, float *logits, int width, int n_valid, SmpReported *reported)
{
	Sampler    *s = smp_new(NULL, width, n_valid);
	float	   *raw = mem_alloc((size_t) width * sizeof(float));
	Logprob		e[KSAMPLE_TOP + 1];
	LogprobWant want = {.top = c->logprobs, .logits = c->logits};
	Case		a;

	begin(&a, c, n_valid);
	memcpy(raw, logits, (size_t) width * sizeof(float));
	for (int i = 0; c->mask != NULL && i < width; i++)
		if (i >= n_valid || (c->mask[i / 32] >> i % 32 & 1) == 0)
			raw[i] = -__builtin_inff();
	smp_run(s, &a.row, 1, logits);
	reported->n = 0;
	if (c->logprobs != LOGPROBS_NONE && a.row.id >= 0)
		report(reported, e, logprobs_row(raw, width, n_valid, a.row.id, &want, e));
	end(&a);
	mem_free(raw);
	smp_free(s);
	return a.row.id;
}

size_t
smp_ref_stage(const SmpCase *c, int n, int n_valid, void *buffer)
{
	Case	   *a = mem_alloc((size_t) n * sizeof(Case));
	SmpDevRow  *rows = mem_alloc((size_t) n * sizeof(SmpDevRow));
	size_t		size;

	for (int i = 0; i < n; i++)
	{
		begin(&a[i], &c[i], n_valid);
		rows[i] = (SmpDevRow) {.row = &a[i].row, .out = &a[i].p.out, .at = i};
	}
	size = smpdev_stage(rows, n, n_valid, buffer);
	for (int i = 0; i < n; i++)
		end(&a[i]);
	mem_free(rows);
	mem_free(a);
	return size;
}

void
smp_ref_reported(const KSampled *s, SmpReported *reported)
{
	Logprob		e[KSAMPLE_TOP + 1];

	report(reported, e, logprobs_sampled(s, e));
}
