/*
 * api.h
 *	  Requests in the bodies of OpenAI's and Anthropic's interfaces (WK_API).
 *
 * An API call is a client inside the engine: its endpoint (a row of api.def) reads the
 * body and makes ordinary requests of it, each an inner conversation (conv.h) with the
 * same fields that a backend would send; what these answer is put together as the
 * endpoint's answer.  So a body can do nothing that a backend can't, and the core knows
 * nothing of bodies.
 */
#ifndef VLLM_ENGINE_API_H
#define VLLM_ENGINE_API_H

#include "engine/conv.h"

typedef struct ApiCall ApiCall;

typedef struct ApiText
{
	const char *s;				/* NULL = not given */
	size_t		n;
} ApiText;

/* One of the list of models. */
typedef struct ApiModel
{
	ApiText		name;
	ApiText		root;			/* of an adapter: its files */
	ApiText		parent;			/* ... and its model */
} ApiModel;

/* The fields of a WK_API message; texts point into it. */
typedef struct ApiRequest
{
	ApiText		path;
	ApiText		body;
	bool		stream;			/* chunks are wanted */
	bool		as_body;		/* an error is to be answered as a body, too */
	ApiText		unknown;		/* error, warn, ignore: what to do about unknown members */
	bool		prompt_embeds;	/* a prompt may be embeddings */
	bool		trust_template; /* a body may have a chat template of its own */
	ApiText		tool_parser;	/* of chats, where the model names none */
	ApiText		reasoning_parser;
	ApiText		previous;		/* JSON: the items before, or the response that is asked for */
	ApiModel   *models;			/* owned: those that may be listed */
	int			n_models;
	/* the asker has found an error, and wants it as a body */
	ApiText		sqlstate;
	ApiText		message;
	ApiText		detail;
	ApiText		hint;
} ApiRequest;

bool		api_field(ApiRequest *r, const WireField *f, bool *known, Err *e);
void		api_request_free(ApiRequest *r);

/* Server thread: */
void		api_start(Conv *c);
void		api_cancel(Conv *c);
void		api_each(const ApiCall *a, void (*fn) (Conv *c, void *arg), void *arg);
/* Free it if nothing of it is under way any more. */
bool		api_free(ApiCall *a);

#endif
