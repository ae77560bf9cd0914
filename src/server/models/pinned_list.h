/*
 * pinned_list.h
 *	  Control commands about prompts that stay computed: "pins" lists those of the models of a database,
 *	  "unpin ID" gives one up.
 */
#ifndef VLLM_SERVER_MODELS_PINNED_LIST_H
#define VLLM_SERVER_MODELS_PINNED_LIST_H

#include "server/server.h"

/* False: it is another command. */
bool		pinlist_command(Server *s, ServerCall *c, const char *command);

#endif
