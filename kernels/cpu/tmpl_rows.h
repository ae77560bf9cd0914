/*
 * tmpl_rows.h
 *	  Row-wise ops: exp, norms, rotary embedding, SwiGLU, writing K and V.
 *
 * A row is done by one thread.  Sums run in 16 lanes (lane = index mod 16) that
 * are added in v_sum's order: the same bits wherever fma is fused.
 */

/*
 * e^x to about 1 ulp.  x = n ln 2 + r; a polynomial for e^r; times 2^n in two
 * steps, so that results near the ends overflow or lose bits gradually.
 * exp(0) is exactly 1, exp(-Inf) 0, exp(NaN) NaN.
 */
static inline v16
v_exp(v16 x)
{
	v16			n,
				r,
				p;

	/* this order of operands lets a NaN through */
	x = v_min(v_set1(89.0f), v_max(v_set1(-105.0f), x));
	n = v_rint(v_mul(x, v_set1(1.44269504f)));
	r = v_fma(n, v_set1(-0.693359375f), x);
	r = v_fma(n, v_set1(2.12194440e-4f), r);
	p = v_set1(1.9875691500e-4f);
	p = v_fma(p, r, v_set1(1.3981999507e-3f));
	p = v_fma(p, r, v_set1(8.3334519073e-3f));
	p = v_fma(p, r, v_set1(4.1665795894e-2f));
	p = v_fma(p, r, v_set1(1.6666665459e-1f));
	p = v_fma(p, r, v_set1(5.0000001201e-1f));
	p = v_fma(p, v_mul(r, r), r);
	p = v_add(p, v_set1(1.0f));
	return v_ldexp(p, n);
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
	float		eps;
	/* rope */
	int			heads;
	int			rot_dim;
	const int32_t *pos;
} RowJob;

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
		v_store(y + i, v_mul(v_mul(v_load(x + i), scale), v_load(w + i)));
	if (i < dim)
		v_store_n(y + i, v_mul(v_mul(v_load_n(x + i, dim - i), scale), v_load_n(w + i, dim - i)),
				  dim - i);
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

		/* left to the compiler: two rounded products and a sum everywhere */
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

static inline v16
silu_mul16(v16 g, v16 u)
{
	v16			one = v_set1(1.0f);

	return v_mul(v_div(g, v_add(one, v_exp(v_sub(v_zero(), g)))), u);
}

static void
silu_mul_row(void *arg, int row, int ith)
{
	const RowJob *j = arg;
	const float *g = j->cx + (size_t) row * 2 * j->dim;
	const float *u = g + j->dim;
	float	   *y = j->y + (size_t) row * j->dim;
	int			i = 0;

	(void) ith;
	for (; i + 16 <= j->dim; i += 16)
		v_store(y + i, silu_mul16(v_load(g + i), v_load(u + i)));
	if (i < j->dim)
		v_store_n(y + i, silu_mul16(v_load_n(g + i, j->dim - i), v_load_n(u + i, j->dim - i)),
				  j->dim - i);
}

static void
silu_mul(KPool *pool, float *y, const float *gu, int rows, int dim)
{
	RowJob		j = {.y = y, .cx = gu, .dim = dim};

	run_rows(pool, silu_mul_row, &j, rows, (size_t) rows * dim * 2);
}

typedef struct KvJob
{
	const KvView *kv;
	const KRows *r;
	const float *k;
	const float *v;
	int			layer;
	int			ld;
} KvJob;

/* convert n floats to the KV's element type; to has room for whole vectors */
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

static void
kv_write_row(void *arg, int row, int ith)
{
	const KvJob *j = arg;
	const KvView *kv = j->kv;
	int			bs = kv->block_size,
				hd = kv->head_dim,
				at = j->r->pos[row] % bs;
	int32_t		block = j->r->block_table[krows_seq(j->r, row)][j->r->pos[row] / bs];
	size_t		es = kv_elem(kv->type);

	(void) ith;
	for (int h = 0; h < kv->n_kv_heads; h++)
	{
		uint8_t    *kc = kv_cell(kv, j->layer, block, h);
		uint8_t    *vc = kv_cell_v(kv, kc) + (size_t) at * kv_vdim(kv) * es;
		size_t		src = (size_t) row * j->ld + (size_t) h * hd;

		for (int d0 = 0; d0 < hd; d0 += KV_CHUNK)
		{
			int			n = k_min(KV_CHUNK, hd - d0);
			_Alignas(64) uint32_t buf[KV_CHUNK];

			kv_convert(kv->type, buf, j->v + src + d0, n);
			memcpy(vc + d0 * es, buf, n * es);
			kv_convert(kv->type, buf, j->k + src + d0, n);
			if (es == 4)
				for (int d = 0; d < n; d++)
					((uint32_t *) kc)[(size_t) (d0 + d) * bs + at] = buf[d];
			else
				for (int d = 0; d < n; d++)
					((uint16_t *) kc)[(size_t) (d0 + d) * bs + at] = ((uint16_t *) buf)[d];
		}
	}
}

static void
kv_write(KPool *pool, const KvView *kv, int layer, const KRows *r,
		 const float *k, const float *v, int ld)
{
	KvJob		j = {.kv = kv, .r = r, .k = k, .v = v, .layer = layer, .ld = ld};

	run_rows(pool, kv_write_row, &j, r->n_rows,
			 (size_t) r->n_rows * kv->n_kv_heads * kv->head_dim * 2);
}
