/*
 * auth.h
 *	  Who asks.
 */
#ifndef VLLM_HTTP_AUTH_H
#define VLLM_HTTP_AUTH_H

#include <stddef.h>

#include "http/serve.h"

/* The role of a request, in q->role, and its key's number in q->key: 0; or the HTTP status of the refusal, with its message. */
int			auth_role(Request *q, char *message, size_t size);

#endif
