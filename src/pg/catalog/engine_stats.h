/*
 * engine_stats.h
 *	  What the engine and the remote program say of themselves (views.c).
 */
#ifndef VLLM_PG_CATALOG_ENGINE_STATS_H
#define VLLM_PG_CATALOG_ENGINE_STATS_H

#include "postgres.h"

#include "pg/shared_state.h"
#include "pg/catalog/model_catalog.h"
#include "ipc/wire.h"

/* A whole copy, palloc'ed; NULL: there is no engine. */
WireStats  *engine_stats_snapshot(void);
/* The remote program's; NULL: there is none. */
WireStats  *remote_stats_snapshot(void);

/* Both; either is NULL where there is none. */
typedef struct StatsOfAll
{
	WireStats  *engine;
	WireStats  *remote;
} StatsOfAll;

StatsOfAll	stats_of_all(void);
/* Of a model of this database; NULL: neither has heard of it. */
WireModelStat *stats_of_model(const StatsOfAll *all, const ModelRow *m);
/* The remote program's of one of the model's urls; NULL: it has not asked there yet. */
const WireEndpoint *stats_of_url(const StatsOfAll *all, const ModelRow *m, const char *url);

/*
 * Owners of slots: a copy of all.  Those with a request_id have a request that the user may
 * see, those without have none.
 */
VllmOwner  *engine_requests(int *n_slots);
/* What its request is about now: "running" and so on; NULL = not known. */
const char *engine_request_state(const VllmOwner *o, int slot);

#endif
