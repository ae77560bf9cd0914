/*
 * cpus.c
 *	  CPUs of this process: affinity, and the quota of its control groups.
 *
 * A quota stands in cpu.max (version 2: "QUOTA PERIOD" or "max PERIOD") or in
 * cpu.cfs_quota_us and cpu.cfs_period_us (version 1) of the process's group and of
 * each one above it; the least counts.  In a container /proc/self/cgroup may name
 * a path that is not there, because its own group is mounted as the root: then
 * only what is there counts.  Linux, Documentation/admin-guide/cgroup-v2.rst and
 * scheduler/sched-bwc.rst.
 *
 * Rounded down: the rest is for PostgreSQL, which is in the same group.  Threads
 * beyond the quota would all stand still at the end of each period.
 *
 * Tested by tests/unit/test_cpus.c.
 */
#include "base/cpus.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* CPU numbers of the largest set that is tried; no kernel has nearly as many */
#define MOST_CPUS (1 << 20)

/*
 * A set as large as the kernel's: it refuses smaller ones with EINVAL, and says
 * nowhere how large it wants them.
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

/* quota / period of one group, 0 = none. */
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
	/* "max" is no number, and version 1 says -1 */
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

/* The least quota from the group at mount + path up to the mount; 0 = none. */
static double
least_quota(const char *mount, const char *path, int version)
{
	char		dir[PATH_MAX];
	size_t		base = strlen(mount);
	double		least = 0;

	if ((size_t) snprintf(dir, sizeof(dir), "%s%s", mount, path) >= sizeof(dir))
		return 0;
	for (;;)
	{
		double		q = group_quota(dir, version);
		char	   *slash = strrchr(dir + base, '/');

		if (q > 0 && (least == 0 || q < least))
			least = q;
		if (slash == NULL)
			return least;
		*slash = '\0';
	}
}

/* Is "cpu" one of the controllers of a list like "cpu,cpuacct"? */
static int
has_cpu(const char *list)
{
	for (const char *p = list; *p != '\0'; p += strcspn(p, ",") + (p[strcspn(p, ",")] == ','))
		if (strcspn(p, ",") == 3 && memcmp(p, "cpu", 3) == 0)
			return 1;
	return 0;
}

int
cpus_quota(const char *root)
{
	static const char *const mounts1[] = {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"};
	char		line[PATH_MAX];
	char		mount[PATH_MAX];
	double		least = 0;
	FILE	   *f;

	snprintf(line, sizeof(line), "%s/proc/self/cgroup", root);
	if ((f = fopen(line, "re")) == NULL)
		return 0;
	while (fgets(line, sizeof(line), f) != NULL)
	{
		char	   *list = strchr(line, ':');
		char	   *path = list != NULL ? strchr(list + 1, ':') : NULL;
		int			version;

		if (path == NULL)
			continue;
		*path++ = '\0';
		path[strcspn(path, "\n")] = '\0';
		version = strcmp(list + 1, "") == 0 ? 2 : 1;
		if (version == 1 && !has_cpu(list + 1))
			continue;
		for (int i = 0; i < (version == 2 ? 1 : 2); i++)
		{
			double		q;

			snprintf(mount, sizeof(mount), "%s%s", root, version == 2 ? "/sys/fs/cgroup" : mounts1[i]);
			q = least_quota(mount, path, version);
			if (q > 0 && (least == 0 || q < least))
				least = q;
		}
	}
	fclose(f);
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
