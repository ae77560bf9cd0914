/*
 * unicode.c
 *	  Character properties, UTF-8 repair, and normalization forms.
 *
 * Properties come from a generated two-stage table (unicode_tables.h): one byte per code point, whose
 * low five bits are the general category; bit 5 is White_Space and bit 6 is \w.  A look-up is two loads
 * without a branch.
 *
 * Normalization is utf8proc's, with two precautions.  Text below U+0300 is its own NFC and is copied,
 * except next to other text.  And utf8proc orders combining marks by swapping neighbours, which is
 * quadratic in the length of a run of marks: a prompt of a hundred thousand marks would keep a thread
 * busy for minutes.  So long runs are put into canonical order first, by a stable counting sort; the
 * text stays canonically equivalent, so the result is unchanged.
 *
 * Tested by tests/unit/text/test_unicode.c: every code point against recorded
 * counts and ranges of Hugging Face's engine, normalization against vectors.
 */
#include "text/unicode.h"

#include <string.h>
#include <utf8proc.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "text/unicode_tables.h"
#include "text/utf8.h"

/* runs of marks longer than this are sorted before utf8proc sees them */
#define RUN_LIMIT	32

/* bits of a table entry beside the category */
#define PROP_GC		0x1F
#define PROP_SPACE	0x20
#define PROP_WORD	0x40

static const char *const gc_name[] = {
	"Cn", "Cc", "Cf", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl",
	"No", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs"
};

static const uint16_t gc_class[32] = {
	[UNI_GC_LL] = UNI_L | UNI_LL, [UNI_GC_LM] = UNI_L, [UNI_GC_LO] = UNI_L, [UNI_GC_LT] = UNI_L | UNI_LU,
	[UNI_GC_LU] = UNI_L | UNI_LU, [UNI_GC_MC] = UNI_M, [UNI_GC_ME] = UNI_M, [UNI_GC_MN] = UNI_M,
	[UNI_GC_ND] = UNI_N, [UNI_GC_NL] = UNI_N, [UNI_GC_NO] = UNI_N, [UNI_GC_PC] = UNI_P,
	[UNI_GC_PD] = UNI_P, [UNI_GC_PE] = UNI_P, [UNI_GC_PF] = UNI_P, [UNI_GC_PI] = UNI_P,
	[UNI_GC_PO] = UNI_P, [UNI_GC_PS] = UNI_P, [UNI_GC_SC] = UNI_S, [UNI_GC_SK] = UNI_S,
	[UNI_GC_SM] = UNI_S, [UNI_GC_SO] = UNI_S
};

static uint8_t
prop(uint32_t cp)
{
	if (cp > 0x10FFFF)
		return 0;
	return uni_stage2[(size_t) uni_stage1[cp >> 7] * 128 + (cp & 127)];
}

unsigned
uni_class_any(uint32_t cp)
{
	uint8_t		p = prop(cp);

	/* UNI_SPACE and UNI_WORD equal the table's bits */
	return gc_class[p & PROP_GC] | (p & (PROP_SPACE | PROP_WORD));
}

const char *
uni_category(uint32_t cp)
{
	unsigned	gc = prop(cp) & PROP_GC;

	ASSERT(gc < sizeof(gc_name) / sizeof(gc_name[0]));
	return gc_name[gc];
}

bool
uni_valid(const char *s, size_t n)
{
	size_t		i = 0;
	size_t		len;

	while (i < n)
	{
		uint64_t	w;

		if (n - i >= 8)
		{
			memcpy(&w, s + i, 8);
			if ((w & 0x8080808080808080u) == 0)
			{
				i += 8;
				continue;
			}
		}
		if (utf8_scan(s + i, n - i, &len) != UTF8_OK)
			return false;
		i += len;
	}
	return true;
}

void
uni_repair(const char *s, size_t n, Buf *out)
{
	size_t		i = 0;
	size_t		len;

	buf_reserve(out, n);
	while (i < n)
	{
		if (utf8_scan(s + i, n - i, &len) == UTF8_OK)
			buf_add(out, s + i, len);
		else
			buf_add(out, UTF8_REPLACEMENT, 3);
		i += len;
	}
}

static int
ccc(uint32_t cp)
{
	return cp < 0x300 ? 0 : utf8proc_get_property((utf8proc_int32_t) cp)->combining_class;
}

/* Sort a run of marks s[0..n) by combining class to *out, with a stable counting sort. */
static void
sort_run(const char *s, size_t n, Buf *out)
{
	size_t		start[257] = {0};
	size_t		len;
	size_t		base = out->len;

	for (size_t i = 0; i < n; i += len)
	{
		int			c = ccc(utf8_next(s + i, &len));

		start[c + 1] += len;
	}
	for (int c = 1; c <= 256; c++)
		start[c] += start[c - 1];
	ALWAYS(start[256] == n);	/* of which each byte is written below */
	buf_reserve(out, n);
	for (size_t i = 0; i < n; i += len)
	{
		int			c = ccc(utf8_next(s + i, &len));

		memcpy(out->data + base + start[c], s + i, len);
		start[c] += len;
	}
	buf_cut(out, base + n);
}

/* Copy s to *out with every long run of marks in canonical order. */
static void
order_runs(const char *s, size_t n, Buf *out)
{
	size_t		i = 0;
	size_t		len;

	while (i < n)
	{
		size_t		j = i;
		size_t		marks = 0;

		while (j < n && ccc(utf8_next(s + j, &len)) > 0)
		{
			j += len;
			marks++;
		}
		if (marks > RUN_LIMIT)
			sort_run(s + i, j - i, out);
		else
			buf_add(out, s + i, j - i);
		i = j;
		if (i < n)
		{
			utf8_next(s + i, &len);
			buf_add(out, s + i, len);
			i += len;
		}
	}
}

/* Normalize one span with utf8proc. */
static bool
normalize_span(const char *s, size_t n, int options, Buf *out, Err *e)
{
	Buf			ordered = {0};
	utf8proc_uint8_t *res = NULL;
	utf8proc_ssize_t len;

	order_runs(s, n, &ordered);
	len = utf8proc_map((const utf8proc_uint8_t *) ordered.data, (utf8proc_ssize_t) ordered.len,
					   &res, UTF8PROC_STABLE | (utf8proc_option_t) options);
	buf_free(&ordered);
	if (len < 0)
		return err_set(e, ERR_NOMEM, "could not normalize text: %s", utf8proc_errmsg(len));
	buf_add(out, res, (size_t) len);
	/* utf8proc allocated it with the C library's malloc */
	mem_free(res);
	return true;
}

/*
 * U+11A7 combines with nothing before it, but utf8proc (at least up to 2.8) takes it for the first final
 * consonant, which follows it, and drops it after a Hangul syllable.
 */
static bool
is_o_yae(const char *s, size_t n)
{
	return n >= 3 && memcmp(s, "\xE1\x86\xA7", 3) == 0;
}

/*
 * Only spans that may change go to utf8proc.  A span begins with the character before the first that
 * isn't its own form (a mark may combine with it) and ends before the next character that certainly
 * combines with nothing before it: ASCII or U+11A7.
 */
bool
uni_normalize(const char *s, size_t n, UniForm form, Buf *out, Err *e)
{
	static const int opts[] = {
		[UNI_NFC] = UTF8PROC_COMPOSE, [UNI_NFD] = UTF8PROC_DECOMPOSE,
		[UNI_NFKC] = UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
		[UNI_NFKD] = UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT
	};
	/* lead bytes below 0xCC encode characters below U+0300: these are their own NFC */
	unsigned char limit = form == UNI_NFC ? 0xCC : 0x80;
	size_t		copied = 0;
	size_t		i = 0;

	while (i < n)
	{
		size_t		start = i;

		if ((unsigned char) s[i] < limit)
		{
			i++;
			continue;
		}
		while (start > copied && ((unsigned char) s[--start] & 0xC0) == 0x80)
			;
		do
			i++;
		while (i < n && (unsigned char) s[i] >= 0x80 && !is_o_yae(s + i, n - i));
		buf_add(out, s + copied, start - copied);
		if (!normalize_span(s + start, i - start, opts[form], out, e))
			return false;
		copied = i;
	}
	buf_add(out, s + copied, n - copied);
	return true;
}
