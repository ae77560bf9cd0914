/*
 * charsmap.h
 *	  SentencePiece's precompiled normalization rules (nmt_nfkc and others).
 */
#ifndef VLLM_TOKENIZER_CHARSMAP_H
#define VLLM_TOKENIZER_CHARSMAP_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

typedef struct Charsmap Charsmap;

/* Copy a blob from a model file.  Return NULL with *e set if it is malformed. */
Charsmap   *charsmap_new(const void *blob, size_t n, Err *e);
void		charsmap_free(Charsmap *m);
/* Return the bytes of the longest replacement. */
size_t		charsmap_longest(const Charsmap *m);
/*
 * Append s (valid UTF-8) normalized.  sentencepiece: apply the longest rule at each position, as
 * SentencePiece does; otherwise go by grapheme clusters, as Hugging Face does.
 */
void		charsmap_apply(const Charsmap *m, const char *s, size_t n, bool sentencepiece, Buf *out);

#endif
