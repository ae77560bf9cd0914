/*
 * jinja_value.c
 *	  The Jinja interpreter's arena, errors, strings and containers.
 *
 * A string is bytes plus marks.  Most strings come entirely from the template or from input and need one
 * flag; only a string composed of both has a byte of marks for each of its bytes.  Substrings share
 * their parent's bytes and marks.
 *
 * Dicts keep the order of insertion; a dict with more than a few entries has a hash index.  Nothing is
 * ever deleted from a dict: templates can't change dicts.
 *
 * Tested by tests/golden/jinja_golden.c, tests/unit/template/test_jinja.c.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "template/jinja_internal.h"
#include "text/utf8.h"

#define SLAB_BYTES		16384
#define SMALL_DICT		8

struct JSlab
{
	JSlab	   *next;
	size_t		size;
	char		data[];
};

/* ---- errors ---- */

static ErrClass
class_of(JErr kind)
{
	switch (kind)
	{
		case JE_LIMIT:
			return ERR_TOO_LONG;
		case JE_REFUSED:
			return ERR_UNSUPPORTED;
		default:
			return ERR_INVALID;
	}
}

/* Cut an error's text at a character boundary. */
static void
cut_utf8(char *s, size_t size)
{
	size_t		n = strlen(s);
	size_t		lead = n;

	if (n + 1 < size)
		return;
	while (lead > 0 && ((unsigned char) s[lead - 1] & 0xC0) == 0x80)
		lead--;
	if (lead > 0 && lead - 1 + utf8_len((unsigned char) s[lead - 1]) != n)
		s[lead - 1] = '\0';
}

void
jin_fail(Jin *j, JErr kind, const char *fmt,...)
{
	char		text[sizeof(j->err->msg)];
	va_list		ap;

	/* the parser is at the lexer's error token: report that error instead */
	if (j->parsing != NULL && (*j->parsing)->t == TK_ERROR)
	{
		*j->err = j->lex_err;
		longjmp(j->escape, 1);
	}

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text) - 48, fmt, ap);
	va_end(ap);
	cut_utf8(text, sizeof(text) - 48);
	if (j->line > 0)
		err_set(j->err, class_of(kind), kind == JE_SYNTAX ? "chat template is malformed at line %d: %s" :
				"chat template failed at line %d: %s", j->line, text);
	else
		err_set(j->err, class_of(kind), "%s", text);
	longjmp(j->escape, 1);
}

static const char *
object_name(JVal v)
{
	switch (v.t)
	{
		case JT_NONE:
			return "None";
		case JT_NAMESPACE:
			return "transformers.utils.chat_template_utils.TemplateNamespace";
		case JT_LOOP:
			return "jinja2.runtime.LoopContext";
		case JT_MACRO:
			return "jinja2.runtime.Macro";
		case JT_CYCLER:
			return "jinja2.utils.Cycler";
		case JT_JOINER:
			return "jinja2.utils.Joiner";
		case JT_STR:
			return v.s->markup ? "markupsafe.Markup" : "str";
		default:
			return jin_type(v);
	}
}

void
jin_fail_undefined(Jin *j, JVal v)
{
	static const JUndef unknown = {.hint = "a value is undefined"};
	const JUndef *u = v.u != NULL ? v.u : &unknown;
	JErr		kind = u->unsafe ? JE_SECURITY : JE_UNDEFINED;
	const char *object = u->obj != NULL && u->obj->t == JT_NONE ? "" : " object";

	if (u->hint != NULL)
		jin_fail(j, kind, "%s", u->hint);
	if (u->obj == NULL)
		jin_fail(j, kind, "%s is undefined", jin_repr_c(j, u->name));
	if (u->unsafe)
		jin_fail(j, kind, "access to attribute %s of '%s' object is unsafe.", jin_repr_c(j, u->name),
				 jin_type(*u->obj));
	if (u->name.t != JT_STR)
		jin_fail(j, kind, "%s%s has no element %s", object_name(*u->obj), object, jin_repr_c(j, u->name));
	jin_fail(j, kind, "'%s%s' has no attribute %s", object_name(*u->obj), object, jin_repr_c(j, u->name));
}

bool
jin_guard(Jin *j, void (*fn) (Jin *j, void *arg), void *arg, Err *e)
{
	j->err = e;
	j->nesting = 0;
	if (setjmp(j->escape) != 0)
		return false;
	fn(j, arg);
	return true;
}

/* ---- the arena ---- */

void *
jin_alloc(Jin *j, size_t size)
{
	void	   *p;

	if (size > j->limits.memory)
		jin_fail(j, JE_LIMIT, "a value is too large");
	size = (size + 7) & ~(size_t) 7;
	if (size > j->left)
	{
		size_t		want = size > SLAB_BYTES / 4 ? size : SLAB_BYTES;
		JSlab	   *slab;

		if (j->used + want > j->limits.memory)
			jin_fail(j, JE_LIMIT, "it needs more than %zu MB of memory", j->limits.memory >> 20);
		slab = mem_try_alloc(sizeof(JSlab) + want);
		if (slab == NULL)
			jin_fail(j, JE_LIMIT, "out of memory");
		slab->size = want;
		slab->next = j->slabs;
		j->slabs = slab;
		j->used += want;
		/* a big value gets its own slab; the rest of the last slab stays in use */
		if (want != SLAB_BYTES)
			return slab->data;
		j->at = slab->data;
		j->left = want;
	}
	ALWAYS(size <= j->left && j->used <= j->limits.memory);
	p = j->at;
	j->at += size;
	j->left -= size;
	return p;
}

void *
jin_zalloc(Jin *j, size_t size)
{
	return memset(jin_alloc(j, size), 0, size);
}

void
jin_step(Jin *j, size_t n)
{
	j->steps -= (int64_t) n;
	if (j->steps < 0)
		jin_fail(j, JE_LIMIT, "it takes more than %lld steps", (long long) j->limits.steps);
}

void
jin_scan(Jin *j, size_t n)
{
	jin_step(j, n / 4);
}

void
jin_look_up(Jin *j, size_t n)
{
	jin_step(j, n);
}

void
jin_enter(Jin *j)
{
	if (++j->nesting > JIN_MAX_NESTING)
		jin_fail(j, JE_LIMIT, "values or expressions are nested too deeply");
}

void
jin_leave(Jin *j)
{
	ASSERT(j->nesting > 0);
	j->nesting--;
}

Jin *
jin_new(const JinLimits *limits)
{
	Jin		   *j = mem_zalloc(sizeof(Jin));

	if (limits != NULL)
		j->limits = *limits;
	if (j->limits.steps <= 0)
		j->limits.steps = 20000000;
	if (j->limits.memory == 0)
		j->limits.memory = (size_t) 256 << 20;
	if (j->limits.output == 0)
		j->limits.output = (size_t) 64 << 20;
	if (j->limits.depth <= 0)
		j->limits.depth = 150;
	j->steps = j->limits.steps;
	return j;
}

static void
slabs_free(JSlab *slab)
{
	while (slab != NULL)
	{
		JSlab	   *next = slab->next;

		mem_free(slab);
		slab = next;
	}
}

void
jin_end(Jin *j)
{
	if (j == NULL)
		return;
	slabs_free(j->slabs);
	mem_free(j);
}

void
jin_free(JinTemplate *t)
{
	if (t != NULL)
		slabs_free(t->slabs);	/* the template itself lies in one of the slabs */
}

/* ---- strings ---- */

static bool
is_ascii(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((unsigned char) s[i] >= 0x80)
			return false;
	return true;
}

size_t
jin_str_chars(const JStr *s)
{
	size_t		chars = 0;

	if (s->chars != SIZE_MAX)
		return s->chars;
	for (size_t i = 0; i < s->n; i++)
		chars += ((unsigned char) s->s[i] & 0xC0) != 0x80;
	return chars;
}

size_t
jin_str_at(Jin *j, const JStr *s, size_t i)
{
	size_t		at = 0;

	if (s->chars == s->n)
		return i < s->n ? i : s->n;
	for (; i > 0 && at < s->n; i--)
		at += utf8_len((unsigned char) s->s[at]);
	jin_scan(j, at);
	return at;
}

static JStr *
str_new(Jin *j, const char *s, size_t n, const uint8_t *mask, bool input)
{
	JStr	   *r = jin_alloc(j, sizeof(JStr));

	jin_step(j, n / 64);
	*r = (JStr) {.s = s,.n = n,.mask = mask,.input = input,.chars = SIZE_MAX};
	/* count now, so that nothing has to be written later: constants are shared between threads */
	if (is_ascii(s, n))
		r->chars = n;
	else
		r->chars = jin_str_chars(r);
	return r;
}

JStr *
jin_str(Jin *j, const char *s, size_t n, bool input)
{
	char	   *copy = jin_alloc(j, n);

	if (n > 0)
		memcpy(copy, s, n);
	return str_new(j, copy, n, NULL, input);
}

JStr *
jin_str_sub(Jin *j, const JStr *s, size_t from, size_t n)
{
	const uint8_t *mask = s->mask != NULL ? s->mask + from : NULL;

	JStr	   *r;

	ALWAYS(from <= s->n && n <= s->n - from);
	if (from == 0 && n == s->n)
		return (JStr *) s;
	r = str_new(j, s->s + from, n, mask, s->input);
	r->markup = s->markup;
	return r;
}

JStr *
jin_markup(Jin *j, const JStr *s, bool markup)
{
	JStr	   *r;

	if (s->markup == markup)
		return (JStr *) s;
	r = jin_alloc(j, sizeof(JStr));
	*r = *s;
	r->markup = markup;
	return r;
}

bool
jin_str_eq(const JStr *a, const JStr *b)
{
	return a->n == b->n && memcmp(a->s, b->s, a->n) == 0;
}

bool
jin_str_is(const JStr *s, const char *c)
{
	return s->n == strlen(c) && memcmp(s->s, c, s->n) == 0;
}

int
jin_str_cmp(const JStr *a, const JStr *b)
{
	size_t		n = a->n < b->n ? a->n : b->n;
	int			c = memcmp(a->s, b->s, n);

	return c != 0 ? c : (a->n > b->n) - (a->n < b->n);
}

size_t
jin_str_find(Jin *j, const JStr *s, const JStr *needle, size_t from)
{
	const char *hit;

	if (from > s->n)
		return SIZE_MAX;
	if (needle->n == 0)
		return from;
	hit = memmem(s->s + from, s->n - from, needle->s, needle->n);
	jin_step(j, 1 + (hit != NULL ? (size_t) (hit - s->s) - from : s->n - from) / 64 + needle->n / 2);
	return hit != NULL ? (size_t) (hit - s->s) : SIZE_MAX;
}

JStr *
jin_str_join2(Jin *j, const JStr *a, const JStr *b)
{
	JBuild		w = {0};

	if (a->n == 0)
		return (JStr *) b;
	if (b->n == 0)
		return (JStr *) a;
	jin_build_room(j, &w, a->n + b->n);
	jin_build_str(j, &w, a);
	jin_build_str(j, &w, b);
	return jin_build_done(j, &w);
}

/* ---- building strings ---- */

void
jin_build_room(Jin *j, JBuild *b, size_t n)
{
	size_t		cap = b->cap;
	char	   *s;

	if (n > j->limits.output || b->n > j->limits.output - n)
		jin_fail(j, JE_LIMIT, "a string is longer than %zu bytes", j->limits.output);
	if (b->n + n <= cap)
		return;
	/* the first time allocate just what is requested, as most strings are built in one step */
	cap = cap == 0 ? n : cap * 2 > b->n + n ? cap * 2 : b->n + n;
	s = jin_alloc(j, cap);
	if (b->n > 0)
		memcpy(s, b->s, b->n);
	b->s = s;
	if (b->marks != NULL)
	{
		uint8_t    *marks = jin_alloc(j, cap);

		memcpy(marks, b->marks, b->n);
		b->marks = marks;
	}
	b->cap = cap;
}

/* Switch to a byte of marks for each byte. */
static void
build_mix(Jin *j, JBuild *b)
{
	b->marks = jin_alloc(j, b->cap);
	memset(b->marks, b->input, b->n);
}

void
jin_build_add(Jin *j, JBuild *b, const char *s, size_t n, bool input)
{
	if (n == 0)
		return;
	jin_build_room(j, b, n);
	if (b->n == 0)
		b->input = input;
	else if (b->marks == NULL && b->input != input)
		build_mix(j, b);
	if (b->marks != NULL)
		memset(b->marks + b->n, input, n);
	memcpy(b->s + b->n, s, n);
	b->n += n;
	jin_step(j, n / 64);
}

void
jin_build_sub(Jin *j, JBuild *b, const JStr *s, size_t from, size_t n)
{
	ALWAYS(from <= s->n && n <= s->n - from);
	if (s->mask == NULL)
	{
		jin_build_add(j, b, s->s + from, n, s->input);
		return;
	}
	if (n == 0)
		return;
	jin_build_room(j, b, n);
	if (b->marks == NULL)
		build_mix(j, b);
	memcpy(b->marks + b->n, s->mask + from, n);
	memcpy(b->s + b->n, s->s + from, n);
	b->n += n;
	jin_step(j, n / 64);
}

void
jin_build_str(Jin *j, JBuild *b, const JStr *s)
{
	jin_build_sub(j, b, s, 0, s->n);
}

void
jin_build_c(Jin *j, JBuild *b, const char *s)
{
	jin_build_add(j, b, s, strlen(s), false);
}

JStr *
jin_build_done(Jin *j, JBuild *b)
{
	return str_new(j, b->n > 0 ? b->s : "", b->n, b->marks, b->input);
}

/* ---- small values ---- */

JVal
jin_none(void)
{
	return (JVal) {.t = JT_NONE};
}

JVal
jin_bool(bool b)
{
	return (JVal) {.t = JT_BOOL,.b = b};
}

JVal
jin_int(int64_t i)
{
	return (JVal) {.t = JT_INT,.i = i};
}

JVal
jin_float(double f)
{
	return (JVal) {.t = JT_FLOAT,.f = f};
}

JVal
jin_sval(JStr *s)
{
	return (JVal) {.t = JT_STR,.s = s};
}

JVal
jin_cstr(Jin *j, const char *s)
{
	return jin_sval(jin_str(j, s, strlen(s), false));
}

static JVal
undefined(Jin *j, JUndef u)
{
	JUndef	   *p = jin_alloc(j, sizeof(JUndef));

	*p = u;
	return (JVal) {.t = JT_UNDEFINED,.u = p};
}

JVal
jin_missing(Jin *j, const JStr *name)
{
	return undefined(j, (JUndef) {.name = jin_sval((JStr *) name)});
}

JVal
jin_no_item(Jin *j, JVal obj, JVal name, bool unsafe)
{
	JVal	   *o = jin_alloc(j, sizeof(JVal));

	*o = obj;
	return undefined(j, (JUndef) {.obj = o,.name = name,.unsafe = unsafe});
}

JVal
jin_undef_hint(Jin *j, const char *hint)
{
	return undefined(j, (JUndef) {.hint = hint});
}

/* ---- lists ---- */

JList *
jin_list(Jin *j, size_t cap)
{
	JList	   *l = jin_zalloc(j, sizeof(JList));

	if (cap > 0)
		l->v = jin_alloc(j, cap * sizeof(JVal));
	l->cap = cap;
	return l;
}

void
jin_list_add(Jin *j, JList *l, JVal v)
{
	if (l->n == l->cap)
	{
		size_t		cap = l->cap > 0 ? l->cap * 2 : 4;
		JVal	   *grown = jin_alloc(j, cap * sizeof(JVal));

		if (l->n > 0)
			memcpy(grown, l->v, l->n * sizeof(JVal));
		l->v = grown;
		l->cap = cap;
	}
	l->v[l->n++] = v;
	jin_step(j, 1);
}

JVal
jin_lval(JList *l, JType t)
{
	return (JVal) {.t = t,.l = l};
}

JVal
jin_pair(Jin *j, JVal a, JVal b)
{
	JList	   *l = jin_list(j, 2);

	l->v[0] = a;
	l->v[1] = b;
	l->n = 2;
	return jin_lval(l, JT_TUPLE);
}

/* ---- dicts ---- */

static uint64_t
hash_bytes(const char *s, size_t n)
{
	uint64_t	h = UINT64_C(14695981039346656037);

	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char) s[i]) * UINT64_C(1099511628211);
	return h;
}

/* Equal values have the same hash, also 1, 1.0 and True. */
static uint64_t
hash_of(Jin *j, JVal v)
{
	uint64_t	h = 1;

	switch (v.t)
	{
		case JT_STR:
			jin_step(j, v.s->n / 64);
			return hash_bytes(v.s->s, v.s->n);
		case JT_NONE:
		case JT_UNDEFINED:
			return 2 + (uint64_t) v.t;
		case JT_BOOL:
			return v.b;
		case JT_INT:
			return (uint64_t) v.i;
		case JT_FLOAT:
			if (v.f >= -9.2e18 && v.f <= 9.2e18 && v.f == (double) (int64_t) v.f)
				return (uint64_t) (int64_t) v.f;
			return hash_bytes((const char *) &v.f, sizeof(v.f));
		case JT_TUPLE:
			jin_enter(j);
			for (size_t i = 0; i < v.l->n; i++)
				h = h * 31 + hash_of(j, v.l->v[i]);
			jin_leave(j);
			return h;
		default:
			jin_fail(j, JE_TYPE, "unhashable type: '%s'", jin_type(v));
	}
}

JDict *
jin_dict(Jin *j)
{
	return jin_zalloc(j, sizeof(JDict));
}

static void
index_add(JDict *d, size_t entry)
{
	size_t		at = (d->e[entry].hash * UINT64_C(0x9E3779B97F4A7C15) >> 20) & d->mask;

	while (d->index[at] != 0)
		at = (at + 1) & d->mask;
	d->index[at] = (uint32_t) entry + 1;
}

static JPair *
find_hashed(Jin *j, const JDict *d, JVal k, uint64_t hash)
{
	if (d->index == NULL)
	{
		for (size_t i = 0; i < d->n; i++)
			if (d->e[i].hash == hash && jin_equal(j, d->e[i].k, k))
				return &d->e[i];
		return NULL;
	}
	for (size_t at = (hash * UINT64_C(0x9E3779B97F4A7C15) >> 20) & d->mask; d->index[at] != 0;
		 at = (at + 1) & d->mask)
	{
		JPair	   *p = &d->e[d->index[at] - 1];

		jin_step(j, 1);			/* keys may be chosen so that they collide */
		if (p->hash == hash && jin_equal(j, p->k, k))
			return p;
	}
	return NULL;
}

JPair *
jin_dict_find(Jin *j, const JDict *d, JVal k)
{
	return find_hashed(j, d, k, hash_of(j, k));
}

void
jin_dict_put(Jin *j, JDict *d, JVal k, JVal v)
{
	uint64_t	hash = hash_of(j, k);
	JPair	   *p = find_hashed(j, d, k, hash);

	jin_step(j, 1);
	if (p != NULL)
	{
		p->v = v;
		return;
	}
	if (d->n == d->cap)
	{
		size_t		cap = d->cap > 0 ? d->cap * 2 : 4;
		JPair	   *grown = jin_alloc(j, cap * sizeof(JPair));

		if (d->n > 0)
			memcpy(grown, d->e, d->n * sizeof(JPair));
		d->e = grown;
		d->cap = cap;
		if (cap > SMALL_DICT)
		{
			d->index = jin_zalloc(j, cap * 4 * sizeof(uint32_t));
			d->mask = cap * 4 - 1;
			for (size_t i = 0; i < d->n; i++)
				index_add(d, i);
		}
	}
	d->e[d->n] = (JPair) {k, v, hash};
	d->n++;
	if (d->index != NULL)
		index_add(d, d->n - 1);
}

JVal *
jin_dict_cget(Jin *j, const JDict *d, const char *k)
{
	JStr		s = {.s = k,.n = strlen(k),.chars = SIZE_MAX};
	JPair	   *p = find_hashed(j, d, jin_sval(&s), hash_bytes(k, s.n));

	return p != NULL ? &p->v : NULL;
}

void
jin_dict_cput(Jin *j, JDict *d, const char *k, JVal v)
{
	jin_dict_put(j, d, jin_cstr(j, k), v);
}
