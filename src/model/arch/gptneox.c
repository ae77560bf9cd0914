/*
 * gptneox.c
 *	  GPT-NeoX and Pythia (Black et al. 2022, arXiv:2204.06745): LayerNorm, rotary positions in a part
 *	  of each head, and attention and MLP in parallel, each with its own norm of the same input.
 *
 * In the file the q, k and v of a head are adjacent; converters to GGUF separate them.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

bool
gptneox_conf(const Conf *c, DecoderConf *out, Err *e)
{
	bool		gguf = conf_has(c, "gguf.architecture");

	out->eps = 1e-5f;
	out->act = KACT_GELU;
	out->rope[0].part = 0.25f;
	out->layer_norm = out->norm_bias = true;
	if (conf_has(c, "rotary_emb_base"))
		out->rope[0].keys.theta_key = "rotary_emb_base";
	if (!dec_conf(c, out, e))
		return false;
	/* GGUF has no key for it, and such files have biases */
	out->qkv_bias = out->o_bias = gguf || conf_bool(c, "attention_bias", true);
	out->mlp_bias = true;
	out->parallel = conf_bool(c, "use_parallel_residual", true);
	return true;
}

static bool
gptneox_layer(Binder *b, Decoder *d, Layer *l)
{
	return bind_norm(b, &l->attn_norm, "input_layernorm", "attn_norm", d->c.hidden) &&
		bind_qkv(b, l, "attention.query_key_value", "attn_qkv", !bind_is_gguf(b)) &&
		bind_o(b, l, "attention.dense") &&
		bind_norm(b, &l->mlp_norm, "post_attention_layernorm", "ffn_norm", d->c.hidden) &&
		bind_mlp(b, l, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h");
}

bool
gptneox_bind(Binder *b, Decoder *d)
{
	(void) d;
	/* masks that old checkpoints store */
	return bind_ignore(b, ".attention.bias") && bind_ignore(b, ".attention.masked_bias") &&
		bind_embed(b, "gpt_neox.embed_in") && bind_layers(b, "gpt_neox.layers.", gptneox_layer) &&
		bind_final_norm(b, "gpt_neox.final_layer_norm") && bind_head(b, "embed_out");
}

void
gptneox_forward(Decoder *d, float *logits)
{
	dec_embed(d);
	for (int i = 0; i < d->c.n_layers; i++)
	{
		const Layer *l = &d->layers[i];

		dec_norm(d, &l->attn_norm);
		dec_qkv(d, l);
		dec_rope(d, l);
		dec_attn(d, l);
		if (!dec_wanted(d, l))
			return;
		if (d->c.parallel)
		{
			dec_norm(d, &l->mlp_norm);	/* of attention's input */
			dec_o(d, l);
			dec_add(d);
		}
		else
		{
			dec_o(d, l);
			dec_norm(d, &l->mlp_norm);
		}
		dec_mlp(d, l);
	}
	dec_head(d, logits);
}
