/*
 * cpu_threads.c
 *	  The number of compute threads, their CPUs, and their kernels.
 *
 * Tested by tests/unit/runtime/test_cpus.c.
 */
#include "runtime/cpu_threads.h"

#include <stdio.h>
#include <string.h>

#include "base/machine/cpus.h"

static bool
is_allowed(const int *allowed, int n, int cpu)
{
	for (int i = 0; i < n; i++)
		if (allowed[i] == cpu)
			return true;
	return false;
}

/* Write the list as "0-3,8" for an error message; it is truncated if too long. */
static void
list_text(const int *cpus, int n, char *buf, size_t size)
{
	size_t		at = 0;

	buf[0] = '\0';
	for (int i = 0; i < n && at + 24 < size; i++)
	{
		int			j = i;

		while (j + 1 < n && cpus[j + 1] == cpus[j] + 1)
			j++;
		at += (size_t) snprintf(buf + at, size - at, j > i ? "%s%d-%d" : "%s%d", i > 0 ? "," : "", cpus[i],
								cpus[j]);
		i = j;
	}
}

static bool
check_allowed(const CpuPlan *p, int n, Err *e)
{
	int			allowed[CPULIST_CPUS];
	int			n_allowed = cpus_allowed(allowed, CPULIST_CPUS);
	char		text[256];

	for (int i = 0; i < n; i++)
		if (!is_allowed(allowed, n_allowed, p->cpus[i]))
		{
			list_text(allowed, n_allowed, text, sizeof(text));
			err_set(e, ERR_INVALID, "CPU %d of cpu_affinity is not available", p->cpus[i]);
			err_detail(e, "The engine may run on CPUs %s.", text);
			return err_hint(e, "Change vllm.cpu_affinity, or the affinity or cpuset of the server.");
		}
	return true;
}

bool
cpuplan_make(int threads, const char *affinity, CpuPlan *out, Err *e)
{
	char		why[128];
	int			n = cpulist_parse(affinity, out->cpus, why, sizeof(why));
	int			usable = cpus_usable();

	out->pinned = n != 0;
	if (n == CPULIST_BAD)
	{
		err_set(e, ERR_INVALID, "invalid list of CPUs \"%.64s\"", affinity);
		return err_detail(e, "%s.", why);
	}
	if (n == CPULIST_AUTO)
	{
		n = cpus_allowed(out->cpus, CPULIST_CPUS);
		usable = usable < n ? usable : n;
	}
	else if (n > 0)
	{
		if (!check_allowed(out, n, e))
			return false;
		usable = n;
	}
	out->n_threads = threads > 0 ? threads : usable;
	if (out->n_threads > CPULIST_CPUS)
		return err_set(e, ERR_INVALID, "cpu_threads must be at most %d, got %d", CPULIST_CPUS, threads);
	if (out->pinned && out->n_threads > n)
	{
		err_set(e, ERR_INVALID, "%d compute threads are more than the %d CPUs of cpu_affinity",
				out->n_threads, n);
		return err_hint(e, "Lower vllm.cpu_threads; 0 means one thread for each CPU of the list.");
	}
	return true;
}

void
cpuplan_share(CpuPlan *p, int rank, int world)
{
	int			n = p->n_threads / world > 0 ? p->n_threads / world : 1;

	/* with more ranks than CPUs, some ranks share a CPU */
	if (p->pinned)
		memmove(p->cpus, p->cpus + (rank * n + n <= p->n_threads ? rank * n : 0), (size_t) n * sizeof(int));
	p->n_threads = n;
}

const Kernels *
cpuplan_kernels(const char *isa, Err *e)
{
	char		names[128] = "";
	size_t		at = 0;
	const char *why = NULL;
	const Kernels *found = kernels_select(isa, &why);

	if (found != NULL)
		return found;
	for (const Kernels *const *k = kernels_all(); *k != NULL && at < sizeof(names); k++)
		if (kernels_usable(*k))
			at += (size_t) snprintf(names + at, sizeof(names) - at, ", %s", (*k)->name);
	err_set(e, ERR_INVALID, "cpu_isa \"%.64s\" can't be used: %s", isa, why);
	err_hint(e, "This CPU has auto%s: change vllm.cpu_isa.", names);
	return NULL;
}

KPool *
cpuplan_pool(const CpuPlan *p, Err *e)
{
	KPool	   *pool = kpool_new_on(p->n_threads, p->pinned ? p->cpus : NULL);

	if (pool == NULL)
		err_set(e, ERR_NOMEM, "could not start %d compute threads", p->n_threads);
	return pool;
}
