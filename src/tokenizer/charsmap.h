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

/* blob as it stands in a model file; copied.  NULL with *e set if it is malformed. */
Charsmap   *charsmap_new(const void *blob, size_t n, Err *e);
void		charsmap_free(Charsmap *m);
/* Bytes of the longest replacement. */
size_t		charsmap_longest(const Charsmap *m);
/*
 * Append s (valid UTF-8) normalized.  sentencepiece: the longest rule at each
 * place, as SentencePiece does; otherwise by grapheme clusters, as Hugging Face.
 */
void		charsmap_apply(const Charsmap *m, const char *s, size_t n, bool sentencepiece, Buf *out);

#endif
