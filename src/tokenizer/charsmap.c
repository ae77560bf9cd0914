/*
 * charsmap.c
 *	  SentencePiece's precompiled normalization rules (nmt_nfkc and others).
 *
 * The blob consists of the byte length of a double array (32 bits, little-endian), the double array, and
 * replacement strings, each terminated by NUL, to which the array's leaves refer.  A unit of the array:
 *
 *	 bits 0-7	the byte that leads here; bit 31 is set in leaves
 *	 bit 8		a leaf hangs below
 *	 bits 10-30	offset to the children, times 256 if bit 9 is set
 *	 leaves		bits 0-30 are the value
 *
 * Every index is checked when it is used: the blob is untrusted.
 *
 * There are two ways to apply it.  SentencePiece takes the longest rule that matches at a position, or
 * keeps the character.  Hugging Face goes by grapheme clusters: a cluster of less than six bytes is
 * replaced as a whole by the shortest rule that matches its beginning; in longer ones each character is
 * looked up separately.  Models were trained with the first and are served with the second; this file
 * implements both.
 *
 * Tested by tests/unit/tokenizer/test_tokenizer.c against both.
 */
#include "tokenizer/charsmap.h"

#include <string.h>
#include <utf8proc.h>

#include "base/alloc.h"
#include "text/unicode.h"
#include "text/utf8.h"

/* Hugging Face looks up whole clusters shorter than this. */
#define CLUSTER_LIMIT 6

struct Charsmap
{
	uint32_t   *unit;
	size_t		n_units;
	char	   *text;			/* replacements, each terminated by NUL */
	size_t		n_text;
	size_t		longest;		/* bytes of the longest replacement */
};

Charsmap *
charsmap_new(const void *blob, size_t n, Err *e)
{
	const unsigned char *p = blob;
	Charsmap   *m;
	size_t		size;

	if (n < 4 || (size = p[0] | (size_t) p[1] << 8 | (size_t) p[2] << 16 | (size_t) p[3] << 24) > n - 4 ||
		size % 4 != 0 || size == 0)
	{
		err_set(e, ERR_BAD_FILE, "the tokenizer's precompiled charsmap is malformed");
		return NULL;
	}
	m = mem_zalloc(sizeof(Charsmap));
	m->n_units = size / 4;
	m->unit = mem_alloc(size);
	for (size_t i = 0; i < m->n_units; i++)
	{
		const unsigned char *u = p + 4 + 4 * i;

		m->unit[i] = u[0] | (uint32_t) u[1] << 8 | (uint32_t) u[2] << 16 | (uint32_t) u[3] << 24;
	}
	m->n_text = n - 4 - size;
	m->text = mem_alloc(m->n_text + 1);
	if (m->n_text > 0)
		memcpy(m->text, p + 4 + size, m->n_text);
	m->text[m->n_text] = '\0';
	for (size_t i = 0, len; i < m->n_text; i += len + 1)
	{
		len = strlen(m->text + i);
		m->longest = len > m->longest ? len : m->longest;
	}
	return m;
}

void
charsmap_free(Charsmap *m)
{
	if (m == NULL)
		return;
	mem_free(m->unit);
	mem_free(m->text);
	mem_free(m);
}

size_t
charsmap_longest(const Charsmap *m)
{
	return m->longest;
}

static size_t
offset_of(uint32_t unit)
{
	return (size_t) (unit >> 10) << ((unit & (1u << 9)) >> 6);
}

/*
 * Return the replacement for a prefix of s[0..n), NULL if no rule matches; *len = bytes of the prefix.
 * longest: use the longest matching rule, else the shortest.
 */
static const char *
find_rule(const Charsmap *m, const char *s, size_t n, bool longest, size_t *len)
{
	const char *found = NULL;
	size_t		at = offset_of(m->unit[0]);

	for (size_t i = 0; i < n && s[i] != '\0'; i++)
	{
		uint32_t	unit;

		at ^= (unsigned char) s[i];
		if (at >= m->n_units)
			break;
		unit = m->unit[at];
		if ((unit & 0x800000FFu) != (unsigned char) s[i])
			break;
		at ^= offset_of(unit);
		if ((unit >> 8 & 1) != 0)
		{
			size_t		value = at < m->n_units ? m->unit[at] & 0x7FFFFFFFu : SIZE_MAX;

			if (value > m->n_text || !uni_valid(m->text + value, strlen(m->text + value)))
				break;
			found = m->text + value;
			*len = i + 1;
			if (!longest)
				break;
		}
	}
	return found;
}

/* Return the end of the grapheme cluster at s. */
static const char *
cluster_end(const char *s, const char *end)
{
	utf8proc_int32_t state = 0;
	size_t		len;
	uint32_t	a = utf8_next(s, &len);

	for (s += len; s < end; s += len)
	{
		uint32_t	b = utf8_next(s, &len);

		if (utf8proc_grapheme_break_stateful((utf8proc_int32_t) a, (utf8proc_int32_t) b, &state))
			break;
		a = b;
	}
	return s;
}

static void
apply_chars(const Charsmap *m, const char *s, const char *end, bool longest, Buf *out)
{
	while (s < end)
	{
		size_t		step = utf8_len((unsigned char) *s);
		size_t		len;
		const char *to = find_rule(m, s, longest ? (size_t) (end - s) : step, longest, &len);

		/* ignore a rule that ends inside of a character, as it would leave half of it */
		if (to != NULL && longest && s + len < end && ((unsigned char) s[len] & 0xC0) == 0x80)
			to = NULL;
		if (to != NULL)
			buf_addstr(out, to);
		else
			buf_add(out, s, step);
		s += to != NULL && longest ? len : step;
	}
}

void
charsmap_apply(const Charsmap *m, const char *s, size_t n, bool sentencepiece, Buf *out)
{
	const char *end = s + n;
	size_t		len;

	if (sentencepiece)
	{
		apply_chars(m, s, end, true, out);
		return;
	}
	while (s < end)
	{
		const char *stop = cluster_end(s, end);
		const char *to = stop - s < CLUSTER_LIMIT ? find_rule(m, s, (size_t) (stop - s), false, &len) : NULL;

		if (to != NULL)
			buf_addstr(out, to);
		else
			apply_chars(m, s, stop, false, out);
		s = stop;
	}
}
