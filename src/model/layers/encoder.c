/*
 * encoder.c
 *	  The frame of BERT and similar models (encoder.h).
 *
 * Tested by tests/golden/encoders_golden.c.
 */
#include "model/layers/encoder.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

#define MAX_NAME 96

void
enc_defaults(DecoderConf *out)
{
	out->both_ways = out->no_head = out->tied = true;
	out->layer_norm = out->norm_bias = out->post_norm = true;
	out->qkv_bias = out->o_bias = out->mlp_bias = out->down_bias = true;
	out->act = KACT_GELU;
	out->eps = 1e-12f;
	out->hidden = 768;
	out->inter = 3072;
	out->n_layers = out->n_heads = 12;
	out->max_len = 512;
}

bool
enc_conf(const Conf *c, DecoderConf *out, Err *e)
{
	if ((out->head == HEAD_LM && !conf_has(c, "gguf.architecture")) || conf_bool(c, "is_decoder", false) ||
		conf_bool(c, "add_cross_attention", false))
		return err_set(e, ERR_UNSUPPORTED, "this architecture is supported as an encoder only");
	if (!dec_conf(c, out, e))
		return false;
	return out->n_kv_heads == out->n_heads ||
		err_set(e, ERR_UNSUPPORTED, "an encoder with %d key-value heads of %d is not supported",
				out->n_kv_heads, out->n_heads);
}

bool
enc_conf_types(const Conf *c, DecoderConf *out, int dflt, Err *e)
{
	return dec_conf_int(c, "type_vocab_size", 0, 1 << 16, dflt, &out->n_types, e);
}

/* Bind gate and up from one matrix, with the gate first in memory. */
static bool
bind_gate_last(Binder *b, Layer *l, const char *hf)
{
	int			inter = bind_decoder_conf(b)->inter;
	int32_t    *rows = mem_alloc(2 * (size_t) inter * sizeof(int32_t));
	bool		ok;

	for (int i = 0; i < 2 * inter; i++)
		rows[i] = i < inter ? i + inter : i - inter;
	ok = bind_rows(b, &l->up, hf, "ffn_up", 2 * inter, rows, 2 * inter, bind_decoder_conf(b)->mlp_bias);
	mem_free(rows);
	return ok;
}

static bool
bind_up(Binder *b, Layer *l, const EncoderNames *n)
{
	const DecoderConf *c = bind_decoder_conf(b);
	bool		apart = bind_is_gguf(b) ? bind_has(b, "", "ffn_gate.weight") : n->gate != NULL;

	l->up.k = c->hidden;
	if (!c->glu)
		return bind_linear(b, &l->up, n->up, "ffn_up", c->inter, c->mlp_bias);
	if (apart)
		return bind_linear(b, &l->up, n->gate != NULL ? n->gate : "", "ffn_gate", c->inter, c->mlp_bias) &&
			bind_linear(b, &l->up, n->up, "ffn_up", c->inter, c->mlp_bias);
	if (n->gate_last)
		return bind_gate_last(b, l, n->up);
	return bind_linear(b, &l->up, n->up, "ffn_up", 2 * c->inter, c->mlp_bias);
}

bool
enc_attn(Binder *b, Layer *l, const EncoderNames *n)
{
	const DecoderConf *c = bind_decoder_conf(b);
	int			width = c->n_heads * c->head_dim;
	bool		ok;

	l->qkv.k = c->hidden;
	if (bind_is_gguf(b) ? bind_has(b, "", "attn_qkv.weight") : n->qkv != NULL)
		ok = bind_qkv(b, l, n->qkv != NULL ? n->qkv : "", "attn_qkv", false);
	else
		ok = bind_linear(b, &l->qkv, n->q != NULL ? n->q : "", "attn_q", width, c->qkv_bias) &&
			bind_linear(b, &l->qkv, n->k != NULL ? n->k : "", "attn_k", width, c->qkv_bias) &&
			bind_linear(b, &l->qkv, n->v != NULL ? n->v : "", "attn_v", width, c->qkv_bias);
	return ok && bind_o(b, l, n->o) &&
		bind_norm(b, &l->attn_norm, n->attn_norm, "attn_output_norm", c->hidden) &&
		bind_norm(b, &l->mlp_norm, n->mlp_norm, "layer_output_norm", c->hidden);
}

bool
enc_layer(Binder *b, Layer *l, const EncoderNames *n)
{
	const DecoderConf *c = bind_decoder_conf(b);

	l->down.k = c->inter;
	return enc_attn(b, l, n) && bind_up(b, l, n) &&
		bind_linear(b, &l->down, n->down, "ffn_down", c->hidden, c->down_bias);
}

bool
enc_embeddings(Binder *b, Decoder *d, const char *prefix, const char *norm)
{
	char		name[MAX_NAME];

	snprintf(name, sizeof(name), "%sembeddings.word_embeddings", prefix);
	if (!bind_embed(b, name))
		return false;
	d->pos.k = d->types.k = d->embed.k;
	d->pos.exact = d->types.exact = true;
	snprintf(name, sizeof(name), "%sembeddings.position_embeddings", prefix);
	if (d->c.n_pos > 0 && !bind_linear(b, &d->pos, name, "position_embd", d->c.n_pos, false))
		return false;
	snprintf(name, sizeof(name), "%sembeddings.token_type_embeddings", prefix);
	/* GGUF files of models without token types have their number, but no table */
	if (d->c.n_types > 0 && (!bind_is_gguf(b) || bind_has(b, "", "token_types.weight")) &&
		!bind_linear(b, &d->types, name, "token_types", d->c.n_types, false))
		return false;
	snprintf(name, sizeof(name), "%sembeddings.LayerNorm", prefix);
	return bind_norm(b, &d->embed_norm, norm != NULL ? norm : name, "token_embd_norm", d->embed.k);
}

bool
enc_ignore_heads(Binder *b)
{
	return bind_ignore(b, "embeddings.position_ids") && bind_ignore(b, "embeddings.token_type_ids") &&
		bind_ignore(b, "pooler.dense.weight") && bind_ignore(b, "pooler.dense.bias") &&
		bind_ignore_under(b, "cls.") && bind_ignore_under(b, "lm_head.");
}

bool
enc_heads(Binder *b, Decoder *d, const char *dense, HeadAct act, const char *out)
{
	/* GGUF doesn't name the class */
	if (bind_is_gguf(b) && bind_has(b, "", "cls.output.weight"))
		d->c.head = HEAD_SEQUENCE;
	switch (d->c.head)
	{
		case HEAD_SEQUENCE:
			return bind_classifier_dense(b, dense, "cls", d->c.hidden, act, true) &&
				bind_classifier(b, out, "cls.output", true);
		case HEAD_TOKENS:
			return bind_classifier(b, "classifier", "", true);
		default:
			return true;
	}
}

void
enc_forward(Decoder *d, float *out)
{
	dec_embed(d);
	dec_embed_norm(d);
	dec_widen(d);
	dec_plain(d);
	for (int i = 0; i < d->c.n_layers; i++)
	{
		const Layer *l = &d->layers[i];

		dec_qkv(d, l);
		dec_rope(d, l);
		dec_attn(d, l);
		if (!dec_wanted(d, l))
			return;
		dec_o(d, l);
		dec_post_norm(d, &l->attn_norm);
		if (l->c->moe)
			dec_moe(d, l);
		else if (d->c.glu)
			dec_glu(d, l);
		else
			dec_mlp(d, l);
		dec_post_norm(d, &l->mlp_norm);
	}
	dec_logits(d, out);
}
