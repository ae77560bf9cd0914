/*
 * output_shape.h
 *	  What a backend itself reads in the options of structured output.
 */
#ifndef VLLM_PG_CALL_OUTPUT_SHAPE_H
#define VLLM_PG_CALL_OUTPUT_SHAPE_H

#include "postgres.h"

#include "pg/util/json_tree.h"
#include "pg/call/options.h"

/*
 * structured_outputs, taken apart: its kind and its options, each a list of members without braces; NULL:
 * none.
 */
typedef struct StructuredParts
{
	char	   *kind;
	char	   *options;
} StructuredParts;

/* ERROR 22023 if it is no object, or has a member that structured_outputs doesn't have. */
StructuredParts structured_parts(const char *json);

/* Is the response_format one that constrains nothing? */
bool		format_is_text(const char *json);

/* As much of a text of len bytes as an error message shows. */
char	   *shown(const char *s, int len);

/* The tree of an option's JSON value; ERROR 22023 if that is no object. */
const JsonNode *option_object(const char *json, const char *name);

/* ERROR 22023 if no call could use these options: names, types and the number of kinds. */
void		answer_shape_check(const GenOptions *o);

#endif
