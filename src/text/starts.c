/*
 * starts.c
 *	  Where each token of a text begins.
 *
 * A byte-level vocabulary's pieces put together are the text, so the answer is exact.
 * Others change the text before they cut it (lower case, accents, white space, NFKC) and may
 * not know a word: then the pieces are laid along the text, letters compared without case
 * and any letter beyond ASCII taken for any other; an unknown word ends where the next
 * piece is found, what still fits nowhere takes a character.  So an offset may be off
 * by some characters behind such a place, until the next piece that is found again.
 *
 * Tested by tests/unit/test_chunk.c.
 */
#include <string.h>

#include "text/tokenizer.h"
#include "text/unicode.h"
#include "text/utf8.h"

#define LOOK_AHEAD	48			/* bytes in which a piece is searched */

static bool
is_space(const char *s, size_t *len)
{
	return (uni_class(utf8_next(s, len)) & UNI_SPACE) != 0;
}

static size_t
skip_space(const char *s, size_t pos, size_t n)
{
	size_t		len;

	while (pos < n && is_space(s + pos, &len))
		pos += len;
	return pos;
}

/* Does the piece p[0..pn) stand at pos, roughly?  *end: behind it. */
static bool
fits(const char *s, size_t pos, size_t n, const char *p, size_t pn, size_t *end)
{
	size_t		i = 0;

	while (i < pn)
	{
		size_t		text_len,
					piece_len;
		uint32_t	text,
					piece;

		if (pos >= n)
			return false;
		text = utf8_next(s + pos, &text_len);
		piece = utf8_next(p + i, &piece_len);
		if (text != piece && uni_lower(text) != uni_lower(piece))
		{
			/* an accent that is gone */
			if (i > 0 && (uni_class(text) & UNI_M))
			{
				pos += text_len;
				continue;
			}
			if (text < 0x80 || (uni_class(text) & UNI_SPACE))
				return false;
		}
		pos += text_len;
		i += piece_len;
	}
	*end = pos;
	return true;
}

/* The first place from pos on at which the piece fits, not far away; false: none. */
static bool
find(const char *s, size_t *pos, size_t n, const char *p, size_t pn, size_t *end)
{
	size_t		stop = n - *pos < LOOK_AHEAD ? n : *pos + LOOK_AHEAD;

	for (size_t i = *pos; i < stop; i += utf8_len((unsigned char) s[i]))
		if (fits(s, i, n, p, pn, end))
		{
			*pos = i;
			return true;
		}
	return false;
}

/* Where a token with this piece begins, from *pos on; moves *pos behind it. */
static size_t
lay(const Tok *t, int32_t id, const char *s, size_t n, size_t *pos)
{
	size_t		pn;
	const char *p = tok_piece(t, id, &pn);
	size_t		start = *pos,
				end;
	size_t		space = 0;

	if (n - start >= pn && memcmp(s + start, p, pn) == 0)
	{
		*pos += pn;
		return start;
	}
	while (space < pn && p[space] == ' ')
		space++;
	/* a piece with a part of a character went before */
	while (start < n && ((unsigned char) s[start] & 0xC0) == 0x80)
		start++;
	start = skip_space(s, start, n);
	if (start == n || space == pn || !uni_valid(p + space, pn - space))
		return space == pn ? *pos : start;
	if (n - start >= pn - space && memcmp(s + start, p + space, pn - space) == 0)
	{
		*pos = start + pn - space;
		return start;
	}
	/* an unknown word's end is where the next piece is found */
	if (tok_is_special(t, id))
		*pos = start;
	else if (find(s, &start, n, p + space, pn - space, &end))
		*pos = end;
	else
		*pos = start + utf8_len((unsigned char) s[start]);
	return start;
}

bool
tok_starts(const Tok *t, const char *s, size_t n, IntVec *out, Err *e)
{
	IntVec		ids = {0};
	size_t		pos = 0;
	bool		ok = tok_encode(t, s, n, 0, &ids, e);

	for (size_t i = 0; ok && i < ids.len; i++)
		intvec_push(out, (int32_t) lay(t, ids.data[i], s, n, &pos));
	intvec_free(&ids);
	return ok;
}
