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
	const char *name;			/* what the model calls it */
	const char *schema;			/* the function's, quoted nowhere */
	const char *comment;		/* of the function, less the lines about arguments; or NULL */
	bool		returns_set;
	bool		returns_void;
	int			n_args;			/* those that a call gives */
	ToolArg    *args;
} Tool;

/* ERROR 42883, or 0A000 naming the function and what can't be called. */
Tool	   *tool_of_function(Oid funcid);

/* OpenAI's tool object. */
void		tool_json(StringInfo out, const Tool *t);

/*
 * Call it with a JSON object's members as arguments: the result as JSON text, in the current
 * context.  ERROR on whatever is wrong; for use in a subtransaction.
 */
char	   *tool_call(Tool *t, const JsonNode *arguments);

#endif
