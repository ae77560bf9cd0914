/*
 * engine_stats.h
 *	  What the engine says of itself (fn_views.c).
 */
#ifndef VLLM_PG_ENGINE_STATS_H
#define VLLM_PG_ENGINE_STATS_H

#include "postgres.h"

#include "pg/catalog.h"
#include "wire/wire.h"

/* A whole copy, palloc'ed; NULL: there is no engine. */
WireStats  *engine_stats_snapshot(void);
/* Of a model of this database; NULL: the engine has not heard of it. */
WireModelStat *engine_stats_of_model(WireStats *stats, const ModelRow *m);

#endif
