/*
 * model_options.c
 *	  The options of a catalog entry: a JSON object with a few known keys.
 *
 * An unknown key is an error that lists the known ones, never ignored.
 * Tested by tests/unit/server/test_models_registry.c and tests/fuzz/fuzz_wire.c.
 */
#include "server/models/registry.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/request/output_parsers.h"
#include "quant/quantize.h"
#include "template/chat_template.h"

/* An option's value is wrong: what it must be, and what it is. */
static bool __attribute__((format(printf, 3, 4)))
opt_wrong(const cJSON *v, Err *e, const char *must,...)
{
	char		text[256];
	char	   *got = cJSON_PrintUnformatted(v);
	va_list		ap;

	va_start(ap, must);
	vsnprintf(text, sizeof(text), must, ap);
	va_end(ap);
	err_set(e, ERR_INVALID, "model option \"%s\" must be %s, got %.64s", v->string, text, got != NULL ? got : "?");
	cJSON_free(got);
	return false;
}

static bool
opt_int(const cJSON *v, int64_t min, int64_t max, int64_t *out, Err *e)
{
	if (!cJSON_IsNumber(v) || v->valuedouble != floor(v->valuedouble) ||
		v->valuedouble < (double) min || v->valuedouble > (double) max)
		return opt_wrong(v, e, "an integer between %" PRId64 " and %" PRId64, min, max);
	*out = (int64_t) v->valuedouble;
	return true;
}

/* auto: as the files have it */
static bool
opt_dtype(const cJSON *v, ModelOpts *o, Err *e)
{
	const QuantScheme *q = cJSON_IsString(v) ? quant_dtype(v->valuestring) : NULL;

	if (q == NULL && !(cJSON_IsString(v) && strcmp(v->valuestring, "auto") == 0))
		return opt_wrong(v, e, "auto, float32, float16 (half) or bfloat16");
	snprintf(o->dtype, sizeof(o->dtype), "%s", q != NULL ? q->name : "");
	return true;
}

/* The object that overrides a model's rotary scaling; what its values may be, the model says. */
static bool
opt_rope_scaling(const cJSON *v, ModelOpts *o, Err *e)
{
	static const char *const known[] = {
		"rope_type", "type", "factor", "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow",
		"mscale", "mscale_all_dim", "truncate", "short_factor", "long_factor", "low_freq_factor", "high_freq_factor",
		"alpha"
	};
	const cJSON *x;
	char	   *text;
	size_t		i;

	if (!cJSON_IsObject(v) || (!cJSON_IsString(cJSON_GetObjectItemCaseSensitive(v, "rope_type")) &&
							   !cJSON_IsString(cJSON_GetObjectItemCaseSensitive(v, "type"))))
		return opt_wrong(v, e, "a JSON object with a \"rope_type\"");
	cJSON_ArrayForEach(x, v)
	{
		for (i = 0; i < sizeof(known) / sizeof(known[0]) && strcmp(known[i], x->string) != 0; i++)
			;
		if (i == sizeof(known) / sizeof(known[0]))
			return err_set(e, ERR_INVALID, "model option \"rope_scaling\" has an unknown key \"%.64s\"", x->string);
	}
	text = cJSON_PrintUnformatted(v);
	if (text == NULL || strlen(text) >= sizeof(o->rope_scaling))
	{
		cJSON_free(text);
		return err_set(e, ERR_INVALID, "model option \"rope_scaling\" is too long (maximum is %zu bytes)",
					   sizeof(o->rope_scaling) - 1);
	}
	snprintf(o->rope_scaling, sizeof(o->rope_scaling), "%s", text);
	cJSON_free(text);
	return true;
}

/* Keys of config.json: whether they make sense is found by who reads it. */
static bool
opt_hf_overrides(const cJSON *v, ModelOpts *o, Err *e)
{
	char	   *text;
	bool		fits;

	if (!cJSON_IsObject(v))
		return opt_wrong(v, e, "a JSON object with keys of config.json");
	text = cJSON_PrintUnformatted(v);
	fits = text != NULL && strlen(text) < sizeof(o->hf_overrides);
	if (fits)
		snprintf(o->hf_overrides, sizeof(o->hf_overrides), "%s", text);
	cJSON_free(text);
	return fits || err_set(e, ERR_INVALID, "model option \"hf_overrides\" is too long (maximum is %zu bytes)",
						   sizeof(o->hf_overrides) - 1);
}

/* false: off, whatever vllm.speculative_config is */
static bool
opt_speculative(const cJSON *v, ModelOpts *o, Err *e)
{
	SpecConfig	c;
	char	   *text;
	bool		ok;

	if (!cJSON_IsObject(v) && !cJSON_IsFalse(v))
		return opt_wrong(v, e, "a JSON object, or false");
	text = cJSON_PrintUnformatted(v);
	ok = text != NULL && strlen(text) < sizeof(o->speculative_config);
	if (ok)
		snprintf(o->speculative_config, sizeof(o->speculative_config), "%s", cJSON_IsFalse(v) ? "null" : text);
	cJSON_free(text);
	if (!ok)
		return err_set(e, ERR_INVALID, "model option \"speculative_config\" is too long (maximum is %zu bytes)",
					   sizeof(o->speculative_config) - 1);
	return spec_config_parse(o->speculative_config, &c, e);
}

static bool
opt_capture_sizes(const cJSON *v, ModelOpts *o, Err *e)
{
	static const char list[] = "a list of 1 to 64 numbers from 1 to 4096";
	const cJSON *x;

	o->n_capture_sizes = 0;
	cJSON_ArrayForEach(x, v)
	{
		if (!cJSON_IsNumber(x) || !(x->valuedouble >= 1 && x->valuedouble <= GRAPH_LARGEST) || x->valuedouble != (int) x->valuedouble ||
			o->n_capture_sizes == GRAPH_SIZES)
			return opt_wrong(v, e, list);
		o->capture_sizes[o->n_capture_sizes++] = (int) x->valuedouble;
	}
	return (cJSON_IsArray(v) && o->n_capture_sizes > 0) || opt_wrong(v, e, list);
}

static bool
opt_lora_dtype(const cJSON *v, ModelOpts *o, Err *e)
{
	if (!cJSON_IsString(v) || !lora_dtype_ok(v->valuestring))
		return opt_wrong(v, e, "auto, float16, bfloat16 or float32");
	snprintf(o->lora_dtype, sizeof(o->lora_dtype), "%s", v->valuestring);
	return true;
}

/* Seconds, or a number with a unit as settings have it; -1 = for ever. */
static bool
opt_keep_alive(const cJSON *v, ModelOpts *o, Err *e)
{
	static const struct
	{
		const char *unit;
		double		s;
	}			units[] = {{"", 1}, {"ms", 0.001}, {"s", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}};
	double		n = v->valuedouble;
	double		s = cJSON_IsNumber(v) ? 1 : 0;

	if (cJSON_IsString(v))
	{
		char	   *unit;

		n = strtod(v->valuestring, &unit);
		for (size_t i = 0; unit != v->valuestring && i < sizeof(units) / sizeof(units[0]); i++)
			if (strcmp(unit + strspn(unit, " "), units[i].unit) == 0)
				s = units[i].s;
	}
	if (s == 0 || !(n == -1 || (n >= 0 && n * s <= INT_MAX)))
		return opt_wrong(v, e, "seconds, a text such as \"5min\", or -1 (for ever)");
	o->has_keep_alive = true;
	o->keep_alive = n < 0 ? -1 : (int64_t) ceil(n * s);
	return true;
}

static bool
opt_kv_dtype(const cJSON *v, ModelOpts *o, Err *e)
{
	KType		type;

	if (!cJSON_IsString(v) || !settings_kv_type(v->valuestring, KT_F32, &type))
		return opt_wrong(v, e, KV_DTYPES);
	snprintf(o->kv_cache_dtype, sizeof(o->kv_cache_dtype), "%s", v->valuestring);
	return true;
}

static bool
opt_quantization(const cJSON *v, ModelOpts *o, Err *e)
{
	const QuantScheme *q = cJSON_IsString(v) ? quant_scheme(v->valuestring) : NULL;

	if (q == NULL)
		return opt_wrong(v, e, "%s", quant_scheme_list());
	snprintf(o->quantization, sizeof(o->quantization), "%s", q->name);
	return true;
}

static bool
opt_gpu_part(const cJSON *v, ModelOpts *o, Err *e)
{
	if (!cJSON_IsNumber(v) || !(v->valuedouble >= GPU_PART_LEAST && v->valuedouble <= 1))
		return opt_wrong(v, e, "a number from 0.05 to 1");
	o->gpu_memory_utilization = v->valuedouble;
	return true;
}

/* Those that only who asks looks at, and has looked at already. */
static bool
is_askers(const char *name)
{
	static const char *const names[] = {"prices", "fallback", "cascade", "result_cache"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

static bool
opt_one(const cJSON *v, ModelOpts *o, Err *e)
{
	static const struct
	{
		const char *name;
		size_t		off;
		int64_t		min;
		int64_t		max;
	}			ints[] = {
		{"max_model_len", offsetof(ModelOpts, max_model_len), 1, INT_MAX},
		{"max_num_seqs", offsetof(ModelOpts, max_num_seqs), 1, 4096},
		{"max_num_batched_tokens", offsetof(ModelOpts, max_num_batched_tokens), 1, 65536},
		{"max_num_partial_prefills", offsetof(ModelOpts, max_num_partial_prefills), 1, 4096},
		{"max_long_partial_prefills", offsetof(ModelOpts, max_long_partial_prefills), 1, 4096},
		{"long_prefill_token_threshold", offsetof(ModelOpts, long_prefill_token_threshold), 1, INT_MAX},
		{"max_loras", offsetof(ModelOpts, max_loras), 1, LORA_MAX_CACHED},
		{"max_cpu_loras", offsetof(ModelOpts, max_cpu_loras), 1, LORA_MAX_CACHED},
		{"max_lora_rank", offsetof(ModelOpts, max_lora_rank), 1, 512},
	};
	/* 1, -1; 0 = not given */
	static const struct
	{
		const char *name;
		size_t		off;
	}			switches[] = {
		{"disable_hybrid_kv_cache_manager", offsetof(ModelOpts, no_windows)},
		{"calculate_kv_scales", offsetof(ModelOpts, kv_scales)},
		{"enable_prefix_caching", offsetof(ModelOpts, prefix_caching)},
		{"enforce_eager", offsetof(ModelOpts, enforce_eager)},
		{"fp8_activations", offsetof(ModelOpts, fp8_activations)},
		{"enable_lora", offsetof(ModelOpts, enable_lora)},
	};
	static const struct
	{
		const char *name;
		bool		(*take) (const cJSON *v, ModelOpts *o, Err *e);
	}			others[] = {
		{"kv_cache_dtype", opt_kv_dtype}, {"quantization", opt_quantization}, {"dtype", opt_dtype}, {"rope_scaling", opt_rope_scaling}, {"hf_overrides", opt_hf_overrides},
		{"speculative_config", opt_speculative}, {"cudagraph_capture_sizes", opt_capture_sizes}, {"lora_dtype", opt_lora_dtype}, {"gpu_memory_utilization", opt_gpu_part},
	};
	const ToolFormat *tools;
	const ReasonFormat *reason;
	ChatFormat	format;
	int64_t		n;

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strcmp(v->string, others[i].name) == 0)
			return others[i].take(v, o, e);
	for (size_t i = 0; i < sizeof(ints) / sizeof(ints[0]); i++)
		if (strcmp(v->string, ints[i].name) == 0)
		{
			if (!opt_int(v, ints[i].min, ints[i].max, &n, e))
				return false;
			if (ints[i].off == offsetof(ModelOpts, max_lora_rank) && !lora_rank_ok((int) n))
				return opt_wrong(v, e, "one of " LORA_RANKS);
			*(int *) ((char *) o + ints[i].off) = (int) n;
			return true;
		}
	if (strcmp(v->string, "kv_cache_memory_bytes") == 0)
		return opt_int(v, 1 << 16, INT64_C(1) << 46, &o->kv_cache_memory_bytes, e);
	if (strcmp(v->string, "rope_theta") == 0)
	{
		if (!cJSON_IsNumber(v) || !(v->valuedouble > 0 && v->valuedouble <= 1e12))
			return opt_wrong(v, e, "a number above 0 and at most 1e12");
		o->rope_theta = v->valuedouble;
		return true;
	}
	if (strcmp(v->string, "jump_forward") == 0)
	{
		o->no_jump = cJSON_IsFalse(v);
		return cJSON_IsBool(v) || opt_wrong(v, e, "true or false");
	}
	for (size_t i = 0; i < sizeof(switches) / sizeof(switches[0]); i++)
		if (strcmp(v->string, switches[i].name) == 0)
		{
			*(int *) ((char *) o + switches[i].off) = cJSON_IsTrue(v) ? 1 : -1;
			return cJSON_IsBool(v) || opt_wrong(v, e, "true or false");
		}
	if (strcmp(v->string, "keep_alive") == 0)
		return opt_keep_alive(v, o, e);
	/* chatmodel_of_options() reads these */
	if (strcmp(v->string, "content_format") == 0)
		return (cJSON_IsString(v) && chat_format_by_name(v->valuestring, &format)) || opt_wrong(v, e, "auto, string or openai");
	if (strcmp(v->string, "chat_template") == 0)
		return cJSON_IsString(v) || opt_wrong(v, e, "a chat template, or the path of a file with one");
	/* parsing_of_chat() reads these */
	if (strcmp(v->string, "tool_call_parser") == 0)
		return cJSON_IsString(v) ? tool_parser_by_name(v->valuestring, strlen(v->valuestring), &tools, e) :
			opt_wrong(v, e, "the name of a tool parser");
	if (strcmp(v->string, "reasoning_parser") == 0)
		return cJSON_IsString(v) ? reasoning_parser_by_name(v->valuestring, strlen(v->valuestring), &reason, e) :
			opt_wrong(v, e, "the name of a reasoning parser");
	if (strcmp(v->string, "exclude_tools_when_tool_choice_none") == 0)
		return cJSON_IsBool(v) || opt_wrong(v, e, "true or false");
	if (is_askers(v->string))
		return true;
	err_set(e, ERR_INVALID, "unknown model option \"%.64s\"", v->string);
	return err_hint(e, "Known options are max_model_len, kv_cache_dtype, calculate_kv_scales, disable_hybrid_kv_cache_manager, kv_cache_memory_bytes, gpu_memory_utilization, "
					"max_num_seqs, max_num_batched_tokens, max_num_partial_prefills, max_long_partial_prefills, long_prefill_token_threshold, quantization, dtype, rope_scaling, rope_theta, hf_overrides, jump_forward, keep_alive, enable_prefix_caching, enforce_eager, cudagraph_capture_sizes, fp8_activations, speculative_config, enable_lora, max_loras, max_cpu_loras, max_lora_rank, lora_dtype, chat_template, content_format, tool_call_parser, reasoning_parser, exclude_tools_when_tool_choice_none, prices, fallback, cascade and result_cache.");
}

const QuantScheme *
model_opts_scheme(const ModelOpts *o)
{
	return o->quantization[0] != '\0' ? quant_scheme(o->quantization) : quant_dtype(o->dtype);
}

bool
lora_limits(const ModelOpts *o, const Settings *s, LoraLimits *out, Err *e)
{
	int			cpu = o->max_cpu_loras > 0 ? o->max_cpu_loras : s->max_cpu_loras;

	out->enabled = o->enable_lora == 0 ? s->enable_lora : o->enable_lora > 0;
	out->max_loras = o->max_loras > 0 ? o->max_loras : s->max_loras;
	out->max_cpu_loras = cpu > 0 ? cpu : out->max_loras;
	out->max_rank = o->max_lora_rank > 0 ? o->max_lora_rank : s->max_lora_rank;
	snprintf(out->dtype, sizeof(out->dtype), "%s", o->lora_dtype[0] != '\0' ? o->lora_dtype : s->lora_dtype);
	if (out->max_cpu_loras >= out->max_loras)
		return true;
	err_set(e, ERR_INVALID, "max_cpu_loras (%d) must be at least max_loras (%d)", out->max_cpu_loras, out->max_loras);
	return err_hint(e, "They are options of a model, or the settings vllm.max_cpu_loras and vllm.max_loras.");
}

bool
model_opts_parse(const char *json, ModelOpts *out, Err *e)
{
	cJSON	   *root;
	bool		ok = true;

	memset(out, 0, sizeof(*out));
	if (json == NULL || json[0] == '\0')
		return true;
	root = cJSON_ParseWithOpts(json, NULL, true);
	if (!cJSON_IsObject(root))
	{
		cJSON_Delete(root);
		return err_set(e, ERR_INVALID, "model options must be a JSON object");
	}
	for (const cJSON *v = root->child; v != NULL && ok; v = v->next)
		ok = cJSON_IsNull(v) || opt_one(v, out, e);
	cJSON_Delete(root);
	if (ok && out->max_cpu_loras > 0 && out->max_cpu_loras < out->max_loras)
		ok = err_set(e, ERR_INVALID, "model option \"max_cpu_loras\" (%d) must be at least max_loras (%d)", out->max_cpu_loras,
					 out->max_loras);
	return ok;
}
