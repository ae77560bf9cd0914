/*
 * shard.c
 *	  Reduce a model to a rank's part.
 *
 * The rules depend on the kind of Linear, not on the architecture; split_layer() has all of them.
 *
 * Tested by tests/unit/core/ranks/test_ranks.c.
 */
#include "model/parallel/shard.h"

#include <string.h>

#include "base/assert.h"
#include "base/blake2.h"
#include "base/alloc.h"
#include "model/parallel/expert_migration.h"
#include "model/weights/bound.h"

/* Outputs from .. from + n - 1. */
typedef struct ShardRange
{
	int			from;
	int			n;
} ShardRange;

int
split_at(int total, int ranks, int rank)
{
	return (int) ((int64_t) total * rank / ranks);
}

int
split_owner(int total, int ranks, int i)
{
	int			r = 0;

	ASSERT(i >= 0 && i < total);
	while (i >= split_at(total, ranks, r + 1))
		r++;
	return r;
}

/* Return a stage's first layer; the remainder goes to the stages before the last. */
static int
split_layers(int layers, int stages, int stage)
{
	int			at = 0;

	for (int s = 0; s < stage; s++)
		at += layers / stages + (s < stages - 1 && s >= stages - 1 - layers % stages);
	return at;
}

/* Return this rank's part of `total`. */
static ShardRange
own(const Decoder *d, int total)
{
	const KComm *c = d->ranks.tp;
	int			from = split_at(total, c->size, c->rank);

	return (ShardRange) {from, split_at(total, c->size, c->rank + 1) - from};
}

/* ---- parts of what was bound ---- */

/* Allocate memory owned by d->bound, which doubles its list as bind.c does. */
static void *
keep(Decoder *d, size_t bytes)
{
	Bound	   *o = d->bound;

	if ((o->n_views & (o->n_views - 1)) == 0)
		o->views = mem_realloc(o->views, (o->n_views > 0 ? 2 * o->n_views : 1) * sizeof(*o->views));
	return o->views[o->n_views++] = mem_zalloc(bytes);
}

/*
 * Return how many of from .. from + n - 1 are in the ranges; store their numbers relative to `from` in
 * `which`, unless that is NULL.
 */
static int
in_ranges(const ShardRange *r, int n_ranges, int from, int n, int32_t *which)
{
	int			found = 0;

	for (int i = 0; i < n_ranges; i++)
	{
		int			first = r[i].from > from ? r[i].from : from;
		int			end = r[i].from + r[i].n < from + n ? r[i].from + r[i].n : from + n;

		for (int j = first; j < end; j++)
		{
			if (which != NULL)
				which[found] = j - from;
			found++;
		}
	}
	return found;
}

/* Return a view of rows which[n] of t. */
static const KTensor *
some_rows(Decoder *d, const KTensor *t, const int32_t *which, int n)
{
	KTensor    *v = keep(d, sizeof(KTensor));
	int32_t    *perm = keep(d, (size_t) n * sizeof(int32_t));

	for (int i = 0; i < n; i++)
		perm[i] = t->row_perm != NULL ? t->row_perm[which[i]] : which[i];
	*v = *t;
	v->shape[0] = n;
	v->row_perm = perm;
	v->base = t->base != NULL ? t->base : t;
	return v;
}

static void
shard_sites(Decoder *d, const Linear *l, const ShardRange *r, int n)
{
	for (int i = 0; i < d->n_sites; i++)
	{
		LoraSite   *s = &d->sites[i];
		int32_t    *perm;
		int			kept;

		if (s->l != l || s->embedding)
			continue;
		perm = mem_alloc(((size_t) s->n + 1) * sizeof(int32_t));
		kept = in_ranges(r, n, s->from, s->n, perm);
		for (int j = 0; j < kept && s->perm != NULL; j++)
			perm[j] = s->perm[perm[j]];
		mem_free(s->perm);
		s->perm = perm;
		s->n = kept;
		s->from = in_ranges(r, n, 0, s->from, NULL);
	}
}

/* Keep only these outputs of l; ranges ascend. */
static void
shard_outputs(Decoder *d, Linear *l, const ShardRange *r, int n)
{
	int32_t    *which = mem_alloc((size_t) l->n * sizeof(int32_t));
	int			first = 0;
	int			parts = 0;

	shard_sites(d, l, r, n);
	for (int p = 0; p < l->n_parts; p++)
	{
		int			rows = (int) l->w[p]->shape[0];
		int			kept = in_ranges(r, n, first, rows, which);

		first += rows;
		if (kept == 0)
			continue;
		l->as[parts] = l->as[p];
		l->b[parts] = l->b[p] != NULL ? some_rows(d, l->b[p], which, kept) : NULL;
		l->w[parts++] = some_rows(d, l->w[p], which, kept);
	}
	ASSERT(first == l->n);
	for (int i = 0; i < l->n_gains; i++)
		l->gains[i] = (Gain) {in_ranges(r, n, 0, l->gains[i].from, NULL),
							  in_ranges(r, n, l->gains[i].from, l->gains[i].n, NULL),
		l->gains[i].by};
	l->n = in_ranges(r, n, 0, l->n, NULL);
	l->n_parts = parts;
	mem_free(which);
}

/* Split l by columns; its outputs will be gathered. */
static void
shard_columns(Decoder *d, Linear *l)
{
	ShardRange	r = own(d, l->n);

	if (l->n == 0)
		return;
	l->all = l->n;
	shard_outputs(d, l, &r, 1);
}

/*
 * Return the unit of inputs at which a row can be cut, so that each part is a row of its type and is
 * multiplied with exactly the activations of the whole row (kernels.md): INT8's activations have scales
 * for 128 inputs, those of other block types for 32.  Only KT_INT8D's have one for as much of the row as a
 * rank has.
 */
static int
row_unit(const Linear *l)
{
	int			unit = 1;

	for (int p = 0; p < l->n_parts; p++)
	{
		KType		t = l->as[p];
		int			its = ktype_is_int8(t) || t == KT_FP8 ? FP8_GROUP : ktype_block(t);

		unit = its > unit ? its : unit;
	}
	return unit;
}

/* Return this rank's part of `total`, in whole units. */
static ShardRange
own_units(const Decoder *d, int total, int unit)
{
	const KComm *c = d->ranks.tp;
	ShardRange	r = own(d, total / unit);
	int			from = r.from * unit;

	return (ShardRange) {from, c->rank == c->size - 1 ? total - from : r.n * unit};
}

/* Split l by inputs: this rank has the inputs in r; the ranks' results will be added up. */
static void
shard_inputs(Decoder *d, Linear *l, ShardRange r)
{
	for (int i = 0; i < d->n_sites; i++)
		if (d->sites[i].l == l)
		{
			d->sites[i].k_from = r.from;
			d->sites[i].k_own = r.n;
		}
	/* only one rank adds the bias */
	for (int p = 0; p < l->n_parts && d->ranks.tp->rank > 0; p++)
		l->b[p] = NULL;
	l->k_all = l->k;
	l->k_from = r.from;
	l->k = r.n;
}

/* Keep the columns r of gate and up side by side, or of up alone, of an MLP of width `inter`. */
static void
shard_up(Decoder *d, Linear *l, int inter, ShardRange r)
{
	ShardRange	both[2] = {r, {inter + r.from, r.n}};

	shard_outputs(d, l, both, l->n > inter ? 2 : 1);
}

/* Drop a vector that this rank doesn't need. */
static void
leave_vector(Decoder *d, float *const *to)
{
	Bound	   *o = d->bound;
	size_t		n = 0;

	for (size_t i = 0; i < o->n_vectors; i++)
		if (o->vectors[i].to != to)
			o->vectors[n++] = o->vectors[i];
	o->n_vectors = n;
}

/* Keep the elements r of a vector, which may have been bound in pieces. */
static void
shard_vector(Decoder *d, float *const *to, ShardRange r)
{
	Bound	   *o = d->bound;
	size_t		n = 0;

	for (size_t i = 0; i < o->n_vectors; i++)
	{
		BoundVector v = o->vectors[i];

		if (v.to == to)
		{
			int			size = (int) v.src->shape[0];
			int32_t    *which = mem_alloc((size_t) size * sizeof(int32_t));
			int			kept = in_ranges(&r, 1, v.at, size, which);

			if (kept > 0)
				v.src = some_rows(d, v.src, which, kept);
			mem_free(which);
			if (kept == 0)
				continue;
			v.at = v.at > r.from ? v.at - r.from : 0;
			v.of = v.of > 0 ? r.n : 0;
		}
		o->vectors[n++] = v;
	}
	o->n_vectors = n;
}

/*
 * Keep only r.n matrices of a stack: r.from and every step-th after it, continuing with the first after
 * the last.
 */
static void
shard_matrices(Decoder *d, Stack *s, ShardRange r, int step)
{
	Bound	   *o = d->bound;
	uintptr_t	first = (uintptr_t) s->of;
	Linear	   *all = mem_alloc((size_t) s->n * sizeof(Linear));
	size_t		n = 0;

	for (size_t i = 0; i < o->n_linears; i++)
	{
		uintptr_t	at = (uintptr_t) o->linears[i];
		int			which = at >= first && at < (uintptr_t) (s->of + s->n) ?
			(int) ((at - first) / sizeof(Linear)) : -1;
		int			shift_range = (which - r.from + s->n) % s->n;

		if (which >= 0 && (shift_range >= r.n * step || shift_range % step != 0))
			continue;
		o->linears[n++] = which < 0 ? o->linears[i] : &s->of[shift_range / step];
	}
	o->n_linears = n;
	memcpy(all, s->of, (size_t) s->n * sizeof(Linear));
	for (int i = 0; i < r.n; i++)
		s->of[i] = all[(r.from + i * step) % s->n];
	s->n = r.n;
	mem_free(all);
}

/* ---- columns ---- */

/* Return the rank's heads of k and v; if there are fewer heads than ranks, several ranks have the
 * same. */
static ShardRange
own_kv(const Decoder *d)
{
	const KComm *c = d->ranks.tp;
	int			kv = d->c.n_kv_heads;

	return kv % c->size == 0 ? own(d, kv) : (ShardRange) {split_at(kv, c->size, c->rank), 1};
}

static ShardRange
times(ShardRange r, int by)
{
	return (ShardRange) {r.from * by, r.n * by};
}

static ShardRange
shift_range(ShardRange r, int first)
{
	return (ShardRange) {first + r.from, r.n};
}

static void
split_heads(Decoder *d, Layer *l)
{
	const DecoderConf *c = &d->c;
	ShardRange	q = times(own(d, c->n_heads), c->head_dim);
	ShardRange	k = times(own_kv(d), c->head_dim);
	ShardRange	qkv[3] = {q, shift_range(k, c->n_heads * c->head_dim),
						  shift_range(k, (c->n_heads + c->n_kv_heads) * c->head_dim)};

	if (l->qkv.n == 0)
		return;
	shard_outputs(d, &l->qkv, qkv, 3);
	shard_vector(d, &l->sinks, own(d, c->n_heads));
	if (c->qk_norm != QKNORM_HEADS)
		return;
	shard_vector(d, &l->q_norm.w, q);
	shard_vector(d, &l->q_norm.b, q);
	shard_vector(d, &l->k_norm.w, k);
	shard_vector(d, &l->k_norm.b, k);
}

static void
split_latent(Decoder *d, Layer *l)
{
	const MlaConf *m = &d->c.mla;
	ShardRange	heads = own(d, d->c.n_heads);
	ShardRange	q = times(heads, m->plain + m->rope);
	ShardRange	in[2] = {q, {d->c.n_heads * (m->plain + m->rope), m->latent + m->rope}};

	if (l->mla.in.n == 0)
		return;
	if (m->q_latent > 0)
		shard_outputs(d, &l->mla.q, &q, 1);
	else
		shard_outputs(d, &l->mla.in, in, 2);
	shard_matrices(d, &l->mla.k, heads, 1);
	shard_matrices(d, &l->mla.v, heads, 1);
}

int
split_experts_at(const Decoder *d, int rank)
{
	int			n = d->ranks.n_slots;
	int			ranks = d->ranks.tp->size;

	if (!d->ranks.round_robin)
		return split_at(n, ranks, rank);
	return rank * (n / ranks) + (rank < n % ranks ? rank : n % ranks);
}

/* Number the slots for round-robin assignment: one table for all layers. */
static void
number_slots(Decoder *d)
{
	DecRanks   *r = &d->ranks;
	int			ranks = r->tp->size;

	r->slot_width = 2;
	r->slot_ints = 2 * (size_t) r->n_slots;
	r->slots = mem_alloc(r->slot_ints * sizeof(int32_t));
	for (int i = 0; i < r->n_slots; i++)
	{
		r->slots[2 * i] = 1;
		r->slots[2 * i + 1] = split_experts_at(d, i % ranks) + i / ranks;
	}
}

/*
 * Units at which the inner rows of MLPs are cut to split their second matrix by inputs; 0 = it is split
 * by columns.
 */
typedef struct RowUnits
{
	int			dense;
	int			experts;
	int			shared;
} RowUnits;

static int
larger(int a, int b)
{
	return a > b ? a : b;
}

/* Return a unit for parts of an inner row of this width; if possible, parts begin at vector
 * boundaries. */
static int
unit_of_parts(const Decoder *d, int width, int unit)
{
	int			ranks = d->ranks.tp->size;

	if (unit < 32 && width / 32 >= ranks)
		unit = 32;
	return width / unit >= ranks ? unit : 0;
}

/* Return the units, the same for all layers; for a mixture all experts or none, as one sum has all of
 * them. */
static RowUnits
row_units(const Decoder *d)
{
	const MoeConf *m = &d->c.moe;
	RowUnits	u = {1, 1, 1};

	if (!d->ranks.rows)
		return (RowUnits) {0};
	for (int i = 0; i < d->c.n_layers; i++)
	{
		const Layer *l = &d->layers[i];

		u.dense = larger(u.dense, row_unit(&l->down));
		u.shared = larger(u.shared, row_unit(&l->moe.shared_down));
		for (int j = 0; j < l->moe.down.n; j++)
			u.experts = larger(u.experts, row_unit(&l->moe.down.of[j]));
	}
	u.dense = unit_of_parts(d, d->c.inter, u.dense);
	u.experts = d->ranks.experts ? 0 : unit_of_parts(d, m->inter, u.experts);
	if (m->shared_inter > 0)
		u.shared = unit_of_parts(d, m->shared_inter, u.shared);
	if (u.experts == 0 || u.shared == 0)
		u.experts = u.shared = 0;
	return u;
}

/* Split an MLP's two matrices. */
static void
split_mlp(Decoder *d, Linear *up, Linear *down, int unit)
{
	int			inter = down->k;
	ShardRange	r = own_units(d, inter, unit > 0 ? unit : 1);

	if (down->n == 0)
		return;
	shard_up(d, up, inter, r);
	if (unit > 0)
		shard_inputs(d, down, r);
	else
		shard_columns(d, down);
}

static void
split_moe(Decoder *d, Moe *m, const RowUnits *u)
{
	ShardRange	columns = own(d, d->c.hidden);
	ShardRange	inter = own_units(d, d->c.moe.inter, larger(u->experts, 1));

	if (m->up.n == 0)
		return;
	split_mlp(d, &m->shared_up, &m->shared_down, u->shared);
	if (d->ranks.experts)
	{
		const KComm *tp = d->ranks.tp;
		int			first = split_experts_at(d, tp->rank);
		int			expert = d->ranks.round_robin ? tp->rank : first % d->c.moe.n_experts;
		ShardRange	r = {expert, split_experts_at(d, tp->rank + 1) - first};

		shard_matrices(d, &m->up, r, d->ranks.round_robin ? tp->size : 1);
		shard_matrices(d, &m->down, r, d->ranks.round_robin ? tp->size : 1);
		return;
	}
	for (int i = 0; i < m->up.n; i++)
	{
		shard_up(d, &m->up.of[i], d->c.moe.inter, inter);
		if (u->experts > 0)
			shard_inputs(d, &m->down.of[i], inter);
		else
			/* moe.c gathers all experts at once */
			shard_outputs(d, &m->down.of[i], &columns, 1);
	}
	if (u->experts > 0 && d->ranks.tp->rank > 0)
		leave_vector(d, &m->out_bias);
}

/* Split o, whose input is attention's output by heads. */
static void
split_o(Decoder *d, Linear *o)
{
	int			heads = d->c.n_heads;
	ShardRange	r = times(own(d, heads), o->k / heads);

	if (d->ranks.rows && d->ranks.heads && o->n > 0 && o->k / d->ranks.tp->size % row_unit(o) == 0)
		shard_inputs(d, o, r);
	else
		shard_columns(d, o);
}

static void
split_layer(Decoder *d, Layer *l, const RowUnits *u)
{
	if (d->ranks.heads)
	{
		split_heads(d, l);
		split_latent(d, l);
	}
	split_o(d, &l->o);
	split_mlp(d, &l->up, &l->down, u->dense);
	split_moe(d, &l->moe, u);
}

/* Split embedding and head; if they are one matrix, so are their parts. */
static void
split_vocab(Decoder *d)
{
	/* in these cases other code reads the whole head, too */
	bool		whole = d->c.no_head || d->c.head_norm || d->scores_tokens || (d->c.tied && d->ranks.lends);
	ShardRange	r = own(d, d->embed.n);

	if (!whole)
		shard_columns(d, &d->head);
	if ((whole && d->c.tied) || d->ranks.lends)
		return;
	if (d->c.tied)
		shard_sites(d, &d->head, &r, 1);
	shard_columns(d, &d->embed);
	d->ranks.places = mem_alloc((size_t) d->max_rows * sizeof(int32_t));
}

static bool
can_split(const Decoder *d, Err *e)
{
	const DecoderConf *c = &d->c;
	int			n = d->ranks.tp->size;
	bool		dense = false;

	if (c->both_ways)
		return err_set(e, ERR_UNSUPPORTED,
					   "a model with bidirectional attention can't be shared by %d ranks", n);
	if (c->no_attn)
		return err_set(e, ERR_UNSUPPORTED, "a model without attention can't be shared by %d ranks", n);
	if (d->ranks.heads && c->n_heads % n != 0)
		return err_set(e, ERR_INVALID, "%d attention heads can't be divided among %d ranks", c->n_heads, n);
	if (d->ranks.heads && c->mla.latent == 0 && c->n_kv_heads % n != 0 && n % c->n_kv_heads != 0)
		return err_set(e, ERR_INVALID, "%d key-value heads can't be divided among %d ranks", c->n_kv_heads,
					   n);
	for (int i = 0; i < c->n_layers; i++)
		dense = dense || d->layers[i].down.n > 0;
	if (c->hidden < n || (dense && c->inter < n) ||
		(c->moe.n_experts > 0 && c->moe.inter < n && !d->ranks.experts))
		return err_set(e, ERR_INVALID, "the model's layers are too narrow for %d ranks", n);
	if (d->ranks.experts && c->moe.n_experts < n)
		return err_set(e, ERR_INVALID, "%d experts can't be distributed over %d ranks", c->moe.n_experts, n);
	return true;
}

/* Reduce the sizes that the blocks of the forward pass use. */
static void
shrink_conf(Decoder *d, const RowUnits *u)
{
	DecoderConf *c = &d->c;
	ShardRange	heads = own(d, c->n_heads);

	if (d->ranks.heads)
	{
		if (c->alibi != NULL)
			memmove(c->alibi, c->alibi + heads.from, (size_t) heads.n * sizeof(float));
		if (c->mla.latent == 0)
			c->n_kv_heads = own_kv(d).n;
		c->n_heads = heads.n;
	}
	c->inter = own_units(d, c->inter, larger(u->dense, 1)).n;
	if (!d->ranks.experts)
	{
		d->ranks.moe_inter = u->experts > 0 ? 0 : c->moe.inter;
		c->moe.inter = own_units(d, c->moe.inter, larger(u->experts, 1)).n;
	}
}

static bool
split_columns(Decoder *d, const ModelRanks *all, Err *e)
{
	RowUnits	u;
	bool		moves = all->eplb.on && all->experts && d->c.moe.n_experts > 0;

	/* with QKNORM_WIDE all heads are one vector */
	d->ranks.heads = d->c.qk_norm != QKNORM_WIDE;
	d->ranks.experts = d->ranks.experts && d->c.moe.n_experts > 0;
	d->ranks.round_robin = d->ranks.round_robin && d->ranks.experts && !moves;
	if (!can_split(d, e) || (moves && !balance_check(d, &all->eplb, all->tp->size, e)))
		return false;
	d->ranks.n_slots = d->ranks.experts ? d->c.moe.n_experts : 0;
	if (moves)
		balance_begin(d, &all->eplb, all->tp);
	else if (d->ranks.round_robin)
		number_slots(d);
	u = row_units(d);
	for (int i = 0; i < d->c.n_layers; i++)
		split_layer(d, &d->layers[i], &u);
	split_vocab(d);
	shrink_conf(d, &u);
	return true;
}

/* ---- layers ---- */

/* Return true if p lies within the layers of another stage, or in the matrices of one of their
 * stacks. */
static bool
elsewhere(const Decoder *d, const void *p, int first, int end)
{
	uintptr_t	at = (uintptr_t) p;

	for (int i = 0; i < d->c.n_layers; i++)
	{
		const Layer *l = &d->layers[i];
		const Stack *stacks[] = {&l->moe.up, &l->moe.down, &l->mla.k, &l->mla.v};

		if (i >= first && i < end)
			continue;
		if (at >= (uintptr_t) l && at < (uintptr_t) (l + 1))
			return true;
		for (int s = 0; s < 4; s++)
			if (at >= (uintptr_t) stacks[s]->of && at < (uintptr_t) (stacks[s]->of + stacks[s]->n))
				return true;
	}
	return false;
}

/* Drop from everything that was bound what belongs to other layers. */
static void
leave_layers(Decoder *d, int first, int end)
{
	Bound	   *o = d->bound;
	size_t		n = 0;

	for (size_t i = 0; i < o->n_linears; i++)
		if (!elsewhere(d, o->linears[i], first, end))
			o->linears[n++] = o->linears[i];
	o->n_linears = n;
	n = 0;
	for (size_t i = 0; i < o->n_vectors; i++)
		if (!elsewhere(d, o->vectors[i].to, first, end))
			o->vectors[n++] = o->vectors[i];
	o->n_vectors = n;
	/* last, as elsewhere() needs the stacks */
	n = 0;
	for (size_t i = 0; i < d->n_stacks; i++)
		if (!elsewhere(d, d->stacks[i], first, end))
			d->stacks[n++] = d->stacks[i];
		else
			stack_free(d->stacks[i]);
	d->n_stacks = n;
}

/* Drop a Linear that this stage doesn't need. */
static void
leave(Decoder *d, Linear *l)
{
	Bound	   *o = d->bound;
	size_t		n = 0;

	for (size_t i = 0; i < o->n_linears; i++)
		if (o->linears[i] != l)
			o->linears[n++] = o->linears[i];
	o->n_linears = n;
}

static bool
split_stages(Decoder *d, Err *e)
{
	const KComm *c = d->ranks.pp;
	int			first = split_layers(d->c.n_layers, c->size, c->rank);
	int			end = split_layers(d->c.n_layers, c->size, c->rank + 1);

	if (d->c.n_layers < c->size)
		return err_set(e, ERR_INVALID, "%d layers can't be divided into %d stages", d->c.n_layers, c->size);
	if (d->c.both_ways)
		return err_set(e, ERR_UNSUPPORTED,
					   "a model with bidirectional attention can't be divided into %d stages", c->size);
	/* the first stage computes scores */
	if (d->scores_tokens && !d->c.tied)
		return err_set(e, ERR_UNSUPPORTED,
					   "a model that scores by its head's rows of tokens can't be divided into %d stages",
					   c->size);
	leave_layers(d, first, end);
	if (!split_is_first(d))
	{
		leave(d, &d->pos);
		leave(d, &d->types);
		leave(d, &d->project_in);
		if (!split_is_last(d) || !d->c.tied)
			leave(d, &d->embed);
	}
	if (!split_is_last(d))
	{
		leave(d, &d->head);
		leave(d, &d->project_out);
		d->head.n = 0;
	}
	memmove(d->c.layers, d->c.layers + first, (size_t) (end - first) * sizeof(LayerConf));
	ASSERT(d->ranks.first_layer == 0);	/* decoder_clear() subtracts it once */
	d->layers += first;
	d->ranks.first_layer = first;
	d->c.n_layers = end - first;
	for (int i = 0; i < d->c.n_layers; i++)
		d->layers[i].c = &d->c.layers[i];
	dec_state_plan(d);
	return true;
}

/* Make the communicator for the ops' buffers; NULL if the group has only one rank. */
static KComm *
of_ops(Decoder *d, KComm *c)
{
	if (c == NULL || c->size == 1)
		return NULL;
	return d->dev != NULL ? comm_staged(c, d->dev, &d->wait) : c;
}

bool
split_apply(Decoder *d, const ModelRanks *r, Err *e)
{
	d->ranks.tp = of_ops(d, r->tp);
	d->ranks.pp = of_ops(d, r->pp);
	/* a stage of one rank has all experts of its layers */
	d->ranks.experts = r->experts && d->ranks.tp != NULL;
	d->ranks.round_robin = r->round_robin;
	d->ranks.rows = r->rows;
	d->ranks.lends = r->lends;
	return (d->ranks.pp == NULL || split_stages(d, e)) && (d->ranks.tp == NULL || split_columns(d, r, e));
}

bool
split_upload_slots(Decoder *d, size_t from, size_t n, Err *e)
{
	int32_t    *to = (int32_t *) d->ranks.slot_mem.base + from;

	if (d->dev == NULL)
	{
		memcpy(to, d->ranks.slots + from, n * sizeof(int32_t));
		return true;
	}
	d->dev->ops->put(d->dev->d, to, d->ranks.slots + from, n * sizeof(int32_t));
	return dev_wait(d->dev, e);
}

bool
split_place(Decoder *d, Err *e)
{
	DecRanks   *r = &d->ranks;
	size_t		starts = r->experts ? 2 * ((size_t) r->n_slots + 1) * sizeof(int32_t) : 0;
	size_t		hidden = r->tp != NULL ||
		r->pp != NULL ? (size_t) r->max_out * (size_t) d->c.hidden * sizeof(float) : 0;

	if (r->slot_ints > 0)
	{
		if (!devmem_reserve(&r->slot_mem, d->dev, r->slot_ints * sizeof(int32_t), HUGE_OFF,
							"Which slots experts are in", e))
			return false;
		if (!split_upload_slots(d, 0, r->slot_ints, e))
			return false;
	}
	if (d->dev == NULL)
		return true;
	if (starts > 0)
		r->starts = d->dev->ops->pin(d->dev->d, starts);
	if (hidden > 0)
		r->hidden = d->dev->ops->pin(d->dev->d, hidden);
	return ((starts == 0 || r->starts != NULL) && (hidden == 0 || r->hidden != NULL)) ||
		err_set(e, ERR_NOMEM, "could not pin %zu bytes for ranks", starts + hidden);
}

void
split_end(Decoder *d)
{
	DecRanks   *r = &d->ranks;

	balance_end(d);
	mem_free(r->slots);
	devmem_free(&r->slot_mem);
	if (d->dev == NULL)
		return;
	d->dev->ops->unpin(d->dev->d, r->starts);
	d->dev->ops->unpin(d->dev->d, r->hidden);
	if (r->tp != NULL)
		r->tp->ops->free(r->tp);
	if (r->pp != NULL)
		r->pp->ops->free(r->pp);
}

/* ---- digest: do ranks have the same model? ---- */

static void
digest_tensor(Blake2 *b, const KTensor *t)
{
	int32_t		type = (int32_t) t->type;

	if (t->name != NULL)
		blake2_add(b, t->name, strlen(t->name) + 1);
	blake2_add(b, t->shape, sizeof(t->shape));
	blake2_add(b, &type, sizeof(type));
}

void
split_digest(const Decoder *d, uint8_t out[SPLIT_DIGEST])
{
	const DecoderConf *c = &d->c;
	const Bound *o = d->bound;
	int32_t		sizes[] = {c->hidden, c->n_layers, c->n_heads, c->n_kv_heads, c->head_dim, c->inter, c->vocab,
						   c->max_len, c->moe.n_experts,
	c->moe.top_k};
	Blake2		b;

	blake2_begin(&b, NULL, 0);
	blake2_add(&b, sizes, sizeof(sizes));
	for (size_t i = 0; i < o->n_linears; i++)
	{
		const Linear *l = o->linears[i];
		int32_t		shape[2] = {l->n, l->k};

		blake2_add(&b, shape, sizeof(shape));
		for (int p = 0; p < l->n_parts; p++)
		{
			int32_t		as = (int32_t) l->as[p];

			digest_tensor(&b, l->w[p]);
			blake2_add(&b, &as, sizeof(as));
		}
	}
	for (size_t i = 0; i < o->n_vectors; i++)
		digest_tensor(&b, o->vectors[i].src);
	blake2_end(&b, out);
}

/* ---- a step ---- */

size_t
split_part(const Decoder *d)
{
	size_t		rows = (size_t) d->max_rows;
	size_t		pairs = (size_t) d->moe.rows * (size_t) d->c.moe.top_k;
	size_t		most = 0;
	size_t		head;

	if (d->ranks.tp == NULL)
		return 0;
	for (int i = 0; i < d->c.n_layers; i++)
	{
		const Layer *l = &d->layers[i];
		size_t		of_layer[] = {
			(size_t) l->o.k, (size_t) l->o.n, (size_t) d->c.inter, (size_t) l->down.n,
			(size_t) l->moe.shared_up.n, (size_t) l->moe.shared_down.n
		};

		for (size_t j = 0; j < sizeof(of_layer) / sizeof(of_layer[0]); j++)
			most = rows * of_layer[j] > most ? rows * of_layer[j] : most;
	}
	if (pairs * (size_t) d->c.hidden > most)
		most = pairs * (size_t) d->c.hidden;
	if (pairs * (size_t) d->c.moe.inter > most)
		most = pairs * (size_t) d->c.moe.inter;
	if (rows * (size_t) d->embed.k > most)
		most = rows * (size_t) d->embed.k;
	head = (size_t) d->ranks.max_out * (size_t) (d->c.tied ? d->embed.n : d->head.n);
	return head > most ? head : most;
}

void *
split_own(Decoder *d, bool split, void *all)
{
	return split ? d->ranks.part : all;
}

void
split_whole(Decoder *d, bool split, void *all, int rows, int total, size_t size)
{
	KComm	   *c = d->ranks.tp;
	int32_t		starts[GROUP_MOST + 1];

	if (!split)
		return;
	for (int r = 0; r <= c->size; r++)
		starts[r] = split_at(total, c->size, r);
	c->ops->gather(c, d->pool, all, d->ranks.part, rows, starts, size);
}

/*
 * Tokens are in the host's memory, so each rank knows which rank owns each row.  The rows are gathered
 * owner by owner and copied from there.  Adding up the ranks' rows would give the same values except for
 * the signs of zeros.
 */
void
split_embed(Decoder *d, float *to, float *before)
{
	const Linear *e = &d->embed;
	const int32_t *tokens = d->b->tokens;
	KComm	   *c = d->ranks.tp;
	int32_t		starts[GROUP_MOST + 1] = {0};
	int32_t		at[GROUP_MOST];
	int			first = split_at(e->all, c->size, c->rank);
	int			n = 0;

	for (int i = 0; i < d->rows; i++)
	{
		/* an invalid token gives a row of zeros, which the first rank provides */
		int			owner = tokens[i] >= 0 && tokens[i] < e->all ? split_owner(e->all, c->size, tokens[i]) :
			0;

		starts[owner + 1]++;
		if (owner == c->rank)
			d->ids[n++] = tokens[i] >= 0 ? tokens[i] - first : -1;
	}
	for (int r = 0; r < c->size; r++)
	{
		starts[r + 1] += starts[r];
		at[r] = starts[r];
	}
	for (int i = 0; i < d->rows; i++)
		d->ranks.places[i] = at[tokens[i] >= 0 &&
								tokens[i] < e->all ? split_owner(e->all, c->size, tokens[i]) : 0]++;
	if (n > 0)
		d->k->rows_of(d->pool, &e->mat[0], d->ids, 0, n, d->ranks.part, e->k);
	c->ops->gather(c, d->pool, before, d->ranks.part, 1, starts, (size_t) e->k * sizeof(float));
	d->k->copy_rows(d->pool, to, e->k, before, e->k, d->ranks.places, d->rows, e->k);
}

void
split_sum(Decoder *d, bool parts, float *x, int rows)
{
	KComm	   *c = d->ranks.tp;

	if (parts)
		c->ops->sum(c, d->pool, x, (size_t) rows * (size_t) d->c.hidden);
}

/* Copy data of ops to the host and wait for it. */
static void
fetch(Decoder *d, void *to, const void *x, size_t size)
{
	Err			reported_later;

	d->dev->ops->get(d->dev->d, to, x, size);
	dev_wait_until(d->dev, d->dev->ops->done, &d->wait);
	(void) dev_wait(d->dev, &reported_later);
}

const int32_t *
split_starts(Decoder *d, const int32_t *start, int32_t *own, int first, int n)
{
	size_t		all = (size_t) d->ranks.n_slots + 1;
	int32_t    *mine = own;

	if (d->dev != NULL)
	{
		fetch(d, d->ranks.starts, start, all * sizeof(int32_t));
		start = d->ranks.starts;
		mine = d->ranks.starts + all;
	}
	for (int i = 0; i <= n; i++)
		mine[i] = start[first + i] - start[first];
	if (d->dev != NULL)
		d->dev->ops->put(d->dev->d, own, mine, ((size_t) n + 1) * sizeof(int32_t));
	return start;
}

const int32_t *
split_slots(const Decoder *d, int layer)
{
	return (const int32_t *) d->ranks.slot_mem.base + (size_t) layer * d->ranks.slot_step;
}

const float *
split_hidden(Decoder *d, const float *hidden, int n)
{
	if (d->dev == NULL)
		return hidden;
	fetch(d, d->ranks.hidden, hidden, (size_t) n * (size_t) d->c.hidden * sizeof(float));
	return d->ranks.hidden;
}

void
split_whole_experts(Decoder *d, float *all, const int32_t *start)
{
	KComm	   *c = d->ranks.tp;
	int32_t		starts[GROUP_MOST + 1];

	for (int r = 0; r <= c->size; r++)
		starts[r] = start[split_experts_at(d, r)];
	c->ops->gather(c, d->pool, all, d->ranks.part, 1, starts, (size_t) d->c.hidden * sizeof(float));
}

bool
split_is_first(const Decoder *d)
{
	return d->ranks.pp == NULL || d->ranks.pp->rank == 0;
}

bool
split_is_last(const Decoder *d)
{
	return d->ranks.pp == NULL || d->ranks.pp->rank == d->ranks.pp->size - 1;
}

static size_t
x_bytes(const Decoder *d)
{
	return (size_t) d->rows * (size_t) d->c.hidden * sizeof(float);
}

void
split_take_x(Decoder *d)
{
	KComm	   *c = d->ranks.pp;

	c->ops->recv(c, d->pool, d->x, x_bytes(d), c->rank - 1);
	/* a layer that begins without a norm reads h */
	d->k->to_op(d->pool, d->h, d->c.hidden, d->x, d->c.hidden, d->rows, d->c.hidden);
	d->pending = false;
}

void
split_hand_x(Decoder *d)
{
	KComm	   *c = d->ranks.pp;

	dec_add(d);
	c->ops->send(c, d->pool, d->x, x_bytes(d), c->rank + 1);
}

/* Send or receive logits; only the first rank of a stage does. */
void
split_logits(Decoder *d, float *logits, int rows, int width)
{
	KComm	   *c = d->ranks.pp;
	size_t		bytes = (size_t) rows * (size_t) width * sizeof(float);

	if (c == NULL || (d->ranks.tp != NULL && d->ranks.tp->rank > 0))
		return;
	if (split_is_last(d))
		c->ops->send(c, d->pool, logits, bytes, 0);
	else if (split_is_first(d) && rows > 0)
		c->ops->recv(c, d->pool, logits, bytes, c->size - 1);
}

bool
split_connect(Decoder *d, const ModelComm *t, Err *e)
{
	KDevCommOpen o = {.library = t->library,.lives = t->lives,.ctx = t->ctx};

	o.id = t->tp_id;
	if (d->ranks.tp != NULL && !comm_staged_direct(d->ranks.tp, &o, e))
		return false;
	o.id = t->pp_id;
	if (d->ranks.pp == NULL || comm_staged_direct(d->ranks.pp, &o, e))
		return true;
	split_apart(d);
	return false;
}

void
split_apart(Decoder *d)
{
	if (d->ranks.tp != NULL)
		comm_staged_by_host(d->ranks.tp);
	if (d->ranks.pp != NULL)
		comm_staged_by_host(d->ranks.pp);
}

void
split_alone(Decoder *d, bool alone)
{
	if (d->dev != NULL && d->ranks.tp != NULL)
		comm_staged_alone(d->ranks.tp, alone);
	if (d->dev != NULL && d->ranks.pp != NULL)
		comm_staged_alone(d->ranks.pp, alone);
}

bool
split_failed(const Decoder *d)
{
	KComm	   *c = d->ranks.tp != NULL ? d->ranks.tp : d->ranks.pp;

	return c != NULL && c->ops->failed(c);
}
