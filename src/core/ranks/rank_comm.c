/*
 * rank_comm.c
 *	  Each rank's part of opening a communicator of the devices.
 *
 * Tested by tests/t/104_nccl.pl.
 */
#include "core/ranks/rank_comm.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"

#define OPEN_US	INT64_C(60000000)	/* an opening that takes longer has failed */

bool
rank_meet(const Dev *dev, int ordinal, const char *library, char *out, size_t size, Err *e)
{
	KDevInfo	info;
	char		version[32];
	char		why[256] = "";

	if (!dev->ops->comm->find(library, version, sizeof(version), why, sizeof(why)))
	{
		log_line('I', "NCCL can't be used: %s", why);
		return err_set(e, ERR_UNSUPPORTED, "NCCL can't be used");
	}
	devices_info(ordinal, &info);
	snprintf(out, size, "%s %s", info.uuid, version);
	return true;
}

static bool
is_opening(void *ctx)
{
	RankCommOpening *h = ctx;

	if (!groupmem_lives(h->g))
		return false;
	if (h->number == 0)
		return true;
	if (clock_us() > h->until_us)
		groupmem_refuse(h->g, h->number);
	return !groupmem_refused(h->g, h->number);
}

bool
rank_connect(RankCommOpening *h, GroupMem *g, int tp, const RankComm *t, Model *m, Err *e)
{
	ModelComm	model_comm = {
		.library = t->library,.tp_id = t->ids[g->rank / tp],.pp_id = t->ids[g->world / tp + g->rank % tp],
		.lives = is_opening,.ctx = h
	};

	*h = (RankCommOpening) {g, t->number, clock_us() + OPEN_US};
	if (!model_connect(m, &model_comm, e))
	{
		log_line('W', "NCCL could not be opened: %s", e->msg);
		groupmem_refuse(g, t->number);
		return false;
	}
	h->number = 0;
	return true;
}
