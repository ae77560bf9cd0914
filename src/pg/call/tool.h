/*
 * tool.h
 *	  SQL functions as tools of a chat.
 */
#ifndef VLLM_PG_CALL_TOOL_H
#define VLLM_PG_CALL_TOOL_H

#include "postgres.h"

#include "lib/stringinfo.h"

#include "pg/util/json_tree.h"
#include "pg/types/shape.h"

typedef struct ToolArg
{
	const char *name;
	const char *comment;		/* or NULL */
	bool		has_default;
	bool		variadic;
	TypeShape  *shape;
} ToolArg;

typedef struct Tool
{
	Oid			funcid;
	const char *name;			/* the name that the model uses */
	const char *schema;			/* the function's schema, not quoted */
	const char *comment;		/* the function's comment, without its lines about arguments; or NULL */
	bool		returns_set;
	bool		returns_void;
	int			n_args;			/* number of arguments that a call gives */
	ToolArg    *args;
} Tool;

/*
 * Describe the function as a tool.  ERROR 42883, or 0A000 naming the function and what makes it
 * unusable.
 */
Tool	   *tool_of_function(Oid funcid);

/* Append OpenAI's tool object. */
void		tool_json(StringInfo out, const Tool *t);

/*
 * Call the function with a JSON object's members as arguments; return the result as JSON text, in the
 * current context.  Any problem is an ERROR, so the caller uses a subtransaction.
 */
char	   *tool_call(Tool *t, const JsonNode *arguments);

#endif
