/*
 * guc_json.c
 *	  Check hooks of vllm.eplb_config and vllm.speculative_config: keys and their ranges.
 *
 * The engine reads them with the same tables (ipc/eplb_keys.def, ipc/speculative_keys.def) and makes
 * further checks when a model is loaded: which methods and files exist.
 *
 * Tests: tests/sql/30_bodies.sql, tests/t/105_eplb.pl, tests/t/096_speculation.pl.
 */
#include "postgres.h"

#include <limits.h>
#include <math.h>

#include "lib/stringinfo.h"
#include "utils/builtins.h"

#include "ipc/control_protocol.h"
#include "pg/init/guc_json.h"
#include "pg/util/json_tree.h"
#include "pg/util/setting_check.h"

/* longest value that fits into a line on the control socket with the longest name of such a setting */
#define MAX_OBJECT	(CONTROL_LINE - (int) strlen(CONTROL_CONFIG " speculative_config=\n") - 1)

typedef enum ObjectKeyKind
{
	KEY_INT, KEY_REAL, KEY_BOOL, KEY_ASYNC, KEY_POLICY, KEY_ANY
} ObjectKeyKind;

typedef struct ObjectKey
{
	const char *name;
	ObjectKeyKind kind;
	const char *method;
	double		min;
	double		max;
} ObjectKey;

static const ObjectKey eplb_keys[] = {
#define EPLB_KEY(name, kind, field, min, max) {#name, KEY_##kind, NULL, min, max},
#include "ipc/eplb_keys.def"
#undef EPLB_KEY
	{NULL}
};

static const ObjectKey speculative_keys[] = {
	{"method", KEY_ANY},
#define SPECULATIVE_WORD(name) {#name, KEY_ANY},
#include "ipc/speculative_keys.def"
#undef SPECULATIVE_WORD
#define SPECULATIVE_KEY(name, method, field, real, min, max) \
	{#name, real ? KEY_REAL : KEY_INT, method, min, max},
#include "ipc/speculative_keys.def"
#undef SPECULATIVE_KEY
	{NULL}
};

/* ---- an object ---- */

static void
refuse_value(const JsonNode *n, const char *must)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("Key \"%s\" must be %s, got %.*s.", n->key, must, Min(n->raw_len, 64), n->raw)));
}

static const ObjectKey *
key_named(const ObjectKey *keys, const char *name)
{
	StringInfoData known;

	initStringInfo(&known);
	for (const ObjectKey *k = keys; k->name != NULL; k++)
	{
		if (strcmp(k->name, name) == 0)
			return k;
		appendStringInfo(&known, "%s%s", known.len > 0 ? ", " : "", k->name);
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("Key \"%.64s\" is not known.", name),
			 errhint("Known keys are %s.", known.data)));
	return NULL;
}

static void
check_value(const JsonNode *n, const ObjectKey *k)
{
	double		v = n->kind == JSON_NUMBER ? strtod(n->text, NULL) : NAN;

	if (k->kind == KEY_BOOL || k->kind == KEY_ASYNC)
	{
		if (n->kind != JSON_BOOL)
			refuse_value(n, "true or false");
	}
	else if (k->kind == KEY_POLICY)
	{
		if (n->kind != JSON_STRING || strcmp(n->text, "default") != 0)
			refuse_value(n, "\"default\"");
	}
	else if (k->kind != KEY_ANY &&
			 (!(v >= k->min && v <= k->max) || (k->kind == KEY_INT && v != floor(v))))
		refuse_value(n, psprintf(k->kind == KEY_REAL ? "a number between %g and %g" :
								 "an integer between %.0f and %.0f", k->min, k->max));
}

static void
check_object(const char *text, const void *arg)
{
	const ObjectKey *keys = arg;
	const JsonNode *root = json_tree(cstring_to_text(text));
	const JsonNode *method;

	if (root->kind != JSON_OBJECT)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("The value must be a JSON object, or empty.")));
	method = json_tree_get(root, "method");
	for (const JsonNode *n = root->first; n != NULL; n = n->next)
	{
		const ObjectKey *k = key_named(keys, n->key);

		if (n->kind == JSON_NULL)
			continue;
		if (k->method != NULL && method != NULL && method->kind == JSON_STRING &&
			strcmp(method->text, k->method) != 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("Key \"%s\" does not apply to the method \"%.64s\".", k->name, method->text)));
		check_value(n, k);
	}
}

/* ---- a setting ---- */

/* The value is sent to the engine as a line. */
static bool
fits_a_line(const char *s)
{
	if ((int) strlen(s) > MAX_OBJECT)
	{
		GUC_check_errdetail("The value is too long (maximum is %d bytes).", MAX_OBJECT);
		return false;
	}
	for (; *s != '\0'; s++)
		if ((unsigned char) *s < ' ')
		{
			GUC_check_errdetail("The value must not contain control characters.");
			return false;
		}
	return true;
}

static bool
check_setting(const char *value, const ObjectKey *keys)
{
	ErrorData  *e;

	if (value == NULL || value[0] == '\0')
		return true;
	if (!fits_a_line(value))
		return false;
	e = setting_error(check_object, value, keys);
	if (e == NULL)
		return true;
	if (e->sqlerrcode != ERRCODE_INVALID_PARAMETER_VALUE)
		GUC_check_errdetail("The value must be a JSON object, or empty: %s.", e->message);
	else
		GUC_check_errdetail("%s", e->message);
	if (e->hint != NULL)
		GUC_check_errhint("%s", e->hint);
	return false;
}

bool
check_eplb_config(char **newval, void **extra, GucSource source)
{
	return check_setting(*newval, eplb_keys);
}

bool
check_speculative_config(char **newval, void **extra, GucSource source)
{
	return check_setting(*newval, speculative_keys);
}
