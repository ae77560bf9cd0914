/*
 * dispatcher.h
 *	  Requests on their way to endpoints: the queue, coalescing, limits, load balancing, retries, deadlines.
 *
 * One thread.  The dispatcher owns a PendingRequest from dispatcher_submit() until its final frame, or until
 * dispatcher_cancel(); it passes each frame to the sink, and none after the final one.  The dispatcher never
 * blocks and never sleeps: dispatcher_poll() returns when it wants to be called again.
 */
#ifndef VLLM_REMOTE_DISPATCHER_H
#define VLLM_REMOTE_DISPATCHER_H

#include "base/sandbox/seccomp.h"
#include "base/buf.h"
#include "base/err.h"
#include "remote/http/http_client.h"
#include "ipc/wire.h"

/* What the program was told (remote_settings.c). */
typedef struct RSettings
{
	char	   *allowed_hosts;	/* as ipc/host_allowlist.h reads it */
	char	   *ca_file;		/* '' = the system's */
	int			max_connections;	/* to all endpoints */
	SeccompMode seccomp;		/* when the program starts */
} RSettings;

typedef struct Dispatcher Dispatcher;
typedef struct PendingRequest PendingRequest;

typedef struct LineSink
{
	/* kind: WireFrame; final: the last one, the PendingRequest is gone behind it */
	void		(*frame) (void *owner, WireFrame kind, const Buf *fields, bool final);
	/* counters for llm_requests; negative = as it was */
	void		(*live) (void *owner, WirePhase phase, int prompt_tokens, int output_tokens);
	/* bytes that the caller has not taken yet */
	size_t		(*backlog) (void *owner);
} LineSink;

Dispatcher *dispatcher_new(Http *h, const RSettings *set, const LineSink *sink);
void		dispatcher_free(Dispatcher *l);
/* Settings have changed: hosts that are not allowed any more get no further call. */
void		dispatcher_settings(Dispatcher *l, const RSettings *set);

/*
 * Takes `fields` (malloc'ed).  Whatever is wrong with them comes to the sink, from within this or later.
 * NULL: it has ended already.
 */
PendingRequest *dispatcher_submit(Dispatcher *l, WireKind kind, char *fields, size_t len,
								  int64_t deadline_us, int timeout_ms, void *owner);
/* The client has cancelled: its calls are closed at once, unless others' inputs are in them. */
void		dispatcher_cancel(Dispatcher *l, PendingRequest *a);
/* What is due; us until the next call at the latest. */
int64_t		dispatcher_poll(Dispatcher *l, int64_t now_us);
/* WK_CONTROL commands: "integrity" (text "ok"), "endpoints", "reset-stats"; false: unknown */
bool		dispatcher_command(Dispatcher *l, const char *command, Buf *answer);
/* Requests that have not ended. */
int			dispatcher_live(const Dispatcher *l);
/*
 * Into the arena's statistics (models, endpoints); at most once in 100 ms unless something has come to rest.
 */
void		dispatcher_publish(Dispatcher *l, WireStats *s);

#endif
