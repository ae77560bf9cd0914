/*
 * fuzz_safetensors.c
 *	  files_open() and model_check() on a directory whose model.safetensors is
 *	  arbitrary.
 *
 * A program that mutates the test models with a seed:
 *		fuzz_safetensors [ROUNDS [SEED]]
 * or a libFuzzer target (clang -fsanitize=fuzzer -DFUZZ_LIBFUZZER).
 */
#include "fuzz_file.h"

static char dir[] = "/tmp/vllm_fuzz_st_XXXXXX";
static char config[64];
static char weights[64];

static void
clean_up(void)
{
	unlink(config);
	unlink(weights);
	rmdir(dir);
}

static void
set_up(void)
{
	/* of tests/fixtures/models/qwen2_f32, so that an intact file passes all checks */
	static const char json[] = "{\"architectures\":[\"Qwen2ForCausalLM\"],\"hidden_size\":48,"
		"\"intermediate_size\":80,\"num_hidden_layers\":2,\"num_attention_heads\":3,"
		"\"num_key_value_heads\":1,\"vocab_size\":288,\"max_position_embeddings\":256,"
		"\"tie_word_embeddings\":true}";

	if (mkdtemp(dir) == NULL)
		exit(2);
	snprintf(config, sizeof(config), "%s/config.json", dir);
	snprintf(weights, sizeof(weights), "%s/model.safetensors", dir);
	fuzz_write(config, json, strlen(json));
	atexit(clean_up);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Err			e = {0};
	Files	   *f;

	if (weights[0] == '\0')
		set_up();
	fuzz_write(weights, data, size);
	f = files_open(dir, &e);
	fuzz_use(f, &e);
	return 0;
}

#ifndef FUZZ_LIBFUZZER

int
main(int argc, char **argv)
{
	static const char *const seeds[] = {
		"tests/fixtures/models/qwen2_f32/model-00001-of-00002.safetensors",
		"tests/fixtures/models/llama_f32/model.safetensors",
	};

	return fuzz_main("fuzz_safetensors", argc, argv, seeds, 2, 2500);
}

#endif
