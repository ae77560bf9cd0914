/*
 * default_params.h
 *	  vllm.default_params: what the session says where a call doesn't.
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
	StructuredParts outputs;	/* of structured_outputs */
} DefaultParams;

/* What the setting says; NULL: nothing.  It lives until the setting changes. */
const DefaultParams *default_params(void);

/*
 * The hint of an error of a generating call, which may be NULL.  Where the error is about a parameter that
 * the setting has, too, it says so.  detail: "parameter=NAME..."
 */
const char *default_params_hint(const char *detail, const char *hint);

/* GUC check hook */
bool		check_default_params(char **newval, void **extra, GucSource source);

#endif
