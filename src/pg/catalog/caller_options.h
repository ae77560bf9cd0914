/*
 * caller_options.h
 *	  Options of local and remote models that the caller's side uses: prices, fallback,
 *	  cascade, result_cache.
 */
#ifndef VLLM_PG_CATALOG_CALLER_OPTIONS_H
#define VLLM_PG_CATALOG_CALLER_OPTIONS_H

#include "postgres.h"

#include "nodes/pg_list.h"

#include "pg/util/json_tree.h"
#include "ipc/wire.h"

/* ERROR unless those of them that are there fit a model of this name. */
void		caller_options_check(const JsonNode *root, const char *model);

/* Their fields of a request's message; options: a model's, json text or NULL. */
void		caller_options_put(const char *options, WireOut *out);

/* The option of other models' names that has this one; NULL: none has. */
const char *caller_options_naming(const char *options, const char *name);
/* The names in these, char *. */
List	   *caller_options_named(const char *options);
/* The options without the name, and without those that nothing is left of. */
char	   *caller_options_without(const char *options, const char *name);

#endif
