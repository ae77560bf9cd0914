/*
 * engine_stats.h
 *	  Statistics that the engine and the remote program publish (views.c).
 */
#ifndef VLLM_PG_CATALOG_ENGINE_STATS_H
#define VLLM_PG_CATALOG_ENGINE_STATS_H

#include "postgres.h"

#include "pg/shared_state.h"
#include "pg/catalog/model_catalog.h"
#include "ipc/wire.h"

/* Return a consistent copy, palloc'ed; NULL if there is no engine. */
WireStats  *engine_stats_snapshot(void);
/* Return a copy of the remote program's; NULL if there is none. */
WireStats  *remote_stats_snapshot(void);

/* Statistics of both programs; either is NULL if the program does not run. */
typedef struct StatsOfAll
{
	WireStats  *engine;
	WireStats  *remote;
} StatsOfAll;

StatsOfAll	stats_of_all(void);
/* Return the statistics of a model of this database; NULL if neither program has served it. */
WireModelStat *stats_of_model(const StatsOfAll *all, const ModelRow *m);
/*
 * Return the remote program's statistics of one of the model's urls; NULL if it has not sent a
 * request there yet.
 */
const WireEndpoint *stats_of_url(const StatsOfAll *all, const ModelRow *m, const char *url);

/*
 * Return a copy of all slots' owners.  An entry has a request_id only if the slot has a request that
 * the user may see.
 */
VllmOwner  *engine_requests(int *n_slots);
/* Return the state of the slot's request: "running" and so on; NULL = not known. */
const char *engine_request_state(const VllmOwner *o, int slot);

#endif
