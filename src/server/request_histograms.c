/*
 * request_histograms.c
 *	  Histograms of requests.
 *
 * The threads that call sinks count, and the publication of statistics reads.  Single counters are
 * atomic, a histogram as a whole is not (its sum may be a request ahead of its buckets).  Requests that
 * fail or are cancelled are counted by their end, but have no times.
 *
 * Tests: tests/unit/server/test_hist.c, tests/t/083_http.pl.
 */
#include "server/request_histograms.h"

static void
observe(EntryCounters *n, WireHistId id, int64_t value)
{
	Hist	   *h = &n->hist[id];

	if (value < 0)
		value = 0;
	atomic_fetch_add_explicit(&h->count[wire_hist_bucket(id, value)], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&h->sum, value, memory_order_relaxed);
}

void
hist_submit(EntryCounters *n, const GenParams *p)
{
	observe(n, WH_N, p->out.n > 0 ? p->out.n : 1);
	observe(n, WH_MAX_TOKENS, p->max_tokens);
}

static WireEnd
end_of(ReqFinish f, const Err *err)
{
	if (finish_cancelled(f, err))
		return WE_ABORT;
	switch (f)
	{
		case FIN_STOP:
			return WE_STOP;
		case FIN_LENGTH:
			return WE_LENGTH;
		case FIN_REPETITION:
			return WE_REPETITION;
		case FIN_ABORT:
		case FIN_NONE:
		case FIN_ERROR:
			break;
	}
	return WE_ERROR;
}

/* Count a completed request. */
static void
finished(EntryCounters *n, const ReqEvent *ev)
{
	int64_t		scheduled = ev->scheduled_us > 0 ? ev->scheduled_us : ev->arrival_us;
	int64_t		first = ev->first_token_us > 0 ? ev->first_token_us : ev->now_us;

	observe(n, WH_E2E, ev->now_us - ev->arrival_us);
	observe(n, WH_QUEUE, scheduled - ev->arrival_us);
	observe(n, WH_INFERENCE, ev->now_us - scheduled);
	observe(n, WH_PROMPT, ev->prompt_tokens);
	observe(n, WH_PREFILL_KV, ev->prompt_tokens - ev->cached_tokens);
	if (ev->output_tokens == 0)
		return;					/* a pooling request, or nothing was generated */
	observe(n, WH_PREFILL, first - scheduled);
	observe(n, WH_DECODE, ev->now_us - first);
	observe(n, WH_GENERATION, ev->output_tokens);
	observe(n, WH_LONGEST, ev->longest > 0 ? ev->longest : ev->output_tokens);
	if (ev->output_tokens > 1)
		observe(n, WH_TPOT, (ev->now_us - first) / (ev->output_tokens - 1));
}

/* Count tokens when they come, because a request may take minutes. */
static void
tokens(EntryCounters *n, const ReqEvent *ev, HistState *s)
{
	if (!s->prefilled && (ev->n_ids > 0 || finish_name(ev->finish) != NULL))
	{
		s->prefilled = true;
		atomic_fetch_add_explicit(&n->prefilled_tokens, ev->prompt_tokens, memory_order_relaxed);
		atomic_fetch_add_explicit(&n->reused_tokens, ev->cached_tokens, memory_order_relaxed);
		atomic_fetch_add_explicit(&n->back_tokens, ev->back_tokens, memory_order_relaxed);
	}
	if (ev->output_tokens > s->output_tokens)
	{
		atomic_fetch_add_explicit(&n->generated_tokens, ev->output_tokens - s->output_tokens,
								  memory_order_relaxed);
		s->output_tokens = ev->output_tokens;
	}
}

void
hist_unserved(EntryCounters *n, bool cancelled)
{
	atomic_fetch_add_explicit(&n->ended[cancelled ? WE_ABORT : WE_ERROR], 1, memory_order_relaxed);
}

void
hist_event(EntryCounters *n, const ReqEvent *ev, HistState *s)
{
	tokens(n, ev, s);
	/* of several choices for one prompt, only the first one is timed */
	if (ev->n_ids > 0 && ev->index == 0)
	{
		if (s->last_us == 0)
			observe(n, WH_TTFT, (ev->first_token_us > 0 ? ev->first_token_us : ev->now_us) - ev->arrival_us);
		else
			observe(n, WH_ITL, ev->now_us - s->last_us);
		s->last_us = ev->now_us;
	}
	if (ev->finish == FIN_NONE)
		return;
	atomic_fetch_add_explicit(&n->ended[end_of(ev->finish, ev->err)], 1, memory_order_relaxed);
	if (finish_name(ev->finish) != NULL)
		finished(n, ev);
}
