/*
 * secret_mask.c
 *	  Masking of secrets in texts that call llm_set_secret().
 *
 * In a statement that names the function every string and dollar quote becomes ***: the secret may be
 * in VALUES or in a CTE as well as in the call.  In a call's arguments, words become ***, too.
 * Everything else is left unchanged, and so is a statement where only a comment names the function: a
 * user can't hide a whole statement from the server's log by writing the name into it.
 *
 * The name is found however it is written: in capitals, quoted, with the escapes of E'' and U&"", in
 * a body that DO runs or that a function has.  A body that names it, and is SQL or PL/pgSQL, is shown
 * as code with its strings masked.  A name that a statement concatenates ('llm_set' || '_secret')
 * isn't found.
 *
 * The scanner recognises strings (also E'' and $$), quoted names, comments and words.  In a statement
 * that doesn't name the function, it looks into strings for EXECUTE of a prepared statement.  If a
 * text ends within a call, the rest is masked.
 *
 * All this runs where nothing can interrupt it, on texts that any user may have written.  So its work
 * is bounded by the text's length, not by its content.  Each level of strings in strings is read
 * once, and all levels except the first share an allowance (INNER_WORK).  The text after a name is
 * read once, however many names come before it.  The number of look-ups of prepared statements is
 * limited.
 *
 * Tests: tests/unit/pg/catalog/test_secret_mask.c (against a plain scanner; times), tests/t/114_secrets.pl.
 */
#include "postgres.h"

#include <ctype.h>

#include "lib/stringinfo.h"
#include "parser/parser.h"

#include "base/assert.h"
#include "pg/catalog/secret_mask.h"
#include "pg/catalog/secret_name.h"

#define MASK		"***"
#define NAMED_MASK	"*** " SECRET_NAME " ***"	/* for a string that has the name */
#define MAX_DEPTH	32			/* levels of strings in strings; deeper strings are masked completely */
/* bytes inside strings that may be read again; strings beyond that are masked completely */
#define INNER_WORK	(2 * SECRET_LONGEST)
#define BRIEF		64			/* bytes of space and comments that are read after each name without
								 * counting */
#define MAX_LOOKUPS	1000		/* look-ups of prepared statements; a later EXECUTE counts as a call */

typedef struct Masker
{
	StringInfoData out;
	const char *from;			/* start of the text that is not copied yet */
	SecretPrepared prepared;
	int			depth;
	bool		named;			/* the statement names the function: mask all strings */
	bool		code;			/* bodies of DO and of functions are SQL or PL/pgSQL */
	bool		names_quoted;	/* " starts a quoted name; otherwise it is a plain character, as in
								 * messages */
	bool		found;
	size_t		work;			/* what is left of INNER_WORK */
	int			lookups;		/* look-ups of prepared statements so far */
	char		looked_up[NAMEDATALEN]; /* name of the last look-up, and its result in `answer` */
	bool		answer;
	SecretNames names;
} Masker;

static void scan(Masker *m, const char *begin, const char *end);

/* ---- tokens ---- */

/* Bytes of a word: letters, digits, non-ASCII. */
static const bool word_byte[256] = {
	['$'] = true,['0' ... '9'] = true,['A' ... 'Z'] = true,['_'] = true,['a' ... 'z'] = true,
	[0x80 ... 0xff] = true
};

static inline bool
is_word(char c)
{
	return word_byte[(unsigned char) c];
}

/* Return true if n bytes may be read again, and charge them. */
static bool
afford(size_t *work, size_t n)
{
	if (n > *work)
		return false;
	*work -= n;
	return true;
}

static const char *
word_end(const char *p, const char *end)
{
	while (p < end && is_word(*p))
		p++;
	return p;
}

/* Return the end of the string or quoted name that begins at p; doubled quotes are part of it. */
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

/*
 * Like quoted_end(), for SQL: without standard_conforming_strings backslashes are escapes in all
 * strings.
 */
static const char *
sql_quoted_end(const char *p, const char *end, bool backslashes)
{
	return quoted_end(p, end, backslashes || (*p == '\'' && !standard_conforming_strings));
}

/* Return the length of a dollar quote's delimiter at p; 0 if there is none. */
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

/* Return the start of the delimiter's second occurrence. */
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

/* Return the next position that is neither space nor comment. */
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

/* ---- the name in code ---- */

/* Return true if the word after LANGUAGE at p is neither SQL nor PL/pgSQL. */
static bool
other_language(const char *p, const char *end)
{
	static const char *const known[] = {"sql", "plpgsql", "'sql'", "'plpgsql'", "\"sql\"", "\"plpgsql\""};
	const char *after;

	p = skip_space(p, end);
	if (p >= end)
		return false;
	after = *p == '\'' || *p == '"' ? sql_quoted_end(p, end, false) : word_end(p, end);
	for (int i = 0; i < (int) lengthof(known); i++)
		if (same_word(p, after - p, known[i]))
			return false;
	return true;
}

/* State of code_names(). */
typedef struct SecretMaskReading
{
	SecretNames names;
	size_t	   *work;
	bool		foreign;		/* LANGUAGE names another language for bodies */
} SecretMaskReading;

static bool
code_names(SecretMaskReading *r, const char *p, const char *end, int depth)
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
			bool		foreign = r->foreign;

			if (!named && depth < MAX_DEPTH && afford(r->work, close - p))
				named = code_names(r, p + tag, close, depth + 1);
			else
				named = named || secret_names_within(&r->names, p, close);
			r->foreign = foreign;
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
				r->foreign = r->foreign || other_language(p, end);
		}
		else
			p++;
		named = named || secret_names_within(&r->names, start, p);
	}
	return named;
}

/* Return true if code names the function outside of comments. */
static bool
names_in_code(const char *p, const char *end, int depth, size_t *work, bool *foreign)
{
	SecretMaskReading r = {.work = work};
	bool		named;

	secret_names_begin(&r.names, p, end);
	if (foreign == NULL && r.names.at == NULL)
		return false;
	named = code_names(&r, p, end, depth);
	if (foreign != NULL)
		*foreign = r.foreign;
	return named;
}

/* ---- calls ---- */

static void
replace(Masker *m, const char *from, const char *to, const char *with)
{
	/* what is masked is never copied again: texts are read from the left to the right */
	ASSERT(m->from <= from && from <= to);
	appendBinaryStringInfo(&m->out, m->from, from - m->from);
	appendStringInfoString(&m->out, with);
	m->from = to;
}

/*
 * Mask a call's arguments.  p: after the opening parenthesis; returns the position after the closing
 * one.
 */
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

/*
 * A word, or the content of a quoted name, ends at p.  If it is the function's name and arguments
 * follow, mask them.
 */
static const char *
after_name(Masker *m, const char *name, size_t n, const char *p, const char *end)
{
	const char *next;

	if (secret_name_match(name, name + n) != name + n)
		return p;
	next = skip_space(p, end);
	return next < end && *next == '(' ? mask_arguments(m, next + 1, end) : p;
}

/* Return true if the prepared statement of this name calls the function. */
static bool
prepared_calls(Masker *m, const char *name, size_t n)
{
	char		s[NAMEDATALEN];
	bool		quoted = *name == '"';
	size_t		k = 0;

	if (quoted)
		name++, n -= 2;
	for (size_t i = 0; i < n && k < sizeof(s) - 1; i++)
	{
		s[k++] = quoted ? name[i] : pg_tolower((unsigned char) name[i]);
		/* a quote within the name is doubled */
		i += quoted && name[i] == '"';
	}
	s[k] = '\0';
	if (m->lookups == 0 || strcmp(s, m->looked_up) != 0)
	{
		if (m->lookups == MAX_LOOKUPS)
			return true;
		m->lookups++;
		m->answer = m->prepared(s);
		strcpy(m->looked_up, s);
	}
	return m->answer;
}

/* Return the end of U&"name", with UESCAPE if there is one; NULL if it is none. */
static const char *
escaped_name_end(const char *name, const char *end)
{
	const char *p;
	const char *next;

	if (end - name < 3 || (*name | 0x20) != 'u' || name[1] != '&' || name[2] != '"')
		return NULL;
	p = sql_quoted_end(name + 2, end, false);
	next = skip_space(p, end);
	if (!same_word(next, word_end(next, end) - next, "uescape"))
		return p;
	next = skip_space(word_end(next, end), end);
	return next < end && *next == '\'' ? sql_quoted_end(next, end, false) : p;
}

/*
 * Return the end of the name after EXECUTE.  *escaped: the name has escapes, is not decoded and may
 * be any.
 */
static const char *
executed_name_end(const char *name, const char *end, bool *escaped)
{
	const char *after = escaped_name_end(name, end);

	*escaped = after != NULL;
	if (after != NULL)
		return after;
	return name < end && *name == '"' ? sql_quoted_end(name, end, false) : word_end(name, end);
}

/* EXECUTE is before p: if the prepared statement calls the function, mask the arguments like a call's. */
static const char *
after_execute(Masker *m, const char *p, const char *end)
{
	const char *name = skip_space(p, end);
	const char *after;
	const char *next;
	bool		escaped;

	if (m->prepared == NULL || name >= end)
		return p;
	after = executed_name_end(name, end, &escaped);
	next = skip_space(after, end);
	if (after == name || next >= end || *next != '(')
		return p;
	return escaped || prepared_calls(m, name, after - name) ? mask_arguments(m, next + 1, end) : p;
}

/*
 * Like after_name(), whatever surrounds the name.  Comments after names are read again only as far as
 * INNER_WORK allows.
 */
static const char *
after_flat_name(Masker *m, const char *p, const char *end)
{
	const char *next = skip_space(p, end);

	if (next - p > BRIEF && !afford(&m->work, next - p))
		return mask_arguments(m, p, end);
	return next < end && *next == '(' ? mask_arguments(m, next + 1, end) : p;
}

/* Mask every call between p and end, whatever surrounds it. */
static void
scan_flat(Masker *m, const char *p, const char *end)
{
	const char *after;

	while ((p = secret_name_find(p, end, &after)) != NULL)
	{
		m->found = true;
		p = after_flat_name(m, after < end && *after == '"' ? after + 1 : after, end);
	}
}

/* Mask the string or quoted name at p, or scan it as code. */
static const char *
scan_quoted(Masker *m, const char *begin, const char *p, const char *end)
{
	const char *start = p;
	bool		escapes = *p == '\'' && p > begin && (p[-1] == 'E' || p[-1] == 'e') &&
		(p - 1 == begin || !is_word(p[-2]));
	const char *inside_end;

	p = sql_quoted_end(p, end, escapes);
	inside_end = p > start + 1 && p[-1] == *start ? p - 1 : p;
	if (m->named && *start == '\'')
		replace(m, start, p, secret_names_within(&m->names, start, p) ? "'" NAMED_MASK "'" : "'" MASK "'");
	else if (!m->named)
		scan(m, start + 1, inside_end);
	else if (secret_names_within(&m->names, start, p) &&
			 secret_name_match(start + 1, inside_end) != inside_end)
		replace(m, start, p, "\"" NAMED_MASK "\"");
	return *start == '"' ? after_name(m, start + 1, inside_end - start - 1, p, end) : p;
}

/* Mask the dollar quote at p, or scan it as code. */
static const char *
scan_dollars(Masker *m, const char *p, const char *end, int tag)
{
	const char *close = dollar_close(p, end, tag);
	const char *after = Min(close + tag, end);

	if (!m->named || (m->code && m->depth < MAX_DEPTH && secret_names_within(&m->names, p, close) &&
					  afford(&m->work, close - p) && names_in_code(p + tag, close, m->depth, &m->work, NULL)))
		scan(m, p + tag, close);
	else
		replace(m, p, after, secret_names_within(&m->names, p, close) ? "'" NAMED_MASK "'" : "'" MASK "'");
	return after;
}

/* Scan code. */
static void
scan(Masker *m, const char *begin, const char *end)
{
	const char *p = begin;

	if (m->depth == MAX_DEPTH || (m->depth > 0 && !afford(&m->work, end - begin)))
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
	return secret_name_in(text, text + strlen(text));
}

/* Return the first EXECUTE, also within a longer word; NULL if there is none. */
static const char *
find_execute(const char *p, const char *end)
{
	for (; end - p >= 7; p++)
		if ((p[1] | 0x20) == 'x' && pg_strncasecmp(p, "execute", 7) == 0)
			return p;
	return NULL;
}

bool
secret_may_be_given(const char *sql)
{
	return secret_named(sql) || find_execute(sql, sql + strlen(sql)) != NULL;
}

bool
secret_in_long(const char *sql, SecretPrepared prepared)
{
	Masker		m = {.prepared = prepared,.work = INNER_WORK};
	const char *end = sql + strlen(sql);

	if (secret_name_in(sql, end))
		return true;
	for (const char *p = sql; (p = find_execute(p, end)) != NULL; p += 7)
	{
		const char *name = skip_space(p + 7, end);
		bool		escaped;
		const char *after = executed_name_end(name, end, &escaped);
		const char *next = skip_space(after, end);

		if (next - p > BRIEF && !afford(&m.work, next - p))
			return true;
		if (after > name && next < end && *next == '(' &&
			(escaped || prepared_calls(&m, name, after - name)))
			return true;
	}
	return false;
}

char *
secret_mask_statement(const char *sql, SecretPrepared prepared)
{
	Masker		m = {.from = sql,.prepared = prepared,.names_quoted = true,.work = INNER_WORK};
	const char *end = sql + strlen(sql);
	bool		foreign = false;

	if (secret_name_in(sql, end))
		m.found = m.named = names_in_code(sql, end, 0, &m.work, &foreign);
	if (!m.named && find_execute(sql, end) == NULL)
		return NULL;
	m.code = !foreign;
	if (m.named)
		secret_names_begin(&m.names, sql, end);
	initStringInfo(&m.out);
	scan(&m, sql, end);
	return finish(&m, end);
}

char *
secret_mask_strings(const char *text)
{
	Masker		m = {.from = text,.named = true,.found = true,.work = INNER_WORK};
	const char *end = text + strlen(text);

	secret_names_begin(&m.names, text, end);
	initStringInfo(&m.out);
	scan(&m, text, end);
	return finish(&m, end);
}

char *
secret_mask_text(const char *text)
{
	Masker		calls = {.from = text,.work = INNER_WORK};
	const char *end = text + strlen(text);

	if (!secret_name_in(text, end))
		return NULL;
	/*
	 * a message's own quotes may make text look like strings and strings look like text, so mask the
	 * calls first, whatever surrounds them
	 */
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
