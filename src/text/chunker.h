/*
 * chunker.h
 *	  A long text in chunks that a model takes.
 *
 * Sizes are tokens, without what the tokenizer adds around a text.  A chunk never holds
 * more of them when it is tokenized on its own, and is never cut inside of a
 * character; only a character that takes more tokens than `size` makes a longer one.
 *
 * CHUNK_TOKENS cuts after every `size` tokens: the chunks put together are the text, and
 * each repeats the last `overlap` tokens of the one before.  The other methods cut where a
 * text has its breaks (chunk_boundaries.c), as late as the size allows and at the strongest
 * break that there is, and leave out the white space between two chunks; their overlap
 * is what fits into `overlap` tokens from a break on.
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

/* false: no such method */
bool		chunk_method_by_name(const char *s, size_t n, ChunkMethod *to);

/* The tokens of s[0..n): the offset at which each begins, in ascending order. */
typedef struct ChunkEncoder
{
	bool		(*starts) (const void *ctx, const char *s, size_t n, IntVec *out, Err *e);
	const void *ctx;
} ChunkEncoder;

/*
 * Append four numbers a chunk to *out: its first byte and the one behind its last, its
 * first token and the one behind its last (of the whole text).  size >= 1, overlap <
 * size.  At breaks, a text of white space has no chunks.
 */
bool		chunk_text(const ChunkEncoder *enc, ChunkMethod method, int size, int overlap,
					   const char *s, size_t n, IntVec *out, Err *e);

/* ---- chunk_boundaries.c ---- */

/* A place where a text may be cut. */
typedef struct Break
{
	int			pos;			/* the next chunk begins here */
	int			end;			/* the one before ends here, without white space */
	int			level;			/* 0 = strongest */
	int			tokens;			/* of the text before end; chunk_text()'s */
} Break;

typedef struct Breaks
{
	Break	   *v;
	size_t		n;
	size_t		cap;
	int			first;			/* where the text begins */
	int			end;			/* behind the last character that is no white space */
} Breaks;

/* The breaks of s[0..n), valid UTF-8, in order; to be freed with mem_free(b->v). */
void		chunk_breaks(ChunkMethod method, const char *s, int n, Breaks *b);

#endif
