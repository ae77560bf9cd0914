/*
 * test_ranks.c
 *	  Models that ranks share give the bits of the model on one rank.
 *
 * Every fixture of tests/fixtures/models runs the same steps alone, with its columns split over 2 ranks
 * and with its layers split over 2; some also on 4 ranks, both ways at once, with whole experts dealt to
 * ranks, and with other weight types.  With o and down split by inputs, each runs on 2 ranks, some on 3
 * and 4, too, and is compared within the error of sums in another order.  Adapters of
 * tests/fixtures/lora give the same on ranks, each rank with its own part.  A rehearsal step, which only
 * measures memory, sends nothing to other ranks and waits for none.  Ranks are threads here, each with
 * weights, work space and KV cache of its own.  Some models do the same on devices, one for each rank,
 * whose memory only ops can access.
 *
 * The steps: a prompt in two chunks, of which the first wants all rows and the second the last one;
 * tokens one by one; then one of this sequence together with the beginning of another.
 */
#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <sys/mman.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "backend/lora_loader.h"
#include "backend/weight_source.h"
#include "hostdev.h"
#include "model/weights/device_arena.h"
#include "tests/unit/check.h"

#define FIXTURES "build/fixtures/models/"
#define BLOCK 16
#define MAX_ROWS 32
#define PER_SEQ 4				/* blocks */
#define PROMPT 22
#define SINGLE 4				/* tokens decoded one by one */
#define SECOND 5				/* tokens of the other sequence */
#define N_OUT (13 + 1 + SINGLE + 2)	/* rows of logits */

/* How a model is split. */
typedef struct Plan
{
	int			tp;
	int			pp;
	bool		experts;
	const QuantScheme *quant;
	const char *adapter;		/* for the first sequence; NULL = none */
	bool		round_robin;	/* experts are dealt to ranks round robin */
	const char *device;			/* NULL: CPUs */
	bool		rows;			/* o and down are split by inputs: partial sums */
	EplbConf	eplb;			/* whole experts move; all steps then run several times */
	const char *cache;			/* directory of packed weights */
	bool		sleeps;			/* weights are saved and restored between the steps */
	int			starved;		/* the last rank has no memory for this many layers of moving experts */
} Plan;

typedef struct Job
{
	const char *path;
	Plan		plan;
	int			rank;
	int			fd;				/* -1: alone */
	float	   *out;			/* [N_OUT][vocab]; NULL: it could not be loaded */
	float	   *rows;			/* [vocab][embed_width] of the embedding rows that this rank has */
	int			embed_width;
	int			vocab;
	uint64_t	bytes;			/* bytes of its weights */
	int			heads;
	EplbStat	eplb;
	Err			e;
} Job;

/* ---- one rank ---- */

typedef struct Run
{
	Model	   *m;
	const Dev  *dev;
	KvView		kv;
	DevMem		kv_mem;
	DevMem		state;
	HostDev		logits;
	int32_t		table[2][PER_SEQ];
	int32_t		slots[2];
	float	   *out;			/* destination of the next logits */
	int			vocab;
	const LoraAdapter *lora[2]; /* of the sequences */
	bool		alone;			/* rehearsal: steps are not really run */
} Run;

static bool
run_start(Run *r, Model *m, const Dev *dev, const LoraAdapter *a, float *out)
{
	const ModelInfo *info = model_info(m);
	size_t		size;
	Err			e;

	*r = (Run) {.m = m,.dev = dev,.out = out,.vocab = info->vocab_size,.slots = {1, 0},.lora = {a, NULL}};
	r->kv = (KvView) {.type = KT_F32,.n_layers = info->n_kv_layers,.n_blocks = 2 * PER_SEQ,
					  .block_size = BLOCK,
	.n_kv_heads = info->n_kv_heads,.head_dim = info->head_dim,.v_dim = info->v_dim};
	size = info->n_kv_layers > 0 ? kv_layout(&r->kv) : 0;
	for (int i = 0; i < 2 * PER_SEQ; i++)
		r->table[i % 2][i / 2] = (i * 3 + 1) % (2 * PER_SEQ);
	if (!devmem_reserve(&r->kv_mem, dev, size + 64, HUGE_OFF, "KV", &e) ||
		!devmem_reserve(&r->state, dev, 2 * info->state_bytes + 64, HUGE_OFF, "state", &e) ||
		!hostdev_new(&r->logits, dev, (size_t) MAX_ROWS * (size_t) r->vocab, "logits", &e))
		return false;
	r->kv.base = r->kv_mem.base;
	if (dev == NULL)
		memset(r->kv.base, 0xff, size);
	return true;
}

static void
run_end(Run *r)
{
	devmem_free(&r->kv_mem);
	devmem_free(&r->state);
	hostdev_free(&r->logits);
}

static int32_t
token(const Run *r, int seq, int pos)
{
	return (int32_t) ((uint32_t) (pos * 7919 + seq * 104729 + 13) % (uint32_t) r->vocab);
}

/*
 * Run n0 rows of sequence 0 from pos0 on, then n1 rows of sequence 1 from its beginning; `wanted` rows
 * of logits at the end of each sequence.
 */
static bool
step(Run *r, int pos0, int n0, int n1, int wanted)
{
	int			n = n0 + n1;
	int32_t		start[3] = {0, n0, n};
	int32_t		pos[MAX_ROWS];
	int32_t		tokens[MAX_ROWS];
	int32_t		rows[MAX_ROWS];
	const int32_t *tables[2] = {r->table[0], r->table[1]};
	Batch		b = {.rows = {.n_rows = n,.n_seqs = n1 > 0 ? 2 : 1,.seq_start = start,.pos = pos,
							  .block_table = tables,.state_slot = r->slots},
	.tokens = tokens,.out_rows = rows,.state = r->state.base,.lora = r->lora[0] != NULL ? r->lora : NULL};
	size_t		floats;
	Err			e;

	for (int i = 0; i < n; i++)
	{
		pos[i] = i < n0 ? pos0 + i : i - n0;
		tokens[i] = token(r, i >= n0, pos[i]);
		if (i < n0 ? i >= n0 - wanted : i >= n - wanted)
			rows[b.n_out++] = i;
	}
	floats = (size_t) b.n_out * (size_t) r->vocab;
	if (!(r->alone ? model_rehearse : model_forward) (r->m, &b, &r->kv, r->logits.dev))
		return false;
	hostdev_get(&r->logits, 0, floats);
	if (!dev_wait(r->dev, &e))
		return false;
	memcpy(r->out, r->logits.host, floats * sizeof(float));
	r->out += floats;
	return true;
}

static bool
all_steps(Model *m, const Dev *dev, const LoraAdapter *a, float *out)
{
	Run			r;
	bool		ok = run_start(&r, m, dev, a, out);

	ok = ok && step(&r, 0, 13, 0, 13) && step(&r, 13, PROMPT - 13 - SINGLE, 0, 1);
	for (int i = 0; ok && i < SINGLE; i++)
		ok = step(&r, PROMPT - SINGLE + i, 1, 0, 1);
	ok = ok && step(&r, PROMPT, 1, SECOND, 1);
	run_end(&r);
	return ok;
}

/* Open the rank's own device; all of them are equal. */
static const Dev *
open_device(const char *name, KPool *pool, Dev *dev)
{
	static const KHost host = {.abi = KDEVICE_ABI,.pool_device = kpool_device,.pool_threads = kpool_nthreads};
	KDevOpen	o = {.max_rows = MAX_ROWS,.max_seqs = MAX_ROWS,.max_blocks = PER_SEQ,.max_out = MAX_ROWS,
					 .invariant = true};
	char		why[128];

	if (name == NULL)
		return NULL;
	*dev = (Dev) {.ops = kdevice_of_cpus(name)};
	dev->d = dev->ops->open(0, &host, &o, why, sizeof(why));
	dev->k = dev->ops->kernels(dev->d, KT_F32);
	kpool_set_device(pool, dev->d);
	return dev;
}

/*
 * Number of allocations that fail, in the device's limit or in the allocation itself, alternately; a
 * thread is a rank.
 */
static _Thread_local int starved;
#define SCRATCH (1 << 20)		/* memory for a rank that moves experts */

void	   *__wrap_mem_try_aligned(size_t size);
void	   *__real_mem_try_aligned(size_t size);

void *
__wrap_mem_try_aligned(size_t size)
{
	if (size == SCRATCH && starved % 2 == 1)
	{
		starved--;
		return NULL;
	}
	return __real_mem_try_aligned(size);
}

uint64_t	__wrap_sysmem_available(const char *root);
uint64_t	__real_sysmem_available(const char *root);

uint64_t
__wrap_sysmem_available(const char *root)
{
	if (starved > 0 && starved % 2 == 0)
	{
		starved--;
		return 0;
	}
	return __real_sysmem_available(root);
}

/* Save the weights to a file and restore them, or drop them and load them again. */
static bool
sleep_a_while(Job *j, Model *m, bool forget, const ModelOptions *opt)
{
	Files	   *f;
	Source		source = {0};
	ModelSource src;
	Model	   *again;
	bool		ok;

	if (!forget)
		return model_store(m, "build", &j->e) && model_fetch(m, &j->e);
	if ((f = files_open(j->path, &j->e)) == NULL)
		return false;
	source.files = f;
	src = source_of(&source);
	again = model_new(files_conf(f), &src, opt, &j->e);
	source_done(&source);
	files_close(f);
	model_forget(m);
	ok = again != NULL && model_adopt(m, again, &j->e);
	model_free(again);
	return ok;
}

#define PASSES 3				/* repetitions while experts move */

static bool
all_passes(Job *j, Model *m, const Dev *dev, const LoraAdapter *a, const ModelOptions *opt)
{
	size_t		size = (size_t) N_OUT * (size_t) j->vocab * sizeof(float);
	float	   *first = mem_alloc(size);
	bool		ok = true;

	starved = j->rank == j->plan.tp * j->plan.pp - 1 ? j->plan.starved : 0;
	for (int i = 0; ok && i < (j->plan.eplb.on ? PASSES : 1); i++)
	{
		ok = (i == 0 || !j->plan.sleeps || sleep_a_while(j, m, i > 1, opt)) && all_steps(m, dev, a, j->out);
		if (i == 0)
			memcpy(first, j->out, size);
		else if (ok && memcmp(first, j->out, size) != 0)
			memset(first, 0xff, size);
	}
	memcpy(j->out, first, size);
	mem_free(first);
	if (model_eplb(m) != NULL)
		j->eplb = *model_eplb(m);
	return ok;
}

/* Load the model as this rank and run it. */
static void
run_as(Job *j, const ModelRanks *ranks)
{
	const char *why;
	Files	   *f = files_open(j->path, &j->e);
	Source		source = {.files = f};
	ModelSource src;
	KPool	   *pool = kpool_new(1);
	Dev			its;
	const Dev  *dev = open_device(j->plan.device, pool, &its);
	ModelOptions opt = {.kernels = dev != NULL ? dev->k : kernels_select("auto", &why),.pool = pool,
						.max_rows = MAX_ROWS,.max_out = MAX_ROWS,
	.quant = j->plan.quant,.ranks = ranks,.dev = dev,.cache_dir = j->plan.cache,
	.cache_id = j->plan.cache != NULL ? j->path : NULL};
	Model	   *m = NULL;
	LoraAdapter *a = NULL;

	if (f != NULL)
	{
		src = source_of(&source);
		m = model_new(files_conf(f), &src, &opt, &j->e);
		source_done(&source);
		files_close(f);
	}
	if (m != NULL && j->plan.adapter != NULL &&
		(a = lora_files_load(m, j->plan.adapter, 64, "auto", &j->e)) == NULL)
	{
		model_free(m);
		m = NULL;
	}
	if (m != NULL && model_info(m)->generates)
	{
		j->vocab = model_info(m)->vocab_size;
		j->bytes = model_info(m)->weight_bytes;
		j->heads = model_info(m)->n_heads;
		j->out = mem_zalloc((size_t) N_OUT * (size_t) j->vocab * sizeof(float));
		j->embed_width = model_info(m)->embed_width;
		j->rows = mem_zalloc((size_t) j->vocab * (size_t) j->embed_width * sizeof(float));
		for (int t = 0; t < j->vocab; t++)
			if (model_token_rank(m, t) == (ranks != NULL ? ranks->tp->rank : 0))
				model_token_row(m, t, j->rows + (size_t) t * (size_t) j->embed_width);
		if (!all_passes(j, m, dev, a, &opt))
		{
			mem_free(j->out);
			j->out = NULL;
			err_set(&j->e, ERR_LOST, "a rank is missing");
		}
	}
	lora_free(a);
	model_free(m);
	if (dev != NULL)
		dev->ops->close(dev->d);
	kpool_free(pool);
}

static void *
run_job(void *arg)
{
	Job		   *j = arg;
	int			tp = j->plan.tp;
	int			pp = j->plan.pp;
	GroupMem	g;
	ModelRanks	ranks = {.experts = j->plan.experts,.round_robin = j->plan.round_robin,.eplb = j->plan.eplb,
						 .rows = j->plan.rows};

	if (j->fd < 0)
	{
		run_as(j, NULL);
		return NULL;
	}
	if (!groupmem_open(&g, j->fd, j->rank, tp * pp, &j->e) || !groupmem_assemble(&g, 60000))
		return NULL;
	ranks.tp = comm_shm(&g, j->rank / tp, j->rank % tp, tp);
	ranks.pp = comm_shm(&g, tp * pp + j->rank % tp, j->rank / tp, pp);
	run_as(j, &ranks);
	/* a rank that ends early must not be missed */
	if (j->out != NULL)
	{
		ranks.pp->ops->barrier(ranks.pp);
		ranks.tp->ops->barrier(ranks.tp);
	}
	ranks.tp->ops->free(ranks.tp);
	ranks.pp->ops->free(ranks.pp);
	/* ranks that wait for one that could not load see that its lock is released */
	groupmem_close(&g);
	return NULL;
}

/* ---- all ranks ---- */

static void
run_group(const char *path, Plan plan, Job *jobs)
{
	int			world = plan.tp * plan.pp;
	pthread_t	threads[GROUP_MOST];
	int			fd = memfd_create("group", MFD_CLOEXEC);

	for (int r = 0; r < world; r++)
	{
		jobs[r] = (Job) {.path = path,.plan = plan,.rank = r,.fd = fd};
		pthread_create(&threads[r], NULL, run_job, &jobs[r]);
	}
	for (int r = 0; r < world; r++)
		pthread_join(threads[r], NULL);
	close(fd);
}

static bool
begins(const char *name, const char *with)
{
	return strncmp(name, with, strlen(with)) == 0;
}

static bool
has_experts(const char *name)
{
	return begins(name, "mixtral") || begins(name, "deepseek3") || begins(name, "gpt_oss") ||
		begins(name, "qwen3_moe");
}

static int	refused;
static int64_t all_moved;		/* slots */

/* Check that experts have moved, the same way on all ranks of a stage. */
static void
check_moves(const char *name, const Job *j, const Job *first)
{
	const EplbStat *s = &j->eplb;

	all_moved += s->moved;
	CHECK(s->rounds > (j->plan.eplb.step_bytes > 0 ? 0 : 1) && s->rows > 0 && s->busiest >= s->rows &&
		  s->busiest <= s->rows * j->plan.tp, "%s: %zu rounds, %zu of %zu rows", name, (size_t) s->rounds,
		  (size_t) s->rows, (size_t) s->busiest);
	CHECK(memcmp(s, &first->eplb, sizeof(*s)) == 0, "%s: rank %d counts otherwise", name, j->rank);
	CHECK(s->failed == (j->plan.starved > 0 && j->rank >= (j->plan.pp - 1) * j->plan.tp
						? j->plan.starved : 0), "%s: rank %d, %zu rounds fail", name, j->rank,
		  (size_t) s->failed);
}

static void
job_free(Job *j)
{
	mem_free(j->out);
	mem_free(j->rows);
}

/* The ranks of the first stage together have the embedding that a single one has: a row for each token. */
static void
check_rows(const char *name, const Job *alone, const Job *jobs, int tp)
{
	size_t		width = (size_t) alone->embed_width;
	float	   *zeros = mem_zalloc((width + 1) * sizeof(float));

	for (size_t t = 0; t < (size_t) alone->vocab; t++)
	{
		const float *row = alone->rows + t * width;
		int			have = 0;
		bool		same = true;

		for (int r = 0; r < tp; r++)
			if (memcmp(jobs[r].rows + t * width, zeros, width * sizeof(float)) != 0)
			{
				have++;
				same = same && memcmp(jobs[r].rows + t * width, row, width * sizeof(float)) == 0;
			}
		CHECK(same && have >= (memcmp(row, zeros, width * sizeof(float)) != 0),
			  "%s on %d ranks: the row of token %zu", name, tp, t);
	}
	mem_free(zeros);
}

/* Compare the model as planned with itself alone.  may_refuse: the plan may be impossible. */
static void
compare(const char *name, const char *path, const Job *alone, Plan plan, bool may_refuse)
{
	Job			jobs[GROUP_MOST];
	size_t		size = (size_t) N_OUT * (size_t) alone->vocab * sizeof(float);

	run_group(path, plan, jobs);
	for (int r = 0; r < plan.tp * plan.pp; r++)
	{
		const Job  *j = &jobs[r];

		if (j->out == NULL && may_refuse)
		{
			if (r == 0)
			{
				refused++;
				fprintf(stderr, "%s on %d x %d: %s\n", name, plan.tp, plan.pp, j->e.msg);
			}
			CHECK(j->e.cls == ERR_UNSUPPORTED || j->e.cls == ERR_INVALID, "%s: %s", name, j->e.msg);
		}
		else if (j->out == NULL)
			CHECK(false, "%s on %d x %d ranks, rank %d: %s", name, plan.tp, plan.pp, r, j->e.msg);
		/* only the first rank gets logits of other stages */
		else if (r == 0 || plan.pp == 1)
			CHECK(memcmp(j->out, alone->out, size) == 0,
				  "%s on %d x %d ranks%s%s%s%s%s: rank %d has other bits", name, plan.tp, plan.pp,
				  plan.device != NULL ? " with device " : "", plan.device != NULL ? plan.device : "",
				  plan.eplb.on ? ", by experts that move" : plan.round_robin ? ", by experts in turn" :
				  plan.experts ? ", by experts" : "", plan.quant != NULL ? ", as " : "",
				  plan.quant != NULL ? plan.quant->name : "", r);
		if (j->out != NULL && plan.eplb.on)
			check_moves(name, j, &jobs[r / plan.tp * plan.tp]);
		/* matrices end with a complete strip, which matters for tiny experts */
		if (j->out != NULL && !has_experts(name))
			CHECK(j->bytes < alone->bytes, "%s on %d x %d ranks: %zu bytes of %zu", name, plan.tp, plan.pp,
				  (size_t) j->bytes, (size_t) alone->bytes);
	}
	if (jobs[0].out != NULL && plan.pp == 1 && plan.quant == NULL && plan.adapter == NULL)
		check_rows(name, alone, jobs, plan.tp);
	for (int r = 0; r < plan.tp * plan.pp; r++)
		job_free(&jobs[r]);
}

/* The largest difference of two results, relative to the largest number of its row. */
static double
difference(const float *x, const float *y, int rows, int width)
{
	double		worst = 0;

	for (int i = 0; i < rows; i++)
	{
		double		diff = 0;
		double		most = 0;

		for (int j = 0; j < width; j++)
		{
			double		d = fabs((double) x[i * width + j] - (double) y[i * width + j]);

			diff = d > diff ? d : diff;
			most = fmax(most, fabs((double) y[i * width + j]));
		}
		worst = fmax(worst, diff / most);
	}
	return worst;
}

static int
largest(const float *x, int n)
{
	int			best = 0;

	for (int i = 1; i < n; i++)
		best = x[i] > x[best] ? i : best;
	return best;
}

/*
 * Are its products computed from unrounded numbers?  Those of BF16 and of block types round their inputs
 * to 8 or 16 bits.
 */
static bool
is_exact(const char *name, const QuantScheme *quant)
{
	if (quant != NULL)
		return strcmp(quant->name, "float32") == 0;
	return !begins(name, "quant") && !begins(name, "tool") && strstr(name, "bf16") == NULL &&
		strstr(name, "q8_0") == NULL && strstr(name, "mixed") == NULL && strstr(name, "mxfp4") == NULL &&
		strstr(name, "awq") == NULL;
}

static int	other_bits;			/* how often partial sums differed from those of the model alone */

/*
 * Partial sums: all ranks have the same bits, which are nearly those of the model alone.  A sum in
 * another order differs by some units in the last place.  If it is then rounded to few bits, it sometimes
 * differs by one unit of these.
 */
static void
compare_rows(const char *name, const char *path, const Job *alone, Plan plan, bool may_refuse)
{
	double		most = is_exact(name, plan.quant) ? 2e-5 : 2e-2;
	Job			jobs[GROUP_MOST];
	size_t		size = (size_t) N_OUT * (size_t) alone->vocab * sizeof(float);
	double		diff;
	int			differ = 0;

	plan.rows = true;
	run_group(path, plan, jobs);
	CHECK(jobs[0].out != NULL || may_refuse, "%s by rows on %d ranks: %s", name, plan.tp, jobs[0].e.msg);
	if (jobs[0].out == NULL)
		return;
	for (int r = 1; r < plan.tp && plan.pp == 1; r++)
		CHECK(jobs[r].out != NULL && memcmp(jobs[r].out, jobs[0].out, size) == 0,
			  "%s by rows on %d ranks: rank %d has bits of its own", name, plan.tp, r);
	diff = difference(jobs[0].out, alone->out, N_OUT, alone->vocab);
	CHECK(diff <= most, "%s by rows on %d x %d ranks%s%s%s%s: %g away", name, plan.tp, plan.pp,
		  plan.device != NULL ? " with device " : "", plan.device != NULL ? plan.device : "",
		  plan.quant != NULL ? " as " : "", plan.quant != NULL ? plan.quant->name : "", diff);
	for (int i = 0; i < N_OUT; i++)
		differ += largest(jobs[0].out + i * alone->vocab,
						  alone->vocab) != largest(alone->out + i * alone->vocab, alone->vocab);
	CHECK(differ == 0, "%s by rows on %d ranks: other tokens in %d rows", name, plan.tp, differ);
	other_bits += diff > 0;
	for (int r = 0; r < plan.tp * plan.pp; r++)
		job_free(&jobs[r]);
}

/* Models with more tests: one of each kind. */
static bool
is_close(const char *name)
{
	static const char *const names[] = {
		"llama_f32", "gpt2_f16", "mixtral_f16", "deepseek3_f16", "deepseek2_f16", "gpt_oss_f16",
		"falcon_mqa_f16", "qwen3_moe_f16", "granite4_f16", "gpt_oss_mxfp4", "quant_awq"
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

/* With weights of another type, quantized on loading. */
static void
test_types(const char *name, const char *path, int tp)
{
	const QuantScheme *types[] = {quant_dtype("float32"), quant_dtype("bfloat16"), quant_scheme("q4_k"),
								  quant_scheme("q8_0"), quant_scheme("int8")};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
	{
		Job			alone = {.path = path,.plan = {.tp = 1,.pp = 1,.quant = types[i]},.fd = -1};

		run_job(&alone);
		CHECK(alone.out != NULL, "%s as %s: %s", name, types[i]->name, alone.e.msg);
		if (alone.out != NULL)
		{
			compare(name, path, &alone, (Plan) {.tp = tp,.pp = 1,.quant = types[i]}, false);
			compare_rows(name, path, &alone, (Plan) {.tp = tp,.pp = 1,.quant = types[i]}, false);
		}
		job_free(&alone);
	}
}

/*
 * INT8 whose activations aren't rounded, have a scale of each row, or those of the files, which differ
 * between q, k and v.  Parts of a row have scales of their own: rows aren't divided then.
 */
static void
test_x_schemes(const char *name, const char *path, int tp)
{
	for (XScheme x = X_FLOAT; x < X_SCHEMES; x++)
	{
		const QuantScheme *q = quant_with_x(NULL, x);
		Job			alone = {.path = path,.plan = {.tp = 1,.pp = 1,.quant = q},.fd = -1};

		run_job(&alone);
		CHECK(alone.out != NULL, "%s %s: %s", name, q->name, alone.e.msg);
		if (alone.out != NULL)
		{
			compare(name, path, &alone, (Plan) {.tp = tp,.pp = 1,.quant = q}, false);
			compare(name, path, &alone, (Plan) {.tp = tp,.pp = 2,.quant = q}, false);
			if (x != X_DYNAMIC)
				compare_rows(name, path, &alone, (Plan) {.tp = tp,.pp = 1,.quant = q}, false);
		}
		job_free(&alone);
	}
}

/*
 * Whole experts that move every other step, with second copies of some, all at once or a few bytes after
 * each step.
 */
static void
test_moving(const char *name, const char *path, const Job *alone, int tp, int experts)
{
	EplbConf	often = {.on = true,.window = 5,.interval = 2,.log_interval = 1};
	EplbConf	slow = often;
	EplbConf	copies = often;
	char		cache[] = "build/test_ranks.XXXXXX";
	char		clean[64];

	slow.step_bytes = 3000;
	often.redundant = (tp - experts % tp) % tp;
	slow.redundant = often.redundant + tp;
	copies.redundant = often.redundant + 2 * tp <= experts ? often.redundant + 2 * tp : slow.redundant;
	compare(name, path, alone, (Plan) {.tp = tp,.pp = 1,.experts = true,.eplb = often}, false);
	compare(name, path, alone, (Plan) {.tp = tp,.pp = 1,.experts = true,.round_robin = true,.eplb = copies},
			false);
	compare(name, path, alone, (Plan) {.tp = tp,.pp = 2,.experts = true,.eplb = slow}, false);
	compare(name, path, alone, (Plan) {.tp = tp,.pp = 1,.experts = true,.eplb = slow,.sleeps = true}, false);
	compare(name, path, alone, (Plan) {.tp = tp,.pp = 1,.experts = true,.eplb = copies,.starved = 2}, false);
	CHECK(mkdtemp(cache) != NULL, "%s: %m", cache);
	for (int i = 0; i < 2; i++)
		compare(name, path, alone, (Plan) {.tp = tp,.pp = 1,.experts = true,.eplb = copies,.sleeps = true,
										   .cache = cache}, false);
	snprintf(clean, sizeof(clean), "rm -r %s", cache);
	CHECK(system(clean) == 0, "%s", clean);
	for (int i = 0; i < 2; i++)
		compare(name, path, alone, (Plan) {.tp = tp,.pp = 1,.experts = true,.eplb = i == 0 ? slow : copies,
										   .sleeps = i == 1,.device = i == 0 ? "host" : "moat"},
				false);
}

static void
test_model(const char *name)
{
	char		path[300];
	Job			alone = {.path = path,.fd = -1};
	bool		close_look = is_close(name);
	int			tp;

	snprintf(path, sizeof(path), FIXTURES "%s", name);
	run_job(&alone);
	if (alone.out == NULL)
	{
		check_skip(1, name);
		return;
	}
	tp = alone.heads % 2 == 0 ? 2 : 3;
	compare(name, path, &alone, (Plan) {.tp = tp,.pp = 1}, !close_look);
	compare(name, path, &alone, (Plan) {.tp = 1,.pp = 2}, !close_look);
	if (close_look)
		compare(name, path, &alone, (Plan) {.tp = tp,.pp = 2}, false);
	if (close_look && alone.heads % 4 == 0)
		compare(name, path, &alone, (Plan) {.tp = 4,.pp = 1}, false);
	if (close_look && has_experts(name))
	{
		compare(name, path, &alone, (Plan) {.tp = tp,.pp = 1,.experts = true,.round_robin = true}, false);
		compare(name, path, &alone, (Plan) {.tp = tp,.pp = 2,.experts = true,.round_robin = true}, false);
		compare(name, path, &alone, (Plan) {.tp = tp,.pp = 1,.experts = true}, false);
		compare(name, path, &alone, (Plan) {.tp = tp,.pp = 2,.experts = true}, false);
		/* there is no other rank to share them with */
		compare(name, path, &alone, (Plan) {.tp = 1,.pp = 2,.experts = true}, false);
		compare(name, path, &alone, (Plan) {.tp = 1,.pp = 2,.experts = true,.round_robin = true,
											.device = "moat"}, false);
	}
	for (int n = close_look ? 2 : tp; n <= (close_look ? 4 : tp); n++)
		if (alone.heads % n == 0)
			compare_rows(name, path, &alone, (Plan) {.tp = n,.pp = 1}, !close_look);
	if (close_look)
	{
		compare_rows(name, path, &alone, (Plan) {.tp = tp,.pp = 2}, false);
		compare_rows(name, path, &alone, (Plan) {.tp = tp,.pp = 1,.device = "moat"}, false);
	}
	if (close_look && has_experts(name))
		compare_rows(name, path, &alone, (Plan) {.tp = tp,.pp = 1,.experts = true}, false);
	if (close_look && has_experts(name))
		test_moving(name, path, &alone, tp, begins(name, "mixtral") ? 5 : 8);
	for (int i = 0; i < 2 && close_look; i++)
	{
		const char *device = i == 0 ? "host" : "moat";

		compare(name, path, &alone, (Plan) {.tp = tp,.pp = 1,.device = device}, false);
		compare(name, path, &alone, (Plan) {.tp = tp,.pp = 2,.device = device}, false);
		for (int turn = 0; turn < 2 && has_experts(name); turn++)
			compare(name, path, &alone, (Plan) {.tp = tp,.pp = 1,.experts = true,.round_robin = turn == 1,
												.device = device}, false);
	}
	job_free(&alone);
	if (close_look && name[strlen(name) - 1] != '4' && !begins(name, "quant"))
		test_types(name, path, tp);
	if (strcmp(name, "quant_ct_static") == 0)
		test_x_schemes(name, path, tp);
}

/*
 * Adapters of the fixtures: for all matrices, for embedding and head, for a tied head, for fused
 * matrices, and with saved weights of the model.
 */
static const struct
{
	const char *adapter;
	const char *base;
}			adapters[] = {
	{"llama_all", "llama_f32"}, {"llama_rslora", "llama_f32"}, {"llama_ends", "llama_f32"},
	{"llama_saved", "llama_f32"},
	{"tied_saved", "llama_tied_bf16"}, {"qwen2_ends", "qwen2_f32"}, {"gemma3_all", "gemma3_bf16"},
	{"gpt2_conv1d", "gpt2_f16"},
	{"gptneox_fused", "gptneox_f16"}, {"falcon_grouped", "falcon_new_f16"}, {"cohere_paired", "cohere_f16"},
	{"phi3_fused", "phi3_f16"},
	{"quant_awq", "quant_awq"}
};

static void
test_adapter(const char *adapter, const char *base)
{
	char		path[300];
	char		of[300];
	char		name[100];
	Job			alone = {.path = path,.plan = {.adapter = of},.fd = -1};
	Job			plain = {.path = path,.fd = -1};
	int			tp;

	snprintf(path, sizeof(path), FIXTURES "%s", base);
	snprintf(of, sizeof(of), "build/fixtures/lora/%s", adapter);
	snprintf(name, sizeof(name), "%s with %s", base, adapter);
	run_job(&alone);
	run_job(&plain);
	CHECK(alone.out != NULL, "%s: %s", name, alone.e.msg);
	if (alone.out == NULL)
		return;
	CHECK(memcmp(alone.out, plain.out, (size_t) N_OUT * (size_t) alone.vocab * sizeof(float)) != 0,
		  "%s: nothing has been added", name);
	tp = alone.heads % 2 == 0 ? 2 : 3;
	compare(name, path, &alone, (Plan) {.tp = tp,.pp = 1,.adapter = of}, false);
	compare(name, path, &alone, (Plan) {.tp = 1,.pp = 2,.adapter = of}, false);
	compare(name, path, &alone, (Plan) {.tp = tp,.pp = 2,.adapter = of}, false);
	compare(name, path, &alone, (Plan) {.tp = tp,.pp = 2,.adapter = of,.device = "moat"}, false);
	compare_rows(base, path, &alone, (Plan) {.tp = tp,.pp = 1,.adapter = of}, false);
	job_free(&alone);
	job_free(&plain);
}

static void
count_steps(void *ctx, const Batch *b)
{
	(void) b;
	(*(int *) ctx)++;
}

/*
 * The first of four ranks rehearses a step while no other rank exists: a step that communicates would
 * wait forever.
 */
static void
test_rehearsal(const char *name, bool experts)
{
	char		path[300];
	Err			e;
	int			fd = memfd_create("group", MFD_CLOEXEC);
	int			steps = 0;
	GroupMem	g;
	ModelRanks	ranks = {.experts = experts,.eplb = {.on = experts,.window = 1,.interval = 1,
													 .log_interval = 1},.forward = count_steps,.ctx = &steps};
	const char *why;
	KPool	   *pool = kpool_new(1);
	Dev			its;
	const Dev  *dev = open_device("moat", pool, &its);
	ModelOptions opt = {.kernels = dev != NULL ? dev->k : kernels_select("auto", &why),.pool = pool,
						.max_rows = MAX_ROWS,.max_out = MAX_ROWS,
	.ranks = &ranks,.dev = dev};
	Files	   *f;
	Source		source = {0};
	ModelSource src;
	Model	   *m;
	Run			r;

	snprintf(path, sizeof(path), FIXTURES "%s", name);
	CHECK(groupmem_open(&g, fd, 0, 4, &e), "%s", e.msg);
	ranks.tp = comm_shm(&g, 0, 0, 2);
	ranks.pp = comm_shm(&g, 4, 0, 2);
	source.files = f = files_open(path, &e);
	src = source_of(&source);
	m = f != NULL ? model_new(files_conf(f), &src, &opt, &e) : NULL;
	CHECK(m != NULL, "%s: %s", name, e.msg);
	if (m != NULL &&
		run_start(&r, m, dev, NULL,
				  mem_zalloc((size_t) N_OUT * (size_t) model_info(m)->vocab_size * sizeof(float))))
	{
		float	   *out = r.out;

		r.alone = true;
		CHECK(step(&r, 0, 13, 0, 13) && step(&r, 13, 1, SECOND, 1), "%s: steps that are tried", name);
		CHECK(steps == 0, "%s: others are told of %d steps", name, steps);
		CHECK((model_eplb(m) != NULL) == experts &&
			  (!experts || (model_eplb(m)->rows == 0 && model_eplb(m)->rounds == 0)), "%s: such steps count",
			  name);
		run_end(&r);
		mem_free(out);
	}
	source_done(&source);
	files_close(f);
	model_free(m);
	if (dev != NULL)
		dev->ops->close(dev->d);
	kpool_free(pool);
	ranks.tp->ops->free(ranks.tp);
	ranks.pp->ops->free(ranks.pp);
	groupmem_close(&g);
	close(fd);
}

int
main(int argc, char **argv)
{
	struct dirent **names;
	int			n = scandir(FIXTURES, &names, NULL, alphasort);

	for (int i = 0; i < n; i++)
	{
		if (names[i]->d_name[0] != '.' && (argc < 2 || strcmp(argv[1], names[i]->d_name) == 0))
			RUN_NAMED(names[i]->d_name, test_model(names[i]->d_name));
		free(names[i]);
	}
	free(names);
	for (size_t i = 0; i < sizeof(adapters) / sizeof(adapters[0]); i++)
		if (argc < 2 || strcmp(argv[1], adapters[i].adapter) == 0)
			RUN(test_adapter(adapters[i].adapter, adapters[i].base));
	if (argc < 2)
	{
		RUN(test_rehearsal("mixtral_f16", false));
		RUN(test_rehearsal("qwen3_moe_f16", true));
	}
	CHECK(argc > 1 || other_bits > 100, "partial sums have other bits only %d times", other_bits);
	printf("refused: %d, experts moved: %lld\n", refused, (long long) all_moved);
	return check_done("test_ranks");
}
