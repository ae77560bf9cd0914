/*
 * reason_step3.c
 *	  Reasoning of Step-3: as R1; only </think> is generated.
 *
 * Tested by tests/parse/reason_step3.json.
 */
#include "parse/reason_int.h"

const ReasonFormat reason_step3 = {.start = "<think>",.end = "</think>",.special = true};
