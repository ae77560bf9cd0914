/*
 * tool_openai.c
 *	  Calls of gpt-oss, messages of the harmony format (harmony.h).
 *
 * Tested by tests/parse/openai.json.
 */
#include "parsers/tool/tool_internal.h"

const ToolFormat tool_openai = {.harmony = true,.special = true};
