/*
 * views.c
 *	  Functions behind the views llm_models, llm_requests, llm_stat_engine and
 *	  llm_stat_model.
 *
 * There are three sources: the catalog, the supervisor's shared memory (under its lock), and the
 * arenas' statistics and live counters.  The engine and the remote program write the latter without a
 * lock; a sequence counter tells whether a copy is consistent.  An arena is not trusted: strings are
 * cut at the end of their arrays and converted like any text of the engine.
 *
 * Counters of an engine that has ended are not shown: its models are 'unloaded' then.
 *
 * Tests: tests/sql/08_views.sql, tests/sql/07_privileges.sql.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "pg/catalog/model_catalog.h"
#include "pg/client/client.h"
#include "pg/util/encoding.h"
#include "pg/catalog/engine_stats.h"
#include "pg/util/row_builder.h"
#include "pg/vllm_pg.h"
#include "ipc/host_allowlist.h"

PG_FUNCTION_INFO_V1(llm_model_list);
PG_FUNCTION_INFO_V1(llm_model_memory);
PG_FUNCTION_INFO_V1(llm_model_devices);
PG_FUNCTION_INFO_V1(llm_model_requests);
PG_FUNCTION_INFO_V1(llm_model_steps);
PG_FUNCTION_INFO_V1(llm_request_list);
PG_FUNCTION_INFO_V1(llm_engine_stats);
PG_FUNCTION_INFO_V1(llm_device_list);
PG_FUNCTION_INFO_V1(llm_memory_list);

#define SEQ_TRIES	1000

/* ---- the engine's statistics ---- */

static bool
engine_is_up(void)
{
	VllmEngineState state;

	if (vllm_shared == NULL)
		return false;
	state = pg_atomic_read_u32(&vllm_shared->state);
	return state == VLLM_READY || state == VLLM_LOADING || state == VLLM_DRAINING;
}

/*
 * Return a consistent copy; NULL if the program doesn't finish a write (stopped in the middle, or
 * faulty).
 */
static WireStats *
snapshot(const WireArena *arena)
{
	WireStats  *from = wire_stats(arena);
	WireStats  *copy = palloc(sizeof(WireStats));

	for (int i = 0; i < SEQ_TRIES; i++)
	{
		uint32		before = atomic_load_explicit(&from->seq, memory_order_acquire);

		/* of the models, only the used entries */
		memcpy(copy, from, offsetof(WireStats, models));
		copy->n_models = Min(copy->n_models, WIRE_MAX_MODELS);
		memcpy(copy->models, from->models, copy->n_models * sizeof(WireModelStat));
		atomic_thread_fence(memory_order_acquire);	/* partner: the writer's seq + 1 */
		if ((before & 1) == 0 &&
			before == atomic_load_explicit(&from->seq, memory_order_relaxed))
			return copy;
		pg_usleep(10);
	}
	return NULL;
}

WireStats *
engine_stats_snapshot(void)
{
	return engine_is_up() ? snapshot(vllm_serving_arena()) : NULL;
}

WireStats *
remote_stats_snapshot(void)
{
	return vclient_is_ready(true) ? snapshot(&vllm_arenas[VLLM_REMOTE_SIDE]) : NULL;
}

StatsOfAll
stats_of_all(void)
{
	return (StatsOfAll)
	{
		.engine = engine_stats_snapshot(),.remote = remote_stats_snapshot()
	};
}

/*
 * Return the statistics of a model.  An entry of that name with another path (url) or other options
 * belongs to a version that is about to be forgotten: its counters are valid for the name, its state
 * is not.
 */
WireModelStat *
stats_of_model(const StatsOfAll *all, const ModelRow *m)
{
	WireStats  *stats = catalog_is_remote(m) ? all->remote : all->engine;
	char	   *utf8 = pg_server_to_any(m->name, strlen(m->name), PG_UTF8);

	for (uint32 i = 0; stats && i < stats->n_models; i++)
	{
		WireModelStat *ms = &stats->models[i];

		if (ms->state == WM_UNUSED || ms->dboid != MyDatabaseId ||
			strncmp(ms->name, utf8, WIRE_NAME_LEN) != 0)
			continue;
		if (ms->hash != catalog_hash(m))
		{
			ms->state = WM_UNLOADED;
			ms->arch[0] = ms->dtype[0] = '\0';
		}
		return ms;
	}
	return NULL;
}

const WireEndpoint *
stats_of_url(const StatsOfAll *all, const ModelRow *m, const char *url)
{
	const WireStats *stats = all->remote;
	uint64		hash = catalog_hash(m);
	char		shown[sizeof(((WireEndpoint *) 0)->url)];
	size_t		query;
	size_t		base = hosts_base(url, strlen(url), &query);

	/* as the remote program stores it, cut to the field's size */
	snprintf(shown, sizeof(shown), "%.*s%s", (int) base, url, url + query);

	for (uint32 i = 0; stats && i < Min(stats->n_endpoints, WIRE_MAX_ENDPOINTS); i++)
	{
		const WireEndpoint *e = &stats->endpoints[i];

		if (e->dboid == MyDatabaseId && e->model_hash == hash && strncmp(e->url, shown, sizeof(shown)) == 0)
			return e;
	}
	return NULL;
}

/* ---- llm_models, llm_stat_model ---- */

static const char *
model_state(const ModelRow *m, const WireModelStat *ms)
{
	/* an endpoint is not contacted before the first request */
	if (ms == NULL && catalog_is_remote(m))
		return "untried";
	switch (ms ? ms->state : WM_UNLOADED)
	{
		case WM_LOADING:
			return "loading";
		case WM_READY:
			return ms->asleep == 0 ? "ready" : ms->sleep_level == 0 ? "paused" : "asleep";
		case WM_FAILED:
			return "failed";
		default:
			return ms == NULL || ms->asleep == 0 ? "unloaded" : ms->sleep_level == 0 ? "paused" : "asleep";
	}
}

/* Return 'public', a role's name, or its OID if it has been dropped. */
static char *
role_name(Oid role)
{
	char	   *name;

	if (!OidIsValid(role))
		return "public";
	name = GetUserNameFromId(role, true);
	return name ? name : psprintf("%u", role);
}

static Datum
grantee_names(const ModelRow *m)
{
	Datum	   *elems = palloc(sizeof(Datum) * Max(m->n_grantees, 1));

	for (int i = 0; i < m->n_grantees; i++)
		elems[i] = CStringGetTextDatum(role_name(m->grantees[i]));
	return PointerGetDatum(construct_array(elems, m->n_grantees, TEXTOID, -1, false, TYPALIGN_INT));
}

/* Append a counter that exists only while the weights are loaded in the local engine. */
static void
row_loaded(Row *row, const ModelRow *m, const WireModelStat *ms, int64 value)
{
	if (ms && ms->state == WM_READY && !catalog_is_remote(m))
		row_int(row, value);
	else
		row_null(row);
}

static bool
model_row(Row *row, const ModelRow *m, const WireModelStat *ms, const StatsOfAll *stats)
{
	static const WireModelStat none = {0};
	bool		may_see = catalog_may_see_path(m);
	const WireModelStat *v = ms ? ms : &none;

	row_str(row, m->name);
	row_str(row, may_see && !catalog_is_remote(m) ? catalog_path(m) : NULL);
	row_arena_str(row, v->arch, sizeof(v->arch));
	row_str(row, model_state(m, ms));
	row_str(row, m->provider);
	row_arena_str(row, v->dtype, sizeof(v->dtype));
	if (v->state == WM_LOADING)
		row_num(row, v->progress);
	else
		row_null(row);
	row_arena_str(row, v->error, v->state == WM_FAILED && may_see ? sizeof(v->error) : 0);
	row_loaded(row, m, ms, v->n_params);
	row_loaded(row, m, ms, v->weight_bytes);
	if (catalog_is_remote(m) && v->max_model_len > 0)
		row_int(row, v->max_model_len);
	else
		row_loaded(row, m, ms, v->max_model_len);
	row_loaded(row, m, ms, v->fig.kv_blocks_total);
	row_loaded(row, m, ms, v->fig.kv_blocks_used);
	row_loaded(row, m, ms, v->fig.kv_bytes);
	row_int(row, v->fig.running);
	row_int(row, v->fig.waiting);
	row_int(row, v->requests);
	row_int(row, v->prompt_tokens);
	row_int(row, v->output_tokens);
	row_int(row, v->preemptions);
	row_str(row, role_name(m->owner));
	row_datum(row, grantee_names(m));
	row_str(row, may_see ? m->options : NULL);
	return true;
}

/*
 * Fill the row of a model of the catalog; return false for no row.  ms NULL: the program has not
 * served it.
 */
typedef bool (*ModelRowFn) (Row *row, const ModelRow *m, const WireModelStat *ms, const StatsOfAll *stats);

static Datum
each_model(FunctionCallInfo fcinfo, ModelRowFn fill)
{
	StatsOfAll	stats;
	ListCell   *lc;
	Row			row = {0};

	InitMaterializedSRF(fcinfo, 0);
	stats = stats_of_all();
	foreach(lc, catalog_list())
	{
		ModelRow   *m = lfirst(lc);

		if (fill(&row, m, stats_of_model(&stats, m), &stats))
			row_emit(&row, fcinfo);
	}
	return (Datum) 0;
}

Datum
llm_model_list(PG_FUNCTION_ARGS)
{
	return each_model(fcinfo, model_row);
}

static bool
model_memory_row(Row *row, const ModelRow *m, const WireModelStat *ms, const StatsOfAll *stats)
{
	row_str(row, m->name);
	row_loaded(row, m, ms, ms ? ms->memory_bytes : 0);
	row_engine_time(row, ms ? ms->used_us : 0);
	row_engine_time(row, ms ? ms->expires_us : 0);
	return true;
}

/* vllm.model_memory() */
Datum
llm_model_memory(PG_FUNCTION_ARGS)
{
	return each_model(fcinfo, model_memory_row);
}

static bool
model_device_row(Row *row, const ModelRow *m, const WireModelStat *ms, const StatsOfAll *stats)
{
	if (ms == NULL || ms->state != WM_READY || catalog_is_remote(m))
		return false;
	row_str(row, m->name);
	row_arena_str(row, ms->device, sizeof(ms->device));
	return true;
}

/* vllm.model_devices(): for loaded models */
Datum
llm_model_devices(PG_FUNCTION_ARGS)
{
	return each_model(fcinfo, model_device_row);
}

static bool
model_steps_row(Row *row, const ModelRow *m, const WireModelStat *ms, const StatsOfAll *stats)
{
	/* names of WorkClass, an enum of the engine */
	static const char *const classes[] = {NULL, "background", "throughput", "latency"};
	const WireModelStat *other = NULL;

	if (ms == NULL || ms->state != WM_READY || catalog_is_remote(m))
		return false;
	/* values of the arena are not trusted */
	if (ms->waits_for >= 0 && (uint32) ms->waits_for < stats->engine->n_models)
		other = &stats->engine->models[ms->waits_for];
	row_str(row, m->name);
	row_int(row, ms->scheduling_weight);
	row_str(row, ms->work > 0 && ms->work < lengthof(classes) ? classes[ms->work] : NULL);
	if (other != NULL && other->dboid != MyDatabaseId)
		row_str(row, "(another database)");
	else
		row_arena_str(row, other ? other->name : "", other ? sizeof(other->name) : 0);
	row_num(row, ms->compute_us / 1000.0);
	row_num(row, ms->wait_us / 1000.0);
	row_num(row, ms->paused_us / 1000.0);
	return true;
}

/* vllm.model_steps(): how loaded models share the time of steps */
Datum
llm_model_steps(PG_FUNCTION_ARGS)
{
	return each_model(fcinfo, model_steps_row);
}

/* Append the mean of a histogram of times; NULL if it is empty. */
static void
row_mean_ms(Row *row, const WireHist *h)
{
	int64		n = 0;

	for (int i = 0; i < WIRE_HIST_BUCKETS; i++)
		n += h->count[i];
	if (n > 0)
		row_num(row, h->sum / 1000.0 / n);
	else
		row_null(row);
}

static bool
model_requests_row(Row *row, const ModelRow *m, const WireModelStat *ms, const StatsOfAll *stats)
{
	if (ms == NULL)
		return false;
	row_str(row, m->name);
	row_int(row, ms->reused_tokens);
	row_int(row, ms->ended[WE_STOP] + ms->ended[WE_LENGTH] + ms->ended[WE_REPETITION]);
	row_int(row, ms->ended[WE_ERROR]);
	row_int(row, ms->ended[WE_ABORT]);
	row_int(row, ms->fig.spec_draft_tokens);
	row_int(row, ms->fig.spec_accepted);
	row_mean_ms(row, &ms->hist[WH_QUEUE]);
	row_mean_ms(row, &ms->hist[WH_TTFT]);
	row_mean_ms(row, &ms->hist[WH_TPOT]);
	row_mean_ms(row, &ms->hist[WH_E2E]);
	return true;
}

/* vllm.model_requests(): for models that the engine has served */
Datum
llm_model_requests(PG_FUNCTION_ARGS)
{
	return each_model(fcinfo, model_requests_row);
}

/* ---- llm_requests ---- */

static const char *const kind_names[WK_COUNT] = {
	[WK_GENERATE] = "generate",
	[WK_TOKENIZE] = "tokenize",
	[WK_DETOKENIZE] = "detokenize",
	[WK_MODEL_CHECK] = "check model",
	[WK_MODEL_LOAD] = "load model",
	[WK_MODEL_UNLOAD] = "unload model",
	[WK_MODEL_FORGET] = "forget model",
	[WK_CONTROL] = "control",
	[WK_MODEL_INSPECT] = "inspect model",
	[WK_CHAT_RENDER] = "render chat",
	[WK_POOL] = "pool",
	[WK_LOGPROBS] = "logprobs",
	[WK_CHUNK] = "chunk",
	[WK_GRAMMAR] = "grammar",
	[WK_API] = "api",
	[WK_PARSE] = "parse",
	[WK_LORA_CHECK] = "check adapter",
	[WK_LORA_LOAD] = "load adapter",
	[WK_LORA_UNLOAD] = "unload adapter",
	[WK_LORA_LIST] = "list adapters",
	[WK_MODEL_DIGEST] = "digest model",
};

static const char *const phase_names[] = {
	[WP_NONE] = "sending",
	[WP_RECEIVING] = "sending",
	[WP_LOADING_MODEL] = "loading model",
	[WP_WAITING] = "waiting",
	[WP_RUNNING] = "running",
	[WP_PREEMPTED] = "preempted",
	[WP_FINISHED] = "finished",
	[WP_ASLEEP] = "asleep",
};

const char *
engine_request_state(const VllmOwner *o, int slot)
{
	uint32		phase = atomic_load_explicit(&wire_slot(&vllm_arenas[o->side], slot)->phase,
											 memory_order_relaxed);

	return o->kind == VO_ZOMBIE ? "cancelling" : phase < lengthof(phase_names) ? phase_names[phase] : NULL;
}

VllmOwner *
engine_requests(int *n_slots)
{
	bool		all = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
	VllmOwner  *owners;

	*n_slots = vllm_shared == NULL ? 0 : vllm_shared->n_all;
	owners = palloc(Max(*n_slots, 1) * sizeof(VllmOwner));
	if (*n_slots == 0)
		return owners;
	LWLockAcquire(vllm_shared->lock, LW_SHARED);
	memcpy(owners, vllm_shared->owners, sizeof(VllmOwner) * *n_slots);
	LWLockRelease(vllm_shared->lock);
	for (int i = 0; i < *n_slots; i++)
		if ((owners[i].kind != VO_OWNED && owners[i].kind != VO_ZOMBIE) ||
			(owners[i].request_id != 0 && !all && !has_privs_of_role(GetUserId(), owners[i].roleid)))
			owners[i].request_id = 0;
	return owners;
}

/* Make the row of an owned slot.  o is a copy; the counters are read at this moment. */
static void
request_row(Row *row, const VllmOwner *o, int slot_no, int natts)
{
	WireSlot   *slot = wire_slot(&vllm_arenas[o->side], slot_no);
	int64		arrival = atomic_load_explicit(&slot->arrival_us, memory_order_relaxed);
	int64		first = atomic_load_explicit(&slot->first_token_us, memory_order_relaxed);

	row_int(row, o->request_id);
	row_datum(row, Int32GetDatum(o->pid));
	row_str(row, OidIsValid(o->dbid) ? get_database_name(o->dbid) : NULL);
	row_str(row, role_name(o->roleid));
	row_str(row, o->model[0] ? o->model : NULL);
	row_str(row, o->msg_kind < WK_COUNT ? kind_names[o->msg_kind] : NULL);
	row_str(row, engine_request_state(o, slot_no));
	row_time(row, o->since);
	row_int(row, atomic_load_explicit(&slot->prompt_tokens, memory_order_relaxed));
	row_int(row, atomic_load_explicit(&slot->computed_tokens, memory_order_relaxed));
	row_int(row, atomic_load_explicit(&slot->cached_tokens, memory_order_relaxed));
	row_int(row, atomic_load_explicit(&slot->output_tokens, memory_order_relaxed));
	row_int(row, atomic_load_explicit(&slot->preemptions, memory_order_relaxed));
	if (arrival > 0 && first >= arrival)
		row_num(row, (first - arrival) / 1000.0);
	else
		row_null(row);
	/* an extension that has not been updated has fewer columns */
	if (natts == row->n)
		return;
	row_str(row, o->lora[0] ? o->lora : NULL);
	row_datum(row, Int32GetDatum(o->priority));
	row_str(row, o->traceparent[0] ? o->traceparent : NULL);
}

Datum
llm_request_list(PG_FUNCTION_ARGS)
{
	Row			row = {0};
	VllmOwner  *owners;
	int			n;

	InitMaterializedSRF(fcinfo, 0);
	owners = engine_requests(&n);
	for (int i = 0; i < n; i++)
		if (owners[i].request_id != 0)
		{
			request_row(&row, &owners[i], i, ((ReturnSetInfo *) fcinfo->resultinfo)->setDesc->natts);
			row_emit(&row, fcinfo);
		}
	return (Datum) 0;
}

/* ---- llm_stat_engine ---- */

static void
supervisor_columns(Row *row)
{
	VllmShared *s = vllm_shared;
	char		last_error[sizeof(s->last_error)];
	int			pid,
				n_free,
				n_zombies,
				waiting;
	int64		restarts,
				claims,
				cancels,
				timeouts;
	TimestampTz started;
	TimestampTz last_error_at;

	LWLockAcquire(s->lock, LW_SHARED);
	pid = s->engine_pid;
	restarts = s->restarts;
	started = s->started_at;
	n_free = s->n_free;
	n_zombies = s->n_zombies;
	waiting = s->wait_len;
	claims = s->claims;
	cancels = s->cancels;
	timeouts = s->queue_timeouts;
	memcpy(last_error, s->last_error, sizeof(last_error));
	last_error_at = s->last_error_at;
	LWLockRelease(s->lock);

	row_str(row, vllm_state_name(pg_atomic_read_u32(&s->state)));
	if (pid != 0)
		row_datum(row, Int32GetDatum(pid));
	else
		row_null(row);
	row_int(row, pg_atomic_read_u32(&s->epoch));
	row_int(row, restarts);
	row_time(row, started);
	row_arena_str(row, last_error, sizeof(last_error));
	row_time(row, last_error_at);
	row_int(row, s->n_slots);
	row_int(row, n_free);
	row_int(row, n_zombies);
	row_int(row, waiting);
	row_int(row, claims);
	row_int(row, cancels);
	row_int(row, timeouts);
}

static void
engine_columns(Row *row, const WireStats *st)
{
	double		seconds = st->generate_us / 1e6;

	row_arena_str(row, st->isa, sizeof(st->isa));
	row_datum(row, Int32GetDatum(st->cpu_threads));
	row_int(row, st->steps);
	row_num(row, st->steps > 0 ? (double) st->step_seqs / st->steps : 0);
	row_int(row, st->max_batch);
	row_num(row, st->steps > 0 ? (double) st->step_rows / st->steps : 0);
	row_num(row, st->step_us / 1000.0);
	row_num(row, seconds > 0 ? st->output_tokens / seconds : 0);
	row_int(row, st->requests);
	row_int(row, st->finished);
	row_int(row, st->failed);
	row_int(row, st->cancelled);
	row_int(row, st->prompt_tokens);
	row_int(row, st->cached_tokens);
	row_int(row, st->output_tokens);
	row_int(row, st->preemptions);
	row_int(row, st->running);
	row_int(row, st->waiting);
	row_int(row, st->kv_blocks_total);
	row_int(row, st->kv_blocks_used);
	row_int(row, st->rss_bytes);
}

/* llm_memory: the memory of a loaded model, by purpose */
static void
memory_row(Row *row, const WireModelStat *ms, const WireStats *stats)
{
	const WireFigures *f = &ms->fig;
	bool		shares = ms->shared_with >= 0;

	row_arena_str(row, ms->name, sizeof(ms->name));
	/* an index from the arena is not trusted */
	if (shares && (uint32) ms->shared_with < stats->n_models)
		row_arena_str(row, stats->models[ms->shared_with].name, sizeof(ms->name));
	else
		row_null(row);
	row_int(row, f->mem_weights);
	row_int(row, f->kv_bytes);
	row_int(row, f->mem_kv);
	if (f->kv_tokens < PG_INT32_MAX)
		row_int(row, f->kv_tokens);
	else
		row_null(row);
	row_int(row, f->kv_pinned_tokens);
	row_int(row, f->mem_state);
	row_int(row, f->mem_work);
	row_int(row, f->mem_offload);
	row_int(row, f->mem_other);
	row_int(row, shares ? 0 : f->mem_weights + f->mem_kv + f->mem_state + f->mem_work + f->mem_offload +
			f->mem_other);
	row_int(row, f->offload_file_bytes);
}

Datum
llm_memory_list(PG_FUNCTION_ARGS)
{
	WireStats  *stats;
	Row			row = {0};

	InitMaterializedSRF(fcinfo, 0);
	stats = engine_stats_snapshot();
	for (uint32 i = 0; stats != NULL && i < stats->n_models; i++)
		if (stats->models[i].state == WM_READY && stats->models[i].dboid == MyDatabaseId)
		{
			memory_row(&row, &stats->models[i], stats);
			row_emit(&row, fcinfo);
		}
	return (Datum) 0;
}

Datum
llm_engine_stats(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	WireStats  *stats;
	Row			row = {0};

	InitMaterializedSRF(fcinfo, 0);
	if (vllm_shared == NULL)
		return (Datum) 0;
	supervisor_columns(&row);
	stats = engine_stats_snapshot();
	if (stats)
		engine_columns(&row, stats);
	else
		while (row.n < rsinfo->setDesc->natts)
			row_null(&row);
	row_emit(&row, fcinfo);
	return (Datum) 0;
}

/* ---- llm_devices ---- */

static void
row_bytes(Row *row, int64 n, bool known)
{
	if (known)
		row_int(row, n);
	else
		row_null(row);
}

static void
cpu_row(Row *row, const WireStats *st)
{
	row_datum(row, Int32GetDatum(0));
	row_str(row, "cpu");
	row_arena_str(row, st->cpu_name, sizeof(st->cpu_name));
	row_arena_str(row, st->isa, sizeof(st->isa));
	row_datum(row, Int32GetDatum(st->cpus));
	row_datum(row, Int32GetDatum(st->cpus_usable));
	row_datum(row, Int32GetDatum(st->cpu_threads));
	row_int(row, st->memory_total);
	row_bytes(row, st->memory_available, st->memory_available >= 0);
	row_int(row, st->rss_bytes);
	for (int i = 0; i < 4; i++)
		row_null(row);
	row_datum(row, BoolGetDatum(true));
	row_datum(row, Int32GetDatum(0));
	row_null(row);
}

/* Make another row for the CPUs, for another process that computes on them. */
static void
rank_row(Row *row, const WireStats *st, const WireRank *r)
{
	row_datum(row, Int32GetDatum(0));
	row_str(row, "cpu");
	row_arena_str(row, st->cpu_name, sizeof(st->cpu_name));
	row_arena_str(row, st->isa, sizeof(st->isa));
	row_datum(row, Int32GetDatum(st->cpus));
	row_datum(row, Int32GetDatum(st->cpus_usable));
	row_null(row);
	row_int(row, st->memory_total);
	row_bytes(row, st->memory_available, st->memory_available >= 0);
	row_int(row, r->bytes);
	for (int i = 0; i < 4; i++)
		row_null(row);
	row_datum(row, BoolGetDatum(true));
	row_datum(row, Int32GetDatum(r->rank));
	row_str(row, psprintf("process %d, of replica %d", r->pid, r->replica));
}

static void
cuda_row(Row *row, const WireDevice *d)
{
	row_datum(row, Int32GetDatum(d->ordinal));
	row_str(row, "cuda");
	row_arena_str(row, d->name, sizeof(d->name));
	for (int i = 0; i < 4; i++)
		row_null(row);
	row_int(row, d->memory_total);
	row_bytes(row, d->memory_available, d->memory_available > 0);
	row_int(row, d->engine_bytes);
	row_str(row, d->capability > 0 ? psprintf("%d.%d", d->capability / 10, d->capability % 10) : NULL);
	row_datum(row, Int32GetDatum(d->multiprocessors));
	row_arena_str(row, d->driver, sizeof(d->driver));
	row_arena_str(row, d->uuid, sizeof(d->uuid));
	row_datum(row, BoolGetDatum(d->usable != 0));
	if (d->rank >= 0)
		row_datum(row, Int32GetDatum(d->rank));
	else
		row_null(row);
	row_arena_str(row, d->note, sizeof(d->note));
}

/*
 * Return rows for the CPUs, one for each process that computes on them, and for the devices that the
 * engine has found; none if there is no engine.
 */
Datum
llm_device_list(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	WireStats  *st;
	Row			row = {0};

	InitMaterializedSRF(fcinfo, 0);
	st = vllm_shared != NULL ? engine_stats_snapshot() : NULL;
	if (st == NULL)
		return (Datum) 0;
	cpu_row(&row, st);
	/* a catalog of 0.7 has only the columns of CPUs */
	row.n = Min(row.n, rsinfo->setDesc->natts);
	row_emit(&row, fcinfo);
	/* that version doesn't have these rows either */
	for (uint32 i = 0; i < Min(st->n_ranks, WIRE_MAX_RANKS) && rsinfo->setDesc->natts > 10; i++)
	{
		rank_row(&row, st, &st->ranks[i]);
		row_emit(&row, fcinfo);
	}
	for (uint32 i = 0; i < Min(st->n_devices, WIRE_MAX_DEVICES); i++)
	{
		cuda_row(&row, &st->devices[i]);
		row.n = Min(row.n, rsinfo->setDesc->natts);
		row_emit(&row, fcinfo);
	}
	return (Datum) 0;
}
