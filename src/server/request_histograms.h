/*
 * request_histograms.h
 *	  Histograms of requests, model by model (histograms.def).
 */
#ifndef VLLM_SERVER_REQUEST_HISTOGRAMS_H
#define VLLM_SERVER_REQUEST_HISTOGRAMS_H

#include "core/core.h"
#include "server/server_stats.h"

/* What is known of a request; 0 at first. */
typedef struct HistState
{
	int64_t		last_us;		/* when its last token came */
	int			output_tokens;	/* that have been counted */
	bool		prefilled;		/* so has its prompt */
} HistState;

/* A request has been accepted. */
void		hist_submit(EntryCounters *n, const GenParams *p);
/* One has ended before that. */
void		hist_unserved(EntryCounters *n, bool cancelled);
/* An event of it. */
void		hist_event(EntryCounters *n, const ReqEvent *ev, HistState *s);

#endif
