/*
 * test_faults.cu
 *	  Faults planted into kernels: kernels/emu must stop each with the right message, in any order of
 *	  threads; and their corrected twins must run.
 */
#include "emu_test.h"
#include "cuda/wgmma.cuh"

static float *mem;				/* 256 floats on the device, zeros */

template <typename K> static void
run(K k, int blocks = 1, int threads = 64)
{
	LAUNCH(k, blocks, threads, 512, NULL, mem);
}

#define KERNEL(name) __global__ void name(float *x)
#define T (int) threadIdx.x

/* ---- races ---- */

/*
 * MODE 0: no barrier between the write and the neighbour's read; 1: none before the next write; 2:
 * correct.
 */
template <int MODE> KERNEL(block_race)
{
	SHARED(float, s, [64]);

	for (int i = 0; i < 2; i++)
	{
		s[T] = (float) i;
		if (MODE != 0)
			__syncthreads();
		x[T] = s[(T + 32) % 64];
		if (MODE == 2)
			__syncthreads();
	}
}

/*
 * 0: a shuffle instead of __syncwarp; 1: __syncwarp of other lanes; 2: correct; 3: a barrier, also
 * correct.
 */
template <int MODE> KERNEL(warp_race)
{
	SHARED(float, s, [64]);

	s[T] = 1.0f;
	if (MODE == 0)
		x[128 + T] = warp_sum(1.0f);
	if (MODE == 1)
		__syncwarp(T % 32 < 16 ? 0xffffu : 0xffff0000u);
	if (MODE == 2)
		__syncwarp();
	if (MODE == 3)
		__syncthreads();
	x[T] = s[T ^ 16];
}

/* Halves of a warp synchronize, then exchange values within themselves. */
KERNEL(half_warps)
{
	SHARED(float, s, [64]);

	s[T] = 1.0f;
	__syncwarp(T % 32 < 16 ? 0xffffu : 0xffff0000u);
	x[T] = s[T ^ 8];
}

/*
 * 0 and 1: many threads read, one writes, of another warp and of the same; 2: adjacent bytes are
 * written, no race.
 */
template <int MODE> KERNEL(readers)
{
	SHARED(uint8_t, s, [64]);

	if (MODE == 2)
	{
		s[T] = (uint8_t) T;
		return;
	}
	if (T == 0)
		s[0] = 0;
	__syncthreads();
	x[T] = s[0];
	if (T == (MODE == 0 ? 40 : 7))
		s[0] = 1;
}

KERNEL(global_race)
{
	x[T / 2] = 1.0f;
}

/*
 * 0: blocks write the same address; 1: their own; 2: atomically; 3: one reads an address to which
 * another one adds.
 */
template <int MODE> KERNEL(blocks_race)
{
	if (MODE == 0 && T == 0)
		x[0] = 1.0f;
	if (MODE == 1)
		x[blockIdx.x * 64 + T] = 1.0f;
	if (MODE >= 2)
		atomicAdd(&x[0], 1.0f);
	if (MODE == 3 && blockIdx.x == 1 && T == 5)
		x[100] = x[0];
}

/* A plain read of memory that others change atomically. */
KERNEL(atomic_race)
{
	SHARED(int, n, [1]);

	if (T == 0)
		n[0] = 0;
	__syncthreads();
	atomicAdd(&n[0], 1);
	x[T] = (float) n[0];
}

/* ldmatrix reads rows of other lanes without __syncwarp. */
template <int MODE> KERNEL(ldmatrix_race)
{
	SHARED(uint16_t, s, [64][8]);
	uint32_t	d[4];

	for (int i = 0; i < 8; i++)
		s[T][i] = 0;
	if (MODE == 1)
		__syncwarp();
	ldmatrix_x4(d, s[T]);
	x[T] = (float) d[0];
}

/* ---- bounds ---- */

/* 0: after a static array, 1: before it, 2: after the launch's, 3: far after it, 4: correct. */
template <int MODE> KERNEL(shared_bounds)
{
	SHARED(float, a, [64]);
	SMEM(float, d);				/* [128] */

	a[MODE == 0 && T == 63 ? 64 : MODE == 1 && T == 0 ? -1 : T] = 1.0f;
	d[MODE == 2 && T == 9 ? 128 : MODE == 3 && T == 9 ? 9999 : T] = 1.0f;
	x[T] = a[T] + d[T];
}

/* 0 and 1: one element after and before, 2: after by vectors, 3: null, 4: misaligned, 5: correct. */
template <int MODE> KERNEL(global_bounds)
{
	if (MODE == 0)
		x[193 + T] = 1.0f;
	if (MODE == 1)
		x[T - 1] = 1.0f;
	if (MODE == 2)
		*(float4 *) (x + 4 * T + 4) = make_float4(0, 0, 0, 0);
	if (MODE == 3)
		((float *) (uintptr_t) (T * 4))[0] = 1.0f;
	if (MODE == 4)
	{
		float4		v = *(float4 *) (x + T);

		x[T] = v.x;
	}
	if (MODE == 5)
		x[192 + T] = 1.0f;
}

__global__ void
pointer_kernel(float *x, const float *p)
{
	x[T] = p[T];
}

KERNEL(others_stack)
{
	SHARED(float *, p, [64]);
	float		mine[4];

	mine[T % 4] = 1.0f;
	p[T] = mine;
	__syncthreads();
	x[T] = p[(T + 1) % 64][0];
	__syncthreads();
}

static __device__ __noinline__ int
deep(volatile int *p, int n)
{
	volatile int a[256];

	a[n % 256] = *p;
	return n == 0 ? a[0] : deep(a + n % 256, n - 1) + a[n % 256];
}

KERNEL(deep_kernel)
{
	volatile int v = 1;

	x[T] = (float) deep(&v, 1000);
}

/* More than a block may have without opting in, together with the launch's 512 bytes. */
KERNEL(much_shared)
{
	SHARED(float, a, [12288]);

	a[T] = 1.0f;
	x[T] = a[T];
}

/* ---- barriers ---- */

/* 0: at two lines; 1: some threads have returned; 2: some don't come; 3: one is in a shuffle. */
template <int MODE> KERNEL(divergent)
{
	if (MODE == 0)
	{
		if (T < 32)
			__syncthreads();
		else
			__syncthreads();
	}
	if (MODE == 1 && T >= 60)
		return;
	for (int i = 0; i < (MODE == 2 ? T / 32 + 1 : 1); i++)
		__syncthreads();
	if (MODE == 3 && T < 32)
		__syncthreads();
	if (MODE == 3)
		x[T] = warp_sum(1.0f);
}

/*
 * 0: a lane has returned; 1: the mask lacks the caller; 2: from a lane not in the mask; 3: lanes at two
 * lines; 4: no such lane; 5: lanes with different masks.
 */
template <int MODE> KERNEL(shuffles)
{
	int			l = T % 32;

	if (MODE == 0 && l == 31)
		return;
	if (MODE == 0)
		x[T] = __shfl_sync(FULL_MASK, 1.0f, 0);
	if (MODE == 1)
		x[T] = __shfl_sync(0xffffu, 1.0f, 0);
	if (MODE == 2 && l < 16)
		x[T] = __shfl_sync(0xffffu, 1.0f, 20);
	if (MODE == 3)
	{
		if (l < 16)
			x[T] = __shfl_sync(FULL_MASK, 1.0f, 0);
		else
			x[T] = __shfl_sync(FULL_MASK, 1.0f, 0);
	}
	if (MODE == 4)
		x[T] = __shfl_sync(FULL_MASK, 1.0f, 0);
	if (MODE == 5)
		x[T] = __shfl_sync(l < 8 ? FULL_MASK : 0xffffff00u, 1.0f, l);
}

/* ---- cp.async ---- */

/*
 * 0: read before the wait; 1: read by others without a barrier; 2: never waited for; 3: one pending
 * group too many is allowed; 4: one vector too many of the source; 5: correct.
 */
template <int MODE> KERNEL(async)
{
	SHARED(float4, s, [2][64]);

	cp_async16(&s[0][T], x + 4 * T);
	cp_commit();
	cp_async16(&s[1][T], x + (MODE == 4 ? 4 * T + 4 : 4 * T));
	cp_commit();
	if (MODE == 2)
		return;
	if (MODE == 3)
		cp_wait<1>();
	else if (MODE != 0)
		cp_wait<0>();
	if (MODE != 1)
		__syncthreads();
	if (s[1][(T + 1) % 64].x == 42.0f)
		x[0] = 1.0f;
	if (MODE == 0)
		cp_wait<0>();
}

/* ---- mbarriers and bulk copies ---- */

/*
 * Two stages of 64 floats, which thread 0 fills by bulk copies, four in all, and the other warp adds up;
 * `full` and `empty` have one phase for each use of a stage.  0: the reader doesn't wait; 1: it waits
 * for the wrong parity; 2: too few bytes are expected; 3: too many; 4: no fence after mbar_init; 5: no
 * wait for `empty`; 6: `empty` is signalled before the read; 7: the reader stores to a stage's floats,
 * without a fence before the next copy overwrites them; 8: no barrier after mbar_init; 9: no wait for
 * the last copy; 10: an mbarrier of too many arrivals; 11: misaligned; 12: beyond the source; 13:
 * correct; 14: one lane waits, the others read after __syncwarp: also correct; 15: as 14 without
 * __syncwarp; 16: a thread reads the mbarrier itself; 17: as 7, with the fence: correct.
 */
template <int MODE> KERNEL(bulk)
{
	SHARED(float, s, [2][64]);
	SHARED(uint64_t, full, [2]);
	SHARED(uint64_t, empty, [2]);
	const int	uses = 4;
	float		sum = 0;

	if (T == 0)
		for (int i = 0; i < 2; i++)
		{
			mbar_init(&full[i], MODE == 10 ? 2 : 1);
			mbar_init(&empty[i], 32);
		}
	if (T == 0 && MODE != 4)
		async_stored();
	if (MODE != 8)
		__syncthreads();
	if (T == 0)
		for (int i = 0; i < uses; i++)
		{
			int			at = i % 2;

			if (MODE != 5)
				mbar_wait(&empty[at], i / 2 % 2 ^ 1);
			mbar_expect(&full[at], MODE == 2 ? 240 : MODE == 3 ? 272 : 256);
			bulk_copy(&s[at][MODE == 11 ? 1 : 0], x + (MODE == 12 && i == 3 ? 208 : i * 32), 256, &full[at]);
		}
	if (T >= 32)
		for (int i = 0; i < (MODE == 9 ? uses - 1 : uses); i++)
		{
			int			at = i % 2;

			if (MODE == 14 || MODE == 15)
			{
				if (T == 32)
					mbar_wait(&full[at], i / 2 % 2);
				if (MODE == 14)
					__syncwarp();
			}
			else if (MODE != 0)
				mbar_wait(&full[at], i / 2 % 2 ^ (MODE == 1));
			if (MODE == 6)
				mbar_arrive(&empty[at]);
			sum += s[at][T - 32] + s[at][T];
			if (MODE == 7 || MODE == 17)
			{
				__syncwarp();
				s[at][T] = sum;
			}
			if (MODE == 17)
				async_stored();
			if (MODE == 16)
				sum += (float) full[at];
			if (MODE != 6)
				mbar_arrive(&empty[at]);
		}
	if (T >= 32)
		x[256 - 64 + T] = sum;
}

/*
 * A phase of two copies: 0: only the first one's bytes are expected; 1: correct; 2: the second mbarrier
 * is waited for twice.
 */
template <int MODE> KERNEL(two_copies)
{
	SHARED(float, s, [64]);
	SHARED(uint64_t, bar, [2]);

	if (T == 0)
	{
		mbar_init(&bar[0], 1);
		mbar_init(&bar[1], 1);
		async_stored();
	}
	__syncthreads();
	if (T == 0)
	{
		mbar_expect(&bar[0], 128);
		bulk_copy(&s[0], x, 128, &bar[0]);
		if (MODE != 0)
			mbar_expect(&bar[1], 128);
		bulk_copy(&s[32], x, 128, &bar[1]);
	}
	if (MODE != 2)
		mbar_wait(&bar[0], 0);
	mbar_wait(&bar[1], 0);
	x[T + 64] = s[T];
}

/* ---- products of warpgroups ---- */

/*
 * 64 x 8 by 16 k.  0: no wgmma_begin(); 1: D is read before the wait; 2: D is written before it; 3: A
 * changes before it; 4: B is stored without a fence; 5: without a barrier; 6: a warp doesn't come; 7:
 * another matrix for one warp; 8: B changes before the wait; 9: no wait at all; 10: correct; 11: B by a
 * bulk copy, correct; 12: three warps.
 */
template <int MODE> KERNEL(group)
{
	SHARED(BF16, b, [2][128]);
	SHARED(uint64_t, bar, [1]);
	float		d[1][4] = {};
	uint32_t	a[4] = {0x3f803f80u, 0x3f803f80u, 0x3f803f80u, 0x3f803f80u};

	if (MODE == 11 && T == 0)
	{
		mbar_init(bar, 1);
		async_stored();
		mbar_expect(bar, 256);
		bulk_copy(b[0], x, 256, bar);
	}
	else if (MODE != 11)
	{
		b[0][T % 128] = {0x3f80};
		b[1][T % 128] = {0x3f80};
		if (MODE != 4)
			async_stored();
	}
	if (MODE != 5)
		__syncthreads();
	if (MODE == 11)
		mbar_wait(bar, 0);
	if (MODE != 0)
		wgmma_begin();
	if (MODE != 6 || T / 32 != 2)
		wgmma<8, BY_K>(d, a, b[MODE == 7 && T / 32 == 1], 128, 128);
	if (MODE == 1 && isnan(d[0][0]))
		((float *) NULL)[T] = 0.0f;
	if (MODE == 2)
		d[0][1] = 7.0f;
	if (MODE == 3)
		a[1] = 0;
	if (MODE == 8)
		b[0][T] = {0};
	if (MODE != 9)
		wgmma_end();
	x[128 + T] = d[0][0];
}

static void
test_races(void)
{
	CAUGHT("race", "shared memory at", []() { run(block_race<0>); });
	CAUGHT("race", "test_faults.cu", []() { run(block_race<1>); });
	CLEAN([]() { run(block_race<2>); });
	CAUGHT("race", "with no barrier between", []() { run(warp_race<0>); });
	CAUGHT("race", "with no barrier between", []() { run(warp_race<1>); });
	CLEAN([]() { run(warp_race<2>); });
	CLEAN([]() { run(warp_race<3>); });
	CLEAN([]() { run(half_warps); });
	CAUGHT("race", "shared memory", []() { run(readers<0>); });
	CAUGHT("race", "shared memory", []() { run(readers<1>); });
	CLEAN([]() { run(readers<2>); });
	CAUGHT("race", "device memory", []() { run(global_race); });
	CAUGHT("race", "another block", []() { run(blocks_race<0>, 2); });
	CLEAN([]() { run(blocks_race<1>, 2); });
	CLEAN([]() { run(blocks_race<2>, 2); });
	CAUGHT("race", "device memory", []() { run(blocks_race<3>, 2); });
	CAUGHT("race", "atomically", []() { run(atomic_race); });
	CAUGHT("race", "shared memory", []() { run(ldmatrix_race<0>, 1, 32); });
	CLEAN([]() { run(ldmatrix_race<1>, 1, 32); });
}

static void
test_bounds(void)
{
	float		on_host[64] = {0};
	float	   *gone = dev<float>(NULL, 64);

	cudaFree(gone);
	CAUGHT("out of bounds: writes 4 bytes", "shared memory", []() { run(shared_bounds<0>); });
	CAUGHT("out of bounds: writes 4 bytes", "shared memory", []() { run(shared_bounds<1>); });
	CAUGHT("out of bounds: writes 4 bytes", "shared memory", []() { run(shared_bounds<2>); });
	CAUGHT("out of bounds: writes 4 bytes", "shared memory", []() { run(shared_bounds<3>); });
	CLEAN([]() { run(shared_bounds<4>); });
	CAUGHT("out of bounds: writes 4 bytes", "device memory", []() { run(global_bounds<0>); });
	CAUGHT("out of bounds: writes 4 bytes", "device memory", []() { run(global_bounds<1>); });
	CAUGHT("out of bounds: writes 16 bytes", "test_faults.cu", []() { run(global_bounds<2>); });
	CAUGHT("null pointer", "writes", []() { run(global_bounds<3>); });
	CAUGHT("misaligned", "16 bytes", []() { run(global_bounds<4>); });
	CLEAN([]() { run(global_bounds<5>); });
	CAUGHT("out of bounds", "device memory", [&]() { LAUNCH(pointer_kernel, 1, 64, 0, NULL, mem, gone); });
	CAUGHT("which is no device memory", "reads",
		   [&]() { LAUNCH(pointer_kernel, 1, 64, 0, NULL, mem, on_host); });
	CAUGHT("local memory of thread", "reads", []() { run(others_stack); });
	CAUGHT("49152", "shared memory", []() { run(much_shared); });
	CAUGHT("stack overflow", "deep_kernel", []() { LAUNCH(deep_kernel, 1, 64, 0, NULL, mem); });
	CAUGHT("the host writes", "memory of the device", []() { mem[0] = 1.0f; });
	CAUGHT("cudaMemcpy to", "out of bounds",
		   [&]() { cudaMemcpy(mem, on_host, 1025, cudaMemcpyHostToDevice); });
	CAUGHT("cudaMemset", "out of bounds", [&]() { cudaMemset(mem + 1, 0, 1024); });
}

static void
test_barriers(void)
{
	CAUGHT("divergent barrier", "test_faults.cu", []() { run(divergent<0>); });
	CAUGHT("returned", "__syncthreads", []() { run(divergent<1>); });
	CAUGHT("returned", "__syncthreads", []() { run(divergent<2>); });
	CAUGHT("emu: ", "__s", []() { run(divergent<3>); });
	CAUGHT("has returned", "__shfl_sync", []() { run(shuffles<0>); });
	CAUGHT("lacks its lane", "__shfl_sync", []() { run(shuffles<1>); });
	CAUGHT("shuffles from lane 20", "0000ffff", []() { run(shuffles<2>); });
	CAUGHT("divergent", "__shfl_sync", []() { run(shuffles<3>); });
	CAUGHT("has no lane", "__shfl_sync", []() { run(shuffles<4>, 1, 48); });
	CAUGHT("ffffffff", "__shfl_sync", []() { run(shuffles<5>); });
}

static void
test_async(void)
{
	CAUGHT("before cp.async's wait", "test_faults.cu", []() { run(async<0>); });
	CAUGHT("race", "shared memory", []() { run(async<1>); });
	CAUGHT("in flight", "returns", []() { run(async<2>); });
	CAUGHT("before cp.async's wait", "shared memory", []() { run(async<3>); });
	CAUGHT("out of bounds: reads 16 bytes", "device memory", []() { run(async<4>); });
	CLEAN([]() { run(async<5>); });
}

static void
test_bulk(void)
{
	CAUGHT("byte", "of shared memory", []() { run(bulk<0>); });
	CAUGHT("emu: ", "shared memory", []() { run(bulk<1>); });
	CAUGHT("256 bytes, of which the mbarrier expects 240", "cp.async.bulk", []() { run(bulk<2>); });
	CAUGHT("lacks 0 arrivals and 16 bytes", "mbarrier.try_wait at", []() { run(bulk<3>); });
	CAUGHT("fence.proxy.async is missing after mbarrier.init", "cp.async.bulk", []() { run(bulk<4>); });
	CAUGHT("emu: ", "shared memory", []() { run(bulk<5>); });
	CAUGHT("emu: ", "shared memory", []() { run(bulk<6>); });
	CAUGHT("fence.proxy.async is missing after them", "writes", []() { run(bulk<7>); });
	CAUGHT("mbarrier", "thread", []() { run(bulk<8>); });
	CAUGHT("emu: ", "block ends", []() { run(bulk<9>); });
	CAUGHT("lacks 1 arrivals and 0 bytes", "no thread can arrive", []() { run(bulk<10>); });
	CAUGHT("not multiples of 16", "cp.async.bulk", []() { run(bulk<11>); });
	CAUGHT("out of bounds: reads 256 bytes", "device memory", []() { run(bulk<12>); });
	CLEAN([]() { run(bulk<13>); });
	CLEAN([]() { run(bulk<14>); });
	CAUGHT("emu: ", "thread", []() { run(bulk<15>); });
	CAUGHT("where an mbarrier is", "reads", []() { run(bulk<16>); });
	CLEAN([]() { run(bulk<17>); });
	CAUGHT("128 bytes, of which the mbarrier expects 0", "cp.async.bulk", []() { run(two_copies<0>); });
	CLEAN([]() { run(two_copies<1>); });
	CAUGHT("emu: ", "bulk copy", []() { run(two_copies<2>); });
}

static void
test_groups(void)
{
	CAUGHT("wgmma.fence is missing", "test_faults.cu", []() { run(group<0>, 1, 128); });
	/* then the result is NaN, which the kernel reports by a fault of its own */
	CAUGHT("null pointer", "writes", []() { run(group<1>, 1, 128); });
	CAUGHT("D changed before the wait", "test_faults.cu", []() { run(group<2>, 1, 128); });
	CAUGHT("A changed before the wait", "test_faults.cu", []() { run(group<3>, 1, 128); });
	CAUGHT("fence.proxy.async is missing after them", "reads", []() { run(group<4>, 1, 128); });
	CAUGHT("race", "shared memory", []() { run(group<5>, 1, 128); });
	CAUGHT("made 0 products by wgmma, its warpgroup 1", "warp 2", []() { run(group<6>, 1, 128); });
	CAUGHT("another warp of the group multiplies by another matrix", "wgmma",
		   []() { run(group<7>, 1, 128); });
	CAUGHT("race", "shared memory", []() { run(group<8>, 1, 128); });
	CAUGHT("without waiting for wgmma", "test_faults.cu", []() { run(group<9>, 1, 128); });
	CLEAN([]() { run(group<10>, 1, 128); });
	CLEAN([]() { run(group<11>, 1, 128); });
	CAUGHT("its warpgroup lacks warps", "wgmma", []() { run(group<10>, 1, 96); });
}

int
main(void)
{
	mem = dev<float>(NULL, 256);
	cudaMemset(mem, 0, 1024);
	RUN(test_races());
	RUN(test_bounds());
	RUN(test_barriers());
	RUN(test_async());
	RUN(test_bulk());
	RUN(test_groups());
	return check_done("test_emu_faults");
}
