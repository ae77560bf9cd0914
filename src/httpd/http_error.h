/*
 * http_error.h
 *	  Statuses and error bodies.
 */
#ifndef VLLM_HTTPD_HTTP_ERROR_H
#define VLLM_HTTPD_HTTP_ERROR_H

#include <stdbool.h>

#include "base/buf.h"

/* Whose shape a route's errors have. */
typedef enum ErrorDialect
{
	OPENAI, ANTHROPIC
} ErrorDialect;

/* The HTTP status of an SQLSTATE (docs/user/http-server.md has the table). */
int			answer_status_of(const char *sqlstate);

/* {"error": {message, type, param, code}}, or Anthropic's {"type": "error", "error": {type, message}} */
void		answer_error(Buf *b, ErrorDialect d, int status, const char *message);

/* The event {"type": "error", code, message, param, sequence_number} of an error body of OpenAI's shape */
void		answer_event_error(Buf *b, const char *json, int sequence);

/* A JSON answer of the API that is an error body: its status; 0: it is no error. */
int			answer_error_status(const char *json, size_t len);

/* The string value of the outermost object's key as its first member, or NULL; malloc'ed. */
char	   *answer_event_type(const char *json);

#endif
