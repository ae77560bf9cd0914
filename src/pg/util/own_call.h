/*
 * own_call.h
 *	  Calls of the extension's functions, as SQL that means ours.
 */
#ifndef VLLM_PG_UTIL_OWN_CALL_H
#define VLLM_PG_UTIL_OWN_CALL_H

#include "postgres.h"

#include "nodes/pg_list.h"

typedef struct OwnArg
{
	const char *name;
	const char *value;			/* an SQL expression */
} OwnArg;

/* A List of OwnArg with one more. */
List	   *own_arg(List *args, const char *name, const char *value);
/* The extension's function of this name whose first argument is of this type; InvalidOid: it has none. */
Oid			own_function(const char *name, Oid first_type);
/* Has it an argument of this name behind the first? */
bool		own_function_takes(Oid function, const char *name);
/* schema.function(...) with the arguments that are given, and the defaults of the others. */
char	   *own_call(Oid function, List *args);

#endif
