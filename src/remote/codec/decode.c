/*
 * decode.c
 *	  Decodes an endpoint's responses into reply frames: buffers, limits, and the choice of the decoder
 *	  (decode.h).
 *
 * A call's bytes go into the part's buffer, or through the events of a stream; the shape's row of
 * `shapes` reads them.  A response that is not streamed is read once it is complete, so no frame is
 * emitted of one that is refused.  The final frames are emitted when the last call has ended.
 *
 * One thread.  Tested by tests/unit/remote/codec/test_remote_reply.c, test_remote_reply_more.c and
 * tests/fuzz/fuzz_remote_reply.c.
 */
#include "remote/codec/decode_internal.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/json/json_reader.h"

static const ReplyShape *const shapes[] = {
	[RSHAPE_COMPLETION] = &reply_gen,
	[RSHAPE_CHAT] = &reply_gen,
	[RSHAPE_EMBEDDINGS] = &reply_embeddings,
	[RSHAPE_SCORE] = &reply_scores,
	[RSHAPE_RERANK] = &reply_scores,
	[RSHAPE_CLASSIFY] = &reply_classes,
	[RSHAPE_POOLING] = &reply_pooling,
	[RSHAPE_TOKENIZE] = &reply_tokenize,
	[RSHAPE_DETOKENIZE] = &reply_detokenize,
	[RSHAPE_LOGPROBS] = &reply_choose,
	[RSHAPE_MODELS] = &reply_models,
	[RSHAPE_API] = &reply_api
};

/* ---- for the decoders of shapes ---- */

static void
append(void *ctx, const void *data, size_t n)
{
	buf_add(ctx, data, n);
}

WireOut
reply_out(Buf *b)
{
	return (WireOut) {append, b};
}

int64_t
reply_request_int(const RequestFields *a, WireTag tag, int64_t otherwise)
{
	WireIn		in = {a->fields, a->fields + a->len};
	WireField	f;

	while (a->fields != NULL && wire_next(&in, &f) > 0)
		if (f.tag == (int) tag && f.type == WT_INT)
			otherwise = f.i;
	return otherwise;
}

void
reply_accepted(DecodedReply *r, int request, int64_t prompt_tokens)
{
	Buf			b = {0};
	WireOut		o = reply_out(&b);

	ALWAYS(request >= 0 && request < r->n);
	if (r->accepted[request])
		return;
	r->accepted[request] = true;
	if (prompt_tokens >= 0)
		wire_put_int(&o, WTAG_PROMPT_TOKENS, prompt_tokens);
	r->emit(r->ctx, request, WF_ACCEPTED, &b, false);
	buf_free(&b);
}

void
reply_text_frame(DecodedReply *r, RPart *p, int request, const Buf *fields)
{
	p->emitted = true;
	r->emit(r->ctx, request, WF_TEXT, fields, false);
}

void
reply_done(DecodedReply *r, int request, const Buf *fields)
{
	r->emit(r->ctx, request, WF_DONE, fields, true);
}

bool
reply_bad(const DecodedReply *r, Err *e, const char *fmt,...)
{
	char		what[400];
	va_list		ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	return err_set(e, ERR_PROTOCOL, "the endpoint's answer for model \"%.64s\" %s", r->o->name, what);
}

static bool
usage_field(StrView v, int64_t *out, Err *e)
{
	if (json_kind(v) == 'n' || json_whole(v, 0, INT32_MAX, out))
		return true;
	return err_set(e, ERR_PROTOCOL, "the endpoint's answer has a usage that is no number of tokens");
}

bool
reply_read_usage(StrView v, RUsage *u, Err *e)
{
	/* also those of Anthropic's messages and OpenAI's responses */
	static const char *const names[] = {
		"prompt_tokens", "completion_tokens", "prompt_tokens_details", "completion_tokens_details",
		"prompt_cache_hit_tokens", "input_tokens", "output_tokens", "input_tokens_details",
		"output_tokens_details", "cache_read_input_tokens", "total_tokens"
	};
	static const char *const cached[] = {"cached_tokens"};
	static const char *const reasoning[] = {"reasoning_tokens"};
	StrView		f[11];
	StrView		d[1];
	int64_t		total = -1;

	if (!json_fields(v, names, 11, f))
		return true;
	if (!usage_field(f[0].s != NULL ? f[0] : f[5], &u->prompt, e) ||
		!usage_field(f[1].s != NULL ? f[1] : f[6], &u->completion, e) ||
		!usage_field(f[4].s != NULL ? f[4] : f[9], &u->cached, e) || !usage_field(f[10], &total, e))
		return false;
	if (json_fields(f[2].s != NULL ? f[2] : f[7], cached, 1, d) && !usage_field(d[0], &u->cached, e))
		return false;
	if (json_fields(f[3].s != NULL ? f[3] : f[8], reasoning, 1, d) && !usage_field(d[0], &u->reasoning, e))
		return false;
	/* rerankers and embedders report only a total */
	if (u->prompt < 0 && total >= 0 && u->completion <= 0)
		u->prompt = total;
	return true;
}

void
reply_put_usage(WireOut *o, const RUsage *u)
{
	if (u->prompt >= 0)
		wire_put_int(o, WTAG_PROMPT_TOKENS, u->prompt);
	if (u->completion >= 0)
		wire_put_int(o, WTAG_COMPLETION_TOKENS, u->completion);
	if (u->cached >= 0)
		wire_put_int(o, WTAG_CACHED_TOKENS, u->cached);
	if (u->reasoning >= 0)
		wire_put_int(o, WTAG_REASONING_TOKENS, u->reasoning);
}

static size_t
input_bytes(const RequestFields *a)
{
	return a->prompt.n + a->pair.n + 1;
}

int64_t
reply_share(const DecodedReply *r, const RPart *p, int i, int64_t n)
{
	double		all = 0;
	double		before = 0;
	double		mine = 0;

	ALWAYS(i >= 0 && i < p->call->n_requests && p->request + p->call->n_requests <= r->n);
	if (n < 0)
		return -1;
	for (int k = 0; k < p->call->n_requests; k++)
	{
		size_t		bytes = input_bytes(r->requests[p->request + k]);

		all += (double) bytes;
		if (k < i)
			before += (double) bytes;
		else if (k == i)
			mine = (double) bytes;
	}
	/* the differences of the rounded-down prefix sums add up to n */
	return (int64_t) ((double) n * ((before + mine) / all)) - (int64_t) ((double) n * (before / all));
}

/* ---- parts ---- */

static void
part_free(RPart *p)
{
	const ReplyShape *s = shapes[p->call->shape];

	if (s->forget != NULL)
		s->forget(p);
	buf_free(&p->body);
	sse_free(&p->sse);
	buf_free(&p->floats);
}

static void
part_begin(RPart *p, const RCall *call, int request)
{
	*p = (RPart) {.call = call,.request = request,.usage = {-1, -1, -1, -1}};
	sse_init(&p->sse, REPLY_MAX_EVENT);
}

DecodedReply *
reply_new(const RequestFields *const *requests, int n, const RCalls *calls, const ROptions *o, ReplyEmit emit,
		  void *ctx)
{
	DecodedReply *r = mem_zalloc(sizeof(DecodedReply));
	int			at = 0;

	r->requests = requests;
	r->n = n;
	r->calls = calls;
	r->o = o;
	r->emit = emit;
	r->ctx = ctx;
	r->part = mem_zalloc((size_t) (calls->n > 0 ? calls->n : 1) * sizeof(RPart));
	r->accepted = mem_zalloc((size_t) (n > 0 ? n : 1) * sizeof(bool));
	for (int i = 0; i < calls->n; i++)
	{
		part_begin(&r->part[i], &calls->v[i], at);
		/* all parts of a list of choices belong to one request */
		if (calls->v[i].shape != RSHAPE_LOGPROBS)
			at += calls->v[i].n_requests;
	}
	return r;
}

void
reply_free(DecodedReply *r)
{
	if (r == NULL)
		return;
	for (int i = 0; i < r->calls->n; i++)
		part_free(&r->part[i]);
	mem_free(r->part);
	mem_free(r->accepted);
	mem_free(r);
}

/* ---- bytes ---- */

bool
reply_check(const char *s, size_t n, Err *e)
{
	JsonCheck	c = {.depth = REPLY_DEPTH};

	if (json_check(s, n, &c))
		return true;
	err_set(e, ERR_PROTOCOL, "the endpoint's answer is not JSON");
	if (n == 0)
		return err_detail(e, "It is empty.");
	if (c.at == n)
		return err_detail(e, "It is cut off after %zu bytes.", n);
	return err_detail(e, "It makes no sense from byte %zu of %zu on.", c.at + 1, n);
}

typedef struct EventFor
{
	DecodedReply *r;
	RPart	   *p;
} EventFor;

/* Strip white space at both ends. */
static StrView
trimmed(const char *s, size_t n)
{
	while (n > 0 && strchr(" \t\r\n", *s) != NULL)
		s++, n--;
	while (n > 0 && strchr(" \t\r\n", s[n - 1]) != NULL)
		n--;
	return (StrView) {s, n};
}

static bool
take_event(void *ctx, const char *data, size_t n)
{
	EventFor   *at = ctx;

	return reply_check(data, n, &at->p->e) && shapes[at->p->call->shape]->event(at->r, at->p,
																				trimmed(data, n), &at->p->e);
}

static bool
feed_stream(DecodedReply *r, RPart *p, const char *s, size_t n, Err *e)
{
	EventFor	at = {r, p};

	if (shapes[p->call->shape]->event == NULL)
		return err_set(e, ERR_INTERNAL, "this kind of answer can't be streamed");
	switch (sse_feed(&p->sse, s, n, take_event, &at))
	{
		case SSE_MORE:
			return true;
		case SSE_DONE:
			p->done = true;
			return true;
		case SSE_STOPPED:
			*e = p->e;
			return false;
		case SSE_TOO_LARGE:
			break;
	}
	return reply_bad(r, e, "has an event of more than %zu bytes", REPLY_MAX_EVENT);
}

bool
reply_data(DecodedReply *r, int i, const char *s, size_t n, Err *e)
{
	RPart	   *p = &r->part[i];

	ALWAYS(i >= 0 && i < r->calls->n);
	if (p->ended)
		return reply_bad(r, e, "continues after its end");
	if (p->call->stream)
		return feed_stream(r, p, s, n, e);
	ASSERT(p->body.len <= REPLY_MAX_BODY);
	if (n > REPLY_MAX_BODY - p->body.len)
		return reply_bad(r, e, "has more than %zu bytes", REPLY_MAX_BODY);
	buf_add(&p->body, s, n);
	return true;
}

static bool
end_whole(DecodedReply *r, RPart *p, Err *e)
{
	const char *s = p->body.data != NULL ? p->body.data : "";

	p->json = reply_check(s, p->body.len, e);
	if (!p->json || !shapes[p->call->shape]->whole(r, p, trimmed(s, p->body.len), e))
		return false;
	buf_free(&p->body);
	return true;
}

bool
reply_end(DecodedReply *r, int i, Err *e)
{
	RPart	   *p = &r->part[i];
	const ReplyShape *s = shapes[p->call->shape];

	if (p->ended)
		return true;
	if (!(p->call->stream ? s->stream_end(r, p, e) : end_whole(r, p, e)))
		return false;
	p->ended = true;
	for (int k = 0; k < r->calls->n; k++)
		if (!r->part[k].ended)
			return true;
	return s->finish == NULL || s->finish(r, e);
}

bool
reply_restart(DecodedReply *r, int i)
{
	RPart	   *p = &r->part[i];
	const RCall *call = p->call;
	int			request = p->request;

	if (p->emitted)
		return false;
	part_free(p);
	part_begin(p, call, request);
	return true;
}

bool
reply_is_whole(const DecodedReply *r, int i)
{
	return r->part[i].call->stream && r->part[i].done;
}

bool
reply_is_json(const DecodedReply *r, int i)
{
	return r->part[i].json;
}

bool
reply_unlike(const DecodedReply *r)
{
	return r->unlike;
}

size_t
reply_held(const DecodedReply *r)
{
	size_t		n = sizeof(DecodedReply);

	for (int i = 0; i < r->calls->n; i++)
		n += sizeof(RPart) + r->part[i].held + r->part[i].body.cap + r->part[i].sse.line.cap +
			r->part[i].sse.data.cap + r->part[i].floats.cap;
	return n;
}

void
reply_usage(const DecodedReply *r, int64_t *prompt_tokens, int64_t *completion_tokens)
{
	*prompt_tokens = *completion_tokens = 0;
	for (int i = 0; i < r->calls->n; i++)
	{
		const RUsage *u = &r->part[i].usage;

		*prompt_tokens += u->prompt > 0 ? u->prompt : 0;
		*completion_tokens += u->completion > 0 ? u->completion : 0;
	}
}
