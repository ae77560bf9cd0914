/*
 * answer.c
 *	  An answer's text, taken apart (answer.h).
 *
 * Tested by tests/unit/test_answer.c.
 */
#include "engine/answer.h"

#include <string.h>

#include "base/digest.h"
#include "base/mem.h"
#include "parse/jtext.h"

struct Answer
{
	AnswerSpec	spec;			/* `named` is ours, its other texts are gone */
	const char *until;			/* what ends the thoughts; NULL = there may be none */
	ReasonParser *reason;		/* NULL: none */
	ToolParser *tools;			/* NULL: none */
	Buf			content;
	Buf			think;
	Buf			calls;
	Buf			held;			/* TOOLS_REQUIRED, TOOLS_NAMED: the output so far */
	int			n_calls;
};

/* A string's inner text goes on: the quotes are around all of it. */
static void
quote_inner(Buf *out, const char *s, size_t n)
{
	Buf			q = {0};

	jtext_quote(&q, s, n);
	buf_add(out, q.data + 1, q.len - 2);
	buf_free(&q);
}

static void
begin_call(Answer *a, const char *id, const char *name)
{
	Buf		   *b = &a->calls;

	buf_addstr(b, b->len > 0 ? ", {" : "{");
	if (a->spec.stream)
		buf_printf(b, "\"index\": %d, ", a->n_calls);
	buf_addstr(b, "\"id\": ");
	jtext_quote(b, id, strlen(id));
	buf_addstr(b, ", \"type\": \"function\", \"function\": {\"name\": ");
	jtext_quote(b, name, strlen(name));
	buf_addstr(b, ", \"arguments\": \"");
}

static void
end_call(Answer *a)
{
	buf_addstr(&a->calls, "\"}}");
	a->n_calls++;
}

static void
tool_sink(void *ctx, const ParseEvent *ev)
{
	Answer	   *a = ctx;
	bool		dropped = a->spec.one_call && ev->index > 0;

	switch (ev->kind)
	{
		case PARSE_CONTENT:
			buf_add(&a->content, ev->s, ev->n);
			break;
		case PARSE_REASONING:
			if (!a->spec.drop_reasoning)
				buf_add(&a->think, ev->s, ev->n);
			break;
		case PARSE_CALL:
			if (!dropped)
				begin_call(a, ev->id, ev->name);
			break;
		case PARSE_ARGUMENTS:
			if (!dropped)
				quote_inner(&a->calls, ev->s, ev->n);
			break;
		case PARSE_CALL_END:
			if (!dropped)
				end_call(a);
			break;
	}
}

static void
take_content(Answer *a, const char *s, size_t n)
{
	if (a->spec.choice == TOOLS_REQUIRED || a->spec.choice == TOOLS_NAMED)
		buf_add(&a->held, s, n);
	else if (a->tools != NULL)
		tool_parser_feed(a->tools, s, n);
	else
		buf_add(&a->content, s, n);
}

static void
reason_sink(void *ctx, const ParseEvent *ev)
{
	Answer	   *a = ctx;

	if (ev->kind == PARSE_CONTENT)
		take_content(a, ev->s, ev->n);
	else
		tool_sink(a, ev);
}

static const char *
copy(const char *s, size_t n)
{
	return s != NULL ? mem_strndup(s, n) : NULL;
}

Answer *
answer_new(const AnswerSpec *spec)
{
	Answer	   *a = mem_zalloc(sizeof(*a));
	bool		tools = spec->choice == TOOLS_AUTO && spec->tools != NULL;

	a->spec = *spec;
	a->spec.named = copy(spec->named, spec->named != NULL ? strlen(spec->named) : 0);
	a->spec.tools_json = a->spec.kwargs = NULL;	/* the caller's */
	if (tools)
		a->tools = tool_parser_new(spec->tools, spec->tools_json, spec->n_tools_json, spec->key, tool_sink, a);
	if (spec->reason != NULL && !(tools && tool_format_reasons(spec->tools)))
		a->reason = reason_parser_new(spec->reason, spec->kwargs, spec->n_kwargs, spec->at, reason_sink, a);
	if (a->reason != NULL && spec->tag_only)
		reason_parser_tag_only(a->reason);
	if (spec->reason != NULL)
		a->until = reason_format_until(spec->reason, spec->kwargs, spec->n_kwargs, spec->at);
	return a;
}

Answer *
answer_fork(const Answer *a, int index)
{
	Answer	   *r = mem_zalloc(sizeof(*r));

	r->spec = a->spec;
	r->spec.key += (uint64_t) index;
	r->spec.named = copy(a->spec.named, a->spec.named != NULL ? strlen(a->spec.named) : 0);
	if (a->tools != NULL)
		r->tools = tool_parser_fork(a->tools, r->spec.key, tool_sink, r);
	if (a->reason != NULL)
		r->reason = reason_parser_fork(a->reason, reason_sink, r);
	return r;
}

const char *
answer_until(const Answer *a)
{
	return a->until;
}

ReasonAt
answer_at(const Answer *a)
{
	return a->spec.at;
}

bool
answer_takes_calls(const Answer *a)
{
	return a->tools != NULL;
}

bool
answer_wants_special(const Answer *a)
{
	return (a->reason != NULL && reason_format_special(a->spec.reason)) ||
		(a->tools != NULL && tool_format_special(a->spec.tools));
}

void
answer_free(Answer *a)
{
	if (a == NULL)
		return;
	reason_parser_free(a->reason);
	tool_parser_free(a->tools);
	mem_free((char *) a->spec.named);
	buf_free(&a->content);
	buf_free(&a->think);
	buf_free(&a->calls);
	buf_free(&a->held);
	mem_free(a);
}

void
answer_feed(Answer *a, const char *s, size_t n)
{
	if (a->reason != NULL)
		reason_parser_feed(a->reason, s, n);
	else
		take_content(a, s, n);
}

static void
make_call(Answer *a, const char *name, const Buf *args)
{
	uint64_t	sum = digest(args->data, args->len, a->spec.key);
	Buf			id = {0};

	tool_format_id(a->spec.tools, digest(name, strlen(name), sum), name, a->n_calls, &id);
	begin_call(a, id.data, name);
	quote_inner(&a->calls, args->data != NULL ? args->data : "", args->len);
	end_call(a);
	buf_free(&id);
}

/* [{"name": ..., "parameters": {...}}, ...]; false: it is cut, or no such thing. */
static bool
required_calls(Answer *a)
{
	Span		s = {a->held.data, a->held.data + a->held.len};
	Buf			name = {0};
	Buf			args = {0};
	size_t		len = a->calls.len;
	bool		ok;

	span_space(&s);
	ok = span_take(&s, "[");
	span_space(&s);
	for (int i = 0; ok && !span_take(&s, "]"); i++)
	{
		JMember		m[] = {{"name", true, &name, false}, {"parameters", false, &args, false}};

		buf_reset(&args);
		ok = (i == 0 || span_take(&s, ",")) && jtext_object(&s, m, 2, false) && m[0].given && m[1].given &&
			memchr(name.data, '\0', name.len) == NULL;
		if (ok && !(a->spec.one_call && i > 0))
			make_call(a, name.data, &args);
		span_space(&s);
	}
	buf_free(&name);
	buf_free(&args);
	if (!ok)
	{
		a->calls.len = len;
		a->n_calls = 0;
	}
	return ok && a->n_calls > 0;
}

void
answer_finish(Answer *a)
{
	if (a->reason != NULL)
		reason_parser_finish(a->reason);
	if (a->tools != NULL)
		tool_parser_finish(a->tools);
	if (a->spec.choice == TOOLS_NAMED && a->held.len > 0)
	{
		Buf			args = {0};

		/* cut by max_tokens, they are handed on as they are: the asker knows the reason */
		if (!jtext_whole((Span) {a->held.data, a->held.data + a->held.len}, &args))
			buf_add(&args, a->held.data, a->held.len);
		make_call(a, a->spec.named, &args);
		buf_free(&args);
	}
	else if (a->spec.choice == TOOLS_REQUIRED && a->held.len > 0 && !required_calls(a))
		buf_add(&a->content, a->held.data, a->held.len);
}

Buf *
answer_content(Answer *a)
{
	return &a->content;
}

Buf *
answer_reasoning(Answer *a)
{
	return &a->think;
}

Buf *
answer_calls(Answer *a)
{
	return &a->calls;
}

int
answer_n_calls(const Answer *a)
{
	return a->n_calls;
}

bool
answer_calls_tools(const Answer *a)
{
	return a->n_calls > 0 && a->spec.choice != TOOLS_NAMED;
}
