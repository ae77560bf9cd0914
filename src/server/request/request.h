/*
 * request.h
 *	  One request: from the fields of a message to checked parameters, and from there to the backend.
 */
#ifndef VLLM_SERVER_REQUEST_REQUEST_H
#define VLLM_SERVER_REQUEST_REQUEST_H

#include "server/request/api_request.h"
#include "server/request/request_limits.h"
#include "backend/backend.h"
#include "server/request/chunk_request.h"
#include "server/server_call.h"
#include "server/request/output_parsers.h"
#include "server/request/prompt_embeds.h"
#include "server/request/structured_options.h"
#include "server/worker_pool.h"
#include "ipc/traceparent.h"

/* The result of a text job, apart from what the core gets (Request.spec). */
typedef struct TextResult
{
	bool		ok;				/* if false, see why */
	Err			why;
	Buf			text;			/* or the fields of the reply */
	int			max_model_len;	/* WK_TOKENIZE: the model's */
	size_t		n_whole;		/* WK_TOKENIZE: tokens before truncation */
	bool		accepted;		/* WK_GRAMMAR */
	PoolExtra	extra;			/* WK_POOL */
} TextResult;

/*
 * A request from its fields to its submission.  The server thread owns it; while it is a job, the job's
 * thread does (job_busy).  Pointers point into the server call's message body.
 */
typedef struct Request
{
	Job			job;			/* first member: processing of its text, which may take a while */
	ServerCall *call;
	struct ModelInstance *pin;	/* pinned for the job; NULL: the job needs no model */
	const ChatModel *own;		/* for the job: the entry's template; NULL: the one of the model's files */
	TextResult	made;
	/*
	 * What the core gets, and the results of requests without one: prompt has the tokens of WK_TOKENIZE
	 * and WK_DETOKENIZE, and the spans of WK_CHUNK.  Empty after submission.
	 */
	ReqSpec		spec;
	uint32_t	dboid;
	uint32_t	roleid;
	uint64_t	session;
	char		traceparent[TRACEPARENT_LEN + 1];	/* '' = none */
	char		model[WIRE_NAME_LEN];
	char	   *path;			/* owned; NULL = not given */
	char	   *options;		/* owned; NULL = none */
	uint64_t	model_hash;		/* 0 = not given */
	char		lora[WIRE_NAME_LEN];	/* an adapter's name; "" = not given */
	char	   *lora_path;		/* owned; NULL = none */
	int			lora_pin;		/* 1, 0; -1 = not given */
	unsigned	secret_paths;	/* WIRE_SECRET_*: errors show a name instead of a path */
	char		command[128];
	bool		sleep_wait;		/* the request waits while its model is asleep */
	bool		elsewhere;		/* a remote model: the fake backend replaces the remote program */
	bool		has_prompt;
	const char *prompt;
	size_t		prompt_len;
	bool		has_ids;
	WireField	ids;			/* PROMPT_IDS */
	EmbedsRequest embeds;		/* instead of a prompt or its ids */
	bool		has_chat;		/* chat.messages instead of a prompt */
	ChatRequest chat;
	int			stream_interval;	/* tokens that one frame of a stream has; 0 = not given */
	bool		want_ids;
	bool		has_want_ids;
	bool		want_answers;
	bool		add_special;
	/* it is an error if max_tokens does not fit into the context after the prompt */
	bool		whole_length;
	/* truncate a longer prompt to this many tokens; -1 = to what leaves space for the output; 0 = no */
	int			truncate;
	bool		truncate_right;	/* drop the end of the prompt, not its beginning */
	bool		has_seed;
	uint64_t	given;			/* bits of the given parameters: GP() */
	StructuredSpec structured;
	PoolRequest pool;			/* WK_POOL, WK_LOGPROBS */
	ChunkRequest chunk;			/* WK_CHUNK */
	ApiRequest	api;			/* WK_API */
	ParseRequest parse;			/* WK_PARSE, chats */
	const char *schema;			/* WK_GRAMMAR: points into the message; NULL = not given */
	size_t		schema_len;
} Request;

static inline bool
request_is_pooled(int kind)
{
	return kind == WK_POOL || kind == WK_LOGPROBS;
}

/* Decode and check the fields of a message; the request is freed with request_free(). */
/* Check that a beam search's message has only parameters that it supports (request_beams.c). */
bool		request_beams_check(const char *data, size_t n, Err *e);
bool		request_beams_refuse(const char *name, Err *e);
Request    *request_parse(int kind, const char *data, size_t n, Err *e);
void		request_free(Request *r);

/* The message is complete: start processing it (server thread). */
void		request_start(ServerCall *c);
/*
 * Actions of the kinds of requests (server/request_kinds.c): wait for the model and then run; the same,
 * with the counters of the core's requests; process a text, which may need no model.
 */
void		request_start_with_model(ServerCall *c);
void		request_start_counted(ServerCall *c);
void		request_start_text(ServerCall *c);
void		request_start_render(ServerCall *c);
/* The model is loaded: submit the request to the core; or reply with the facts of the model. */
void		request_run_generate(ServerCall *c);
void		request_run_facts(ServerCall *c);
/* End with an error.  Counts a generate request that the backend has never seen. */
void		request_fail(ServerCall *c, const Err *e);
/* WK_MODEL_CHECK, WK_MODEL_INSPECT (model_check.c) */
void		request_check(ServerCall *c);
/* End with the facts of a model; end with a text. */
void		request_answer_facts(ServerCall *c, const ModelFacts *f);
void		request_answer_text(ServerCall *c, const Buf *text);
/* A request's sink: turns events of the backend into frames of its server call, ctx. */
void		request_sink(void *ctx, Req *r, const ReqEvent *ev);
/* The backend has cancelled the request or is lost: stop the work and release the slot. */
void		request_cancel(ServerCall *c);

#endif
