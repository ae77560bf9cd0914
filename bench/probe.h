/*
 * probe.h
 *	  This machine's limits: memory read bandwidth and the peak rates of its arithmetic units.  Each of
 *	  the C programs in bench/ uses a part of it.
 *
 * The bandwidth is measured over 1 GB (read_bytes), by one stream or four in each chunk, whichever is
 * faster.  A peak is the rate of ten independent chains of one instruction (or of the shortest sequence
 * that multiplies and adds) in registers.  All are the best of several passes: machines that share a
 * host vary by the minute.
 */
#ifndef VLLM_BENCH_PROBE_H
#define VLLM_BENCH_PROBE_H

#include "kutil.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define READ	((size_t) 1 << 30)

static int	passes = 3;
static size_t read_bytes = READ;	/* at most READ */
static clockid_t clock_id = CLOCK_MONOTONIC;

static double
now(void)
{
	struct timespec ts;

	clock_gettime(clock_id, &ts);
	return ts.tv_sec + ts.tv_nsec * 1e-9;
}

/*
 * Print the usage for --help, or a hint after wrong arguments; returns the exit status.  c is the result
 * of getopt_long(), 'h' for --help.
 */
static inline int
usage_exit(int c, const char *usage)
{
	const char *end = strchr(usage, ' ');

	if (c == 'h')
	{
		printf("Usage: %s", usage);
		return 0;
	}
	if (c == -1)
		fprintf(stderr, "unexpected or wrong argument; ");
	fprintf(stderr, "%.*s --help lists the options\n", (int) (end - usage), usage);
	return 2;
}

/* Parse a number of at least 1; 0: it is none. */
static inline int
arg_count(const char *text)
{
	char	   *end;
	long		n = strtol(text, &end, 10);

	return end != text && *end == '\0' && n > 0 && n <= 1 << 20 ? (int) n : 0;
}

static inline void *
big_alloc(size_t n)
{
	void	   *p;

	n = (n + ((size_t) 2 << 20)) & ~(((size_t) 2 << 20) - 1);
	if (posix_memalign(&p, 2 << 20, n) != 0)
	{
		fprintf(stderr, "out of memory\n");
		exit(1);
	}
	madvise(p, n, MADV_HUGEPAGE);
	return p;
}

typedef unsigned long u64x2 __attribute__((vector_size(16), may_alias));

typedef struct ReadJob
{
	const char *p;
	size_t		chunk;
	int			streams;		/* 1 or 4: which one is faster depends on the CPU */
	volatile unsigned long sink[256];
} ReadJob;

static void
read_chunk(void *arg, int chunk, int ith)
{
	ReadJob    *j = arg;
	size_t		part = j->chunk / j->streams / sizeof(u64x2);
	size_t		step = j->streams == 1 ? 4 : 1;
	size_t		gap = j->streams == 1 ? 1 : part;
	const u64x2 *p = (const u64x2 *) (j->p + (size_t) chunk * j->chunk);
	u64x2		a = {0},
				b = {0},
				c = {0},
				d = {0};

	for (size_t i = 0; i < part; i += step)
	{
		a += p[i];
		b += p[i + gap];
		c += p[i + 2 * gap];
		d += p[i + 3 * gap];
	}
	a += b + c + d;
	j->sink[ith] += a[0] + a[1];
}

static inline double
read_bandwidth(KPool *pool, const char *buf)
{
	ReadJob    *j = calloc(1, sizeof(*j));
	double		best = 0;

	j->p = buf;
	j->chunk = read_bytes / 256;
	for (int i = 0; i < 2 * passes + 2; i++)
	{
		double		t = now();

		j->streams = i % 2 ? 1 : 4;
		kpool_run(pool, read_chunk, j, 256);
		t = read_bytes / (now() - t) / 1e9;
		best = t > best ? t : best;
	}
	free(j);
	return best;
}

/* buf has read_bytes that have been written. */
static inline double
bandwidth_of(int threads, const char *buf)
{
	KPool	   *pool = kpool_new(threads);
	double		gb = read_bandwidth(pool, buf);

	kpool_free(pool);
	return gb;
}

/* ---- arithmetic ---- */

typedef enum Unit
{
	UNIT_FLOAT,
	UNIT_BF16,					/* products of bfloat16; the float unit if there is no other */
	UNIT_INT8					/* sums of byte products in 32 bits */
} Unit;

typedef struct Peak
{
	double		gflops;			/* or GOP/s; 0: can't be measured */
	const char *how;			/* the instructions used */
} Peak;

#ifdef __x86_64__
#include <immintrin.h>

#define PEAK_LOOPS	500000

/*
 * Ten times the instruction, each with an accumulator of its own; a macro, because asm needs constant
 * text.
 */
#define CHAINS(insn, reg, x) \
	__asm__ volatile(insn " %10, %10, %0\n\t" insn " %10, %10, %1\n\t" insn " %10, %10, %2\n\t" \
					 insn " %10, %10, %3\n\t" insn " %10, %10, %4\n\t" insn " %10, %10, %5\n\t" \
					 insn " %10, %10, %6\n\t" insn " %10, %10, %7\n\t" insn " %10, %10, %8\n\t" \
					 insn " %10, %10, %9\n\t" \
					 : "+" reg(a[0]), "+" reg(a[1]), "+" reg(a[2]), "+" reg(a[3]), "+" reg(a[4]), \
					 "+" reg(a[5]), "+" reg(a[6]), "+" reg(a[7]), "+" reg(a[8]), "+" reg(a[9]) \
					 : reg(x))

/* Byte products on AVX2, into four accumulators: pairs, fours, sum. */
#define BYTE_STEP(acc) \
	"vpmaddubsw %5, %5, %4\n\tvpmaddwd %4, %5, %4\n\tvpaddd %4, " acc ", " acc "\n\t"

__attribute__((target("avx2,fma")))
static void
float_chunk(void *arg, int chunk, int ith)
{
	__m256		x = _mm256_set1_ps(0.999f),
				a[10] = {0};

	(void) chunk;
	for (int n = 0; n < PEAK_LOOPS; n++)
		CHAINS("vfmadd231ps", "x", x);
	((volatile float *) arg)[ith] = a[0][0] + a[9][0];
}

__attribute__((target("avx512f")))
static void
float512_chunk(void *arg, int chunk, int ith)
{
	__m512		x = _mm512_set1_ps(0.999f),
				a[10] = {0};

	(void) chunk;
	for (int n = 0; n < PEAK_LOOPS; n++)
		CHAINS("vfmadd231ps", "v", x);
	((volatile float *) arg)[ith] = a[0][0] + a[9][0];
}

__attribute__((target("avx512f")))
static void
bf16_chunk(void *arg, int chunk, int ith)
{
	__m512		x = _mm512_set1_ps(0.999f),
				a[10] = {0};

	(void) chunk;
	for (int n = 0; n < PEAK_LOOPS; n++)
		CHAINS("vdpbf16ps", "v", x);
	((volatile float *) arg)[ith] = a[0][0] + a[9][0];
}

__attribute__((target("avx512f")))
static void
vnni512_chunk(void *arg, int chunk, int ith)
{
	__m512i		x = _mm512_set1_epi8(1),
				a[10] = {0};

	(void) chunk;
	for (int n = 0; n < PEAK_LOOPS; n++)
		CHAINS("vpdpbusd", "v", x);
	((volatile float *) arg)[ith] = (float) (a[0][0] + a[9][0]);
}

__attribute__((target("avx2")))
static void
vnni256_chunk(void *arg, int chunk, int ith)
{
	__m256i		x = _mm256_set1_epi8(1),
				a[10] = {0};

	(void) chunk;
	for (int n = 0; n < PEAK_LOOPS; n++)
		CHAINS("%{vex%} vpdpbusd", "x", x);
	((volatile float *) arg)[ith] = (float) (a[0][0] + a[9][0]);
}

__attribute__((target("avx2")))
static void
bytes256_chunk(void *arg, int chunk, int ith)
{
	__m256i		x = _mm256_set1_epi8(1),
				t,
				a[4] = {0};

	(void) chunk;
	for (int n = 0; n < PEAK_LOOPS; n++)
		__asm__ volatile(BYTE_STEP("%0") BYTE_STEP("%1") BYTE_STEP("%2") BYTE_STEP("%3")
						 BYTE_STEP("%0") BYTE_STEP("%1") BYTE_STEP("%2") BYTE_STEP("%3")
						 BYTE_STEP("%0") BYTE_STEP("%1")
						 : "+x"(a[0]), "+x"(a[1]), "+x"(a[2]), "+x"(a[3]), "=&x"(t)
						 : "x"(x));
	((volatile float *) arg)[ith] = (float) (a[0][0] + a[3][0]);
}

/* Return the peak of all threads of the pool together. */
static inline Peak
unit_peak(KPool *pool, Unit unit)
{
	bool		wide = kernels_select("avx512", NULL) != NULL;
	void		(*chunk) (void *, int, int) = wide ? float512_chunk : float_chunk;
	Peak		p = {0, "vfmadd231ps"};
	double		per_loop = 10 * 2 * (wide ? 16 : 8);
	float		sink[256];
	int			n = kpool_nthreads(pool);

	if (kernels_select("avx2", NULL) == NULL || n > 256)
		return p;
	if (unit == UNIT_BF16 && kernels_select("avx512_bf16", NULL) != NULL)
		chunk = bf16_chunk, p.how = "vdpbf16ps", per_loop = 10 * 2 * 32;
	if (unit == UNIT_INT8 && kernels_select("avx512_vnni", NULL) != NULL)
		chunk = vnni512_chunk, p.how = "vpdpbusd", per_loop = 10 * 2 * 64;
	else if (unit == UNIT_INT8 && __builtin_cpu_supports("avxvnni"))
		chunk = vnni256_chunk, p.how = "vpdpbusd", per_loop = 10 * 2 * 32;
	else if (unit == UNIT_INT8)
		chunk = bytes256_chunk, p.how = "vpmaddubsw, vpmaddwd, vpaddd", per_loop = 10 * 2 * 32;
	for (int i = 0; i < 2 * passes + 4; i++)
	{
		double		t = now();

		kpool_run(pool, chunk, sink, n);
		t = PEAK_LOOPS * per_loop * n / (now() - t) / 1e9;
		p.gflops = t > p.gflops ? t : p.gflops;
	}
	return p;
}
#else
static inline Peak
unit_peak(KPool *pool, Unit unit)
{
	(void) pool;
	(void) unit;
	return (Peak) {0, "none"};
}
#endif

#endif							/* VLLM_BENCH_PROBE_H */
