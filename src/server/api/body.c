/*
 * body.c
 *	  A request's body: a tree, and beside it the text of each member.
 *
 * What goes on to a chat template or a grammar (messages, tools, schemas) goes as it was
 * written: a printed tree would have other numbers and other escapes.
 *
 * null means "not given", as in the interfaces that the bodies come from.
 *
 * Tested by tests/unit/server/test_api.c.
 */
#include "server/api/api_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/json_scan.h"
#include "base/alloc.h"

/* The text of each member, whose values the tree has in the same order. */
static bool
take_members(ApiBody *b, const char *s, size_t n, Err *e)
{
	JsonMembers m;
	JsonSpan	key,
				value;
	int			k = 0;

	b->n = cJSON_GetArraySize(b->root);
	b->m = mem_zalloc((size_t) (b->n + 1) * sizeof(ApiMember));
	(void) json_members(&m, s, n);
	for (const cJSON *v = b->root->child; v != NULL && json_member(&m, &key, &value) > 0; v = v->next, k++)
	{
		b->m[k].v = v;
		b->m[k].raw = (ApiText) {value.s, value.n};
	}
	if (k < b->n || json_member(&m, &key, &value) != 0)
		return err_set(e, ERR_INVALID, "the request's body is not valid JSON");
	return true;
}

/* The character U+0000 in a string would end it. */
static bool
has_nul(const char *s, size_t n)
{
	for (size_t i = 0; i + 5 < n; i++)
		if (s[i] == '\\')
		{
			if (memcmp(s + i + 1, "u0000", 5) == 0)
				return true;
			i++;
		}
	return memchr(s, '\0', n) != NULL;
}

static bool
is_blank(const char *s, const char *end)
{
	while (s < end && (*s == ' ' || *s == '\t' || *s == '\n' || *s == '\r'))
		s++;
	return s == end;
}

bool
apibody_read(ApiBody *b, const char *s, size_t n, Err *e)
{
	const char *end = s;

	memset(b, 0, sizeof(*b));
	if (n == 0 || json_values(s, n, API_MAX_VALUES) > API_MAX_VALUES)
		return n == 0 ? err_set(e, ERR_INVALID, "the request's body is empty") :
			err_set(e, ERR_TOO_LONG, "the request's body has more than %d values", API_MAX_VALUES);
	if (has_nul(s, n))
		return err_set(e, ERR_INVALID, "the request's body has the character \\u0000 in a string");
	b->root = cJSON_ParseWithLengthOpts(s, n, &end, false);
	if (b->root == NULL || !is_blank(end, s + n))
		return err_set(e, ERR_INVALID, "the request's body is not valid JSON, or nested too deeply");
	if (!cJSON_IsObject(b->root))
		return err_set(e, ERR_INVALID, "the request's body must be a JSON object");
	return take_members(b, s, n, e);
}

void
apibody_free(ApiBody *b)
{
	cJSON_Delete(b->root);
	mem_free(b->m);
	memset(b, 0, sizeof(*b));
}

const ApiMember *
apibody_get(ApiBody *b, const char *name)
{
	const ApiMember *found = NULL;

	for (int i = 0; i < b->n; i++)
		if (strcmp(b->m[i].v->string, name) == 0)
		{
			b->m[i].seen = true;
			found = &b->m[i];
		}
	return found != NULL && !cJSON_IsNull(found->v) ? found : NULL;
}

void
apibody_ignore(ApiBody *b, const char *const *names)
{
	for (; *names != NULL; names++)
		(void) apibody_get(b, *names);
}

/* A value that asks for nothing: false, 0, "", [] or {}. */
static bool
is_neutral(const cJSON *v)
{
	return cJSON_IsFalse(v) || (cJSON_IsNumber(v) && v->valuedouble == 0) ||
		(cJSON_IsString(v) && v->valuestring[0] == '\0') ||
		((cJSON_IsArray(v) || cJSON_IsObject(v)) && v->child == NULL);
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

/* What a member must be, and what it is. */
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
	if (!cJSON_IsBool(m->v))
		return wrong(m, name, "true or false", e);
	*out = cJSON_IsTrue(m->v);
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
	/* a tree has only doubles, which lose digits of a seed */
	if (!cJSON_IsNumber(m->v) || m->v->valuedouble != floor(m->v->valuedouble) ||
		fabs(m->v->valuedouble) > 9.3e18)
		return wrong(m, name, "an integer", e);
	snprintf(text, sizeof(text), "%.*s", (int) (m->raw.n < 31 ? m->raw.n : 31), m->raw.s);
	v = strtoll(text, &end, 10);
	if (*end != '\0')
		v = (long long) m->v->valuedouble;	/* 1e3, 2.0 */
	if (v < min || v > max)
	{
		err_set(e, ERR_INVALID, "%s must be between %" PRId64 " and %" PRId64 ", got %lld", name, min, max, v);
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
	if (!cJSON_IsString(m->v))
		return wrong(m, name, "a string", e);
	*out = m->v->valuestring;
	return true;
}

bool
apibody_is(ApiBody *b, const char *name, bool array, Err *e)
{
	const ApiMember *m = apibody_get(b, name);

	if (m == NULL || (array ? cJSON_IsArray(m->v) : cJSON_IsObject(m->v)))
		return true;
	return wrong(m, name, array ? "an array" : "an object", e);
}

/* Is this key, whose escapes are not undone, that name? */
static bool
is_key(JsonSpan key, const char *name)
{
	cJSON	   *v;
	bool		same;

	if (memchr(key.s, '\\', key.n) == NULL)
		return key.n == strlen(name) && memcmp(key.s, name, key.n) == 0;
	v = cJSON_ParseWithLength(key.s - 1, key.n + 2);
	same = cJSON_IsString(v) && strcmp(v->valuestring, name) == 0;
	cJSON_Delete(v);
	return same;
}

const char *
api_str(const cJSON *object, const char *name)
{
	return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
}

JsonSpan
api_raw_member(JsonSpan object, const char *name)
{
	JsonMembers m;
	JsonSpan	key,
				value;

	if (object.s != NULL && json_members(&m, object.s, object.n))
		while (json_member(&m, &key, &value) > 0)
			if (is_key(key, name))
				return value;
	return (JsonSpan) {0};
}

void
api_write_members(JsonOut *j, JsonSpan object, const char *except)
{
	JsonMembers m;
	JsonSpan	key,
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
api_is_ids(const cJSON *v)
{
	return cJSON_IsArray(v) && cJSON_IsNumber(v->child);
}

bool
api_put_ids(WireOut *o, WireTag tag, const cJSON *v, const char *name, Err *e)
{
	IntVec		ids = {0};
	bool		ok = true;

	for (const cJSON *x = v->child; x != NULL && ok; x = x->next)
	{
		ok = cJSON_IsNumber(x) && x->valuedouble >= 0 && x->valuedouble <= INT32_MAX &&
			x->valuedouble == floor(x->valuedouble);
		if (ok)
			intvec_push(&ids, (int32_t) x->valuedouble);
	}
	if (ok)
		wire_put_ints(o, tag, ids.data, ids.len);
	else
		api_bad(e, name, "must contain token ids only: integers that are not negative");
	intvec_free(&ids);
	return ok;
}
