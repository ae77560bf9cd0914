/*
 * encode_loglikelihood.c
 *	  Log-probabilities of texts that follow a prompt, by /completions with echo: one call for each text.
 *
 * The endpoint lists the tokens of prompt and continuation with their places in the text, from which
 * decode_loglikelihood.c finds where the continuation begins.  White space at the prompt's end belongs
 * to the continuation, as in the engine (backend/pooling/loglikelihood_inputs.c).  Without
 * continuations, one call asks for the prompt's own tokens.
 *
 * In a chat the continuation is an assistant's message to be continued, and vLLM reports the
 * log-probabilities of that prompt.  If the request has both a prompt and a chat, the prompt is used,
 * since an endpoint doesn't report whether its model has a template.
 *
 * Tested by tests/unit/remote/codec/test_remote_body.c and test_remote_body_more.c.
 */
#include <string.h>

#include "remote/codec/encode_internal.h"

#define MAX_BODIES	((size_t) 64 << 20)	/* bytes of the prompt in all calls together */

/*
 * End the body: temperature 0, so that a generated token is the most likely one, and the request's other
 * parameters.
 */
static bool
end_call(Maker *m)
{
	json_key_int(&m->j, "temperature", 0);
	if (!body_fields(m))
		return false;
	body_end(m);
	return true;
}

static bool
make_call(const RequestFields *a, int part, const ROptions *o, RCalls *calls, Err *e)
{
	Maker		m;
	Buf			text = {0};
	bool		ok;

	if (body_begin(&m, a, o, calls, RSHAPE_LOGPROBS, o->completions_path, e) == NULL)
		return false;
	m.call->part = part;
	json_key(&m.j, "prompt");
	buf_add(&text, a->prompt.s, a->prompt.n);
	if (a->n_choices > 0)
		buf_add(&text, a->choices[part].s, a->choices[part].n);
	ok = body_text(&m, "prompt", text.len > 0 ? text.data : "", text.len);
	buf_free(&text);
	if (!ok)
		return false;
	/* of the most likely token, to see whether the text's own token is it */
	json_key_int(&m.j, "logprobs", 1);
	json_key(&m.j, "echo");
	json_bool(&m.j, true);
	json_key_int(&m.j, "max_tokens", m.caps & CAP_ECHO_ONLY ? 0 : 1);
	return end_call(&m);
}

/* Write the messages with the choice as an assistant's unfinished message. */
static bool
put_chat(Maker *m, StrView messages, StrView choice)
{
	size_t		n;
	bool		ok;

	json_key(&m->j, "messages");
	if (!body_json(m, "messages", messages.s, messages.n, '['))
		return false;
	/* the messages are an array: continue it before its closing bracket */
	while (m->call->body.data[--m->call->body.len] != ']')
		;
	n = m->call->body.len;
	while (strchr(" \t\r\n", m->call->body.data[n - 1]) != NULL)
		n--;
	m->j.comma = m->call->body.data[n - 1] != '[';
	json_open(&m->j, '{');
	json_key_cstr(&m->j, "role", "assistant");
	json_key(&m->j, "content");
	ok = body_text(m, "choice", choice.s, choice.n);
	json_close(&m->j, '}');
	json_close(&m->j, ']');
	return ok;
}

static bool
make_chat_call(const RequestFields *a, int part, const ROptions *o, RCalls *calls, Err *e)
{
	Maker		m;

	if (body_begin(&m, a, o, calls, RSHAPE_LOGPROBS, o->chat_path, e) == NULL)
		return false;
	m.call->part = part;
	if (!put_chat(&m, a->messages, a->choices[part]))
		return false;
	json_key(&m.j, "add_generation_prompt");
	json_bool(&m.j, false);
	json_key(&m.j, "continue_final_message");
	json_bool(&m.j, true);
	json_key_int(&m.j, "prompt_logprobs", 1);
	json_key_int(&m.j, "max_tokens", 1);
	return end_call(&m);
}

bool
body_choose(const RequestFields *a, const ROptions *o, RCalls *calls, Err *e)
{
	bool		chat = a->prompt.s == NULL && a->messages.s != NULL && a->n_choices > 0;
	size_t		size = chat ? a->messages.n : a->prompt.n;

	if (!(o->dialect->caps & CAP_ECHO))
		return body_refuse(o, e, "log-probabilities of given texts are not supported by the endpoint of "
								 "model \"%s\"", o->name);
	if (a->prompt.s == NULL && !(chat && (o->dialect->caps & CAP_VLLM)))
	{
		err_set(e, ERR_UNSUPPORTED, "log-probabilities after %s are not supported by the endpoint of model "
									"\"%s\"",
				a->messages.s != NULL ? "a chat" : "token ids", o->name);
		if (a->messages.s == NULL)
			return false;
		err_detail(e, "parameter=chat");
		return err_hint(e, "With chat => false the prompt is taken as it is.");
	}
	if (size > MAX_BODIES / (size_t) (a->n_choices > 0 ? a->n_choices : 1))
	{
		err_set(e, ERR_TOO_LONG, "a prompt of %zu bytes is too long for %d choices", size, a->n_choices);
		return err_detail(e, "It is sent once for each, and the limit is %zu bytes in all.", MAX_BODIES);
	}
	for (int i = 0; i < (a->n_choices > 0 ? a->n_choices : 1); i++)
		if (!(chat ? make_chat_call(a, i, o, calls, e) : make_call(a, i, o, calls, e)))
			return false;
	return true;
}
