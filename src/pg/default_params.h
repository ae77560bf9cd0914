/*
 * default_params.h
 *	  vllm.default_params: what the session says where a call doesn't.
 */
#ifndef VLLM_PG_DEFAULT_PARAMS_H
#define VLLM_PG_DEFAULT_PARAMS_H

#include "postgres.h"

#include "utils/guc.h"

#include "pg/options.h"

typedef struct DefaultParams
{
	GenOptions	o;
	bool		outputs_name_a_kind;	/* structured_outputs does */
	char	   *shape_options;	/* structured_outputs without its kind, a json object; NULL: there are none */
} DefaultParams;

/* What the setting says; NULL: nothing.  It lives until the setting changes. */
const DefaultParams *default_params(void);

/* GUC check hook */
bool		check_default_params(char **newval, void **extra, GucSource source);

#endif
