/*
 * call_outcome.h
 *	  How a call ended, and what that means for its request: the retry rule of
 *	  docs/user/remote-models.md.
 */
#ifndef VLLM_REMOTE_UPSTREAM_CALL_OUTCOME_H
#define VLLM_REMOTE_UPSTREAM_CALL_OUTCOME_H

#include "remote/http/http_client.h"

typedef enum OutcomeVerdict
{
	OUTCOME_REPLY,				/* the body is a reply, to be read to its end */
	OUTCOME_ERROR,					/* final error */
	OUTCOME_RETRY					/* may be retried */
} OutcomeVerdict;

/* What the end of a call says about its url. */
typedef enum CallHealth
{
	HEALTH_OK,					/* it works, whatever the response was */
	HEALTH_BAD,					/* it does not work */
	HEALTH_UNKNOWN
} CallHealth;

/* A call that has ended: the facts that decide about its url and about a new try. */
typedef struct EndedCall
{
	const HttpResult *r;
	bool		garbled;		/* the response could not be decoded (cls says how) */
	ErrClass	cls;
	bool		whole;			/* if garbled: the response is complete JSON */
	bool		emitted;		/* the client has got some of the output */
	bool		idempotent;
	/* HTTP_LATE, HTTP_NOT_SENT: the request's deadline has passed, not just the call's */
	bool		deadline;
} EndedCall;

typedef struct CallOutcome
{
	OutcomeVerdict verdict;
	CallHealth	health;
	bool		path;			/* only this path fails at the url; other paths may work */
	bool		charged;		/* there was no reply, but the endpoint may have charged for it */
	bool		throttled;		/* 429: too many requests */
	/*
	 * the retry does not count against the retry budget: the endpoint asked for it, or hasn't seen the
	 * call
	 */
	bool		spared;
	bool		elsewhere;		/* another model may succeed */
	/* the same call would fail again, but a call with part of its inputs might not */
	bool		apart;
	bool		split;			/* the input of one request is at fault: call separately for each request */
} CallOutcome;

CallOutcome	outcome(const EndedCall *c);

#endif
