/*
 * reason_qwen3.c
 *	  Reasoning of Qwen3: as R1; a tool call ends the thoughts, too.  With the template's `enable_thinking`
 *	  false, an output without </think> is all content.
 *
 * Tested by tests/parse/reason_qwen3.json.
 */
#include "parse/reason_int.h"

const ReasonFormat reason_qwen3 = {
	.start = "<think>",.end = "</think>",.also_ends = "<tool_call>",.switched = true,.hold_off = true,.special = true
};
