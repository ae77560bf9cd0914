/*
 * jsontext.h
 *	  Is a text what it has to be before it becomes part of a body?
 */
#ifndef VLLM_REMOTE_JSONTEXT_H
#define VLLM_REMOTE_JSONTEXT_H

#include <stdbool.h>
#include <stddef.h>

/* UTF-8, without surrogates and overlong forms. */
bool		utf8_text_ok(const char *s, size_t n);
/* One JSON value (RFC 8259) in UTF-8, not deeper than a thousand levels, white space around it. */
bool		json_text_ok(const char *s, size_t n);

#endif
