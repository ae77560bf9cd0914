/*
 * pool.h
 *	  The compute threads: one parallel loop at a time.
 *
 * kpool_run(p, fn, arg, n) calls fn(arg, i, ith) once for each chunk i in
 * [0, n), on nthreads threads (the caller is thread 0; ith < nthreads selects
 * per-thread scratch), and returns when all are done.  Thread t begins with the
 * t-th of nthreads contiguous parts of the chunks and then helps the others, so
 * which thread takes which chunk is not fixed, and a chunk's result may depend on
 * i alone (promise 3).  Waiting threads spin for at most ~50 us and then sleep on
 * a futex: an idle engine uses no CPU.
 */
#ifndef VLLM_KERNELS_POOL_H
#define VLLM_KERNELS_POOL_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct KPool KPool;
typedef struct KDevice KDevice;	/* device.h */
typedef void (*KPoolFn) (void *arg, int chunk, int ith);

KPool	   *kpool_new(int nthreads);	/* nthreads >= 1; NULL when threads can't start */
/* Thread i runs on cpus[i] and nowhere else; cpus NULL: not pinned. */
KPool	   *kpool_new_on(int nthreads, const int *cpus);
void		kpool_free(KPool *p);
int			kpool_nthreads(const KPool *p);
void		kpool_run(KPool *p, KPoolFn fn, void *arg, int nchunks);	/* p NULL: on the caller's thread */
/*
 * From its next loop on p runs its loops on n threads only, which are those at first .. first + n - 1 of its
 * CPUs if it is pinned; the others sleep.  n = 0: on all, as at first.  So two pools of the same CPUs run a
 * loop each at a time and don't meet.  Any thread, at any time.
 */
void		kpool_use(KPool *p, int first, int n);
/*
 * The calling thread will be thread 0 of p's loops: move it to that CPU if p is
 * pinned, back to where it came from if not, or if p is NULL.  Cheap when it is there.
 */
void		kpool_bind(const KPool *p);

/*
 * The device that ops called with this pool run on; NULL, as at first, or p NULL: CPUs.  Set once,
 * before the first op.  The threads are then for what remains on the host.
 */
void		kpool_set_device(KPool *p, KDevice *d);
KDevice    *kpool_device(const KPool *p);

#ifdef __cplusplus
}
#endif

#endif
