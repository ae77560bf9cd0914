/*
 * invariance.cu
 *	  Row invariance through the op table: a row alone has the bits that it has in any batch.
 *
 * Row-wise ops for 1 .. MOST rows, compared row by row with memcmp with what the whole batch gave.  MOST
 * is 256 on a GPU; under emulation, where this shows that the program works, few.
 */
#include "../emu/emu_test.h"
#include "cuda/dev.h"

#include <functional>
#include <vector>

#ifdef __CUDACC__
#define MOST	256
#define DIMS	{4096, 1000}
#else
#define MOST	6
#define DIMS	{64, 50}
#endif

static const KHost the_host = {KDEVICE_ABI, NULL, kpool_device, kpool_nthreads};
static const KDeviceOps *ops;
static KDevice *device;
static KPool *pool;

/* op(y, x, rows): rows of dim floats from x, which has in_dim of them a row */
static void
check_op(const char *name, int in_dim, int dim, const std::function<void (float *, float *, int)> &op)
{
	std::vector<float> x((size_t) MOST * in_dim);
	size_t		in = x.size() * sizeof(float),
				out = (size_t) MOST * dim * sizeof(float);
	float	   *dx = (float *) ops->alloc(device, in, "test"),
			   *dy = (float *) ops->alloc(device, out, "test"),
			   *all = (float *) ops->pin(device, out),
			   *some = (float *) ops->pin(device, out);
	char		err[256] = "";
	int			differ = 0;

	for (auto &v : x)
		v = (float) ((int) (dice() % 2001) - 1000) / 400.0f;
	for (int m = MOST; m >= 1; m--)
	{
		/* the last m rows: no row stays where it was */
		const float *from = x.data() + (size_t) (MOST - m) * in_dim;

		ops->put(device, dx, from, (size_t) m * in_dim * sizeof(float));
		op(dy, dx, m);
		ops->get(device, m == MOST ? all : some, dy, (size_t) m * dim * sizeof(float));
		CHECK(ops->wait(device, err, sizeof(err)), "%s, %d rows: %s", name, m, err);
		differ += m < MOST && memcmp(some, all + (size_t) (MOST - m) * dim, (size_t) m * dim * sizeof(float)) != 0;
	}
	CHECK(differ == 0, "%s, %d columns: %d of %d batches differ", name, dim, differ, MOST - 1);
	ops->free(device, dx);
	ops->free(device, dy);
	ops->unpin(device, all);
	ops->unpin(device, some);
}

static void
check_dim(const Kernels *k, int dim)
{
	std::vector<float> h(2 * dim);
	float	   *w = (float *) ops->alloc(device, 2 * dim * sizeof(float), "test");

	for (auto &v : h)
		v = (float) (dice() % 1000) / 500.0f;
	ops->put(device, w, h.data(), 2 * dim * sizeof(float));
	check_op("rmsnorm", dim, dim, [&](float *y, float *x, int n) { k->rmsnorm(pool, y, x, w, n, dim, 1e-5f); });
	check_op("layernorm", dim, dim, [&](float *y, float *x, int n) { k->layernorm(pool, y, x, w, w + dim, n, dim, 1e-5f); });
	check_op("norm_heads", dim, dim, [&](float *y, float *x, int n) {
		k->copy_rows(pool, y, dim, x, dim, NULL, n, dim);
		k->norm_heads(pool, KNORM_LAYER, y, n, dim, 2, dim / 2, w, 0, 1e-5f);
	});
	check_op("act_mul", 2 * dim, dim, [&](float *y, float *x, int n) { k->act_mul(pool, KACT_SILU, (KOp *) y, x, n, dim); });
	check_op("softcap", dim, dim, [&](float *y, float *x, int n) {
		k->copy_rows(pool, y, dim, x, dim, NULL, n, dim);
		k->softcap(pool, y, n, dim, 30.0f);
	});
	ops->free(device, w);
}

int
main(void)
{
	KDevOpen	o = {MOST, MOST, 16, MOST, true};
	char		err[256] = "";

	ops = vllm_pg_device_ops(KDEVICE_ABI);
	device = ops->open(0, &the_host, &o, err, sizeof(err));
	pool = kpool_new(1);
	CHECK(device != NULL && pool != NULL, "%s", err);
	if (device == NULL || pool == NULL)
		return check_done("gpu_invariance");
	kpool_set_device(pool, device);
	for (int dim : DIMS)
		check_dim(table_of(KT_F32), dim);
	kpool_free(pool);
	ops->close(device);
	return check_done("gpu_invariance");
}
