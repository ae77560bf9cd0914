/*
 * request_histograms.h
 *	  Histograms of requests, one set for each model (histograms.def).
 */
#ifndef VLLM_SERVER_REQUEST_HISTOGRAMS_H
#define VLLM_SERVER_REQUEST_HISTOGRAMS_H

#include "core/core.h"
#include "server/server_stats.h"

/* What the histograms know about a request; starts zeroed. */
typedef struct HistState
{
	int64_t		last_us;		/* time of its last token */
	int			output_tokens;	/* output tokens counted so far */
	bool		prefilled;		/* its prompt has been counted */
} HistState;

/* A request has been accepted. */
void		hist_submit(EntryCounters *n, const GenParams *p);
/* A request has ended before it was accepted. */
void		hist_unserved(EntryCounters *n, bool cancelled);
/* Count an event of a request. */
void		hist_event(EntryCounters *n, const ReqEvent *ev, HistState *s);

#endif
