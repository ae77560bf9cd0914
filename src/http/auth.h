/*
 * auth.h
 *	  Who asks.
 */
#ifndef VLLM_HTTP_AUTH_H
#define VLLM_HTTP_AUTH_H

#include <stddef.h>

#include "http/serve.h"

/* The role of a request's key, malloc'ed in *role: 0; or the HTTP status of the refusal, with its message. */
int			auth_role(const Request *q, char **role, char *message, size_t size);

#endif
