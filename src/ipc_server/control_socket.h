/*
 * control_socket.h
 *	  Startup of a program under the supervisor: the arena, and the control socket
 *	  (ipc/control_protocol.h).
 */
#ifndef VLLM_IPC_SERVER_CONTROL_SOCKET_H
#define VLLM_IPC_SERVER_CONTROL_SOCKET_H

#include "ipc/control_protocol.h"
#include "ipc/wire.h"

/* Parse the number of a file descriptor; returns false if it is not one. */
bool		control_fd_number(const char *s, int *fd);

/*
 * control_map_arena() and control_hello() return ENGINE_EXIT_OK, or the status to exit with after
 * logging the reason.  program: e.g. "engine".
 */

/* Map the arena, and copy its geometry before checking it. */
int			control_map_arena(int fd, const char *program, WireArena *a);
/* Send the first line, and ignore SIGPIPE from now on. */
int			control_hello(int fd);

/* Buffer for lines from the supervisor. */
typedef struct ControlLines
{
	int			fd;
	size_t		have;
	char		buf[CONTROL_LINE];
} ControlLines;

/*
 * Read once, and pass each complete line without its newline to line().  Returns false if the supervisor
 * has ended.
 */
bool		control_read(ControlLines *c, void (*line) (void *ctx, char *line), void *ctx);
/* Return the assignment "name=value" of a config line; NULL for another line. */
const char *control_config(const char *line);

/* Return the number of open file descriptors of this process, -1 if unknown: for WK_CONTROL's "fds". */
int			control_count_fds(void);

#endif
