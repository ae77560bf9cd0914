/*
 * test_misc.c
 *	  Ops that move and touch up rows, of one implementation, for conform.
 *
 * Each over all rows against the reference; then any rows of them alone, on some threads, must give the
 * same bits, and a NaN or Inf must not leave its row.
 */
#include "tests/kernels/conform.h"

#define ROWS	41
#define MOST	200				/* columns */

static const int dims[] = {1, 7, 16, 64, 100, 200};
#define NDIMS	(int) (sizeof(dims) / sizeof(dims[0]))

/* the op over rows row0 .. row0 + rows - 1 of x, to y */
typedef void (*Op) (const Kernels *k, KPool *pool, float *y, const float *x, int row0, int rows, int dim);

static float weights[MOST];
static int32_t positions[ROWS];
static float positions_f[ROWS];	/* numbers of any kind, one a row */
static KAct act;

static void
op_scale_cols(const Kernels *k, KPool *pool, float *y, const float *x, int row0, int rows, int dim)
{
	(void) row0;
	memcpy(y, x, (size_t) rows * dim * 4);
	k->scale_cols(pool, y, rows, dim, dim / 3, dim - dim / 3, 1.7f);
}

static void
op_mul_cols(const Kernels *k, KPool *pool, float *y, const float *x, int row0, int rows, int dim)
{
	(void) row0;
	memcpy(y, x, (size_t) rows * dim * 4);
	k->mul_cols(pool, y, rows, dim, weights, dim - dim / 4);
}

static void
op_clip(const Kernels *k, KPool *pool, float *y, const float *x, int row0, int rows, int dim)
{
	(void) row0;
	memcpy(y, x, (size_t) rows * dim * 4);
	k->clip(pool, y, rows, dim, dim, 1.5f);
}

/* heads of a third of the columns, with a bias each or one for all */
static void
op_head_bias(const Kernels *k, KPool *pool, float *y, const float *x, int row0, int rows, int dim)
{
	int			width = dim < 3 ? dim : dim / 3;

	memcpy(y, x, (size_t) rows * dim * 4);
	k->add_head_bias(pool, y, rows, dim, dim / width, width, weights, row0 < 0 ? 0 : width);
}

static void
op_head_bias_shared(const Kernels *k, KPool *pool, float *y, const float *x, int row0, int rows, int dim)
{
	(void) row0;
	op_head_bias(k, pool, y, x, -1, rows, dim);
}

static void
op_temper(const Kernels *k, KPool *pool, float *y, const float *x, int row0, int rows, int dim)
{
	memcpy(y, x, (size_t) rows * dim * 4);
	k->temper(pool, y, rows, dim, dim, positions + row0, 0.1f, 8192, 1);
}

static void
op_act(const Kernels *k, KPool *pool, float *y, const float *x, int row0, int rows, int dim)
{
	static const float p[4] = {0.8f, 0.9f, 0.5f, -1e-6f};

	(void) row0;
	k->act_op(pool, act, act == KACT_XIELU ? p : NULL, y, x, rows, dim);
}

static void
op_copy(const Kernels *k, KPool *pool, float *y, const float *x, int row0, int rows, int dim)
{
	(void) row0;
	k->copy_rows(pool, y, dim, x, dim, NULL, rows, dim);
}

/* x's rows times themselves, with a silu or without */
static void
op_mul_rows(const Kernels *k, KPool *pool, float *y, const float *x, int row0, int rows, int dim)
{
	(void) row0;
	k->mul_rows(pool, y, dim, x, dim, x, dim, rows, dim, false);
}

static void
op_gate(const Kernels *k, KPool *pool, float *y, const float *x, int row0, int rows, int dim)
{
	(void) row0;
	memcpy(y, x, (size_t) rows * dim * 4);
	k->mul_rows(pool, y, dim, y, dim, x, dim, rows, dim, true);
}

/* the sum, in all columns */
static void
op_dot(const Kernels *k, KPool *pool, float *y, const float *x, int row0, int rows, int dim)
{
	float		sums[ROWS];

	(void) row0;
	k->dot_rows(pool, sums, x, rows, dim, weights, 0.25f);
	for (int i = 0; i < rows * dim; i++)
		y[i] = sums[i / dim];
}

/* a mixture of 12 experts, of which 3 compute a row, as if each gave back what it got */
static void
op_moe(const Kernels *k, KPool *pool, float *y, const float *x, int row0, int rows, int dim)
{
	enum
	{
		EXPERTS = 12, TOP = 3, SLOTS = 24, WIDTH = 4
	};
	KRoute		c = {.n_experts = EXPERTS, .top_k = TOP, .routing = KROUTE_SOFTMAX, .normalize = true,
					 .scale = 2.0f};
	float	   *logits = xalloc(ROWS * EXPERTS * 4),
			   *space = xalloc(ROWS * EXPERTS * 4),
			   *w = xalloc(ROWS * TOP * 4),
			   *pairs = xalloc((size_t) ROWS * TOP * dim * 4);
	int32_t    *experts = xalloc(ROWS * TOP * 4),
			   *place = xalloc(ROWS * TOP * 4),
			   *was = xalloc(ROWS * TOP * 4),
				slots[EXPERTS * WIDTH],
				start[SLOTS + 1];
	bool		on_input = dim % 2 == 0;

	for (int i = 0; i < rows; i++)
		for (int e = 0; e < EXPERTS; e++)
			logits[i * EXPERTS + e] = (float) ((row0 + i) * (e + 1) % 7);
	k->moe_route(pool, &c, logits, rows, space, experts, w);
	/* expert e has 1 + e % 3 of as many numbers, all in all 24 */
	for (int e = 0, n = 0; e < EXPERTS; e++)
	{
		slots[e * WIDTH] = 1 + e % 3;
		for (int i = 0; i < 1 + e % 3; i++)
			slots[e * WIDTH + 1 + i] = n++;
	}
	for (int i = 0; i < rows * TOP; i++)
		was[i] = experts[i];
	k->moe_slots(pool, experts, rows, row0, TOP, slots, WIDTH);
	for (int i = 0; i < rows * TOP; i++)
		EXPECT(experts[i] == slots[was[i] * WIDTH + 1 + (row0 + i / TOP) % (1 + was[i] % 3)],
			   "%s moe_slots: expert %d of row %d is in slot %d", k->name, was[i], row0 + i / TOP,
			   experts[i]);
	k->moe_place(pool, experts, rows * TOP, SLOTS, start, place);
	EXPECT(start[0] == 0 && start[SLOTS] == rows * TOP, "%s moe_place: %d to %d", k->name, start[0],
		   start[SLOTS]);
	for (int i = 0; i < rows * TOP; i++)
		EXPECT(place[i] >= start[experts[i]] && place[i] < start[experts[i] + 1],
			   "%s moe_place: pair %d at %d", k->name, i, place[i]);
	k->moe_gather(pool, pairs, x, rows, TOP, place, on_input ? w : NULL, dim);
	memcpy(y, x, (size_t) rows * dim * 4);
	k->moe_combine(pool, y, pairs, rows, TOP, place, on_input ? NULL : w, dim % 3 == 0 ? NULL : positions_f +
				   row0, dim != 7, dim > 64 ? weights : NULL, dim);
	free(logits);
	free(space);
	free(w);
	free(pairs);
	free(was);
	free(experts);
	free(place);
}

/* to operands and back: floats are all kept */
static void
op_operands(const Kernels *k, KPool *pool, float *y, const float *x, int row0, int rows, int dim)
{
	KOp		   *op = xalloc((size_t) rows * (dim + 3) * (size_t) k->op_size);

	(void) row0;
	k->to_op(pool, op, dim + 3, x, dim, rows, dim);
	k->from_op(pool, y, dim, op, dim + 3, rows, dim);
	free(op);
}

/* bound 0: ref's bits */
static void
check_op(const Impl *im, const char *name, Op op, double bound)
{
	for (int d = 0; d < NDIMS; d++)
	{
		int			dim = dims[d];
		size_t		n = (size_t) ROWS * dim;
		float	   *x = xalloc(n * 4),
				   *want = xalloc(n * 4),
				   *all = xalloc(n * 4),
				   *y = xalloc(n * 4);
		int			wrong = 0;

		rnd_seed(d + 177);
		rnd_fill(x, n, 3.0f);
		op(ref, pools[1], want, x, 0, ROWS, dim);
		op(im->k, pools[3], all, x, 0, ROWS, dim);
		if (bound == 0)
			EXPECT(memcmp(want, all, n * 4) == 0, "%s %s %d: not ref's bits", im->k->name, name, dim);
		else
			EXPECT(nmse(want, all, n) <= bound, "%s %s %d: nmse %g", im->k->name, name, dim,
				   nmse(want, all, n));
		for (int rows = 1; rows <= ROWS; rows++)
		{
			int			row0 = rnd_int(ROWS - rows + 1);

			op(im->k, pools[1 + rows % 3], y, x + (size_t) row0 * dim, row0, rows, dim);
			EXPECT(memcmp(y, all + (size_t) row0 * dim, (size_t) rows * dim * 4) == 0,
				   "%s %s %d: %d rows from %d", im->k->name, name, dim, rows, row0);
		}
		x[(size_t) 3 * dim + dim / 2] = NAN;
		x[(size_t) 9 * dim + dim - 1] = INFINITY;
		op(im->k, pools[2], y, x, 0, ROWS, dim);
		for (int i = 0; i < ROWS; i++)
			wrong += i != 3 && i != 9 && memcmp(y + (size_t) i * dim, all + (size_t) i * dim, dim * 4) != 0;
		EXPECT(wrong == 0, "%s %s %d: a bad value reached %d other rows", im->k->name, name, dim, wrong);
		EXPECT(isnan(y[(size_t) 3 * dim + dim / 2]), "%s %s %d: NaN lost", im->k->name, name, dim);
		free(x);
		free(want);
		free(all);
		free(y);
	}
}

/* Rows of matrices of all types: those of mat_row, zeros for ids out of range. */
static void
check_rows_of(const Impl *im, KType type)
{
	enum
	{
		N = 64, K = 256, LD = K + 16
	};
	static const int32_t ids[] = {5, -1, 63, 0, 64, 5, INT32_MAX, 7};
	uint8_t    *rows = xalloc(ktype_row_bytes(type, K) * N);
	KTensor		t = {.type = type, .ndim = 2, .shape = {N, K}, .data = rows,
					 .nbytes = ktype_row_bytes(type, K) * N};
	KMat		m = {.type = type, .n = N, .k = K, .nbytes = im->k->mat_bytes(type, N, K)};
	float	   *y = xalloc(8 * LD * 4),
				want[K];

	if (m.nbytes == 0)
	{
		free(rows);
		free(y);
		return;
	}
	for (int i = 0; i < N; i++)
		rnd_row(type, K, rows + ktype_row_bytes(type, K) * (size_t) i);
	m.data = xalloc(m.nbytes);
	im->k->mat_pack(&m, &t, 0, N);
	for (int first = 0; first < 3; first++)
	{
		rnd_fill(y, 8 * LD, 1.0f);
		y[K] = 17.0f;
		im->k->rows_of(pools[1 + first], &m, first == 2 ? NULL : ids, first, 8, y, LD);
		for (int i = 0; i < 8; i++)
		{
			int64_t		id = (int64_t) (first == 2 ? 0 : ids[i]) + first;

			memset(want, 0, sizeof(want));
			if (id >= 0 && id < N)
				im->k->mat_row(&m, (int) id, want);
			EXPECT(memcmp(y + (size_t) i * LD, want, sizeof(want)) == 0, "%s rows_of %s: row %d + %d",
				   im->k->name, ktype_name(type), (int) id - first, first);
		}
		EXPECT(y[K] == 17.0f, "%s rows_of %s: wrote behind a row", im->k->name, ktype_name(type));
	}
	free(rows);
	free(m.data);
	free(y);
}

/* copy_rows between strides and by number, keep_rows in place, put_rows over some, pick_cols */
static void
check_moves(const Impl *im)
{
	static const int32_t idx[] = {0, 1, 4, 7, 8, 15};
	static const int32_t any[] = {9, 0, 9, 3, 15, 1};
	enum
	{
		N = 16, W = 37, LD = 50
	};
	float	   *x = xalloc(N * LD * 4),
			   *y = xalloc(N * LD * 4);
	const float *given[6] = {NULL, x + LD, NULL, NULL, x, x + 5 * LD};
	int			wrong = 0;

	rnd_fill(x, N * LD, 1.0f);
	im->k->copy_rows(pools[2], y, W + 3, x, LD, any, 6, W);
	for (int i = 0; i < 6; i++)
		wrong += memcmp(y + (size_t) i * (W + 3), x + (size_t) any[i] * LD, W * 4) != 0 ||
			y[(size_t) i * (W + 3) + W] != 0;
	EXPECT(wrong == 0, "%s copy_rows by number", im->k->name);
	im->k->put_rows(pools[2], given, 6, W, y, W + 3);
	for (int i = 0; i < 6; i++)
		wrong += memcmp(y + (size_t) i * (W + 3), given[i] != NULL ? given[i] : x + (size_t) any[i] * LD,
						W * 4) != 0;
	EXPECT(wrong == 0, "%s put_rows", im->k->name);
	for (int size = 2; size <= 4; size += 2)
	{
		memcpy(y, x, N * LD * 4);
		im->k->keep_rows(pools[2], y, size, idx, 6, LD);
		for (int i = 0; i < 6; i++)
			wrong += memcmp((char *) y + (size_t) i * LD * size, (char *) x + (size_t) idx[i] * LD * size,
							(size_t) LD * size) != 0;
		EXPECT(wrong == 0, "%s keep_rows of %d bytes an element", im->k->name, size);
	}
	{
		static const int32_t from[] = {3, -1, 0, 36, 3, -1, 7};
		float		want[7];

		im->k->pick_cols(pools[2], y, 9, x, LD, from, N, 7);
		for (int i = 0; i < N; i++)
		{
			for (int j = 0; j < 7; j++)
				want[j] = from[j] < 0 ? K_NO_COLUMN : x[i * LD + from[j]];
			wrong += memcmp(y + (size_t) i * 9, want, sizeof(want)) != 0;
		}
		EXPECT(wrong == 0, "%s pick_cols", im->k->name);
	}
	free(x);
	free(y);
}

/* From rows of heads to heads of rows and back; numbers in a series. */
static void
check_heads(const Impl *im)
{
	enum
	{
		N = 13, HEADS = 5, W = 6, LD = HEADS * W + 4
	};
	float	   *x = xalloc(N * LD * 4),
			   *y = xalloc(N * HEADS * W * 4),
			   *back = xalloc(N * LD * 4);
	int			wrong = 0;
	int32_t		n[4];

	rnd_fill(x, N * LD, 1.0f);
	for (int rows = 1; rows <= N; rows += 3)
	{
		im->k->swap_heads(pools[2], y, false, W, (size_t) rows * W, x, false, LD, W, rows, HEADS, W);
		im->k->swap_heads(pools[2], back, false, LD, W, y, false, W, (size_t) rows * W, rows, HEADS, W);
		for (int i = 0; i < rows; i++)
			for (int j = 0; j < HEADS * W; j++)
				wrong += y[(j / W * rows + i) * W + j % W] != x[i * LD + j] ||
					back[i * LD + j] != x[i * LD + j];
	}
	EXPECT(wrong == 0, "%s swap_heads: %d wrong", im->k->name, wrong);
	im->k->series(pools[2], n, 4, 7);
	EXPECT(n[0] == 0 && n[1] == 7 && n[3] == 21, "%s series", im->k->name);
	free(x);
	free(y);
	free(back);
}

/* Rows of an embedding's adapter; a page copied; the largest K and V. */
static void
check_tables(const Impl *im)
{
	static const int32_t ids[4] = {2, -1, 0, 9};
	static const int32_t rows[3] = {0, 1, 3};
	static const int32_t pages[4] = {1, 0, 0, 2};
	float		a[3][2] = {{1, 2}, {3, 4}, {5, 6}};
	KLora		p = {.type = KT_F32, .rank = 2, .k = 3, .n = 1, .at = 1, .scale = 0.5f, .a = a};
	KLoraJob	job = {.p = &p, .rows = rows, .n_rows = 3};
	float		t[4][4];
	KvView		kv = {.type = KT_F32, .n_layers = 2, .n_blocks = 3, .block_size = 16, .n_kv_heads = 2,
					  .head_dim = 8, .v_dim = 20};
	size_t		size = kv_layout(&kv);
	float		most[2];

	for (int i = 0; i < 16; i++)
		t[i / 4][i % 4] = 7;
	im->k->lora_rows(pools[1], &job, 1, ids, t[0], 4);
	EXPECT(t[0][0] == 7 && t[0][1] == 2.5f && t[0][2] == 3 && t[0][3] == 7 && t[1][1] == 0 && t[1][2] == 0 &&
		   t[2][1] == 7 && t[3][1] == 0, "%s lora_rows", im->k->name);
	kv.base = xalloc(size);
	rnd_fill((float *) kv.base, size / 4, 1.0f);
	im->k->kv_copy(pools[2], &kv, pages, 2);
	EXPECT(memcmp(kv.base, kv.base + kv.block_stride, kv.block_stride) == 0 &&
		   memcmp(kv.base, kv.base + 2 * kv.block_stride, kv.block_stride) == 0, "%s kv_copy", im->k->name);
	/* what stands in V's padding isn't looked at */
	memset(kv.base, 0, size);
	*(float *) (void *) (kv_cell(&kv, 1, 2, 1) + 4 * 100) = -3;
	*(float *) (void *) (kv_cell_v(&kv, kv_cell(&kv, 1, 0, 0)) + 4 * 19) = 2;
	*(float *) (void *) (kv_cell_v(&kv, kv_cell(&kv, 1, 0, 0)) + 4 * 20) = NAN;
	im->k->kv_largest(pools[2], &kv, 1, 3, most);
	EXPECT(most[0] == 3 && most[1] == 2, "%s kv_largest: %g %g", im->k->name, (double) most[0],
		   (double) most[1]);
	*(float *) (void *) (kv_cell_v(&kv, kv_cell(&kv, 1, 0, 0)) + 4 * 18) = NAN;
	im->k->kv_largest(pools[2], &kv, 1, 2, most);
	EXPECT(most[0] == 0 && isnan(most[1]), "%s kv_largest loses a NaN", im->k->name);
	free(kv.base);
}

/* the norms for products are the others' */
static void
check_norms(const Impl *im)
{
	enum
	{
		N = 9, W = 100
	};
	float		x[N * W],
				y[N * W],
				same[N * W];
	KOp		   *op = xalloc(N * W * (size_t) im->k->op_size);

	rnd_fill(x, N * W, 2.0f);
	im->k->rmsnorm_op(pools[2], op, x, weights, N, W, 1e-5f);
	im->k->from_op(pools[2], y, W, op, W, N, W);
	im->k->rmsnorm(pools[1], same, x, weights, N, W, 1e-5f);
	EXPECT(memcmp(y, same, sizeof(y)) == 0, "%s rmsnorm_op isn't rmsnorm", im->k->name);
	im->k->layernorm_op(pools[2], op, x, weights, NULL, N, W, 1e-5f);
	im->k->from_op(pools[2], y, W, op, W, N, W);
	im->k->layernorm(pools[1], same, x, weights, NULL, N, W, 1e-5f);
	EXPECT(memcmp(y, same, sizeof(y)) == 0, "%s layernorm_op isn't layernorm", im->k->name);
	free(op);
}

/* values that can be worked out by hand */
static void
check_values(const Impl *im)
{
	float		q[4] = {1, 1, 1, 1};
	int32_t		pos[4] = {0, 8190, 8191, 16384};
	float		x[4] = {-9, NAN, 0.5f, INFINITY};

	im->k->temper(pools[1], q, 4, 1, 1, pos, 0.1f, 8192, 1);
	EXPECT(q[0] == 1 && q[1] == 1 && fabs(q[2] - (1 + 0.1 * log(2))) < 1e-6 &&
		   fabs(q[3] - (1 + 0.1 * log(3))) < 1e-6, "%s temper: %g %g %g %g", im->k->name, (double) q[0],
		   (double) q[1], (double) q[2], (double) q[3]);
	im->k->clip(pools[1], x, 1, 4, 4, 2.0f);
	EXPECT(x[0] == -2 && isnan(x[1]) && x[2] == 0.5f && x[3] == 2, "%s clip", im->k->name);
}

void
test_misc(const Impl *im)
{
	rnd_seed(5);
	rnd_fill(weights, MOST, 1.0f);
	for (int i = 0; i < ROWS; i++)
	{
		positions[i] = i * 1000;
		positions_f[i] = rnd_float(2.0f);
	}
	check_op(im, "scale_cols", op_scale_cols, 0);
	check_op(im, "mul_cols", op_mul_cols, 0);
	check_op(im, "clip", op_clip, 0);
	check_op(im, "add_head_bias", op_head_bias, 0);
	check_op(im, "add_head_bias of all", op_head_bias_shared, 0);
	check_op(im, "temper", op_temper, 1e-13);
	check_op(im, "copy_rows", op_copy, 0);
	check_op(im, "to_op and from_op", op_operands, 0);
	check_op(im, "mul_rows", op_mul_rows, 0);
	check_op(im, "mul_rows with silu", op_gate, 1e-12);
	check_op(im, "dot_rows", op_dot, 0);
	check_op(im, "mixture", op_moe, 1e-12);
	for (act = (KAct) 0; act <= KACT_XIELU; act++)
		check_op(im, "act_op", op_act, 1e-12);
	for (int t = 0; t < KT_COUNT; t++)
		if (im->k->mat_bytes((KType) t, 64, 512) != 0)
			check_rows_of(im, (KType) t);
	check_moves(im);
	check_heads(im);
	check_tables(im);
	check_norms(im);
	check_values(im);
}
