/*
 * json_tree.h
 *	  A JSON text as a tree, made by PostgreSQL's own parser, with members in their original
 *	  order and numbers in their original spelling.
 */
#ifndef VLLM_PG_UTIL_JSON_TREE_H
#define VLLM_PG_UTIL_JSON_TREE_H

#include "postgres.h"

typedef enum JsonKind
{
	JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_OBJECT, JSON_ARRAY
} JsonKind;

/* Strings are in the server's encoding. */
typedef struct JsonNode
{
	JsonKind	kind;
	char	   *key;			/* for a member of an object */
	char	   *text;			/* a string's characters, a number as written, true or false */
	const char *raw;			/* the value as it is in the text */
	int			raw_len;
	struct JsonNode *first;		/* for an object or an array: its n values */
	struct JsonNode *last;
	struct JsonNode *next;
	int			n;
} JsonNode;

/* Parse a JSON text, which must live as long as the tree.  Raises the same ERRORs as the cast to json. */
JsonNode   *json_tree(text *json);

/* Return a member of an object, NULL if there is none; of several with the same name, the last. */
const JsonNode *json_tree_get(const JsonNode *object, const char *key);

/* Return the kind's name for a message. */
const char *json_kind_name(JsonKind kind);

#endif
