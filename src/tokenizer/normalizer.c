/*
 * normalizer.c
 *	  The normalizer: the steps that a text passes before it is cut.
 *
 * Each step reads one buffer and writes the next.  Most texts are mostly ASCII, so steps that examine
 * characters have a fast path for it.  Characters are converted as in Hugging Face's library, with its
 * older Unicode data (unicode_hf.c); SentencePiece's white space rules follow that library.
 *
 * Tested by tests/unit/tokenizer/test_tokenizer.c.
 */
#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "tokenizer/word_marker.h"
#include "tokenizer/tokenizer_internal.h"
#include "text/utf8.h"

void
tok_replace(const char *s, size_t n, const char *from, const char *to, Buf *out)
{
	size_t		flen = strlen(from);
	size_t		tlen = strlen(to);
	const char *end = s + n;
	const char *hit;

	ALWAYS(flen > 0);			/* an empty text is found for ever */
	buf_reserve(out, n);
	while ((hit = memmem(s, (size_t) (end - s), from, flen)) != NULL)
	{
		buf_add(out, s, (size_t) (hit - s));
		buf_add(out, to, tlen);
		s = hit + flen;
	}
	buf_add(out, s, (size_t) (end - s));
}

static void
replace_matches(const char *s, size_t n, SplitMatch match, const char *to, Buf *out)
{
	const char *end = s + n;
	const char *done = s;
	size_t		tlen = strlen(to);
	size_t		len;

	while (s < end)
	{
		len = match(s, end);
		if (len == 0)
		{
			s += utf8_len((unsigned char) *s);
			continue;
		}
		buf_add(out, done, (size_t) (s - done));
		buf_add(out, to, tlen);
		done = s += len;
	}
	buf_add(out, done, (size_t) (end - done));
}

static void
put_char(Buf *out, uint32_t cp)
{
	char		c[4];

	buf_add(out, c, utf8_put(c, cp));
}

static void
put_lower(Buf *out, uint32_t cp)
{
	if (cp == 0x130)
		buf_addstr(out, "i\xCC\x87");
	else
		put_char(out, uni_lower(cp));
}

static void
lowercase(const char *s, size_t n, Buf *out)
{
	size_t		i = 0;
	size_t		len;

	while (i < n)
	{
		size_t		from = i;
		char	   *to;

		while (i < n && (unsigned char) s[i] < 0x80)
			i++;
		buf_reserve(out, i - from);
		to = out->data + out->len;
		for (size_t k = from; k < i; k++)
			*to++ = (char) (s[k] >= 'A' && s[k] <= 'Z' ? s[k] + 32 : s[k]);
		*to = '\0';
		out->len += i - from;
		for (; i < n && (unsigned char) s[i] >= 0x80; i += len)
			put_lower(out, utf8_next(s + i, &len));
	}
}

/* Append s without the characters for which `drop` returns true. */
static void
filter(const char *s, size_t n, bool (*drop) (uint32_t cp), Buf *out)
{
	size_t		from = 0;
	size_t		len;

	for (size_t i = 0; i < n; i += len)
	{
		len = 1;
		if ((unsigned char) s[i] < 0x80 || !drop(utf8_next(s + i, &len)))
			continue;
		buf_add(out, s + from, i - from);
		from = i + len;
	}
	buf_add(out, s + from, n - from);
}

/* ---------- BERT ---------- */

/* Return true for the blocks that the reference takes for Chinese, with its gap at U+2B820. */
static bool
is_chinese(uint32_t c)
{
	return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
		(c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
		(c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

/* Remove control characters, convert white space to spaces, put spaces around Chinese characters. */
static void
bert_clean(const char *s, size_t n, unsigned flags, Buf *out)
{
	size_t		len;

	buf_reserve(out, n);
	for (size_t i = 0; i < n; i += len)
	{
		uint32_t	cp = utf8_next(s + i, &len);

		if (cp >= 0x20 && cp < 0x7F)
		{
			size_t		from = i;

			while (i + 1 < n && s[i + 1] >= 0x20 && s[i + 1] < 0x7F)
				i++;
			buf_add(out, s + from, i + 1 - from);
			continue;
		}
		if (flags & NORM_BERT_CLEAN)
		{
			if ((uni_class(cp) & UNI_SPACE) != 0 && (cp >= 0x80 || cp == '\t' || cp == '\n' || cp == '\r') &&
				cp != 0x85)
			{
				buf_addc(out, ' ');
				continue;
			}
			if (cp == 0 || cp == 0xFFFD || uni_hf_other(cp))
				continue;
		}
		if ((flags & NORM_BERT_CHINESE) != 0 && is_chinese(cp))
		{
			buf_addc(out, ' ');
			buf_add(out, s + i, len);
			buf_addc(out, ' ');
		}
		else
			buf_add(out, s + i, len);
	}
}

static bool
is_ascii(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((unsigned char) s[i] >= 0x80)
			return false;
	return true;
}

static bool
bert(const char *s, size_t n, unsigned flags, Buf *out, Err *e)
{
	Buf			a = {0};
	Buf			b = {0};
	bool		ok = true;

	if (flags & (NORM_BERT_CLEAN | NORM_BERT_CHINESE))
	{
		bert_clean(s, n, flags, &a);
		s = a.data;
		n = a.len;
	}
	if ((flags & NORM_BERT_ACCENTS) != 0 && !is_ascii(s, n))
	{
		Buf			form = {0};

		ok = uni_normalize(s, n, UNI_NFD, &form, e);
		if (ok)
			filter(form.data, form.len, uni_hf_nonspacing, &b);
		buf_free(&form);
		s = b.data;
		n = b.len;
	}
	if (ok && n > 0)
	{
		if (flags & NORM_BERT_LOWER)
			lowercase(s, n, out);
		else
			buf_add(out, s, n);
	}
	buf_free(&a);
	buf_free(&b);
	return ok;
}

/* ---------- the others ---------- */

/* Nmt: remove some control characters, convert other blanks to spaces. */
static void
nmt(const char *s, size_t n, Buf *out)
{
	size_t		len;

	for (size_t i = 0; i < n; i += len)
	{
		uint32_t	c = utf8_next(s + i, &len);

		if ((c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F)
			continue;
		if (c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
			c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD)
			buf_addc(out, ' ');
		else
			buf_add(out, s + i, len);
	}
}

static void
strip(const char *s, size_t n, unsigned flags, Buf *out)
{
	const char *end = s + n;
	size_t		len;

	if (flags & NORM_STRIP_LEFT)
		while (s < end && (uni_class(utf8_next(s, &len)) & UNI_SPACE) != 0)
			s += len;
	while ((flags & NORM_STRIP_RIGHT) != 0 && end > s)
	{
		const char *last = end - 1;

		while (((unsigned char) *last & 0xC0) == 0x80)
			last--;
		if ((uni_class(utf8_next(last, &len)) & UNI_SPACE) == 0)
			break;
		end = last;
	}
	buf_add(out, s, (size_t) (end - s));
}

/*
 * SentencePiece's white space: remove spaces at the ends and merge others (NORM_SPM_TRIM), put one
 * before the text (NORM_SPM_PREFIX) or after it (NORM_SPM_SUFFIX), and spell all as U+2581.  The text is
 * the part between two added tokens, or, with NORM_SPM_EDGES, the whole.
 */
static void
spm_spaces(const char *s, size_t n, unsigned flags, unsigned edges, Buf *out)
{
	bool		trim = (flags & NORM_SPM_TRIM) != 0;
	size_t		begin = out->len;
	size_t		from = 0;
	bool		after_space;

	if ((flags & NORM_SPM_EDGES) == 0)
		edges = TOK_AT_START | TOK_AT_END;
	after_space = trim && (edges & TOK_AT_START) != 0;
	if (trim && (edges & TOK_AT_END) != 0)
		while (n > 0 && s[n - 1] == ' ')
			n--;
	while (after_space && from < n && s[from] == ' ')
		from++;
	/* nothing is left of the whole text; or an added token follows */
	if (from == n && (edges & TOK_AT_END) != 0)
		return;
	if ((flags & NORM_SPM_PREFIX) != 0 && (edges & TOK_AT_START) != 0)
		buf_add(out, META, META_LEN);
	for (size_t i = from; i < n; i++)
	{
		size_t		start = i;

		while (i < n && s[i] != ' ')
			i++;
		buf_add(out, s + start, i - start);
		if (i > start)
			after_space = false;
		if (i < n && !after_space)
			buf_add(out, META, META_LEN);
		after_space = trim;
	}
	/* also drop U+2581 characters of the text itself, and the prefix if nothing else is left */
	while (trim && (edges & TOK_AT_END) != 0 && out->len - begin >= META_LEN &&
		   meta_at(out->data + out->len - META_LEN, META_LEN))
		out->len -= META_LEN;
	if ((flags & NORM_SPM_SUFFIX) != 0 && (edges & TOK_AT_END) != 0)
		buf_add(out, META, META_LEN);
}

static void
spell(const char *s, size_t n, Buf *out)
{
	for (size_t i = 0; i < n; i++)
		put_char(out, bpe_byte_char((unsigned char) s[i]));
}

/* Return the most bytes that a step may make of one. */
static size_t
growth(const NormStep *k)
{
	switch (k->kind)
	{
		case NORM_REPLACE:
			return strlen(k->to) / strlen(k->from) + 1;
		case NORM_REGEX:
			return strlen(k->to) + 1;
		case NORM_CHARSMAP:
			return charsmap_longest(k->map) + 1;
		case NORM_UNICODE:
		case NORM_BERT:
			return 18;			/* U+FDFA has 3 bytes and becomes 33 */
		default:
			return 4;
	}
}

bool
tok_norm_apply(const NormStep *k, const char *s, size_t n, unsigned edges, Buf *out, Err *e)
{
	switch (k->kind)
	{
		case NORM_UNICODE:
			return uni_normalize(s, n, k->form, out, e);
		case NORM_PREPEND:
			buf_addstr(out, k->to);
			buf_add(out, s, n);
			break;
		case NORM_REPLACE:
			tok_replace(s, n, k->from, k->to, out);
			break;
		case NORM_REGEX:
			if (k->rx != NULL)
				return rx_replace(k->rx, s, n, k->to, out, e);
			replace_matches(s, n, k->match, k->to, out);
			break;
		case NORM_LOWER:
			lowercase(s, n, out);
			break;
		case NORM_ACCENTS:
			filter(s, n, uni_hf_mark, out);
			break;
		case NORM_BERT:
			return bert(s, n, k->flags, out, e);
		case NORM_STRIP:
			strip(s, n, k->flags, out);
			break;
		case NORM_NMT:
			nmt(s, n, out);
			break;
		case NORM_CHARSMAP:
			charsmap_apply(k->map, s, n, (k->flags & NORM_SPM) != 0, out);
			break;
		case NORM_SPACES:
			spm_spaces(s, n, k->flags, edges, out);
			break;
		case NORM_SPELL:
			spell(s, n, out);
			break;
	}
	return true;
}

bool
tok_normalize(const Tok *t, const char *s, size_t n, unsigned edges, Buf *out, Err *e)
{
	Buf			tmp = {0};
	bool		ok = true;

	buf_add(out, s, n);
	for (size_t i = 0; i < t->n_norm && out->len > 0 && ok; i++)
	{
		Buf			swap = *out;

		*out = tmp;
		tmp = swap;
		buf_reset(out);
		/* a hostile file may multiply the text's size, so check the possible size before each step */
		if (tmp.len > TOK_MAX_NORMALIZED / growth(&t->norm[i]))
			ok = err_set(e, ERR_TOO_LONG, "text is too long to tokenize");
		else
			ok = tok_norm_apply(&t->norm[i], tmp.data, tmp.len, edges, out, e);
	}
	buf_free(&tmp);
	return ok;
}

void
tok_norm_free(NormStep *k)
{
	mem_free(k->from);
	mem_free(k->to);
	rx_free(k->rx);
	charsmap_free(k->map);
}
