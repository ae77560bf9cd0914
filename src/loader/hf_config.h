/*
 * hf_config.h
 *	  Private to src/loader: convert JSON objects into a Conf (also the entry point of the fuzz
 *	  target).
 */
#ifndef VLLM_LOADER_HF_CONFIG_H
#define VLLM_LOADER_HF_CONFIG_H

#include "loader/model_files_internal.h"

/* Add the keys of a JSON object to c, each after the prefix.  path is for error messages. */
bool		hfconfig_parse(Conf *c, const char *prefix, const char *json, size_t len,
						   const char *path, Err *e);

#endif
