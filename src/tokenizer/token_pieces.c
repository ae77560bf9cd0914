/*
 * token_pieces.c
 *	  Compute once what each token contributes to a decoded text.
 *
 * A decoder of tokenizer.json is a chain of steps, each over the list of tokens.  Steps that depend on
 * one token only, and on whether it is the first, can be applied to the vocabulary in advance; then
 * decoding is concatenation (detokenizer.c).
 *
 * Tested by tests/unit/tokenizer/test_tokenizer.c and test_detok.c.
 */
#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "tokenizer/tokenizer_internal.h"
#include "text/utf8.h"

/* Return the byte of "<0xXX>", -1 if s doesn't have this form. */
static int
byte_of(const char *s, size_t n)
{
	int			v = 0;

	if (n != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>')
		return -1;
	for (int i = 3; i < 5; i++)
	{
		if (s[i] >= '0' && s[i] <= '9')
			v = v * 16 + (s[i] - '0');
		else if ((s[i] | 32) >= 'a' && (s[i] | 32) <= 'f')
			v = v * 16 + ((s[i] | 32) - 'a' + 10);
		else
			return -1;
	}
	return v;
}

static bool
starts_with(const Buf *b, const char *s)
{
	return b->len >= strlen(s) && memcmp(b->data, s, strlen(s)) == 0;
}

static void
set(Buf *b, const char *s, size_t n)
{
	buf_reset(b);
	buf_add(b, s, n);
}

static void
cleanup(Buf *b)
{
	static const char *const row[][2] = {{" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"},
	{" n't", "n't"}, {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
	Buf			tmp = {0};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
	{
		buf_reset(&tmp);
		tok_replace(b->data, b->len, row[i][0], row[i][1], &tmp);
		set(b, tmp.data, tmp.len);
	}
	buf_free(&tmp);
}

/* Remove up to k->left times the character k->from from the beginning, k->right times from the end. */
static void
strip(const PieceStep *k, Buf *b)
{
	size_t		len = strlen(k->from);
	size_t		from = 0;
	size_t		end = b->len;
	Buf			tmp = {0};

	ALWAYS(len > 0);
	for (size_t i = 0; i < k->left && end - from >= len && memcmp(b->data + from, k->from, len) == 0; i++)
		from += len;
	for (size_t i = 0; i < k->right && end - from >= len && memcmp(b->data + end - len, k->from, len) == 0;
		 i++)
		end -= len;
	buf_add(&tmp, b->data + from, end - from);
	set(b, tmp.data, tmp.len);
	buf_free(&tmp);
}

/*
 * An added token is plain text; yet the reference decodes it in GPT-2's alphabet if possible, and some
 * tokens are meant that way ("\u0120the").  So does this function, unless the result is not UTF-8
 * (DeepSeek's added token "\u00FC", which the reference shows as U+FFFD).
 */
static void
read_bytes(Buf *b, bool added)
{
	Buf			tmp = {0};

	if (bpe_spelled_bytes(b->data, b->len, &tmp) && (!added || uni_valid(tmp.data, tmp.len)))
		set(b, tmp.data, tmp.len);
	buf_free(&tmp);
}

typedef struct TokenPiecesPiece
{
	bool		added;
	bool		first;
	uint8_t		flags;			/* TOK_F_BYTE, TOK_F_SPACE */
} TokenPiecesPiece;

static void
apply(const PieceStep *k, TokenPiecesPiece *p, Buf *b)
{
	size_t		len = k->from != NULL ? strlen(k->from) : 0;
	Buf			tmp = {0};
	int			byte;

	switch (k->kind)
	{
		case PIECE_REPLACE:
			tok_replace(b->data, b->len, k->from, k->to, &tmp);
			set(b, tmp.data, tmp.len);
			break;
		case PIECE_META:
			tok_replace(b->data, b->len, k->from, p->first && k->drop ? "" : " ", &tmp);
			set(b, tmp.data, tmp.len);
			break;
		case PIECE_BYTES:
			read_bytes(b, p->added);
			break;
		case PIECE_FALLBACK:
			byte = byte_of(b->data, b->len);
			if (byte >= 0)
			{
				char		c = (char) byte;

				set(b, &c, 1);
				p->flags |= TOK_F_BYTE;
			}
			break;
		case PIECE_SPACED:
		case PIECE_WORDS:
			if (p->first)
				break;
			if (k->kind == PIECE_WORDS && starts_with(b, k->from))
				buf_add(&tmp, b->data + len, b->len - len);
			else
			{
				buf_addc(&tmp, ' ');
				buf_add(&tmp, b->data, b->len);
			}
			set(b, tmp.data, tmp.len);
			break;
		case PIECE_CLEANUP:
			cleanup(b);
			break;
		case PIECE_SUFFIX:
			if (b->len >= len && memcmp(b->data + b->len - len, k->from, len) == 0)
			{
				buf_cut(b, b->len - len);
				p->flags |= TOK_F_SPACE;
			}
			tok_replace(b->data, b->len, k->from, " ", &tmp);
			set(b, tmp.data, tmp.len);
			break;
		case PIECE_STRIP:
			strip(k, b);
			break;
	}
	buf_free(&tmp);
}

static void
make(const PieceRules *r, const char *s, size_t n, TokenPiecesPiece *p, Buf *out)
{
	set(out, s, n);
	for (size_t i = 0; i < r->n; i++)
		apply(&r->step[i], p, out);
}

void
tok_make_pieces(Tok *t, const PieceRules *r)
{
	StrTab	   *made = strtab_new((size_t) t->n_ids);
	Buf			b = {0};
	Buf			first = {0};

	ASSERT(t->firsts == NULL);	/* the pieces are made once: they are read as added tokens' texts */
	for (int32_t id = 0; id < t->n_ids; id++)
	{
		size_t		n;
		const char *s = strtab_get(t->pieces, id, &n);
		TokenPiecesPiece p = {.added = s != NULL};	/* an existing piece is an added token's */
		TokenPiecesPiece f = {.added = s != NULL, .first = true};

		if (s == NULL)
			s = strtab_get(t->names, id, &n);
		if (s == NULL)
			continue;
		make(r, s, n, &p, &b);
		make(r, s, n, &f, &first);
		t->flags[id] |= p.flags;
		strtab_set(made, id, b.data, b.len);
		if (first.len == b.len && memcmp(first.data, b.data, b.len) == 0)
			continue;
		if (t->firsts == NULL)
			t->firsts = strtab_new((size_t) t->n_ids);
		strtab_set(t->firsts, id, first.data, first.len);
	}
	buf_free(&b);
	buf_free(&first);
	strtab_free(t->pieces);
	t->pieces = made;
}
