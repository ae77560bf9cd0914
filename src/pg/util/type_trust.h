/*
 * type_trust.h
 *	  Whose code a cast from a type may run.
 */
#ifndef VLLM_PG_UTIL_TYPE_TRUST_H
#define VLLM_PG_UTIL_TYPE_TRUST_H

#include "postgres.h"

#include "access/htup.h"
#include "access/tupdesc.h"

/*
 * Can only superusers and this role have made casts from this type, from what a domain is over, and from all
 * that the type is made of: elements, fields, bounds, and the domains over it?
 */
bool		type_is_trusted_by(Oid type, Oid role);
/* ERROR 42804 if not: column and type are named. */
void		type_check_trusted(const char *column, Oid type);
/* A row for row_to_json(), which calls casts to json: values of types that are not trusted become texts. */
Datum		type_plain_row(HeapTuple tuple, TupleDesc desc);
/* The same of any value, as to_json() would have it. */
char	   *type_plain_json(Datum value, Oid type);

#endif
