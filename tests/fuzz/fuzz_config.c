/*
 * fuzz_config.c
 *	  config.json of arbitrary bytes, as far as a model's checks get without
 *	  tensors.
 *
 * A program that mutates the test models with a seed:
 *		fuzz_config [ROUNDS [SEED]]
 * or a libFuzzer target (clang -fsanitize=fuzzer -DFUZZ_LIBFUZZER).
 */
#include "fuzz_file.h"
#include "load/hfconfig.h"

static const KTensor *
find_nothing(void *ctx, const char *name)
{
	(void) ctx;
	(void) name;
	return NULL;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Conf	   *c = conf_new();
	Err			e = {0};
	ModelInfo	info;
	ModelSource src = {.find = find_nothing};

	if (!hfconfig_parse(c, "", (const char *) data, size, "config.json", &e))
	{
		if (e.cls != ERR_BAD_FILE || e.msg[0] == '\0')
			abort();
	}
	else
	{
		conf_lift(c, "text_config.");
		if (model_check(c, &src, NULL, NULL, &info, &e) || e.msg[0] == '\0')
			abort();			/* there are no tensors */
	}
	conf_free(c);
	return 0;
}

#ifndef FUZZ_LIBFUZZER

int
main(int argc, char **argv)
{
	static const char *const seeds[] = {
		"tests/fixtures/models/llama3_f32/config.json",
		"tests/fixtures/models/mistral_f32/config.json",
		"tests/fixtures/models/qwen2_bf16/config.json",
		"tests/fixtures/models/gemma3_vision_bf16/config.json",
		"tests/fixtures/models/gemma2_scalar_bf16/config.json",
		"tests/fixtures/models/phi3_f16/config.json",
		"tests/fixtures/models/rope_yarn_mscale_f16/config.json",
		"tests/fixtures/models/smollm3_window_f16/config.json",
		"tests/fixtures/models/olmo3_f16/config.json",
		"tests/fixtures/models/cohere2_f16/config.json",
		"tests/fixtures/models/exaone4_f16/config.json",
		"tests/fixtures/models/hunyuan_alpha_f16/config.json",
	};

	return fuzz_main("fuzz_config", argc, argv, seeds, (int) (sizeof(seeds) / sizeof(seeds[0])), 100000);
}

#endif
