/*
 * parsers.h
 *	  What a model wrote, taken apart: reasoning, content, and calls of tools.
 *
 * Models write their thoughts and their calls between marks of their own.  A
 * ReasonParser splits off the thoughts, a ToolParser the calls; both are fed the text as
 * it comes, in pieces of any size, and tell what they have found through a sink.  A whole
 * text is a single piece: what comes out does not depend on where pieces end.
 *
 * Text that may still become a mark is held back.  A call goes out as it comes: its name, then
 * its arguments' text as far as it is certain, which is no JSON before the call is whole.  A
 * call that turns out to be none (it is cut, or can't be read) is taken back by PARSE_CALL_NONE,
 * and its text and all that follows is content: what was said of it must not be used.  Calls
 * that were whole before stay.
 *
 * Formats are rows of tools.def and reasoning.def, a file each.
 */
#ifndef VLLM_PARSERS_PARSERS_H
#define VLLM_PARSERS_PARSERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

typedef enum ParseKind
{
	PARSE_CONTENT,				/* more of it: s, n */
	PARSE_REASONING,			/* more of it: s, n */
	PARSE_CALL,					/* a call begins: index, id, name */
	PARSE_ARGUMENTS,			/* more of its arguments' JSON text: index, s, n */
	PARSE_CALL_END,				/* index: the call is whole */
	PARSE_CALL_NONE				/* index: it is none */
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

/* NULL: there is none of this name */
const ToolFormat *tool_format_find(const char *name, size_t n);
/* Their names, in order, with commas between. */
void		tool_format_names(Buf *out);
/* Are its marks special tokens, which text must keep (skip_special_tokens = false)? */
bool		tool_format_special(const ToolFormat *f);
/* Append an id for the index-th call, of this function, as the format's template wants it; f = NULL: any. */
void		tool_format_id(const ToolFormat *f, uint64_t sum, const char *name, int index, Buf *out);
/* Does it split off the reasoning itself? */
bool		tool_format_reasons(const ToolFormat *f);

/*
 * tools: the request's, as OpenAI's API has them, JSON text, or NULL; some formats
 * need them to tell numbers from strings.  key makes the ids of calls: equal keys and
 * texts have equal ids.
 */
ToolParser *tool_parser_new(const ToolFormat *f, const char *tools, size_t n_tools, uint64_t key,
							ParseSink sink, void *ctx);
/*
 * Of calls that a grammar makes the model write, [{"name", "parameters"}, ...]; ids: whose ids they have,
 * NULL: any.
 */
ToolParser *tool_parser_required(const ToolFormat *ids, uint64_t key, ParseSink sink, void *ctx);
/*
 * As p was before anything was fed, of a text of its own; they share what was made of the tools.  Any thread.
 */
ToolParser *tool_parser_fork(const ToolParser *p, uint64_t key, ParseSink sink, void *ctx);
void		tool_parser_feed(ToolParser *p, const char *s, size_t n);
void		tool_parser_finish(ToolParser *p);
/* Of a finished one: behind its whole calls, did the text end in one that is not whole, or in content? */
bool		tool_parser_goes_on(const ToolParser *p);
void		tool_parser_free(ToolParser *p);

/* ---- reasoning ---- */

typedef struct ReasonFormat ReasonFormat;
typedef struct ReasonParser ReasonParser;

const ReasonFormat *reason_format_find(const char *name, size_t n);
void		reason_format_names(Buf *out);
bool		reason_format_special(const ReasonFormat *f);

/* What the prompt has done already. */
typedef enum ReasonAt
{
	REASON_UNKNOWN,				/* nothing: the format's rules decide */
	REASON_OPEN,				/* it ends within thoughts */
	REASON_CLOSED,				/* it ends behind them: what comes is content */
	REASON_PLAIN				/* it is no chat's: a start tag begins them, wherever it stands */
} ReasonAt;

/* How far an answer has come. */
typedef enum ReasonStage
{
	REASON_BEFORE,				/* thoughts, or a tag that begins them, may follow */
	REASON_WITHIN,				/* these are thoughts */
	REASON_BEHIND				/* there will be none */
} ReasonStage;

/* Text that begins and ends the thoughts; NULL: this format has none (it does not think). */
const char *reason_format_start(const ReasonFormat *f);
const char *reason_format_end(const ReasonFormat *f);
/*
 * What the model writes at the end of its thoughts, before anything else; NULL: it won't
 * think, or may do without it.  At a MARK_GAP in it anything may stand.
 */
#define MARK_GAP	"\1"
const char *reason_format_until(const ReasonFormat *f, const char *kwargs, size_t n_kwargs, ReasonAt at);
/* Where does a prompt of this text end?  goes_on: it goes on with the last message. */
ReasonAt	reason_format_at(const ReasonFormat *f, const char *prompt, size_t n, bool goes_on);

/* kwargs: chat_template_kwargs, JSON text, or NULL; they may turn thinking off. */
ReasonParser *reason_parser_new(const ReasonFormat *f, const char *kwargs, size_t n_kwargs, ReasonAt at,
								ParseSink sink, void *ctx);
/* As p was before anything was fed, of a text of its own. */
ReasonParser *reason_parser_fork(const ReasonParser *p, ParseSink sink, void *ctx);
/* Nothing but the end tag ends the thoughts, as a grammar begins behind it. */
void		reason_parser_tag_only(ReasonParser *p);
void		reason_parser_feed(ReasonParser *p, const char *s, size_t n);
void		reason_parser_finish(ReasonParser *p);
ReasonStage reason_parser_stage(const ReasonParser *p);
void		reason_parser_free(ReasonParser *p);

#endif
