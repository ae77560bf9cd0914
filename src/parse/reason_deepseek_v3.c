/*
 * reason_deepseek_v3.c
 *	  Reasoning of DeepSeek V3.1: as R1, if the template's `thinking` or `enable_thinking` is true; else it
 *	  does not think.
 *
 * Tested by tests/parse/reason_deepseek_v3.json.
 */
#include "parse/reason_int.h"

const ReasonFormat reason_deepseek_v3 = {.start = "<think>",.end = "</think>",.off = true,.special = true};
