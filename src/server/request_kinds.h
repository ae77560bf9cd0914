/*
 * request_kinds.h
 *	  What the server does with each kind of request: one row a kind.
 *
 * The rows join what must not know of each other: requests (request/), models and adapters (models/), API
 * calls (api/).  All functions are called on the server thread.
 */
#ifndef VLLM_SERVER_REQUEST_KINDS_H
#define VLLM_SERVER_REQUEST_KINDS_H

#include "server/server_call.h"

typedef struct RequestKind
{
	bool		counted;		/* the core works for it, and llm_stat_engine counts it */
	bool		lora;			/* if it names an adapter, this has to be loaded first */
	/* the message is complete and checked */
	void		(*start) (ServerCall *c);
	/* its model is loaded, and its adapter; NULL: it waits for none */
	void		(*run) (ServerCall *c);
	/* it is to end early; NULL: what is in the core is cancelled */
	void		(*cancel) (ServerCall *c);
} RequestKind;

/* kind: a WireKind */
const RequestKind *request_kind(int kind);

#endif
