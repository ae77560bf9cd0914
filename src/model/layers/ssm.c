/*
 * ssm.c
 *	  State-space layers: Mamba (Gu and Dao 2023, arXiv:2312.00752) and Mamba-2 (Dao and
 *	  Gu 2024, arXiv:2405.21060).
 *
 * Instead of K and V of all positions such a layer keeps a state of fixed size, which each position
 * updates: the last inputs of the convolution, then the state of the recurrence (kernels.h).  A
 * sequence's states are adjacent, in the slot that the batch names.
 *
 * Tested by tests/golden/models_golden.c.
 */
#include <math.h>
#include <stdio.h>

#include "base/assert.h"
#include "model/layers/bind.h"

#define SSM_MAX_STATE	4096

int
ssm_channels(const SsmConf *s)
{
	return s->first ? s->inner : s->inner + 2 * s->groups * s->state;
}

void
dec_state_plan(Decoder *d)
{
	const SsmConf *s = &d->c.ssm;
	size_t		size = (size_t) (s->width - 1) * (size_t) ssm_channels(s) +
		(size_t) s->inner * (size_t) s->state;

	for (int i = 0; i < d->c.n_layers; i++)
	{
		LayerConf  *l = &d->c.layers[i];

		if (!l->recurrent || l->both)
		{
			/* with bidirectional attention K and V are needed only within their layer: all layers share
			 * the first one's */
			l->kv = d->c.both_ways ? 0 : d->n_kv_layers;
			d->n_kv_layers = l->kv + 1;
		}
		if (!l->recurrent)
			continue;
		l->state_at = d->state_floats;
		d->state_floats += (size + 15) / 16 * 16;
	}
}

/* Read a size; dflt if it is "auto" or absent. */
static bool
size_or_auto(const Conf *c, const char *key, int hi, int dflt, int *out, Err *e)
{
	if (conf_str(c, key, NULL) != NULL)
	{
		*out = dflt;
		return true;
	}
	return dec_conf_int(c, key, 1, hi, dflt, out, e);
}

/* Return the key of a setting: Mamba's, Mamba-2's, their descendants' or GGUF's. */
static const char *
ssm_key(const Conf *c, const char *plain, const char *prefixed)
{
	return conf_has(c, prefixed) ? prefixed : plain;
}

static bool
step_limits(const Conf *c, SsmConf *s, Err *e)
{
	size_t		n = 0;
	const double *v = conf_nums(c, "time_step_limit", &n);

	s->dt_max = INFINITY;
	if (!conf_has(c, "time_step_limit"))
		return true;
	if (v == NULL || n != 2 || !(v[0] >= 0) || !(v[1] >= v[0]))
		return err_set(e, ERR_BAD_FILE, "model configuration has an invalid \"time_step_limit\"");
	s->dt_min = (float) v[0];
	s->dt_max = (float) v[1];
	return true;
}

/* Read the settings that both kinds have. */
static bool
conf_common(const Conf *c, DecoderConf *o, Err *e)
{
	SsmConf    *s = &o->ssm;
	float		expand;

	if (o->act != KACT_SILU)
		return err_set(e, ERR_UNSUPPORTED,
					   "state-space layers with another activation than \"silu\" are not supported");
	if (!dec_conf_num(c, ssm_key(c, "expand", "mamba_expand"), 0, 64, 2, &expand, e) ||
		!dec_conf_int(c, ssm_key(c, "conv_kernel", "mamba_d_conv"), 2, KCONV_MAX, 4, &s->width, e) ||
		!dec_conf_int(c, ssm_key(c, "state_size", "mamba_d_state"), 1, SSM_MAX_STATE, s->state, &s->state, e))
		return false;
	s->conv_bias = conf_bool(c, ssm_key(c, "use_conv_bias", "mamba_conv_bias"), true);
	s->in_bias = s->out_bias = conf_bool(c, ssm_key(c, "use_bias", "mamba_proj_bias"), false);
	return dec_conf_int(c, ssm_key(c, "gguf.ssm_inner", "mamba_d_ssm"), 1, DEC_MAX_INTER,
						s->inner > 0 ? s->inner : (int) (expand * (float) o->hidden), &s->inner, e);
}

bool
dec_conf_ssm(const Conf *c, DecoderConf *o, Err *e)
{
	SsmConf    *s = &o->ssm;
	int			head_dim;

	if (!conf_common(c, o, e) || !step_limits(c, s, e))
		return false;
	if ((int64_t) s->inner * s->state > 1 << 30)
		return err_set(e, ERR_BAD_FILE, "model configuration has a state of %d for each of %d channels",
					   s->state, s->inner);
	if (s->first)
	{
		/* a head is one channel, and all heads share B and C */
		s->heads = s->inner;
		s->head_dim = s->groups = 1;
		return size_or_auto(c, conf_has(c, "mamba_dt_rank") ? "mamba_dt_rank" : ssm_key(c, "time_step_rank",
				"gguf.ssm_dt_rank"),
							DEC_MAX_HIDDEN, (o->hidden + 15) / 16, &s->dt_rank, e);
	}
	if (!dec_conf_int(c, conf_has(c, "gguf.ssm_dt_rank") ? "gguf.ssm_dt_rank" : ssm_key(c, "num_heads",
			"mamba_n_heads"),
					  1, DEC_MAX_HEADS * 4, s->heads, &s->heads, e) ||
		!dec_conf_int(c, ssm_key(c, "n_groups", "mamba_n_groups"), 1, DEC_MAX_HEADS, s->groups, &s->groups,
					  e))
		return false;
	s->head_dim = s->inner / s->heads;
	if (s->inner % s->heads != 0 || s->heads % s->groups != 0 || s->inner % s->groups != 0)
		return err_set(e, ERR_BAD_FILE, "model configuration has %d heads in %d groups for %d channels of a "
										"state-space layer",
					   s->heads, s->groups, s->inner);
	if (!size_or_auto(c, "mamba_d_head", DEC_MAX_INTER, s->head_dim, &head_dim, e))
		return false;
	return head_dim == s->head_dim ||
		err_set(e, ERR_BAD_FILE, "model configuration has \"mamba_d_head\" = %d, expected %d", head_dim,
				s->head_dim);
}

/* ---- weights ---- */

/* Join names such as "mixer." and "conv1d.weight". */
static const char *
under(char *buf, size_t size, const char *hf, const char *name)
{
	snprintf(buf, size, "%s%s", hf, name);
	return buf;
}

/* Bind the convolution, the recurrence and their step sizes. */
static bool
bind_state(Binder *b, const SsmConf *s, SsmLayer *m, const char *hf)
{
	BindMap		log = bind_is_gguf(b) ? BIND_SAME : BIND_MINUS_EXP;
	bool		first = s->first;
	int			channels = ssm_channels(s);
	/* GGUF has no key for it */
	bool		bias = bind_is_gguf(b) ? bind_has(b, "", "ssm_conv1d.bias") : s->conv_bias;
	char		buf[80];

	return bind_table(b, &m->conv, under(buf, sizeof(buf), hf, "conv1d.weight"), "ssm_conv1d.weight",
					  channels * s->width, s->width, BIND_TURNED) &&
		(!bias ||
		 bind_vector(b, &m->conv_bias, under(buf, sizeof(buf), hf, "conv1d.bias"), "ssm_conv1d.bias",
					 channels)) &&
		bind_table(b, &m->a, under(buf, sizeof(buf), hf, "A_log"), "ssm_a",
				   first ? s->inner * s->state : s->heads, first ? s->state : 0, log) &&
		bind_table(b, &m->d, under(buf, sizeof(buf), hf, "D"), "ssm_d", s->heads, 0, BIND_SAME) &&
		bind_vector(b, &m->dt_bias, under(buf, sizeof(buf), hf, first ? "dt_proj.bias" : "dt_bias"),
					"ssm_dt.bias", s->heads);
}

/* Bind Mamba's projections to steps, B and C. */
static bool
bind_steps(Binder *b, const SsmConf *s, SsmLayer *m, const char *hf)
{
	char		buf[80];

	m->x.k = s->inner;
	m->dt.k = s->dt_rank;
	return bind_linear(b, &m->x, under(buf, sizeof(buf), hf, "x_proj"), "ssm_x", s->dt_rank + 2 * s->state,
					   false) &&
		bind_linear(b, &m->dt, under(buf, sizeof(buf), hf, "dt_proj"), "ssm_dt", s->inner, false) &&
		(!s->norm_dt_bc_w ||
		 (bind_norm(b, &m->dt_norm, under(buf, sizeof(buf), hf, "dt_layernorm"), "ssm_dt_norm", s->dt_rank) &&
		  bind_norm(b, &m->b_norm, under(buf, sizeof(buf), hf, "b_layernorm"), "ssm_b_norm", s->state) &&
		  bind_norm(b, &m->c_norm, under(buf, sizeof(buf), hf, "c_layernorm"), "ssm_c_norm", s->state)));
}

bool
bind_ssm(Binder *b, Decoder *d, Layer *l, const char *hf)
{
	const SsmConf *s = &d->c.ssm;
	SsmLayer   *m = &l->ssm;
	bool		norm = !s->first && (s->norm || (bind_is_gguf(b) && bind_has(b, "", "ssm_norm.weight")));
	char		buf[80];

	m->in.k = d->c.hidden;
	m->out.k = s->inner;
	return bind_linear(b, &m->in, under(buf, sizeof(buf), hf, "in_proj"), "ssm_in",
					   s->first ? 2 * s->inner : s->inner + ssm_channels(s) + s->heads, s->in_bias) &&
		bind_state(b, s, m, hf) && (!s->first || bind_steps(b, s, m, hf)) &&
		(!norm || bind_table(b, &m->norm.w, under(buf, sizeof(buf), hf, "norm.weight"), "ssm_norm.weight",
							 s->inner, 0, BIND_SAME)) &&
		bind_linear(b, &m->out, under(buf, sizeof(buf), hf, "out_proj"), "ssm_out", d->c.hidden, s->out_bias);
}

/* ---- forward ---- */

/* Describe the parts of a layer's state for the kernels. */
static KState
state_of(const Decoder *d, const Layer *l, size_t offset)
{
	ASSERT(l->c->recurrent && d->b->state != NULL && l->c->state_at + offset < d->state_floats);
	return (KState) {d->b->state + l->c->state_at + offset, d->state_floats};
}

/* Convolve x of width columns to ssm_x. */
static void
convolve(Decoder *d, const Layer *l, const float *x, int ldx)
{
	const SsmConf *s = &d->c.ssm;
	KState		st = state_of(d, l, 0);
	int			channels = ssm_channels(s);

	d->k->conv(d->pool, &st, &d->b->rows, x, ldx, channels, s->width, l->ssm.conv, l->ssm.conv_bias,
			   !s->short_conv, d->ssm_x, channels);
	profile_mark(d->profile, PROF_ATTENTION);
}

static void
run_scan(Decoder *d, const Layer *l, KScan *a)
{
	const SsmConf *s = &d->c.ssm;
	KState		st = state_of(d, l, (size_t) (s->width - 1) * (size_t) ssm_channels(s));

	a->heads = s->heads;
	a->head_dim = s->head_dim;
	a->state = s->state;
	a->groups = s->groups;
	a->a = l->ssm.a;
	a->d = l->ssm.d;
	a->dt_bias = l->ssm.dt_bias;
	a->dt_min = s->dt_min;
	a->dt_max = s->dt_max;
	d->k->scan(d->pool, &st, &d->b->rows, a, d->ssm_y, s->inner);
	profile_mark(d->profile, PROF_ATTENTION);
}

/* Mamba: qkv = x | z; steps, B and C are computed from the convolution's output. */
static void
mamba(Decoder *d, const Layer *l)
{
	const SsmConf *s = &d->c.ssm;
	const SsmLayer *m = &l->ssm;
	int			ld = m->x.n;
	int			parts[3] = {s->dt_rank, s->state, s->state};
	const float *w[3] = {m->dt_norm.w, m->b_norm.w, m->c_norm.w};
	KScan		a = {
		.x = d->ssm_x, .ldx = s->inner, .dt = d->ssm_dt, .lddt = s->inner, .b = d->ssm_p + s->dt_rank,
		.c = d->ssm_p + s->dt_rank + s->state, .ldbc = ld, .z = d->qkv + s->inner, .ldz = m->in.n,
		.a_wide = true
	};
	float	   *p = d->ssm_p;

	convolve(d, l, d->qkv, m->in.n);
	dec_linear(d, &m->x, d->ssm_x, s->inner, d->rows, d->ssm_p, ld);
	for (int i = 0; s->norm_dt_bc && i < 3; p += parts[i++])
		d->k->norm_heads(d->pool, KNORM_RMS, p, d->rows, ld, 1, parts[i], w[i], 0, s->norm_dt_bc_eps);
	dec_linear(d, &m->dt, d->ssm_p, ld, d->rows, d->ssm_dt, s->inner);
	run_scan(d, l, &a);
}

/* Mamba-2: qkv = z | x B C | steps; perhaps a norm after the gate or before it. */
static void
mamba2(Decoder *d, const Layer *l)
{
	const SsmConf *s = &d->c.ssm;
	int			channels = ssm_channels(s);
	int			ld = l->ssm.in.n;
	int			group = s->inner / s->groups;
	bool		norm = l->ssm.norm.w != NULL;
	KScan		a = {
		.x = d->ssm_x, .ldx = channels, .dt = d->qkv + s->inner + channels, .lddt = ld,
		.b = d->ssm_x + s->inner, .c = d->ssm_x + s->inner + s->groups * s->state, .ldbc = channels,
		.z = norm && s->norm_first ? NULL : d->qkv, .ldz = ld
	};

	convolve(d, l, d->qkv + s->inner, ld);
	run_scan(d, l, &a);
	if (norm)
		d->k->norm_heads(d->pool, KNORM_RMS, d->ssm_y, d->rows, s->inner, s->groups, group, l->ssm.norm.w,
						 group, d->c.eps);
	/* apply the gate, if the norm comes first */
	if (norm && s->norm_first)
		d->k->mul_rows(d->pool, d->ssm_y, s->inner, d->ssm_y, s->inner, d->qkv, ld, d->rows, s->inner, true);
	profile_mark(d->profile, PROF_ROWS);
}

/* Convert the result to operands for the next product. */
static void
to_att(Decoder *d)
{
	int			n = d->c.ssm.inner;

	if (!dec_op_floats(d))
		d->k->to_op(d->pool, d->att, n, d->ssm_y, n, d->rows, n);
}

void
dec_ssm(Decoder *d, const Layer *l)
{
	dec_linear_op(d, &l->ssm.in, d->h, d->c.hidden, d->rows, d->qkv, l->ssm.in.n);
	profile_mark(d->profile, PROF_MATMUL);
	if (d->c.ssm.first)
		mamba(d, l);
	else
		mamba2(d, l);
	to_att(d);
}

/* `in` = B | C | x: the convolution's input is B times x, the result is C times its output. */
void
dec_short_conv(Decoder *d, const Layer *l)
{
	int			n = d->c.ssm.inner;

	dec_linear_op(d, &l->ssm.in, d->h, d->c.hidden, d->rows, d->qkv, l->ssm.in.n);
	profile_mark(d->profile, PROF_MATMUL);
	d->k->mul_rows(d->pool, d->qkv, 3 * n, d->qkv, 3 * n, d->qkv + 2 * n, 3 * n, d->rows, n, false);
	convolve(d, l, d->qkv, l->ssm.in.n);
	d->k->mul_rows(d->pool, d->ssm_y, n, d->qkv + n, 3 * n, d->ssm_x, n, d->rows, n, false);
	to_att(d);
	profile_mark(d->profile, PROF_ROWS);
}

void
dec_ssm_out(Decoder *d, const Layer *l)
{
	dec_linear_op(d, &l->ssm.out, d->att, l->ssm.out.k, d->rows, d->y, d->c.hidden);
	d->pending = true;
	profile_mark(d->profile, PROF_MATMUL);
}
