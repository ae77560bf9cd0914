/*
 * decode_tokens.c
 *	  Tokenizing and detokenizing (decode.h).
 *
 *	vLLM				{"count": 3, "max_model_len": 4096, "tokens": [1, 2, 3]}		{"prompt": "..."}
 *	llama.cpp			{"tokens": [1, 2, 3]}, or [{"id": 1, "piece": ...}, ...]		{"content": "..."}
 *	llama-cpp-python	{"tokens": [1, 2, 3]}, {"count": 3}								{"text": "..."}
 *
 * Tested by tests/unit/remote/codec/test_remote_reply_more.c.
 */
#include <limits.h>

#include "base/alloc.h"
#include "remote/codec/decode_internal.h"

/* Read ids, or objects that have an id. */
static bool
read_tokens(const DecodedReply *r, StrView v, IntVec *ids, Err *e)
{
	static const char *const names[] = {"id"};
	JsonMembers m;
	StrView		token;
	int64_t		id;

	if (json_kind(v) != '[' || !json_elements(&m, v.s, v.n))
		return reply_bad(r, e, "has tokens that are no list");
	while (json_element(&m, &token) > 0)
	{
		if (json_kind(token) == '{')
			json_fields(token, names, 1, &token);
		if (!json_whole(token, 0, INT32_MAX, &id))
			return reply_bad(r, e, "has a token that is no id");
		intvec_push(ids, (int32_t) id);
	}
	return true;
}

static bool
tokenize_whole(DecodedReply *r, RPart *p, StrView v, Err *e)
{
	static const char *const names[] = {"error", "tokens", "count", "max_model_len"};
	const RequestFields *a = r->requests[p->request];
	bool		want = reply_request_int(a, WTAG_WANT_IDS, 1) != 0;
	StrView		f[4];
	IntVec		ids = {0};
	int64_t		count = -1;
	int64_t		most = r->o->max_model_len;
	Buf			b = {0};
	WireOut		o = reply_out(&b);
	bool		ok;

	if (!json_fields(v, names, 4, f))
		return reply_bad(r, e, "is no object");
	if (f[0].s != NULL)
		return reply_refused(r, f[0], e);
	ok = (f[1].s == NULL || read_tokens(r, f[1], &ids, e)) &&
		(f[2].s == NULL || json_whole(f[2], 0, INT32_MAX, &count) ||
		 reply_bad(r, e, "has a count that is none"));
	if (ok && f[1].s == NULL && (want || count < 0))
		ok = reply_bad(r, e, "has no tokens");
	if (ok && f[1].s != NULL && count >= 0 && (size_t) count != ids.len)
		ok = reply_bad(r, e, "has %zu tokens and counts %lld", ids.len, (long long) count);
	if (ok)
	{
		(void) json_whole(f[3], 1, INT32_MAX, &most);
		if (want)
			wire_put_ints(&o, WTAG_TOKEN_IDS, ids.data, ids.len);
		wire_put_int(&o, WTAG_COUNT, f[1].s != NULL ? (int64_t) ids.len : count);
		if (most > 0)
			wire_put_int(&o, WTAG_MAX_MODEL_LEN, most);
		reply_done(r, p->request, &b);
	}
	intvec_free(&ids);
	buf_free(&b);
	return ok;
}

static bool
detokenize_whole(DecodedReply *r, RPart *p, StrView v, Err *e)
{
	static const char *const names[] = {"error", "prompt", "content", "text"};
	StrView		f[4];
	Buf			text = {0};
	Buf			b = {0};
	WireOut		o = reply_out(&b);
	bool		ok;

	if (!json_fields(v, names, 4, f))
		return reply_bad(r, e, "is no object");
	if (f[0].s != NULL)
		return reply_refused(r, f[0], e);
	ok = json_text(f[1].s != NULL ? f[1] : f[2].s != NULL ? f[2] : f[3], &text) ||
		reply_bad(r, e, "has no text that SQL can have");
	if (ok)
	{
		wire_put_str(&o, WTAG_TEXT, text.data != NULL ? text.data : "", text.len);
		reply_done(r, p->request, &b);
	}
	buf_free(&text);
	buf_free(&b);
	return ok;
}

const ReplyShape reply_tokenize = {.whole = tokenize_whole};
const ReplyShape reply_detokenize = {.whole = detokenize_whole};
