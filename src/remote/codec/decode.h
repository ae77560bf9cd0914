/*
 * decode.h
 *	  Decode an endpoint's responses into reply frames.
 *
 * A DecodedReply reads the responses to the calls of one RCalls, in any order and in pieces as they come
 * from the network.  It emits the frames that the engine would send (wire.h, WireFrame), separately for
 * each request.
 *
 * The input is untrusted.  Sizes are bounded and every number is checked: the number of choices and
 * rows, their order (index), the dimensions, and that numbers are finite.  A response that does not
 * match its request is ERR_PROTOCOL, never a wrong row.
 */
#ifndef VLLM_REMOTE_CODEC_DECODE_H
#define VLLM_REMOTE_CODEC_DECODE_H

#include "remote/codec/encode.h"

/*
 * Receives the frames.  kind is WF_ACCEPTED, WF_TEXT or WF_DONE (final), never WF_ERROR: errors are
 * returned.
 */
typedef void (*ReplyEmit) (void *ctx, int request, WireFrame kind, const Buf *fields, bool final);

typedef struct DecodedReply DecodedReply;

/* The caller keeps ownership of requests, calls and o, and must keep them until reply_free(). */
DecodedReply *reply_new(const RequestFields *const *requests, int n, const RCalls *calls, const ROptions *o,
						ReplyEmit emit, void *ctx);
void		reply_free(DecodedReply *r);

/*
 * Feed n bytes of the body of call i, whose status is 200.  If it returns false with *e, the caller must
 * close the call.
 */
bool		reply_data(DecodedReply *r, int i, const char *p, size_t n, Err *e);
/* Call i's body has ended.  When the bodies of all calls have ended, the final frames have been emitted. */
bool		reply_end(DecodedReply *r, int i, Err *e);
/*
 * Start call i anew for a retry and drop what it has received so far.  Returns false if frames of it
 * have been emitted already.
 */
bool		reply_restart(DecodedReply *r, int i);
/* Has call i's stream sent everything (finish reasons and [DONE]), although the connection is still open? */
bool		reply_is_whole(const DecodedReply *r, int i);
/*
 * Is call i's body, which reply_end() has refused, complete JSON?  Then it isn't garbled, but has other
 * content.
 */
bool		reply_is_json(const DecodedReply *r, int i);
/* Did the reply fail because its rows do not fit each other, although each row alone would be valid? */
bool		reply_unlike(const DecodedReply *r);
/* Bytes that the reply holds. */
size_t		reply_held(const DecodedReply *r);
/*
 * Tokens that the responses have reported so far, 0 if none did: for the WF_ERROR of a call that may be
 * charged.
 */
void		reply_usage(const DecodedReply *r, int64_t *prompt_tokens, int64_t *completion_tokens);

/*
 * Make the Err that the user sees from an error body (status not 200) or from a stream's error object.
 * The endpoint's message becomes the detail: cut to the space there is, without control characters, and
 * with every occurrence of `secret` masked.
 *
 * 401, 407: ERR_AUTH with a hint to llm_set_secret(); 403: ERR_FORBIDDEN; 404: ERR_NOT_FOUND (which
 * path, which model, hint); 400, 422: ERR_INVALID, or ERR_TOO_LONG if the text says so; 413:
 * ERR_TOO_LONG; 408, 425, 429, 5xx: ERR_UNAVAILABLE; 3xx: ERR_FORBIDDEN (redirects are not followed);
 * else ERR_PROTOCOL.
 */
void		reply_error(int status, const char *body, size_t n, const ROptions *o, const char *url,
						StrView		secret, Err *e);

/*
 * If the request is a WK_API that wants errors as bodies (API_AS_BODY), store the fields of the WF_DONE
 * to send instead of a WF_ERROR and return true.
 */
bool		reply_error_as_body(const RequestFields *a, const Err *e, Buf *fields);

#endif
