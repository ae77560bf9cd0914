/*
 * output_parsers.h
 *	  The parsers that split an output: of a chat (output_splitter.h), and of a text without a model,
 *	  WK_PARSE.
 */
#ifndef VLLM_SERVER_REQUEST_OUTPUT_PARSERS_H
#define VLLM_SERVER_REQUEST_OUTPUT_PARSERS_H

#include "base/buf.h"
#include "base/err.h"
#include "server/request/output_splitter.h"
#include "template/chat_template.h"
#include "ipc/wire.h"

#define TOOL_NAME_LEN	256

/* Set from the fields of a message. */
typedef struct ParseRequest
{
	const ToolFormat *tools;	/* NULL: not given */
	const ReasonFormat *reason;
	bool		has_choice;
	ToolChoice	choice;			/* TOOLS_NAMED: named */
	char		named[TOOL_NAME_LEN];
	bool		one_call;		/* parallel_tool_calls = false */
	bool		drop_reasoning; /* include_reasoning = false */
	bool		constrained;	/* there is a grammar */
	/* the grammar applies from the start because reasoning is disabled, so the output has none */
	bool		at_once;
	bool		has_budget;
	int			budget;			/* thinking_token_budget; valid if has_budget */
	Buf			schema;			/* schema of tool calls that the model must make; owned */
} ParseRequest;

/* *known = false if the field is none of these. */
bool		parsing_field(ParseRequest *r, const WireField *f, bool *known, Err *e);
/*
 * All fields have been read.  If the output must be tool calls, set r->schema to the schema that it must
 * match, else leave it empty.  tools: the request's; .s = NULL: none.
 */
bool		parsing_check(ParseRequest *r, const StrView *tools, Err *e);
/* Find a parser by its name.  Returns false with *e set, and a hint with the names, if there is none. */
bool		tool_parser_by_name(const char *name, size_t n, const ToolFormat **out, Err *e);
bool		reasoning_parser_by_name(const char *name, size_t n, const ReasonFormat **out, Err *e);

/*
 * Make the splitter for the output of a chat with this prompt; *out = NULL if it needs none.  options:
 * the model's, JSON text or NULL; its parsers come before the request's.
 */
bool		parsing_of_chat(const ParseRequest *r, const char *options, const ChatRequest *chat,
							const char *prompt, size_t n, bool stream, Answer **out, Err *e);
/* Must the tools be hidden from the template?  So if none may be called and the model's options say so. */
bool		parsing_hides_tools(const ParseRequest *r, const char *options);
/* Return the reasoning parser of a request, or of its model; NULL: none. */
const ReasonFormat *parsing_reason(const ParseRequest *r, const char *options);
/* Is there any new output to write? */
bool		parsing_has(Answer *a);
/* Write the new TEXT, REASONING and TOOL_CALLS; empty ones are left out. */
void		parsing_put(Answer *a, WireOut *o);

/* Append the reply's fields to *out: TEXT (content, or the whole JSON of calls), REASONING. */
void		parsing_run(const ParseRequest *r, const char *s, size_t n, const ChatRequest *chat, Buf *out);

#endif
