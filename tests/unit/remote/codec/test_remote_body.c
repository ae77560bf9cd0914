/*
 * test_remote_body.c
 *	  Bodies for endpoints: every parameter in every dialect, and what must be refused.
 */
#include <math.h>

#include "base/json/json.h"
#include "base/json/json_reader.h"
#include "tests/unit/remote/remote_body_util.h"

/* ---- every parameter of generation, in every dialect ---- */

#define NO	"-"					/* refused with its name */

typedef struct Param
{
	WireTag		tag;
	const char *name;
	const char *value;
	const char *plain[N_DIALECTS];	/* members that are added to the body; "" = none */
	const char *chat[N_DIALECTS];
} Param;

#define ALL(x)			{x, x, x, x}
#define ONLY_VLLM(x)	{NO, x, NO, NO}
#define LLAMAS(x)		{NO, NO, x, x}
#define IGNORED			{"", "", "", ""}
#define REFUSED			{NO, NO, NO, NO}

static const Param params[] = {
	{WTAG_MAX_TOKENS, "max_tokens", "9", ALL("\"max_tokens\":9"),
	 {"\"max_completion_tokens\":9", "\"max_tokens\":9", "\"max_tokens\":9", "\"max_tokens\":9"}},
	{WTAG_TEMPERATURE, "temperature", "0", ALL("\"temperature\":0"), ALL("\"temperature\":0")},
	{WTAG_TEMPERATURE, "temperature", "0.7", ALL("\"temperature\":0.7"), ALL("\"temperature\":0.7")},
	{WTAG_TOP_P, "top_p", "0.9", ALL("\"top_p\":0.9"), ALL("\"top_p\":0.9")},
	{WTAG_TOP_K, "top_k", "5", {NO, "\"top_k\":5", "\"top_k\":5", "\"top_k\":5"},
	 {NO, "\"top_k\":5", "\"top_k\":5", "\"top_k\":5"}},
	{WTAG_TOP_K, "top_k", "0", {"", "\"top_k\":-1", "\"top_k\":0", "\"top_k\":0"},
	 {"", "\"top_k\":-1", "\"top_k\":0", "\"top_k\":0"}},
	{WTAG_TOP_K, "top_k", "-1", {"", "\"top_k\":-1", "\"top_k\":0", "\"top_k\":0"},
	 {"", "\"top_k\":-1", "\"top_k\":0", "\"top_k\":0"}},
	{WTAG_MIN_P, "min_p", "0.1", {NO, "\"min_p\":0.1", "\"min_p\":0.1", "\"min_p\":0.1"},
	 {NO, "\"min_p\":0.1", "\"min_p\":0.1", "\"min_p\":0.1"}},
	{WTAG_MIN_P, "min_p", "0", {"", "\"min_p\":0", "\"min_p\":0", "\"min_p\":0"},
	 {"", "\"min_p\":0", "\"min_p\":0", "\"min_p\":0"}},
	{WTAG_SEED, "seed", "1234567890123", ALL("\"seed\":1234567890123"), ALL("\"seed\":1234567890123")},
	{WTAG_SEED, "seed", "-1", IGNORED, IGNORED},
	{WTAG_STOP, "stop", "a|\"\n", ALL("\"stop\":[\"a\",\"\\\"\\n\"]"), ALL("\"stop\":[\"a\",\"\\\"\\n\"]")},
	{WTAG_STOP_TOKEN_IDS, "stop_token_ids", "7,8", ONLY_VLLM("\"stop_token_ids\":[7,8]"),
	 ONLY_VLLM("\"stop_token_ids\":[7,8]")},
	{WTAG_STOP_TOKEN_IDS, "stop_token_ids", "", {"", "\"stop_token_ids\":[]", "", ""},
	 {"", "\"stop_token_ids\":[]", "", ""}},
	{WTAG_MIN_TOKENS, "min_tokens", "3", ONLY_VLLM("\"min_tokens\":3"), ONLY_VLLM("\"min_tokens\":3")},
	{WTAG_MIN_TOKENS, "min_tokens", "0", IGNORED, IGNORED},
	{WTAG_IGNORE_EOS, "ignore_eos", "1", ONLY_VLLM("\"ignore_eos\":true"), ONLY_VLLM("\"ignore_eos\":true")},
	{WTAG_IGNORE_EOS, "ignore_eos", "0", {"", "\"ignore_eos\":false", "", ""},
	 {"", "\"ignore_eos\":false", "", ""}},
	{WTAG_INCLUDE_STOP, "include_stop_str_in_output", "1", ONLY_VLLM("\"include_stop_str_in_output\":true"),
	 ONLY_VLLM("\"include_stop_str_in_output\":true")},
	{WTAG_SKIP_SPECIAL, "skip_special_tokens", "0", ONLY_VLLM("\"skip_special_tokens\":false"),
	 ONLY_VLLM("\"skip_special_tokens\":false")},
	{WTAG_SKIP_SPECIAL, "skip_special_tokens", "1", {"", "\"skip_special_tokens\":true", "", ""},
	 {"", "\"skip_special_tokens\":true", "", ""}},
	{WTAG_SPACES_BETWEEN_SPECIAL_TOKENS, "spaces_between_special_tokens", "0",
	 ONLY_VLLM("\"spaces_between_special_tokens\":false"),
	 ONLY_VLLM("\"spaces_between_special_tokens\":false")},
	{WTAG_DETOKENIZE, "detokenize", "0", REFUSED, REFUSED},
	{WTAG_DETOKENIZE, "detokenize", "1", IGNORED, IGNORED},
	{WTAG_PRESENCE_PENALTY, "presence_penalty", "0.5", ALL("\"presence_penalty\":0.5"),
	 ALL("\"presence_penalty\":0.5")},
	{WTAG_FREQUENCY_PENALTY, "frequency_penalty", "-2", ALL("\"frequency_penalty\":-2"),
	 ALL("\"frequency_penalty\":-2")},
	{WTAG_REPETITION_PENALTY, "repetition_penalty", "1.2",
	 {NO, "\"repetition_penalty\":1.2", "\"repeat_penalty\":1.2", "\"repeat_penalty\":1.2"},
		{NO, "\"repetition_penalty\":1.2", "\"repeat_penalty\":1.2", "\"repeat_penalty\":1.2"}},
	{WTAG_REPETITION_PENALTY, "repetition_penalty", "1",
	 {"", "\"repetition_penalty\":1", "\"repeat_penalty\":1", "\"repeat_penalty\":1"},
		{"", "\"repetition_penalty\":1", "\"repeat_penalty\":1", "\"repeat_penalty\":1"}},
	{WTAG_LOGIT_BIAS, "logit_bias", " {\"7\": -100}", ALL("\"logit_bias\":{\"7\":-100}"),
	 ALL("\"logit_bias\":{\"7\":-100}")},
	{WTAG_ALLOWED_TOKEN_IDS, "allowed_token_ids", "1", ONLY_VLLM("\"allowed_token_ids\":[1]"),
	 ONLY_VLLM("\"allowed_token_ids\":[1]")},
	{WTAG_BAD_WORDS, "bad_words", "x|y", ONLY_VLLM("\"bad_words\":[\"x\",\"y\"]"),
	 ONLY_VLLM("\"bad_words\":[\"x\",\"y\"]")},
	{WTAG_REPETITION_DETECTION, "repetition_detection", "{\"min_count\": 2}",
	 ONLY_VLLM("\"repetition_detection\":{\"min_count\":2}"),
	 ONLY_VLLM("\"repetition_detection\":{\"min_count\":2}")},
	{WTAG_EXTRA_ARGS, "extra_args", "{\"a\": 1}", ONLY_VLLM("\"vllm_xargs\":{\"a\":1}"),
	 ONLY_VLLM("\"vllm_xargs\":{\"a\":1}")},
	{WTAG_N, "n", "3", {"\"n\":3", "\"n\":3", NO, NO}, {"\"n\":3", "\"n\":3", NO, NO}},
	{WTAG_N, "n", "1", {"\"n\":1", "\"n\":1", "", ""}, {"\"n\":1", "\"n\":1", "", ""}},
	{WTAG_BEAM_WIDTH, "beam_width", "4", REFUSED, REFUSED},
	{WTAG_LENGTH_PENALTY, "length_penalty", "2", REFUSED, REFUSED},
	{WTAG_STREAM_INTERVAL, "stream_interval", "10", ONLY_VLLM("\"stream_interval\":10"),
	 ONLY_VLLM("\"stream_interval\":10")},
	{WTAG_STREAM_INTERVAL, "stream_interval", "1", IGNORED, IGNORED},
	{WTAG_PRIORITY, "priority", "-5", ONLY_VLLM("\"priority\":-5"), ONLY_VLLM("\"priority\":-5")},
	{WTAG_PRIORITY, "priority", "0", IGNORED, IGNORED},
	{WTAG_CACHE_SALT, "cache_salt", "s", ONLY_VLLM("\"cache_salt\":\"s\""),
	 ONLY_VLLM("\"cache_salt\":\"s\"")},
	{WTAG_PIN, "llm_pin_prefix()", "1", REFUSED, REFUSED},
	{WTAG_TRUNCATE_PROMPT_TOKENS, "truncate", "100", ONLY_VLLM("\"truncate_prompt_tokens\":100"),
	 ONLY_VLLM("\"truncate_prompt_tokens\":100")},
	{WTAG_TRUNCATION_SIDE, "truncation_side", "right", ONLY_VLLM("\"truncation_side\":\"right\""),
	 ONLY_VLLM("\"truncation_side\":\"right\"")},
	{WTAG_PROMPT_EMBEDS, "prompt_embeds", "", REFUSED, REFUSED},
	{WTAG_EMBEDS_WIDTH, "prompt_embeds", "2", REFUSED, REFUSED},
	{WTAG_WANT_EMBEDS, "llm_token_embeddings()", "1", REFUSED, REFUSED},
	{WTAG_ADD_SPECIAL, "add_special_tokens", "0", ONLY_VLLM("\"add_special_tokens\":false"), REFUSED},
	{WTAG_ADD_SPECIAL, "add_special_tokens", "1", IGNORED, IGNORED},
	{WTAG_WANT_IDS, "", "1", {"", "\"return_token_ids\":true", "", ""},
	 {"", "\"return_token_ids\":true", "", ""}},
	{WTAG_LOGPROBS, "logprobs", "2", ALL("\"logprobs\":2"), ALL("\"logprobs\":true,\"top_logprobs\":2")},
	{WTAG_LOGPROBS, "logprobs", "0", ALL("\"logprobs\":0"), ALL("\"logprobs\":true")},
	{WTAG_LOGPROBS, "logprobs", "-1", ONLY_VLLM("\"logprobs\":-1"),
	 {NO, "\"logprobs\":true,\"top_logprobs\":-1", NO, NO}},
	{WTAG_PROMPT_LOGPROBS, "prompt_logprobs", "1", ONLY_VLLM("\"prompt_logprobs\":1"),
	 ONLY_VLLM("\"prompt_logprobs\":1")},
	{WTAG_LOGPROB_TOKEN_IDS, "logprob_token_ids", "5", REFUSED, REFUSED},
	{WTAG_JSON_SCHEMA, "json_schema", " {\"b\": 1.50, \"a\": 2}\n",
		ONLY_VLLM("\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"answer\","
				  "\"schema\":{\"b\":1.5,\"a\":2}}}"),
		{"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"answer\",\"strict\":true,"
		 "\"schema\":{\"b\":1.5,\"a\":2}}}",
			"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"answer\","
			"\"schema\":{\"b\":1.5,\"a\":2}}}",
			"\"response_format\":{\"type\":\"json_object\",\"schema\":{\"b\":1.5,\"a\":2}}",
			"\"response_format\":{\"type\":\"json_object\",\"schema\":{\"b\":1.5,\"a\":2}}"}},
	{WTAG_REGEX, "regex", "[a-z]\\d", ONLY_VLLM("\"structured_outputs\":{\"regex\":\"[a-z]\\\\d\"}"),
	 ONLY_VLLM("\"structured_outputs\":{\"regex\":\"[a-z]\\\\d\"}")},
	{WTAG_GRAMMAR, "grammar", "root ::= \"a\"",
		{NO, "\"structured_outputs\":{\"grammar\":\"root ::= \\\"a\\\"\"}",
		 "\"grammar\":\"root ::= \\\"a\\\"\"", "\"grammar\":\"root ::= \\\"a\\\"\""},
		{NO, "\"structured_outputs\":{\"grammar\":\"root ::= \\\"a\\\"\"}",
		 "\"grammar\":\"root ::= \\\"a\\\"\"", "\"grammar\":\"root ::= \\\"a\\\"\""}},
	{WTAG_STRUCT_CHOICE, "choice", "yes|n\"o\n",
		{NO, "\"structured_outputs\":{\"choice\":[\"yes\",\"n\\\"o\\n\"]}",
		 "\"grammar\":\"root ::= \\\"yes\\\" | \\\"n\\\\\\\"o\\\\n\\\"\"",
		 "\"grammar\":\"root ::= \\\"yes\\\" | \\\"n\\\\\\\"o\\\\n\\\"\""},
		{NO, "\"structured_outputs\":{\"choice\":[\"yes\",\"n\\\"o\\n\"]}",
		 "\"grammar\":\"root ::= \\\"yes\\\" | \\\"n\\\\\\\"o\\\\n\\\"\"",
		 "\"grammar\":\"root ::= \\\"yes\\\" | \\\"n\\\\\\\"o\\\\n\\\"\""}},
	{WTAG_STRUCTURED_OUTPUTS, "structured_outputs", "{\"json_object\": true}",
	 ONLY_VLLM("\"structured_outputs\":{\"json_object\":true}"),
	 ONLY_VLLM("\"structured_outputs\":{\"json_object\":true}")},
	{WTAG_RESPONSE_FORMAT, "response_format", "{\"type\": \"text\"}",
	 ONLY_VLLM("\"response_format\":{\"type\":\"text\"}"), ALL("\"response_format\":{\"type\":\"text\"}")},
	{WTAG_TOOL_CHOICE, "tool_choice", "\"none\"", REFUSED, IGNORED},
	{WTAG_TOOL_CHOICE, "tool_choice", " \"none\"\n", REFUSED, IGNORED},
	{WTAG_TOOLS, "tools", "[{\"type\": \"function\"}]", REFUSED, ALL("\"tools\":[{\"type\":\"function\"}]")},
	{WTAG_PARALLEL_TOOL_CALLS, "parallel_tool_calls", "1", IGNORED, IGNORED},
	{WTAG_PARALLEL_TOOL_CALLS, "parallel_tool_calls", "0", REFUSED, {"", "", NO, NO}},
	{WTAG_DOCUMENTS, "documents", "[]", REFUSED, ONLY_VLLM("\"documents\":[]")},
	{WTAG_CHAT_KWARGS, "chat_template_kwargs", "{\"enable_thinking\": false}", REFUSED,
	 ONLY_VLLM("\"chat_template_kwargs\":{\"enable_thinking\":false}")},
	{WTAG_CHAT_TEMPLATE, "chat_template", "{{ x }}", REFUSED, ONLY_VLLM("\"chat_template\":\"{{ x }}\"")},
	{WTAG_CHAT_TEMPLATE, "chat_template", "tool_use", REFUSED, REFUSED},
	{WTAG_CONTENT_FORMAT, "content_format", "auto", REFUSED, IGNORED},
	{WTAG_CONTENT_FORMAT, "content_format", "string", REFUSED, REFUSED},
	{WTAG_GENERATION_PROMPT, "add_generation_prompt", "1", IGNORED, IGNORED},
	{WTAG_GENERATION_PROMPT, "add_generation_prompt", "0", REFUSED,
	 ONLY_VLLM("\"add_generation_prompt\":false")},
	{WTAG_CONTINUE_FINAL, "continue_final_message", "0", IGNORED, IGNORED},
	{WTAG_CONTINUE_FINAL, "continue_final_message", "1", REFUSED,
	 ONLY_VLLM("\"continue_final_message\":true")},
	{WTAG_REASONING_EFFORT, "reasoning_effort", "low", REFUSED,
	 {"\"reasoning_effort\":\"low\"", "\"reasoning_effort\":\"low\"", NO, NO}},
	{WTAG_INCLUDE_REASONING, "include_reasoning", "1", IGNORED, IGNORED},
	{WTAG_INCLUDE_REASONING, "include_reasoning", "0", REFUSED, ONLY_VLLM("\"include_reasoning\":false")},
	{WTAG_THINKING_TOKEN_BUDGET, "thinking_token_budget", "50", ONLY_VLLM("\"thinking_token_budget\":50"),
	 ONLY_VLLM("\"thinking_token_budget\":50")},
	{WTAG_THINKING_TOKEN_BUDGET, "thinking_token_budget", "-1", IGNORED, IGNORED},
	{WTAG_TOOL_PARSER, "", "hermes", IGNORED, IGNORED},
	{WTAG_REASONING_PARSER, "", "qwen3", IGNORED, IGNORED},
	{WTAG_NOTE, "", "x", IGNORED, IGNORED},
	{WTAG_TRACEPARENT, "", "x", IGNORED, IGNORED},
	{WTAG_WANT_ANSWERS, "", "1", IGNORED, IGNORED},
	{WTAG_DIMENSIONS, "dimensions", "8", REFUSED, REFUSED},
	{WTAG_STEP_TAG_ID, "step_tag_id", "8", REFUSED, REFUSED},
};

/* Members without any parameter. */
static const char *const sent_anyhow[N_DIALECTS] = {
	"", "",
	",\"temperature\":1,\"top_p\":1,\"top_k\":0,\"min_p\":0,\"repeat_penalty\":1",
	",\"temperature\":1,\"top_p\":1,\"top_k\":0,\"min_p\":0,\"repeat_penalty\":1"
};

/* Merge the members of both objects; the second one takes precedence. */
static char *
joined(const char *base, const char *members)
{
	Json	   *x = json_parse(base, strlen(base));
	Buf			b = {0};
	Json	   *y;
	const Json *v;
	char	   *text;

	buf_printf(&b, "{%s}", members);
	y = json_parse(b.data, strlen(b.data));
	buf_free(&b);
	json_each(v, y)
	{
		json_remove(x, v->key);
		json_add_copy(x, v->key, v);
	}
	text = json_print(x);
	json_free(x);
	json_free(y);
	return text;
}

static void
test_param(const Param *p, int d, bool chat)
{
	const char *want = chat ? p->chat[d] : p->plain[d];
	Buf			b = {0};
	Buf			base = {0};
	char		what[200];
	char		says[100];
	Made		m;
	char	   *body;

	snprintf(what, sizeof(what), "%s %s=%s %s", dialects[d], p->name, p->value, chat ? "of a chat" : "");
	snprintf(says, sizeof(says), p->tag == WTAG_LOGPROBS ? "%slogprobs of -1 is not supported" :
			 "parameter \"%s\" is not supported by the endpoint of model", p->tag == WTAG_LOGPROBS ? "" :
			 p->name);
	if (chat)
		put(&b, WTAG_MESSAGES, "[{\"role\": \"user\", \"content\": \"hi\"}]");
	else
		put(&b, WTAG_PROMPT, "hi");
	if (!chat)
		put_int(&b, WTAG_MAX_TOKENS, 5);
	put_any(&b, p->tag, p->value);
	buf_printf(&base, "{\"model\":\"Q/3\",%s%s}",
			   chat ? "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]" :
			   "\"prompt\":\"hi\",\"max_tokens\":5", sent_anyhow[d]);
	make(&m, WK_GENERATE, d, "", &b);
	if (strcmp(want, NO) == 0)
	{
		char		detail[80];

		snprintf(detail, sizeof(detail), "Its dialect is \"%s\".", dialects[d]);
		CHECK(strcmp(m.e.detail, detail) == 0, "%s: %s", what, m.e.detail);
		check_refused(&m, what, ERR_UNSUPPORTED, says);
	}
	else
	{
		body = joined(base.data, want);
		check_call(&m, what, chat ? RSHAPE_CHAT : RSHAPE_COMPLETION,
				   chat ? "/chat/completions" : "/completions", body);
		mem_free(body);
		done(&m);
	}
	buf_free(&base);
}

static void
test_params(void)
{
	for (size_t i = 0; i < sizeof(params) / sizeof(params[0]); i++)
		for (int d = 0; d < N_DIALECTS; d++)
		{
			test_param(&params[i], d, false);
			test_param(&params[i], d, true);
		}
}

/* Every parameter in the table of body fields has a row above. */
static void
test_all_rows(void)
{
	enum
	{
		IN_PLAIN = 1, IN_CHAT = 2, IN_GENERATE = 3, IN_ALL = 3, IN_EMBEDDINGS = 4, IN_SCORE = 8,
		IN_RERANK = 16, IN_CLASSIFY = 32, IN_POOLING = 64, IN_TOKENIZE = 128, IN_DETOKENIZE = 256,
		IN_LOGPROBS = 512, IN_PAIRS = 8 | 16, IN_POOLED = 4 | 8 | 16 | 32 | 64
	};
	static const struct
	{
		WireTag		tag;
		const char *name;
		const char *how;
		int			where;
	}			rows[] = {
#define REQ_FIELD(tag, name, key, how, caps, where, neutral) {WTAG_##tag, name, #how, where},
#include "remote/codec/body_fields.def"
#undef REQ_FIELD
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
	{
		bool		found = !(rows[i].where & IN_GENERATE) || strcmp(rows[i].how, "OWN") == 0;

		for (size_t k = 0; k < sizeof(params) / sizeof(params[0]); k++)
			found = found ||
				(params[k].tag == rows[i].tag &&
				 (params[k].name[0] == '\0' || strcmp(params[k].name, rows[i].name) == 0));
		CHECK(found, "%s is not tested", rows[i].name);
		CHECK(wire_tag_type(rows[i].tag) != 0 && rows[i].tag < 512, "%s", rows[i].name);
	}
}

/* ---- complete bodies ---- */

static void
test_whole(void)
{
	Buf			b = {0};
	Made		m;

	put(&b, WTAG_PROMPT, "h\xc3\xa4\"\n\x01");
	put_int(&b, WTAG_MAX_TOKENS, 1000);
	put_int(&b, WTAG_N, 2);
	put_int(&b, WTAG_STREAM, 1);
	make(&m, WK_GENERATE, OPENAI, "", &b);
	check_call(&m, "a stream", RSHAPE_COMPLETION, "/completions",
			   "{\"model\":\"Q/3\",\"prompt\":\"h\xc3\xa4\\\"\\n\\u0001\",\"max_tokens\":1000,\"n\":2,"
			   "\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
	CHECK(m.calls.v[0].stream && !m.calls.v[0].get && !m.calls.v[0].off_v1 && m.calls.v[0].n_requests == 1,
		  "flags");
	CHECK(m.calls.v[0].tokens >= 2000 && m.calls.v[0].tokens < 2100, "%lld tokens",
		  (long long) m.calls.v[0].tokens);
	done(&m);

	put(&b, WTAG_PROMPT, "hi");
	put_int(&b, WTAG_MAX_TOKENS, 5);
	put_int(&b, WTAG_STREAM, 1);
	make(&m, WK_GENERATE, OPENAI, ", \"prompt_as\": \"chat\"", &b);
	check_call(&m, "a prompt as a chat", RSHAPE_CHAT, "/chat/completions",
			   "{\"model\":\"Q/3\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],"
			   "\"max_completion_tokens\":5,\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
	done(&m);

	/* llama-cpp-python has no stream_options */
	put(&b, WTAG_MESSAGES, "[]");
	put_int(&b, WTAG_STREAM, 1);
	put_num(&b, WTAG_TEMPERATURE, 0);
	make(&m, WK_GENERATE, PYTHON, ", \"chat_path\": \"/c\"", &b);
	check_call(&m, "a path", RSHAPE_CHAT, "/c",
			   "{\"model\":\"Q/3\",\"messages\":[],\"temperature\":0,\"stream\":true,\"top_p\":1,\"top_k\":0,"
			   "\"min_p\":0,\"repeat_penalty\":1}");
	done(&m);

	/* both: sent as a chat */
	put(&b, WTAG_MESSAGES, "[1]");
	put(&b, WTAG_PROMPT, "hi");
	put(&b, WTAG_TOOLS, "[{}]");
	put(&b, WTAG_TOOL_CHOICE, "\"required\"");
	put_int(&b, WTAG_PARALLEL_TOOL_CALLS, 0);
	make(&m, WK_GENERATE, VLLM, "", &b);
	check_call(&m, "both", RSHAPE_CHAT, "/chat/completions",
			   "{\"model\":\"Q/3\",\"messages\":[1],\"tools\":[{}],\"tool_choice\":\"required\","
			   "\"parallel_tool_calls\":false}");
	done(&m);

	for (int d = 0; d < N_DIALECTS; d++)
	{
		put(&b, WTAG_MESSAGES, "[1]");
		put(&b, WTAG_TOOLS, "[{}]");
		put(&b, WTAG_TOOL_CHOICE, "\"required\"");
		make(&m, WK_GENERATE, d, "", &b);
		if (d == PYTHON)
			check_refused(&m, "a call must be made", ERR_UNSUPPORTED, "tool_choice \"required\"");
		else
		{
			CHECK(m.ok && strstr(m.calls.v[0].body.data, "\"tool_choice\":\"required\"") != NULL, "%s",
				  dialects[d]);
			done(&m);
		}
	}

	/* of a field that may be given once, the last one counts */
	put(&b, WTAG_PROMPT, "a");
	put_int(&b, WTAG_MAX_TOKENS, 5);
	put_num(&b, WTAG_TOP_P, 0.1);
	put(&b, WTAG_STOP, "x");
	put_num(&b, WTAG_TOP_P, 0.2);
	put(&b, WTAG_STOP, "y");
	put(&b, WTAG_PROMPT, "b");
	make(&m, WK_GENERATE, OPENAI, "", &b);
	check_call(&m, "twice", RSHAPE_COMPLETION, "/completions",
			   "{\"model\":\"Q/3\",\"prompt\":\"b\",\"max_tokens\":5,\"top_p\":0.2,\"stop\":[\"x\",\"y\"]}");
	done(&m);
}

static void
test_ids_and_rest(void)
{
	static const int32_t ids[] = {5, 0, -7};
	Buf			b = {0};
	WireOut		o;
	Made		m;

	o = out_of(&b);
	wire_put_ints(&o, WTAG_PROMPT_IDS, ids, 3);
	put_int(&b, WTAG_MAX_TOKENS, 5);
	make(&m, WK_GENERATE, VLLM, ", \"prompt_as\": \"chat\"", &b);
	check_call(&m, "ids", RSHAPE_COMPLETION, "/completions",
			   "{\"model\":\"Q/3\",\"prompt\":[5,0,-7],\"max_tokens\":5}");
	done(&m);
	o = out_of(&b);
	wire_put_ints(&o, WTAG_PROMPT_IDS, ids, 3);
	put_int(&b, WTAG_MAX_TOKENS, 5);
	make(&m, WK_GENERATE, PYTHON, "", &b);
	check_refused(&m, "ids", ERR_UNSUPPORTED, "\"prompt_token_ids\"");

	/* embeddings instead of a text */
	for (int d = 0; d < N_DIALECTS; d++)
	{
		put_any(&b, WTAG_PROMPT_EMBEDS, "");
		put_int(&b, WTAG_MAX_TOKENS, 5);
		make(&m, WK_GENERATE, d, "", &b);
		check_refused(&m, "embeddings", ERR_UNSUPPORTED, "parameter \"prompt_embeds\" is not supported");
	}

	/* the rest of the context */
	put(&b, WTAG_PROMPT, "0123456789");
	make(&m, WK_GENERATE, VLLM, ", \"max_model_len\": 100", &b);
	check_call(&m, "the rest", RSHAPE_COMPLETION, "/completions",
			   "{\"model\":\"Q/3\",\"prompt\":\"0123456789\",\"max_tokens\":82}");
	done(&m);
	put(&b, WTAG_PROMPT, "0123456789");
	make(&m, WK_GENERATE, OPENAI, ", \"max_model_len\": 18", &b);
	check_refused(&m, "no room", ERR_INVALID, "max_tokens must be given");
	put(&b, WTAG_PROMPT, "0123456789");
	make(&m, WK_GENERATE, OPENAI, "", &b);
	check_refused(&m, "no length", ERR_INVALID, "max_tokens must be given");
	CHECK(strstr(m.e.detail, "assume 16") != NULL && strstr(m.e.hint, "\"max_model_len\"") != NULL,
		  "%s", m.e.hint);
	put(&b, WTAG_PROMPT, "x");
	make(&m, WK_GENERATE, LLAMA, "", &b);
	CHECK(m.ok && strstr(m.calls.v[0].body.data, "\"max_tokens\":-1") != NULL, "llama.cpp");
	done(&m);
	put(&b, WTAG_PROMPT, "x");
	make(&m, WK_GENERATE, PYTHON, "", &b);
	CHECK(m.ok && strstr(m.calls.v[0].body.data, "\"max_tokens\":0") != NULL, "llama-cpp-python");
	done(&m);
}

/* The order of a schema's members and the digits of its numbers are kept. */
/*
 * Options of structured_outputs without a kind go where the kind goes, because vLLM accepts no options
 * alone.
 */
static void
test_schema_options(void)
{
	static const struct
	{
		WireTag		tag;
		const char *value;
		const char *member;
	}			cases[] = {
		{WTAG_JSON_SCHEMA, " {\"a\": 1.0}",
		 "\"structured_outputs\":{\"json\":{\"a\": 1.0},\"strict\":false,\"whitespace_pattern\":\" \"}"},
		{WTAG_JSON_SCHEMA, "true", "\"structured_outputs\":{\"json\":{},\"strict\":false,"
								   "\"whitespace_pattern\":\" \"}"},
		{WTAG_REGEX, "a", "\"structured_outputs\":{\"regex\":\"a\",\"strict\":false,"
						  "\"whitespace_pattern\":\" \"}"},
		{WTAG_STRUCT_CHOICE, "a", "\"structured_outputs\":{\"choice\":[\"a\"],\"strict\":false,"
								  "\"whitespace_pattern\":\" \"}"},
		{WTAG_RESPONSE_FORMAT, "{\"type\": \"json_object\"}",
		 "\"structured_outputs\":{\"json_object\":true,\"strict\":false,\"whitespace_pattern\":\" \"}"},
		{WTAG_RESPONSE_FORMAT, "{\"type\": \"json_schema\", \"json_schema\": {\"schema\": {\"b\": 2}}}",
		 "\"structured_outputs\":{\"json\":{\"b\": 2},\"strict\":false,\"whitespace_pattern\":\" \"}"},
		{WTAG_RESPONSE_FORMAT, "{\"type\": \"text\"}", NULL},
	};
	Buf			b = {0};
	Made		m;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		const char *body;

		put(&b, WTAG_MESSAGES, "[]");
		put(&b, cases[i].tag, cases[i].value);
		put(&b, WTAG_STRUCTURED_OUTPUTS, "{\"strict\": false, \"whitespace_pattern\": \" \"}");
		make(&m, WK_GENERATE, VLLM, "", &b);
		body = m.ok ? m.calls.v[0].body.data : "";
		CHECK(m.ok &&
			  (cases[i].member != NULL ? strstr(body, cases[i].member) != NULL : strstr(body,
				  "structured_outputs") == NULL) &&
			  strstr(body, "response_format") == NULL, "%s: %s %s", cases[i].value, body, m.e.msg);
		done(&m);
		put(&b, WTAG_MESSAGES, "[]");
		put(&b, cases[i].tag, cases[i].value);
		put(&b, WTAG_STRUCTURED_OUTPUTS, "{\"strict\": false}");
		make(&m, WK_GENERATE, OPENAI, "", &b);
		check_refused(&m, cases[i].value, ERR_UNSUPPORTED, "");
	}
	put(&b, WTAG_MESSAGES, "[]");
	put(&b, WTAG_RESPONSE_FORMAT, "{\"type\": \"structural_tag\", \"format\": {}}");
	put(&b, WTAG_STRUCTURED_OUTPUTS, "{\"strict\": false}");
	make(&m, WK_GENERATE, VLLM, "", &b);
	check_refused(&m, "options beside a tag", ERR_UNSUPPORTED, "structured_outputs");
	put(&b, WTAG_MESSAGES, "[]");
	put(&b, WTAG_STRUCTURED_OUTPUTS, "{\"strict\": false, \"json\": null}");
	make(&m, WK_GENERATE, VLLM, "", &b);
	check_refused(&m, "options alone", ERR_INVALID, "none is given");
	put(&b, WTAG_MESSAGES, "[]");
	put(&b, WTAG_REGEX, "a");
	put(&b, WTAG_STRUCTURED_OUTPUTS, "{\"json\": {}}");
	make(&m, WK_GENERATE, VLLM, "", &b);
	check_refused(&m, "two kinds", ERR_INVALID, "only use one kind");
	/* a choice of tools is a kind of its own, and is sent next to the options of another one */
	put(&b, WTAG_MESSAGES, "[]");
	put(&b, WTAG_TOOLS, "[{}]");
	put(&b, WTAG_TOOL_CHOICE, "\"required\"");
	put(&b, WTAG_JSON_SCHEMA, "{}");
	put(&b, WTAG_STRUCTURED_OUTPUTS, "{\"strict\": false}");
	make(&m, WK_GENERATE, VLLM, "", &b);
	check_call(&m, "a schema, tools and options", RSHAPE_CHAT, "/chat/completions",
			   "{\"model\":\"Q/3\",\"messages\":[],\"tools\":[{}],\"tool_choice\":\"required\","
			   "\"structured_outputs\":{\"json\":{},\"strict\":false}}");
	done(&m);
	put(&b, WTAG_MESSAGES, "[]");
	put(&b, WTAG_TOOLS, "[{}]");
	put(&b, WTAG_TOOL_CHOICE, "\"required\"");
	put(&b, WTAG_STRUCTURED_OUTPUTS, "{\"strict\": false}");
	make(&m, WK_GENERATE, VLLM, "", &b);
	check_call(&m, "tools and options", RSHAPE_CHAT, "/chat/completions",
			   "{\"model\":\"Q/3\",\"messages\":[],\"tools\":[{}],\"tool_choice\":\"required\","
			   "\"structured_outputs\":{\"strict\":false}}");
	done(&m);
}

static void
test_schemas(void)
{
	Buf			b = {0};
	Made		m;

	put(&b, WTAG_MESSAGES, "[ ]");
	put(&b, WTAG_JSON_SCHEMA, "{\"z\":1.000000000000000000001,\"a\":{\"y\":1e2,\"b\":\"\\u00e4\"}}");
	make(&m, WK_GENERATE, OPENAI, "", &b);
	CHECK(m.ok && strstr(m.calls.v[0].body.data, "\"schema\":{\"z\":1.000000000000000000001,\"a\":{\"y\":1e2,"
												 "\"b\":\"\\u00e4\"}}") != NULL, "as it is");
	done(&m);
	put(&b, WTAG_MESSAGES, "[]");
	put(&b, WTAG_JSON_SCHEMA, "\"{\\\"type\\\": \\\"object\\\"}\"");
	make(&m, WK_GENERATE, LLAMA, "", &b);
	CHECK(m.ok && strstr(m.calls.v[0].body.data, "\"schema\":{\"type\": \"object\"}}") != NULL,
		  "in a string");
	done(&m);
	put(&b, WTAG_MESSAGES, "[]");
	put(&b, WTAG_JSON_SCHEMA, "\"{\\\"const\\\": \\\"\\\\u0000\\\"}\"");
	make(&m, WK_GENERATE, LLAMA, "", &b);
	CHECK(m.ok && strstr(m.calls.v[0].body.data, "\"schema\":{\"const\": \"\\u0000\"}}") != NULL,
		  "with an escape of its own: %s", m.e.msg);
	done(&m);
	put(&b, WTAG_MESSAGES, "[]");
	put(&b, WTAG_JSON_SCHEMA, "true");
	make(&m, WK_GENERATE, VLLM, "", &b);
	CHECK(m.ok && strstr(m.calls.v[0].body.data, "\"schema\":{}}") != NULL, "any JSON");
	done(&m);
	put(&b, WTAG_MESSAGES, "[]");
	put(&b, WTAG_JSON_SCHEMA, "{}");
	put(&b, WTAG_REGEX, "a");
	make(&m, WK_GENERATE, VLLM, "", &b);
	check_refused(&m, "two kinds", ERR_INVALID, "only use one kind");
	put(&b, WTAG_PROMPT, "x");
	put_int(&b, WTAG_MAX_TOKENS, 5);
	put(&b, WTAG_JSON_SCHEMA, "{}");
	make(&m, WK_GENERATE, OPENAI, "", &b);
	CHECK(strstr(m.e.hint, "{\"prompt_as\": \"chat\"}") != NULL, "%s", m.e.hint);
	check_refused(&m, "of a completion", ERR_UNSUPPORTED, "\"json_schema\"");
	put(&b, WTAG_PROMPT, "x");
	put_int(&b, WTAG_MAX_TOKENS, 5);
	put_int(&b, WTAG_TOP_K, 5);
	make(&m, WK_GENERATE, OPENAI, "", &b);
	CHECK(strstr(m.e.hint, "{\"dialect\": ...}") != NULL, "%s", m.e.hint);
	check_refused(&m, "top_k", ERR_UNSUPPORTED,
				  "parameter \"top_k\" is not supported by the endpoint of model \"big\"");
}

/* ---- hostile values ---- */

static void
test_hostile(void)
{
	static const struct
	{
		WireTag		tag;
		const char *value;
		size_t		n;			/* 0 = strlen */
	}			cases[] = {
		{WTAG_MESSAGES, "[], \"model\": \"other\"", 0}, {WTAG_MESSAGES, "{}", 0}, {WTAG_MESSAGES, "[", 0},
		{WTAG_MESSAGES, "", 0},
		{WTAG_MESSAGES, "[\"\xff\"]", 0}, {WTAG_MESSAGES, "[\"a\0\"]", 5}, {WTAG_MESSAGES, "[] []", 0},
		{WTAG_MESSAGES, "[1,]", 0},
		{WTAG_TOOLS, "[]}", 0}, {WTAG_TOOLS, "\"x\"", 0}, {WTAG_TOOLS, "nonsense", 0},
		{WTAG_JSON_SCHEMA, "{} }", 0}, {WTAG_JSON_SCHEMA, "[]", 0}, {WTAG_JSON_SCHEMA, "\"not json\"", 0},
		{WTAG_JSON_SCHEMA, "\"{}\\u0000\"", 0},
		{WTAG_JSON_SCHEMA, "1", 0}, {WTAG_JSON_SCHEMA, "", 0},
		{WTAG_LOGIT_BIAS, "{\"1\": 1", 0}, {WTAG_LOGIT_BIAS, "[]", 0}, {WTAG_CHAT_KWARGS, "{\"a\": NaN}", 0},
		{WTAG_DOCUMENTS, "{}", 0},
		{WTAG_RESPONSE_FORMAT, "{\"type\": \"text\"}, \"n\": 99", 0}, {WTAG_STOP, "\xc3", 0},
		{WTAG_CACHE_SALT, "\xed\xa0\x80", 0},
		{WTAG_CHAT_TEMPLATE, "{\xff", 0}, {WTAG_REASONING_EFFORT, "\x80", 0},
		{WTAG_TOOL_CHOICE, "\"auto\"", 0}
	};
	Buf			b = {0};
	Made		m;
	char	   *deep = mem_alloc(100001);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		WireOut		o = out_of(&b);

		if (cases[i].tag != WTAG_MESSAGES)
			put(&b, WTAG_MESSAGES, "[]");
		wire_put_str(&o, cases[i].tag, cases[i].value, cases[i].n > 0 ? cases[i].n : strlen(cases[i].value));
		make(&m, WK_GENERATE, VLLM, "", &b);
		check_refused(&m, cases[i].value, ERR_INVALID, "");
	}
	put(&b, WTAG_PROMPT, "a\xffz");
	put_int(&b, WTAG_MAX_TOKENS, 5);
	make(&m, WK_GENERATE, VLLM, "", &b);
	check_refused(&m, "a prompt", ERR_INVALID, "prompt must be UTF-8");
	put(&b, WTAG_PROMPT, "a");
	put_int(&b, WTAG_CHUNK_SIZE, 5);
	make(&m, WK_GENERATE, VLLM, "", &b);
	check_refused(&m, "a field of another request", ERR_INTERNAL, "chunk_size");

	/* nested deeper than any limit */
	memset(deep, '[', 50000);
	memset(deep + 50000, ']', 50000);
	deep[100000] = '\0';
	put(&b, WTAG_MESSAGES, deep);
	make(&m, WK_GENERATE, VLLM, "", &b);
	check_refused(&m, "deep", ERR_INVALID, "messages must be a JSON array");
	mem_free(deep);
	/* a NUL in a prompt is a character */
	{
		WireOut		o = out_of(&b);

		wire_put_str(&o, WTAG_PROMPT, "a\0b", 3);
	}
	put_int(&b, WTAG_MAX_TOKENS, 5);
	make(&m, WK_GENERATE, VLLM, "", &b);
	CHECK(m.ok && strstr(m.calls.v[0].body.data, "\"a\\u0000b\"") != NULL, "NUL");
	done(&m);
}

/* ---- random messages ---- */

static uint64_t
next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/*
 * Whatever a message contains: it is refused, or its body is an object with the model, and no duplicate
 * members.
 */
static void
check_body(const RCall *c)
{
	Json	   *root = c->get ? NULL : json_parse(c->body.data, strlen(c->body.data));
	int			models = 0;

	CHECK(c->get || json_is_object(root), "no JSON: %s", c->body.data);
	CHECK(c->get || json_ok(c->body.data, c->body.len, 1000), "not wholly JSON: %s", c->body.data);
	for (const Json *x = root != NULL ? root->child : NULL; x != NULL; x = x->next)
	{
		models += strcmp(x->key, "model") == 0;
		for (const Json *y = x->next; y != NULL && c->shape != RSHAPE_API; y = y->next)
			CHECK(strcmp(x->key, y->key) != 0, "%s is there twice: %s", x->key, c->body.data);
	}
	CHECK(c->get || (models == 1 && strcmp(json_str_of(json_get(root, "model")), "Q/3") == 0), "the model");
	json_free(root);
}

/* Write fields of any kind with random values, and then change some bytes. */
static void
put_random(Buf *b, uint64_t *r)
{
	static const char *const texts[] = {
		"x", "", "[]", "{}", "{\"a\":1}", "[{\"role\":\"user\",\"content\":\"x\"}]", "\"none\"", "true",
		"nonsense\xff", "embed", "score", "classify", "reward", "truncate", "error", "/v1/completions",
		"/v1/embeddings", "{\"model\":\"y\",\"stream\":true}", "right", "auto", "root ::= \"a\"", "\xc3\xa4"
	};
	int			n = 1 + (int) (next_random(r) % 12);

	for (int i = 0; i < n; i++)
	{
		WireOut		o = out_of(b);
		int			tag = (int) (next_random(r) % 280);
		const char *text = texts[next_random(r) % (sizeof(texts) / sizeof(texts[0]))];
		int32_t		ids[3] = {1, -2, 3};
		float		floats[3] = {0, NAN, 1};
		int64_t		v = (int64_t) (next_random(r) % 7) - 2;

		/* keep the fields of the model's identity; most messages have an input */
		if (tag == WTAG_MODEL || tag == WTAG_URL || tag == WTAG_MODEL_OPTIONS || tag == WTAG_LORA ||
			next_random(r) % 4 == 0)
			tag = (const int[]) {WTAG_PROMPT, WTAG_MESSAGES, WTAG_TASK, WTAG_MAX_TOKENS, WTAG_PAIR,
								 WTAG_CHOICE, WTAG_API_PATH, WTAG_API_BODY}[next_random(r) % 8];
		switch (wire_tag_type(tag))
		{
			case WT_INT:
				wire_put_int(&o, tag, v);
				break;
			case WT_NUM:
				wire_put_num(&o, tag, (double) v / 2);
				break;
			case WT_STR:
				wire_put_str(&o, tag, text, strlen(text));
				break;
			case WT_INTS:
				wire_put_ints(&o, tag, ids, next_random(r) % 4);
				break;
			case WT_FLOATS:
				wire_put_floats(&o, tag, floats, next_random(r) % 4);
				break;
		}
	}
}

static void
test_random(void)
{
	uint64_t	r = UINT64_C(0x9e3779b97f4a7c15);
	int			taken = 0;

	for (int round = 0; round < 20000; round++)
	{
		WireKind	kind = 1 + (int) (next_random(&r) % (WK_COUNT - 1));
		Buf			b = {0};
		Buf			options = {0};
		char	   *copy;
		RequestFields a;
		Err			e = {0};
		RCalls		calls;
		ROptions   *o;
		const RequestFields *requests[1] = {&a};

		buf_printf(&options, "{\"model\": \"Q/3\", \"dialect\": \"%s\"}",
				   dialects[next_random(&r) % N_DIALECTS]);
		put(&b, WTAG_MODEL, "big");
		put(&b, WTAG_URL, "https://a.example/v1");
		put(&b, WTAG_MODEL_OPTIONS, options.data);
		buf_free(&options);
		if (next_random(&r) % 2 == 0)
			kind = next_random(&r) % 2 == 0 ? WK_GENERATE : WK_POOL;
		{
			size_t		head = b.len;

			put_random(&b, &r);
			/* change bytes after the head */
			for (int i = b.len > head && next_random(&r) % 3 == 0 ? (int) (next_random(&r) % 5) : 0; i > 0;
				 i--)
				b.data[head + next_random(&r) % (b.len - head)] = (char) next_random(&r);
		}
		copy = mem_alloc(b.len);
		memcpy(copy, b.data, b.len);
		if (!request_fields_read(&a, kind, copy, b.len, &e))
			CHECK(e.cls != ERR_NONE && e.msg[0] != '\0', "an error says nothing");
		else
		{
			o = a.n_urls > 0 ? roptions_get(&a, &e) : NULL;
			if (o != NULL && a.lora.n == 0 && strcmp(o->model, "Q/3") == 0)
			{
				memset(&e, 0, sizeof(e));
				if (body_make(requests, 1, o, &calls, &e))
				{
					taken++;
					for (int i = 0; i < calls.n; i++)
						check_body(&calls.v[i]);
					body_free(&calls);
				}
				else
					CHECK(e.cls != ERR_NONE && e.msg[0] != '\0' && calls.v == NULL, "an error says nothing");
			}
			roptions_unref(o);
			request_fields_free(&a);
		}
		buf_free(&b);
	}
	CHECK(taken > 300, "only %d are taken", taken);
}

int
main(void)
{
	RUN(test_params());
	RUN(test_all_rows());
	RUN(test_whole());
	RUN(test_ids_and_rest());
	RUN(test_schemas());
	RUN(test_schema_options());
	RUN(test_hostile());
	RUN(test_random());
	roptions_forget();
	return check_done("test_remote_body");
}
