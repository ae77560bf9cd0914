/*
 * fuzz_ckpt.c
 *	  Quantized checkpoints with an arbitrary configuration and arbitrary tensors: what
 *	  loads must make rows without reading beyond its tensors.
 *
 * An input is config.json, a byte 0, and model.safetensors.  Modules and their shapes
 * are those of the tensors NAME.reference that the fixtures have.
 *
 * A program that mutates the fixtures of ckpt_golden with a seed:
 *		fuzz_ckpt [ROUNDS [SEED]]
 * or a libFuzzer target (clang -fsanitize=fuzzer -DFUZZ_LIBFUZZER).
 */
#include <dirent.h>

#include "base/mem.h"
#include "engine/source.h"
#include "fuzz_file.h"

#define MAX_ELEMENTS (1 << 18)

static char dir[] = "/tmp/vllm_fuzz_ckpt_XXXXXX";
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
	if (mkdtemp(dir) == NULL)
		exit(2);
	snprintf(config, sizeof(config), "%s/config.json", dir);
	snprintf(weights, sizeof(weights), "%s/model.safetensors", dir);
	atexit(clean_up);
}

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
		if (e.cls == ERR_NONE || e.msg[0] == '\0')
			abort();
		return;
	}
	if (t == NULL)
		return;
	if (t->type >= KT_COUNT || (bytes = ktype_row_bytes(t->type, k)) == 0 || t->shape[0] != n || t->shape[1] != k)
		abort();
	half = (int) n / 2;
	rows = mem_alloc((size_t) n * bytes);
	t->reader->rows(t->reader, half, (int) n - half, rows);
	if (half > 0)
		t->reader->rows(t->reader, 0, half, rows);
	mem_free(rows);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = size > 0 ? memchr(data, 0, size) : NULL;
	size_t		text = end != NULL ? (size_t) (end - data) : size;
	Source		s = {0};
	ModelSource ms = source_of(&s);
	Err			e = {0};
	Files	   *f;

	if (weights[0] == '\0')
		set_up();
	fuzz_write(config, data, text);
	fuzz_write(weights, end != NULL ? end + 1 : data, end != NULL ? size - text - 1 : 0);
	s.files = f = files_open(dir, &e);
	if (f == NULL && (e.cls == ERR_NONE || e.msg[0] == '\0'))
		abort();
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
	return 0;
}

#ifndef FUZZ_LIBFUZZER

static Buf
read_fixture(const char *name)
{
	char		path[400];
	Buf			all;
	Buf			rest;

	snprintf(path, sizeof(path), "tests/fixtures/ckpt/%s/config.json", name);
	all = fuzz_read(path);
	buf_addc(&all, '\0');
	snprintf(path, sizeof(path), "tests/fixtures/ckpt/%s/model.safetensors", name);
	rest = fuzz_read(path);
	buf_add(&all, rest.data, rest.len);
	buf_free(&rest);
	return all;
}

static int
is_fixture(const struct dirent *d)
{
	return d->d_name[0] != '.';
}

int
main(int argc, char **argv)
{
	int			rounds = argc > 1 ? atoi(argv[1]) : 4000;
	unsigned	seed = argc > 2 ? (unsigned) strtoul(argv[2], NULL, 10) : 1;
	struct dirent **dirs;
	int			n = scandir("tests/fixtures/ckpt", &dirs, is_fixture, alphasort);
	int			done = 0;

	for (int s = 0; s < n; s++)
	{
		Buf			original = read_fixture(dirs[s]->d_name);

		LLVMFuzzerTestOneInput((const uint8_t *) original.data, original.len);
		done++;
		for (int i = 0; i < rounds / n; i++, done++)
		{
			Buf			b = {0};
			uint8_t    *exact;

			buf_add(&b, original.data, original.len);
			/* the configuration and most of the header, or only the first of them */
			fuzz_mutate(&b, i % 3 == 0 ? strlen(original.data) + 1200 : strlen(original.data), &seed);
			exact = malloc(b.len ? b.len : 1);
			memcpy(exact, b.data, b.len);
			LLVMFuzzerTestOneInput(exact, b.len);
			free(exact);
			buf_free(&b);
		}
		buf_free(&original);
		free(dirs[s]);
	}
	if (n > 0)
		free(dirs);
	printf("fuzz_ckpt: %d passed, %d failed, 0 skipped\n", done, n < 1);
	return n < 1;
}

#endif
