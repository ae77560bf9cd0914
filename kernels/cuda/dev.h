/*
 * dev.h
 *	  A GPU behind device.h, and what table.cu needs of it for an op's arguments.
 *
 * One stream has ops and copies in the order of their calls, another one copies beside them.
 * What the host hands over lies in pinned memory of the device's own until it is there: a step's
 * arrays in two areas that take turns, everything else in two halves of the stage.  On the
 * device a step's arrays have fixed addresses, since graphs are replayed with those.
 *
 * The step thread owns everything but what `lock` is for.
 */
#ifndef VLLM_KERNELS_CUDA_DEV_H
#define VLLM_KERNELS_CUDA_DEV_H

#include <pthread.h>

#include "cuda/common.cuh"
#include "device.h"

/* of copies beside the ops: more copies share them, and then wait for later ones */
#define DEV_EVENTS	256

#define DEV_GROUPS	8

#define DEV_SPLIT_KEYS	512		/* of KGraphKey.splits */

/* bits of KDevInfo.features */
enum
{
	DEV_BF16 = 1,				/* products of BF16, copies by cp.async: 8.0 */
	DEV_FP8 = 2,				/* products of FP8: 8.9 */
	DEV_WGMMA = 4				/* wgmma and TMA: 9.0, and no other */
};

/* the arrays of a step, in the order in which they lie */
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
	uint8_t    *dev;			/* as large */
	size_t		half;			/* bytes */
	size_t		at;				/* in the half at hand */
	int			turn;
	cudaEvent_t used[2];		/* a half's copies are done */
	bool		busy[2];
} DevStage;

typedef struct DevStep
{
	bool		open;			/* between step_begin and step_flush; under lock */
	size_t		size;			/* bytes of all arrays */
	size_t		at[DEV_ARRAYS];
	uint8_t    *host[2];		/* pinned */
	uint8_t    *dev;
	int			turn;
	cudaEvent_t used[2];
	bool		busy[2];
	cudaEvent_t ended;
	/* where the host has them, from step_begin to step_end; NULL: there are none */
	const int32_t *given[DEV_ARRAYS];
	int			n[DEV_ARRAYS];
	int			ld;				/* blocks of a sequence's table */
	const int32_t *pages;		/* KvView.pages as the host has them, in a step */
	int32_t    *pages_host;		/* what was sent last, pinned */
	int32_t    *pages_dev;
	size_t		pages_room,
				pages_n;
} DevStep;

/* a copy beside the ops that was asked for within a step */
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
	cudaEvent_t before;			/* what they wait for */
	cudaEvent_t events[DEV_EVENTS];	/* of copy no, or a later one: [no % DEV_EVENTS] */
	KEvent		last,			/* asked for, */
				issued,			/* in the stream, */
				done;			/* known to be there */
	KEvent		up;				/* the last one that the next step waits for; 0: none */
	uint64_t	marked;			/* DevWork when `before` was recorded */
	DevCopy    *later;
	size_t		n_later,
				room;
} DevCopies;

/* what an op's arguments have in the host's memory until forget() */
typedef struct DevConst
{
	void	   *host;			/* a copy */
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
	pthread_mutex_t lock;		/* copies and step.open */
	bool		locks;			/* it is one */
	uint64_t	work;			/* counts up with what goes into the stream */
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
	struct Blaslt *blas;		/* NULL: all products are own kernels */
	KRun		run;			/* of the step at hand */
	KGraphKey	key;			/* unless it is KRUN_EAGER */
	KDevComm   *comms;			/* that are open (nccl.cu) */
	bool		lost;
	char		error[256];		/* why */
};

/* ---- dev.cu ---- */

/* The device of an op's pool, and the stream for its kernels. */
KDevice    *dev_of(const KPool *pool);
cudaStream_t dev_stream(KDevice *d);
/*
 * It is the calling thread's from now on, which may have been at another one; false: there is nothing to ask
 * of it any more.
 */
bool		dev_use(KDevice *d);
/* Was it well?  If not the device is lost, and `what` is the reason if it is the first. */
bool		dev_ok(KDevice *d, cudaError_t e, const char *what);
void		dev_lose(KDevice *d, const char *why);
/*
 * Where an array of the host lies on the device: in the step's arrays, or staged now, until a half of the
 * stage is full again, so for the next op.  NULL for NULL, and when the device is lost.
 */
const void *dev_array(KDevice *d, const void *host, size_t size);
/* Room in the stage for so many bytes in all, so that arrays of one op don't come to overwrite each other. */
bool		dev_room(KDevice *d, size_t size);
/*
 * How many rows groups have in all whose first rows are `start`, of the device, [n + 1]: as remembered from
 * the op that wrote it, so that nobody waits; else read.
 */
void		dev_remember(KDevice *d, const int32_t *start, int rows);
int			dev_rows_of_groups(KDevice *d, const int32_t *start, int n);
/* src may be used again at once; in the ops' order */
void		dev_put(KDevice *d, void *dst, const void *src, size_t size);
/*
 * Room in the stage for what an op writes itself, and where it will be on the device; NULL: the device is
 * lost.  Then its copy.
 */
void	   *dev_stage(KDevice *d, size_t size, void **at);
bool		dev_send(KDevice *d, void *at, const void *staged, size_t size);
/*
 * Of what stays the same as long as `key`, where the caller has it, does: it is copied once for each content,
 * until forget().
 */
const void *dev_const(KDevice *d, const void *key, const void *host, size_t size);
/* Of r's sequences the first rows; *row0 is to be taken off. */
const int32_t *dev_starts(KDevice *d, const KRows *r, int *row0);
/* The blocks of r's sequences, as [n_seqs][*ld]. */
const int32_t *dev_blocks(KDevice *d, const KRows *r, int block_size, int *ld);
const int32_t *dev_pages(KDevice *d, const KvView *kv, const KRows *r);

/* ---- graph.cu ---- */
CudaGraphs *graphs_new(void);
void		graphs_free(CudaGraphs *g);
void		graphs_stale(CudaGraphs *g);	/* any thread: what they were made with may be gone */
KRun		graphs_begin(KDevice *d, const KGraphKey *key);
void		graphs_end(KDevice *d);

/* ---- nccl.cu ---- */
extern const KDevCommOps comm_ops;
/* Are all ranks there that the device talks to?  Else it is lost, and nothing waits for them any more. */
bool		comms_live(KDevice *d);
/* The event, or NULL: the stream, has come; not longer than that. */
bool		comms_await(KDevice *d, cudaEvent_t e);

/* ---- table.cu ---- */
void		table_open(KDevice *d);	/* once, with d the calling thread's device */
/* with operands of that type; NULL: there are none.  fp8_x: KDevOpen's */
const Kernels *table_of(KType op_type, bool fp8_x);
/* an op that no model can do without and that isn't there; NULL: all are */
const char *table_lacks(void);

#endif
