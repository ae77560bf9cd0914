/*
 * content_parts.c
 *	  Messages of a chat, from contents that are arrays of parts (content_parts.h).
 *
 * Each interface decides which parts are allowed, and the errors for others; the format for templates is
 * the same.
 *
 * Tested by tests/unit/server/api/test_api.c.
 */
#include "server/api/content_parts.h"

#include <string.h>

bool
content_join(const Json *content, const char *(*text_of) (const Json *part), const char *sep, Buf *out,
			 const Json **bad)
{
	*bad = NULL;
	if (json_is_string(content))
	{
		buf_addstr(out, content->s);
		return true;
	}
	if (!json_is_array(content))
		return false;
	for (const Json *v = content->child; v != NULL; v = v->next)
	{
		const char *text = text_of(v);

		if (text == NULL)
		{
			*bad = v;
			return false;
		}
		if (out->len > 0)
			buf_addstr(out, sep);
		buf_addstr(out, text);
	}
	return true;
}

static void
write_buf(JsonOut *j, const char *key, const Buf *text)
{
	json_key(j, key);
	json_str(j, text->data != NULL ? text->data : "", text->len);
}

void
content_write_message(JsonOut *j, const char *role, const char *s, size_t n)
{
	json_open(j, '{');
	json_key_cstr(j, "role", role);
	json_key(j, "content");
	json_str(j, s != NULL ? s : "", n);
	json_close(j, '}');
}

void
content_write_tool_result(JsonOut *j, const char *call_id, const Buf *text)
{
	json_open(j, '{');
	json_key_cstr(j, "role", "tool");
	json_key_cstr(j, "tool_call_id", call_id);
	write_buf(j, "content", text);
	json_close(j, '}');
}

void
content_add_call(AssistantParts *p, const char *id, const char *name, const char *arguments, size_t n)
{
	JsonOut		j = {.b = &p->calls,.comma = p->calls.len > 0};

	json_open(&j, '{');
	json_key_cstr(&j, "id", id);
	json_key_cstr(&j, "type", "function");
	json_key(&j, "function");
	json_open(&j, '{');
	json_key_cstr(&j, "name", name);
	json_key(&j, "arguments");
	json_str(&j, arguments, n);
	json_close(&j, '}');
	json_close(&j, '}');
}

void
content_write_assistant(JsonOut *j, const AssistantParts *p)
{
	json_open(j, '{');
	json_key_cstr(j, "role", "assistant");
	if (p->said || p->calls.len == 0)
		write_buf(j, "content", &p->text);
	else
		json_key_null(j, "content");
	if (p->thought.len > 0)
		write_buf(j, "reasoning", &p->thought);
	if (p->calls.len > 0)
	{
		json_key(j, "tool_calls");
		json_open(j, '[');
		json_raw(j, p->calls.data, p->calls.len);
		json_close(j, ']');
	}
	json_close(j, '}');
}

void
content_free(AssistantParts *p)
{
	buf_free(&p->thought);
	buf_free(&p->text);
	buf_free(&p->calls);
	memset(p, 0, sizeof(*p));
}
