/*
 * invariance.cu
 *	  Row invariance through the op table: a row alone has the bits that it has in any batch.
 *
 * Row-wise ops, products with matrices of every type, grouped products and attention, each for 1 .. MOST
 * rows, compared row by row with memcmp with what the whole batch gave.  A batch is the last rows of the
 * whole, so that no row stays where it was.  MOST is 256 on a GPU; under emulation, where this shows that the
 * program works, there are few sizes: on both sides of where kernels change (8, 32).
 *
 * Rows of DIMS are longer than what a warp has four columns each of (260), and a block (1100): shorter ones
 * have the same bits however many threads share a row, as sums with zeros are exact.
 */
#include "../emu/mats.h"
#include "cuda/dev.h"

#include <functional>
#include <vector>

#ifdef __CUDACC__
#define MOST	256
#define DIMS	{4096, 1000, 260}
static const struct { int n, k; } mats[] = {{1100, 2560}, {4096, 1024}};
#define CONTEXT	1300			/* keys: more than two splits */
#define HEAD	128
#else
#define MOST	40
#define DIMS	{1100, 260, 50}
static const struct { int n, k; } mats[] = {{70, 256}};
#define CONTEXT	530
#define HEAD	64
#endif

static const KHost the_host = {KDEVICE_ABI, NULL, kpool_device, kpool_nthreads};
static const KDeviceOps *ops;
static KDevice *device;
static KPool *pool;

static float
number(void)
{
	return (float) ((int) (dice() % 2001) - 1000) / 400.0f;
}

/* the next smaller batch */
static int
fewer(int m)
{
#ifdef __CUDACC__
	return m - 1;
#else
	return m > 33 ? 33 : m > 32 ? 32 : m > 9 ? 9 : m > 8 ? 8 : m > 1 ? 1 : 0;
#endif
}

static void *
room(size_t size)
{
	return ops->alloc(device, size, "test");
}

/* op(y, x, rows): rows of `size` bytes from the last rows of all, which have in_dim floats each */
static void
check_op(const char *name, int in_dim, size_t size, const std::function<void (void *, float *, int)> &op)
{
	std::vector<float> x((size_t) MOST * in_dim);
	size_t		in = x.size() * sizeof(float),
				out = MOST * size;
	float	   *dx = (float *) room(in);
	void	   *dy = room(out);
	char	   *all = (char *) ops->pin(device, out),
			   *some = (char *) ops->pin(device, out);
	char		err[256] = "";
	int			differ = 0,
				n = 0;

	for (auto &v : x)
		v = number();
	for (int m = MOST; m >= 1; m = fewer(m), n++)
	{
		const float *from = x.data() + (size_t) (MOST - m) * in_dim;

		ops->put(device, dx, from, (size_t) m * in_dim * sizeof(float));
		ops->fill(device, dy, 0xff, out);
		op(dy, dx, m);
		ops->get(device, m == MOST ? all : some, dy, m * size);
		CHECK(ops->wait(device, err, sizeof(err)), "%s, %d rows: %s", name, m, err);
		differ += m < MOST && memcmp(some, all + (size_t) (MOST - m) * size, m * size) != 0;
	}
	CHECK(differ == 0, "%s, rows of %d: %d of %d batches differ", name, in_dim, differ, n - 1);
	ops->free(device, dx);
	ops->free(device, dy);
	ops->unpin(device, all);
	ops->unpin(device, some);
}

static void
check_dim(const Kernels *k, int dim)
{
	std::vector<float> h(2 * dim);
	float	   *w = (float *) room(2 * dim * sizeof(float));
	size_t		floats = dim * sizeof(float),
				operands = (size_t) dim * k->op_size;
	int32_t		pos[MOST];

	for (auto &v : h)
		v = (float) (dice() % 1000) / 500.0f;
	for (int i = 0; i < MOST; i++)
		pos[i] = 37 * i;
	ops->put(device, w, h.data(), 2 * dim * sizeof(float));
	check_op("rmsnorm", dim, floats,
			 [&](void *y, float *x, int n) { k->rmsnorm(pool, (float *) y, x, w, n, dim, 1e-5f); });
	check_op("layernorm", dim, floats, [&](void *y, float *x, int n) {
		k->layernorm(pool, (float *) y, x, w, w + dim, n, dim, 1e-5f);
	});
	check_op("rmsnorm_op", dim, operands,
			 [&](void *y, float *x, int n) { k->rmsnorm_op(pool, (KOp *) y, x, w, n, dim, 1e-5f); });
	check_op("layernorm_op", dim, operands, [&](void *y, float *x, int n) {
		k->layernorm_op(pool, (KOp *) y, x, w, w + dim, n, dim, 1e-5f);
	});
	check_op("to_op", dim, operands,
			 [&](void *y, float *x, int n) { k->to_op(pool, (KOp *) y, dim, x, dim, n, dim); });
	check_op("norm_heads", dim, floats, [&](void *y, float *x, int n) {
		k->copy_rows(pool, (float *) y, dim, x, dim, NULL, n, dim);
		k->norm_heads(pool, KNORM_LAYER, (float *) y, n, dim, 2, dim / 2, w, 0, 1e-5f);
	});
	check_op("act_mul", 2 * dim, operands,
			 [&](void *y, float *x, int n) { k->act_mul(pool, KACT_SILU, (KOp *) y, x, n, dim); });
	check_op("softcap", dim, floats, [&](void *y, float *x, int n) {
		k->copy_rows(pool, (float *) y, dim, x, dim, NULL, n, dim);
		k->softcap(pool, (float *) y, n, dim, 30.0f);
	});
	check_op("temper", dim, floats, [&](void *y, float *x, int n) {
		k->copy_rows(pool, (float *) y, dim, x, dim, NULL, n, dim);
		k->temper(pool, (float *) y, n, dim, dim, pos + MOST - n, 0.1f, 64, 0);
	});
	check_op("dot_rows", dim, sizeof(float),
			 [&](void *y, float *x, int n) { k->dot_rows(pool, (float *) y, x, n, dim, w, 0.5f); });
	ops->free(device, w);
}

/* ---- products ---- */

/* n_mats of them, one behind the other */
static uint8_t *
pack(const Kernels *k, KType t, int n, int dim, int n_mats, std::vector<KMat> *mats_of)
{
	size_t		row = ktype_row_bytes(t, dim),
				bytes = k->mat_bytes(t, n, dim);
	std::vector<uint8_t> file(row * n),
				packed(bytes * n_mats);
	uint8_t    *d = (uint8_t *) room(packed.size());
	KTensor		src = {};

	src.type = t;
	src.ndim = 2;
	src.shape[0] = n;
	src.shape[1] = dim;
	src.data = file.data();
	for (int i = 0; i < n_mats; i++)
	{
		KMat		m = {t, n, dim, packed.data() + bytes * i, bytes};

		for (int j = 0; j < n; j++)
			random_row(t, dim, &file[row * j]);
		k->mat_pack(&m, &src, 0, n);
		m.data = d + bytes * i;
		mats_of->push_back(m);
	}
	ops->put(device, d, packed.data(), packed.size());
	return d;
}

static void
check_mm(const Kernels *k, KType t, int n, int dim)
{
	std::vector<KMat> m;
	char		name[64];
	uint8_t    *w = pack(k, t, n, dim, 1, &m);
	KOp		   *x_op = (KOp *) room((size_t) MOST * dim * k->op_size);
	float	   *bias = (float *) room(n * sizeof(float));
	std::vector<float> h(n, 0.75f);
	void	   *ws = room(k->mm_scratch(t, MOST, dim) + 1);

	ops->put(device, bias, h.data(), n * sizeof(float));
	snprintf(name, sizeof(name), "mm of %s", ktype_name(t));
	check_op(name, dim, n * sizeof(float), [&](void *y, float *x, int rows) {
		k->to_op(pool, x_op, dim, x, dim, rows, dim);
		k->mm(pool, &m[0], x_op, rows, dim, (float *) y, n, bias, ws);
	});
	ops->free(device, w);
	ops->free(device, x_op);
	ops->free(device, bias);
	ops->free(device, ws);
}

#define GROUPS	5

/* row i of all has matrix i * GROUPS / MOST, but the second, which has none */
static void
check_grouped(const Kernels *k, KType t, int n, int dim)
{
	std::vector<KMat> m;
	char		name[64];
	uint8_t    *w = pack(k, t, n, dim, GROUPS, &m);
	KOp		   *x_op = (KOp *) room((size_t) MOST * dim * k->op_size);
	int32_t    *start = (int32_t *) room((GROUPS + 1) * sizeof(int32_t));
	void	   *ws = room(k->mm_grouped_scratch(t, GROUPS, MOST, dim) + 1);

	snprintf(name, sizeof(name), "mm_grouped of %s", ktype_name(t));
	check_op(name, dim, n * sizeof(float), [&](void *y, float *x, int rows) {
		int32_t		at[GROUPS + 1];

		for (int g = 0; g <= GROUPS; g++)
		{
			int			first = (g == 2 ? 1 : g) * MOST / GROUPS - (MOST - rows);

			at[g] = g == GROUPS ? rows : first < 0 ? 0 : first;
		}
		ops->put(device, start, at, sizeof(at));
		k->to_op(pool, x_op, dim, x, dim, rows, dim);
		k->mm_grouped(pool, m.data(), GROUPS, start, x_op, dim, (float *) y, n, NULL, ws);
	});
	ops->free(device, w);
	ops->free(device, x_op);
	ops->free(device, start);
	ops->free(device, ws);
}

/* ---- attention ---- */

#define BLOCK	16
#define KV_HEADS	2
#define HEADS	8

/* sequences of different lengths, the last one CONTEXT, in blocks that descend */
struct Keys
{
	KvView		kv;
	std::vector<std::vector<int32_t>> tables;
	std::vector<int> lens;

	Keys(KType type, int seqs) : kv{}
	{
		int			blocks = 0,
					next = 0;

		for (int s = 0; s < seqs; s++)
		{
#ifdef __CUDACC__
			lens.push_back(s + 1 == seqs ? CONTEXT : 1 + (int) (dice() % CONTEXT));
#else
			lens.push_back(s + 1 == seqs ? CONTEXT : 1 + (int) (dice() % 40));
#endif
			blocks += (lens.back() + BLOCK - 1) / BLOCK;
		}
		kv.type = type;
		kv.n_layers = 1;
		kv.n_blocks = blocks + 1;
		kv.block_size = BLOCK;
		kv.n_kv_heads = KV_HEADS;
		kv.head_dim = HEAD;
		kv.base = (uint8_t *) room(kv_layout(&kv));
		ops->fill(device, kv.base, 0xff, kv_layout(&kv));
		for (int len : lens)
		{
			tables.emplace_back();
			for (int b = 0; b < len; b += BLOCK)
				tables.back().push_back(blocks - next++);
		}
	}
};

/* rows from .. from + n - 1 of a sequence, or with n = 0 the last row of each from sequence `from` on */
struct Some
{
	std::vector<int32_t> start,
				pos;
	std::vector<const int32_t *> tables;
	KRows		r;

	Some(const Keys &k, int seq, int from, int n) : r{}
	{
		for (size_t s = seq; s < k.lens.size() && (n == 0 || s == (size_t) seq); s++)
		{
			start.push_back((int) pos.size());
			tables.push_back(k.tables[s].data());
			for (int i = 0; i < (n == 0 ? 1 : n); i++)
				pos.push_back(n == 0 ? k.lens[s] - 1 : from + i);
		}
		start.push_back((int) pos.size());
		r.n_rows = (int) pos.size();
		r.n_seqs = (int) tables.size();
		r.pos = pos.data();
		r.seq_start = start.data();
		r.block_table = tables.data();
	}
};

static void
check_attn(const Kernels *k, KType type)
{
	Keys		keys(type, MOST);
	const int	q_dim = HEADS * HEAD,
				kv_dim = KV_HEADS * HEAD;
	KAttn		a = {};
	char		name[64],
				err[256] = "";
	std::vector<float> h((size_t) CONTEXT * 2 * kv_dim);
	float	   *d = (float *) room(h.size() * sizeof(float));
	void	   *ws = room(k->attn_scratch(&keys.kv, HEADS, MOST, 1) + 1);

	a.scale = 0.1f;
	for (size_t s = 0; s < keys.lens.size(); s++)
		for (int at = 0; at < keys.lens[s]; at += MOST)
		{
			int			n = keys.lens[s] - at < MOST ? keys.lens[s] - at : MOST;
			Some		rows(keys, (int) s, at, n);

			for (size_t i = 0; i < (size_t) n * 2 * kv_dim; i++)
				h[i] = number();
			ops->put(device, d, h.data(), (size_t) n * 2 * kv_dim * sizeof(float));
			k->kv_write(pool, &keys.kv, 0, &rows.r, d, 2 * kv_dim, d + kv_dim, 2 * kv_dim);
			CHECK(ops->wait(device, err, sizeof(err)), "kv_write: %s", err);
		}
	snprintf(name, sizeof(name), "attn, one row a sequence, %s", ktype_name(type));
	check_op(name, q_dim, (size_t) q_dim * k->op_size, [&](void *y, float *x, int n) {
		Some		rows(keys, MOST - n, 0, 0);

		k->attn(pool, &keys.kv, 0, &rows.r, x, q_dim, HEADS, &a, (KOp *) y, ws);
	});
	snprintf(name, sizeof(name), "attn, rows of a sequence, %s", ktype_name(type));
	check_op(name, q_dim, (size_t) q_dim * k->op_size, [&](void *y, float *x, int n) {
		Some		rows(keys, MOST - 1, CONTEXT - n, n);

		k->attn(pool, &keys.kv, 0, &rows.r, x, q_dim, HEADS, &a, (KOp *) y, ws);
	});
	ops->free(device, keys.kv.base);
	ops->free(device, d);
	ops->free(device, ws);
}

static void
check_table(const Kernels *k)
{
	for (int dim : DIMS)
		check_dim(k, dim);
	for (auto &m : mats)
		for (int t = 0; t < KT_COUNT; t++)
			if (k->mat_bytes((KType) t, m.n, m.k) > 0)
				check_mm(k, (KType) t, m.n, m.k);
	for (KType t : {KT_BF16, KT_MXFP4, KT_Q8_0})
		check_grouped(k, t, mats[0].n, mats[0].k);
	for (KType t : {KT_BF16, KT_F8_E4M3, KT_INT8})
		check_attn(k, t);
}

/* by the kernels of a variant, with each type of operands */
static void
check_variant(KVariant v)
{
	const KDevOpen o = {MOST, MOST, CONTEXT / BLOCK + 2, MOST, true, v, false};
	char		err[256] = "";

	device = ops->open(0, &the_host, &o, err, sizeof(err));
	CHECK(device != NULL, "%s", err);
	if (device == NULL)
		return;
	kpool_set_device(pool, device);
	for (KType t : {KT_F32, KT_BF16, KT_F16})
		if (ops->kernels(device, t) != NULL)
			check_table(ops->kernels(device, t));
	ops->close(device);
}

int
main(void)
{
	KDevInfo	info;

	ops = vllm_pg_device_ops(KDEVICE_ABI);
	pool = kpool_new(1);
	CHECK(pool != NULL && ops->info(0, &info), "no device, or no memory");
	if (check_failed > 0)
		return check_done("gpu_invariance");
	check_variant(KVARIANT_MMA);
	if (info.features & DEV_WGMMA)
		check_variant(KVARIANT_WGMMA);
	kpool_free(pool);
	return check_done("gpu_invariance");
}
