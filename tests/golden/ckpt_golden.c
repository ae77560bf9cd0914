/*
 * ckpt_golden.c
 *	  Matrices of quantized checkpoints against their dequantized values (gen_ckpt.py).
 *
 * Each fixture is a directory with a "quantization_config" and some modules; next to each module's
 * tensors is NAME.reference, the float matrix.  config.json gives the expected type, and a bound of the
 * error as a share of the largest weight in 32:
 *
 *		"expect": {"NAME": "Q4_0"}, "bound": {"NAME": 0.0005}
 *
 * A module with an ordinary weight has no "expect".  Rows must be the same in whatever pieces they are
 * read.
 */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "backend/weight_source.h"
#include "kernels.h"
#include "tests/unit/check.h"

#define FIXTURES "build/fixtures/ckpt/"

/* Return the largest error as a share of the largest weight of its block. */
static double
worst_share(const float *got, const float *want, int64_t rows, int64_t k, int block)
{
	double		worst = 0;

	for (int64_t i = 0; i < rows; i++)
		for (int64_t at = 0; at < k; at += block)
		{
			double		most = 0;
			double		err = 0;

			for (int64_t j = i * k + at; j < i * k + (at + block < k ? at + block : k); j++)
			{
				double		d = fabs((double) got[j] - (double) want[j]);

				most = fmax(most, fabs((double) want[j]));
				if (!(d <= err))
					err = d;
			}
			if (err > 0 && !(err / most <= worst))
				worst = err / most;
		}
	return worst;
}

/* Rows at a distance of `step`, from each first one. */
static void
check_steps(const char *what, const KTensor *t, const uint8_t *all, size_t bytes, uint8_t *piece)
{
	int			n = (int) t->shape[0];

	for (int step = 2; step < 12; step += 3)
		for (int first = 0; first < step && first < n; first++)
		{
			int			m = (n - first + step - 1) / step;
			int			bad = 0;

			t->reader->rows(t->reader, first, step, m, piece);
			for (int i = 0; i < m; i++)
				bad += memcmp(piece + (size_t) i * bytes, all + (size_t) (first + i * step) * bytes,
							  bytes) != 0;
			CHECK(bad == 0, "%s: other bytes in rows from %d on in steps of %d", what, first, step);
		}
}

/* Convert rows of t to floats. */
static void
to_floats(const KTensor *t, const uint8_t *rows, float *to)
{
	size_t		bytes = ktype_row_bytes(t->type, t->shape[1]);

	for (int64_t i = 0; i < t->shape[0]; i++)
		kblock_to_float(t->type, rows + (size_t) i * bytes, t->shape[1], to + i * t->shape[1]);
}

/* Read all rows, and the same rows in pieces, backwards. */
static void
check_rows(const char *what, const KTensor *t, const float *want, double bound)
{
	int64_t		n = t->shape[0];
	int64_t		k = t->shape[1];
	size_t		bytes = ktype_row_bytes(t->type, k);
	uint8_t    *all = mem_alloc((size_t) n * bytes);
	uint8_t    *piece = mem_alloc((size_t) n * bytes);
	float	   *got = mem_alloc((size_t) (n * k) * sizeof(float));
	double		share;

	t->reader->rows(t->reader, 0, 1, (int) n, all);
	to_floats(t, all, got);
	/* a block of bitsandbytes has 64, and continues in the next row */
	share = t->type == KT_NF4 || t->type == KT_FP4 ? worst_share(got, want, 1, n * k, 64) :
		worst_share(got, want, n, k, 32);
	CHECK(share <= bound, "%s: error %g, allowed %g", what, share, bound);
	for (int size = 1; size < 80; size = size * 3 + 1)
		for (int64_t i = n; i > 0;)
		{
			int			m = i < size ? (int) i : size;

			i -= m;
			t->reader->rows(t->reader, i, 1, m, piece);
			CHECK(memcmp(piece, all + (size_t) i * bytes, (size_t) m * bytes) == 0,
				  "%s: other bytes in pieces of %d", what, size);
		}
	check_steps(what, t, all, bytes, piece);
	mem_free(all);
	mem_free(piece);
	mem_free(got);
}

/* in all fixtures: E4M3 with one scale, or one for each row; codes of 4 bits that are kept */
#define N_OFFERS 14
#define N_FOURS 10

/* the rounding of Q8_0, and of a scale to half */
#define FOUR_BOUND (1 / 254.0 + 0x1p-10)

static int	n_offers;
static int	n_fours;

/* The FP8 values that a reader offers are those of its BF16, before that was rounded. */
static void
check_offer(const char *what, const KTensor *t)
{
	const KTensor *o = t->reader->offer;
	int64_t		k = t->shape[1];
	int			n = (int) t->shape[0];
	size_t		bytes = ktype_row_bytes(KT_FP8, k);
	uint8_t    *rows = mem_alloc((size_t) n * bytes);
	uint8_t    *some = mem_alloc((size_t) n * bytes);
	uint16_t   *want = mem_alloc((size_t) (n * k) * sizeof(uint16_t));
	float	   *x = mem_alloc((size_t) k * sizeof(float));
	int			bad = 0;

	CHECK(t->type == KT_BF16 && o->type == KT_FP8 && o->nbytes == (size_t) n * bytes, "%s: %s offers %s",
		  what, ktype_name(t->type), ktype_name(o->type));
	t->reader->rows(t->reader, 0, 1, n, want);
	o->reader->rows(o->reader, 0, 1, n, rows);
	for (int i = 0; i < n; i++)
	{
		kblock_to_float(KT_FP8, rows + (size_t) i * bytes, k, x);
		for (int64_t j = 0; j < k; j++)
			bad += kf32_to_bf16(x[j]) != want[i * k + j];
	}
	CHECK(bad == 0, "%s: %d weights of FP8 are others", what, bad);
	check_steps(what, o, rows, bytes, some);
	mem_free(rows);
	mem_free(some);
	mem_free(want);
	mem_free(x);
}

/* Return the root mean square of all errors. */
static double
mean_error(const KTensor *t, const float *want)
{
	int64_t		n = t->shape[0] * t->shape[1];
	uint8_t    *rows = mem_alloc(t->nbytes);
	float	   *got = mem_alloc((size_t) n * sizeof(float));
	double		sum = 0;

	t->reader->rows(t->reader, 0, 1, (int) t->shape[0], rows);
	to_floats(t, rows, got);
	for (int64_t i = 0; i < n; i++)
		sum += ((double) got[i] - want[i]) * ((double) got[i] - want[i]);
	mem_free(rows);
	mem_free(got);
	return sqrt(sum / (double) n);
}

/* The 4-bit values offered are nearer to the reference than Q8_0, in at most 60 % of its memory. */
static void
check_four(const char *what, const KTensor *t, const float *want)
{
	const KTensor *o = t->reader->offer;
	const char *why;
	const Kernels *k = kernels_select("portable", &why);
	int			rows = (int) t->shape[0];
	int			cols = (int) t->shape[1];
	size_t		before = k->mat_bytes(t->type, rows, cols);
	size_t		now = k->mat_bytes(o->type, rows, cols);

	CHECK(t->type == KT_Q8_0 && now > 0 && now * 10 <= before * 6 && o->nbytes * 10 <= t->nbytes * 6,
		  "%s: %s takes %zu bytes, %s %zu", what, ktype_name(o->type), now, ktype_name(t->type), before);
	CHECK(mean_error(o, want) < mean_error(t, want), "%s: mean error %g, of Q8_0 %g", what,
		  mean_error(o, want), mean_error(t, want));
	check_rows(what, o, want, FOUR_BOUND);
}

static void
check_module(const char *dir, Source *s, const char *module, const KTensor *ref)
{
	ModelSource ms = source_of(s);
	const Conf *conf = files_conf(s->files);
	char		what[400];
	char		key[300];
	const char *expect;
	const KTensor *t;
	Err			e = {0};

	snprintf(what, sizeof(what), "%s %s", dir, module);
	snprintf(key, sizeof(key), "expect.%s", module);
	expect = conf_str(conf, key, NULL);
	snprintf(key, sizeof(key), "bound.%s", module);
	if (!ms.quantized(ms.ctx, module, ref->shape[0], ref->shape[1], &t, &e))
	{
		CHECK(false, "%s: %s (%s)", what, e.msg, e.detail);
		return;
	}
	CHECK((t == NULL) == (expect == NULL), "%s: %s", what, t != NULL ? "quantized" : "not quantized");
	if (t == NULL || expect == NULL)
		return;
	CHECK(strcmp(ktype_name(t->type), expect) == 0, "%s: %s instead of %s", what, ktype_name(t->type),
		  expect);
	check_rows(what, t, ref->data, conf_num(conf, key, 0));
	if (t->reader->offer != NULL && t->reader->offer->type == KT_FP8)
	{
		n_offers++;
		check_offer(what, t);
	}
	else if (t->reader->offer != NULL)
	{
		n_fours++;
		check_four(what, t, ref->data);
	}
	/* every tensor of the module is used, so that no tensor of a model is reported as unused */
	for (size_t i = 0; i < files_count(s->files); i++)
	{
		const KTensor *x = files_tensor(s->files, i);
		size_t		len = strlen(module);
		bool		used = x == ref || strncmp(x->name, module, len) != 0 ||
			(x->name[len] != '.' && x->name[len] != '_');

		for (const KTensor *const *p = t->reader->parts; *p != NULL; p++)
			used |= *p == x;
		CHECK(used, "%s: tensor \"%s\" has no use", what, x->name);
	}
}

static void
check_fixture(const char *dir)
{
	char		path[300];
	Err			e = {0};
	Source		s = {0};
	Files	   *f;

	snprintf(path, sizeof(path), FIXTURES "%s", dir);
	s.files = f = files_open(path, &e);
	CHECK(f != NULL, "%s: %s", path, e.msg);
	for (size_t i = 0; f != NULL && i < files_count(f); i++)
	{
		const KTensor *t = files_tensor(f, i);
		size_t		len = strlen(t->name);
		char		module[256];

		if (len < 11 || strcmp(t->name + len - 10, ".reference") != 0)
			continue;
		snprintf(module, sizeof(module), "%.*s", (int) len - 10, t->name);
		check_module(dir, &s, module, t);
	}
	source_done(&s);
	files_close(f);
}

static int
is_fixture(const struct dirent *d)
{
	return d->d_name[0] != '.';
}

/* ckpt_golden [NAME ...]: these, or all. */
int
main(int argc, char **argv)
{
	struct dirent **dirs;
	int			n = argc > 1 ? 0 : scandir(FIXTURES, &dirs, is_fixture, alphasort);

	for (int i = 1; i < argc; i++)
		RUN_NAMED(argv[i], check_fixture(argv[i]));
	CHECK(n >= 0, "directory \"%s\" can't be read", FIXTURES);
	for (int i = 0; i < n; i++)
	{
		RUN_NAMED(dirs[i]->d_name, check_fixture(dirs[i]->d_name));
		free(dirs[i]);
	}
	if (n > 0)
		free(dirs);
	CHECK(argc > 1 || n_offers == N_OFFERS, "%d matrices are offered in FP8", n_offers);
	CHECK(argc > 1 || n_fours == N_FOURS, "%d matrices are offered in 4 bits", n_fours);
	return check_done("ckpt_golden");
}
