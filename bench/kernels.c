/*
 * kernels.c
 *	  Speed of the matrix kernels against this machine's limits.
 *
 * Measures in one run: memory read bandwidth and fused-multiply-add peak, then matrix products of a 0.5B
 * model's shapes with one row (GB/s of weights) and more rows (GFLOP/s), and prints each with its ratio
 * to the limit.  Weights are read from DRAM: copies of a matrix are rotated so that 256 MB are read
 * between two uses.  A result is the best of several passes; machines that share a host vary by the
 * minute, so the limits are measured again at the end.
 */
#include "probe.h"

#include <getopt.h>
#include <unistd.h>

static const char usage[] =
"bench/kernels [-i isa] [-t max_threads] [-T types] [-s N,K] [-f] [-q] [-c] [-b] [--json]\n"
"  -i: kernels by name (default: the best)\n"
"  -t: numbers of threads double up to this one (default: all CPUs)\n"
"  -T: only these types, as in \"Q8_0,Q4_K\"\n"
"  -s: matrices of N outputs and K inputs instead of a 0.5B model's\n"
"  -f: float types only at M > 1\n"
"  -q: quick (fewer passes and shapes)\n"
"  -c: one thread and its CPU time, for a machine that others use too\n"
"  -b: only the read bandwidth of max_threads threads, GB/s\n"
"  --json: a line of JSON for each number of threads instead of a table\n";

#define ROTATE	((size_t) 256 << 20)

static bool json;
static const char *only_types;	/* NULL: all */
static int	shapes[3][2] = {{4864, 1024}, {1024, 4864}, {151936, 1024}};
static int	n_shapes = 3;

/* ---- matrices ---- */

typedef struct Case
{
	KMat		mats[512];
	int			copies;
	char	   *mem;
} Case;

/* Make packed matrices of small values of any type; copies have the same values. */
static void
make_case(Case *c, const Kernels *k, KType t, int n, int kk)
{
	size_t		row = ktype_row_bytes(t, kk);
	uint8_t    *src = malloc(row * n);
	KTensor		ten = {.name = "w", .type = t, .ndim = 2, .shape = {n, kk}, .data = src, .nbytes = row * n};
	size_t		bytes = k_align64(k->mat_bytes(t, n, kk));
	uint32_t	seed = 1;
	const float scale = 0x1p-8f;

	/* with these bits, scales of any format and size are below 1 */
	for (size_t i = 0; i < row * n; i++)
	{
		seed = seed * 1664525 + 1013904223;
		src[i] = (uint8_t) (seed >> 24 & 0xbb);
	}
	for (size_t i = 0; t <= KT_BF16 && i < (size_t) n * kk; i++)
	{
		seed = seed * 1664525 + 1013904223;
		kelem_put(t, src + i / kk * row, i % kk, (float) (int) (seed >> 16) / 65536.0f - 0.5f);
	}
	/* a scale with which no weight is subnormal */
	for (size_t j = 0; t == KT_FP8 && j < (size_t) n; j++)
		for (int i = 0; i < kk; i += FP8_GROUP)
			memcpy(src + j * row + (size_t) (i / FP8_GROUP) * sizeof(scale), &scale, sizeof(scale));
	c->copies = k_min(512, (int) (ROTATE / bytes) + 1);
	c->mem = big_alloc(bytes * c->copies);
	for (int i = 0; i < c->copies; i++)
	{
		c->mats[i] = (KMat) {t, n, kk, c->mem + bytes * i, bytes};
		if (i == 0)
			k->mat_pack(&c->mats[0], &ten, 0, n);
		else
			memcpy(c->mats[i].data, c->mem, bytes);
	}
	free(src);
}

/* Return the seconds of one product. */
static double
time_mm(const Kernels *k, KPool *pool, Case *c, int rows, const float *x, float *y, void *ws)
{
	double		best = 1e9;
	int			n = c->mats[0].n,
				kk = c->mats[0].k;
	/* about 50 ms a pass; with few rows at least all copies once */
	int			runs = rows >= 16 ? k_max(1, (int) (2e9 / ((double) rows * n * kk))) : c->copies;

	for (int p = 0; p < passes; p++)
	{
		double		t = now();

		for (int i = 0; i < runs; i++)
			k->mm(pool, &c->mats[i % c->copies], x, rows, kk, y, n, NULL, ws);
		t = (now() - t) / runs;
		best = t < best ? t : best;
	}
	return best;
}

static void
bench_type(const Kernels *k, KPool *pool, KType t, int n, int kk, double bw, double peak, bool many,
		   bool first)
{
	static const int rows[] = {1, 4, 16, 64, 512};
	Case		c;
	float	   *x,
			   *y;
	void	   *ws;
	int			max = many ? 512 : 1;

	make_case(&c, k, t, n, kk);
	x = big_alloc((size_t) max * kk * 4);
	y = big_alloc((size_t) max * n * 4);
	ws = big_alloc(k->mm_scratch(t, max, kk) + 64);
	for (size_t i = 0; i < (size_t) max * kk; i++)
		x[i] = (float) (i * 2654435761u % 2048) / 1024.0f - 1.0f;
	if (json)
		printf("%s\n  {\"type\": \"%s\", \"k\": %d, \"n\": %d, \"bits\": %.3f", first ? "" : ",",
			   ktype_name(t), kk, n, 8.0 * (double) c.mats[0].nbytes / n / kk);
	else
		printf("%-6s K%-4d N%-6d %5.2f", ktype_name(t), kk, n, 8.0 * (double) c.mats[0].nbytes / n / kk);
	for (int i = 0; i < 5 && rows[i] <= max; i++)
	{
		double		s = time_mm(k, pool, &c, rows[i], x, y, ws);
		double		gb = (double) c.mats[0].nbytes / s / 1e9;
		double		gf = 2.0 * rows[i] * n * kk / s / 1e9;

		if (json)
			printf(", \"m%d_gb_s\": %.2f, \"m%d_gflop_s\": %.2f", rows[i], gb, rows[i], gf);
		else if (rows[i] == 1)
			printf(" %6.1f %5.1f GB/s %3.0f%% |", gf, gb, 100 * gb / bw);
		else
			printf(" %6.1f %3.0f%% |", gf, peak > 0 ? 100 * gf / peak : 0.0);
		fflush(stdout);
	}
	printf(json ? "}" : "\n");
	free(c.mem);
	free(x);
	free(y);
	free(ws);
}

/* Is the type selected, that is, a word of only_types? */
static bool
wanted(KType t)
{
	const char *name = ktype_name(t);
	size_t		len = strlen(name);

	if (only_types == NULL)
		return true;
	for (const char *p = only_types; (p = strstr(p, name)) != NULL; p += len)
		if ((p == only_types || p[-1] == ',') && (p[len] == ',' || p[len] == '\0'))
			return true;
	return false;
}

static void
bench(const Kernels *k, int nthreads, const char *buf, bool quick, bool floats)
{
	KPool	   *pool = kpool_new(nthreads);
	double		bw = read_bandwidth(pool, buf);
	double		peak = unit_peak(pool, UNIT_FLOAT).gflops;
	bool		first = true;

	if (json)
		printf("{\"isa\": \"%s\", \"threads\": %d, \"read_gb_s\": %.2f, \"fma_gflop_s\": %.2f, \"mm\": [",
			   k->name, nthreads, bw, peak);
	else
		printf("\n%s, %d thread(s): memory read %.1f GB/s, float fma peak %.1f GFLOP/s\n"
			   "%-20s  bits %27s | GFLOP/s and %% of the float peak at M=4 | 16 | 64 | 512\n",
			   k->name, nthreads, bw, peak, "", "M=1: GFLOP/s, % of read");
	for (int s = 0; s < (quick && n_shapes > 2 ? 2 : n_shapes); s++)
		for (int t = 0; t < KT_COUNT; t++)
			if (wanted(t) && k->mat_bytes(t, shapes[s][0], shapes[s][1]) != 0)
			{
				bench_type(k, pool, t, shapes[s][0], shapes[s][1], bw, peak,
						   s < 2 && !(floats && t > KT_BF16), first);
				first = false;
			}
	bw = read_bandwidth(pool, buf);
	peak = unit_peak(pool, UNIT_FLOAT).gflops;
	if (json)
		printf("\n ], \"after\": {\"read_gb_s\": %.2f, \"fma_gflop_s\": %.2f}}\n", bw, peak);
	else
		printf("after: memory read %.1f GB/s, float fma peak %.1f GFLOP/s\n", bw, peak);
	kpool_free(pool);
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {{"help", no_argument, NULL, 'h'},
											{"json", no_argument, NULL, 'j'}, {NULL, 0, NULL, 0}};
	const char *isa = NULL,
			   *why;
	int			max_threads = (int) sysconf(_SC_NPROCESSORS_ONLN);
	bool		quick = false,
				floats = false,
				bandwidth_only = false;
	const Kernels *k;
	char	   *buf;
	int			c;

	while ((c = getopt_long(argc, argv, "i:t:T:s:fqcb", options, NULL)) != -1)
	{
		if (c == 'b')
			bandwidth_only = true;
		else if (c == 'j')
			json = true;
		else if (c == 'T')
			only_types = optarg;
		else if (c == 's' && sscanf(optarg, "%d,%d", &shapes[0][0], &shapes[0][1]) == 2 && shapes[0][0] > 0 &&
				 shapes[0][1] > 0)
			n_shapes = 1;
		else if (c == 'i')
			isa = optarg;
		else if (c == 't')
			max_threads = arg_count(optarg);
		else if (c == 'f')
			floats = true;
		else if (c == 'q')
			quick = true;
		else if (c == 'c')
		{
			clock_id = CLOCK_THREAD_CPUTIME_ID;
			max_threads = 1;
		}
		else
			return usage_exit(c, usage);
	}
	if (max_threads < 1 || optind != argc)
		return usage_exit(-1, usage);
	k = kernels_select(isa, &why);
	if (k == NULL)
	{
		fprintf(stderr, "kernels: %s: %s\n", isa, why);
		return 1;
	}
	passes = quick ? 2 : 4;
	buf = big_alloc(READ);
	memset(buf, 1, READ);
	if (bandwidth_only)
	{
		printf("%.1f\n", bandwidth_of(max_threads, buf));
		free(buf);
		return 0;
	}
	for (int t = 1; t <= max_threads; t *= 2)
		bench(k, t, buf, quick, floats);
	free(buf);
	return 0;
}
