/*
 * glm.h
 *	  Calls of GLM 4.5 and later: NAME and pairs of <arg_key> and <arg_value> between tags.
 */
#ifndef VLLM_PARSE_GLM_H
#define VLLM_PARSE_GLM_H

#include "parse/tool_int.h"

extern const ArgTags glm_tags;

#endif
