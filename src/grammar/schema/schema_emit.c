/*
 * schema_emit.c
 *	  Emit goals as rules of a grammar, and emit arrays.
 *
 * White space belongs to the token before it, so that a token is one lexeme.  In generated texts it
 * belongs to brackets, commas and colons, on their inner sides: none can come after the whole, where a
 * model could go on with white space for ever.
 *
 * Tested by tests/unit/grammar/schema/test_json_schema.c.
 */
#include "grammar/schema/json_schema.h"
#include "grammar/schema/schema_internal.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

#define MAX_SHARED 64			/* items that `contains` counts one by one */

static CfgNode
schema_token(Builder *b, ReNode x)
{
	return cfg_lexeme(b->cfg, b->opt->validate ? re_cat(b->re, x, b->space) : x);
}

CfgNode
schema_open(Builder *b, const char *bracket)
{
	return cfg_lexeme(b->cfg, re_cat(b->re, re_bytes(b->re, bracket, 1), b->space));
}

CfgNode
schema_close(Builder *b, const char *bracket)
{
	ReNode		r = re_bytes(b->re, bracket, 1);

	return schema_token(b, b->opt->validate ? r : re_cat(b->re, b->space, r));
}

/* ---- arrays ---- */

Goal *
schema_item(Builder *b, const Clauses *c, uint32_t i)
{
	Lit		   *lit = arena_alloc(b->arena, (c->n + 1) * sizeof(Lit));
	uint32_t	n = 0;

	for (uint32_t j = 0; j < c->n; j++)
	{
		const Clause *x = c->c[j];

		if (x->kind == C_ITEMS)
			lit[n++] = i < x->n_list ? x->list[i] : x->lit;
		if (x->kind == C_CONTAINS && x->max == 0 && i >= x->from)
			lit[n++] = lit_not(x->lit);
	}
	return schema_goal(b, lit, n);
}

typedef struct Arr
{
	Builder    *b;
	const Clauses *c;
	uint32_t	min,
				max;
	uint32_t	first;			/* items with their own goal */
	const Clause *contains;
	bool		unique;
} Arr;

/* Return a goal with one more literal. */
static Goal *
goal_with(Builder *b, const Goal *g, Lit more)
{
	Lit		   *lit = arena_alloc(b->arena, (g->n + 1) * sizeof(Lit));

	if (g->nothing)
		return b->goal_false;
	memcpy(lit, g->lit, g->n * sizeof(Lit));
	lit[g->n] = more;
	return schema_goal(b, lit, g->n + 1);
}

static CfgNode
items_from(Arr *a, uint32_t first)
{
	Builder    *b = a->b;
	uint32_t	min = a->min > first ? a->min - first : 0;
	uint32_t	max = a->max == CFG_INF ? CFG_INF : a->max > first ? a->max - first : 0;
	CfgNode		item = max == 0 ? CFG_NONE : schema_node(b, schema_item(b, a->c, first));

	if (first == 0)
		return cfg_list(b->cfg, item, b->comma, min, max);
	return cfg_repeat(b->cfg, cfg_seq(b->cfg, b->comma, item), min, max);
}

/* The first items each with its own goal, then the others. */
static CfgNode
tuple(Arr *a, uint32_t at, Lit more)
{
	Builder    *b = a->b;
	CfgNode		r = items_from(a, a->first);

	for (uint32_t i = a->first; i-- > 0 && !b->failed;)
	{
		Goal	   *g = schema_item(b, a->c, i);
		CfgNode		item = i >= a->max ? CFG_NONE : schema_node(b, i == at ? goal_with(b, g, more) : g);

		schema_work(b, 5);
		if (i > 0)
			item = cfg_seq(b->cfg, b->comma, item);
		r = cfg_seq(b->cfg, item, r);
		if (i >= a->min)
			r = cfg_optional(b->cfg, r);
	}
	return r;
}

/* All items have the same goal; n .. max of them satisfy the clause. */
static CfgNode
counted(Arr *a)
{
	Builder    *b = a->b;
	const Clause *k = a->contains;
	Goal	   *g = schema_item(b, a->c, a->first);
	CfgMember	m[MAX_SHARED];
	CfgMembers	all = {.member = m, .sep = b->comma, .min = a->min, .max = a->max};

	all.n = k->max == CFG_INF ? k->n : k->max;
	if (all.n > MAX_SHARED)
	{
		schema_refuse(b, "contains", "Its counts are supported up to 64.");
		return CFG_NONE;
	}
	ALWAYS(all.n <= MAX_SHARED);
	for (uint32_t i = 0; i < all.n; i++)
		m[i] = (CfgMember) {schema_node(b, goal_with(b, g, k->lit)), i < k->n};
	all.rest = schema_node(b, k->max == CFG_INF ? g : goal_with(b, g, lit_not(k->lit)));
	return cfg_members(b->cfg, &all);
}

static CfgNode
with_contains(Arr *a)
{
	Builder    *b = a->b;
	const Clause *k = a->contains;
	CfgNode		r = CFG_NONE;

	if (a->first == 0 && k->from == 0)
		return counted(a);
	if (k->n != 1 || k->max != CFG_INF)
	{
		schema_refuse(b, "contains", "Beside items that are given one by one it is supported without "
									 "counts.");
		return r;
	}
	/* the item that satisfies the clause is one of the first, or among the others */
	for (uint32_t i = k->from; i < a->first && !b->failed; i++)
	{
		Arr			x = *a;

		x.min = a->min > i + 1 ? a->min : i + 1;
		if (x.min <= x.max)
			r = cfg_alt(b->cfg, r, tuple(&x, i, k->lit));
	}
	{
		/* any number of others, that item, any number of others */
		uint32_t	first = a->first > k->from ? a->first : k->from;
		Arr			x = *a;
		Goal	   *g = schema_item(b, a->c, first);
		CfgNode		item = cfg_seq(b->cfg, b->comma, schema_node(b, g));
		CfgNode		it = cfg_seq(b->cfg, b->comma, schema_node(b, goal_with(b, g, k->lit)));
		CfgNode		any = cfg_repeat(b->cfg, item, 0, CFG_INF);

		if (a->max != CFG_INF || a->min > first + 1)
		{
			schema_refuse(b, "contains",
						  "Beside items that are given one by one it is supported without minItems and "
						  "maxItems.");
			return r;
		}
		x.first = first;
		x.min = x.max = first;
		r = cfg_alt(b->cfg, r,
					cfg_seq(b->cfg, tuple(&x, CFG_INF, 0), cfg_seq(b->cfg, any, cfg_seq(b->cfg, it, any))));
	}
	return r;
}

/* Items without duplicates: if there are few values, each value becomes a member. */
static CfgNode
unique(Arr *a)
{
	Builder    *b = a->b;
	Union	   *u = schema_shapes(b, schema_item(b, a->c, a->first));
	CfgMember	m[MAX_SHARED];
	CfgMembers	all = {.member = m, .sep = b->comma, .min = a->min, .max = a->max};
	bool		ok = a->first == 0 && a->contains == NULL;

	for (uint32_t i = 0; i < u->n && ok; i++)
	{
		const Shape *s = u->s[i];
		const Clause *list = NULL;

		ok = (s->types & (T_ARR | T_OBJ | T_NUM)) == 0 && u->n == 1;
		for (uint32_t j = 0; j < s->str.n && s->types & T_STR; j++)
			if (s->str.c[j]->kind == C_STR_IN && !s->str.c[j]->neg)
				list = s->str.c[j];
		ok &= !(s->types & T_STR) || (list != NULL && list->n_values <= MAX_SHARED - 3);
		for (uint32_t j = 0; ok && list != NULL && j < list->n_values; j++)
		{
			Lit			one = schema_const(b, list->values[j]);
			Goal	   *g = goal_with(b, schema_item(b, a->c, 0), one);
			bool		again = false;

			for (uint32_t k = 0; k < j; k++)
				again |= jv_equal(list->values[k], list->values[j]);
			if (!again && !schema_empty(b, g))
				m[all.n++] = (CfgMember) {schema_node(b, g), false};
		}
		for (uint8_t t = T_NULL; ok && t <= T_TRUE; t = (uint8_t) (t << 1))
			if (s->types & t)
				m[all.n++] = (CfgMember) {schema_token(b, t == T_NULL ? re_bytes(b->re, "null", 4) :
													   t == T_FALSE ? re_bytes(b->re, "false", 5) :
														   re_bytes(b->re, "true", 4)), false};
	}
	if (!ok)
		schema_refuse(b, "uniqueItems", "It is supported for items of up to 60 listed strings, null, false "
										"and true.");
	ALWAYS(all.n <= MAX_SHARED);
	return b->failed ? CFG_NONE : cfg_members(b->cfg, &all);
}

static CfgNode
schema_array(Builder *b, const Clauses *c)
{
	Arr			a = {.b = b, .c = c, .max = CFG_INF};
	CfgNode		r;

	for (uint32_t i = 0; i < c->n; i++)
	{
		const Clause *x = c->c[i];

		if (x->kind == C_ITEMS && x->n_list > a.first)
			a.first = x->n_list;
		if (x->kind == C_COUNT_ITEMS)
		{
			a.min = x->n > a.min ? x->n : a.min;
			a.max = x->max < a.max ? x->max : a.max;
		}
		if (x->kind == C_CONTAINS && x->n > x->max)
			return CFG_NONE;
		if (x->kind == C_CONTAINS && (x->n > 0 || (x->max != 0 && x->max != CFG_INF)))
		{
			if (a.contains != NULL)
				schema_refuse(b, "contains", "More than one of the same array is not supported.");
			a.contains = x;
		}
		if (x->kind == C_CONTAINS && x->max == 0 && x->from > a.first)
			a.first = x->from;
		a.unique |= x->kind == C_UNIQUE;
	}
	/* the array ends before the first item that has no value */
	for (uint32_t i = 0; i <= a.first && i < a.max && !b->failed; i++)
		if (schema_item(b, c, i)->nothing || schema_empty(b, schema_item(b, c, i)))
			a.max = i;
	if (a.min > a.max || b->failed)
		return CFG_NONE;
	if (a.first > a.max)
		a.first = a.max;
	r = a.unique && a.max > 1 ? unique(&a) : a.contains != NULL ? with_contains(&a) : tuple(&a, CFG_INF, 0);
	return cfg_seq(b->cfg, schema_open(b, "["), cfg_seq(b->cfg, r, schema_close(b, "]")));
}

/* ---- goals ---- */

static ReNode
quoted(Builder *b, ReNode inside)
{
	ReNode		quote = re_bytes(b->re, "\"", 1);

	return re_cat(b->re, quote, re_cat(b->re, inside, quote));
}

/* Null, booleans, numbers and strings of all shapes. */
static ReNode
scalars(Builder *b, const Union *u)
{
	static const struct
	{
		uint8_t		type;
		const char *text;
	}			words[] = {{T_NULL, "null"}, {T_FALSE, "false"}, {T_TRUE, "true"}};
	uint8_t		types = 0;
	ReNode		r = RE_NONE,
				strings = RE_NONE;

	for (uint32_t i = 0; i < u->n && !b->failed; i++)
	{
		types |= u->s[i]->types;
		if (u->s[i]->types & T_NUM)
			r = re_or(b->re, r, schema_numbers(b, &u->s[i]->num));
		if (u->s[i]->types & T_STR)
			strings = re_or(b->re, strings, schema_strings(b, &u->s[i]->str));
	}
	for (int i = 0; i < 3; i++)
		if (types & words[i].type)
			r = re_or(b->re, r, re_bytes(b->re, words[i].text, strlen(words[i].text)));
	return re_or(b->re, r, quoted(b, strings));
}

static CfgNode
body(Builder *b, const Union *u)
{
	ReNode		r = scalars(b, u);
	CfgNode    *all = mem_alloc((2 * (size_t) u->n + 1) * sizeof(CfgNode));
	size_t		n = 0;

	if (r != RE_NONE)
		all[n++] = schema_token(b, r);
	for (uint32_t i = 0; i < u->n && !b->failed; i++)
	{
		if (u->s[i]->types & T_ARR)
			all[n++] = schema_array(b, &u->s[i]->arr);
		if (u->s[i]->types & T_OBJ)
			all[n++] = schema_object(b, &u->s[i]->obj);
	}
	ALWAYS(n <= 2 * (size_t) u->n + 1);
	r = cfg_alts(b->cfg, all, n);
	mem_free(all);
	return r;
}

CfgNode
schema_node(Builder *b, Goal *g)
{
	Union	   *u;
	bool		deep = false;

	if (g->nothing || b->failed)
		return CFG_NONE;
	if (g->is_node)
		return g->node;
	if (g->has_rule)
		return cfg_ref(b->cfg, g->rule);
	u = schema_shapes(b, g);
	for (uint32_t i = 0; i < u->n; i++)
		deep |= (u->s[i]->types & (T_ARR | T_OBJ)) != 0;
	if (!deep)
	{
		g->is_node = true;
		return g->node = body(b, u);
	}
	/* a goal is in the queue only once */
	ASSERT(g->queue_next == NULL && *b->queue_end == NULL);
	g->has_rule = true;
	g->rule = cfg_rule_new(b->cfg);
	*b->queue_end = g;
	b->queue_end = &g->queue_next;
	return cfg_ref(b->cfg, g->rule);
}

/* ---- the whole schema ---- */

static bool
is_space(Regex *re, ReNode x)
{
	static const char all[] = "[ \\t\\n\\r]*";
	ReSyntax	syntax = {.mode = RE_RAW};
	ReNode		space = RE_NONE;
	Err			e = {0};

	re_parse(re, all, strlen(all), &syntax, &space, &e);
	return !re_live(re, re_and(re, x, re_not(re, space)));
}

static bool
setup(Builder *b, const GramOptions *o)
{
	ReSyntax	syntax = {.mode = RE_RAW};
	const char *space = o->whitespace_pattern != NULL ? o->whitespace_pattern :
		o->validate ? "[ \\t\\n\\r]*" : "(?: |\\n[ \\t]{0,40})?";

	if (!o->validate && o->disable_any_whitespace)
		b->space = RE_EMPTY;
	else if (!re_parse(b->re, space, strlen(space), &syntax, &b->space, b->e))
		return false;
	if (o->whitespace_pattern != NULL && !is_space(b->re, b->space))
	{
		err_set(b->e, ERR_INVALID, "whitespace_pattern must match nothing but the white space of JSON");
		err_detail(b->e, "parameter=structured_outputs.whitespace_pattern");
		return err_hint(b->e, "That is space, tab, newline and carriage return, as in [ \\t\\n\\r]*; \\s "
							  "matches more.");
	}
	b->mode = o->validate ? RE_JSON : RE_JSON_USUAL;
	b->any_string = re_any_text(b->re, b->mode);
	b->after_colon = b->space;
	if (!o->validate && o->disable_any_whitespace)
		b->after_colon = re_bytes(b->re, " ", 1);
	b->comma = cfg_lexeme(b->cfg, re_cat(b->re, o->validate ? RE_EMPTY : b->space,
										 re_cat(b->re, re_bytes(b->re, ",", 1), b->after_colon)));
	b->queue_end = &b->queue;
	return true;
}

bool
schema_build(Cfg *c, const char *schema, size_t n, const GramOptions *o, CfgNode *out, Err *e)
{
	Builder		b = {.cfg = c, .re = cfg_re(c), .opt = o, .e = e};
	const Jv   *root;
	Lit			lit;
	bool		ok;

	b.arena = arena_new();
	b.probe = re_new(0);
	root = jv_read(b.arena, schema, n, e);
	ok = root != NULL && setup(&b, o);
	if (ok && root->type != JV_OBJ && root->type != JV_TRUE && root->type != JV_FALSE)
		ok = err_set(e, ERR_INVALID, "a JSON schema must be an object or a boolean");
	if (ok && schema_load(&b, root, &lit))
	{
		*out = schema_node(&b, schema_goal(&b, &lit, 1));
		for (Goal *g = b.queue; g != NULL && !b.failed; g = g->queue_next)
			cfg_rule_define(c, g->rule, body(&b, schema_shapes(&b, g)));
	}
	if (ok && !b.failed && o->validate)
		*out = cfg_seq(c, cfg_lexeme(c, b.space), *out);
	ok = ok && !b.failed && re_check(b.probe, e);
	re_free(b.probe);
	arena_free(b.arena);
	return ok;
}

bool
schema_any(Cfg *c, bool object, const GramOptions *o, CfgNode *out, Err *e)
{
	const char *s = object ? "{\"type\":\"object\"}" : "true";

	return schema_build(c, s, strlen(s), o, out, e);
}
