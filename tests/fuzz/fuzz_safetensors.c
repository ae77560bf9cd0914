/*
 * fuzz_safetensors.c
 *	  A model's directory: config.json with its quantization_config, the tensors' header and data and the
 *	  tokenizer's configuration are edits of any fixture; a model that loads is run.
 */
#include "fuzz_dir.h"
#include "quant/quantize.h"

static const char *const patterns[] = {"build/fixtures/models/*/model.safetensors",
									   "build/fixtures/pool/*/model.safetensors", NULL};

static void
fuzz_file(const char *path, const uint8_t *data, size_t size)
{
	Err			e = {0};

	fuzz_use(files_open(fuzz_dir(path, data, size), &e), &e, fuzz_fixture(data, size) & 0x8000
			 ? quant_scheme("q8_0") : NULL);
}

#include "file_harness.h"

FUZZ_MAIN("fuzz_safetensors", 1500)
