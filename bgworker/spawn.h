/*
 * spawn.h
 *	  Starting and ending the engine process; its log.
 */
#ifndef VLLM_BGWORKER_SPAWN_H
#define VLLM_BGWORKER_SPAWN_H

#include "postgres.h"

typedef struct EngineProcess
{
	pid_t		pid;			/* 0 = none */
	int			control_fd;		/* our end of the socketpair, -1 = closed */
	int			log_fd;			/* read end of its stderr, -1 = closed */
} EngineProcess;

/* path of the engine program: vllm.engine_path or beside this library; palloc'ed */
char	   *spawn_engine_path(void);
/* false: *why is set (palloc'ed), nothing was left open */
bool		spawn_engine(EngineProcess *p, char **why);
/* close(*fd), *fd = -1 */
void		spawn_close(int *fd);
/* SIGKILL, reap, close */
void		spawn_kill(EngineProcess *p);
/* true if the process has ended; *status as of waitpid.  Closes its descriptors. */
bool		spawn_reap(EngineProcess *p, int *status);

/* ---- log.c ---- */

/* Pass what the engine wrote to the server log, whole lines, not for ever.  false: end of file. */
bool		englog_read(int fd);
/* The last warning or worse, for last_error; '' if none. */
const char *englog_last(void);
void		englog_reset(void);

#endif
