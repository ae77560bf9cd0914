/*
 * oniguruma.h
 *	  Oniguruma's regular expressions rewritten for PCRE2.
 */
#ifndef VLLM_TOKENIZER_PRETOK_ONIGURUMA_H
#define VLLM_TOKENIZER_PRETOK_ONIGURUMA_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

#define RX_MAX_PATTERN	16384	/* bytes */
#define RX_MAX_DEPTH	50		/* nested groups and classes */

/*
 * Append to *out what matches the same in PCRE2 (with UTF and UCP, newlines being
 * "\n").  false with *e set (ERR_UNSUPPORTED) if the pattern has anything whose
 * meaning might differ.
 */
bool		rx_translate(const char *pattern, Buf *out, Err *e);

#endif
