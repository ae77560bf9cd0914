/*
 * test_http.c
 *	  The HTTP server's detection of errors, paths and settings.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/alloc.h"
#include "server/api/api_internal.h"
#include "httpd/http_error.h"
#include "httpd/httpd_settings.h"
#include "httpd/router.h"
#include "tests/unit/check.h"

/* Return the error status in a text. */
static int
error_in(const char *json)
{
	return answer_error_status(json, strlen(json));
}

/* An error is detected whatever the length of its message. */
static void
test_long_errors(void)
{
	static const size_t sizes[] = {1000, 65535, 65536, 70000, 4 << 20};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (ErrorDialect d = OPENAI; d <= ANTHROPIC; d++)
		{
			char	   *message = mem_alloc(sizes[i] + 1);
			Buf			b = {0};

			memset(message, i % 2 ? '"' : 'x', sizes[i]);
			message[sizes[i]] = '\0';
			answer_error(&b, d, 404, message);
			CHECK(error_in(b.data) == 404, "%zu bytes", sizes[i]);
			b.data[b.len - 1] = ' ';
			CHECK(error_in(b.data) == (d == OPENAI ? 0 : 404), "%zu bytes, cut", sizes[i]);
			buf_free(&b);
			mem_free(message);
		}
	CHECK(error_in("{\"error\": {\"message\": \"}\\\"{\", \"type\": \"NotImplementedError\", \"code\": "
				   "400}}") == 400, "brackets in strings");
	CHECK(error_in("{\"error\": {\"x\": {\"code\": 404}, \"code\": 429}}") == 429, "of its own");
	CHECK(error_in("{\"error\": {\"code\": 400}} ") == 400 &&
		  error_in("{\"error\": {\"code\": \"400\"}}") == 500, "as documented");
	CHECK(error_in("{\"type\": \"error\", \"x\": [1, {}], \"error\": {\"type\": \"overloaded_error\"}}") ==
		  503, "as documented");
	CHECK(error_in("{\"error\": {") == 0 && error_in("{\"error\"") == 0 && error_in("{\"error\": \"") == 0 &&
		  error_in("{\"type\": \"error") == 0, "cut");
}

static void
test_errors(void)
{
	Buf			b = {0};

	CHECK(answer_status_of("22023") == 400 && answer_status_of("22P02") == 400 &&
		  answer_status_of("54000") == 400, "as documented");
	CHECK(answer_status_of("42501") == 403 && answer_status_of("42704") == 404 &&
		  answer_status_of("0A000") == 400, "as documented");
	CHECK(answer_status_of("53300") == 503 && answer_status_of("55000") == 503 &&
		  answer_status_of("57P03") == 503, "as documented");
	CHECK(answer_status_of("57014") == 408 && answer_status_of("58000") == 503 &&
		  answer_status_of("58030") == 500, "as documented");
	CHECK(answer_status_of("23505") == 400 && answer_status_of("P0001") == 400 &&
		  answer_status_of("25006") == 400, "as documented");
	CHECK(answer_status_of("40001") == 503 && answer_status_of("40P01") == 503 &&
		  answer_status_of("55P03") == 503, "as documented");
	CHECK(answer_status_of("XX000") == 500 && answer_status_of("") == 500, "as documented");
	answer_error(&b, OPENAI, 404, "no \"x\"\n\xff\xc3\xa4");
	CHECK(strcmp(b.data, "{\"error\":{\"message\":\"no "
						 "\\\"x\\\"\\n\xEF\xBF\xBD\xc3\xa4\",\"type\":\"NotFoundError\",\"param\":null,"
						 "\"code\":404}}") == 0, "as documented");
	CHECK(error_in(b.data) == 404, "as documented");
	buf_reset(&b);
	answer_error(&b, ANTHROPIC, 413, "x");
	CHECK(strcmp(b.data, "{\"type\":\"error\",\"error\":{\"type\":\"request_too_large\","
						 "\"message\":\"x\"}}") == 0, "as documented");
	CHECK(error_in(b.data) == 413, "as documented");
	for (int status = 400; status < 600; status++)
	{
		buf_reset(&b);
		answer_error(&b, OPENAI, status, "");
		CHECK(error_in(b.data) == status, "%d", status);
	}
	buf_free(&b);
	CHECK(error_in("{\"error\": {\"message\": \"m\", \"type\": \"BadRequestError\"}}") == 400 &&
		  error_in("{\"error\": {\"type\": \"NotImplementedError\"}}") == 400, "as documented");
	CHECK(error_in("{\"error\": {\"code\": 7}}") == 500, "as documented");
	/* a failed response, and what only looks like an error */
	CHECK(error_in("{\"error\": {\"code\": 400}, \"object\": \"response\"}") == 0, "as documented");
	CHECK(error_in("{\"error\": null}") == 0, "as documented");
	CHECK(error_in("{\"type\": \"message\", \"error\": {}}") == 0, "as documented");
	CHECK(error_in("[{\"error\": {\"code\": 400}}]") == 0 && error_in("") == 0 && error_in("{") == 0,
		  "as documented");
}

/* In the HTTP server, too, the engine's error bodies have the status of their SQLSTATE, in both formats. */
static void
test_engine_errors(void)
{
	static const char *const states[] = {"22023", "28000", "42501", "42704", "0A000", "54000", "53300",
										 "53400", "55000", "57014", "57P03", "58000", "XX000"};

	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		for (int anthropic = 0; anthropic < 2; anthropic++)
		{
			ApiError	e = {.sqlstate = {states[i], 5},.message = {"m", 1}};
			Buf			b = {0};

			api_error_body(&e, anthropic != 0, &b);
			CHECK(error_in(b.data) == answer_status_of(states[i]) &&
				  api_error_status(&e) == answer_status_of(states[i]), "%s: %s", states[i], b.data);
			buf_free(&b);
		}
}

/* An error in the stream of /v1/responses. */
static void
test_event_errors(void)
{
	Buf			b = {0};
	Buf			event = {0};

	answer_error(&b, OPENAI, 503, "a \"b\"");
	answer_event_error(&event, b.data, 7);
	CHECK(strcmp(event.data, "{\"type\":\"error\",\"code\":\"ServiceUnavailableError\",\"message\":\"a "
							 "\\\"b\\\"\",\"param\":null,\"sequence_number\":7}") == 0, "%s", event.data);
	buf_reset(&event);
	answer_event_error(&event, "{\"error\": {\"param\": \"model\", \"x\": [1, {}]}}", 0);
	CHECK(strcmp(event.data, "{\"type\":\"error\",\"code\":null,\"message\":\"\",\"param\":\"model\","
							 "\"sequence_number\":0}") == 0, "%s", event.data);
	buf_free(&b);
	buf_free(&event);
}

static void
test_events(void)
{
	char	   *s = answer_event_type(" { \"type\" : \"message_start\", \"x\": 1}");

	CHECK(s != NULL && strcmp(s, "message_start") == 0, "as documented");
	mem_free(s);
	CHECK(answer_event_type("{\"x\": 1, \"type\": \"late\"}") == NULL, "as documented");
	CHECK(answer_event_type("{\"type\": 1}") == NULL && answer_event_type("[]") == NULL &&
		  answer_event_type("{") == NULL, "as documented");
	CHECK(answer_event_type("{\"type\":\"") == NULL, "as documented");
}

static void
test_routes(void)
{
	const HttpRoute *r = route_find("/v1/messages");

	CHECK(r != NULL && r->dialect == ANTHROPIC && r->streams && route_allows(r, "POST") &&
		  !route_allows(r, "GET") && !route_allows(r, "POS"), "as documented");
	r = route_find("/v1/models");
	CHECK(r != NULL && route_allows(r, "GET") && route_allows(r, "HEAD") && !route_allows(r, "POST"),
		  "as documented");
	r = route_find("/v1/models/org%2Fname");
	CHECK(r != NULL && strcmp(r->path, "/v1/models/*") == 0, "as documented");
	r = route_find("/v1/responses/resp_1/cancel");
	CHECK(r != NULL && route_allows(r, "POST"), "as documented");
	CHECK(route_find("/ping") != NULL && route_allows(route_find("/ping"), "POST"), "as documented");
	CHECK(route_find("/v1/models/") == NULL && route_find("/v1/models/org/name") != NULL &&
		  route_find("/v1/responses//cancel") == NULL, "as documented");
	/* a path filter before the server may decode these or not */
	CHECK(route_find("/v1%2Fmodels") == NULL && route_find("/%76ersion") == NULL &&
		  route_find("/v1/responses/a%2fcancel") == NULL && route_find("/v1/responses/a%2Fb/cancel") == NULL,
		  "escapes");
	CHECK(route_find("/v1/responses/a%20b") != NULL && route_find("/v1/responses/a/b") == NULL, "of an id");
	CHECK(route_find("") == NULL && route_find("/") == NULL && route_find("/v1/model") == NULL &&
		  route_find("/v1/modelss") == NULL, "as documented");
	for (int i = 0; i < route_count(); i++)
		CHECK(route_number(route_at(i)) == i, "%d", i);
}

static bool
set(const char *text)
{
	static char kept[16][128];
	static int	n;

	snprintf(kept[n], sizeof(kept[n]), "%s", text);
	return conf_set(kept[n++]);
}

static void
test_conf(void)
{
	CHECK(!conf_origin_allowed("http://a.example"), "as documented");
	CHECK(set("allowed_origins=http://a.example, https://b.example:8443") && set("max_body_kb=3") &&
		  set("port=81"), "as documented");
	CHECK(http_conf.max_body == 3072 && http_conf.port == 81, "as documented");
	CHECK(conf_origin_allowed("http://a.example") && conf_origin_allowed("https://b.example:8443"),
		  "as documented");
	CHECK(!conf_origin_allowed("http://a.example:80") && !conf_origin_allowed("http://a.exampl") &&
		  !conf_origin_allowed(""), "as documented");
	CHECK(set("allowed_origins=*") && conf_origin_allowed("null"), "as documented");
	CHECK(!set("port=x") && !set("port=") && !set("port=-1") && !set("no_such=1") && !set("port"),
		  "as documented");
	CHECK(set("role=a=b") && strcmp(http_conf.role, "a=b") == 0 && set("stamp=1.2.3"), "as documented");
}

int
main(void)
{
	RUN(test_errors());
	RUN(test_long_errors());
	RUN(test_engine_errors());
	RUN(test_event_errors());
	RUN(test_events());
	RUN(test_routes());
	RUN(test_conf());
	return check_done("test_http");
}
