/*
 * bind_parts.c
 *	  Bind the parts that most decoders have, by their usual names (bind.h): embedding and head, q, k,
 *	  v and o, gate, up and down.
 *
 * Tested by tests/unit/model/test_model.c and the goldens.
 */
#include "model/layers/bind.h"

#include <stdio.h>

bool
bind_embed(Binder *b, const char *hf)
{
	Decoder    *d = bind_decoder(b);

	d->embed.k = d->c.embed_width > 0 ? d->c.embed_width : d->c.hidden;
	d->embed.is_head = true;
	if (bind_extra_layer(b) != NULL)
		return true;
	return bind_linear(b, &d->embed, hf, "token_embd", d->c.vocab, false);
}

bool
bind_positions(Binder *b, const char *hf)
{
	Decoder    *d = bind_decoder(b);

	d->pos.k = d->c.hidden;
	d->pos.exact = true;
	return bind_linear(b, &d->pos, hf, "position_embd", d->c.n_pos, false);
}

bool
bind_final_norm(Binder *b, const char *hf)
{
	const BindExtra *x = bind_extra_layer(b);
	char		own[128];
	char		gguf[64];

	if (x == NULL)
		return bind_norm(b, &bind_decoder(b)->norm, hf, "output_norm", bind_decoder_conf(b)->hidden);
	snprintf(own, sizeof(own), "%s%s", x->hf, x->norm);
	snprintf(gguf, sizeof(gguf), "%s%s", x->gguf, x->gguf_norm);
	return bind_norm(b, &bind_decoder(b)->norm, own, gguf, bind_decoder_conf(b)->hidden);
}

bool
bind_head(Binder *b, const char *hf)
{
	Decoder    *d = bind_decoder(b);
	static const char ending[] = "lm_head.weight";

	if (bind_extra_layer(b) != NULL)
		return true;
	d->head.k = d->embed.k;
	/* an adapter of a tied head changes the head only, not the embedding */
	if (d->c.tied && !d->c.no_head)
		bind_site(b, &d->head, hf, d->c.vocab, NULL, d->c.vocab);
	if (d->c.tied || d->c.no_head)
		return bind_ignore(b, ending);
	d->head.is_head = true;
	return bind_linear(b, &d->head, hf, "output", d->c.vocab, d->c.head_bias);
}

static bool
bind_qk(Binder *b, Layer *l, const char *hf, const char *gguf, int heads)
{
	const DecoderConf *c = bind_decoder_conf(b);

	if (c->interleaved)
		return bind_interleaved(b, &l->qkv, hf, gguf, heads, c->head_dim, c->rope[0].dim, c->qkv_bias);
	return bind_linear(b, &l->qkv, hf, gguf, heads * c->head_dim, c->qkv_bias);
}

bool
bind_qkv_apart(Binder *b, Layer *l, const char *hf)
{
	const DecoderConf *c = bind_decoder_conf(b);
	char		q[64];
	char		k[64];
	char		v[64];

	snprintf(q, sizeof(q), "%sq_proj", hf);
	snprintf(k, sizeof(k), "%sk_proj", hf);
	snprintf(v, sizeof(v), "%sv_proj", hf);
	l->qkv.k = c->hidden;
	return bind_qk(b, l, q, "attn_q", c->n_heads) && bind_qk(b, l, k, "attn_k", c->n_kv_heads) &&
		bind_linear(b, &l->qkv, v, "attn_v", c->n_kv_heads * c->head_dim, c->qkv_bias);
}

bool
bind_attn(Binder *b, Layer *l)
{
	return bind_qkv_apart(b, l, "self_attn.") && bind_o(b, l, "self_attn.o_proj");
}

bool
bind_o(Binder *b, Layer *l, const char *hf)
{
	const DecoderConf *c = bind_decoder_conf(b);

	l->o.k = c->n_heads * c->head_dim;
	return bind_linear(b, &l->o, hf, "attn_output", c->hidden, c->o_bias);
}

bool
bind_mlp(Binder *b, Layer *l, const char *hf_up, const char *hf_down)
{
	const DecoderConf *c = bind_decoder_conf(b);

	l->up.k = c->hidden;
	l->down.k = c->inter;
	return bind_linear(b, &l->up, hf_up, "ffn_up", c->inter, c->mlp_bias) &&
		bind_linear(b, &l->down, hf_down, "ffn_down", c->hidden, c->mlp_bias);
}

bool
bind_qk_norm(Binder *b, Layer *l)
{
	return bind_qk_norm_as(b, l, "self_attn.q_norm", "self_attn.k_norm");
}

bool
bind_glu_as(Binder *b, Layer *l, const char *hf)
{
	const DecoderConf *c = bind_decoder_conf(b);
	char		name[64];

	l->up.k = c->hidden;
	l->down.k = c->inter;
	snprintf(name, sizeof(name), "%sgate_proj", hf);
	if (!bind_linear(b, &l->up, name, "ffn_gate", c->inter, c->mlp_bias))
		return false;
	snprintf(name, sizeof(name), "%sup_proj", hf);
	if (!bind_linear(b, &l->up, name, "ffn_up", c->inter, c->mlp_bias))
		return false;
	snprintf(name, sizeof(name), "%sdown_proj", hf);
	return bind_linear(b, &l->down, name, "ffn_down", c->hidden, c->mlp_bias);
}

bool
bind_glu(Binder *b, Layer *l)
{
	return bind_glu_as(b, l, "mlp.");
}

bool
bind_glu_fused(Binder *b, Layer *l)
{
	const DecoderConf *c = bind_decoder_conf(b);

	l->up.k = c->hidden;
	l->down.k = c->inter;
	return bind_linear(b, &l->up, "mlp.gate_up_proj", "ffn_up", 2 * c->inter, c->mlp_bias) &&
		bind_linear(b, &l->down, "mlp.down_proj", "ffn_down", c->hidden, c->mlp_bias);
}
