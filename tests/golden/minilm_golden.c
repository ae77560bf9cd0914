/*
 * minilm_golden.c
 *	  A real model: all-MiniLM-L6-v2, from text to vector, against sentence-transformers (gen_minilm.py).
 *
 * The model isn't part of the repository: scripts/minilm installs it under build/minilm (or in $MINILM).
 * Without it everything is skipped.
 *
 *	- 200 texts, some in other languages, some longer than the model's context: cosine of at least 0.99999
 *	  in float32;
 *	- 20 pairs of texts, from equal to unrelated: sorted by cosine they have the reference's order;
 *	- the same pairs with quantized weights: cosine of at least 0.999 with BF16, 0.995 with Q8_0, and 0.995
 *	  (0.997 on average) with INT8, because a few values of this model's rows are far larger than the others.
 */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "backend/backend.h"
#include "server/models/registry.h"
#include "tests/unit/check.h"

#define TEXTS "tests/golden/minilm_texts.txt"
#define VECTORS "tests/golden/minilm.bin"
#define N_TEXTS 200
#define N_PAIRS 20
#define WIDTH 384
#define MAX_TEXT 16384

static char texts[N_TEXTS][MAX_TEXT];
static float expected[N_TEXTS][WIDTH];
static float vectors[N_TEXTS][WIDTH];

static bool
read_files(void)
{
	FILE	   *f = fopen(TEXTS, "r");
	int32_t		sizes[2];
	float		scale;
	bool		ok = f != NULL;

	for (int i = 0; ok && i < N_TEXTS; i++)
	{
		ok = fgets(texts[i], MAX_TEXT, f) != NULL;
		texts[i][strcspn(texts[i], "\n")] = '\0';
	}
	if (f != NULL)
		fclose(f);
	f = fopen(VECTORS, "rb");
	ok = ok && f != NULL && fread(sizes, 4, 2, f) == 2 && fread(&scale, 4, 1, f) == 1 &&
		sizes[0] == N_TEXTS && sizes[1] == WIDTH;
	for (int i = 0; ok && i < N_TEXTS; i++)
	{
		int16_t		v[WIDTH];

		ok = fread(v, sizeof(v), 1, f) == 1;
		for (int j = 0; j < WIDTH; j++)
			expected[i][j] = (float) v[j] / scale;
	}
	if (f != NULL)
		fclose(f);
	return ok;
}

/* Result of a text. */
typedef struct Result
{
	int			i;
	char		error[512];
	_Atomic bool done;
} Result;

static void
sink(void *ctx, Req *r, const ReqEvent *ev)
{
	Result	   *res = ctx;

	(void) r;
	if (ev->finish == FIN_NONE)
		return;
	if (ev->err != NULL)
		snprintf(res->error, sizeof(res->error), "%s", ev->err->msg);
	else if (ev->n_rows != 1 || ev->width != WIDTH || ev->values == NULL)
		snprintf(res->error, sizeof(res->error), "%d rows of %d", ev->n_rows, ev->width);
	else
		memcpy(vectors[res->i], ev->values, sizeof(vectors[0]));
	atomic_store(&res->done, true);
}

/* Compute the vectors of texts 0 .. n - 1, all submitted at once. */
static void
embed(BackendModel *in, const Settings *s, int n)
{
	static Result res[N_TEXTS];
	static uint64_t id;

	for (int i = 0; i < n; i++)
	{
		PoolRequest pr = {.task = PT_EMBED,.text = {texts[i], strlen(texts[i])},.long_input = LONG_TRUNCATE,
		.add_special = true,.activation = -1,.step_tag = -1};
		ReqSpec		spec = {.session = 1,.id = ++id,.sink = sink,.sink_ctx = &res[i]};
		PoolExtra	extra = {0};
		Err			e = {0};
		bool		ok = backend_core.generator->pool(in, &pr, &spec.pool, &extra, &e);

		memset(&res[i], 0, sizeof(res[i]));
		res[i].i = i;
		CHECK(ok, "text %d: %s", i, e.msg);
		if (ok)
			backend_core.generator->submit(in, &spec);
		else
			atomic_store(&res[i].done, true);
		intvec_free(&extra.ids);
		intvec_free(&extra.offsets);
	}
	for (int i = 0; i < n; i++)
	{
		while (!atomic_load(&res[i].done))
			if (backend_core.generator->next_due(in, 0) == 0)
				backend_core.generator->step(in, 0, s);
			else
				usleep(50);
		CHECK(res[i].error[0] == '\0', "text %d: %s", i, res[i].error);
	}
}

static double
cosine(const float *a, const float *b)
{
	double		ab = 0;
	double		aa = 0;
	double		bb = 0;

	for (int i = 0; i < WIDTH; i++)
	{
		ab += (double) a[i] * (double) b[i];
		aa += (double) a[i] * (double) a[i];
		bb += (double) b[i] * (double) b[i];
	}
	return ab / sqrt(aa * bb);
}

/* Load the model with options, embed the first n texts and compare. */
static void
check_as(const char *path, const char *what, const char *options, int n, double least, double least_mean)
{
	SettingsBox box;
	Settings	s;
	ModelOpts	o;
	Err			e = {0};
	BackendModel *in;
	double		worst = 1;
	double		sum = 0;
	int			at = 0;

	settings_box_init(&box);
	settings_get(&box, &s);
	s.cpu_threads = 2;
	CHECK(model_opts_parse(options, &o, &e), "%s: %s", what, e.msg);
	in = backend_core.loader->load(path, &o, &s, NULL, NULL, &e);
	CHECK(in != NULL, "%s: %s (%s)", what, e.msg, e.detail);
	if (in == NULL)
		return;
	embed(in, &s, n);
	backend_core.loader->free(in);
	for (int i = 0; i < n; i++)
	{
		double		c = cosine(vectors[i], expected[i]);

		at = !(c >= worst) ? i : at;
		worst = !(c >= worst) ? c : worst;
		sum += c;
	}
	printf("%-8s cosine %.7f at least, of text %d; mean %.7f\n", what, worst, at, sum / n);
	CHECK(sum / n >= least_mean, "%s: mean cosine %.7f", what, sum / n);
	CHECK(worst >= least, "%s: cosine %.7f of text %d: %.60s", what, worst, at, texts[at]);
}

/* The order of the pairs by their cosines equals the reference's. */
static void
check_ranking(void)
{
	for (int i = 0; i < N_PAIRS; i++)
		for (int j = 0; j < N_PAIRS; j++)
			if (cosine(expected[2 * i], expected[2 * i + 1]) > cosine(expected[2 * j], expected[2 * j + 1]))
				CHECK(cosine(vectors[2 * i], vectors[2 * i + 1]) > cosine(vectors[2 * j], vectors[2 * j + 1]),
					  "\"%s\" and \"%s\" are less alike than \"%s\" and \"%s\"", texts[2 * i],
					  texts[2 * i + 1], texts[2 * j], texts[2 * j + 1]);
}

int
main(void)
{
	const char *path = getenv("MINILM") != NULL ? getenv("MINILM") : "build/minilm";
	char		file[4096];

	snprintf(file, sizeof(file), "%s/model.safetensors", path);
	if (access(file, R_OK) != 0)
	{
		check_skip(4, "all-MiniLM-L6-v2 is not installed (scripts/minilm)");
		return check_done("minilm_golden");
	}
	CHECK(read_files(), "%s or %s can't be read", TEXTS, VECTORS);
	RUN(check_as(path, "float32", NULL, N_TEXTS, 0.99999, 0.99999));
	RUN(check_ranking());
	RUN(check_as(path, "bfloat16", "{\"dtype\": \"bfloat16\"}", 2 * N_PAIRS, 0.999, 0.999));
	RUN(check_as(path, "q8_0", "{\"quantization\": \"q8_0\"}", 2 * N_PAIRS, 0.995, 0.995));
	RUN(check_as(path, "int8", "{\"quantization\": \"int8\"}", 2 * N_PAIRS, 0.995, 0.997));
	return check_done("minilm_golden");
}
