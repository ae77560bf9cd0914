/*
 * fuzz_config.c
 *	  config.json of every architecture, changed key by key, with tensors made to fit: those of the
 *	  fixture, in the shapes that the errors ask for.  A model that passes is run.
 *
 * The input is a fixture's number (two bytes) and the text of a config.json.
 */
#include <sys/mman.h>

#include "fuzz_model.h"
#include "loader/hf_config.h"

#define MAX_TENSORS 2048
#define MAX_NAME 200
#define DATA_BYTES (64u << 20)
#define MAX_FITS 40

static const char *const patterns[] = {"build/fixtures/models/*/config.json",
									   "build/fixtures/ckpt/*/config.json",
	"build/fixtures/pool/*/config.json", NULL};

typedef struct Made
{
	KTensor		t[MAX_TENSORS];
	char		names[MAX_TENSORS][MAX_NAME];
	size_t		n;
	bool		too_big;		/* a tensor is longer than the data */
	const char *data;
} Made;

static Files **fixtures;
static Made made;

static void
set_size(KTensor *t)
{
	uint64_t	n = (uint64_t) quant_get(t->type)->bytes;

	for (int i = 0; i < t->ndim; i++)
		if (__builtin_mul_overflow(n, (uint64_t) t->shape[i], &n) || n > DATA_BYTES)
		{
			made.too_big = true;
			n = DATA_BYTES;
		}
	t->nbytes = n;
}

static KTensor *
add(const char *name, const KTensor *like)
{
	KTensor    *t = &made.t[made.n];

	if (made.n == MAX_TENSORS || strlen(name) >= MAX_NAME || quant_get(like->type)->block != 1)
		return NULL;
	*t = *like;
	t->name = strcpy(made.names[made.n++], name);
	t->data = made.data;
	set_size(t);
	return t;
}

static KTensor *
lookup(const char *name)
{
	for (size_t i = 0; i < made.n; i++)
		if (strcmp(made.t[i].name, name) == 0)
			return &made.t[i];
	return NULL;
}

/* A layer or an expert that the fixture lacks is copied from its first one. */
static const KTensor *
find_made(void *ctx, const char *name)
{
	const KTensor *t = lookup(name);
	Buf			like = {0};

	(void) ctx;
	if (t != NULL)
		return t;
	for (const char *s = name; *s != '\0'; s++)
		if (*s >= '0' && *s <= '9' && s > name && s[-1] == '.')
		{
			buf_addc(&like, '0');
			while (s[1] >= '0' && s[1] <= '9')
				s++;
		}
		else
			buf_addc(&like, *s);
	if (like.len > 0 && (t = lookup(like.data)) != NULL)
		t = add(name, t);
	buf_free(&like);
	return t;
}

static const KTensor *
made_at(void *ctx, size_t i)
{
	(void) ctx;
	return i < made.n ? &made.t[i] : NULL;
}

/* Return the quoted text after `before` in an error's message. */
static bool
quoted(const char *msg, const char *before, char *out)
{
	const char *s = strstr(msg, before);
	size_t		n;

	if (s == NULL)
		return false;
	s += strlen(before);
	n = strcspn(s, "\"");
	if (n >= MAX_NAME)
		return false;
	memcpy(out, s, n);
	out[n] = '\0';
	return true;
}

/* Make what the error asks for; false if it is another error. */
static bool
fit(const Err *e)
{
	char		name[MAX_NAME];
	const char *s = strstr(e->msg, ", expected [");
	KTensor    *t;

	if (!quoted(e->msg, "tensor \"", name))
		return false;
	if ((t = lookup(name)) == NULL)
		return strstr(e->msg, "is missing") != NULL &&
			add(name, &(KTensor) {.type = KT_F32,.ndim = 1,.shape = {1}}) != NULL;
	if (s == NULL)
	{
		/* one tensor too many */
		if (strstr(e->msg, "is missing") != NULL || strstr(e->msg, "shape") != NULL)
			return false;
		made.n--;
		if (t != &made.t[made.n])
		{
			*t = made.t[made.n];
			t->name = strcpy(made.names[t - made.t], made.names[made.n]);
		}
		return true;
	}
	s += strlen(", expected [");
	for (t->ndim = 0; t->ndim < 4 && *s != '\0' && *s != ']'; t->ndim++)
	{
		char	   *end;

		t->shape[t->ndim] = strtoll(s, &end, 10);
		s = end + strspn(end, ", ");
	}
	set_size(t);
	return true;
}

static void
set_up(void)
{
	const glob_t *g = fuzz_files(patterns);
	char	   *data = mmap(NULL, DATA_BYTES, PROT_READ | PROT_WRITE,
							MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	/* enough for every model that is run */
	for (size_t i = 0; i < 16u << 20; i++)
		data[i] = (char) (i % 61);
	mprotect(data, DATA_BYTES, PROT_READ);
	made.data = data;
	fixtures = calloc(g->gl_pathc, sizeof(Files *));
	for (size_t i = 0; i < g->gl_pathc; i++)
	{
		Buf			path = {0};
		Err			e = {0};

		buf_printf(&path, "%.*s", (int) (strrchr(g->gl_pathv[i], '/') - g->gl_pathv[i]), g->gl_pathv[i]);
		if ((fixtures[i] = files_open(path.data, &e)) == NULL)
			abort();
		buf_free(&path);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const glob_t *g = fuzz_files(patterns);
	Conf	   *c = conf_new();
	Err			e = {0};
	ModelSource src = {.find = find_made,.at = made_at};
	const KTensor *t;

	if (fixtures == NULL)
		set_up();
	made.n = 0;
	made.too_big = false;
	for (size_t i = 0; (t = files_tensor(fixtures[fuzz_fixture(data, size) % g->gl_pathc], i)) != NULL; i++)
		(void) add(t->name, t);
	if (size < 2 || !hfconfig_parse(c, "", (const char *) data + 2, size - 2, "config.json", &e))
	{
		if (size >= 2)
			fuzz_failed(&e);
	}
	else
		for (int i = 0; i < MAX_FITS; i++)
		{
			const Kernels *k = kernels_select("ref", NULL);
			ModelInfo	info;

			if (!model_check(c, &src, NULL, k, &info, &e))
			{
				fuzz_failed(&e);
				if (!fit(&e))
					break;
				continue;
			}
			if (!made.too_big)
				fuzz_run(c, &src, NULL, &e);
			break;
		}
	conf_free(c);
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
	Buf			config = fuzz_read(fuzz_files(patterns)->gl_pathv[i]);

	fuzz_edit_seed(i, b);
	buf_add(b, config.data, config.len);
	buf_free(&config);
}

/* Change a value, or insert a key of another model. */
void
fuzz_change(Buf *b, unsigned *seed)
{
	Buf			other = {0};
	size_t		begin;
	size_t		end;
	size_t		key;

	if (b->len < 4 || rand_r(seed) % 3)
	{
		fuzz_json(b, b->len, seed);
		return;
	}
	fuzz_seed(fuzz_below(seed, fuzz_count()), &other);
	if (fuzz_json_value(other.data, other.len, 2 + fuzz_below(seed, other.len - 2), &begin, &end))
	{
		for (key = begin; key > 2 && other.data[key - 1] != '\n' && other.data[key - 1] != '{'; key--)
			;
		buf_addc(&other, ',');
		/* after the first bracket */
		fuzz_replace(b, 3, 0, ",", 1);
		fuzz_replace(b, 3, 0, other.data + key, end - key);
	}
	buf_free(&other);
}

FUZZ_MAIN("fuzz_config", 3000)
