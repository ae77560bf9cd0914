/*
 * content_parts.h
 *	  Messages in the format of chat templates, written from contents that other interfaces have as
 *	  arrays of parts: Anthropic's blocks (messages.c), items of /v1/responses (responses.c).
 */
#ifndef VLLM_SERVER_API_CONTENT_PARTS_H
#define VLLM_SERVER_API_CONTENT_PARTS_H

#include "base/json/json.h"
#include "base/json/json_writer.h"

/*
 * Append a content: a string, or an array of parts with sep between their texts.  text_of() returns a
 * part's text, or NULL if it has none.  Returns false with *bad = the part that has no text, or with
 * *bad NULL if the content is neither a string nor an array.
 */
bool		content_join(const Json *content, const char *(*text_of) (const Json *part), const char *sep,
						 Buf *out, const Json **bad);
/* Write {"role": ..., "content": ...}. */
void		content_write_message(JsonOut *j, const char *role, const char *s, size_t n);
/* Write the result of a tool for the call with this id. */
void		content_write_tool_result(JsonOut *j, const char *call_id, const Buf *text);

/* The reasoning, text and tool calls of one assistant's message. */
typedef struct AssistantParts
{
	Buf			thought;
	Buf			text;
	Buf			calls;			/* JSON elements, separated by commas */
	bool		said;			/* text is given, and may be empty */
} AssistantParts;

void		content_add_call(AssistantParts *p, const char *id, const char *name, const char *arguments,
							 size_t n);
/* Write them as one message in the format that templates expect. */
void		content_write_assistant(JsonOut *j, const AssistantParts *p);
/* Free the contents of p and empty it. */
void		content_free(AssistantParts *p);

#endif
