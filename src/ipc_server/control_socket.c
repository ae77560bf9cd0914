/*
 * control_socket.c
 *	  Startup of a program under the supervisor: the arena, and the control socket.
 *
 * The engine reads the socket in a thread of its own, the remote program when epoll reports that it is
 * readable: control_read() reads once.
 *
 * Tested by tests/unit/ipc_server/test_channel.c, test_server.c.
 */
#include "ipc_server/control_socket.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "ipc_server/channel.h"

bool
control_fd_number(const char *s, int *fd)
{
	char	   *end;
	long		v;

	errno = 0;
	v = strtol(s, &end, 10);
	if (end == s || *end != '\0' || errno != 0 || v < 0 || v > INT_MAX)
		return false;
	*fd = (int) v;
	return true;
}

int
control_map_arena(int fd, const char *program, WireArena *a)
{
	struct stat st;
	void	   *p;

	if (fstat(fd, &st) != 0 || st.st_size < WIRE_HEADER_SIZE)
	{
		log_line('P', "could not examine the arena (file descriptor %d)", fd);
		return ENGINE_EXIT_USAGE;
	}
	p = mmap(NULL, (size_t) st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (p == MAP_FAILED)
	{
		log_line('P', "could not map the arena: %s", strerror(errno));
		return ENGINE_EXIT_FATAL;
	}
	a->base = p;
	memcpy(&a->geo, p, sizeof(a->geo));
	if (!wire_geometry_ok(&a->geo, (uint64_t) st.st_size))
	{
		log_line('P', "the arena is of version %u, this %s of version %d: "
				 "library and %s are of different releases", a->geo.version, program, WIRE_VERSION, program);
		return ENGINE_EXIT_VERSION;
	}
	close(fd);
	return ENGINE_EXIT_OK;
}

int
control_hello(int fd)
{
	Link		l = {.control_fd = fd};
	char		line[64];

	signal(SIGPIPE, SIG_IGN);
	if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
	{
		log_line('P', "no control socket on file descriptor %d", fd);
		return ENGINE_EXIT_USAGE;
	}
	snprintf(line, sizeof(line), "%s %d %d\n", CONTROL_HELLO, WIRE_VERSION, (int) getpid());
	link_send_line(&l, line);
	return ENGINE_EXIT_OK;
}

bool
control_read(ControlLines *c, void (*line) (void *ctx, char *line), void *ctx)
{
	ssize_t		n = read(c->fd, c->buf + c->have, sizeof(c->buf) - c->have);
	char	   *nl;

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return true;
	if (n <= 0)
		return false;
	c->have += (size_t) n;
	while ((nl = memchr(c->buf, '\n', c->have)) != NULL)
	{
		size_t		used = (size_t) (nl - c->buf) + 1;

		*nl = '\0';
		line(ctx, c->buf);
		c->have -= used;
		memmove(c->buf, c->buf + used, c->have);
	}
	if (c->have == sizeof(c->buf))
	{
		log_line('W', "line on the control socket is too long");
		c->have = 0;
	}
	return true;
}

const char *
control_config(const char *line)
{
	return strncmp(line, CONTROL_CONFIG " ", sizeof(CONTROL_CONFIG)) == 0 ? line + sizeof(CONTROL_CONFIG) :
		NULL;
}

int
control_count_fds(void)
{
	DIR		   *d = opendir("/proc/self/fd");
	int			n = 0;

	if (d == NULL)
		return -1;
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n - 3;				/* ".", ".." and the directory itself */
}
