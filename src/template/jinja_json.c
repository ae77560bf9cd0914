/*
 * jinja_json.c
 *	  Read JSON to values and write values as JSON.
 *
 * Reading keeps what a tree of doubles would lose: 1 and 1.0 are different values, integers have all 64
 * bits, objects keep their order.  Writing follows Python's json.dumps() as Hugging Face calls it for
 * the tojson filter: no HTML escapes, ensure_ascii off.
 *
 * Tested by tests/golden/jinja_golden.c, tests/unit/template/test_jinja.c.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/json/json_reader.h"
#include "base/json/json_writer.h"
#include "template/jinja_internal.h"
#include "text/unicode.h"
#include "text/utf8.h"

/* ---- reading ---- */

typedef struct Read
{
	Jin		   *j;
	JsonReader	r;
	bool		input;
} Read;

static JVal read_value(Read *r, JsonToken token);

static void __attribute__((noreturn))
bad_json(Read *r, const char *what)
{
	if (r->r.too_deep)
		jin_fail(r->j, JE_LIMIT, "values or expressions are nested too deeply");
	jin_fail(r->j, JE_VALUE, "malformed JSON: %s", what);
}

/* Decode the string or key that was just read. */
static JStr *
read_string(Read *r)
{
	JBuild		b = {0};

	if (!r->r.escaped)
		jin_build_add(r->j, &b, r->r.s, r->r.n, r->input);
	else
	{
		jin_build_room(r->j, &b, r->r.n);
		/* with these flags it never fails */
		(void) json_unescape(r->r.s, r->r.n, JSON_NUL_OK | JSON_HALVES_OK, b.s, &b.n);
		ALWAYS(b.n <= r->r.n);
		jin_step(r->j, r->r.n / 64);
	}
	b.input = r->input;			/* for an empty string as well */
	return jin_build_done(r->j, &b);
}

static JVal
read_number(Read *r)
{
	const char *s = r->r.s;
	size_t		n = r->r.n;
	char		text[400];
	JVal		v;

	if (n >= sizeof(text))
		bad_json(r, "a number is too long");
	memcpy(text, s, n);
	text[n] = '\0';
	if (strpbrk(text, ".eE") != NULL)
		return jin_float(strtod(text, NULL));
	errno = 0;
	v = jin_int(strtoll(text, NULL, 10));
	if (errno != 0)
		bad_json(r, "an integer does not fit into 64 bits");
	return v;
}

static JVal
read_list(Read *r)
{
	JList	   *l = jin_list(r->j, 0);
	JsonToken	token;

	while ((token = json_next(&r->r)) != JSON_CLOSE)
		jin_list_add(r->j, l, read_value(r, token));
	return jin_lval(l, JT_LIST);
}

static JVal
read_dict(Read *r)
{
	JDict	   *d = jin_dict(r->j);
	JsonToken	token;

	while ((token = json_next(&r->r)) == JSON_KEY)
	{
		JVal		key = jin_sval(read_string(r));

		jin_dict_put(r->j, d, key, read_value(r, json_next(&r->r)));
	}
	if (token != JSON_CLOSE)
		bad_json(r, r->r.why);
	return (JVal) {.t = JT_DICT,.d = d};
}

/* Read the value whose first token has been read. */
static JVal
read_value(Read *r, JsonToken token)
{
	JVal		v = jin_none();

	jin_enter(r->j);
	jin_step(r->j, 1);
	if (token == JSON_OBJECT)
		v = read_dict(r);
	else if (token == JSON_ARRAY)
		v = read_list(r);
	else if (token == JSON_STRING)
		v = jin_sval(read_string(r));
	else if (token == JSON_TRUE || token == JSON_FALSE)
		v = jin_bool(token == JSON_TRUE);
	else if (token == JSON_NUMBER)
		v = read_number(r);
	else if (token != JSON_NULL)
		bad_json(r, r->r.why);
	jin_leave(r->j);
	return v;
}

JVal
jin_json_read(Jin *j, const char *s, size_t n, bool input)
{
	Buf			repaired = {0};
	Read		r = {.j = j,.input = input};
	JVal		v;

	/* from here on strings must be valid UTF-8 */
	if (n > 0 && !uni_valid(s, n))
	{
		/* a byte becomes at most three; allocated first, as this may fail */
		char	   *copy = jin_alloc(j, n > SIZE_MAX / 4 ? SIZE_MAX : n * 3);

		uni_repair(s, n, &repaired);
		ALWAYS(repaired.len <= n * 3);
		memcpy(copy, repaired.data, repaired.len);
		s = copy;
		n = repaired.len;
		buf_free(&repaired);
	}
	json_begin(&r.r, s, n, JIN_MAX_NESTING);
	v = read_value(&r, json_next(&r.r));
	if (json_next(&r.r) != JSON_END)
		bad_json(&r, "something follows the value");
	return v;
}

/* ---- writing ---- */

typedef struct JinjaJsonWrite
{
	Jin		   *j;
	JBuild		b;
	bool		ascii;
	bool		pretty;
	const JStr *indent;
	const JStr *item;			/* separators */
	const JStr *key;
	bool		sort;
	int			depth;
} JinjaJsonWrite;

static void write_value(JinjaJsonWrite *w, JVal v);

static void
write_string(JinjaJsonWrite *w, const JStr *s)
{
	size_t		len;
	size_t		from = 0;

	jin_scan(w->j, s->n);
	jin_build_room(w->j, &w->b, s->n + 2);
	jin_build_c(w->j, &w->b, "\"");
	for (size_t i = 0; i < s->n; i += len)
	{
		uint32_t	cp = utf8_next(s->s + i, &len);
		char		esc[JSON_ESCAPE_MOST];
		size_t		n = json_escape(cp, w->ascii, esc);

		if (n == 0)
			continue;
		jin_build_sub(w->j, &w->b, s, from, i - from);
		jin_build_add(w->j, &w->b, esc, n, s->mask != NULL ? s->mask[i] : s->input);
		from = i + len;
	}
	jin_build_sub(w->j, &w->b, s, from, s->n - from);
	jin_build_c(w->j, &w->b, "\"");
}

static void
write_number(JinjaJsonWrite *w, JVal v)
{
	char		text[40];

	if (v.t == JT_INT)
		snprintf(text, sizeof(text), "%lld", (long long) v.i);
	else if (isnan(v.f))
		snprintf(text, sizeof(text), "NaN");
	else if (isinf(v.f))
		snprintf(text, sizeof(text), v.f > 0 ? "Infinity" : "-Infinity");
	else
		jin_float_repr(w->j, text, sizeof(text), v.f);
	jin_build_c(w->j, &w->b, text);
}

static void
write_newline(JinjaJsonWrite *w)
{
	if (!w->pretty)
		return;
	jin_build_c(w->j, &w->b, "\n");
	for (int i = 0; i < w->depth; i++)
		jin_build_str(w->j, &w->b, w->indent);
}

static void
write_key(JinjaJsonWrite *w, JVal k)
{
	switch (k.t)
	{
		case JT_STR:
			write_string(w, k.s);
			return;
		case JT_NONE:
			jin_build_c(w->j, &w->b, "\"null\"");
			return;
		case JT_BOOL:
			jin_build_c(w->j, &w->b, k.b ? "\"true\"" : "\"false\"");
			return;
		case JT_INT:
		case JT_FLOAT:
			jin_build_c(w->j, &w->b, "\"");
			write_number(w, k);
			jin_build_c(w->j, &w->b, "\"");
			return;
		default:
			jin_fail(w->j, JE_TYPE, "keys must be str, int, float, bool or None, not %s", jin_type(k));
	}
}

static void
write_dict(JinjaJsonWrite *w, const JDict *d)
{
	JVal	   *keys = jin_alloc(w->j, d->n * sizeof(JVal));
	JVal	   *at = jin_alloc(w->j, d->n * sizeof(JVal));

	for (size_t i = 0; i < d->n; i++)
	{
		keys[i] = d->e[i].k;
		at[i] = jin_int((int64_t) i);
	}
	if (w->sort)
		jin_sort(w->j, at, keys, d->n, false);
	jin_build_c(w->j, &w->b, "{");
	w->depth++;
	for (size_t i = 0; i < d->n; i++)
	{
		const JPair *p = &d->e[at[i].i];

		if (i > 0)
			jin_build_str(w->j, &w->b, w->item);
		write_newline(w);
		write_key(w, p->k);
		jin_build_str(w->j, &w->b, w->key);
		write_value(w, p->v);
	}
	w->depth--;
	if (d->n > 0)
		write_newline(w);
	jin_build_c(w->j, &w->b, "}");
}

static void
write_list(JinjaJsonWrite *w, const JList *l)
{
	jin_build_c(w->j, &w->b, "[");
	w->depth++;
	for (size_t i = 0; i < l->n; i++)
	{
		if (i > 0)
			jin_build_str(w->j, &w->b, w->item);
		write_newline(w);
		write_value(w, l->v[i]);
	}
	w->depth--;
	if (l->n > 0)
		write_newline(w);
	jin_build_c(w->j, &w->b, "]");
}

static void
write_value(JinjaJsonWrite *w, JVal v)
{
	jin_enter(w->j);
	jin_step(w->j, 1);
	switch (v.t)
	{
		case JT_NONE:
			jin_build_c(w->j, &w->b, "null");
			break;
		case JT_BOOL:
			jin_build_c(w->j, &w->b, v.b ? "true" : "false");
			break;
		case JT_INT:
		case JT_FLOAT:
			write_number(w, v);
			break;
		case JT_STR:
			write_string(w, v.s);
			break;
		case JT_LIST:
		case JT_TUPLE:
			write_list(w, v.l);
			break;
		case JT_DICT:
			write_dict(w, v.d);
			break;
		default:
			jin_fail(w->j, JE_TYPE, "Object of type %s is not JSON serializable", jin_type(v));
	}
	jin_leave(w->j);
}

JStr *
jin_json_write(Jin *j, JVal v, const JArgs *a)
{
	static const char *const names[] = {"ensure_ascii", "indent", "separators", "sort_keys", NULL};
	JVal		arg[4] = {jin_bool(false), jin_none(), jin_none(), jin_bool(false)};
	JinjaJsonWrite w = {.j = j};
	int64_t		n;

	jin_args(j, "tojson", a, names, 0, arg);
	w.ascii = jin_truth(j, arg[0]);
	w.pretty = arg[1].t != JT_NONE;
	w.sort = jin_truth(j, arg[3]);
	w.item = jin_str(j, w.pretty ? "," : ", ", w.pretty ? 1 : 2, false);
	w.key = jin_str(j, ": ", 2, false);
	if (arg[1].t == JT_STR)
		w.indent = arg[1].s;
	else if (w.pretty)
	{
		n = jin_arg_int(j, arg[1]);
		w.indent = jin_pad(j, jin_str(j, "", 0, false), n > 1000 ? 1000 : n, jin_str(j, " ", 1, false), '>');
	}
	if (arg[2].t != JT_NONE)
	{
		JList	   *l = jin_to_list(j, arg[2]);

		if (l->n != 2)
			jin_fail(j, JE_VALUE, "separators must be a pair of strings");
		w.item = jin_arg_str(j, l->v[0]);
		w.key = jin_arg_str(j, l->v[1]);
	}
	write_value(&w, v);
	ASSERT(w.depth == 0);
	return jin_build_done(j, &w.b);
}
