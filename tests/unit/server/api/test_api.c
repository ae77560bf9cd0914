/*
 * test_api.c
 *	  Bodies of OpenAI's and Anthropic's interfaces: reading, writing, and an engine process (--fake)
 *	  from outside.
 *
 * Responses are compared with tests/golden/api_shapes.txt; --write prints it anew.
 */
#include "tests/unit/wire_peer.h"

#include <math.h>

#include "base/json/json_writer.h"
#include "tests/unit/check.h"
#include "server/api/vector_encoding.h"
#include "server/api/api_internal.h"

static Peer P;
static const char *const fake_args[] = {"--fake", NULL};

/* ---- the parts ---- */

static void
test_writer(void)
{
	Buf			b = {0};
	JsonOut		j = {.b = &b};

	json_open(&j, '{');
	json_key(&j, "a\"\\");
	json_str(&j, "\x01\n\xC3\xBC\xFFz\xE2\x82\0\x7F", 10);
	json_key_int(&j, "i", INT64_MIN);
	json_key(&j, "f");
	json_open(&j, '[');
	json_float(&j, 0.1f);
	json_float(&j, 16777216.0f);
	json_float(&j, 1e-45f);
	json_float(&j, INFINITY);
	json_double(&j, 0.1);
	json_bool(&j, false);
	json_close(&j, ']');
	json_key(&j, "o");
	json_open(&j, '{');
	json_close(&j, '}');
	json_key_null(&j, "n");
	json_close(&j, '}');
	CHECK(strcmp(b.data,
				 "{\"a\\\"\\\\\":\"\\u0001\\n\xC3\xBC\xEF\xBF\xBDz\xEF\xBF\xBD\xEF\xBF\xBD\\u0000\\u007f\","
				 "\"i\":-9223372036854775808,\"f\":[0.1,16777216,1.4013e-45,null,0.1,false],\"o\":{},"
				 "\"n\":null}") == 0, "%s", b.data);
	buf_free(&b);
}

static const char *
raw_of(ApiBody *b, const char *name)
{
	static char text[256];
	const ApiMember *m = apibody_get(b, name);

	if (m == NULL)
		return "(none)";
	snprintf(text, sizeof(text), "%.*s", (int) m->raw.n, m->raw.s);
	return text;
}

/* Integers that fit into 64 bits, in any form; others are refused, whatever the member's own limits. */
static void
test_integers(void)
{
	static const struct
	{
		const char *text;
		bool		ok;
		int64_t		want;
	}			cases[] = {
		{"9223372036854775807", true, INT64_MAX}, {"-9223372036854775808", true, INT64_MIN},
		{"9223372036854775808", false, 0}, {"-9223372036854775809", false, 0},
		{"1e3", true, 1000}, {"2.0", true, 2}, {"9.2e18", true, INT64_C(9200000000000000000)},
		{"9.25e18", false, 0}, {"-9.25e18", false, 0}, {"9.223372036854775808e18", false, 0},
		{"-9.223372036854775808e18", true, INT64_MIN}, {"1e300", false, 0},
		{"10000000000000000000000000000000000000001", false, 0},
		{"1.0000000000000000000000000000000000000000", true, 1}, {"-0", true, 0}
	};

	for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++)
	{
		char		text[80];
		ApiBody		b;
		Err			e = {0};
		int64_t		i = 0;
		bool		ok;

		snprintf(text, sizeof(text), "{\"seed\": %s}", cases[k].text);
		CHECK(apibody_read(&b, text, strlen(text), &e), "%s: %s", text, e.msg);
		ok = apibody_int(&b, "seed", INT64_MIN, INT64_MAX, &i, &e);
		CHECK(ok == cases[k].ok && (!ok || i == cases[k].want), "%s: %lld, %s", text, (long long) i, e.msg);
		apibody_free(&b);
	}
}

static void
test_body(void)
{
	static const char *const bad[] = {"", "[]", "5", "{", "{\"a\":}", "{\"a\":1}}", "{\"a\":\"\\u0000\"}",
									  "nonsense"};
	static const char text[] = " { \"a\" : [1, {\"b\": \"]}\\\"\"} ] , \"a\": 1.50 ,\"n\":null, "
							   "\"s\":\"x,y\" ,\"big\":9007199254740993,\"z\":{}}";
	ApiBody		b;
	Err			e;
	int64_t		i = 0;

	CHECK(apibody_read(&b, text, strlen(text), &e), "%s", e.msg);
	CHECK(strcmp(raw_of(&b, "a"), "1.50") == 0, "%s", raw_of(&b, "a"));	/* the last one */
	CHECK(strcmp(raw_of(&b, "s"), "\"x,y\"") == 0, "%s", raw_of(&b, "s"));
	CHECK(strcmp(raw_of(&b, "z"), "{}") == 0, "%s", raw_of(&b, "z"));
	CHECK(apibody_get(&b, "n") == NULL && apibody_get(&b, "none") == NULL, "null");
	CHECK(apibody_int(&b, "big", 0, INT64_MAX, &i, &e) && i == INT64_C(9007199254740993), "%lld",
		  (long long) i);
	CHECK(!apibody_int(&b, "big", 0, 5, &i, &e) && strstr(e.detail, "parameter=big") != NULL, "%s", e.detail);
	CHECK(!apibody_int(&b, "a", 0, 5, &i, &e), "1.50 is an integer");
	apibody_free(&b);
	test_integers();
	for (size_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++)
	{
		CHECK(!apibody_read(&b, bad[k], strlen(bad[k]), &e), "%s", bad[k]);
		apibody_free(&b);
	}
}

/* Members keep their digits and escapes; names are compared after decoding escapes. */
static void
test_raw(void)
{
	static const char text[] = "{\"a\":{\"id\":12345678901234567890},\"ty\\u0070e\":\"x\",\"n\":1.50,\"a\":2,"
							   "\"s\":\"\\u00e9\"}";
	StrView		object = {text, sizeof(text) - 1};
	StrView		v = api_raw_member(object, "a");
	Buf			b = {0};
	JsonOut		j = {.b = &b};

	CHECK(v.n == 27 && memcmp(v.s, "{\"id\":12345678901234567890}", 27) == 0, "%.*s", (int) v.n, v.s);
	v = api_raw_member(object, "type");
	CHECK(v.n == 3 && memcmp(v.s, "\"x\"", 3) == 0, "%.*s", (int) v.n, v.s);
	CHECK(api_raw_member(object, "id").s == NULL && api_raw_member(v, "a").s == NULL,
		  "a member that is not there");
	json_open(&j, '{');
	json_key_int(&j, "first", 1);
	api_write_members(&j, object, "type");
	json_close(&j, '}');
	CHECK(strcmp(b.data, "{\"first\":1,\"a\":{\"id\":12345678901234567890},\"n\":1.50,\"a\":2,"
						 "\"s\":\"\\u00e9\"}") == 0, "%s", b.data);
	buf_free(&b);
}

/* Return the number that bits of a small type represent; NAN: none. */
static double
decode(int exp_bits, int man_bits, bool no_infinity, uint32_t bits)
{
	int			bias = (1 << (exp_bits - 1)) - 1;
	uint32_t	man = bits & ((1u << man_bits) - 1);
	int			e = (int) (bits >> man_bits & ((1u << exp_bits) - 1));
	double		sign = bits >> (exp_bits + man_bits) ? -1 : 1;

	if (e == (1 << exp_bits) - 1 && (no_infinity ? man == (1u << man_bits) - 1 : man != 0))
		return NAN;
	if (e == (1 << exp_bits) - 1 && !no_infinity)
		return sign * INFINITY;
	if (e == 0)
		return sign * ldexp(man, 1 - bias - man_bits);
	return sign * ldexp((double) (man | 1u << man_bits), e - bias - man_bits);
}

/* Return the nearest number of an 8-bit type, the even one of two. */
static uint32_t
nearest(int exp_bits, int man_bits, bool no_infinity, float f)
{
	double		most = decode(exp_bits, man_bits, no_infinity,
							  no_infinity ? 0x7E : (1u << (exp_bits + man_bits)) - (1u << man_bits) - 1);
	double		step = ldexp(1, (int) floor(log2(most)) - man_bits);
	uint32_t	best = 0;

	if (fabs((double) f) >= most + step / 2)
		return (signbit(f) ? 0x80u : 0) | (no_infinity ? 0x7F : ((1u << exp_bits) - 1) << man_bits);
	for (uint32_t b = 0; b < 128; b++)
	{
		double		v = decode(exp_bits, man_bits, no_infinity, b);
		double		d = fabs(v - fabs((double) f));
		double		was = fabs(decode(exp_bits, man_bits, no_infinity, best) - fabs((double) f));

		if (isfinite(v) && (d < was || (d == was && (b & 1) == 0)))
			best = b;
	}
	return best | (signbit(f) ? 0x80u : 0);
}

static void
test_vectors(void)
{
	uint32_t	x = 1;
	int			wrong = 0;
	Buf			b = {0};
	Buf			text = {0};
	static const float v[] = {1, -2.5f};

	for (int i = 0; i < 200000; i++)
	{
		float		f;
		_Float16	h;
		uint16_t	bits;
		uint32_t	u;

		x = x * 1664525 + 1013904223;
		/* random numbers of any size, and in the range of the small types */
		u = i % 2 ? x : (x & 0x807FFFFF) | (uint32_t) (100 + i % 60) << 23;
		memcpy(&f, &u, sizeof(f));
		if (isnan(f))
			continue;
		h = (_Float16) f;
		memcpy(&bits, &h, sizeof(bits));
		wrong += vector_bits(VT_FLOAT16, f) != bits;
		u += 0x7FFF + (u >> 16 & 1);	/* bfloat16 by adding half a unit */
		wrong += vector_bits(VT_BFLOAT16, f) != (isinf(f) ? (signbit(f) ? 0xFF80u : 0x7F80u) : u >> 16);
		if (i % 16 == 0)
		{
			wrong += vector_bits(VT_FP8_E4M3, f) != nearest(4, 3, true, f);
			wrong += vector_bits(VT_FP8_E5M2, f) != nearest(5, 2, false, f);
		}
	}
	CHECK(wrong == 0, "%d numbers are rounded wrongly", wrong);
	vector_bytes(VT_FLOAT32, false, v, 2, &b);
	base64_add(&text, b.data, b.len);
	CHECK(strcmp(text.data, "AACAPwAAIMA=") == 0, "%s", text.data);
	buf_reset(&b);
	buf_reset(&text);
	vector_bytes(VT_FLOAT16, true, v, 2, &b);
	base64_add(&text, b.data, b.len);
	CHECK(strcmp(text.data, "PADBAA==") == 0, "%s", text.data);
	buf_free(&b);
	buf_free(&text);
}

/* ---- the engine ---- */

static void
put_text(WireOut *o, WireTag tag, const char *s)
{
	wire_put_str(o, tag, s, strlen(s));
}

static bool prompt_embeds;		/* are allowed */

static Talk *
call(const char *path, const char *body, bool stream, bool as_body)
{
	Buf			b = {0};
	WireOut		o = peer_out(&b);
	Talk	   *t;

	wire_put_int(&o, WTAG_DATABASE, 5);
	wire_put_int(&o, WTAG_ROLE, 10);
	wire_put_int(&o, WTAG_SESSION, 1);
	if (strncmp(path, "/v1/models", 10) == 0)
	{
		put_text(&o, WTAG_API_MODEL, "m");
		put_text(&o, WTAG_API_MODEL, "tuned");
		put_text(&o, WTAG_API_ROOT, "/fake/adapters/tuned");
		put_text(&o, WTAG_API_PARENT, "m");
		put_text(&o, WTAG_API_MODEL, "other");
	}
	else
	{
		put_text(&o, WTAG_MODEL, "m");
		put_text(&o, WTAG_MODEL_PATH, "/fake/m");
		/* a backend finds this out from the body's model */
		if (strstr(body, "\"tuned\"") != NULL)
		{
			put_text(&o, WTAG_LORA, "tuned");
			put_text(&o, WTAG_LORA_PATH, "/fake/adapters/tuned");
		}
	}
	put_text(&o, WTAG_API_PATH, path);
	put_text(&o, WTAG_API_BODY, body);
	put_text(&o, WTAG_API_UNKNOWN, "error");
	wire_put_int(&o, WTAG_API_PROMPT_EMBEDS, prompt_embeds);
	put_text(&o, WTAG_API_TOOL_PARSER, "hermes");
	put_text(&o, WTAG_API_REASONING_PARSER, "mistral");
	wire_put_int(&o, WTAG_API_AS_BODY, as_body);
	wire_put_int(&o, WTAG_STREAM, stream);
	t = talk_begin(&P, WK_API, &b);
	buf_free(&b);
	return t;
}

/* Return the text of a field, valid until the next call; "" if absent. */
static const char *
whole(const Frame *f, int tag)
{
	static Buf	text;
	WireField	v;

	buf_reset(&text);
	buf_addstr(&text, "");
	if (frame_field(f, tag, &v))
		buf_add(&text, v.s, v.n);
	return text.data;
}

/* Append with ids of 32 digits replaced by ID, times by 0. */
static void
add_stable(Buf *out, const char *s)
{
	static const char *const times[] = {"\"created\":", "\"created_at\":", "\"completed_at\":"};

	while (*s != '\0')
	{
		size_t		hex = strspn(s, "0123456789abcdef");
		bool		is_time = false;

		if (hex == 32)
		{
			buf_addstr(out, "ID");
			s += 32;
			continue;
		}
		for (int i = 0; i < 3; i++)
			if (strncmp(s, times[i], strlen(times[i])) == 0 && strspn(s + strlen(times[i]), "0123456789") > 0)
			{
				buf_addstr(out, times[i]);
				buf_addc(out, '0');
				s += strlen(times[i]);
				s += strspn(s, "0123456789");
				is_time = true;
				break;
			}
		if (is_time)
			continue;
		if (hex == 0)
			hex = 1;
		buf_add(out, s, hex);
		s += hex;
	}
}

/* Append the lines of the response, "< ..." each. */
static void
answers(const char *path, const char *body, bool stream, Buf *out)
{
	Talk	   *t = call(path, body, stream, true);
	Frame		f;

	for (;;)
	{
		const char *text;

		if (!talk_wait(t, &f, 10000))
		{
			buf_addstr(out, "< nothing\n");
			break;
		}
		text = f.kind == WF_TEXT || f.kind == WF_DONE ? whole(&f, WTAG_TEXT) : f.kind == WF_ERROR ?
			frame_str(&f, WTAG_MESSAGE) : "";
		if (text[0] != '\0')
		{
			buf_addstr(out, "< ");
			add_stable(out, text);
			buf_addc(out, '\n');
		}
		if (f.final)
			break;
	}
	talk_wait_closed(t, 5000);
	talk_free(t);
}

static void
next_line(const char **p, char *line, size_t size)
{
	size_t		n = strcspn(*p, "\n");

	snprintf(line, size, "%.*s", (int) n, *p);
	*p += n + ((*p)[n] == '\n');
}

static char *
golden(void)
{
	FILE	   *f = fopen("tests/golden/api_shapes.txt", "r");
	char	   *text = calloc(1, 1 << 20);

	if (f == NULL || fread(text, 1, (1 << 20) - 1, f) == 0)
		abort();
	fclose(f);
	return text;
}

static void
test_shapes(bool write)
{
	char	   *text = golden();
	const char *p = text;
	char		line[65536];
	char		path[256];

	while (*p != '\0')
	{
		Buf			got = {0};
		Buf			want = {0};
		bool		stream;

		next_line(&p, line, sizeof(line));
		if (line[0] != '>')
		{
			if (write)
				puts(line);
			continue;
		}
		stream = line[1] == '>';
		snprintf(path, sizeof(path), "%s", line + (stream ? 3 : 2));
		if (write)
			puts(line);
		next_line(&p, line, sizeof(line));
		answers(path, line, stream, &got);
		if (write)
			printf("%s\n%s", line, got.data);
		while (*p == '<')
		{
			static char answer[65536];

			next_line(&p, answer, sizeof(answer));
			buf_addstr(&want, answer);
			buf_addc(&want, '\n');
		}
		CHECK(write || (want.len > 0 && strcmp(got.data, want.data) == 0), "%s %s:\n%swanted:\n%s", path,
			  line, got.data, want.len > 0 ? want.data : "");
		buf_free(&got);
		buf_free(&want);
	}
	free(text);
}

static const char *
control(const char *command)
{
	static char text[256];
	Talk	   *t = talk_command(&P, command);
	Frame		f;

	snprintf(text, sizeof(text), "%s", talk_final(t, &f, 10000) ? frame_str(&f, WTAG_TEXT) : "nothing");
	talk_wait_closed(t, 5000);
	talk_free(t);
	return text;
}

static int64_t
running(void)
{
	WireStats  *st = wire_stats(&P.arena);

	return st->running + st->waiting;
}

/* Calls that are abandoned end their requests, whatever state they are in. */
static void
test_cancel(void)
{
	static const char *const bodies[] = {
		"{\"prompt\": [\"@hang a\", \"b\", \"@hang c\"]}",
		"{\"prompt\": [\"@tokens:1000 @slow:20\", \"@tokens:1000 @slow:20\"], \"max_tokens\": 1000, \"n\": "
		"2, \"temperature\": 1}"
	};

	for (int i = 0; i < 40; i++)
	{
		Talk	   *t = call("/v1/completions", bodies[i % 2], i % 4 >= 2, false);
		Frame		f;

		if (i % 3 > 0)
			talk_wait(t, &f, i % 3 == 1 ? 1 : 30);
		talk_cancel(t);
		talk_wait_closed(t, 5000);
		talk_free(t);
	}
	for (int i = 0; i < 500 && running() > 0; i++)
		usleep(10000);
	CHECK(running() == 0, "%lld requests are left", (long long) running());
	CHECK(strcmp(control("integrity"), "ok") == 0, "%s", control("integrity"));
}

/* The first error of an inner request ends the others. */
static void
test_errors(void)
{
	Talk	   *t = call("/v1/completions", "{\"prompt\": [\"@hang\", \"@error:42501:mine\", \"@hang\"]}",
						 false, false);
	Frame		f;

	CHECK(talk_final(t, &f, 10000) && f.kind == WF_ERROR, "no error");
	CHECK(strcmp(frame_str(&f, WTAG_MESSAGE), "mine") == 0, "%s", frame_str(&f, WTAG_MESSAGE));
	talk_wait_closed(t, 5000);
	talk_free(t);
	for (int i = 0; i < 500 && running() > 0; i++)
		usleep(10000);
	CHECK(running() == 0, "%lld requests are left", (long long) running());
	/* closed without a frame */
	t = call("/v1/completions", "{\"prompt\": [\"@close\", \"@hang\"]}", false, true);
	CHECK(!talk_final(t, &f, 1000), "a frame");
	talk_wait_closed(t, 5000);
	talk_free(t);
	CHECK(strcmp(control("integrity"), "ok") == 0, "%s", control("integrity"));
}

/* The maximal number of inner requests, and one more. */
static void
test_many(void)
{
	Buf			b = {0};
	Talk	   *t;
	Frame		f;

	for (int extra = 0; extra < 2; extra++)
	{
		const char *text;
		int			n = 0;

		buf_reset(&b);
		buf_addstr(&b, "{\"input\": [");
		for (int i = 0; i < API_MAX_ITEMS + extra; i++)
			buf_printf(&b, "%s\"t%d\"", i > 0 ? "," : "", i);
		buf_addstr(&b, "]}");
		t = call("/v1/embeddings", b.data, false, true);
		CHECK(talk_final(t, &f, 30000) && f.kind == WF_DONE, "no answer");
		text = whole(&f, WTAG_TEXT);
		for (const char *p = text; (p = strstr(p, "\"object\":\"embedding\"")) != NULL; p++)
			n++;
		CHECK(n == (extra ? 0 : API_MAX_ITEMS), "%d embeddings", n);
		CHECK(frame_int(&f, WTAG_API_STATUS) == (extra ? 400 : 200), "%lld",
			  (long long) frame_int(&f, WTAG_API_STATUS));
		talk_wait_closed(t, 5000);
		talk_free(t);
	}
	buf_free(&b);
}

/* Data that inner requests share is copied for each of them: refused before it takes too much memory. */
static void
test_shared(void)
{
	static const char *const bodies[][3] = {
		{"/v1/completions", "{\"stop\": [\"", "\"], \"prompt\": ["},
		{"/v1/score", "{\"text_1\": \"", "\", \"text_2\": ["},
		{"/v1/score", "{\"text_1\": \"a\", \"instruction\": \"", "\", \"text_2\": ["},
		{"/v1/rerank", "{\"query\": \"", "\", \"documents\": ["},
		{"/v1/embeddings", "{\"cache_salt\": \"", "\", \"input\": ["}
	};
	Buf			b = {0};

	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
	{
		Talk	   *t;
		Frame		f;
		const char *text;

		buf_reset(&b);
		buf_addstr(&b, bodies[i][1]);
		for (int k = 0; k < 150000; k++)
			buf_addc(&b, 'x');
		buf_addstr(&b, bodies[i][2]);
		for (int k = 0; k < API_MAX_ITEMS; k++)
			buf_printf(&b, "%s\"t%d\"", k > 0 ? "," : "", k);
		buf_addstr(&b, "]}");
		t = call(bodies[i][0], b.data, false, true);
		CHECK(talk_final(t, &f, 30000) && f.kind == WF_DONE, "no answer");
		text = whole(&f, WTAG_TEXT);
		CHECK(frame_int(&f, WTAG_API_STATUS) == 400 && strstr(text, "for each of its 4096 texts") != NULL,
			  "%s: %lld %.300s", bodies[i][1], (long long) frame_int(&f, WTAG_API_STATUS), text);
		talk_wait_closed(t, 5000);
		talk_free(t);
	}
	buf_free(&b);
}

/* Return a tensor of tests/golden/torch_tensors.txt, in base64; the caller frees it. */
static char *
tensor(const char *name)
{
	FILE	   *f = fopen("tests/golden/torch_tensors.txt", "r");
	char	   *line = mem_alloc(65536);
	char	   *data = NULL;

	while (f != NULL && data == NULL && fgets(line, 65536, f) != NULL)
		if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == '\t')
			data = mem_strndup(strrchr(line, '\t') + 1, strcspn(strrchr(line, '\t') + 1, "\n"));
	CHECK(data != NULL, "%s is not in tests/golden/torch_tensors.txt", name);
	if (f != NULL)
		fclose(f);
	mem_free(line);
	return data != NULL ? data : mem_strdup("");
}

/*
 * Send a body in which @NAME@ is replaced by that tensor; the response must have these parts in this
 * order.
 */
static void
check_embeds(const char *body, bool stream, const char *const *parts)
{
	Buf			b = {0};
	Buf			out = {0};
	const char *at;

	for (const char *p = body; *p != '\0';)
	{
		const char *end = *p == '@' ? strchr(p + 1, '@') : NULL;

		if (end == NULL)
			buf_addc(&b, *p++);
		else
		{
			char	   *name = mem_strndup(p + 1, (size_t) (end - p - 1));
			char	   *data = tensor(name);

			buf_addstr(&b, data);
			mem_free(data);
			mem_free(name);
			p = end + 1;
		}
	}
	answers("/v1/completions", b.data, stream, &out);
	at = out.data;
	for (; *parts != NULL && at != NULL; parts++)
		at = strstr(at, *parts);
	CHECK(at != NULL, "%s: no %s in %s", body, parts[-1], out.data);
	buf_free(&b);
	buf_free(&out);
}

static void
test_embeds(void)
{
	static const struct
	{
		const char *body;
		bool		stream;
		const char *parts[6];
	}			cases[] = {
		{"{\"prompt_embeds\": \"@fake half@\"}", false, {"\"text\":\"HI YOU\"", "\"prompt_tokens\":6,",
														 NULL}},
		{"{\"prompt_embeds\": [\"@fake batch@\", \"@fake half@\"], \"prompt\": [\"a b\", [99]], \"n\": 2, "
		 "\"temperature\": 1, \"seed\": 5}", false,
			{"\"index\":0,\"text\":\"X Y Z #5\"", "\"index\":2,\"text\":\"HI YOU #5\"",
			 "\"index\":4,\"text\":\"A B #5\"", "\"index\":6,\"text\":\"C #5\"", NULL}},
		{"{\"prompt_embeds\": \"@fake half@\", \"prompt\": \"\"}", false, {"HI YOU", NULL}},
		{"{\"prompt_embeds\": \"@fake half@\", \"return_token_ids\": true}", false,
		 {"\"token_ids\":[256,257]", "\"prompt_token_ids\":null", NULL}},
		{"{\"prompt_embeds\": \"@fake half@\", \"truncate_prompt_tokens\": 3}", false, {"\"YOU\"", NULL}},
		{"{\"prompt_embeds\": [\"@fake half@\"], \"logprobs\": 1, \"stream\": true}", true,
		 {"\"HI\"", "\" YOU\"", NULL}},
		{"{\"prompt_embeds\": [], \"prompt\": \"a b\"}", false, {"\"A B\"", NULL}},
		{"{\"prompt_embeds\": null}", false, {"prompt must be given", NULL}},
		{"{\"prompt_embeds\": \"@fake half@\", \"echo\": true}", false,
		 {"no echo", "\"param\":\"echo\"", NULL}},
		{"{\"prompt_embeds\": \"@fake half@\", \"prompt_logprobs\": 1}", false, {"no prompt_logprobs", NULL}},
		{"{\"prompt_embeds\": 5}", false, {"prompt_embeds must be a string", NULL}},
		{"{\"prompt_embeds\": [\"@fake half@\", 5]}", false, {"prompt_embeds must be a string", NULL}},
		{"{\"prompt_embeds\": \"nonsense!\"}", false,
		 {"prompt_embeds must be base64", "\"param\":\"prompt_embeds\",\"code\":400", NULL}},
		{"{\"prompt_embeds\": \"\"}", false, {"no archive", "\"code\":400", NULL}},
		{"{\"prompt_embeds\": \"YWJj\"}", false, {"no archive", "\"code\":400", NULL}},
		{"{\"prompt_embeds\": \"@fake narrow@\"}", false, {"rows of 4 numbers", "not of 3", "\"code\":400",
														   NULL}},
		{"{\"prompt_embeds\": \"@fake vector@\"}", false, {"two dimensions", "\"code\":400", NULL}},
		{"{\"prompt_embeds\": \"@scalar@\"}", false, {"two dimensions", NULL}},
		{"{\"prompt_embeds\": \"@empty@\"}", false, {"must not be empty", NULL}},
		{"{\"prompt_embeds\": \"@fake infinite@\"}", false, {"finite numbers, got inf in row 1, column 1",
															 "\"code\":400", NULL}},
		{"{\"prompt_embeds\": \"@double@\"}", false, {"float32, float16 or bfloat16", NULL}},
		{"{\"prompt_embeds\": \"@code@\"}", false, {"only dense tensors", NULL}}
	};
	static const char *const off[] = {"not enabled", "\"param\":\"prompt_embeds\"", NULL};

	check_embeds(cases[0].body, false, off);
	prompt_embeds = true;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check_embeds(cases[i].body, cases[i].stream, cases[i].parts);
	prompt_embeds = false;
}

int
main(int argc, char **argv)
{
	bool		write = argc > 1 && strcmp(argv[1], "--write") == 0;

	peer_find_engine(&P);
	signal(SIGPIPE, SIG_IGN);
	peer_arena(&P, 32, 32768, 4 << 20);
	peer_spawn(&P, fake_args);
	if (!peer_wait_ready(&P, 10000))
		abort();
	RUN(test_shapes(write));
	if (!write)
	{
		RUN(test_writer());
		RUN(test_body());
		RUN(test_raw());
		RUN(test_vectors());
		RUN(test_cancel());
		RUN(test_errors());
		RUN(test_many());
		RUN(test_shared());
		RUN(test_embeds());
	}
	peer_send(&P, CONTROL_STOP "\n");
	CHECK(peer_exit_status(&P, 5000) == 0, "exit status");
	peer_free(&P);
	return write ? 0 : check_done("test_api");
}
