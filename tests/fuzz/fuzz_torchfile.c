/*
 * fuzz_torchfile.c
 *	  Tensors as torch.save() writes them, which requests pass as prompt_embeds: refused, or as many
 *	  numbers as their shape says.  The same bytes are read as weights of a model: refused, or values
 *	  within the file.
 */
#include "fuzz.h"

#include "base/err.h"
#include "base/alloc.h"
#include "server/api/vector_encoding.h"
#include "loader/pickle.h"
#include "loader/torch_pickle.h"
#include "loader/torch_zip.h"

#define MOST_FILES	128
#define MOST_LINE	65536

static Buf	files[MOST_FILES];
static size_t n_files;

static void
add_golden(const char *path)
{
	char	   *line = mem_alloc(MOST_LINE);
	FILE	   *f = fopen(path, "r");

	while (f != NULL && n_files < MOST_FILES && fgets(line, MOST_LINE, f) != NULL)
	{
		const char *data = strrchr(line, '\t');

		if (data != NULL && base64_read(&files[n_files], data + 1, strcspn(data + 1, "\n")) &&
			files[n_files].len > 0)
			n_files++;
	}
	if (f != NULL)
		fclose(f);
	mem_free(line);
}

/* The tensors of the golden files, in the order of their lines. */
static const Buf *
golden(size_t *count)
{
	if (n_files == 0)
	{
		add_golden("tests/golden/torch_tensors.txt");
		add_golden("tests/golden/torch_weights.txt");
	}
	if (n_files == 0)
	{
		fprintf(stderr, "no tensors: run from the repository's root\n");
		exit(2);
	}
	*count = n_files;
	return files;
}

/* Read all of a dictionary and its valid members. */
static void
look_at(const Pickle *k, const PickleValue *v, int deep)
{
	const PickleNode *n;

	if (v->kind == PICKLE_TENSOR && pickle_tensor(k, v)->n_dims > PICKLE_MAX_DIMS)
		abort();
	if (deep == 0 || (v->kind != PICKLE_DICT && !(v->kind == PICKLE_OBJECT && v->i >= 0)))
		return;
	(void) pickle_member(k, v, "scale");
	n = pickle_node(k, pickle_box(k, v)->first);
	for (int i = 0; n != NULL && i < 64; i++, n = pickle_node(k, n->next))
		look_at(k, &n->v, deep - 1);
}

static void
as_weights(const char *s, size_t size)
{
	TorchZip	zip;
	StrView		pkl;
	Err			e = {0};
	Pickle	   *k;

	if (torchzip_open((StrView) {s, size}, &zip, &e) &&
		torchzip_find(&zip, "/data.pkl", (StrView) {"", 0}, &pkl, &e) &&
		(k = pickle_read(pkl, true, &e)) != NULL)
	{
		look_at(k, pickle_top(k), 4);
		pickle_free(k);
	}
	else if (e.msg[0] == '\0')
		abort();
	torchzip_close(&zip);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* a buffer of exactly the size, so that every read beyond it is detected */
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
	as_weights(s, size);
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

/* Change random bytes, or replace an instruction or word of a pickle. */
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
		{"}", 1}, {"]", 1}, {"u", 1}, {"e", 1}, {"s", 1}, {"a", 1}, {"b", 1}, {"\x81", 1}, {"G", 1},
		{"ctorch._tensor\n_rebuild_from_type_v2\n", 37}, {"ctorchao.quantization\nInt8Tensor\n", 33},
		{"ctorch._utils\n_rebuild_wrapper_subclass\n", 40}, {"ctorch._utils\n_rebuild_tensor_v3\n", 33},
		{".", 1}, {"\xff\xff\xff\xff", 4}, {"PK\x05\x06", 4}, {"PK\x01\x02", 4},
	};
	size_t		i = fuzz_below(seed, sizeof(words) / sizeof(words[0]));

	if (rand_r(seed) % 2 == 0 || b->len == 0)
		fuzz_bytes(b, b->len, seed);
	else
		fuzz_replace(b, fuzz_below(seed, b->len), rand_r(seed) % 2 * words[i].n, words[i].s, words[i].n);
}

FUZZ_MAIN("fuzz_torchfile", 100000)
