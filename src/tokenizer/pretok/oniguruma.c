/*
 * oniguruma.c
 *	  Translate Oniguruma's regular expressions to PCRE2.
 *
 * Both are similar to Perl's.  The differences, in Ruby's syntax:
 *
 *	 \s \w \d \h	Unicode properties, and \h is a hexadecimal digit; written out
 *	 (?m: )			is PCRE2's (?s: )
 *	 ^ $			are always ends of lines
 *	 {n,m}+ {n}?	are two quantifiers there: refused
 *	 [a[bc]] [a&&b]	unions and intersections of classes; translated to alternatives and
 *					look-ahead
 *	 \p{Han}		is the script itself, not its extensions
 *	 (?i)			folds some letters to two ("ss"): patterns where this could show
 *					are refused
 *
 * Elements that this file doesn't know are refused: back references, names, conditions, comments,
 * callouts, \X, \R, \K.
 *
 * Tested by tests/unit/tokenizer/test_tokenizer.c.
 */
#include "tokenizer/pretok/oniguruma.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "text/utf8.h"

#define SPACE	"\\x09-\\x0D\\x{85}\\p{Z}"
/* Alphabetic, M, Nd, Pc */
#define WORD	"\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}" \
	"\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{1F189}"
#define HEX		"0-9A-Fa-f"

typedef struct Rs
{
	const char *pattern;
	const char *p;				/* text that is left to read */
	Buf		   *out;
	int			depth;
	bool		nocase;			/* (?i) is on */
	bool		begin;			/* nothing of this group has been read yet */
	char		before;			/* letter matched just before, without case; 0 = none */
	Err		   *e;
} Rs;

static bool
refuse(Rs *r, const char *what)
{
	err_set(r->e, ERR_UNSUPPORTED, "tokenizer: a regular expression with %s is not supported", what);
	return err_detail(r->e, "%s", r->pattern);
}

static void
put(Rs *r, const char *s)
{
	buf_addstr(r->out, s);
}

static void
put_code(Buf *out, uint32_t cp)
{
	buf_printf(out, "\\x{%X}", cp);
}

/* ---------- properties ---------- */

/* Read {Name} after \p; append the equivalent class items to *out. */
static bool
property(Rs *r, bool negated, Buf *out)
{
	static const char *const gc[] = {"C", "Cc", "Cf", "Cn", "Co", "Cs", "L", "Ll", "Lm", "Lo", "Lt", "Lu",
									 "M", "Mc",
		"Me", "Mn", "N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk",
		"Sm", "So",
	"Z", "Zl", "Zp", "Zs"};
	static const char *const script[] = {"Arabic", "Armenian", "Bengali", "Bopomofo", "Cyrillic",
										 "Devanagari",
		"Ethiopic", "Georgian", "Greek", "Gujarati", "Gurmukhi", "Han", "Hangul", "Hebrew", "Hiragana",
		"Kannada", "Katakana", "Khmer", "Lao", "Latin", "Malayalam", "Mongolian", "Myanmar", "Oriya",
		"Sinhala", "Tamil",
	"Telugu", "Thaana", "Thai", "Tibetan"};
	char		name[32];
	size_t		n = 0;

	if (*r->p++ != '{')
		return refuse(r, "\\p without braces");
	if (*r->p == '^')
	{
		negated = !negated;
		r->p++;
	}
	for (; *r->p != '}' && *r->p != '\0' && n < sizeof(name) - 1; r->p++)
		name[n++] = *r->p;
	name[n] = '\0';
	if (*r->p++ != '}')
		return refuse(r, "an unknown property");
	for (size_t i = 0; i < sizeof(gc) / sizeof(gc[0]); i++)
		if (strcmp(name, gc[i]) == 0)
		{
			buf_printf(out, "\\%c{%s}", negated ? 'P' : 'p', name);
			return true;
		}
	for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++)
		if (strcmp(name, script[i]) == 0)
		{
			buf_printf(out, "\\%c{sc:%s}", negated ? 'P' : 'p', name);
			return true;
		}
	return refuse(r, "an unknown property");
}

/* ---------- escapes ---------- */

typedef struct Escape
{
	enum
	{
		ESC_CHAR,				/* cp */
		ESC_SET,				/* items, or characters that aren't in items */
		ESC_OTHER				/* only outside of classes: the letter */
	}			kind;
	uint32_t	cp;
	bool		negated;
	char		letter;
	const char *items;			/* NULL: in *props */
} Escape;

static bool
hex_escape(Rs *r, size_t digits, uint32_t *cp)
{
	char		s[9] = "";
	size_t		n = 0;
	bool		braces = digits == 0;

	if (braces)
		digits = 8;
	while (n < digits && isxdigit((unsigned char) *r->p))
		s[n++] = *r->p++;
	if (n == 0 || (braces && *r->p++ != '}'))
		return refuse(r, "a malformed \\x or \\u");
	*cp = (uint32_t) strtoul(s, NULL, 16);
	if (*cp > 0x10FFFF || (*cp >= 0xD800 && *cp < 0xE000) || (!braces && digits == 2 && *cp >= 0x80))
		return refuse(r, "\\x or \\u of what is no character");
	return true;
}

/* Read what follows a backslash (already consumed). */
static bool
escape(Rs *r, Escape *x, Buf *props)
{
	char		c = *r->p++;

	*x = (Escape) {.kind = ESC_CHAR};
	switch (c)
	{
		case 'n': x->cp = '\n'; return true;
		case 'r': x->cp = '\r'; return true;
		case 't': x->cp = '\t'; return true;
		case 'f': x->cp = '\f'; return true;
		case 'v': x->cp = '\v'; return true;
		case 'a': x->cp = 7; return true;
		case 'e': x->cp = 27; return true;
		case 'x':
			if (*r->p != '{')
				return hex_escape(r, 2, &x->cp);
			r->p++;
			return hex_escape(r, 0, &x->cp);
		case 'u':
			return hex_escape(r, 4, &x->cp);
		case 's': case 'S': case 'w': case 'W': case 'd': case 'D': case 'h': case 'H':
			x->kind = ESC_SET;
			x->negated = isupper((unsigned char) c) != 0;
			c = (char) tolower((unsigned char) c);
			x->items = c == 's' ? SPACE : c == 'w' ? WORD : c == 'd' ? "\\p{Nd}" : HEX;
			return true;
		case 'p': case 'P':
			x->kind = ESC_SET;
			return property(r, c == 'P', props);
		case 'b': case 'B': case 'A': case 'z': case 'Z':
			x->kind = ESC_OTHER;
			x->letter = c;
			return true;
		default:
			if (c == '\0' || (unsigned char) c >= 0x80 || isalnum((unsigned char) c))
				return refuse(r, "an unknown escape");
			x->cp = (unsigned char) c;
			return true;
	}
}

/* ---------- classes ---------- */

/* A class: the union of items and of the complements of some other sets. */
typedef struct Class
{
	Buf			items;			/* inside of [ ] */
	Buf			others;			/* "|[^...]" for each */
} Class;

static bool class(Rs *r, Buf *out);

/* Read one member of a class that may begin a range; *cp = the character, or UINT32_MAX. */
static bool
member(Rs *r, Class *c, uint32_t *cp)
{
	Escape		x;
	size_t		len;

	*cp = UINT32_MAX;
	if (*r->p != '\\')
	{
		*cp = utf8_next(r->p, &len);
		r->p += len;
		return true;
	}
	r->p++;
	if (*r->p == 'b')
		return refuse(r, "\\b in a class");
	if (!escape(r, &x, &c->items))
		return false;
	if (x.kind == ESC_OTHER)
		return refuse(r, "an unknown escape");
	if (x.kind == ESC_CHAR)
		*cp = x.cp;
	else if (x.items != NULL && x.negated)
		buf_printf(&c->others, "|[^%s]", x.items);
	else if (x.items != NULL)
		buf_addstr(&c->items, x.items);
	return true;
}

/* Return true for [:alpha:] and the like: not supported, but must be distinguished from a nested
 * class. */
static bool
is_posix(const char *p)
{
	const char *end = strstr(p, ":]");

	return p[0] == '[' && p[1] == ':' && end != NULL && strcspn(p + 2, "[]\\") >= (size_t) (end - p - 2);
}

/* Read one operand of &&, up to "&&" or "]"; append to *out a pattern that matches one character. */
static bool
operand(Rs *r, bool first, Buf *out)
{
	Class		c = {0};
	bool		ok = true;
	bool		any = false;

	while (ok && *r->p != '\0' && (*r->p != ']' || (first && !any)) && strncmp(r->p, "&&", 2) != 0)
	{
		uint32_t	lo;
		uint32_t	hi = 0;

		any = true;
		if (*r->p == '[')
		{
			if (is_posix(r->p))
				ok = refuse(r, "a POSIX bracket");
			else
			{
				r->p++;
				buf_addc(&c.others, '|');
				ok = class(r, &c.others);
			}
			continue;
		}
		ok = member(r, &c, &lo);
		if (!ok || lo == UINT32_MAX)
			continue;
		if (r->nocase && lo >= 0x80)
			ok = refuse(r, "letters beyond ASCII whose case is ignored");
		put_code(&c.items, lo);
		if (r->p[0] == '-' && r->p[1] != ']' && r->p[1] != '\0' && ok)
		{
			r->p++;
			ok = *r->p != '[' && member(r, &c, &hi) && hi != UINT32_MAX && hi >= lo;
			if (!ok && r->e->cls == ERR_NONE)
				refuse(r, "a malformed range");
			buf_addc(&c.items, '-');
			put_code(&c.items, hi);
		}
	}
	if (ok && !any)
		ok = refuse(r, "an empty class");
	if (ok)
	{
		if (c.items.len == 0)
			buf_printf(out, "(?:%s)", c.others.data + 1);
		else if (c.others.len == 0)
			buf_printf(out, "[%s]", c.items.data);
		else
			buf_printf(out, "(?:[%s]%s)", c.items.data, c.others.data);
	}
	buf_free(&c.items);
	buf_free(&c.others);
	return ok;
}

/* Read a class, after its "[". */
static bool
class(Rs *r, Buf *out)
{
	bool		negated = *r->p == '^';
	Buf			all = {0};
	Buf			one = {0};
	size_t		n = 0;
	bool		ok = true;

	if (++r->depth > RX_MAX_DEPTH)
		return refuse(r, "too many levels");
	r->p += negated;
	do
	{
		if (n > 0)
			r->p += 2;
		/* all operands but the last become look-ahead */
		if (n++ > 0)
			buf_printf(&all, "(?=%s)", one.data);
		buf_reset(&one);
		ok = operand(r, n == 1, &one);
	} while (ok && *r->p == '&');
	if (ok && *r->p++ != ']')
		ok = refuse(r, "a class without end");
	if (ok && n == 1 && !negated)
		buf_add(out, one.data, one.len);
	else if (ok && n == 1 && one.data[0] == '[')
		buf_printf(out, "[^%s", one.data + 1);
	else if (ok && negated)
		buf_printf(out, "(?:(?!%s%s)(?s:.))", all.data ? all.data : "", one.data);
	else if (ok)
		buf_printf(out, "(?:%s%s)", all.data, one.data);
	buf_free(&all);
	buf_free(&one);
	r->depth--;
	return ok;
}

/* ---------- the rest ---------- */

/* Refuse letters that may match one other letter (like "ss") if case is ignored. */
static bool
check_fold(Rs *r, uint32_t cp)
{
	char		c = cp < 0x80 && isalpha((int) cp) ? (char) tolower((int) cp) : '\0';
	char		b = r->before;

	r->before = c;
	if (!r->nocase)
		return true;
	if (cp >= 0x80)
		return refuse(r, "letters beyond ASCII whose case is ignored");
	if ((b == 's' && (c == 's' || c == 't')) || (b == 'f' && (c == 'f' || c == 'i' || c == 'l')))
		return refuse(r, "\"ss\", \"st\" or \"f\"-ligatures whose case is ignored");
	return true;
}

/* Read "{": an interval, or just the character. */
static bool
interval(Rs *r)
{
	const char *p = r->p + 1;
	const char *lo = p;
	const char *hi;
	bool		comma;

	while (isdigit((unsigned char) *p))
		p++;
	comma = *p == ',';
	hi = p + comma;
	for (p = hi; isdigit((unsigned char) *p); p++)
		;
	if (*p != '}' || (p == lo + comma && (lo == hi || p == hi)))
	{
		put(r, "\\{");
		r->p++;
		return check_fold(r, '{');
	}
	if (p[1] == '+' || (p[1] == '?' && !comma))
		return refuse(r, "a quantifier of an interval");
	if (hi - lo > 6 || p - hi > 5)
		return refuse(r, "a large interval");
	put(r, lo[0] == ',' ? "{0" : "{");
	buf_add(r->out, lo, (size_t) (p + 1 - lo));
	r->p = p + 1;
	if (*r->p == '?')
	{
		buf_addc(r->out, '?');
		r->p++;
	}
	return true;
}

static bool alternatives(Rs *r);

/* Read a group, after its "(". */
static bool
group(Rs *r)
{
	static const char *const plain[] = {"?:", "?=", "?!", "?<=", "?<!", "?>"};
	bool		nocase = r->nocase;
	bool		on = true;

	buf_addc(r->out, '(');
	if (*r->p == '*')
		return refuse(r, "a verb");
	if (*r->p == '?')
	{
		size_t		i = 0;

		while (i < 6 && strncmp(r->p, plain[i], strlen(plain[i])) != 0)
			i++;
		if (i < 6)
		{
			put(r, plain[i]);
			r->p += strlen(plain[i]);
		}
		else
		{
			buf_addc(r->out, '?');
			for (r->p++; *r->p == 'i' || *r->p == 'm' || *r->p == '-'; r->p++)
			{
				if (*r->p == '-')
					on = false;
				if (*r->p == 'i')
					r->nocase = on;
				buf_addc(r->out, *r->p == 'm' ? 's' : *r->p);
			}
			if (*r->p == ')')
			{
				/* in the middle of a group Ruby applies the options to a new group up to the end, Perl
				 * doesn't */
				if (!r->begin)
					return refuse(r, "options inside of a group");
				buf_addc(r->out, *r->p++);
				return true;
			}
			if (*r->p != ':')
				return refuse(r, "an unknown kind of group");
			buf_addc(r->out, *r->p++);
		}
	}
	if (++r->depth > RX_MAX_DEPTH)
		return refuse(r, "too many levels");
	if (!alternatives(r))
		return false;
	r->depth--;
	if (*r->p++ != ')')
		return refuse(r, "a group without end");
	buf_addc(r->out, ')');
	r->nocase = nocase;
	return true;
}

static bool
escaped_atom(Rs *r)
{
	Buf			props = {0};
	Escape		x;
	bool		ok = escape(r, &x, &props);

	if (ok && x.kind == ESC_CHAR)
	{
		ok = check_fold(r, x.cp);
		put_code(r->out, x.cp);
	}
	else if (ok && x.kind == ESC_SET)
	{
		if (x.items != NULL)
			buf_printf(r->out, "[%s%s]", x.negated ? "^" : "", x.items);
		else
			put(r, props.data);
	}
	else if (ok)
		put(r, x.letter == 'b' ? "(?:(?<=[" WORD "])(?![" WORD "])|(?<![" WORD "])(?=[" WORD "]))" :
			x.letter == 'B' ? "(?:(?<=[" WORD "])(?=[" WORD "])|(?<![" WORD "])(?![" WORD "]))" :
			x.letter == 'A' ? "\\A" : x.letter == 'z' ? "\\z" : "\\Z");
	buf_free(&props);
	return ok;
}

/* Read up to the end of the group. */
static bool
alternatives(Rs *r)
{
	size_t		len;
	uint32_t	cp;

	r->before = '\0';
	r->begin = true;
	for (; *r->p != '\0' && *r->p != ')'; r->begin = false)
	{
		char		c = *r->p;
		bool		literal = c == '\\' || c == '{' || strchr("|()[.^$*+?", c) == NULL;

		if (!literal)
			r->before = '\0';
		switch (c)
		{
			case '[':
				r->p++;
				if (!class(r, r->out))
					return false;
				break;
			case '(':
				r->p++;
				if (!group(r))
					return false;
				r->before = '\0';
				break;
			case '\\':
				r->p++;
				if (!escaped_atom(r))
					return false;
				break;
			case '{':
				if (!interval(r))
					return false;
				break;
			case '^':
			case '$':
				put(r, c == '^' ? "(?m:^)" : "(?m:$)");
				r->p++;
				break;
			case '|': case '.': case '*': case '+': case '?':
				buf_addc(r->out, c);
				r->p++;
				break;
			default:
				cp = utf8_next(r->p, &len);
				if (!check_fold(r, cp))
					return false;
				put_code(r->out, cp);
				r->p += len;
		}
	}
	return true;
}

bool
rx_translate(const char *pattern, Buf *out, Err *e)
{
	Rs			r = {.pattern = pattern, .p = pattern, .out = out, .e = e};

	if (strlen(pattern) > RX_MAX_PATTERN)
		return err_set(e, ERR_UNSUPPORTED, "tokenizer: a regular expression is too long");
	e->cls = ERR_NONE;
	if (!alternatives(&r))
		return false;
	if (*r.p != '\0')
		return refuse(&r, "an unmatched parenthesis");
	ASSERT(r.depth == 0);
	return true;
}
