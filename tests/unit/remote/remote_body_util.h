/*
 * remote_body_util.h
 *	  Helpers for tests of endpoints' bodies: requests, and the bodies made of them.
 */
#ifndef VLLM_TESTS_UNIT_REMOTE_REMOTE_BODY_UTIL_H
#define VLLM_TESTS_UNIT_REMOTE_REMOTE_BODY_UTIL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/alloc.h"
#include "base/json/json.h"
#include "remote/codec/encode.h"
#include "tests/unit/check.h"

/* ---- messages ---- */

static inline void
append(void *ctx, const void *data, size_t n)
{
	buf_add(ctx, data, n);
}

static inline WireOut
out_of(Buf *b)
{
	return (WireOut) {append, b};
}

static inline void
put(Buf *b, WireTag tag, const char *s)
{
	WireOut		o = out_of(b);

	wire_put_str(&o, tag, s, strlen(s));
}

static inline void
put_int(Buf *b, WireTag tag, int64_t v)
{
	WireOut		o = out_of(b);

	wire_put_int(&o, tag, v);
}

static inline void
put_num(Buf *b, WireTag tag, double v)
{
	WireOut		o = out_of(b);

	wire_put_num(&o, tag, v);
}

/* Write a field from a text: numbers in decimal, lists separated by commas. */
static inline void
put_any(Buf *b, WireTag tag, const char *value)
{
	WireOut		o = out_of(b);
	int32_t		ids[16];
	float		floats[2] = {1, 2};
	size_t		n = 0;
	char	   *copy;

	switch (wire_tag_type(tag))
	{
		case WT_INT:
			wire_put_int(&o, tag, strtoll(value, NULL, 10));
			break;
		case WT_NUM:
			wire_put_num(&o, tag, strtod(value, NULL));
			break;
		case WT_INTS:
			copy = mem_strdup(value);
			for (char *p = strtok(copy, ","); p != NULL; p = strtok(NULL, ","))
				ids[n++] = atoi(p);
			wire_put_ints(&o, tag, ids, n);
			mem_free(copy);
			break;
		case WT_FLOATS:
			wire_put_floats(&o, tag, floats, 2);
			break;
		default:
			if (tag != WTAG_STOP && tag != WTAG_BAD_WORDS && tag != WTAG_STRUCT_CHOICE)
			{
				wire_put_str(&o, tag, value, strlen(value));
				break;
			}
			copy = mem_strdup(value);
			for (char *p = strtok(copy, "|"); p != NULL; p = strtok(NULL, "|"))
				wire_put_str(&o, tag, p, strlen(p));
			mem_free(copy);
	}
}

static const char *const dialects[] = {
#define DIALECT(name, ...) name,
#include "ipc/endpoint_dialects.def"
#undef DIALECT
};
enum
{
	OPENAI, VLLM, LLAMA, PYTHON, N_DIALECTS
};
_Static_assert(sizeof(dialects) / sizeof(dialects[0]) == N_DIALECTS, "what is expected of each");

/* The calls of a request; freed by done(). */
typedef struct Made
{
	RequestFields a[4];
	int			n;
	ROptions   *o;
	RCalls		calls;
	bool		ok;
	Err			e;
} Made;

/* more: further options, beginning with a comma */
static inline void
read_one(Made *m, WireKind kind, int dialect, const char *more, const Buf *fields)
{
	Buf			b = {0};
	Buf			options = {0};
	char	   *copy;

	buf_printf(&options, "{\"model\": \"Q/3\", \"dialect\": \"%s\"%s}", dialects[dialect], more);
	put(&b, WTAG_MODEL, "big");
	put(&b, WTAG_URL, "https://a.example/v1");
	put(&b, WTAG_MODEL_OPTIONS, options.data);
	put(&b, WTAG_SECRET, "sk-1");
	buf_add(&b, fields->data, fields->len);
	copy = mem_alloc(b.len);
	memcpy(copy, b.data, b.len);
	if (!request_fields_read(&m->a[m->n++], kind, copy, b.len, &m->e))
	{
		fprintf(stderr, "%s\n", m->e.msg);
		abort();
	}
	buf_free(&b);
	buf_free(&options);
}

static inline void
make_them(Made *m)
{
	const RequestFields *requests[4] = {&m->a[0], &m->a[1], &m->a[2], &m->a[3]};

	m->o = roptions_get(&m->a[0], &m->e);
	if (m->o == NULL)
	{
		fprintf(stderr, "%s\n", m->e.msg);
		abort();
	}
	memset(&m->e, 0, sizeof(m->e));
	m->ok = body_make(requests, m->n, m->o, &m->calls, &m->e);
}

static inline void
make(Made *m, WireKind kind, int dialect, const char *more, Buf *fields)
{
	memset(m, 0, sizeof(*m));
	read_one(m, kind, dialect, more, fields);
	make_them(m);
	buf_free(fields);
}

static inline void
done(Made *m)
{
	body_free(&m->calls);
	roptions_unref(m->o);
	for (int i = 0; i < m->n; i++)
		request_fields_free(&m->a[i]);
}

static inline bool
same_json(const char *a, const char *b)
{
	Json	   *x = json_parse(a, strlen(a));
	Json	   *y = json_parse(b, strlen(b));
	bool		same = x != NULL && y != NULL && json_equal(x, y);

	json_free(x);
	json_free(y);
	return same;
}

static inline void
check_call(const Made *m, const char *what, RShape shape, const char *path, const char *body)
{
	const RCall *c = m->calls.v;

	CHECK(m->ok && m->calls.n == 1, "%s: %s", what, m->e.msg);
	if (!m->ok)
		return;
	CHECK(c->shape == shape && strcmp(c->path, path) == 0, "%s: %d %s", what, c->shape, c->path);
	CHECK(same_json(c->body.data, body), "%s: %s", what, c->body.data);
}

static inline void
check_refused(Made *m, const char *what, ErrClass cls, const char *says)
{
	CHECK(!m->ok && m->e.cls == cls && strstr(m->e.msg, says) != NULL, "%s: %d %d %s", what, m->ok, m->e.cls,
		  m->e.msg);
	CHECK(m->calls.n == 0 && m->calls.v == NULL, "%s: nothing is left", what);
	CHECK(cls != ERR_UNSUPPORTED || strstr(m->e.msg, "\"big\"") != NULL, "%s: %s", what, m->e.msg);
	CHECK(strstr(m->e.msg, "sk-1") == NULL && strstr(m->e.detail, "sk-1") == NULL, "the secret is told");
	done(m);
}

#endif
