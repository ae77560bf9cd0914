/*
 * request_pooling.h
 *	  Pooling requests from the fields of a message.
 */
#ifndef VLLM_SERVER_REQUEST_REQUEST_POOLING_H
#define VLLM_SERVER_REQUEST_REQUEST_POOLING_H

#include "backend/backend.h"
#include "ipc/wire.h"

/* Take a field; *known = false if it is not for a pooling request. */
bool		pool_field(PoolRequest *p, const WireField *f, bool *known, Err *e);
/* Is the loaded model the one that the request expects (ERR_NOT_READY if not)?  Any thread. */
bool		pool_check_digest(const PoolRequest *p, const Backend *be, const BackendModel *in, Err *e);
/* Must the model's files be read for that? */
bool		pool_needs_files(const PoolRequest *p, const Backend *be, const BackendModel *in);

#endif
