/*
 * model_options.c
 *	  The options of a catalog entry: a JSON object with a fixed set of keys.
 *
 * model_options.def has a row for each key.  It gives the function below that reads the value, and
 * whether the option is part of the key of an instance.  An unknown key is an error that lists the known
 * ones; it is never ignored.  Tested by tests/unit/server/models/test_model_options.c, test_models_registry.c
 * and tests/fuzz/fuzz_wire.c.
 */
#include "server/models/registry.h"

#include <float.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"
#include "base/json/json.h"
#include "server/request/output_parsers.h"
#include "quant/ckpt/ckpt.h"
#include "quant/quantize.h"
#include "template/chat_template.h"

typedef enum ModelOptType
{
	OPT_INT, OPT_BIG, OPT_NUM, OPT_SWITCH, OPT_OFF, OPT_TEXT, OPT_SIZES, OPT_SECONDS,
	OPT_ELSEWHERE, OPT_CALLER
} ModelOptType;

typedef enum OptKey
{
	OPT_NO_KEY, OPT_KEY, OPT_VECTORS
} OptKey;

typedef struct OptRow OptRow;
typedef bool (*OptTake) (const OptRow *row, const Json *v, ModelOpts *o, Err *e);

struct OptRow
{
	const char *name;
	ModelOptType type;
	OptKey		key;
	size_t		off;			/* offset of its member in ModelOpts */
	double		least,
				most;
	const char *must;			/* text for the error; NULL: made from its type and range */
	OptTake		take;
};

#define OPT_AT(row, o, type) ((type *) ((char *) (o) + (row)->off))
#define OPT_GET(row, o, type) (*(const type *) ((const char *) (o) + (row)->off))

/* An option's value is wrong: the error says what it must be, and what it is. */
static bool
opt_must(const OptRow *row, const Json *v, const char *must, Err *e)
{
	char	   *got = json_print(v);

	err_set(e, ERR_INVALID, "model option \"%s\" must be %s, got %.64s", row->name, must,
			got != NULL ? got : "?");
	mem_free(got);
	return false;
}

static bool
opt_wrong(const OptRow *row, const Json *v, Err *e)
{
	return opt_must(row, v, row->must, e);
}

static bool
opt_text(const OptRow *row, const char *text, ModelOpts *o)
{
	bool		fits = text != NULL && strlen(text) < (size_t) row->most;

	ALWAYS(row->type == OPT_TEXT);	/* only such a member has room for `most` bytes */
	if (fits)
		memcpy(OPT_AT(row, o, char), text, strlen(text) + 1);
	return fits;
}

/* Store a value as JSON text. */
static bool
opt_json(const OptRow *row, const Json *v, ModelOpts *o, Err *e)
{
	char	   *text = json_print(v);
	bool		fits = opt_text(row, text, o);

	mem_free(text);
	return fits || err_set(e, ERR_INVALID, "model option \"%s\" is too long (maximum is %.0f bytes)",
						   row->name,
						   row->most - 1);
}

/* ---- by type ---- */

static bool
take_number(const OptRow *row, const Json *v, ModelOpts *o, Err *e)
{
	bool		whole = row->type != OPT_NUM;
	char		must[80];

	ALWAYS(row->type == OPT_INT || row->type == OPT_BIG || row->type == OPT_NUM);
	if (!json_is_number(v) || !(v->num >= row->least && v->num <= row->most) ||
		(whole && v->num != floor(v->num)))
	{
		snprintf(must, sizeof(must), whole ? "an integer between %.0f and %.0f" : "a number from %g to %g",
				 row->least, row->most);
		return opt_must(row, v, row->must != NULL ? row->must : must, e);
	}
	if (row->type == OPT_INT)
		*OPT_AT(row, o, int) = (int) v->num;
	else if (row->type == OPT_BIG)
		*OPT_AT(row, o, int64_t) = (int64_t) v->num;
	else
		*OPT_AT(row, o, double) = v->num;
	return true;
}

static bool
take_switch(const OptRow *row, const Json *v, ModelOpts *o, Err *e)
{
	if (!json_is_bool(v))
		return opt_must(row, v, "true or false", e);
	if (row->type == OPT_SWITCH)
		*OPT_AT(row, o, int) = json_is_true(v) ? 1 : -1;
	else
		*OPT_AT(row, o, bool) = json_is_false(v);
	return true;
}

static bool
take_caller(const OptRow *row, const Json *v, ModelOpts *o, Err *e)
{
	(void) row, (void) v, (void) o, (void) e;
	return true;				/* the caller's code has checked its own options */
}

/* ---- by name ---- */

/* "auto": the type of the files */
static bool
option_dtype(const OptRow *row, const Json *v, ModelOpts *o, Err *e)
{
	const QuantScheme *q = json_is_string(v) ? quant_dtype(v->s) : NULL;

	if (q == NULL && !(json_is_string(v) && strcmp(v->s, "auto") == 0))
		return opt_wrong(row, v, e);
	return opt_text(row, q != NULL ? q->name : "", o);
}

static bool
option_quantization(const OptRow *row, const Json *v, ModelOpts *o, Err *e)
{
	const QuantScheme *q = json_is_string(v) ? quant_scheme(v->s) : NULL;

	if (q != NULL || (json_is_string(v) && ckpt_is_method(v->s)))
		return opt_text(row, q != NULL ? q->name : v->s, o);
	opt_must(row, v, quant_scheme_list(), e);
	return err_hint(e, "The method of a quantized checkpoint may be named, too: %s", ckpt_method_list());
}

/* "" = auto */
static bool
option_activation_scheme(const OptRow *row, const Json *v, ModelOpts *o, Err *e)
{
	for (int x = 0; json_is_string(v) && x < X_SCHEMES; x++)
		if (strcmp(v->s, x_scheme_name((XScheme) x)) == 0)
			return opt_text(row, x == X_AUTO ? "" : v->s, o);
	return opt_wrong(row, v, e);
}

static bool
option_kv_cache_dtype(const OptRow *row, const Json *v, ModelOpts *o, Err *e)
{
	KType		type;

	if (!json_is_string(v) || !settings_kv_type(v->s, KT_F32, &type))
		return opt_wrong(row, v, e);
	return opt_text(row, v->s, o);
}

static bool
option_lora_dtype(const OptRow *row, const Json *v, ModelOpts *o, Err *e)
{
	if (!json_is_string(v) || !lora_dtype_ok(v->s))
		return opt_wrong(row, v, e);
	return opt_text(row, v->s, o);
}

/* Read the object that overrides a model's RoPE scaling.  The model checks the values. */
static bool
option_rope_scaling(const OptRow *row, const Json *v, ModelOpts *o, Err *e)
{
	static const char *const known[] = {
		"rope_type", "type", "factor", "original_max_position_embeddings", "attention_factor", "beta_fast",
		"beta_slow", "mscale", "mscale_all_dim", "truncate", "short_factor", "long_factor", "low_freq_factor",
		"high_freq_factor", "alpha"
	};
	const Json *x;
	size_t		i;

	if (!json_is_object(v) || (!json_is_string(json_get(v, "rope_type")) &&
							   !json_is_string(json_get(v, "type"))))
		return opt_wrong(row, v, e);
	json_each(x, v)
	{
		for (i = 0; i < sizeof(known) / sizeof(known[0]) && strcmp(known[i], x->key) != 0; i++)
			;
		if (i == sizeof(known) / sizeof(known[0]))
			return err_set(e, ERR_INVALID, "model option \"%s\" has an unknown key \"%.64s\"", row->name,
						   x->key);
	}
	return opt_json(row, v, o, e);
}

/* Read keys of config.json.  The reader of config.json checks them. */
static bool
option_hf_overrides(const OptRow *row, const Json *v, ModelOpts *o, Err *e)
{
	return json_is_object(v) ? opt_json(row, v, o, e) : opt_wrong(row, v, e);
}

/* Read the drafter's configuration.  false: no speculation, whatever vllm.speculative_config is. */
static bool
option_speculative_config(const OptRow *row, const Json *v, ModelOpts *o, Err *e)
{
	SpecConfig	c;

	if (json_is_false(v))
		return opt_text(row, "null", o);
	if (!json_is_object(v))
		return opt_wrong(row, v, e);
	return opt_json(row, v, o, e) && spec_config_parse(o->speculative_config, &c, e);
}

static bool
option_cudagraph_capture_sizes(const OptRow *row, const Json *v, ModelOpts *o, Err *e)
{
	const Json *x;

	memset(o->capture_sizes, 0, sizeof(o->capture_sizes));
	o->n_capture_sizes = 0;
	json_each(x, v)
	{
		if (!json_is_number(x) || !(x->num >= 1 && x->num <= GRAPH_LARGEST) ||
			x->num != (int) x->num || o->n_capture_sizes == GRAPH_SIZES)
			return opt_wrong(row, v, e);
		o->capture_sizes[o->n_capture_sizes++] = (int) x->num;
	}
	return (json_is_array(v) && o->n_capture_sizes > 0) || opt_wrong(row, v, e);
}

/* Read seconds, or a number with a unit as in settings; -1 = forever. */
static bool
option_keep_alive(const OptRow *row, const Json *v, ModelOpts *o, Err *e)
{
	static const struct
	{
		const char *unit;
		double		s;
	}			units[] = {{"", 1}, {"ms", 0.001}, {"s", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}};
	double		n = v->num;
	double		s = json_is_number(v) ? 1 : 0;

	if (json_is_string(v))
	{
		char	   *unit;

		n = strtod(v->s, &unit);
		for (size_t i = 0; unit != v->s && i < sizeof(units) / sizeof(units[0]); i++)
			if (strcmp(unit + strspn(unit, " "), units[i].unit) == 0)
				s = units[i].s;
	}
	if (s == 0 || !(n == -1 || (n >= 0 && n * s <= row->most)))
		return opt_wrong(row, v, e);
	o->has_keep_alive = true;
	o->keep_alive = n < 0 ? -1 : (int64_t) ceil(n * s);
	return true;
}

/* Only checked here: chatmodel_of_options() reads this option and the next. */
static bool
option_content_format(const OptRow *row, const Json *v, ModelOpts *o, Err *e)
{
	ChatFormat	format;

	(void) o;
	return (json_is_string(v) && chat_format_by_name(v->s, &format)) || opt_wrong(row, v, e);
}

static bool
option_chat_template(const OptRow *row, const Json *v, ModelOpts *o, Err *e)
{
	(void) o;
	return json_is_string(v) || opt_wrong(row, v, e);
}

/* Only checked here: parsing_of_chat() reads these options. */
static bool
option_tool_call_parser(const OptRow *row, const Json *v, ModelOpts *o, Err *e)
{
	const ToolFormat *tools;

	(void) o;
	return json_is_string(v) ? tool_parser_by_name(v->s, strlen(v->s), &tools, e) :
		opt_wrong(row, v, e);
}

static bool
option_reasoning_parser(const OptRow *row, const Json *v, ModelOpts *o, Err *e)
{
	const ReasonFormat *reason;

	(void) o;
	return json_is_string(v) ? reasoning_parser_by_name(v->s, strlen(v->s), &reason, e) :
		opt_wrong(row, v, e);
}

static bool
option_exclude_tools_when_tool_choice_none(const OptRow *row, const Json *v, ModelOpts *o, Err *e)
{
	(void) o;
	return json_is_bool(v) || opt_wrong(row, v, e);
}

/* ---- the table ---- */

#define OPT_OFF_INT(member) offsetof(ModelOpts, member)
#define OPT_OFF_BIG(member) offsetof(ModelOpts, member)
#define OPT_OFF_NUM(member) offsetof(ModelOpts, member)
#define OPT_OFF_SWITCH(member) offsetof(ModelOpts, member)
#define OPT_OFF_OFF(member) offsetof(ModelOpts, member)
#define OPT_OFF_TEXT(member) offsetof(ModelOpts, member)
#define OPT_OFF_SIZES(member) offsetof(ModelOpts, member)
#define OPT_OFF_SECONDS(member) offsetof(ModelOpts, member)
#define OPT_OFF_ELSEWHERE(member) 0
#define OPT_OFF_CALLER(member) 0

#define OPT_TAKE_INT(name) take_number
#define OPT_TAKE_BIG(name) take_number
#define OPT_TAKE_NUM(name) take_number
#define OPT_TAKE_SWITCH(name) take_switch
#define OPT_TAKE_OFF(name) take_switch
#define OPT_TAKE_TEXT(name) option_##name
#define OPT_TAKE_SIZES(name) option_##name
#define OPT_TAKE_SECONDS(name) option_##name
#define OPT_TAKE_ELSEWHERE(name) option_##name
#define OPT_TAKE_CALLER(name) take_caller

static const OptRow rows[] = {
#define OPT(name, type, member, least, most, key, must) \
	{#name, OPT_##type, OPT_##key, OPT_OFF_##type(member), least, most, must, OPT_TAKE_##type(name)},
#include "runtime/model_options.def"
#undef OPT
};
#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

static bool
opt_one(const Json *v, ModelOpts *o, Err *e)
{
	Buf			known = {0};

	for (size_t i = 0; i < N_ROWS; i++)
		if (strcmp(v->key, rows[i].name) == 0)
			return rows[i].take(&rows[i], v, o, e);
	for (size_t i = 0; i < N_ROWS; i++)
		buf_printf(&known, "%s%s", i == 0 ? "" : i < N_ROWS - 1 ? ", " : " and ", rows[i].name);
	err_set(e, ERR_INVALID, "unknown model option \"%.64s\"", v->key);
	err_hint(e, "Known options are %s.", known.data);
	buf_free(&known);
	return false;
}

/*
 * Append an option to the key.  A text is preceded by its length, so that no text can look like two
 * options.
 */
static void
key_row(const OptRow *row, const ModelOpts *o, Buf *key)
{
	buf_printf(key, "|%s=", row->name);
	switch (row->type)
	{
		case OPT_INT:
		case OPT_SWITCH:
			buf_printf(key, "%d", OPT_GET(row, o, int));
			break;
		case OPT_BIG:
			buf_printf(key, "%" PRId64, OPT_GET(row, o, int64_t));
			break;
		case OPT_NUM:
			buf_printf(key, "%.17g", OPT_GET(row, o, double));
			break;
		case OPT_OFF:
			buf_printf(key, "%d", OPT_GET(row, o, bool));
			break;
		case OPT_TEXT:
			buf_printf(key, "%zu:%s", strlen(&OPT_GET(row, o, char)), &OPT_GET(row, o, char));
			break;
		case OPT_SIZES:
			for (int i = 0; i < (int) row->most && (&OPT_GET(row, o, int))[i] != 0; i++)
				buf_printf(key, "%d,", (&OPT_GET(row, o, int))[i]);
			break;
		case OPT_SECONDS:
			buf_printf(key, "%" PRId64, OPT_GET(row, o, int64_t));
			break;
		case OPT_ELSEWHERE:
		case OPT_CALLER:
			break;
	}
}

void
model_opts_key(const ModelOpts *o, Buf *key)
{
	for (size_t i = 0; i < N_ROWS; i++)
		if (rows[i].key != OPT_NO_KEY)
			key_row(&rows[i], o, key);
}

const QuantScheme *
model_opts_scheme(const ModelOpts *o)
{
	const QuantScheme *q = quant_scheme(o->quantization);

	q = q != NULL ? q : quant_dtype(o->dtype);
	for (int x = X_AUTO + 1; x < X_SCHEMES; x++)
		if (strcmp(o->activation_scheme, x_scheme_name((XScheme) x)) == 0)
			return quant_with_x(q, (XScheme) x);
	return q;
}

const char *
model_opts_method(const ModelOpts *o)
{
	return quant_scheme(o->quantization) == NULL ? o->quantization : "";
}

bool
lora_limits(const ModelOpts *o, const Settings *s, LoraLimits *out, Err *e)
{
	int			cpu = o->max_cpu_loras > 0 ? o->max_cpu_loras : s->max_cpu_loras;

	out->enabled = o->enable_lora == 0 ? s->enable_lora : o->enable_lora > 0;
	out->max_loras = o->max_loras > 0 ? o->max_loras : s->max_loras;
	out->max_cpu_loras = cpu > 0 ? cpu : out->max_loras;
	out->max_rank = o->max_lora_rank > 0 ? o->max_lora_rank : s->max_lora_rank;
	snprintf(out->dtype, sizeof(out->dtype), "%s", o->lora_dtype[0] != '\0' ? o->lora_dtype : s->lora_dtype);
	if (out->max_cpu_loras >= out->max_loras)
		return true;
	err_set(e, ERR_INVALID, "max_cpu_loras (%d) must be at least max_loras (%d)", out->max_cpu_loras,
			out->max_loras);
	return err_hint(e, "They are options of a model, or the settings vllm.max_cpu_loras and vllm.max_loras.");
}

static bool
check_loras(const ModelOpts *o, Err *e)
{
	if (o->max_lora_rank > 0 && !lora_rank_ok(o->max_lora_rank))
		return err_set(e, ERR_INVALID, "model option \"max_lora_rank\" must be one of " LORA_RANKS ", got %d",
					   o->max_lora_rank);
	if (o->max_cpu_loras > 0 && o->max_cpu_loras < o->max_loras)
		return err_set(e, ERR_INVALID, "model option \"max_cpu_loras\" (%d) must be at least max_loras (%d)",
					   o->max_cpu_loras, o->max_loras);
	return true;
}

bool
model_opts_parse(const char *json, ModelOpts *out, Err *e)
{
	Json	   *root;
	bool		ok = true;

	memset(out, 0, sizeof(*out));
	if (json == NULL || json[0] == '\0')
		return true;
	root = json_parse(json, strlen(json));
	if (!json_is_object(root))
	{
		json_free(root);
		return err_set(e, ERR_INVALID, "model options must be a JSON object");
	}
	for (const Json *v = root->child; v != NULL && ok; v = v->next)
		ok = json_is_null(v) || opt_one(v, out, e);
	json_free(root);
	return ok && check_loras(out, e);
}
