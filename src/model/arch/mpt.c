/*
 * mpt.c
 *	  MPT (MosaicML 2023): GPT-2's frame with ALiBi, and no biases at all.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

#include <string.h>

/* Check for settings that the reference doesn't compute, or this engine doesn't. */
static bool
mpt_supported(const Conf *c, Err *e)
{
	static const char *const off[] = {"attn_config.qk_ln", "attn_config.prefix_lm"};

	for (size_t i = 0; i < sizeof(off) / sizeof(off[0]); i++)
		if (conf_bool(c, off[i], false))
			return err_set(e, ERR_UNSUPPORTED, "\"%s\" of the mpt architecture is not supported", off[i]);
	if (!conf_bool(c, "no_bias", true))
		return err_set(e, ERR_UNSUPPORTED, "biases of the mpt architecture are not supported");
	if (strcmp(conf_str(c, "attn_config.attn_type", "multihead_attention"), "multihead_attention") != 0)
		return err_set(e, ERR_UNSUPPORTED, "\"attn_type\" of the mpt architecture is not supported");
	if (conf_has(c, "logit_scale"))
		return err_set(e, ERR_UNSUPPORTED, "\"logit_scale\" of the mpt architecture is not supported");
	if (!conf_bool(c, "attn_config.alibi", true))
		return err_set(e, ERR_UNSUPPORTED, "the mpt architecture without \"alibi\" is not supported");
	return true;
}

bool
mpt_conf(const Conf *c, DecoderConf *out, Err *e)
{
	float		max_bias;

	out->eps = 1e-5f;
	out->act = KACT_GELU;
	out->tied = true;
	out->no_rope = true;
	out->layer_norm = true;
	if (!mpt_supported(c, e) || !dec_conf_int(c, "expansion_ratio", 1, 64, 4, &out->mlp_ratio, e) ||
		!dec_conf(c, out, e) ||
		!dec_conf_num(c, conf_has(c, "clip_qkv") ? "clip_qkv" : "attn_config.clip_qkv", -1, 1e9, 0,
					  &out->clip_qkv, e) ||
		!dec_conf_num(c, "attn_config.alibi_bias_max", 0, 1024, 8, &max_bias, e) ||
		!dec_conf_num(c, "attn_config.softmax_scale", 0, 1e6, (double) out->attn_scale, &out->attn_scale, e))
		return false;
	dec_conf_alibi(out, (double) max_bias, 1);
	return true;
}

static bool
mpt_layer(Binder *b, Decoder *d, Layer *l)
{
	return bind_norm(b, &l->attn_norm, "norm_1", "attn_norm", d->c.hidden) &&
		bind_qkv(b, l, "attn.Wqkv", "attn_qkv", false) && bind_o(b, l, "attn.out_proj") &&
		bind_norm(b, &l->mlp_norm, "norm_2", "ffn_norm", d->c.hidden) &&
		bind_mlp(b, l, "ffn.up_proj", "ffn.down_proj");
}

bool
mpt_bind(Binder *b, Decoder *d)
{
	(void) d;
	return bind_embed(b, "transformer.wte") && bind_layers(b, "transformer.blocks.", mpt_layer) &&
		bind_final_norm(b, "transformer.norm_f") && bind_head(b, "lm_head");
}
