/*
 * main.c
 *	  The remote program: arguments, arena, control socket, libcurl.  The rest is in remote_server.c.
 *
 *	thread		does
 *	main		everything else
 *	bell		sleeps on the arena's doorbell (doorbell_fd.c)
 *	libcurl's	look up names
 *
 * The supervisor starts it and uses the same control protocol as with the engine
 * (ipc/control_protocol.h).  The program does no clean-up at its end, which could have to wait for a
 * resolver: its connections end with the process, and the supervisor makes the arena consistent (wire.h,
 * LOST).
 *
 * Tested by tests/unit/remote/test_remote_program.c.
 */
#include <curl/curl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/crash.h"
#include "base/log.h"
#include "remote/remote_server.h"
#include "remote/remote_syscalls.h"
#include "ipc_server/control_socket.h"

#define PROGRAM "remote program"

typedef struct RemoteArgs
{
	int			arena_fd;
	int			control_fd;
	RSettings	set;
} RemoteArgs;

static int
usage(const char *fmt,...)
{
	char		why[512];
	va_list		ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	log_line('P', "%s; usage: vllm_pg_remote --arena-fd N --control-fd N [--set name=value ...] | --version",
			 why);
	return ENGINE_EXIT_USAGE;
}

/* Take an argument that has a value.  Reports an error with the argument's name. */
static int
take_option(RemoteArgs *a, const char *name, const char *value)
{
	Err			e;
	int		   *number = strcmp(name, "--arena-fd") == 0 ? &a->arena_fd : strcmp(name, "--control-fd") == 0 ?
		&a->control_fd : NULL;

	if (number == NULL && strcmp(name, "--set") != 0)
		return usage("unknown argument \"%.100s\"", name);
	if (value == NULL)
		return usage("argument \"%s\" needs a value", name);
	if (number != NULL && !control_fd_number(value, number))
		return usage("invalid value \"%.100s\" for argument \"%s\": must be the number of a file descriptor",
					 value, name);
	if (number == NULL && !rsettings_assign(&a->set, value, &e))
		return usage("argument \"--set %.100s\": %s", value, e.msg);
	return ENGINE_EXIT_OK;
}

static int
print_version(void)
{
	printf("vllm_pg_remote %s\nwire version %d\n%s\n", VLLM_PG_VERSION, WIRE_VERSION, curl_version());
	return ENGINE_EXIT_OK;
}

/* Each connection needs a file descriptor, so raise the limit as far as the system allows. */
static void
allow_files(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) != 0)
		return;
	r.rlim_cur = r.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &r) != 0)
		log_line('W', "could not raise the limit of open files");
}

static int
fatal(const Err *e)
{
	log_line('P', "%s", e->msg);
	return ENGINE_EXIT_FATAL;
}

static int
serve(RemoteArgs *a)
{
	WireArena	arena;
	Http	   *h;
	RemoteServer *d;
	Err			e;
	SeccompRules rules = {remote_syscalls, remote_n_syscalls, false};
	int			status = control_map_arena(a->arena_fd, PROGRAM, &arena);

	if (status != ENGINE_EXIT_OK)
		return status;
	/* the process holds secrets of many users */
	if (prctl(PR_SET_DUMPABLE, 0) != 0)
		log_line('W', "could not forbid memory dumps");
	allow_files();
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
	{
		log_line('P', "could not initialize libcurl");
		return ENGINE_EXIT_FATAL;
	}
	if (!seccomp_enter(&rules, a->set.seccomp, &e))
		return fatal(&e);
	status = control_hello(a->control_fd);
	if (status != ENGINE_EXIT_OK)
		return status;
	h = http_new(&e);
	if (h == NULL)
		return fatal(&e);
	d = remote_server_new(&arena, a->control_fd, h, &a->set, &e);
	if (d == NULL)
		return fatal(&e);
	log_line('I', "%s %s is ready: %s", PROGRAM, VLLM_PG_VERSION, curl_version());
	remote_server_ready(d);
	while (remote_server_poll(d, INT64_MAX))
		;
	_exit(ENGINE_EXIT_OK);
}

int
main(int argc, char **argv)
{
	static RemoteArgs a = {.arena_fd = -1,.control_fd = -1};

	crash_install();
	rsettings_init(&a.set);
	for (int i = 1; i < argc; i += 2)
	{
		int			rc;

		if (strcmp(argv[i], "--version") == 0)
			return print_version();
		/* argv[argc] is NULL, so argv[i + 1] can be read */
		rc = take_option(&a, argv[i], argv[i + 1]);
		if (rc != ENGINE_EXIT_OK)
			return rc;
	}
	if (a.arena_fd < 0 || a.control_fd < 0)
		return usage("argument \"%s\" is needed", a.arena_fd < 0 ? "--arena-fd" : "--control-fd");
	return serve(&a);
}
