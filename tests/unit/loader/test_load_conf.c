/*
 * test_load_conf.c
 *	  config.json and the other configuration files: kinds of values, prefixes, limits; tokenizer files
 *	  and the possible places of a chat template.
 */
#include "base/json/json_scan.h"
#include "loader/hf_config.h"
#include "tests/unit/load_util.h"

static Conf *
parse(const char *json, Err *e)
{
	Conf	   *c = conf_new();

	if (!hfconfig_parse(c, "", json, strlen(json), "config.json", e))
	{
		conf_free(c);
		return NULL;
	}
	return c;
}

/* U+0000 as an escape or a byte; not after a backslash that is escaped itself. */
static void
test_has_nul(void)
{
	static const struct
	{
		const char *text;
		size_t		n;
		bool		has;
	}			cases[] = {
		{"", 0, false}, {"\"\\u0000\"", 8, true}, {"\"\\\\u0000\"", 9, false}, {"\"\\\\\\u0000\"", 10, true},
		{"\"\\u0001\"", 8, false}, {"\"\\n\\u0000\"", 10, true}, {"\\u000", 5, false}, {"\\u00000", 6, true},
		{"a\0b", 3, true}, {"a\0b", 1, false}, {"\\", 1, false}
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		CHECK(json_has_nul(cases[i].text, cases[i].n) == cases[i].has, "%zu: %s", i, cases[i].text);
}

static void
test_values(void)
{
	Err			e = {0};
	size_t		n;
	Conf	   *c = parse("{\"i\": 42, \"f\": 1e-5, \"t\": true, \"s\": \"silu\", \"nil\": null,"
						  "\"o\": {\"type\": \"linear\", \"deep\": {\"x\": 7}},"
						  "\"nums\": [1, 2.5], \"strs\": [\"a\", \"b\"], \"mixed\": [1, \"a\"],"
						  "\"none\": [], \"objs\": [{\"a\": 1}], \"i\": 43}", &e);

	CHECK(c != NULL, "%s", e.msg);
	if (c == NULL)
		return;
	CHECK(conf_int(c, "i", 0) == 43, "the last of two wins");
	CHECK(conf_num(c, "f", 0) == 1e-5, "number");
	CHECK(conf_bool(c, "t", false), "boolean");
	CHECK(strcmp(conf_str(c, "s", ""), "silu") == 0, "string");
	CHECK(!conf_has(c, "nil") && conf_int(c, "nil", 5) == 5, "null counts as absent");
	CHECK(conf_is_null(c, "nil") && !conf_is_null(c, "i") && !conf_is_null(c, "gone"),
		  "and can be told from it");
	CHECK(!conf_bool(c, "nil", true) && conf_bool(c, "gone", true), "a switch that is null is off");
	CHECK(strcmp(conf_str(c, "o.type", ""), "linear") == 0, "nested");
	CHECK(conf_int(c, "o.deep.x", 0) == 7, "nested twice");
	CHECK(conf_nums(c, "nums", &n)[1] == 2.5 && n == 2, "array of numbers");
	CHECK(strcmp(conf_strs(c, "strs", &n)[1], "b") == 0 && n == 2, "array of strings");
	CHECK(!conf_has(c, "mixed") && !conf_has(c, "none") && !conf_has(c, "objs"), "other arrays");
	CHECK(conf_int(c, "s", 5) == 5, "another kind gives the default");
	conf_free(c);
}

/* Infinity as Python writes it, outside of strings. */
static void
test_infinity(void)
{
	Err			e = {0};
	size_t		n;
	Conf	   *c = parse("{\"a\": [0.5, Infinity], \"b\": -Infinity, \"c\": \"\\\"Infinity\", \"d\": 3}",
						  &e);

	CHECK(c != NULL, "%s", e.msg);
	if (c == NULL)
		return;
	CHECK(conf_nums(c, "a", &n)[1] > 1e300 && n == 2 && conf_num(c, "b", 0) < -1e300, "infinite numbers");
	CHECK(strcmp(conf_str(c, "c", ""), "\"Infinity") == 0 && conf_int(c, "d", 0) == 3, "a string");
	conf_free(c);
}

static void
test_bad_json(void)
{
	static const char *const bad[] = {"", "[]", "3", "{", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "nul"};
	Buf			b = {0};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		Err			e = {0};
		Conf	   *c = parse(bad[i], &e);

		CHECK(c == NULL && e.cls == ERR_BAD_FILE && strstr(e.msg, "config.json") != NULL,
			  "\"%s\": %s", bad[i], e.msg);
		conf_free(c);
	}
	for (int i = 0; i < 500; i++)
		buf_addstr(&b, "{\"a\":");
	buf_addstr(&b, "1");
	for (int i = 0; i < 500; i++)
		buf_addc(&b, '}');
	{
		Err			e = {0};
		Conf	   *c = parse(b.data, &e);

		CHECK(c == NULL && strstr(e.msg, "longer than") != NULL, "500 levels: %s", e.msg);
		conf_free(c);
	}
	buf_reset(&b);
	buf_addc(&b, '{');
	for (int i = 0; i < 5000; i++)
		buf_printf(&b, "%s\"k%d\":%d", i ? "," : "", i, i);
	buf_addc(&b, '}');
	{
		Err			e = {0};
		Conf	   *c = parse(b.data, &e);

		CHECK(c == NULL && strstr(e.msg, "more than 4096 keys") != NULL, "5000 keys: %s", e.msg);
		conf_free(c);
	}
	buf_free(&b);
}

/* Members of text_config are moved to the root, null as well; they replace a null but not a value. */
static void
test_lift(void)
{
	Err			e = {0};
	Conf	   *c = parse("{\"a\": 1, \"b\": null, \"text_config\": {\"a\": 2, \"b\": 3, \"n\": null}}", &e);

	CHECK(c != NULL, "%s", e.msg);
	if (c == NULL)
		return;
	conf_lift(c, "text_config.");
	CHECK(conf_int(c, "a", 0) == 1 && conf_int(c, "b", 0) == 3 && conf_is_null(c, "n"), "lifted");
	conf_free(c);
}

/* Write head, then `part` n times. */
static void
repeat(Buf *b, const char *head, const char *part, int n)
{
	buf_reset(b);
	buf_addstr(b, head);
	for (int i = 0; i < n; i++)
		buf_addstr(b, part);
}

static void
test_values_counted(void)
{
	static const struct
	{
		const char *text;
		size_t		n;
	}			cases[] = {
		{"", 1}, {"1", 1}, {"[1,2]", 3}, {"{\"a\": [1, {}]}", 5}, {"[\"a,b[{\", \"\\\",[\"]", 3},
		{"\"[[[", 1}, {"\"\\", 1}
	};
	Buf			b = {0};
	Err			e = {0};
	Files	   *f;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		size_t		n = json_values(cases[i].text, strlen(cases[i].text), 100);

		CHECK(n == cases[i].n, "%s: %zu values", cases[i].text, n);
	}
	CHECK(json_values("[[[[[[[[", 8, 3) == 4, "ends behind the limit");

	repeat(&b, "{\"a\":[0", ",0", 300000);
	buf_addstr(&b, "]}");
	put_text("config.json", b.data);
	expect_refused("300,000 values", scratch, ERR_BAD_FILE, "config.json\" has too many JSON values");
	put_text("config.json", "{}");
	/* its tree would take 160 MB */
	repeat(&b, "[0", ",0", 2000000);
	put_text("tokenizer.json", b.data);
	expect_refused("2,000,000 values in 4 MB", scratch, ERR_BAD_FILE,
				   "tokenizer.json\" has too many JSON values");
	unlink(in_scratch("tokenizer.json"));
	put_text("tekken.json", b.data);
	expect_refused("another file", scratch, ERR_BAD_FILE, "tekken.json\" has too many JSON values");
	unlink(in_scratch("tekken.json"));
	put_text("tokenizer_config.json", b.data);
	expect_refused("its configuration", scratch, ERR_BAD_FILE,
				   "tokenizer_config.json\" has too many JSON values");
	unlink(in_scratch("tokenizer_config.json"));
	/* as many merges as a large vocabulary has, with the same lengths */
	repeat(&b, "{\"model\":{\"merges\":[[\"ab\",\"cd\"]", ",[\"abc\",\"def\"]", 300000);
	buf_addstr(&b, "]}}");
	put_text("tokenizer.json", b.data);
	f = files_open(scratch, &e);
	CHECK(f != NULL, "1,200,000 values in 4 MB: %s", e.msg);
	files_close(f);
	unlink(in_scratch("tokenizer.json"));
	buf_free(&b);
}

/* Write an empty safetensors file, so that the directory opens. */
static void
put_weights(void)
{
	put_file("model.safetensors", "\2\0\0\0\0\0\0\0{}", 10);
}

static void
test_directory(void)
{
	Err			e = {0};
	Files	   *f;

	put_weights();
	expect_refused("no config", scratch, ERR_IO, "config.json\": No such file");
	put_text("config.json", "{\"model_type\":\"llama\"");
	expect_refused("bad config", scratch, ERR_BAD_FILE, "config.json\" is not a JSON object");
	put_text("config.json", "{\"model_type\":\"llama\"}");
	put_text("generation_config.json", "oops");
	expect_refused("bad generation config", scratch, ERR_BAD_FILE, "generation_config.json");
	put_text("generation_config.json", "{\"temperature\":0.5,\"eos_token_id\":[1,2]}");
	f = files_open(scratch, &e);
	CHECK(f != NULL, "%s", e.msg);
	if (f != NULL)
	{
		size_t		n;

		CHECK(conf_num(files_conf(f), "generation.temperature", 0) == 0.5, "generation prefix");
		conf_nums(files_conf(f), "generation.eos_token_id", &n);
		CHECK(n == 2, "list of EOS");
	}
	files_close(f);
}

/* Open the scratch directory and return its tokenizer. */
static bool
tokenizer(Files **f, FilesTokenizer *t, Err *e)
{
	memset(e, 0, sizeof(*e));
	*f = files_open(scratch, e);
	CHECK(*f != NULL, "%s", e->msg);
	return *f != NULL && files_tokenizer(*f, t, e);
}

static bool
tokenizer_opens(Err *e)
{
	Files	   *f = files_open(scratch, e);
	bool		ok = f != NULL;

	files_close(f);
	return ok;
}

static void
check_template(const char *what, const char *want)
{
	Files	   *f;
	FilesTokenizer t;
	Err			e;

	if (tokenizer(&f, &t, &e))
	{
		const char *got = template_text(&t, "default");

		CHECK(want == NULL ? got == NULL : got != NULL && strcmp(got, want) == 0,
			  "%s: template \"%s\"", what, got != NULL ? got : "(none)");
	}
	else
		CHECK(false, "%s: %s", what, e.msg);
	files_close(f);
}

static void
test_tokenizer(void)
{
	Files	   *f;
	FilesTokenizer t;
	Err			e;

	CHECK(!tokenizer(&f, &t, &e) && e.cls == ERR_BAD_FILE && strstr(e.msg, "no tokenizer") != NULL, "%s",
		  e.msg);
	files_close(f);
	put_text("qwen.tiktoken", "IQ== 0");
	CHECK(tokenizer(&f, &t, &e) && t.kind == FILES_TOK_TIKTOKEN && t.json_len == 6, "qwen.tiktoken");
	files_close(f);
	put_text("tokenizer.model", "IQ== 0\n");
	CHECK(tokenizer(&f, &t, &e) && t.kind == FILES_TOK_TIKTOKEN && t.json_len == 7,
		  "tiktoken's tokenizer.model");
	files_close(f);
	put_text("tokenizer.model", "\n\x03" "abc");
	CHECK(tokenizer(&f, &t, &e) && t.kind == FILES_TOK_SPM && t.json_len == 5, "SentencePiece's");
	files_close(f);
	put_text("tekken.json", "{}");
	CHECK(tokenizer(&f, &t, &e) && t.kind == FILES_TOK_TEKKEN && t.json_len == 2, "tekken.json");
	files_close(f);
	put_text("tokenizer.json", "{\"a\":1}");
	CHECK(tokenizer(&f, &t, &e) && t.kind == FILES_TOK_HF && t.json_len == 7 &&
		  strcmp(t.json, "{\"a\":1}") == 0 && t.config == NULL && t.gguf == NULL, "tokenizer.json");
	files_close(f);
	check_template("none", NULL);
	put_text("tokenizer_config.json", "{\"chat_template\":\"one\"}");
	check_template("tokenizer_config.json", "one");
	put_text("tokenizer_config.json", "{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"x\"},"
			 "{\"name\":\"default\",\"template\":\"two\"}]}");
	check_template("named templates", "two");
	put_text("chat_template.json", "{\"chat_template\":\"three\"}");
	check_template("chat_template.json", "three");
	put_text("chat_template.jinja", "four");
	check_template("chat_template.jinja", "four");
	put_text("special_tokens_map.json", "[]");
	CHECK(!tokenizer_opens(&e) && e.cls == ERR_BAD_FILE &&
		  strstr(e.msg, "special_tokens_map.json\" is not") != NULL, "%s", e.msg);
	put_text("special_tokens_map.json", "{}");
}

int
main(void)
{
	scratch_make();
	RUN(test_has_nul());
	RUN(test_values());
	RUN(test_infinity());
	RUN(test_lift());
	RUN(test_bad_json());
	RUN(test_directory());
	RUN(test_tokenizer());
	RUN(test_values_counted());
	scratch_remove();
	return check_done("test_load_conf");
}
