/*
 * hfconfig.h
 *	  Private to src/load: JSON objects into a Conf (also the fuzz target's door).
 */
#ifndef VLLM_LOAD_HFCONFIG_H
#define VLLM_LOAD_HFCONFIG_H

#include "load/files.h"

/* Add the keys of a JSON object, each with the prefix; path is for the errors. */
bool		hfconfig_parse(Conf *c, const char *prefix, const char *json, size_t len,
						   const char *path, Err *e);

#endif
