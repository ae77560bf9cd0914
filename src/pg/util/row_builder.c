/*
 * row_builder.c
 *	  Rows of functions behind views (views.c, remote_views.c), built from left to right.
 *
 * Tests: tests/sql/08_views.sql.
 */
#include "postgres.h"

#include <time.h>

#include "funcapi.h"
#include "utils/builtins.h"

#include "pg/util/encoding.h"
#include "pg/util/row_builder.h"

void
row_datum(Row *row, Datum d)
{
	row->nulls[row->n] = false;
	row->values[row->n++] = d;
}

void
row_null(Row *row)
{
	row->nulls[row->n] = true;
	row->values[row->n++] = (Datum) 0;
}

void
row_int(Row *row, int64 i)
{
	row_datum(row, Int64GetDatum(i));
}

void
row_num(Row *row, double num)
{
	row_datum(row, Float8GetDatum(num));
}

void
row_str(Row *row, const char *s)
{
	if (s == NULL)
		row_null(row);
	else
		row_datum(row, CStringGetTextDatum(s));
}

void
row_arena_str(Row *row, const char *s, size_t size)
{
	size_t		n = strnlen(s, size);

	if (n == 0)
		row_null(row);
	else
		row_datum(row, PointerGetDatum(text_from_wire(s, n)));
}

void
row_time(Row *row, TimestampTz t)
{
	if (t == 0)
		row_null(row);
	else
		row_datum(row, TimestampTzGetDatum(t));
}

void
row_emit(Row *row, FunctionCallInfo fcinfo)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	if (row->n != rsinfo->setDesc->natts)
		elog(ERROR, "row has %d columns, expected %d", row->n, rsinfo->setDesc->natts);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row->values, row->nulls);
	row->n = 0;
}

void
row_engine_time(Row *row, int64 us)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	if (us == 0)
		row_null(row);
	else
		row_datum(row,
				  TimestampTzGetDatum(GetCurrentTimestamp() + us -
									  ((int64) ts.tv_sec * 1000000 + ts.tv_nsec / 1000)));
}
