/*
 * test_engine.c
 *	  The core on the emulated GPU (vllm_pg_cuda.so of tests/emu/module.mk): requests of all kinds beside each other have the tokens
 *	  that they have alone, and those that the engine's own sampler draws from the device's logits.
 *
 * For the latter the device is one whose op table has no `sample`.  Log-probabilities may differ in what sums of floats do.
 */
#include <dlfcn.h>
#include <math.h>

#include "engine/source.h"
#include "tests/unit/sample_kinds.h"

#define MODEL	"build/fixtures/models/llama_f32"
#define N_ASKS	(2 * PLUGIN)
#define MAX_ANSWERS 3

static const KDeviceOps *ops;
static const KHost host = {.abi = KDEVICE_ABI, .pool_device = kpool_device, .pool_threads = kpool_nthreads};
static KPool *pool;
static int	calls;				/* of the device's sampler */
static const Kernels *cuda;

static void
count_sample(KPool *p, void *rows, int n, float *logits, int width, int n_valid, KSampled *out)
{
	calls++;
	cuda->sample(p, rows, n, logits, width, n_valid, out);
}

/* A device whose engine samples on it, or itself. */
static Dev
open_device(bool samples)
{
	static Kernels table[2];
	KDevOpen	open = {.max_rows = 64, .max_seqs = 16, .max_blocks = 16, .max_out = 64, .invariant = true};
	char		why[256] = "";
	Dev			dev = {.ops = ops, .d = ops->open(0, &host, &open, why, sizeof(why))};

	CHECK(dev.d != NULL, "open: %s", why);
	if (dev.d == NULL)
		exit(2);
	cuda = ops->kernels(dev.d, KT_F32);
	table[samples] = *cuda;
	CHECK(cuda->sample != NULL, "it doesn't sample");
	table[samples].sample = samples ? count_sample : NULL;
	dev.k = &table[samples];
	kpool_set_device(pool, dev.d);
	return dev;
}

static Core *
new_core(const Dev *dev)
{
	CoreOptions o = options(12, 48, 200);
	ModelOptions mo = {.kernels = dev->k, .pool = pool, .dev = dev, .max_rows = o.max_num_batched_tokens};
	Err			e = {0};
	Files	   *f = files_open(MODEL, &e);
	Source		source = {.files = f};
	ModelSource src = source_of(&source);
	Model	   *m;

	o.pool = pool;
	o.dev = dev;
	o.max_logprobs = 50;
	o.max_model_len = 128;
	mo.max_out = core_max_logits(&o);
	m = f != NULL ? model_new(files_conf(f), &src, &mo, &e) : NULL;
	if (m == NULL)
	{
		fprintf(stderr, "%s: %s\n", MODEL, e.msg);
		exit(2);
	}
	source_done(&source);
	files_close(f);
	return core_for_grammars(m, tiny_tok(), o);
}

typedef struct Seen
{
	IntVec		ids[MAX_ANSWERS];
	Logprobs   *lp[MAX_ANSWERS];
	ReqFinish	finish;
} Seen;

static void
see(void *ctx, Req *r, const ReqEvent *ev)
{
	Seen	   *s = ctx;

	(void) r;
	intvec_add(&s->ids[ev->index], ev->ids, (size_t) ev->n_ids);
	if (ev->logprobs != NULL)
	{
		if (s->lp[ev->index] == NULL)
			s->lp[ev->index] = logprobs_new();
		logprobs_append(s->lp[ev->index], ev->logprobs);
	}
	s->finish = ev->finish;
}

static void
ask(Core *c, int i, Seen *to)
{
	Kind		k = (Kind) (i % PLUGIN);
	ReqSpec		spec = {
		.id = (uint64_t) i + 1, .prompt = random_prompt((uint32_t) i, 5 + i * 7 % 30), .sink = see, .sink_ctx = to,
		.grammar = k == GRAMMAR || k == LOGPROBS_GRAMMAR ? digits() : NULL
	};
	GenParams	p = params_of(k, i, NULL);
	Err			e = {0};

	p.max_tokens = 6;
	CHECK(core_normalize(c, &p, GP_TEMPERATURE | GP_MAX_TOKENS | GP_TOP_K | GP_TOP_P, &spec.prompt, &e), "%s", e.msg);
	spec.params = p;
	core_submit(c, &spec);
}

static void
run(Core *c)
{
	Err			e = {0};

	for (int steps = 0; core_has_work(c) && steps < 1000; steps++)
	{
		core_step(c);
		CHECK(core_check(c, &e), "%s", e.msg);
	}
}

/* exact: to the bit */
static bool
same_lp(const Logprobs *a, const Logprobs *b, bool exact)
{
	if (a == NULL || b == NULL)
		return a == b;
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (a->e[i].id != b->e[i].id || a->e[i].rank != b->e[i].rank ||
			!(fabsf(a->e[i].value - b->e[i].value) <= (exact ? 0 : 1e-5f)))
			return false;
	return true;
}

static void
check_same(const char *what, int i, const Seen *a, const Seen *b, bool exact)
{
	CHECK(a->finish == b->finish && (a->finish == FIN_LENGTH || a->finish == FIN_STOP), "%s: request %d ends by %d and %d", what, i, a->finish, b->finish);
	for (int j = 0; j < MAX_ANSWERS; j++)
	{
		CHECK(a->ids[j].len == b->ids[j].len && (j > 0 || a->ids[j].len > 0) &&
			  memcmp(a->ids[j].data, b->ids[j].data, a->ids[j].len * sizeof(int32_t)) == 0, "%s: request %d has other tokens", what, i);
		CHECK(same_lp(a->lp[j], b->lp[j], exact), "%s: request %d is told others", what, i);
	}
}

static void
seen_free(Seen *s, int n)
{
	for (int i = 0; i < n; i++)
		for (int j = 0; j < MAX_ANSWERS; j++)
		{
			intvec_free(&s[i].ids[j]);
			logprobs_free(s[i].lp[j]);
		}
}

static void
test_sampling(void)
{
	static Seen seen[2][N_ASKS];
	static Seen alone[N_ASKS];

	for (int samples = 0; samples < 2; samples++)
	{
		Dev			dev = open_device(samples);
		Core	   *c = new_core(&dev);

		calls = 0;
		for (int i = 0; i < N_ASKS; i++)
			ask(c, i, &seen[samples][i]);
		run(c);
		CHECK((calls > 0) == (samples != 0), "%d calls", calls);
		for (int i = 0; i < PLUGIN && samples; i++)
		{
			calls = 0;
			ask(c, i, &alone[i]);
			run(c);
			CHECK((calls > 0) == (i < ON_DEVICE), "%d calls for kind %d", calls, i);
		}
		core_free(c);
		ops->close(dev.d);
	}
	for (int i = 0; i < N_ASKS; i++)
		check_same("the host's sampler", i, &seen[1][i], &seen[0][i], false);
	for (int i = 0; i < PLUGIN; i++)
		check_same("alone", i, &seen[1][i], &alone[i], true);
	seen_free(seen[0], N_ASKS);
	seen_free(seen[1], N_ASKS);
	seen_free(alone, N_ASKS);
}

int
main(void)
{
	void	   *lib = dlopen(EMU_LIB, RTLD_NOW | RTLD_LOCAL);
	const KDeviceOps *(*get) (uint32_t) = lib != NULL ? (const KDeviceOps *(*) (uint32_t)) dlsym(lib, "vllm_pg_device_ops") : NULL;

	CHECK(get != NULL, "%s: %s", EMU_LIB, dlerror());
	if (get == NULL)
		return check_done("test_emu_engine");
	ops = get(KDEVICE_ABI);
	pool = kpool_new(1);
	test_sampling();
	kpool_free(pool);
	return check_done("test_emu_engine");
}
