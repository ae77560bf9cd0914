/*
 * pretokenizer.c
 *	  Pre-tokenizers: cut text into the words that are encoded separately.
 *
 * There is one function for each regex.  The regexes were written for backtracking engines; the
 * functions below compute the same match in one pass:
 *
 *	 \s+(?!\S)	takes a run of white space but its last character, unless the
 *				text ends there.  The last one then belongs to the next word
 *				(" ?\p{L}+"), or is a word of its own.
 *	 \s*[\r\n]+	takes a run of white space up to and with its last line end.
 *	 (?i:'s)	also matches U+017F, whose simple case folding is "s".
 *
 * A matcher reads at most the run it matches plus one character, except for runs of white space, of
 * which it may give back a tail; so splitting is linear.  Tested by
 * tests/unit/tokenizer/test_tokenizer.c against Hugging Face's tokenizers.
 */
#include "tokenizer/pretok/pretokenizer.h"

#include <string.h>

#include "base/assert.h"
#include "text/unicode.h"
#include "text/utf8.h"

#define LN		(UNI_L | UNI_N)

/* ---------- parts of the matchers ---------- */

/* Return the end of the run of characters that have one of the classes. */
static const char *
run_of(const char *s, const char *end, unsigned classes)
{
	size_t		len;

	while (s < end && (uni_class(utf8_next(s, &len)) & classes) != 0)
		s += len;
	return s;
}

/* Return the end of the run of characters that have none of the classes. */
static const char *
run_not(const char *s, const char *end, unsigned classes)
{
	size_t		len;

	while (s < end && (uni_class(utf8_next(s, &len)) & classes) == 0)
		s += len;
	return s;
}

/* Return the classes of the character at s; 0 at the end. */
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

/* the same, ignoring case */
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
 *	contraction | [^\r\n\p{L}\p{N}]?LETTERS+ | \p{N}{1,digits}
 *	|  ?[^\s\p{N}LETTERS]+[\r\n]* | white space as above
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

/*
 * X?U*W+ or X?U+W*, where X is none of \r \n L N, U is a letter that isn't lower case or a mark, W one
 * that isn't upper case or a mark.  Both runs may include letters without case; U* gives back what W+
 * needs.
 */
static const char *
cased_word(const char *p, const char *end, bool lower_needed)
{
	const char *stop = p;
	const char *last = NULL;	/* end of the last character of U that is also in W */
	size_t		len;
	unsigned	c;

	for (; stop < end; stop += len)
	{
		c = uni_class(utf8_next(stop, &len));
		if ((c & (UNI_L | UNI_M)) == 0 || (c & UNI_LL) != 0)
			break;
		if ((c & UNI_LU) == 0)
			last = stop + len;
	}
	if (!lower_needed && stop == p)
		return NULL;
	if (lower_needed && (class_at(stop, end) & UNI_LL) == 0)
		return last;
	while (stop < end)
	{
		c = uni_class(utf8_next(stop, &len));
		if ((c & (UNI_L | UNI_M)) == 0 || (c & UNI_LU) != 0)
			break;
		stop += len;
	}
	return stop;
}

/* The words of o200k and Tekken: both forms above, each with and without X. */
static size_t
cased_words(const char *s, const char *end)
{
	size_t		len;
	bool		x = *s != '\r' && *s != '\n' && (uni_class(utf8_next(s, &len)) & LN) == 0;

	for (int form = 0; form < 2; form++)
	{
		const char *stop = x ? cased_word(s + len, end, form == 0) : NULL;

		if (stop == NULL)
			stop = cased_word(s, end, form == 0);
		if (stop != NULL)
			return (size_t) (stop - s);
	}
	return 0;
}

/* \p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n/]* | white space */
static size_t
other_words(const char *s, const char *end, int digits)
{
	const char *p = s;

	for (int i = 0; i < digits && (class_at(p, end) & UNI_N) != 0; i++)
		p += utf8_len((unsigned char) *p);
	if (p > s)
		return (size_t) (p - s);
	if (*s == ' ')
		p = s + 1;
	if (p < end && (class_at(p, end) & (UNI_SPACE | LN)) == 0)
	{
		p = run_not(p, end, UNI_SPACE | LN);
		while (p < end && (*p == '\r' || *p == '\n' || *p == '/'))
			p++;
		return (size_t) (p - s);
	}
	return space_or_lines(s, end);
}

static size_t
split_tekken(const char *s, const char *end)
{
	size_t		len = cased_words(s, end);

	return len > 0 ? len : other_words(s, end, 1);
}

static size_t
split_o200k(const char *s, const char *end)
{
	size_t		len = cased_words(s, end);

	if (len > 0)
		return len + (s + len < end ? contraction_nocase(s + len, end) : 0);
	return other_words(s, end, 3);
}

/* 's|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+ */
static size_t
split_clip(const char *s, const char *end)
{
	size_t		len = contraction(s, end);
	unsigned	c;

	if (len > 0)
		return len;
	c = uni_class(utf8_next(s, &len));
	if (c & UNI_L)
		return (size_t) (run_of(s, end, UNI_L) - s);
	if (c & UNI_N)
		return len;
	return (size_t) (run_not(s, end, UNI_SPACE | LN) - s);
}

static size_t
split_spaces(const char *s, const char *end)
{
	return (size_t) (run_of(s, end, UNI_SPACE) - s);
}

/* two or more blanks */
static size_t
split_blanks(const char *s, const char *end)
{
	const char *p = s;

	while (p < end && *p == ' ')
		p++;
	return p - s >= 2 ? (size_t) (p - s) : 0;
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

static size_t
split_number(const char *s, const char *end)
{
	return (class_at(s, end) & UNI_N) != 0 ? utf8_len((unsigned char) *s) : 0;
}

size_t
split_digit(const char *s, const char *end)
{
	size_t		len;

	(void) end;
	return uni_hf_number(utf8_next(s, &len)) ? len : 0;
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
	size_t		len;

	(void) end;
	return uni_hf_punct(utf8_next(s, &len)) ? len : 0;
}

size_t
split_space(const char *s, const char *end)
{
	size_t		len;

	(void) end;
	return (uni_class(utf8_next(s, &len)) & UNI_SPACE) != 0 ? len : 0;
}

size_t
split_word(const char *s, const char *end)
{
	return (size_t) (run_of(s, end, UNI_WORD) - s);
}

/* A run of one script; characters of any script belong to the run before them. */
size_t
split_script(const char *s, const char *end)
{
	size_t		len;
	unsigned	script = uni_hf_script(utf8_next(s, &len));
	const char *p = s + len;

	if (script == 0)
		return 0;
	for (; p < end; p += len)
	{
		unsigned	next = uni_hf_script(utf8_next(p, &len));

		if (next != 0 && next != script)
			break;
	}
	return (size_t) (p - s);
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
split_by_regex(const char *regex)
{
	static const struct
	{
		SplitMatch	match;
		const char *regex;
	}			row[] = {
#define SPLIT_REGEX(match, regex) {match, regex},
#include "tokenizer/pretok/pretokenizers.def"
#undef SPLIT_REGEX
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
		if (strcmp(row[i].regex, regex) == 0)
			return row[i].match;
	return NULL;
}

const SplitGguf *
split_by_gguf(const char *name)
{
	static const SplitGguf row[] = {
#define SPLIT_GGUF(pre, flags, ...) {.name = pre, .regex = {__VA_ARGS__}, \
		.ignore_merges = (flags) & 1, .add_bos = (flags) & 2, .add_sep = (flags) & 4, .spm = (flags) & 8},
#include "tokenizer/pretok/pretokenizers.def"
#undef SPLIT_GGUF
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
		if (strcmp(row[i].name, name) == 0)
			return &row[i];
	return NULL;
}

/* ---------- applying a step ---------- */

void
split_begin(SplitIter *it, const SplitStep *st, RxWork *rx, const char *s, size_t n, Err *e)
{
	*it = (SplitIter) {.st = st, .rx = rx, .s = s, .n = n, .e = e};
	if (st->rx != NULL)
		rx_begin(st->rx, rx, s, n);
}

/* Find the next match at or after it->pos; return false if there is none. */
static bool
find_match(SplitIter *it, size_t *start, size_t *end)
{
	const SplitStep *st = it->st;
	const char *stop = it->s + it->n;
	const char *p = it->s + it->pos;
	size_t		len;

	if (st->rx != NULL)
	{
		RxResult	res = rx_next(st->rx, it->rx, start, end, it->e);

		it->failed = res == RX_ERROR;
		return res == RX_MATCH;
	}
	if (st->match == NULL)
	{
		p = memmem(p, (size_t) (stop - p), st->lit, st->lit_len);
		if (p == NULL)
			return false;
		*start = (size_t) (p - it->s);
		*end = *start + st->lit_len;
		return true;
	}
	for (; p < stop; p += utf8_len((unsigned char) *p))
		if ((len = st->match(p, stop)) > 0)
		{
			*start = (size_t) (p - it->s);
			*end = *start + len;
			return true;
		}
	return false;
}

/* Make the next one or two segments: the text before a match, and the match. */
static void
fill(SplitIter *it)
{
	bool		invert = it->st->invert;
	size_t		start;
	size_t		end;

	ASSERT(it->n_next == 0);	/* there is room for two */
	if (it->ended)
		return;
	if (!find_match(it, &start, &end))
	{
		it->ended = true;
		start = end = it->n;
	}
	ASSERT(it->pos <= start && start <= end && end <= it->n);
	if (start > it->pos)
		it->next[it->n_next++] = (SplitSeg) {it->pos, start, invert};
	if (!it->ended)
		it->next[it->n_next++] = (SplitSeg) {start, end, !invert};
	it->pos = end;
}

static bool
peek(SplitIter *it, SplitSeg *seg)
{
	if (it->n_next == 0)
		fill(it);
	*seg = it->next[0];
	return it->n_next > 0 && !it->failed;
}

static void
take(SplitIter *it)
{
	it->next[0] = it->next[1];
	it->n_next--;
}

bool
split_next(SplitIter *it, size_t *start, size_t *len)
{
	SplitBehavior b = it->st->behavior;
	SplitSeg	a;
	SplitSeg	next;

	while (peek(it, &a))
	{
		take(it);
		if (b == SPLIT_CONTIGUOUS)
			for (; peek(it, &next) && next.match == a.match; take(it))
				a.end = next.end;
		else if ((b == SPLIT_WITH_PREVIOUS && !a.match) || (b == SPLIT_WITH_NEXT && a.match))
		{
			if (peek(it, &next) && next.match != a.match)
			{
				a.end = next.end;
				take(it);
			}
		}
		if (it->failed)
			return false;
		if (a.end == a.start || (b == SPLIT_REMOVED && a.match))
			continue;
		*start = a.start;
		*len = a.end - a.start;
		return true;
	}
	return false;
}
