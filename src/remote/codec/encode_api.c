/*
 * encode_api.c
 *	  Bodies of llm_api(): passed on unchanged, except for the model's name and the stream flag.
 *
 * The body's members are copied as they are written.  "model" becomes the endpoint's name; "stream"
 * becomes what the caller asked for.  If the role has a limit of output tokens, it applies to the body's
 * limit, and is sent if the body has none.  A key that is written with escapes could be one of these in
 * disguise, and is refused.
 *
 * Tested by tests/unit/remote/codec/test_remote_body.c and test_remote_body_more.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/json_scan.h"
#include "base/json/json_reader.h"
#include "remote/codec/encode_internal.h"

static bool
is(const char *s, size_t n, const char *word)
{
	return n == strlen(word) && memcmp(s, word, n) == 0;
}

/* Return the endpoint's path for a path of llm_api().  NULL: *e. */
static const char *
place(const RequestFields *a, const ROptions *o, bool *off_v1, Err *e)
{
	const Dialect *d = o->dialect;
	const struct
	{
		const char *path;
		const char *at;
		bool		off_v1;
	}			places[] = {
		{"/v1/completions", o->completions_path, false}, {"/v1/chat/completions", o->chat_path, false},
		{"/v1/embeddings", o->embeddings_path, false},
		{"/v1/responses", d->caps & CAP_RESPONSES ? "/responses" : NULL, false},
		{"/v1/messages", d->caps & CAP_VLLM ? "/messages" : NULL, false},
		{"/v1/score", o->score_path, false}, {"/score", o->score_path, false},
		{"/v1/rerank", o->rerank_path, false}, {"/rerank", o->rerank_path, false},
		{"/v2/rerank", o->rerank_path, false}, {"/classify", d->classify, true},
		{"/v1/classify", d->classify, true}, {"/pooling", d->pooling, true},
		{"/v1/pooling", d->pooling, true}, {"/tokenize", o->tokenize_path, true},
		{"/v1/tokenize", o->tokenize_path, true},
		{"/detokenize", o->detokenize_path, true}, {"/v1/detokenize", o->detokenize_path, true}
	};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (is(a->api_path.s, a->api_path.n, places[i].path) && places[i].at != NULL)
		{
			*off_v1 = places[i].off_v1;
			return places[i].at;
		}
	body_refuse(o, e, "%.*s is not supported by the endpoint of model \"%s\"",
				a->api_path.n < 100 ? (int) a->api_path.n : 100, a->api_path.s, o->name);
	return NULL;
}

/* Can responses of the path be streamed? */
static bool
streams(const char *path)
{
	return strstr(path, "embed") == NULL && strstr(path, "score") == NULL && strstr(path, "rerank") == NULL &&
		strstr(path, "classify") == NULL && strstr(path, "pooling") == NULL &&
		strstr(path, "tokenize") == NULL;
}

/* Check a member that limits the output against the role's limit.  *told: the body has such a member. */
static bool
check_length(Maker *m, int most, StrView key, StrView value, bool *reported)
{
	char		text[40];
	double		got;

	if (!is(key.s, key.n, "max_tokens") && !is(key.s, key.n, "max_completion_tokens") &&
		!is(key.s, key.n, "max_output_tokens"))
		return true;
	snprintf(text, sizeof(text), "%.*s", (int) (value.n < sizeof(text) ? value.n : sizeof(text) - 1),
			 value.s);
	got = strtod(text, NULL);
	/* the endpoint refuses what is not a number, but accepts null */
	*reported = *reported || !is(value.s, value.n, "null");
	return !(got > most) || body_role_refuse(most, got, m->e);
}

/* Copy the members except those that are made here.  *options: the stream's options. */
static bool
copy_members(Maker *m, StrView *options, bool *reported)
{
	const RequestFields *a = m->a;
	int			most = body_role_tokens(a);
	JsonMembers list;
	StrView		key,
				value;
	int			got = -1;

	if (json_ok(a->api_body.s, a->api_body.n, BODY_DEPTH) &&
		json_members(&list, a->api_body.s, a->api_body.n))
		while ((got = json_member(&list, &key, &value)) > 0)
		{
			if (memchr(key.s, '\\', key.n) != NULL)
			{
				err_set(m->e, ERR_INVALID, "the names of a body's members must not be written with escapes");
				return err_detail(m->e, "member=%.*s", key.n < 100 ? (int) key.n : 100, key.s);
			}
			if (is(key.s, key.n, "model") || is(key.s, key.n, "stream"))
				continue;
			if (is(key.s, key.n, "stream_options"))
			{
				*options = value;
				continue;
			}
			if (most > 0 && !check_length(m, most, key, value, reported))
				return false;
			json_str(&m->j, key.s, key.n);
			json_colon(&m->j);
			json_raw(&m->j, value.s, value.n);
		}
	return got == 0 || err_set(m->e, ERR_INVALID, "the body must be a JSON object");
}

/*
 * Ask a stream of a chat or a completion for its usage, which is counted, unless the body has stream
 * options.
 */
static void
put_stream(Maker *m, const char *path, StrView options)
{
	m->call->stream = true;
	json_key(&m->j, "stream");
	json_bool(&m->j, true);
	if (options.s == NULL || is(options.s, options.n, "null"))
	{
		if (!(m->caps & CAP_STREAM_USAGE) || (path != m->o->chat_path && path != m->o->completions_path))
			return;
		options = (StrView) {"{\"include_usage\":true}", 22};
	}
	json_key(&m->j, "stream_options");
	json_raw(&m->j, options.s, options.n);
}

bool
body_api(const RequestFields *a, const ROptions *o, RCalls *calls, Err *e)
{
	StrView		options = {0};
	bool		off_v1 = false;
	bool		reported = false;
	const char *path = place(a, o, &off_v1, e);
	Maker		m;

	if (path == NULL || body_begin(&m, a, o, calls, RSHAPE_API, path, e) == NULL)
		return false;
	m.call->off_v1 = off_v1;
	if (!copy_members(&m, &options, &reported))
		return false;
	/* only chats and responses: without a limit a completion gets 16 tokens, and a message must have one */
	if (body_role_tokens(a) > 0 && !reported && path == o->chat_path)
		json_key_int(&m.j, m.caps & CAP_MAX_COMPLETION ? "max_completion_tokens" : "max_tokens",
					 body_role_tokens(a));
	if (body_role_tokens(a) > 0 && !reported && strcmp(path, "/responses") == 0)
		json_key_int(&m.j, "max_output_tokens", body_role_tokens(a));
	if (a->stream && streams(path))
		put_stream(&m, path, options);
	body_end(&m);
	return true;
}
