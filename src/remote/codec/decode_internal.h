/*
 * decode_internal.h
 *	  What the files of decode.h share.
 */
#ifndef VLLM_REMOTE_CODEC_DECODE_INTERNAL_H
#define VLLM_REMOTE_CODEC_DECODE_INTERNAL_H

#include "base/json/json_value.h"
#include "remote/codec/decode.h"
#include "remote/codec/sse.h"

/* bytes of an answer that is read as a whole, or of a stream's texts */
#define REPLY_MAX_BODY	((size_t) 512 << 20)
#define REPLY_MAX_EVENT	((size_t) 64 << 20)
#define REPLY_MAX_ENTRIES (1 << 24)	/* log-probabilities of an answer, as the engine's */

typedef struct RUsage			/* tokens; -1 = not told */
{
	int64_t		prompt,
				completion,
				cached,
				reasoning;
} RUsage;

typedef struct Gen Gen;

/* What has come of one call. */
typedef struct RPart
{
	const RCall *call;
	int			request;			/* the first one whose input it has */
	Buf			body;			/* not streamed */
	Sse			sse;
	bool		done;			/* [DONE] has come */
	bool		ended;			/* the body has, and made sense */
	bool		json;			/* not streamed: all of it has come, and it is JSON */
	bool		told;			/* frames of it have been emitted */
	Err			e;				/* what an event was refused for */
	RUsage		usage;
	Gen		   *gen;			/* completions and chats */
	size_t		held;			/* bytes of it */
	Buf			floats;			/* RSHAPE_LOGPROBS; RSHAPE_API: the body */
	bool		greedy;
	bool		api_ended;		/* RSHAPE_API: the stream's last event has come */
} RPart;

struct DecodedReply
{
	const RequestFields *const *requests;
	int			n;
	const RCalls *calls;
	const ROptions *o;
	ReplyEmit	emit;
	void	   *ctx;
	RPart	   *part;			/* calls->n of them */
	bool	   *accepted;		/* requests whose WF_ACCEPTED has been emitted */
	bool		unlike;			/* reply_unlike() */
};

/* How a shape's answers are read; each function may fail with an Err. */
typedef struct ReplyShape
{
	bool		(*event) (DecodedReply *r, RPart *p, StrView v, Err *e);	/* NULL: never streamed */
	bool		(*stream_end) (DecodedReply *r, RPart *p, Err *e);
	bool		(*whole) (DecodedReply *r, RPart *p, StrView v, Err *e);
	/* all parts have ended: the final frames; NULL: whole() has emitted them */
	bool		(*finish) (DecodedReply *r, Err *e);
	void		(*forget) (RPart *p);	/* NULL: nothing of its own */
} ReplyShape;

extern const ReplyShape reply_gen;
extern const ReplyShape reply_choose;
extern const ReplyShape reply_embeddings;
extern const ReplyShape reply_scores;
extern const ReplyShape reply_classes;
extern const ReplyShape reply_pooling;
extern const ReplyShape reply_tokenize;
extern const ReplyShape reply_detokenize;
extern const ReplyShape reply_models;
extern const ReplyShape reply_api;

/* ---- decode.c ---- */

WireOut		reply_out(Buf *b);
/* A number of the request's message. */
int64_t		reply_request_int(const RequestFields *a, WireTag tag, int64_t otherwise);
/* Of part p's request i, its own count. */
void		reply_accepted(DecodedReply *r, int request, int64_t prompt_tokens);
void		reply_text_frame(DecodedReply *r, RPart *p, int request, const Buf *fields);
void		reply_done(DecodedReply *r, int request, const Buf *fields);
/* {"prompt_tokens": ..., ...}; an absent one leaves *u as it is. */
bool		reply_read_usage(StrView v, RUsage *u, Err *e);
void		reply_put_usage(WireOut *o, const RUsage *u);
#define REPLY_DEPTH	128			/* levels of brackets */

/* Is it one JSON text in UTF-8, nested at most REPLY_DEPTH deep?  ERR_PROTOCOL else. */
bool		reply_check(const char *s, size_t n, Err *e);
/* ERR_PROTOCOL, "the endpoint's answer ...", with the model's name. */
bool		reply_bad(const DecodedReply *r, Err *e, const char *fmt,
					  ...) __attribute__((format(printf, 3, 4)));
/* An "error" that comes with status 200. */
bool		reply_refused(const DecodedReply *r, StrView error, Err *e);
/*
 * s[0..n) behind what is in `out`, fit for people: without control characters, valid UTF-8, at most max bytes
 * and an ellipsis.
 */
void		reply_clean(Buf *out, const char *s, size_t n, size_t max);
/*
 * Request i's part of n tokens that were counted for all requests of the part together, by their inputs'
 * lengths.
 */
int64_t		reply_share(const DecodedReply *r, const RPart *p, int i, int64_t n);

/* ---- decode_logprobs.c ---- */

typedef struct Lps				/* as in the frames: arrays of all entries */
{
	IntVec		counts,
				ids,
				ranks,
				lengths;
	Buf			values;			/* floats */
	Buf			bytes;
	size_t		n;				/* positions so far, also those that have been told */
	double		cum;			/* of all positions' own tokens */
} Lps;

void		lps_free(Lps *l);
void		lps_reset(Lps *l);	/* they have been told */
bool		lps_any(const Lps *l);
void		lps_put(const Lps *l, WireOut *o);
/*
 * One answer's new positions: the "logprobs" of a completion's or a chat's choice.  ids: of the positions'
 * own tokens, if there are as many (NULL: unknown); asked: how many of the likeliest were.
 */
bool		lps_completion(const DecodedReply *r, Lps *l, StrView v, const IntVec *ids, int asked, Err *e);
bool		lps_chat(const DecodedReply *r, Lps *l, StrView v, const IntVec *ids, int asked, Err *e);
/* vLLM's prompt_logprobs; ids: the prompt's. */
bool		lps_prompt(const DecodedReply *r, Lps *l, StrView v, const IntVec *ids, Err *e);
/* An array of token ids behind what is in `out`. */
bool		reply_read_ids(const DecodedReply *r, StrView v, const char *what, IntVec *out, Err *e);

#endif
