/*
 * jinja_format.c
 *	  Numbers as text, "..." % values, "...".format(...), as in Python.
 *
 * Tested by tests/golden/jinja_golden.c.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "template/jinja_internal.h"
#include "text/utf8.h"

#define MAX_PRECISION	200		/* digits after the point */
#define MAX_WIDTH		100000
#define FLOAT_STEPS		300		/* steps counted for the text of a number with a fraction */

/* Print the shortest text that reads back as the same number. */
void
jin_float_repr(Jin *j, char *to, size_t size, double f)
{
	char		digits[40];
	int			exp;
	int			n;
	char	   *e;

	if (isnan(f) || isinf(f))
	{
		snprintf(to, size, "%s", isnan(f) ? "nan" : f > 0 ? "inf" : "-inf");
		return;
	}
	jin_step(j, FLOAT_STEPS);
	for (n = 1; n < 17; n++)
	{
		snprintf(digits, sizeof(digits), "%.*e", n - 1, f);
		if (strtod(digits, NULL) == f)
			break;
	}
	snprintf(digits, sizeof(digits), "%.*e", n - 1, f);
	e = strchr(digits, 'e');
	exp = atoi(e + 1);
	if (exp >= -4 && exp < 16)
		snprintf(to, size, "%.*f%s", n - 1 - exp > 0 ? n - 1 - exp : 0, f, n - 1 - exp > 0 ? "" : ".0");
	else
		snprintf(to, size, "%.*s%s%c%02d", (int) (e - digits), digits, "e", exp < 0 ? '-' : '+', abs(exp));
}

/* ---- a format specification ---- */

typedef struct JinjaFormatSpec
{
	uint32_t	fill;
	char		align;			/* < > ^ =, 0 = not given */
	char		sign;			/* + - or space */
	bool		alt;			/* # */
	char		group;			/* , or _ */
	int			width;
	int			precision;		/* -1 = not given */
	char		type;			/* 0 = not given */
} JinjaFormatSpec;

static int
spec_number(Jin *j, const JStr *s, size_t *i)
{
	int			v = 0;

	while (*i < s->n && s->s[*i] >= '0' && s->s[*i] <= '9')
	{
		v = v * 10 + (s->s[(*i)++] - '0');
		if (v > MAX_WIDTH)
			jin_fail(j, JE_LIMIT, "a width or precision is too large");
	}
	return v;
}

/* Return true if s has one of these characters at i; NUL is none of them. */
static bool
is_one_of(const JStr *s, size_t i, const char *set)
{
	return i < s->n && s->s[i] != '\0' && strchr(set, s->s[i]) != NULL;
}

static JinjaFormatSpec
parse_spec(Jin *j, const JStr *s)
{
	JinjaFormatSpec p = {.fill = ' ',.sign = '-',.precision = -1};
	size_t		i = 0;
	size_t		len = 0;

	if (s->n > 0)
		utf8_next(s->s, &len);
	if (len > 0 && is_one_of(s, len, "<>^="))
	{
		p.fill = utf8_next(s->s, &len);
		p.align = s->s[len];
		i = len + 1;
	}
	else if (is_one_of(s, 0, "<>^="))
		p.align = s->s[i++];
	if (is_one_of(s, i, "+- "))
		p.sign = s->s[i++];
	if (i < s->n && s->s[i] == '#')
	{
		p.alt = true;
		i++;
	}
	if (i < s->n && s->s[i] == '0')
	{
		if (p.align == 0)
		{
			p.fill = '0';
			p.align = '=';
		}
		i++;
	}
	p.width = spec_number(j, s, &i);
	if (i < s->n && (s->s[i] == ',' || s->s[i] == '_'))
		p.group = s->s[i++];
	if (i < s->n && s->s[i] == '.')
	{
		i++;
		if (i == s->n || s->s[i] < '0' || s->s[i] > '9')
			jin_fail(j, JE_VALUE, "Format specifier missing precision");
		p.precision = spec_number(j, s, &i);
	}
	if (i < s->n)
		p.type = s->s[i++];
	if (i < s->n || (i > 0 && s->s[i - 1] == '\0'))
		jin_fail(j, JE_VALUE, "Invalid format specifier");
	return p;
}

/* Pad text to the width; its first `head` bytes are sign and prefix. */
static JStr *
pad(Jin *j, const JinjaFormatSpec *p, JStr *s, size_t head, char dflt)
{
	char		fill[4];
	JStr	   *f = jin_str(j, fill, utf8_put(fill, p->fill), false);
	char		align = p->align != 0 ? p->align : dflt;
	int64_t		chars = (int64_t) jin_str_chars(s);

	if (chars >= p->width)
		return s;
	if (align == '=')
	{
		JStr	   *rest = jin_str_sub(j, s, head, s->n - head);

		rest = jin_pad(j, rest, p->width - (int64_t) head, f, '>');
		return jin_str_join2(j, jin_str_sub(j, s, 0, head), rest);
	}
	/* format() puts the odd one on the right, unlike center() */
	return jin_pad(j, s, p->width, f, align == '^' ? 'c' : align);
}

/* Insert separators between groups of digits of the whole part. */
static void
group_digits(char *text, size_t size, char sep, int every)
{
	char		out[768];
	size_t		n = strlen(text);
	size_t		start = text[0] == '-' || text[0] == '+' || text[0] == ' ';
	size_t		end = start;
	size_t		k = 0;

	while (end < n && ((text[end] >= '0' && text[end] <= '9') ||
					   (every == 4 && ((text[end] | 32) >= 'a' && (text[end] | 32) <= 'f'))))
		end++;
	for (size_t i = 0; i < n; i++)
	{
		ALWAYS(k + 2 < sizeof(out));
		if (i > start && i < end && (end - i) % (size_t) every == 0)
			out[k++] = sep;
		out[k++] = text[i];
	}
	ALWAYS(k < size);
	memcpy(text, out, k);
	text[k] = '\0';
}

static JStr *
format_int(Jin *j, const JinjaFormatSpec *p, int64_t v)
{
	char		text[512];
	char		digits[80];
	uint64_t	u = v < 0 ? -(uint64_t) v : (uint64_t) v;
	const char *sign = v < 0 ? "-" : p->sign == '+' ? "+" : p->sign == ' ' ? " " : "";
	const char *prefix = "";
	size_t		k = sizeof(digits) - 1;

	if (p->precision >= 0)
		jin_fail(j, JE_VALUE, "Precision not allowed in integer format specifier");
	if (p->type == 'c')
	{
		char		c[4];

		if (v < 0 || v > 0x10FFFF || (v >= 0xD800 && v < 0xE000))
			jin_fail(j, JE_OVERFLOW, "%%c arg not in range(0x110000)");
		return pad(j, p, jin_str(j, c, utf8_put(c, (uint32_t) v), false), 0, '<');
	}
	digits[k] = '\0';
	if (p->type == 'b')
	{
		do
			digits[--k] = (char) ('0' + (u & 1));
		while ((u >>= 1) != 0);
		memmove(digits, digits + k, sizeof(digits) - k);
		prefix = p->alt ? "0b" : "";
	}
	else
	{
		const char *how = p->type == 'x' ? "%llx" : p->type == 'X' ? "%llX" : p->type == 'o' ? "%llo" :
			"%llu";

		snprintf(digits, sizeof(digits), how, (unsigned long long) u);
		if (p->alt)
			prefix = p->type == 'x' ? "0x" : p->type == 'X' ? "0X" : p->type == 'o' ? "0o" : "";
	}
	if (p->group != 0)
		group_digits(digits, sizeof(digits), p->group, p->type == 0 || p->type == 'd' ||
					 p->type == 'n' ? 3 : 4);
	snprintf(text, sizeof(text), "%s%s%s", sign, prefix, digits);
	return pad(j, p, jin_str(j, text, strlen(text), false), strlen(sign) + strlen(prefix), '>');
}

static JStr *
format_float(Jin *j, const JinjaFormatSpec *p, double f)
{
	char		text[768];
	char		how[8] = "%.*f";
	char		type = p->type != 0 ? p->type : 'r';
	int			precision = p->precision >= 0 ? p->precision : 6;
	const char *sign = signbit(f) && !isnan(f) ? "-" : p->sign == '+' ? "+" : p->sign == ' ' ? " " : "";
	size_t		n;

	if (precision > MAX_PRECISION)
		jin_fail(j, JE_LIMIT, "a precision is too large");
	jin_step(j, FLOAT_STEPS);
	f = fabs(f);
	if (isnan(f) || isinf(f))
		snprintf(text, sizeof(text), "%s%s%s", sign, isnan(f) ? (type < 'a' && type != '%' ? "NAN" : "nan") :
				 type < 'a' && type != '%' ? "INF" : "inf", type == '%' ? "%" : "");
	else if (type == '%')
		snprintf(text, sizeof(text), "%s%.*f%%", sign, precision, f * 100);
	else if (type == 'r' && p->precision < 0)
	{
		char		repr[40];

		jin_float_repr(j, repr, sizeof(repr), f);
		snprintf(text, sizeof(text), "%s%s", sign, repr);
	}
	else
	{
		snprintf(how, sizeof(how), "%s%%%s.*%c", "", p->alt ? "#" : "", type == 'r' ||
				 type == 'n' ? 'g' : type);
		n = (size_t) snprintf(text, sizeof(text), "%s", sign);
		snprintf(text + n, sizeof(text) - n, how, precision == 0 && type == 'r' ? 1 : precision, f);
		/* without a type there is always a fraction or an exponent */
		if (type == 'r' && strpbrk(text, ".e") == NULL)
			snprintf(text + strlen(text), 3, ".0");
	}
	if (p->group != 0)
		group_digits(text, sizeof(text), p->group, 3);
	return pad(j, p, jin_str(j, text, strlen(text), false), strlen(sign), '>');
}

static JStr *
jin_format_spec(Jin *j, JVal v, const JStr *s)
{
	JinjaFormatSpec p;
	JStr	   *text;

	if (s->n == 0)
		return jin_to_str(j, v);
	p = parse_spec(j, s);
	if (v.t == JT_INT || v.t == JT_BOOL)
	{
		if (p.type != 0 && strchr("eEfFgG%", p.type) != NULL)
			return format_float(j, &p, v.t == JT_INT ? (double) v.i : (double) v.b);
		if (p.type != 0 && strchr("bcdnoxX", p.type) == NULL)
			jin_fail(j, JE_VALUE, "Unknown format code '%c' for object of type 'int'", p.type);
		return format_int(j, &p, v.t == JT_INT ? v.i : v.b);
	}
	if (v.t == JT_FLOAT)
	{
		if (p.type != 0 && strchr("eEfFgGn%", p.type) == NULL)
			jin_fail(j, JE_VALUE, "Unknown format code '%c' for object of type 'float'", p.type);
		return format_float(j, &p, v.f);
	}
	if (v.t != JT_STR)
		jin_fail(j, JE_TYPE, "unsupported format string passed to %s.__format__", jin_type(v));
	if (p.type != 0 && p.type != 's')
		jin_fail(j, JE_VALUE, "Unknown format code '%c' for object of type 'str'", p.type);
	if (p.align == '=' && p.fill != '0')
		jin_fail(j, JE_VALUE, "'=' alignment not allowed in string format specifier");
	if (p.align == '=')
		p.align = '<';
	text = jin_to_str(j, v);
	if (p.precision >= 0)
		text = jin_str_sub(j, text, 0, jin_str_at(j, text, (size_t) p.precision));
	return pad(j, &p, text, 0, '<');
}

/* ---- "..." % values ---- */

typedef struct Percent
{
	Jin		   *j;
	const JStr *f;
	size_t		i;
	JVal		args;
	size_t		next;			/* index of the next argument */
	bool		single;			/* args is the only argument */
	bool		keyed;
	JBuild		b;
} Percent;

static JVal
next_arg(Percent *p)
{
	size_t		n = p->single ? 1 : p->args.l->n;

	if (p->next >= n)
		jin_fail(p->j, JE_TYPE, "not enough arguments for format string");
	return p->single ? (p->next++, p->args) : p->args.l->v[p->next++];
}

/* %(name)...: the value of that key */
static JVal
keyed_arg(Percent *p)
{
	size_t		from = ++p->i;
	int			depth = 1;
	const JPair *e;

	for (; p->i < p->f->n; p->i++)
	{
		depth += p->f->s[p->i] == '(' ? 1 : p->f->s[p->i] == ')' ? -1 : 0;
		if (depth == 0)
			break;
	}
	if (p->i == p->f->n)
		jin_fail(p->j, JE_VALUE, "incomplete format key");
	if (p->args.t != JT_DICT)
		jin_fail(p->j, JE_TYPE, "format requires a mapping");
	p->keyed = true;
	e = jin_dict_find(p->j, p->args.d, jin_sval(jin_str_sub(p->j, p->f, from, p->i - from)));
	if (e == NULL)
		jin_fail(p->j, JE_KEY, "%s", jin_repr_c(p->j, jin_sval(jin_str_sub(p->j, p->f, from, p->i - from))));
	p->i++;
	return e->v;
}

static int
percent_number(Percent *p)
{
	int64_t		v;

	if (p->i < p->f->n && p->f->s[p->i] == '*')
	{
		p->i++;
		v = jin_arg_int(p->j, next_arg(p));
		if (v > MAX_WIDTH || v < -MAX_WIDTH)
			jin_fail(p->j, JE_LIMIT, "a width or precision is too large");
		return (int) v;
	}
	return spec_number(p->j, p->f, &p->i);
}

static void
percent_text(Percent *p, JinjaFormatSpec *s, JVal v)
{
	JBuild		b = {0};
	JStr	   *text;

	if (s->type == 's')
		jin_print(p->j, &b, v);
	else
		jin_repr(p->j, &b, v);
	text = jin_build_done(p->j, &b);
	if (p->f->markup)
		text = v.t == JT_STR && v.s->markup ? v.s : jin_escape(p->j, text);
	if (s->precision >= 0)
		text = jin_str_sub(p->j, text, 0, jin_str_at(p->j, text, (size_t) s->precision));
	s->fill = ' ';
	jin_build_str(p->j, &p->b, pad(p->j, s, text, 0, '>'));
}

static void
percent_number_out(Percent *p, JinjaFormatSpec *s, JVal v)
{
	if (v.t == JT_UNDEFINED)
		jin_fail_undefined(p->j, v);
	if (v.t == JT_BOOL)
		v = jin_int(v.b);
	if (strchr("eEfFgG", s->type) != NULL)
	{
		if (v.t != JT_INT && v.t != JT_FLOAT)
			jin_fail(p->j, JE_TYPE, "must be real number, not %s", jin_type(v));
		jin_build_str(p->j, &p->b, format_float(p->j, s, v.t == JT_INT ? (double) v.i : v.f));
		return;
	}
	if (v.t == JT_FLOAT && strchr("diu", s->type) != NULL)
	{
		if (!(fabs(v.f) < 9.2e18))
			jin_fail(p->j, JE_OVERFLOW, "cannot convert float to a 64-bit integer");
		v = jin_int((int64_t) v.f);
	}
	if (v.t != JT_INT)
		jin_fail(p->j, JE_TYPE, "%%%c format: %s is required, not %s", s->type,
				 strchr("diu", s->type) != NULL ? "a real number" : "an integer", jin_type(v));
	if (s->type == 'i' || s->type == 'u')
		s->type = 'd';
	if (s->precision >= 0)
	{
		/* the precision is a number of digits */
		JinjaFormatSpec d = {.fill = '0',.align = '=',.sign = s->sign,.type = s->type,.precision = -1};
		bool		sign = v.i < 0 || s->sign != '-';

		d.width = s->precision + sign;
		s->fill = ' ';
		jin_build_str(p->j, &p->b, pad(p->j, s, format_int(p->j, &d, v.i), sign, '>'));
		return;
	}
	jin_build_str(p->j, &p->b, format_int(p->j, s, v.i));
}

/* Convert one item; p->i is after the '%'. */
static void
conversion(Percent *p)
{
	JinjaFormatSpec s = {.fill = ' ',.sign = '-',.precision = -1};
	bool		keyed = p->i < p->f->n && p->f->s[p->i] == '(';
	JVal		v = keyed ? keyed_arg(p) : jin_none();

	for (; is_one_of(p->f, p->i, "-+ #0"); p->i++)
		switch (p->f->s[p->i])
		{
			case '-':
				s.align = '<';
				break;
			case '#':
				s.alt = true;
				break;
			case '0':
				s.fill = '0';
				break;
			case '+':
				s.sign = '+';
				break;
			default:
				s.sign = s.sign == '+' ? '+' : ' ';
		}
	s.width = percent_number(p);
	if (s.width < 0)
	{
		s.align = '<';
		s.width = -s.width;
	}
	if (p->i < p->f->n && p->f->s[p->i] == '.')
	{
		p->i++;
		s.precision = percent_number(p);
	}
	while (is_one_of(p->f, p->i, "hlL"))
		p->i++;
	if (p->i == p->f->n)
		jin_fail(p->j, JE_VALUE, "incomplete format");
	s.type = p->f->s[p->i++];
	if (s.type == '%')
	{
		jin_build_c(p->j, &p->b, "%");
		return;
	}
	if (!is_one_of(p->f, p->i - 1, "srdiuoxXeEfFgGca"))
	{
		const char *at = p->f->s + p->i - 1;
		size_t		len;
		uint32_t	cp = utf8_next(at, &len);

		jin_fail(p->j, JE_VALUE, "unsupported format character '%.*s' (0x%x) at index %zu", (int) len, at,
				 (unsigned) cp, p->i - 1);
	}
	if (!keyed)
		v = next_arg(p);
	if (s.align == '<')
		s.fill = ' ';
	else if (s.fill == '0')
		s.align = '=';
	if (s.type == 'a' || (s.type == 'c' && v.t == JT_STR))
		jin_fail(p->j, JE_REFUSED, "%%%c is not supported in formats", s.type);
	if (s.type == 's' || s.type == 'r')
	{
		s.align = s.align == '=' ? '>' : s.align;
		percent_text(p, &s, v);
	}
	else
		percent_number_out(p, &s, v);
}

JStr *
jin_percent(Jin *j, JStr *fmt, JVal args)
{
	Percent		p = {.j = j,.f = fmt,.args = args,.single = args.t != JT_TUPLE};
	size_t		from = 0;

	while (p.i < fmt->n)
	{
		if (fmt->s[p.i] != '%')
		{
			p.i++;
			continue;
		}
		jin_build_sub(j, &p.b, fmt, from, p.i - from);
		p.i++;
		if (p.i == fmt->n)
			jin_fail(j, JE_VALUE, "incomplete format");
		jin_step(j, 1);
		conversion(&p);
		from = p.i;
	}
	jin_build_sub(j, &p.b, fmt, from, fmt->n - from);
	if (!p.keyed && args.t != JT_DICT && p.next < (p.single ? 1 : args.l->n) &&
		(!p.single || (args.t != JT_LIST && args.t != JT_RANGE && args.t != JT_UNDEFINED)))
		jin_fail(j, JE_TYPE, "not all arguments converted during string formatting");
	return jin_markup(j, jin_build_done(j, &p.b), fmt->markup);
}

/* ---- "...".format(...) ---- */

typedef struct JinjaFormatFields
{
	Jin		   *j;
	const JArgs *a;
	JVal		map;			/* format_map's mapping; JT_NONE: the arguments */
	int64_t		next;			/* automatic numbering; -1: manual */
} JinjaFormatFields;

static JStr *format_text(JinjaFormatFields *x, const JStr *f, int level);

static JVal
field_value(JinjaFormatFields *x, const JStr *name)
{
	int64_t		n = 0;
	const JPair *p;

	for (size_t i = 0; i < name->n; i++)
	{
		if (name->s[i] < '0' || name->s[i] > '9' || n > 1000000)
		{
			n = -1;
			break;
		}
		n = n * 10 + (name->s[i] - '0');
	}
	if (name->n == 0 || n >= 0)
	{
		if (name->n == 0 ? x->next < 0 : x->next > 0)
			jin_fail(x->j, JE_VALUE, "cannot switch between manual field specification and automatic field "
									 "numbering");
		if (name->n == 0)
			n = x->next++;
		else
			x->next = -1;
		if (x->a == NULL || n >= (int64_t) x->a->n_pos)
			jin_fail(x->j, JE_INDEX, "Replacement index %lld out of range for positional args tuple",
					 (long long) n);
		return x->a->pos[n];
	}
	if (x->a == NULL)
	{
		p = x->map.t == JT_DICT ? jin_dict_find(x->j, x->map.d, jin_sval((JStr *) name)) : NULL;
		if (p != NULL)
			return p->v;
	}
	jin_step(x->j, x->a != NULL ? x->a->n_kw / 8 : 0);
	for (size_t k = 0; x->a != NULL && k < x->a->n_kw; k++)
		if (jin_str_eq(x->a->names[k], name))
			return x->a->kw[k];
	jin_fail(x->j, JE_KEY, "%s", jin_repr_c(x->j, jin_sval((JStr *) name)));
}

/* Look up "0.name[key]". */
static JVal
field_path(JinjaFormatFields *x, const JStr *s)
{
	size_t		i = 0;
	JVal		v;

	while (i < s->n && s->s[i] != '.' && s->s[i] != '[')
		i++;
	v = field_value(x, jin_str_sub(x->j, s, 0, i));
	while (i < s->n)
	{
		bool		item = s->s[i] == '[';
		size_t		from = ++i;
		JStr	   *part;
		JVal	   *path;
		size_t		n;

		while (i < s->n && (item ? s->s[i] != ']' : s->s[i] != '.' && s->s[i] != '['))
			i++;
		if (i == from || (item && i == s->n))
			jin_fail(x->j, JE_VALUE, item ? "Missing ']' in format string" : "Empty attribute in format "
																			 "string");
		part = jin_str_sub(x->j, s, from, i - from);
		if (item)
		{
			i++;
			if (i < s->n && s->s[i] != '.' && s->s[i] != '[')
				jin_fail(x->j, JE_VALUE, "Only '.' or '[' may follow ']' in format field specifier");
			/* a number is an index */
			if (memchr(part->s, '.', part->n) == NULL)
			{
				jin_parse_path(x->j, jin_sval(part), &path, &n);
				v = jin_get_item(x->j, v, path[0]);
			}
			else
				v = jin_get_item(x->j, v, jin_sval(part));
		}
		else
			v = jin_get_attr(x->j, v, part);
	}
	return v;
}

/* Format the inside of a replacement field: "name!r:spec". */
static JStr *
field(JinjaFormatFields *x, const JStr *s, int level)
{
	size_t		i = 0;
	size_t		end;
	int			brackets = 0;
	char		conv = 0;
	JVal		v;
	JStr	   *spec;

	while (i < s->n && (brackets > 0 || (s->s[i] != '!' && s->s[i] != ':')))
	{
		brackets += s->s[i] == '[' ? 1 : s->s[i] == ']' ? -1 : 0;
		i++;
	}
	end = i;
	if (i < s->n && s->s[i] == '!')
	{
		if (i + 1 >= s->n)
			jin_fail(x->j, JE_VALUE, "end of string while looking for conversion specifier");
		conv = s->s[i + 1];
		i += 2;
		if (i < s->n && s->s[i] != ':')
			jin_fail(x->j, JE_VALUE, "expected ':' after conversion specifier");
	}
	v = field_path(x, jin_str_sub(x->j, s, 0, end));
	spec = i < s->n ? jin_str_sub(x->j, s, i + 1, s->n - i - 1) : jin_str(x->j, "", 0, false);
	if (conv == 'r')
	{
		JBuild		b = {0};

		jin_repr(x->j, &b, v);
		v = jin_sval(jin_build_done(x->j, &b));
	}
	else if (conv == 's')
		v = jin_sval(jin_to_str(x->j, v));
	else if (conv != 0)
		jin_fail(x->j, JE_VALUE, "Unknown conversion specifier '%c'", conv);
	if (memchr(spec->s, '{', spec->n) != NULL || memchr(spec->s, '}', spec->n) != NULL)
		spec = format_text(x, spec, level + 1);
	return jin_format_spec(x->j, v, spec);
}

static JStr *
format_text(JinjaFormatFields *x, const JStr *f, int level)
{
	JBuild		b = {0};
	size_t		i = 0;

	if (level > 2)
		jin_fail(x->j, JE_VALUE, "Max string recursion exceeded");
	while (i < f->n)
	{
		size_t		from = i;
		int			depth = 1;

		while (i < f->n && f->s[i] != '{' && f->s[i] != '}')
			i++;
		jin_build_sub(x->j, &b, f, from, i - from);
		if (i == f->n)
			break;
		if (i + 1 < f->n && f->s[i + 1] == f->s[i])
		{
			jin_build_sub(x->j, &b, f, i, 1);
			i += 2;
			continue;
		}
		if (f->s[i] == '}')
			jin_fail(x->j, JE_VALUE, "Single '}' encountered in format string");
		from = ++i;
		for (; i < f->n; i++)
		{
			depth += f->s[i] == '{' ? 1 : f->s[i] == '}' ? -1 : 0;
			if (depth == 0)
				break;
		}
		if (i >= f->n)
			jin_fail(x->j, JE_VALUE, from == f->n ? "Single '{' encountered in format string" :
					 "expected '}' before end of string");
		jin_step(x->j, 1);
		jin_build_str(x->j, &b,
					  f->markup ? jin_escape(x->j, field(x, jin_str_sub(x->j, f, from, i - from), level)) :
					  field(x, jin_str_sub(x->j, f, from, i - from), level));
		i++;
	}
	return jin_build_done(x->j, &b);
}

JStr *
jin_format(Jin *j, JStr *fmt, const JArgs *a)
{
	JinjaFormatFields x = {.j = j,.a = a};

	return format_text(&x, fmt, 1);
}

JStr *
jin_format_map(Jin *j, JStr *fmt, JVal map)
{
	JinjaFormatFields x = {.j = j,.map = map};

	return format_text(&x, fmt, 1);
}
