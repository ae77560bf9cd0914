/*
 * word_marker.h
 *	  U+2581, SentencePiece's space, as a boundary between words.
 *
 * A vocabulary without a pre-tokenizer makes one word of a whole text.  But if no token has U+2581 after
 * another character, no merge can cross such a boundary: then the text may be cut there, and the ids are
 * the same.
 */
#ifndef VLLM_TOKENIZER_WORD_MARKER_H
#define VLLM_TOKENIZER_WORD_MARKER_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define META "\xE2\x96\x81"		/* U+2581 */
#define META_LEN 3

static inline bool
meta_at(const char *s, size_t n)
{
	return n >= META_LEN && memcmp(s, META, META_LEN) == 0;
}

/* Return the bytes of s up to the first U+2581 after another character, n if there is none. */
static inline size_t
meta_segment(const char *s, size_t n)
{
	size_t		i = 0;

	while (meta_at(s + i, n - i))
		i += META_LEN;
	while (i < n && !meta_at(s + i, n - i))
		i++;
	return i;
}

#endif
