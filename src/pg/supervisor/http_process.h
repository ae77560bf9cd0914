/*
 * http_process.h
 *	  The HTTP door's process, kept by the supervisor.
 */
#ifndef VLLM_PG_SUPERVISOR_HTTP_PROCESS_H
#define VLLM_PG_SUPERVISOR_HTTP_PROCESS_H

#include "postgres.h"

/* path of the program, beside this library; palloc'ed once a process */
const char *http_process_path(void);
/* Start, restart, reap or end it, as the settings say.  True: its log's descriptor is another one. */
bool		http_process_turn(void);
/* the settings were read anew */
void		http_process_reload(void);
/* read end of its stderr, -1 = none */
int			http_process_log_fd(void);
/* ms until the next turn is due */
long		http_process_timeout(void);
/* SIGKILL and reap */
void		http_process_kill(void);

#endif
