/*
 * fuzz_ckpt.c
 *	  Quantized checkpoints: configuration and tensors are edits of any fixture of ckpt_golden; a
 *	  checkpoint that loads must make rows without reading beyond its tensors.
 *
 * Modules and their shapes are those of the tensors NAME.reference of the fixtures.
 */
#include "fuzz_dir.h"

#define MAX_ELEMENTS (1 << 18)

static const char *const patterns[] = {"build/fixtures/ckpt/*/model.safetensors", NULL};

/* Bind a module as [n][k] and read all rows, in two pieces. */
static void
use_matrix(ModelSource *ms, const char *module, int64_t n, int64_t k)
{
	const KTensor *t;
	Err			e = {0};
	uint8_t    *rows;
	size_t		bytes;
	int			half;

	if (n < 1 || k < 1 || n > MAX_ELEMENTS / k)
		return;
	if (!ms->quantized(ms->ctx, module, n, k, &t, &e))
	{
		fuzz_failed(&e);
		return;
	}
	half = (int) n / 2;
	/* and the types that it offers */
	for (; t != NULL; t = t->reader->offer)
	{
		if (t->type >= KT_COUNT || (bytes = ktype_row_bytes(t->type, k)) == 0 || t->shape[0] != n ||
			t->shape[1] != k)
			abort();
		rows = mem_alloc((size_t) n * bytes);
		t->reader->rows(t->reader, half, 1, (int) n - half, rows);
		if (half > 0)
			t->reader->rows(t->reader, 0, 2, (half + 1) / 2, rows);
		mem_free(rows);
	}
}

static void
fuzz_file(const char *path, const uint8_t *data, size_t size)
{
	Source		s = {0};
	ModelSource ms = source_of(&s);
	Err			e = {0};
	Files	   *f;

	s.files = f = files_open(fuzz_dir(path, data, size), &e);
	if (f == NULL)
		fuzz_failed(&e);
	for (size_t i = 0; f != NULL && i < files_count(f); i++)
	{
		const KTensor *t = files_tensor(f, i);
		size_t		len = strlen(t->name);
		char		module[256];

		if (t->ndim != 2 || len < 11 || strcmp(t->name + len - 10, ".reference") != 0)
			continue;
		snprintf(module, sizeof(module), "%.*s", (int) len - 10, t->name);
		use_matrix(&ms, module, t->shape[0], t->shape[1]);
		use_matrix(&ms, module, t->shape[1], t->shape[0]);
		use_matrix(&ms, module, t->shape[0] * 2, t->shape[1]);
		use_matrix(&ms, module, t->shape[0], t->shape[1] - 8);
	}
	source_done(&s);
	files_close(f);
}

#include "file_harness.h"

FUZZ_MAIN("fuzz_ckpt", 4000)
