/*
 * sample.cu
 *	  Sample a token from a row's logits, in the stages and with the noise of src/core/sample/sample.c,
 *	  and compute log-probabilities: one block per row, several passes over the row in L2.
 *
 * Nothing is sorted.  What top_k and top_p keep is "z at least this much", and of equal z "up to this
 * id": found as in a radix sort, with histograms over the leading, the middle and the last bits of z,
 * which contain counts for top_k and masses for top_p.
 *
 * Row invariant, and the same for any number of threads: masses are added as integers in units of 2^-44,
 * whose sum doesn't depend on the order, and everything else is a choice by value and id.  These masses
 * differ from sample.c's doubles by less than 2^-44 each; the token differs only if the cut of top_p is
 * that close to it.
 *
 * Biases and penalties are few: they modify the row in place, save the old values in the buffer, and are
 * undone before log-probabilities are computed, which are the model's own.
 */
#include "cuda/order.cuh"
#include "cuda/cuda_ops.h"

#include <float.h>
#include <limits.h>

#define CHUNK		16			/* ids that share a call of Philox; a thread processes one chunk at a time */
#define BINS		2048
#define NOBODY		0xffffffffu	/* no place in the order */
#define MASKED		0x7f800000u	/* place_of(-infinity) */
#define NO_MASS		(-60.0f)
#define MASS_ONE	17592186044416.0f	/* 2^44 */
#define MAX_GUMBEL	28.5
#define NEAR		(-5.6)

typedef unsigned long long Sum;

typedef struct Scratch
{
	unsigned	lo[BINS],
				hi[BINS];
	Sum			sums[32];		/* one per warp */
	double		scores[32];
	unsigned	keys[32];
	int			ids[32];
	/* result of find() */
	unsigned	bin;
	Sum			before,
				here;
	/* the likeliest ids */
	int			n_top;
	unsigned	top_key[KSAMPLE_TOP];
	int			top_id[KSAMPLE_TOP];
} Scratch;

/* A row and how it is read. */
typedef struct Row
{
	const float *x;
	const uint32_t *mask;		/* NULL = all ids are allowed */
	int			n;				/* ids */
	bool		wide;			/* x is aligned for loads of 16 bytes */
	Scratch    *s;
} Row;

/*
 * The ids that min_p, top_k and top_p keep: those whose place is before `place`, or equal to it with an
 * id up to tie_id.
 */
typedef struct Filter
{
	unsigned	place;
	int			tie_id;
} Filter;

/* ---- reading rows ---- */

static __device__ __forceinline__ int
chunks_of(const Row *r)
{
	return (r->n + CHUNK - 1) / CHUNK;
}

/* load 16 logits unchanged; 0 after the row's end */
static __device__ __forceinline__ void
load(const Row *r, int chunk, float *v)
{
	const float *x = r->x + (size_t) chunk * CHUNK;
	int			left = r->n - chunk * CHUNK;

	if (r->wide && left >= CHUNK)
	{
#pragma unroll
		for (int i = 0; i < CHUNK; i += 4)
		{
			float4		f = *(const float4 *) (x + i);

			v[i] = f.x;
			v[i + 1] = f.y;
			v[i + 2] = f.z;
			v[i + 3] = f.w;
		}
		return;
	}
#pragma unroll
	for (int i = 0; i < CHUNK; i++)
		v[i] = i < left ? x[i] : 0.0f;
}

/* set masked logits, and those after the end, to -infinity */
static __device__ __forceinline__ void
forbid(const Row *r, int chunk, float *v)
{
	int			left = r->n - chunk * CHUNK;
	unsigned	bits = r->mask != NULL ? r->mask[chunk / 2] >> (chunk % 2 * CHUNK) : 0xffffu;

	if (left < CHUNK)
		bits &= (1u << left) - 1;
#pragma unroll
	for (int i = 0; i < CHUNK; i++)
		v[i] = (bits >> i & 1) != 0 ? v[i] : -INFINITY;
}

/* the largest logit and the first id that has it; INT_MAX: none.  *finite: all logits are, masked or
 * not */
static __device__ int
largest(const Row *r, float *max, bool *finite)
{
	Scratch    *s = r->s;
	float		most = -INFINITY;
	int			at = INT_MAX;
	unsigned	bad = 0,
				key;

	for (int c = (int) threadIdx.x; c < chunks_of(r); c += (int) blockDim.x)
	{
		float		v[CHUNK];

		load(r, c, v);
#pragma unroll
		for (int i = 0; i < CHUNK; i++)
			bad |= (__float_as_uint(v[i]) & 0x7f800000u) + 0x00800000u;
		forbid(r, c, v);
#pragma unroll
		for (int i = 0; i < CHUNK; i++)
			if (v[i] > most)
			{
				most = v[i];
				at = c * CHUNK + i;
			}
	}
	key = key_of(most);
	{
		unsigned	all = reduce_max(FULL_MASK, key);
		int			first = reduce_min(FULL_MASK, key == all ? at : INT_MAX);

		if (threadIdx.x % 32 == 0)
		{
			s->keys[threadIdx.x / 32] = all;
			s->ids[threadIdx.x / 32] = first;
		}
	}
	*finite = __syncthreads_or((bad & 0x80000000u) != 0) == 0;
	key = s->keys[0];
	at = s->ids[0];
	for (int w = 1; w < (int) blockDim.x / 32; w++)
		take_better(&key, &at, s->keys[w], s->ids[w]);
	__syncthreads();
	*max = of_key(key);
	return at;
}

/* sum over all threads, which must all call it */
static __device__ Sum
block_total(Scratch *s, Sum v)
{
#pragma unroll
	for (int m = 16; m > 0; m >>= 1)
		v += __shfl_xor_sync(FULL_MASK, v, m);
	if (threadIdx.x % 32 == 0)
		s->sums[threadIdx.x / 32] = v;
	__syncthreads();
	v = 0;
	for (int w = 0; w < (int) blockDim.x / 32; w++)
		v += s->sums[w];
	__syncthreads();
	return v;
}

/* ---- masses ---- */

/* As in sample.c: exp(z) for z <= 0 to about 1e-6 of its value, 1 for 0, 0 below NO_MASS. */
static __device__ __forceinline__ float
mass_of(float z)
{
	float		t = (z > NO_MASS ? z : NO_MASS) * 1.44269504f;
	int			whole = (int) (t - 0.5f);
	float		x = t - (float) whole;
	float		p = 1.0f +
		x * (0.69314718f + x * (0.24022651f + x * (0.05550411f + x * (0.00961813f + x * 0.00133336f))));

	return z > NO_MASS ? p * __uint_as_float((unsigned) (whole + 127) << 23) : 0.0f;
}

/* round to units of 2^-44: a sum of 2^19 ids doesn't overflow */
static __device__ __forceinline__ Sum
units_of(float mass)
{
	float		u = mass * MASS_ONE;

	return (Sum) (u < 4194304.0f ? u + 0.5f : u);
}

/* ---- cuts ---- */

/* For z <= 0: lower z have larger places; both zeros have the same. */
static __device__ __forceinline__ unsigned
place_of(float z)
{
	return __float_as_uint(z) & 0x7fffffffu;
}

/* a bin's sum has two words; the carry of the lower one is added to the upper one */
static __device__ __forceinline__ void
add_to_bin(Scratch *s, unsigned bin, Sum v)
{
	unsigned	lo = (unsigned) v,
				hi = (unsigned) (v >> 32),
				old = atomicAdd(&s->lo[bin], lo);

	hi += old + lo < old ? 1 : 0;
	if (hi != 0)
		atomicAdd(&s->hi[bin], hi);
}

static __device__ __forceinline__ Sum
in_bin(const Scratch *s, int bin)
{
	return s->lo[bin] | (Sum) s->hi[bin] << 32;
}

/*
 * Find the first bin with which `before` reaches wanted: set s->bin, before and here; NOBODY: there is
 * none.  Return the sum of all bins.  share: wanted is a fraction of that sum.
 */
static __device__ Sum
find(Scratch *s, Sum before, double *wanted, bool share)
{
	int			lane = (int) threadIdx.x % 32,
				warp = (int) threadIdx.x / 32,
				each = BINS / (int) blockDim.x,
				from = (int) threadIdx.x * each;
	Sum			mine = 0,
				up,
				all = 0;

	for (int i = from; i < from + each; i++)
		mine += in_bin(s, i);
	up = mine;
	for (int d = 1; d < 32; d *= 2)
	{
		Sum			v = __shfl_up_sync(FULL_MASK, up, d);

		up += lane >= d ? v : 0;
	}
	if (lane == 31)
		s->sums[warp] = up;
	if (threadIdx.x == 0)
		s->bin = NOBODY;
	__syncthreads();
	before += up - mine;
	for (int w = 0; w < (int) blockDim.x / 32; w++)
	{
		before += w < warp ? s->sums[w] : 0;
		all += s->sums[w];
	}
	if (share)
		*wanted *= (double) all;
	for (int i = from; i < from + each; i++)
	{
		Sum			here = in_bin(s, i);

		if ((double) before < *wanted && (double) (before + here) >= *wanted)
		{
			s->bin = (unsigned) i;
			s->before = before;
			s->here = here;
		}
		before += here;
	}
	__syncthreads();
	return all;
}

typedef struct Cut
{
	bool		found;
	unsigned	at;				/* the first place with which the wanted sum is reached */
	Sum			before,			/* sum of the places before it */
				here;			/* sum of this place */
	double		wanted;
} Cut;

/*
 * Find where the sum of weights reaches the wanted one, from place 0 on.  place(v, id): place of a
 * logit, NOBODY to skip it; weight(place): weight of one logit at that place.
 */
template <typename P, typename W> static __device__ Cut
cut_row(const Row *r, double wanted, bool share, P place, W weight)
{
	Scratch    *s = r->s;
	Cut			cut = {true, 0, 0, 0, wanted};

	for (int shift = 21; shift >= 0 && cut.found; shift -= shift == 21 ? 11 : shift == 10 ? 10 : 1)
	{
		int			bits = shift == 0 ? 10 : 11;

		for (int i = (int) threadIdx.x; i < BINS; i += (int) blockDim.x)
			s->lo[i] = s->hi[i] = 0;
		__syncthreads();
		for (int c = (int) threadIdx.x; c < chunks_of(r); c += (int) blockDim.x)
		{
			float		v[CHUNK];

			load(r, c, v);
			forbid(r, c, v);
#pragma unroll
			for (int i = 0; i < CHUNK; i++)
			{
				int			id = c * CHUNK + i;
				unsigned	at = id < r->n ? place(v[i], id) : NOBODY;

				if (at != NOBODY && (shift == 21 || at >> (shift + bits) == cut.at))
				{
					Sum			w = weight(at);

					if (w != 0)
						add_to_bin(s, at >> shift & ((1u << bits) - 1), w);
				}
			}
		}
		__syncthreads();
		find(s, cut.before, &cut.wanted, share && shift == 21);
		cut.found = s->bin != NOBODY;
		cut.at = cut.at << bits | s->bin;
		cut.before = s->before;
		cut.here = s->here;
		__syncthreads();
	}
	return cut;
}

/* ---- stages 8 to 10 ---- */

typedef struct Scale
{
	float		max;
	float		inv_t;
} Scale;

static __device__ __forceinline__ float
z_of(Scale t, float x)
{
	return (x - t.max) * t.inv_t;
}

static __device__ __forceinline__ bool
passes(Filter f, unsigned place, int id)
{
	return place < f.place || (place == f.place && id <= f.tie_id);
}

/* If several z are equal at a cut of masses, only the first ids are kept. */
static __device__ int
last_of_equal(const Row *r, Scale t, const Cut *cut)
{
	Sum			unit = units_of(mass_of(-__uint_as_float(cut->at))),
				n = (Sum) ((cut->wanted - (double) cut->before) / (double) unit);

	while (n > 1 && (double) (cut->before + (n - 1) * unit) >= cut->wanted)
		n--;
	while (n < 1 || (double) (cut->before + n * unit) < cut->wanted)
		n++;
	if (n * unit >= cut->here)
		return INT_MAX;
	return (int) cut_row(r, (double) n, false,
						 [&](float x, int id) { return place_of(z_of(t, x)) == cut->at
												? (unsigned) id : NOBODY; },
						 [](unsigned) { return (Sum) 1; }).at;
}

static __device__ Filter
filter(const Row *r, const KSample *p, Scale t)
{
	Filter		f = {min(place_of(p->min_p_log), MASKED - 1), INT_MAX};
	auto		place = [&](float x, int) {
		unsigned	at = place_of(z_of(t, x));

		return at <= f.place ? at : NOBODY;
	};

	if (p->top_k > 0 && p->top_k < r->n)
	{
		Cut			cut = cut_row(r, (double) p->top_k, false, place, [](unsigned) { return (Sum) 1; });

		if (cut.found)
			f.place = cut.at;
	}
	if (p->top_p < 1)
	{
		Cut			cut = cut_row(r, p->top_p, true, place,
								  [](unsigned at) { return units_of(mass_of(-__uint_as_float(at))); });

		if (cut.found)
		{
			f.tie_id = last_of_equal(r, t, &cut);
			f.place = cut.at;
		}
	}
	return f;
}

/* ---- stage 11 ---- */

/* Philox4x32-10, as in src/base/rng.c */
static __device__ __forceinline__ uint4
philox(const KSample *p, unsigned index, unsigned kind)
{
	unsigned	c0 = index,
				c1 = p->pos,
				c2 = kind,
				c3 = 0,
				k0 = (unsigned) p->seed,
				k1 = (unsigned) (p->seed >> 32);

#pragma unroll
	for (int i = 0; i < 10; i++)
	{
		Sum			a = (Sum) c0 * 0xD2511F53u,
					b = (Sum) c2 * 0xCD9E8D57u;

		c0 = (unsigned) (b >> 32) ^ c1 ^ k0;
		c1 = (unsigned) b;
		c2 = (unsigned) (a >> 32) ^ c3 ^ k1;
		c3 = (unsigned) a;
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
	return make_uint4(c0, c1, c2, c3);
}

static __device__ __forceinline__ unsigned
byte_of(uint4 bits, int i)
{
	unsigned	word = i < 8 ? i < 4 ? bits.x : bits.y : i < 12 ? bits.z : bits.w;

	return word >> (8 * (i % 4)) & 0xff;
}

/* z plus -log(e), e ~ Exp(1) of 40 bits */
static __device__ __noinline__ double
score_of(const KSample *p, float z, int id, unsigned byte)
{
	uint4		fine = philox(p, (unsigned) id, 1);
	double		v = ((double) byte + ((double) fine.x + 0.5) * 0x1p-32) * 0x1p-8;

	return (double) z - log(-log1p(-v));
}

/*
 * start: the largest logit, which always survives.  An id that is more than 5.6 below it needs 8 leading
 * zero bits to win, and one that is more than 28.5 below it never wins.
 */
static __device__ int
draw(const Row *r, const KSample *p, Scale t, Filter f, int start)
{
	Scratch    *s = r->s;
	double		best = score_of(p, z_of(t, r->x[start]), start,
								byte_of(philox(p, (unsigned) start / CHUNK, 0), start % CHUNK));
	int			id = start;

	for (int c = (int) threadIdx.x; c < chunks_of(r); c += (int) blockDim.x)
	{
		float		v[CHUNK],
					near = (float) best + (float) (NEAR - 0.01),
					far = (float) best - (float) (MAX_GUMBEL + 0.01);
		uint4		bits = philox(p, (unsigned) c, 0);
		unsigned	may = 0;

		load(r, c, v);
		forbid(r, c, v);
#pragma unroll
		for (int i = 0; i < CHUNK; i++)
		{
			float		z = z_of(t, v[i]);

			if ((z >= near || (z >= far && byte_of(bits, i) == 0)) && passes(f, place_of(z), c * CHUNK + i))
				may |= 1u << i;
		}
		for (; may != 0; may &= may - 1)
		{
			int			i = __ffs((int) may) - 1,
						other = c * CHUNK + i;

			take_better(&best, &id, score_of(p, z_of(t, r->x[other]), other, byte_of(bits, i)), other);
		}
	}
	for (int m = 16; m > 0; m >>= 1)
	{
		double		score = __shfl_xor_sync(FULL_MASK, best, m);
		int			other = __shfl_xor_sync(FULL_MASK, id, m);

		take_better(&best, &id, score, other);
	}
	if (threadIdx.x % 32 == 0)
	{
		s->scores[threadIdx.x / 32] = best;
		s->ids[threadIdx.x / 32] = id;
	}
	__syncthreads();
	for (int w = 0; w < (int) blockDim.x / 32; w++)
		take_better(&best, &id, s->scores[w], s->ids[w]);
	__syncthreads();
	return id;
}

/* ---- stages 5 and 6 ---- */

static __device__ __forceinline__ float
stay_finite(float x)
{
	return x > FLT_MAX ? FLT_MAX : x < -FLT_MAX ? -FLT_MAX : x;
}

static __device__ float
penalized(const KSample *p, float x, int count)
{
	if (x == -INFINITY)
		return x;
	if (p->repetition != 1.0f)
		x = stay_finite(x > 0.0f ? x / p->repetition : x * p->repetition);
	x -= p->frequency * (float) count;
	if (count > 0)
		x -= p->presence;
	return stay_finite(x);
}

/* Save the old values in place of the biases and counts. */
static __device__ void
change(const KSample *p, uint32_t *words, float *x)
{
	uint32_t   *ids = words + p->bias_at,
			   *add = ids + p->n_bias;

	for (int i = (int) threadIdx.x; i < p->n_bias; i += (int) blockDim.x)
	{
		float		had = x[ids[i]];

		x[ids[i]] = had + __uint_as_float(add[i]);
		add[i] = __float_as_uint(had);
	}
	__syncthreads();
	ids = words + p->pen_at;
	add = ids + p->n_pen;
	for (int i = (int) threadIdx.x; i < p->n_pen; i += (int) blockDim.x)
	{
		float		had = x[ids[i]];

		x[ids[i]] = penalized(p, had, (int) add[i]);
		add[i] = __float_as_uint(had);
	}
	__syncthreads();
}

static __device__ void
take_back(const KSample *p, const uint32_t *words, float *x)
{
	const uint32_t *ids = words + p->pen_at;

	for (int i = (int) threadIdx.x; i < p->n_pen; i += (int) blockDim.x)
		x[ids[i]] = __uint_as_float(ids[p->n_pen + i]);
	__syncthreads();
	ids = words + p->bias_at;
	for (int i = (int) threadIdx.x; i < p->n_bias; i += (int) blockDim.x)
		x[ids[i]] = __uint_as_float(ids[p->n_bias + i]);
	__syncthreads();
}

/* ---- log-probabilities ---- */

/* Find the k likeliest of a row's ids, in order. */
static __device__ void
report_top(const Row *r, int k, double norm, KSampled *out)
{
	Scratch    *s = r->s;
	auto		place = [](float x, int) { return ~key_of(x); };
	auto		one = [](unsigned) { return (Sum) 1; };
	Cut			cut = cut_row(r, (double) k, false, place, one);
	Sum			left = (Sum) k - cut.before;
	int			tie = INT_MAX;

	if (left < cut.here)
		tie = (int) cut_row(r, (double) left, false,
							[&](float x, int id) { return ~key_of(x) == cut.at ? (unsigned) id : NOBODY; },
							one).at;
	if (threadIdx.x == 0)
		s->n_top = 0;
	__syncthreads();
	for (int c = (int) threadIdx.x; c < chunks_of(r); c += (int) blockDim.x)
	{
		float		v[CHUNK];

		load(r, c, v);
		forbid(r, c, v);
#pragma unroll
		for (int i = 0; i < CHUNK; i++)
		{
			unsigned	at = ~key_of(v[i]);
			int			id = c * CHUNK + i;

			if (id < r->n && (at < cut.at || (at == cut.at && id <= tie)))
			{
				int			slot = atomicAdd(&s->n_top, 1);

				s->top_key[slot] = ~at;
				s->top_id[slot] = id;
			}
		}
	}
	__syncthreads();
	if ((int) threadIdx.x < k)
	{
		unsigned	key = s->top_key[threadIdx.x];
		int			id = s->top_id[threadIdx.x],
					at = 0;

		for (int i = 0; i < k; i++)
			at += is_better(s->top_key[i], s->top_id[i], key, id);
		out->top_id[at] = id;
		out->top_logprob[at] = (float) ((double) of_key(key) - norm);
	}
}

/* n: ids that may be reported; all ids of the row count in the sum, except for masked ones */
static __device__ void
report(const Row *given, const KSample *p, int n, int id, KSampled *out)
{
	Row			r = *given;
	float		most,
				own = r.x[id];
	bool		finite;
	Sum			total = 0,
				before = 0;
	double		norm;

	largest(&r, &most, &finite);
	for (int c = (int) threadIdx.x; c < chunks_of(&r); c += (int) blockDim.x)
	{
		float		v[CHUNK];

		load(&r, c, v);
		forbid(&r, c, v);
#pragma unroll
		for (int i = 0; i < CHUNK; i++)
		{
			total += units_of(mass_of(v[i] - most));
			before += c * CHUNK + i < n && v[i] >= own ? 1 : 0;
		}
	}
	total = block_total(r.s, total);
	before = block_total(r.s, before);
	norm = p->as_logits ? 0.0 : (double) most + log((double) total * 0x1p-44);
	r.n = n;
	if (threadIdx.x == 0)
	{
		out->logprob = (float) ((double) own - norm);
		out->rank = (int) before;
		out->n_top = min(p->n_logprobs, n);
	}
	if (p->n_logprobs > 0)
		report_top(&r, min(p->n_logprobs, n), norm, out);
}

/* ---- a row ---- */

/* Run stages 0 to 11 for a row, if its logits are finite. */
static __device__ int
choose(const Row *r, const KSample *p, uint32_t *words, float *x)
{
	Scale		t = {0, p->inv_t};
	bool		finite,
				still;
	int			top = largest(r, &t.max, &finite);

	if (!finite)
		return KSAMPLE_NOT_FINITE;
	if (p->n_bias + p->n_pen > 0)
	{
		change(p, words, x);
		top = largest(r, &t.max, &still);
	}
	if (t.max == -INFINITY)
		return KSAMPLE_NO_TOKEN;
	return p->inv_t == 0.0f ? top : draw(r, p, t, filter(r, p, t), top);
}

static __global__ void __launch_bounds__(1024)
sample_kernel(uint32_t *words, float *logits, int width, int n_valid, KSampled *out)
{
	SHARED(Scratch, scratch, [1]);
	const KSample *p = (const KSample *) words + blockIdx.x;
	float	   *x = logits + (size_t) p->row * width;
	Row			r = {x, p->mask_at != 0 ? words + p->mask_at : NULL, n_valid, width % 4 == 0, scratch};
	int			id = choose(&r, p, words, x);

	out += blockIdx.x;
	if (threadIdx.x == 0)
		out->id = id;
	if (id != KSAMPLE_NOT_FINITE && p->n_bias + p->n_pen > 0)
		take_back(p, words, x);
	if (id < 0 || p->n_logprobs < 0)
		return;
	r.mask = p->given_at != 0 ? words + p->given_at : NULL;
	r.n = p->given_at != 0 ? n_valid : width;
	report(&r, p, n_valid, id, out);
}

void
cuda_sample(void *buffer, int rows, float *logits, int width, int n_valid, KSampled *out, cudaStream_t stream)
{
	int			threads = width <= 512 ? 32 : width <= 8192 ? 128 : width <= 32768 ? 512 : 1024;

	if (rows > 0)
		LAUNCH(sample_kernel, rows, threads, 0, stream, (uint32_t *) buffer, logits, width, n_valid, out);
}
