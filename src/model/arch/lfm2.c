/*
 * lfm2.c
 *	  LFM2 (Liquid AI 2025, arXiv:2511.23404): most layers have a short convolution between two gates
 *	  instead of attention; all layers but the first ones may have experts.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include <string.h>

#include "model/layers/bind.h"

/* Compute the MLP's width from the stated one; if the file has both keys, the older one counts. */
static bool
width(const Conf *c, DecoderConf *out, Err *e)
{
	float		factor;
	int			multiple;
	double		inter;

	if (!dec_conf_int(c, "block_ff_dim", 1, DEC_MAX_INTER, out->inter, &out->inter, e))
		return false;
	if (!conf_bool(c, "block_auto_adjust_ff_dim", true))
		return true;
	if (conf_is_null(c, "block_ffn_dim_multiplier"))
	{
		/* without rounding to a multiple */
		out->inter = (int) (2 * (int64_t) out->inter / 3);
		return out->inter > 0 || err_set(e, ERR_BAD_FILE, "model configuration has an invalid "
														  "\"block_ff_dim\"");
	}
	if (!dec_conf_num(c, "block_ffn_dim_multiplier", 0, 1e3, 1, &factor, e) ||
		!dec_conf_int(c, "block_multiple_of", 1, DEC_MAX_INTER, 256, &multiple, e))
		return false;
	inter = (double) (int64_t) ((double) factor * (double) (2 * (int64_t) out->inter / 3));
	if (!(inter >= 1 && inter <= DEC_MAX_INTER - multiple))
		return err_set(e, ERR_BAD_FILE, "model configuration has an invalid \"block_ffn_dim_multiplier\"");
	out->inter = ((int) inter + multiple - 1) / multiple * multiple;
	return true;
}

/* Read the kinds of layers: by type, or by the numbers of those with attention; GGUF gives the others no
 * KV heads. */
static bool
kinds(const Conf *c, DecoderConf *out, Err *e)
{
	size_t		n_types;
	size_t		n;
	const char *const *types = conf_strs(c, "layer_types", &n_types);
	const double *full = conf_nums(c, "full_attn_idxs", &n);
	char		buf[65];

	if (types != NULL && n_types != (size_t) out->n_layers)
		return err_set(e, ERR_BAD_FILE, "model configuration has %zu \"layer_types\", expected %d", n_types,
					   out->n_layers);
	for (int i = 0; types != NULL && i < out->n_layers; i++)
	{
		out->layers[i].recurrent = strcmp(types[i], "conv") == 0;
		if (!out->layers[i].recurrent && strcmp(types[i], "full_attention") != 0)
			return err_set(e, ERR_UNSUPPORTED, "layer type \"%s\" is not supported",
						   dec_printable(types[i], buf, sizeof(buf)));
	}
	for (int i = 0; types == NULL && full != NULL && i < out->n_layers; i++)
		out->layers[i].recurrent = true;
	for (size_t i = 0; types == NULL && i < n; i++)
		if (full[i] >= 0 && full[i] < out->n_layers)
			out->layers[(int) full[i]].recurrent = false;
	return true;
}

/* Read the common settings.  inter: default of the MLP's width; adjust: the stated width is that of an
 * MLP without a gate. */
static bool
common(const Conf *c, DecoderConf *out, int inter, bool adjust, Err *e)
{
	bool		gguf = conf_has(c, "gguf.architecture");
	SsmConf    *s = &out->ssm;

	out->hybrid = true;
	out->eps = 1e-5f;
	out->max_len = 128000;
	out->n_kv_heads = gguf ? 0 : 8;
	out->rope[0].keys.theta = 1e6;
	out->tied = true;
	out->inter = gguf ? 0 : inter;
	if (!dec_conf(c, out, e) || (!gguf && ((adjust && !width(c, out, e)) || !kinds(c, out, e))))
		return false;
	/* the older key counts */
	out->tied = conf_bool(c, "tie_embedding", out->tied);
	s->short_conv = s->first = true;
	s->inner = out->hidden;
	s->conv_bias = s->in_bias = s->out_bias = conf_bool(c, "conv_bias", false);
	return dec_conf_int(c, "conv_L_cache", 2, KCONV_MAX, 3, &s->width, e);
}

bool
lfm2_conf(const Conf *c, DecoderConf *out, Err *e)
{
	return common(c, out, 12288, true, e);
}

bool
lfm2_moe_conf(const Conf *c, DecoderConf *out, Err *e)
{
	bool		gguf = conf_has(c, "gguf.architecture");
	int			dense;

	out->moe.routing = KROUTE_SIGMOID;
	out->moe.correction = conf_bool(c, "use_expert_bias", true);
	out->moe.normalize = true;
	out->moe.n_experts = gguf ? 0 : 32;
	out->moe.top_k = gguf ? 0 : 4;
	out->moe.inter = gguf ? 0 : 1792;
	if (!common(c, out, 7168, false, e) || !dec_conf_moe(c, out, e) ||
		!dec_conf_int(c, gguf ? "first_k_dense_replace" : "num_dense_layers", 0, DEC_MAX_LAYERS, gguf ? 0 : 2,
					  &dense, e))
		return false;
	for (int i = 0; i < dense && i < out->n_layers; i++)
		out->layers[i].moe = false;
	return true;
}

static bool
short_conv(Binder *b, Decoder *d, Layer *l)
{
	const SsmConf *s = &d->c.ssm;
	SsmLayer   *m = &l->ssm;

	m->in.k = m->out.k = s->inner;
	return bind_linear(b, &m->in, "conv.in_proj", "shortconv.in_proj", 3 * s->inner, s->in_bias) &&
		bind_table(b, &m->conv, "conv.conv.weight", "shortconv.conv.weight", s->inner * s->width, s->width,
				   BIND_TURNED) &&
		(!s->conv_bias || bind_vector(b, &m->conv_bias, "conv.conv.bias", "shortconv.conv.bias", s->inner)) &&
		bind_linear(b, &m->out, "conv.out_proj", "shortconv.out_proj", s->inner, s->out_bias);
}

static const MoeNames names = {
	.router = "feed_forward.gate", .correction = "feed_forward.expert_bias",
	.experts = "feed_forward.experts", .gate = "w1", .up = "w3", .down = "w2",
};

static bool
dense(Binder *b, Decoder *d, Layer *l)
{
	l->up.k = d->c.hidden;
	l->down.k = d->c.inter;
	return bind_linear(b, &l->up, "feed_forward.w1", "ffn_gate", d->c.inter, false) &&
		bind_linear(b, &l->up, "feed_forward.w3", "ffn_up", d->c.inter, false) &&
		bind_linear(b, &l->down, "feed_forward.w2", "ffn_down", d->c.hidden, false);
}

static bool
lfm2_layer(Binder *b, Decoder *d, Layer *l)
{
	int			n = d->c.hidden;

	return bind_norm(b, &l->attn_norm, "operator_norm", "attn_norm", n) &&
		(l->c->recurrent ? short_conv(b, d, l) :
		 bind_qkv_apart(b, l, "self_attn.") && bind_o(b, l, "self_attn.out_proj") &&
		 bind_qk_norm_as(b, l, "self_attn.q_layernorm", "self_attn.k_layernorm")) &&
		bind_norm(b, &l->mlp_norm, "ffn_norm", "ffn_norm", n) &&
		(l->c->moe ? bind_moe(b, l, &names) : dense(b, d, l));
}

bool
lfm2_bind(Binder *b, Decoder *d)
{
	/* both containers use another norm's name for the norm before the head */
	return bind_embed(b, "model.embed_tokens") && bind_layers(b, "model.layers.", lfm2_layer) &&
		bind_norm(b, &d->norm, "model.embedding_norm", "token_embd_norm", d->c.hidden) &&
		bind_head(b, "lm_head");
}

void
lfm2_forward(Decoder *d, float *logits)
{
	dec_embed(d);
	for (int i = 0; i < d->c.n_layers; i++)
	{
		const Layer *l = &d->layers[i];

		dec_norm(d, &l->attn_norm);
		if (l->c->recurrent)
			dec_short_conv(d, l);
		else
		{
			dec_qkv(d, l);
			dec_qk_norm(d, l);
			dec_rope(d, l);
			dec_attn(d, l);
		}
		if (!dec_wanted(d, l))
			return;
		dec_o(d, l);

		dec_norm(d, &l->mlp_norm);
		dec_ffn(d, l);
	}
	dec_head(d, logits);
}
