/*
 * engine_process.h
 *	  Engine processes as the supervisor sees them, including the remote program and the second engine of
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
	int			side;			/* number of its arena */
	char		ctl[CONTROL_LINE];	/* partial line of the control socket */
	int			ctl_len;
	TimestampTz spawned_at;
	TimestampTz drain_at;		/* when to kill it, after it was told to end or closed its control
								 * socket; 0 = never */
	/* health, while it serves */
	uint64		last_step;
	TimestampTz step_seen_at;	/* last time that the counter changed or there was no work */
	int64		last_beat;
	TimestampTz beat_seen_at;	/* last time that the server thread's heartbeat changed */
} Engine;

#define ENGINE_START_TIMEOUT	60000	/* ms until "ready" */
#define ENGINE_DRAIN_TIMEOUT	1000	/* ms from a closed control socket, or from "stop", to SIGKILL */
#define ENGINE_KEEP_TIMEOUT		5000	/* ms from "stop" to SIGKILL, if the KV cache is flushed to files */

/*
 * supervisor.c: write a line; read the engine's lines and call line() for each.  engine_read()
 * returns false if the engine has closed the socket.
 */
void		engine_send(Engine *e, const char *text);
/* Return the ms from "stop" to SIGKILL. */
int			engine_stop_timeout(void);
bool		engine_read(Engine *e, void (*line) (Engine *e, char *line));
/*
 * Return why the engine has to be killed (it takes too long to start, or does nothing); NULL if it is
 * healthy.
 */
const char *engine_failure(Engine *e, VllmEngineState st);
/* Exchange the engine that serves with the other one. */
void		engine_swap(Engine *other);

/* standby_engine.c */
/* Do the next step of an upgrade; return true if the wait set has to be made anew. */
bool		standby_poll(void);
const Engine *standby_engine(void);	/* its sockets, while proc.pid is not 0 */
long		standby_timeout(void);	/* ms */
/* Send a changed setting. */
void		standby_send(const char *text);
/* Kill the second engine at the supervisor's end. */
void		standby_kill(void);

#endif
