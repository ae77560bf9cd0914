/*
 * decode_internal.h
 *	  What the decoders share.
 */
#ifndef VLLM_REMOTE_CODEC_DECODE_INTERNAL_H
#define VLLM_REMOTE_CODEC_DECODE_INTERNAL_H

#include "base/json/json_value.h"
#include "remote/codec/decode.h"
#include "remote/codec/sse.h"

/* bytes of a response that is read as a whole, or of a stream's texts */
#define REPLY_MAX_BODY	((size_t) 512 << 20)
#define REPLY_MAX_EVENT	((size_t) 64 << 20)
#define REPLY_MAX_ENTRIES (1 << 24)	/* log-probabilities of a response, the same limit as the engine's */

typedef struct RUsage			/* tokens; -1 = not reported */
{
	int64_t		prompt,
				completion,
				cached,
				reasoning;
} RUsage;

typedef struct Gen Gen;

/* What one call has received. */
typedef struct RPart
{
	const RCall *call;
	int			request;			/* index of the first request whose input the call has */
	Buf			body;			/* response body, unless streamed */
	Sse			sse;
	bool		done;			/* [DONE] has been received */
	bool		ended;			/* the body has ended and was valid */
	bool		json;			/* not streamed: the whole body has been received and is JSON */
	bool		emitted;		/* frames of this call have been emitted */
	Err			e;				/* why an event was refused */
	RUsage		usage;
	Gen		   *gen;			/* state of completions and chats */
	size_t		held;			/* bytes that gen holds */
	Buf			floats;			/* RSHAPE_LOGPROBS: the values; RSHAPE_API: the body */
	bool		greedy;
	bool		api_ended;		/* RSHAPE_API: the stream's last event has been received */
} RPart;

struct DecodedReply
{
	const RequestFields *const *requests;
	int			n;
	const RCalls *calls;
	const ROptions *o;
	ReplyEmit	emit;
	void	   *ctx;
	RPart	   *part;			/* array of calls->n */
	bool	   *accepted;		/* for each request: has its WF_ACCEPTED been emitted? */
	bool		unlike;			/* result of reply_unlike() */
};

/* How responses of one shape are read.  Each function may fail with an Err. */
typedef struct ReplyShape
{
	/* NULL: this shape is never streamed */
	bool		(*event) (DecodedReply *r, RPart *p, StrView v, Err *e);
	bool		(*stream_end) (DecodedReply *r, RPart *p, Err *e);
	bool		(*whole) (DecodedReply *r, RPart *p, StrView v, Err *e);
	/* emits the final frames once all parts have ended; NULL: whole() has emitted them */
	bool		(*finish) (DecodedReply *r, Err *e);
	void		(*forget) (RPart *p);	/* frees the shape's state of a part; NULL: it has none */
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
/* Return a number of the request's message, or `otherwise` if it has none. */
int64_t		reply_request_int(const RequestFields *a, WireTag tag, int64_t otherwise);
/* Emit the frames of one request.  request is its index among all requests of the reply. */
void		reply_accepted(DecodedReply *r, int request, int64_t prompt_tokens);
void		reply_text_frame(DecodedReply *r, RPart *p, int request, const Buf *fields);
void		reply_done(DecodedReply *r, int request, const Buf *fields);
/* Read {"prompt_tokens": ..., ...}.  An absent member leaves its field of *u unchanged. */
bool		reply_read_usage(StrView v, RUsage *u, Err *e);
void		reply_put_usage(WireOut *o, const RUsage *u);
#define REPLY_DEPTH	128			/* levels of brackets */

/* Is s one JSON text in UTF-8, nested at most REPLY_DEPTH deep?  ERR_PROTOCOL if not. */
bool		reply_check(const char *s, size_t n, Err *e);
/* Set ERR_PROTOCOL, "the endpoint's answer ...", with the model's name, and return false. */
bool		reply_bad(const DecodedReply *r, Err *e, const char *fmt,
					  ...) __attribute__((format(printf, 3, 4)));
/* Handle an "error" member in a response with status 200. */
bool		reply_refused(const DecodedReply *r, StrView error, Err *e);
/*
 * Append s[0..n) to `out` for display: valid UTF-8 without control characters, at most max bytes and an
 * ellipsis.
 */
void		reply_clean(Buf *out, const char *s, size_t n, size_t max);
/*
 * Return request i's share of n tokens, which the endpoint has counted for all requests of the part
 * together.  The shares are proportional to the lengths of the inputs.
 */
int64_t		reply_share(const DecodedReply *r, const RPart *p, int i, int64_t n);

/* ---- decode_logprobs.c ---- */

typedef struct Lps				/* log-probabilities as in the frames: arrays over all entries */
{
	IntVec		counts,
				ids,
				ranks,
				lengths;
	Buf			values;			/* floats */
	Buf			bytes;
	size_t		n;				/* positions so far, those already emitted included */
	double		cum;			/* sum over the own tokens of all positions */
} Lps;

void		lps_free(Lps *l);
void		lps_reset(Lps *l);	/* after an emitted frame */
bool		lps_any(const Lps *l);
void		lps_put(const Lps *l, WireOut *o);
/*
 * Read the new positions of one choice: the "logprobs" of a completion's or a chat's choice.  ids: the
 * positions' own tokens, used if their number matches (NULL: unknown).  asked: the number of top
 * log-probabilities that the request wants.
 */
bool		lps_completion(const DecodedReply *r, Lps *l, StrView v, const IntVec *ids, int n_top, Err *e);
bool		lps_chat(const DecodedReply *r, Lps *l, StrView v, const IntVec *ids, int n_top, Err *e);
/* Read vLLM's prompt_logprobs.  ids: the prompt's tokens. */
bool		lps_prompt(const DecodedReply *r, Lps *l, StrView v, const IntVec *ids, Err *e);
/* Append an array of token ids to `out`. */
bool		reply_read_ids(const DecodedReply *r, StrView v, const char *what, IntVec *out, Err *e);

#endif
