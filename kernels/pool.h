/*
 * pool.h
 *	  The compute threads: one parallel loop at a time.
 *
 * kpool_run(p, fn, arg, n) calls fn(arg, i, ith) once for each chunk i in
 * [0, n), on nthreads threads (the caller is thread 0; ith < nthreads selects
 * per-thread scratch), and returns when all are done.  Which thread takes which
 * chunk is not fixed, so a chunk's result may depend on i alone (promise 3).
 * Waiting threads spin for at most ~50 us and then sleep on a futex: an idle
 * engine uses no CPU.
 */
#ifndef VLLM_KERNELS_POOL_H
#define VLLM_KERNELS_POOL_H

typedef struct KPool KPool;
typedef void (*KPoolFn) (void *arg, int chunk, int ith);

KPool	   *kpool_new(int nthreads);	/* nthreads >= 1; NULL when threads can't start */
void		kpool_free(KPool *p);
int			kpool_nthreads(const KPool *p);
void		kpool_run(KPool *p, KPoolFn fn, void *arg, int nchunks);

#endif
