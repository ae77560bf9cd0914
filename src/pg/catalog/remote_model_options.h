/*
 * remote_model_options.h
 *	  Checks of a remote model's url and options when it is created.
 */
#ifndef VLLM_PG_CATALOG_REMOTE_MODEL_OPTIONS_H
#define VLLM_PG_CATALOG_REMOTE_MODEL_OPTIONS_H

#include "postgres.h"

#include "nodes/pg_list.h"

#include "pg/util/json_tree.h"

/*
 * ERROR unless it is a base URL of a host in vllm.allowed_hosts.  option: the option that has the
 * url, or NULL.
 */
void		remote_url_check(const char *url, const char *option);

/* ERROR unless each of the options is in ipc/remote_options.def and fits a model of this name. */
void		remote_options_check(const char *options, const char *model);

/* Parse a model's options, in the server's encoding; NULL if there are none. */
const JsonNode *model_options_tree(const char *options);

/* Return the texts, char *, of an option that is a text or an array of texts. */
List	   *model_options_texts(const JsonNode *root, const char *option);

#endif
