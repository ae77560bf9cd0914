/*
 * reason_identity.c
 *	  Reasoning of No reasoning: all is content.
 *
 * Tested by tests/parse/reason_identity.json.
 */
#include "parse/reason_int.h"

const ReasonFormat reason_identity = {.identity = true};
