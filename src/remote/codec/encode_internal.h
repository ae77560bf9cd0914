/*
 * encode_internal.h
 *	  What the encoders share.
 */
#ifndef VLLM_REMOTE_CODEC_ENCODE_INTERNAL_H
#define VLLM_REMOTE_CODEC_ENCODE_INTERNAL_H

#include "base/json/json_writer.h"
#include "remote/codec/encode.h"
#include "remote/codec/dialect.h"

#define BODY_DEPTH	1000			/* maximal nesting of JSON that becomes a part of a body */

/* Kinds of bodies, by the shape of their responses (body_fields.def). */
enum
{
	IN_PLAIN = 1 << RSHAPE_COMPLETION,
	IN_CHAT = 1 << RSHAPE_CHAT,
	IN_EMBEDDINGS = 1 << RSHAPE_EMBEDDINGS,
	IN_SCORE = 1 << RSHAPE_SCORE,
	IN_RERANK = 1 << RSHAPE_RERANK,
	IN_CLASSIFY = 1 << RSHAPE_CLASSIFY,
	IN_POOLING = 1 << RSHAPE_POOLING,
	IN_TOKENIZE = 1 << RSHAPE_TOKENIZE,
	IN_DETOKENIZE = 1 << RSHAPE_DETOKENIZE,
	IN_LOGPROBS = 1 << RSHAPE_LOGPROBS,
	IN_GENERATE = IN_PLAIN | IN_CHAT,
	IN_PAIRS = IN_SCORE | IN_RERANK,
	IN_POOLED = IN_EMBEDDINGS | IN_PAIRS | IN_CLASSIFY | IN_POOLING,
	IN_ALL = IN_GENERATE | IN_POOLED | IN_TOKENIZE | IN_DETOKENIZE | IN_LOGPROBS
};

/* State while one body is written. */
typedef struct Maker
{
	const RequestFields *a;			/* the request; of several requests, the first */
	const ROptions *o;
	uint32_t	caps;			/* capabilities of the dialect */
	RCall	   *call;
	JsonOut		j;				/* writes into call->body */
	Err		   *e;
} Maker;

/* ---- encode.c ---- */

/*
 * Add a call and begin its body, an object, with its "model".  Returns NULL if the request's adapter is
 * not one that the endpoint serves.
 */
RCall	   *body_begin(Maker *m, const RequestFields *a, const ROptions *o, RCalls *calls, RShape shape,
					   const char *path, Err *e);
void		body_end(Maker *m);
/* Return the endpoint's name of the model, or of the request's adapter.  NULL: see *e. */
const char *body_model(const RequestFields *a, const ROptions *o, Err *e);
/* Return the maximal number of output tokens for the caller's role; 0 = no limit. */
int			body_role_tokens(const RequestFields *a);
/* Refuse max_tokens above the role's limit. */
bool		body_role_refuse(int most, double got, Err *e);
/* Set ERR_UNSUPPORTED with what the endpoint does not support, and return false. */
bool		body_refuse(const ROptions *o, Err *e, const char *fmt,...) __attribute__((format(printf, 3, 4)));
/* Write a text of the user's as a JSON string.  Returns false if it is not UTF-8. */
bool		body_text(Maker *m, const char *name, const char *s, size_t n);
/*
 * Write a JSON text unchanged.  Returns false if it is not JSON, or does not begin with `open` ('{',
 * '['; 0 = any).
 */
bool		body_json(Maker *m, const char *name, const char *s, size_t n, char open);
/* Write a message's array of numbers as a JSON array. */
void		body_ids(Maker *m, StrView ids);

/* ---- encode_fields.c ---- */

/* Write the members of all fields that have a row in body_fields.def. */
bool		body_fields(Maker *m);

/* ---- by kind of request ---- */

bool		body_generate(const RequestFields *a, const ROptions *o, RCalls *calls, Err *e);
bool		body_pool(const RequestFields *const *requests, int n, const ROptions *o, RCalls *calls, Err *e);
bool		body_choose(const RequestFields *a, const ROptions *o, RCalls *calls, Err *e);
bool		body_tokenize(const RequestFields *a, const ROptions *o, RCalls *calls, Err *e);
bool		body_api(const RequestFields *a, const ROptions *o, RCalls *calls, Err *e);

#endif
