/*
 * http_error.c
 *	  Statuses and error bodies.
 *
 * Responses pass through the program unchanged.  Only whether one is an error is looked at: an error's
 * transaction is rolled
 * back, and its status told.
 *
 * Tests: tests/unit/httpd/test_http.c, tests/t/083_http.pl.
 */
#include "httpd/http_error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8char.h"

/* ---- statuses ---- */

typedef struct StateRow
{
	const char *state;			/* SQLSTATE, or its class (two characters) */
	int			status;
} StateRow;

/*
 * Exact ones before their classes.  The clients of OpenAI and Anthropic repeat a request after 408, 409, 429 and 5xx: 4xx
 * is what would fail again, 429 and 503 what may be had a little later (both say when), 500 what nobody foresaw.
 */
static const StateRow states[] = {
	{"22", 400},				/* data exception: parameters, bad JSON, encoding */
	{"23", 400}, {"44000", 400}, {"P0001", 400},	/* rules of the database that the request breaks */
	{"25006", 400},				/* something is to be stored, on a standby */
	{"54", 400},				/* context or limits exceeded */
	{"0A000", 400},				/* not supported, and won't be when it is asked again */
	{"28", 401},
	{"42501", 403},				/* not granted */
	{"42704", 404},				/* no such model, adapter */
	{"57014", 408},				/* timeout_ms, statement_timeout, llm_cancel */
	{"53400", 429},				/* a limit of the role */
	{"42883", 503}, {"3F000", 503}, /* the extension is older than the program, or has moved */
	{"40", 503},				/* the transaction lost to another */
	{"53", 503},
	{"55", 503},				/* asleep, unloaded, locked */
	{"57", 503},				/* shutdown, no engine */
	{"58000", 503},				/* the engine was lost */
	{"08", 503},
};

int
answer_status_of(const char *sqlstate)
{
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		if (strncmp(sqlstate, states[i].state, strlen(states[i].state)) == 0)
			return states[i].status;
	return 500;
}

typedef struct TypeRow
{
	int			status;
	const char *openai;
	const char *anthropic;
} TypeRow;

/* of those that share a type the first one is meant by it */
static const TypeRow types[] = {
	{400, "BadRequestError", "invalid_request_error"},
	{401, "AuthenticationError", "authentication_error"},
	{403, "PermissionDeniedError", "permission_error"},
	{404, "NotFoundError", "not_found_error"},
	{405, "MethodNotAllowedError", "invalid_request_error"},
	{408, "RequestTimeoutError", "timeout_error"},
	{413, "RequestTooLargeError", "request_too_large"},
	{414, "RequestTooLargeError", "invalid_request_error"},
	{415, "UnsupportedMediaTypeError", "invalid_request_error"},
	{429, "RateLimitError", "rate_limit_error"},
	{431, "RequestTooLargeError", "invalid_request_error"},
	{500, "InternalServerError", "api_error"},
	{502, "BadGatewayError", "api_error"},
	{503, "ServiceUnavailableError", "overloaded_error"},
};

#define N_TYPES	(sizeof(types) / sizeof(types[0]))

static const TypeRow *
type_row(int status)
{
	const TypeRow *other = &types[0];

	for (size_t i = 0; i < N_TYPES; i++)
	{
		if (types[i].status == status)
			return &types[i];
		if (types[i].status == 500 && status >= 500)
			other = &types[i];
	}
	return other;
}

/* ---- JSON out ---- */

void
answer_json_string(Buf *b, const char *s)
{
	const char *end = s + strlen(s);

	buf_addc(b, '"');
	while (*s != '\0')
	{
		int			n = utf8_char(s, end);

		if (n == 0)
			buf_addstr(b, "\\ufffd");
		else if (*s == '"' || *s == '\\')
			buf_printf(b, "\\%c", *s);
		else if ((unsigned char) *s < 0x20 || *s == 0x7f)
			buf_printf(b, "\\u%04x", *s);
		else
			buf_add(b, s, (size_t) n);
		s += n == 0 ? 1 : n;
	}
	buf_addc(b, '"');
}

void
answer_error(Buf *b, ErrorDialect d, int status, const char *message)
{
	const TypeRow *row = type_row(status);

	if (d == ANTHROPIC)
	{
		buf_printf(b, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":", row->anthropic);
		answer_json_string(b, message);
		buf_addstr(b, "}}");
		return;
	}
	buf_addstr(b, "{\"error\":{\"message\":");
	answer_json_string(b, message);
	buf_printf(b, ",\"type\":\"%s\",\"param\":null,\"code\":%d}}", row->openai, status);
}

/* ---- JSON in ---- */

static const char *
skip_space(const char *s, const char *end)
{
	while (s < end && (*s == ' ' || *s == '\t' || *s == '\n' || *s == '\r'))
		s++;
	return s;
}

/* Behind a string whose quote is at s. */
static const char *
skip_string(const char *s, const char *end)
{
	for (s++; s < end && *s != '"'; s++)
		if (*s == '\\')
			s++;
	return s < end ? s + 1 : end;
}

/* Behind a value that begins at s. */
static const char *
skip_value(const char *s, const char *end)
{
	size_t		depth = 0;

	while (s < end)
	{
		if (*s == '"')
			s = skip_string(s, end);
		else if (*s == '{' || *s == '[')
			depth++, s++;
		else if (*s == '}' || *s == ']')
		{
			if (depth == 0)
				return s;
			depth--, s++;
		}
		else if (depth == 0)
			return s + strcspn(s, " \t\r\n,]}");
		else
			s += strcspn(s, "\"{}[]");
		if (depth == 0)
			return s < end ? s : end;
	}
	return end;
}

typedef struct Member
{
	const char *name;			/* as it is written, without quotes */
	size_t		name_len;
	const char *value;
	size_t		len;			/* of it */
} Member;

/* The next member of an object that was opened before *s, behind which *s then is; false: none, or no JSON. */
static bool
next_member(const char **s, const char *end, Member *m)
{
	const char *p = skip_space(*s, end);

	if (p < end && *p == ',')
		p = skip_space(p + 1, end);
	if (p == end || *p != '"')
		return false;
	m->name = p + 1;
	p = skip_string(p, end);
	m->name_len = p - m->name < 1 ? 0 : (size_t) (p - m->name) - 1;
	p = skip_space(p, end);
	if (p == end || *p != ':')
		return false;
	m->value = skip_space(p + 1, end);
	p = skip_value(m->value, end);
	m->len = (size_t) (p - m->value);
	*s = p;
	return m->len > 0;
}

static bool
is_named(const Member *m, const char *name)
{
	return m->name_len == strlen(name) && memcmp(m->name, name, m->name_len) == 0;
}

/* Is its value this string? */
static bool
is_word(const Member *m, const char *word)
{
	size_t		n = strlen(word);

	return m->len == n + 2 && m->value[0] == '"' && memcmp(m->value + 1, word, n) == 0;
}

/* error: its object.  Anthropic's has no code, OpenAI's need not have one. */
static int
status_of_error(const Member *error, bool anthropic)
{
	const char *s = error->value + 1;
	const char *end = error->value + error->len;
	int			coded = 0;
	int			typed = 0;
	Member		m;

	while (next_member(&s, end, &m))
	{
		if (is_named(&m, "code") && !anthropic && m.value[0] >= '0' && m.value[0] <= '9')
			coded = m.len == 3 ? atoi(m.value) : 500;
		for (size_t i = N_TYPES; i-- > 0 && is_named(&m, "type");)
			if (is_word(&m, anthropic ? types[i].anthropic : types[i].openai))
				typed = types[i].status;
		if (is_named(&m, "type") && is_word(&m, "NotImplementedError"))
			typed = 400;
	}
	coded = coded != 0 ? coded : typed;
	return coded >= 400 && coded <= 599 ? coded : 500;
}

/*
 * However long the message is: what is taken for an answer is committed.  Of an answer that is no error only the first
 * member is looked at, as errors begin with theirs.
 */
int
answer_error_status(const char *json, size_t len)
{
	const char *end = json + len;
	const char *s = skip_space(json, end);
	Member		first;
	Member		m;

	if (s == end || *s != '{')
		return 0;
	s = skip_space(s + 1, end);
	if ((size_t) (end - s) < 7 || (memcmp(s, "\"error\"", 7) != 0 && memcmp(s, "\"type\"", 6) != 0) || !next_member(&s, end, &first))
		return 0;
	if (is_named(&first, "error"))
	{
		bool		alone = *first.value == '{' && !next_member(&s, end, &m);

		return alone && (s = skip_space(s, end)) < end && *s == '}' ? status_of_error(&first, false) : 0;
	}
	if (!is_word(&first, "error"))
		return 0;
	while (next_member(&s, end, &m))
		if (is_named(&m, "error") && *m.value == '{')
			return status_of_error(&m, true);
	return 0;
}

void
answer_event_error(Buf *b, const char *json, int sequence)
{
	const char *end = json + strlen(json);
	const char *s = skip_space(json, end);
	Member		error = {0};
	Member		m;
	Member		type = {.value = "null",.len = 4};
	Member		message = {.value = "\"\"",.len = 2};
	Member		param = type;

	if (s < end)
		s++;
	if (next_member(&s, end, &error) && *error.value == '{')
	{
		s = error.value + 1;
		end = error.value + error.len;
		while (next_member(&s, end, &m))
			if (is_named(&m, "type"))
				type = m;
			else if (is_named(&m, "message"))
				message = m;
			else if (is_named(&m, "param"))
				param = m;
	}
	buf_printf(b, "{\"type\":\"error\",\"code\":%.*s,\"message\":", (int) type.len, type.value);
	buf_add(b, message.value, message.len);
	buf_printf(b, ",\"param\":%.*s,\"sequence_number\":%d}", (int) param.len, param.value, sequence);
}

char *
answer_event_type(const char *json)
{
	const char *end = json + strlen(json);
	const char *s = skip_space(json, end);
	const char *from;

	if (s == end || *s != '{')
		return NULL;
	s = skip_space(s + 1, end);
	if (strncmp(s, "\"type\"", 6) != 0)
		return NULL;
	s = skip_space(s + 6, end);
	if (s == end || *s != ':')
		return NULL;
	from = skip_space(s + 1, end);
	if (from == end || *from != '"')
		return NULL;
	s = skip_string(from, end);
	return s - from < 2 ? NULL : mem_strndup(from + 1, (size_t) (s - from) - 2);
}
