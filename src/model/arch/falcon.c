/*
 * falcon.c
 *	  Falcon (Almazrouei et al. 2023, arXiv:2311.16867): LayerNorm, one or a few heads of k and v,
 *	  attention and MLP in parallel after one shared norm (7B) or one norm each (40B, 180B).  Falcon-RW
 *	  has ALiBi, whose slopes are scaled like the scores, and serial blocks.
 *
 * q, k and v are one matrix, in which the rows of each KV head are adjacent; converters to GGUF separate
 * them.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/layers/bind.h"

/* Read the KV heads; config.json may state a number that doesn't count. */
static bool
falcon_kv_heads(const Conf *c, DecoderConf *out, Err *e)
{
	static const char *const heads[] = {"num_kv_heads", "n_head_kv", NULL};

	if (conf_has(c, "gguf.architecture"))
		return true;
	if (!conf_bool(c, "new_decoder_architecture", false))
	{
		out->n_kv_heads = conf_bool(c, "multi_query", true) ? 1 : 0;
		return true;
	}
	/* 0: as many as heads */
	return dec_conf_int(c, dec_conf_key(c, heads), 0, DEC_MAX_HEADS, 0, &out->n_kv_heads, e);
}

bool
falcon_conf(const Conf *c, DecoderConf *out, Err *e)
{
	bool		gguf = conf_has(c, "gguf.architecture");
	bool		fresh = conf_bool(c, "new_decoder_architecture", false);
	int			norms;

	out->no_rope = conf_bool(c, "alibi", false);
	out->eps = 1e-5f;
	out->mlp_ratio = 4;
	out->max_len = 2048;
	out->act = KACT_GELU;
	out->tied = true;
	out->layer_norm = out->norm_bias = true;
	if (!falcon_kv_heads(c, out, e) || !dec_conf(c, out, e) ||
		!dec_conf_int(c, "num_ln_in_parallel_attn", 1, 2, fresh ? 2 : 1, &norms, e))
		return false;
	if (out->no_rope)
		dec_conf_alibi(out, 8, (double) out->attn_scale);
	out->qkv_bias = out->o_bias = out->mlp_bias = conf_bool(c, "bias", false);
	out->parallel = gguf || fresh || conf_bool(c, "parallel_attn", true);
	/* in GGUF the second norm's tensor shows it */
	out->two_norms = fresh && norms == 2;
	return true;
}

static bool
falcon_layer(Binder *b, Decoder *d, Layer *l)
{
	int			n = d->c.hidden;
	bool		ok;

	if (bind_is_gguf(b))
	{
		d->c.two_norms = bind_has(b, "", "attn_norm_2.weight");
		ok = bind_norm(b, &l->attn_norm, "", d->c.two_norms ? "attn_norm_2" : "attn_norm", n) &&
			(!d->c.two_norms || bind_norm(b, &l->mlp_norm, "", "attn_norm", n));
	}
	else if (d->c.two_norms)
		ok = bind_norm(b, &l->attn_norm, "ln_attn", "", n) && bind_norm(b, &l->mlp_norm, "ln_mlp", "", n);
	else
		ok = bind_norm(b, &l->attn_norm, "input_layernorm", "", n) &&
			(d->c.parallel || bind_norm(b, &l->mlp_norm, "post_attention_layernorm", "", n));
	return ok && bind_qkv(b, l, "self_attention.query_key_value", "attn_qkv", !bind_is_gguf(b)) &&
		bind_o(b, l, "self_attention.dense") && bind_mlp(b, l, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h");
}

bool
falcon_bind(Binder *b, Decoder *d)
{
	(void) d;
	return bind_embed(b, "transformer.word_embeddings") && bind_layers(b, "transformer.h.", falcon_layer) &&
		bind_final_norm(b, "transformer.ln_f") && bind_head(b, "lm_head");
}

void
falcon_forward(Decoder *d, float *logits)
{
	dec_embed(d);
	for (int i = 0; i < d->c.n_layers; i++)
	{
		const Layer *l = &d->layers[i];

		dec_norm(d, &l->attn_norm);
		dec_qkv(d, l);
		dec_rope(d, l);
		dec_attn(d, l);
		if (!dec_wanted(d, l))
			return;
		if (d->c.two_norms)
			dec_norm(d, &l->mlp_norm);	/* of attention's input */
		dec_o(d, l);
		if (d->c.parallel)
			dec_add(d);			/* h stays unchanged */
		else
			dec_norm(d, &l->mlp_norm);
		dec_mlp(d, l);
	}
	dec_head(d, logits);
}
