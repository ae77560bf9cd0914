/*
 * apertus.c
 *	  Apertus (Swiss AI 2025, arXiv:2509.14233): Llama with norms on the heads of q and k, and an
 *	  MLP without a gate whose activation, xIELU, has learned slopes.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

/* alpha_p, alpha_n, beta, eps */
static const char *const tensors[4] = {
	"mlp.act_fn.alpha_p", "mlp.act_fn.alpha_n", "mlp.act_fn.beta", "mlp.act_fn.eps"
};
static const char *const keys[4] = {
	"gguf.xielu_alpha_p", "gguf.xielu_alpha_n", "gguf.xielu_beta", "gguf.xielu_eps"
};

/* Read the slopes; GGUF has one number of each for each layer. */
static bool
slopes(const Conf *c, DecoderConf *out, Err *e)
{
	for (int i = 0; i < 4; i++)
	{
		size_t		n;
		const double *v = conf_nums(c, keys[i], &n);

		if (v == NULL || n != (size_t) out->n_layers)
			return err_set(e, ERR_BAD_FILE, "model configuration has %zu numbers \"%s\", expected %d", n,
						   keys[i], out->n_layers);
		for (int j = 0; j < out->n_layers; j++)
			out->layers[j].xielu[i] = (float) v[j];
	}
	return true;
}

bool
apertus_conf(const Conf *c, DecoderConf *out, Err *e)
{
	bool		gguf = conf_has(c, "gguf.architecture");

	out->eps = 1e-5f;
	out->rope[0].keys.theta = 12e6;
	out->xielu = true;
	if (!dec_conf(c, out, e))
		return false;
	out->qkv_bias = out->o_bias = conf_bool(c, "attention_bias", false);
	if (gguf)
		return slopes(c, out, e);
	/* by default transformers uses Llama 3's scaling with other numbers */
	if (!conf_has(c, "rope_parameters.rope_type") && !conf_has(c, "rope_scaling.rope_type") &&
		!conf_has(c, "rope_scaling.type"))
		return err_set(e, ERR_BAD_FILE, "model configuration has no \"rope_scaling\"");
	return true;
}

static bool
apertus_layer(Binder *b, Decoder *d, Layer *l)
{
	for (int i = 0; d->c.xielu && !bind_is_gguf(b) && i < 4; i++)
		if (!bind_table(b, &l->xielu[i], tensors[i], "", 1, 0, BIND_SAME))
			return false;
	return bind_norm(b, &l->attn_norm, "attention_layernorm", "attn_norm", d->c.hidden) && bind_attn(b, l) &&
		bind_qk_norm(b, l) && bind_norm(b, &l->mlp_norm, "feedforward_layernorm", "ffn_norm", d->c.hidden) &&
		bind_mlp(b, l, "mlp.up_proj", "mlp.down_proj");
}

bool
apertus_bind(Binder *b, Decoder *d)
{
	(void) d;
	return bind_embed(b, "model.embed_tokens") && bind_layers(b, "model.layers.", apertus_layer) &&
		bind_final_norm(b, "model.norm") && bind_head(b, "lm_head");
}

void
apertus_forward(Decoder *d, float *logits)
{
	dec_embed(d);
	for (int i = 0; i < d->c.n_layers; i++)
	{
		const Layer *l = &d->layers[i];

		dec_norm(d, &l->attn_norm);
		dec_qkv(d, l);
		dec_qk_norm(d, l);
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
