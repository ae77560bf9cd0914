/*
 * options.h
 *	  What a caller asked for: named arguments, params, session defaults.
 */
#ifndef VLLM_PG_OPTIONS_H
#define VLLM_PG_OPTIONS_H

#include "postgres.h"

#include "fmgr.h"

#include "wire/wire.h"

typedef enum OptId
{
#define OPTION(name, arg, type, tag, lo, hi, rule) OPT_##name,
#define LATER(name)
#include "pg/options.def"
#undef OPTION
#undef LATER
	OPT_COUNT
} OptId;

/* Positions that are not options themselves. */
#define GEN_ARG_PROMPT	0
#define GEN_ARG_PARAMS	11

typedef struct OptValue
{
	bool		set;
	int64		i;				/* INT, BIG, BOOL */
	double		num;			/* NUM */
	int			n;				/* STRS, IDS: elements */
	char	  **strs;			/* STRS, STR (one); server encoding */
	int32	   *ids;			/* IDS */
} OptValue;

typedef struct GenOptions
{
	OptValue	v[OPT_COUNT];
} GenOptions;

/*
 * Everything a call says, in order of precedence: named arguments, the params
 * argument, vllm.default_params, vllm.default_max_tokens.  Values are checked;
 * what the model decides (vocabulary, context length) the engine checks.  shift: the
 * arguments stand so many places behind those of options.def.
 */
void		options_read(GenOptions *o, FunctionCallInfo fcinfo, int shift);

/* Fields for a WK_GENERATE message. */
void		options_put(const GenOptions *o, WireOut *out);

/* NULL: not given, so vllm.model */
const char *options_model(const GenOptions *o);
int			options_timeout_ms(const GenOptions *o);
/* Do equal prompts get equal answers? */
bool		options_deterministic(const GenOptions *o);

#endif
