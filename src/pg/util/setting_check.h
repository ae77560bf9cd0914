/*
 * setting_check.h
 *	  Check hooks of settings whose text is parsed by code that raises errors.
 */
#ifndef VLLM_PG_UTIL_SETTING_CHECK_H
#define VLLM_PG_UTIL_SETTING_CHECK_H

#include "postgres.h"

/*
 * Return the error of parse(text, arg) for a setting's text; NULL if it accepts the text, or if the
 * process can't check it because it has no database.  Data exceptions, exceeded limits and missing
 * features are caught; other errors are raised.  parse() must not hold resources other than memory.
 * The error and its strings are in the current memory context.
 */
ErrorData  *setting_error(void (*parse) (const char *text, const void *arg), const char *text,
						  const void *arg);

#endif
