/*
 * jinja_ops.c
 *	  Operators, subscripts, slices and attributes of the Jinja interpreter.
 *
 * Integers have 64 bits; Python's have no limit, so a result that doesn't fit is an error and never a
 * wrong number.  Attributes follow jinja2's order: x.name is an attribute (a method) first and then an
 * item, x['name'] the other way round.
 *
 * Tested by tests/golden/jinja_golden.c.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "template/jinja_internal.h"
#include "text/utf8.h"

static const char *
sign_of(JOp op)
{
	static const char *const signs[] = {
		[OP_ADD] = "+",[OP_SUB] = "-",[OP_MUL] = "*",[OP_DIV] = "/",[OP_FLOORDIV] = "//",[OP_MOD] = "%",
		[OP_POW] = "** or pow()"
	};

	ASSERT(op <= OP_POW);
	return signs[op];
}

static void __attribute__((noreturn))
bad_operands(Jin *j, JOp op, JVal a, JVal b)
{
	if (a.t == JT_UNDEFINED)
		jin_fail_undefined(j, a);
	if (b.t == JT_UNDEFINED)
		jin_fail_undefined(j, b);
	if (op == OP_ADD && a.t == JT_STR)
		jin_fail(j, JE_TYPE, "can only concatenate str (not \"%s\") to str", jin_type(b));
	if (op == OP_ADD && (a.t == JT_LIST || a.t == JT_TUPLE))
		jin_fail(j, JE_TYPE, "can only concatenate %s (not \"%s\") to %s", jin_type(a), jin_type(b),
				 jin_type(a));
	if (op == OP_MUL && (a.t == JT_STR || a.t == JT_LIST || a.t == JT_TUPLE))
		jin_fail(j, JE_TYPE, "can't multiply sequence by non-int of type '%s'", jin_type(b));
	if (op == OP_MUL && (b.t == JT_STR || b.t == JT_LIST || b.t == JT_TUPLE))
		jin_fail(j, JE_TYPE, "can't multiply sequence by non-int of type '%s'", jin_type(a));
	jin_fail(j, JE_TYPE, "unsupported operand type(s) for %s: '%s' and '%s'", sign_of(op), jin_type(a),
			 jin_type(b));
}

static void __attribute__((noreturn))
too_big(Jin *j)
{
	jin_fail(j, JE_OVERFLOW, "an integer does not fit into 64 bits");
}

static int64_t
int_of(JVal v)
{
	return v.t == JT_INT ? v.i : (int64_t) v.b;
}

static double
float_of(JVal v)
{
	return v.t == JT_FLOAT ? v.f : (double) int_of(v);
}

static bool
is_int(JVal v)
{
	return v.t == JT_INT || v.t == JT_BOOL;
}

static JVal
int_pow(Jin *j, int64_t a, int64_t b)
{
	int64_t		r = 1;

	if (b < 0)
	{
		if (a == 0)
			jin_fail(j, JE_ZERODIV, "0.0 cannot be raised to a negative power");
		return jin_float(pow((double) a, (double) b));
	}
	if (a == 0 || a == 1 || a == -1)
		return jin_int(b == 0 ? 1 : a == -1 && b % 2 == 0 ? 1 : a);
	for (; b > 0; b--)
		if (__builtin_mul_overflow(r, a, &r))
			too_big(j);
	return jin_int(r);
}

static JVal
int_op(Jin *j, JOp op, int64_t a, int64_t b)
{
	int64_t		r;
	bool		down;
	bool		over = false;

	switch (op)
	{
		case OP_ADD:
			over = __builtin_add_overflow(a, b, &r);
			break;
		case OP_SUB:
			over = __builtin_sub_overflow(a, b, &r);
			break;
		case OP_MUL:
			over = __builtin_mul_overflow(a, b, &r);
			break;
		case OP_DIV:
			if (b == 0)
				jin_fail(j, JE_ZERODIV, "division by zero");
			return jin_float((double) ((long double) a / (long double) b));
		case OP_POW:
			return int_pow(j, a, b);
		default:
			if (b == 0)
				jin_fail(j, JE_ZERODIV, op == OP_MOD ? "integer modulo by zero" : "integer division or "
																				  "modulo by zero");
			if (a == INT64_MIN && b == -1)
			{
				if (op == OP_MOD)
					return jin_int(0);
				too_big(j);
			}
			/* rounded down, and the remainder has the divisor's sign */
			r = a % b;
			down = r != 0 && (r < 0) != (b < 0);
			return jin_int(op == OP_MOD ? r + (down ? b : 0) : a / b - down);
	}
	if (over)
		too_big(j);
	return jin_int(r);
}

static JVal
float_op(Jin *j, JOp op, double a, double b)
{
	double		r;

	switch (op)
	{
		case OP_ADD:
			return jin_float(a + b);
		case OP_SUB:
			return jin_float(a - b);
		case OP_MUL:
			return jin_float(a * b);
		case OP_DIV:
			if (b == 0)
				jin_fail(j, JE_ZERODIV, "float division by zero");
			return jin_float(a / b);
		case OP_POW:
			if (a == 0 && b < 0)
				jin_fail(j, JE_ZERODIV, "0.0 cannot be raised to a negative power");
			if (a < 0 && b != floor(b))
				jin_fail(j, JE_VALUE, "a negative number to a fractional power is complex");
			r = pow(a, b);
			if (isinf(r) && !isinf(a) && !isinf(b))
				jin_fail(j, JE_OVERFLOW, "(34, 'Numerical result out of range')");
			return jin_float(r);
		default:
			if (b == 0)
				jin_fail(j, JE_ZERODIV, op == OP_MOD ? "float modulo" : "float floor division by zero");
			r = fmod(a, b);
			if (r != 0 && (r < 0) != (b < 0))
				r += b;
			else if (r == 0)
				r = copysign(0, b);
			if (op == OP_MOD)
				return jin_float(r);
			r = (a - r) / b;
			/* (a - r) / b is nearly a whole number */
			return jin_float(r == 0 ? copysign(0, a / b) : r - floor(r) > 0.5 ? floor(r) + 1 : floor(r));
	}
}

static JVal
add_lists(Jin *j, JVal a, JVal b)
{
	JList	   *l = jin_list(j, a.l->n + b.l->n);

	jin_step(j, a.l->n + b.l->n);
	for (size_t i = 0; i < a.l->n; i++)
		l->v[l->n++] = a.l->v[i];
	for (size_t i = 0; i < b.l->n; i++)
		l->v[l->n++] = b.l->v[i];
	return jin_lval(l, a.t);
}

/* Repeat a string, list or tuple n times. */
static JVal
repeat(Jin *j, JVal v, int64_t n)
{
	if (n < 0)
		n = 0;
	if (v.t == JT_STR)
	{
		JBuild		b = {0};

		if (v.s->n > 0 && n > 0)
		{
			if ((uint64_t) n > j->limits.output / v.s->n)
				jin_fail(j, JE_LIMIT, "a string is longer than %zu bytes", j->limits.output);
			jin_build_room(j, &b, v.s->n * (size_t) n);
			jin_step(j, (size_t) n);
			for (int64_t i = 0; i < n; i++)
				jin_build_str(j, &b, v.s);
		}
		return jin_sval(jin_markup(j, jin_build_done(j, &b), v.s->markup));
	}
	else
	{
		JList	   *l = jin_list(j, 0);

		if (v.l->n > 0 && (uint64_t) n > (uint64_t) j->limits.steps / v.l->n)
			jin_fail(j, JE_LIMIT, "a list is too long");
		for (int64_t i = 0; v.l->n > 0 && i < n; i++)
			for (size_t k = 0; k < v.l->n; k++)
				jin_list_add(j, l, v.l->v[k]);
		return jin_lval(l, v.t);
	}
}

bool
jin_contains(Jin *j, JVal seq, JVal v)
{
	JSeq		s;
	JVal		item;

	switch (seq.t)
	{
		case JT_STR:
			if (v.t != JT_STR)
				jin_fail(j, JE_TYPE, "'in <string>' requires string as left operand, not %s", jin_type(v));
			return jin_str_find(j, seq.s, v.s, 0) != SIZE_MAX;
		case JT_DICT:
			return jin_dict_find(j, seq.d, v) != NULL;
		case JT_VIEW:
			if (seq.view->kind == JVIEW_KEYS)
				return jin_dict_find(j, seq.view->d, v) != NULL;
			break;
		default:
			if (!jin_can_iter(seq))
				jin_fail(j, JE_TYPE, "argument of type '%s' is not iterable", jin_type(seq));
	}
	s = jin_iter(j, seq);
	while (jin_next(j, &s, &item))
		if (jin_equal(j, item, v))
			return true;
	return false;
}

static JVal
add_strings(Jin *j, const JStr *a, const JStr *b)
{
	if (a->markup == b->markup)
		return jin_sval(jin_markup(j, jin_str_join2(j, a, b), a->markup));
	a = jin_escape(j, a);
	b = jin_escape(j, b);
	return jin_sval(jin_markup(j, jin_str_join2(j, a, b), true));
}

JVal
jin_binary(Jin *j, JOp op, JVal a, JVal b)
{
	bool		a_seq = a.t == JT_STR || a.t == JT_LIST || a.t == JT_TUPLE;
	bool		b_seq = b.t == JT_STR || b.t == JT_LIST || b.t == JT_TUPLE;

	if (is_int(a) && is_int(b))
		return int_op(j, op, int_of(a), int_of(b));
	if ((is_int(a) || a.t == JT_FLOAT) && (is_int(b) || b.t == JT_FLOAT))
		return float_op(j, op, float_of(a), float_of(b));
	if (op == OP_MOD && a.t == JT_STR)
		return jin_sval(jin_percent(j, a.s, b));
	if (op == OP_ADD && a_seq && a.t == b.t)
		return a.t == JT_STR ? add_strings(j, a.s, b.s) : add_lists(j, a, b);
	if (op == OP_MUL && a_seq && is_int(b))
		return repeat(j, a, int_of(b));
	if (op == OP_MUL && b_seq && is_int(a))
		return repeat(j, b, int_of(a));
	bad_operands(j, op, a, b);
}

JVal
jin_negate(Jin *j, JVal v, bool minus)
{
	if (v.t == JT_FLOAT)
		return jin_float(minus ? -v.f : v.f);
	if (is_int(v))
		return minus ? int_op(j, OP_SUB, 0, int_of(v)) : jin_int(int_of(v));
	if (v.t == JT_UNDEFINED)
		jin_fail_undefined(j, v);
	jin_fail(j, JE_TYPE, "bad operand type for unary %c: '%s'", minus ? '-' : '+', jin_type(v));
}

/* ---- subscripts ---- */

/* Get element i of a sequence, counted from its end if negative; return false if there is none. */
static bool
element(Jin *j, JVal obj, int64_t i, JVal *out)
{
	int64_t		n = jin_len(j, obj, true);

	if (i < 0)
		i += n;
	if (i < 0 || i >= n)
		return false;
	if (obj.t == JT_STR)
	{
		size_t		at = jin_str_at(j, obj.s, (size_t) i);

		jin_step(j, 1 + at / 64);
		*out = jin_sval(jin_str_sub(j, obj.s, at, utf8_len((unsigned char) obj.s->s[at])));
	}
	else if (obj.t == JT_RANGE)
		*out = jin_int(jin_range_at(obj.r, i));
	else
		*out = obj.l->v[i];
	return true;
}

/* Get obj[key] as in Python; return false for a TypeError or LookupError. */
static bool
subscript(Jin *j, JVal obj, JVal key, JVal *out)
{
	const JPair *p;

	switch (obj.t)
	{
		case JT_UNDEFINED:
			jin_fail_undefined(j, obj);
		case JT_DICT:
			if (key.t == JT_LIST || key.t == JT_DICT)
				return false;	/* unhashable */
			p = jin_dict_find(j, obj.d, key);
			if (p != NULL)
				*out = p->v;
			return p != NULL;
		case JT_STR:
		case JT_LIST:
		case JT_TUPLE:
		case JT_RANGE:
			return is_int(key) && element(j, obj, int_of(key), out);
		default:
			return false;
	}
}

/* Attributes of Python's objects that a sandbox hides. */
static bool
is_hidden(JVal obj, const JStr *name)
{
	static const char *const container[] = {"__contains__", "__getitem__", "__iter__", "__len__"};
	static const char *const hidden[] = {
		"__class__", "__delattr__", "__dir__", "__doc__", "__eq__", "__format__", "__ge__",
		"__getattribute__", "__getstate__", "__gt__", "__hash__", "__init__", "__init_subclass__", "__le__",
		"__lt__", "__ne__", "__new__", "__reduce__", "__reduce_ex__", "__repr__", "__setattr__", "__sizeof__",
		"__str__", "__subclasshook__"
	};

	for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++)
		if (jin_str_is(name, hidden[i]))
			return true;
	for (size_t i = 0;
		 jin_can_iter(obj) && obj.t != JT_UNDEFINED && i < sizeof(container) / sizeof(container[0]); i++)
		if (jin_str_is(name, container[i]))
			return true;
	return false;
}

/* getattr(obj, name): a method or another attribute; return false if there is none. */
static bool
attribute(Jin *j, JVal obj, const JStr *name, JVal *out)
{
	bool		refused = false;
	char		c_name[32];
	const JPair *p;

	if (is_hidden(obj, name))
	{
		*out = jin_no_item(j, obj, jin_sval((JStr *) name), true);
		return true;
	}
	if (obj.t == JT_UNDEFINED)
	{
		/* names of Python's own protocol are absent, not an error */
		if (name->n > 4 && memcmp(name->s, "__", 2) == 0 && memcmp(name->s + name->n - 2, "__", 2) == 0)
			return false;
		jin_fail_undefined(j, obj);
	}
	if (obj.t == JT_NAMESPACE)
	{
		p = jin_dict_find(j, obj.d, jin_sval((JStr *) name));
		if (p != NULL)
			*out = p->v;
		return p != NULL;
	}
	if (obj.t == JT_LOOP)
	{
		*out = jin_loop_attr(j, obj.loop, name);
		return out->t != JT_UNDEFINED || jin_str_is(name, "previtem") || jin_str_is(name, "nextitem");
	}
	if (name->n >= sizeof(c_name))
		return false;
	memcpy(c_name, name->s, name->n);
	c_name[name->n] = '\0';
	if (obj.t == JT_TUPLE && obj.l->group && (strcmp(c_name, "grouper") == 0 || strcmp(c_name, "list") == 0))
	{
		*out = obj.l->v[c_name[0] == 'l'];
		return true;
	}
	if (obj.t == JT_CYCLER && strcmp(c_name, "current") == 0)
	{
		*out = obj.c->items[obj.c->at];
		return true;
	}
	if (obj.t == JT_MACRO && strcmp(c_name, "name") == 0 && obj.macro->node->str != NULL)
	{
		*out = jin_sval(obj.macro->node->str);
		return true;
	}
	if (!jin_has_method(obj, c_name, &refused))
		return false;
	if (refused)
		*out = jin_no_item(j, obj, jin_sval((JStr *) name), true);
	else
	{
		JMethod    *m = jin_alloc(j, sizeof(JMethod));

		m->self = obj;
		m->name = jin_str(j, c_name, strlen(c_name) + 1, false)->s;
		*out = (JVal) {.t = JT_METHOD,.m = m};
	}
	return true;
}

JVal
jin_get_attr(Jin *j, JVal obj, const JStr *name)
{
	JVal		r;

	if (attribute(j, obj, name, &r) || subscript(j, obj, jin_sval((JStr *) name), &r))
		return r;
	return jin_no_item(j, obj, jin_sval((JStr *) name), false);
}

JVal
jin_attr_only(Jin *j, JVal obj, const JStr *name)
{
	JVal		r;

	if (attribute(j, obj, name, &r))
		return r;
	return jin_no_item(j, obj, jin_sval((JStr *) name), false);
}

JVal
jin_get_item(Jin *j, JVal obj, JVal key)
{
	JVal		r;

	if (subscript(j, obj, key, &r) || (key.t == JT_STR && attribute(j, obj, key.s, &r)))
		return r;
	return jin_no_item(j, obj, key, false);
}

/* Read a slice's bound: None, or an integer. */
static bool
bound(Jin *j, JVal v, int64_t *out)
{
	if (v.t == JT_NONE)
		return false;
	if (!is_int(v))
		jin_fail(j, JE_TYPE, "slice indices must be integers or None or have an __index__ method");
	*out = int_of(v);
	return true;
}

/* The elements of a slice: count of them, each step from the one before it; to is after the last. */
typedef struct JinjaSlice
{
	int64_t		from;
	int64_t		to;
	int64_t		step;
	int64_t		count;
} JinjaSlice;

static int64_t
clamp(int64_t i, int64_t n, int64_t low, int64_t high)
{
	if (i < 0)
		i += n;
	return i < low ? low : i > high ? high : i;
}

/* A bound of a range that none of its numbers reaches: only its text shows where it was cut. */
static int64_t
cut_bound(__int128 v)
{
	return v < INT64_MIN ? INT64_MIN : v > INT64_MAX ? INT64_MAX : (int64_t) v;
}

static JVal
slice_range(Jin *j, const JRange *r, const JinjaSlice *s)
{
	JRange	   *out = jin_alloc(j, sizeof(JRange));
	__int128	step = (__int128) r->step * s->step;

	if (s->count > 1 && cut_bound(step) != step)
		too_big(j);
	out->n = s->count;
	out->start = s->count > 0 ? jin_range_at(r, s->from) : cut_bound(r->start + (__int128) r->step * s->from);
	out->step = cut_bound(step);
	out->stop = cut_bound(r->start + (__int128) r->step * s->to);
	return (JVal) {.t = JT_RANGE,.r = out};
}

static JVal
slice_str(Jin *j, JStr *s, int64_t from, int64_t step, int64_t count)
{
	JBuild		b = {0};
	size_t	   *at;
	size_t		chars = jin_str_chars(s);

	jin_step(j, 1 + s->n / 64);
	if (count == 0)
		return jin_sval(jin_str_sub(j, s, 0, 0));
	if (step == 1)
	{
		size_t		start = jin_str_at(j, s, (size_t) from);
		JStr		rest = {.s = s->s + start,.n = s->n - start,
							.chars = chars == s->n ? s->n - start : SIZE_MAX};

		return jin_sval(jin_str_sub(j, s, start, jin_str_at(j, &rest, (size_t) count)));
	}
	at = jin_alloc(j, (chars + 1) * sizeof(size_t));
	for (size_t i = 0, pos = 0; i <= chars; i++)
	{
		at[i] = pos;
		if (i < chars)
			pos += utf8_len((unsigned char) s->s[pos]);
	}
	jin_step(j, (size_t) count);
	for (int64_t i = 0; i < count; i++, from += step)
	{
		ALWAYS(from >= 0 && (size_t) from < chars);
		jin_build_sub(j, &b, s, at[from], at[from + 1] - at[from]);
	}
	return jin_sval(jin_markup(j, jin_build_done(j, &b), s->markup));
}

JVal
jin_slice(Jin *j, JVal obj, JVal from_v, JVal to_v, JVal step_v)
{
	int64_t		step = 1;
	int64_t		n;
	int64_t		from;
	int64_t		to;
	int64_t		count;
	JList	   *l;

	if (obj.t == JT_UNDEFINED)
		jin_fail_undefined(j, obj);
	if (obj.t == JT_DICT)
		jin_fail(j, JE_TYPE, "unhashable type: 'slice'");
	if (obj.t != JT_STR && obj.t != JT_LIST && obj.t != JT_TUPLE && obj.t != JT_RANGE)
		jin_fail(j, JE_TYPE, "'%s' object is not subscriptable", jin_type(obj));
	if (bound(j, step_v, &step) && step == 0)
		jin_fail(j, JE_VALUE, "slice step cannot be zero");
	n = jin_len(j, obj, true);
	if (step < -n - 1)
		step = -n - 1;
	if (step > n + 1)
		step = n + 1;
	from = bound(j, from_v, &from) ? clamp(from, n, step < 0 ? -1 : 0, step < 0 ? n - 1 : n) :
		step < 0 ? n - 1 : 0;
	to = bound(j, to_v, &to) ? clamp(to, n, step < 0 ? -1 : 0, step < 0 ? n - 1 : n) : step < 0 ? -1 : n;
	count = step > 0 ? (to - from + step - 1) / step : (from - to - step - 1) / -step;
	if ((step > 0 && to <= from) || (step < 0 && from <= to))
		count = 0;
	if (obj.t == JT_STR)
		return slice_str(j, obj.s, from, step, count);
	if (obj.t == JT_RANGE)
		return slice_range(j, obj.r, &(JinjaSlice) {from, to, step, count});
	l = jin_list(j, (size_t) count);
	for (int64_t i = 0; i < count; i++, from += step)
	{
		ALWAYS(from >= 0 && from < n);
		jin_list_add(j, l, obj.l->v[from]);
	}
	return jin_lval(l, obj.t);
}

/* ---- attribute paths of filters: "a.b.0" ---- */

void
jin_parse_path(Jin *j, JVal attr, JVal **path, size_t *n)
{
	const JStr *s = attr.s;
	size_t		from = 0;
	size_t		parts = 1;

	*path = NULL;
	*n = 0;
	if (attr.t == JT_NONE || attr.t == JT_UNDEFINED)
		return;
	if (attr.t != JT_STR)
	{
		*path = jin_alloc(j, sizeof(JVal));
		(*path)[(*n)++] = attr;
		return;
	}
	for (size_t i = 0; i < s->n; i++)
		parts += s->s[i] == '.';
	*path = jin_alloc(j, parts * sizeof(JVal));
	for (size_t i = 0; i <= s->n; i++)
		if (i == s->n || s->s[i] == '.')
		{
			const JStr *part = jin_str_sub(j, s, from, i - from);
			int64_t		number = 0;
			bool		digits = part->n > 0 && part->n < 18;

			for (size_t k = 0; k < part->n && digits; k++)
			{
				digits = part->s[k] >= '0' && part->s[k] <= '9';
				number = number * 10 + (part->s[k] - '0');
			}
			(*path)[(*n)++] = digits ? jin_int(number) : jin_sval((JStr *) part);
			from = i + 1;
		}
}

JVal
jin_attribute_path(Jin *j, JVal obj, const JVal *path, size_t n, JVal dflt)
{
	for (size_t i = 0; i < n; i++)
	{
		obj = jin_get_item(j, obj, path[i]);
		if (obj.t == JT_UNDEFINED && dflt.t != JT_UNDEFINED && dflt.t != JT_NONE)
			obj = dflt;
	}
	return obj;
}
