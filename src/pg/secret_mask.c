/*
 * secret_mask.c
 *	  Texts without the arguments of calls of llm_set_secret().
 *
 * What is hidden is what stands between the parentheses of a call: constants, and words that are no function's name,
 * become ***.  All else is left as it is, and a comment that names the function is no call: nobody gets
 * a statement out of the server's log by writing the name into it.
 *
 * The scanner knows strings (also E'' and $$), quoted names, comments and words, as much of SQL as is needed to find calls.
 * It looks into strings and quoted names as well, for code stands there: in DO, in EXECUTE of PL/pgSQL, in what messages quote.
 * Where a text ends within a call, the rest is masked.
 *
 * Tests: tests/t/114_secrets.pl.
 */
#include "postgres.h"

#include <ctype.h>

#include "lib/stringinfo.h"

#include "pg/secret_mask.h"

#define NAME		"llm_set_secret"
#define MASK		"***"
#define MAX_DEPTH	32			/* of strings in strings; further in calls are found without looking at quotes */

typedef struct Masker
{
	StringInfoData out;
	const char *from;			/* what is not copied yet begins here */
	SecretPrepared prepared;
	int			depth;
	bool		found;
} Masker;

static void scan(Masker *m, const char *begin, const char *end);

/* ---- tokens ---- */

static bool
is_word(char c)
{
	return isalnum((unsigned char) c) || c == '_' || c == '$' || IS_HIGHBIT_SET(c);
}

static const char *
word_end(const char *p, const char *end)
{
	while (p < end && is_word(*p))
		p++;
	return p;
}

/* Behind the string or quoted name that begins at p; doubled quotes are part of it. */
static const char *
quoted_end(const char *p, const char *end, bool backslashes)
{
	char		quote = *p++;

	for (; p < end; p++)
	{
		if (backslashes && *p == '\\' && p + 1 < end)
			p++;
		else if (*p == quote && p + 1 < end && p[1] == quote)
			p++;
		else if (*p == quote)
			return p + 1;
	}
	return end;
}

/* The length of a dollar quote's delimiter at p; 0: it is none. */
static int
dollar_tag(const char *p, const char *end)
{
	const char *q = p + 1;

	if (*p != '$' || (q < end && isdigit((unsigned char) *q)))
		return 0;
	while (q < end && *q != '$' && is_word(*q))
		q++;
	return q < end && *q == '$' ? (int) (q + 1 - p) : 0;
}

/* Where the delimiter's second occurrence begins. */
static const char *
dollar_close(const char *p, const char *end, int tag)
{
	for (const char *q = p + tag; q + tag <= end; q++)
		if (memcmp(q, p, tag) == 0)
			return q;
	return end;
}

static bool
is_comment(const char *p, const char *end)
{
	return p + 1 < end && ((p[0] == '-' && p[1] == '-') || (p[0] == '/' && p[1] == '*'));
}

static const char *
comment_end(const char *p, const char *end)
{
	int			depth = 0;

	if (*p == '-')
	{
		while (p < end && *p != '\n')
			p++;
		return p;
	}
	while (p < end)
	{
		if (p + 1 < end && p[0] == '/' && p[1] == '*')
			depth++, p += 2;
		else if (p + 1 < end && p[0] == '*' && p[1] == '/')
		{
			p += 2;
			if (--depth == 0)
				return p;
		}
		else
			p++;
	}
	return end;
}

/* The next thing that is neither space nor comment. */
static const char *
skip_space(const char *p, const char *end)
{
	while (p < end)
	{
		if (isspace((unsigned char) *p))
			p++;
		else if (is_comment(p, end))
			p = comment_end(p, end);
		else
			break;
	}
	return p;
}

static bool
same_word(const char *p, size_t n, const char *word)
{
	return n == strlen(word) && pg_strncasecmp(p, word, n) == 0;
}

/* ---- calls ---- */

static void
replace(Masker *m, const char *from, const char *to, const char *with)
{
	appendBinaryStringInfo(&m->out, m->from, from - m->from);
	appendStringInfoString(&m->out, with);
	m->from = to;
}

/* p: behind the opening parenthesis; the result is behind the closing one. */
static const char *
mask_arguments(Masker *m, const char *p, const char *end)
{
	int			depth = 1;

	m->found = true;
	while (p < end && depth > 0)
	{
		const char *start = p;
		int			tag;

		if (is_comment(p, end))
			replace(m, start, p = comment_end(p, end), " ");
		else if (*p == '\'')
			replace(m, start, p = quoted_end(p, end, false), "'" MASK "'");
		else if ((tag = dollar_tag(p, end)) > 0)
			replace(m, start, p = Min(dollar_close(p, end, tag) + tag, end), "'" MASK "'");
		else if (*p == '"' || is_word(*p))
		{
			bool		param = *p == '$';
			const char *next;

			/* E'...' */
			if (p + 1 < end && p[1] == '\'' && (*p == 'E' || *p == 'e'))
			{
				replace(m, start, p = quoted_end(p + 1, end, true), "'" MASK "'");
				continue;
			}
			p = *p == '"' ? quoted_end(p, end, false) : word_end(p, end);
			next = skip_space(p, end);
			if (!param && !(next < end && *next == '('))
				replace(m, start, p, MASK);
		}
		else
		{
			depth += *p == '(' ? 1 : *p == ')' ? -1 : 0;
			p++;
		}
	}
	return p;
}

/* A word, or what a quoted name has in it, ends at p: if it is the function's name and has arguments, mask them. */
static const char *
after_name(Masker *m, const char *name, size_t n, const char *p, const char *end)
{
	const char *next = skip_space(p, end);

	if (same_word(name, n, NAME) && next < end && *next == '(')
		return mask_arguments(m, next + 1, end);
	return p;
}

/* EXECUTE stands before p: with a statement that calls the function its arguments are the call's. */
static const char *
after_execute(Masker *m, const char *p, const char *end)
{
	const char *name = skip_space(p, end);
	const char *behind;
	const char *next;
	char	   *s;

	if (m->prepared == NULL || name >= end)
		return p;
	behind = *name == '"' ? quoted_end(name, end, false) : word_end(name, end);
	next = skip_space(behind, end);
	if (behind == name || next >= end || *next != '(')
		return p;
	s = *name == '"' ? pnstrdup(name + 1, behind - name - 2) : pnstrdup(name, behind - name);
	for (char *c = s; *c != '\0' && *name != '"'; c++)
		*c = pg_tolower((unsigned char) *c);
	return m->prepared(s) ? mask_arguments(m, next + 1, end) : p;
}

static const char *
find_name(const char *p, const char *end)
{
	const char *at = p < end ? strcasestr(p, NAME) : NULL;

	return at != NULL && at + strlen(NAME) <= end ? at : NULL;
}

/* Every call between p and end, whatever stands around it. */
static void
scan_flat(Masker *m, const char *p, const char *end)
{
	while ((p = find_name(p, end)) != NULL)
	{
		p += strlen(NAME);
		if (p < end && *p == '"')
			p++;
		p = after_name(m, NAME, strlen(NAME), p, end);
	}
}

/* The string or quoted name at p, and code in it. */
static const char *
scan_quoted(Masker *m, const char *begin, const char *p, const char *end)
{
	const char *start = p;
	bool		escapes = *p == '\'' && p > begin && (p[-1] == 'E' || p[-1] == 'e') && (p - 1 == begin || !is_word(p[-2]));
	const char *inside_end;

	p = quoted_end(p, end, escapes);
	inside_end = p > start + 1 && p[-1] == *start ? p - 1 : p;
	scan(m, start + 1, inside_end);
	return *start == '"' ? after_name(m, start + 1, inside_end - start - 1, p, end) : p;
}

/* Code. */
static void
scan(Masker *m, const char *begin, const char *end)
{
	const char *p = begin;

	if (m->depth == MAX_DEPTH)
	{
		scan_flat(m, begin, end);
		return;
	}
	m->depth++;
	while (p < end)
	{
		const char *start = p;
		int			tag;

		if (is_comment(p, end))
			p = comment_end(p, end);
		else if (*p == '\'' || *p == '"')
			p = scan_quoted(m, begin, p, end);
		else if ((tag = dollar_tag(p, end)) > 0)
		{
			const char *close = dollar_close(p, end, tag);

			scan(m, p + tag, close);
			p = Min(close + tag, end);
		}
		else if (is_word(*p))
		{
			p = word_end(p, end);
			if (same_word(start, p - start, "execute"))
				p = after_execute(m, p, end);
			else
				p = after_name(m, start, p - start, p, end);
		}
		else
			p++;
	}
	m->depth--;
}

/* ---- whole texts ---- */

static char *
finish(Masker *m, const char *end)
{
	if (!m->found)
		return NULL;
	replace(m, end, end, "");
	return m->out.data;
}

char *
secret_mask_statement(const char *sql, SecretPrepared prepared)
{
	Masker		m = {.from = sql,.prepared = prepared};
	const char *end = sql + strlen(sql);

	if (find_name(sql, end) == NULL && strcasestr(sql, "execute") == NULL)
		return NULL;
	initStringInfo(&m.out);
	scan(&m, sql, end);
	return finish(&m, end);
}

char *
secret_mask_text(const char *text)
{
	Masker		m = {.from = text};
	const char *end = text + strlen(text);

	if (find_name(text, end) == NULL)
		return NULL;
	initStringInfo(&m.out);
	scan_flat(&m, text, end);
	return finish(&m, end);
}

char *
secret_mask_quoted(const char *text, char quote)
{
	Masker		m = {.from = text,.found = true};
	const char *end = text + strlen(text);
	const char *p = strchr(text, quote);
	char		with[] = {quote, '*', '*', '*', quote, '\0'};

	initStringInfo(&m.out);
	while (p != NULL)
	{
		const char *start = p;

		replace(&m, start, p = quoted_end(p, end, false), with);
		p = strchr(p, quote);
	}
	return finish(&m, end);
}
