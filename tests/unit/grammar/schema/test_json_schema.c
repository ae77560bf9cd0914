/*
 * test_json_schema.c
 *	  JSON schemas as grammars: which instances match, and errors.
 *
 * The cases below are written for this test; with ../shared/json_schema beside the checkout every schema
 * of it is compiled and checked with its instances.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json/json.h"
#include "grammar/grammar.h"

#include "tests/unit/check.h"

typedef enum Answer
{
	NO,
	YES,
	REFUSED,					/* unsupported, named in the error */
	WRONG						/* an invalid schema, or a limit */
} Answer;

static Grammar *
compile(const char *schema, size_t n, bool validate, Err *e)
{
	GramSpec	spec = {.kind = GRAM_JSON_SCHEMA, .text = schema, .len = n,
						.opt = {.validate = validate, .strict = !validate}};

	memset(e, 0, sizeof(*e));
	return grammar_new(&spec, e);
}

static Answer
accepts(const char *schema, const char *text)
{
	Err			e;
	Grammar    *g = compile(schema, strlen(schema), true, &e);
	bool		yes = false;

	if (g == NULL)
		return e.cls == ERR_UNSUPPORTED ? REFUSED : WRONG;
	if (!grammar_accepts(g, text, strlen(text), &yes, &e))
		yes = false;
	grammar_unref(g);
	return yes ? YES : NO;
}

static const struct
{
	const char *schema;
	const char *yes[8];
	const char *no[8];
}			cases[] = {
	{"{}", {"1", "null", " [ ] ", "{\"a\":[true,\"\\ud83d\\ude00\"]}", "-0.5E+3"},
	 {"", "{", "01", "tru", "[1,]", "\"\t\"", "{\"a\":1,}"}},
	{"{\"type\":\"integer\"}", {"1", "-0", "1.0", "1e2", "1.50e1"}, {"1.5", "1.25e1", "\"1\"", "1e-1"}},
	{"{\"$schema\":\"http://json-schema.org/draft-04/schema#\",\"type\":\"integer\"}", {"1"}, {"1.0", "1e2"}},
	{"{\"type\":\"number\",\"minimum\":-1.5,\"maximum\":20}",
	 {"-1.5", "-1.49", "0", "20", "20.00", "2e1", "1.9E1", "-1"},
	 {"-1.51", "20.01", "21", "100", "2.1e1", "-2"}},
	/*
	 * numbers with digits before an exponent: their order isn't regular, so they never match next to a
	 * bound
	 */
	{"{\"type\":\"number\",\"maximum\":2.5}", {"2.5", "2.5e0", "-9e9", "0e7"},
	 {"50e0", "50e-1", "500e-2", "2.6", "26e-1", "0.5e2"}},
	{"{\"type\":\"number\",\"minimum\":-2.5}", {"-2.5", "-2.5e0", "7e7"},
	 {"-50e0", "-50.0e-1", "-0.5e1", "-2.6"}},
	{"{\"type\":\"number\",\"not\":{\"enum\":[5]}}", {"6", "5.1", "5e1", "-5"},
	 {"5", "5.0", "5e0", "50e-1", "0.5e1"}},
	{"{\"type\":\"number\",\"not\":{\"minimum\":3}}", {"2", "-7"}, {"3", "30e-1", "30e1", "4"}},
	{"{\"type\":\"number\",\"exclusiveMinimum\":0,\"exclusiveMaximum\":0.5}",
	 {"0.1", "0.4999", "1e-9", "4.9e-1"}, {"0", "0.5", "-0.1", "5e-1", "1", "0e5"}},
	{"{\"minimum\":5,\"exclusiveMinimum\":true}", {"6", "5.1", "\"x\""}, {"5", "4"}},
	{"{\"$schema\":\"http://json-schema.org/draft-04/schema#\",\"minimum\":5,\"exclusiveMinimum\":true}",
	 {"6", "5.1"}, {"5", "4"}},
	{"{\"$schema\":\"http://json-schema.org/draft-04/schema#\",\"maximum\":5,\"exclusiveMaximum\":true}",
	 {"4", "4.9"}, {"5", "6"}},
	{"{\"maximum\":9223372036854775807,\"type\":\"integer\"}",
	 {"9223372036854775807", "-9223372036854775809"}, {"9223372036854775808"}},
	{"{\"multipleOf\":0.01}", {"1", "1.1", "1.11", "1.110", "0", "-3.07"}, {"1.111", "0.001"}},
	{"{\"multipleOf\":7}", {"0", "14", "-21", "700.0"}, {"1", "15", "7.5"}},
	{"{\"multipleOf\":2.5}", {"5", "2.5", "7.50", "-12.5"}, {"2", "3.5", "1.25"}},
	{"{\"multipleOf\":100,\"minimum\":150}", {"200", "1000"}, {"100", "250"}},
	{"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
	 {"\"ab\"", "\"\\u00e9\\n\"", "\"\\ud83d\\ude00xy\""}, {"\"a\"", "\"abcd\"", "12", "\"\\ud83d\\ude00\""}},
	{"{\"type\":\"string\",\"pattern\":\"^a+$\",\"maxLength\":3}", {"\"a\"", "\"\\u0061a\""},
	 {"\"aaaa\"", "\"b\"", "\"\""}},
	{"{\"enum\":[1,\"x\",null,[1,{\"a\":true}]]}", {"1", "1.0", "\"x\"", "null", "[1,{\"a\":true}]",
													"\"\\u0078\""},
													{"2", "\"y\"", "false", "[1]", "[1,{\"a\":false}]",
													 "[1,{}]"}},
	{"{\"const\":{\"a\":1,\"b\":2}}", {"{\"b\":2,\"a\":1}", "{\"a\":1.0,\"b\":2}"},
	 {"{\"a\":1}", "{\"a\":1,\"b\":2,\"c\":3}"}},
	{"{\"not\":{\"enum\":[1,\"x\",[2]]}}", {"2", "\"xx\"", "[1]", "[2,2]", "null"},
	 {"1", "\"x\"", "[2]", "1.0"}},
	{"{\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\",\"b\"],"
	 "\"additionalProperties\":{\"type\":\"string\"}}",
	{"{\"b\":\"\",\"a\":1}", "{\"c\":\"x\",\"a\":1,\"b\":\"\"}", "3"},
	{"{\"a\":1}", "{\"b\":\"\",\"a\":\"\"}", "{\"b\":1,\"a\":1}"}},
	{"{\"patternProperties\":{\"^a\":{\"type\":\"integer\"},\"z$\":{\"minimum\":3}},"
	 "\"additionalProperties\":false}",
	{"{}", "{\"az\":3}", "{\"a\":1,\"z\":\"x\"}"},
	{"{\"az\":2}", "{\"b\":1}", "{\"a\":\"\"}", "{\"az\":\"\"}"}},
	{"{\"propertyNames\":{\"maxLength\":2},\"minProperties\":1,\"maxProperties\":2}",
	 {"{\"a\":1}", "{\"a\":1,\"bb\":1}"}, {"{}", "{\"aaa\":1}", "{\"a\":1,\"b\":1,\"c\":1}"}},
	{"{\"not\":{\"propertyNames\":{\"maxLength\":2}}}", {"{\"aaa\":1}", "{\"a\":1,\"aaa\":2}"},
	 {"{}", "{\"a\":1}", "3"}},
	{"{\"not\":{\"patternProperties\":{\"a\":{\"type\":\"null\"}}}}", {"{\"xa\":1}", "{\"a\":null,\"aa\":2}"},
	 {"{}", "{\"a\":null}", "{\"b\":1}"}},
	{"{\"not\":{\"properties\":{\"a\":{}},\"additionalProperties\":{\"type\":\"null\"}}}",
	 {"{\"b\":1}", "{\"a\":1,\"b\":2}"}, {"{}", "{\"a\":1}", "{\"b\":null}"}},
	{"{\"dependentRequired\":{\"a\":[\"b\"]}}", {"{}", "{\"b\":1}", "{\"a\":1,\"b\":1}"}, {"{\"a\":1}"}},
	{"{\"dependentSchemas\":{\"a\":{\"properties\":{\"b\":{\"type\":\"null\"}}}}}",
	 {"{\"b\":1}", "{\"a\":1}", "{\"b\":null,\"a\":1}", "1"}, {"{\"a\":1,\"b\":1}"}},
	{"{\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"string\"}],\"items\":false,\"minItems\":1}",
	 {"[1]", "[1,\"\"]", "1"}, {"[]", "[\"\"]", "[1,\"\",1]"}},
	{"{\"items\":[{\"type\":\"integer\"}],\"additionalItems\":{\"type\":\"null\"}}", {"[]", "[1,null,null]"},
	 {"[null]", "[1,1]"}},
	{"{\"contains\":{\"type\":\"null\"}}", {"[null]", "[1,null,2]", "{}"}, {"[]", "[1]"}},
	{"{\"contains\":{\"type\":\"null\"},\"minContains\":2,\"maxContains\":3,\"maxItems\":4}",
	 {"[null,1,null]", "[null,null,null,1]"}, {"[null]", "[null,null,null,null]", "[null,null,1,1,1]"}},
	{"{\"contains\":{\"type\":\"null\"},\"minContains\":2,\"maxContains\":1}", {"1"},
	 {"[]", "[null]", "[null,null]", "[1]"}},
	{"{\"contains\":{\"type\":\"null\"},\"maxContains\":0}", {"1"}, {"[]", "[null]", "[1]"}},
	{"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\",\"contains\":true,\"maxContains\":0}}}",
	 {"{}"}, {"{\"a\":[]}", "{\"a\":[1]}"}},
	{"{\"not\":{\"items\":{\"type\":\"string\"}}}", {"[1]", "[\"\",1]"}, {"[]", "[\"\"]", "1"}},
	{"{\"items\":{\"enum\":[\"a\",\"b\",null]},\"uniqueItems\":true}",
	 {"[]", "[\"a\",null]", "[\"b\",\"a\"]"}, {"[\"a\",\"a\"]", "[\"c\"]", "[null,null]"}},
	{"{\"anyOf\":[{\"type\":\"string\"},{\"minimum\":3}]}", {"\"\"", "3", "null"}, {"2"}},
	{"{\"oneOf\":[{\"type\":\"integer\"},{\"minimum\":2}]}", {"1", "2.5", "\"\""}, {"3", "1.5"}},
	{"{\"oneOf\":[{\"required\":[\"a\"]},{\"required\":[\"b\"]}]}", {"{\"a\":1}", "{\"b\":1,\"c\":1}"},
	 {"{}", "{\"a\":1,\"b\":1}", "{\"c\":1}"}},
	{"{\"oneOf\":[{\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"]},"
	 "{\"properties\":{\"a\":{\"type\":\"string\"}}}]}",
	{"{\"a\":1}", "{\"a\":\"\"}", "{}"}, {"{\"a\":null}"}},
	{"{\"allOf\":[{\"properties\":{\"a\":{\"minimum\":2}}},{\"properties\":{\"a\":{\"maximum\":3}}}],"
	 "\"type\":\"object\"}", {"{\"a\":2}", "{}"}, {"{\"a\":1}", "{\"a\":4}", "1"}},
	{"{\"if\":{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]},\"then\":{\"required\":[\"b\"]},"
	 "\"else\":{\"required\":[\"c\"]}}",
	{"{\"a\":1,\"b\":0}", "{\"a\":2,\"c\":0}", "{\"c\":1}"}, {"{\"a\":1}", "{\"a\":2,\"b\":1}", "{}"}},
	{"{\"$defs\":{\"t\":{\"type\":\"object\",\"properties\":{\"n\":{\"$ref\":\"#/$defs/t\"}},"
	 "\"additionalProperties\":false}},\"$ref\":\"#/$defs/t\"}",
	{"{}", "{\"n\":{\"n\":{}}}"}, {"{\"n\":1}", "{\"n\":{\"m\":1}}"}},
	{"{\"$id\":\"http://x.y/root\",\"$defs\":{\"a\":{\"$id\":\"sub\",\"type\":\"null\"},"
	 "\"b\":{\"$anchor\":\"q\",\"type\":\"string\"}},\"anyOf\":[{\"$ref\":\"sub\"},{\"$ref\":\"#q\"}]}",
	{"null", "\"\""}, {"1"}},
	{"{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"definitions\":{\"a\":{\"type\":\"string\"}},"
	 "\"$ref\":\"#/definitions/a\",\"maxLength\":1}", {"\"xx\""}, {"1"}},
	{"{\"$dynamicAnchor\":\"n\",\"type\":\"object\",\"properties\":{\"kids\":{\"type\":\"array\","
	 "\"items\":{\"$dynamicRef\":\"#n\"}}},\"additionalProperties\":false}",
	{"{}", "{\"kids\":[{\"kids\":[]}]}"}, {"{\"kids\":[1]}", "{\"kids\":[{\"x\":1}]}"}},
	{"{\"$schema\":\"https://json-schema.org/draft/2019-09/schema\",\"$recursiveAnchor\":true,"
	 "\"items\":{\"$recursiveRef\":\"#\"},\"type\":\"array\"}", {"[]", "[[],[[]]]"}, {"[1]", "[[1]]"}},
	{"{\"format\":\"date\"}", {"\"2024-02-29\"", "\"2000-12-31\"", "1"},
	 {"\"2023-02-29\"", "\"1900-02-29\"", "\"2024-13-01\"", "\"2024-04-31\"", "\"2024-1-01\""}},
	{"{\"format\":\"date-time\"}", {"\"2024-02-29T23:59:59Z\"", "\"2016-12-31T23:59:60Z\"",
									"\"2024-01-01t00:00:00.123+05:30\""},
									{"\"2024-01-01T00:00:00\"", "\"2024-01-01 00:00:00Z\"",
									 "\"2024-12-31T23:59:60Z\"", "\"2024-01-01T24:00:00Z\""}},
	{"{\"format\":\"ipv4\"}", {"\"1.2.3.255\""}, {"\"1.2.3.256\"", "\"1.2.3\"", "\"01.2.3.4\""}},
	{"{\"format\":\"ipv6\"}", {"\"::\"", "\"1::\"", "\"::1.2.3.4\"", "\"1:2:3:4:5:6:7:8\"", "\"fe80::a:b\""},
	 {"\":\"", "\"1:2:3:4:5:6:7:8:9\"", "\"1::2::3\"", "\"12345::\""}},
	{"{\"format\":\"uuid\"}", {"\"123e4567-e89b-12d3-a456-426655440000\""},
	 {"\"123e4567-e89b-12d3-a456-42665544000\""}},
	{"{\"format\":\"email\"}", {"\"a.b+c@x.example\""}, {"\"a\"", "\"a@\"", "\"@b\"", "\"a..b@c.d\""}},
	{"{\"format\":\"uri\"}", {"\"http://x.y/z?q#f\"", "\"urn:a:b\"", "\"http://[::1]:80/\""},
	 {"\"x\"", "\" http://x\"", "\"/a\"", "\"http://x/%zz\""}},
	{"{\"format\":\"something else\"}", {"\"x\""}, {"x"}},
	{"{\"properties\":{\"\\u0000a\":{\"type\":\"null\"}}}", {"{\"\\u0000a\":null}"}, {"{\"\\u0000a\":1}"}},
	{"true", {"1"}, {"x"}},
	{"false", {NULL}, {"1", "null", "", "{}"}},
	{"{\"not\":{}}", {NULL}, {"1", "{}", "x"}},
	{"{\"type\":\"object\",\"required\":[\"a\"],\"properties\":{\"a\":false}}", {NULL},
	 {"{}", "{\"a\":1}", "1"}}
};

/* A part of a pointer must not affect the next one: 1 of "t1", 123456789 of a long name. */
static void
test_index(void)
{
	static const char schema[] = "{\"$defs\":{\"t1\":[{\"type\":\"string\"},{\"type\":\"integer\"}],"
		"\"123456789\":[{\"type\":\"null\"}]},\"items\":{\"$ref\":\"#/$defs/123456789/0\"},"
		"\"properties\":{\"a\":{\"$ref\":\"#/$defs/t1/0\"},\"b\":{\"$ref\":\"#/$defs/t1/1\"}}}";

	CHECK(accepts(schema, "{\"a\":\"x\",\"b\":1}") == YES && accepts(schema, "{\"a\":1}") == NO &&
		  accepts(schema, "{\"b\":\"x\"}") == NO, "items of t1");
	CHECK(accepts(schema, "[null]") == YES && accepts(schema, "[1]") == NO, "the item of 123456789");
}

static void
test_cases(void)
{
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		for (int j = 0; j < 8; j++)
		{
			if (cases[i].yes[j] != NULL)
				CHECK(accepts(cases[i].schema, cases[i].yes[j]) == YES, "%s takes %s", cases[i].schema,
					  cases[i].yes[j]);
			if (cases[i].no[j] != NULL)
				CHECK(accepts(cases[i].schema, cases[i].no[j]) == NO, "%s does not take %s", cases[i].schema,
					  cases[i].no[j]);
		}
}

#define DIGITS_50 "12345678901234567890123456789012345678901234567890"
#define DIGITS_100 DIGITS_50 DIGITS_50
#define LONG_NUMBER(before, after) before DIGITS_100 DIGITS_100 DIGITS_100 DIGITS_100 "1" after
#define LIST_AT(pointer) "{\"$defs\":{\"t1\":[{\"type\":\"string\"},{\"type\":\"integer\"}]}," \
						 "\"$ref\":\"#/$defs/t1" pointer "\"}"

static void
test_refused(void)
{
	static const char *const refused[] = {
		"{\"uniqueItems\":true,\"type\":\"array\"}", "{\"format\":\"regex\"}", "{\"pattern\":\"(?=a)\"}",
		"{\"$ref\":\"http://elsewhere/x\"}",
		"{\"allOf\":[{\"properties\":{\"a\":{}}}],\"unevaluatedProperties\":false}",
		"{\"multipleOf\":268435457}", "{\"multipleOf\":1e-31}",
		"{\"contains\":{\"type\":\"null\"},\"unevaluatedItems\":false}",
		"{\"$schema\":\"http://json-schema.org/draft-03/schema#\",\"disallow\":\"string\"}",
		"{\"$schema\":\"http://json-schema.org/draft-03/schema#\","
		"\"properties\":{\"a\":{\"required\":true}}}",
		/* the meaning of "x" depends on the path by which it is reached */
		"{\"$id\":\"http://x/strict\",\"$dynamicAnchor\":\"x\",\"$ref\":\"tree\","
		"\"unevaluatedProperties\":true,\"$defs\":{\"t\":{\"$id\":\"tree\",\"$dynamicAnchor\":\"x\","
		"\"properties\":{\"kids\":{\"items\":{\"$dynamicRef\":\"#x\"}}}}}}",
		"{\"$schema\":\"https://json-schema.org/draft/2019-09/schema\",\"$id\":\"http://x/y\","
		"\"$recursiveAnchor\":true,\"$ref\":\"z\",\"$defs\":{\"t\":{\"$id\":\"z\",\"$recursiveAnchor\":true,"
		"\"items\":{\"$recursiveRef\":\"#\"}}}}"
	};
	static const char *const wrong[] = {
		"{\"type\":1}", "{\"type\":\"strange\"}", "{\"enum\":1}", "{\"$ref\":\"#/x\"}", "{\"minimum\":\"1\"}",
		"{\"pattern\":\"[\"}", "{\"anyOf\":[]}", "3", "{\"a\":}",
		"{\"$defs\":{\"a\":{\"$ref\":\"#/$defs/b\"},\"b\":{\"$ref\":\"#/$defs/a\"}},\"$ref\":\"#/$defs/a\"}",
		"{\"allOf\":[{\"$ref\":\"#\"}]}", "{\"maxLength\":-1}", "{\"multipleOf\":0}", "{\"properties\":[]}",
		"{\"required\":true}", "{\"required\":\"a\"}", "{\"required\":[1]}", "{\"uniqueItems\":\"yes\"}",
		"{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"minimum\":1,\"exclusiveMinimum\":true}",
		"{\"dependentRequired\":{\"a\":\"b\"}}", "{\"dependentSchemas\":{\"a\":[\"b\"]}}",
		"{\"exclusiveMaximum\":\"1\"}",
		/* numbers too long to be compared */
		"{\"const\":1e-5000}", "{\"not\":{\"const\":1e-5000}}", "{\"enum\":[2,1e999999999]}",
		"{\"not\":{\"enum\":[[{\"a\":1e-402}]]}}", "{\"enum\":[[1e401]]}", LONG_NUMBER("{\"const\":", "}"),
		LONG_NUMBER("{\"not\":{\"const\":", "}}"),
		/* pointers with parts that are not a valid index */
		LIST_AT("/0x"), LIST_AT("/1x"), LIST_AT("/+1"), LIST_AT("/-1"), LIST_AT("/ 1"), LIST_AT("/"),
		LIST_AT("/01"), LIST_AT("/2"), LIST_AT("/4294967296")
	};

	for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
		CHECK(accepts(refused[i], "1") == REFUSED, "%s is refused", refused[i]);
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
		CHECK(accepts(wrong[i], "1") == WRONG, "%s is no schema", wrong[i]);
}

/* Generation allows fewer spellings, but nothing invalid: a forbidden value has other spellings. */
static void
test_narrow(void)
{
	static const char *const narrow[][2] = {
		{"{\"type\":\"number\",\"not\":{\"type\":\"integer\"}}", "1.0"},
		{"{\"type\":\"number\",\"not\":{\"enum\":[1,2.5]}}", "1.0"},
		{"{\"type\":\"number\",\"not\":{\"const\":2.5}}", "2.50"},
		{"{\"type\":\"number\",\"not\":{\"multipleOf\":5}}", "15.0"},
		{"{\"type\":\"number\",\"not\":{\"multipleOf\":0.5}}", "15.50"},
		{"{\"type\":\"number\",\"not\":{\"minimum\":5}}", "5.0"},
		{"{\"type\":\"number\",\"not\":{\"exclusiveMaximum\":0}}", "-0.5"},
		{"{\"anyOf\":[{\"type\":\"array\",\"contains\":{},\"maxContains\":0},{\"const\":7}]}", "[]"}
	};

	for (size_t i = 0; i < sizeof narrow / sizeof narrow[0]; i++)
	{
		Err			e;
		Grammar    *g = compile(narrow[i][0], strlen(narrow[i][0]), false, &e);
		bool		yes = true;

		CHECK(g != NULL && grammar_accepts(g, narrow[i][1], strlen(narrow[i][1]), &yes, &e) && !yes,
			  "%s makes no %s", narrow[i][0], narrow[i][1]);
		grammar_unref(g);
	}
	/* nothing can be generated */
	CHECK(compile("false", 5, false, &(Err) {0}) == NULL, "false");
}

/* ---- the shared schemas ---- */

static char *
read_all(const char *path, size_t *n)
{
	FILE	   *f = fopen(path, "rb");
	Buf			b = {0};
	char		piece[65536];

	*n = 0;
	if (f == NULL)
		return NULL;
	for (size_t got; (got = fread(piece, 1, sizeof(piece), f)) > 0;)
		buf_add(&b, piece, got);
	fclose(f);
	*n = b.len;
	return b.data;
}

/* Return the text of a member: as it was written, or else as json_print() prints the value. */
static char *
text_of(const Json *row, const char *written, const char *read)
{
	const Json *text = json_get(row, written);

	return json_is_string(text) ? strdup(text->s) : json_print(json_get(row, read));
}

/*
 * Lines {name, schema, tests: [{data, valid}]}; of a hundred, may_wrong verdicts may be wrong and
 * may_refuse schemas may be refused.
 */
static void
test_file(const char *path, int may_wrong, int may_refuse)
{
	size_t		n;
	char	   *all = read_all(path, &n);
	int			schemas = 0,
				refused = 0,
				verdicts = 0,
				wrong = 0;
	char	   *save = NULL;

	if (all == NULL)
	{
		check_skip(2, path);
		return;
	}
	for (char *line = strtok_r(all, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save))
	{
		Json	   *row = json_parse(line, strlen(line));
		char	   *schema = text_of(row, "schema_text", "schema");
		const Json *t;
		Err			e;
		Grammar    *g = compile(schema, strlen(schema), true, &e);

		schemas++;
		refused += g == NULL;
		json_each(t, json_get(row, "tests"))
		{
			char	   *text = text_of(t, "text", "data");
			bool		yes = false;

			if (g != NULL)
			{
				verdicts++;
				if (!grammar_accepts(g, text, strlen(text), &yes, &e) ||
					yes != json_is_true(json_get(t, "valid")))
				{
					wrong++;
					fprintf(stderr, "wrong: %s: %s is %s: %s\n", json_get(row, "name")->s, text,
							yes ? "taken" : "not taken", schema);
				}
			}
			free(text);
		}
		if (g == NULL)
			fprintf(stderr, "refused: %s: %s\n", json_get(row, "name")->s, e.msg);
		grammar_unref(g);
		free(schema);
		json_free(row);
	}
	free(all);
	fprintf(stderr, "%d schemas, %d refused; %d verdicts, %d wrong\n", schemas, refused, verdicts, wrong);
	CHECK(wrong * 100 <= may_wrong * verdicts, "%d of %d verdicts are wrong", wrong, verdicts);
	CHECK(refused * 100 <= may_refuse * schemas, "%d of %d schemas are refused", refused, schemas);
}

int
main(int argc, char **argv)
{
	if (argc > 1)
	{
		RUN(test_file(argv[1], 0, 100));
		return check_done("json_schema");
	}
	RUN(test_cases());
	RUN(test_index());
	RUN(test_refused());
	RUN(test_narrow());
	RUN(test_file("../shared/json_schema/maskbench_dev.jsonl", 1, 5));
	return check_done("json_schema");
}
