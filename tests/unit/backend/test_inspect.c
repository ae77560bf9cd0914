/*
 * test_inspect.c
 *	  The result of llm_inspect_model: facts of the files, the memory of a load, and why a load would be
 *	  refused.
 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json/json.h"
#include "backend/inspect.h"
#include "tests/unit/load_util.h"

static bool
plan(const ModelInfo *mi, const PlanFor *f, const ModelOpts *o, const Settings *s, CoreOptions *co,
	 DraftFiles *df, Err *e)
{
	(void) f;
	(void) s;
	(void) df;
	(void) e;
	*co = (CoreOptions) {.block_size = 16,.kv_bytes = 1 << 20,.kv_type = KT_F16};
	co->max_model_len = o->max_model_len > 0 ? o->max_model_len : mi->max_model_len;
	return true;
}

/* Return the result for a path, to be freed; NULL with *e set. */
static Json *
inspect(const char *path, const ModelOpts *o, Err *e)
{
	Settings	s = {0};
	Buf			json = {0};
	Json	   *root = NULL;

	if (inspect_model(path, o, &s, kernels_select("portable", NULL), &(DeviceChoice) {.ops = NULL}, plan,
					  &json, e))
	{
		root = json_parse(json.data, json.len);
		CHECK(root != NULL, "%s: not JSON: %s", path, json.data);
	}
	buf_free(&json);
	return root;
}

static const char *
str(const Json *o, const char *key)
{
	const char *s = json_str_of(json_get(o, key));

	return s != NULL ? s : "";
}

static double
num(const Json *o, const char *key)
{
	const Json *v = json_get(o, key);

	return json_is_number(v) ? v->num : NAN;
}

static void
test_good(const char *path, const char *format, const char *arch, const char *dtype, bool chat)
{
	ModelOpts	o = {.max_model_len = 128};
	Err			e = {0};
	Json	   *j = inspect(path, &o, &e);
	const Json *w;
	double		bytes = 0;

	CHECK(j != NULL, "%s: %s", path, e.msg);
	CHECK(json_is_true(json_get(j, "supported")), "%s is supported", path);
	CHECK(json_get(j, "unsupported") == NULL, "%s: no reason", path);
	CHECK(strcmp(str(j, "format"), format) == 0 && strcmp(str(j, "arch"), arch) == 0 &&
		  strcmp(str(j, "dtype"), dtype) == 0, "%s: %s, %s, %s", path, str(j, "format"), str(j, "arch"),
		  str(j, "dtype"));
	CHECK(num(j, "max_model_len") == 128 && num(j, "vocab_size") == 288, "%s: lengths", path);
	json_each(w, json_get(j, "weights"))
		bytes += num(w, "bytes");
	CHECK(bytes > 0 && bytes == num(j, "file_bytes"), "%s: bytes of all types", path);
	CHECK(num(json_get(j, "tokenizer"), "vocab_size") == 288, "%s: tokenizer", path);
	CHECK(json_is_true(json_get(j, "chat_template")) == chat, "%s: template", path);
	/* 2 layers, K and V of 2 heads of 16, halves */
	CHECK(num(json_get(j, "memory"), "kv_bytes_per_token") == 2 * 2 * 2 * 16 * 2, "%s: KV", path);
	CHECK(num(json_get(j, "memory"), "weight_bytes") > 0, "%s: memory", path);
	json_free(j);
}

/* Sizes under unusual names, and an old key for RoPE scaling. */
static void
test_names(void)
{
	ModelOpts	o = {0};
	Err			e = {0};
	Json	   *j = inspect(FIXTURES "gpt2_f16", &o, &e);

	CHECK(num(j, "hidden_size") > 0 && num(j, "num_hidden_layers") > 0 && num(j, "num_attention_heads") > 0 &&
		  num(j, "num_key_value_heads") == num(j, "num_attention_heads") &&
		  num(j, "max_position_embeddings") > 0, "gpt2: sizes");
	json_free(j);
	j = inspect(FIXTURES "phi3_f16", &o, &e);
	CHECK(strcmp(str(j, "rope_scaling"), "longrope") == 0, "phi3: rope_scaling %s", str(j, "rope_scaling"));
	json_free(j);
}

/* An unknown architecture: the result has the facts, and the reason. */
static void
test_unsupported(void)
{
	static const char config[] = "{\"architectures\": [\"Bard7ForCausalLM\"], \"hidden_size\": 64, "
								 "\"model_type\": \"bard7\"}";
	ModelOpts	o = {0};
	Err			e = {0};
	Json	   *j;
	Buf			weights = {0};
	Buf			tok = {0};

	read_file(FIXTURES "qwen3_f16/model.safetensors", &weights);
	read_file(FIXTURES "qwen3_f16/tokenizer.json", &tok);
	put_file("config.json", config, strlen(config));
	put_file("model.safetensors", weights.data, weights.len);
	put_file("tokenizer.json", tok.data, tok.len);
	j = inspect(in_scratch(""), &o, &e);
	CHECK(j != NULL, "%s", e.msg);
	CHECK(json_is_false(json_get(j, "supported")), "not supported");
	CHECK(strcmp(str(j, "architecture"), "Bard7ForCausalLM") == 0 && num(j, "hidden_size") == 64, "facts");
	CHECK(strcmp(str(json_get(j, "unsupported"), "sqlstate"), "0A000") == 0 &&
		  strstr(str(json_get(j, "unsupported"), "message"), "Bard7ForCausalLM") != NULL, "reason: %s",
		  str(json_get(j, "unsupported"), "message"));
	CHECK(json_get(j, "memory") == NULL, "nothing to say about memory");
	json_free(j);
	put_file("chat_template.jinja", "a\n{% if", 7);
	j = inspect(in_scratch(""), &o, &e);
	CHECK(strstr(str(json_get(j, "chat_template_unsupported"), "message"), "line 2") != NULL,
		  "a broken template");
	json_free(j);
	buf_free(&weights);
	buf_free(&tok);
	CHECK(inspect("/nowhere/at/all", &o, &e) == NULL && e.msg[0] != '\0',
		  "a path that isn't there is an error");
}

int
main(void)
{
	scratch_make();
	RUN(test_good(FIXTURES "qwen3_f16", "safetensors", "qwen3", "F16", true));
	RUN(test_good(FIXTURES "qwen3_f16_f16_gguf.gguf", "gguf", "qwen3", "F16", false));
	RUN(test_names());
	RUN(test_unsupported());
	scratch_remove();
	return check_done("test_inspect");
}
