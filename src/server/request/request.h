/*
 * request.h
 *	  One request: from the fields of a message to checked parameters, and from
 *	  there to the backend.
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

/* What a job has made of a text beside what the core gets (Request.spec). */
typedef struct TextResult
{
	bool		ok;				/* else why */
	Err			why;
	Buf			text;			/* or fields of the reply */
	int			max_model_len;	/* WK_TOKENIZE: the model's */
	size_t		n_whole;		/* WK_TOKENIZE: tokens before truncation */
	bool		accepted;		/* WK_GRAMMAR */
	PoolExtra	extra;			/* WK_POOL */
} TextResult;

/*
 * One from its fields to its submission.  The server thread's; while it is a job, that thread's (job_busy).
 * Pointers point into the conversation's message body.
 */
typedef struct Request
{
	Job			job;			/* first: its text's work, which may take a while */
	ServerCall *call;
	struct ModelInstance *pin;	/* the job's; NULL: it needs no model */
	const ChatModel *own;		/* the job's: the entry's template; NULL: the model's files' */
	TextResult	made;
	/*
	 * what the core gets, and what texts without one become: prompt has the tokens of WK_TOKENIZE and
	 * WK_DETOKENIZE, and the spans of WK_CHUNK.  Empty from submission on
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
	unsigned	secret_paths;	/* WIRE_SECRET_*: errors have a name instead of a path */
	char		command[128];
	bool		sleep_wait;		/* it waits while its model is asleep */
	bool		elsewhere;		/* a remote model: the fake stands in for the remote program */
	bool		has_prompt;
	const char *prompt;
	size_t		prompt_len;
	bool		has_ids;
	WireField	ids;			/* PROMPT_IDS */
	EmbedsRequest embeds;		/* instead of either */
	bool		has_chat;		/* chat.messages instead of a prompt */
	ChatRequest chat;
	int			stream_interval;	/* tokens that a stream tells at once; 0 = not given */
	bool		want_ids;
	bool		has_want_ids;
	bool		want_answers;
	bool		add_special;
	bool		whole_length;	/* max_tokens must fit behind the prompt */
	/* a longer prompt to so many tokens; -1 = to what leaves room for the answer; 0 = no */
	int			truncate;
	bool		truncate_right;	/* leave out its end, not its beginning */
	bool		has_seed;
	uint64_t	given;			/* GP() */
	StructuredSpec structured;
	PoolRequest pool;			/* WK_POOL, WK_LOGPROBS */
	ChunkRequest chunk;			/* WK_CHUNK */
	ApiRequest	api;			/* WK_API */
	ParseRequest parse;			/* WK_PARSE, chats */
	const char *schema;			/* WK_GRAMMAR: in the message; NULL = not given */
	size_t		schema_len;
} Request;

static inline bool
request_is_pooled(int kind)
{
	return kind == WK_POOL || kind == WK_LOGPROBS;
}

/* Decode and check the fields of a message; the request is freed with request_free(). */
/* Of a beam search's message: is there nothing but what it honours (request_beams.c)? */
bool		request_beams_check(const char *data, size_t n, Err *e);
bool		request_beams_refuse(const char *name, Err *e);
Request    *request_parse(int kind, const char *data, size_t n, Err *e);
void		request_free(Request *r);

/* The message is complete: start working on it (server thread). */
void		request_start(ServerCall *c);
/*
 * What a kind of request does (server/request_kinds.c): wait for its model and then run; the same, with the
 * counters of the core's requests; a text's work, which may need no model.
 */
void		request_start_with_model(ServerCall *c);
void		request_start_counted(ServerCall *c);
void		request_start_text(ServerCall *c);
void		request_start_render(ServerCall *c);
/* When the model is loaded: hands the request to the core with the facts of the model. */
void		request_run_generate(ServerCall *c);
void		request_run_facts(ServerCall *c);
/* End with an error; counts it if it is a generate request the backend never saw. */
void		request_fail(ServerCall *c, const Err *e);
/* WK_MODEL_CHECK, WK_MODEL_INSPECT (model_check.c) */
void		request_check(ServerCall *c);
/* End with what is known of a model; with a text. */
void		request_answer_facts(ServerCall *c, const ModelFacts *f);
void		request_answer_text(ServerCall *c, const Buf *text);
/* A request's sink: events of the backend become frames of its conversation, ctx. */
void		request_sink(void *ctx, Req *r, const ReqEvent *ev);
/* Cancelled by its backend or lost: stop the work, let go of the slot. */
void		request_cancel(ServerCall *c);

#endif
