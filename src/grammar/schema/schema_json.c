/*
 * schema_json.c
 *	  Read JSON into a tree (schema_json.h).
 *
 * Tested by tests/unit/grammar/schema/test_json_schema.c.
 */
#include "grammar/schema/schema_json.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/buf.h"
#include "base/alloc.h"
#include "base/json/json_reader.h"
#include "grammar/schema/decimal.h"

#define MAX_TEXT	(4 << 20)	/* bytes of a schema */
#define MAX_DEPTH	200			/* nesting */
#define FEW			16			/* members that are compared pairwise */

/* ---- memory ---- */

#define PIECE 65536

typedef struct SchemaJsonPiece SchemaJsonPiece;
struct SchemaJsonPiece
{
	SchemaJsonPiece *next;
	size_t		used;
	size_t		size;
	_Alignas(16) char data[];
};

struct Arena
{
	SchemaJsonPiece *first;
	size_t		total;
};

Arena *
arena_new(void)
{
	return mem_zalloc(sizeof(Arena));
}

void
arena_free(Arena *a)
{
	if (a == NULL)
		return;
	for (SchemaJsonPiece *p = a->first, *next; p != NULL; p = next)
	{
		next = p->next;
		mem_free(p);
	}
	mem_free(a);
}

void *
arena_alloc(Arena *a, size_t n)
{
	SchemaJsonPiece *p = a->first;
	void	   *to;

	n = (n + 15) & ~(size_t) 15;
	if (p == NULL || p->size - p->used < n)
	{
		size_t		size = n > PIECE / 4 ? n : PIECE;

		p = mem_alloc(sizeof(SchemaJsonPiece) + size);
		p->used = 0;
		p->size = size;
		a->total += size;
		if (a->first != NULL && size != PIECE)
		{
			/* a large allocation gets its own piece; the current piece stays in use */
			p->next = a->first->next;
			a->first->next = p;
		}
		else
		{
			p->next = a->first;
			a->first = p;
		}
	}
	ALWAYS(n <= p->size - p->used);
	to = p->data + p->used;
	p->used += n;
	return memset(to, 0, n);
}

char *
arena_strndup(Arena *a, const char *s, size_t n)
{
	char	   *to = arena_alloc(a, n + 1);

	if (n > 0)
		memcpy(to, s, n);
	return to;
}

/* ---- reading ---- */

typedef struct SchemaJsonReader
{
	JsonReader	r;
	Arena	   *a;
	const char *start;
	Err		   *e;
} SchemaJsonReader;

static Jv  *read_value(SchemaJsonReader *r, JsonToken token);

static bool
bad(SchemaJsonReader *r, const char *what)
{
	if (r->r.too_deep)
		return err_set(r->e, ERR_TOO_LONG, "the schema nests deeper than %d values", MAX_DEPTH);
	return err_set(r->e, ERR_INVALID, "the schema is not valid JSON: %s at byte %zu", what,
				   (size_t) (r->r.p - r->start));
}

static uint64_t
mix(uint64_t h, uint64_t x)
{
	h ^= x;
	h *= 0x9e3779b97f4a7c15u;
	return h ^ h >> 29;
}

static uint64_t
hash_bytes(const char *s, size_t n, uint64_t h)
{
	for (size_t i = 0; i < n; i++)
		h = (h ^ (uint8_t) s[i]) * 0x100000001b3u;
	return mix(h, n);
}

/* Decode the string or key just read, with a NUL after it. */
static bool
read_text(SchemaJsonReader *r, const char **s, size_t *len)
{
	char	   *to = arena_alloc(r->a, r->r.n + 1);

	/* the reader has checked the escapes: only half a surrogate pair can fail */
	if (!json_unescape(r->r.s, r->r.n, JSON_NUL_OK, to, len))
		return bad(r, "half a surrogate pair");
	ALWAYS(*len <= r->r.n);
	to[*len] = '\0';
	*s = to;
	return true;
}

static int
by_key(const void *a, const void *b)
{
	const Jv   *x = *(Jv *const *) a,
			   *y = *(Jv *const *) b;
	size_t		n = x->key_len < y->key_len ? x->key_len : y->key_len;
	int			c = memcmp(x->key, y->key, n);

	return c != 0 ? c : x->key_len < y->key_len ? -1 : x->key_len > y->key_len ? 1 :
		x < y ? -1 : x > y;
}

static bool
same_key(const Jv *a, const Jv *b)
{
	return a->key_len == b->key_len && memcmp(a->key, b->key, a->key_len) == 0;
}

/* Drop members that a later one of the same name replaces; all[] is in the order of the text. */
static uint32_t
drop_replaced(Jv **all, uint32_t n)
{
	bool		found = false;
	uint32_t	kept = 0;
	bool	   *dropped = mem_zalloc(n + 1);

	if (n <= FEW)
	{
		for (uint32_t i = 0; i < n; i++)
			for (uint32_t j = i + 1; j < n && !dropped[i]; j++)
				found |= dropped[i] = same_key(all[i], all[j]);
	}
	else
	{
		/* n stores the position in the text during the sort */
		Jv		  **sorted = mem_alloc(n * sizeof(Jv *));
		uint32_t   *place = mem_alloc(n * sizeof(uint32_t));

		memcpy(sorted, all, n * sizeof(Jv *));
		for (uint32_t i = 0; i < n; i++)
		{
			place[i] = all[i]->n;
			all[i]->n = i;
		}
		qsort(sorted, n, sizeof(Jv *), by_key);
		for (uint32_t i = 0; i + 1 < n; i++)
			if (same_key(sorted[i], sorted[i + 1]))
			{
				uint32_t	a = sorted[i]->n,
							b = sorted[i + 1]->n;

				/* of equal names the last one stays: compare it with the next */
				dropped[a < b ? a : b] = true;
				if (a > b)
				{
					Jv		   *t = sorted[i];

					sorted[i] = sorted[i + 1];
					sorted[i + 1] = t;
				}
				found = true;
			}
		for (uint32_t i = 0; i < n; i++)
			all[i]->n = place[i];
		mem_free(place);
		mem_free(sorted);
	}
	for (uint32_t i = 0; i < n; i++)
		if (!dropped[i])
			all[kept++] = all[i];
	mem_free(dropped);
	return found ? kept : n;
}

typedef struct Items
{
	Jv		  **v;
	uint32_t	n,
				cap;
} Items;

static void
push(Items *to, Jv *v)
{
	if (to->n == to->cap)
	{
		to->cap = to->cap == 0 ? 8 : to->cap * 2;
		to->v = mem_realloc(to->v, to->cap * sizeof(Jv *));
	}
	to->v[to->n++] = v;
}

/* Read up to the container's end. */
static bool
read_items(SchemaJsonReader *r, Items *to)
{
	JsonToken	token;

	while ((token = json_next(&r->r)) != JSON_CLOSE)
	{
		const char *key = NULL;
		size_t		key_len = 0;
		Jv		   *v;

		if (token == JSON_KEY)
		{
			if (!read_text(r, &key, &key_len))
				return false;
			token = json_next(&r->r);
		}
		v = read_value(r, token);
		if (v == NULL)
			return false;
		v->key = key;
		v->key_len = key_len;
		push(to, v);
	}
	return true;
}

static bool
read_container(SchemaJsonReader *r, bool object, Jv *v)
{
	Items		all = {0};
	uint64_t	h = 0;

	if (!read_items(r, &all))
	{
		mem_free(all.v);
		return false;
	}
	v->type = object ? JV_OBJ : JV_ARR;
	if (object)
		all.n = drop_replaced(all.v, all.n);
	v->n = all.n;
	for (uint32_t i = 0; i < all.n; i++)
	{
		all.v[i]->next = i + 1 < all.n ? all.v[i + 1] : NULL;
		if (object)
			h += hash_bytes(all.v[i]->key, all.v[i]->key_len, all.v[i]->hash);
		else
			h = mix(h, all.v[i]->hash);
	}
	v->child = all.n > 0 ? all.v[0] : NULL;
	v->hash = mix(h, v->type);
	mem_free(all.v);
	return true;
}

/* Read the value whose first token has been read; NULL with an error. */
static Jv *
read_value(SchemaJsonReader *r, JsonToken token)
{
	Jv		   *v = arena_alloc(r->a, sizeof(Jv));
	const char *start = r->r.s;
	bool		ok = true;

	switch (token)
	{
		case JSON_OBJECT:
		case JSON_ARRAY:
			ok = read_container(r, token == JSON_OBJECT, v);
			v->s = start;
			v->len = (size_t) (r->r.p - start);
			break;
		case JSON_STRING:
			v->type = JV_STR;
			ok = read_text(r, &v->s, &v->len);
			if (ok)
				v->hash = hash_bytes(v->s, v->len, JV_STR);
			break;
		case JSON_NUMBER:
		case JSON_NULL:
		case JSON_FALSE:
		case JSON_TRUE:
			v->type = token == JSON_NUMBER ? JV_NUM : token == JSON_NULL ? JV_NULL :
				token == JSON_FALSE ? JV_FALSE : JV_TRUE;
			v->s = start;
			v->len = r->r.n;
			v->hash = v->type == JV_NUM ? hash_bytes(v->s, v->len, JV_NUM) : mix(7, v->type);
			break;
		default:
			ok = bad(r, r->r.why);
	}
	return ok ? v : NULL;
}

const Jv *
jv_read(Arena *a, const char *s, size_t n, Err *e)
{
	SchemaJsonReader r = {.a = a, .e = e};
	const Jv   *v;

	if (n > MAX_TEXT)
	{
		err_set(e, ERR_TOO_LONG, "the schema has %zu bytes, more than the maximum of %d", n, MAX_TEXT);
		return NULL;
	}
	r.start = arena_strndup(a, s, n);
	json_begin(&r.r, r.start, n, MAX_DEPTH);
	v = read_value(&r, json_next(&r.r));
	if (v == NULL || json_next(&r.r) == JSON_END)
		return v;
	bad(&r, r.r.why);
	return NULL;
}

/* ---- access ---- */

const Jv *
jv_get_n(const Jv *v, const char *key, size_t len)
{
	if (v == NULL || v->type != JV_OBJ)
		return NULL;
	for (const Jv *c = v->child; c != NULL; c = c->next)
		if (c->key_len == len && memcmp(c->key, key, len) == 0)
			return c;
	return NULL;
}

const Jv *
jv_get(const Jv *v, const char *key)
{
	return jv_get_n(v, key, strlen(key));
}

bool
jv_is(const Jv *v, JvType type)
{
	return v != NULL && v->type == type;
}

static bool
equal_numbers(const Jv *a, const Jv *b)
{
	char		x[DEC_MAX_TEXT],
				y[DEC_MAX_TEXT];
	Dec			p,
				q;

	if (!dec_read(a->s, a->len, x, &p) || !dec_read(b->s, b->len, y, &q))
		return a->len == b->len && memcmp(a->s, b->s, a->len) == 0;
	return dec_cmp(&p, &q) == 0;
}

/* Compare the members from m and o on, as many of each, in any order. */
static bool
equal_members(const Jv *m, const Jv *o)
{
	const Jv  **x;
	uint32_t	n = 0;
	bool		equal = true;

	/* mostly they have the same order */
	for (; m != NULL && same_key(m, o); m = m->next, o = o->next)
		if (!jv_equal(m, o))
			return false;
	for (const Jv *v = m; v != NULL; v = v->next)
		n++;
	x = mem_alloc((2 * (size_t) n + 1) * sizeof(Jv *));
	for (uint32_t i = 0; i < n; i++, m = m->next, o = o->next)
	{
		x[i] = m;
		x[n + i] = o;
	}
	/* both had the same number */
	ALWAYS(m == NULL && o == NULL);
	qsort(x, n, sizeof(Jv *), by_key);
	qsort(x + n, n, sizeof(Jv *), by_key);
	for (uint32_t i = 0; i < n && equal; i++)
		equal = same_key(x[i], x[n + i]) && jv_equal(x[i], x[n + i]);
	mem_free(x);
	return equal;
}

bool
jv_equal(const Jv *a, const Jv *b)
{
	if (a == b)
		return true;
	if (a->type != b->type || a->n != b->n)
		return false;
	switch (a->type)
	{
		case JV_NUM:
			return equal_numbers(a, b);
		case JV_STR:
			return a->len == b->len && memcmp(a->s, b->s, a->len) == 0;
		case JV_ARR:
			for (a = a->child, b = b->child; a != NULL; a = a->next, b = b->next)
				if (!jv_equal(a, b))
					return false;
			return true;
		case JV_OBJ:
			return equal_members(a->child, b->child);
		default:
			return true;
	}
}

