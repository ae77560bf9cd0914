/*
 * json.h
 *	  A JSON text as a tree, for texts that are not read from start to end: settings, model files,
 *	  bodies.
 *
 * Accepts exactly the texts that json_reader.h accepts, except those with half a surrogate pair.  A
 * number keeps its text beside the double, and members keep their order.  If several members have the
 * same name, the tree has all of them, and json_get() returns the first.
 *
 * A tree is freed as a whole.  A node takes 88 bytes, and two bytes of text can make one: callers count
 * the values of an untrusted text first (json_scan.h).
 */
#ifndef VLLM_BASE_JSON_JSON_H
#define VLLM_BASE_JSON_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_TREE_DEPTH	1000	/* levels of brackets */

typedef enum JsonType
{
	JSON_IS_NULL,
	JSON_IS_FALSE,
	JSON_IS_TRUE,
	JSON_IS_NUMBER,
	JSON_IS_STRING,
	JSON_IS_ARRAY,
	JSON_IS_OBJECT
} JsonType;

/*
 * All strings are NUL-terminated.  A string that contains U+0000 looks shorter to a reader that ignores
 * its length.
 */
typedef struct Json Json;
struct Json
{
	JsonType	type;
	int			n;				/* array, object: number of children */
	const char *s;				/* string: its value; number: its text; else NULL */
	size_t		len;			/* bytes of s */
	double		num;			/* number; infinite if it exceeds the range of a double */
	Json	   *child;			/* array, object: the first child */
	Json	   *last;			/* array, object: the last child */
	Json	   *next;
	struct JsonTree *tree;		/* the tree whose memory it belongs to */
	const char *key;			/* name of an object's member, else NULL */
	size_t		key_len;
};

/* Return the tree of the n bytes at s, which the caller must free; NULL if they are not JSON. */
Json	   *json_parse(const char *s, size_t n);
/* The same; on failure *at is the offset of the first byte that is not JSON. */
Json	   *json_parse_at(const char *s, size_t n, size_t *at);
void		json_free(Json *root);	/* accepts NULL */

/*
 * Return the first member with this name; NULL if there is none or v is not an object.  All functions
 * that read a value accept NULL as an absent value.
 */
Json	   *json_get(const Json *v, const char *key);
/* Return the i-th element or member, or NULL. */
Json	   *json_item(const Json *v, int i);
int			json_count(const Json *v);	/* number of elements or members */
const char *json_str_of(const Json *v);	/* NULL if v is not a string */
/* Return the number as an int, clamped to an int's range; 0 if v is not a number. */
int			json_to_int(const Json *v);
/*
 * Return true if the values are equal.  Members may be in any order; if several have the same name, the
 * first counts.
 */
bool		json_equal(const Json *a, const Json *b);

/* ---- building a tree ---- */

Json	   *json_new(JsonType type);	/* a tree of one value: an empty container or string, 0 or null */
/*
 * Append an element to an array, or with a key a member to an object, and return it; it is null or
 * empty.  Keys and texts are copied.  A text of NULL adds null.
 */
Json	   *json_add(Json *to, const char *key, JsonType type);
void		json_add_str(Json *to, const char *key, const char *s);
void		json_add_num(Json *to, const char *key, double x);
void		json_add_bool(Json *to, const char *key, bool x);
void		json_add_copy(Json *to, const char *key, const Json *v);
void		json_set_num(Json *v, double x);	/* turns v into a number */
void		json_remove(Json *from, const char *key);	/* removes the first member with this name, if any */

/*
 * Return the value as compact JSON text, numbers as they were written; the caller frees it with
 * mem_free().
 */
char	   *json_print(const Json *v);

#define json_each(e, of) for (e = (of) != NULL ? (of)->child : NULL; e != NULL; e = e->next)

static inline bool
json_is_type(const Json *v, JsonType type)
{
	return v != NULL && v->type == type;
}

static inline bool
json_is_null(const Json *v)
{
	return json_is_type(v, JSON_IS_NULL);
}

static inline bool
json_is_true(const Json *v)
{
	return json_is_type(v, JSON_IS_TRUE);
}

static inline bool
json_is_false(const Json *v)
{
	return json_is_type(v, JSON_IS_FALSE);
}

static inline bool
json_is_bool(const Json *v)
{
	return json_is_true(v) || json_is_false(v);
}

static inline bool
json_is_number(const Json *v)
{
	return json_is_type(v, JSON_IS_NUMBER);
}

static inline bool
json_is_string(const Json *v)
{
	return json_is_type(v, JSON_IS_STRING);
}

static inline bool
json_is_array(const Json *v)
{
	return json_is_type(v, JSON_IS_ARRAY);
}

static inline bool
json_is_object(const Json *v)
{
	return json_is_type(v, JSON_IS_OBJECT);
}

#endif
