/*
 * tma.cuh
 *	  Bulk copies, the mbarriers at which they complete, and registers of warpgroups: for sm_90a.
 *
 * An mbarrier counts phases, from 0 on.  A phase ends when as many threads have arrived as the barrier
 * was initialized for, and all bytes that arrivals announced have been copied; mbar_wait(bar, p) returns
 * once the phase of parity p has ended.  A thread that waits for each phase in turn begins with parity
 * 0; a thread that waits for a buffer which is still unused ("empty") begins with 1.  A waiting thread
 * sees everything that the arriving threads did before, and the copied data.
 *
 * bulk_copy() is called by one thread, with addresses and a size that are multiples of 16 bytes, after
 * its bytes have been announced.  Copies and wgmma access shared memory through another proxy than
 * ordinary stores (cp.async's among them): the storing thread must call async_stored(), followed by a
 * barrier or an arrival.  The same holds after mbar_init().
 */
#ifndef VLLM_KERNELS_CUDA_TMA_CUH
#define VLLM_KERNELS_CUDA_TMA_CUH

#include "cuda/mma.cuh"

#ifdef __CUDACC__

static __device__ __forceinline__ uint32_t
shared_at(const void *p)
{
	return (uint32_t) __cvta_generic_to_shared(p);
}

static __device__ __forceinline__ void
mbar_init(uint64_t *bar, unsigned count)
{
	asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"::"r"(shared_at(bar)), "r"(count):"memory");
}

static __device__ __forceinline__ void
mbar_arrive(uint64_t *bar)
{
	asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"::"r"(shared_at(bar)):"memory");
}

/* arrive, and announce this many bytes for the phase */
static __device__ __forceinline__ void
mbar_expect(uint64_t *bar, unsigned bytes)
{
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"::"r"(shared_at(bar)),
				 "r"(bytes):"memory");
}

static __device__ __forceinline__ void
mbar_wait(uint64_t *bar, unsigned parity)
{
	asm volatile("{.reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @p bra DONE; "
				 "bra AGAIN; DONE: }"
				 ::"r"(shared_at(bar)), "r"(parity):"memory");
}

static __device__ __forceinline__ void
bulk_copy(void *dst, const void *src, unsigned bytes, uint64_t *bar)
{
	asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
				 ::"r"(shared_at(dst)), "l"(__cvta_generic_to_global(src)), "r"(bytes),
				 "r"(shared_at(bar)):"memory");
}

static __device__ __forceinline__ void
async_stored(void)
{
	asm volatile("fence.proxy.async.shared::cta;":::"memory");
}

/* Called by all warps of a warpgroup; a kernel's launch bounds determine the initial number of
 * registers. */
template <int N> static __device__ __forceinline__ void
more_registers(void)
{
	asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;"::"n"(N));
}

template <int N> static __device__ __forceinline__ void
fewer_registers(void)
{
	asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;"::"n"(N));
}

#else							/* emulated */

static inline uint32_t
shared_at(const void *p)
{
	return cemu_shared_at(p);
}

static inline void
mbar_init(uint64_t *bar, unsigned count)
{
	cemu_mbar_init(bar, count);
}

static inline void
mbar_arrive(uint64_t *bar)
{
	cemu_mbar_arrive(bar, 0);
}

static inline void
mbar_expect(uint64_t *bar, unsigned bytes)
{
	cemu_mbar_arrive(bar, bytes);
}

static inline void
mbar_wait(uint64_t *bar, unsigned parity, const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
	cemu_mbar_wait(bar, parity, file, line);
}

static inline void
bulk_copy(void *dst, const void *src, unsigned bytes, uint64_t *bar)
{
	cemu_bulk(dst, src, bytes, bar);
}

static inline void
async_stored(void)
{
	cemu_async_fence();
}

template <int N> static inline void
more_registers(void)
{
}

template <int N> static inline void
fewer_registers(void)
{
}

#endif

#endif
