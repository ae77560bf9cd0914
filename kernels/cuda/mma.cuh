/*
 * mma.cuh
 *	  Tensor cores, ldmatrix and cp.async: inline PTX with an emulated twin of each function.
 *
 * mma_*(d, a, b, c): d = a b + c for a whole warp, A 16 x 16 row-major, B 16 x 8 by columns (S8, E4M3:
 * 16 x 32, 32 x 8); d may be c.  In lane l, g = l / 4, t = l % 4: A has rows g and g + 8 and columns 2t,
 * 2t + 1 of its low and high half, in the order (g, low), (g + 8, low), (g, high), (g + 8, high); B has
 * rows 2t, 2t + 1 of column g, low and high; C and D have columns 2t, 2t + 1 of rows g and g + 8.  S8
 * and E4M3 have 4 columns where halves have 2. sm_75 has only smaller F16 and S8 products, which are
 * combined here, no BF16 (traps: the host doesn't launch it there), and no cp.async (the copy is
 * synchronous).  Below sm_89 codes of E4M3 are converted to halves, as ptxas does with the instruction
 * on sm_90 and sm_100, too.
 */
#ifndef VLLM_KERNELS_CUDA_MMA_CUH
#define VLLM_KERNELS_CUDA_MMA_CUH

#include "cuda/common.cuh"

#ifdef __CUDACC__

static __device__ __forceinline__ void
mma_f16(float *d, const uint32_t *a, const uint32_t *b, const float *c)
{
#if __CUDA_ARCH__ >= 800
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
				 "{%10,%11,%12,%13};"
				 :"=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
				 :"r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]),
				 "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
#else
	float		e[4];

	asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
				 "{%7,%8,%9,%10};"
				 :"=f"(e[0]), "=f"(e[1]), "=f"(e[2]), "=f"(e[3])
				 :"r"(a[0]), "r"(a[1]), "r"(b[0]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
	asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
				 "{%7,%8,%9,%10};"
				 :"=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
				 :"r"(a[2]), "r"(a[3]), "r"(b[1]), "f"(e[0]), "f"(e[1]), "f"(e[2]), "f"(e[3]));
#endif
}

static __device__ __forceinline__ void
mma_bf16(float *d, const uint32_t *a, const uint32_t *b, const float *c)
{
#if __CUDA_ARCH__ >= 800
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
				 "{%10,%11,%12,%13};"
				 :"=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
				 :"r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]),
				 "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
#else
	(void) d, (void) a, (void) b, (void) c;
	__trap();
#endif
}

#if __CUDA_ARCH__ < 800
/* 8 rows, 16 k */
static __device__ __forceinline__ void
mma_s8_8816(int *d, uint32_t a, uint32_t b, const int *c)
{
	asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%4,%5};"
				 :"=r"(d[0]), "=r"(d[1]):"r"(a), "r"(b), "r"(c[0]), "r"(c[1]));
}
#endif

static __device__ __forceinline__ void
mma_s8(int *d, const uint32_t *a, const uint32_t *b, const int *c)
{
#if __CUDA_ARCH__ >= 800
	asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
				 "{%10,%11,%12,%13};"
				 :"=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
				 :"r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]),
				 "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
#else
	int			e[4];

	mma_s8_8816(e, a[0], b[0], c);
	mma_s8_8816(e + 2, a[1], b[0], c + 2);
	mma_s8_8816(d, a[2], b[1], e);
	mma_s8_8816(d + 2, a[3], b[1], e + 2);
#endif
}

#if __CUDA_ARCH__ < 890
/*
 * bytes i and i + 1 of w, which are E4M3, as halves that are smaller by a factor of 2^-8: subnormals,
 * too; the code of NaN becomes 480
 */
static __device__ __forceinline__ uint32_t
e4m3_small(uint32_t w, int i)
{
	uint32_t	high = __byte_perm(w, 0, 0x0404u | i << 4 | (i + 1) << 12);

	return (high & 0x80008000u) | (high & 0x7f007f00u) >> 1;
}
#endif

static __device__ __forceinline__ void
mma_e4m3(float *d, const uint32_t *a, const uint32_t *b, const float *c)
{
#if __CUDA_ARCH__ >= 890
	asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
				 "{%10,%11,%12,%13};"
				 :"=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
				 :"r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]),
				 "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
#else
	float		e[4] = {0, 0, 0, 0};

	for (int h = 0; h < 2; h++)
	{
		uint32_t	x[4] = {e4m3_small(a[2 * h], 0), e4m3_small(a[2 * h + 1], 0), e4m3_small(a[2 * h], 2),
							e4m3_small(a[2 * h + 1], 2)},
					y[2] = {e4m3_small(b[h], 0), e4m3_small(b[h], 2)};

		mma_f16(e, x, y, e);
	}
	for (int i = 0; i < 4; i++)
		d[i] = fmaf(65536.0f, e[i], c[i]);
#endif
}

/*
 * Load four 8 x 8 matrices of halves from shared memory: lane 8i + r passes the address of row r of
 * matrix i (16 bytes, aligned to that); d[i] gets columns 2t, 2t + 1 of row g of matrix i, with _trans
 * rows 2t, 2t + 1 of column g.
 */
static __device__ __forceinline__ void
ldmatrix_x4(uint32_t *d, const void *row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
				 :"=r"(d[0]), "=r"(d[1]), "=r"(d[2]),
				 "=r"(d[3]):"r"((uint32_t) __cvta_generic_to_shared(row)):"memory");
}

static __device__ __forceinline__ void
ldmatrix_x4_trans(uint32_t *d, const void *row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
				 :"=r"(d[0]), "=r"(d[1]), "=r"(d[2]),
				 "=r"(d[3]):"r"((uint32_t) __cvta_generic_to_shared(row)):"memory");
}

/* two matrices, with addresses from lanes 0 .. 15; the others pass the address of any row */
static __device__ __forceinline__ void
ldmatrix_x2(uint32_t *d, const void *row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
				 :"=r"(d[0]), "=r"(d[1]):"r"((uint32_t) __cvta_generic_to_shared(row)):"memory");
}

static __device__ __forceinline__ void
ldmatrix_x2_trans(uint32_t *d, const void *row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
				 :"=r"(d[0]), "=r"(d[1]):"r"((uint32_t) __cvta_generic_to_shared(row)):"memory");
}

/*
 * Copy the first `from` (0 .. 16) bytes from global to shared memory, and fill up to 16 bytes with
 * zeros.  The data is valid in this thread after its cp_wait, in others after a barrier after that.
 */
static __device__ __forceinline__ void
cp_async16(void *dst, const void *src, int from = 16)
{
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
				 ::"r"((uint32_t) __cvta_generic_to_shared(dst)), "l"(__cvta_generic_to_global(src)),
				 "r"(from):"memory");
#else
	if (from == 16)
		*(uint4 *) dst = *(const uint4 *) src;
	else
		for (int i = 0; i < 16; i++)
			((uint8_t *) dst)[i] = i < from ? ((const uint8_t *) src)[i] : 0;
#endif
}

static __device__ __forceinline__ void
cp_commit(void)
{
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.commit_group;":::"memory");
#endif
}

/* wait until at most LEFT of the thread's last commits are in flight */
template <int LEFT> static __device__ __forceinline__ void
cp_wait(void)
{
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.wait_group %0;"::"n"(LEFT):"memory");
#endif
}

#else							/* emulated */

#define HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

static inline void
mma_f16(float *d, const uint32_t *a, const uint32_t *b, const float *c, HERE)
{
	cemu_mma(CEMU_F16, (uint32_t *) d, a, b, (const uint32_t *) c, file, line);
}

static inline void
mma_bf16(float *d, const uint32_t *a, const uint32_t *b, const float *c, HERE)
{
	cemu_mma(CEMU_BF16, (uint32_t *) d, a, b, (const uint32_t *) c, file, line);
}

static inline void
mma_s8(int *d, const uint32_t *a, const uint32_t *b, const int *c, HERE)
{
	cemu_mma(CEMU_S8, (uint32_t *) d, a, b, (const uint32_t *) c, file, line);
}

static inline void
mma_e4m3(float *d, const uint32_t *a, const uint32_t *b, const float *c, HERE)
{
	cemu_mma(CEMU_E4M3, (uint32_t *) d, a, b, (const uint32_t *) c, file, line);
}

static inline void
ldmatrix_x4(uint32_t *d, const void *row, HERE)
{
	cemu_ldmatrix(d, 4, 0, row, file, line);
}

static inline void
ldmatrix_x4_trans(uint32_t *d, const void *row, HERE)
{
	cemu_ldmatrix(d, 4, 1, row, file, line);
}

static inline void
ldmatrix_x2(uint32_t *d, const void *row, HERE)
{
	cemu_ldmatrix(d, 2, 0, row, file, line);
}

static inline void
ldmatrix_x2_trans(uint32_t *d, const void *row, HERE)
{
	cemu_ldmatrix(d, 2, 1, row, file, line);
}

static inline void
cp_async16(void *dst, const void *src, int from = 16)
{
	cemu_cp_async(dst, src, 16, from);
}

static inline void
cp_commit(void)
{
	cemu_cp_commit();
}

template <int LEFT> static inline void
cp_wait(void)
{
	cemu_cp_wait(LEFT);
}

#undef HERE
#endif

#endif
