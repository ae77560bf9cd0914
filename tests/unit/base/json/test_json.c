/*
 * test_json.c
 *	  JSON texts as trees: what is accepted, look-ups, trees that are built, and printing.
 */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/json/json.h"
#include "base/json/json_reader.h"
#include "tests/unit/check.h"

static Json *
parsed(const char *s)
{
	return json_parse(s, strlen(s));
}

static void
check_print(const char *s, const char *want)
{
	Json	   *v = parsed(s);
	char	   *text = v != NULL ? json_print(v) : NULL;

	CHECK(text != NULL && strcmp(text, want) == 0, "%s: %s", s, text != NULL ? text : "none");
	mem_free(text);
	json_free(v);
}

static void
test_values(void)
{
	Json	   *v = parsed("{\"a\": [1, -2.5e1, \"x\\u0000y\", true, false, null], \"b\": {}, \"a\": 2, "
						   "\"big\": 1e400, \"\": []}");
	const Json *a = json_get(v, "a");

	CHECK(json_is_object(v) && json_count(v) == 5 && json_is_array(a) && json_count(a) == 6,
		  "the first of two counts");
	CHECK(json_item(a, 0)->num == 1 && json_item(a, 1)->num == -25 &&
		  strcmp(json_item(a, 1)->s, "-2.5e1") == 0, "numbers");
	CHECK(json_item(a, 2)->len == 3 && memcmp(json_str_of(json_item(a, 2)), "x\0y", 4) == 0, "U+0000");
	CHECK(json_is_true(json_item(a, 3)) && json_is_false(json_item(a, 4)) &&
		  json_is_bool(a->last->next) == false, "words");
	CHECK(json_is_null(a->last) && json_item(a, 6) == NULL && json_item(a, -1) == NULL, "the last one");
	CHECK(isinf(json_get(v, "big")->num) && json_to_int(json_get(v, "big")) == INT_MAX, "beyond a double");
	CHECK(json_get(v, "c") == NULL && json_get(a, "a") == NULL && json_get(NULL, "a") == NULL, "none");
	CHECK(json_str_of(a) == NULL && json_str_of(NULL) == NULL && json_to_int(a) == 0 &&
		  json_count(NULL) == 0, "none");
	CHECK(json_is_array(json_get(v, "")), "no name");
	json_free(v);
	json_free(NULL);
}

static void
test_bad(void)
{
	static const char *const bad[] = {
		"", " ", "{", "[1,]", "01", "+1", "1.", "NaN", "\"\\ud800\"", "{\"\\udc00\":1}", "\"\xff\"",
			"\"\n\"", "1 2", "[] x", "{\"a\":1,}"
	};
	size_t		at;
	Buf			deep = {0};
	Json	   *v;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(parsed(bad[i]) == NULL, "%s", bad[i]);
	CHECK(json_parse_at("{\"a\": x}", 8, &at) == NULL && at == 6, "at %zu", at);
	CHECK(json_parse(NULL, 0) == NULL && json_parse("1\0", 2) == NULL, "no text");
	for (int n = JSON_TREE_DEPTH; n <= JSON_TREE_DEPTH + 1; n++)
	{
		buf_reset(&deep);
		for (int i = 0; i < 2 * n; i++)
			buf_addc(&deep, i < n ? '[' : ']');
		v = json_parse(deep.data, deep.len);
		CHECK((v != NULL) == (n == JSON_TREE_DEPTH), "%d levels", n);
		json_free(v);
	}
	buf_free(&deep);
	v = parsed("\xEF\xBB\xBF[1]");
	CHECK(json_is_array(v), "a byte order mark");
	json_free(v);
}

static void
test_print(void)
{
	check_print(" { \"a\" : [ 1.0 , 12345678901234567890 , -0 ] , \"b\" : \"\\u00e4\\n\\\"\" } ",
				"{\"a\":[1.0,12345678901234567890,-0],\"b\":\"\xc3\xa4\\n\\\"\"}");
	check_print("[[],{},[{}],null,true,false,\"\"]", "[[],{},[{}],null,true,false,\"\"]");
	check_print("3", "3");
}

static void
test_built(void)
{
	Json	   *v = json_new(JSON_IS_OBJECT);
	Json	   *list;
	Json	   *other = parsed("{\"x\": [1, {\"y\": \"z\"}]}");
	char	   *text;

	json_add_str(v, "s", "a\"b");
	json_add_str(v, "n", NULL);
	json_add_num(v, "i", 4294967296.0);
	json_add_num(v, "f", 0.1);
	json_add_bool(v, "t", true);
	list = json_add(v, "l", JSON_IS_ARRAY);
	for (int i = 0; i < 3; i++)
		json_add_num(list, NULL, i);
	json_add_copy(v, "x", json_get(other, "x"));
	json_free(other);
	json_set_num(json_get(v, "n"), 7);
	json_remove(v, "none");
	json_remove(v, "f");
	text = json_print(v);
	CHECK(strcmp(text, "{\"s\":\"a\\\"b\",\"n\":7,\"i\":4294967296,\"t\":true,\"l\":[0,1,2],\"x\":[1,"
					   "{\"y\":\"z\"}]}") == 0, "%s", text);
	mem_free(text);
	json_remove(v, "x");
	json_remove(v, "s");
	json_add_bool(v, "last", false);
	text = json_print(v);
	CHECK(strcmp(text, "{\"n\":7,\"i\":4294967296,\"t\":true,\"l\":[0,1,2],\"last\":false}") == 0 &&
		  json_count(v) == 5, "%s", text);
	mem_free(text);
	json_free(v);
}

static bool
equal(const char *a, const char *b)
{
	Json	   *x = parsed(a);
	Json	   *y = parsed(b);
	bool		same = json_equal(x, y);

	json_free(x);
	json_free(y);
	return same;
}

static void
test_equal(void)
{
	CHECK(equal("{\"a\": 1.0, \"b\": [null, \"\\u0041\"]}", "{\"b\": [null, \"A\"], \"a\": 1}"), "equal");
	CHECK(!equal("[1, 2]", "[2, 1]") && !equal("{\"a\": 1}", "{\"a\": 1, \"b\": 2}") &&
		  !equal("true", "false"), "not equal");
	CHECK(!equal("{\"a\": 1}", "{\"b\": 1}") && !equal("\"a\"", "\"a\\u0000\"") && !equal("1", "\"1\""),
		  "not equal");
}

/*
 * With any byte changed, a text becomes a tree exactly if the reader accepts it, and the printed tree
 * parses to an equal tree.
 */
static void
test_damage(void)
{
	const char	text[] =
		"{\"a\": [1, -2.5e3, {\"b\\n\": \"\\u00e4\xc3\xa4\"}], \"stream\": true, \"n\": null}";
	size_t		n = sizeof(text) - 1;

	for (size_t i = 0; i < n; i++)
		for (int byte = 0; byte < 256; byte++)
		{
			char	   *copy = malloc(n);
			Json	   *v;
			Json	   *again = NULL;
			char	   *print = NULL;

			memcpy(copy, text, n);
			copy[i] = (char) byte;
			v = json_parse(copy, n);
			if (v != NULL)
			{
				print = json_print(v);
				again = parsed(print);
			}
			/* only the reader accepts halves of surrogate pairs */
			if ((v != NULL) != json_ok(copy, n, JSON_TREE_DEPTH) && strstr(text, "\\u") != text + i - 2)
				CHECK(false, "byte %zu = %d", i, byte);
			/* a tree with a duplicate name isn't equal to itself */
			if (v != NULL && json_equal(v, v) && (again == NULL || !json_equal(v, again)))
				CHECK(false, "byte %zu = %d: %s", i, byte, print);
			mem_free(print);
			json_free(v);
			json_free(again);
			free(copy);
		}
	CHECK(true, "done");
}

int
main(void)
{
	test_values();
	test_bad();
	test_print();
	test_built();
	test_equal();
	test_damage();
	return check_done("test_json");
}
