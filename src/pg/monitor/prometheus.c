/*
 * prometheus.c
 *	  The engine's metrics: llm_metrics_text() as Prometheus text, llm_metrics() as rows.
 *
 * Names are vLLM's, so that its dashboards work: "vllm:" and one row for each model of this database
 * that the engine has served, with label model_name.  Models with the same files share an instance;
 * only the first of them has the instance's metrics, so that sums are right.  Metrics without a name
 * in vLLM begin with "vllm_pg:".  Counters start at 0 with the engine; monitoring systems handle such
 * resets.
 *
 * Both functions walk over the same families and differ in their Output.  The rows of metrics.def
 * count by instance; counters[] and histograms.def count by request.
 *
 * Tests: tests/sql/31_metrics.sql, tests/t/083_http.pl, tests/t/095_observability.pl.
 */
#include "postgres.h"

#include <time.h>

#include "common/shortest_dec.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/jsonb.h"

#include "pg/catalog/model_catalog.h"
#include "pg/catalog/engine_stats.h"
#include "pg/client/slots.h"
#include "pg/vllm_pg.h"

#define POSITION "position=\""

PG_FUNCTION_INFO_V1(llm_metrics_text);
PG_FUNCTION_INFO_V1(llm_metrics);

/* A model and its metrics. */
typedef struct PrometheusLine
{
	const char *name;
	const WireModelStat *ms;
	int			instance;		/* number of the instance; models with the same files share one */
	bool		first;			/* the first model of its instance, which has the instance's metrics */
} PrometheusLine;

/* The destination of metrics.  Labels other than the model's have Prometheus' format: a="b",c="d". */
typedef struct Output Output;
struct Output
{
	void		(*family) (Output *o, const char *name, const char *type, const char *help);
	void		(*number) (Output *o, const PrometheusLine *l, const char *labels, double value);
	void		(*histogram) (Output *o, const PrometheusLine *l, WireHistId id);
	const char *name;			/* name of the current family */
	const char *type;
	StringInfoData text;		/* for text */
	ReturnSetInfo *rows;		/* for rows */
};

/* ---- output as text ---- */

static void
put_family(Output *o, const char *name, const char *type, const char *help)
{
	appendStringInfo(&o->text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/*
 * Append {engine="0",model_name="..."} and other labels; backslash, quote and newline in a value are
 * escaped.
 */
static void
put_labels(StringInfo s, const PrometheusLine *l, const char *labels)
{
	if (l == NULL && labels[0] == '\0')
		return;
	appendStringInfoChar(s, '{');
	if (l != NULL)
	{
		appendStringInfoString(s, "engine=\"0\",model_name=\"");
		for (const char *p = l->name; *p != '\0'; p++)
		{
			if (*p == '\\' || *p == '"')
				appendStringInfoChar(s, '\\');
			if (*p == '\n')
				appendStringInfoString(s, "\\n");
			else
				appendStringInfoChar(s, *p);
		}
		appendStringInfo(s, "\"%s", labels[0] != '\0' ? "," : "");
	}
	appendStringInfo(s, "%s}", labels);
}

static void
put_number(Output *o, const PrometheusLine *l, const char *labels, double value)
{
	char		buf[DOUBLE_SHORTEST_DECIMAL_LEN];

	double_to_shortest_decimal_buf(value, buf);
	appendStringInfoString(&o->text, o->name);
	put_labels(&o->text, l, labels);
	appendStringInfo(&o->text, " %s\n", buf);
}

static double
hist_sum(const WireHist *h, WireHistId id)
{
	return wire_hist_is_time(id) ? h->sum / 1e6 : (double) h->sum;
}

static void
put_histogram(Output *o, const PrometheusLine *l, WireHistId id)
{
	const WireHist *h = &l->ms->hist[id];
	const char *family = o->name;
	int			n;
	const double *bounds = wire_hist_bounds(id, &n);
	int64		total = 0;

	o->name = psprintf("%s_bucket", family);
	for (int i = 0; i <= n; i++)
	{
		total += h->count[i];
		put_number(o, l, i < n ? psprintf("le=\"%.10g\"", bounds[i]) : "le=\"+Inf\"", total);
	}
	o->name = psprintf("%s_sum", family);
	put_number(o, l, "", hist_sum(h, id));
	o->name = psprintf("%s_count", family);
	put_number(o, l, "", total);
	o->name = family;
}

/* ---- output as rows ---- */

static void
row_family(Output *o, const char *name, const char *type, const char *help)
{
}

static Datum
jsonb_of(const StringInfoData *s)
{
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(s->data));
}

/* Return the labels as an object; those of a text a="b",c="d" need no escapes. */
static Datum
row_labels(const PrometheusLine *l, const char *labels)
{
	StringInfoData s;

	initStringInfo(&s);
	appendStringInfoChar(&s, '{');
	if (l != NULL)
	{
		appendStringInfoString(&s, "\"engine\": \"0\", \"model_name\": ");
		escape_json(&s, l->name);
	}
	while (labels[0] != '\0')
	{
		const char *eq = strchr(labels, '=');
		const char *end = strchr(eq + 2, '"') + 1;

		appendStringInfo(&s, "%s\"%.*s\": %.*s", s.len > 1 ? ", " : "", (int) (eq - labels), labels,
						 (int) (end - eq - 1), eq + 1);
		labels = *end == ',' ? end + 1 : end;
	}
	appendStringInfoChar(&s, '}');
	return jsonb_of(&s);
}

static void
row_number(Output *o, const PrometheusLine *l, const char *labels, double value)
{
	Datum		values[7] = {CStringGetTextDatum(o->name), CStringGetTextDatum(o->type),
							 row_labels(l, labels), Float8GetDatum(value)};
	bool		nulls[7] = {[4] = true, [5] = true, [6] = true};

	tuplestore_putvalues(o->rows->setResult, o->rows->setDesc, values, nulls);
}

static void
row_histogram(Output *o, const PrometheusLine *l, WireHistId id)
{
	const WireHist *h = &l->ms->hist[id];
	Datum		values[7] = {CStringGetTextDatum(o->name), CStringGetTextDatum(o->type), row_labels(l, "")};
	bool		nulls[7] = {[3] = true};
	StringInfoData s;
	int			n;
	const double *bounds = wire_hist_bounds(id, &n);
	int64		total = 0;

	initStringInfo(&s);
	for (int i = 0; i <= n; i++)
	{
		total += h->count[i];
		if (i < n)
			appendStringInfo(&s, "%s\"%.10g\": " INT64_FORMAT, i == 0 ? "{" : ", ", bounds[i], total);
		else
			appendStringInfo(&s, ", \"+Inf\": " INT64_FORMAT "}", total);
	}
	values[4] = Float8GetDatum(hist_sum(h, id));
	values[5] = Int64GetDatum(total);
	values[6] = jsonb_of(&s);
	tuplestore_putvalues(o->rows->setResult, o->rows->setDesc, values, nulls);
}

/* ---- the metrics ---- */

static void
family(Output *o, const char *name, const char *type, const char *help)
{
	o->name = name;
	o->type = type;
	o->family(o, name, type, help);
}

static bool
has_instance(List *lines, int instance)
{
	ListCell   *lc;

	foreach(lc, lines)
		if (((PrometheusLine *) lfirst(lc))->instance == instance)
			return true;
	return false;
}

/* Return the models of this database that the engine, or the remote program, has served. */
static List *
collect(const StatsOfAll *all)
{
	List	   *lines = NIL;
	ListCell   *lc;

	foreach(lc, catalog_list())
	{
		ModelRow   *m = lfirst(lc);
		WireModelStat *ms = stats_of_model(all, m);
		PrometheusLine *line;

		if (ms == NULL)
			continue;
		line = palloc(sizeof(PrometheusLine));
		line->name = m->name;
		line->ms = ms;
		/* each remote model has an instance of its own */
		line->instance = catalog_is_remote(m) ? WIRE_MAX_MODELS + list_length(lines) :
			ms->shared_with >= 0 ? ms->shared_with : (int) (ms - all->engine->models);
		line->first = !has_instance(lines, line->instance);
		lines = lappend(lines, line);
	}
	return lines;
}

/* Return a word of the arena with the characters that a label may have. */
static const char *
arena_word(const char *s, size_t size)
{
	size_t		n = strnlen(s, size);

	return pnstrdup(s, Min(n, strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_")));
}

/* Metrics that count requests, by model. */
static const struct
{
	const char *name;
	size_t		offset;			/* offset of an int64 in WireModelStat */
	const char *help;
}			counters[] = {
	{"vllm:num_preemptions_total", offsetof(WireModelStat, preemptions),
	 "Preemptions: requests that lost their KV blocks and were computed again."},
	{"vllm:prompt_tokens_total", offsetof(WireModelStat, prefilled_tokens),
	 "Prompt tokens, counted when they have been computed."},
	{"vllm:prompt_tokens_cached_total", offsetof(WireModelStat, reused_tokens),
	 "Prompt tokens found in the prefix cache."},
	{"vllm:generation_tokens_total", offsetof(WireModelStat, generated_tokens),
	 "Generated tokens."},
	{"vllm_pg:requests_total", offsetof(WireModelStat, requests), "Requests that have arrived."},
};

static void
put_counters(Output *o, List *lines)
{
	ListCell   *lc;

	for (int i = 0; i < lengthof(counters); i++)
	{
		family(o, counters[i].name, "counter", counters[i].help);
		foreach(lc, lines)
		{
			const PrometheusLine *l = lfirst(lc);

			o->number(o, l, "", *(const int64 *) ((const char *) l->ms + counters[i].offset));
		}
	}
	family(o, "vllm:prompt_tokens_by_source_total", "counter",
		   "Prompt tokens by source.");
	foreach(lc, lines)
	{
		const PrometheusLine *l = lfirst(lc);

		o->number(o, l, "source=\"local_compute\"", l->ms->prefilled_tokens - l->ms->reused_tokens);
		o->number(o, l, "source=\"local_cache_hit\"", l->ms->reused_tokens - l->ms->back_tokens);
		o->number(o, l, "source=\"external_kv_transfer\"", l->ms->back_tokens);
	}
}

/* Write the metrics of instances; rows of one metric are adjacent. */
static void
put_figures(Output *o, List *lines)
{
	static const char *const kinds[] = {[WIRE_COUNTER] = "counter", [WIRE_GAUGE] = "gauge",
										[WIRE_PEAK] = "gauge", [WIRE_LIMIT] = "gauge"};
	const char *last = "";

	for (int i = 0; i < WIRE_N_FIGURES; i++)
	{
		const WireFigureDef *f = &wire_figures[i];
		ListCell   *lc;

		if (f->metric[0] == '\0')
			continue;
		if (strcmp(f->metric, last) != 0)
			family(o, f->metric, kinds[f->kind], f->help);
		last = f->metric;
		foreach(lc, lines)
		{
			const PrometheusLine *l = lfirst(lc);
			int64		value = *wire_figure((WireFigures *) &l->ms->fig, i);

			/* skip draft positions without an accepted token, except position 0 */
			if (l->first && (value != 0 || strncmp(f->labels, POSITION, strlen(POSITION)) != 0 ||
							 f->labels[strlen(POSITION)] == '0'))
				o->number(o, l, f->labels, value);
		}
	}
}

/*
 * Return a comma-separated list of adapters' names, in which the engine has replaced special
 * characters.
 */
static const char *
arena_names(const char *s, size_t size)
{
	size_t		n = strnlen(s, size);

	return pnstrdup(s,
					Min(n, strspn(s,
								  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.:/?,")));
}

/* Write the adapters of models whose adapters were used. */
static void
put_loras(Output *o, List *lines)
{
	ListCell   *lc;
	bool		any = false;

	foreach(lc, lines)
	{
		const PrometheusLine *l = lfirst(lc);

		if (!l->first || l->ms->max_loras <= 0)
			continue;
		if (!any)
			family(o, "vllm:lora_requests_info", "gauge",
				   "Adapters of running and waiting requests; the value is the time of the sample.");
		any = true;
		o->number(o, l, psprintf("max_lora=\"%d\",waiting_lora_adapters=\"%s\",running_lora_adapters=\"%s\"",
								 l->ms->max_loras,
								 arena_names(l->ms->loras_waiting, sizeof(l->ms->loras_waiting)),
								 arena_names(l->ms->loras_running, sizeof(l->ms->loras_running))),
								 (double) time(NULL));
	}
}

static void
put_derived(Output *o, List *lines)
{
	ListCell   *lc;

	family(o, "vllm:num_requests_waiting_by_reason", "gauge",
		   "Waiting requests by reason: capacity, or deferred by a limit or an adapter.");
	foreach(lc, lines)
	{
		const PrometheusLine *l = lfirst(lc);

		if (!l->first)
			continue;
		o->number(o, l, "reason=\"capacity\"", l->ms->fig.waiting - l->ms->fig.waiting_deferred);
		o->number(o, l, "reason=\"deferred\"", l->ms->fig.waiting_deferred);
	}
	family(o, "vllm:kv_cache_usage_perc", "gauge", "Fraction of the KV cache in use, 0 to 1.");
	foreach(lc, lines)
	{
		const PrometheusLine *l = lfirst(lc);

		o->number(o, l, "", l->ms->fig.kv_blocks_total > 0
				  ? (double) l->ms->fig.kv_blocks_used / l->ms->fig.kv_blocks_total : 0.0);
	}
	family(o, "vllm:engine_sleep_state", "gauge",
		   "Sleep state of the model: awake, weights in a file, or all memory freed.");
	foreach(lc, lines)
	{
		const PrometheusLine *l = lfirst(lc);
		int			level = l->ms->asleep & WIRE_SLEEP_WEIGHTS ? l->ms->sleep_level : 0;

		o->number(o, l, "sleep_state=\"awake\"", l->ms->asleep == 0);
		o->number(o, l, "sleep_state=\"weights_offloaded\"", level == 1);
		o->number(o, l, "sleep_state=\"discard_all\"", level == 2);
	}
	put_loras(o, lines);
	family(o, "vllm:cache_config_info", "gauge", "The KV cache.");
	foreach(lc, lines)
	{
		const WireModelStat *ms = ((PrometheusLine *) lfirst(lc))->ms;

		if (ms->block_size > 0)
			o->number(o, lfirst(lc), psprintf("block_size=\"%d\",cache_dtype=\"%s\","
											  "enable_prefix_caching=\"%s\",kv_cache_memory_bytes=\""
											  INT64_FORMAT "\",num_gpu_blocks=\"" INT64_FORMAT "\"",
											  ms->block_size, arena_word(ms->kv_dtype, sizeof(ms->kv_dtype)),
											  ms->prefix_caching ? "True" : "False", ms->fig.kv_bytes,
											  ms->fig.kv_blocks_total), 1);
	}
}

static void
put_ends(Output *o, List *lines)
{
	static const char *const ends[WIRE_N_ENDS] = {
		[WE_STOP] = "finished_reason=\"stop\"", [WE_LENGTH] = "finished_reason=\"length\"",
		[WE_REPETITION] = "finished_reason=\"repetition\"", [WE_ABORT] = "finished_reason=\"abort\"",
		[WE_ERROR] = "finished_reason=\"error\""
	};
	ListCell   *lc;

	family(o, "vllm:request_success_total", "counter", "Requests that have ended, by finish reason.");
	foreach(lc, lines)
		for (int i = 0; i < WIRE_N_ENDS; i++)
			o->number(o, lfirst(lc), ends[i], ((PrometheusLine *) lfirst(lc))->ms->ended[i]);
}

static void
put_histograms(Output *o, List *lines)
{
	ListCell   *lc;

	for (int id = 0; id < WIRE_N_HISTS; id++)
	{
		family(o, psprintf("vllm:%s", wire_hist_metric(id)), "histogram", wire_hist_text(id));
		foreach(lc, lines)
			if (((PrometheusLine *) lfirst(lc))->first || id < WH_ITERATION)
				o->histogram(o, lfirst(lc), id);
	}
}

static void
put_one(Output *o, const char *name, const char *type, const char *help, double value)
{
	family(o, name, type, help);
	o->number(o, NULL, "", value);
}

/* Write the metrics of the engine as a whole. */
static void
put_engine(Output *o, const WireStats *stats)
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
	put_one(o, "vllm_pg:engine_ready", "gauge", "1 if the engine serves requests.",
			pg_atomic_read_u32(&v->state) == VLLM_READY);
	put_one(o, "vllm_pg:engine_restarts_total", "counter", "Engines started after the first one.", restarts);
	put_one(o, "vllm_pg:slots_used", "gauge", "Calls of all databases that hold a request slot.", used);
	put_one(o, "vllm_pg:slots_waiting", "gauge", "Calls that wait for a slot.", waiting);
	if (stats == NULL)
		return;
	put_one(o, "vllm_pg:steps_total", "counter", "Forward passes.", stats->steps);
	put_one(o, "vllm_pg:engine_resident_bytes", "gauge", "Memory of the engine process.", stats->rss_bytes);
	if (stats->n_devices > 0)
		family(o, "vllm_pg:gpu_memory_bytes", "gauge", "GPU memory that models use.");
	for (uint32 i = 0; i < Min(stats->n_devices, WIRE_MAX_DEVICES); i++)
		o->number(o, NULL, psprintf("device=\"%d\"", stats->devices[i].ordinal),
				  stats->devices[i].engine_bytes);
}

/* Write the metrics of the remote program as a whole. */
static void
put_remote(Output *o)
{
	VllmShared *v = vllm_shared;
	int			used;
	int64		restarts;

	LWLockAcquire(v->lock, LW_SHARED);
	used = vslot_remote_used();
	restarts = v->remote.restarts;
	LWLockRelease(v->lock);
	put_one(o, "vllm_pg:remote_ready", "gauge", "1 if the program that calls endpoints runs.",
			pg_atomic_read_u32(&v->remote.state) == VLLM_READY);
	put_one(o, "vllm_pg:remote_restarts_total", "counter", "Remote programs started after the first one.",
			restarts);
	put_one(o, "vllm_pg:remote_slots_used", "gauge", "Request slots in use by requests to endpoints.",
			used);
}

/* A url of a model and the remote program's metrics of it. */
typedef struct UrlLine
{
	PrometheusLine line;			/* only its name is used */
	const WireEndpoint *e;
	const char *labels;
} UrlLine;

/* Return the urls that requests were sent to.  The url itself is shown only to roles that may see it. */
static List *
collect_urls(const StatsOfAll *all)
{
	List	   *lines = NIL;
	ListCell   *lc;
	ListCell   *lu;

	foreach(lc, catalog_list())
	{
		ModelRow   *m = lfirst(lc);
		int			n = 0;

		if (!catalog_is_remote(m))
			continue;
		foreach(lu, catalog_urls(m))
		{
			UrlLine    *u = palloc0(sizeof(UrlLine));
			char	   *url = pstrdup(catalog_may_see_path(m) ? lfirst(lu) : "");

			/* characters that a label would have to escape don't occur in valid urls */
			for (char *p = url; *p != '\0'; p++)
				if (*p == '"' || *p == '\\')
					*p = '?';
			u->line.name = m->name;
			u->labels = psprintf("endpoint=\"%d\",url=\"%s\"", n++, url);
			u->e = stats_of_url(all, m, lfirst(lu));
			if (u->e != NULL)
				lines = lappend(lines, u);
		}
	}
	return lines;
}

static void
put_urls(Output *o, const StatsOfAll *all)
{
	static const struct
	{
		const char *name;
		const char *type;
		size_t		offset;		/* offset in WireEndpoint */
		bool		wide;		/* an int64, else an int32 */
		const char *help;
	}			figures[] = {
		{"vllm_pg:remote_calls_total", "counter", offsetof(WireEndpoint, calls), true,
		 "Calls to the endpoint."},
		{"vllm_pg:remote_failures_total", "counter", offsetof(WireEndpoint, failures), true,
		 "Calls that failed."},
		{"vllm_pg:remote_retries_total", "counter", offsetof(WireEndpoint, retries), true,
		 "Calls that were retries."},
		{"vllm_pg:remote_throttled_total", "counter", offsetof(WireEndpoint, throttled), true,
		 "Calls that failed with status 429, too many requests."},
		{"vllm_pg:remote_in_flight", "gauge", offsetof(WireEndpoint, in_flight), false, "Calls in progress."},
		{"vllm_pg:remote_waiting", "gauge", offsetof(WireEndpoint, waiting), false,
		 "Requests that wait for the endpoint's limits."},
	};
	List	   *lines = collect_urls(all);
	ListCell   *lc;

	for (int i = 0; lines != NIL && i < lengthof(figures); i++)
	{
		family(o, figures[i].name, figures[i].type, figures[i].help);
		foreach(lc, lines)
		{
			const UrlLine *u = lfirst(lc);
			const char *at = (const char *) u->e + figures[i].offset;

			o->number(o, &u->line, u->labels, figures[i].wide ? (double) *(const int64 *) at :
					  *(const int32 *) at);
		}
	}
	if (lines == NIL)
		return;
	family(o, "vllm_pg:remote_up", "gauge",
		   "1 if the endpoint answers or has not been called, 0 if it gets no calls for a while.");
	foreach(lc, lines)
		o->number(o, &((UrlLine *) lfirst(lc))->line, ((UrlLine *) lfirst(lc))->labels,
				  ((UrlLine *) lfirst(lc))->e->health != WIRE_HEALTH_DOWN);
	family(o, "vllm_pg:remote_latency_seconds", "gauge", "Moving average of the duration of calls.");
	foreach(lc, lines)
		o->number(o, &((UrlLine *) lfirst(lc))->line, ((UrlLine *) lfirst(lc))->labels,
				  ((UrlLine *) lfirst(lc))->e->latency_us / 1e6);
}

static void
put_all(Output *o)
{
	StatsOfAll	all;
	List	   *lines;

	if (vllm_shared == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("vllm_pg must be loaded when the server starts"),
				 errhint("Add shared_preload_libraries = 'vllm_pg' to postgresql.conf and restart the "
						 "server.")));
	all = stats_of_all();
	lines = collect(&all);
	put_figures(o, lines);
	put_counters(o, lines);
	put_derived(o, lines);
	put_ends(o, lines);
	put_histograms(o, lines);
	put_engine(o, all.engine);
	put_remote(o);
	put_urls(o, &all);
}

Datum
llm_metrics_text(PG_FUNCTION_ARGS)
{
	Output		o = {.family = put_family, .number = put_number, .histogram = put_histogram};

	initStringInfo(&o.text);
	put_all(&o);
	PG_RETURN_TEXT_P(cstring_to_text_with_len(o.text.data, o.text.len));
}

Datum
llm_metrics(PG_FUNCTION_ARGS)
{
	Output		o = {.family = row_family, .number = row_number, .histogram = row_histogram};

	InitMaterializedSRF(fcinfo, 0);
	o.rows = (ReturnSetInfo *) fcinfo->resultinfo;
	put_all(&o);
	return (Datum) 0;
}
