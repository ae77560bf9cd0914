/*
 * fuzz_safetensors.c
 *	  A model's directory: config.json with its quantization_config, the tensors' header and
 *	  data and the tokenizer's configuration are edits of any fixture; what loads is run.
 */
#include "fuzz_dir.h"
#include "quant/quantize.h"

static const char *const patterns[] = {"build/fixtures/models/*/model.safetensors",
									   "build/fixtures/pool/*/model.safetensors", NULL};

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const glob_t *g = fuzz_files(patterns);
	const char *path = g->gl_pathv[fuzz_fixture(data, size) % g->gl_pathc];
	Err			e = {0};

	fuzz_use(files_open(fuzz_dir(path, data, size), &e), &e, fuzz_fixture(data, size) & 0x8000
			 ? quant_scheme("q8_0") : NULL);
	return 0;
}

size_t
fuzz_count(void)
{
	return fuzz_files(patterns)->gl_pathc;
}

void
fuzz_seed(size_t i, Buf *b)
{
	fuzz_edit_seed(i, b);
}

void
fuzz_change(Buf *b, unsigned *seed)
{
	fuzz_edit_change(b, seed);
}

#ifndef FUZZ_LIBFUZZER

int
main(int argc, char **argv)
{
	return fuzz_main("fuzz_safetensors", argc, argv, 1500);
}

#endif
