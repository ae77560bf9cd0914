/*
 * test_table.cu
 *	  The op table of CUDA as the model layer calls it: a pool with a device, arrays on the host where
 *	  kernels.h says so, and kernels/ref for comparison.
 *
 * Other tests cover the results of kernels (test_rows.cu, ...).  This one finds arguments that are
 * passed on wrongly between the two, with a step and without, and with operands of each type.
 */
#include "emu_test.h"
#include "cuda/dev.h"

#include <vector>

extern "C"
{
extern const Kernels kernels_ref;
}

#define ROWS	9
#define DIM		40

static const KHost the_host = {KDEVICE_ABI, NULL, kpool_device, kpool_nthreads};
static const KDeviceOps *ops;
static KDevice *device;
static KPool *pool;
static const Kernels *k;
static KType as;				/* of k's operands */
static const Kernels *ref = &kernels_ref;

static float
rounded(KType to, float v)
{
	return to == KT_BF16 ? kbf16_to_f32(kf32_to_bf16(v)) : to == KT_F16 ? kf16_to_f32(kf32_to_f16(v)) : v;
}

/* The same floats on both sides; o: the device's as operands, which may be floats themselves. */
struct Both
{
	std::vector<float> h;
	float	   *d;
	KOp		   *o;

	Both(size_t n, float scale = 1.0f) : h(n)
	{
		for (auto &v : h)
			v = (float) ((int) (dice() % 2001) - 1000) / 500.0f * scale;
		d = (float *) ops->alloc(device, n * sizeof(float), "test");
		ops->put(device, d, h.data(), n * sizeof(float));
		o = as == KT_F32 ? (KOp *) d : (KOp *) ops->alloc(device, n * (size_t) k->op_size, "test");
	}
	~Both()
	{
		if (as != KT_F32)
			ops->free(device, o);
		ops->free(device, d);
	}
	/* The operand for a product; h is rounded the same way. */
	const KOp *
	op(void)
	{
		k->to_op(pool, o, (int) h.size(), d, (int) h.size(), 1, (int) h.size());
		for (auto &v : h)
			v = rounded(as, v);
		return o;
	}
	/* o must equal h within the rounding; then h and d get the values of o. */
	void
	same_op(const char *name, double bound = 5e-6)
	{
		const KOp  *from = o;

		k->from_op(pool, d, (int) h.size(), from, (int) h.size(), 1, (int) h.size());
		same(name, bound + (as == KT_BF16 ? 4e-3 : as == KT_F16 ? 5e-4 : 0));
		if (as != KT_F32)
			get(h.data());
	}
	void
	get(float *to) const
	{
		void	   *got = ops->pin(device, h.size() * sizeof(float));
		char		err[256] = "";

		ops->get(device, got, d, h.size() * sizeof(float));
		CHECK(ops->wait(device, err, sizeof(err)), "%s", err);
		memcpy(to, got, h.size() * sizeof(float));
		ops->unpin(device, got);
	}
	void
	same(const char *op, double bound = 5e-6) const
	{
		std::vector<float> got(h.size());
		double		worst = 0;

		get(got.data());
		for (size_t i = 0; i < h.size(); i++)
		{
			double		e = fabs((double) got[i] - h[i]) / (fabs((double) h[i]) + 0.1);

			worst = e > worst || e != e ? e : worst;
		}
		CHECK(worst <= bound, "%s, operands of %s: error %g", op, ktype_name(as), worst);
	}
};

static void
check_rows(void)
{
	Both		x(ROWS * DIM),
				y(ROWS * DIM),
				z(ROWS * 2 * DIM),
				w(2 * DIM),
				b(2 * DIM);
	const float p[4] = {0.8f, 0.7f, 0.5f, -1e-6f};
	int32_t		pos[ROWS],
				idx[ROWS],
				keep[] = {1, 2, 4, 5, 8};
	const float *given[ROWS] = {NULL};
	std::vector<float> one(DIM, 0.25f),
				two(DIM, -1.5f);

	for (int i = 0; i < ROWS; i++)
	{
		pos[i] = i * 3;
		idx[i] = i * 2 / 3 + i / 4;
	}
	k->rmsnorm(pool, y.d, x.d, w.d, ROWS, DIM, 1e-5f);
	ref->rmsnorm(NULL, y.h.data(), x.h.data(), w.h.data(), ROWS, DIM, 1e-5f);
	y.same("rmsnorm");
	k->add_rmsnorm(pool, y.o, x.d, z.d, NULL, ROWS, DIM, 1e-5f);
	ref->add_rmsnorm(NULL, y.h.data(), x.h.data(), z.h.data(), NULL, ROWS, DIM, 1e-5f);
	y.same_op("add_rmsnorm");
	x.same("add_rmsnorm");
	k->layernorm(pool, y.d, x.d, w.d, b.d, ROWS, DIM, 1e-5f);
	ref->layernorm(NULL, y.h.data(), x.h.data(), w.h.data(), b.h.data(), ROWS, DIM, 1e-5f);
	y.same("layernorm");
	k->rmsnorm_op(pool, y.o, x.d, w.d, ROWS, DIM, 1e-5f);
	ref->rmsnorm_op(NULL, y.h.data(), x.h.data(), w.h.data(), ROWS, DIM, 1e-5f);
	y.same_op("rmsnorm_op");
	k->layernorm_op(pool, y.o, x.d, w.d, b.d, ROWS, DIM, 1e-5f);
	ref->layernorm_op(NULL, y.h.data(), x.h.data(), w.h.data(), b.h.data(), ROWS, DIM, 1e-5f);
	y.same_op("layernorm_op");
	k->norm_heads(pool, KNORM_RMS, z.d, ROWS, 2 * DIM, 4, 10, w.d, 10, 1e-5f);
	ref->norm_heads(NULL, KNORM_RMS, z.h.data(), ROWS, 2 * DIM, 4, 10, w.h.data(), 10, 1e-5f);
	z.same("norm_heads");
	k->add(pool, x.d, y.d, ROWS, DIM);
	ref->add(NULL, x.h.data(), y.h.data(), ROWS, DIM);
	x.same("add");
	k->scale(pool, x.d, ROWS, DIM, 0.3f);
	ref->scale(NULL, x.h.data(), ROWS, DIM, 0.3f);
	x.same("scale");
	k->softcap(pool, x.d, ROWS, DIM, 2.0f);
	ref->softcap(NULL, x.h.data(), ROWS, DIM, 2.0f);
	x.same("softcap");
	k->act_mul(pool, KACT_SILU, y.o, z.d, ROWS, DIM);
	ref->act_mul(NULL, KACT_SILU, y.h.data(), z.h.data(), ROWS, DIM);
	y.same_op("act_mul");
	k->act(pool, KACT_SIGMOID, y.d, ROWS, DIM);
	ref->act(NULL, KACT_SIGMOID, y.h.data(), ROWS, DIM);
	y.same("act");
	k->act(pool, KACT_TANH, y.d, ROWS, DIM);
	ref->act(NULL, KACT_TANH, y.h.data(), ROWS, DIM);
	y.same("act, tanh");
	k->act_op(pool, KACT_XIELU, p, y.o, x.d, ROWS, DIM);
	ref->act_op(NULL, KACT_XIELU, p, (KOp *) y.h.data(), x.h.data(), ROWS, DIM);
	y.same_op("act_op, xielu");
	k->act_op(pool, KACT_RELU2, NULL, y.o, x.d, ROWS, DIM);
	ref->act_op(NULL, KACT_RELU2, NULL, (KOp *) y.h.data(), x.h.data(), ROWS, DIM);
	y.same_op("act_op");
	k->scale_cols(pool, z.d, ROWS, 2 * DIM, 7, 13, -3.0f);
	ref->scale_cols(NULL, z.h.data(), ROWS, 2 * DIM, 7, 13, -3.0f);
	k->mul_cols(pool, z.d, ROWS, 2 * DIM, w.d, DIM);
	ref->mul_cols(NULL, z.h.data(), ROWS, 2 * DIM, w.h.data(), DIM);
	k->clip(pool, z.d, ROWS, 2 * DIM, DIM, 1.5f);
	ref->clip(NULL, z.h.data(), ROWS, 2 * DIM, DIM, 1.5f);
	k->add_head_bias(pool, z.d, ROWS, 2 * DIM, 4, 10, b.d, 10);
	ref->add_head_bias(NULL, z.h.data(), ROWS, 2 * DIM, 4, 10, b.h.data(), 10);
	k->temper(pool, z.d, ROWS, 2 * DIM, DIM, pos, 0.1f, 4, 2);
	ref->temper(NULL, z.h.data(), ROWS, 2 * DIM, DIM, pos, 0.1f, 4, 2);
	memset(pos, 0xff, sizeof(pos));
	z.same("scale_cols to temper");
	k->copy_rows(pool, z.d + 3, 2 * DIM, x.d, DIM, NULL, ROWS, DIM - 4);
	ref->copy_rows(NULL, z.h.data() + 3, 2 * DIM, x.h.data(), DIM, NULL, ROWS, DIM - 4);
	k->copy_rows(pool, y.d, DIM, x.d, DIM, idx, ROWS, DIM);
	ref->copy_rows(NULL, y.h.data(), DIM, x.h.data(), DIM, idx, ROWS, DIM);
	k->keep_rows(pool, z.d, 4, keep, 5, 2 * DIM);
	ref->keep_rows(NULL, z.h.data(), 4, keep, 5, 2 * DIM);
	given[2] = one.data();
	given[7] = two.data();
	k->put_rows(pool, given, ROWS, DIM, y.d, DIM);
	ref->put_rows(NULL, given, ROWS, DIM, y.h.data(), DIM);
	memset(one.data(), 0xff, DIM * sizeof(float));
	memset(idx, 0xff, sizeof(idx));
	memset(keep, 0xff, sizeof(keep));
	y.same("copy_rows, put_rows");
	z.same("copy_rows, keep_rows");
}

/* Rows of a matrix, heads, and products of rows. */
static void
check_moved(void)
{
	const int	n = 70;
	Both		m((size_t) n * DIM),
				x(ROWS * DIM),
				y(ROWS * DIM),
				z(ROWS * DIM),
				dots(ROWS),
				back(ROWS * DIM);
	std::vector<uint8_t> packed(k->mat_bytes(KT_F32, n, DIM));
	KTensor		src = {};
	KMat		km = {KT_F32, n, DIM, packed.data(), packed.size()},
				rm = {KT_F32, n, DIM, m.h.data(), m.h.size() * sizeof(float)};
	int32_t		ids[ROWS] = {0, 68, -3, 5, 63, 64, 69, 11, 200};
	int32_t		by[ROWS];
	int32_t    *series = (int32_t *) ops->alloc(device, sizeof(by), "test"),
			   *got = (int32_t *) ops->pin(device, sizeof(by));
	char		err[256] = "";

	src.type = KT_F32;
	src.ndim = 2;
	src.shape[0] = n;
	src.shape[1] = DIM;
	src.data = m.h.data();
	k->mat_pack(&km, &src, 0, n);
	km.data = ops->alloc(device, packed.size(), "test");
	ops->put(device, km.data, packed.data(), packed.size());
	k->rows_of(pool, &km, ids, 1, ROWS, y.d, DIM);
	ref->rows_of(NULL, &rm, ids, 1, ROWS, y.h.data(), DIM);
	memset(ids, 0xff, sizeof(ids));
	y.same("rows_of", 0);
	k->rows_of(pool, &km, NULL, 7, ROWS, z.d, DIM);
	ref->rows_of(NULL, &rm, NULL, 7, ROWS, z.h.data(), DIM);
	z.same("rows_of one", 0);
	for (bool silu : {false, true})
	{
		k->mul_rows(pool, y.d, DIM, y.d, DIM, x.d, DIM, ROWS, DIM, silu);
		ref->mul_rows(NULL, y.h.data(), DIM, y.h.data(), DIM, x.h.data(), DIM, ROWS, DIM, silu);
		y.same("mul_rows");
	}
	k->dot_rows(pool, dots.d, x.d, ROWS, DIM, m.d, 0.5f);
	ref->dot_rows(NULL, dots.h.data(), x.h.data(), ROWS, DIM, m.h.data(), 0.5f);
	dots.same("dot_rows", 0);
	{
		const int32_t from[DIM] = {5, -1, 0, DIM - 1, 5};
		int32_t    *on_dev = (int32_t *) ops->alloc(device, sizeof(from), "test");

		ops->put(device, on_dev, from, sizeof(from));
		k->pick_cols(pool, y.d, DIM, x.d, DIM, on_dev, ROWS, DIM);
		ref->pick_cols(NULL, y.h.data(), DIM, x.h.data(), DIM, from, ROWS, DIM);
		ops->free(device, on_dev);
		y.get(z.h.data());
		CHECK(memcmp(z.h.data(), y.h.data(), y.h.size() * sizeof(float)) == 0, "pick_cols");
	}
	k->swap_heads(pool, z.d, false, 10, ROWS * 10, x.d, false, DIM, 10, ROWS, 4, 10);
	ref->swap_heads(NULL, z.h.data(), false, 10, ROWS * 10, x.h.data(), false, DIM, 10, ROWS, 4, 10);
	z.same("swap_heads", 0);
	k->swap_heads(pool, back.o, true, DIM, 10, z.d, false, 10, ROWS * 10, ROWS, 4, 10);
	ref->swap_heads(NULL, back.h.data(), true, DIM, 10, z.h.data(), false, 10, ROWS * 10, ROWS, 4, 10);
	back.same_op("swap_heads back", 0);
	k->swap_heads(pool, y.o, true, 10, ROWS * 10, back.o, true, DIM, 10, ROWS, 4, 10);
	ref->swap_heads(NULL, y.h.data(), true, 10, ROWS * 10, back.h.data(), true, DIM, 10, ROWS, 4, 10);
	k->from_op(pool, y.d, DIM, y.o, DIM, ROWS, DIM);
	y.same("swap_heads of operands", 0);
	k->series(pool, series, ROWS, 5);
	ref->series(NULL, by, ROWS, 5);
	ops->get(device, got, series, sizeof(by));
	CHECK(ops->wait(device, err, sizeof(err)) && memcmp(got, by, sizeof(by)) == 0, "series: %s", err);
	ops->unpin(device, got);
	ops->free(device, series);
	ops->free(device, km.data);
}

/* Two adapters for some rows each, one of them of two parts; then the same as an embedding's. */
static void
check_lora(void)
{
	const int	ldt = 30;
	Both		a(40 * DIM),
				b(3 * 64 * 12),
				x(ROWS * DIM),
				t((size_t) ROWS * ldt),
				y(ROWS * 80);
	int32_t		rows[] = {1, 4, 8, 0, 3},
				ids[ROWS] = {0, 3, -1, 99, 5, 7, 1, 2, 39};
	KLora		p[3] = {{KT_F32, 5, DIM, 33, 0, 0, 0.5f, NULL, NULL},
						{KT_F32, 12, DIM, 40, 6, 34, 2.0f, NULL, NULL},
		{KT_F32, 7, DIM, 64, 3, 2, -1.0f, NULL, NULL}},
				dp[3];
	const int	of[3][2] = {{0, 3}, {0, 3}, {3, 2}};
	KLoraJob	jobs[3],
				dev_jobs[3];

	for (int i = 0; i < 3; i++)
	{
		dp[i] = p[i];
		p[i].a = a.h.data() + 100 * i;
		p[i].b = b.h.data() + 64 * i;
		dp[i].a = a.d + 100 * i;
		dp[i].b = b.d + 64 * i;
		jobs[i] = {&p[i], rows + of[i][0], of[i][1], -1};
		dev_jobs[i] = {&dp[i], rows + of[i][0], of[i][1], -1};
	}
	k->lora_shrink(pool, dev_jobs, 3, x.op(), DIM, t.d, ldt);
	ref->lora_shrink(NULL, jobs, 3, x.h.data(), DIM, t.h.data(), ldt);
	t.same("lora_shrink", 2e-5);
	k->lora_expand(pool, dev_jobs, 3, t.d, ldt, y.d, 80);
	ref->lora_expand(NULL, jobs, 3, t.h.data(), ldt, y.h.data(), 80);
	y.same("lora_expand", 5e-5);
	k->lora_rows(pool, dev_jobs, 3, ids, t.d, ldt);
	ref->lora_rows(NULL, jobs, 3, ids, t.h.data(), ldt);
	memset(ids, 0xff, sizeof(ids));
	memset(rows, 0xff, sizeof(rows));
	t.same("lora_rows", 2e-5);
}

/* Two sequences, of 4 and 5 rows; the second one's last rows also as a part of the step. */
static void
check_seqs(bool step)
{
	const int	width = 4,
				heads = 4,
				state = 8;
	Both		x(ROWS * DIM),
				cs(64 * 10),
				conv(3 * (width - 1) * DIM),
				scan(3 * DIM * state),
				w(width * DIM),
				dt(ROWS * heads),
				bc(ROWS * 2 * state),
				y(ROWS * DIM);
	int32_t		starts[] = {0, 4, ROWS},
				slots[] = {2, 0},
				pos[ROWS];
	KRows		r = {};
	KStep		s = {};
	KState		cst = {conv.h.data(), (size_t) (width - 1) * DIM},
				sst = {scan.h.data(), (size_t) DIM * state},
				dcst = {conv.d, cst.stride},
				dsst = {scan.d, sst.stride};
	KScan		h = {},
				d;
	char		err[256] = "";

	for (int i = 0; i < ROWS; i++)
		pos[i] = i < 4 ? i : 20 + i;
	r.n_rows = ROWS;
	r.n_seqs = 2;
	r.seq_start = starts;
	r.pos = pos;
	r.state_slot = slots;
	s.rows = &r;
	if (step)
		ops->step_begin(device, &s);
	k->rope(pool, x.d, ROWS, DIM, 4, 10, pos, cs.d, 8);
	ref->rope(NULL, x.h.data(), ROWS, DIM, 4, 10, pos, cs.h.data(), 8);
	k->conv(pool, &dcst, &r, x.d, DIM, DIM, width, w.d, NULL, true, y.d, DIM);
	ref->conv(NULL, &cst, &r, x.h.data(), DIM, DIM, width, w.h.data(), NULL, true, y.h.data(), DIM);
	h.heads = heads;
	h.head_dim = DIM / heads;
	h.state = state;
	h.groups = 1;
	h.ldx = DIM;
	h.lddt = heads;
	h.ldbc = 2 * state;
	h.dt_max = 10.0f;
	d = h;
	h.x = y.h.data();
	h.dt = dt.h.data();
	h.b = bc.h.data();
	h.c = bc.h.data() + state;
	h.a = h.d = w.h.data();
	d.x = y.d;
	d.dt = dt.d;
	d.b = bc.d;
	d.c = bc.d + state;
	d.a = d.d = w.d;
	k->scan(pool, &dsst, &r, &d, x.d, DIM);
	ref->scan(NULL, &sst, &r, &h, x.h.data(), DIM);
	memset(pos, 0xff, sizeof(pos));
	memset(slots, 0xff, sizeof(slots));
	if (step)
		CHECK(ops->step_end(device, err, sizeof(err)), "%s", err);
	y.same("rope, conv", 1e-5);
	conv.same("conv's state", 1e-5);
	x.same("scan", 1e-4);
	scan.same("scan's state", 1e-4);
}

/* Products: few rows and many, with uninitialized scratch. */
static void
check_mm(KType type)
{
	const int	n = 70,
				dim = 1056;
	size_t		row = ktype_row_bytes(type, dim);
	std::vector<uint8_t> src(row * n),
				packed(k->mat_bytes(type, n, dim));
	Both		x(ROWS * 4 * dim),
				bias(n),
				y(ROWS * 4 * n);
	KMat		own = {type, n, dim, packed.data(), packed.size()},
				its = own;
	KTensor		t = {};
	void	   *ws = ops->alloc(device, k->mm_scratch(type, ROWS * 4, dim) + 1, "test");
	std::vector<float> w(dim);
	const KOp  *in = x.op();

	for (size_t i = 0; i < src.size(); i++)
		src[i] = type == KT_Q8_0 && i % 34 == 1 ? 0x20 : type == KT_BF16 && i % 2 ? 0x3d | (dice() & 0x80) :
			(uint8_t) dice();
	t.type = type;
	t.ndim = 2;
	t.shape[0] = n;
	t.shape[1] = dim;
	t.data = src.data();
	k->mat_pack(&own, &t, 0, n);
	its.data = ops->alloc(device, packed.size(), "test");
	ops->put(device, its.data, packed.data(), packed.size());
	for (int rows : {2, ROWS * 4})
	{
		for (int j = 0; j < n; j++)
		{
			kblock_to_float(type, src.data() + row * j, dim, w.data());
			for (int i = 0; i < rows; i++)
			{
				double		sum = bias.h[j];

				for (int c = 0; c < dim; c++)
					sum += (double) w[c] * rounded(as == KT_F32 && type == KT_Q8_0 ? KT_BF16 : as,
												   x.h[(size_t) i * dim + c]);
				y.h[(size_t) i * n + j] = (float) sum;
			}
		}
		k->mm(pool, &its, in, rows, dim, y.d, n, bias.d, ws);
		y.same("mm", 1e-4);
	}
	ops->free(device, ws);
	ops->free(device, its.data);
}

/* A matrix, packed for either side. */
struct Matrix
{
	std::vector<float> w;
	std::vector<uint8_t> host,
				packed;
	KMat		h,
				d;

	Matrix(KType type, int n, int kk) : w((size_t) n * kk)
	{
		KTensor		t = {};
		std::vector<uint16_t> half((size_t) n * kk);

		for (size_t i = 0; i < w.size(); i++)
		{
			w[i] = (float) ((int) (dice() % 2001) - 1000) / 4000.0f;
			half[i] = (uint16_t) (bits_of(w[i]) >> 16);
		}
		t.type = type;
		t.ndim = 2;
		t.shape[0] = n;
		t.shape[1] = kk;
		t.data = type == KT_BF16 ? (const void *) half.data() : (const void *) w.data();
		h = KMat{type, n, kk, NULL, ref->mat_bytes(type, n, kk)};
		host.resize(h.nbytes);
		h.data = host.data();
		ref->mat_pack(&h, &t, 0, n);
		d = KMat{type, n, kk, NULL, k->mat_bytes(type, n, kk)};
		packed.resize(d.nbytes);
		d.data = packed.data();
		k->mat_pack(&d, &t, 0, n);
		d.data = ops->alloc(device, d.nbytes, "test");
		ops->put(device, d.data, packed.data(), d.nbytes);
	}
	~Matrix()
	{
		ops->free(device, d.data);
	}
	static unsigned
	bits_of(float v)
	{
		unsigned	u;

		memcpy(&u, &v, sizeof(u));
		return u;
	}
};

static void
check_products(void)
{
	const int	n = 70,
				kk = 96;
	Both		x(ROWS * kk),
				y(ROWS * n),
				bias(n),
				e(ROWS * kk);
	int32_t		ids[ROWS] = {3, 0, 69, -5, 7, 7, 70, 12, 1},
				starts[] = {0, 4, 4, ROWS};
	int32_t    *dstarts = (int32_t *) ops->alloc(device, sizeof(starts), "test");

	for (KType type : {KT_F32, KT_BF16})
	{
		Matrix		a(type, n, kk),
					b(type, n, kk),
					c(type, n, kk);
		KMat		hm[] = {a.h, b.h, c.h},
					dm[] = {a.d, b.d, c.d};
		const float *hb[] = {bias.h.data(), NULL, bias.h.data()},
				   *db[] = {bias.d, NULL, bias.d};
		size_t		size = k->mm_scratch(type, ROWS, kk),
					grouped = k->mm_grouped_scratch(type, 3, ROWS, kk);
		void	   *ws = ops->alloc(device, (size > grouped ? size : grouped) + 64, "test");
		std::vector<uint8_t> hws(ref->mm_scratch(type, ROWS, kk) + ref->mm_grouped_scratch(type, 3, ROWS,
				kk) + 64);
		double		bound = 2e-5;
		const KOp  *in = x.op();

		k->mm(pool, &a.d, in, ROWS, kk, y.d, n, bias.d, ws);
		ref->mm(NULL, &a.h, (KOp *) x.h.data(), ROWS, kk, y.h.data(), n, bias.h.data(), hws.data());
		y.same("mm", bound);
		y.h.assign(y.h.size(), 0.0f);
		ops->fill(device, y.d, 0, y.h.size() * sizeof(float));
		ops->put(device, dstarts, starts, sizeof(starts));
		k->mm_grouped(pool, dm, 3, dstarts, in, kk, y.d, n, db, ws);
		ref->mm_grouped(NULL, hm, 3, starts, (KOp *) x.h.data(), kk, y.h.data(), n, hb, hws.data());
		y.same("mm_grouped", bound);
		k->rows_of(pool, &b.d, ids, 1, ROWS, e.d, kk);
		ref->rows_of(NULL, &b.h, ids, 1, ROWS, e.h.data(), kk);
		e.same("rows_of");
		ops->free(device, ws);
	}
	ops->free(device, dstarts);
}

/* Routed, placed, multiplied in groups without a wait of the host, combined. */
static void
check_mixture(void)
{
	const int	experts = 5,
				top = 2,
				pairs = ROWS * top;
	Both		logits(ROWS * experts),
				space(ROWS * experts),
				weights(pairs),
				h(ROWS * DIM),
				x(pairs * DIM),
				y(pairs * DIM),
				out(ROWS * DIM);
	KRoute		c = {};
	std::vector<int32_t> he(pairs),
				hs(experts + 1),
				hp(pairs),
				table(2 * experts);
	int32_t    *dt = (int32_t *) ops->alloc(device, table.size() * 4, "test"),
			   *de = (int32_t *) ops->alloc(device, pairs * 4, "test"),
			   *ds = (int32_t *) ops->alloc(device, (experts + 1) * 4, "test"),
			   *dp = (int32_t *) ops->alloc(device, pairs * 4, "test");
	KMat		hm[8],
				dm[8];
	Matrix	   *m[8];
	size_t		size = k->mm_grouped_scratch(KT_F32, experts, pairs, DIM);
	void	   *ws = ops->alloc(device, size + 64, "test");
	std::vector<uint8_t> hws(ref->mm_grouped_scratch(KT_F32, experts, pairs, DIM) + 64);

	for (int i = 0; i < experts; i++)
	{
		m[i] = new Matrix(KT_F32, DIM, DIM);
		hm[i] = m[i]->h;
		dm[i] = m[i]->d;
	}
	c.n_experts = experts;
	c.top_k = top;
	c.routing = KROUTE_SOFTMAX;
	c.normalize = true;
	c.scale = 1.0f;
	k->moe_route(pool, &c, logits.d, ROWS, space.d, de, weights.d);
	ref->moe_route(NULL, &c, logits.h.data(), ROWS, space.h.data(), he.data(), weights.h.data());
	weights.same("moe_route");
	/* expert e in slot experts - 1 - e */
	for (int i = 0; i < experts; i++)
	{
		table[2 * i] = 1;
		table[2 * i + 1] = experts - 1 - i;
	}
	ops->put(device, dt, table.data(), table.size() * sizeof(int32_t));
	k->moe_slots(pool, de, ROWS, 3, top, dt, 2);
	ref->moe_slots(NULL, he.data(), ROWS, 3, top, table.data(), 2);
	k->moe_place(pool, de, pairs, experts, ds, dp);
	ref->moe_place(NULL, he.data(), pairs, experts, hs.data(), hp.data());
	k->moe_gather(pool, x.o, h.op(), ROWS, top, dp, NULL, DIM);
	ref->moe_gather(NULL, (KOp *) x.h.data(), (KOp *) h.h.data(), ROWS, top, hp.data(), NULL, DIM);
	x.same_op("moe_place, moe_gather", 0);
	k->mm_grouped(pool, dm, experts, ds, x.o, DIM, y.d, DIM, NULL, ws);
	ref->mm_grouped(NULL, hm, experts, hs.data(), (KOp *) x.h.data(), DIM, y.h.data(), DIM, NULL, hws.data());
	k->moe_combine(pool, out.d, y.d, ROWS, top, dp, weights.d, NULL, true, NULL, DIM);
	ref->moe_combine(NULL, out.h.data(), y.h.data(), ROWS, top, hp.data(), weights.h.data(), NULL, true, NULL,
					 DIM);
	out.same("mm_grouped, moe_combine", 2e-5);
	k->mul_rows(pool, out.d, DIM, x.d, DIM, y.d, DIM, ROWS, DIM, true);
	ref->mul_rows(NULL, out.h.data(), DIM, x.h.data(), DIM, y.h.data(), DIM, ROWS, DIM, true);
	k->swap_heads(pool, y.d, false, DIM, 10, out.d, false, 10, ROWS * 10, ROWS, 4, 10);
	ref->swap_heads(NULL, y.h.data(), false, DIM, 10, out.h.data(), false, 10, ROWS * 10, ROWS, 4, 10);
	k->dot_rows(pool, weights.d, y.d, ROWS, DIM, out.d, 0.5f);
	ref->dot_rows(NULL, weights.h.data(), y.h.data(), ROWS, DIM, out.h.data(), 0.5f);
	y.same("swap_heads", 2e-5);
	weights.same("dot_rows", 2e-4);
	/* groups by a series: 3 rows each */
	k->series(pool, ds, 4, 3);
	ref->series(NULL, hs.data(), 4, 3);
	k->mm_grouped(pool, dm, 3, ds, x.o, DIM, y.d, DIM, NULL, ws);
	ref->mm_grouped(NULL, hm, 3, hs.data(), (KOp *) x.h.data(), DIM, y.h.data(), DIM, NULL, hws.data());
	y.same("series, mm_grouped", 2e-5);
	for (int i = 0; i < experts; i++)
		delete m[i];
	ops->free(device, dt);
	ops->free(device, de);
	ops->free(device, ds);
	ops->free(device, dp);
	ops->free(device, ws);
}

/* K and V are written, copied and attended to: with the step's arrays, and with the op's own. */
static void
check_attention(bool step)
{
	const int	heads = 4,
				kv_heads = 2,
				dim = 16,
				blocks = 6;
	Both		q(ROWS * heads * dim, 0.25f),
				kk(ROWS * kv_heads * dim),
				v(ROWS * kv_heads * dim),
				out(ROWS * heads * dim);
	int32_t		starts[] = {0, 4, ROWS},
				pos[ROWS],
				t0[] = {3},
				t1[] = {1},
				copy[] = {3, 5};
	const int32_t *tables[] = {t0, t1};
	KRows		r = {};
	KStep		s = {};
	KvView		h = {},
				d;
	KAttn		a = {};
	size_t		size;
	std::vector<uint8_t> area,
				hws;
	void	   *ws;
	float		most[2],
				want[2];
	char		err[256] = "";

	for (int i = 0; i < ROWS; i++)
		pos[i] = i < 4 ? i : i - 4;
	h.type = KT_F32;
	h.n_layers = 2;
	h.n_blocks = blocks;
	h.block_size = 16;
	h.n_kv_heads = kv_heads;
	h.head_dim = dim;
	size = kv_layout(&h);
	area.assign(size + 64, 0);
	h.base = area.data() + (64 - (uintptr_t) area.data() % 64) % 64;
	d = h;
	d.base = (uint8_t *) ops->alloc(device, size, "test");
	ops->fill(device, d.base, 0, size);
	hws.resize(ref->attn_scratch(&h, heads, ROWS, 1) + 64);
	ws = ops->alloc(device, k->attn_scratch(&d, heads, ROWS, 1) + 64, "test");
	r.n_rows = ROWS;
	r.n_seqs = 2;
	r.seq_start = starts;
	r.pos = pos;
	r.block_table = tables;
	s.rows = &r;
	s.kv = &d;
	a.scale = 0.25f;
	if (step)
		ops->step_begin(device, &s);
	k->kv_write(pool, &d, 1, &r, kk.d, kv_heads * dim, v.d, kv_heads * dim);
	ref->kv_write(NULL, &h, 1, &r, kk.h.data(), kv_heads * dim, v.h.data(), kv_heads * dim);
	k->attn(pool, &d, 1, &r, q.d, heads * dim, heads, &a, out.o, ws);
	ref->attn(NULL, &h, 1, &r, q.h.data(), heads * dim, heads, &a, (KOp *) out.h.data(), hws.data());
	if (step)
		CHECK(ops->step_end(device, err, sizeof(err)), "%s", err);
	out.same_op("kv_write, attn", 6e-2);
	k->kv_copy(pool, &d, copy, 1);
	t0[0] = 5;
	ref->kv_copy(NULL, &h, copy, 1);
	k->attn(pool, &d, 1, &r, q.d, heads * dim, heads, &a, out.o, ws);
	ref->attn(NULL, &h, 1, &r, q.h.data(), heads * dim, heads, &a, (KOp *) out.h.data(), hws.data());
	out.same_op("kv_copy, attn", 6e-2);
	k->kv_largest(pool, &d, 1, blocks, most);
	ref->kv_largest(NULL, &h, 1, blocks, want);
	CHECK(most[0] == want[0] && most[1] == want[1], "kv_largest: %g, %g", most[0], most[1]);
	ops->free(device, d.base);
	ops->free(device, ws);
}

/* The most likely id among a row's allowed ids; the logits are exactly as wide as needed. */
static void
check_sample(void)
{
	Both		logits(3 * DIM);
	KSample		rows[2] = {};
	KSampled	reported[2];
	void	   *at = ops->alloc(device, sizeof(rows), "rows"),
			   *out = ops->alloc(device, sizeof(reported), "tokens"),
			   *got = ops->pin(device, sizeof(reported));
	char		err[256] = "";

	for (int i = 0; i < 2; i++)
	{
		rows[i].row = 2 - 2 * i;
		rows[i].top_p = rows[i].repetition = 1;
		rows[i].n_logprobs = i - 1;
		rows[i].min_p_log = -INFINITY;
		for (int j = 0; j < DIM; j++)
			logits.h[(size_t) (rows[i].row * DIM + j)] = j == 7 * (i + 1) ? 9.0f : j == DIM - 1 ? 10.0f :
				-1.0f;
	}
	ops->put(device, logits.d, logits.h.data(), logits.h.size() * sizeof(float));
	ops->put(device, at, rows, sizeof(rows));
	k->sample(pool, at, 2, logits.d, DIM, DIM - 1, (KSampled *) out);
	ops->get(device, got, out, sizeof(reported));
	CHECK(ops->wait(device, err, sizeof(err)), "sample: %s", err);
	memcpy((void *) reported, got, sizeof(reported));
	CHECK(reported[0].id == 7 && reported[1].id == 14 && reported[1].rank == 1 && reported[1].n_top == 0,
		  "sample: %d, and %d of rank %d", reported[0].id, reported[1].id, reported[1].rank);
	logits.same("sample", 0);
	ops->unpin(device, got);
	ops->free(device, out);
	ops->free(device, at);
}

#ifndef __CUDACC__

/*
 * A thread whose current device is another one, because it runs steps of several models: its next op
 * comes outside of a step.
 */
static void
check_devices(void)
{
	KDevOpen	o = {1, 1, 1, 1, true, KVARIANT_AUTO, false};
	char		err[256] = "";
	KDevice    *other;
	Both		x(DIM);

	cemu_devices(2);
	other = ops->open(1, &the_host, &o, err, sizeof(err));
	CHECK(other != NULL && ops->wait(other, err, sizeof(err)), "%s", err);
	k->scale(pool, x.d, 1, DIM, 2.0f);
	ref->scale(NULL, x.h.data(), 1, DIM, 2.0f);
	x.same("scale, beside another device", 0);
	ops->close(other);
	cemu_devices(1);
	ops->wait(device, err, sizeof(err));
}

#endif

/* Once in all orders of threads, with operands of floats: kernels have tests of their own. */
static void
check_table(void)
{
	static void (*const checks[]) (void) = {
		check_rows, check_moved, check_lora, check_products, check_mixture, []() { check_attention(false); },
		[]() { check_attention(true); }, []() { check_seqs(false); }, []() { check_seqs(true); }, check_sample
	};

	for (auto check : checks)
		if (as == KT_F32)
			all_orders(check);
		else
			check();
	check_mm(KT_BF16);
	check_mm(KT_Q8_0);
}

int
main(void)
{
	KDevOpen	o = {64, 8, 16, 64, true, KVARIANT_AUTO, false};
	char		err[256] = "";
	KDevInfo	info;

	ops = vllm_pg_device_ops(KDEVICE_ABI);
	device = ops->open(0, &the_host, &o, err, sizeof(err));
	pool = kpool_new(1);
	if (device == NULL)
	{
		fprintf(stderr, "%s\n", err);
		return 1;
	}
	kpool_set_device(pool, device);
	ops->info(0, &info);
	CHECK(ops->kernels(device, KT_Q8_0) == NULL, "there are operands of blocks");
	for (KType type : {KT_F32, KT_F16, KT_BF16})
	{
		bool		has = type != KT_BF16 || info.cc >= 80;

		CHECK((ops->kernels(device, type) != NULL) == (has && info.usable), "usable: %d, %s", info.usable,
			  info.why);
		as = type;
		k = table_of(type, false);
		if (has)
			RUN(check_table());
	}
#ifndef __CUDACC__
	as = KT_F32;
	k = table_of(as, false);
	RUN(check_devices());
#endif
	kpool_free(pool);
	ops->close(device);
	return check_done("test_emu_table");
}
