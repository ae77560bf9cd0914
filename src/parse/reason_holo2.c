/*
 * reason_holo2.c
 *	  Reasoning of Holo2: as R1, unless the template's `thinking` is false.
 *
 * Tested by tests/parse/reason_holo2.json.
 */
#include "parse/reason_int.h"

const ReasonFormat reason_holo2 = {.start = "<think>",.end = "</think>",.switched = true,.special = true};
