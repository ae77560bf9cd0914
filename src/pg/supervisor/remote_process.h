/*
 * remote_process.h
 *	  The process that asks endpoints, kept by the supervisor.
 */
#ifndef VLLM_PG_SUPERVISOR_REMOTE_PROCESS_H
#define VLLM_PG_SUPERVISOR_REMOTE_PROCESS_H

#include "postgres.h"

#include "pg/supervisor/engine_process.h"

/* Nothing runs yet: say so to whom it concerns. */
void		remote_program_init(void);
/* Start, restart, reap or end it, pass on what it has written.  True: its descriptors are other ones. */
bool		remote_program_turn(void);
/* the settings were read anew */
void		remote_program_reload(void);
const Engine *remote_program(void); /* its sockets, while proc.pid is not 0 */
/* ms until the next turn is due */
long		remote_program_timeout(void);
/* SIGKILL and reap */
void		remote_program_kill(void);

#endif
