/*
 * http_process.h
 *	  The HTTP server's process, which the supervisor keeps running.
 */
#ifndef VLLM_PG_SUPERVISOR_HTTP_PROCESS_H
#define VLLM_PG_SUPERVISOR_HTTP_PROCESS_H

#include "postgres.h"

/* path of the program, beside this library; palloc'ed once per process */
const char *http_process_path(void);
/*
 * Start, restart, reap or end it, as the settings say.  Return true if the descriptor of its log has
 * changed.
 */
bool		http_process_poll(void);
/* called after the settings were read again */
void		http_process_reload(void);
/* read end of its stderr, -1 = none */
int			http_process_log_fd(void);
/* ms until the next call of http_process_poll() is due */
long		http_process_timeout(void);
/* send SIGKILL and reap */
void		http_process_kill(void);

#endif
