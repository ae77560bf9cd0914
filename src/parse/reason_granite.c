/*
 * reason_granite.c
 *	  Reasoning of Granite 3.2: no tags, but "Here is my thought process:" and "Here is my response:".
 *
 * Tested by tests/parse/reason_granite.json.
 */
#include "parse/reason_int.h"

const ReasonFormat reason_granite = {.phrases = true};
