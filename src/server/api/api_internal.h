/*
 * api_internal.h
 *	  An API call: body, inner requests, answer.  For the files of server/api.
 *
 * Life of a call, on the server thread unless said otherwise:
 *
 *	read		the body becomes a tree; the endpoint's make() adds items (a text thread)
 *	launch		each item becomes an inner conversation
 *	gather		their frames come by the server's mailbox; deltas become chunks at once
 *	finish		all items are done: the endpoint adds more items (make and launch again), or
 *				writes the answer (a text thread where there is much of it)
 *
 * The first error ends the call; what still runs is cancelled, and waited for before
 * the call is freed.
 */
#ifndef VLLM_SERVER_API_API_INTERNAL_H
#define VLLM_SERVER_API_API_INTERNAL_H

#include "base/json/json.h"
#include "base/json/json_scan.h"
#include "base/json/json_writer.h"
#include "server/api/api_call.h"
#include "server/server.h"

#define API_MAX_CHOICES	65536	/* answers of one body */
#define API_MAX_VALUES	(4 << 20)	/* JSON values of a body */
#define API_ID_LEN		96
/* bytes of what inner requests have in common, all copies together */
#define API_MAX_SHARED	((size_t) 512 << 20)
#define API_MAX_ID		64		/* of a body's request_id */

/* ---- the body ---- */

typedef struct ApiMember
{
	const Json *v;
	StrView		raw;			/* as it was written */
	bool		seen;			/* the endpoint knows it */
} ApiMember;

typedef struct ApiBody
{
	Json	   *root;			/* owned */
	ApiMember  *m;				/* owned */
	int			n;
} ApiBody;

bool		apibody_read(ApiBody *b, const char *s, size_t n, Err *e);
void		apibody_free(ApiBody *b);
/* A member that is given and not null, else NULL; it counts as known.  The last of several of a name. */
const ApiMember *apibody_get(ApiBody *b, const char *name);
/* Known members that change nothing, NULL-terminated. */
void		apibody_ignore(ApiBody *b, const char *const *names);
/* Members with a meaning that is not available; one that is not at its neutral value is ERR_UNSUPPORTED. */
bool		apibody_refuse(ApiBody *b, const char *const *names, Err *e);
/* ERR_INVALID about a parameter, with parameter= */
bool		api_bad(Err *e, const char *name, const char *what);
bool		apibody_bool(ApiBody *b, const char *name, bool *out, Err *e);
bool		apibody_int(ApiBody *b, const char *name, int64_t min, int64_t max, int64_t *out, Err *e);
bool		apibody_str(ApiBody *b, const char *name, const char **out, Err *e);
/* Is it an object, or an array, if it is given? */
bool		apibody_is(ApiBody *b, const char *name, bool array, Err *e);
/* An object's member that is a string; NULL: there is none, or it is something else. */
const char *api_str(const Json *object, const char *name);
/* The first member of an object that has this name, as it was written; .s = NULL: none. */
StrView	api_raw_member(StrView object, const char *name);
/* All members of an object but those of one name, as they were written, digits and all. */
void		api_write_members(JsonOut *j, StrView object, const char *except);
/* Is v an array of integers that are token ids? */
bool		api_is_ids(const Json *v);
/* Write the token ids as a field. */
bool		api_put_ids(WireOut *o, WireTag tag, const Json *v, const char *name, Err *e);

/* ---- inner requests ---- */

/* How long a request took, and its parts. */
typedef struct ApiTimes
{
	int64_t		queue_us, prefill_us, decode_us, total_us;
} ApiTimes;

typedef struct ApiItem
{
	WireKind	kind;
	int			role;			/* the endpoint's */
	int			index;			/* the endpoint's */
	Buf			in;				/* its message's fields */
	ServerCall *conv;			/* NULL: freed */
	bool		done;
	Buf			reply;			/* fields of its final frame */
	/* streaming */
	int64_t		prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens;
	int64_t		preemptions, draft_tokens, accepted_tokens;
	ApiTimes	times;
} ApiItem;

/* What a reply's fields are; texts point into the item's reply.  Numbers: -1 = absent. */
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
	StrView		fields;			/* all, for lists */
} ApiReply;

void		apireply_read(ApiReply *r, const char *fields, size_t n);

/* ---- answers, and log-probabilities (api_logprobs.c) ---- */

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

/* One of the answers of a reply, or in a stream what is new of it; texts point into the frame. */
typedef struct ApiAnswer
{
	int			index;			/* among those to the prompt */
	StrView		text;			/* .s NULL: none */
	StrView		reasoning;		/* .s NULL: none */
	StrView		tool_calls;		/* JSON array; .s NULL: none; in a stream: new ones, whole */
	WireField	calls_at;		/* .n = 0: all of them are behind the text */
	WireField	ids;			/* .n = 0: none */
	StrView		finish_reason;	/* .s NULL: it goes on */
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
 * {"tokens": ..., "token_logprobs": ..., "top_logprobs": ..., "text_offset": ...}.  prompt: NULL, or with
 * echo the prompt's, whose text is `echo` and whose first token is `first`, of this id.  *offset: characters
 * before, and behind.
 */
void		api_write_completion_logprobs(JsonOut *j, const ApiEntries *prompt, StrView echo, StrView first,
										  int32_t first_id, const ApiEntries *e, bool as_ids,
										  int64_t *offset);
void		api_write_prompt_logprobs(JsonOut *j, const ApiEntries *prompt);
/* top: how many of the likeliest, -1 = all there are */
void		api_write_chat_logprobs(JsonOut *j, const ApiEntries *entries, int top, bool as_ids);

/* the array of them, as Responses have it */
void		api_write_token_logprobs(JsonOut *j, const ApiEntries *entries, int top, bool as_ids);

/* ---- the call ---- */

typedef struct ApiEndpoint ApiEndpoint;

struct ApiCall
{
	ServerCall *c;				/* whose it is */
	Server	   *srv;
	const ApiRequest *req;
	const ApiEndpoint *ep;
	ApiBody		body;
	char		id[API_ID_LEN]; /* "chatcmpl-..." */
	char		model[WIRE_NAME_LEN];
	int64_t		created;		/* seconds since 1970 */
	int		   *model_lens;		/* owned; of req->models, 0 = not known */
	bool		stream;
	Buf			head;			/* the fields that every item begins with: the caller, the model */

	ApiItem    *items;			/* owned; launched; changed on the server thread alone */
	int			n_items;
	int			n_done;
	ApiItem    *fresh;			/* owned; what make() has added */
	int			n_fresh;
	bool		over;			/* the answer or an error is on its way */
	_Atomic int mail;			/* frames in the mailbox */

	/* the endpoint's */
	void	   *own;			/* freed by ep->drop */
	int			round;			/* how often make() was called before */
	bool		more;			/* it wants to be called again */
	Buf			warnings;		/* NUL-terminated each */
};

struct ApiEndpoint
{
	const char *prefix;			/* of ids */
	bool		anthropic;		/* shape of errors */
	bool		lists_models;	/* asks for no model, but for which there are */
	/*
	 * body -> items; any thread.  With a->more set it is called again, a->round one more,
	 * when these are done.
	 */
	bool		(*make) (ApiCall *a, Err *e);
	/* all items are done: write the answer; any thread */
	bool		(*finish) (ApiCall *a, JsonOut *j, Err *e);
	/* streaming (NULL: this endpoint can't): what is new of an item's answer; server thread */
	void		(*delta) (ApiCall *a, ApiItem *it, const ApiAnswer *r);
	/* streaming: all items are done */
	void		(*end) (ApiCall *a);
	void		(*drop) (ApiCall *a);	/* a->own; NULL: nothing to do */
};

#define API(path, name) extern const ApiEndpoint api_##name;
#include "server/api/api.def"
#undef API

/* make(): a new item, whose message begins with the head (good until the next one); its writer. */
ApiItem    *api_item(ApiCall *a, WireKind kind, int role, int index);
WireOut		api_out(ApiItem *it);
/* Before n items that share so many bytes, each its own copy: is there room? */
bool		api_room(const ApiCall *a, size_t n, size_t shared, Err *e);
/* Send a chunk. */
void		api_chunk(ApiCall *a, const Buf *json);
/* "prefix" and 32 hexadecimal digits */
void		api_make_id(ApiCall *a, const char *prefix, char *out, size_t size);

/* ---- shared parts of endpoints ---- */

/* sampling_params.c: messages and what else a chat template gets; tools are not looked at */
bool		api_chat_fields(ApiCall *a, WireOut *o, bool generation_prompt, Err *e);
/* sampling parameters of a body that generates, as fields of a message */
bool		api_params(ApiCall *a, WireOut *o, Err *e);

/* usage of items whose role is `role`, each prompt counted once */
typedef struct ApiUsage
{
	int64_t		prompt, completion, cached;
	int64_t		reasoning;		/* of completion; -1: not counted */
} ApiUsage;

ApiUsage	api_usage(const ApiCall *a, int role);
void		api_write_usage(JsonOut *j, const ApiUsage *u);

/* embeddings.c: what bodies that pool have in common */
bool		api_pool_fields(ApiCall *a, WireOut *o, Err *e);

/* ---- tools and reasoning (tools.c) ---- */

/* tools and tool_choice of a chat: are they right? */
bool		api_check_tools(ApiCall *a, Err *e);
/* Checks tools and tool_choice of Responses, and converts the tools to a chat's. */
bool		api_put_tools(ApiCall *a, WireOut *o, Err *e);
/* Checks tools and choice of Anthropic's messages, and converts them to a chat's. */
bool		api_put_anthropic_tools(ApiCall *a, WireOut *o, Err *e);
/* What a chat's answer is taken apart by: parsers, and of a chat's body or Responses' what it says itself. */
void		api_put_parsers(ApiCall *a, WireOut *o);
bool		api_put_parsing(ApiCall *a, WireOut *o, Err *e);
/* reasoning_effort, for the template; NULL: not given */
bool		api_put_effort(WireOut *o, const char *name, const char *effort, Err *e);

/* The calls of an answer (ApiAnswer.tool_calls): a tree that the caller deletes, or NULL. */
Json	   *api_calls(StrView calls);
const char *api_call_id(const Json *call);
const char *api_call_name(const Json *call);
const char *api_call_arguments(const Json *call);
/*
 * Of an answer's text, what precedes the i-th call and follows the first *shown bytes, which goes on to its
 * end.
 */
StrView		api_text_before(const ApiAnswer *r, int i, size_t *shown);
/* The content after all calls. */
StrView		api_text_behind(const ApiAnswer *r, size_t shown);

/* What bodies that generate have in common; a->own of their endpoints begins with it. */
typedef struct ApiGen
{
	int64_t		n;				/* answers to a prompt */
	bool		want_ids;		/* return_token_ids */
	bool		as_ids;			/* return_tokens_as_token_ids */
	bool		usage;			/* streaming: a last chunk with the usage */
	bool		usage_always;	/* streaming: usage in every chunk */
	bool		began;			/* streaming: the first chunk has been sent */
	int64_t		logprobs;		/* of how many of the likeliest; -2 = not wanted */
	int64_t		prompt_logprobs;	/* of how many of the likeliest; -2 = not wanted */
	const Json *stop;
	Buf			params;			/* sampling parameters as fields */
	int64_t    *told;			/* owned; streaming, by choice: tokens so far */
} ApiGen;

#define API_NO_LOGPROBS	(-2)

/* generation.c */
bool		apigen_read(ApiCall *a, ApiGen *g, Err *e);
/* behind whatever else says how many log-probabilities are wanted: the fields */
void		apigen_put_logprobs(ApiGen *g);
/* Of a message that asks for the ids of a prompt: which of them the model will see. */
void		apigen_put_truncation(const ApiGen *g, WireOut *o);
void		apigen_free(ApiGen *g);
/* streaming: a chunk's usage, as far as it is wanted */
void		apigen_chunk_usage(JsonOut *j, const ApiGen *g, const ApiItem *it, int64_t completion);
/* streaming: the last chunk, which has no choices */
void		apigen_usage_chunk(ApiCall *a, const char *object, const ApiUsage *u);
/* An item for the answers to a prompt, whose fields are given. */
void		apigen_item(ApiCall *a, const ApiGen *g, int prompt, const Buf *fields, int role);
/* Is the reason a stop string of the body?  Else it is a token id. */
bool		apigen_is_stop(const Json *stop, StrView reason);
/* "finish_reason" and "stop_reason"; answer NULL: it goes on */
void		apigen_write_finish(JsonOut *j, const ApiGen *g, const ApiAnswer *answer);
void		api_write_ids(JsonOut *j, const WireField *ids);
/* id, object, created, model */
void		api_write_head(const ApiCall *a, JsonOut *j, const char *object);

/* error.c */
typedef struct ApiError
{
	StrView		sqlstate, message, detail, hint;
} ApiError;

int			api_error_status(const ApiError *e);
void		api_error_body(const ApiError *e, bool anthropic, Buf *out);
/* of a WF_ERROR frame's fields */
void		api_error_read(ApiError *out, const char *fields, size_t n);

#endif
