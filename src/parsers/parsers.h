/*
 * parsers.h
 *	  Split a model's output into reasoning, content, and tool calls.
 *
 * Models write their reasoning and their calls between marks of their own.  A ReasonParser extracts the
 * reasoning, a ToolParser the calls.  Both are fed the text as it is generated, in pieces of any size,
 * and report what they find through a sink.  A complete text is a single piece: the result does not
 * depend on where pieces end.
 *
 * Text that may still become a mark is held back.  A call is emitted as it is generated: its name, then
 * its arguments' text as far as it is certain; this text is no valid JSON before the call is complete.
 * A call that turns out to be none (it is truncated or can't be read) is revoked by PARSE_CALL_NONE, and
 * its text and all that follows is content: clients must not use what was emitted of it.  Earlier
 * complete calls stay valid.
 *
 * Formats are rows of tools.def and reasoning.def.
 */
#ifndef VLLM_PARSERS_PARSERS_H
#define VLLM_PARSERS_PARSERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

typedef enum ParseKind
{
	PARSE_CONTENT,				/* more content: s, n */
	PARSE_REASONING,			/* more reasoning: s, n */
	PARSE_CALL,					/* a call begins: index, id, name */
	PARSE_ARGUMENTS,			/* more of its arguments' JSON text: index, s, n */
	PARSE_CALL_END,				/* index: the call is complete */
	PARSE_CALL_NONE				/* index: the call is revoked */
} ParseKind;

typedef struct ParseEvent
{
	ParseKind	kind;
	const char *s;
	size_t		n;
	int			index;			/* of the call, from 0 */
	const char *id;
	const char *name;
} ParseEvent;

/* s, id and name are valid during the call. */
typedef void (*ParseSink) (void *ctx, const ParseEvent *ev);

/* ---- calls of tools ---- */

typedef struct ToolFormat ToolFormat;
typedef struct ToolParser ToolParser;

/* Return NULL if there is no format of this name. */
const ToolFormat *tool_format_find(const char *name, size_t n);
/* Append the names of all formats, in order, separated by commas. */
void		tool_format_names(Buf *out);
/* Return true if its marks are special tokens, which the output text must keep (skip_special_tokens =
 * false). */
bool		tool_format_special(const ToolFormat *f);
/* Append an id for the index-th call, of this function, in the form that the format's template needs; f
 * = NULL: any. */
void		tool_format_id(const ToolFormat *f, uint64_t sum, const char *name, int index, Buf *out);
/* Return true if the format extracts the reasoning itself. */
bool		tool_format_reasons(const ToolFormat *f);

/*
 * tools: the request's tools in the form of OpenAI's API, JSON text, or NULL; some formats need them to
 * distinguish numbers from strings.  key determines the ids of calls: equal keys and texts give equal
 * ids.
 */
ToolParser *tool_parser_new(const ToolFormat *f, const char *tools, size_t n_tools, uint64_t key,
							ParseSink sink, void *ctx);
/*
 * Make a parser of calls that a grammar forces the model to write, [{"name", "parameters"}, ...].  ids:
 * format of their ids, NULL: any.
 */
ToolParser *tool_parser_required(const ToolFormat *ids, uint64_t key, ParseSink sink, void *ctx);
/*
 * Make a parser like p before it was fed anything, for another text; both share the parsed tools.  Any
 * thread.
 */
ToolParser *tool_parser_fork(const ToolParser *p, uint64_t key, ParseSink sink, void *ctx);
void		tool_parser_feed(ToolParser *p, const char *s, size_t n);
void		tool_parser_finish(ToolParser *p);
/* For a finished parser: return true if after its complete calls the text ended within an incomplete
 * call or in content. */
bool		tool_parser_is_open(const ToolParser *p);
void		tool_parser_free(ToolParser *p);

/* ---- reasoning ---- */

typedef struct ReasonFormat ReasonFormat;
typedef struct ReasonParser ReasonParser;

const ReasonFormat *reason_format_find(const char *name, size_t n);
void		reason_format_names(Buf *out);
bool		reason_format_special(const ReasonFormat *f);

/* Where the prompt leaves the reasoning. */
typedef enum ReasonAt
{
	REASON_UNKNOWN,				/* nothing: the format's rules decide */
	REASON_OPEN,				/* the prompt ends within reasoning */
	REASON_CLOSED,				/* the prompt ends after the reasoning: content follows */
	REASON_PLAIN				/* not a chat prompt: a start tag begins reasoning wherever it is */
} ReasonAt;

/* The position of an output. */
typedef enum ReasonStage
{
	REASON_BEFORE,				/* reasoning, or a tag that begins it, may follow */
	REASON_WITHIN,				/* within reasoning */
	REASON_AFTER				/* no reasoning follows */
} ReasonStage;

/* Return the text that begins or ends reasoning; NULL: this format has none (the model doesn't
 * reason). */
const char *reason_format_start(const ReasonFormat *f);
const char *reason_format_end(const ReasonFormat *f);
/*
 * Return what the model writes at the end of its reasoning, before anything else; NULL: it doesn't
 * reason, or may omit this text.  At a MARK_GAP in it any text may occur.
 */
#define MARK_GAP	"\1"
const char *reason_format_until(const ReasonFormat *f, const char *kwargs, size_t n_kwargs, ReasonAt at);
/* Return where a prompt of this text ends.  goes_on: the last message is continued. */
ReasonAt	reason_format_at(const ReasonFormat *f, const char *prompt, size_t n, bool goes_on);

/* kwargs: chat_template_kwargs, JSON text, or NULL; they may turn reasoning off. */
ReasonParser *reason_parser_new(const ReasonFormat *f, const char *kwargs, size_t n_kwargs, ReasonAt at,
								ParseSink sink, void *ctx);
/* Make a parser like p before it was fed anything, for another text. */
ReasonParser *reason_parser_fork(const ReasonParser *p, ParseSink sink, void *ctx);
/* Let only the end tag end the reasoning, as a grammar begins after it. */
void		reason_parser_tag_only(ReasonParser *p);
void		reason_parser_feed(ReasonParser *p, const char *s, size_t n);
void		reason_parser_finish(ReasonParser *p);
ReasonStage reason_parser_stage(const ReasonParser *p);
void		reason_parser_free(ReasonParser *p);

#endif
