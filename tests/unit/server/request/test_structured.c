/*
 * test_structured.c
 *	  Options of structured output: which kind they give, with which text; errors; and the cache of
 *	  grammars.
 */
#include "server/request/structured_options.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "tests/unit/check.h"

/* ---- members of JSON objects ---- */

static void
members(const char *text, const char *want)
{
	JsonMembers m;
	StrView		key,
				v;
	Buf			got = {0};
	int			r = -1;

	if (json_members(&m, text, strlen(text)))
		while ((r = json_member(&m, &key, &v)) > 0)
			buf_printf(&got, "%.*s=%.*s;", (int) key.n, key.s, (int) v.n, v.s);
	buf_printf(&got, "%d", r);
	CHECK(strcmp(got.data, want) == 0, "%s: %s, not %s", text, got.data, want);
	buf_free(&got);
}

static void
test_members(void)
{
	members("{}", "0");
	members(" { } ", "0");
	members("{\"a\": 1, \"b\" : [1,{\"c\":\"}\"}] ,\"d\":\"x\\\"y\"}",
			"a=1;b=[1,{\"c\":\"}\"}];d=\"x\\\"y\";0");
	members("{\"a\":12345678901234567890.10}", "a=12345678901234567890.10;0");
	members("{\"a\":null,\"b\":true}\n", "a=null;b=true;0");
	members("[]", "-1");
	members("", "-1");
	members("{", "-1");
	members("{\"a\"}", "-1");
	members("{\"a\":}", "-1");
	members("{\"a\":1", "-1");
	members("{\"a\":[1", "-1");
	members("{\"a\":\"x", "-1");
	members("{\"a\":1,}", "a=1;-1");
	members("{,\"a\":1}", "-1");
	members("{\"a\":1}x", "a=1;-1");
	members("{a:1}", "-1");
	/* a text may end anywhere */
	for (int n = 0; n < 24; n++)
	{
		char	   *cut = mem_strndup("{\"a\":[{\"b\":\"\\\"\"}],\"c\":1}", (size_t) n);
		JsonMembers m;
		StrView		key,
					v;
		int			r = -1;

		if (json_members(&m, cut, strlen(cut)))
			while ((r = json_member(&m, &key, &v)) > 0)
				;
		CHECK(r == -1, "cut at %d", n);
		mem_free(cut);
	}
}

/* ---- options ---- */

typedef struct Given
{
	int			tag;
	const char *text;
} Given;

static bool
parse(StructuredSpec *s, const Given *g, int n, Err *e)
{
	memset(s, 0, sizeof(*s));
	for (int i = 0; i < n; i++)
	{
		WireField	f = {.tag = g[i].tag, .s = g[i].text, .n = strlen(g[i].text)};
		bool		known;

		if (!structured_field(s, &f, &known, e))
			return false;
		CHECK(known, "tag %d", g[i].tag);
	}
	return structured_check(s, e);
}

static void
good(int tag, const char *text, GramKind kind, const char *want)
{
	StructuredSpec s;
	Given		g = {tag, text};
	Err			e = {0};
	bool		ok = parse(&s, &g, 1, &e);

	CHECK(ok && s.given && s.gram.kind == kind, "%s: %s, kind %d", text, e.msg, (int) s.gram.kind);
	if (ok && want != NULL)
		CHECK(s.gram.len == strlen(want) && memcmp(s.gram.text, want, s.gram.len) == 0, "%s: \"%.*s\"", text,
			  (int) s.gram.len, s.gram.text);
	structured_free(&s);
}

static void
bad(const Given *g, int n, const char *message, const char *param)
{
	StructuredSpec s;
	Err			e = {0};
	char		detail[200];
	bool		ok = parse(&s, g, n, &e);

	snprintf(detail, sizeof(detail), "parameter=%s", param);
	CHECK(!ok && e.cls == ERR_INVALID && strcmp(e.msg, message) == 0 && strcmp(e.detail, detail) == 0,
		  "%s: \"%s\", \"%s\"", g[0].text, e.msg, e.detail);
	structured_free(&s);
}

#define OUTPUTS(text) {WTAG_STRUCTURED_OUTPUTS, text}
#define FORMAT(text) {WTAG_RESPONSE_FORMAT, text}
#define BAD(message, param, ...) \
	bad((const Given[]) {__VA_ARGS__}, sizeof((const Given[]) {__VA_ARGS__}) / sizeof(Given), message, param)

static void
test_kinds(void)
{
	good(WTAG_JSON_SCHEMA, "{\"type\": \"object\"}", GRAM_JSON_SCHEMA, "{\"type\": \"object\"}");
	good(WTAG_JSON_SCHEMA, " \"{\\\"type\\\": \\\"object\\\"}\" ", GRAM_JSON_SCHEMA,
		 "{\"type\": \"object\"}");
	good(WTAG_JSON_SCHEMA, "true", GRAM_JSON_SCHEMA, "true");
	good(WTAG_REGEX, "a+", GRAM_REGEX, "a+");
	good(WTAG_REGEX, " ", GRAM_REGEX, " ");
	good(WTAG_GRAMMAR, "root ::= \"a\"", GRAM_GRAMMAR, "root ::= \"a\"");
	good(WTAG_STRUCT_CHOICE, "yes", GRAM_CHOICE, NULL);
	good(WTAG_STRUCTURED_OUTPUTS, "{\"json\": {\"b\":1, \"a\":123456789012345678901}}", GRAM_JSON_SCHEMA,
		 "{\"b\":1, \"a\":123456789012345678901}");
	good(WTAG_STRUCTURED_OUTPUTS, "{\"json\": \"{}\", \"regex\": null}", GRAM_JSON_SCHEMA, "{}");
	good(WTAG_STRUCTURED_OUTPUTS, "{\"regex\": \"\\\\d\\u0041\", \"strict\": true}", GRAM_REGEX, "\\dA");
	good(WTAG_STRUCTURED_OUTPUTS, "{\"choice\": [\"a\", \"b\"]}", GRAM_CHOICE, NULL);
	/* six plain characters, and not U+0000 */
	good(WTAG_STRUCTURED_OUTPUTS, "{\"regex\": \"[^\\\\u0000]+\"}", GRAM_REGEX, "[^\\u0000]+");
	good(WTAG_STRUCTURED_OUTPUTS, "{\"json\": \"{\\\"const\\\": \\\"\\\\u0000\\\"}\"}", GRAM_JSON_SCHEMA,
		 "{\"const\": \"\\u0000\"}");
	good(WTAG_STRUCTURED_OUTPUTS, "{\"choice\": [\"\\\\u0000\"]}", GRAM_CHOICE, NULL);
	good(WTAG_STRUCTURED_OUTPUTS, "{\"json_object\": true}", GRAM_JSON_OBJECT, NULL);
	good(WTAG_STRUCTURED_OUTPUTS, "{\"structural_tag\": {\"format\": {}}}", GRAM_STRUCTURAL_TAG,
		 "{\"format\": {}}");
	good(WTAG_RESPONSE_FORMAT, "{\"type\": \"json_object\"}", GRAM_JSON_OBJECT, NULL);
	good(WTAG_RESPONSE_FORMAT, "{\"json_schema\": {\"name\": \"x\", \"schema\": {\"a\": 1}, \"strict\": "
							   "null}, \"type\": \"json_schema\"}",
		 GRAM_JSON_SCHEMA, "{\"a\": 1}");
	good(WTAG_RESPONSE_FORMAT, "{\"type\": \"structural_tag\", \"format\": 1}", GRAM_STRUCTURAL_TAG,
		 "{\"type\": \"structural_tag\", \"format\": 1}");
}

static void
test_options(void)
{
	StructuredSpec s;
	Err			e = {0};

	CHECK(parse(&s, NULL, 0, &e) && !s.given, "nothing is given: %s", e.msg);
	structured_free(&s);
	CHECK(parse(&s, (const Given[]) {FORMAT("{\"type\": \"text\"}")}, 1, &e) && !s.given, "text: %s", e.msg);
	structured_free(&s);
	CHECK(parse(&s, (const Given[]) {OUTPUTS("{\"json_object\": true}")}, 1, &e) && s.gram.opt.strict &&
		  !s.in_reasoning && !s.gram.opt.disable_any_whitespace && s.gram.opt.whitespace_pattern == NULL,
		  "defaults: %s", e.msg);
	structured_free(&s);
	CHECK(parse(&s, (const Given[]) {{WTAG_JSON_SCHEMA, "{}"},
									 OUTPUTS("{\"strict\": false, \"enable_in_reasoning\": true, "
																		"\"disable_any_whitespace\": true, "
																		"\"disable_additional_properties\": "
																		"true, \"whitespace_pattern\": \"[ "
																		"]?\"}")}, 2, &e) &&
		  !s.gram.opt.strict && s.in_reasoning && s.gram.opt.disable_any_whitespace &&
		  s.gram.opt.disable_additional_properties && strcmp(s.gram.opt.whitespace_pattern, "[ ]?") == 0,
		  "options: %s", e.msg);
	structured_free(&s);
	CHECK(parse(&s, (const Given[]) {FORMAT("{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{},"
											"\"strict\":false}}")}, 1, &e) &&
		  !s.gram.opt.strict, "strict: %s", e.msg);
	structured_free(&s);
	/* next to a response_format, which is a kind, as next to an argument */
	CHECK(parse(&s, (const Given[]) {FORMAT("{\"type\": \"json_object\"}"),
									 OUTPUTS("{\"disable_any_whitespace\": true}")}, 2, &e) &&
		  s.gram.kind == GRAM_JSON_OBJECT && s.gram.opt.disable_any_whitespace, "response_format: %s", e.msg);
	structured_free(&s);
	CHECK(parse(&s, (const Given[]) {FORMAT("{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{},"
											"\"strict\":false}}"),
									 OUTPUTS("{\"strict\": true, \"whitespace_pattern\": \" \"}")}, 2, &e) &&
		  !s.gram.opt.strict && strcmp(s.gram.opt.whitespace_pattern, " ") == 0,
		  "response_format with its own strict: %s", e.msg);
	structured_free(&s);
	CHECK(parse(&s, (const Given[]) {FORMAT("{\"type\": \"text\"}"), OUTPUTS("{\"strict\": false}")}, 2,
				&e) && !s.given, "text: %s", e.msg);
	structured_free(&s);
	CHECK(parse(&s, (const Given[]) {{WTAG_STRUCT_CHOICE, "yes"}, {WTAG_STRUCT_CHOICE, "no"}}, 2, &e) &&
		  s.gram.n_choices == 2 && s.gram.choice_len[1] == 2 && memcmp(s.gram.choice[1], "no", 2) == 0,
		  "choice: %s", e.msg);
	structured_free(&s);
}

static void
test_refused(void)
{
	BAD("you can only use one kind of structured output, but json_schema and regex are given", "regex",
		{WTAG_JSON_SCHEMA, "{}"}, {WTAG_REGEX, "a"});
	BAD("you can only use one kind of structured output, but choice and response_format are given",
		"response_format",
		{WTAG_STRUCT_CHOICE, "a"}, FORMAT("{\"type\": \"json_object\"}"));
	BAD("you can only use one kind of structured output, but structured_outputs.json and "
		"structured_outputs.regex are given", "structured_outputs.regex",
		OUTPUTS("{\"json\": {}, \"regex\": \"a\"}"));
	BAD("you must use one kind of structured output, but none is given", "structured_outputs", OUTPUTS("{}"));
	BAD("you must use one kind of structured output, but none is given", "structured_outputs",
		OUTPUTS("{\"strict\": true}"));
	BAD("you can only use one kind of structured output, but structured_outputs.regex and response_format "
		"are given", "response_format", FORMAT("{\"type\": \"json_object\"}"), OUTPUTS("{\"regex\": \"a\"}"));
	BAD("structured_outputs must be a JSON object", "structured_outputs", OUTPUTS("[]"));
	BAD("structured_outputs must be a JSON object", "structured_outputs", OUTPUTS("{\"json_object\": true"));
	BAD("unrecognized key \"jsn\" in structured_outputs", "structured_outputs", OUTPUTS("{\"jsn\": {}}"));
	BAD("structured_outputs.json_object must be true", "structured_outputs.json_object",
		OUTPUTS("{\"json_object\": false}"));
	BAD("structured_outputs.strict must be true or false, got 1", "structured_outputs.strict",
		OUTPUTS("{\"strict\": 1}"));
	BAD("structured_outputs.regex must be a string, got 7", "structured_outputs.regex",
		OUTPUTS("{\"regex\": 7}"));
	BAD("structured_outputs.regex must not contain a null character", "structured_outputs.regex",
		OUTPUTS("{\"regex\": \"a\\u0000b\"}"));
	BAD("structured_outputs.regex must not contain a null character", "structured_outputs.regex",
		OUTPUTS("{\"regex\": \"\\\\\\u0000\"}"));
	BAD("choice must not contain a null character", "choice", OUTPUTS("{\"choice\": [\"a\\u0000\"]}"));
	BAD("structured_outputs.json must be a JSON object, got 7", "structured_outputs.json",
		OUTPUTS("{\"json\": 7}"));
	BAD("structured_outputs.grammar must not be empty", "structured_outputs.grammar",
		OUTPUTS("{\"grammar\": \" \"}"));
	BAD("choice must not be empty", "choice", OUTPUTS("{\"choice\": []}"));
	BAD("choice must be an array of strings", "choice", OUTPUTS("{\"choice\": [1]}"));
	BAD("choice must be an array of strings", "choice", OUTPUTS("{\"choice\": \"a\"}"));
	BAD("regex must not be empty", "regex", {WTAG_REGEX, ""});
	BAD("grammar must not be empty", "grammar", {WTAG_GRAMMAR, "\n"});
	BAD("json_schema must not be empty", "json_schema", {WTAG_JSON_SCHEMA, ""});
	BAD("json_schema must be a JSON object, got 7", "json_schema", {WTAG_JSON_SCHEMA, "7"});
	BAD("response_format must have a \"type\"", "response_format", FORMAT("{}"));
	BAD("response_format.type must be text, json_object, json_schema or structural_tag, got \"xml\"",
		"response_format.type", FORMAT("{\"type\": \"xml\"}"));
	BAD("response_format.json_schema must be a JSON object", "response_format.json_schema",
		FORMAT("{\"type\": \"json_schema\"}"));
	BAD("response_format.json_schema must have a \"schema\"", "response_format.json_schema",
		FORMAT("{\"type\": \"json_schema\", \"json_schema\": {\"name\": \"x\"}}"));
	BAD("response_format.json_schema has an unrecognized key \"shema\"", "response_format.json_schema",
		FORMAT("{\"type\": \"json_schema\", \"json_schema\": {\"shema\": {}}}"));
}

/* ---- the cache ---- */

static GramSpec
regex(const char *text)
{
	return (GramSpec) {.kind = GRAM_REGEX, .text = text, .len = strlen(text)};
}

static void
test_cache(void)
{
	GrammarCache *c = grammar_cache_new((size_t) 64 << 20);
	GramSpec	a = regex("[a-z]+");
	GramSpec	b = regex("(?=x)");
	GramSpec	o = {.kind = GRAM_JSON_SCHEMA, .text = "{}", .len = 2};
	Grammar    *g,
			   *h;
	Err			e = {0};

	CHECK(!grammar_cache_has(c, &a), "it is empty");
	g = grammar_cache_get(c, &a, &e);
	CHECK(g != NULL && grammar_cache_has(c, &a), "%s", e.msg);
	h = grammar_cache_get(c, &a, &e);
	CHECK(g == h, "compiled twice");
	grammar_unref(h);
	/* the kind and the options are part of the key */
	a.kind = GRAM_GRAMMAR;
	CHECK(!grammar_cache_has(c, &a), "another kind");
	h = grammar_cache_get(c, &o, &e);
	CHECK(h != NULL, "%s", e.msg);
	grammar_unref(h);
	o.opt.strict = true;
	CHECK(!grammar_cache_has(c, &o), "another option");
	o.opt.strict = false;
	o.opt.whitespace_pattern = "";
	CHECK(!grammar_cache_has(c, &o), "a pattern that is empty is one");
	/* errors are kept, too */
	CHECK(grammar_cache_get(c, &b, &e) == NULL && e.cls == ERR_UNSUPPORTED && grammar_cache_has(c, &b),
		  "class %d", e.cls);
	memset(&e, 0, sizeof(e));
	CHECK(grammar_cache_get(c, &b, &e) == NULL && e.cls == ERR_UNSUPPORTED && e.msg[0] != '\0', "class %d",
		  e.cls);
	grammar_cache_free(c);
	grammar_unref(g);			/* our reference was still valid */
}

/* At most 1,024 entries, the most recently used ones; with little memory at least one. */
static void
test_cache_bounds(void)
{
	GrammarCache *c = grammar_cache_new(1);
	char		text[2][16] = {"a1", "a2"};
	GramSpec	s;
	Err			e = {0};

	for (int i = 0; i < 2; i++)
	{
		s = regex(text[i]);
		grammar_unref(grammar_cache_get(c, &s, &e));
	}
	CHECK(grammar_cache_has(c, &s), "the last one is kept");
	s = regex(text[0]);
	CHECK(!grammar_cache_has(c, &s), "the other is not");
	grammar_cache_free(c);

	c = grammar_cache_new((size_t) 1 << 30);
	for (int i = 0; i < 1030; i++)
	{
		snprintf(text[0], sizeof(text[0]), "(?=%d)", i);	/* an error is faster to make */
		s = regex(text[0]);
		CHECK(grammar_cache_get(c, &s, &e) == NULL, "%s", text[0]);
		s = regex("(?=0)");
		CHECK(grammar_cache_has(c, &s), "used again and again");
	}
	s = regex("(?=3)");
	CHECK(!grammar_cache_has(c, &s), "one of the oldest");
	grammar_cache_free(c);
}

typedef struct Caller
{
	GrammarCache *c;
	Grammar    *g[20];
} Caller;

static void *
request(void *arg)
{
	Caller	   *a = arg;
	char		text[32];
	Err			e;

	for (int i = 0; i < 20; i++)
	{
		GramSpec	s;

		snprintf(text, sizeof(text), "[a-z]{%d}", i + 1);
		s = regex(text);
		a->g[i] = grammar_cache_get(a->c, &s, &e);
	}
	return NULL;
}

static void
test_cache_threads(void)
{
	Caller		a[4];
	pthread_t	t[4];
	GrammarCache *c = grammar_cache_new((size_t) 64 << 20);

	for (int i = 0; i < 4; i++)
	{
		a[i].c = c;
		pthread_create(&t[i], NULL, request, &a[i]);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	for (int k = 0; k < 20; k++)
		for (int i = 0; i < 4; i++)
		{
			CHECK(a[i].g[k] != NULL && a[i].g[k] == a[0].g[k], "thread %d has another grammar %d", i, k);
			if (i > 0)
				grammar_unref(a[i].g[k]);
		}
	for (int k = 0; k < 20; k++)
		grammar_unref(a[0].g[k]);
	grammar_cache_free(c);
}

int
main(void)
{
	RUN(test_members());
	RUN(test_kinds());
	RUN(test_options());
	RUN(test_refused());
	RUN(test_cache());
	RUN(test_cache_bounds());
	RUN(test_cache_threads());
	return check_done("test_structured");
}
