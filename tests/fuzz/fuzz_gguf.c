/*
 * fuzz_gguf.c
 *	  files_open() and model_check() on arbitrary GGUF files.
 *
 * A program that mutates the test models with a seed:
 *		fuzz_gguf [ROUNDS [SEED]]
 * or a libFuzzer target (clang -fsanitize=fuzzer -DFUZZ_LIBFUZZER).
 */
#include <sys/mman.h>

#include "fuzz_file.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int	fd = -1;
	char		path[64];
	Err			e = {0};
	Files	   *f;

	if (fd < 0 && (fd = memfd_create("fuzz.gguf", 0)) < 0)
		return 0;
	if (ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t) size)
		return 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	f = files_open(path, &e);
	fuzz_use(f, &e);
	return 0;
}

#ifndef FUZZ_LIBFUZZER

int
main(int argc, char **argv)
{
	static const char *const seeds[] = {
		"tests/fixtures/models/qwen2_tied_q8_0_gguf.gguf",
		"tests/fixtures/models/llama_tied_bf16_gguf.gguf",
		"tests/fixtures/models/mixed_gguf.gguf",
		"tests/fixtures/tokenizers/bert.gguf",
		"tests/fixtures/tokenizers/t5.gguf",
	};

	return fuzz_main("fuzz_gguf", argc, argv, seeds, 5, 13000);
}

#endif
