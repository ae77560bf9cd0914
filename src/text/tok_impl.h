/*
 * tok_impl.h
 *	  What a Tok consists of; seen by the files of src/text only.
 *
 * tok_hf.c and tok_gguf.c build one, tokenizer.c encodes with it, detok.c
 * decodes.  The owner of every pointer below is the Tok.
 */
#ifndef VLLM_TEXT_TOK_IMPL_H
#define VLLM_TEXT_TOK_IMPL_H

#include "text/added.h"
#include "text/bpe.h"
#include "text/split.h"
#include "text/spm.h"
#include "text/strtab.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

#define TOK_MAX_ID			(1 << 22)	/* ids of real vocabularies end below 2^19 */
#define TOK_MAX_TOKEN_BYTES	(1 << 16)
#define TOK_MAX_NORM		16
#define TOK_MAX_TEMPLATE	64

/* One step of the normalizer. */
typedef enum NormKind
{
	NORM_UNICODE,				/* form */
	NORM_PREPEND,				/* to: put before a text that isn't empty */
	NORM_REPLACE				/* from -> to, literally */
} NormKind;

typedef struct NormStep
{
	NormKind	kind;
	UniForm		form;
	char	   *from;			/* not empty */
	char	   *to;
} NormStep;

/* One step of the pre-tokenizer. */
typedef enum PreKind
{
	PRE_SPLIT,					/* split */
	PRE_SPACE,					/* ByteLevel's add_prefix_space: a space, unless there is one */
	PRE_METASPACE				/* ' ' -> meta, then put meta before, unless there is one */
} PreKind;

typedef enum PrependScheme
{
	PREPEND_NEVER,
	PREPEND_FIRST,				/* only at the very start of the text */
	PREPEND_ALWAYS
} PrependScheme;

typedef struct PreStep
{
	PreKind		kind;
	SplitStep	split;
	PrependScheme prepend;
	char	   *str;			/* literal of split, or meta */
} PreStep;

/* What the decoder does to the start of a text. */
typedef enum DecodeStart
{
	START_AS_IS,
	START_STRIP,				/* drop the first space of the text */
	START_DROP_META				/* drop all U+2581 of the first token */
} DecodeStart;

#define TOK_F_SPECIAL	1
#define TOK_F_BYTE		2		/* byte fallback token: its piece is one byte */

struct Tok
{
	int32_t		n_ids;			/* highest id + 1 */
	StrTab	   *names;			/* vocabulary's spelling; index = the model's tokens */
	StrTab	   *added_names;	/* index of added tokens by their content */
	StrTab	   *pieces;			/* bytes in a decoded text */
	uint8_t    *flags;			/* [n_ids] TOK_F_* */

	Added	   *added_raw;		/* matched before normalization; NULL = none */
	Added	   *added_norm;		/* matched after it */
	NormStep	norm[TOK_MAX_NORM];
	size_t		n_norm;
	PreStep		pre[SPLIT_MAX_STEPS];
	size_t		n_pre;

	Bpe		   *bpe;			/* exactly one of bpe and spm */
	Spm		   *spm;
	bool		byte_level;
	bool		space_after_special;	/* GGUF: space prefix also behind special tokens */

	DecodeStart start;
	size_t		start_count;	/* START_STRIP: how many spaces */
	bool		fffd_per_byte;	/* ill-formed bytes give U+FFFD each, not per subpart */

	int32_t		bos;
	int32_t		eos;
	int32_t		before[TOK_MAX_TEMPLATE];	/* post-processor: ids around the text */
	size_t		n_before;
	int32_t		after[TOK_MAX_TEMPLATE];
	size_t		n_after;
};

/* Append the normalized text to *out. */
bool		tok_normalize(const Tok *t, const char *s, size_t n, Buf *out, Err *e);

/*
 * Fill t->pieces from names and added names.  meta: U+2581 means a space;
 * byte_tokens: <0xXX> are bytes.
 */
typedef struct PieceRules
{
	bool		byte_level;		/* spelled in GPT-2's alphabet */
	bool		byte_tokens;
	const char *from[8];		/* literal replacements, in order */
	const char *to[8];
	size_t		n;
} PieceRules;

void		tok_make_pieces(Tok *t, const PieceRules *r);

#endif
