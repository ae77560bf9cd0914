/*
 * output_splitter.h
 *	  Splits the text of a choice into reasoning, content and tool calls.
 *
 * The reasoning parser comes first; tool calls are parsed in the content only.  The parts are collected
 * in buffers, which the owner empties whenever it likes: after each piece of a stream, or once at the
 * end.
 */
#ifndef VLLM_SERVER_REQUEST_OUTPUT_SPLITTER_H
#define VLLM_SERVER_REQUEST_OUTPUT_SPLITTER_H

#include "parsers/parsers.h"

typedef enum ToolChoice
{
	TOOLS_NONE,					/* text is not parsed */
	TOOLS_AUTO,					/* the model decides: its format is parsed */
	TOOLS_REQUIRED,				/* the output is [{"name", "parameters"}, ...] */
	TOOLS_NAMED					/* the output is one tool's arguments */
} ToolChoice;

typedef struct AnswerSpec
{
	const ReasonFormat *reason; /* NULL: no reasoning is split off */
	const ToolFormat *tools;	/* for TOOLS_AUTO; NULL: no tool calls are parsed */
	ToolChoice	choice;
	const char *named;			/* TOOLS_NAMED: the tool */
	const char *tools_json;		/* the request's; NULL = none */
	size_t		n_tools_json;
	const char *kwargs;			/* chat_template_kwargs; NULL = none */
	size_t		n_kwargs;
	ReasonAt	at;				/* state of the reasoning at the prompt's end */
	uint64_t	key;			/* seed for the ids of calls */
	bool		one_call;		/* parallel_tool_calls = false: only the first call is kept */
	bool		drop_reasoning; /* include_reasoning = false */
	bool		tag_only;		/* only the end tag ends the reasoning, because a grammar begins there */
	bool		stream;			/* calls have their index, as in a stream's deltas */
} AnswerSpec;

typedef struct Answer Answer;

/* *spec is not used afterwards. */
Answer	   *answer_new(const AnswerSpec *spec);
/*
 * Return a splitter of the same kind for the index-th choice of the same prompt.  a must not have been
 * fed yet.
 */
Answer	   *answer_fork(const Answer *a, int index);
/* Return the text that ends the reasoning (reason_format_until()), or NULL if the model won't reason. */
const char *answer_until(const Answer *a);
/* May the model call tools if it decides to? */
bool		answer_takes_calls(const Answer *a);
/* Return the state of the reasoning at the prompt's end. */
ReasonAt	answer_at(const Answer *a);
/* Must text keep the tokenizer's special tokens? */
bool		answer_wants_special(const Answer *a);
void		answer_feed(Answer *a, const char *s, size_t n);
void		answer_finish(Answer *a);
void		answer_free(Answer *a);

/* Has anything been added since the buffers were emptied (buf_reset())? */
bool		answer_has(const Answer *a);
Buf		   *answer_content(Answer *a);
Buf		   *answer_reasoning(Answer *a);
/*
 * Elements of tool_calls, {"id", "type", "function": {"name", "arguments"}}, separated by commas.  In a
 * stream, where calls are parsed as they come, an element that continues a call is {"index", "function":
 * {"arguments"}}.  If the text turns out not to be a call after its beginning was emitted, the call is
 * not continued, and the arguments so far are invalid JSON.
 */
Buf		   *answer_calls(Answer *a);

/* For each element: bytes of the content before it. */
const IntVec *answer_calls_at(const Answer *a);

/* Number of complete calls, including those already emptied. */
int			answer_n_calls(const Answer *a);
/*
 * Is the finish_reason tool_calls?  Not with a named tool, nor if the text was cut (by max_tokens)
 * within an incomplete call, or in content after the complete ones.
 */
bool		answer_calls_tools(const Answer *a, bool cut);

#endif
