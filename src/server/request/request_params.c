/*
 * request_params.c
 *	  Sampling parameters from the fields of a message.
 *
 * request_fields.def has a row for each; parameters that are plain members of GenParams are read by
 * their row.  The arena is untrusted, so every range is checked again here, whatever the backend has
 * checked already.  core_normalize() checks what depends on the model (gen_params.c).
 *
 * Tested by tests/unit/server/test_server.c.
 */
#include "server/request/request_params.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json/json.h"
#include "core/sample/param_range.h"

#define MAX_STOPS		64
#define MAX_STOP_BYTES	4096
#define MAX_SALT		4096	/* bytes */
#define MAX_JSON_BYTES	65536

bool
params_bad(Err *e, const char *param, const char *what)
{
	err_set(e, ERR_INVALID, "%s %s", param, what);
	return err_detail(e, "parameter=%s", param);
}

bool
params_int(const WireField *f, int64_t min, int64_t max, int *out, Err *e)
{
	const char *name = wire_tag_name(f->tag);

	if (f->i < min || f->i > max)
	{
		err_set(e, ERR_INVALID, "%s must be between %lld and %lld, got %lld", name,
				(long long) min, (long long) max, (long long) f->i);
		return err_detail(e, "parameter=%s", name);
	}
	*out = (int) f->i;
	return true;
}

static bool
add_stop(GenParams *p, const WireField *f, Err *e)
{
	if (f->n == 0)
		return params_bad(e, "stop", "cannot contain an empty string");
	if (p->n_stop == MAX_STOPS || f->n > MAX_STOP_BYTES)
		return params_bad(e, "stop", "may have at most 64 strings of at most 4096 bytes");
	p->stop = mem_realloc(p->stop, (size_t) (p->n_stop + 1) * sizeof(char *));
	p->stop_len = mem_realloc(p->stop_len, (size_t) (p->n_stop + 1) * sizeof(size_t));
	p->stop[p->n_stop] = mem_strndup(f->s, f->n);
	p->stop_len[p->n_stop++] = f->n;
	return true;
}

static bool
add_stop_ids(GenParams *p, const WireField *f, Err *e)
{
	if (f->n > 1024 || p->stop_ids != NULL)
		return params_bad(e, "stop_token_ids", "may have at most 1024 elements");
	p->stop_ids = mem_alloc(f->n * sizeof(int32_t));
	for (size_t i = 0; i < f->n; i++)
		p->stop_ids[i] = wire_int_at(f, i);
	p->n_stop_ids = (int) f->n;
	return true;
}

static bool
allow_ids(LogitRules *r, const WireField *f, Err *e)
{
	if (r->has_allowed)
		return params_bad(e, "allowed_token_ids", "is given twice");
	r->has_allowed = true;
	for (size_t i = 0; i < f->n; i++)
		intvec_push(&r->allowed, wire_int_at(f, i));
	return true;
}

static bool
repeat_number(const Json *x, int *to, Err *e)
{
	if (!json_is_number(x) || x->num != floor(x->num) || x->num < 0 || x->num > INT_MAX)
	{
		err_set(e, ERR_INVALID, "repetition_detection.%s must be a whole number that is not negative",
				x->key);
		return err_detail(e, "parameter=repetition_detection");
	}
	*to = (int) x->num;
	return true;
}

static bool
repeat_fields(GenParams *p, const Json *object, Err *e)
{
	for (const Json *x = object->child; x != NULL; x = x->next)
	{
		int		   *to = strcmp(x->key, "max_pattern_size") == 0 ? &p->repeat_max :
			strcmp(x->key, "min_pattern_size") == 0 ? &p->repeat_min :
			strcmp(x->key, "min_count") == 0 ? &p->repeat_count : NULL;

		if (to == NULL)
		{
			err_set(e, ERR_INVALID, "repetition_detection has no field \"%s\"", x->key);
			err_detail(e, "parameter=repetition_detection");
			return err_hint(e, "Its fields are max_pattern_size, min_pattern_size and min_count.");
		}
		if (!repeat_number(x, to, e))
			return false;
	}
	return true;
}

/* Parse a JSON object of limited size. */
static Json *
small_json(const WireField *f, Err *e)
{
	Json	   *object = f->n <= MAX_JSON_BYTES ? json_parse(f->s, f->n) : NULL;

	if (object == NULL || !json_is_object(object))
	{
		json_free(object);
		params_bad(e, wire_tag_name(f->tag), "must be a json object of at most 65536 bytes");
		return NULL;
	}
	return object;
}

static bool
repeat_rule(GenParams *p, const WireField *f, Err *e)
{
	Json	   *object = small_json(f, e);
	bool		ok = object != NULL && repeat_fields(p, object, e);

	json_free(object);
	return ok;
}

static bool
take_extra_args(GenParams *p, const WireField *f, Err *e)
{
	Json	   *object = small_json(f, e);

	if (object == NULL)
		return false;
	mem_free(p->extra_args);
	p->extra_args = object->child != NULL ? mem_strndup(f->s, f->n) : NULL;
	json_free(object);
	return true;
}

bool
params_field(GenParams *p, uint64_t *given, const WireField *f, bool *known, Err *e)
{
	double		v = f->type == WT_NUM ? f->num : (double) f->i;

	*known = true;
	if (!param_in_range(f->tag, v, e))
		return false;
	if (genparams_number(p, given, f->tag, v))
		return true;
	switch (f->tag)
	{
		case WTAG_PIN:
			return params_int(f, -1, 1, &p->pin, e);
		case WTAG_CACHE_SALT:
			if (f->n == 0 || f->n > MAX_SALT)
				return params_bad(e, "cache_salt", "must have 1 to 4096 bytes");
			mem_free(p->cache_salt);
			p->cache_salt = mem_strndup(f->s, f->n);
			return true;
		case WTAG_SEED:
			p->has_seed = f->i != -1;
			p->seed = f->i;
			return true;
		case WTAG_STOP:
			return add_stop(p, f, e);
		case WTAG_STOP_TOKEN_IDS:
			return add_stop_ids(p, f, e);
		case WTAG_LOGIT_BIAS:
			return logit_rules_bias(genparams_rules(p), f->s, f->n, e);
		case WTAG_ALLOWED_TOKEN_IDS:
			return allow_ids(genparams_rules(p), f, e);
		case WTAG_BAD_WORDS:
			return logit_rules_bad_word(genparams_rules(p), f->s, f->n, e);
		case WTAG_REPETITION_DETECTION:
			return repeat_rule(p, f, e);
		case WTAG_SPACES_BETWEEN_SPECIAL_TOKENS:
			p->tight_special = f->i == 0;
			return true;
		case WTAG_EXTRA_ARGS:
			return take_extra_args(p, f, e);
		default:
			*known = false;
			return true;
	}
}
