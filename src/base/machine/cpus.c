/*
 * cpus.c
 *	  CPUs of this process: affinity, and the quota of its control groups.
 *
 * The quota is in cpu.max (version 2: "QUOTA PERIOD" or "max PERIOD") or in cpu.cfs_quota_us and
 * cpu.cfs_period_us (version 1) of the process's group and of each group above it; the smallest counts.
 * See Documentation/admin-guide/cgroup-v2.rst and scheduler/sched-bwc.rst of the Linux kernel.
 *
 * The quota is rounded down: the rest is for PostgreSQL, which is in the same group.  With more threads
 * than the quota allows, all of them would stall at the end of each period.
 *
 * Tested by tests/unit/runtime/test_cpus.c.
 */
#include "base/machine/cpus.h"

#include <string.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/machine/cgroup.h"

/* CPU numbers of the largest set that is tried; no kernel supports nearly as many */
#define MOST_CPUS (1 << 20)

/*
 * Try growing sets: the kernel refuses a set that is smaller than its own with EINVAL, and does not say
 * which size it needs.
 */
int
cpus_allowed(int *cpus, int max)
{
	for (int size = CPU_SETSIZE; size <= MOST_CPUS; size *= 2)
	{
		cpu_set_t  *set = CPU_ALLOC(size);
		size_t		bytes = CPU_ALLOC_SIZE(size);
		int			n = 0;
		bool		ok;
		bool		larger;

		if (set == NULL)
			return 0;
		ok = sched_getaffinity(0, bytes, set) == 0;
		larger = !ok && errno == EINVAL;
		for (int c = 0; ok && c < size && n < max; c++)
			if (CPU_ISSET_S(c, bytes, set))
			{
				if (cpus != NULL)
					cpus[n] = c;
				n++;
			}
		CPU_FREE(set);
		if (!larger)
			return n;
	}
	return 0;
}

/* Return quota / period of one group, 0 = no limit. */
static double
group_quota(const char *dir, int version)
{
	char		path[PATH_MAX + 32];
	double		quota = 0;
	double		period = 0;
	FILE	   *f;

	snprintf(path, sizeof(path), "%s/%s", dir, version == 2 ? "cpu.max" : "cpu.cfs_quota_us");
	if ((f = fopen(path, "re")) == NULL)
		return 0;
	/* "max" is not a number, and version 1 uses -1 */
	if (fscanf(f, "%lf %lf", &quota, &period) < 1)
		quota = 0;
	fclose(f);
	if (version == 1)
	{
		snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", dir);
		if ((f = fopen(path, "re")) == NULL)
			return 0;
		if (fscanf(f, "%lf", &period) != 1)
			period = 0;
		fclose(f);
	}
	return quota > 0 && period > 0 ? quota / period : 0;
}

/* Update *arg, the smallest quota so far; 0 = none. */
static void
least_quota(void *arg, const char *dir, int version)
{
	double	   *least = arg;
	double		q = group_quota(dir, version);

	if (q > 0 && (*least == 0 || q < *least))
		*least = q;
}

int
cpus_quota(const char *root)
{
	double		least = 0;

	cgroup_each(root, "cpu", least_quota, &least);
	return least == 0 || least > INT_MAX ? 0 : least < 1 ? 1 : (int) least;
}

int
cpus_usable(void)
{
	int			n = cpus_allowed(NULL, INT_MAX);
	int			quota = cpus_quota("");

	if (n < 1)
		n = 1;
	return quota > 0 && quota < n ? quota : n;
}

void
cpus_name(char *out, size_t size)
{
	FILE	   *f = fopen("/proc/cpuinfo", "re");
	char		line[256];

	out[0] = '\0';
	if (f == NULL)
		return;
	while (out[0] == '\0' && fgets(line, sizeof(line), f) != NULL)
	{
		char	   *colon = strchr(line, ':');

		if (strncmp(line, "model name", 10) == 0 && colon != NULL)
			snprintf(out, size, "%.*s", (int) strcspn(colon + 2, "\n"), colon + 2);
	}
	fclose(f);
}
