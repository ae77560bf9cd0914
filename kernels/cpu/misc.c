/*
 * misc.c
 *	  Ops with the same code for all CPUs (misc.h).
 *
 * Plain loops in the order of columns, which the compiler vectorizes; functions of libm where there are
 * few numbers.  A row is one chunk of the pool; for a handful of rows the pool isn't woken.
 */
#include "cpu/misc.h"
#include "route.h"

/* Arguments of most ops. */
typedef struct MiscJob
{
	float	   *y;
	const float *x;
	int			ldy;
	int			ldx;
	int			n;
	int			heads;
	int			ld;
	float		by;
	float		p[4];
	KAct		act;
	int			pieces;			/* pieces per row */
	int			every;
	int			first;
	const int32_t *ids;
	const float *const *given;
	const KMat *m;
	void		(*mat_row) (const KMat *m, int j, float *out);
} MiscJob;

static void
run(KPool *pool, KPoolFn fn, MiscJob *j, int rows)
{
	if (rows == 1)
		fn(j, 0, 0);
	else if (rows > 0)
		kpool_run(pool, fn, j, rows);
}

static inline float *
row_of(const MiscJob *j, int row)
{
	return j->y + (size_t) row * (size_t) j->ldy;
}

/* ---- activations ---- */

#define ACT_PIECE 512			/* columns that a thread processes at once */

static float
xielu(const float *p, float x)
{
	if (x > 0)
		return p[0] * x * x + p[2] * x;
	return (expm1f(x < p[3] ? x : p[3]) - x) * p[1] + p[2] * x;
}

static void
act_piece(void *arg, int i, int ith)
{
	const MiscJob *j = arg;
	int			from = i % j->pieces * ACT_PIECE;
	int			to = k_min(from + ACT_PIECE, j->n);
	float	   *y = j->y + (size_t) (i / j->pieces) * (size_t) j->n;
	const float *x = j->x + (size_t) (i / j->pieces) * (size_t) j->n;

	(void) ith;
	for (int c = from; c < to; c++)
		if (j->act == KACT_TANH)
			y[c] = tanhf(x[c]);
		else if (j->act == KACT_SIGMOID)
			y[c] = (float) (1 / (1 + exp(-(double) x[c])));
		else
			y[c] = xielu(j->p, x[c]);
}

void
misc_act(KPool *pool, KAct a, const float *p, float *y, const float *x, int rows, int dim)
{
	MiscJob		j = {.y = y, .x = x, .n = dim, .act = a, .pieces = (dim + ACT_PIECE - 1) / ACT_PIECE};

	if (p != NULL)
		memcpy(j.p, p, sizeof(j.p));
	run(pool, act_piece, &j, rows * j.pieces);
}

/* ---- columns ---- */

static void
scale_cols_row(void *arg, int row, int ith)
{
	const MiscJob *j = arg;
	float	   *y = row_of(j, row);

	(void) ith;
	for (int i = 0; i < j->n; i++)
		y[i] *= j->by;
}

void
misc_scale_cols(KPool *pool, float *y, int rows, int ldy, int from, int n, float by)
{
	run(pool, scale_cols_row, &(MiscJob) {.y = y + from, .ldy = ldy, .n = n, .by = by}, rows);
}

static void
mul_cols_row(void *arg, int row, int ith)
{
	const MiscJob *j = arg;
	float	   *y = row_of(j, row);

	(void) ith;
	for (int i = 0; i < j->n; i++)
		y[i] *= j->x[i];
}

void
misc_mul_cols(KPool *pool, float *y, int rows, int ldy, const float *w, int n)
{
	run(pool, mul_cols_row, &(MiscJob) {.y = y, .ldy = ldy, .x = w, .n = n}, rows);
}

static void
clip_row(void *arg, int row, int ith)
{
	const MiscJob *j = arg;
	float	   *x = row_of(j, row);
	float		most = j->by;

	(void) ith;
	for (int i = 0; i < j->n; i++)
		x[i] = x[i] > most ? most : x[i] < -most ? -most : x[i];
}

void
misc_clip(KPool *pool, float *x, int rows, int ldx, int n, float most)
{
	run(pool, clip_row, &(MiscJob) {.y = x, .ldy = ldx, .n = n, .by = most}, rows);
}

static void
head_bias_row(void *arg, int row, int ith)
{
	const MiscJob *j = arg;
	float	   *x = row_of(j, row);
	const float *b = j->x;

	(void) ith;
	for (int h = 0; h < j->heads; h++, x += j->n, b += j->ld)
		for (int i = 0; i < j->n; i++)
			x[i] += b[i];
}

void
misc_add_head_bias(KPool *pool, float *x, int rows, int ldx, int heads, int dim, const float *b, int ldb)
{
	run(pool, head_bias_row, &(MiscJob) {.y = x, .ldy = ldx, .x = b, .ld = ldb, .heads = heads, .n = dim},
		rows);
}

static void
temper_row(void *arg, int row, int ith)
{
	const MiscJob *j = arg;
	float		spans = floorf(((float) j->ids[row] + (float) j->first) / (float) j->every);
	float		by = log1pf(spans) * j->by + 1;
	float	   *q = row_of(j, row);

	(void) ith;
	for (int i = 0; spans > 0 && i < j->n; i++)
		q[i] *= by;
}

void
misc_temper(KPool *pool, float *q, int rows, int ldq, int n, const int32_t *pos, float scale, int every,
			int first)
{
	run(pool, temper_row, &(MiscJob) {.y = q, .ldy = ldq, .n = n, .ids = pos, .by = scale, .every = every,
									  .first = first},
		rows);
}

/* ---- copying rows ---- */

static void
table_row(void *arg, int row, int ith)
{
	const MiscJob *j = arg;
	int64_t		id = (j->ids != NULL ? (int64_t) j->ids[row] : 0) + j->first;

	(void) ith;
	if (id >= 0 && id < j->m->n)
		j->mat_row(j->m, (int) id, row_of(j, row));
	else
		memset(row_of(j, row), 0, (size_t) j->m->k * sizeof(float));
}

void
misc_rows_of(KPool *pool, void (*mat_row) (const KMat *m, int j, float *out), const KMat *m,
			 const int32_t *ids, int first, int rows, float *y, int ldy)
{
	run(pool, table_row, &(MiscJob) {.y = y, .ldy = ldy, .m = m, .ids = ids, .first = first,
									 .mat_row = mat_row}, rows);
}

static void
given_row(void *arg, int row, int ith)
{
	const MiscJob *j = arg;

	(void) ith;
	if (j->given[row] != NULL)
		memcpy(row_of(j, row), j->given[row], (size_t) j->n * sizeof(float));
}

void
misc_put_rows(KPool *pool, const float *const *given, int rows, int dim, float *y, int ldy)
{
	run(pool, given_row, &(MiscJob) {.y = y, .ldy = ldy, .given = given, .n = dim}, rows);
}

void
misc_copy_rows(KPool *pool, float *y, int ldy, const float *x, int ldx, const int32_t *idx, int rows, int dim)
{
	size_t		bytes = (size_t) dim * sizeof(float);

	(void) pool;
	if (idx == NULL && ldy == dim && ldx == dim)
	{
		memcpy(y, x, (size_t) rows * bytes);
		return;
	}
	for (int i = 0; i < rows; i++)
		memcpy(y + (size_t) i * (size_t) ldy, x + (size_t) (idx != NULL ? idx[i] : i) * (size_t) ldx, bytes);
}

void
misc_to_op(KPool *pool, float *y, int ldy, const float *x, int ldx, int rows, int dim)
{
	if (y != x)
		misc_copy_rows(pool, y, ldy, x, ldx, NULL, rows, dim);
}

void
misc_keep_rows(KPool *pool, void *x, int elem_size, const int32_t *idx, int n, int width)
{
	size_t		bytes = (size_t) width * (size_t) elem_size;

	(void) pool;
	for (int i = 0; i < n; i++)
		if (idx[i] != i)
			memcpy((char *) x + (size_t) i * bytes, (char *) x + (size_t) idx[i] * bytes, bytes);
}

typedef struct PickJob
{
	float	   *y;
	const float *x;
	const int32_t *from;
	int			ldy;
	int			ldx;
	int			n;
} PickJob;

static void
pick_row(void *arg, int row, int ith)
{
	const PickJob *j = arg;
	float	   *y = j->y + (size_t) row * (size_t) j->ldy;
	const float *x = j->x + (size_t) row * (size_t) j->ldx;

	(void) ith;
	for (int i = 0; i < j->n; i++)
		y[i] = j->from[i] >= 0 ? x[j->from[i]] : K_NO_COLUMN;
}

void
misc_pick_cols(KPool *pool, float *y, int ldy, const float *x, int ldx, const int32_t *from, int rows, int n)
{
	PickJob		j = {y, x, from, ldy, ldx, n};

	kpool_run(pool, pick_row, &j, rows);
}

/* ---- products of elements, sums, numbers ---- */

typedef struct MulJob
{
	float	   *y;
	const float *a;
	const float *b;
	int			ldy;
	int			lda;
	int			ldb;
	int			dim;
	bool		silu;
} MulJob;

static void
mul_row(void *arg, int row, int ith)
{
	const MulJob *j = arg;
	float	   *y = j->y + (size_t) row * (size_t) j->ldy;
	const float *a = j->a + (size_t) row * (size_t) j->lda;
	const float *b = j->b + (size_t) row * (size_t) j->ldb;

	(void) ith;
	if (j->silu)
		for (int i = 0; i < j->dim; i++)
			y[i] = a[i] * (b[i] * kroute_sigmoid(b[i]));
	else
		for (int i = 0; i < j->dim; i++)
			y[i] = a[i] * b[i];
}

void
misc_mul_rows(KPool *pool, float *y, int ldy, const float *a, int lda, const float *b, int ldb, int rows,
			  int dim, bool silu)
{
	MulJob		j = {y, a, b, ldy, lda, ldb, dim, silu};

	kpool_run(pool, mul_row, &j, rows);
}

void
misc_dot_rows(KPool *pool, float *y, const float *x, int rows, int dim, const float *w, float bias)
{
	(void) pool;
	for (int i = 0; i < rows; i++, x += dim)
	{
		double		sum = (double) bias;

		for (int j = 0; j < dim; j++)
			sum += (double) w[j] * (double) x[j];
		y[i] = (float) sum;
	}
}

typedef struct SwapJob
{
	char	   *y;
	const char *x;
	size_t		y_row;			/* bytes */
	size_t		y_head;
	size_t		x_row;
	size_t		x_head;
	int			heads;
	size_t		width;
} SwapJob;

static void
swap_row(void *arg, int row, int ith)
{
	const SwapJob *j = arg;
	char	   *y = j->y + (size_t) row * j->y_row;
	const char *x = j->x + (size_t) row * j->x_row;

	(void) ith;
	for (int h = 0; h < j->heads; h++, y += j->y_head, x += j->x_head)
		memcpy(y, x, j->width);
}

/* for a few rows it isn't worthwhile to wake the pool */
static void
each_row(KPool *pool, KPoolFn fn, void *job, int rows)
{
	if (rows > 4)
		kpool_run(pool, fn, job, rows);
	else
		for (int i = 0; i < rows; i++)
			fn(job, i, 0);
}

void
misc_swap_heads(KPool *pool, void *y, bool y_op, size_t y_row, size_t y_head, const void *x, bool x_op,
				size_t x_row, size_t x_head, int rows, int heads, int width)
{
	SwapJob		j = {
		y, x, y_row * sizeof(float), y_head * sizeof(float), x_row * sizeof(float), x_head * sizeof(float),
		heads, (size_t) width * sizeof(float)
	};

	/* operands are floats, too */
	(void) y_op;
	(void) x_op;
	each_row(pool, swap_row, &j, rows);
}

void
misc_series(KPool *pool, int32_t *y, int n, int32_t by)
{
	(void) pool;
	for (int i = 0; i < n; i++)
		y[i] = i * by;
}

/* ---- mixtures of experts ---- */

typedef struct MoeJob
{
	const KRoute *route;
	float	   *logits;
	float	   *space;
	int32_t    *experts;
	float	   *route_weights;
	float	   *y;
	const float *x;
	float	   *to;
	const int32_t *place;
	const float *weights;
	const float *gate;
	const float *out_bias;
	bool		shared;
	int			top_k;
	int			hidden;
} MoeJob;

static void
route_row(void *arg, int i, int ith)
{
	const MoeJob *j = arg;
	size_t		experts = (size_t) i * (size_t) j->route->n_experts;
	size_t		chosen = (size_t) i * (size_t) j->route->top_k;

	(void) ith;
	kroute(j->route, j->logits + experts, j->space + experts, j->experts + chosen, j->route_weights + chosen);
}

void
misc_moe_route(KPool *pool, const KRoute *c, float *logits, int rows, float *space, int32_t *experts,
			   float *weights)
{
	MoeJob		j = {.route = c, .logits = logits, .space = space, .experts = experts,
					 .route_weights = weights};

	each_row(pool, route_row, &j, rows);
}

void
misc_moe_slots(KPool *pool, int32_t *experts, int rows, int first, int top_k, const int32_t *slots, int width)
{
	(void) pool;
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < top_k; j++)
		{
			int32_t    *e = &experts[i * top_k + j];
			const int32_t *of = slots + (size_t) *e * (size_t) width;

			/* most experts have only one slot */
			*e = of[1 + (of[0] > 1 ? (first + i) % of[0] : 0)];
		}
}

void
misc_moe_place(KPool *pool, const int32_t *experts, int pairs, int n_experts, int32_t *start, int32_t *place)
{
	(void) pool;
	memset(start, 0, (size_t) (n_experts + 1) * sizeof(int32_t));
	for (int i = 0; i < pairs; i++)
		start[experts[i] + 1]++;
	for (int i = 0; i < n_experts; i++)
		start[i + 1] += start[i];
	for (int i = 0; i < pairs; i++)
		place[i] = start[experts[i]]++;
	/* each start has advanced to the next one's */
	for (int i = n_experts; i > 0; i--)
		start[i] = start[i - 1];
	start[0] = 0;
}

static void
gather_row(void *arg, int i, int ith)
{
	const MoeJob *j = arg;
	size_t		hidden = (size_t) j->hidden;
	const float *h = j->x + (size_t) i * hidden;

	(void) ith;
	for (int e = i * j->top_k; e < (i + 1) * j->top_k; e++)
	{
		float	   *to = j->to + (size_t) j->place[e] * hidden;

		memcpy(to, h, hidden * sizeof(float));
		for (size_t k = 0; j->weights != NULL && k < hidden; k++)
			to[k] *= j->weights[e];
	}
}

void
misc_moe_gather(KPool *pool, float *x, const float *h, int rows, int top_k, const int32_t *place,
				const float *weights, int hidden)
{
	MoeJob		j = {.to = x, .x = h, .top_k = top_k, .place = place, .weights = weights, .hidden = hidden};

	each_row(pool, gather_row, &j, rows);
}

static void
combine_row(void *arg, int i, int ith)
{
	const MoeJob *j = arg;
	size_t		hidden = (size_t) j->hidden;
	float	   *y = j->y + (size_t) i * hidden;
	float		gate = j->shared && j->gate != NULL ? kroute_sigmoid(j->gate[i]) : 1;

	(void) ith;
	for (size_t k = 0; k < hidden; k++)
		y[k] = j->shared ? gate * y[k] : 0;
	for (int e = i * j->top_k; e < (i + 1) * j->top_k; e++)
	{
		float		weight = j->weights != NULL ? j->weights[e] : 1;
		const float *from = j->x + (size_t) j->place[e] * hidden;

		for (size_t k = 0; k < hidden; k++)
			y[k] += weight * from[k];
	}
	for (size_t k = 0; j->out_bias != NULL && k < hidden; k++)
		y[k] += j->out_bias[k];
}

void
misc_moe_combine(KPool *pool, float *y, const float *x, int rows, int top_k, const int32_t *place,
				 const float *weights, const float *gate, bool shared, const float *out_bias, int hidden)
{
	MoeJob		j = {
		.y = y, .x = x, .top_k = top_k, .place = place, .weights = weights, .gate = gate, .shared = shared,
		.out_bias = out_bias, .hidden = hidden
	};

	each_row(pool, combine_row, &j, rows);
}

/* ---- adapters, KV ---- */

void
misc_lora_rows(KPool *pool, KLoraJob *jobs, int n, const int32_t *ids, float *t, int ldt)
{
	(void) pool;
	for (const KLoraJob *j = jobs; j < jobs + n; j++)
		for (int i = 0; i < j->n_rows; i++)
		{
			const KLora *p = j->p;
			int32_t		id = ids[j->rows[i]];
			float	   *to = t + (size_t) j->rows[i] * (size_t) ldt + p->at;

			if (id >= 0 && id < p->k)
				kblock_to_float(p->type,
								(const uint8_t *) p->a + ktype_row_bytes(p->type, p->rank) * (size_t) id,
								p->rank, to);
			else
				memset(to, 0, (size_t) p->rank * sizeof(float));
			for (int r = 0; r < p->rank; r++)
				to[r] *= p->scale;
		}
}

void
misc_kv_copy(KPool *pool, const KvView *kv, const int32_t *from_to, int n)
{
	(void) pool;
	for (int i = 0; i < n; i++)
		memcpy(kv->base + (size_t) from_to[2 * i + 1] * kv->block_stride,
			   kv->base + (size_t) from_to[2 * i] * kv->block_stride, kv->block_stride);
}

static float
largest(const float *x, size_t n, float than)
{
	for (size_t i = 0; i < n; i++)
		than = fabsf(x[i]) > than || isnan(x[i]) ? fabsf(x[i]) : than;
	return than;
}

void
misc_kv_largest(KPool *pool, const KvView *kv, int layer, int n_blocks, float out[2])
{
	size_t		bs = (size_t) kv->block_size;

	(void) pool;
	out[0] = out[1] = 0;
	for (int b = 0; b < n_blocks; b++)
		for (int h = 0; h < kv->n_kv_heads; h++)
		{
			uint8_t    *cell = kv_cell(kv, layer, b, h);
			const float *vs = (const float *) (void *) kv_cell_v(kv, cell);

			out[0] = largest((const float *) (void *) cell, bs * (size_t) kv->head_dim, out[0]);
			for (size_t i = 0; i < bs; i++)
				out[1] = largest(vs + i * (size_t) kv_vdim(kv), (size_t) kv_vwidth(kv), out[1]);
		}
}
