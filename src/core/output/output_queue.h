/*
 * output_queue.h
 *	  Sampled tokens on their way to the requests' owners.
 *
 * The step thread decides what ids and counts decide (stop_check.c) and hands each
 * token on; text, stop strings and events are made here, at once or on a thread of
 * its own while the next step runs.
 */
#ifndef VLLM_CORE_OUTPUT_OUTPUT_QUEUE_H
#define VLLM_CORE_OUTPUT_OUTPUT_QUEUE_H

#include "core/core_internal.h"

typedef struct Deliver Deliver;

/* One token, or an end without one: the event that tells it, but for what its text makes of it. */
typedef struct OutputItem
{
	Req		   *r;
	int32_t		id;				/* -1 = none */
	/* finish != FIN_NONE: the last; the request belongs to output_queue.c from here on */
	OutResult	res;
	Err		   *err;			/* FIN_ERROR: owned */
	Logprobs   *token_lp;		/* owned; NULL = not wanted */
	Logprobs   *prompt_lp;		/* owned; NULL = not wanted; with the first token */
	ReqEvent	ev;				/* counters and times, this token included */
} OutputItem;

/*
 * threaded: on a thread of its own.  stopped(ctx, id, index) is called there when a stop
 * string has ended an answer that the step thread still computes: it shall end it.
 * Its later tokens are dropped.
 */
Deliver    *deliver_new(bool threaded, const Tok *tok, void (*stopped) (void *ctx, uint64_t id, int index),
						void *ctx);
void		deliver_free(Deliver *d);	/* what was sent is delivered first */
bool		deliver_threaded(const Deliver *d);
/* fn(ctx) after each round of events, on the thread that made them. */
void		deliver_on_round(Deliver *d, void (*fn) (void *ctx), void *ctx);

/*
 * Step thread: not threaded, the events are out when add returns.  Else send passes
 * them on if one of them is urgent or the first has waited for a while.
 */
void		deliver_add(Deliver *d, const OutputItem *p);
void		deliver_send(Deliver *d, int64_t now_us);

/* Tokens that were computed in vain, behind a stop string; any thread. */
int64_t		deliver_dropped(const Deliver *d);
/* Requests that failed behind their stop string, when they had their answer already. */
int64_t		deliver_forgiven(const Deliver *d);

#endif
