/*
 * request_limits.h
 *	  The caller and the limits of its role, from the message.
 */
#ifndef VLLM_SERVER_REQUEST_REQUEST_LIMITS_H
#define VLLM_SERVER_REQUEST_REQUEST_LIMITS_H

#include "core/core.h"
#include "ipc/wire.h"

/* One field of a message; *known: it was one of ours. */
bool		caller_field(Caller *a, const WireField *f, bool *known, Err *e);
/* The same as fields of another message. */
void		asker_put(const Caller *a, WireOut *o);
/* May a request ask for so many tokens?  ERR_INVALID. */
bool		asker_max_tokens(const Caller *a, const GenParams *p, uint64_t given, Err *e);

#endif
