/*
 * test_invariance_model.c
 *	  Promise 3 on the tiny models of build/fixtures/models: each with this machine's best Kernels, and in
 *	  turn with the others that its CPU can run and with every KV type.
 *
 * With one Kernels for each model: prompts that are embeddings, those of the prompt's tokens (the same
 * as the tokens), and numbers that no model was trained with (an error at worst).
 */
#include <dirent.h>

#include "tests/unit/core/invariance.h"

#include "backend/lora_loader.h"
#include "backend/weight_source.h"
#include "tests/unit/file_types.h"

#define MODELS "build/fixtures/models"
#define LORAS "build/fixtures/lora"

static KPool *pools[3];

typedef struct Case
{
	char		path[512];
	const Kernels *kernels;
	KType		kv_type;
	const QuantScheme *quant;
	/* [INV_LORAS] names of the adapters for inv_loras, NULL after the last; NULL = none */
	const char *const *loras;
} Case;

/* The adapters outlive the model: other loads of the same files use them, too. */
static void
add_lora(const Model *m, const char *name)
{
	char		path[256];
	Err			e = {0};
	LoraAdapter *a;

	snprintf(path, sizeof(path), LORAS "/%s", name);
	for (int i = 0; i < inv_n_loras; i++)
		if (strcmp(inv_loras[i]->label, name) == 0)
			return;
	a = lora_files_load(m, path, 64, "auto", &e);
	CHECK(a != NULL, "%s: %s", path, e.msg);
	if (a == NULL)
		return;
	a->id = (uint64_t) inv_n_loras + 1;
	inv_loras[inv_n_loras++] = a;
}

static Core *
make_real(void *ctx, const CoreOptions *opt, int n_threads)
{
	const Case *k = ctx;
	CoreOptions o = *opt;
	ModelOptions mo = {
		.kernels = k->kernels, .pool = pools[n_threads], .max_rows = o.max_num_batched_tokens,
		.max_out = core_max_logits(&o), .quant = k->quant
	};
	Err			e = {0};
	Files	   *f = files_open(k->path, &e);
	Source		source = {.files = f};
	ModelSource src = source_of(&source);
	Model	   *m = f != NULL ? model_new(files_conf(f), &src, &mo, &e) : NULL;
	Tok		   *t = m != NULL ? source_tok(f, &e) : NULL;
	Core	   *c = NULL;

	o.kernels = k->kernels;
	o.pool = pools[n_threads];
	o.kv_type = k->kv_type;
	/* the reference run keeps all blocks */
	o.no_windows = n_threads == 1 && o.max_chunk == 0 && !o.prefix_caching && o.kv_blocks > 6;
	inv_windows = m != NULL && model_info(m)->n_kv_windows > 0;
	if (m != NULL && o.max_model_len > model_info(m)->max_model_len)
		o.max_model_len = model_info(m)->max_model_len;
	for (int i = 0; m != NULL && k->loras != NULL && inv_n_loras < INV_LORAS && k->loras[i] != NULL; i++)
		add_lora(m, k->loras[i]);
	if (t != NULL)
		c = core_new(m, t, files_conf(f), &o, &e);
	else if (m != NULL)
		model_free(m);
	CHECK(c != NULL, "%s: %s", k->path, e.msg);
	source_done(&source);
	if (f != NULL)
		files_close(f);
	return c;
}

/* Rows as large as floats can be: the model's numbers overflow, but nothing else. */
static void
check_huge(const char *label, const Case *k)
{
	static const float huge[] = {3.4e38f, -3.4e38f, 1e30f, 1e-42f};
	CoreOptions opt = {
		.max_num_seqs = 4, .max_num_batched_tokens = 64, .max_model_len = 128, .block_size = 16,
		.kv_blocks = 32
	};
	Core	   *c = make_real((void *) k, &opt, 2);
	size_t		width = c != NULL ? (size_t) core_info(c)->embed_width : 0;
	Rec			rec[5];
	Err			e;

	memset(rec, 0, sizeof(rec));
	for (int i = 0; i < 5 && c != NULL; i++)
	{
		ReqSpec		spec = {.id = (uint64_t) i + 1, .sink = rec_sink, .sink_ctx = &rec[i],
							.prompt = inv_prompt(7, 20, 250)};
		GenParams	p = greedy_params(6);

		p.detokenize = false;
		CHECK(core_normalize(c, &p, ~0u, &spec.prompt, &e), "%s: %s", label, e.msg);
		spec.params = p;
		if (i < 4)
		{
			spec.embeds = mem_alloc(20 * width * sizeof(float));
			for (size_t j = 0; j < 20 * width; j++)
				spec.embeds[j] = j % 3 == 0 ? -huge[i] : huge[i];
		}
		core_submit(c, &spec);
	}
	while (c != NULL && core_has_work(c))
		core_step(c);
	for (int i = 0; i < 5 && c != NULL; i++)
	{
		CHECK(i < 4 ? rec[i].finish == FIN_LENGTH || rec[i].finish == FIN_ERROR : rec[i].finish == FIN_LENGTH,
			  "%s, row %d: finish %d, %s", label, i, rec[i].finish, rec[i].err.msg);
		rec_free(&rec[i]);
	}
	core_free(c);
}

/*
 * Models with adapters: the request under test with the first one, and without one next to others that
 * have adapters.
 */
static void
check_loras(const Case *base)
{
	static const struct
	{
		const char *model;
		const char *loras[INV_LORAS + 1];
	}			table[] = {
		{"llama_f32", {"llama_all", "llama_ends", "llama_rslora"}},
		{"qwen2_f32", {"qwen2_ends"}},
		{"gemma_bf16", {"gemma_all"}},
		{"gpt2_f16", {"gpt2_conv1d"}},
		{"falcon_new_f16", {"falcon_grouped"}},
		{"llama_tied_q8_0_gguf.gguf", {"quant_q8_0"}},
	};
	Case		k = *base;
	char		label[600];

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (strcmp(strrchr(k.path, '/') + 1, table[i].model) == 0)
		{
			k.loras = table[i].loras;
			for (inv_lora_target = 0; inv_lora_target >= -1; inv_lora_target--)
			{
				snprintf(label, sizeof(label), "%s, %s, adapters, %s", table[i].model, k.kernels->name,
						 inv_lora_target < 0 ? "of others" : "its own");
				inv_check(label, make_real, &k);
			}
			while (inv_n_loras > 0)
				lora_free((LoraAdapter *) (uintptr_t) inv_loras[--inv_n_loras]);
		}
	inv_lora_target = -1;
}

/* Models with values of the option activation_scheme, quantized in the file or on loading. */
static void
check_x_schemes(const char *path, const Kernels *kernels)
{
	static const struct
	{
		const char *model;
		const char *scheme;		/* NULL = as in the file */
		XScheme		x;
	}			table[] = {
		{"quant_ct_w4a16", NULL, X_FLOAT}, {"quant_awq", NULL, X_FLOAT},
		{"quant_qwen3_moe_gptq", NULL, X_FLOAT}, {"llama_tied_bf16", "q4_0", X_FLOAT},
		{"qwen2_bf16", "q4_1", X_FLOAT}, {"quant_ct_w8a8", NULL, X_FLOAT},
		{"quant_ct_w8a8", NULL, X_DYNAMIC}, {"qwen3_moe_f16", "int8", X_DYNAMIC},
		{"quant_ct_static", NULL, X_STATIC},
	};
	Case		k = {.kernels = kernels, .kv_type = KT_F32};
	char		label[600];

	snprintf(k.path, sizeof(k.path), "%s", path);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (strcmp(strrchr(path, '/') + 1, table[i].model) == 0)
		{
			k.quant = quant_with_x(table[i].scheme != NULL ? quant_scheme(table[i].scheme) : NULL,
								   table[i].x);
			snprintf(label, sizeof(label), "%s, %s, %s activations", table[i].model, kernels->name,
					 x_scheme_name(table[i].x));
			inv_check(label, make_real, &k);
		}
}

static int
by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* argv: names of models, or none for all */
/*
 * Choose the kernels for model i: the machine's best ones, and some of the others in turn, since conform
 * shows for each that rows don't depend on their batch.
 */
static bool
in_turn(int i, const Kernels *const *kp)
{
	const Kernels *const *next = kp + 1;

	while (*next != NULL && !kernels_usable(*next))
		next++;
	if (*next == NULL)
		return true;
	if (strcmp((*kp)->name, "ref") == 0)
		return i % 64 == 0;
	return (i + (kp - kernels_all())) % check_effort(16, 16, 1) == 0;
}

int
main(int argc, char **argv)
{
	static const KType kv_types[] = {KT_F32, KT_F16, KT_BF16, KT_INT8, KT_F8_E4M3, KT_F8_E5M2};
	struct dirent **names = NULL;
	/* the suite passes the engine's path, which is not a model's name */
	const char *only = argc > 1 && strchr(argv[1], '/') == NULL ? argv[1] : NULL;
	int			n = scandir(MODELS, &names, NULL, by_name);
	int			n_models = 0;
	int			part;
	int			parts;

	/* the cases of one model greedy, of the next one sampled; nightly both ways */
	parts = (int) sysconf(_SC_NPROCESSORS_ONLN);
	parts = parts < 1 ? 1 : parts > 8 ? 8 : parts;
	part = check_split("invariance_model", parts);
	pools[1] = kpool_new(1);
	pools[2] = kpool_new(2);
	for (int i = 0; i < n; i++)
	{
		Case		k;
		bool		rows = false;

		/* what tools wrote becomes the types that other models have, too: nightly only */
		if (i % parts != part || (only != NULL ? strcmp(only, names[i]->d_name) != 0 :
								  strncmp(names[i]->d_name, "tool_", 5) == 0 && check_effort(0, 0, 1) == 0))
		{
			free(names[i]);
			continue;
		}
		for (const Kernels *const *kp = kernels_all(); names[i]->d_name[0] != '.' && *kp != NULL; kp++)
		{
			char		label[600];

			if (!kernels_usable(*kp))
			{
				check_skip(1, (*kp)->name);
				continue;
			}
			if (!in_turn(i, kp))
				continue;
			snprintf(k.path, sizeof(k.path), MODELS "/%s", names[i]->d_name);
			k.kernels = *kp;
			inv_draws = check_effort(1, 1, 2) == 2 ? INV_BOTH : i / parts % 2 == 0 ? INV_GREEDY : INV_SAMPLED;
			RUN(check_x_schemes(k.path, *kp));
			if (!path_has_all_types(k.kernels, k.path))
			{
				check_skip(1, "not all types of a model");
				continue;
			}
			/* all KV types with each Kernels, over all models */
			k.kv_type = kv_types[(i * 7 + (int) (kp - kernels_all())) / 3 % 6];
			n_models++;
			snprintf(label, sizeof(label), "%s, %s, KV %s", names[i]->d_name, (*kp)->name,
					 ktype_name(k.kv_type));
			k.loras = NULL;
			k.quant = NULL;
			inv_check(label, make_real, &k);
			if (strstr(k.kernels->name, "_") == NULL)
				RUN(check_loras(&k));
			if (rows)
				continue;
			rows = true;
			inv_check_rows(label, make_real, &k);
			RUN(check_huge(label, &k));
		}
		free(names[i]);
	}
	free(names);
	kpool_free(pools[1]);
	kpool_free(pools[2]);
	if (n_models == 0)
		check_skip(1, "no models in " MODELS);
	return check_done("invariance_model");
}
