/*
 * jamba.c
 *	  Jamba (Lieber et al. 2024, arXiv:2403.19887): most layers have Mamba, whose steps, B and C are
 *	  normed; the others have attention without positions; some layers have experts.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

/* Read a pair of keys that means layers `offset`, `offset` + `period`, ... */
static bool
read_period(const Conf *c, const char *period_key, const char *offset_key, int period, int offset, int out[2],
			Err *e)
{
	return dec_conf_int(c, period_key, 1, DEC_MAX_LAYERS, period, &out[0], e) &&
		dec_conf_int(c, offset_key, 0, out[0] - 1, offset < out[0] ? offset : 0, &out[1], e);
}

/* Set the kinds of layers.  GGUF has no keys for them: heads and tensors show them. */
static bool
kinds(const Conf *c, DecoderConf *out, Err *e)
{
	int			attn[2];
	int			moe[2];

	if (!read_period(c, "attn_layer_period", "attn_layer_offset", 8, 4, attn, e) ||
		!read_period(c, "expert_layer_period", "expert_layer_offset", 2, 1, moe, e))
		return false;
	for (int i = 0; i < out->n_layers; i++)
	{
		out->layers[i].recurrent = i % attn[0] != attn[1];
		out->layers[i].moe = out->moe.n_experts > 0 && i % moe[0] == moe[1];
	}
	return true;
}

bool
jamba_conf(const Conf *c, DecoderConf *out, Err *e)
{
	bool		gguf = conf_has(c, "gguf.architecture");

	out->hybrid = out->no_rope = true;
	out->max_len = 262144;
	out->n_kv_heads = gguf ? 0 : 8;
	out->ssm.first = out->ssm.norm_dt_bc = out->ssm.norm_dt_bc_w = true;
	out->ssm.state = 16;
	if (!dec_conf(c, out, e) || !dec_conf_ssm(c, out, e))
		return false;
	out->ssm.norm_dt_bc_eps = out->eps;
	/* one expert means no mixture */
	if (conf_int(c, gguf ? "num_local_experts" : "num_experts", gguf ? 0 : 16) > 1)
	{
		out->moe.n_experts = 16;
		out->moe.top_k = 2;
		if (!dec_conf_moe(c, out, e))
			return false;
	}
	return gguf || kinds(c, out, e);
}

static bool
jamba_layer(Binder *b, Decoder *d, Layer *l)
{
	MoeNames	names = moe_names;

	names.router = "feed_forward.router";
	names.experts = "feed_forward.experts";
	if (bind_is_gguf(b))
		d->c.layers[l - d->layers].moe = d->c.moe.n_experts > 0 && bind_has(b, "", "ffn_gate_inp.weight");
	return bind_norm(b, &l->attn_norm, "input_layernorm", "attn_norm", d->c.hidden) &&
		(l->c->recurrent ? bind_ssm(b, d, l, "mamba.") : bind_attn(b, l)) &&
		bind_norm(b, &l->mlp_norm, "pre_ff_layernorm", "ffn_norm", d->c.hidden) &&
		(l->c->moe ? bind_moe(b, l, &names) : bind_glu_as(b, l, "feed_forward."));
}

bool
jamba_bind(Binder *b, Decoder *d)
{
	(void) d;
	return bind_embed(b, "model.embed_tokens") && bind_layers(b, "model.layers.", jamba_layer) &&
		bind_final_norm(b, "model.final_layernorm") && bind_head(b, "lm_head");
}

void
jamba_forward(Decoder *d, float *logits)
{
	dec_embed(d);
	for (int i = 0; i < d->c.n_layers; i++)
	{
		const Layer *l = &d->layers[i];

		dec_norm(d, &l->attn_norm);
		if (l->c->recurrent)
			dec_ssm(d, l);
		else
		{
			dec_qkv(d, l);
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
