/*
 * options.h
 *	  Options of a call: named arguments, params, session defaults.
 */
#ifndef VLLM_PG_CALL_OPTIONS_H
#define VLLM_PG_CALL_OPTIONS_H

#include "postgres.h"

#include "fmgr.h"

#include "pg/util/on_error.h"
#include "ipc/wire.h"

typedef enum OptId
{
#define OPTION(name, type, tag, lo, hi, rule) OPT_##name,
#define ALIAS(alias, name)
#define REMOVED(name, hint)
#include "pg/call/options.def"
#undef OPTION
#undef ALIAS
#undef REMOVED
	OPT_COUNT
} OptId;

/* the prompt is the first argument of all functions */
#define GEN_ARG_PROMPT	0

typedef struct OptValue
{
	bool		set;
	int64		i;				/* INT, BIG, BOOL */
	double		num;			/* NUM */
	int			n;				/* STRS, IDS: elements */
	char	  **strs;			/* STRS, STR and JSON (one); server encoding */
	int32	   *ids;			/* IDS */
} OptValue;

typedef enum OptType
{
	OPT_TYPE_INT, OPT_TYPE_BIG, OPT_TYPE_NUM, OPT_TYPE_BOOL, OPT_TYPE_STR, OPT_TYPE_STRS, OPT_TYPE_IDS,
	OPT_TYPE_JSON
} OptType;

/* A row of options.def or pooling_options.def */
typedef struct OptDef
{
	const char *name;
	OptType		type;
	int			tag;
	double		lo,
				hi;
	const char *rule;
} OptDef;

typedef struct OptAlias
{
	const char *alias;			/* another name in params */
	const char *name;
} OptAlias;

typedef struct OptTable
{
	const OptDef *defs;
	int			n;
	const OptAlias *aliases;
	int			n_aliases;
} OptTable;

/* Read one option from a function's argument that is not NULL. */
void		options_argument(const OptDef *d, OptValue *v, Datum arg);
/*
 * Read from a json object the options that aren't set yet.  what: the object's name in an error
 * message.
 */
void		options_json(const OptTable *t, OptValue *v, const char *json, const char *what);
/* Append the fields of the options that are set. */
void		options_send(const OptTable *t, const OptValue *v, WireOut *out);
/* ERROR 22023: "NAME RULE", with the value in the detail */
void		options_refuse(const OptDef *d, const char *rule, const char *value);

/* How a call itself, apart from the session's defaults, constrains its output. */
typedef enum OwnShape
{
	SHAPE_NONE,
	SHAPE_TEXT,					/* it says that the output is free text */
	SHAPE_KIND,
	SHAPE_CALL					/* the model must call tools */
} OwnShape;

typedef struct GenOptions
{
	OptValue	v[OPT_COUNT];
	OwnShape	own_shape;
	bool		own_outputs;	/* the call has structured_outputs */
	bool		named_model;	/* the call names a model, or an adapter */
	bool		default_max_tokens; /* max_tokens comes from vllm.default_max_tokens: the caller gave
									 * none */
} GenOptions;

/*
 * Read all options of a call, in order of precedence: named arguments, the params argument,
 * vllm.default_params, vllm.default_max_tokens.  Checks values; the engine checks those that depend
 * on the model (vocabulary, context length).
 */
void		options_read(GenOptions *o, FunctionCallInfo fcinfo);

/*
 * Refuse values that no call can have, and options that contradict each other.  call: the options are
 * a call's, with the session's defaults.
 */
void		options_check_together(const GenOptions *o, bool call);

/*
 * Refuse options that the function does not support: more than one output and log-probabilities
 * (unless answers), options of a beam search (unless beams), output kinds that don't fit (stream: the
 * function returns rows as they arrive).
 */
void		options_check_answers(const GenOptions *o, bool answers, bool beams, bool stream);

/* Read from a json object the options that are not set yet. */
void		options_object(GenOptions *o, const char *json, const char *what);
const char *options_name(OptId option);

/* Set the function's own schema instead of the session's; ERROR 22023 if the call gives one, too. */
void		options_take_schema(GenOptions *o, char *schema);

/* Append the fields of a WK_GENERATE message. */
void		options_put(const GenOptions *o, WireOut *out);

/* NULL: not given, so vllm.model applies */
const char *options_model(const GenOptions *o);
/* NULL: no adapter is given */
const char *options_lora(const GenOptions *o);
int			options_timeout_ms(const GenOptions *o);
OnError		options_on_error(const GenOptions *o);
/* Return true if there is a thinking_token_budget. */
bool		options_limit_thoughts(const GenOptions *o);
/* Return true if equal prompts get equal outputs. */
bool		options_deterministic(const GenOptions *o);

#endif
