/*
 * test_engine.c
 *	  The core on a GPU (vllm_pg_cuda.so), the emulated one of tests/emu/module.mk or a real one:
 *	  requests of all kinds in one batch have the tokens that they have alone, and those that the
 *	  engine's own sampler draws from the device's logits.
 *
 * For the latter the device is one whose op table has no `sample`.  Log-probabilities may differ by the
 * rounding of float sums.
 *
 * KV blocks that have been overwritten are restored from the store below the pool while streams run
 * late: the same tokens.
 *
 * And pooling requests, split into steps and in a batch with others: the same bits as if the table has
 * no `pool_rows`; and for the models of build/fixtures/pool, embedders, classifiers, rerankers and
 * reward models, the values of kernels/ref on the CPU, within 5 % (operands are floats, queries rounded
 * to F16; embeddings of large random weights differ most).
 *
 * test_engine [--lib FILE] [NAME ...]: only these models; on the device of another library.
 */
#include <dirent.h>
#include <math.h>

#include "base/json/json.h"
#include "device_ops.h"
#include "core/offload/tier.h"
#include "backend/weight_source.h"
#include "loader/model_files_internal.h"
#include "tests/golden/variant.h"
#include "tests/unit/core/pooled_util.h"
#include "tests/unit/core/sample/sample_kinds.h"

#define MODEL	"build/fixtures/models/llama_f32"
#define POOLS	"build/fixtures/pool/"
#define N_REQUESTS (2 * PLUGIN)
#define MAX_ANSWERS 3
#define MOST_ROWS 128

static const KDeviceOps *ops;
static KPool *pool;
static int	calls;				/* of the device's sampler, or pooler */
static const Kernels *cuda;
static KvTier *tier;			/* for the next cores; NULL: none */
static int	blocks = 200;		/* KV blocks of the next cores */

static void
count_sample(KPool *p, void *rows, int n, float *logits, int width, int n_valid, KSampled *out)
{
	calls++;
	cuda->sample(p, rows, n, logits, width, n_valid, out);
}

static void
count_pool_rows(KPool *p, KPoolAdd how, float *sums, int lds, const KPoolSeq *seqs, int n, const float *x,
				int ldx, int width)
{
	calls++;
	cuda->pool_rows(p, how, sums, lds, seqs, n, x, ldx, width);
}

/* Open a device that samples and pools, or on which the engine does that itself. */
static Dev
open_device(bool does)
{
	static Kernels table[2];
	KDevOpen	open = {.max_rows = MOST_ROWS, .max_seqs = 16, .max_blocks = 16, .max_out = MOST_ROWS,
						.invariant = true};
	char		why[256] = "";
	Dev			dev = {.ops = ops, .d = ops->open(0, &host, &open, why, sizeof(why))};

	CHECK(dev.d != NULL, "open: %s", why);
	if (dev.d == NULL)
		exit(2);
	cuda = ops->kernels(dev.d, KT_F32);
	table[does] = *cuda;
	CHECK(cuda->sample != NULL && cuda->pool_rows != NULL, "it doesn't sample, or pool");
	table[does].sample = does ? count_sample : NULL;
	table[does].pool_rows = does ? count_pool_rows : NULL;
	dev.k = &table[does];
	kpool_set_device(pool, dev.d);
	return dev;
}

/* dev->d NULL: on CPUs; rows: limit for a step; tok NULL: the model's own. */
static Core *
new_core(const Dev *dev, const char *path, int rows, Tok *tok)
{
	CoreOptions o = options(12, rows, blocks);
	ModelOptions mo = {.kernels = dev->k, .pool = pool, .dev = dev->d != NULL ? dev : NULL,
					   .max_rows = o.max_num_batched_tokens};
	Err			e = {0};
	Files	   *f = files_open(path, &e);
	Source		source = {.files = f};
	ModelSource src = source_of(&source);
	Model	   *m;
	Core	   *c;

	o.pool = pool;
	o.dev = mo.dev;
	o.max_logprobs = 50;
	o.kv_tier = tier;
	o.prefix_caching = o.kv_always = tier != NULL;
	mo.max_out = core_max_logits(&o);
	m = f != NULL ? model_new(files_conf(f), &src, &mo, &e) : NULL;
	o.max_model_len = m != NULL && model_info(m)->max_model_len < 128 ? model_info(m)->max_model_len : 128;
	if (m != NULL && tok == NULL)
		tok = source_tok(f, &e);
	c = m != NULL && tok != NULL ? core_new(m, tok, files_conf(f), &o, &e) : NULL;
	if (c == NULL || !core_prepare_grammar(c, &e))
	{
		fprintf(stderr, "%s: %s\n", path, e.msg);
		exit(2);
	}
	source_done(&source);
	files_close(f);
	return c;
}

typedef struct Seen
{
	IntVec		ids[MAX_ANSWERS];
	Logprobs   *lp[MAX_ANSWERS];
	ReqFinish	finish;
} Seen;

static void
see(void *ctx, Req *r, const ReqEvent *ev)
{
	Seen	   *s = ctx;

	(void) r;
	intvec_add(&s->ids[ev->index], ev->ids, (size_t) ev->n_ids);
	if (ev->logprobs != NULL)
	{
		if (s->lp[ev->index] == NULL)
			s->lp[ev->index] = logprobs_new();
		logprobs_append(s->lp[ev->index], ev->logprobs);
	}
	s->finish = ev->finish;
}

static void
submit_one(Core *c, int i, Seen *to)
{
	Kind		k = (Kind) (i % PLUGIN);
	ReqSpec		spec = {
		.id = (uint64_t) i + 1, .prompt = random_prompt((uint32_t) i, 5 + i * 7 % 30), .sink = see,
		.sink_ctx = to, .grammar = k == GRAMMAR || k == LOGPROBS_GRAMMAR ? digits() : NULL
	};
	GenParams	p = params_of(k, i, NULL);
	Err			e = {0};

	p.max_tokens = 6;
	CHECK(core_normalize(c, &p, GP(TEMPERATURE) | GP(MAX_TOKENS) | GP(TOP_K) | GP(TOP_P), &spec.prompt, &e),
		  "%s", e.msg);
	spec.params = p;
	core_submit(c, &spec);
}

static void
run(Core *c)
{
	Err			e = {0};

	for (int steps = 0; core_has_work(c) && steps < 1000; steps++)
	{
		core_step(c);
		CHECK(core_check(c, &e), "%s", e.msg);
	}
}

/* exact: bit for bit. */
static bool
same_lp(const Logprobs *a, const Logprobs *b, bool exact)
{
	if (a == NULL || b == NULL)
		return a == b;
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (a->e[i].id != b->e[i].id || a->e[i].rank != b->e[i].rank ||
			!(fabsf(a->e[i].value - b->e[i].value) <= (exact ? 0 : 1e-5f)))
			return false;
	return true;
}

static void
check_same(const char *what, int i, const Seen *a, const Seen *b, bool exact)
{
	CHECK(a->finish == b->finish && (a->finish == FIN_LENGTH || a->finish == FIN_STOP),
		  "%s: request %d ends by %d and %d", what, i, a->finish, b->finish);
	for (int j = 0; j < MAX_ANSWERS; j++)
	{
		CHECK(a->ids[j].len == b->ids[j].len && (j > 0 || a->ids[j].len > 0) &&
			  memcmp(a->ids[j].data, b->ids[j].data, a->ids[j].len * sizeof(int32_t)) == 0,
			  "%s: request %d has other tokens", what, i);
		CHECK(same_lp(a->lp[j], b->lp[j], exact), "%s: request %d is told others", what, i);
	}
}

static void
seen_free(Seen *s, int n)
{
	for (int i = 0; i < n; i++)
		for (int j = 0; j < MAX_ANSWERS; j++)
		{
			intvec_free(&s[i].ids[j]);
			logprobs_free(s[i].lp[j]);
		}
}

static void
test_sampling(void)
{
	static Seen seen[2][N_REQUESTS];
	static Seen alone[N_REQUESTS];

	for (int samples = 0; samples < 2; samples++)
	{
		Dev			dev = open_device(samples);
		Core	   *c = new_core(&dev, MODEL, 48, tiny_tok());

		calls = 0;
		for (int i = 0; i < N_REQUESTS; i++)
			submit_one(c, i, &seen[samples][i]);
		run(c);
		CHECK((calls > 0) == (samples != 0), "%d calls", calls);
		for (int i = 0; i < PLUGIN && samples; i++)
		{
			calls = 0;
			submit_one(c, i, &alone[i]);
			run(c);
			CHECK((calls > 0) == (i < ON_DEVICE), "%d calls for kind %d", calls, i);
		}
		core_free(c);
		ops->close(dev.d);
	}
	for (int i = 0; i < N_REQUESTS; i++)
		check_same("the host's sampler", i, &seen[1][i], &seen[0][i], false);
	for (int i = 0; i < PLUGIN; i++)
		check_same("alone", i, &seen[1][i], &alone[i], true);
	seen_free(seen[0], N_REQUESTS);
	seen_free(seen[1], N_REQUESTS);
	seen_free(alone, N_REQUESTS);
}

#define N_OVERWRITTEN 24

static void
retry_item(Core *c, Seen *seen)
{
	for (int i = 0; i < N_OVERWRITTEN; i++)
	{
		ReqSpec		spec = {.id = (uint64_t) i + 1,
							.prompt = random_prompt((uint32_t) i * 7 % 5, i * 7 % 5 % 2 ? 48 : 60),
							.sink = see, .sink_ctx = &seen[i]};
		Err			e = {0};

		spec.params = greedy_params(4);
		CHECK(core_normalize(c, &spec.params, ~0u, &spec.prompt, &e), "%s", e.msg);
		core_submit(c, &spec);
		if (i % 3 == 2)
			run(c);
	}
}

/* A pool for two of five prompts, which are requested again and again. */
static void
test_offload(void)
{
	static Seen seen[2][N_OVERWRITTEN];
	KvTierOptions o = {.memory_bytes = 1 << 20};
	Dev			dev = open_device(true);
	CoreStats	st;
	Err			e = {0};

	for (int tiers = 0; tiers < 2; tiers++)
	{
		Core	   *c;

		if (tiers > 0)
			tier = kvtier_open(&o, &e);
		blocks = tiers > 0 ? 10 : 200;
		c = new_core(&dev, MODEL, 48, tiny_tok());
		retry_item(c, seen[tiers]);
		core_stats(c, &st);
		CHECK((st.external_hits > 0) == (tiers > 0) && (st.offload_out_bytes > 0) == (tiers > 0),
			  "%d tokens came back", (int) st.external_hits);
		core_free(c);
	}
	for (int i = 0; i < N_OVERWRITTEN; i++)
		check_same("the store", i, &seen[1][i], &seen[0][i], true);
	kvtier_close(tier);
	tier = NULL;
	blocks = 200;
	ops->close(dev.d);
	seen_free(seen[0], N_OVERWRITTEN);
	seen_free(seen[1], N_OVERWRITTEN);
}

/* Texts to embed in steps of `rows` rows; the first one is also requested alone. */
static void
test_pooling(const char *path, int rows)
{
	static const int lens[] = {1, 40, 3, 17, 40, 70, 5};
	enum
	{
		N = sizeof(lens) / sizeof(lens[0])
	};
	PooledRec	rec[2][N + 1];

	memset(rec, 0, sizeof(rec));
	for (int does = 0; does < 2; does++)
	{
		Dev			dev = open_device(does);
		Core	   *c = new_core(&dev, path, rows, NULL);

		calls = 0;
		for (int i = 0; i <= N; i++)
		{
			if (i == N)
				run(c);
			pooled_submit(c, (uint64_t) i + 1, 1,
						  vector_spec(PT_EMBED,
									  random_prompt((uint32_t) (i % N), i == N ? lens[0] : lens[i])),
									  &rec[does][i]);
		}
		run(c);
		CHECK((calls > 0) == (does != 0), "%s: %d calls", path, calls);
		core_free(c);
		ops->close(dev.d);
	}
	for (int i = 0; i < N; i++)
		CHECK(pooled_same(&rec[0][i], &rec[1][i]), "%s: text %d has other bits: %s", path, i,
			  rec[1][i].err.msg);
	CHECK(pooled_same(&rec[1][0], &rec[1][N]), "%s: other bits alone", path);
	for (int i = 0; i < 2 * (N + 1); i++)
		pooled_rec_free(&rec[i / (N + 1)][i % (N + 1)]);
}

/* The rows pass through a layer before they are pooled. */
static void
test_layers(void)
{
	Buf			text = {0};
	Err			e = {0};
	bool		read = files_slurp("tests/golden/pool_variants/dense_before.json", 1 << 20, &text, &e);
	Json	   *root = read ? json_parse(text.data, text.len) : NULL;
	char		dir[] = "/tmp/test_engine_XXXXXX";

	CHECK(root != NULL, "no variant: %s", e.msg);
	variant_make(dir, POOLS, root);
	test_pooling(dir, MOST_ROWS);
	variant_remove(dir);
	json_free(root);
	buf_free(&text);
}

/* ---- tasks of models with pooling heads ---- */

#define N_TEXTS	3

/* init_*: the same families with other weights */
static int
is_pool(const struct dirent *d)
{
	size_t		n = strlen(d->d_name);

	return n > 5 && strcmp(d->d_name + n - 5, ".json") == 0 && strncmp(d->d_name, "init_", 5) != 0;
}

/* Compute each of the model's tasks for some texts, all at once; returns the tasks, as in ModelInfo. */
static unsigned
pool_all(const Dev *dev, const char *path, PooledRec rec[PT_LOGPROBS][N_TEXTS])
{
	static const int lens[N_TEXTS] = {9, 1, 30};
	Core	   *c = new_core(dev, path, MOST_ROWS, tiny_tok());
	unsigned	tasks = model_info(core_model(c))->tasks;
	uint64_t	id = 0;

	memset(rec, 0, sizeof(PooledRec[PT_LOGPROBS][N_TEXTS]));
	for (int t = PT_EMBED; t < PT_LOGPROBS; t++)
		for (int i = 0; i < N_TEXTS && (tasks >> t & 1) != 0; i++)
		{
			PoolSpec	spec = vector_spec((PoolTask) t, random_prompt((uint32_t) i, lens[i]));

			spec.activation = -1;
			pooled_submit(c, ++id, 1, spec, &rec[t][i]);
		}
	run(c);
	core_free(c);
	return tasks;
}

/* Return the distance of a and b, relative to b. */
static double
distance(const PooledRec *a, const PooledRec *b)
{
	double		off = 0,
				size = 0;

	if (a->finish != FIN_STOP || b->finish != FIN_STOP || a->n_rows != b->n_rows ||
		a->n_values != b->n_values || a->n_values == 0)
		return INFINITY;
	for (int i = 0; i < a->n_values; i++)
	{
		double		d = (double) a->values[i] - (double) b->values[i];

		off += d * d;
		size += (double) b->values[i] * (double) b->values[i];
	}
	return sqrt(off / size);
}

/*
 * Embedders, classifiers, rerankers and reward models give on the device what the CPU's reference
 * computes.
 */
static void
test_pool(const char *name)
{
	static PooledRec rec[2][PT_LOGPROBS][N_TEXTS];
	Dev			cpu = {.k = kernels_select("ref", NULL)};
	Dev			dev = open_device(true);
	char		path[300];
	unsigned	tasks;
	double		worst = 0;

	snprintf(path, sizeof(path), POOLS "%s", name);
	tasks = pool_all(&dev, path, rec[0]);
	ops->close(dev.d);
	kpool_set_device(pool, NULL);
	CHECK(pool_all(&cpu, path, rec[1]) == tasks, "%s: other tasks", path);
	for (int t = PT_EMBED; t < PT_LOGPROBS; t++)
		for (int j = 0; j < N_TEXTS && (tasks >> t & 1) != 0; j++)
		{
			double		off = distance(&rec[0][t][j], &rec[1][t][j]);

			CHECK(off <= 0.05, "%s: %s of text %d is %g from the CPU's: %s", path,
				  pool_task_name((PoolTask) t), j, off, rec[0][t][j].err.msg);
			worst = fmax(worst, off);
			pooled_rec_free(&rec[0][t][j]);
			pooled_rec_free(&rec[1][t][j]);
		}
	printf("%-40s %.1e from the CPU's\n", path, worst);
}

/* Test the named cases, or all. */
static void
test_pools(int n_names, char **names)
{
	struct dirent **files;
	int			n = n_names > 0 ? 0 : scandir("tests/golden/pool_expected", &files, is_pool, alphasort);

	CHECK(n_names > 0 || n > 0, "no models that pool");
	for (int i = 0; i < n_names; i++)
		test_pool(names[i]);
	for (int i = 0; i < n; i++)
	{
		files[i]->d_name[strlen(files[i]->d_name) - 5] = '\0';
		test_pool(files[i]->d_name);
		free(files[i]);
	}
	if (n > 0)
		free(files);
}

int
main(int argc, char **argv)
{
	int			first;

	if ((ops = open_device_ops(argc, argv, &first)) == NULL)
		return check_done("test_engine");
	pool = kpool_new(1);
	RUN(test_pooling(POOLS "llama_pooling", 48));
	RUN(test_pooling(POOLS "llama_pooling2", 48));
	RUN(test_layers());
	RUN(test_sampling());
	RUN(test_offload());
	RUN(test_pools(argc - first, argv + first));
	kpool_free(pool);
	return check_done("test_engine");
}
