/*
 * test_blaslt.cu
 *	  kernels/cuda/mm/blaslt.cu: which library computes a product of many rows, and with which bits.
 *
 * Under emulation the library is fake_blaslt.cc, whose algorithms add in ways that the test chooses.  On
 * a GPU it is the real one, if it is installed: then it offers its own algorithms, and only the results
 * are compared.
 */
#include "mats.h"
#include "cuda/mm/blaslt.h"
#include "cuda/dev.h"
#include "cuda/cuda_ops.h"

#include <dlfcn.h>
#include <initializer_list>
#include <vector>

enum { UP, DOWN, BY_ROWS, SPLIT, BROKEN };	/* fake_blaslt.cc's Way */

#define MOST	(2 * BLASLT_ROWS)
#define TILE	((size_t) 1 << 20)

static void (*fake_offer) (const int *ways, int n);
static void (*fake_counts) (int *to);
static int	logged;				/* lines of the log */

static void
note(char level, const char *text)
{
	CHECK(level == 'I' && strstr(text, "cuBLASLt") != NULL, "%c: %s", level, text);
	logged++;
}

static void
offer(std::initializer_list<int> ways)
{
	std::vector<int> w(ways);

	if (fake_offer != NULL)
		fake_offer(w.data(), (int) w.size());
}

/* Return the calls of the heuristic. */
static int
calls(void)
{
	int			c[4] = {0, 0, 0, 0};

	if (fake_counts != NULL)
		fake_counts(c);
	return c[1];
}

struct Product
{
	KMat		m;
	KType		as;
	int			ldy;
	void	   *x;
	float	   *bias;
	float	   *y;
	float	   *own;
	std::vector<float> got;
	std::vector<float> want;
};

/* Make a product with floats near 1. */
static void
open_product(Product *p, KType type, KType as, int n, int k)
{
	std::vector<uint8_t> file((size_t) n * ktype_row_bytes(type, k));
	std::vector<uint8_t> packed(cuda_mat_bytes(type, n, k));
	std::vector<uint16_t> x((size_t) MOST * k);
	std::vector<float> bias(n);
	KTensor		t = {};
	KMat		host = {type, n, k, packed.data(), packed.size()};
	auto		number = []() { return ((int) (dice() % 20001) - 10000) / 5000.0f; };

	if (type != KT_BF16 && type != KT_F16)
		for (size_t at = 0; at < file.size(); at += ktype_row_bytes(type, k))
			random_row(type, k, &file[at]);
	else
		for (size_t i = 0; i < file.size(); i += 2)
			kelem_put(type, &file[i], 0, number());
	t.type = type;
	t.ndim = 2;
	t.shape[0] = n;
	t.shape[1] = k;
	t.data = file.data();
	cuda_mat_pack(&host, &t, 0, n);
	for (size_t i = 0; i < x.size(); i++)
		kelem_put(as, (uint8_t *) x.data(), i, number());
	for (auto &b : bias)
		b = number();
	p->as = as;
	p->ldy = n + 4;
	p->m = {type, n, k, dev(packed.data(), packed.size()), packed.size()};
	p->x = dev(x.data(), x.size());
	p->bias = dev(bias.data(), bias.size());
	p->y = dev<float>(NULL, (size_t) MOST * p->ldy);
	p->own = dev<float>(NULL, (size_t) MOST * p->ldy);
}

static void
close_product(Product *p)
{
	cudaFree((void *) p->m.data);
	cudaFree(p->x);
	cudaFree(p->bias);
	cudaFree(p->y);
	cudaFree(p->own);
}

/* Returns whether cuBLASLt computed it. */
static bool
multiply(Blaslt *b, Product *p, int rows, bool captured)
{
	BlasltMm	mm = {&p->m, p->x, p->as, rows, p->m.k, p->y, p->ldy, p->bias, captured};
	size_t		all = (size_t) MOST * p->ldy;
	bool		ok;

	p->got.assign(all, 0);
	p->want.assign(all, 0);
	cudaMemset(p->y, 0, all * 4);
	cudaMemset(p->own, 0, all * 4);
	ok = blaslt_mm(b, &mm, NULL);
	CHECK(cuda_mm(&p->m, p->x, p->as, rows, p->m.k, p->own, p->ldy, p->bias, NULL, NULL), "no own product");
	host(p->got.data(), p->y, all);
	host(p->want.data(), p->own, all);
	return ok;
}

static bool
same(const Product *p)
{
	return memcmp(p->got.data(), p->want.data(), p->got.size() * 4) == 0;
}

/* Is the error at most `most` of the largest value? */
static bool
close_to(const Product *p, float most)
{
	float		largest = 0;

	for (float f : p->want)
		largest = fmaxf(largest, fabsf(f));
	most *= largest;
	for (size_t i = 0; i < p->got.size(); i++)
		if (!(fabsf(p->got[i] - p->want[i]) <= most))
			return false;
	return true;
}

static Blaslt *
start(bool invariant, size_t tile)
{
	char		why[256] = "";
	Blaslt	   *b = blaslt_open(invariant, false, tile, note, why, sizeof(why));

	CHECK(b != NULL, "%s", why);
	return b;
}

/* ---- with batch_invariant ---- */

static void
expect(bool is, bool should, const char *what)
{
	CHECK(fake_offer == NULL || is == should, "%s: it is %s", what, is ? "cuBLASLt's" : "the own kernel's");
}

static void
check_offer(const char *what, std::initializer_list<int> ways, bool taken, KType type, int n, int k,
			size_t tile)
{
	Blaslt	   *b = start(true, tile);
	Product		p;
	bool		is;

	offer(ways);
	open_product(&p, type, type, n, k);
	expect(multiply(b, &p, MOST, true), false, "while it is recorded, with no plan");
	is = multiply(b, &p, MOST, false);
	expect(is, taken, what);
	CHECK(!is || same(&p), "%s: other bits", what);
	for (int rows : {BLASLT_ROWS, BLASLT_ROWS + 77})
		for (bool captured : {false, true})
		{
			int			before = calls();

			is = multiply(b, &p, rows, captured);
			expect(is, taken, what);
			CHECK(!is || same(&p), "%s: other bits with %d rows", what, rows);
			CHECK(calls() == before, "%s: a plan was made again", what);
		}
	CHECK(!multiply(b, &p, BLASLT_ROWS - 1, false), "few rows");
	CHECK(blaslt_counts(b).plans == logged && blaslt_counts(b).plans >= taken, "%d plans, %d lines",
		  blaslt_counts(b).plans, logged);
	logged = 0;
	close_product(&p);
	blaslt_close(b);
}

static void
check_invariant(void)
{
	check_offer("the own kernel's order", {UP}, true, KT_BF16, 72, 40, TILE);
	check_offer("another order", {DOWN}, false, KT_BF16, 72, 40, TILE);
	check_offer("another order for many rows", {BY_ROWS}, false, KT_BF16, 72, 40, TILE);
	check_offer("k in parts", {SPLIT}, false, KT_BF16, 72, 40, TILE);
	check_offer("calls that fail", {BROKEN}, false, KT_BF16, 72, 40, TILE);
	check_offer("nothing", {}, false, KT_BF16, 72, 40, TILE);
	check_offer("the fifth of five", {DOWN, SPLIT, BROKEN, BY_ROWS, UP}, true, KT_F16, 64, 48, TILE);
	/* a complete segment and a part of one; several tiles of outputs, the last one smaller */
	check_offer("two segments", {DOWN, UP}, true, KT_BF16, 24, 1024 + 40, TILE);
	check_offer("two tiles", {UP}, true, KT_BF16, 150, 40, 2 * 64 * 64 * 2);
	check_offer("a tile that is too small", {UP}, false, KT_BF16, 72, 40, 100);
}

/* ---- without ---- */

static void
check_free(void)
{
	Blaslt	   *b = start(false, TILE);
	Product		p;
	int			before = calls();

	offer({SPLIT, UP});
	open_product(&p, KT_BF16, KT_BF16, 72, 104);
	for (int rows : {BLASLT_ROWS, BLASLT_ROWS, BLASLT_ROWS + 1, MOST - 3, MOST})
		for (bool captured : {true, false})
		{
			expect(multiply(b, &p, rows, captured), true, "the first that is offered");
			CHECK(close_to(&p, 1e-5f), "%d rows are wrong", rows);
		}
	CHECK(fake_offer == NULL || (calls() == before + 2 && !same(&p)), "asked %d times for two powers of two",
		  calls() - before);
	CHECK(!multiply(b, &p, BLASLT_ROWS - 1, false), "few rows");
	close_product(&p);
	/* block types: weights are rounded */
	for (KType t : {KT_Q4_0, KT_Q6_K, KT_FP8})
	{
		open_product(&p, t, KT_BF16, 72, 256);
		expect(multiply(b, &p, BLASLT_ROWS_BLOCKS, false), true, ktype_name(t));
		CHECK(close_to(&p, 0.01f) && !same(&p), "%s is wrong", ktype_name(t));
		CHECK(!multiply(b, &p, BLASLT_ROWS_BLOCKS - 1, false), "few rows");
		close_product(&p);
	}
	/* x of another type */
	open_product(&p, KT_F16, KT_BF16, 64, 64);
	CHECK(!multiply(b, &p, MOST, false), "no product of two types");
	close_product(&p);
	offer({BROKEN});
	open_product(&p, KT_BF16, KT_BF16, 64, 64);
	before = calls();
	for (int i = 0; i < 2; i++)
		expect(multiply(b, &p, MOST, false), false, "calls that fail");
	CHECK(fake_offer == NULL || calls() == before + 1, "asked %d times for a call that fails",
		  calls() - before);
	close_product(&p);
	blaslt_close(b);
}

/* ---- through the op table ---- */

static void
check_op(bool invariant)
{
	const KDeviceOps *ops = vllm_pg_device_ops(KDEVICE_ABI);
	const KHost the_host = {KDEVICE_ABI, note, kpool_device, kpool_nthreads};
	const int	n = 64,
				k = 72;
	KDevOpen	o = {MOST, MOST, 16, MOST, invariant, KVARIANT_AUTO, false};
	char		err[256] = "";
	KDevice    *d = ops->open(0, &the_host, &o, err, sizeof(err));
	KPool	   *pool = kpool_new(1);
	const Kernels *t = ops->kernels(d, KT_BF16);
	std::vector<float> x((size_t) BLASLT_ROWS * k),
				all((size_t) BLASLT_ROWS * n),
				few(all.size());
	int			c[4] = {0, 0, 0, 0},
				before = 0;
	Product		p;
	float	   *dx;
	uint16_t   *h;
	void	   *ws;

	kpool_set_device(pool, d);
	offer({invariant ? UP : DOWN});
	open_product(&p, KT_BF16, KT_BF16, n, k);
	for (auto &f : x)
		f = ((int) (dice() % 20001) - 10000) / 5000.0f;
	dx = dev(x.data(), x.size());
	h = dev<uint16_t>(NULL, x.size());
	ws = dev<uint8_t>(NULL, t->mm_scratch(KT_BF16, BLASLT_ROWS, k) + 16);
	t->to_op(pool, (KOp *) h, k, dx, k, BLASLT_ROWS, k);
	if (fake_counts != NULL)
		fake_counts(c);
	before = c[2];
	t->mm(pool, &p.m, (const KOp *) h, BLASLT_ROWS, k, p.y, n, NULL, ws);
	CHECK(ops->wait(d, err, sizeof(err)), "%s", err);
	host(all.data(), p.y, all.size());
	for (int at = 0; at < BLASLT_ROWS; at += BLASLT_ROWS / 2)
		t->mm(pool, &p.m, (const KOp *) (h + (size_t) at * k), BLASLT_ROWS / 2, k, p.y + (size_t) at * n, n,
			  NULL, ws);
	CHECK(ops->wait(d, err, sizeof(err)), "%s", err);
	host(few.data(), p.y, few.size());
	if (fake_counts != NULL)
	{
		fake_counts(c);
		CHECK(c[2] > before, "the op doesn't ask cuBLASLt");
		CHECK((memcmp(all.data(), few.data(), all.size() * 4) == 0) == invariant, "rows %s the batch's size",
			  invariant ? "depend on" : "don't know");
	}
	else if (invariant)
		CHECK(memcmp(all.data(), few.data(), all.size() * 4) == 0, "rows depend on the batch's size");
	logged = 0;
	cudaFree(dx);
	cudaFree(h);
	cudaFree(ws);
	close_product(&p);
	kpool_free(pool);
	ops->close(d);
}

int
main(void)
{
	int			c[4] = {0, 0, 0, 0};

#ifdef __CUDACC__
	char		why[256];
	Blaslt	   *b = blaslt_open(true, false, TILE, note, why, sizeof(why));

	if (b == NULL)
	{
		printf("%s\ntest_emu_blaslt: 0 passed, 0 failed, 1 skipped\n", why);
		return 0;
	}
	blaslt_close(b);
#else
	void	   *fake = dlopen("libcublaslt_emu.so", RTLD_NOW);

	CHECK(fake != NULL, "%s", dlerror());
	if (fake == NULL)
		return check_done("test_emu_blaslt");
	*(void **) &fake_offer = dlsym(fake, "fake_offer");
	*(void **) &fake_counts = dlsym(fake, "fake_counts");
#endif
	RUN(check_invariant());
	RUN(check_free());
	RUN(check_op(true));
	RUN(check_op(false));
	if (fake_counts != NULL)
	{
		fake_counts(c);
		CHECK(c[0] == 0 && c[2] > 0 && c[3] == 0, "%d objects are left, %d products, %d wrong calls", c[0],
			  c[2], c[3]);
	}
	return check_done("test_emu_blaslt");
}
