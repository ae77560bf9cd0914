/*
 * cascade_option.h
 *	  Option "cascade" of a model: when another model decides instead.
 */
#ifndef VLLM_PG_CATALOG_CASCADE_OPTION_H
#define VLLM_PG_CATALOG_CASCADE_OPTION_H

#include "postgres.h"

#include "ipc/wire.h"
#include "pg/util/json_tree.h"

typedef struct CascadeRule
{
	double		threshold;		/* log-probability; NaN: none */
	double		accept;			/* probabilities; NaN: none */
	double		reject;
	const char *to;				/* in the message's field, UTF-8, not terminated */
	Size		to_len;
} CascadeRule;

/*
 * cascade_check(): ERROR unless the option fits a model of this name.  cascade_put(): append the
 * option's field to a message.
 */
void		cascade_check(const JsonNode *n, const char *model);
void		cascade_put(const JsonNode *n, WireOut *out);

#endif
