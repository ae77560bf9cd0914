/*
 * conform.c
 *	  Every implementation of the op table against the reference.
 *
 * For each op, over types and shapes: error against ref within a bound per op,
 * or the same bits where kernels.h or docs/internals/kernels.md promise that; row
 * invariance (alone, in any batch, at any place, on 1 to 3 threads: memcmp); NaN
 * and Inf stay in their row; unused KV is filled with NaN.  Then the conversions
 * and the pool.
 *
 * AVX-512 and AVX-VNNI are tested natively where the CPU has them, and emulated
 * anywhere with AVX2, AVX-512 when the build found SIMDe (the kernels_*_emu symbols
 * are weak).  `conform NAME...` tests only the implementations named.
 */
#include "tests/kernels/conform.h"

#include <stdarg.h>
#include <time.h>

#include "tests/unit/check.h"

extern const Kernels kernels_avx2_vnni_emu __attribute__((weak));
extern const Kernels kernels_avx512_emu __attribute__((weak));
extern const Kernels kernels_avx512_vnni_emu __attribute__((weak));
extern const Kernels kernels_avx512_bf16_emu __attribute__((weak));

KPool	   *pools[MAX_THREADS + 1];
const Kernels *ref;

static uint32_t seed = 1;

void
expect(bool ok, const char *file, int line, const char *fmt,...)
{
	char		msg[256];
	va_list		ap;

	va_start(ap, fmt);
	vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	CHECK(ok, "%s (%s:%d)", msg, file, line);
}

void
rnd_seed(uint32_t s)
{
	seed = s * 2654435761u + 1;
}

uint32_t
rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 17;
	seed ^= seed << 5;
	return seed;
}

int
rnd_int(int n)
{
	return (int) (rnd() % (uint32_t) n);
}

float
rnd_float(float scale)
{
	return ((float) (int) (rnd() >> 8) / 8388608.0f - 1.0f) * scale;
}

void
rnd_fill(float *x, size_t n, float scale)
{
	for (size_t i = 0; i < n; i++)
		x[i] = rnd_float(scale);
}

/* a finite scale at byte `at` of each block of a row */
static void
put_scales(KType t, int k, uint8_t *row, size_t at)
{
	size_t		step = ktype_row_bytes(t, ktype_block(t));

	for (int i = 0; i < k / ktype_block(t); i++)
	{
		uint16_t	h = kf32_to_f16(rnd_float(0.02f));

		memcpy(row + step * (size_t) i + at, &h, sizeof(h));
	}
}

void
rnd_row(KType t, int k, uint8_t *row)
{
	size_t		len = ktype_row_bytes(t, k);
	float		d = rnd_float(0.02f);

	for (int i = 0; t <= KT_BF16 && i < k; i++)
		kelem_put(t, row, i, rnd_float(1.0f));
	if (t <= KT_BF16)
		return;
	/* the extremes often: -128 and sums that would saturate 16 bits */
	for (size_t i = 0; i < len; i++)
		row[i] = (uint8_t) (rnd_int(3) ? (int) rnd() : rnd_int(2) ? 0x80 : 0x7f);
	if (t == KT_INT8S)
	{
		/* one for all rows, which cuts off some activations on one side */
		memcpy(row, &(KInt8X) {0.011f, 40}, sizeof(KInt8X));
		memcpy(row + sizeof(KInt8X), &d, sizeof(d));
	}
	else if (ktype_is_int8(t))
		memcpy(row, &d, sizeof(d));
	else if (t == KT_FP8)
	{
		/* no NaN among the codes */
		for (size_t i = 0; i < len; i++)
			row[i] = (row[i] & 0x7f) == 0x7f ? row[i] ^ 1 : row[i];
		for (int i = 0; i < k; i += FP8_GROUP, d = rnd_float(0.02f))
			memcpy(row + (size_t) (i / FP8_GROUP) * sizeof(d), &d, sizeof(d));
	}
	else if (t == KT_MXFP4)
		for (size_t i = 0; i < len; i += sizeof(KBlockMXFP4))
			row[i] = (uint8_t) (110 + rnd_int(16));
	else if (t == KT_Q6_K)
		put_scales(t, k, row, offsetof(KBlockQ6_K, d));
	else if (t == KT_Q3_K)
		put_scales(t, k, row, offsetof(KBlockQ3_K, d));
	else if (t == KT_Q2_K)
	{
		put_scales(t, k, row, offsetof(KBlockQ2_K, d));
		put_scales(t, k, row, offsetof(KBlockQ2_K, dmin));
	}
	else
		put_scales(t, k, row, 0);
	if (t == KT_Q4_1 || t == KT_Q5_1 || t == KT_Q4_K || t == KT_Q5_K || t == KT_Q4_1F)
		put_scales(t, k, row, 2);
}

/* a row of INT8 with small codes, up to the border: INT8_QUAD */
void
rnd_small_row(int k, uint8_t *row)
{
	static const int at[2][4] = {{0, 1, 4, 5}, {2, 3, 6, 7}};
	float		d = rnd_float(0.02f);

	memcpy(row, &d, sizeof(d));
	for (int i = 0; i < 2 * ((k + 7) / 8); i++)
	{
		int			left = INT8_QUAD,
					first = rnd_int(4);

		for (int j = 0; j < 4; j++)
		{
			int			pos = i / 2 * 8 + at[i % 2][(first + j) % 4],
						most = k_min(left, 127),
						code = rnd_int(2) ? most : rnd_int(most + 1);

			if (pos >= k)
				continue;
			left -= code;
			row[4 + pos] = (uint8_t) (rnd_int(2) ? code : -code);
		}
	}
}

void *
xalloc(size_t n)
{
	void	   *p = NULL;

	n = k_align64(n + 64);
	if (posix_memalign(&p, 64, n) != 0)
		abort();
	memset(p, 0, n);
	return p;
}

double
nmse(const float *want, const float *got, size_t n)
{
	double		err = 0,
				sum = 1e-30;

	for (size_t i = 0; i < n; i++)
	{
		double		d = (double) want[i] - got[i];

		err += d * d;
		sum += (double) want[i] * want[i];
	}
	return err / sum;
}

bool
same_bits(const Impl *im, int id, const void *p, size_t n)
{
	static uint64_t seen[ID_MAX];
	uint64_t	h = 1469598103934665603u;

	if (!im->fused || im->k == ref)
		return true;
	for (size_t i = 0; i < n; i++)
		h = (h ^ ((const uint8_t *) p)[i]) * 1099511628211u;
	if (seen[id] == 0)
		seen[id] = h;
	return seen[id] == h;
}

/* ---- conversions ---- */

/* h is the half or bfloat16 nearest to f, ties to even */
static bool
is_nearest(float f, uint16_t h, float (*back) (uint16_t))
{
	double		err = fabs((double) f - back(h));

	for (int d = -1; d <= 1; d += 2)
	{
		uint16_t	n = (uint16_t) (h + d);
		double		e;

		if ((n & 0x8000) != (h & 0x8000) || !isfinite(back(n)))
			continue;
		e = fabs((double) f - back(n));
		if (e < err || (e == err && (h & 1)))
			return false;
	}
	return true;
}

static void
test_conversions(void)
{
	int			bad16 = 0,
				badb = 0,
				near16 = 0,
				nearb = 0,
				loops = 0;

	for (uint32_t h = 0; h < 65536; h++)
	{
		uint16_t	row[4] = {(uint16_t) h, 1, (uint16_t) h, 2};
		float		wide[4],
					narrow = kf16_to_f32((uint16_t) h);
		bool		nan16 = (h & 0x7fff) > 0x7c00,
					nanb = (h & 0x7fff) > 0x7f80;

		bad16 += nan16 ? !isnan(kf16_to_f32(h)) || !isnan(kf16_to_f32(kf32_to_f16(kf16_to_f32(h))))
			: kf32_to_f16(kf16_to_f32(h)) != h;
		badb += nanb ? !isnan(kbf16_to_f32(kf32_to_bf16(kbf16_to_f32(h))))
			: kf32_to_bf16(kbf16_to_f32(h)) != h;
		kblock_to_float(KT_F16, row, 4, wide);
		loops += memcmp(&wide[2], &narrow, sizeof(narrow)) != 0;
		narrow = kbf16_to_f32((uint16_t) h);
		kblock_to_float(KT_BF16, row, 4, wide);
		loops += memcmp(&wide[2], &narrow, sizeof(narrow)) != 0;
	}
	CHECK(loops == 0, "%d patterns differ in loops over rows", loops);
	CHECK(bad16 == 0, "%d half patterns don't survive", bad16);
	CHECK(badb == 0, "%d bfloat16 patterns don't survive", badb);
	for (int i = 0; i < 200000; i++)
	{
		/* all exponents; half the time exactly between two values */
		uint32_t	u = i % 2 ? rnd() : (rnd() & 0xffff0000u) | 0x8000u;
		float		f = k_float(u),
					g = k_float(i % 2 ? u % 0x477fe000u : (u & 0x07fff000u) + 0x36000000u);

		if (isfinite(f) && fabsf(f) < 0x1.fep127f)
			nearb += !is_nearest(f, kf32_to_bf16(f), kbf16_to_f32);
		near16 += !is_nearest(g, kf32_to_f16(g), kf16_to_f32);
	}
	CHECK(near16 == 0, "%d floats not rounded to the nearest half", near16);
	CHECK(nearb == 0, "%d floats not rounded to the nearest bfloat16", nearb);
	CHECK(kf32_to_f16(65519.9f) == 0x7bff && kf32_to_f16(65520.0f) == 0x7c00, "half overflow");
	CHECK(ktype_row_bytes(KT_Q8_0, 64) == 68 && ktype_row_bytes(KT_Q8_0, 33) == 0 &&
		  ktype_row_bytes(KT_BF16, 3) == 6, "row bytes");
}

/* ---- pool ---- */

typedef struct Stress
{
	int			n;
	int			counts[64];
	int			bad_ith;
	int			nthreads;
} Stress;

static void
stress_chunk(void *arg, int chunk, int ith)
{
	Stress	   *s = arg;

	s->counts[chunk]++;
	if (ith < 0 || ith >= s->nthreads)
		s->bad_ith++;
}

static void
test_pool(void)
{
	for (int t = 1; t <= MAX_THREADS; t++)
	{
		int			bad = 0;

		for (int i = 0; i < 4000; i++)
		{
			Stress		s = {.n = i % 65, .nthreads = t};

			/* the loop's data live on this stack: a late thread would be seen */
			kpool_run(pools[t], stress_chunk, &s, s.n);
			for (int c = 0; c < 64; c++)
				bad += s.counts[c] != (c < s.n);
			bad += s.bad_ith;
			if (i % 1000 == 999)
			{
				struct timespec ts = {0, 300000};

				nanosleep(&ts, NULL);	/* let them fall asleep */
			}
		}
		CHECK(bad == 0, "%d threads: %d chunks not run exactly once", t, bad);
		CHECK(kpool_nthreads(pools[t]) == t, "%d threads", t);
	}
	for (int i = 0; i < 50; i++)
	{
		KPool	   *p = kpool_new(3);

		CHECK(p != NULL, "pool %d", i);
		kpool_free(p);
	}
}

/* ---- dispatch ---- */

static void
test_dispatch(void)
{
	const char *why = NULL;
	const Kernels *best = kernels_select(NULL, &why);

	CHECK(best != NULL && best != ref && why == NULL, "auto");
	CHECK(kernels_select("auto", NULL) == best, "auto by name");
	CHECK(kernels_select("nonesuch", &why) == NULL && why != NULL, "unknown name");
	for (const Kernels *const *k = kernels_all(); *k; k++)
	{
		bool		usable = kernels_usable(*k);

		CHECK(kernels_select((*k)->name, &why) == (usable ? *k : NULL), "%s", (*k)->name);
		CHECK((why == NULL) == usable, "%s: reason", (*k)->name);
	}
}

static void
run(const Kernels *k)
{
	Impl		im = {
		.k = k,
		.fused = strcmp(k->name, "portable") != 0,
		.slow = k == ref,
		.emulated = strstr(k->name, "_emu") != NULL,
		.pairs = strncmp(k->name, "avx512_bf16", 11) == 0,
	};
	int			before = check_passed,
				failed = check_failed;

#ifdef __FP_FAST_FMAF
	im.fused = true;
#endif
	struct timespec t0,
				t1;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t0);
	rnd_seed(1);
	test_mm(&im);
	test_grouped(&im);
	test_lora(&im);
	test_pack(&im);
	test_rows(&im);
	test_attn(&im);
	test_ssm(&im);
	test_misc(&im);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t1);
	printf("%-18s %d passed, %d failed, %.1f s of CPU\n", k->name, check_passed - before,
		   check_failed - failed, (double) (t1.tv_sec - t0.tv_sec) + (t1.tv_nsec - t0.tv_nsec) * 1e-9);
	fflush(stdout);
}

/* is it among the names on the command line, or are there none? */
static bool
wanted(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return true;
	return argc <= 1;
}

/* Is NAME, of NAME_emu, usable here? */
static bool
runs_itself(const char *emulated)
{
	size_t		n = strlen(emulated) - strlen("_emu");

	for (const Kernels *const *k = kernels_all(); *k; k++)
		if (strlen((*k)->name) == n && strncmp((*k)->name, emulated, n) == 0)
			return kernels_usable(*k);
	return false;
}

int
main(int argc, char **argv)
{
	const Kernels *emu[] = {&kernels_avx2_vnni_emu, &kernels_avx512_emu, &kernels_avx512_vnni_emu,
	&kernels_avx512_bf16_emu};

	long		parts = sysconf(_SC_NPROCESSORS_ONLN);
	int			part;
	int			at = 0;			/* number of the Kernels that are tested */

	parts = parts < 1 ? 1 : parts > 8 ? 8 : parts;
	part = check_split("conform", (int) parts);
	ref = kernels_select("ref", NULL);
	for (int t = 1; t <= MAX_THREADS; t++)
		pools[t] = kpool_new(t);
	if (part == 0)
	{
		RUN(test_conversions());
		test_f8();
		test_pack_cuda();
		RUN(test_dispatch());
		RUN(test_pool());
	}
	for (const Kernels *const *k = kernels_all(); *k; k++)
	{
		if (!wanted((*k)->name, argc, argv) || at++ % parts != part)
			continue;
		if (kernels_usable(*k))
			run(*k);
		else
		{
			char		why[100];

			snprintf(why, sizeof(why), "%s: this CPU lacks it", (*k)->name);
			check_skip(1, why);
		}
	}
	for (int i = 0; i < (int) (sizeof(emu) / sizeof(emu[0])); i++)
	{
		if (at++ % parts != part)
			continue;
		if (emu[i] == NULL)
			check_skip(1, "emulation: not built here (AVX-512's wants SIMDe, libsimde-dev)");
		else if (kernels_select("avx2", NULL) == NULL)
			check_skip(1, "emulation: this CPU lacks AVX2");
		else if (check_effort(1, 1, 2) == 1 && runs_itself(emu[i]->name))
			check_skip(1, "emulation: this CPU runs the kernels themselves");
		else if (wanted(emu[i]->name, argc, argv))
			run(emu[i]);
	}
	for (int t = 1; t <= MAX_THREADS; t++)
		kpool_free(pools[t]);
	return check_done("conform");
}
