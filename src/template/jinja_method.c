/*
 * jinja_method.c
 *	  Which methods values have, and the methods of all types except strings.
 *
 * Methods that change a list or dict exist in Python, but the sandbox hides them: they are undefined
 * values whose use is a SecurityError.
 *
 * Tested by tests/golden/jinja_golden.c.
 */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "template/jinja_internal.h"

typedef struct Methods
{
	JType		t;
	const char *names;			/* separated by spaces; "!" before a name: hidden by the sandbox */
} Methods;

static const Methods methods[] = {
	{JT_STR, " capitalize casefold center count encode endswith expandtabs find format format_map index "
		"isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace "
		"istitle isupper join ljust lower lstrip maketrans partition removeprefix removesuffix replace rfind "
		"rindex rjust rpartition rsplit rstrip split splitlines startswith strip swapcase title translate "
		"upper zfill "},
	{JT_LIST, " !append !clear copy count !extend index !insert !pop !remove !reverse !sort "},
	{JT_TUPLE, " count index "},
	{JT_RANGE, " count index "},
	{JT_DICT, " !clear copy fromkeys get items keys !pop !popitem !setdefault !update values "},
	{JT_GLOBAL, " fromkeys "},
	{JT_FLOAT, " is_integer "},
	{JT_INT, " bit_length bit_count "},
	{JT_BOOL, " bit_length bit_count "},
	{JT_CYCLER, " next reset "},
};

bool
jin_has_method(JVal self, const char *name, bool *refused)
{
	size_t		n = strlen(name);

	*refused = false;
	/* a key may be any text, so exclude keys that would match parts of the list */
	if (n == 0 || strpbrk(name, " !") != NULL)
		return false;
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
	{
		const char *at = methods[i].names;

		if (methods[i].t != self.t || (self.t == JT_GLOBAL && self.i != 0))
			continue;
		while ((at = strstr(at + 1, name)) != NULL)
			if (at[n] == ' ' && (at[-1] == ' ' || at[-1] == '!'))
			{
				*refused = at[-1] == '!';
				return true;
			}
	}
	return false;
}

static JVal
view(Jin *j, JDict *d, JViewKind kind)
{
	JView	   *w = jin_alloc(j, sizeof(JView));

	w->d = d;
	w->kind = kind;
	return (JVal) {.t = JT_VIEW,.view = w};
}

static void
no_args(Jin *j, const JMethod *m, const JArgs *a)
{
	if (a->n_pos + a->n_kw > 0)
		jin_fail(j, JE_TYPE, "%s.%s() takes no arguments (%zu given)", jin_type(m->self), m->name,
				 a->n_pos + a->n_kw);
}

static JVal
from_keys(Jin *j, const JArgs *a)
{
	JDict	   *d = jin_dict(j);
	JSeq		s;
	JVal		k;

	if (a->n_kw > 0 || a->n_pos == 0 || a->n_pos > 2)
		jin_fail(j, JE_TYPE, "fromkeys expected 1 to 2 arguments, got %zu", a->n_pos + a->n_kw);
	s = jin_iter(j, a->pos[0]);
	while (jin_next(j, &s, &k))
		jin_dict_put(j, d, k, a->n_pos == 2 ? a->pos[1] : jin_none());
	return (JVal) {.t = JT_DICT,.d = d};
}

static JVal
dict_method(Jin *j, const JMethod *m, const JArgs *a)
{
	JDict	   *d = m->self.d;
	const JPair *p;

	if (strcmp(m->name, "get") == 0)
	{
		if (a->n_kw > 0)
			jin_fail(j, JE_TYPE, "dict.get() takes no keyword arguments");
		if (a->n_pos == 0 || a->n_pos > 2)
			jin_fail(j, JE_TYPE, "get expected 1 to 2 arguments, got %zu", a->n_pos);
		p = jin_dict_find(j, d, a->pos[0]);
		return p != NULL ? p->v : a->n_pos == 2 ? a->pos[1] : jin_none();
	}
	if (strcmp(m->name, "fromkeys") == 0)
		return from_keys(j, a);
	no_args(j, m, a);
	if (strcmp(m->name, "copy") == 0)
		return m->self;			/* immutable */
	return view(j, d, m->name[0] == 'k' ? JVIEW_KEYS : m->name[0] == 'v' ? JVIEW_VALUES : JVIEW_ITEMS);
}

static JVal
sequence_method(Jin *j, const JMethod *m, const JArgs *a)
{
	JSeq		s = jin_iter(j, m->self);
	int64_t		n = 0;
	int64_t		i = 0;
	JVal		v;
	int64_t		len = jin_len(j, m->self, true);
	int64_t		from = 0;
	int64_t		to = len;

	if (strcmp(m->name, "copy") == 0)
	{
		no_args(j, m, a);
		return m->self;
	}
	if (a->n_kw > 0 || a->n_pos == 0 || a->n_pos > (m->name[0] == 'i' ? 3 : 1))
		jin_fail(j, JE_TYPE, "%s.%s() takes exactly one argument (%zu given)", jin_type(m->self), m->name,
				 a->n_pos + a->n_kw);
	if (a->n_pos > 1)
		from = jin_arg_int(j, a->pos[1]);
	if (a->n_pos > 2)
		to = jin_arg_int(j, a->pos[2]);
	from += from < 0 ? len : 0;
	to += to < 0 ? len : 0;
	for (; jin_next(j, &s, &v); i++)
		if (i >= from && i < to && jin_equal(j, v, a->pos[0]))
		{
			if (m->name[0] == 'i')
				return jin_int(i);
			n++;
		}
	if (m->name[0] == 'i')
		jin_fail(j, JE_VALUE, "%s is not in %s", jin_repr_c(j, a->pos[0]), jin_type(m->self));
	return jin_int(n);
}

static JVal
loop_method(Jin *j, const JMethod *m, const JArgs *a)
{
	JLoop	   *l = m->self.loop;
	JList	   *now = jin_list(j, a->n_pos);

	if (a->n_kw > 0)
		jin_fail(j, JE_TYPE, "LoopContext.%s() got an unexpected keyword argument", m->name);
	if (strcmp(m->name, "cycle") == 0)
	{
		if (a->n_pos == 0)
			jin_fail(j, JE_TYPE, "no items for cycling given");
		ALWAYS(l->index0 >= 0);
		return a->pos[l->index0 % (int64_t) a->n_pos];
	}
	for (size_t i = 0; i < a->n_pos; i++)
		jin_list_add(j, now, a->pos[i]);
	if (l->changed != NULL && jin_equal(j, jin_lval(l->changed, JT_TUPLE), jin_lval(now, JT_TUPLE)))
		return jin_bool(false);
	l->changed = now;
	return jin_bool(true);
}

static JVal
cycler_method(Jin *j, const JMethod *m, const JArgs *a)
{
	JCycle	   *c = m->self.c;
	JVal		v;

	ALWAYS(c->at < c->n);
	v = c->items[c->at];
	no_args(j, m, a);
	if (m->name[0] == 'r')
	{
		c->at = 0;
		return jin_none();
	}
	c->at = (c->at + 1) % c->n;
	return v;
}

static JVal
number_method(Jin *j, const JMethod *m, const JArgs *a)
{
	uint64_t	u;

	no_args(j, m, a);
	if (m->self.t == JT_FLOAT)
		return jin_bool(isfinite(m->self.f) && m->self.f == floor(m->self.f));
	u = m->self.t == JT_BOOL ? m->self.b : m->self.i < 0 ? -(uint64_t) m->self.i : (uint64_t) m->self.i;
	if (strcmp(m->name, "bit_count") == 0)
		return jin_int(__builtin_popcountll(u));
	return jin_int(u == 0 ? 0 : 64 - __builtin_clzll(u));
}

JVal
jin_call_method(Jin *j, const JMethod *m, const JArgs *a)
{
	switch (m->self.t)
	{
		case JT_STR:
			return jin_str_method(j, m->self.s, m->name, a);
		case JT_DICT:
			return dict_method(j, m, a);
		case JT_GLOBAL:
			return from_keys(j, a);
		case JT_LOOP:
			return loop_method(j, m, a);
		case JT_CYCLER:
			return cycler_method(j, m, a);
		case JT_INT:
		case JT_BOOL:
		case JT_FLOAT:
			return number_method(j, m, a);
		default:
			return sequence_method(j, m, a);
	}
}
