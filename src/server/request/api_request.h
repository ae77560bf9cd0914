/*
 * api_request.h
 *	  The fields of a WK_API message (server/api/api_call.h).
 */
#ifndef VLLM_SERVER_REQUEST_API_REQUEST_H
#define VLLM_SERVER_REQUEST_API_REQUEST_H

#include "base/err.h"
#include "base/str_view.h"
#include "ipc/wire.h"

#define API_MAX_ITEMS	4096	/* inner requests of one body */

/* One of the list of models. */
typedef struct ApiModel
{
	StrView		name;
	StrView		root;			/* of an adapter: its files */
	StrView		parent;			/* of an adapter: its parent model */
} ApiModel;

/* The fields of a WK_API message; texts point into it. */
typedef struct ApiRequest
{
	StrView		path;
	StrView		body;
	bool		stream;			/* chunks are wanted */
	bool		as_body;		/* an error is to be answered as a body, too */
	StrView		unknown;		/* error, warn, ignore: what to do about unknown members */
	bool		prompt_embeds;	/* a prompt may be embeddings */
	bool		trust_template; /* a body may have a chat template of its own */
	StrView		tool_parser;	/* of chats, where the model names none */
	StrView		reasoning_parser;
	StrView		previous;		/* JSON: the items before, or the response that is asked for */
	ApiModel   *models;			/* owned: those that may be listed */
	int			n_models;
	/* the caller has found an error, and wants it as a body */
	StrView		sqlstate;
	StrView		message;
	StrView		detail;
	StrView		hint;
} ApiRequest;

bool		api_field(ApiRequest *r, const WireField *f, bool *known, Err *e);
void		api_request_free(ApiRequest *r);

#endif
