/*
 * answer.c
 *	  Statuses and error bodies.
 *
 * Answers pass through the door as they are.  Only whether one is an error is looked at, for which
 * short ones that begin like an error are parsed.
 *
 * Tests: tests/unit/test_http.c, tests/t/083_http.pl.
 */
#include "http/answer.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8char.h"

/* ---- statuses ---- */

typedef struct StateRow
{
	const char *state;			/* SQLSTATE, or its class (two characters) */
	int			status;
} StateRow;

/* exact ones before their classes */
static const StateRow states[] = {
	{"22P05", 400}, {"22", 400},	/* data exception: parameters, bad JSON, encoding */
	{"25006", 400},				/* something is to be stored, on a standby */
	{"54", 400},				/* context or limits exceeded */
	{"42501", 403},				/* not granted */
	{"42704", 404},				/* no such model, adapter */
	{"42883", 503}, {"3F000", 503}, /* the extension of the database is older than the door, or has moved */
	{"0A000", 501},
	{"28", 401},
	{"53400", 429},				/* a limit of the role */
	{"53300", 503}, {"53200", 503}, {"53", 503},
	{"55000", 503},				/* asleep, unloaded */
	{"57014", 408},				/* timeout_ms, statement_timeout, llm_cancel */
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

static const TypeRow types[] = {
	{400, "BadRequestError", "invalid_request_error"},
	{401, "AuthenticationError", "authentication_error"},
	{403, "PermissionDeniedError", "permission_error"},
	{404, "NotFoundError", "not_found_error"},
	{405, "MethodNotAllowedError", "invalid_request_error"},
	{408, "RequestTimeoutError", "timeout_error"},
	{413, "RequestTooLargeError", "request_too_large"},
	{415, "UnsupportedMediaTypeError", "invalid_request_error"},
	{429, "RateLimitError", "rate_limit_error"},
	{501, "NotImplementedError", "invalid_request_error"},
	{503, "ServiceUnavailableError", "overloaded_error"},
	{500, "InternalServerError", "api_error"},
};

#define N_TYPES	(sizeof(types) / sizeof(types[0]))

static const TypeRow *
type_row(int status)
{
	for (size_t i = 0; i < N_TYPES; i++)
		if (types[i].status == status)
			return &types[i];
	return &types[status < 500 ? 0 : N_TYPES - 1];
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
answer_error(Buf *b, Dialect d, int status, const char *message)
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

#define ERROR_BODY_MAX	65536

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

int
answer_error_status(const char *json)
{
	const char *end = json + strnlen(json, ERROR_BODY_MAX + 1);
	const char *s = skip_space(json, end);
	cJSON	   *root;
	const cJSON *error;
	const cJSON *code;
	const cJSON *type;
	int			status = 0;

	if (end - json > ERROR_BODY_MAX || s == end || *s != '{')
		return 0;
	s = skip_space(s + 1, end);
	if (strncmp(s, "\"error\"", 7) != 0 && strncmp(s, "\"type\"", 6) != 0)
		return 0;
	root = cJSON_Parse(json);
	error = cJSON_GetObjectItemCaseSensitive(root, "error");
	type = cJSON_GetObjectItemCaseSensitive(error, "type");
	code = cJSON_GetObjectItemCaseSensitive(error, "code");
	if (cJSON_IsObject(error) && root->child == error && error->next == NULL)
	{
		status = cJSON_IsNumber(code) ? code->valueint : 500;
		for (size_t i = 0; i < N_TYPES && !cJSON_IsNumber(code) && cJSON_IsString(type); i++)
			if (strcmp(types[i].openai, type->valuestring) == 0)
				status = types[i].status;
		if (status < 400 || status > 599)
			status = 500;
	}
	else if (cJSON_IsObject(error) && cJSON_IsString(cJSON_GetObjectItemCaseSensitive(root, "type")) &&
			 strcmp(cJSON_GetObjectItemCaseSensitive(root, "type")->valuestring, "error") == 0)
	{
		status = 500;
		for (size_t i = N_TYPES; i-- > 0 && cJSON_IsString(type);)
			if (strcmp(types[i].anthropic, type->valuestring) == 0)
				status = types[i].status;
	}
	cJSON_Delete(root);
	return status;
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
