/*
 * reason_minimax_m2.c
 *	  Reasoning of MiniMax-M2: as R1; its template writes <think>, so only </think> is generated.
 *
 * Tested by tests/parse/reason_minimax_m2.json.
 */
#include "parse/reason_int.h"

const ReasonFormat reason_minimax_m2 = {.start = "<think>",.end = "</think>",.special = true};
