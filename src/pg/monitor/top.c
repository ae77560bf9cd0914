/*
 * top.c
 *	  llm_top(): the engine's activity, as text for psql's \watch.
 *
 * Lines have at most 78 columns: psql adds a blank before and after them in a terminal of 80.  Rates
 * cover the time since the session's last call (or the engine's start); the session keeps the
 * counters of that call, so \watch 1 shows the last second.  Without an engine the lines about it are
 * missing.  Requests are those that the user may see in llm_requests.
 *
 * Tests: tests/sql/33_observe.sql, tests/t/095_observability.pl.
 */
#include "postgres.h"

#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/assert.h"
#include "pg/catalog/model_catalog.h"
#include "pg/util/encoding.h"
#include "pg/catalog/engine_stats.h"
#include "pg/vllm_pg.h"

PG_FUNCTION_INFO_V1(llm_top);

#define WIDTH		78
#define BAR			40
#define MAX_MODELS	20			/* lines of models */

/* A model's counters, kept for the next call. */
typedef struct ModelThen
{
	uint32		dboid;
	char		name[WIRE_NAME_LEN];
	int64		prefilled,
				generated;
} ModelThen;

/* Counters of the last call in this session. */
static struct
{
	/* WireStats.started_us, of the remote program if there is no engine; 0 = there was no call */
	int64		engine;
	int64		at;				/* now_us() */
	WireFigures fig;
	int			n_models;
	ModelThen	models[2 * WIRE_MAX_MODELS];	/* the engine's and the remote program's */
}			then;

/* Return the time of the engine's clock. */
static int64
now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64) ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/*
 * Return the first `width` columns of a text, with `fill` padded with blanks; a character that can't
 * be shown becomes '?'.
 */
static char *
clip(const char *s, int width, bool fill)
{
	StringInfoData out;
	int			used = 0;

	initStringInfo(&out);
	while (*s != '\0')
	{
		int			len = pg_mblen(s);
		int			cols = pg_dsplen(s);
		bool		shown = cols >= 0 && (len > 1 || (unsigned char) *s >= ' ');

		if (!shown)
			cols = 1;
		if (used + cols > width)
			break;
		if (shown)
			appendBinaryStringInfo(&out, s, len);
		else
			appendStringInfoChar(&out, '?');
		used += cols;
		s += len;
	}
	if (fill)
		appendStringInfoSpaces(&out, width - used);
	return out.data;
}

static char *
column(const char *s, int width)
{
	return clip(s, width, true);
}

static void
put(FunctionCallInfo fcinfo, const char *line)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Datum		value = CStringGetTextDatum(clip(line, WIDTH, false));
	bool		isnull = false;

	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, &value, &isnull);
}

static void putf(FunctionCallInfo fcinfo, const char *fmt,...) pg_attribute_printf(2, 3);

static void
putf(FunctionCallInfo fcinfo, const char *fmt,...)
{
	char		line[WIDTH * 4 + 1];
	va_list		args;

	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	put(fcinfo, line);
}

/* Return a number in at most 7 columns. */
static char *
short_number(double n)
{
	static const char *const units[] = {"", "k", "M", "G", "T"};
	int			u = 0;

	while (n >= 99999.5 && u < 4)
	{
		n /= 1000;
		u++;
	}
	return psprintf(n == (int64) n || n >= 1000 ? "%.0f%s" : "%.1f%s", n, units[u]);
}

static char *
size(int64 bytes)
{
	return bytes >= INT64CONST(10) << 30 ? psprintf("%.1f GB", bytes / 1073741824.0) :
		psprintf("%.0f MB", bytes / 1048576.0);
}

/* Return hh:mm:ss, or days. */
static char *
duration(int64 seconds)
{
	if (seconds < 0)
		seconds = 0;
	if (seconds >= 100 * 3600)
		return psprintf("%d days", (int) (seconds / 86400));
	return psprintf("%02d:%02d:%02d", (int) (seconds / 3600), (int) (seconds / 60 % 60),
					(int) (seconds % 60));
}

static char *
bar(double part)
{
	char	   *s = palloc(BAR + 1);
	int			n = (int) (Min(Max(part, 0), 1) * BAR + 0.5);

	memset(s, '#', n);
	memset(s + n, '.', BAR - n);
	s[BAR] = '\0';
	return s;
}

static double
part(int64 n, int64 of)
{
	return of > 0 ? (double) n / of : 0;
}

/* ---- the parts ---- */

static void
put_head(FunctionCallInfo fcinfo, const WireStats *st)
{
	VllmShared *v = vllm_shared;
	VllmEngineState state = pg_atomic_read_u32(&v->state);
	TimestampTz now = GetCurrentTimestamp();
	int			pid,
				used,
				waiting;
	int64		restarts;
	TimestampTz started;

	LWLockAcquire(v->lock, LW_SHARED);
	pid = v->engine_pid;
	used = v->n_slots - v->n_free;
	waiting = v->wait_len;
	restarts = v->restarts;
	started = v->started_at;
	LWLockRelease(v->lock);
	putf(fcinfo, "vllm_pg   engine %s%s%s%s", vllm_state_name(state),
		 pid != 0 ? psprintf(", pid %d", pid) : "",
		 pid != 0 && started != 0 ? psprintf(", up %s", duration((now - started) / USECS_PER_SEC)) : "",
		 st ? psprintf(", %d threads", st->cpu_threads) : "");
	putf(fcinfo, "Calls     %d of %d slots taken, %d waiting for one, " INT64_FORMAT " restarts", used,
		 v->n_slots, waiting, restarts);
}

static double
rate(int64 now, int64 before, double seconds)
{
	return Max(now - before, 0) / seconds;
}

static void
put_engine(FunctionCallInfo fcinfo, const WireStats *st, const WireFigures *before, double seconds)
{
	const WireFigures *f = &st->fig;

	putf(fcinfo, "Requests  running %s, waiting %s; done %s, failed %s, cancelled %s",
		 short_number(f->running), short_number(f->waiting), short_number(f->finished),
		 short_number(f->failed), short_number(f->cancelled));
	putf(fcinfo, "Tokens/s  prompts %s, answers %s, steps/s %s  (last %.1f s)",
		 short_number(rate(f->prompt_tokens, before->prompt_tokens, seconds)),
		 short_number(rate(f->output_tokens, before->output_tokens, seconds)),
		 short_number(rate(f->steps, before->steps, seconds)), Min(seconds, 999999.0));
	putf(fcinfo, "KV cache  [%s] %5.1f %% of %s blocks", bar(part(f->kv_blocks_used, f->kv_blocks_total)),
		 100 * part(f->kv_blocks_used, f->kv_blocks_total), short_number(f->kv_blocks_total));
	putf(fcinfo, "Prefixes  [%s] %5.1f %% of prompts found", bar(part(f->prefix_hits, f->prefix_queries)),
		 100 * part(f->prefix_hits, f->prefix_queries));
	putf(fcinfo, "Memory    engine %s, KV caches %s, machine %s, available %s", size(st->rss_bytes),
		 size(f->kv_bytes), size(st->memory_total), st->memory_available < 0 ? "?" :
		 size(st->memory_available));
}

static const ModelThen *
model_then(const WireModelStat *ms)
{
	static const ModelThen none = {0};

	for (int i = 0; i < then.n_models; i++)
		if (then.models[i].dboid == ms->dboid && strncmp(then.models[i].name, ms->name, WIRE_NAME_LEN) == 0)
			return &then.models[i];
	return &none;
}

/* The state as llm_models shows it. */
static const char *
model_state(const WireModelStat *ms)
{
	static const char *const states[] = {[WM_UNUSED] = "", [WM_UNLOADED] = "unloaded",
										 [WM_LOADING] = "loading", [WM_READY] = "ready",
										 [WM_FAILED] = "failed"};

	if (ms->asleep != 0 && (ms->state == WM_READY || ms->state == WM_UNLOADED))
		return ms->sleep_level == 0 ? "paused" : "asleep";
	return ms->state < lengthof(states) ? states[ms->state] : "?";
}

static void
put_models(FunctionCallInfo fcinfo, const StatsOfAll *all, double seconds)
{
	int			n = 0;
	ListCell   *lc;

	put(fcinfo, "");
	put(fcinfo, "MODEL                 STATE     RUN  WAIT  PROMPT/S  ANSWER/S     KV  REQUESTS");
	foreach(lc, catalog_list())
	{
		ModelRow   *m = lfirst(lc);
		WireModelStat *ms = stats_of_model(all, m);
		const ModelThen *before;

		if (ms == NULL || (ms->requests == 0 && ms->state == WM_UNLOADED))
			continue;
		if (++n > MAX_MODELS)
		{
			put(fcinfo, "...");
			break;
		}
		before = model_then(ms);
		putf(fcinfo, "%s  %s %4s  %4s  %8s  %8s %5.1f%%  %8s", column(m->name, 20),
			 column(model_state(ms), 8), short_number(ms->fig.running),
			 short_number(ms->fig.waiting),
			 short_number(rate(ms->prefilled_tokens, before->prefilled, seconds)),
			 short_number(rate(ms->generated_tokens, before->generated, seconds)),
			 100 * part(ms->fig.kv_blocks_used, ms->fig.kv_blocks_total), short_number(ms->requests));
	}
}

static int
by_age(const void *a, const void *b)
{
	const VllmOwner *x = *(const VllmOwner *const *) a;
	const VllmOwner *y = *(const VllmOwner *const *) b;

	return x->since < y->since ? -1 : x->since > y->since;
}

/* Show the oldest requests, which are the interesting ones. */
static void
put_requests(FunctionCallInfo fcinfo, int most)
{
	int			n_slots;
	int			n = 0;
	VllmOwner  *owners = engine_requests(&n_slots);
	VllmOwner **live = palloc(Max(n_slots, 1) * sizeof(VllmOwner *));
	TimestampTz now = GetCurrentTimestamp();

	for (int i = 0; i < n_slots; i++)
		if (owners[i].request_id != 0)
			live[n++] = &owners[i];
	if (n == 0 || most <= 0)
		return;
	qsort(live, n, sizeof(VllmOwner *), by_age);
	put(fcinfo, "");
	put(fcinfo, "REQUEST   PID     ROLE        MODEL        STATE           AGE  PROMPT  ANSWER");
	for (int i = 0; i < Min(n, most); i++)
	{
		const VllmOwner *o = live[i];
		const char *role = GetUserNameFromId(o->roleid, true);
		const char *state = engine_request_state(o, o - owners);
		WireSlot   *slot = wire_slot(&vllm_arenas[o->side], o - owners);

		putf(fcinfo, "%-9s %-7d %s  %s  %s %8s %7s %7s", short_number(o->request_id), o->pid,
			 column(role ? role : "?", 10), column(o->model, 11), column(state ? state : "", 10),
			 duration((now - o->since) / USECS_PER_SEC),
			 short_number(atomic_load_explicit(&slot->prompt_tokens, memory_order_relaxed)),
			 short_number(atomic_load_explicit(&slot->output_tokens, memory_order_relaxed)));
	}
	if (n > most)
		putf(fcinfo, "... and %d more", n - most);
}

/* Show why the last engine ended. */
static void
put_error(FunctionCallInfo fcinfo)
{
	char		why[sizeof(vllm_shared->last_error)];
	TimestampTz at;

	LWLockAcquire(vllm_shared->lock, LW_SHARED);
	memcpy(why, vllm_shared->last_error, sizeof(why));
	at = vllm_shared->last_error_at;
	LWLockRelease(vllm_shared->lock);
	why[sizeof(why) - 1] = '\0';
	if (why[0] == '\0')
		return;
	put(fcinfo, "");
	putf(fcinfo, "Last error, %s ago:", duration((GetCurrentTimestamp() - at) / USECS_PER_SEC));
	putf(fcinfo, "  %s", clip(text_to_cstring(text_from_wire(why, strlen(why))), WIDTH - 2, false));
}

static void
remember_models(const WireStats *st)
{
	/* stats_of_all() checks the number in the arena */
	ASSERT(st == NULL || then.n_models + st->n_models <= lengthof(then.models));
	for (uint32 i = 0; st && i < st->n_models; i++)
	{
		const WireModelStat *ms = &st->models[i];
		ModelThen  *m = &then.models[then.n_models++];

		m->dboid = ms->dboid;
		memcpy(m->name, ms->name, sizeof(m->name));
		m->prefilled = ms->prefilled_tokens;
		m->generated = ms->generated_tokens;
	}
}

/* Keep the counters for the next call. */
static void
remember(const StatsOfAll *all, const WireStats *first)
{
	then.engine = first->started_us;
	then.at = now_us();
	then.fig = first->fig;
	then.n_models = 0;
	remember_models(all->engine);
	remember_models(all->remote);
}

/* llm_top(requests int) */
Datum
llm_top(PG_FUNCTION_ARGS)
{
	StatsOfAll	all;
	const WireStats *st;
	double		seconds;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	if (vllm_shared == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("vllm_pg must be loaded when the server starts"),
				 errhint("Add shared_preload_libraries = 'vllm_pg' to postgresql.conf and restart the "
						 "server.")));
	all = stats_of_all();
	st = all.engine ? all.engine : all.remote;
	put_head(fcinfo, all.engine);
	if (st != NULL)
	{
		if (st->started_us != then.engine)
		{
			memset(&then, 0, sizeof(then));
			then.at = st->started_us;
		}
		seconds = Max((now_us() - then.at) / 1e6, 0.001);
		if (all.engine != NULL)
			put_engine(fcinfo, all.engine, &then.fig, seconds);
		put_models(fcinfo, &all, seconds);
		remember(&all, st);
	}
	put_requests(fcinfo, PG_ARGISNULL(0) ? 10 : PG_GETARG_INT32(0));
	put_error(fcinfo);
	return (Datum) 0;
}
