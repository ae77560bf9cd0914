/*
 * remote_reply_util.h
 *	  Decodes endpoints' responses into reply frames, and prints these as texts that tests compare.
 *
 * The wire's own reader reads the frames field by field, so a test compares what is on the wire: "DONE
 * text=... finish_reason=...;" for each frame, preceded by "[ask]" if there are several.
 */
#ifndef VLLM_TESTS_UNIT_REMOTE_REMOTE_REPLY_UTIL_H
#define VLLM_TESTS_UNIT_REMOTE_REMOTE_REPLY_UTIL_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "remote/codec/decode.h"
#include "tests/unit/check.h"

#define MAX_REQUESTS 64

typedef struct Scene
{
	RequestFields request[MAX_REQUESTS];
	const RequestFields *requests[MAX_REQUESTS];
	int			n;
	RCall		call[8];
	RCalls		calls;
	ROptions	o;
	/* received frames */
	Buf			dump;
	int			finals[MAX_REQUESTS];
	int			frames;
} Scene;

static inline void
dump_field(Buf *b, const WireField *f)
{
	float	   *v;

	buf_printf(b, " %s=", wire_tag_name(f->tag));
	switch (f->type)
	{
		case WT_INT:
			buf_printf(b, "%lld", (long long) f->i);
			break;
		case WT_NUM:
			buf_printf(b, "%.4g", f->num);
			break;
		case WT_STR:
			buf_addc(b, '<');
			buf_add(b, f->s, f->n);
			buf_addc(b, '>');
			break;
		case WT_INTS:
			buf_addc(b, '{');
			for (size_t i = 0; i < f->n; i++)
				buf_printf(b, "%s%d", i > 0 ? "," : "", wire_int_at(f, i));
			buf_addc(b, '}');
			break;
		default:
			v = malloc((f->n + 1) * sizeof(float));
			wire_floats(f, v);
			buf_addc(b, '{');
			for (size_t i = 0; i < f->n; i++)
				buf_printf(b, "%s%g", i > 0 ? "," : "", (double) v[i]);
			buf_addc(b, '}');
			free(v);
	}
}

/* Is it a text that SQL can have: UTF-8 without U+0000? */
static inline bool
is_text(const char *s, size_t n)
{
	for (size_t i = 0; i < n;)
	{
		unsigned char c = (unsigned char) s[i];
		size_t		len = c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
		uint32_t	cp = len == 1 ? c : c & (0xFFu >> (len + 1));

		if (c == 0 || (c >= 0x80 && c < 0xC0) || c > 0xF7 || len > n - i)
			return false;
		for (size_t k = 1; k < len; k++)
		{
			if (((unsigned char) s[i + k] & 0xC0) != 0x80)
				return false;
			cp = cp << 6 | ((unsigned char) s[i + k] & 0x3F);
		}
		if ((len > 1 && cp < (len == 2 ? 0x80u : len == 3 ? 0x800u : 0x10000u)) ||
			(cp >= 0xD800 && cp < 0xE000) || cp > 0x10FFFF)
			return false;
		i += len;
	}
	return true;
}

/*
 * Checks properties that a backend relies on: the arrays of log-probabilities match, rows divide, texts
 * are valid, floats are numbers.
 */
typedef struct Sums
{
	int64_t		counts,
				lengths;
	size_t		n_ids,
				n_ranks,
				n_values,
				n_lengths,
				n_bytes,
				n_floats;
	int64_t		rows;
	bool		lp,
				pooled;
} Sums;

static inline void
check_sums(const Sums *s)
{
	CHECK(!s->lp || (s->counts == (int64_t) s->n_ids && s->n_ranks == s->n_ids && s->n_values == s->n_ids &&
					 s->n_lengths == s->n_ids && s->lengths == (int64_t) s->n_bytes),
					 "arrays of log-probabilities that don't fit");
	CHECK(!s->pooled || (s->rows > 0 && s->n_floats > 0), "%zu floats in %lld rows", s->n_floats,
		  (long long) s->rows);
}

static inline void
check_field(Sums *s, const WireField *f)
{
	float	   *v = f->type == WT_FLOATS ? malloc((f->n + 1) * sizeof(float)) : NULL;

	if (f->tag == WTAG_INDEX)
	{
		check_sums(s);
		*s = (Sums) {.rows = 1};
	}
	s->lp = s->lp || f->tag == WTAG_LP_COUNTS;
	s->pooled = s->pooled || f->tag == WTAG_FLOATS;
	s->n_ids += f->tag == WTAG_LP_IDS ? f->n : 0;
	s->n_ranks += f->tag == WTAG_LP_RANKS ? f->n : 0;
	s->n_values += f->tag == WTAG_LP_VALUES ? f->n : 0;
	s->n_lengths += f->tag == WTAG_LP_LENGTHS ? f->n : 0;
	s->n_bytes += f->tag == WTAG_LP_BYTES ? f->n : 0;
	s->n_floats += f->tag == WTAG_FLOATS ? f->n : 0;
	s->rows = f->tag == WTAG_ROWS ? f->i : s->rows;
	for (size_t i = 0; i < f->n && f->type == WT_INTS; i++)
	{
		s->counts += f->tag == WTAG_LP_COUNTS ? wire_int_at(f, i) : 0;
		s->lengths += f->tag == WTAG_LP_LENGTHS ? wire_int_at(f, i) : 0;
		CHECK(f->tag == WTAG_LP_IDS || f->tag == WTAG_LP_RANKS || wire_int_at(f, i) >= 0, "%s: %d",
			  wire_tag_name(f->tag), wire_int_at(f, i));
	}
	if (v != NULL)
		wire_floats(f, v);
	for (size_t i = 0; i < f->n && v != NULL; i++)
		CHECK(isfinite(v[i]), "%s: %g", wire_tag_name(f->tag), (double) v[i]);
	CHECK(f->type != WT_STR || f->tag == WTAG_LP_BYTES || is_text(f->s, f->n), "%s is no text",
		  wire_tag_name(f->tag));
	CHECK(f->type != WT_INT || f->i >= 0, "%s: %lld", wire_tag_name(f->tag), (long long) f->i);
	free(v);
}

static inline void
scene_emit(void *ctx, int request, WireFrame kind, const Buf *fields, bool final)
{
	Scene	   *s = ctx;
	WireIn		in = {.p = fields->data,.end = fields->data + fields->len};
	WireField	f;
	Sums		sums = {.rows = 1};
	int			got;

	s->frames++;
	CHECK(request >= 0 && request < s->n, "ask %d", request);
	CHECK(s->finals[request] == 0, "a frame behind the last one of ask %d", request);
	CHECK(final == (kind == WF_DONE), "kind %d", kind);
	s->finals[request] += final;
	if (s->n > 1)
		buf_printf(&s->dump, "[%d]", request);
	buf_addstr(&s->dump, kind == WF_ACCEPTED ? "ACCEPTED" : kind == WF_TEXT ? "TEXT" : "DONE");
	while ((got = wire_next(&in, &f)) > 0)
	{
		dump_field(&s->dump, &f);
		check_field(&sums, &f);
	}
	check_sums(&sums);
	CHECK(got == 0, "malformed frame");
	buf_addstr(&s->dump, ";");
}

static inline StrView
span_of(const char *s)
{
	return (StrView) {s, s != NULL ? strlen(s) : 0};
}

/* One request, one call. */
static inline void
scene_init(Scene *s, WireKind kind, RShape shape)
{
	memset(s, 0, sizeof(*s));
	s->n = 1;
	for (int i = 0; i < MAX_REQUESTS; i++)
	{
		s->requests[i] = &s->request[i];
		s->request[i] = (RequestFields) {.kind = kind,.n = 1,.logprobs = -2,.prompt_logprobs = -2,
									 .max_tokens = -1};
		s->request[i].prompt = span_of("some text");
		s->request[i].secret = span_of("sk-secret");
	}
	s->call[0] = (RCall) {.shape = shape,.n_requests = 1};
	s->calls = (RCalls) {s->call, 1};
	s->o = (ROptions) {.name = (char *) "big",.model = (char *) "there/big"};
}

static inline void
scene_many(Scene *s, int n)
{
	s->n = s->call[0].n_requests = n;
}

static inline void
scene_forget(Scene *s)
{
	buf_reset(&s->dump);
	buf_add(&s->dump, "", 0);
	memset(s->finals, 0, sizeof(s->finals));
	s->frames = 0;
}

static inline void
scene_free(Scene *s)
{
	for (int i = 0; i < MAX_REQUESTS; i++)
		mem_free(s->request[i].fields);
	buf_free(&s->dump);
}

static inline void
scene_append(void *ctx, const void *data, size_t n)
{
	buf_add(ctx, data, n);
}

/* Add a field to the request's message. */
static inline void
scene_int(Scene *s, int i, WireTag tag, int64_t v)
{
	Buf			b = {0};
	WireOut		o = {scene_append, &b};

	buf_add(&b, s->request[i].fields != NULL ? s->request[i].fields : "", s->request[i].len);
	wire_put_int(&o, tag, v);
	mem_free(s->request[i].fields);
	s->request[i].fields = b.data;
	s->request[i].len = b.len;
}

/*
 * Feed text to call 0: piece 0 = at once, else in pieces of `piece` bytes; `cut` > 0: one piece up to
 * there first.
 */
static inline bool
scene_feed(Scene *s, const char *text, size_t n, size_t piece, size_t cut, Err *e)
{
	DecodedReply *r = reply_new(s->requests, s->n, &s->calls, &s->o, scene_emit, s);
	bool		ok = true;

	memset(e, 0, sizeof(*e));
	for (size_t at = 0; ok && at < n;)
	{
		size_t		len = at == 0 && cut > 0 ? cut : piece > 0 ? piece : n - at;
		char	   *copy;

		len = len < n - at ? len : n - at;
		/* a copy of exactly this size, so that ASan finds reads beyond it */
		copy = malloc(len);
		memcpy(copy, text + at, len);
		ok = reply_data(r, 0, copy, len, e);
		free(copy);
		at += len;
	}
	ok = ok && reply_end(r, 0, e);
	if (!ok)
		CHECK(e->cls != ERR_NONE && e->msg[0] != '\0', "an error without a message");
	reply_free(r);
	return ok;
}

/*
 * Return the frames of a response, which are the same however it is cut; NULL: it is refused, without a
 * final frame.
 */
static inline const char *
scene_run(Scene *s, const char *text, Err *e)
{
	size_t		n = strlen(text);
	Buf			first = {0};
	bool		ok;

	scene_forget(s);
	ok = scene_feed(s, text, n, 0, 0, e);
	for (int i = 0; i < s->n; i++)
		CHECK(s->finals[i] == ok, "ask %d has %d final frames: %s", i, s->finals[i], e->msg);
	buf_add(&first, s->dump.data, s->dump.len);
	for (size_t cut = 0; cut < n; cut++)
	{
		Err			other;
		bool		same;

		scene_forget(s);
		same = scene_feed(s, text, n, cut == 0 ? 1 : 0, cut, &other) == ok;
		CHECK(same, "cut at %zu: %s", cut, other.msg);
		CHECK(first.len == s->dump.len && memcmp(first.data, s->dump.data, first.len) == 0,
			  "cut at %zu:\n%s\n%s", cut, first.data, s->dump.data);
	}
	scene_forget(s);
	buf_add(&s->dump, first.data, first.len);
	buf_free(&first);
	return ok ? s->dump.data : NULL;
}

/* Return the length of what was emitted before the final frames. */
static inline size_t
before_end(const Buf *dump)
{
	const char *at = strstr(dump->data, "DONE");

	return at != NULL ? (size_t) (at - dump->data) : dump->len;
}

static inline void
expect(Scene *s, const char *text, const char *want, int line)
{
	Err			e;
	const char *got = scene_run(s, text, &e);
	size_t		whole = strlen(text);
	Buf			all = {0};

	CHECK(got != NULL && strcmp(got, want) == 0, "line %d:\ngot  %s\nwant %s", line,
		  got != NULL ? got : e.msg, want);
	buf_add(&all, s->dump.data, s->dump.len);
	while (whole > 0 && text[whole - 1] == '\n')
		whole--;
	/*
	 * no prefix of it is a valid response; only a stream may lack its [DONE] and what follows the last
	 * finish_reason
	 */
	for (size_t n = 0; n < whole; n++)
	{
		bool		ok;

		scene_forget(s);
		ok = scene_feed(s, text, n, 0, 0, &e);
		for (int i = 0; i < s->n; i++)
			CHECK(s->finals[i] == ok, "line %d: %zu bytes end it", line, n);
		if (ok)
			CHECK(s->call[0].stream && before_end(&all) == before_end(&s->dump) &&
				  memcmp(all.data, s->dump.data, before_end(&all)) == 0,
				  "line %d: %zu of %zu bytes are an answer: %s", line, n, whole, s->dump.data);
	}
	buf_free(&all);
}

static inline void
refuse(Scene *s, const char *text, ErrClass cls, const char *part, int line)
{
	Err			e;
	const char *got = scene_run(s, text, &e);

	CHECK(got == NULL, "line %d: %s", line, got != NULL ? got : "");
	if (got == NULL)
	{
		CHECK(e.cls == cls, "line %d: class %d: %s", line, e.cls, e.msg);
		CHECK(strstr(e.msg, part) != NULL || strstr(e.detail, part) != NULL, "line %d: %s (%s)", line, e.msg,
			  e.detail);
	}
}

#define EXPECT(s, text, want) expect(s, text, want, __LINE__)
#define REFUSE(s, text, cls, part) refuse(s, text, cls, part, __LINE__)

#endif
