/*
 * cascade.h
 *	  A model that is asked first, and another one where it isn't sure: option "cascade".
 */
#ifndef VLLM_PG_CALL_CASCADE_H
#define VLLM_PG_CALL_CASCADE_H

#include "postgres.h"

#include "pg/client/client.h"
#include "ipc/wire.h"

/*
 * Of a request for one answer: its tokens' log-probabilities are needed if the message has a cascade and
 * doesn't ask for them.
 */
void		cascade_want_logprobs(StringInfo body);

/*
 * Is the answer of the request, its last frame, one that another model is to decide?  to: that model's name,
 * NAMEDATALEN bytes.  Looks at message and frame alone: anywhere.
 */
bool		cascade_unsure(WireKind kind, const char *body, Size len, const CallFrame *f, char *to);

#endif
