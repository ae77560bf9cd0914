/*
 * jinja_call.c
 *	  Calls in the Jinja interpreter: macros, loops, global functions, arguments.
 *
 * Tested by tests/golden/jinja_golden.c.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "template/jinja_internal.h"

#define MAX_RANGE	100000		/* as in jinja2's sandbox */

/* ---- arguments ---- */

void
jin_args(Jin *j, const char *fn, const JArgs *a, const char *const *names, size_t required, JVal *out)
{
	size_t		n = 0;
	bool		got[8] = {0};

	while (names[n] != NULL)
		n++;
	ALWAYS(n <= sizeof(got) / sizeof(got[0]) && required <= n);
	if (a->n_pos > n)
		jin_fail(j, JE_TYPE, "%s() takes at most %zu arguments (%zu given)", fn, n, a->n_pos);
	for (size_t i = 0; i < a->n_pos; i++)
	{
		out[i] = a->pos[i];
		got[i] = true;
	}
	for (size_t k = 0; k < a->n_kw; k++)
	{
		size_t		i = 0;

		while (i < n && !jin_str_is(a->names[k], names[i]))
			i++;
		if (i == n)
			jin_fail(j, JE_TYPE, "%s() got an unexpected keyword argument %s", fn,
					 jin_repr_c(j, jin_sval(a->names[k])));
		if (got[i])
			jin_fail(j, JE_TYPE, "%s() got multiple values for argument '%s'", fn, names[i]);
		out[i] = a->kw[k];
		got[i] = true;
	}
	for (size_t i = 0; i < required; i++)
		if (!got[i])
			jin_fail(j, JE_TYPE, "%s() missing required argument '%s'", fn, names[i]);
}

int64_t
jin_arg_int(Jin *j, JVal v)
{
	if (v.t == JT_UNDEFINED)
		jin_fail_undefined(j, v);
	if (v.t != JT_INT && v.t != JT_BOOL)
		jin_fail(j, JE_TYPE, "'%s' object cannot be interpreted as an integer", jin_type(v));
	return v.t == JT_INT ? v.i : v.b;
}

JStr *
jin_arg_str(Jin *j, JVal v)
{
	if (v.t != JT_STR)
		jin_fail(j, JE_TYPE, "expected str, got %s", jin_type(v));
	return v.s;
}

/* ---- macros ---- */

/* Remove the keyword argument of this name from the list and return it; NULL: none. */
static const JVal *
take_keyword(Jin *j, JArgs *kw, bool *taken, const JStr *name)
{
	jin_step(j, kw->n_kw / 8);
	for (size_t i = 0; i < kw->n_kw; i++)
		if (!taken[i] && jin_str_eq(kw->names[i], name))
		{
			taken[i] = true;
			return &kw->kw[i];
		}
	return NULL;
}

static const char *
macro_name(Jin *j, const JMacro *m)
{
	return m->node->kind == N_CALL ? "'caller'" : jin_repr_c(j, jin_sval(m->node->str));
}

/* Bind kwargs, varargs and caller, or fail if the macro doesn't accept them. */
static void
bind_rest(Jin *j, const JMacro *m, JArgs *a, bool *taken, size_t n_params, JScope *sc)
{
	JStr	   *caller = jin_str(j, "caller", 6, false);
	bool		has_caller = false;

	for (const JNode *p = m->node->kids; p != NULL; p = p->next)
		has_caller |= jin_str_eq(p->str, caller);
	if ((m->node->flags & MACRO_CALLER) != 0 && !has_caller)
	{
		const JVal *v = take_keyword(j, a, taken, caller);

		jin_let(j, sc, caller, v != NULL && v->t != JT_NONE ? *v : jin_undef_hint(j, "No caller defined"));
	}
	if (m->node->flags & MACRO_KWARGS)
	{
		JDict	   *d = jin_dict(j);

		for (size_t i = 0; i < a->n_kw; i++)
			if (!taken[i])
				jin_dict_put(j, d, jin_sval(a->names[i]), a->kw[i]);
		jin_let(j, sc, jin_str(j, "kwargs", 6, false), (JVal) {.t = JT_DICT,.d = d});
	}
	else
		for (size_t i = 0; i < a->n_kw; i++)
			if (!taken[i] && jin_str_eq(a->names[i], caller))
				jin_fail(j, JE_TYPE, "macro %s was invoked with two values for the special caller argument. "
						 "This is most likely a bug.", macro_name(j, m));
			else if (!taken[i])
				jin_fail(j, JE_TYPE, "macro %s takes no keyword argument %s", macro_name(j, m),
						 jin_repr_c(j, jin_sval(a->names[i])));
	if (m->node->flags & MACRO_VARARGS)
	{
		JList	   *l = jin_list(j, 0);

		for (size_t i = n_params; i < a->n_pos; i++)
			jin_list_add(j, l, a->pos[i]);
		jin_let(j, sc, jin_str(j, "varargs", 7, false), jin_lval(l, JT_TUPLE));
	}
	else if (a->n_pos > n_params)
		jin_fail(j, JE_TYPE, "macro %s takes not more than %zu argument(s)", macro_name(j, m), n_params);
}

static void
bind_params(Jin *j, const JMacro *m, const JArgs *args, JScope *sc)
{
	JArgs		a = *args;
	bool	   *taken = jin_zalloc(j, a.n_kw + 1);
	size_t		i = 0;
	size_t		n_params = 0;
	JVal	   *given;
	bool	   *is_given;

	for (const JNode *p = m->node->kids; p != NULL; p = p->next)
		n_params++;
	given = jin_zalloc(j, (n_params + 1) * sizeof(JVal));
	is_given = jin_zalloc(j, n_params + 1);
	for (const JNode *p = m->node->kids; p != NULL; p = p->next, i++)
	{
		const JVal *v = i < a.n_pos ? &a.pos[i] : take_keyword(j, &a, taken, p->str);

		if (v != NULL)
			given[i] = *v;
		is_given[i] = v != NULL;
	}
	bind_rest(j, m, &a, taken, n_params, sc);
	i = 0;
	for (const JNode *p = m->node->kids; p != NULL; p = p->next, i++)
	{
		char		hint[256];

		if (is_given[i])
			jin_let(j, sc, p->str, given[i]);
		else if (p->a != NULL)
			jin_let(j, sc, p->str, jin_eval(j, p->a, sc));
		else
		{
			snprintf(hint, sizeof(hint), "parameter %s was not provided",
					 jin_repr_c(j, jin_sval(p->str)));
			jin_let(j, sc, p->str, jin_undef_hint(j, jin_str(j, hint, strlen(hint) + 1, false)->s));
		}
	}
}

static void
call_enter(Jin *j)
{
	if (++j->depth > j->limits.depth)
		jin_fail(j, JE_LIMIT, "calls are nested more than %d deep", j->limits.depth);
	jin_enter(j);
}

static void
call_leave(Jin *j)
{
	ASSERT(j->depth > 0);
	j->depth--;
	jin_leave(j);
}

static JVal
jin_call_macro(Jin *j, const JMacro *m, const JArgs *a)
{
	JBuild		b = {0};
	JBuild	   *outer = j->out;
	JScope	   *sc = jin_scope(j, m->scope);

	call_enter(j);
	jin_undefine(j, sc, m->node->undef);
	bind_params(j, m, a, sc);
	j->out = &b;
	jin_exec(j, m->node->c, sc);
	ASSERT(j->out == &b);		/* what the body opened is closed, so no text is lost */
	j->out = outer;
	call_leave(j);
	return jin_sval(jin_build_done(j, &b));
}

/* ---- loops ---- */

static bool
loop_peek(Jin *j, JLoop *l)
{
	if (!l->has_next && !l->at_end)
	{
		l->has_next = jin_next(j, &l->seq, &l->next);
		l->at_end = !l->has_next;
	}
	return l->has_next;
}

static int64_t
loop_length(Jin *j, JLoop *l)
{
	if (l->length < 0)
	{
		/* read the remaining items now, and iterate over the list from here on */
		JList	   *rest = jin_list(j, 0);
		JVal		v;

		while (!l->at_end && jin_next(j, &l->seq, &v))
			jin_list_add(j, rest, v);
		l->seq = (JSeq) {.v = jin_lval(rest, JT_LIST)};
		l->length = (int64_t) rest->n + l->index0 + 1 + l->has_next;
	}
	return l->length;
}

JVal
jin_loop_attr(Jin *j, JLoop *l, const JStr *name)
{
	if (jin_str_is(name, "index"))
		return jin_int(l->index0 + 1);
	if (jin_str_is(name, "index0"))
		return jin_int(l->index0);
	if (jin_str_is(name, "first"))
		return jin_bool(l->index0 == 0);
	if (jin_str_is(name, "last"))
		return jin_bool(!loop_peek(j, l));
	if (jin_str_is(name, "length"))
		return jin_int(loop_length(j, l));
	if (jin_str_is(name, "revindex"))
		return jin_int(loop_length(j, l) - l->index0);
	if (jin_str_is(name, "revindex0"))
		return jin_int(loop_length(j, l) - l->index0 - 1);
	if (jin_str_is(name, "depth"))
		return jin_int(l->depth0 + 1);
	if (jin_str_is(name, "depth0"))
		return jin_int(l->depth0);
	if (jin_str_is(name, "previtem"))
		return l->index0 == 0 ? jin_undef_hint(j, "there is no previous item") : l->prev;
	if (jin_str_is(name, "nextitem"))
		return loop_peek(j, l) ? l->next : jin_undef_hint(j, "there is no next item");
	if (jin_str_is(name, "cycle") || jin_str_is(name, "changed"))
	{
		JMethod    *m = jin_alloc(j, sizeof(JMethod));

		m->self = (JVal) {.t = JT_LOOP,.loop = l};
		m->name = jin_str_is(name, "cycle") ? "cycle" : "changed";
		return (JVal) {.t = JT_METHOD,.m = m};
	}
	return jin_no_item(j, (JVal) {.t = JT_LOOP,.loop = l}, jin_sval((JStr *) name), false);
}

/* loop(items): run the body again with other items, one level deeper. */
static JVal
call_loop(Jin *j, JLoop *l, const JArgs *a)
{
	static const char *const names[] = {"iterable", NULL};
	JBuild		b = {0};
	JBuild	   *outer = j->out;
	JVal		v[1];
	JSeq		seq;
	int64_t		len;

	jin_args(j, "loop", a, names, 1, v);
	if (!l->recursive)
		jin_fail(j, JE_TYPE, "The loop must have the 'recursive' marker to be called recursively.");
	seq = jin_iter(j, v[0]);
	len = jin_len(j, v[0], false);
	if (l->node->x != NULL)
	{
		JIter	   *it = jin_zalloc(j, sizeof(JIter));

		*it = (JIter) {.kind = JI_FOR_IF,.seq = seq,.started = true,.node = l->node,.scope = l->scope};
		seq = (JSeq) {.v = {.t = JT_ITER,.it = it}};
		len = -1;
	}
	call_enter(j);
	j->out = &b;
	jin_run_loop(j, l->node, seq, len, l->scope, l->depth0 + 1);
	ASSERT(j->out == &b);
	j->out = outer;
	call_leave(j);
	return jin_sval(jin_build_done(j, &b));
}

/* ---- global functions ---- */

static JVal
g_range(Jin *j, const JArgs *a)
{
	JRange	   *r = jin_alloc(j, sizeof(JRange));
	int64_t		v[3] = {0, 0, 1};
	__int128	span;

	if (a->n_kw > 0 || a->n_pos == 0 || a->n_pos > 3)
		jin_fail(j, JE_TYPE, "range expected 1 to 3 arguments, got %zu", a->n_pos + a->n_kw);
	for (size_t i = 0; i < a->n_pos; i++)
		v[a->n_pos == 1 ? 1 : i] = jin_arg_int(j, a->pos[i]);
	if (v[2] == 0)
		jin_fail(j, JE_VALUE, "range() arg 3 must not be zero");
	span = v[2] > 0 ? (__int128) v[1] - v[0] : (__int128) v[0] - v[1];
	span = span <= 0 ? 0 : (span - 1) / (v[2] > 0 ? (__int128) v[2] : -(__int128) v[2]) + 1;
	if (span > MAX_RANGE)
		jin_fail(j, JE_OVERFLOW, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).",
				 MAX_RANGE);
	*r = (JRange) {.start = v[0],.stop = v[1],.step = v[2],.n = (int64_t) span};
	return (JVal) {.t = JT_RANGE,.r = r};
}

/* Return the items of dict(...) and namespace(...). */
static JDict *
make_dict(Jin *j, const JArgs *a)
{
	JDict	   *d = jin_dict(j);
	JSeq		s;
	JVal		v;

	if (a->n_pos > 1)
		jin_fail(j, JE_TYPE, "dict expected at most 1 argument, got %zu", a->n_pos);
	if (a->n_pos == 1 && (a->pos[0].t == JT_DICT))
		for (size_t i = 0; i < a->pos[0].d->n; i++)
			jin_dict_put(j, d, a->pos[0].d->e[i].k, a->pos[0].d->e[i].v);
	else if (a->n_pos == 1)
	{
		s = jin_iter(j, a->pos[0]);
		for (size_t i = 0; jin_next(j, &s, &v); i++)
		{
			JList	   *pair = jin_to_list(j, v);

			if (pair->n != 2)
				jin_fail(j, JE_VALUE, "dictionary update sequence element #%zu has length %zu; 2 is required",
						 i, pair->n);
			jin_dict_put(j, d, pair->v[0], pair->v[1]);
		}
	}
	for (size_t i = 0; i < a->n_kw; i++)
		jin_dict_put(j, d, jin_sval(a->names[i]), a->kw[i]);
	return d;
}

static JVal
g_dict(Jin *j, const JArgs *a)
{
	return (JVal) {.t = JT_DICT,.d = make_dict(j, a)};
}

static JVal
g_namespace(Jin *j, const JArgs *a)
{
	JDict	   *d = make_dict(j, a);

	for (size_t i = 0; i < d->n; i++)
		if (d->e[i].k.t == JT_STR && d->e[i].k.s->n > 0 && d->e[i].k.s->s[0] == '_')
			jin_fail(j, JE_SECURITY, "Chat templates cannot store underscore-prefixed attributes on a "
					 "namespace, but got %s. Please rename the attribute.", jin_repr_c(j, d->e[i].k));
	return (JVal) {.t = JT_NAMESPACE,.d = d};
}

static JVal
g_cycler(Jin *j, const JArgs *a)
{
	JCycle	   *c = jin_zalloc(j, sizeof(JCycle));

	if (a->n_kw > 0)
		jin_fail(j, JE_TYPE, "Cycler.__init__() got an unexpected keyword argument %s",
				 jin_repr_c(j, jin_sval(a->names[0])));
	if (a->n_pos == 0)
		jin_fail(j, JE_RUNTIME, "at least one item has to be provided");
	c->items = a->pos;
	c->n = a->n_pos;
	return (JVal) {.t = JT_CYCLER,.c = c};
}

static JVal
g_joiner(Jin *j, const JArgs *a)
{
	static const char *const names[] = {"sep", NULL};
	JCycle	   *c = jin_zalloc(j, sizeof(JCycle));

	c->items = jin_alloc(j, sizeof(JVal));
	c->items[0] = jin_cstr(j, ", ");
	jin_args(j, "Joiner.__init__", a, names, 0, c->items);
	return (JVal) {.t = JT_JOINER,.c = c};
}

static JVal
g_raise(Jin *j, const JArgs *a)
{
	static const char *const names[] = {"message", NULL};
	JVal		v[1];
	JStr	   *s;

	jin_args(j, "raise_exception", a, names, 1, v);
	s = jin_to_str(j, v[0]);
	jin_fail(j, JE_RAISED, "%.*s", s->n > 4096 ? 4096 : (int) s->n, s->s);
}

static JVal
g_strftime(Jin *j, const JArgs *a)
{
	static const char *const names[] = {"format", NULL};
	JVal		v[1];
	char		format[256];
	char		text[1024];
	JStr	   *s;

	jin_args(j, "strftime_now", a, names, 1, v);
	s = jin_arg_str(j, v[0]);
	jin_step(j, 200);
	if (s->n == 0)
		return jin_cstr(j, "");
	/* a leading space distinguishes an empty result from one that doesn't fit */
	if (s->n + 2 > sizeof(format) || memchr(s->s, '\0', s->n) != NULL)
		jin_fail(j, JE_VALUE, "strftime_now() format is too long");
	format[0] = ' ';
	memcpy(format + 1, s->s, s->n);
	format[s->n + 1] = '\0';
	if (j->now == NULL)
	{
		time_t		now = time(NULL);

		localtime_r(&now, &j->now_tm);
		j->now = &j->now_tm;
	}
	if (strftime(text, sizeof(text), format, j->now) == 0)
		jin_fail(j, JE_VALUE, "strftime_now() result is too long");
	/* nothing says which bytes came from where: input anywhere makes it all input */
	return jin_sval(jin_str(j, text + 1, strlen(text + 1),
							s->mask != NULL ? memchr(s->mask, 1, s->n) != NULL : s->input));
}

static JVal
g_lipsum(Jin *j, const JArgs *a)
{
	(void) a;
	jin_fail(j, JE_REFUSED, "function 'lipsum' is not supported");
}

static const struct
{
	const char *name;
	JVal		(*fn) (Jin *j, const JArgs *a);
}			globals[] = {
	{"dict", g_dict}, {"range", g_range}, {"namespace", g_namespace}, {"raise_exception", g_raise},
	{"strftime_now", g_strftime}, {"cycler", g_cycler}, {"joiner", g_joiner}, {"lipsum", g_lipsum}
};

JVal
jin_global(Jin *j, const JStr *name, bool *found)
{
	(void) j;
	*found = true;
	for (size_t i = 0; i < sizeof(globals) / sizeof(globals[0]); i++)
		if (jin_str_is(name, globals[i].name))
			return (JVal) {.t = JT_GLOBAL,.i = (int64_t) i};
	*found = false;
	return jin_none();
}

static JVal
call_joiner(Jin *j, JCycle *c, const JArgs *a)
{
	if (a->n_pos + a->n_kw > 0)
		jin_fail(j, JE_TYPE, "Joiner.__call__() takes 1 positional argument but %zu were given",
				 a->n_pos + a->n_kw + 1);
	if (c->at++ == 0)
		return jin_cstr(j, "");
	return c->items[0];
}

JVal
jin_call(Jin *j, JVal fn, const JArgs *a)
{
	switch (fn.t)
	{
		case JT_UNDEFINED:
			jin_fail_undefined(j, fn);
		case JT_MACRO:
			return jin_call_macro(j, fn.macro, a);
		case JT_METHOD:
			return jin_call_method(j, fn.m, a);
		case JT_GLOBAL:
			ALWAYS(fn.i >= 0 && (size_t) fn.i < sizeof(globals) / sizeof(globals[0]));
			return globals[fn.i].fn(j, a);
		case JT_LOOP:
			return call_loop(j, fn.loop, a);
		case JT_JOINER:
			return call_joiner(j, fn.c, a);
		default:
			jin_fail(j, JE_TYPE, "'%s' object is not callable", jin_type(fn));
	}
}
