/*
 * call_outcome.h
 *	  How a call ended, and what that means for its request: the retry rule of docs/user/remote-models.md.
 */
#ifndef VLLM_REMOTE_UPSTREAM_CALL_OUTCOME_H
#define VLLM_REMOTE_UPSTREAM_CALL_OUTCOME_H

#include "remote/http/http_client.h"

typedef enum FateVerdict
{
	OUTCOME_REPLY,				/* the body is an answer, to be read to its end */
	OUTCOME_ERROR,					/* for good */
	OUTCOME_RETRY					/* may be repeated */
} FateVerdict;

/* What a call says of its url. */
typedef enum FateHealth
{
	HEALTH_OK,					/* it works, whatever it said */
	HEALTH_BAD,					/* it doesn't */
	HEALTH_UNKNOWN
} FateHealth;

/* What is known of a call that has ended. */
typedef struct FateCase
{
	const HttpResult *r;
	bool		garbled;		/* its answer could not be read (cls says how) */
	ErrClass	cls;
	bool		whole;			/* garbled: but all of it has come, and is JSON */
	bool		emitted;		/* the caller has had some of it */
	bool		idempotent;
	bool		deadline;		/* HTTP_LATE, HTTP_NOT_SENT: the request's time is up, not the call's */
} FateCase;

typedef struct CallOutcome
{
	FateVerdict verdict;
	FateHealth	health;
	bool		path;			/* it is what was asked for that doesn't work there; the url may do */
	bool		charged;		/* gave no answer, and may have been charged */
	bool		throttled;		/* 429: too much is asked */
	/* repeating it is not the retry budget's: the endpoint asked for that, or hasn't seen the call */
	bool		spared;
	bool		elsewhere;		/* another model may well answer */
	/* the same again would be the same; of inputs of several requests, a part of them might not be */
	bool		apart;
	bool		split;			/* of inputs of several requests: one of them is at fault, ask one by one */
} CallOutcome;

CallOutcome	fate_of(const FateCase *c);

#endif
