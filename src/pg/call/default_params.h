/*
 * default_params.h
 *	  vllm.default_params: the session's defaults for options that a call doesn't give.
 */
#ifndef VLLM_PG_CALL_DEFAULT_PARAMS_H
#define VLLM_PG_CALL_DEFAULT_PARAMS_H

#include "postgres.h"

#include "utils/guc.h"

#include "pg/call/output_shape.h"
#include "pg/call/options.h"

typedef struct DefaultParams
{
	GenOptions	o;
	StructuredParts outputs;	/* parts of the setting's structured_outputs */
} DefaultParams;

/* Return the setting's options; NULL if it is empty.  They live until the setting changes. */
const DefaultParams *default_params(void);

/*
 * Return the hint for an error of a generating call, which may be NULL.  If the error is about a
 * parameter that the setting gives, the hint says so.  detail: "parameter=NAME..."
 */
const char *default_params_hint(const char *detail, const char *hint);

/* GUC check hook */
bool		check_default_params(char **newval, void **extra, GucSource source);

#endif
