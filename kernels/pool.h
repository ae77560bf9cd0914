/*
 * pool.h
 *	  The compute threads: one parallel loop at a time.
 *
 * kpool_run(p, fn, arg, n) calls fn(arg, i, ith) once for each chunk i in [0, n), on nthreads threads
 * (the caller is thread 0; ith < nthreads selects per-thread scratch), and returns when all are done.
 * Thread t begins with the t-th of nthreads contiguous parts of the chunks and then helps the others, so
 * the assignment of chunks to threads is not fixed, and a chunk's result must depend on i only (row
 * invariance, kernels.h).  Waiting threads spin for at most ~50 us and then sleep on a futex: an idle
 * engine uses no CPU.
 */
#ifndef VLLM_KERNELS_POOL_H
#define VLLM_KERNELS_POOL_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct KPool KPool;
typedef struct KDevice KDevice;	/* device.h */
typedef void (*KPoolFn) (void *arg, int chunk, int ith);

KPool	   *kpool_new(int nthreads);	/* nthreads >= 1; NULL if threads can't be started */
/* Thread i runs only on cpus[i]; cpus NULL: not pinned. */
KPool	   *kpool_new_on(int nthreads, const int *cpus);
void		kpool_free(KPool *p);
int			kpool_nthreads(const KPool *p);
void		kpool_run(KPool *p, KPoolFn fn, void *arg, int nchunks);	/* p NULL: in the caller's thread */
/*
 * From its next loop on p runs its loops on n threads only; if it is pinned, on its CPUs first .. first
 * + n - 1; the other threads sleep.  n = 0: on all threads, as initially.  So two pools on the same CPUs
 * can run a loop each at the same time without sharing a CPU.  Any thread may call it, at any time.
 */
void		kpool_use(KPool *p, int first, int n);
/*
 * Prepare the calling thread to be thread 0 of p's loops: move it to that CPU if p is pinned; if not, or
 * if p is NULL, back to the CPUs it had before.  Cheap if it is already there.
 */
void		kpool_bind(const KPool *p);

/*
 * Set the device on which ops called with this pool run; NULL (the initial value) or p NULL: CPUs.  Set
 * it once, before the first op.  The pool's threads then do the work that remains on the host.
 */
void		kpool_set_device(KPool *p, KDevice *d);
KDevice    *kpool_device(const KPool *p);

#ifdef __cplusplus
}
#endif

#endif
