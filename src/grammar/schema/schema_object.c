/*
 * schema_object.c
 *	  Emit the clauses of an object as members (cfg.h).
 *
 * All names that a clause mentions are members; every other name falls into a class by the patterns that
 * it matches, and each class has a Goal for its values.  A clause "some member ..." (required by a
 * negated keyword) means either one of the named members, which is a choice between grammars, or an
 * additional required member whose name is a pattern.
 *
 * Tested by tests/unit/grammar/schema/test_json_schema.c.
 */
#include "grammar/schema/schema_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

#define MAX_PATTERNS	12
#define MAX_CHOICES		64		/* grammars for one shape */
#define MAX_SOMES		16
#define MAX_NAMES		20000

typedef struct Name
{
	const char *s;
	size_t		len;
	uint32_t	order;
	bool		required,
				forbidden;
	CfgNode		node;			/* key and value, once made */
} Name;

/* One shape while it is emitted. */
typedef struct Obj
{
	Builder    *b;
	const Clauses *c;
	Name	   *name;			/* sorted by name while names are looked up */
	uint32_t	n;
	uint32_t	min,
				max;
	const Prop **pattern;		/* patterns of all clauses, each text once */
	uint32_t	n_patterns;
	Goal	   *names;			/* goal of the names */
	bool		closed;			/* generation: no other members */
	const Clause *some[MAX_SOMES];
	int			chosen[MAX_SOMES];	/* a name, or -1: one of the others */
	uint32_t	n_somes;
	uint32_t	choices;
} Obj;

/* ---- what clauses require of a member ---- */

static const Prop *
find_prop(const Clause *c, const char *s, size_t n)
{
	uint32_t	lo = 0,
				hi = c->n_props;

	while (lo < hi)
	{
		uint32_t	mid = (lo + hi) / 2;
		const Prop *p = c->sorted[mid];
		size_t		m = p->len < n ? p->len : n;
		int			cmp = memcmp(p->name, s, m);

		if (cmp == 0)
			cmp = p->len < n ? -1 : p->len > n;
		if (cmp == 0)
			return p;
		if (cmp < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

static bool
matches(Builder *b, const char *pattern, size_t n, const char *s, size_t len)
{
	ReNode		r;

	schema_work(b, 20 + len);
	r = schema_pattern(b, b->probe, RE_RAW, pattern, n);
	return !b->failed && re_match(b->probe, r, s, len);
}

Goal *
schema_member(Builder *b, const Clauses *c, const char *s, size_t n, const Lit *more, uint32_t n_more)
{
	uint32_t	cap = n_more + 1;
	uint32_t	k = n_more;
	Lit		   *lit;
	Goal	   *g;

	for (uint32_t i = 0; i < c->n; i++)
		cap += 1 + c->c[i]->n_patterns;
	lit = mem_alloc(cap * sizeof(Lit));
	if (n_more > 0)
		memcpy(lit, more, n_more * sizeof(Lit));
	for (uint32_t i = 0; i < c->n && !b->failed; i++)
	{
		const Clause *x = c->c[i];
		const Prop *p;
		uint32_t	before = k;

		if (x->kind == C_FORBIDDEN && x->len == n && memcmp(x->text, s, n) == 0)
			lit[k++] = b->lit_false;
		if (x->kind == C_VALUE && x->len == n && memcmp(x->text, s, n) == 0)
			lit[k++] = x->lit;
		if (x->kind == C_NAMES && !schema_goal_has(b, schema_goal(b, &x->lit, 1), s, n))
			lit[k++] = b->lit_false;
		if (x->kind != C_PROPS)
			continue;
		p = find_prop(x, s, n);
		if (p != NULL)
			lit[k++] = p->lit;
		for (uint32_t j = 0; j < x->n_patterns; j++)
			if (matches(b, x->pattern[j].name, x->pattern[j].len, s, n))
				lit[k++] = x->pattern[j].lit;
		if (k == before)
			lit[k++] = x->lit;
	}
	ALWAYS(k <= cap);
	g = schema_goal(b, lit, k);
	mem_free(lit);
	return g;
}

/* ---- names ---- */

static int
by_name(const void *a, const void *b)
{
	const Name *x = a,
			   *y = b;
	size_t		n = x->len < y->len ? x->len : y->len;
	int			c = memcmp(x->s, y->s, n);

	return c != 0 ? c : x->len != y->len ? (x->len < y->len ? -1 : 1) : x->order < y->order ? -1 :
		x->order > y->order;
}

static int
by_order(const void *a, const void *b)
{
	return ((const Name *) a)->order < ((const Name *) b)->order ? -1 : 1;
}

static void
collect_names(Obj *o)
{
	uint32_t	cap = 1,
				n = 0,
				m = 0;

	for (uint32_t i = 0; i < o->c->n; i++)
		cap += o->c->c[i]->n_props + 2 + (o->c->c[i]->props == NULL ? 0 : o->c->c[i]->props->n_props);
	o->name = mem_zalloc(cap * sizeof(Name));
	for (uint32_t i = 0; i < o->c->n; i++)
	{
		const Clause *c = o->c->c[i];
		const Clause *p = c->kind == C_PROPS ? c : c->props;

		for (uint32_t j = 0; p != NULL && j < p->n_props; j++, n++)
			o->name[n] = (Name) {.s = p->prop[j].name, .len = p->prop[j].len, .order = n};
		if (c->kind == C_REQUIRED || c->kind == C_FORBIDDEN || c->kind == C_VALUE || c->kind == C_DEP)
		{
			o->name[n] = (Name) {.s = c->text, .len = c->len, .order = n,
				.required = c->kind == C_REQUIRED, .forbidden = c->kind == C_FORBIDDEN};
			n++;
		}
		if (c->kind == C_DEP)
		{
			o->name[n] = (Name) {.s = c->text2, .len = c->len2, .order = n};
			n++;
		}
	}
	ALWAYS(n < cap);
	schema_work(o->b, n * 4);
	qsort(o->name, n, sizeof(Name), by_name);
	for (uint32_t i = 0; i < n; i++)
	{
		Name	   *p = &o->name[m > 0 ? m - 1 : 0];

		if (m > 0 && p->len == o->name[i].len && memcmp(p->s, o->name[i].s, p->len) == 0)
		{
			p->required |= o->name[i].required;
			p->forbidden |= o->name[i].forbidden;
		}
		else
			o->name[m++] = o->name[i];
	}
	o->n = m;
	if (m > MAX_NAMES)
		schema_fail(o->b, ERR_TOO_LONG, "an object of the JSON schema has more than %d members", MAX_NAMES);
	qsort(o->name, m, sizeof(Name), by_order);
}

static int
find_name(const Obj *o, const char *s, size_t n)
{
	for (uint32_t i = 0; i < o->n; i++)
		if (o->name[i].len == n && memcmp(o->name[i].s, s, n) == 0)
			return (int) i;
	return -1;
}

/* Add a clause's patterns to those of the object. */
static void
add_patterns(Obj *o, const Clause *c)
{
	for (uint32_t j = 0; j < c->n_patterns; j++)
	{
		const Prop **old = o->pattern;
		bool		have = false;

		for (uint32_t k = 0; k < o->n_patterns; k++)
			have |= old[k]->len == c->pattern[j].len && memcmp(old[k]->name, c->pattern[j].name,
															   old[k]->len) == 0;
		if (have)
			continue;
		o->pattern = arena_alloc(o->b->arena, (o->n_patterns + 1) * sizeof(Prop *));
		if (old != NULL)
			memcpy(o->pattern, old, o->n_patterns * sizeof(Prop *));
		o->pattern[o->n_patterns++] = &c->pattern[j];
	}
}

static void
collect(Obj *o)
{
	Builder    *b = o->b;
	Lit		   *lit = arena_alloc(b->arena, (o->c->n + 1) * sizeof(Lit));
	uint32_t	n = 0;
	uint32_t	open = 0,
				props = 0;

	o->max = CFG_INF;
	for (uint32_t i = 0; i < o->c->n; i++)
	{
		const Clause *c = o->c->c[i];

		if (c->kind == C_COUNT_PROPS)
		{
			o->min = c->n > o->min ? c->n : o->min;
			o->max = c->max < o->max ? c->max : o->max;
		}
		if (c->kind == C_NAMES)
			lit[n++] = c->lit;
		if (c->kind == C_SOME && o->n_somes < MAX_SOMES)
			o->some[o->n_somes++] = c;
		else if (c->kind == C_SOME)
			schema_too_many(b);
		if (c->kind == C_SOME && c->props != NULL)
			add_patterns(o, c->props);
		if (c->kind != C_PROPS)
			continue;
		open += !c->closed_by_default;
		props += c->n_props + c->n_patterns;
		add_patterns(o, c);
	}
	ALWAYS(n <= o->c->n && o->n_somes <= MAX_SOMES);
	o->names = schema_goal(b, lit, n);
	o->closed = !b->opt->validate && (b->opt->disable_additional_properties ||
									  (b->opt->strict && open == 0 && props > 0 && o->min <= o->n));
	if (o->n_patterns > MAX_PATTERNS)
		schema_fail(b, ERR_TOO_LONG, "the JSON schema has more than %d patterns for the names of one object",
					MAX_PATTERNS);
}

/* ---- members ---- */

/* "name": with white space after it */
static CfgNode
key(Builder *b, ReNode inside)
{
	ReNode		quote = re_bytes(b->re, "\"", 1);
	ReNode		r = re_cat(b->re, quote, re_cat(b->re, inside, quote));

	if (b->opt->validate)
		r = re_cat(b->re, r, b->space);
	r = re_cat(b->re, r, re_bytes(b->re, ":", 1));
	return cfg_lexeme(b->cfg, re_cat(b->re, r, b->after_colon));
}

static CfgNode
member(Builder *b, ReNode name, Goal *g)
{
	if (name == RE_NONE || schema_empty(b, g))
		return CFG_NONE;
	return cfg_seq(b->cfg, key(b, name), schema_node(b, g));
}

/* Names that are not listed and match exactly the patterns of the mask. */
static ReNode
class_names(Obj *o, Regex *re, ReMode mode, ReNode named, uint32_t mask)
{
	ReNode		r = re_not(re, named);

	for (uint32_t i = 0; i < o->n_patterns; i++)
	{
		ReNode		p = schema_pattern(o->b, re, mode, o->pattern[i]->name, o->pattern[i]->len);

		r = re_and(re, r, mask >> i & 1 ? p : re_not(re, p));
	}
	return r;
}

static Goal *
class_goal(Obj *o, uint32_t mask, const Lit *more, uint32_t n_more)
{
	Builder    *b = o->b;
	Lit		   *lit = arena_alloc(b->arena, (o->c->n * (o->n_patterns + 1) + n_more + 1) * sizeof(Lit));
	uint32_t	n = 0;

	for (uint32_t i = 0; i < n_more; i++)
		lit[n++] = more[i];
	for (uint32_t i = 0; i < o->c->n; i++)
	{
		const Clause *c = o->c->c[i];
		uint32_t	before = n;

		if (c->kind != C_PROPS)
			continue;
		for (uint32_t j = 0; j < c->n_patterns; j++)
			for (uint32_t k = 0; k < o->n_patterns; k++)
				if (mask >> k & 1 && o->pattern[k]->len == c->pattern[j].len &&
					memcmp(o->pattern[k]->name, c->pattern[j].name, c->pattern[j].len) == 0)
					lit[n++] = c->pattern[j].lit;
		if (n == before)
			lit[n++] = c->lit;
	}
	return schema_goal(b, lit, n);
}

/* Return true if the "some" clause covers members of this class.  mask: as in class_names() */
static bool
some_in_class(const Obj *o, const Clause *some, uint32_t mask)
{
	const Clause *p = some->props;

	if (some->which == -2)
		return true;
	for (uint32_t k = 0; k < o->n_patterns; k++)
		for (uint32_t j = 0; j < p->n_patterns; j++)
			if (o->pattern[k]->len == p->pattern[j].len && memcmp(o->pattern[k]->name, p->pattern[j].name,
																  p->pattern[j].len) == 0 &&
				mask >> k & 1)
			{
				if (some->which == (int) j)
					return true;
				if (some->which == -1)
					return false;
			}
	return some->which == -1;
}

/* Return true if the name can be the member that the "some" clause requires. */
static bool
some_is_name(Obj *o, const Clause *some, const Name *name)
{
	Builder    *b = o->b;
	const Clause *p = some->props;

	if (some->which == -2)
		return schema_goal_has(b, schema_goal(b, &some->lit, 1), name->s, name->len);
	if (some->which >= 0)
		return matches(b, p->pattern[some->which].name, p->pattern[some->which].len, name->s, name->len);
	if (find_prop(p, name->s, name->len) != NULL)
		return false;
	for (uint32_t j = 0; j < p->n_patterns; j++)
		if (matches(b, p->pattern[j].name, p->pattern[j].len, name->s, name->len))
			return false;
	return true;
}

/*
 * Names of the unnamed members that match exactly the patterns of the mask; *g is the goal of their
 * values.
 */
static ReNode
class_of(Obj *o, ReNode named, ReNode raw_named, const Clause *some, uint32_t mask, Goal **g)
{
	Builder    *b = o->b;
	ReNode		name;

	*g = class_goal(o, mask, some == NULL ? NULL : &some->lit, some != NULL && some->which != -2);
	if (!schema_work(b, 50) || (some != NULL && !some_in_class(o, some, mask)))
		return RE_NONE;
	if ((mask == 0 && o->closed) || schema_empty(b, *g))
		return RE_NONE;
	if (o->n_patterns > 1 &&
		!re_live(b->probe, re_and(b->probe, class_names(o, b->probe, RE_RAW, raw_named, mask),
								  re_any_text(b->probe, RE_RAW))))
		return RE_NONE;
	name = re_and(b->re, schema_goal_strings(b, o->names), class_names(o, b->re, b->mode, named, mask));
	if (some != NULL && some->which == -2)
		name = re_and(b->re, name, schema_goal_strings(b, schema_goal(b, &some->lit, 1)));
	return name;
}

/* The unnamed members, with names in `part`; some != NULL: only members that satisfy this clause. */
static CfgNode
others(Obj *o, ReNode named, ReNode raw_named, const Clause *some, ReNode part)
{
	CfgNode		r = CFG_NONE;

	for (uint32_t mask = 0; mask < 1u << o->n_patterns && !o->b->failed; mask++)
	{
		Goal	   *g;
		ReNode		name = class_of(o, named, raw_named, some, mask, &g);

		if (name != RE_NONE)
			r = cfg_alt(o->b->cfg, r, member(o->b, re_and(o->b->re, name, part), g));
	}
	return r;
}

/* ---- generation: as many names as minProperties requires ---- */

#define MAX_PARTS	26

/* Texts that begin with a character of lo .. hi. */
static ReNode
begins(Builder *b, uint32_t lo, uint32_t hi)
{
	ReRange		r = {lo, hi};

	return re_cat(b->re, re_class(b->re, &r, 1, b->mode), b->any_string);
}

/* Divide names into k parts by their first letter, else by their length.  Return false if a part would
 * be empty. */
static bool
divide(Builder *b, ReNode names, uint32_t k, ReNode *part)
{
	uint32_t	first[26];
	uint32_t	n = 0;
	bool		ok = true;

	for (uint32_t c = 'a'; c <= 'z'; c++)
		if (re_live(b->re, re_and(b->re, names, begins(b, c, c))))
			first[n++] = c;
	if (n >= k)
	{
		for (uint32_t i = 0; i < k; i++)
			part[i] = begins(b, i == 0 ? 0 : first[i * n / k],
							 i + 1 == k ? 0x10FFFF : first[(i + 1) * n / k] - 1);
		return true;
	}
	for (uint32_t i = 0; i < k && ok; i++)
	{
		ReNode		any = re_any_char(b->re, b->mode);

		part[i] = re_cat(b->re, re_repeat(b->re, re_repeat(b->re, any, k, k), 0, RE_INF),
						 re_repeat(b->re, any, i, i));
		ok = re_live(b->re, re_and(b->re, names, part[i]));
	}
	return ok;
}

/*
 * Members with at least o->min different names.  A grammar can't compare names that aren't
 * listed, so the required additional names come from disjoint parts of the set.
 */
static CfgNode
distinct(Obj *o, CfgMembers *all, CfgMember *m, ReNode named, ReNode raw)
{
	Builder    *b = o->b;
	uint32_t	k = o->min;
	ReNode		part[MAX_PARTS];
	ReNode		names = RE_NONE;
	CfgNode		listed;
	Goal	   *g;

	for (size_t i = 0; i < all->n; i++)
		k -= k > 0 && m[i].required;
	if (k < 2 || all->rest == CFG_NONE)
		return cfg_members(b->cfg, all);
	for (uint32_t mask = 0; mask < 1u << o->n_patterns && !b->failed; mask++)
		names = re_or(b->re, names, class_of(o, named, raw, NULL, mask, &g));
	if (k > MAX_PARTS || !divide(b, names, k, part))
	{
		schema_refuse(b, "minProperties",
					  "There are too few names to be generated that are surely different.");
		return CFG_NONE;
	}
	{
		CfgMembers	alone = *all;

		alone.rest = CFG_NONE;
		listed = cfg_members(b->cfg, &alone);
	}
	for (uint32_t i = 0; i < k; i++)
		m[all->n++] = (CfgMember) {others(o, named, raw, NULL, part[i]), true};
	return cfg_alt(b->cfg, listed, cfg_members(b->cfg, all));
}

/* Build one grammar, after a choice for every "some" clause. */
static CfgNode
one_object(Obj *o)
{
	Builder    *b = o->b;
	CfgMember  *m = mem_zalloc((o->n + o->n_somes + MAX_PARTS) * sizeof(CfgMember));
	CfgDep	   *dep = mem_alloc((o->c->n + 1) * sizeof(CfgDep));
	const char **s = mem_alloc((o->n + 1) * sizeof(char *));
	size_t	   *len = mem_alloc((o->n + 1) * sizeof(size_t));
	CfgMembers	all = {.member = m, .n = o->n, .dep = dep, .sep = b->comma, .min = o->min, .max = o->max,
					   .ordered = !b->opt->validate};
	ReNode		named,
				raw;

	for (uint32_t i = 0; i < o->n && !b->failed; i++)
	{
		Name	   *x = &o->name[i];
		Lit			more[MAX_SOMES];
		uint32_t	k = 0;

		for (uint32_t j = 0; j < o->n_somes; j++)
			if (o->chosen[j] == (int) i)
			{
				m[i].required = true;
				if (o->some[j]->which != -2)
					more[k++] = o->some[j]->lit;
			}
		schema_work(b, 4);
		m[i].required |= x->required;
		m[i].node = x->forbidden ? CFG_NONE :
			member(b, schema_text(b, x->s, x->len), schema_member(b, o->c, x->s, x->len, more, k));
		s[i] = x->s;
		len[i] = x->len;
	}
	named = o->n == 0 || b->failed ? RE_NONE : schema_texts(b, s, len, o->n);
	raw = o->n == 0 || b->failed || o->n_patterns < 2 ? RE_NONE : re_texts(b->probe, s, len, o->n, RE_RAW);
	for (uint32_t j = 0; j < o->n_somes && !b->failed; j++)
		if (o->chosen[j] < 0)
			m[all.n++] = (CfgMember) {others(o, named, raw, o->some[j], RE_ALL), true};
	for (uint32_t i = 0; i < o->c->n; i++)
		if (o->c->c[i]->kind == C_DEP)
			dep[all.n_deps++] = (CfgDep) {(uint32_t) find_name(o, o->c->c[i]->text, o->c->c[i]->len),
				(uint32_t) find_name(o, o->c->c[i]->text2, o->c->c[i]->len2)};
	if (o->max > 0 && !b->failed)
		all.rest = others(o, named, raw, NULL, RE_ALL);
	named = b->failed ? CFG_NONE : b->opt->validate ? cfg_members(b->cfg, &all) :
		distinct(o, &all, m, named, raw);
	mem_free(m);
	mem_free(dep);
	mem_free(s);
	mem_free(len);
	return named;
}

/* Choose for the "some" clauses from the i-th on. */
static CfgNode
choose(Obj *o, uint32_t i)
{
	CfgNode		r = CFG_NONE;

	if (i == o->n_somes)
	{
		if (++o->choices > MAX_CHOICES)
			schema_too_many(o->b);
		return o->b->failed ? CFG_NONE : one_object(o);
	}
	for (int k = -1; k < (int) o->n && !o->b->failed; k++)
	{
		if (k >= 0 && (o->name[k].forbidden || !some_is_name(o, o->some[i], &o->name[k])))
			continue;
		if (k >= 0)
		{
			Lit			l = o->some[i]->lit;

			/* skip choices that can't be satisfied */
			if (schema_empty(o->b, schema_member(o->b, o->c, o->name[k].s, o->name[k].len, &l,
												 o->some[i]->which != -2)))
				continue;
		}
		o->chosen[i] = k;
		r = cfg_alt(o->b->cfg, r, choose(o, i + 1));
	}
	return r;
}

CfgNode
schema_object(Builder *b, const Clauses *c)
{
	Obj			o = {.b = b, .c = c};
	CfgNode		r = CFG_NONE;

	collect_names(&o);
	collect(&o);
	if (!b->failed && o.min <= o.max)
		r = choose(&o, 0);
	mem_free(o.name);
	if (r == CFG_NONE || b->failed)
		return CFG_NONE;
	return cfg_seq(b->cfg, schema_open(b, "{"), cfg_seq(b->cfg, r, schema_close(b, "}")));
}
