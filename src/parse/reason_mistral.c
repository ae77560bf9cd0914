/*
 * reason_mistral.c
 *	  Reasoning of Mistral's Magistral: [THINK] and [/THINK]; what is not between them is content.
 *
 * Tested by tests/parse/reason_mistral.json.
 */
#include "parse/reason_int.h"

const ReasonFormat reason_mistral = {.start = "[THINK]",.end = "[/THINK]",.anywhere = true,.special = true};
