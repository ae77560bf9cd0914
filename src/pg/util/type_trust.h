/*
 * type_trust.h
 *	  Which roles' code a cast from a type may run.
 */
#ifndef VLLM_PG_UTIL_TYPE_TRUST_H
#define VLLM_PG_UTIL_TYPE_TRUST_H

#include "postgres.h"

#include "access/htup.h"
#include "access/tupdesc.h"

/*
 * Return true if only superusers and this role can have created casts from this type, from a domain's
 * base type, and from all types that it is made of: elements, fields, bounds, and the domains over
 * these.
 */
bool		type_is_trusted_by(Oid type, Oid role);
/* ERROR 42804, with the names of column and type, if the type is not trusted. */
void		type_check_trusted(const char *column, Oid type);
/*
 * Prepare a row for row_to_json(), which calls casts to json: values of types that are not trusted
 * become texts.
 */
Datum		type_plain_row(HeapTuple tuple, TupleDesc desc);
/* Return the text that to_json() would make of a value, without casts that are not trusted. */
char	   *type_plain_json(Datum value, Oid type);

#endif
