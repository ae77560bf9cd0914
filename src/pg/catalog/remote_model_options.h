/*
 * remote_model_options.h
 *	  What a remote model is made of, checked when it is made.
 */
#ifndef VLLM_PG_CATALOG_REMOTE_MODEL_OPTIONS_H
#define VLLM_PG_CATALOG_REMOTE_MODEL_OPTIONS_H

#include "postgres.h"

#include "nodes/pg_list.h"

#include "pg/util/json_tree.h"

/* ERROR unless it is a base URL of a host in vllm.allowed_hosts; option: NULL, or which one it stands in. */
void		remote_url_check(const char *url, const char *option);

/* ERROR unless each of the options is one of ipc/remote_options.def and fits a model of this name. */
void		remote_options_check(const char *options, const char *model);

/* The tree of a model's options, in the server's encoding; NULL: there are none. */
const JsonNode *model_options_tree(const char *options);

/* The texts, char *, of an option that is a text or an array of them. */
List	   *model_options_texts(const JsonNode *root, const char *option);

#endif
