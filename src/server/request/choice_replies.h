/*
 * choice_replies.h
 *	  Requests with several choices or log-probabilities: fields of messages and replies.
 */
#ifndef VLLM_SERVER_REQUEST_CHOICE_REPLIES_H
#define VLLM_SERVER_REQUEST_CHOICE_REPLIES_H

#include "server/request/output_splitter.h"
#include "backend/backend.h"
#include "ipc/wire.h"

/* Take a field; *known = false if it is not about OutParams. */
bool		replies_field(OutParams *p, const WireField *f, bool *known, Err *e);
/* Does the reply need more than one text? */
bool		replies_wanted(const OutParams *p);

/* The pending output of each choice; used by one thread at a time. */
typedef struct Replies Replies;

/*
 * want_ids: the reply has token ids, those of the prompt included (prompt NULL: it has none).  parts:
 * the splitter whose copies split the texts, which the caller keeps; NULL: texts are not split.
 */
Replies    *replies_new(const Backend *be, const BackendModel *in, const IntVec *prompt, bool want_ids,
						const Answer *parts);
void		replies_free(Replies *r);	/* NULL is allowed */
void		replies_add(Replies *r, const ReqEvent *ev);
/* Write all output, for the final frame. */
void		replies_put(const Replies *r, WireOut *o);
/* Write the new output, for a frame of a stream.  Returns false if there is none. */
bool		replies_put_event(Replies *r, const ReqEvent *ev, WireOut *o);

#endif
