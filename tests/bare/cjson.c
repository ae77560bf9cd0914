/*
 * cjson.c
 *	  What the engine uses of cJSON, for machines where it isn't installed: `make check-gpu` computes with whole models, and
 *	  needs nothing but a compiler.
 *
 * Behaves as the library does where the programs of check-gpu look; what none of them calls isn't defined.  Their twins in
 * tests/emu/module.mk are linked with it, too, in place of the library.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cjson/cJSON.h"

#define MAX_DEPTH 1000

static void *
zalloc(size_t n)
{
	void	   *p = calloc(1, n);

	if (p == NULL)
		abort();
	return p;
}

static char *
copy_of(const char *s, size_t n)
{
	char	   *c = zalloc(n + 1);

	memcpy(c, s, n);
	return c;
}

static cJSON *
node(int type)
{
	cJSON	   *j = zalloc(sizeof(cJSON));

	j->type = type;
	return j;
}

void
cJSON_free(void *p)
{
	free(p);
}

void
cJSON_Delete(cJSON *j)
{
	for (cJSON *next; j != NULL; j = next)
	{
		next = j->next;
		cJSON_Delete(j->child);
		free(j->valuestring);
		free(j->string);
		free(j);
	}
}

/* ---- what a value is ---- */

static cJSON_bool
is(const cJSON *j, int types)
{
	return j != NULL && (j->type & types) != 0;
}

cJSON_bool
cJSON_IsFalse(const cJSON *j)
{
	return is(j, cJSON_False);
}

cJSON_bool
cJSON_IsTrue(const cJSON *j)
{
	return is(j, cJSON_True);
}

cJSON_bool
cJSON_IsBool(const cJSON *j)
{
	return is(j, cJSON_True | cJSON_False);
}

cJSON_bool
cJSON_IsNull(const cJSON *j)
{
	return is(j, cJSON_NULL);
}

cJSON_bool
cJSON_IsNumber(const cJSON *j)
{
	return is(j, cJSON_Number);
}

cJSON_bool
cJSON_IsString(const cJSON *j)
{
	return is(j, cJSON_String);
}

cJSON_bool
cJSON_IsArray(const cJSON *j)
{
	return is(j, cJSON_Array);
}

cJSON_bool
cJSON_IsObject(const cJSON *j)
{
	return is(j, cJSON_Object);
}

char *
cJSON_GetStringValue(const cJSON *j)
{
	return cJSON_IsString(j) ? j->valuestring : NULL;
}

double
cJSON_GetNumberValue(const cJSON *j)
{
	return cJSON_IsNumber(j) ? j->valuedouble : (double) NAN;
}

int
cJSON_GetArraySize(const cJSON *j)
{
	const cJSON *e;
	int			n = 0;

	cJSON_ArrayForEach(e, j)
		n++;
	return n;
}

cJSON *
cJSON_GetArrayItem(const cJSON *j, int i)
{
	cJSON	   *e;

	cJSON_ArrayForEach(e, j)
		if (i-- == 0)
			return e;
	return NULL;
}

cJSON *
cJSON_GetObjectItemCaseSensitive(const cJSON *j, const char *key)
{
	cJSON	   *e;

	cJSON_ArrayForEach(e, j)
		if (e->string != NULL && strcmp(e->string, key) == 0)
			return e;
	return NULL;
}

/* the engine asks for names without upper case */
cJSON_bool
cJSON_HasObjectItem(const cJSON *j, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(j, key) != NULL;
}

/* ---- values are made ---- */

static void
set_number(cJSON *j, double x)
{
	j->valuedouble = x;
	j->valueint = x >= 2147483647.0 ? 2147483647 : x <= -2147483648.0 ? -2147483647 - 1 : isnan(x) ? 0 : (int) x;
}

cJSON *
cJSON_CreateObject(void)
{
	return node(cJSON_Object);
}

cJSON_bool
cJSON_AddItemToArray(cJSON *to, cJSON *item)
{
	if (to == NULL || item == NULL)
		return false;
	if (to->child == NULL)
		to->child = item;
	else
	{
		to->child->prev->next = item;
		item->prev = to->child->prev;
	}
	to->child->prev = item;
	return true;
}

cJSON_bool
cJSON_AddItemToObject(cJSON *to, const char *key, cJSON *item)
{
	if (item == NULL)
		return false;
	free(item->string);
	item->string = copy_of(key, strlen(key));
	return cJSON_AddItemToArray(to, item);
}

static cJSON *
add(cJSON *to, const char *key, cJSON *item)
{
	if (cJSON_AddItemToObject(to, key, item))
		return item;
	cJSON_Delete(item);
	return NULL;
}

cJSON *
cJSON_AddBoolToObject(cJSON *to, const char *key, cJSON_bool b)
{
	return add(to, key, node(b ? cJSON_True : cJSON_False));
}

cJSON *
cJSON_AddStringToObject(cJSON *to, const char *key, const char *s)
{
	cJSON	   *j = node(cJSON_String);

	j->valuestring = copy_of(s, strlen(s));
	return add(to, key, j);
}

cJSON *
cJSON_AddObjectToObject(cJSON *to, const char *key)
{
	return add(to, key, node(cJSON_Object));
}

cJSON *
cJSON_CreateDoubleArray(const double *x, int n)
{
	cJSON	   *a = node(cJSON_Array);

	for (int i = 0; i < n; i++)
	{
		cJSON	   *j = node(cJSON_Number);

		set_number(j, x[i]);
		cJSON_AddItemToArray(a, j);
	}
	return a;
}

cJSON *
cJSON_Duplicate(const cJSON *j, cJSON_bool deep)
{
	cJSON	   *c;
	const cJSON *e;

	if (j == NULL)
		return NULL;
	c = node(j->type);
	c->valueint = j->valueint;
	c->valuedouble = j->valuedouble;
	c->valuestring = j->valuestring != NULL ? copy_of(j->valuestring, strlen(j->valuestring)) : NULL;
	c->string = j->string != NULL ? copy_of(j->string, strlen(j->string)) : NULL;
	if (deep)
		cJSON_ArrayForEach(e, j)
			cJSON_AddItemToArray(c, cJSON_Duplicate(e, deep));
	return c;
}

cJSON *
cJSON_DetachItemFromObjectCaseSensitive(cJSON *from, const char *key)
{
	cJSON	   *e = cJSON_GetObjectItemCaseSensitive(from, key);

	if (e == NULL)
		return NULL;
	if (e != from->child)
		e->prev->next = e->next;
	if (e->next != NULL)
		e->next->prev = e->prev;
	else
		from->child->prev = e->prev;
	if (e == from->child)
		from->child = e->next;
	e->next = e->prev = NULL;
	return e;
}

void
cJSON_DeleteItemFromObjectCaseSensitive(cJSON *from, const char *key)
{
	cJSON_Delete(cJSON_DetachItemFromObjectCaseSensitive(from, key));
}

/* ---- from text ---- */

typedef struct Text
{
	const char *p;
	const char *end;
	int			depth;
} Text;

static void
skip_space(Text *t)
{
	while (t->p < t->end && *t->p != '\0' && (unsigned char) *t->p <= ' ')
		t->p++;
}

static bool
take(Text *t, const char *word)
{
	size_t		n = strlen(word);

	if ((size_t) (t->end - t->p) < n || memcmp(t->p, word, n) != 0)
		return false;
	t->p += n;
	return true;
}

static char *
put_utf8(char *to, unsigned cp)
{
	static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
	int			n = cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;

	for (int i = n - 1; i > 0; i--, cp >>= 6)
		to[i] = (char) (0x80 | (cp & 0x3F));
	to[0] = (char) (n == 1 ? cp : lead[n] | cp);
	return to + n;
}

static bool
read_hex(Text *t, unsigned *out)
{
	*out = 0;
	if (t->end - t->p < 4)
		return false;
	for (int i = 0; i < 4; i++, t->p++)
	{
		const char *digits = "0123456789abcdef";
		const char *at = *t->p != '\0' ? strchr(digits, *t->p | 0x20) : NULL;

		if (at == NULL)
			return false;
		*out = *out * 16 + (unsigned) (at - digits);
	}
	return true;
}

/* behind the backslash */
static bool
read_escape(Text *t, char **to)
{
	static const char from[] = "\"\\/bfnrt";
	static const char is[] = "\"\\/\b\f\n\r\t";
	const char *at = *t->p != '\0' ? strchr(from, *t->p) : NULL;
	unsigned	cp;
	unsigned	low;

	if (at != NULL)
	{
		*(*to)++ = is[at - from];
		t->p++;
		return true;
	}
	if (*t->p++ != 'u' || !read_hex(t, &cp) || (cp >= 0xDC00 && cp < 0xE000))
		return false;
	if (cp >= 0xD800 && cp < 0xDC00)
	{
		if (!take(t, "\\u") || !read_hex(t, &low) || low < 0xDC00 || low >= 0xE000)
			return false;
		cp = 0x10000 + ((cp & 0x3FF) << 10 | (low & 0x3FF));
	}
	*to = put_utf8(*to, cp);
	return true;
}

static char *
read_string(Text *t)
{
	const char *stop = t->p + 1;
	char	   *s;
	char	   *to;

	if (t->p >= t->end || *t->p != '"')
		return NULL;
	while (stop < t->end && *stop != '"')
		stop += *stop == '\\' ? 2 : 1;
	if (stop >= t->end)
		return NULL;
	s = to = zalloc((size_t) (stop - t->p));
	for (t->p++; t->p < stop;)
		if (*t->p != '\\')
			*to++ = *t->p++;
		else if (t->p++, !read_escape(t, &to))
		{
			free(s);
			return NULL;
		}
	t->p = stop + 1;
	return s;
}

static cJSON *
read_number(Text *t)
{
	char		digits[64];
	size_t		n = 0;
	char	   *stop;
	double		x;
	cJSON	   *j;

	while (n < sizeof(digits) - 1 && t->p + n < t->end && t->p[n] != '\0' && strchr("0123456789+-eE.", t->p[n]) != NULL)
	{
		digits[n] = t->p[n];
		n++;
	}
	digits[n] = '\0';
	x = strtod(digits, &stop);
	if (stop == digits)
		return NULL;
	t->p += stop - digits;
	j = node(cJSON_Number);
	set_number(j, x);
	return j;
}

static cJSON *read_value(Text *t);

static cJSON *
read_list(Text *t, int type, char close)
{
	cJSON	   *list = node(type);
	bool		ok = t->depth++ < MAX_DEPTH;

	t->p++;
	skip_space(t);
	if (ok && t->p < t->end && *t->p == close)
	{
		t->p++;
		t->depth--;
		return list;
	}
	while (ok)
	{
		char	   *key = NULL;
		cJSON	   *item = NULL;

		skip_space(t);
		if (type == cJSON_Object)
		{
			key = read_string(t);
			skip_space(t);
			ok = key != NULL && take(t, ":");
		}
		item = ok ? read_value(t) : NULL;
		ok = item != NULL;
		if (!ok)
		{
			free(key);
			break;
		}
		item->string = key;
		cJSON_AddItemToArray(list, item);
		skip_space(t);
		if (take(t, ","))
			continue;
		ok = t->p < t->end && *t->p == close;
		t->p++;
		break;
	}
	t->depth--;
	if (ok)
		return list;
	cJSON_Delete(list);
	return NULL;
}

static cJSON *
read_value(Text *t)
{
	cJSON	   *j;

	skip_space(t);
	if (t->p >= t->end)
		return NULL;
	switch (*t->p)
	{
		case '{':
			return read_list(t, cJSON_Object, '}');
		case '[':
			return read_list(t, cJSON_Array, ']');
		case '"':
			{
				char	   *s = read_string(t);

				if (s == NULL)
					return NULL;
				j = node(cJSON_String);
				j->valuestring = s;
				return j;
			}
		case 't':
			return take(t, "true") ? node(cJSON_True) : NULL;
		case 'f':
			return take(t, "false") ? node(cJSON_False) : NULL;
		case 'n':
			return take(t, "null") ? node(cJSON_NULL) : NULL;
		default:
			return read_number(t);
	}
}

cJSON *
cJSON_ParseWithLengthOpts(const char *s, size_t n, const char **end, cJSON_bool whole)
{
	Text		t = {.p = s, .end = s + n};
	cJSON	   *j;

	(void) take(&t, "\xEF\xBB\xBF");
	j = read_value(&t);
	if (whole && j != NULL)
	{
		skip_space(&t);
		if (t.p >= t.end || *t.p != '\0')
		{
			cJSON_Delete(j);
			j = NULL;
		}
	}
	if (end != NULL)
		*end = t.p;
	return j;
}

cJSON *
cJSON_ParseWithLength(const char *s, size_t n)
{
	return cJSON_ParseWithLengthOpts(s, n, NULL, false);
}

cJSON *
cJSON_ParseWithOpts(const char *s, const char **end, cJSON_bool whole)
{
	return cJSON_ParseWithLengthOpts(s, strlen(s) + 1, end, whole);
}

cJSON *
cJSON_Parse(const char *s)
{
	return cJSON_ParseWithLength(s, strlen(s) + 1);
}

/* ---- to text ---- */

static void
print_string(FILE *f, const char *s)
{
	fputc('"', f);
	for (; *s != '\0'; s++)
		if (*s == '"' || *s == '\\')
			fprintf(f, "\\%c", *s);
		else if ((unsigned char) *s < ' ')
			fprintf(f, "\\u%04x", (unsigned char) *s);
		else
			fputc(*s, f);
	fputc('"', f);
}

static void
print_number(FILE *f, double x)
{
	char		s[40];

	snprintf(s, sizeof(s), "%1.15g", x);
	if (strtod(s, NULL) != x)
		snprintf(s, sizeof(s), "%1.17g", x);
	fputs(isfinite(x) ? s : "null", f);
}

static void
print(FILE *f, const cJSON *j)
{
	const cJSON *e;

	switch (j->type)
	{
		case cJSON_Number:
			print_number(f, j->valuedouble);
			break;
		case cJSON_String:
			print_string(f, j->valuestring);
			break;
		case cJSON_Array:
		case cJSON_Object:
			fputc(j->type == cJSON_Array ? '[' : '{', f);
			cJSON_ArrayForEach(e, j)
			{
				if (e != j->child)
					fputc(',', f);
				if (j->type == cJSON_Object)
				{
					print_string(f, e->string);
					fputc(':', f);
				}
				print(f, e);
			}
			fputc(j->type == cJSON_Array ? ']' : '}', f);
			break;
		default:
			fputs(j->type == cJSON_True ? "true" : j->type == cJSON_False ? "false" : "null", f);
	}
}

char *
cJSON_PrintUnformatted(const cJSON *j)
{
	char	   *text = NULL;
	size_t		n;
	FILE	   *f = j != NULL ? open_memstream(&text, &n) : NULL;

	if (f == NULL)
		return NULL;
	print(f, j);
	fclose(f);
	return text;
}
