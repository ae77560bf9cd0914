/*
 * setting_check.h
 *	  Check hooks of settings whose text is parsed by code that raises errors.
 */
#ifndef VLLM_PG_UTIL_SETTING_CHECK_H
#define VLLM_PG_UTIL_SETTING_CHECK_H

#include "postgres.h"

/*
 * What parse(text, arg) says of a setting's text; NULL: it takes it, or the process can't know, as it has no
 * database.  Data exceptions, limits and features that are missing are caught; other errors are raised.
 * parse() may hold nothing but memory.  Error and its strings are in the current memory context.
 */
ErrorData  *setting_error(void (*parse) (const char *text, const void *arg), const char *text,
						  const void *arg);

#endif
