/*
 * chatmodel.h
 *	  Where chat templates come from: a model's files, or an option of its entry.
 */
#ifndef VLLM_ENGINE_CHATMODEL_H
#define VLLM_ENGINE_CHATMODEL_H

#include "load/load.h"
#include "text/chat.h"

/* What the files hold; never NULL. */
ChatModel  *chatmodel_of_files(const Files *f);
/*
 * The template that a catalog entry's options (JSON text, NULL or "" = none) name; *out
 * = NULL if they name none.  False with *e set: the file can't be read, or the template
 * is malformed.
 */
bool		chatmodel_of_options(const char *options, ChatModel **out, Err *e);

#endif
