/*
 * eplb_config.h
 *	  Expert parallel load balancing: the settings enable_eplb and eplb_config.
 */
#ifndef VLLM_RUNTIME_EPLB_CONFIG_H
#define VLLM_RUNTIME_EPLB_CONFIG_H

#include "base/err.h"
#include "model/model.h"

/* Parse the object with vLLM's keys; "" = all defaults.  Errors name the key.  The caller sets out->on. */
bool		eplb_config_parse(const char *text, EplbConf *out, Err *e);

#endif
