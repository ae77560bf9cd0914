/*
 * jinja_test.c
 *	  Tests of the Jinja interpreter: what may follow "is".
 *
 * Tested by tests/golden/jinja_golden.c.
 */
#include <math.h>
#include <string.h>

#include "template/jinja_internal.h"

static JVal
operand(Jin *j, const JArgs *a)
{
	static const char *const names[] = {"other", NULL};
	JVal		v[1] = {jin_none()};

	jin_args(j, "test", a, names, 1, v);
	return v[0];
}

static void
alone(Jin *j, const JArgs *a)
{
	jin_args(j, "test", a, (const char *const[]) {NULL}, 0, NULL);
}

static bool
t_odd(Jin *j, JVal v, const JArgs *a)
{
	alone(j, a);
	return jin_equal(j, jin_binary(j, OP_MOD, v, jin_int(2)), jin_int(1));
}

static bool
t_even(Jin *j, JVal v, const JArgs *a)
{
	alone(j, a);
	return jin_equal(j, jin_binary(j, OP_MOD, v, jin_int(2)), jin_int(0));
}

static bool
t_divisibleby(Jin *j, JVal v, const JArgs *a)
{
	static const char *const names[] = {"num", NULL};
	JVal		arg[1];

	jin_args(j, "divisibleby", a, names, 1, arg);
	return jin_equal(j, jin_binary(j, OP_MOD, v, arg[0]), jin_int(0));
}

static bool
t_defined(Jin *j, JVal v, const JArgs *a)
{
	alone(j, a);
	return v.t != JT_UNDEFINED;
}

static bool
t_undefined(Jin *j, JVal v, const JArgs *a)
{
	alone(j, a);
	return v.t == JT_UNDEFINED;
}

/* Fail for a value that can't be a key, as names are looked up in a dict. */
static void
hashable(Jin *j, JVal v)
{
	if (v.t == JT_LIST || v.t == JT_DICT)
		jin_fail(j, JE_TYPE, "unhashable type: '%s'", jin_type(v));
}

static bool
t_filter(Jin *j, JVal v, const JArgs *a)
{
	alone(j, a);
	hashable(j, v);
	return v.t == JT_STR && jin_filter(v.s) != NULL;
}

static bool
t_test(Jin *j, JVal v, const JArgs *a)
{
	alone(j, a);
	hashable(j, v);
	return v.t == JT_STR && jin_test(v.s) != NULL;
}

static bool
t_none(Jin *j, JVal v, const JArgs *a)
{
	alone(j, a);
	return v.t == JT_NONE;
}

static bool
t_boolean(Jin *j, JVal v, const JArgs *a)
{
	alone(j, a);
	return v.t == JT_BOOL;
}

static bool
t_true(Jin *j, JVal v, const JArgs *a)
{
	alone(j, a);
	return v.t == JT_BOOL && v.b;
}

static bool
t_false(Jin *j, JVal v, const JArgs *a)
{
	alone(j, a);
	return v.t == JT_BOOL && !v.b;
}

static bool
t_integer(Jin *j, JVal v, const JArgs *a)
{
	alone(j, a);
	return v.t == JT_INT;
}

static bool
t_float(Jin *j, JVal v, const JArgs *a)
{
	alone(j, a);
	return v.t == JT_FLOAT;
}

static bool
t_number(Jin *j, JVal v, const JArgs *a)
{
	alone(j, a);
	return v.t == JT_INT || v.t == JT_FLOAT || v.t == JT_BOOL;
}

static bool
t_lower(Jin *j, JVal v, const JArgs *a)
{
	alone(j, a);
	return jin_is_case(j, jin_to_str(j, v), false);
}

static bool
t_upper(Jin *j, JVal v, const JArgs *a)
{
	alone(j, a);
	return jin_is_case(j, jin_to_str(j, v), true);
}

static bool
t_string(Jin *j, JVal v, const JArgs *a)
{
	alone(j, a);
	return v.t == JT_STR;
}

static bool
t_mapping(Jin *j, JVal v, const JArgs *a)
{
	alone(j, a);
	return v.t == JT_DICT;
}

static bool
t_sequence(Jin *j, JVal v, const JArgs *a)
{
	alone(j, a);
	return v.t == JT_STR || v.t == JT_LIST || v.t == JT_TUPLE || v.t == JT_DICT || v.t == JT_RANGE ||
		v.t == JT_UNDEFINED;
}

static bool
t_iterable(Jin *j, JVal v, const JArgs *a)
{
	alone(j, a);
	return jin_can_iter(v) || v.t == JT_LOOP;
}

static bool
t_callable(Jin *j, JVal v, const JArgs *a)
{
	alone(j, a);
	return v.t == JT_MACRO || v.t == JT_METHOD || v.t == JT_GLOBAL || v.t == JT_LOOP || v.t == JT_JOINER ||
		v.t == JT_UNDEFINED;
}

static bool
t_escaped(Jin *j, JVal v, const JArgs *a)
{
	alone(j, a);
	return v.t == JT_STR && v.s->markup;
}

static bool
t_sameas(Jin *j, JVal v, const JArgs *a)
{
	JVal		o = operand(j, a);

	if (v.t != o.t)
		return false;
	switch (v.t)
	{
		case JT_NONE:
			return true;
		case JT_BOOL:
			return v.b == o.b;
		case JT_INT:
			return v.i == o.i && v.i >= -5 && v.i <= 256;	/* the small integers, which Python caches */
		case JT_FLOAT:
			return false;
		default:
			return v.l == o.l;
	}
}

static bool
t_in(Jin *j, JVal v, const JArgs *a)
{
	return jin_contains(j, operand(j, a), v);
}

static bool
t_eq(Jin *j, JVal v, const JArgs *a)
{
	return jin_equal(j, v, operand(j, a));
}

static bool
t_ne(Jin *j, JVal v, const JArgs *a)
{
	return !jin_equal(j, v, operand(j, a));
}

static bool
t_gt(Jin *j, JVal v, const JArgs *a)
{
	return jin_less(j, v, operand(j, a), OP_GT);
}

static bool
t_ge(Jin *j, JVal v, const JArgs *a)
{
	return jin_less(j, v, operand(j, a), OP_GE);
}

static bool
t_lt(Jin *j, JVal v, const JArgs *a)
{
	return jin_less(j, v, operand(j, a), OP_LT);
}

static bool
t_le(Jin *j, JVal v, const JArgs *a)
{
	return jin_less(j, v, operand(j, a), OP_LE);
}

static const struct
{
	const char *name;
	JTestFn		fn;
}			tests[] = {
	{"odd", t_odd}, {"even", t_even}, {"divisibleby", t_divisibleby}, {"defined", t_defined},
	{"undefined", t_undefined},
	{"filter", t_filter}, {"test", t_test}, {"none", t_none}, {"boolean", t_boolean}, {"false", t_false},
	{"true", t_true}, {"integer", t_integer}, {"float", t_float}, {"lower", t_lower}, {"upper", t_upper},
	{"string", t_string}, {"mapping", t_mapping}, {"number", t_number}, {"sequence", t_sequence},
	{"iterable", t_iterable}, {"callable", t_callable}, {"sameas", t_sameas}, {"escaped", t_escaped},
	{"in", t_in},
	{"==", t_eq}, {"eq", t_eq}, {"equalto", t_eq}, {"!=", t_ne}, {"ne", t_ne}, {">", t_gt}, {"gt", t_gt},
	{"greaterthan", t_gt}, {"ge", t_ge}, {">=", t_ge}, {"<", t_lt}, {"lt", t_lt}, {"lessthan", t_lt},
	{"<=", t_le},
	{"le", t_le}
};

JTestFn
jin_test(const JStr *name)
{
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		if (jin_str_is(name, tests[i].name))
			return tests[i].fn;
	return NULL;
}

bool
jin_apply_test(Jin *j, const JStr *name, JVal v, const JArgs *a)
{
	JTestFn		fn = jin_test(name);

	if (fn == NULL)
		jin_fail(j, JE_RUNTIME, "No test named %s found.", jin_repr_c(j, jin_sval((JStr *) name)));
	jin_step(j, 1);
	return fn(j, v, a);
}
