/*
 * test_sample.cu
 *	  kernels/cuda/sample.cu under emulation: the ids and log-probabilities of the engine's own sampler,
 *	  row by row; each row alone; its distribution; and if there is no engine (on a GPU) a naive sampler
 *	  with full sorts.
 */
#include "emu_test.h"
#include "cuda/cuda_ops.h"

#include <algorithm>
#include <vector>

#ifndef __CUDACC__
#include "smp_ref.h"
#endif

static double
uniform(void)
{
	return (dice() % 16777216 + 0.5) / 16777216.0;
}

static double
gauss(void)
{
	return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

template <typename T, size_t N> static T
one_of(const T (&of)[N])
{
	return of[dice() % N];
}

static void
fill_row(float *x, int n, int shape, double spread)
{
	for (int i = 0; i < n; i++)
		x[i] = (float) (shape == 0 ? spread * gauss() : shape == 1 ? floor(4 * gauss()) / 2 :
						shape == 2 ? -spread * log(uniform()) : 1.5);
}

/* Return the results of cuda_sample() for staged rows; the rows must be unchanged afterwards. */
static std::vector<KSampled>
sampled(const std::vector<unsigned char> &buffer, int rows, const std::vector<float> &logits, int width,
		int n_valid)
{
	std::vector<KSampled> out(rows);
	std::vector<float> after(logits.size());
	unsigned char *db = dev(buffer.data(), buffer.size());
	float	   *dl = dev(logits.data(), logits.size());
	KSampled   *dout;

	memset((void *) out.data(), 0, out.size() * sizeof(KSampled));
	dout = dev(out.data(), out.size());
	cuda_sample(db, rows, dl, width, n_valid, dout, NULL);
	host(out.data(), dout, out.size());
	host(after.data(), dl, after.size());
	CHECK(memcmp(after.data(), logits.data(), logits.size() * sizeof(float)) == 0,
		  "logits of width %d have changed", width);
	cudaFree(db);
	cudaFree(dl);
	cudaFree(dout);
	return out;
}

static KSample
plain(int row, double temperature)
{
	KSample		k = {};

	k.row = row;
	k.top_p = 1;
	k.inv_t = temperature > 0 ? (float) (1 / temperature) : 0;
	k.min_p_log = -INFINITY;
	k.n_logprobs = -1;
	k.repetition = 1;
	return k;
}

static std::vector<unsigned char>
buffer_of(const std::vector<KSample> &rows)
{
	const unsigned char *p = (const unsigned char *) rows.data();

	return std::vector<unsigned char>(p, p + rows.size() * sizeof(KSample));
}

/* ---- the naive sampler, written from docs/user/sampling.md ---- */

static void
philox(const KSample *k, uint32_t index, uint32_t kind, uint32_t *c)
{
	uint32_t	k0 = (uint32_t) k->seed,
				k1 = (uint32_t) (k->seed >> 32);

	c[0] = index;
	c[1] = k->pos;
	c[2] = kind;
	c[3] = 0;
	for (int i = 0; i < 10; i++)
	{
		uint64_t	a = (uint64_t) c[0] * 0xD2511F53u,
					b = (uint64_t) c[2] * 0xCD9E8D57u;
		uint32_t	next[4] = {(uint32_t) (b >> 32) ^ c[1] ^ k0, (uint32_t) b,
							   (uint32_t) (a >> 32) ^ c[3] ^ k1, (uint32_t) a};

		memcpy(c, next, sizeof(next));
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
}

/* keep: survives min_p, top_k and top_p. */
static void
naive_filter(const KSample *k, const float *x, int n, std::vector<float> &z, std::vector<bool> &keep)
{
	float		max = *std::max_element(x, x + n),
				least = k->min_p_log;
	std::vector<int> order;
	double		total = 0,
				sum = 0;

	z.resize(n);
	keep.assign(n, false);
	for (int i = 0; i < n; i++)
	{
		z[i] = (x[i] - max) * k->inv_t;
		if (z[i] >= k->min_p_log)
			order.push_back(i);
	}
	std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return z[a] > z[b]; });
	if (k->top_k > 0 && k->top_k < (int) order.size())
		least = z[order[k->top_k - 1]];
	for (int i : order)
		total += z[i] >= least ? exp((double) z[i]) : 0;
	for (int i : order)
	{
		if (z[i] < least || (k->top_p < 1 && sum >= k->top_p * total))
			break;
		keep[i] = true;
		sum += exp((double) z[i]);
	}
}

static int
naive_sample(const KSample *k, const float *x, int n)
{
	std::vector<float> z;
	std::vector<bool> keep;
	int			best = -1;
	double		most = -INFINITY;

	if (k->inv_t == 0)
		return (int) (std::max_element(x, x + n) - x);
	naive_filter(k, x, n, z, keep);
	for (int i = 0; i < n; i++)
	{
		uint32_t	lead[4],
					fine[4];
		double		v;

		if (!keep[i])
			continue;
		philox(k, (uint32_t) i / 16, 0, lead);
		philox(k, (uint32_t) i, 1, fine);
		v = ((lead[i % 16 / 4] >> i % 4 * 8 & 0xff) + (fine[0] + 0.5) / 4294967296.0) / 256;
		if (z[i] - log(-log1p(-v)) > most)
		{
			most = z[i] - log(-log1p(-v));
			best = i;
		}
	}
	return best;
}

static void
against_naive(int n, int rows)
{
	static const double temps[] = {0, 0.01, 0.3, 1, 2},
				top_ps[] = {1, 1, 0.999, 0.9, 0.5, 0.1, 1e-6},
				min_ps[] = {0, 0, 0.001, 0.1, 0.7, 1};
	static const int top_ks[] = {0, 0, 1, 2, 7, 50, 900, 100000};
	std::vector<float> logits((size_t) rows * n);
	std::vector<KSample> k;
	std::vector<KSampled> got;
	int			bad = 0;

	for (int i = 0; i < rows; i++)
	{
		double		min_p = one_of(min_ps);

		fill_row(&logits[(size_t) i * n], n, (int) (dice() % 4), exp(8 * uniform() - 4));
		k.push_back(plain(i, one_of(temps)));
		k[i].top_p = one_of(top_ps);
		k[i].top_k = one_of(top_ks);
		k[i].min_p_log = min_p > 0 ? (float) log(min_p) : -INFINITY;
		k[i].seed = (uint64_t) i * 7919 << 13;
		k[i].pos = (uint32_t) i % 50;
	}
	got = sampled(buffer_of(k), rows, logits, n, n);
	for (int i = 0; i < rows; i++)
		bad += got[i].id != naive_sample(&k[i], &logits[(size_t) i * n], n);
	CHECK(bad == 0, "%d of %d draws of %d ids differ from the naive sampler's", bad, rows, n);
}

/* 99.99 % quantile of chi-square over all ids. */
static void
chi_square(const char *what, KSample k, int n, int draws)
{
	enum
	{
		STEP = 2000
	};
	std::vector<float> row(n),
				z;
	std::vector<bool> keep;
	std::vector<int> count(n);
	int			df = -1;
	double		total = 0,
				chi = 0,
				h,
				limit;

	fill_row(row.data(), n, 0, 0.8);
	naive_filter(&k, row.data(), n, z, keep);
	for (int i = 0; i < n; i++)
	{
		total += keep[i] ? exp((double) z[i]) : 0;
		df += keep[i];
	}
	for (int at = 0; at < draws; at += STEP)
	{
		std::vector<KSample> ks(STEP, k);
		std::vector<float> logits;

		for (int i = 0; i < STEP; i++)
		{
			logits.insert(logits.end(), row.begin(), row.end());
			ks[i].row = i;
			ks[i].seed = (uint64_t) (at / STEP) * UINT64_C(0x123456789);
			ks[i].pos = (uint32_t) i;
		}
		for (const KSampled &s : sampled(buffer_of(ks), STEP, logits, n, n))
			if (s.id >= 0 && s.id < n)
				count[s.id]++;
	}
	for (int i = 0; i < n; i++)
	{
		double		want = keep[i] ? draws * exp((double) z[i]) / total : 0;

		CHECK(keep[i] || count[i] == 0, "%s: id %d was dropped and drawn", what, i);
		chi += keep[i] ? (count[i] - want) * (count[i] - want) / want : 0;
	}
	/* Wilson and Hilferty's approximation, z(0.9999) = 3.719 */
	h = 2.0 / (9 * df);
	limit = df * pow(1 - h + 3.719 * sqrt(h), 3);
	CHECK(chi < limit, "%s: chi-square %.1f of %d draws, limit %.1f", what, chi, draws, limit);
}

/* Non-finite rows, and rows without a token, among others. */
static void
edges(void)
{
	enum
	{
		N = 70, VALID = 64, ROWS = 7
	};
	std::vector<float> logits(ROWS * N);
	std::vector<KSample> k;
	std::vector<unsigned char> b;
	std::vector<KSampled> got;
	uint32_t	none[2] = {0, 0};

	for (int i = 0; i < ROWS; i++)
	{
		fill_row(&logits[i * N], N, 1, 1);
		k.push_back(plain(i, i % 2));
		k[i].n_logprobs = i % 3;
	}
	logits[1 * N + 63] = NAN;
	logits[2 * N + 1] = INFINITY;
	logits[3 * N + 5] = -INFINITY;
	logits[4 * N + 66] = NAN;	/* not an id of the tokenizer */
	logits[5 * N + 3] = 3e38f;	/* the largest possible range */
	logits[5 * N + 4] = -3e38f;
	k[5].top_k = 4;
	k[5].top_p = 0.9;
	k[6].mask_at = k[6].given_at = ROWS * sizeof(KSample) / sizeof(uint32_t);
	b = buffer_of(k);
	b.insert(b.end(), (unsigned char *) none, (unsigned char *) (none + 2));
	all_orders([&]() {
		got = sampled(b, ROWS, logits, N, VALID);
		for (int i = 1; i < 4; i++)
			CHECK(got[i].id == KSAMPLE_NOT_FINITE, "row %d is not finite, and gives %d", i, got[i].id);
		for (int i = 0; i < 5; i += 4)
			CHECK(got[i].id == naive_sample(&k[i], &logits[i * N], VALID), "row %d gives %d", i, got[i].id);
		CHECK(got[5].id == 3, "huge logits give %d", got[5].id);
		CHECK(got[6].id == KSAMPLE_NO_TOKEN, "no token gives %d", got[6].id);
	});
}

#ifndef __CUDACC__

/* ---- against the engine's sampler ---- */

/* Memory that a case points to. */
typedef struct Held
{
	std::vector<uint32_t> mask,
				allowed;
	std::vector<int32_t> bad,
				min_ids,
				bias_ids,
				tokens;
	std::vector<float> bias;
} Held;

static std::vector<uint32_t>
random_mask(int n, double share)
{
	std::vector<uint32_t> m((n + 31) / 32);

	for (uint32_t &w : m)
		for (int i = 0; i < 32; i++)
			w |= (uint32_t) (uniform() < share) << i;
	return m;
}

static void
random_rules(SmpCase *c, Held *h, int n)
{
	static const double shares[] = {0, 0.01, 0.3, 0.98, 1};

	if (dice() % 4 == 0)
		h->mask = random_mask(n, one_of(shares));
	if (dice() % 8 == 0)
		h->allowed = random_mask(n, one_of(shares));
	for (int i = 0; i < 60; i++)
		h->tokens.push_back((int32_t) (dice() % 3 == 0 ? dice() % 7 + 1 : dice() % (unsigned) (n + 2)));
	c->tokens = h->tokens.data();
	c->n_prompt = (int) (dice() % 40);
	c->n_tokens = c->n_prompt + (int) (dice() % 20);
	if (dice() % 8 == 0)
		for (int i = 0; i < 30; i++)
		{
			for (unsigned w = dice() % 3; w > 0; w--)
				h->bad.push_back((int32_t) (dice() % 7 + 1));
			h->bad.push_back((int32_t) (1 + dice() % (unsigned) n));
			h->bad.push_back(0);
		}
	if (dice() % 8 == 0)
	{
		for (int i = 0; i < 3; i++)
			h->min_ids.push_back((int32_t) (dice() % (unsigned) n));
		c->min_tokens = 10;
	}
	if (dice() % 5 == 0)
		for (int id = (int) (dice() % 9); id < n; id += 1 + (int) (dice() % 40))
		{
			h->bias_ids.push_back(id);
			h->bias.push_back((float) (4 * gauss()));
		}
	if (dice() % 3 == 0)
	{
		static const double repetitions[] = {1, 1.3, 0.5, 1e-300, 1e300};

		c->presence = 4 * uniform() - 2;
		c->frequency = dice() % 2 == 0 ? 0 : 4 * uniform() - 2;
		c->repetition = one_of(repetitions);
	}
	c->mask = h->mask.empty() ? NULL : h->mask.data();
	c->allowed = h->allowed.empty() ? NULL : h->allowed.data();
	c->bad = h->bad.data();
	c->n_bad = (int) h->bad.size();
	c->min_ids = h->min_ids.data();
	c->n_min_ids = (int) h->min_ids.size();
	c->bias_ids = h->bias_ids.data();
	c->bias = h->bias.data();
	c->n_bias = (int) h->bias.size();
}

static SmpCase
random_case(Held *h, int i, int n)
{
	static const double temps[] = {0, 0.01, 0.3, 0.7, 1, 2},
				top_ps[] = {1, 1, 0.999, 0.95, 0.9, 0.5, 0.1, 1e-6},
				min_ps[] = {0, 0, 0, 0.001, 0.1, 0.7, 1};
	static const int top_ks[] = {0, 0, 1, 2, 7, 50, 900, 100000},
				tops[] = {-2, -2, 0, 1, 5, 20};
	SmpCase		c = {};

	c.temperature = one_of(temps);
	c.top_p = one_of(top_ps);
	c.min_p = one_of(min_ps);
	c.top_k = one_of(top_ks);
	c.seed = (uint64_t) dice() << 33 ^ (uint64_t) i;
	c.position = (int) (dice() % 20);
	c.repetition = 1;
	c.logprobs = one_of(tops);
	c.logits = dice() % 5 == 0;
	random_rules(&c, h, n);
	return c;
}

static int
differ(const SmpReported *a, const SmpReported *b)
{
	if (a->n != b->n)
		return 1;
	for (int i = 0; i < a->n; i++)
	{
		double		x = a->value[i],
					y = b->value[i];

		if (a->id[i] != b->id[i] || a->rank[i] != b->rank[i] ||
			(x != y && !(fabs(x - y) <= 4e-6 + 1e-6 * fabs(y))))
			return 1;
	}
	return 0;
}

/* n_valid of width ids are the tokenizer's. */
static void
against_engine(int rows, int width, int n_valid)
{
	std::vector<Held> held(rows);
	std::vector<SmpCase> cases;
	std::vector<float> logits((size_t) rows * width);
	std::vector<unsigned char> buffer;
	std::vector<KSampled> got;
	int			ids = 0,
				tops = 0,
				alone = 0;

	for (int i = 0; i < rows; i++)
	{
		fill_row(&logits[(size_t) i * width], width, (int) (dice() % 4), exp(6 * uniform() - 3));
		cases.push_back(random_case(&held[i], i, n_valid));
	}
	buffer.resize(smp_ref_stage(cases.data(), rows, n_valid, NULL));
	smp_ref_stage(cases.data(), rows, n_valid, buffer.data());
	got = sampled(buffer, rows, logits, width, n_valid);
	for (int i = 0; i < rows; i++)
	{
		std::vector<float> x(logits.begin() + (long) i * width, logits.begin() + (long) (i + 1) * width),
					same = x;
		SmpReported	want,
					reported = {};
		int			id = smp_ref_run(&cases[i], x.data(), width, n_valid, &want);

		if (id >= 0 && cases[i].logprobs >= 0 && got[i].id >= 0)
			smp_ref_reported(&got[i], &reported);
		if (got[i].id != id)
			printf("row %d of width %d: %d, not %d\n", i, width, got[i].id, id);
		ids += got[i].id != id;
		tops += differ(&reported, &want);
		if (i % 10 == 0)
		{
			std::vector<unsigned char> b(smp_ref_stage(&cases[i], 1, n_valid, NULL));

			smp_ref_stage(&cases[i], 1, n_valid, b.data());
			alone += memcmp((const void *) &got[i], (const void *) sampled(b, 1, same, width, n_valid).data(),
							sizeof(KSampled)) != 0;
		}
	}
	CHECK(ids == 0, "%d of %d rows of width %d have another id than the engine's", ids, rows, width);
	CHECK(tops == 0, "%d of %d rows of width %d have other log-probabilities than the engine's", tops, rows,
		  width);
	CHECK(alone == 0, "%d of %d rows of width %d differ alone", alone, rows, width);
}

#endif

int
main(void)
{
	KSample		k = plain(0, 1);

	RUN(edges());
	all_orders([]() { against_naive(300, 12); });
	for (int n : {1, 2, 5, 64, 1000})
		RUN(against_naive(n, 100));
	RUN(against_naive(9000, 3));
	RUN(against_naive(40000, 3));
	RUN(chi_square("all", k, 257, check_effort(20000, 20000, 100000)));
	k.top_k = 50;
	k.top_p = 0.9;
	RUN(chi_square("top_k 50, top_p 0.9", k, 257, 2000));
#ifndef __CUDACC__
	all_orders([]() { against_engine(10, 90, 83); });
	for (int i = 0; i < 20; i++)
	{
		cemu_order(CEMU_RANDOM, (uint64_t) i);
		RUN(against_engine(250, 33 + 8 * i, 33 + 7 * i));
		RUN(against_engine(250, 300 + 4 * i, 300));
	}
	RUN(against_engine(300, 2051, 2051));
	RUN(against_engine(40, 9001, 8990));
	RUN(against_engine(4, 33000, 32999));
#endif
	return check_done("test_emu_sample");
}
