/*
 * gpt2.c
 *	  GPT-2 (Radford et al. 2019), and the frame of similar models: LayerNorm before each block,
 *	  learned positions, an MLP without a gate.
 *
 * Its matrices are stored transposed, as [inputs][outputs]; converters to GGUF transpose them.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

/* Read the settings that GPT-2 and its descendants share. */
bool
gpt2_common(const Conf *c, DecoderConf *out, Err *e)
{
	out->eps = 1e-5f;
	out->mlp_ratio = 4;
	out->act = KACT_GELU_TANH;
	out->tied = true;
	out->no_rope = true;
	out->layer_norm = out->norm_bias = true;
	out->qkv_bias = out->o_bias = out->mlp_bias = true;
	if (!dec_conf(c, out, e))
		return false;
	if (conf_bool(c, "add_cross_attention", false))
		return err_set(e, ERR_UNSUPPORTED, "cross-attention is not supported");
	out->n_pos = out->max_len;
	if (!conf_bool(c, "scale_attn_weights", true))
		out->attn_scale = 1;
	return true;
}

bool
gpt2_conf(const Conf *c, DecoderConf *out, Err *e)
{
	if (!gpt2_common(c, out, e))
		return false;
	if (out->n_kv_heads != out->n_heads)
		return err_set(e, ERR_BAD_FILE, "model configuration has \"num_key_value_heads\" = %d, expected %d",
					   out->n_kv_heads, out->n_heads);
	if (conf_bool(c, "scale_attn_by_inverse_layer_idx", false))
		for (int i = 0; i < out->n_layers; i++)
			out->layers[i].attn_scale = out->attn_scale / (float) (i + 1);
	return true;
}

static bool
gpt2_layer(Binder *b, Decoder *d, Layer *l)
{
	int			hidden = d->c.hidden;
	int			inter = d->c.inter;

	if (!bind_norm(b, &l->attn_norm, "ln_1", "attn_norm", hidden) ||
		!bind_norm(b, &l->mlp_norm, "ln_2", "ffn_norm", hidden))
		return false;
	if (bind_is_gguf(b))
		return bind_qkv(b, l, "", "attn_qkv", false) && bind_o(b, l, "") && bind_mlp(b, l, "", "");
	l->qkv.k = l->o.k = l->up.k = hidden;
	l->down.k = inter;
	return bind_transposed(b, &l->qkv, "attn.c_attn", "", 3 * hidden, true) &&
		bind_transposed(b, &l->o, "attn.c_proj", "", hidden, true) &&
		bind_transposed(b, &l->up, "mlp.c_fc", "", inter, true) &&
		bind_transposed(b, &l->down, "mlp.c_proj", "", hidden, true);
}

bool
gpt2_bind(Binder *b, Decoder *d)
{
	(void) d;
	/* masks that old checkpoints store */
	return bind_ignore(b, ".attn.bias") && bind_ignore(b, ".attn.masked_bias") &&
		bind_embed(b, "transformer.wte") && bind_positions(b, "transformer.wpe") &&
		bind_layers(b, "transformer.h.", gpt2_layer) && bind_final_norm(b, "transformer.ln_f") &&
		bind_head(b, "lm_head");
}

void
gpt2_forward(Decoder *d, float *logits)
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
		dec_o(d, l);

		dec_norm(d, &l->mlp_norm);
		dec_mlp(d, l);
	}
	dec_head(d, logits);
}
