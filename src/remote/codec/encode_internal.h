/*
 * encode_internal.h
 *	  What the files that make bodies share.
 */
#ifndef VLLM_REMOTE_CODEC_ENCODE_INTERNAL_H
#define VLLM_REMOTE_CODEC_ENCODE_INTERNAL_H

#include "base/json/json_writer.h"
#include "remote/codec/encode.h"
#include "remote/codec/dialect.h"

#define BODY_DEPTH	1000			/* levels of brackets of JSON that becomes a part of a body */

/* Kinds of bodies, by the shape of their answers (body_fields.def). */
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

/* One body in the making. */
typedef struct Maker
{
	const RequestFields *a;			/* of several requests the first */
	const ROptions *o;
	uint32_t	caps;			/* the dialect's */
	RCall	   *call;
	JsonOut		j;				/* into call->body */
	Err		   *e;
} Maker;

/* ---- encode.c ---- */

/*
 * One more call; the body is an object whose "model" is written.  NULL: the adapter is none that the endpoint
 * serves.
 */
RCall	   *body_begin(Maker *m, const RequestFields *a, const ROptions *o, RCalls *calls, RShape shape,
					   const char *path, Err *e);
void		body_end(Maker *m);
/* The name at the endpoint: of the model or of its adapter; NULL: *e. */
const char *body_model(const RequestFields *a, const ROptions *o, Err *e);
/* The most tokens that an answer of the caller's role may have; 0 = any number. */
int			body_role_tokens(const RequestFields *a);
/* max_tokens is more than that. */
bool		body_role_refuse(int most, double got, Err *e);
/* ERR_UNSUPPORTED: what the endpoint can't. */
bool		body_refuse(const ROptions *o, Err *e, const char *fmt,...) __attribute__((format(printf, 3, 4)));
/* A text of the user's as a JSON string; false: it is not UTF-8. */
bool		body_text(Maker *m, const char *name, const char *s, size_t n);
/* JSON text as it is; false: it is none, or begins otherwise (open: '{' or '[', 0 = any). */
bool		body_json(Maker *m, const char *name, const char *s, size_t n, char open);
/* A message's array of numbers as one of JSON. */
void		body_ids(Maker *m, StrView ids);

/* ---- encode_fields.c ---- */

/* Members of all fields that have a row. */
bool		body_fields(Maker *m);

/* ---- the others ---- */

bool		body_generate(const RequestFields *a, const ROptions *o, RCalls *calls, Err *e);
bool		body_pool(const RequestFields *const *requests, int n, const ROptions *o, RCalls *calls, Err *e);
bool		body_choose(const RequestFields *a, const ROptions *o, RCalls *calls, Err *e);
bool		body_tokenize(const RequestFields *a, const ROptions *o, RCalls *calls, Err *e);
bool		body_api(const RequestFields *a, const ROptions *o, RCalls *calls, Err *e);

#endif
