/*
 * reason_minimax_m2_append_think.c
 *	  Reasoning of MiniMax-M2 for clients that want the thoughts in the content, with the <think> that
 *	  its template wrote.
 *
 * Tested by tests/parse/reason_minimax_m2_append_think.json.
 */
#include "parse/reason_int.h"

const ReasonFormat reason_minimax_m2_append_think = {.start = "<think>",.append = true,.special = true};
