/*
 * reason_olmo3.c
 *	  Reasoning of Olmo 3: as R1, but the tags are no special tokens: they are text, cut anyhow.
 *
 * Tested by tests/parse/reason_olmo3.json.
 */
#include "parse/reason_int.h"

const ReasonFormat reason_olmo3 = {.start = "<think>",.end = "</think>"};
