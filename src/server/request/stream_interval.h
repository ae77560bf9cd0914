/*
 * stream_interval.h
 *	  Streams that send several tokens in one frame (stream_interval).
 */
#ifndef VLLM_SERVER_REQUEST_STREAM_INTERVAL_H
#define VLLM_SERVER_REQUEST_STREAM_INTERVAL_H

#include "core/core.h"

typedef struct StreamHold StreamHold;

StreamHold *stream_hold_new(int interval);
void		stream_hold_free(StreamHold *h);	/* NULL is allowed */

/*
 * Take an event.  Returns true if *ev is now to be sent: it has all pending output of its choice, and is
 * valid until the next call.  Events up to a choice's first text are sent at once, and so is its end.
 */
bool		stream_hold_event(StreamHold *h, ReqEvent *ev);

#endif
