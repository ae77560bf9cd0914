/*
 * sample.c
 *	  Logits of one row -> one token id.
 *
 * The stages, in this order and no other (api.md 1.3, as far as this version
 * has them):
 *
 *	1. ids that the tokenizer doesn't know (padding of the vocabulary) and, until
 *	   min_tokens, EOS and stop ids are masked;
 *	2. temperature 0: argmax, ties to the lowest id, done;
 *	3. z = (logit - max) / temperature, so that p is proportional to exp(z);
 *	4. min_p: z < log(min_p) is dropped;
 *	5. top_k: z below the k-th largest is dropped; all ties with it survive;
 *	6. top_p, over what is left: sorted by falling z (ties: rising id), a token
 *	   survives if the mass before it is less than top_p of the total;
 *	7. argmax of p / e over the survivors, e ~ Exp(1): a draw from softmax(z)
 *	   (ties: lowest id).
 *
 * Filters only ever say "z >= threshold", plus the last id for ties cut by
 * top_p, so nothing is moved and no vocabulary is sorted: a histogram of z
 * finds the bucket with the threshold, and only that bucket is selected from
 * or sorted.  In stage 7 e comes from Philox, keyed by the seed, at counter
 * (token id / 4, position): the draw depends on nothing else.
 *
 * O(vocabulary) a row.  Rows are sampled in parallel, each by one thread with
 * that thread's scratch.  Tested by tests/unit/test_sample.c against a naive
 * implementation with full sorts, and by chi-square tests.
 */
#include "engine/core_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/rng.h"

#define N_BUCKETS	256			/* of z; the last one takes all the rest */
#define PER_UNIT	4			/* buckets per unit of z */
#define MAX_GUMBEL	22.9		/* -log(smallest e) = 33 * log(2) = 22.87 */

typedef struct Cand
{
	float		z;
	int32_t		id;
} Cand;

/* One thread's scratch. */
typedef struct Work
{
	float	   *z;				/* [n_valid] */
	Cand	   *cand;			/* [n_valid] members of one bucket */
} Work;

/* What stages 4 to 6 let through: z > min, or z == min and id <= tie_id. */
typedef struct Filter
{
	float		min;
	int32_t		tie_id;
} Filter;

struct Sampler
{
	KPool	   *pool;			/* NULL: no threads */
	int			n_threads;
	int			width;			/* logits per row */
	int			n_valid;		/* ids that may be sampled: 0 .. n_valid - 1 */
	Work	   *work;			/* [n_threads] */
	/* the run at hand */
	SmpRow	   *rows;
	float	   *logits;
};

/* ---- stages 1 and 2 ---- */

static bool
all_finite(const float *x, int n)
{
	uint32_t	bad = 0;

	for (int i = 0; i < n; i++)
	{
		uint32_t	bits;

		memcpy(&bits, &x[i], sizeof(bits));
		bad |= (bits & 0x7f800000u) == 0x7f800000u;
	}
	return bad == 0;
}

static int32_t
argmax(const float *x, int n)
{
	int32_t		best = 0;

	for (int32_t i = 1; i < n; i++)
		if (x[i] > x[best])
			best = i;
	return best;
}

/* ---- thresholds ---- */

static int
bucket_of(float z)
{
	float		d = -z * PER_UNIT;

	return d < N_BUCKETS - 1 ? (int) d : N_BUCKETS - 1;
}

static int
gather(Work *w, int n, float min, int bucket)
{
	int			m = 0;

	for (int32_t i = 0; i < n; i++)
	{
		if (w->z[i] < min || bucket_of(w->z[i]) != bucket)
			continue;
		w->cand[m].z = w->z[i];
		w->cand[m].id = i;
		m++;
	}
	return m;
}

/* The k-th largest z of n candidates, 1 <= k <= n (quickselect; reorders them). */
static float
kth_largest(Cand *c, int n, int k)
{
	int			lo = 0,
				hi = n - 1;

	k--;
	while (lo < hi)
	{
		float		pivot = c[lo + (hi - lo) / 2].z;
		int			i = lo,
					j = hi;

		while (i <= j)
		{
			while (c[i].z > pivot)
				i++;
			while (c[j].z < pivot)
				j--;
			if (i <= j)
			{
				Cand		t = c[i];

				c[i++] = c[j];
				c[j--] = t;
			}
		}
		if (k <= j)
			hi = j;
		else if (k >= i)
			lo = i;
		else
			break;
	}
	return c[k].z;
}

static void
filter_top_k(Work *w, int n, int k, Filter *f)
{
	int			count[N_BUCKETS] = {0};
	int			above = 0;

	for (int i = 0; i < n; i++)
		if (w->z[i] >= f->min)
			count[bucket_of(w->z[i])]++;
	for (int b = 0; b < N_BUCKETS; b++)
	{
		if (above + count[b] >= k)
		{
			int			m = gather(w, n, f->min, b);

			f->min = kth_largest(w->cand, m, k - above);
			return;
		}
		above += count[b];
	}
}

static int
cand_cmp(const void *a, const void *b)
{
	const Cand *x = a;
	const Cand *y = b;

	if (x->z != y->z)
		return x->z > y->z ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

static void
filter_top_p(Work *w, int n, double top_p, Filter *f)
{
	double		mass[N_BUCKETS] = {0};
	double		total = 0;
	double		before = 0;

	for (int i = 0; i < n; i++)
	{
		if (w->z[i] < f->min)
			continue;
		mass[bucket_of(w->z[i])] += exp((double) w->z[i]);
	}
	for (int b = 0; b < N_BUCKETS; b++)
		total += mass[b];
	for (int b = 0; b < N_BUCKETS; b++)
	{
		int			m,
					kept = 0;

		if (mass[b] <= 0 || before + mass[b] < top_p * total)
		{
			before += mass[b];
			continue;
		}
		m = gather(w, n, f->min, b);
		qsort(w->cand, (size_t) m, sizeof(Cand), cand_cmp);
		while (kept < m && before < top_p * total)
			before += exp((double) w->cand[kept++].z);
		f->min = w->cand[kept - 1].z;
		f->tie_id = w->cand[kept - 1].id;
		return;
	}
}

/* ---- stage 7 ---- */

/* e ~ Exp(1) from 32 random bits; v = 1 - u lies in (0, 1). */
static double
gumbel_of(uint32_t bits)
{
	double		v = (bits + 0.5) * 0x1p-32;

	return -log(-log1p(-v));
}

/*
 * Can z + gumbel_of(bits) reach best?  No false "no".  With x = z - best it can
 * iff e <= exp(x); e >= v, and exp(x) <= (1 - x/8)^-8 for x < 0.
 */
static bool
may_reach(double x, uint32_t bits)
{
	double		y = 1 - x / 8;

	if (x >= 0)
		return true;
	y *= y;
	y *= y;
	y *= y;
	return (bits + 0.5) * 0x1p-32 * y <= 1.000001;
}

static void
noise4(const SmpRow *row, uint32_t group, uint32_t out[4])
{
	uint32_t	ctr[4] = {group, (uint32_t) row->position, 0, 0};
	uint32_t	key[2] = {(uint32_t) row->seed, (uint32_t) (row->seed >> 32)};

	rng_philox(ctr, key, out);
}

/* start: a survivor with z = 0, so that most others are out at once. */
static int32_t
draw(const SmpRow *row, const float *z, int n, Filter f, int32_t start)
{
	uint32_t	bits[4];
	int32_t		best_id = start;
	double		best;

	noise4(row, (uint32_t) start / 4, bits);
	best = z[start] + gumbel_of(bits[start % 4]);
	for (int32_t base = 0; base < n; base += 4)
	{
		int			m = n - base < 4 ? n - base : 4;
		double		low = best - MAX_GUMBEL;
		bool		any = false;

		for (int i = 0; i < m; i++)
			any |= z[base + i] >= f.min && z[base + i] >= low;
		if (!any)
			continue;
		noise4(row, (uint32_t) base / 4, bits);
		for (int i = 0; i < m; i++)
		{
			int32_t		id = base + i;
			double		score;

			if (z[id] < f.min || (z[id] == f.min && id > f.tie_id) || !may_reach(z[id] - best, bits[i]))
				continue;
			score = z[id] + gumbel_of(bits[i]);
			if (score > best || (score == best && id < best_id))
			{
				best = score;
				best_id = id;
			}
		}
	}
	return best_id;
}

/* ---- one row ---- */

static int32_t
sample_row(const Sampler *s, Work *w, const SmpRow *row, float *logits)
{
	const GenParams *p = row->params;
	int			n = s->n_valid;
	Filter		f = {-INFINITY, INT32_MAX};
	int32_t		top;
	float		inv_t;

	if (!all_finite(logits, n))
		return -1;
	if (row->position < p->min_tokens)
		for (int i = 0; i < p->n_min_ids; i++)
			logits[p->min_ids[i]] = -INFINITY;
	top = argmax(logits, n);
	if (!isfinite(logits[top]))
		return -1;				/* everything is masked */
	if (p->temperature == 0)
		return top;

	inv_t = (float) (1.0 / p->temperature);
	for (int i = 0; i < n; i++)
		w->z[i] = (logits[i] - logits[top]) * inv_t;
	if (p->min_p > 0)
		f.min = (float) log(p->min_p);
	if (p->top_k > 0 && p->top_k < n)
		filter_top_k(w, n, p->top_k, &f);
	if (p->top_p < 1)
		filter_top_p(w, n, p->top_p, &f);
	return draw(row, w->z, n, f, top);
}

static void
run_one(void *arg, int chunk, int ith)
{
	Sampler    *s = arg;
	SmpRow	   *row = &s->rows[chunk];

	row->id = sample_row(s, &s->work[ith], row, s->logits + (size_t) chunk * (size_t) s->width);
}

void
smp_run(Sampler *s, SmpRow *rows, int n, float *logits)
{
	s->rows = rows;
	s->logits = logits;
	if (s->pool != NULL && n > 1)
		kpool_run(s->pool, run_one, s, n);
	else
		for (int i = 0; i < n; i++)
			run_one(s, i, 0);
}

Sampler *
smp_new(KPool *pool, int width, int n_valid)
{
	Sampler    *s = mem_zalloc(sizeof(*s));

	s->pool = pool;
	s->n_threads = pool != NULL ? kpool_nthreads(pool) : 1;
	s->width = width;
	s->n_valid = n_valid;
	s->work = mem_zalloc((size_t) s->n_threads * sizeof(Work));
	for (int i = 0; i < s->n_threads; i++)
	{
		s->work[i].z = mem_alloc((size_t) n_valid * sizeof(float));
		s->work[i].cand = mem_alloc((size_t) n_valid * sizeof(Cand));
	}
	return s;
}

void
smp_free(Sampler *s)
{
	if (s == NULL)
		return;
	for (int i = 0; i < s->n_threads; i++)
	{
		mem_free(s->work[i].z);
		mem_free(s->work[i].cand);
	}
	mem_free(s->work);
	mem_free(s);
}
