/*
 * gigachat3.c
 *	  Calls of GigaChat 3: `function call<|role_sep|>` and a newline, or <|function_call|>,
 *	  then one {"name", "arguments"}, whose arguments are an object.  Content ends at
 *	  <|message_sep|>; </s> at the end is not part of anything.
 *
 * Tested by tests/parse/gigachat3.json.
 */
#include "parse/tool_int.h"

#define CALL	"function call<|role_sep|>"
#define TOKEN	"<|function_call|>"
#define SEP		"<|message_sep|>"
#define END		"</s>"

static bool
parse(Span s, const char *at, ToolOut *out)
{
	Span		rest = span_trim((Span) {at, s.end});
	const char *call;
	Span		body;

	if (rest.end - rest.p >= 4 && memcmp(rest.end - 4, END, 4) == 0)
		rest.end -= 4;
	call = span_find(&rest, TOKEN);
	body = (Span) {call != NULL ? call + strlen(TOKEN) : rest.p, rest.end};
	if (call == NULL)
	{
		call = span_find(&rest, CALL);
		body.p = call != NULL ? call + strlen(CALL) : rest.end;
	}
	if (call == NULL)
	{
		/* no call: an answer without its last marks */
		rest = span_trim(rest);
		if (rest.p == rest.end)
			return out->bare = true;
		if (span_take(&rest, SEP))
		{
			span_space(&rest);
			return out->bare = rest.p == rest.end;
		}
		return false;
	}
	if (!tool_json_object(&body, TJ_ARGUMENTS | TJ_OBJECT | TJ_LAX, out))
		return false;
	span_space(&body);
	return body.p == body.end;
}

const ToolFormat tool_gigachat3 = {.marks = {CALL, TOKEN, SEP, END},.special = true,.parse = parse};
