/*
 * comm.h
 *	  Communication between the ranks of a model.
 *
 * Every rank makes the same calls in the same order, with the same sizes.  Buffers are in the device's
 * memory; elements have `size` bytes.  A sum adds rank 0's part, rank 1's, ... in this order, so that
 * all ranks get the same bits (a device's own communicator does so only if it was opened for invariant
 * bits).  Calls don't fail: if a rank is gone failed() returns true, buffers are invalid, and the
 * process ends.
 */
#ifndef VLLM_MODEL_PARALLEL_COMM_H
#define VLLM_MODEL_PARALLEL_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/shared_memory.h"
#include "pool.h"

struct Dev;						/* device_arena.h */
struct DevWait;
struct KDevCommOpen;			/* device.h */

typedef struct KComm KComm;

typedef struct KCommOps
{
	/*
	 * Gather columns: rank r has columns starts[r] .. starts[r + 1] - 1 as mine[rows][that many]; the
	 * result is all[rows][starts[ranks]].  all and mine must not overlap.
	 */
	void		(*gather) (KComm *c, KPool *pool, void *all, const void *mine, int rows,
						   const int32_t *starts, size_t size);
	void		(*sum) (KComm *c, KPool *pool, float *x, size_t n);
	/* mine: the summed elements of x from n rank / ranks up to the next rank's first */
	void		(*sum_scatter) (KComm *c, KPool *pool, float *mine, const float *x, size_t n);
	void		(*broadcast) (KComm *c, KPool *pool, void *x, size_t bytes, int root);
	void		(*send) (KComm *c, KPool *pool, const void *x, size_t bytes, int to);
	void		(*recv) (KComm *c, KPool *pool, void *x, size_t bytes, int from);
	void		(*barrier) (KComm *c);
	bool		(*failed) (KComm *c);
	void		(*free) (KComm *c);
} KCommOps;

struct KComm
{
	const KCommOps *ops;
	int			rank;
	int			size;			/* ranks */
};

/*
 * Make the communicator of `size` ranks of a group in shared memory (comm_shm.c); `rank` is this process's
 * number among them.  `room` is the part of the group's memory that these ranks use alone.
 */
KComm	   *comm_shm(GroupMem *g, int room, int rank, int size);

/*
 * Make a communicator for buffers of a device: it copies them to the host's memory and calls `below`
 * (comm_device.c).  Free it before the device is closed, and before `below`, which the caller still
 * owns. w: called while waiting for the device; NULL = nothing is called.
 */
KComm	   *comm_staged(KComm *below, const struct Dev *dev, struct DevWait *w);
/*
 * For a staged communicator: use the device's own communicator from now on.  All its ranks open it at
 * once; c has the rank and their number.
 */
bool		comm_staged_direct(KComm *c, const struct KDevCommOpen *o, Err *e);
void		comm_staged_by_host(KComm *c);	/* use the host's memory again */
/*
 * For a staged communicator: with `alone`, don't notify or wait for other ranks, and return zeros for
 * their data; without it, communicate again.
 */
void		comm_staged_alone(KComm *c, bool alone);

#endif
