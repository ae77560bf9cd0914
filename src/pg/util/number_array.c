/*
 * number_array.c
 *	  Arrays of numbers as callers pass them: integers as int or bigint, others as real or float8.
 *
 * Drivers send lists as arrays of the widest type, and PostgreSQL does not narrow an array by
 * itself.  So arguments have the wide type, or there is a function for each type; older views pass
 * the narrow type to the same function.
 *
 * Tests: tests/sql/43_drivers.sql.
 */
#include "postgres.h"

#include "catalog/pg_type.h"

#include "pg/util/number_array.h"

int32 *
number_array_ints(const ArrayType *a, int *n, int64 *bad)
{
	int32	   *values;

	*n = ArrayGetNItems(ARR_NDIM(a), ARR_DIMS(a));
	values = palloc(sizeof(int32) * Max(*n, 1));
	if (ARR_ELEMTYPE(a) != INT8OID)
	{
		memcpy(values, ARR_DATA_PTR(a), sizeof(int32) * *n);
		return values;
	}
	for (int i = 0; i < *n; i++)
	{
		*bad = ((const int64 *) ARR_DATA_PTR(a))[i];
		if (*bad != (int32) *bad)
			return NULL;
		values[i] = (int32) *bad;
	}
	return values;
}

ArrayType *
number_array_reals(ArrayType *a)
{
	const float8 *from = (const float8 *) ARR_DATA_PTR(a);
	int			n = ArrayGetNItems(ARR_NDIM(a), ARR_DIMS(a));
	Datum	   *elems;

	/* the caller refuses an array with NULLs, whatever its type */
	if (ARR_ELEMTYPE(a) != FLOAT8OID || array_contains_nulls(a))
		return a;
	elems = palloc(sizeof(Datum) * Max(n, 1));
	for (int i = 0; i < n; i++)
		elems[i] = Float4GetDatum((float4) from[i]);
	return construct_md_array(elems, NULL, ARR_NDIM(a), ARR_DIMS(a), ARR_LBOUND(a), FLOAT4OID, sizeof(float4),
							  true, TYPALIGN_INT);
}
