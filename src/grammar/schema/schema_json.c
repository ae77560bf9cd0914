/*
 * schema_json.c
 *	  Reads JSON into a tree (schema_json.h).
 *
 * Tested by tests/unit/grammar/test_json_schema.c.
 */
#include "grammar/schema/schema_json.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/alloc.h"
#include "grammar/schema/decimal.h"

#define MAX_TEXT	(4 << 20)	/* bytes of a schema */
#define MAX_DEPTH	200			/* values within values */
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
			/* a piece of its own: the one under way goes on */
			p->next = a->first->next;
			a->first->next = p;
		}
		else
		{
			p->next = a->first;
			a->first = p;
		}
	}
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
	Arena	   *a;
	const char *start;
	const char *p;
	const char *end;
	int			depth;
	Err		   *e;
} SchemaJsonReader;

static const Jv *read_value(SchemaJsonReader *r);

static bool
bad(SchemaJsonReader *r, const char *what)
{
	return err_set(r->e, ERR_INVALID, "the schema is not valid JSON: %s at byte %zu", what,
				   (size_t) (r->p - r->start));
}

static void
space(SchemaJsonReader *r)
{
	while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || *r->p == '\n' || *r->p == '\r'))
		r->p++;
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

static bool
hex4(SchemaJsonReader *r, uint32_t *to)
{
	*to = 0;
	if (r->end - r->p < 4)
		return bad(r, "incomplete escape");
	for (int i = 0; i < 4; i++)
	{
		char		c = *r->p++;
		int			x = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 :
			c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;

		if (x < 0)
			return bad(r, "invalid escape");
		*to = *to * 16 + (uint32_t) x;
	}
	return true;
}

static char *
put_utf8(char *o, uint32_t c)
{
	if (c < 0x80)
		*o++ = (char) c;
	else if (c < 0x800)
	{
		*o++ = (char) (0xc0 | c >> 6);
		*o++ = (char) (0x80 | (c & 0x3f));
	}
	else if (c < 0x10000)
	{
		*o++ = (char) (0xe0 | c >> 12);
		*o++ = (char) (0x80 | (c >> 6 & 0x3f));
		*o++ = (char) (0x80 | (c & 0x3f));
	}
	else
	{
		*o++ = (char) (0xf0 | c >> 18);
		*o++ = (char) (0x80 | (c >> 12 & 0x3f));
		*o++ = (char) (0x80 | (c >> 6 & 0x3f));
		*o++ = (char) (0x80 | (c & 0x3f));
	}
	return o;
}

/* What follows \u, and its other half if it is one of a pair. */
static bool
read_unicode(SchemaJsonReader *r, uint32_t *to)
{
	uint32_t	low;

	if (!hex4(r, to))
		return false;
	if (*to < 0xd800 || *to > 0xdfff)
		return true;
	if (*to > 0xdbff || r->end - r->p < 6 || r->p[0] != '\\' || r->p[1] != 'u')
		return bad(r, "half a surrogate pair");
	r->p += 2;
	if (!hex4(r, &low))
		return false;
	if (low < 0xdc00 || low > 0xdfff)
		return bad(r, "half a surrogate pair");
	*to = 0x10000 + ((*to - 0xd800) << 10) + (low - 0xdc00);
	return true;
}

/* Bytes of the UTF-8 character at s, 0 if there is none. */
static int
utf8_char(const uint8_t *s, size_t n)
{
	int			len = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;

	if (len == 0 || n < (size_t) len)
		return 0;
	for (int i = 1; i < len; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
		(s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return len;
}

/* Behind a backslash. */
static bool
read_escape(SchemaJsonReader *r, char **o)
{
	static const char from[] = "\"\\/bfnrt";
	static const char to[] = "\"\\/\b\f\n\r\t";
	const char *at;
	uint32_t	c;

	if (r->p == r->end)
		return bad(r, "incomplete escape");
	if (*r->p == 'u')
	{
		r->p++;
		if (!read_unicode(r, &c))
			return false;
		*o = put_utf8(*o, c);
		return true;
	}
	at = *r->p == '\0' ? NULL : strchr(from, *r->p);
	if (at == NULL)
		return bad(r, "invalid escape");
	r->p++;
	*(*o)++ = to[at - from];
	return true;
}

/* r->p is behind the opening quote. */
static bool
read_string(SchemaJsonReader *r, const char **s, size_t *len)
{
	const char *close = r->p;
	char	   *o;

	while (close < r->end && *close != '"')
		close += *close == '\\' && close + 1 < r->end ? 2 : 1;
	if (close >= r->end)
		return bad(r, "a string without an end");
	o = arena_alloc(r->a, (size_t) (close - r->p) + 1);
	*s = o;
	while (*r->p != '"')
	{
		int			n;

		if (*r->p == '\\')
		{
			r->p++;
			if (!read_escape(r, &o))
				return false;
			continue;
		}
		n = utf8_char((const uint8_t *) r->p, (size_t) (r->end - r->p));
		if (n == 0 || (uint8_t) *r->p < 0x20)
			return bad(r, n == 0 ? "invalid UTF-8" : "a control character in a string");
		memcpy(o, r->p, (size_t) n);
		o += n;
		r->p += n;
	}
	r->p++;
	*len = (size_t) (o - *s);
	return true;
}

static size_t
digits(SchemaJsonReader *r)
{
	const char *from = r->p;

	while (r->p < r->end && *r->p >= '0' && *r->p <= '9')
		r->p++;
	return (size_t) (r->p - from);
}

static bool
read_number(SchemaJsonReader *r, Jv *v)
{
	const char *from = r->p;
	bool		zero;

	if (*r->p == '-')
		r->p++;
	zero = r->p < r->end && *r->p == '0';
	switch (digits(r))
	{
		case 0:
			return bad(r, "unexpected character");
		case 1:
			break;
		default:
			if (zero)
				return bad(r, "a number that begins with 0");
	}
	if (r->p < r->end && *r->p == '.')
	{
		r->p++;
		if (digits(r) == 0)
			return bad(r, "a number without digits behind the point");
	}
	if (r->p < r->end && (*r->p == 'e' || *r->p == 'E'))
	{
		r->p++;
		if (r->p < r->end && (*r->p == '+' || *r->p == '-'))
			r->p++;
		if (digits(r) == 0)
			return bad(r, "a number without exponent");
	}
	v->type = JV_NUM;
	v->s = from;
	v->len = (size_t) (r->p - from);
	v->hash = hash_bytes(v->s, v->len, JV_NUM);
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

/* Drop members that a later one of the same name replaces; all[] in the order of the text. */
static uint32_t
drop_replaced(Jv **all, uint32_t n)
{
	bool		found = false;
	uint32_t	kept = 0;
	bool	   *gone = mem_zalloc(n + 1);

	if (n <= FEW)
	{
		for (uint32_t i = 0; i < n; i++)
			for (uint32_t j = i + 1; j < n && !gone[i]; j++)
				found |= gone[i] = same_key(all[i], all[j]);
	}
	else
	{
		/* n carries the place in the text through the sort */
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

				/* of equal ones the last stays: hand the later one on */
				gone[a < b ? a : b] = true;
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
		if (!gone[i])
			all[kept++] = all[i];
	mem_free(gone);
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

static bool
read_items(SchemaJsonReader *r, bool object, Items *to)
{
	char		close = object ? '}' : ']';

	r->p++;
	space(r);
	if (r->p < r->end && *r->p == close)
	{
		r->p++;
		return true;
	}
	for (;;)
	{
		const char *key = NULL;
		size_t		key_len = 0;
		Jv		   *v;

		space(r);
		if (object)
		{
			if (r->p == r->end || *r->p++ != '"')
				return bad(r, "a member without a name");
			if (!read_string(r, &key, &key_len))
				return false;
			space(r);
			if (r->p == r->end || *r->p++ != ':')
				return bad(r, "a member without a colon");
		}
		v = (Jv *) read_value(r);
		if (v == NULL)
			return false;
		v->key = key;
		v->key_len = key_len;
		push(to, v);
		space(r);
		if (r->p == r->end)
			return bad(r, "unexpected end");
		if (*r->p == close)
		{
			r->p++;
			return true;
		}
		if (*r->p++ != ',')
			return bad(r, "unexpected character");
	}
}

static bool
read_container(SchemaJsonReader *r, Jv *v)
{
	bool		object = *r->p == '{';
	Items		all = {0};
	uint64_t	h = 0;

	if (++r->depth > MAX_DEPTH)
		return err_set(r->e, ERR_TOO_LONG, "the schema nests deeper than %d values", MAX_DEPTH);
	if (!read_items(r, object, &all))
	{
		mem_free(all.v);
		return false;
	}
	r->depth--;
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

static const Jv *
read_value(SchemaJsonReader *r)
{
	static const struct
	{
		const char *text;
		JvType		type;
	}			words[] = {{"null", JV_NULL}, {"false", JV_FALSE}, {"true", JV_TRUE}};
	Jv		   *v = arena_alloc(r->a, sizeof(Jv));
	const char *start;

	space(r);
	if (r->p == r->end)
	{
		bad(r, "unexpected end");
		return NULL;
	}
	start = r->p;
	if (*r->p == '{' || *r->p == '[')
	{
		if (!read_container(r, v))
			return NULL;
		v->s = start;
		v->len = (size_t) (r->p - start);
		return v;
	}
	if (*r->p == '"')
	{
		r->p++;
		v->type = JV_STR;
		if (!read_string(r, &v->s, &v->len))
			return NULL;
		v->hash = hash_bytes(v->s, v->len, JV_STR);
		return v;
	}
	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
	{
		size_t		n = strlen(words[i].text);

		if ((size_t) (r->end - r->p) >= n && memcmp(r->p, words[i].text, n) == 0)
		{
			r->p += n;
			v->type = words[i].type;
			v->s = start;
			v->len = n;
			v->hash = mix(7, v->type);
			return v;
		}
	}
	return read_number(r, v) ? v : NULL;
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
	r.start = r.p = arena_strndup(a, s, n);
	r.end = r.p + n;
	v = read_value(&r);
	if (v == NULL)
		return NULL;
	space(&r);
	if (r.p < r.end)
	{
		bad(&r, "unexpected character");
		return NULL;
	}
	return v;
}

/* ---- looking ---- */

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

/* The members from m and o on, as many of each, in whatever order. */
static bool
equal_members(const Jv *m, const Jv *o)
{
	const Jv  **x;
	uint32_t	n = 0;
	bool		equal = true;

	/* mostly they stand in the same order */
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

