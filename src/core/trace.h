/*
 * trace.h
 *	  A profile of the engine: its steps and requests as Chrome's trace events.
 *
 * Only one recording at a time, for all instances.  When off, it costs one load of a flag per step.  When
 * on, it keeps the newest TRACE_STEPS steps and TRACE_REQUESTS ended requests, in memory that exists
 * only during the recording.
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

/* Ends of the parts of a step. */
typedef enum TraceMark
{
	TM_BEGIN, TM_PLAN, TM_FORWARD, TM_SAMPLE, TM_END, TM_N
} TraceMark;

typedef struct TraceStep
{
	const void *core;			/* the core of the step, which gets a row of its own in the viewer */
	int64_t		at[TM_N];		/* clock_us(); 0 = the step has no such part */
	int			seqs, rows, sampled, preempted;
	int64_t		ops_ns[PROF_KINDS];
} TraceStep;

typedef struct TraceRequest
{
	uint64_t	id;
	int64_t		arrival_us, scheduled_us, first_us, end_us;
	int			prompt_tokens, cached_tokens, output_tokens, preemptions;
	int			pid;			/* process id of the session's backend */
	ReqFinish	finish;
	char		model[64];
	char		lora[64];		/* "" = none */
	char		traceparent[TRACEPARENT_LEN + 1];	/* "" = none */
} TraceRequest;

extern _Atomic bool trace_running;	/* defined in trace.c */

static inline bool
trace_on(void)
{
	return atomic_load_explicit(&trace_running, memory_order_relaxed);
}

/*
 * Record from now on, but skip the first `delay` steps, and stop after `max` steps (0 = no limit).
 * Returns false if a recording runs or waits to be fetched.
 */
bool		trace_start(int delay, int max, Err *e);
/*
 * Stop recording and return the recording; NULL if there is none.  The caller writes it as a JSON
 * object, which may take a second, and frees it.
 */
typedef struct TraceRecording TraceRecording;
TraceRecording *trace_stop(Err *e);
void		trace_write(const TraceRecording *r, Buf *json);
void		trace_free(TraceRecording *r);

/* Record; any thread, while trace_on(); otherwise they do nothing. */
void		trace_step(const TraceStep *s);
void		trace_request(const TraceRequest *r);

#endif
