/*
 * tokenizer.c
 *	  Text to token ids: the path of a text through a Tok.
 *
 *	 bytes -> valid UTF-8 (uni_repair)
 *		   -> cut at added tokens that are matched in raw text
 *		   -> the text between: normalized, cut at added tokens that are
 *			  matched in normalized text
 *		   -> the text between: pre-tokenizer steps, each applied to every
 *			  piece of the one before (a recursion as deep as there are steps)
 *		   -> each word to the model: merges by rank (bpe.c) or score (spm_bpe.c)
 *
 * The post-processor's ids come around the result.  A Tok is immutable; the state of an encoding is in
 * an Enc on the stack; nothing is allocated per word.  O(n log n) in the length of the text.
 *
 * Tested by tests/unit/tokenizer/test_tokenizer.c.
 */
#include "tokenizer/tokenizer.h"

#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "tokenizer/word_marker.h"
#include "tokenizer/offsets.h"
#include "text/utf8.h"

/* The state of one encoding. */
typedef struct Enc
{
	const Tok  *t;
	bool		no_special;		/* special tokens in the text stay text */
	const uint8_t *marks;		/* of the text's bytes, NULL: all are trusted */
	Buf			norm_marks;		/* marks of the bytes in norm */
	IntVec	   *out;
	IntVec	   *spans;			/* byte positions, two for each id; NULL: not wanted */
	Align	   *at;				/* alignment of the current buffer */
	Align		text_at;
	Align		norm_at;
	Align		pre_at[SPLIT_MAX_STEPS];
	Err		   *e;
	BpeWork		bpe;
	SpmWork		spm;
	UnigramWork unigram;
	PlamoWork	plamo;
	Buf			norm;			/* the current piece, normalized */
	Buf			pre[SPLIT_MAX_STEPS];	/* output of steps that change the text */
	RxWork		rx[SPLIT_MAX_STEPS];
} Enc;

static bool
encode_word(Enc *c, const char *s, size_t n)
{
	const Tok  *t = c->t;
	size_t		before = c->out->len;
	int32_t		id;

	if (n > INT32_MAX / 2)
		return err_set(c->e, ERR_TOO_LONG, "text is too long to tokenize");
	if (t->bpe != NULL)
		bpe_encode(t->bpe, &c->bpe, s, n, c->out);
	else if (t->spm != NULL)
		spm_encode(t->spm, &c->spm, s, n, c->out);
	else if (t->unigram != NULL)
		unigram_encode(t->unigram, &c->unigram, s, n, c->out);
	else if (t->wordpiece != NULL)
		wordpiece_encode(t->wordpiece, s, n, c->out);
	else if (t->plamo != NULL)
		plamo_encode(t->plamo, &c->plamo, s, n, c->out);
	else
	{
		id = strtab_find(t->names, s, n);
		if (id < 0 && t->unk < 0)
			return err_set(c->e, ERR_INVALID,
						   "the vocabulary has no token for \"%.*s\", and none for unknown words",
						   (int) (n < 60 ? n : 60), s);
		intvec_push(c->out, id >= 0 ? id : t->unk);
	}
	if (c->spans != NULL)
		align_word(t, c->at, s, n, c->out, before, c->spans);
	return true;
}

/* Append an added token, found at s[0..n). */
static void
push_added(Enc *c, int32_t id, const char *s, size_t n)
{
	intvec_push(c->out, id);
	if (c->spans != NULL)
	{
		intvec_push(c->spans, align_begin(c->at, s));
		intvec_push(c->spans, align_end(c->at, s, s + n));
	}
}

/* Encode a piece from pre-tokenizer step `step` on.  at_start: it begins where the whole text begins. */
static bool
encode_piece(Enc *c, size_t step, const char *s, size_t n, bool at_start)
{
	const PreStep *p = &c->t->pre[step];
	Buf		   *b = &c->pre[step];
	SplitIter	it;
	size_t		start;
	size_t		len;

	if (n == 0)
		return true;
	ALWAYS(step <= c->t->n_pre);
	if (step == c->t->n_pre)
		return encode_word(c, s, n);
	switch (p->kind)
	{
		case PRE_SPLIT:
			split_begin(&it, &p->split, &c->rx[step], s, n, c->e);
			while (split_next(&it, &start, &len))
				if (!encode_piece(c, step + 1, s + start, len, at_start && start == 0))
					return false;
			return !it.failed;
		case PRE_FIXED:
			for (start = 0; start < n; start += len)
			{
				len = 0;
				for (size_t i = 0; i < p->count && start + len < n; i++)
					len += utf8_len((unsigned char) s[start + len]);
				if (!encode_piece(c, step + 1, s + start, len, at_start && start == 0))
					return false;
			}
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
			if (n > TOK_MAX_NORMALIZED / (len + 1))
				return err_set(c->e, ERR_TOO_LONG, "text is too long to tokenize");
			buf_reset(b);
			if ((p->prepend == PREPEND_ALWAYS || (p->prepend == PREPEND_FIRST && at_start)) &&
				s[0] != ' ' && (n < len || memcmp(s, p->str, len) != 0))
				buf_add(b, p->str, len);
			tok_replace(s, n, " ", p->str, b);
			break;
		case PRE_SPELL:
			buf_reset(b);
			for (size_t i = 0; i < n; i++)
			{
				char		u[4];

				buf_add(b, u, utf8_put(u, bpe_byte_char((unsigned char) s[i])));
			}
			break;
	}
	if (c->spans != NULL)
	{
		Align	   *outer = c->at;
		bool		ok;

		align_pre(p, outer, s, n, b, &c->pre_at[step]);
		c->at = &c->pre_at[step];
		ok = encode_piece(c, step + 1, b->data, b->len, at_start);
		c->at = outer;
		return ok;
	}
	return encode_piece(c, step + 1, b->data, b->len, at_start);
}

/*
 * Compute marks for normalized text, to exclude tokens that may not be found.  Normalizing moves bytes,
 * but the order of the tokens' occurrences stays; if it adds or removes an occurrence, all bytes are
 * marked.
 */
static const uint8_t *
marks_of_norm(Enc *c, const char *s, const uint8_t *marks, size_t n)
{
	const Added *a = c->t->added_norm;
	size_t		raw_at[2] = {0, 0};
	size_t		at[2] = {0, 0};
	size_t		start;
	size_t		raw_start;
	int32_t		id;
	int32_t		raw_id;
	uint8_t    *out;

	if (marks == NULL || a == NULL || memchr(marks, 1, n) == NULL)
		return NULL;
	buf_reset(&c->norm_marks);
	buf_reserve(&c->norm_marks, c->norm.len);
	out = (uint8_t *) c->norm_marks.data;
	memset(out, 0, c->norm.len);
	for (;;)
	{
		bool		found = added_next(a, c->norm.data, c->norm.len, false, NULL, &at[0], &at[1], &start,
									   &id);
		bool		raw_found = added_next(a, s, n, false, NULL, &raw_at[0], &raw_at[1], &raw_start, &raw_id);

		if (found != raw_found || (found && id != raw_id))
			return memset(out, 1, c->norm.len);
		if (!found)
			return out;
		if (memchr(marks + raw_start, 1, raw_at[1] - raw_start) != NULL)
			memset(out + start, 1, at[1] - start);
	}
}

/* Encode text between added tokens that were found in raw text. */
static bool
encode_raw(Enc *c, const char *s, const uint8_t *marks, size_t n, unsigned edges)
{
	const Tok  *t = c->t;
	bool		at_start = (edges & TOK_AT_START) != 0;
	size_t		scan = 0;
	size_t		done = 0;
	size_t		from = 0;
	size_t		start;
	int32_t		id;

	c->at = &c->text_at;
	if (n == 0)
		return true;
	if (t->n_norm > 0)
	{
		buf_reset(&c->norm);
		if (!tok_normalize(t, s, n, edges, &c->norm, c->e))
			return false;
		if (c->spans != NULL)
		{
			align_free(&c->norm_at);
			if (!align_normalized(t, &c->text_at, s, n, edges, &c->norm, &c->norm_at, c->e))
				return false;
			c->at = &c->norm_at;
		}
		marks = marks_of_norm(c, s, marks, n);
		s = c->norm.data;
		n = c->norm.len;
	}
	while (t->added_norm != NULL &&
		   added_next(t->added_norm, s, n, c->no_special, marks, &scan, &done, &start, &id))
	{
		if (start > from && !encode_piece(c, 0, s + from, start - from, at_start && from == 0))
			return false;
		push_added(c, id, s + start, done - start);
		from = done;
	}
	return encode_piece(c, 0, s + from, n - from, at_start && from == 0);
}

/* Encode the U+2581 before an added token at the beginning of the text. */
static bool
encode_lead(Enc *c, const char *s)
{
	IntVec	   *spans = c->spans;
	size_t		before = c->out->len;
	bool		ok;

	c->spans = NULL;
	ok = encode_word(c, META, META_LEN);
	c->spans = spans;
	for (size_t i = before; spans != NULL && i < c->out->len; i++)
	{
		intvec_push(spans, align_begin(c->at, s));
		intvec_push(spans, align_begin(c->at, s));
	}
	return ok;
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

	c->text_at.base = s;
	c->text_at.len = n;
	while (t->added_raw != NULL &&
		   added_next(t->added_raw, s, n, c->no_special, c->marks, &scan, &done, &start, &id))
	{
		if (start > from && !encode_raw(c, s + from, c->marks != NULL ? c->marks + from : NULL, start - from,
										from == 0 ? TOK_AT_START : 0))
			return false;
		c->at = &c->text_at;
		if (start == 0 && from == 0 && id < t->lead && !tok_is_special(t, id) && !encode_lead(c, s))
			return false;
		push_added(c, id, s + start, done - start);
		from = done;
	}
	return encode_raw(c, s + from, c->marks != NULL ? c->marks + from : NULL, n - from,
					  TOK_AT_END | (from == 0 ? TOK_AT_START : 0));
}

/* Encode one text of arbitrary bytes. */
static bool
encode_bytes(Enc *c, const char *s, size_t n)
{
	Buf			repaired = {0};
	bool		ok;

	if (n > TOK_MAX_TEXT)
		return err_set(c->e, ERR_TOO_LONG, "text is too long to tokenize");
	if (n > 0 && !uni_valid(s, n))
	{
		uni_repair(s, n, &repaired);
		s = repaired.data;
		n = repaired.len;
	}
	ok = n == 0 || encode_text(c, s, n);
	buf_free(&repaired);
	return ok;
}

static void
enc_free(Enc *c)
{
	buf_free(&c->norm);
	buf_free(&c->norm_marks);
	align_free(&c->norm_at);
	for (size_t i = 0; i < SPLIT_MAX_STEPS; i++)
	{
		buf_free(&c->pre[i]);
		align_free(&c->pre_at[i]);
		rx_work_free(&c->rx[i]);
	}
	bpe_work_free(&c->bpe);
	spm_work_free(&c->spm);
	unigram_work_free(&c->unigram);
	plamo_work_free(&c->plamo);
}

bool
tok_encode(const Tok *t, const char *s, size_t n, unsigned flags, IntVec *out, Err *e)
{
	Enc			c = {.t = t, .out = out, .e = e, .no_special = (flags & TOK_NO_PARSE_SPECIAL) != 0};
	bool		ok = true;

	if ((flags & TOK_ADD_SPECIAL) == 0)
		ok = encode_bytes(&c, s, n);
	else
		for (size_t i = 0; i < t->single.n && ok; i++)
			if (t->single.item[i].id >= 0)
				intvec_push(out, t->single.item[i].id);
			else
				ok = encode_bytes(&c, s, n);
	enc_free(&c);
	return ok;
}

/* Count white space characters at both ends of s[0..n), including GPT-2's spelling of a space. */
static void
count_space(const char *s, size_t n, size_t *left, size_t *right)
{
	size_t		len;
	size_t		chars = 0;

	*left = *right = 0;
	for (size_t i = 0; i < n; i += len, chars++)
	{
		uint32_t	cp = utf8_next(s + i, &len);
		bool		space = cp == bpe_byte_char(' ') || (uni_class(cp) & UNI_SPACE) != 0;

		if (space && *left == chars)
			++*left;
		*right = space ? *right + 1 : 0;
	}
}

/*
 * Exclude white space at a token's ends from its position, as Hugging Face's ByteLevel does.  The
 * vocabulary's spelling of the token counts; for an added token its text.
 */
static void
trim_span(const Tok *t, const char *s, int32_t id, int32_t *span)
{
	size_t		n;
	const char *name = strtab_get(t->names, id, &n);
	size_t		left = 0;
	size_t		right = 0;

	if (name == NULL || n == 0 || tok_is_special(t, id))
	{
		name = s + span[0];
		n = (size_t) (span[1] - span[0]);
	}
	if (uni_valid(name, n))
		count_space(name, n, &left, &right);
	if (left > 0 && span[0] == 0 && t->prefix_space)
		left--;
	for (; left > 0 && span[0] < span[1]; left--)
		span[0] += (int32_t) utf8_len((unsigned char) s[span[0]]);
	for (; right > 0 && span[1] > span[0]; right--)
		while (((unsigned char) s[--span[1]] & 0xC0) == 0x80)
			;
}

/* Convert byte offsets to character offsets: a part of a character counts as the whole. */
static void
spans_to_chars(const char *s, size_t n, IntVec *spans)
{
	IntVec		at = {0};
	int32_t		chars = -1;

	for (size_t i = 0; i < n; i++)
		intvec_push(&at, chars += ((unsigned char) s[i] & 0xC0) != 0x80);
	intvec_push(&at, chars + 1);
	for (size_t i = 0; i < spans->len; i += 2)
	{
		size_t		end = (size_t) spans->data[i + 1];

		spans->data[i + 1] = end > (size_t) spans->data[i] ? at.data[end - 1] + 1 : at.data[end];
		spans->data[i] = at.data[spans->data[i]];
	}
	intvec_free(&at);
}

bool
tok_offsets(const Tok *t, const char *s, size_t n, IntVec *ids, IntVec *offsets, Err *e)
{
	Enc			c = {.t = t,.out = ids,.spans = offsets,.e = e};
	Buf			repaired = {0};
	bool		ok;

	if (n > 0 && !uni_valid(s, n))
	{
		uni_repair(s, n, &repaired);
		s = repaired.data;
		n = repaired.len;
	}
	ok = encode_bytes(&c, s, n);
	if (ok)
	{
		ALWAYS(offsets->len == 2 * ids->len);
		for (size_t i = 0; t->trim_offsets && i < ids->len; i++)
			trim_span(t, s, ids->data[i], offsets->data + 2 * i);
		spans_to_chars(s, n, offsets);
	}
	buf_free(&repaired);
	enc_free(&c);
	return ok;
}

bool
tok_encode_marked(const Tok *t, const char *s, const uint8_t *marks, size_t n, IntVec *out, Err *e)
{
	Enc			c = {.t = t,.out = out,.e = e,.marks = marks};
	bool		ok;

	/* repairing would move the bytes away from their marks */
	if (n > 0 && !uni_valid(s, n))
		return err_set(e, ERR_INVALID, "the rendered chat is not valid UTF-8");
	ok = encode_bytes(&c, s, n);
	enc_free(&c);
	return ok;
}

bool
tok_lower(Tok *t, Err *e)
{
	for (size_t i = 0; i < t->n_norm; i++)
		if (t->norm[i].kind == NORM_LOWER)
			return true;
	if (t->n_norm == TOK_MAX_NORM)
		return err_set(e, ERR_UNSUPPORTED,
					   "the tokenizer has %d steps of normalization, and \"do_lower_case\" adds one",
					   TOK_MAX_NORM);
	memmove(t->norm + 1, t->norm, t->n_norm * sizeof(t->norm[0]));
	t->norm[0] = (NormStep) {.kind = NORM_LOWER};
	t->n_norm++;
	return true;
}

int
tok_lead(const Tok *t, bool pair)
{
	const TokTemplate *p = pair ? &t->pair : &t->single;
	int			n = 0;

	while (n < (int) p->n && p->item[n].id >= 0)
		n++;
	return n;
}

void
tok_wrap(const Tok *t, const IntVec *a, const IntVec *b, bool special, IntVec *ids, IntVec *types)
{
	const TokTemplate *p = b != NULL ? &t->pair : &t->single;

	for (size_t i = 0; i < p->n; i++)
	{
		int32_t		id = p->item[i].id;

		if (id == TOK_TEXT_A)
			intvec_add(ids, a->data, a->len);
		else if (id == TOK_TEXT_B)
			intvec_add(ids, b->data, b->len);
		else if (special)
			intvec_push(ids, id);
		while (types->len < ids->len)
			intvec_push(types, p->item[i].type);
	}
}

void
tok_surround(Tok *t, int32_t before, int32_t after)
{
	static const TokItem text[] = {{TOK_TEXT_A, 0}, {TOK_TEXT_B, 1}};

	t->single.n = t->pair.n = 0;
	for (size_t i = 0; i < 2; i++)
	{
		TokTemplate *to[] = {&t->single, &t->pair};

		for (size_t k = i; k < 2; k++)
		{
			if (before >= 0)
				to[k]->item[to[k]->n++] = (TokItem) {before, (int32_t) i};
			to[k]->item[to[k]->n++] = text[i];
			if (after >= 0)
				to[k]->item[to[k]->n++] = (TokItem) {after, (int32_t) i};
		}
	}
}

void
tok_pre_free(PreStep *p)
{
	mem_free(p->str);
	rx_free(p->split.rx);
}

void
tok_free(Tok *t)
{
	if (t == NULL)
		return;
	strtab_free(t->names);
	strtab_free(t->added_names);
	strtab_free(t->pieces);
	strtab_free(t->firsts);
	mem_free(t->flags);
	added_free(t->added_raw);
	added_free(t->added_norm);
	for (size_t i = 0; i < t->n_norm; i++)
		tok_norm_free(&t->norm[i]);
	for (size_t i = 0; i < t->n_pre; i++)
		tok_pre_free(&t->pre[i]);
	bpe_free(t->bpe);
	spm_free(t->spm);
	unigram_free(t->unigram);
	wordpiece_free(t->wordpiece);
	plamo_free(t->plamo);
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

bool
tok_joins(const Tok *t)
{
	for (int32_t id = 0; id < t->n_ids; id++)
		if (t->flags[id] & TOK_F_SPACE)
			return false;
	return true;
}
