/*
 * hist.h
 *	  Histograms of requests, model by model (wire_hist.def).
 */
#ifndef VLLM_ENGINE_HIST_H
#define VLLM_ENGINE_HIST_H

#include "engine/core.h"
#include "engine/stats.h"

/* A request has been accepted. */
void		hist_submit(EntryCounters *n, const GenParams *p);
/* An event of it; *last_us: of its last token, 0 at first. */
void		hist_event(EntryCounters *n, const ReqEvent *ev, int64_t *last_us);

#endif
