/*
 * draft_golden.c
 *	  Drafters against PyTorch (gen_drafts.py).
 *
 * For some positions of a prompt: from the target's hidden rows, as the engine computes them, the
 * drafter makes the drafts after the next token, which must equal the reference's, for chains with their
 * logits within 2e-5.  The same bits when rows come in chunks, and together with another sequence.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "backend/weight_source.h"
#include "model/draft/draft.h"
#include "tests/unit/check.h"

#define FIXTURES "build/fixtures/drafts/"
#define EXPECTED "tests/golden/drafts_expected/"
#define BLOCK 16
#define BLOCKS 8
#define MAX_ROWS 64
#define MAX_K 8
#define TOLERANCE 2e-5

typedef struct Golden
{
	int32_t		n_prompt;
	int32_t		n_starts;
	int32_t		k;
	int32_t		vocab;			/* 0: heads */
	int32_t		prompt[MAX_ROWS];
	int32_t		starts[MAX_ROWS];
	int32_t		guesses[MAX_ROWS][MAX_K];
	float	   *logits;			/* [n_starts][k][vocab] */
} Golden;

static bool
golden_read(const char *name, Golden *g)
{
	char		path[256];
	FILE	   *f;
	bool		ok;

	memset(g, 0, sizeof(*g));
	snprintf(path, sizeof(path), EXPECTED "%s.bin", name);
	if ((f = fopen(path, "rb")) == NULL)
		return false;
	ok = fread(g, sizeof(int32_t), 4, f) == 4 && g->n_prompt <= MAX_ROWS && g->n_starts <= MAX_ROWS &&
		g->k <= MAX_K && fread(g->prompt, sizeof(int32_t), (size_t) g->n_prompt, f) == (size_t) g->n_prompt &&
		fread(g->starts, sizeof(int32_t), (size_t) g->n_starts, f) == (size_t) g->n_starts;
	g->logits = mem_alloc((size_t) g->n_starts * (size_t) g->k * (size_t) g->vocab * sizeof(float));
	for (int i = 0; ok && i < g->n_starts; i++)
		ok = fread(g->guesses[i], sizeof(int32_t), (size_t) g->k, f) == (size_t) g->k &&
			fread(g->logits + (size_t) i * (size_t) g->k * (size_t) g->vocab, sizeof(float),
				  (size_t) g->k * (size_t) g->vocab, f) ==
			(size_t) g->k * (size_t) g->vocab;
	fclose(f);
	return ok;
}

static Files *
open_files(const char *name)
{
	char		path[256];
	Err			e = {0};
	Files	   *f;

	snprintf(path, sizeof(path), FIXTURES "%s", name);
	f = files_open(path, &e);
	CHECK(f != NULL, "%s: %s", path, e.msg);
	return f;
}

static KvView
make_kv(const ModelInfo *info)
{
	KvView		kv = {.type = KT_F32, .n_layers = info->n_kv_layers, .n_blocks = 2 * BLOCKS,
					  .block_size = BLOCK,
		.n_kv_heads = info->n_kv_heads, .head_dim = info->head_dim, .v_dim = info->v_dim};
	size_t		size = info->n_kv_layers > 0 ? kv_layout(&kv) : 0;

	kv.base = mem_try_aligned(size + 64);
	memset(kv.base, 0xff, size);
	return kv;
}

static const int32_t tables[2][BLOCKS] = {{3, 9, 0, 12, 5, 7, 1, 14}, {2, 4, 6, 8, 10, 11, 13, 15}};

typedef struct Given
{
	float	   *rows;			/* [n_prompt][given] of the target */
	int			width;
} Given;

/* Compute the target's rows of the whole prompt. */
static Given
target_rows(Model *m, const Golden *g, const DraftInfo *info)
{
	Given		out = {.width = info->given};
	int			n = g->n_prompt;
	int32_t		start[2] = {0, n};
	int32_t		pos[MAX_ROWS];
	const int32_t *t[1] = {tables[0]};
	KvView		kv = make_kv(model_info(m));
	ModelTaps	taps = {.n_layers = info->n_layers, .all_raw = info->raw};
	Batch		b = {.rows = {.n_rows = n, .n_seqs = 1, .seq_start = start, .pos = pos, .block_table = t},
					 .tokens = g->prompt, .taps = &taps};

	out.rows = mem_alloc((size_t) n * (size_t) out.width * sizeof(float));
	memcpy(taps.layers, info->layers, sizeof(taps.layers));
	*(info->n_layers > 0 ? &taps.mid : &taps.all) = out.rows;
	for (int i = 0; i < n; i++)
		pos[i] = i;
	model_forward(m, &b, &kv, NULL);
	mem_free(kv.base);
	return out;
}

/*
 * Feed rows from .. to - 1 of sequence seq, each with its next token; returns the last one's logits and
 * the state that it feeds back.
 */
static void
feed(Draft *d, KvView *kv, int seq, const int32_t *tokens, const float *given, bool fed_back, int from,
	 int to, float *logits, float *fed)
{
	int			n = to - from;
	int32_t		start[2] = {0, n};
	int32_t		pos[MAX_ROWS];
	int32_t		out[1] = {n - 1};
	const int32_t *t[1] = {tables[seq]};
	Batch		b = {.rows = {.n_rows = n, .n_seqs = 1, .seq_start = start, .pos = pos, .block_table = t},
					 .tokens = tokens,
		.given = given, .fed_back = fed_back, .n_out = logits != NULL, .out_rows = out};

	for (int i = 0; i < n; i++)
		pos[i] = from + i;
	draft_forward(d, &b, kv, logits, fed);
}

static int32_t
best(const float *x, int n)
{
	int			b = 0;

	for (int i = 1; i < n; i++)
		if (x[i] > x[b])
			b = i;
	return b;
}

/* Run the chain after position `at`; in chunks of `chunk` rows. */
static void
chain(Draft *d, const Golden *g, const Given *given, int at, int chunk, float *logits)
{
	size_t		width = (size_t) draft_fed_width(d);
	float	   *fed = mem_alloc(width * sizeof(float));
	float	   *next = mem_alloc(width * sizeof(float));
	KvView		kv = make_kv(&draft_info(d)->model);

	for (int i = 0; i <= at; i += chunk)
	{
		int			to = i + chunk <= at ? i + chunk : at + 1;

		feed(d, &kv, 0, g->prompt + 1 + i, given->rows + (size_t) i * (size_t) given->width, false, i, to,
			 to == at + 1 ? logits : NULL, fed);
	}
	for (int j = 1; j < g->k; j++)
	{
		int32_t		token = best(logits + (size_t) (j - 1) * (size_t) g->vocab, g->vocab);

		feed(d, &kv, 0, &token, fed, true, at + j, at + j + 1, logits + (size_t) j * (size_t) g->vocab, next);
		memcpy(fed, next, width * sizeof(float));
	}
	mem_free(kv.base);
	mem_free(fed);
	mem_free(next);
}

static void
check_chain(const char *name, Draft *d, const Golden *g, const Given *given, const Kernels *k)
{
	size_t		n = (size_t) g->k * (size_t) g->vocab;
	float	   *logits = mem_alloc(n * sizeof(float));
	float	   *other = mem_alloc(n * sizeof(float));
	double		worst = 0;

	for (int i = 0; i < g->n_starts; i++)
	{
		const float *want = g->logits + (size_t) i * n;

		chain(d, g, given, g->starts[i], MAX_ROWS, logits);
		for (size_t j = 0; j < n; j++)
		{
			double		err = isinf(want[j]) && logits[j] == K_NO_COLUMN ? 0 :
				fabs((double) want[j] - (double) logits[j]);

			if (!(err <= worst))
				worst = err;
		}
		for (int j = 0; j < g->k; j++)
			CHECK(best(logits + (size_t) j * (size_t) g->vocab, g->vocab) == g->guesses[i][j],
				  "%s on %s: guess %d behind position %d is %d, not %d", name, k->name, j, g->starts[i],
				  best(logits + (size_t) j * (size_t) g->vocab, g->vocab), g->guesses[i][j]);
		chain(d, g, given, g->starts[i], 5, other);
		CHECK(memcmp(logits, other, n * sizeof(float)) == 0, "%s on %s: pieces give other bits", name,
			  k->name);
	}
	CHECK(worst <= TOLERANCE, "%s on %s: error %g", name, k->name, worst);
	printf("%-20s %-16s error %.1e\n", name, k->name, worst);
	mem_free(logits);
	mem_free(other);
}

static void
check_heads(const char *name, Draft *d, const Golden *g, const Given *given, const Kernels *k)
{
	float	   *rows = mem_alloc((size_t) g->n_starts * (size_t) given->width * sizeof(float));
	int32_t		tokens[MAX_ROWS];
	int32_t		out[MAX_ROWS * MAX_K];
	int32_t		one[MAX_K];
	int			equal = 0;

	for (int i = 0; i < g->n_starts; i++)
	{
		memcpy(rows + (size_t) i * (size_t) given->width,
			   given->rows + (size_t) g->starts[i] * (size_t) given->width,
			   (size_t) given->width * sizeof(float));
		tokens[i] = g->prompt[g->starts[i] + 1];
	}
	draft_heads(d, rows, tokens, g->n_starts, g->k, out);
	for (int i = 0; i < g->n_starts; i++)
	{
		for (int j = 0; j < g->k; j++)
			equal += out[i * g->k + j] == g->guesses[i][j];
		draft_heads(d, rows + (size_t) i * (size_t) given->width, &tokens[i], 1, 2, one);
		CHECK(memcmp(one, out + i * g->k, 2 * sizeof(int32_t)) == 0, "%s on %s: other guesses by itself",
			  name, k->name);
	}
	CHECK(equal == g->n_starts * g->k, "%s on %s: %d of %d guesses as expected", name, k->name, equal,
		  g->n_starts * g->k);
	printf("%-20s %-16s %d guesses\n", name, k->name, equal);
	mem_free(rows);
}

static void
check_draft(const char *name, const char *method, const char *target_name, const Golden *g, const Kernels *k,
			KPool *pool)
{
	Files	   *tf = open_files(target_name);
	Files	   *df = strcmp(method, "mtp") == 0 ? tf : open_files(name);
	Source		ts = {.files = tf};
	Source		ds = {.files = df};
	ModelSource tsrc = source_of(&ts);
	ModelSource dsrc = source_of(&ds);
	ModelOptions opt = {.kernels = k, .pool = pool, .max_rows = MAX_ROWS, .max_out = MAX_ROWS,
						.max_model_len = 128};
	Err			e = {0};
	Model	   *target;
	Draft	   *d;
	DraftInfo	info;

	files_lift(df, "transformer_layer_config.");
	CHECK(strcmp(method, "mtp") == 0 || strcmp(draft_infer_method(files_conf(df), name), method) == 0,
		  "%s: guessed as %s", name, draft_infer_method(files_conf(df), name));
	target = model_new(files_conf(tf), &tsrc, &opt, &e);
	CHECK(target != NULL, "%s: %s", target_name, e.msg);
	d = target != NULL ? draft_new(method, files_conf(df), &dsrc, &opt, target, &e) : NULL;
	CHECK(d != NULL, "%s: %s (%s)", name, e.msg, e.detail);
	if (d != NULL)
	{
		Given		given = target_rows(target, g, draft_info(d));

		CHECK(draft_check(method, files_conf(df), &dsrc, NULL, k, model_info(target), &info, &e), "%s: %s",
			  name, e.msg);
		CHECK(info.given == draft_info(d)->given && info.kind == draft_info(d)->kind &&
			  info.model.weight_bytes > 0, "%s: facts differ", name);
		if (draft_info(d)->kind == DRAFT_HEADS)
			check_heads(name, d, g, &given, k);
		else
			check_chain(name, d, g, &given, k);
		mem_free(given.rows);
	}
	draft_free(d);
	model_free(target);
	source_done(&ts);
	source_done(&ds);
	files_close(tf);
	if (df != tf)
		files_close(df);
}

int
main(int argc, char **argv)
{
	static const char *const names[][2] = {
		{"medusa", "medusa"}, {"medusa_small", "medusa"}, {"medusa_shared", "medusa"},
		{"medusa_authors", "medusa"},
		{"mlp", "mlp_speculator"}, {"mlp_tied", "mlp_speculator"}, {"eagle-llama", "eagle"},
		{"eagle-norms", "eagle"},
		{"eagle3", "eagle3"}, {"eagle3_own", "eagle3"}, {"eagle3_speculators", "eagle3"}, {"mtp", "mtp"},
		{"mtp_mimo", "mtp"}
	};
	KPool	   *pool = kpool_new(2);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
	{
		Golden		g;

		if (argc > 1 && strcmp(argv[1], names[i][0]) != 0)
			continue;
		if (!golden_read(names[i][0], &g))
		{
			CHECK(false, "%s: no usable expectation", names[i][0]);
			continue;
		}
		for (const Kernels *const *k = kernels_all(); *k != NULL; k++)
			if (kernels_usable(*k))
				RUN_NAMED(names[i][0], check_draft(names[i][0], names[i][1],
												   strcmp(names[i][0], "mtp") == 0 ? "target_mtp" :
					strcmp(names[i][0], "mtp_mimo") == 0 ? "target_mimo" : "target", &g, *k, pool));
		mem_free(g.logits);
	}
	kpool_free(pool);
	return check_done("draft_golden");
}
