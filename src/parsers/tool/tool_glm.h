/*
 * tool_glm.h
 *	  Calls of GLM 4.5 and later: NAME and pairs of <arg_key> and <arg_value> between tags.
 */
#ifndef VLLM_PARSERS_TOOL_TOOL_GLM_H
#define VLLM_PARSERS_TOOL_TOOL_GLM_H

#include "parsers/tool/tool_internal.h"

extern const ArgTags glm_tags;

#endif
