/*
 * cJSON.h
 *	  What the engine uses of cJSON, for machines where it isn't installed (tests/bare/cjson.c).
 */
#ifndef VLLM_TESTS_BARE_CJSON_H
#define VLLM_TESTS_BARE_CJSON_H

#include <stddef.h>

#define cJSON_False		1
#define cJSON_True		2
#define cJSON_NULL		4
#define cJSON_Number	8
#define cJSON_String	16
#define cJSON_Array		32
#define cJSON_Object	64

/* laid out as the library's: objects compiled by its header can be linked with this */
typedef struct cJSON
{
	struct cJSON *next;
	struct cJSON *prev;			/* of the first one: the last */
	struct cJSON *child;
	int			type;
	char	   *valuestring;
	int			valueint;
	double		valuedouble;
	char	   *string;			/* the key */
} cJSON;

typedef int cJSON_bool;

#define cJSON_ArrayForEach(e, of) for (e = (of) != NULL ? (of)->child : NULL; e != NULL; e = e->next)

cJSON	   *cJSON_Parse(const char *s);
cJSON	   *cJSON_ParseWithLength(const char *s, size_t n);
cJSON	   *cJSON_ParseWithOpts(const char *s, const char **end, cJSON_bool whole);
cJSON	   *cJSON_ParseWithLengthOpts(const char *s, size_t n, const char **end, cJSON_bool whole);
char	   *cJSON_Print(const cJSON *j);
char	   *cJSON_PrintUnformatted(const cJSON *j);
void		cJSON_free(void *p);
void		cJSON_Delete(cJSON *j);

cJSON_bool	cJSON_IsFalse(const cJSON *j);
cJSON_bool	cJSON_IsTrue(const cJSON *j);
cJSON_bool	cJSON_IsBool(const cJSON *j);
cJSON_bool	cJSON_IsNull(const cJSON *j);
cJSON_bool	cJSON_IsNumber(const cJSON *j);
cJSON_bool	cJSON_IsString(const cJSON *j);
cJSON_bool	cJSON_IsArray(const cJSON *j);
cJSON_bool	cJSON_IsObject(const cJSON *j);

int			cJSON_GetArraySize(const cJSON *j);
cJSON	   *cJSON_GetArrayItem(const cJSON *j, int i);
cJSON	   *cJSON_GetObjectItem(const cJSON *j, const char *key);
cJSON	   *cJSON_GetObjectItemCaseSensitive(const cJSON *j, const char *key);
cJSON_bool	cJSON_HasObjectItem(const cJSON *j, const char *key);
char	   *cJSON_GetStringValue(const cJSON *j);
double		cJSON_GetNumberValue(const cJSON *j);
cJSON_bool	cJSON_Compare(const cJSON *a, const cJSON *b, cJSON_bool exact);

cJSON	   *cJSON_CreateNull(void);
cJSON	   *cJSON_CreateBool(cJSON_bool b);
cJSON	   *cJSON_CreateNumber(double x);
cJSON	   *cJSON_CreateString(const char *s);
cJSON	   *cJSON_CreateArray(void);
cJSON	   *cJSON_CreateObject(void);
cJSON	   *cJSON_CreateDoubleArray(const double *x, int n);
cJSON	   *cJSON_Duplicate(const cJSON *j, cJSON_bool deep);

cJSON_bool	cJSON_AddItemToArray(cJSON *to, cJSON *item);
cJSON_bool	cJSON_AddItemToObject(cJSON *to, const char *key, cJSON *item);
cJSON_bool	cJSON_AddItemReferenceToObject(cJSON *to, const char *key, cJSON *item);
cJSON	   *cJSON_AddNullToObject(cJSON *to, const char *key);
cJSON	   *cJSON_AddBoolToObject(cJSON *to, const char *key, cJSON_bool b);
cJSON	   *cJSON_AddNumberToObject(cJSON *to, const char *key, double x);
cJSON	   *cJSON_AddStringToObject(cJSON *to, const char *key, const char *s);
cJSON	   *cJSON_AddObjectToObject(cJSON *to, const char *key);
cJSON	   *cJSON_AddArrayToObject(cJSON *to, const char *key);
cJSON	   *cJSON_DetachItemFromObjectCaseSensitive(cJSON *from, const char *key);
void		cJSON_DeleteItemFromObjectCaseSensitive(cJSON *from, const char *key);
cJSON_bool	cJSON_ReplaceItemInObject(cJSON *in, const char *key, cJSON *item);

#endif
