/*
 * request_kinds.h
 *	  What the server does with each kind of request: one row for each kind.
 *
 * The rows connect modules that must not know each other: requests (request/), models and adapters
 * (models/), API calls (api/).  All functions are called on the server thread.
 */
#ifndef VLLM_SERVER_REQUEST_KINDS_H
#define VLLM_SERVER_REQUEST_KINDS_H

#include "server/server_call.h"

typedef struct RequestKind
{
	bool		counted;		/* the core processes it, and llm_stat_engine counts it */
	bool		lora;			/* if it names an adapter, the adapter must be loaded first */
	/* the message is complete and checked */
	void		(*start) (ServerCall *c);
	/* the model, and the adapter, are loaded; NULL: it waits for neither */
	void		(*run) (ServerCall *c);
	/* it must end early; NULL: cancel its request in the core */
	void		(*cancel) (ServerCall *c);
} RequestKind;

/* kind: a WireKind */
const RequestKind *request_kind(int kind);

#endif
