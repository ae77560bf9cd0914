/*
 * test_answer.c
 *	  src/server/request/output_splitter.c: reasoning, content and tool calls of one choice, and the
 *	  schemas of calls that the model must make (tool_choice.c).
 */
#include <malloc.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>

#include "base/json/json.h"
#include "tests/unit/check.h"
#include "base/alloc.h"
#include "server/request/output_splitter.h"
#include "server/request/tool_choice.h"

/* Return `content|reasoning|calls|n`, for the text in pieces of `step` bytes. */
static const char *
parts(const AnswerSpec *spec, const char *text, size_t step)
{
	static Buf	out;
	Answer	   *first = answer_new(spec);
	Answer	   *a = answer_fork(first, 0);

	buf_reset(&out);
	answer_free(first);
	for (size_t i = 0, n = strlen(text); i < n; i += step)
		answer_feed(a, text + i, step < n - i ? step : n - i);
	answer_finish(a);
	buf_add(&out, answer_content(a)->data, answer_content(a)->len);
	buf_addc(&out, '|');
	buf_add(&out, answer_reasoning(a)->data, answer_reasoning(a)->len);
	buf_addc(&out, '|');
	buf_add(&out, answer_calls(a)->data, answer_calls(a)->len);
	buf_printf(&out, "|%d%s%s", answer_n_calls(a), answer_calls_tools(a, false) ? " tool_calls" : "",
			   answer_calls_tools(a, false) && !answer_calls_tools(a, true) ? ", cut" : "");
	answer_free(a);
	/* drop the long ids */
	for (char *p; (p = strstr(out.data, "chatcmpl-tool-")) != NULL;)
		memmove(p, p + 46, strlen(p + 46) + 1);
	return out.data;
}

static void
check_parts(const AnswerSpec *spec, const char *text, const char *want)
{
	for (size_t step = 1; step <= strlen(text) + 1; step++)
	{
		const char *got = parts(spec, text, step);

		CHECK(strcmp(got, want) == 0, "%s, pieces of %zu: %s", text, step, got);
	}
}

static void
answers(void)
{
	AnswerSpec	s = {.reason = reason_format_find("deepseek_r1", 11),.tools = tool_format_find("hermes", 6),
					 .choice = TOOLS_AUTO};

	check_parts(&s, "A<tool_call>x</think>B<tool_call>{\"name\":\"f\",\"arguments\":{\"q\":\"\\\"\"}}",
				"B|A<tool_call>x|{\"id\": \"\", \"type\": \"function\", \"function\": {\"name\": \"f\", "
				"\"arguments\": \"{\\\"q\\\": \\\"\\\\\\\"\\\"}\"}}|1 tool_calls");
	s.drop_reasoning = s.one_call = s.stream = true;
	check_parts(&s, "A</think><tool_call>{\"name\":\"f\","
					"\"arguments\":{}}</tool_call><tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>",
				"||{\"index\": 0, \"id\": \"\", \"type\": \"function\", \"function\": {\"name\": \"f\", "
				"\"arguments\": \"{}\"}}|1 tool_calls");
	s = (AnswerSpec) {.choice = TOOLS_NAMED,.named = "f"};
	check_parts(&s, "{\"a\":1}", "||{\"id\": \"\", \"type\": \"function\", \"function\": {\"name\": \"f\", "
								 "\"arguments\": \"{\\\"a\\\": 1}\"}}|1");
	check_parts(&s, "{\"a\"", "||{\"id\": \"\", \"type\": \"function\", \"function\": {\"name\": \"f\", "
							  "\"arguments\": \"{\\\"a\\\"\"}}|1");
	check_parts(&s, "", "|||0");
	s = (AnswerSpec) {.choice = TOOLS_REQUIRED};
	check_parts(&s, "[{\"name\":\"f\",\"parameters\":{}}]",
				"||{\"id\": \"\", \"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": "
				"\"{}\"}}|1 tool_calls");
	check_parts(&s, "[{\"name\":\"f\",\"parameters\":{}}, {\"na",
				"{\"na||{\"id\": \"\", \"type\": \"function\", \"function\": {\"name\": \"f\", "
				"\"arguments\": \"{}\"}}|1 tool_calls, cut");
	check_parts(&s, "[{\"name\":\"f\",\"parameters\":{\"a\":1",
				"[{\"name\":\"f\",\"parameters\":{\"a\":1|||0");
	/* a call within reasoning is not parsed; the end tag may be missing, unless a grammar follows */
	s = (AnswerSpec) {.reason = reason_format_find("qwen3", 5),.tools = tool_format_find("hermes", 6),
					  .choice = TOOLS_AUTO};
	check_parts(&s, "A<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call></think>C",
				"C|A<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>||0");
	check_parts(&s, "A<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>",
				"|A|{\"id\": \"\", \"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": "
				"\"{}\"}}|1 tool_calls");
	s = (AnswerSpec) {.reason = reason_format_find("qwen3", 5),.choice = TOOLS_NONE};
	check_parts(&s, "A<tool_call>B</think>C", "C|A<tool_call>B||0");
	s.tag_only = true;
	check_parts(&s, "A<tool_call>B</think>C", "C|A<tool_call>B||0");
	s = (AnswerSpec) {.reason = reason_format_find("openai_gptoss", 13),
					  .tools = tool_format_find("openai", 6),.choice = TOOLS_AUTO};
	check_parts(&s, "<|channel|>analysis<|message|>A<|end|><|start|>assistant<|channel|>commentary "
					"to=functions.f<|message|>{}",
				"|A|{\"id\": \"\", \"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": "
				"\"{}\"}}|1 tool_calls");
	/* a tool format that parses the reasoning itself: it ends all the same */
	{
		Answer	   *a = answer_new(&s);

		CHECK(answer_until(a) != NULL && strncmp(answer_until(a), "<|channel|>final", 16) == 0 &&
			  answer_takes_calls(a), "a grammar begins in the final message");
		answer_free(a);
	}
}

/* A text that max_tokens has cut: within a further call, or in content after the calls? */
static void
cuts(void)
{
	static const struct
	{
		const char *parser;		/* NULL: calls that the model must make */
		const char *text;
		bool		cut;
	}			c[] = {
		{"hermes", "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>", false},
		{"hermes", "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_", false},
		{"hermes", "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call> and", false},
		{"hermes", "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call> <tool_", true},
		{"hermes", "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call> <tool_call>", true},
		{"hermes", "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call> "
				   "<tool_call>{\"name\":\"f\",\"arg", true},
		{"qwen3_coder", "<tool_call><function=f></function></tool_call><tool_call><function=f><parameter=a>1",
		 true},
		{"pythonic", "[f(), f(a=1", true}, {"pythonic", "[f()]", false},
		{"xlam", "[{\"name\":\"f\",\"arguments\":{}}]", false},
		{"xlam", "[{\"name\":\"f\",\"arguments\":{}}] and", true},
		{"openai", "<|channel|>commentary to=functions.f<|message|>{}", false},
		{"openai", "<|channel|>commentary to=functions.f<|message|>{}<|call|>", false},
		{"openai", "<|channel|>commentary to=functions.f<|message|>{}<|call|><|start|>assis", true},
		{"openai", "<|channel|>commentary to=functions.f<|message|>{}<|call|><|start|>assistant<|channel|"
				   ">commentary to=functions.f<|message|>{\"a\"", true},
		{NULL, "[{\"name\":\"f\",\"parameters\":{}}]", false}, {NULL, "[{\"name\":\"f\",\"parameters\":{}}",
																true},
		{NULL, "[{\"name\":\"f\",\"parameters\":{}}, {\"na", true}
	};

	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++)
		for (size_t step = 1; step < 100; step += 33)
		{
			AnswerSpec	s = {.tools = c[i].parser != NULL ? tool_format_find(c[i].parser,
					strlen(c[i].parser)) : NULL,.choice = c[i].parser != NULL ? TOOLS_AUTO : TOOLS_REQUIRED};
			const char *got = parts(&s, c[i].text, step);

			CHECK(strstr(got, "|1 tool_calls") != NULL && c[i].cut == (strstr(got, ", cut") != NULL),
				  "%s: %s", c[i].text, got);
		}
}

/* ---- streams: read while the text comes ---- */

typedef struct Stream
{
	Buf			content;
	Buf			arguments[4];
	int			begun;			/* elements with an id */
	int			most;			/* maximal bytes of arguments in one element */
	bool		bad;
} Stream;

static void
read_deltas(Answer *a, Stream *s)
{
	Buf			list = {0};
	Json	   *calls;
	const Json *v;

	buf_add(&s->content, answer_content(a)->data, answer_content(a)->len);
	buf_addc(&list, '[');
	buf_add(&list, answer_calls(a)->data, answer_calls(a)->len);
	buf_addc(&list, ']');
	calls = json_parse(list.data, list.len);
	s->bad |= calls == NULL;
	json_each(v, calls)
	{
		int			i = json_to_int(json_get(v, "index"));
		const char *args = json_str_of(json_get(json_get(v, "function"), "arguments"));
		bool		first = json_get(v, "id") != NULL;

		s->bad |= args == NULL || i != s->begun - !first || i > 3 || first != (json_get(v, "type") != NULL);
		s->begun += first;
		if (s->bad)
			break;
		buf_addstr(&s->arguments[i], args);
		s->most = (int) strlen(args) > s->most ? (int) strlen(args) : s->most;
	}
	json_free(calls);
	buf_free(&list);
	buf_reset(answer_content(a));
	buf_reset(answer_calls(a));
}

/* want: arguments of the first two calls; NULL: none */
static void
check_stream(const AnswerSpec *spec, const char *text, const char *content, const char *first,
			 const char *second, int n)
{
	const char *want[] = {first, second};

	for (size_t step = 1; step < 8; step++)
	{
		Answer	   *a = answer_new(spec);
		Stream		s = {0};

		for (size_t i = 0, len = strlen(text); i < len; i += step)
		{
			answer_feed(a, text + i, step < len - i ? step : len - i);
			if (answer_has(a))
				read_deltas(a, &s);
		}
		answer_finish(a);
		read_deltas(a, &s);
		CHECK(!s.bad && strcmp(s.content.len > 0 ? s.content.data : "", content) == 0 &&
			  answer_n_calls(a) == n, "%s by %zu: %d calls, content %s", text, step, answer_n_calls(a),
			  s.content.data);
		for (int i = 0; i < 2; i++)
			CHECK(strcmp(s.arguments[i].len > 0 ? s.arguments[i].data : "", want[i] != NULL ? want[i] : "") ==
				  0, "%s by %zu: %s", text, step, s.arguments[i].data);
		CHECK(s.most <= (int) step + 8, "%s by %zu: %d bytes of arguments at once", text, step, s.most);
		buf_free(&s.content);
		for (int i = 0; i < 4; i++)
			buf_free(&s.arguments[i]);
		answer_free(a);
	}
}

static void
streams(void)
{
	AnswerSpec	s = {.tools = tool_format_find("hermes", 6),.choice = TOOLS_AUTO,.stream = true};

	check_stream(&s, "So <tool_call>{\"name\": \"f\", \"arguments\": {\"q\":\"a \\\"b\\\" c\", "
					 "\"n\":[1,2]}}</tool_call>\n<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>",
				 "So ", "{\"q\": \"a \\\"b\\\" c\", \"n\": [1, 2]}", "{}", 2);
	/* text that turns out not to be a call has an incomplete beginning as a call, and is content */
	check_stream(&s, "<tool_call>{\"name\": \"f\", \"arguments\": {\"q\":\"abcdef",
				 "<tool_call>{\"name\": \"f\", \"arguments\": {\"q\":\"abcdef", "{\"q\": \"abcdef", NULL, 0);
	s = (AnswerSpec) {.tools = tool_format_find("qwen3_coder", 11),.choice = TOOLS_AUTO,.stream = true};
	check_stream(&s, "<tool_call><function=f><parameter=a>\nlong "
					 "\"text\"\n</parameter></function></tool_call>", "", "{\"a\": \"long \\\"text\\\"\"}",
					 NULL, 1);
	s = (AnswerSpec) {.choice = TOOLS_NAMED,.named = "f",.stream = true};
	check_stream(&s, "{\"a\":{\"b\":\"c\"} }", "", "{\"a\": {\"b\": \"c\"}}", NULL, 1);
	check_stream(&s, "{\"a\":\"cut", "", "{\"a\": \"cut", NULL, 1);
	s = (AnswerSpec) {.choice = TOOLS_REQUIRED,.stream = true};
	check_stream(&s, "[{\"name\":\"f\",\"parameters\":{\"a\":1}},{\"name\":\"g\","
					 "\"parameters\":{\"b\":\"x\"}}]", "", "{\"a\": 1}", "{\"b\": \"x\"}", 2);
	s.one_call = true;
	check_stream(&s, "[{\"name\":\"f\",\"parameters\":{\"a\":1}},{\"name\":\"g\","
					 "\"parameters\":{\"b\":\"x\"}}]", "", "{\"a\": 1}", NULL, 1);
}

static void
check_schema(const char *tools, const char *named, bool one, const char *want)
{
	Buf			b = {0};
	Err			e = {0};
	bool		ok = toolchoice_schema(tools, strlen(tools), named, one, &b, &e);

	CHECK(strcmp(ok ? b.data : e.msg, want) == 0, "%s: %s", tools, ok ? b.data : e.msg);
	buf_free(&b);
}

/* Definitions that are the same in each tool, deeply nested, and more than allowed. */
static void
deep_schemas(void)
{
	Buf			x = {0};
	Buf			tools = {0};
	Buf			b = {0};
	Err			e = {0};

	for (int i = 0; i < 200; i++)
		buf_addstr(&x, "{\"a\":");
	buf_addstr(&x, "1");
	for (int i = 0; i < 200; i++)
		buf_addstr(&x, "}");
	buf_addstr(&tools, "[");
	for (int i = 0; i < 3; i++)
		buf_printf(&tools, "%s{\"function\":{\"name\":\"f%d\",\"parameters\":{\"$defs\":{\"d\":%s}}}}",
				   i > 0 ? "," : "", i, x.data);
	buf_addstr(&tools, "]");
	CHECK(toolchoice_schema(tools.data, tools.len, NULL, false, &b, &e), "%s", e.msg);
	buf_free(&tools);
	buf_addstr(&tools, "[{\"function\":{\"name\":\"f\",\"parameters\":{\"enum\":[0");
	for (int i = 0; i < 20000; i++)
		buf_addstr(&tools, ",0");
	buf_addstr(&tools, "]}}}]");
	CHECK(!toolchoice_schema(tools.data, tools.len, NULL, false, &b, &e) && e.cls == ERR_TOO_LONG, "%s",
		  e.msg);
	buf_free(&x);
	buf_free(&tools);
	buf_free(&b);
}

static void
schemas(void)
{
	static const char tools[] = "[{\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
								"\"properties\":{\"a\":{\"$ref\":\"#/$defs/d\"}},"
		"\"$defs\":{\"d\":{\"type\":\"integer\"}}}}},{\"function\":{\"name\":\"g\"}}]";

	check_schema(tools, NULL, false, "{\"type\":\"array\",\"minItems\":1,\"items\":{\"anyOf\":["
				 "{\"type\":\"object\",\"properties\":{\"name\":{\"const\":\"f\"},"
				 "\"parameters\":{\"$id\":\"tool:0\",\"type\":\"object\","
				 "\"properties\":{\"a\":{\"$ref\":\"#/$defs/d\"}},\"$defs\":{\"d\":{\"type\":\"integer\"}}}},"
				 "\"required\":[\"name\",\"parameters\"]},{\"type\":\"object\","
				 "\"properties\":{\"name\":{\"const\":\"g\"},\"parameters\":{\"type\":\"object\","
				 "\"properties\":{}}},\"required\":[\"name\",\"parameters\"]}]}}");
	check_schema(tools, "f", false, "{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#/$defs/d\"}},"
									"\"$defs\":{\"d\":{\"type\":\"integer\"}}}");
	check_schema(tools, "h", false, "tool_choice names \"h\", which is not among the tools");
	/* unchanged: digits, the order of members, an id of its own */
	check_schema("[ {\"x\":[1,{}], \"function\" : {\"parameters\" : {\"$id\":\"x\",\"const\" : "
				 "12345678901234567890, \"$ref\":\"#\"} ,\"name\":\"\\u0066\"}} ]", NULL, true,
				 "{\"type\":\"array\",\"minItems\":1,\"maxItems\":1,"
				 "\"items\":{\"anyOf\":[{\"type\":\"object\","
				 "\"properties\":{\"name\":{\"const\":\"\\u0066\"},\"parameters\":{\"$id\":\"x\",\"const\" : "
				 "12345678901234567890, \"$ref\":\"#\"}},\"required\":[\"name\",\"parameters\"]}]}}");
	check_schema("[{\"function\":{\"name\":\"\\u0066\",\"parameters\":{\"maximum\":1.50}}}]", "f", false,
				 "{\"maximum\":1.50}");
	check_schema("{\"a\":{\"function\":{\"name\":\"f\"}}}", NULL, false,
				 "tools must be an array of at least one tool");
	check_schema("[{\"function\":{\"name\":\"f\"}}", NULL, false,
				 "tools must be an array of at least one tool");
	check_schema("[]", NULL, false, "tools must be an array of at least one tool");
	check_schema("[{\"function\":{\"name\":\"f\",\"parameters\":[]}}]", NULL, true,
				 "the parameters of tool \"f\" must be a JSON schema, an object");
	check_schema("[{\"function\":{\"name\":\"f\",\"parameters\":{\"$defs\":{\"d\":{}}}}},"
				 "{\"function\":{\"name\":\"g\",\"parameters\":{\"$defs\":{\"d\":true}}}}]", NULL, true,
				 "tools define \"d\" in different ways");
}

/* Calls that the model must make have ids in the format that its template expects. */
static void
ids(void)
{
	static const struct
	{
		const char *parser;
		const char *pattern;
	}			want[] = {
		{"mistral", "\"id\": \"[0-9A-Za-z]{9}\".*\"id\": \"[0-9A-Za-z]{9}\""},
		{"kimi_k2", "\"id\": \"functions.f:0\".*\"id\": \"functions.f:1\""},
		{"hermes", "\"id\": \"chatcmpl-tool-[0-9a-f]{32}\".*\"id\": \"chatcmpl-tool-[0-9a-f]{32}\""},
		{NULL, "\"id\": \"chatcmpl-tool-[0-9a-f]{32}\""}
	};
	static const char text[] = "[{\"name\":\"f\",\"parameters\":{}},{\"name\":\"f\",\"parameters\":{}}]";

	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
	{
		AnswerSpec	s = {.choice = TOOLS_REQUIRED,.key = 7};
		Answer	   *a;
		regex_t		re;
		const char *second;

		if (want[i].parser != NULL)
			s.tools = tool_format_find(want[i].parser, strlen(want[i].parser));
		a = answer_new(&s);
		answer_feed(a, text, sizeof(text) - 1);
		answer_finish(a);
		regcomp(&re, want[i].pattern, REG_EXTENDED | REG_NOSUB);
		CHECK(regexec(&re, answer_calls(a)->data, 0, NULL, 0) == 0, "%s: %s", want[i].parser,
			  answer_calls(a)->data);
		second = strstr(answer_calls(a)->data, "}, {") + 3;
		CHECK(strncmp(answer_calls(a)->data, second, 20) != 0 ||
			  strncmp(answer_calls(a)->data, second, 60) != 0, "%s: equal ids", want[i].parser);
		regfree(&re);
		answer_free(a);
	}
}

/* The maximal number of choices shares the parsed tools. */
static void
many(void)
{
	Buf			tools = {0};
	AnswerSpec	s = {.tools = tool_format_find("qwen3_coder", 11),.choice = TOOLS_AUTO,
					 .reason = reason_format_find("qwen3", 5),.kwargs = "{}",.n_kwargs = 2};
	size_t		before = mallinfo2().uordblks;
	Answer	   *first;
	Answer	  **a = mem_alloc(16384 * sizeof(Answer *));
	int			right = 0;

	buf_addstr(&tools, "[{\"function\":{\"name\":\"f\","
					   "\"parameters\":{\"properties\":{\"n\":{\"type\":\"integer\"}},\"enum\":[0");
	for (int i = 0; i < 100000; i++)
		buf_addstr(&tools, ",0");
	buf_addstr(&tools, "]}}}]");
	s.tools_json = tools.data;
	s.n_tools_json = tools.len;
	first = answer_new(&s);
	buf_free(&tools);
	for (int i = 0; i < 16384; i++)
		a[i] = answer_fork(first, i);
	answer_free(first);
	CHECK(mallinfo2().uordblks - before < (size_t) 64 << 20, "%zu bytes", mallinfo2().uordblks - before);
	for (int i = 0; i < 16384; i++)
	{
		static const char text[] = "A</think><function=f><parameter=n>1</parameter></function>";

		answer_feed(a[i], text, sizeof(text) - 1);
		answer_finish(a[i]);
		right += answer_n_calls(a[i]) == 1 && strstr(answer_calls(a[i])->data, "{\\\"n\\\": 1}") != NULL &&
			answer_reasoning(a[i])->len == 1;
		answer_free(a[i]);
	}
	CHECK(right == 16384, "%d answers are right", right);
	mem_free(a);
}

int
main(void)
{
	RUN(answers());
	RUN(cuts());
	RUN(streams());
	RUN(schemas());
	RUN(deep_schemas());
	RUN(ids());
	RUN(many());
	return check_done("test_answer");
}
