/*
 * cascade.h
 *	  Option "cascade": another model decides where the first one isn't sure.
 */
#ifndef VLLM_PG_CALL_CASCADE_H
#define VLLM_PG_CALL_CASCADE_H

#include "postgres.h"

#include "pg/client/client.h"
#include "ipc/wire.h"

/*
 * Make a request with a single output ask for its tokens' log-probabilities, if the message has a
 * cascade and doesn't ask for them.
 */
void		cascade_want_logprobs(StringInfo body);

/*
 * Return true if another model is to decide, because the result in the request's final frame is not
 * sure enough.  to: gets that model's name, NAMEDATALEN bytes.  Needs only message and frame, so it
 * may be called outside of transactions.
 */
bool		cascade_unsure(WireKind kind, const char *body, Size len, const CallFrame *f, char *to);

#endif
