/*
 * jinja_filter_text.c
 *	  Filters of the Jinja interpreter on text.
 *
 * Tested by tests/golden/jinja_golden.c.
 */
#include <stdio.h>
#include <string.h>

#include "template/jinja_filter.h"
#include "text/unicode.h"
#include "text/utf8.h"

/* The result is markup if the text was markup. */
static JVal
like(Jin *j, const JStr *s, const JStr *result)
{
	return jin_sval(jin_markup(j, result, s->markup));
}

static void
no_args(Jin *j, const char *name, const JArgs *a)
{
	jin_args(j, name, a, (const char *const[]) {NULL}, 0, NULL);
}

JVal
jin_f_string(Jin *j, JVal v, const JArgs *a)
{
	no_args(j, "string", a);
	return jin_sval(jin_to_str(j, v));
}

JVal
jin_f_safe(Jin *j, JVal v, const JArgs *a)
{
	no_args(j, "safe", a);
	return jin_sval(jin_markup(j, jin_to_str(j, v), true));
}

JVal
jin_f_escape(Jin *j, JVal v, const JArgs *a)
{
	no_args(j, "escape", a);
	return jin_sval(jin_escape(j, jin_to_str(j, v)));
}

JVal
jin_f_forceescape(Jin *j, JVal v, const JArgs *a)
{
	no_args(j, "forceescape", a);
	return jin_sval(jin_escape(j, jin_markup(j, jin_to_str(j, v), false)));
}

JVal
jin_f_upper(Jin *j, JVal v, const JArgs *a)
{
	no_args(j, "upper", a);
	return like(j, jin_to_str(j, v), jin_upper(j, jin_to_str(j, v)));
}

JVal
jin_f_lower(Jin *j, JVal v, const JArgs *a)
{
	no_args(j, "lower", a);
	return like(j, jin_to_str(j, v), jin_lower(j, jin_to_str(j, v)));
}

JVal
jin_f_capitalize(Jin *j, JVal v, const JArgs *a)
{
	no_args(j, "capitalize", a);
	return like(j, jin_to_str(j, v), jin_capitalize(j, jin_to_str(j, v)));
}

/* Upper case at the beginning of each word: after white space, - ( { [ < */
JVal
jin_f_title(Jin *j, JVal v, const JArgs *a)
{
	JStr	   *s = jin_to_str(j, v);
	JBuild		b = {0};
	size_t		from = 0;
	size_t		len = 0;

	no_args(j, "title", a);
	jin_look_up(j, s->n);
	for (size_t i = 0; i <= s->n; i += len)
	{
		uint32_t	cp = i < s->n ? utf8_next(s->s + i, &len) : 0;
		bool		border = i == s->n || jin_is_space(cp) ||
			(cp < 0x80 && cp != 0 && strchr("-({[<", (int) cp) != NULL);

		if (border && i > from)
		{
			size_t		first = utf8_len((unsigned char) s->s[from]);

			jin_build_str(j, &b, jin_upper(j, jin_str_sub(j, s, from, first)));
			jin_build_str(j, &b, jin_lower(j, jin_str_sub(j, s, from + first, i - from - first)));
		}
		if (i == s->n)
			break;
		if (border)
		{
			jin_build_sub(j, &b, s, i, len);
			from = i + len;
		}
	}
	return jin_sval(jin_build_done(j, &b));
}

JVal
jin_f_trim(Jin *j, JVal v, const JArgs *a)
{
	static const char *const names[] = {"chars", NULL};
	JVal		arg[1] = {jin_none()};

	jin_args(j, "trim", a, names, 0, arg);
	return jin_sval(jin_strip(j, jin_to_str(j, v), arg[0].t == JT_NONE ? NULL : jin_arg_str(j, arg[0]), 3));
}

JVal
jin_f_replace(Jin *j, JVal v, const JArgs *a)
{
	static const char *const names[] = {"old", "new", "count", NULL};
	JVal		arg[3] = {jin_none(), jin_none(), jin_none()};

	jin_args(j, "replace", a, names, 2, arg);
	return jin_sval(jin_replace(j, jin_markup(j, jin_to_str(j, v), false), jin_to_str(j, arg[0]),
								jin_to_str(j, arg[1]), arg[2].t == JT_NONE ? -1 : jin_arg_int(j, arg[2])));
}

JVal
jin_f_join(Jin *j, JVal v, const JArgs *a)
{
	static const char *const names[] = {"d", "attribute", NULL};
	JVal		arg[2] = {jin_cstr(j, ""), jin_none()};
	JSeq		s = jin_iter(j, v);
	JBuild		b = {0};
	JStr	   *d;
	JVal	   *path;
	size_t		n;
	JVal		item;

	jin_args(j, "join", a, names, 0, arg);
	d = jin_to_str(j, arg[0]);
	jin_parse_path(j, arg[1], &path, &n);
	for (size_t i = 0; jin_next(j, &s, &item); i++)
	{
		if (i > 0)
			jin_build_str(j, &b, d);
		jin_print(j, &b, jin_attribute_path(j, item, path, n, jin_none()));
	}
	return jin_sval(jin_build_done(j, &b));
}

JVal
jin_f_center(Jin *j, JVal v, const JArgs *a)
{
	static const char *const names[] = {"width", NULL};
	JVal		arg[1] = {jin_int(80)};

	jin_args(j, "center", a, names, 0, arg);
	return like(j, jin_to_str(j, v), jin_pad(j, jin_to_str(j, v), jin_arg_int(j, arg[0]),
											 jin_str(j, " ", 1, false), '^'));
}

JVal
jin_f_format(Jin *j, JVal v, const JArgs *a)
{
	JVal		args;

	if (a->n_pos > 0 && a->n_kw > 0)
		jin_fail(j, JE_VALUE, "can't handle positional and keyword arguments at the same time");
	if (a->n_kw > 0)
	{
		args = (JVal) {.t = JT_DICT,.d = jin_dict(j)};
		for (size_t i = 0; i < a->n_kw; i++)
			jin_dict_put(j, args.d, jin_sval(a->names[i]), a->kw[i]);
	}
	else
	{
		args = jin_lval(jin_list(j, 0), JT_TUPLE);
		for (size_t i = 0; i < a->n_pos; i++)
			jin_list_add(j, args.l, a->pos[i]);
	}
	return jin_sval(jin_percent(j, jin_to_str(j, v), args));
}

JVal
jin_f_indent(Jin *j, JVal v, const JArgs *a)
{
	static const char *const names[] = {"width", "first", "blank", NULL};
	JVal		arg[3] = {jin_int(4), jin_bool(false), jin_bool(false)};
	JStr	   *newline = jin_str(j, "\n", 1, false);
	JStr	   *by;
	JList	   *lines;
	JBuild		b = {0};

	jin_args(j, "indent", a, names, 0, arg);
	if (arg[0].t == JT_STR)
		by = arg[0].s;
	else
		by = jin_pad(j, jin_str(j, "", 0, false), jin_arg_int(j, arg[0]), jin_str(j, " ", 1, false), '>');
	lines = jin_splitlines(j, jin_binary(j, OP_ADD, v, jin_sval(newline)).s, false);
	for (size_t i = 0; i < lines->n; i++)
	{
		if (i > 0)
			jin_build_str(j, &b, newline);
		if (i == 0 ? jin_truth(j, arg[1]) : jin_truth(j, arg[2]) || lines->v[i].s->n > 0)
			jin_build_str(j, &b, by);
		jin_build_str(j, &b, lines->v[i].s);
	}
	return jin_sval(jin_markup(j, jin_build_done(j, &b), v.s->markup));
}

JVal
jin_f_truncate(Jin *j, JVal v, const JArgs *a)
{
	static const char *const names[] = {"length", "killwords", "end", "leeway", NULL};
	JVal		arg[4] = {jin_int(255), jin_bool(false), jin_cstr(j, "..."), jin_int(5)};
	int64_t		length;
	int64_t		leeway;
	int64_t		end;
	JStr	   *s;

	jin_args(j, "truncate", a, names, 0, arg);
	length = jin_arg_int(j, arg[0]);
	leeway = arg[3].t == JT_NONE ? 5 : jin_arg_int(j, arg[3]);
	end = (int64_t) jin_str_chars(jin_arg_str(j, arg[2]));
	if (length < end)
		jin_fail(j, JE_VALUE, "expected length >= %lld, got %lld", (long long) end, (long long) length);
	if (leeway < 0)
		jin_fail(j, JE_VALUE, "expected leeway >= 0, got %lld", (long long) leeway);
	if (jin_len(j, v, true) <= length || jin_len(j, v, true) - leeway <= length)
		return v;
	s = jin_arg_str(j, v);
	s = jin_str_sub(j, s, 0, jin_str_at(j, s, (size_t) (length - end)));
	if (!jin_truth(j, arg[1]))
	{
		const char *space = memrchr(s->s, ' ', s->n);

		if (space != NULL)
			s = jin_str_sub(j, s, 0, (size_t) (space - s->s));
	}
	return jin_binary(j, OP_ADD, jin_sval(s), arg[2]);
}

JVal
jin_f_wordcount(Jin *j, JVal v, const JArgs *a)
{
	JStr	   *s = jin_to_str(j, v);
	int64_t		n = 0;
	bool		inside = false;
	size_t		len;

	no_args(j, "wordcount", a);
	jin_look_up(j, s->n);
	for (size_t i = 0; i < s->n; i += len)
	{
		uint32_t	cp = utf8_next(s->s + i, &len);
		bool		word = cp == '_' || (uni_class(cp) & (UNI_L | UNI_N)) != 0;

		n += word && !inside;
		inside = word;
	}
	return jin_int(n);
}

/* Append s, percent-encoded; in a query "/" is encoded, too, and a space becomes "+". */
static void
quote(Jin *j, JBuild *b, const JStr *s, bool query)
{
	jin_scan(j, s->n);
	for (size_t i = 0; i < s->n; i++)
	{
		char		c = s->s[i];
		char		hex[4];
		bool		plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') ||
			(c != '\0' && strchr("_.-~", c) != NULL);

		if (plain || (c == '/' && !query))
		{
			jin_build_sub(j, b, s, i, 1);
			continue;
		}
		snprintf(hex, sizeof(hex), "%%%02X", (unsigned char) c);
		jin_build_add(j, b, c == ' ' && query ? "+" : hex, c == ' ' && query ? 1 : 3,
					  s->mask != NULL ? s->mask[i] : s->input);
	}
}

JVal
jin_f_urlencode(Jin *j, JVal v, const JArgs *a)
{
	JBuild		b = {0};
	JSeq		s;
	JVal		item;

	no_args(j, "urlencode", a);
	if (v.t == JT_STR || !jin_can_iter(v))
	{
		quote(j, &b, jin_to_str(j, v), false);
		return jin_sval(jin_build_done(j, &b));
	}
	if (v.t == JT_DICT)
	{
		JView		w = {.d = v.d,.kind = JVIEW_ITEMS};

		v = jin_lval(jin_to_list(j, (JVal) {.t = JT_VIEW,.view = &w}), JT_LIST);
	}
	s = jin_iter(j, v);
	for (size_t i = 0; jin_next(j, &s, &item); i++)
	{
		JList	   *pair = jin_to_list(j, item);

		if (pair->n != 2)
			jin_fail(j, JE_VALUE, "not enough values to unpack (expected 2, got %zu)", pair->n);
		if (i > 0)
			jin_build_c(j, &b, "&");
		quote(j, &b, jin_to_str(j, pair->v[0]), true);
		jin_build_c(j, &b, "=");
		quote(j, &b, jin_to_str(j, pair->v[1]), true);
	}
	return jin_sval(jin_build_done(j, &b));
}
