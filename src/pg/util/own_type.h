/*
 * own_type.h
 *	  The types that the extension makes for arguments of its functions.
 */
#ifndef VLLM_PG_UTIL_OWN_TYPE_H
#define VLLM_PG_UTIL_OWN_TYPE_H

#include "postgres.h"

/* Is it vllm.json or vllm.schema, whose values are stored as json's are? */
bool		is_own_json(Oid type);
/* Is it vllm.texts, whose values are stored as those of text[] are? */
bool		is_own_texts(Oid type);
/* Is it one of those between vllm.texts and arrays, which fail for no value? */
bool		is_own_conversion(Oid function);

#endif
