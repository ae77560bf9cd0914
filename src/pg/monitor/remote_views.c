/*
 * remote_views.c
 *	  Functions behind the views of remote models and of the remote program: url and has_secret
 *	  of llm_models, llm_stat_remote, llm_remote.
 *
 * Tests: tests/sql/33_remote_models.sql, tests/t/115_remote_views.pl.
 */
#include "postgres.h"

#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "pg/catalog/model_catalog.h"
#include "pg/catalog/engine_stats.h"
#include "pg/util/row_builder.h"
#include "pg/catalog/secret.h"
#include "pg/client/slots.h"
#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_model_urls);
PG_FUNCTION_INFO_V1(llm_url_list);
PG_FUNCTION_INFO_V1(llm_remote_state);

/* vllm.model_urls(): shown only to roles that may see a model's path */
Datum
llm_model_urls(PG_FUNCTION_ARGS)
{
	ListCell   *lc;
	Row			row = {0};

	InitMaterializedSRF(fcinfo, 0);
	foreach(lc, catalog_list())
	{
		ModelRow   *m = lfirst(lc);

		if (!catalog_is_remote(m) || !catalog_may_see_path(m))
			continue;
		row_str(&row, m->name);
		row_str(&row, m->url);
		row_datum(&row, BoolGetDatum(secret_find(m->name) != NULL));
		row_emit(&row, fcinfo);
	}
	return (Datum) 0;
}

/* ---- llm_stat_remote ---- */

static const char *
health_name(const WireEndpoint *e)
{
	switch (e ? e->health : WIRE_HEALTH_UNKNOWN)
	{
		case WIRE_HEALTH_UP:
			return "up";
		case WIRE_HEALTH_TRYING:
			return "trying";
		case WIRE_HEALTH_DOWN:
			return "down";
		default:
			return "unknown";
	}
}

static void
url_row(Row *row, const ModelRow *m, const char *url, const WireEndpoint *e)
{
	static const WireEndpoint none = {0};
	const WireEndpoint *v = e ? e : &none;

	row_str(row, m->name);
	row_str(row, url);
	row_str(row, health_name(e));
	row_datum(row, Int32GetDatum(v->in_flight));
	row_datum(row, Int32GetDatum(v->waiting));
	row_int(row, v->calls);
	row_int(row, v->failures);
	row_int(row, v->retries);
	row_int(row, v->throttled);
	if (v->latency_us > 0)
		row_num(row, v->latency_us / 1000.0);
	else
		row_null(row);
	row_engine_time(row, v->retry_us);
	row_arena_str(row, v->error, sizeof(v->error));
}

/* vllm.url_list(): urls of models whose urls the user may see */
Datum
llm_url_list(PG_FUNCTION_ARGS)
{
	StatsOfAll	all = {0};
	ListCell   *lc;
	ListCell   *lu;
	Row			row = {0};

	InitMaterializedSRF(fcinfo, 0);
	all.remote = remote_stats_snapshot();
	foreach(lc, catalog_list())
	{
		ModelRow   *m = lfirst(lc);

		if (!catalog_is_remote(m) || !catalog_may_see_path(m))
			continue;
		foreach(lu, catalog_urls(m))
		{
			url_row(&row, m, lfirst(lu), stats_of_url(&all, m, lfirst(lu)));
			row_emit(&row, fcinfo);
		}
	}
	return (Datum) 0;
}

/* ---- llm_remote ---- */

static void
program_columns(Row *row)
{
	VllmShared *s = vllm_shared;
	VllmRemote	r;
	int			used;

	LWLockAcquire(s->lock, LW_SHARED);
	r = s->remote;
	used = vslot_remote_used();
	LWLockRelease(s->lock);
	row_str(row, vllm_state_name(pg_atomic_read_u32(&s->remote.state)));
	if (r.pid != 0)
		row_datum(row, Int32GetDatum(r.pid));
	else
		row_null(row);
	row_int(row, r.restarts);
	row_time(row, r.started_at);
	row_arena_str(row, r.last_error, sizeof(r.last_error));
	row_time(row, r.last_error_at);
	row_datum(row, Int32GetDatum(used));
}

/* vllm.remote_state(): one row, none if the library was not preloaded */
Datum
llm_remote_state(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	const WireStats *st;
	Row			row = {0};

	InitMaterializedSRF(fcinfo, 0);
	if (vllm_shared == NULL)
		return (Datum) 0;
	program_columns(&row);
	st = remote_stats_snapshot();
	if (st != NULL)
	{
		row_int(&row, st->running);
		row_int(&row, st->waiting);
		row_int(&row, st->requests);
		row_int(&row, st->finished);
		row_int(&row, st->failed);
		row_int(&row, st->cancelled);
		row_int(&row, st->prompt_tokens);
		row_int(&row, st->output_tokens);
	}
	while (row.n < rsinfo->setDesc->natts)
		row_null(&row);
	row_emit(&row, fcinfo);
	return (Datum) 0;
}
