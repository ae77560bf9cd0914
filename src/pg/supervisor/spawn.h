/*
 * spawn.h
 *	  Starting and ending the engine process and its like; their logs.
 */
#ifndef VLLM_PG_SUPERVISOR_SPAWN_H
#define VLLM_PG_SUPERVISOR_SPAWN_H

#include "postgres.h"

#include "datatype/timestamp.h"

#include "ipc/control_protocol.h"

typedef struct EngineProcess
{
	pid_t		pid;			/* 0 = none */
	int			control_fd;		/* our end of the socketpair, -1 = closed */
	int			log_fd;			/* read end of its stderr, -1 = closed */
	struct ChildLog *log;
	int			n_ranks;		/* processes beside it that share its models, */
	int			ranks_each;		/* processes of each replica */
	pid_t		ranks[RANKS_MOST];	/* [n_ranks]; 0 = it has ended */
} EngineProcess;

/* vllm.engine_memory_limit in MB where it holds, which is not with a CUDA device; 0 = none */
int			spawn_memory_limit(void);
/* On that side's arena.  false: *why is set (palloc'ed), nothing was left open */
bool		spawn_engine(EngineProcess *p, int side, char **why);
/* close(*fd), *fd = -1 */
void		spawn_close(int *fd);
/* SIGKILL, reap, close */
void		spawn_kill(EngineProcess *p);
/*
 * true if the process has ended; *status as of waitpid.  Closes its descriptors, and ends its ranks; a rank
 * that has ended by itself ends the process.
 */
bool		spawn_reap(EngineProcess *p, int *status);

/*
 * Start a program which talks to nobody: stdin and stdout are /dev/null, stderr is a pipe whose
 * read end is p->log_fd; control_fd stays -1.  false: as spawn_engine().
 */
bool		spawn_program(EngineProcess *p, char **argv, char **why);
/*
 * Starts a program that answers backends: ARENA_FD is its arena, CONTROL_FD the other end of p->control_fd.
 */
bool		spawn_server(EngineProcess *p, char **argv, int side, char **why);

/* ---- child_log.c ---- */

#define CHILD_LINE	1024

/* A child's stderr on its way to the server log. */
typedef struct ChildLog
{
	const char *who;			/* begins each line */
	char		line[CHILD_LINE];	/* the part that has come */
	int			line_len;
	char		last[256];		/* the last error, for last_error; '' if none */
	TimestampTz second_start;
	int			notes_in_second;
	int			warnings_in_second;
	int			suppressed;
} ChildLog;

extern ChildLog engine_log;

/* Pass what the child wrote to the server log, whole lines, not for ever.  false: end of file. */
bool		childlog_read(ChildLog *g, int fd);
void		childlog_reset(ChildLog *g);

/* "", or what the signal that ended a program tells. */
const char *spawn_signal_note(int sig);

#endif
