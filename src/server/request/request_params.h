/*
 * request_params.h
 *	  Sampling parameters from the fields of a message.
 */
#ifndef VLLM_SERVER_REQUEST_REQUEST_PARAMS_H
#define VLLM_SERVER_REQUEST_REQUEST_PARAMS_H

#include "core/core.h"
#include "ipc/wire.h"

/*
 * Take a field, whose number must be in the range of its row in request_fields.def.  *known = false if it is
 * none of a sampling parameter.  given: GP().
 */
bool		params_field(GenParams *p, uint64_t *given, const WireField *f, bool *known, Err *e);

/* For fields of other kinds, too: false with *e set, or the value in its range. */
bool		params_bad(Err *e, const char *param, const char *what);
bool		params_int(const WireField *f, int64_t min, int64_t max, int *out, Err *e);

#endif
