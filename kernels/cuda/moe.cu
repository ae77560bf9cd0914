/*
 * moe.cu
 *	  Mixtures of experts, except for their matrices: which experts compute a row, the positions of
 *	  each row's copies, and the sum of the experts' outputs.
 *
 * Routing uses one warp per row, in shared memory; expert i belongs to lane i % 32, and only that lane
 * writes its key, so a choice is two reductions of integers.  Row invariant: the only sum over all
 * experts is each lane's, ascending, then the tree of warp_sum(); sums over the chosen ones run in the
 * order of choice, and so have the bits of kernels/route.c.
 *
 * Placement uses one block: each warp counts a range of pairs, and then knows where its own pairs of
 * each expert begin.  Only integers: the same bits as on the CPU.
 */
#include "cuda/order.cuh"
#include "cuda/cuda_ops.h"

#include <limits.h>

#define THREADS		256
#define PLACE_SMEM	(48 * 1024)

/* ---- routing ---- */

/* The data of one row, all in shared memory. */
typedef struct Route
{
	float	   *scores;			/* [n_experts] */
	float	   *w;				/* [top_k] in the order of choice */
	int		   *chosen;			/* [top_k] */
	unsigned   *keys;			/* [n_experts] keys of the scores for the choice; 0: excluded */
	unsigned   *groups;			/* [n_groups] */
	int			lane;
} Route;

static __device__ __forceinline__ float
sigmoid(float x)
{
	return 1.0f / (1.0f + expf(-x));
}

/* scores = softmax(scores) */
static __device__ void
softmax_all(const Route *r, int n)
{
	float		max = -INFINITY,
				sum = 0.0f;

	for (int i = r->lane; i < n; i += 32)
		max = fmaxf(max, r->scores[i]);
	max = warp_max(max);
	for (int i = r->lane; i < n; i += 32)
	{
		r->scores[i] = expf(r->scores[i] - max);
		sum += r->scores[i];
	}
	sum = warp_sum(sum);
	for (int i = r->lane; i < n; i += 32)
		r->scores[i] /= sum;
}

/* Return the first one of the largest keys; its lane clears the key. */
static __device__ int
take_best(const Route *r, unsigned *keys, int n)
{
	unsigned	most = 0,
				all;
	int			at = INT_MAX;

	for (int i = r->lane; i < n; i += 32)
		if (keys[i] > most)
		{
			most = keys[i];
			at = i;
		}
	all = reduce_max(FULL_MASK, most);
	at = reduce_min(FULL_MASK, most == all ? at : INT_MAX);
	if (at % 32 == r->lane)
		keys[at] = 0;
	return at;
}

/* Exclude the experts of all groups except the best. */
static __device__ void
leave_groups(const Route *r, const KRoute *c)
{
	int			size = c->n_experts / c->n_groups;

	for (int g = r->lane; g < c->n_groups; g += 32)
	{
		float		first = -INFINITY,
					second = -INFINITY;

		for (int i = 0; i < size; i++)
		{
			float		v = of_key(r->keys[g * size + i]);

			if (v > first)
			{
				second = first;
				first = v;
			}
			else if (v > second)
				second = v;
		}
		r->groups[g] = key_of(c->group_by == KGROUP_TOP2 ? first + second : first);
	}
	__syncwarp();
	for (int i = 0; i < c->top_groups; i++)
		take_best(r, r->groups, c->n_groups);
	__syncwarp();
	for (int i = r->lane; i < c->n_experts; i += 32)
		if (r->groups[i / size] != 0)
			r->keys[i] = 0;
}

/*
 * Return SparseMixer's weight of the best remaining expert: a softmax over those with similar scores,
 * including itself.
 */
static __device__ float
mixer_weight(const Route *r, const KRoute *c, float max, int best)
{
	float		sum = 0.0f;

	for (int i = r->lane; i < c->n_experts; i += 32)
	{
		float		s = r->scores[i],
					factor = fmaxf(fabsf(s), max);

		if ((r->keys[i] != 0 || i == best) && !((max - s) / factor > 2.0f * c->jitter))
			sum += expf(s - max);
	}
	return 1.0f / warp_sum(sum);
}

/* compute the weights of the chosen experts' scores; each lane sums up all */
static __device__ void
weigh(const Route *r, const KRoute *c)
{
	float		max = r->w[0],
				sum = 0.0f;

	if (c->routing == KROUTE_TOPK_SOFTMAX)
		for (int i = 1; i < c->top_k; i++)
			max = r->w[i] > max ? r->w[i] : max;
	__syncwarp();
	for (int i = r->lane; i < c->top_k; i += 32)
		if (c->routing == KROUTE_TOPK_SOFTMAX)
			r->w[i] = expf(r->w[i] - max);
		else if (c->routing == KROUTE_TOPK_SIGMOID)
			r->w[i] = sigmoid(r->w[i]);
	__syncwarp();
	if (c->routing == KROUTE_TOPK_SOFTMAX)
	{
		for (int i = 0; i < c->top_k; i++)
			sum += r->w[i];
		__syncwarp();
		for (int i = r->lane; i < c->top_k; i += 32)
			r->w[i] /= sum;
		__syncwarp();
	}
	if (c->normalize)
	{
		sum = 0.0f;
		for (int i = 0; i < c->top_k; i++)
			sum += r->w[i];
		sum = sum < c->normalize_min ? c->normalize_min : sum;
		__syncwarp();
		for (int i = r->lane; i < c->top_k; i += 32)
			r->w[i] /= sum;
	}
}

static __global__ void __launch_bounds__(32)
moe_route_kernel(KRoute c, const float *logits, int32_t *experts, float *weights)
{
	SMEM(float, smem);
	Route		r;
	size_t		row = blockIdx.x;

	r.lane = (int) threadIdx.x;
	r.scores = smem;
	r.w = r.scores + c.n_experts;
	r.chosen = (int *) (r.w + c.top_k);
	r.keys = (unsigned *) (r.chosen + c.top_k);
	r.groups = r.keys + c.n_experts;
	for (int i = r.lane; i < c.n_experts; i += 32)
	{
		float		x = logits[row * c.n_experts + i];

		r.scores[i] = c.routing == KROUTE_SIGMOID ? sigmoid(x) : x;
	}
	if (c.routing == KROUTE_SOFTMAX)
		softmax_all(&r, c.n_experts);
	for (int i = r.lane; i < c.n_experts; i += 32)
		r.keys[i] = key_of(c.correction != NULL ? r.scores[i] + c.correction[i] : r.scores[i]);
	__syncwarp();
	if (c.n_groups > 1)
		leave_groups(&r, &c);
	for (int i = 0; i < c.top_k; i++)
	{
		int			best = take_best(&r, r.keys, c.n_experts);
		float		score = r.scores[best];

		if (c.routing == KROUTE_SPARSEMIXER)
			score = mixer_weight(&r, &c, score, best);
		if (r.lane == 0)
		{
			r.chosen[i] = best;
			r.w[i] = score;
		}
	}
	__syncwarp();
	weigh(&r, &c);
	for (int i = r.lane; i < c.top_k; i += 32)
	{
		int			at = 0;

		for (int j = 0; j < c.top_k; j++)
			at += r.chosen[j] < r.chosen[i];
		experts[row * c.top_k + at] = r.chosen[i];
		weights[row * c.top_k + at] = c.scale != 1.0f ? r.w[i] * c.scale : r.w[i];
	}
}

void
cuda_moe_route(const KRoute *c, const float *logits, int rows, int32_t *experts, float *weights,
			   cudaStream_t stream)
{
	size_t		smem = sizeof(float) * (size_t) (2 * c->n_experts + 2 * c->top_k +
												 (c->n_groups > 1 ? c->n_groups : 0));

	if (rows > 0)
		LAUNCH(moe_route_kernel, rows, 32, smem, stream, *c, logits, experts, weights);
}

/* ---- slots ---- */

static __global__ void __launch_bounds__(THREADS)
moe_slots_kernel(int32_t *experts, int pairs, int first, int top_k, const int32_t *slots, int width)
{
	int			i = (int) (blockIdx.x * THREADS + threadIdx.x);
	const int32_t *of;

	if (i >= pairs)
		return;
	of = slots + (size_t) experts[i] * width;
	experts[i] = of[1 + (first + i / top_k) % of[0]];
}

void
cuda_moe_slots(int32_t *experts, int rows, int first, int top_k, const int32_t *slots, int width,
			   cudaStream_t stream)
{
	int			pairs = rows * top_k;

	if (pairs > 0)
		LAUNCH(moe_slots_kernel, (pairs + THREADS - 1) / THREADS, THREADS, 0, stream, experts, pairs, first,
			   top_k, slots, width);
}

/* ---- placement ---- */

/* start[0 .. n] = prefix sums of counts [n]; by one warp */
static __device__ void
scan_experts(const int *counts, int *start, int n)
{
	int			lane = (int) threadIdx.x,
				each = (n + 31) / 32,
				end = min(n, (lane + 1) * each),
				sum = 0,
				before;

	for (int i = lane * each; i < end; i++)
		sum += counts[i];
	before = sum;
	for (int d = 1; d < 32; d *= 2)
	{
		int			v = __shfl_up_sync(FULL_MASK, before, d);

		before += lane >= d ? v : 0;
	}
	before -= sum;
	for (int i = lane * each; i < end; i++)
	{
		start[i] = before;
		before += counts[i];
	}
	if (end == n && (lane == 0 || lane * each < n))
		start[n] = before;
}

/*
 * Walk the warp's pairs from..to in order.  counts [n_experts]: the warp's own counters; with place each
 * pair goes to the position given by its counter.
 */
static __device__ void
walk_pairs(const int32_t *experts, int from, int to, int *counts, int32_t *place)
{
	unsigned	lane = threadIdx.x % 32;

	for (int at = from; at < to; at += 32)
	{
		int			i = at + (int) lane,
					e = i < to ? experts[i] : -1;
		unsigned	same = __match_any_sync(FULL_MASK, e);

		if (e >= 0 && place != NULL)
			place[i] = counts[e] + __popc(same & ((1u << lane) - 1));
		__syncwarp();
		if (e >= 0 && __ffs(same) - 1 == (int) lane)
			counts[e] += __popc(same);
		__syncwarp();
	}
}

static __global__ void __launch_bounds__(1024)
moe_place_kernel(const int32_t *experts, int pairs, int n, int32_t *start, int32_t *place)
{
	SMEM(int, counts);			/* [warps][n], then [n] for all, then [n + 1] starts */
	int			warps = (int) blockDim.x / 32,
				warp = (int) threadIdx.x / 32,
				each = (pairs + 32 * warps - 1) / (32 * warps) * 32,
				from = min(pairs, warp * each),
				to = min(pairs, from + each);
	int		   *all = counts + warps * n,
			   *first = all + n;

	for (int i = threadIdx.x; i < warps * n; i += blockDim.x)
		counts[i] = 0;
	__syncthreads();
	walk_pairs(experts, from, to, counts + warp * n, NULL);
	__syncthreads();
	for (int i = threadIdx.x; i < n; i += blockDim.x)
	{
		int			sum = 0;

		for (int w = 0; w < warps; w++)
			sum += counts[w * n + i];
		all[i] = sum;
	}
	__syncthreads();
	if (warp == 0)
		scan_experts(all, first, n);
	__syncthreads();
	for (int i = threadIdx.x; i < n; i += blockDim.x)
	{
		int			at = first[i];

		for (int w = 0; w < warps; w++)
		{
			int			had = counts[w * n + i];

			counts[w * n + i] = at;
			at += had;
		}
	}
	for (int i = threadIdx.x; i <= n; i += blockDim.x)
		start[i] = first[i];
	__syncthreads();
	walk_pairs(experts, from, to, counts + warp * n, place);
}

void
cuda_moe_place(const int32_t *experts, int pairs, int n_experts, int32_t *start, int32_t *place,
			   cudaStream_t stream)
{
	int			warps = 32;

	while (warps > 1 && (size_t) ((warps + 2) * n_experts + 1) * sizeof(int) > PLACE_SMEM)
		warps /= 2;
	LAUNCH(moe_place_kernel, 1, 32 * warps, (size_t) ((warps + 2) * n_experts + 1) * sizeof(int), stream,
		   experts, pairs, n_experts, start, place);
}

/* ---- gathering experts' inputs and combining their outputs ---- */

template <typename T, int N> struct __align__(sizeof(T) * N) Piece
{
	T			v[N];
};

/* n: pieces per row */
template <typename T, int N> static __global__ void __launch_bounds__(THREADS)
moe_gather_kernel(Piece<T, N> *x, const Piece<T, N> *h, int top_k, const int32_t *place, const float *weights,
				  int n)
{
	size_t		row = blockIdx.x;
	int			i = (int) (blockIdx.y * THREADS + threadIdx.x);
	Piece<T, N> from;

	if (i >= n)
		return;
	from = h[row * n + i];
	for (int j = 0; j < top_k; j++)
	{
		Piece<T, N> to = from;

		if (weights != NULL)
#pragma unroll
			for (int k = 0; k < N; k++)
				from_float(&to.v[k], to_float(from.v[k]) * weights[row * top_k + j]);
		x[(size_t) place[row * top_k + j] * n + i] = to;
	}
}

template <typename T> static void
gather_rows(T *x, const T *h, int rows, int top_k, const int32_t *place, const float *weights, int hidden,
			cudaStream_t stream)
{
	constexpr int N = 16 / (int) sizeof(T);
	int			n = hidden / N;

	if (hidden % N == 0)
		LAUNCH((moe_gather_kernel<T, N>), dim3(rows, (n + THREADS - 1) / THREADS), THREADS, 0, stream,
			   (Piece<T, N> *) x, (const Piece<T, N> *) h, top_k, place, weights, n);
	else
		LAUNCH((moe_gather_kernel<T, 1>), dim3(rows, (hidden + THREADS - 1) / THREADS), THREADS, 0, stream,
			   (Piece<T, 1> *) x, (const Piece<T, 1> *) h, top_k, place, weights, hidden);
}

void
cuda_moe_gather(KType type, void *x, const void *h, int rows, int top_k, const int32_t *place,
				const float *weights, int hidden, cudaStream_t stream)
{
	if (rows == 0)
		return;
	if (type == KT_F32)
		gather_rows((float *) x, (const float *) h, rows, top_k, place, weights, hidden, stream);
	else if (type == KT_F16)
		gather_rows((F16 *) x, (const F16 *) h, rows, top_k, place, weights, hidden, stream);
	else
		gather_rows((BF16 *) x, (const BF16 *) h, rows, top_k, place, weights, hidden, stream);
}

typedef struct Combine
{
	const int32_t *place;		/* [rows][top_k] */
	const float *weights;		/* [rows][top_k]; NULL = 1 */
	const float *gate;			/* [rows]: its sigmoid is a factor of y's old value; NULL = 1 */
	const float *out_bias;		/* [hidden] or NULL */
	int			top_k;
	bool		shared;			/* y has an initial value */
} Combine;

template <int N> static __global__ void __launch_bounds__(THREADS)
moe_combine_kernel(Piece<float, N> *y, const Piece<float, N> *x, Combine c, int n)
{
	size_t		row = blockIdx.x;
	int			i = (int) (blockIdx.y * THREADS + threadIdx.x);
	float		gate = c.gate != NULL && c.shared ? sigmoid(c.gate[row]) : 1.0f;
	Piece<float, N> sum;

	if (i >= n)
		return;
	if (c.shared)
		sum = y[row * n + i];
#pragma unroll
	for (int k = 0; k < N; k++)
		sum.v[k] = c.shared ? gate * sum.v[k] : 0.0f;
	for (int j = 0; j < c.top_k; j++)
	{
		float		w = c.weights != NULL ? c.weights[row * c.top_k + j] : 1.0f;
		Piece<float, N> from = x[(size_t) c.place[row * c.top_k + j] * n + i];

#pragma unroll
		for (int k = 0; k < N; k++)
			sum.v[k] += w * from.v[k];
	}
	if (c.out_bias != NULL)
#pragma unroll
		for (int k = 0; k < N; k++)
			sum.v[k] += c.out_bias[(size_t) i * N + k];
	y[row * n + i] = sum;
}

void
cuda_moe_combine(float *y, const float *x, int rows, int top_k, const int32_t *place, const float *weights,
				 const float *gate, bool shared, const float *out_bias, int hidden, cudaStream_t stream)
{
	Combine		c = {place, weights, gate, out_bias, top_k, shared};
	int			n = hidden / 4;

	if (rows == 0)
		return;
	if (hidden % 4 == 0)
		LAUNCH(moe_combine_kernel<4>, dim3(rows, (n + THREADS - 1) / THREADS), THREADS, 0, stream,
			   (Piece<float, 4> *) y, (const Piece<float, 4> *) x, c, n);
	else
		LAUNCH(moe_combine_kernel<1>, dim3(rows, (hidden + THREADS - 1) / THREADS), THREADS, 0, stream,
			   (Piece<float, 1> *) y, (const Piece<float, 1> *) x, c, hidden);
}
