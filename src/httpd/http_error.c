/*
 * http_error.c
 *	  Statuses and error bodies.
 *
 * Responses pass through the program unchanged.  It only checks whether one is an error: then the
 * transaction is rolled back, and the client gets the error's status.
 *
 * Tests: tests/unit/httpd/test_http.c, tests/t/083_http.pl.
 */
#include "httpd/http_error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json/json_scan.h"
#include "base/json/json_writer.h"

/* ---- statuses ---- */

typedef struct StateRow
{
	const char *state;			/* SQLSTATE, or its class (two characters) */
	int			status;
} StateRow;

/* Exact states come before their classes.  429 and 503 have Retry-After; 500 is the default. */
static const StateRow states[] = {
#define ERROR_STATUS(sqlstate, status, openai, anthropic) {sqlstate, status},
#include "ipc/error_status.def"
#undef ERROR_STATUS
	{"23", 400}, {"44000", 400}, {"P0001", 400},	/* rules of the database that the request violates */
	{"25006", 400},				/* something must be stored, on a standby */
	{"54", 400},
	{"42883", 503}, {"3F000", 503}, /* the extension is older than the program, or has another schema */
	{"40", 503},				/* serialization failures and deadlocks */
	{"55", 503},				/* object in use or locked */
	{"57", 503},				/* shutdown */
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

/*
 * If several rows share a type, the first one is the type's status; if several share a status, the first
 * one has its types.
 */
static const TypeRow types[] = {
#define ERROR_STATUS(sqlstate, status, openai, anthropic) {status, openai, anthropic},
#include "ipc/error_status.def"
#undef ERROR_STATUS
	{405, "MethodNotAllowedError", "invalid_request_error"},
	{413, "RequestTooLargeError", "request_too_large"},
	{414, "RequestTooLargeError", "invalid_request_error"},
	{415, "UnsupportedMediaTypeError", "invalid_request_error"},
	{431, "RequestTooLargeError", "invalid_request_error"},
	{500, "InternalServerError", "api_error"},
	{502, "BadGatewayError", "api_error"},
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

/* ---- writing JSON ---- */

void
answer_error(Buf *b, ErrorDialect d, int status, const char *message)
{
	const TypeRow *row = type_row(status);
	JsonOut		j = {.b = b};

	json_open(&j, '{');
	if (d == ANTHROPIC)
		json_key_cstr(&j, "type", "error");
	json_key(&j, "error");
	json_open(&j, '{');
	if (d == ANTHROPIC)
		json_key_cstr(&j, "type", row->anthropic);
	json_key_cstr(&j, "message", message);
	if (d != ANTHROPIC)
	{
		json_key_cstr(&j, "type", row->openai);
		json_key_null(&j, "param");
		json_key_int(&j, "code", status);
	}
	json_close(&j, '}');
	json_close(&j, '}');
}

/* ---- reading JSON ---- */

/* Is the span exactly this text? */
static bool
is(StrView s, const char *text)
{
	return s.n == strlen(text) && memcmp(s.s, text, s.n) == 0;
}

/* Is the value this string? */
static bool
is_word(StrView value, const char *word)
{
	return value.n >= 2 && *value.s == '"' && is((StrView) {value.s + 1, value.n - 2}, word);
}

/* Return the status of an error object.  Anthropic's has no code, OpenAI's may have none. */
static int
status_of_error(StrView error, bool anthropic)
{
	int			coded = 0;
	int			typed = 0;
	JsonMembers m;
	StrView		key,
				value;

	(void) json_members(&m, error.s, error.n);
	while (json_member(&m, &key, &value) > 0)
	{
		if (is(key, "code") && !anthropic && value.s[0] >= '0' && value.s[0] <= '9')
			coded = value.n == 3 ? atoi(value.s) : 500;
		for (size_t i = N_TYPES; i-- > 0 && is(key, "type");)
			if (is_word(value, anthropic ? types[i].anthropic : types[i].openai))
				typed = types[i].status;
		if (is(key, "type") && is_word(value, "NotImplementedError"))
			typed = 400;
	}
	coded = coded != 0 ? coded : typed;
	return coded >= 400 && coded <= 599 ? coded : 500;
}

/*
 * However long the message is: a response that is not recognized as an error would be committed.  Of a
 * response that is not an error only the first member is read, because errors begin with "error".
 */
int
answer_error_status(const char *json, size_t len)
{
	JsonMembers m;
	StrView		key,
				first,
				value;

	if (!json_members(&m, json, len) || json_member(&m, &key, &first) < 1)
		return 0;
	if (is(key, "error"))
		return *first.s == '{' && json_member(&m, &key, &value) == 0 ? status_of_error(first, false) : 0;
	if (!is(key, "type") || !is_word(first, "error"))
		return 0;
	while (json_member(&m, &key, &value) > 0)
		if (is(key, "error") && *value.s == '{')
			return status_of_error(value, true);
	return 0;
}

void
answer_event_error(Buf *b, const char *json, int sequence)
{
	StrView		type = {"null", 4};
	StrView		param = type;
	StrView		message = {"\"\"", 2};
	JsonMembers m;
	StrView		key,
				value;
	JsonOut		j = {.b = b};

	if (json_members(&m, json, strlen(json)) && json_member(&m, &key, &value) > 0 &&
		json_members(&m, value.s, value.n))
	{
		while (json_member(&m, &key, &value) > 0)
			if (is(key, "type"))
				type = value;
			else if (is(key, "message"))
				message = value;
			else if (is(key, "param"))
				param = value;
	}
	json_open(&j, '{');
	json_key_cstr(&j, "type", "error");
	json_key(&j, "code");
	json_raw(&j, type.s, type.n);
	json_key(&j, "message");
	json_raw(&j, message.s, message.n);
	json_key(&j, "param");
	json_raw(&j, param.s, param.n);
	json_key_int(&j, "sequence_number", sequence);
	json_close(&j, '}');
}

char *
answer_event_type(const char *json)
{
	JsonMembers m;
	StrView		key,
				value;

	if (!json_members(&m, json, strlen(json)) || json_member(&m, &key, &value) < 1 || !is(key, "type") ||
		*value.s != '"')
		return NULL;
	return mem_strndup(value.s + 1, value.n - 2);
}
