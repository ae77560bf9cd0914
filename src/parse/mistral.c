/*
 * mistral.c
 *	  Calls of Mistral's models.  Tokenizers before v11: [TOOL_CALLS] once, and an array of
 *	  {"name", "arguments"}; what follows it is ignored.  From v11 on: [TOOL_CALLS] before
 *	  each call, its name, perhaps [ARGS], and its arguments.  The text tells which it is.
 *
 * A v11 call counts whatever its arguments are: those that are no JSON are handed on as
 * they stand.  Ids are nine letters and digits; the templates check that.
 *
 * Tested by tests/parse/mistral.json.
 */
#include "parse/tool_int.h"

#define CALLS	"[TOOL_CALLS]"

/* NAME{...} or NAME[ARGS]{...}, up to the next mark */
static bool
named_call(Span s, ToolOut *out)
{
	const char *brace = span_find(&s, "{");
	Span		name = {s.p, brace};
	Span		args = {brace, s.end};
	ToolCall   *c;

	if (brace == NULL)
		return false;
	name = span_trim(name);
	if (name.end - name.p > 6 && memcmp(name.end - 6, "[ARGS]", 6) == 0)
		name.end -= 6;
	c = tool_named(out, span_trim(name));
	args = span_trim(args);
	if (c != NULL && !jtext_whole(args, &c->args))
		buf_add(&c->args, args.p, (size_t) (args.end - args.p));
	return c != NULL;
}

static bool
parse(Span s, const char *at, ToolOut *out)
{
	Span		rest = {at, s.end};
	Span		body;
	bool		more;

	span_take(&rest, CALLS);
	body = span_trim(rest);
	if (body.p < body.end && (*body.p == '[' || *body.p == '{'))
	{
		if (span_find(&rest, CALLS) != NULL)
			return false;
		return *body.p == '[' ? tool_json_array(&body, TJ_ARGUMENTS, out) : tool_json_object(&body, TJ_ARGUMENTS, out);
	}
	do
	{
		more = span_until(&rest, CALLS, &body);
		if (!named_call(more ? body : rest, out))
			return false;
	} while (more);
	return true;
}

const ToolFormat tool_mistral = {.marks = {CALLS},.special = true,.short_ids = true,.parse = parse};
