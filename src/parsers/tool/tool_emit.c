/*
 * tool_emit.c
 *	  Emit calls: a call begins with the first certain text of its arguments, and ends when it is
 *	  complete (tool_internal.h).
 *
 * Tested by tests/unit/parsers/test_parse.c and test_parse_calls.c.
 */
#include "base/checksum.h"
#include "parsers/tool/tool_internal.h"

bool
callout_named(CallOut *c, Span name)
{
	size_t		n = (size_t) (name.end - name.p);

	if (n == 0 || n > MAX_NAME || memchr(name.p, '\0', n) != NULL)
		return false;
	buf_reset(&c->name);
	buf_add(&c->name, name.p, n);
	return true;
}

static void
emit(CallOut *c, ParseKind kind, size_t n)
{
	c->sink(c->ctx, &(ParseEvent) {.kind = kind,.index = c->index,.id = c->id.data,.name = c->name.data,
								   .s = c->args.data,.n = n});
}

void
callout_send(CallOut *c, uint64_t sum, size_t hold)
{
	if (c->args.len <= hold)
		return;
	if (!c->begun)
	{
		if (c->id.len == 0)
			tool_format_id(c->ids, digest(c->name.data, c->name.len, sum), c->name.data, c->index, &c->id);
		emit(c, PARSE_CALL, 0);
	}
	c->begun = true;
	emit(c, PARSE_ARGUMENTS, c->args.len - hold);
	buf_consume(&c->args, c->args.len - hold);
}

static void
reset(CallOut *c)
{
	c->begun = false;
	buf_reset(&c->name);
	buf_reset(&c->id);
	buf_reset(&c->args);
}

void
callout_end(CallOut *c, uint64_t sum)
{
	callout_send(c, sum, 0);
	emit(c, PARSE_CALL_END, 0);
	c->n++;
	c->index++;
	reset(c);
}

void
callout_drop(CallOut *c)
{
	if (c->begun)
	{
		emit(c, PARSE_CALL_NONE, 0);
		c->index++;				/* clients that saw this call must not take the next one for it */
	}
	reset(c);
}

void
callout_free(CallOut *c)
{
	buf_free(&c->name);
	buf_free(&c->id);
	buf_free(&c->args);
}
