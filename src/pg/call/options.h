/*
 * options.h
 *	  What a caller asked for: named arguments, params, session defaults.
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

/* What is generated from is the first argument of all functions. */
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
	const char *alias;			/* in params */
	const char *name;
} OptAlias;

typedef struct OptTable
{
	const OptDef *defs;
	int			n;
	const OptAlias *aliases;
	int			n_aliases;
} OptTable;

/* One option from a function's argument that is not NULL. */
void		options_argument(const OptDef *d, OptValue *v, Datum arg);
/* Those of a json object that aren't set yet; what: its name in an error message. */
void		options_json(const OptTable *t, OptValue *v, const char *json, const char *what);
/* Fields of those that are set. */
void		options_send(const OptTable *t, const OptValue *v, WireOut *out);
/* ERROR 22023: "NAME RULE", with the value in the detail */
void		options_refuse(const OptDef *d, const char *rule, const char *value);

/* What a call itself, not the session, says about what its answer must look like. */
typedef enum OwnShape
{
	SHAPE_NONE,
	SHAPE_TEXT,					/* that it needn't look like anything */
	SHAPE_KIND,
	SHAPE_CALL					/* calls of tools must be made */
} OwnShape;

typedef struct GenOptions
{
	OptValue	v[OPT_COUNT];
	OwnShape	own_shape;
	bool		own_outputs;	/* the call has structured_outputs */
	bool		named_model;	/* the call names a model, or an adapter */
	bool		default_max_tokens; /* max_tokens is vllm.default_max_tokens: the caller said nothing */
} GenOptions;

/*
 * Everything a call says, in order of precedence: named arguments, the params
 * argument, vllm.default_params, vllm.default_max_tokens.  Values are checked;
 * what the model decides (vocabulary, context length) the engine checks.
 */
void		options_read(GenOptions *o, FunctionCallInfo fcinfo);

/* Refuse values that a call can't have, and options that contradict each other. */
void		options_check_together(const GenOptions *o, bool call);

/*
 * Refuse what the caller has no room for: more than one answer, log-probabilities (answers:
 * it has), what makes a beam search (beams: it is one), rows as they come (stream).
 */
void		options_check_answers(const GenOptions *o, bool answers, bool beams, bool stream);

/* The options of a json object, where they are not set yet. */
void		options_object(GenOptions *o, const char *json, const char *what);
const char *options_name(OptId option);

/* The function's own schema, in place of the session's; ERROR 22023 if the call names one, too. */
void		options_take_schema(GenOptions *o, char *schema);

/* Fields for a WK_GENERATE message. */
void		options_put(const GenOptions *o, WireOut *out);

/* NULL: not given, so vllm.model */
const char *options_model(const GenOptions *o);
/* NULL: no adapter is named beside it */
const char *options_lora(const GenOptions *o);
int			options_timeout_ms(const GenOptions *o);
OnError		options_on_error(const GenOptions *o);
/* Is there a thinking_token_budget? */
bool		options_limit_thoughts(const GenOptions *o);
/* Do equal prompts get equal answers? */
bool		options_deterministic(const GenOptions *o);

#endif
