/*
 * config_map.c
 *	  The flat configuration: an array of entries, searched linearly (a model
 *	  has about a hundred keys, read once at load).
 */
#include "base/config_map.h"

#include <string.h>

#include "base/alloc.h"

typedef enum ConfKind
{
	CONF_NUMS,					/* numbers; count 1 for a scalar */
	CONF_BOOL,
	CONF_STRS,
	CONF_NULL
} ConfKind;

typedef struct ConfEntry
{
	char	   *key;
	ConfKind	kind;
	bool		b;
	double	   *nums;
	char	  **strs;
	size_t		n;				/* elements of nums or strs */
} ConfEntry;

struct Conf
{
	ConfEntry  *e;
	size_t		len;
	size_t		cap;
	const char *misread;		/* first key whose value a getter found to be of another type */
};

static void
entry_clear(ConfEntry *e)
{
	mem_free(e->nums);
	if (e->strs != NULL)
		for (size_t i = 0; i < e->n; i++)
			mem_free(e->strs[i]);
	mem_free(e->strs);
	e->nums = NULL;
	e->strs = NULL;
	e->n = 0;
}

static ConfEntry *
find(const Conf *c, const char *key)
{
	for (size_t i = 0; i < c->len; i++)
		if (strcmp(c->e[i].key, key) == 0)
			return &c->e[i];
	return NULL;
}

static ConfEntry *
put(Conf *c, const char *key, ConfKind kind)
{
	ConfEntry  *e = find(c, key);

	if (e == NULL)
	{
		if (c->len == c->cap)
		{
			c->cap = c->cap ? c->cap * 2 : 64;
			c->e = mem_realloc(c->e, c->cap * sizeof(ConfEntry));
		}
		e = &c->e[c->len++];
		memset(e, 0, sizeof(*e));
		e->key = mem_strdup(key);
	}
	entry_clear(e);
	e->kind = kind;
	return e;
}

void
conf_hash(const Conf *c, Blake2 *b)
{
	for (size_t i = 0; i < c->len; i++)
	{
		const ConfEntry *e = &c->e[i];
		const uint64_t head[] = {(uint64_t) e->kind, e->b, e->n};

		blake2_add(b, e->key, strlen(e->key) + 1);
		blake2_add(b, head, sizeof(head));
		if (e->nums != NULL)
			blake2_add(b, e->nums, e->n * sizeof(double));
		for (size_t k = 0; e->strs != NULL && k < e->n; k++)
			blake2_add(b, e->strs[k], strlen(e->strs[k]) + 1);
	}
}

Conf *
conf_new(void)
{
	return mem_zalloc(sizeof(Conf));
}

void
conf_free(Conf *c)
{
	if (c == NULL)
		return;
	for (size_t i = 0; i < c->len; i++)
	{
		entry_clear(&c->e[i]);
		mem_free(c->e[i].key);
	}
	mem_free(c->e);
	mem_free(c);
}

void
conf_set_nums(Conf *c, const char *key, const double *v, size_t n)
{
	ConfEntry  *e = put(c, key, CONF_NUMS);

	e->nums = mem_alloc(n * sizeof(double));
	if (n > 0)
		memcpy(e->nums, v, n * sizeof(double));
	e->n = n;
}

void
conf_set_num(Conf *c, const char *key, double v)
{
	conf_set_nums(c, key, &v, 1);
}

void
conf_set_int(Conf *c, const char *key, int64_t v)
{
	conf_set_num(c, key, (double) v);
}

void
conf_set_bool(Conf *c, const char *key, bool v)
{
	put(c, key, CONF_BOOL)->b = v;
}

void
conf_set_strs(Conf *c, const char *key, const char *const *v, size_t n)
{
	ConfEntry  *e = put(c, key, CONF_STRS);

	e->strs = mem_alloc(n * sizeof(char *));
	for (size_t i = 0; i < n; i++)
		e->strs[i] = mem_strdup(v[i]);
	e->n = n;
}

void
conf_set_str(Conf *c, const char *key, const char *v)
{
	conf_set_strs(c, key, &v, 1);
}

void
conf_set_null(Conf *c, const char *key)
{
	put(c, key, CONF_NULL);
}

void
conf_lift(Conf *c, const char *prefix)
{
	size_t		len = strlen(prefix);
	size_t		n = c->len;

	for (size_t i = 0; i < n; i++)
	{
		/* a setter below may move c->e */
		const ConfEntry from = c->e[i];
		const char *key = from.key + len;

		if (strncmp(from.key, prefix, len) != 0 || conf_has(c, key))
			continue;
		if (from.kind == CONF_NULL)
			conf_set_null(c, key);
		else if (from.kind == CONF_BOOL)
			conf_set_bool(c, key, from.b);
		else if (from.kind == CONF_NUMS)
			conf_set_nums(c, key, from.nums, from.n);
		else
			conf_set_strs(c, key, (const char *const *) from.strs, from.n);
	}
}

/* Note a misread key.  Reading leaves the configuration constant; only the note changes. */
static void
misread(const Conf *c, const ConfEntry *e)
{
	if (c->misread == NULL && e->kind != CONF_NULL)
		((Conf *) c)->misread = e->key;
}

bool
conf_has(const Conf *c, const char *key)
{
	const ConfEntry *e = find(c, key);

	return e != NULL && e->kind != CONF_NULL;
}

bool
conf_is_null(const Conf *c, const char *key)
{
	const ConfEntry *e = find(c, key);

	return e != NULL && e->kind == CONF_NULL;
}

double
conf_num(const Conf *c, const char *key, double dflt)
{
	const ConfEntry *e = find(c, key);

	if (e == NULL || (e->kind == CONF_NUMS && e->n > 0))
		return e != NULL ? e->nums[0] : dflt;
	misread(c, e);
	return dflt;
}

int64_t
conf_int(const Conf *c, const char *key, int64_t dflt)
{
	double		v = conf_num(c, key, (double) dflt);

	/* out-of-range doubles may not be cast */
	if (!(v >= -9.0e18 && v <= 9.0e18))
		return dflt;
	return (int64_t) v;
}

bool
conf_bool(const Conf *c, const char *key, bool dflt)
{
	const ConfEntry *e = find(c, key);

	if (e != NULL && e->kind == CONF_NULL)
		return false;
	if (e == NULL || e->kind == CONF_BOOL)
		return e != NULL ? e->b : dflt;
	/* some writers use 0 and 1 */
	if (e->kind == CONF_NUMS && e->n == 1 && (e->nums[0] == 0 || e->nums[0] == 1))
		return e->nums[0] != 0;
	misread(c, e);
	return dflt;
}

const char *
conf_str(const Conf *c, const char *key, const char *dflt)
{
	const ConfEntry *e = find(c, key);

	return e != NULL && e->kind == CONF_STRS && e->n > 0 ? e->strs[0] : dflt;
}

const double *
conf_nums(const Conf *c, const char *key, size_t *n)
{
	const ConfEntry *e = find(c, key);

	*n = e != NULL && e->kind == CONF_NUMS ? e->n : 0;
	return *n > 0 ? e->nums : NULL;
}

const char *const *
conf_strs(const Conf *c, const char *key, size_t *n)
{
	const ConfEntry *e = find(c, key);

	*n = e != NULL && e->kind == CONF_STRS ? e->n : 0;
	return *n > 0 ? (const char *const *) e->strs : NULL;
}

const char *
conf_misread(const Conf *c)
{
	return c->misread;
}
