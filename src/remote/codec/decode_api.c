/*
 * decode_api.c
 *	  Bodies of OpenAI's and Anthropic's interfaces, passed on as the endpoint wrote them (decode.h).
 *
 * Only the model's name is replaced by the name that the caller used.  Each event of a stream is a
 * WF_TEXT frame, and the final frame has none: the same as src/server/api/api_call.c does.  A stream is
 * complete after "[DONE]", or after an event whose type ends it.
 *
 * Tested by tests/unit/remote/codec/test_remote_reply_more.c.
 */
#include <string.h>

#include "base/json/json_writer.h"
#include "remote/codec/decode_internal.h"

enum
{
	A_ERROR, A_MODEL, A_USAGE, A_MESSAGE, A_RESPONSE, A_TYPE, A_CHOICES, A_N
};

static const char *const names[] = {"error", "model", "usage", "message", "response", "type", "choices"};

static const char *const last_types[] = {"message_stop", "response.completed", "response.incomplete",
										 "response.failed"};

/* Write v with the model's name instead of the value at `at`, if that is a string. */
static void
renamed(const DecodedReply *r, StrView v, StrView at, Buf *out)
{
	const RequestFields *a = r->requests[0];
	JsonOut		j = {.b = out};

	if (json_kind(at) != '"')
	{
		buf_add(out, v.s, v.n);
		return;
	}
	buf_add(out, v.s, (size_t) (at.s - v.s));
	if (a->lora.n > 0)
		json_str(&j, a->lora.s, a->lora.n);
	else
		json_str(&j, r->o->name, strlen(r->o->name));
	buf_add(out, at.s + at.n, (size_t) (v.s + v.n - at.s - at.n));
}

/*
 * Is this the event that carries only the stream's usage, and has the caller not asked for it?  The
 * usage is always requested, because tokens are counted here, so it is hidden from a caller that did not
 * ask for it.
 */
static bool
is_hidden(const DecodedReply *r, const StrView *f)
{
	static const char *const options[] = {"stream_options"};
	static const char *const usage[] = {"include_usage"};
	StrView		body = {r->requests[0]->api_body.s, r->requests[0]->api_body.n};
	StrView		o;
	StrView		u;
	JsonMembers m;
	StrView		choice;

	if (f[A_USAGE].s == NULL || json_kind(f[A_CHOICES]) != '[' ||
		!json_elements(&m, f[A_CHOICES].s, f[A_CHOICES].n) || json_element(&m, &choice) > 0)
		return false;
	return !(json_fields(body, options, 1, &o) && json_fields(o, usage, 1, &u) && json_kind(u) == 't');
}

/*
 * Read the usage and the end of a body or event, and write it with our model's name; write nothing if it
 * is hidden.
 */
static bool
take(DecodedReply *r, RPart *p, StrView v, Buf *out, Err *e)
{
	static const char *const inner[] = {"model", "usage"};
	StrView		f[A_N];
	StrView		in[2] = {{NULL, 0}, {NULL, 0}};

	if (!json_fields(v, names, A_N, f))
		return reply_bad(r, e, "is no object");
	if (json_is(f[A_TYPE], "error"))
		return reply_refused(r, f[A_ERROR].s != NULL ? f[A_ERROR] : v, e);
	if (f[A_ERROR].s != NULL)
		return reply_refused(r, f[A_ERROR], e);
	/* of Anthropic's message_start, or of an event of OpenAI's responses */
	(void) json_fields(json_kind(f[A_MESSAGE]) == '{' ? f[A_MESSAGE] : f[A_RESPONSE], inner, 2, in);
	if (!reply_read_usage(in[1], &p->usage, e) || !reply_read_usage(f[A_USAGE], &p->usage, e))
		return false;
	for (size_t i = 0; i < sizeof(last_types) / sizeof(last_types[0]); i++)
		p->api_ended = p->api_ended || json_is(f[A_TYPE], last_types[i]);
	if (!p->call->stream || !is_hidden(r, f))
		renamed(r, v, f[A_MODEL].s != NULL ? f[A_MODEL] : in[0], out);
	return true;
}

static bool
api_event(DecodedReply *r, RPart *p, StrView v, Err *e)
{
	Buf			json = {0};
	Buf			b = {0};
	WireOut		o = reply_out(&b);
	bool		ok = take(r, p, v, &json, e);

	if (ok && json.len > 0)
	{
		wire_put_str(&o, WTAG_TEXT, json.data, json.len);
		reply_text_frame(r, p, p->request, &b);
	}
	buf_free(&json);
	buf_free(&b);
	return ok;
}

static bool
api_stream_end(DecodedReply *r, RPart *p, Err *e)
{
	return p->done || p->api_ended || reply_bad(r, e, "is cut off: its stream has no end");
}

static bool
api_whole(DecodedReply *r, RPart *p, StrView v, Err *e)
{
	buf_reset(&p->floats);
	return take(r, p, v, &p->floats, e);
}

static bool
api_finish(DecodedReply *r, Err *e)
{
	RPart	   *p = &r->part[0];
	Buf			b = {0};
	WireOut		o = reply_out(&b);

	(void) e;
	reply_put_usage(&o, &p->usage);
	if (!p->call->stream)
		wire_put_str(&o, WTAG_TEXT, p->floats.data, p->floats.len);
	wire_put_int(&o, WTAG_API_STATUS, 200);
	reply_done(r, p->request, &b);
	buf_free(&b);
	return true;
}

const ReplyShape reply_api = {api_event, api_stream_end, api_whole, api_finish, NULL};
