/*
 * llama.c
 *	  Llama (Touvron et al. 2023, arXiv:2302.13971) and similar models: pre-norm by RMSNorm, rotary
 *	  positions, grouped-query attention, SwiGLU.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include <string.h>

#include "model/layers/bind.h"

bool
llama_conf(const Conf *c, DecoderConf *out, Err *e)
{
	/* only for GGUF's "mistral3" */
	out->rope[0].keys.tempered = conf_has(c, "gguf.architecture");
	if (!dec_conf(c, out, e) || (out->rope[0].keys.tempered && !dec_conf_temper(c, out, e)))
		return false;
	if (conf_int(c, "num_local_experts", 0) > 0)
	{
		/* GGUF's "llama" is also Mixtral */
		if (strcmp(conf_str(c, "gguf.architecture", ""), "llama") != 0)
			return err_set(e, ERR_UNSUPPORTED, "mixtures of experts are not supported in this architecture");
		out->moe.normalize = true;
		if (!dec_conf_moe(c, out, e))
			return false;
	}
	/* one switch for q, k, v and o, as in the reference */
	out->qkv_bias = out->o_bias = conf_bool(c, "attention_bias", false);
	out->mlp_bias = conf_bool(c, "mlp_bias", false);
	if (!conf_has(c, "gguf.architecture"))
		return true;
	out->o_bias = conf_bool(c, "attention_out_bias", false);
	/* llama.cpp's converter reorders q and k; GGUF's "llama" is also Mistral and Mixtral */
	out->interleaved = out->permuted = true;
	return mistral_windows(c, out, 0, e);
}

/* Mixtral's names */
static const MoeNames names = {
	.router = "block_sparse_moe.gate", .experts = "block_sparse_moe.experts", .gate = "w1", .up = "w3",
	.down = "w2",
};

static bool
llama_layer(Binder *b, Decoder *d, Layer *l)
{
	return bind_norm(b, &l->attn_norm, "input_layernorm", "attn_norm", d->c.hidden) && bind_attn(b, l) &&
		bind_norm(b, &l->mlp_norm, "post_attention_layernorm", "ffn_norm", d->c.hidden) &&
		(l->c->moe ? bind_moe(b, l, &names) : bind_glu(b, l));
}

bool
llama_bind(Binder *b, Decoder *d)
{
	(void) d;
	return bind_embed(b, "model.embed_tokens") && bind_layers(b, "model.layers.", llama_layer) &&
		bind_final_norm(b, "model.norm") && bind_head(b, "lm_head");
}

void
llama_forward(Decoder *d, float *logits)
{
	dec_embed(d);
	for (int i = 0; i < d->c.n_layers; i++)
	{
		const Layer *l = &d->layers[i];

		dec_norm(d, &l->attn_norm);
		dec_qkv(d, l);
		dec_rope(d, l);
		dec_temper(d, l);
		dec_attn(d, l);
		if (!dec_wanted(d, l))
			return;
		dec_o(d, l);

		dec_norm(d, &l->mlp_norm);
		dec_ffn(d, l);
	}
	dec_head(d, logits);
}
