/*
 * api_key_auth.h
 *	  Authentication of requests by API keys.
 */
#ifndef VLLM_HTTPD_API_KEY_AUTH_H
#define VLLM_HTTPD_API_KEY_AUTH_H

#include <stddef.h>

#include "httpd/handler.h"

/*
 * Find the role of a request and store it in q->role, and the number of its key in q->key.  Returns 0,
 * or the HTTP status of the refusal with its message.
 */
int			auth_role(ClientRequest *q, char *message, size_t size);

#endif
