/*
 * main.c
 *	  The engine process: arguments, arena, control socket, threads.
 *
 *	thread		does
 *	main		the server loop (server.c)
 *	control		blocks on the control socket; end of file or "stop" ends the process
 *	step		forward passes (step.c); one for each replica
 *	text (2), load, check	jobs (jobs.c)
 *	output		each model's text and frames (deliver.c)
 *	compute		each model's KPool (kernels/pool.c)
 *
 * The process has no clean-up: everything it owns goes with it, and the arena is
 * made consistent by the supervisor (wire.h, LOST).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crash.h"
#include "base/log.h"
#include "engine/cpuplan.h"
#include "engine/devices.h"
#include "engine/keep.h"
#include "engine/offline.h"
#include "engine/ranks.h"
#include "engine/server.h"
#include "wire/control.h"

#define ENGINE_VERSION "0.8.0"

typedef struct Args
{
	int			arena_fd;
	int			control_fd;
	int			group_fd;		/* -1 = no other ranks */
	int			rank;
	int			replica;		/* ... of which group of them */
	bool		fake;
	const char *check_model;
} Args;

typedef struct Control
{
	int			fd;
	SettingsBox *box;
	Server	   *server;
} Control;

/* ---- control socket ---- */

static void
control_line(Control *k, char *line)
{
	Err			e;

	if (strcmp(line, CONTROL_STOP) == 0)
	{
		log_line('I', "engine stops");
		keep_all(k->server->step, k->server->be);
		_exit(ENGINE_EXIT_OK);
	}
	if (strncmp(line, CONTROL_CONFIG " ", sizeof(CONTROL_CONFIG)) == 0)
	{
		if (!settings_assign(k->box, line + sizeof(CONTROL_CONFIG), &e))
			log_line('W', "%s", e.msg);
	}
	else
		log_line('W', "unknown line on the control socket");
}

/* Lines until the supervisor goes away. */
static void *
control_main(void *arg)
{
	Control    *k = arg;
	char		buf[CONTROL_LINE];
	size_t		have = 0;

	for (;;)
	{
		ssize_t		n = read(k->fd, buf + have, sizeof(buf) - have);
		char	   *nl;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			_exit(ENGINE_EXIT_OK);
		have += (size_t) n;
		while ((nl = memchr(buf, '\n', have)) != NULL)
		{
			size_t		used = (size_t) (nl - buf) + 1;

			*nl = '\0';
			control_line(k, buf);
			have -= used;
			memmove(buf, buf + used, have);
		}
		if (have == sizeof(buf))
		{
			log_line('W', "line on the control socket is too long");
			have = 0;
		}
	}
}

/* ---- start ---- */

/* Map it, and copy its geometry before that is checked. */
static void
map_arena(int fd, WireArena *a)
{
	struct stat st;
	void	   *p;

	if (fstat(fd, &st) != 0 || st.st_size < WIRE_HEADER_SIZE)
	{
		log_line('P', "could not examine the arena (file descriptor %d)", fd);
		exit(ENGINE_EXIT_USAGE);
	}
	p = mmap(NULL, (size_t) st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (p == MAP_FAILED)
	{
		log_line('P', "could not map the arena: %s", strerror(errno));
		exit(ENGINE_EXIT_FATAL);
	}
	a->base = p;
	memcpy(&a->geo, p, sizeof(a->geo));
	if (!wire_geometry_ok(&a->geo, (uint64_t) st.st_size))
	{
		log_line('P', "the arena is of version %u, this engine of version %d: "
				 "library and engine are of different releases", a->geo.version, WIRE_VERSION);
		exit(ENGINE_EXIT_VERSION);
	}
	close(fd);
}

/* A device that can't be used is an error of each load: the engine goes on for what needs none. */
static void
find_devices(const Settings *set, int ranks)
{
	DeviceChoice c;
	Err			e;

	if (!devices_choose(set, 0, 0, ranks, &c, &e))
		log_line('W', "%s (setting vllm.device)", e.msg);
}

static int
serve(const Args *a, SettingsBox *box)
{
	static Control k;
	const Backend *be = a->fake ? &backend_fake : &backend_core;
	const char *isa = "fake";
	Plugins    *plugins;
	WireArena	arena;
	Settings	set;
	Link		hello = {.control_fd = a->control_fd};
	Server	   *s;
	pthread_t	t;
	char		line[64];

	map_arena(a->arena_fd, &arena);
	settings_get(box, &set);
	if (!a->fake)
	{
		Err			e;
		const Kernels *kern = cpuplan_kernels(set.cpu_isa, &e);

		if (kern == NULL)
		{
			log_line('P', "%s (%s)", e.msg, e.hint);
			return ENGINE_EXIT_USAGE;
		}
		isa = kern->name;
		if (!plugins_load(set.logits_processors, &plugins, &e))
		{
			log_line('P', "%s (setting vllm.logits_processors)", e.msg);
			return ENGINE_EXIT_USAGE;
		}
		plugins_set_loaded(plugins);
		find_devices(&set, set.tensor_parallel_size * set.pipeline_parallel_size);
		if (!ranks_open(a->group_fd, &set, &e))
		{
			log_line('P', "%s", e.msg);
			return ENGINE_EXIT_FATAL;
		}
	}
	signal(SIGPIPE, SIG_IGN);
	if (fcntl(a->control_fd, F_SETFD, FD_CLOEXEC) != 0)
	{
		log_line('P', "no control socket on file descriptor %d", a->control_fd);
		return ENGINE_EXIT_USAGE;
	}
	snprintf(line, sizeof(line), "%s %d %d\n", CONTROL_HELLO, WIRE_VERSION, (int) getpid());
	link_tell(&hello, line);
	s = server_new(&arena, a->control_fd, be, box, isa);
	k.fd = a->control_fd;
	k.box = box;
	k.server = s;
	if (pthread_create(&t, NULL, control_main, &k) != 0)
	{
		log_line('P', "could not start the control thread");
		return ENGINE_EXIT_FATAL;
	}
	log_line('I', "engine %s is ready: backend %s, kernels %s, %d threads", ENGINE_VERSION, be->name,
			 isa, settings_threads(&set));
	link_tell(&s->link, CONTROL_READY "\n");
	server_run(s);
}

static int
print_version(void)
{
	printf("vllm_pg_engine %s\nwire version %d\nkernels", ENGINE_VERSION, WIRE_VERSION);
	for (const Kernels *const *k = kernels_all(); *k != NULL; k++)
		printf(" %s%s", (*k)->name, kernels_usable(*k) ? "" : "(not on this CPU)");
	printf("\n");
	return 0;
}

static int
check_model(const Args *a, SettingsBox *box)
{
	const Backend *be = a->fake ? &backend_fake : &backend_core;
	ModelOpts	o = {0};
	Settings	set;
	ModelFacts	f;
	Err			e;

	settings_get(box, &set);
	if (!be->check(a->check_model, &o, &set, &f, &e))
	{
		fprintf(stderr, "%s\n", e.msg);
		if (e.detail[0] != '\0')
			fprintf(stderr, "%s\n", e.detail);
		return ENGINE_EXIT_FATAL;
	}
	printf("arch %s\ndtype %s\nparams %lld\nweight_bytes %lld\nmax_model_len %d\n", f.arch, f.dtype,
		   (long long) f.n_params, (long long) f.weight_bytes, f.max_model_len);
	return 0;
}

static int
usage(const char *fmt,...)
{
	char		why[512];
	va_list		ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	log_line('P', "%s; usage: vllm_pg_engine --arena-fd N --control-fd N [--group-fd N] [--fake] [--set name=value ...] "
			 "| --rank N [--replica N] --group-fd N [--set name=value ...] | --check-model PATH | --offline ... | --version", why);
	return ENGINE_EXIT_USAGE;
}

/* A file descriptor's number; false if it isn't one. */
static bool
parse_fd(const char *s, int *fd)
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

/* An argument that takes a value; what is wrong is said, by name. */
static int
take_option(Args *a, SettingsBox *box, const char *name, const char *value)
{
	Err			e;
	int		   *number = strcmp(name, "--arena-fd") == 0 ? &a->arena_fd : strcmp(name, "--control-fd") == 0 ? &a->control_fd :
		strcmp(name, "--group-fd") == 0 ? &a->group_fd : strcmp(name, "--rank") == 0 ? &a->rank :
		strcmp(name, "--replica") == 0 ? &a->replica : NULL;

	if (number == NULL && strcmp(name, "--check-model") != 0 && strcmp(name, "--set") != 0)
		return usage("unknown argument \"%.100s\"", name);
	if (value == NULL)
		return usage("argument \"%s\" needs a value", name);
	if (number != NULL && !parse_fd(value, number))
		return usage("invalid value \"%.100s\" for argument \"%s\": must be the number of a file descriptor",
					 value, name);
	if (strcmp(name, "--check-model") == 0)
		a->check_model = value;
	if (strcmp(name, "--set") == 0 && !settings_assign(box, value, &e))
		return usage("argument \"--set %.100s\": %s", value, e.msg);
	return ENGINE_EXIT_OK;
}

static int
run_rank(const Args *a, SettingsBox *box)
{
	Settings	set;

	if (a->group_fd < 0)
		return usage("argument \"%s\" is needed", "--group-fd");
	settings_get(box, &set);
	return rank_main(a->group_fd, a->rank, a->replica, &set);
}

int
main(int argc, char **argv)
{
	SettingsBox box;
	Args		a = {.arena_fd = -1,.control_fd = -1,.group_fd = -1};

	crash_install();
	settings_box_init(&box);
	for (int i = 1; i < argc; i++)
	{
		if (strcmp(argv[i], "--version") == 0)
			return print_version();
		if (strcmp(argv[i], "--offline") == 0)
			return offline_main(argc, argv);
		if (strcmp(argv[i], "--fake") == 0)
			a.fake = true;
		else
		{
			/* argv[argc] is NULL */
			int			rc = take_option(&a, &box, argv[i], argv[i + 1]);

			if (rc != ENGINE_EXIT_OK)
				return rc;
			i++;
		}
	}
	if (a.check_model != NULL)
		return check_model(&a, &box);
	if (a.rank > 0)
		return run_rank(&a, &box);
	if (a.arena_fd < 0 || a.control_fd < 0)
		return usage("argument \"%s\" is needed", a.arena_fd < 0 ? "--arena-fd" : "--control-fd");
	return serve(&a, &box);
}
