/*
 * param_range.h
 *	  Check a parameter's number against the range of its row in request_fields.def.
 */
#ifndef VLLM_CORE_SAMPLE_PARAM_RANGE_H
#define VLLM_CORE_SAMPLE_PARAM_RANGE_H

#include <stdbool.h>

#include "base/err.h"

/*
 * Check the number of a field; returns false with *e set if it is out of range.  A field without range
 * passes.
 */
bool		param_in_range(int tag, double v, Err *e);

#endif
