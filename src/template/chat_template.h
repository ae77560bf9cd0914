/*
 * chat_template.h
 *	  Render messages to the text that a model continues.
 *
 * A ChatModel is what belongs to a model: its compiled chat templates and the text of its special
 * tokens; or the settings of its entry's options.  It is immutable once it is complete, so any number of
 * threads may render with it.
 */
#ifndef VLLM_TEMPLATE_CHAT_TEMPLATE_H
#define VLLM_TEMPLATE_CHAT_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str_view.h"

typedef struct ChatModel ChatModel;

/* The form to which a message's content is converted before the template sees it. */
typedef enum ChatFormat
{
	CHAT_FORMAT_UNSET,			/* use the entry's options, else as AUTO */
	CHAT_FORMAT_AUTO,			/* the form that the template iterates over */
	CHAT_FORMAT_STRING,			/* a string */
	CHAT_FORMAT_OPENAI			/* a list of {"type": "text", "text": ...} */
} ChatFormat;

/* Return false if there is no format of this name. */
bool		chat_format_by_name(const char *name, ChatFormat *out);

ChatModel  *chat_new(void);
/*
 * Add a template; call before the first rendering.  The names include "default" and "tool_use" (used if
 * the request has tools).  A template that can't be compiled is an error when it is used.
 */
void		chat_template(ChatModel *c, const char *name, const char *source, size_t n);
void		chat_format(ChatModel *c, ChatFormat format);
/* Set the text of "bos_token", "eos_token" ...; call before the first rendering. */
void		chat_special(ChatModel *c, const char *name, const char *text, size_t n);
bool		chat_has_template(const ChatModel *c);
/* Return true if the default template supports the roles "query" and "document", for pairs to be
 * scored. */
bool		chat_takes_pairs(const ChatModel *c);
/* Check that its templates could be compiled. */
bool		chat_check(const ChatModel *c, Err *e);
void		chat_free(ChatModel *c);

typedef struct ChatRequest
{
	StrView		messages;
	StrView		tools;
	StrView		documents;
	StrView		kwargs;			/* variables by name; they override special tokens */
	StrView		effort;			/* text of the variable reasoning_effort; kwargs override it */
	StrView		source;			/* a template in the request, or the name of one of the model's */
	ChatFormat	format;
	bool		add_generation_prompt;
	bool		continue_final_message;
} ChatRequest;

/*
 * Append the text to *out and its marks (tok_encode_marked()) to *marks.  Template and format: the
 * request's, else own's (from an option, may be NULL), else model's (may be NULL); special tokens are
 * model's.
 */
bool		chat_render(const ChatModel *own, const ChatModel *model, const ChatRequest *r,
						Buf *out, Buf *marks, Err *e);
/* ERR_INVALID if a rendered text, from which the model is to generate, is empty. */
bool		chat_not_empty(const Buf *text, Err *e);

#endif
