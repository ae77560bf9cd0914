/*
 * chat_template.h
 *	  From messages to the text that a model continues.
 *
 * A ChatModel is what a model brings along: its chat templates, compiled, and the text
 * of its special tokens; or what the options of its entry say.  It is immutable once it
 * is made, so any number of threads may render with it.
 */
#ifndef VLLM_TEMPLATE_CHAT_TEMPLATE_H
#define VLLM_TEMPLATE_CHAT_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str_view.h"

typedef struct ChatModel ChatModel;

/* What a message's content is made before the template sees it. */
typedef enum ChatFormat
{
	CHAT_FORMAT_UNSET,			/* as the entry's options say, else as with AUTO */
	CHAT_FORMAT_AUTO,			/* what the template goes through */
	CHAT_FORMAT_STRING,			/* a string */
	CHAT_FORMAT_OPENAI			/* a list of {"type": "text", "text": ...} */
} ChatFormat;

/* false: not the name of one */
bool		chat_format_by_name(const char *name, ChatFormat *out);

ChatModel  *chat_new(void);
/*
 * Before anybody renders: add a template, "default" and "tool_use" (taken when tools are
 * given) among the names.  One that can't be compiled is an error when it is used.
 */
void		chat_template(ChatModel *c, const char *name, const char *source, size_t n);
void		chat_format(ChatModel *c, ChatFormat format);
/* The text of "bos_token", "eos_token" ...; before anybody renders. */
void		chat_special(ChatModel *c, const char *name, const char *text, size_t n);
bool		chat_has_template(const ChatModel *c);
/* Does its default template know the roles "query" and "document", of a pair that is scored? */
bool		chat_takes_pairs(const ChatModel *c);
/* Could its templates be compiled? */
bool		chat_check(const ChatModel *c, Err *e);
void		chat_free(ChatModel *c);

typedef struct ChatRequest
{
	StrView		messages;
	StrView		tools;
	StrView		documents;
	StrView		kwargs;			/* variables by name; they win over special tokens */
	StrView		effort;			/* the variable reasoning_effort, text; kwargs win */
	StrView		source;			/* a template of the request's own, or the name of one of the model's */
	ChatFormat	format;
	bool		add_generation_prompt;
	bool		continue_final_message;
} ChatRequest;

/*
 * Append the text to *out and its marks (tok_encode_marked()) to *marks.  Template and
 * format: the request's, else own's (an option's, may be NULL), else model's (may be
 * NULL); special tokens are model's.
 */
bool		chat_render(const ChatModel *own, const ChatModel *model, const ChatRequest *r,
						Buf *out, Buf *marks, Err *e);

#endif
