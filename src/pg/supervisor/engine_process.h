/*
 * engine_process.h
 *	  Engine processes as the supervisor sees them, the remote program among them, and the second engine of
 *	  two.
 */
#ifndef VLLM_PG_SUPERVISOR_ENGINE_PROCESS_H
#define VLLM_PG_SUPERVISOR_ENGINE_PROCESS_H

#include "pg/supervisor/spawn.h"
#include "pg/shared_state.h"
#include "ipc/control_protocol.h"

typedef struct Engine
{
	EngineProcess proc;
	int			side;			/* which arena it has */
	char		ctl[CONTROL_LINE];	/* partial line of the control socket */
	int			ctl_len;
	TimestampTz spawned_at;
	TimestampTz drain_at;		/* told to end, or control socket closed: when to kill; 0 = never */
	/* health, while it serves */
	uint64		last_step;
	TimestampTz step_seen_at;	/* last time the counter moved or there was no work */
	int64		last_beat;
	TimestampTz beat_seen_at;	/* last time the server thread's heartbeat changed */
} Engine;

#define ENGINE_START_TIMEOUT	60000	/* ms until "ready" */
#define ENGINE_DRAIN_TIMEOUT	1000	/* ms from a closed control socket, or from "stop", to SIGKILL */
#define ENGINE_KEEP_TIMEOUT		5000	/* ms from "stop" to SIGKILL, if the KV cache is flushed to files */

/*
 * supervisor.c: write a line; take in what an engine has written, a line at a time.  false: it has closed the
 * socket.
 */
void		engine_send(Engine *e, const char *text);
/* ms from "stop" to SIGKILL. */
int			engine_stop_timeout(void);
bool		engine_read(Engine *e, void (*line) (Engine *e, char *line));
/* Does it take too long to start, or do nothing?  Why it has to be killed; NULL: all is well. */
const char *engine_sick(Engine *e, VllmEngineState st);
/* The engine that serves becomes the other, and the other way round. */
void		engine_swap(Engine *other);

/* standby_engine.c */
/* What is due of an upgrade; true: the wait set is out of date. */
bool		standby_turn(void);
const Engine *standby_engine(void);	/* its sockets, while proc.pid is not 0 */
long		standby_timeout(void);	/* ms */
/* A setting has changed. */
void		standby_send(const char *text);
/* The supervisor ends. */
void		standby_kill(void);

#endif
