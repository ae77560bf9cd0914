/*
 * moe.c
 *	  Mixtures of experts (Shazeer et al. 2017, arXiv:1701.06538): a router chooses for each row a few
 *	  of many small MLPs, whose outputs are added up; a shared expert may compute all rows.
 *
 * Rows are sorted by expert, so that an expert's matrices are read once for all of its rows, and only
 * those of chosen experts.  A row's result is added up in the order of expert numbers: its bits don't
 * depend on other rows' choices.
 *
 * Tested by tests/unit/model/layers/test_moe.c and tests/golden/models_golden.c.
 */
#include <stdio.h>

#include "base/assert.h"
#include "model/parallel/expert_migration.h"
#include "model/layers/bind.h"
#include "model/parallel/shard.h"

/* ---- configuration ---- */

static bool
conf_groups(const Conf *c, MoeConf *m, Err *e)
{
	if (!dec_conf_int(c, "n_group", 1, m->n_experts, 1, &m->n_groups, e) ||
		!dec_conf_int(c, "topk_group", 1, m->n_groups, m->n_groups, &m->top_groups, e))
		return false;
	if (m->n_experts % m->n_groups != 0)
		return err_set(e, ERR_BAD_FILE, "model configuration has %d experts, which is not a multiple of its "
										"%d groups",
					   m->n_experts, m->n_groups);
	if (m->n_experts / m->n_groups * m->top_groups < m->top_k)
		return err_set(e, ERR_BAD_FILE, "model configuration has %d experts in %d of %d groups, but chooses "
										"%d",
					   m->n_experts / m->n_groups * m->top_groups, m->top_groups, m->n_groups, m->top_k);
	return true;
}

bool
dec_conf_moe(const Conf *c, DecoderConf *o, Err *e)
{
	static const char *const counts[] = {"num_experts", "num_local_experts", "n_routed_experts",
										 "moe_num_experts", NULL};
	static const char *const chosen[] = {"num_experts_per_tok", "num_experts_per_token", "moe_k", NULL};
	MoeConf    *m = &o->moe;
	float		scale = m->scale != 0 ? m->scale : 1;

	if (!dec_conf_int(c, dec_conf_key(c, counts), 1, KROUTE_MAX_EXPERTS, m->n_experts, &m->n_experts, e) ||
		!dec_conf_int(c, dec_conf_key(c, chosen), 1, m->n_experts < KROUTE_MAX_CHOSEN
					  ? m->n_experts : KROUTE_MAX_CHOSEN, m->top_k, &m->top_k, e) ||
		!dec_conf_int(c, "moe_intermediate_size", 1, DEC_MAX_INTER, m->inter > 0 ? m->inter : o->inter,
					  &m->inter, e) ||
		!dec_conf_num(c, "routed_scaling_factor", 0, 1e6, (double) scale, &m->scale, e) ||
		!conf_groups(c, m, e))
		return false;
	/* each expert takes some memory before its weights are checked */
	if ((int64_t) m->n_experts * o->n_layers > MOE_MAX_ALL)
		return err_set(e, ERR_BAD_FILE, "model configuration has %d experts in each of %d layers, at most %d "
										"in all are supported",
					   m->n_experts, o->n_layers, MOE_MAX_ALL);
	m->normalize = conf_bool(c, "norm_topk_prob", m->normalize);
	for (int i = 0; i < o->n_layers; i++)
		o->layers[i].moe = true;
	return true;
}

/* ---- weights ---- */

const MoeNames moe_names = {
	.router = "mlp.gate", .correction = "mlp.gate.e_score_correction_bias", .experts = "mlp.experts",
	.gate = "gate_proj", .up = "up_proj", .down = "down_proj",
	.shared = "mlp.shared_experts.", .shared_gate = "mlp.shared_expert_gate",
};

/* A part of an expert. */
typedef struct ExpertPart
{
	const char *hf;
	const char *gguf;
	const char *fused;			/* tensor of all experts, which has `of` such parts; */
	const char *fused_bias;
	int			of;
	int			at;				/* index of this part */
} ExpertPart;

/* Bind a tensor of its own, or a part of one tensor for all experts, as always in GGUF. */
static bool
bind_expert(Binder *b, Linear *l, const MoeConf *c, int i, const MoeNames *names, const ExpertPart *p, int n)
{
	char		hf[128];
	BindSlice	s = {
		.count = c->n_experts, .at = i, .n = n, .step = 1, .hf = "", .gguf = p->gguf,
		.hf_bias = c->bias ? "" : NULL
	};

	if (bind_is_gguf(b))
		return bind_slice(b, l, &s, n);
	if (names->gate_up == NULL)
	{
		snprintf(hf, sizeof(hf), "%s.%d.%s", names->experts, i, p->hf);
		return bind_linear(b, l, hf, "", n, c->bias);
	}
	s.hf = p->fused;
	s.hf_bias = c->bias ? p->fused_bias : NULL;
	s.n = p->of * n;
	s.transposed = names->transposed;
	s.step = names->alternate ? p->of : 1;
	s.first = names->alternate ? p->at : p->at * n;
	return bind_slice(b, l, &s, n);
}

static bool
bind_experts(Binder *b, Layer *l, const DecoderConf *c, const MoeNames *names)
{
	const MoeConf *m = &c->moe;
	const ExpertPart gate = {names->gate, "ffn_gate_exps", names->gate_up, names->gate_up_bias, 2, 0};
	const ExpertPart up = {names->up, "ffn_up_exps", names->gate_up, names->gate_up_bias, 2, 1};
	const ExpertPart down = {names->down, "ffn_down_exps", names->down, names->down_bias, 1, 0};
	bool		ok = true;

	bind_stack(b, &l->moe.up, m->n_experts, m->top_k);
	bind_stack(b, &l->moe.down, m->n_experts, m->top_k);
	for (int i = 0; i < m->n_experts; i++)
	{
		l->moe.up.of[i].k = c->hidden;
		l->moe.down.of[i].k = m->inter;
	}
	/* bind all experts of a tensor before those of the next tensor */
	for (int i = 0; ok && i < m->n_experts && !m->plain; i++)
		ok = bind_expert(b, &l->moe.up.of[i], m, i, names, &gate, m->inter);
	for (int i = 0; ok && i < m->n_experts; i++)
		ok = bind_expert(b, &l->moe.up.of[i], m, i, names, &up, m->inter);
	for (int i = 0; ok && i < m->n_experts; i++)
		ok = bind_expert(b, &l->moe.down.of[i], m, i, names, &down, c->hidden);
	return ok;
}

static bool
bind_shared(Binder *b, Layer *l, const DecoderConf *c, const MoeNames *names)
{
	Moe		   *moe = &l->moe;
	int			inter = c->moe.shared_inter;
	char		name[3][96];

	if (inter == 0)
		return true;
	snprintf(name[0], sizeof(name[0]), "%sgate_proj", names->shared);
	snprintf(name[1], sizeof(name[1]), "%sup_proj", names->shared);
	snprintf(name[2], sizeof(name[2]), "%sdown_proj", names->shared);
	moe->shared_up.k = c->hidden;
	moe->shared_down.k = inter;
	moe->shared_gate.k = c->hidden;
	moe->shared_gate.exact = true;
	if (names->shared_gate_up != NULL && !bind_is_gguf(b))
		return bind_linear(b, &moe->shared_up, names->shared_gate_up, "", 2 * inter, false) &&
			bind_linear(b, &moe->shared_down, names->shared_down, "", c->hidden, false);
	return bind_linear(b, &moe->shared_up, name[0], "ffn_gate_shexp", inter, false) &&
		bind_linear(b, &moe->shared_up, name[1], "ffn_up_shexp", inter, false) &&
		bind_linear(b, &moe->shared_down, name[2], "ffn_down_shexp", c->hidden, false) &&
		(!c->moe.shared_gate ||
		 bind_row(b, &moe->shared_gate, names->shared_gate, "ffn_gate_inp_shexp"));
}

bool
bind_moe(Binder *b, Layer *l, const MoeNames *names)
{
	const DecoderConf *c = bind_decoder_conf(b);
	MoeNames	together = *names;
	char		gate_up[96];
	char		down[96];

	/* newer tools store all experts of a layer in two tensors */
	snprintf(gate_up, sizeof(gate_up), "%s.gate_up_proj", names->experts != NULL ? names->experts : "");
	snprintf(down, sizeof(down), "%s.down_proj", names->experts != NULL ? names->experts : "");
	if (!bind_is_gguf(b) && names->gate_up == NULL && bind_has(b, gate_up, ""))
	{
		together.gate_up = gate_up;
		together.down = down;
		names = &together;
	}
	l->moe.router.k = c->hidden;
	l->moe.router.exact = true;
	return bind_linear(b, &l->moe.router, names->router, "ffn_gate_inp", c->moe.n_experts,
					   c->moe.router_bias) &&
		(!c->moe.correction ||
		 bind_vector(b, &l->moe.correction, names->correction, "exp_probs_b.bias", c->moe.n_experts)) &&
		bind_experts(b, l, c, names) && bind_shared(b, l, c, names);
}

bool
bind_ffn(Binder *b, Layer *l)
{
	return l->c->moe ? bind_moe(b, l, &moe_names) : bind_glu(b, l);
}

/* ---- the block ---- */

typedef struct MoeStep
{
	Decoder    *d;
	const Moe  *m;
	int			layer;
	int			row0;			/* first of the current rows */
	int			rows;
} MoeStep;

/* Return the routing settings for the kernels; correction: [n_experts] or NULL. */
static KRoute
moe_kroute(const MoeConf *c, const float *correction)
{
	return (KRoute) {
		.n_experts = c->n_experts, .top_k = c->top_k, .routing = c->routing, .group_by = c->group_by,
			.n_groups = c->n_groups,
		.top_groups = c->top_groups, .normalize = c->normalize, .normalize_min = c->normalize_min,
		.scale = c->scale, .jitter = c->jitter, .correction = correction
	};
}

/* x[pairs][hidden] = the outputs of the experts, whose first rows are in start, for the rows in `in` */
static void
run_experts(const MoeStep *s, const int32_t *start, const KOp *in, float *x, int pairs)
{
	Decoder    *d = s->d;
	const MoeConf *c = &d->c.moe;
	MoeWork    *w = &d->moe;
	const Linear *down = &s->m->down.of[0];
	bool		split = d->ranks.tp != NULL && !d->ranks.experts && down->k_all == 0;
	KOp		   *act = split_own(d, split, w->act);
	/* without a gate, work in place if operands are floats */
	float	   *up = c->plain && dec_op_floats(d) ? (float *) (void *) act : w->gu;

	dec_stack(d, &s->m->up, start, in, d->c.hidden, up, c->plain ? c->inter : 2 * c->inter);
	profile_mark(d->profile, PROF_MATMUL);
	if (c->plain)
		d->k->act_op(d->pool, d->c.act, NULL, act, up, pairs, c->inter);
	else
		d->k->act_mul(d->pool, d->c.act, act, up, pairs, c->inter);
	split_whole(d, split, w->act, pairs, down->k, (size_t) d->k->op_size);
	profile_mark(d->profile, PROF_ROWS);
	dec_stack(d, &s->m->down, start, w->act, down->k, split_own(d, split || d->ranks.experts, x), down->n);
	split_whole(d, split, x, pairs, d->c.hidden, sizeof(float));
	profile_mark(d->profile, PROF_MATMUL);
}

/* Compute the rows of this rank's experts only, then gather those of all ranks. */
static void
own_experts(const MoeStep *s)
{
	MoeWork    *w = &s->d->moe;
	const KComm *tp = s->d->ranks.tp;
	int			first = split_experts_at(s->d, tp->rank);
	int			n = s->m->up.n;
	const int32_t *start = split_starts(s->d, w->start, w->own, first, n);
	int			rows = start[first + n] - start[first];

	balance_count(s->d, s->layer, start);
	if (rows > 0)
	{
		size_t		at = (size_t) start[first] * (size_t) s->d->c.hidden;

		run_experts(s, w->own, kop_at(s->d, w->in, at), w->x + at, rows);
	}
	split_whole_experts(s->d, w->x, start);
}

/* Route the current rows; y += their experts' outputs. */
static void
moe_rows(const MoeStep *s)
{
	Decoder    *d = s->d;
	const MoeConf *c = &d->c.moe;
	KRoute		route = moe_kroute(c, s->m->correction);
	MoeWork    *w = &d->moe;
	size_t		at = (size_t) s->row0 * (size_t) d->c.hidden;
	bool		shared = s->m->shared_up.n > 0;
	const KOp  *h = kop_at(d, d->h, at);

	dec_linear_op(d, &s->m->router, h, d->c.hidden, s->rows, w->logits, c->n_experts);
	profile_mark(d->profile, PROF_MATMUL);
	d->k->moe_route(d->pool, &route, w->logits, s->rows, w->space, w->experts, w->weights);
	/* a row's sum is in the order of experts, whichever slots they are in */
	if (d->ranks.slot_width > 0)
		d->k->moe_slots(d->pool, w->experts, s->rows, s->row0, c->top_k, split_slots(d, s->layer),
						d->ranks.slot_width);
	d->k->moe_place(d->pool, w->experts, s->rows * c->top_k,
					d->ranks.n_slots > 0 ? d->ranks.n_slots : c->n_experts, w->start, w->place);
	d->k->moe_gather(d->pool, w->in, h, s->rows, c->top_k, w->place, c->on_input ? w->weights : NULL,
					 d->c.hidden);
	profile_mark(d->profile, PROF_ROWS);
	if (d->ranks.experts)
		own_experts(s);
	else
		run_experts(s, w->start, w->in, w->x, s->rows * c->top_k);
	d->k->moe_combine(d->pool, d->y + at, w->x, s->rows, c->top_k, w->place, c->on_input ? NULL : w->weights,
					  shared && s->m->shared_gate.n > 0 ? w->gate + s->row0 : NULL, shared, s->m->out_bias,
					  d->c.hidden);
	profile_mark(d->profile, PROF_ROWS);
}

/* y = the shared expert's output; compute the logits of its gate */
static void
shared_expert(Decoder *d, const Moe *m)
{
	if (m->shared_up.n == 0)
		return;
	dec_linear_op(d, &m->shared_up, d->h, d->c.hidden, d->rows, d->gu, m->shared_up.n);
	profile_mark(d->profile, PROF_MATMUL);
	d->k->act_mul(d->pool, d->c.act, split_own(d, m->shared_down.all > 0, d->act), d->gu, d->rows,
				  m->shared_up.n / 2);
	split_whole(d, m->shared_down.all > 0, d->act, d->rows, m->shared_down.k, (size_t) d->k->op_size);
	profile_mark(d->profile, PROF_ROWS);
	dec_linear_op(d, &m->shared_down, d->act, m->shared_down.k, d->rows, d->y, d->c.hidden);
	if (m->shared_gate.n > 0)
		dec_linear_op(d, &m->shared_gate, d->h, d->c.hidden, d->rows, d->moe.gate, 1);
	profile_mark(d->profile, PROF_MATMUL);
}

void
dec_moe(Decoder *d, const Layer *l)
{
	MoeStep		s = {.d = d, .m = &l->moe, .layer = (int) (l - d->layers)};

	ALWAYS(d->moe.rows > 0);	/* else the loop would not end */
	shared_expert(d, &l->moe);
	for (; s.row0 < d->rows; s.row0 += s.rows)
	{
		s.rows = d->rows - s.row0 < d->moe.rows ? d->rows - s.row0 : d->moe.rows;
		moe_rows(&s);
	}
	/* of all experts and the shared one at once */
	split_sum(d, l->moe.down.of[0].k_all > 0, d->y, d->rows);
	d->pending = true;
}
