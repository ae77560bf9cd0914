/*
 * main.c
 *	  vllm_pg_remote: asks endpoints for what backends want of models behind urls (docs/remote.md).
 *
 *	vllm_pg_remote --arena-fd N --control-fd N [--set name=value ...]
 *	vllm_pg_remote --version
 *
 * One thread, but for the bell's and libcurl's resolvers.  The supervisor starts it and speaks with it as
 * with the engine (wire/control.h); it ends when told to, or when the control socket is closed.
 *
 * Tested by tests/unit/test_remote_program.c and tests/t/111_remote.pl.
 */
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/crash.h"
#include "base/log.h"
#include "remote/desk.h"
#include "talk/control.h"

#define TURN_US	INT64_C(1000000)	/* the longest sleep: the heartbeat is to be seen */

static int
usage(const char *why, const char *what)
{
	log_line('P', "%s \"%.100s\"; usage: vllm_pg_remote --arena-fd N --control-fd N [--set name=value ...] | --version", why, what);
	return ENGINE_EXIT_USAGE;
}

static int
print_version(void)
{
	printf("vllm_pg_remote\nwire version %d\n%s\n", WIRE_VERSION, curl_version());
	return ENGINE_EXIT_OK;
}

static int
serve(int arena_fd, int control_fd, RSettings *set)
{
	WireArena	arena;
	Http	   *h;
	Desk	   *d;
	Err			e;
	int			status = control_map_arena(arena_fd, "remote program", &arena);

	if (status != ENGINE_EXIT_OK)
		return status;
	/* the secrets of others are in here */
	(void) prctl(PR_SET_DUMPABLE, 0);
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
	{
		log_line('P', "could not initialize libcurl");
		return ENGINE_EXIT_FATAL;
	}
	status = control_hello(control_fd);
	if (status != ENGINE_EXIT_OK)
		return status;
	h = http_new(&e);
	d = h != NULL ? desk_new(&arena, control_fd, h, set, &e) : NULL;
	if (d == NULL)
	{
		log_line('P', "%s", e.msg);
		return ENGINE_EXIT_FATAL;
	}
	desk_ready(d);
	while (desk_turn(d, TURN_US))
		;
	desk_free(d);
	http_free(h);
	curl_global_cleanup();
	return ENGINE_EXIT_OK;
}

int
main(int argc, char **argv)
{
	static RSettings set;
	int			arena_fd = -1;
	int			control_fd = -1;
	Err			e;

	crash_install();
	rsettings_init(&set);
	for (int i = 1; i < argc; i += 2)
	{
		const char *value = argv[i + 1];	/* argv[argc] is NULL */
		int		   *fd = strcmp(argv[i], "--arena-fd") == 0 ? &arena_fd : strcmp(argv[i], "--control-fd") == 0 ? &control_fd : NULL;

		if (strcmp(argv[i], "--version") == 0)
			return print_version();
		if (fd == NULL && strcmp(argv[i], "--set") != 0)
			return usage("unknown argument", argv[i]);
		if (value == NULL)
			return usage("a value is needed by argument", argv[i]);
		if (fd != NULL && !control_fd_number(value, fd))
			return usage("not the number of a file descriptor:", value);
		if (fd == NULL && !rsettings_assign(&set, value, &e))
			return usage(e.msg, value);
	}
	if (arena_fd < 0 || control_fd < 0)
		return usage("an argument is needed:", arena_fd < 0 ? "--arena-fd" : "--control-fd");
	return serve(arena_fd, control_fd, &set);
}
