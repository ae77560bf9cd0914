/*
 * step3.c
 *	  Calls of Step-3: a section of calls, in each behind `function` and a separator
 *	  <steptml:invoke name="f"><steptml:parameter name="k">v</steptml:parameter></steptml:invoke>.
 *	  The marks' bars are U+FF5C.
 *
 * Tested by tests/parse/step3.json.
 */
#include "parse/tool_int.h"

#define BAR		"\xEF\xBD\x9C"

static const InvokeTags tags = {
	"<steptml:invoke name=", "</steptml:invoke>", "<steptml:parameter name=", "</steptml:parameter>", false
};

static bool
parse(Span s, const char *at, ToolOut *out)
{
	Span		rest = {at, s.end};
	Span		skipped;
	Span		body;

	while (span_until(&rest, "<" BAR "tool_call_begin" BAR ">", &skipped))
		if (!span_until(&rest, "<" BAR "tool_call_end" BAR ">", &body) ||
			!span_until(&body, "<" BAR "tool_sep" BAR ">", &skipped) || !tool_invokes(body, &tags, out))
			return false;
	return true;
}

const ToolFormat tool_step3 = {.marks = {"<" BAR "tool_calls_begin" BAR ">"},.special = true,.parse = parse};
