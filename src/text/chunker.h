/*
 * chunker.h
 *	  Split a long text into chunks that a model accepts.
 *
 * Sizes are in tokens, without the tokens that the tokenizer adds around a text.  A chunk never has more
 * of them when it is tokenized on its own, and is never cut inside of a character; only a single
 * character that takes more tokens than `size` makes a longer chunk.
 *
 * CHUNK_TOKENS cuts after every `size` tokens: the chunks concatenated are the text, and each repeats
 * the last `overlap` tokens of the one before.  The other methods cut at the breaks of the text
 * (chunk_boundaries.c), as late as the size allows and at the strongest available break, and leave out
 * the white space between two chunks; their overlap is the text from a break on that fits into `overlap`
 * tokens.
 */
#ifndef VLLM_TEXT_CHUNKER_H
#define VLLM_TEXT_CHUNKER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

typedef enum ChunkMethod
{
	CHUNK_NONE,					/* the text in one piece */
	CHUNK_TOKENS,
	CHUNK_SENTENCES,
	CHUNK_MARKDOWN,
	CHUNK_RECURSIVE				/* paragraphs, lines, sentences, words */
} ChunkMethod;

#define CHUNK_METHODS "tokens, sentences, markdown, recursive or none"

/* Return false if there is no such method. */
bool		chunk_method_by_name(const char *s, size_t n, ChunkMethod *to);

/* Tokenizes s[0..n): appends the offset at which each token begins, in ascending order. */
typedef struct ChunkEncoder
{
	bool		(*starts) (const void *ctx, const char *s, size_t n, IntVec *out, Err *e);
	const void *ctx;
} ChunkEncoder;

/*
 * Append four numbers per chunk to *out: its first byte and its end, its first token and its end (of the
 * whole text's tokens).  size >= 1, overlap < size.  With methods that cut at breaks, a text of white
 * space has no chunks.
 */
bool		chunk_text(const ChunkEncoder *enc, ChunkMethod method, int size, int overlap,
					   const char *s, size_t n, IntVec *out, Err *e);

/* ---- chunk_boundaries.c ---- */

/* A position where a text may be cut. */
typedef struct Break
{
	int			pos;			/* the next chunk begins here */
	int			end;			/* the chunk before ends here, without white space */
	int			level;			/* 0 = strongest */
	int			tokens;			/* tokens of the text before `end`; set by chunk_text() */
} Break;

typedef struct Breaks
{
	Break	   *v;
	size_t		n;
	size_t		cap;
	int			first;			/* first character that is no white space */
	int			end;			/* end of the last character that is no white space */
} Breaks;

/* Find the breaks of s[0..n), valid UTF-8, in order; the caller frees b->v with mem_free(). */
void		chunk_breaks(ChunkMethod method, const char *s, int n, Breaks *b);

#endif
