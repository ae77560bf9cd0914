/*
 * gguf.c
 *	  The GGUF container, versions 2 and 3.
 *
 *	  OFFSET	SIZE	CONTENTS (little-endian)
 *	  0			4		"GGUF"
 *	  4			4		version
 *	  8			8		number of tensors
 *	  16		8		number of metadata keys
 *	  24				keys: string name, u32 type, value
 *						tensors: string name, u32 ndim, u64 ne[ndim] (innermost
 *						first), u32 type, u64 offset
 *						padding to general.alignment (default 32)
 *						the tensors' data, each at a multiple of the alignment
 *
 * A string is u64 length and bytes; an array u32 element type, u64 count and
 * elements, which may be arrays again.  Counts are compared with the bytes that
 * are left before anything is allocated for them.
 *
 * Tested by tests/unit/loader/test_gguf.c and tests/fuzz/fuzz_gguf.c.
 */
#include "loader/gguf.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

#define MAX_DEPTH 4				/* arrays in arrays */
#define MAX_KEYS 65536
#define MAX_KEY_LEN 65535
#define MAX_TENSORS 1000000
#define MIN_KEY 13				/* bytes of the shortest key: name, type, a byte */
#define MIN_TENSOR 32			/* bytes of the shortest tensor entry */

/* The bytes that are left to read. */
typedef struct Cursor
{
	const uint8_t *p;
	const uint8_t *end;
} Cursor;

/* bytes of a scalar, 0 for strings and arrays */
static const uint8_t type_size[GGUF_N_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

static size_t
left(const Cursor *c)
{
	ALWAYS(c->p <= c->end);
	return (size_t) (c->end - c->p);
}

static bool
get_u32(Cursor *c, uint32_t *out)
{
	if (left(c) < 4)
		return false;
	memcpy(out, c->p, 4);
	c->p += 4;
	return true;
}

static bool
get_u64(Cursor *c, uint64_t *out)
{
	if (left(c) < 8)
		return false;
	memcpy(out, c->p, 8);
	c->p += 8;
	return true;
}

static bool
get_str(Cursor *c, const char **s, size_t *len)
{
	uint64_t	n;

	if (!get_u64(c, &n) || n > left(c))
		return false;
	*s = (const char *) c->p;
	*len = (size_t) n;
	c->p += n;
	return true;
}

/* Skip n values of a type. */
static bool
skip_values(Cursor *c, uint32_t type, uint64_t n, int depth)
{
	if (type >= GGUF_N_TYPES)
		return false;
	if (type_size[type] > 0)
	{
		if (n > left(c) / type_size[type])
			return false;
		c->p += n * type_size[type];
		return true;
	}
	/* each string or array takes at least 8 bytes, so the loop ends with the file */
	for (uint64_t i = 0; i < n; i++)
	{
		const char *s;
		size_t		len;
		uint32_t	elem;
		uint64_t	count;

		if (type == GGUF_STRING)
		{
			if (!get_str(c, &s, &len))
				return false;
		}
		else if (depth == MAX_DEPTH || !get_u32(c, &elem) || !get_u64(c, &count) ||
				 !skip_values(c, elem, count, depth + 1))
			return false;
	}
	return true;
}

static bool
get_key(Cursor *c, GgufKey *k)
{
	uint32_t	type;
	uint32_t	elem;

	if (!get_str(c, &k->key, &k->key_len) || k->key_len > MAX_KEY_LEN ||
		!get_u32(c, &type) || type >= GGUF_N_TYPES)
		return false;
	k->type = (GgufType) type;
	k->n = 1;
	if (type == GGUF_STRING)
	{
		const char *s;
		size_t		len;

		if (!get_str(c, &s, &len))
			return false;
		k->data = (const uint8_t *) s;
		k->n = len;
		return true;
	}
	if (type == GGUF_ARRAY)
	{
		if (!get_u32(c, &elem) || !get_u64(c, &k->n) || elem >= GGUF_N_TYPES)
			return false;
		k->elem = (GgufType) elem;
		k->data = c->p;
		return skip_values(c, elem, k->n, 1);
	}
	k->data = c->p;
	return skip_values(c, type, 1, 0);
}

static bool
get_tensor(Cursor *c, GgufTensor *t)
{
	uint32_t	ndim;
	int64_t		product = 1;

	if (!get_str(c, &t->name, &t->name_len) || !get_u32(c, &ndim) || ndim < 1 || ndim > 4)
		return false;
	t->ndim = (int) ndim;
	for (uint32_t i = 0; i < ndim; i++)
	{
		uint64_t	ne;

		if (!get_u64(c, &ne) || ne == 0 || ne > INT64_MAX ||
			__builtin_mul_overflow(product, (int64_t) ne, &product))
			return false;
		t->ne[i] = (int64_t) ne;
	}
	return get_u32(c, &t->type) && get_u64(c, &t->offset);
}

/* Check magic and version. */
static bool
check_magic(Cursor *c, const char *path, Gguf *g, Err *e)
{
	if (left(c) < 8 || memcmp(c->p, "GGUF", 4) != 0)
	{
		err_set(e, ERR_BAD_FILE, "file \"%s\" is not a GGUF file", path);
		return err_hint(e, "A model is a directory with config.json, tokenizer.json and "
						"*.safetensors files, or a GGUF file.");
	}
	c->p += 4;
	get_u32(c, &g->version);
	if (g->version == 2 || g->version == 3)
		return true;
	if ((g->version & 0xffff) == 0)
		return err_set(e, ERR_UNSUPPORTED, "file \"%s\" is a big-endian GGUF file, which is not supported",
					   path);
	return err_set(e, ERR_UNSUPPORTED, "file \"%s\" is of GGUF version %u, supported are 2 and 3",
				   path, g->version);
}

static int
key_cmp(const void *a, const void *b)
{
	const GgufKey *x = a;
	const GgufKey *y = b;
	size_t		n = x->key_len < y->key_len ? x->key_len : y->key_len;
	int			c = n > 0 ? memcmp(x->key, y->key, n) : 0;

	return c != 0 ? c : (x->key_len > y->key_len) - (x->key_len < y->key_len);
}

static bool
get_alignment(Gguf *g, const char *path, Err *e)
{
	const GgufKey *k = gguf_find(g, "general.alignment");
	double		v = 32;

	if (k != NULL && (k->type != GGUF_U32 || !gguf_num(k, 0, &v) || v < 1 || v > 65536 ||
					  ((uint64_t) v & ((uint64_t) v - 1)) != 0))
		return err_set(e, ERR_BAD_FILE, "file \"%s\" has an invalid \"general.alignment\"", path);
	g->alignment = (uint64_t) v;
	return true;
}

bool
gguf_parse(const uint8_t *base, size_t len, const char *path, Gguf *g, Err *e)
{
	Cursor		c = {base, base + len};
	uint64_t	n_tensors;
	uint64_t	n_keys;

	memset(g, 0, sizeof(*g));
	if (!check_magic(&c, path, g, e))
		return false;
	if (!get_u64(&c, &n_tensors) || !get_u64(&c, &n_keys) ||
		n_keys > MAX_KEYS || n_keys > left(&c) / MIN_KEY ||
		n_tensors > MAX_TENSORS || n_tensors > left(&c) / MIN_TENSOR)
		return err_set(e, ERR_BAD_FILE, "file \"%s\" is truncated or has an invalid header", path);
	g->keys = mem_zalloc((size_t) n_keys * sizeof(GgufKey));
	for (; g->n_keys < n_keys; g->n_keys++)
	{
		GgufKey    *k = &g->keys[g->n_keys];

		if (!get_key(&c, k))
			return err_set(e, ERR_BAD_FILE, "file \"%s\" is truncated or invalid in metadata key %zu of %zu",
						   path, g->n_keys + 1, (size_t) n_keys);
		k->end = c.p;
	}
	if (n_keys > 0)
		qsort(g->keys, g->n_keys, sizeof(GgufKey), key_cmp);
	for (size_t i = 1; i < g->n_keys; i++)
		if (key_cmp(&g->keys[i - 1], &g->keys[i]) == 0)
			return err_set(e, ERR_BAD_FILE, "file \"%s\" has a metadata key twice", path);
	g->tensors = mem_zalloc((size_t) n_tensors * sizeof(GgufTensor));
	for (; g->n_tensors < n_tensors; g->n_tensors++)
		if (!get_tensor(&c, &g->tensors[g->n_tensors]))
			return err_set(e, ERR_BAD_FILE, "file \"%s\" is truncated or invalid in tensor %zu of %zu",
						   path, g->n_tensors + 1, (size_t) n_tensors);
	if (!get_alignment(g, path, e))
		return false;
	g->data = ((uint64_t) (c.p - base) + g->alignment - 1) & ~(g->alignment - 1);
	if (g->data > len)
		g->data = len;			/* either the file has no tensors, or the check of their range fails */
	return true;
}

void
gguf_free(Gguf *g)
{
	mem_free(g->keys);
	mem_free(g->tensors);
	memset(g, 0, sizeof(*g));
}

const GgufKey *
gguf_find(const Gguf *g, const char *key)
{
	GgufKey		want = {.key = key, .key_len = strlen(key)};

	if (g->n_keys == 0)
		return NULL;
	return bsearch(&want, g->keys, g->n_keys, sizeof(GgufKey), key_cmp);
}

/* Convert a little-endian integer of 1, 2, 4 or 8 bytes to double. */
static double
int_value(const uint8_t *p, int size, bool is_signed)
{
	uint64_t	u = 0;

	memcpy(&u, p, (size_t) size);
	if (is_signed && size < 8 && (u >> (size * 8 - 1)) != 0)
		u |= UINT64_MAX << (size * 8);
	return is_signed ? (double) (int64_t) u : (double) u;
}

bool
gguf_num(const GgufKey *k, uint64_t i, double *out)
{
	GgufType	type = k->type == GGUF_ARRAY ? k->elem : k->type;
	int			size = type_size[type];
	const uint8_t *p;
	float		f;

	if (size == 0 || i >= k->n)
		return false;			/* a string, or i is out of range */
	/* get_key() has seen that all of its values are in the file */
	ASSERT(k->end == NULL || (uint64_t) (k->end - k->data) / (uint64_t) size >= k->n);
	p = k->data + i * (uint64_t) size;
	switch (type)
	{
		case GGUF_F32:
			memcpy(&f, p, sizeof(f));
			*out = f;
			return true;
		case GGUF_F64:
			memcpy(out, p, sizeof(*out));
			return true;
		case GGUF_I8:
		case GGUF_I16:
		case GGUF_I32:
		case GGUF_I64:
			*out = int_value(p, size, true);
			return true;
		case GGUF_BOOL:
			*out = *p != 0;
			return true;
		default:
			*out = int_value(p, size, false);
			return true;
	}
}

bool
gguf_next_str(const GgufKey *k, const uint8_t **at, const char **s, size_t *len)
{
	Cursor		c = {*at != NULL ? *at : k->data, k->end};

	if (k->type != GGUF_ARRAY || k->elem != GGUF_STRING || !get_str(&c, s, len))
		return false;
	*at = c.p;
	return true;
}
