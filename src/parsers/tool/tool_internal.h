/*
 * tool_internal.h
 *	  What a format of tool calls is, and what formats share.
 */
#ifndef VLLM_PARSERS_TOOL_TOOL_INTERNAL_H
#define VLLM_PARSERS_TOOL_TOOL_INTERNAL_H

#include "base/json/json.h"
#include "base/json/json_writer.h"
#include "parsers/json_push.h"
#include "parsers/parsers.h"
#include "parsers/text_span.h"

#define TOOL_MARKS	7			/* most marks of a format, and NULL */
#define TOOL_SIGNS	2
#define MAX_NAME	512			/* bytes of a tool's name */

/* ---- calls on their way out (tool_emit.c) ---- */

typedef struct CallOut
{
	ParseSink	sink;
	void	   *ctx;
	const ToolFormat *ids;		/* whose ids calls have; NULL: any */
	int			n;				/* calls that were whole */
	int			index;			/* of the next: also what was none has one, if it was told of */
	bool		begun;			/* one was told of, and has not ended */
	Buf			name;
	Buf			id;				/* the model's own; empty: one is made */
	Buf			args;			/* of its arguments' text, what was not sent yet */
} CallOut;

/* It has this name; false if that can't be one: empty, or too long. */
bool		callout_named(CallOut *c, Span name);
/*
 * Send arguments, but for the last `hold` bytes; the call begins with the first.  sum: of what makes its id.
 */
void		callout_send(CallOut *c, uint64_t sum, size_t hold);
/* It is whole. */
void		callout_end(CallOut *c, uint64_t sum);
/* It is none; what was said of it is taken back. */
void		callout_drop(CallOut *c);
void		callout_free(CallOut *c);

/* ---- what reads a format (tool_run.c) ---- */

typedef enum ToolOpKind
{
	/* go behind the next lit, or lit2 (then on to `to`); the text's end: there are no more calls */
	OP_SEEK,
	OP_LIT,						/* lit must be here */
	OP_LIT_END,					/* lit must be here, or a part of it at the text's end */
	OP_OPT,						/* lit may be here */
	OP_IF,						/* if lit is here, go on at `to` */
	OP_GOTO,
	OP_SKIP,					/* go behind the next lit; no '<' precedes it */
	OP_NAME,					/* the tool's name up to lit, or lit2; no '<' is in it */
	OP_ID,						/* the call's id, functions.NAME:INDEX, up to lit, or lit2; no '<' is in it */
	OP_OBJECT,					/* an object with the call's name and arguments; flags: TJ_ */
	OP_ARGS,					/* its arguments, any JSON value */
	OP_TAGS,					/* its arguments between tags */
	OP_PYTHON,					/* the call as f(a=1); flags: PY_ */
	OP_GEMMA,					/* its arguments up to a brace, in functiongemma's form */
	OP_BEHIND,					/* an object's line has no more of it; up to lit, or lit2, it is looked at */
	OP_ELEMENT,					/* a call of an array: its end follows, or a further one; flags: PY_CALL */
	OP_DONE,					/* the call is whole */
	OP_BARE,					/* the text ends here, without a call and without content */
	OP_STOP,					/* there are no more calls */
	OP_TAIL						/* what follows is content */
} ToolOpKind;

#define OP_PEEK			1		/* OP_SEEK, OP_NAME, OP_IF: lit is not read */
#define OP_NO_BRACE		2		/* OP_SEEK: what is passed over has no '{' */
#define OP_NO_TAG		4		/* OP_SEEK: the skipped text has no '<' */
#define OP_ARGS_MARK	8		/* OP_NAME: [CALL_ID]ID and [ARGS] may stand behind it */

/* OP_OBJECT: which keys, and what of the arguments; two of them are an error */
#define TJ_ARGUMENTS	16
#define TJ_PARAMETERS	32
#define TJ_OPTIONAL		64		/* none at all: {} */
#define TJ_OBJECT		128		/* they must be an object */
#define TJ_LAX			256		/* control characters in strings */
#define TJ_TEXT			512		/* a string is the text itself, which is JSON */

#define PY_JSON			1024	/* OP_PYTHON: true, false and null are literals, too */
#define PY_CALL			2048	/* OP_ELEMENT: calls are f(a=1), not objects */

#define TAG_ENDS		4

/*
 * Arguments between tags.  What stands between two of them is passed over, if it has no sign
 * of a further one.
 */
typedef struct ArgTags
{
	const char *param;			/* the key follows */
	const char *key_end;
	const char *value;			/* NULL: the value follows the key */
	const char *param_end;
	const char *end;			/* the call ends */
	const char *also_end[TAG_ENDS]; /* so it does before these, which are not its own */
	const char *behind[TAG_ENDS];	/* what may stand behind the call */
	bool		unquote;		/* the key may have quotes */
	bool		string_attribute;	/* string="true" or "false" behind the key decides the type */
	bool		unwrap;			/* one newline at either end of a value belongs to the tags */
	/* param_end may be missing: `end`, or a line that begins with param, ends a value */
	bool		open;
	bool		guess;			/* what isn't a string by its schema is JSON, or Python's, if it can be */
} ArgTags;

typedef struct ToolOp
{
	ToolOpKind	kind;
	const char *lit;
	const char *lit2;
	int			to;				/* number of an op */
	unsigned	flags;
	const ArgTags *tags;
} ToolOp;

typedef enum ToolStep
{
	STEP_ON,					/* an op is done */
	STEP_MORE,					/* more text is needed */
	STEP_BAD,					/* it is no call from `unit` on */
	STEP_END,					/* there are no more calls */
	STEP_TAIL					/* there are no more calls, content follows */
} ToolStep;

/* Reads calls, one after the other, from a text that grows. */
typedef struct ToolRun
{
	const ToolOp *ops;
	const Json *tools;			/* the request's; NULL = none given */
	const char *const *signs;	/* of a call, which nothing that is passed over has */
	const Buf  *text;
	bool		last;			/* it doesn't grow any more */
	bool		bare;			/* only white space was left of the complete text */
	bool		in_mark;		/* the text ends within a searched mark */
	size_t		pos;			/* before this it was read */
	size_t		scan;			/* nothing that is looked for begins before this */
	size_t		unit;			/* where the call began, or its section; in_unit */
	bool		in_unit;
	int			op;
	int			sub;			/* how far within the op */
	uint64_t	sum;			/* of the text before `summed`, and the key */
	size_t		summed;
	CallOut		out;

	/* an object, a value */
	JPush		json;
	Buf			key;
	int			target;
	bool		has_name;
	bool		has_args;
	bool		has_other;		/* members that tell nothing of a call */
	char		args_first;		/* their first byte; '\0': there is none yet */

	KeySet		keys;			/* of a call's arguments */
	KeySet		inner;			/* of objects in their values */

	/* arguments between tags */
	size_t		value;			/* where the value begins */
	size_t		sent;			/* so much of it was written */
	unsigned	types;
	int			string;			/* what the attribute said; -1: nothing */
	bool		line;			/* behind a call: within the line */

	/* a call in Python's syntax */
	int			depth;			/* brackets */
	char		quote;			/* within a string of these */
	bool		triple;
} ToolRun;

typedef enum Match
{
	NO, PERHAPS, YES
} Match;

ToolStep	tool_run(ToolRun *r);
void		tool_run_free(ToolRun *r);
/* The sum that makes the id of the call at `unit`. */
uint64_t	tool_run_sum(ToolRun *r);
/* Go on here. */
void		tool_run_at(ToolRun *r, size_t pos);
/* The op is done: on to the next. */
ToolStep	tool_run_next(ToolRun *r);
/* Does the text from `at` begin with lit?  Perhaps: it ends too soon to say. */
Match		tool_run_is(const ToolRun *r, size_t at, const char *lit);
/* The same behind white space, which is read. */
Match		tool_run_here(ToolRun *r, const char *lit);
/* The first of n texts (NULL: none) from scan on, where it will be; NO: the text has ended without. */
Match		tool_run_find(ToolRun *r, const char *const *lits, int n, int *which);
/*
 * Behind a whole call: up to one of n texts, the end of the first line that has more than
 * separators, or the text's end, no byte is one of signs, nor does the line begin with one of
 * first: either would be a part of the call.
 */
ToolStep	tool_run_behind(ToolRun *r, const char *const *lits, int n, const char *first, const char *signs);
/* Is one of these bytes in s? */
bool		tool_run_has(Span s, const char *bytes);
static inline Span
tool_run_span(const ToolRun *r, size_t from, size_t to)
{
	return (Span) {r->text->data + from, r->text->data + to};
}

/* Ops with files of their own. */
ToolStep	tool_op_object(ToolRun *r, unsigned flags);
ToolStep	tool_op_args(ToolRun *r);
ToolStep	tool_op_tags(ToolRun *r, const ArgTags *t);
ToolStep	tool_op_python(ToolRun *r, unsigned flags);
ToolStep	tool_op_gemma(ToolRun *r);

/* False if it is there already. */
bool		tool_keys_add(KeySet *k, Span key);
/* Has no object of this JSON text a key twice?  k is emptied first. */
bool		tool_keys_unique(KeySet *k, Span json);

/* What an attribute says, without the quotes that it may have. */
Span		tool_unquoted(Span s);

/*
 * A format.  Output up to the first mark is content, shown as it comes; from there on its ops
 * read calls.  What is no call is content again, from where it began, with all that follows.
 */
struct ToolFormat
{
	const char *marks[TOOL_MARKS];	/* any of them, anywhere */
	const char *lead[TOOL_MARKS];	/* only where nothing but white space precedes */
	bool		lead_after_think;	/* also where only white space follows </think> */
	bool		skip_think;		/* not within <think> and </think> */
	bool		trim;			/* white space before the mark is not content */
	bool		special;		/* marks are special tokens */
	bool		short_ids;		/* nine letters and digits */
	bool		named_ids;		/* functions.NAME:INDEX */
	bool		again;			/* a mark that no call follows is text, and another one is looked for */
	/* In what would be passed over, one of these is a call whose mark is damaged; none given: braces. */
	const char *signs[TOOL_SIGNS];
	const ToolOp *ops;

	/* Instead of all this: a parser of its own. */
	bool		harmony;
};

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
unsigned	tool_type_of(const Json *tools, Span tool, Span param);
/* Does the schema have it? */
bool		tool_has(const Json *tools, Span tool, Span param);
/* Append text as the JSON value that a parameter of these types (0: unknown, a string) makes of it. */
void		tool_typed(Span text, unsigned types, Buf *out);
/* Append text as JSON, else as Python's literal, else as a string. */
void		tool_guessed(Span text, Buf *out);
/* `"key": `, with a comma before it if it is not the first */
void		tool_key(Buf *args, bool first, Span key);

#endif
