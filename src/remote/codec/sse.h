/*
 * sse.h
 *	  Server-sent events, as they come from the network in pieces.
 *
 * Of an event only its data counts: the values of its "data" lines, joined by newlines.  Event names, ids,
 * retry times and comments are read and dropped.  Lines end by LF, CR or CRLF, wherever a piece ends; a byte
 * order mark before the first is skipped.  An event is told when the empty line behind it has come; one
 * without data is not told.  One event's size is bounded.
 */
#ifndef VLLM_REMOTE_CODEC_SSE_H
#define VLLM_REMOTE_CODEC_SSE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* The data of one event, terminated, for the time of the call only.  False: no more of them. */
typedef bool (*SseEvent) (void *ctx, const char *data, size_t n);

typedef enum SseStatus
{
	SSE_MORE,					/* go on */
	SSE_DONE,					/* "[DONE]" has come, which is not told as an event */
	SSE_STOPPED,				/* the callback said no more */
	SSE_TOO_LARGE				/* over the bound: nothing that follows makes sense */
} SseStatus;

typedef struct Sse
{
	size_t		max;			/* bytes of one event's data, or of one line */
	Buf			line;			/* what has come of a line */
	Buf			data;			/* what has come of an event, a newline behind each line */
	bool		begun;			/* past the place of a byte order mark */
	bool		cr;				/* the last byte was a CR: a LF right behind it belongs to it */
	bool		has_data;		/* of this event */
	SseStatus	status;			/* but for SSE_MORE it stays */
} Sse;

void		sse_init(Sse *p, size_t max);
/* The next bytes; events come from within. */
SseStatus	sse_feed(Sse *p, const char *s, size_t n, SseEvent event, void *ctx);
void		sse_free(Sse *p);

#endif
