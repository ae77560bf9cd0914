/*
 * shape.h
 *	  An SQL type as JSON: what its values look like, as a schema and back.
 *
 * A TypeShape is the tree that both are made of: type_shape() reads the catalog,
 * type_schema() prints a JSON schema, type_value() makes a value of a JSON text.  What the
 * exact schema accepts becomes a value without an error, but for the CHECKs of domains that
 * the schema can't say (TypeCheck.unread).
 *
 *	 boolean			true, false
 *	 numbers			a number; whole ones within the range of the type
 *	 text and its kin	a string
 *	 date, uuid, ...	a string with a pattern
 *	 enum				one of its labels
 *	 array				an array (one dimension), without nulls
 *	 composite			an object with all attributes in their order
 *	 range				{"lower": ..., "upper": ..., "bounds": "[)"}, null = no bound
 *	 json, jsonb		anything
 */
#ifndef VLLM_PG_TYPES_SHAPE_H
#define VLLM_PG_TYPES_SHAPE_H

#include "postgres.h"

#include "access/tupdesc.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "nodes/pg_list.h"

#include "pg/util/json_tree.h"

typedef enum TypeKind
{
	TYPE_BOOL, TYPE_INT, TYPE_FLOAT, TYPE_NUMERIC, TYPE_STRING, TYPE_ENUM, TYPE_JSON,
	TYPE_ARRAY, TYPE_COMPOSITE, TYPE_RANGE
} TypeKind;

struct TypeShape;

typedef struct TypeAttr
{
	const char *name;
	int			column;			/* index in the tuple descriptor */
	bool		nullable;
	const char *comment;		/* or NULL */
	struct TypeShape *shape;
} TypeAttr;

typedef struct TypeShape
{
	Oid			type;			/* may be a domain */
	int32		typmod;
	Oid			base;
	int32		base_typmod;
	TypeKind	kind;
	bool		not_null;		/* a domain that takes no null */
	const char *comment;		/* or NULL */

	/* TYPE_INT: the range; TYPE_FLOAT, TYPE_NUMERIC: texts of the bounds, NULL = none */
	const char *least,
			   *most;
	const struct StringType *string;	/* TYPE_STRING */
	int			max_length;		/* TYPE_STRING: characters, 0 = any */
	struct TypeShape *element;	/* TYPE_ARRAY, TYPE_RANGE */
	int			n_attrs;		/* TYPE_COMPOSITE */
	TypeAttr   *attrs;
	TupleDesc	desc;

	/* domains: what their CHECKs say, as keywords, and those that say more than that */
	List	   *keywords;		/* SchemaKeyword * */
	List	   *unread;			/* names of constraints, char * */

	FmgrInfo	input;			/* TYPE_STRING and others that are read by the type's own function */
	Oid			ioparam;
	bool		has_input;
} TypeShape;

typedef struct SchemaKeyword
{
	const char *name;
	const char *value;			/* JSON */
	StringInfo	arms;			/* of allOf alone: what is within its brackets so far, and value is NULL */
} SchemaKeyword;

/* The shape of a type; ERROR 0A000 naming the type that has none. */
TypeShape  *type_shape(Oid type, int32 typmod);

/* Read a domain's CHECKs into s (check.c). */
void		type_read_checks(TypeShape *s);
/*
 * Was the last error raised by a function that the planner called to fold a constant of a CHECK?  It may have
 * left references behind: only a subtransaction may catch it.  True once an error.
 */
bool		type_folding_failed(void);

/*
 * Print the schema.  For a reader (a model that gets it in its prompt) dates and such have a
 * "format" instead of the long pattern and whole numbers no bounds of their type.
 */
typedef enum SchemaStyle
{
	SCHEMA_EXACT, SCHEMA_READABLE
} SchemaStyle;

void		type_schema(StringInfo out, const TypeShape *s, bool nullable, SchemaStyle style);

/* Members of an attribute's or argument's schema; comment: or NULL. */
void		type_schema_described(StringInfo out, const TypeShape *s, bool nullable, const char *comment,
								  SchemaStyle style);

/*
 * The value of a JSON text, in the current context.  NULL, or the error of one that isn't of
 * the type (22023, or 23514 for a CHECK).
 */
ErrorData  *type_value(TypeShape *s, const JsonNode *json, bool nullable, Datum *value, bool *isnull);

/* A number's text as numeric; what the types of numbers have in common. */
Datum		type_numeric(const char *s);

/* JSON string literal of s, in the server's encoding. */
void		type_put_string(StringInfo out, const char *s);

#endif
