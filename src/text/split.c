/*
 * split.c
 *	  Pre-tokenizers: cutting text into the words that are encoded on their own.
 *
 * One function a regex.  The regexes were written for backtracking engines; the
 * functions below compute the same match in one pass:
 *
 *	 \s+(?!\S)	takes a run of white space but its last character, unless the
 *				text ends there.  The last one then belongs to the next word
 *				(" ?\p{L}+"), or is a word of its own.
 *	 \s*[\r\n]+	takes a run of white space up to and with its last line end.
 *	 (?i:'s)	also matches U+017F, whose simple case folding is "s".
 *
 * A matcher reads at most the run it matches plus one character, but for runs
 * of white space, of which it may give back a tail; so splitting is linear.
 * Tested by tests/unit/test_tokenizer.c against Hugging Face's tokenizers.
 */
#include "text/split.h"

#include <string.h>

#include "text/unicode.h"
#include "text/utf8.h"

#define LN		(UNI_L | UNI_N)

/* ---------- pieces that the matchers are made of ---------- */

/* End of the run of characters that have one of the classes. */
static const char *
run_of(const char *s, const char *end, unsigned classes)
{
	size_t		len;

	while (s < end && (uni_class(utf8_next(s, &len)) & classes) != 0)
		s += len;
	return s;
}

/* End of the run of characters that have none of the classes. */
static const char *
run_not(const char *s, const char *end, unsigned classes)
{
	size_t		len;

	while (s < end && (uni_class(utf8_next(s, &len)) & classes) == 0)
		s += len;
	return s;
}

/* The classes of the character at s; 0 at the end. */
static unsigned
class_at(const char *s, const char *end)
{
	size_t		len;

	return s < end ? uni_class(utf8_next(s, &len)) : 0;
}

/* '(?:[sdmt]|ll|ve|re) */
static size_t
contraction(const char *s, const char *end)
{
	size_t		n = (size_t) (end - s);

	if (n < 2 || s[0] != '\'')
		return 0;
	if (s[1] == 's' || s[1] == 't' || s[1] == 'm' || s[1] == 'd')
		return 2;
	if (n >= 3 && ((s[2] == 'e' && (s[1] == 'r' || s[1] == 'v')) || (s[1] == 'l' && s[2] == 'l')))
		return 3;
	return 0;
}

/* the same, whatever the case */
static size_t
contraction_nocase(const char *s, const char *end)
{
	size_t		n = (size_t) (end - s);
	char		low[3] = {0};

	if (n < 2 || s[0] != '\'')
		return 0;
	if (n >= 3 && s[1] == '\xC5' && s[2] == '\xBF')
		return 3;				/* U+017F */
	for (size_t i = 0; i < 3 && i < n; i++)
		low[i] = (char) (s[i] >= 'A' && s[i] <= 'Z' ? s[i] + 32 : s[i]);
	return contraction(low, low + (n < 3 ? n : 3));
}

/* \s+(?!\S)|\s+ on a run [s, stop) of white space */
static size_t
space_run(const char *s, const char *stop, const char *end)
{
	const char *last = stop;

	if (stop == end)
		return (size_t) (stop - s);
	do
		last--;
	while (((unsigned char) *last & 0xC0) == 0x80);
	return (size_t) ((last > s ? last : stop) - s);
}

/* \s*[\r\n]+|\s+(?!\S)|\s+ at white space */
static size_t
space_or_lines(const char *s, const char *end)
{
	const char *stop = run_of(s, end, UNI_SPACE);

	for (const char *p = stop; p > s; p--)
		if (p[-1] == '\n' || p[-1] == '\r')
			return (size_t) (p - s);
	return space_run(s, stop, end);
}

/*
 * The common part of the regexes since GPT-4:
 * contraction | [^\r\n\p{L}\p{N}]?LETTERS+ | \p{N}{1,digits}
 * |  ?[^\s\p{N}LETTERS]+[\r\n]* | white space as above
 */
static size_t
modern(const char *s, const char *end, unsigned letters, int digits)
{
	const char *p = s;
	size_t		len = contraction_nocase(s, end);
	unsigned	c;

	if (len > 0)
		return len;
	c = uni_class(utf8_next(s, &len));
	if (c & letters)
		return (size_t) (run_of(s, end, letters) - s);
	if (c & UNI_N)
	{
		for (int i = 0; i < digits && (class_at(p, end) & UNI_N) != 0; i++)
			p += utf8_len((unsigned char) *p);
		return (size_t) (p - s);
	}
	if (*s != '\r' && *s != '\n' && (class_at(s + len, end) & letters) != 0)
		return (size_t) (run_of(s + len, end, letters) - s);
	if (*s == ' ')
		p = s + 1;
	if (p < end && (class_at(p, end) & (UNI_SPACE | UNI_N | letters)) == 0)
	{
		p = run_not(p, end, UNI_SPACE | UNI_N | letters);
		while (p < end && (*p == '\r' || *p == '\n'))
			p++;
		return (size_t) (p - s);
	}
	return space_or_lines(s, end);
}

/* \s?CLASS+ */
static size_t
spaced_run(const char *s, const char *end, unsigned classes)
{
	size_t		len;
	unsigned	c = uni_class(utf8_next(s, &len));

	if ((c & UNI_SPACE) != 0 && (class_at(s + len, end) & classes) != 0)
		return (size_t) (run_of(s + len, end, classes) - s);
	return (size_t) (run_of(s, end, classes) - s);
}

/* a run of \p{P} or of the ASCII characters in `extra` */
static size_t
punct_run(const char *s, const char *end, const char *extra)
{
	const char *p = s;

	while (p < end && ((class_at(p, end) & UNI_P) != 0 || (*p > 0 && strchr(extra, *p) != NULL)))
		p += utf8_len((unsigned char) *p);
	return (size_t) (p - s);
}

/* ---------- the matchers ---------- */

size_t
split_gpt2(const char *s, const char *end)
{
	const char *p = s;
	size_t		len = contraction(s, end);
	unsigned	c;

	if (len > 0)
		return len;
	if (*s == ' ' && s + 1 < end)
		p++;
	c = class_at(p, end);
	if (c & UNI_L)
		return (size_t) (run_of(p, end, UNI_L) - s);
	if (c & UNI_N)
		return (size_t) (run_of(p, end, UNI_N) - s);
	if ((c & UNI_SPACE) == 0)
		return (size_t) (run_not(p, end, UNI_SPACE | LN) - s);
	return space_run(s, run_of(p, end, UNI_SPACE), end);
}

static size_t
split_llama3(const char *s, const char *end)
{
	return modern(s, end, UNI_L, 3);
}

static size_t
split_qwen2(const char *s, const char *end)
{
	return modern(s, end, UNI_L, 1);
}

static size_t
split_qwen35(const char *s, const char *end)
{
	return modern(s, end, UNI_L | UNI_M, 1);
}

static size_t
split_newline(const char *s, const char *end)
{
	(void) end;
	return *s == '\r' || *s == '\n';
}

static size_t
split_letters(const char *s, const char *end)
{
	return spaced_run(s, end, UNI_L);
}

static size_t
split_puncts(const char *s, const char *end)
{
	return spaced_run(s, end, UNI_P);
}

/* [一-龥ࠀ-一가-퟿]+ */
static size_t
split_cjk(const char *s, const char *end)
{
	const char *p = s;
	size_t		len;

	while (p < end)
	{
		uint32_t	cp = utf8_next(p, &len);

		if (!(cp >= 0x800 && cp <= 0x9FA5) && !(cp >= 0xAC00 && cp <= 0xD7FF))
			break;
		p += len;
	}
	return (size_t) (p - s);
}

size_t
split_number(const char *s, const char *end)
{
	return (class_at(s, end) & UNI_N) != 0 ? utf8_len((unsigned char) *s) : 0;
}

static size_t
split_numbers(const char *s, const char *end)
{
	return (size_t) (run_of(s, end, UNI_N) - s);
}

static size_t
split_number3(const char *s, const char *end)
{
	const char *p = s;

	for (int i = 0; i < 3 && (class_at(p, end) & UNI_N) != 0; i++)
		p += utf8_len((unsigned char) *p);
	return (size_t) (p - s);
}

static size_t
split_digit3(const char *s, const char *end)
{
	if (end - s < 3)
		return 0;
	for (int i = 0; i < 3; i++)
		if (s[i] < '0' || s[i] > '9')
			return 0;
	return 3;
}

size_t
split_punct(const char *s, const char *end)
{
	if ((class_at(s, end) & UNI_P) != 0)
		return utf8_len((unsigned char) *s);
	return *s > 0 && strchr("$+<=>^`|~", *s) != NULL;
}

static size_t
split_falcon_punct(const char *s, const char *end)
{
	return punct_run(s, end, "$+<=>^~|`");
}

static size_t
split_default_punct(const char *s, const char *end)
{
	return punct_run(s, end, "$+<=>^~|");
}

/* ---------- lookup ---------- */

SplitMatch
split_by_regex(const char *regex, bool *total)
{
	static const struct
	{
		SplitMatch	match;
		bool		total;
		const char *regex;
	}			row[] = {
#define SPLIT_REGEX(match, total, regex) {match, total, regex},
#include "text/splits.def"
#undef SPLIT_REGEX
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
		if (strcmp(row[i].regex, regex) == 0)
		{
			*total = row[i].total;
			return row[i].match;
		}
	return NULL;
}

const SplitGguf *
split_by_gguf(const char *name)
{
	static const SplitGguf row[] = {
#define SPLIT_GGUF(name, ignore_merges, add_bos, ...) {name, {__VA_ARGS__}, ignore_merges, add_bos},
#include "text/splits.def"
#undef SPLIT_GGUF
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
		if (strcmp(row[i].name, name) == 0)
			return &row[i];
	return NULL;
}

/* ---------- applying a step ---------- */

static size_t
match_at(const SplitStep *st, const char *s, const char *end)
{
	if (s >= end)
		return 0;
	if (st->match != NULL)
		return st->match(s, end);
	if ((size_t) (end - s) >= st->lit_len && memcmp(s, st->lit, st->lit_len) == 0)
		return st->lit_len;
	return 0;
}

/* Position of the next match at or after p, end if none; *len = its length. */
static const char *
find_match(const SplitStep *st, const char *p, const char *end, size_t *len)
{
	for (*len = 0; p < end; p += utf8_len((unsigned char) *p))
		if ((*len = match_at(st, p, end)) > 0)
			break;
	return p;
}

bool
split_next(const SplitStep *st, const char *s, size_t n, size_t *pos, size_t *start, size_t *len)
{
	const char *end = s + n;
	const char *p = s + *pos;
	const char *m;
	size_t		mlen;
	size_t		more;

	m = find_match(st, p, end, &mlen);
	if (st->behavior == SPLIT_REMOVED)
		while (m == p && m < end)
		{
			p = m + mlen;
			m = find_match(st, p, end, &mlen);
		}
	if (p == end)
		return false;
	*start = (size_t) (p - s);
	if (m > p)					/* text before a match, or the rest */
	{
		if (st->behavior == SPLIT_WITH_PREVIOUS)
			m += mlen;
		*len = (size_t) (m - p);
	}
	else
	{
		*len = mlen;
		if (st->behavior == SPLIT_CONTIGUOUS)
			while ((more = match_at(st, p + *len, end)) > 0)
				*len += more;
		else if (st->behavior == SPLIT_WITH_NEXT && match_at(st, p + mlen, end) == 0)
			*len = (size_t) (find_match(st, p + mlen, end, &mlen) - p);
	}
	*pos = *start + *len;
	return true;
}
