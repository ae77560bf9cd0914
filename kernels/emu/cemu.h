/*
 * cemu.h
 *	  CUDA kernels on the CPU: the runtime below kernels/emu/cuda_emu.h, in C.
 *
 * Blocks run one at a time, on the calling thread, with a fiber for each thread of the block; a fiber
 * runs until it waits.  The .cu files are compiled with gcc's -fsanitize=thread and linked without its
 * library: the compiler's calls before every load and store go to cemu_mem.c, which knows the owner of
 * all memory and its last accesses.  Any fault ends the process with a message on stderr that names
 * kernel, block, thread and source line.
 *
 * With CEMU_FAST nothing is checked: an engine that runs whole models on it (tests/emu/module.mk,
 * vllm_pg_cuda.so) needs only the results, and fast.
 *
 * Names begin with cemu_.  AVX-512's emulation (avx512_emu.h) is unrelated.
 */
#ifndef VLLM_KERNELS_CEMU_H
#define VLLM_KERNELS_CEMU_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C"
{
#endif

#ifdef CEMU_FAST
#define CEMU_CHECKS	0
#else
#define CEMU_CHECKS	1
#endif

#define CEMU_WARP	32
#define CEMU_THREADS 1024		/* of a block */
#define CEMU_MBARS	64			/* of a block */
/* Sources of accesses that a thread may have seen: the block's threads, and each mbarrier's copies. */
#define CEMU_SEEN	(CEMU_THREADS + CEMU_MBARS)

typedef struct CemuDim
{
	unsigned	x,
				y,
				z;
} CemuDim;

/* state of a thread of the running block */
typedef enum CemuState
{
	CEMU_RUN,
	CEMU_BARRIER,				/* waits for the block */
	CEMU_WARPOP,				/* waits for the lanes of its mask */
	CEMU_PHASE,					/* waits for an mbarrier, which is its arg */
	CEMU_EXITED
} CemuState;

/* a copy by cp.async that has been issued and hasn't completed */
typedef struct CemuCopy
{
	void	   *dst;
	const void *src;
	int			size;
	int			from;			/* bytes of src; the rest is zeros */
	int			group;			/* of the thread's commits */
} CemuCopy;

typedef struct CemuThread
{
	CemuDim		idx;			/* threadIdx; first member, as kernels read it */
	int			id;				/* linear */
	void	   *sp;
	char	   *stack;
	CemuState	state;
	const char *op;				/* the operation in which it waits, and where */
	const char *file;
	int			line;
	uint32_t	mask;
	void	   *arg;
	uint32_t	seg;			/* its current segment, from one synchronization to the next: cemu_mem.c */
	uint32_t	clock[CEMU_WARP];	/* for each lane of its warp: the last segment that this thread has
									 * seen */
	uint32_t	fenced;			/* its last segment whose stores are visible to copies and wgmma */
	CemuCopy   *copies;			/* oldest first */
	int			n_copies;
	int			copies_room;
	int			group;			/* commits so far */
} CemuThread;

typedef struct CemuLaunch
{
	const char *name;
	CemuDim		grid;
	CemuDim		block;
	CemuDim		at;				/* blockIdx */
	size_t		smem;
	size_t		most;			/* most bytes of dynamic and static shared memory together */
	void		(*fn) (void *args);
	void	   *args;
	size_t		args_size;
} CemuLaunch;

/* the order in which threads, and blocks, run */
typedef enum CemuOrder
{
	CEMU_FORWARD,
	CEMU_REVERSE,
	CEMU_RANDOM
} CemuOrder;

/* the running thread; NULL: the host, which all other threads of the process always are */
extern __thread CemuThread *cemu_now;
extern CemuLaunch *cemu_launched;

/* ---- cemu.c: threads, barriers ---- */
void		cemu_order(CemuOrder order, uint64_t seed);
uint64_t	cemu_random(void);
void		cemu_run(CemuLaunch *l);
void		cemu_barrier(const char *op, const char *file, int line);
/* __syncthreads_count, _and, _or in one function: returns how many threads came with pred */
int			cemu_barrier_count(const char *op, int pred, const char *file, int line);
/*
 * The lanes of mask meet; the last one computes for all: args[i] is lane i's argument, NULL for lanes
 * not in the mask.
 */
void		cemu_warp(const char *op, uint32_t mask, void *arg, void (*compute) (void **args, uint32_t mask),
					  const char *file, int line);
/* wait for that mbarrier of cemu_async.c until the thread is made runnable again */
void		cemu_wait_phase(void *bar, const char *file, int line);
__attribute__((noreturn, format(printf, 1, 2)))
void		cemu_fail(const char *fmt,...);
CemuThread *cemu_thread(int id);
int			cemu_n_threads(void);

/* ---- cemu_warp.c: collective operations of warps ---- */
typedef enum CemuShfl
{
	CEMU_IDX,
	CEMU_UP,
	CEMU_DOWN,
	CEMU_XOR
} CemuShfl;
typedef enum CemuVote
{
	CEMU_BALLOT,
	CEMU_MATCH_ANY,
	CEMU_MATCH_ALL,
	CEMU_ADD,
	CEMU_MIN_S,
	CEMU_MAX_S,
	CEMU_MIN_U,
	CEMU_MAX_U,
	CEMU_AND,
	CEMU_OR,
	CEMU_XOR_BITS
} CemuVote;
typedef enum CemuMma
{
	CEMU_F16,
	CEMU_BF16,
	CEMU_S8,
	CEMU_E4M3
} CemuMma;

void		cemu_syncwarp(uint32_t mask, const char *file, int line);
uint64_t	cemu_shfl(CemuShfl kind, uint32_t mask, uint64_t v, int by, int width, const char *file,
					  int line);
uint32_t	cemu_vote(CemuVote kind, uint32_t mask, uint64_t v, const char *file, int line);
/* Make the table of halves; call before cemu_operand(), once for many operands. */
void		cemu_halves_make(void);
/* element i of a word of operands: 2 halves or 4 bytes, which must not be CEMU_S8 */
float		cemu_operand(CemuMma kind, uint32_t word, int i);
/* d = a b + c of m16n8k16 (k32 of bytes), with the instruction's registers; d may be c */
void		cemu_mma(CemuMma kind, uint32_t *d, const uint32_t *a, const uint32_t *b, const uint32_t *c,
					 const char *file, int line);
void		cemu_ldmatrix(uint32_t *d, int n, int trans, const void *row, const char *file, int line);
void		cemu_cp_async(void *dst, const void *src, int size, int from);
void		cemu_cp_commit(void);
void		cemu_cp_wait(int left);
float		cemu_f16_to_f32(uint16_t h);
uint16_t	cemu_f32_to_f16(float f);
float		cemu_bf16_to_f32(uint16_t h);
uint16_t	cemu_f32_to_bf16(float f);
float		cemu_f8_to_f32(int e5m2, uint8_t c);
uint8_t		cemu_f32_to_f8(int e5m2, float f);

/* ---- cemu_async.c: mbarriers, bulk copies, products of warpgroups ---- */
void		cemu_mbar_init(void *bar, unsigned count);
void		cemu_mbar_arrive(void *bar, unsigned bytes);
void		cemu_mbar_wait(void *bar, unsigned parity, const char *file, int line);
/* for a message: what is missing at an mbarrier at which a thread waits */
const char *cemu_mbar_lacks(void);
void		cemu_bulk(void *dst, const void *src, size_t size, void *bar);
/*
 * d += a b of m64nNk16, a warp's quarter; operands in shared memory (b, and a unless it is in registers)
 * are given by descriptors, without swizzling
 */
void		cemu_wgmma(CemuMma kind, int n, int by_n, float *d, const uint32_t *a, uint64_t a_shared,
					   uint64_t b, const char *file, int line);
void		cemu_wgmma_fence(const char *file, int line);
void		cemu_wgmma_wait(const char *file, int line);
int			cemu_async_step(void);
void		cemu_async_block(void);
void		cemu_async_block_end(int n_threads);

/* ---- cemu_mem.c: the owner of memory, and its last accesses ---- */
typedef enum CemuAccess
{
	CEMU_READ,
	CEMU_WRITE,
	CEMU_ATOMIC
} CemuAccess;

void	   *cemu_malloc(size_t size);	/* device memory; NULL: no room */
int			cemu_free(void *p); /* 0: p is no allocation */
void		cemu_memory_limit(size_t bytes);
void		cemu_memory_info(size_t *room, size_t *all);
/* true if [p, p + n) lies in one allocation */
int			cemu_is_device(const void *p, size_t n);
void	   *cemu_shared(const void *key, size_t size, size_t align);
void	   *cemu_dynamic(void);
/* access by thread t, or by the running one */
void		cemu_touch(CemuThread *t, const void *p, size_t n, CemuAccess kind, const void *pc);
/* access by a copy or by wgmma, on behalf of t: these see only what was stored before a fence */
void		cemu_touch_async(CemuThread *t, const void *p, size_t n, CemuAccess kind, const void *pc);
void		cemu_async_fence(void);
void		cemu_pending(const void *p, size_t n);
void		cemu_arrived(const void *p, size_t n);
/* a launch, a block, synchronizations */
void		cemu_mem_launch(void);
void		cemu_mem_block(int n_threads, size_t dynamic);
void		cemu_mem_barrier(int n_threads);
void		cemu_mem_warp(CemuThread *first, uint32_t mask);
size_t		cemu_shared_used(void);
/* addresses of shared memory as in instructions */
uint32_t	cemu_shared_at(const void *p);
void	   *cemu_shared_base(void);
/* mbarriers of 8 bytes: what threads have seen, release there and acquire there; a copy's bytes */
void		cemu_mem_mbar(const void *p);
void		cemu_mem_release(CemuThread *t, uint32_t *seen);
void		cemu_mem_acquire(CemuThread *t, const uint32_t *seen);
int			cemu_mem_ordered(uint32_t seg, const CemuThread *t);
int			cemu_mem_fenced(uint32_t seg);
/* a bulk copy to p: who = 0 if it is in flight, else its source's number (CEMU_SEEN) as it is complete */
void		cemu_mem_bulk(const void *p, size_t n, int who, uint32_t clock);

/* ---- cemu_rt.c: the runtime's calls ---- */
void		cemu_enqueue(void *stream, CemuLaunch *l, void (*drop) (CemuLaunch *l), const void *fn);
/* 1 (default): streams' work runs late, in any order that events allow; 0: at once */
void		cemu_lazy(int on);
/*
 * Call go() in the stream's order until it returns 1, for test libraries that wait for other processes.
 * It runs under the emulation's lock, so it must not wait itself.
 */
void		cemu_call(void *stream, int (*go) (void *arg), void *arg) __attribute__((visibility("default")));
/* capability of the device; 9.0 by default */
void		cemu_capability(int major, int minor);
/* Set the number of devices, which share all memory; a thread may launch only into streams of its
 * current device. 1 by default. */
void		cemu_devices(int n);
/*
 * Set the version that cudaDriverGetVersion() returns, 0: no driver; by default the runtime's; with an
 * older one there is no device.
 */
void		cemu_driver(int version);
/*
 * Let the nth call from now that allocates something (memory, pinned memory, a stream, an event, a
 * graph) fail; 0: none.
 */
void		cemu_fail_at(int n);
/* number of such objects that exist */
int			cemu_live(void);

#ifdef __cplusplus
}
#endif
#endif
