/*
 * lora_golden.c
 *	  Adapters against the Python package peft (gen_lora.py), on each implementation of the op table that
 *	  this CPU can run, and on the device that protects its memory (moat.c).
 *
 *	- logits at some positions of the prompt equal those of the model with the adapter, on float bases and
 *	  quantized ones, and on the same model's GGUF file
 *	- a batch of the prompt with the adapter, with another one and without has the bits of each alone, chunked
 *	  or not; without an adapter they are the model's own
 *
 * Tolerances of the maximum absolute error, for logits of order 1, are those of models_golden.c.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "backend/lora_loader.h"
#include "backend/weight_source.h"
#include "hostdev.h"
#include "model/weights/device_arena.h"
#include "tests/unit/check.h"

#define FIXTURES "build/fixtures/"
#define EXPECTED "tests/golden/lora_expected/"
#define BLOCK 16
#define MAX_TOKENS 64
#define SEQS 3

static const struct
{
	const char *adapter;
	const char *base;
	const char *other;			/* adapter of the same base, in the same batch */
	double		tol;
	double		rounded;		/* tolerance on avx512_bf16, which rounds activations to BF16; 0 = tol */
}			cases[] = {
	{"llama_all", "llama_f32", "llama_rslora", 2e-5, 0},
	{"llama_rslora", "llama_f32", "llama_all", 2e-5, 0},
	{"llama_patterns", "llama_f32", "llama_ends", 2e-5, 0},
	{"llama_ends", "llama_f32", "llama_patterns", 2e-5, 0},
	{"llama_regex", "llama_f32", "llama_all", 2e-5, 0},
	{"llama_all", "llama_f32_gguf.gguf", "llama_ends", 2e-5, 0},
	{"llama_ends", "llama_f32_gguf.gguf", "llama_all", 2e-5, 0},
	{"llama_expressions", "llama_f32", "llama_patterns", 2e-5, 0},
	{"llama_saved", "llama_f32", "llama_ends", 2e-5, 0},
	{"llama_saved", "llama_f32_gguf.gguf", "llama_ends", 2e-5, 0},
	{"tied_saved", "llama_tied_bf16", NULL, 2e-5, 0.08},
	{"tied_saved", "llama_tied_q8_0_gguf.gguf", NULL, 0.3, 0},
	{"qwen2_ends", "qwen2_f32", NULL, 2e-5, 0},
	{"gemma_all", "gemma_bf16", NULL, 2e-5, 0.08},
	{"gemma3_all", "gemma3_bf16", NULL, 2e-5, 0.08},
	{"gpt2_conv1d", "gpt2_f16", NULL, 2e-5, 0},
	{"gptneox_fused", "gptneox_f16", NULL, 2e-5, 0},
	{"falcon_grouped", "falcon_new_f16", NULL, 2e-5, 0},
	{"cohere_paired", "cohere_f16", NULL, 2e-5, 0},
	{"cohere_paired", "cohere_f16_f16_gguf.gguf", NULL, 2e-5, 0},
	{"phi3_fused", "phi3_f16", NULL, 4e-5, 0},
	{"quant_gptq", "quant_gptq", NULL, 0.2, 0},
	{"quant_awq", "quant_awq", NULL, 0.2, 0},
	{"quant_nf4", "quant_nf4", NULL, 0.2, 0},
	{"quant_q8_0", "llama_tied_q8_0_gguf.gguf", NULL, 0.15, 0},
};

typedef struct Golden
{
	int32_t		head[4];		/* n_prompt, n_pos, vocab, n_greedy = 0 */
	int32_t		prompt[MAX_TOKENS];
	int32_t		pos[8];
	float	   *logits;			/* [n_pos][vocab] */
} Golden;

typedef struct World
{
	Model	   *m;
	KvView		kv;
	DevMem		kv_mem;
	HostDev		out;
	int32_t		table[SEQS][MAX_TOKENS / BLOCK];
	const LoraAdapter *lora[SEQS];
	const float *logits;		/* [SEQS * MAX_TOKENS][vocab] */
} World;

/* The models' device: NULL = CPUs. */
static const Dev *dev;

static bool
golden_read(const char *name, Golden *g)
{
	char		path[256];
	FILE	   *f;
	bool		ok;
	size_t		n;

	snprintf(path, sizeof(path), EXPECTED "%s.bin", name);
	if ((f = fopen(path, "rb")) == NULL)
		return false;
	ok = fread(g->head, sizeof(int32_t), 4, f) == 4 && g->head[0] <= MAX_TOKENS && g->head[1] <= 8 &&
		fread(g->prompt, sizeof(int32_t), (size_t) g->head[0], f) == (size_t) g->head[0] &&
		fread(g->pos, sizeof(int32_t), (size_t) g->head[1], f) == (size_t) g->head[1];
	n = ok ? (size_t) g->head[1] * (size_t) g->head[2] : 0;
	g->logits = mem_alloc(n * sizeof(float));
	ok = ok && fread(g->logits, sizeof(float), n, f) == n;
	fclose(f);
	return ok;
}

static Model *
load_model(const char *base, const Kernels *k, KPool *pool)
{
	char		path[256];
	Err			e = {0};
	Files	   *f;
	Model	   *m = NULL;

	snprintf(path, sizeof(path), FIXTURES "models/%s", base);
	if ((f = files_open(path, &e)) != NULL)
	{
		Source		source = {.files = f};
		ModelSource src = source_of(&source);
		ModelOptions opt = {.kernels = k, .pool = pool, .max_rows = SEQS * MAX_TOKENS,
							.max_out = SEQS * MAX_TOKENS,
			.dev = dev};

		m = model_new(files_conf(f), &src, &opt, &e);
		source_done(&source);
		files_close(f);
	}
	CHECK(m != NULL, "%s: %s (%s)", base, e.msg, e.detail);
	return m;
}

static LoraAdapter *
load_adapter(const Model *m, const char *name, const char *dtype)
{
	char		path[256];
	Err			e = {0};
	LoraAdapter *a;

	snprintf(path, sizeof(path), FIXTURES "lora/%s", name);
	a = lora_files_load(m, path, 64, dtype, &e);
	CHECK(a != NULL, "%s: %s (%s)", name, e.msg, e.detail);
	return a;
}

/* Reset the KV cache. */
static void
no_kv(World *w)
{
	if (dev != NULL)
		dev->ops->fill(dev->d, w->kv.base, 0xff, kv_layout(&w->kv));
	else
		memset(w->kv.base, 0xff, kv_layout(&w->kv));
}

static void
world_start(World *w, Model *m)
{
	Err			e = {0};
	const ModelInfo *info = model_info(m);
	int			per = MAX_TOKENS / BLOCK;
	size_t		size;

	memset(w, 0, sizeof(*w));
	w->m = m;
	w->kv = (KvView) {.type = KT_F32, .n_layers = info->n_kv_layers, .n_blocks = SEQS * per,
					  .block_size = BLOCK,
		.n_kv_heads = info->n_kv_heads, .head_dim = info->head_dim, .v_dim = info->v_dim};
	size = kv_layout(&w->kv);
	CHECK(devmem_reserve(&w->kv_mem, dev, size, HUGE_OFF, "KV", &e) &&
		  hostdev_new(&w->out, dev, (size_t) (SEQS * MAX_TOKENS) * (size_t) info->vocab_size, "logits", &e),
		  "%s", e.msg);
	w->kv.base = w->kv_mem.base;
	w->logits = w->out.host;
	no_kv(w);
	for (int i = 0; i < SEQS * per; i++)
		w->table[i % SEQS][i / SEQS] = (i * 5 + 2) % (SEQS * per);
}

static void
world_end(World *w)
{
	devmem_free(&w->kv_mem);
	hostdev_free(&w->out);
}

/* Feed n tokens from pos on to sequences first .. last; logits of all rows, sequence after sequence. */
static void
feed(World *w, int first, int last, const int32_t *tokens, int pos, int n)
{
	int			seqs = last - first + 1;
	int32_t		start[SEQS + 1];
	int32_t		p[SEQS * MAX_TOKENS];
	int32_t		t[SEQS * MAX_TOKENS];
	int32_t		out[SEQS * MAX_TOKENS];
	const int32_t *tables[SEQS];
	Err			e = {0};
	Batch		b = {.rows = {seqs * n, seqs, start, p, tables, NULL}, .tokens = t, .lora = w->lora + first,
		.n_out = seqs * n, .out_rows = out};

	for (int s = 0; s <= seqs; s++)
	{
		start[s] = s * n;
		if (s < seqs)
			tables[s] = w->table[first + s];
	}
	for (int i = 0; i < seqs * n; i++)
	{
		p[i] = pos + i % n;
		t[i] = tokens[pos + i % n];
		out[i] = i;
	}
	model_forward(w->m, &b, &w->kv, w->out.dev);
	hostdev_get(&w->out, 0, (size_t) (seqs * n) * (size_t) model_info(w->m)->vocab_size);
	CHECK(dev_wait(dev, &e), "%s", e.msg);
}

/* Feed the whole prompt in chunks, to sequences first .. last: all[seq][n][vocab]. */
static void
prefill(World *w, int first, int last, const Golden *g, int chunk, float *all)
{
	size_t		vocab = (size_t) g->head[2];
	int			n = g->head[0];

	for (int at = 0; at < n; at += chunk)
	{
		int			c = at + chunk < n ? chunk : n - at;

		feed(w, first, last, g->prompt, at, c);
		for (int s = first; s <= last; s++)
			memcpy(all + ((size_t) s * (size_t) n + (size_t) at) * vocab,
				   w->logits + (size_t) ((s - first) * c) * vocab, (size_t) c * vocab * sizeof(float));
	}
}

static double
max_error(const Golden *g, const float *all)
{
	double		worst = 0;

	for (int i = 0; i < g->head[1]; i++)
		for (int j = 0; j < g->head[2]; j++)
		{
			double		d = fabs((double) g->logits[i * g->head[2] + j] -
								 (double) all[g->pos[i] * g->head[2] + j]);

			if (!(d <= worst))
				worst = d;
		}
	return worst;
}

static void
check_case(int c, const Kernels *k, KPool *pool)
{
	const char *name = cases[c].adapter;
	bool		bf16 = strstr(k->name, "bf16") != NULL && cases[c].rounded > 0;
	double		tol = bf16 ? cases[c].rounded : cases[c].tol;
	Golden		g;
	World		w;
	Model	   *m = load_model(cases[c].base, k, pool);
	LoraAdapter *a;
	LoraAdapter *other;
	size_t		bytes;
	float	   *alone;
	float	   *mixed;
	double		err;

	CHECK(golden_read(name, &g), "%s: no expectation", name);
	if (m == NULL || (a = load_adapter(m, name, "auto")) == NULL)
		return;
	other = load_adapter(m, cases[c].other != NULL ? cases[c].other : name, "bfloat16");
	world_start(&w, m);
	bytes = (size_t) g.head[0] * (size_t) g.head[2] * sizeof(float);
	alone = mem_zalloc(SEQS * bytes);
	mixed = mem_zalloc(SEQS * bytes);
	/* one by one; the model alone runs without a list of adapters */
	prefill(&w, 1, 1, &g, MAX_TOKENS, alone);
	w.lora[0] = a;
	w.lora[2] = other;
	prefill(&w, 0, 0, &g, MAX_TOKENS, alone);
	prefill(&w, 2, 2, &g, MAX_TOKENS, alone);
	err = max_error(&g, alone);
	CHECK(err <= tol, "%s on %s with %s: error %g, allowed %g", name, cases[c].base, k->name, err, tol);
	CHECK(memcmp(alone, (char *) alone + bytes, bytes) != 0 &&
		  (cases[c].other == NULL || memcmp(alone, (char *) alone + 2 * bytes, bytes) != 0),
		  "%s on %s: nothing has been added", name, cases[c].base);
	for (int chunk = 64; chunk > 0; chunk /= 4)
	{
		no_kv(&w);
		prefill(&w, 0, SEQS - 1, &g, chunk, mixed);
		CHECK(memcmp(alone, mixed, SEQS * bytes) == 0,
			  "%s on %s with %s: other bits in a batch, chunks of %d", name, cases[c].base, k->name, chunk);
	}
	world_end(&w);
	mem_free(alone);
	mem_free(mixed);
	mem_free(g.logits);
	lora_free(a);
	lora_free(other);
	model_free(m);
}

int
main(int argc, char **argv)
{
	KPool	   *pool = kpool_new(2);
	KHost		host = {.abi = KDEVICE_ABI, .pool_device = kpool_device, .pool_threads = kpool_nthreads};
	KDevOpen	open = {.max_rows = SEQS * MAX_TOKENS, .max_seqs = SEQS, .max_blocks = MAX_TOKENS / BLOCK,
						.max_out = SEQS * MAX_TOKENS};
	char		why[128] = "";
	Dev			moat;

	for (const Kernels *const *k = kernels_all(); *k != NULL; k++)
		for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]) && kernels_usable(*k); c++)
			if (argc < 2 || strcmp(argv[1], cases[c].adapter) == 0)
				RUN_NAMED(cases[c].adapter, check_case((int) c, *k, pool));
	moat = (Dev) {.ops = kdevice_of_cpus("moat")};
	moat.d = moat.ops->open(0, &host, &open, why, sizeof(why));
	CHECK(moat.d != NULL, "moat: %s", why);
	kpool_set_device(pool, moat.d);
	dev = &moat;
	/* only a few, since each op opens and closes all of its memory */
	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]) && moat.d != NULL; c += 3)
		if (argc < 2 || strcmp(argv[1], cases[c].adapter) == 0)
			RUN_NAMED(cases[c].adapter, check_case((int) c, moat.ops->kernels(moat.d, KT_F32), pool));
	if (moat.d != NULL)
		moat.ops->close(moat.d);
	kpool_free(pool);
	return check_done("lora_golden");
}
