/*
 * request_limits.h
 *	  The caller and the limits of its role, from the fields of a message.
 */
#ifndef VLLM_SERVER_REQUEST_REQUEST_LIMITS_H
#define VLLM_SERVER_REQUEST_REQUEST_LIMITS_H

#include "core/core.h"
#include "ipc/wire.h"

/* Take a field of a message; *known = false if it is not about the caller. */
bool		caller_field(Caller *a, const WireField *f, bool *known, Err *e);
/* Write the caller as fields of another message. */
void		caller_put(const Caller *a, WireOut *o);
/* Check that max_tokens is within the role's limit; ERR_INVALID if not. */
bool		caller_max_tokens(const Caller *a, const GenParams *p, uint64_t given, Err *e);

#endif
