/*
 * regex_parse.c
 *	  Parse patterns to expressions.
 *
 * ^ and $ depend on the position in the text, which an expression can't express.  So a part of a pattern
 * consists of four expressions: what it matches anywhere, what it matches if it begins at the text's
 * beginning, if it ends at the text's end, and if both.  In a b, if b is at the beginning of the text a
 * must match the empty text; the same holds at the end.  Finally the pattern's four expressions are
 * combined with the text: "anywhere" has any text on both sides.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "grammar/regex/regex_internal.h"
#include "grammar/regex/char_set.h"

#define MAX_GROUPS	200			/* nesting */
#define MAX_COUNT	1000000		/* of a quantifier */

typedef struct RegexParsePart
{
	ReNode		at[2][2];		/* [at the beginning][at the end] */
} RegexParsePart;

typedef struct Parts
{
	RegexParsePart *v;
	size_t		n,
				cap;
} Parts;

typedef struct RegexParsePattern
{
	Regex	   *re;
	const char *s;
	size_t		n;
	size_t		i;
	ReSyntax	syntax;
	int			depth;
	Err		   *e;
} RegexParsePattern;

static bool alternatives(RegexParsePattern *p, RegexParsePart *out);

static bool bad(RegexParsePattern *p, ErrClass cls, const char *fmt,
				...) __attribute__((format(printf, 3, 4)));

static bool
bad(RegexParsePattern *p, ErrClass cls, const char *fmt,...)
{
	char		what[200];
	va_list		args;

	va_start(args, fmt);
	vsnprintf(what, sizeof(what), fmt, args);
	va_end(args);
	err_set(p->e, cls, "%s regular expression: %s", cls == ERR_INVALID ? "invalid" : "unsupported", what);
	return err_detail(p->e, "At byte %zu of the pattern \"%.*s\".", p->i, (int) (p->n < 300 ? p->n : 300),
					  p->s);
}

static bool
unsupported(RegexParsePattern *p, const char *what)
{
	return bad(p, ERR_UNSUPPORTED, "%s", what);
}

static bool
more(const RegexParsePattern *p)
{
	return p->i < p->n;
}

static bool
looking_at(const RegexParsePattern *p, const char *s)
{
	size_t		n = strlen(s);

	return p->n - p->i >= n && memcmp(p->s + p->i, s, n) == 0;
}

static bool
accept(RegexParsePattern *p, const char *s)
{
	if (!looking_at(p, s))
		return false;
	p->i += strlen(s);
	return true;
}

/* Return the next character.  Must not be called at the end. */
static uint32_t
next_char(RegexParsePattern *p)
{
	uint32_t	c = (uint8_t) p->s[p->i++];
	int			len = c < 0xC0 ? 0 : c < 0xE0 ? 1 : c < 0xF0 ? 2 : 3;

	ALWAYS(p->i <= p->n);
	if (len > 0)
		c &= 0x3Fu >> len;
	for (; len > 0 && p->i < p->n; len--)
		c = c << 6 | ((uint8_t) p->s[p->i++] & 0x3F);
	return c;
}

/* ---- parts ---- */

static RegexParsePart
plain(ReNode node)
{
	return (RegexParsePart) {{{node, RE_NONE}, {RE_NONE, RE_NONE}}};
}

static ReNode
only_empty(const Regex *re, ReNode a)
{
	return re_nullable(re, a) ? RE_EMPTY : RE_NONE;
}

static RegexParsePart
part_cat(Regex *re, const RegexParsePart *a, const RegexParsePart *b)
{
	RegexParsePart r = plain(RE_NONE);

	for (int i = 0; i < 16; i++)
	{
		int			ab = i & 1,
					ae = i >> 1 & 1,
					bb = i >> 2 & 1,
					be = i >> 3 & 1;
		ReNode		x = a->at[ab][ae];
		ReNode		y = b->at[bb][be];
		ReNode	   *to = &r.at[ab | bb][ae | be];

		if (x == RE_NONE || y == RE_NONE)
			continue;
		*to = re_or(re, *to, re_cat(re, bb ? only_empty(re, x) : x, ae ? only_empty(re, y) : y));
	}
	return r;
}

static RegexParsePart
part_or(Regex *re, const Parts *v)
{
	RegexParsePart r;
	ReNode	   *alt = mem_alloc((v->n + 1) * sizeof(ReNode));

	for (int b = 0; b < 2; b++)
		for (int e = 0; e < 2; e++)
		{
			for (size_t i = 0; i < v->n; i++)
				alt[i] = v->v[i].at[b][e];
			r.at[b][e] = re_or_list(re, alt, v->n);
		}
	mem_free(alt);
	return r;
}

/* Repeat x min .. max times less `taken`; without a lower bound if the other rounds may match
 * nothing. */
static ReNode
other_rounds(Regex *re, ReNode x, uint32_t min, uint32_t max, uint32_t taken, bool any)
{
	ASSERT(max == RE_INF || max >= taken);
	return re_repeat(re, x, any || min < taken ? 0 : min - taken, max == RE_INF ? RE_INF : max - taken);
}

/*
 * Anchored rounds can only be the first and the last: what comes before the first or after the last
 * matches nothing.  So an anchored round that may match the empty text there can be repeated any number
 * of times.
 */
static RegexParsePart
part_repeat(Regex *re, const RegexParsePart *a, uint32_t min, uint32_t max)
{
	ReNode		x = a->at[0][0];
	bool		begins = re_nullable(re, a->at[1][0]);
	bool		ends = re_nullable(re, a->at[0][1]);
	RegexParsePart r = plain(re_repeat(re, x, min, max));

	if (max == 0)
		return plain(RE_EMPTY);
	if (a->at[1][0] == RE_NONE && a->at[0][1] == RE_NONE && a->at[1][1] == RE_NONE)
		return r;
	r.at[1][0] = re_cat(re, a->at[1][0], other_rounds(re, x, min, max, 1, begins));
	r.at[0][1] = re_cat(re, other_rounds(re, x, min, max, 1, ends), a->at[0][1]);
	/* all in one round, or from the first to the last */
	r.at[1][1] = min <= 1 || begins || ends || re_nullable(re, x) ? a->at[1][1] : only_empty(re, a->at[1][1]);
	if (max > 1)
		r.at[1][1] = re_or(re, r.at[1][1], re_cat(re, a->at[1][0],
												  re_cat(re, other_rounds(re, x, min, max, 2, begins || ends),
														 a->at[0][1])));
	return r;
}

/* ---- characters ---- */

/* Read hex digits, at most max; return false if there are none. */
static bool
hex(RegexParsePattern *p, int max, uint32_t *v)
{
	int			n = 0;

	for (*v = 0; n < max && more(p); n++, p->i++)
	{
		char		c = p->s[p->i];

		if (c >= '0' && c <= '9')
			*v = *v << 4 | (uint32_t) (c - '0');
		else if ((c | 32) >= 'a' && (c | 32) <= 'f')
			*v = *v << 4 | (uint32_t) ((c | 32) - 'a' + 10);
		else
			break;
	}
	return n > 0;
}

/* Read the rest of \x, \u, \U: digits or digits in braces. */
static bool
hex_escape(RegexParsePattern *p, int digits, uint32_t *v)
{
	size_t		at = p->i;
	uint32_t	low;

	if (accept(p, "{"))
	{
		if (!hex(p, 8, v) || !accept(p, "}") || *v > 0x10FFFF)
			return bad(p, ERR_INVALID, "malformed escape");
		return true;
	}
	if (!hex(p, digits, v) || p->i - at != (size_t) digits)
		return bad(p, ERR_INVALID, "malformed escape");
	at = p->i;
	if (digits == 4 && *v >= 0xD800 && *v < 0xDC00 && accept(p, "\\u") && hex(p, 4, &low) && low >= 0xDC00 &&
		low < 0xE000)
		*v = 0x10000 + ((*v - 0xD800) << 10) + (low - 0xDC00);
	else
		p->i = at;
	return true;
}

/* Read \p{...}, \pL, after the p. */
static bool
property(RegexParsePattern *p, ReRanges *v, bool negate)
{
	size_t		at = p->i;
	size_t		end = at + 1;
	ReRanges	one = {0};

	if (accept(p, "{"))
	{
		const char *close = memchr(p->s + p->i, '}', p->n - p->i);

		if (close == NULL)
			return bad(p, ERR_INVALID, "\\p without }");
		at++;
		end = (size_t) (close - p->s);
		p->i = end + 1;
		if (at < end && p->s[at] == '^')
		{
			negate = !negate;
			at++;
		}
	}
	else if (!more(p))
		return bad(p, ERR_INVALID, "\\p without a name");
	else
		p->i++;
	if (!re_ranges_property(&one, p->s + at, end - at))
		return bad(p, ERR_UNSUPPORTED, "Unicode property %.*s", (int) (end - at < 60 ? end - at : 60),
				   p->s + at);
	if (negate)
		re_ranges_negate(&one);
	for (size_t i = 0; i < one.n; i++)
		re_ranges_add(v, one.r[i].lo, one.r[i].hi);
	re_ranges_free(&one);
	return true;
}

/* Add \d, \W ...; return true if c is one. */
static bool
perl_class(RegexParsePattern *p, char c, ReRanges *v)
{
	ReRanges	one = {0};
	char		small = (char) (c | 32);

	if (small != 'd' && small != 'w' && small != 's')
		return false;
	re_ranges_perl(&one, small, p->syntax.unicode ? RE_PERL_UNICODE : p->syntax.rust
				   ? RE_PERL_ASCII : RE_PERL_ECMA);
	if (c != small)
		re_ranges_negate(&one);
	for (size_t i = 0; i < one.n; i++)
		re_ranges_add(v, one.r[i].lo, one.r[i].hi);
	re_ranges_free(&one);
	return true;
}

/*
 * Read an escape that is a set of characters, in a class or outside; the backslash has been consumed.
 * *single = it is one character.
 */
static bool
escape(RegexParsePattern *p, ReRanges *v, bool *single)
{
	static const char controls[] = "t\tn\nr\rf\fv\va\ae\033";
	uint32_t	c;
	const char *at;

	*single = false;
	if (!more(p))
		return bad(p, ERR_INVALID, "\\ at the end");
	c = next_char(p);
	if (c < 0x80 && perl_class(p, (char) c, v))
		return true;
	if (c == 'p' || c == 'P')
		return property(p, v, c == 'P');
	*single = true;
	if (c == 'x' || c == 'u' || c == 'U')
	{
		if (!hex_escape(p, c == 'x' ? 2 : c == 'u' ? 4 : 8, &c))
			return false;
	}
	else if (c == 'c' && more(p) && ((p->s[p->i] | 32) >= 'a' && (p->s[p->i] | 32) <= 'z'))
		c = (uint32_t) p->s[p->i++] & 31;
	else if (c == '0')
		c = 0;
	else if (c < 0x80 && c != 0 && (at = strchr(controls, (char) c)) != NULL && (at - controls) % 2 == 0)
		c = (uint8_t) at[1];
	else if ((c >= '1' && c <= '9') || c == 'k')
		return unsupported(p, "back-reference");
	else if (c == 'b' || c == 'B')
		return unsupported(p, "word boundary (\\b, \\B)");
	else if (c < 0x80 && ((c | 32) >= 'a' && (c | 32) <= 'z'))
		return bad(p, ERR_INVALID, "unknown escape \\%c", (int) c);
	re_ranges_add(v, c, c);
	return true;
}

/* Read one item of a class: a character, or a set (*single false). */
static bool
class_item(RegexParsePattern *p, ReRanges *v, bool *single)
{
	uint32_t	c;
	const char *close;

	*single = false;
	if (looking_at(p, "[:") && (close = memmem(p->s + p->i, p->n - p->i, ":]", 2)) != NULL)
	{
		size_t		at = p->i + 2;
		ReRanges	one = {0};
		bool		negate = p->s[at] == '^';

		at += negate;
		if (re_ranges_posix(&one, p->s + at, (size_t) (close - p->s) - at))
		{
			if (negate)
				re_ranges_negate(&one);
			for (size_t i = 0; i < one.n; i++)
				re_ranges_add(v, one.r[i].lo, one.r[i].hi);
			re_ranges_free(&one);
			p->i = (size_t) (close - p->s) + 2;
			return true;
		}
	}
	if (looking_at(p, "&&") || looking_at(p, "~~"))
		return unsupported(p, "set operation in a class");
	if (accept(p, "\\"))
	{
		if (accept(p, "b"))
		{
			*single = true;
			re_ranges_add(v, '\b', '\b');
			return true;
		}
		return escape(p, v, single);
	}
	*single = true;
	c = next_char(p);
	re_ranges_add(v, c, c);
	return true;
}

/* Read a class after the [. */
static bool
char_class(RegexParsePattern *p, ReRanges *v)
{
	bool		negate = accept(p, "^");
	bool		first = true;

	while (more(p) && (first || p->s[p->i] != ']'))
	{
		bool		single;
		bool		single_hi;
		size_t		at = v->n;

		/* [] matches nothing in ECMA-262 and begins with ] elsewhere: the former needs its ] at once */
		if (first && p->s[p->i] == ']' && !p->syntax.rust &&
			memchr(p->s + p->i + 1, ']', p->n - p->i - 1) == NULL)
			break;
		/* Rust reads it as a difference; in [a--] it is a hyphen */
		if (!first && p->syntax.rust && looking_at(p, "--") && p->i + 2 < p->n && p->s[p->i + 2] != ']')
			return unsupported(p, "set operation in a class");
		first = false;
		if (!class_item(p, v, &single))
			return false;
		if (!looking_at(p, "-") || p->i + 1 >= p->n || p->s[p->i + 1] == ']')
			continue;
		if (!single)
		{
			if (p->syntax.rust && looking_at(p, "--"))
				return unsupported(p, "set operation in a class");
			continue;
		}
		p->i++;
		if (!class_item(p, v, &single_hi))
			return false;
		if (!single_hi)
			re_ranges_add(v, '-', '-');
		else
		{
			uint32_t	hi = v->r[--v->n].lo;

			if (hi < v->r[at].lo)
				return bad(p, ERR_INVALID, "range out of order in a class");
			v->r[at].hi = hi;
		}
	}
	if (!accept(p, "]"))
		return bad(p, ERR_INVALID, "[ without ]");
	if (p->syntax.no_case)
		re_ranges_fold(v);
	if (negate)
		re_ranges_negate(v);
	return true;
}

static ReNode
class_node(RegexParsePattern *p, const ReRanges *v)
{
	return re_class(p->re, v->r, v->n, p->syntax.mode);
}

static ReNode
dot(RegexParsePattern *p)
{
	static const ReRange ends[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
	ReRanges	v = {0};
	ReNode		r;

	if (p->syntax.dot_all)
		return re_any_char(p->re, p->syntax.mode);
	for (int i = 0; i < (p->syntax.rust ? 1 : 3); i++)
		re_ranges_add(&v, ends[i].lo, ends[i].hi);
	re_ranges_negate(&v);
	r = class_node(p, &v);
	re_ranges_free(&v);
	return r;
}

/* ---- groups ---- */

/* Read flags after (?, up to : or ). */
static bool
flags(RegexParsePattern *p, bool *group)
{
	bool		on = true;

	while (more(p) && p->s[p->i] != ':' && p->s[p->i] != ')')
		switch (p->s[p->i++])
		{
			case '-':
				on = false;
				break;
			case 'i':
				p->syntax.no_case = on;
				break;
			case 's':
				p->syntax.dot_all = on;
				break;
			case 'u':
				p->syntax.unicode = on;
				break;
			case 'a':
				/* Python's (?a) */
				p->syntax.unicode = false;
				break;
			default:
				p->i--;
				return bad(p, ERR_UNSUPPORTED, "flag (?%c)", p->s[p->i]);
		}
	*group = looking_at(p, ":");
	if (!more(p))
		return bad(p, ERR_INVALID, "( without )");
	p->i++;
	return true;
}

/* Read the kind of a group after (?.  *group = it has a body. */
static bool
group_kind(RegexParsePattern *p, bool *group)
{
	const char *close;

	*group = true;
	if (looking_at(p, "=") || looking_at(p, "!"))
		return unsupported(p, "look-ahead");
	if (looking_at(p, "<=") || looking_at(p, "<!"))
		return unsupported(p, "look-behind");
	if (looking_at(p, ">"))
		return unsupported(p, "atomic group");
	if (looking_at(p, "("))
		return unsupported(p, "conditional group");
	if (looking_at(p, "P=") || looking_at(p, "P>") || looking_at(p, "&") || looking_at(p, "R"))
		return unsupported(p, "back-reference");
	if (looking_at(p, "#"))
		return unsupported(p, "comment");
	if (accept(p, "<") || accept(p, "P<"))
	{
		close = memchr(p->s + p->i, '>', p->n - p->i);
		if (close == NULL)
			return bad(p, ERR_INVALID, "name of a group without >");
		p->i = (size_t) (close - p->s) + 1;
		return true;
	}
	return flags(p, group);
}

/* Read a group after the (. */
static bool
group(RegexParsePattern *p, RegexParsePart *out)
{
	ReSyntax	outer = p->syntax;
	bool		body = true;

	if (++p->depth > MAX_GROUPS)
		return bad(p, ERR_TOO_LONG, "groups more than %d deep", MAX_GROUPS);
	if (accept(p, "?") && !group_kind(p, &body))
		return false;
	*out = plain(RE_EMPTY);
	if (body)
	{
		if (!alternatives(p, out))
			return false;
		if (!accept(p, ")"))
			return bad(p, ERR_INVALID, "( without )");
		p->syntax = outer;
	}
	p->depth--;
	return true;
}

static bool
atom(RegexParsePattern *p, RegexParsePart *out)
{
	ReRanges	v = {0};
	bool		ok = true;
	bool		single;
	char		c = p->s[p->i];

	switch (c)
	{
		case '(':
			p->i++;
			return group(p, out);
		case '.':
			p->i++;
			*out = plain(dot(p));
			return true;
		case '^':
			p->i++;
			*out = (RegexParsePart) {{{RE_NONE, RE_NONE}, {RE_EMPTY, RE_NONE}}};
			return true;
		case '$':
			p->i++;
			*out = (RegexParsePart) {{{RE_NONE, RE_EMPTY}, {RE_NONE, RE_NONE}}};
			return true;
		case '*':
		case '+':
		case '?':
			return bad(p, ERR_INVALID, "nothing to repeat");
		case '[':
			p->i++;
			ok = char_class(p, &v);
			break;
		case '\\':
			if (accept(p, "\\A"))
			{
				*out = (RegexParsePart) {{{RE_NONE, RE_NONE}, {RE_EMPTY, RE_NONE}}};
				return true;
			}
			if (accept(p, "\\z") || accept(p, "\\Z"))
			{
				*out = (RegexParsePart) {{{RE_NONE, RE_EMPTY}, {RE_NONE, RE_NONE}}};
				return true;
			}
			p->i++;
			ok = escape(p, &v, &single);
			if (p->syntax.no_case)
				re_ranges_fold(&v);
			break;
		default:
			{
				uint32_t	cp = next_char(p);

				re_ranges_add(&v, cp, cp);
				if (p->syntax.no_case)
					re_ranges_fold(&v);
			}
	}
	*out = plain(ok ? class_node(p, &v) : RE_NONE);
	re_ranges_free(&v);
	return ok;
}

/* ---- quantifiers ---- */

static bool
number(RegexParsePattern *p, uint32_t *v)
{
	size_t		at = p->i;

	for (*v = 0; more(p) && p->s[p->i] >= '0' && p->s[p->i] <= '9'; p->i++)
		if (*v <= MAX_COUNT)
			*v = *v * 10 + (uint32_t) (p->s[p->i] - '0');
	return p->i > at;
}

/* Read {n}, {n,}, {n,m}, {,m}.  Otherwise the brace is a character and nothing is consumed. */
static bool
braces(RegexParsePattern *p, uint32_t *min, uint32_t *max)
{
	size_t		at = p->i;
	bool		lower;
	bool		upper;

	if (!accept(p, "{"))
		return false;
	lower = number(p, min);
	upper = lower;
	*max = *min;
	if (accept(p, ","))
	{
		upper = number(p, max);
		if (!upper)
			*max = RE_INF;
	}
	if ((lower || upper) && accept(p, "}"))
		return true;
	p->i = at;
	return false;
}

static bool
quantified(RegexParsePattern *p, RegexParsePart *out)
{
	if (!atom(p, out))
		return false;
	while (more(p))
	{
		uint32_t	min = 0;
		uint32_t	max = RE_INF;

		if (accept(p, "+"))
			min = 1;
		else if (accept(p, "?"))
			max = 1;
		else if (!accept(p, "*") && !braces(p, &min, &max))
			return true;
		if (min > MAX_COUNT || (max != RE_INF && max > MAX_COUNT))
			return bad(p, ERR_TOO_LONG, "count above %d", MAX_COUNT);
		if (min > max)
			return bad(p, ERR_INVALID, "counts out of order");
		/* lazy or greedy: the same texts match */
		accept(p, "?");
		if (looking_at(p, "+") || looking_at(p, "*"))
			return unsupported(p, "possessive or repeated quantifier");
		*out = part_repeat(p->re, out, min, max);
	}
	return true;
}

/* ---- sequences and alternatives ---- */

static void
parts_push(Parts *v, RegexParsePart x)
{
	if (v->n == v->cap)
	{
		v->cap = v->cap > 0 ? v->cap * 2 : 8;
		v->v = mem_realloc(v->v, v->cap * sizeof(RegexParsePart));
	}
	v->v[v->n++] = x;
}

static bool
sequence(RegexParsePattern *p, RegexParsePart *out)
{
	Parts		v = {0};
	RegexParsePart x;

	while (more(p) && p->s[p->i] != '|' && p->s[p->i] != ')')
	{
		if (!quantified(p, &x))
		{
			mem_free(v.v);
			return false;
		}
		parts_push(&v, x);
	}
	*out = plain(RE_EMPTY);
	while (v.n > 0)
		*out = part_cat(p->re, &v.v[--v.n], out);
	mem_free(v.v);
	return true;
}

static bool
alternatives(RegexParsePattern *p, RegexParsePart *out)
{
	Parts		v = {0};
	RegexParsePart x;
	bool		ok;

	do
	{
		ok = sequence(p, &x);
		parts_push(&v, x);
	} while (ok && accept(p, "|"));
	if (ok)
		*out = v.n == 1 ? x : part_or(p->re, &v);
	mem_free(v.v);
	return ok;
}

bool
re_parse(Regex *re, const char *pattern, size_t n, const ReSyntax *syntax, ReNode *out, Err *e)
{
	RegexParsePattern p = {.re = re,.s = pattern,.n = n,.syntax = *syntax,.e = e};
	RegexParsePart x = plain(RE_NONE);
	ReNode		any;

	if (!alternatives(&p, &x))
		return false;
	if (more(&p))
		return bad(&p, ERR_INVALID, ") without (");
	any = syntax->search ? re_any_text(re, syntax->mode) : RE_EMPTY;
	*out = re_or(re, re_cat(re, any, re_cat(re, x.at[0][0], any)), re_cat(re, x.at[1][0], any));
	*out = re_or(re, *out, re_or(re, re_cat(re, any, x.at[0][1]), x.at[1][1]));
	return re_check(re, e);
}
