/*
 * schema_expand.c
 *	  Expand a place's keywords to a union of shapes, and the same for the negation.
 *
 * Tested by tests/unit/grammar/schema/test_json_schema.c.
 */
#include "grammar/schema/schema_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

static Union *schema_clause_not(Builder *b, const Clause *c);

#define MAX_DEPTH 150			/* of schemas in place */

static Union *
one(Builder *b, uint8_t types, const Clause *c)
{
	Union	   *u = union_new(b);

	union_add(b, u, shape_with(b, types, c));
	return u;
}

/* ---- type ---- */

static Union *
type_union(Builder *b, const Place *p, const Jv *type, bool neg)
{
	static const struct
	{
		const char *name;
		uint8_t		types;
	}			names[] = {
		{"null", T_NULL}, {"boolean", T_FALSE | T_TRUE}, {"number", T_NUM}, {"string", T_STR},
		{"array", T_ARR}, {"object", T_OBJ}, {"any", T_ALL}
	};
	uint8_t		types = 0;
	bool		integer = false;
	Union	   *u = union_new(b);

	for (const Jv *t = type->type == JV_ARR ? type->child : type; t != NULL;
		 t = type->type == JV_ARR ? t->next : NULL)
	{
		bool		found = false;

		if (t->type != JV_STR)
		{
			schema_fail(b, ERR_INVALID, "\"type\" must be a name or a list of names");
			return u;
		}
		if (t->len == 7 && memcmp(t->s, "integer", 7) == 0)
			found = integer = true;
		for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
			if (t->len == strlen(names[i].name) && memcmp(t->s, names[i].name, t->len) == 0)
			{
				types |= names[i].types;
				found = true;
			}
		if (!found)
			schema_fail(b, ERR_INVALID, "\"%.*s\" is no type of JSON", (int) (t->len > 60 ? 60 : t->len),
						t->s);
	}
	if (types & T_NUM)
		integer = false;
	if (neg)
		types = T_ALL & ~types;
	if (integer)
	{
		Clause	   *c = clause_new(b, C_INTEGER);

		c->n = schema_dialect(b, p) == D_4;
		c->neg = neg;
		types |= T_NUM;
		union_add(b, u, shape_with(b, types, c));
		return u;
	}
	union_add(b, u, shape_with(b, types, NULL));
	return u;
}

/* ---- values ---- */

/* The clauses of an array or object that equals v. */
static Union *
exact(Builder *b, const Jv *v, bool neg)
{
	Clause	   *body = clause_new(b, v->type == JV_ARR ? C_ITEMS : C_PROPS);
	Clause	   *count = clause_new(b, v->type == JV_ARR ? C_COUNT_ITEMS : C_COUNT_PROPS);
	uint8_t		type = v->type == JV_ARR ? T_ARR : T_OBJ;
	uint32_t	n = 0;
	Union	   *u;

	schema_work(b, v->n);
	body->lit = b->lit_false;
	count->n = v->n;
	count->max = v->n;
	if (v->type == JV_ARR)
	{
		Lit		   *list = arena_alloc(b->arena, (v->n + 1) * sizeof(Lit));

		for (const Jv *c = v->child; c != NULL; c = c->next)
			list[n++] = schema_const(b, c);
		ALWAYS(n == v->n);
		body->list = list;
		body->n_list = n;
	}
	else
	{
		Prop	   *p = arena_alloc(b->arena, (v->n + 1) * sizeof(Prop));

		for (const Jv *c = v->child; c != NULL; c = c->next, n++)
			p[n] = (Prop) {.name = c->key, .len = c->key_len, .lit = schema_const(b, c), .rank = n};
		ALWAYS(n == v->n);
		body->prop = p;
		body->n_props = n;
		schema_sort_props(b, body);
	}
	if (!neg)
	{
		u = union_and(b, one(b, type, body), one(b, type, count));
		for (const Jv *c = v->type == JV_OBJ ? v->child : NULL; c != NULL; c = c->next)
		{
			Clause	   *r = clause_new(b, C_REQUIRED);

			r->text = c->key;
			r->len = c->key_len;
			u = union_and(b, u, one(b, type, r));
		}
		return u;
	}
	u = one(b, T_ALL & ~type, NULL);
	union_or(b, u, schema_clause_not(b, body));
	union_or(b, u, schema_clause_not(b, count));
	for (const Jv *c = v->type == JV_OBJ ? v->child : NULL; c != NULL; c = c->next)
	{
		Clause	   *f = clause_new(b, C_FORBIDDEN);

		f->text = c->key;
		f->len = c->key_len;
		union_add(b, u, shape_with(b, T_OBJ, f));
	}
	return u;
}

/* Check the range of an exponent: sets of numbers write out the zeros up to a number's first digit. */
static bool
check_number(Builder *b, const Jv *v)
{
	char		buf[DEC_MAX_TEXT];
	Dec			d;

	if (dec_read(v->s, v->len, buf, &d) && labs(d.exp) <= DEC_MAX_TEXT)
		return true;
	return schema_fail(b, ERR_TOO_LONG, "the number %.*s%s of the JSON schema is too long",
					   (int) (v->len > 40 ? 40 : v->len), v->s, v->len > 40 ? "..." : "");
}

static Union *
schema_values(Builder *b, const Jv *const *v, uint32_t n, bool neg)
{
	Clause	   *num = clause_new(b, C_NUM_IN);
	Clause	   *str = clause_new(b, C_STR_IN);
	Shape	   *s = shape_any(b);
	Union	   *u = union_new(b);
	uint8_t		types = 0;

	num->values = arena_alloc(b->arena, (n + 1) * sizeof(Jv *));
	str->values = arena_alloc(b->arena, (n + 1) * sizeof(Jv *));
	num->neg = str->neg = neg;
	schema_work(b, n);
	for (uint32_t i = 0; i < n; i++)
		switch (v[i]->type)
		{
			case JV_NULL:
				types |= T_NULL;
				break;
			case JV_FALSE:
				types |= T_FALSE;
				break;
			case JV_TRUE:
				types |= T_TRUE;
				break;
			case JV_NUM:
				types |= T_NUM;
				if (check_number(b, v[i]))
					num->values[num->n_values++] = v[i];
				break;
			case JV_STR:
				types |= T_STR;
				str->values[str->n_values++] = v[i];
				break;
			default:
				break;
		}
	s->types = neg ? (uint8_t) (T_ALL & ~(types & (T_NULL | T_FALSE | T_TRUE))) : types;
	if (num->n_values > 0)
		s->num = shape_with(b, T_NUM, num)->num;
	if (str->n_values > 0)
		s->str = shape_with(b, T_STR, str)->str;
	union_add(b, u, s);
	for (uint32_t i = 0; i < n && !b->failed; i++)
		if (v[i]->type == JV_ARR || v[i]->type == JV_OBJ)
		{
			if (neg)
				u = union_and(b, u, exact(b, v[i], true));
			else
				union_or(b, u, exact(b, v[i], false));
		}
	return u;
}

static Union *
enum_union(Builder *b, const Jv *list, bool neg)
{
	const Jv  **v = arena_alloc(b->arena, (list->n + 1) * sizeof(Jv *));
	uint32_t	n = 0;

	for (const Jv *c = list->child; c != NULL; c = c->next)
		v[n++] = c;
	ALWAYS(n <= list->n);
	return schema_values(b, v, n, neg);
}

/* ---- negation of clauses ---- */

/* An item that violates the clause. */
static Union *
items_not(Builder *b, const Clause *c)
{
	Union	   *u = union_new(b);
	Clause	   *x;

	for (uint32_t i = 0; i < c->n_list; i++)
	{
		Lit		   *list = arena_alloc(b->arena, (i + 1) * sizeof(Lit));
		Clause	   *at = clause_new(b, C_ITEMS);
		Clause	   *count = clause_new(b, C_COUNT_ITEMS);

		if (c->list[i] == b->lit_true)
			continue;
		schema_work(b, i);
		for (uint32_t j = 0; j < i; j++)
			list[j] = b->lit_true;
		list[i] = lit_not(c->list[i]);
		at->list = list;
		at->n_list = i + 1;
		at->lit = b->lit_true;
		count->n = i + 1;
		union_or(b, u, union_and(b, one(b, T_ARR, at), one(b, T_ARR, count)));
	}
	if (c->lit == b->lit_true)
		return u;
	x = clause_new(b, C_CONTAINS);
	x->n = 1;
	x->from = c->n_list;
	x->lit = lit_not(c->lit);
	if (c->lit == b->lit_false)
	{
		x->kind = C_COUNT_ITEMS;
		x->n = c->n_list + 1;
	}
	union_add(b, u, shape_with(b, T_ARR, x));
	return u;
}

/* A member that violates the clause. */
static Union *
props_not(Builder *b, const Clause *c)
{
	Union	   *u = union_new(b);

	for (uint32_t i = 0; i < c->n_props; i++)
	{
		Clause	   *need = clause_new(b, C_REQUIRED);
		Clause	   *value = clause_new(b, C_VALUE);

		if (c->prop[i].lit == b->lit_true)
			continue;
		need->text = value->text = c->prop[i].name;
		need->len = value->len = c->prop[i].len;
		value->lit = lit_not(c->prop[i].lit);
		union_or(b, u, union_and(b, one(b, T_OBJ, need), one(b, T_OBJ, value)));
	}
	for (int i = -1; i < (int) c->n_patterns; i++)
	{
		Lit			l = i < 0 ? c->lit : c->pattern[i].lit;
		Clause	   *some = clause_new(b, C_SOME);

		if (l == b->lit_true)
			continue;
		some->props = c;
		some->which = i;
		some->lit = lit_not(l);
		union_add(b, u, shape_with(b, T_OBJ, some));
	}
	return u;
}

static Union *
schema_clause_not(Builder *b, const Clause *c)
{
	uint8_t		type = clause_type(c->kind);
	Union	   *u = union_new(b);
	Clause	   *x = clause_new(b, c->kind);

	*x = *c;
	x->probed = false;
	switch (c->kind)
	{
		case C_COUNT_ITEMS:
		case C_COUNT_PROPS:
		case C_CONTAINS:
			if (c->n > 0)
			{
				x->n = 0;
				x->max = c->n - 1;
				union_add(b, u, shape_with(b, type, x));
			}
			if (c->max != CFG_INF)
			{
				Clause	   *y = clause_new(b, c->kind);

				*y = *c;
				y->n = c->max + 1;
				y->max = CFG_INF;
				union_add(b, u, shape_with(b, type, y));
			}
			return u;
		case C_REQUIRED:
			x->kind = C_FORBIDDEN;
			break;
		case C_FORBIDDEN:
			x->kind = C_REQUIRED;
			break;
		case C_DEP:
			{
				Clause	   *no = clause_new(b, C_FORBIDDEN);

				x->kind = C_REQUIRED;
				no->text = c->text2;
				no->len = c->len2;
				return union_and(b, one(b, T_OBJ, x), one(b, T_OBJ, no));
			}
		case C_NAMES:
			x->kind = C_SOME;
			x->which = -2;
			x->lit = lit_not(c->lit);
			break;
		case C_ITEMS:
			return items_not(b, c);
		case C_PROPS:
			return props_not(b, c);
		case C_UNIQUE:
			schema_refuse(b, "uniqueItems", "It can't be negated.");
			return u;
		default:
			x->neg = !c->neg;
	}
	union_add(b, u, shape_with(b, type, x));
	return u;
}

/* ---- applicators ---- */

static Lit
lit_at(Builder *b, const Place *p, const Jv *v)
{
	return schema_lit(b, v, p->resource);
}

static bool
need_list(Builder *b, const Jv *v, const char *name)
{
	if (v->type == JV_ARR && v->n > 0)
		return true;
	return schema_fail(b, ERR_INVALID, "\"%s\" must be a list that is not empty", name);
}

static Union *
any_of(Builder *b, const Place *p, const Jv *list)
{
	Union	   *u = union_new(b);

	for (const Jv *v = list->child; v != NULL && !b->failed; v = v->next)
		union_or(b, u, schema_expand(b, lit_at(b, p, v)));
	return u;
}

/* The part of s that no other schema of the list accepts. */
static Union *
alone(Builder *b, const Place *p, const Jv *list, uint32_t i, Shape *s)
{
	Union	   *u = union_new(b);
	uint32_t	k = 0;

	union_add(b, u, s);
	for (const Jv *v = list->child; v != NULL && !b->failed && u->n > 0; v = v->next, k++)
	{
		Lit			l = lit_at(b, p, v);
		Union	   *x;

		if (k == i)
			continue;
		x = schema_expand(b, l);
		for (uint32_t j = 0; j < x->n; j++)
		{
			Shape	   *both = shape_and(b, s, x->s[j]);

			if (both != NULL && !schema_shape_empty(b, both))
			{
				u = union_and(b, u, schema_expand(b, lit_not(l)));
				break;
			}
		}
	}
	return u;
}

static Union *
one_of(Builder *b, const Place *p, const Jv *list)
{
	Union	   *u = union_new(b);
	uint32_t	i = 0;

	for (const Jv *v = list->child; v != NULL && !b->failed; v = v->next, i++)
	{
		Union	   *x = schema_expand(b, lit_at(b, p, v));

		for (uint32_t j = 0; j < x->n && !b->failed; j++)
			union_or(b, u, alone(b, p, list, i, x->s[j]));
	}
	return u;
}

/* The negation of oneOf: a value fits none of the list's schemas, or at least two. */
static Union *
one_of_not(Builder *b, const Place *p, const Jv *list)
{
	Union	   *u = union_all(b);

	for (const Jv *v = list->child; v != NULL && !b->failed; v = v->next)
		u = union_and(b, u, schema_expand(b, lit_not(lit_at(b, p, v))));
	for (const Jv *v = list->child; v != NULL && !b->failed; v = v->next)
		for (const Jv *w = v->next; w != NULL && !b->failed; w = w->next)
			union_or(b, u, union_and(b, schema_expand(b, lit_at(b, p, v)),
									 schema_expand(b, lit_at(b, p, w))));
	return u;
}

static Union *
all_of(Builder *b, const Place *p, const Jv *list)
{
	Union	   *u = union_all(b);

	for (const Jv *v = list->child; v != NULL && !b->failed; v = v->next)
		u = union_and(b, u, schema_expand(b, lit_at(b, p, v)));
	return u;
}

/* Some (any), or all, of the schemas are not satisfied. */
static Union *
not_list(Builder *b, const Place *p, const Jv *list, bool any)
{
	Union	   *u = any ? union_new(b) : union_all(b);

	for (const Jv *v = list->child; v != NULL && !b->failed; v = v->next)
	{
		Union	   *x = schema_expand(b, lit_not(lit_at(b, p, v)));

		if (any)
			union_or(b, u, x);
		else
			u = union_and(b, u, x);
	}
	return u;
}

static Union *
if_union(Builder *b, const Place *p, bool neg)
{
	Lit			cond = lit_at(b, p, jv_get(p->v, "if"));
	const Jv   *v = jv_get(p->v, "then");
	Lit			then = v == NULL ? b->lit_true : lit_at(b, p, v);
	Lit			other;
	Union	   *u;

	v = jv_get(p->v, "else");
	other = v == NULL ? b->lit_true : lit_at(b, p, v);
	u = union_and(b, schema_expand(b, cond), schema_expand(b, neg ? lit_not(then) : then));
	union_or(b, u, union_and(b, schema_expand(b, lit_not(cond)),
							 schema_expand(b, neg ? lit_not(other) : other)));
	return u;
}

/* dependentSchemas, and the schemas in dependencies. */
static Union *
dependent(Builder *b, const Place *p, const Jv *map, bool names, bool neg)
{
	Union	   *u = neg ? union_new(b) : union_all(b);

	for (const Jv *v = map->child; v != NULL && !b->failed; v = v->next)
	{
		Clause	   *c;
		Union	   *x;

		/* schema_clauses() handles these entries of "dependencies" */
		if (names && (v->type == JV_ARR || v->type == JV_STR))
			continue;
		c = clause_new(b, neg ? C_REQUIRED : C_FORBIDDEN);
		c->text = v->key;
		c->len = v->key_len;
		if (neg)
			union_or(b, u, union_and(b, one(b, T_OBJ, c), schema_expand(b, lit_not(lit_at(b, p, v)))));
		else
		{
			Clause	   *need = clause_new(b, C_REQUIRED);

			*need = *c;
			need->kind = C_REQUIRED;
			x = union_new(b);
			union_add(b, x, shape_with(b, T_ALL & ~T_OBJ, NULL));
			union_add(b, x, shape_with(b, T_OBJ, c));
			union_or(b, x, union_and(b, one(b, T_OBJ, need), schema_expand(b, lit_at(b, p, v))));
			u = union_and(b, u, x);
		}
	}
	return u;
}

typedef enum Applicator
{
	A_ALL,
	A_ANY,
	A_ONE,
	A_NOT,
	A_IF,
	A_REF,
	A_DEPENDENT,
	A_ENUM,
	A_CONST,
	A_TYPE
} Applicator;

static const struct
{
	const char *name;
	Applicator	what;
	SchemaDialect from;			/* the first dialect that has it */
}			applicators[] = {
	{"type", A_TYPE, D_4}, {"const", A_CONST, D_6}, {"enum", A_ENUM, D_4}, {"$ref", A_REF, D_4},
	{"$recursiveRef", A_REF, D_2019}, {"$dynamicRef", A_REF, D_2020}, {"allOf", A_ALL, D_4},
	{"anyOf", A_ANY, D_4},
	{"oneOf", A_ONE, D_4}, {"not", A_NOT, D_4}, {"if", A_IF, D_7}, {"dependencies", A_DEPENDENT, D_4},
	{"dependentSchemas", A_DEPENDENT, D_2019}
};

static Union *
apply(Builder *b, const Place *p, Applicator what, const Jv *v, const char *name, bool neg)
{
	Place	   *to;

	switch (what)
	{
		case A_TYPE:
			return type_union(b, p, v, neg);
		case A_CONST:
			return schema_values(b, &v, 1, neg);
		case A_ENUM:
			if (v->type != JV_ARR)
				schema_fail(b, ERR_INVALID, "\"enum\" must be a list");
			return enum_union(b, v, neg);
		case A_REF:
			if (v->type != JV_STR)
				schema_fail(b, ERR_INVALID, "\"%s\" must be a string", name);
			/* its meaning depends on the documents through which it is reached */
			if (strcmp(name, "$ref") != 0 && b->n_resources > 1)
				schema_refuse(b, name, "It is supported in schemas that hold no others with an $id.");
			to = b->failed ? NULL : schema_ref(b, v, p->resource);
			if (to == NULL)
				return union_all(b);
			return schema_expand(b, schema_lit(b, to->v, to->resource) ^ neg);
		case A_NOT:
			return schema_expand(b, lit_at(b, p, v) ^ !neg);
		case A_IF:
			return if_union(b, p, neg);
		case A_DEPENDENT:
			return dependent(b, p, v, strcmp(name, "dependencies") == 0, neg);
		default:
			if (!need_list(b, v, name))
				return union_all(b);
			if (what == A_ALL)
				return neg ? not_list(b, p, v, true) : all_of(b, p, v);
			if (what == A_ANY)
				return neg ? not_list(b, p, v, false) : any_of(b, p, v);
			return neg ? one_of_not(b, p, v) : one_of(b, p, v);
	}
}

static Union *
expand_keywords(Builder *b, Place *p, bool neg)
{
	SchemaDialect d = schema_dialect(b, p);
	Union	   *u = neg ? union_new(b) : union_all(b);
	const char *outer = b->keyword;
	Clauses		c;

	for (size_t i = 0; i < sizeof applicators / sizeof applicators[0] && !b->failed; i++)
	{
		const Jv   *v = d != D_ANY && d < applicators[i].from ? NULL : jv_get(p->v, applicators[i].name);
		Union	   *x;

		if (v == NULL)
			continue;
		b->keyword = applicators[i].name;
		x = apply(b, p, applicators[i].what, v, applicators[i].name, neg);
		if (neg)
			union_or(b, u, x);
		else
			u = union_and(b, u, x);
	}
	c = schema_clauses(b, p);
	for (uint32_t i = 0; i < c.n && !b->failed; i++)
	{
		if (neg)
			union_or(b, u, schema_clause_not(b, c.c[i]));
		else
			u = union_and(b, u, one(b, T_ALL, c.c[i]));
	}
	b->keyword = outer;
	return u;
}

Union *
schema_expand(Builder *b, Lit lit)
{
	Place	   *p = b->place[lit >> 1];
	bool		neg = lit & 1;

	if (p->made[neg] != NULL)
		return p->made[neg];
	if (p->busy[neg])
	{
		schema_fail(b, ERR_INVALID, "\"$ref\" leads in a circle in the JSON schema");
		return union_new(b);
	}
	if (b->depth >= MAX_DEPTH)
		schema_fail(b, ERR_TOO_LONG, "schemas of the same value nest deeper than %d", MAX_DEPTH);
	if (b->failed)
		return union_new(b);
	b->depth++;
	p->busy[neg] = true;
	if (p->constant)
		p->made[neg] = schema_values(b, &p->v, 1, neg);
	else if (p->v->type == JV_TRUE || p->v->type == JV_FALSE)
		p->made[neg] = (p->v->type == JV_TRUE) != neg ? union_all(b) : union_new(b);
	else
		p->made[neg] = expand_keywords(b, p, neg);
	p->busy[neg] = false;
	b->depth--;
	return p->made[neg];
}

bool
schema_busy(const Builder *b, Lit lit)
{
	return b->place[lit >> 1]->busy[lit & 1];
}
