/*
 * tokenizer.c
 *	  Text to token ids: the path of a text through a Tok.
 *
 *	 bytes -> valid UTF-8 (uni_repair)
 *		   -> cut at added tokens that are matched in raw text
 *		   -> what lies between: normalized, cut at added tokens that are
 *			  matched in normalized text
 *		   -> what lies between: pre-tokenizer steps, each applied to every
 *			  piece of the one before (a recursion as deep as there are steps)
 *		   -> each word to the model: merges by rank (bpe.c) or score (spm.c)
 *
 * and the post-processor's ids around it all.  A Tok is immutable, what an
 * encoding needs beside it is in an Enc on the stack; nothing is allocated per
 * word.  O(n log n) in the length of the text.
 *
 * Tested by tests/unit/test_tokenizer.c.
 */
#include "text/tokenizer.h"

#include <string.h>

#include "base/mem.h"
#include "text/tok_impl.h"
#include "text/utf8.h"

/* texts beyond this are refused; normalizing may make them three times longer */
#define MAX_TEXT	((size_t) 256 << 20)

/* One encoding. */
typedef struct Enc
{
	const Tok  *t;
	bool		no_special;		/* special tokens in the text stay text */
	IntVec	   *out;
	Err		   *e;
	BpeWork		bpe;
	SpmWork		spm;
	Buf			norm;			/* the piece being encoded, normalized */
	Buf			pre[SPLIT_MAX_STEPS];	/* what a step that changes text made */
} Enc;

static bool
encode_word(Enc *c, const char *s, size_t n)
{
	if (n > INT32_MAX / 2)
		return err_set(c->e, ERR_TOO_LONG, "text is too long to tokenize");
	if (c->t->bpe != NULL)
		bpe_encode(c->t->bpe, &c->bpe, s, n, c->out);
	else
		spm_encode(c->t->spm, &c->spm, s, n, c->out);
	return true;
}

/* Append s to *out with every `from` replaced. */
static void
replace(const char *s, size_t n, const char *from, const char *to, Buf *out)
{
	size_t		flen = strlen(from);
	size_t		tlen = strlen(to);
	const char *end = s + n;
	const char *hit;

	buf_reserve(out, n);
	while ((hit = memmem(s, (size_t) (end - s), from, flen)) != NULL)
	{
		buf_add(out, s, (size_t) (hit - s));
		buf_add(out, to, tlen);
		s = hit + flen;
	}
	buf_add(out, s, (size_t) (end - s));
}

/* at_start: the piece begins where the whole text begins. */
static bool
encode_piece(Enc *c, size_t step, const char *s, size_t n, bool at_start)
{
	const PreStep *p = &c->t->pre[step];
	Buf		   *b = &c->pre[step];
	size_t		pos = 0;
	size_t		start;
	size_t		len;

	if (n == 0)
		return true;
	if (step == c->t->n_pre)
		return encode_word(c, s, n);
	switch (p->kind)
	{
		case PRE_SPLIT:
			while (split_next(&p->split, s, n, &pos, &start, &len))
				if (!encode_piece(c, step + 1, s + start, len, at_start && start == 0))
					return false;
			return true;
		case PRE_SPACE:
			if (s[0] == ' ')
				return encode_piece(c, step + 1, s, n, at_start);
			buf_reset(b);
			buf_addc(b, ' ');
			buf_add(b, s, n);
			break;
		case PRE_METASPACE:
			len = strlen(p->str);
			buf_reset(b);
			if ((p->prepend == PREPEND_ALWAYS || (p->prepend == PREPEND_FIRST && at_start)) &&
				s[0] != ' ' && (n < len || memcmp(s, p->str, len) != 0))
				buf_add(b, p->str, len);
			replace(s, n, " ", p->str, b);
			break;
	}
	return encode_piece(c, step + 1, b->data, b->len, at_start);
}

bool
tok_normalize(const Tok *t, const char *s, size_t n, Buf *out, Err *e)
{
	Buf			tmp = {0};

	buf_add(out, s, n);
	for (size_t i = 0; i < t->n_norm && out->len > 0; i++)
	{
		const NormStep *k = &t->norm[i];
		Buf			swap = *out;

		*out = tmp;
		tmp = swap;
		buf_reset(out);
		switch (k->kind)
		{
			case NORM_UNICODE:
				if (!uni_normalize(tmp.data, tmp.len, k->form, out, e))
				{
					buf_free(&tmp);
					return false;
				}
				break;
			case NORM_PREPEND:
				buf_addstr(out, k->to);
				buf_add(out, tmp.data, tmp.len);
				break;
			case NORM_REPLACE:
				replace(tmp.data, tmp.len, k->from, k->to, out);
				break;
		}
		if (out->len > 16 * MAX_TEXT)
		{
			buf_free(&tmp);
			return err_set(e, ERR_TOO_LONG, "text is too long to tokenize");
		}
	}
	buf_free(&tmp);
	return true;
}

/* Text between added tokens that were found in raw text. */
static bool
encode_raw(Enc *c, const char *s, size_t n, bool at_start)
{
	const Tok  *t = c->t;
	size_t		scan = 0;
	size_t		done = 0;
	size_t		from = 0;
	size_t		start;
	int32_t		id;

	if (n == 0)
		return true;
	if (t->n_norm > 0)
	{
		buf_reset(&c->norm);
		if (!tok_normalize(t, s, n, &c->norm, c->e))
			return false;
		s = c->norm.data;
		n = c->norm.len;
	}
	while (t->added_norm != NULL &&
		   added_next(t->added_norm, s, n, c->no_special, &scan, &done, &start, &id))
	{
		if (start > from && !encode_piece(c, 0, s + from, start - from, at_start && from == 0))
			return false;
		intvec_push(c->out, id);
		from = done;
	}
	return encode_piece(c, 0, s + from, n - from, at_start && from == 0);
}

static bool
encode_text(Enc *c, const char *s, size_t n)
{
	const Tok  *t = c->t;
	size_t		scan = 0;
	size_t		done = 0;
	size_t		from = 0;
	size_t		start;
	int32_t		id;

	while (t->added_raw != NULL &&
		   added_next(t->added_raw, s, n, c->no_special, &scan, &done, &start, &id))
	{
		if (start > from && !encode_raw(c, s + from, start - from, from == 0))
			return false;
		intvec_push(c->out, id);
		from = done;
	}
	return encode_raw(c, s + from, n - from, from == 0);
}

bool
tok_encode(const Tok *t, const char *s, size_t n, unsigned flags, IntVec *out, Err *e)
{
	Enc			c = {.t = t, .out = out, .e = e};
	Buf			repaired = {0};
	bool		ok;

	if (n > MAX_TEXT)
		return err_set(e, ERR_TOO_LONG, "text is too long to tokenize");
	if (n > 0 && !uni_valid(s, n))
	{
		uni_repair(s, n, &repaired);
		s = repaired.data;
		n = repaired.len;
	}
	c.no_special = (flags & TOK_NO_PARSE_SPECIAL) != 0;
	if (flags & TOK_ADD_SPECIAL)
		intvec_add(out, t->before, t->n_before);
	ok = n == 0 || encode_text(&c, s, n);
	if (ok && (flags & TOK_ADD_SPECIAL) != 0)
		intvec_add(out, t->after, t->n_after);
	buf_free(&repaired);
	buf_free(&c.norm);
	for (size_t i = 0; i < SPLIT_MAX_STEPS; i++)
		buf_free(&c.pre[i]);
	bpe_work_free(&c.bpe);
	spm_work_free(&c.spm);
	return ok;
}

void
tok_free(Tok *t)
{
	if (t == NULL)
		return;
	strtab_free(t->names);
	strtab_free(t->added_names);
	strtab_free(t->pieces);
	mem_free(t->flags);
	added_free(t->added_raw);
	added_free(t->added_norm);
	for (size_t i = 0; i < t->n_norm; i++)
	{
		mem_free(t->norm[i].from);
		mem_free(t->norm[i].to);
	}
	for (size_t i = 0; i < t->n_pre; i++)
		mem_free(t->pre[i].str);
	bpe_free(t->bpe);
	spm_free(t->spm);
	mem_free(t);
}

/* ---------- the vocabulary ---------- */

int32_t
tok_vocab_size(const Tok *t)
{
	return t->n_ids;
}

int32_t
tok_bos(const Tok *t)
{
	return t->bos;
}

int32_t
tok_eos(const Tok *t)
{
	return t->eos;
}

bool
tok_is_special(const Tok *t, int32_t id)
{
	return id >= 0 && id < t->n_ids && (t->flags[id] & TOK_F_SPECIAL) != 0;
}

int32_t
tok_find(const Tok *t, const char *s, size_t n)
{
	int32_t		id = strtab_find(t->added_names, s, n);

	return id >= 0 ? id : strtab_find(t->names, s, n);
}

const char *
tok_piece(const Tok *t, int32_t id, size_t *n)
{
	const char *s = strtab_get(t->pieces, id, n);

	return s != NULL ? s : "";
}

/* The byte of "<0xXX>", -1 if s isn't of that form. */
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

/*
 * Append what a token spelled s contributes to a text.  An added token is plain
 * text; yet the reference reads it in GPT-2's alphabet where it can, and some
 * are meant so ("\u0120the").  It is done here too, but where that makes no UTF-8
 * (DeepSeek's added token "\u00FC", which the reference shows as U+FFFD).
 */
static void
make_piece(Tok *t, int32_t id, const char *s, size_t n, bool added, const PieceRules *r, Buf *out)
{
	Buf			tmp = {0};
	int			byte;

	buf_add(out, s, n);
	for (size_t i = 0; i < r->n; i++)
	{
		buf_reset(&tmp);
		replace(out->data, out->len, r->from[i], r->to[i], &tmp);
		buf_reset(out);
		buf_add(out, tmp.data, tmp.len);
	}
	if (r->byte_level)
	{
		buf_reset(&tmp);
		if (bpe_spelled_bytes(out->data, out->len, &tmp) && (!added || uni_valid(tmp.data, tmp.len)))
		{
			buf_reset(out);
			buf_add(out, tmp.data, tmp.len);
		}
	}
	byte = r->byte_tokens ? byte_of(out->data, out->len) : -1;
	if (byte >= 0)
	{
		buf_reset(out);
		buf_addc(out, (char) byte);
		t->flags[id] |= TOK_F_BYTE;
	}
	buf_free(&tmp);
}

void
tok_make_pieces(Tok *t, const PieceRules *r)
{
	StrTab	   *made = strtab_new((size_t) t->n_ids);
	Buf			b = {0};

	for (int32_t id = 0; id < t->n_ids; id++)
	{
		size_t		n;
		const char *s = strtab_get(t->pieces, id, &n);
		bool		added = s != NULL;	/* what is there already is an added token's */

		if (!added)
			s = strtab_get(t->names, id, &n);
		if (s == NULL)
			continue;
		buf_reset(&b);
		make_piece(t, id, s, n, added, r, &b);
		strtab_set(made, id, b.data, b.len);
	}
	buf_free(&b);
	strtab_free(t->pieces);
	t->pieces = made;
}
