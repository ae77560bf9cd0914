/*
 * tool_json.c
 *	  Ops that read JSON: a call as an object with its name and arguments, and arguments alone.
 *
 * Arguments are emitted as they are generated, once the name is known.  Their last byte is held back
 * until the end of the call: the emitted text of an incomplete call is no valid JSON, and can't be taken
 * for complete arguments.  So a value that is neither an object, nor an array, nor a string is held back
 * entirely.
 *
 * Tested by the cases of tests/parse/ and tests/unit/parsers/test_parse_calls.c.
 */
#include "base/assert.h"
#include "base/json/json_reader.h"
#include "parsers/tool/tool_internal.h"

enum
{
	OPEN, FIRST, KEY, COLON, VALUE, NEXT, MORE_KEY
};

enum
{
	SKIPPED, NAME, ARGS
};

/* Emit what may be emitted. */
static void
flow(ToolRun *r, unsigned flags)
{
	char		c = r->args_first;

	if (r->out.name.len == 0 || (c != '{' && c != '[' && (c != '"' || (flags & TJ_TEXT))))
		return;
	callout_send(&r->out, tool_run_sum(r), r->has_args ? 1 : 0);
}

static void
begin_value(ToolRun *r, unsigned flags, int depth, bool args)
{
	r->json = (JPush) {.depth = depth,.lax = (flags & TJ_LAX) != 0,.keys = args ? &r->keys : NULL};
	if (args)
		keyset_reset(&r->keys);
}

static JPushIs
read_value(ToolRun *r, Buf *out)
{
	Span		s = tool_run_span(r, r->pos, r->text->len);
	JPushIs		is = jpush(&r->json, &s, r->last, out);

	r->pos = (size_t) (s.p - r->text->data);
	return is;
}

/* Return true if this text, the content of a string, is JSON itself. */
static bool
is_value(ToolRun *r, const Buf *b)
{
	Buf			value = {0};
	Span		s = {b->data, b->data + b->len};
	bool		ok = jpush_whole(s, &value) && tool_keys_unique(&r->inner, s);

	buf_free(&value);
	return ok;
}

/* Replace a string by its content. */
static bool
decode(Buf *b)
{
	/* jpush() has written it: its only escapes are JSON's, and it is in quotes */
	if (b->len < 2 || b->data[0] != '"' ||
		!json_unescape(b->data + 1, b->len - 2, JSON_NUL_OK, b->data, &b->len))
		return false;
	b->data[b->len] = '\0';
	return true;
}

static bool
is_key(const Buf *b, const char *name)
{
	return b->len == strlen(name) && memcmp(b->data, name, b->len) == 0;
}

/* Choose what the member of this key is.  Return false if the call has it already, or it belongs to
 * another format. */
static bool
choose(ToolRun *r, unsigned flags)
{
	Span		tool = {r->out.name.data, r->out.name.data + r->out.name.len};
	unsigned	args = is_key(&r->key, "arguments") ? TJ_ARGUMENTS : is_key(&r->key, "parameters") ?
		TJ_PARAMETERS : 0;
	bool		other;

	r->target = is_key(&r->key, "name") ? NAME : args != 0 ? ARGS : SKIPPED;
	other = r->target == SKIPPED && !is_key(&r->key, "id") && !is_key(&r->key, "type") &&
		!is_key(&r->key, "index");
	r->has_other |= other;
	if (r->target == NAME)
		return !r->has_name;
	/* an argument beside the arguments: a brace is misplaced */
	if (other && tool_has(r->tools, tool, (Span) {r->key.data, r->key.data + r->key.len}))
		return false;
	return r->target == SKIPPED || ((flags & args) && !r->has_args);
}

/* Handle a value that has been read. */
static bool
take_value(ToolRun *r, unsigned flags)
{
	bool		ok = true;

	if (r->target == NAME)
	{
		r->has_name = true;
		ok = r->json.first == '"' && decode(&r->key) &&
			callout_named(&r->out, (Span) {r->key.data, r->key.data + r->key.len});
	}
	else if (r->target == ARGS)
	{
		r->has_args = true;
		if ((flags & TJ_TEXT) && r->args_first == '"')
			ok = decode(&r->out.args) && is_value(r, &r->out.args);
	}
	return ok;
}

static ToolStep
value(ToolRun *r, unsigned flags)
{
	Buf		   *out = r->target == NAME ? &r->key : r->target == ARGS ? &r->out.args : NULL;
	JPushIs		is = read_value(r, out);

	if (r->target == ARGS)
		r->args_first = r->json.first;
	if ((flags & TJ_OBJECT) && r->args_first != '{' && r->args_first != '\0')
		return STEP_BAD;
	if (is == JPUSH_DONE && !take_value(r, flags))
		return STEP_BAD;
	/* what is emitted doesn't depend on whether a bad byte came in the same piece */
	if (r->target != SKIPPED)
		flow(r, flags);
	if (is != JPUSH_DONE)
		return is == JPUSH_BAD ? STEP_BAD : STEP_MORE;
	r->sub = NEXT;
	return STEP_ON;
}

static ToolStep
key(ToolRun *r, unsigned flags)
{
	JPushIs		is = read_value(r, &r->key);

	if (is != JPUSH_DONE)
		return is == JPUSH_BAD ? STEP_BAD : STEP_MORE;
	if (!decode(&r->key) || !choose(r, flags))
		return STEP_BAD;
	r->sub = COLON;
	return STEP_ON;
}

static ToolStep
end_object(ToolRun *r, unsigned flags)
{
	if (!r->has_name || !(r->has_args || (flags & TJ_OPTIONAL)))
		return STEP_BAD;
	/* the other members may be arguments under another key */
	if (!r->has_args && r->has_other)
		return STEP_BAD;
	if (!r->has_args)
		buf_addstr(&r->out.args, "{}");
	ASSERT(r->out.args.len > 0);	/* their last byte has been held back until now */
	return tool_run_next(r);
}

/* Return the next byte after white space; '\0': there is none yet. */
static char
here(ToolRun *r)
{
	(void) tool_run_here(r, "");
	ALWAYS(r->pos <= r->text->len);
	return r->pos < r->text->len ? r->text->data[r->pos] : '\0';
}

ToolStep
tool_op_object(ToolRun *r, unsigned flags)
{
	char		c;

	if (r->sub == KEY)
		return key(r, flags);
	if (r->sub == VALUE)
		return value(r, flags);
	c = here(r);
	if (r->pos == r->text->len)
		return r->last ? STEP_BAD : STEP_MORE;
	if (c == '}' && (r->sub == FIRST || r->sub == NEXT))
	{
		r->pos++;
		return end_object(r, flags);
	}
	if (r->sub == FIRST || r->sub == MORE_KEY)
	{
		if (c != '"')
			return STEP_BAD;
		buf_reset(&r->key);
		begin_value(r, flags, 1, false);
		r->sub = KEY;
		return STEP_ON;
	}
	if (c != (r->sub == OPEN ? '{' : r->sub == COLON ? ':' : ','))
		return STEP_BAD;
	if (r->sub == OPEN)
	{
		if (!r->in_unit)
			r->unit = r->pos;
		r->in_unit = true;
		r->has_name = r->has_args = r->has_other = false;
		r->args_first = '\0';
	}
	else if (r->sub == COLON)
	{
		buf_reset(&r->key);
		begin_value(r, flags, 1, r->target == ARGS);
	}
	r->pos++;
	r->sub = r->sub == OPEN ? FIRST : r->sub == COLON ? VALUE : MORE_KEY;
	return STEP_ON;
}

ToolStep
tool_op_args(ToolRun *r)
{
	JPushIs		is;

	if (r->sub == 0)
	{
		begin_value(r, 0, 0, true);
		r->has_args = false;
		r->sub = 1;
	}
	is = read_value(r, &r->out.args);
	r->args_first = r->json.first;
	r->has_args = is == JPUSH_DONE;
	flow(r, 0);
	return is == JPUSH_BAD ? STEP_BAD : is == JPUSH_MORE ? STEP_MORE : tool_run_next(r);
}
