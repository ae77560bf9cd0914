/*
 * api_internal.h
 *	  An API call: body, inner requests, response.  Shared by the files of server/api.
 *
 * Life of a call, on the server thread unless said otherwise:
 *
 *	read		the body becomes a tree; the endpoint's make() adds items (on a text thread)
 *	launch		each item becomes an inner server call
 *	gather		their frames come by the server's mailbox; deltas become chunks at once
 *	finish		all items are done: the endpoint adds more items (make and launch again), or
 *				writes the response (on a text thread if it is long)
 *
 * The first error ends the call.  The requests that still run are cancelled, and the call is freed when
 * they have ended.
 */
#ifndef VLLM_SERVER_API_API_INTERNAL_H
#define VLLM_SERVER_API_API_INTERNAL_H

#include "base/json/json.h"
#include "base/json/json_scan.h"
#include "base/json/json_writer.h"
#include "server/api/api_call.h"
#include "server/server.h"

#define API_MAX_CHOICES	65536	/* choices of one body */
#define API_MAX_VALUES	(4 << 20)	/* JSON values of a body */
#define API_ID_LEN		96
/* bytes that inner requests have in common, all copies together */
#define API_MAX_SHARED	((size_t) 512 << 20)
#define API_MAX_ID		64		/* bytes of a body's request_id */

/* ---- the body ---- */

typedef struct ApiMember
{
	const Json *v;
	StrView		raw;			/* unparsed */
	bool		seen;			/* the endpoint has read it */
} ApiMember;

typedef struct ApiBody
{
	Json	   *root;			/* owned */
	ApiMember  *m;				/* owned */
	int			n;
} ApiBody;

bool		apibody_read(ApiBody *b, const char *s, size_t n, Err *e);
void		apibody_free(ApiBody *b);
/*
 * Return a member that is given and not null, else NULL, and mark it as known.  If there are several
 * with the name, the last one counts.
 */
const ApiMember *apibody_get(ApiBody *b, const char *name);
/* Mark members as known that have no effect here.  names is NULL-terminated. */
void		apibody_ignore(ApiBody *b, const char *const *names);
/* Check members whose effect is not available: one that is not at its neutral value is ERR_UNSUPPORTED. */
bool		apibody_refuse(ApiBody *b, const char *const *names, Err *e);
/* Set ERR_INVALID about a parameter, with parameter=, and return false. */
bool		api_bad(Err *e, const char *name, const char *what);
bool		apibody_bool(ApiBody *b, const char *name, bool *out, Err *e);
bool		apibody_int(ApiBody *b, const char *name, int64_t min, int64_t max, int64_t *out, Err *e);
bool		apibody_str(ApiBody *b, const char *name, const char **out, Err *e);
/* Check that the member is an object, or an array, if it is given. */
bool		apibody_is(ApiBody *b, const char *name, bool array, Err *e);
/* Return an object's member if it is a string, else NULL. */
const char *api_str(const Json *object, const char *name);
/* Return the first member with this name, unparsed; .s = NULL: none. */
StrView	api_raw_member(StrView object, const char *name);
/* Copy all members of an object but those with one name, unparsed, so that numbers keep their digits. */
void		api_write_members(JsonOut *j, StrView object, const char *except);
/* Is v an array of integers that can be token ids? */
bool		api_is_ids(const Json *v);
/* Write token ids as a field. */
bool		api_put_ids(WireOut *o, WireTag tag, const Json *v, const char *name, Err *e);

/* ---- inner requests ---- */

/* Durations of a request and its phases. */
typedef struct ApiTimes
{
	int64_t		queue_us, prefill_us, decode_us, total_us;
} ApiTimes;

typedef struct ApiItem
{
	WireKind	kind;
	int			role;			/* for the endpoint's use */
	int			index;			/* for the endpoint's use */
	Buf			in;				/* fields of its message */
	ServerCall *conv;			/* NULL: freed */
	bool		done;
	Buf			reply;			/* fields of its final frame */
	/* streaming: counts of the frames so far */
	int64_t		prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens;
	int64_t		preemptions, draft_tokens, accepted_tokens;
	ApiTimes	times;
} ApiItem;

/* The decoded fields of a reply; texts point into the item's reply.  Numbers: -1 = absent. */
typedef struct ApiReply
{
	StrView		text;
	WireField	ids;			/* .n = 0: none */
	WireField	floats;
	int64_t		rows;
	int64_t		prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens;
	int64_t		preemptions, draft_tokens, accepted_tokens;	/* absent = 0 */
	ApiTimes	times;
	int64_t		count;
	int64_t		max_model_len;
	StrView		fields;			/* all fields, for lists */
} ApiReply;

void		apireply_read(ApiReply *r, const char *fields, size_t n);

/* ---- choices, and log-probabilities (api_logprobs.c) ---- */

/* Parallel arrays (choice_replies.h); counts.n = 0: none */
typedef struct ApiEntries
{
	WireField	counts,
				ids,
				ranks,
				values,
				lengths,
				bytes;
} ApiEntries;

/* One choice of a reply, or in a stream the new part of it; texts point into the frame. */
typedef struct ApiAnswer
{
	int			index;			/* among the choices of the prompt */
	StrView		text;			/* .s NULL: none */
	StrView		reasoning;		/* .s NULL: none */
	StrView		tool_calls;		/* JSON array; .s NULL: none; in a stream: new calls, complete */
	/* for each call, the bytes of text before it; .n = 0: all calls follow the text */
	WireField	calls_at;
	WireField	ids;			/* .n = 0: none */
	StrView		finish_reason;	/* .s NULL: not finished */
	StrView		stop_reason;
	ApiEntries	entries;
} ApiAnswer;

typedef struct ApiAnswers
{
	ApiEntries	prompt;
	ApiAnswer  *a;				/* owned */
	int			n;
} ApiAnswers;

void		apianswers_read(ApiAnswers *r, const char *fields, size_t n);
void		apianswers_free(ApiAnswers *r);

/*
 * Write {"tokens": ..., "token_logprobs": ..., "top_logprobs": ..., "text_offset": ...}.  prompt: NULL,
 * or with echo the prompt's entries; its text is `echo`, its first token is `first` with the id
 * first_id.  *offset: characters before this text; advanced past it.
 */
void		api_write_completion_logprobs(JsonOut *j, const ApiEntries *prompt, StrView echo, StrView first,
										  int32_t first_id, const ApiEntries *e, bool as_ids,
										  int64_t *offset);
void		api_write_prompt_logprobs(JsonOut *j, const ApiEntries *prompt);
/* top: number of top log-probabilities; -1 = all that there are. */
void		api_write_chat_logprobs(JsonOut *j, const ApiEntries *entries, int top, bool as_ids);

/* Write the array of entries in the format of /v1/responses. */
void		api_write_token_logprobs(JsonOut *j, const ApiEntries *entries, int top, bool as_ids);

/* ---- the call ---- */

typedef struct ApiEndpoint ApiEndpoint;

struct ApiCall
{
	ServerCall *c;				/* the server call that this belongs to */
	Server	   *srv;
	const ApiRequest *req;
	const ApiEndpoint *ep;
	ApiBody		body;
	char		id[API_ID_LEN]; /* "chatcmpl-..." */
	char		model[WIRE_NAME_LEN];
	int64_t		created;		/* seconds since 1970 */
	int		   *model_lens;		/* owned; context length of each of req->models; 0 = unknown */
	bool		stream;
	Buf			head;			/* the fields that every item begins with: the caller and the model */

	ApiItem    *items;			/* owned; launched items; changed on the server thread only */
	int			n_items;
	int			n_done;
	ApiItem    *fresh;			/* owned; items that make() has added */
	int			n_fresh;
	bool		over;			/* the response or an error has been staged */
	_Atomic int mail;			/* frames of this call in the mailbox */

	/* the endpoint's state */
	void	   *own;			/* freed by ep->drop */
	int			round;			/* number of calls of make() before this one */
	bool		more;			/* make() must be called again */
	Buf			warnings;		/* each is NUL-terminated */
};

struct ApiEndpoint
{
	const char *prefix;			/* prefix of ids */
	bool		anthropic;		/* errors have Anthropic's format */
	bool		lists_models;	/* needs no model: lists the available ones */
	/*
	 * Make items from the body; any thread.  If it sets a->more, it is called again, with a->round one
	 * greater, when these items are done.
	 */
	bool		(*make) (ApiCall *a, Err *e);
	/* Write the response; all items are done; any thread. */
	bool		(*finish) (ApiCall *a, JsonOut *j, Err *e);
	/*
	 * Streaming: send chunks for the new part of an item's choice; server thread.  NULL: the endpoint
	 * can't stream.
	 */
	void		(*delta) (ApiCall *a, ApiItem *it, const ApiAnswer *r);
	/* Streaming: all items are done. */
	void		(*end) (ApiCall *a);
	void		(*drop) (ApiCall *a);	/* frees a->own; NULL: nothing to free */
};

#define API(path, name) extern const ApiEndpoint api_##name;
#include "server/api/api.def"
#undef API

/*
 * For make(): add an item, whose message begins with the head, and return it.  The pointer is valid
 * until the next api_item().  api_out() returns the writer of its fields.
 */
ApiItem    *api_item(ApiCall *a, WireKind kind, int role, int index);
WireOut		api_out(ApiItem *it);
/* Check that n items, each with its own copy of `shared` bytes, are within the limits. */
bool		api_room(const ApiCall *a, size_t n, size_t shared, Err *e);
/* Send a chunk. */
void		api_chunk(ApiCall *a, const Buf *json);
/* Make an id: "prefix" and 32 hexadecimal digits. */
void		api_make_id(ApiCall *a, const char *prefix, char *out, size_t size);

/* ---- shared by endpoints ---- */

/* sampling_params.c: write the messages and the other inputs of a chat template; tools are not checked. */
bool		api_chat_fields(ApiCall *a, WireOut *o, bool generation_prompt, Err *e);
/* Write the sampling parameters of a body as fields of a message. */
bool		api_params(ApiCall *a, WireOut *o, Err *e);

/* Usage of the items whose role is `role`; each prompt is counted once. */
typedef struct ApiUsage
{
	int64_t		prompt, completion, cached;
	int64_t		reasoning;		/* part of completion; -1: not counted */
} ApiUsage;

ApiUsage	api_usage(const ApiCall *a, int role);
void		api_write_usage(JsonOut *j, const ApiUsage *u);

/* embeddings.c: write the fields that all pooling bodies have. */
bool		api_pool_fields(ApiCall *a, WireOut *o, Err *e);

/* ---- tools and reasoning (tools.c) ---- */

/* Check tools and tool_choice of a chat. */
bool		api_check_tools(ApiCall *a, Err *e);
/* Check tools and tool_choice of /v1/responses, and convert the tools to those of a chat. */
bool		api_put_tools(ApiCall *a, WireOut *o, Err *e);
/* Check tools and tool_choice of Anthropic's messages, and convert them to those of a chat. */
bool		api_put_anthropic_tools(ApiCall *a, WireOut *o, Err *e);
/*
 * Write the parsers for a chat's output, and the options about parsing in the body of a chat or of
 * /v1/responses.
 */
void		api_put_parsers(ApiCall *a, WireOut *o);
bool		api_put_parsing(ApiCall *a, WireOut *o, Err *e);
/* Write reasoning_effort, for the template.  effort NULL: not given. */
bool		api_put_effort(WireOut *o, const char *name, const char *effort, Err *e);

/* Parse the tool calls of a choice (ApiAnswer.tool_calls).  Returns a tree that the caller frees, or NULL. */
Json	   *api_calls(StrView calls);
const char *api_call_id(const Json *call);
const char *api_call_name(const Json *call);
const char *api_call_arguments(const Json *call);
/* Return the text between the first *shown bytes and the i-th call, and advance *shown to its end. */
StrView		api_text_before(const ApiAnswer *r, int i, size_t *shown);
/* Return the text after all calls. */
StrView		api_text_after(const ApiAnswer *r, size_t shown);

/* Common state of the endpoints that generate; their a->own begins with it. */
typedef struct ApiGen
{
	int64_t		n;				/* choices for each prompt */
	bool		want_ids;		/* return_token_ids */
	bool		as_ids;			/* return_tokens_as_token_ids */
	bool		usage;			/* streaming: the last chunk has the usage */
	bool		usage_always;	/* streaming: every chunk has the usage */
	bool		began;			/* streaming: the first chunk has been sent */
	int64_t		logprobs;		/* number of top log-probabilities; -2 = not wanted */
	int64_t		prompt_logprobs;	/* number of top log-probabilities; -2 = not wanted */
	const Json *stop;
	Buf			params;			/* sampling parameters as fields */
	int64_t    *sent;			/* owned; streaming: tokens so far, for each choice */
} ApiGen;

#define API_NO_LOGPROBS	(-2)

/* generation.c */
bool		apigen_read(ApiCall *a, ApiGen *g, Err *e);
/* Write the fields for log-probabilities, once the endpoint has read all members about them. */
void		apigen_put_logprobs(ApiGen *g);
/*
 * Add to a message that asks for the ids of a prompt how the prompt is truncated, so that it gets the
 * ids that the model will see.
 */
void		apigen_put_truncation(const ApiGen *g, WireOut *o);
void		apigen_free(ApiGen *g);
/* Streaming: write a chunk's usage, if it is wanted. */
void		apigen_chunk_usage(JsonOut *j, const ApiGen *g, const ApiItem *it, int64_t completion);
/* Streaming: send the last chunk, which has the usage and no choices. */
void		apigen_usage_chunk(ApiCall *a, const char *object, const ApiUsage *u);
/* Add an item for the choices of a prompt, whose fields are given. */
void		apigen_item(ApiCall *a, const ApiGen *g, int prompt, const Buf *fields, int role);
/* Is the reason a stop string of the body?  If not, it is a token id. */
bool		apigen_is_stop(const Json *stop, StrView reason);
/* Write "finish_reason" and "stop_reason".  answer NULL: not finished. */
void		apigen_write_finish(JsonOut *j, const ApiGen *g, const ApiAnswer *answer);
void		api_write_ids(JsonOut *j, const WireField *ids);
/* Write id, object, created and model. */
void		api_write_head(const ApiCall *a, JsonOut *j, const char *object);

/* error.c */
typedef struct ApiError
{
	StrView		sqlstate, message, detail, hint;
} ApiError;

int			api_error_status(const ApiError *e);
void		api_error_body(const ApiError *e, bool anthropic, Buf *out);
/* Read the fields of a WF_ERROR frame. */
void		api_error_read(ApiError *out, const char *fields, size_t n);

#endif
