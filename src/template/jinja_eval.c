/*
 * jinja_eval.c
 *	  Evaluate the nodes of a template: statements write to the run's output, expressions return
 *	  values.
 *
 * Scopes are chains of small lists of variables.  A loop's body has a scope for each iteration, a
 * macro's for each call; an assignment sets a name in the innermost scope, and a read searches outwards.
 * The effect is that of jinja2's rules: what a loop sets is lost in the next iteration.
 *
 * Tested by tests/golden/jinja_golden.c.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "template/jinja_internal.h"

JScope *
jin_scope(Jin *j, JScope *up)
{
	JScope	   *sc = jin_alloc(j, sizeof(JScope));

	sc->up = up;
	sc->vars = NULL;
	return sc;
}

void
jin_let(Jin *j, JScope *sc, const JStr *name, JVal v)
{
	JVar	   *var;

	for (var = sc->vars; var != NULL; var = var->next)
	{
		jin_step(j, 1);
		if (jin_str_eq(var->name, name))
		{
			var->v = v;
			return;
		}
	}
	var = jin_alloc(j, sizeof(JVar));
	*var = (JVar) {.next = sc->vars,.name = name,.v = v};
	sc->vars = var;
}

static JVal
jin_lookup(Jin *j, JScope *sc, const JStr *name)
{
	const JPair *p;
	JVal		v;
	bool		found;

	for (; sc != NULL; sc = sc->up)
		for (JVar *var = sc->vars; var != NULL; var = var->next)
		{
			jin_step(j, 1);
			if (jin_str_eq(var->name, name))
				return var->v;
		}
	p = jin_dict_find(j, j->vars, jin_sval((JStr *) name));
	if (p != NULL)
		return p->v;
	v = jin_global(j, name, &found);
	return found ? v : jin_missing(j, name);
}

static void
assign_tuple(Jin *j, const JNode *target, JVal v, JScope *sc)
{
	JSeq		s = jin_iter(j, v);
	size_t		want = 0;
	size_t		got = 0;
	JList	   *items;
	JVal		item;

	for (const JNode *k = target->kids; k != NULL; k = k->next)
		want++;
	/* read all items before the first is assigned */
	items = jin_list(j, want);
	while (got <= want && jin_next(j, &s, &item))
	{
		if (got++ == want)
			jin_fail(j, JE_VALUE, "too many values to unpack (expected %zu)", want);
		jin_list_add(j, items, item);
	}
	if (got < want)
		jin_fail(j, JE_VALUE, "not enough values to unpack (expected %zu, got %zu)", want, got);
	got = 0;
	for (const JNode *k = target->kids; k != NULL; k = k->next)
		jin_assign(j, k, items->v[got++], sc);
}

void
jin_assign(Jin *j, const JNode *target, JVal v, JScope *sc)
{
	JVal		ns;

	if (target->kind == N_TUPLE)
		assign_tuple(j, target, v, sc);
	else if (target->kind == N_NSREF)
	{
		ns = jin_lookup(j, sc, target->str);
		if (ns.t != JT_NAMESPACE)
			jin_fail(j, JE_RUNTIME, "cannot assign attribute on non-namespace object");
		if (target->val.s->n > 0 && target->val.s->s[0] == '_')
			jin_fail(j, JE_SECURITY, "Chat templates cannot store underscore-prefixed attributes on a "
					 "namespace, but got %s. Please rename the attribute.", jin_repr_c(j, target->val));
		jin_dict_put(j, ns.d, target->val, v);
	}
	else
		jin_let(j, sc, target->str, v);
}

/* ---- expressions ---- */

/* Evaluate the arguments of a call, filter or test. */
static JArgs
eval_args(Jin *j, const JNode *n, JScope *sc)
{
	JList	   *pos = jin_list(j, 0);
	JDict	   *kw = NULL;
	JArgs		a = {0};

	for (const JNode *k = n->kids; k != NULL; k = k->next)
	{
		JSeq		s;
		JVal		v;

		if (k->kind == N_KEYWORD)
		{
			if (kw == NULL)
				kw = jin_dict(j);
			if (jin_dict_find(j, kw, jin_sval(k->str)) != NULL)
				jin_fail(j, JE_SYNTAX, "keyword argument repeated: %.*s", (int) k->str->n, k->str->s);
			jin_dict_put(j, kw, jin_sval(k->str), jin_eval(j, k->a, sc));
		}
		else if (k->kind == N_STARARG)
		{
			s = jin_iter(j, jin_eval(j, k->a, sc));
			while (jin_next(j, &s, &v))
				jin_list_add(j, pos, v);
		}
		else if (k->kind == N_STARSTAR)
		{
			v = jin_eval(j, k->a, sc);
			if (v.t != JT_DICT)
				jin_fail(j, JE_TYPE, "argument after ** must be a mapping, not %s", jin_type(v));
			if (kw == NULL)
				kw = jin_dict(j);
			for (size_t i = 0; i < v.d->n; i++)
			{
				jin_arg_str(j, v.d->e[i].k);
				jin_dict_put(j, kw, v.d->e[i].k, v.d->e[i].v);
			}
		}
		else
			jin_list_add(j, pos, jin_eval(j, k, sc));
	}
	a.pos = pos->v;
	a.n_pos = pos->n;
	if (kw != NULL)
	{
		a.names = jin_alloc(j, kw->n * sizeof(JStr *));
		a.kw = jin_alloc(j, kw->n * sizeof(JVal));
		a.n_kw = kw->n;
		for (size_t i = 0; i < kw->n; i++)
		{
			a.names[i] = kw->e[i].k.s;
			a.kw[i] = kw->e[i].v;
		}
	}
	return a;
}

static JVal
eval_list(Jin *j, const JNode *n, JScope *sc)
{
	JList	   *l = jin_list(j, 0);

	for (const JNode *k = n->kids; k != NULL; k = k->next)
		jin_list_add(j, l, jin_eval(j, k, sc));
	return jin_lval(l, n->kind == N_LIST ? JT_LIST : JT_TUPLE);
}

static JVal
eval_dict(Jin *j, const JNode *n, JScope *sc)
{
	JDict	   *d = jin_dict(j);

	for (const JNode *k = n->kids; k != NULL; k = k->next->next)
	{
		JVal		key = jin_eval(j, k, sc);

		jin_dict_put(j, d, key, jin_eval(j, k->next, sc));
	}
	return (JVal) {.t = JT_DICT,.d = d};
}

static bool
compare(Jin *j, JOp op, JVal a, JVal b)
{
	switch (op)
	{
		case OP_EQ:
			return jin_equal(j, a, b);
		case OP_NE:
			return !jin_equal(j, a, b);
		case OP_IN:
			return jin_contains(j, b, a);
		case OP_NOTIN:
			return !jin_contains(j, b, a);
		default:
			return jin_less(j, a, b, op);
	}
}

static JVal
eval_compare(Jin *j, const JNode *n, JScope *sc)
{
	JVal		left = jin_eval(j, n->a, sc);

	for (const JNode *k = n->kids; k != NULL; k = k->next)
	{
		JVal		right = jin_eval(j, k->a, sc);

		if (!compare(j, k->op, left, right))
			return jin_bool(false);
		left = right;
	}
	return jin_bool(true);
}

static JVal
eval_concat(Jin *j, const JNode *n, JScope *sc)
{
	JBuild		b = {0};

	for (const JNode *k = n->kids; k != NULL; k = k->next)
		jin_print(j, &b, jin_eval(j, k, sc));
	return jin_sval(jin_build_done(j, &b));
}

static JVal
eval_item(Jin *j, const JNode *n, JScope *sc)
{
	JVal		obj = jin_eval(j, n->a, sc);
	const JNode *s = n->b;
	JVal		from;
	JVal		to;

	if (s->kind != N_SLICE)
		return jin_get_item(j, obj, jin_eval(j, s, sc));
	from = s->a != NULL ? jin_eval(j, s->a, sc) : jin_none();
	to = s->b != NULL ? jin_eval(j, s->b, sc) : jin_none();
	return jin_slice(j, obj, from, to, s->c != NULL ? jin_eval(j, s->c, sc) : jin_none());
}

static JVal
eval_filter(Jin *j, const JNode *n, JVal v, JScope *sc)
{
	JArgs		a = eval_args(j, n, sc);

	return jin_apply_filter(j, n->str, v, &a);
}

static JVal
eval_call(Jin *j, const JNode *n, JScope *sc)
{
	JVal		fn = jin_eval(j, n->a, sc);
	JArgs		a = eval_args(j, n, sc);
	JVal		r;
	int			line = j->line;

	r = jin_call(j, fn, &a);
	j->line = line;
	return r;
}

static JVal
no_else(Jin *j, const JNode *n)
{
	char		hint[120];

	snprintf(hint, sizeof(hint), "the inline if-expression on line %d evaluated to false and no else section "
								 "was defined.",
			 n->line);
	return jin_undef_hint(j, jin_str(j, hint, strlen(hint) + 1, false)->s);
}

static JVal
eval_node(Jin *j, const JNode *n, JScope *sc)
{
	JVal		v;
	JArgs		a;

	switch (n->kind)
	{
		case N_CONST:
			return n->val;
		case N_NAME:
			return jin_lookup(j, sc, n->str);
		case N_TUPLE:
		case N_LIST:
			return eval_list(j, n, sc);
		case N_DICT:
			return eval_dict(j, n, sc);
		case N_COND:
			if (jin_truth(j, jin_eval(j, n->a, sc)))
				return jin_eval(j, n->b, sc);
			if (n->c != NULL)
				return jin_eval(j, n->c, sc);
			return no_else(j, n);
		case N_OR:
			v = jin_eval(j, n->a, sc);
			return jin_truth(j, v) ? v : jin_eval(j, n->b, sc);
		case N_AND:
			v = jin_eval(j, n->a, sc);
			return jin_truth(j, v) ? jin_eval(j, n->b, sc) : v;
		case N_NOT:
			return jin_bool(!jin_truth(j, jin_eval(j, n->a, sc)));
		case N_COMPARE:
			return eval_compare(j, n, sc);
		case N_BIN:
			v = jin_eval(j, n->a, sc);
			return jin_binary(j, n->op, v, jin_eval(j, n->b, sc));
		case N_CONCAT:
			return eval_concat(j, n, sc);
		case N_NEG:
		case N_POS:
			return jin_negate(j, jin_eval(j, n->a, sc), n->kind == N_NEG);
		case N_ATTR:
			return jin_get_attr(j, jin_eval(j, n->a, sc), n->str);
		case N_ITEM:
			return eval_item(j, n, sc);
		case N_CALLEXPR:
			return eval_call(j, n, sc);
		case N_FILTER:
			return eval_filter(j, n, jin_eval(j, n->a, sc), sc);
		case N_TEST:
			v = jin_eval(j, n->a, sc);
			a = eval_args(j, n, sc);
			return jin_bool(jin_apply_test(j, n->str, v, &a));
		case N_SLICE:
			jin_fail(j, JE_TYPE, "a slice can't be part of a tuple of subscripts");
		default:
			jin_fail(j, JE_RUNTIME, "this can't be evaluated");
	}
}

JVal
jin_eval(Jin *j, const JNode *n, JScope *sc)
{
	JVal		v;

	jin_step(j, 1);
	jin_enter(j);
	v = eval_node(j, n, sc);
	jin_leave(j);
	return v;
}

/* ---- statements ---- */

/* Return what a body writes, as a string. */
static JStr *
capture(Jin *j, const JNode *body, JScope *sc)
{
	JBuild	   *outer = j->out;
	JBuild		b = {0};

	j->out = &b;
	jin_exec(j, body, sc);
	j->out = outer;
	return jin_build_done(j, &b);
}

/* Apply the filters of a block, innermost first. */
static JVal
filter_chain(Jin *j, const JNode *n, JVal v, JScope *sc)
{
	if (n == NULL)
		return v;
	jin_enter(j);
	v = eval_filter(j, n, filter_chain(j, n->a, v, sc), sc);
	jin_leave(j);
	return v;
}

static void
exec_if(Jin *j, const JNode *n, JScope *sc)
{
	for (; n != NULL && n->kind == N_IF; n = n->c)
	{
		j->line = n->line;
		if (jin_truth(j, jin_eval(j, n->a, sc)))
		{
			jin_exec(j, n->b, sc);
			return;
		}
	}
	if (n != NULL)
		jin_exec(j, n, sc);
}

static void
exec_for(Jin *j, const JNode *n, JScope *sc)
{
	JVal		v = jin_eval(j, n->b, sc);
	JSeq		seq = jin_iter(j, v);
	int64_t		len = jin_len(j, v, false);

	if (n->x != NULL)
	{
		JIter	   *it = jin_zalloc(j, sizeof(JIter));

		*it = (JIter) {.kind = JI_FOR_IF,.seq = seq,.started = true,.node = n,.scope = sc};
		seq = (JSeq) {.v = {.t = JT_ITER,.it = it}};
		len = -1;
	}
	jin_run_loop(j, n, seq, len, sc, 0);
}

static void
exec_set(Jin *j, const JNode *n, JScope *sc)
{
	JVal		v;

	/* refuse a target that is no namespace before computing the value */
	if (n->a->kind == N_NSREF && jin_lookup(j, sc, n->a->str).t != JT_NAMESPACE)
		jin_fail(j, JE_RUNTIME, "cannot assign attribute on non-namespace object");
	if (n->kind == N_SET)
		v = jin_eval(j, n->b, sc);
	else
	{
		JScope	   *inner = jin_scope(j, sc);

		jin_undefine(j, inner, n->undef);
		v = jin_sval(capture(j, n->c, inner));
		if (j->loop_exit != 0)
			return;
		v = filter_chain(j, n->b, v, inner);
	}
	j->line = n->line;
	jin_assign(j, n->a, v, sc);
}

static void
exec_with(Jin *j, const JNode *n, JScope *sc)
{
	JScope	   *inner = jin_scope(j, sc);

	jin_undefine(j, inner, n->undef);
	/* the values don't see each other's names */
	for (const JNode *k = n->kids; k != NULL; k = k->next)
		jin_assign(j, k->a, jin_eval(j, k->b, sc), inner);
	jin_exec(j, n->c, inner);
}

static void
exec_macro(Jin *j, const JNode *n, JScope *sc)
{
	JMacro	   *m = jin_alloc(j, sizeof(JMacro));

	m->node = n;
	m->scope = sc;
	jin_let(j, sc, n->str, (JVal) {.t = JT_MACRO,.macro = m});
}

static void
exec_call(Jin *j, const JNode *n, JScope *sc)
{
	JMacro	   *m = jin_alloc(j, sizeof(JMacro));
	JVal		fn = jin_eval(j, n->a->a, sc);
	JArgs		a = eval_args(j, n->a, sc);
	JArgs		with = {.pos = a.pos,.n_pos = a.n_pos,.n_kw = a.n_kw + 1};

	m->node = n;
	m->scope = sc;
	with.names = jin_alloc(j, with.n_kw * sizeof(JStr *));
	with.kw = jin_alloc(j, with.n_kw * sizeof(JVal));
	for (size_t i = 0; i < a.n_kw; i++)
	{
		with.names[i] = a.names[i];
		with.kw[i] = a.kw[i];
	}
	with.names[a.n_kw] = jin_str(j, "caller", 6, false);
	with.kw[a.n_kw] = (JVal) {.t = JT_MACRO,.macro = m};
	j->line = n->line;
	jin_print(j, j->out, jin_call(j, fn, &with));
}

static void
exec_node(Jin *j, const JNode *n, JScope *sc)
{
	JScope	   *inner;
	JVal		v;

	switch (n->kind)
	{
		case N_DATA:
			jin_build_str(j, j->out, n->str);
			break;
		case N_OUTPUT:
			for (const JNode *k = n->kids; k != NULL; k = k->next)
			{
				j->line = k->line;
				jin_print(j, j->out, jin_eval(j, k, sc));
			}
			break;
		case N_IF:
			exec_if(j, n, sc);
			break;
		case N_FOR:
			exec_for(j, n, sc);
			break;
		case N_SET:
		case N_SETBLOCK:
			exec_set(j, n, sc);
			break;
		case N_MACRO:
			exec_macro(j, n, sc);
			break;
		case N_CALL:
			exec_call(j, n, sc);
			break;
		case N_FILTERBLOCK:
			inner = jin_scope(j, sc);
			jin_undefine(j, inner, n->undef);
			v = jin_sval(capture(j, n->c, inner));
			if (j->loop_exit == 0)
				jin_print(j, j->out, filter_chain(j, n->b, v, inner));
			break;
		case N_WITH:
			exec_with(j, n, sc);
			break;
		case N_SCOPED:
			inner = jin_scope(j, sc);
			jin_undefine(j, inner, n->undef);
			jin_exec(j, n->c, inner);
			break;
		case N_BREAK:
		case N_CONTINUE:
			j->loop_exit = (int) n->kind;
			break;
		case N_REFUSED:
			jin_fail(j, JE_REFUSED, "\"%.*s\" is not supported in chat templates", (int) n->str->n,
					 n->str->s);
		default:
			jin_fail(j, JE_RUNTIME, "this can't be executed");
	}
}

void
jin_exec(Jin *j, const JNode *n, JScope *sc)
{
	jin_enter(j);
	if (n->kind == N_BODY)
	{
		for (const JNode *k = n->kids; k != NULL && j->loop_exit == 0; k = k->next)
		{
			jin_step(j, 1);
			j->line = k->line;
			exec_node(j, k, sc);
		}
	}
	else
	{
		j->line = n->line;
		exec_node(j, n, sc);
	}
	jin_leave(j);
}

/* ---- loops ---- */

/*
 * Run a loop over seq; len is its length if that is known without reading it, else -1.  The body's
 * output goes to the run's output.
 */
JVal
jin_run_loop(Jin *j, const JNode *n, JSeq seq, int64_t len, JScope *sc, int depth0)
{
	JLoop	   *l = jin_zalloc(j, sizeof(JLoop));
	bool		completed = false;
	JStr		name = {.s = "loop",.n = 4,.chars = 4};
	JStr	   *loop_name = jin_str(j, name.s, name.n, false);
	JVal		item;

	*l = (JLoop) {.seq = seq,.index0 = -1,.length = len,.depth0 = depth0,.node = n,.scope = sc,
				  .recursive = n->flags};
	l->prev.t = l->cur.t = JT_UNDEFINED;
	for (;;)
	{
		JScope	   *inner;

		if (l->has_next)
			item = l->next;
		else if (l->at_end || !jin_next(j, &l->seq, &item))
			break;
		l->has_next = false;
		l->index0++;
		l->prev = l->cur;
		l->cur = item;
		inner = jin_scope(j, sc);
		jin_undefine(j, inner, n->undef);
		jin_let(j, inner, loop_name, (JVal) {.t = JT_LOOP,.loop = l});
		jin_assign(j, n->a, item, inner);
		jin_exec(j, n->c, inner);
		if (j->loop_exit == N_BREAK)
		{
			j->loop_exit = 0;
			break;
		}
		/* jinja2 runs the else part unless an iteration has reached its end */
		if (j->loop_exit == 0)
			completed = true;
		j->loop_exit = 0;
		j->line = n->line;
	}
	if (!completed && n->d != NULL)
	{
		JScope	   *inner = jin_scope(j, sc);

		jin_undefine(j, inner, n->undef_else);
		jin_exec(j, n->d, inner);
	}
	return jin_none();
}

/* ---- a whole run ---- */

typedef struct Render
{
	JBuild		b;
} Render;

static void
render(Jin *j, void *arg)
{
	Render	   *r = arg;
	int			depth = j->depth;

	if (j->vars == NULL)
		j->vars = jin_dict(j);
	j->out = &r->b;
	j->globals = jin_scope(j, NULL);
	jin_undefine(j, j->globals, j->tpl->body->undef);
	jin_exec(j, j->tpl->body, j->globals);
	/* every jin_enter() had its jin_leave(), and every captured block has ended */
	ASSERT(j->depth == depth && j->out == &r->b);
}

bool
jin_render(Jin *j, const JinTemplate *t, Buf *out, Buf *marks, Err *e)
{
	Render		r = {0};

	j->tpl = t;
	if (!jin_guard(j, render, &r, e))
		return false;
	if (r.b.n == 0)
		return true;
	buf_add(out, r.b.s, r.b.n);
	if (marks != NULL && r.b.marks != NULL)
		buf_add(marks, r.b.marks, r.b.n);
	else if (marks != NULL)
	{
		buf_reserve(marks, r.b.n);
		memset(marks->data + marks->len, r.b.input, r.b.n);
		marks->len += r.b.n;
	}
	return true;
}
