/*
 * char_class.c
 *	  Expressions over bytes for characters and texts.
 *
 * A set of code points becomes the automaton of its spellings: a number written in digits of some base
 * (six bits for UTF-8, four for \uXXXX), most significant first; digits with the same continuation share
 * it.
 */
#include "grammar/regex/regex_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

#define MAX_CP		0x10FFFF
#define SHARE_DEPTH	400			/* depth of prefixes that texts share; deeper ones aren't shared */

typedef struct CharClassEntry
{
	ReRange    *r;
	size_t		n;
	ReMode		mode;
	ReNode		node;
} CharClassEntry;

struct ReChars
{
	CharClassEntry *made;			/* cache of classes, so that \w is spelled out once */
	size_t		n,
				cap;
	ReNode		ascii[3][128];	/* by mode; RE_NONE = not made yet */
};

ReChars *
re_chars_new(void)
{
	return mem_zalloc(sizeof(ReChars));
}

void
re_chars_free(ReChars *c)
{
	for (size_t i = 0; i < c->n; i++)
		mem_free(c->made[i].r);
	mem_free(c->made);
	mem_free(c);
}

size_t
re_chars_memory(const ReChars *c)
{
	size_t		n = sizeof(ReChars) + c->cap * sizeof(CharClassEntry);

	for (size_t i = 0; i < c->n; i++)
		n += c->made[i].n * sizeof(ReRange);
	return n;
}

/* ---- ranges ---- */

static int
by_lo(const void *a, const void *b)
{
	uint32_t	x = ((const ReRange *) a)->lo;
	uint32_t	y = ((const ReRange *) b)->lo;

	return x < y ? -1 : x > y;
}

size_t
re_ranges_sort(ReRange *r, size_t n)
{
	size_t		m = 0;

	qsort(r, n, sizeof(ReRange), by_lo);
	for (size_t i = 0; i < n; i++)
	{
		if (r[i].lo > r[i].hi)
			continue;
		if (m > 0 && r[i].lo <= r[m - 1].hi + 1)
			r[m - 1].hi = r[i].hi > r[m - 1].hi ? r[i].hi : r[m - 1].hi;
		else
			r[m++] = r[i];
	}
	return m;
}

/* Clip r to lo .. hi, as offsets from lo; return how many ranges are left. */
static size_t
clip(const ReRange *r, size_t n, uint32_t lo, uint32_t hi, ReRange *out)
{
	size_t		m = 0;

	for (size_t i = 0; i < n; i++)
		if (r[i].lo <= hi && r[i].hi >= lo)
			out[m++] = (ReRange) {(r[i].lo > lo ? r[i].lo : lo) - lo, (r[i].hi < hi ? r[i].hi : hi) - lo};
	return m;
}

/* ---- digits ---- */

typedef struct Digits
{
	int			bits;			/* of a digit */
	uint8_t		lead;			/* UTF-8: added to the first digit; hex: 0 */
} Digits;

static void
add_digit(uint32_t set[8], const Digits *d, bool first, uint32_t v)
{
	uint32_t	b;

	if (d->bits == 6)
		b = first ? d->lead | v : 0x80 | v;
	else
		b = v < 10 ? '0' + v : 'a' + v - 10;
	ALWAYS(b < 256);
	set[b / 32] |= 1u << (b % 32);
	if (d->bits == 4 && v >= 10)
	{
		b = 'A' + v - 10;
		set[b / 32] |= 1u << (b % 32);
	}
}

/* All sequences of 1 + more digits after a number's first digit. */
static ReNode
all_digits(Regex *re, const Digits *d, int more)
{
	ReNode		r = RE_EMPTY;
	uint32_t	set[8] = {0};

	for (uint32_t v = 0; v < 1u << d->bits; v++)
		add_digit(set, d, false, v);
	for (; more >= 0; more--)
		r = re_cat(re, re_byte_set(re, set), r);
	return r;
}

/* The numbers of r (sorted) in 1 + more digits. */
static ReNode
digits(Regex *re, const Digits *d, const ReRange *r, size_t n, int more, bool first)
{
	uint32_t	unit = 1u << (d->bits * more);
	ReNode		tail[64];
	uint32_t	top[64];
	ReNode		alt[64];
	size_t		count = 0;
	size_t		n_alt = 0;
	ReRange    *sub = mem_alloc((n + 1) * sizeof(ReRange));

	/* more than 64 digits would be cut off */
	ALWAYS(n > 0 && r[n - 1].hi / unit - r[0].lo / unit < 64);
	for (uint32_t v = r[0].lo / unit; v <= r[n - 1].hi / unit && count < 64; v++)
	{
		size_t		m = clip(r, n, v * unit, v * unit + (unit - 1), sub);

		if (m == 0)
			continue;
		top[count] = v;
		if (more == 0)
			tail[count++] = RE_EMPTY;
		else if (m == 1 && sub[0].lo == 0 && sub[0].hi == unit - 1)
			tail[count++] = all_digits(re, d, more - 1);
		else
			tail[count++] = digits(re, d, sub, m, more - 1, false);
	}
	mem_free(sub);
	for (size_t i = 0; i < count; i++)
	{
		uint32_t	set[8] = {0};

		if (tail[i] == RE_NONE)
			continue;
		for (size_t j = i + 1; j < count; j++)
			if (tail[j] == tail[i])
			{
				add_digit(set, d, first, top[j]);
				tail[j] = RE_NONE;
			}
		add_digit(set, d, first, top[i]);
		alt[n_alt++] = re_cat(re, re_byte_set(re, set), tail[i]);
	}
	return re_or_list(re, alt, n_alt);
}

static ReNode
utf8(Regex *re, const ReRange *r, size_t n)
{
	static const struct
	{
		uint32_t	lo,
					hi;
		uint8_t		lead;
	}			len[4] = {{0, 0x7F, 0}, {0x80, 0x7FF, 0xC0}, {0x800, 0xFFFF, 0xE0}, {0x10000, MAX_CP, 0xF0}};
	ReNode		alt[4];
	ReRange    *sub = mem_alloc((n + 1) * sizeof(ReRange));

	for (int i = 0; i < 4; i++)
	{
		size_t		m = clip(r, n, len[i].lo, len[i].hi, sub);
		Digits		d = {6, len[i].lead};

		/* clip() counts from the lowest */
		for (size_t k = 0; k < m; k++)
			sub[k] = (ReRange) {sub[k].lo + len[i].lo, sub[k].hi + len[i].lo};
		alt[i] = RE_NONE;
		if (m > 0 && i > 0)
			alt[i] = digits(re, &d, sub, m, i, true);
		else if (m > 0)
		{
			uint32_t	set[8] = {0};

			for (size_t k = 0; k < m; k++)
				for (uint32_t b = sub[k].lo; b <= sub[k].hi; b++)
					set[b / 32] |= 1u << (b % 32);
			alt[i] = re_byte_set(re, set);
		}
	}
	mem_free(sub);
	return re_or_list(re, alt, 4);
}

/* \uXXXX without the backslash; r has at most 16 bits */
static ReNode
hex4(Regex *re, const ReRange *r, size_t n)
{
	static const Digits d = {4, 0};

	return re_cat(re, re_bytes(re, "u", 1), digits(re, &d, r, n, 3, true));
}

/*
 * Code points beyond 16 bits as pairs of surrogates; r counts from 0x10000.  High surrogates with the
 * same low ones share them.
 */
static ReNode
surrogates(Regex *re, const ReRange *r, size_t n)
{
	ReRange    *sub = mem_alloc((n + 1) * sizeof(ReRange));
	ReNode	   *low = mem_zalloc(1024 * sizeof(ReNode));
	ReRange    *high = mem_alloc(1024 * sizeof(ReRange));
	ReNode		all = RE_NONE;

	for (uint32_t h = 0; h < 1024; h++)
	{
		size_t		m = clip(r, n, h << 10, (h << 10) + 1023, sub);

		for (size_t i = 0; i < m; i++)
			sub[i] = (ReRange) {sub[i].lo + 0xDC00, sub[i].hi + 0xDC00};
		/* most have the same low surrogates as the one before */
		if (m == 1 && h > 0 && low[h - 1] != RE_NONE && sub[0].lo == 0xDC00 && sub[0].hi == 0xDFFF &&
			clip(r, n, (h - 1) << 10, ((h - 1) << 10) + 1023, high) == 1 && high[0].lo == 0 &&
			high[0].hi == 1023)
			low[h] = low[h - 1];
		else if (m > 0)
			low[h] = hex4(re, sub, m);
	}
	for (uint32_t h = 0; h < 1024; h++)
	{
		ReNode		node = low[h];
		size_t		m = 0;

		if (node == RE_NONE)
			continue;
		for (uint32_t k = h; k < 1024; k++)
			if (low[k] == node)
			{
				high[m++] = (ReRange) {k + 0xD800, k + 0xD800};
				low[k] = RE_NONE;
			}
		m = re_ranges_sort(high, m);
		ASSERT(m > 0);
		all = re_or(re, all, re_cat(re, hex4(re, high, m), re_cat(re, re_bytes(re, "\\", 1), node)));
	}
	mem_free(sub);
	mem_free(low);
	mem_free(high);
	return all;
}

/* Return the ranges of r that need no escape in a JSON string; sub has room for 3 * (n + 3). */
static size_t
plain_ranges(const ReRange *r, size_t n, ReRange *sub)
{
	static const ReRange plain[3] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, MAX_CP}};
	size_t		m = 0;

	for (int i = 0; i < 3; i++)
	{
		size_t		k = clip(r, n, plain[i].lo, plain[i].hi, sub + m);

		for (size_t j = 0; j < k; j++, m++)
			sub[m] = (ReRange) {sub[m].lo + plain[i].lo, sub[m].hi + plain[i].lo};
	}
	return m;
}

/* All spellings of one of these characters in a JSON string. */
static ReNode
json_char(Regex *re, const ReRange *r, size_t n)
{
	static const char shorts[] = "\"\\/\bb\ff\nn\rr\tt";
	ReRange    *sub = mem_alloc((n + 3) * 3 * sizeof(ReRange));
	uint32_t	set[8] = {0};
	size_t		m = plain_ranges(r, n, sub);
	ReNode		raw = m > 0 ? utf8(re, sub, m) : RE_NONE;
	ReNode		escaped;

	/* the escape of each of the first three is the character itself */
	for (int i = 0; i < (int) sizeof(shorts) - 1; i += i < 3 ? 1 : 2)
		if (clip(r, n, (uint8_t) shorts[i], (uint8_t) shorts[i], sub) > 0)
		{
			uint8_t		b = (uint8_t) shorts[i < 3 ? i : i + 1];

			set[b / 32] |= 1u << (b % 32);
		}
	escaped = re_byte_set(re, set);
	if ((m = clip(r, n, 0, 0xFFFF, sub)) > 0)
		escaped = re_or(re, escaped, hex4(re, sub, m));
	if ((m = clip(r, n, 0x10000, MAX_CP, sub)) > 0)
		escaped = re_or(re, escaped, surrogates(re, sub, m));
	mem_free(sub);
	return re_or(re, raw, re_cat(re, re_bytes(re, "\\", 1), escaped));
}

/* The same with one spelling each: an escape only if needed, the short one if there is one. */
static ReNode
usual_char(Regex *re, const ReRange *r, size_t n)
{
	static const char shorts[] = "\"\"\\\\\bb\ff\nn\rr\tt";
	ReRange    *sub = mem_alloc((n + 3) * 3 * sizeof(ReRange));
	size_t		m = plain_ranges(r, n, sub);
	ReNode		all = m > 0 ? utf8(re, sub, m) : RE_NONE;

	for (uint32_t c = 0; c <= '\\'; c++)
	{
		char		escape[8];
		size_t		k = 0;

		if ((c >= ' ' && c != '"' && c != '\\') || clip(r, n, c, c, sub) == 0)
			continue;
		while (k < sizeof(shorts) - 1 && (uint8_t) shorts[k] != c)
			k += 2;
		if (k < sizeof(shorts) - 1)
			snprintf(escape, sizeof(escape), "\\%c", shorts[k + 1]);
		else
			snprintf(escape, sizeof(escape), "\\u%04x", c);
		all = re_or(re, all, re_bytes(re, escape, strlen(escape)));
	}
	mem_free(sub);
	return all;
}

/* ---- characters ---- */

void
re_without_nul(Regex *re)
{
	re->no_nul = true;
}

ReNode
re_class(Regex *re, const ReRange *r, size_t n, ReMode mode)
{
	ReChars    *c = re_chars(re);
	ReRange    *in = mem_alloc((n + 1) * 2 * sizeof(ReRange));
	ReRange    *v = mem_alloc((n + 1) * 2 * sizeof(ReRange));
	size_t		m;
	size_t		k;
	ReNode		node;

	for (size_t i = 0; i < n; i++)
		in[i] = (ReRange) {r[i].lo, r[i].hi < MAX_CP ? r[i].hi : MAX_CP};
	n = re_ranges_sort(in, n);
	/* below and above the surrogates */
	m = clip(in, n, 0, 0xD7FF, v);
	k = clip(in, n, 0xE000, MAX_CP, v + m);
	for (size_t i = m; i < m + k; i++)
		v[i] = (ReRange) {v[i].lo + 0xE000, v[i].hi + 0xE000};
	m += k;
	mem_free(in);
	if (re->no_nul && m > 0 && v[0].lo == 0 && v[0].hi == 0)
		memmove(v, v + 1, --m * sizeof(ReRange));
	else if (re->no_nul && m > 0 && v[0].lo == 0)
		v[0].lo = 1;
	for (size_t i = 0; i < c->n; i++)
		if (c->made[i].mode == mode && c->made[i].n == m && memcmp(c->made[i].r, v, m * sizeof(ReRange)) == 0)
		{
			mem_free(v);
			return c->made[i].node;
		}
	if (m == 0)
		node = RE_NONE;
	else
		node = mode == RE_RAW ? utf8(re, v, m) : mode == RE_JSON ? json_char(re, v, m) : usual_char(re, v, m);
	/* don't cache single characters: they are many and quickly made */
	if (m == 0 || (m == 1 && v[0].lo == v[0].hi) || c->n >= 256)
	{
		mem_free(v);
		return node;
	}
	if (c->n == c->cap)
	{
		c->cap = c->cap > 0 ? c->cap * 2 : 8;
		c->made = mem_realloc(c->made, c->cap * sizeof(CharClassEntry));
	}
	c->made[c->n++] = (CharClassEntry) {v, m, mode, node};
	return node;
}

ReNode
re_any_char(Regex *re, ReMode mode)
{
	static const ReRange all = {0, MAX_CP};

	return re_class(re, &all, 1, mode);
}

ReNode
re_any_text(Regex *re, ReMode mode)
{
	return re_repeat(re, re_any_char(re, mode), 0, RE_INF);
}

static ReNode
one_char(Regex *re, uint32_t cp, ReMode mode)
{
	ReChars    *c = re_chars(re);
	ReRange		r = {cp, cp};

	if (cp >= 128)
		return re_class(re, &r, 1, mode);
	if (c->ascii[mode][cp] == RE_NONE)
		c->ascii[mode][cp] = re_class(re, &r, 1, mode);
	return c->ascii[mode][cp];
}

/* ---- texts ---- */

/* The characters of a text: code points, or bytes in RE_RAW. */
typedef struct Chars
{
	uint32_t   *cp;
	size_t		n;
} Chars;

static Chars
split(const char *s, size_t n, ReMode mode)
{
	Chars		c = {mem_alloc((n + 1) * sizeof(uint32_t)), 0};

	for (size_t i = 0; i < n;)
	{
		uint32_t	b = (uint8_t) s[i++];
		int			more = mode == RE_RAW || b < 0xC0 ? 0 : b < 0xE0 ? 1 : b < 0xF0 ? 2 : 3;

		if (more > 0)
			b &= 0x3Fu >> more;
		for (; more > 0 && i < n; more--)
			b = b << 6 | ((uint8_t) s[i++] & 0x3F);
		c.cp[c.n++] = b;
	}
	return c;
}

static ReNode
unit(Regex *re, uint32_t v, ReMode mode)
{
	uint32_t	set[8] = {0};

	if (v == 0 && re->no_nul)
		return RE_NONE;
	if (mode != RE_RAW)
		return one_char(re, v, mode);
	set[v / 32] |= 1u << (v % 32);
	return re_byte_set(re, set);
}

/* Characters from .. to - 1, then tail. */
static ReNode
before(Regex *re, const Chars *c, size_t from, size_t to, ReNode tail, ReMode mode)
{
	while (to > from)
		tail = re_cat(re, unit(re, c->cp[--to], mode), tail);
	return tail;
}

ReNode
re_bytes(Regex *re, const char *s, size_t n)
{
	ReNode		tail = RE_EMPTY;

	while (n > 0)
		tail = re_cat(re, unit(re, (uint8_t) s[--n], RE_RAW), tail);
	return tail;
}

static int
by_chars(const void *a, const void *b)
{
	const Chars *x = a;
	const Chars *y = b;

	for (size_t i = 0; i < x->n && i < y->n; i++)
		if (x->cp[i] != y->cp[i])
			return x->cp[i] < y->cp[i] ? -1 : 1;
	return x->n < y->n ? -1 : x->n > y->n;
}

/* The texts c[0..n), sorted, which are equal before `from`. */
static ReNode
texts(Regex *re, const Chars *c, size_t n, size_t from, ReMode mode, int depth)
{
	size_t		same = from;
	ReNode	   *alt = mem_alloc(n * sizeof(ReNode));
	size_t		n_alt = 0;
	ReNode		r;

	ASSERT(n > 0 && from <= c[0].n && from <= c[n - 1].n);
	while (same < c[0].n && same < c[n - 1].n && c[0].cp[same] == c[n - 1].cp[same])
		same++;
	for (size_t i = 0; i < n;)
	{
		size_t		j = i + 1;

		if (n == 1 || depth > SHARE_DEPTH)
			alt[n_alt++] = before(re, &c[i], same, c[i].n, RE_EMPTY, mode);
		else if (c[i].n == same)
			alt[n_alt++] = RE_EMPTY;
		else
		{
			while (j < n && c[j].cp[same] == c[i].cp[same])
				j++;
			alt[n_alt++] = texts(re, c + i, j - i, same, mode, depth + 1);
		}
		i = j;
	}
	r = before(re, &c[0], from, same, re_or_list(re, alt, n_alt), mode);
	mem_free(alt);
	return r;
}

ReNode
re_texts(Regex *re, const char *const *s, const size_t *len, size_t n, ReMode mode)
{
	Chars	   *c = mem_alloc((n + 1) * sizeof(Chars));
	ReNode		r;

	for (size_t i = 0; i < n; i++)
		c[i] = split(s[i], len[i], mode);
	qsort(c, n, sizeof(Chars), by_chars);
	r = n > 0 ? texts(re, c, n, 0, mode, 0) : RE_NONE;
	for (size_t i = 0; i < n; i++)
		mem_free(c[i].cp);
	mem_free(c);
	return r;
}
