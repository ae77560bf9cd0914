/*
 * gpt_bigcode.c
 *	  SantaCoder and StarCoder (Li et al. 2023, arXiv:2305.06161): GPT-2 with one head of k and v for
 *	  all heads of q.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

bool
gpt_bigcode_conf(const Conf *c, DecoderConf *out, Err *e)
{
	if (conf_bool(c, "multi_query", true))
		out->n_kv_heads = 1;
	return gpt2_common(c, out, e);
}

static bool
gpt_bigcode_layer(Binder *b, Decoder *d, Layer *l)
{
	return bind_norm(b, &l->attn_norm, "ln_1", "attn_norm", d->c.hidden) &&
		bind_qkv(b, l, "attn.c_attn", "attn_qkv", !bind_is_gguf(b)) && bind_o(b, l, "attn.c_proj") &&
		bind_norm(b, &l->mlp_norm, "ln_2", "ffn_norm", d->c.hidden) &&
		bind_mlp(b, l, "mlp.c_fc", "mlp.c_proj");
}

bool
gpt_bigcode_bind(Binder *b, Decoder *d)
{
	(void) d;
	return bind_ignore(b, ".attn.bias") && bind_ignore(b, ".attn.masked_bias") &&
		bind_embed(b, "transformer.wte") && bind_positions(b, "transformer.wpe") &&
		bind_layers(b, "transformer.h.", gpt_bigcode_layer) && bind_final_norm(b, "transformer.ln_f") &&
		bind_head(b, "lm_head");
}
