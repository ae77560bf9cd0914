/*
 * server_stats.h
 *	  Publishing WireStats.
 */
#ifndef VLLM_SERVER_SERVER_STATS_H
#define VLLM_SERVER_SERVER_STATS_H

#include <stdatomic.h>

#include "backend/backend.h"
#include "ipc/wire.h"

typedef struct Stats Stats;

/* Counters of one catalog entry; added to by any thread, owned by the entry. */
typedef struct Hist				/* WireHist, while it is counted */
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
	/* server_stats.c's, under its lock: of instances that it had before */
	WireFigures gone;
	int64_t		gone_steps[STEP_SIZES];
	WireHist	gone_kv[WIRE_N_KV_HISTS];
} EntryCounters;

/* One row of WireStats.models: what changes seldom, and where the rest is. */
typedef struct StatsRow
{
	WireModelStat m;
	const BackendModel *instance;		/* NULL unless ready */
	EntryCounters *counters;
} StatsRow;

/* What the step threads know of an instance among others; they write, any thread reads. */
typedef struct StepShare
{
	const _Atomic int *weight;	/* of its share of the time, as its entries say */
	_Atomic int work;			/* WorkClass */
	/* the instance that computed last since this one has had work; NULL = none, or it has none */
	_Atomic (const BackendModel *) waits_for;
	_Atomic int64_t compute_us;	/* charged */
	_Atomic int64_t wait_us;
	_Atomic int64_t paused_us;
} StepShare;

Stats	   *stats_new(WireStats *to, const Backend *be, const char *isa, int cpu_threads);
/* Replace the model rows (server thread); copies. */
void		stats_rows(Stats *s, const StatsRow *rows, int n);
/* The instance comes or goes: its counters are part of the totals (step thread).  share lives as long. */
void		stats_attach(Stats *s, const BackendModel *in, const StepShare *share);
void		stats_detach(Stats *s, const BackendModel *in);
/* Requests which never reached a backend; any thread. */
void		stats_early(Stats *s, bool cancelled);
/* Write now; any thread.  After this returns readers see everything before it. */
void		stats_publish(Stats *s);
/* Start the counters at 0 again. */
void		stats_reset(Stats *s);
/* clock_us() of the last publication */
int64_t		stats_when(Stats *s);
int64_t		stats_rss(void);

#endif
