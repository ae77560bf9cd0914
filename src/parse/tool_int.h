/*
 * tool_int.h
 *	  What a format of tool calls is, and what formats share.
 */
#ifndef VLLM_PARSE_TOOL_INT_H
#define VLLM_PARSE_TOOL_INT_H

#include <cjson/cJSON.h>

#include "parse/jtext.h"
#include "parse/parse.h"
#include "parse/span.h"

#define TOOL_MARKS	7			/* most marks of a format, and NULL */

typedef struct ToolCall
{
	Buf			name;
	Buf			args;			/* JSON text */
	Buf			id;				/* the model's own; empty = one is made */
} ToolCall;

/* What a format makes of an output. */
typedef struct ToolOut
{
	const cJSON *tools;			/* the request's; NULL = none given */
	ToolCall   *calls;
	int			n;
	size_t		content_end;	/* content is so much of the output; at least what was before the first mark */
	Buf			tail;			/* ... and this */
	bool		bare;			/* even without a call: the rest is nothing */
} ToolOut;

/*
 * A format.  Output up to the first mark is content, shown as it comes; the rest waits
 * for the end, and then parse() sees it all.
 */
struct ToolFormat
{
	const char *marks[TOOL_MARKS];	/* any of them, anywhere */
	const char *lead[TOOL_MARKS];	/* only where nothing but white space precedes */
	bool		lead_after_think;	/* ... or precedes behind </think> */
	bool		skip_think;		/* not within <think> and </think> */
	bool		trim;			/* white space before the mark is not content */
	bool		all;			/* no mark decides: everything waits */
	bool		special;		/* marks are special tokens */
	bool		short_ids;		/* nine letters and digits */
	bool		named_ids;		/* functions.NAME:INDEX */

	/*
	 * s: the whole output; at: the first mark.  content_end is preset to at (less white
	 * space, with trim).  False, or true without a call (and not bare): all is content.
	 */
	bool		(*parse) (Span s, const char *at, ToolOut *out);

	/* Instead of all this: a parser of its own. */
	bool		harmony;
};

/* One more call, empty. */
ToolCall   *tool_add(ToolOut *out);
/* ... of this name; NULL if it can't be one: empty, or too long. */
ToolCall   *tool_named(ToolOut *out, Span name);

/* Keep the first n. */
void		tool_keep(ToolOut *out, int n);

/* ---- calls as JSON objects (tool_json.c) ---- */

/* Which keys, and what of the arguments */
#define TJ_ARGUMENTS	1
#define TJ_PARAMETERS	2
#define TJ_OPTIONAL		4		/* none at all: {} */
#define TJ_EXCLUSIVE	8		/* both keys are an error */
#define TJ_OBJECT		16		/* they must be an object */
#define TJ_LAX			32		/* control characters in strings */
#define TJ_TEXT			64		/* a string is the text itself */
#define TJ_LATTER		128		/* parameters come before arguments, if both are there */

bool		tool_json_object(Span *s, unsigned flags, ToolOut *out);
/* [{...}, ...] */
bool		tool_json_array(Span *s, unsigned flags, ToolOut *out);
/* All text between open and close, repeated: one object each.  open_end: the last needs no close. */
bool		tool_json_blocks(Span s, const char *open, const char *close, bool open_end, ToolOut *out);
/* Arguments that should be JSON, to one form; false if they aren't. */
bool		tool_json_args(Span s, ToolCall *c);

/* ---- calls in Python's syntax (tool_python.c) ---- */

/* f(a=1, b='x'), ... up to the end; json: true, false and null are literals, too */
bool		tool_python_calls(Span s, bool json, ToolOut *out);
/* All of s is one literal: its JSON */
bool		tool_python_literal(Span s, Buf *out);

/* ---- arguments as raw text (tool_typed.c) ---- */

/* Types that a parameter may have. */
#define TT_STRING	1
#define TT_INTEGER	2
#define TT_NUMBER	4
#define TT_BOOLEAN	8
#define TT_OBJECT	16
#define TT_ARRAY	32
#define TT_NULL		64

/* What the schema says of a parameter; 0 = nothing. */
unsigned	tool_type_of(const cJSON *tools, Span tool, Span param);
/* Does a schema know this tool? */
bool		tool_known(const cJSON *tools, Span tool);
/* Append text as the JSON value that a parameter of these types (0: unknown, a string) makes of it. */
void		tool_typed(Span text, unsigned types, Buf *out);
/* Append text as JSON, else as Python's literal, else as a string. */
void		tool_guessed(Span text, Buf *out);
/* `"key": ` with what precedes it, into an object that is being made. */
void		tool_key(Buf *args, Span key);

/* <function=NAME> <parameter=K>value</parameter> ... </function>, repeated up to the end (tool_xml.c) */
bool		tool_function_tags(Span s, const char *close, ToolOut *out);

/* The tags of <invoke name="f"><parameter name="k">v</parameter></invoke> in a format's spelling. */
typedef struct InvokeTags
{
	const char *invoke;			/* `<invoke name=`; what follows up to '>' is the name, perhaps in quotes */
	const char *invoke_end;
	const char *param;
	const char *param_end;
	bool		string_attribute;	/* string="true" or "false" behind the name decides the type */
} InvokeTags;

/* Invokes up to the end; other text between is passed over. */
bool		tool_invokes(Span s, const InvokeTags *t, ToolOut *out);

#endif
