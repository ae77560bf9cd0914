/*
 * jinja_json.c
 *	  JSON to values and back.
 *
 * Reading keeps what a general JSON library would lose: 1 and 1.0 are different values,
 * integers have all 64 bits, objects their order.  Writing is Python's json.dumps() as
 * Hugging Face calls it for the tojson filter: no HTML escapes, ensure_ascii off.
 *
 * Tested by tests/golden/jinja_golden.c, tests/unit/template/test_jinja.c.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/json_writer.h"
#include "template/jinja_internal.h"
#include "text/unicode.h"
#include "text/utf8.h"

/* ---- reading ---- */

typedef struct Read
{
	Jin		   *j;
	const char *p;
	const char *end;
	bool		input;
} Read;

static JVal read_value(Read *r);

static void __attribute__((noreturn))
bad_json(Read *r, const char *what)
{
	jin_fail(r->j, JE_VALUE, "malformed JSON: %s", what);
}

static void
skip(Read *r)
{
	while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || *r->p == '\n' || *r->p == '\r'))
		r->p++;
}

static bool
eat(Read *r, char c)
{
	skip(r);
	if (r->p == r->end || *r->p != c)
		return false;
	r->p++;
	return true;
}

static uint32_t
hex4(Read *r)
{
	uint32_t	v = 0;

	for (int i = 0; i < 4; i++)
	{
		char		c = r->p < r->end ? *r->p++ : 0;

		if (c >= '0' && c <= '9')
			v = v * 16 + (uint32_t) (c - '0');
		else if ((c | 32) >= 'a' && (c | 32) <= 'f')
			v = v * 16 + (uint32_t) ((c | 32) - 'a' + 10);
		else
			bad_json(r, "bad \\u escape");
	}
	return v;
}

static void
read_escape(Read *r, JBuild *b)
{
	static const char from[] = "\"\\/bfnrt";
	static const char to[] = "\"\\/\b\f\n\r\t";
	char		c = r->p < r->end ? *r->p++ : 0;
	const char *plain = c != 0 ? strchr(from, c) : NULL;
	char		out[4];
	uint32_t	cp;

	if (plain != NULL)
	{
		jin_build_add(r->j, b, to + (plain - from), 1, r->input);
		return;
	}
	if (c != 'u')
		bad_json(r, "bad escape in a string");
	cp = hex4(r);
	if (cp >= 0xD800 && cp < 0xDC00 && r->end - r->p >= 6 && r->p[0] == '\\' && r->p[1] == 'u')
	{
		const char *back = r->p;
		uint32_t	low;

		r->p += 2;
		low = hex4(r);
		if (low >= 0xDC00 && low < 0xE000)
			cp = 0x10000 + ((cp - 0xD800) << 10) + (low - 0xDC00);
		else
			r->p = back;
	}
	if (cp >= 0xD800 && cp < 0xE000)
		cp = 0xFFFD;			/* half of a pair is no character */
	jin_build_add(r->j, b, out, utf8_put(out, cp), r->input);
}

static JStr *
read_string(Read *r)
{
	JBuild		b = {0};
	const char *from = r->p;

	for (;;)
	{
		if (r->p == r->end)
			bad_json(r, "a string without an end");
		if (*r->p == '"' || *r->p == '\\')
		{
			jin_build_add(r->j, &b, from, (size_t) (r->p - from), r->input);
			if (*r->p++ == '"')
				break;
			read_escape(r, &b);
			from = r->p;
		}
		else if ((unsigned char) *r->p++ < 0x20)
			bad_json(r, "a control character in a string");
	}
	b.input = r->input;			/* an empty string, too */
	return jin_build_done(r->j, &b);
}

static JVal
read_number(Read *r)
{
	const char *from = r->p;
	bool		whole = true;
	char		text[400];
	size_t		n;
	char	   *end;
	JVal		v;

	while (r->p < r->end && strchr("+-.0123456789eE", *r->p) != NULL && *r->p != '\0')
	{
		whole &= *r->p == '-' || (*r->p >= '0' && *r->p <= '9');
		r->p++;
	}
	n = (size_t) (r->p - from);
	if (n == 0 || n >= sizeof(text))
		bad_json(r, n == 0 ? "a value is expected" : "a number is too long");
	memcpy(text, from, n);
	text[n] = '\0';
	errno = 0;
	if (whole)
	{
		v = jin_int(strtoll(text, &end, 10));
		if (errno != 0)
			bad_json(r, "an integer does not fit into 64 bits");
	}
	else
		v = jin_float(strtod(text, &end));
	if (*end != '\0' || text[0] == '+')
		bad_json(r, "bad number");
	return v;
}

static bool
word(Read *r, const char *w)
{
	size_t		n = strlen(w);

	if ((size_t) (r->end - r->p) < n || memcmp(r->p, w, n) != 0)
		return false;
	r->p += n;
	return true;
}

static JVal
read_list(Read *r)
{
	JList	   *l = jin_list(r->j, 0);

	if (eat(r, ']'))
		return jin_lval(l, JT_LIST);
	do
		jin_list_add(r->j, l, read_value(r));
	while (eat(r, ','));
	if (!eat(r, ']'))
		bad_json(r, "']' is expected");
	return jin_lval(l, JT_LIST);
}

static JVal
read_dict(Read *r)
{
	JDict	   *d = jin_dict(r->j);
	JVal		v = {.t = JT_DICT,.d = d};

	if (eat(r, '}'))
		return v;
	do
	{
		JStr	   *key;

		if (!eat(r, '"'))
			bad_json(r, "a key is expected");
		key = read_string(r);
		if (!eat(r, ':'))
			bad_json(r, "':' is expected");
		jin_dict_put(r->j, d, jin_sval(key), read_value(r));
	} while (eat(r, ','));
	if (!eat(r, '}'))
		bad_json(r, "'}' is expected");
	return v;
}

static JVal
read_value(Read *r)
{
	JVal		v;

	jin_enter(r->j);
	jin_step(r->j, 1);
	if (eat(r, '{'))
		v = read_dict(r);
	else if (eat(r, '['))
		v = read_list(r);
	else if (eat(r, '"'))
		v = jin_sval(read_string(r));
	else if (word(r, "true"))
		v = jin_bool(true);
	else if (word(r, "false"))
		v = jin_bool(false);
	else if (word(r, "null"))
		v = jin_none();
	else
		v = read_number(r);
	jin_leave(r->j);
	return v;
}

JVal
jin_json_read(Jin *j, const char *s, size_t n, bool input)
{
	Buf			repaired = {0};
	Read		r = {.j = j,.p = s,.end = s + n,.input = input};
	JVal		v;

	/* strings must be UTF-8 from here on */
	if (n > 0 && !uni_valid(s, n))
	{
		/* a byte becomes three at most; taken first, as it may fail */
		char	   *copy = jin_alloc(j, n > SIZE_MAX / 4 ? SIZE_MAX : n * 3);

		uni_repair(s, n, &repaired);
		memcpy(copy, repaired.data, repaired.len);
		r.p = copy;
		r.end = copy + repaired.len;
		buf_free(&repaired);
	}
	v = read_value(&r);
	skip(&r);
	if (r.p != r.end)
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
	return jin_build_done(j, &w.b);
}
