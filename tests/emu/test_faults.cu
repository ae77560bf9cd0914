/*
 * test_faults.cu
 *	  Faults planted into kernels: kernels/emu must stop each with the right message, in
 *	  whatever order threads run; and their corrected twins must run.
 */
#include "emu_test.h"
#include "cuda/mma.cuh"

static float *mem;				/* 256 floats of the device, zeros */

template <typename K> static void
run(K k, int blocks = 1, int threads = 64)
{
	LAUNCH(k, blocks, threads, 512, NULL, mem);
}

#define KERNEL(name) __global__ void name(float *x)
#define T (int) threadIdx.x

/* ---- races ---- */

/* MODE 0: no barrier between write and the neighbour's read; 1: none before the next write; 2: right */
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

/* 0: a shuffle in the place of __syncwarp; 1: __syncwarp of other lanes; 2: right; 3: a barrier, right as well */
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

/* halves that meet, then exchange within themselves */
KERNEL(half_warps)
{
	SHARED(float, s, [64]);

	s[T] = 1.0f;
	__syncwarp(T % 32 < 16 ? 0xffffu : 0xffff0000u);
	x[T] = s[T ^ 8];
}

/* 0 and 1: many read, one writes, of another warp and of the same; 2: written bytes lie side by side, no race */
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

/* 0: blocks write the same; 1: to their own; 2: atomically; 3: one reads what another adds to */
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

/* the plain read of what others change atomically */
KERNEL(atomic_race)
{
	SHARED(int, n, [1]);

	if (T == 0)
		n[0] = 0;
	__syncthreads();
	atomicAdd(&n[0], 1);
	x[T] = (float) n[0];
}

/* ldmatrix reads rows of other lanes without __syncwarp */
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

/* 0: behind a static array, 1: before it, 2: behind the launch's, 3: far behind it, 4: right */
template <int MODE> KERNEL(shared_bounds)
{
	SHARED(float, a, [64]);
	SMEM(float, d);				/* [128] */

	a[MODE == 0 && T == 63 ? 64 : MODE == 1 && T == 0 ? -1 : T] = 1.0f;
	d[MODE == 2 && T == 9 ? 128 : MODE == 3 && T == 9 ? 9999 : T] = 1.0f;
	x[T] = a[T] + d[T];
}

/* 0 and 1: one behind and before, 2: behind by vectors, 3: null, 4: misaligned, 5: right */
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

/* more than a block may have without asking, together with the launch's 512 bytes */
KERNEL(much_shared)
{
	SHARED(float, a, [12288]);

	a[T] = 1.0f;
	x[T] = a[T];
}

/* ---- barriers ---- */

/* 0: at two lines; 1: some have returned; 2: some don't come; 3: one is in a shuffle */
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

/* 0: a lane has returned; 1: mask lacks the caller; 2: from a lane not in the mask; 3: lanes at two lines; 4: no
 * such lane; 5: lanes with different masks */
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

/* 0: read before the wait; 1: read by others without a barrier; 2: never waited for; 3: one group too many
 * allowed; 4: a vector too many of the source; 5: right */
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
	CAUGHT("which is no device memory", "reads", [&]() { LAUNCH(pointer_kernel, 1, 64, 0, NULL, mem, on_host); });
	CAUGHT("local memory of thread", "reads", []() { run(others_stack); });
	CAUGHT("49152", "shared memory", []() { run(much_shared); });
	CAUGHT("stack overflow", "deep_kernel", []() { LAUNCH(deep_kernel, 1, 64, 0, NULL, mem); });
	CAUGHT("the host writes", "memory of the device", []() { mem[0] = 1.0f; });
	CAUGHT("cudaMemcpy to", "out of bounds", [&]() { cudaMemcpy(mem, on_host, 1025, cudaMemcpyHostToDevice); });
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

int
main(void)
{
	mem = dev<float>(NULL, 256);
	cudaMemset(mem, 0, 1024);
	test_races();
	test_bounds();
	test_barriers();
	test_async();
	return check_done("test_emu_faults");
}
