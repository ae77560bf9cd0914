/*
 * reason_openai_gptoss.c
 *	  Reasoning of gpt-oss: the channels of its messages (harmony.h).
 *
 * Tested by tests/parse/reason_openai_gptoss.json.
 */
#include "parse/reason_int.h"

const ReasonFormat reason_openai_gptoss = {.harmony = true,.special = true};
