/*
 * mamba.c
 *	  Mamba, Falcon Mamba and Mamba-2: models of state-space layers only (ssm.c), each after an
 *	  RMSNorm.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

/* Nothing limits the context; llama.cpp uses the same value. */
#define MAMBA_MAX_LEN	(1 << 20)

static bool
mamba_common(const Conf *c, DecoderConf *out, bool tied, Err *e)
{
	out->no_attn = out->no_rope = true;
	out->max_len = MAMBA_MAX_LEN;
	out->eps = 1e-5f;
	out->tied = tied;
	if (!dec_conf(c, out, e) || !dec_conf_ssm(c, out, e))
		return false;
	for (int i = 0; i < out->n_layers; i++)
		out->layers[i].recurrent = true;
	return true;
}

bool
mamba_conf(const Conf *c, DecoderConf *out, Err *e)
{
	out->ssm.first = true;
	out->ssm.state = 16;
	out->ssm.norm_dt_bc = conf_bool(c, "gguf.ssm_dt_b_c_rms", false);
	out->ssm.norm_dt_bc_eps = 1e-6f;
	return mamba_common(c, out, true, e);
}

bool
falcon_mamba_conf(const Conf *c, DecoderConf *out, Err *e)
{
	if (!mamba_conf(c, out, e) || !dec_conf_num(c, "mixer_rms_eps", 0, 1, 1e-6, &out->ssm.norm_dt_bc_eps, e))
		return false;
	out->ssm.norm_dt_bc = true;
	return true;
}

bool
mamba2_conf(const Conf *c, DecoderConf *out, Err *e)
{
	out->ssm.state = 128;
	out->ssm.heads = 128;
	out->ssm.norm = true;
	out->ssm.groups = conf_has(c, "gguf.architecture") ? 1 : 8;
	return mamba_common(c, out, false, e);
}

static bool
mamba_layer(Binder *b, Decoder *d, Layer *l)
{
	return bind_norm(b, &l->attn_norm, "norm", "attn_norm", d->c.hidden) && bind_ssm(b, d, l, "mixer.");
}

bool
mamba_bind(Binder *b, Decoder *d)
{
	(void) d;
	return bind_embed(b, "backbone.embeddings") && bind_layers(b, "backbone.layers.", mamba_layer) &&
		bind_final_norm(b, "backbone.norm_f") && bind_head(b, "lm_head");
}

void
mamba_forward(Decoder *d, float *logits)
{
	dec_embed(d);
	for (int i = 0; i < d->c.n_layers; i++)
	{
		const Layer *l = &d->layers[i];

		dec_norm(d, &l->attn_norm);
		dec_ssm(d, l);
		if (!dec_wanted(d, l))
			return;
		dec_o(d, l);
	}
	dec_head(d, logits);
}
