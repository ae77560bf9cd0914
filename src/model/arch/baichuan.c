/*
 * baichuan.c
 *	  Baichuan (Baichuan 2023, arXiv:2309.10305): Llama with q, k and v in one matrix.  The larger
 *	  model, of 13B, has ALiBi instead of rotary positions, and the second generation normalizes the
 *	  rows of its head.
 *
 * Tested by tests/golden/models_golden.c and tests/unit/model/test_model.c.
 */
#include "model/layers/bind.h"

/* No key says which of the models it is: recognize them by their sizes. */
#define LAYERS_13B	40
#define VOCAB_2		125696

bool
baichuan_conf(const Conf *c, DecoderConf *out, Err *e)
{
	out->no_rope = conf_int(c, "num_hidden_layers", 0) == LAYERS_13B;
	if (!dec_conf_int(c, "model_max_length", 1, DEC_MAX_LEN, 4096, &out->max_len, e) || !dec_conf(c, out, e))
		return false;
	if (out->no_rope)
		dec_conf_alibi(out, 8, 1);
	out->head_norm = out->vocab == VOCAB_2;
	out->interleaved = out->permuted = conf_has(c, "gguf.architecture");
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
