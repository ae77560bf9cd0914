/*
 * stop_strings.h
 *	  Stop strings in an output's text as it grows (vLLM's rules: docs/user/sampling.md).
 *
 * They match decoded text and may span tokens and end in the middle of one.  The earliest completing
 * match wins, ties by list order.  Text that may still become a stop string is held back; text fed
 * before the search window opens (min_tokens) is never part of a match.
 */
#ifndef VLLM_TEXT_STOP_STRINGS_H
#define VLLM_TEXT_STOP_STRINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

typedef struct Stop Stop;

/* n may be 0 (nothing is held back, nothing matches).  Strings are copied. */
Stop	   *stop_new(const char *const *strs, const size_t *lens, size_t n, bool include_in_output);
void		stop_free(Stop *s);

/*
 * Feed text; append what may be emitted to *out.  search=false: the text is passed on and excluded from
 * the search window (min_tokens not reached).  Return the index of the stop string that was completed,
 * -1 if none.  After a match nothing more may be fed.
 */
int			stop_feed(Stop *s, const char *text, size_t n, bool search, Buf *out);
/* The output has ended without a match: emit what was held back. */
void		stop_flush(Stop *s, Buf *out);

#endif
