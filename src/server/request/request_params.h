/*
 * request_params.h
 *	  Sampling parameters from the fields of a message.
 */
#ifndef VLLM_SERVER_REQUEST_REQUEST_PARAMS_H
#define VLLM_SERVER_REQUEST_REQUEST_PARAMS_H

#include "core/core.h"
#include "ipc/wire.h"

/* Take a field; *known = false if it is none of a sampling parameter.  given: GP_*. */
bool		params_field(GenParams *p, unsigned *given, const WireField *f, bool *known, Err *e);

/* For fields of other kinds, too: false with *e set, or the value in its range. */
bool		params_bad(Err *e, const char *param, const char *what);
bool		params_int(const WireField *f, int64_t min, int64_t max, int *out, Err *e);
bool		params_num(const WireField *f, double min, double max, double *out, Err *e);

#endif
