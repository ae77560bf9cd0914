/*
 * test_remote_options.c
 *	  The fields of requests as the remote program reads them, and the options of remote models.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/alloc.h"
#include "remote/codec/dialect.h"
#include "remote/codec/endpoint_options.h"
#include "tests/unit/check.h"

/* ---- messages ---- */

static void
append(void *ctx, const void *data, size_t n)
{
	buf_add(ctx, data, n);
}

static WireOut
out_of(Buf *b)
{
	return (WireOut) {append, b};
}

static void
put(Buf *b, WireTag tag, const char *s)
{
	WireOut		o = out_of(b);

	wire_put_str(&o, tag, s, strlen(s));
}

static void
put_int(Buf *b, WireTag tag, int64_t v)
{
	WireOut		o = out_of(b);

	wire_put_int(&o, tag, v);
}

static void
put_head(Buf *b, const char *options)
{
	put(b, WTAG_MODEL, "big");
	put(b, WTAG_URL, "https://a.example/v1");
	put(b, WTAG_MODEL_OPTIONS, options);
}

/* Read a message in a buffer of exactly its size, so that ASan finds reads beyond it. */
static bool
read_request(RequestFields *a, WireKind kind, Buf *b, Err *e)
{
	char	   *copy = mem_alloc(b->len > 0 ? b->len : 1);
	size_t		n = b->len;

	if (n > 0)
		memcpy(copy, b->data, n);
	buf_free(b);
	e->cls = ERR_NONE;
	return request_fields_read(a, kind, copy, n, e);
}

static bool
span_is(StrView s, const char *want)
{
	return s.s != NULL && s.n == strlen(want) && memcmp(s.s, want, s.n) == 0;
}

static void
test_read(void)
{
	Buf			b = {0};
	RequestFields a;
	Err			e;
	WireOut		o;
	const int32_t ids[] = {1, 2, 3};

	put_head(&b, "{\"model\": \"x\"}");
	put(&b, WTAG_URL, "https://b.example/v1/");
	put(&b, WTAG_SECRET, "sk-1");
	put_int(&b, WTAG_DATABASE, 5);
	put_int(&b, WTAG_ROLE, 10);
	put_int(&b, WTAG_LOGIN, 11);
	put_int(&b, WTAG_PRIORITY, -3);
	put_int(&b, WTAG_BACKGROUND, 1);
	put(&b, WTAG_PROMPT, "first");
	put(&b, WTAG_PROMPT, "second");
	put_int(&b, WTAG_MAX_TOKENS, 7);
	put_int(&b, WTAG_N, 4);
	put_int(&b, WTAG_LOGPROBS, 0);
	put_int(&b, WTAG_PROMPT_LOGPROBS, -1);
	put_int(&b, WTAG_SEED, -1);
	put_int(&b, WTAG_STREAM, 1);
	o = out_of(&b);
	wire_put_num(&o, WTAG_TEMPERATURE, 0.5);
	CHECK(read_request(&a, WK_GENERATE, &b, &e), "%s", e.msg);
	CHECK(span_is(a.model, "big") && span_is(a.secret, "sk-1"), "model, secret");
	CHECK(a.n_urls == 2 && span_is(a.urls[0], "https://a.example/v1") &&
		  span_is(a.urls[1], "https://b.example/v1/"), "urls");
	CHECK(a.model_hash == wire_model_hash("https://a.example/v1", "{\"model\": \"x\"}"), "hash");
	CHECK(a.dboid == 5 && a.login == 11 && a.priority == -3 && a.background, "who");
	CHECK(span_is(a.prompt, "second"), "the last counts");
	CHECK(a.max_tokens == 7 && a.n == 4 && a.logprobs == 0 && a.prompt_logprobs == -1, "numbers");
	CHECK(!a.has_seed && a.temperature == 0.5 && !a.idempotent && a.stream && !a.want_ids,
		  "neither seed nor temperature 0");
	request_fields_free(&a);

	put_head(&b, "");
	put(&b, WTAG_PROMPT, "x");
	put_int(&b, WTAG_ROLE, 10);
	put_int(&b, WTAG_SEED, 7);
	CHECK(read_request(&a, WK_GENERATE, &b, &e), "%s", e.msg);
	CHECK(a.login == 10 && a.has_seed && a.idempotent && isnan(a.temperature), "role, seed");
	CHECK(a.max_tokens == -1 && a.n == 1 && a.logprobs == -2 && a.prompt_logprobs == -2, "absent");
	request_fields_free(&a);

	put_head(&b, "");
	put_int(&b, WTAG_LOGIN, 11);
	put_int(&b, WTAG_ROLE, 10);
	o = out_of(&b);
	wire_put_ints(&o, WTAG_PROMPT_IDS, ids, 3);
	CHECK(read_request(&a, WK_DETOKENIZE, &b, &e), "%s", e.msg);
	CHECK(a.login == 11 && a.prompt_ids.n == 3 && a.prompt.s == NULL && a.idempotent, "ids");
	request_fields_free(&a);

	/* identity fields, although there is no url */
	put(&b, WTAG_URL, "");
	put(&b, WTAG_MODEL, "");
	CHECK(read_request(&a, WK_MODEL_FORGET, &b, &e), "%s", e.msg);
	CHECK(a.n_urls == 0 && a.model_hash == 0, "no url");
	request_fields_free(&a);
}

static void
test_idempotent(void)
{
	static const struct
	{
		const char *path;
		bool		want;
	}			paths[] = {
		{"/v1/embeddings", true}, {"/score", true}, {"/v1/rerank", true}, {"/tokenize", true},
		{"/v1/completions", false},
		{"/v1/chat/completions", false}, {"/v1/responses", false}, {"/v1/embeddings/x", false},
		{"score", false}
	};
	Buf			b = {0};
	RequestFields a;
	Err			e;
	WireOut		o;

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
	{
		put_head(&b, "");
		put(&b, WTAG_API_PATH, paths[i].path);
		put(&b, WTAG_API_BODY, "{}");
		CHECK(read_request(&a, WK_API, &b, &e) && a.idempotent == paths[i].want, "%s", paths[i].path);
		request_fields_free(&a);
	}
	put_head(&b, "");
	put(&b, WTAG_PROMPT, "x");
	o = out_of(&b);
	wire_put_num(&o, WTAG_TEMPERATURE, 0);
	CHECK(read_request(&a, WK_GENERATE, &b, &e) && a.idempotent, "temperature 0");
	request_fields_free(&a);
}

/* A message with an additional or wrong field. */
static void
refused(const char *what, WireKind kind, Buf *b, ErrClass cls)
{
	RequestFields a;
	Err			e;

	if (read_request(&a, kind, b, &e))
	{
		CHECK(false, "%s is taken", what);
		request_fields_free(&a);
		return;
	}
	CHECK(e.cls == cls && e.msg[0] != '\0', "%s: %d %s", what, e.cls, e.msg);
	CHECK(a.fields == NULL && a.urls == NULL, "%s: nothing is left", what);
}

static void
test_hostile(void)
{
	Buf			b = {0};
	WireOut		o;
	char	   *long_url = mem_alloc(3000);
	Buf			whole = {0};

	memset(long_url, 'a', 2999);
	long_url[2999] = '\0';
	put(&b, WTAG_MODEL, "big");
	put(&b, WTAG_PROMPT, "x");
	refused("no url", WK_GENERATE, &b, ERR_INTERNAL);
	put(&b, WTAG_URL, "https://a");
	put(&b, WTAG_PROMPT, "x");
	refused("no model", WK_GENERATE, &b, ERR_INTERNAL);
	put_head(&b, "");
	refused("no prompt", WK_GENERATE, &b, ERR_INTERNAL);
	put_head(&b, "");
	put(&b, WTAG_PROMPT, "");
	refused("an empty prompt", WK_GENERATE, &b, ERR_INVALID);
	put_head(&b, "");
	put(&b, WTAG_PROMPT, "x");
	refused("no task", WK_POOL, &b, ERR_INTERNAL);
	put_head(&b, "");
	put(&b, WTAG_API_PATH, "/v1/models");
	refused("no body", WK_API, &b, ERR_INTERNAL);
	refused("no command", WK_CONTROL, &b, ERR_INTERNAL);
	put_head(&b, "");
	put(&b, WTAG_PROMPT, "x");
	put(&b, WTAG_SECRET, "sk\r\nHost: evil");
	refused("a secret with a line end", WK_GENERATE, &b, ERR_INVALID);
	put_head(&b, "");
	put(&b, WTAG_PROMPT, "x");
	put(&b, WTAG_URL, "https://a\n/");
	refused("a url with a line end", WK_GENERATE, &b, ERR_INVALID);
	put_head(&b, "");
	put(&b, WTAG_PROMPT, "x");
	put(&b, WTAG_URL, long_url);
	refused("a long url", WK_GENERATE, &b, ERR_INVALID);
	put_head(&b, "");
	put(&b, WTAG_PROMPT, "x");
	for (int i = 0; i < 64; i++)
		put(&b, WTAG_URL, "https://a");
	refused("many urls", WK_GENERATE, &b, ERR_INVALID);
	put_head(&b, "");
	put(&b, WTAG_PROMPT, "x");
	o = out_of(&b);
	wire_put_str(&o, WTAG_MODEL, "a\0b", 3);
	refused("a name with NUL", WK_GENERATE, &b, ERR_INVALID);
	put_head(&b, "");
	put(&b, WTAG_PROMPT, "x");
	put_int(&b, WTAG_N, 0);
	refused("no answer", WK_GENERATE, &b, ERR_INVALID);
	put_head(&b, "");
	put(&b, WTAG_PROMPT, "x");
	put_int(&b, WTAG_MAX_TOKENS, INT64_C(1) << 40);
	refused("too many tokens", WK_GENERATE, &b, ERR_INVALID);
	put_head(&b, "");
	put(&b, WTAG_PROMPT, "x");
	o = out_of(&b);
	wire_put_num(&o, WTAG_TEMPERATURE, NAN);
	refused("a temperature that is no number", WK_GENERATE, &b, ERR_INVALID);
	put_head(&b, "");
	put(&b, WTAG_PROMPT, "x");
	o = out_of(&b);
	wire_put_num(&o, WTAG_TOP_P, INFINITY);
	refused("infinite", WK_GENERATE, &b, ERR_INVALID);
	buf_add(&b, "nonsense", 8);
	refused("no fields", WK_GENERATE, &b, ERR_INTERNAL);

	/* every prefix of a message */
	put_head(&whole, "{}");
	put(&whole, WTAG_PROMPT, "x");
	for (size_t n = 0; n < whole.len; n++)
	{
		RequestFields a;
		Err			e;

		buf_add(&b, whole.data, n);
		CHECK(!read_request(&a, WK_GENERATE, &b, &e), "%zu of %zu bytes are taken", n, whole.len);
	}
	buf_free(&whole);
	mem_free(long_url);
}

/* ---- options ---- */

static ROptions *
options_of(const char *options, RequestFields *a, Err *e)
{
	Buf			b = {0};

	put_head(&b, options);
	put(&b, WTAG_URL, "http://b.example//");
	put(&b, WTAG_PROMPT, "x");
	if (!read_request(a, WK_GENERATE, &b, e))
	{
		fprintf(stderr, "%s\n", e->msg);
		abort();
	}
	return roptions_get(a, e);
}

static void
test_defaults(void)
{
	RequestFields a;
	Err			e;
	ROptions   *o = options_of("", &a, &e);

	CHECK(o != NULL, "%s", e.msg);
	CHECK(strcmp(o->name, "big") == 0 && strcmp(o->model, "big") == 0, "names");
	CHECK(o->n_urls == 2 && strcmp(o->urls[0], "https://a.example/v1") == 0 &&
		  strcmp(o->urls[1], "http://b.example") == 0, "urls");
	CHECK(strcmp(o->dialect->name, "openai") == 0 && !o->prompt_as_chat, "dialect");
	CHECK(strcmp(o->completions_path, "/completions") == 0 &&
		  strcmp(o->chat_path, "/chat/completions") == 0 && strcmp(o->embeddings_path, "/embeddings") == 0 &&
		  strcmp(o->models_path, "/models") == 0, "paths");
	CHECK(o->score_path == NULL && o->rerank_path == NULL && o->tokenize_path == NULL &&
		  o->detokenize_path == NULL, "none");
	CHECK(o->max_concurrent_requests == 64 && o->max_batch_inputs == 64 && o->requests_per_minute == 0 &&
		  o->tokens_per_minute == 0, "limits");
	CHECK(o->timeout == 600000 && o->connect_timeout == 10000 && o->max_retries == 3 &&
		  o->max_model_len == 0 && o->health_check_interval == 0, "times");
	CHECK(o->n_headers == 0 && o->auth_header == NULL && o->ssl_verify && o->ca_file == NULL &&
		  o->n_lora_modules == 0, "rest");
	roptions_unref(o);
	request_fields_free(&a);
}

static void
test_all(void)
{
	RequestFields a;
	Err			e;
	ROptions   *o = options_of("{\"model\": \"Q/3\", \"urls\": [\"http://b.example/\"], \"dialect\": "
							   "\"vllm\", \"prompt_as\": \"chat\",\"completions_path\": \"/c\", "
							   "\"chat_path\": \"/d/e\", \"embeddings_path\": \"/f\", \"score_path\": "
							   "\"/g\",\"rerank_path\": \"/h\", \"tokenize_path\": \"/i\", "
							   "\"detokenize_path\": \"/j\", \"models_path\": "
							   "\"/k\",\"max_concurrent_requests\": 1, \"max_batch_inputs\": 4096, "
							   "\"requests_per_minute\": 2147483647,\"tokens_per_minute\": 9, \"timeout\": "
							   "1, \"connect_timeout\": 2, \"max_retries\": 0, \"health_check_interval\": "
							   "86400,\"headers\": {\"X-A\": \"1\", \"api-version\": \"\xc3\xa4\"}, "
							   "\"auth_header\": \"api-key\", \"ssl_verify\": false,\"ca_file\": "
							   "\"/etc/ca.pem\", \"max_model_len\": 4096, \"lora_modules\": [\"x\", \"y\"], "
							   "\"prices\": {\"input\": 1},\"fallback\": [\"z\"], \"cascade\": {}, "
							   "\"result_cache\": true}", &a, &e);

	CHECK(o != NULL, "%s", e.msg);
	CHECK(strcmp(o->model, "Q/3") == 0 && strcmp(o->dialect->name, "vllm") == 0 && o->prompt_as_chat,
		  "model");
	CHECK(strcmp(o->completions_path, "/c") == 0 && strcmp(o->chat_path, "/d/e") == 0 &&
		  strcmp(o->embeddings_path, "/f") == 0 && strcmp(o->score_path, "/g") == 0 &&
		  strcmp(o->rerank_path, "/h") == 0 && strcmp(o->tokenize_path, "/i") == 0 &&
		  strcmp(o->detokenize_path, "/j") == 0 && strcmp(o->models_path, "/k") == 0, "paths");
	CHECK(o->max_concurrent_requests == 1 && o->max_batch_inputs == 4096 &&
		  o->requests_per_minute == 2147483647 && o->tokens_per_minute == 9, "limits");
	CHECK(o->timeout == 1 && o->connect_timeout == 2 && o->max_retries == 0 && o->max_model_len == 4096 &&
		  o->health_check_interval == 86400, "times");
	CHECK(o->n_headers == 2 && strcmp(o->headers[0].name, "X-A") == 0 &&
		  strcmp(o->headers[1].value, "\xc3\xa4") == 0, "headers");
	CHECK(strcmp(o->auth_header, "api-key") == 0 && !o->ssl_verify && strcmp(o->ca_file, "/etc/ca.pem") == 0,
		  "tls");
	CHECK(o->n_lora_modules == 2 && strcmp(o->lora_modules[1], "y") == 0, "adapters");
	roptions_unref(o);
	request_fields_free(&a);
	/* an escaped backslash before what looks like U+0000 */
	o = options_of("{\"headers\": {\"X-A\": \"\\\\u0000\"}}", &a, &e);
	CHECK(o != NULL && strcmp(o->headers[0].value, "\\u0000") == 0, "%s", e.msg);
	roptions_unref(o);
	request_fields_free(&a);
}

static void
test_refused(void)
{
	static const struct
	{
		const char *options;
		const char *names;		/* urls in the message */
		const char *detail;
	}			cases[] = {
		{"[]", "JSON object", ""}, {"{", "JSON object", ""}, {"nonsense", "JSON object", ""},
		{"{\"timeouts\": 1}", "\"timeouts\"", ""},
		{"{\"timeout\": 0}", "between 1 and 2147483647", "option=timeout, value=0"},
		{"{\"timeout\": 1.5}", "\"timeout\"", "1.5"}, {"{\"timeout\": 2147483648}", "\"timeout\"",
													   "2147483648"},
		{"{\"timeout\": \"1\"}", "\"timeout\"", "\"1\""}, {"{\"timeout\": 1e300}", "\"timeout\"", "1e300"},
		{"{\"health_check_interval\": 86401}", "between 0 and 86400", "86401"},
		{"{\"max_retries\": 101}", "between 0 and 100", "101"}, {"{\"max_retries\": -1}", "between 0 and 100",
																 "-1"},
		{"{\"max_batch_inputs\": 4097}", "between 1 and 4096", "4097"},
		{"{\"dialect\": \"tgi\"}", "\"dialect\"", "tgi"}, {"{\"dialect\": 7}", "\"dialect\"", "7"},
		{"{\"prompt_as\": \"prompt\"}", "\"completions\" or \"chat\"", "prompt"},
		{"{\"model\": \"\"}", "\"model\"", ""}, {"{\"model\": \"a\\nb\"}", "control characters", ""},
		{"{\"model\": \"a\\u0000b\"}", "null characters", ""},
		{"{\"chat_path\": \"chat\"}", "begins with \"/\"", "chat"},
		{"{\"chat_path\": \"//evil.example\"}", "path", ""},
		{"{\"chat_path\": \"/a?b\"}", "path", ""}, {"{\"chat_path\": \"/a#b\"}", "path", ""},
		{"{\"chat_path\": \"/a b\"}", "path", ""},
		{"{\"headers\": []}", "\"headers\"", ""}, {"{\"headers\": {\"a b\": \"1\"}}", "name of a header",
												   "name=a b"},
		{"{\"headers\": {\"Host\": \"x\"}}", "can't be set", "name=Host"},
		{"{\"headers\": {\"CONTENT-length\": \"1\"}}", "can't be set", ""},
		{"{\"headers\": {\"\": \"1\"}}", "name of a header", ""},
		{"{\"headers\": {\"a\": 1}}", "texts", "name=a"},
		{"{\"headers\": {\"a\": \"sk-2\\r\\nHost: x\"}}", "control characters", "name=a"},
		{"{\"auth_header\": \"a b\"}", "name of a header", ""},
		{"{\"auth_header\": \"host\"}", "name of a header", ""},
		{"{\"ssl_verify\": \"no\"}", "true or false", "no"},
		{"{\"ca_file\": \"ca.pem\"}", "absolute", "ca.pem"},
		{"{\"lora_modules\": [1]}", "\"lora_modules\"", ""}, {"{\"urls\": {}}", "\"urls\"", ""}
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		RequestFields a;
		Err			e;
		ROptions   *o = options_of(cases[i].options, &a, &e);

		CHECK(o == NULL, "%s is taken", cases[i].options);
		CHECK(e.cls == ERR_INVALID && strstr(e.msg, cases[i].names) != NULL &&
			  strstr(e.msg, "\"big\"") != NULL, "%s: %s", cases[i].options, e.msg);
		CHECK(strstr(e.detail, cases[i].detail) != NULL, "%s: %s", cases[i].options, e.detail);
		CHECK(strstr(e.msg, "sk-2") == NULL && strstr(e.detail, "sk-2") == NULL, "a header's value is told");
		roptions_unref(o);
		request_fields_free(&a);
	}
}

static void
test_unknown_hint(void)
{
	RequestFields a;
	Err			e;

	CHECK(options_of("{\"dialect\": \"tgi\"}", &a, &e) == NULL, "taken");
	CHECK(strcmp(e.hint, "Known dialects: openai, vllm, llama.cpp, llama-cpp-python.") == 0, "%s", e.hint);
	request_fields_free(&a);
	CHECK(options_of("{\"x\": 1}", &a, &e) == NULL, "taken");
	CHECK(strstr(e.hint, "Known options: model, urls, dialect,") != NULL, "%s", e.hint);
	request_fields_free(&a);
}

/* ---- the cache ---- */

static ROptions *
of_name(const char *name, const char *url, const char *options)
{
	Buf			b = {0};
	RequestFields a;
	Err			e;
	ROptions   *o;

	put(&b, WTAG_MODEL, name);
	put(&b, WTAG_URL, url);
	put(&b, WTAG_MODEL_OPTIONS, options);
	put(&b, WTAG_PROMPT, "x");
	if (!read_request(&a, WK_GENERATE, &b, &e))
		abort();
	o = roptions_get(&a, &e);
	request_fields_free(&a);
	return o;
}

static void
test_remembered(void)
{
	ROptions   *a = of_name("a", "http://x", "{}");
	ROptions   *same = of_name("a", "http://x", "{}");
	ROptions   *other = of_name("b", "http://x", "{}");
	ROptions   *changed = of_name("a", "http://x", "{\"timeout\": 5}");
	ROptions   *moved = of_name("a", "http://y", "{}");
	ROptions   *query = of_name("a", "http://x//?v=1", "{}");
	ROptions   *newer = of_name("a", "http://x?v=2", "{}");
	char		name[32];

	CHECK(a == same && a->refs == 3, "the same: %d references", a->refs);
	CHECK(other != a && strcmp(other->name, "b") == 0 && strcmp(other->model, "b") == 0,
		  "another model of the same url and options");
	CHECK(changed != a && changed->timeout == 5 && moved != a && strcmp(moved->urls[0], "http://y") == 0,
		  "changed");
	CHECK(strcmp(a->urls[0], "http://x") == 0 && strcmp(a->queries[0], "") == 0, "%s, %s", a->urls[0],
		  a->queries[0]);
	CHECK(query != a && strcmp(query->urls[0], "http://x") == 0 && strcmp(query->queries[0], "?v=1") == 0,
		  "%s, %s", query->urls[0], query->queries[0]);
	CHECK(newer != query && strcmp(newer->urls[0], "http://x") == 0 && strcmp(newer->queries[0], "?v=2") == 0,
		  "%s, %s", newer->urls[0], newer->queries[0]);
	/* more than the cache holds: options in use stay valid */
	for (int i = 0; i < 1000; i++)
	{
		ROptions   *o;

		snprintf(name, sizeof(name), "m%d", i);
		o = of_name(name, "http://x", "{}");
		CHECK(strcmp(o->name, name) == 0, "%s", o->name);
		roptions_unref(o);
	}
	CHECK(a->refs == 2 && strcmp(a->name, "a") == 0, "forgotten, but here");
	roptions_unref(a);
	roptions_unref(same);
	roptions_unref(other);
	roptions_unref(changed);
	roptions_unref(query);
	roptions_unref(newer);
	CHECK(moved->refs == 1, "the last reference is ours");
	roptions_unref(moved);
	roptions_forget();
}

int
main(void)
{
	RUN(test_read());
	RUN(test_idempotent());
	RUN(test_hostile());
	RUN(test_defaults());
	RUN(test_all());
	RUN(test_refused());
	RUN(test_unknown_hint());
	RUN(test_remembered());
	return check_done("test_remote_options");
}
