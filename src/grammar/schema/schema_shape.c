/*
 * schema_shape.c
 *	  Shapes and their unions (schema_internal.h): and, or, and the test for emptiness.
 *
 * Tested by tests/unit/grammar/schema/test_json_schema.c.
 */
#include "grammar/schema/schema_internal.h"

#include <string.h>

#include "base/assert.h"

#define LOOK	8				/* depth of the test for emptiness */

uint8_t
clause_type(ClauseKind kind)
{
	return kind <= C_NUM_IN ? T_NUM : kind <= C_STR_IN ? T_STR : kind <= C_UNIQUE ? T_ARR : T_OBJ;
}

Clause *
clause_new(Builder *b, ClauseKind kind)
{
	Clause	   *c = arena_alloc(b->arena, sizeof(Clause));

	schema_work(b, 1);
	c->kind = kind;
	c->max = CFG_INF;
	return c;
}

Shape *
shape_any(Builder *b)
{
	Shape	   *s = arena_alloc(b->arena, sizeof(Shape));

	s->types = T_ALL;
	return s;
}

static Clauses *
clauses_of(Shape *s, uint8_t type)
{
	return type == T_NUM ? &s->num : type == T_STR ? &s->str : type == T_ARR ? &s->arr : &s->obj;
}

Shape *
shape_with(Builder *b, uint8_t types, const Clause *c)
{
	Shape	   *s = shape_any(b);

	s->types = types;
	if (c != NULL)
	{
		Clauses    *to = clauses_of(s, clause_type(c->kind));

		to->c = arena_alloc(b->arena, sizeof(Clause *));
		to->c[0] = c;
		to->n = 1;
	}
	return s;
}

static Clauses
join(Builder *b, const Clauses *x, const Clauses *y)
{
	Clauses		r;

	if (x->n == 0)
		return *y;
	if (y->n == 0)
		return *x;
	schema_work(b, x->n + y->n);
	r.c = arena_alloc(b->arena, (x->n + y->n) * sizeof(Clause *));
	memcpy(r.c, x->c, x->n * sizeof(Clause *));
	r.n = x->n;
	for (uint32_t i = 0; i < y->n; i++)
	{
		bool		have = false;

		for (uint32_t j = 0; j < x->n && !have; j++)
			have = x->c[j] == y->c[i];
		if (!have)
			r.c[r.n++] = y->c[i];
	}
	return r;
}

Shape *
shape_and(Builder *b, const Shape *x, const Shape *y)
{
	Shape	   *s;
	uint8_t		types = x->types & y->types;

	if (types == 0 || !schema_work(b, 1))
		return NULL;
	s = arena_alloc(b->arena, sizeof(Shape));
	s->types = types;
	if (types & T_NUM)
		s->num = join(b, &x->num, &y->num);
	if (types & T_STR)
		s->str = join(b, &x->str, &y->str);
	if (types & T_ARR)
		s->arr = join(b, &x->arr, &y->arr);
	if (types & T_OBJ)
		s->obj = join(b, &x->obj, &y->obj);
	return s;
}

/* ---- unions ---- */

Union *
union_new(Builder *b)
{
	return arena_alloc(b->arena, sizeof(Union));
}

Union *
union_all(Builder *b)
{
	Union	   *u = union_new(b);

	union_add(b, u, shape_any(b));
	return u;
}

void
union_add(Builder *b, Union *u, Shape *s)
{
	if (s == NULL || s->types == 0)
		return;
	if (u->n == u->cap)
	{
		Shape	  **old = u->s;

		u->cap = u->cap == 0 ? 4 : u->cap * 2;
		u->s = arena_alloc(b->arena, u->cap * sizeof(Shape *));
		if (old != NULL)
			memcpy(u->s, old, u->n * sizeof(Shape *));
	}
	ALWAYS(u->n < u->cap && (s->types & ~T_ALL) == 0);
	u->s[u->n++] = s;
	if (u->n > SCHEMA_UNION)
		schema_too_many(b);
}

void
union_or(Builder *b, Union *u, const Union *x)
{
	for (uint32_t i = 0; i < x->n && !b->failed; i++)
		union_add(b, u, x->s[i]);
}

Union *
union_and(Builder *b, const Union *x, const Union *y)
{
	Union	   *u = union_new(b);
	bool		many = x->n > 1 && y->n > 1;

	for (uint32_t i = 0; i < x->n && !b->failed; i++)
		for (uint32_t j = 0; j < y->n && !b->failed; j++)
		{
			Shape	   *s = shape_and(b, x->s[i], y->s[j]);

			if (s != NULL && !((many || x->n + y->n > 4) && schema_shape_empty(b, s)))
				union_add(b, u, s);
		}
	return u;
}

Union *
schema_shapes(Builder *b, Goal *g)
{
	Union	   *u;

	if (g->shapes != NULL)
		return g->shapes;
	u = g->nothing ? union_new(b) : union_all(b);
	for (uint32_t i = 0; i < g->n && !b->failed; i++)
		u = union_and(b, u, schema_expand(b, g->lit[i]));
	/* schema_expand() must not have come back to this goal: it would have made its shapes twice */
	ASSERT(g->shapes == NULL || b->failed);
	return g->shapes = u;
}

/* ---- emptiness ---- */

static bool
has_name(const Clause *c, const char *s, size_t n)
{
	return (c->kind == C_REQUIRED || c->kind == C_FORBIDDEN || c->kind == C_VALUE) &&
		c->len == n && memcmp(c->text, s, n) == 0;
}

/* Return what the clauses require of the member's value. */
static Goal *
member_goal(Builder *b, const Clauses *c, const char *s, size_t n)
{
	return schema_member(b, c, s, n, NULL, 0);
}

static bool
object_empty(Builder *b, const Clauses *c)
{
	uint32_t	min = 0,
				max = CFG_INF,
				required = 0;

	for (uint32_t i = 0; i < c->n; i++)
	{
		const Clause *k = c->c[i];

		if (k->kind == C_COUNT_PROPS)
		{
			min = k->n > min ? k->n : min;
			max = k->max < max ? k->max : max;
		}
		if (k->kind != C_REQUIRED)
			continue;
		required++;
		for (uint32_t j = 0; j < c->n; j++)
		{
			if (j < i && c->c[j]->kind == C_REQUIRED && has_name(c->c[j], k->text, k->len))
				required--;
			if (c->c[j]->kind == C_FORBIDDEN && has_name(c->c[j], k->text, k->len))
				return true;
		}
		if (schema_empty(b, member_goal(b, c, k->text, k->len)))
			return true;
	}
	return min > max || required > max;
}

static bool
array_empty(Builder *b, const Clauses *c)
{
	uint32_t	min = 0,
				max = CFG_INF;

	for (uint32_t i = 0; i < c->n; i++)
	{
		if (c->c[i]->kind == C_COUNT_ITEMS)
		{
			min = c->c[i]->n > min ? c->c[i]->n : min;
			max = c->c[i]->max < max ? c->c[i]->max : max;
		}
		if (c->c[i]->kind == C_CONTAINS && c->c[i]->n > c->c[i]->max)
			return true;
	}
	if (min > max)
		return true;
	for (uint32_t i = 0; i < min && i < 16; i++)
		if (schema_empty(b, schema_item(b, c, i)))
			return true;
	return false;
}

bool
schema_shape_empty(Builder *b, const Shape *s)
{
	bool		empty;

	if (s->types & (T_NULL | T_FALSE | T_TRUE) || b->failed || b->looking >= LOOK)
		return false;
	if (!schema_work(b, 5))
		return false;
	b->looking++;
	empty = !((s->types & T_NUM && !schema_numbers_empty(b, &s->num)) ||
			  (s->types & T_STR && !schema_strings_empty(b, &s->str)) ||
			  (s->types & T_ARR && !array_empty(b, &s->arr)) ||
			  (s->types & T_OBJ && !object_empty(b, &s->obj)));
	ASSERT(b->looking > 0);
	b->looking--;
	return empty;
}

bool
schema_empty(Builder *b, Goal *g)
{
	Union	   *u;
	bool		empty = true;

	if (g->nothing)
		return true;
	if (g->n == 0 || g->empty == 1 || g->empty == 2 || b->failed || b->looking >= LOOK)
		return false;
	if (g->empty == 3)
		return true;
	for (uint32_t i = 0; i < g->n; i++)
		if (schema_busy(b, g->lit[i]))
			return false;
	g->empty = 1;
	u = schema_shapes(b, g);
	for (uint32_t i = 0; i < u->n && empty; i++)
		empty = schema_shape_empty(b, u->s[i]);
	g->empty = empty ? 3 : b->looking > 0 ? 0 : 2;
	return empty;
}
