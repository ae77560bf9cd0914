/*
 * bloom.c
 *	  BLOOM (Le Scao et al. 2022, arXiv:2211.05100): ALiBi instead of positions, and a
 *	  LayerNorm of the embedding.
 *
 * In the file the q, k and v of a head are adjacent; converters to GGUF separate them.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

bool
bloom_conf(const Conf *c, DecoderConf *out, Err *e)
{
	out->eps = 1e-5f;
	out->mlp_ratio = 4;
	out->max_len = 2048;
	out->act = KACT_GELU_TANH;
	out->tied = true;
	/* published models name this class, and generate text all the same */
	if (out->head == HEAD_BARE)
		out->head = HEAD_LM;
	out->no_rope = true;
	out->layer_norm = out->norm_bias = true;
	out->qkv_bias = out->o_bias = out->mlp_bias = true;
	if (conf_bool(c, "apply_residual_connection_post_layernorm", false))
		return err_set(e, ERR_UNSUPPORTED,
					   "\"apply_residual_connection_post_layernorm\" of the bloom architecture is not "
					   "supported");
	if (!dec_conf(c, out, e))
		return false;
	dec_conf_alibi(out, 8, 1);
	return true;
}

static bool
bloom_layer(Binder *b, Decoder *d, Layer *l)
{
	return bind_norm(b, &l->attn_norm, "input_layernorm", "attn_norm", d->c.hidden) &&
		bind_qkv(b, l, "self_attention.query_key_value", "attn_qkv", !bind_is_gguf(b)) &&
		bind_o(b, l, "self_attention.dense") &&
		bind_norm(b, &l->mlp_norm, "post_attention_layernorm", "ffn_norm", d->c.hidden) &&
		bind_mlp(b, l, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h");
}

bool
bloom_bind(Binder *b, Decoder *d)
{
	return bind_embed(b, "transformer.word_embeddings") &&
		bind_norm(b, &d->embed_norm, "transformer.word_embeddings_layernorm", "token_embd_norm",
				  d->c.hidden) &&
		bind_layers(b, "transformer.h.", bloom_layer) && bind_final_norm(b, "transformer.ln_f") &&
		bind_head(b, "lm_head");
}

void
bloom_forward(Decoder *d, float *logits)
{
	dec_embed(d);
	dec_embed_norm(d);
	for (int i = 0; i < d->c.n_layers; i++)
	{
		const Layer *l = &d->layers[i];

		dec_norm(d, &l->attn_norm);
		dec_qkv(d, l);
		dec_attn(d, l);
		if (!dec_wanted(d, l))
			return;
		dec_o(d, l);

		dec_norm(d, &l->mlp_norm);
		dec_mlp(d, l);
	}
	dec_head(d, logits);
}
