/*
 * test_gpu_memory_plan.c
 *	  The division of a device's memory, on a simulated device: all allocations are added up by hand.
 */
#include "runtime/gpu_memory_plan.h"

#include <string.h>

#include "tests/unit/check.h"

#define MB	(UINT64_C(1) << 20)
#define GB	(UINT64_C(1) << 30)

/* A device with a limit, and the allocations of stages. */
typedef struct Fake
{
	uint64_t	total,
				used;
	uint64_t	piece;			/* the largest allocation that succeeds; 0 = all free memory */
	uint64_t	weights,
				work,
				step;
	int			order;			/* stages so far */
	int			requested;		/* for the KV cache */
	bool		broken;			/* the step fails for another reason */
	uint64_t	returned;		/* freed by another process during the step */
} Fake;

static char area;

static bool
take(Fake *f, uint64_t n, const char *what, Err *e)
{
	if (n > f->total - f->used)
		return err_set(e, ERR_NOMEM, "out of memory: %s", what);
	f->used += n;
	return true;
}

static void
fake_mem(void *ctx, uint64_t *free_bytes, uint64_t *total)
{
	const Fake *f = ctx;

	*free_bytes = f->total - f->used;
	*total = f->total;
}

static bool
run_weights(void *ctx, Err *e)
{
	Fake	   *f = ctx;

	CHECK(f->order++ == 0, "weights come first");
	return take(f, f->weights, "weights", e);
}

static bool
run_work(void *ctx, Err *e)
{
	Fake	   *f = ctx;

	CHECK(f->order++ == 1, "then the work space");
	return take(f, f->work, "work space", e);
}

static bool
run_step(void *ctx, Err *e)
{
	Fake	   *f = ctx;

	CHECK(f->order++ == 2, "then the step");
	f->used -= f->returned;
	if (f->broken)
		return err_set(e, ERR_INTERNAL, "the step failed");
	return take(f, f->step, "a step", e);
}

static void *
alloc_kv(void *ctx, uint64_t n)
{
	Fake	   *f = ctx;

	f->requested++;
	if (n > f->total - f->used || (f->piece > 0 && n > f->piece))
		return NULL;
	f->used += n;
	return &area;
}

static const GpuStage stages[] = {
	{"weights", run_weights}, {"work space", run_work}, {"a step of the greatest size", run_step}
};

static GpuLoad
load_of(Fake *f)
{
	return (GpuLoad) {.device = "cuda:0", .ctx = f, .mem = fake_mem, .stages = stages, .n_stages = 3,
					  .alloc_kv = alloc_kv};
}

static Fake
fake(void)
{
	return (Fake) {.total = 80 * GB, .used = 2 * GB, .weights = 15 * GB, .work = 512 * MB, .step = 100 * MB};
}

static bool
has(const char *text, const char *part)
{
	return strstr(text, part) != NULL;
}

/* measures from the first stage on */
static bool
measure(const GpuLoad *l, GpuMem *m, Err *e)
{
	memset(m, 0, sizeof(*m));
	return gpumem_measure(l, m, e);
}

static void
test_utilization(void)
{
	static const double parts[] = {0.3, 0.5, 0.9, 1.0};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
	{
		Fake		f = fake();
		GpuLoad		l = load_of(&f);
		GpuRequest	a = {.utilization = parts[i], .block_bytes = 3 * MB};
		GpuMem		m;
		Err			e;
		uint64_t	most = (uint64_t) ((double) f.total * parts[i]);
		uint64_t	kv = most - (2 * GB + 15 * GB + 612 * MB);

		CHECK(measure(&l, &m, &e), "measured");
		CHECK(m.total == 80 * GB && m.before == 2 * GB && m.n == 3, "%llu before",
			  (unsigned long long) m.before);
		CHECK(m.taken[0] == 15 * GB && m.taken[1] == 512 * MB && m.taken[2] == 100 * MB,
			  "what each stage took");
		CHECK(gpumem_take(&l, &m, &a, &e), "at %g", parts[i]);
		CHECK(m.kv == kv / (3 * MB) * (3 * MB), "at %g: %llu", parts[i], (unsigned long long) m.kv);
		CHECK(m.kv_area == &area && f.requested == 1, "taken once");
		CHECK(f.used <= most && most - f.used < 3 * MB, "the device is filled so far and no further");
	}
}

/* Stages may be measured one by one: the sums are the same. */
static void
test_one_by_one(void)
{
	Fake		f = fake();
	GpuLoad		l = load_of(&f);
	GpuRequest	a = {.utilization = 0.2, .block_bytes = MB};
	GpuMem		m = {0};
	Err			e = {0};

	l.n_stages = 1;
	for (int i = 0; i < 3; i++, l.stages++)
		CHECK(gpumem_measure(&l, &m, &e), "stage %d", i);
	CHECK(m.n == 3 && m.before == 2 * GB && m.taken[2] == 100 * MB, "%llu before",
		  (unsigned long long) m.before);
	CHECK(!gpumem_take(&l, &m, &a, &e) && has(e.detail, "weights") && has(e.detail, "work space"),
		  "all have their names: %s", e.detail);
}

/* A second model gets what the first one has left of the same share. */
static void
test_second(void)
{
	Fake		f = fake();
	GpuLoad		l = load_of(&f);
	GpuRequest	a = {.utilization = 0.9, .kv_bytes = 20 * GB + 5, .block_bytes = 2 * MB};
	GpuMem		m;
	Err			e;

	CHECK(measure(&l, &m, &e) && gpumem_take(&l, &m, &a, &e), "the first");
	CHECK(m.kv == 20 * GB, "what is asked for, in whole blocks: %llu", (unsigned long long) m.kv);
	f.order = 0;
	a.kv_bytes = 0;
	CHECK(measure(&l, &m, &e) && gpumem_take(&l, &m, &a, &e), "the second");
	CHECK(m.before == 2 * GB + 15 * GB + 612 * MB + 20 * GB, "it counts what the first has");
	CHECK(f.used <= 72 * GB && 72 * GB - f.used < 2 * MB, "%llu in use", (unsigned long long) f.used);
}

/* Ranks on one device each get the same. */
static void
test_sharers(void)
{
	Fake		f = fake();
	GpuLoad		l = load_of(&f);
	GpuRequest	a = {.utilization = 0.9, .block_bytes = 2 * MB, .sharers = 3};
	GpuMem		m;
	uint64_t	kv;
	uint64_t	all;
	Err			e;

	CHECK(measure(&l, &m, &e) && gpumem_budget(&l, &m, &a, &kv, &e), "a part");
	a.sharers = 1;
	CHECK(gpumem_budget(&l, &m, &a, &all, &e) && 3 * kv <= all && all - 3 * kv < 8 * MB, "%llu of %llu",
		  (unsigned long long) kv, (unsigned long long) all);
	a.apart = 100 * MB;
	CHECK(gpumem_budget(&l, &m, &a, &kv, &e) && kv == all - 100 * MB,
		  "what goes along with K and V: %llu of %llu", (unsigned long long) kv, (unsigned long long) all);
	a.apart = 0;
	a.sharers = 3;
	a.kv_bytes = 4 * GB;
	CHECK(gpumem_budget(&l, &m, &a, &kv, &e) && kv == 4 * GB, "what is asked for is each one's");

	/* two more ranks follow with the same need: 72 GB less 2 GB of others, less three times what one has */
	a = (GpuRequest) {.utilization = 0.9, .block_bytes = 2 * MB, .later = 2};
	CHECK(gpumem_budget(&l, &m, &a, &kv, &e) && 3 * kv <= 70 * GB - 3 * (15 * GB + 612 * MB) &&
		  70 * GB - 3 * (15 * GB + 612 * MB) - 3 * kv < 8 * MB, "%llu", (unsigned long long) kv);
	a.later = 4;
	CHECK(!gpumem_budget(&l, &m, &a, &kv, &e) && e.cls == ERR_NOMEM, "no room for five");
}

static void
test_too_little(void)
{
	Fake		f = fake();
	GpuLoad		l = load_of(&f);
	GpuRequest	a = {.utilization = 0.2, .block_bytes = MB};
	GpuMem		m;
	Err			e = {0};

	CHECK(measure(&l, &m, &e) && !gpumem_take(&l, &m, &a, &e), "16 GB are less than what is in use");
	CHECK(e.cls == ERR_NOMEM && strcmp(err_sqlstate(e.cls), "53200") == 0, "53200");
	CHECK(has(e.msg, "cuda:0") && has(e.hint, "vllm.gpu_memory_utilization"), "%s %s", e.msg, e.hint);
	CHECK(has(e.detail, "80.00 GB") && has(e.detail, "16.00 GB may be used") &&
		  has(e.detail, "before: 2.00 GB") &&
		  has(e.detail, "weights: 15.00 GB; work space: 512.0 MB; a step of the greatest size: 100.0 MB."),
		  "%s", e.detail);
	CHECK(f.requested == 0, "nothing was tried");

	/* to the byte: one block fits, and one byte less doesn't */
	f = fake();
	f.used = 80 * GB - (15 * GB + 612 * MB) - MB;
	a.utilization = 1;
	CHECK(measure(&l, &m, &e) && gpumem_take(&l, &m, &a, &e) && m.kv == MB, "a block");
	f = fake();
	f.used = 80 * GB - (15 * GB + 612 * MB) - MB + 1;
	CHECK(measure(&l, &m, &e) && !gpumem_take(&l, &m, &a, &e) && e.cls == ERR_NOMEM, "no block");
}

/* A stage that fails reports the available memory, if memory was the reason. */
static void
test_stages(void)
{
	Fake		f = fake();
	GpuLoad		l = load_of(&f);
	GpuMem		m;
	Err			e = {0};

	f.work = 70 * GB;
	CHECK(!measure(&l, &m, &e) && e.cls == ERR_NOMEM && f.order == 2, "the work space doesn't fit");
	CHECK(has(e.msg, "work space") && has(e.detail, "80.00 GB. In use before: 2.00 GB; weights: 15.00 GB."),
		  "%s: %s", e.msg, e.detail);
	f = fake();
	f.broken = true;
	memset(&e, 0, sizeof(e));
	CHECK(!measure(&l, &m, &e) && e.cls == ERR_INTERNAL && e.detail[0] == '\0',
		  "another error stays as it is");
	/* memory that other processes free is not credited to the step, but can be used for the KV cache */
	f = fake();
	f.returned = GB;
	CHECK(measure(&l, &m, &e) && m.taken[2] == 0, "not below zero");
	CHECK(gpumem_take(&l, &m, &(GpuRequest) {.utilization = 0.5, .block_bytes = 1}, &e) && f.used == 40 * GB,
		  "%llu", (unsigned long long) f.used);
}

static void
test_pieces(void)
{
	Fake		f = fake();
	GpuLoad		l = load_of(&f);
	GpuRequest	a = {.utilization = 0.5, .block_bytes = 1000};
	GpuMem		m;
	Err			e = {0};
	uint64_t	kv;

	/* two reductions by a 20th, until it fits in one piece */
	CHECK(measure(&l, &m, &e) && gpumem_budget(&l, &m, &a, &kv, &e), "a budget");
	f.piece = kv - kv / 20 - (kv - kv / 20) / 20;
	CHECK(gpumem_take(&l, &m, &a, &e) && f.requested == 3, "at the third: %d", f.requested);
	CHECK(m.kv <= f.piece && f.piece - m.kv < 3000 && m.kv % 1000 == 0, "%llu", (unsigned long long) m.kv);
	f = fake();
	CHECK(measure(&l, &m, &e), "measured");
	f.piece = kv / 2;
	CHECK(!gpumem_take(&l, &m, &a, &e) && f.requested == 4, "three times less, no more: %d", f.requested);
	CHECK(e.cls == ERR_NOMEM && has(e.detail, "weights") && m.kv_area == NULL, "%s: %s", e.msg, e.detail);
	/* an explicit request is granted or refused */
	f = fake();
	CHECK(measure(&l, &m, &e), "measured");
	f.piece = GB;
	a.kv_bytes = 2 * GB;
	CHECK(!gpumem_take(&l, &m, &a, &e) && f.requested == 1 && e.cls == ERR_NOMEM, "once: %d", f.requested);
	CHECK(has(e.msg, "2.00 GB") && has(e.hint, "kv_cache_memory_bytes") && !has(e.detail, "utilization"),
		  "%s: %s", e.msg, e.hint);
	a.kv_bytes = 999;
	CHECK(!gpumem_take(&l, &m, &a, &e) && e.cls == ERR_INVALID && has(e.detail, "1000"),
		  "less than a block is a mistake: %s", e.msg);
}

int
main(void)
{
	RUN(test_utilization());
	RUN(test_one_by_one());
	RUN(test_second());
	RUN(test_sharers());
	RUN(test_too_little());
	RUN(test_stages());
	RUN(test_pieces());
	return check_done("test_gpu_memory_plan");
}
