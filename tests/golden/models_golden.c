/*
 * models_golden.c
 *	  Whole models against Hugging Face transformers (gen_models.py, gen_archs.py).
 *
 * Every expectation in models_expected has a fixture, which runs on each implementation of the op table
 * that this CPU can run:
 *
 *	- logits at some positions of the prompt, and 64 greedy tokens, against the
 *	  reference;
 *	- the same bits when the prompt is fed in one step, in chunks of 7, token by token,
 *	  on two threads, together with another sequence, or with only the last row wanted;
 *	  on the best implementation also as one of many sequences, with more rows than
 *	  any block takes at once.
 *
 * The KV cache is paged in shuffled blocks and begins as NaN, so that reading an unwritten position is
 * detected.
 *
 * Tolerances of the maximum absolute error, for logits of order 1:
 *	  2e-5	float weights where activations stay float
 *	  0.08	BF16 weights on avx512_bf16, which rounds activations to BF16
 *	  0.15	quantized weights, where activations are rounded to 8 bits in blocks of 32
 *	  0.4	INT8, where activations are rounded to 7 bits between the ends of 128
 *	  2e-5	the last three against a reference with the same rounding, at the best of
 *			eight positions; the others by those tolerances: a value on the border of two
 *			roundings may fall to either side, and everything after it differs by roundings
 * For FP8 weights that stay FP8 the reference is one that doesn't round their values to BF16
 * (NAME_fp8.bin).  The reference's greedy tokens are fed; if the tolerance isn't the first one, each
 * must be within twice the tolerance of our best token instead of being the best.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "backend/weight_source.h"
#include "tests/golden/golden.h"
#include "tests/unit/check.h"
#include "tests/unit/file_types.h"

#define FIXTURES "build/fixtures/models/"
#define BLOCK 16
#define CROWD_ROWS 600			/* at least: more than stack_rows() of model.c */

/* The KV cache of a sequence: its own blocks, shuffled. */
typedef struct Run
{
	Model	   *m;
	KvView		kv;
	int32_t		table[2][MAX_TOKENS / BLOCK];
	float	   *logits;			/* [MAX_ROWS][vocab] */
	float	   *state;			/* of two sequences */
	int32_t		slot[2];
} Run;

static Files *
open_files(const char *name)
{
	char		path[256];
	size_t		n = strlen(name);
	Err			e = {0};
	Files	   *f;

	snprintf(path, sizeof(path), FIXTURES "%s%s", name,
			 n > 5 && strcmp(name + n - 5, "_gguf") == 0 ? ".gguf" : "");
	f = files_open(path, &e);
	CHECK(f != NULL, "%s: %s", path, e.msg);
	return f;
}

static Model *
load_as(const char *name, Files *f, const Kernels *k, KPool *pool, int max_rows, const QuantScheme *quant)
{
	Source		source = {.files = f};
	ModelSource src = source_of(&source);
	ModelOptions opt = {.kernels = k, .pool = pool, .max_rows = max_rows, .max_out = MAX_ROWS,
		.quant = quant};
	Err			e = {0};
	Model	   *m = model_new(files_conf(f), &src, &opt, &e);

	source_done(&source);
	CHECK(m != NULL, "%s: %s (%s)", name, e.msg, e.detail);
	return m;
}

static Model *
load_for(const char *name, Files *f, const Kernels *k, KPool *pool, int max_rows)
{
	return load_as(name, f, k, pool, max_rows, NULL);
}

static Model *
load(const char *name, Files *f, const Kernels *k, KPool *pool)
{
	return load_for(name, f, k, pool, MAX_ROWS);
}

static void
run_start(Run *r, Model *m)
{
	const ModelInfo *info = model_info(m);
	int			per_seq = MAX_TOKENS / BLOCK;
	size_t		size;

	memset(r, 0, sizeof(*r));
	r->m = m;
	r->kv = (KvView) {.type = KT_F32, .n_layers = info->n_kv_layers, .n_blocks = 2 * per_seq,
		.block_size = BLOCK, .n_kv_heads = info->n_kv_heads, .head_dim = info->head_dim,
		.v_dim = info->v_dim};
	size = info->n_kv_layers > 0 ? kv_layout(&r->kv) : 0;
	r->kv.base = mem_try_aligned(size + 64);
	memset(r->kv.base, 0xff, size);
	r->state = mem_try_aligned(2 * info->state_bytes + 64);
	memset(r->state, 0xff, 2 * info->state_bytes);
	r->slot[0] = 1;
	for (int i = 0; i < 2 * per_seq; i++)
		r->table[i % 2][i / 2] = (i * 11 + 5) % (2 * per_seq);
	r->logits = mem_alloc((size_t) MAX_ROWS * (size_t) info->vocab_size * sizeof(float));
}

static void
run_end(Run *r)
{
	mem_free(r->kv.base);
	mem_free(r->state);
	mem_free(r->logits);
}

/* Feed n tokens of sequence seq from position pos on; logits of the last n_out. */
static void
feed_out(Run *r, int seq, const int32_t *tokens, int n, int pos, int n_out)
{
	int32_t		start[2] = {0, n};
	int32_t		p[MAX_ROWS];
	int32_t		out[MAX_ROWS];
	const int32_t *tables[1] = {r->table[seq]};
	Batch		b = {.rows = {n, 1, start, p, tables, &r->slot[seq]}, .tokens = tokens, .n_out = n_out,
					 .out_rows = out,
		.state = r->state};

	for (int i = 0; i < n; i++)
		p[i] = pos + i;
	for (int i = 0; i < n_out; i++)
		out[i] = n - n_out + i;
	model_forward(r->m, &b, &r->kv, r->logits);
}

/* The same with the logits of all rows. */
static void
feed(Run *r, int seq, const int32_t *tokens, int n, int pos)
{
	feed_out(r, seq, tokens, n, pos, n);
}

/* Prefill in chunks; keeps the logits of all positions in all[n][vocab]. */
static void
prefill(Run *r, int seq, const int32_t *tokens, int n, int chunk, float *all)
{
	size_t		vocab = (size_t) model_info(r->m)->vocab_size;

	for (int at = 0; at < n; at += chunk)
	{
		int			c = at + chunk < n ? chunk : n - at;

		feed(r, seq, tokens + at, c, at);
		memcpy(all + (size_t) at * vocab, r->logits, (size_t) c * vocab * sizeof(float));
	}
}

/*
 * One batch of two sequences: a new one's first tokens after a decode row of the other one; only the
 * wanted rows are requested.
 */
static void
mixed(Run *r, const Golden *g, float *first, float *last)
{
	int			n = g->n_prompt;
	int32_t		start[3] = {0, 1, n};
	int32_t		p[MAX_ROWS];
	int32_t		tokens[MAX_ROWS];
	int32_t		out[2] = {0, n - 1};
	const int32_t *tables[2] = {r->table[0], r->table[1]};
	size_t		vocab = (size_t) g->vocab;
	Batch		b = {.rows = {n, 2, start, p, tables, r->slot}, .tokens = tokens, .n_out = 2, .out_rows = out,
		.state = r->state};

	/* a recurrent state can't be rewound */
	if (model_info(r->m)->state_bytes > 0)
		feed_out(r, 0, g->prompt, n - 1, 0, 0);

	p[0] = n - 1;				/* the last token of sequence 0 once more */
	tokens[0] = g->prompt[n - 1];
	for (int i = 1; i < n; i++)
	{
		p[i] = i - 1;
		tokens[i] = g->prompt[i - 1];
	}
	model_forward(r->m, &b, &r->kv, r->logits);
	memcpy(first, r->logits, vocab * sizeof(float));
	memcpy(last, r->logits + vocab, vocab * sizeof(float));
}

static int
argmax(const float *x, int n)
{
	int			best = 0;

	for (int i = 1; i < n; i++)
		if (x[i] > x[best])
			best = i;
	return best;
}

/*
 * Count the greedy tokens that agree with the reference; *gap: how far the reference's token was below
 * our best, at most.  The reference's tokens are fed.
 */
static int
greedy(Run *r, const Golden *g, const float *last, float *gap)
{
	const float *x = last;
	int			equal = 0;

	*gap = 0;
	for (int i = 0; i < g->n_greedy; i++)
	{
		int			best = argmax(x, g->vocab);
		float		d = x[best] - x[g->greedy[i]];

		equal += best == g->greedy[i];
		if (d > *gap)
			*gap = d;
		feed(r, 0, &g->greedy[i], 1, g->n_prompt + i);
		x = r->logits;
	}
	return equal;
}

/* Return the largest absolute error; *best: that of the best position. */
static double
max_error(const Golden *g, const float *all, double *best)
{
	double		worst = 0;

	*best = INFINITY;
	for (int i = 0; i < g->n_pos; i++)
	{
		double		err = 0;

		for (int j = 0; j < g->vocab; j++)
		{
			double		d = fabs((double) g->logits[i * g->vocab + j] -
								 (double) all[g->pos[i] * g->vocab + j]);

			if (!(d <= err))
				err = d;
		}
		if (!(err <= worst))
			worst = err;
		if (err < *best)
			*best = err;
	}
	return worst;
}

/*
 * Compare with one expectation: logits of the prompt, then greedy tokens.  Leaves the prompt's logits in
 * all.
 */
static void
check_reference(Run *r, const char *name, const char *suffix, const Kernels *k, const Golden *g,
				double tol, float *all)
{
	bool		exact = tol < 1e-3;
	double		err;
	double		best;
	float		gap;
	int			equal;

	prefill(r, 0, g->prompt, g->n_prompt, MAX_ROWS, all);
	err = max_error(g, all, &best);
	CHECK(err <= tol, "%s%s on %s: error %g, allowed %g", name, suffix, k->name, err, tol);
	if (suffix[0] != '\0')
		CHECK(best <= 2e-5, "%s%s on %s: error %g at the best position", name, suffix, k->name, best);
	equal = greedy(r, g, all + (size_t) (g->n_prompt - 1) * (size_t) g->vocab, &gap);
	CHECK(exact ? equal == g->n_greedy : gap <= 2 * tol,
		  "%s%s on %s: %d of %d greedy tokens equal, gap %g", name, suffix, k->name, equal,
		  g->n_greedy, (double) gap);
	printf("%-22s%-6s %-16s error %.1e .. %.1e, %d of %d tokens\n", name, suffix, k->name, best, err, equal,
		   g->n_greedy);
}

/* The prompt as many sequences of one batch: each one's last row equals that in all. */
static void
check_crowd(const char *name, Files *f, const Golden *g, const Kernels *k, KPool *pool, const float *all)
{
	int			n = g->n_prompt;
	int			seqs = (CROWD_ROWS + n - 1) / n;
	int			rows = seqs * n;
	int			blocks = (n + BLOCK - 1) / BLOCK;
	size_t		vocab = (size_t) g->vocab;
	Model	   *m = load_for(name, f, k, pool, rows);
	const ModelInfo *info = m != NULL ? model_info(m) : NULL;
	int32_t    *ints = mem_alloc((size_t) (3 * rows + 3 * seqs + 1 + seqs * blocks) * sizeof(int32_t));
	int32_t    *tokens = ints + rows;
	int32_t    *start = tokens + rows;
	int32_t    *out = start + seqs + 1;
	int32_t    *slot = out + seqs;
	int32_t    *table = slot + seqs;
	const int32_t **tables = mem_alloc((size_t) seqs * sizeof(*tables));
	float	   *logits = mem_alloc((size_t) seqs * vocab * sizeof(float));
	Batch		b = {.rows = {rows, seqs, start, ints, tables, slot}, .tokens = tokens, .n_out = seqs,
					 .out_rows = out};
	KvView		kv;
	int			bad = 0;

	for (int i = 0; i < rows; i++)
	{
		ints[i] = i % n;
		tokens[i] = g->prompt[i % n];
	}
	for (int i = 0; i < seqs; i++)
	{
		start[i] = i * n;
		out[i] = i * n + n - 1;
		slot[i] = i;
		tables[i] = table + i * blocks;
		for (int j = 0; j < blocks; j++)
			table[i * blocks + j] = j * seqs + i;
	}
	start[seqs] = rows;
	if (m != NULL)
	{
		kv = (KvView) {.type = KT_F32, .n_layers = info->n_kv_layers, .n_blocks = seqs * blocks,
					   .block_size = BLOCK,
			.n_kv_heads = info->n_kv_heads, .head_dim = info->head_dim, .v_dim = info->v_dim};
		kv.base = mem_try_aligned((info->n_kv_layers > 0 ? kv_layout(&kv) : 0) + 64);
		b.state = mem_try_aligned((size_t) seqs * info->state_bytes + 64);
		model_forward(m, &b, &kv, logits);
		for (int i = 0; i < seqs; i++)
			bad += memcmp(logits + (size_t) i * vocab, all + (size_t) (n - 1) * vocab,
						  vocab * sizeof(float)) != 0;
		CHECK(bad == 0, "%s on %s: %d of %d sequences have other bits in one batch", name, k->name, bad,
			  seqs);
		mem_free(kv.base);
		mem_free(b.state);
	}
	model_free(m);
	mem_free(logits);
	mem_free((void *) tables);
	mem_free(ints);
}

/* Hidden rows together with logits: those of Batch.hidden, and the logits are unchanged. */
static void
check_taps(const char *name, Run *r, const Golden *g, const float *all)
{
	const ModelInfo *info = model_info(r->m);
	int			n = g->n_prompt;
	size_t		width = (size_t) info->hidden_size;
	size_t		vocab = (size_t) g->vocab;
	float	   *rows = mem_alloc((size_t) n * width * sizeof(float));
	float	   *wanted = mem_alloc(2 * width * sizeof(float));
	float	   *raw = mem_alloc(2 * width * sizeof(float));
	float	   *mid = mem_alloc(2 * (size_t) n * width * sizeof(float));
	float	   *hidden = mem_alloc((size_t) n * width * sizeof(float));
	int			layers = info->norms_first ? 2 : 0;
	ModelTaps	t = {.all = rows, .out = wanted, .raw = raw, .mid = mid, .n_layers = layers,
					 .layers = {0, info->n_layers - 1}};
	int32_t		start[2] = {0, n};
	int32_t		p[MAX_ROWS];
	int32_t		out[MAX_ROWS];
	const int32_t *tables[1] = {r->table[0]};
	Batch		b = {.rows = {n, 1, start, p, tables, &r->slot[0]}, .tokens = g->prompt, .n_out = n,
					 .out_rows = out,
		.state = r->state, .hidden = true};
	int			at[2] = {n / 2, n - 1};

	for (int i = 0; i < n; i++)
		p[i] = out[i] = i;
	model_forward(r->m, &b, &r->kv, hidden);
	for (size_t i = 0; i < 2 * (size_t) n * width; i++)
		mid[i] = NAN;
	b.hidden = false;
	b.taps = &t;
	b.n_out = 2;
	memcpy(out, at, sizeof(at));
	model_forward(r->m, &b, &r->kv, r->logits);
	CHECK(memcmp(rows, hidden, (size_t) n * width * sizeof(float)) == 0,
		  "%s: other hidden rows beside the logits", name);
	for (size_t i = 0; i < 2; i++)
	{
		CHECK(memcmp(r->logits + i * vocab, all + (size_t) at[i] * vocab, vocab * sizeof(float)) == 0,
			  "%s: other logits beside hidden rows", name);
		CHECK(memcmp(wanted + i * width, hidden + (size_t) at[i] * width, width * sizeof(float)) == 0,
			  "%s: other wanted hidden rows", name);
	}
	for (size_t i = 0; i < 2 * (size_t) n * width && layers > 0; i++)
		if (isnan(mid[i]))
		{
			CHECK(false, "%s: no row that goes into layer %d", name, t.layers[i / width % 2]);
			break;
		}
	t = (ModelTaps) {.out = hidden, .raw = mid};
	mid[0] = NAN;				/* some models have no last norm */
	model_forward(r->m, &b, &r->kv, r->logits);
	CHECK(memcmp(wanted, hidden, 2 * width * sizeof(float)) == 0, "%s: other hidden rows without all", name);
	CHECK(isnan(mid[0]) || memcmp(raw, mid, 2 * width * sizeof(float)) == 0,
		  "%s: other rows before the last norm", name);
	t.all = rows;
	b.n_out = 0;
	model_forward(r->m, &b, &r->kv, NULL);
	mem_free(rows);
	mem_free(wanted);
	mem_free(raw);
	mem_free(mid);
	mem_free(hidden);
}

static const Kernels *on_cpu;

/* GPUs have no types for float activations */
static size_t
gpu_bytes(KType t, int n, int k)
{
	return t > KT_FP8 ? 0 : on_cpu->mat_bytes(t, n, k);
}

/* Kernels without those types: refused, with a hint. */
static void
check_refused(const char *name, Files *f, const Kernels *k)
{
	Kernels		gpu = *k;
	Source		source = {.files = f};
	ModelSource src = source_of(&source);
	ModelInfo	info;
	Err			e = {0};

	on_cpu = k;
	gpu.mat_bytes = gpu_bytes;
	CHECK(!model_check(files_conf(f), &src, quant_with_x(NULL, X_FLOAT), &gpu, &info, &e) &&
		  e.cls == ERR_UNSUPPORTED && strstr(e.msg, " x float, which the ") != NULL &&
		  strstr(e.hint, "on CPUs only") != NULL, "%s without the kernels: %s, %s", name, e.msg, e.hint);
	source_done(&source);
}

/*
 * Weights of 4 and 8 bits with float activations: nearer to the dequantized model than what was computed
 * with rounded ones, in `all`.  Where the matrices hold their values exactly, which have an expectation of
 * rounded activations, it is that model to the last digits; but quant_gptq_head has one of 8 bits, which
 * becomes F16.
 */
static void
check_float_x(const char *name, Files *f, const Golden *g, const Kernels *k, KPool *pool, const float *all)
{
	float	   *floats = mem_alloc((size_t) g->n_prompt * (size_t) g->vocab * sizeof(float));
	Model	   *m = load_as(name, f, k, pool, MAX_ROWS, quant_with_x(NULL, X_FLOAT));
	double		best;
	double		rounded = max_error(g, all, &best);
	Golden		g2;
	bool		exact = strcmp(name, "quant_gptq_head") != 0 && golden_read(name, "_int8", &g2);
	Run			r;

	if (m != NULL)
	{
		run_start(&r, m);
		check_reference(&r, name, "", k, g, exact ? 2e-5 : rounded / 2, floats);
		run_end(&r);
	}
	check_refused(name, f, k);
	if (exact)
		golden_free(&g2);
	model_free(m);
	mem_free(floats);
}

/*
 * INT8 with one scale a token, or with the files' own: as near to the dequantized model as 8 bits are, and
 * to the last digits what compressed-tensors' rounding of the activations gives.
 */
static void
check_rounded_x(const char *name, Files *f, const Golden *g, const Kernels *k, KPool *pool, XScheme x)
{
	const char *suffix = x == X_STATIC ? "_static" : "_dynamic";
	float	   *all = mem_alloc((size_t) g->n_prompt * (size_t) g->vocab * sizeof(float));
	Model	   *m = load_as(name, f, k, pool, MAX_ROWS, quant_with_x(NULL, x));
	double		best;
	Golden		g2;
	Run			r;

	if (m != NULL)
	{
		run_start(&r, m);
		/* static scales cut off a fifth of what was seen */
		check_reference(&r, name, "", k, g, x == X_STATIC ? 0.6 : 0.4, all);
		CHECK(max_error(g, all, &best) > 1e-4, "%s on %s: no activation is rounded", name, k->name);
		if (golden_read(name, suffix, &g2))
		{
			check_reference(&r, name, suffix, k, &g2, 0.4, all);
			golden_free(&g2);
		}
		run_end(&r);
	}
	model_free(m);
	mem_free(all);
}

/* Return true if the model's files have static scales: those of its expectation, or ModelOpt's. */
static bool
has_static(const char *name)
{
	Golden		g;
	bool		has = golden_read(name, "_static", &g);

	if (has)
		golden_free(&g);
	return has || strcmp(name, "tool_modelopt_int8") == 0;
}

/* Files without static scales of all matrices: refused, with a hint. */
static void
check_no_static(const char *name, Files *f, const Kernels *k)
{
	Source		source = {.files = f};
	ModelSource src = source_of(&source);
	ModelInfo	info;
	Err			e = {0};

	CHECK(!model_check(files_conf(f), &src, quant_with_x(NULL, X_STATIC), k, &info, &e) &&
		  e.cls == ERR_UNSUPPORTED && strstr(e.msg, "they have none") != NULL &&
		  strstr(e.hint, "\"dynamic\"") != NULL, "%s without static scales: %s, %s", name, e.msg, e.hint);
	source_done(&source);
}

static void
check_model(const char *name, Files *f, const Golden *g, const Kernels *k, KPool *pool, KPool *pool2,
			const char **arch)
{
	size_t		bytes = (size_t) g->n_prompt * (size_t) g->vocab * sizeof(float);
	size_t		row = (size_t) g->vocab * sizeof(float);
	float	   *all = mem_alloc(bytes);
	float	   *other = mem_alloc(bytes);
	float	   *first = mem_alloc(row);
	float	   *last = mem_alloc(row);
	Model	   *m = load(name, f, k, pool);
	Model	   *m2 = load(name, f, k, pool2);
	int			n = g->n_prompt;
	Run			r;

	if (m != NULL)
		*arch = model_info(m)->arch;	/* a constant of models.def */
	if (m != NULL && m2 != NULL)
	{
		KType		type = model_info(m)->dtype;
		bool		bf16 = (type == KT_BF16 || type == KT_FP8) && strstr(k->name, "bf16") != NULL;
		bool		int8 = type > KT_BF16 && type != KT_FP8;
		const char *rounded = int8 ? "_int8" : bf16 ? "_bf16" : NULL;
		double		tol = type == KT_INT8 ? 0.4 : int8 ? 0.15 : bf16 ? 0.08 : 2e-5;
		Golden		g2;

		run_start(&r, m);
		if (rounded != NULL && golden_read(name, rounded, &g2))
		{
			check_reference(&r, name, rounded, k, &g2, tol, all);
			golden_free(&g2);
		}
		check_reference(&r, name, "", k, g, tol, all);
		mixed(&r, g, first, last);
		CHECK(memcmp(first, all + (size_t) (n - 1) * (size_t) g->vocab, row) == 0,
			  "%s on %s: a decode row changes beside another sequence", name, k->name);
		CHECK(memcmp(last, all + (size_t) (n - 2) * (size_t) g->vocab, row) == 0,
			  "%s on %s: a prompt's row changes beside another sequence", name, k->name);
		run_end(&r);

		run_start(&r, m);
		check_taps(name, &r, g, all);
		run_end(&r);

		run_start(&r, m);
		prefill(&r, 1, g->prompt, n, 7, other);
		CHECK(memcmp(all, other, bytes) == 0, "%s on %s: chunks of 7 give other bits", name, k->name);
		run_end(&r);

		run_start(&r, m);
		feed_out(&r, 0, g->prompt, n - 5, 0, 0);
		feed_out(&r, 0, g->prompt + n - 5, 5, n - 5, 1);
		CHECK(memcmp(r.logits, all + (size_t) (n - 1) * (size_t) g->vocab, row) == 0,
			  "%s on %s: other bits when only the last row is wanted", name, k->name);
		run_end(&r);

		run_start(&r, m2);
		prefill(&r, 0, g->prompt, n, 1, other);
		CHECK(memcmp(all, other, bytes) == 0, "%s on %s: single tokens give other bits", name, k->name);
		prefill(&r, 1, g->prompt, n, MAX_ROWS, other);
		CHECK(memcmp(all, other, bytes) == 0, "%s on %s: two threads give other bits", name, k->name);
		run_end(&r);
		if (type == KT_Q4_0 || type == KT_Q4_1 || type == KT_INT8)
			RUN(check_float_x(name, f, g, k, pool, all));
		if (type == KT_INT8)
			RUN(check_rounded_x(name, f, g, k, pool, X_DYNAMIC));
		if (type == KT_INT8 && has_static(name))
			RUN(check_rounded_x(name, f, g, k, pool, X_STATIC));
		else if (type == KT_INT8)
			RUN(check_no_static(name, f, k));
		if (k == kernels_select("auto", NULL))
			check_crowd(name, f, g, k, pool2, all);
	}
	model_free(m);
	model_free(m2);
	mem_free(all);
	mem_free(other);
	mem_free(first);
	mem_free(last);
}

/*
 * Print "cell ARCHITECTURE CONTAINER FORMAT NAME" for models_table.py: a model that agrees with the
 * reference.  The format is the quantization method of a quantized checkpoint, else the type of most
 * weights in the file.
 */
static void
print_cell(const char *name, const Files *f, const char *arch)
{
	uint64_t	bytes[KT_END] = {0};	/* some types exist only in files */
	int			most = 0;
	const Conf *c = files_conf(f);
	const char *method = conf_str(c, "quantization_config.quant_method", NULL);

	for (size_t i = 0; i < files_count(f); i++)
		bytes[files_tensor(f, i)->type] += files_tensor(f, i)->nbytes;
	for (int t = 0; t < KT_END; t++)
		if (bytes[t] > bytes[most])
			most = t;
	printf("cell %s %s %s %s\n", arch, conf_has(c, "gguf.architecture") ? "gguf" : "safetensors",
		   method != NULL ? method : ktype_name((KType) most), name);
}

static void
check_fixture(const char *name, KPool *pool, KPool *pool2)
{
	Golden		g;
	Golden		fp8;
	Files	   *f = open_files(name);
	bool		ok = golden_read(name, "", &g);
	bool		has_fp8 = golden_read(name, "_fp8", &fp8);
	int			failed = check_failed;
	const char *arch = NULL;

	CHECK(ok, "%s: no usable expectation", name);
	for (const Kernels *const *k = kernels_all(); f != NULL && ok && *k != NULL; k++)
	{
		char		why[160];

		if (!kernels_usable(*k))
			snprintf(why, sizeof(why), "this CPU can't run %s", (*k)->name);
		else if (!has_all_types(*k, f))
			snprintf(why, sizeof(why), "%s has not all types of %s", (*k)->name, name);
		else
		{
			check_model(name, f, has_fp8 && (*k)->mat_bytes(KT_FP8, 128, 128) > 0 ? &fp8 : &g, *k, pool,
						pool2, &arch);
			continue;
		}
		check_skip(8, why);
	}
	if (arch != NULL && check_failed == failed)
		print_cell(name, f, arch);
	golden_free(&g);
	golden_free(&fp8);
	files_close(f);
}

/* models_golden [NAME ...]: these, or all. */
int
main(int argc, char **argv)
{
	KPool	   *pool = kpool_new(1);
	KPool	   *pool2 = kpool_new(2);
	struct dirent **files;
	int			n = argc > 1 ? 0 : scandir(EXPECTED, &files, golden_is_model, alphasort);

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
	return check_done("models_golden");
}
