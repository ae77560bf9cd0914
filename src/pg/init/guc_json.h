/*
 * guc_json.h
 *	  Check hooks of settings that are JSON objects with keys defined by the engine.
 */
#ifndef VLLM_PG_INIT_GUC_JSON_H
#define VLLM_PG_INIT_GUC_JSON_H

#include "postgres.h"

#include "utils/guc.h"

bool		check_eplb_config(char **newval, void **extra, GucSource source);
bool		check_speculative_config(char **newval, void **extra, GucSource source);

#endif
