/*
 * decoder.c
 *	  The blocks of a decoder's forward pass: each is a few calls of the op table.
 *
 * Row invariance (kernels.h) carries through: a block computes row i of its
 * output from row i of its input, and attention from the row's own sequence, so a
 * row's logits have the same bits whatever else is in the batch and however its
 * prompt was cut into chunks.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/decoder.h"

#include <math.h>
#include <string.h>

static int
qkv_width(const Decoder *d)
{
	return (d->c.n_heads + 2 * d->c.n_kv_heads) * d->c.head_dim;
}

/* y[rows][l->n] = x[rows][l->k] W^T + b */
static void
linear(Decoder *d, const Linear *l, const float *x, int rows, float *y)
{
	for (int i = 0; i < l->n_mats; i++)
		d->k->mm(d->pool, &l->mat[i], x, rows, l->k, y + l->col[i], l->n,
				 l->bias != NULL ? l->bias + l->col[i] : NULL, d->ws);
}

static void
embed_row(void *arg, int row, int ith)
{
	Decoder    *d = arg;
	int32_t		token = d->b->tokens[row];
	float	   *x = d->x + (size_t) row * (size_t) d->c.hidden;

	(void) ith;
	/* ids were checked at admission; an impossible one may not read past the table */
	if (token >= 0 && token < d->c.vocab)
		d->k->mat_row(&d->embed.mat[0], token, x);
	else
		memset(x, 0, (size_t) d->c.hidden * sizeof(float));
}

void
dec_embed(Decoder *d)
{
	if (d->rows == 1)
		embed_row(d, 0, 0);
	else
		kpool_run(d->pool, embed_row, d, d->rows);
	d->pending = false;
	profile_mark(d->profile, PROF_EMBED);
}

void
dec_norm(Decoder *d, const float *w)
{
	if (d->pending)
		d->k->add_rmsnorm(d->pool, d->h, d->x, d->y, w, d->rows, d->c.hidden, d->c.eps);
	else
		d->k->rmsnorm(d->pool, d->h, d->x, w, d->rows, d->c.hidden, d->c.eps);
	d->pending = false;
	profile_mark(d->profile, PROF_ROWS);
}

void
dec_qkv(Decoder *d, const Layer *l)
{
	linear(d, &l->qkv, d->h, d->rows, d->qkv);
	profile_mark(d->profile, PROF_MATMUL);
}

/* q and k lie side by side: one call rotates the heads of both. */
void
dec_rope(Decoder *d)
{
	d->k->rope(d->pool, d->qkv, d->rows, qkv_width(d), d->c.n_heads + d->c.n_kv_heads,
			   d->c.head_dim, d->b->rows.pos, d->rope, d->c.head_dim);
	profile_mark(d->profile, PROF_ROWS);
}

void
dec_attn(Decoder *d, int layer)
{
	const float *q = d->qkv;
	const float *k = q + d->c.n_heads * d->c.head_dim;
	const float *v = k + d->c.n_kv_heads * d->c.head_dim;
	float		scale = (float) (1.0 / sqrt((double) d->c.head_dim));

	d->k->kv_write(d->pool, d->kv, layer, &d->b->rows, k, v, qkv_width(d));
	d->k->attn(d->pool, d->kv, layer, &d->b->rows, q, qkv_width(d), d->c.n_heads, scale,
			   d->c.window[layer], 0.0f, d->att, d->ws);
	profile_mark(d->profile, PROF_ATTENTION);
}

/*
 * Behind the last layer's attention a row matters only if its logits are wanted,
 * which in a prompt is one of many: drop the others.  Row numbers ascend, so rows
 * can be moved up in place.
 */
bool
dec_wanted(Decoder *d)
{
	size_t		width = (size_t) d->c.hidden;
	size_t		heads = (size_t) d->c.n_heads * (size_t) d->c.head_dim;

	for (int i = 0; i < d->b->n_out; i++)
	{
		size_t		row = (size_t) d->b->out_rows[i];

		if (row == (size_t) i)
			continue;
		memcpy(d->x + (size_t) i * width, d->x + row * width, width * sizeof(float));
		memcpy(d->att + (size_t) i * heads, d->att + row * heads, heads * sizeof(float));
	}
	d->rows = d->b->n_out;
	return d->rows > 0;
}

void
dec_o(Decoder *d, const Layer *l)
{
	linear(d, &l->o, d->att, d->rows, d->y);
	d->pending = true;
	profile_mark(d->profile, PROF_MATMUL);
}

void
dec_swiglu(Decoder *d, const Layer *l)
{
	linear(d, &l->gate_up, d->h, d->rows, d->gu);
	profile_mark(d->profile, PROF_MATMUL);
	d->k->act_mul(d->pool, KACT_SILU, d->act, d->gu, d->rows, d->c.inter);
	profile_mark(d->profile, PROF_ROWS);
	linear(d, &l->down, d->act, d->rows, d->y);
	d->pending = true;
	profile_mark(d->profile, PROF_MATMUL);
}

void
dec_head(Decoder *d, float *logits)
{
	dec_norm(d, d->norm);
	linear(d, d->c.tied ? &d->embed : &d->head, d->h, d->rows, logits);
	profile_mark(d->profile, PROF_HEAD);
}
