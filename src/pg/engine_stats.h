/*
 * engine_stats.h
 *	  What the engine says of itself (fn_views.c).
 */
#ifndef VLLM_PG_ENGINE_STATS_H
#define VLLM_PG_ENGINE_STATS_H

#include "postgres.h"

#include "bgworker/state.h"
#include "pg/catalog.h"
#include "wire/wire.h"

/* A whole copy, palloc'ed; NULL: there is no engine. */
WireStats  *engine_stats_snapshot(void);
/* Of a model of this database; NULL: the engine has not heard of it. */
WireModelStat *engine_stats_of_model(WireStats *stats, const ModelRow *m);

/*
 * Who owns which slot: a copy of all.  Those with a request_id have a request that the user may
 * see, those without have none.
 */
VllmOwner  *engine_requests(int *n_slots);
/* What its request is about now: "running" and so on; NULL = not known. */
const char *engine_request_state(const VllmOwner *o, int slot);

#endif
