/*
 * encode_generate.c
 *	  Bodies of /completions and /chat/completions, /tokenize and /detokenize.
 *
 * A chat goes to /chat/completions.  So does a request that has both a chat and a plain prompt for
 * models without a template, since an endpoint doesn't report whether it has one.  A plain prompt goes
 * where the option prompt_as says.
 *
 * MAX_TOKENS.  Without it, the engine lets an output take the rest of the context, but an endpoint gives
 * a completion 16 tokens.  If the dialect has a value for "the rest", it is sent.  Otherwise the limit
 * follows from the option max_model_len (or from the length that the endpoint reported:
 * context_length.c), as a token has at least one byte.  A role's limit of output tokens is sent if the
 * request has no smaller one.
 *
 * Tested by tests/unit/remote/codec/test_remote_body.c and test_remote_body_more.c.
 */
#include <limits.h>
#include <string.h>

#include "remote/codec/encode_internal.h"

/* ---- generation ---- */

static bool
put_prompt(Maker *m, bool chat)
{
	const RequestFields *a = m->a;
	bool		ok;

	json_key(&m->j, chat ? "messages" : "prompt");
	if (a->messages.s != NULL)
		return body_json(m, "messages", a->messages.s, a->messages.n, '[');
	if (a->prompt_ids.s != NULL)
	{
		body_ids(m, a->prompt_ids);
		return true;
	}
	if (!chat)
		return body_text(m, "prompt", a->prompt.s, a->prompt.n);
	json_open(&m->j, '[');
	json_open(&m->j, '{');
	json_key_cstr(&m->j, "role", "user");
	json_key(&m->j, "content");
	ok = body_text(m, "prompt", a->prompt.s, a->prompt.n);
	json_close(&m->j, '}');
	json_close(&m->j, ']');
	return ok;
}

/* The request has no max_tokens: write the rest of the context, or the role's limit if that is less. */
static bool
put_rest(Maker *m, bool chat)
{
	int			most = body_role_tokens(m->a);
	int64_t		bytes = (int64_t) (m->a->prompt_ids.s != NULL ? m->a->prompt_ids.n : m->a->prompt.n);
	int64_t		length = m->o->max_model_len > 0 ? m->o->max_model_len : m->o->reported_len;
	int64_t		rest = length - bytes - 8;	/* less some special tokens */

	if (chat || most > 0)
	{
		if (most > 0)
			json_key_int(&m->j, chat && (m->caps & CAP_MAX_COMPLETION) ? "max_completion_tokens" :
						 "max_tokens", chat || rest <= 0 || rest > most ? most : rest);
		return true;
	}
	if (m->caps & (CAP_ENDLESS | CAP_ENDLESS_0))
	{
		json_key_int(&m->j, "max_tokens", m->caps & CAP_ENDLESS ? -1 : 0);
		return true;
	}
	if (rest > 0)
	{
		json_key_int(&m->j, "max_tokens", rest);
		return true;
	}
	err_set(m->e, ERR_INVALID, "max_tokens must be given for a plain prompt to the endpoint of model \"%s\"",
			m->o->name);
	if (m->o->max_model_len > 0)
		err_detail(m->e, "parameter=max_tokens, and the prompt may well be longer than the model's option "
						 "max_model_len says.");
	else if (length > 0)
		err_detail(m->e, "parameter=max_tokens, and the prompt may well be longer than the %lld tokens that "
						 "the endpoint reports.", (long long) length);
	else
		err_detail(m->e, "parameter=max_tokens; the endpoint would assume 16, and does not report its "
						 "maximum.");
	return err_hint(m->e, "Give max_tokens, or set the model's option \"max_model_len\" or {\"prompt_as\": "
						  "\"chat\"}.");
}

static void
put_stream(Maker *m)
{
	m->call->stream = true;
	json_key(&m->j, "stream");
	json_bool(&m->j, true);
	if (!(m->caps & CAP_STREAM_USAGE))
		return;
	json_key(&m->j, "stream_options");
	json_open(&m->j, '{');
	json_key(&m->j, "include_usage");
	json_bool(&m->j, true);
	json_close(&m->j, '}');
}

static bool
is_chat(const RequestFields *a, const ROptions *o)
{
	return a->messages.s != NULL || (o->prompt_as_chat && a->prompt_ids.s == NULL);
}

bool
body_wants_length(const RequestFields *a, const ROptions *o)
{
	return a->kind == WK_GENERATE && a->max_tokens < 0 && o->max_model_len == 0 && o->reported_len == 0 &&
		o->models_path != NULL && !(o->dialect->caps & (CAP_ENDLESS | CAP_ENDLESS_0)) && !is_chat(a, o) &&
		!a->embeds && body_role_tokens(a) == 0;
}

bool
body_generate(const RequestFields *a, const ROptions *o, RCalls *calls, Err *e)
{
	bool		chat = is_chat(a, o);
	Maker		m;

	if (a->embeds)
	{
		body_refuse(o, e, "parameter \"prompt_embeds\" is not supported by the endpoint of model \"%s\"",
					o->name);
		e->hint[0] = '\0';
		return false;
	}
	if (body_begin(&m, a, o, calls, chat ? RSHAPE_CHAT : RSHAPE_COMPLETION,
				   chat ? o->chat_path : o->completions_path, e) == NULL)
		return false;
	if (!put_prompt(&m, chat) || !body_fields(&m))
		return false;
	if (a->max_tokens < 0 && !put_rest(&m, chat))
		return false;
	if (body_role_tokens(a) > 0 && a->max_tokens > body_role_tokens(a))
		return body_role_refuse(body_role_tokens(a), a->max_tokens, e);
	if (a->stream)
		put_stream(&m);
	if (a->max_tokens > 0)
		m.call->tokens = (int64_t) a->max_tokens * a->n;
	body_end(&m);
	return true;
}

/* ---- tokens ---- */

static bool
begin_tokens(Maker *m, const RequestFields *a, const ROptions *o, RCalls *calls, bool back, Err *e)
{
	const char *path = back ? o->detokenize_path : o->tokenize_path;

	if (path == NULL)
		return body_refuse(o, e, "the endpoint of model \"%s\" does not tokenize", o->name);
	if (body_begin(m, a, o, calls, back ? RSHAPE_DETOKENIZE : RSHAPE_TOKENIZE, path, e) == NULL)
		return false;
	m->call->off_v1 = true;
	return true;
}

bool
body_tokenize(const RequestFields *a, const ROptions *o, RCalls *calls, Err *e)
{
	bool		back = a->kind == WK_DETOKENIZE;
	Maker		m;

	if (!begin_tokens(&m, a, o, calls, back, e))
		return false;
	if (back)
	{
		json_key(&m.j, "tokens");
		body_ids(&m, a->prompt_ids);
	}
	else if (a->messages.s != NULL)
	{
		if (!(m.caps & CAP_VLLM))
			return body_refuse(o, e, "the endpoint of model \"%s\" does not tokenize chats", o->name);
		json_key(&m.j, "messages");
		if (!body_json(&m, "messages", a->messages.s, a->messages.n, '['))
			return false;
	}
	else
	{
		if (a->prompt.s == NULL)
			return err_set(e, ERR_INTERNAL, "tokenize request without a text");
		json_key(&m.j, m.caps & CAP_CONTENT ? "content" : m.caps & CAP_INPUT ? "input" : "prompt");
		if (!body_text(&m, "input", a->prompt.s, a->prompt.n))
			return false;
	}
	if (!body_fields(&m))
		return false;
	body_end(&m);
	return true;
}
