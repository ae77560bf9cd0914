/*
 * eagle.c
 *	  EAGLE (Li et al. 2024, arXiv:2401.15077) and EAGLE-3 (Li et al. 2025, arXiv:2503.01840): a Llama
 *	  layer that continues from the target's hidden rows.
 *
 * EAGLE's input row is one matrix times a token's embedding and the hidden row before it, side by side.
 * Its first layer has no norm before attention, and there is no norm before the head, which is the
 * target's.
 *
 * EAGLE-3 reads the inputs of three of the target's layers, which a matrix combines to one row; in later
 * steps its own output row takes that row's place.  Attention's input is the norms of both rows, side by
 * side.  It has its own head, mostly for a part of the vocabulary.
 *
 * Tested by tests/golden/draft_golden.c.
 */
#include <stdio.h>

#include "base/assert.h"
#include "model/draft/draft_internal.h"

/* Read the settings that both share with Llama. */
static bool
common_conf(const Conf *c, DecoderConf *o, Err *e)
{
	o->eps = 1e-6f;
	o->hidden = 0;
	if (!dec_conf(c, o, e))
		return false;
	if (!dec_conf_int(c, "target_hidden_size", 1, DEC_MAX_HIDDEN, o->hidden, &o->draft.given, e))
		return false;
	o->mlp_bias = conf_bool(c, "mlp_bias", false);
	return true;
}

/* Bind Llama's layer except for q, k and v, which have `in` inputs. */
static bool
bind_rest(Binder *b, Decoder *d, Layer *l, int in)
{
	const DecoderConf *c = &d->c;

	d->c.qkv_bias = bind_has(b, "self_attn.q_proj.bias", "");
	d->c.o_bias = bind_has(b, "self_attn.o_proj.bias", "");
	l->qkv.k = in;
	return bind_linear(b, &l->qkv, "self_attn.q_proj", "", c->n_heads * c->head_dim, c->qkv_bias) &&
		bind_linear(b, &l->qkv, "self_attn.k_proj", "", c->n_kv_heads * c->head_dim, c->qkv_bias) &&
		bind_linear(b, &l->qkv, "self_attn.v_proj", "", c->n_kv_heads * c->head_dim, c->qkv_bias) &&
		bind_o(b, l, "self_attn.o_proj") &&
		bind_norm(b, &l->mlp_norm, "post_attention_layernorm", "", c->hidden) && bind_glu(b, l);
}

/* ---- EAGLE ---- */

bool
eagle_conf(const Conf *c, DecoderConf *o, Err *e)
{
	if (!common_conf(c, o, e))
		return false;
	if (o->draft.given != o->hidden)
		return err_set(e, ERR_BAD_FILE, "model configuration has \"target_hidden_size\" = %d, expected %d",
					   o->draft.given, o->hidden);
	return true;
}

static bool
eagle_layer(Binder *b, Decoder *d, Layer *l)
{
	if (l != &d->layers[0] && !bind_norm(b, &l->attn_norm, "input_layernorm", "", d->c.hidden))
		return false;
	return bind_rest(b, d, l, d->c.hidden);
}

bool
eagle_bind(Binder *b, Decoder *d)
{
	int			n = d->c.hidden;

	d->draft.pair_width = 2 * n;
	if (!draft_linear(b, &d->draft.fuse, "fc", n, 2 * n) || !bind_layers(b, "model.layers.", eagle_layer))
		return false;
	if (conf_bool(bind_conf(b), "add_para_norm", false) &&
		(!bind_norm(b, &d->draft.token_norm, "embedding_layernorm", "", n) ||
		 !bind_norm(b, &d->draft.given_norm, "hidden_states_layernorm", "", n)))
		return false;
	/* copies of the target's */
	return bind_ignore(b, "embed_tokens.weight") && bind_ignore(b, "lm_head.weight");
}

void
eagle_forward(Decoder *d, float *logits)
{
	dec_fuse(d);
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
	dec_plain(d);
	dec_logits(d, logits);
}

/* ---- EAGLE-3 ---- */

/* Set the layers whose input EAGLE-3 reads: those of the configuration, else the authors' choice. */
static bool
conf_layers(const Conf *c, DraftConf *d, Err *e)
{
	static const char *const keys[] = {"eagle_aux_hidden_state_layer_ids",
									   "eagle_config.eagle_aux_hidden_state_layer_ids", NULL};
	size_t		n;
	const double *v = conf_nums(c, dec_conf_key(c, keys), &n);

	d->n_layers = 3;
	d->layers[0] = -1;
	if (v == NULL)
		return true;
	if (n < 1 || n > TAP_LAYERS)
		return err_set(e, ERR_UNSUPPORTED,
					   "the draft model needs %zu of the model's layers, at most %d are supported", n,
					   TAP_LAYERS);
	d->n_layers = (int) n;
	for (size_t i = 0; i < n; i++)
		d->layers[i] = v[i] >= 0 && v[i] < DEC_MAX_LAYERS ? (int) v[i] : DEC_MAX_LAYERS;
	return true;
}

bool
eagle3_conf(const Conf *c, DecoderConf *o, Err *e)
{
	static const char *const aux[] = {"use_aux_hidden_state", "eagle_config.use_aux_hidden_state", NULL};

	if (!common_conf(c, o, e) || !conf_layers(c, &o->draft, e))
		return false;
	if (o->n_layers != 1)
		return err_set(e, ERR_UNSUPPORTED, "EAGLE-3 with %d layers is not supported", o->n_layers);
	if (!conf_bool(c, dec_conf_key(c, aux), true))
		return err_set(e, ERR_UNSUPPORTED, "EAGLE-3 without rows of the model's layers is not supported");
	o->draft.fed_raw = true;
	o->draft.norm_residual = conf_bool(c, "norm_before_residual", false);
	return true;
}

static bool
eagle3_layer(Binder *b, Decoder *d, Layer *l)
{
	int			n = d->c.hidden;

	return bind_norm(b, &d->draft.given_norm, "hidden_norm", "", n) &&
		bind_norm(b, &d->draft.token_norm, "input_layernorm", "", n) && bind_rest(b, d, l, 2 * n);
}

bool
eagle3_bind(Binder *b, Decoder *d)
{
	const DraftConf *c = &d->c.draft;
	int			n = d->c.hidden;
	bool		mid = bind_has(b, "midlayer.self_attn.q_proj.weight", "");
	int64_t		rows = bind_n_rows(b, "lm_head", "");

	d->draft.pair_width = 2 * n;
	d->c.tied = false;
	d->head.k = d->embed.k = n;
	d->head.is_head = d->embed.is_head = true;
	if (!draft_linear(b, &d->draft.fuse, "fc", n, c->n_layers * c->given) ||
		!bind_layer_at(b, mid ? "midlayer." : "model.layers.0.", "", &d->layers[0], eagle3_layer) ||
		!bind_norm(b, &d->norm, "model.norm", "", n))
		return false;
	/* it may have its own embedding, else it uses the target's */
	d->c.draft.own_embed = bind_has(b, "model.embed_tokens.weight", "");
	if (d->c.draft.own_embed && !bind_linear(b, &d->embed, "model.embed_tokens", "", d->c.vocab, false))
		return false;
	d->c.draft.own_head = rows > 0;
	if (rows > 0 && rows <= DEC_MAX_VOCAB && !bind_linear(b, &d->head, "lm_head", "", (int) rows, false))
		return false;
	return bind_ignore(b, "d2t") && bind_ignore(b, "t2d");
}

void
eagle3_forward(Decoder *d, float *logits)
{
	const Layer *l = &d->layers[0];
	int			n = d->c.hidden;

	ALWAYS(d->draft.pair_width == 2 * n && l->qkv.k == 2 * n);	/* a token's row and the given one */
	if (d->b->fed_back)
		d->k->copy_rows(d->pool, d->x, n, d->b->given, n, NULL, d->rows, n);
	else
		dec_linear(d, &d->draft.fuse, d->b->given, d->draft.fuse.k, d->rows, d->x, n);
	dec_draft_rows(d, d->y);
	d->k->rmsnorm(d->pool, d->y, d->y, d->draft.token_norm.w, d->rows, n, d->c.eps);
	d->k->copy_rows(d->pool, d->draft.pair, 2 * n, d->y, n, NULL, d->rows, n);
	/* y already holds one half of the pair; compute the other half */
	d->k->rmsnorm(d->pool, d->y, d->x, d->draft.given_norm.w, d->rows, n, d->c.eps);
	d->k->copy_rows(d->pool, d->draft.pair + n, 2 * n, d->y, n, NULL, d->rows, n);
	if (d->c.draft.norm_residual)
		d->k->copy_rows(d->pool, d->x, n, d->y, n, NULL, d->rows, n);
	d->pending = false;
	dec_linear(d, &l->qkv, d->draft.pair, 2 * n, d->rows, d->qkv, l->qkv.n);
	dec_rope(d, l);
	dec_attn(d, l);
	if (!dec_wanted(d, l))
		return;
	dec_o(d, l);
	dec_norm(d, &l->mlp_norm);
	dec_glu(d, l);
	dec_head(d, logits);
}
