/*
 * modernbert.c
 *	  ModernBERT (Warner et al. 2024, arXiv:2412.13663): norms before the blocks, rotation, a gate in
 *	  the MLP, no biases.  Every third layer attends to all tokens, the others only to near ones, with
 *	  a rotary base of their own.  The first layer has no norm: the embedding's norm is directly before
 *	  it.
 *
 * Tested by tests/golden/encoders_golden.c.
 */
#include "model/layers/encoder.h"

#include <string.h>

/* Set the layers that attend only to `half` tokens before and after. */
static bool
local_layers(const Conf *c, DecoderConf *out, int half, int every, Err *e)
{
	size_t		n;
	const char *const *types = conf_strs(c, "layer_types", &n);
	char		buf[65];

	if (types != NULL && n != (size_t) out->n_layers)
		return err_set(e, ERR_BAD_FILE, "model configuration has %zu \"layer_types\", expected %d", n,
					   out->n_layers);
	for (int i = 0; i < out->n_layers; i++)
	{
		LayerConf  *l = &out->layers[i];

		l->sliding = types != NULL ? strcmp(types[i], "sliding_attention") == 0 : i % every != 0;
		if (types != NULL && !l->sliding && strcmp(types[i], "full_attention") != 0)
			return err_set(e, ERR_UNSUPPORTED, "layer type \"%s\" is not supported",
						   dec_printable(types[i], buf, sizeof(buf)));
		if (!l->sliding)
			continue;
		l->window = half + 1;
		l->ahead = half;
		l->rope = 1;
	}
	return true;
}

bool
modernbert_conf(const Conf *c, DecoderConf *out, Err *e)
{
	bool		gguf = conf_has(c, "gguf.architecture");
	Rope	   *all = &out->rope[0];
	int			window;
	int			every;

	enc_defaults(out);
	out->glu = true;
	out->eps = 1e-5f;
	out->inter = 1152;
	out->n_layers = 22;
	out->max_len = 8192;
	all->keys = (RopeKeys) {
		.section = "full_attention", .theta_key = gguf ? NULL : "global_rope_theta", .theta = 160000
	};
	if (!enc_conf(c, out, e) ||
		!dec_conf_int(c, gguf ? "sliding_window" : "local_attention", 2, DEC_MAX_LEN, 128, &window, e) ||
		!dec_conf_int(c, gguf ? "sliding_window_pattern" : "global_attn_every_n_layers", 1, DEC_MAX_LAYERS, 3,
					  &every, e) ||
		!local_layers(c, out, window / 2, every, e))
		return false;
	out->post_norm = false;
	out->norm_bias = conf_bool(c, "norm_bias", false);
	out->qkv_bias = out->o_bias = conf_bool(c, "attention_bias", false);
	out->mlp_bias = out->down_bias = conf_bool(c, "mlp_bias", false);
	out->rope[1] = (Rope) {.dim = all->dim, .keys = {
		.section = "sliding_attention", .theta_key = gguf ? "rope_local_base_freq" : "local_rope_theta",
		.theta = 10000, .local = true
	}};
	return true;
}

static bool
modernbert_layer(Binder *b, Decoder *d, Layer *l)
{
	const DecoderConf *c = &d->c;

	l->up.k = c->hidden;
	l->down.k = c->inter;
	return (l == &d->layers[0] || bind_norm(b, &l->attn_norm, "attn_norm", "attn_norm", c->hidden)) &&
		bind_qkv(b, l, "attn.Wqkv", "attn_qkv", false) && bind_o(b, l, "attn.Wo") &&
		bind_norm(b, &l->mlp_norm, "mlp_norm", "ffn_norm", c->hidden) &&
		bind_linear(b, &l->up, "mlp.Wi", "ffn_up", 2 * c->inter, c->mlp_bias) &&
		bind_linear(b, &l->down, "mlp.Wo", "ffn_down", c->hidden, c->down_bias);
}

/* Bind the head.  The layers of the masked language model's head also come before a classifier, of texts
 * and of tokens. */
static bool
modernbert_head(Binder *b, Decoder *d)
{
	const Conf *conf = bind_conf(b);
	const char *pooling = conf_str(conf, "classifier_pooling", "cls");
	const char *name = conf_str(conf, "classifier_activation", "gelu");
	char		buf[65];
	HeadAct		act;

	if (d->c.head <= HEAD_BARE)
		return bind_ignore_under(b, "head.") && bind_ignore_under(b, "decoder.");
	if (strcmp(pooling, "mean") == 0)
		d->classifier_pool = POOL_MEAN;
	else if (strcmp(pooling, "cls") != 0)
		return err_set(bind_err(b), ERR_UNSUPPORTED, "\"classifier_pooling\" \"%s\" is not supported",
					   dec_printable(pooling, buf, sizeof(buf)));
	return head_act(name, &act, bind_err(b)) &&
		bind_classifier_dense(b, "head.dense", "", d->c.hidden, act,
							  conf_bool(conf, "classifier_bias", false)) &&
		bind_classifier_norm(b, "head.norm", "") && bind_classifier(b, "classifier", "", true);
}

bool
modernbert_bind(Binder *b, Decoder *d)
{
	return bind_embed(b, "model.embeddings.tok_embeddings") &&
		bind_norm(b, &d->embed_norm, "model.embeddings.norm", "token_embd_norm", d->c.hidden) &&
		bind_layers(b, "model.layers.", modernbert_layer) && bind_final_norm(b, "model.final_norm") &&
		modernbert_head(b, d);
}

void
modernbert_forward(Decoder *d, float *out)
{
	dec_embed(d);
	dec_embed_norm(d);
	for (int i = 0; i < d->c.n_layers; i++)
	{
		const Layer *l = &d->layers[i];

		if (i == 0)
			dec_plain(d);
		else
			dec_norm(d, &l->attn_norm);
		dec_qkv(d, l);
		dec_rope(d, l);
		dec_attn(d, l);
		if (!dec_wanted(d, l))
			return;
		dec_o(d, l);

		dec_norm(d, &l->mlp_norm);
		dec_glu(d, l);
	}
	dec_head(d, out);
}
