/*
 * http_error.h
 *	  Statuses and error bodies.
 */
#ifndef VLLM_HTTPD_HTTP_ERROR_H
#define VLLM_HTTPD_HTTP_ERROR_H

#include <stdbool.h>

#include "base/buf.h"

/* The API whose error format a route has. */
typedef enum ErrorDialect
{
	OPENAI, ANTHROPIC
} ErrorDialect;

/* Return the HTTP status of an SQLSTATE (docs/user/http-server.md has the table). */
int			answer_status_of(const char *sqlstate);

/*
 * Write {"error": {message, type, param, code}}, or Anthropic's {"type": "error", "error": {type,
 * message}}.
 */
void		answer_error(Buf *b, ErrorDialect d, int status, const char *message);

/*
 * Write the event {"type": "error", code, message, param, sequence_number} for an error body of OpenAI's
 * format.
 */
void		answer_event_error(Buf *b, const char *json, int sequence);

/* Return the status of a JSON response of the API that is an error body; 0: it is not an error. */
int			answer_error_status(const char *json, size_t len);

/* Return the string value of "type" if that is the outermost object's first member, else NULL; malloc'ed. */
char	   *answer_event_type(const char *json);

#endif
