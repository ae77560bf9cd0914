/*
 * traceparent.h
 *	  Validate trace contexts of the W3C: traceparent and tracestate.
 *
 * A traceparent is "00-" and three hexadecimal fields in lower case: 32 digits of a trace id, 16 of a
 * span id, 2 of flags; the ids must not be all 0.  Later versions may continue after a further "-".
 */
#ifndef VLLM_IPC_TRACEPARENT_H
#define VLLM_IPC_TRACEPARENT_H

#include <stdbool.h>
#include <stddef.h>

#define TRACEPARENT_LEN	55		/* length of version 00; later versions are truncated to it */
#define TRACESTATE_LEN	512		/* longest tracestate */

bool		traceparent_ok(const char *s, size_t n);
bool		tracestate_ok(const char *s, size_t n);

#endif
