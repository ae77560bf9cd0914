/*
 * chat_template_source.h
 *	  Where chat templates come from: a model's files, or an option of its entry.
 */
#ifndef VLLM_BACKEND_CHAT_TEMPLATE_SOURCE_H
#define VLLM_BACKEND_CHAT_TEMPLATE_SOURCE_H

#include "loader/model_files.h"
#include "template/chat_template.h"

/* What the files hold; never NULL. */
ChatModel  *chatmodel_of_files(const Files *f);
/*
 * What the options of a catalog entry (JSON text, NULL or "" = none) say of chats: *out
 * = NULL if nothing.  False with *e set: the template's file can't be read, or a format
 * is unknown.  A malformed template is found by chat_check().
 */
bool		chatmodel_of_options(const char *options, ChatModel **out, Err *e);

#endif
