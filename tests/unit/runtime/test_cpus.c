/*
 * test_cpus.c
 *	  Lists of CPUs, quotas of control groups (in folders made here), and the plan that follows from the
 *	  settings.
 */
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/machine/cpus.h"
#include "base/machine/system_memory.h"
#include "tests/unit/check.h"
#include "runtime/engine_settings.h"
#include "runtime/cpu_threads.h"

/* ---- a machine with 4,096 CPUs, of which this process has four ---- */

static const int big_cpus[] = {3, 1023, 1024, 4095};
static bool big;
static int	big_bound = -1;		/* CPU that a thread was last bound to */

/* replaces the library's function */
int
sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
	long		n;

	if (!big)
	{
		memset(set, 0, size);
		n = syscall(SYS_sched_getaffinity, pid, size, set);
		return n < 0 ? -1 : 0;
	}
	if (size < 4096 / 8)
	{
		errno = EINVAL;
		return -1;
	}
	CPU_ZERO_S(size, set);
	for (int i = 0; i < 4; i++)
		CPU_SET_S(big_cpus[i], size, set);
	return 0;
}

int
sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set)
{
	if (!big)
		return (int) syscall(SYS_sched_setaffinity, pid, size, set);
	big_bound = -1;
	for (int c = 0; c < 4096 && CPU_COUNT_S(size, set) == 1; c++)
		if (CPU_ISSET_S(c, size, set))
			big_bound = c;
	return 0;
}

static void
test_many_cpus(void)
{
	static int	cpus[CPULIST_CPUS];
	static CpuPlan p;
	KPool	   *pool = NULL;
	Err			e = {0};

	big = true;
	CHECK(cpus_allowed(cpus, CPULIST_CPUS) == 4 && memcmp(cpus, big_cpus, sizeof(big_cpus)) == 0,
		  "the four of them");
	CHECK(cpus_allowed(cpus, 2) == 2, "no more than asked for");
	CHECK(cpuplan_make(0, "4095", &p, &e) && p.n_threads == 1 && p.cpus[0] == 4095, "the last one: %s",
		  e.msg);
	CHECK(!cpuplan_make(0, "4094", &p, &e), "one that isn't ours");
	CHECK(cpuplan_make(1, "4095", &p, &e) && (pool = cpuplan_pool(&p, &e)) != NULL, "%s", e.msg);
	kpool_bind(pool);
	CHECK(big_bound == 4095, "bound to CPU %d", big_bound);
	kpool_bind(NULL);
	CHECK(big_bound == -1, "bound to CPU %d afterwards", big_bound);
	kpool_free(pool);
	big = false;
}

static void
list_is(const char *s, int n, const int *expect)
{
	static int	cpus[CPULIST_CPUS];
	char		why[128] = "";
	int			got = cpulist_parse(s, cpus, why, sizeof(why));

	CHECK(got == n, "\"%s\": %d, not %d (%s)", s, got, n, why);
	for (int i = 0; i < n && i < got; i++)
		CHECK(cpus[i] == expect[i], "\"%s\": CPU %d is %d, not %d", s, i, cpus[i], expect[i]);
}

static void
test_list(void)
{
	static const char *const bad[] = {
		"x", "0,", ",0", "0-", "-1", "3-1", "0-3:0", "0-3:", "8192", "0-8192", "99999", "0,1,0", "0-3,2",
		"0 1", "auto,1", "AUTO", "0x1", "0-3:2:1", "1.5", "0,,1", "0;1", "4294967296"
	};
	char		text[CPULIST_LEN + 1];
	char		why[128];
	static int	cpus[CPULIST_CPUS];

	list_is("", 0, NULL);
	list_is("  ", 0, NULL);
	list_is("auto", CPULIST_AUTO, NULL);
	list_is("5", 1, (int[]) {5});
	list_is("0-3,8", 5, (int[]) {0, 1, 2, 3, 8});
	list_is("8,0-1", 3, (int[]) {8, 0, 1});
	list_is(" 1 , 4 - 6 ", 4, (int[]) {1, 4, 5, 6});
	list_is("0-7:2", 4, (int[]) {0, 2, 4, 6});
	list_is("0-3:9,1", 2, (int[]) {0, 1});
	list_is("8191", 1, (int[]) {8191});
	CHECK(cpulist_parse("0-8191", cpus, why, sizeof(why)) == CPULIST_CPUS, "all");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		why[0] = '\0';
		CHECK(cpulist_parse(bad[i], cpus, why, sizeof(why)) == CPULIST_BAD && why[0] != '\0', "\"%s\"",
			  bad[i]);
	}
	memset(text, '1', sizeof(text));
	text[CPULIST_LEN] = '\0';
	CHECK(cpulist_parse(text, cpus, why, sizeof(why)) == CPULIST_BAD && strstr(why, "longer") != NULL, "%s",
		  why);
}

/* ---- quotas ---- */

static void
put(const char *root, const char *path, const char *text)
{
	char		name[PATH_MAX];
	FILE	   *f;

	snprintf(name, sizeof(name), "%s%s", root, path);
	for (char *p = name + strlen(root) + 1; (p = strchr(p, '/')) != NULL; p++)
	{
		*p = '\0';
		CHECK(mkdir(name, 0700) == 0 || errno == EEXIST, "mkdir %s", name);
		*p = '/';
	}
	f = fopen(name, "w");
	CHECK(f != NULL && fputs(text, f) >= 0 && fclose(f) == 0, "write %s", name);
}

static void
quota_is(const char *root, int expect, const char *what)
{
	int			got = cpus_quota(root);

	CHECK(got == expect, "%s: %d, not %d", what, got, expect);
}

static void
test_quota(void)
{
	char		root[] = "/tmp/vllm_cpus_XXXXXX";
	char		command[64];

	CHECK(mkdtemp(root) != NULL, "folder");
	quota_is(root, 0, "no /proc");
	put(root, "/proc/self/cgroup", "0::/a/b\n");
	quota_is(root, 0, "no groups");
	put(root, "/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
	quota_is(root, 0, "no limit");
	put(root, "/sys/fs/cgroup/a/b/cpu.max", "350000 100000\n");
	quota_is(root, 3, "three and a half");
	put(root, "/sys/fs/cgroup/a/cpu.max", "200000 100000\n");
	quota_is(root, 2, "the group above has less");
	put(root, "/sys/fs/cgroup/cpu.max", "50000 100000\n");
	quota_is(root, 1, "half a CPU at the top, which is the mount of a container");
	put(root, "/proc/self/cgroup", "0::/../not/here\n");
	quota_is(root, 1, "a path from outside");
	put(root, "/proc/self/cgroup", "11:memory:/m\n4:cpu,cpuacct:/v1\n0::/nowhere\n");
	put(root, "/sys/fs/cgroup/cpu.max", "max 100000\n");
	put(root, "/sys/fs/cgroup/cpu,cpuacct/v1/cpu.cfs_quota_us", "-1\n");
	put(root, "/sys/fs/cgroup/cpu,cpuacct/v1/cpu.cfs_period_us", "100000\n");
	quota_is(root, 0, "version 1 without a limit");
	put(root, "/sys/fs/cgroup/cpu,cpuacct/v1/cpu.cfs_quota_us", "410000\n");
	quota_is(root, 4, "version 1");
	put(root, "/sys/fs/cgroup/cpu,cpuacct/v1/cpu.cfs_period_us", "nonsense\n");
	quota_is(root, 0, "no period");
	put(root, "/proc/self/cgroup", "4:cpuset:/v1\nnonsense\n::\n");
	quota_is(root, 0, "not a controller of time");
	snprintf(command, sizeof(command), "rm -rf %s", root);
	CHECK(system(command) == 0, "clean up");
}

/* ---- memory ---- */

static void
memory_is(const char *root, uint64_t expect, const char *what)
{
	uint64_t	got = sysmem_available(root);

	CHECK(got == expect, "%s: %llu bytes, not %llu", what, (unsigned long long) got,
		  (unsigned long long) expect);
}

static void
test_memory(void)
{
	char		root[] = "/tmp/vllm_test_memory_XXXXXX";
	char		command[sizeof(root) + 16];

	CHECK(mkdtemp(root) != NULL, "a folder");
	memory_is(root, UINT64_MAX, "no /proc");
	put(root, "/proc/meminfo", "MemTotal:  9000 kB\nMemFree: 1 kB\nMemAvailable:    4000 kB\nSwapFree:   500 "
							   "kB\n");
	memory_is(root, 4500 * 1024, "the machine's and swap");
	put(root, "/proc/self/cgroup", "0::/a\n");
	put(root, "/sys/fs/cgroup/a/memory.max", "max\n");
	put(root, "/sys/fs/cgroup/a/memory.current", "300000\n");
	memory_is(root, 4500 * 1024, "no limit");
	put(root, "/sys/fs/cgroup/a/memory.max", "1000000\n");
	memory_is(root, 700000, "what is left of a limit");
	put(root, "/sys/fs/cgroup/a/memory.stat", "anon 200000\nfile 100000\nfile_mapped 7\n");
	memory_is(root, 800000, "pages of files are given up");
	put(root, "/sys/fs/cgroup/memory.max", "250000\n");
	put(root, "/sys/fs/cgroup/memory.current", "350000\n");
	memory_is(root, 0, "the group above is full");
	put(root, "/proc/self/cgroup", "9:cpu:/a\n4:memory:/v1\n");
	put(root, "/sys/fs/cgroup/memory/v1/memory.limit_in_bytes", "9223372036854771712\n");
	put(root, "/sys/fs/cgroup/memory/v1/memory.usage_in_bytes", "5\n");
	memory_is(root, 4500 * 1024, "version 1 without a limit");
	put(root, "/sys/fs/cgroup/memory/v1/memory.limit_in_bytes", "1000\n");
	put(root, "/sys/fs/cgroup/memory/v1/memory.stat", "cache 3\nrss 2\n");
	memory_is(root, 998, "version 1");
	CHECK(sysmem_available("") > 1 << 20, "of this machine");
	snprintf(command, sizeof(command), "rm -rf %s", root);
	CHECK(system(command) == 0, "clean up");
}

/* ---- kernels ---- */

/* An unusable choice is an error that lists the usable ones. */
static void
test_kernels(void)
{
	Err			e = {0};

	CHECK(cpuplan_kernels("auto", &e) == kernels_select("auto", NULL), "auto");
	CHECK(cpuplan_kernels("nonesuch", &e) == NULL && e.cls == ERR_INVALID, "%s", e.msg);
	for (const Kernels *const *k = kernels_all(); *k != NULL; k++)
	{
		char		name[40];

		snprintf(name, sizeof(name), ", %s", (*k)->name);
		CHECK((strstr(e.hint, name) != NULL && strchr(", :", strstr(e.hint, name)[strlen(name)]) != NULL) ==
			  kernels_usable(*k), "%s: %s", (*k)->name, e.hint);
		CHECK(cpuplan_kernels((*k)->name, &e) == (kernels_usable(*k) ? *k : NULL), "%s", (*k)->name);
	}
}

/* ---- the plan ---- */

static void
test_plan(void)
{
	static CpuPlan p;
	static int	allowed[CPULIST_CPUS];
	int			n = cpus_allowed(allowed, CPULIST_CPUS);
	int			none = 0;
	char		text[64];
	Err			e = {0};
	KPool	   *pool = NULL;

	CHECK(n >= 1 && cpus_usable() >= 1 && cpus_usable() <= n, "%d CPUs, %d to be used", n, cpus_usable());
	CHECK(cpuplan_make(0, "", &p, &e) && p.n_threads == cpus_usable() && !p.pinned, "default: %d",
		  p.n_threads);
	CHECK(cpuplan_make(7, "", &p, &e) && p.n_threads == 7 && !p.pinned, "as told");
	CHECK(cpuplan_make(0, "auto", &p, &e) && p.n_threads == cpus_usable() && p.pinned &&
		  p.cpus[0] == allowed[0], "auto");
	CHECK(!cpuplan_make(n + 1, "auto", &p, &e) && e.cls == ERR_INVALID && e.hint[0] != '\0', "%s", e.msg);
	snprintf(text, sizeof(text), "%d", allowed[n - 1]);
	CHECK(cpuplan_make(0, text, &p, &e) && p.n_threads == 1 && p.pinned && p.cpus[0] == allowed[n - 1],
		  "one CPU");
	CHECK(!cpuplan_make(2, text, &p, &e) && e.cls == ERR_INVALID, "%s", e.msg);
	CHECK(!cpuplan_make(0, "3-1", &p, &e) && e.cls == ERR_INVALID && e.detail[0] != '\0', "%s", e.msg);
	CHECK(!cpuplan_make(CPULIST_CPUS + 1, "", &p, &e) && e.cls == ERR_INVALID, "%s", e.msg);
	for (int i = 0; i < n && allowed[i] == none; i++)
		none++;
	if (none < CPULIST_CPUS)
	{
		snprintf(text, sizeof(text), "%d", none);
		CHECK(!cpuplan_make(0, text, &p, &e) && e.cls == ERR_INVALID && strstr(e.msg, text) != NULL &&
			  e.detail[0] != '\0' && e.hint[0] != '\0', "%s; %s", e.msg, e.detail);
	}
	CHECK(cpuplan_make(0, "auto", &p, &e) && (pool = cpuplan_pool(&p, &e)) != NULL &&
		  kpool_nthreads(pool) == p.n_threads, "a pool of it");
	kpool_free(pool);
}

static void
test_settings(void)
{
	SettingsBox box;
	Settings	s;
	Err			e = {0};

	settings_box_init(&box);
	settings_get(&box, &s);
	CHECK(s.cpu_threads == 0 && s.cpu_affinity[0] == '\0' && settings_threads(&s) == cpus_usable(),
		  "defaults");
	CHECK(settings_assign(&box, "cpu_affinity=0-3,8", &e) && settings_assign(&box, "cpu_threads=3", &e), "%s",
		  e.msg);
	CHECK(!settings_assign(&box, "cpu_affinity=3-0", &e) && strstr(e.msg, "empty") != NULL, "%s", e.msg);
	settings_get(&box, &s);
	CHECK(s.cpu_threads == 3 && strcmp(s.cpu_affinity, "0-3,8") == 0, "%s", s.cpu_affinity);
	CHECK(settings_threads(&s) == 3, "as many as told, even where they could not start");
	CHECK(settings_assign(&box, "cpu_affinity=", &e) && settings_assign(&box, "cpu_affinity=auto", &e), "%s",
		  e.msg);
	CHECK(!settings_assign(&box, "num_threads=2", &e), "the old name");
}

int
main(void)
{
	RUN(test_many_cpus());
	RUN(test_list());
	RUN(test_quota());
	RUN(test_memory());
	RUN(test_kernels());
	RUN(test_plan());
	RUN(test_settings());
	return check_done("cpus");
}
