/*
 * decode_generate.c
 *	  Completions and chats, complete and streamed (decode.h).
 *
 * The frames are those of src/server/request/request_events.c and choice_replies.c: with several choices
 * or log-probabilities a list in which INDEX begins a choice, else the fields of one choice.  A stream's
 * texts are emitted as they come, and so are its tool calls, which come in pieces, by index.  A choice
 * is complete when it has a finish_reason: a body or stream that ends before each choice has one is an
 * error.
 *
 * Tested by tests/unit/remote/codec/test_remote_reply.c.
 */
#include "remote/codec/decode_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/json/json_writer.h"
#include "base/alloc.h"
#include "base/assert.h"

#define MAX_CALLS	1024		/* tool calls of a choice */
#define MAX_REASON	64			/* bytes of a finish_reason */

typedef struct ToolCall
{
	Buf			id,
				name,
				args;			/* in a stream: the part that is not emitted yet */
	bool		emitted;		/* in a stream: id and name have been emitted */
} ToolCall;

typedef struct DecodeGenerateChoice
{
	bool		seen;			/* complete responses: it has been read */
	bool		ended;			/* it has a finish_reason */
	bool		end_emitted;
	bool		any_text;
	Buf			text;			/* the part that is not emitted yet */
	Buf			reasoning;
	IntVec		ids;
	size_t		n_ids;			/* received so far, also those that were emitted or not requested */
	Lps			lp;
	ToolCall   *calls;
	int			n_calls;
	Buf			finish,
				stop;
	bool		has_stop;
	size_t		held;			/* bytes of it in Gen.held */
} DecodeGenerateChoice;

struct Gen
{
	DecodeGenerateChoice *c;
	int			n;
	bool		chat;
	bool		list;			/* the frames are lists */
	bool		stream;			/* the caller wants WF_TEXT frames */
	bool		drop_reasoning;
	bool		prompt_emitted;
	bool		has_prompt_ids;
	IntVec		prompt_ids;
	Lps			prompt_lp;
	size_t		bytes;			/* total length of all texts so far */
	size_t		held;			/* bytes that the choices hold */
};

static Gen *
gen_of(DecodedReply *r, RPart *p)
{
	const RequestFields *a = r->requests[p->request];
	Gen		   *g = p->gen;

	if (g != NULL)
		return g;
	g = p->gen = mem_zalloc(sizeof(Gen));
	g->n = a->n > 0 ? a->n : 1;
	g->c = mem_zalloc((size_t) g->n * sizeof(DecodeGenerateChoice));
	g->chat = p->call->shape == RSHAPE_CHAT;
	g->list = a->want_answers || g->n > 1 || a->logprobs != -2 || a->prompt_logprobs != -2;
	g->stream = a->stream;
	g->drop_reasoning = reply_request_int(a, WTAG_INCLUDE_REASONING, 1) == 0;
	return g;
}

static void
choice_free(DecodeGenerateChoice *c)
{
	buf_free(&c->text);
	buf_free(&c->reasoning);
	intvec_free(&c->ids);
	lps_free(&c->lp);
	for (int i = 0; i < c->n_calls; i++)
	{
		buf_free(&c->calls[i].id);
		buf_free(&c->calls[i].name);
		buf_free(&c->calls[i].args);
	}
	mem_free(c->calls);
	buf_free(&c->finish);
	buf_free(&c->stop);
}

static void
gen_forget(RPart *p)
{
	Gen		   *g = p->gen;

	if (g == NULL)
		return;
	for (int i = 0; i < g->n; i++)
		choice_free(&g->c[i]);
	intvec_free(&g->prompt_ids);
	lps_free(&g->prompt_lp);
	mem_free(g->c);
	mem_free(g);
	p->gen = NULL;
}

/* ---- texts ---- */

/* Append a string, or null, to `out`. */
static bool
add_text(const DecodedReply *r, Gen *g, StrView v, const char *what, Buf *out, Err *e)
{
	size_t		before = out->len;

	if (json_kind(v) == 'n')
		return true;
	if (!json_text(v, out))
		return reply_bad(r, e, "has a %s that is no text that SQL can have", what);
	g->bytes += out->len - before;
	if (g->bytes > REPLY_MAX_BODY)
		return reply_bad(r, e, "has texts of more than %zu bytes", REPLY_MAX_BODY);
	return true;
}

/* Read a message's content that is a list of parts: {"type": "text", "text": ...}, or a model's reasoning. */
static bool
add_parts(const DecodedReply *r, Gen *g, DecodeGenerateChoice *c, StrView v, bool thoughts, Err *e)
{
	static const char *const names[] = {"type", "text", "thinking"};
	JsonMembers m;
	StrView		part;
	StrView		f[3];
	bool		ok = json_elements(&m, v.s, v.n);

	while (ok && json_element(&m, &part) > 0)
	{
		json_fields(part, names, 3, f);
		if (json_is(f[0], "text") && json_kind(f[1]) == '"')
			ok = add_text(r, g, f[1], "content", thoughts ? &c->reasoning : &c->text, e);
		else if (json_is(f[0], "thinking") && json_kind(f[2]) == '[' && !thoughts)
			ok = add_parts(r, g, c, f[2], true, e);
		else
			return reply_bad(r, e, "has a content that is no text");
	}
	return ok;
}

/* ---- tool calls ---- */

/* Read a text that comes once, or again unchanged. */
static bool
set_once(const DecodedReply *r, StrView v, const char *what, Buf *out, Err *e)
{
	Buf			b = {0};
	bool		ok = json_kind(v) == 'n' || json_text(v, &b);

	if (!ok)
		reply_bad(r, e, "has a tool call whose %s is no text", what);
	else if (out->len == 0)
		buf_add(out, b.data != NULL ? b.data : "", b.len);
	else if (b.len > 0 && (b.len != out->len || memcmp(b.data, out->data, b.len) != 0))
		ok = reply_bad(r, e, "has a tool call with a second %s", what);
	buf_free(&b);
	return ok;
}

/*
 * Find the tool call that a piece belongs to: its index decides, or else each piece with an id begins a
 * new call.
 */
static bool
find_call(const DecodedReply *r, DecodeGenerateChoice *c, StrView index, StrView id, int place,
		  bool delta, ToolCall **out, Err *e)
{
	int64_t		i = !delta ? place : id.s != NULL || c->n_calls == 0 ? c->n_calls : c->n_calls - 1;

	if (delta && index.s != NULL && !json_whole(index, 0, MAX_CALLS - 1, &i))
		return reply_bad(r, e, "has a tool call without a sensible index");
	if (i > c->n_calls || i >= MAX_CALLS)
		return reply_bad(r, e, "has a tool call %lld behind %d calls", (long long) i, c->n_calls);
	if (i == c->n_calls)
	{
		c->calls = mem_realloc(c->calls, (size_t) (c->n_calls + 1) * sizeof(ToolCall));
		memset(&c->calls[c->n_calls++], 0, sizeof(ToolCall));
	}
	ALWAYS(i >= 0 && i < c->n_calls && c->n_calls <= MAX_CALLS);
	*out = &c->calls[i];
	return true;
}

static bool
add_calls(const DecodedReply *r, Gen *g, DecodeGenerateChoice *c, StrView v, bool delta, Err *e)
{
	static const char *const names[] = {"index", "id", "function"};
	static const char *const inner[] = {"name", "arguments"};
	JsonMembers m;
	StrView		call;
	StrView		f[3];
	StrView		fn[2];
	ToolCall   *t = NULL;

	if (json_kind(v) == 'n')
		return true;
	if (json_kind(v) != '[' || !json_elements(&m, v.s, v.n))
		return reply_bad(r, e, "has tool_calls that are no list");
	for (int place = 0; json_element(&m, &call) > 0; place++)
	{
		if (!json_fields(call, names, 3, f))
			return reply_bad(r, e, "has a tool call that is no object");
		json_fields(f[2], inner, 2, fn);
		if (!find_call(r, c, f[0], f[1], place, delta, &t, e) || !set_once(r, f[1], "id", &t->id, e) ||
			!set_once(r, fn[0], "name", &t->name, e))
			return false;
		/* some endpoints send an object instead of its JSON text */
		if (json_kind(fn[1]) == '{' && !delta)
			buf_add(&t->args, fn[1].s, fn[1].n);
		else if (!add_text(r, g, fn[1], "tool call", &t->args, e))
			return false;
	}
	return true;
}

static void
put_quoted(Buf *b, const Buf *s)
{
	JsonOut		j = {.b = b};

	json_str(&j, s->data != NULL ? s->data : "", s->len);
}

/* Is there anything of this call to emit now?  In a stream the call must have its name first. */
static bool
call_is_new(const Gen *g, const DecodeGenerateChoice *c, const ToolCall *t)
{
	return !g->stream || (t->emitted ? t->args.len > 0 : t->name.len > 0 || c->ended);
}

static bool
calls_are_new(const Gen *g, const DecodeGenerateChoice *c)
{
	for (int i = 0; i < c->n_calls; i++)
		if (call_is_new(g, c, &c->calls[i]))
			return true;
	return false;
}

/* Write a call in the format of src/server/request/output_splitter.c. */
static bool
put_call(const DecodedReply *r, const Gen *g, ToolCall *t, int i, Buf *b, Err *e)
{
	if (t->name.len == 0)
		return reply_bad(r, e, "has a tool call without a name");
	if (t->id.len == 0)
		buf_printf(&t->id, "call_%d", i);
	buf_addstr(b, b->len > 0 ? ", {" : "[{");
	if (g->stream)
		buf_printf(b, "\"index\": %d, ", i);
	if (!t->emitted)
	{
		buf_addstr(b, "\"id\": ");
		put_quoted(b, &t->id);
		buf_addstr(b, ", \"type\": \"function\", ");
	}
	buf_addstr(b, "\"function\": {");
	if (!t->emitted)
	{
		buf_addstr(b, "\"name\": ");
		put_quoted(b, &t->name);
		buf_addstr(b, ", ");
	}
	buf_addstr(b, "\"arguments\": ");
	put_quoted(b, &t->args);
	buf_addstr(b, "}}");
	if (g->stream)
	{
		t->emitted = true;
		buf_reset(&t->args);
	}
	return true;
}

static bool
put_calls(const DecodedReply *r, const Gen *g, DecodeGenerateChoice *c, WireOut *o, Err *e)
{
	Buf			b = {0};
	bool		ok = true;

	for (int i = 0; ok && i < c->n_calls; i++)
		if (call_is_new(g, c, &c->calls[i]))
			ok = put_call(r, g, &c->calls[i], i, &b, e);
	if (ok && b.len > 0)
	{
		buf_addc(&b, ']');
		wire_put_str(o, WTAG_TOOL_CALLS, b.data, b.len);
	}
	buf_free(&b);
	return ok;
}

/* ---- choices ---- */

/* Does the finish_reason say that the choice is incomplete although it has ended? */
static bool
is_failure(const Buf *finish)
{
	static const char *const words[] = {"abort", "error", "cancelled", "insufficient_system_resource"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(finish->data, words[i]) == 0)
			return true;
	return false;
}

static bool
take_end(const DecodedReply *r, DecodeGenerateChoice *c, StrView finish, StrView stop, Err *e)
{
	if (json_kind(finish) == 'n' || json_is(finish, ""))
		return true;
	if (c->ended)
		return true;
	if (!json_text(finish, &c->finish) || c->finish.len > MAX_REASON)
		return reply_bad(r, e, "has a finish_reason that is no word");
	for (size_t i = 0; i < c->finish.len; i++)
		if ((unsigned char) c->finish.data[i] <= ' ')
			return reply_bad(r, e, "has a finish_reason that is no word");
	if (is_failure(&c->finish))
		return reply_bad(r, e, "ends with finish_reason \"%s\"", c->finish.data);
	c->ended = true;
	/* the stop string, or a token's id */
	c->has_stop = json_kind(stop) != 'n';
	if (json_kind(stop) == '0')
		buf_add(&c->stop, stop.s, stop.n);
	else if (c->has_stop && !json_text(stop, &c->stop))
		return reply_bad(r, e, "has a stop_reason that is no text");
	return true;
}

/* Read a chat's message, or a stream's delta of it. */
static bool
take_message(const DecodedReply *r, Gen *g, DecodeGenerateChoice *c, StrView v, bool delta, Err *e)
{
	static const char *const names[] = {"content", "reasoning_content", "reasoning", "tool_calls", "refusal"};
	StrView		f[5];
	bool		ok;

	if (!json_fields(v, names, 5, f))
		return delta || reply_bad(r, e, "has a choice without a message");
	ok = json_kind(f[0]) == '[' ? add_parts(r, g, c, f[0], false, e) :
		add_text(r, g, f[0], "content", &c->text, e);
	if (!ok || !add_text(r, g, f[1].s != NULL ? f[1] : f[2], "reasoning", &c->reasoning, e))
		return false;
	/* a refusal is the output */
	if (!add_text(r, g, f[4], "refusal", &c->text, e))
		return false;
	if (g->drop_reasoning)
		buf_reset(&c->reasoning);
	return add_calls(r, g, c, f[3], delta, e);
}

/*
 * Read the prompt's ids and log-probabilities.  vLLM has them in a completion's choice, and in a chat's
 * response.
 */
static bool
take_prompt(const DecodedReply *r, Gen *g, const RequestFields *a, StrView ids, StrView logprobs, Err *e)
{
	if (a->want_ids && json_kind(ids) == '[' && !g->has_prompt_ids)
	{
		g->has_prompt_ids = true;
		if (!reply_read_ids(r, ids, "prompt_token_ids", &g->prompt_ids, e))
			return false;
	}
	if (a->prompt_logprobs != -2 && json_kind(logprobs) == '[' && g->prompt_lp.n == 0)
		return lps_prompt(r, &g->prompt_lp, logprobs, g->has_prompt_ids ? &g->prompt_ids : NULL, e);
	return true;
}

enum
{
	C_INDEX, C_TEXT, C_MESSAGE, C_DELTA, C_FINISH, C_STOP, C_LOGPROBS, C_IDS, C_PROMPT_LOGPROBS, C_PROMPT_IDS,
	C_N
};

static const char *const choice_names[] = {
	"index", "text", "message", "delta", "finish_reason", "stop_reason", "logprobs", "token_ids",
	"prompt_logprobs", "prompt_token_ids"
};

static bool
take_logprobs(const DecodedReply *r, Gen *g, const RequestFields *a, DecodeGenerateChoice *c, StrView v,
			  const IntVec *ids, Err *e)
{
	if (a->logprobs == -2 || json_kind(v) == 'n')
		return true;
	return g->chat ? lps_chat(r, &c->lp, v, ids, a->logprobs, e) :
		lps_completion(r, &c->lp, v, ids, a->logprobs, e);
}

/* Read v, an element of "choices" at position `place`. */
static bool
take_choice(DecodedReply *r, RPart *p, StrView v, int place, bool delta, DecodeGenerateChoice **out, Err *e)
{
	const RequestFields *a = r->requests[p->request];
	Gen		   *g = p->gen;
	StrView		f[C_N];
	int64_t		index = place;
	size_t		had;
	IntVec		ids = {0};
	DecodeGenerateChoice *c;
	bool		ok;

	if (!json_fields(v, choice_names, C_N, f))
		return reply_bad(r, e, "has a choice that is no object");
	if (f[C_INDEX].s != NULL && !json_whole(f[C_INDEX], 0, g->n - 1, &index))
		return reply_bad(r, e, "has a choice whose index is none of %d", g->n);
	if (index >= g->n)
		return reply_bad(r, e, "has more choices than the %d that were asked for", g->n);
	*out = c = &g->c[index];
	if (c->seen && !delta)
		return reply_bad(r, e, "has choice %d twice", (int) index);
	c->seen = true;
	had = g->bytes;
	if (g->chat)
		ok = take_message(r, g, c, f[delta ? C_DELTA : C_MESSAGE], delta, e);
	else if (!delta && json_kind(f[C_TEXT]) != '"')
		return reply_bad(r, e, "has a choice without a text");
	else
		ok = add_text(r, g, f[C_TEXT], "text", &c->text, e);
	if (!ok)
		return false;
	if (c->ended && g->bytes > had)
		return reply_bad(r, e, "continues after its finish_reason");
	c->any_text = c->any_text || g->bytes > had;
	ok = json_kind(f[C_IDS]) != '[' || reply_read_ids(r, f[C_IDS], "token_ids", &ids, e);
	ok = ok && take_prompt(r, g, a, f[C_PROMPT_IDS], f[C_PROMPT_LOGPROBS], e) &&
		take_logprobs(r, g, a, c, f[C_LOGPROBS], ids.len > 0 ? &ids : NULL, e) &&
		take_end(r, c, f[C_FINISH], f[C_STOP], e);
	c->n_ids += ids.len;
	if (ok && a->want_ids)
		intvec_add(&c->ids, ids.data, ids.len);
	intvec_free(&ids);
	return ok;
}

/* ---- frames ---- */

static bool
put_texts(const DecodedReply *r, const Gen *g, DecodeGenerateChoice *c, WireOut *o, bool whole, Err *e)
{
	bool		parts = c->reasoning.len > 0 || c->n_calls > 0;

	/* an empty output is written, too, unless there is reasoning or a tool call */
	if (c->text.len > 0 || (whole && !parts) || (!whole && g->list && !parts))
		wire_put_str(o, WTAG_TEXT, c->text.data != NULL ? c->text.data : "", c->text.len);
	if (c->reasoning.len > 0)
		wire_put_str(o, WTAG_REASONING, c->reasoning.data, c->reasoning.len);
	return put_calls(r, g, c, o, e);
}

static void
put_end(const DecodeGenerateChoice *c, WireOut *o)
{
	ASSERT(c->ended && c->finish.len > 0);	/* is_complete() has refused others */
	wire_put_str(o, WTAG_FINISH_REASON, c->finish.data, c->finish.len);
	if (c->has_stop)
		wire_put_str(o, WTAG_STOP_REASON, c->stop.data != NULL ? c->stop.data : "", c->stop.len);
}

static void
put_prompt(Gen *g, WireOut *o)
{
	if (g->list && !g->prompt_emitted)
	{
		if (g->has_prompt_ids)
			wire_put_ints(o, WTAG_PROMPT_IDS, g->prompt_ids.data, g->prompt_ids.len);
		lps_put(&g->prompt_lp, o);
	}
	g->prompt_emitted = true;
}

/* Write a choice's new fields, with its INDEX in a list.  whole: write all fields. */
static bool
put_choice(const DecodedReply *r, const Gen *g, const RequestFields *a, int i, WireOut *o, bool whole, Err *e)
{
	DecodeGenerateChoice *c = &g->c[i];

	ALWAYS(i >= 0 && i < g->n);
	if (g->list)
		wire_put_int(o, WTAG_INDEX, i);
	if (!put_texts(r, g, c, o, whole, e))
		return false;
	if (a->want_ids && c->ids.len > 0)
		wire_put_ints(o, WTAG_TOKEN_IDS, c->ids.data, c->ids.len);
	if (!g->list)
		return true;
	lps_put(&c->lp, o);
	if (!c->ended || c->end_emitted)
		return true;
	if (a->logprobs != -2)
		wire_put_num(o, WTAG_CUM_LOGPROB, c->lp.cum);
	put_end(c, o);
	return true;
}

/* Emit the new part of a choice. */
static bool
emit_delta(DecodedReply *r, RPart *p, DecodeGenerateChoice *c, Err *e)
{
	const RequestFields *a = r->requests[p->request];
	Gen		   *g = p->gen;
	Buf			b = {0};
	WireOut		o = reply_out(&b);
	bool		some = c->text.len > 0 || c->reasoning.len > 0 || (a->want_ids && c->ids.len > 0) ||
		lps_any(&c->lp) || (c->ended && !c->end_emitted && g->list) || calls_are_new(g, c);
	bool		ok = true;

	if (!some)
		return true;
	put_prompt(g, &o);
	ok = put_choice(r, g, a, (int) (c - g->c), &o, false, e);
	if (ok)
	{
		reply_accepted(r, p->request, p->usage.prompt);
		reply_text_frame(r, p, p->request, &b);
		c->end_emitted = c->ended;
		buf_reset(&c->text);
		buf_reset(&c->reasoning);
		intvec_reset(&c->ids);
		lps_reset(&c->lp);
	}
	buf_free(&b);
	return ok;
}

/* ---- responses ---- */

static size_t
lps_held(const Lps *l)
{
	return (l->counts.cap + l->ids.cap + l->ranks.cap + l->lengths.cap) * sizeof(int32_t) + l->values.cap +
		l->bytes.cap;
}

/* Count what the choice holds now. */
static void
hold_choice(Gen *g, DecodeGenerateChoice *c)
{
	size_t		held = c->text.cap + c->reasoning.cap + c->finish.cap + c->stop.cap +
		c->ids.cap * sizeof(int32_t) + lps_held(&c->lp) + (size_t) c->n_calls * sizeof(ToolCall);

	for (int i = 0; i < c->n_calls; i++)
		held += c->calls[i].id.cap + c->calls[i].name.cap + c->calls[i].args.cap;
	ASSERT(g->held >= c->held);
	g->held += held - c->held;
	c->held = held;
}

enum
{
	G_ERROR, G_CHOICES, G_USAGE, G_PROMPT_LOGPROBS, G_PROMPT_IDS, G_N
};

static bool
take_answer(DecodedReply *r, RPart *p, StrView v, bool delta, Err *e)
{
	static const char *const names[] = {"error", "choices", "usage", "prompt_logprobs", "prompt_token_ids"};
	const RequestFields *a = r->requests[p->request];
	Gen		   *g = gen_of(r, p);
	StrView		f[G_N];
	StrView		choice;
	JsonMembers m;

	if (!json_fields(v, names, G_N, f))
		return reply_bad(r, e, "is no object");
	if (f[G_ERROR].s != NULL)
		return reply_refused(r, f[G_ERROR], e);
	if (!reply_read_usage(f[G_USAGE], &p->usage, e) ||
		!take_prompt(r, g, a, f[G_PROMPT_IDS], f[G_PROMPT_LOGPROBS], e))
		return false;
	if (json_kind(f[G_CHOICES]) != '[' || !json_elements(&m, f[G_CHOICES].s, f[G_CHOICES].n))
		return (delta && f[G_CHOICES].s == NULL) || reply_bad(r, e, "has no choices");
	for (int i = 0; json_element(&m, &choice) > 0; i++)
	{
		DecodeGenerateChoice *c = NULL;

		if (!delta && i >= g->n)
			return reply_bad(r, e, "has more choices than the %d that were asked for", g->n);
		/* a stream's chunk has one choice, whose index is 0 if it has none */
		if (!take_choice(r, p, choice, delta ? 0 : i, delta, &c, e))
			return false;
		if (delta && g->stream && !emit_delta(r, p, c, e))
			return false;
		hold_choice(g, c);
	}
	p->held = g->held + g->prompt_ids.cap * sizeof(int32_t) + lps_held(&g->prompt_lp);
	return true;
}

static bool
gen_event(DecodedReply *r, RPart *p, StrView v, Err *e)
{
	return take_answer(r, p, v, true, e);
}

/* Has every requested choice come, and ended? */
static bool
is_complete(DecodedReply *r, RPart *p, Err *e)
{
	const RequestFields *a = r->requests[p->request];
	Gen		   *g = gen_of(r, p);

	for (int i = 0; i < g->n; i++)
	{
		const DecodeGenerateChoice *c = &g->c[i];

		if (!c->seen)
			return reply_bad(r, e, "has no choice %d of the %d that were asked for", i, g->n);
		if (!c->ended)
			return reply_bad(r, e, "is cut off: it has no finish_reason");
		if (a->logprobs != -2 && c->any_text && c->lp.n == 0)
			return reply_bad(r, e, "has no log-probabilities");
	}
	if (a->prompt_logprobs != -2 && g->prompt_lp.n == 0)
		return reply_bad(r, e, "has no log-probabilities of the prompt");
	return true;
}

static bool
gen_whole(DecodedReply *r, RPart *p, StrView v, Err *e)
{
	return take_answer(r, p, v, false, e) && is_complete(r, p, e);
}

/* If an endpoint does not report its tokens (streams of llama-cpp-python), count those that it has listed. */
static void
count_tokens(const Gen *g, RUsage *u)
{
	int64_t		n = 0;

	for (int i = 0; i < g->n; i++)
	{
		const DecodeGenerateChoice *c = &g->c[i];

		if (c->any_text && c->n_ids == 0 && c->lp.n == 0)
			return;
		n += (int64_t) (c->n_ids > 0 ? c->n_ids : c->lp.n);
	}
	if (u->completion < 0 && n > 0)
		u->completion = n;
}

static bool
gen_finish(DecodedReply *r, Err *e)
{
	RPart	   *p = &r->part[0];
	const RequestFields *a = r->requests[p->request];
	Gen		   *g = gen_of(r, p);
	Buf			b = {0};
	WireOut		o = reply_out(&b);
	bool		ok = true;

	/* an output that the endpoint did not stream is emitted in one piece */
	for (int i = 0; ok && g->stream && !p->call->stream && i < g->n; i++)
		ok = emit_delta(r, p, &g->c[i], e);
	if (!g->stream)
		put_prompt(g, &o);
	for (int i = 0; ok && !g->stream && i < g->n; i++)
		ok = put_choice(r, g, a, i, &o, true, e);
	if (ok)
	{
		count_tokens(g, &p->usage);
		if (!g->list)
			put_end(&g->c[0], &o);
		reply_put_usage(&o, &p->usage);
		reply_accepted(r, p->request, p->usage.prompt);
		reply_done(r, p->request, &b);
	}
	buf_free(&b);
	return ok;
}

const ReplyShape reply_gen = {gen_event, is_complete, gen_whole, gen_finish, gen_forget};
