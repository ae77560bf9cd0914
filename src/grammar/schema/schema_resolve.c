/*
 * schema_resolve.c
 *	  The places of a schema: documents within documents, anchors, references; goals.
 *
 * Real schemas have ids that are no addresses ("id": "name").  By the standard each of them is a
 * separate document, and "#/definitions/x" below it refers to nothing.  So what isn't found in the
 * innermost document is looked up in the enclosing ones.
 *
 * Tested by tests/unit/grammar/schema/test_json_schema.c.
 */
#include "grammar/schema/schema_internal.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/buf.h"

static Place *schema_place(Builder *b, const Jv *v, uint32_t resource);

#define HASH_SIZE		4096		/* of places, of goals */
#define MAX_RESOURCES	1000
#define MAX_ANCHORS		1000
#define MAX_HOPS		10000		/* references that lead to references */

/* ---- errors, work ---- */

bool
schema_fail(Builder *b, ErrClass cls, const char *fmt,...)
{
	char		msg[400];
	va_list		ap;

	if (b->failed)
		return false;
	b->failed = true;
	va_start(ap, fmt);
	vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	return err_set(b->e, cls, "%s", msg);
}

bool
schema_refuse(Builder *b, const char *keyword, const char *why)
{
	if (b->failed)
		return false;
	schema_fail(b, ERR_UNSUPPORTED, "JSON schema keyword \"%s\" is not supported here", keyword);
	return err_detail(b->e, "%s", why);
}

bool
schema_too_many(Builder *b)
{
	return schema_refuse(b, b->keyword == NULL ? "not" : b->keyword, "It makes too many alternatives.");
}

bool
schema_work(Builder *b, uint64_t n)
{
	b->work += n;
	if (b->work > SCHEMA_WORK)
		schema_fail(b, ERR_TOO_LONG, "the JSON schema is too complex");
	return !b->failed;
}

/* ---- documents ---- */

static bool
has_scheme(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
	{
		if (s[i] == ':')
			return i > 0;
		if (strchr("/?#", s[i]) != NULL)
			return false;
	}
	return false;
}

/* Resolve the reference s against base; both are without fragment. */
static const char *
resolve(Builder *b, const char *base, size_t base_len, const char *s, size_t n, size_t *len)
{
	Buf			out = {0};
	size_t		keep = 0;
	const char *r;

	if (has_scheme(s, n) || base == NULL)
		keep = 0;
	else if (n == 0)
		keep = base_len;
	else if (s[0] == '/')
	{
		/* after the authority, if there is one */
		const char *at = memmem(base, base_len, "://", 3);

		if (at != NULL && !(n > 1 && s[1] == '/'))
			for (keep = (size_t) (at - base) + 3; keep < base_len && base[keep] != '/';)
				keep++;
	}
	else
		for (keep = base_len; keep > 0 && base[keep - 1] != '/';)
			keep--;
	if (keep > 0)
		buf_add(&out, base, keep);
	while (n >= 2 && s[0] == '.' && s[1] == '/')
		s += 2, n -= 2;
	buf_add(&out, s, n);
	/* count the work: a long base is copied for each reference */
	if (!schema_work(b, out.len / 16))
		buf_reset(&out);
	*len = out.len;
	r = arena_strndup(b->arena, out.data == NULL ? "" : out.data, out.len);
	buf_free(&out);
	return r;
}

static size_t
before_fragment(const char *s, size_t n)
{
	const char *at = memchr(s, '#', n);

	return at == NULL ? n : (size_t) (at - s);
}

static SchemaDialect
dialect_of(const Jv *v, SchemaDialect up)
{
	static const struct
	{
		const char *part;
		SchemaDialect d;
	}			known[] = {
		{"draft-04", D_4}, {"draft-06", D_6}, {"draft-07", D_7},
		{"2019-09", D_2019}, {"2020-12", D_2020}
	};
	const Jv   *s = jv_get(v, "$schema");

	if (!jv_is(s, JV_STR))
		return up;
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (memmem(s->s, s->len, known[i].part, strlen(known[i].part)) != NULL)
			return known[i].d;
	return up;
}

static void
add_anchor(Builder *b, uint32_t resource, const char *name, size_t len, const Jv *v)
{
	if (b->n_anchors == b->cap_anchors)
	{
		Anchor	   *old = b->anchor;

		b->cap_anchors = b->cap_anchors == 0 ? 16 : b->cap_anchors * 2;
		b->anchor = arena_alloc(b->arena, b->cap_anchors * sizeof(Anchor));
		if (old != NULL)
			memcpy(b->anchor, old, b->n_anchors * sizeof(Anchor));
	}
	if (b->n_anchors == MAX_ANCHORS)
		schema_fail(b, ERR_TOO_LONG, "the JSON schema has more than %d anchors", MAX_ANCHORS);
	else
		b->anchor[b->n_anchors++] = (Anchor) {resource, name, len, v};
}

static uint32_t
add_resource(Builder *b, const Jv *root, const char *id, size_t len, uint32_t up)
{
	Resource   *r;

	if (b->n_resources == b->cap_resources)
	{
		Resource   *old = b->resource;

		b->cap_resources = b->cap_resources == 0 ? 16 : b->cap_resources * 2;
		b->resource = arena_alloc(b->arena, b->cap_resources * sizeof(Resource));
		if (old != NULL)
			memcpy(b->resource, old, b->n_resources * sizeof(Resource));
	}
	if (b->n_resources == MAX_RESOURCES)
	{
		schema_fail(b, ERR_TOO_LONG, "the JSON schema has more than %d identifiers", MAX_RESOURCES);
		return up;
	}
	if (jv_is(jv_get(root, "$schema"), JV_STR) &&
		memmem(jv_get(root, "$schema")->s, jv_get(root, "$schema")->len, "draft-03", 8) != NULL)
		schema_refuse(b, "$schema", "Draft 3 has other keywords; the drafts 4 to 2020-12 are supported.");
	ALWAYS(b->n_resources == 0 || up < b->n_resources);
	r = &b->resource[b->n_resources];
	*r = (Resource) {.root = root, .up = up,
					 .dialect = dialect_of(root, b->n_resources > 0 ? b->resource[up].dialect : D_ANY)};
	if (id != NULL)
		r->id = b->n_resources > 0 ? resolve(b, b->resource[up].id, b->resource[up].id_len, id, len,
											 &r->id_len) :
			resolve(b, NULL, 0, id, len, &r->id_len);
	else if (b->n_resources > 0)
	{
		r->id = b->resource[up].id;
		r->id_len = b->resource[up].id_len;
	}
	return b->n_resources++;
}

/* Return the id of a schema, in its dialect's spelling. */
static const Jv *
id_of(const Jv *v, SchemaDialect d)
{
	const Jv   *id = d == D_4 ? NULL : jv_get(v, "$id");

	if (id == NULL && d <= D_4)
		id = jv_get(v, "id");
	return jv_is(id, JV_STR) ? id : NULL;
}

/* Find ids and anchors; v may be anything that contains schemas. */
static void
find_ids(Builder *b, const Jv *v, uint32_t resource)
{
	static const char *const data[] = {"enum", "const", "default", "examples", "example"};
	const Jv   *x;

	if (!schema_work(b, 1) || (v->type != JV_OBJ && v->type != JV_ARR))
		return;
	if (v->type == JV_OBJ && v != b->resource[0].root)
	{
		SchemaDialect d = b->resource[resource].dialect;
		const Jv   *id = id_of(v, d);

		if (id != NULL)
		{
			size_t		n = before_fragment(id->s, id->len);

			if (n > 0)
				resource = add_resource(b, v, id->s, n, resource);
			if (n + 1 < id->len)
				add_anchor(b, resource, id->s + n + 1, id->len - n - 1, v);
		}
	}
	if (jv_is(x = jv_get(v, "$anchor"), JV_STR))
		add_anchor(b, resource, x->s, x->len, v);
	if (jv_is(x = jv_get(v, "$dynamicAnchor"), JV_STR))
		add_anchor(b, resource, x->s, x->len, v);
	for (x = v->child; x != NULL && !b->failed; x = x->next)
	{
		bool		skip = false;

		for (size_t i = 0; i < sizeof data / sizeof data[0] && x->key != NULL; i++)
			skip |= x->type != JV_OBJ && x->key_len == strlen(data[i]) &&
				memcmp(x->key, data[i], x->key_len) == 0;
		if (!skip)
			find_ids(b, x, resource);
	}
}

/* ---- references ---- */

static int
hex(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' &&
		c <= 'F' ? c - 'A' + 10 : -1;
}

/* Decode one part of a pointer: %41, ~0 and ~1. */
static size_t
pointer_part(const char *s, size_t n, char *to)
{
	size_t		len = 0;

	for (size_t i = 0; i < n; i++)
	{
		char		c = s[i];

		if (c == '%' && i + 2 < n + 0 && hex(s[i + 1]) >= 0 && hex(s[i + 2]) >= 0)
		{
			c = (char) (hex(s[i + 1]) * 16 + hex(s[i + 2]));
			i += 2;
		}
		if (c == '~' && i + 1 < n && (s[i + 1] == '0' || s[i + 1] == '1'))
			c = s[++i] == '0' ? '~' : '/';
		to[len++] = c;
	}
	return len;
}

/* Follow a pointer from the resource's root; return what it refers to, and the resource that contains
 * it. */
static const Jv *
follow(Builder *b, uint32_t *resource, const char *s, size_t n)
{
	const Jv   *v = b->resource[*resource].root;
	char	   *part = arena_alloc(b->arena, n + 1);
	const char *end = s + n;

	while (s < end && v != NULL)
	{
		const char *slash = memchr(s + 1, '/', (size_t) (end - s) - 1);
		size_t		len = pointer_part(s + 1, (size_t) ((slash == NULL ? end : slash) - s) - 1, part);

		schema_work(b, 1 + (v->n + b->n_resources) / 16);
		if (v->type == JV_ARR)
		{
			unsigned long at = ULONG_MAX;

			part[len] = '\0';
			if (len > 0 && len < 9 && strspn(part, "0123456789") == len && (part[0] != '0' || len == 1))
				at = strtoul(part, NULL, 10);
			for (v = v->child; v != NULL && at > 0; at--)
				v = v->next;
		}
		else
			v = jv_get_n(v, part, len);
		s = slash == NULL ? end : slash;
		for (uint32_t i = 0; v != NULL && i < b->n_resources; i++)
			if (b->resource[i].root == v)
				*resource = i;
	}
	return v;
}

static const Jv *
find_anchor(Builder *b, uint32_t resource, const char *s, size_t n)
{
	for (uint32_t i = 0; i < b->n_anchors; i++)
		if (b->anchor[i].resource == resource && b->anchor[i].len == n &&
			memcmp(b->anchor[i].name, s, n) == 0)
			return b->anchor[i].v;
	return NULL;
}

static const Jv *
fragment(Builder *b, uint32_t *resource, const char *s, size_t n)
{
	if (n == 0)
		return b->resource[*resource].root;
	return s[0] == '/' ? follow(b, resource, s, n) : find_anchor(b, *resource, s, n);
}

Place *
schema_ref(Builder *b, const Jv *ref, uint32_t resource)
{
	size_t		n = before_fragment(ref->s, ref->len);
	const char *frag = ref->s + (n < ref->len ? n + 1 : n);
	size_t		frag_len = ref->len - (size_t) (frag - ref->s);
	uint32_t	at = resource;
	const Jv   *v;

	if (n > 0)
	{
		const Resource *r = &b->resource[resource];
		size_t		len;
		const char *id = resolve(b, r->id, r->id_len, ref->s, n, &len);

		for (at = 0; at < b->n_resources; at++)
		{
			r = &b->resource[at];
			if (r->id != NULL && ((r->id_len == len && memcmp(r->id, id, len) == 0) ||
								  (r->id_len == n && memcmp(r->id, ref->s, n) == 0)))
				break;
		}
		if (at == b->n_resources)
		{
			schema_fail(b, ERR_UNSUPPORTED, "JSON schema keyword \"$ref\" is not supported here");
			err_detail(b->e, "\"%.*s\" is not a part of the schema.", (int) (ref->len > 200 ? 200 : ref->len),
					   ref->s);
			return NULL;
		}
		v = fragment(b, &at, frag, frag_len);
	}
	else
		for (;;)
		{
			uint32_t	from = at;

			v = fragment(b, &at, frag, frag_len);
			if (v != NULL || from == 0)
				break;
			/* resources are nested, so this ends */
			ALWAYS(b->resource[from].up < from);
			at = b->resource[from].up;
		}
	if (v == NULL)
	{
		schema_fail(b, ERR_INVALID, "\"$ref\": \"%.*s\" leads nowhere in the JSON schema",
					(int) (ref->len > 200 ? 200 : ref->len), ref->s);
		return NULL;
	}
	return schema_place(b, v, at);
}

/* ---- places and goals ---- */

static Place *
new_place(Builder *b, const Jv *v, uint32_t resource, bool constant)
{
	uint64_t	h = (v->hash + resource * 2 + constant) % HASH_SIZE;
	Place	   *p;

	schema_work(b, 2);
	for (p = b->place_hash[h]; p != NULL; p = p->hash_next)
		if (p->v->hash == v->hash && p->resource == resource && p->constant == constant &&
			(p->v == v || jv_equal(p->v, v)))
			return p;
	if (b->n_places == b->cap_places)
	{
		Place	  **old = b->place;

		b->cap_places = b->cap_places == 0 ? 256 : b->cap_places * 2;
		b->place = arena_alloc(b->arena, b->cap_places * sizeof(Place *));
		if (old != NULL)
			memcpy(b->place, old, b->n_places * sizeof(Place *));
	}
	p = arena_alloc(b->arena, sizeof(Place));
	*p = (Place) {.v = v, .resource = resource, .constant = constant, .id = b->n_places,
				  .hash_next = b->place_hash[h]};
	b->place_hash[h] = p;
	b->place[b->n_places++] = p;
	return p;
}

static Place *
schema_place(Builder *b, const Jv *v, uint32_t resource)
{
	if (v->type == JV_OBJ && v != b->resource[resource].root && b->n_resources > 1 &&
		id_of(v, b->resource[resource].dialect) != NULL)
		for (uint32_t i = 0; i < b->n_resources; i++)
			if (b->resource[i].root == v)
				resource = i;
	return new_place(b, v, resource, false);
}

SchemaDialect
schema_dialect(const Builder *b, const Place *p)
{
	return b->resource[p->resource].dialect;
}

/* Return true for keywords beside $ref that have no effect. */
static bool
says_nothing(const char *s, size_t n)
{
	static const char *const words[] = {
		"$ref", "title", "description", "default", "examples", "example", "$comment", "deprecated",
		"readOnly", "writeOnly", "definitions", "$defs", "$id", "id", "$schema", "$anchor"
	};

	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		if (strlen(words[i]) == n && memcmp(words[i], s, n) == 0)
			return true;
	return false;
}

static bool
only_ref(const Builder *b, const Place *p)
{
	SchemaDialect d = schema_dialect(b, p);

	if (!jv_is(jv_get(p->v, "$ref"), JV_STR))
		return false;
	if (d >= D_4 && d <= D_7)
		return true;
	for (const Jv *c = p->v->child; c != NULL; c = c->next)
		if (!says_nothing(c->key, c->key_len))
			return false;
	return true;
}

Lit
schema_lit(Builder *b, const Jv *v, uint32_t resource)
{
	Place	   *p = schema_place(b, v, resource);

	for (int hops = 0; only_ref(b, p); hops++)
	{
		if (hops == MAX_HOPS || !schema_work(b, 1))
		{
			schema_fail(b, ERR_INVALID, "\"$ref\" leads in a circle in the JSON schema");
			return b->lit_true;
		}
		if (p->target == NULL)
			p->target = schema_ref(b, jv_get(p->v, "$ref"), p->resource);
		if (p->target == NULL)
			return b->lit_true;
		p = p->target;
	}
	ASSERT(p->id < b->n_places && b->place[p->id] == p);
	if (p->v->type == JV_FALSE)
		return b->lit_false;
	if (p->v->type == JV_TRUE || (p->v->type == JV_OBJ && p->v->n == 0))
		return b->lit_true;
	if (p->v->type != JV_OBJ)
		schema_fail(b, ERR_INVALID, "a JSON schema must be an object or a boolean");
	return p->id * 2;
}

Lit
schema_const(Builder *b, const Jv *v)
{
	return new_place(b, v, 0, true)->id * 2;
}

static int
by_lit(const void *x, const void *y)
{
	Lit			a = *(const Lit *) x,
				c = *(const Lit *) y;

	return a < c ? -1 : a > c;
}

Goal *
schema_goal(Builder *b, const Lit *lit, uint32_t n)
{
	Lit		   *l = arena_alloc(b->arena, (n + 1) * sizeof(Lit));
	uint32_t	m = 0;
	uint64_t	h = 7;
	Goal	   *g;

	schema_work(b, 1 + n);
	if (n > 0)
		memcpy(l, lit, n * sizeof(Lit));
	qsort(l, n, sizeof(Lit), by_lit);
	for (uint32_t i = 0; i < n; i++)
	{
		if (l[i] == b->lit_false || (m > 0 && l[m - 1] == lit_not(l[i])))
			return b->goal_false;
		if (l[i] != b->lit_true && (m == 0 || l[m - 1] != l[i]))
			l[m++] = l[i];
	}
	ALWAYS(m <= n);
	for (uint32_t i = 0; i < m; i++)
		h = (h ^ l[i]) * 0x9e3779b97f4a7c15u;
	h = (h >> 20) % HASH_SIZE;
	for (g = b->goal_hash[h]; g != NULL; g = g->hash_next)
		if (g->n == m && memcmp(g->lit, l, m * sizeof(Lit)) == 0)
			return g;
	g = arena_alloc(b->arena, sizeof(Goal));
	*g = (Goal) {.lit = l, .n = m, .id = b->n_goals++, .hash_next = b->goal_hash[h]};
	b->goal_hash[h] = g;
	return g;
}

bool
schema_load(Builder *b, const Jv *root, Lit *lit)
{
	static const Jv yes = {.type = JV_TRUE, .hash = 1};
	const Jv   *id = NULL;
	SchemaDialect d = dialect_of(root, D_ANY);

	b->place_hash = arena_alloc(b->arena, HASH_SIZE * sizeof(Place *));
	b->goal_hash = arena_alloc(b->arena, HASH_SIZE * sizeof(Goal *));
	if (root->type == JV_OBJ)
		id = id_of(root, d);
	add_resource(b, root, id == NULL ? NULL : id->s, id == NULL ? 0 : before_fragment(id->s, id->len), 0);
	b->lit_true = new_place(b, &yes, 0, false)->id * 2;
	b->lit_false = lit_not(b->lit_true);
	b->goal_false = arena_alloc(b->arena, sizeof(Goal));
	*b->goal_false = (Goal) {.nothing = true, .id = b->n_goals++, .empty = 3};
	find_ids(b, root, 0);
	*lit = schema_lit(b, root, 0);
	return !b->failed;
}
