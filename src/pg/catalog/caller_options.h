/*
 * caller_options.h
 *	  Options of local and remote models that the backend uses itself: prices, fallback,
 *	  cascade, result_cache.
 */
#ifndef VLLM_PG_CATALOG_CALLER_OPTIONS_H
#define VLLM_PG_CATALOG_CALLER_OPTIONS_H

#include "postgres.h"

#include "nodes/pg_list.h"

#include "pg/util/json_tree.h"
#include "ipc/wire.h"

/* ERROR unless those of these options that are given fit a model of this name. */
void		caller_options_check(const JsonNode *root, const char *model);

/* Append their fields to a request's message.  options: the model's, json text or NULL. */
void		caller_options_put(const char *options, WireOut *out);

/* Return the option that names this model; NULL if none does. */
const char *caller_options_naming(const char *options, const char *name);
/* Return the names of models in these options, char *. */
List	   *caller_options_named(const char *options);
/* Return the options without the name, and without options that become empty. */
char	   *caller_options_without(const char *options, const char *name);

#endif
