/*
 * request_pool.h
 *	  Pooled requests from the fields of a message.
 */
#ifndef VLLM_ENGINE_REQUEST_POOL_H
#define VLLM_ENGINE_REQUEST_POOL_H

#include "engine/backend.h"
#include "wire/wire.h"

/* Take a field; *known = false if it is none of a pooled request. */
bool		pool_field(PoolRequest *p, const WireField *f, bool *known, Err *e);

#endif
