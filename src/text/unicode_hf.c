/*
 * unicode_hf.c
 *	  Character properties as in Hugging Face's normalizers and pre-tokenizers.
 *
 * Beside its regex engine that library has three more sources of character data, older and newer ones.
 * unicode_hf.h lists where they differ from our tables: ranges in which a property is the opposite of
 * that in unicode_tables.h.
 *
 * Tested by tests/unit/text/test_unicode.c: every code point.
 */
#include "text/unicode.h"
#include "text/unicode_hf.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static bool
in_ranges(const uint32_t (*r)[2], size_t n, uint32_t cp)
{
	size_t		lo = 0;

	while (lo < n)
	{
		size_t		mid = lo + (n - lo) / 2;

		if (cp < r[mid][0])
			n = mid;
		else if (cp > r[mid][1])
			lo = mid + 1;
		else
			return true;
	}
	return false;
}

bool
uni_hf_punct(uint32_t cp)
{
	if (cp < 0x80)
		return (cp >= 0x21 && cp <= 0x2F) || (cp >= 0x3A && cp <= 0x40) || (cp >= 0x5B && cp <= 0x60) ||
			(cp >= 0x7B && cp <= 0x7E);
	return ((uni_class(cp) & UNI_P) != 0) != in_ranges(hf_punct, COUNT(hf_punct), cp);
}

bool
uni_hf_number(uint32_t cp)
{
	if (cp < 0x80)
		return cp >= '0' && cp <= '9';
	return ((uni_class(cp) & UNI_N) != 0) != in_ranges(hf_number, COUNT(hf_number), cp);
}

bool
uni_hf_mark(uint32_t cp)
{
	return cp >= 0x300 && ((uni_class(cp) & UNI_M) != 0) != in_ranges(hf_mark, COUNT(hf_mark), cp);
}

bool
uni_hf_nonspacing(uint32_t cp)
{
	const char *c = uni_category(cp);

	return cp >= 0x300 && (c[0] == 'M' && c[1] == 'n') != in_ranges(hf_mn, COUNT(hf_mn), cp);
}

bool
uni_hf_other(uint32_t cp)
{
	const char *c = uni_category(cp);

	return (c[0] == 'C' && (c[1] == 'c' || c[1] == 'f' || c[1] == 'o')) !=
		in_ranges(hf_other, COUNT(hf_other), cp);
}

unsigned
uni_hf_script(uint32_t cp)
{
	size_t		lo = 0;
	size_t		hi = COUNT(hf_script);

	while (lo < hi)
	{
		size_t		mid = lo + (hi - lo) / 2;

		if (cp < hf_script[mid][0])
			hi = mid;
		else if (cp > hf_script[mid][1])
			lo = mid + 1;
		else
			return hf_script[mid][2];
	}
	return 0;
}

uint32_t
uni_lower(uint32_t cp)
{
	size_t		lo = 0;
	size_t		hi = COUNT(hf_lower);

	if (cp < 0x80)
		return cp >= 'A' && cp <= 'Z' ? cp + 32 : cp;
	while (lo < hi)
	{
		size_t		mid = lo + (hi - lo) / 2;
		const int32_t *r = hf_lower[mid];

		if ((int32_t) cp < r[0])
			hi = mid;
		else if ((int32_t) cp > r[1])
			lo = mid + 1;
		else
			return ((int32_t) cp - r[0]) % r[2] == 0 ? cp + (uint32_t) r[3] : cp;
	}
	return cp;
}
