/*
 * request.h
 *	  One request: from the fields of a message to checked parameters, and from
 *	  there to the backend.
 */
#ifndef VLLM_ENGINE_REQUEST_H
#define VLLM_ENGINE_REQUEST_H

#include "engine/backend.h"
#include "engine/chunking.h"
#include "engine/conv.h"

/* Pointers point into the conversation's message body. */
typedef struct Request
{
	uint32_t	dboid;
	uint32_t	roleid;
	uint64_t	session;
	char		model[WIRE_NAME_LEN];
	char	   *path;			/* owned; NULL = not given */
	char	   *options;		/* owned; NULL = none */
	uint64_t	model_hash;		/* 0 = not given */
	char		command[128];
	bool		has_prompt;
	const char *prompt;
	size_t		prompt_len;
	bool		has_ids;
	WireField	ids;			/* PROMPT_IDS */
	bool		has_chat;		/* chat.messages instead of a prompt */
	ChatRequest chat;
	bool		stream;
	bool		want_ids;
	bool		has_want_ids;
	bool		add_special;
	bool		has_seed;
	unsigned	given;			/* GP_* */
	GenParams	params;			/* moved out at submit */
	PoolRequest pool;			/* WK_POOL, WK_LOGPROBS */
	ChunkRequest chunk;			/* WK_CHUNK */
} Request;

/* Decode and check the fields of a message; the request is freed with request_free(). */
Request    *request_parse(int kind, const char *data, size_t n, Err *e);
void		request_free(Request *r);

/* The message is complete: start working on it (server thread). */
void		request_start(Conv *c);
/* Its model is ready (models.c calls this for every conversation that waited). */
void		request_run(Conv *c);
/* End with an error; counts it if it is a generate request the backend never saw. */
void		request_fail(Conv *c, const Err *e);
/* Cancelled by its backend or lost: stop the work, let go of the slot. */
void		request_cancel(Conv *c);

#endif
