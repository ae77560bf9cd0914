/*
 * fn_metrics.c
 *	  llm_metrics_text(): the engine's figures as Prometheus text.
 *
 * Names are vLLM's, so that its dashboards work: "vllm:" and one row for each model of this database
 * that the engine has heard of, label model_name.  Models of the same files share an instance, whose figures
 * the first of them has, so that sums are right.  What vLLM has no name for begins with "vllm_pg:".
 * Counters start at 0 with the engine; monitoring systems know such resets.
 *
 * Tests: tests/sql/31_keys.sql, tests/t/083_http.pl.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/builtins.h"

#include "pg/catalog.h"
#include "pg/engine_stats.h"
#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_metrics_text);

/* A model's label and figures. */
typedef struct Line
{
	char	   *label;			/* model_name="..." */
	const WireModelStat *ms;
	int			instance;		/* models of the same files share one: its number */
	bool		first;			/* of those that share it, which tells what is the instance's */
} Line;

static void
head(StringInfo s, const char *name, const char *type, const char *help)
{
	appendStringInfo(s, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* A label's value: backslash, quote and line end are escaped. */
static char *
label(const char *name)
{
	StringInfoData s;

	initStringInfo(&s);
	appendStringInfoString(&s, "engine=\"0\",model_name=\"");
	for (const char *p = name; *p != '\0'; p++)
	{
		if (*p == '\\' || *p == '"')
			appendStringInfoChar(&s, '\\');
		if (*p == '\n')
			appendStringInfoString(&s, "\\n");
		else
			appendStringInfoChar(&s, *p);
	}
	appendStringInfoChar(&s, '"');
	return s.data;
}

static bool
has_instance(List *lines, int instance)
{
	ListCell   *lc;

	foreach(lc, lines)
		if (((Line *) lfirst(lc))->instance == instance)
			return true;
	return false;
}

/* Models of this database that the engine knows. */
static List *
collect(WireStats *stats)
{
	List	   *lines = NIL;
	ListCell   *lc;

	if (stats == NULL)
		return NIL;
	foreach(lc, catalog_list())
	{
		ModelRow   *m = lfirst(lc);
		WireModelStat *ms = engine_stats_of_model(stats, m);
		Line	   *line;

		if (ms == NULL)
			continue;
		line = palloc(sizeof(Line));
		line->label = label(m->name);
		line->ms = ms;
		line->instance = ms->shared_with >= 0 ? ms->shared_with : (int) (ms - stats->models);
		line->first = !has_instance(lines, line->instance);
		lines = lappend(lines, line);
	}
	return lines;
}

typedef struct Figure
{
	const char *name;
	const char *type;
	size_t		offset;			/* of an int64 of WireModelStat */
	bool		of_instance;	/* not of the model alone */
	const char *help;
} Figure;

static const Figure figures[] = {
	{"vllm:num_requests_running", "gauge", offsetof(WireModelStat, running), true, "Requests in steps."},
	{"vllm:num_requests_waiting", "gauge", offsetof(WireModelStat, waiting), true, "Requests that wait for a place in a step."},
	{"vllm:num_preemptions_total", "counter", offsetof(WireModelStat, preemptions), false, "Requests that gave their KV blocks back and were computed again."},
	{"vllm:prompt_tokens_total", "counter", offsetof(WireModelStat, prefilled_tokens), false, "Tokens of prompts, when they have been computed."},
	{"vllm:generation_tokens_total", "counter", offsetof(WireModelStat, generated_tokens), false, "Tokens of answers, as they come."},
	{"vllm_pg:requests_total", "counter", offsetof(WireModelStat, requests), false, "Requests that have come."},
};

static void
put_figures(StringInfo s, List *lines)
{
	ListCell   *lc;

	for (int i = 0; i < lengthof(figures); i++)
	{
		const Figure *f = &figures[i];

		head(s, f->name, f->type, f->help);
		foreach(lc, lines)
		{
			const Line *l = lfirst(lc);

			if (l->first || !f->of_instance)
				appendStringInfo(s, "%s{%s} " INT64_FORMAT "\n", f->name, l->label, *(const int64 *) ((const char *) l->ms + f->offset));
		}
	}
	head(s, "vllm:kv_cache_usage_perc", "gauge", "Part of the KV cache in use; 1 is all.");
	foreach(lc, lines)
	{
		const Line *l = lfirst(lc);

		appendStringInfo(s, "vllm:kv_cache_usage_perc{%s} %g\n", l->label,
						 l->ms->kv_blocks_total > 0 ? (double) l->ms->kv_blocks_used / l->ms->kv_blocks_total : 0.0);
	}
	head(s, "vllm:cache_config_info", "gauge", "The KV cache.");
	foreach(lc, lines)
	{
		const Line *l = lfirst(lc);

		if (l->ms->kv_blocks_total > 0)
			appendStringInfo(s, "vllm:cache_config_info{%s,block_size=\"%d\",num_gpu_blocks=\"" INT64_FORMAT "\"} 1\n",
							 l->label, vllm_block_size, l->ms->kv_blocks_total);
	}
}

static void
put_ends(StringInfo s, List *lines)
{
	static const char *const ends[WIRE_N_ENDS] = {
		[WE_STOP] = "stop",[WE_LENGTH] = "length",[WE_REPETITION] = "repetition",[WE_ABORT] = "abort",[WE_ERROR] = "error"
	};
	ListCell   *lc;

	head(s, "vllm:request_success_total", "counter", "Requests that have ended, by how.");
	foreach(lc, lines)
	{
		const Line *l = lfirst(lc);

		for (int i = 0; i < WIRE_N_ENDS; i++)
			appendStringInfo(s, "vllm:request_success_total{%s,finished_reason=\"%s\"} " INT64_FORMAT "\n",
							 l->label, ends[i], l->ms->ended[i]);
	}
}

static void
put_histogram(StringInfo s, const Line *l, WireHistId id)
{
	const WireHist *h = &l->ms->hist[id];
	const char *name = wire_hist_metric(id);
	int			n;
	const double *bounds = wire_hist_bounds(id, &n);
	int64		total = 0;

	for (int i = 0; i <= n; i++)
	{
		total += h->count[i];
		if (i < n)
			appendStringInfo(s, "vllm:%s_bucket{%s,le=\"%.10g\"} " INT64_FORMAT "\n", name, l->label, bounds[i], total);
		else
			appendStringInfo(s, "vllm:%s_bucket{%s,le=\"+Inf\"} " INT64_FORMAT "\n", name, l->label, total);
	}
	appendStringInfo(s, "vllm:%s_sum{%s} %.17g\nvllm:%s_count{%s} " INT64_FORMAT "\n", name, l->label,
					 wire_hist_is_time(id) ? h->sum / 1e6 : (double) h->sum, name, l->label, total);
}

/* The engine as a whole. */
static void
put_engine(StringInfo s, const WireStats *stats)
{
	VllmShared *v = vllm_shared;
	int			used;
	int			waiting;
	int64		restarts;

	LWLockAcquire(v->lock, LW_SHARED);
	used = v->n_slots - v->n_free;
	waiting = v->wait_len;
	restarts = v->restarts;
	LWLockRelease(v->lock);
	head(s, "vllm_pg:engine_ready", "gauge", "1: the engine serves.");
	appendStringInfo(s, "vllm_pg:engine_ready %d\n", pg_atomic_read_u32(&v->state) == VLLM_READY);
	head(s, "vllm_pg:engine_restarts_total", "counter", "Engines started after the first one.");
	appendStringInfo(s, "vllm_pg:engine_restarts_total " INT64_FORMAT "\n", restarts);
	head(s, "vllm_pg:slots_used", "gauge", "Calls that have a slot, of all databases.");
	appendStringInfo(s, "vllm_pg:slots_used %d\n", used);
	head(s, "vllm_pg:slots_waiting", "gauge", "Calls that wait for a slot.");
	appendStringInfo(s, "vllm_pg:slots_waiting %d\n", waiting);
	if (stats == NULL)
		return;
	head(s, "vllm_pg:steps_total", "counter", "Forward passes.");
	appendStringInfo(s, "vllm_pg:steps_total " INT64_FORMAT "\n", stats->steps);
	head(s, "vllm_pg:engine_resident_bytes", "gauge", "Memory of the engine process.");
	appendStringInfo(s, "vllm_pg:engine_resident_bytes " INT64_FORMAT "\n", stats->rss_bytes);
}

Datum
llm_metrics_text(PG_FUNCTION_ARGS)
{
	StringInfoData s;
	WireStats  *stats;
	List	   *lines;
	ListCell   *lc;

	initStringInfo(&s);
	if (vllm_shared == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("vllm_pg must be loaded when the server starts"),
				 errhint("Add shared_preload_libraries = 'vllm_pg' to postgresql.conf and restart the server.")));
	stats = engine_stats_snapshot();
	lines = collect(stats);
	put_figures(&s, lines);
	put_ends(&s, lines);
	for (int id = 0; id < WIRE_N_HISTS; id++)
	{
		char	   *name = psprintf("vllm:%s", wire_hist_metric(id));

		head(&s, name, "histogram", wire_hist_text(id));
		foreach(lc, lines)
			if (((Line *) lfirst(lc))->first || id != WH_ITERATION)
				put_histogram(&s, lfirst(lc), id);
	}
	put_engine(&s, stats);
	PG_RETURN_TEXT_P(cstring_to_text_with_len(s.data, s.len));
}
