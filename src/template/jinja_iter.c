/*
 * jinja_iter.c
 *	  Iteration over containers, strings and ranges, and the lazy iterators that filters such as map
 *	  and select make.
 *
 * They are lazy as in jinja2: a filter's test runs when its item is requested, so that `for m in
 * messages if not ns.found` sees what the body has set.
 *
 * Tested by tests/golden/jinja_golden.c.
 */
#include <string.h>

#include "base/assert.h"
#include "template/jinja_internal.h"
#include "text/utf8.h"

int64_t
jin_range_at(const JRange *r, int64_t i)
{
	ASSERT(i >= 0 && i < r->n);
	/* the number has 64 bits, its distance from the start may have more */
	return (int64_t) ((uint64_t) r->start + (uint64_t) i * (uint64_t) r->step);
}

bool
jin_can_iter(JVal v)
{
	switch (v.t)
	{
		case JT_UNDEFINED:
		case JT_STR:
		case JT_LIST:
		case JT_TUPLE:
		case JT_DICT:
		case JT_RANGE:
		case JT_VIEW:
		case JT_ITER:
			return true;
		default:
			return false;
	}
}

JSeq
jin_iter(Jin *j, JVal v)
{
	if (!jin_can_iter(v))
		jin_fail(j, JE_TYPE, "'%s' object is not iterable", jin_type(v));
	return (JSeq) {.v = v};
}

static JVal
view_item(Jin *j, const JView *w, size_t i)
{
	const JPair *p = &w->d->e[i];

	return w->kind == JVIEW_KEYS ? p->k : w->kind == JVIEW_VALUES ? p->v : jin_pair(j, p->k, p->v);
}

/* First use: do what the generator function would do before its loop. */
static void
iter_start(Jin *j, JIter *it)
{
	static const char *const attr_names[] = {"attribute", "default", NULL};

	it->started = true;
	if (it->kind == JI_MAP && it->args.n_pos == 0)
	{
		JVal		got[2] = {{.t = JT_UNDEFINED}, {.t = JT_UNDEFINED}};

		if (it->args.n_kw == 0)
			jin_fail(j, JE_TYPE, "map requires a filter argument");
		jin_args(j, "map", &it->args, attr_names, 1, got);
		jin_parse_path(j, got[0], &it->path, &it->n_path);
		it->dflt = got[1];
		return;
	}
	if (it->by_attr)
	{
		if (it->args.n_pos == 0)
			jin_fail(j, JE_TYPE, "Missing parameter for attribute name");
		jin_parse_path(j, it->args.pos[0], &it->path, &it->n_path);
		it->args.pos++;
		it->args.n_pos--;
	}
	if (it->args.n_pos > 0 && (it->kind == JI_MAP || it->kind == JI_SELECT))
	{
		JStr	   *name = jin_arg_str(j, it->args.pos[0]);

		if (it->kind == JI_MAP ? jin_filter(name) == NULL : jin_test(name) == NULL)
			jin_fail(j, JE_RUNTIME, "No %s named %s.", it->kind == JI_MAP ? "filter" : "test",
					 jin_repr_c(j, it->args.pos[0]));
		it->fn = name->s;
		it->args.pos++;
		it->args.n_pos--;
	}
}

/* Compute the item that an iterator makes of v; return false if it makes none. */
static bool
iter_take(Jin *j, JIter *it, JVal v, JVal *out)
{
	JVal		key = v;
	bool		ok;

	switch (it->kind)
	{
		case JI_MAP:
			if (it->fn != NULL)
				*out = jin_apply_filter(j, it->args.pos[-1].s, v, &it->args);
			else
				*out = jin_attribute_path(j, v, it->path, it->n_path, it->dflt);
			return true;
		case JI_SELECT:
			if (it->by_attr)
				key = jin_attribute_path(j, v, it->path, it->n_path, it->dflt);
			if (it->fn != NULL)
				ok = jin_apply_test(j, it->args.pos[-1].s, key, &it->args);
			else
				ok = jin_truth(j, key);
			*out = v;
			return ok != it->negate;
		case JI_UNIQUE:
			key = jin_attribute_path(j, v, it->path, it->n_path, it->dflt);
			if (it->fold)
				key = jin_fold(j, key);
			if (jin_dict_find(j, it->seen, key) != NULL)
				return false;
			jin_dict_put(j, it->seen, key, jin_none());
			*out = v;
			return true;
		case JI_FOR_IF:
			{
				JScope	   *sc = jin_scope(j, it->scope);

				jin_assign(j, it->node->a, v, sc);
				*out = v;
				return jin_truth(j, jin_eval(j, it->node->x, sc));
			}
		default:
			*out = v;
			return true;
	}
}

static bool
iter_next(Jin *j, JIter *it, JVal *out)
{
	JVal		v;

	if (it->kind == JI_REVERSED)
	{
		if (it->seq.i == 0)
			return false;
		ALWAYS(it->seq.i <= it->seq.v.l->n);
		*out = it->seq.v.l->v[--it->seq.i];
		return true;
	}
	if (!it->started)
	{
		if ((it->kind == JI_MAP || it->kind == JI_SELECT) && !jin_truth(j, it->seq.v))
			it->empty = true;
		else
			iter_start(j, it);
		it->started = true;
	}
	if (it->empty)
		return false;
	while (jin_next(j, &it->seq, &v))
		if (iter_take(j, it, v, out))
			return true;
	return false;
}

bool
jin_next(Jin *j, JSeq *s, JVal *out)
{
	size_t		len;
	bool		ok;

	jin_step(j, 1);
	switch (s->v.t)
	{
		case JT_STR:
			if (s->i >= s->v.s->n)
				return false;
			len = utf8_len((unsigned char) s->v.s->s[s->i]);
			/* as in Python, the characters of markup are plain strings */
			*out = jin_sval(jin_markup(j, jin_str_sub(j, s->v.s, s->i, len), false));
			s->i += len;
			return true;
		case JT_LIST:
		case JT_TUPLE:
			if (s->i >= s->v.l->n)
				return false;
			*out = s->v.l->v[s->i++];
			return true;
		case JT_DICT:
			if (s->i >= s->v.d->n)
				return false;
			*out = s->v.d->e[s->i++].k;
			return true;
		case JT_RANGE:
			if ((int64_t) s->i >= s->v.r->n)
				return false;
			*out = jin_int(jin_range_at(s->v.r, (int64_t) s->i++));
			return true;
		case JT_VIEW:
			if (s->i >= s->v.view->d->n)
				return false;
			*out = view_item(j, s->v.view, s->i++);
			return true;
		case JT_ITER:
			jin_enter(j);
			ok = iter_next(j, s->v.it, out);
			jin_leave(j);
			return ok;
		default:
			return false;		/* undefined: empty */
	}
}

JList *
jin_to_list(Jin *j, JVal v)
{
	JSeq		s = jin_iter(j, v);
	int64_t		n = jin_len(j, v, false);
	JList	   *l = jin_list(j, n > 0 ? (size_t) n : 0);
	JVal		item;

	while (jin_next(j, &s, &item))
		jin_list_add(j, l, item);
	return l;
}

int64_t
jin_len(Jin *j, JVal v, bool fail)
{
	switch (v.t)
	{
		case JT_UNDEFINED:
			return 0;
		case JT_STR:
			return (int64_t) jin_str_chars(v.s);
		case JT_LIST:
		case JT_TUPLE:
			return (int64_t) v.l->n;
		case JT_DICT:
			return (int64_t) v.d->n;
		case JT_RANGE:
			return v.r->n;
		case JT_VIEW:
			return (int64_t) v.view->d->n;
		case JT_LOOP:
			{
				JStr		length = {.s = "length",.n = 6,.chars = 6};

				return jin_loop_attr(j, v.loop, &length).i;
			}
		default:
			if (fail)
				jin_fail(j, JE_TYPE, "object of type '%s' has no len()", jin_type(v));
			return -1;
	}
}
