/*
 * llama.c
 *	  Llama (Touvron et al. 2023, arXiv:2302.13971) and all that are built alike:
 *	  pre-norm by RMSNorm, rotary positions, grouped-query attention, SwiGLU.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/decoder.h"

bool
llama_conf(const Conf *c, DecoderConf *out, Err *e)
{
	if (!dec_conf(c, out, e))
		return false;
	/* one switch for q, k, v and o, as in the reference */
	out->qkv_bias = out->o_bias = conf_bool(c, "attention_bias", false);
	out->mlp_bias = conf_bool(c, "mlp_bias", false);
	return true;
}

void
llama_forward(Decoder *d, float *logits)
{
	dec_embed(d);
	for (int i = 0; i < d->c.n_layers; i++)
	{
		const Layer *l = &d->layers[i];

		dec_norm(d, l->attn_norm);
		dec_qkv(d, l);
		dec_rope(d);
		dec_attn(d, i);
		if (i == d->c.n_layers - 1 && !dec_wanted(d))
			return;
		dec_o(d, l);

		dec_norm(d, l->mlp_norm);
		dec_swiglu(d, l);
	}
	dec_head(d, logits);
}
