/*
 * wgmma.cuh
 *	  Products of a warpgroup, for sm_90a.
 *
 * wgmma<N, BY>(d, a, b, lead, stride): d += a B, A 64 x 16 in registers, B 16 x N in shared memory, with
 * N = 8, 32, 64 or 128, by all 4 warps together: warp w has rows 16w .. 16w + 15 of A and D, in
 * registers as in mma.cuh; d[n] are columns 8n .. 8n + 7.  B consists of contiguous 8 x 8 matrices of
 * halves, 128 bytes each, with rows of 16 bytes: by columns (BY_K: such a row is 8 k of one column) or
 * by rows (BY_N: 8 columns of one k); the next 8 k are `lead` bytes further, the next 8 columns `stride`
 * bytes.  (The PTX manual's canonical layouts without swizzling: LBO and SBO.) wgmma_shared<N, BY>(d, a,
 * a_lead, a_stride, b, lead, stride): the same with A in shared memory, 8 x 8 halves by rows.
 *
 * The instruction is asynchronous.  Call wgmma_begin() before the first one, and before A's or D's
 * registers are used otherwise; D is valid, and A free, after wgmma_end() and wgmma_result().  Data
 * stored to shared memory, also by cp.async, is visible to it after async_stored() (tma.cuh) by the
 * storing thread, and a barrier.
 */
#ifndef VLLM_KERNELS_CUDA_WGMMA_CUH
#define VLLM_KERNELS_CUDA_WGMMA_CUH

#include "cuda/tma.cuh"

#define BY_K	0
#define BY_N	1

/* address, lead and stride in units of 16 bytes; no swizzling */
static __device__ __forceinline__ uint64_t
wgmma_matrix(const void *b, int lead, int stride)
{
	return (uint64_t) (shared_at(b) & 0x3ffff) >> 4 | (uint64_t) (lead >> 4) << 16 |
		(uint64_t) (stride >> 4) << 32;
}

#ifdef __CUDACC__

static __device__ __forceinline__ void
wgmma_begin(void)
{
	asm volatile("wgmma.fence.sync.aligned;":::"memory");
}

static __device__ __forceinline__ void
wgmma_end(void)
{
	asm volatile("wgmma.commit_group.sync.aligned;":::"memory");
	asm volatile("wgmma.wait_group.sync.aligned 0;":::"memory");
}

/* the compiler doesn't know when D is valid */
template <int N> static __device__ __forceinline__ void
wgmma_result(float (*d)[4])
{
#pragma unroll
	for (int n = 0; n < N / 8; n++)
		asm volatile("":"+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])::"memory");
}

/* operands for D's registers of n columns, their names, and the operands after them: A's, B's and its
 * order */
#define D4(n)	"+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define D_8		D4(0)
#define D_32	D4(0), D4(1), D4(2), D4(3)
#define D_64	D_32, D4(4), D4(5), D4(6), D4(7)
#define D_128	D_64, D4(8), D4(9), D4(10), D4(11), D4(12), D4(13), D4(14), D4(15)
#define R_8		"%0,%1,%2,%3"
#define R_32	R_8 ",%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define R_64	R_32 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define R_128	R_64 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47" \
	",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define IN_SHARED "%32, %33, p, 1, 1, 0, %34;}"	/* with 64 columns */
#define IN_8	"{%4,%5,%6,%7}, %8, p, 1, 1, %9;}"
#define IN_32	"{%16,%17,%18,%19}, %20, p, 1, 1, %21;}"
#define IN_64	"{%32,%33,%34,%35}, %36, p, 1, 1, %37;}"
#define IN_128	"{%64,%65,%66,%67}, %68, p, 1, 1, %69;}"
#define WGMMA(type, n) \
	asm volatile("{.reg .pred p; setp.eq.u32 p, 1, 1; " \
				 "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" R_##n "}, " IN_##n \
				 :D_##n \
				 :"r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(wgmma_matrix(b, lead, stride)), "n"(BY) \
				 :"memory")
#define WGMMA_OF(H, type) \
	template <int N, int BY> static __device__ __forceinline__ void \
	wgmma(float (*d)[4], const uint32_t *a, const H *b, int lead, int stride) \
	{ \
		static_assert(N == 8 || N == 32 || N == 64 || N == 128, "columns"); \
		if constexpr (N == 8) \
			WGMMA(type, 8); \
		else if constexpr (N == 32) \
			WGMMA(type, 32); \
		else if constexpr (N == 64) \
			WGMMA(type, 64); \
		else \
			WGMMA(type, 128); \
	}

WGMMA_OF(BF16, "bf16")
WGMMA_OF(F16, "f16")

#define WGMMA_SHARED_OF(H, type) \
	template <int N, int BY> static __device__ __forceinline__ void \
	wgmma_shared(float (*d)[4], const H *a, int a_lead, int a_stride, const H *b, int lead, int stride) \
	{ \
		static_assert(N == 64, "columns"); \
		asm volatile("{.reg .pred p; setp.eq.u32 p, 1, 1; " \
					 "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" R_64 "}, " IN_SHARED \
					 :D_64 \
					 :"l"(wgmma_matrix(a, a_lead, a_stride)), "l"(wgmma_matrix(b, lead, stride)), "n"(BY) \
					 :"memory"); \
	}

WGMMA_SHARED_OF(BF16, "bf16")
WGMMA_SHARED_OF(F16, "f16")

#undef WGMMA_SHARED_OF
#undef WGMMA_OF
#undef WGMMA

#else							/* emulated */

#define HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

static inline void
wgmma_begin(HERE)
{
	cemu_wgmma_fence(file, line);
}

static inline void
wgmma_end(HERE)
{
	cemu_wgmma_wait(file, line);
}

template <int N> static inline void
wgmma_result(float (*)[4])
{
}

static inline CemuMma
wgmma_kind(const BF16 *)
{
	return CEMU_BF16;
}

static inline CemuMma
wgmma_kind(const F16 *)
{
	return CEMU_F16;
}

template <int N, int BY, typename H> static inline void
wgmma(float (*d)[4], const uint32_t *a, const H *b, int lead, int stride, HERE)
{
	cemu_wgmma(wgmma_kind(b), N, BY == BY_N, &d[0][0], a, 0, wgmma_matrix(b, lead, stride), file, line);
}

template <int N, int BY, typename H> static inline void
wgmma_shared(float (*d)[4], const H *a, int a_lead, int a_stride, const H *b, int lead, int stride, HERE)
{
	cemu_wgmma(wgmma_kind(b), N, BY == BY_N, &d[0][0], NULL, wgmma_matrix(a, a_lead, a_stride),
			   wgmma_matrix(b, lead, stride), file, line);
}

#undef HERE
#endif

#endif
