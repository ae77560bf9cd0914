/*
 * exaone.c
 *	  EXAONE 3 and 3.5 (LG AI Research 2024, arXiv:2408.03541): Llama with different names.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

bool
exaone_conf(const Conf *c, DecoderConf *out, Err *e)
{
	out->eps = 1e-5f;
	out->tied = true;
	return dec_conf_int(c, "num_layers", 1, DEC_MAX_LAYERS, 1, &out->n_layers, e) && dec_conf(c, out, e);
}

static bool
exaone_layer(Binder *b, Decoder *d, Layer *l)
{
	const DecoderConf *c = &d->c;
	int			n = c->n_kv_heads * c->head_dim;

	l->qkv.k = l->up.k = c->hidden;
	l->o.k = c->n_heads * c->head_dim;
	l->down.k = c->inter;
	return bind_norm(b, &l->attn_norm, "ln_1", "attn_norm", c->hidden) &&
		bind_linear(b, &l->qkv, "attn.attention.q_proj", "attn_q", l->o.k, false) &&
		bind_linear(b, &l->qkv, "attn.attention.k_proj", "attn_k", n, false) &&
		bind_linear(b, &l->qkv, "attn.attention.v_proj", "attn_v", n, false) &&
		bind_linear(b, &l->o, "attn.attention.out_proj", "attn_output", c->hidden, false) &&
		bind_norm(b, &l->mlp_norm, "ln_2", "ffn_norm", c->hidden) &&
		bind_linear(b, &l->up, "mlp.c_fc_0", "ffn_gate", c->inter, false) &&
		bind_linear(b, &l->up, "mlp.c_fc_1", "ffn_up", c->inter, false) &&
		bind_linear(b, &l->down, "mlp.c_proj", "ffn_down", c->hidden, false);
}

bool
exaone_bind(Binder *b, Decoder *d)
{
	(void) d;
	return bind_embed(b, "transformer.wte") && bind_layers(b, "transformer.h.", exaone_layer) &&
		bind_final_norm(b, "transformer.ln_f") && bind_head(b, "lm_head");
}
