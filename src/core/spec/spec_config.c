/*
 * spec_config.c
 *	  Parse the object speculative_config, which has vLLM's keys.
 *
 * Each key is a row of the table, with the methods that use it.  A key that is unknown, or that its
 * method does not use, is an error.  Tested by tests/unit/core/spec/test_spec_propose.c.
 */
#include "core/spec/spec_config.h"

#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/buf.h"
#include "base/alloc.h"
#include "base/json/json.h"
#include "core/spec/spec.h"
#include "quant/quantize.h"
#include "ipc/hub_name.h"

#define LOOKUP_DEFAULT	5
#define DEPTH_DEFAULT	24
#define CACHED_DEFAULT	10000

typedef struct SpecConfigKey
{
	const char *name;
	const char *method;			/* NULL = any */
	size_t		off;
	bool		real;			/* a double, otherwise an int */
	double		min;
	double		max;
} SpecConfigKey;

#define OFF(f) offsetof(SpecConfig, f)

_Static_assert(SPEC_MAX_DRAFTS == 32, "ipc/speculative_keys.def");

static const SpecConfigKey keys[] = {
#define SPECULATIVE_KEY(name, method, field, real, min, max) {#name, method, OFF(field), real, min, max},
#include "ipc/speculative_keys.def"
#undef SPECULATIVE_KEY
};

#define N_KEYS (sizeof(keys) / sizeof(keys[0]))

static bool
bad_key(const Json *v, Err *e, const char *must)
{
	char	   *got = json_print(v);

	err_set(e, ERR_INVALID, "speculative_config key \"%s\" must be %s, got %.64s", v->key, must,
			got != NULL ? got : "?");
	mem_free(got);
	return false;
}

static bool
take_number(const Json *v, const SpecConfigKey *k, SpecConfig *c, Err *e)
{
	char		must[80];

	ASSERT(k->off + (k->real ? sizeof(double) : sizeof(int)) <= sizeof(SpecConfig));
	snprintf(must, sizeof(must), k->real ? "a number between %g and %g" : "an integer between %.0f and %.0f",
			 k->min, k->max);
	if (!json_is_number(v) || !(v->num >= k->min && v->num <= k->max) ||
		(!k->real && v->num != floor(v->num)))
		return bad_key(v, e, must);
	if (k->real)
		*(double *) ((char *) c + k->off) = v->num;
	else
		*(int *) ((char *) c + k->off) = (int) v->num;
	return true;
}

/* ---- keys of methods with weights ---- */

static bool
has_weights(const SpecConfig *c)
{
	return c->type == NULL || (c->type->flags & SPEC_WEIGHTS) != 0;
}

static bool
take_model(const Json *v, SpecConfig *c, Err *e)
{
	HubName		hub;

	if (!json_is_string(v) || v->s[0] != '/')
	{
		bad_key(v, e, "an absolute path");
		return !json_is_string(v) || !hub_name(v->s, true, &hub) ? false :
			err_hint(e, "Models are not downloaded automatically. Run \"%s\" on the database server: it "
						"downloads the files and prints their path.", hub.command);
	}
	if (strlen(v->s) >= sizeof(c->model))
		return err_set(e, ERR_INVALID, "speculative_config key \"model\" is too long (maximum is %zu bytes)",
					   sizeof(c->model) - 1);
	if (c->type != NULL && strcmp(c->type->name, "mtp") == 0)
	{
		err_set(e, ERR_INVALID, "speculative_config key \"model\" does not apply to the method \"mtp\"");
		return err_hint(e, "The draft weights are in the model's own files.");
	}
	snprintf(c->model, sizeof(c->model), "%s", v->s);
	return true;
}

static bool
take_quantization(const Json *v, SpecConfig *c, Err *e)
{
	if (!json_is_string(v) || quant_scheme(v->s) == NULL)
		return bad_key(v, e, "a name that the model option \"quantization\" takes");
	snprintf(c->quantization, sizeof(c->quantization), "%s", v->s);
	return true;
}

/* Published examples have this key: it must be 1, as a drafter is split in only one way. */
static bool
take_one(const Json *v, SpecConfig *c, Err *e)
{
	(void) c;
	return (json_is_number(v) && v->num == 1) || bad_key(v, e, "1");
}

static const struct
{
	const char *name;
	bool		(*take) (const Json *v, SpecConfig *c, Err *e);
}			weight_keys[] = {
	{"model", take_model}, {"quantization", take_quantization}, {"draft_tensor_parallel_size", take_one}
};

#define N_WEIGHT_KEYS (sizeof(weight_keys) / sizeof(weight_keys[0]))

static bool
unknown_key(const char *key, Err *e)
{
	Buf			known = {0};

	err_set(e, ERR_INVALID, "unknown speculative_config key \"%.64s\"", key);
	buf_addstr(&known, "method");
	for (size_t i = 0; i < N_WEIGHT_KEYS; i++)
		buf_printf(&known, ", %s", weight_keys[i].name);
	for (size_t i = 0; i < N_KEYS; i++)
		buf_printf(&known, ", %s", keys[i].name);
	err_hint(e, "Known keys are %s.", known.data);
	buf_free(&known);
	return false;
}

static bool
take_key(const Json *v, SpecConfig *c, Err *e)
{
	for (size_t i = 0; i < N_KEYS; i++)
	{
		const SpecConfigKey *k = &keys[i];

		if (strcmp(k->name, v->key) != 0)
			continue;
		if (k->method != NULL && (c->type == NULL || strcmp(k->method, c->type->name) != 0))
			return err_set(e, ERR_INVALID, "speculative_config key \"%s\" does not apply to the method "
										   "\"%s\"",
						   k->name, c->type != NULL ? c->type->name : "draft_model");
		return take_number(v, k, c, e);
	}
	for (size_t i = 0; i < N_WEIGHT_KEYS; i++)
	{
		if (strcmp(weight_keys[i].name, v->key) != 0)
			continue;
		if (!has_weights(c))
			return err_set(e, ERR_INVALID, "speculative_config key \"%s\" does not apply to the method "
										   "\"%s\"",
						   v->key, c->type->name);
		return weight_keys[i].take(v, c, e);
	}
	return unknown_key(v->key, e);
}

static bool
take_method(const Json *object, SpecConfig *c, Err *e)
{
	const Json *v = json_get(object, "method");
	const Json *model = json_get(object, "model");
	Buf			names = {0};

	if (json_is_string(v))
		c->type = proposer_find(v->s);
	/* the files at "model" determine the method */
	if (c->type != NULL || ((v == NULL || json_is_null(v)) && model != NULL && !json_is_null(model)))
		return true;
	proposer_names(&names);
	if (v == NULL || json_is_null(v))
		err_set(e, ERR_INVALID, "speculative_config must have a \"method\" (%s), or a draft model as "
								"\"model\"", names.data);
	else
		bad_key(v, e, names.data);
	buf_free(&names);
	return false;
}

/* Set what was not given. */
static bool
fill(SpecConfig *c, Err *e)
{
	ASSERT(c->type != NULL || c->model[0] != '\0');
	if (has_weights(c))
		return c->model[0] != '\0' || strcmp(c->type->name, "mtp") == 0 ||
			err_set(e, ERR_INVALID, "speculative_config key \"model\" must be given with the method \"%s\"",
					c->type->name);
	if (strcmp(c->type->name, "ngram") == 0)
	{
		if (c->lookup_max == 0)
			c->lookup_max = c->lookup_min > 0 ? c->lookup_min : LOOKUP_DEFAULT;
		if (c->lookup_min == 0)
			c->lookup_min = c->lookup_max;
		if (c->lookup_min > c->lookup_max)
			return err_set(e, ERR_INVALID,
						   "speculative_config key \"prompt_lookup_min\" must be at most prompt_lookup_max "
						   "(%d), got %d", c->lookup_max, c->lookup_min);
	}
	if (strcmp(c->type->name, "suffix") == 0 && c->n_drafts == 0)
		c->n_drafts = c->depth < SPEC_MAX_DRAFTS ? c->depth : SPEC_MAX_DRAFTS;
	return c->n_drafts > 0 ||
		err_set(e, ERR_INVALID, "speculative_config key \"num_speculative_tokens\" must be given with the "
								"method \"%s\"", c->type->name);
}

static bool
parse_object(const Json *object, SpecConfig *c, Err *e)
{
	if (!take_method(object, c, e))
		return false;
	for (const Json *v = object->child; v != NULL; v = v->next)
		if (strcmp(v->key, "method") != 0 && !json_is_null(v) && !take_key(v, c, e))
			return false;
	return fill(c, e);
}

bool
spec_config_parse(const char *text, SpecConfig *out, Err *e)
{
	Json	   *root;
	SpecConfig	c = {.depth = DEPTH_DEFAULT, .max_cached = CACHED_DEFAULT, .max_factor = 1, .min_prob = 0.1};
	bool		ok;

	memset(out, 0, sizeof(*out));
	if (text == NULL || text[0] == '\0')
		return true;
	root = json_parse(text, strlen(text));
	if (json_is_null(root))
	{
		json_free(root);
		return true;
	}
	if (!json_is_object(root))
	{
		json_free(root);
		return err_set(e, ERR_INVALID, "speculative_config must be a JSON object, got \"%.64s\"", text);
	}
	ok = parse_object(root, &c, e);
	json_free(root);
	if (ok)
		*out = c;
	return ok;
}
