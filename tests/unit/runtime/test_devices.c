/*
 * test_devices.c
 *	  Which device each rank of each replica gets, of those that tests/plugins/devices.c reports: an
 *	  H200, a T4, and a P100 that can't be used, as often and in the order that CUDA_VISIBLE_DEVICES
 *	  says.
 *
 * A library is opened once in a process, so each machine is a process of its own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/build_path.h"
#include "tests/unit/check.h"
#include "runtime/devices.h"

static char library[1024];

static const struct
{
	const char *machine;		/* 0 H200, 1 T4, 2 P100 */
	const char *device;
	int			ranks;
	int			replicas;
	const char *has;			/* device numbers, "/" between replicas; - for the CPUs */
}			cases[] = {
	{"0,0,0,0", "auto", 1, 4, "0/1/2/3"},
	{"0,0,0,0", "cuda", 1, 6, "0/1/2/3/0/1"},
	{"0,0,0,0", "auto", 2, 3, "0 1/2 3/0 1"},
	{"0,0,0", "auto", 2, 2, "0 1/0 1"},
	{"0", "auto", 1, 2, "0/0"},
	{"0", "auto", 2, 1, "- -"},
	/* no mixed kinds, and no unusable ones */
	{"0,1", "auto", 1, 2, "0/0"},
	{"2,0,2,0", "cuda", 1, 3, "1/3/1"},
	/* but usable ones after those */
	{"0,1,0", "auto", 1, 3, "0/2/0"},
	{"1,0,0,1", "cuda", 1, 2, "0/3"},
	{"0,0,1,1,0,0", "auto", 2, 3, "0 1/4 5/0 1"},
	/* kinds rank by rank; a replica has devices for all its ranks, or none */
	{"0,1,0,1", "auto", 2, 2, "0 1/2 3"},
	{"0,1,0,0", "auto", 2, 2, "0 1/0 1"},
	/* named ones */
	{"0,0,1,0", "cuda:0,cuda:3", 1, 2, "0/3"},
	{"0,0,0,0", "cuda:3,cuda:2,cuda:1,cuda:0", 2, 2, "3 2/1 0"},
	{"0,0,0,0", "cuda:3,cuda:2", 2, 2, "3 2/3 2"}
};

/* Returns the devices in the format of `has`. */
static void
choose(const Settings *s, int ranks, int replicas, char *out, size_t size)
{
	size_t		at = 0;

	out[0] = '\0';
	for (int i = 0; i < replicas * ranks && at < size; i++)
	{
		DeviceChoice c;
		Err			e = {0};
		const char *between = i == 0 ? "" : i % ranks == 0 ? "/" : " ";

		if (!devices_choose(s, i / ranks, i % ranks, ranks, &c, &e))
			at += (size_t) snprintf(out + at, size - at, "%s%s", between, e.msg);
		else if (c.ops == NULL)
			at += (size_t) snprintf(out + at, size - at, "%s-", between);
		else
			at += (size_t) snprintf(out + at, size - at, "%s%d", between, c.ordinal);
	}
}

int
main(int argc, char **argv)
{
	(void) argc;
	(void) argv;
	CHECK(build_path(library, sizeof(library), "tests/plugins/devices.so"), "not in a build");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		int			status = -1;
		pid_t		pid = fork();

		if (pid == 0)
		{
			static Settings s;
			char		got[256];

			setenv("CUDA_VISIBLE_DEVICES", cases[i].machine, 1);
			snprintf(s.device, sizeof(s.device), "%s", cases[i].device);
			memcpy(s.device_library, library, sizeof(s.device_library));
			choose(&s, cases[i].ranks, cases[i].replicas, got, sizeof(got));
			if (strcmp(got, cases[i].has) != 0)
				fprintf(stderr, "%s\n", got);
			_exit(strcmp(got, cases[i].has) != 0);
		}
		waitpid(pid, &status, 0);
		CHECK(status == 0, "devices %s, %s, %d replicas of %d ranks: not %s", cases[i].machine,
			  cases[i].device, cases[i].replicas, cases[i].ranks, cases[i].has);
	}
	return check_done("test_devices");
}
