/*
 * body_choose.c
 *	  Log-probabilities of texts behind a prompt, by /completions with echo: a call for each.
 *
 * The endpoint tells the tokens of prompt and continuation with their places in the text, by which reply.c finds where the continuation begins.
 * White space at the prompt's end counts as the continuation's, as in an engine here (engine/choices.c).  Without
 * continuations the prompt's own tokens are asked for, in one call.
 *
 * Tested by tests/unit/test_remote_body.c and test_remote_body_more.c.
 */
#include <string.h>

#include "remote/body_int.h"

#define MAX_BODIES	((size_t) 64 << 20)	/* bytes of the prompt, over all calls */

static bool
make_call(const WireAsk *a, int part, const ROptions *o, RCalls *calls, Err *e)
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
	/* of the likeliest one: is it the text's own? */
	json_key_int(&m.j, "logprobs", 1);
	json_key(&m.j, "echo");
	json_bool(&m.j, true);
	json_key_int(&m.j, "max_tokens", m.caps & CAP_ECHO_ONLY ? 0 : 1);
	json_key_int(&m.j, "temperature", 0);
	if (!body_fields(&m))
		return false;
	body_end(&m);
	return true;
}

bool
body_choose(const WireAsk *a, const ROptions *o, RCalls *calls, Err *e)
{
	if (!(o->dialect->caps & CAP_ECHO))
		return body_refuse(o, e, "log-probabilities of given texts are not supported by the endpoint of model \"%s\"", o->name);
	if (a->prompt.s == NULL)
	{
		err_set(e, ERR_UNSUPPORTED, "log-probabilities behind %s are not supported by the endpoint of model \"%s\"",
				a->messages.s != NULL ? "a chat" : "token ids", o->name);
		if (a->messages.s == NULL)
			return false;
		err_detail(e, "parameter=chat");
		return err_hint(e, "With chat => false the prompt is taken as it is.");
	}
	if (a->prompt.n > MAX_BODIES / (size_t) (a->n_choices > 0 ? a->n_choices : 1))
	{
		err_set(e, ERR_TOO_LONG, "a prompt of %zu bytes is too long for %d choices", a->prompt.n, a->n_choices);
		return err_detail(e, "It is sent once for each, and the limit is %zu bytes in all.", MAX_BODIES);
	}
	for (int i = 0; i < (a->n_choices > 0 ? a->n_choices : 1); i++)
		if (!make_call(a, i, o, calls, e))
			return false;
	return true;
}
