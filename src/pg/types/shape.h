/*
 * shape.h
 *	  The JSON form of an SQL type: the schema of its values, and conversion from JSON.
 *
 * A TypeShape is the tree that both use: type_shape() builds it from the catalog, type_schema()
 * prints a JSON schema of it, type_value() makes a value of a JSON text.  Every text that the exact
 * schema accepts can be converted without an error, except where domains have CHECKs that the schema
 * can't express (TypeShape.unread).
 *
 *	 boolean			true, false
 *	 numbers			a number; integers within the range of the type
 *	 text, varchar, ...	a string
 *	 date, uuid, ...	a string with a pattern
 *	 enum				one of its labels
 *	 array				an array (one dimension), without nulls
 *	 composite			an object with all attributes in their order
 *	 range				{"lower": ..., "upper": ..., "bounds": "[)"}, null = no bound
 *	 json, jsonb		any JSON value
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
	bool		not_null;		/* a domain that does not accept NULL */
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

	/* domains: their CHECKs as keywords, and the constraints that keywords don't express completely */
	List	   *keywords;		/* SchemaKeyword * */
	List	   *unread;			/* names of constraints, char * */

	FmgrInfo	input;			/* for TYPE_STRING and other types that are read by their own input
								 * function */
	Oid			ioparam;
	bool		has_input;
} TypeShape;

typedef struct SchemaKeyword
{
	const char *name;
	const char *value;			/* JSON */
	StringInfo	arms;			/* only for allOf: the content of its brackets so far; value is NULL then */
} SchemaKeyword;

/* Return the shape of a type; ERROR 0A000 names a type that has none. */
TypeShape  *type_shape(Oid type, int32 typmod);

/* Read a domain's CHECKs into s (check.c). */
void		type_read_checks(TypeShape *s);
/*
 * Return true if the last error was raised by a function that the planner called to fold a constant
 * of a CHECK.  Such an error may have left resources behind, so only a subtransaction may catch it.
 * Returns true once for each error.
 */
bool		type_folding_failed(void);

/*
 * Print the schema.  In a schema for a reader (a model that gets it in its prompt), dates and similar
 * types have a "format" instead of the long pattern, and integers have no bounds of their type.
 */
typedef enum SchemaStyle
{
	SCHEMA_EXACT, SCHEMA_READABLE
} SchemaStyle;

void		type_schema(StringInfo out, const TypeShape *s, bool nullable, SchemaStyle style);

/* Print the members of an attribute's or argument's schema; comment: or NULL */
void		type_schema_described(StringInfo out, const TypeShape *s, bool nullable, const char *comment,
								  SchemaStyle style);

/*
 * Make the value of a JSON text, in the current context.  Return NULL, or the error of a text that is
 * not of the type (22023, or 23514 for a CHECK).
 */
ErrorData  *type_value(TypeShape *s, const JsonNode *json, bool nullable, Datum *value, bool *isnull);

/* Convert a number's text to numeric, from which all number types are made. */
Datum		type_numeric(const char *s);

/* Append s as a JSON string literal, in the server's encoding. */
void		type_put_string(StringInfo out, const char *s);

#endif
