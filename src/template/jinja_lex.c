/*
 * jinja_lex.c
 *	  Split a template's source into tokens.
 *
 * White space control is jinja2's with trim_blocks and lstrip_blocks: the newline after a block or
 * comment is dropped, and so is white space between the start of a line and a block; "-" drops all white
 * space on its side, "+" keeps it.  One newline at the very end of the source is dropped.
 *
 * Tested by tests/golden/jinja_golden.c and tests/fuzz/fuzz_jinja.c.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "template/jinja_internal.h"
#include "text/unicode.h"
#include "text/utf8.h"

typedef struct Lex
{
	Jin		   *j;
	const char *s;
	size_t		n;
	size_t		at;
	int			line;
	bool		line_starting;	/* the last match ended with a newline */
	JToken	   *t;
	size_t		n_t;
	size_t		cap;
	char		stack[200];		/* closing brackets that are expected */
	int			depth;
} Lex;

static JToken *
add(Lex *x, JTok t)
{
	if (x->n_t == x->cap)
	{
		size_t		cap = x->cap > 0 ? x->cap * 2 : 64;
		JToken	   *grown = jin_alloc(x->j, cap * sizeof(JToken));

		if (x->n_t > 0)
			memcpy(grown, x->t, x->n_t * sizeof(JToken));
		x->t = grown;
		x->cap = cap;
	}
	x->t[x->n_t] = (JToken) {.t = t,.line = x->line};
	return &x->t[x->n_t++];
}

static bool
looking_at(const Lex *x, size_t at, const char *what)
{
	size_t		n = strlen(what);

	return at + n <= x->n && memcmp(x->s + at, what, n) == 0;
}

/* Return the bytes of the white space character at `at`, 0 for anything else. */
static size_t
space_at(const Lex *x, size_t at)
{
	size_t		len;

	if (at >= x->n)
		return 0;
	return jin_is_space(utf8_next(x->s + at, &len)) ? len : 0;
}

static size_t
skip_space(const Lex *x, size_t at)
{
	size_t		len;

	while ((len = space_at(x, at)) > 0)
		at += len;
	return at;
}

/* Advance to `to`, counting lines. */
static void
advance(Lex *x, size_t to)
{
	ALWAYS(to >= x->at && to <= x->n);
	for (size_t i = x->at; i < to; i++)
		x->line += x->s[i] == '\n';
	x->line_starting = to > x->at && x->s[to - 1] == '\n';
	x->at = to;
}

static size_t
rstrip(const Lex *x, size_t from, size_t to)
{
	while (to > from)
	{
		size_t		c = to - 1;
		size_t		len;

		while (c > from && ((unsigned char) x->s[c] & 0xC0) == 0x80)
			c--;
		if (!jin_is_space(utf8_next(x->s + c, &len)))
			break;
		to = c;
	}
	return to;
}

/* Return the end of the text [from, to) before a tag with this sign. */
static size_t
text_end(const Lex *x, size_t from, size_t to, char sign, bool variable)
{
	size_t		start = to;

	if (sign == '-')
		return rstrip(x, from, to);
	if (sign == '+' || variable)
		return to;
	while (start > from && x->s[start - 1] != '\n')
		start--;
	if (start == from && !x->line_starting)
		return to;
	return rstrip(x, start, to) == start ? start : to;
}

/* Add a token with a string.  The string is made before the token: an error must not leave a token
 * without one. */
static void
add_str(Lex *x, JTok t, JStr *s)
{
	add(x, t)->s = s;
}

static void
add_data(Lex *x, size_t from, size_t to)
{
	if (to > from)
		add_str(x, TK_DATA, jin_str(x->j, x->s + from, to - from, false));
}

/* Return the bytes of "%}" at `at` and of what it drops after it; 0 if it isn't there. */
static size_t
end_at(const Lex *x, size_t at, const char *end, bool trim)
{
	if (looking_at(x, at, "-") && looking_at(x, at + 1, end))
		return skip_space(x, at + 3) - at;
	if (trim && looking_at(x, at, "+") && looking_at(x, at + 1, end))
		return 3;
	if (looking_at(x, at, end))
		return trim && looking_at(x, at + 2, "\n") ? 3 : 2;
	return 0;
}

static void
comment(Lex *x)
{
	for (size_t at = x->at; at < x->n; at++)
	{
		size_t		len = end_at(x, at, "#}", true);

		if (len > 0)
		{
			advance(x, at + len);
			return;
		}
	}
	x->j->line = x->line;
	jin_fail(x->j, JE_SYNTAX, "Missing end of comment tag");
}

/* If "{%" at x->at opens a raw block, return where its text begins, else 0. */
static size_t
raw_begin(const Lex *x, size_t at)
{
	at += 2;
	if (at < x->n && (x->s[at] == '-' || x->s[at] == '+'))
		at++;
	at = skip_space(x, at);
	if (!looking_at(x, at, "raw"))
		return 0;
	at = skip_space(x, at + 3);
	if (looking_at(x, at, "-%}"))
		return skip_space(x, at + 3);
	return looking_at(x, at, "%}") ? at + 2 : 0;
}

static void
raw(Lex *x)
{
	size_t		from = x->at;

	for (size_t tag = from; tag + 1 < x->n; tag++)
	{
		size_t		at = tag + 2;
		char		sign = 0;
		size_t		len;

		if (!looking_at(x, tag, "{%"))
			continue;
		if (at < x->n && (x->s[at] == '-' || x->s[at] == '+'))
			sign = x->s[at++];
		at = skip_space(x, at);
		if (!looking_at(x, at, "endraw"))
			continue;
		at = skip_space(x, at + 6);
		len = end_at(x, at, "%}", true);
		if (len == 0)
			continue;
		add_data(x, from, text_end(x, from, tag, sign, false));
		advance(x, at + len);
		return;
	}
	x->j->line = x->line;
	jin_fail(x->j, JE_SYNTAX, "Missing end of raw directive");
}

/* ---- inside of tags ---- */

static void
hex_escape(Lex *x, JBuild *b, const char *s, size_t n, size_t *i, size_t digits)
{
	uint32_t	cp = 0;
	char		out[4];

	for (size_t k = 0; k < digits; k++)
	{
		char		c = *i + 1 + k < n ? s[*i + 1 + k] : 0;

		if (!isxdigit((unsigned char) c))
			jin_fail(x->j, JE_SYNTAX, "truncated \\%cXX escape", s[*i]);
		cp = cp * 16 + (uint32_t) (c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
	}
	if (cp > 0x10FFFF || (cp >= 0xD800 && cp < 0xE000))
		jin_fail(x->j, JE_SYNTAX, "illegal Unicode character");
	jin_build_add(x->j, b, out, utf8_put(out, cp), false);
	*i += digits;
}

static void
octal_escape(Lex *x, JBuild *b, const char *s, size_t n, size_t *i)
{
	uint32_t	cp = 0;
	size_t		k = 0;
	char		out[4];

	while (k < 3 && *i + k < n && s[*i + k] >= '0' && s[*i + k] <= '7')
		cp = cp * 8 + (uint32_t) (s[*i + k++] - '0');
	jin_build_add(x->j, b, out, utf8_put(out, cp), false);
	*i += k - 1;
}

/* Decode the inside of a string literal. */
static JStr *
unescape(Lex *x, const char *s, size_t n)
{
	static const char from[] = "\\'\"abfnrtv";
	static const char to[] = "\\'\"\a\b\f\n\r\t\v";
	JBuild		b = {0};

	for (size_t i = 0; i < n; i++)
	{
		const char *plain;

		if (s[i] != '\\' || i + 1 == n)
		{
			jin_build_add(x->j, &b, s + i, 1, false);
			continue;
		}
		i++;
		plain = s[i] != '\0' ? strchr(from, s[i]) : NULL;
		if (plain != NULL)
			jin_build_add(x->j, &b, to + (plain - from), 1, false);
		else if (s[i] == '\n')
			continue;
		else if (s[i] >= '0' && s[i] <= '7')
			octal_escape(x, &b, s, n, &i);
		else if (s[i] == 'x' || s[i] == 'u' || s[i] == 'U')
			hex_escape(x, &b, s, n, &i, s[i] == 'x' ? 2 : s[i] == 'u' ? 4 : 8);
		else if (s[i] == 'N')
			jin_fail(x->j, JE_REFUSED, "\\N{...} in a string is not supported");
		else
			jin_build_add(x->j, &b, s + i - 1, 2, false);
	}
	return jin_build_done(x->j, &b);
}

static bool
lex_string(Lex *x)
{
	char		quote = x->s[x->at];
	size_t		i = x->at + 1;

	if (quote != '\'' && quote != '"')
		return false;
	while (i < x->n && x->s[i] != quote)
		i += x->s[i] == '\\' ? 2 : 1;
	if (i >= x->n)
		return false;			/* no string: an unexpected character */
	x->j->line = x->line;
	add_str(x, TK_STR, unescape(x, x->s + x->at + 1, i - x->at - 1));
	advance(x, i + 1);
	return true;
}

/* Return the end of the digits at `at`, with single underscores between them. */
static size_t
digits(const Lex *x, size_t at, const char *set)
{
	size_t		end = at;

	while (end < x->n && x->s[end] != '\0' && (strchr(set, x->s[end]) != NULL ||
				(x->s[end] == '_' && end > at && end + 1 < x->n && x->s[end + 1] != '\0' &&
				 strchr(set, x->s[end + 1]) != NULL)))
		end++;
	return end;
}

static void
number_text(Lex *x, size_t from, size_t to, char *out, size_t size)
{
	size_t		n = 0;

	for (size_t i = from; i < to; i++)
		if (x->s[i] != '_')
		{
			if (n + 1 >= size)
				jin_fail(x->j, JE_OVERFLOW, "a number is too long");
			out[n++] = x->s[i];
		}
	out[n] = '\0';
}

static bool
lex_float(Lex *x)
{
	static const char set[] = "0123456789";
	size_t		whole = digits(x, x->at, set);
	size_t		end = whole;
	size_t		e;
	char		text[400];

	if (whole == x->at || (x->at > 0 && x->s[x->at - 1] == '.'))
		return false;
	if (looking_at(x, end, ".") && digits(x, end + 1, set) > end + 1)
		end = digits(x, end + 1, set);
	if (end < x->n && (x->s[end] | 32) == 'e')
	{
		e = end + 1;
		if (e < x->n && (x->s[e] == '+' || x->s[e] == '-'))
			e++;
		if (digits(x, e, set) > e)
			end = digits(x, e, set);
	}
	if (end == whole)
		return false;
	number_text(x, x->at, end, text, sizeof(text));
	add(x, TK_FLOAT)->f = strtod(text, NULL);
	advance(x, end);
	return true;
}

static bool
lex_int(Lex *x)
{
	int			base = 10;
	size_t		from = x->at;
	size_t		end;
	char		text[80];

	if (!isdigit((unsigned char) x->s[from]))
		return false;
	if (x->s[from] == '0' && from + 1 < x->n)
	{
		static const char *const sets[] = {"01", "01234567", "0123456789abcdefABCDEF"};
		char		c = (char) (x->s[from + 1] | 32);
		int			k = c == 'b' ? 0 : c == 'o' ? 1 : c == 'x' ? 2 : -1;

		if (k >= 0 && digits(x, from + 2, sets[k]) > from + 2)
		{
			base = k == 0 ? 2 : k == 1 ? 8 : 16;
			from += 2;
			end = digits(x, from, sets[k]);
		}
	}
	if (base == 10)
		end = digits(x, from, x->s[from] == '0' ? "0" : "0123456789");
	number_text(x, from, end, text, sizeof(text));
	errno = 0;
	add(x, TK_INT)->i = strtoll(text, NULL, base);
	if (errno != 0)
		jin_fail(x->j, JE_OVERFLOW, "an integer does not fit into 64 bits");
	advance(x, end);
	return true;
}

static bool
lex_name(Lex *x)
{
	size_t		end = x->at;
	size_t		len;

	while (end < x->n && (uni_class(utf8_next(x->s + end, &len)) & UNI_WORD) != 0)
		end += len;
	if (end == x->at)
		return false;
	add_str(x, TK_NAME, jin_str(x->j, x->s + x->at, end - x->at, false));
	advance(x, end);
	return true;
}

static const struct
{
	char		s[3];
	JTok		t;
}			operators[] = {
	{"//", TK_FLOORDIV}, {"**", TK_POW}, {"==", TK_EQ}, {"!=", TK_NE}, {">=", TK_GE}, {"<=", TK_LE},
	{"+", TK_ADD}, {"-", TK_SUB}, {"/", TK_DIV}, {"*", TK_MUL}, {"%", TK_MOD}, {"~", TK_TILDE},
	{"[", TK_LBRACKET}, {"]", TK_RBRACKET}, {"(", TK_LPAREN}, {")", TK_RPAREN}, {"{", TK_LBRACE},
	{"}", TK_RBRACE},
	{">", TK_GT}, {"<", TK_LT}, {"=", TK_ASSIGN}, {".", TK_DOT}, {":", TK_COLON}, {"|", TK_PIPE},
	{",", TK_COMMA}, {";", TK_SEMICOLON}
};

static void
balance(Lex *x, JTok t)
{
	char		c = t == TK_LBRACE ? '}' : t == TK_LPAREN ? ')' : t == TK_LBRACKET ? ']' : 0;

	x->j->line = x->line;
	if (c != 0)
	{
		if (x->depth == (int) sizeof(x->stack))
			jin_fail(x->j, JE_LIMIT, "brackets are nested too deeply");
		x->stack[x->depth++] = c;
		return;
	}
	c = t == TK_RBRACE ? '}' : t == TK_RPAREN ? ')' : t == TK_RBRACKET ? ']' : 0;
	if (c == 0)
		return;
	if (x->depth == 0)
		jin_fail(x->j, JE_SYNTAX, "unexpected '%c'", c);
	if (x->stack[--x->depth] != c)
		jin_fail(x->j, JE_SYNTAX, "unexpected '%c', expected '%c'", c, x->stack[x->depth]);
}

static bool
lex_operator(Lex *x)
{
	for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
		if (looking_at(x, x->at, operators[i].s))
		{
			balance(x, operators[i].t);
			add(x, operators[i].t);
			advance(x, x->at + strlen(operators[i].s));
			return true;
		}
	return false;
}

/* Read the tokens of a block or variable up to its end. */
static void
inside(Lex *x, bool block)
{
	x->depth = 0;
	for (;;)
	{
		size_t		len = x->depth == 0 ? end_at(x, x->at, block ? "%}" : "}}", block) : 0;

		if (len > 0)
		{
			add(x, block ? TK_BLOCK_END : TK_VAR_END);
			advance(x, x->at + len);
			return;
		}
		if (x->at == x->n)
			return;				/* the parser will report the missing end */
		if (space_at(x, x->at) > 0)
			advance(x, skip_space(x, x->at));
		else if (!lex_float(x) && !lex_int(x) && !lex_name(x) && !lex_string(x) && !lex_operator(x))
		{
			x->j->line = x->line;
			utf8_next(x->s + x->at, &len);
			jin_fail(x->j, JE_SYNTAX, "unexpected char %s at %zu",
					 jin_repr_c(x->j, jin_sval(jin_str(x->j, x->s + x->at, len, false))), x->at);
		}
	}
}

/* Read one tag and the text before it; return false if there is no further tag. */
static bool
lex_root(Lex *x)
{
	size_t		tag = x->at;
	size_t		from = x->at;
	size_t		text;
	char		kind = 0;
	char		sign = 0;

	for (; tag + 1 < x->n; tag++)
		if (x->s[tag] == '{' && memchr("{%#", x->s[tag + 1], 3) != NULL)
		{
			kind = x->s[tag + 1];
			break;
		}
	if (kind == 0)
	{
		add_data(x, from, x->n);
		return false;
	}
	if (tag + 2 < x->n && (x->s[tag + 2] == '-' || x->s[tag + 2] == '+'))
		sign = x->s[tag + 2];
	add_data(x, from, text_end(x, from, tag, sign, kind == '{'));
	advance(x, tag);
	text = kind == '%' ? raw_begin(x, tag) : 0;
	if (text > 0)
	{
		advance(x, text);
		raw(x);
		return true;
	}
	if (kind != '#')
		add(x, kind == '%' ? TK_BLOCK_BEGIN : TK_VAR_BEGIN);
	advance(x, tag + 2 + (sign != 0));
	if (kind == '#')
		comment(x);
	else
		inside(x, kind == '%');
	ALWAYS(x->at > from);		/* each call goes on, so that the loop ends */
	return true;
}

/* Return the source with all newlines as \n, and without one at its end. */
static char *
normalize(Jin *j, const char *s, size_t *n)
{
	char	   *r = jin_alloc(j, *n);
	size_t		len = 0;

	for (size_t i = 0; i < *n; i++)
	{
		r[len++] = s[i] == '\r' ? '\n' : s[i];
		if (s[i] == '\r' && i + 1 < *n && s[i + 1] == '\n')
			i++;
	}
	if (len > 0 && r[len - 1] == '\n')
		len--;
	*n = len;
	return r;
}

static void
lex_all(Jin *j, void *arg)
{
	Lex		   *x = arg;

	(void) j;
	while (lex_root(x))
		;
	add(x, TK_EOF);
}

JToken *
jin_lex(Jin *j, const char *s, size_t n)
{
	Lex			x = {.j = j,.line = 1,.line_starting = true};
	Err		   *err = j->err;
	int			nesting = j->nesting;
	jmp_buf		escape;
	bool		ok;

	memcpy(escape, j->escape, sizeof(jmp_buf));

	x.s = normalize(j, s, &n);
	x.n = n;
	/* keep the error: the parser may find an earlier one */
	ok = jin_guard(j, lex_all, &x, &j->lex_err);
	memcpy(j->escape, escape, sizeof(jmp_buf));
	j->err = err;
	j->nesting = nesting;
	if (!ok)
		add(&x, TK_ERROR);
	ALWAYS(x.n_t > 0 && x.t[x.n_t - 1].t == (ok ? TK_EOF : TK_ERROR));
	return x.t;
}

const char *
jin_tok_name(JTok t)
{
	static const char *const names[] = {
		[TK_EOF] = "end of template",[TK_ERROR] = "?",[TK_DATA] = "template data / text",
		[TK_VAR_BEGIN] = "begin of print statement", [TK_VAR_END] = "end of print statement",
		[TK_BLOCK_BEGIN] = "begin of statement block", [TK_BLOCK_END] = "end of statement block",
		[TK_NAME] = "name",[TK_STR] = "string",[TK_INT] = "integer", [TK_FLOAT] = "float"
	};

	if (t <= TK_FLOAT)
	{
		ASSERT(names[t] != NULL);
		return names[t];
	}
	for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
		if (operators[i].t == t)
			return operators[i].s;
	return "?";
}

const char *
jin_token_name(Jin *j, const JToken *t)
{
	if (t->t == TK_NAME)
		return jin_repr_c(j, jin_sval(t->s));
	return jin_repr_c(j, jin_cstr(j, jin_tok_name(t->t)));
}
