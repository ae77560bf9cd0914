/*
 * request_tracking.h
 *	  Tracking of requests: in llm_requests while they run, in llm_stat_query and llm_stat_role
 *	  when they have ended, and in the log if they were slow.
 *
 * The record is made from the request's message when it starts, and its counters come from the final
 * frame of the reply.  Neither contains text of prompts or outputs.
 */
#ifndef VLLM_PG_CLIENT_REQUEST_TRACKING_H
#define VLLM_PG_CLIENT_REQUEST_TRACKING_H

#include "postgres.h"

#include "datatype/timestamp.h"

#include "pg/client/spend.h"
#include "ipc/traceparent.h"
#include "ipc/wire.h"

typedef struct RequestTracking
{
	WireKind	kind;
	bool		counts;			/* it is a request to a model */
	bool		remote;			/* the remote program serves it, not the engine */
	Oid			roleid;
	uint64		query_id;		/* the session's statement's, 0 = not known */
	TimestampTz statement;		/* start of that statement */
	TimestampTz start;
	int			priority;
	char		lora[NAMEDATALEN];	/* '' = none */
	char		traceparent[TRACEPARENT_LEN + 1];	/* '' = none */
	SpendRecord	cost;
} RequestTracking;

typedef enum RequestEnd
{
	REQUEST_DONE, REQUEST_FAILED, REQUEST_CANCELLED
} RequestEnd;

/* Counters of a request that has ended, from its reply. */
typedef struct RequestFigures
{
	int64		prompt_tokens,
				cached_tokens,
				output_tokens,
				preemptions;
	int64		draft_tokens,
				accepted_tokens;
	int64		charged_tries;	/* tries for which an endpoint may have charged without an output */
	int64		text_bytes;		/* of the output */
	int64		queue_us,		/* -1 = not known */
				prefill_us,
				decode_us,
				total_us;
	char		reason[24];		/* finish_reason, '' = none */
} RequestFigures;

/* Return true if the remote program serves a message with these fields.  Neither throws nor allocates. */
bool		request_is_remote(const char *fields, Size len);
/* fields: those of the request's message */
void		request_note_begin(RequestTracking *n, WireKind kind, const char *fields, Size len);
/*
 * Record the end of a request.  Called once for each record, on every path.  After an ERROR it
 * allocates only memory for the log, and throws nothing.
 */
typedef struct RequestEnded
{
	RequestEnd	end;
	int64		id;
	const char *model;
	const char *reply;			/* fields of its final frame, or NULL */
	Size		reply_len;
	const WireSlot *live;		/* its slot's counters, used if the reply has none */
	const char *message;		/* its own fields, NULL = no longer valid */
	Size		message_len;
} RequestEnded;
void		request_note_end(RequestTracking *n, const RequestEnded *e);

/* settings */
extern int	vllm_log_min_duration;	/* ms, -1 = never */
extern char *vllm_traceparent;	/* '' = none */
extern char *vllm_tracestate;

/* _PG_init */
void		request_note_init(void);

/* Append the settings traceparent and tracestate to a message. */
void		request_note_put_trace(WireOut *o);

#endif
