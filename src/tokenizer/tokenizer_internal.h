/*
 * tokenizer_internal.h
 *	  The contents of a Tok; included by the files of src/tokenizer only.
 *
 * tok_hf.c, tok_gguf.c, tok_sentencepiece.c and tok_tiktoken.c build one, tokenizer.c encodes with it,
 * detokenizer.c decodes.  The Tok owns every pointer below.
 */
#ifndef VLLM_TOKENIZER_TOKENIZER_INTERNAL_H
#define VLLM_TOKENIZER_TOKENIZER_INTERNAL_H

#include "tokenizer/added_tokens.h"
#include "tokenizer/algo/bpe.h"
#include "tokenizer/charsmap.h"
#include "tokenizer/algo/plamo.h"
#include "tokenizer/pretok/pcre_pattern.h"
#include "tokenizer/pretok/pretokenizer.h"
#include "tokenizer/algo/spm_bpe.h"
#include "tokenizer/token_table.h"
#include "tokenizer/tokenizer.h"
#include "text/unicode.h"
#include "tokenizer/algo/unigram.h"
#include "tokenizer/algo/wordpiece.h"

#define TOK_MAX_ID			(1 << 22)	/* ids of real vocabularies end below 2^19 */
#define TOK_MAX_TOKEN_BYTES	(1 << 16)
#define TOK_MAX_NORM		16
#define TOK_MAX_TEMPLATE	64

#define TOK_MAX_TEXT		((size_t) 256 << 20)	/* longer texts are refused */
#define TOK_MAX_NORMALIZED	(16 * TOK_MAX_TEXT) /* texts that could become longer than this are refused,
												 * too */

/* tokenizer.ggml.token_type, also SentencePiece's */
enum
{
	TYPE_NORMAL = 1,
	TYPE_UNKNOWN = 2,
	TYPE_CONTROL = 3,
	TYPE_USER = 4,
	TYPE_UNUSED = 5,
	TYPE_BYTE = 6
};

/* One step of the normalizer. */
typedef enum NormKind
{
	NORM_UNICODE,				/* form */
	NORM_PREPEND,				/* to: put before a nonempty text */
	NORM_REPLACE,				/* from -> to, literally */
	NORM_REGEX,					/* matches of match or rx -> to */
	NORM_LOWER,
	NORM_ACCENTS,				/* drops accents */
	NORM_BERT,					/* flags */
	NORM_STRIP,					/* flags */
	NORM_NMT,
	NORM_CHARSMAP,				/* map; flags */
	NORM_SPACES,				/* SentencePiece's; flags */
	NORM_SPELL					/* in GPT-2's alphabet */
} NormKind;

#define NORM_BERT_CLEAN		1
#define NORM_BERT_CHINESE	2
#define NORM_BERT_ACCENTS	4
#define NORM_BERT_LOWER		8
#define NORM_STRIP_LEFT		1
#define NORM_STRIP_RIGHT	2
#define NORM_SPM			1	/* as in SentencePiece, not Hugging Face */
#define NORM_SPM_TRIM		2
#define NORM_SPM_PREFIX		4
#define NORM_SPM_SUFFIX		8
#define NORM_SPM_EDGES		16	/* prefix, suffix and trim only at the ends of the text */

typedef struct NormStep
{
	NormKind	kind;
	UniForm		form;
	unsigned	flags;
	char	   *from;			/* not empty */
	char	   *to;
	SplitMatch	match;
	PcrePattern *rx;				/* NULL if `match` is set */
	Charsmap   *map;
} NormStep;

/* One step of the pre-tokenizer. */
typedef enum PreKind
{
	PRE_SPLIT,					/* split */
	PRE_SPACE,					/* ByteLevel's add_prefix_space: put a space before, unless there is one */
	PRE_METASPACE,				/* ' ' -> meta, then put meta before, unless there is one */
	PRE_SPELL,					/* spell in GPT-2's alphabet */
	PRE_FIXED					/* `count` characters per piece */
} PreKind;

typedef enum PrependScheme
{
	PREPEND_NEVER,
	PREPEND_FIRST,				/* only at the very beginning of the text */
	PREPEND_ALWAYS
} PrependScheme;

typedef struct PreStep
{
	PreKind		kind;
	SplitStep	split;			/* owns its rx */
	PrependScheme prepend;
	char	   *str;			/* literal of split, or meta */
	size_t		count;
} PreStep;

/* How the decoder converts a token, step by step. */
typedef enum PieceKind
{
	PIECE_REPLACE,				/* from -> to */
	PIECE_BYTES,				/* spelled in GPT-2's alphabet */
	PIECE_FALLBACK,				/* <0xXX> is a byte */
	PIECE_META,					/* from -> ' '; in the first token it is removed if `drop` */
	PIECE_WORDS,				/* remove prefix `from`, or else put a space before it; not in the first
								 * token */
	PIECE_CLEANUP,				/* no space before punctuation and in contractions */
	PIECE_SUFFIX,				/* from at the end -> ' ', but not in the last token */
	PIECE_STRIP,				/* up to `left` times `from` at the start, `right` at the end */
	PIECE_SPACED				/* put a space before it, but not before the first */
} PieceKind;

#define TOK_MAX_PIECE_STEPS 12

typedef struct PieceStep
{
	PieceKind	kind;
	const char *from;			/* not owned; not empty */
	const char *to;
	size_t		left;
	size_t		right;
	bool		drop;
} PieceStep;

typedef struct PieceRules
{
	PieceStep	step[TOK_MAX_PIECE_STEPS];
	size_t		n;
} PieceRules;

#define TOK_F_SPECIAL	1
#define TOK_F_BYTE		2		/* byte fallback token: its piece is one byte */
#define TOK_F_SPACE		4		/* a space follows its piece, but not at the end */

/* One item of the post-processor: a token or a text. */
typedef struct TokItem
{
	int32_t		id;				/* or one of these */
	int32_t		type;			/* token type id */
} TokItem;

#define TOK_TEXT_A		(-1)
#define TOK_TEXT_B		(-2)

typedef struct TokTemplate
{
	TokItem		item[TOK_MAX_TEMPLATE];
	size_t		n;
} TokTemplate;

struct Tok
{
	int32_t		n_ids;			/* highest id + 1 */
	StrTab	   *names;			/* vocabulary's spelling; index = the model's tokens */
	StrTab	   *added_names;	/* index of added tokens by their content */
	StrTab	   *pieces;			/* bytes in a decoded text */
	StrTab	   *firsts;			/* pieces of the first token, where they differ; or NULL */
	uint8_t    *flags;			/* [n_ids] TOK_F_* */

	Added	   *added_raw;		/* matched before normalization; NULL = none */
	Added	   *added_norm;		/* matched after it */
	NormStep	norm[TOK_MAX_NORM];
	size_t		n_norm;
	PreStep		pre[SPLIT_MAX_STEPS];
	size_t		n_pre;

	Bpe		   *bpe;			/* exactly one of these six */
	Spm		   *spm;
	Unigram    *unigram;
	WordPiece  *wordpiece;
	Plamo	   *plamo;
	bool		word_level;		/* a word is a token, or unk */
	int32_t		unk;			/* of word_level; -1 = a text with unknown words is an error */
	/* U+2581 is also put before an added token that begins the text, if its id is below this and it isn't
	 * special */
	int32_t		lead;
	bool		byte_level;		/* the last step spells bytes, and bpe reads raw bytes instead */

	size_t		strip;			/* spaces that decoding drops at the start of a text */
	bool		fffd_per_byte;	/* each ill-formed byte gives one U+FFFD, not each subpart */

	int32_t		bos;
	int32_t		eos;
	bool		trim_offsets;	/* a token's position excludes white space at its ends */
	bool		prefix_space;	/* the position includes the space that was put before the text */
	bool		templated;		/* a post-processor has set these two */
	TokTemplate single;			/* around one text ... */
	TokTemplate pair;			/* around two texts */
};

#define TOK_AT_START	1		/* the piece begins at the beginning of the whole text */
#define TOK_AT_END		2

/* Append the normalized text to *out.  edges: TOK_AT_*. */
bool		tok_normalize(const Tok *t, const char *s, size_t n, unsigned edges, Buf *out, Err *e);
/* Apply one step of the normalizer. */
bool		tok_norm_apply(const NormStep *k, const char *s, size_t n, unsigned edges, Buf *out, Err *e);
void		tok_norm_free(NormStep *k);
void		tok_pre_free(PreStep *p);
/* Append s to *out with every `from` (not empty) replaced. */
void		tok_replace(const char *s, size_t n, const char *from, const char *to, Buf *out);
/* Put BOS and EOS around each text, unless they are negative. */
void		tok_surround(Tok *t, int32_t before, int32_t after);

/*
 * Fill t->pieces and t->firsts from names and added names.  Forms of added tokens that differ from their
 * names are already in pieces.
 */
void		tok_make_pieces(Tok *t, const PieceRules *r);

#endif
