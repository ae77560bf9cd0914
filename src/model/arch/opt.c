/*
 * opt.c
 *	  OPT (Zhang et al. 2022, arXiv:2205.01068): learned positions, ReLU.  The 350M model has norms
 *	  after its blocks and an embedding narrower than its layers.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

bool
opt_conf(const Conf *c, DecoderConf *out, Err *e)
{
	out->eps = 1e-5f;
	out->act = KACT_RELU;
	out->tied = true;
	out->no_rope = true;
	out->layer_norm = true;
	if (!dec_conf(c, out, e) ||
		!dec_conf_int(c, "word_embed_proj_dim", 1, out->hidden, out->hidden, &out->embed_width, e))
		return false;
	out->pos_first = 2;			/* fairseq reserves two rows for padding */
	out->n_pos = out->max_len + out->pos_first;
	out->post_norm = !conf_bool(c, "do_layer_norm_before", true);
	out->no_final_norm = out->post_norm || conf_bool(c, "_remove_final_layer_norm", false);
	out->no_norm_weight = !conf_bool(c, "layer_norm_elementwise_affine", true);
	out->norm_bias = !out->no_norm_weight;
	out->qkv_bias = out->o_bias = out->mlp_bias = conf_bool(c, "enable_bias", true);
	return true;
}

static bool
opt_norm(Binder *b, Decoder *d, Norm *norm, const char *hf)
{
	return d->c.no_norm_weight || bind_norm(b, norm, hf, "", d->c.hidden);
}

static bool
opt_layer(Binder *b, Decoder *d, Layer *l)
{
	return opt_norm(b, d, &l->attn_norm, "self_attn_layer_norm") && bind_qkv_apart(b, l, "self_attn.") &&
		bind_o(b, l, "self_attn.out_proj") && opt_norm(b, d, &l->mlp_norm, "final_layer_norm") &&
		bind_mlp(b, l, "fc1", "fc2");
}

bool
opt_bind(Binder *b, Decoder *d)
{
	if (d->c.embed_width != d->c.hidden)
	{
		d->project_in.k = d->c.embed_width;
		d->project_out.k = d->c.hidden;
		if (!bind_linear(b, &d->project_in, "model.decoder.project_in", "", d->c.hidden, false) ||
			!bind_linear(b, &d->project_out, "model.decoder.project_out", "", d->c.embed_width, false))
			return false;
	}
	return bind_embed(b, "model.decoder.embed_tokens") &&
		bind_positions(b, "model.decoder.embed_positions") &&
		bind_layers(b, "model.decoder.layers.", opt_layer) &&
		(d->c.no_final_norm || opt_norm(b, d, &d->norm, "model.decoder.final_layer_norm")) &&
		bind_head(b, "lm_head");
}

void
opt_forward(Decoder *d, float *logits)
{
	dec_embed(d);
	if (d->c.post_norm)
		dec_plain(d);
	for (int i = 0; i < d->c.n_layers; i++)
	{
		const Layer *l = &d->layers[i];

		if (!d->c.post_norm)
			dec_norm(d, &l->attn_norm);
		dec_qkv(d, l);
		dec_attn(d, l);
		if (!dec_wanted(d, l))
			return;
		dec_o(d, l);
		if (d->c.post_norm)
			dec_post_norm(d, &l->attn_norm);
		else
			dec_norm(d, &l->mlp_norm);
		dec_mlp(d, l);
		if (d->c.post_norm)
			dec_post_norm(d, &l->mlp_norm);
	}
	if (!d->c.no_final_norm)
		dec_norm(d, &d->norm);
	else if (!d->c.post_norm)
		dec_plain(d);
	dec_logits(d, logits);
}
