/*
 * fuzz_parts.c
 *	  A GGUF model in three files, each of which is edited or left out; a model that loads is run.
 */
#include "fuzz_model.h"

#define PARTS 3

static const char *const patterns[] = {"build/fixtures/models/*_gguf_split/*.gguf", NULL};
static char dir[] = "/tmp/vllm_fuzz_parts_XXXXXX";
static char paths[PARTS][96];

static void
clean_up(void)
{
	for (int i = 0; i < PARTS; i++)
		unlink(paths[i]);
	rmdir(dir);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const glob_t *g = fuzz_files(patterns);
	unsigned	flags = fuzz_fixture(data, size);
	Err			e = {0};

	if (paths[0][0] == '\0')
	{
		if (g->gl_pathc != PARTS || mkdtemp(dir) == NULL)
			exit(2);
		for (int i = 0; i < PARTS; i++)
			snprintf(paths[i], sizeof(paths[i]), "%s/m-%05d-of-%05d.gguf", dir, i + 1, PARTS);
		atexit(clean_up);
	}
	for (int i = 0; i < PARTS; i++)
	{
		Buf			b = fuzz_read(g->gl_pathv[i]);

		fuzz_edit(&b, i, PARTS, data, size);
		fuzz_write(paths[i], b.data, b.len);
		buf_free(&b);
	}
	if (flags % 16 == 1)
		unlink(paths[1 + flags / 16 % (PARTS - 1)]);
	/* open the directory, or any part of it */
	fuzz_use(files_open(flags & 0x4000 ? dir : paths[flags & 0x2000 ? flags % PARTS : 0], &e), &e, NULL);
	return 0;
}

size_t
fuzz_count(void)
{
	return 2;
}

void
fuzz_seed(size_t i, Buf *b)
{
	fuzz_edit_seed(i << 14, b);
}

void
fuzz_change(Buf *b, unsigned *seed)
{
	fuzz_edit_change(b, seed);
}

FUZZ_MAIN("fuzz_parts", 1500)
