/*
 * test_lora_files.c
 *	  Adapter files that must be refused: of other kinds, for other models, broken and hostile ones.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "backend/lora_loader.h"
#include "backend/weight_source.h"

#include "tests/unit/check.h"

#define MODELS "build/fixtures/models/"
#define LORAS "build/fixtures/lora/"

static char dir[] = "/tmp/test_lora_files_XXXXXX";

static void
slurp(const char *path, Buf *out)
{
	FILE	   *f = fopen(path, "rb");
	char		piece[65536];
	size_t		n;

	while (f != NULL && (n = fread(piece, 1, sizeof(piece), f)) > 0)
		buf_add(out, piece, n);
	if (f != NULL)
		fclose(f);
	CHECK(out->len > 0, "%s", path);
}

static void
spill(const char *name, const char *data, size_t n)
{
	char		path[256];
	FILE	   *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "wb");
	fwrite(data, 1, n, f);
	fclose(f);
}

static Model *
load_model(const char *name, KPool *pool)
{
	char		path[256];
	const char *why;
	Err			e = {0};
	Files	   *f;
	Model	   *m = NULL;

	snprintf(path, sizeof(path), MODELS "%s", name);
	if ((f = files_open(path, &e)) != NULL)
	{
		Source		source = {.files = f};
		ModelSource src = source_of(&source);
		ModelOptions opt = {.kernels = kernels_select(NULL, &why), .pool = pool, .max_rows = 8, .max_out = 8};

		m = model_new(files_conf(f), &src, &opt, &e);
		source_done(&source);
		files_close(f);
	}
	CHECK(m != NULL, "%s: %s", name, e.msg);
	return m;
}

/* The adapter in dir, with a replacement in its configuration, must be refused with this error. */
static void
refused(const Model *m, const Buf *config, const char *from, const char *to, ErrClass cls, const char *part)
{
	Buf			text = {0};
	const char *at = strstr(config->data, from);
	Err			e = {0};
	LoraAdapter *a;

	CHECK(at != NULL, "no %s in the configuration", from);
	if (at == NULL)
		return;
	buf_add(&text, config->data, (size_t) (at - config->data));
	buf_addstr(&text, to);
	buf_addstr(&text, at + strlen(from));
	spill("adapter_config.json", text.data, text.len);
	a = lora_files_load(m, dir, 64, "auto", &e);
	CHECK(a == NULL && e.cls == cls && strstr(e.msg, part) != NULL, "%s: class %d, %s", to, e.cls,
		  a != NULL ? "it is loaded" : e.msg);
	lora_free(a);
	buf_free(&text);
}

static void
test_config(const Model *m, const Buf *config)
{
	refused(m, config, "\"LORA\"", "\"IA3\"", ERR_UNSUPPORTED, "is of type \"IA3\"");
	refused(m, config, "\"peft_type\"", "\"x\"", ERR_BAD_FILE, "peft_type");
	refused(m, config, "\"use_dora\": false", "\"use_dora\": true", ERR_UNSUPPORTED, "DoRA");
	refused(m, config, "\"modules_to_save\": null", "\"modules_to_save\": [\"score\"]", ERR_UNSUPPORTED,
			"modules_to_save");
	refused(m, config, "\"bias\": \"none\"", "\"bias\": \"all\"", ERR_UNSUPPORTED, "biases");
	refused(m, config, "\"lora_bias\": false", "\"lora_bias\": true", ERR_UNSUPPORTED, "lora_bias");
	refused(m, config, "\"alora_invocation_tokens\": null", "\"alora_invocation_tokens\": [1]",
			ERR_UNSUPPORTED, "activated");
	refused(m, config, "\"init_lora_weights\": true", "\"init_lora_weights\": \"pissa_niter_16\"",
			ERR_UNSUPPORTED, "pissa_niter_16");
	refused(m, config, "\"init_lora_weights\": true", "\"init_lora_weights\": \"OLoRA\"", ERR_UNSUPPORTED,
			"OLoRA");
	refused(m, config, "\"layer_replication\": null", "\"layer_replication\": [[0, 1]]", ERR_UNSUPPORTED,
			"layer_replication");
	refused(m, config, "\"r\": 8", "\"r\": 9", ERR_BAD_FILE, "rank 8");
	refused(m, config, "\"r\": 8", "\"s\": 8", ERR_BAD_FILE, "\"r\"");
	refused(m, config, "\"r\": 8", "\"r\": -1", ERR_BAD_FILE, "\"r\"");
	refused(m, config, "\"lora_alpha\": 16", "\"lora_alpha\": \"x\"", ERR_BAD_FILE, "lora_alpha");
	refused(m, config, "\"use_rslora\": false", "\"use_rslora\": 1", ERR_BAD_FILE, "use_rslora");
	refused(m, config, "\"target_modules\"", "\"targets\"", ERR_BAD_FILE, "target_modules");
	refused(m, config, "\"alpha_pattern\": {}", "\"alpha_pattern\": {\"q_proj\": \"x\"}", ERR_BAD_FILE,
			"alpha_pattern");
	refused(m, config, "\"alpha_pattern\": {}", "\"alpha_pattern\": {\"k_proj\": 1, \"(q_proj\": 3}",
			ERR_BAD_FILE, "no valid regular expression");
	refused(m, config, "\"alpha_pattern\": {}", "\"alpha_pattern\": {\"(([a-z._0-9]+)*)*[xy]\": 3}",
			ERR_BAD_FILE, "too many steps");
	refused(m, config, "\"target_modules\"", "\"target_parameters\": [\"experts.weight\"], \"x\"",
			ERR_UNSUPPORTED, "target_parameters");
	refused(m, config, "{", "[", ERR_BAD_FILE, "not a JSON object");
	spill("adapter_config.json", config->data, config->len);
}

static LoraAdapter *
load(const Model *m, const char *path, int max_rank, Err *e)
{
	memset(e, 0, sizeof(*e));
	return lora_files_load(m, path, max_rank, "auto", e);
}

static void
test_weights(const Model *m, const Model *other, const Buf *weights)
{
	Err			e;
	LoraAdapter *a;
	LoraInfo	info;
	Buf			text = {0};
	char	   *at;

	/* unchanged */
	a = load(m, dir, 64, &e);
	CHECK(a != NULL && a->info.rank == 8 && a->info.alpha == 16 && !a->info.rslora &&
		  strcmp(a->info.base, "llama_f32") == 0 && strstr(a->info.modules, "q_proj") != NULL, "%s", e.msg);
	lora_free(a);
	CHECK(lora_files_check(dir, &info, &e) && info.rank == 8 && info.bytes > 0, "%s", e.msg);
	CHECK(load(m, dir, 4, &e) == NULL && e.cls == ERR_TOO_LONG, "%s", e.msg);
	CHECK(load(other, dir, 64, &e) == NULL && e.cls == ERR_BAD_FILE && strstr(e.msg, "another model") != NULL,
		  "%s", e.msg);
	CHECK(load(m, "/nowhere/at/all", 64, &e) == NULL && e.cls == ERR_IO, "%s", e.msg);
	CHECK(load(m, LORAS "gpt2_conv1d", 64, &e) == NULL && e.cls == ERR_UNSUPPORTED, "%s", e.msg);
	/* a module that no model has */
	buf_add(&text, weights->data, weights->len);
	while ((at = memmem(text.data, text.len, "o_proj", 6)) != NULL)
		memcpy(at, "x_proj", 6);
	spill("adapter_model.safetensors", text.data, text.len);
	CHECK(load(m, dir, 64, &e) == NULL && e.cls == ERR_UNSUPPORTED && strstr(e.msg, "x_proj") != NULL, "%s",
		  e.msg);
	/* one whose name ends with a dot, so that its last word is empty */
	buf_reset(&text);
	buf_add(&text, weights->data, weights->len);
	while ((at = memmem(text.data, text.len, "v_proj", 6)) != NULL)
		memcpy(at, "v_pro.", 6);
	spill("adapter_model.safetensors", text.data, text.len);
	CHECK(load(m, dir, 64, &e) == NULL && e.cls == ERR_UNSUPPORTED && strstr(e.msg, "v_pro.") != NULL, "%s",
		  e.msg);
	/* the same module under two names */
	buf_reset(&text);
	buf_add(&text, weights->data, weights->len);
	while ((at = memmem(text.data, text.len, "model.layers.1.", 15)) != NULL)
		memcpy(at, "mpnet.layers.0.", 15);
	spill("adapter_model.safetensors", text.data, text.len);
	CHECK(load(m, dir, 64, &e) == NULL && e.cls == ERR_BAD_FILE && strstr(e.msg, "the same one") != NULL,
		  "%s", e.msg);
	/* DoRA that the configuration does not mention */
	buf_reset(&text);
	buf_add(&text, weights->data, weights->len);
	at = memmem(text.data, text.len, "lora_A.weight", 13);
	memcpy(at, "lora_magnitud", 13);
	spill("adapter_model.safetensors", text.data, text.len);
	CHECK(load(m, dir, 64, &e) == NULL && e.cls == ERR_UNSUPPORTED, "%s", e.msg);
	/* numbers that are not finite */
	buf_reset(&text);
	buf_add(&text, weights->data, weights->len);
	memset(text.data + text.len - 4, 0xff, 4);
	spill("adapter_model.safetensors", text.data, text.len);
	CHECK(load(m, dir, 64, &e) == NULL && e.cls == ERR_BAD_FILE && strstr(e.msg, "finite") != NULL, "%s",
		  e.msg);
	buf_free(&text);
}

/* An embedding that is saved with the adapter must equal the model's. */
static void
test_saved(const Model *m)
{
	Buf			config = {0};
	Buf			weights = {0};
	Err			e;
	LoraAdapter *a;
	char	   *at;
	float		x;

	slurp(LORAS "llama_saved/adapter_config.json", &config);
	slurp(LORAS "llama_saved/adapter_model.safetensors", &weights);
	spill("adapter_config.json", config.data, config.len);
	spill("adapter_model.safetensors", weights.data, weights.len);
	a = load(m, dir, 64, &e);
	CHECK(a != NULL && strcmp(a->info.modules, "lm_head,embed_tokens,o_proj") == 0, "%s",
		  a != NULL ? a->info.modules : e.msg);
	lora_free(a);
	/* the first tensor is the head: increase its first number a little */
	at = memmem(weights.data, weights.len, "\"data_offsets\":[0,", 18);
	CHECK(at != NULL && memmem(weights.data, (size_t) (at - weights.data), "lm_head.base_layer.weight",
							   25) != NULL, "the first tensor");
	at = weights.data + 8 + *(uint64_t *) weights.data;
	memcpy(&x, at, sizeof(x));
	x *= 1.05f;
	memcpy(at, &x, sizeof(x));
	spill("adapter_model.safetensors", weights.data, weights.len);
	CHECK(load(m, dir, 64, &e) == NULL && e.cls == ERR_UNSUPPORTED &&
		  strstr(e.msg, "its own weights for module \"lm_head\"") != NULL &&
		  strstr(e.detail, "token 0") != NULL, "%s", e.msg);
	/* of a module that does not exist */
	while ((at = memmem(weights.data, weights.len, "lm_head", 7)) != NULL)
		memcpy(at, "xm_head", 7);
	spill("adapter_model.safetensors", weights.data, weights.len);
	CHECK(load(m, dir, 64, &e) == NULL && e.cls == ERR_UNSUPPORTED && strstr(e.msg, "xm_head") != NULL, "%s",
		  e.msg);
	buf_free(&config);
	buf_free(&weights);
}

/* Weights as a Python pickle. */
static void
test_pickled(const Model *m)
{
	char		from[300];
	char		to[300];
	Err			e;

	snprintf(from, sizeof(from), "%s/adapter_model.safetensors", dir);
	snprintf(to, sizeof(to), "%s/adapter_model.bin", dir);
	CHECK(rename(from, to) == 0, "%s", to);
	CHECK(load(m, dir, 64, &e) == NULL && e.cls == ERR_UNSUPPORTED &&
		  strstr(e.msg, "adapter_model.bin") != NULL && strstr(e.hint, "save_file") != NULL, "%s", e.msg);
	CHECK(rename(to, from) == 0, "%s", from);
}

/* Random damage: an error or an adapter, but no crash. */
static void
test_hostile(const Model *m, const Buf *weights)
{
	unsigned	seed = 5;
	Err			e;

	for (int i = 0; i < 600; i++)
	{
		Buf			text = {0};
		LoraAdapter *a;

		buf_add(&text, weights->data, weights->len);
		if (i % 3 == 0)
			text.len = (size_t) rand_r(&seed) % text.len;
		for (int k = 0; k < 1 + i % 4 && text.len > 0; k++)
			text.data[(size_t) rand_r(&seed) % (i % 2 ? text.len : text.len < 3000 ? text.len : 3000)] =
				(char) rand_r(&seed);
		spill("adapter_model.safetensors", text.data, text.len);
		a = load(m, dir, 64, &e);
		CHECK(a != NULL || (e.cls != ERR_NONE && e.cls != ERR_INTERNAL), "round %d: %s", i, e.msg);
		lora_free(a);
		buf_free(&text);
	}
}

int
main(void)
{
	KPool	   *pool = kpool_new(1);
	Model	   *m = load_model("llama_f32", pool);
	Model	   *other = load_model("llama3_f32", pool);
	Buf			config = {0};
	Buf			weights = {0};
	char		command[300];

	CHECK(mkdtemp(dir) != NULL, "a directory");
	slurp(LORAS "llama_all/adapter_config.json", &config);
	slurp(LORAS "llama_all/adapter_model.safetensors", &weights);
	spill("adapter_model.safetensors", weights.data, weights.len);
	if (m != NULL && other != NULL)
	{
		RUN(test_config(m, &config));
		RUN(test_weights(m, other, &weights));
		RUN(test_hostile(m, &weights));
		RUN(test_saved(m));
		RUN(test_pickled(m));
	}
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	CHECK(system(command) == 0, "%s", command);
	buf_free(&config);
	buf_free(&weights);
	model_free(m);
	model_free(other);
	kpool_free(pool);
	return check_done("test_lora_files");
}
