/*
 * schema_keywords.c
 *	  The keywords that constrain a value by its type, as clauses.
 *
 * Tested by tests/unit/grammar/schema/test_json_schema.c.
 */
#include "grammar/schema/schema_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

typedef struct Out
{
	Builder    *b;
	const Place *p;
	SchemaDialect d;
	Clauses		c;
	uint32_t	cap;
} Out;

static Clause *
add(Out *o, ClauseKind kind)
{
	Clause	   *c = clause_new(o->b, kind);

	if (o->c.n == o->cap)
	{
		const Clause **old = o->c.c;

		o->cap = o->cap == 0 ? 8 : o->cap * 2;
		o->c.c = arena_alloc(o->b->arena, o->cap * sizeof(Clause *));
		if (old != NULL)
			memcpy(o->c.c, old, o->c.n * sizeof(Clause *));
	}
	ALWAYS(o->c.n < o->cap);
	o->c.c[o->c.n++] = c;
	return c;
}

static const Jv *
get(const Out *o, const char *name, SchemaDialect from)
{
	return o->d != D_ANY && o->d < from ? NULL : jv_get(o->p->v, name);
}

static bool
number(Out *o, const Jv *v, const char *name, Dec *to)
{
	if (v->type != JV_NUM)
		return schema_fail(o->b, ERR_INVALID, "\"%s\" must be a number", name);
	if (!dec_read(v->s, v->len, arena_alloc(o->b->arena, DEC_MAX_TEXT), to) || labs(to->exp) > DEC_MAX_TEXT)
		return schema_fail(o->b, ERR_TOO_LONG, "the number of \"%s\" is too long", name);
	return true;
}

/* Read a count; one too large to be counted has no effect. */
static bool
count(Out *o, const char *name, SchemaDialect from, uint32_t *to)
{
	const Jv   *v = get(o, name, from);
	Dec			d;

	if (v == NULL || !number(o, v, name, &d))
		return false;
	if (d.neg || !dec_is_integer(&d))
		return schema_fail(o->b, ERR_INVALID, "\"%s\" must be an integer of at least 0", name);
	*to = 0;
	for (long i = 0; i < d.exp; i++)
	{
		if (*to > 100000000)
		{
			*to = CFG_INF - 1;
			return true;
		}
		*to = *to * 10 + (uint32_t) (i < d.n ? d.d[i] - '0' : 0);
	}
	return true;
}

static void
bounds(Out *o, const char *least, const char *most, SchemaDialect from, ClauseKind kind)
{
	uint32_t	min = 0,
				max = CFG_INF;
	bool		has = count(o, least, from, &min);

	if (count(o, most, from, &max) || has)
	{
		Clause	   *c = add(o, kind);

		c->n = min;
		c->max = max;
	}
}

/* ---- numbers, strings ---- */

static void
limit(Out *o, const char *name, const char *exclusive, ClauseKind kind)
{
	const Jv   *v = jv_get(o->p->v, name);
	const Jv   *x = jv_get(o->p->v, exclusive);
	Dec			d;

	if (v != NULL && number(o, v, name, &d))
	{
		Clause	   *c = add(o, kind);

		c->dec = d;
		c->strict = o->d <= D_4 && jv_is(x, JV_TRUE);
	}
	if (x != NULL && (o->d > D_4 || (x->type != JV_TRUE && x->type != JV_FALSE)) && o->d != D_4 &&
		number(o, x, exclusive, &d))
	{
		Clause	   *c = add(o, kind);

		c->dec = d;
		c->strict = true;
	}
}

static void
scalars(Out *o)
{
	const Jv   *v;
	Dec			d;

	limit(o, "minimum", "exclusiveMinimum", C_MIN);
	limit(o, "maximum", "exclusiveMaximum", C_MAX);
	v = jv_get(o->p->v, "multipleOf");
	if (v != NULL && number(o, v, "multipleOf", &d))
	{
		if (d.neg || d.n == 0)
			schema_fail(o->b, ERR_INVALID, "\"multipleOf\" must be greater than 0");
		if (!number_multiple_known(&d, !o->b->opt->validate))
			schema_refuse(o->b, "multipleOf", "Its factor has too many digits.");
		add(o, C_MULTIPLE)->dec = d;
	}
	bounds(o, "minLength", "maxLength", D_4, C_LEN);
	for (int i = 0; i < 2; i++)
	{
		static const char *const names[] = {"pattern", "format"};

		v = jv_get(o->p->v, names[i]);
		if (v == NULL)
			continue;
		if (v->type != JV_STR)
			schema_fail(o->b, ERR_INVALID, "\"%s\" must be a string", names[i]);
		else if (i == 0 || schema_format_known(v->s, v->len))
		{
			Clause	   *c = add(o, i == 0 ? C_PATTERN : C_FORMAT);

			c->text = v->s;
			c->len = v->len;
		}
	}
}

/* ---- arrays ---- */

/* Return true if there are keywords that apply schemas to the value itself. */
static bool
applies(const Jv *v)
{
	static const char *const names[] = {
		"$ref", "$recursiveRef", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas",
		"dependencies"
	};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (jv_get(v, names[i]) != NULL)
			return true;
	return false;
}

/* Return an unevaluated... keyword that acts like the keyword for the rest; NULL: there is none. */
static const Jv *
unevaluated(Out *o, const char *name)
{
	const Jv   *v = get(o, name, D_2019);

	if (v == NULL || v->type == JV_TRUE || (v->type == JV_OBJ && v->n == 0))
		return NULL;
	/* in 2020-12 "contains" evaluates the items that it finds */
	if (applies(o->p->v) || (strcmp(name, "unevaluatedItems") == 0 && o->d != D_2019 &&
							 jv_get(o->p->v, "contains") != NULL))
		schema_refuse(o->b, name, "It is supported where no other schema applies to the same value.");
	return v;
}

static void
arrays(Out *o)
{
	Builder    *b = o->b;
	const Jv   *first = get(o, "prefixItems", D_2020);
	const Jv   *rest = jv_get(o->p->v, "items");
	const Jv   *v;

	if (jv_is(rest, JV_ARR) && first == NULL)
	{
		first = rest;
		rest = jv_get(o->p->v, "additionalItems");
	}
	if (first != NULL && first->type != JV_ARR)
		schema_fail(b, ERR_INVALID, "\"prefixItems\" must be a list");
	v = unevaluated(o, "unevaluatedItems");
	if (rest == NULL)
		rest = v;
	if ((first != NULL || rest != NULL) && !b->failed)
	{
		Clause	   *c = add(o, C_ITEMS);
		Lit		   *list = arena_alloc(b->arena, ((first == NULL ? 0 : first->n) + 1) * sizeof(Lit));

		for (const Jv *x = first == NULL ? NULL : first->child; x != NULL; x = x->next)
			list[c->n_list++] = schema_lit(b, x, o->p->resource);
		c->list = list;
		c->lit = rest == NULL ? b->lit_true : schema_lit(b, rest, o->p->resource);
	}
	bounds(o, "minItems", "maxItems", D_4, C_COUNT_ITEMS);
	v = jv_get(o->p->v, "uniqueItems");
	if (jv_is(v, JV_TRUE))
		add(o, C_UNIQUE);
	else if (v != NULL && v->type != JV_FALSE)
		schema_fail(b, ERR_INVALID, "\"uniqueItems\" must be true or false");
	v = get(o, "contains", D_6);
	if (v != NULL)
	{
		Clause	   *c = add(o, C_CONTAINS);

		c->lit = schema_lit(b, v, o->p->resource);
		c->n = 1;
		count(o, "minContains", D_2019, &c->n);
		count(o, "maxContains", D_2019, &c->max);
	}
}

/* ---- objects ---- */

static int
by_name(const void *a, const void *b)
{
	const Prop *x = *(const Prop *const *) a,
			   *y = *(const Prop *const *) b;
	size_t		n = x->len < y->len ? x->len : y->len;
	int			c = memcmp(x->name, y->name, n);

	return c != 0 ? c : x->len < y->len ? -1 : x->len > y->len;
}

void
schema_sort_props(Builder *b, Clause *c)
{
	c->sorted = arena_alloc(b->arena, (c->n_props + 1) * sizeof(Prop *));
	for (uint32_t i = 0; i < c->n_props; i++)
		c->sorted[i] = &c->prop[i];
	qsort(c->sorted, c->n_props, sizeof(Prop *), by_name);
}

static const Prop *
read_props(Out *o, const char *name, uint32_t *n)
{
	const Jv   *map = jv_get(o->p->v, name);
	Prop	   *p;

	*n = 0;
	if (map == NULL)
		return NULL;
	if (map->type != JV_OBJ)
	{
		schema_fail(o->b, ERR_INVALID, "\"%s\" must be an object", name);
		return NULL;
	}
	p = arena_alloc(o->b->arena, (map->n + 1) * sizeof(Prop));
	for (const Jv *v = map->child; v != NULL; v = v->next, (*n)++)
		p[*n] = (Prop) {.name = v->key, .len = v->key_len, .lit = schema_lit(o->b, v, o->p->resource),
						.rank = *n};
	ALWAYS(*n == map->n);
	return p;
}

static void
members(Out *o)
{
	Builder    *b = o->b;
	const Jv   *rest = jv_get(o->p->v, "additionalProperties");
	const Jv   *other = unevaluated(o, "unevaluatedProperties");
	Clause	   *c;

	if (rest == NULL)
		rest = other;
	if (rest == NULL && jv_get(o->p->v, "properties") == NULL && jv_get(o->p->v, "patternProperties") == NULL)
		return;
	c = add(o, C_PROPS);
	c->prop = read_props(o, "properties", &c->n_props);
	c->pattern = read_props(o, "patternProperties", &c->n_patterns);
	c->lit = rest == NULL ? b->lit_true : schema_lit(b, rest, o->p->resource);
	c->closed_by_default = rest == NULL;
	schema_sort_props(b, c);
}

static void
add_name(Out *o, ClauseKind kind, const Jv *v, const char *keyword)
{
	Clause	   *c;

	if (v->type != JV_STR)
	{
		schema_fail(o->b, ERR_INVALID, "\"%s\" must list names", keyword);
		return;
	}
	c = add(o, kind);
	c->text = v->s;
	c->len = v->len;
}

static void
dependencies(Out *o, const char *name, SchemaDialect from)
{
	const Jv   *map = get(o, name, from);

	if (map != NULL && map->type != JV_OBJ)
		schema_fail(o->b, ERR_INVALID, "\"%s\" must be an object", name);
	for (const Jv *v = jv_is(map, JV_OBJ) ? map->child : NULL; v != NULL; v = v->next)
	{
		if (v->type != JV_ARR && from == D_2019)
			schema_fail(o->b, ERR_INVALID, "\"%s\" must list names", name);
		for (const Jv *to = v->type == JV_ARR ? v->child : v->type == JV_STR ? v : NULL; to != NULL;
			 to = v->type == JV_ARR ? to->next : NULL)
		{
			Clause	   *c;

			if (to->type != JV_STR)
			{
				schema_fail(o->b, ERR_INVALID, "\"%s\" must list names", name);
				return;
			}
			c = add(o, C_DEP);
			c->text = v->key;
			c->len = v->key_len;
			c->text2 = to->s;
			c->len2 = to->len;
		}
	}
}

static void
objects(Out *o)
{
	const Jv   *v;

	members(o);
	v = jv_get(o->p->v, "required");
	if (v != NULL && v->type != JV_ARR)
		schema_fail(o->b, ERR_INVALID, "\"required\" must be a list of names");
	for (const Jv *x = jv_is(v, JV_ARR) ? v->child : NULL; x != NULL && !o->b->failed; x = x->next)
		add_name(o, C_REQUIRED, x, "required");
	bounds(o, "minProperties", "maxProperties", D_4, C_COUNT_PROPS);
	v = get(o, "propertyNames", D_6);
	if (v != NULL)
		add(o, C_NAMES)->lit = schema_lit(o->b, v, o->p->resource);
	dependencies(o, "dependentRequired", D_2019);
	dependencies(o, "dependencies", D_4);
}

Clauses
schema_clauses(Builder *b, Place *p)
{
	Out			o = {.b = b, .p = p, .d = schema_dialect(b, p)};

	schema_work(b, p->v->n);
	scalars(&o);
	if (!b->failed)
		arrays(&o);
	if (!b->failed)
		objects(&o);
	return o.c;
}
