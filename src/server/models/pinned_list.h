/*
 * pinned_list.h
 *	  Control commands about pinned prefixes: "pins" lists those of the models of a database, "unpin ID"
 *	  releases one.
 */
#ifndef VLLM_SERVER_MODELS_PINNED_LIST_H
#define VLLM_SERVER_MODELS_PINNED_LIST_H

#include "server/server.h"

/* Run the command.  Returns false if it is another one. */
bool		pinlist_command(Server *s, ServerCall *c, const char *command);

#endif
