/*
 * pinlist.h
 *	  Control commands about prompts that stay computed: "pins" lists those of the models of a database,
 *	  "unpin ID" gives one up.
 */
#ifndef VLLM_ENGINE_PINLIST_H
#define VLLM_ENGINE_PINLIST_H

#include "engine/server.h"

/* False: it is another command. */
bool		pinlist_command(Server *s, Conv *c, const char *command);

#endif
