/*
 * encoders_golden.c
 *	  Encoders against Hugging Face transformers (gen_encoders.py).
 *
 * Every expectation in encoders_expected has a fixture, which runs on each implementation of the op
 * table that this CPU can run:
 *
 *	- hidden rows of sequences of 1, 2, 17 and as many tokens as fit, and the mean over all
 *	  rows, against the reference, all sequences in one step;
 *	- the same bits for a sequence alone, in another order, on two threads, and with
 *	  only some of its rows wanted;
 *	- quantized on loading, BF16, Q8_0 (if rows are complete blocks) and INT8: the same direction.
 *
 * Tolerances: float weights 2e-5 of the largest error, for rows of order 1, and cosine 0.99999 (except
 * BF16 on avx512_bf16, which rounds activations); quantized cosine 0.999.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "backend/weight_source.h"
#include "tests/golden/encoders.h"
#include "tests/unit/check.h"

static Model *
load(const char *name, Files *f, const Kernels *k, KPool *pool, const char *quant)
{
	Source		source = {.files = f};
	ModelSource src = source_of(&source);
	ModelOptions opt = {.kernels = k, .pool = pool, .max_rows = MAX_ROWS, .max_out = 1};
	Err			e = {0};
	Model	   *m;

	if (quant != NULL)
	{
		opt.quant = quant_scheme(quant) != NULL ? quant_scheme(quant) : quant_dtype(quant);
		CHECK(opt.quant != NULL, "\"%s\" is no quantization or dtype", quant);
	}
	m = model_new(files_conf(f), &src, &opt, &e);
	CHECK(m != NULL, "%s on %s: %s", name, k->name, e.msg);
	return m;
}

/* Stops a step at the n-th poll; n < 0: never. */
typedef struct StopAt
{
	int			n;
	int			asked;
} StopAt;

static bool
stop_at(void *ctx)
{
	StopAt	   *s = ctx;

	return s->asked++ == s->n;
}

/*
 * Run one step of some sequences, order[0] .. order[n - 1]; all rows are wanted, or only the last of
 * each.  out: [rows][width].  stop: NULL = never polled.  Returns false if it was stopped.
 */
static bool
step(Model *m, const Encoder *g, const int *order, int n, bool last, StopAt *stop, float *out)
{
	const ModelInfo *info = model_info(m);
	int32_t		start[MAX_SEQS + 1] = {0};
	int32_t		pos[MAX_ROWS];
	int32_t		tokens[MAX_ROWS];
	int32_t		types[MAX_ROWS];
	int32_t		wanted[MAX_ROWS];
	int32_t		tables[MAX_SEQS][MAX_ROWS / BLOCK];
	const int32_t *table[MAX_SEQS];
	int			used = 0;
	Batch		b = {.tokens = tokens, .types = types, .hidden = true, .out_rows = wanted};
	KvView		kv;
	bool		done;

	for (int i = 0; i < n; i++)
	{
		const Seq  *s = &g->seqs[order[i]];

		for (int j = 0; j < s->n; j++)
		{
			int			row = start[i] + j;

			pos[row] = j;
			tokens[row] = s->ids[j];
			types[row] = s->types[j];
			if (!last || j == s->n - 1)
				wanted[b.n_out++] = row;
		}
		start[i + 1] = start[i] + s->n;
		for (int j = 0; j * BLOCK < s->n; j++)
			tables[i][j] = used++;
		table[i] = tables[i];
	}
	b.rows = (KRows) {.n_rows = start[n], .n_seqs = n, .seq_start = start, .pos = pos, .block_table = table};
	kv = (KvView) {.type = KT_F32, .n_layers = info->n_kv_layers, .n_blocks = used, .block_size = BLOCK,
		.n_kv_heads = info->n_kv_heads, .head_dim = info->head_dim};
	kv.base = mem_try_aligned(kv_layout(&kv) + 64);
	/* NaN, so that reads of unwritten values are detected */
	memset(kv.base, 0xff, kv_layout(&kv));
	if (stop != NULL)
	{
		b.stop = stop_at;
		b.stop_ctx = stop;
	}
	done = model_forward(m, &b, &kv, out);
	mem_free(kv.base);
	return done;
}

/* Each sequence has the same bits in another step as in `all`. */
static void
check_bits(const char *name, Model *m, const Encoder *g, const float *all, const char *how, const int *order,
		   int n, bool last)
{
	size_t		width = (size_t) g->width;
	float	   *out = mem_alloc(MAX_ROWS * width * sizeof(float));
	const float *at = out;

	CHECK(step(m, g, order, n, last, NULL, out), "%s: stopped", name);
	for (int i = 0; i < n; i++)
	{
		const float *want = all;
		int			rows = g->seqs[order[i]].n;

		for (int j = 0; j < order[i]; j++)
			want += (size_t) g->seqs[j].n * width;
		if (last)
			want += (size_t) (rows - 1) * width;
		rows = last ? 1 : rows;
		CHECK(memcmp(at, want, (size_t) rows * width * sizeof(float)) == 0,
			  "%s: sequence %d has other bits %s", name, order[i], how);
		at += (size_t) rows * width;
	}
	mem_free(out);
}

/* Wherever it is stopped, a step leaves no trace: the next one has the bits of `all`. */
static void
check_stop(const char *name, Model *m, const Encoder *g, const float *all, const int *order, int n)
{
	size_t		width = (size_t) g->width;
	float	   *out = mem_alloc(MAX_ROWS * width * sizeof(float));
	StopAt		never = {.n = -1};

	CHECK(step(m, g, order, n, false, &never, out), "%s: stopped by itself", name);
	/* polled at least before each layer's products */
	CHECK(never.asked > 4 * model_info(m)->n_layers, "%s: asked %d times", name, never.asked);
	for (int i = 0; i < never.asked; i++)
	{
		StopAt		stop = {.n = i};

		CHECK(!step(m, g, order, n, false, &stop, out) && stop.asked == i + 1,
			  "%s: asked %d times, stopped by the one after %d", name, stop.asked, i);
	}
	check_bits(name, m, g, all, "behind steps that were stopped", order, n, false);
	mem_free(out);
}

static void
check_model(const char *name, Files *f, const Encoder *g, const Kernels *k, KPool *pool, KPool *pool2,
			const char **arch)
{
	static const char *const quants[] = {NULL, "bfloat16", "q8_0", "int8"};
	size_t		bytes = MAX_ROWS * (size_t) g->width * sizeof(float);
	float	   *all = mem_alloc(bytes);
	int			order[MAX_SEQS];
	int			back[MAX_SEQS];
	double		cosines[4] = {0};
	double		error = 0;
	double		ignored;
	Model	   *m;

	for (int i = 0; i < g->n_seqs; i++)
	{
		order[i] = i;
		back[i] = g->n_seqs - 1 - i;
	}
	for (int q = 3; q >= 0; q--)
	{
		if ((m = load(name, f, k, pool, quants[q])) == NULL)
			continue;
		*arch = model_info(m)->arch;	/* a constant of models.def */
		CHECK(model_info(m)->hidden_size == g->width && model_info(m)->both_ways && !model_info(m)->generates,
			  "%s: %d wide", name, model_info(m)->hidden_size);
		step(m, g, order, g->n_seqs, false, NULL, all);
		cosines[q] = encoder_compare(g, all, q == 0, q == 0 ? &error : &ignored);
		CHECK(cosines[q] >= (q == 0 ? 0.99999 : 0.999), "%s on %s as %s: cosine %.7f", name, k->name,
			  q == 0 ? "it is" : quants[q], cosines[q]);
		if (q == 0)
		{
			CHECK(error <= 2e-5, "%s on %s: error %.2g", name, k->name, error);
			check_bits(name, m, g, all, "in another order", back, g->n_seqs, false);
			check_bits(name, m, g, all, "with only its last row wanted", order, g->n_seqs, true);
			for (int i = 0; i < g->n_seqs; i++)
				check_bits(name, m, g, all, "by itself", &order[i], 1, false);
			check_stop(name, m, g, all, order, 1);
		}
		model_free(m);
	}
	if ((m = load(name, f, k, pool2, NULL)) != NULL)
		check_bits(name, m, g, all, "on two threads", order, g->n_seqs, false);
	model_free(m);
	printf("%-22s %-16s error %.1e, cosine %.7f, bf16 %.6f, q8_0 %.6f, int8 %.6f\n", name, k->name, error,
		   cosines[0], cosines[1], cosines[2], cosines[3]);
	mem_free(all);
}

/* Print "cell ARCHITECTURE CONTAINER FORMAT NAME" for models_table.py, as models_golden does. */
static void
print_cell(const char *name, const Files *f, const char *arch)
{
	uint64_t	bytes[KT_END] = {0};
	int			most = 0;

	for (size_t i = 0; i < files_count(f); i++)
		bytes[files_tensor(f, i)->type] += files_tensor(f, i)->nbytes;
	for (int t = 0; t < KT_END; t++)
		if (bytes[t] > bytes[most])
			most = t;
	printf("cell %s %s %s %s\n", arch, conf_has(files_conf(f), "gguf.architecture") ? "gguf" : "safetensors",
		   ktype_name((KType) most), name);
}

static void
check_fixture(const char *name, KPool *pool, KPool *pool2)
{
	Encoder		g;
	Files	   *f = encoder_files(name);
	bool		ok = encoder_read(name, &g);
	int			failed = check_failed;
	const char *arch = NULL;

	CHECK(ok, "%s: no usable expectation", name);
	for (const Kernels *const *k = kernels_all(); f != NULL && ok && *k != NULL; k++)
	{
		char		why[160];

		if (kernels_usable(*k))
			check_model(name, f, &g, *k, pool, pool2, &arch);
		else
		{
			snprintf(why, sizeof(why), "this CPU can't run %s", (*k)->name);
			check_skip(8, why);
		}
	}
	if (arch != NULL && check_failed == failed)
		print_cell(name, f, arch);
	encoder_free(&g);
	files_close(f);
}

/* encoders_golden [NAME ...]: these, or all. */
int
main(int argc, char **argv)
{
	KPool	   *pool = kpool_new(1);
	KPool	   *pool2 = kpool_new(2);
	struct dirent **files;
	int			n = argc > 1 ? 0 : scandir(EXPECTED, &files, encoder_is_model, alphasort);

	/* complete lines, also if stderr goes to the same file: models_table.py reads them */
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 1; i < argc; i++)
		RUN_NAMED(argv[i], check_fixture(argv[i], pool, pool2));
	CHECK(n >= 0, "directory \"%s\" can't be read", EXPECTED);
	for (int i = 0; i < n; i++)
	{
		files[i]->d_name[strlen(files[i]->d_name) - 4] = '\0';
		RUN_NAMED(files[i]->d_name, check_fixture(files[i]->d_name, pool, pool2));
		free(files[i]);
	}
	if (n > 0)
		free(files);
	kpool_free(pool);
	kpool_free(pool2);
	return check_done("encoders_golden");
}
