/*
 * number_array.h
 *	  Arrays of numbers as callers have them: whole ones of int or bigint, others of real or float8.
 */
#ifndef VLLM_PG_UTIL_NUMBER_ARRAY_H
#define VLLM_PG_UTIL_NUMBER_ARRAY_H

#include "postgres.h"

#include "utils/array.h"

/*
 * The elements of an int[] or a bigint[], none of which is NULL, in the current context.  NULL: *bad is too
 * large for an int.
 */
int32	   *number_array_ints(const ArrayType *a, int *n, int64 *bad);

/* A real[] as it is, a float8[] as real[]: what a real can't be is infinite. */
ArrayType  *number_array_reals(ArrayType *a);

#endif
