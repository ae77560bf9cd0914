/*
 * dispatcher.h
 *	  Requests on their way to endpoints: the queue, coalescing, limits, load balancing, retries,
 *	  deadlines.
 *
 * One thread.  The dispatcher owns a PendingRequest from dispatcher_submit() until its final frame, or
 * until dispatcher_cancel().  It passes each frame to the sink, and none after the final one.  The
 * dispatcher never blocks and never sleeps: dispatcher_poll() returns when it wants to be called again.
 */
#ifndef VLLM_REMOTE_DISPATCHER_H
#define VLLM_REMOTE_DISPATCHER_H

#include "base/sandbox/seccomp.h"
#include "base/buf.h"
#include "base/err.h"
#include "remote/http/http_client.h"
#include "ipc/wire.h"

/* Settings that the supervisor has sent (remote_settings.c). */
typedef struct RSettings
{
	char	   *allowed_hosts;	/* in the syntax of ipc/host_allowlist.h */
	char	   *ca_file;		/* '' = the system's certificates */
	int			max_connections;	/* limit for all endpoints together */
	SeccompMode seccomp;		/* read when the program starts */
} RSettings;

typedef struct Dispatcher Dispatcher;
typedef struct PendingRequest PendingRequest;

typedef struct LineSink
{
	/* kind: a WireFrame.  After the final frame the PendingRequest no longer exists */
	void		(*frame) (void *owner, WireFrame kind, const Buf *fields, bool final);
	/* counters for llm_requests; negative = unchanged */
	void		(*live) (void *owner, WirePhase phase, int prompt_tokens, int output_tokens);
	/* returns the bytes that the client has not read yet */
	size_t		(*backlog) (void *owner);
} LineSink;

Dispatcher *dispatcher_new(Http *h, const RSettings *set, const LineSink *sink);
void		dispatcher_free(Dispatcher *l);
/* The settings have changed.  Hosts that are no longer allowed get no further call. */
void		dispatcher_settings(Dispatcher *l, const RSettings *set);

/*
 * Submit a request.  Takes ownership of `fields` (malloc'ed).  The sink gets every error, during this
 * call or later.  Returns NULL if the request has ended already.
 */
PendingRequest *dispatcher_submit(Dispatcher *l, WireKind kind, char *fields, size_t len,
								  int64_t deadline_us, int timeout_ms, void *owner);
/*
 * The client has cancelled.  The dispatcher closes the request's calls at once, unless they carry inputs
 * of other requests.
 */
void		dispatcher_cancel(Dispatcher *l, PendingRequest *a);
/* Do what is due.  Returns the us after which it must be called again at the latest. */
int64_t		dispatcher_poll(Dispatcher *l, int64_t now_us);
/*
 * Run a WK_CONTROL command: "integrity" (result "ok"), "endpoints", "reset-stats".  Returns false if it
 * is unknown.
 */
bool		dispatcher_command(Dispatcher *l, const char *command, Buf *answer);
/* Return the number of requests that have not ended. */
int			dispatcher_live(const Dispatcher *l);
/*
 * Write the statistics (models, endpoints) into the arena.  Does so at most once in 100 ms, but at once
 * when the dispatcher becomes idle.
 */
void		dispatcher_publish(Dispatcher *l, WireStats *s);

#endif
