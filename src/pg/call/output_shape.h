/*
 * output_shape.h
 *	  The backend's own checks of options for structured output.
 */
#ifndef VLLM_PG_CALL_OUTPUT_SHAPE_H
#define VLLM_PG_CALL_OUTPUT_SHAPE_H

#include "postgres.h"

#include "pg/util/json_tree.h"
#include "pg/call/options.h"

/*
 * The parts of structured_outputs: its kind and its options, each a list of members without braces;
 * NULL: none.
 */
typedef struct StructuredParts
{
	char	   *kind;
	char	   *options;
} StructuredParts;

/* ERROR 22023 if it is not an object, or has a member that structured_outputs doesn't have. */
StructuredParts structured_parts(const char *json);

/* Return true if the response_format constrains nothing. */
bool		format_is_text(const char *json);

/* Return the part of a text of len bytes that an error message shows. */
char	   *shown(const char *s, int len);

/* Parse an option's JSON value; ERROR 22023 if it is not an object. */
const JsonNode *option_object(const char *json, const char *name);

/* ERROR 22023 if no call could use these options: checks names, types and that there is one kind. */
void		answer_shape_check(const GenOptions *o);

#endif
