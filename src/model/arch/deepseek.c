/*
 * deepseek.c
 *	  DeepSeek-V2 (2024, arXiv:2405.04434) and V3 (2024, arXiv:2412.19437), whose architecture Kimi-K2
 *	  and others use: latent attention, and many small experts after a few layers without experts.
 *
 * They differ in how experts are chosen: V2 by softmax, from the groups with the best
 * experts; V3 by sigmoid and a learned correction.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include <string.h>

#include "model/layers/bind.h"

/* Check that a string key, if present, has one of two values. */
static bool
one_of(const Conf *c, const char *key, const char *a, const char *b, Err *e)
{
	const char *v = conf_str(c, key, a);
	char		buf[65];

	return strcmp(v, a) == 0 || strcmp(v, b) == 0 ||
		err_set(e, ERR_UNSUPPORTED, "\"%s\" = \"%s\" is not supported in this architecture", key,
				dec_printable(v, buf, sizeof(buf)));
}

static bool
deepseek_layers(const Conf *c, DecoderConf *o, Err *e)
{
	int			dense;
	int			shared;
	int			every;

	if (!dec_conf_moe(c, o, e) ||
		!dec_conf_int(c, "first_k_dense_replace", 0, DEC_MAX_LAYERS, 0, &dense, e) ||
		!dec_conf_int(c, "n_shared_experts", 0, KROUTE_MAX_EXPERTS, 0, &shared, e) ||
		!dec_conf_int(c, "moe_layer_freq", 1, DEC_MAX_LAYERS, 1, &every, e))
		return false;
	if (every != 1)
		return err_set(e, ERR_UNSUPPORTED, "\"moe_layer_freq\" = %d is not supported", every);
	if ((int64_t) shared * o->moe.inter > DEC_MAX_INTER)
		return err_set(e, ERR_BAD_FILE, "model configuration has \"n_shared_experts\" = %d", shared);
	o->moe.shared_inter = shared * o->moe.inter;
	for (int i = 0; i < dense && i < o->n_layers; i++)
		o->layers[i].moe = false;
	return true;
}

bool
deepseek_sigmoid(const Conf *c, DecoderConf *o, Err *e)
{
	o->moe.routing = KROUTE_SIGMOID;
	o->moe.correction = true;
	o->moe.group_by = KGROUP_TOP2;
	return deepseek_layers(c, o, e);
}

static bool
common(const Conf *c, DecoderConf *o, Err *e)
{
	int			extra;

	if (o->mla.q_latent == 0)
		o->mla.q_latent = 1536;
	if (!dec_conf_mla(c, o, e) || !dec_conf(c, o, e) ||
		!dec_conf_int(c, "gguf.nextn_predict_layers", 0, o->n_layers - 1, 0, &extra, e))
		return false;
	/* GGUF may count drafting layers */
	o->n_layers -= extra;
	o->qkv_bias = o->o_bias = conf_bool(c, "attention_bias", false);
	o->mlp_bias = conf_bool(c, "mlp_bias", false);
	o->interleaved = conf_bool(c, "rope_interleave", true);
	return true;
}

bool
deepseek3_conf(const Conf *c, DecoderConf *o, Err *e)
{
	o->moe.normalize = !conf_has(c, "gguf.architecture");
	return common(c, o, e) && deepseek_sigmoid(c, o, e) && one_of(c, "scoring_func", "sigmoid", "sigmoid",
																  e) &&
		one_of(c, "topk_method", "noaux_tc", "noaux_tc", e);
}

bool
deepseek2_conf(const Conf *c, DecoderConf *o, Err *e)
{
	/* GGUF has one architecture for both */
	if (conf_int(c, "gguf.expert_gating_func", 1) == 2)
		return deepseek3_conf(c, o, e);
	o->moe.routing = KROUTE_SOFTMAX;
	o->moe.group_by = KGROUP_MAX;
	if (!common(c, o, e) || !deepseek_layers(c, o, e) || !one_of(c, "scoring_func", "softmax", "softmax",
																 e) ||
		!one_of(c, "topk_method", "greedy", "group_limited_greedy", e))
		return false;
	if (!conf_has(c, "gguf.architecture") && strcmp(conf_str(c, "topk_method", "greedy"), "greedy") == 0)
		o->moe.n_groups = 1;
	if (o->moe.normalize)
		return err_set(e, ERR_UNSUPPORTED, "\"norm_topk_prob\" is not supported in this architecture");
	return true;
}

/* GLM-4.7-Flash is V3 except for the key that says which layers have experts. */
bool
glm4_moe_lite_conf(const Conf *c, DecoderConf *o, Err *e)
{
	size_t		n;
	const char *const *types = conf_strs(c, "mlp_layer_types", &n);

	o->eps = 1e-5f;
	o->mla.q_latent = 768;
	if (!deepseek3_conf(c, o, e))
		return false;
	if (types != NULL && n != (size_t) o->n_layers)
		return err_set(e, ERR_BAD_FILE, "model configuration has %zu \"mlp_layer_types\", expected %d", n,
					   o->n_layers);
	for (int i = 0; i < o->n_layers; i++)
		o->layers[i].moe = types != NULL ? strcmp(types[i], "sparse") == 0 : i > 0;
	return true;
}

static bool
deepseek_layer(Binder *b, Decoder *d, Layer *l)
{
	return bind_norm(b, &l->attn_norm, "input_layernorm", "attn_norm", d->c.hidden) && bind_mla(b, l) &&
		bind_norm(b, &l->mlp_norm, "post_attention_layernorm", "ffn_norm", d->c.hidden) && bind_ffn(b, l);
}

bool
deepseek_bind(Binder *b, Decoder *d)
{
	(void) d;
	bind_ignore_extra_layers(b);
	return bind_embed(b, "model.embed_tokens") && bind_layers(b, "model.layers.", deepseek_layer) &&
		bind_final_norm(b, "model.norm") && bind_head(b, "lm_head");
}

void
deepseek_forward(Decoder *d, float *logits)
{
	dec_embed(d);
	for (int i = 0; i < d->c.n_layers; i++)
	{
		const Layer *l = &d->layers[i];

		dec_norm(d, &l->attn_norm);
		dec_mla(d, l);
		if (!dec_wanted(d, l))
			return;
		dec_o(d, l);

		dec_norm(d, &l->mlp_norm);
		dec_ffn(d, l);
	}
	dec_head(d, logits);
}
