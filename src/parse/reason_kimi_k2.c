/*
 * reason_kimi_k2.c
 *	  Reasoning of Kimi K2: as R1, unless the template's `thinking` is false; a section of tool calls ends
 *	  the thoughts, too.
 *
 * Tested by tests/parse/reason_kimi_k2.json.
 */
#include "parse/reason_int.h"

const ReasonFormat reason_kimi_k2 = {
	.start = "<think>",.end = "</think>",.also_ends = "<|tool_calls_section_begin|>",.switched = true,.special = true
};
