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

/* One model of the list of models. */
typedef struct ApiModel
{
	StrView		name;
	StrView		root;			/* if an adapter: its files */
	StrView		parent;			/* if an adapter: its base model */
} ApiModel;

/* The fields of a WK_API message; texts point into it. */
typedef struct ApiRequest
{
	StrView		path;
	StrView		body;
	bool		stream;			/* the client wants chunks */
	bool		as_body;		/* errors must be bodies, too */
	StrView		unknown;		/* error, warn, ignore: how unknown members are handled */
	bool		prompt_embeds;	/* a prompt may be embeddings */
	bool		trust_template; /* a body may have a chat template of its own */
	StrView		tool_parser;	/* for chats whose model names no parser */
	StrView		reasoning_parser;
	StrView		previous;		/* JSON: the previous items, or the requested response */
	ApiModel   *models;			/* owned: models that may be listed */
	int			n_models;
	/* an error that the caller has found, and wants as a body */
	StrView		sqlstate;
	StrView		message;
	StrView		detail;
	StrView		hint;
} ApiRequest;

bool		api_field(ApiRequest *r, const WireField *f, bool *known, Err *e);
void		api_request_free(ApiRequest *r);

#endif
