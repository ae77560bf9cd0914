/*
 * json.h
 *	  How much a JSON text would take as a tree, told before a parser makes one.
 *
 * A parser makes a node of 64 bytes for each value, and two bytes of text are enough
 * for one ("[0,0,0"): a file of 100 MB would become 4 GB.  So values are counted first.
 */
#ifndef VLLM_BASE_JSON_H
#define VLLM_BASE_JSON_H

#include <stddef.h>

/*
 * At least as many as there are values in the text, or in as much of it as is JSON; ends
 * when there are more than max.
 */
size_t		json_values(const char *s, size_t n, size_t max);

#endif
