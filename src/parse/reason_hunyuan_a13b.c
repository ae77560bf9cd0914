/*
 * reason_hunyuan_a13b.c
 *	  Reasoning of Hunyuan-A13B: <think>, thoughts and </think>, <answer>, content and </answer>, on lines
 *	  of their own; without <think> all is content.
 *
 * Tested by tests/parse/reason_hunyuan_a13b.json.
 */
#include "parse/reason_int.h"

const ReasonFormat reason_hunyuan_a13b = {
	.start = "<think>",.end = "</think>",.needs_start = true,.lines = true,.open = "<answer>",.close = "</answer>"
};
