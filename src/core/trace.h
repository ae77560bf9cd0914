/*
 * trace.h
 *	  A profile of the engine: its steps and requests as Chrome's trace events.
 *
 * One recording at a time, for all instances.  Off it costs a load of a flag a step; on it keeps the
 * newest TRACE_STEPS steps and TRACE_REQUESTS requests that ended, in memory that is taken at its
 * start and given back at its end.
 */
#ifndef VLLM_CORE_TRACE_H
#define VLLM_CORE_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/profile.h"
#include "core/core.h"
#include "ipc/traceparent.h"

#define TRACE_STEPS		16384
#define TRACE_REQUESTS	16384

/* Ends of a step's parts. */
typedef enum TraceMark
{
	TM_BEGIN, TM_PLAN, TM_FORWARD, TM_SAMPLE, TM_END, TM_N
} TraceMark;

typedef struct TraceStep
{
	const void *core;			/* whose it is: a row of its own in the picture */
	int64_t		at[TM_N];		/* clock_us(); 0 = there was no such part */
	int			seqs, rows, sampled, preempted;
	int64_t		ops_ns[PROF_KINDS];
} TraceStep;

typedef struct TraceRequest
{
	uint64_t	id;
	int64_t		arrival_us, scheduled_us, first_us, end_us;
	int			prompt_tokens, cached_tokens, output_tokens, preemptions;
	int			pid;			/* of the session that asked */
	ReqFinish	finish;
	char		model[64];
	char		lora[64];		/* "" = none */
	char		traceparent[TRACEPARENT_LEN + 1];	/* "" = none */
} TraceRequest;

extern _Atomic bool trace_running;	/* trace.c's */

static inline bool
trace_on(void)
{
	return atomic_load_explicit(&trace_running, memory_order_relaxed);
}

/* Record from now on, but for the first `delay` steps, and until there are `max` of them (0 = no limit).
 * False: a recording runs or waits to be fetched. */
bool		trace_start(int delay, int max, Err *e);
/*
 * End it; whoever has it makes it a JSON object, which may take a second, or frees it.  NULL: there is none.
 */
typedef struct TraceRecording TraceRecording;
TraceRecording *trace_stop(Err *e);
void		trace_write(const TraceRecording *r, Buf *json);
void		trace_free(TraceRecording *r);

/* Any thread, while trace_on(); afterwards they do nothing. */
void		trace_step(const TraceStep *s);
void		trace_request(const TraceRequest *r);

#endif
