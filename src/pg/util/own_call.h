/*
 * own_call.h
 *	  SQL text of calls that find the extension's own functions.
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

/* Append one more OwnArg to a List. */
List	   *own_arg(List *args, const char *name, const char *value);
/*
 * Return the extension's function of this name whose first argument has this type; InvalidOid if
 * there is none.
 */
Oid			own_function(const char *name, Oid first_type);
/* Return true if it has an argument of this name after the first. */
bool		own_function_takes(Oid function, const char *name);
/* Return schema.function(...) with the given arguments, and the defaults of the others. */
char	   *own_call(Oid function, List *args);

#endif
