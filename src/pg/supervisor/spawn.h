/*
 * spawn.h
 *	  Starting and ending the engine process and other programs; their logs.
 */
#ifndef VLLM_PG_SUPERVISOR_SPAWN_H
#define VLLM_PG_SUPERVISOR_SPAWN_H

#include "postgres.h"

#include "datatype/timestamp.h"

#include "ipc/control_protocol.h"

typedef struct EngineProcess
{
	pid_t		pid;			/* 0 = none */
	int			control_fd;		/* the supervisor's end of the socketpair, -1 = closed */
	int			log_fd;			/* read end of its stderr, -1 = closed */
	struct ChildLog *log;
	int			n_ranks;		/* further processes that share its models, */
	int			ranks_each;		/* of these, the number for each replica */
	pid_t		ranks[RANKS_MOST];	/* [n_ranks]; 0 = it has ended */
} EngineProcess;

/* Return vllm.engine_memory_limit in MB; 0 = none.  The limit does not apply with a CUDA device. */
int			spawn_memory_limit(void);
/*
 * Start an engine with that side's arena.  On failure return false and set *why (palloc'ed); no
 * descriptor is left open.
 */
bool		spawn_engine(EngineProcess *p, int side, char **why);
/* close(*fd), *fd = -1 */
void		spawn_close(int *fd);
/* send SIGKILL, reap, close descriptors */
void		spawn_kill(EngineProcess *p);
/*
 * Return true if the process has ended, with *status as of waitpid.  Closes its descriptors and ends
 * its ranks.  If a rank has ended by itself, the process is ended, too.
 */
bool		spawn_reap(EngineProcess *p, int *status);

/*
 * Start a program without a connection: stdin and stdout are /dev/null, stderr is a pipe whose read
 * end is p->log_fd; control_fd stays -1.  Failure is reported as by spawn_engine().
 */
bool		spawn_program(EngineProcess *p, char **argv, char **why);
/*
 * Start a program that serves backends: ARENA_FD is its arena, CONTROL_FD the other end of
 * p->control_fd.
 */
bool		spawn_server(EngineProcess *p, char **argv, int side, char **why);

/* ---- child_log.c ---- */

#define CHILD_LINE	1024

/* State of a child's stderr, which goes to the server log. */
typedef struct ChildLog
{
	const char *who;			/* prefix of each line */
	char		line[CHILD_LINE];	/* the part of a line that has arrived */
	int			line_len;
	char		last[256];		/* the last error, for last_error; '' = none */
	TimestampTz second_start;
	int			notes_in_second;
	int			warnings_in_second;
	int			suppressed;
} ChildLog;

extern ChildLog engine_log;

/*
 * Pass whole lines of the child to the server log, up to a limit for each call.  Return false at the
 * end of file.
 */
bool		childlog_read(ChildLog *g, int fd);
void		childlog_reset(ChildLog *g);

/* Return "", or a note about the signal that ended a program. */
const char *spawn_signal_note(int sig);

#endif
