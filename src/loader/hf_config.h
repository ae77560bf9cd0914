/*
 * hf_config.h
 *	  Private to src/loader: JSON objects into a Conf (also the fuzz target's door).
 */
#ifndef VLLM_LOADER_HF_CONFIG_H
#define VLLM_LOADER_HF_CONFIG_H

#include "loader/model_files_internal.h"

/* Add the keys of a JSON object, each with the prefix; path is for the errors. */
bool		hfconfig_parse(Conf *c, const char *prefix, const char *json, size_t len,
						   const char *path, Err *e);

#endif
