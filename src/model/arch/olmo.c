/*
 * olmo.c
 *	  OLMo (Groeneveld et al. 2024, arXiv:2402.00838): Llama with layer norms that have no weights, and
 *	  optionally q, k and v clipped to a range.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

bool
olmo_conf(const Conf *c, DecoderConf *out, Err *e)
{
	/* the norms' epsilon is not configurable */
	if (!llama_conf(c, out, e) || !dec_conf_num(c, "clip_qkv", 0, 1e9, 0, &out->clip_qkv, e))
		return false;
	out->eps = 1e-5f;
	out->layer_norm = true;
	return true;
}

static bool
olmo_layer(Binder *b, Decoder *d, Layer *l)
{
	(void) d;
	return bind_attn(b, l) && bind_glu(b, l);
}

bool
olmo_bind(Binder *b, Decoder *d)
{
	(void) d;
	return bind_embed(b, "model.embed_tokens") && bind_layers(b, "model.layers.", olmo_layer) &&
		bind_head(b, "lm_head");
}
