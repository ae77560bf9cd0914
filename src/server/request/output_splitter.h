/*
 * output_splitter.h
 *	  An answer's text on its way to the caller: reasoning, content and calls of tools apart.
 *
 * The reasoning parser comes first; tools are looked for in the content alone.  What has
 * become known is gathered in buffers, which the owner empties whenever it likes: at each
 * piece of a stream, or once at the end.
 */
#ifndef VLLM_SERVER_REQUEST_OUTPUT_SPLITTER_H
#define VLLM_SERVER_REQUEST_OUTPUT_SPLITTER_H

#include "parsers/parsers.h"

typedef enum ToolChoice
{
	TOOLS_NONE,					/* text is text */
	TOOLS_AUTO,					/* as the model likes: its format is parsed */
	TOOLS_REQUIRED,				/* the output is [{"name", "parameters"}, ...] */
	TOOLS_NAMED					/* the output is one tool's arguments */
} ToolChoice;

typedef struct AnswerSpec
{
	const ReasonFormat *reason; /* NULL: nothing is split off */
	const ToolFormat *tools;	/* NULL: nothing is looked for; TOOLS_AUTO */
	ToolChoice	choice;
	const char *named;			/* TOOLS_NAMED: the tool */
	const char *tools_json;		/* the request's; NULL = none */
	size_t		n_tools_json;
	const char *kwargs;			/* chat_template_kwargs; NULL = none */
	size_t		n_kwargs;
	ReasonAt	at;				/* where the prompt has left off */
	uint64_t	key;			/* for ids of calls */
	bool		one_call;		/* parallel_tool_calls = false: the first is kept */
	bool		drop_reasoning; /* include_reasoning = false */
	bool		tag_only;		/* nothing but the end tag ends the thoughts: a grammar begins there */
	bool		stream;			/* calls have their index, as in a stream's deltas */
} AnswerSpec;

typedef struct Answer Answer;

/* Nothing of *spec is needed afterwards. */
Answer	   *answer_new(const AnswerSpec *spec);
/* Another one of the same kind, for the index-th answer to the same prompt; a has been fed nothing. */
Answer	   *answer_fork(const Answer *a, int index);
/*
 * What ends the thoughts that precede everything else (reason_format_until()), NULL if the model won't think.
 */
const char *answer_until(const Answer *a);
/* May the model call tools, if it likes? */
bool		answer_takes_calls(const Answer *a);
/* Where the prompt has left off. */
ReasonAt	answer_at(const Answer *a);
/* Must text keep the tokenizer's special tokens? */
bool		answer_wants_special(const Answer *a);
void		answer_feed(Answer *a, const char *s, size_t n);
void		answer_finish(Answer *a);
void		answer_free(Answer *a);

/* Did anything come since these were emptied (buf_reset())? */
bool		answer_has(const Answer *a);
Buf		   *answer_content(Answer *a);
Buf		   *answer_reasoning(Answer *a);
/*
 * Elements of tool_calls, {"id", "type", "function": {"name", "arguments"}}, with commas between.
 * In a stream, where they are read while they come: an element that goes on with a call is
 * {"index", "function": {"arguments"}}.  A call whose beginning was read and that turned out to be
 * none goes on no more; what was said of its arguments is no JSON.
 */
Buf		   *answer_calls(Answer *a);

/* Of each element: bytes of the content that precede it. */
const IntVec *answer_calls_at(const Answer *a);

/* Whole calls, also what was emptied. */
int			answer_n_calls(const Answer *a);
/*
 * Is the finish_reason tool_calls?  Not with a named tool, nor where the text was cut (by max_tokens)
 * in a call that is not whole, or in content, behind the whole ones.
 */
bool		answer_calls_tools(const Answer *a, bool cut);

#endif
