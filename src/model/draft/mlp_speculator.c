/*
 * mlp_speculator.c
 *	  The MLP speculator (Wertheimer et al. 2024, arXiv:2404.19124): a state that begins as the
 *	  target's last hidden row is updated by one draft token after the other.
 *
 *	state = gelu(norm(P state + a/b E[token])),  draft token = best of H state
 *
 * with separate P, E, H and norm for each draft token, or (tie_weights) the same for all except for the
 * first P.  a and b are computed from the number of draft tokens, so that state and tokens have equal
 * weight.
 *
 * Tested by tests/golden/draft_golden.c.
 */
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "model/draft/draft_internal.h"

#define NORM_EPS 1e-6f

bool
mlp_conf(const Conf *c, DecoderConf *o, Err *e)
{
	static const char *const width[] = {"emb_dim", "hidden_size", NULL};
	DraftConf  *d = &o->draft;

	o->max_len = 1;
	if (!dec_conf_int(c, dec_conf_key(c, width), 1, DEC_MAX_HIDDEN, o->hidden, &o->hidden, e) ||
		!dec_conf_int(c, "vocab_size", 1, DEC_MAX_VOCAB, o->vocab, &o->vocab, e) ||
		!dec_conf_int(c, "inner_dim", 0, DEC_MAX_HIDDEN, 0, &d->inner, e) ||
		!dec_conf_int(c, "n_predict", 1, DRAFT_MOST, 3, &d->heads, e))
		return false;
	d->given = o->hidden;
	if (d->inner == 0)
		d->inner = o->hidden;
	d->tied = conf_bool(c, "tie_weights", false);
	d->scaled = conf_bool(c, "scale_input", false);
	return true;
}

/* Return the draft token whose weights draft token h uses.  proj: P; token 0 always has its own
 * P. */
static int
stage(const DraftConf *c, int h, bool proj)
{
	return !c->tied ? h : proj && h > 0 ? 1 : 0;
}

static bool
bind_stage(Binder *b, Decoder *d, int h, const char *prefix)
{
	const DraftConf *c = &d->c.draft;
	DraftPart  *p = &d->draft;
	char		name[64];

	if (stage(c, h, true) == h)
	{
		snprintf(name, sizeof(name), "%sproj.%d", prefix, h);
		if (!draft_linear(b, &p->blocks[h], name, c->inner, h == 0 ? d->c.hidden : c->inner))
			return false;
	}
	if (stage(c, h, false) != h)
		return true;
	p->outs[h].is_head = p->tables[h].is_head = true;
	snprintf(name, sizeof(name), "%semb.%d", prefix, h);
	if (!draft_linear(b, &p->tables[h], name, d->c.vocab, c->inner))
		return false;
	snprintf(name, sizeof(name), "%shead.%d", prefix, h);
	if (!draft_linear(b, &p->outs[h], name, d->c.vocab, c->inner))
		return false;
	snprintf(name, sizeof(name), "%sln.%d", prefix, h);
	d->c.norm_bias = true;
	return bind_norm(b, &p->norms[h], name, "", c->inner);
}

bool
mlp_bind(Binder *b, Decoder *d)
{
	const DraftConf *c = &d->c.draft;
	DraftPart  *p = &d->draft;
	const char *prefix = bind_has(b, "speculator.proj.0.weight", "") ? "speculator." : "";

	p->blocks = draft_linears(c->heads);
	p->outs = draft_linears(c->heads);
	p->tables = draft_linears(c->heads);
	p->norms = mem_zalloc((size_t) c->heads * sizeof(Norm));
	p->n_outs = c->tied ? 1 : c->heads;
	p->pair_width = 2 * (c->inner > d->c.hidden ? c->inner : d->c.hidden);
	/* the file may have several copies of the same weights */
	if (c->tied)
		bind_ignore_rest(b);
	for (int h = 0; h < c->heads; h++)
		if (!bind_stage(b, d, h, prefix))
			return false;
	return true;
}

void
mlp_rows(Decoder *d, int h, const int32_t *tokens, int n, float *state)
{
	const DraftConf *c = &d->c.draft;
	const Norm *norm = &d->draft.norms[stage(c, h, false)];
	const Linear *table = &d->draft.tables[stage(c, h, false)];
	double		keep = pow(0.5, 0.5 / c->heads);
	float		token = (float) (sqrt((1 - keep * keep) * c->inner / 2) / keep);
	float	   *x = d->draft.pair;
	float	   *z = x + (size_t) n * (size_t) (d->draft.pair_width / 2);
	int			from = h == 0 ? d->c.hidden : c->inner;

	if (h == 0 && c->scaled)
	{
		d->k->rmsnorm(d->pool, state, state, NULL, n, from, NORM_EPS);
		d->k->scale(d->pool, state, n, from, (float) sqrt(0.5));
	}
	dec_linear(d, &d->draft.blocks[stage(c, h, true)], state, from, n, x, c->inner);
	d->k->rows_of(d->pool, &table->mat[0], tokens, 0, n, z, c->inner);
	d->k->scale(d->pool, z, n, c->inner, token);
	d->k->add(d->pool, x, z, n, c->inner);
	d->k->rmsnorm(d->pool, state, x, norm->w, n, c->inner, NORM_EPS);
	d->k->add_head_bias(d->pool, state, n, c->inner, 1, c->inner, norm->b, 0);
	d->k->act(d->pool, KACT_GELU, state, n, c->inner);
}
