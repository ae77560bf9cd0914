/*
 * secret_mask_ref.h
 *	  The scanner of secret_mask.c in its simplest form, without regard to time: it scans strings within
 *	  strings again and again, and a run of backslashes from each of them.  secret_mask.c must give the
 *	  same result (test_secret_mask.c).
 */
#ifndef VLLM_TESTS_UNIT_PG_SECRET_MASK_REF_H
#define VLLM_TESTS_UNIT_PG_SECRET_MASK_REF_H

#define REF_NAME		"llm_set_secret"
#define REF_MASK		"***"
#define REF_NAMED_MASK	"*** " REF_NAME " ***"	/* replaces a string that contains the name */
#define REF_MAX_DEPTH	32			/* strings within strings; deeper ones are masked completely */

typedef struct RefMasker
{
	StringInfoData out;
	const char *from;			/* start of the text that is not copied yet */
	SecretPrepared prepared;
	int			depth;
	bool		named;			/* the statement names the function, so no string is shown */
	bool		code;			/* bodies are SQL or PL/pgSQL */
	bool		names_quoted;	/* " begins a name; otherwise it is an ordinary character, as in messages */
	bool		found;
} RefMasker;

static void ref_scan(RefMasker *m, const char *begin, const char *end);

/* ---- tokens ---- */

static bool
ref_is_word(char c)
{
	return isalnum((unsigned char) c) || c == '_' || c == '$' || IS_HIGHBIT_SET(c);
}

static const char *
ref_word_end(const char *p, const char *end)
{
	while (p < end && ref_is_word(*p))
		p++;
	return p;
}

/* Return the end of the string or quoted name that begins at p; doubled quotes are part of it. */
static const char *
ref_quoted_end(const char *p, const char *end, bool backslashes)
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

/* The same for SQL: without standard_conforming_strings all strings have backslash escapes. */
static const char *
ref_sql_quoted_end(const char *p, const char *end, bool backslashes)
{
	return ref_quoted_end(p, end, backslashes || (*p == '\'' && !standard_conforming_strings));
}

/* Return the length of a dollar quote's delimiter at p; 0: there is none. */
static int
ref_dollar_tag(const char *p, const char *end)
{
	const char *q = p + 1;

	if (*p != '$' || (q < end && isdigit((unsigned char) *q)))
		return 0;
	while (q < end && *q != '$' && ref_is_word(*q))
		q++;
	return q < end && *q == '$' ? (int) (q + 1 - p) : 0;
}

/* Return where the delimiter occurs again. */
static const char *
ref_dollar_close(const char *p, const char *end, int tag)
{
	for (const char *q = p + tag; q + tag <= end; q++)
		if (memcmp(q, p, tag) == 0)
			return q;
	return end;
}

static bool
ref_is_comment(const char *p, const char *end)
{
	return p + 1 < end && ((p[0] == '-' && p[1] == '-') || (p[0] == '/' && p[1] == '*'));
}

static const char *
ref_comment_end(const char *p, const char *end)
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

/* Skip white space and comments. */
static const char *
ref_skip_space(const char *p, const char *end)
{
	while (p < end)
	{
		if (isspace((unsigned char) *p))
			p++;
		else if (ref_is_comment(p, end))
			p = ref_comment_end(p, end);
		else
			break;
	}
	return p;
}

static bool
ref_same_word(const char *p, size_t n, const char *word)
{
	return n == strlen(word) && pg_strncasecmp(p, word, n) == 0;
}

/* ---- the name ---- */

/* Are the n digits of the base at p the code of c? */
static bool
ref_is_code(const char *p, const char *end, int n, int base, char c)
{
	int			value = 0;

	if (end - p < n)
		return false;
	for (int i = 0; i < n; i++)
	{
		int			digit = isdigit((unsigned char) p[i]) ? p[i] - '0' : isxdigit((unsigned char) p[i]) ?
			tolower((unsigned char) p[i]) - 'a' + 10 : base;

		if (digit >= base)
			return false;
		value = (value & 0xffffff) * base + digit;
	}
	return value == (unsigned char) c || value == pg_toupper((unsigned char) c);
}

/*
 * Return the end of the character c, a small letter or _, which may be escaped; NULL: it isn't at p.
 * U&'s escape may be any character.
 */
static const char *
ref_match_char(const char *p, const char *end, char c)
{
	if (p < end && pg_tolower((unsigned char) *p) == (unsigned char) c)
		return p + 1;
	/* within strings in strings backslashes are doubled */
	while (p + 1 < end && p[0] == '\\' && p[1] == '\\')
		p++;
	if (end - p < 2)
		return NULL;
	if (ref_is_code(p + 1, end, 4, 16, c))
		return p + 5;
	if (p[1] == '+' && ref_is_code(p + 2, end, 6, 16, c))
		return p + 8;
	if (*p != '\\')
		return NULL;
	if (p[1] == 'x' && ref_is_code(p + 2, end, 2, 16, c))
		return p + 4;
	if (p[1] == 'u' && ref_is_code(p + 2, end, 4, 16, c))
		return p + 6;
	if (p[1] == 'U' && ref_is_code(p + 2, end, 8, 16, c))
		return p + 10;
	if (ref_is_code(p + 1, end, 3, 8, c))
		return p + 4;
	return pg_tolower((unsigned char) p[1]) == (unsigned char) c ? p + 2 : NULL;
}

/* Return the end of the function's name; NULL: it isn't at p. */
static const char *
ref_match_name(const char *p, const char *end)
{
	for (const char *c = REF_NAME; *c != '\0' && p != NULL; c++)
		p = ref_match_char(p, end, *c);
	return p;
}

/* Return the next occurrence of the name; *behind: its end. */
static const char *
ref_find_name(const char *p, const char *end, const char **after)
{
	for (; p < end; p++)
		if ((*after = ref_match_name(p, end)) != NULL)
			return p;
	return NULL;
}

static bool
ref_has_name(const char *p, const char *end)
{
	const char *after;

	return ref_find_name(p, end, &after) != NULL;
}

/* Is there a LANGUAGE clause other than SQL or PL/pgSQL? */
static bool
ref_other_language(const char *p, const char *end)
{
	static const char *const known[] = {"sql", "plpgsql", "'sql'", "'plpgsql'", "\"sql\"", "\"plpgsql\""};
	const char *after;

	p = ref_skip_space(p, end);
	if (p >= end)
		return false;
	after = *p == '\'' || *p == '"' ? ref_sql_quoted_end(p, end, false) : ref_word_end(p, end);
	for (int i = 0; i < (int) lengthof(known); i++)
		if (ref_same_word(p, after - p, known[i]))
			return false;
	return true;
}

/*
 * Does code name the function outside of comments?  *foreign: it says that its bodies are in another
 * language.
 */
static bool
ref_code_names(const char *p, const char *end, int depth, bool *foreign)
{
	bool		named = false;

	while (p < end)
	{
		const char *start = p;
		int			tag;

		if (ref_is_comment(p, end))
		{
			p = ref_comment_end(p, end);
			continue;
		}
		if ((tag = ref_dollar_tag(p, end)) > 0)
		{
			const char *close = ref_dollar_close(p, end, tag);
			bool		ignored = false;

			named = named ||
				(depth < REF_MAX_DEPTH ? ref_code_names(p + tag, close, depth + 1, &ignored) : ref_has_name(p,
					close));
			p = Min(close + tag, end);
			continue;
		}
		if (*p == '\'' || *p == '"')
			p = ref_sql_quoted_end(p, end, false);
		else if (ref_is_word(*p))
		{
			p = ref_word_end(p, end);
			if (p < end && *p == '\'' && p == start + 1 && (*start == 'E' || *start == 'e'))
				p = ref_sql_quoted_end(p, end, true);
			else if (ref_same_word(start, p - start, "language"))
				*foreign = *foreign || ref_other_language(p, end);
		}
		else
			p++;
		named = named || ref_has_name(start, p);
	}
	return named;
}

/* ---- calls ---- */

static void
ref_replace(RefMasker *m, const char *from, const char *to, const char *with)
{
	appendBinaryStringInfo(&m->out, m->from, from - m->from);
	appendStringInfoString(&m->out, with);
	m->from = to;
}

/* p: after the opening parenthesis; returns the position after the closing one. */
static const char *
ref_mask_arguments(RefMasker *m, const char *p, const char *end)
{
	int			depth = 1;

	m->found = true;
	while (p < end && depth > 0)
	{
		const char *start = p;
		int			tag;

		if (ref_is_comment(p, end))
			ref_replace(m, start, p = ref_comment_end(p, end), " ");
		else if (*p == '\'')
			ref_replace(m, start, p = ref_sql_quoted_end(p, end, false), "'" REF_MASK "'");
		else if ((tag = ref_dollar_tag(p, end)) > 0)
			ref_replace(m, start, p = Min(ref_dollar_close(p, end, tag) + tag, end), "'" REF_MASK "'");
		else if (*p == '"' || ref_is_word(*p))
		{
			bool		param = *p == '$';
			const char *next;

			/* E'...' */
			if (p + 1 < end && p[1] == '\'' && (*p == 'E' || *p == 'e'))
			{
				ref_replace(m, start, p = ref_sql_quoted_end(p + 1, end, true), "'" REF_MASK "'");
				continue;
			}
			p = *p == '"' ? ref_sql_quoted_end(p, end, false) : ref_word_end(p, end);
			next = ref_skip_space(p, end);
			if (!param && !(next < end && *next == '('))
				ref_replace(m, start, p, REF_MASK);
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
 * A word, or the content of a quoted name, ends at p: if it is the function's name with arguments, mask
 * them.
 */
static const char *
ref_after_name(RefMasker *m, const char *name, size_t n, const char *p, const char *end)
{
	const char *next = ref_skip_space(p, end);

	if (ref_match_name(name, name + n) == name + n && next < end && *next == '(')
		return ref_mask_arguments(m, next + 1, end);
	return p;
}

/* EXECUTE is before p: if the prepared statement calls the function, mask its arguments. */
static const char *
ref_after_execute(RefMasker *m, const char *p, const char *end)
{
	const char *name = ref_skip_space(p, end);
	const char *after;
	const char *next;
	char	   *s;
	bool		escaped;

	if (m->prepared == NULL || name >= end)
		return p;
	escaped = end - name > 2 && strncasecmp(name, "U&\"", 3) == 0;
	if (escaped)
	{
		after = ref_sql_quoted_end(name + 2, end, false);
		next = ref_skip_space(after, end);
		if (ref_same_word(next, ref_word_end(next, end) - next, "uescape"))
		{
			next = ref_skip_space(ref_word_end(next, end), end);
			if (next < end && *next == '\'')
				after = ref_sql_quoted_end(next, end, false);
		}
	}
	else
		after = *name == '"' ? ref_sql_quoted_end(name, end, false) : ref_word_end(name, end);
	next = ref_skip_space(after, end);
	if (after == name || next >= end || *next != '(')
		return p;
	if (escaped)
		return ref_mask_arguments(m, next + 1, end);
	s = *name == '"' ? pnstrdup(name + 1, after - name - 2) : pnstrdup(name, after - name);
	for (char *c = s; *c != '\0' && *name != '"'; c++)
		*c = pg_tolower((unsigned char) *c);
	return m->prepared(s) ? ref_mask_arguments(m, next + 1, end) : p;
}

/* Mask every call between p and end, whatever the context. */
static void
ref_scan_flat(RefMasker *m, const char *p, const char *end)
{
	const char *after;

	while ((p = ref_find_name(p, end, &after)) != NULL)
	{
		m->found = true;
		p = ref_after_name(m, p, after - p, after < end && *after == '"' ? after + 1 : after, end);
	}
}

/* Scan the string or quoted name at p, and code in it. */
static const char *
ref_scan_quoted(RefMasker *m, const char *begin, const char *p, const char *end)
{
	const char *start = p;
	bool		escapes = *p == '\'' && p > begin && (p[-1] == 'E' || p[-1] == 'e') &&
		(p - 1 == begin || !ref_is_word(p[-2]));
	const char *inside_end;

	p = ref_sql_quoted_end(p, end, escapes);
	inside_end = p > start + 1 && p[-1] == *start ? p - 1 : p;
	if (m->named && *start == '\'')
		ref_replace(m, start, p, ref_has_name(start, p) ? "'" REF_NAMED_MASK "'" : "'" REF_MASK "'");
	else if (!m->named)
		ref_scan(m, start + 1, inside_end);
	else if (ref_has_name(start, p) && ref_match_name(start + 1, inside_end) != inside_end)
		ref_replace(m, start, p, "\"" REF_NAMED_MASK "\"");
	return *start == '"' ? ref_after_name(m, start + 1, inside_end - start - 1, p, end) : p;
}

/* Scan the dollar quote at p. */
static const char *
ref_scan_dollars(RefMasker *m, const char *p, const char *end, int tag)
{
	const char *close = ref_dollar_close(p, end, tag);
	const char *after = Min(close + tag, end);
	bool		foreign = false;

	if (!m->named ||
		(m->code && m->depth < REF_MAX_DEPTH && ref_code_names(p + tag, close, m->depth, &foreign)))
		ref_scan(m, p + tag, close);
	else
		ref_replace(m, p, after, ref_has_name(p, close) ? "'" REF_NAMED_MASK "'" : "'" REF_MASK "'");
	return after;
}

/* Scan code. */
static void
ref_scan(RefMasker *m, const char *begin, const char *end)
{
	const char *p = begin;

	if (m->depth == REF_MAX_DEPTH)
	{
		if (m->named)
			ref_replace(m, begin, end, REF_MASK);
		return;
	}
	m->depth++;
	while (p < end)
	{
		const char *start = p;
		int			tag;

		if (ref_is_comment(p, end))
			p = ref_comment_end(p, end);
		else if (*p == '\'' || (*p == '"' && m->names_quoted))
			p = ref_scan_quoted(m, begin, p, end);
		else if ((tag = ref_dollar_tag(p, end)) > 0)
			p = ref_scan_dollars(m, p, end, tag);
		else if (ref_is_word(*p))
		{
			p = ref_word_end(p, end);
			if (ref_same_word(start, p - start, "execute"))
				p = ref_after_execute(m, p, end);
			else
				p = ref_after_name(m, start, p - start, p, end);
		}
		else
			p++;
	}
	m->depth--;
}

/* ---- whole texts ---- */

static char *
ref_finish(RefMasker *m, const char *end)
{
	if (!m->found)
		return NULL;
	ref_replace(m, end, end, "");
	return m->out.data;
}

static bool
ref_named(const char *text)
{
	return ref_has_name(text, text + strlen(text));
}

static char *
ref_mask_statement(const char *sql, SecretPrepared prepared)
{
	RefMasker		m = {.from = sql,.prepared = prepared,.names_quoted = true};
	const char *end = sql + strlen(sql);
	bool		foreign = false;

	if (ref_has_name(sql, end))
		m.found = m.named = ref_code_names(sql, end, 0, &foreign);
	if (!m.named && strcasestr(sql, "execute") == NULL)
		return NULL;
	m.code = !foreign;
	initStringInfo(&m.out);
	ref_scan(&m, sql, end);
	return ref_finish(&m, end);
}

static char *
ref_mask_strings(const char *text)
{
	RefMasker		m = {.from = text,.named = true,.found = true};
	const char *end = text + strlen(text);

	initStringInfo(&m.out);
	ref_scan(&m, text, end);
	return ref_finish(&m, end);
}

static char *
ref_mask_text(const char *text)
{
	RefMasker		calls = {.from = text};
	const char *end = text + strlen(text);

	if (!ref_has_name(text, end))
		return NULL;
	/* a message's own quotes may hide a string, or make one up, so mask calls first, whatever the context */
	initStringInfo(&calls.out);
	ref_scan_flat(&calls, text, end);
	return ref_mask_strings(ref_finish(&calls, end));
}

static char *
ref_mask_quoted(const char *text, char quote)
{
	RefMasker		m = {.from = text,.found = true};
	const char *end = text + strlen(text);
	const char *p = strchr(text, quote);
	char		with[] = {quote, '*', '*', '*', quote, '\0'};

	initStringInfo(&m.out);
	while (p != NULL)
	{
		const char *start = p;

		ref_replace(&m, start, p = ref_quoted_end(p, end, false), with);
		p = strchr(p, quote);
	}
	return ref_finish(&m, end);
}

#endif
