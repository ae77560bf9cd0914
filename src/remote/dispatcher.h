/*
 * line.h
 *	  Requests on their way to endpoints: the queue, gathering, limits, the choice of a url, retries, deadlines.
 *
 * One thread.  An Ask is owned by the line from line_take() until its final frame, or line_cancel(); the sink is
 * told each frame, and nothing behind the final one.  The line never blocks and never sleeps: line_turn() says when it wants to be called again.
 */
#ifndef VLLM_REMOTE_LINE_H
#define VLLM_REMOTE_LINE_H

#include "base/seccomp.h"
#include "base/buf.h"
#include "base/err.h"
#include "remote/http.h"
#include "wire/wire.h"

/* What the program was told (settings.c). */
typedef struct RSettings
{
	char	   *allowed_hosts;	/* as wire/hosts.h reads it */
	char	   *ca_file;		/* '' = the system's */
	int			max_connections;	/* to all endpoints */
	SeccompMode seccomp;		/* when the program starts */
} RSettings;

typedef struct Line Line;
typedef struct Ask Ask;

typedef struct LineSink
{
	/* kind: WireFrame; final: the last one, the Ask is gone behind it */
	void		(*frame) (void *owner, WireFrame kind, const Buf *fields, bool final);
	/* figures for llm_requests; negative = as it was */
	void		(*live) (void *owner, WirePhase phase, int prompt_tokens, int output_tokens);
	/* bytes that the asker has not taken yet */
	size_t		(*backlog) (void *owner);
} LineSink;

Line	   *line_new(Http *h, const RSettings *set, const LineSink *sink);
void		line_free(Line *l);
/* Settings have changed: hosts that are not allowed any more get no further call. */
void		line_settings(Line *l, const RSettings *set);

/* Takes `fields` (malloc'ed).  Whatever is wrong with them comes to the sink, from within this or later.  NULL: it has ended already. */
Ask		   *line_take(Line *l, WireKind kind, char *fields, size_t len, int64_t deadline_us, int timeout_ms, void *owner);
/* Nobody wants it any more: its calls are closed at once, unless others' inputs are in them. */
void		line_cancel(Line *l, Ask *a);
/* What is due; us until the next call at the latest. */
int64_t		line_turn(Line *l, int64_t now_us);
/* WK_CONTROL commands: "integrity" (text "ok"), "endpoints", "reset-stats"; false: unknown */
bool		line_command(Line *l, const char *command, Buf *answer);
/* Requests that have not ended. */
int			line_live(const Line *l);
/* Into the arena's statistics (models, endpoints); at most once in 100 ms unless something has come to rest. */
void		line_publish(Line *l, WireStats *s);

#endif
