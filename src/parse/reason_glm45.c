/*
 * reason_glm45.c
 *	  Reasoning of GLM 4.5: as R1, unless the template's `enable_thinking` is false.
 *
 * Tested by tests/parse/reason_glm45.json.
 */
#include "parse/reason_int.h"

const ReasonFormat reason_glm45 = {.start = "<think>",.end = "</think>",.switched = true,.special = true};
