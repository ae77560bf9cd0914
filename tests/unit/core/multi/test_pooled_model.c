/*
 * test_pooled_model.c
 *	  Pooling requests on the tiny models of build/fixtures/models, with every Kernels that this CPU can
 *	  run and every KV type, one after the other: vectors and log-probabilities equal those of plain
 *	  forward passes of the model, bit for bit, whatever else is in the batch, however the steps are
 *	  split, and whether choices share their prompt's blocks.
 */
#include <dirent.h>
#include <math.h>

#include "backend/weight_source.h"

#include "tests/unit/core/pooled_util.h"
#include "tests/unit/file_types.h"

#define MODELS	"build/fixtures/models"
#define PROMPT	37				/* two full blocks of 16 and a part */
#define N_LABELS 5
#define BLOCKS	30

static KPool *pool;
static const int label_lens[N_LABELS] = {1, 3, 1, 12, 2};

typedef struct Case
{
	char		path[512];
	const Kernels *kernels;
	KType		kv_type;
} Case;

/* tok not NULL: open its tokenizer, too. */
static Model *
open_model(const Case *k, Tok **tok)
{
	ModelOptions mo = {.kernels = k->kernels, .pool = pool, .max_rows = 128, .max_out = 16};
	Err			e = {0};
	Files	   *f = files_open(k->path, &e);
	Source		source = {.files = f};
	ModelSource src = source_of(&source);
	Model	   *m = f != NULL ? model_new(files_conf(f), &src, &mo, &e) : NULL;

	if (m != NULL && tok != NULL)
		*tok = source_tok(f, &e);
	CHECK(m != NULL && (tok == NULL || *tok != NULL), "%s: %s", k->path, e.msg);
	source_done(&source);
	if (f != NULL)
		files_close(f);
	return m;
}

static Core *
open_core(const Case *k, CoreOptions opt)
{
	Err			e = {0};
	Conf	   *conf = conf_new();
	Tok		   *t = NULL;
	Model	   *m = open_model(k, &t);
	Core	   *c = NULL;

	opt.kernels = k->kernels;
	opt.pool = pool;
	opt.kv_type = k->kv_type;
	opt.block_size = 16;
	if (t != NULL)
		c = core_new(m, t, conf, &opt, &e);
	else if (m != NULL)
		model_free(m);
	CHECK(c != NULL, "%s: %s", k->path, e.msg);
	conf_free(conf);
	return c;
}

static IntVec
tokens(uint32_t seed, int n)
{
	IntVec		v = {0};

	for (int i = 0; i < n; i++)
	{
		seed = seed * 1664525u + 1013904223u;
		intvec_push(&v, 5 + (int32_t) ((seed >> 8) % 180));
	}
	return v;
}

/* ---- the reference: one forward pass of all rows, without the core ---- */

typedef struct Forward
{
	int			n;
	int			vocab;
	int			hidden;
	float	   *logits;			/* [n][vocab] */
	float	   *rows;			/* [n][hidden] */
} Forward;

static void
forward(Model *m, const Case *k, const IntVec *ids, float *out, bool hidden)
{
	const ModelInfo *info = model_info(m);
	int			n = (int) ids->len;
	int32_t    *iota = mem_alloc((size_t) (n + 1) * sizeof(int32_t));
	int32_t		start[2] = {0, n},
				slot = 0;
	const int32_t *tables[1];
	KvView		kv = {.type = k->kv_type, .n_layers = info->n_kv_layers, .n_blocks = 8, .block_size = 16,
		.n_kv_heads = info->n_kv_heads, .head_dim = info->head_dim, .v_dim = info->v_dim};
	size_t		size = info->n_kv_layers > 0 ? kv_layout(&kv) : 64;
	void	   *state = aligned_alloc(64, (size_t) (info->state_bytes + 64) / 64 * 64);
	Batch		b = {.rows = {.n_rows = n, .n_seqs = 1, .seq_start = start, .block_table = tables,
							  .state_slot = &slot},
		.tokens = ids->data, .n_out = 1, .hidden = hidden, .state = info->state_bytes > 0 ? state : NULL};

	/* an FP8 cache has the checkpoint's scales, as the core gives it */
	if (k->kv_type == KT_F8_E4M3 || k->kv_type == KT_F8_E5M2)
		kv.scales = info->kv_scales;
	kv.base = aligned_alloc(64, (size + 63) / 64 * 64);
	memset(kv.base, 0, size);
	for (int i = 0; i <= n; i++)
		iota[i] = i;
	/* blocks 1, 2, ...; 16 rows of logits at a time */
	tables[0] = iota + 1;
	b.rows.pos = iota;
	for (int from = 0; from < n; from += 16)
	{
		b.out_rows = iota + from;
		b.n_out = n - from < 16 ? n - from : 16;
		model_forward(m, &b, &kv,
					  out + (size_t) from * (size_t) (hidden ? info->hidden_size : info->vocab_size));
	}
	free(kv.base);
	free(state);
	mem_free(iota);
}

static double
reference(const float *logits, int vocab, int32_t id)
{
	double		most = -INFINITY,
				sum = 0;

	for (int i = 0; i < vocab; i++)
		most = logits[i] > most ? logits[i] : most;
	for (int i = 0; i < vocab; i++)
		sum += exp((double) logits[i] - most);
	return (double) logits[id] - most - log(sum);
}

/* Check the log-probabilities of a text's own tokens, and the vector of its last row. */
static void
check_plain(const Case *k, const char *label)
{
	Model	   *m = open_model(k, NULL);
	Core	   *c = open_core(k, (CoreOptions) {.max_num_seqs = 16, .max_num_batched_tokens = 64,
												.kv_blocks = BLOCKS});
	IntVec		ids = tokens(7, PROMPT);
	PooledRec	text = {0},
				vec = {0};
	int			bad = 0;

	if (m != NULL && c != NULL)
	{
		int			vocab = model_info(m)->vocab_size;
		int			width = model_info(m)->hidden_size;
		float	   *logits = mem_alloc((size_t) PROMPT * (size_t) vocab * sizeof(float));
		float	   *rows = mem_alloc((size_t) PROMPT * (size_t) width * sizeof(float));

		forward(m, k, &ids, logits, false);
		forward(m, k, &ids, rows, true);
		pooled_submit(c, 1, 1, text_spec(tokens(7, PROMPT), 1), &text);
		pooled_submit(c, 2, 1, vector_spec(PT_TOKEN_EMBED, tokens(7, PROMPT)), &vec);
		CHECK(pooled_run(c), "%s: it does not end", label);
		CHECK(text.finish == FIN_STOP && text.n_values == PROMPT - 1, "%s: %d values: %s", label,
			  text.n_values, text.err.msg);
		for (int i = 0; i < text.n_values; i++)
			bad += !(fabs(reference(logits + (size_t) i * (size_t) vocab, vocab, ids.data[i + 1]) -
						  text.values[i]) < 2e-5);
		CHECK(bad == 0, "%s: %d log-probabilities differ", label, bad);
		CHECK(vec.finish == FIN_STOP && vec.n_values == PROMPT * width &&
			  memcmp(vec.values, rows, (size_t) vec.n_values * sizeof(float)) == 0,
			  "%s: token vectors differ", label);
		mem_free(logits);
		mem_free(rows);
	}
	pooled_rec_free(&text);
	pooled_rec_free(&vec);
	intvec_free(&ids);
	core_free(c);
	if (m != NULL)
		model_free(m);
}

/* Run each choice as a text of its own, scored from the prompt's end. */
static PooledRec
each_alone(const Case *k, const PoolSpec *spec)
{
	Core	   *c = open_core(k, (CoreOptions) {.max_num_seqs = 1, .max_num_batched_tokens = 64,
												.kv_blocks = BLOCKS});
	PooledRec	all = {.finish = FIN_STOP, .n_rows = spec->n_seqs};

	all.values = mem_zalloc(100 * sizeof(float));
	all.counts = mem_zalloc((size_t) spec->n_seqs * sizeof(int32_t));
	all.greedy = mem_zalloc((size_t) spec->n_seqs * sizeof(int32_t));
	for (int i = 0; c != NULL && i < spec->n_seqs; i++)
	{
		PooledRec	one = {0};

		pooled_submit(c, 1, 1, choice_alone(spec, i), &one);
		if (!pooled_run(c) || one.finish != FIN_STOP)
			all.finish = FIN_ERROR;
		else
		{
			memcpy(all.values + all.n_values, one.values, (size_t) one.n_values * sizeof(float));
			all.counts[i] = one.counts[0];
			all.greedy[i] = one.greedy[0];
			all.n_values += one.n_values;
		}
		pooled_rec_free(&one);
	}
	core_free(c);
	return all;
}

/* Run the request among others, with steps of `rows` rows and a pool of `blocks` blocks. */
static void
check_shared(const Case *k, const PoolSpec *spec, const PooledRec *want, int seqs, int rows, int blocks,
			 const char *label)
{
	Core	   *c = open_core(k, (CoreOptions) {.max_num_seqs = seqs, .max_num_batched_tokens = rows,
												.kv_blocks = blocks});
	PooledRec	rec = {0},
				mates[4];
	Rec			gen = {0};

	memset(mates, 0, sizeof(mates));
	if (c == NULL)
		return;
	submit(c, 9, 3, tokens(3, 20), greedy_params(20), GP(TEMPERATURE) | GP(MAX_TOKENS), &gen);
	for (int i = 0; i < 4; i++)
		pooled_submit(c, (uint64_t) i, (uint64_t) i % 2,
					  i % 2 ? text_spec(tokens((uint32_t) i, 30), 1) :
					  choices_spec(tokens((uint32_t) i, 20 + i), label_lens, N_LABELS, tokens), &mates[i]);
	pooled_submit(c, 10, 1, poolspec_copy(spec), &rec);
	CHECK(pooled_run(c), "%s: it does not end", label);
	CHECK(pooled_same(&rec, want), "%s, %d sequences, %d rows, %d blocks: choices differ (finish %d, %s)",
		  label, seqs, rows, blocks, rec.finish, rec.err.msg);
	CHECK(gen.finish == FIN_LENGTH && pooled_blocks(c) == 0, "%s: %d", label, gen.finish);
	pooled_rec_free(&rec);
	for (int i = 0; i < 4; i++)
		pooled_rec_free(&mates[i]);
	rec_free(&gen);
	core_free(c);
}

static void
check_case(const Case *k, const char *label)
{
	PoolSpec	spec = choices_spec(tokens(7, PROMPT), label_lens, N_LABELS, tokens);
	PooledRec	want = each_alone(k, &spec);

	CHECK(want.finish == FIN_STOP && want.n_values == 19, "%s: %d values", label, want.n_values);
	check_plain(k, label);
	check_shared(k, &spec, &want, 16, 128, BLOCKS, label);
	check_shared(k, &spec, &want, 3, 16, BLOCKS, label);
	check_shared(k, &spec, &want, 16, 64, 6, label);
	pooled_rec_free(&want);
	poolspec_free(&spec);
}

static int
by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* Does the model predict the next token?  (An encoder doesn't.) */
static bool
generates(const Case *k)
{
	Model	   *m = open_model(k, NULL);
	bool		r = m != NULL && model_info(m)->generates && model_info(m)->vocab_size >= 190 &&
		model_info(m)->max_model_len >= 64;

	if (m != NULL)
		model_free(m);
	return r;
}

int
main(void)
{
	static const KType kv_types[] = {KT_F32, KT_F16, KT_BF16, KT_INT8, KT_F8_E4M3, KT_F8_E5M2};
	struct dirent **names = NULL;
	int			n = scandir(MODELS, &names, NULL, by_name);
	int			n_models = 0;

	pool = kpool_new(2);
	for (int i = 0; i < n; i++)
	{
		Case		k = {0};
		int			which = 0;

		snprintf(k.path, sizeof(k.path), MODELS "/%s", names[i]->d_name);
		for (const Kernels *const *kp = kernels_all(); names[i]->d_name[0] != '.' && *kp != NULL;
			 kp++, which++)
		{
			char		label[600];

			/* each model with one of the implementations, rarely with the slow reference */
			k.kernels = *kp;
			if ((i + which) % 4 != 0 || (strcmp((*kp)->name, "ref") == 0 && i % 32 != 0))
				continue;
			if (!kernels_usable(*kp))
			{
				check_skip(1, (*kp)->name);
				continue;
			}
			/* quantized types that it doesn't support; encoders */
			if (!path_has_all_types(k.kernels, k.path) || !generates(&k))
				continue;
			k.kv_type = kv_types[n_models++ % 6];
			snprintf(label, sizeof(label), "%s, %s, KV %s", names[i]->d_name, (*kp)->name,
					 ktype_name(k.kv_type));
			RUN(check_case(&k, label));
		}
		free(names[i]);
	}
	free(names);
	kpool_free(pool);
	if (n_models == 0)
		check_skip(1, "no models in " MODELS);
	return check_done("pooled_model");
}
