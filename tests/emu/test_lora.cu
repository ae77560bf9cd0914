/*
 * test_lora.cu
 *	  kernels/cuda/lora.cu under emulation against kernels/ref: adapters of different ranks and types in
 *	  one call, and single rows compared with memcmp.
 */
#include "rows_test.h"

#define JOBS	5
#define ROWS	40
#define CANARY	12345.0f

typedef std::vector<uint8_t> Bytes;

/* Rank, inputs, outputs, type of A and B, type of x. */
typedef struct Shape
{
	int			rank;
	int			k;
	int			n;
	KType		type;
	KType		as;
} Shape;

static const Shape shapes[] = {
	{1, 5, 3, KT_F32, KT_F32},
	{3, 33, 31, KT_F16, KT_F16},
	{8, 64, 64, KT_BF16, KT_BF16},
	{64, 128, 257, KT_F16, KT_BF16},
	{320, 200, 40, KT_BF16, KT_F32},
	{16, 516, 130, KT_F32, KT_BF16},
};

/* rows of each job */
static const int counts[][JOBS] = {
	{1, 0, 0, 0, 0},
	{1, 1, 1, 1, 1},
	{0, 9, 1, 0, 17},
};

static float
some(void)
{
	return (float) ((int) (dice() % 2001) - 1000) / 1000.0f;
}

static Bytes
table(KType type, size_t n)
{
	Bytes		b(n * ktype_row_bytes(type, 1));

	for (size_t i = 0; i < n; i++)
	{
		float		f = some();
		uint16_t	h = type == KT_F16 ? kf32_to_f16(f) : kf32_to_bf16(f);

		if (type == KT_F32)
			memcpy(&b[i * 4], &f, 4);
		else
			memcpy(&b[i * 2], &h, 2);
	}
	return b;
}

/* Adapters, on the host and on the device, and rows of x that an operand represents exactly. */
typedef struct World
{
	KLora		p[JOBS];
	KLora		dp[JOBS];
	std::vector<Bytes> a;
	std::vector<Bytes> b;
	KType		as;
	int			ldx;
	int			ldt;
	int			ldy;
	Floats		x;
	Floats		y;
	int32_t		rows[ROWS];
} World;

static void
make_world(World *w, const Shape *s)
{
	w->as = s->as;
	w->ldx = s->k + (s->k % 4 == 0 ? 4 : 3);
	w->ldt = w->ldy = 1;
	for (int i = 0; i < JOBS; i++)
	{
		int			rank = i % 2 ? s->rank : s->rank + i,
					n = s->n + 5 * i;
		size_t		panels = (size_t) (n + KLORA_PANEL - 1) / KLORA_PANEL;

		w->a.push_back(table(s->type, (size_t) rank * s->k));
		w->b.push_back(table(s->type, panels * rank * KLORA_PANEL));
		w->p[i] = w->dp[i] = {s->type, rank, s->k, n, 1 + i, i * 2, 0.5f + (float) i, w->a[i].data(),
							  w->b[i].data()};
		w->dp[i].a = dev(w->a[i].data(), w->a[i].size());
		w->dp[i].b = dev(w->b[i].data(), w->b[i].size());
		w->ldt = w->ldt < rank + 2 + i ? rank + 2 + i : w->ldt;
		w->ldy = w->ldy < n + 2 * i ? n + 2 * i : w->ldy;
	}
	w->x.resize((size_t) ROWS * w->ldx);
	w->y.resize((size_t) ROWS * w->ldy);
	for (float &v : w->x)
		v = kbf16_to_f32(kf32_to_bf16((float) ((int) (dice() % 255) - 127) / 64.0f));
	for (float &v : w->y)
		v = some();
	for (int i = 0; i < ROWS; i++)
		w->rows[i] = (i * 7 + 3) % ROWS;
}

static void
free_world(World *w)
{
	for (int i = 0; i < JOBS; i++)
	{
		cudaFree((void *) w->dp[i].a);
		cudaFree((void *) w->dp[i].b);
	}
}

static std::vector<KLoraJob>
take_jobs(const World *w, const KLora *p, const int *n_rows)
{
	std::vector<KLoraJob> jobs;
	int			at = 0;

	for (int i = 0; i < JOBS; at += n_rows[i++])
		if (n_rows[i] > 0)
			jobs.push_back({&p[i], w->rows + at, n_rows[i], -1});
	return jobs;
}

/* Run the jobs on the device: t and y. */
static void
on_device(const World *w, const std::vector<KLoraJob> &jobs, Floats *t, Floats *y)
{
	std::vector<uint16_t> half(w->x.size());
	std::vector<uint8_t> stage(cuda_lora_bytes(jobs.data(), (int) jobs.size()));
	DevOf<uint8_t> ds(NULL, stage.size());
	Floats		canary((size_t) ROWS * w->ldt, CANARY);
	Dev			dx(w->x),
				dt(canary),
				dy(w->y);
	DevOf<uint16_t> dh(NULL, half.size());
	CudaLora	l = cuda_lora_stage(stage.data(), ds.p, jobs.data(), (int) jobs.size());
	void	   *x = w->as == KT_F32 ? (void *) dx.p : (void *) dh.p;

	cudaMemcpy(ds.p, stage.data(), stage.size(), cudaMemcpyHostToDevice);
	if (w->as != KT_F32)
		cuda_to_op(x, w->as, w->ldx, dx.p, w->ldx, ROWS, w->ldx, NULL);
	cuda_lora_shrink(&l, x, w->as, w->ldx, dt.p, w->ldt, NULL);
	cuda_lora_expand(&l, dt.p, w->ldt, dy.p, w->ldy, NULL);
	*t = dt.get();
	*y = dy.get();
}

static void
check(const Shape *s, const int *n_rows)
{
	World		w;

	make_world(&w, s);
	std::vector<KLoraJob> jobs = take_jobs(&w, w.p, n_rows),
				device = take_jobs(&w, w.dp, n_rows);
	Floats		t((size_t) ROWS * w.ldt, CANARY),
				y = w.y,
				got_t,
				got_y;

	kernels_ref.lora_shrink(NULL, jobs.data(), (int) jobs.size(), w.x.data(), w.ldx, t.data(), w.ldt);
	kernels_ref.lora_expand(NULL, jobs.data(), (int) jobs.size(), t.data(), w.ldt, y.data(), w.ldy);
	all_orders([&]() {
		on_device(&w, device, &got_t, &got_y);
		/* sums of as many terms as inputs, each about 1 */
		CHECK(near(got_t, t, 1e-6, 2e-6 * sqrt(s->k)), "rank %d, %d inputs: t", s->rank, s->k);
		CHECK(near(got_y, y, 1e-6, 3e-5 * sqrt(s->k * s->rank)), "rank %d, %d inputs: y", s->rank, s->k);
	});
	for (const KLoraJob &j : device)
		for (int i = 0; i < j.n_rows; i += 4)
		{
			std::vector<KLoraJob> alone = {{j.p, j.rows + i, 1, -1}};
			int			row = j.rows[i];
			Floats		t1,
						y1;

			on_device(&w, alone, &t1, &y1);
			CHECK(memcmp(&t1[(size_t) row * w.ldt], &got_t[(size_t) row * w.ldt], w.ldt * sizeof(float)) ==
				  0 && memcmp(&y1[(size_t) row * w.ldy], &got_y[(size_t) row * w.ldy],
							  w.ldy * sizeof(float)) == 0,
				  "rank %d, %d inputs: row %d alone", s->rank, s->k, row);
		}
	free_world(&w);
}

/* Two parts of one adapter: different columns of t and of y for the same rows. */
static void
check_parts(void)
{
	const Shape s = {8, 64, 40, KT_BF16, KT_F32};
	World		w;
	Floats		t,
				y,
				t1,
				y1;

	make_world(&w, &s);
	w.ldt = 40;
	w.ldy = 200;
	w.y.assign((size_t) ROWS * w.ldy, 1.0f);
	w.dp[1].at = 20;
	w.dp[1].col = 90;
	std::vector<KLoraJob> both = {{&w.dp[0], w.rows, 9, -1}, {&w.dp[1], w.rows, 9, -1}};

	all_orders([&]() {
		on_device(&w, both, &t, &y);
		for (int i = 0; i < 2; i++)
		{
			on_device(&w, {both[i]}, &t1, &y1);
			for (int m = 0; m < 9; m++)
				CHECK(memcmp(&t[w.rows[m] * w.ldt + w.dp[i].at], &t1[w.rows[m] * w.ldt + w.dp[i].at],
							 w.dp[i].rank * 4) == 0 &&
					  memcmp(&y[w.rows[m] * w.ldy + w.dp[i].col], &y1[w.rows[m] * w.ldy + w.dp[i].col],
							 w.dp[i].n * 4) == 0,
					  "part %d of row %d", i, m);
		}
	});
	free_world(&w);
}

/* An embedding's rows, and ids that it doesn't have. */
static void
check_rows(KType type)
{
	const int	rank = 37,
				k = 11,
				ldt = 50;
	Bytes		a = table(type, (size_t) k * rank);
	DevOf<uint8_t> da(a);
	KLora		p = {type, rank, k, 64, 5, 0, 0.3f, da.p, NULL};
	const std::vector<int32_t> ids = {3, -1, 10, 11, 0, 7, 1 << 30};
	const int32_t rows[] = {6, 0, 1, 2, 3, 5};
	KLoraJob	j = {&p, rows, 6, -1};

	all_orders([&]() {
		std::vector<uint8_t> stage(cuda_lora_bytes(&j, 1));
		DevOf<uint8_t> ds(NULL, stage.size());
		CudaLora	l = cuda_lora_stage(stage.data(), ds.p, &j, 1);
		DevOf<int32_t> di(ids);
		Dev			dt(Floats(7 * ldt, CANARY));
		Floats		t,
					row(rank);

		cudaMemcpy(ds.p, stage.data(), stage.size(), cudaMemcpyHostToDevice);
		cuda_lora_rows(&l, di.p, dt.p, ldt, NULL);
		t = dt.get();
		for (int i = 0; i < 7; i++)
			for (int c = 0; c < ldt; c++)
			{
				bool		own = i != 4 && c >= 5 && c < 5 + rank;
				float		want = own ? 0 : CANARY;

				if (own && ids[i] >= 0 && ids[i] < k)
				{
					kblock_to_float(type, &a[ktype_row_bytes(type, rank) * ids[i]], rank, row.data());
					want = row[c - 5] * p.scale;
				}
				CHECK(t[i * ldt + c] == want, "row %d column %d of an embedding: %g, not %g", i, c,
					  (double) t[i * ldt + c], (double) want);
			}
	});
}

int
main(void)
{
	for (const Shape &s : shapes)
		for (const int *n_rows : counts)
			check(&s, n_rows);
	RUN(check_parts());
	RUN(check_rows(KT_F32));
	RUN(check_rows(KT_F16));
	RUN(check_rows(KT_BF16));
	return check_done("test_emu_lora");
}
