/*
 * quantize_golden.c
 *	  The cost of quantization, of weights on loading and of the KV cache: perplexity of the bundled
 *	  model over held-out texts (quantize_texts.py), and the angle between the logits of a random model
 *	  before and after.  Prints the numbers; the bounds are loose: they catch a wrong scale and not a
 *	  scale that could be better.
 *
 * Runs on the best implementation that has the types.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "loader/model_files.h"
#include "model/model.h"
#include "tests/unit/check.h"
#include "tokenizer/tokenizer.h"

#define MAX_ROWS 512
#define BLOCK 32

/* Largest change of the perplexity in percent, and smallest mean cosine. */
static const struct
{
	const char *name;
	double		ppl;
	double		cosine;
	KType		dtype;			/* resulting type of the bundled model */
}			schemes[] = {
	{"int8", 2.0, 0.995, KT_INT8},
	{"q8_0", 0.5, 0.998, KT_Q8_0},
	{"q6_k", 1.5, 0.990, KT_Q6_K},
	{"q4_k", 6.0, 0.94, KT_Q4_K},
	{"q4_1", 6.0, 0.94, KT_Q4_1},
	{"q4_0", 7.0, 0.93, KT_Q4_0},
};

#define N_SCHEMES (int) (sizeof(schemes) / sizeof(schemes[0]))

/* The same of types of the KV cache, against F32. */
static const struct
{
	KType		type;
	double		ppl;
	double		cosine;
}			kv_types[] = {
	{KT_F16, 0.1, 0.99999},
	{KT_BF16, 0.3, 0.9999},
	{KT_INT8, 0.5, 0.999},
	{KT_F8_E4M3, 1.0, 0.99},
	{KT_F8_E5M2, 4.0, 0.97},
};

#define N_KV_TYPES (int) (sizeof(kv_types) / sizeof(kv_types[0]))

static KPool *pool;
static KType kv_type = KT_F32;	/* for the next runs */

/* Return the best implementation with both types of a scheme; NULL scheme: floats. */
static const Kernels *
best_kernels(const QuantScheme *q)
{
	const Kernels *best = NULL;

	for (const Kernels *const *k = kernels_all(); *k != NULL; k++)
		if (kernels_usable(*k) &&
			(q == NULL ||
			 ((*k)->mat_bytes(q->matrix, 64, 256) != 0 && (*k)->mat_bytes(q->head, 64, 256) != 0)))
			best = *k;
	return best;
}

/* Compute the logits of all positions of one sequence. */
static void
run(Model *m, const int32_t *tokens, int n, float *logits)
{
	const ModelInfo *info = model_info(m);
	int32_t		table[MAX_ROWS / BLOCK];
	int32_t		rows[MAX_ROWS];
	int32_t		start[2] = {0, n};
	const int32_t *tables[1] = {table};
	KvView		kv = {.type = kv_type, .n_layers = info->n_kv_layers, .n_blocks = MAX_ROWS / BLOCK,
		.block_size = BLOCK, .n_kv_heads = info->n_kv_heads, .head_dim = info->head_dim};
	Batch		b = {.rows = {n, 1, start, rows, tables, NULL}, .tokens = tokens, .n_out = n,
					 .out_rows = rows};

	kv.base = mem_try_aligned(kv_layout(&kv));
	for (int i = 0; i < MAX_ROWS / BLOCK; i++)
		table[i] = i;
	for (int i = 0; i < n; i++)
		rows[i] = i;
	model_forward(m, &b, &kv, logits);
	mem_free(kv.base);
}

/* ---- the bundled model ---- */

#define MAX_TEXTS 32

typedef struct Texts
{
	int			n;
	int			len[MAX_TEXTS];
	int32_t		ids[MAX_TEXTS][MAX_ROWS];
} Texts;

static const KTensor *
file_find(void *ctx, const char *name)
{
	return files_find(ctx, name);
}

static const KTensor *
file_at(void *ctx, size_t i)
{
	return files_tensor(ctx, i);
}

static void
read_texts(const Files *f, Texts *t)
{
	FILE	   *in = fopen("tests/golden/quantize_texts.txt", "r");
	FilesTokenizer ft;
	Err			e = {0};
	Tok		   *tok = NULL;
	char		line[8192];

	CHECK(in != NULL && files_tokenizer(f, &ft, &e) &&
		  (tok = tok_from_hf(ft.json, ft.json_len, ft.config, ft.config_len, &e)) != NULL, "texts: %s",
		  e.msg);
	while (in != NULL && tok != NULL && t->n < MAX_TEXTS && fgets(line, sizeof(line), in) != NULL)
	{
		IntVec		ids = {0};
		char	   *to = line;

		for (const char *p = line; *p != '\0' && *p != '\n'; p++)
			*to++ = *p == '\\' ? (p++, '\n') : *p;
		if (tok_encode(tok, line, (size_t) (to - line), TOK_ADD_SPECIAL, &ids, &e) && ids.len < MAX_ROWS)
		{
			t->len[t->n] = (int) ids.len;
			memcpy(t->ids[t->n++], ids.data, ids.len * sizeof(int32_t));
		}
		intvec_free(&ids);
	}
	CHECK(t->n == 32, "%d texts", t->n);
	if (in != NULL)
		fclose(in);
	if (tok != NULL)
		tok_free(tok);
}

static double
perplexity(Model *m, const Texts *t, float *logits)
{
	int			vocab = model_info(m)->vocab_size;
	double		loss = 0;
	int			count = 0;

	for (int i = 0; i < t->n; i++)
	{
		run(m, t->ids[i], t->len[i], logits);
		for (int p = 0; p + 1 < t->len[i]; p++)
		{
			const float *x = logits + (size_t) p * (size_t) vocab;
			double		sum = 0;

			for (int j = 0; j < vocab; j++)
				sum += exp((double) x[j]);
			loss += log(sum) - (double) x[t->ids[i][p + 1]];
			count++;
		}
	}
	return exp(loss / count);
}

static Model *
load(const Conf *conf, const ModelSource *src, const char *name)
{
	const QuantScheme *q = name != NULL ? quant_scheme(name) : NULL;
	ModelOptions opt = {.kernels = best_kernels(q), .pool = pool, .max_rows = MAX_ROWS, .max_out = MAX_ROWS,
		.quant = q};
	Err			e = {0};
	Model	   *m = model_new(conf, src, &opt, &e);

	CHECK(m != NULL, "%s: %s", name != NULL ? name : "as it is", e.msg);
	return m;
}

static void
check_bundled(void)
{
	Err			e = {0};
	Files	   *f = files_open("models/tickets-2m", &e);
	ModelSource src = {.find = file_find, .at = file_at, .ctx = f};
	Texts	   *t = mem_zalloc(sizeof(Texts));
	Model	   *m;
	float	   *logits;
	double		plain;
	size_t		bytes;

	CHECK(f != NULL, "%s", e.msg);
	if (f == NULL)
		return;
	read_texts(f, t);
	m = load(files_conf(f), &src, NULL);
	logits = mem_alloc((size_t) MAX_ROWS * (size_t) model_info(m)->vocab_size * sizeof(float));
	plain = perplexity(m, t, logits);
	bytes = model_info(m)->weight_bytes;
	printf("tickets-2m  %-5s perplexity %.4f              %zu bytes\n", ktype_name(model_info(m)->dtype),
		   plain, bytes);
	CHECK(plain > 1 && plain < 20, "perplexity %g", plain);
	for (int i = 0; i < N_KV_TYPES; i++)
	{
		double		change;

		kv_type = kv_types[i].type;
		change = (perplexity(m, t, logits) / plain - 1) * 100;
		printf("tickets-2m  KV %-5s perplexity %+.3f %%\n", ktype_name(kv_type), change);
		CHECK(fabs(change) < kv_types[i].ppl, "KV %s: perplexity changes by %.3f %%", ktype_name(kv_type),
			  change);
	}
	kv_type = KT_F32;
	model_free(m);
	for (int i = 0; i < N_SCHEMES; i++)
	{
		const QuantScheme *q = quant_scheme(schemes[i].name);
		double		ppl;
		double		change;
		ModelInfo	info;

		m = load(files_conf(f), &src, schemes[i].name);
		if (m == NULL)
			continue;
		ppl = perplexity(m, t, logits);
		change = (ppl / plain - 1) * 100;
		printf("tickets-2m  %-5s perplexity %.4f (%+.2f %%)    %zu bytes, %s\n", schemes[i].name, ppl, change,
			   (size_t) model_info(m)->weight_bytes, best_kernels(q)->name);
		CHECK(fabs(change) < schemes[i].ppl, "%s: perplexity changes by %.2f %%", schemes[i].name, change);
		CHECK(model_info(m)->dtype == schemes[i].dtype, "%s: dtype %s", schemes[i].name,
			  ktype_name(model_info(m)->dtype));
		CHECK(model_info(m)->weight_bytes < bytes * 5 / 8, "%s: %zu bytes", schemes[i].name,
			  (size_t) model_info(m)->weight_bytes);
		CHECK(model_check(files_conf(f), &src, q, NULL, &info, &e) && info.dtype == schemes[i].dtype,
			  "%s: checked without loading", schemes[i].name);
		model_free(m);
	}
	mem_free(logits);
	mem_free(t);
	files_close(f);
}

/* ---- a random model ---- */

#define HIDDEN 256
#define INTER 512
#define VOCAB 1024
#define LAYERS 2
#define KV_DIM 128
#define MAX_TENSORS 32

typedef struct RandomModel
{
	int			n;
	KTensor		t[MAX_TENSORS];
	char		names[MAX_TENSORS][80];
	uint32_t	seed;
} RandomModel;

/* Roughly normal: the sum of four uniform ones. */
static float
rnd_normal(uint32_t *seed)
{
	float		sum = 0;

	for (int i = 0; i < 4; i++)
	{
		*seed = *seed * 1664525u + 1013904223u;
		sum += (float) (*seed >> 8) * 0x1p-24f - 0.5f;
	}
	return sum * 1.7320508f;
}

/* Add a matrix [n][k], or a norm of n if k is 0. */
static void
add_random(RandomModel *r, const char *name, int n, int k)
{
	KTensor    *t = &r->t[r->n];
	size_t		count = (size_t) n * (size_t) (k > 0 ? k : 1);
	float	   *x = mem_alloc(count * sizeof(float));

	for (size_t i = 0; i < count; i++)
		x[i] = k > 0 ? rnd_normal(&r->seed) / sqrtf((float) k) : 1.0f + 0.2f * rnd_normal(&r->seed);
	snprintf(r->names[r->n], sizeof(r->names[0]), "%s.weight", name);
	*t = (KTensor) {.name = r->names[r->n], .type = KT_F32, .ndim = k > 0 ? 2 : 1, .shape = {n, k}, .data = x,
		.nbytes = count * sizeof(float)};
	r->n++;
}

static const KTensor *
random_find(void *ctx, const char *name)
{
	RandomModel *r = ctx;

	for (int i = 0; i < r->n; i++)
		if (strcmp(r->names[i], name) == 0)
			return &r->t[i];
	return NULL;
}

static void
make_random(RandomModel *r)
{
	static const struct
	{
		const char *name;
		int			n;
		int			k;
	}			parts[] = {
		{"input_layernorm", HIDDEN, 0}, {"post_attention_layernorm", HIDDEN, 0},
		{"self_attn.q_proj", HIDDEN, HIDDEN}, {"self_attn.k_proj", KV_DIM, HIDDEN},
		{"self_attn.v_proj", KV_DIM, HIDDEN}, {"self_attn.o_proj", HIDDEN, HIDDEN},
		{"mlp.gate_proj", INTER, HIDDEN}, {"mlp.up_proj", INTER, HIDDEN}, {"mlp.down_proj", HIDDEN, INTER},
	};
	char		name[64];

	add_random(r, "model.embed_tokens", VOCAB, HIDDEN);
	add_random(r, "lm_head", VOCAB, HIDDEN);
	add_random(r, "model.norm", HIDDEN, 0);
	for (int l = 0; l < LAYERS; l++)
		for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		{
			snprintf(name, sizeof(name), "model.layers.%d.%s", l, parts[i].name);
			add_random(r, name, parts[i].n, parts[i].k);
		}
}

static Conf *
random_conf(void)
{
	Conf	   *c = conf_new();

	conf_set_str(c, "architectures", "LlamaForCausalLM");
	conf_set_int(c, "hidden_size", HIDDEN);
	conf_set_int(c, "intermediate_size", INTER);
	conf_set_int(c, "num_hidden_layers", LAYERS);
	conf_set_int(c, "num_attention_heads", 4);
	conf_set_int(c, "num_key_value_heads", 2);
	conf_set_int(c, "vocab_size", VOCAB);
	conf_set_int(c, "max_position_embeddings", MAX_ROWS);
	return c;
}

/* Return the mean cosine of the rows. */
static double
mean_cosine(const float *a, const float *b, int rows, int vocab)
{
	double		sum = 0;

	for (int i = 0; i < rows; i++, a += vocab, b += vocab)
	{
		double		ab = 0,
					aa = 0,
					bb = 0;

		for (int j = 0; j < vocab; j++)
		{
			ab += (double) a[j] * (double) b[j];
			aa += (double) a[j] * (double) a[j];
			bb += (double) b[j] * (double) b[j];
		}
		sum += ab / sqrt(aa * bb);
	}
	return sum / rows;
}

static void
check_random(void)
{
	enum {N = 24};
	RandomModel r = {.seed = 7};
	Conf	   *c = random_conf();
	ModelSource src = {.find = random_find, .ctx = &r};
	int32_t		tokens[N];
	float	   *want = mem_alloc(N * VOCAB * sizeof(float));
	float	   *got = mem_alloc(N * VOCAB * sizeof(float));
	Model	   *m;

	make_random(&r);
	for (int i = 0; i < N; i++)
		tokens[i] = (i * 389 + 17) % VOCAB;
	m = load(c, &src, NULL);
	run(m, tokens, N, want);
	for (int i = 0; i < N_KV_TYPES; i++)
	{
		double		cosine;

		kv_type = kv_types[i].type;
		run(m, tokens, N, got);
		cosine = mean_cosine(want, got, N, VOCAB);
		printf("random      KV %-5s mean cosine of logits %.7f\n", ktype_name(kv_type), cosine);
		CHECK(cosine > kv_types[i].cosine && cosine <= 1 + 1e-9, "KV %s: cosine %.7f", ktype_name(kv_type),
			  cosine);
	}
	kv_type = KT_F32;
	model_free(m);
	for (int i = 0; i < N_SCHEMES; i++)
	{
		double		cosine;

		if ((m = load(c, &src, schemes[i].name)) == NULL)
			continue;
		run(m, tokens, N, got);
		cosine = mean_cosine(want, got, N, VOCAB);
		printf("random      %-5s mean cosine of logits %.5f\n", schemes[i].name, cosine);
		CHECK(cosine > schemes[i].cosine && cosine <= 1 + 1e-9, "%s: cosine %.5f", schemes[i].name, cosine);
		model_free(m);
	}
	for (int i = 0; i < r.n; i++)
		mem_free((void *) r.t[i].data);
	conf_free(c);
	mem_free(want);
	mem_free(got);
}

/* ---- rows that are not complete blocks ---- */

/*
 * Return the mean cosine of the fixture's logits before and after quantization; *dtype: the resulting
 * type.
 */
static double
fixture_cosine(const char *path, const char *scheme, KType *dtype)
{
	enum {N = 20};
	Err			e = {0};
	Files	   *f = files_open(path, &e);
	ModelSource src = {.find = file_find, .at = file_at, .ctx = f};
	int32_t		tokens[N];
	float	   *logits[2] = {NULL, NULL};
	double		cosine = 0;
	int			vocab = 0;

	CHECK(f != NULL, "%s", e.msg);
	for (int i = 0; i < N; i++)
		tokens[i] = (i * 37 + 5) % 256;
	for (int i = 0; f != NULL && i < 2; i++)
	{
		Model	   *m = load(files_conf(f), &src, i == 1 ? scheme : NULL);

		if (m == NULL)
			break;
		vocab = model_info(m)->vocab_size;
		logits[i] = mem_alloc((size_t) N * (size_t) vocab * sizeof(float));
		run(m, tokens, N, logits[i]);
		*dtype = model_info(m)->dtype;
		model_free(m);
	}
	if (logits[1] != NULL)
		cosine = mean_cosine(logits[0], logits[1], N, vocab);
	printf("%s  %s %s: mean cosine of logits %.5f\n", strrchr(path, '/') + 1, scheme, ktype_name(*dtype),
		   cosine);
	mem_free(logits[0]);
	mem_free(logits[1]);
	if (f != NULL)
		files_close(f);
	return cosine;
}

static void
check_fixtures(void)
{
	KType		dtype = KT_COUNT;

	/* rows of 96 and 128: Q4_1 and, for the head, Q8_0 instead of Q4_K and Q6_K */
	CHECK(fixture_cosine("build/fixtures/models/llama_tied_bf16", "q4_k", &dtype) > 0.93, "rows of 96");
	CHECK(dtype == KT_Q4_1, "rows of 96: %s", ktype_name(dtype));
	/* rows of 48 and 80 are complete blocks only of INT8 */
	CHECK(fixture_cosine("build/fixtures/models/llama_f32", "q4_0", &dtype) > 1 - 1e-9 && dtype == KT_F32,
		  "rows of 48: %s", ktype_name(dtype));
	CHECK(fixture_cosine("build/fixtures/models/llama_f32", "int8", &dtype) > 0.99 && dtype == KT_INT8,
		  "rows of 48: %s", ktype_name(dtype));
}

int
main(void)
{
	pool = kpool_new(2);
	RUN(check_bundled());
	RUN(check_random());
	RUN(check_fixtures());
	kpool_free(pool);
	return check_done("quantize_golden");
}
