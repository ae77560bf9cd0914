/*
 * param_range.h
 *	  Is a parameter's number in the range of its row in request_fields.def?
 */
#ifndef VLLM_CORE_SAMPLE_PARAM_RANGE_H
#define VLLM_CORE_SAMPLE_PARAM_RANGE_H

#include <stdbool.h>

#include "base/err.h"

/* By tag; false with *e set.  true if the field has no range. */
bool		param_in_range(int tag, double v, Err *e);

#endif
