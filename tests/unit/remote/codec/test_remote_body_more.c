/*
 * test_remote_body_more.c
 *	  Bodies for endpoints: vectors and scores, coalesced inputs, choices, tokens, bodies of llm_api().
 */
#include "tests/unit/remote/remote_body_util.h"

/* ---- pooling ---- */

static void
put_pool(Buf *b, const char *task, const char *text)
{
	put(b, WTAG_TASK, task);
	put(b, WTAG_PROMPT, text);
}

static const struct
{
	int			dialect;
	const char *task;
	WireTag		tag;		/* 0 = none */
	const char *value;
	RShape		shape;
	const char *path;
	const char *body;		/* NULL: refused, and path has the error */
}			pool_cases[] = {
	{OPENAI, "embed", 0, "", RSHAPE_EMBEDDINGS, "/embeddings",
	 "{\"model\":\"Q/3\",\"input\":[\"x\"],\"encoding_format\":\"base64\"}"},
	{VLLM, "embed", 0, "", RSHAPE_EMBEDDINGS, "/embeddings",
	 "{\"model\":\"Q/3\",\"input\":[\"x\"],\"encoding_format\":\"base64\"}"},
	{LLAMA, "embed", 0, "", RSHAPE_EMBEDDINGS, "/embeddings", "{\"model\":\"Q/3\",\"input\":[\"x\"]}"},
	{PYTHON, "embed", 0, "", RSHAPE_EMBEDDINGS, "/embeddings", "{\"model\":\"Q/3\",\"input\":[\"x\"]}"},
	{OPENAI, "embed", WTAG_DIMENSIONS, "8", RSHAPE_EMBEDDINGS, "/embeddings",
	 "{\"model\":\"Q/3\",\"input\":[\"x\"],\"encoding_format\":\"base64\",\"dimensions\":8}"},
	{LLAMA, "embed", WTAG_DIMENSIONS, "8", 0, "parameter \"dimensions\"", NULL},
	{OPENAI, "embed", WTAG_INSTRUCTION, "query: ", RSHAPE_EMBEDDINGS, "/embeddings",
	 "{\"model\":\"Q/3\",\"input\":[\"query: x\"],\"encoding_format\":\"base64\"}"},
	{VLLM, "embed", WTAG_PROMPT_NAME, "query", 0, "parameter \"prompt_name\"", NULL},
	{VLLM, "embed", WTAG_USE_ACTIVATION, "0", RSHAPE_EMBEDDINGS, "/embeddings",
	 "{\"model\":\"Q/3\",\"input\":[\"x\"],\"encoding_format\":\"base64\",\"use_activation\":false}"},
	{OPENAI, "embed", WTAG_USE_ACTIVATION, "1", RSHAPE_EMBEDDINGS, "/embeddings",
	 "{\"model\":\"Q/3\",\"input\":[\"x\"],\"encoding_format\":\"base64\"}"},
	{OPENAI, "embed", WTAG_USE_ACTIVATION, "0", 0, "parameter \"use_activation\"", NULL},
	{PYTHON, "embed", WTAG_USE_ACTIVATION, "1", 0, "parameter \"use_activation\"", NULL},
	{VLLM, "embed", WTAG_LONG_INPUT, "truncate", RSHAPE_EMBEDDINGS, "/embeddings",
	 "{\"model\":\"Q/3\",\"input\":[\"x\"],\"encoding_format\":\"base64\","
	 "\"truncate_prompt_tokens\":-1}"},
	{VLLM, "embed", WTAG_LONG_INPUT, "error", RSHAPE_EMBEDDINGS, "/embeddings",
	 "{\"model\":\"Q/3\",\"input\":[\"x\"],\"encoding_format\":\"base64\"}"},
	{OPENAI, "embed", WTAG_LONG_INPUT, "error", RSHAPE_EMBEDDINGS, "/embeddings",
	 "{\"model\":\"Q/3\",\"input\":[\"x\"],\"encoding_format\":\"base64\"}"},
	{VLLM, "embed", WTAG_LONG_INPUT, "chunk", 0, "parameter \"long_input\"", NULL},
	{OPENAI, "embed", WTAG_LONG_INPUT, "truncate", 0, "parameter \"long_input\"", NULL},
	{VLLM, "embed", WTAG_TRUNCATE_TOKENS, "9", RSHAPE_EMBEDDINGS, "/embeddings",
	 "{\"model\":\"Q/3\",\"input\":[\"x\"],\"encoding_format\":\"base64\",\"truncate_prompt_tokens\":9}"},
	{OPENAI, "embed", WTAG_TRUNCATE_TOKENS, "9", 0, "parameter \"truncate\"", NULL},
	{VLLM, "embed", WTAG_ADD_SPECIAL, "0", RSHAPE_EMBEDDINGS, "/embeddings",
	 "{\"model\":\"Q/3\",\"input\":[\"x\"],\"encoding_format\":\"base64\",\"add_special_tokens\":false}"},
	{OPENAI, "embed", WTAG_ADD_SPECIAL, "0", 0, "parameter \"add_special_tokens\"", NULL},
	{OPENAI, "embed", WTAG_MAX_TOKENS, "9", 0, "parameter \"max_tokens\"", NULL},
	{VLLM, "classify", WTAG_WANT_LABELS, "1", RSHAPE_CLASSIFY, "/classify",
	 "{\"model\":\"Q/3\",\"input\":[\"x\"]}"},
	{VLLM, "token_embed", 0, "", RSHAPE_POOLING, "/pooling",
	 "{\"model\":\"Q/3\",\"input\":[\"x\"],\"task\":\"token_embed\",\"encoding_format\":\"float\"}"},
	{VLLM, "token_classify", 0, "", RSHAPE_POOLING, "/pooling",
	 "{\"model\":\"Q/3\",\"input\":[\"x\"],\"task\":\"token_classify\",\"encoding_format\":\"float\"}"},
	{VLLM, "token_classify", WTAG_WANT_IDS, "1", 0, "tokens of the input", NULL},
	{VLLM, "reward", 0, "", RSHAPE_POOLING, "/pooling",
	 "{\"model\":\"Q/3\",\"input\":[\"x\"],\"encoding_format\":\"float\"}"},
	{VLLM, "reward", WTAG_STEP_TAG_ID, "5", 0, "parameter \"step_tag_id\"", NULL},
	{VLLM, "reward", WTAG_RETURNED_TOKEN_IDS, "5", 0, "parameter \"returned_token_ids\"", NULL},
	{OPENAI, "classify", 0, "", 0, "task \"classify\"", NULL},
	{LLAMA, "token_embed", 0, "", 0, "task \"token_embed\"", NULL},
	{OPENAI, "score", WTAG_PAIR, "y", 0, "task \"score\"", NULL},
	{VLLM, "score", WTAG_PAIR, "y", RSHAPE_SCORE, "/score",
	 "{\"model\":\"Q/3\",\"text_1\":\"x\",\"text_2\":\"y\"}"},
	{LLAMA, "score", WTAG_PAIR, "y", RSHAPE_RERANK, "/rerank",
	 "{\"model\":\"Q/3\",\"query\":\"x\",\"documents\":[\"y\"]}"}
};

static void
test_pool(void)
{
	for (size_t i = 0; i < sizeof(pool_cases) / sizeof(pool_cases[0]); i++)
	{
		Buf			b = {0};
		Made		m;
		char		what[100];

		snprintf(what, sizeof(what), "%s %s %s=%s", dialects[pool_cases[i].dialect], pool_cases[i].task,
				 pool_cases[i].tag ? wire_tag_name(pool_cases[i].tag) : "", pool_cases[i].value);
		put_pool(&b, pool_cases[i].task, "x");
		if (pool_cases[i].tag)
			put_any(&b, pool_cases[i].tag, pool_cases[i].value);
		make(&m, WK_POOL, pool_cases[i].dialect, "", &b);
		if (pool_cases[i].body == NULL)
		{
			check_refused(&m, what, ERR_UNSUPPORTED, pool_cases[i].path);
			continue;
		}
		check_call(&m, what, pool_cases[i].shape, pool_cases[i].path, pool_cases[i].body);
		CHECK(m.ok && m.calls.v[0].off_v1 == (pool_cases[i].shape == RSHAPE_CLASSIFY ||
											  pool_cases[i].shape == RSHAPE_POOLING), "%s", what);
		done(&m);
	}
}

static void
test_pairs(void)
{
	Buf			b = {0};
	Made		m;

	/* llm_similarity */
	put_pool(&b, "score", "x");
	put(&b, WTAG_PAIR, "y");
	put_int(&b, WTAG_ALIKE, 1);
	make(&m, WK_POOL, VLLM, "", &b);
	check_call(&m, "alike", RSHAPE_SCORE, "/score", "{\"model\":\"Q/3\",\"text_1\":\"x\",\"text_2\":\"y\"}");
	done(&m);
	put_pool(&b, "score", "x");
	put(&b, WTAG_PAIR, "y");
	put_int(&b, WTAG_ALIKE, 1);
	make(&m, WK_POOL, LLAMA, "", &b);
	check_refused(&m, "alike", ERR_UNSUPPORTED, "llm_similarity()");
	put_pool(&b, "score", "x");
	put(&b, WTAG_PAIR, "y");
	put(&b, WTAG_INSTRUCTION, "z");
	make(&m, WK_POOL, VLLM, "", &b);
	check_call(&m, "an instruction", RSHAPE_SCORE, "/score",
			   "{\"model\":\"Q/3\",\"text_1\":\"x\",\"text_2\":\"y\",\"instruction\":\"z\"}");
	done(&m);
	put_pool(&b, "score", "x");
	put(&b, WTAG_PAIR, "y");
	put(&b, WTAG_INSTRUCTION, "z");
	make(&m, WK_POOL, LLAMA, "", &b);
	check_refused(&m, "an instruction", ERR_UNSUPPORTED, "parameter \"instruction\"");
	put_pool(&b, "score", "x");
	make(&m, WK_POOL, VLLM, "", &b);
	check_refused(&m, "half a pair", ERR_INTERNAL, "second text");
	put_pool(&b, "embed", "\xff");
	make(&m, WK_POOL, VLLM, "", &b);
	check_refused(&m, "no UTF-8", ERR_INVALID, "input must be UTF-8");
}

/* ---- coalescing ---- */

/* Two requests that differ in one field. */
static void
check_coalesce(const char *what, WireTag tag, const char *one, const char *other, bool same)
{
	Buf			b = {0};
	Made		m = {0};

	put_pool(&b, "embed", "x");
	if (one != NULL)
		put_any(&b, tag, one);
	read_one(&m, WK_POOL, VLLM, "", &b);
	buf_free(&b);
	put_pool(&b, "embed", "yy");
	if (other != NULL)
		put_any(&b, tag, other);
	read_one(&m, WK_POOL, VLLM, "", &b);
	buf_free(&b);
	CHECK(body_same(&m.a[0], &m.a[1]) == same && body_same(&m.a[1], &m.a[0]) == same, "%s", what);
	CHECK(body_same(&m.a[0], &m.a[0]), "%s: itself", what);
	make_them(&m);
	if (same)
		CHECK(m.ok && m.calls.n == 1 && m.calls.v[0].n_requests == 2 &&
			  strstr(m.calls.v[0].body.data, "\"input\":[\"x\",\"yy\"]") != NULL, "%s: both", what);
	done(&m);
}

static void
test_coalesce(void)
{
	Buf			b = {0};
	Made		m;

	check_coalesce("nothing", 0, NULL, NULL, true);
	check_coalesce("sessions", WTAG_SESSION, "1", "2", true);
	check_coalesce("notes", WTAG_NOTE, "1", NULL, true);
	check_coalesce("traces", WTAG_TRACEPARENT, "a", "b", true);
	check_coalesce("roles", WTAG_ROLE, "1", "2", false);
	check_coalesce("logins", WTAG_LOGIN, "1", "2", false);
	check_coalesce("databases", WTAG_DATABASE, "1", "2", false);
	check_coalesce("secrets", WTAG_SECRET, "1", "2", false);
	check_coalesce("one secret more", WTAG_SECRET, "1", NULL, false);
	check_coalesce("urls", WTAG_URL, "http://x", "http://y", false);
	check_coalesce("models", WTAG_MODEL, "a", "b", false);
	check_coalesce("adapters", WTAG_LORA, "a", "b", false);
	check_coalesce("dimensions", WTAG_DIMENSIONS, "8", "9", false);
	check_coalesce("columns", WTAG_RETURNED_TOKEN_IDS, "8,9", "8,10", false);
	check_coalesce("instructions", WTAG_INSTRUCTION, "a", "b", false);

	put_pool(&b, "embed", "x");
	make(&m, WK_POOL, VLLM, ", \"max_batch_inputs\": 1", &b);
	CHECK(!body_can_join(&m.a[0], m.o), "one each");
	done(&m);
	put_pool(&b, "embed", "x");
	make(&m, WK_POOL, VLLM, "", &b);
	CHECK(body_can_join(&m.a[0], m.o), "many");
	done(&m);
	/* 64 of them would be more than 64 MiB */
	{
		char	   *text = mem_alloc((1 << 20) + 2);

		for (int more = 0; more < 2; more++)
		{
			memset(text, 'x', (1 << 20) + 1);
			text[(1 << 20) + more] = '\0';
			put_pool(&b, "embed", text);
			make(&m, WK_POOL, VLLM, "", &b);
			CHECK(body_can_join(&m.a[0], m.o) == (more == 0) && m.ok, "%d more", more);
			done(&m);
		}
		for (int i = 0; i < 65; i++)
			put(&b, WTAG_CHOICE, "y");
		put(&b, WTAG_PROMPT, text);
		make(&m, WK_LOGPROBS, VLLM, "", &b);
		check_refused(&m, "65 choices", ERR_TOO_LONG, "too long for 65 choices");
		mem_free(text);
	}
	put(&b, WTAG_PROMPT, "x");
	put_int(&b, WTAG_MAX_TOKENS, 1);
	make(&m, WK_GENERATE, VLLM, "", &b);
	CHECK(!body_can_join(&m.a[0], m.o), "an answer each");
	done(&m);
}

/* Pairs are coalesced if their first text is the same. */
static void
test_coalesce_pairs(void)
{
	static const char *const queries[] = {"q", "q", "r"};
	static const char *const documents[] = {"a", "b", "c"};

	for (int d = VLLM; d <= LLAMA; d++)
	{
		Made		m = {0};

		for (int i = 0; i < 3; i++)
		{
			Buf			b = {0};

			put_pool(&b, "score", queries[i]);
			put(&b, WTAG_PAIR, documents[i]);
			read_one(&m, WK_POOL, d, "", &b);
			buf_free(&b);
		}
		CHECK(body_same(&m.a[0], &m.a[1]) && !body_same(&m.a[0], &m.a[2]), "the same query");
		request_fields_free(&m.a[2]);
		m.n = 2;
		make_them(&m);
		CHECK(m.ok && m.calls.n == 1 && m.calls.v[0].n_requests == 2, "two");
		CHECK(same_json(m.calls.v[0].body.data,
						d == VLLM ? "{\"model\":\"Q/3\",\"text_1\":\"q\",\"text_2\":[\"a\",\"b\"]}" :
						"{\"model\":\"Q/3\",\"query\":\"q\",\"documents\":[\"a\",\"b\"]}"), "%s",
						m.calls.v[0].body.data);
		done(&m);
	}
}

/* ---- log-probabilities of choices ---- */

static void
test_choose(void)
{
	Buf			b = {0};
	Made		m;

	put(&b, WTAG_PROMPT, "p ");
	put(&b, WTAG_CHOICE, "yes");
	put(&b, WTAG_CHOICE, "no");
	put(&b, WTAG_NOTE, "sum");
	put(&b, WTAG_MESSAGES, "[1]");
	put_int(&b, WTAG_GENERATION_PROMPT, 1);
	make(&m, WK_LOGPROBS, VLLM, "", &b);
	CHECK(m.ok && m.calls.n == 2, "%s", m.e.msg);
	for (int i = 0; m.ok && i < 2; i++)
	{
		CHECK(m.calls.v[i].shape == RSHAPE_LOGPROBS && m.calls.v[i].part == i &&
			  strcmp(m.calls.v[i].path, "/completions") == 0, "call %d", i);
		CHECK(same_json(m.calls.v[i].body.data,
						i == 0 ? "{\"model\":\"Q/3\",\"prompt\":\"p "
								 "yes\",\"logprobs\":1,\"echo\":true,\"max_tokens\":0,\"temperature\":0}" :
						"{\"model\":\"Q/3\",\"prompt\":\"p "
						"no\",\"logprobs\":1,\"echo\":true,\"max_tokens\":0,\"temperature\":0}"), "%s",
						m.calls.v[i].body.data);
	}
	done(&m);
	put(&b, WTAG_PROMPT, "text");
	make(&m, WK_LOGPROBS, PYTHON, "", &b);
	check_call(&m, "the prompt's own", RSHAPE_LOGPROBS, "/completions",
			   "{\"model\":\"Q/3\",\"prompt\":\"text\",\"logprobs\":1,\"echo\":true,\"max_tokens\":1,"
			   "\"temperature\":0}");
	done(&m);
	for (int d = 0; d < N_DIALECTS; d++)
	{
		put(&b, WTAG_PROMPT, "p");
		put(&b, WTAG_CHOICE, "yes");
		make(&m, WK_LOGPROBS, d, "", &b);
		if (d == VLLM || d == PYTHON)
		{
			CHECK(m.ok, "%s", m.e.msg);
			done(&m);
		}
		else
			check_refused(&m, dialects[d], ERR_UNSUPPORTED, "log-probabilities of given texts");
	}
}

/* Texts that follow a chat, and errors. */
static void
test_choose_chat(void)
{
	Buf			b = {0};
	Made		m;

	for (int i = 0; i < 2; i++)
	{
		put(&b, WTAG_MESSAGES, i == 0 ? " [ ] " : "[{\"role\":\"user\",\"content\":\"]\"} ]\n");
		put(&b, WTAG_CHOICE, "a");
		put(&b, WTAG_CHOICE, "b\"");
		put_int(&b, WTAG_GENERATION_PROMPT, 1);
		make(&m, WK_LOGPROBS, VLLM, "", &b);
		CHECK(m.ok && m.calls.n == 2, "%s", m.e.msg);
		CHECK(m.ok && m.calls.v[1].part == 1 && strcmp(m.calls.v[1].path, "/chat/completions") == 0 &&
			  m.calls.v[1].shape == RSHAPE_LOGPROBS, "a chat");
		CHECK(m.ok && same_json(m.calls.v[1].body.data, i == 0 ?
								"{\"model\":\"Q/3\",\"messages\":[{\"role\":\"assistant\","
								"\"content\":\"b\\\"\"}],\"add_generation_prompt\":false,"
								"\"continue_final_message\":true,\"prompt_logprobs\":1,\"max_tokens\":1,"
								"\"temperature\":0}" :
								"{\"model\":\"Q/3\",\"messages\":[{\"role\":\"user\",\"content\":\"]\"},"
								"{\"role\":\"assistant\",\"content\":\"b\\\"\"}],"
								"\"add_generation_prompt\":false,\"continue_final_message\":true,"
								"\"prompt_logprobs\":1,\"max_tokens\":1,\"temperature\":0}"),
			  "%s", m.ok ? m.calls.v[1].body.data : "");
		done(&m);
	}
	put(&b, WTAG_MESSAGES, "[]]");
	put(&b, WTAG_CHOICE, "a");
	make(&m, WK_LOGPROBS, VLLM, "", &b);
	check_refused(&m, "no messages", ERR_INVALID, "messages must be a JSON array");
	put(&b, WTAG_MESSAGES, "[1]");
	put(&b, WTAG_CHOICE, "yes");
	make(&m, WK_LOGPROBS, PYTHON, "", &b);
	check_refused(&m, "a chat", ERR_UNSUPPORTED, "after a chat");
	put(&b, WTAG_PROMPT, "a\xe2");
	put(&b, WTAG_CHOICE, "\x82\xac");
	make(&m, WK_LOGPROBS, VLLM, "", &b);
	CHECK(m.ok, "a character of both");	/* only together they are UTF-8 */
	done(&m);
	put(&b, WTAG_PROMPT, "p");
	put(&b, WTAG_CHOICE, "a");
	put(&b, WTAG_CHOICE, "\xff");
	make(&m, WK_LOGPROBS, VLLM, "", &b);
	check_refused(&m, "a choice", ERR_INVALID, "UTF-8");
}

/* ---- tokens, models, adapters ---- */

static void
test_tokens(void)
{
	static const int32_t ids[] = {1, 2};
	static const char *const bodies[N_DIALECTS] = {
		NULL, "{\"model\":\"Q/3\",\"prompt\":\"x\"}",
		"{\"model\":\"Q/3\",\"content\":\"x\",\"add_special\":true}", "{\"model\":\"Q/3\",\"input\":\"x\"}"
	};
	static const char *const bare[N_DIALECTS] = {
		NULL, "{\"model\":\"Q/3\",\"prompt\":\"x\",\"add_special_tokens\":false}",
		"{\"model\":\"Q/3\",\"content\":\"x\",\"add_special\":false}", NULL
	};
	static const char *const paths[N_DIALECTS] = {NULL, "/tokenize", "/tokenize", "/extras/tokenize"};

	for (int d = 0; d < N_DIALECTS; d++)
	{
		Buf			b = {0};
		Made		m;
		WireOut		o;

		for (int special = 0; special < 2; special++)
		{
			const char *body = special ? bodies[d] : bare[d];

			put(&b, WTAG_PROMPT, "x");
			put_int(&b, WTAG_ADD_SPECIAL, special);
			put_int(&b, WTAG_WANT_IDS, special);
			make(&m, WK_TOKENIZE, d, "", &b);
			if (body == NULL)
			{
				check_refused(&m, dialects[d], ERR_UNSUPPORTED,
							  d == OPENAI ? "does not tokenize" : "parameter \"add_special_tokens\"");
				continue;
			}
			check_call(&m, dialects[d], RSHAPE_TOKENIZE, paths[d], body);
			CHECK(m.ok && m.calls.v[0].off_v1, "%s", dialects[d]);
			done(&m);
		}
		for (int skip = 0; skip < 2; skip++)
		{
			o = out_of(&b);
			wire_put_ints(&o, WTAG_PROMPT_IDS, ids, 2);
			put_int(&b, WTAG_SKIP_SPECIAL, skip);
			make(&m, WK_DETOKENIZE, d, "", &b);
			if (d == OPENAI || skip)
			{
				check_refused(&m, dialects[d], ERR_UNSUPPORTED,
							  d == OPENAI ? "does not tokenize" : "parameter \"skip_special_tokens\"");
				continue;
			}
			check_call(&m, dialects[d], RSHAPE_DETOKENIZE, d == PYTHON ? "/extras/detokenize" : "/detokenize",
					   "{\"model\":\"Q/3\",\"tokens\":[1,2]}");
			done(&m);
		}
		put(&b, WTAG_MESSAGES, "[1]");
		put_int(&b, WTAG_GENERATION_PROMPT, 0);
		put_int(&b, WTAG_CONTINUE_FINAL, 1);
		make(&m, WK_TOKENIZE, d, "", &b);
		if (d == VLLM)
		{
			check_call(&m, "a chat", RSHAPE_TOKENIZE, "/tokenize",
					   "{\"model\":\"Q/3\",\"messages\":[1],\"add_generation_prompt\":false,"
					   "\"continue_final_message\":true}");
			done(&m);
		}
		else
			check_refused(&m, dialects[d], ERR_UNSUPPORTED, "tokenize");
	}
}

static void
test_others(void)
{
	static const WireKind kinds[] = {WK_CHAT_RENDER, WK_CHUNK, WK_MODEL_INSPECT, WK_GRAMMAR, WK_PARSE,
									 WK_LORA_LOAD, WK_LORA_LIST, WK_MODEL_DIGEST};
	Buf			b = {0};
	Made		m;

	for (int i = 0; i < 2; i++)
	{
		make(&m, i == 0 ? WK_MODEL_CHECK : WK_MODEL_LOAD, OPENAI, "", &b);
		CHECK(m.ok && m.calls.n == 1 && m.calls.v[0].get && m.calls.v[0].shape == RSHAPE_MODELS &&
			  strcmp(m.calls.v[0].path, "/models") == 0 && m.calls.v[0].body.len == 0, "models");
		done(&m);
	}
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
	{
		put(&b, WTAG_PROMPT, "x");
		make(&m, kinds[i], VLLM, "", &b);
		check_refused(&m, "a kind", ERR_UNSUPPORTED, "model \"big\"");
	}
	put(&b, WTAG_MESSAGES, "[]");
	put(&b, WTAG_LORA, "y");
	make(&m, WK_GENERATE, VLLM, ", \"lora_modules\": [\"x\", \"y\"]", &b);
	check_call(&m, "an adapter", RSHAPE_CHAT, "/chat/completions", "{\"model\":\"y\",\"messages\":[]}");
	done(&m);
	put(&b, WTAG_MESSAGES, "[]");
	put(&b, WTAG_LORA, "z");
	make(&m, WK_GENERATE, VLLM, ", \"lora_modules\": [\"x\", \"y\"]", &b);
	CHECK(strstr(m.e.hint, "x, y") != NULL, "%s", m.e.hint);
	check_refused(&m, "an adapter", ERR_NOT_FOUND, "has no adapter \"z\"");
}

/* ---- bodies of llm_api() ---- */

static void
test_api(void)
{
	static const struct
	{
		int			dialect;
		const char *path;
		const char *body;
		bool		stream;
		const char *at;			/* NULL: refused */
		const char *want;
	}			cases[] = {
		{OPENAI, "/v1/chat/completions", "{\"model\": \"big\", \"messages\": [1], \"x\": {\"model\": 1}}",
		 false, "/chat/completions", "{\"messages\":[1],\"x\":{\"model\":1},\"model\":\"Q/3\"}"},
		{OPENAI, "/v1/chat/completions", "{\"stream\": true, \"stream_options\": {\"include_usage\": false}}",
		 false, "/chat/completions", "{\"model\":\"Q/3\"}"},
		{OPENAI, "/v1/chat/completions", "{\"stream\": false}", true, "/chat/completions",
		 "{\"model\":\"Q/3\",\"stream\":true,\"stream_options\":{\"include_usage\":true}}"},
		{OPENAI, "/v1/completions", "{\"stream_options\": {\"include_usage\": false}}", true, "/completions",
		 "{\"model\":\"Q/3\",\"stream\":true,\"stream_options\":{\"include_usage\":false}}"},
		{OPENAI, "/v1/responses", "{\"input\": \"x\"}", true, "/responses",
		 "{\"model\":\"Q/3\",\"input\":\"x\",\"stream\":true}"},
		{OPENAI, "/v1/embeddings", "{\"input\": \"x\"}", true, "/embeddings",
		 "{\"model\":\"Q/3\",\"input\":\"x\"}"},
		{VLLM, "/score", "{}", false, "/score", "{\"model\":\"Q/3\"}"},
		{VLLM, "/v1/tokenize", "{}", false, "/tokenize", "{\"model\":\"Q/3\"}"},
		{VLLM, "/pooling", "{}", false, "/pooling", "{\"model\":\"Q/3\"}"},
		{OPENAI, "/tokenize", "{}", false, NULL, ""}, {LLAMA, "/v1/responses", "{}", false, NULL, ""},
		{VLLM, "/v1/models", "{}", false, NULL, ""},
		{VLLM, "/v1/../admin", "{}", false, NULL, ""}
	};
	static const char *const evil[] = {
		"[]", "", "{", "{} {}", "{\"a\": 1}}", "{\"m\\u006fdel\": \"other\"}", "\"x\"", "{\"a\": \"\xff\"}",
		"{\"a\": 1, \"model\": \"x\", }"
	};
	Buf			b = {0};
	Made		m;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		put(&b, WTAG_API_PATH, cases[i].path);
		put(&b, WTAG_API_BODY, cases[i].body);
		put_int(&b, WTAG_STREAM, cases[i].stream);
		make(&m, WK_API, cases[i].dialect, "", &b);
		if (cases[i].at == NULL)
		{
			check_refused(&m, cases[i].path, ERR_UNSUPPORTED, cases[i].path);
			continue;
		}
		check_call(&m, cases[i].path, RSHAPE_API, cases[i].at, cases[i].want);
		CHECK(m.calls.v[0].stream == (strstr(cases[i].want, "\"stream\":true") != NULL), "%s", cases[i].path);
		CHECK(m.calls.v[0].off_v1 == (strstr(cases[i].path, "tokenize") != NULL ||
									  strstr(cases[i].path, "pooling") != NULL), "%s", cases[i].path);
		done(&m);
	}
	for (size_t i = 0; i < sizeof(evil) / sizeof(evil[0]); i++)
	{
		put(&b, WTAG_API_PATH, "/v1/completions");
		put(&b, WTAG_API_BODY, evil[i]);
		make(&m, WK_API, VLLM, "", &b);
		check_refused(&m, evil[i], ERR_INVALID, "");
	}
	/* copied as they are written */
	put(&b, WTAG_API_PATH, "/v1/completions");
	put(&b, WTAG_API_BODY, "{\"z\": 1.00000000000000000001, \"a\": [ 1 ]}");
	make(&m, WK_API, VLLM, "", &b);
	CHECK(m.ok && strstr(m.calls.v[0].body.data, "\"z\":1.00000000000000000001,\"a\":[ 1 ]") != NULL,
		  "as it is");
	done(&m);
	put(&b, WTAG_API_PATH, "/v1/completions");
	put(&b, WTAG_API_BODY, "{\"model\": \"y\"}");
	put(&b, WTAG_LORA, "y");
	make(&m, WK_API, VLLM, ", \"lora_modules\": \"y\"", &b);
	check_call(&m, "an adapter", RSHAPE_API, "/completions", "{\"model\":\"y\"}");
	done(&m);
}

/* ---- limit of a role's output tokens ---- */

static void
test_role(void)
{
	static const struct
	{
		const char *path;
		const char *body;
		const char *want;		/* NULL: refused */
	}			cases[] = {
		{"/v1/chat/completions", "{}", "{\"model\":\"Q/3\",\"max_completion_tokens\":50}"},
		{"/v1/chat/completions", "{\"max_tokens\": null}",
		 "{\"model\":\"Q/3\",\"max_tokens\":null,\"max_completion_tokens\":50}"},
		{"/v1/chat/completions", "{\"max_tokens\": 50}", "{\"model\":\"Q/3\",\"max_tokens\":50}"},
		{"/v1/chat/completions", "{\"max_tokens\": 51}", NULL},
		{"/v1/chat/completions", "{\"max_completion_tokens\": 1e2}", NULL},
		{"/v1/completions", "{}", "{\"model\":\"Q/3\"}"},
		{"/v1/completions", "{\"max_tokens\": 99999999999999999999}", NULL},
		{"/v1/responses", "{}", "{\"model\":\"Q/3\",\"max_output_tokens\":50}"},
		{"/v1/responses", "{\"max_output_tokens\": 60}", NULL},
		{"/v1/embeddings", "{}", "{\"model\":\"Q/3\"}"}
	};
	Buf			b = {0};
	Made		m;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		put_int(&b, WTAG_ROLE_MAX_TOKENS, 50);
		put(&b, WTAG_API_PATH, cases[i].path);
		put(&b, WTAG_API_BODY, cases[i].body);
		make(&m, WK_API, OPENAI, "", &b);
		if (cases[i].want == NULL)
		{
			check_refused(&m, cases[i].body, ERR_INVALID, "max_tokens must be at most 50 for this role");
			continue;
		}
		CHECK(m.ok && same_json(m.calls.v[0].body.data, cases[i].want), "%s: %s", cases[i].path,
			  m.ok ? m.calls.v[0].body.data : m.e.msg);
		done(&m);
	}
	for (int d = 0; d < N_DIALECTS; d++)
	{
		put_int(&b, WTAG_ROLE_MAX_TOKENS, 50);
		put(&b, WTAG_MESSAGES, "[1]");
		make(&m, WK_GENERATE, d, "", &b);
		CHECK(m.ok &&
			  strstr(m.calls.v[0].body.data,
					 d == OPENAI ? "\"max_completion_tokens\":50" : "\"max_tokens\":50") != NULL, "a chat");
		done(&m);
		put_int(&b, WTAG_ROLE_MAX_TOKENS, 50);
		put(&b, WTAG_PROMPT, "x");
		make(&m, WK_GENERATE, d, "", &b);
		CHECK(m.ok && strstr(m.calls.v[0].body.data, "\"max_tokens\":50") != NULL, "a prompt");
		done(&m);
		put_int(&b, WTAG_ROLE_MAX_TOKENS, 50);
		put(&b, WTAG_PROMPT, "x");
		make(&m, WK_GENERATE, d, ", \"max_model_len\": 30", &b);
		CHECK(m.ok && strstr(m.calls.v[0].body.data, "\"max_tokens\":21") != NULL, "less is left");
		done(&m);
		put_int(&b, WTAG_ROLE_MAX_TOKENS, 50);
		put(&b, WTAG_PROMPT, "x");
		put_int(&b, WTAG_MAX_TOKENS, 51);
		make(&m, WK_GENERATE, d, "", &b);
		check_refused(&m, "too long", ERR_INVALID, "max_tokens must be at most 50 for this role, got 51");
	}
}

int
main(void)
{
	RUN(test_pool());
	RUN(test_pairs());
	RUN(test_coalesce());
	RUN(test_coalesce_pairs());
	RUN(test_choose());
	RUN(test_choose_chat());
	RUN(test_tokens());
	RUN(test_others());
	RUN(test_api());
	RUN(test_role());
	roptions_forget();
	return check_done("test_remote_body_more");
}
