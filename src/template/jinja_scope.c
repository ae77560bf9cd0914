/*
 * jinja_scope.c
 *	  Find the names that are undefined when a scope is entered, whatever they are outside.
 *
 * jinja2 decides at compile time what a name means in a scope.  A name that is set in a scope, and
 * neither read there before nor known in an enclosing scope, belongs to that scope from its beginning:
 * until it is set it is undefined, also for loops and macros inside, even if the caller passed a
 * variable of that name.  This pass finds these names as jinja2's idtracking does; entering the scope
 * makes them undefined.
 *
 * Tested by tests/golden/jinja_golden.c.
 */
#include <string.h>

#include "base/assert.h"
#include "template/jinja_internal.h"

typedef enum Meaning
{
	M_RESOLVE,					/* a variable from outside */
	M_UNDEFINED,				/* belongs to this scope, not set yet */
	M_ALIAS,					/* a copy of an outer scope's */
	M_PARAM
} Meaning;

typedef struct Symbols
{
	const struct Symbols *up;
	JDict	   *refs;			/* name -> Meaning */
	JDict	   *stores;			/* names that are set */
} Symbols;

static void visit(Jin *j, Symbols *s, const JNode *n);
static void scopes(Jin *j, const Symbols *s, JNode *n);

static void
define(Jin *j, Symbols *s, JStr *name, Meaning m)
{
	ASSERT(m <= M_PARAM);
	jin_dict_put(j, s->refs, jin_sval(name), jin_int(m));
}

static bool
known(Jin *j, const Symbols *s, JStr *name)
{
	for (; s != NULL; s = s->up)
		if (jin_dict_find(j, s->refs, jin_sval(name)) != NULL)
			return true;
	return false;
}

static void
load(Jin *j, Symbols *s, JStr *name)
{
	if (!known(j, s, name))
		define(j, s, name, M_RESOLVE);
}

static void
store(Jin *j, Symbols *s, JStr *name)
{
	jin_dict_put(j, s->stores, jin_sval(name), jin_none());
	if (jin_dict_find(j, s->refs, jin_sval(name)) == NULL)
		define(j, s, name, known(j, s->up, name) ? M_ALIAS : M_UNDEFINED);
}

static void
param(Jin *j, Symbols *s, JStr *name)
{
	jin_dict_put(j, s->stores, jin_sval(name), jin_none());
	define(j, s, name, M_PARAM);
}

/* Process the names of a target, as parameters or as names set. */
static void
target(Jin *j, Symbols *s, const JNode *n, void (*as) (Jin *j, Symbols *s, JStr *name))
{
	if (n->kind == N_TUPLE)
		for (const JNode *k = n->kids; k != NULL; k = k->next)
			target(j, s, k, as);
	else if (n->kind == N_NSREF)
		load(j, s, n->str);
	else
	{
		ASSERT(n->kind == N_NAME);
		as(j, s, n->str);
	}
}

static void
copy_into(Jin *j, JDict *to, const JDict *from)
{
	for (size_t i = 0; i < from->n; i++)
		jin_dict_put(j, to, from->e[i].k, from->e[i].v);
}

static Symbols
branch(Jin *j, const Symbols *s)
{
	Symbols		r = {.up = s->up,.refs = jin_dict(j),.stores = jin_dict(j)};

	copy_into(j, r.refs, s->refs);
	copy_into(j, r.stores, s->stores);
	return r;
}

/* Join branches: a name set in only some branches doesn't belong to the scope from its beginning. */
static void
join_branches(Jin *j, Symbols *s, const Symbols b[3])
{
	JDict	   *set = jin_dict(j);

	for (int i = 0; i < 3; i++)
		for (size_t k = 0; k < b[i].stores->n; k++)
		{
			JVal		name = b[i].stores->e[k].k;

			if (jin_dict_find(j, s->stores, name) == NULL)
				jin_dict_put(j, set, name, jin_none());
		}
	for (int i = 0; i < 3; i++)
	{
		copy_into(j, s->refs, b[i].refs);
		copy_into(j, s->stores, b[i].stores);
	}
	for (size_t k = 0; k < set->n; k++)
		define(j, s, set->e[k].k.s, known(j, s->up, set->e[k].k.s) ? M_ALIAS : M_RESOLVE);
}

static void
visit_if(Jin *j, Symbols *s, const JNode *n)
{
	Symbols		b[3];
	Symbols		one[3];

	visit(j, s, n->a);
	for (int i = 0; i < 3; i++)
		b[i] = branch(j, s);
	visit(j, &b[0], n->b);
	for (n = n->c; n != NULL && n->kind == N_IF; n = n->c)
	{
		visit(j, &b[1], n->a);
		for (int i = 0; i < 3; i++)
			one[i] = branch(j, &b[1]);
		visit(j, &one[0], n->b);
		join_branches(j, &b[1], one);
	}
	if (n != NULL)
		visit(j, &b[2], n);
	join_branches(j, s, b);
}

static void
visit_kids(Jin *j, Symbols *s, const JNode *n)
{
	for (const JNode *k = n->kids; k != NULL; k = k->next)
		visit(j, s, k);
}

/* Record what a node does to the scope that contains it. */
static void
visit(Jin *j, Symbols *s, const JNode *n)
{
	if (n == NULL)
		return;
	jin_enter(j);
	switch (n->kind)
	{
		case N_NAME:
			load(j, s, n->str);
			break;
		case N_IF:
			visit_if(j, s, n);
			break;
		case N_MACRO:
			store(j, s, n->str);
			break;
		case N_SET:
			visit(j, s, n->b);
			target(j, s, n->a, store);
			break;
		case N_SETBLOCK:
			target(j, s, n->a, store);
			break;
		case N_FOR:
			visit(j, s, n->b);
			break;
		case N_CALL:
			visit(j, s, n->a);
			break;
		case N_FILTERBLOCK:
			visit(j, s, n->b);
			break;
		case N_WITH:
			for (const JNode *k = n->kids; k != NULL; k = k->next)
				visit(j, s, k->b);
			break;
		case N_SCOPED:
			break;
		default:
			visit(j, s, n->a);
			visit(j, s, n->b);
			visit(j, s, n->c);
			visit_kids(j, s, n);
	}
	jin_leave(j);
}

static JList *
undefined_names(Jin *j, const Symbols *s)
{
	JList	   *l = NULL;

	for (size_t i = 0; i < s->refs->n; i++)
		if (s->refs->e[i].v.i == M_UNDEFINED)
		{
			if (l == NULL)
				l = jin_list(j, 2);
			jin_list_add(j, l, s->refs->e[i].k);
		}
	return l;
}

static Symbols
inner(Jin *j, const Symbols *up)
{
	return (Symbols) {.up = up,.refs = jin_dict(j),.stores = jin_dict(j)};
}

/* Finish a scope whose body has been visited: its names, and the scopes in it. */
static JList *
finish(Jin *j, Symbols *s, JNode *body)
{
	visit(j, s, body);
	scopes(j, s, body);
	return undefined_names(j, s);
}

static void
for_scopes(Jin *j, const Symbols *up, JNode *n)
{
	Symbols		s = inner(j, up);

	param(j, &s, jin_str(j, "loop", 4, false));
	target(j, &s, n->a, param);
	n->undef = finish(j, &s, n->c);
	if (n->d != NULL)
	{
		s = inner(j, up);
		n->undef_else = finish(j, &s, n->d);
	}
}

/* Process the scopes that n opens, or that are in it. */
static void
scopes(Jin *j, const Symbols *up, JNode *n)
{
	Symbols		s;

	if (n == NULL)
		return;
	jin_enter(j);
	switch (n->kind)
	{
		case N_FOR:
			for_scopes(j, up, n);
			break;
		case N_MACRO:
		case N_CALL:
			s = inner(j, up);
			for (JNode *k = n->kids; k != NULL; k = k->next)
				param(j, &s, k->str);
			for (JNode *k = n->kids; k != NULL; k = k->next)
				visit(j, &s, k->a);
			n->undef = finish(j, &s, n->c);
			break;
		case N_WITH:
			s = inner(j, up);
			for (JNode *k = n->kids; k != NULL; k = k->next)
				target(j, &s, k->a, param);
			n->undef = finish(j, &s, n->c);
			break;
		case N_FILTERBLOCK:
		case N_SETBLOCK:
		case N_SCOPED:
			s = inner(j, up);
			n->undef = finish(j, &s, n->c);
			break;
		case N_IF:
			scopes(j, up, n->b);
			scopes(j, up, n->c);
			break;
		case N_BODY:
			for (JNode *k = n->kids; k != NULL; k = k->next)
				scopes(j, up, k);
			break;
		default:
			break;
	}
	jin_leave(j);
}

void
jin_find_scopes(Jin *j, JNode *body)
{
	Symbols		s = inner(j, NULL);

	body->undef = finish(j, &s, body);
}

void
jin_undefine(Jin *j, JScope *sc, const JList *names)
{
	for (size_t i = 0; names != NULL && i < names->n; i++)
		jin_let(j, sc, names->v[i].s, jin_missing(j, names->v[i].s));
}
