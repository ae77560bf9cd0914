/*
 * jinja_compare.c
 *	  Types, truth, comparison and text of the Jinja interpreter's values, as in Python.
 *
 * Tested by tests/golden/jinja_golden.c.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "template/jinja_internal.h"
#include "text/unicode.h"
#include "text/utf8.h"

const char *
jin_type(JVal v)
{
	static const char *const names[] = {
		[JT_UNDEFINED] = "Undefined",[JT_NONE] = "NoneType",[JT_BOOL] = "bool",[JT_INT] = "int",
		[JT_FLOAT] = "float",[JT_STR] = "str",[JT_LIST] = "list",[JT_TUPLE] = "tuple",[JT_DICT] = "dict",
		[JT_RANGE] = "range",[JT_NAMESPACE] = "Namespace",[JT_MACRO] = "Macro",[JT_LOOP] = "LoopContext",
		[JT_GLOBAL] = "function",[JT_METHOD] = "builtin_function_or_method",[JT_ITER] = "generator",
		[JT_CYCLER] = "Cycler",[JT_JOINER] = "Joiner"
	};
	static const char *const views[] = {"dict_keys", "dict_values", "dict_items"};

	ALWAYS(v.t <= JT_JOINER);
	return v.t == JT_VIEW ? views[v.view->kind] : names[v.t];
}

bool
jin_truth(Jin *j, JVal v)
{
	int64_t		n;

	switch (v.t)
	{
		case JT_UNDEFINED:
		case JT_NONE:
			return false;
		case JT_BOOL:
			return v.b;
		case JT_INT:
			return v.i != 0;
		case JT_FLOAT:
			return v.f != 0;
		default:
			n = jin_len(j, v, false);
			return n != 0;
	}
}

static bool
is_number(JVal v)
{
	return v.t == JT_BOOL || v.t == JT_INT || v.t == JT_FLOAT;
}

/* long double represents every int64 and every double exactly */
static long double
number(JVal v)
{
	return v.t == JT_FLOAT ? (long double) v.f : v.t == JT_INT ? (long double) v.i : (long double) v.b;
}

static bool
equal_dicts(Jin *j, const JDict *a, const JDict *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
	{
		const JPair *p = jin_dict_find(j, b, a->e[i].k);

		if (p == NULL || !jin_equal(j, a->e[i].v, p->v))
			return false;
	}
	return true;
}

static bool
equal_lists(Jin *j, const JList *a, const JList *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (!jin_equal(j, a->v[i], b->v[i]))
			return false;
	return true;
}

bool
jin_equal(Jin *j, JVal a, JVal b)
{
	bool		r;

	jin_step(j, 1);
	if (is_number(a) && is_number(b))
		return number(a) == number(b);
	if (a.t != b.t)
		return false;
	switch (a.t)
	{
		case JT_UNDEFINED:
		case JT_NONE:
			return true;
		case JT_STR:
			jin_step(j, a.s->n / 64);
			return jin_str_eq(a.s, b.s);
		case JT_LIST:
		case JT_TUPLE:
		case JT_DICT:
			jin_enter(j);
			r = a.t == JT_DICT ? equal_dicts(j, a.d, b.d) : equal_lists(j, a.l, b.l);
			jin_leave(j);
			return r;
		case JT_RANGE:
			return a.r->n == b.r->n &&
				(a.r->n == 0 || (a.r->start == b.r->start && (a.r->n == 1 || a.r->step == b.r->step)));
		case JT_GLOBAL:
			return a.i == b.i;
		case JT_METHOD:
			return strcmp(a.m->name, b.m->name) == 0 && jin_equal(j, a.m->self, b.m->self);
		default:
			return a.l == b.l;	/* the same object */
	}
}

static bool
by_order(int c, JOp op)
{
	return op == OP_LT ? c < 0 : op == OP_LE ? c <= 0 : op == OP_GT ? c > 0 : c >= 0;
}

bool
jin_less(Jin *j, JVal a, JVal b, JOp op)
{
	static const char *const signs[] = {[OP_LT] = "<",[OP_LE] = "<=",[OP_GT] = ">",[OP_GE] = ">="};

	ASSERT(op >= OP_LT && op <= OP_GE);
	if (is_number(a) && is_number(b))
	{
		long double x = number(a);
		long double y = number(b);

		return op == OP_LT ? x < y : op == OP_LE ? x <= y : op == OP_GT ? x > y : x >= y;
	}
	if (a.t == JT_UNDEFINED)
		jin_fail_undefined(j, a);
	if (b.t == JT_UNDEFINED)
		jin_fail_undefined(j, b);
	if (a.t == JT_STR && b.t == JT_STR)
	{
		jin_step(j, 1 + a.s->n / 64);
		return by_order(jin_str_cmp(a.s, b.s), op);
	}
	if (a.t == b.t && (a.t == JT_LIST || a.t == JT_TUPLE))
	{
		bool		r;
		size_t		i = 0;

		jin_enter(j);
		while (i < a.l->n && i < b.l->n && jin_equal(j, a.l->v[i], b.l->v[i]))
			i++;
		if (i < a.l->n && i < b.l->n)
			r = jin_less(j, a.l->v[i], b.l->v[i], op);
		else
			r = by_order((a.l->n > b.l->n) - (a.l->n < b.l->n), op);
		jin_leave(j);
		return r;
	}
	jin_fail(j, JE_TYPE, "'%s' not supported between instances of '%s' and '%s'", signs[op], jin_type(a),
			 jin_type(b));
}

/* ---- repr() and str() ---- */

/* Return Python's str.isprintable() for a character. */
static bool
printable(uint32_t cp)
{
	const char *c;

	if (cp < 0x7F)
		return cp >= 0x20;
	c = uni_category(cp);
	return c[0] != 'C' && c[0] != 'Z';
}

static void
repr_str(Jin *j, JBuild *b, const JStr *s)
{
	char		quote = memchr(s->s, '\'', s->n) != NULL && memchr(s->s, '"', s->n) == NULL ? '"' : '\'';
	size_t		len;

	jin_look_up(j, s->n);
	jin_build_room(j, b, s->n + 2);
	jin_build_add(j, b, &quote, 1, false);
	for (size_t i = 0; i < s->n; i += len)
	{
		uint32_t	cp = utf8_next(s->s + i, &len);
		bool		input = s->mask != NULL ? s->mask[i] : s->input;
		char		esc[16];

		if (cp == (uint32_t) quote || cp == '\\')
			snprintf(esc, sizeof(esc), "\\%c", (int) cp);
		else if (cp == '\n' || cp == '\r' || cp == '\t')
			snprintf(esc, sizeof(esc), "\\%c", cp == '\n' ? 'n' : cp == '\r' ? 'r' : 't');
		else if (printable(cp))
		{
			jin_build_add(j, b, s->s + i, len, input);
			continue;
		}
		else
			snprintf(esc, sizeof(esc), cp < 0x100 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x", cp);
		jin_build_add(j, b, esc, strlen(esc), input);
	}
	jin_build_add(j, b, &quote, 1, false);
}

static void
repr_items(Jin *j, JBuild *b, const JList *l)
{
	for (size_t i = 0; i < l->n; i++)
	{
		if (i > 0)
			jin_build_c(j, b, ", ");
		jin_repr(j, b, l->v[i]);
	}
}

static void
repr_dict(Jin *j, JBuild *b, const JDict *d)
{
	jin_build_c(j, b, "{");
	for (size_t i = 0; i < d->n; i++)
	{
		if (i > 0)
			jin_build_c(j, b, ", ");
		jin_repr(j, b, d->e[i].k);
		jin_build_c(j, b, ": ");
		jin_repr(j, b, d->e[i].v);
	}
	jin_build_c(j, b, "}");
}

static void
repr_other(Jin *j, JBuild *b, JVal v)
{
	char		text[96];

	switch (v.t)
	{
		case JT_RANGE:
			snprintf(text, sizeof(text), v.r->step == 1 ? "range(%lld, %lld)" : "range(%lld, %lld, %lld)",
					 (long long) v.r->start, (long long) v.r->stop, (long long) v.r->step);
			jin_build_c(j, b, text);
			break;
		case JT_NAMESPACE:
			jin_build_c(j, b, "<Namespace ");
			repr_dict(j, b, v.d);
			jin_build_c(j, b, ">");
			break;
		case JT_MACRO:
			jin_build_c(j, b, "<Macro ");
			if (v.macro->node->str != NULL)
				repr_str(j, b, v.macro->node->str);
			else
				jin_build_c(j, b, "'caller'");
			jin_build_c(j, b, ">");
			break;
		case JT_LOOP:
			snprintf(text, sizeof(text), "<LoopContext %lld/%lld>", (long long) v.loop->index0 + 1,
					 (long long) jin_len(j, v, true));
			jin_build_c(j, b, text);
			break;
		case JT_VIEW:
			snprintf(text, sizeof(text), "%s([", jin_type(v));
			jin_build_c(j, b, text);
			repr_items(j, b, jin_to_list(j, v));
			jin_build_c(j, b, "])");
			break;
		default:
			snprintf(text, sizeof(text), "<%s object>", jin_type(v));
			jin_build_c(j, b, text);
	}
}

void
jin_repr(Jin *j, JBuild *b, JVal v)
{
	char		text[40];

	jin_enter(j);
	jin_step(j, 1);
	switch (v.t)
	{
		case JT_UNDEFINED:
			jin_build_c(j, b, "Undefined");
			break;
		case JT_NONE:
			jin_build_c(j, b, "None");
			break;
		case JT_BOOL:
			jin_build_c(j, b, v.b ? "True" : "False");
			break;
		case JT_INT:
			snprintf(text, sizeof(text), "%lld", (long long) v.i);
			jin_build_c(j, b, text);
			break;
		case JT_FLOAT:
			jin_float_repr(j, text, sizeof(text), v.f);
			jin_build_c(j, b, text);
			break;
		case JT_STR:
			jin_build_c(j, b, v.s->markup ? "Markup(" : "");
			repr_str(j, b, v.s);
			jin_build_c(j, b, v.s->markup ? ")" : "");
			break;
		case JT_LIST:
			jin_build_c(j, b, "[");
			repr_items(j, b, v.l);
			jin_build_c(j, b, "]");
			break;
		case JT_TUPLE:
			jin_build_c(j, b, "(");
			repr_items(j, b, v.l);
			jin_build_c(j, b, v.l->n == 1 ? ",)" : ")");
			break;
		case JT_DICT:
			repr_dict(j, b, v.d);
			break;
		default:
			repr_other(j, b, v);
	}
	jin_leave(j);
}

void
jin_print(Jin *j, JBuild *b, JVal v)
{
	if (v.t == JT_STR)
		jin_build_str(j, b, v.s);
	else if (v.t != JT_UNDEFINED)
		jin_repr(j, b, v);
}

JStr *
jin_to_str(Jin *j, JVal v)
{
	JBuild		b = {0};

	if (v.t == JT_STR)
		return v.s;
	jin_print(j, &b, v);
	return jin_build_done(j, &b);
}

const char *
jin_repr_c(Jin *j, JVal v)
{
	JBuild		b = {0};

	jin_repr(j, &b, v);
	if (b.n > 200)
	{
		/* cut before a character */
		b.n = 200;
		while (b.n > 0 && ((unsigned char) b.s[b.n] & 0xC0) == 0x80)
			b.n--;
	}
	jin_build_add(j, &b, "", 1, false);
	return b.s;
}
