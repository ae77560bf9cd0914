/*
 * choice_replies.h
 *	  Requests of several answers and of log-probabilities, in messages.
 */
#ifndef VLLM_SERVER_REQUEST_CHOICE_REPLIES_H
#define VLLM_SERVER_REQUEST_CHOICE_REPLIES_H

#include "server/request/output_splitter.h"
#include "backend/backend.h"
#include "ipc/wire.h"

/* Take a field; *known = false if it is none of OutParams. */
bool		replies_field(OutParams *p, const WireField *f, bool *known, Err *e);
/* Does the reply need more than one text? */
bool		replies_wanted(const OutParams *p);

/* What has come of each answer; one thread at a time. */
typedef struct Replies Replies;

/*
 * want_ids: token ids in the reply, those of the prompt included (NULL: it has none); parts: texts are taken
 * apart as by this, which stays the caller's; NULL: they aren't
 */
Replies    *replies_new(const Backend *be, const BackendModel *in, const IntVec *prompt, bool want_ids,
						const Answer *parts);
void		replies_free(Replies *r);	/* NULL will do */
void		replies_add(Replies *r, const ReqEvent *ev);
/* All of it, for the final frame. */
void		replies_put(const Replies *r, WireOut *o);
/* What is new, for a frame of a stream; false: nothing. */
bool		replies_put_event(Replies *r, const ReqEvent *ev, WireOut *o);

#endif
