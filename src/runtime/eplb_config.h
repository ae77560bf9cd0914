/*
 * eplb_config.h
 *	  How experts move between ranks: what the settings enable_eplb and eplb_config say.
 */
#ifndef VLLM_RUNTIME_EPLB_CONFIG_H
#define VLLM_RUNTIME_EPLB_CONFIG_H

#include "base/err.h"
#include "model/model.h"

/* text: the object, with vLLM's keys; "" = none of them.  Errors name the key.  on is left to the caller. */
bool		eplb_config_parse(const char *text, EplbConf *out, Err *e);

#endif
