/*
 * stream_interval.h
 *	  Streams that tell several tokens at once (stream_interval).
 */
#ifndef VLLM_SERVER_REQUEST_STREAM_INTERVAL_H
#define VLLM_SERVER_REQUEST_STREAM_INTERVAL_H

#include "core/core.h"

typedef struct StreamHold StreamHold;

StreamHold *stream_hold_new(int interval);
void		stream_hold_free(StreamHold *h);	/* NULL will do */

/*
 * An event comes in.  True: *ev is now what is to be told, all that has come of its answer; it is valid
 * until the next call.  What comes up to an answer's first text is told at once, and so is its end.
 */
bool		stream_hold_event(StreamHold *h, ReqEvent *ev);

#endif
