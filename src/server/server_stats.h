/*
 * server_stats.h
 *	  Publishes WireStats.
 */
#ifndef VLLM_SERVER_SERVER_STATS_H
#define VLLM_SERVER_SERVER_STATS_H

#include <stdatomic.h>

#include "backend/backend.h"
#include "ipc/wire.h"

typedef struct Stats Stats;

/* Counters of one catalog entry; any thread may add to them; owned by the entry. */
typedef struct Hist				/* a WireHist that any thread may add to */
{
	_Atomic int64_t count[WIRE_HIST_BUCKETS];
	_Atomic int64_t sum;
} Hist;

typedef struct EntryCounters
{
	_Atomic int64_t requests, prompt_tokens, output_tokens, preemptions;
	_Atomic int64_t prefilled_tokens, reused_tokens, back_tokens, generated_tokens;
	_Atomic int64_t ended[WIRE_N_ENDS];
	Hist		hist[WIRE_N_HISTS];
	/* for server_stats.c, under its lock: counters of the entry's previous instances */
	WireFigures freed;
	int64_t		freed_steps[STEP_SIZES];
	WireHist	freed_kv[WIRE_N_KV_HISTS];
} EntryCounters;

/* One row of WireStats.models: values that seldom change, and pointers to the others. */
typedef struct StatsRow
{
	WireModelStat m;
	const BackendModel *instance;		/* NULL unless ready */
	EntryCounters *counters;
} StatsRow;

/* What step threads count about an instance next to others; they write, any thread may read. */
typedef struct StepShare
{
	const _Atomic int *weight;	/* weight for the scheduler, set by its entries */
	_Atomic int work;			/* WorkClass */
	/* the instance that computed last while this one had work; NULL = none, or it has no work */
	_Atomic (const BackendModel *) waits_for;
	_Atomic int64_t compute_us;	/* charged to it */
	_Atomic int64_t wait_us;
	_Atomic int64_t paused_us;
} StepShare;

Stats	   *stats_new(WireStats *to, const Backend *be, const char *isa, int cpu_threads);
/* Replace the model rows (server thread); the rows are copied. */
void		stats_rows(Stats *s, const StatsRow *rows, int n);
/*
 * Add or remove an instance, whose counters are part of the totals (step thread).  share must live as
 * long.
 */
void		stats_attach(Stats *s, const BackendModel *in, const StepShare *share);
void		stats_detach(Stats *s, const BackendModel *in);
/* Count a request that never reached a backend; any thread. */
void		stats_early(Stats *s, bool cancelled);
/* Publish now; any thread.  After this returns, readers see everything counted before. */
void		stats_publish(Stats *s);
/* Reset the counters to 0. */
void		stats_reset(Stats *s);
/* Return clock_us() of the last publication. */
int64_t		stats_when(Stats *s);
int64_t		stats_rss(void);

#endif
