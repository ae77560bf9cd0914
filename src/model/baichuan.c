/*
 * baichuan.c
 *	  Baichuan-7B (Baichuan 2023): Llama with q, k and v in one matrix.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/bind.h"

bool
baichuan_conf(const Conf *c, DecoderConf *out, Err *e)
{
	if (!dec_conf(c, out, e))
		return false;
	/* no key says so */
	if (out->n_layers == 40)
		return err_set(e, ERR_UNSUPPORTED, "Baichuan with 40 layers is not supported: it has ALiBi instead of rotary positions");
	if (out->vocab == 125696)
		return err_set(e, ERR_UNSUPPORTED, "Baichuan 2 is not supported: it norms the rows of its head");
	out->interleaved = conf_has(c, "gguf.architecture");
	return true;
}

static bool
baichuan_layer(Binder *b, Decoder *d, Layer *l)
{
	l->o.k = d->c.n_heads * d->c.head_dim;
	return bind_norm(b, &l->attn_norm, "input_layernorm", "attn_norm", d->c.hidden) &&
		(bind_is_gguf(b) ? bind_attn(b, l) : bind_qkv(b, l, "self_attn.W_pack", "", false) &&
		 bind_linear(b, &l->o, "self_attn.o_proj", "", d->c.hidden, false)) &&
		bind_norm(b, &l->mlp_norm, "post_attention_layernorm", "ffn_norm", d->c.hidden) && bind_glu(b, l);
}

bool
baichuan_bind(Binder *b, Decoder *d)
{
	(void) d;
	return bind_embed(b, "model.embed_tokens") && bind_layers(b, "model.layers.", baichuan_layer) &&
		bind_final_norm(b, "model.norm") && bind_head(b, "lm_head");
}
