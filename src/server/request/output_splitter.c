/*
 * output_splitter.c
 *	  Splits the text of a choice (output_splitter.h).
 *
 * Tested by tests/unit/server/request/test_answer.c.
 */
#include "server/request/output_splitter.h"

#include <string.h>

#include "base/assert.h"
#include "base/checksum.h"
#include "base/alloc.h"
#include "base/json/json_writer.h"
#include "parsers/json_push.h"

struct Answer
{
	AnswerSpec	spec;			/* `named` is a copy that we own; the other texts are not valid any more */
	const char *until;			/* text that ends the reasoning; NULL = there may be none */
	ReasonParser *reason;		/* NULL: none */
	ToolParser *tools;			/* NULL: none */
	Buf			content;
	Buf			think;
	Buf			calls;
	IntVec		at;				/* for each element: its position in content */
	bool		open;			/* the last element of calls is not closed */
	/* offset in calls at which the current call begins; NOT_HERE: the owner has already read its beginning */
	size_t		begun;
	size_t		begun_at;		/* offset in `at` of the current call */
	bool		ignore;			/* the current call is one too many */
	int			index;			/* index of the current call, in deltas */
	int			n_calls;
	JPush		named;			/* TOOLS_NAMED: parser of the arguments */
	JPushIs		named_is;
	Buf			named_text;		/* TOOLS_NAMED: arguments that are not emitted yet */
	bool		named_begun;
};

#define NOT_HERE	SIZE_MAX

/* ---- elements of tool_calls ---- */

static void
close_element(Answer *a)
{
	if (a->open)
		buf_addstr(&a->calls, "\"}}");
	a->open = false;
}

static void
open_element(Answer *a, bool first)
{
	Buf		   *b = &a->calls;

	close_element(a);
	if (b->len == 0)
		intvec_reset(&a->at);
	a->begun = first ? b->len : a->begun;
	a->begun_at = first ? a->at.len : a->begun_at;
	intvec_push(&a->at, (int32_t) a->content.len);
	buf_addstr(b, b->len > 0 ? ", {" : "{");
	if (a->spec.stream)
		buf_printf(b, "\"index\": %d, ", a->index);
	a->open = true;
}

static void
begin_call(Answer *a, const char *id, const char *name)
{
	open_element(a, true);
	buf_addstr(&a->calls, "\"id\": ");
	json_add_quoted(&a->calls, id, strlen(id));
	buf_addstr(&a->calls, ", \"type\": \"function\", \"function\": {\"name\": ");
	json_add_quoted(&a->calls, name, strlen(name));
	buf_addstr(&a->calls, ", \"arguments\": \"");
}

/* Add to the arguments; in a new delta, if the owner has read the one before. */
static void
add_arguments(Answer *a, const char *s, size_t n)
{
	if (n == 0)
		return;
	if (!a->open)
	{
		open_element(a, false);
		buf_addstr(&a->calls, "\"function\": {\"arguments\": \"");
	}
	json_add_escaped(&a->calls, s, n);
}

static void
end_call(Answer *a)
{
	close_element(a);
	a->index++;
	a->n_calls++;
}

/* The text was no call: remove it, unless the owner has read its beginning. */
static void
drop_call(Answer *a)
{
	close_element(a);
	if (a->begun == NOT_HERE)
		a->index++;
	else
	{
		ALWAYS(a->begun <= a->calls.len && a->begun_at <= a->at.len);
		a->calls.len = a->begun;
		a->at.len = a->begun_at;
	}
}

static void
call_sink(Answer *a, const ParseEvent *ev)
{
	if (ev->kind == PARSE_CALL)
		a->ignore = a->spec.one_call && a->n_calls > 0;
	if (a->ignore)
		return;
	if (ev->kind == PARSE_CALL)
		begin_call(a, ev->id, ev->name);
	else if (ev->kind == PARSE_ARGUMENTS)
		add_arguments(a, ev->s, ev->n);
	else if (ev->kind == PARSE_CALL_END)
		end_call(a);
	else
		drop_call(a);
}

static void
tool_sink(void *ctx, const ParseEvent *ev)
{
	Answer	   *a = ctx;

	if (ev->kind == PARSE_CONTENT)
		buf_add(&a->content, ev->s, ev->n);
	else if (ev->kind != PARSE_REASONING)
		call_sink(a, ev);
	else if (!a->spec.drop_reasoning)
		buf_add(&a->think, ev->s, ev->n);
}

/* ---- a named tool: the text is its arguments ---- */

static void
begin_named(Answer *a)
{
	const char *name = a->spec.named;
	Buf			id = {0};

	tool_format_id(a->spec.tools, digest(name, strlen(name), a->spec.key), name, 0, &id);
	begin_call(a, id.data, name);
	buf_free(&id);
	a->named_begun = true;
}

/*
 * Emit the arguments but for the last `hold` bytes.  The closing byte is held back until the end, so
 * that incomplete arguments are never taken for complete ones.
 */
static void
write_named(Answer *a, size_t hold)
{
	Buf		   *b = &a->named_text;

	if (b->len <= hold)
		return;
	if (!a->named_begun)
		begin_named(a);
	add_arguments(a, b->data, b->len - hold);
	buf_consume(b, b->len - hold);
}

static void
feed_named(Answer *a, const char *s, size_t n)
{
	Span		t = {s, s + n};
	char		c;

	if (a->named_is == JPUSH_MORE)
		a->named_is = jpush(&a->named, &t, false, &a->named_text);
	if (a->named_is == JPUSH_DONE)
		span_space(&t);
	/* there was no grammar: text that can't be parsed is passed on unchanged */
	if (t.p < t.end)
		a->named_is = JPUSH_BAD;
	buf_add(&a->named_text, t.p, (size_t) (t.end - t.p));
	c = a->named.first;
	if (c == '{' || c == '[' || c == '"' || a->named_is == JPUSH_BAD)
		write_named(a, a->named_is == JPUSH_DONE ? 1 : 0);
}

/* Arguments that max_tokens has cut are passed on unchanged; the finish reason tells the caller. */
static void
finish_named(Answer *a)
{
	write_named(a, 0);
	if (a->named_begun)
		end_call(a);
}

static void
take_content(Answer *a, const char *s, size_t n)
{
	if (a->spec.choice == TOOLS_NAMED)
		feed_named(a, s, n);
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
	a->spec.tools_json = a->spec.kwargs = NULL;	/* these belong to the caller */
	if (tools)
		a->tools = tool_parser_new(spec->tools, spec->tools_json, spec->n_tools_json, spec->key, tool_sink,
								   a);
	else if (spec->choice == TOOLS_REQUIRED)
		a->tools = tool_parser_required(spec->tools, spec->key, tool_sink, a);
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

	/* all choices begin with the same state */
	ASSERT(!answer_has(a) && a->n_calls == 0);
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
	return a->tools != NULL && a->spec.choice == TOOLS_AUTO;
}

bool
answer_wants_special(const Answer *a)
{
	return (a->reason != NULL && reason_format_special(a->spec.reason)) ||
		(answer_takes_calls(a) && tool_format_special(a->spec.tools));
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
	intvec_free(&a->at);
	buf_free(&a->named_text);
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

void
answer_finish(Answer *a)
{
	if (a->reason != NULL)
		reason_parser_finish(a->reason);
	if (a->tools != NULL)
		tool_parser_finish(a->tools);
	if (a->spec.choice == TOOLS_NAMED)
		finish_named(a);
}

bool
answer_has(const Answer *a)
{
	return a->content.len > 0 || a->think.len > 0 || a->calls.len > 0;
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
	close_element(a);
	a->begun = NOT_HERE;
	return &a->calls;
}

const IntVec *
answer_calls_at(const Answer *a)
{
	return &a->at;
}

int
answer_n_calls(const Answer *a)
{
	return a->n_calls;
}

bool
answer_calls_tools(const Answer *a, bool cut)
{
	return a->n_calls > 0 && a->spec.choice != TOOLS_NAMED && !(cut && tool_parser_is_open(a->tools));
}
