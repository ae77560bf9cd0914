/*
 * request_tracking.h
 *	  What is told of requests besides their answers: in llm_requests while they run, in
 *	  llm_stat_query and llm_stat_role when they have ended, and in the log when they were slow.
 *
 * A note is taken from the request's message when it starts, and its counters from the last frame of the
 * reply.  Neither has a word of prompts or answers.
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
	bool		counts;			/* a model answers it */
	bool		remote;			/* the remote program does, not the engine */
	Oid			roleid;
	uint64		query_id;		/* of the session's statement, 0 = not known */
	TimestampTz statement;		/* when that began */
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

/* What the engine says of a request that has ended. */
typedef struct RequestFigures
{
	int64		prompt_tokens,
				cached_tokens,
				output_tokens,
				preemptions;
	int64		draft_tokens,
				accepted_tokens;
	int64		charged_tries;	/* of an endpoint */
	int64		text_bytes;		/* of the answer */
	int64		queue_us,		/* -1 = not known */
				prefill_us,
				decode_us,
				total_us;
	char		reason[24];		/* finish_reason, '' = none */
} RequestFigures;

/* Is a message with these fields the remote program's?  Neither throws nor allocates. */
bool		request_is_remote(const char *fields, Size len);
/* fields: of the request's message */
void		request_note_begin(RequestTracking *n, WireKind kind, const char *fields, Size len);
/*
 * The request has ended.  Called once for each note, on every path: after an ERROR nothing is allocated
 * but what the log takes, and nothing is thrown.
 */
typedef struct RequestEnded
{
	RequestEnd	end;
	int64		id;
	const char *model;
	const char *reply;			/* fields of its last frame, NULL = there is none: */
	Size		reply_len;
	const WireSlot *live;		/* then what its slot says */
	const char *message;		/* its own fields, NULL = they are gone */
	Size		message_len;
} RequestEnded;
void		request_note_end(RequestTracking *n, const RequestEnded *e);

/* settings */
extern int	vllm_log_min_duration;	/* ms, -1 = never */
extern char *vllm_traceparent;	/* '' = none */
extern char *vllm_tracestate;

/* _PG_init */
void		request_note_init(void);

/* The settings' fields of a message. */
void		request_note_put_trace(WireOut *o);

#endif
