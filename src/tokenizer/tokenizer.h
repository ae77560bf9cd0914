/*
 * tokenizer.h
 *	  Text to token ids and back.
 *
 * A Tok is built once per model from tokenizer.json (+ tokenizer_config.json) or from the vocabulary in
 * a GGUF file, and is immutable afterwards: any number of threads may use one at the same time.  Input
 * and output are UTF-8 bytes.  Invalid UTF-8 never fails; the result is that of the reference (Hugging
 * Face tokenizers) after replacing each maximal invalid subpart by U+FFFD.
 *
 * Round trip: for byte-level BPE, the concatenated tok_piece() of an encoding
 * without special tokens is the input, byte for byte (valid UTF-8).
 */
#ifndef VLLM_TOKENIZER_TOKENIZER_H
#define VLLM_TOKENIZER_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

typedef struct Tok Tok;

/* GGUF's view of a vocabulary; arrays have n entries, owned by the caller. */
typedef struct TokGguf
{
	const char *model;			/* tokenizer.ggml.model: "gpt2", "llama", ... */
	const char *pre;			/* tokenizer.ggml.pre, NULL if absent */
	size_t		n;
	const char *const *tokens;	/* NUL-terminated, GGUF's spelling */
	const size_t *token_len;
	const float *scores;		/* NULL if absent */
	const int32_t *types;		/* NULL if absent: 1 normal 2 unknown 3 control 4 user 5 unused 6 byte */
	const uint8_t *added_flags; /* NULL if absent: ADDED_* of control and user tokens */
	size_t		n_merges;
	const char *const *merges;	/* "left right", in rank order */
	int32_t		bos, eos, unk;	/* -1 if absent */
	int32_t		sep;			/* -1 if absent */
	/* 0, 1, or -1 if absent */
	int			add_bos, add_eos, add_sep;
	int			add_space_prefix;
	int			remove_extra_whitespaces;
	int			lowercase, strip_accents;	/* of "bert" */
	const void *charsmap;		/* SentencePiece's precompiled rules, NULL if absent */
	size_t		n_charsmap;
	/* for a tokenizer.model, whose other parts are in the fields above (tok_from_spm()) */
	bool		native;			/* white space around added tokens as in SentencePiece */
	size_t		n_native;		/* the first tokens are the file's own, later ones have been added */
	bool		space_suffix;	/* the space goes after the text */
} TokGguf;

/* All fields absent. */
#define TOK_GGUF_INIT {.bos = -1, .eos = -1, .unk = -1, .sep = -1, .add_bos = -1, .add_eos = -1, \
					   .add_sep = -1, \
	.add_space_prefix = -1, .remove_extra_whitespaces = -1, .lowercase = -1, .strip_accents = -1}

/* Both return NULL with *e set on an error: unknown kinds are refused, never guessed. */
Tok		   *tok_from_hf(const char *tokenizer_json, size_t len,
						const char *tokenizer_config_json, size_t config_len,	/* NULL, 0 if absent */
						Err *e);
Tok		   *tok_from_gguf(const TokGguf *v, Err *e);
/*
 * Files of other libraries, for models without tokenizer.json: SentencePiece's
 * tokenizer.model, Mistral's tekken.json, tiktoken's lines "base64 rank".  config:
 * tokenizer_config.json, NULL if absent.
 */
Tok		   *tok_from_spm(const void *data, size_t n, const char *config, size_t config_len, Err *e);
Tok		   *tok_from_tekken(const char *json, size_t n, Err *e);
Tok		   *tok_from_tiktoken(const char *text, size_t n, const char *config, size_t config_len, Err *e);
void		tok_free(Tok *t);
/* Convert texts to lower case first, from now on (call before the first use); added tokens are found as
 * before. */
bool		tok_lower(Tok *t, Err *e);

#define TOK_ADD_SPECIAL		1	/* add BOS/EOS/[CLS]... according to the model's post-processor */
/*
 * Text such as "<|im_end|>" stays text (untrusted input).  Added tokens that
 * aren't special are still found, as by HF's encode_special_tokens.
 */
#define TOK_NO_PARSE_SPECIAL 2

/* Append the ids of s[0..n) to *out. */
bool		tok_encode(const Tok *t, const char *s, size_t n, unsigned flags, IntVec *out, Err *e);

/*
 * Append the ids of one text, or of two (b not NULL), with the special tokens that the post-processor
 * puts around and between them (special = false: without them).  types gets a token type id for each.
 */
void		tok_wrap(const Tok *t, const IntVec *a, const IntVec *b, bool special, IntVec *ids,
					 IntVec *types);
int			tok_lead(const Tok *t, bool pair);	/* number of special tokens before the first text */

/*
 * tok_encode() without the post-processor's tokens, for text composed of trusted and untrusted bytes:
 * marks[i] = 1 means that s[i] is not trusted, and a special token is found only if none of its bytes is
 * marked.  Otherwise the ids are those of tok_encode() of the whole text.
 */
bool		tok_encode_marked(const Tok *t, const char *s, const uint8_t *marks, size_t n, IntVec *out,
							  Err *e);

/*
 * Append the ids of s[0..n), without the post-processor's tokens, and for each of them its position in
 * the text: first character and end, as in Hugging Face's offsets.
 */
bool		tok_offsets(const Tok *t, const char *s, size_t n, IntVec *ids, IntVec *offsets, Err *e);

/*
 * Append for each token of s[0..n), valid UTF-8, without the post-processor's tokens, the byte at which
 * it begins, never before that of the previous token.
 */
bool		tok_starts(const Tok *t, const char *s, size_t n, IntVec *out, Err *e);

int32_t		tok_vocab_size(const Tok *t);	/* highest id + 1 */
int32_t		tok_bos(const Tok *t);	/* -1 = none */
int32_t		tok_eos(const Tok *t);	/* primary EOS; -1 = none */
bool		tok_is_special(const Tok *t, int32_t id);
/* Return the id of an exact token string (vocabulary spelling), -1 if there is none. */
int32_t		tok_find(const Tok *t, const char *s, size_t n);

/*
 * Return the bytes that token `id` contributes in the middle of a text (not NUL-terminated, may be part
 * of a UTF-8 character); *n = 0 for an id out of range.  Special tokens give their text.  For
 * SentencePiece models a leading U+2581 becomes a space here; dropping the first space of a text is the
 * detokenizer's job.
 */
const char *tok_piece(const Tok *t, int32_t id, size_t *n);

/* Return true if a text is the concatenation of its tokens' pieces, except for the first token. */
bool		tok_joins(const Tok *t);

/*
 * Decode a whole sequence, as HF decode(): appends to *out, always valid UTF-8.  Two differences, both
 * where HF gives U+FFFD for existing text (docs/internals/tokenizers.md): runs of byte fallback tokens
 * that are ill-formed in one place, and added tokens with letters of Latin-1 in a byte-level vocabulary.
 */
#define TOK_SKIP_SPECIAL	1
void		tok_decode(const Tok *t, const int32_t *ids, size_t n, unsigned flags, Buf *out);

#endif
