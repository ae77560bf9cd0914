/*
 * ssm.cu
 *	  State-space models: the short convolution before the recurrence, and the recurrence itself.
 *
 * A row's result depends only on its own sequence, and is computed by the same operations wherever a
 * prompt is split: the convolution's sums ascend with positions, with inputs from the step's rows or,
 * before the first row, from the state; the recurrence processes one position after the other.  Rows at
 * position -1 are padding: they get zeros, and have no state.
 */
#include "cuda/common.cuh"
#include "cuda/act.cuh"
#include "cuda/attn/kv.cuh"
#include "cuda/quad.cuh"
#include "cuda/cuda_ops.h"

/* ---- convolution ---- */

#define CONV_THREADS 128

typedef struct Conv
{
	float	   *state;			/* slot s is at + s * stride, [width - 1][dim] */
	size_t		stride;
	const int32_t *slots;
	const float *x;
	int			ldx;
	int			dim;
	int			width;
	const float *w;				/* [width][dim] */
	const float *b;
	bool		silu;
	float	   *y;
	int			ldy;
} Conv;

/*
 * Return input i of channel c, counted from the first one that the sequence's first row needs: width - 1
 * from the state, then x's rows.
 */
static __device__ __forceinline__ float
conv_input(const Conv &a, int slot, int row0, bool begins, int i, int c)
{
	if (i >= a.width - 1)
		return a.x[(size_t) (row0 + i - (a.width - 1)) * a.ldx + c];
	return begins ? 0.0f : a.state[slot * a.stride + (size_t) i * a.dim + c];
}

/* a block computes channels of one row */
__global__ void __launch_bounds__(CONV_THREADS)
conv_kernel(const Conv a, const CudaRows r, int blocks)
{
	int			row = blockIdx.x / blocks,
				c = blockIdx.x % blocks * CONV_THREADS + threadIdx.x,
				seq = row_seq(r, row),
				row0 = seq_first(r, seq);
	float		sum = 0.0f;

	if (c >= a.dim)
		return;
	if (r.pos[row] >= 0)
	{
		if (a.b != NULL)
			sum = a.b[c];
		for (int i = 0; i < a.width; i++)
			sum = fmaf(conv_input(a, a.slots[seq], row0, r.pos[row0] == 0, row - row0 + i, c),
					   a.w[(size_t) i * a.dim + c], sum);
		if (a.silu)
			sum = act_silu(sum);
	}
	a.y[(size_t) row * a.ldy + c] = sum;
}

/* after the step: store the last inputs.  In place, as each source is at or after its destination. */
__global__ void __launch_bounds__(CONV_THREADS)
conv_state_kernel(const Conv a, const CudaRows r, int blocks)
{
	int			seq = blockIdx.x / blocks,
				c = blockIdx.x % blocks * CONV_THREADS + threadIdx.x,
				row0 = seq_first(r, seq),
				rows = seq_first(r, seq + 1) - row0;

	if (c >= a.dim || rows == 0 || r.pos[row0] < 0)
		return;
	for (int i = 0; i < a.width - 1; i++)
		a.state[a.slots[seq] * a.stride + (size_t) i * a.dim + c] =
			conv_input(a, a.slots[seq], row0, r.pos[row0] == 0, rows + i, c);
}

void
cuda_conv(const KState *st, const int32_t *slots, const CudaRows *r, const float *x, int ldx, int dim,
		  int width, const float *w, const float *b, bool silu, float *y, int ldy, cudaStream_t stream)
{
	Conv		a = {st->base, st->stride, slots, x, ldx, dim, width, w, b, silu, y, ldy};
	int			blocks = (dim + CONV_THREADS - 1) / CONV_THREADS;

	if (r->n_rows == 0)
		return;
	LAUNCH(conv_kernel, r->n_rows * blocks, CONV_THREADS, 0, stream, a, *r, blocks);
	if (width > 1)
		LAUNCH(conv_state_kernel, r->n_seqs * blocks, CONV_THREADS, 0, stream, a, *r, blocks);
}

/* ---- recurrence ---- */

#define SCAN_THREADS 128
#define SCAN_REGS	256			/* largest state that lanes keep in registers */

/* a row's inputs for one lane; E: elements of the state per lane */
template <int E, int CH> struct ScanRow
{
	float		dt;
	float		b[E];
	float		c[E];
	float		x[CH];
};

/* the step size of a head, as in k_ssm_dt(); this order of comparisons lets a NaN through */
static __device__ __forceinline__ float
scan_dt(const KScan &s, float dt, int head)
{
	if (s.dt_bias != NULL)
		dt += s.dt_bias[head];
	if (dt <= 20.0f)
		dt = log1pf(expf(dt));
	dt = dt < s.dt_min ? s.dt_min : dt;
	return dt > s.dt_max ? s.dt_max : dt;
}

/* channels p .. p + CH - 1 of a head; zeros after the last one and after the state's end */
template <int LANES, int E, int CH> static __device__ __forceinline__ ScanRow<E, CH>
scan_load(const KScan &s, int row, int head, int p, int lane)
{
	ScanRow<E, CH> v;
	size_t		g = (size_t) row * s.ldbc + (size_t) (head / (s.heads / s.groups)) * s.state;
	size_t		x = (size_t) row * s.ldx + (size_t) head * s.head_dim;

	v.dt = s.dt[(size_t) row * s.lddt + head];
#pragma unroll
	for (int e = 0; e < E; e++)
	{
		int			i = lane + e * LANES;

		v.b[e] = i < s.state ? s.b[g + i] : 0.0f;
		v.c[e] = i < s.state ? s.c[g + i] : 0.0f;
	}
#pragma unroll
	for (int q = 0; q < CH; q++)
		v.x[q] = p + q < s.head_dim ? s.x[x + p + q] : 0.0f;
	return v;
}

/* sum over a row's lanes, which are adjacent */
template <int LANES> static __device__ __forceinline__ float
lanes_sum(float v)
{
#pragma unroll
	for (int m = LANES / 2; m > 0; m >>= 1)
		v += __shfl_xor_sync(FULL_MASK, v, m);
	return v;
}

static __device__ __forceinline__ void
put_as(void *y, KType as, size_t at, float v)
{
	if (as == KT_BF16)
		to_operand((BF16 *) y + at, v);
	else if (as == KT_F16)
		to_operand((F16 *) y + at, v);
	else
		((float *) y)[at] = v;
}

/* one row of the channels: h = h e^(t a) + t x B; y = h C + d x, times silu(z) */
template <int LANES, int E, int CH> static __device__ __forceinline__ void
scan_step(const KScan &s, const ScanRow<E, CH> &v, const float *a, int row, int head, int p, int lane,
		  bool stores, float h[CH][E], void *y, KType as, int ldy)
{
	float		dt = scan_dt(s, v.dt, head),
				decay[E];

#pragma unroll
	for (int e = 0; e < E; e++)
		decay[e] = e == 0 || s.a_wide ? expf(dt * a[e]) : decay[0];
#pragma unroll
	for (int q = 0; q < CH; q++)
	{
		float		u = dt * v.x[q],
					o = 0.0f;

#pragma unroll
		for (int e = 0; e < E; e++)
		{
			h[q][e] = fmaf(h[q][e], decay[e], v.b[e] * u);
			o = fmaf(h[q][e], v.c[e], o);
		}
		o = lanes_sum<LANES>(o) + s.d[head] * v.x[q];
		if (lane == 0 && stores && p + q < s.head_dim)
		{
			size_t		at = (size_t) head * s.head_dim + p + q;

			put_as(y, as, (size_t) row * ldy + at,
				   s.z != NULL ? o * act_silu(s.z[(size_t) row * s.ldz + at]) : o);
		}
	}
}

/*
 * Processes a sequence (blockIdx.y), with LANES lanes for CH channels of a head; the lanes share the
 * state.  The next row's inputs are loaded while a row is computed.
 */
template <int LANES, int E, int CH> __global__ void __launch_bounds__(SCAN_THREADS)
scan_kernel(KState st, const int32_t *slots, const CudaRows r, const KScan s, void *y, KType as, int ldy)
{
	int			lane = threadIdx.x % LANES,
				parts = (s.head_dim + CH - 1) / CH,
				group = blockIdx.x * (SCAN_THREADS / LANES) + threadIdx.x / LANES,
				seq = blockIdx.y,
				row0 = seq_first(r, seq),
				end = seq_first(r, seq + 1);
	bool		stores = group < s.heads * parts;
	/* lanes without channels take part in shuffles, with the first channels */
	int			head = stores ? group / parts : 0,
				p = stores ? group % parts * CH : 0;
	float		a[E],
				h[CH][E];
	float	   *state = st.base + slots[seq] * st.stride + ((size_t) head * s.head_dim + p) * s.state;
	ScanRow<E, CH> next;

	if (row0 == end)
		return;
	if (r.pos[row0] < 0)
	{
		for (int row = row0; row < end; row++)
			for (int q = 0; stores && lane == 0 && q < CH && p + q < s.head_dim; q++)
				put_as(y, as, (size_t) row * ldy + (size_t) head * s.head_dim + p + q, 0.0f);
		return;
	}
#pragma unroll
	for (int e = 0; e < E; e++)
	{
		int			i = lane + e * LANES;

		a[e] = i < s.state ? s.a[s.a_wide ? (size_t) head * s.state + i : head] : 0.0f;
#pragma unroll
		for (int q = 0; q < CH; q++)
			h[q][e] = stores && r.pos[row0] > 0 && i < s.state && p + q < s.head_dim ?
				state[(size_t) q * s.state + i] : 0.0f;
	}
	next = scan_load<LANES, E, CH>(s, row0, head, p, lane);
	for (int row = row0; row < end; row++)
	{
		ScanRow<E, CH> now = next;

		if (row + 1 < end)
			next = scan_load<LANES, E, CH>(s, row + 1, head, p, lane);
		scan_step<LANES, E, CH>(s, now, a, row, head, p, lane, stores, h, y, as, ldy);
	}
#pragma unroll
	for (int e = 0; e < E; e++)
#pragma unroll
		for (int q = 0; q < CH; q++)
			if (stores && lane + e * LANES < s.state && p + q < s.head_dim)
				state[(size_t) q * s.state + lane + e * LANES] = h[q][e];
}

/* A larger state stays in memory: one warp for each channel of a sequence. */
__global__ void __launch_bounds__(SCAN_THREADS)
scan_long_kernel(KState st, const int32_t *slots, const CudaRows r, const KScan s, void *y, KType as, int ldy)
{
	int			lane = threadIdx.x % 32,
				channel = blockIdx.x * (SCAN_THREADS / 32) + threadIdx.x / 32,
				seq = blockIdx.y,
				row0 = seq_first(r, seq),
				end = seq_first(r, seq + 1),
				head = channel / s.head_dim;
	float	   *state = st.base + slots[seq] * st.stride + (size_t) channel * s.state;

	if (row0 == end || channel >= s.heads * s.head_dim)
		return;
	for (int row = row0; row < end; row++)
	{
		bool		begins = r.pos[row] == 0;
		float		dt = scan_dt(s, s.dt[(size_t) row * s.lddt + head], head),
					x = s.x[(size_t) row * s.ldx + channel],
					o = 0.0f;
		size_t		g = (size_t) row * s.ldbc + (size_t) (head / (s.heads / s.groups)) * s.state;

		for (int i = lane; i < s.state && r.pos[row] >= 0; i += 32)
		{
			float		decay = expf(dt * s.a[s.a_wide ? (size_t) head * s.state + i : head]);
			float		h = fmaf(begins ? 0.0f : state[i], decay, s.b[g + i] * (dt * x));

			state[i] = h;
			o = fmaf(h, s.c[g + i], o);
		}
		o = warp_sum(o) + s.d[head] * x;
		if (s.z != NULL)
			o = o * act_silu(s.z[(size_t) row * s.ldz + channel]);
		if (lane == 0)
			put_as(y, as, (size_t) row * ldy + channel, r.pos[row] >= 0 ? o : 0.0f);
	}
}

template <int LANES, int E, int CH> static void
scan(const KState *st, const int32_t *slots, const CudaRows *r, const KScan *s, void *y, KType as, int ldy,
	 cudaStream_t stream)
{
	int			groups = s->heads * ((s->head_dim + CH - 1) / CH),
				of_block = SCAN_THREADS / LANES;

	LAUNCH((scan_kernel<LANES, E, CH>), dim3((groups + of_block - 1) / of_block, r->n_seqs), SCAN_THREADS, 0,
		   stream,
		   *st, slots, *r, *s, y, as, ldy);
}

/* how lanes share a state depends only on its size */
template <int CH> static void
scan_by_size(const KState *st, const int32_t *slots, const CudaRows *r, const KScan *s, void *y, KType as,
			 int ldy, cudaStream_t stream)
{
	if (s->state <= 16)
		scan<16, 1, (CH + 1) / 2>(st, slots, r, s, y, as, ldy, stream);
	else if (s->state <= 64)
		scan<32, 2, CH>(st, slots, r, s, y, as, ldy, stream);
	else if (s->state <= 128)
		scan<32, 4, CH>(st, slots, r, s, y, as, ldy, stream);
	else
		scan<32, SCAN_REGS / 32, CH>(st, slots, r, s, y, as, ldy, stream);
}

void
cuda_scan(const KState *st, const int32_t *slots, const CudaRows *r, const KScan *s, void *y, KType as,
		  int ldy, cudaStream_t stream)
{
	int			channels = s->heads * s->head_dim;

	if (r->n_seqs == 0)
		return;
	if (s->state > SCAN_REGS)
		LAUNCH(scan_long_kernel, dim3((channels + SCAN_THREADS / 32 - 1) / (SCAN_THREADS / 32), r->n_seqs),
			   SCAN_THREADS, 0, stream, *st, slots, *r, *s, y, as, ldy);
	else if (s->head_dim == 1)
		scan_by_size<1>(st, slots, r, s, y, as, ldy, stream);
	else
		scan_by_size<4>(st, slots, r, s, y, as, ldy, stream);
}
