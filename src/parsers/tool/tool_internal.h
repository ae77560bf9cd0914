/*
 * tool_internal.h
 *	  The description of a format of tool calls, and what formats share.
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

/* ---- emitting calls (tool_emit.c) ---- */

typedef struct CallOut
{
	ParseSink	sink;
	void	   *ctx;
	const ToolFormat *ids;		/* format of the calls' ids; NULL: any */
	int			n;				/* complete calls */
	int			index;			/* index of the next call; a revoked call has used one if it was emitted */
	bool		begun;			/* a call was begun, and has not ended */
	Buf			name;
	Buf			id;				/* the model's own id; empty: one is made */
	Buf			args;			/* arguments' text that has not been emitted yet */
} CallOut;

/* Set the name; return false if it is invalid: empty, or too long. */
bool		callout_named(CallOut *c, Span name);
/*
 * Emit arguments, except for the last `hold` bytes; the call begins with the first.  sum: determines its
 * id.
 */
void		callout_send(CallOut *c, uint64_t sum, size_t hold);
/* End a complete call. */
void		callout_end(CallOut *c, uint64_t sum);
/* Revoke a call. */
void		callout_drop(CallOut *c);
void		callout_free(CallOut *c);

/* ---- what reads a format (tool_run.c) ---- */

typedef enum ToolOpKind
{
	/* advance after the next lit, or after lit2 (then continue at `to`); at the text's end: there are no
	 * more calls */
	OP_SEEK,
	OP_LIT,						/* lit must be here */
	OP_LIT_END,					/* lit must be here, or a beginning of it at the text's end */
	OP_OPT,						/* lit may be here */
	OP_IF,						/* if lit is here, continue at `to` */
	OP_GOTO,
	OP_SKIP,					/* advance after the next lit; the skipped text has no '<' */
	OP_NAME,					/* the tool's name up to lit, or lit2; it contains no '<' */
	OP_ID,						/* the call's id, functions.NAME:INDEX, up to lit, or lit2; it contains no
								 * '<' */
	OP_OBJECT,					/* an object with the call's name and arguments; flags: TJ_ */
	OP_ARGS,					/* the arguments, any JSON value */
	OP_TAGS,					/* the arguments between tags */
	OP_PYTHON,					/* the call as f(a=1); flags: PY_ */
	OP_GEMMA,					/* the arguments up to a brace, in functiongemma's form */
	OP_AFTER,					/* after an object: check up to lit, or lit2, that no rest of the object
								 * is in its line */
	OP_ELEMENT,					/* after a call of an array: its end follows, or another call; flags:
								 * PY_CALL */
	OP_DONE,					/* the call is complete */
	OP_BARE,					/* the text ends here, without a call and without content */
	OP_STOP,					/* there are no more calls */
	OP_TAIL						/* content follows */
} ToolOpKind;

#define OP_PEEK			1		/* OP_SEEK, OP_NAME, OP_IF: lit is not consumed */
#define OP_NO_BRACE		2		/* OP_SEEK: the skipped text has no '{' */
#define OP_NO_TAG		4		/* OP_SEEK: the skipped text has no '<' */
#define OP_ARGS_MARK	8		/* OP_NAME: [CALL_ID]ID and [ARGS] may follow the name */

/* OP_OBJECT: accepted keys of the arguments; both in one object are an error */
#define TJ_ARGUMENTS	16
#define TJ_PARAMETERS	32
#define TJ_OPTIONAL		64		/* arguments may be absent: {} */
#define TJ_OBJECT		128		/* arguments must be an object */
#define TJ_LAX			256		/* accept control characters in strings */
#define TJ_TEXT			512		/* a string contains the arguments' JSON text */

#define PY_JSON			1024	/* OP_PYTHON: true, false and null are literals, too */
#define PY_CALL			2048	/* OP_ELEMENT: calls are f(a=1), not objects */

#define TAG_ENDS		4

/*
 * Arguments between tags.  Text between two arguments is skipped, unless it has a sign of another
 * argument.
 */
typedef struct ArgTags
{
	const char *param;			/* comes before the key */
	const char *key_end;
	const char *value;			/* comes before the value; NULL: the value follows the key */
	const char *param_end;
	const char *end;			/* ends the call */
	const char *also_end[TAG_ENDS]; /* the call also ends before one of these, which don't belong to it */
	const char *after[TAG_ENDS];	/* may follow the call */
	bool		unquote;		/* the key may be in quotes */
	bool		string_attribute;	/* string="true" or "false" after the key decides the type */
	bool		unwrap;			/* one newline at either end of a value belongs to the tags */
	/* param_end may be missing: `end`, or a line that begins with param, ends a value */
	bool		open;
	bool		infer;			/* a value that is no string by its schema is read as JSON, or as Python's
								 * literal, if possible */
} ArgTags;

typedef struct ToolOp
{
	ToolOpKind	kind;
	const char *lit;
	const char *lit2;
	int			to;				/* index of an op */
	unsigned	flags;
	const ArgTags *tags;
} ToolOp;

typedef enum ToolStep
{
	STEP_ON,					/* an op is done */
	STEP_MORE,					/* more text is needed */
	STEP_BAD,					/* the text from `unit` on is no call */
	STEP_END,					/* there are no more calls */
	STEP_TAIL					/* there are no more calls, content follows */
} ToolStep;

/* Reads calls, one after the other, from a growing text. */
typedef struct ToolRun
{
	const ToolOp *ops;
	const Json *tools;			/* the request's; NULL = none */
	const char *const *signs;	/* signs of a call, which skipped text must not have */
	const Buf  *text;
	bool		last;			/* the text is complete */
	bool		bare;			/* only white space was left of the complete text */
	bool		in_mark;		/* the text ends within a mark that was searched */
	size_t		pos;			/* text before this has been read */
	size_t		scan;			/* no mark begins before this */
	size_t		unit;			/* where the call began, or its section; valid if in_unit */
	bool		in_unit;
	int			op;
	int			sub;			/* state within the op */
	uint64_t	sum;			/* checksum of the text before `summed`, and the key */
	size_t		summed;
	CallOut		out;

	/* state of an object, a value */
	JPush		json;
	Buf			key;
	int			target;
	bool		has_name;
	bool		has_args;
	bool		has_other;		/* members that don't belong to a call */
	char		args_first;		/* first byte of the arguments; '\0': none yet */

	KeySet		keys;			/* of a call's arguments */
	KeySet		inner;			/* of objects in the arguments' values */

	/* state of arguments between tags */
	size_t		value;			/* where the value begins */
	size_t		sent;			/* bytes that have been written */
	unsigned	types;
	int			string;			/* value of the attribute; -1: absent */
	bool		line;			/* after a call: within the line */

	/* state of a call in Python's syntax */
	int			depth;			/* open brackets */
	char		quote;			/* within a string of this quote */
	bool		triple;
} ToolRun;

typedef enum Match
{
	NO, PERHAPS, YES
} Match;

ToolStep	tool_run(ToolRun *r);
void		tool_run_free(ToolRun *r);
/* Return the checksum from which the id of the call at `unit` is made. */
uint64_t	tool_run_sum(ToolRun *r);
/* Continue at pos. */
void		tool_run_at(ToolRun *r, size_t pos);
/* End the op and continue with the next. */
ToolStep	tool_run_next(ToolRun *r);
/* Return whether the text from `at` begins with lit; PERHAPS: it is too short to decide. */
Match		tool_run_is(const ToolRun *r, size_t at, const char *lit);
/* The same after white space, which is consumed. */
Match		tool_run_here(ToolRun *r, const char *lit);
/* Search the first of n texts (NULL: none) from scan on, and move scan to it; NO: the text has ended
 * without one. */
Match		tool_run_find(ToolRun *r, const char *const *lits, int n, int *which);
/*
 * After a complete call: check the text up to one of n texts, the end of the first line that has more
 * than separators, or the text's end.  It must contain no byte of signs, and the line must not begin
 * with a byte of first: either would be a part of the call.
 */
ToolStep	tool_run_after(ToolRun *r, const char *const *lits, int n, const char *first, const char *signs);
/* Return true if s contains one of these bytes. */
bool		tool_run_has(Span s, const char *bytes);
static inline Span
tool_run_span(const ToolRun *r, size_t from, size_t to)
{
	return (Span) {r->text->data + from, r->text->data + to};
}

/* Ops with their own files. */
ToolStep	tool_op_object(ToolRun *r, unsigned flags);
ToolStep	tool_op_args(ToolRun *r);
ToolStep	tool_op_tags(ToolRun *r, const ArgTags *t);
ToolStep	tool_op_python(ToolRun *r, unsigned flags);
ToolStep	tool_op_gemma(ToolRun *r);

/* Add a key; return false if it is a duplicate. */
bool		tool_keys_add(KeySet *k, Span key);
/* Return true if no object of this JSON text has a duplicate key.  k is emptied first. */
bool		tool_keys_unique(KeySet *k, Span json);

/* Return an attribute's value, without the quotes that it may have. */
Span		tool_unquoted(Span s);

/*
 * A format.  Output up to the first mark is content, emitted as it is generated; from there on its ops
 * read calls.  Text that is no call is content again, from where it began, with all that follows.
 */
struct ToolFormat
{
	const char *marks[TOOL_MARKS];	/* these marks, anywhere */
	const char *lead[TOOL_MARKS];	/* marks that only white space may precede */
	bool		lead_after_think;	/* lead marks may also follow </think> and white space */
	bool		skip_think;		/* ignore marks within <think> and </think> */
	bool		trim;			/* white space before the mark is not content */
	bool		special;		/* marks are special tokens */
	bool		short_ids;		/* nine letters and digits */
	bool		named_ids;		/* functions.NAME:INDEX */
	bool		again;			/* a mark without a call after it is text, and the search continues */
	/* A sign in skipped text of a call whose mark is damaged; none given: braces. */
	const char *signs[TOOL_SIGNS];
	const ToolOp *ops;

	/* Instead of all this: its own parser. */
	bool		harmony;
};

/* If all of s is one literal, append its JSON. */
bool		tool_python_literal(Span s, Buf *out);

/* ---- arguments as raw text (tool_typed.c) ---- */

/* types that a parameter may have */
#define TT_STRING	1
#define TT_INTEGER	2
#define TT_NUMBER	4
#define TT_BOOLEAN	8
#define TT_OBJECT	16
#define TT_ARRAY	32
#define TT_NULL		64

/* Return the types that the schema gives a parameter; 0 = none. */
unsigned	tool_type_of(const Json *tools, Span tool, Span param);
/* Return true if the schema has the parameter. */
bool		tool_has(const Json *tools, Span tool, Span param);
/* Append text as the JSON value of a parameter of these types (0: unknown, a string). */
void		tool_typed(Span text, unsigned types, Buf *out);
/* Append text as JSON if valid, else as Python's literal, else as a string. */
void		tool_inferred(Span text, Buf *out);
/* Append `"key": `, after a comma if it is not the first. */
void		tool_key(Buf *args, bool first, Span key);

#endif
