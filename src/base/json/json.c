/*
 * json.c
 *	  A JSON text as a tree (json.h).
 *
 * The parser does not recurse, since the author of a text decides how deep it is nested.
 *
 * Tested by tests/unit/base/json/test_json.c.
 */
#include "base/assert.h"
#include "base/json/json.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json/json_reader.h"
#include "base/json/json_value.h"
#include "base/json/json_writer.h"

#define PIECE_LEAST	1024		/* bytes of a tree's first piece of memory; each further piece is larger, up
								 * to PIECE_MOST */
#define PIECE_MOST	(256 << 10)

typedef struct JsonTreePiece JsonTreePiece;
struct JsonTreePiece
{
	JsonTreePiece *next;
	_Alignas(16) char data[];
};

typedef struct JsonTree
{
	Json		root;
	JsonTreePiece *pieces;
	char	   *at;				/* free space in the newest piece */
	size_t		room;
	size_t		size;			/* size of the next piece */
} JsonTree;

static void *
take(JsonTree *t, size_t n)
{
	char	   *to;

	n = (n + 7) & ~(size_t) 7;
	if (n > t->room)
	{
		size_t		size = n > t->size ? n : t->size;
		JsonTreePiece *p = mem_alloc(sizeof(JsonTreePiece) + size);

		p->next = t->pieces;
		t->pieces = p;
		t->at = p->data;
		t->room = size;
		if (t->size < PIECE_MOST)
			t->size *= 2;
	}
	to = t->at;
	t->at += n;
	t->room -= n;
	return to;
}

/* Copy the string or key that was just read, with escapes undone; NULL if it has half a surrogate pair. */
static const char *
take_text(JsonTree *t, const JsonReader *r, size_t *len)
{
	char	   *to = take(t, r->n + 1);

	if (!r->escaped)
	{
		memcpy(to, r->s, r->n);
		*len = r->n;
	}
	else if (!json_unescape(r->s, r->n, JSON_NUL_OK, to, len))
		return NULL;
	to[*len] = '\0';
	return to;
}

/* Set v to the value whose token was just read, without the children of a container. */
static bool
fill(JsonTree *t, Json *v, JsonToken token, const JsonReader *r)
{
	static const JsonType types[] = {
		[JSON_NULL] = JSON_IS_NULL,[JSON_FALSE] = JSON_IS_FALSE,[JSON_TRUE] = JSON_IS_TRUE,
		[JSON_NUMBER] = JSON_IS_NUMBER,[JSON_STRING] = JSON_IS_STRING,[JSON_ARRAY] = JSON_IS_ARRAY,
		[JSON_OBJECT] = JSON_IS_OBJECT
	};

	v->type = types[token];
	if (token == JSON_STRING)
		return (v->s = take_text(t, r, &v->len)) != NULL;
	if (token == JSON_NUMBER)
	{
		char	   *text = take(t, r->n + 1);

		memcpy(text, r->s, r->n);
		text[r->n] = '\0';
		v->s = text;
		v->len = r->n;
		v->num = json_to_double(text, r->n);
	}
	return true;
}

/* Append a null value to a container and return it; NULL if the container would exceed INT_MAX elements. */
static Json *
append(Json *to)
{
	Json	   *v = take(to->tree, sizeof(Json));

	*v = (Json) {.tree = to->tree};
	if (to->last == NULL)
		to->child = v;
	else
		to->last->next = v;
	to->last = v;
	return ++to->n < INT_MAX ? v : NULL;
}

static bool
build(JsonTree *t, JsonReader *r)
{
	Json	   *open[JSON_TREE_DEPTH];
	const char *key = NULL;
	size_t		key_len = 0;
	JsonToken	token;

	while ((token = json_next(r)) > JSON_END)
	{
		/* after an opening bracket the reader's depth already includes the new level */
		int			depth = r->depth - (token == JSON_ARRAY || token == JSON_OBJECT);
		Json	   *v;

		if (token == JSON_CLOSE)
			continue;
		if (token == JSON_KEY)
		{
			key = take_text(t, r, &key_len);
			if (key == NULL)
				return false;
			continue;
		}
		v = depth == 0 ? &t->root : append(open[depth - 1]);
		if (v == NULL || !fill(t, v, token, r))
			return false;
		v->key = key;
		v->key_len = key_len;
		key = NULL;
		key_len = 0;
		if (depth < r->depth)
			open[depth] = v;
	}
	return token == JSON_END;
}

static JsonTree *
tree_new(void)
{
	JsonTree   *t = mem_zalloc(sizeof(JsonTree));

	t->size = PIECE_LEAST;
	t->root.tree = t;
	return t;
}

Json *
json_parse_at(const char *s, size_t n, size_t *at)
{
	JsonTree   *t = tree_new();
	JsonReader	r;
	bool		ok;

	/* skip the byte order mark that some editors write */
	json_begin(&r, s, n, JSON_TREE_DEPTH);
	if (n >= 3 && memcmp(s, "\xEF\xBB\xBF", 3) == 0)
		r.p += 3;
	ok = build(t, &r);
	*at = (size_t) (r.p - s);
	if (ok)
		return &t->root;
	json_free(&t->root);
	return NULL;
}

Json *
json_parse(const char *s, size_t n)
{
	size_t		at;

	return json_parse_at(s, n, &at);
}

void
json_free(Json *root)
{
	JsonTree   *t = root != NULL ? root->tree : NULL;

	if (t == NULL)
		return;
	/* a value within a tree is freed with its tree */
	ALWAYS(root == &t->root);
	for (JsonTreePiece *p = t->pieces, *next; p != NULL; p = next)
	{
		next = p->next;
		mem_free(p);
	}
	mem_free(t);
}

/* ---- reading a tree ---- */

Json *
json_get(const Json *v, const char *key)
{
	size_t		n = strlen(key);
	Json	   *e;

	if (!json_is_object(v))
		return NULL;
	json_each(e, v)
		if (e->key_len == n && memcmp(e->key, key, n) == 0)
			return e;
	return NULL;
}

Json *
json_item(const Json *v, int i)
{
	Json	   *e = v != NULL && i >= 0 ? v->child : NULL;

	while (e != NULL && i-- > 0)
		e = e->next;
	return e;
}

int
json_count(const Json *v)
{
	return v != NULL ? v->n : 0;
}

const char *
json_str_of(const Json *v)
{
	return json_is_string(v) ? v->s : NULL;
}

int
json_to_int(const Json *v)
{
	if (!json_is_number(v))
		return 0;
	return v->num >= INT_MAX ? INT_MAX : v->num <= INT_MIN ? INT_MIN : (int) v->num;
}

bool
json_equal(const Json *a, const Json *b)
{
	const Json *x;
	const Json *y = b->child;

	if (a->type != b->type || json_count(a) != json_count(b))
		return false;
	if (json_is_number(a))
		return a->num == b->num;
	if (json_is_string(a))
		return a->len == b->len && memcmp(a->s, b->s, a->len) == 0;
	json_each(x, a)
	{
		const Json *z = json_is_object(a) ? json_get(b, x->key) : y;

		if (z == NULL || !json_equal(x, z))
			return false;
		y = y->next;
	}
	return true;
}

/* ---- building a tree ---- */

static const char *
copy_text(JsonTree *t, const char *s, size_t n)
{
	char	   *to = take(t, n + 1);

	if (n > 0)
		memcpy(to, s, n);
	to[n] = '\0';
	return to;
}

Json *
json_new(JsonType type)
{
	JsonTree   *t = tree_new();

	t->root.type = type;
	return &t->root;
}

Json *
json_add(Json *to, const char *key, JsonType type)
{
	Json	   *v;

	/* members have keys, items have none */
	ASSERT(to->type == (key != NULL ? JSON_IS_OBJECT : JSON_IS_ARRAY));
	v = append(to);
	v->type = type;
	if (key != NULL)
	{
		v->key_len = strlen(key);
		v->key = copy_text(to->tree, key, v->key_len);
	}
	return v;
}

void
json_add_str(Json *to, const char *key, const char *s)
{
	Json	   *v = json_add(to, key, s != NULL ? JSON_IS_STRING : JSON_IS_NULL);

	if (s == NULL)
		return;
	v->len = strlen(s);
	v->s = copy_text(to->tree, s, v->len);
}

void
json_set_num(Json *v, double x)
{
	Buf			text = {0};

	json_double(&(JsonOut) {.b = &text}, x);
	v->type = JSON_IS_NUMBER;
	v->num = x;
	v->len = text.len;
	v->s = copy_text(v->tree, text.data, text.len);
	buf_free(&text);
}

void
json_add_num(Json *to, const char *key, double x)
{
	json_set_num(json_add(to, key, JSON_IS_NULL), x);
}

void
json_add_bool(Json *to, const char *key, bool x)
{
	json_add(to, key, x ? JSON_IS_TRUE : JSON_IS_FALSE);
}

void
json_add_copy(Json *to, const char *key, const Json *v)
{
	Json	   *copy = json_add(to, key, v->type);
	const Json *e;

	copy->num = v->num;
	copy->len = v->len;
	copy->s = v->s != NULL ? copy_text(to->tree, v->s, v->len) : NULL;
	json_each(e, v)
		json_add_copy(copy, e->key, e);
}

void
json_remove(Json *from, const char *key)
{
	const Json *removed = json_get(from, key);
	Json	   *before = NULL;
	Json	   *e;

	if (removed == NULL)
		return;
	json_each(e, from)
		if (e->next == removed)
			before = e;
	if (before != NULL)
		before->next = removed->next;
	else
		from->child = removed->next;
	if (from->last == removed)
		from->last = before;
	from->n--;
}

/* ---- printing ---- */

static void
print(JsonOut *j, const Json *v)
{
	const Json *e;

	switch (v->type)
	{
		case JSON_IS_NULL:
			json_null(j);
			break;
		case JSON_IS_FALSE:
		case JSON_IS_TRUE:
			json_bool(j, v->type == JSON_IS_TRUE);
			break;
		case JSON_IS_NUMBER:
			json_raw(j, v->s, v->len);
			break;
		case JSON_IS_STRING:
			json_str(j, v->s, v->len);
			break;
		case JSON_IS_ARRAY:
		case JSON_IS_OBJECT:
			json_open(j, v->type == JSON_IS_ARRAY ? '[' : '{');
			json_each(e, v)
			{
				if (e->key != NULL)
				{
					json_str(j, e->key, e->key_len);
					json_colon(j);
				}
				print(j, e);
			}
			json_close(j, v->type == JSON_IS_ARRAY ? ']' : '}');
			break;
	}
}

char *
json_print(const Json *v)
{
	Buf			b = {0};
	JsonOut		j = {.b = &b};

	print(&j, v);
	return b.data;
}
