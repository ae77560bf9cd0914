/*
 * glm4.c
 *	  GLM-4-0414: GLM-4 with additional norms after attention and MLP.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

static bool
glm4_layer(Binder *b, Decoder *d, Layer *l)
{
	int			n = d->c.hidden;

	return bind_norm(b, &l->attn_norm, "input_layernorm", "attn_norm", n) && bind_attn(b, l) &&
		bind_norm(b, &l->attn_out_norm, "post_self_attn_layernorm", "post_attention_norm", n) &&
		bind_norm(b, &l->mlp_norm, "post_attention_layernorm", "ffn_norm", n) && bind_glu_fused(b, l) &&
		bind_norm(b, &l->mlp_out_norm, "post_mlp_layernorm", "post_ffw_norm", n);
}

bool
glm4_bind(Binder *b, Decoder *d)
{
	(void) d;
	return bind_embed(b, "model.embed_tokens") && bind_layers(b, "model.layers.", glm4_layer) &&
		bind_final_norm(b, "model.norm") && bind_head(b, "lm_head");
}
