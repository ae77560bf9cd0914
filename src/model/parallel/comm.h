/*
 * comm.h
 *	  What the ranks of a model say to each other.
 *
 * Every rank makes the same calls in the same order, with the same sizes.  Buffers are the device's memory;
 * elements are of `size` bytes.  A sum is that of rank 0's part, rank 1's, ... in this order (but by a
 * device's own communicator only where that was opened for invariant bits), and has the same bits on all
 * ranks.  Nothing fails: when a rank is gone failed() says so, what buffers hold is of no use, and the
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
	 * Columns side by side: rank r has rows of columns starts[r] .. starts[r + 1] - 1, mine[rows][that many];
	 * all[rows][starts[ranks]].  all isn't mine.
	 */
	void		(*gather) (KComm *c, KPool *pool, void *all, const void *mine, int rows,
						   const int32_t *starts, size_t size);
	void		(*sum) (KComm *c, KPool *pool, float *x, size_t n);
	/* mine: elements of x from n rank / ranks up to the next rank's, summed */
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
 * Of `size` of a group's ranks, among which this one is number `rank`, in shared memory (comm_shm.c).
 * They have this room of the group's memory for themselves.
 */
KComm	   *comm_shm(GroupMem *g, int room, int rank, int size);

/*
 * For buffers of a device: `below` does it with copies of them in the host's memory (comm_device.c).  It is
 * freed before the device is closed, and before `below`, which stays its maker's.  w: who is told while the
 * device is waited for; NULL = nobody.
 */
KComm	   *comm_staged(KComm *below, const struct Dev *dev, struct DevWait *w);
/*
 * Of that one: from now on by the device's own communicator, which all its ranks open at once; the rank and
 * how many there are it knows.
 */
bool		comm_staged_direct(KComm *c, const struct KDevCommOpen *o, Err *e);
void		comm_staged_by_host(KComm *c);	/* from now on by way of the host again */
/*
 * Of that one: from now on nobody else is told or waited for, and has zeros for all that is asked; or no
 * longer so.
 */
void		comm_staged_alone(KComm *c, bool alone);

#endif
