/*
 * falcon_h1.c
 *	  Falcon-H1 (TII 2025, arXiv:2507.22448): each layer has attention and Mamba-2 in parallel after
 *	  one norm; factors follow most matrices.
 *
 * Converters to GGUF multiply the weights by the factors.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

/* Read n factors of one key, which are 1 if it is absent. */
static bool
factors(const Conf *c, const char *key, size_t n, float *out, Err *e)
{
	size_t		has;
	const double *v = conf_nums(c, key, &has);

	if (conf_has(c, key) && (v == NULL || has != n))
		return err_set(e, ERR_BAD_FILE, "model configuration has an invalid \"%s\"", key);
	for (size_t i = 0; i < n; i++)
	{
		out[i] = v != NULL ? (float) v[i] : 1;
		if (!(out[i] > -1e9f && out[i] < 1e9f))
			return err_set(e, ERR_BAD_FILE, "model configuration has \"%s\" = %g", key, v[i]);
	}
	return true;
}

static bool
read_factors(const Conf *c, DecoderConf *out, Err *e)
{
	MupConf    *m = &out->mup;
	float		mlp[2];

	if (!factors(c, "attention_in_multiplier", 1, &m->attn_in, e) ||
		!factors(c, "key_multiplier", 1, &m->key, e) ||
		!factors(c, "attention_out_multiplier", 1, &m->attn_out, e) ||
		!factors(c, "ssm_in_multiplier", 1, &m->ssm_in, e) || !factors(c, "ssm_multipliers", 5, m->ssm, e) ||
		!factors(c, "ssm_out_multiplier", 1, &m->ssm_out, e) || !factors(c, "mlp_multipliers", 2, mlp, e) ||
		!dec_conf_num(c, "embedding_multiplier", 0, 1e9, 1, &out->embed_scale, e) ||
		!dec_conf_num(c, "lm_head_multiplier", 0, 1e9, 1, &out->logit_scale, e))
		return false;
	m->gate = mlp[0];
	m->down = mlp[1];
	/* the factor of the input is applied to the output, which would wrongly include a bias */
	if (out->qkv_bias && m->attn_in != 1)
		return err_set(e, ERR_UNSUPPORTED,
					   "\"attention_bias\" with \"attention_in_multiplier\" = %g is not supported",
					   (double) m->attn_in);
	if (out->ssm.in_bias && m->ssm_in != 1)
		return err_set(e, ERR_UNSUPPORTED,
					   "\"mamba_proj_bias\" with \"ssm_in_multiplier\" = %g is not supported",
					   (double) m->ssm_in);
	return true;
}

bool
falcon_h1_conf(const Conf *c, DecoderConf *out, Err *e)
{
	bool		gguf = conf_has(c, "gguf.architecture");

	out->eps = 1e-5f;
	out->max_len = 8192;
	out->n_kv_heads = gguf ? 0 : 8;
	out->ssm.state = 256;
	out->ssm.heads = 128;
	out->ssm.groups = 1;
	out->ssm.norm = conf_bool(c, "mamba_rms_norm", false);
	out->ssm.norm_first = !gguf && conf_bool(c, "mamba_norm_before_gate", true);
	/* null: computed from mamba_expand */
	out->ssm.inner = gguf || conf_is_null(c, "mamba_d_ssm") ? 0 : 1024;
	if (!dec_conf(c, out, e) || !dec_conf_ssm(c, out, e))
		return false;
	for (int i = 0; i < out->n_layers; i++)
		out->layers[i].recurrent = out->layers[i].both = true;
	out->ssm.out_bias = conf_bool(c, "projectors_bias", false);
	out->qkv_bias = out->o_bias = conf_bool(c, "attention_bias", false);
	out->mlp_bias = conf_bool(c, "mlp_bias", false);
	return read_factors(c, out, e);
}

static void
gains(Decoder *d, Layer *l)
{
	const DecoderConf *c = &d->c;
	const MupConf *m = &c->mup;
	const SsmConf *s = &c->ssm;
	int			parts[5] = {s->inner, s->inner, s->groups * s->state, s->groups * s->state, s->heads};
	int			q = c->n_heads * c->head_dim;
	int			k = c->n_kv_heads * c->head_dim;
	int			at = 0;

	for (int i = 0; i < 5; at += parts[i++])
		linear_gain(&l->ssm.in, at, parts[i], m->ssm_in * m->ssm[i]);
	linear_gain(&l->ssm.out, 0, l->ssm.out.n, m->ssm_out);
	linear_gain(&l->qkv, 0, q, m->attn_in);
	linear_gain(&l->qkv, q, k, m->attn_in * m->key);
	linear_gain(&l->qkv, q + k, k, m->attn_in);
	linear_gain(&l->o, 0, l->o.n, m->attn_out);
	linear_gain(&l->up, 0, c->inter, m->gate);
	linear_gain(&l->down, 0, l->down.n, m->down);
}

static bool
falcon_h1_layer(Binder *b, Decoder *d, Layer *l)
{
	int			n = d->c.hidden;

	if (!bind_norm(b, &l->attn_norm, "input_layernorm", "attn_norm", n) || !bind_ssm(b, d, l, "mamba.") ||
		!bind_attn(b, l) ||
		/* some converters omit the name's ending */
		!(bind_has(b, "pre_ff_layernorm.weight", "ffn_norm") ?
		  bind_vector(b, &l->mlp_norm.w, "pre_ff_layernorm.weight", "ffn_norm", n) :
		  bind_norm(b, &l->mlp_norm, "pre_ff_layernorm", "ffn_norm", n)) ||
		!bind_glu_as(b, l, "feed_forward."))
		return false;
	gains(d, l);
	return true;
}

bool
falcon_h1_bind(Binder *b, Decoder *d)
{
	(void) d;
	return bind_embed(b, "model.embed_tokens") && bind_layers(b, "model.layers.", falcon_h1_layer) &&
		bind_final_norm(b, "model.final_layernorm") && bind_head(b, "lm_head");
}

void
falcon_h1_forward(Decoder *d, float *logits)
{
	dec_embed(d);
	for (int i = 0; i < d->c.n_layers; i++)
	{
		const Layer *l = &d->layers[i];

		dec_norm(d, &l->attn_norm);
		dec_ssm(d, l);
		dec_ssm_out(d, l);
		dec_add(d);				/* h stays unchanged */
		dec_qkv(d, l);
		dec_rope(d, l);
		dec_attn(d, l);
		if (!dec_wanted(d, l))
			return;
		dec_o(d, l);

		dec_norm(d, &l->mlp_norm);
		dec_glu(d, l);
	}
	dec_head(d, logits);
}
