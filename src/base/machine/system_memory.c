/*
 * system_memory.c
 *	  Memory that is there: /proc/meminfo and the control groups' limits.
 *
 * A limit stands in memory.max (version 2) or memory.limit_in_bytes (version 1) of a
 * group; what its processes use in memory.current or memory.usage_in_bytes, of which
 * pages of files ("file" or "cache" in memory.stat) would be given up.
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

/* The number behind a name at the beginning of a line; name "": the file's first word. */
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

/* What a group has left; *arg is the least so far. */
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
	if (!read_number(path, "", &limit))	/* "max" is no number */
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
