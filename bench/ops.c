/*
 * ops.c
 *	  Speed of the ops that are not products: norms, rotation, activation, storing of K and V, and
 *	  sampling.  bench/kernels measures products, bench/attn attention.
 *
 * Shapes of a 0.5B model (Qwen2.5), 1, 16 and 512 rows.  GB/s counts each input read and each output
 * written once; with few rows everything stays in the cache, so a result may be above the bandwidth of
 * memory.  GFLOP/s counts additions, multiplications and fused ones as two; exp and division as one.
 * Both are printed with their share of this machine's limits, measured in the same run.
 */
#include "probe.h"

#include <getopt.h>

#include "core/core_internal.h"

static const char usage[] =
"bench/ops [-i isa] [-t threads] [-q] [-c] [--json]\n"
"  -i: kernels by name (default: the best)\n"
"  -t: threads (default 1)\n"
"  -q: quick (fewer passes)\n"
"  -c: one thread and its CPU time\n";

#define DIM			896
#define FFN			4864
#define HEADS		14
#define KV_HEADS	2
#define HEAD_DIM	64
#define VOCAB		151936
#define MAX_ROWS	512
#define POSITIONS	4096

typedef struct Work
{
	const Kernels *k;
	KPool	   *pool;
	int			rows;
	float	   *x;				/* [MAX_ROWS][2 * FFN] */
	float	   *y;
	float	   *w;				/* norm weights; cos and sin */
	KvView		kv;
	KRows		r;
	Sampler    *sampler;
	GenParams	params;
} Work;

typedef struct Op
{
	const char *name;
	void		(*run) (Work *w);
	double		bytes;			/* for each row */
	double		flops;			/* for each row */
	KType		kv;				/* KV type, of ops on the KV cache */
	int			max_rows;
} Op;

static void
run_rmsnorm(Work *w)
{
	w->k->rmsnorm(w->pool, w->y, w->x, w->w, w->rows, DIM, 1e-6f);
}

static void
run_add_rmsnorm(Work *w)
{
	w->k->add_rmsnorm(w->pool, w->y, w->x, w->x + (size_t) MAX_ROWS * DIM, w->w, w->rows, DIM, 1e-6f);
}

static void
run_add(Work *w)
{
	w->k->add(w->pool, w->y, w->x, w->rows, DIM);
}

static void
run_rope(Work *w)
{
	w->k->rope(w->pool, w->x, w->rows, HEADS * HEAD_DIM, HEADS, HEAD_DIM, w->r.pos, w->w, HEAD_DIM);
}

static void
run_act_silu(Work *w)
{
	w->k->act_mul(w->pool, KACT_SILU, w->y, w->x, w->rows, FFN);
}

static void
run_act_gelu(Work *w)
{
	w->k->act_mul(w->pool, KACT_GELU, w->y, w->x, w->rows, FFN);
}

static void
run_act_gelu_tanh(Work *w)
{
	w->k->act_mul(w->pool, KACT_GELU_TANH, w->y, w->x, w->rows, FFN);
}

static void
run_layernorm(Work *w)
{
	w->k->layernorm(w->pool, w->y, w->x, w->w, w->w, w->rows, DIM, 1e-5f);
}

static void
run_norm_heads(Work *w)
{
	w->k->norm_heads(w->pool, KNORM_RMS, w->x, w->rows, HEADS * HEAD_DIM, HEADS, HEAD_DIM, w->w, 0, 1e-6f);
}

static void
run_kv_write(Work *w)
{
	w->k->kv_write(w->pool, &w->kv, 0, &w->r, w->x, KV_HEADS * HEAD_DIM,
					w->x + (size_t) MAX_ROWS * FFN, KV_HEADS * HEAD_DIM);
}

static void
run_sample(Work *w)
{
	SampleRow	rows[16];

	for (int i = 0; i < w->rows; i++)
		rows[i] = (SampleRow)
	{
		.params = &w->params,.seed = (uint64_t) i,.position = i
	};
	smp_run(w->sampler, rows, w->rows, w->x);
}

#define KVW	(KV_HEADS * HEAD_DIM)

static const Op ops[] = {
	{"rmsnorm", run_rmsnorm, 8.0 * DIM, 4.0 * DIM, KT_COUNT, MAX_ROWS},
	{"add_rmsnorm", run_add_rmsnorm, 16.0 * DIM, 5.0 * DIM, KT_COUNT, MAX_ROWS},
	{"layernorm", run_layernorm, 8.0 * DIM, 8.0 * DIM, KT_COUNT, MAX_ROWS},
	{"norm_heads", run_norm_heads, 8.0 * HEADS * HEAD_DIM, 4.0 * HEADS * HEAD_DIM, KT_COUNT, MAX_ROWS},
	{"add", run_add, 12.0 * DIM, DIM, KT_COUNT, MAX_ROWS},
	{"rope", run_rope, 8.0 * HEADS * HEAD_DIM, 3.0 * HEADS * HEAD_DIM, KT_COUNT, MAX_ROWS},
	{"act_mul silu", run_act_silu, 12.0 * FFN, 5.0 * FFN, KT_COUNT, MAX_ROWS},
	{"act_mul gelu", run_act_gelu, 12.0 * FFN, 25.0 * FFN, KT_COUNT, MAX_ROWS},
	{"act_mul gelu_tanh", run_act_gelu_tanh, 12.0 * FFN, 9.0 * FFN, KT_COUNT, MAX_ROWS},
	{"kv_write F32", run_kv_write, 2 * 8.0 * KVW, 0, KT_F32, MAX_ROWS},
	{"kv_write F16", run_kv_write, 2 * 6.0 * KVW, 0, KT_F16, MAX_ROWS},
	{"kv_write BF16", run_kv_write, 2 * 6.0 * KVW, 0, KT_BF16, MAX_ROWS},
	{"sample greedy", run_sample, 4.0 * VOCAB, VOCAB, KT_COUNT, 16},
	{"sample t=0.8 top_p=0.9 top_k=50", run_sample, 4.0 * VOCAB, VOCAB, KT_COUNT, 16},
	{"sample t=1", run_sample, 4.0 * VOCAB, 2.0 * VOCAB, KT_COUNT, 16},
};

/* Make a KV cache for one sequence of MAX_ROWS positions, one layer. */
static void
make_kv(Work *w, KType type)
{
	size_t		bytes;

	free(w->kv.base);
	w->kv = (KvView)
	{
		.type = type,.n_layers = 1,.n_blocks = MAX_ROWS / 16,.block_size = 16,
			.n_kv_heads = KV_HEADS,.head_dim = HEAD_DIM
	};
	bytes = kv_layout(&w->kv);
	w->kv.base = big_alloc(bytes);
	memset(w->kv.base, 0, bytes);
}

static void
prepare(Work *w, const Op *op)
{
	uint32_t	seed = 1;

	if (op->kv != KT_COUNT)
		make_kv(w, op->kv);
	for (size_t i = 0; i < (size_t) MAX_ROWS * 2 * FFN; i++)
	{
		seed = seed * 1664525 + 1013904223;
		w->x[i] = (float) (int32_t) seed / 4e8f;
	}
	w->params = (GenParams)
	{
		.max_tokens = 1,.temperature = strstr(op->name, "greedy") ? 0 : strstr(op->name, "0.8") ? 0.8 : 1,
			.top_p = strstr(op->name, "top_p") ? 0.9 : 1,.top_k = strstr(op->name, "top_k") ? 50 : 0
	};
}

/* Return the best time of one run in seconds. */
static double
time_op(Work *w, const Op *op)
{
	double		best = 1e9;
	int			loops = 1;

	for (int i = 0; i < passes;)
	{
		double		t = now();

		for (int n = 0; n < loops; n++)
			op->run(w);
		t = now() - t;
		if (t < 2e-3 && loops < 1 << 20)
			loops *= 2;
		else
		{
			best = t / loops < best ? t / loops : best;
			i++;
		}
	}
	return best;
}

static void
bench_op(Work *w, const Op *op, double bw, double peak, bool json, bool *first)
{
	static const int sizes[] = {1, 16, 512};

	if (!json)
		printf("%-33s", op->name);
	prepare(w, op);
	for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes) && sizes[s] <= op->max_rows; s++)
	{
		int32_t		seq_start[2] = {0, sizes[s]};
		double		t,
					gb,
					gf;

		w->rows = w->r.n_rows = sizes[s];
		w->r.n_seqs = 1;
		w->r.seq_start = seq_start;
		t = time_op(w, op);
		gb = op->bytes * sizes[s] / t / 1e9;
		gf = op->flops * sizes[s] / t / 1e9;
		if (json)
			printf("%s{\"op\": \"%s\", \"rows\": %d, \"us\": %.2f, \"gb_s\": %.2f, \"of_read\": %.3f, "
				   "\"gflop_s\": %.2f, \"of_peak\": %.4f}",
				   *first ? "" : ", ", op->name, sizes[s], t * 1e6, gb, gb / bw, gf, gf / peak);
		else
			printf(" | %8.1f us %6.1f GB/s %4.0f %% %6.1f GF/s %3.0f %%", t * 1e6, gb, 100 * gb / bw, gf,
				   100 * gf / peak);
		*first = false;
	}
	if (!json)
		printf("\n");
}

static void
bench_all(Work *w, int threads, bool json)
{
	char	   *buf = big_alloc(READ);
	double		bw,
				peak;
	bool		first = true;

	memset(buf, 1, READ);
	w->pool = kpool_new(threads);
	bw = read_bandwidth(w->pool, buf);
	peak = unit_peak(w->pool, UNIT_FLOAT).gflops;
	free(buf);
	w->sampler = smp_new(w->pool, VOCAB, VOCAB);
	if (json)
		printf("{\"isa\": \"%s\", \"threads\": %d, \"read_gb_s\": %.2f, \"fma_gflop_s\": %.2f, \"ops\": [",
			   w->k->name, threads, bw, peak);
	else
		printf("%s, %d thread(s): memory read %.1f GB/s, float fma peak %.1f GFLOP/s\n%-33s | %-41s | %-41s "
			   "| %s\n", w->k->name, threads, bw, peak, "", "1 row: time, bytes, of read, of peak", "16",
			   "512");
	for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++)
		bench_op(w, &ops[i], bw, peak, json, &first);
	if (json)
		printf("]}\n");
	smp_free(w->sampler);
	kpool_free(w->pool);
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {{"help", no_argument, NULL, 'h'},
											{"json", no_argument, NULL, 'j'}, {NULL, 0, NULL, 0}};
	static int32_t pos[MAX_ROWS],
				blocks[MAX_ROWS / 16];
	const int32_t *table = blocks;
	const char *isa = NULL,
			   *why;
	int			threads = 1;
	bool		json = false;
	Work		w = {0};
	int			c;

	passes = 5;
	while ((c = getopt_long(argc, argv, "i:t:qc", options, NULL)) != -1)
		switch (c)
		{
			case 'i':
				isa = optarg;
				break;
			case 't':
				threads = arg_count(optarg);
				break;
			case 'q':
				passes = 2;
				break;
			case 'c':
				clock_id = CLOCK_THREAD_CPUTIME_ID;
				threads = 1;
				break;
			case 'j':
				json = true;
				break;
			default:
				return usage_exit(c, usage);
		}
	if (threads < 1 || optind != argc)
		return usage_exit(-1, usage);
	w.k = kernels_select(isa, &why);
	if (w.k == NULL)
	{
		fprintf(stderr, "ops: %s: %s\n", isa, why);
		return 1;
	}
	for (int i = 0; i < MAX_ROWS; i++)
		pos[i] = i;
	for (int i = 0; i < MAX_ROWS / 16; i++)
		blocks[i] = i;
	w.r.pos = pos;
	w.r.block_table = &table;
	w.x = big_alloc(sizeof(float) * MAX_ROWS * 2 * FFN);
	w.y = big_alloc(sizeof(float) * MAX_ROWS * FFN);
	w.w = big_alloc(sizeof(float) * POSITIONS * HEAD_DIM);
	for (int i = 0; i < POSITIONS * HEAD_DIM; i++)
		w.w[i] = 0.7f;
	bench_all(&w, threads, json);
	free(w.kv.base);
	free(w.w);
	free(w.y);
	free(w.x);
	return 0;
}
