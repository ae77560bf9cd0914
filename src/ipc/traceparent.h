/*
 * traceparent.h
 *	  Trace contexts of the W3C: is a traceparent, is a tracestate one?
 *
 * A traceparent is "00-" and three hexadecimal fields in lower case: 32 digits of a trace, 16 of a span,
 * 2 of flags, the first two not all 0.  Later versions may go on behind a further "-".
 */
#ifndef VLLM_IPC_TRACEPARENT_H
#define VLLM_IPC_TRACEPARENT_H

#include <stdbool.h>
#include <stddef.h>

#define TRACEPARENT_LEN	55		/* of version 00, and what is kept of later ones */
#define TRACESTATE_LEN	512		/* longest */

bool		traceparent_ok(const char *s, size_t n);
bool		tracestate_ok(const char *s, size_t n);

#endif
