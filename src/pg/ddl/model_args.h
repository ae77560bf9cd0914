/*
 * model_args.h
 *	  Arguments of the functions that create models and adapters (model_ddl.c, lora_ddl.c).
 */
#ifndef VLLM_PG_DDL_MODEL_ARGS_H
#define VLLM_PG_DDL_MODEL_ARGS_H

#include "postgres.h"

#include "fmgr.h"

/* Return a text argument that must not be NULL. */
char	   *model_arg(FunctionCallInfo fcinfo, int arg, const char *what);
/* ERROR 42622 if a name is too long; kind: "model" */
void		model_check_name(const char *kind, const char *name);
/* ERROR 42501, with this message, unless the current user may name files of the server. */
void		model_check_may_read(const char *denied);

#endif
