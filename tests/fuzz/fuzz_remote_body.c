/*
 * fuzz_remote_body.c
 *	  Messages to the remote program, with values of any kind: they are refused, or become bodies that
 *	  are JSON with the model that the options name, and without duplicate members.  And the options
 *	  themselves.
 *
 * The first byte is the kind of the request, 0 = the rest is options; the second the dialect; then come
 * fields.
 */
#include "fuzz.h"

#include "base/json/json_scan.h"
#include "base/json/json_reader.h"
#include "base/alloc.h"
#include "remote/codec/encode.h"

static const char *const dialects[] = {
#define DIALECT(name, ...) name,
#include "ipc/endpoint_dialects.def"
#undef DIALECT
};

static void
append(void *ctx, const void *data, size_t n)
{
	buf_add(ctx, data, n);
}

static void
put(Buf *b, WireTag tag, const char *s, size_t n)
{
	WireOut		o = {append, b};

	wire_put_str(&o, tag, s, n);
}

static void
require(bool ok, const char *what, const char *text)
{
	if (!ok)
	{
		fprintf(stderr, "%s: %s\n", what, text);
		abort();
	}
}

/* ---- invariants of a body ---- */

static void
check_body(const RCall *c)
{
	JsonMembers m;
	StrView		key,
				value,
				keys[64];
	int			n = 0;
	int			models = 0;

	if (c->get)
		return;
	require(json_ok(c->body.data, c->body.len, 1000) && json_members(&m, c->body.data, c->body.len),
			"no JSON", c->body.data);
	while (json_member(&m, &key, &value) > 0)
	{
		if (key.n == 5 && memcmp(key.s, "model", 5) == 0)
		{
			models++;
			require(value.n == 5 && memcmp(value.s, "\"Q/3\"", 5) == 0, "another model", c->body.data);
		}
		for (int i = 0; i < n && c->shape != RSHAPE_API; i++)
			require(keys[i].n != key.n || memcmp(keys[i].s, key.s, key.n) != 0, "a member is there twice",
					c->body.data);
		if (n < 64)
			keys[n++] = key;
	}
	require(models == 1, "not one model", c->body.data);
	require(c->tokens >= 0 && c->path != NULL && c->path[0] == '/', "a call", c->body.data);
}

static void
make(const RequestFields *a, const ROptions *o)
{
	const RequestFields *requests[1] = {a};
	RCalls		calls;
	Err			e = {0};

	if (!body_make(requests, 1, o, &calls, &e))
	{
		fuzz_failed(&e);
		require(calls.n == 0 && calls.v == NULL, "a call is left", e.msg);
		return;
	}
	require(calls.n >= 1, "no call", "");
	for (int i = 0; i < calls.n; i++)
		check_body(&calls.v[i]);
	body_free(&calls);
}

/* The head is fixed, unless the fields have one of their own. */
static void
run(WireKind kind, const char *options, size_t n_options, const char *fields, size_t n)
{
	Buf			b = {0};
	RequestFields a;
	Err			e = {0};
	ROptions   *o;
	char	   *copy;

	put(&b, WTAG_MODEL, "big", 3);
	put(&b, WTAG_URL, "https://a.example/v1", 20);
	put(&b, WTAG_MODEL_OPTIONS, options, n_options);
	buf_add(&b, fields, n);
	copy = mem_alloc(b.len);
	memcpy(copy, b.data, b.len);
	if (!request_fields_read(&a, kind, copy, b.len, &e))
		fuzz_failed(&e);
	else
	{
		o = a.n_urls > 0 ? roptions_get(&a, &e) : NULL;
		if (o == NULL && a.n_urls > 0)
			fuzz_failed(&e);
		require(body_same(&a, &a), "not the same as itself", "");
		if (o != NULL && a.lora.n == 0 && strcmp(o->model, "Q/3") == 0)
			make(&a, o);
		roptions_unref(o);
		request_fields_free(&a);
	}
	buf_free(&b);
	roptions_forget();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char		options[80];
	Buf			prompt = {0};

	if (size < 2)
		return 0;
	if (data[0] % WK_COUNT == 0)
	{
		put(&prompt, WTAG_PROMPT, "x", 1);
		run(WK_GENERATE, (const char *) data + 2, size - 2, prompt.data, prompt.len);
		buf_free(&prompt);
		return 0;
	}
	snprintf(options, sizeof(options), "{\"model\": \"Q/3\", \"dialect\": \"%s\"}",
			 dialects[data[1] % (sizeof(dialects) / sizeof(dialects[0]))]);
	run(data[0] % WK_COUNT, options, strlen(options), (const char *) data + 2, size - 2);
	return 0;
}

/* ---- seeds ---- */

static const struct
{
	WireKind	kind;
	int			dialect;
	struct
	{
		WireTag		tag;
		const char *text;
	}			fields[5];
}			seeds[] = {
	{WK_GENERATE, 0, {{WTAG_PROMPT, "h\xc3\xa4"}, {WTAG_MAX_TOKENS, "5"}, {WTAG_STOP, "x"}, {WTAG_STOP, "y"},
					  {WTAG_TEMPERATURE, "0.5"}}},
	{WK_GENERATE, 1, {{WTAG_MESSAGES, "[{\"role\":\"user\",\"content\":\"hi\"}]"},
					  {WTAG_TOOLS, "[{\"type\":\"function\"}]"}, {WTAG_TOOL_CHOICE, "\"required\""},
					  {WTAG_JSON_SCHEMA, "{\"type\":\"object\"}"}}},
	{WK_GENERATE, 1, {{WTAG_PROMPT, "x"}, {WTAG_MAX_TOKENS, "5"}, {WTAG_LOGIT_BIAS, "{\"5\":1}"},
					  {WTAG_TOP_K, "-1"}, {WTAG_STOP_TOKEN_IDS, "7"}}},
	{WK_GENERATE, 2, {{WTAG_MESSAGES, "[]"}, {WTAG_STRUCT_CHOICE, "a"}, {WTAG_STRUCT_CHOICE, "b\""},
					  {WTAG_LOGPROBS, "2"}, {WTAG_STREAM, "1"}}},
	{WK_GENERATE, 3, {{WTAG_PROMPT, "x"}, {WTAG_GRAMMAR, "root ::= \"a\""}, {WTAG_SEED, "5"},
					  {WTAG_ROLE_MAX_TOKENS, "9"}}},
	{WK_POOL, 1, {{WTAG_PROMPT, "x"}, {WTAG_TASK, "embed"}, {WTAG_INSTRUCTION, "q: "},
				  {WTAG_LONG_INPUT, "truncate"}, {WTAG_DIMENSIONS, "4"}}},
	{WK_POOL, 2, {{WTAG_PROMPT, "x"}, {WTAG_TASK, "score"}, {WTAG_PAIR, "y"}}},
	{WK_LOGPROBS, 1, {{WTAG_PROMPT, "x "}, {WTAG_CHOICE, "yes"}, {WTAG_CHOICE, "no"}, {WTAG_NOTE, "sum"}}},
	{WK_TOKENIZE, 1, {{WTAG_MESSAGES, "[1]"}, {WTAG_GENERATION_PROMPT, "0"}}},
	{WK_TOKENIZE, 2, {{WTAG_PROMPT, "x"}, {WTAG_ADD_SPECIAL, "0"}}},
	{WK_DETOKENIZE, 3, {{WTAG_PROMPT_IDS, "5"}}},
	{WK_API, 0, {{WTAG_API_PATH, "/v1/chat/completions"},
				 {WTAG_API_BODY, "{\"model\":\"x\",\"stream\":true,\"max_tokens\":5}"}, {WTAG_STREAM, "1"},
				 {WTAG_ROLE_MAX_TOKENS, "9"}}},
	{WK_MODEL_LOAD, 0, {{WTAG_DATABASE, "5"}}},
};

#define N_SEEDS (sizeof(seeds) / sizeof(seeds[0]))

static const char some_options[] =
	"{\"model\":\"Q/3\",\"dialect\":\"vllm\",\"timeout\":5,\"headers\":{\"x-a\":\"b\"},\"chat_path\":\"/c\","
	"\"lora_modules\":[\"x\"],\"ssl_verify\":true}";

size_t
fuzz_count(void)
{
	return N_SEEDS + 1;
}

static void
put_field(Buf *b, WireTag tag, const char *text)
{
	WireOut		o = {append, b};
	int32_t		ids[1] = {atoi(text)};

	switch (wire_tag_type(tag))
	{
		case WT_INT:
			wire_put_int(&o, tag, atoi(text));
			break;
		case WT_NUM:
			wire_put_num(&o, tag, atof(text));
			break;
		case WT_INTS:
			wire_put_ints(&o, tag, ids, 1);
			break;
		case WT_STR:
			wire_put_str(&o, tag, text, strlen(text));
			break;
		default:				/* only changed bytes make wrong types, because the writer asserts the type */
			break;
	}
}

void
fuzz_seed(size_t i, Buf *b)
{
	if (i == N_SEEDS)
	{
		buf_add(b, "\0\0", 2);
		buf_addstr(b, some_options);
		return;
	}
	buf_addc(b, (char) seeds[i].kind);
	buf_addc(b, (char) seeds[i].dialect);
	for (int k = 0; k < 5 && seeds[i].fields[k].text != NULL; k++)
		put_field(b, seeds[i].fields[k].tag, seeds[i].fields[k].text);
}

/* ---- changes ---- */

/* Change one text as JSON or as bytes; the fields around it stay readable. */
static void
change_text(const Buf *rest, Buf *out, unsigned *seed)
{
	WireIn		in = {.p = rest->data,.end = rest->data + rest->len};
	WireField	f;
	WireOut		o = {append, out};
	size_t		n = 0;
	size_t		chosen;

	while (wire_next(&in, &f) > 0)
		n++;
	chosen = fuzz_below(seed, n);
	in = (WireIn) {.p = rest->data,.end = rest->data + rest->len};
	for (size_t i = 0; wire_next(&in, &f) > 0; i++)
	{
		Buf			text = {0};

		if (f.type == WT_INT)
			wire_put_int(&o, f.tag, i == chosen ? (int64_t) fuzz_below(seed, 12) - 2 : f.i);
		else if (f.type == WT_NUM)
			wire_put_num(&o, f.tag, i == chosen ? (double) fuzz_below(seed, 9) / 4 - 1 : f.num);
		else if (f.type == WT_STR)
		{
			buf_add(&text, f.s, f.n);
			if (i == chosen && rand_r(seed) % 2 == 0)
				fuzz_json(&text, text.len, seed);
			else if (i == chosen)
				fuzz_bytes(&text, text.len, seed);
			wire_put_str(&o, f.tag, text.data, text.len);
			buf_free(&text);
		}
	}
}

void
fuzz_change(Buf *b, unsigned *seed)
{
	Buf			rest = {0};
	Buf			out = {0};
	size_t		skip = b->len < 2 ? b->len : 2;

	buf_add(&rest, b->data + skip, b->len - skip);
	buf_add(&out, b->data, skip);
	if (skip == 2 && rand_r(seed) % 32 == 0)
		out.data[rand_r(seed) % 2] = (char) rand_r(seed);
	if (skip == 2 && b->data[0] % WK_COUNT == 0)
		fuzz_json(&rest, rest.len, seed);
	else if (skip == 2 && rand_r(seed) % 4 != 0)
	{
		if (rand_r(seed) % 4 == 0)
			put_field(&rest, rand_r(seed) % 280, (const char *const[]) {"1", "[]", "{}", "x",
																		"0"}[rand_r(seed) % 5]);
		change_text(&rest, &out, seed);
		buf_reset(&rest);
	}
	else
		fuzz_bytes(&rest, rest.len, seed);
	if (rest.len > 0)
		buf_add(&out, rest.data, rest.len);
	buf_free(b);
	buf_free(&rest);
	*b = out;
}

FUZZ_MAIN("fuzz_remote_body", 40000)
