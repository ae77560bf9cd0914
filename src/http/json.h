/*
 * json.h
 *	  Is a body JSON, and does it ask for a stream?
 */
#ifndef VLLM_HTTP_JSON_H
#define VLLM_HTTP_JSON_H

#include <stdbool.h>
#include <stddef.h>

/*
 * n bytes at s are one JSON text (RFC 8259) in UTF-8, nested at most JSON_DEPTH deep: *flag is whether the
 * outermost object's member key is true (the last one counts).  false: it is none, from byte *at on.
 */
bool		json_check(const char *s, size_t n, const char *key, bool *flag, size_t *at);

#define JSON_DEPTH	512

#endif
