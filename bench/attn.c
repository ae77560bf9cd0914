/*
 * attn.c
 *	  Speed of attention against this machine's float peak, with one or more threads.
 *
 * Decode of one sequence at several lengths, decode of 16 sequences, prefill of 512, and both with a
 * sliding window, for each KV type.  In decode, K and V are read from DRAM: 128 MB of BF16 are read
 * between two uses of the same data.  A product of a head's query and a visible position counts 2 x
 * head_dim operations, twice (scores and values); exp and all other operations are not counted.
 */
#include "probe.h"

#include <getopt.h>

static const char usage[] =
"bench/attn [-i isa] [-t threads] [-c] [-g heads/kv_heads] [-d head_dim] [-b block_size] [-T type] [-w work] "
"[--json]\n  -i: kernels by name (default: the best)\n"
"  -t: threads (default 1)\n"
"  -c: one thread and its CPU time, for a machine that others use too\n"
"  -g, -d, -b: shape (default 14/2, 64, 16)\n"
"  -T: only this type of KV: F32, BF16, F16 or INT8\n"
"  -w: only lines with this in their name\n";

#define MAX_ROWS	512
#define MAX_SEQS	16

static const char *work;		/* only shapes with this text in their name; NULL: all */

typedef struct Shape
{
	const char *name;
	int			seqs;
	int			rows;			/* of each sequence */
	int			context;		/* positions that the last row attends to */
	int			window;
} Shape;

static const Shape shapes[] = {
	{"decode at 128", 1, 1, 128, 0},
	{"decode at 512", 1, 1, 512, 0},
	{"decode at 1024", 1, 1, 1024, 0},
	{"decode at 4096", 1, 1, 4096, 0},
	{"16 decode at 256", 16, 1, 256, 0},
	{"16 decode at 1024", 16, 1, 1024, 0},
	{"prefill 128", 1, 128, 128, 0},
	{"prefill 512", 1, 512, 512, 0},
	{"prefill 512 at 2048", 1, 512, 2048, 0},
	{"prefill 512, window 256", 1, 512, 512, 256},
};

/* Return the GFLOP/s of products of float matrices, as the reference for attention. */
static double
mm_peak(const Kernels *k, KPool *pool)
{
	enum
	{
		N = 512, K = 512, M = 96
	};
	float	   *w = big_alloc(N * K * 4),
			   *x = big_alloc(M * K * 4),
			   *y = big_alloc(M * N * 4);
	KTensor		t = {.name = "w", .type = KT_F32, .ndim = 2, .shape = {N, K}, .data = w, .nbytes = N * K * 4};
	KMat		m = {KT_F32, N, K, big_alloc(k->mat_bytes(KT_F32, N, K)), k->mat_bytes(KT_F32, N, K)};
	void	   *ws = big_alloc(k->mm_scratch(KT_F32, M, K) + 64);
	double		best = 1e9;

	memset(w, 0, N * K * 4);
	memset(x, 0, M * K * 4);
	k->mat_pack(&m, &t, 0, N);
	for (int p = 0; p < 20; p++)
	{
		double		t0 = now();

		for (int i = 0; i < 10; i++)
			k->mm(pool, &m, x, M, K, y, N, NULL, ws);
		t0 = (now() - t0) / 10;
		best = t0 < best ? t0 : best;
	}
	free(w);
	free(x);
	free(y);
	free(m.data);
	free(ws);
	return 2.0 * M * N * K / best / 1e9;
}

/* Return the positions that all rows of a sequence attend to, together. */
static double
visible(const Shape *s)
{
	double		sum = 0;

	for (int i = 0; i < s->rows; i++)
	{
		int			n = s->context - s->rows + i + 1;

		sum += s->window > 0 ? k_min(n, s->window) : n;
	}
	return sum;
}

static double
time_shape(const Kernels *k, KPool *pool, KvView *kv, const Shape *s, int heads, const float *q,
		   float *out, void *ws)
{
	int32_t		tables[MAX_SEQS][4096 / 16];
	const int32_t *tablep[MAX_SEQS];
	int32_t		pos[MAX_ROWS],
				start[MAX_SEQS + 1];
	int			blocks = (s->context + kv->block_size - 1) / kv->block_size,
				used = 0;
	KRows		r = {.n_rows = s->seqs * s->rows, .n_seqs = s->seqs, .seq_start = start, .pos = pos,
					 .block_table = tablep};
	KAttn		a = {.scale = 0.125f, .window = s->window};
	double		best = 1e9;
	double		t0 = now();

	for (int i = 0; i < s->seqs; i++)
	{
		tablep[i] = tables[i];
		start[i] = i * s->rows;
		for (int b = 0; b < blocks; b++)
			tables[i][b] = used++ * 37 % kv->n_blocks;
		for (int j = 0; j < s->rows; j++)
			pos[i * s->rows + j] = s->context - s->rows + j;
	}
	start[s->seqs] = r.n_rows;
	/* two seconds, and at least twice through all layers of a decode */
	for (int p = 0; p < 2 || now() - t0 < 2; p++)
	{
		int			layers = s->rows > 1 ? 2 : kv->n_layers;
		double		t = now();

		for (int l = 0; l < layers; l++)
			k->attn(pool, kv, l, &r, q, heads * kv->head_dim, heads, &a, out, ws);
		t = (now() - t) / layers;
		best = t < best ? t : best;
	}
	return best;
}

static void
bench_type(const Kernels *k, KPool *pool, KType type, int heads, int kv_heads, int hd, int bs,
		   double peak, bool json, bool *first)
{
	KvView		kv = {
		.type = type, .n_layers = 16, .n_blocks = 16 * 1024 / bs, .block_size = bs,
		.n_kv_heads = kv_heads, .head_dim = hd
	};
	size_t		total = kv_layout(&kv);
	size_t		width = (size_t) heads * hd;
	float	   *q = big_alloc(MAX_ROWS * width * 4),
			   *out = big_alloc(MAX_ROWS * width * 4);
	void	   *ws = big_alloc(k->attn_scratch(&kv, heads, MAX_ROWS, kpool_nthreads(pool)));
	uint32_t	seed = 1;

	kv.base = big_alloc(total);
	/* small values of any type */
	memset(kv.base, 0x3c, total);
	for (size_t i = 0; i < MAX_ROWS * width; i++)
	{
		seed = seed * 1664525 + 1013904223;
		q[i] = (float) (int) (seed >> 16) / 65536.0f - 0.5f;
	}
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
	{
		const Shape *s = &shapes[i];
		double		t,
					gf,
					gb;

		if (work != NULL && strstr(s->name, work) == NULL)
			continue;
		t = time_shape(k, pool, &kv, s, heads, q, out, ws);
		gf = 4.0 * hd * heads * s->seqs * visible(s) / t / 1e9;
		gb = s->rows > 1 ? 0 : (double) kv.layer_stride * s->context / bs * s->seqs / t / 1e9;

		if (json)
			printf("%s\n  {\"type\": \"%s\", \"work\": \"%s\", \"us\": %.1f, \"gflop_s\": %.2f, \"gb_s\": "
				   "%.2f}",
				   *first ? "" : ",", ktype_name(type), s->name, t * 1e6, gf, gb);
		else
			printf("%-5s %-24s %9.1f us %7.1f GFLOP/s %3.0f%% %6.1f GB/s\n", ktype_name(type), s->name,
				   t * 1e6, gf, 100 * gf / peak, gb);
		*first = false;
		fflush(stdout);
	}
	free(kv.base);
	free(q);
	free(out);
	free(ws);
}

int
main(int argc, char **argv)
{
	static const KType types[] = {KT_F32, KT_BF16, KT_F16, KT_INT8};
	static const struct option options[] = {{"help", no_argument, NULL, 'h'},
											{"json", no_argument, NULL, 'j'}, {NULL, 0, NULL, 0}};
	const char *isa = NULL,
			   *why;
	int			threads = 1,
				heads = 14,
				kv_heads = 2,
				hd = 64,
				bs = 16,
				c;
	bool		json = false,
				first = true;
	const char *only = NULL;
	const Kernels *k;
	KPool	   *pool;
	double		peak;

	while ((c = getopt_long(argc, argv, "i:t:cg:d:b:T:w:", options, NULL)) != -1)
	{
		if (c == 'i')
			isa = optarg;
		else if (c == 't')
			threads = arg_count(optarg);
		else if (c == 'c')
		{
			clock_id = CLOCK_THREAD_CPUTIME_ID;
			threads = 1;
		}
		else if (c == 'g' && sscanf(optarg, "%d/%d", &heads, &kv_heads) == 2)
			continue;
		else if (c == 'd')
			hd = arg_count(optarg);
		else if (c == 'b')
			bs = arg_count(optarg);
		else if (c == 'w')
			work = optarg;
		else if (c == 'T')
			only = optarg;
		else if (c == 'j')
			json = true;
		else
			return usage_exit(c, usage);
	}
	if (threads < 1 || hd < 1 || bs < 1 || bs % 16 != 0 || kv_heads < 1 || heads < 1 ||
		heads % kv_heads != 0 || optind != argc)
		return usage_exit(-1, usage);
	k = kernels_select(isa, &why);
	if (k == NULL)
	{
		fprintf(stderr, "attn: %s: %s\n", isa, why);
		return 1;
	}
	pool = kpool_new(threads);
	peak = mm_peak(k, pool);
	if (json)
		printf("{\"isa\": \"%s\", \"threads\": %d, \"heads\": %d, \"kv_heads\": %d, \"head_dim\": %d, "
			   "\"block_size\": %d, \"mm_gflop_s\": %.2f, \"attention\": [",
			   k->name, threads, heads, kv_heads, hd, bs, peak);
	else
		printf("%s, %d thread(s), %d heads on %d of %d, blocks of %d: products of F32 reach %.1f GFLOP/s\n",
			   k->name, threads, heads, kv_heads, hd, bs, peak);
	for (int i = 0; i < 4; i++)
		if (only == NULL || strcmp(only, ktype_name(types[i])) == 0)
			bench_type(k, pool, types[i], heads, kv_heads, hd, bs, peak, json, &first);
	if (json)
		printf("\n ]}\n");
	kpool_free(pool);
	return 0;
}
