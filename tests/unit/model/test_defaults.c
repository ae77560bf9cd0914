/*
 * test_defaults.c
 *	  The values of absent configuration keys: the defaults of the classes in transformers, which
 *	  checkpoints may leave out, though those of the golden tests don't.
 */
#include <math.h>
#include <string.h>

#include "model/decoder.h"
#include "tests/unit/check.h"
#include "tests/unit/model/tiny_conf.h"

/* Defaults of transformers' classes for keys that checkpoints may leave out. */
static void
test_defaults(void)
{
	static const struct
	{
		const char *what;
		bool		(*conf) (const Conf *c, DecoderConf *out, Err *e);
		bool		tied;
		double		eps;
		double		theta;
		int			head_dim;
		int			rotary;
		KAct		act;
		bool		qkv_bias;
	}			rows[] = {
		{"llama", llama_conf, false, 1e-6, 10000, 4, 4, KACT_SILU, false},
		{"mistral", mistral_conf, false, 1e-6, 10000, 4, 4, KACT_SILU, false},
		{"mixtral", mixtral_conf, false, 1e-5, 1e6, 4, 4, KACT_SILU, false},
		{"qwen2", qwen2_conf, false, 1e-6, 10000, 4, 4, KACT_SILU, true},
		{"gemma", gemma_conf, true, 1e-6, 10000, 256, 256, KACT_GELU_TANH, false},
		{"gemma2", gemma2_conf, true, 1e-6, 10000, 256, 256, KACT_GELU_TANH, false},
		{"gemma3", gemma3_conf, true, 1e-6, 1e6, 256, 256, KACT_GELU_TANH, false},
		{"phi3", phi3_conf, false, 1e-5, 10000, 4, 4, KACT_SILU, false},
		{"phimoe", phimoe_conf, false, 1e-5, 1e6, 4, 4, KACT_SILU, false},
		{"smollm3", smollm3_conf, true, 1e-6, 2e6, 4, 4, KACT_SILU, false},
		{"olmo2", olmo2_conf, false, 1e-5, 10000, 4, 4, KACT_SILU, false},
		{"olmo3", olmo3_conf, false, 1e-5, 500000, 4, 4, KACT_SILU, false},
		{"olmoe", olmoe_conf, false, 1e-5, 10000, 4, 4, KACT_SILU, false},
		{"granite", granite_conf, false, 1e-6, 10000, 4, 4, KACT_SILU, false},
		{"granitemoe", granitemoe_conf, false, 1e-6, 10000, 4, 4, KACT_SILU, false},
		{"minicpm", minicpm_conf, true, 1e-6, 10000, 4, 4, KACT_SILU, false},
		{"internlm3", internlm3_conf, false, 1e-5, 10000, 128, 128, KACT_SILU, false},
		{"glm", glm_conf, false, 1.5625e-7, 10000, 128, 64, KACT_SILU, true},
		{"glm4_moe", glm4_moe_conf, false, 1e-5, 10000, 4, 2, KACT_SILU, false},
		{"cohere", cohere_conf, true, 1e-5, 500000, 4, 4, KACT_SILU, false},
		{"cohere2", cohere2_conf, true, 1e-5, 10000, 4, 4, KACT_SILU, false},
		{"nemotron", nemotron_conf, false, 1e-5, 10000, 4, 2, KACT_RELU2, false},
		{"arcee", arcee_conf, false, 1e-5, 10000, 4, 4, KACT_RELU2, false},
		{"ernie4_5", ernie4_5_conf, true, 1e-5, 500000, 128, 128, KACT_SILU, false},
		{"ernie4_5_moe", ernie4_5_moe_conf, true, 1e-5, 500000, 4, 4, KACT_SILU, false},
		{"seed_oss", seed_oss_conf, false, 1e-6, 10000, 128, 128, KACT_SILU, true},
		{"hunyuan", hunyuan_conf, false, 1e-5, 10000, 4, 4, KACT_SILU, false},
		{"exaone", exaone_conf, true, 1e-5, 10000, 4, 4, KACT_SILU, false},
		{"exaone4", exaone4_conf, false, 1e-5, 10000, 4, 4, KACT_SILU, false},
		{"minimax_m2", minimax_m2_conf, false, 1e-6, 5e6, 4, 4, KACT_SILU, false},
		{"gpt_oss", gpt_oss_conf, false, 1e-5, 150000, 64, 64, KACT_SWIGLU_OAI, true},
		{"starcoder2", starcoder2_conf, true, 1e-5, 10000, 4, 4, KACT_GELU_TANH, true},
		{"gptneox", gptneox_conf, false, 1e-5, 10000, 4, 0, KACT_GELU, true},
		{"phi", phi_conf, false, 1e-5, 10000, 4, 2, KACT_GELU_TANH, true},
		{"gptj", gptj_conf, false, 1e-5, 10000, 4, 4, KACT_GELU_TANH, false},
		{"stablelm", stablelm_conf, false, 1e-5, 10000, 4, 0, KACT_SILU, false},
		{"falcon", falcon_conf, true, 1e-5, 10000, 4, 4, KACT_GELU, false},
		{"gpt2", gpt2_conf, true, 1e-5, 0, 4, 0, KACT_GELU_TANH, true},
		{"gpt_bigcode", gpt_bigcode_conf, true, 1e-5, 0, 4, 0, KACT_GELU_TANH, true},
		{"opt", opt_conf, true, 1e-5, 0, 4, 0, KACT_RELU, true},
		{"bloom", bloom_conf, true, 1e-5, 0, 4, 0, KACT_GELU_TANH, true},
		{"mpt", mpt_conf, true, 1e-5, 0, 4, 0, KACT_GELU, false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
	{
		Conf	   *c = tiny_conf();
		DecoderConf o = {0};
		Err			e = {0};
		bool		ok;
		double		theta = 10000;

		/* where a quarter would split a pair */
		if (rows[i].rotary == 0 && rows[i].theta > 0)
			conf_set_int(c, "head_dim", 16);
		if (strcmp(rows[i].what, "gpt2") == 0)
			conf_set_int(c, "num_key_value_heads", 2);
		conf_set_int(c, "num_local_experts", 4);
		conf_set_int(c, "num_experts_per_tok", 2);
		ok = rows[i].conf(c, &o, &e);
		if (!ok && strstr(e.msg, "mixtures of experts") != NULL)
		{
			conf_free(c);
			dec_conf_free(&o);
			c = tiny_conf();
			memset(&o, 0, sizeof(o));
			ok = rows[i].conf(c, &o, &e);
		}
		CHECK(ok, "%s: %s", rows[i].what, e.msg);
		if (o.rope[0].keys.theta > 0)
			theta = o.rope[0].keys.theta;
		CHECK(o.tied == rows[i].tied, "%s: tied %d", rows[i].what, o.tied);
		CHECK(o.eps == (float) rows[i].eps, "%s: epsilon %g", rows[i].what, (double) o.eps);
		CHECK(rows[i].theta == 0 || theta == rows[i].theta, "%s: theta %g", rows[i].what, theta);
		CHECK(o.act == rows[i].act, "%s: activation %d", rows[i].what, o.act);
		CHECK(o.qkv_bias == rows[i].qkv_bias, "%s: bias of q, k, v %d", rows[i].what, o.qkv_bias);
		CHECK(o.head_dim == (conf_has(c, "head_dim") ? 16 : rows[i].head_dim), "%s: head_dim %d",
			  rows[i].what, o.head_dim);
		CHECK(o.rope[0].dim == (conf_has(c, "head_dim") ? 4 : rows[i].rotary), "%s: rotary %d", rows[i].what,
			  o.rope[0].dim);
		dec_conf_free(&o);
		conf_free(c);
	}
}

/* Keys that few classes have. */
static void
test_own_defaults(void)
{
	Conf	   *c = tiny_conf();
	Err			e = {0};
	DecoderConf o = {0};

	conf_set_int(c, "num_hidden_layers", 8);
	CHECK(gemma2_conf(c, &o, &e) && o.attn_softcap == 50 && o.logit_softcap == 30 &&
		  o.attn_scale == 1.0f / 16, "gemma2: %s", e.msg);
	dec_conf_free(&o);
	o = (DecoderConf) {0};
	conf_set_bool(c, "bias", true);
	CHECK(internlm3_conf(c, &o, &e) && o.o_bias && o.mlp_bias && !o.qkv_bias, "internlm3: %s", e.msg);
	dec_conf_free(&o);
	conf_set_bool(c, "qkv_bias", true);
	o = (DecoderConf) {0};
	CHECK(internlm3_conf(c, &o, &e) && o.qkv_bias, "internlm3: %s", e.msg);
	dec_conf_free(&o);
	o = (DecoderConf) {0};
	conf_set_num(c, "logit_scale", 0.5);
	conf_set_int(c, "model_max_length", 100);
	CHECK(cohere_conf(c, &o, &e) && o.logit_scale == 0.5f && o.max_len == 100, "cohere: %s", e.msg);
	dec_conf_free(&o);
	conf_free(c);

	c = tiny_conf();
	o = (DecoderConf) {0};
	CHECK(cohere_conf(c, &o, &e) && o.logit_scale == 0.0625f, "cohere: %s", e.msg);
	dec_conf_free(&o);
	o = (DecoderConf) {0};
	conf_set_bool(c, "new_decoder_architecture", true);
	conf_set_int(c, "num_kv_heads", 1);
	CHECK(falcon_conf(c, &o, &e) && o.two_norms, "falcon: %s", e.msg);
	dec_conf_free(&o);
	o = (DecoderConf) {0};
	CHECK(mamba_conf(c, &o, &e) && o.ssm.state == 16 && o.ssm.width == 4 && o.ssm.inner == 16 &&
		  o.ssm.dt_rank == 1 && o.tied, "mamba: %s", e.msg);
	dec_conf_free(&o);
	conf_set_int(c, "num_local_experts", 4);
	conf_set_int(c, "num_experts_per_tok", 2);
	o = (DecoderConf) {0};
	CHECK(ernie4_5_moe_conf(c, &o, &e) && o.moe.normalize_min == 1e-12f && o.moe.shared_inter == 24 &&
		  !o.layers[0].moe && o.layers[1].moe, "ernie4_5_moe: %s", e.msg);
	dec_conf_free(&o);
	conf_set_int(c, "num_hidden_layers", 4);
	conf_set_bool(c, "use_sliding_window", true);
	conf_set_int(c, "sliding_window", 8);
	conf_set_int(c, "max_window_layers", 3);
	conf_set_num(c, "rope_parameters.full_attention.rope_theta", 10000);
	conf_set_num(c, "rope_parameters.sliding_attention.rope_theta", 100);
	o = (DecoderConf) {0};
	CHECK(olmo3_conf(c, &o, &e) && dec_conf_ropes(c, &o, &e) && o.layers[0].rope == 1 &&
		  o.layers[3].rope == 0 && fabsf(o.rope[0].inv_freq[1] - 0.01f) < 1e-6f &&
		  fabsf(o.rope[1].inv_freq[1] - 0.1f) < 1e-6f, "olmo3: %s", e.msg);
	dec_conf_free(&o);
	conf_set_int(c, "shared_expert_intermediate_size", 4);
	o = (DecoderConf) {0};
	CHECK(dots1_conf(c, &o, &e) && o.layers[2].window == 0 && o.layers[3].window == 8, "dots1: %s", e.msg);
	dec_conf_free(&o);
	o = (DecoderConf) {0};
	CHECK(qwen2_moe_conf(c, &o, &e) && o.layers[0].window == 8 && o.layers[1].window == 0 &&
		  o.layers[2].window == 8 && o.layers[3].window == 0, "qwen2_moe: %s", e.msg);
	dec_conf_free(&o);
	conf_free(c);
}

/* The share of a head that is rotated, computed as in Python's double. */
static void
test_rotary_share(void)
{
	static const double share[][3] = {{80, 0.4, 32}, {80, 0.9, 72}, {20, 0.7, 14}, {64, 0.25, 16},
									  {128, 0.75, 96}};

	for (size_t i = 0; i < sizeof(share) / sizeof(share[0]); i++)
	{
		Conf	   *c = tiny_conf();
		DecoderConf o = {0};
		Err			e = {0};

		conf_set_num(c, "head_dim", share[i][0]);
		conf_set_num(c, "partial_rotary_factor", share[i][1]);
		CHECK(dec_conf(c, &o, &e) && o.rope[0].dim == (int) share[i][2], "%g of %g: %d %s", share[i][1],
			  share[i][0], o.rope[0].dim, e.msg);
		dec_conf_free(&o);
		conf_free(c);
	}
}

int
main(void)
{
	RUN(test_defaults());
	RUN(test_own_defaults());
	RUN(test_rotary_share());
	return check_done("test_defaults");
}
