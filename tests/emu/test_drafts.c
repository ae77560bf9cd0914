/*
 * test_drafts.c
 *	  Drafters of all methods on the emulated GPU (vllm_pg_cuda.so of tests/emu/module.mk), weights and
 *	  operands of floats.
 *
 *	- drafts of heads, and logits of chains and of the states that they feed back, against the CPUs', from the
 *	  same hidden rows;
 *	- a crowd's outputs with drafts equal those without, and nearly as many drafts are right as on the CPUs.
 */
#include <dlfcn.h>
#include <math.h>

#include "tests/unit/core/spec/drafts_crowd.h"

#define ROWS	12
#define SEQ_BLOCKS 4
#define TOLERANCE 5e-3			/* relative to the largest logit, because queries are rounded to F16 */

static const KDeviceOps *ops;
static const KHost host = {.abi = KDEVICE_ABI, .pool_device = kpool_device, .pool_threads = kpool_nthreads};
static Dev	gpu;
static KPool *gpu_pool;

/* A drafter with its target. */
typedef struct Pair
{
	const Dev  *dev;			/* NULL: the CPUs */
	Model	   *target;
	Draft	   *d;
} Pair;

static Pair
load_pair(const char *target, const char *method, const char *name, const Dev *dev)
{
	Pair		p = {.dev = dev};
	Err			e = {0};
	char		path[2][300];
	Files	   *f[2];
	Source		s[2];
	ModelSource src[2];
	ModelOptions opt = {.kernels = dev != NULL ? dev->k : kernels_select("auto", NULL),
						.pool = dev != NULL ? gpu_pool : pool, .dev = dev, .max_rows = ROWS,
		.max_out = ROWS, .max_model_len = 64};

	for (int i = 0; i < 2; i++)
	{
		snprintf(path[i], sizeof(path[i]), DRAFTS "%s", i == 0 ? target : name);
		f[i] = files_open(path[i], &e);
		CHECK(f[i] != NULL, "%s: %s", path[i], e.msg);
		s[i] = (Source) {.files = f[i]};
		src[i] = source_of(&s[i]);
	}
	p.target = model_new(files_conf(f[0]), &src[0], &opt, &e);
	p.d = p.target != NULL ? draft_new(method, files_conf(f[1]), &src[1], &opt, p.target, &e) : NULL;
	CHECK(p.d != NULL, "%s: %s", name, e.msg);
	if (p.d == NULL)
		exit(1);
	for (int i = 0; i < 2; i++)
	{
		source_done(&s[i]);
		files_close(f[i]);
	}
	return p;
}

static void
free_pair(Pair *p)
{
	draft_free(p->d);
	model_free(p->target);
}

/* Allocate n floats that ops can access. */
static HostDev
floats(const Pair *p, size_t n)
{
	HostDev		h;
	Err			e = {0};

	CHECK(hostdev_new(&h, p->dev, n, "floats", &e), "%s", e.msg);
	return h;
}

static void
read_back(const Pair *p, const HostDev *h)
{
	Err			e = {0};

	hostdev_get(h, 0, h->n);
	CHECK(dev_wait(p->dev, &e), "%s", e.msg);
}

static HostDev
hidden_rows(const Pair *p)
{
	HostDev		h = floats(p, (size_t) ROWS * (size_t) draft_info(p->d)->given);

	for (size_t i = 0; i < h.n; i++)
		h.host[i] = (float) ((int) (mix(i, 7) >> 40 & 1023) - 512) / 256;
	hostdev_put(&h, 0, h.n);
	return h;
}

/* [ROWS][k] */
static void
draft_tokens(const Pair *p, int k, int32_t *out)
{
	HostDev		rows = hidden_rows(p);
	int32_t		tokens[ROWS];

	for (int i = 0; i < ROWS; i++)
		tokens[i] = 3 + i * 17;
	draft_heads(p->d, rows.dev, tokens, ROWS, k, out);
	hostdev_free(&rows);
}

/*
 * Compute the logits of three of a sequence's rows, then of one more row from the fed back state of the
 * last one.
 */
static HostDev
chain(const Pair *p)
{
	const ModelInfo *mi = &draft_info(p->d)->model;
	size_t		vocab = (size_t) model_info(p->target)->vocab_size;
	int			width = draft_fed_width(p->d);
	HostDev		rows = hidden_rows(p);
	HostDev		logits = floats(p, 4 * vocab);
	HostDev		fed = floats(p, 4 * (size_t) width);
	KvView		kv = {.type = KT_F32, .n_layers = mi->n_kv_layers, .n_blocks = SEQ_BLOCKS, .block_size = 16,
					  .n_kv_heads = mi->n_kv_heads,
		.head_dim = mi->head_dim, .v_dim = mi->v_dim};
	DevMem		area;
	Err			e = {0};
	int32_t		table[SEQ_BLOCKS] = {2, 0, 3, 1};
	const int32_t *tables[] = {table};
	int32_t		start[] = {0, ROWS};
	int32_t		tokens[ROWS];
	int32_t		pos[ROWS];
	int32_t		out[] = {0, 4, ROWS - 1};
	Batch		b = {.rows = {.n_rows = ROWS, .n_seqs = 1, .seq_start = start, .pos = pos,
							  .block_table = tables}, .tokens = tokens, .given = rows.dev,
		.n_out = 3, .out_rows = out};

	CHECK(devmem_reserve(&area, p->dev, kv_layout(&kv), HUGE_OFF, "K and V", &e), "%s", e.msg);
	kv.base = area.base;
	for (int i = 0; i < ROWS; i++)
	{
		tokens[i] = 5 + i * 19;
		pos[i] = i;
	}
	draft_forward(p->d, &b, &kv, logits.dev, fed.dev);
	start[1] = b.rows.n_rows = b.n_out = 1;
	out[0] = 0;
	pos[0] = ROWS;
	b.given = fed.dev + 2 * width;
	b.fed_back = true;
	draft_forward(p->d, &b, &kv, logits.dev + 3 * vocab, fed.dev);
	read_back(p, &logits);
	devmem_free(&area);
	hostdev_free(&rows);
	hostdev_free(&fed);
	return logits;
}

static void
check_pair(const char *target, const char *method, const char *name)
{
	Pair		cpu = load_pair(target, method, name, NULL);
	Pair		dev = load_pair(target, method, name, &gpu);
	double		worst = 0;
	double		most = 0;
	int			equal = 0;
	int			n = 0;

	if (draft_info(cpu.d)->kind == DRAFT_HEADS)
	{
		int			k = draft_info(cpu.d)->most;
		int32_t		want[ROWS * DRAFT_MOST];
		int32_t		got[ROWS * DRAFT_MOST];

		draft_tokens(&cpu, k, want);
		draft_tokens(&dev, k, got);
		for (; n < ROWS * k; n++)
			equal += want[n] == got[n];
		/* two logits may be nearly equal */
		CHECK(equal >= n - 1, "%s: %d of %d guesses are the CPUs'", name, equal, n);
	}
	else
	{
		HostDev		want = chain(&cpu);
		HostDev		got = chain(&dev);

		for (size_t i = 0; i < want.n; i++, n++)
		{
			double		d = fabs((double) want.host[i] - (double) got.host[i]);

			if (want.host[i] != K_NO_COLUMN && fabs((double) want.host[i]) > most)
				most = fabs((double) want.host[i]);
			if (want.host[i] == got.host[i])
				equal++;
			else if (!(d <= worst))
				worst = d;
		}
		CHECK(worst <= TOLERANCE * most, "%s: error %g of the CPUs' logits of up to %g", name, worst, most);
		hostdev_free(&want);
		hostdev_free(&got);
	}
	printf("%-20s error %.1e of up to %.1f, %d of %d are equal\n", name, worst, most, equal, n);
	free_pair(&cpu);
	free_pair(&dev);
}

/* ---- a crowd ---- */

static void
check_many(const char *target, const char *config, const Case *k)
{
	static const char *plain_target = "";
	static Seen *plain;			/* without drafts: reused if the previous target is the same */
	KPool	   *cpus = pool;
	CoreStats	st[3];
	Seen	   *seen[3];

	seen[0] = run(target, config, k, &st[0]);
	on = &gpu;
	pool = gpu_pool;
	if (strcmp(plain_target, target) != 0)
	{
		if (plain != NULL)
			seen_free(plain);
		plain = run(target, "", k, &st[1]);
		plain_target = target;
	}
	seen[1] = plain;
	seen[2] = run(target, config, k, &st[2]);
	on = NULL;
	pool = cpus;
	compare(config, seen[1], seen[2]);
	CHECK(llabs((long long) st[2].spec_draft_tokens - (long long) st[0].spec_draft_tokens) <=
		  st[0].spec_draft_tokens / 4 &&
		  llabs((long long) st[2].spec_accepted - (long long) st[0].spec_accepted) <= 3 +
		  st[0].spec_accepted / 4, "%s: %lld of %lld drafts are right, on the CPUs %lld of %lld", config,
		  (long long) st[2].spec_accepted, (long long) st[2].spec_draft_tokens,
		  (long long) st[0].spec_accepted, (long long) st[0].spec_draft_tokens);
	printf("%lld of %lld drafts are right, on the CPUs %lld of %lld: %s\n", (long long) st[2].spec_accepted,
		   (long long) st[2].spec_draft_tokens, (long long) st[0].spec_accepted,
		   (long long) st[0].spec_draft_tokens, config);
	seen_free(seen[0]);
	seen_free(seen[2]);
}

static void
open_gpu(void)
{
	KDevOpen	open = {.max_rows = 64, .max_seqs = 8, .max_blocks = 32, .max_out = 64, .invariant = true};
	char		why[256] = "";

	gpu = (Dev) {.ops = ops, .d = ops->open(0, &host, &open, why, sizeof(why))};
	CHECK(gpu.d != NULL, "open: %s", why);
	if (gpu.d == NULL)
		exit(2);
	gpu.k = ops->kernels(gpu.d, KT_F32);
	kpool_set_device(gpu_pool, gpu.d);
}

int
main(void)
{
	static const char *const pairs[][3] = {
		{"target", "medusa", "medusa"}, {"target", "medusa", "medusa_small"},
		{"target", "medusa", "medusa_shared"}, {"target", "mlp_speculator", "mlp"},
		{"target", "mlp_speculator", "mlp_tied"}, {"target", "eagle", "eagle-llama"},
		{"target", "eagle", "eagle-norms"}, {"target", "eagle3", "eagle3"},
		{"target", "eagle3", "eagle3_own"}, {"target_mtp", "mtp", "target_mtp"},
		{"target_mimo", "mtp", "target_mimo"}
	};
	static const Case small = {.name = "chunks", .seqs = 4, .rows = 48, .blocks = 60, .chunk = 11,
							   .prefix = true, .rests = true};
	void	   *lib = dlopen(DEVICE_LIB, RTLD_NOW | RTLD_LOCAL);
	const KDeviceOps *(*get) (uint32_t) = lib != NULL ? (const KDeviceOps *(*) (uint32_t)) dlsym(lib,
			"vllm_pg_device_ops") : NULL;

	setvbuf(stdout, NULL, _IOLBF, 0);
	CHECK(get != NULL && getcwd(cwd, sizeof(cwd)) != NULL, "%s: %s", DEVICE_LIB, dlerror());
	if (get == NULL)
		return check_done("test_emu_drafts");
	ops = get(KDEVICE_ABI);
	pool = kpool_new(1);
	gpu_pool = kpool_new(1);
	open_gpu();
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		RUN(check_pair(pairs[i][0], pairs[i][1], pairs[i][2]));
	/* one request of each kind */
	n_reqs = 5;
	for (size_t m = 0; m < N_METHODS; m++)
		if (strstr(methods[m].config, "mlp_tied") != NULL ||
			strstr(methods[m].config, "eagle3\", ") != NULL ||
			strstr(methods[m].config, "glm4_moe_mtp") != NULL || methods[m].itself)
			RUN(check_many(methods[m].target, methods[m].config, &small));
	ops->close(gpu.d);
	kpool_free(pool);
	kpool_free(gpu_pool);
	return check_done("test_emu_drafts");
}
