/*
 * jinja_str.c
 *	  Strings of the Jinja interpreter: case, stripping, replacing, padding, lines.
 *
 * All functions propagate the marks: a character that is converted to others passes its mark to them;
 * inserted text keeps the mark of its source.
 *
 * Tested by tests/golden/jinja_golden.c.
 */
#include <string.h>
#include <utf8proc.h>

#include "base/assert.h"
#include "template/jinja_case.h"
#include "template/jinja_internal.h"
#include "text/unicode.h"
#include "text/utf8.h"

/* Python's str.isspace(): Unicode's White_Space and the four separators */
bool
jin_is_space(uint32_t cp)
{
	if (cp < 0x80)
		return cp == ' ' || (cp >= 9 && cp <= 13) || (cp >= 0x1C && cp <= 0x1F);
	return (uni_class(cp) & UNI_SPACE) != 0;
}

static bool
mark_at(const JStr *s, size_t i)
{
	return s->mask != NULL ? s->mask[i] : s->input;
}

static void
put_cp(Jin *j, JBuild *b, uint32_t cp, bool input)
{
	char		c[4];

	jin_build_add(j, b, c, utf8_put(c, cp), input);
}

/* ---- case ---- */

static bool
is_category(uint32_t cp, const char *cat)
{
	const char *c = uni_category(cp);

	return c[0] == cat[0] && (cat[1] == '\0' || c[1] == cat[1]);
}

/* letters that have a case */
static bool
is_cased(uint32_t cp)
{
	return is_category(cp, "Lu") || is_category(cp, "Ll") || is_category(cp, "Lt") ||
		cp == 0xAA || cp == 0xBA || (cp >= 0x2160 && cp <= 0x217F) || (cp >= 0x24B6 && cp <= 0x24E9);
}

static bool
is_ignorable(uint32_t cp)
{
	return cp == '\'' || cp == '.' || cp == ':' || cp == '^' || cp == '`' || cp == 0xB7 || cp == 0x2019 ||
		is_category(cp, "Mn") || is_category(cp, "Me") || is_category(cp, "Cf") || is_category(cp, "Lm") ||
		is_category(cp, "Sk");
}

/* Return true if a capital sigma at byte i ends a word: then its lower case is U+03C2. */
static bool
final_sigma(const JStr *s, size_t i)
{
	size_t		k = i;
	size_t		len;
	uint32_t	cp = 0;

	while (k > 0)
	{
		do
			k--;
		while (k > 0 && ((unsigned char) s->s[k] & 0xC0) == 0x80);
		cp = utf8_next(s->s + k, &len);
		if (!is_ignorable(cp))
			break;
		cp = 0;
	}
	if (cp == 0 || !is_cased(cp))
		return false;
	for (k = i + 2; k < s->n; k += len)
	{
		cp = utf8_next(s->s + k, &len);
		if (!is_ignorable(cp))
			return !is_cased(cp);
	}
	return true;
}

static bool
put_special(Jin *j, JBuild *b, const JinCase *table, size_t n, uint32_t cp, bool input)
{
	size_t		lo = 0;
	size_t		hi = n;

	if (cp < 0xDF)
		return false;
	while (lo < hi)
	{
		size_t		mid = (lo + hi) / 2;

		ASSERT(mid == 0 || table[mid - 1].cp < table[mid].cp);
		if (table[mid].cp == cp)
		{
			for (int k = 0; k < 3 && table[mid].to[k] != 0; k++)
				put_cp(j, b, table[mid].to[k], input);
			return true;
		}
		if (table[mid].cp < cp)
			lo = mid + 1;
		else
			hi = mid;
	}
	return false;
}

static void
put_upper(Jin *j, JBuild *b, uint32_t cp, bool input)
{
	if (!put_special(j, b, jin_case_upper, sizeof(jin_case_upper) / sizeof(jin_case_upper[0]), cp, input))
		put_cp(j, b, (uint32_t) utf8proc_toupper((utf8proc_int32_t) cp), input);
}

static void
put_title(Jin *j, JBuild *b, uint32_t cp, bool input)
{
	if (!put_special(j, b, jin_case_title, sizeof(jin_case_title) / sizeof(jin_case_title[0]), cp, input))
		put_cp(j, b, (uint32_t) utf8proc_totitle((utf8proc_int32_t) cp), input);
}

static void
put_lower(Jin *j, JBuild *b, const JStr *s, size_t i, uint32_t cp)
{
	bool		input = mark_at(s, i);

	if (cp == 0x130)
	{
		put_cp(j, b, 'i', input);
		put_cp(j, b, 0x307, input);
	}
	else if (cp == 0x3A3)
		put_cp(j, b, final_sigma(s, i) ? 0x3C2 : 0x3C3, input);
	else
		put_cp(j, b, (uint32_t) utf8proc_tolower((utf8proc_int32_t) cp), input);
}

JStr *
jin_upper(Jin *j, const JStr *s)
{
	JBuild		b = {0};
	size_t		len;

	jin_look_up(j, s->n);
	for (size_t i = 0; i < s->n; i += len)
	{
		uint32_t	cp = utf8_next(s->s + i, &len);

		put_upper(j, &b, cp, mark_at(s, i));
	}
	return jin_build_done(j, &b);
}

JStr *
jin_lower(Jin *j, const JStr *s)
{
	JBuild		b = {0};
	size_t		len;

	jin_look_up(j, s->n);
	for (size_t i = 0; i < s->n; i += len)
	{
		uint32_t	cp = utf8_next(s->s + i, &len);

		put_lower(j, &b, s, i, cp);
	}
	return jin_build_done(j, &b);
}

JStr *
jin_capitalize(Jin *j, const JStr *s)
{
	JBuild		b = {0};
	size_t		len;

	jin_look_up(j, s->n);
	for (size_t i = 0; i < s->n; i += len)
	{
		uint32_t	cp = utf8_next(s->s + i, &len);

		if (i == 0)
			put_title(j, &b, cp, mark_at(s, i));
		else
			put_lower(j, &b, s, i, cp);
	}
	return jin_build_done(j, &b);
}

/* str.title(): upper case after any character that is not a cased letter */
static JStr *
title(Jin *j, const JStr *s)
{
	JBuild		b = {0};
	size_t		len;
	bool		inside = false;

	jin_look_up(j, s->n);
	for (size_t i = 0; i < s->n; i += len)
	{
		uint32_t	cp = utf8_next(s->s + i, &len);

		if (inside)
			put_lower(j, &b, s, i, cp);
		else
			put_title(j, &b, cp, mark_at(s, i));
		inside = is_cased(cp);
	}
	return jin_build_done(j, &b);
}

static JStr *
swapcase(Jin *j, const JStr *s)
{
	JBuild		b = {0};
	size_t		len;

	jin_look_up(j, s->n);
	for (size_t i = 0; i < s->n; i += len)
	{
		uint32_t	cp = utf8_next(s->s + i, &len);

		if (is_category(cp, "Lu"))
			put_lower(j, &b, s, i, cp);
		else if (is_category(cp, "Ll"))
			put_upper(j, &b, cp, mark_at(s, i));
		else
			jin_build_sub(j, &b, s, i, len);
	}
	return jin_build_done(j, &b);
}

static JStr *
casefold(Jin *j, const JStr *s)
{
	JBuild		b = {0};
	size_t		len;

	jin_look_up(j, s->n);
	for (size_t i = 0; i < s->n; i += len)
	{
		utf8proc_int32_t out[8];
		int			last = 0;
		utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t) utf8_next(s->s + i, &len), out, 8,
													 UTF8PROC_CASEFOLD, &last);

		ASSERT(n > 0 && n <= 8);
		for (utf8proc_ssize_t k = 0; k < n && k < 8; k++)
			put_cp(j, &b, (uint32_t) out[k], mark_at(s, i));
	}
	return jin_build_done(j, &b);
}

/* islower(), isupper(): there is a cased letter and all have this case */
bool
jin_is_case(Jin *j, const JStr *s, bool upper)
{
	bool		any = false;
	size_t		len;

	jin_look_up(j, s->n);
	for (size_t i = 0; i < s->n; i += len)
	{
		uint32_t	cp = utf8_next(s->s + i, &len);

		if (is_category(cp, "Lt") || is_category(cp, upper ? "Ll" : "Lu"))
			return false;
		any |= is_category(cp, upper ? "Lu" : "Ll");
	}
	return any;
}

/* ---- markup ---- */

JStr *
jin_escape(Jin *j, const JStr *s)
{
	static const char from[] = "&<>'\"";
	static const char *const to[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
	JBuild		b = {0};
	size_t		at = 0;

	jin_scan(j, s->n);
	if (s->markup)
		return (JStr *) s;
	for (size_t i = 0; i < s->n; i++)
	{
		const char *p = s->s[i] != '\0' ? strchr(from, s->s[i]) : NULL;

		if (p == NULL)
			continue;
		jin_build_sub(j, &b, s, at, i - at);
		jin_build_add(j, &b, to[p - from], strlen(to[p - from]), mark_at(s, i));
		at = i + 1;
	}
	if (at == 0)
		return jin_markup(j, s, true);
	jin_build_sub(j, &b, s, at, s->n - at);
	return jin_markup(j, jin_build_done(j, &b), true);
}

/* ---- stripping, replacing, padding ---- */

static bool
in_set(const JStr *set, const char *c, size_t len)
{
	if (set == NULL)
		return jin_is_space(utf8_next(c, &len));
	return memmem(set->s, set->n, c, len) != NULL;
}

JStr *
jin_strip(Jin *j, JStr *s, const JStr *chars, int sides)
{
	size_t		from = 0;
	size_t		to = s->n;

	jin_step(j, chars != NULL ? 1 + 2 * (chars->n / 64) : 1);
	while ((sides & 1) != 0 && from < to && in_set(chars, s->s + from, utf8_len((unsigned char) s->s[from])))
	{
		from += utf8_len((unsigned char) s->s[from]);
		jin_step(j, chars != NULL ? 1 + chars->n / 64 : 0);
	}
	while ((sides & 2) != 0 && to > from)
	{
		size_t		c = to;

		do
			c--;
		while (c > from && ((unsigned char) s->s[c] & 0xC0) == 0x80);
		if (!in_set(chars, s->s + c, to - c))
			break;
		to = c;
		jin_step(j, chars != NULL ? 1 + chars->n / 64 : 0);
	}
	ASSERT(from <= to && to <= s->n);
	if (chars == NULL)
		jin_scan(j, s->n - (to - from));
	return jin_str_sub(j, s, from, to - from);
}

JStr *
jin_replace(Jin *j, JStr *s, const JStr *from, const JStr *to, int64_t count)
{
	JBuild		b = {0};
	size_t		at = 0;
	size_t		hit;

	if (from->n == 0)
	{
		/* insert between all characters */
		while (count != 0)
		{
			size_t		len = at < s->n ? utf8_len((unsigned char) s->s[at]) : 0;

			jin_build_str(j, &b, to);
			jin_step(j, 1);
			if (count > 0)
				count--;
			if (at >= s->n)
				return jin_build_done(j, &b);
			jin_build_sub(j, &b, s, at, len);
			at += len;
		}
		jin_build_sub(j, &b, s, at, s->n - at);
		return jin_build_done(j, &b);
	}
	for (; count != 0 && (hit = jin_str_find(j, s, from, at)) != SIZE_MAX; count -= count > 0)
	{
		jin_build_sub(j, &b, s, at, hit - at);
		jin_build_str(j, &b, to);
		at = hit + from->n;
		jin_step(j, 1);
	}
	if (at == 0)
		return s;
	jin_build_sub(j, &b, s, at, s->n - at);
	return jin_build_done(j, &b);
}

JStr *
jin_pad(Jin *j, JStr *s, int64_t width, const JStr *fill, int where)
{
	int64_t		chars = (int64_t) jin_str_chars(s);
	int64_t		extra;
	int64_t		left;
	JBuild		b = {0};

	ASSERT(where == '<' || where == '>' || where == '^' || where == 'c');
	if (width <= chars)
		return s;
	extra = width - chars;
	if ((uint64_t) extra > j->limits.output)
		jin_fail(j, JE_LIMIT, "a string is longer than %zu bytes", j->limits.output);
	/* Python's center puts the odd one where (width & extra & 1) says */
	left = where == '<' ? 0 : where == '>' ? extra : extra / 2 + (where == '^' ? (extra & width & 1) : 0);
	jin_build_room(j, &b, s->n + (size_t) extra * fill->n);
	for (int64_t i = 0; i < extra; i++)
	{
		if (i == left)
			jin_build_str(j, &b, s);
		jin_build_str(j, &b, fill);
	}
	if (left == extra)
		jin_build_str(j, &b, s);
	ASSERT(b.n == s->n + (size_t) extra * fill->n);
	jin_step(j, (size_t) extra / 16);
	return jin_build_done(j, &b);
}

JList *
jin_splitlines(Jin *j, JStr *s, bool keep)
{
	JList	   *l = jin_list(j, 0);
	size_t		from = 0;
	size_t		len;

	jin_scan(j, s->n);
	for (size_t i = 0; i < s->n; i += len)
	{
		uint32_t	cp = utf8_next(s->s + i, &len);
		size_t		end = i;

		if (cp != '\n' && cp != '\r' && cp != 0x0B && cp != 0x0C && (cp < 0x1C || cp > 0x1E) && cp != 0x85 &&
			cp != 0x2028 && cp != 0x2029)
			continue;
		if (cp == '\r' && i + 1 < s->n && s->s[i + 1] == '\n')
			len = 2;
		if (keep)
			end += len;
		jin_list_add(j, l, jin_sval(jin_str_sub(j, s, from, end - from)));
		from = i + len;
	}
	if (from < s->n)
		jin_list_add(j, l, jin_sval(jin_str_sub(j, s, from, s->n - from)));
	return l;
}

/* ---- splitting ---- */

static void
reverse(JList *l)
{
	for (size_t a = 0, b = l->n; a + 1 < b; a++)
	{
		JVal		t = l->v[a];

		l->v[a] = l->v[--b];
		l->v[b] = t;
	}
}

static JList *
split_space(Jin *j, JStr *s, int64_t max)
{
	JList	   *l = jin_list(j, 0);
	size_t		i = 0;
	size_t		len;

	for (;;)
	{
		size_t		from;
		size_t		begin = i;

		while (i < s->n && jin_is_space(utf8_next(s->s + i, &len)))
			i += len;
		jin_scan(j, i - begin);
		if (i == s->n)
			return l;
		from = i;
		if (max >= 0 && (int64_t) l->n == max)
		{
			jin_list_add(j, l, jin_sval(jin_str_sub(j, s, from, s->n - from)));
			return l;
		}
		while (i < s->n && !jin_is_space(utf8_next(s->s + i, &len)))
			i += len;
		jin_scan(j, i - from);
		jin_list_add(j, l, jin_sval(jin_str_sub(j, s, from, i - from)));
	}
}

static size_t
char_before(const JStr *s, size_t i)
{
	ALWAYS(i > 0 && i <= s->n);
	do
		i--;
	while (i > 0 && ((unsigned char) s->s[i] & 0xC0) == 0x80);
	return i;
}

static JList *
rsplit_space(Jin *j, JStr *s, int64_t max)
{
	JList	   *l = jin_list(j, 0);
	size_t		i = s->n;
	size_t		len;

	for (;;)
	{
		size_t		to;
		size_t		end = i;

		while (i > 0 && jin_is_space(utf8_next(s->s + char_before(s, i), &len)))
			i = char_before(s, i);
		jin_scan(j, end - i);
		if (i == 0)
			break;
		to = i;
		if (max >= 0 && (int64_t) l->n == max)
		{
			jin_list_add(j, l, jin_sval(jin_str_sub(j, s, 0, to)));
			break;
		}
		while (i > 0 && !jin_is_space(utf8_next(s->s + char_before(s, i), &len)))
			i = char_before(s, i);
		jin_scan(j, to - i);
		jin_list_add(j, l, jin_sval(jin_str_sub(j, s, i, to - i)));
	}
	reverse(l);
	return l;
}

/* Return the last occurrence of needle that ends at or before `to`, SIZE_MAX if there is none. */
static size_t
find_last(Jin *j, const JStr *s, const JStr *needle, size_t from, size_t to)
{
	if (needle->n == 0)
		return to;
	for (size_t i = to; i >= from + needle->n; i--)
	{
		jin_step(j, i % 8 == 0);
		if (s->s[i - 1] != needle->s[needle->n - 1])
			continue;
		jin_step(j, 1 + needle->n / 64);
		if (memcmp(s->s + i - needle->n, needle->s, needle->n) == 0)
			return i - needle->n;
	}
	return SIZE_MAX;
}

static JList *
split_by(Jin *j, JStr *s, const JStr *sep, int64_t max)
{
	JList	   *l = jin_list(j, 0);
	size_t		at = 0;
	size_t		hit;

	while ((max < 0 || (int64_t) l->n < max) && (hit = jin_str_find(j, s, sep, at)) != SIZE_MAX)
	{
		jin_list_add(j, l, jin_sval(jin_str_sub(j, s, at, hit - at)));
		at = hit + sep->n;
	}
	jin_list_add(j, l, jin_sval(jin_str_sub(j, s, at, s->n - at)));
	return l;
}

static JList *
rsplit_by(Jin *j, JStr *s, const JStr *sep, int64_t max)
{
	JList	   *l = jin_list(j, 0);
	size_t		to = s->n;
	size_t		hit;

	while ((max < 0 || (int64_t) l->n < max) && (hit = find_last(j, s, sep, 0, to)) != SIZE_MAX)
	{
		jin_list_add(j, l, jin_sval(jin_str_sub(j, s, hit + sep->n, to - hit - sep->n)));
		to = hit;
	}
	jin_list_add(j, l, jin_sval(jin_str_sub(j, s, 0, to)));
	reverse(l);
	return l;
}

static JVal
m_split(Jin *j, JStr *s, const JArgs *a, bool right)
{
	static const char *const names[] = {"sep", "maxsplit", NULL};
	JVal		v[2] = {jin_none(), jin_int(-1)};
	int64_t		max;
	JList	   *l;

	jin_args(j, right ? "rsplit" : "split", a, names, 0, v);
	max = jin_arg_int(j, v[1]);
	if (v[0].t == JT_NONE)
		l = right ? rsplit_space(j, s, max) : split_space(j, s, max);
	else
	{
		const JStr *sep = jin_arg_str(j, v[0]);

		if (sep->n == 0)
			jin_fail(j, JE_VALUE, "empty separator");
		l = right ? rsplit_by(j, s, sep, max) : split_by(j, s, sep, max);
	}
	return jin_lval(l, JT_LIST);
}

static JVal
m_partition(Jin *j, JStr *s, const JArgs *a, bool right)
{
	static const char *const names[] = {"sep", NULL};
	JVal		v[1];
	JStr	   *sep;
	size_t		hit;
	JList	   *l = jin_list(j, 3);
	JStr	   *none = jin_str(j, "", 0, false);

	jin_args(j, "partition", a, names, 1, v);
	sep = jin_arg_str(j, v[0]);
	if (sep->n == 0)
		jin_fail(j, JE_VALUE, "empty separator");
	hit = right ? find_last(j, s, sep, 0, s->n) : jin_str_find(j, s, sep, 0);
	if (hit == SIZE_MAX)
	{
		jin_list_add(j, l, jin_sval(right ? none : s));
		jin_list_add(j, l, jin_sval(none));
		jin_list_add(j, l, jin_sval(right ? s : none));
	}
	else
	{
		jin_list_add(j, l, jin_sval(jin_str_sub(j, s, 0, hit)));
		jin_list_add(j, l, jin_sval(jin_str_sub(j, s, hit, sep->n)));
		jin_list_add(j, l, jin_sval(jin_str_sub(j, s, hit + sep->n, s->n - hit - sep->n)));
	}
	return jin_lval(l, JT_TUPLE);
}

/* ---- searching ---- */

/* Convert optional start and end (characters, from the end if negative) to bytes; return false if the
 * range is empty. */
static bool
window(Jin *j, const JStr *s, JVal start, JVal end, size_t *from, size_t *to)
{
	int64_t		n = (int64_t) jin_str_chars(s);
	int64_t		a = start.t == JT_NONE ? 0 : jin_arg_int(j, start);
	int64_t		b = end.t == JT_NONE ? n : jin_arg_int(j, end);

	a = a < 0 ? (a + n < 0 ? 0 : a + n) : a;
	b = b < 0 ? (b + n < 0 ? 0 : b + n) : b > n ? n : b;
	if (a > b)
		return false;
	*from = jin_str_at(j, s, (size_t) a);
	*to = jin_str_at(j, s, (size_t) b);
	ASSERT(*from <= *to && *to <= s->n);
	return true;
}

static int64_t
chars_before(Jin *j, const JStr *s, size_t i)
{
	JStr		head = {.s = s->s,.n = i,.chars = s->chars == s->n ? i : SIZE_MAX};

	if (head.chars == SIZE_MAX)
		jin_scan(j, i);
	return (int64_t) jin_str_chars(&head);
}

/* find, rfind, index, rindex, count */
static JVal
m_find(Jin *j, JStr *s, const char *name, const JArgs *a)
{
	static const char *const names[] = {"sub", "start", "end", NULL};
	JVal		v[3] = {jin_none(), jin_none(), jin_none()};
	size_t		from = 0;
	size_t		to = 0;
	size_t		hit = SIZE_MAX;
	int64_t		n = 0;
	JStr	   *sub;
	JStr	   *part;

	jin_args(j, name, a, names, 1, v);
	sub = jin_arg_str(j, v[0]);
	if (window(j, s, v[1], v[2], &from, &to))
	{
		part = jin_str_sub(j, s, from, to - from);
		if (strcmp(name, "count") == 0)
		{
			if (sub->n == 0)
				return jin_int((int64_t) jin_str_chars(part) + 1);
			for (size_t at = 0; (at = jin_str_find(j, part, sub, at)) != SIZE_MAX; at += sub->n)
				n++;
			return jin_int(n);
		}
		hit = name[0] == 'r' ? find_last(j, part, sub, 0, part->n) : jin_str_find(j, part, sub, 0);
	}
	if (strcmp(name, "count") == 0)
		return jin_int(0);
	if (hit == SIZE_MAX && strstr(name, "index") != NULL)
		jin_fail(j, JE_VALUE, "substring not found");
	return jin_int(hit == SIZE_MAX ? -1 : chars_before(j, s, from + hit));
}

static bool
has_fix(Jin *j, const JStr *s, size_t from, size_t to, JVal fix, bool end)
{
	const JStr *f = jin_arg_str(j, fix);

	jin_step(j, f->n / 64);
	if (f->n > to - from)
		return false;
	return memcmp(end ? s->s + to - f->n : s->s + from, f->s, f->n) == 0;
}

static JVal
m_startswith(Jin *j, JStr *s, const JArgs *a, bool end)
{
	static const char *const names[] = {"prefix", "start", "end", NULL};
	JVal		v[3] = {jin_none(), jin_none(), jin_none()};
	size_t		from;
	size_t		to;

	jin_args(j, end ? "endswith" : "startswith", a, names, 1, v);
	if (v[0].t != JT_STR && v[0].t != JT_TUPLE)
		jin_fail(j, JE_TYPE, "%s first arg must be str or a tuple of str, not %s",
				 end ? "endswith" : "startswith", jin_type(v[0]));
	if (!window(j, s, v[1], v[2], &from, &to))
		return jin_bool(false);
	if (v[0].t == JT_STR)
		return jin_bool(has_fix(j, s, from, to, v[0], end));
	for (size_t i = 0; i < v[0].l->n; i++)
		if (has_fix(j, s, from, to, v[0].l->v[i], end))
			return jin_bool(true);
	return jin_bool(false);
}

/* ---- is...() ---- */

static bool
is_numeric(uint32_t cp)
{
	/* and the common ideographs that are numbers */
	return is_category(cp, "N") || (cp >= 0x4E00 &&
		(cp == 0x4E00 || cp == 0x4E8C || cp == 0x4E09 || cp == 0x56DB || cp == 0x4E94 || cp == 0x516D ||
		 cp == 0x4E03 || cp == 0x516B || cp == 0x4E5D || cp == 0x5341 || cp == 0x767E || cp == 0x5343 ||
		 cp == 0x842C || cp == 0x4E07));
}

static bool
is_digit(uint32_t cp)
{
	return is_category(cp, "Nd") || cp == 0xB2 || cp == 0xB3 || cp == 0xB9 || cp == 0x2070 ||
		(cp >= 0x2074 && cp <= 0x2079) || (cp >= 0x2080 && cp <= 0x2089) || (cp >= 0x2460 && cp <= 0x2468);
}

static bool
is_of(const char *name, uint32_t cp)
{
	if (strcmp(name, "isalpha") == 0)
		return is_category(cp, "L");
	if (strcmp(name, "isalnum") == 0)
		return is_category(cp, "L") || is_digit(cp) || is_numeric(cp);
	if (strcmp(name, "isdecimal") == 0)
		return is_category(cp, "Nd");
	if (strcmp(name, "isdigit") == 0)
		return is_digit(cp);
	if (strcmp(name, "isnumeric") == 0)
		return is_numeric(cp);
	if (strcmp(name, "isspace") == 0)
		return jin_is_space(cp);
	if (strcmp(name, "isascii") == 0)
		return cp < 0x80;
	return cp == ' ' || (!is_category(cp, "C") && !is_category(cp, "Z"));	/* isprintable */
}

static bool
is_title(const JStr *s)
{
	bool		inside = false;
	bool		any = false;
	size_t		len;

	for (size_t i = 0; i < s->n; i += len)
	{
		uint32_t	cp = utf8_next(s->s + i, &len);
		bool		upper = is_category(cp, "Lu") || is_category(cp, "Lt");

		if (upper ? inside : is_category(cp, "Ll") && !inside)
			return false;
		inside = upper || is_category(cp, "Ll");
		any |= inside;
	}
	return any;
}

static bool
is_identifier(const JStr *s)
{
	size_t		len;

	for (size_t i = 0; i < s->n; i += len)
	{
		uint32_t	cp = utf8_next(s->s + i, &len);

		if (cp != '_' && !is_category(cp, "L") && !is_category(cp, "Nl") &&
			(i == 0 || (uni_class(cp) & UNI_WORD) == 0))
			return false;
	}
	return s->n > 0;
}

static JVal
m_is(Jin *j, JStr *s, const char *name)
{
	size_t		len;

	jin_look_up(j, s->n);
	if (strcmp(name, "isupper") == 0 || strcmp(name, "islower") == 0)
		return jin_bool(jin_is_case(j, s, name[2] == 'u'));
	if (strcmp(name, "istitle") == 0)
		return jin_bool(is_title(s));
	if (strcmp(name, "isidentifier") == 0)
		return jin_bool(is_identifier(s));
	for (size_t i = 0; i < s->n; i += len)
		if (!is_of(name, utf8_next(s->s + i, &len)))
			return jin_bool(false);
	return jin_bool(s->n > 0 || strcmp(name, "isascii") == 0 || strcmp(name, "isprintable") == 0);
}

/* ---- the methods ---- */

static JVal
m_pad(Jin *j, JStr *s, const char *name, const JArgs *a)
{
	static const char *const names[] = {"width", "fillchar", NULL};
	JVal		v[2] = {jin_none(), jin_cstr(j, " ")};
	JStr	   *fill;

	jin_args(j, name, a, names, 1, v);
	fill = jin_arg_str(j, v[1]);
	if (jin_str_chars(fill) != 1)
		jin_fail(j, JE_TYPE, "The fill character must be exactly one character long");
	return jin_sval(jin_pad(j, s, jin_arg_int(j, v[0]), fill, name[0] == 'c' ? '^' : name[0] == 'l'
							? '<' : '>'));
}

static JVal
m_zfill(Jin *j, JStr *s, const JArgs *a)
{
	static const char *const names[] = {"width", NULL};
	JVal		v[1];
	bool		sign = s->n > 0 && (s->s[0] == '+' || s->s[0] == '-');
	JStr	   *digits = jin_str_sub(j, s, sign, s->n - sign);
	int64_t		width;

	jin_args(j, "zfill", a, names, 1, v);
	width = jin_arg_int(j, v[0]);
	if (width <= (int64_t) jin_str_chars(s))
		return jin_sval(s);
	digits = jin_pad(j, digits, width - sign, jin_str(j, "0", 1, false), '>');
	return jin_sval(jin_str_join2(j, jin_str_sub(j, s, 0, sign), digits));
}

static JVal
m_join(Jin *j, JStr *s, const JArgs *a)
{
	static const char *const names[] = {"iterable", NULL};
	JVal		v[1];
	JVal		item;
	JBuild		b = {0};
	JSeq		seq;

	jin_args(j, "join", a, names, 1, v);
	if (!jin_can_iter(v[0]))
		jin_fail(j, JE_TYPE, "can only join an iterable");
	seq = jin_iter(j, v[0]);
	for (size_t i = 0; jin_next(j, &seq, &item); i++)
	{
		if (item.t != JT_STR)
			jin_fail(j, JE_TYPE, "sequence item %zu: expected str instance, %s found", i, jin_type(item));
		if (i > 0)
			jin_build_str(j, &b, s);
		jin_build_str(j, &b, s->markup ? jin_escape(j, item.s) : item.s);
	}
	return jin_sval(jin_build_done(j, &b));
}

static JVal
m_replace(Jin *j, JStr *s, const JArgs *a)
{
	static const char *const names[] = {"old", "new", "count", NULL};
	JVal		v[3] = {jin_none(), jin_none(), jin_int(-1)};

	jin_args(j, "replace", a, names, 2, v);
	return jin_sval(jin_replace(j, s, jin_arg_str(j, v[0]), jin_arg_str(j, v[1]), jin_arg_int(j, v[2])));
}

static JVal
m_strip(Jin *j, JStr *s, const JArgs *a, int sides)
{
	static const char *const names[] = {"chars", NULL};
	JVal		v[1] = {jin_none()};

	jin_args(j, "strip", a, names, 0, v);
	return jin_sval(jin_strip(j, s, v[0].t == JT_NONE ? NULL : jin_arg_str(j, v[0]), sides));
}

static JVal
m_removefix(Jin *j, JStr *s, const JArgs *a, bool end)
{
	static const char *const names[] = {"prefix", NULL};
	JVal		v[1];
	JStr	   *f;

	jin_args(j, end ? "removesuffix" : "removeprefix", a, names, 1, v);
	f = jin_arg_str(j, v[0]);
	if (!has_fix(j, s, 0, s->n, v[0], end))
		return jin_sval(s);
	return jin_sval(jin_str_sub(j, s, end ? 0 : f->n, s->n - f->n));
}

static JVal
m_splitlines(Jin *j, JStr *s, const JArgs *a)
{
	static const char *const names[] = {"keepends", NULL};
	JVal		v[1] = {jin_bool(false)};

	jin_args(j, "splitlines", a, names, 0, v);
	return jin_lval(jin_splitlines(j, s, jin_truth(j, v[0])), JT_LIST);
}

static JVal
m_expandtabs(Jin *j, JStr *s, const JArgs *a)
{
	static const char *const names[] = {"tabsize", NULL};
	JVal		v[1] = {jin_int(8)};
	JBuild		b = {0};
	int64_t		size;
	int64_t		column = 0;
	size_t		len;

	jin_args(j, "expandtabs", a, names, 0, v);
	size = jin_arg_int(j, v[0]);
	jin_scan(j, s->n);
	if (size > 4096)
		jin_fail(j, JE_LIMIT, "tabs are too wide");
	for (size_t i = 0; i < s->n; i += len)
	{
		len = utf8_len((unsigned char) s->s[i]);
		if (s->s[i] == '\t')
		{
			for (int64_t k = size > 0 ? size - column % size : 0; k > 0; k--, column++)
				jin_build_add(j, &b, " ", 1, mark_at(s, i));
			continue;
		}
		jin_build_sub(j, &b, s, i, len);
		column = s->s[i] == '\n' || s->s[i] == '\r' ? 0 : column + 1;
	}
	return jin_sval(jin_build_done(j, &b));
}

static JVal
simple(Jin *j, JStr *s, const char *name, const JArgs *a)
{
	if (a->n_pos + a->n_kw > 0)
		jin_fail(j, JE_TYPE, "str.%s() takes no arguments (%zu given)", name, a->n_pos + a->n_kw);
	switch (name[0])
	{
		case 'u':
			return jin_sval(jin_upper(j, s));
		case 'l':
			return jin_sval(jin_lower(j, s));
		case 't':
			return jin_sval(title(j, s));
		case 's':
			return jin_sval(swapcase(j, s));
		default:
			return jin_sval(name[2] == 'p' ? jin_capitalize(j, s) : casefold(j, s));
	}
}

static JVal
call_method(Jin *j, JStr *s, const char *name, const JArgs *a)
{
	static const char *const map_names[] = {"mapping", NULL};
	JVal		v[1];
	static const char *const simples[] = {"upper", "lower", "title", "swapcase", "capitalize", "casefold"};

	for (size_t i = 0; i < sizeof(simples) / sizeof(simples[0]); i++)
		if (strcmp(name, simples[i]) == 0)
			return simple(j, s, name, a);
	if (strcmp(name, "strip") == 0 || strcmp(name, "lstrip") == 0 || strcmp(name, "rstrip") == 0)
		return m_strip(j, s, a, name[0] == 's' ? 3 : name[0] == 'l' ? 1 : 2);
	if (strcmp(name, "split") == 0 || strcmp(name, "rsplit") == 0)
		return m_split(j, s, a, name[0] == 'r');
	if (strcmp(name, "splitlines") == 0)
		return m_splitlines(j, s, a);
	if (strcmp(name, "startswith") == 0 || strcmp(name, "endswith") == 0)
		return m_startswith(j, s, a, name[0] == 'e');
	if (strcmp(name, "replace") == 0)
		return m_replace(j, s, a);
	if (strcmp(name, "join") == 0)
		return m_join(j, s, a);
	if (strcmp(name, "format") == 0)
		return jin_sval(jin_format(j, s, a));
	if (strcmp(name, "format_map") == 0)
	{
		jin_args(j, name, a, map_names, 1, v);
		return jin_sval(jin_format_map(j, s, v[0]));
	}
	if (strcmp(name, "count") == 0 || strstr(name, "find") != NULL || strstr(name, "index") != NULL)
		return m_find(j, s, name, a);
	if (strcmp(name, "partition") == 0 || strcmp(name, "rpartition") == 0)
		return m_partition(j, s, a, name[0] == 'r');
	if (strcmp(name, "removeprefix") == 0 || strcmp(name, "removesuffix") == 0)
		return m_removefix(j, s, a, name[6] == 's');
	if (strcmp(name, "center") == 0 || strcmp(name, "ljust") == 0 || strcmp(name, "rjust") == 0)
		return m_pad(j, s, name, a);
	if (strcmp(name, "zfill") == 0)
		return m_zfill(j, s, a);
	if (strcmp(name, "expandtabs") == 0)
		return m_expandtabs(j, s, a);
	if (strncmp(name, "is", 2) == 0)
		return m_is(j, s, name);
	jin_fail(j, JE_REFUSED, "string method '%s' is not supported", name);
}

/* Methods of markup return markup. */
JVal
jin_str_method(Jin *j, JStr *s, const char *name, const JArgs *a)
{
	JVal		v = call_method(j, s, name, a);

	if (s->markup && v.t == JT_STR)
		v.s = jin_markup(j, v.s, true);
	return v;
}
