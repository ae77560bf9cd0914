/*
 * own_type.h
 *	  The types that the extension defines for arguments of its functions.
 */
#ifndef VLLM_PG_UTIL_OWN_TYPE_H
#define VLLM_PG_UTIL_OWN_TYPE_H

#include "postgres.h"

/* Return true for vllm.json and vllm.schema, whose values are stored like json's. */
bool		is_own_json(Oid type);
/* Return true for vllm.texts, whose values are stored like those of text[]. */
bool		is_own_texts(Oid type);
/* Return true for the conversions between vllm.texts and arrays, which can't fail. */
bool		is_own_conversion(Oid function);

#endif
