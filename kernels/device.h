/*
 * device.h
 *	  A device other than the CPU: its memory, copies, steps and graphs.  Its ops are those of
 *	  kernels.h.
 *
 * A device library exports one symbol, vllm_pg_device_ops(), which returns a KDeviceOps; "host" and
 * "moat" (hostdev.c) implement the same interface on the CPUs.
 *
 * THREADS.  The step thread calls ops, put, get, fill, wait and the functions of a step.  Any thread may
 * call alloc, free, pin and the copies beside the ops, one thread at a time for each device.
 *
 * ORDER.  Ops, put, get and fill are executed asynchronously, in the order of their calls: a call only
 * enqueues the work.  step_end() and wait() wait.
 *
 * STEPS.  step_begin() copies all arrays of a step to the device at once.  An op that gets one of these
 * arrays, or a part of it (KRows.row0, seq0), uses the device's copy, which it finds by the host's
 * pointer.  Other arrays of the host are staged in the ops' order, but not between graph() =
 * KRUN_CAPTURE and step_end(), where no such array may be passed.
 *
 * PADDING.  A graph's step may have more rows than requested: the additional rows have position -1 and
 * token -1.  Ops write zeros for them or nothing, and store no K and V.
 *
 * ERRORS.  Only alloc, pin and open return errors themselves.  All other errors are reported by
 * step_end() or wait(): then the device is lost for good, later calls do nothing, and the process must
 * end.
 */
#ifndef VLLM_KERNELS_DEVICE_H
#define VLLM_KERNELS_DEVICE_H

#include "kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Increase it with any change here or in kernels.h, blocks.h and pool.h. */
#define KDEVICE_ABI 8

typedef uint64_t KEvent;		/* 0: already done */

/* Functions of the engine that the library may call. */
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
	uint32_t	smem_block;		/* bytes of shared memory available to a block */
	uint32_t	features;		/* bits, the library's own */
	bool		usable;
	char		why[128];		/* why the library cannot be used */
} KDevInfo;

/* Which kernels a device uses if it has several; one variant determines all bits of a row. */
typedef enum KVariant
{
	KVARIANT_AUTO,				/* the kernels that have been tested on this kind of device */
	KVARIANT_MMA,				/* CUDA: tensor cores by mma.sync, for any capability */
	KVARIANT_WGMMA				/* CUDA: tensor cores by wgmma, capability 9.0 only */
} KVariant;

/* Sizes of the staging area, and other settings that are fixed until close(). */
typedef struct KDevOpen
{
	int			max_rows;
	int			max_seqs;
	int			max_blocks;		/* of a sequence */
	int			max_out;
	bool		invariant;		/* a row's bits must not depend on the batch */
	KVariant	variant;		/* open() fails if the device doesn't support these kernels */
	/* products with FP8 weights (KT_FP8) round their inputs to FP8, too */
	bool		fp8_x;
} KDevOpen;

/* The arrays of a forward pass, all in the host's memory. */
typedef struct KStep
{
	const KRows *rows;			/* row0 and seq0 are 0 */
	const KvView *kv;			/* KV cache of the block tables; NULL: there is none, or no op reads it */
	const int32_t *tokens;		/* [n_rows] */
	const int32_t *types;		/* [n_rows]; NULL: none */
	const int32_t *ends;		/* [n_rows] KAttn.ends */
	const int32_t *out_rows;	/* [n_out] */
	int			n_out;
	int			max_pos;		/* of any row */
} KStep;

/* Key of a recorded step.  Steps with the same key make the same calls of ops. */
typedef struct KGraphKey
{
	int			rows;			/* padded */
	int			seqs;
	int			splits;			/* of the longest context, a power of two */
	uint32_t	flags;
} KGraphKey;

typedef enum KRun
{
	KRUN_EAGER,					/* call the ops */
	KRUN_CAPTURE,				/* call the ops: they are recorded, and run in step_end() */
	KRUN_REPLAYED				/* don't call the ops */
} KRun;

#define KDEVICE_COMM_ID 128		/* bytes */

typedef struct KDevComm KDevComm;

/* Settings of a communicator of ranks that have such a device each. */
typedef struct KDevCommOpen
{
	const char *library;		/* path of the communication library; "": search it as the loader does */
	const void *id;				/* [KDEVICE_COMM_ID] that id() returned in one process */
	int			rank;
	int			size;			/* ranks */
	bool		(*lives) (void *ctx);	/* false: give up waiting.  Called while waiting for other ranks */
	void	   *ctx;
} KDevCommOpen;

/*
 * Collectives on the device's memory, in the ops' order.  All ranks make the same calls in the same
 * order.  The semantics are those of model/parallel/comm.h, except that sums have an unspecified order
 * unless the device was opened for invariant bits.  open() waits for the other ranks, and so do the
 * waits of a device that has communicators, but only while lives() returns true; after that the device
 * is lost.  Collectives must not be called during a capture.
 */
typedef struct KDevCommOps
{
	/* Look for the library and return its version; false: err says why it can't be used. */
	bool		(*find) (const char *library, char *version, size_t size, char *err, size_t errlen);
	bool		(*id) (const char *library, void *id, char *err, size_t errlen);
	KDevComm   *(*open) (KDevice *d, const KDevCommOpen *o, char *err, size_t errlen);
	void		(*close) (KDevComm *c);	/* only this rank's; call before the device's close() */
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
	int			(*count) (char *why, size_t whylen);	/* 0: `why` says why there is none */
	bool		(*info) (int ordinal, KDevInfo *out);	/* false: no such device */
	/* NULL on error, with the reason in err */
	KDevice    *(*open) (int ordinal, const KHost *host, const KDevOpen *o, char *err, size_t errlen);
	void		(*close) (KDevice *d);
	/*
	 * Return the ops, with operands of op_type: KT_F32, KT_F16 or KT_BF16; NULL: not supported.  d NULL:
	 * for functions that need no device: sizes of matrices and scratch.
	 */
	const Kernels *(*kernels) (KDevice *d, KType op_type);

	/* ---- memory ---- */
	/* size bytes at a multiple of 256; NULL: out of memory */
	void	   *(*alloc) (KDevice *d, size_t size, const char *what);
	void		(*free) (KDevice *d, void *p);	/* p may be NULL */
	/* host memory, which get, kv_get and kv_put need */
	void	   *(*pin) (KDevice *d, size_t size);
	void		(*unpin) (KDevice *d, void *p);
	/* pin existing host memory; return false on failure */
	bool		(*pin_area) (KDevice *d, void *p, size_t size);
	void		(*unpin_area) (KDevice *d, void *p);
	void		(*mem) (KDevice *d, uint64_t *free_bytes, uint64_t *total);
	/*
	 * Ops cache copies of matrices of experts and their biases that are in host memory.  Drop the copies
	 * from this range, which is about to change or to be freed.  Called by the step thread.
	 */
	void		(*forget) (KDevice *d, const void *from, size_t size);

	/* ---- copies in the ops' order ---- */
	/* src may be reused on return */
	void		(*put) (KDevice *d, void *dst, const void *src, size_t size);
	/* dst is valid after wait() */
	void		(*get) (KDevice *d, void *dst, const void *src, size_t size);
	void		(*fill) (KDevice *d, void *dst, int byte, size_t size);
	bool		(*wait) (KDevice *d, char *err, size_t errlen);	/* false: the device is lost */
	bool		(*done) (KDevice *d);	/* true: wait() would return at once */

	/* ---- copies beside the ops ---- */
	/*
	 * They run in the order of their calls, after the ops enqueued so far, and after the step that has
	 * begun; the next step waits for puts.  src and dst must stay valid until the event is done.
	 */
	KEvent		(*kv_put) (KDevice *d, void *dst, const void *src, size_t size);
	KEvent		(*kv_get) (KDevice *d, void *dst, const void *src, size_t size);
	bool		(*event_done) (KDevice *d, KEvent e);
	/* between steps: later ops run after the copies enqueued so far; the call doesn't wait */
	void		(*kv_fence) (KDevice *d);

	/* ---- steps ---- */
	void		(*step_begin) (KDevice *d, const KStep *s);
	/* call between step_begin and the ops; key NULL: KRUN_EAGER */
	KRun		(*graph) (KDevice *d, const KGraphKey *key);
	bool		(*step_done) (KDevice *d);	/* true: step_end() would return at once.  Call only after
											 * step_flush() */
	void		(*step_flush) (KDevice *d);	/* no op follows: end a capture and launch the work */
	/* flush and wait; false: the device is lost */
	bool		(*step_end) (KDevice *d, char *err, size_t errlen);

	const KDevCommOps *comm;	/* NULL: ranks communicate through the host */
} KDeviceOps;

/* The library's only symbol.  Return NULL if it has another ABI version. */
const KDeviceOps *vllm_pg_device_ops(uint32_t abi);

#ifdef __cplusplus
}
#endif
#endif
