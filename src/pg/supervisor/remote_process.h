/*
 * remote_process.h
 *	  The process that sends requests to endpoints, which the supervisor keeps running.
 */
#ifndef VLLM_PG_SUPERVISOR_REMOTE_PROCESS_H
#define VLLM_PG_SUPERVISOR_REMOTE_PROCESS_H

#include "postgres.h"

#include "pg/supervisor/engine_process.h"

/* Publish that no process runs yet. */
void		remote_program_init(void);
/*
 * Start, restart, reap or end it, and process what it has written.  Return true if its descriptors
 * have changed.
 */
bool		remote_program_poll(void);
/* called after the settings were read again */
void		remote_program_reload(void);
const Engine *remote_program(void); /* its sockets, while proc.pid is not 0 */
/* ms until the next call of remote_program_poll() is due */
long		remote_program_timeout(void);
/* send SIGKILL and reap */
void		remote_program_kill(void);

#endif
