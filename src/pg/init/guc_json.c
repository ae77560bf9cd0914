/*
 * guc_json.c
 *	  Check hooks of vllm.eplb_config and vllm.speculative_config: keys and their ranges.
 *
 * The engine reads them with the same tables (ipc/eplb_keys.def, ipc/speculative_keys.def, spec.def and
 * schemes.def) and makes further checks when a model is loaded: which files there are, and whether they
 * belong together.
 *
 * Tests: tests/sql/30_bodies.sql, tests/t/105_eplb.pl, tests/t/096_speculation.pl.
 */
#include "postgres.h"

#include <limits.h>
#include <math.h>

#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"

#include "ipc/control_protocol.h"
#include "pg/init/guc_json.h"
#include "pg/util/json_tree.h"
#include "pg/util/setting_check.h"

/* longest value that fits into a line on the control socket with the longest name of such a setting */
#define MAX_OBJECT	(CONTROL_LINE - (int) strlen(CONTROL_CONFIG " speculative_config=\n") - 1)

typedef enum ObjectKeyKind
{
	KEY_INT, KEY_REAL, KEY_BOOL, KEY_ASYNC, KEY_POLICY, KEY_METHOD, KEY_PATH, KEY_SCHEME, KEY_ONE
} ObjectKeyKind;

typedef struct ObjectKey
{
	const char *name;
	ObjectKeyKind kind;
	const char *method;			/* the method that uses the key, NULL = any */
	double		min;
	double		max;
} ObjectKey;

/* what a method of speculation needs beside its name */
typedef enum MethodNeeds
{
	NEEDS_NOTHING, NEEDS_TOKENS, NEEDS_MODEL, NEEDS_OWN
} MethodNeeds;

typedef struct SpecMethod
{
	const char *name;
	MethodNeeds needs;
} SpecMethod;

static const SpecMethod methods[] = {
#define PROPOSER(symbol, needs) {#symbol, NEEDS_##needs},
#include "core/spec/spec.def"
#undef PROPOSER
};

static const struct
{
	const char *alias;
	const char *name;
}			aliases[] = {
#define PROPOSER_ALIAS(alias, symbol) {#alias, #symbol},
#include "core/spec/spec.def"
#undef PROPOSER_ALIAS
};

static const struct
{
	const char *name;
	bool		is_float;
}			schemes[] = {
#define QUANT_SCHEME(name, matrix, head, is_float) {name, is_float},
#include "quant/schemes.def"
#undef QUANT_SCHEME
	{"int4", false}
};

static const ObjectKey eplb_keys[] = {
#define EPLB_KEY(name, kind, field, min, max) {#name, KEY_##kind, NULL, min, max},
#include "ipc/eplb_keys.def"
#undef EPLB_KEY
	{NULL}
};

static const ObjectKey speculative_keys[] = {
	{"method", KEY_METHOD},
#define SPECULATIVE_WORD(name, kind) {#name, KEY_##kind},
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
			 errmsg("Key \"%s\" must be %s, got %.*s.", n->key, must,
					pg_mbcliplen(n->raw, (int) n->raw_len, 64), n->raw)));
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
			 errmsg("Key \"%.*s\" is not known.", pg_mbcliplen(name, (int) strlen(name), 64), name),
			 errhint("Known keys are %s.", known.data)));
	return NULL;
}

/* Append a name to a list as "a, b or c". */
static void
add_name(StringInfo list, const char *name, bool last)
{
	appendStringInfo(list, "%s%s", list->len == 0 ? "" : last ? " or " : ", ", name);
}

/* Return the method of this name, as vLLM or we call it. */
static const SpecMethod *
method_named(const JsonNode *n)
{
	const char *name = n->kind == JSON_STRING ? n->text : "";
	StringInfoData known;

	for (int i = 0; i < (int) lengthof(aliases); i++)
		if (strcmp(aliases[i].alias, name) == 0)
			name = aliases[i].name;
	initStringInfo(&known);
	for (int i = 0; i < (int) lengthof(methods); i++)
	{
		if (strcmp(methods[i].name, name) == 0)
			return &methods[i];
		add_name(&known, methods[i].name, i == (int) lengthof(methods) - 1);
	}
	refuse_value(n, known.data);
	return NULL;
}

static void
check_scheme(const JsonNode *n)
{
	StringInfoData known;

	initStringInfo(&known);
	for (int i = 0; i < (int) lengthof(schemes); i++)
	{
		if (schemes[i].is_float)
			continue;
		if (n->kind == JSON_STRING && strcmp(schemes[i].name, n->text) == 0)
			return;
		add_name(&known, schemes[i].name, i == (int) lengthof(schemes) - 1);
	}
	refuse_value(n, known.data);
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
	else if (k->kind == KEY_METHOD)
		(void) method_named(n);
	else if (k->kind == KEY_SCHEME)
		check_scheme(n);
	else if (k->kind == KEY_PATH)
	{
		if (n->kind != JSON_STRING || n->text[0] != '/')
			refuse_value(n, "an absolute path");
	}
	else if (k->kind == KEY_ONE)
	{
		if (v != 1)
			refuse_value(n, "1");
	}
	else if (!(v >= k->min && v <= k->max) || (k->kind == KEY_INT && v != floor(v)))
		refuse_value(n, psprintf(k->kind == KEY_REAL ? "a number between %g and %g" :
								 "an integer between %.0f and %.0f", k->min, k->max));
}

static void
check_object(const JsonNode *root, const ObjectKey *keys)
{
	if (root->kind != JSON_OBJECT)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("The value must be a JSON object, or empty.")));
	for (const JsonNode *n = root->first; n != NULL; n = n->next)
	{
		const ObjectKey *k = key_named(keys, n->key);

		if (n->kind != JSON_NULL)
			check_value(n, k);
	}
}

static void
check_eplb(const char *text, const void *arg)
{
	check_object(json_tree(cstring_to_text(text)), eplb_keys);
}

/* Return a member that is not null, or NULL. */
static const JsonNode *
given(const JsonNode *object, const char *key)
{
	const JsonNode *n = json_tree_get(object, key);

	return n != NULL && n->kind != JSON_NULL ? n : NULL;
}

/* Refuse a key that the method doesn't use.  method: NULL if the files tell it, so it has weights. */
static void
check_applies(const JsonNode *n, const SpecMethod *method)
{
	const ObjectKey *k = key_named(speculative_keys, n->key);
	const char *name = method ? method->name : "draft_model";
	bool		weights = method == NULL || method->needs == NEEDS_MODEL || method->needs == NEEDS_OWN;

	if (n->kind == JSON_NULL)
		return;
	if ((k->method != NULL && strcmp(k->method, name) != 0) ||
		((k->kind == KEY_PATH || k->kind == KEY_SCHEME || k->kind == KEY_ONE) && !weights) ||
		(k->kind == KEY_PATH && method != NULL && method->needs == NEEDS_OWN))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("Key \"%s\" does not apply to the method \"%s\".", k->name, name)));
}

static void
require_key(const JsonNode *root, const char *key, const SpecMethod *method)
{
	if (given(root, key) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("Key \"%s\" must be given with the method \"%s\".", key, method->name)));
}

static void
check_speculative(const char *text, const void *arg)
{
	const JsonNode *root = json_tree(cstring_to_text(text));
	const JsonNode *name,
			   *max,
			   *min;
	const SpecMethod *method;

	check_object(root, speculative_keys);
	name = given(root, "method");
	method = name != NULL ? method_named(name) : NULL;
	if (method == NULL && given(root, "model") == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("The object must have a \"method\", or a draft model as \"model\".")));
	for (const JsonNode *n = root->first; n != NULL; n = n->next)
		check_applies(n, method);
	if (method != NULL && method->needs == NEEDS_TOKENS)
		require_key(root, "num_speculative_tokens", method);
	if (method != NULL && method->needs == NEEDS_MODEL)
		require_key(root, "model", method);
	max = given(root, "prompt_lookup_max");
	min = given(root, "prompt_lookup_min");
	if (max != NULL && min != NULL && strtod(min->text, NULL) > strtod(max->text, NULL))
		refuse_value(min, psprintf("at most prompt_lookup_max (%s)", max->text));
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
check_setting(const char *value, void (*check) (const char *text, const void *arg))
{
	ErrorData  *e;

	if (value == NULL || value[0] == '\0')
		return true;
	if (!fits_a_line(value))
		return false;
	e = setting_error(check, value, NULL);
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
	return check_setting(*newval, check_eplb);
}

bool
check_speculative_config(char **newval, void **extra, GucSource source)
{
	return check_setting(*newval, check_speculative);
}
