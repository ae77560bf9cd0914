/*
 * decoder.c
 *	  The blocks of a decoder's forward pass: each is a few calls of the op table.
 *
 * Row invariance (kernels.h) holds for all blocks: a block computes row i of its output from row i of
 * its input, and attention from the row's own sequence.  So a row's logits have the same bits whatever
 * else is in the batch and however its prompt was split into chunks.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include "model/weights/device_placement.h"
#include "model/parallel/shard.h"

#include <math.h>

#include "base/assert.h"
#include "base/alloc.h"

static int
qkv_width(const Decoder *d)
{
	return (d->c.n_heads + 2 * d->c.n_kv_heads) * d->c.head_dim;
}

void
linear_gain(Linear *l, int from, int n, float by)
{
	if (by == 1)
		return;
	ALWAYS(l->n_gains < (int) (sizeof(l->gains) / sizeof(l->gains[0])));
	l->gains[l->n_gains++] = (Gain) {from, n, by};
}

static void
product(Decoder *d, const Linear *l, const KOp *x, int ldx, int rows, float *y, int ldy)
{
	for (int i = 0; i < l->n_mats; i++)
		d->k->mm(d->pool, &l->mat[i], x, rows, ldx, y + l->col[i], ldy,
				 l->bias != NULL ? l->bias + l->col[i] : NULL, d->ws);
}

static void
gains(Decoder *d, const Linear *l, int rows, float *y, int ldy)
{
	for (int i = 0; i < l->n_gains; i++)
		d->k->scale_cols(d->pool, y, rows, ldy, l->gains[i].from, l->gains[i].n, l->gains[i].by);
}

/* Convert x to operands, at most max_rows rows of k; *ldx becomes their stride.  The result is valid
 * until the next call. */
static const KOp *
dec_op(Decoder *d, const float *x, int *ldx, int rows, int k)
{
	if (dec_op_floats(d))
		return (const KOp *) (const void *) x;
	d->k->to_op(d->pool, d->opx, k, x, *ldx, rows, k);
	*ldx = k;
	return d->opx;
}

void
dec_linear_op(Decoder *d, const Linear *l, const KOp *x, int ldx, int rows, float *y, int ldy)
{
	float	   *to = split_own(d, l->all > 0, y);
	int			ld = l->all > 0 ? l->n : ldy;

	product(d, l, x, ldx, rows, to, ld);
	gains(d, l, rows, to, ld);
	split_whole(d, l->all > 0, y, rows, l->all, sizeof(float));
}

void
dec_linear(Decoder *d, const Linear *l, const float *x, int ldx, int rows, float *y, int ldy)
{
	const KOp  *op = dec_op(d, x, &ldx, rows, l->k);

	dec_linear_op(d, l, op, ldx, rows, y, ldy);
}

/*
 * Batch.stop may stop a step with a very long sequence.  The step calls it before every large product
 * and, if there are many rows, between pieces of a product; each piece takes a fraction of a second.
 */
#define STOP_ROWS 2048			/* rows of a piece of a product */
#define STOP_PAIRS (1 << 22)	/* pairs of a row and a key that it attends to */

static bool
stopped(Decoder *d)
{
	if (!d->stopped && d->b->stop != NULL && d->b->stop(d->b->stop_ctx))
	{
		d->stopped = true;
		d->rows = 0;
	}
	return d->stopped;
}

/* y[rows][l->n] = x[rows][l->k] W^T + b, plus the adapters' contribution to the target; rows are the
 * step's */
static void
linear_as(Decoder *d, const Linear *l, int target, const KOp *x, int rows, float *y)
{
	int			most = d->b->stop != NULL ? STOP_ROWS : rows;
	float	   *part = split_own(d, l->all > 0, y);

	for (int i = 0; i < rows && !stopped(d); i += most)
	{
		int			n = rows - i < most ? rows - i : most;
		float	   *to = part + (size_t) i * (size_t) l->n;

		product(d, l, kop_at(d, x, (size_t) i * (size_t) l->k), l->k, n, to, l->n);
		if (d->lora.n > 0 && target > 0)
			dec_lora(d, target, x, l->k, i, i + n, part, l->n);
		gains(d, l, n, to, l->n);
	}
	split_whole(d, l->all > 0, y, rows, l->all, sizeof(float));
	split_sum(d, l->k_all > 0, y, rows);
}

static void
linear(Decoder *d, const Linear *l, const KOp *x, int rows, float *y)
{
	linear_as(d, l, l->lora, x, rows, y);
}

/* The same for float inputs. */
static void
linear_float(Decoder *d, const Linear *l, const float *x, int rows, float *y)
{
	int			ldx = l->k;
	const KOp  *op = dec_op(d, x, &ldx, rows, l->k);

	linear(d, l, op, rows, y);
}

void
stack_again(Stack *s)
{
	const Linear *l = s->of;

	for (int i = 0; s->mats != NULL && i < l->n_mats; i++)
		for (int j = 0; j < s->n; j++)
		{
			s->mats[i * s->n + j] = s->of[j].mat[i];
			s->bias[i * s->n + j] = s->of[j].bias != NULL ? s->of[j].bias + l->col[i] : NULL;
		}
}

void
stack_ready(Stack *s)
{
	const Linear *l = s->of;
	size_t		n = (size_t) (l->n_mats * s->n);

	for (int j = 1; j < s->n; j++)
		if (s->of[j].n_mats != l->n_mats)
			return;
	for (int j = 1; j < s->n; j++)
		for (int i = 0; i < l->n_mats; i++)
			if (s->of[j].mat[i].type != l->mat[i].type)
				return;
	s->mats = mem_alloc(n * sizeof(*s->mats));
	s->bias = mem_alloc(n * sizeof(*s->bias));
	stack_again(s);
}

void
stack_free(Stack *s)
{
	mem_free(s->of);
	mem_free(s->mats);
	mem_free(s->bias);
}

void
dec_stack(Decoder *d, const Stack *s, const int32_t *start, const KOp *x, int ldx, float *y, int ldy)
{
	for (int g = 0; g < s->n && s->mats == NULL; g++)
		if (start[g + 1] > start[g])
			dec_linear_op(d, &s->of[g], kop_at(d, x, (size_t) start[g] * (size_t) ldx), ldx,
						  start[g + 1] - start[g], y + (size_t) start[g] * (size_t) ldy, ldy);
	for (int i = 0; i < s->of[0].n_mats && s->mats != NULL; i++)
		d->k->mm_grouped(d->pool, s->mats + i * s->n, s->n, start, x, ldx, y + s->of[0].col[i], ldy,
						 s->bias + i * s->n, d->ws);
}

/* Return the width of x before dec_widen(). */
static int
embed_width(const Decoder *d)
{
	return d->c.narrow ? d->embed.k : d->c.hidden;
}

/* x += rows of a table, first + ids[row] or all the same */
static void
add_rows(Decoder *d, const Linear *table, const int32_t *ids, int first)
{
	d->k->rows_of(d->pool, &table->mat[0], ids, first, d->rows, d->y, table->k);
	d->k->add(d->pool, d->x, d->y, d->rows, embed_width(d));
}

/* Admission has checked positions and ids; an impossible one gives a row of zeros. */
void
dec_embed(Decoder *d)
{
	bool		projected = d->project_in.n > 0 && !d->c.narrow;
	float	   *to = projected ? d->y : d->x;

	if (d->draft.lender != NULL)
	{
		dec_fuse(d);
		return;
	}
	if (!split_is_first(d))
	{
		split_take_x(d);
		return;
	}
	if (d->ranks.places != NULL)
		split_embed(d, to, projected ? d->x : d->y);
	else
		d->k->rows_of(d->pool, &d->embed.mat[0], d->b->tokens, 0, d->rows, to, d->embed.k);
	if (d->b->embeds != NULL)
		d->k->put_rows(d->pool, d->b->embeds, d->rows, d->embed.k, to, d->embed.k);
	if (d->lora.n > 0 && d->embed.lora > 0)
		dec_lora_embed(d, to);
	if (projected)
		linear_float(d, &d->project_in, to, d->rows, d->x);
	if (d->c.embed_scale != 0)
		d->k->scale(d->pool, d->x, d->rows, d->c.hidden, d->c.embed_scale);
	/* a model with one type ignores the batch's types */
	if (d->types.n > 0)
		add_rows(d, &d->types, d->types.n > 1 ? d->b->types : NULL, 0);
	if (d->pos.n > 0)
		add_rows(d, &d->pos, d->b->rows.pos, d->c.pos_first);
	d->pending = false;
	profile_mark(d->profile, PROF_EMBED);
}

void
dec_add(Decoder *d)
{
	if (!d->pending)
		return;
	if (d->c.residual_scale != 0)
		d->k->scale(d->pool, d->y, d->rows, d->c.hidden, d->c.residual_scale);
	d->k->add(d->pool, d->x, d->y, d->rows, d->c.hidden);
	d->pending = false;
	profile_mark(d->profile, PROF_ROWS);
}

void
dec_input(Decoder *d)
{
	d->k->add(d->pool, d->y, d->x, d->rows, d->c.hidden);
	profile_mark(d->profile, PROF_ROWS);
}

/* to = norm(from), rows of a width */
static void
norm_rows(Decoder *d, const Norm *n, float *to, const float *from, int width)
{
	if (d->c.layer_norm)
		d->k->layernorm(d->pool, to, from, n->w, n->b, d->rows, width, d->c.eps);
	else
		d->k->rmsnorm(d->pool, to, from, n->w, d->rows, width, d->c.eps);
}

/* h = norm(x) */
static void
norm_op(Decoder *d, const Norm *n)
{
	if (d->c.layer_norm)
		d->k->layernorm_op(d->pool, d->h, d->x, n->w, n->b, d->rows, d->c.hidden, d->c.eps);
	else
		d->k->rmsnorm_op(d->pool, d->h, d->x, n->w, d->rows, d->c.hidden, d->c.eps);
}

/* h = rows of floats; keep them, as the floats may be wanted, too */
static void
to_h(Decoder *d, const float *x)
{
	d->k->to_op(d->pool, d->h, d->c.hidden, x, d->c.hidden, d->rows, d->c.hidden);
	d->last = dec_op_floats(d) ? (const float *) (const void *) d->h : x;
}

/* Copy rows of the residual stream's width. */
static void
copy(Decoder *d, float *to, const float *from)
{
	d->k->copy_rows(d->pool, to, d->c.hidden, from, d->c.hidden, NULL, d->rows, d->c.hidden);
}

/* Copy x to the batch's taps if they want it; x is the input of the layer of norm n, or of the last
 * norm. */
static void
tap(Decoder *d, const Norm *n)
{
	const ModelTaps *t = d->b->taps;
	int			width = d->c.hidden;

	if (n == &d->norm && t->raw != NULL)
		d->k->copy_rows(d->pool, t->raw, width, d->x, width, t->all != NULL ? d->b->out_rows : NULL,
						d->b->n_out, width);
	for (int l = 0; l < t->n_layers; l++)
		if (n == &d->layers[t->layers[l]].attn_norm)
			d->k->copy_rows(d->pool, t->mid + (size_t) l * (size_t) width, t->n_layers * width, d->x, width,
							NULL, d->rows, width);
}

void
dec_norm(Decoder *d, const Norm *n)
{
	/* the floats after the last norm may be wanted as hidden rows */
	bool		last = n == &d->norm && !dec_op_floats(d);

	if (d->pending && !d->c.layer_norm && d->c.residual_scale == 0 && !last)
		d->k->add_rmsnorm(d->pool, d->h, d->x, d->y, n->w, d->rows, d->c.hidden, d->c.eps);
	else
	{
		dec_add(d);
		if (last)
			norm_rows(d, n, d->y, d->x, d->c.hidden);
		else
			norm_op(d, n);
	}
	if (last)
		to_h(d, d->y);
	else
		d->last = (const float *) (const void *) d->h;
	d->pending = false;
	if (d->b->taps != NULL)
		tap(d, n);
	profile_mark(d->profile, PROF_ROWS);
}

void
dec_embed_norm(Decoder *d)
{
	if (split_is_first(d))
		norm_rows(d, &d->embed_norm, d->x, d->x, embed_width(d));
	profile_mark(d->profile, PROF_EMBED);
}

void
dec_widen(Decoder *d)
{
	if (!d->c.narrow || !split_is_first(d))
		return;
	linear_float(d, &d->project_in, d->x, d->rows, d->y);
	copy(d, d->x, d->y);
	profile_mark(d->profile, PROF_EMBED);
}

void
dec_plain(Decoder *d)
{
	dec_add(d);
	to_h(d, d->x);
	profile_mark(d->profile, PROF_ROWS);
}

void
dec_post_norm(Decoder *d, const Norm *n)
{
	dec_add(d);
	norm_rows(d, n, d->x, d->x, d->c.hidden);
	to_h(d, d->x);
	profile_mark(d->profile, PROF_ROWS);
}

void
dec_out_norm(Decoder *d, const Norm *n)
{
	norm_rows(d, n, d->y, d->y, d->c.hidden);
	profile_mark(d->profile, PROF_ROWS);
}

void
dec_qkv(Decoder *d, const Layer *l)
{
	linear(d, &l->qkv, d->h, d->rows, d->qkv);
	if (d->c.clip_qkv != 0)
		d->k->clip(d->pool, d->qkv, d->rows, qkv_width(d), qkv_width(d), d->c.clip_qkv);
	profile_mark(d->profile, PROF_MATMUL);
}

/* Apply a pending rotation now, as the next op reads rotated q and k. */
static void
rotate_now(Decoder *d)
{
	const Rope *r = d->rotate;

	/* q and k are adjacent: one call rotates the heads of both */
	if (r != NULL)
		d->k->rope(d->pool, d->qkv, d->rows, qkv_width(d), d->c.n_heads + d->c.n_kv_heads, d->c.head_dim,
				   d->b->rows.pos, r->table, r->dim);
	d->rotate = NULL;
}

void
dec_qk_norm(Decoder *d, const Layer *l)
{
	const DecoderConf *c = &d->c;
	KNormKind	kind = c->layer_norm ? KNORM_LAYER : KNORM_RMS;
	int			q = c->n_heads * c->head_dim;
	int			k = c->n_kv_heads * c->head_dim;
	bool		wide = c->qk_norm == QKNORM_WIDE;
	int			ldw = c->qk_norm == QKNORM_HEADS ? c->head_dim : 0;

	if (l->q_norm.w == NULL)
		return;
	rotate_now(d);
	d->k->norm_heads(d->pool, kind, d->qkv, d->rows, qkv_width(d), wide ? 1 : c->n_heads,
					 wide ? q : c->head_dim, l->q_norm.w, ldw, c->eps);
	d->k->norm_heads(d->pool, kind, d->qkv + q, d->rows, qkv_width(d), wide ? 1 : c->n_kv_heads,
					 wide ? k : c->head_dim, l->k_norm.w, ldw, c->eps);
	/* the norms' biases; all heads share them, unless the heads are normed as one vector */
	if (l->q_norm.b != NULL)
	{
		int			ldb = wide ? c->head_dim : 0;

		d->k->add_head_bias(d->pool, d->qkv, d->rows, qkv_width(d), c->n_heads, c->head_dim, l->q_norm.b,
							ldb);
		d->k->add_head_bias(d->pool, d->qkv + q, d->rows, qkv_width(d), c->n_kv_heads, c->head_dim,
							l->k_norm.b, ldb);
	}
	profile_mark(d->profile, PROF_ROWS);
}

void
dec_qk_plain_norm(Decoder *d)
{
	rotate_now(d);
	d->k->norm_heads(d->pool, KNORM_RMS, d->qkv, d->rows, qkv_width(d), d->c.n_heads + d->c.n_kv_heads,
					 d->c.head_dim, NULL, 0, d->c.eps);
	profile_mark(d->profile, PROF_ROWS);
}

void
dec_temper(Decoder *d, const Layer *l)
{
	const Temper *t = &d->c.temper;

	if (l->c->tempered)
	{
		rotate_now(d);
		d->k->temper(d->pool, d->qkv, d->rows, qkv_width(d), d->c.n_heads * d->c.head_dim, d->b->rows.pos,
					 t->scale, t->every, t->first);
	}
	profile_mark(d->profile, PROF_ROWS);
}

void
dec_rope(Decoder *d, const Layer *l)
{
	if (l->c->rope < 0)
		return;
	d->rotate = &d->c.rope[l->c->rope];
	if (d->k->rope_kv == NULL)
		rotate_now(d);
	profile_mark(d->profile, PROF_ROWS);
}

/* Store k, rotating it if that is pending, and v. */
static void
store_kv(Decoder *d, int layer, const float *k, const float *v)
{
	const Rope *r = d->rotate;

	if (r != NULL)
		d->k->rope_kv(d->pool, d->kv, layer, &d->b->rows, d->qkv, qkv_width(d), d->c.n_heads, r->table,
					  r->dim);
	else
		d->k->kv_write(d->pool, d->kv, layer, &d->b->rows, k, qkv_width(d), v, qkv_width(d));
	d->rotate = NULL;
}

/* Return the pairs of row and key of a step with bidirectional attention. */
static int64_t
attn_pairs(const KRows *r)
{
	int64_t		pairs = 0;

	for (int i = 0; i < r->n_seqs; i++)
	{
		int64_t		n = r->seq_start[i + 1] - r->seq_start[i];

		pairs += n * n;
	}
	return pairs;
}

/* Compute attention of one of the step's sequences, whose K and V are stored, in pieces of rows. */
static void
attn_in_pieces(Decoder *d, int layer, KAttn a, int seq)
{
	const KRows *all = &d->b->rows;
	int			first = all->seq_start[seq];
	int			end = all->seq_start[seq + 1];
	int			most = STOP_PAIRS / (end - first);

	/* enough rows to keep all threads busy */
	if (most < 64)
		most = 64;
	for (int i = first; i < end && !stopped(d); i += most)
	{
		int			n = end - i < most ? end - i : most;
		int32_t		start[2] = {0, n};
		KRows		r = *all;

		r.n_rows = n;
		r.n_seqs = 1;
		r.seq_start = start;
		r.pos += i;
		r.block_table += seq;
		r.row0 = i;
		r.seq0 = seq;
		a.ends = d->ends + i;
		d->k->attn(d->pool, d->kv, layer, &r, d->qkv + (size_t) i * (size_t) qkv_width(d), qkv_width(d),
				   d->c.n_heads, &a, kop_at(d, d->att, (size_t) i * (size_t) (d->c.n_heads * d->c.head_dim)),
				   d->ws);
	}
}

void
dec_attn(Decoder *d, const Layer *l)
{
	int			layer = l->c->kv;
	const float *q = d->qkv;
	const float *k = q + d->c.n_heads * d->c.head_dim;
	const float *v = k + d->c.n_kv_heads * d->c.head_dim;
	KAttn		a = {
		.scale = l->c->attn_scale != 0 ? l->c->attn_scale : d->c.attn_scale,
		.window = l->c->window, .chunk = l->c->chunk, .softcap = d->c.attn_softcap, .alibi = d->alibi,
		.sinks = l->sinks, .ends = d->ends, .ahead = l->c->ahead, .bias = d->bias, .span = d->bias_span
	};

	if (stopped(d))
	{
		d->rotate = NULL;
		return;
	}
	/* with parts, n_layers counts the layers of a page */
	ASSERT(layer >= 0 && (d->kv->parts != NULL || layer < d->kv->n_layers));
	store_kv(d, layer, k, v);
	if (d->b->stop != NULL && d->ends != NULL &&
		(d->b->rows.n_seqs == 1 || attn_pairs(&d->b->rows) > STOP_PAIRS))
		for (int i = 0; i < d->b->rows.n_seqs; i++)
			attn_in_pieces(d, layer, a, i);
	else
		d->k->attn(d->pool, d->kv, layer, &d->b->rows, q, qkv_width(d), d->c.n_heads, &a,
				   split_own(d, l->o.all > 0 && d->ranks.heads, d->att), d->ws);
	split_whole(d, l->o.all > 0 && d->ranks.heads, d->att, d->rows, l->o.k, (size_t) d->k->op_size);
	profile_mark(d->profile, PROF_ATTENTION);
}

/* Return the matrix that multiplies att. */
static const Linear *
out_of(const Layer *l)
{
	return l->o.n > 0 ? &l->o : &l->ssm.out;
}

static bool
ascend(const int32_t *rows, int n)
{
	for (int i = 1; i < n; i++)
		if (rows[i] <= rows[i - 1])
			return false;
	return true;
}

/* rows[i] = rows[out_rows[i]].  Row numbers ascend, so rows can be moved in place. */
static void
keep_wanted(const Decoder *d, void *rows, int size, int width)
{
	ASSERT(ascend(d->b->out_rows, d->b->n_out));
	d->k->keep_rows(d->pool, rows, size, d->b->out_rows, d->b->n_out, width);
}

static bool
taps_all(const Decoder *d)
{
	return d->b->taps != NULL && d->b->taps->all != NULL;
}

/*
 * After the last layer's attention only the rows whose logits are wanted matter, in a prompt one of
 * many: drop the others.
 */
bool
dec_wanted(Decoder *d, const Layer *l)
{
	if (d->stopped)
		return false;
	if (l != &d->layers[d->c.n_layers - 1] || taps_all(d) || !split_is_last(d))
		return true;
	keep_wanted(d, d->x, sizeof(float), d->c.hidden);
	keep_wanted(d, d->h, d->k->op_size, d->c.hidden);
	keep_wanted(d, d->att, d->k->op_size, out_of(l)->k);
	dec_lora_keep(d);
	d->rows = d->b->n_out;
	return d->rows > 0;
}

void
dec_o(Decoder *d, const Layer *l)
{
	linear(d, out_of(l), d->att, d->rows, d->y);
	d->pending = true;
	profile_mark(d->profile, PROF_MATMUL);
}

void
dec_glu(Decoder *d, const Layer *l)
{
	linear(d, &l->up, d->h, d->rows, d->gu);
	profile_mark(d->profile, PROF_MATMUL);
	d->k->act_mul(d->pool, d->c.act, split_own(d, l->down.all > 0, d->act), d->gu, d->rows, d->c.inter);
	split_whole(d, l->down.all > 0, d->act, d->rows, l->down.k, (size_t) d->k->op_size);
	profile_mark(d->profile, PROF_ROWS);
	linear(d, &l->down, d->act, d->rows, d->y);
	d->pending = true;
	profile_mark(d->profile, PROF_MATMUL);
}

/* log(1 + e^x) */
static float
softplus(float x)
{
	return x > 20 ? x : log1pf(expf(x));
}

/* xIELU (Huang and Schlag 2025, arXiv:2411.13010), whose slopes are learned */
static void
xielu(Decoder *d, const Layer *l, KOp *act, const float *up)
{
	float		p[4];

	for (int i = 0; i < 4; i++)
		p[i] = l->xielu[i] != NULL ? *dec_host(d, l->xielu[i]) : l->c->xielu[i];
	d->k->act_op(d->pool, KACT_XIELU, (float[4]) {softplus(p[0]), p[2] + softplus(p[1]), p[2], p[3]}, act, up,
				 d->rows, d->c.inter);
}

void
dec_mlp(Decoder *d, const Layer *l)
{
	KOp		   *act = split_own(d, l->down.all > 0, d->act);
	float	   *up = dec_op_floats(d) ? (float *) (void *) act : d->gu;

	linear(d, &l->up, d->h, d->rows, up);
	profile_mark(d->profile, PROF_MATMUL);
	if (d->c.xielu)
		xielu(d, l, act, up);
	else
		d->k->act_op(d->pool, d->c.act, NULL, act, up, d->rows, d->c.inter);
	split_whole(d, l->down.all > 0, d->act, d->rows, l->down.k, (size_t) d->k->op_size);
	profile_mark(d->profile, PROF_ROWS);
	linear(d, &l->down, d->act, d->rows, d->y);
	d->pending = true;
	profile_mark(d->profile, PROF_MATMUL);
}

void
dec_ffn(Decoder *d, const Layer *l)
{
	if (l->c->moe)
		dec_moe(d, l);
	else
		dec_glu(d, l);
}

void
dec_head(Decoder *d, float *logits)
{
	dec_norm(d, &d->norm);
	dec_logits(d, logits);
}

/* Keep the wanted rows after the last norm, which has set h.  Return false if none is left. */
static bool
tap_last(Decoder *d)
{
	const ModelTaps *t = d->b->taps;

	if (taps_all(d))
	{
		copy(d, t->all, t->all_raw ? d->x : d->last);
		/* if h is floats, last is h */
		if (!dec_op_floats(d))
			keep_wanted(d, (void *) (uintptr_t) d->last, sizeof(float), d->c.hidden);
		keep_wanted(d, d->h, d->k->op_size, d->c.hidden);
		dec_lora_keep(d);
		d->rows = d->b->n_out;
	}
	if (t->out != NULL)
		copy(d, t->out, d->last);
	return d->rows > 0;
}

void
dec_logits(Decoder *d, float *logits)
{
	const KOp  *h = d->h;
	int			ldx;
	int			width = d->b->hidden ? d->c.hidden : d->c.vocab;

	if (!split_is_last(d))
	{
		split_hand_x(d);
		split_logits(d, logits, d->b->n_out, width);
		return;
	}
	if (d->b->taps != NULL && !tap_last(d))
		return;
	if (d->b->hidden)
	{
		copy(d, logits, d->last);
		split_logits(d, logits, d->rows, width);
		return;
	}
	if (d->project_out.n > 0)
	{
		linear(d, &d->project_out, d->h, d->rows, d->y);
		ldx = d->project_out.n;
		h = dec_op(d, d->y, &ldx, d->rows, ldx);
	}
	linear_as(d, d->c.tied ? &d->embed : &d->head, d->head.lora, h, d->rows, logits);
	if (d->head_norm != NULL)
		d->k->mul_cols(d->pool, logits, d->rows, d->c.vocab, d->head_norm, d->c.vocab);
	if (d->c.logit_scale != 0)
		d->k->scale(d->pool, logits, d->rows, d->c.vocab, d->c.logit_scale);
	if (d->c.logit_softcap != 0)
		d->k->softcap(d->pool, logits, d->rows, d->c.vocab, d->c.logit_softcap);
	split_logits(d, logits, d->rows, width);
	profile_mark(d->profile, PROF_HEAD);
}
