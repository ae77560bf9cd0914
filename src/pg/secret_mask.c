/*
 * secret_mask.c
 *	  Texts without what they may give llm_set_secret().
 *
 * In a statement that names the function every string and dollar quote becomes ***: a secret may stand in VALUES or in a CTE as well
 * as in the call.  Of a call's arguments words become ***, too.  All else is left as it is, and so is a statement
 * where only a comment names the function: nobody gets a whole statement out of the server's log by writing the name into it.
 *
 * The name is found in whatever way it is written: in capitals, quoted, with the escapes of E'' and U&"", in a body that DO
 * runs or that a function has.  A body that names it, and is SQL or PL/pgSQL, is shown as code without its strings.  A name
 * that a statement puts together ('llm_set' || '_secret') isn't found.
 *
 * The scanner knows strings (also E'' and $$), quoted names, comments and words.  In a statement that doesn't name the function it
 * looks into strings for EXECUTE of a prepared one.  Where a text ends within a call, the rest is masked.
 *
 * Tests: tests/t/114_secrets.pl.
 */
#include "postgres.h"

#include <ctype.h>

#include "lib/stringinfo.h"
#include "parser/parser.h"

#include "pg/secret_mask.h"

#define NAME		"llm_set_secret"
#define MASK		"***"
#define NAMED_MASK	"*** " NAME " ***"	/* for a string that names it */
#define MAX_DEPTH	32			/* of strings in strings; what is further in is masked whole */

typedef struct Masker
{
	StringInfoData out;
	const char *from;			/* what is not copied yet begins here */
	SecretPrepared prepared;
	int			depth;
	bool		named;			/* the statement names the function: no string is shown */
	bool		code;			/* bodies are SQL or PL/pgSQL */
	bool		names_quoted;	/* " begins a name; otherwise it stands for itself, as in messages */
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

/* The same of SQL: without standard_conforming_strings all strings have backslashes. */
static const char *
sql_quoted_end(const char *p, const char *end, bool backslashes)
{
	return quoted_end(p, end, backslashes || (*p == '\'' && !standard_conforming_strings));
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

/* ---- the name ---- */

/* Do n digits of the base at p say c? */
static bool
is_code(const char *p, const char *end, int n, int base, char c)
{
	int			value = 0;

	if (end - p < n)
		return false;
	for (int i = 0; i < n; i++)
	{
		int			digit = isdigit((unsigned char) p[i]) ? p[i] - '0' : isxdigit((unsigned char) p[i]) ? tolower((unsigned char) p[i]) - 'a' + 10 : base;

		if (digit >= base)
			return false;
		value = (value & 0xffffff) * base + digit;
	}
	return value == (unsigned char) c || value == pg_toupper((unsigned char) c);
}

/* Behind the character c, a small letter or _, as it is or with an escape; NULL: it isn't at p.  U&'s escape may be any character. */
static const char *
match_char(const char *p, const char *end, char c)
{
	if (p < end && pg_tolower((unsigned char) *p) == (unsigned char) c)
		return p + 1;
	/* in strings within strings they are doubled */
	while (p + 1 < end && p[0] == '\\' && p[1] == '\\')
		p++;
	if (end - p < 2)
		return NULL;
	if (is_code(p + 1, end, 4, 16, c))
		return p + 5;
	if (p[1] == '+' && is_code(p + 2, end, 6, 16, c))
		return p + 8;
	if (*p != '\\')
		return NULL;
	if (p[1] == 'x' && is_code(p + 2, end, 2, 16, c))
		return p + 4;
	if (p[1] == 'u' && is_code(p + 2, end, 4, 16, c))
		return p + 6;
	if (p[1] == 'U' && is_code(p + 2, end, 8, 16, c))
		return p + 10;
	if (is_code(p + 1, end, 3, 8, c))
		return p + 4;
	return pg_tolower((unsigned char) p[1]) == (unsigned char) c ? p + 2 : NULL;
}

/* Behind the function's name; NULL: it isn't at p. */
static const char *
match_name(const char *p, const char *end)
{
	for (const char *c = NAME; *c != '\0' && p != NULL; c++)
		p = match_char(p, end, *c);
	return p;
}

/* Where the name is next; *behind: where it ends. */
static const char *
find_name(const char *p, const char *end, const char **behind)
{
	for (; p < end; p++)
		if ((*behind = match_name(p, end)) != NULL)
			return p;
	return NULL;
}

static bool
has_name(const char *p, const char *end)
{
	const char *behind;

	return find_name(p, end, &behind) != NULL;
}

/* Is LANGUAGE said, and is it neither SQL nor PL/pgSQL? */
static bool
other_language(const char *p, const char *end)
{
	static const char *const known[] = {"sql", "plpgsql", "'sql'", "'plpgsql'", "\"sql\"", "\"plpgsql\""};
	const char *behind;

	p = skip_space(p, end);
	if (p >= end)
		return false;
	behind = *p == '\'' || *p == '"' ? sql_quoted_end(p, end, false) : word_end(p, end);
	for (int i = 0; i < (int) lengthof(known); i++)
		if (same_word(p, behind - p, known[i]))
			return false;
	return true;
}

/* Does code name the function, in no comment?  *foreign: it says that its bodies are in another language. */
static bool
code_names(const char *p, const char *end, int depth, bool *foreign)
{
	bool		named = false;

	while (p < end)
	{
		const char *start = p;
		int			tag;

		if (is_comment(p, end))
		{
			p = comment_end(p, end);
			continue;
		}
		if ((tag = dollar_tag(p, end)) > 0)
		{
			const char *close = dollar_close(p, end, tag);
			bool		ignored;

			named = named || (depth < MAX_DEPTH ? code_names(p + tag, close, depth + 1, &ignored) : has_name(p, close));
			p = Min(close + tag, end);
			continue;
		}
		if (*p == '\'' || *p == '"')
			p = sql_quoted_end(p, end, false);
		else if (is_word(*p))
		{
			p = word_end(p, end);
			if (p < end && *p == '\'' && p == start + 1 && (*start == 'E' || *start == 'e'))
				p = sql_quoted_end(p, end, true);
			else if (same_word(start, p - start, "language"))
				*foreign = *foreign || other_language(p, end);
		}
		else
			p++;
		named = named || has_name(start, p);
	}
	return named;
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
			replace(m, start, p = sql_quoted_end(p, end, false), "'" MASK "'");
		else if ((tag = dollar_tag(p, end)) > 0)
			replace(m, start, p = Min(dollar_close(p, end, tag) + tag, end), "'" MASK "'");
		else if (*p == '"' || is_word(*p))
		{
			bool		param = *p == '$';
			const char *next;

			/* E'...' */
			if (p + 1 < end && p[1] == '\'' && (*p == 'E' || *p == 'e'))
			{
				replace(m, start, p = sql_quoted_end(p + 1, end, true), "'" MASK "'");
				continue;
			}
			p = *p == '"' ? sql_quoted_end(p, end, false) : word_end(p, end);
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

	if (match_name(name, name + n) == name + n && next < end && *next == '(')
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
	behind = *name == '"' ? sql_quoted_end(name, end, false) : word_end(name, end);
	next = skip_space(behind, end);
	if (behind == name || next >= end || *next != '(')
		return p;
	s = *name == '"' ? pnstrdup(name + 1, behind - name - 2) : pnstrdup(name, behind - name);
	for (char *c = s; *c != '\0' && *name != '"'; c++)
		*c = pg_tolower((unsigned char) *c);
	return m->prepared(s) ? mask_arguments(m, next + 1, end) : p;
}

/* Every call between p and end, whatever stands around it. */
static void
scan_flat(Masker *m, const char *p, const char *end)
{
	const char *behind;

	while ((p = find_name(p, end, &behind)) != NULL)
	{
		m->found = true;
		p = after_name(m, p, behind - p, behind < end && *behind == '"' ? behind + 1 : behind, end);
	}
}

/* The string or quoted name at p, and code in it. */
static const char *
scan_quoted(Masker *m, const char *begin, const char *p, const char *end)
{
	const char *start = p;
	bool		escapes = *p == '\'' && p > begin && (p[-1] == 'E' || p[-1] == 'e') && (p - 1 == begin || !is_word(p[-2]));
	const char *inside_end;

	p = sql_quoted_end(p, end, escapes);
	inside_end = p > start + 1 && p[-1] == *start ? p - 1 : p;
	if (m->named && *start == '\'')
		replace(m, start, p, has_name(start, p) ? "'" NAMED_MASK "'" : "'" MASK "'");
	else if (!m->named)
		scan(m, start + 1, inside_end);
	else if (has_name(start, p) && match_name(start + 1, inside_end) != inside_end)
		replace(m, start, p, "\"" NAMED_MASK "\"");
	return *start == '"' ? after_name(m, start + 1, inside_end - start - 1, p, end) : p;
}

/* The dollar quote at p. */
static const char *
scan_dollars(Masker *m, const char *p, const char *end, int tag)
{
	const char *close = dollar_close(p, end, tag);
	const char *behind = Min(close + tag, end);
	bool		foreign = false;

	if (!m->named || (m->code && m->depth < MAX_DEPTH && code_names(p + tag, close, m->depth, &foreign)))
		scan(m, p + tag, close);
	else
		replace(m, p, behind, has_name(p, close) ? "'" NAMED_MASK "'" : "'" MASK "'");
	return behind;
}

/* Code. */
static void
scan(Masker *m, const char *begin, const char *end)
{
	const char *p = begin;

	if (m->depth == MAX_DEPTH)
	{
		if (m->named)
			replace(m, begin, end, MASK);
		return;
	}
	m->depth++;
	while (p < end)
	{
		const char *start = p;
		int			tag;

		if (is_comment(p, end))
			p = comment_end(p, end);
		else if (*p == '\'' || (*p == '"' && m->names_quoted))
			p = scan_quoted(m, begin, p, end);
		else if ((tag = dollar_tag(p, end)) > 0)
			p = scan_dollars(m, p, end, tag);
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

bool
secret_named(const char *text)
{
	return has_name(text, text + strlen(text));
}

char *
secret_mask_statement(const char *sql, SecretPrepared prepared)
{
	Masker		m = {.from = sql,.prepared = prepared,.names_quoted = true};
	const char *end = sql + strlen(sql);
	bool		foreign = false;

	if (has_name(sql, end))
		m.found = m.named = code_names(sql, end, 0, &foreign);
	if (!m.named && strcasestr(sql, "execute") == NULL)
		return NULL;
	m.code = !foreign;
	initStringInfo(&m.out);
	scan(&m, sql, end);
	return finish(&m, end);
}

char *
secret_mask_strings(const char *text)
{
	Masker		m = {.from = text,.named = true,.found = true};
	const char *end = text + strlen(text);

	initStringInfo(&m.out);
	scan(&m, text, end);
	return finish(&m, end);
}

char *
secret_mask_text(const char *text)
{
	Masker		calls = {.from = text};
	const char *end = text + strlen(text);

	if (!has_name(text, end))
		return NULL;
	/* a message's own quotes may make strings of what isn't, and the other way around: so calls first, whatever stands around them */
	initStringInfo(&calls.out);
	scan_flat(&calls, text, end);
	return secret_mask_strings(finish(&calls, end));
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
