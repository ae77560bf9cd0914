/*
 * row_builder.h
 *	  Rows of functions behind views, built from left to right.
 */
#ifndef VLLM_PG_UTIL_ROW_BUILDER_H
#define VLLM_PG_UTIL_ROW_BUILDER_H

#include "postgres.h"

#include "fmgr.h"
#include "utils/timestamp.h"

#define ROW_MAX_COLS	40

typedef struct Row
{
	Datum		values[ROW_MAX_COLS];
	bool		nulls[ROW_MAX_COLS];
	int			n;
} Row;

void		row_datum(Row *row, Datum d);
void		row_null(Row *row);
void		row_int(Row *row, int64 i);
void		row_num(Row *row, double num);
/* a string in the server's encoding, or NULL */
void		row_str(Row *row, const char *s);
/* a string of the arena, '' = NULL */
void		row_arena_str(Row *row, const char *s, size_t size);
/* 0 = NULL */
void		row_time(Row *row, TimestampTz t);
/* a time of the engine's clock, CLOCK_MONOTONIC, converted to a timestamp; 0 = NULL */
void		row_engine_time(Row *row, int64 us);
/* put the row into the function's tuplestore and start the next one */
void		row_emit(Row *row, FunctionCallInfo fcinfo);

#endif
