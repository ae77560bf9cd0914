/*
 * fuzz_torchfile.c
 *	  Tensors as torch.save() writes them, which requests have as prompt_embeds: refused, or numbers as many
 *	  as their shape says.
 */
#include "fuzz.h"

#include "base/err.h"
#include "base/alloc.h"
#include "server/api/vector_encoding.h"
#include "loader/torch_pickle.h"

#define MOST_FILES	64
#define MOST_LINE	65536

/* Those of the golden file, in the order of their lines. */
static const Buf *
golden(size_t *count)
{
	static Buf	files[MOST_FILES];
	static size_t n;
	char	   *line;
	FILE	   *f;

	*count = n;
	if (n > 0)
		return files;
	line = mem_alloc(MOST_LINE);
	f = fopen("tests/golden/torch_tensors.txt", "r");
	while (f != NULL && n < MOST_FILES && fgets(line, MOST_LINE, f) != NULL)
	{
		const char *data = strrchr(line, '\t');

		if (data != NULL && base64_read(&files[n], data + 1, strcspn(data + 1, "\n")) && files[n].len > 0)
			n++;
	}
	if (f != NULL)
		fclose(f);
	mem_free(line);
	if (n == 0)
	{
		fprintf(stderr, "no tensors: run from the repository's root\n");
		exit(2);
	}
	*count = n;
	return files;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* memory of its own, so that every byte that is read behind it is seen */
	char	   *s = mem_alloc(size + (size == 0));
	TorchTensor t;
	Err			e = {0};

	memcpy(s, data, size);
	if (torch_tensor_read(s, size, &t, &e))
	{
		size_t		n = 1;

		for (int i = 0; i < t.n_dims; i++)
			n *= t.dim[i];
		if (n != t.n || n > size)
			abort();
		mem_free(t.data);
	}
	else if (e.msg[0] == '\0' || t.data != NULL)
		abort();
	mem_free(s);
	return 0;
}

size_t
fuzz_count(void)
{
	size_t		n;

	(void) golden(&n);
	return n;
}

void
fuzz_seed(size_t i, Buf *b)
{
	size_t		n;
	const Buf  *file = &golden(&n)[i];

	buf_add(b, file->data, file->len);
}

/* Bytes anywhere, or an instruction or word of a pickle instead of the existing one. */
void
fuzz_change(Buf *b, unsigned *seed)
{
	static const struct
	{
		const char *s;
		size_t		n;
	}			words[] = {
		{"\x80\x02", 2}, {"ctorch._utils\n_rebuild_tensor_v2\n", 33}, {"ctorch\nFloatStorage\n", 20},
		{"ccollections\nOrderedDict\n", 25}, {"cos\nsystem\n", 11},
		{"(", 1}, {")", 1}, {"t", 1}, {"\x85", 1}, {"\x86", 1}, {"\x87", 1}, {"K\x02", 2}, {"M\xff\xff", 3},
		{"J\xff\xff\xff\xff", 5}, {"J\xff\xff\xff\x7f", 5},
		{"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f", 10}, {"\x8a\x00", 2}, {"X\x01\x00\x00\x00" "0", 6},
		{"X\xff\xff\xff\xff", 5}, {"q\x00", 2}, {"q\x3f", 2},
		{"h\x00", 2}, {"r\xff\xff\xff\xff", 5}, {"\x94", 1}, {"N", 1}, {"\x89", 1}, {"Q", 1}, {"R", 1},
		{".", 1}, {"\xff\xff\xff\xff", 4}, {"PK\x05\x06", 4}, {"PK\x01\x02", 4},
	};
	size_t		i = fuzz_below(seed, sizeof(words) / sizeof(words[0]));

	if (rand_r(seed) % 2 == 0 || b->len == 0)
		fuzz_bytes(b, b->len, seed);
	else
		fuzz_replace(b, fuzz_below(seed, b->len), rand_r(seed) % 2 * words[i].n, words[i].s, words[i].n);
}

FUZZ_MAIN("fuzz_torchfile", 100000)
