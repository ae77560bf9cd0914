/*
 * pattern.c
 *	  Conversion of PostgreSQL's patterns to patterns of JSON schemas (ECMA-262).
 *
 * The two notations share most of their syntax, but not all of its meaning.  Classes like \w depend
 * on the database's locale in PostgreSQL and are ASCII in ECMA-262, so a class becomes its ASCII
 * part, and a negated class can't be converted.  Features that JSON schemas lack (look-around,
 * back-references, word boundaries, options) can't be converted either.
 *
 * Tests: tests/sql/28_types.sql.
 */
#include "postgres.h"

#include <ctype.h>

#include "pg/types/pattern.h"

#define SPACE	" \\t\\n\\r\\f\\v"

static const struct
{
	const char *name;
	const char *members;		/* members of the class, without brackets */
}			classes[] = {
	{"digit", "0-9"}, {"alpha", "A-Za-z"}, {"alnum", "0-9A-Za-z"}, {"upper", "A-Z"}, {"lower", "a-z"},
	{"space", SPACE}, {"xdigit", "0-9A-Fa-f"}, {"word", "0-9A-Za-z_"}, {"punct", "!-\\/:-@\\[-`{-~"},
	{"blank", " \\t"}
};

static const char *
class_of_escape(char c)
{
	switch (c)
	{
		case 'd':
			return "0-9";
		case 'w':
			return "0-9A-Za-z_";
		case 's':
			return SPACE;
		default:
			return NULL;
	}
}

static void
put_literal(StringInfo out, char c)
{
	if (strchr("\\^$.*+?()[]{}|/", c) != NULL)
		appendStringInfoChar(out, '\\');
	appendStringInfoChar(out, c);
}

/* Append a character of a bracket expression; two & or ~ in a row would be an operator there. */
static void
put_member(StringInfo out, char c)
{
	if (c == '&' || c == '~')
		appendStringInfo(out, "\\u%04x", c);
	else
		appendStringInfo(out, strchr("\\]^-[", c) != NULL ? "\\%c" : "%c", c);
}

/* Convert an escape; s is after its backslash.  Return NULL for one that can't be converted. */
static const char *
escape(StringInfo out, const char *s, bool in_brackets, bool negated)
{
	const char *members = class_of_escape(*s);

	if (*s == '\0' || (members != NULL && negated))
		return NULL;
	if (members != NULL)
		appendStringInfo(out, in_brackets ? "%s" : "[%s]", members);
	else if (strchr("nrtfv", *s) != NULL)
		appendStringInfo(out, "\\%c", *s);
	else if (isalnum((unsigned char) *s) || (unsigned char) *s >= 0x80)
		return NULL;
	else if (in_brackets)
		put_member(out, *s);
	else
		put_literal(out, *s);
	return s + 1;
}

/* Convert [:name:]; s is after its colon. */
static const char *
named_class(StringInfo out, const char *s)
{
	for (int i = 0; i < (int) lengthof(classes); i++)
	{
		size_t		n = strlen(classes[i].name);

		if (strncmp(s, classes[i].name, n) == 0 && strncmp(s + n, ":]", 2) == 0)
		{
			appendStringInfoString(out, classes[i].members);
			return s + n + 2;
		}
	}
	return NULL;
}

/* Convert a bracket expression; s is after its [. */
static const char *
brackets(StringInfo out, const char *s)
{
	bool		negated = *s == '^';
	bool		first = true;

	appendStringInfoString(out, negated ? "[^" : "[");
	if (negated)
		s++;
	for (; s != NULL && (*s != ']' || first); first = false)
	{
		if (*s == '\0')
			return NULL;
		if (s[0] == '[' && (s[1] == '.' || s[1] == '='))
			return NULL;
		if (s[0] == '[' && s[1] == ':')
			s = negated ? NULL : named_class(out, s + 2);
		else if (*s == '\\')
			s = escape(out, s + 1, true, negated);
		else
		{
			/* a hyphen is a plain character at the ends, and makes a range elsewhere */
			bool		range = *s == '-' && !first && s[1] != ']';

			if (range)
				appendStringInfoChar(out, '-');
			else
				put_member(out, *s);
			s++;
		}
	}
	if (s == NULL)
		return NULL;
	appendStringInfoChar(out, ']');
	return s + 1;
}

/* Convert a bound; s is at its {.  Return NULL if there is none. */
static const char *
bound(StringInfo out, const char *s)
{
	const char *from = s++;
	size_t		n = strspn(s, "0123456789");

	if (n == 0)
		return NULL;
	s += n;
	if (*s == ',')
		s += 1 + strspn(s + 1, "0123456789");
	if (*s != '}')
		return NULL;
	appendBinaryStringInfo(out, from, (int) (s + 1 - from));
	return s + 1;
}

bool
pattern_from_regex(StringInfo out, const char *s)
{
	if (strncmp(s, "***", 3) == 0)
		return false;
	while (s != NULL && *s != '\0')
	{
		if (*s == '\\')
			s = escape(out, s + 1, false, false);
		else if (*s == '[')
			s = brackets(out, s + 1);
		else if (*s == '{')
			s = bound(out, s);
		else if (*s == '(' && s[1] == '?')
		{
			if (s[2] != ':')
				return false;
			appendStringInfoString(out, "(?:");
			s += 3;
		}
		else if (*s == '.')
		{
			/* . matches any character in PostgreSQL */
			appendStringInfoString(out, "[^\\u0000]");
			s++;
		}
		else
		{
			if (strchr("]}/", *s) != NULL)
				appendStringInfoChar(out, '\\');
			appendStringInfoChar(out, *s++);
		}
	}
	return s != NULL;
}

bool
pattern_from_like(StringInfo out, const char *s)
{
	appendStringInfoChar(out, '^');
	for (; *s != '\0'; s++)
	{
		if (*s == '%')
			appendStringInfoString(out, "[^\\u0000]*");
		else if (*s == '_')
			appendStringInfoString(out, "[^\\u0000]");
		else
		{
			if (*s == '\\' && *++s == '\0')
				return false;
			put_literal(out, *s);
		}
	}
	appendStringInfoChar(out, '$');
	return true;
}
