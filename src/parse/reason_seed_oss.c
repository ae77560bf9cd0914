/*
 * reason_seed_oss.c
 *	  Reasoning of Seed-OSS: as R1, with <seed:think> and </seed:think>.
 *
 * Tested by tests/parse/reason_seed_oss.json.
 */
#include "parse/reason_int.h"

const ReasonFormat reason_seed_oss = {.start = "<seed:think>",.end = "</seed:think>",.special = true};
