/*
 * jinja_filter.c
 *	  Filters of the Jinja interpreter on sequences and numbers, and the table of all filters.
 *
 * All of jinja2's filters are known; those that make HTML (other than by escaping), draw random numbers
 * or print for debugging are refused.
 *
 * Tested by tests/golden/jinja_golden.c.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "template/jinja_filter.h"

/* ---- sorting ---- */

static void
merge(Jin *j, JVal *v, JVal *k, JVal *tv, JVal *tk, size_t n, bool reverse)
{
	size_t		half = n / 2;
	size_t		a = 0;
	size_t		b = half;

	if (n < 2)
		return;
	merge(j, v, k, tv, tk, half, reverse);
	merge(j, v + half, k + half, tv, tk, n - half, reverse);
	for (size_t i = 0; i < n; i++)
	{
		bool		right = a == half;

		if (a < half && b < n)
			right = reverse ? jin_less(j, k[a], k[b], OP_LT) : jin_less(j, k[b], k[a], OP_LT);
		tv[i] = right ? v[b] : v[a];
		tk[i] = right ? k[b++] : k[a++];
	}
	ALWAYS(a == half && b == n);
	memcpy(v, tv, n * sizeof(JVal));
	memcpy(k, tk, n * sizeof(JVal));
}

void
jin_sort(Jin *j, JVal *v, JVal *keys, size_t n, bool reverse)
{
	JVal	   *t = jin_alloc(j, 2 * n * sizeof(JVal));

	merge(j, v, keys, t, t + n, n, reverse);
}

JVal
jin_fold(Jin *j, JVal v)
{
	return v.t == JT_STR ? jin_sval(jin_lower(j, v.s)) : v;
}

/* Return the sort key of an item: the attributes "a,b.c" as a list, or the item itself. */
static JVal
multi_key(Jin *j, JVal item, JVal attribute, bool fold)
{
	JList	   *l = jin_list(j, 1);
	JVal	   *path;
	size_t		n;
	size_t		from = 0;

	if (attribute.t != JT_STR)
	{
		jin_parse_path(j, attribute, &path, &n);
		item = jin_attribute_path(j, item, path, n, jin_none());
		jin_list_add(j, l, fold ? jin_fold(j, item) : item);
		return jin_lval(l, JT_LIST);
	}
	for (size_t i = 0; i <= attribute.s->n; i++)
		if (i == attribute.s->n || attribute.s->s[i] == ',')
		{
			JVal		v;

			jin_parse_path(j, jin_sval(jin_str_sub(j, attribute.s, from, i - from)), &path, &n);
			v = jin_attribute_path(j, item, path, n, jin_none());
			jin_list_add(j, l, fold ? jin_fold(j, v) : v);
			from = i + 1;
		}
	return jin_lval(l, JT_LIST);
}

static JVal
one_key(Jin *j, JVal item, JVal attribute, JVal dflt, bool fold)
{
	JVal	   *path;
	size_t		n;

	jin_parse_path(j, attribute, &path, &n);
	item = jin_attribute_path(j, item, path, n, dflt);
	return fold ? jin_fold(j, item) : item;
}

static JVal
f_sort(Jin *j, JVal v, const JArgs *a)
{
	static const char *const names[] = {"reverse", "case_sensitive", "attribute", NULL};
	JVal		arg[3] = {jin_bool(false), jin_bool(false), jin_none()};
	JList	   *l = jin_to_list(j, v);
	JVal	   *keys;

	jin_args(j, "sort", a, names, 0, arg);
	keys = jin_alloc(j, l->n * sizeof(JVal));
	for (size_t i = 0; i < l->n; i++)
		keys[i] = multi_key(j, l->v[i], arg[2], !jin_truth(j, arg[1]));
	jin_sort(j, l->v, keys, l->n, jin_truth(j, arg[0]));
	return jin_lval(l, JT_LIST);
}

static JVal
f_dictsort(Jin *j, JVal v, const JArgs *a)
{
	static const char *const names[] = {"case_sensitive", "by", "reverse", NULL};
	JVal		arg[3] = {jin_bool(false), jin_cstr(j, "key"), jin_bool(false)};
	JList	   *l = jin_list(j, 0);
	JVal	   *keys;
	bool		by_value;

	jin_args(j, "dictsort", a, names, 0, arg);
	if (arg[1].t != JT_STR || (!jin_str_is(arg[1].s, "key") && !jin_str_is(arg[1].s, "value")))
		jin_fail(j, JE_VALUE, "You can only sort by either \"key\" or \"value\"");
	by_value = jin_str_is(arg[1].s, "value");
	if (v.t == JT_UNDEFINED)
		jin_fail_undefined(j, v);
	if (v.t != JT_DICT)
		jin_fail(j, JE_TYPE, "'%s' object has no attribute 'items'", jin_type(v));
	keys = jin_alloc(j, v.d->n * sizeof(JVal));
	for (size_t i = 0; i < v.d->n; i++)
	{
		JVal		k = by_value ? v.d->e[i].v : v.d->e[i].k;

		keys[i] = jin_truth(j, arg[0]) ? k : jin_fold(j, k);
		jin_list_add(j, l, jin_pair(j, v.d->e[i].k, v.d->e[i].v));
	}
	jin_sort(j, l->v, keys, l->n, jin_truth(j, arg[2]));
	return jin_lval(l, JT_LIST);
}

static JVal
f_groupby(Jin *j, JVal v, const JArgs *a)
{
	static const char *const names[] = {"attribute", "default", "case_sensitive", NULL};
	JVal		arg[3] = {jin_none(), jin_none(), jin_bool(false)};
	JList	   *l = jin_to_list(j, v);
	JList	   *out = jin_list(j, 0);
	JVal	   *keys;
	bool		fold;

	jin_args(j, "groupby", a, names, 1, arg);
	fold = !jin_truth(j, arg[2]);
	keys = jin_alloc(j, l->n * sizeof(JVal));
	for (size_t i = 0; i < l->n; i++)
		keys[i] = one_key(j, l->v[i], arg[0], arg[1], fold);
	jin_sort(j, l->v, keys, l->n, false);
	for (size_t i = 0; i < l->n;)
	{
		JList	   *group = jin_list(j, 0);
		JVal		key = keys[i];
		JVal		pair;
		size_t		first = i;

		for (; i < l->n && jin_equal(j, keys[i], key); i++)
			jin_list_add(j, group, l->v[i]);
		if (fold)
			key = one_key(j, l->v[first], arg[0], arg[1], false);
		pair = jin_pair(j, key, jin_lval(group, JT_LIST));
		pair.l->group = true;
		jin_list_add(j, out, pair);
	}
	return jin_lval(out, JT_LIST);
}

static JVal
extreme(Jin *j, JVal v, const JArgs *a, bool most)
{
	static const char *const names[] = {"case_sensitive", "attribute", NULL};
	JVal		arg[2] = {jin_bool(false), jin_none()};
	JSeq		s = jin_iter(j, v);
	JVal		best;
	JVal		best_key;
	JVal		item;

	jin_args(j, most ? "max" : "min", a, names, 0, arg);
	if (!jin_next(j, &s, &best))
		return jin_undef_hint(j, "No aggregated item, sequence was empty.");
	best_key = one_key(j, best, arg[1], jin_none(), !jin_truth(j, arg[0]));
	while (jin_next(j, &s, &item))
	{
		JVal		key = one_key(j, item, arg[1], jin_none(), !jin_truth(j, arg[0]));

		if (jin_less(j, key, best_key, most ? OP_GT : OP_LT))
		{
			best = item;
			best_key = key;
		}
	}
	return best;
}

static JVal
f_min(Jin *j, JVal v, const JArgs *a)
{
	return extreme(j, v, a, false);
}

static JVal
f_max(Jin *j, JVal v, const JArgs *a)
{
	return extreme(j, v, a, true);
}

/* ---- lazy filters ---- */

static JVal
lazy(Jin *j, JIter it)
{
	JIter	   *p = jin_alloc(j, sizeof(JIter));

	*p = it;
	return (JVal) {.t = JT_ITER,.it = p};
}

static JVal
f_map(Jin *j, JVal v, const JArgs *a)
{
	JIter		it = {.kind = JI_MAP,.args = *a};

	/* a false value counts as empty, whatever its type is */
	it.seq = jin_can_iter(v) ? jin_iter(j, v) : (JSeq) {.v = v};
	if (!jin_can_iter(v) && jin_truth(j, v))
		jin_iter(j, v);
	return lazy(j, it);
}

static JVal
selection(Jin *j, JVal v, const JArgs *a, bool negate, bool by_attr)
{
	JIter		it = {.kind = JI_SELECT,.args = *a,.negate = negate,.by_attr = by_attr};

	it.seq = jin_can_iter(v) ? jin_iter(j, v) : (JSeq) {.v = v};
	if (!jin_can_iter(v) && jin_truth(j, v))
		jin_iter(j, v);
	return lazy(j, it);
}

static JVal
f_select(Jin *j, JVal v, const JArgs *a)
{
	return selection(j, v, a, false, false);
}

static JVal
f_reject(Jin *j, JVal v, const JArgs *a)
{
	return selection(j, v, a, true, false);
}

static JVal
f_selectattr(Jin *j, JVal v, const JArgs *a)
{
	return selection(j, v, a, false, true);
}

static JVal
f_rejectattr(Jin *j, JVal v, const JArgs *a)
{
	return selection(j, v, a, true, true);
}

static JVal
f_unique(Jin *j, JVal v, const JArgs *a)
{
	static const char *const names[] = {"case_sensitive", "attribute", NULL};
	JVal		arg[2] = {jin_bool(false), jin_none()};
	JIter		it = {.kind = JI_UNIQUE,.started = true,.seen = jin_dict(j),.seq = jin_iter(j, v)};

	jin_args(j, "unique", a, names, 0, arg);
	it.fold = !jin_truth(j, arg[0]);
	jin_parse_path(j, arg[1], &it.path, &it.n_path);
	return lazy(j, it);
}

static JVal
f_items(Jin *j, JVal v, const JArgs *a)
{
	JList	   *l = jin_list(j, 0);

	jin_args(j, "items", a, (const char *const[]) {NULL}, 0, NULL);
	if (v.t != JT_DICT && v.t != JT_UNDEFINED)
		jin_fail(j, JE_TYPE, "Can only get item pairs from a mapping.");
	for (size_t i = 0; v.t == JT_DICT && i < v.d->n; i++)
		jin_list_add(j, l, jin_pair(j, v.d->e[i].k, v.d->e[i].v));
	return lazy(j, (JIter) {.kind = JI_SEQ,.started = true,.seq = {.v = jin_lval(l, JT_LIST)}});
}

static JVal
reversed(Jin *j, JVal v)
{
	JList	   *l = jin_to_list(j, v);

	return lazy(j, (JIter) {.kind = JI_REVERSED,.seq = {.v = jin_lval(l, JT_LIST),.i = l->n}});
}

static JVal
f_reverse(Jin *j, JVal v, const JArgs *a)
{
	jin_args(j, "reverse", a, (const char *const[]) {NULL}, 0, NULL);
	if (v.t == JT_STR)
		return jin_slice(j, v, jin_none(), jin_none(), jin_int(-1));
	if (!jin_can_iter(v))
		jin_fail(j, JE_TYPE, "argument must be iterable");
	if (v.t == JT_ITER)
	{
		JVal		r = reversed(j, v);

		return jin_lval(jin_to_list(j, r), JT_LIST);
	}
	return reversed(j, v);
}

/* ---- simple filters ---- */

static JVal
f_list(Jin *j, JVal v, const JArgs *a)
{
	jin_args(j, "list", a, (const char *const[]) {NULL}, 0, NULL);
	return jin_lval(jin_to_list(j, v), JT_LIST);
}

static JVal
f_length(Jin *j, JVal v, const JArgs *a)
{
	jin_args(j, "len", a, (const char *const[]) {NULL}, 0, NULL);
	return jin_int(jin_len(j, v, true));
}

static JVal
f_first(Jin *j, JVal v, const JArgs *a)
{
	JSeq		s = jin_iter(j, v);
	JVal		r;

	jin_args(j, "first", a, (const char *const[]) {NULL}, 0, NULL);
	return jin_next(j, &s, &r) ? r : jin_undef_hint(j, "No first item, sequence was empty.");
}

static JVal
f_last(Jin *j, JVal v, const JArgs *a)
{
	JList	   *l;

	jin_args(j, "last", a, (const char *const[]) {NULL}, 0, NULL);
	if (v.t == JT_ITER || !jin_can_iter(v))
		jin_fail(j, JE_TYPE, "'%s' object is not reversible", jin_type(v));
	l = jin_to_list(j, v);
	return l->n > 0 ? l->v[l->n - 1] : jin_undef_hint(j, "No last item, sequence was empty.");
}

static JVal
f_default(Jin *j, JVal v, const JArgs *a)
{
	static const char *const names[] = {"default_value", "boolean", NULL};
	JVal		arg[2] = {jin_cstr(j, ""), jin_bool(false)};

	jin_args(j, "default", a, names, 0, arg);
	return v.t == JT_UNDEFINED || (jin_truth(j, arg[1]) && !jin_truth(j, v)) ? arg[0] : v;
}

static JVal
f_attr(Jin *j, JVal v, const JArgs *a)
{
	static const char *const names[] = {"name", NULL};
	JVal		arg[1];

	jin_args(j, "attr", a, names, 1, arg);
	return jin_attr_only(j, v, jin_arg_str(j, arg[0]));
}

static JVal
f_sum(Jin *j, JVal v, const JArgs *a)
{
	static const char *const names[] = {"attribute", "start", NULL};
	JVal		arg[2] = {jin_none(), jin_int(0)};
	JSeq		s = jin_iter(j, v);
	JVal		item;

	jin_args(j, "sum", a, names, 0, arg);
	if (arg[1].t == JT_STR)
		jin_fail(j, JE_TYPE, "sum() can't sum strings [use ''.join(seq) instead]");
	while (jin_next(j, &s, &item))
		arg[1] = jin_binary(j, OP_ADD, arg[1], one_key(j, item, arg[0], jin_none(), false));
	return arg[1];
}

static JVal
f_batch(Jin *j, JVal v, const JArgs *a)
{
	static const char *const names[] = {"linecount", "fill_with", NULL};
	JVal		arg[2] = {jin_none(), jin_none()};
	JSeq		s = jin_iter(j, v);
	JList	   *out = jin_list(j, 0);
	JList	   *row = jin_list(j, 0);
	int64_t		n;
	JVal		item;

	jin_args(j, "batch", a, names, 1, arg);
	n = jin_arg_int(j, arg[0]);
	while (jin_next(j, &s, &item))
	{
		if ((int64_t) row->n == n)
		{
			jin_list_add(j, out, jin_lval(row, JT_LIST));
			row = jin_list(j, 0);
		}
		jin_list_add(j, row, item);
	}
	if (row->n > 0)
	{
		while (arg[1].t != JT_NONE && (int64_t) row->n < n)
			jin_list_add(j, row, arg[1]);
		jin_list_add(j, out, jin_lval(row, JT_LIST));
	}
	return lazy(j, (JIter) {.kind = JI_SEQ,.started = true,.seq = {.v = jin_lval(out, JT_LIST)}});
}

static JVal
f_slice(Jin *j, JVal v, const JArgs *a)
{
	static const char *const names[] = {"slices", "fill_with", NULL};
	JVal		arg[2] = {jin_none(), jin_none()};
	JList	   *l = jin_to_list(j, v);
	JList	   *out = jin_list(j, 0);
	size_t		at = 0;
	int64_t		n;

	jin_args(j, "slice", a, names, 1, arg);
	n = jin_arg_int(j, arg[0]);
	if (n == 0)
		jin_fail(j, JE_ZERODIV, "integer division or modulo by zero");
	for (int64_t i = 0; i < n; i++)
	{
		size_t		want = l->n / (size_t) n + (i < (int64_t) (l->n % (size_t) n));
		JList	   *row = jin_list(j, want + 1);

		for (size_t k = 0; k < want; k++)
			jin_list_add(j, row, l->v[at++]);
		if (arg[1].t != JT_NONE && i >= (int64_t) (l->n % (size_t) n))
			jin_list_add(j, row, arg[1]);
		jin_list_add(j, out, jin_lval(row, JT_LIST));
	}
	ASSERT(n < 0 || at == l->n);
	return lazy(j, (JIter) {.kind = JI_SEQ,.started = true,.seq = {.v = jin_lval(out, JT_LIST)}});
}

/* ---- numbers ---- */

static JVal
f_abs(Jin *j, JVal v, const JArgs *a)
{
	jin_args(j, "abs", a, (const char *const[]) {NULL}, 0, NULL);
	if (v.t == JT_FLOAT)
		return jin_float(fabs(v.f));
	if (v.t != JT_INT && v.t != JT_BOOL)
		jin_fail(j, JE_TYPE, "bad operand type for abs(): '%s'", jin_type(v));
	return v.t == JT_INT && v.i < 0 ? jin_negate(j, v, true) : jin_negate(j, v, false);
}

/* Copy a number's text without white space around it and underscores inside; return false if it is too
 * long. */
static bool
number_text(Jin *j, JStr *s, char *out, size_t size)
{
	const JStr *t = jin_strip(j, s, NULL, 3);
	size_t		k = 0;

	for (size_t i = 0; i < t->n; i++)
	{
		if (t->s[i] == '_' && i > 0 && i + 1 < t->n && t->s[i - 1] != '_' && t->s[i + 1] != '_')
			continue;
		if (k + 1 >= size)
			return false;
		out[k++] = t->s[i];
	}
	out[k] = '\0';
	return k > 0 && t->s[0] != '_' && memchr(out, '\0', k) == NULL;
}

static bool
text_to_float(Jin *j, JStr *s, double *out)
{
	char		text[400];
	char	   *end;
	const char *p = text;

	if (!number_text(j, s, text, sizeof(text)))
		return false;
	p += *p == '+' || *p == '-';
	/* strtod accepts more than Python: hexadecimal, nan(...) */
	if (strpbrk(p, "xX(") != NULL || *p == '+' || *p == '-' || *p == ' ')
		return false;
	*out = strtod(text, &end);
	return *end == '\0' && end != text;
}

/* int(text, base): return 0 if it is no number, 1 for a number, -1 if it has more than 64 bits. */
static int
text_to_int(Jin *j, JStr *s, int64_t base, int64_t *out)
{
	char		text[400];
	char	   *p = text;
	char	   *end;
	bool		minus;
	char		c;

	if (!number_text(j, s, text, sizeof(text)))
		return 0;
	minus = *p == '-';
	p += *p == '+' || *p == '-';
	c = p[0] == '0' ? (char) (p[1] | 32) : 0;
	if ((base == 16 || base == 0) && c == 'x')
		p += 2, base = 16;
	else if ((base == 8 || base == 0) && c == 'o')
		p += 2, base = 8;
	else if ((base == 2 || base == 0) && c == 'b')
		p += 2, base = 2;
	else if (base == 0)
		base = 10;
	if (base < 2 || base > 36 || *p == '\0' || *p == '+' || *p == '-' || *p == ' ' ||
		(p[0] == '0' && (p[1] | 32) == 'x'))
		return 0;
	if (minus)
		*--p = '-';
	errno = 0;
	*out = strtoll(p, &end, (int) base);
	return *end != '\0' ? 0 : errno != 0 ? -1 : 1;
}

static int64_t
float_to_int(Jin *j, double f)
{
	if (isinf(f))
		jin_fail(j, JE_OVERFLOW, "cannot convert float infinity to integer");
	if (!(f > -9.3e18 && f < 9.3e18))
		jin_fail(j, JE_OVERFLOW, "an integer does not fit into 64 bits");
	return f >= 9223372036854775807.0 ? INT64_MAX : (int64_t) f;
}

static JVal
f_int(Jin *j, JVal v, const JArgs *a)
{
	static const char *const names[] = {"default", "base", NULL};
	JVal		arg[2] = {jin_int(0), jin_int(10)};
	int64_t		i;
	double		f;
	int			how;

	jin_args(j, "int", a, names, 0, arg);
	switch (v.t)
	{
		case JT_UNDEFINED:
			jin_fail_undefined(j, v);
		case JT_INT:
			return v;
		case JT_BOOL:
			return jin_int(v.b);
		case JT_FLOAT:
			return isnan(v.f) ? arg[0] : jin_int(float_to_int(j, v.f));
		case JT_STR:
			how = text_to_int(j, v.s, jin_arg_int(j, arg[1]), &i);
			if (how < 0)
				jin_fail(j, JE_OVERFLOW, "an integer does not fit into 64 bits");
			if (how > 0)
				return jin_int(i);
			if (text_to_float(j, v.s, &f) && isfinite(f))
				return jin_int(float_to_int(j, f));
			return arg[0];
		default:
			return arg[0];
	}
}

static JVal
f_float(Jin *j, JVal v, const JArgs *a)
{
	static const char *const names[] = {"default", NULL};
	JVal		arg[1] = {jin_float(0)};
	double		f;

	jin_args(j, "float", a, names, 0, arg);
	switch (v.t)
	{
		case JT_UNDEFINED:
			jin_fail_undefined(j, v);
		case JT_INT:
			return jin_float((double) v.i);
		case JT_BOOL:
			return jin_float(v.b);
		case JT_FLOAT:
			return v;
		case JT_STR:
			return text_to_float(j, v.s, &f) ? jin_float(f) : arg[0];
		default:
			return arg[0];
	}
}

/* Round to a multiple of a power of ten, half to even. */
static JVal
round_int(Jin *j, int64_t v, int64_t precision)
{
	int64_t		unit = 1;
	int64_t		units;			/* rounded down */
	int64_t		rest;
	int64_t		r = 0;
	bool		fits = true;

	if (precision >= 0)
		return jin_int(v);
	if (precision < -18)
		/* 10^19 has more than 64 bits */
		fits = precision < -19 || (v >= -INT64_C(5000000000000000000) && v <= INT64_C(5000000000000000000));
	else
	{
		while (precision++ < 0)
			unit *= 10;
		units = v / unit - (v % unit < 0);
		rest = v % unit + (v % unit < 0 ? unit : 0);
		if (rest > unit / 2 || (rest == unit / 2 && units % 2 != 0))
			units++;
		fits = !__builtin_mul_overflow(units, unit, &r);
	}
	if (!fits)
		jin_fail(j, JE_OVERFLOW, "an integer does not fit into 64 bits");
	return jin_int(r);
}

static JVal
round_common(Jin *j, JVal v, int64_t precision)
{
	char		text[512];
	double		p;

	if (v.t != JT_FLOAT)
		return round_int(j, v.t == JT_INT ? v.i : v.b, precision);
	if (!isfinite(v.f) || precision > 300)
		return v;
	if (precision < 0)
	{
		p = pow(10, -(double) precision);
		return jin_float(isinf(p) ? 0 : rint(v.f / p) * p);
	}
	if (fabs(v.f) >= 1e22)
		return v;
	jin_step(j, 200);			/* conversion to text and back */
	snprintf(text, sizeof(text), "%.*f", (int) precision, v.f);
	return jin_float(strtod(text, NULL));
}

static JVal
f_round(Jin *j, JVal v, const JArgs *a)
{
	static const char *const names[] = {"precision", "method", NULL};
	JVal		arg[2] = {jin_int(0), jin_cstr(j, "common")};
	JStr	   *method;
	double		f;
	double		p;

	jin_args(j, "round", a, names, 0, arg);
	if (arg[1].t != JT_STR || (!jin_str_is(arg[1].s, "common") && !jin_str_is(arg[1].s, "ceil") &&
							   !jin_str_is(arg[1].s, "floor")))
		jin_fail(j, JE_VALUE, "method must be common, ceil or floor");
	method = arg[1].s;
	if (v.t == JT_UNDEFINED && !jin_str_is(method, "common"))
		jin_fail_undefined(j, v);
	if (v.t != JT_INT && v.t != JT_FLOAT && v.t != JT_BOOL)
		jin_fail(j, JE_TYPE, "type %s doesn't define __round__ method", jin_type(v));
	if (jin_str_is(method, "common"))
		return round_common(j, v, jin_arg_int(j, arg[0]));
	p = pow(10, (double) jin_arg_int(j, arg[0]));
	f = (v.t == JT_FLOAT ? v.f : v.t == JT_INT ? (double) v.i : v.b) * p;
	if (!isfinite(f) || !isfinite(p) || p == 0)
		jin_fail(j, JE_OVERFLOW, "cannot convert float infinity to integer");
	return jin_float((jin_str_is(method, "ceil") ? ceil(f) : floor(f)) / p);
}

static JVal
f_filesizeformat(Jin *j, JVal v, const JArgs *a)
{
	static const char *const names[] = {"binary", NULL};
	static const char units[] = "kMGTPEZY";
	JVal		arg[1] = {jin_bool(false)};
	double		base;
	double		unit;
	double		bytes;
	char		text[400];
	bool		binary;
	int			i = 0;

	jin_args(j, "filesizeformat", a, names, 0, arg);
	binary = jin_truth(j, arg[0]);
	base = binary ? 1024 : 1000;
	if (v.t == JT_UNDEFINED)
		jin_fail_undefined(j, v);
	if (v.t == JT_FLOAT)
		bytes = v.f;
	else if (v.t == JT_INT || v.t == JT_BOOL)
		bytes = v.t == JT_INT ? (double) v.i : v.b;
	else if (v.t != JT_STR || !text_to_float(j, v.s, &bytes))
		jin_fail(j, JE_VALUE, "could not convert to float: %s", jin_repr_c(j, v));
	if (bytes == 1)
		return jin_cstr(j, "1 Byte");
	if (bytes < base)
		snprintf(text, sizeof(text), "%lld Bytes", (long long) float_to_int(j, bytes));
	else
	{
		for (unit = base * base; i < 7 && bytes >= unit; i++)
			unit *= base;
		snprintf(text, sizeof(text), "%.1f %c%sB", base * bytes / unit, binary &&
				 units[i] == 'k' ? 'K' : units[i], binary ? "i" : "");
	}
	return jin_cstr(j, text);
}

static JVal
f_tojson(Jin *j, JVal v, const JArgs *a)
{
	return jin_sval(jin_json_write(j, v, a));
}

/* ---- the table ---- */

static const JFilter filters[] = {
	{"abs", f_abs}, {"attr", f_attr}, {"batch", f_batch}, {"capitalize", jin_f_capitalize},
	{"center", jin_f_center},
	{"count", f_length}, {"d", f_default}, {"default", f_default}, {"dictsort", f_dictsort},
	{"e", jin_f_escape},
	{"escape", jin_f_escape}, {"filesizeformat", f_filesizeformat}, {"first", f_first}, {"float", f_float},
	{"forceescape", jin_f_forceescape}, {"format", jin_f_format}, {"groupby", f_groupby},
	{"indent", jin_f_indent}, {"int", f_int},
	{"items", f_items}, {"join", jin_f_join}, {"last", f_last}, {"length", f_length}, {"list", f_list},
	{"lower", jin_f_lower}, {"map", f_map}, {"max", f_max}, {"min", f_min}, {"pprint", NULL},
	{"random", NULL},
	{"reject", f_reject}, {"rejectattr", f_rejectattr}, {"replace", jin_f_replace}, {"reverse", f_reverse},
	{"round", f_round}, {"safe", jin_f_safe}, {"select", f_select}, {"selectattr", f_selectattr},
	{"slice", f_slice},
	{"sort", f_sort}, {"string", jin_f_string}, {"striptags", NULL}, {"sum", f_sum}, {"title", jin_f_title},
	{"tojson", f_tojson}, {"trim", jin_f_trim}, {"truncate", jin_f_truncate}, {"unique", f_unique},
	{"upper", jin_f_upper}, {"urlencode", jin_f_urlencode}, {"urlize", NULL}, {"wordcount", jin_f_wordcount},
	{"wordwrap", jin_f_wordwrap}, {"xmlattr", NULL}
};

const JFilter *
jin_filter(const JStr *name)
{
	for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]); i++)
		if (jin_str_is(name, filters[i].name))
			return &filters[i];
	return NULL;
}

JVal
jin_apply_filter(Jin *j, const JStr *name, JVal v, const JArgs *a)
{
	const JFilter *f = jin_filter(name);

	if (f == NULL)
		jin_fail(j, JE_RUNTIME, "No filter named %s found.", jin_repr_c(j, jin_sval((JStr *) name)));
	if (f->fn == NULL)
		jin_fail(j, JE_REFUSED, "filter %s is not supported", jin_repr_c(j, jin_sval((JStr *) name)));
	jin_step(j, 1);
	return f->fn(j, v, a);
}
