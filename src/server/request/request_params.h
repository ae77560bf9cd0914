/*
 * request_params.h
 *	  Sampling parameters from the fields of a message.
 */
#ifndef VLLM_SERVER_REQUEST_REQUEST_PARAMS_H
#define VLLM_SERVER_REQUEST_REQUEST_PARAMS_H

#include "core/core.h"
#include "ipc/wire.h"

/*
 * Take a field, whose number must be in the range of its row in request_fields.def.  *known = false if
 * it is not a sampling parameter.  given: GP().
 */
bool		params_field(GenParams *p, uint64_t *given, const WireField *f, bool *known, Err *e);

/* Also for fields of other kinds: return false with *e set, or the value in its range. */
bool		params_bad(Err *e, const char *param, const char *what);
bool		params_int(const WireField *f, int64_t min, int64_t max, int *out, Err *e);

#endif
