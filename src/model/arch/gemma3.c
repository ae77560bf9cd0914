/*
 * gemma3.c
 *	  Gemma 3 (Gemma Team 2025, arXiv:2503.19786), its text part: Gemma 2 with norms on the heads of q
 *	  and k instead of soft caps; five of six layers have a window and their own rotary base.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

static bool
is_local(const Conf *c, int layer)
{
	(void) c;
	return (layer + 1) % 6 != 0;
}

bool
gemma3_conf(const Conf *c, DecoderConf *out, Err *e)
{
	Rope	   *all = &out->rope[0];
	Rope	   *local = &out->rope[1];
	int			window;

	/* EmbeddingGemma's windows extend to both sides of a token */
	out->both_ways = conf_bool(c, "use_bidirectional_attention", false);
	/* the larger models' files leave all of this out */
	out->vocab = 262208;
	out->n_heads = 8;
	out->n_kv_heads = 4;
	out->max_len = 131072;
	all->keys = (RopeKeys) {.section = "full_attention", .theta = 1e6};
	if (!gemma_conf(c, out, e) || !gemma2_attn(c, out, 62, e) ||
		!dec_conf_num(c, "final_logit_softcapping", 0, 1e9, 0, &out->logit_softcap, e) ||
		/* this number already includes a scaling of the rotary positions */
		!dec_conf_int(c, "max_position_embeddings", 1, DEC_MAX_LEN, 131072, &out->max_len, e) ||
		!dec_conf_window(c, 4096, true, &window, e))
		return false;
	if (conf_num(c, "attn_logit_softcapping", 0) != 0)
		return err_set(e, ERR_UNSUPPORTED, "\"attn_logit_softcapping\" of Gemma 3 is not supported");
	/* a GGUF file without the key has no windows */
	if (conf_has(c, "gguf.architecture") && !conf_has(c, "sliding_window"))
		return true;
	if (out->both_ways)
		window = window / 2 + 1;
	if (!dec_conf_windows(c, out, window, is_local, e))
		return false;
	for (int i = 0; out->both_ways && i < out->n_layers; i++)
		out->layers[i].ahead = out->layers[i].window > 0 ? window - 1 : 0;
	*local = (Rope) {.dim = all->dim, .keys = {
		.section = "sliding_attention", .theta_key = "rope_local_base_freq", .local = true
	}};
	for (int i = 0; i < out->n_layers; i++)
		out->layers[i].rope = out->layers[i].sliding;
	return true;
}

static bool
gemma3_layer(Binder *b, Decoder *d, Layer *l)
{
	int			n = d->c.hidden;

	return bind_norm(b, &l->attn_norm, "input_layernorm", "attn_norm", n) && bind_attn(b, l) &&
		bind_qk_norm(b, l) && bind_norm(b, &l->attn_out_norm, "post_attention_layernorm",
										"post_attention_norm", n) &&
		bind_norm(b, &l->mlp_norm, "pre_feedforward_layernorm", "ffn_norm", n) && bind_glu(b, l) &&
		bind_norm(b, &l->mlp_out_norm, "post_feedforward_layernorm", "post_ffw_norm", n);
}

bool
gemma3_bind(Binder *b, Decoder *d)
{
	(void) d;
	return bind_embed(b, "model.embed_tokens") && bind_layers(b, "model.layers.", gemma3_layer) &&
		bind_final_norm(b, "model.norm") && bind_head(b, "lm_head");
}
