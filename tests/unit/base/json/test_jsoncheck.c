/*
 * test_jsoncheck.c
 *	  What is JSON and what isn't, and at which byte it becomes invalid; a member's value found on the
 *	  way; UTF-8.
 */
#include <stdlib.h>
#include <string.h>

#include "base/json/json_reader.h"
#include "base/utf8char.h"
#include "tests/unit/check.h"

#define DEPTH	100

/* Check a copy of exactly this size, so that ASan finds reads beyond it. */
static bool
checked(const char *s, size_t n, JsonCheck *c)
{
	char	   *copy = malloc(n ? n : 1);
	bool		ok;

	memcpy(copy, s, n);
	*c = (JsonCheck) {.depth = DEPTH,.key = "stream",.value = s};
	ok = json_check(copy, n, c);
	if (c->value != NULL)
		c->value = s + (c->value - copy);
	CHECK(ok == json_ok(copy, n, DEPTH), "without a key: %.*s", (int) n, s);
	CHECK(ok ? c->at == n : c->at <= n, "%zu of %zu", c->at, n);
	free(copy);
	return ok;
}

static void
test_good(void)
{
	static const char *const good[] = {
		"{}", " [ ] ", "1", "\"x\"", "null", "\ttrue\r\n", "-0.5e+10", "[1, 2.25, -3E-7, 0]",
		"{\"a\": [1, {\"b\": []}], \"stream\" : true, \"c\": {}}\n", "\"\\u00e4\\n\\/\\b\\f\\r\\t\\\\\\\"\"",
		"\"\xc3\xa4\xf0\x9f\x98\x80\"", "{\"\": \"\"}", "[[],{},[]]", "{\"\":{\"\":{}}}", "[[[[]]]]",
		"\"\x7f\"", "\"\\u0000\\ud800\""
	};
	JsonCheck	c;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
	{
		size_t		n = strlen(good[i]);

		CHECK(checked(good[i], n, &c), "%s", good[i]);
		/* no prefix of it is JSON, except for numbers and white space at the end */
		for (size_t k = 0; k + 1 < n && strchr("{[\"", good[i][0]) != NULL; k++)
			if (good[i][n - 1] != '\n' || k + 2 < n)
				CHECK(!checked(good[i], k, &c), "%zu bytes of %s", k, good[i]);
	}
}

/* Each text is invalid from this byte on. */
static void
test_bad(void)
{
	static const struct
	{
		const char *s;
		size_t		at;
	}			bad[] = {
		{"", 0}, {" ", 1}, {"{", 1}, {"}", 0}, {"{]", 1}, {"[}", 1}, {"[1,]", 3}, {"[,1]", 1}, {"[1 2]", 3},
		{"{\"a\"}", 4}, {"{\"a\":}", 5}, {"{\"a\":1,}", 7},
		{"{a:1}", 1}, {"{'a':1}", 1}, {"{\"a\" 1}", 5}, {"{\"a\":1}}", 7}, {"{} {}", 3}, {"[1]]", 3},
		{"[1}", 2}, {"{\"a\":1]", 6}, {"[\"a\":1]", 4}, {"{1:2}", 1}, {"{,}", 1},
		{"[[]", 3}, {"tru", 0}, {"True", 0}, {"nulll", 4}, {"01", 1}, {"1.", 2}, {".5", 0}, {"1e", 2},
		{"1e+", 3}, {"+1", 0}, {"-", 1}, {"NaN", 0}, {"Infinity", 0},
		{"-Infinity", 1}, {"\"", 1}, {"\"\\", 2}, {"\"\\x\"", 2}, {"\"\\u12g4\"", 2}, {"\"\\u12", 2},
		{"\"a\nb\"", 2}, {"\"\x01\"", 1}, {"\"\xff\"", 1}, {"\"\x80\"", 1},
		{"\"\xc0\x80\"", 1}, {"\"\xed\xa0\x80\"", 1}, {"\"\xf4\x90\x80\x80\"", 1}, {"\"\xc3\"", 1},
		{"\"\xe2\x82", 1}, {"\xef\xbb\xbf{}", 0}, {"// x\n{}", 0}
	};
	JsonCheck	c;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		CHECK(!checked(bad[i].s, strlen(bad[i].s), &c), "%s", bad[i].s);
		CHECK(c.at == bad[i].at, "%s: from byte %zu on", bad[i].s, c.at);
	}
	CHECK(!checked("{}\0", 3, &c) && c.at == 2, "a byte of zero behind it");
	CHECK(!checked("a\0b", 3, &c) && !checked("1\0", 2, &c) && !checked("\"\0\"", 3, &c), "bytes of zero");
	CHECK(!checked("\"\\\0\"", 4, &c) && c.at == 2, "an escaped byte of zero");
}

static void
test_depth(void)
{
	static const int depths[] = {1, 63, 64, 65, 128, 512, 1000, JSON_DEPTH_MOST};
	char		text[2 * JSON_DEPTH_MOST + 2];

	for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++)
		for (size_t over = 0; over < 2; over++)
		{
			size_t		n = (size_t) depths[i] + over;

			memset(text, '[', n);
			memset(text + n, ']', n);
			CHECK(json_ok(text, 2 * n, depths[i]) == !over, "%zu levels of %d", n, depths[i]);
			/* a text that is invalid must not depend on its neighbours in memory */
			if (n > 2)
			{
				text[n + 1] = '}';
				CHECK(!json_ok(text, 2 * n, depths[i]), "%zu levels, mixed up", n);
			}
		}
	CHECK(!json_ok("[]", 2, 0) && json_ok("1", 1, 0), "none");
	CHECK(json_ok("[[],{},[{}]]", 12, 3) && !json_ok("[[],{},[{}]]", 12, 2),
		  "levels that end are not counted");
}

/* Return where the value of "stream" begins; -1: there is none. */
static void
test_key(void)
{
	static const struct
	{
		const char *s;
		long		at;
	}			cases[] = {
		{"{}", -1}, {"1", -1}, {"\"stream\"", -1}, {"[]", -1}, {"{\"stream\": true}", 11},
		{"{\"stream\":false}", 10}, {"{\"stream\": [true]}", 11},
		{"{\"stream\": \"true\"}", 11}, {"{\"a\": {\"stream\": true}}", -1}, {"[{\"stream\": true}]", -1},
		{"{\"a\": \"stream\", \"b\": true}", -1},
		{"{\"streams\": true}", -1}, {"{\"strea\": true}", -1}, {"{\"str\\u0065am\": true}", -1},
		{"{\"a\": [1, {\"b\": []}], \"stream\" : true, \"c\": {}}", 33},
		{"{\"stream\": true, \"stream\": false}", 27}, {"{\"stream\": true, \"stream\": {\"stream\": true}}",
														27},
		{"{\"stream\": [{\"stream\": 1}], \"a\": 2}", 11}, {"{\"x\": \"\\\"stream\\\": true\"}", -1},
		{"{\"a\": {}, \"stream\": 1}", 20}
	};
	JsonCheck	c;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		CHECK(checked(cases[i].s, strlen(cases[i].s), &c), "%s", cases[i].s);
		CHECK(c.value == (cases[i].at < 0 ? NULL : cases[i].s + cases[i].at), "%s", cases[i].s);
	}
}

/* Whatever byte is changed, the check stays within the text. */
static void
test_damage(void)
{
	const char	text[] = "{\"a\": [1, -2.5e3, {\"b\\n\": \"\\u00e4\xc3\xa4\"}], \"stream\": true, \"n\": "
						 "null}";
	size_t		n = sizeof(text) - 1;
	char		changed[sizeof(text)];
	int			good = 0;
	JsonCheck	c;

	for (size_t i = 0; i < n; i++)
		for (int byte = 0; byte < 256; byte++)
		{
			memcpy(changed, text, n);
			changed[i] = (char) byte;
			good += checked(changed, n, &c);
		}
	/* most changes make it invalid, but not those within a string or a number */
	CHECK(good > 500 && good < (int) n * 256 / 4, "%d", good);
}

static void
test_utf8(void)
{
	CHECK(utf8_text_ok("a\xc3\xa4\xf0\x9f\x98\x80", 7) && utf8_text_ok(NULL, 0), "UTF-8");
	CHECK(!utf8_text_ok("\xc3", 1) && !utf8_text_ok("a\x80", 2) && !utf8_text_ok("\xf5\x80\x80\x80", 4),
		  "not UTF-8");
}

int
main(void)
{
	RUN(test_good());
	RUN(test_bad());
	RUN(test_depth());
	RUN(test_key());
	RUN(test_damage());
	RUN(test_utf8());
	return check_done("test_jsoncheck");
}
