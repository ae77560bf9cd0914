/*
 * tmpl_act.h
 *	  Activations (acts.def), with a gate and without.
 *
 * Each is a few vector operations on 16 elements; the loops over a row are written once and instantiated
 * for each activation.
 *
 * Errors: 4 units of the last place.  If the tail e^a, a < 0, is the only remaining factor of x, the
 * rounding of a adds up to 1.5 |a| units; below 1e-36 results may be 0.
 */

/* x * sigmoid(a) */
static inline v16
times_sigmoid(v16 x, v16 a)
{
	return v_div(x, v_add(v_set1(1.0f), v_exp(v_sub(v_zero(), a))));
}

static inline v16
act_silu(v16 x)
{
	return times_sigmoid(x, x);
}

/*
 * x * Phi(x) as max(x, 0) - t * Q(t), t = |x|: the upper tail Q is e^(-t^2/2) times Mills' ratio, which
 * a rational function approximates to 6e-9 up to t = 15, where Q is 0.  It has positive coefficients
 * only, so nothing cancels.
 */
static inline v16
act_gelu(v16 x)
{
	v16			t = v_min(v_set1(15.0f), v_max(x, v_sub(v_zero(), x)));
	v16			p = v_set1(4.153187893e-3f),
				q = v_set1(1.041038659e-2f);

	p = v_fma(p, t, v_set1(4.088113787e-2f));
	p = v_fma(p, t, v_set1(1.839696047e-1f));
	p = v_fma(p, t, v_set1(4.392847323e-1f));
	p = v_fma(p, t, v_set1(5.0e-1f));
	q = v_fma(q, t, v_set1(1.024799303e-1f));
	q = v_fma(q, t, v_set1(4.714097958e-1f));
	q = v_fma(q, t, v_set1(1.205551300f));
	q = v_fma(q, t, v_set1(1.676454470f));
	q = v_fma(q, t, v_set1(1.0f));
	p = v_mul(v_div(p, q), v_exp(v_mul(v_mul(t, t), v_set1(-0.5f))));
	/* this order of operands lets a NaN through */
	return v_sub(v_max(v_zero(), x), v_mul(t, p));
}

/* (1 + tanh(u)) / 2 = sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3) */
static inline v16
act_gelu_tanh(v16 x)
{
	v16			a = v_fma(v_mul(x, x), v_set1(0.0713548162726f), v_set1(1.59576912161f));

	return times_sigmoid(x, v_mul(a, x));
}

static inline v16
act_gelu_quick(v16 x)
{
	return times_sigmoid(x, v_mul(x, v_set1(1.702f)));
}

static inline v16
act_relu(v16 x)
{
	return v_max(v_zero(), x);
}

static inline v16
act_relu2(v16 x)
{
	v16			r = act_relu(x);

	return v_mul(r, r);
}

static inline v16
act_swiglu_oai(v16 x)
{
	return act_gelu_quick(v_min(v_set1(7.0f), x));
}

static inline v16
up_plain(v16 u)
{
	return u;
}

static inline v16
up_oai(v16 u)
{
	return v_add(v_min(v_set1(7.0f), v_max(v_set1(-7.0f), u)), v_set1(1.0f));
}

typedef v16 (*ActFn) (v16 x);

static inline __attribute__((always_inline)) void
act_mul_loop(const RowJob *j, int row, ActFn act, ActFn up)
{
	const float *g = j->cx + (size_t) row * 2 * j->dim;
	const float *u = g + j->dim;
	float	   *y = j->y + (size_t) row * j->dim;
	int			i = 0,
				n;

	for (; i + 16 <= j->dim; i += 16)
		v_store(y + i, v_mul(act(v_load(g + i)), up(v_load(u + i))));
	n = j->dim - i;
	if (n > 0)
		v_store_n(y + i, v_mul(act(v_load_n(g + i, n)), up(v_load_n(u + i, n))), n);
}

static inline __attribute__((always_inline)) void
act_loop(const RowJob *j, int row, ActFn act)
{
	const float *x = j->cx + (size_t) row * j->dim;
	float	   *y = j->y + (size_t) row * j->dim;
	int			i = 0,
				n;

	for (; i + 16 <= j->dim; i += 16)
		v_store(y + i, act(v_load(x + i)));
	n = j->dim - i;
	if (n > 0)
		v_store_n(y + i, act(v_load_n(x + i, n)), n);
}

#define KACT(id, gate, with) \
static void \
act_mul_row_##gate(void *arg, int row, int ith) \
{ \
	(void) ith; \
	act_mul_loop(arg, row, act_##gate, up_##with); \
} \
static void \
act_row_##gate(void *arg, int row, int ith) \
{ \
	(void) ith; \
	act_loop(arg, row, act_##gate); \
}
#include "acts.def"
#undef KACT

typedef struct ActRow
{
	KPoolFn		mul;
	KPoolFn		alone;
} ActRow;

static const ActRow acts[] = {
#define KACT(id, gate, with)	{act_mul_row_##gate, act_row_##gate},
#include "acts.def"
#undef KACT
};

static void
act_mul(KPool *pool, KAct a, float *y, const float *gu, int rows, int dim)
{
	RowJob		j = {.y = y, .cx = gu, .dim = dim};

	run_rows(pool, acts[a].mul, &j, rows, (size_t) rows * dim * 2);
}

static void
act_op(KPool *pool, KAct a, const float *p, KOp *y, const float *x, int rows, int dim)
{
	RowJob		j = {.y = y, .cx = x, .dim = dim};

	if (a >= KACT_COUNT)
		misc_act(pool, a, p, y, x, rows, dim);
	else
		run_rows(pool, acts[a].alone, &j, rows, (size_t) rows * dim);
}

static void
act(KPool *pool, KAct a, float *y, int rows, int dim)
{
	act_op(pool, a, NULL, y, y, rows, dim);
}
