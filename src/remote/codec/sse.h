/*
 * sse.h
 *	  Parser of server-sent events, which come from the network in pieces.
 *
 * Only an event's data is used: the values of its "data" lines, joined by newlines.  Event names, ids,
 * retry times and comments are dropped.  Lines end with LF, CR or CRLF, also across two pieces; a byte
 * order mark at the beginning is skipped.  The callback gets an event when the empty line after it has
 * come.  An event without data is dropped.  The size of one event is bounded.
 */
#ifndef VLLM_REMOTE_CODEC_SSE_H
#define VLLM_REMOTE_CODEC_SSE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Receives the data of one event, NUL-terminated, valid only during the call.  Returns false to stop. */
typedef bool (*SseEvent) (void *ctx, const char *data, size_t n);

typedef enum SseStatus
{
	SSE_MORE,					/* feed more bytes */
	SSE_DONE,					/* "[DONE]" was received; the callback does not get it as an event */
	SSE_STOPPED,				/* the callback returned false */
	SSE_TOO_LARGE				/* an event is over the bound; the bytes that follow are useless */
} SseStatus;

typedef struct Sse
{
	size_t		max;			/* bytes of one event's data, or of one line */
	Buf			line;			/* the incomplete line */
	Buf			data;			/* data of the incomplete event, each line with a newline */
	bool		begun;			/* past the place for a byte order mark */
	bool		cr;				/* the last byte was a CR: an LF directly after it belongs to it */
	bool		has_data;		/* the incomplete event has a data line */
	SseStatus	status;			/* final once it is not SSE_MORE */
} Sse;

void		sse_init(Sse *p, size_t max);
/* Feed the next bytes.  Calls `event` for each complete event. */
SseStatus	sse_feed(Sse *p, const char *s, size_t n, SseEvent event, void *ctx);
void		sse_free(Sse *p);

#endif
