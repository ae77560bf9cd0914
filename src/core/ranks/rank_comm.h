/*
 * rank_comm.h
 *	  Open a communicator of the devices (NCCL) between the ranks of a model.
 *
 * After a load, when all ranks have the model, rank 0 asks the others for their device and whether they
 * can use NCCL (RC_MEET).  If all can, and no two share a device, rank 0 makes ids, and all ranks open
 * communicators at the same time (RC_COMM).  A rank that fails says so in the group's memory, which ends
 * the waits of the others; then all close their communicators (RC_APART), so either all ranks have them
 * or none.  Without NCCL, ranks exchange data through the host.
 */
#ifndef VLLM_CORE_RANKS_RANK_COMM_H
#define VLLM_CORE_RANKS_RANK_COMM_H

#include "core/ranks/rank_protocol.h"

/* How long a rank waits for the others: one per model, for the model's life. */
typedef struct RankCommOpening
{
	GroupMem   *g;
	uint32_t	number;			/* number of the opening in progress; 0 = opened */
	int64_t		until_us;		/* deadline of the opening */
} RankCommOpening;

/*
 * Describe this rank's device and its library's version, as text for the answer to RC_MEET.  Fails with
 * ERR_UNSUPPORTED; the reason goes to the log.
 */
bool		rank_meet(const Dev *dev, int ordinal, const char *library, char *out, size_t size, Err *e);
/* This rank's part of RC_COMM. */
bool		rank_connect(RankCommOpening *h, GroupMem *g, int tp, const RankComm *t, Model *m, Err *e);

#endif
