/*
 * fuzz_gguf.c
 *	  GGUF files: edits of any fixture, models and vocabularies; what loads is run.
 */
#include <sys/mman.h>

#include "fuzz_model.h"
#include "quant/quantize.h"

static const char *const patterns[] = {"build/fixtures/models/*.gguf", "tests/fixtures/tokenizers/*.gguf",
									   NULL};

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int	fd = -1;
	const glob_t *g = fuzz_files(patterns);
	Buf			b = fuzz_read(g->gl_pathv[fuzz_fixture(data, size) % g->gl_pathc]);
	char		path[64];
	Err			e = {0};

	fuzz_edit(&b, 0, 1, data, size);
	if (fd < 0 && (fd = memfd_create("fuzz.gguf", 0)) < 0)
		return 0;
	if (ftruncate(fd, 0) != 0 || pwrite(fd, b.data, b.len, 0) != (ssize_t) b.len)
		return 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	fuzz_use(files_open(path, &e), &e, fuzz_fixture(data, size) & 0x8000 ? quant_scheme("q8_0") : NULL);
	buf_free(&b);
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
	return fuzz_main("fuzz_gguf", argc, argv, 3000);
}

#endif
