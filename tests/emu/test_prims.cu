/*
 * test_prims.cu
 *	  The functions of kernels/emu, one by one, against plain code; and correct kernels, which it must
 *	  not stop.
 */
#include "emu_test.h"
#include "prims_kernels.cuh"

#include <vector>

extern "C"
{
#include "kernels.h"
}

/* ---- shuffles, votes, reductions ---- */

static void
check_lanes(const int *in, int by, int width, int halves)
{
	Lane		got[32],
			   *d = dev<Lane>(NULL, 32);
	int		   *din = dev(in, 32),
				bad = 0;

	LAUNCH(lanes_kernel, 1, 32, 0, NULL, d, din, by, width, halves);
	host(got, d, 32);
	for (int l = 0; l < 32; l++)
	{
		int			lo = l / width * width,
					hi = lo + width,
					from = halves ? l / 16 * 16 : 0,
					to = halves ? from + 16 : 32,
					odd = 0,
					any = 0,
					all = 1,
					match = 0,
					sum = 0,
					most = 0,
					least = 1000;
		const Lane *o = &got[l];

		for (int j = from; j < to; j++)
		{
			odd |= (in[j] & 1) << j;
			any |= in[j] == 3;
			all &= in[j] < 100;
			match |= (in[j] == in[l]) << j;
			sum += in[j];
			most = in[j] > most ? in[j] : most;
			least = in[j] - 7 < least ? in[j] - 7 : least;
		}
		bad += o->idx != in[lo + by % width] || o->up != in[l - by < lo ? l : l - by] ||
			o->down != in[l + by >= hi ? l : l + by] || o->exor != in[l ^ (by & (width - 1))] ||
			o->wide != in[l ^ 1] || o->ballot != (unsigned) odd || o->any != (unsigned) any ||
			o->all != (unsigned) all || o->match != (unsigned) match ||
			o->match_all != (halves ? from ? 0xffff0000u : 0xffffu : FULL_MASK) + 1 ||
			o->sum != (unsigned) sum || o->most != (unsigned) most || o->least != least;
	}
	CHECK(bad == 0, "by %d, width %d, halves %d: %d lanes differ", by, width, halves, bad);
	cudaFree(d);
	cudaFree(din);
}

static void
test_lanes(void)
{
	int			in[32];

	for (int &v : in)
		v = (int) (dice() % 12);
	all_orders([&]() {
		for (int width = 2; width <= 32; width *= 2)
			for (int by = 0; by < width; by += 1 + by)
				for (int halves = 0; halves <= (width <= 16); halves++)
					check_lanes(in, by, width, halves);
	});
}

/* ---- tensor cores: fragments laid out as in the PTX manual ---- */

/* Integers, whose products and sums are exact in any order. */
template <typename T, int KIND> static void
check_mma(void)
{
	const int	K = KIND == 2 ? 32 : 16;
	T			a[16 * 32],
				b[32 * 8],
				c[16 * 8],
				got[16 * 8];
	int			bad = 0;
	T		   *da,
			   *db,
			   *dc,
			   *dd = dev<T>(NULL, 128);

	for (T &v : a)
		v = (T) ((int) (dice() % 255) - 127);
	for (T &v : b)
		v = (T) ((int) (dice() % 255) - 127);
	for (T &v : c)
		v = (T) ((int) (dice() % 255) - 127);
	da = dev(a, 16 * K);
	db = dev(b, K * 8);
	dc = dev(c, 128);
	LAUNCH((mma_kernel<T, KIND>), 1, 32, 0, NULL, dd, da, db, dc);
	host(got, dd, 128);
	for (int i = 0; i < 16; i++)
		for (int j = 0; j < 8; j++)
		{
			T			sum = c[i * 8 + j];

			for (int k = 0; k < K; k++)
				sum += a[i * K + k] * b[k * 8 + j];
			bad += sum != got[i * 8 + j];
		}
	CHECK(bad == 0, "mma %d: %d of 128 differ", KIND, bad);
}

static void
check_ldmatrix(void)
{
	uint16_t	in[256];
	float		x[256],
				prod[128];
	uint32_t	got[32 * 12];
	uint32_t   *out = dev<uint32_t>(NULL, 32 * 12);
	float	   *d = dev<float>(NULL, 128);
	int			bad = 0;

	for (int i = 0; i < 256; i++)
	{
		x[i] = (float) ((int) (dice() % 63) - 31);
		in[i] = kf32_to_f16(x[i]);
	}
	LAUNCH(ldmatrix_kernel, 1, 32, 0, NULL, out, d, dev(in, 256));
	host(got, out, 32 * 12);
	host(prod, d, 128);
	for (int l = 0; l < 32; l++)
		for (int i = 0; i < 12; i++)
		{
			int			m = i < 8 ? i % 4 : i % 2,
						g = l / 4,
						t = l % 4;
			bool		trans = (i >= 4 && i < 8) || i >= 10;
			uint16_t	lo = trans ? in[(m * 8 + 2 * t) * 8 + g] : in[(m * 8 + g) * 8 + 2 * t];
			uint16_t	hi = trans ? in[(m * 8 + 2 * t + 1) * 8 + g] : in[(m * 8 + g) * 8 + 2 * t + 1];

			bad += got[l * 12 + i] != (lo | (uint32_t) hi << 16);
		}
	CHECK(bad == 0, "ldmatrix: %d registers differ", bad);
	bad = 0;
	for (int i = 0; i < 16; i++)
		for (int j = 0; j < 8; j++)
		{
			float		sum = 0;

			for (int k = 0; k < 16; k++)
				sum += x[(2 * i + k / 8) * 8 + k % 8] * x[(31 - k) * 8 + j];
			bad += sum != prod[i * 8 + j];
		}
	CHECK(bad == 0, "ldmatrix and mma: %d of 128 differ", bad);
}

/* ---- cp.async in two stages, barriers that count, atomics, shared memory of both kinds ---- */

static void
check_blocks(void)
{
	std::vector<int> in(100);
	std::vector<float> x(5 * 128);
	int			counts[23] = {0},
				want[23] = {0},
				h[23];
	int		   *d;
	float		sums[128],
			   *dx,
			   *ds = dev<float>(NULL, 128);
	int			bad = 0;

	for (int &v : in)
		want[v = (int) (dice() % 16)]++;
	for (float &v : x)
		v = (float) (dice() % 1000);
	counts[17] = 1000;
	counts[22] = 5;
	want[17] = 1000;
	for (int v : in)
	{
		want[16] = v > want[16] ? v : want[16];
		want[17] = v < want[17] ? v : want[17];
	}
	want[18] = want[19] = 64;
	want[20] = 36;
	want[22] = 6;
	d = dev(counts, 23);
	LAUNCH(blocks_kernel, 2, 64, 0, NULL, d, dev(in.data(), in.size()), 100);
	host(h, d, 23);
	want[21] = 2;
	for (int i = 0; i < 23; i++)
		bad += h[i] != want[i];
	CHECK(bad == 0, "blocks: %d of 23 differ", bad);

	dx = dev(x.data(), x.size());
	LAUNCH(pipeline_kernel, 1, 128, 1024, NULL, ds, dx, 5, 64);
	host(sums, ds, 128);
	bad = 0;
	for (int t = 0; t < 128; t++)
	{
		float		sum = 0;

		for (int i = 0; i < 5; i++)
			sum += i == 4 && t >= 64 ? 0.0f : x[i * 128 + t];
		bad += sum != sums[t];
	}
	CHECK(bad == 0, "cp.async: %d of 128 differ", bad);
}

/* 1,024 threads in a block, three dimensions of each. */
static void
check_index(void)
{
	static int	got[12 * 1024];
	int		   *d = dev<int>(NULL, 12 * 1024);
	int			bad = 0;

	LAUNCH(index_kernel, dim3(2, 3, 2), dim3(8, 4, 32), 0, NULL, d);
	host(got, d, 12 * 1024);
	for (int i = 0; i < 12 * 1024; i++)
		bad += got[i] != 342000 + 496 + i / 1024;
	CHECK(bad == 0, "%d indices differ", bad);
	cudaFree(d);
}

/* ---- numbers ---- */

static double
decode(int code, int exp_bits, int man_bits, bool inf)
{
	int			man = code & ((1 << man_bits) - 1),
				top = (1 << exp_bits) - 1,
				e = code >> man_bits & top,
				bias = (1 << (exp_bits - 1)) - 1;
	double		v = e == 0 ? ldexp(man, 1 - bias - man_bits) :
		ldexp(man + (1 << man_bits), e - bias - man_bits);

	if (inf ? e == top : e == top && man == (1 << man_bits) - 1)
		v = inf && man == 0 ? INFINITY : NAN;
	return code >> (exp_bits + man_bits) & 1 ? -v : v;
}

static void
check_numbers(void)
{
	static float got[8 * 65536];
	float	   *d = dev<float>(NULL, 8 * 65536);
	int			bad = 0;

	LAUNCH(decode_kernel, 256, 256, 0, NULL, d);
	host(got, d, 8 * 65536);
	for (int i = 0; i < 65536; i++)
	{
		double		want[4] = {decode(i, 5, 10, true), decode(i, 8, 7, true), decode(i & 255, 4, 3, false),
			decode(i & 255, 5, 2, true)};

		for (int k = 0; k < 4; k++)
			bad += isnan(want[k]) ? !isnan(got[k * 65536 + i]) : want[k] != got[k * 65536 + i] ||
				got[(4 + k) * 65536 + i] != (k < 2 ? i : i & 255);
	}
	CHECK(bad == 0, "%d codes differ", bad);
	cudaFree(d);
}

/* ---- streams, events, graphs, memory ---- */

/* x + 1 in one stream, * 2 in another; waits: with an event between them. */
static float
two_streams(bool waits)
{
	cudaStream_t a,
				b;
	cudaEvent_t e;
	float		h[32] = {0},
			   *d = dev(h, 32);

	cudaStreamCreate(&a);
	cudaStreamCreate(&b);
	cudaEventCreate(&e);
	LAUNCH(add_kernel, 1, 32, 0, a, d, 1.0f);
	cudaEventRecord(e, a);
	if (waits)
		cudaStreamWaitEvent(b, e, 0);
	LAUNCH(mul_kernel, 1, 32, 0, b, d, 2.0f);
	cudaMemcpyAsync(h, d, sizeof(h), cudaMemcpyDeviceToHost, b);
#ifndef __CUDACC__
	/* one poll may run one copy at most, so not all of them */
	CHECK(cudaStreamQuery(b) == cudaErrorNotReady, "lazy");
#endif
	cudaStreamSynchronize(b);
	cudaStreamDestroy(a);
	cudaStreamDestroy(b);
	cudaEventDestroy(e);
	cudaFree(d);
	return h[0];
}

#ifndef __CUDACC__
static void check_refusals(float *d);
#endif

static void
check_streams(void)
{
	int			wrong[2] = {0, 0};
	float		h[32] = {0},
			   *d = dev(h, 32);
	cudaStream_t s;
	cudaGraph_t g;
	cudaGraphExec_t x;

	for (int i = 0; i < 40; i++)
	{
#ifndef __CUDACC__
		cemu_order(CEMU_FORWARD, (uint64_t) i);
#endif
		for (int waits = 0; waits < 2; waits++)
			wrong[waits] += two_streams(waits) != 2.0f;
	}
	CHECK(wrong[1] == 0, "wrong with an event %d times of 40", wrong[1]);

	cudaStreamCreate(&s);
	cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
	LAUNCH(add_kernel, 1, 32, 0, s, d, 1.0f);
	LAUNCH(mul_kernel, 1, 32, 0, s, d, 2.0f);
	CHECK(cudaStreamEndCapture(s, &g) == cudaSuccess, "capturing");
	cudaGraphInstantiate(&x, g, 0);
	cudaGraphDestroy(g);
	for (int i = 0; i < 3; i++)
		cudaGraphLaunch(x, s);
	cudaMemcpyAsync(h, d, sizeof(h), cudaMemcpyDeviceToHost, s);
	cudaStreamSynchronize(s);
	cudaGraphExecDestroy(x);
	CHECK(h[31] == 14.0f, "graph: %g", h[31]);
	/* a capture ends with an error after a wait, or an allocation */
	for (int i = 0; i < 2; i++)
	{
		void	   *p = NULL;

		cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal);
		LAUNCH(add_kernel, 1, 32, 0, s, d, 1.0f);
		CHECK((i == 0 ? cudaStreamSynchronize(s) : cudaMalloc(&p, 4)) == cudaErrorStreamCaptureUnsupported,
			  "refused %d", i);
		CHECK(cudaStreamEndCapture(s, &g) == cudaErrorStreamCaptureInvalidated && g == NULL, "invalid %d", i);
	}
	cudaGetLastError();
	cudaStreamDestroy(s);
#ifndef __CUDACC__
	CHECK(wrong[0] > 5, "wrong without an event %d times of 40", wrong[0]);
	check_refusals(d);
#endif
}

#ifndef __CUDACC__
/* Calls that the emulation refuses, and its amount of memory. */
static void
check_refusals(float *d)
{
	cudaStream_t s;
	void	   *p;
	float		h[32];
	size_t		room,
				all;
	int			cc = 0;

	cudaStreamCreate(&s);

	LAUNCH(add_kernel, 1, 1025, 0, s, d, 1.0f);
	CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration, "1025 threads");
	LAUNCH(add_kernel, 1, 32, 64 * 1024, s, d, 1.0f);
	CHECK(cudaGetLastError() == cudaErrorInvalidValue, "64 kB");
	cudaFuncSetAttribute((const void *) add_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 * 1024);
	LAUNCH(add_kernel, 1, 32, 64 * 1024, s, d, 1.0f);
	CHECK(cudaGetLastError() == cudaSuccess, "64 kB, allowed");
	cemu_capability(7, 5);
	CHECK(cudaFuncSetAttribute((const void *) add_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
							   65 * 1024) ==
		  cudaErrorInvalidValue, "65 kB on sm_75");
	cudaDeviceGetAttribute(&cc, cudaDevAttrComputeCapabilityMinor, 0);
	CHECK(cc == 5, "capability");
	cemu_capability(9, 0);
	cudaStreamDestroy(s);
	cudaMemGetInfo(&room, &all);
	cemu_memory_limit(all - room + 1000);
	CHECK(cudaMalloc(&p, 1001) == cudaErrorMemoryAllocation && p == NULL, "limit");
	CHECK(cudaMalloc(&p, 1000) == cudaSuccess, "limit");
	CHECK(cudaFree(p) == cudaSuccess && cudaFree(p) == cudaErrorInvalidValue, "freed twice");
	cemu_memory_limit(all);
	cudaGetLastError();
	cudaMalloc(&p, 64);
	cudaMemcpy(h, p, 64, cudaMemcpyDeviceToHost);
	CHECK(isnan(h[0]) && isnan(h[15]), "fresh memory is NaN");
}
#endif

int
main(void)
{
	RUN(test_lanes());
	all_orders([]() {
		check_mma<float, 0>();
		check_mma<float, 1>();
		check_mma<int, 2>();
		RUN(check_ldmatrix());
		RUN(check_blocks());
		RUN(check_index());
	});
	RUN(check_numbers());
	RUN(check_streams());
	return check_done("test_emu_prims");
}
