/*
 * door.h
 *	  The HTTP door's process, kept by the supervisor.
 */
#ifndef VLLM_BGWORKER_DOOR_H
#define VLLM_BGWORKER_DOOR_H

#include "postgres.h"

/* path of the program, beside this library; palloc'ed once a process */
const char *door_path(void);
/* Start, restart, reap or end it, as the settings say.  True: its log's descriptor is another one. */
bool		door_turn(void);
/* the settings were read anew */
void		door_reload(void);
/* read end of its stderr, -1 = none */
int			door_log_fd(void);
/* ms until the next turn is due */
long		door_timeout(void);
/* SIGKILL and reap */
void		door_kill(void);

#endif
