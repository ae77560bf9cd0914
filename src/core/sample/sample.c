/*
 * sample.c
 *	  Logits of one row -> one token id.
 *
 * The stages, in this order and no other (docs/user/sampling.md):
 *
 *	0. ids that a grammar's mask forbids stay forbidden in all stages;
 *	1. ids that the tokenizer does not know (padding of the vocabulary) are masked;
 *	3. allowed_token_ids: all others are masked;
 *	4. tokens that would complete one of bad_words are masked;
 *	5. until min_tokens, EOS and stop ids are masked; logit_bias is added; logits processors
 *	   (logits_processors.c);
 *	6. repetition, frequency and presence penalties (logit_rules.c);
 *	7. temperature 0: argmax, ties to the lowest id, done;
 *	8. z = (logit - max) / temperature, so that p is proportional to exp(z);
 *	9. logits processors that do not change the argmax; min_p: z < log(min_p) is dropped;
 *	10. top_k: z below the k-th largest is dropped; all ties with it survive; then
 *	   top_p, over what is left: sorted by falling z (ties: rising id), a token
 *	   survives if the mass before it is less than top_p of the total;
 *	11. argmax of p / e over the survivors, e ~ Exp(1): a draw from softmax(z)
 *	   (ties: lowest id).
 *
 * If 3 to 5 would mask all ids that a grammar allows, the grammar wins: their masks are not applied.  A
 * row without mask and rules has no cost for the stages 3 to 6.
 *
 * A filter is only a bound "z >= min", plus the last id for ties cut by top_p, so logits are not moved
 * and the vocabulary is not sorted.  The maximum of each block of 64 ids makes this fast: the k-th
 * largest of the maxima is a lower bound of the k-th largest of all, and whole blocks below the bound
 * are skipped.  For top_p a histogram of the mass over z finds the bucket with the cut, and partitioning
 * finds the cut within the bucket, like a quantile: with flat logits the bucket may be the whole
 * vocabulary.
 *
 * In stage 11 e is a function of (seed, position, id) alone: 8 leading bits from a Philox call shared by
 * 16 ids, 32 more from a call of the id's own.  Most ids are so far below the best one that they could
 * only win if their 8 bits were zero, so most of the second calls and of the logarithms are skipped.
 *
 * O(vocabulary) a row; measurements in docs/user/sampling.md.  Rows are sampled in parallel, each by one
 * thread with that thread's scratch.  Inner loops run over whole blocks, so that compilers vectorize
 * them.  Tested by tests/unit/core/sample/test_sample.c against a naive implementation with full sorts,
 * and by chi-square tests.
 */
#include "core/core_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/rng.h"

#define BLOCK		64			/* ids per maximum */
#define LANES		16			/* ids that share a Philox call; divides BLOCK */
#define N_BUCKETS	256			/* buckets of z; the last one has the rest */
#define PER_UNIT	4			/* buckets per unit of z */
#define NO_MASS		(-60.0f)	/* exp() of less is lost in a sum that is at least 1 */
#define MAX_GUMBEL	28.5		/* -log(smallest e) = 41 * log(2) = 28.42 */
#define NEAR		(-5.6)		/* exp() of less is below 1/256 */

typedef struct SampleCand
{
	float		z;
	int32_t		id;
} SampleCand;

/* One thread's scratch. */
typedef struct Work
{
	float	   *z;				/* [n_blocks * BLOCK], padded with -INFINITY */
	float	   *bmax;			/* [n_blocks] largest z of each block */
	SampleCand *cand;			/* [n_valid + 1]: gather() writes one entry ahead */
} Work;

/* The survivors of stages 9 and 10: z > min, or z == min and id <= tie_id. */
typedef struct Filter
{
	float		min;
	int32_t		tie_id;
} Filter;

struct Sampler
{
	KPool	   *pool;			/* NULL = no threads */
	int			n_threads;
	int			width;			/* logits per row */
	int			n_valid;		/* ids that may be sampled: 0 .. n_valid - 1 */
	int			n_blocks;
	Work	   *work;			/* [n_threads] */
	PluginHost *host;			/* NULL = no logits processors */
	bool		had_plugins;	/* the last run had rows with processors, which must learn of its end */
	float	   *kept;			/* [cap_kept][width] logits after the grammar's mask */
	int			cap_kept;
	SampleRow  *rows;			/* rows of the current run */
};

/* ---- stages 0 to 8 ---- */

typedef float Lanes4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef uint32_t Bits4 __attribute__((vector_size(16), may_alias));

/* Update a running maximum with four logits; a sign bit of *bad is set if one is not finite. */
static inline Lanes4
take4(Lanes4 m, const float *x, Bits4 *bad)
{
	Lanes4		z = *(const Lanes4 *) x;
	Bits4		more = (Bits4) (z > m);

	/* an exponent of all ones carries into the sign */
	*bad |= ((Bits4) z & 0x7f800000u) + 0x00800000u;
	return (Lanes4) (((Bits4) z & more) | ((Bits4) m & ~more));
}

/* Set *max to the largest logit of a block; the result's sign bit is set if one is not finite. */
static inline uint32_t
scan_block(const float *x, float *max)
{
	Bits4		bad = {0};
	Lanes4		a = *(const Lanes4 *) x,
				b = a,
				c = a,
				d = a;
	float		most;

	for (int i = 0; i < BLOCK; i += 16)
	{
		a = take4(a, x + i, &bad);
		b = take4(b, x + i + 4, &bad);
		c = take4(c, x + i + 8, &bad);
		d = take4(d, x + i + 12, &bad);
	}
	a = take4(a, (const float *) &b, &bad);
	c = take4(c, (const float *) &d, &bad);
	a = take4(a, (const float *) &c, &bad);
	most = a[0];
	for (int j = 1; j < 4; j++)
		most = a[j] > most ? a[j] : most;
	*max = most;
	return bad[0] | bad[1] | bad[2] | bad[3];
}

/* Scan one block; the last one may be shorter, and is padded with its first logit. */
static uint32_t
scan_one(const float *logits, int n_logits, int block, float *max)
{
	const float *x = logits + (size_t) block * BLOCK;
	int			n = n_logits - block * BLOCK;
	float		full[BLOCK];

	if (n >= BLOCK)
		return scan_block(x, max);
	for (int i = 0; i < BLOCK; i++)
		full[i] = x[i < n ? i : 0];
	return scan_block(full, max);
}

/* Compute the blocks' maxima; returns false if a logit is not finite. */
static bool
scan_row(const Sampler *s, Work *w, const float *logits)
{
	uint32_t	bad = 0;

	for (int b = 0; b < s->n_blocks; b++)
		bad |= scan_one(logits, s->n_valid, b, &w->bmax[b]);
	return (bad & 0x80000000u) == 0;
}

/* Stage 0: blocks that are completely allowed or forbidden are not scanned id by id. */
static void
apply_mask(const Sampler *s, Work *w, float *logits, const uint32_t *mask)
{
	for (int b = 0; b < s->n_blocks; b++)
	{
		int			n = s->n_valid - b * BLOCK < BLOCK ? s->n_valid - b * BLOCK : BLOCK;
		uint64_t	all = n == BLOCK ? UINT64_MAX : (UINT64_C(1) << n) - 1;
		uint64_t	bits = mask[2 * b];

		if (n > 32)
			bits |= (uint64_t) mask[2 * b + 1] << 32;
		if ((bits & all) == all)
			continue;
		for (int i = 0; i < n; i++)
			if ((bits >> i & 1) == 0)
				logits[b * BLOCK + i] = -INFINITY;
		if ((bits & all) == 0)
			w->bmax[b] = -INFINITY;
		else
			scan_one(logits, s->n_valid, b, &w->bmax[b]);
	}
}

static void
mask_ids(const Sampler *s, Work *w, float *logits, const int32_t *ids, int n)
{
	for (int i = 0; i < n; i++)
	{
		ASSERT(ids[i] >= 0 && ids[i] < s->width);
		logits[ids[i]] = -INFINITY;
	}
	for (int i = 0; i < n; i++)
		if (ids[i] < s->n_valid)
			scan_one(logits, s->n_valid, ids[i] / BLOCK, &w->bmax[ids[i] / BLOCK]);
}

static int32_t
argmax(const Sampler *s, const Work *w, const float *logits)
{
	int			best = 0;
	int32_t		i;

	for (int b = 1; b < s->n_blocks; b++)
		if (w->bmax[b] > w->bmax[best])
			best = b;
	for (i = best * BLOCK; logits[i] != w->bmax[best]; i++)
		ASSERT(i + 1 < s->n_valid && i + 1 < (best + 1) * BLOCK);
	return i;
}

/* Stage 8: compute w->z, padded.  Monotone, so the blocks' maxima can be scaled, too. */
static void
scale_row(const Sampler *s, Work *w, const float *logits, float max, float inv_t)
{
	for (int32_t i = 0; i < s->n_valid; i++)
		w->z[i] = (logits[i] - max) * inv_t;
	for (int32_t i = s->n_valid; i < s->n_blocks * BLOCK; i++)
		w->z[i] = -INFINITY;
	for (int b = 0; b < s->n_blocks; b++)
		w->bmax[b] = (w->bmax[b] - max) * inv_t;
}

/* ---- stage 10: top_k ---- */

/* Return the k-th largest z of n candidates, 1 <= k <= n (quickselect; reorders them). */
static float
kth_largest(SampleCand *c, int n, int k)
{
	int			lo = 0,
				hi = n - 1;

	ASSERT(k >= 1 && k <= n);
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
				SampleCand	t = c[i];

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

/* Collect all ids with z >= min in w->cand; skip blocks whose maximum is less. */
static int
gather(const Sampler *s, Work *w, float min)
{
	int			m = 0;

	for (int b = 0; b < s->n_blocks; b++)
	{
		if (w->bmax[b] < min)
			continue;
		for (int32_t i = b * BLOCK; i < (b + 1) * BLOCK && i < s->n_valid; i++)
		{
			w->cand[m] = (SampleCand) {w->z[i], i};
			m += w->z[i] >= min;
		}
	}
	return m;
}

static void
filter_top_k(const Sampler *s, Work *w, int k, Filter *f)
{
	float		bound = f->min;
	int			m;

	/* k blocks have a z that is at least the k-th largest maximum */
	if (k <= s->n_blocks)
	{
		for (int b = 0; b < s->n_blocks; b++)
			w->cand[b] = (SampleCand) {w->bmax[b], b};
		bound = fmaxf(bound, kth_largest(w->cand, s->n_blocks, k));
	}
	m = gather(s, w, bound);
	if (m >= k)
		f->min = kth_largest(w->cand, m, k);
}

/* ---- stage 10: top_p ---- */

/* exp(z) for z <= 0 to about 1e-6 of its value, 1 for 0, 0 below NO_MASS. */
static inline float
mass_of(float z)
{
	float		t = (z > NO_MASS ? z : NO_MASS) * 1.44269504f;
	int32_t		whole = (int32_t) (t - 0.5f);
	float		x = t - (float) whole;
	float		p = 1.0f +
		x * (0.69314718f + x * (0.24022651f + x * (0.05550411f + x * (0.00961813f + x * 0.00133336f))));
	uint32_t	bits = (uint32_t) (whole + 127) << 23;
	float		scale;

	memcpy(&scale, &bits, sizeof(scale));
	return z > NO_MASS ? p * scale : 0.0f;
}

static inline int
bucket_of(float z)
{
	float		d = -z * PER_UNIT;

	return (int) (d < N_BUCKETS - 1 ? d : N_BUCKETS - 1);
}

/* Set mass[b] to the sum of exp(z) of the survivors in bucket b; returns the total. */
static double
mass_histogram(const Sampler *s, const Work *w, float min, double *mass)
{
	double		total = 0;

	memset(mass, 0, N_BUCKETS * sizeof(double));
	for (int b = 0; b < s->n_blocks; b++)
	{
		const float *z = w->z + (size_t) b * BLOCK;
		float		e[BLOCK];
		int			to[BLOCK];

		if (w->bmax[b] < min || w->bmax[b] <= NO_MASS)
			continue;
		for (int j = 0; j < BLOCK; j++)
			e[j] = z[j] >= min ? mass_of(z[j]) : 0.0f;
		for (int j = 0; j < BLOCK; j++)
			to[j] = bucket_of(z[j]);
		for (int j = 0; j < BLOCK; j++)
			mass[to[j]] += (double) e[j];
	}
	for (int b = 0; b < N_BUCKETS; b++)
		total += mass[b];
	return total;
}

/* Order of top_p: falling z, rising id. */
static inline bool
cand_before(const SampleCand *x, const SampleCand *y)
{
	return x->z != y->z ? x->z > y->z : x->id < y->id;
}

/* Collect the survivors of one bucket. */
static int
gather_bucket(const Sampler *s, Work *w, float min, int bucket)
{
	float		lowest = fmaxf(min, -(float) (bucket + 1) / PER_UNIT);
	int			n = gather(s, w, bucket < N_BUCKETS - 1 ? lowest : min);
	int			m = 0;

	for (int i = 0; i < n; i++)
		if (bucket_of(w->cand[i].z) == bucket)
			w->cand[m++] = w->cand[i];
	return m;
}

/*
 * Of n >= 1 candidates in order, return the first one with which `before` reaches wanted, or the last of
 * all (reorders them).  Only the part that contains it is visited again.
 */
static SampleCand
mass_cut(SampleCand *c, int n, double before, double wanted)
{
	int			lo = 0,
				hi = n;
	SampleCand	cut = c[0];

	ASSERT(n >= 1);
	while (lo < hi)
	{
		int			mid = lo;
		double		ahead = 0;
		SampleCand	pivot = c[lo + (hi - lo) / 2];

		c[lo + (hi - lo) / 2] = c[hi - 1];
		for (int i = lo; i < hi - 1; i++)
			if (cand_before(&c[i], &pivot))
			{
				SampleCand	t = c[i];

				ahead += (double) mass_of(t.z);
				c[i] = c[mid];
				c[mid++] = t;
			}
		c[hi - 1] = c[mid];
		c[mid] = pivot;
		if (mid > lo && before + ahead >= wanted)
		{
			hi = mid;
			continue;
		}
		cut = pivot;
		before += ahead + (double) mass_of(pivot.z);
		if (before >= wanted)
			break;
		lo = mid + 1;
	}
	return cut;
}

static void
filter_top_p(const Sampler *s, Work *w, double top_p, Filter *f)
{
	double		mass[N_BUCKETS];
	double		wanted = top_p * mass_histogram(s, w, f->min, mass);
	double		before = 0;
	int			b = 0,
				m;
	SampleCand	cut;

	/* find the bucket in which the mass is reached; rounding can't lead beyond the last one */
	while (b < N_BUCKETS - 1 && (mass[b] <= 0 || before + mass[b] < wanted))
		before += mass[b++];
	m = gather_bucket(s, w, f->min, b);
	if (m == 0 || before >= wanted)
		return;
	cut = mass_cut(w->cand, m, before, wanted);
	f->min = cut.z;
	f->tie_id = cut.id;
}

/* ---- stage 11 ---- */

static void
noise(const SampleRow *row, uint32_t index, uint32_t kind, uint32_t out[4])
{
	uint32_t	ctr[4] = {index, (uint32_t) row->position, kind, 0};
	uint32_t	key[2] = {(uint32_t) row->seed, (uint32_t) (row->seed >> 32)};

	rng_philox(ctr, key, out);
}

/* Get the shared bits of a block: those of noise() for each LANES ids. */
static void
noise_of_block(const SampleRow *row, int block, uint32_t out[BLOCK / LANES][4])
{
	uint32_t	ctr[4] = {(uint32_t) block * (BLOCK / LANES), (uint32_t) row->position, 0, 0};
	uint32_t	key[2] = {(uint32_t) row->seed, (uint32_t) (row->seed >> 32)};

	_Static_assert(BLOCK / LANES == 4, "rng_philox4 makes four");
	rng_philox4(ctr, key, out);
}

/* Return -log(e), e ~ Exp(1), from 40 bits: v = 1 - u lies in (0, 1). */
static double
gumbel_of(const SampleRow *row, int32_t id, uint32_t byte)
{
	uint32_t	fine[4];
	double		v;

	noise(row, (uint32_t) id, 1, fine);
	v = (byte + (fine[0] + 0.5) * 0x1p-32) * 0x1p-8;
	return -log(-log1p(-v));
}

/*
 * Return false only if an id whose z is x below the best score can't win with these leading bits.  It
 * wins iff e <= exp(x); e >= v >= byte / 256; and for x < 0 exp(x) <= (1 - x/8)^-8.
 */
static inline bool
may_win(double x, uint32_t byte)
{
	double		y = 1 - x / 8;

	if (x >= 0 || byte == 0)
		return true;
	if (x < NEAR)
		return false;
	y *= y;
	y *= y;
	y *= y;
	return byte * y <= 256.001;
}

static inline bool
has_zero_byte(const uint32_t *bits)
{
	uint32_t	any = 0;

	for (int i = 0; i < 4; i++)
		any |= (bits[i] - 0x01010101u) & ~bits[i] & 0x80808080u;
	return any != 0;
}

typedef struct Best
{
	double		score;
	int32_t		id;
} Best;

/* Try LANES ids from base on, with their shared bits. */
static void
draw_lanes(const SampleRow *row, const float *z, int32_t base, const uint32_t *bits, Filter f, Best *best)
{
	for (int j = 0; j < LANES; j++)
	{
		int32_t		id = base + j;
		uint32_t	byte = bits[j / 4] >> (8 * (j % 4)) & 0xff;
		double		score;

		if (z[id] < f.min || (z[id] == f.min && id > f.tie_id) || z[id] == -INFINITY ||
			!may_win(z[id] - best->score, byte))
			continue;
		score = z[id] + gumbel_of(row, id, byte);
		if (score > best->score || (score == best->score && id < best->id))
			*best = (Best) {score, id};
	}
}

/* start: the argmax, which always survives; beginning with it excludes most others at once. */
static int32_t
draw(const Sampler *s, const Work *w, const SampleRow *row, Filter f, int32_t start)
{
	uint32_t	bits[BLOCK / LANES][4];
	Best		best;

	noise(row, (uint32_t) start / LANES, 0, bits[0]);
	best.id = start;
	best.score = w->z[start] + gumbel_of(row, start, bits[0][start % LANES / 4] >> (8 * (start % 4)) & 0xff);
	for (int b = 0; b < s->n_blocks; b++)
	{
		if (w->bmax[b] < f.min || w->bmax[b] < best.score - MAX_GUMBEL)
			continue;
		noise_of_block(row, b, bits);
		for (int i = 0; i < BLOCK / LANES; i++)
			if (w->bmax[b] - best.score >= NEAR || has_zero_byte(bits[i]))
				draw_lanes(row, w->z, b * BLOCK + i * LANES, bits[i], f, &best);
	}
	return best.id;
}

/* ---- one row ---- */

/* The parts of stages 3 to 5 that forbid ids; undone if they leave nothing that the grammar allows. */
static void
forbid(const Sampler *s, Work *w, const SampleRow *row, float *logits)
{
	const GenParams *p = row->params;
	const LogitRules *r = p->rules;

	if (r != NULL && r->allowed_mask != NULL)
		apply_mask(s, w, logits, r->allowed_mask);
	if (r != NULL)
		logit_rules_ban_words(r, row->tokens + row->n_prompt, row->n_tokens - row->n_prompt, logits,
							  s->n_valid);
	if (row->position < p->min_tokens)
		for (int i = 0; i < p->n_min_ids; i++)
			logits[p->min_ids[i]] = -INFINITY;
}

static bool
has_any(const float *logits, int n)
{
	for (int i = 0; i < n; i++)
		if (logits[i] > -INFINITY)
			return true;
	return false;
}

static void
rescan(const Sampler *s, Work *w, const float *logits)
{
	for (int b = 0; b < s->n_blocks; b++)
		scan_one(logits, s->n_valid, b, &w->bmax[b]);
}

/* Run stages 0 to 5 without logits processors; returns 0, or SMP_*. */
static int32_t
begin_row(const Sampler *s, Work *w, const SampleRow *row, float *logits)
{
	const GenParams *p = row->params;
	const LogitRules *r = p->rules;
	size_t		size = (size_t) s->n_valid * sizeof(float);
	bool		ends = row->position < p->min_tokens && p->n_min_ids > 0;
	bool		forbids = ends || (r != NULL && logit_rules_forbid(r));

	if (!scan_row(s, w, logits))
		return SMP_NOT_FINITE;
	if (row->mask == NULL && r == NULL)
	{
		if (ends)
			mask_ids(s, w, logits, p->min_ids, p->n_min_ids);
		return 0;
	}
	if (row->mask != NULL)
		apply_mask(s, w, logits, row->mask);
	if (forbids && row->mask != NULL)
		memcpy(w->z, logits, size);
	if (forbids)
		forbid(s, w, row, logits);
	/* the grammar wins */
	if (forbids && row->mask != NULL && !has_any(logits, s->n_valid))
		memcpy(logits, w->z, size);
	if (r != NULL)
		logit_rules_add_bias(r, logits);
	if (forbids)
		rescan(s, w, logits);
	return 0;
}

/* Run stages 6 and 7; returns the argmax, or SMP_*.  scan: the blocks' maxima are out of date. */
static int32_t
rank_row(const Sampler *s, Work *w, const SampleRow *row, float *logits, bool scan)
{
	const LogitRules *r = row->params->rules;
	int32_t		top;

	if (r != NULL)
		logit_rules_penalize(r, row->counts, row->tokens, row->n_prompt, row->n_tokens, logits, s->n_valid);
	if (r != NULL || scan)
		rescan(s, w, logits);
	top = argmax(s, w, logits);
	return logits[top] == -INFINITY ? SMP_NO_TOKEN : top;
}

static int32_t
prepare(const Sampler *s, Work *w, const SampleRow *row, float *logits)
{
	int32_t		begun = begin_row(s, w, row, logits);

	return begun < 0 ? begun : rank_row(s, w, row, logits, false);
}

float
smp_least_z(const GenParams *p)
{
	return p->min_p > 0 ? (float) log(p->min_p) : -INFINITY;
}

/* Run stages 8 to 10: compute z and the filter.  inv_t: 1 / temperature */
static Filter
filter(const Sampler *s, Work *w, const GenParams *p, const float *logits, float max, double inv_t)
{
	Filter		f = {smp_least_z(p), INT32_MAX};

	scale_row(s, w, logits, max, (float) inv_t);
	if (p->top_k > 0 && p->top_k < s->n_valid)
		filter_top_k(s, w, p->top_k, &f);
	if (p->top_p < 1)
		filter_top_p(s, w, p->top_p, &f);
	return f;
}

static inline bool
passes(const Work *w, Filter f, int i)
{
	return w->z[i] > f.min || (w->z[i] == f.min && i <= f.tie_id);
}

/* Return the logits from which a token is drawn; f NULL: temperature 0, so nothing is filtered. */
static void
put_processed(const Sampler *s, const Work *w, const SampleRow *row, const float *logits, const Filter *f,
			  float shift)
{
	for (int i = 0; i < s->width; i++)
		if (i >= s->n_valid || (f != NULL && !passes(w, *f, i)))
			row->processed[i] = -INFINITY;
		else
			row->processed[i] = f != NULL ? w->z[i] + shift : logits[i];
}

/* Run stages 7 to 11 of a row whose argmax is known. */
static int32_t
end_row(const Sampler *s, Work *w, const SampleRow *row, const float *logits, int32_t top, double inv_t)
{
	Filter		f;

	if (top < 0)
		return top;
	if (row->params->temperature == 0)
	{
		if (row->processed != NULL)
			put_processed(s, w, row, logits, NULL, 0);
		return top;
	}
	f = filter(s, w, row->params, logits, logits[top], inv_t);
	if (row->processed != NULL)
		put_processed(s, w, row, logits, &f, row->shift + (float) (logits[top] * inv_t));
	return draw(s, w, row, f, top);
}

static int32_t
sample_row(const Sampler *s, Work *w, const SampleRow *row, float *logits)
{
	return end_row(s, w, row, logits, prepare(s, w, row, logits), 1.0 / row->params->temperature);
}

bool
smp_filter(Sampler *s, SampleRow *row, float *logits)
{
	Work	   *w = &s->work[0];
	Filter		f;

	row->id = prepare(s, w, row, logits);
	if (row->id < 0)
		return false;
	if (row->params->temperature == 0)
	{
		for (int i = 0; i < s->n_valid; i++)
			logits[i] = i == row->id ? 0 : -INFINITY;
		return true;
	}
	f = filter(s, w, row->params, logits, logits[row->id], 1.0 / row->params->temperature);
	for (int i = 0; i < s->n_valid; i++)
		logits[i] = passes(w, f, i) ? w->z[i] : -INFINITY;
	return true;
}

static void
run_one(void *arg, int chunk, int ith)
{
	Sampler    *s = arg;
	SampleRow  *row = &s->rows[chunk];

	if (row->sampled == NULL)
		row->id = sample_row(s, &s->work[ith], row, row->logits);
}

/* ---- with logits processors ---- */

/*
 * Logits processors get all rows of a step at once, so the stages are run in parts.  A row without
 * processors is sampled in the same way as without this code.
 */

static bool
is_late(const Sampler *s, const SampleRow *row)
{
	return (row->params->plugins & plugin_host_late(s->host)) != 0 && row->params->temperature > 0;
}

/* Run stages 0 to 5; keep the logits that the grammar allows. */
static void
begin_one(void *arg, int chunk, int ith)
{
	Sampler    *s = arg;
	SampleRow  *row = &s->rows[chunk];

	if (row->sampled != NULL)
		return;
	row->id = row->params->plugins == 0 ? sample_row(s, &s->work[ith], row, row->logits) :
		begin_row(s, &s->work[ith], row, row->logits);
	if (row->params->plugins != 0 && row->mask != NULL)
		memcpy(s->kept + (size_t) chunk * (size_t) s->width, row->logits,
			   (size_t) s->n_valid * sizeof(float));
}

/*
 * Check the logits after the processors: they must be numbers.  Ids that the grammar forbids are masked
 * again; if no id is left, the grammar wins.
 */
static void
check_plugins(const Sampler *s, SampleRow *row, float *logits, int i)
{
	const float *kept = s->kept + (size_t) i * (size_t) s->width;

	for (int id = 0; id < s->n_valid && row->id >= 0; id++)
		if (!(logits[id] < INFINITY))
			row->id = SMP_PLUGIN;
	if (row->id < 0 || row->mask == NULL)
		return;
	for (int id = 0; id < s->n_valid; id++)
		if ((row->mask[id / 32] >> id % 32 & 1) == 0)
			logits[id] = -INFINITY;
	if (!has_any(logits, s->n_valid))
		memcpy(logits, kept, (size_t) s->n_valid * sizeof(float));
}

/* Run the stages from 6 to the end, or to the temperature. */
static void
middle_one(void *arg, int chunk, int ith)
{
	Sampler    *s = arg;
	SampleRow  *row = &s->rows[chunk];
	Work	   *w = &s->work[ith];
	float	   *logits = row->logits;
	int32_t		top;

	if (row->params->plugins == 0 || row->id < 0)
		return;
	check_plugins(s, row, logits, chunk);
	if (row->id < 0)
		return;
	top = rank_row(s, w, row, logits, true);
	if (!is_late(s, row) || top < 0)
	{
		row->id = end_row(s, w, row, logits, top, 1.0 / row->params->temperature);
		return;
	}
	row->shift = (float) (logits[top] / row->params->temperature);
	scale_row(s, w, logits, logits[top], (float) (1.0 / row->params->temperature));
	memcpy(logits, w->z, (size_t) s->n_valid * sizeof(float));
	if (row->mask != NULL)
		memcpy(s->kept + (size_t) chunk * (size_t) s->width, logits, (size_t) s->n_valid * sizeof(float));
}

/* Finish rows with processors that run after the temperature. */
static void
late_one(void *arg, int chunk, int ith)
{
	Sampler    *s = arg;
	SampleRow  *row = &s->rows[chunk];
	Work	   *w = &s->work[ith];
	float	   *logits = row->logits;
	int32_t		top;

	if (row->id < 0 || !is_late(s, row))
		return;
	check_plugins(s, row, logits, chunk);
	if (row->id < 0)
		return;
	rescan(s, w, logits);
	top = argmax(s, w, logits);
	row->id = end_row(s, w, row, logits, logits[top] == -INFINITY ? SMP_NO_TOKEN : top, 1);
}

static void
run_rows(Sampler *s, KPoolFn one, int n)
{
	kpool_run(s->pool, one, s, n);
}

static void
run_with_plugins(Sampler *s, int n, bool again)
{
	uint32_t	late = plugin_host_late(s->host);
	bool		any_late = false;

	if (n > s->cap_kept)
	{
		s->kept = mem_realloc(s->kept, (size_t) n * (size_t) s->width * sizeof(float));
		s->cap_kept = n;
	}
	plugin_host_update(s->host, s->rows, n, again);
	run_rows(s, begin_one, n);
	plugin_host_apply(s->host, ~late, s->rows, n);
	for (int i = 0; i < n; i++)
		any_late = any_late || is_late(s, &s->rows[i]);
	run_rows(s, middle_one, n);
	if (!any_late)
		return;
	plugin_host_apply(s->host, late, s->rows, n);
	run_rows(s, late_one, n);
}

/* ---- log-probabilities ---- */

typedef int32_t Ints4 __attribute__((vector_size(16), may_alias));

/* mass_of() of four values. */
static inline Lanes4
mass_of4(Lanes4 z)
{
	static const Lanes4 least = {NO_MASS, NO_MASS, NO_MASS, NO_MASS};
	Ints4		in = z > NO_MASS;
	Lanes4		t = (Lanes4) (((Ints4) z & in) | ((Ints4) least & ~in)) * 1.44269504f;
	Ints4		whole = __builtin_convertvector(t - 0.5f, Ints4);
	Lanes4		x = t - __builtin_convertvector(whole, Lanes4);
	Lanes4		p = 1.0f +
		x * (0.69314718f + x * (0.24022651f + x * (0.05550411f + x * (0.00961813f + x * 0.00133336f))));
	Ints4		scale = (whole + 127) << 23;

	return (Lanes4) ((Ints4) (p * (Lanes4) scale) & in);
}

/* Sum blocks in float, in 16 lanes, and the blocks' sums in double. */
static double
sum_of_masses(const float *x, int n, float most)
{
	double		sum = 0;

	for (int i = 0; i < n; i += BLOCK)
	{
		Lanes4		lanes[4] = {{0}};
		int			m = n - i < BLOCK ? n - i : BLOCK;

		for (int j = 0; j + 16 <= m; j += 16)
			for (int k = 0; k < 4; k++)
				lanes[k] += mass_of4(*(const Lanes4 *) (x + i + j + 4 * k) - most);
		for (int j = m / 16 * 16; j < m; j++)
			sum += (double) mass_of(x[i + j] - most);
		lanes[0] += lanes[1];
		lanes[2] += lanes[3];
		lanes[0] += lanes[2];
		for (int k = 0; k < 4; k++)
			sum += (double) lanes[0][k];
	}
	return sum;
}

double
smp_logsumexp(const float *x, int n, int n_valid, int32_t *best)
{
	uint32_t	bad = 0;
	float		most = x[0],
				max;
	int			at = 0;

	for (int b = 0; b * BLOCK < n_valid; b++)
	{
		bad |= scan_one(x, n_valid, b, &max);
		if (max > most)
		{
			most = max;
			at = b * BLOCK;
		}
	}
	*best = 0;
	if ((bad & 0x80000000u) != 0)
		return (double) NAN;
	while (x[at] != most)
		at++;
	*best = at;
	/* ids that the tokenizer does not know are part of the sum, too */
	for (int i = n_valid; i < n; i++)
	{
		if (!isfinite(x[i]))
			return (double) NAN;
		most = x[i] > most ? x[i] : most;
	}
	return (double) most + log(sum_of_masses(x, n, most));
}

void
smp_run_rows(Sampler *s, SampleRow *rows, int n, bool again)
{
	bool		plugins = false,
				any = false;

	s->rows = rows;
	for (int i = 0; i < n; i++)
	{
		plugins = plugins || (s->host != NULL && rows[i].params->plugins != 0);
		any = any || rows[i].sampled == NULL;
	}
	if (plugins || (s->host != NULL && s->had_plugins && !again))
		run_with_plugins(s, n, again);
	else if (any)
		run_rows(s, run_one, n);
	s->had_plugins = plugins || (again && s->had_plugins);
	for (int i = 0; i < n; i++)
		ASSERT(rows[i].sampled != NULL || (rows[i].id >= SMP_PLUGIN && rows[i].id < s->n_valid));
}

void
smp_run(Sampler *s, SampleRow *rows, int n, float *logits)
{
	for (int i = 0; i < n; i++)
		rows[i].logits = logits + (size_t) i * (size_t) s->width;
	smp_run_rows(s, rows, n, false);
}

void
smp_use_plugins(Sampler *s, PluginHost *host)
{
	plugin_host_free(s->host);
	s->host = host;
}

Sampler *
smp_new(KPool *pool, int width, int n_valid)
{
	Sampler    *s = mem_zalloc(sizeof(*s));

	ASSERT(n_valid >= 0 && n_valid <= width);
	s->pool = pool;
	s->n_threads = pool != NULL ? kpool_nthreads(pool) : 1;
	s->width = width;
	s->n_valid = n_valid;
	s->n_blocks = (n_valid + BLOCK - 1) / BLOCK;
	s->work = mem_zalloc((size_t) s->n_threads * sizeof(Work));
	for (int i = 0; i < s->n_threads; i++)
	{
		s->work[i].z = mem_alloc((size_t) s->n_blocks * BLOCK * sizeof(float));
		s->work[i].bmax = mem_alloc((size_t) s->n_blocks * sizeof(float));
		s->work[i].cand = mem_alloc(((size_t) n_valid + 1) * sizeof(SampleCand));
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
		mem_free(s->work[i].bmax);
		mem_free(s->work[i].cand);
	}
	mem_free(s->work);
	mem_free(s->kept);
	plugin_host_free(s->host);
	mem_free(s);
}
