/*
 * api_call.h
 *	  Requests in the bodies of OpenAI's and Anthropic's interfaces (WK_API).
 *
 * An API call is a client inside the engine.  Its endpoint (a row of api.def) reads the body and makes
 * ordinary requests of it, each an inner server call (server_call.h) with the same fields that a backend
 * would send.  The endpoint then combines their replies to its response.  So a body can do nothing that
 * a backend can't, and the core knows nothing of bodies.
 */
#ifndef VLLM_SERVER_API_API_CALL_H
#define VLLM_SERVER_API_API_CALL_H

#include "server/request/api_request.h"
#include "server/server_call.h"

typedef struct ApiCall ApiCall;

/* Server thread only: */
void		api_start(ServerCall *c);
void		api_cancel(ServerCall *c);
void		api_each(const ApiCall *a, void (*fn) (ServerCall *c, void *arg), void *arg);
/* Free the call if none of its requests, frames or jobs is left.  Returns false otherwise. */
bool		api_free(ApiCall *a);

#endif
