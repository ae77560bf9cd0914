/*
 * eplb_config.c
 *	  Parse the object eplb_config, which has vLLM's keys.
 *
 * Each key is a row of eplb_keys.def; an unknown key is an error.  Tested by
 * tests/unit/model/parallel/test_eplb.c.
 */
#include "runtime/eplb_config.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/alloc.h"
#include "base/json/json.h"

/* use_async: bytes of experts moved after each step, a few milliseconds' worth */
#define STEP_BYTES	((size_t) 16 << 20)
#define MOST_ROUNDS	100			/* most rounds in the window: each keeps a sum for every expert */

typedef enum KeyKind
{
	KEY_INT, KEY_BOOL, KEY_ASYNC, KEY_POLICY
} KeyKind;

typedef struct EplbConfigKey
{
	const char *name;
	KeyKind		kind;
	size_t		off;
	double		min;
	double		max;
} EplbConfigKey;

#define OFF(f) offsetof(EplbConf, f)

_Static_assert(KROUTE_MAX_EXPERTS == 1024, "ipc/eplb_keys.def");

static const EplbConfigKey keys[] = {
#define EPLB_KEY(name, kind, field, min, max) {#name, KEY_##kind, OFF(field), min, max},
#include "ipc/eplb_keys.def"
#undef EPLB_KEY
};

#define N_KEYS (sizeof(keys) / sizeof(keys[0]))

static bool
bad_key(const Json *v, Err *e, const char *must)
{
	char	   *got = json_print(v);

	err_set(e, ERR_INVALID, "eplb_config key \"%s\" must be %s, got %.64s", v->key, must,
			got != NULL ? got : "?");
	mem_free(got);
	return false;
}

static bool
take_key(const Json *v, const EplbConfigKey *k, EplbConf *c, Err *e)
{
	char		must[80];

	if (k->kind == KEY_POLICY)
		return (json_is_string(v) && strcmp(v->s, "default") == 0) || bad_key(v, e, "\"default\"");
	if (k->kind != KEY_INT)
	{
		if (!json_is_bool(v))
			return bad_key(v, e, "true or false");
		if (k->kind == KEY_ASYNC)
			c->step_bytes = json_is_true(v) ? STEP_BYTES : 0;
		else
			*(bool *) ((char *) c + k->off) = json_is_true(v);
		return true;
	}
	snprintf(must, sizeof(must), "an integer between %.0f and %.0f", k->min, k->max);
	if (!json_is_number(v) || !(v->num >= k->min && v->num <= k->max) || v->num != floor(v->num))
		return bad_key(v, e, must);
	*(int *) ((char *) c + k->off) = (int) v->num;
	return true;
}

static bool
unknown_key(const char *key, Err *e)
{
	Buf			known = {0};

	err_set(e, ERR_INVALID, "unknown eplb_config key \"%.64s\"", key);
	for (size_t i = 0; i < N_KEYS; i++)
		buf_printf(&known, "%s%s", i > 0 ? ", " : "", keys[i].name);
	err_hint(e, "Known keys are %s.", known.data);
	buf_free(&known);
	return false;
}

static bool
parse_object(const Json *object, EplbConf *c, Err *e)
{
	for (const Json *v = object->child; v != NULL; v = v->next)
	{
		size_t		i = 0;

		while (i < N_KEYS && strcmp(keys[i].name, v->key) != 0)
			i++;
		if (i == N_KEYS)
			return unknown_key(v->key, e);
		if (!json_is_null(v) && !take_key(v, &keys[i], c, e))
			return false;
	}
	if (c->window > MOST_ROUNDS * (int64_t) c->interval)
		return err_set(e, ERR_INVALID, "eplb_config key \"window_size\" must be at most %d times "
									   "step_interval (%d), got %d", MOST_ROUNDS, c->interval,
					   c->window);
	return true;
}

bool
eplb_config_parse(const char *text, EplbConf *out, Err *e)
{
	Json	   *root;
	EplbConf	c = {.window = 1000,.interval = 3000,.log_interval = 1,.step_bytes = STEP_BYTES};
	bool		ok;

	*out = c;
	if (text[0] == '\0')
		return true;
	root = json_parse(text, strlen(text));
	ok = json_is_object(root) ? parse_object(root, &c, e) :
		err_set(e, ERR_INVALID, "eplb_config must be a JSON object, got \"%.64s\"", text);
	json_free(root);
	if (ok)
		*out = c;
	return ok;
}
