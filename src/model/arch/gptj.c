/*
 * gptj.c
 *	  GPT-J (Wang and Komatsuzaki 2021): Phi's blocks with fewer biases; rotary pairs are adjacent in
 *	  the file.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

bool
gptj_conf(const Conf *c, DecoderConf *out, Err *e)
{
	out->eps = 1e-5f;
	out->mlp_ratio = 4;
	out->act = KACT_GELU_TANH;
	out->layer_norm = out->norm_bias = true;
	out->mlp_bias = out->head_bias = true;
	out->interleaved = true;
	return dec_conf(c, out, e);
}

static bool
gptj_layer(Binder *b, Decoder *d, Layer *l)
{
	return bind_norm(b, &l->attn_norm, "ln_1", "", d->c.hidden) && bind_qkv_apart(b, l, "attn.") &&
		bind_o(b, l, "attn.out_proj") && bind_mlp(b, l, "mlp.fc_in", "mlp.fc_out");
}

bool
gptj_bind(Binder *b, Decoder *d)
{
	(void) d;
	/* masks that old checkpoints store */
	return bind_ignore(b, ".attn.bias") && bind_ignore(b, ".attn.masked_bias") &&
		bind_embed(b, "transformer.wte") && bind_layers(b, "transformer.h.", gptj_layer) &&
		bind_final_norm(b, "transformer.ln_f") && bind_head(b, "lm_head");
}
