/*
 * control_protocol.h
 *	  The control socket between the supervisor and the engine process.
 *
 * The supervisor spawns
 *
 *		vllm_pg_engine --arena-fd 4 --control-fd 3 [--fake] [--set name=value ...]
 *
 * with one end of a SOCK_STREAM socketpair as fd 3, the arena's memfd as fd 4, stdin and stdout on
 * /dev/null and stderr a pipe (log lines, base/log.h).  If models are to be shared by ranks
 * (tensor_parallel_size, pipeline_parallel_size), it spawns the other ranks, too, as
 *
 *		vllm_pg_engine --rank N --replica N --group-fd 5 [--set name=value ...]
 *
 * and passes an empty memfd to all ranks of a replica as fd 5.  The engine is rank 0 of each of
 * data_parallel_size replicas and gets their memfds as fds 5, 6, ... in order.  The other ranks have
 * neither socket nor arena.
 *
 * Both directions are a byte stream of lines that end in '\n'; no line is longer than CONTROL_LINE bytes
 * with its newline.
 *
 *	engine -> supervisor
 *		hello <wire version> <pid>\n	first line; nothing else before it
 *		ready\n							the engine serves conversations from now on
 *		w\n								wake: the to_worker ring has entries
 *
 *	supervisor -> engine
 *		config name=value\n				a setting of docs/internals/wire.md; unknown or bad: a W: log line
 *		stop\n							exit 0 now
 *		(end of file)					the same; happens when the supervisor dies
 *
 * WAKES ARE COALESCED.  The engine sends "w\n" only when its push found the to_worker ring empty
 * (wire_push).  So the supervisor first reads the socket, then pops the ring until wire_pop() says that
 * it is empty; for a slot pushed after that the engine sends another line.  The engine's writes never
 * block: when the socket is full, the supervisor already has wakes to read.  The supervisor should also
 * drain the ring at its ordinary time-out.
 *
 * Exit status of the engine:
 */
#ifndef VLLM_IPC_CONTROL_PROTOCOL_H
#define VLLM_IPC_CONTROL_PROTOCOL_H

#define CONTROL_LINE	1024	/* longest line, including the newline */

#define CONTROL_HELLO	"hello"
#define CONTROL_READY	"ready"
#define CONTROL_WAKE	"w"
#define CONTROL_CONFIG	"config"
#define CONTROL_STOP	"stop"

#define CONTROL_FD		3
#define ARENA_FD		4
#define GROUP_FD		5		/* first of them: one fd for each replica */

#define RANKS_MOST		16		/* of all replicas together; same as GROUP_MOST of base/shared_memory.h */

#define ENGINE_EXIT_OK		0	/* stop, or the control socket was closed */
#define ENGINE_EXIT_FATAL	1	/* out of memory and similar: restart with back-off */
#define ENGINE_EXIT_USAGE	2	/* bad arguments or settings: restarting won't help */
#define ENGINE_EXIT_VERSION 3	/* the arena has another version than this engine: restarting won't help */

#endif
