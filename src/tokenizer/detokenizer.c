/*
 * detokenizer.c
 *	  Token ids to text: incrementally (Detok) and for a whole sequence (tok_decode), which runs the
 *	  same machine to its end.
 *
 * Tokens are bytes (tok_piece), so decoding is concatenation with three exceptions:
 *
 * 1. Bytes that may still become a character are held back (at most 3); bytes that can't become one
 *	  are emitted as U+FFFD: one per maximal ill-formed subpart, or, for bytes of byte fallback tokens,
 *	  one per byte, as in the reference.
 * 2. The first token may decode differently (SentencePiece texts lose the space that encoding put
 *	  before the first word), and so may the last: the space after a word, in some vocabularies, is
 *	  emitted when the next token comes.
 * 3. The context (the prompt's last ids) runs through the same machine with the output muted.  A
 *	  character that the prompt began belongs to the prompt, even if the output completes it: none of
 *	  its bytes is emitted.
 *
 * There is one difference from Hugging Face's decode(): it turns a run of byte fallback tokens that is
 * ill-formed anywhere into U+FFFD entirely.  Emitted text can't be taken back, so here the well-formed
 * characters of such a run remain.
 *
 * Amortized O(bytes).  Tested by tests/unit/tokenizer/test_detok.c.
 */
#include "tokenizer/detokenizer.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "tokenizer/tokenizer_internal.h"
#include "text/utf8.h"

struct Detok
{
	const Tok  *t;
	bool		skip_special;
	bool		first;			/* no token has been seen yet */
	bool		muted;			/* in the context */
	bool		space;			/* a space is due if another token comes */
	bool		tight;			/* but not between special tokens */
	bool		last_special;	/* the last one was special */
	size_t		strip;			/* spaces that may still be dropped */
	size_t		n_held;			/* bytes in held[] */
	size_t		n_muted;		/* how many of these belong to the context */
	char		held[4];
};

/* Emit finished characters s[0..n). */
static void
emit(Detok *d, const char *s, size_t n, Buf *out)
{
	while (n > 0 && d->strip > 0)
	{
		if (*s != ' ')
		{
			d->strip = 0;
			break;
		}
		d->strip--;
		s++;
		n--;
	}
	if (!d->muted && n > 0)
		buf_add(out, s, n);
}

/* Handle the first n held bytes, which are ill-formed. */
static void
emit_bad(Detok *d, size_t n, Buf *out)
{
	size_t		times = 1;

	d->strip = 0;
	if (d->t->fffd_per_byte)
		times = n - (d->n_muted < n ? d->n_muted : n);
	else if (d->n_muted > 0)
		times = 0;				/* the context began the character */
	while (times-- > 0)
		emit(d, UTF8_REPLACEMENT, 3, out);
}

/* Take one byte while others are held. */
static void
push_held(Detok *d, char c, Buf *out)
{
	size_t		len;
	Utf8Kind	kind;

	/* an incomplete character has at most three bytes */
	ALWAYS(d->n_held < sizeof(d->held));
	d->held[d->n_held++] = c;
	d->n_muted += d->muted;
	while (d->n_held > 0 && (kind = utf8_scan(d->held, d->n_held, &len)) != UTF8_SHORT)
	{
		if (kind == UTF8_BAD)
			emit_bad(d, len, out);
		else if (d->n_muted == 0 || d->muted)
			emit(d, d->held, len, out);
		else
			d->strip = 0;
		ALWAYS(len > 0 && len <= d->n_held);
		d->n_held -= len;
		d->n_muted -= d->n_muted < len ? d->n_muted : len;
		memmove(d->held, d->held + len, d->n_held);
	}
}

static void
push_bytes(Detok *d, const char *s, size_t n, Buf *out)
{
	size_t		i = 0;
	size_t		len;

	while (i < n)
	{
		size_t		from = i;

		/* nothing is held: emit whole characters in one piece */
		if (d->n_held == 0)
			while (i < n && utf8_scan(s + i, n - i, &len) == UTF8_OK)
				i += len;
		if (i > from)
			emit(d, s + from, i - from, out);
		if (i < n)
			push_held(d, s[i++], out);
	}
}

static void
init(Detok *d, const Tok *t, bool skip_special)
{
	memset(d, 0, sizeof(*d));
	d->t = t;
	d->skip_special = skip_special;
	d->first = true;
	d->strip = t->strip;
}

Detok *
detok_new(const Tok *t, const int32_t *context, size_t n_context, bool skip_special)
{
	Detok	   *d = mem_alloc(sizeof(Detok));

	init(d, t, skip_special);
	d->muted = true;
	if (context == NULL && n_context > 0)
	{
		d->first = false;
		d->strip = 0;
	}
	for (size_t i = 0; context != NULL && i < n_context; i++)
		detok_push(d, context[i], NULL);
	d->muted = false;
	return d;
}

void
detok_tighten(Detok *d)
{
	d->tight = true;
}

void
detok_free(Detok *d)
{
	mem_free(d);
}

void
detok_push(Detok *d, int32_t id, Buf *out)
{
	const Tok  *t = d->t;
	bool		special;
	size_t		n;
	const char *s = strtab_get(t->pieces, id, &n);

	if (s == NULL || (d->skip_special && tok_is_special(t, id)))
		return;
	if (d->first && t->firsts != NULL && strtab_get(t->firsts, id, &n) != NULL)
		s = strtab_get(t->firsts, id, &n);
	else
		strtab_get(t->pieces, id, &n);
	special = tok_is_special(t, id);
	if (d->tight && special && d->last_special)
	{
		for (; n > 0 && *s == ' '; n--)
			s++;
	}
	else if (d->space)
		push_bytes(d, " ", 1, out);
	push_bytes(d, s, n, out);
	d->last_special = special;
	d->first = false;
	d->space = (t->flags[id] & TOK_F_SPACE) != 0;
}

void
detok_finish(Detok *d, Buf *out)
{
	if (d->n_held > 0)
		emit_bad(d, d->n_held, out);
	d->n_held = d->n_muted = 0;
}

void
tok_decode(const Tok *t, const int32_t *ids, size_t n, unsigned flags, Buf *out)
{
	Detok		d;

	init(&d, t, (flags & TOK_SKIP_SPECIAL) != 0);
	for (size_t i = 0; i < n; i++)
		detok_push(&d, ids[i], out);
	detok_finish(&d, out);
}
