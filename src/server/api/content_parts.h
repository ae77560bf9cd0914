/*
 * content_parts.h
 *	  The messages that chat templates know, written from contents that other interfaces have as arrays of
 *	  parts: Anthropic's blocks (messages.c), Responses' items (responses.c).
 */
#ifndef VLLM_SERVER_API_CONTENT_PARTS_H
#define VLLM_SERVER_API_CONTENT_PARTS_H

#include "base/json/json.h"
#include "base/json/json_writer.h"

/*
 * Append a content that is a string, or an array of parts with sep between their texts.  text_of() has a
 * part's text; NULL: it has none, then this is false and *bad = the part.  Also false, with *bad NULL: it is
 * neither a string nor an array.
 */
bool		content_join(const Json *content, const char *(*text_of) (const Json *part), const char *sep,
						 Buf *out, const Json **bad);
/* {"role": ..., "content": ...} */
void		content_write_message(JsonOut *j, const char *role, const char *s, size_t n);
/* What a tool has given for the call with this id. */
void		content_write_tool_result(JsonOut *j, const char *call_id, const Buf *text);

/* What the assistant has thought, said and called. */
typedef struct AssistantParts
{
	Buf			thought;
	Buf			text;
	Buf			calls;			/* elements, with commas between */
	bool		said;			/* text is given, may be empty */
} AssistantParts;

void		content_add_call(AssistantParts *p, const char *id, const char *name, const char *arguments,
							 size_t n);
/* One message, as the model wrote it, and as templates want it. */
void		content_write_assistant(JsonOut *j, const AssistantParts *p);
/* All that p holds; it is empty then. */
void		content_free(AssistantParts *p);

#endif
