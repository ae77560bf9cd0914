/*
 * ref.c
 *	  The naive reference: every op as its formula, as nested loops.
 *
 * Other implementations are compared with it, so it is as simple as possible and runs in the calling
 * thread.  Matrices stay row-major as in the file ([n][k], row_perm applied).  Float products are one
 * fmaf chain in k order, quantized products exact integer sums and one or two fmaf per group of 32, or
 * of 128 (docs/internals/kernels.md): all implementations keep this order.  Norms and softmax sum in
 * double.
 */
#include "groups.h"
#include "ref/ref2.h"

#include <math.h>

static size_t
ref_mat_bytes(KType type, int n, int k)
{
	if (type == KT_INT8 && k > INT8_MAX_K)
		return 0;
	return ktype_row_bytes(type, k) * (size_t) n;
}

static const uint8_t *
mat_rowp(const KMat *m, int j)
{
	return (const uint8_t *) m->data + ktype_row_bytes(m->type, m->k) * (size_t) j;
}

static void
ref_mat_pack(KMat *m, const KTensor *src, int n0, int n1)
{
	size_t		len = ktype_row_bytes(m->type, m->k);

	for (int j = n0; j < n1; j++)
		memcpy((uint8_t *) m->data + len * (size_t) j, ktensor_row(src, j), len);
}

static void
ref_mat_row(const KMat *m, int j, float *out)
{
	kblock_to_float(m->type, mat_rowp(m, j), m->k, out);
}

/* the largest |x[i]|, as its bit pattern (NaN and Inf are above all numbers) */
static uint32_t
abs_max(const float *x, int n)
{
	uint32_t	amax = 0;

	for (int i = 0; i < n; i++)
		if ((k_bits(x[i]) & 0x7fffffffu) > amax)
			amax = k_bits(x[i]) & 0x7fffffffu;
	return amax;
}

/* 32 activations, rounded: d * q */
typedef struct XGroup
{
	float		d;
	int8_t		q[KGROUP];
} XGroup;

static void
xgroup_make(const float *x, XGroup *g)
{
	float		inv;

	g->d = q8_scale(abs_max(x, KGROUP), &inv);
	for (int i = 0; i < KGROUP; i++)
		g->q[i] = (int8_t) (inv == 0.0f ? 0 : (int) rintf(x[i] * inv));
}

/* one group of weights with 32 activations: the definition in docs/internals/kernels.md */
static float
dot_group(KType t, const KGroup *g, const XGroup *x, float acc)
{
	int			dot = 0,
				min = 0;

	for (int half = 0; half < 2; half++)
	{
		int			products = 0,
					sum = 0;

		for (int i = half * 16; i < half * 16 + 16; i++)
		{
			products += g->q[i] * x->q[i];
			sum += x->q[i];
		}
		dot += g->sc[half] * products;
		min += g->mn[half] * sum;
	}
	acc = fmaf(g->d * x->d, (float) dot, acc);
	return ktype_has_min(t) ? fmaf(g->m * x->d, (float) min, acc) : acc;
}

/* row j of blocks with each row of activations, which are k / KGROUP groups: y[i * ldy] */
static void
dot_groups(const KMat *m, int j, const XGroup *x, int rows, float *y, int ldy)
{
	KGroup		groups[QK_BLOCK / KGROUP];
	const uint8_t *w = mat_rowp(m, j);
	KType		t = m->type;
	int			k = m->k;
	int			block = ktype_block(t);
	size_t		bytes = ktype_row_bytes(t, block);

	for (int i = 0; i < rows; i++)
		y[(size_t) i * ldy] = 0.0f;
	for (int at = 0; at < k; at += block, w += bytes)
	{
		kgroup_get(t, w, groups);
		for (int i = 0; i < rows; i++)
		{
			const XGroup *xi = x + (size_t) i * (k / KGROUP) + at / KGROUP;
			float		acc = y[(size_t) i * ldy];

			for (int g = 0; g < block / KGROUP; g++)
				acc = dot_group(t, &groups[g], &xi[g], acc);
			y[(size_t) i * ldy] = acc;
		}
	}
}

/* the same for INT8: n codes with a row's scale, n activations with a zero point */
static float
dot_int8_group(const uint8_t *w, const float *x, int n, float acc)
{
	float		max = 0.0f,
				min = 0.0f,
				inv,
				s;
	bool		finite = true;
	int32_t		zero,
				dot = 0;

	for (int i = 0; i < n; i++)
	{
		finite = finite && isfinite(x[i]);
		max = fmaxf(max, x[i]);
		min = fminf(min, x[i]);
	}
	s = i8_scale(max, 0.0f - min, finite, &inv, &zero);
	for (int i = 0; inv != 0.0f && i < n; i++)
		dot += (int8_t) w[i] * (k_min((int) rintf(x[i] * inv) + zero, I8_MAX_CODE) - zero);
	return fmaf(s, (float) dot, acc);
}

static float
dot_int8(const uint8_t *w, const float *x, int k)
{
	float		acc = 0.0f,
				d;

	memcpy(&d, w, sizeof(d));
	w += sizeof(d);
	for (int i = 0; i < k; i += I8_GROUP)
		acc = dot_int8_group(w + i, x + i, k_min(I8_GROUP, k - i), acc);
	return acc * d;
}

/* Round a row of activations to 8 bits with the scale of all rows. */
static void
round_static(const uint8_t *w, const float *x, int k, float *to)
{
	KInt8X		all;

	memcpy(&all, w, sizeof(all));
	for (int i = 0; i < k; i++)
		to[i] = isfinite(x[i]) ? all.scale *
			(rintf(fmaxf(-128.0f, fminf(127.0f, x[i] / all.scale + all.zero))) - all.zero) : NAN;
}

/* The same with its own scale. */
static void
round_dynamic(const float *x, int k, float *to)
{
	float		inv,
				d = q8_scale(abs_max(x, k), &inv);

	for (int i = 0; i < k; i++)
		to[i] = d * (inv == 0.0f ? 0.0f : rintf(x[i] * inv));
}

/* Return true if a product rounds whole rows of activations. */
static bool
rounds_rows(KType type)
{
	return type == KT_INT8D || type == KT_INT8S;
}

/* numbers, with activations as they are */
static float
dot_float(const float *w, const float *x, int k)
{
	float		acc = 0.0f;

	for (int i = 0; i < k; i++)
		acc = fmaf(x[i], w[i], acc);
	return acc;
}

/* Return true if activations are rounded in groups of 32. */
static bool
rounds_groups(KType type)
{
	return ktype_grouped(type) && type != KT_Q4_0F && type != KT_Q4_1F;
}

/* either the groups of all rows of activations, or a row of weights as floats and these rows rounded */
static size_t
ref_mm_scratch(KType type, int rows, int k)
{
	if (rounds_groups(type))
		return (size_t) rows * (size_t) (k / KGROUP) * sizeof(XGroup);
	return type == KT_INT8 ? 0 : (size_t) k * (rounds_rows(type) ? (size_t) rows + 1 : 1) * sizeof(float);
}

static void
ref_mm(KPool *pool, const KMat *w, const float *x, int rows, int ldx,
	   float *y, int ldy, const float *bias, void *ws)
{
	bool		grouped = rounds_groups(w->type);
	XGroup	   *groups = ws;
	float	   *wide = ws;

	(void) pool;
	for (int i = 0; grouped && i < rows; i++)
		for (int at = 0; at < w->k; at += KGROUP)
			xgroup_make(x + (size_t) i * ldx + at, groups++);
	for (int i = 0; w->type == KT_INT8D && i < rows; i++)
		round_dynamic(x + (size_t) i * ldx, w->k, wide + (size_t) (i + 1) * w->k);
	for (int i = 0; w->type == KT_INT8S && i < rows; i++)
		round_static(mat_rowp(w, 0), x + (size_t) i * ldx, w->k, wide + (size_t) (i + 1) * w->k);
	if (rounds_rows(w->type))
	{
		x = wide + w->k;
		ldx = w->k;
	}
	for (int j = 0; j < w->n; j++)
	{
		if (grouped)
			dot_groups(w, j, ws, rows, y + j, ldy);
		else if (w->type != KT_INT8)
			ref_mat_row(w, j, wide);
		for (int i = 0; i < rows; i++)
		{
			const float *xi = x + (size_t) i * ldx;
			float	   *out = y + (size_t) i * ldy + j;

			if (!grouped)
				*out = w->type == KT_INT8 ? dot_int8(mat_rowp(w, j), xi, w->k) : dot_float(wide, xi, w->k);
			if (bias)
				*out += bias[j];
		}
	}
}

static size_t
ref_mm_grouped_scratch(KType type, int n_mats, int rows, int k)
{
	(void) n_mats;
	return ref_mm_scratch(type, rows, k);
}

static void
ref_mm_grouped(KPool *pool, const KMat *w, int n_mats, const int32_t *row_start, const float *x, int ldx,
			   float *y, int ldy, const float *const *bias, void *ws)
{
	for (int g = 0; g < n_mats; g++)
		ref_mm(pool, &w[g], x + (size_t) row_start[g] * ldx, row_start[g + 1] - row_start[g], ldx,
			   y + (size_t) row_start[g] * ldy, ldy, bias ? bias[g] : NULL, ws);
}

/* one row or head; w and b may be NULL */
static void
norm(KNormKind kind, float *y, const float *x, const float *w, const float *b, int dim, float eps)
{
	double		mean = 0.0,
				sum = 0.0,
				scale;

	if (kind == KNORM_LAYER)
	{
		for (int i = 0; i < dim; i++)
			mean += x[i];
		mean /= dim;
	}
	for (int i = 0; i < dim; i++)
		sum += (x[i] - mean) * (x[i] - mean);
	scale = 1.0 / sqrt(sum / dim + eps);
	for (int i = 0; i < dim; i++)
		y[i] = (float) ((x[i] - mean) * scale * (w ? w[i] : 1.0) + (b ? b[i] : 0.0));
}

static void
ref_rmsnorm(KPool *pool, float *y, const float *x, const float *w, int rows, int dim, float eps)
{
	(void) pool;
	for (int i = 0; i < rows; i++)
		norm(KNORM_RMS, y + (size_t) i * dim, x + (size_t) i * dim, w, NULL, dim, eps);
}

static void
ref_layernorm(KPool *pool, float *y, const float *x, const float *w, const float *b,
			  int rows, int dim, float eps)
{
	(void) pool;
	for (int i = 0; i < rows; i++)
		norm(KNORM_LAYER, y + (size_t) i * dim, x + (size_t) i * dim, w, b, dim, eps);
}

static void
ref_norm_heads(KPool *pool, KNormKind kind, float *x, int rows, int ld, int heads, int dim,
			   const float *w, int ldw, float eps)
{
	(void) pool;
	for (int i = 0; i < rows; i++)
		for (int h = 0; h < heads; h++)
		{
			float	   *xh = x + (size_t) i * ld + (size_t) h * dim;

			norm(kind, xh, xh, w ? w + (size_t) h * ldw : NULL, NULL, dim, eps);
		}
}

static void
ref_scale(KPool *pool, float *x, int rows, int dim, float s)
{
	(void) pool;
	for (size_t i = 0; i < (size_t) rows * dim; i++)
		x[i] *= s;
}

static void
ref_add(KPool *pool, float *x, const float *d, int rows, int dim)
{
	(void) pool;
	for (size_t i = 0; i < (size_t) rows * dim; i++)
		x[i] += d[i];
}

static void
ref_add_rmsnorm(KPool *pool, float *y, float *x, const float *d, const float *w,
				int rows, int dim, float eps)
{
	ref_add(pool, x, d, rows, dim);
	ref_rmsnorm(pool, y, x, w, rows, dim, eps);
}

static void
ref_rope(KPool *pool, float *x, int rows, int ld, int heads, int head_dim,
		 const int32_t *pos, const float *cs, int rot_dim)
{
	int			half = rot_dim / 2;

	(void) pool;
	for (int i = 0; i < rows; i++)
		for (int h = 0; h < heads; h++)
		{
			float	   *a = x + (size_t) i * ld + (size_t) h * head_dim;
			float	   *b = a + half;
			const float *t = cs + (size_t) pos[i] * rot_dim;

			for (int j = 0; j < half; j++)
			{
				float		c = t[2 * j],
							s = t[2 * j + 1],
							a0 = a[j];

				a[j] = a0 * c - b[j] * s;
				b[j] = a0 * s + b[j] * c;
			}
		}
}

static double
act_silu(double x)
{
	return x / (1.0 + exp(-x));
}

static double
act_gelu(double x)
{
	return 0.5 * x * erfc(-x * 0.70710678118654752440);
}

static double
act_gelu_tanh(double x)
{
	/* sigmoid(2u) is (1 + tanh(u)) / 2 */
	return x / (1.0 + exp(-2.0 * 0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

static double
act_gelu_quick(double x)
{
	return x / (1.0 + exp(-1.702 * x));
}

static double
act_relu(double x)
{
	return x <= 0.0 ? 0.0 : x;	/* a NaN stays */
}

static double
act_relu2(double x)
{
	return act_relu(x) * act_relu(x);
}

static double
act_swiglu_oai(double x)
{
	return act_gelu_quick(x > 7.0 ? 7.0 : x);
}

static double
up_plain(double u)
{
	return u;
}

static double
up_oai(double u)
{
	return (u > 7.0 ? 7.0 : u < -7.0 ? -7.0 : u) + 1.0;
}

static const struct
{
	double		(*gate) (double);
	double		(*up) (double);
}			acts[] = {
#define KACT(id, gate, up)	{act_##gate, up_##up},
#include "acts.def"
#undef KACT
};

static void
ref_act_mul(KPool *pool, KAct a, float *y, const float *gu, int rows, int dim)
{
	(void) pool;
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < dim; j++)
		{
			double		g = gu[(size_t) i * 2 * dim + j],
						u = gu[(size_t) i * 2 * dim + dim + j];

			y[(size_t) i * dim + j] = (float) (acts[a].gate(g) * acts[a].up(u));
		}
}

static void
ref_act_op(KPool *pool, KAct a, const float *p, KOp *y, const float *x, int rows, int dim)
{
	(void) pool;
	for (size_t i = 0; i < (size_t) rows * dim; i++)
		y[i] = (float) (a < KACT_COUNT ? acts[a].gate(x[i]) : ref2_act(a, p, (double) x[i]));
}

static void
ref_act(KPool *pool, KAct a, float *y, int rows, int dim)
{
	ref_act_op(pool, a, NULL, y, y, rows, dim);
}

static void
ref_rows_of(KPool *pool, const KMat *m, const int32_t *ids, int first, int rows, float *y, int ldy)
{
	(void) pool;
	for (int i = 0; i < rows; i++)
	{
		int			id = first + (ids != NULL ? ids[i] : 0);

		for (int j = 0; j < m->k; j++)
			y[(size_t) i * ldy + j] = 0;
		if (id >= 0 && id < m->n)
			ref_mat_row(m, id, y + (size_t) i * ldy);
	}
}

static void
ref_softcap(KPool *pool, float *y, int rows, int dim, float cap)
{
	(void) pool;
	for (size_t i = 0; i < (size_t) rows * dim; i++)
		y[i] = cap * tanhf(y[i] / cap);
}

/* Return the scale of a token's K: INT8's, in the cell, or the layer's; kv_v_scale() that of its V. */
static float
kv_k_scale(const KvView *kv, int layer, uint8_t *cell, int place)
{
	return kv->type == KT_INT8 ? kv_cell_scales(kv, cell)[place] : kv_scale(kv, layer, 0);
}

static float
kv_v_scale(const KvView *kv, int layer, uint8_t *cell, int place)
{
	return kv->type == KT_INT8 ? kv_cell_scales(kv, cell)[kv->block_size + place] : kv_scale(kv, layer, 1);
}

/*
 * Return an element: element i of a token's K (i = d * block_size + place) or V is at[i]; INT8's and
 * FP8's is a code that is multiplied by the scale.
 */
static float
kv_get(const KvView *kv, const uint8_t *at, size_t i, float scale)
{
	if (kv_is_f8(kv->type))
		return kf8_to_f32(kv->type, at[i]) * scale;
	return kv->type == KT_INT8 ? (float) (int8_t) at[i] * scale : kelem_get(kv->type, at, i);
}

/* Store n elements of x, `stride` apart at `to`; for INT8 compute one scale for all of them. */
static void
kv_put(const KvView *kv, uint8_t *to, size_t first, size_t stride, const float *x, int n, float *scale,
	   float f8_scale)
{
	float		inv = 0.0f;

	if (kv->type == KT_INT8)
		*scale = q8_scale(abs_max(x, n), &inv);
	for (int i = 0; i < n; i++)
		if (kv->type == KT_INT8)
			to[first + i * stride] = (uint8_t) (inv == 0.0f ? 0 : (int) rintf(x[i] * inv));
		else if (kv_is_f8(kv->type))
			to[first + i * stride] = kf32_to_f8(kv->type, x[i] / f8_scale);
		else
			kelem_put(kv->type, to, first + i * stride, x[i]);
}

static void
ref_kv_write(KPool *pool, const KvView *kv, int layer, const KRows *r,
			 const float *k, int ldk, const float *v, int ldv)
{
	int			hd = kv->head_dim,
				vw = kv_vwidth(kv),
				bs = kv->block_size;

	(void) pool;
	for (int i = 0; i < r->n_rows; i++)
		for (int h = 0; h < kv->n_kv_heads; h++)
		{
			int			at = r->pos[i] % bs;
			int32_t		block = r->block_table[krows_seq(r, i)][r->pos[i] / bs];
			uint8_t    *kc = kv_cell(kv, layer, block, h);
			float	   *scales = kv_cell_scales(kv, kc);

			kv_put(kv, kc, at, bs, k + (size_t) i * ldk + (size_t) h * hd, hd, scales + at,
				   kv_scale(kv, layer, 0));
			kv_put(kv, kv_cell_v(kv, kc), (size_t) at * kv_vdim(kv), 1,
				   v + (size_t) i * ldv + (size_t) h * vw, vw, scales + bs + at, kv_scale(kv, layer, 1));
		}
}

static size_t
ref_attn_scratch(const KvView *kv, int n_heads, int rows, int nthreads)
{
	(void) n_heads;
	(void) rows;
	(void) nthreads;
	return (size_t) kv_vwidth(kv) * sizeof(double) + (size_t) kv->n_blocks * kv->block_size * sizeof(float);
}

/* Compute one row at position pos, over lo .. hi-1, for one head; sums: scratch for the sums of a row
 * of values, then for a score per position. */
static void
attn_row(const KvView *kv, int layer, const int32_t *table, int kvh, const float *q,
		 const KAttn *a, int head, int pos, int lo, int hi, float *out, double *sums)
{
	int			bs = kv->block_size;
	float	   *p = (float *) (sums + kv_vwidth(kv));
	float		max = a->sinks ? a->sinks[head] : -INFINITY;
	double		sum = 0.0;

	for (int t = lo; t < hi; t++)
	{
		uint8_t    *kc = kv_cell(kv, layer, table[t / bs], kvh);
		float		scale = kv_k_scale(kv, layer, kc, t % bs);
		float		s = 0.0f;

		for (int d = 0; d < kv->head_dim; d++)
			s = fmaf(q[d], kv_get(kv, kc, (size_t) d * bs + t % bs, scale), s);
		p[t] = s * a->scale;
		if (a->softcap > 0)
			p[t] = a->softcap * tanhf(p[t] / a->softcap);
		if (a->alibi)
			p[t] -= a->alibi[head] * (float) k_max(t - pos, pos - t);
		if (a->bias)
			p[t] += a->bias[(size_t) head * (size_t) (2 * a->span - 1) + (size_t) (t - pos + a->span - 1)];
		max = p[t] > max ? p[t] : max;
	}
	for (int t = lo; t < hi; t++)
	{
		p[t] = expf(p[t] - max);
		sum += p[t];
	}
	if (a->sinks)
		sum += exp((double) a->sinks[head] - max);
	for (int d = 0; d < kv_vwidth(kv); d++)
		sums[d] = 0.0;
	for (int t = lo; t < hi; t++)
	{
		uint8_t    *kc = kv_cell(kv, layer, table[t / bs], kvh);
		size_t		first = (size_t) (t % bs) * kv_vdim(kv);
		float		scale = kv_v_scale(kv, layer, kc, t % bs);

		for (int d = 0; d < kv_vwidth(kv); d++)
			sums[d] += (double) p[t] * kv_get(kv, kv_cell_v(kv, kc), first + d, scale);
	}
	for (int d = 0; d < kv_vwidth(kv); d++)
		out[d] = (float) (sums[d] / sum);
}

static void
ref_attn(KPool *pool, const KvView *kv, int layer, const KRows *r,
		 const float *q, int ldq, int n_heads, const KAttn *a, float *out, void *ws)
{
	int			group = n_heads / kv->n_kv_heads;

	(void) pool;
	for (int i = 0; i < r->n_rows; i++)
		for (int h = 0; h < n_heads; h++)
		{
			int			pos = r->pos[i];
			int			hi = a->ends ? a->ends[i] : pos + 1;
			int			lo = a->chunk > 0 ? pos / a->chunk * a->chunk : a->window > 0 ?
				k_max(0, pos + 1 - a->window) : 0;

			if (a->ends && a->ahead > 0)
				hi = k_min(hi, pos + 1 + a->ahead);
			attn_row(kv, layer, r->block_table[krows_seq(r, i)], h / group,
					 q + (size_t) i * ldq + (size_t) h * kv->head_dim, a, h, pos, lo, hi,
					 out + ((size_t) i * n_heads + h) * kv_vwidth(kv), ws);
		}
}

static void
ref_conv(KPool *pool, const KState *st, const KRows *r, const float *x, int ldx, int dim, int width,
		 const float *w, const float *b, bool silu, float *y, int ldy)
{
	(void) pool;
	for (int s = 0; s < r->n_seqs; s++)
		for (int c = 0; c < dim; c++)
		{
			float	   *state = st->base + (size_t) r->state_slot[s] * st->stride + c;
			float		in[KCONV_MAX];

			for (int i = 0; i < width - 1; i++)
				in[i] = r->pos[r->seq_start[s]] == 0 ? 0 : state[(size_t) i * dim];
			for (int row = r->seq_start[s]; row < r->seq_start[s + 1]; row++)
			{
				double		sum = b != NULL ? (double) b[c] : 0;

				in[width - 1] = x[(size_t) row * ldx + c];
				for (int i = 0; i < width; i++)
					sum += (double) w[(size_t) i * dim + c] * (double) in[i];
				y[(size_t) row * ldy + c] = (float) (silu ? sum / (1 + exp(-sum)) : sum);
				memmove(in, in + 1, (size_t) (width - 1) * sizeof(float));
			}
			for (int i = 0; i < width - 1; i++)
				state[(size_t) i * dim] = in[i];
		}
}

/* Compute one row of one channel: channel p of a head. */
static float
scan_channel(const KScan *s, int row, int head, int p, float *h)
{
	size_t		g = (size_t) (head / (s->heads / s->groups)) * (size_t) s->state;
	size_t		at = (size_t) head * s->head_dim + p;
	double		x = (double) s->x[(size_t) row * s->ldx + at];
	double		t = (double) s->dt[(size_t) row * s->lddt + head] +
		(s->dt_bias != NULL ? (double) s->dt_bias[head] : 0);
	double		y = (double) s->d[head] * x;

	t = t > 20 ? t : log1p(exp(t));
	t = t < (double) s->dt_min ? (double) s->dt_min : t > (double) s->dt_max ? (double) s->dt_max : t;
	for (int i = 0; i < s->state; i++)
	{
		double		a = (double) s->a[s->a_wide ? (size_t) head * s->state + i : (size_t) head];
		double		v = (double) h[i] * exp(t * a) + t * x * (double) s->b[(size_t) row * s->ldbc + g + i];

		h[i] = (float) v;
		y += v * (double) s->c[(size_t) row * s->ldbc + g + i];
	}
	if (s->z != NULL)
	{
		double		z = (double) s->z[(size_t) row * s->ldz + at];

		y *= z / (1 + exp(-z));
	}
	return (float) y;
}

static void
ref_scan(KPool *pool, const KState *st, const KRows *r, const KScan *s, float *y, int ldy)
{
	(void) pool;
	for (int q = 0; q < r->n_seqs; q++)
		for (int c = 0; c < s->heads * s->head_dim; c++)
		{
			float	   *h = st->base + (size_t) r->state_slot[q] * st->stride + (size_t) c * s->state;

			if (r->pos[r->seq_start[q]] == 0)
				memset(h, 0, (size_t) s->state * sizeof(float));
			for (int row = r->seq_start[q]; row < r->seq_start[q + 1]; row++)
				y[(size_t) row * ldy + c] = scan_channel(s, row, c / s->head_dim, c % s->head_dim, h);
		}
}

/* element i of a float table */
static float
lora_at(KType type, const void *p, size_t i)
{
	float		f;

	kblock_to_float(type, (const uint8_t *) p + i * ktype_row_bytes(type, 1), 1, &f);
	return f;
}

static void
ref_lora_shrink(KPool *pool, KLoraJob *jobs, int n, const float *x, int ldx, float *t, int ldt)
{
	(void) pool;
	for (const KLoraJob *j = jobs; j < jobs + n; j++)
		for (int i = 0; i < j->n_rows; i++)
			for (int r = 0; r < j->p->rank; r++)
			{
				const float *row = x + (size_t) j->rows[i] * ldx;
				double		sum = 0;

				for (int k = 0; k < j->p->k; k++)
					sum += (double) row[k] * (double) lora_at(j->p->type, j->p->a, (size_t) r * j->p->k + k);
				t[(size_t) j->rows[i] * ldt + j->p->at + r] = (float) sum * j->p->scale;
			}
}

static void
ref_lora_expand(KPool *pool, KLoraJob *jobs, int n, const float *t, int ldt, float *y, int ldy)
{
	(void) pool;
	for (const KLoraJob *j = jobs; j < jobs + n; j++)
		for (int i = 0; i < j->n_rows; i++)
			for (int c = 0; c < j->p->n; c++)
			{
				size_t		panel = (size_t) (c / KLORA_PANEL) * j->p->rank * KLORA_PANEL + c % KLORA_PANEL;
				double		sum = 0;

				for (int r = 0; r < j->p->rank; r++)
					sum += (double) t[(size_t) j->rows[i] * ldt + j->p->at + r] *
						(double) lora_at(j->p->type, j->p->b, panel + (size_t) r * KLORA_PANEL);
				y[(size_t) j->rows[i] * ldy + j->p->col + c] += (float) sum;
			}
}

const Kernels kernels_ref = {
	.name = "ref",
	.op_size = sizeof(float),
	.mat_bytes = ref_mat_bytes,
	.mat_pack = ref_mat_pack,
	.mat_row = ref_mat_row,
	.mm_scratch = ref_mm_scratch,
	.mm = ref_mm,
	.mm_grouped_scratch = ref_mm_grouped_scratch,
	.mm_grouped = ref_mm_grouped,
	.lora_shrink = ref_lora_shrink,
	.lora_expand = ref_lora_expand,
	.rmsnorm = ref_rmsnorm,
	.rmsnorm_op = ref_rmsnorm,
	.add_rmsnorm = ref_add_rmsnorm,
	.layernorm = ref_layernorm,
	.layernorm_op = ref_layernorm,
	.norm_heads = ref_norm_heads,
	.add = ref_add,
	.scale = ref_scale,
	.rope = ref_rope,
	.softcap = ref_softcap,
	.act_mul = ref_act_mul,
	.act = ref_act,
	.act_op = ref_act_op,
	.rows_of = ref_rows_of,
	REF2_OPS,
	.kv_write = ref_kv_write,
	.attn_scratch = ref_attn_scratch,
	.attn = ref_attn,
	.conv = ref_conv,
	.scan = ref_scan,
};
