/*
 * misc.c
 *	  Ops that are the same code for all CPUs (misc.h).
 *
 * Plain loops in the order of columns, which the compiler makes vectors of; functions of libm where
 * there are few numbers.  A row is one chunk of the pool; a handful of rows isn't worth waking it.
 */
#include "cpu/misc.h"

/* What most of them need. */
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
	int			pieces;			/* of a row */
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

#define ACT_PIECE 512			/* columns that a thread takes at once */

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
	run(pool, head_bias_row, &(MiscJob) {.y = x, .ldy = ldx, .x = b, .ld = ldb, .heads = heads, .n = dim}, rows);
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
misc_temper(KPool *pool, float *q, int rows, int ldq, int n, const int32_t *pos, float scale, int every, int first)
{
	run(pool, temper_row, &(MiscJob) {.y = q, .ldy = ldq, .n = n, .ids = pos, .by = scale, .every = every, .first = first},
		rows);
}

/* ---- rows from here to there ---- */

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
misc_rows_of(KPool *pool, void (*mat_row) (const KMat *m, int j, float *out), const KMat *m, const int32_t *ids,
			 int first, int rows, float *y, int ldy)
{
	run(pool, table_row, &(MiscJob) {.y = y, .ldy = ldy, .m = m, .ids = ids, .first = first, .mat_row = mat_row}, rows);
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
misc_keep_rows(KPool *pool, void *x, int elem_size, const int32_t *idx, int n, int width)
{
	size_t		bytes = (size_t) width * (size_t) elem_size;

	(void) pool;
	for (int i = 0; i < n; i++)
		if (idx[i] != i)
			memcpy((char *) x + (size_t) i * bytes, (char *) x + (size_t) idx[i] * bytes, bytes);
}
