/*
 * json.h
 *	  A JSON text as a tree, for what is looked at in an order of its own: settings, model files, bodies.
 *
 * Exactly the texts that json_reader.h takes, less those with half a surrogate pair.  Numbers keep their
 * text beside the double, and members their order; of several members of one name all are there, and the
 * first is found.
 *
 * A tree's memory goes as a whole.  A node takes 88 bytes, and two bytes of text are enough for one: values
 * of hostile texts are counted first (json_scan.h).
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
 * All texts have a NUL behind them; one that has U+0000 inside seems shorter where its length isn't looked
 * at.
 */
typedef struct Json Json;
struct Json
{
	JsonType	type;
	int			n;				/* array, object: how many */
	const char *s;				/* string: what it says; number: as it is written; else NULL */
	size_t		len;			/* bytes of s */
	double		num;			/* number; infinite beyond a double's */
	Json	   *child;			/* array, object: the first one */
	Json	   *last;			/* array, object: the last one */
	Json	   *next;
	struct JsonTree *tree;		/* whose memory it is */
	const char *key;			/* of an object's member, else NULL */
	size_t		key_len;
};

/* The tree of n bytes at s, which is the caller's to free; NULL: they are not JSON. */
Json	   *json_parse(const char *s, size_t n);
/* The same; *at: from which byte on they aren't. */
Json	   *json_parse_at(const char *s, size_t n, size_t *at);
void		json_free(Json *root);	/* or NULL */

/*
 * The first member of this name; NULL: none, or v is no object.  All of these take NULL for a value that
 * isn't there.
 */
Json	   *json_get(const Json *v, const char *key);
/* The i-th element or member, or NULL. */
Json	   *json_item(const Json *v, int i);
int			json_count(const Json *v);	/* elements or members */
const char *json_str_of(const Json *v);	/* NULL: no string */
/* The number as an int, cut to an int's range; 0: no number. */
int			json_to_int(const Json *v);
/* Equal values; members may stand in any order, and of several of one name the first counts. */
bool		json_equal(const Json *a, const Json *b);

/* ---- making one ---- */

Json	   *json_new(JsonType type);	/* a tree of one value, which is empty, 0 or null */
/*
 * A new last element of a container, or with a key a member: null, or what is empty.  Keys and texts are
 * copied; a text that is NULL is null.
 */
Json	   *json_add(Json *to, const char *key, JsonType type);
void		json_add_str(Json *to, const char *key, const char *s);
void		json_add_num(Json *to, const char *key, double x);
void		json_add_bool(Json *to, const char *key, bool x);
void		json_add_copy(Json *to, const char *key, const Json *v);
void		json_set_num(Json *v, double x);	/* v becomes this number */
void		json_remove(Json *from, const char *key);	/* the first member of this name, if there is one */

/* The value as compact JSON text, numbers as they were written; the caller's to mem_free(). */
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
