/*
 * grouped.c
 *	  Speed of grouped products (mixtures of experts) against one product of the same size, and against
 *	  the same products one by one.
 *
 * 64 matrices of 1,536 x 2,048; each row uses 8 of them at random, others in every pass, so that they
 * are read from DRAM.  With one row each group has one row and memory's speed is the limit: GB/s of the
 * weights used, compared with one matrix of 8 x 1,536 columns.  The three take turns; a result is the
 * best of several passes.
 */
#include "probe.h"

#include <getopt.h>

static const char usage[] =
"bench/grouped [-i isa] [-t threads] [-T type] [-q] [-c] [--json]\n"
"  -i: kernels by name (default: the best)\n"
"  -t: threads (default 1)\n"
"  -T: only this type\n"
"  -q: quick (fewer passes)\n"
"  -c: one thread and its CPU time, for a machine that others use too\n";

#define MATS		64
#define USED		8
#define N			1536
#define K			2048
#define MAX_TOKENS	64
#define MAX_ROWS	(MAX_TOKENS * USED)

typedef struct Bench
{
	const Kernels *k;
	KPool	   *pool;
	KMat		w[MATS];
	KMat		big[MATS / USED];	/* the same memory as matrices of USED * N columns */
	int32_t		start[MATS + 1];
	int			groups;			/* groups that have rows */
	float	   *x;
	float	   *y;
	void	   *ws;
	uint32_t	seed;
} Bench;

static uint32_t
next_random(Bench *b)
{
	b->seed = b->seed * 1664525 + 1013904223;
	return b->seed >> 8;
}

/* Make packed matrices of small values of any type; all have the same values. */
static void
make_mats(Bench *b, KType t)
{
	size_t		row = ktype_row_bytes(t, K),
				bytes = b->k->mat_bytes(t, N, K);
	uint8_t    *src = big_alloc(row * N);
	char	   *mem = big_alloc(bytes * MATS);
	KTensor		ten = {.name = "w", .type = t, .ndim = 2, .shape = {N, K}, .data = src, .nbytes = row * N};

	/* with these bits, scales of any format and size are below 1 */
	for (size_t i = 0; i < row * N; i++)
		src[i] = (uint8_t) (next_random(b) >> 16 & 0xbb);
	for (size_t i = 0; t <= KT_BF16 && i < (size_t) N * K; i++)
		kelem_put(t, src + i / K * row, i % K, (float) (int) (next_random(b) >> 8) / 65536.0f - 0.5f);
	for (int i = 0; i < MATS; i++)
	{
		b->w[i] = (KMat) {t, N, K, mem + bytes * (size_t) i, bytes};
		if (i == 0)
			b->k->mat_pack(&b->w[0], &ten, 0, N);
		else
			memcpy(b->w[i].data, mem, bytes);
	}
	/* complete panels, so that adjacent matrices form a large one */
	for (int i = 0; i < MATS / USED; i++)
		b->big[i] = (KMat) {t, N * USED, K, b->w[i * USED].data, bytes * USED};
	free(src);
}

/* Assign USED different matrices to each token. */
static void
choose(Bench *b, int tokens)
{
	int			count[MATS] = {0};

	for (int t = 0; t < tokens; t++)
	{
		bool		taken[MATS] = {false};

		for (int n = 0; n < USED;)
		{
			uint32_t	i = next_random(b) % MATS;

			if (taken[i])
				continue;
			taken[i] = true;
			count[i]++;
			n++;
		}
	}
	b->groups = 0;
	for (int i = 0; i < MATS; i++)
	{
		b->start[i + 1] = b->start[i] + count[i];
		b->groups += count[i] > 0;
	}
}

static double
time_grouped(Bench *b)
{
	double		t = now();

	b->k->mm_grouped(b->pool, b->w, MATS, b->start, b->x, K, b->y, N, NULL, b->ws);
	return now() - t;
}

static double
time_single(Bench *b)
{
	double		t = now();

	for (int i = 0; i < MATS; i++)
		if (b->start[i + 1] > b->start[i])
			b->k->mm(b->pool, &b->w[i], b->x + (size_t) b->start[i] * K, b->start[i + 1] - b->start[i], K,
					 b->y + (size_t) b->start[i] * N, N, NULL, b->ws);
	return now() - t;
}

/* One row times a large matrix: the same numbers of weights and products as USED groups of one row. */
static double
time_big(Bench *b)
{
	const KMat *w = &b->big[next_random(b) % (MATS / USED)];
	double		t = now();

	b->k->mm(b->pool, w, b->x, 1, K, b->y, w->n, NULL, b->ws);
	return now() - t;
}

static void
bench_tokens(Bench *b, int tokens, double bw, bool json)
{
	double		best[3] = {1e9, 1e9, 1e9};
	double		bytes;

	for (int p = 0; p < passes * 20; p++)
	{
		double		t[3];

		choose(b, tokens);
		t[0] = time_grouped(b);
		choose(b, tokens);
		t[1] = time_single(b);
		t[2] = tokens == 1 ? time_big(b) : 1e9;
		for (int i = 0; i < 3; i++)
		{
			/* divided by the number of groups, which differs between passes */
			double		per = t[i] / (i == 2 ? USED : b->groups);

			best[i] = per < best[i] ? per : best[i];
		}
	}
	bytes = (double) b->w[0].nbytes / 1e9;
	if (json)
		printf(", \"t%d\": {\"grouped_gb_s\": %.2f, \"one_by_one_gb_s\": %.2f, \"one_matrix_gb_s\": %.2f}",
			   tokens, bytes / best[0], bytes / best[1], tokens == 1 ? bytes / best[2] : 0.0);
	else
	{
		printf(" | %6.1f GB/s %3.0f%% %5.2f", bytes / best[0], 100 * bytes / best[0] / bw, best[1] / best[0]);
		if (tokens == 1)
			printf(" %5.2f", best[2] / best[0]);
	}
	fflush(stdout);
}

static void
bench_type(Bench *b, KType t, double bw, bool json, bool first)
{
	static const int tokens[] = {1, 4, 16, MAX_TOKENS};
	size_t		a,
				c;

	make_mats(b, t);
	a = b->k->mm_grouped_scratch(t, MATS, MAX_ROWS, K);
	c = b->k->mm_scratch(t, MAX_ROWS, K);
	b->ws = big_alloc(a > c ? a : c);
	if (json)
		printf("%s\n  {\"type\": \"%s\"", first ? "" : ",", ktype_name(t));
	else
		printf("%-7s", ktype_name(t));
	for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++)
		bench_tokens(b, tokens[i], bw, json);
	printf(json ? "}" : "\n");
	free(b->w[0].data);
	free(b->ws);
}

int
main(int argc, char **argv)
{
	static const KType types[] = {KT_BF16, KT_Q8_0, KT_Q4_K, KT_MXFP4};
	static const struct option options[] = {{"help", no_argument, NULL, 'h'},
											{"json", no_argument, NULL, 'j'}, {0}};
	const char *isa = NULL,
			   *only = NULL,
			   *why;
	int			threads = 1,
				c;
	bool		json = false,
				first = true;
	Bench		b = {.seed = 1};
	double		bw;
	char	   *buf;

	passes = 4;
	while ((c = getopt_long(argc, argv, "i:t:T:qc", options, NULL)) != -1)
	{
		if (c == 'i')
			isa = optarg;
		else if (c == 't')
			threads = arg_count(optarg);
		else if (c == 'T')
			only = optarg;
		else if (c == 'q')
			passes = 2;
		else if (c == 'c')
			clock_id = CLOCK_THREAD_CPUTIME_ID;
		else if (c == 'j')
			json = true;
		else
			return usage_exit(c, usage);
	}
	if (optind < argc)
		return usage_exit(-1, usage);
	threads = clock_id == CLOCK_MONOTONIC ? threads : 1;
	b.k = kernels_select(isa, &why);
	if (b.k == NULL || threads < 1)
	{
		fprintf(stderr, "grouped: %s\n", b.k == NULL ? why : "-t takes a number of threads");
		return 1;
	}
	b.pool = kpool_new(threads);
	buf = big_alloc(READ);
	memset(buf, 1, READ);
	bw = read_bandwidth(b.pool, buf);
	free(buf);
	b.x = big_alloc(sizeof(float) * MAX_ROWS * K);
	b.y = big_alloc(sizeof(float) * MAX_ROWS * N);
	for (int i = 0; i < MAX_ROWS * K; i++)
		b.x[i] = (float) (next_random(&b) % 2048) / 1024.0f - 1.0f;
	if (json)
		printf("{\"isa\": \"%s\", \"threads\": %d, \"read_gb_s\": %.2f, \"grouped\": [", b.k->name, threads,
			   bw);
	else
		printf("%s, %d thread(s): memory read %.1f GB/s.  %d of %d matrices of %d x %d a token; 1, 4, 16, %d "
			   "tokens:\nweights used, %% of read, times as fast as one by one (1 token: and as one "
			   "matrix)\n", b.k->name, threads, bw, USED, MATS, N, K, MAX_TOKENS);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (only == NULL || strcmp(only, ktype_name(types[i])) == 0)
		{
			bench_type(&b, types[i], bw, json, first);
			first = false;
		}
	printf(json ? "\n ]}\n" : "");
	kpool_free(b.pool);
	free(b.x);
	free(b.y);
	return 0;
}
