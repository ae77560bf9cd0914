/*
 * chat_template_source.h
 *	  Read chat templates from a model's files, or from an option of its catalog entry.
 */
#ifndef VLLM_BACKEND_CHAT_TEMPLATE_SOURCE_H
#define VLLM_BACKEND_CHAT_TEMPLATE_SOURCE_H

#include "loader/model_files.h"
#include "template/chat_template.h"

/* Return the templates in the files; never NULL. */
ChatModel  *chatmodel_of_files(const Files *f);
/*
 * Read the chat options of a catalog entry (JSON text, NULL or "" = none); *out = NULL if it has none.
 * Returns false with *e set if the template's file can't be read or a format is unknown.  chat_check()
 * detects a malformed template.
 */
bool		chatmodel_of_options(const char *options, ChatModel **out, Err *e);

#endif
