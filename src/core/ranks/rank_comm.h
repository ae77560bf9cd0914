/*
 * rank_comm.h
 *	  How the ranks of a model come to exchange by a communicator of their devices: NCCL.
 *
 * Behind a load, when all have the model: rank 0 asks the others what they have (RC_MEET) and whether they
 * can.  If all can, and each has a device that is its alone, it makes ids and all open communicators at once
 * (RC_COMM).  A rank that can't says so in the group's memory, which
 * ends the others' waiting; then all close what they have (RC_APART), so it is all ranks or none.  Without,
 * exchange goes by way of the host.
 */
#ifndef VLLM_CORE_RANKS_RANK_COMM_H
#define VLLM_CORE_RANKS_RANK_COMM_H

#include "core/ranks/rank_protocol.h"

/* How long a rank waits for other ranks before it gives up: of one model, for its life. */
typedef struct RankHope
{
	GroupMem   *g;
	uint32_t	number;			/* of the opening; 0: it is open */
	int64_t		until_us;		/* end of the opening */
} RankHope;

/*
 * What one has, as text for RC_MEET's answer: the device, and the library's version.  ERR_UNSUPPORTED, the
 * reason into the log.
 */
bool		rank_meet(const Dev *dev, int ordinal, const char *library, char *out, size_t size, Err *e);
/* One's part of RC_COMM. */
bool		rank_talk(RankHope *h, GroupMem *g, int tp, const RankComm *t, Model *m, Err *e);

#endif
