/*
 * schema_internal.h
 *	  What the files of the JSON Schema compiler share.
 *
 * A schema becomes a grammar in three steps.
 *
 * 1. Places (schema_resolve.c).  A subschema or a constant is a Place; equal subschemas are one Place,
 * and $ref is followed.  A literal is a Place or its negation; a Goal is a set of literals that a value
 * must satisfy all at once.
 *
 * 2. Shapes (schema_shape.c, schema_expand.c, schema_keywords.c).  A Goal is the union of Shapes.  A
 * Shape says which types a value may have and, per type, which clauses must hold: what remains of all
 * keywords that apply to the value itself.  Members and items are only named by the Goals that they must
 * satisfy.  So allOf, $ref with other keywords, if, not and oneOf need no grammar that can intersect:
 * intersections of objects and arrays are sets of clauses, those of strings and numbers are regular
 * expressions.  Recursion ends because Goals are interned.
 *
 * 3. Emission (schema_emit.c, schema_object.c, schema_scalar.c).
 *	  Each Goal becomes one rule: the alternatives of its Shapes.
 *
 * The arena owns all memory.  Errors are sticky: the first one sets b->failed, after which functions
 * return a harmless value.  Work is counted (schema_work()), so that no schema can take unbounded time.
 */
#ifndef VLLM_GRAMMAR_SCHEMA_SCHEMA_INTERNAL_H
#define VLLM_GRAMMAR_SCHEMA_SCHEMA_INTERNAL_H

#include "grammar/cfg/cfg.h"
#include "grammar/grammar.h"
#include "grammar/schema/decimal.h"
#include "grammar/schema/schema_json.h"

typedef enum SchemaDialect
{
	D_ANY,						/* no $schema: 2020-12, with older drafts' spellings where they differ */
	D_4,
	D_6,
	D_7,
	D_2019,
	D_2020
} SchemaDialect;

typedef struct Builder Builder;
typedef struct Place Place;
typedef struct Goal Goal;
typedef struct Shape Shape;
typedef struct Clause Clause;

/* A Place's number * 2, + 1 if negated. */
typedef uint32_t Lit;

/* ---- places ---- */

/* A list of shapes; a value must fit one of them. */
typedef struct Union
{
	Shape	  **s;
	uint32_t	n,
				cap;
} Union;

struct Place
{
	const Jv   *v;
	bool		constant;		/* the value v itself, not a schema */
	uint32_t	resource;
	uint32_t	id;
	Place	   *target;			/* only for a $ref: the place it refers to */
	Union	   *made[2];		/* positive, negated */
	bool		busy[2];		/* being made: a $ref that leads back here has no meaning */
	const Clause *props;		/* its clauses of members and of items, if it has some */
	const Clause *items;
	bool		props_made,
				items_made;
	Place	   *hash_next;
};

/* A document or a part of one with an $id. */
typedef struct Resource
{
	const Jv   *root;
	const char *id;				/* without fragment; NULL: none */
	size_t		id_len;
	uint32_t	up;				/* the enclosing one */
	SchemaDialect dialect;
} Resource;

typedef struct Anchor
{
	uint32_t	resource;
	const char *name;
	size_t		len;
	const Jv   *v;
} Anchor;

struct Goal
{
	Lit		   *lit;			/* sorted, each once */
	uint32_t	n;
	uint32_t	id;
	bool		nothing;		/* no value satisfies it */
	Union	   *shapes;
	uint8_t		empty;			/* 0 unknown, 1 being determined, 2 no, 3 yes */
	bool		has_rule;
	CfgRule		rule;
	bool		is_node;		/* scalars only: no rule */
	CfgNode		node;
	Goal	   *hash_next;
	Goal	   *queue_next;
};

/* ---- shapes ---- */

enum
{
	T_NULL = 1,
	T_FALSE = 2,
	T_TRUE = 4,
	T_NUM = 8,
	T_STR = 16,
	T_ARR = 32,
	T_OBJ = 64,
	T_ALL = 127
};

typedef enum ClauseKind
{
	/* numbers */
	C_MIN,						/* dec, strict: greater than dec */
	C_MAX,
	C_MULTIPLE,					/* dec */
	C_INTEGER,					/* n: 1 = as in draft-04, without fraction */
	C_NUM_IN,					/* values */
	/* strings */
	C_LEN,						/* n .. max characters */
	C_PATTERN,					/* text */
	C_FORMAT,					/* text */
	C_STR_IN,					/* values */
	/* arrays */
	C_ITEMS,					/* list: the first items; lit: the others */
	C_COUNT_ITEMS,				/* n .. max */
	C_CONTAINS,					/* lit: n .. max items from index `from` on */
	C_UNIQUE,
	/* objects */
	C_PROPS,					/* prop, pattern, lit: the others */
	C_COUNT_PROPS,				/* n .. max */
	C_REQUIRED,					/* text */
	C_FORBIDDEN,				/* text */
	C_VALUE,					/* text, lit: applies if there is such a member */
	C_NAMES,					/* lit: of each name as a string */
	C_DEP,						/* text, text2 */
	C_SOME						/* props, which (pattern, or -1 = the others), lit: some member satisfies
								 * lit */
} ClauseKind;

typedef struct Prop
{
	const char *name;			/* or pattern */
	size_t		len;
	Lit			lit;
	uint32_t	rank;			/* position in the schema, for generation */
} Prop;

struct Clause
{
	ClauseKind	kind;
	bool		neg;			/* numbers, strings: the clause must not hold */
	bool		strict;
	bool		closed_by_default;	/* C_PROPS: the schema doesn't mention other members */
	Lit			lit;
	uint32_t	n,
				max;			/* CFG_INF = no bound */
	uint32_t	from;
	Dec			dec;
	const char *text;
	size_t		len;
	const char *text2;
	size_t		len2;
	const Jv  **values;
	uint32_t	n_values;
	const Lit  *list;
	uint32_t	n_list;
	const Prop *prop;			/* in the schema's order */
	uint32_t	n_props;
	const Prop **sorted;		/* by name */
	const Prop *pattern;
	uint32_t	n_patterns;
	const Clause *props;
	int			which;
	/* set once */
	bool		probed;
	ReNode		probe;
};

typedef struct Clauses
{
	const Clause **c;
	uint32_t	n;
} Clauses;

struct Shape
{
	uint8_t		types;
	Clauses		num,
				str,
				arr,
				obj;
};

/* ---- the builder ---- */

#define SCHEMA_WORK	4000000		/* steps; some tenths of a second */
#define SCHEMA_UNION 3000		/* shapes of one union */

struct Builder
{
	Arena	   *arena;
	Cfg		   *cfg;
	Regex	   *re;				/* the grammar's universe */
	Regex	   *probe;			/* for questions during compilation; raw text */
	const GramOptions *opt;
	Err		   *e;
	bool		failed;
	const char *keyword;		/* the keyword being applied, for messages */
	uint64_t	work;
	int			depth;			/* nesting of in-place schemas */
	int			looking;		/* depth of the search for emptiness */

	Resource   *resource;
	uint32_t	n_resources,
				cap_resources;
	Anchor	   *anchor;
	uint32_t	n_anchors,
				cap_anchors;
	Place	  **place;
	uint32_t	n_places,
				cap_places;
	Place	  **place_hash;
	Goal	  **goal_hash;
	uint32_t	n_goals;
	Goal	   *queue,
			  **queue_end;
	Lit			lit_true,
				lit_false;
	Goal	   *goal_false;

	/* emission */
	ReNode		space;
	ReNode		after_colon;	/* also after a comma */
	CfgNode		comma;
	ReMode		mode;			/* how strings are spelled */
	ReNode		any_string;		/* the inside of a string */
};

/* All return false. */
bool		schema_fail(Builder *b, ErrClass cls, const char *fmt,...) __attribute__((format(printf, 3, 4)));
bool		schema_refuse(Builder *b, const char *keyword, const char *why);
/* Refuse the keyword being applied: it makes too many alternatives. */
bool		schema_too_many(Builder *b);
/* Count n steps; return false if there have been too many. */
bool		schema_work(Builder *b, uint64_t n);

/* schema_resolve.c */
bool		schema_load(Builder *b, const Jv *root, Lit *lit);
/* Return NULL if it refers to nothing (b->failed is set). */
Place	   *schema_ref(Builder *b, const Jv *ref, uint32_t resource);
Lit			schema_lit(Builder *b, const Jv *v, uint32_t resource);
Lit			schema_const(Builder *b, const Jv *v);
SchemaDialect schema_dialect(const Builder *b, const Place *p);
Goal	   *schema_goal(Builder *b, const Lit *lit, uint32_t n);
static inline Lit
lit_not(Lit l)
{
	return l ^ 1;
}

/* schema_expand.c, schema_shape.c */
Union	   *schema_expand(Builder *b, Lit lit);
Union	   *schema_shapes(Builder *b, Goal *g);
/* Return true if the goal certainly has no value. */
bool		schema_empty(Builder *b, Goal *g);
bool		schema_shape_empty(Builder *b, const Shape *s);
Shape	   *shape_any(Builder *b);
Shape	   *shape_with(Builder *b, uint8_t types, const Clause *c);
Shape	   *shape_and(Builder *b, const Shape *x, const Shape *y);	/* NULL: contradiction */
Clause	   *clause_new(Builder *b, ClauseKind kind);
uint8_t		clause_type(ClauseKind kind);
Union	   *union_new(Builder *b);
Union	   *union_all(Builder *b);
void		union_add(Builder *b, Union *u, Shape *s);
void		union_or(Builder *b, Union *u, const Union *x);
Union	   *union_and(Builder *b, const Union *x, const Union *y);

/* schema_keywords.c */
/* Return what the place's keywords require of the value, except for applicators. */
Clauses		schema_clauses(Builder *b, Place *p);
void		schema_sort_props(Builder *b, Clause *c);

/* schema_expand.c */
/* Some of the values, or none of them (neg). */
bool		schema_busy(const Builder *b, Lit lit);

/* schema_object.c, schema_emit.c: what clauses require of one member (more[]: additional literals), of
 * one item */
Goal	   *schema_member(Builder *b, const Clauses *c, const char *name, size_t len, const Lit *more,
						  uint32_t n_more);
Goal	   *schema_item(Builder *b, const Clauses *c, uint32_t i);

/* schema_scalar.c */
/* The set of a shape's numbers, or strings (inside the quotes). */
ReNode		schema_numbers(Builder *b, const Clauses *c);
ReNode		schema_strings(Builder *b, const Clauses *c);
bool		schema_numbers_empty(Builder *b, const Clauses *c);
bool		schema_strings_empty(Builder *b, const Clauses *c);
/* Return true if s is one of the strings that g allows. */
bool		schema_goal_has(Builder *b, Goal *g, const char *s, size_t n);
ReNode		schema_goal_strings(Builder *b, Goal *g);
ReNode		schema_pattern(Builder *b, Regex *re, ReMode mode, const char *s, size_t n);
ReNode		schema_text(Builder *b, const char *s, size_t n);	/* inside the quotes */
ReNode		schema_texts(Builder *b, const char *const *s, const size_t *len, size_t n);

/* schema_object.c, schema_emit.c */
CfgNode		schema_object(Builder *b, const Clauses *c);
CfgNode		schema_node(Builder *b, Goal *g);
CfgNode		schema_open(Builder *b, const char *bracket);
CfgNode		schema_close(Builder *b, const char *bracket);

/* json_format.c: unknown formats have no effect */
bool		schema_format_known(const char *name, size_t n);
bool		schema_format(Regex *re, ReMode mode, const char *name, size_t n, ReNode *out, Err *e);

/* number_regex.c */
ReNode		number_any(Regex *re, bool generate);
ReNode		number_ordered(Regex *re);
ReNode		number_integer(Regex *re, bool plain, bool generate);
ReNode		number_min(Regex *re, const Dec *d, bool strict, bool generate);
ReNode		number_equal(Regex *re, const Dec *d, bool generate);
/* Return true if number_multiple() supports the factor. */
bool		number_multiple_known(const Dec *d, bool generate);
ReNode		number_multiple(Regex *re, const Dec *d, bool generate);

#endif
