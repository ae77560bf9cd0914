/*
 * encoders.h
 *	  The reference of an encoder for some sequences (encoders_expected; written by gen_encoders.py), and
 *	  the distance of hidden rows from it.
 */
#ifndef VLLM_TESTS_ENCODERS_H
#define VLLM_TESTS_ENCODERS_H

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "backend/weight_source.h"
#include "tests/unit/check.h"

#define FIXTURES "build/fixtures/encoders/"
#define EXPECTED "tests/golden/encoders_expected/"
#define MAX_SEQS 8
#define MAX_ROWS 512			/* of all sequences */
#define BLOCK 16

/* A sequence and its reference. */
typedef struct Seq
{
	int32_t		n;
	int32_t		n_rows;
	int32_t    *ids;
	int32_t    *types;
	int32_t    *rows;			/* [n_rows] with a reference in hidden */
	float	   *hidden;			/* [n_rows][width] */
	float	   *mean;			/* [width] mean over all n */
} Seq;

typedef struct Encoder
{
	int32_t		n_seqs;
	int32_t		width;
	Seq			seqs[MAX_SEQS];
} Encoder;

static inline bool
read_array(FILE *f, void *out, size_t n)
{
	void	  **p = out;

	*p = mem_alloc(n * 4);
	return fread(*p, 4, n, f) == n;
}

static inline bool
encoder_read(const char *name, Encoder *g)
{
	char		path[256];
	FILE	   *f;
	bool		ok;

	memset(g, 0, sizeof(*g));
	snprintf(path, sizeof(path), EXPECTED "%s.bin", name);
	if ((f = fopen(path, "rb")) == NULL)
		return false;
	ok = fread(g, 4, 2, f) == 2 && g->n_seqs <= MAX_SEQS;
	for (int i = 0; ok && i < g->n_seqs; i++)
	{
		Seq		   *s = &g->seqs[i];

		ok = fread(s, 4, 2, f) == 2 && read_array(f, &s->ids, (size_t) s->n) &&
			read_array(f, &s->types, (size_t) s->n) && read_array(f, &s->rows, (size_t) s->n_rows) &&
			read_array(f, &s->hidden, (size_t) s->n_rows * (size_t) g->width) &&
			read_array(f, &s->mean, (size_t) g->width);
	}
	fclose(f);
	return ok;
}

static inline void
encoder_free(Encoder *g)
{
	for (int i = 0; i < g->n_seqs; i++)
	{
		mem_free(g->seqs[i].ids);
		mem_free(g->seqs[i].types);
		mem_free(g->seqs[i].rows);
		mem_free(g->seqs[i].hidden);
		mem_free(g->seqs[i].mean);
	}
}

static inline Files *
encoder_files(const char *name)
{
	char		path[256];
	size_t		n = strlen(name);
	Err			e = {0};
	Files	   *f;

	snprintf(path, sizeof(path), FIXTURES "%s%s", name, n > 5 && strcmp(name + n - 5, "_gguf") == 0
			 ? ".gguf" : "");
	f = files_open(path, &e);
	CHECK(f != NULL, "%s: %s", path, e.msg);
	return f;
}

static inline double
cosine(const float *a, const float *b, int n)
{
	double		ab = 0;
	double		aa = 0;
	double		bb = 0;

	for (int i = 0; i < n; i++)
	{
		ab += (double) a[i] * (double) b[i];
		aa += (double) a[i] * (double) a[i];
		bb += (double) b[i] * (double) b[i];
	}
	return ab / sqrt(aa * bb);
}

/*
 * Return the worst cosine, of means or also of single rows; *error: the largest error of all sequences
 * with a reference, which are concatenated in `out`.
 */
static inline double
encoder_compare(const Encoder *g, const float *out, bool rows, double *error)
{
	size_t		width = (size_t) g->width;
	double		worst = 1;

	*error = 0;
	for (int i = 0; i < g->n_seqs; i++)
	{
		const Seq  *s = &g->seqs[i];
		float	   *mean = mem_alloc(width * sizeof(float));

		for (size_t j = 0; j < width; j++)
		{
			double		sum = 0;

			for (int r = 0; r < s->n; r++)
				sum += (double) out[(size_t) r * width + j];
			mean[j] = (float) (sum / s->n);
			*error = fmax(*error, fabs((double) (mean[j] - s->mean[j])));
		}
		worst = fmin(worst, cosine(mean, s->mean, g->width));
		for (int r = 0; r < s->n_rows; r++)
		{
			const float *row = out + (size_t) s->rows[r] * width;
			const float *want = s->hidden + (size_t) r * width;

			if (rows)
				worst = fmin(worst, cosine(row, want, g->width));
			for (size_t j = 0; j < width; j++)
				*error = fmax(*error, isnan(row[j]) ? 1e9 : fabs((double) (row[j] - want[j])));
		}
		out += (size_t) s->n * width;
		mem_free(mean);
	}
	return worst;
}

static inline int
encoder_is_model(const struct dirent *d)
{
	size_t		n = strlen(d->d_name);

	return n > 4 && strcmp(d->d_name + n - 4, ".bin") == 0;
}

#endif
