/*
 * oniguruma.h
 *	  Translate Oniguruma's regular expressions to PCRE2.
 */
#ifndef VLLM_TOKENIZER_PRETOK_ONIGURUMA_H
#define VLLM_TOKENIZER_PRETOK_ONIGURUMA_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

#define RX_MAX_PATTERN	16384	/* bytes */
#define RX_MAX_DEPTH	50		/* nesting of groups and classes */

/*
 * Append to *out a pattern that matches the same in PCRE2 (with UTF and UCP, newlines being "\n").
 * Return false with *e set (ERR_UNSUPPORTED) if the pattern has any element whose meaning might differ.
 */
bool		rx_translate(const char *pattern, Buf *out, Err *e);

#endif
