/*
 * output_queue.h
 *	  Pass sampled tokens to the requests' sinks.
 *
 * The step thread evaluates stop conditions on ids and counts (stop_check.c) and adds each token here.
 * This module makes text, stop strings and events: at once, or on the output thread while the next step
 * runs.
 */
#ifndef VLLM_CORE_OUTPUT_OUTPUT_QUEUE_H
#define VLLM_CORE_OUTPUT_OUTPUT_QUEUE_H

#include "core/core_internal.h"

typedef struct Deliver Deliver;

/* A token, or an end without one, with the data for its event. */
typedef struct OutputItem
{
	Req		   *r;
	int32_t		id;				/* -1 = none */
	/* finish != FIN_NONE: the last item; from here on this module owns the request */
	OutResult	res;
	Err		   *err;			/* FIN_ERROR: owned */
	Logprobs   *token_lp;		/* owned; NULL = not wanted */
	Logprobs   *prompt_lp;		/* owned; NULL = not wanted; with the first token */
	ReqEvent	ev;				/* counters and times, including this token */
} OutputItem;

/*
 * threaded: use an output thread.  stopped(ctx, id, index) is called on that thread when a stop string
 * has ended an answer that the step thread still computes; the step thread must end it.  Later tokens of
 * the answer are dropped.
 */
Deliver    *deliver_new(bool threaded, const Tok *tok, void (*stopped) (void *ctx, uint64_t id, int index),
						void *ctx);
void		deliver_free(Deliver *d);	/* sends the remaining events first */
bool		deliver_threaded(const Deliver *d);
/* Call fn(ctx) after each round of events, on the thread that sends them. */
void		deliver_on_round(Deliver *d, void (*fn) (void *ctx), void *ctx);

/*
 * For the step thread.  If not threaded, deliver_add() sends the event before it returns.  Else
 * deliver_send() passes the items on if one of them is urgent or the first has waited for a while.
 */
void		deliver_add(Deliver *d, const OutputItem *p);
void		deliver_send(Deliver *d, int64_t now_us);

/* Return the number of tokens computed in vain after a stop string; any thread. */
int64_t		deliver_dropped(const Deliver *d);
/* Return the number of requests that failed after their stop string, so their answer was complete. */
int64_t		deliver_forgiven(const Deliver *d);

#endif
