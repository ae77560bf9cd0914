/*
 * fuzz_gguf.c
 *	  GGUF files: edits of any fixture, models and vocabularies; a file that loads is run.
 */
#include <sys/mman.h>

#include "fuzz_model.h"
#include "quant/quantize.h"

static const char *const patterns[] = {"build/fixtures/models/*.gguf", "tests/fixtures/tokenizers/*.gguf",
									   NULL};

static void
fuzz_file(const char *path, const uint8_t *data, size_t size)
{
	static int	fd = -1;
	Buf			b = fuzz_read(path);
	char		edited[64];
	Err			e = {0};

	fuzz_edit(&b, 0, 1, data, size);
	if (fd < 0 && (fd = memfd_create("fuzz.gguf", 0)) < 0)
		return;
	if (ftruncate(fd, 0) != 0 || pwrite(fd, b.data, b.len, 0) != (ssize_t) b.len)
		return;
	snprintf(edited, sizeof(edited), "/proc/self/fd/%d", fd);
	fuzz_use(files_open(edited, &e), &e, fuzz_fixture(data, size) & 0x8000 ? quant_scheme("q8_0") : NULL);
	buf_free(&b);
}

#include "file_harness.h"

FUZZ_MAIN("fuzz_gguf", 3000)
