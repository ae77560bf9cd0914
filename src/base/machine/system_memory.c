/*
 * system_memory.c
 *	  Available memory: /proc/meminfo and the limits of control groups.
 *
 * A group's limit is in memory.max (version 2) or memory.limit_in_bytes (version 1), its usage in
 * memory.current or memory.usage_in_bytes.  The usage includes the page cache ("file" or "cache" in
 * memory.stat), which the kernel can reclaim.
 *
 * Tested by tests/unit/runtime/test_cpus.c.
 */
#include "base/machine/system_memory.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/machine/cgroup.h"

/* Read the number that follows `name` at the beginning of a line; name "": the file's first word. */
static bool
read_number(const char *path, const char *name, uint64_t *out)
{
	char		line[256];
	size_t		n = strlen(name);
	bool		found = false;
	FILE	   *f = fopen(path, "re");

	while (f != NULL && !found && fgets(line, sizeof(line), f) != NULL)
		found = strncmp(line, name, n) == 0 && sscanf(line + n, n > 0 ? " %" SCNu64 : "%" SCNu64, out) == 1;
	if (f != NULL)
		fclose(f);
	return found;
}

/* Update *arg, the smallest number of bytes that a group has left so far. */
static void
group_left(void *arg, const char *dir, int version)
{
	static const char *const files[][2] = {
		{"memory.limit_in_bytes", "memory.usage_in_bytes"}, {"memory.max", "memory.current"}
	};
	char		path[PATH_MAX + 32];
	uint64_t   *least = arg;
	uint64_t	limit;
	uint64_t	used;
	uint64_t	cache = 0;

	snprintf(path, sizeof(path), "%s/%s", dir, files[version - 1][0]);
	if (!read_number(path, "", &limit))	/* "max" is not a number */
		return;
	snprintf(path, sizeof(path), "%s/%s", dir, files[version - 1][1]);
	if (!read_number(path, "", &used))
		return;
	snprintf(path, sizeof(path), "%s/memory.stat", dir);
	(void) read_number(path, version == 1 ? "cache " : "file ", &cache);
	used -= cache < used ? cache : used;
	limit -= used < limit ? used : limit;
	if (limit < *least)
		*least = limit;
}

uint64_t
sysmem_available(const char *root)
{
	char		path[PATH_MAX];
	uint64_t	kb;
	uint64_t	swap_kb = 0;
	uint64_t	least = UINT64_MAX;

	snprintf(path, sizeof(path), "%s/proc/meminfo", root);
	if (read_number(path, "MemAvailable:", &kb))
	{
		(void) read_number(path, "SwapFree:", &swap_kb);
		least = (kb + swap_kb) * 1024;
	}
	cgroup_each(root, "memory", group_left, &least);
	return least;
}

int64_t
sysmem_of_process(int pid)
{
	char		path[64];
	FILE	   *f;
	long		size = 0;
	long		rss = 0;

	snprintf(path, sizeof(path), "/proc/%d/statm", pid);
	f = fopen(path, "re");
	if (f == NULL)
		return 0;
	if (fscanf(f, "%ld %ld", &size, &rss) != 2)
		rss = 0;
	fclose(f);
	return (int64_t) rss * sysconf(_SC_PAGESIZE);
}
