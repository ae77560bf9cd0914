/*
 * test_sample.c
 *	  The sampler against a naive implementation (full sorts, stage by stage), its distribution
 *	  (chi-square), ties and edge cases, seeds, known results of Philox.  With --bench: the time of a
 *	  row, best of 40.
 */
#include "core/core_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/alloc.h"
#include "base/rng.h"

#include "tests/unit/check.h"

static uint32_t rnd_state = 99;

static double
uniform(void)
{
	rnd_state = rnd_state * 1664525u + 1013904223u;
	return ((rnd_state >> 8) + 0.5) / 16777216.0;
}

static double
gauss(void)
{
	return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

/* Known results of Philox4x32-10: Random123's kat_vectors. */
static void
test_philox(void)
{
	static const uint32_t kat[3][10] = {
		{0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
		{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff,
		0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
		{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0,
		0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
	};
	uint32_t	out[4];

	for (int i = 0; i < 3; i++)
	{
		rng_philox(kat[i], kat[i] + 4, out);
		CHECK(memcmp(out, kat[i] + 6, sizeof(out)) == 0, "vector %d: %08x %08x %08x %08x", i,
			  out[0], out[1], out[2], out[3]);
	}
	CHECK(rng_seed() != rng_seed(), "two seeds are equal");
}

/* ---- the naive sampler, written from docs/user/sampling.md ---- */

typedef struct Pair
{
	float		z;
	int32_t		id;
} Pair;

static int
rising(const void *a, const void *b)
{
	const Pair *x = a;
	const Pair *y = b;

	if (x->z != y->z)
		return x->z < y->z ? -1 : 1;
	return y->id - x->id;		/* among equals the highest id is removed first */
}

/* keep[i]: id i survives min_p, top_k and top_p; fills in z. */
static void
naive_filter(const GenParams *p, const float *logits, int n, float *z, bool *keep)
{
	Pair	   *s = mem_alloc((size_t) n * sizeof(Pair));
	float		max = -INFINITY;
	double		total = 0,
				cum = 0;

	for (int i = 0; i < n; i++)
		max = logits[i] > max ? logits[i] : max;
	for (int i = 0; i < n; i++)
	{
		z[i] = (logits[i] - max) * (float) (1.0 / p->temperature);
		keep[i] = !(p->min_p > 0 && z[i] < (float) log(p->min_p));
		s[i] = (Pair) {keep[i] ? z[i] : -INFINITY, i};
	}
	qsort(s, (size_t) n, sizeof(Pair), rising);
	if (p->top_k > 0 && p->top_k < n)
		for (int i = 0; i < n; i++)
			keep[i] = keep[i] && z[i] >= s[n - p->top_k].z;
	for (int i = 0; i < n; i++)
		total += keep[s[i].id] ? exp((double) s[i].z) : 0;
	for (int i = 0; i < n - 1 && p->top_p < 1; i++)
	{
		cum += keep[s[i].id] ? exp((double) s[i].z) : 0;
		if (cum <= (1 - p->top_p) * total)
			keep[s[i].id] = false;
	}
	mem_free(s);
}

static int32_t
naive_sample(const SampleRow *row, const float *logits, int n)
{
	float	   *z = mem_alloc((size_t) n * sizeof(float));
	bool	   *keep = mem_alloc((size_t) n);
	int32_t		best = -1;
	double		best_score = -INFINITY;

	naive_filter(row->params, logits, n, z, keep);
	for (int i = 0; i < n; i++)
	{
		uint32_t	lead_ctr[4] = {(uint32_t) i / 16, (uint32_t) row->position, 0, 0};
		uint32_t	fine_ctr[4] = {(uint32_t) i, (uint32_t) row->position, 1, 0};
		uint32_t	key[2] = {(uint32_t) row->seed, (uint32_t) (row->seed >> 32)};
		uint32_t	lead[4],
					fine[4];
		double		e;

		rng_philox(lead_ctr, key, lead);
		rng_philox(fine_ctr, key, fine);
		e = -log1p(-((lead[i % 16 / 4] >> i % 4 * 8 & 0xff) + (fine[0] + 0.5) / 4294967296.0) / 256);
		if (keep[i] && z[i] - log(e) > best_score)
		{
			best_score = z[i] - log(e);
			best = i;
		}
	}
	mem_free(z);
	mem_free(keep);
	return best;
}

static int32_t
sample(Sampler *s, const GenParams *p, uint64_t seed, int position, const float *logits, int width)
{
	float	   *copy = mem_alloc((size_t) width * sizeof(float));
	SampleRow	row = {.params = p, .seed = seed, .position = position};

	memcpy(copy, logits, (size_t) width * sizeof(float));
	smp_run(s, &row, 1, copy);
	mem_free(copy);
	return row.id;
}

static GenParams
params(double t, int top_k, double top_p, double min_p)
{
	GenParams	p;

	genparams_init(&p);
	p.temperature = t;
	p.top_k = top_k;
	p.top_p = top_p;
	p.min_p = min_p;
	return p;
}

/* Many shapes of logits and parameters: the same token as from the naive sampler. */
static void
test_naive(void)
{
	static const int sizes[] = {1, 2, 5, 64, 1000, 5003};
	static const int top_ks[] = {0, 1, 2, 7, 50, 900, 100000};
	static const double top_ps[] = {1, 0.999, 0.9, 0.5, 0.1, 1e-6};
	static const double min_ps[] = {0, 0.001, 0.1, 0.7, 1};
	static const double temps[] = {0.01, 0.3, 1, 2};
	int			bad = 0;
	int			n_tests = 0;

	for (int round = 0; round < 3000; round++)
	{
		int			n = sizes[round % 6];
		GenParams	p = params(temps[(int) (uniform() * 4)], top_ks[(int) (uniform() * 7)],
							   top_ps[(int) (uniform() * 6)], min_ps[(int) (uniform() * 5)]);
		Sampler    *s = smp_new(NULL, n, n);
		float	   *logits = mem_alloc((size_t) n * sizeof(float));
		double		spread = exp(8 * uniform() - 4);
		int			shape = (int) (uniform() * 4);
		SampleRow	row = {.params = &p, .seed = (uint64_t) round * 7919, .position = round % 50};

		for (int i = 0; i < n; i++)
			logits[i] = (float) (shape == 0 ? spread * gauss() : shape == 1 ? floor(4 * gauss()) / 2 :
								 shape == 2 ? -spread * log(uniform()) : 1.5);
		bad += sample(s, &p, row.seed, row.position, logits, n) != naive_sample(&row, logits, n);
		n_tests++;
		mem_free(logits);
		smp_free(s);
	}
	CHECK(bad == 0, "%d of %d draws differ from the naive sampler's", bad, n_tests);
}

/* ---- distribution ---- */

/* 60000 draws over the positions of some seeds; 99.99 % quantile of chi-square. */
static void
test_chi_square(const char *what, GenParams p)
{
	enum
	{
		N = 12, DRAWS = 60000
	};
	static const float logits[N] = {2, 1, 1, 0.5f, 0, 3, -1, -2, 2.5f, 0.1f, -0.7f, 1.4f};
	Sampler    *s = smp_new(NULL, N, N);
	float		z[N];
	bool		keep[N];
	int			count[N] = {0};
	int			df = -1;
	double		total = 0,
				chi = 0,
				limit,
				h;

	naive_filter(&p, logits, N, z, keep);
	for (int i = 0; i < N; i++)
	{
		total += keep[i] ? exp((double) z[i]) : 0;
		df += keep[i];
	}
	for (int i = 0; i < DRAWS; i++)
		count[sample(s, &p, (uint64_t) (i / 1000) * UINT64_C(0x123456789), i % 1000, logits, N)]++;
	for (int i = 0; i < N; i++)
	{
		double		want = keep[i] ? DRAWS * exp((double) z[i]) / total : 0;

		CHECK(keep[i] || count[i] == 0, "%s: id %d was dropped and drawn", what, i);
		chi += keep[i] ? (count[i] - want) * (count[i] - want) / want : 0;
	}
	/* Wilson and Hilferty's approximation of the quantile, z(0.9999) = 3.719 */
	h = 2.0 / (9 * df);
	limit = df * pow(1 - h + 3.719 * sqrt(h), 3);
	CHECK(chi < limit, "%s: chi-square %.1f, limit %.1f", what, chi, limit);
	smp_free(s);
}

/* ---- edges ---- */

static void
test_greedy(void)
{
	enum
	{
		N = 70
	};
	float		logits[N] = {0};
	Sampler    *s = smp_new(NULL, N, 60);
	GenParams	p = params(0, 0, 1, 0);
	int32_t		mask[2] = {13, 14};

	logits[13] = logits[14] = logits[40] = 5;
	logits[65] = 100;			/* not an id of the tokenizer */
	CHECK(sample(s, &p, 1, 0, logits, N) == 13, "ties go to the lowest id");
	p.min_tokens = 3;
	p.min_ids = mask;
	p.n_min_ids = 2;
	CHECK(sample(s, &p, 1, 2, logits, N) == 40, "third token, min_tokens 3");
	CHECK(sample(s, &p, 1, 3, logits, N) == 13, "fourth token, min_tokens 3");
	p.temperature = 1;
	for (int i = 0; i < 200; i++)
	{
		int32_t		id = sample(s, &p, 1, i % 3, logits, N);

		CHECK(id != 13 && id != 14 && id < 60, "drew %d", id);
		p.seed++;
	}
	smp_free(s);
}

/* With a grammar's mask: the same token as from logits that are -INFINITY where it forbids. */
static void
test_mask(void)
{
	static const int sizes[] = {1, 31, 32, 33, 63, 64, 65, 100, 1000};
	static const double shares[] = {0, 0.02, 0.5, 0.98, 1};
	int			bad = 0;

	for (int round = 0; round < 1500; round++)
	{
		int			n = sizes[round % 9];
		double		share = shares[round / 9 % 5];
		GenParams	p = params(round % 4 == 0 ? 0 : 1.5, round % 3 == 0 ? 7 : 0, round % 5 == 0 ? 0.8 : 1, 0);
		Sampler    *s = smp_new(NULL, n + 5, n);
		float		logits[1005],
					copy[1005],
					masked[1005];
		uint32_t	mask[(1005 + 31) / 32] = {0};
		SampleRow	row = {.params = &p, .seed = (uint64_t) round, .position = round % 7, .mask = mask};
		int			left = 0;
		int32_t		want = SMP_NO_TOKEN;

		for (int i = 0; i < n; i++)
		{
			bool		may = share == 1 || uniform() < share;

			logits[i] = (float) gauss();
			masked[i] = may ? logits[i] : -INFINITY;
			mask[i / 32] |= (uint32_t) may << i % 32;
			left += may;
		}
		mask[n / 32] |= n % 32 != 0 ? ~0u << n % 32 : 0;	/* not ids of the tokenizer */
		memcpy(copy, logits, (size_t) n * sizeof(float));
		smp_run(s, &row, 1, copy);
		if (left > 0 && p.temperature > 0)
			want = naive_sample(&row, masked, n);
		for (int i = 0; p.temperature == 0 && i < n; i++)
			if (masked[i] > -INFINITY && (want < 0 || masked[i] > masked[want]))
				want = i;
		bad += row.id != want;
		smp_free(s);
	}
	CHECK(bad == 0, "%d draws under a mask differ", bad);
}

/* min_tokens is ignored when the grammar allows only the end, and not before. */
static void
test_mask_and_end(void)
{
	float		logits[40] = {0};
	float		copy[40];
	int32_t		end[2] = {35, 3};
	uint32_t	mask[2] = {1u << 3, 1u << 3};
	Sampler    *s = smp_new(NULL, 40, 40);
	GenParams	p = params(0, 0, 1, 0);
	SampleRow	row = {.params = &p, .mask = mask};

	logits[35] = 1;
	p.min_tokens = 5;
	p.min_ids = end;
	p.n_min_ids = 2;
	memcpy(copy, logits, sizeof(copy));
	smp_run(s, &row, 1, copy);
	CHECK(row.id == 35, "the grammar leaves only ends: %d", row.id);
	mask[0] |= 1u << 7;
	memcpy(copy, logits, sizeof(copy));
	smp_run(s, &row, 1, copy);
	CHECK(row.id == 7, "the grammar leaves another: %d", row.id);
	memset(mask, 0, sizeof(mask));
	memcpy(copy, logits, sizeof(copy));
	smp_run(s, &row, 1, copy);
	CHECK(row.id == SMP_NO_TOKEN, "the grammar leaves nothing: %d", row.id);
	smp_free(s);
}

static void
test_not_finite(void)
{
	static const float bad[] = {NAN, INFINITY, -INFINITY};
	Sampler    *s = smp_new(NULL, 20, 16);
	GenParams	p = params(1, 0, 1, 0);
	float		logits[20] = {0};

	for (int i = 0; i < 3; i++)
	{
		logits[11] = bad[i];
		CHECK(sample(s, &p, 1, 0, logits, 20) == -1, "%g goes through", (double) bad[i]);
		p.temperature = i % 2;
	}
	logits[11] = 0;
	logits[17] = NAN;			/* padding must not matter */
	CHECK(sample(s, &p, 1, 0, logits, 20) >= 0, "NaN in the padding");
	/* the largest possible range of floats */
	logits[3] = 3e38f;
	logits[4] = -3e38f;
	p.temperature = 0.01;
	p.top_p = 0.9;
	p.top_k = 4;
	CHECK(sample(s, &p, 1, 0, logits, 20) == 3, "huge logits");
	smp_free(s);
}

/* Ties: top_k keeps all that equal the k-th; top_p decides among equals by id. */
static void
test_ties(void)
{
	Sampler    *s = smp_new(NULL, 8, 8);
	float		logits[8] = {1, 1, 1, 1, 0, 0, 0, 0};
	int			seen_k = 0,
				seen_p = 0;

	for (int i = 0; i < 2000; i++)
	{
		GenParams	k = params(1, 2, 1, 0);
		GenParams	p = params(1, 4, 0.5, 0);

		seen_k |= 1 << sample(s, &k, (uint64_t) i, 0, logits, 8);
		seen_p |= 1 << sample(s, &p, (uint64_t) i, 0, logits, 8);
	}
	CHECK(seen_k == 0x0f, "top_k 2 of 4 equal: %x", seen_k);
	CHECK(seen_p == 0x03, "top_p 0.5 of 4 equal: %x", seen_p);
	smp_free(s);
}

/*
 * Flat logits put the whole vocabulary into one bucket of top_p.  All but a few are equal, so the result
 * is known: those few, then the lowest ids.
 */
static void
test_flat(void)
{
	enum {N = 150000, MORE = 3};
	Sampler    *s = smp_new(NULL, N, N);
	float	   *logits = mem_alloc(N * sizeof(float));
	GenParams	p = params(1, 0, 0.25, 0);
	int			beyond = 0,
				few = 0,
				late = 0;

	for (int i = 0; i < N; i++)
		logits[i] = i >= N - MORE ? 0.1f : 0.0f;
	for (int i = 0; i < 200; i++)
	{
		int			id = sample(s, &p, (uint64_t) i, 0, logits, N);

		few += id >= N - MORE;
		late += id > N / 5 && id <= N / 4;
		beyond += id > N / 4 && id < N - MORE;
	}
	CHECK(beyond == 0 && late > 10 && few < 5,
		  "flat: %d draws behind the cut, %d shortly before, %d of the few", beyond, late, few);
	mem_free(logits);
	smp_free(s);
}

/* A row's draw doesn't depend on batch, row index or threads. */
static void
test_batch(void)
{
	enum
	{
		N = 1000, ROWS = 16
	};
	GenParams	p = params(0.8, 40, 0.95, 0);
	float	   *logits = mem_alloc(ROWS * N * sizeof(float));
	float	   *copy = mem_alloc(ROWS * N * sizeof(float));
	KPool	   *pool = kpool_new(3);
	int32_t		alone[ROWS];

	for (int i = 0; i < ROWS * N; i++)
		logits[i] = (float) (3 * gauss());
	for (int t = 0; t < 2; t++)
	{
		Sampler    *s = smp_new(t == 1 ? pool : NULL, N, N);
		SampleRow	rows[ROWS];

		for (int i = 0; i < ROWS; i++)
			rows[i] = (SampleRow) {.params = &p, .seed = (uint64_t) i, .position = i};
		for (int i = 0; i < ROWS && t == 0; i++)
			alone[i] = sample(s, &p, (uint64_t) i, i, logits + i * N, N);
		memcpy(copy, logits, ROWS * N * sizeof(float));
		smp_run(s, rows, ROWS, copy);
		for (int i = 0; i < ROWS; i++)
			CHECK(rows[i].id == alone[i], "row %d: %d alone, %d in a batch", i, alone[i], rows[i].id);
		smp_free(s);
	}
	kpool_free(pool);
	mem_free(logits);
	mem_free(copy);
}

static void
bench(const char *what, GenParams p)
{
	enum
	{
		N = 151936
	};
	Sampler    *s = smp_new(NULL, N, N);
	float	   *logits = mem_alloc(N * sizeof(float));
	TokenCounts *counts = NULL;
	int32_t		tokens[1000];
	int64_t		best = INT64_MAX;

	for (int i = 0; i < N; i++)
		logits[i] = (float) (2.5 * gauss());
	logits[77] = 14;
	logits[99] = 13.5f;
	for (int i = 0; i < 1000; i++)
		tokens[i] = (int32_t) (uniform() * N);
	for (int i = 0; i < 40; i++)
	{
		SampleRow	row = {
			.params = &p, .seed = (uint64_t) i, .tokens = tokens, .n_prompt = 200, .n_tokens = 1000,
			.counts = &counts
		};
		int64_t		t = clock_us();

		smp_run(s, &row, 1, logits);
		t = clock_us() - t;
		best = t < best ? t : best;
	}
	printf("%s: %d logits in %lld us\n", what, N, (long long) best);
	token_counts_free(counts);
	genparams_free(&p);
	mem_free(logits);
	smp_free(s);
}

/* Greedy with three penalties, three biases, or half of the vocabulary allowed. */
static GenParams
with_rules(int what)
{
	static const char bias[] = "{\"5\": 1, \"700\": -100, \"90000\": 3}";
	GenParams	p = params(0, 0, 1, 0);
	LogitRules *r = genparams_rules(&p);
	Err			e;

	if (what == 0)
		r->presence_penalty = r->frequency_penalty = r->repetition_penalty = 1.1;
	if (what == 1)
		logit_rules_bias(r, bias, sizeof(bias) - 1, &e);
	r->has_allowed = what == 2;
	for (int i = 0; i < 151936 && what == 2; i += 2)
		intvec_push(&r->allowed, i);
	if (!logit_rules_check(r, NULL, 151936, &e))
		abort();
	return p;
}

static int
bench_all(void)
{
	bench("greedy", params(0, 0, 1, 0));
	bench("temperature 1", params(1, 0, 1, 0));
	bench("top_k 20, top_p 0.8", params(0.7, 20, 0.8, 0));
	bench("top_p 0.9", params(1, 0, 0.9, 0));
	bench("min_p 0.05", params(1, 0, 1, 0.05));
	bench("greedy, penalties of 1000 tokens", with_rules(0));
	bench("greedy, logit_bias of 3 ids", with_rules(1));
	bench("greedy, every other id allowed", with_rules(2));
	return 0;
}

/*
 * Rows of any length: against sums in double; the most likely id as in test_greedy(); non-finite numbers
 * are reported.
 */
static void
test_logsumexp(void)
{
	float		x[700];
	int			bad = 0;

	for (int n = 1; n <= 700; n += n < 140 ? 1 : 37)
		for (int spread = 1; spread <= 1000; spread *= 10)
		{
			int			n_valid = n - n / 8;
			int			want = 0;
			int32_t		best = -1;
			double		sum = 0;
			double		most = -INFINITY;
			double		got;

			for (int i = 0; i < n; i++)
			{
				/* ties */
				x[i] = (float) (floor(uniform() * 20) / 20 * spread - spread / 3.0);
				want = i < n_valid && x[i] > x[want] ? i : want;
				most = fmax(most, (double) x[i]);
			}
			got = smp_logsumexp(x, n, n_valid, &best);
			for (int i = 0; i < n; i++)
				sum += exp((double) x[i] - most);
			bad += !(fabs(got - (most + log(sum))) < 3e-6 * fmax(1, fabs(got))) || best != want;
			for (int k = 0; k < 3; k++)
			{
				static const float odd[] = {NAN, INFINITY, -INFINITY};
				int			at = (int) (uniform() * n);
				float		was = x[at];

				x[at] = odd[k];
				bad += !isnan(smp_logsumexp(x, n, n_valid, &best));
				x[at] = was;
			}
		}
	CHECK(bad == 0, "%d sums or ids are wrong", bad);
}

int
main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--bench") == 0)
		return bench_all();
	RUN(test_philox());
	RUN(test_naive());
	RUN(test_chi_square("plain", params(1, 0, 1, 0)));
	RUN(test_chi_square("temperature 0.5", params(0.5, 0, 1, 0)));
	RUN(test_chi_square("temperature 2", params(2, 0, 1, 0)));
	RUN(test_chi_square("top_k 5", params(1, 5, 1, 0)));
	RUN(test_chi_square("top_p 0.8", params(1, 0, 0.8, 0)));
	RUN(test_chi_square("min_p 0.1", params(1, 0, 1, 0.1)));
	RUN(test_chi_square("all of them", params(0.9, 8, 0.9, 0.05)));
	RUN(test_greedy());
	RUN(test_not_finite());
	RUN(test_mask());
	RUN(test_mask_and_end());
	RUN(test_logsumexp());
	RUN(test_ties());
	RUN(test_flat());
	RUN(test_batch());
	return check_done("sample");
}
