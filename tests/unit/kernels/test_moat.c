/*
 * test_moat.c
 *	  Models access device memory only by ops and copies: on "moat", where other accesses crash, they
 *	  give the CPUs' bits.
 *
 * Every fixture of tests/fixtures/models, encoders and pool.  Models that generate: a prompt in two
 * chunks, of which the first wants all rows and the second the last one, with rows of layers tapped;
 * tokens one by one; this sequence together with the beginning of another; hidden rows, and logits of
 * these.  Other models: hidden rows of two texts, and the results of their heads.  Weights, work space,
 * KV cache, recurrent state and results are in the device's memory.  And drafts of a model with fewer,
 * as many and more tokens than its target.
 */
#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/alloc.h"
#include "backend/weight_source.h"
#include "hostdev.h"
#include "model/weights/device_arena.h"
#include "model/draft/draft.h"
#include "tests/unit/check.h"

#define FIXTURES "build/fixtures/"
#define BLOCK 16
#define MAX_ROWS 32
#define PER_SEQ 4				/* blocks */
#define N_OUT 40				/* rows of results, each of hidden or vocab values */

/* Where a model runs, and all its results. */
typedef struct Run
{
	const char *path;
	const Dev  *dev;			/* NULL: CPUs */
	KPool	   *pool;
	Model	   *m;
	KvView		kv;
	DevMem		kv_mem;
	DevMem		state;
	HostDev		out;
	HostDev		tapped;
	int32_t		table[2][PER_SEQ];
	int32_t		slots[2];
	int			width;			/* of a row of results */
	int			n;				/* rows so far */
	float	   *all;			/* [N_OUT][width] */
} Run;

static bool
run_start(Run *r, const char *path, Model *m, const Dev *dev, KPool *pool, Err *e)
{
	const ModelInfo *info = model_info(m);
	size_t		size;

	*r = (Run) {.path = path, .dev = dev, .pool = pool, .m = m, .slots = {1, 0}};
	r->width = info->vocab_size > info->hidden_size ? info->vocab_size : info->hidden_size;
	r->kv = (KvView) {.type = KT_F32, .n_layers = info->n_kv_layers, .n_blocks = 2 * PER_SEQ,
					  .block_size = BLOCK,
		.n_kv_heads = info->n_kv_heads, .head_dim = info->head_dim, .v_dim = info->v_dim};
	size = info->n_kv_layers > 0 ? kv_layout(&r->kv) : 0;
	for (int i = 0; i < 2 * PER_SEQ; i++)
		r->table[i % 2][i / 2] = (i * 3 + 1) % (2 * PER_SEQ);
	r->all = mem_zalloc((size_t) N_OUT * (size_t) r->width * sizeof(float));
	if (!devmem_reserve(&r->kv_mem, dev, size + 64, HUGE_OFF, "KV", e) ||
		!devmem_reserve(&r->state, dev, 2 * info->state_bytes + 64, HUGE_OFF, "state", e) ||
		!hostdev_new(&r->out, dev, (size_t) MAX_ROWS * (size_t) r->width, "rows", e) ||
		!hostdev_new(&r->tapped, dev, (size_t) MAX_ROWS * (size_t) info->hidden_size, "rows", e))
		return false;
	r->kv.base = r->kv_mem.base;
	return true;
}

static void
run_end(Run *r)
{
	devmem_free(&r->kv_mem);
	devmem_free(&r->state);
	hostdev_free(&r->out);
	hostdev_free(&r->tapped);
	mem_free(r->all);
	model_free(r->m);
}

/* Copy n rows of results, from a row on, to the host. */
static bool
keep(Run *r, const HostDev *h, size_t from, int n, int width)
{
	Err			e;

	hostdev_get(h, from, (size_t) n * (size_t) width);
	if (!dev_wait(r->dev, &e))
		return false;
	for (int i = 0; i < n; i++)
		memcpy(r->all + (size_t) r->n++ * (size_t) r->width, h->host + from + (size_t) i * (size_t) width,
			   (size_t) width * sizeof(float));
	return true;
}

static int	n_notified;		/* how often progress of a step was reported */

static void
notified(void *ctx)
{
	++*(int *) ctx;
}

/*
 * Run n0 rows of sequence 0 from pos0 on, then n1 rows of sequence 1 from its beginning; `wanted` rows
 * of results at the end of each sequence.
 */
static bool
step(Run *r, int pos0, int n0, int n1, int wanted, bool hidden, bool tap)
{
	const ModelInfo *info = model_info(r->m);
	int			n = n0 + n1;
	int32_t		start[3] = {0, n0, n};
	int32_t		pos[MAX_ROWS];
	int32_t		tokens[MAX_ROWS];
	int32_t		rows[MAX_ROWS];
	const int32_t *tables[2] = {r->table[0], r->table[1]};
	size_t		half = (size_t) (MAX_ROWS / 2) * (size_t) r->width;
	int32_t		types[MAX_ROWS];
	ModelTaps	taps = {.all = r->tapped.dev};
	Batch		b = {.rows = {.n_rows = n, .n_seqs = n1 > 0 ? 2 : 1, .seq_start = start, .pos = pos,
							  .block_table = tables,
		.state_slot = r->slots}, .tokens = tokens, .types = types, .out_rows = rows, .state = r->state.base,
		.hidden = hidden, .taps = tap ? &taps : NULL, .wait = notified, .wait_ctx = &n_notified};

	for (int i = 0; i < n; i++)
	{
		types[i] = i % 2;
		pos[i] = i < n0 ? pos0 + i : i - n0;
		tokens[i] = (int32_t) ((uint32_t) (pos[i] * 7919 + (i >= n0) * 104729 + 13) %
							   (uint32_t) info->vocab_size);
		if (i < n0 ? i >= n0 - wanted : i >= n - wanted)
			rows[b.n_out++] = i;
	}
	if (!model_forward(r->m, &b, &r->kv, r->out.dev) ||
		!keep(r, &r->out, 0, b.n_out, hidden ? info->hidden_size : info->vocab_size) ||
		(tap && !keep(r, &r->tapped, 0, n, info->hidden_size)))
		return false;
	if (!hidden)
		return true;
	/* hidden rows become labels and vectors, or logits */
	for (int t = PT_NONE + 1; t < PT_LOGPROBS; t++)
		if ((info->tasks >> t & 1) != 0)
		{
			model_pool_head(r->m, (PoolTask) t, r->out.dev, 1, r->out.dev + half);
			if (!keep(r, &r->out, half, 1, info->pools[t].width < r->width ? info->pools[t].width : r->width))
				return false;
		}
	if (!info->generates)
		return true;
	model_logits(r->m, r->out.dev, NULL, b.n_out, r->out.dev + half);
	return keep(r, &r->out, half, b.n_out, info->vocab_size);
}

/* Load a model; with a target, load a drafter for that into *draft. */
static Model *
load(const char *path, const Dev *dev, KPool *pool, Model *target, Draft **draft, Err *e)
{
	const char *why;
	Files	   *f = files_open(path, e);
	Source		source = {.files = f};
	ModelSource src;
	ModelOptions opt = {.kernels = dev != NULL ? dev->ops->kernels(dev->d, KT_F32) : kernels_select("auto",
			&why), .pool = pool,
		.max_rows = MAX_ROWS, .max_out = MAX_ROWS, .dev = dev};
	Model	   *m = NULL;

	if (f == NULL)
		return NULL;
	src = source_of(&source);
	if (target == NULL)
		m = model_new(files_conf(f), &src, &opt, e);
	else
		*draft = draft_new("draft_model", files_conf(f), &src, &opt, target, e);
	source_done(&source);
	files_close(f);
	return m;
}

/* Free the weights' memory, and allocate it again elsewhere. */
static bool
rest(Run *r)
{
	Err			e = {0};
	void	   *other;
	bool		ok = model_store(r->m, "/tmp", &e);

	if (r->dev == NULL)
		return ok && model_fetch(r->m, &e);
	other = r->dev->ops->alloc(r->dev->d, 1 << 16, "somebody else's");
	ok = ok && model_fetch(r->m, &e);
	r->dev->ops->free(r->dev->d, other);
	return ok;
}

/* The same, but the saved weights are dropped and replaced by those of the same model, loaded again. */
static bool
replace(Run *r)
{
	Err			e = {0};
	void	   *other = NULL;
	Model	   *again;
	bool		ok = model_store(r->m, "/tmp", &e);

	model_forget(r->m);
	if (r->dev != NULL)
		other = r->dev->ops->alloc(r->dev->d, 1 << 16, "somebody else's");
	again = load(r->path, r->dev, r->pool, NULL, NULL, &e);
	ok = ok && again != NULL && model_adopt(r->m, again, &e);
	model_free(again);
	if (r->dev != NULL)
		r->dev->ops->free(r->dev->d, other);
	return ok;
}

static bool
all_steps(Run *r)
{
	if (!model_info(r->m)->generates)
		return step(r, 0, 9, 5, 5, true, false) && rest(r) && step(r, 0, 7, 0, 7, true, false);
	return step(r, 0, 9, 0, 9, false, true) && step(r, 9, 5, 0, 1, false, false) && rest(r) &&
		step(r, 14, 1, 0, 1, false, false) && step(r, 15, 1, 0, 1, false, false) && replace(r) &&
		step(r, 16, 1, 5, 1, false, false) && step(r, 17, 3, 0, 2, true, false);
}

static bool
run(Run *r, const char *path, const Dev *dev, KPool *pool, Err *e)
{
	Model	   *m = load(path, dev, pool, NULL, NULL, e);

	*r = (Run) {0};
	if (m == NULL)
		return false;
	if (!run_start(r, path, m, dev, pool, e))
		return false;
	return all_steps(r) || err_set(e, ERR_LOST, "a step failed");
}

static void
check_model(const char *name, const Dev *moat, KPool *pool, KPool *pool2)
{
	char		path[400];
	Run			cpu;
	Run			dev;
	Err			e = {0};

	snprintf(path, sizeof(path), FIXTURES "%s", name);
	if (!run(&cpu, path, NULL, pool2, &e))
	{
		run_end(&cpu);
		return;					/* not a model on its own */
	}
	if (run(&dev, path, moat, pool, &e))
	{
		CHECK(cpu.n == dev.n &&
			  memcmp(cpu.all, dev.all, (size_t) cpu.n * (size_t) cpu.width * sizeof(float)) == 0,
			  "%s: other bits on the device", name);
		run_end(&dev);
	}
	else if (e.cls == ERR_UNSUPPORTED)
		check_skip(1, e.msg);
	else
		CHECK(false, "%s: %s", name, e.msg);
	run_end(&cpu);
}

/* ---- drafts ---- */

/* Let a model draft for itself, as if it had a vocabulary of `vocab` tokens: logits of two rows. */
static void
run_draft(Run *r, const Dev *dev, KPool *pool, int vocab)
{
	static const int32_t start[] = {0, 5};
	static const int32_t pos[] = {0, 1, 2, 3, 4};
	static const int32_t tokens[] = {7, 20, 3, 99, 41};
	static const int32_t rows[] = {1, 4};
	const char *path = FIXTURES "models/llama_f32";
	Err			e = {0};
	Draft	   *d = NULL;
	Model	   *m = load(path, dev, pool, NULL, NULL, &e);
	const int32_t *table = r->table[0];
	Batch		b = {.rows = {.n_rows = 5, .n_seqs = 1, .seq_start = start, .pos = pos,
							  .block_table = &table}, .tokens = tokens,
		.n_out = 2, .out_rows = rows};

	CHECK(m != NULL, "%s", e.msg);
	((ModelInfo *) (uintptr_t) model_info(m))->vocab_size = vocab;
	(void) load(path, dev, pool, m, &d, &e);
	CHECK(d != NULL && run_start(r, path, m, dev, pool, &e), "%s", e.msg);
	draft_forward(d, &b, &r->kv, r->out.dev, NULL);
	CHECK(keep(r, &r->out, 0, 2, vocab), "the device is lost");
	draft_free(d);
}

/* Compare the logits with those on CPUs; ids beyond the vocabulary must have none. */
static void
check_draft(const Dev *moat, KPool *pool, KPool *pool2, int vocab)
{
	Run			cpu = {0};
	Run			dev = {0};
	int			wrong = 0;

	run_draft(&cpu, NULL, pool2, vocab);
	run_draft(&dev, moat, pool, vocab);
	for (int i = 0; i < 2; i++)
		for (int j = 0; j < vocab; j++)
		{
			float		x = cpu.all[i * cpu.width + j];
			float		y = dev.all[i * dev.width + j];

			wrong += x != K_NO_COLUMN ? x != y : y != K_NO_COLUMN;
		}
	CHECK(wrong == 0, "%d of a draft model's logits of %d are others on the device", wrong, vocab);
	run_end(&cpu);
	run_end(&dev);
}

/* A host read of the device's memory crashes the process, so the protection works. */
static void
check_moat(const Dev *moat)
{
	volatile float *p = moat->ops->alloc(moat->d, 100, "a piece");
	pid_t		child = fork();
	int			status = 0;

	if (child == 0)
	{
		signal(SIGSEGV, SIG_DFL);
		_exit(p[3] == 1 ? 1 : 2);
	}
	waitpid(child, &status, 0);
	CHECK(WIFSIGNALED(status), "the device's memory was read, and nothing happened");
	moat->ops->free(moat->d, (void *) (uintptr_t) p);
}

/* ---- a device that takes its time ---- */

static int	reported_before;

/* A step lasts until progress has been reported twice, or ten seconds. */
static int64_t flushed;

static void
slow_flush(KDevice *d)
{
	(void) d;
	flushed = clock_us();
	reported_before = n_notified;
}

static bool
slow_done(KDevice *d)
{
	(void) d;
	return n_notified >= reported_before + 2 || clock_us() - flushed > 10000000;
}

/* Waits for long steps are reported, and the results are unchanged. */
static void
check_slow(const KHost *host, const KDevOpen *open, KPool *pool, KPool *pool2)
{
	KDeviceOps	ops = *kdevice_of_cpus("host");
	Dev			slow = {.ops = &ops};
	char		why[128];

	ops.step_flush = slow_flush;
	ops.step_done = slow_done;
	slow.d = ops.open(0, host, open, why, sizeof(why));
	kpool_set_device(pool, slow.d);
	n_notified = 0;
	check_model("models/llama_f32", &slow, pool, pool2);
	CHECK(n_notified == 12, "six steps: told %d times", n_notified);
	ops.close(slow.d);
}

int
main(int argc, char **argv)
{
	static const char *const folders[] = {"models", "encoders", "pool"};
	KHost		host = {.abi = KDEVICE_ABI, .pool_device = kpool_device, .pool_threads = kpool_nthreads};
	KDevOpen	open = {.max_rows = MAX_ROWS, .max_seqs = 2, .max_blocks = PER_SEQ, .max_out = MAX_ROWS};
	char		why[128];
	Dev			moat = {.ops = kdevice_of_cpus("moat")};
	KPool	   *pool = kpool_new(1);
	KPool	   *pool2 = kpool_new(1);
	struct dirent **files;
	int			n;

	moat.d = moat.ops->open(0, &host, &open, why, sizeof(why));
	kpool_set_device(pool, moat.d);
	RUN(check_moat(&moat));
	for (int vocab = 280; vocab <= 296; vocab += 8)
		RUN(check_draft(&moat, pool, pool2, vocab));
	for (int i = 1; i < argc; i++)
		RUN_NAMED(argv[i], check_model(argv[i], &moat, pool, pool2));
	for (size_t k = 0; k < sizeof(folders) / sizeof(folders[0]) && argc < 2; k++)
	{
		char		path[300];

		snprintf(path, sizeof(path), FIXTURES "%s", folders[k]);
		n = scandir(path, &files, NULL, alphasort);
		CHECK(n >= 0, "directory \"%s\" can't be read", path);
		for (int i = 0; i < n; i++)
		{
			snprintf(path, sizeof(path), "%s/%s", folders[k], files[i]->d_name);
			if (files[i]->d_name[0] != '.')
				RUN(check_model(path, &moat, pool, pool2));
			free(files[i]);
		}
		if (n >= 0)
			free(files);
	}
	CHECK(n_notified == 0, "steps that last no time: told %d times", n_notified);
	RUN(check_slow(&host, &open, pool, pool2));
	kpool_free(pool);
	kpool_free(pool2);
	moat.ops->close(moat.d);
	return check_done("test_moat");
}
