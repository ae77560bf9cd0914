/*
 * json_tree.c
 *	  A JSON text as a tree, made by PostgreSQL's own parser.
 *
 * jsonb would sort members, drop duplicates and change the spelling of numbers; here a value of type
 * json keeps its own bytes (JsonNode.raw).
 *
 * Tests: tests/sql/28_types.sql.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/jsonfuncs.h"

#include "pg/compat.h"
#include "pg/util/json_tree.h"

#define MAX_DEPTH	1000		/* of nested values; the parser checks its own stack depth */

typedef struct JsonTreeReader
{
	JsonLexContext *lex;
	JsonNode   *root;
	int			depth;			/* number of open objects and arrays */
	JsonNode   *open[MAX_DEPTH];
	char	   *key;			/* of the next member */
	const char *start;			/* start of the next value */
} JsonTreeReader;

const char *
json_kind_name(JsonKind kind)
{
	static const char *const names[] = {
		[JSON_NULL] = "null", [JSON_BOOL] = "a boolean", [JSON_NUMBER] = "a number",
		[JSON_STRING] = "a string", [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array"
	};

	return names[kind];
}

static JsonNode *
add(JsonTreeReader *r, JsonKind kind)
{
	JsonNode   *n;
	JsonNode   *parent = r->depth > 0 ? r->open[r->depth - 1] : NULL;

	/* the parser itself does not check for interrupts */
	CHECK_FOR_INTERRUPTS();
	n = palloc0(sizeof(JsonNode));
	n->kind = kind;
	n->raw = r->start;
	n->key = r->key;
	r->key = NULL;
	if (parent == NULL)
		r->root = n;
	else if (parent->last == NULL)
		parent->first = parent->last = n;
	else
	{
		parent->last->next = n;
		parent->last = n;
	}
	if (parent != NULL)
		parent->n++;
	return n;
}

static void
push(JsonTreeReader *r, JsonKind kind)
{
	JsonNode   *n = add(r, kind);

	if (r->depth == MAX_DEPTH)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("JSON text is nested too deeply"),
				 errdetail("The limit is %d levels.", MAX_DEPTH)));
	r->open[r->depth++] = n;
}

/* End a value of the innermost open object or array. */
static void
end_value(JsonTreeReader *r)
{
	JsonNode   *n = r->open[r->depth - 1]->last;

	n->raw_len = (int) (r->lex->prev_token_terminator - n->raw);
}

static CompatJsonResult
object_start(void *state)
{
	push(state, JSON_OBJECT);
	return COMPAT_JSON_SUCCESS;
}

static CompatJsonResult
array_start(void *state)
{
	push(state, JSON_ARRAY);
	return COMPAT_JSON_SUCCESS;
}

static CompatJsonResult
container_end(void *state)
{
	((JsonTreeReader *) state)->depth--;
	return COMPAT_JSON_SUCCESS;
}

static CompatJsonResult
field_start(void *state, char *fname, bool isnull)
{
	JsonTreeReader *r = state;

	r->key = fname;
	r->start = r->lex->token_start;
	return COMPAT_JSON_SUCCESS;
}

static CompatJsonResult
field_end(void *state, char *fname, bool isnull)
{
	end_value(state);
	return COMPAT_JSON_SUCCESS;
}

static CompatJsonResult
element_start(void *state, bool isnull)
{
	JsonTreeReader *r = state;

	r->start = r->lex->token_start;
	return COMPAT_JSON_SUCCESS;
}

static CompatJsonResult
element_end(void *state, bool isnull)
{
	end_value(state);
	return COMPAT_JSON_SUCCESS;
}

static CompatJsonResult
scalar(void *state, char *token, JsonTokenType type)
{
	JsonNode   *n = add(state, type == JSON_TOKEN_STRING ? JSON_STRING :
						type == JSON_TOKEN_NUMBER ? JSON_NUMBER :
						type == JSON_TOKEN_NULL ? JSON_NULL : JSON_BOOL);

	n->text = token;
	return COMPAT_JSON_SUCCESS;
}

JsonNode *
json_tree(text *json)
{
	JsonTreeReader r = {0};
	JsonSemAction actions = {
		.semstate = &r,
		.object_start = object_start,.object_end = container_end,
		.array_start = array_start,.array_end = container_end,
		.object_field_start = field_start,.object_field_end = field_end,
		.array_element_start = element_start,.array_element_end = element_end,
		.scalar = scalar
	};

	r.lex = compat_json_lexer(json);
	r.start = VARDATA_ANY(json);
	pg_parse_json_or_ereport(r.lex, &actions);
	r.root->raw_len = (int) VARSIZE_ANY_EXHDR(json);
	return r.root;
}

const JsonNode *
json_tree_get(const JsonNode *object, const char *key)
{
	const JsonNode *found = NULL;

	for (const JsonNode *n = object->first; n != NULL; n = n->next)
		if (strcmp(n->key, key) == 0)
			found = n;
	return found;
}
