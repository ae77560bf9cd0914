/*
 * named_args.h
 *	  The arguments of SQL functions by name.
 */
#ifndef VLLM_PG_UTIL_NAMED_ARGS_H
#define VLLM_PG_UTIL_NAMED_ARGS_H

#include "postgres.h"

#include "fmgr.h"

/* Return the position of a function's argument, -1 if it has none of this name. */
int			fn_arg_of(Oid funcid, const char *name);

/* Return the position of the call's argument, -1 if the function has none of this name. */
int			fn_arg(FunctionCallInfo fcinfo, const char *name);

/* Like fn_arg(), but also -1 if the argument is NULL. */
int			fn_arg_given(FunctionCallInfo fcinfo, const char *name);

/* Return the type modifier of an argument's expression, -1 if it has none; NULL::varchar(5) has one. */
int32		fn_arg_typmod(FunctionCallInfo fcinfo, int arg);

/*
 * Return number()'s result for the name and type of each of the call's arguments, *n of them.
 * number() is called once for each function, so a function must always be used with the same one.
 * The result is valid until the next call of a function of this file.
 */
typedef int (*ArgNumber) (const char *name, Oid type);
const int16 *fn_arg_numbers(FunctionCallInfo fcinfo, ArgNumber number, int *n);

#endif
