/*
 * cgroup.c
 *	  Where control groups have their files.
 *
 * In a container /proc/self/cgroup may name a path that does not exist there, because the container's
 * own group is mounted as the root.  Then only the directories that exist count.  See
 * Documentation/admin-guide/cgroup-v2.rst and cgroup-v1 of the Linux kernel.
 *
 * Tested by tests/unit/runtime/test_cpus.c.
 */
#include "base/machine/cgroup.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Call fn for the group at mount + path and for each group above it. */
static void
each_above(const char *mount, const char *path, int version, CgroupFn fn, void *arg)
{
	char		dir[PATH_MAX];
	size_t		base = strlen(mount);

	if ((size_t) snprintf(dir, sizeof(dir), "%s%s", mount, path) >= sizeof(dir))
		return;
	for (;;)
	{
		char	   *slash = strrchr(dir + base, '/');

		fn(arg, dir, version);
		if (slash == NULL)
			return;
		*slash = '\0';
	}
}

/* Return true if the controller is an element of a list like "cpu,cpuacct". */
static int
in_list(const char *controller, const char *list)
{
	size_t		n = strlen(controller);

	for (const char *p = list; *p != '\0'; p += strcspn(p, ",") + (p[strcspn(p, ",")] == ','))
		if (strcspn(p, ",") == n && memcmp(p, controller, n) == 0)
			return 1;
	return 0;
}

void
cgroup_each(const char *root, const char *controller, CgroupFn fn, void *arg)
{
	char		line[PATH_MAX];
	char		mount[2 * PATH_MAX];
	FILE	   *f;

	snprintf(line, sizeof(line), "%s/proc/self/cgroup", root);
	if ((f = fopen(line, "re")) == NULL)
		return;
	while (fgets(line, sizeof(line), f) != NULL)
	{
		char	   *list = strchr(line, ':');
		char	   *path = list != NULL ? strchr(list + 1, ':') : NULL;

		if (path == NULL)
			continue;
		list++;
		*path++ = '\0';
		path[strcspn(path, "\n")] = '\0';
		if (list[0] == '\0')
		{
			snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup", root);
			each_above(mount, path, 2, fn, arg);
		}
		else if (in_list(controller, list))
		{
			snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup/%s", root, list);
			each_above(mount, path, 1, fn, arg);
			/* the controller may also be mounted under its own name */
			snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup/%s", root, controller);
			if (strcmp(controller, list) != 0)
				each_above(mount, path, 1, fn, arg);
		}
	}
	fclose(f);
}
