/*
 * lora_invalidate.c
 *	  Making the engine unload adapters that have been dropped.
 *
 * When a transaction commits that has dropped an adapter, or changed its path, the backend asks the
 * engine to unload the adapter with the old path.  Correctness doesn't depend on it: no request names
 * that path any more.  An adapter that stays loaded because no slot was free is evicted like any
 * unused adapter; and if another row gets the same path, its next request loads the adapter again.
 * So this needs no queue like the one for models (model_invalidate.c), whose memory nothing else
 * would free.
 *
 * A message is made when the row is changed and lives in TopMemoryContext, because at the end of a
 * transaction no code may throw or allocate.  It belongs to the nesting level that it was made in.
 *
 * Tests: tests/t/091_lora.pl.
 */
#include "postgres.h"

#include "access/xact.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "pg/catalog/model_catalog.h"
#include "pg/client/client.h"
#include "pg/util/encoding.h"
#include "pg/catalog/lora_invalidate.h"

typedef struct Removed
{
	dlist_node	node;
	int			level;			/* GetCurrentTransactionNestLevel() */
	size_t		len;
	char		message[FLEXIBLE_ARRAY_MEMBER];
} Removed;

static dlist_head removed = DLIST_STATIC_INIT(removed);

/* Send (tell) or discard the messages of nesting level `level` and deeper, and free them. */
static void
settle(int level, bool notify)
{
	dlist_mutable_iter it;

	dlist_foreach_modify(it, &removed)
	{
		Removed    *g = dlist_container(Removed, node, it.cur);

		if (g->level < level)
			continue;
		if (notify)
			(void) vclient_post(WK_LORA_UNLOAD, g->message, g->len);
		dlist_delete(&g->node);
		pfree(g);
	}
}

static void
xact_callback(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_COMMIT)
		settle(0, true);
	else if (event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
		settle(0, false);
}

static void
subxact_callback(SubXactEvent event, SubTransactionId mySubid, SubTransactionId parentSubid, void *arg)
{
	int			level = GetCurrentTransactionNestLevel();
	dlist_iter	it;

	if (event == SUBXACT_EVENT_ABORT_SUB)
		settle(level, false);
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
		dlist_foreach(it, &removed)
		{
			Removed    *g = dlist_container(Removed, node, it.cur);

			if (g->level >= level)
				g->level = level - 1;
		}
}

void
lora_release(const LoraRow *l)
{
	static bool registered = false;
	ModelRow   *m = catalog_find(l->model);
	LoraRow		row = *l;
	StringInfoData body;
	WireOut		out;
	Removed    *g;

	if (m == NULL)
		return;
	if (!registered)
	{
		RegisterXactCallback(xact_callback, NULL);
		RegisterSubXactCallback(subxact_callback, NULL);
		registered = true;
	}
	m->lora = &row;
	initStringInfo(&body);
	out = vclient_out(&body);
	catalog_put(m, &out);
	g = MemoryContextAllocZero(TopMemoryContext, offsetof(Removed, message) + body.len);
	g->level = GetCurrentTransactionNestLevel();
	g->len = body.len;
	memcpy(g->message, body.data, body.len);
	dlist_push_tail(&removed, &g->node);
}
