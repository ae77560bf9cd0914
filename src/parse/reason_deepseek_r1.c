/*
 * reason_deepseek_r1.c
 *	  Reasoning of DeepSeek R1, QwQ: <think> (often in the prompt) and </think>; the rule itself.
 *
 * Tested by tests/parse/reason_deepseek_r1.json.
 */
#include "parse/reason_int.h"

const ReasonFormat reason_deepseek_r1 = {.start = "<think>",.end = "</think>",.special = true};
