/*
 * reason_ernie45.c
 *	  Reasoning of ERNIE 4.5: as R1; behind </think>, blank lines and the tags <response> and </response>
 *	  are not content.
 *
 * Tested by tests/parse/reason_ernie45.json.
 */
#include "parse/reason_int.h"

const ReasonFormat reason_ernie45 = {
	.start = "<think>",.end = "</think>",.open = "<response>",.close = "</response>",.special = true
};
