/*
 * test_sample_dev.c
 *	  The instructions for a device about rows: applied by plain loops they must give the logits that the
 *	  engine's own sampler gives, bit for bit.  And which requests' rows a device gets.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "core/sample/sample_device.h"

#include "tests/unit/check.h"

#define MAX_N	200

static uint32_t rnd_state = 7;

static uint32_t
dice(uint32_t n)
{
	rnd_state = rnd_state * 1664525u + 1013904223u;
	return (rnd_state >> 8) % n;
}

static float
number(void)
{
	return (float) dice(2001) / 250.0f - 4.0f;
}

/* Make a random bit mask; each bit is set with `chances` in 10. */
static void
random_mask(uint32_t *mask, int n, uint32_t chances)
{
	memset(mask, 0, (MAX_N / 32 + 1) * sizeof(uint32_t));
	for (int i = 0; i < n; i++)
		mask[i / 32] |= (uint32_t) (dice(10) < chances) << i % 32;
	/* bits after the last id are arbitrary */
	mask[n / 32] |= n % 32 != 0 ? UINT32_MAX << n % 32 : 0;
}

static LogitRules *
random_rules(int n)
{
	LogitRules *r = logit_rules_new();

	if (dice(3) == 0)
	{
		r->allowed_mask = mem_alloc((MAX_N / 32 + 1) * sizeof(uint32_t));
		random_mask(r->allowed_mask, n, dice(4) * 3);
	}
	for (int i = 0; i < 20 && dice(20) > 0; i++)
	{
		for (uint32_t w = 1 + dice(3); w > 0; w--)
			intvec_push(&r->bad, (int32_t) dice(5));
		intvec_push(&r->bad_ends, (int32_t) r->bad.len);
	}
	r->bias_ids = mem_alloc((size_t) n * sizeof(int32_t));
	r->bias = mem_alloc((size_t) n * sizeof(float));
	for (int id = (int) dice(4); id < n && dice(30) > 0; id += 1 + (int) dice(4))
	{
		r->bias_ids[r->n_bias] = id;
		r->bias[r->n_bias++] = number();
	}
	if (dice(2) == 0)
	{
		static const double repetitions[] = {1, 1.5, 0.3, 1e300, 1e-300};

		r->repetition_penalty = repetitions[dice(5)];
		r->presence_penalty = dice(2) == 0 ? 0 : (double) number() / 4;
		r->frequency_penalty = dice(2) == 0 ? 0 : (double) number() / 4;
	}
	return r;
}

static float
stay_finite(float x)
{
	return x > FLT_MAX ? FLT_MAX : x < -FLT_MAX ? -FLT_MAX : x;
}

/* Apply stages 0 to 6 as staged. */
static void
apply(const KSample *k, const uint32_t *words, float *x, int n)
{
	const int32_t *ids = (const int32_t *) words + k->bias_at;
	const float *add = (const float *) words + k->bias_at + k->n_bias;

	for (int i = 0; i < n; i++)
		if (k->mask_at != 0 && (words[k->mask_at + (uint32_t) i / 32] >> i % 32 & 1) == 0)
			x[i] = -INFINITY;
	for (int i = 0; i < k->n_bias; i++)
		x[ids[i]] += add[i];
	ids = (const int32_t *) words + k->pen_at;
	for (int i = 0; i < k->n_pen; i++)
	{
		float	   *at = &x[ids[i]];
		int			count = ids[k->n_pen + i];

		if (*at == -INFINITY)
			continue;
		if (k->repetition != 1)
			*at = stay_finite(*at > 0 ? *at / k->repetition : *at * k->repetition);
		*at -= k->frequency * (float) count;
		*at = stay_finite(count > 0 ? *at - k->presence : *at);
	}
}

/*
 * Random requests with some rows each: the logits after stage 6 equal those of the engine's sampler at
 * temperature 0.
 */
static void
test_stage(void)
{
	enum
	{
		ROUNDS = 3000, ROWS = 4, TOKENS = 12
	};
	int			differ = 0,
				given = 0,
				ends = 0;

	for (int round = 0; round < ROUNDS; round++)
	{
		int			n = 1 + (int) dice(MAX_N - 10),
					width = n + (int) dice(5);
		int32_t		tokens[TOKENS],
					min_ids[2] = {(int32_t) dice((uint32_t) n), (int32_t) dice((uint32_t) width)};
		uint32_t	mask[MAX_N / 32 + 1];
		GenParams	p;
		OutParams	out = {.logprobs = 3};
		TokenCounts *counts[ROWS] = {NULL};
		SampleRow	row[ROWS];
		SmpDevRow	dev[ROWS];
		float		x[ROWS][MAX_N],
					want[ROWS][MAX_N];
		Sampler    *s = smp_new(NULL, width, n);
		uint64_t   *buffer;
		size_t		size;

		genparams_init(&p);
		p.temperature = 0;
		p.rules = dice(5) == 0 ? NULL : random_rules(n);
		p.min_tokens = (int) dice(4);
		p.min_ids = min_ids;
		p.n_min_ids = (int) dice(3);
		random_mask(mask, n, dice(6) * 2);
		for (int i = 0; i < TOKENS; i++)
			tokens[i] = (int32_t) dice(dice(2) == 0 ? 5 : (uint32_t) width);
		for (int i = 0; i < ROWS; i++)
		{
			row[i] = (SampleRow) {
				.params = &p, .position = i, .tokens = tokens, .n_prompt = TOKENS - ROWS,
					.n_tokens = TOKENS - ROWS + i,
				.counts = &counts[i], .mask = dice(2) == 0 ? mask : NULL
			};
			dev[i] = (SmpDevRow) {.row = &row[i], .out = dice(2) == 0 ? &out : NULL, .at = 10 - i};
			for (int j = 0; j < width; j++)
				x[i][j] = want[i][j] = number();
		}
		size = smpdev_stage(dev, ROWS, n, NULL);
		buffer = mem_alloc(size + sizeof(uint64_t));
		memset(buffer, 0xee, size + sizeof(uint64_t));
		CHECK(smpdev_stage(dev, ROWS, n, buffer) == size && ((unsigned char *) buffer)[size] == 0xee,
			  "round %d: %zu bytes were not enough", round, size);
		for (int i = 0; i < ROWS; i++)
		{
			const KSample *k = (const KSample *) buffer + i;
			const uint32_t *words = (const uint32_t *) buffer;

			smp_run(s, &row[i], 1, want[i]);
			apply(k, words, x[i], n);
			differ += memcmp(x[i], want[i], (size_t) n * sizeof(float)) != 0;
			given += (k->given_at != 0) != (row[i].mask != NULL) ||
				(k->given_at != 0 &&
				 memcmp(words + k->given_at, mask, (size_t) (n + 31) / 32 * sizeof(uint32_t)) != 0);
			token_counts_free(counts[i]);
			ends += k->row != 10 - i || k->pos != (uint32_t) i ||
				k->n_logprobs != (dev[i].out != NULL ? 3 : -1);
		}
		mem_free(buffer);
		logit_rules_free(p.rules);
		smp_free(s);
	}
	CHECK(differ == 0, "%d of %d rows differ from what the sampler leaves", differ, ROUNDS * ROWS);
	CHECK(given == 0, "%d rows have another mask for log-probabilities than the grammar's", given);
	CHECK(ends == 0, "%d rows have wrong numbers", ends);
}

static void
test_numbers(void)
{
	GenParams	p;
	SampleRow	row = {.params = &p, .seed = UINT64_C(0x123456789abcdef0)};
	SmpDevRow	dev = {.row = &row};
	KSample		k;

	genparams_init(&p);
	p.temperature = 0.7;
	p.min_p = 0.05;
	p.top_p = 0.9;
	p.top_k = 40;
	CHECK(smpdev_stage(&dev, 1, 100, &k) == sizeof(k), "a row without lists has some");
	CHECK(k.inv_t == (float) (1 / 0.7) && k.min_p_log == (float) log(0.05) && k.top_p == 0.9 &&
		  k.top_k == 40 && k.seed == row.seed && k.mask_at == 0 && k.repetition == 1, "numbers differ");
	p.temperature = 0;
	p.min_p = 0;
	smpdev_stage(&dev, 1, 100, &k);
	CHECK(k.inv_t == 0 && k.min_p_log == -INFINITY, "1/0 is %g, log(0) %g", (double) k.inv_t,
		  (double) k.min_p_log);
}

static void
test_takes(void)
{
	Req			r = {0};
	Group		g;

	genparams_init(&r.in.params);
	r.in.params.out.logprobs = LOGPROBS_NONE;
	CHECK(smpdev_takes(&r, true), "a plain request");
	r.in.params.out.logprobs = KSAMPLE_TOP;
	CHECK(smpdev_takes(&r, false) && !smpdev_takes(&r, true), "processed log-probabilities");
	r.in.params.out.logprobs = KSAMPLE_TOP + 1;
	CHECK(!smpdev_takes(&r, false), "too many log-probabilities");
	r.in.params.out.logprobs = LOGPROBS_ALL;
	CHECK(!smpdev_takes(&r, false), "all log-probabilities");
	r.in.params.out.logprobs = 0;
	intvec_push(&r.in.params.out.logprob_ids, 3);
	CHECK(!smpdev_takes(&r, false), "log-probabilities of ids");
	intvec_free(&r.in.params.out.logprob_ids);
	r.in.params.out.logprobs = LOGPROBS_NONE;
	r.in.params.plugins = 1;
	CHECK(!smpdev_takes(&r, false), "logits processors");
	r.in.params.plugins = 0;
	r.group = &g;
	CHECK(!smpdev_takes(&r, false), "several answers");
}

int
main(void)
{
	RUN(test_stage());
	RUN(test_numbers());
	RUN(test_takes());
	return check_done("test_sample_dev");
}
