/*
 * body.c
 *	  A request's body: a tree, and next to it the unparsed text of each member.
 *
 * Inputs of a chat template or a grammar (messages, tools, schemas) are passed on as they were written,
 * since printing the tree would change numbers and escapes.
 *
 * null means "not given", as in the interfaces that the bodies come from.
 *
 * Tested by tests/unit/server/api/test_api.c.
 */
#include "server/api/api_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/json/json.h"
#include "base/json/json_scan.h"
#include "base/json/json_value.h"
#include "base/alloc.h"

/* Find the text of each member; the tree has their values in the same order. */
static bool
take_members(ApiBody *b, const char *s, size_t n, Err *e)
{
	JsonMembers m;
	StrView		key,
				value;
	int			k = 0;

	b->n = json_count(b->root);
	b->m = mem_zalloc((size_t) (b->n + 1) * sizeof(ApiMember));
	(void) json_members(&m, s, n);
	for (const Json *v = b->root->child; v != NULL && json_member(&m, &key, &value) > 0; v = v->next, k++)
	{
		b->m[k].v = v;
		b->m[k].raw = (StrView) {value.s, value.n};
	}
	if (k < b->n || json_member(&m, &key, &value) != 0)
		return err_set(e, ERR_INVALID, "the request's body is not valid JSON");
	return true;
}

bool
apibody_read(ApiBody *b, const char *s, size_t n, Err *e)
{
	memset(b, 0, sizeof(*b));
	if (n == 0 || json_values(s, n, API_MAX_VALUES) > API_MAX_VALUES)
		return n == 0 ? err_set(e, ERR_INVALID, "the request's body is empty") :
			err_set(e, ERR_TOO_LONG, "the request's body has more than %d values", API_MAX_VALUES);
	if (json_has_nul(s, n))
		return err_set(e, ERR_INVALID, "the request's body has the character \\u0000 in a string");
	b->root = json_parse(s, n);
	if (b->root == NULL)
		return err_set(e, ERR_INVALID, "the request's body is not valid JSON, or nested too deeply");
	if (!json_is_object(b->root))
		return err_set(e, ERR_INVALID, "the request's body must be a JSON object");
	return take_members(b, s, n, e);
}

void
apibody_free(ApiBody *b)
{
	json_free(b->root);
	mem_free(b->m);
	memset(b, 0, sizeof(*b));
}

const ApiMember *
apibody_get(ApiBody *b, const char *name)
{
	const ApiMember *found = NULL;

	for (int i = 0; i < b->n; i++)
		if (strcmp(b->m[i].v->key, name) == 0)
		{
			b->m[i].seen = true;
			found = &b->m[i];
		}
	return found != NULL && !json_is_null(found->v) ? found : NULL;
}

void
apibody_ignore(ApiBody *b, const char *const *names)
{
	for (; *names != NULL; names++)
		(void) apibody_get(b, *names);
}

/* Is it a value without effect: false, 0, "", [] or {}? */
static bool
is_neutral(const Json *v)
{
	return json_is_false(v) || (json_is_number(v) && v->num == 0) ||
		(json_is_string(v) && v->s[0] == '\0') ||
		((json_is_array(v) || json_is_object(v)) && v->child == NULL);
}

bool
apibody_refuse(ApiBody *b, const char *const *names, Err *e)
{
	for (; *names != NULL; names++)
	{
		const ApiMember *m = apibody_get(b, *names);

		if (m == NULL || is_neutral(m->v))
			continue;
		err_set(e, ERR_UNSUPPORTED, "%s is not supported", *names);
		return err_detail(e, "parameter=%s", *names);
	}
	return true;
}

bool
api_bad(Err *e, const char *name, const char *what)
{
	err_set(e, ERR_INVALID, "%s %s", name, what);
	return err_detail(e, "parameter=%s", name);
}

/* Report what a member must be, and what it is. */
static bool
wrong(const ApiMember *m, const char *name, const char *must, Err *e)
{
	err_set(e, ERR_INVALID, "%s must be %s, got %.*s", name, must,
			(int) (m->raw.n < 64 ? m->raw.n : 64), m->raw.s);
	return err_detail(e, "parameter=%s", name);
}

bool
apibody_bool(ApiBody *b, const char *name, bool *out, Err *e)
{
	const ApiMember *m = apibody_get(b, name);

	if (m == NULL)
		return true;
	if (!json_is_bool(m->v))
		return wrong(m, name, "true or false", e);
	*out = json_is_true(m->v);
	return true;
}

bool
apibody_int(ApiBody *b, const char *name, int64_t min, int64_t max, int64_t *out, Err *e)
{
	const ApiMember *m = apibody_get(b, name);
	char		text[32];
	char	   *end;
	long long	v;

	if (m == NULL)
		return true;
	/* the tree has only doubles, which lose digits of a seed */
	if (!json_is_number(m->v) || m->v->num != floor(m->v->num))
		return wrong(m, name, "an integer", e);
	snprintf(text, sizeof(text), "%.*s", (int) (m->raw.n < 31 ? m->raw.n : 31), m->raw.s);
	errno = 0;
	v = strtoll(text, &end, 10);
	if (*end == '\0' ? errno != 0 : !(m->v->num >= -0x1p63 && m->v->num < 0x1p63))
		return wrong(m, name, "an integer of 64 bits", e);
	if (*end != '\0')
		v = (long long) m->v->num;	/* for 1e3, 2.0 */
	if (v < min || v > max)
	{
		err_set(e, ERR_INVALID, "%s must be between %" PRId64 " and %" PRId64 ", got %lld", name, min, max,
				v);
		return err_detail(e, "parameter=%s", name);
	}
	*out = v;
	return true;
}

bool
apibody_str(ApiBody *b, const char *name, const char **out, Err *e)
{
	const ApiMember *m = apibody_get(b, name);

	if (m == NULL)
		return true;
	if (!json_is_string(m->v))
		return wrong(m, name, "a string", e);
	*out = m->v->s;
	return true;
}

bool
apibody_is(ApiBody *b, const char *name, bool array, Err *e)
{
	const ApiMember *m = apibody_get(b, name);

	if (m == NULL || (array ? json_is_array(m->v) : json_is_object(m->v)))
		return true;
	return wrong(m, name, array ? "an array" : "an object", e);
}

/* Is the key, which may contain escapes, this name? */
static bool
is_key(StrView key, const char *name)
{
	Buf			text = {0};
	bool		same;

	/* json_member() leaves the quotes out; a string with escapes is read with them */
	ASSERT(key.s[-1] == '"' && key.s[key.n] == '"');
	if (memchr(key.s, '\\', key.n) == NULL)
		return key.n == strlen(name) && memcmp(key.s, name, key.n) == 0;
	same = json_text((StrView) {key.s - 1, key.n + 2}, &text) && strcmp(text.data, name) == 0;
	buf_free(&text);
	return same;
}

const char *
api_str(const Json *object, const char *name)
{
	return json_str_of(json_get(object, name));
}

StrView
api_raw_member(StrView object, const char *name)
{
	JsonMembers m;
	StrView		key,
				value;

	if (object.s != NULL && json_members(&m, object.s, object.n))
		while (json_member(&m, &key, &value) > 0)
			if (is_key(key, name))
				return value;
	return (StrView) {0};
}

void
api_write_members(JsonOut *j, StrView object, const char *except)
{
	JsonMembers m;
	StrView		key,
				value;

	if (!json_members(&m, object.s, object.n))
		return;
	while (json_member(&m, &key, &value) > 0)
	{
		if (is_key(key, except))
			continue;
		json_raw(j, key.s - 1, key.n + 2);
		json_colon(j);
		json_raw(j, value.s, value.n);
	}
}

bool
api_is_ids(const Json *v)
{
	return json_is_array(v) && json_is_number(v->child);
}

bool
api_put_ids(WireOut *o, WireTag tag, const Json *v, const char *name, Err *e)
{
	IntVec		ids = {0};
	bool		ok = true;

	for (const Json *x = v->child; x != NULL && ok; x = x->next)
	{
		ok = json_is_number(x) && x->num >= 0 && x->num <= INT32_MAX &&
			x->num == floor(x->num);
		if (ok)
			intvec_push(&ids, (int32_t) x->num);
	}
	if (ok)
		wire_put_ints(o, tag, ids.data, ids.len);
	else
		api_bad(e, name, "must contain token ids only: integers that are not negative");
	intvec_free(&ids);
	return ok;
}
