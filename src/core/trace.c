/*
 * trace.c
 *	  A profile of the engine: its steps and requests as Chrome's trace events.
 *
 * The format is that of chrome://tracing and Perfetto: complete events (ph X) for steps and their parts,
 * one thread for each instance; nestable asynchronous events (ph b and e) for requests, each divided
 * into waiting, prefill and decode.  Times are microseconds of the engine's clock.
 *
 * Threads: step and output threads record; the server thread starts and stops.  All use one mutex, which
 * no thread takes while nothing is recorded.  trace_stop() passes the recording to its caller.  Rings
 * overwrite their oldest events.
 *
 * Tested by tests/unit/core/test_trace.c, tests/t/095_observability.pl.
 */
#include "core/trace.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/json/json_writer.h"
#include "base/alloc.h"

#define MAX_CORES	64			/* instances that get a row of their own */

struct TraceRecording
{
	int			delay;			/* steps still to be skipped */
	int			max;			/* steps to be recorded, 0 = no limit */
	int64_t		n_steps;		/* recorded steps; the last TRACE_STEPS are kept */
	int64_t		n_requests;
	int64_t		begun_us;
	int64_t		ended_us;
	TraceStep  *steps;
	TraceRequest *requests;
};

_Atomic bool trace_running;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static TraceRecording *rec;			/* protected by lock; NULL = none */

bool
trace_start(int delay, int max, Err *e)
{
	TraceRecording *r;
	bool		ok;

	pthread_mutex_lock(&lock);
	ok = rec == NULL;
	if (ok)
	{
		r = mem_zalloc(sizeof(*r));
		r->delay = delay;
		r->max = max;
		r->begun_us = clock_us();
		r->steps = mem_zalloc(TRACE_STEPS * sizeof(TraceStep));
		r->requests = mem_zalloc(TRACE_REQUESTS * sizeof(TraceRequest));
		rec = r;
		atomic_store(&trace_running, true);
	}
	pthread_mutex_unlock(&lock);
	if (ok)
		return true;
	err_set(e, ERR_NOT_READY, "a profile is being recorded already");
	return err_hint(e, "llm_stop_profile() ends it.");
}

void
trace_step(const TraceStep *s)
{
	pthread_mutex_lock(&lock);
	if (rec != NULL && trace_on())
	{
		if (rec->delay > 0)
			rec->delay--;
		else
			rec->steps[rec->n_steps++ % TRACE_STEPS] = *s;
		if (rec->max > 0 && rec->n_steps >= rec->max)
			atomic_store(&trace_running, false);
	}
	pthread_mutex_unlock(&lock);
}

void
trace_request(const TraceRequest *r)
{
	pthread_mutex_lock(&lock);
	if (rec != NULL && trace_on() && rec->delay == 0)
		rec->requests[rec->n_requests++ % TRACE_REQUESTS] = *r;
	pthread_mutex_unlock(&lock);
}

/* ---- as JSON ---- */

/* Begin an event; the caller adds its args. */
static void
open_event(JsonOut *j, const char *name, const char *cat, const char *ph, int64_t ts, int tid)
{
	json_open(j, '{');
	json_key_cstr(j, "name", name);
	json_key_cstr(j, "cat", cat);
	json_key_cstr(j, "ph", ph);
	json_key_int(j, "ts", ts);
	json_key_int(j, "pid", getpid());
	json_key_int(j, "tid", tid);
}

static void
name_thread(JsonOut *j, const char *what, int tid, const char *name)
{
	open_event(j, what, "__metadata", "M", 0, tid);
	json_key(j, "args");
	json_open(j, '{');
	json_key_cstr(j, "name", name);
	json_close(j, '}');
	json_close(j, '}');
}

/* Return an instance's number, from 1 on; names the instance when it occurs for the first time. */
static int
thread_of(JsonOut *j, const void *core, const void **cores, int *n)
{
	char		name[32];

	for (int i = 0; i < *n; i++)
		if (cores[i] == core)
			return i + 1;
	ALWAYS(*n >= 0 && *n <= MAX_CORES);
	if (*n == MAX_CORES)
		return MAX_CORES;
	cores[(*n)++] = core;
	snprintf(name, sizeof(name), "steps of instance %d", *n);
	name_thread(j, "thread_name", *n, name);
	return *n;
}

static void
put_part(JsonOut *j, const char *name, int64_t from, int64_t to, int tid)
{
	if (from == 0 || to == 0)
		return;
	open_event(j, name, "step", "X", from, tid);
	json_key_int(j, "dur", to - from);
}

static void
put_step(JsonOut *j, const TraceStep *s, int tid)
{
	static const char *const ops[] = {
		[PROF_MATMUL] = "matmul_us", [PROF_HEAD] = "head_us", [PROF_ATTENTION] = "attention_us",
		[PROF_ROWS] = "rows_us", [PROF_EMBED] = "embed_us"
	};
	static const char *const parts[TM_N] = {[TM_PLAN] = "plan", [TM_FORWARD] = "forward",
											[TM_SAMPLE] = "sample", [TM_END] = "deliver"};

	put_part(j, "step", s->at[TM_BEGIN], s->at[TM_END], tid);
	json_key(j, "args");
	json_open(j, '{');
	json_key_int(j, "sequences", s->seqs);
	json_key_int(j, "rows", s->rows);
	json_key_int(j, "sampled", s->sampled);
	json_key_int(j, "preempted", s->preempted);
	json_close(j, '}');
	json_close(j, '}');
	for (int m = TM_PLAN, last = TM_BEGIN; m < TM_N; m++)
	{
		if (s->at[m] == 0)
			continue;
		put_part(j, parts[m], s->at[last], s->at[m], tid);
		if (m == TM_FORWARD)
		{
			json_key(j, "args");
			json_open(j, '{');
			for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
				json_key_int(j, ops[i], s->ops_ns[i] / 1000);
			json_close(j, '}');
		}
		json_close(j, '}');
		last = m;
	}
}

static void
put_async(JsonOut *j, const TraceRequest *r, const char *name, const char *ph, int64_t ts)
{
	char		id[24];

	snprintf(id, sizeof(id), "0x%llx", (unsigned long long) r->id);
	open_event(j, name, "request", ph, ts, 0);
	json_key_cstr(j, "id", id);
}

static void
put_span(JsonOut *j, const TraceRequest *r, const char *name, int64_t from, int64_t to)
{
	if (from <= 0 || to < from)
		return;
	put_async(j, r, name, "b", from);
	json_close(j, '}');
	put_async(j, r, name, "e", to);
	json_close(j, '}');
}

static const char *
finish_word(ReqFinish f)
{
	const char *name = finish_name(f);

	return name != NULL ? name : f == FIN_ABORT ? "abort" : "error";
}

static void
put_request(JsonOut *j, const TraceRequest *r)
{
	put_async(j, r, "request", "b", r->arrival_us);
	json_key(j, "args");
	json_open(j, '{');
	json_key_cstr(j, "model", r->model);
	if (r->lora[0] != '\0')
		json_key_cstr(j, "lora", r->lora);
	json_key_int(j, "pid", r->pid);
	json_key_int(j, "prompt_tokens", r->prompt_tokens);
	json_key_int(j, "cached_tokens", r->cached_tokens);
	json_key_int(j, "output_tokens", r->output_tokens);
	json_key_int(j, "preemptions", r->preemptions);
	json_key_cstr(j, "finish", finish_word(r->finish));
	if (r->traceparent[0] != '\0')
		json_key_cstr(j, "traceparent", r->traceparent);
	json_close(j, '}');
	json_close(j, '}');
	put_span(j, r, "queue", r->arrival_us, r->scheduled_us > 0 ? r->scheduled_us : r->end_us);
	put_span(j, r, "prefill", r->scheduled_us, r->first_us > 0 ? r->first_us : r->end_us);
	put_span(j, r, "decode", r->first_us, r->end_us);
	put_async(j, r, "request", "e", r->end_us);
	json_close(j, '}');
}

void
trace_write(const TraceRecording *r, Buf *json)
{
	JsonOut		j = {.b = json};
	const void *cores[MAX_CORES];
	int			n_cores = 0;
	int64_t		first_step = r->n_steps > TRACE_STEPS ? r->n_steps - TRACE_STEPS : 0;
	int64_t		first_request = r->n_requests > TRACE_REQUESTS ? r->n_requests - TRACE_REQUESTS : 0;

	json_open(&j, '{');
	json_key_cstr(&j, "displayTimeUnit", "ms");
	json_key(&j, "otherData");
	json_open(&j, '{');
	json_key_int(&j, "steps", r->n_steps);
	json_key_int(&j, "requests", r->n_requests);
	json_key_int(&j, "steps_dropped", first_step);
	json_key_int(&j, "requests_dropped", first_request);
	json_key_int(&j, "seconds", (r->ended_us - r->begun_us) / 1000000);
	json_close(&j, '}');
	json_key(&j, "traceEvents");
	json_open(&j, '[');
	name_thread(&j, "process_name", 0, "vllm_pg engine");
	for (int64_t i = first_step; i < r->n_steps; i++)
	{
		const TraceStep *s = &r->steps[i % TRACE_STEPS];

		put_step(&j, s, thread_of(&j, s->core, cores, &n_cores));
	}
	for (int64_t i = first_request; i < r->n_requests; i++)
		put_request(&j, &r->requests[i % TRACE_REQUESTS]);
	json_close(&j, ']');
	json_close(&j, '}');
}

TraceRecording *
trace_stop(Err *e)
{
	TraceRecording *r;

	pthread_mutex_lock(&lock);
	atomic_store(&trace_running, false);
	r = rec;
	rec = NULL;
	pthread_mutex_unlock(&lock);
	if (r == NULL)
	{
		err_set(e, ERR_NOT_READY, "no profile is being recorded");
		err_hint(e, "llm_start_profile() begins one; an engine that was restarted has forgotten it.");
		return NULL;
	}
	r->ended_us = clock_us();
	return r;
}

void
trace_free(TraceRecording *r)
{
	if (r == NULL)
		return;
	mem_free(r->steps);
	mem_free(r->requests);
	mem_free(r);
}
