/*
 * control_socket.h
 *	  A program's beginnings under the supervisor: the arena, and the control socket (ipc/control_protocol.h).
 */
#ifndef VLLM_IPC_SERVER_CONTROL_SOCKET_H
#define VLLM_IPC_SERVER_CONTROL_SOCKET_H

#include "ipc/control_protocol.h"
#include "ipc/wire.h"

/* A file descriptor's number; false if it isn't one. */
bool		control_fd_number(const char *s, int *fd);

/* All below: ENGINE_EXIT_OK, or the status to exit with; why is in the log.  program: "engine" */

/* Map it, and copy its geometry before that is checked. */
int			control_map_arena(int fd, const char *program, WireArena *a);
/* The socket's first line; writing to one that is closed is no signal any more. */
int			control_hello(int fd);

/* Lines that come. */
typedef struct ControlLines
{
	int			fd;
	size_t		have;
	char		buf[CONTROL_LINE];
} ControlLines;

/*
 * Read once, and hand each line that is whole to line(), without its newline.  False: the supervisor is gone.
 */
bool		control_read(ControlLines *c, void (*line) (void *ctx, char *line), void *ctx);
/* What a config line assigns, "name=value"; NULL: it is another line. */
const char *control_config(const char *line);

/* Open file descriptors of this process, -1 if that can't be told: WK_CONTROL's "fds". */
int			control_count_fds(void);

#endif
