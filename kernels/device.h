/*
 * device.h
 *	  A device beside the CPU: its memory, copies, steps and graphs.  Its ops are kernels.h's.
 *
 * A library has one symbol, vllm_pg_device_ops(), and a KDeviceOps behind it; "host" and "moat"
 * (hostdev.c) are the CPUs in this dress.
 *
 * THREADS.  The step thread calls ops, put, get, fill, wait and what a step consists of; alloc,
 * free, pin and the copies beside the ops are for any thread, one at a time for each device.
 *
 * ORDER.  Ops, put, get and fill happen in the order of their calls, and behind them: a call
 * only asks for it.  step_end() and wait() wait.
 *
 * STEPS.  step_begin() takes all arrays of a step to the device at once.  An op that is handed one of
 * them, or a part of it (KRows.row0, seq0), uses what is there: the host's pointer says which.
 * Other arrays of the host are staged in the ops' order, but not between graph() = KRUN_CAPTURE and
 * step_end(), where there may be none.
 *
 * PADDING.  A graph's step may have more rows than anybody asked for: those have position -1
 * and token -1.  Ops give zeros for them or nothing, and write no K and V.
 *
 * ERRORS.  alloc, pin and open fail alone.  All else that goes wrong shows in step_end() or wait():
 * then the device is lost for good, later calls do nothing, and the process must end.
 */
#ifndef VLLM_KERNELS_DEVICE_H
#define VLLM_KERNELS_DEVICE_H

#include "kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Counts up with any change here or in kernels.h, blocks.h and pool.h. */
#define KDEVICE_ABI 6

typedef uint64_t KEvent;		/* 0: done */

/* What the library may call of the engine. */
typedef struct KHost
{
	uint32_t	abi;
	void		(*log) (char level, const char *text);
	KDevice    *(*pool_device) (const KPool *p);	/* kpool_device() */
	int			(*pool_threads) (const KPool *p);
} KHost;

typedef struct KDevInfo
{
	int			ordinal;
	char		name[64];
	char		uuid[48];		/* GPU-, and 36 characters */
	char		driver[32];
	int			cc;				/* compute capability, 90 for 9.0 */
	int			sms;
	uint64_t	total;			/* bytes */
	uint64_t	free;
	uint64_t	l2;
	uint32_t	smem_block;		/* bytes of shared memory that a block may have */
	uint32_t	features;		/* bits, the library's own */
	bool		usable;
	char		why[128];		/* why the library cannot be used */
} KDevInfo;

/* Which kernels a device takes where it has several; all of a row's bits come from one variant. */
typedef enum KVariant
{
	KVARIANT_AUTO,				/* those that a device of this kind was seen to run */
	KVARIANT_MMA,				/* CUDA: tensor cores by mma.sync, for any capability */
	KVARIANT_WGMMA				/* CUDA: tensor cores by wgmma, capability 9.0 only */
} KVariant;

/* Sizes of the staging area, and what else is fixed for its life. */
typedef struct KDevOpen
{
	int			max_rows;
	int			max_seqs;
	int			max_blocks;		/* of a sequence */
	int			max_out;
	bool		invariant;		/* a row's bits may not depend on the batch */
	KVariant	variant;		/* open() fails where the device has no such kernels */
	/* products with weights of FP8 (KT_FP8) round what they multiply to FP8, too */
	bool		fp8_x;
} KDevOpen;

/* What a forward pass is about; all of it the host's. */
typedef struct KStep
{
	const KRows *rows;			/* row0 and seq0 are 0 */
	const KvView *kv;			/* whose blocks the tables name; NULL: there are none, or nobody looks */
	const int32_t *tokens;		/* [n_rows] */
	const int32_t *types;		/* [n_rows]; NULL: none */
	const int32_t *ends;		/* [n_rows] KAttn.ends */
	const int32_t *out_rows;	/* [n_out] */
	int			n_out;
	int			max_pos;		/* of any row */
} KStep;

/* Steps with the same key make the same calls of ops. */
typedef struct KGraphKey
{
	int			rows;			/* padded */
	int			seqs;
	int			splits;			/* of the longest context, a power of two */
	uint32_t	flags;
} KGraphKey;

typedef enum KRun
{
	KRUN_EAGER,					/* make the ops */
	KRUN_CAPTURE,				/* the ops that follow are recorded, and run in step_end() */
	KRUN_REPLAYED				/* make no ops */
} KRun;

#define KDEVICE_COMM_ID 128		/* bytes */

typedef struct KDevComm KDevComm;

/* A communicator of ranks that have such a device each. */
typedef struct KDevCommOpen
{
	const char *library;		/* what it is made with; "": as the loader finds it */
	const void *id;				/* [KDEVICE_COMM_ID] that one of them, or somebody else, got from id() */
	int			rank;
	int			size;			/* ranks */
	bool		(*lives) (void *ctx);	/* is there hope?  Asked while one waits for others */
	void	   *ctx;
} KDevCommOpen;

/*
 * Collectives of the device's memory, in the ops' order.  All ranks make the same calls in the same order;
 * they mean what those of model/parallel/comm.h mean, but that sums have an order of their own unless the
 * device was opened for invariant bits.  open() waits for the others, and so do the waits for a device that
 * has communicators: only as long as lives() says that there is hope; behind that the device is lost.  A
 * capture may have none.
 */
typedef struct KDevCommOps
{
	/* Is there such a library, and which version?  false: why not. */
	bool		(*find) (const char *library, char *version, size_t size, char *err, size_t errlen);
	bool		(*id) (const char *library, void *id, char *err, size_t errlen);
	KDevComm   *(*open) (KDevice *d, const KDevCommOpen *o, char *err, size_t errlen);
	void		(*close) (KDevComm *c);	/* for itself; before the device's */
	void		(*gather) (KDevComm *c, void *all, const void *mine, int rows, const int32_t *starts,
						   size_t size);
	void		(*sum) (KDevComm *c, float *x, size_t n);
	void		(*broadcast) (KDevComm *c, void *x, size_t bytes, int root);
	void		(*send) (KDevComm *c, const void *x, size_t bytes, int to);
	void		(*recv) (KDevComm *c, void *x, size_t bytes, int from);
} KDevCommOps;

typedef struct KDeviceOps
{
	uint32_t	abi;
	int			(*count) (char *why, size_t whylen);	/* 0: why there is none */
	bool		(*info) (int ordinal, KDevInfo *out);	/* false: there is none */
	/* NULL, and why in err */
	KDevice    *(*open) (int ordinal, const KHost *host, const KDevOpen *o, char *err, size_t errlen);
	void		(*close) (KDevice *d);
	/*
	 * The ops, with operands of op_type: KT_F32, KT_F16 or KT_BF16; NULL: not on this device.  d NULL: of
	 * none in particular, for what needs no device: sizes of matrices and scratch.
	 */
	const Kernels *(*kernels) (KDevice *d, KType op_type);

	/* ---- memory ---- */
	/* size bytes at a multiple of 256; NULL: there is no such room */
	void	   *(*alloc) (KDevice *d, size_t size, const char *what);
	void		(*free) (KDevice *d, void *p);	/* p may be NULL */
	/* the host's, which get, kv_get and kv_put need */
	void	   *(*pin) (KDevice *d, size_t size);
	void		(*unpin) (KDevice *d, void *p);
	/* what is there already; false: it can't be */
	bool		(*pin_area) (KDevice *d, void *p, size_t size);
	void		(*unpin_area) (KDevice *d, void *p);
	void		(*mem) (KDevice *d, uint64_t *free_bytes, uint64_t *total);
	/*
	 * Of the host's arrays in there, matrices of experts and their biases, ops have copies, which nobody
	 * wants any more: they are about to change, or to go.  Called where ops are.
	 */
	void		(*forget) (KDevice *d, const void *from, size_t size);

	/* ---- copies in the ops' order ---- */
	/* src may be reused on return */
	void		(*put) (KDevice *d, void *dst, const void *src, size_t size);
	/* dst is there behind wait() */
	void		(*get) (KDevice *d, void *dst, const void *src, size_t size);
	void		(*fill) (KDevice *d, void *dst, int byte, size_t size);
	bool		(*wait) (KDevice *d, char *err, size_t errlen);	/* false: the device is lost */
	bool		(*done) (KDevice *d);	/* would wait() return at once? */

	/* ---- copies beside the ops ---- */
	/*
	 * In the order of their calls, behind the ops asked for so far, and behind the step that has begun; the
	 * next step waits for puts. src and dst stay until the event is done.
	 */
	KEvent		(*kv_put) (KDevice *d, void *dst, const void *src, size_t size);
	KEvent		(*kv_get) (KDevice *d, void *dst, const void *src, size_t size);
	bool		(*event_done) (KDevice *d, KEvent e);
	/* between steps: ops to come happen behind the copies asked for so far; nobody waits */
	void		(*kv_fence) (KDevice *d);

	/* ---- steps ---- */
	void		(*step_begin) (KDevice *d, const KStep *s);
	/* between step_begin and the ops; key NULL: KRUN_EAGER */
	KRun		(*graph) (KDevice *d, const KGraphKey *key);
	bool		(*step_done) (KDevice *d);	/* would step_end() return at once?  Only behind step_flush() */
	void		(*step_flush) (KDevice *d);	/* no op follows: ends a capture and launches */
	/* flushes and waits; false: the device is lost */
	bool		(*step_end) (KDevice *d, char *err, size_t errlen);

	const KDevCommOps *comm;	/* NULL: ranks talk by way of the host */
} KDeviceOps;

/* The one symbol of a device's library; NULL: it has another ABI. */
const KDeviceOps *vllm_pg_device_ops(uint32_t abi);

#ifdef __cplusplus
}
#endif
#endif
