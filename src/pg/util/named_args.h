/*
 * named_args.h
 *	  The arguments of SQL functions by name.
 */
#ifndef VLLM_PG_UTIL_NAMED_ARGS_H
#define VLLM_PG_UTIL_NAMED_ARGS_H

#include "postgres.h"

#include "fmgr.h"

/* Position of a function's argument, -1 if it has none of this name. */
int			fn_arg_of(Oid funcid, const char *name);

/* Position of the call's argument, -1 if the function has none of this name. */
int			fn_arg(FunctionCallInfo fcinfo, const char *name);

/* The same, and the argument is not NULL; else -1. */
int			fn_arg_given(FunctionCallInfo fcinfo, const char *name);

/* The type modifier of an argument's expression, -1 if it has none: NULL::varchar(5) says one. */
int32		fn_arg_typmod(FunctionCallInfo fcinfo, int arg);

/*
 * For each of the call's arguments what number() says of its name and type, *n of them.
 * It is asked once per function; always give the same one for a function.
 * Valid until the next call of a function of this file.
 */
typedef int (*ArgNumber) (const char *name, Oid type);
const int16 *fn_arg_numbers(FunctionCallInfo fcinfo, ArgNumber number, int *n);

#endif
