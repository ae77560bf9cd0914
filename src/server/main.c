/*
 * main.c
 *	  The engine process: arguments, arena, control socket, threads.
 *
 *	thread		does
 *	main		the server loop (server.c)
 *	control		blocks on the control socket; end of file or "stop" ends the process
 *	step		forward passes (step_loop.c); one for each replica
 *	text (2), load, check	jobs (worker_pool.c)
 *	output		each model's text and frames (output_queue.c)
 *	compute		each model's KPool (kernels/pool.c)
 *
 * The process does no clean-up at its end: everything it owns ends with it, and the supervisor makes the
 * arena consistent (wire.h, LOST).
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crash.h"
#include "base/log.h"
#include "runtime/cpu_threads.h"
#include "runtime/devices.h"
#include "server/shutdown_flush.h"
#include "backend/offline.h"
#include "core/ranks/ranks.h"
#include "server/server.h"
#include "runtime/engine_syscalls.h"
#include "ipc_server/control_socket.h"

typedef struct EngineArgs
{
	int			arena_fd;
	int			control_fd;
	int			group_fd;		/* -1 = no other ranks */
	int			rank;
	int			replica;		/* number of this process's group of ranks */
	bool		fake;
	const char *check_model;
} EngineArgs;

typedef struct Control
{
	ControlLines in;
	SettingsBox *box;
	Server	   *server;
} Control;

/* ---- control socket ---- */

static void
control_line(void *ctx, char *line)
{
	Control    *k = ctx;
	const char *assign = control_config(line);
	Err			e;

	if (strcmp(line, CONTROL_STOP) == 0)
	{
		log_line('I', "engine stops");
		keep_all(k->server->step, k->server->be);
		_exit(ENGINE_EXIT_OK);
	}
	if (assign == NULL)
		log_line('W', "unknown line on the control socket");
	else if (!settings_assign(k->box, assign, &e))
		log_line('W', "%s", e.msg);
}

/* Handle lines of the control socket until the supervisor closes it. */
static void *
control_main(void *arg)
{
	Control    *k = arg;

	while (control_read(&k->in, control_line, k))
		;
	_exit(ENGINE_EXIT_OK);
}

/* ---- start ---- */

/*
 * Find the devices.  If one can't be used, each load that needs it fails: the engine still serves what
 * needs none.
 */
static void
find_devices(const Settings *set, int ranks)
{
	DeviceChoice c;
	Err			e;

	if (!devices_choose(set, 0, 0, ranks, &c, &e))
		log_line('W', "%s (setting vllm.device)", e.msg);
}

static int
serve(const EngineArgs *a, SettingsBox *box)
{
	static Control k;
	const Backend *be = a->fake ? &backend_fake : &backend_core;
	const char *isa = "fake";
	Plugins    *plugins;
	WireArena	arena;
	Settings	set;
	Server	   *s;
	Err			e;
	pthread_t	t;
	int			status = control_map_arena(a->arena_fd, "engine", &arena);

	if (status != ENGINE_EXIT_OK)
		return status;
	settings_get(box, &set);
	if (!a->fake)
	{
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
	if (!engine_confine(&set, &e))
	{
		log_line('P', "%s", e.msg);
		return ENGINE_EXIT_USAGE;
	}
	status = control_hello(a->control_fd);
	if (status != ENGINE_EXIT_OK)
		return status;
	s = server_new(&arena, a->control_fd, be, box, isa);
	k.in.fd = a->control_fd;
	k.box = box;
	k.server = s;
	if (pthread_create(&t, NULL, control_main, &k) != 0)
	{
		log_line('P', "could not start the control thread");
		return ENGINE_EXIT_FATAL;
	}
	log_line('I', "engine %s is ready: backend %s, kernels %s, %d threads", VLLM_PG_VERSION, be->name,
			 isa, settings_threads(&set));
	link_send_line(&s->link, CONTROL_READY "\n");
	server_run(s);
}

static int
print_version(void)
{
	printf("vllm_pg_engine %s\nwire version %d\nkernels", VLLM_PG_VERSION, WIRE_VERSION);
	for (const Kernels *const *k = kernels_all(); *k != NULL; k++)
		printf(" %s%s", (*k)->name, kernels_usable(*k) ? "" : "(not on this CPU)");
	printf("\n");
	return 0;
}

static int
check_model(const EngineArgs *a, SettingsBox *box)
{
	const Backend *be = a->fake ? &backend_fake : &backend_core;
	ModelOpts	o = {0};
	Settings	set;
	ModelFacts	f;
	Err			e;

	settings_get(box, &set);
	if (!engine_confine(&set, &e))
	{
		fprintf(stderr, "%s\n", e.msg);
		return ENGINE_EXIT_FATAL;
	}
	if (!be->loader->check(a->check_model, &o, &set, &f, &e))
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
	log_line('P', "%s; usage: vllm_pg_engine --arena-fd N --control-fd N [--group-fd N] [--fake] [--set "
			 "name=value ...] | --rank N [--replica N] --group-fd N [--set name=value ...] | --check-model "
			 "PATH | --offline ... | --version", why);
	return ENGINE_EXIT_USAGE;
}

/* Take an argument that has a value.  Reports an error with the argument's name. */
static int
take_option(EngineArgs *a, SettingsBox *box, const char *name, const char *value)
{
	Err			e;
	int		   *number = strcmp(name, "--arena-fd") == 0 ? &a->arena_fd : strcmp(name, "--control-fd") == 0 ?
		&a->control_fd : strcmp(name, "--group-fd") == 0 ? &a->group_fd : strcmp(name, "--rank") == 0 ?
		&a->rank : strcmp(name, "--replica") == 0 ? &a->replica : NULL;

	if (number == NULL && strcmp(name, "--check-model") != 0 && strcmp(name, "--set") != 0)
		return usage("unknown argument \"%.100s\"", name);
	if (value == NULL)
		return usage("argument \"%s\" needs a value", name);
	if (number != NULL && !control_fd_number(value, number))
		return usage("invalid value \"%.100s\" for argument \"%s\": must be the number of a file descriptor",
					 value, name);
	if (strcmp(name, "--check-model") == 0)
		a->check_model = value;
	if (strcmp(name, "--set") == 0 && !settings_assign(box, value, &e))
		return usage("argument \"--set %.100s\": %s", value, e.msg);
	return ENGINE_EXIT_OK;
}

static int
run_rank(const EngineArgs *a, SettingsBox *box)
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
	EngineArgs	a = {.arena_fd = -1,.control_fd = -1,.group_fd = -1};

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
			/* argv[argc] is NULL, so argv[i + 1] can be read */
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
