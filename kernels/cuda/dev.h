/*
 * dev.h
 *	  A GPU as a device of device.h, and its functions that table.cu calls for an op's arguments.
 *
 * One stream runs ops and copies in the order of their calls, another one runs copies beside them.  Host
 * data waits in the device's pinned memory until it has been copied: a step's arrays in two areas used
 * alternately, all other data in two halves of the stage.  On the device a step's arrays have fixed
 * addresses, since graphs are replayed with those.
 *
 * The step thread owns everything except what `lock` protects.
 */
#ifndef VLLM_KERNELS_CUDA_DEV_H
#define VLLM_KERNELS_CUDA_DEV_H

#include <pthread.h>

#include "cuda/common.cuh"
#include "device.h"

/* events for copies beside the ops; with more copies in flight several share an event, and wait for
 * later ones */
#define DEV_EVENTS	256

#define DEV_GROUPS	8

#define DEV_SPLIT_KEYS	512		/* unit of KGraphKey.splits */

/* bits of KDevInfo.features */
enum
{
	DEV_BF16 = 1,				/* products of BF16, copies with cp.async: 8.0 */
	DEV_FP8 = 2,				/* products of FP8: 8.9 */
	DEV_WGMMA = 4				/* wgmma and TMA: 9.0 only */
};

/* the arrays of a step, in their order in memory */
typedef enum DevArray
{
	DEV_TOKENS,
	DEV_POS,
	DEV_TYPES,
	DEV_ENDS,
	DEV_OUT_ROWS,
	DEV_SEQ_START,
	DEV_STATE_SLOT,
	DEV_TABLE,					/* [n_seqs][DevStep.ld] */
	DEV_ARRAYS
} DevArray;

typedef struct DevStage
{
	uint8_t    *host;			/* pinned */
	uint8_t    *dev;			/* of the same size */
	size_t		half;			/* bytes */
	size_t		at;				/* offset in the current half */
	int			half_now;
	cudaEvent_t used[2];		/* a half's copies are complete */
	bool		busy[2];
} DevStage;

typedef struct DevStep
{
	bool		open;			/* between step_begin and step_flush; under lock */
	size_t		size;			/* bytes of all arrays */
	size_t		at[DEV_ARRAYS];
	uint8_t    *host[2];		/* pinned */
	uint8_t    *dev;
	int			half_now;
	cudaEvent_t used[2];
	bool		busy[2];
	cudaEvent_t ended;
	/* the host's addresses, from step_begin to step_end; NULL: absent */
	const int32_t *given[DEV_ARRAYS];
	int			n[DEV_ARRAYS];
	int			ld;				/* blocks of a sequence's table */
	const int32_t *pages;		/* the host's KvView.pages during a step */
	int32_t    *pages_host;		/* pinned copy of what was sent last */
	int32_t    *pages_dev;
	size_t		pages_room,
				pages_n;
} DevStep;

/* a copy beside the ops that was requested within a step */
typedef struct DevCopy
{
	void	   *dst;
	const void *src;
	size_t		size;
	bool		up;
	KEvent		no;
} DevCopy;

typedef struct DevCopies
{
	cudaStream_t stream;
	cudaEvent_t before;			/* recorded in the stream of ops; the copies wait for it */
	cudaEvent_t events[DEV_EVENTS];	/* of copy no, or a later one: [no % DEV_EVENTS] */
	KEvent		last,			/* requested */
				issued,			/* enqueued in the stream */
				done;			/* known to be complete */
	KEvent		up;				/* the last put for which the next step waits; 0: none */
	uint64_t	marked;			/* value of KDevice.work when `before` was recorded */
	DevCopy    *later;
	size_t		n_later,
				room;
} DevCopies;

/* device copy of host data, cached until forget() */
typedef struct DevConst
{
	void	   *host;			/* the host's copy of the content */
	void	   *dev;
	const void *key;
	size_t		size;
} DevConst;

typedef struct CudaGraphs CudaGraphs;

struct Blaslt;

struct KDevice
{
	KDevOpen	o;
	KDevInfo	info;
	cudaStream_t stream;
	pthread_mutex_t lock;		/* protects copies and step.open */
	bool		locks;			/* lock is initialized */
	uint64_t	work;			/* increases with everything enqueued in the stream */
	DevStage	stage;
	DevStep		step;
	DevCopies	copies;
	DevConst   *consts;
	int			n_consts;
	struct
	{
		const int32_t *start;
		int			rows;
	}			groups[DEV_GROUPS]; /* dev_remember(); the newest first */
	CudaGraphs *graphs;
	struct Blaslt *blas;		/* NULL: this code's own kernels compute all products */
	KRun		run;			/* of the current step */
	KGraphKey	key;			/* unless it is KRUN_EAGER */
	KDevComm   *comms;			/* open communicators (nccl.cu) */
	bool		lost;
	char		error[256];		/* reason of the loss */
};

/* ---- dev.cu ---- */

/* Return the device of an op's pool; its stream is for the op's kernels. */
KDevice    *dev_of(const KPool *pool);
cudaStream_t dev_stream(KDevice *d);
/*
 * Make the device current in the calling thread, which may use several.  Return false if the device is
 * lost and must not be used any more.
 */
bool		dev_use(KDevice *d);
/* Return true if e is no error.  Otherwise the device becomes lost, and `what` is its reason if it is
 * the first. */
bool		dev_ok(KDevice *d, cudaError_t e, const char *what);
void		dev_lose(KDevice *d, const char *why);
/*
 * Return the device's address of a host array: in the step's arrays, or staged now.  A staged copy is
 * valid until a half of the stage is full again, so use it for the next op only.  NULL for NULL, and if
 * the device is lost.
 */
const void *dev_array(KDevice *d, const void *host, size_t size);
/* Reserve room in the stage for all arrays of one op together, so that they don't overwrite each
 * other. */
bool		dev_room(KDevice *d, size_t size);
/*
 * Return how many rows groups have in all, whose first rows are `start`, [n + 1] in the device's memory:
 * the number that the op writing it has remembered, so that the host needn't wait; otherwise read it.
 */
void		dev_remember(KDevice *d, const int32_t *start, int rows);
int			dev_rows_of_groups(KDevice *d, const int32_t *start, int n);
/* Copy in the ops' order.  src may be modified at once. */
void		dev_put(KDevice *d, void *dst, const void *src, size_t size);
/*
 * Reserve room in the stage for data that an op writes itself, and return its address and its future
 * address on the device in *at; NULL: the device is lost.  dev_send() copies it.
 */
void	   *dev_stage(KDevice *d, size_t size, void **at);
bool		dev_send(KDevice *d, void *at, const void *staged, size_t size);
/*
 * Return the device's copy of data that stays the same as long as `key`, the caller's address, does:
 * copied once for each content, and cached until forget().
 */
const void *dev_const(KDevice *d, const void *key, const void *host, size_t size);
/* Return the first rows of r's sequences; *row0 must be subtracted from them. */
const int32_t *dev_starts(KDevice *d, const KRows *r, int *row0);
/* Return the blocks of r's sequences, as [n_seqs][*ld]. */
const int32_t *dev_blocks(KDevice *d, const KRows *r, int block_size, int *ld);
const int32_t *dev_pages(KDevice *d, const KvView *kv, const KRows *r);

/* ---- graph.cu ---- */
CudaGraphs *graphs_new(void);
void		graphs_free(CudaGraphs *g);
void		graphs_stale(CudaGraphs *g);	/* called by any thread: memory that graphs refer to may have
											 * been freed */
KRun		graphs_begin(KDevice *d, const KGraphKey *key);
void		graphs_end(KDevice *d);

/* ---- nccl.cu ---- */
extern const KDevCommOps comm_ops;
/* Return true if all ranks with which the device communicates are alive.  Otherwise it is lost, and
 * nothing waits for them any more. */
bool		comms_live(KDevice *d);
/* Wait until the event, or for NULL the stream, is complete, but only while all ranks are alive. */
bool		comms_await(KDevice *d, cudaEvent_t e);

/* ---- table.cu ---- */
void		table_open(KDevice *d);	/* call once, with d the calling thread's current device */
/* the table for operands of that type; NULL: not supported.  fp8_x: from KDevOpen */
const Kernels *table_of(KType op_type, bool fp8_x);
/* name of a missing op that every model needs; NULL: none is missing */
const char *table_lacks(void);

#endif
