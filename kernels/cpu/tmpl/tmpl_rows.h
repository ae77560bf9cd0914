/*
 * tmpl_rows.h
 *	  Row-wise ops: exp and tanh, norms, rotary embedding, soft-cap, storing K and V.  Activations are
 *	  in tmpl_act.h.
 *
 * One thread computes a row.  Sums run in 16 lanes (lane = index mod 16) that are added in v_sum's
 * order: the same bits wherever fma is fused.
 */

/* e^r - 1 for |r| <= 0.35 */
static inline v16
expm1_poly(v16 r)
{
	v16			p = v_set1(1.9875691500e-4f);

	p = v_fma(p, r, v_set1(1.3981999507e-3f));
	p = v_fma(p, r, v_set1(8.3334519073e-3f));
	p = v_fma(p, r, v_set1(4.1665795894e-2f));
	p = v_fma(p, r, v_set1(1.6666665459e-1f));
	p = v_fma(p, r, v_set1(5.0000001201e-1f));
	return v_fma(p, v_mul(r, r), r);
}

/* x - n ln 2 */
static inline v16
exp_rest(v16 x, v16 n)
{
	return v_fma(n, v_set1(2.12194440e-4f), v_fma(n, v_set1(-0.693359375f), x));
}

/*
 * e^x to about 1 ulp.  x = n ln 2 + r; a polynomial for e^r; times 2^n in two
 * steps, so that results near the ends overflow or lose bits gradually.
 * exp(0) is exactly 1, exp(-Inf) 0, exp(NaN) NaN.
 */
static inline v16
v_exp(v16 x)
{
	v16			n;

	/* this order of operands lets a NaN through */
	x = v_min(v_set1(89.0f), v_max(v_set1(-105.0f), x));
	n = v_rint(v_mul(x, v_set1(1.44269504f)));
	return v_ldexp(v_add(expm1_poly(exp_rest(x, n)), v_set1(1.0f)), n);
}

/*
 * Compute t = n + 127 in the low bits of a float, n = rint(x / ln 2) for |x| < 87: adding 1.5 * 2^23
 * rounds a number to a whole one.
 */
#define EXP_MAGIC	12583039.0f

static inline v16
exp_whole(v16 x)
{
	return v_fma(x, v_set1(1.44269504f), v_set1(EXP_MAGIC));
}

/* e^x for x <= 0, for softmax: like v_exp, but cheaper; for smaller x the result is e^-86 (4e-38). */
static inline v16
v_exp_neg(v16 x)
{
	v16			t,
				p2;

	x = v_max(v_set1(-86.0f), x);
	t = exp_whole(x);
	p2 = v_low_exponent(t);
	return v_fma(expm1_poly(exp_rest(x, v_sub(t, v_set1(EXP_MAGIC)))), p2, p2);
}

/*
 * tanh(x) = u / (u + 2) with u = e^2x - 1, whose relative error stays small for small u: within 4 units
 * of the last place everywhere.  From 10 on it is 1.
 */
static inline v16
v_tanh(v16 x)
{
	v16			t,
				p2,
				u;

	x = v_min(v_set1(20.0f), v_max(v_set1(-20.0f), v_add(x, x)));
	t = exp_whole(x);
	p2 = v_low_exponent(t);
	u = v_fma(expm1_poly(exp_rest(x, v_sub(t, v_set1(EXP_MAGIC)))), p2, v_sub(p2, v_set1(1.0f)));
	return v_div(u, v_add(u, v_set1(2.0f)));
}

static inline float
exp1(float x)
{
	float		f[16];

	v_store(f, v_exp(v_set1(x)));
	return f[0];
}

typedef struct RowJob
{
	float	   *y;
	float	   *x;
	const float *cx;
	const float *d;
	const float *w;
	int			dim;
	int			ld;
	float		eps;			/* or the cap of softcap, the factor of scale */
	/* rope, norm_heads */
	int			heads;
	const float *b;
	KNormKind	kind;
	int			ldw;
	int			rot_dim;
	const int32_t *pos;
} RowJob;

/* x * w[i..] + b[i..] of n columns; w and b may be NULL */
static inline v16
norm_affine(v16 x, const float *w, const float *b, int i, int n)
{
	if (w != NULL)
		x = v_mul(x, n == 16 ? v_load(w + i) : v_load_n(w + i, n));
	if (b != NULL)
		x = v_add(x, n == 16 ? v_load(b + i) : v_load_n(b + i, n));
	return x;
}

static void
norm_row(float *y, const float *x, const float *w, int dim, float eps)
{
	v16			acc = v_zero();
	v16			scale;
	int			i = 0;

	for (; i + 16 <= dim; i += 16)
	{
		v16			v = v_load(x + i);

		acc = v_fma(v, v, acc);
	}
	if (i < dim)
	{
		v16			v = v_load_n(x + i, dim - i);

		acc = v_fma(v, v, acc);
	}
	scale = v_set1(1.0f / sqrtf(v_sum(acc) / (float) dim + eps));
	for (i = 0; i + 16 <= dim; i += 16)
		v_store(y + i, norm_affine(v_mul(v_load(x + i), scale), w, NULL, i, 16));
	if (i < dim)
		v_store_n(y + i, norm_affine(v_mul(v_load_n(x + i, dim - i), scale), w, NULL, i, dim - i),
				  dim - i);
}

/* the mean first, then the squares of the differences: no cancellation */
static void
layernorm_of(float *y, const float *x, const float *w, const float *b, int dim, float eps)
{
	v16			acc = v_zero();
	v16			mean,
				scale;
	int			tail = dim % 16,
				i;

	for (i = 0; i + 16 <= dim; i += 16)
		acc = v_add(acc, v_load(x + i));
	if (tail > 0)
		acc = v_add(acc, v_load_n(x + i, tail));
	mean = v_set1(v_sum(acc) / (float) dim);
	acc = v_zero();
	for (i = 0; i + 16 <= dim; i += 16)
	{
		v16			d = v_sub(v_load(x + i), mean);

		acc = v_fma(d, d, acc);
	}
	if (tail > 0)
	{
		v16			d = v_select_range(v_sub(v_load_n(x + i, tail), mean), 0, tail, 0.0f);

		acc = v_fma(d, d, acc);
	}
	scale = v_set1(1.0f / sqrtf(v_sum(acc) / (float) dim + eps));
	for (i = 0; i + 16 <= dim; i += 16)
		v_store(y + i, norm_affine(v_mul(v_sub(v_load(x + i), mean), scale), w, b, i, 16));
	if (tail > 0)
		v_store_n(y + i, norm_affine(v_mul(v_sub(v_load_n(x + i, tail), mean), scale), w, b, i, tail),
				  tail);
}

static void
add_row(float *x, const float *d, int dim)
{
	int			i = 0;

	for (; i + 16 <= dim; i += 16)
		v_store(x + i, v_add(v_load(x + i), v_load(d + i)));
	for (; i < dim; i++)
		x[i] += d[i];
}

static void
rmsnorm_row(void *arg, int row, int ith)
{
	const RowJob *j = arg;
	size_t		at = (size_t) row * j->dim;

	(void) ith;
	norm_row(j->y + at, j->cx + at, j->w, j->dim, j->eps);
}

static void
rmsnorm(KPool *pool, float *y, const float *x, const float *w, int rows, int dim, float eps)
{
	RowJob		j = {.y = y, .cx = x, .w = w, .dim = dim, .eps = eps};

	run_rows(pool, rmsnorm_row, &j, rows, (size_t) rows * dim);
}

static void
add_rmsnorm_row(void *arg, int row, int ith)
{
	const RowJob *j = arg;
	size_t		at = (size_t) row * j->dim;

	(void) ith;
	add_row(j->x + at, j->d + at, j->dim);
	norm_row(j->y + at, j->x + at, j->w, j->dim, j->eps);
}

static void
add_rmsnorm(KPool *pool, float *y, float *x, const float *d, const float *w,
			int rows, int dim, float eps)
{
	RowJob		j = {.y = y, .x = x, .d = d, .w = w, .dim = dim, .eps = eps};

	run_rows(pool, add_rmsnorm_row, &j, rows, (size_t) rows * dim);
}

static void
layernorm_row(void *arg, int row, int ith)
{
	const RowJob *j = arg;
	size_t		at = (size_t) row * j->dim;

	(void) ith;
	layernorm_of(j->y + at, j->cx + at, j->w, j->b, j->dim, j->eps);
}

static void
layernorm(KPool *pool, float *y, const float *x, const float *w, const float *b,
		  int rows, int dim, float eps)
{
	RowJob		j = {.y = y, .cx = x, .w = w, .b = b, .dim = dim, .eps = eps};

	run_rows(pool, layernorm_row, &j, rows, (size_t) rows * dim);
}

static void
norm_heads_row(void *arg, int row, int ith)
{
	const RowJob *j = arg;

	(void) ith;
	for (int h = 0; h < j->heads; h++)
	{
		float	   *x = j->x + (size_t) row * j->ld + (size_t) h * j->dim;
		const float *w = j->w ? j->w + (size_t) h * j->ldw : NULL;

		if (j->kind == KNORM_LAYER)
			layernorm_of(x, x, w, NULL, j->dim, j->eps);
		else
			norm_row(x, x, w, j->dim, j->eps);
	}
}

static void
norm_heads(KPool *pool, KNormKind kind, float *x, int rows, int ld, int heads, int dim,
		   const float *w, int ldw, float eps)
{
	RowJob		j = {
		.x = x, .kind = kind, .ld = ld, .heads = heads, .dim = dim, .w = w, .ldw = ldw, .eps = eps
	};

	run_rows(pool, norm_heads_row, &j, rows, (size_t) rows * heads * dim);
}

static void
scale_row(void *arg, int row, int ith)
{
	const RowJob *j = arg;
	float	   *x = j->x + (size_t) row * j->dim;

	(void) ith;
	/* the compiler vectorizes this loop */
	for (int i = 0; i < j->dim; i++)
		x[i] *= j->eps;
}

static void
scale(KPool *pool, float *x, int rows, int dim, float s)
{
	RowJob		j = {.x = x, .dim = dim, .eps = s};

	run_rows(pool, scale_row, &j, rows, (size_t) rows * dim);
}

static void
add_chunk(void *arg, int row, int ith)
{
	const RowJob *j = arg;
	size_t		at = (size_t) row * j->dim;

	(void) ith;
	add_row(j->x + at, j->d + at, j->dim);
}

static void
add(KPool *pool, float *x, const float *d, int rows, int dim)
{
	RowJob		j = {.x = x, .d = d, .dim = dim};

	run_rows(pool, add_chunk, &j, rows, (size_t) rows * dim);
}

static void
rope_row(void *arg, int row, int ith)
{
	const RowJob *j = arg;
	int			half = j->rot_dim / 2;
	const float *cs = j->w + (size_t) j->pos[row] * j->rot_dim;

	(void) ith;
	for (int h = 0; h < j->heads; h++)
	{
		float	   *restrict a = j->x + (size_t) row * j->ld + (size_t) h * j->dim;
		float	   *restrict b = a + half;

		/* the compiler vectorizes this loop: two rounded products and a sum everywhere */
		for (int i = 0; i < half; i++)
		{
			float		c = cs[2 * i],
						s = cs[2 * i + 1],
						a0 = a[i],
						b0 = b[i];

			a[i] = a0 * c - b0 * s;
			b[i] = a0 * s + b0 * c;
		}
	}
}

static void
rope(KPool *pool, float *x, int rows, int ld, int heads, int head_dim,
	 const int32_t *pos, const float *cs, int rot_dim)
{
	RowJob		j = {
		.x = x, .ld = ld, .heads = heads, .dim = head_dim, .pos = pos, .w = cs, .rot_dim = rot_dim
	};

	run_rows(pool, rope_row, &j, rows, (size_t) rows * heads * rot_dim);
}

static void
softcap_row(void *arg, int row, int ith)
{
	const RowJob *j = arg;
	float	   *y = j->y + (size_t) row * j->dim;
	v16			cap = v_set1(j->eps),
				inv = v_set1(1.0f / j->eps);
	int			i = 0;

	(void) ith;
	for (; i + 16 <= j->dim; i += 16)
		v_store(y + i, v_mul(cap, v_tanh(v_mul(v_load(y + i), inv))));
	if (i < j->dim)
		v_store_n(y + i, v_mul(cap, v_tanh(v_mul(v_load_n(y + i, j->dim - i), inv))), j->dim - i);
}

static void
softcap(KPool *pool, float *y, int rows, int dim, float cap)
{
	RowJob		j = {.y = y, .dim = dim, .eps = cap};

	run_rows(pool, softcap_row, &j, rows, (size_t) rows * dim);
}

typedef struct KvJob
{
	const KvView *kv;
	const KRows *r;
	const float *k;
	const float *v;
	int			layer;
	int			ldk;
	int			ldv;
} KvJob;

/* convert n floats to the KV's element type; `to` has room for whole vectors */
static inline void
kv_convert(KType t, void *to, const float *from, int n)
{
	int			i = 0;

	if (t == KT_F32)
	{
		memcpy(to, from, (size_t) n * sizeof(float));
		return;
	}
	for (; i < n; i += 16)
	{
		v16			x = i + 16 <= n ? v_load(from + i) : v_load_n(from + i, n - i);

		if (t == KT_F16)
			v_store_f16((uint16_t *) to + i, x);
		else
			v_store_bf16((uint16_t *) to + i, x);
	}
}

#define KV_CHUNK	64			/* elements converted at once */

/* codes of n floats: rint(x * inv); inv is 0 if all codes must be 0 (q8_scale) */
static void
kv_codes(int8_t *q, const float *x, int n, float inv)
{
	memset(q, 0, n);
	if (inv == 0.0f)
		return;
	/* adding 1.5 * 2^23 rounds to a whole number; the compiler vectorizes this loop */
	for (int i = 0; i < n; i++)
		q[i] = (int8_t) (int) (x[i] * inv + 12582912.0f - 12582912.0f);
}

static inline uint32_t
kv_absmax(const float *x, int n)
{
	uint32_t	m = 0;

	for (int i = 0; i < n; i++)
	{
		uint32_t	u;

		memcpy(&u, x + i, sizeof(u));
		u &= 0x7fffffffu;
		m = u > m ? u : m;
	}
	return m;
}

/* store one token's K and V of one head as codes and scales, at position `at` of the cell */
static void
kv_write_int8(const KvView *kv, uint8_t *cell, int at, const float *k, const float *v)
{
	int			bs = kv->block_size,
				hd = kv->head_dim,
				vw = kv_vwidth(kv);
	float	   *scales = kv_cell_scales(kv, cell),
				inv;
	int8_t	   *kc = (int8_t *) cell + at,
				buf[KV_CHUNK];

	scales[bs + at] = q8_scale(kv_absmax(v, vw), &inv);
	kv_codes((int8_t *) kv_cell_v(kv, cell) + (size_t) at * kv_vdim(kv), v, vw, inv);
	scales[at] = q8_scale(kv_absmax(k, hd), &inv);
	for (int d0 = 0; d0 < hd; d0 += KV_CHUNK)
	{
		int			n = k_min(KV_CHUNK, hd - d0);

		kv_codes(buf, k + d0, n, inv);
		for (int d = 0; d < n; d++)
			kc[(size_t) (d0 + d) * bs] = buf[d];
	}
}

/* store them as codes with the layer's scales */
static void
kv_write_f8(const KvView *kv, int layer, uint8_t *cell, int at, const float *k, const float *v)
{
	size_t		bs = kv->block_size;
	uint8_t    *vc = kv_cell_v(kv, cell) + (size_t) at * kv_vdim(kv);
	float		ks = kv_scale(kv, layer, 0),
				vs = kv_scale(kv, layer, 1);

	for (int d = 0; d < kv->head_dim; d++)
		cell[d * bs + at] = kf32_to_f8(kv->type, k[d] / ks);
	for (int d = 0; d < kv_vwidth(kv); d++)
		vc[d] = kf32_to_f8(kv->type, v[d] / vs);
}

/* store them as floats of the KV's type */
static void
kv_write_float(const KvView *kv, uint8_t *cell, int at, const float *k, const float *v)
{
	size_t		es = kv_elem(kv->type),
				bs = kv->block_size,
				hd = kv->head_dim,
				vw = kv_vwidth(kv);
	uint8_t    *vc = kv_cell_v(kv, cell) + (size_t) at * kv_vdim(kv) * es;
	_Alignas(64) uint32_t buf[KV_CHUNK];

	for (size_t d0 = 0; d0 < vw; d0 += KV_CHUNK)
	{
		size_t		n = vw - d0 < KV_CHUNK ? vw - d0 : KV_CHUNK;

		kv_convert(kv->type, buf, v + d0, (int) n);
		memcpy(vc + d0 * es, buf, n * es);
	}
	for (size_t d0 = 0; d0 < hd; d0 += KV_CHUNK)
	{
		size_t		n = hd - d0 < KV_CHUNK ? hd - d0 : KV_CHUNK;

		kv_convert(kv->type, buf, k + d0, (int) n);
		if (es == 4)
			for (size_t d = 0; d < n; d++)
				((uint32_t *) cell)[(d0 + d) * bs + at] = buf[d];
		else
			for (size_t d = 0; d < n; d++)
				((uint16_t *) cell)[(d0 + d) * bs + at] = ((uint16_t *) buf)[d];
	}
}

static void
kv_write_row(void *arg, int row, int ith)
{
	const KvJob *j = arg;
	const KvView *kv = j->kv;
	int			at = j->r->pos[row] % kv->block_size;
	int32_t		block = j->r->block_table[krows_seq(j->r, row)][j->r->pos[row] / kv->block_size];

	(void) ith;
	for (int h = 0; h < kv->n_kv_heads; h++)
	{
		uint8_t    *cell = kv_cell(kv, j->layer, block, h);
		const float *k = j->k + (size_t) row * j->ldk + (size_t) h * kv->head_dim;
		const float *v = j->v + (size_t) row * j->ldv + (size_t) h * kv_vwidth(kv);

		if (kv->type == KT_INT8)
			kv_write_int8(kv, cell, at, k, v);
		else if (kv_is_f8(kv->type))
			kv_write_f8(kv, j->layer, cell, at, k, v);
		else
			kv_write_float(kv, cell, at, k, v);
	}
}

static void
kv_write(KPool *pool, const KvView *kv, int layer, const KRows *r,
		 const float *k, int ldk, const float *v, int ldv)
{
	KvJob		j = {.kv = kv, .r = r, .k = k, .v = v, .layer = layer, .ldk = ldk, .ldv = ldv};

	run_rows(pool, kv_write_row, &j, r->n_rows,
			 (size_t) r->n_rows * kv->n_kv_heads * (kv->head_dim + kv_vwidth(kv)));
}
