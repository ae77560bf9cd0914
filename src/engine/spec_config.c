/*
 * spec_config.c
 *	  The object speculative_config, with vLLM's keys.
 *
 * A key is a row here, with the methods that it is for.  One that is unknown, or that its method
 * has no use for, is an error.  Tested by tests/unit/test_spec_propose.c.
 */
#include "engine/spec_config.h"

#include <cjson/cJSON.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "engine/spec.h"

#define LOOKUP_DEFAULT	5
#define LOOKUP_MOST		32
#define DEPTH_DEFAULT	24
#define DEPTH_MOST		64
#define CACHED_DEFAULT	10000
#define CACHED_MOST		1000000

typedef struct Key
{
	const char *name;
	const char *method;			/* NULL = any */
	size_t		off;
	bool		real;			/* a double, else an int */
	double		min;
	double		max;
} Key;

#define OFF(f) offsetof(SpecConfig, f)

static const Key keys[] = {
	{"num_speculative_tokens", NULL, OFF(n_drafts), false, 1, SPEC_MAX_DRAFTS},
	{"disable_by_batch_size", NULL, OFF(max_batch), false, 2, INT_MAX},
	{"prompt_lookup_max", "ngram", OFF(lookup_max), false, 1, LOOKUP_MOST},
	{"prompt_lookup_min", "ngram", OFF(lookup_min), false, 1, LOOKUP_MOST},
	{"suffix_decoding_max_tree_depth", "suffix", OFF(depth), false, 2, DEPTH_MOST},
	{"suffix_decoding_max_cached_requests", "suffix", OFF(max_cached), false, 0, CACHED_MOST},
	{"suffix_decoding_max_spec_factor", "suffix", OFF(max_factor), true, 0.01, 1000},
	{"suffix_decoding_min_token_prob", "suffix", OFF(min_prob), true, 0, 1},
};

#define N_KEYS (sizeof(keys) / sizeof(keys[0]))

static bool
bad_key(const cJSON *v, Err *e, const char *must)
{
	char	   *got = cJSON_PrintUnformatted(v);

	err_set(e, ERR_INVALID, "speculative_config key \"%s\" must be %s, got %.64s", v->string, must, got != NULL ? got : "?");
	cJSON_free(got);
	return false;
}

static bool
take_number(const cJSON *v, const Key *k, SpecConfig *c, Err *e)
{
	char		must[80];

	snprintf(must, sizeof(must), k->real ? "a number between %g and %g" : "an integer between %.0f and %.0f", k->min, k->max);
	if (!cJSON_IsNumber(v) || !(v->valuedouble >= k->min && v->valuedouble <= k->max) ||
		(!k->real && v->valuedouble != floor(v->valuedouble)))
		return bad_key(v, e, must);
	if (k->real)
		*(double *) ((char *) c + k->off) = v->valuedouble;
	else
		*(int *) ((char *) c + k->off) = (int) v->valuedouble;
	return true;
}

static bool
unknown_key(const char *key, Err *e)
{
	Buf			known = {0};

	err_set(e, ERR_INVALID, "unknown speculative_config key \"%.64s\"", key);
	buf_addstr(&known, "method");
	for (size_t i = 0; i < N_KEYS; i++)
		buf_printf(&known, ", %s", keys[i].name);
	err_hint(e, "Known keys are %s.", known.data);
	buf_free(&known);
	return false;
}

static bool
take_key(const cJSON *v, SpecConfig *c, Err *e)
{
	for (size_t i = 0; i < N_KEYS; i++)
	{
		const Key  *k = &keys[i];

		if (strcmp(k->name, v->string) != 0)
			continue;
		if (k->method != NULL && strcmp(k->method, c->type->name) != 0)
			return err_set(e, ERR_INVALID, "speculative_config key \"%s\" is not for the method \"%s\"", k->name, c->type->name);
		return take_number(v, k, c, e);
	}
	return unknown_key(v->string, e);
}

static bool
take_method(const cJSON *object, SpecConfig *c, Err *e)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(object, "method");
	Buf			names = {0};

	if (cJSON_IsString(v))
		c->type = proposer_find(v->valuestring);
	if (c->type != NULL)
		return true;
	proposer_names(&names);
	if (v == NULL || cJSON_IsNull(v))
		err_set(e, ERR_INVALID, "speculative_config must have a \"method\": %s", names.data);
	else
		bad_key(v, e, names.data);
	buf_free(&names);
	return false;
}

/* What was not given. */
static bool
fill(SpecConfig *c, Err *e)
{
	if (strcmp(c->type->name, "ngram") == 0)
	{
		if (c->lookup_max == 0)
			c->lookup_max = c->lookup_min > 0 ? c->lookup_min : LOOKUP_DEFAULT;
		if (c->lookup_min == 0)
			c->lookup_min = c->lookup_max;
		if (c->lookup_min > c->lookup_max)
			return err_set(e, ERR_INVALID, "speculative_config key \"prompt_lookup_min\" must be at most prompt_lookup_max (%d), got %d",
						   c->lookup_max, c->lookup_min);
	}
	if (strcmp(c->type->name, "suffix") == 0 && c->n_drafts == 0)
		c->n_drafts = c->depth < SPEC_MAX_DRAFTS ? c->depth : SPEC_MAX_DRAFTS;
	return c->n_drafts > 0 ||
		err_set(e, ERR_INVALID, "speculative_config key \"num_speculative_tokens\" must be given with the method \"%s\"", c->type->name);
}

static bool
parse_object(const cJSON *object, SpecConfig *c, Err *e)
{
	if (!take_method(object, c, e))
		return false;
	for (const cJSON *v = object->child; v != NULL; v = v->next)
		if (strcmp(v->string, "method") != 0 && !cJSON_IsNull(v) && !take_key(v, c, e))
			return false;
	return fill(c, e);
}

bool
spec_config_parse(const char *text, SpecConfig *out, Err *e)
{
	cJSON	   *root;
	SpecConfig	c = {.depth = DEPTH_DEFAULT, .max_cached = CACHED_DEFAULT, .max_factor = 1, .min_prob = 0.1};
	bool		ok;

	memset(out, 0, sizeof(*out));
	if (text == NULL || text[0] == '\0')
		return true;
	root = cJSON_ParseWithOpts(text, NULL, true);
	if (cJSON_IsNull(root))
	{
		cJSON_Delete(root);
		return true;
	}
	if (!cJSON_IsObject(root))
	{
		cJSON_Delete(root);
		return err_set(e, ERR_INVALID, "speculative_config must be a JSON object, got \"%.64s\"", text);
	}
	ok = parse_object(root, &c, e);
	cJSON_Delete(root);
	if (ok)
		*out = c;
	return ok;
}
