/*
 * json_tree.h
 *	  A JSON text as a tree: what PostgreSQL's own parser reads, with members in the
 *	  order and numbers in the spelling that they are written in.
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
	char	   *key;			/* of a member of an object */
	char	   *text;			/* a string's characters, a number as written, true or false */
	const char *raw;			/* the value as it stands in the text */
	int			raw_len;
	struct JsonNode *first;		/* of an object or an array: its n values */
	struct JsonNode *last;
	struct JsonNode *next;
	int			n;
} JsonNode;

/* The tree of a JSON text, which must live as long; an ERROR as the cast to json has it. */
JsonNode   *json_tree(text *json);

/* The member of an object, NULL if there is none; of several with one name the last. */
const JsonNode *json_tree_get(const JsonNode *object, const char *key);

/* What the kind is called in a message. */
const char *json_kind_name(JsonKind kind);

#endif
