/*
 * schema_scalar.c
 *	  Convert clauses of strings and numbers to regular expressions.
 *
 * A list of values is decided value by value; everything else is an intersection of expressions.
 * Questions during compilation (does this pattern match anything of that list?) are decided in a
 * separate universe, in raw text, so that they leave nothing in the grammar's universe.
 *
 * Tested by tests/unit/grammar/schema/test_json_schema.c.
 */
#include "grammar/schema/schema_internal.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

/* ---- pieces ---- */

ReNode
schema_pattern(Builder *b, Regex *re, ReMode mode, const char *s, size_t n)
{
	ReSyntax	syntax = {.mode = mode, .search = true};
	ReNode		r = RE_NONE;
	Err			e = {0};

	if (b->failed || re_parse(re, s, n, &syntax, &r, &e))
		return r;
	schema_fail(b, e.cls, "JSON schema keyword \"pattern\": %.300s", e.msg);
	return RE_NONE;
}

static ReNode
length(Regex *re, ReMode mode, const Clause *c)
{
	return re_repeat(re, re_any_char(re, mode), c->n, c->max >= CFG_INF - 1 ? RE_INF : c->max);
}

static ReNode
string_clause(Builder *b, Regex *re, ReMode mode, const Clause *c)
{
	ReNode		r = RE_NONE;
	Err			e = {0};

	if (c->kind == C_LEN)
		return length(re, mode, c);
	if (c->kind == C_PATTERN)
		return schema_pattern(b, re, mode, c->text, c->len);
	if (!schema_format(re, mode, c->text, c->len, &r, &e))
		schema_fail(b, e.cls, "%s", e.msg);
	return r;
}

static size_t
characters(const char *s, size_t n)
{
	size_t		c = 0;

	for (size_t i = 0; i < n; i++)
		c += ((uint8_t) s[i] & 0xc0) != 0x80;
	return c;
}

static bool
among(const Clause *c, const char *s, size_t n)
{
	for (uint32_t i = 0; i < c->n_values; i++)
		if (c->values[i]->len == n && memcmp(c->values[i]->s, s, n) == 0)
			return true;
	return false;
}

/* Return true if the string satisfies the clause. */
static bool
string_meets(Builder *b, const Clause *c, const char *s, size_t n)
{
	Clause	   *x = (Clause *) c;
	bool		yes;

	ASSERT(clause_type(c->kind) == T_STR);
	if (c->kind == C_STR_IN)
	{
		schema_work(b, c->n_values / 8);
		return among(c, s, n) != c->neg;
	}
	if (c->kind == C_LEN)
	{
		size_t		k = characters(s, n);

		return (k >= c->n && (c->max >= CFG_INF - 1 || k <= c->max)) != c->neg;
	}
	if (!c->probed)
	{
		x->probe = string_clause(b, b->probe, RE_RAW, c);
		x->probed = true;
	}
	schema_work(b, 1 + n / 4);
	yes = re_match(b->probe, c->probe, s, n);
	if (!re_check(b->probe, b->e))
		b->failed = true;
	return yes != c->neg;
}

static bool
strings_meet(Builder *b, const Clauses *c, const char *s, size_t n)
{
	for (uint32_t i = 0; i < c->n; i++)
		if (!string_meets(b, c->c[i], s, n))
			return false;
	return true;
}

static const Clause *
find_list(const Clauses *c, ClauseKind kind)
{
	for (uint32_t i = 0; i < c->n; i++)
		if (c->c[i]->kind == kind && !c->c[i]->neg)
			return c->c[i];
	return NULL;
}

/* ---- strings ---- */

ReNode
schema_texts(Builder *b, const char *const *s, const size_t *len, size_t n)
{
	return re_texts(b->re, s, len, n, b->mode);
}

ReNode
schema_text(Builder *b, const char *s, size_t n)
{
	return schema_texts(b, &s, &n, 1);
}

static ReNode
listed_strings(Builder *b, const Clauses *c, const Clause *list)
{
	const char **s = mem_alloc((list->n_values + 1) * sizeof(char *));
	size_t	   *len = mem_alloc((list->n_values + 1) * sizeof(size_t));
	size_t		n = 0;
	ReNode		r;

	for (uint32_t i = 0; i < list->n_values && !b->failed; i++)
	{
		const Jv   *v = list->values[i];

		schema_work(b, 1);
		if (c->n > 1 && !strings_meet(b, c, v->s, v->len))
			continue;
		s[n] = v->s;
		len[n++] = v->len;
	}
	ALWAYS(n <= list->n_values);
	r = n == 0 ? RE_NONE : schema_texts(b, s, len, n);
	mem_free(s);
	mem_free(len);
	return r;
}

static ReNode
not_listed(Builder *b, Regex *re, ReMode mode, const Clause *c)
{
	const char **s = mem_alloc((c->n_values + 1) * sizeof(char *));
	size_t	   *len = mem_alloc((c->n_values + 1) * sizeof(size_t));
	ReNode		r;

	for (uint32_t i = 0; i < c->n_values; i++)
	{
		s[i] = c->values[i]->s;
		len[i] = c->values[i]->len;
	}
	schema_work(b, c->n_values);
	r = re_texts(re, s, len, c->n_values, mode);
	mem_free(s);
	mem_free(len);
	return r;
}

/* All clauses except lists of allowed values. */
static ReNode
strings_in(Builder *b, Regex *re, ReMode mode, const Clauses *c)
{
	ReNode		r = RE_ALL;
	bool		positive = false;

	for (uint32_t i = 0; i < c->n && !b->failed; i++)
	{
		const Clause *k = c->c[i];
		ReNode		x;

		x = k->kind == C_STR_IN ? not_listed(b, re, mode, k) : string_clause(b, re, mode, k);
		positive |= !k->neg;
		r = re_and(re, r, k->neg ? re_not(re, x) : x);
	}
	return positive ? r : re_and(re, r, re_any_text(re, mode));
}

ReNode
schema_strings(Builder *b, const Clauses *c)
{
	const Clause *list = find_list(c, C_STR_IN);

	if (list != NULL)
		return listed_strings(b, c, list);
	if (c->n == 0)
		return b->any_string;
	return strings_in(b, b->re, b->mode, c);
}

bool
schema_strings_empty(Builder *b, const Clauses *c)
{
	const Clause *list = find_list(c, C_STR_IN);
	ReNode		r;

	if (c->n == 0)
		return false;
	if (list != NULL)
	{
		for (uint32_t i = 0; i < list->n_values && !b->failed; i++)
			if (schema_work(b, 1) && strings_meet(b, c, list->values[i]->s, list->values[i]->len))
				return false;
		return !b->failed;
	}
	if (c->n == 1)
		return false;
	schema_work(b, 1000);
	r = strings_in(b, b->probe, RE_RAW, c);
	return !b->failed && !re_live(b->probe, r) && re_check(b->probe, b->e);
}

bool
schema_goal_has(Builder *b, Goal *g, const char *s, size_t n)
{
	Union	   *u = schema_shapes(b, g);

	for (uint32_t i = 0; i < u->n; i++)
		if (u->s[i]->types & T_STR && strings_meet(b, &u->s[i]->str, s, n))
			return true;
	return false;
}

ReNode
schema_goal_strings(Builder *b, Goal *g)
{
	Union	   *u = schema_shapes(b, g);
	ReNode		r = RE_NONE;

	if (g->n == 0 && !g->nothing)
		return b->any_string;
	for (uint32_t i = 0; i < u->n && !b->failed; i++)
		if (u->s[i]->types & T_STR)
			r = re_or(b->re, r, schema_strings(b, &u->s[i]->str));
	return r;
}

/* ---- numbers ---- */

static bool
number_meets(const Clause *c, const Dec *d, const Jv *v)
{
	char		buf[DEC_MAX_TEXT];
	Dec			x;
	bool		yes = false,
				known;

	switch (c->kind)
	{
		case C_MIN:
			yes = dec_cmp(d, &c->dec) >= c->strict;
			break;
		case C_MAX:
			yes = dec_cmp(d, &c->dec) <= -(int) c->strict;
			break;
		case C_MULTIPLE:
			yes = dec_is_multiple(d, &c->dec, &known);
			break;
		case C_INTEGER:
			yes = dec_is_integer(d) &&
				!(c->n && (memchr(v->s, '.', v->len) || memchr(v->s, 'e', v->len) ||
						   memchr(v->s, 'E', v->len)));
			break;
		default:
			for (uint32_t i = 0; i < c->n_values && !yes; i++)
				yes = dec_read(c->values[i]->s, c->values[i]->len, buf, &x) && dec_cmp(&x, d) == 0;
	}
	return yes != c->neg;
}

/* Set *to to the numbers of a list that satisfy all clauses.  If `to` is NULL, return true if there are
 * any. */
static bool
listed_numbers(Builder *b, const Clauses *c, const Clause *list, ReNode *to)
{
	bool		any = false;

	for (uint32_t i = 0; i < list->n_values && !b->failed; i++)
	{
		const Jv   *v = list->values[i];
		char		buf[DEC_MAX_TEXT];
		Dec			d;
		bool		yes = dec_read(v->s, v->len, buf, &d);

		schema_work(b, 10);
		if (!yes)
			schema_fail(b, ERR_TOO_LONG, "a number of the JSON schema is too long");
		for (uint32_t j = 0; j < c->n && yes; j++)
			yes = number_meets(c->c[j], &d, v);
		any |= yes;
		if (yes && to != NULL)
			*to = re_or(b->re, *to, number_equal(b->re, &d, !b->opt->validate));
	}
	return any;
}

static ReNode
number_clause(Regex *re, const Clause *c, bool generate)
{
	ReNode		r = RE_NONE;
	char		buf[DEC_MAX_TEXT];
	Dec			d;

	switch (c->kind)
	{
		case C_MIN:
			return number_min(re, &c->dec, c->strict, generate);
		case C_MAX:
			r = number_min(re, &c->dec, !c->strict, generate);
			return re_and(re, number_any(re, generate), re_not(re, r));
		case C_MULTIPLE:
			return number_multiple(re, &c->dec, generate);
		case C_INTEGER:
			return number_integer(re, c->n == 1, generate);
		default:
			for (uint32_t i = 0; i < c->n_values; i++)
				if (dec_read(c->values[i]->s, c->values[i]->len, buf, &d))
					r = re_or(re, r, number_equal(re, &d, generate));
			return r;
	}
}

static ReNode
numbers_in(Builder *b, Regex *re, const Clauses *c, bool generate)
{
	/* bounds are exact only for these numbers, and so is the result */
	ReNode		r = c->n > 0 && !generate ? number_ordered(re) : number_any(re, generate);

	schema_work(b, 200);
	for (uint32_t i = 0; i < c->n && !b->failed; i++)
	{
		/* a forbidden value is forbidden in every spelling: 1.0 is 1 */
		ReNode		x = number_clause(re, c->c[i], generate && !c->c[i]->neg);

		r = re_and(re, r, c->c[i]->neg ? re_not(re, x) : x);
	}
	return r;
}

ReNode
schema_numbers(Builder *b, const Clauses *c)
{
	const Clause *list = find_list(c, C_NUM_IN);
	ReNode		r = RE_NONE;

	if (list == NULL)
		return numbers_in(b, b->re, c, !b->opt->validate);
	listed_numbers(b, c, list, &r);
	return r;
}

bool
schema_numbers_empty(Builder *b, const Clauses *c)
{
	const Clause *list = find_list(c, C_NUM_IN);

	if (c->n <= 1 && list == NULL)
		return false;
	if (list != NULL)
		return !listed_numbers(b, c, list, NULL) && !b->failed;
	schema_work(b, 1000);
	return !re_live(b->probe, numbers_in(b, b->probe, c, false)) && re_check(b->probe, b->e);
}
