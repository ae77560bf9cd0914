/*
 * api_call.h
 *	  Requests in the bodies of OpenAI's and Anthropic's interfaces (WK_API).
 *
 * An API call is a client inside the engine: its endpoint (a row of api.def) reads the
 * body and makes ordinary requests of it, each an inner conversation (server_call.h) with the
 * same fields that a backend would send; what these answer is put together as the
 * endpoint's answer.  So a body can do nothing that a backend can't, and the core knows
 * nothing of bodies.
 */
#ifndef VLLM_SERVER_API_API_CALL_H
#define VLLM_SERVER_API_API_CALL_H

#include "server/request/api_request.h"
#include "server/server_call.h"

typedef struct ApiCall ApiCall;

/* Server thread: */
void		api_start(ServerCall *c);
void		api_cancel(ServerCall *c);
void		api_each(const ApiCall *a, void (*fn) (ServerCall *c, void *arg), void *arg);
/* Free it if nothing of it is under way any more. */
bool		api_free(ApiCall *a);

#endif
