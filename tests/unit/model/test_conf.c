/*
 * test_conf.c
 *	  Keys of config.json that are absent, null or given: the meaning of each in transformers'
 *	  configuration classes, for each architecture in which the three differ.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "loader/hf_config.h"
#include "model/decoder.h"
#include "tests/unit/check.h"

typedef bool (*ConfFn) (const Conf *c, DecoderConf *out, Err *e);

/* 8 heads of 8, 64 layers: some architectures have windows in the upper ones only */
#define SIZES "\"hidden_size\": 64, \"intermediate_size\": 64, \"num_hidden_layers\": 64, " \
			  "\"num_attention_heads\": 8, " \
	"\"vocab_size\": 10, \"max_position_embeddings\": 8192"
#define EXPERTS ", \"n_routed_experts\": 4, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 8"
#define LATENT ", \"kv_lora_rank\": 8, \"qk_rope_head_dim\": 4, \"qk_nope_head_dim\": 4, \"v_head_dim\": 4" \
	EXPERTS

static bool
read_conf(ConfFn fn, const char *more, DecoderConf *out, Err *e)
{
	Conf	   *c = conf_new();
	char		json[1024];
	bool		ok;

	memset(out, 0, sizeof(*out));
	memset(e, 0, sizeof(*e));
	snprintf(json, sizeof(json), "{" SIZES "%s}", more);
	ok = hfconfig_parse(c, "", json, strlen(json), "config.json", e) && fn(c, out, e);
	conf_free(c);
	return ok;
}

typedef enum Field
{
	ATTN_CAP, LOGIT_CAP, WINDOW_FIRST, WINDOW_LAST, KV_HEADS, HEAD_DIM, Q_LATENT, PARALLEL, INTERLEAVED,
	ROPE_LAST
} Field;

static double
field(const DecoderConf *o, Field f)
{
	const LayerConf *last = &o->layers[o->n_layers - 1];

	switch (f)
	{
		case ATTN_CAP:
			return (double) o->attn_softcap;
		case LOGIT_CAP:
			return (double) o->logit_softcap;
		case WINDOW_FIRST:
			return o->layers[0].window;
		case WINDOW_LAST:
			return last->window;
		case KV_HEADS:
			return o->n_kv_heads;
		case HEAD_DIM:
			return o->head_dim;
		case Q_LATENT:
			return o->mla.q_latent;
		case PARALLEL:
			return o->parallel;
		case INTERLEAVED:
			return o->interleaved;
		case ROPE_LAST:
			return last->rope;
	}
	return NAN;
}

/* The result of a key that is absent, null, and has a value; NAN: an error. */
typedef struct Case
{
	const char *arch;
	ConfFn		fn;
	const char *more;			/* other keys */
	const char *key;
	const char *value;
	Field		field;
	double		absent;
	double		null;
	double		there;
} Case;

#define ARCH(name) #name, name ## _conf

static const Case cases[] = {
	{ARCH(gemma2), "", "attn_logit_softcapping", "20", ATTN_CAP, 50, 0, 20},
	{ARCH(gemma2), "", "final_logit_softcapping", "20", LOGIT_CAP, 30, 0, 20},
	{ARCH(gemma2), "", "sliding_window", "20", WINDOW_FIRST, 4096, NAN, 20},
	{ARCH(gemma2), "", "num_key_value_heads", "2", KV_HEADS, 4, 8, 2},
	{ARCH(gemma2), "", "head_dim", "16", HEAD_DIM, 256, 8, 16},
	{ARCH(gemma3), "", "final_logit_softcapping", "20", LOGIT_CAP, 0, 0, 20},
	{ARCH(gemma3), "", "sliding_window", "20", WINDOW_FIRST, 4096, NAN, 20},
	{ARCH(cohere2), "", "sliding_window", "20", WINDOW_FIRST, 4096, NAN, 20},
	{ARCH(olmo3), "", "sliding_window", "20", WINDOW_FIRST, 4096, NAN, 20},
	{ARCH(gpt_oss), EXPERTS, "sliding_window", "20", WINDOW_FIRST, 128, NAN, 20},
	{ARCH(mistral), "", "sliding_window", "20", WINDOW_LAST, 4096, 0, 20},
	{ARCH(mistral), "", "num_key_value_heads", "2", KV_HEADS, 8, 8, 2},
	{ARCH(mixtral), EXPERTS, "num_key_value_heads", "2", KV_HEADS, 8, 8, 2},
	{ARCH(qwen3), "", "head_dim", "16", HEAD_DIM, 128, 8, 16},
	{ARCH(mixtral), EXPERTS, "sliding_window", "20", WINDOW_LAST, 0, 0, 20},
	{ARCH(phimoe), EXPERTS, "sliding_window", "20", WINDOW_LAST, 0, 0, 20},
	{ARCH(phi3), "", "sliding_window", "20", WINDOW_LAST, 0, 0, 20},
	{ARCH(starcoder2), "", "sliding_window", "20", WINDOW_LAST, 0, 0, 20},
	{ARCH(dots1), EXPERTS, "sliding_window", "20", WINDOW_LAST, 4096, 0, 20},
	{ARCH(exaone4), "", "sliding_window", "20", WINDOW_FIRST, 4096, 0, 20},
	{ARCH(exaone4), "", "sliding_window", "20", ROPE_LAST, -1, 0, -1},
	{ARCH(qwen2), ", \"use_sliding_window\": true", "sliding_window", "20", WINDOW_LAST, 4096, 0, 20},
	{ARCH(qwen2), ", \"use_sliding_window\": false", "sliding_window", "20", WINDOW_LAST, 0, 0, 0},
	{ARCH(qwen3), ", \"use_sliding_window\": true", "sliding_window", "20", WINDOW_LAST, 4096, 0, 20},
	{ARCH(qwen3_moe), EXPERTS ", \"use_sliding_window\": true", "sliding_window", "20", WINDOW_LAST, 4096, 0,
	 20},
	{ARCH(smollm3), ", \"use_sliding_window\": true", "sliding_window", "20", WINDOW_LAST, 0, 0, 20},
	{ARCH(smollm3), "", "num_key_value_heads", "2", KV_HEADS, 4, 8, 2},
	{ARCH(glm), "", "num_key_value_heads", "4", KV_HEADS, 2, 8, 4},
	{ARCH(glm), "", "head_dim", "16", HEAD_DIM, 128, 8, 16},
	{ARCH(ernie4_5), "", "num_key_value_heads", "4", KV_HEADS, 2, 8, 4},
	{ARCH(ernie4_5), "", "head_dim", "16", HEAD_DIM, 128, 8, 16},
	{ARCH(seed_oss), "", "head_dim", "16", HEAD_DIM, 128, 8, 16},
	{ARCH(deepseek2), LATENT, "q_lora_rank", "16", Q_LATENT, 1536, 0, 16},
	{ARCH(deepseek3), LATENT, "q_lora_rank", "16", Q_LATENT, 1536, 0, 16},
	{ARCH(glm4_moe_lite), LATENT, "q_lora_rank", "16", Q_LATENT, 768, 0, 16},
	{ARCH(deepseek3), LATENT, "rope_interleave", "true", INTERLEAVED, 1, 0, 1},
	{ARCH(falcon), "", "multi_query", "true", KV_HEADS, 1, 8, 1},
	{ARCH(falcon), "", "parallel_attn", "true", PARALLEL, 1, 0, 1},
	{ARCH(falcon), ", \"new_decoder_architecture\": true", "num_kv_heads", "2", KV_HEADS, 8, 8, 2},
};

static void
check_case(const Case *t, const char *how, const char *value, double want)
{
	char		more[512];
	DecoderConf o;
	Err			e;
	bool		ok;

	if (value != NULL)
		snprintf(more, sizeof(more), "%s, \"%s\": %s", t->more, t->key, value);
	else
		snprintf(more, sizeof(more), "%s", t->more);
	ok = read_conf(t->fn, more, &o, &e);
	if (isnan(want))
		CHECK(!ok && e.cls == ERR_BAD_FILE && strstr(e.msg, t->key) != NULL, "%s with %s %s: %s", t->arch,
			  t->key, how, ok ? "passes" : e.msg);
	else
		CHECK(ok && field(&o, t->field) == want, "%s with %s %s: %g, expected %g (%s)", t->arch, t->key, how,
			  ok ? field(&o, t->field) : NAN, want, e.msg);
	dec_conf_free(&o);
}

/* The first of a key's names that has a value is used; the error about a missing one uses the first name. */
static void
test_names(void)
{
	DecoderConf o;
	Err			e;

	CHECK(!read_conf(mixtral_conf, "", &o, &e) && strstr(e.msg, "no \"num_experts\"") != NULL,
		  "no experts: %s", e.msg);
	dec_conf_free(&o);
	CHECK(!read_conf(mixtral_conf, ", \"num_local_experts\": 4", &o, &e) &&
		  strstr(e.msg, "no \"num_experts_per_tok\"") != NULL, "none chosen: %s", e.msg);
	dec_conf_free(&o);
	CHECK(read_conf(mixtral_conf, ", \"num_experts\": null, \"moe_num_experts\": 4, \"moe_k\": 3, "
								  "\"num_experts_per_tok\": 2", &o, &e) &&
		  o.moe.n_experts == 4 && o.moe.top_k == 2, "%s: %d experts, %d chosen", e.msg, o.moe.n_experts,
		  o.moe.top_k);
	dec_conf_free(&o);
	CHECK(!read_conf(llama_conf, ", \"hidden_size\": null", &o, &e) &&
		  strstr(e.msg, "no \"hidden_size\"") != NULL, "no size: %s", e.msg);
	dec_conf_free(&o);
	CHECK(read_conf(llama_conf, ", \"hidden_size\": null, \"n_embd\": 32, \"d_model\": 16", &o, &e) &&
		  o.hidden == 32, "%s: %d", e.msg, o.hidden);
	dec_conf_free(&o);
}

static void
test_limits(void)
{
	DecoderConf o;
	Err			e;

	CHECK(read_conf(mixtral_conf, ", \"num_hidden_layers\": 128, \"num_experts\": 1024, "
								  "\"num_experts_per_tok\": 2", &o, &e), "%s", e.msg);
	dec_conf_free(&o);
	CHECK(!read_conf(mixtral_conf, ", \"num_hidden_layers\": 129, \"num_experts\": 1024, "
								   "\"num_experts_per_tok\": 2", &o, &e) &&
		  e.cls == ERR_BAD_FILE && strstr(e.msg, "1024 experts in each of 129 layers") != NULL, "%s", e.msg);
	dec_conf_free(&o);
}

int
main(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		RUN(check_case(&cases[i], "absent", NULL, cases[i].absent));
		RUN(check_case(&cases[i], "null", "null", cases[i].null));
		RUN(check_case(&cases[i], "there", cases[i].value, cases[i].there));
	}
	RUN(test_names());
	RUN(test_limits());
	return check_done("test_conf");
}
