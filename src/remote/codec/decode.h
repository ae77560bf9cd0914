/*
 * decode.h
 *	  From an endpoint's answers to reply frames.
 *
 * A Reply reads the answers of one RCalls, in any order and in pieces as they come from the network, and
 * emits the frames that the engine would send (wire.h, WireFrame), for each request its own.  What it reads
 * is untrusted: sizes are bounded, every number is checked, an answer that isn't what was asked for is
 * ERR_PROTOCOL, never a wrong row: the number of choices, rows and their order (index), dimensions and finite
 * numbers are checked.
 */
#ifndef VLLM_REMOTE_CODEC_DECODE_H
#define VLLM_REMOTE_CODEC_DECODE_H

#include "remote/codec/encode.h"

/* kind: WF_ACCEPTED, WF_TEXT, WF_DONE (final).  Never WF_ERROR: errors are returned. */
typedef void (*ReplyEmit) (void *ctx, int request, WireFrame kind, const Buf *fields, bool final);

typedef struct DecodedReply DecodedReply;

/* requests, calls, o: stay the caller's and live longer. */
DecodedReply *reply_new(const RequestFields *const *requests, int n, const RCalls *calls, const ROptions *o,
						ReplyEmit emit, void *ctx);
void		reply_free(DecodedReply *r);

/* Bytes of the body of a 200 to call i.  False: *e; the call is to be closed. */
bool		reply_data(DecodedReply *r, int i, const char *p, size_t n, Err *e);
/* Call i's body has ended.  When all have, the final frames have been emitted. */
bool		reply_end(DecodedReply *r, int i, Err *e);
/*
 * Call i is begun anew (a retry); what has come of it is forgotten.  False: frames of it have been emitted
 * already.
 */
bool		reply_restart(DecodedReply *r, int i);
/* A stream has told all (finish reasons and [DONE]) although the connection isn't closed yet. */
bool		reply_is_whole(const DecodedReply *r, int i);
/*
 * Call i's body, which reply_end() has refused, is whole and JSON: it isn't garbled, but says something else.
 */
bool		reply_is_json(const DecodedReply *r, int i);
/* Its rows are wrong by what the others are: each alone would look right. */
bool		reply_unlike(const DecodedReply *r);
/* Bytes held. */
size_t		reply_held(const DecodedReply *r);
/* Of what has come so far, 0 = nothing was told: for WF_ERROR of a call that may be charged. */
void		reply_usage(const DecodedReply *r, int64_t *prompt_tokens, int64_t *completion_tokens);

/*
 * An error body (status not 200), or a stream's error object: the Err that the user sees.  The message of the
 * endpoint becomes the detail, cut to what fits, control characters removed, `secret` masked wherever it
 * occurs.  401, 407: ERR_AUTH with a hint to llm_set_secret(); 403: ERR_FORBIDDEN; 404: ERR_NOT_FOUND (which
 * path, which model, hint); 400, 422: ERR_INVALID, or ERR_TOO_LONG where the text says so; 413: ERR_TOO_LONG;
 * 408, 425, 429, 5xx: ERR_UNAVAILABLE; 3xx: ERR_FORBIDDEN (redirects are not followed); else ERR_PROTOCOL.
 */
void		reply_error(int status, const char *body, size_t n, const ROptions *o, const char *url,
						StrView		secret, Err *e);

/*
 * A WK_API that wants errors as bodies (API_AS_BODY): the fields of the WF_DONE to send instead of a
 * WF_ERROR.  False: it doesn't.
 */
bool		reply_error_as_body(const RequestFields *a, const Err *e, Buf *fields);

#endif
