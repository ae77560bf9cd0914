/*
 * cemu.h
 *	  CUDA kernels on the CPU: what runs below kernels/emu/cuda_emu.h, in C.
 *
 * A block runs at a time, on the calling thread, a fiber for each of its threads;
 * a fiber runs until it waits.  The .cu files are compiled with gcc's
 * -fsanitize=thread and linked without its library: the calls that the compiler
 * puts before every load and store come to cemu_mem.c, which knows what memory
 * is whose and who touched it last.  Any fault ends the process with a message
 * on stderr that names kernel, block, thread and source line.
 *
 * With CEMU_FAST nothing of that is looked for: an engine that runs whole models on it (tests/emu/module.mk,
 * vllm_pg_cuda.so) wants their results, soon.
 *
 * Names begin with cemu_; AVX-512's emulation (avx512_emu.h) is another thing.
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
/* whose doings a thread may have seen: the block's threads', and of each mbarrier's copies */
#define CEMU_SEEN	(CEMU_THREADS + CEMU_MBARS)

typedef struct CemuDim
{
	unsigned	x,
				y,
				z;
} CemuDim;

/* where a thread is in its block's turn */
typedef enum CemuState
{
	CEMU_RUN,
	CEMU_BARRIER,				/* waits for the block */
	CEMU_WARPOP,				/* waits for the lanes of its mask */
	CEMU_PHASE,					/* waits for an mbarrier, which is its arg */
	CEMU_EXITED
} CemuState;

/* a copy by cp.async that was issued and isn't there yet */
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
	CemuDim		idx;			/* threadIdx; first, kernels read it */
	int			id;				/* linear */
	void	   *sp;
	char	   *stack;
	CemuState	state;
	const char *op;				/* what it waits in, and where */
	const char *file;
	int			line;
	uint32_t	mask;
	void	   *arg;
	uint32_t	seg;			/* what it does until it next synchronizes: cemu_mem.c */
	uint32_t	clock[CEMU_WARP];	/* of each lane of its warp: what this thread has seen done */
	uint32_t	fenced;			/* its last segment whose stores copies and wgmma see */
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
	size_t		most;			/* that it and static arrays may have */
	void		(*fn) (void *args);
	void	   *args;
	size_t		args_size;
} CemuLaunch;

/* in which order threads run until they wait, and blocks */
typedef enum CemuOrder
{
	CEMU_FORWARD,
	CEMU_REVERSE,
	CEMU_RANDOM
} CemuOrder;

/* the running thread; NULL: the host, as other threads of the host are all the time */
extern __thread CemuThread *cemu_now;
extern CemuLaunch *cemu_launched;

/* ---- cemu.c: threads, barriers ---- */
void		cemu_order(CemuOrder order, uint64_t seed);
uint64_t	cemu_random(void);
void		cemu_run(CemuLaunch *l);
void		cemu_barrier(const char *op, const char *file, int line);
/* __syncthreads_count, _and, _or at once: how many threads came with pred */
int			cemu_barrier_count(const char *op, int pred, const char *file, int line);
/*
 * The lanes of mask meet; the last one computes for all: args[i] is what lane i came with, NULL
 * for lanes not in the mask.
 */
void		cemu_warp(const char *op, uint32_t mask, void *arg, void (*compute) (void **args, uint32_t mask),
					  const char *file, int line);
/* until somebody makes the thread run again: it waits for that mbarrier of cemu_async.c */
void		cemu_wait_phase(void *bar, const char *file, int line);
__attribute__((noreturn, format(printf, 1, 2)))
void		cemu_fail(const char *fmt,...);
CemuThread *cemu_thread(int id);
int			cemu_n_threads(void);

/* ---- cemu_warp.c: what warps do together ---- */
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
/* d = a b + c of m16n8k16 (k32 of bytes); words as the instruction has them; d may be c */
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
/* for a message: what is missing at all that somebody waits at */
const char *cemu_mbar_lacks(void);
void		cemu_bulk(void *dst, const void *src, size_t size, void *bar);
/*
 * d += a b of m64nNk16, a warp's quarter; in shared memory (b, and a where it isn't in registers):
 * descriptors, without swizzling
 */
void		cemu_wgmma(CemuMma kind, int n, int by_n, float *d, const uint32_t *a, uint64_t a_shared,
					   uint64_t b, const char *file, int line);
void		cemu_wgmma_fence(const char *file, int line);
void		cemu_wgmma_wait(const char *file, int line);
int			cemu_async_step(void);
void		cemu_async_block(void);
void		cemu_async_block_end(int n_threads);

/* ---- cemu_mem.c: whose memory it is, and who touched it ---- */
typedef enum CemuAccess
{
	CEMU_READ,
	CEMU_WRITE,
	CEMU_ATOMIC
} CemuAccess;

void	   *cemu_malloc(size_t size);	/* of the device; NULL: no room */
int			cemu_free(void *p); /* 0: wasn't one */
void		cemu_memory_limit(size_t bytes);
void		cemu_memory_info(size_t *room, size_t *all);
/* does [p, p + n) lie in one allocation? */
int			cemu_is_device(const void *p, size_t n);
void	   *cemu_shared(const void *key, size_t size, size_t align);
void	   *cemu_dynamic(void);
/* as the thread t, or the running one */
void		cemu_touch(CemuThread *t, const void *p, size_t n, CemuAccess kind, const void *pc);
/* by a copy or by wgmma, on behalf of t: they see what was stored behind a fence only */
void		cemu_touch_async(CemuThread *t, const void *p, size_t n, CemuAccess kind, const void *pc);
void		cemu_async_fence(void);
void		cemu_pending(const void *p, size_t n);
void		cemu_arrived(const void *p, size_t n);
/* a launch, a block, what synchronizes */
void		cemu_mem_launch(void);
void		cemu_mem_block(int n_threads, size_t dynamic);
void		cemu_mem_barrier(int n_threads);
void		cemu_mem_warp(CemuThread *first, uint32_t mask);
size_t		cemu_shared_used(void);
/* as instructions have addresses of shared memory */
uint32_t	cemu_shared_at(const void *p);
void	   *cemu_shared_base(void);
/* mbarriers: 8 bytes are one; what threads have seen, let go there and taken from there; a copy's bytes */
void		cemu_mem_mbar(const void *p);
void		cemu_mem_release(CemuThread *t, uint32_t *seen);
void		cemu_mem_acquire(CemuThread *t, const uint32_t *seen);
int			cemu_mem_ordered(uint32_t seg, const CemuThread *t);
int			cemu_mem_fenced(uint32_t seg);
/* who: 0, it is under way; else it is there, of that number among what is seen */
void		cemu_mem_bulk(const void *p, size_t n, int who, uint32_t clock);

/* ---- cemu_rt.c: the runtime's calls ---- */
void		cemu_enqueue(void *stream, CemuLaunch *l, void (*drop) (CemuLaunch *l), const void *fn);
/* 1 (default): streams' work runs late, in any order that events allow; 0: at once */
void		cemu_lazy(int on);
/*
 * In the stream's order: go() is called until it answers 1, for libraries of tests that wait for other
 * processes.  Under the emulation's lock, so it doesn't wait itself.
 */
void		cemu_call(void *stream, int (*go) (void *arg), void *arg) __attribute__((visibility("default")));
/* of the device; 9.0 unless told */
void		cemu_capability(int major, int minor);
/* So many, which share all memory; a thread may launch into streams of its current one only.  1 at first. */
void		cemu_devices(int n);
/*
 * as cudaDriverGetVersion() tells it, 0: there is none; the runtime's at first, and with an older one there
 * is no device
 */
void		cemu_driver(int version);
/*
 * the nth call from now that takes something (memory, pinned memory, a stream, an event, a graph) fails; 0:
 * none
 */
void		cemu_fail_at(int n);
/* how many such things there are */
int			cemu_live(void);

#ifdef __cplusplus
}
#endif
#endif
