/*
 * tmpl_ssm.h
 *	  State-space models: the short convolution before the recurrence, and the
 *	  recurrence itself, one position after the other.
 *
 * A chunk of work is one sequence's channels with all its rows: so a row's result depends only on its
 * own sequence, and is computed by the same operations wherever a prompt is split.
 */

#define CONV_BLOCK 64			/* channels of a chunk */
#define SCAN_BLOCK 16			/* heads of a chunk, if they are narrow */

typedef struct ConvJob
{
	const KState *st;
	const KRows *r;
	const float *x;
	int			ldx;
	int			dim;
	int			width;
	const float *w;
	const float *b;
	bool		silu;
	float	   *y;
	int			ldy;
	int			blocks;			/* blocks per sequence */
} ConvJob;

static inline v16
load_some(const float *p, int n)
{
	return n == 16 ? v_load(p) : v_load_n(p, n);
}

static inline void
store_some(float *p, v16 x, int n)
{
	if (n == 16)
		v_store(p, x);
	else
		v_store_n(p, x, n);
}

/* compute n <= 16 channels from c on of one sequence */
static void
conv_columns(const ConvJob *j, int seq, int c, int n)
{
	int			row0 = j->r->seq_start[seq];
	int			rows = j->r->seq_start[seq + 1] - row0;
	int			past = j->width - 1;
	float	   *state = j->st->base + (size_t) j->r->state_slot[seq] * j->st->stride + c;
	const float *x = j->x + (size_t) row0 * j->ldx + c;
	v16			old[KCONV_MAX];

	for (int i = 0; i < past; i++)
		old[i] = j->r->pos[row0] == 0 ? v_zero() : load_some(state + (size_t) i * j->dim, n);
	for (int t = 0; t < rows; t++)
	{
		v16			in = load_some(x + (size_t) t * j->ldx, n);
		v16			acc = j->b != NULL ? load_some(j->b + c, n) : v_zero();

		for (int i = 0; i < past; i++)
			acc = v_fma(old[i], load_some(j->w + (size_t) i * j->dim + c, n), acc);
		acc = v_fma(in, load_some(j->w + (size_t) past * j->dim + c, n), acc);
		store_some(j->y + (size_t) (row0 + t) * j->ldy + c, j->silu ? act_silu(acc) : acc, n);
		for (int i = 0; i + 1 < past; i++)
			old[i] = old[i + 1];
		if (past > 0)
			old[past - 1] = in;
	}
	for (int i = 0; i < past; i++)
		store_some(state + (size_t) i * j->dim, old[i], n);
}

static void
conv_chunk(void *arg, int chunk, int ith)
{
	const ConvJob *j = arg;
	int			c = chunk % j->blocks * CONV_BLOCK;
	int			end = k_min(c + CONV_BLOCK, j->dim);

	(void) ith;
	for (; c < end; c += 16)
		conv_columns(j, chunk / j->blocks, c, k_min(16, end - c));
}

static void
conv(KPool *pool, const KState *st, const KRows *r, const float *x, int ldx, int dim, int width,
	 const float *w, const float *b, bool silu, float *y, int ldy)
{
	ConvJob		j = {
		.st = st,.r = r,.x = x,.ldx = ldx,.dim = dim,.width = width,.w = w,.b = b,.silu = silu,.y = y,
		.ldy = ldy,.blocks = (dim + CONV_BLOCK - 1) / CONV_BLOCK
	};

	kpool_run(pool, conv_chunk, &j, r->n_seqs * j.blocks);
}

/* h = h * decay + b * u; return the sum of h * c.  decay: if `a` isn't NULL e^(a[i] dt) of each
 * element. */
static inline float
scan_step(float *h, const float *b, const float *c, v16 decay, const float *a, v16 dt, v16 u, int state)
{
	v16			sum = v_zero();

	for (int i = 0; i < state; i += 16)
	{
		int			n = k_min(16, state - i);
		v16			v;

		if (a != NULL)
			decay = v_exp(v_mul(dt, load_some(a + i, n)));
		v = v_fma(load_some(h + i, n), decay, v_mul(load_some(b + i, n), u));
		store_some(h + i, v, n);
		/* after the state's end both are zero */
		sum = v_fma(v, load_some(c + i, n), sum);
	}
	return v_sum(sum);
}

typedef struct ScanJob
{
	const KState *st;
	const KRows *r;
	const KScan *s;
	float	   *y;
	int			ldy;
	int			block;			/* heads of a chunk */
	int			blocks;			/* blocks per sequence */
} ScanJob;

static void
scan_row(const KScan *s, int row, int head, float *state, float *y)
{
	size_t		g = (size_t) (head / (s->heads / s->groups)) * (size_t) s->state;
	const float *b = s->b + (size_t) row * s->ldbc + g;
	const float *c = s->c + (size_t) row * s->ldbc + g;
	const float *x = s->x + (size_t) row * s->ldx + (size_t) head * s->head_dim;
	const float *z = s->z != NULL ? s->z + (size_t) row * s->ldz + (size_t) head * s->head_dim : NULL;
	const float *a = s->a_wide ? s->a + (size_t) head * s->state : NULL;
	float		dt = k_ssm_dt(s, s->dt[(size_t) row * s->lddt + head], head);
	v16			decay = a == NULL ? v_exp(v_set1(dt * s->a[head])) : v_zero();

	for (int p = 0; p < s->head_dim; p++)
	{
		float		o = scan_step(state + (size_t) p * s->state, b, c, decay, a, v_set1(dt),
								  v_set1(dt * x[p]), s->state);

		o += s->d[head] * x[p];
		y[p] = z != NULL ? o * k_silu(z[p]) : o;
	}
}

static void
scan_chunk(void *arg, int chunk, int ith)
{
	const ScanJob *j = arg;
	const KScan *s = j->s;
	int			seq = chunk / j->blocks;
	int			head = chunk % j->blocks * j->block;
	int			end = k_min(head + j->block, s->heads);
	size_t		size = (size_t) s->head_dim * (size_t) s->state;
	int			row0 = j->r->seq_start[seq];

	(void) ith;
	for (; head < end; head++)
	{
		float	   *state = j->st->base + (size_t) j->r->state_slot[seq] * j->st->stride +
			(size_t) head * size;

		if (j->r->pos[row0] == 0)
			memset(state, 0, size * sizeof(float));
		for (int row = row0; row < j->r->seq_start[seq + 1]; row++)
			scan_row(s, row, head, state, j->y + (size_t) row * j->ldy + (size_t) head * s->head_dim);
	}
}

static void
scan(KPool *pool, const KState *st, const KRows *r, const KScan *s, float *y, int ldy)
{
	ScanJob		j = {.st = st,.r = r,.s = s,.y = y,.ldy = ldy,.block = s->head_dim < 16 ? SCAN_BLOCK : 1};

	j.blocks = (s->heads + j.block - 1) / j.block;
	kpool_run(pool, scan_chunk, &j, r->n_seqs * j.blocks);
}
