/*
 * number_array.h
 *	  Arrays of numbers as callers pass them: integers as int or bigint, others as real or float8.
 */
#ifndef VLLM_PG_UTIL_NUMBER_ARRAY_H
#define VLLM_PG_UTIL_NUMBER_ARRAY_H

#include "postgres.h"

#include "utils/array.h"

/*
 * Return the elements of an int[] or a bigint[] without NULLs, in the current context.  Return NULL
 * if *bad is too large for an int.
 */
int32	   *number_array_ints(const ArrayType *a, int *n, int64 *bad);

/* Return a real[] unchanged, a float8[] as real[]; values out of range become infinite. */
ArrayType  *number_array_reals(ArrayType *a);

#endif
