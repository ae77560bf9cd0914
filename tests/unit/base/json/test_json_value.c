/*
 * test_json_value.c
 *	  Values of JSON texts, and of endpoints' responses, read in place: validity, members, texts,
 *	  numbers.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "remote/codec/decode_internal.h"
#include "tests/unit/check.h"

/* test_jsoncheck.c tests what is JSON; this tests the errors for an endpoint's response. */
static void
test_check(void)
{
	static const struct
	{
		const char *s;
		const char *detail;
	}			cases[] = {
		{"", "It is empty."}, {"{\"a\": [1", "It is cut off after 8 bytes."},
		{"{\"a\": x}", "It makes no sense from byte 7 of 8 on."},
		{"<html>", "It makes no sense from byte 1 of 6 on."}
	};
	char		deep[2 * REPLY_DEPTH + 4];
	Err			e;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		e = (Err) {0};
		CHECK(!reply_check(cases[i].s, strlen(cases[i].s), &e) && e.cls == ERR_PROTOCOL &&
			  strcmp(e.detail, cases[i].detail) == 0, "%s: %s", cases[i].s, e.detail);
	}
	CHECK(reply_check("{\"a\": [1, \"\\u00e4\"]}\n", 21, &e), "an object");
	for (int over = 0; over < 2; over++)
	{
		size_t		n = (size_t) (REPLY_DEPTH + over);

		memset(deep, '[', n);
		memset(deep + n, ']', n);
		CHECK(reply_check(deep, 2 * n, &e) == !over, "%zu levels", n);
	}
}

static StrView
span(const char *s)
{
	return (StrView) {s, strlen(s)};
}

static void
test_values(void)
{
	static const char *const names[] = {"a", "b", "c"};
	static const char *const bad[] = {"\"\\u0000\"", "\"x\\u0000y\"", "\"\\ud800\"", "\"\\ud800x\"",
									  "\"\\udc00\"", "\"\\ud800\\ud800\"", "\"\\ud800\\u0041\"", "1", "null",
									  "[]"};
	StrView		f[3];
	Buf			b = {0};
	int64_t		x;
	double		d;

	CHECK(json_fields(span("{ \"a\" : [1, {\"b\":2}] , \"x\":{\"c\":3}, \"b\":\"}\\\"\", \"a\":null,\"a\": 5 "
						   "}"), names, 3, f), "an object");
	CHECK(f[0].n == 1 && *f[0].s == '5' && f[1].n == 5 && f[2].s == NULL, "members");
	CHECK(!json_fields(span("[1]"), names, 3, f) && !json_fields((StrView) {NULL, 0}, names, 3, f) &&
		  f[0].s == NULL, "no object");
	CHECK(json_text(span("\"a\\u00e4\\u20ac\\ud83d\\ude00\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0001z\""), &b) &&
		  strcmp(b.data, "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"\\/\b\f\n\r\t\x01z") == 0, "%s", b.data);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		buf_reset(&b);
		CHECK(!json_text(span(bad[i]), &b), "%s", bad[i]);
	}
	CHECK(!json_text((StrView) {NULL, 0}, &b), "nothing");
	CHECK(json_whole(span("-7"), -7, 7, &x) && x == -7 && json_whole(span("3.0"), 0, 3, &x) && x == 3 &&
		  json_whole(span("1e2"), 0, 100, &x) && x == 100, "ints");
	CHECK(!json_whole(span("8"), -7, 7, &x) && !json_whole(span("0.5"), 0, 9, &x) &&
		  !json_whole(span("\"1\""), 0, 9, &x) && !json_whole(span("1e300"), 0, INT64_MAX, &x), "no ints");
	CHECK(json_num(span("-0.0"), &d) && d == 0 && signbit(d) && !json_num(span("1e400"), &d) &&
		  !json_num(span("true"), &d), "numbers");
	CHECK(json_is(span("\"stop\""), "stop") && !json_is(span("\"stop\""), "sto") &&
		  !json_is(span("stop"), "stop"), "words");
	buf_free(&b);
}

/* Numbers of any form have the value that strtod() gives. */
static void
test_numbers(void)
{
	unsigned	seed = 5;
	int			bad = 0;

	for (int i = 0; i < 300000; i++)
	{
		char		text[64];
		double		want;
		double		got;
		float		v;
		uint32_t	bits = (uint32_t) rand_r(&seed) << 16 ^ (uint32_t) rand_r(&seed);
		Buf			floats = {0};
		char		list[80];

		memcpy(&v, &bits, 4);
		if (!isfinite(v))
			continue;
		switch (i % 5)
		{
			case 0:
				snprintf(text, sizeof(text), "%.9g", (double) v);
				break;
			case 1:
				snprintf(text, sizeof(text), "%.17g", (double) v);
				break;
			case 2:
				snprintf(text, sizeof(text), "%d.%09u", rand_r(&seed) % 2000 - 1000,
						 (unsigned) rand_r(&seed) % 1000000000);
				break;
			case 3:
				snprintf(text, sizeof(text), "%s0.%u%u", rand_r(&seed) % 2 ? "-" : "",
						 (unsigned) rand_r(&seed), (unsigned) rand_r(&seed));
				break;
			default:
				snprintf(text, sizeof(text), "%d%de%d", 1 + rand_r(&seed) % 9, rand_r(&seed),
						 rand_r(&seed) % 60 - 45);
		}
		want = strtod(text, NULL);
		bad += !json_num(span(text), &got) || memcmp(&got, &want, sizeof(got)) != 0;
		snprintf(list, sizeof(list), "[ 1,%s ]", text);
		if (isfinite((float) want))
			bad += !json_floats(span(list), &floats) || floats.len != 8 ||
				((const float *) floats.data)[1] != (float) want;
		buf_free(&floats);
	}
	CHECK(bad == 0, "%d numbers are others", bad);
}

static void
test_floats(void)
{
	static const char *const bad[] = {"{}", "1", "[1,[2]]", "[\"1\"]", "[null]", "[1,true]", "[1e39]",
									  "[-1e39]", "[[1]]"};
	Buf			b = {0};

	CHECK(json_floats(span("[]"), &b) && b.len == 0 && json_floats(span("[ ]"), &b) && b.len == 0, "none");
	CHECK(json_floats(span("[1\n, 2,\t3 ]"), &b) && b.len == 12 && ((const float *) b.data)[2] == 3, "three");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(!json_floats(span(bad[i]), &b), "%s", bad[i]);
	buf_free(&b);
}

int
main(void)
{
	RUN(test_check());
	RUN(test_values());
	RUN(test_numbers());
	RUN(test_floats());
	return check_done("test_json_value");
}
