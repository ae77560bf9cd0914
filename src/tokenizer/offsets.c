/*
 * offsets.c
 *	  Find the positions of tokens in a text: see offsets.h.
 *
 * A step of the normalizer is applied to a character alone; if the result differs from the step's output
 * at this position, to this character and the next, and so on.  If no such prefix fits (a regular
 * expression with look-around), input and output are aligned character by character.
 *
 * Tested by tests/unit/tokenizer/test_offsets.c.
 */
#include "tokenizer/offsets.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "tokenizer/word_marker.h"
#include "text/utf8.h"

#define MOST_CHARS 12			/* most characters that a step converts together */

int32_t
align_begin(const Align *a, const char *from)
{
	size_t		i = (size_t) (from - a->base);

	if (a->begin.data == NULL)
		return (int32_t) i;
	if (i < a->begin.len)
		return a->begin.data[i];
	return a->end.len > 0 ? a->end.data[a->end.len - 1] : 0;
}

int32_t
align_end(const Align *a, const char *from, const char *to)
{
	if (a->begin.data == NULL)
		return (int32_t) (to - a->base);
	return to > from ? a->end.data[to - a->base - 1] : align_begin(a, from);
}

void
align_free(Align *a)
{
	intvec_free(&a->begin);
	intvec_free(&a->end);
}

/* Add n bytes, all of them from begin .. end of the text. */
static void
put(Align *to, size_t n, int32_t begin, int32_t end)
{
	for (size_t i = 0; i < n; i++)
	{
		intvec_push(&to->begin, begin);
		intvec_push(&to->end, end);
	}
}

/* ---- the normalizer ---- */

typedef struct OffsetsStep
{
	const NormStep *k;
	unsigned	edges;
	const Align *a;				/* alignment of the step's input */
	const Buf  *in;
	const Buf  *out;
	Align	   *to;
	size_t		i;				/* bytes of `in` that are done */
	size_t		j;				/* bytes of the output that are done */
	Buf			piece;
	Err		   *e;
} OffsetsStep;

static size_t
char_len(const Buf *b, size_t at)
{
	size_t		n = utf8_len((unsigned char) b->data[at]);

	return n < b->len - at ? n : b->len - at;
}

/* Align the next n bytes of the input to the next m of the output. */
static void
take(OffsetsStep *s, size_t n, size_t m)
{
	const char *from = s->in->data + s->i;

	ALWAYS(n <= s->in->len - s->i && m <= s->out->len - s->j);
	put(s->to, m, align_begin(s->a, from), align_end(s->a, from, from + n));
	s->i += n;
	s->j += m;
}

/*
 * Align several characters, as in Hugging Face's library: a replacement gets the position of the last of
 * them; otherwise the resulting characters get those of the first ones.
 */
static void
take_several(OffsetsStep *s, size_t n, size_t m)
{
	bool		last = s->k->kind == NORM_REPLACE || s->k->kind == NORM_REGEX;
	size_t		end = s->i + n;
	size_t		stop = s->j + m;

	while (last && s->i + char_len(s->in, s->i) < end)
		s->i += char_len(s->in, s->i);
	while (s->j < stop)
	{
		size_t		len = char_len(s->in, s->i);
		bool		more = !last && s->i + len < end;

		take(s, more ? len : 0, 0);
		put(s->to, char_len(s->out, s->j), align_begin(s->a, s->in->data + s->i - (more ? len : 0)),
			align_end(s->a, s->in->data + s->i - (more ? len : 0), s->in->data + s->i + (more ? 0 : len)));
		s->j += char_len(s->out, s->j);
	}
	s->i = end;
}

/* Return true if the next n bytes are unchanged in the output. */
static bool
same(const OffsetsStep *s, size_t n)
{
	return s->out->len - s->j >= n && memcmp(s->in->data + s->i, s->out->data + s->j, n) == 0;
}

/* Return true if the step's result for the next n bytes alone is what comes next in the output. */
static bool
makes(OffsetsStep *s, size_t n)
{
	buf_reset(&s->piece);
	return tok_norm_apply(s->k, s->in->data + s->i, n, s->edges, &s->piece, s->e) &&
		s->out->len - s->j >= s->piece.len &&
		(s->piece.len == 0 || memcmp(s->piece.data, s->out->data + s->j, s->piece.len) == 0);
}

/* Return true for a mark, which belongs to the character before it. */
static bool
is_mark(const OffsetsStep *s, size_t at)
{
	size_t		len;

	return at < s->in->len && (unsigned char) s->in->data[at] >= 0x80 &&
		uni_hf_mark(utf8_next(s->in->data + at, &len));
}

/* Return the bytes that are replaced together at this position, 0 if none. */
static size_t
replaced(OffsetsStep *s)
{
	size_t		n = 0;
	size_t		best = 0;

	if (s->k->kind != NORM_REPLACE && s->k->kind != NORM_REGEX)
		return 0;
	/* mostly nothing is replaced */
	for (int c = 0; c < MOST_CHARS && s->i + n < s->in->len; c++)
		n += char_len(s->in, s->i + n);
	buf_reset(&s->piece);
	if (!tok_norm_apply(s->k, s->in->data + s->i, n, s->edges, &s->piece, s->e) ||
		(s->piece.len == n && memcmp(s->piece.data, s->in->data + s->i, n) == 0))
		return 0;
	n = 0;
	for (int c = 0; c < MOST_CHARS && s->i + n < s->in->len; c++)
	{
		n += char_len(s->in, s->i + n);
		if (makes(s, n) && s->piece.len == strlen(s->k->to) &&
			(s->piece.len == 0 || memcmp(s->piece.data, s->k->to, s->piece.len) == 0))
			best = n;
		else if (best > 0)
			break;
	}
	return best;
}

static bool
align_char(OffsetsStep *s)
{
	size_t		n = replaced(s);

	if (n > 0)
	{
		take_several(s, n, strlen(s->k->to));
		return true;
	}

	/* text put before the input */
	if (s->k->kind == NORM_PREPEND && s->i == 0 && s->j == 0)
		put(s->to, s->j = strlen(s->k->to), align_begin(s->a, s->in->data),
			align_end(s->a, s->in->data, s->in->data + char_len(s->in, 0)));
	if (s->k->kind == NORM_PREPEND && s->i == 0 && s->j == s->out->len)
		return false;
	for (int c = 0; c < MOST_CHARS && s->i + n < s->in->len; c++)
	{
		n += char_len(s->in, s->i + n);
		if (c == 0 && same(s, n) && !is_mark(s, s->i + n))
		{
			take(s, n, n);
			return true;
		}
		if (c == 0 && s->k->kind == NORM_SPACES && s->in->data[s->i] == ' ' &&
			meta_at(s->out->data + s->j, s->out->len - s->j))
		{
			take(s, 1, META_LEN);
			return true;
		}
		/* a character alone may be composed differently than with its mark */
		if (makes(s, n) && !(c == 0 && s->piece.len > 0 && is_mark(s, s->i + n) &&
							 s->k->kind == NORM_UNICODE))
		{
			if (c == 0)
				take(s, n, s->piece.len);
			else
				take_several(s, n, s->piece.len);
			return true;
		}
		if (s->e->msg[0] != '\0')
			return false;
	}
	/* SentencePiece's prefix */
	if (s->k->kind == NORM_SPACES && meta_at(s->out->data + s->j, s->out->len - s->j))
	{
		take(s, 0, META_LEN);
		return true;
	}
	take(s, char_len(s->in, s->i), s->j < s->out->len ? char_len(s->out, s->j) : 0);
	return true;
}

static bool
align_step(OffsetsStep *s)
{
	while (s->i < s->in->len)
		if (!align_char(s))
			return s->e->msg[0] == '\0';
	take(s, 0, s->out->len - s->j);
	/* each byte of the output has a position */
	ASSERT(s->to->begin.len == s->out->len && s->to->end.len == s->out->len);
	s->to->base = s->out->data;
	s->to->len = s->out->len;
	return true;
}

bool
align_normalized(const Tok *t, const Align *a, const char *s, size_t n, unsigned edges, const Buf *out,
				 Align *to, Err *e)
{
	Buf			in = {0};
	Align		at = {0};
	bool		ok = true;

	buf_add(&in, s, n);
	for (size_t i = 0; i < n; i++)
	{
		intvec_push(&at.begin, align_begin(a, s + i));
		intvec_push(&at.end, align_end(a, s + i, s + i + 1));
	}
	at.base = in.data;
	at.len = n;
	for (size_t i = 0; ok && i < t->n_norm && in.len > 0; i++)
	{
		Buf			made = {0};
		Align		next = {0};
		OffsetsStep	step = {.k = &t->norm[i],.edges = edges,.a = &at,.in = &in,.out = &made,.to = &next,
							.e = e};

		ok = tok_norm_apply(step.k, in.data, in.len, edges, &made, e) && align_step(&step);
		buf_free(&step.piece);
		buf_free(&in);
		align_free(&at);
		in = made;
		at = next;
	}
	*to = at;
	to->base = out->data;
	to->len = out->len;
	buf_free(&in);
	return ok;
}

/* ---- the pre-tokenizer ---- */

void
align_pre(const PreStep *p, const Align *a, const char *s, size_t n, const Buf *b, Align *to)
{
	size_t		len = p->kind == PRE_METASPACE ? strlen(p->str) : 0;
	size_t		made = 0;

	to->begin.len = to->end.len = 0;
	for (size_t i = 0; i < n; i++)
		made += p->kind == PRE_SPELL ?
			utf8_len((unsigned char) (bpe_byte_char((unsigned char) s[i]) < 0x80 ? 0 : 0xC2)) : len > 0 &&
			s[i] == ' ' ? len : 1;
	/* a space put before the text gets the position of the text's first character */
	put(to, b->len - made, align_begin(a, s), align_end(a, s, s + utf8_len((unsigned char) s[0])));
	for (size_t i = 0; i < n; i++)
		put(to, p->kind == PRE_SPELL ? (bpe_byte_char((unsigned char) s[i]) < 0x80 ? 1 : 2) : len > 0 &&
			s[i] == ' ' ? len : 1, align_begin(a, s + i), align_end(a, s + i, s + i + 1));
	to->base = b->data;
	to->len = b->len;
}

/* ---- words ---- */

/* Return how many bytes at s[0..n) of the word the token covers; 0 = it doesn't match there. */
static size_t
token_len(const Tok *t, int32_t id, const char *s, size_t n, bool first)
{
	static const char ending[] = "</w>";
	size_t		len;
	const char *name = strtab_get(t->names, id, &len);

	if (name != NULL && len > 0)
	{
		if (len <= n && memcmp(name, s, len) == 0)
			return len;
		if (!first && len > 2 && memcmp(name, "##", 2) == 0 && len - 2 <= n &&
			memcmp(name + 2, s, len - 2) == 0)
			return len - 2;
		if (len > 4 && memcmp(name + len - 4, ending, 4) == 0 && len - 4 <= n &&
			memcmp(name, s, len - 4) == 0)
			return len - 4;
	}
	name = tok_piece(t, id, &len);
	return len > 0 && len <= n && memcmp(name, s, len) == 0 ? len : 0;
}

void
align_word(const Tok *t, const Align *a, const char *s, size_t n, const IntVec *ids, size_t first,
		   IntVec *spans)
{
	size_t		pos = 0;

	for (size_t i = first; i < ids->len; i++)
	{
		size_t		len = token_len(t, ids->data[i], s + pos, n - pos, i == first);

		/* an unknown token ends where the next token is found */
		if (len == 0)
		{
			bool		again = i + 1 < ids->len && ids->data[i + 1] == ids->data[i];

			len = again ? utf8_len((unsigned char) s[pos]) : n - pos;
			len = len < n - pos ? len : n - pos;
			for (size_t k = pos + 1; !again && i + 1 < ids->len && k < n; k++)
				if (token_len(t, ids->data[i + 1], s + k, n - k, false) > 0)
				{
					len = k - pos;
					break;
				}
		}
		ALWAYS(len <= n - pos);
		intvec_push(spans, align_begin(a, s + pos));
		intvec_push(spans, align_end(a, s + pos, s + pos + len));
		pos += len;
	}
}
