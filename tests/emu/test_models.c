/*
 * test_models.c
 *	  Whole models on a GPU (vllm_pg_cuda.so), as the engine would use it: the emulated one of
 *	  tests/emu/module.mk, or a real one (scripts/check_gpu.sh models).
 *
 * Models of tests/golden/models_expected:
 *
 *	- logits of the prompt against the reference, and those of all positions against kernels/ref on the CPU
 *	  (except for quantized weights, which it multiplies with rows rounded to 8 bits);
 *	- the same bits alone and in a batch with four other sequences, whose prompts come in other chunks;
 *	- the same bits when decode steps of 3, 4 and 5 sequences are padded, recorded and replayed;
 *	- the same bits after the model was asleep, while the device had its memory back;
 *	- weights of FP8 stay FP8, experts and embeddings, too, and give the same as on CPUs;
 *	  multiplied as FP8 they give nearly that.
 *
 * Operands have the type that the engine chooses for such weights, and for some models all three.
 * Errors for logits of order 1, at the best of the reference's positions and at the worst:
 *	  5e-3, 0.08	operands of floats and float weights: queries are rounded to F16
 *	  0.08, 0.4		else; rounding may route a row to another expert
 * From the CPU's logits, relative to them, in the median of all rows: 5e-3 or 0.06.
 *
 * Before that the device interface: a thread with a small stack opens, uses and closes a device, while
 * others allocate and free memory and copy.  The KV cache is paged in shuffled blocks, and memory begins
 * as NaN.
 *
 * test_models [--lib FILE] [NAME ...]: these with all three, or all models; on the device of another
 * library.
 */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device_ops.h"
#include "backend/weight_source.h"
#include "hostdev.h"
#include "model/weights/device_arena.h"
#include "tests/golden/golden.h"
#include "tests/unit/check.h"

#define FIXTURES "build/fixtures/models/"
#define BLOCK 16
#define STEP_ROWS 288			/* of a step */
#define SEQS 5
#define BLOCKS (MAX_ROWS / BLOCK)	/* of a sequence */

static const KDeviceOps *ops;	/* the library's, with runs counted */
static KDeviceOps counted;
static KRun (*library_graph) (KDevice *d, const KGraphKey *key);
static int	runs[KRUN_REPLAYED + 1];

/* A model on the device, or on the CPU if dev.d is NULL, with sequences. */
typedef struct Run
{
	Dev			dev;
	const Dev  *on;				/* the device, or NULL */
	Model	   *m;
	const Golden *g;
	KvView		kv;
	DevMem		kv_mem;
	DevMem		state;
	HostDev		out;
	int32_t		table[SEQS][BLOCKS];
	int32_t		slots[SEQS];
	size_t		vocab;
	float	   *alone[2];		/* [n_prompt][vocab]: logits of the two texts alone */
} Run;

/* Return a token of the prompt, or of another text. */
static int32_t
token_of(const Run *r, int text, int pos)
{
	return text == 0 ? r->g->prompt[pos] : (r->g->prompt[pos] * 7 + pos) % r->g->vocab;
}

static bool
run_start(Run *r, const Golden *g, Err *e)
{
	const ModelInfo *info = model_info(r->m);
	size_t		size;

	r->g = g;
	r->on = r->dev.d != NULL ? &r->dev : NULL;
	r->vocab = (size_t) info->vocab_size;
	r->kv = (KvView) {.type = r->kv.type, .n_layers = info->n_kv_layers, .n_blocks = SEQS * BLOCKS,
					  .block_size = BLOCK,
		.n_kv_heads = info->n_kv_heads, .head_dim = info->head_dim, .v_dim = info->v_dim};
	size = info->n_kv_layers > 0 ? kv_layout(&r->kv) : 0;
	for (int i = 0; i < SEQS * BLOCKS; i++)
		r->table[i % SEQS][i / SEQS] = (i * 11 + 5) % (SEQS * BLOCKS);
	for (int i = 0; i < SEQS; i++)
		r->slots[i] = SEQS - 1 - i;
	for (int i = 0; i < 2; i++)
		r->alone[i] = mem_alloc((size_t) g->n_prompt * r->vocab * sizeof(float));
	if (!devmem_reserve(&r->kv_mem, r->on, size + 64, HUGE_OFF, "KV", e) ||
		!devmem_reserve(&r->state, r->on, SEQS * info->state_bytes + 64, HUGE_OFF, "state", e) ||
		!hostdev_new(&r->out, r->on, (size_t) STEP_ROWS * r->vocab, "rows", e))
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
	mem_free(r->alone[0]);
	mem_free(r->alone[1]);
	model_free(r->m);
}

/*
 * Run rows from[i] .. from[i] + n[i] - 1 of texts in sequences seq[i]; the logits of all are in
 * r->out.host.
 */
static bool
step(Run *r, int n_seqs, const int *seq, const int *text, const int *from, const int *n, Err *e)
{
	int32_t		start[SEQS + 1] = {0};
	int32_t		slots[SEQS];
	const int32_t *tables[SEQS];
	int32_t		pos[STEP_ROWS];
	int32_t		tokens[STEP_ROWS];
	int32_t		rows[STEP_ROWS];
	Batch		b = {.rows = {.n_seqs = n_seqs, .seq_start = start, .pos = pos, .block_table = tables,
							  .state_slot = slots},
		.tokens = tokens, .out_rows = rows, .state = r->state.base};
	int			at = 0;

	for (int i = 0; i < n_seqs; i++)
	{
		tables[i] = r->table[seq[i]];
		slots[i] = r->slots[seq[i]];
		for (int j = 0; j < n[i]; j++, at++)
		{
			pos[at] = from[i] + j;
			tokens[at] = token_of(r, text[i], pos[at]);
			rows[at] = at;
		}
		start[i + 1] = at;
	}
	b.rows.n_rows = b.n_out = at;
	if (!model_forward(r->m, &b, &r->kv, r->out.dev))
		return err_set(e, ERR_LOST, "a step failed");
	hostdev_get(&r->out, 0, (size_t) at * r->vocab);
	return dev_wait(r->on, e);
}

/* Run both texts alone, one in one step, one in two chunks. */
static bool
run_alone(Run *r, Err *e)
{
	const int	seq[2] = {0, 3};
	const int	zero = 0;

	for (int text = 0; text < 2; text++)
	{
		int			n = r->g->n_prompt;
		int			cut = text == 0 ? n : n / 2 + 1;
		int			rest = n - cut;

		if (!step(r, 1, &seq[text], &text, &zero, &cut, e))
			return false;
		memcpy(r->alone[text], r->out.host, (size_t) cut * r->vocab * sizeof(float));
		if (rest > 0 && !step(r, 1, &seq[text], &text, &cut, &rest, e))
			return false;
		memcpy(r->alone[text] + (size_t) cut * r->vocab, r->out.host,
			   (size_t) rest * r->vocab * sizeof(float));
	}
	return true;
}

/* Run five sequences in one batch, in chunks; *bad: rows that differ from those alone. */
static bool
run_together(Run *r, int *bad, Err *e)
{
	static const int chunk[SEQS] = {7, 1, 13, 40, 3};
	int			done[SEQS] = {0};

	*bad = 0;
	for (;;)
	{
		int			seq[SEQS];
		int			text[SEQS];
		int			from[SEQS];
		int			n[SEQS];
		int			n_seqs = 0;
		int			at = 0;

		/* the second one continues token by token to the end of the others */
		for (int i = 0; i < SEQS; i++)
		{
			int			left = (i == 1 ? 8 : r->g->n_prompt) - done[i];

			if (left <= 0)
				continue;
			seq[n_seqs] = (i + 2) % SEQS;
			text[n_seqs] = i & 1;
			from[n_seqs] = done[i];
			n[n_seqs++] = left < chunk[i] ? left : chunk[i];
			done[i] += left < chunk[i] ? left : chunk[i];
		}
		if (n_seqs == 0)
			return true;
		if (!step(r, n_seqs, seq, text, from, n, e))
			return false;
		for (int i = 0; i < n_seqs; at += n[i++])
			for (int j = 0; j < n[i]; j++)
				*bad += memcmp(r->out.host + (size_t) (at + j) * r->vocab,
							   r->alone[text[i]] + (size_t) (from[i] + j) * r->vocab,
								   r->vocab * sizeof(float)) != 0;
	}
}

static KRun
count_graph(KDevice *d, const KGraphKey *key)
{
	KRun		run = library_graph(d, key);

	runs[run]++;
	return run;
}

/*
 * Run the beginnings of the texts once more, then token by token for some of the sequences; *bad: rows
 * that differ.
 */
static bool
run_graphs(Run *r, int *bad, Err *e)
{
	int			seq[SEQS] = {4, 2, 0, 1, 3};
	int			text[SEQS] = {0, 1, 0, 1, 1};
	int			pos[SEQS] = {0};
	int			n[SEQS] = {9, 5, 7, 6, 8};

	*bad = 0;
	if (!step(r, SEQS, seq, text, pos, n, e))
		return false;
	memcpy(pos, n, sizeof(pos));
	for (int i = 0; i < SEQS; i++)
		n[i] = 1;
	/* each kind runs, is recorded, and is replayed twice */
	memset(runs, 0, sizeof(runs));
	for (int i = 0; i < 12; i++)
	{
		int			seqs = 3 + i % 3;

		if (!step(r, seqs, seq, text, pos, n, e))
			return false;
		for (int j = 0; j < seqs; j++)
			*bad += memcmp(r->out.host + (size_t) j * r->vocab,
						   r->alone[text[j]] + (size_t) pos[j]++ * r->vocab, r->vocab * sizeof(float)) != 0;
	}
	return true;
}

static double
max_error(const Golden *g, const float *all, double *best)
{
	double		worst = 0;

	*best = INFINITY;
	for (int i = 0; i < g->n_pos; i++)
	{
		double		error = 0;

		for (int j = 0; j < g->vocab; j++)
		{
			double		d = fabs((double) g->logits[i * g->vocab + j] -
								 (double) all[g->pos[i] * g->vocab + j]);

			if (!(d <= error))
				error = d;
		}
		if (!(error <= worst))
			worst = error;
		if (error < *best)
			*best = error;
	}
	return worst;
}

/* ---- an FP8 checkpoint made from a float one ---- */

/* Replaces a matrix: E4M3 with a scale for 128 columns, as floats and as codes. */
typedef struct Fp8
{
	KReader		as_floats;
	KTensor		t;
	KReader		as_fp8;
	KTensor		offer;
	const KTensor *parts[2];
	struct Fp8 *next;
} Fp8;

static Fp8 *fp8_matrices;
static ModelSource fp8_source;	/* the floats */

/* Compute a row of f, and its numbers; both buffers hold one row. */
static void
fp8_row(const Fp8 *f, int64_t row, uint8_t *to, float *x)
{
	const KTensor *t = f->parts[0];
	int64_t		k = t->shape[1];
	uint8_t    *codes = to + ktype_row_bytes(KT_FP8, k) - k;

	kblock_to_float(t->type, (const uint8_t *) t->data + ktype_row_bytes(t->type, k) * (size_t) row, k, x);
	for (int64_t g = 0; g < k; g += FP8_GROUP)
	{
		float		d = 0;

		for (int64_t i = g; i < g + FP8_GROUP && i < k; i++)
			d = fmaxf(d, fabsf(x[i]) / 448);
		d = d > 0 ? d : 1;
		memcpy(to + g / FP8_GROUP * 4, &d, 4);
		for (int64_t i = g; i < g + FP8_GROUP && i < k; i++)
			codes[i] = kf32_to_f8(KT_F8_E4M3, x[i] / d);
	}
	kblock_to_float(KT_FP8, to, k, x);
}

static void
fp8_rows(const Fp8 *f, bool raw, int64_t row0, int step, int n, uint8_t *to)
{
	int64_t		k = f->t.shape[1];
	uint8_t    *row = mem_alloc(ktype_row_bytes(KT_FP8, k));
	float	   *x = mem_alloc((size_t) k * sizeof(float));

	for (int i = 0; i < n; i++)
	{
		fp8_row(f, row0 + (int64_t) i * step, row, x);
		if (raw)
			memcpy(to + ktype_row_bytes(KT_FP8, k) * (size_t) i, row, ktype_row_bytes(KT_FP8, k));
		else
			memcpy(to + (size_t) (i * k) * sizeof(float), x, (size_t) k * sizeof(float));
	}
	mem_free(row);
	mem_free(x);
}

static void
rows_as_floats(const KReader *r, int64_t row0, int step, int n, void *to)
{
	fp8_rows((const Fp8 *) (const void *) r, false, row0, step, n, to);
}

static void
rows_as_fp8(const KReader *r, int64_t row0, int step, int n, void *to)
{
	fp8_rows((const Fp8 *) (const void *) ((const char *) r - offsetof(Fp8, as_fp8)), true, row0, step, n,
			 to);
}

static bool
fp8_quantized(void *ctx, const char *module, int64_t n, int64_t k, const KTensor **out, Err *e)
{
	char		name[300];
	const KTensor *t;
	Fp8		   *f;

	(void) e;
	snprintf(name, sizeof(name), "%s.weight", module);
	t = fp8_source.find(ctx, name);
	*out = NULL;
	if (t == NULL || t->ndim != 2 || t->shape[0] != n || t->shape[1] != k)
		return true;
	f = mem_zalloc(sizeof(*f));
	f->next = fp8_matrices;
	fp8_matrices = f;
	f->parts[0] = t;
	f->offer = f->t = (KTensor) {.name = t->name, .type = KT_F32, .ndim = 2, .shape = {n, k},
								 .reader = &f->as_floats,
	.nbytes = (size_t) (n * k * 4), .base = t};
	f->offer.type = KT_FP8;
	f->offer.reader = &f->as_fp8;
	f->as_floats = (KReader) {.rows = rows_as_floats, .parts = f->parts, .offer = &f->offer};
	f->as_fp8 = (KReader) {.rows = rows_as_fp8, .parts = f->parts};
	*out = &f->t;
	return true;
}

/* fp8: convert its matrices. */
static Model *
load(const char *name, const Dev *dev, KPool *pool, bool fp8, Err *e)
{
	static const int sizes[] = {2, 4, 5};
	char		path[300];
	size_t		n = strlen(name);
	Files	   *f;
	Source		source;
	ModelSource src;
	ModelOptions opt = {.kernels = dev->k, .pool = pool, .max_rows = STEP_ROWS, .max_out = STEP_ROWS,
						.dev = dev->d != NULL ? dev : NULL,
		.graph_sizes = sizes, .n_graph_sizes = sizeof(sizes) / sizeof(sizes[0])};
	Model	   *m;

	snprintf(path, sizeof(path), FIXTURES "%s%s", name, n > 5 && strcmp(name + n - 5, "_gguf") == 0
			 ? ".gguf" : "");
	f = files_open(path, e);
	if (f == NULL)
		return NULL;
	source = (Source) {.files = f};
	src = source_of(&source);
	if (fp8)
	{
		fp8_source = src;
		src.quantized = fp8_quantized;
	}
	m = model_new(files_conf(f), &src, &opt, e);
	for (Fp8 *next; fp8_matrices != NULL; fp8_matrices = next)
	{
		next = fp8_matrices->next;
		mem_free(fp8_matrices);
	}
	source_done(&source);
	files_close(f);
	return m;
}

/* Free its memory and allocate it again; *bad: rows of the prompt that differ then. */
static bool
run_asleep(Run *r, int *bad, Err *e)
{
	const int	zero = 0;
	int			n = r->g->n_prompt;
	uint64_t	before,
				meanwhile,
				total;

	ops->mem(r->dev.d, &before, &total);
	if (!model_store(r->m, "/tmp", e))
		return false;
	devmem_drop(&r->kv_mem);
	devmem_drop(&r->state);
	hostdev_drop(&r->out);
	ops->mem(r->dev.d, &meanwhile, &total);
	CHECK(meanwhile >= before, "asleep it takes %llu bytes more", (unsigned long long) (before - meanwhile));
	if (!model_fetch(r->m, e) || !devmem_back(&r->kv_mem, e) || !devmem_back(&r->state, e) ||
		!hostdev_back(&r->out, e))
		return false;
	r->kv.base = r->kv_mem.base;
	if (!step(r, 1, &zero, &zero, &zero, &n, e))
		return false;
	*bad = 0;
	for (int i = 0; i < n; i++)
		*bad += memcmp(r->out.host + (size_t) i * r->vocab, r->alone[0] + (size_t) i * r->vocab,
					   r->vocab * sizeof(float)) != 0;
	return true;
}

static int
by_size(const void *a, const void *b)
{
	double		x = *(const double *) a;
	double		y = *(const double *) b;

	return (x > y) - (x < y);
}

/*
 * Return the distance of a's logits from b's, relative to these: the median of all rows, because
 * rounding may route some to another expert.
 */
static double
distance(const Run *a, const Run *b)
{
	double		d[MAX_ROWS];
	int			n = a->g->n_prompt;

	for (int i = 0; i < n; i++)
	{
		double		off = 0,
					size = 0;

		for (size_t j = (size_t) i * a->vocab; j < (size_t) (i + 1) * a->vocab; j++)
		{
			double		diff = (double) a->alone[0][j] - (double) b->alone[0][j];

			off += diff * diff;
			size += (double) b->alone[0][j] * (double) b->alone[0][j];
		}
		d[i] = off;
		/* NaN sorts after all numbers */
		if (isnan(d[i]))
			return INFINITY;
	}
	qsort(d, (size_t) n, sizeof(d[0]), by_size);
	return d[n / 2];
}

/* Return the largest difference from the results of kernels/ref on the CPU; < 0: unsupported. */
static double
cpu_distance(const char *name, const Run *r, const Golden *g)
{
	KPool	   *pool = kpool_new(1);
	Run			c = {.dev = {.k = kernels_select("ref", NULL)}, .kv = {.type = KT_F32}};
	Err			e = {0};
	double		d = -1;

	if ((c.m = load(name, &c.dev, pool, false, &e)) != NULL && run_start(&c, g, &e) && run_alone(&c, &e))
		d = distance(r, &c);
	else
		CHECK(false, "%s on the CPU: %s", name, e.msg);
	run_end(&c);
	kpool_free(pool);
	return d;
}

static void
check_run(const char *name, Run *r, const Golden *g, KType as, Err *e)
{
	int			bad = 0;
	int			bad_graphs = 0;
	int			bad_awake = 0;
	clock_t		t0 = clock();
	KType		dtype = model_info(r->m)->dtype;
	bool		exact = as == KT_F32 && dtype <= KT_BF16;
	bool		rounded = dtype > KT_BF16 && dtype != KT_FP8;
	double		error;
	double		best;
	double		cpu = 0;
	static int	n_models;
	/* every fourth model is recorded and put to sleep, too; nightly all */
	bool		all = n_models++ % check_effort(4, 4, 1) == 0;

	if (!run_start(r, g, e) || !run_alone(r, e) || !run_together(r, &bad, e) ||
		(all && !run_graphs(r, &bad_graphs, e)))
	{
		CHECK(false, "%s: %s", name, e->msg);
		return;
	}
	CHECK(!all || (runs[KRUN_CAPTURE] == 2 && runs[KRUN_REPLAYED] == 12 - 2 - runs[KRUN_EAGER]),
		  "%s: %d steps were made, %d recorded, %d replayed", name, runs[KRUN_EAGER], runs[KRUN_CAPTURE],
		  runs[KRUN_REPLAYED]);
	CHECK(!all || run_asleep(r, &bad_awake, e), "%s: %s", name, e->msg);
	error = max_error(g, r->alone[0], &best);
	if (!rounded)
		cpu = cpu_distance(name, r, g);
	CHECK(best <= (exact ? 5e-3 : 0.08) && error <= (exact ? 0.08 : 0.4),
		  "%s, operands of %s: error %g .. %g", name, ktype_name(as), best, error);
	CHECK(cpu <= (exact ? 5e-3 : 0.06), "%s, operands of %s: %g from the CPU's logits", name, ktype_name(as),
		  cpu);
	CHECK(bad == 0, "%s, operands of %s: %d rows have other bits beside others", name, ktype_name(as), bad);
	CHECK(bad_graphs == 0, "%s, operands of %s: %d rows have other bits in recorded steps", name,
		  ktype_name(as), bad_graphs);
	CHECK(bad_awake == 0, "%s, operands of %s: %d rows have other bits once it was asleep", name,
		  ktype_name(as), bad_awake);
	printf("%-28s %-5s error %.1e .. %.1e", name, ktype_name(as), best, error);
	if (!rounded)
		printf(", %.1e from the CPU's", cpu);
	printf(", %.2f s\n", (double) (clock() - t0) / CLOCKS_PER_SEC);
}

static void
check_model(const char *name, KDevice *d, KPool *pool, KType as)
{
	Run			r = {.dev = {.ops = ops, .d = d, .k = ops->kernels(d, as)},
					 .kv = {.type = as == KT_F32 ? KT_F16 : as}};
	Golden		g;
	Err			e = {0};

	if (!golden_read(name, "", &g))
	{
		CHECK(false, "%s: no expectation", name);
		return;
	}
	if (r.dev.k == NULL)
		check_skip(6, "the device has no ops for operands of that type");
	else if ((r.m = load(name, &r.dev, pool, false, &e)) != NULL)
		check_run(name, &r, &g, as, &e);
	else if (e.cls == ERR_UNSUPPORTED)
		check_skip(6, e.msg);
	else
		CHECK(false, "%s: %s", name, e.msg);
	run_end(&r);
	golden_free(&g);
}

static void
check_tables(const char *name, KDevice *d, KPool *pool)
{
	check_model(name, d, pool, KT_F32);
	check_model(name, d, pool, KT_F16);
	check_model(name, d, pool, KT_BF16);
}

/* With the operand type that suits the weights, given by the name. */
static void
check_own(const char *name, KDevice *d, KPool *pool)
{
	check_model(name, d, pool, strstr(name, "_f16") != NULL ? KT_F16 :
				strstr(name, "_f32") != NULL ? KT_F32 : KT_BF16);
}

/* with weights that no other file has; what tools wrote becomes types that other models have: nightly only */
static int
is_model(const struct dirent *e)
{
	return golden_is_model(e) && strstr(e->d_name, "f16_gguf.bin") == NULL &&
		(strncmp(e->d_name, "tool_", 5) != 0 || check_effort(0, 0, 1) != 0);
}

static void
check_all(KDevice *d, KPool *pool)
{
	static const char *const all_tables[] = {"llama_f32", "mixtral_f16", "mamba2_f16", "gpt_oss_mxfp4"};
	struct dirent **files;
	int			n = scandir(EXPECTED, &files, is_model, alphasort);

	CHECK(n > 0, "directory \"%s\" can't be read", EXPECTED);
	for (size_t i = 0; i < sizeof(all_tables) / sizeof(all_tables[0]); i++)
		RUN_NAMED(all_tables[i], check_tables(all_tables[i], d, pool));
	for (int i = 0; i < n; i++)
	{
		files[i]->d_name[strlen(files[i]->d_name) - 4] = '\0';
		RUN_NAMED(files[i]->d_name, check_own(files[i]->d_name, d, pool));
		free(files[i]);
	}
	if (n > 0)
		free(files);
}

/* most: the allowed error of logits. */
static void
check_fp8(const char *name, KDevice *d, KPool *pool, double most)
{
	const KDeviceOps *cpus = kdevice_of_cpus("host");
	KDevOpen	open = {.max_rows = STEP_ROWS, .max_seqs = SEQS, .max_blocks = BLOCKS, .max_out = STEP_ROWS};
	char		why[256];
	KDevice    *h = cpus->open(0, &host, &open, why, sizeof(why));
	KPool	   *host_pool = kpool_new(1);
	Run			r = {.dev = {.ops = ops, .d = d, .k = ops->kernels(d, KT_BF16)}};
	Run			c = {.dev = {.ops = cpus, .d = h, .k = cpus->kernels(h, KT_F32)}};
	Golden		g;
	Err			e = {0};
	int			bad = 0;
	double		off = 0,
				size = 0;

	kpool_set_device(host_pool, h);
	if (!golden_read(name, "", &g))
	{
		CHECK(false, "%s: no expectation", name);
		return;
	}
	if ((r.m = load(name, &r.dev, pool, true, &e)) == NULL || !run_start(&r, &g, &e) || !run_alone(&r, &e) ||
		!run_together(&r, &bad, &e) || (c.m = load(name, &c.dev, host_pool, true, &e)) == NULL ||
		!run_start(&c, &g, &e) || !run_alone(&c, &e))
		CHECK(false, "%s of FP8: %s", name, e.msg);
	else
	{
		for (size_t i = 0; i < (size_t) g.n_prompt * r.vocab; i++)
		{
			double		diff = (double) r.alone[0][i] - (double) c.alone[0][i];

			off += diff * diff;
			size += (double) c.alone[0][i] * (double) c.alone[0][i];
		}
		off = sqrt(off / size);
		CHECK(model_info(r.m)->dtype == KT_FP8 && model_info(c.m)->dtype == KT_FP8,
			  "%s of FP8: weights are %s and %s", name, ktype_name(model_info(r.m)->dtype),
			  ktype_name(model_info(c.m)->dtype));
		CHECK(off <= most, "%s of FP8: error %g of the CPUs' logits", name, off);
		CHECK(bad == 0, "%s of FP8: %d rows have other bits beside others", name, bad);
		printf("%-24s FP8: error %.1e of the CPUs' logits\n", name, off);
	}
	run_end(&r);
	run_end(&c);
	golden_free(&g);
	kpool_free(host_pool);
	cpus->close(h);
}

/* ---- the device interface ---- */

static KDevice *
open_device(bool fp8_x)
{
	KDevOpen	open = {.max_rows = STEP_ROWS, .max_seqs = SEQS, .max_blocks = BLOCKS, .max_out = STEP_ROWS,
						.invariant = true, .fp8_x = fp8_x};
	char		why[256] = "";
	KDevice    *d = ops->open(0, &host, &open, why, sizeof(why));

	CHECK(d != NULL, "open: %s", why);
	return d;
}

static bool done;

/* Functions that any thread may call. */
static void *
busy(void *arg)
{
	KDevice    *d = arg;
	float	   *a = ops->pin(d, 4096);
	float	   *b = ops->pin(d, 4096);
	int			bad = 0;

	for (int i = 0; i < 50 || !__atomic_load_n(&done, __ATOMIC_ACQUIRE); i++)
	{
		float	   *p = ops->alloc(d, 4096, "test");
		KEvent		up,
					down;

		for (int j = 0; j < 1024; j++)
			a[j] = (float) (i + j);
		memset(b, 0xff, 4096);
		up = ops->kv_put(d, p, a, 4096);
		down = ops->kv_get(d, b, p, 4096);
		while (!ops->event_done(d, up) || !ops->event_done(d, down))
			;
		bad += memcmp(a, b, 4096) != 0;
		ops->free(d, p);
	}
	ops->unpin(d, a);
	ops->unpin(d, b);
	return (void *) (intptr_t) bad;
}

/* The step thread: norms of many rows; each one's sum of squares is then dim. */
static void *
steps(void *arg)
{
	KDevice    *d = arg;
	const Kernels *k = ops->kernels(d, KT_F32);
	KPool	   *pool = kpool_new(1);
	float	   *p = ops->pin(d, 64 * 64 * sizeof(float));
	float	   *x = ops->alloc(d, 64 * 64 * sizeof(float), "test");
	char		why[256];
	intptr_t	bad = 0;

	kpool_set_device(pool, d);
	for (int i = 0; i < 20; i++)
	{
		for (int j = 0; j < 64 * 64; j++)
			p[j] = (float) (j % 97 + i + 1);
		ops->put(d, x, p, 64 * 64 * sizeof(float));
		k->rmsnorm(pool, x, x, NULL, 64, 64, 0.0f);
		ops->get(d, p, x, 64 * 64 * sizeof(float));
		bad += !ops->wait(d, why, sizeof(why));
		for (int r = 0; r < 64; r++)
		{
			double		sum = 0;

			for (int j = 0; j < 64; j++)
				sum += (double) p[r * 64 + j] * (double) p[r * 64 + j];
			bad += !(fabs(sum - 64) < 1e-3);
		}
	}
	ops->free(d, x);
	ops->unpin(d, p);
	kpool_free(pool);
	return (void *) bad;
}

static void
check_threads(void)
{
	KDevice    *d = open_device(false);
	pthread_attr_t small;
	pthread_t	t[3];
	void	   *bad = NULL;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 * 1024);
	for (int i = 0; i < 3; i++)
		CHECK(pthread_create(&t[i], &small, i == 0 ? steps : busy, d) == 0, "no thread");
	pthread_join(t[0], &bad);
	CHECK(bad == NULL, "steps gave other numbers beside other threads");
	__atomic_store_n(&done, true, __ATOMIC_RELEASE);
	for (int i = 1; i < 3; i++)
	{
		pthread_join(t[i], &bad);
		CHECK(bad == NULL, "copies gave other bytes beside steps");
	}
	pthread_attr_destroy(&small);
	ops->close(d);
}

int
main(int argc, char **argv)
{
	const KDeviceOps *library;
	int			first;
	KPool	   *pool = kpool_new(1);
	KDevice    *d;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if ((library = open_device_ops(argc, argv, &first)) == NULL)
		return check_done("test_models");
	counted = *library;
	library_graph = counted.graph;
	counted.graph = count_graph;
	ops = &counted;
	RUN(check_threads());
	d = open_device(false);
	if (d == NULL)
		return check_done("test_models");
	kpool_set_device(pool, d);
	for (int i = first; i < argc; i++)
		RUN(check_tables(argv[i], d, pool));
	if (argc == first)
	{
		check_all(d, pool);
		/* BF16 weights have the same error, because activations are rounded to BF16 */
		check_fp8("llama_f32", d, pool, 0.03);
		RUN(check_fp8("mixtral_f16", d, pool, 0.03));
		ops->close(d);
		d = open_device(true);
		kpool_set_device(pool, d);
		RUN(check_fp8("llama_f32", d, pool, 0.2));
		check_fp8("mixtral_f16", d, pool, 0.3);	/* a row that is routed to another expert */
	}
	kpool_free(pool);
	ops->close(d);
	return check_done("test_models");
}
